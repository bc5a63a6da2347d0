//! Session files of claude, its transcripts: `PROJECT/SESSION.jsonl`, with those of sub-agents in `PROJECT/SESSION/subagents`.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use hankweave_agents::Transcript;

use crate::driver::AgentFolder;
use crate::driver::process::{Candidates, FoundSession, SessionFormat, SubAgentFormat, is_plain};
use crate::world::disk::{Folder, OpenedEntry};

pub(in crate::driver) static TRANSCRIPTS: SessionFormat = SessionFormat {
    home: AgentFolder::CLAUDE,
    sessions: "projects",
    lines: |session| Box::new(Transcript::new(session.since).priced_by(session.prices.clone())),
    sub_agents: Some(SubAgentFormat {
        folder: |session| Path::new(session).join("subagents"),
        lines: |session| Box::new(Transcript::of_sub_agent(session.since)),
    }),
    is_read_again: true,
    find,
};

/// Finds the files with the name of the session. A session that was continued in another folder has a file in each of these projects.
fn find(projects: &dyn Folder, candidates: &Candidates<'_>) -> io::Result<Vec<FoundSession>> {
    let session = candidates.session.as_str();
    if !is_plain(session) {
        return Ok(Vec::new());
    }
    let name = OsString::from(format!("{session}.jsonl"));
    let mut found = Vec::new();
    for project in projects.names()? {
        if let Ok(OpenedEntry::Folder(project)) = projects.open(&project)
            && let Some(file) = candidates.first_of(&*project, std::iter::once(&name))?
        {
            found.push(FoundSession::within(project, file));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use hankweave_agents::{AgentDecoder, ClaudeDecoder, ProcessEnd, RecordsScope};
    use hankweave_core::agent::{EndedBy, ProcessExit};
    use hankweave_core::cost::pricing::Prices;
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::process::{ProcessHost, RecordSource, SessionFiles};
    use crate::world::World;

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5"}"#;

    fn answer(id: &str, output: u64) -> String {
        format!(
            "{{\"type\":\"assistant\",\"message\":{{\"id\":\"{id}\",\"model\":\"claude-sonnet-4-5\",\"stop_reason\":\"end_turn\",\
             \"usage\":{{\"output_tokens\":{output}}}}}}}\n"
        )
    }

    fn transcripts(config: &Path) -> SessionFiles {
        let own = BTreeMap::from([("CLAUDE_CONFIG_DIR".to_owned(), config.display().to_string())]);
        let host = ProcessHost::new(&World::real());
        SessionFiles::of(&TRANSCRIPTS, &host, config, &own, None, &Prices::listed()).unwrap()
    }

    fn output_of(config: &Path) -> u64 {
        let transcripts = transcripts(config);
        let mut decoder = ClaudeDecoder::new(false);
        decoder.line(INIT);
        let session = decoder.records_needed(RecordsScope::Whole).unwrap().clone();
        let recorded = transcripts.read(&session, &[], RecordsScope::Whole);
        decoder.recall(RecordsScope::Whole, recorded, &mut Vec::new());
        let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Signaled(9), EndedBy::Us));
        outcome.usage.tokens.output_tokens
    }

    #[test]
    fn sub_agents_count_and_nothing_outside_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("projects/-a");
        let helpers = project.join("s-1/subagents");
        fs::create_dir_all(&helpers).unwrap();
        assert_eq!(output_of(folder.path()), 0, "nothing is written yet");
        fs::write(project.join("s-1.jsonl"), answer("m-1", 10) + "{\"half").unwrap();
        fs::write(helpers.join("agent-1.jsonl"), answer("m-2", 200)).unwrap();
        fs::write(project.join("s-2.jsonl"), answer("m-3", 3_000)).unwrap();
        assert_eq!(output_of(folder.path()), 210);

        let outside = folder.path().join("outside.jsonl");
        fs::write(&outside, answer("m-4", 40_000)).unwrap();
        symlink(&outside, helpers.join("agent-2.jsonl")).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            helpers.join("agent-3.jsonl"),
            rustix::fs::Mode::RUSR,
        )
        .unwrap();
        symlink(&project, folder.path().join("projects/-b")).unwrap();
        assert_eq!(output_of(folder.path()), 210);
    }

    // covers: AGENT-8, HANK-37
    #[test]
    fn transcripts_of_sub_agents_are_read_as_they_grow_and_all_once_more_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let helpers = folder.path().join("projects/-a/s-1/subagents");
        fs::create_dir_all(&helpers).unwrap();
        fs::write(folder.path().join("projects/-a/s-1.jsonl"), answer("m-1", 10)).unwrap();
        let transcripts = transcripts(folder.path());
        let session = SessionId::new("s-1").unwrap();
        let read = |records| {
            let told = transcripts.read(&session, &[], records).unwrap().sub_agents;
            told.iter()
                .map(|told| told.billed.tokens.output_tokens)
                .sum::<u64>()
        };
        assert_eq!(read(RecordsScope::Meanwhile), 0);
        let first = helpers.join("agent-1.jsonl");
        fs::write(&first, answer("m-2", 200)).unwrap();
        assert_eq!(read(RecordsScope::Meanwhile), 200);
        let more = OpenOptions::new().append(true).open(&first);
        more.unwrap().write_all(answer("m-3", 3_000).as_bytes()).unwrap();
        fs::write(helpers.join("agent-2.jsonl"), answer("m-4", 40_000)).unwrap();
        assert_eq!(
            (read(RecordsScope::Meanwhile), read(RecordsScope::Meanwhile)),
            (43_000, 0)
        );
        assert_eq!(read(RecordsScope::Whole), 43_200);
    }
}
