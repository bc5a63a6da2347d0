//! Session files of gemini: `PROJECT/chats/session-TIME-ID.jsonl`, with those of sub-agents in a folder next to it.

use std::ffi::OsStr;
use std::io;

use hankweave_agents::GeminiChat;

use crate::driver::AgentFolder;
use crate::driver::process::{Candidates, FoundSession, SessionFormat, SubAgentFormat};
use crate::world::disk::{Folder, OpenedEntry};

/// Number of characters of a session's id that the name of its file contains.
const ID_CHARS: usize = 8;

pub(in crate::driver) static CHATS: SessionFormat = SessionFormat {
    home: AgentFolder::GEMINI,
    sessions: ".gemini/tmp",
    lines: |session| Box::new(GeminiChat::new(session.id.clone(), session.since)),
    sub_agents: Some(SubAgentFormat {
        folder: |session| session.into(),
        lines: |session| Box::new(GeminiChat::of_sub_agent(session.since)),
    }),
    is_read_again: false,
    find: |projects, candidates| find(projects, candidates).map(Vec::from_iter),
};

/// Finds the file of a session in the folders of all projects. The names of several files may end alike, so `first_of` checks the id inside.
fn find(projects: &dyn Folder, candidates: &Candidates<'_>) -> io::Result<Option<FoundSession>> {
    let id: String = candidates.session.as_str().chars().take(ID_CHARS).collect();
    let end = format!("-{id}.jsonl");
    let may_be_file = |name: &OsStr| name.to_str().is_some_and(|name| name.ends_with(&end));
    for project in projects.names()? {
        let Ok(OpenedEntry::Folder(project)) = projects.open(&project) else {
            continue;
        };
        let Ok(OpenedEntry::Folder(chats)) = project.open(OsStr::new("chats")) else {
            continue;
        };
        let names = chats.names()?;
        let newest_first = names.iter().rev().filter(|name| may_be_file(name));
        if let Some(file) = candidates.first_of(&*chats, newest_first)? {
            return Ok(Some(FoundSession::within(chats, file)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::path::Path;

    use hankweave_agents::{RecordedMessage, RecordsScope};
    use hankweave_core::cost::pricing::Prices;
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::process::{ProcessHost, RecordSource, SessionFiles};
    use crate::world::World;

    fn named(session: &str) -> String {
        format!("{{\"sessionId\":\"{session}\",\"kind\":\"main\"}}\n")
    }

    fn message(id: &str, output: u64) -> String {
        format!(
            "{{\"id\":\"{id}\",\"type\":\"gemini\",\"content\":\"\",\"tokens\":{{\"output\":{output}}},\"model\":\"m\"}}\n"
        )
    }

    /// The files of a process with this home.
    fn chats(home: &Path) -> SessionFiles {
        let own = BTreeMap::from([("GEMINI_CLI_HOME".to_owned(), home.display().to_string())]);
        let host = ProcessHost::new(&World::real());
        SessionFiles::of(&CHATS, &host, home, &own, None, &Prices::listed()).unwrap()
    }

    fn output(messages: &[RecordedMessage]) -> u64 {
        let tokens = messages.iter().map(|message| message.billed.tokens);
        tokens.map(|tokens| tokens.output_tokens).sum()
    }

    /// Output tokens of the session and of its sub-agents since the last call.
    fn read(chats: &SessionFiles) -> Option<(u64, u64)> {
        let session = SessionId::new("0123abcd-1").unwrap();
        let recorded = chats.read(&session, &[], RecordsScope::Whole)?;
        Some((output(&recorded.messages), output(&recorded.sub_agents)))
    }

    // covers: AGENT-29
    #[test]
    fn a_session_file_of_gemini_is_found_by_its_session_and_read_as_it_grows() {
        let home = tempfile::tempdir().unwrap();
        let chats = chats(home.path());
        assert_eq!(read(&chats), None, "nothing is written yet");
        let folder = home.path().join(".gemini/tmp/work/chats");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(home.path().join(".gemini/tmp/bin")).unwrap();
        fs::write(
            home.path().join("elsewhere"),
            named("0123abcd-1") + &message("m-0", 7),
        )
        .unwrap();
        let link = folder.join("session-2026-c-0123abcd.jsonl");
        std::os::unix::fs::symlink(home.path().join("elsewhere"), &link).unwrap();
        let other = named("0123abcd-2") + &message("m-0", 7);
        fs::write(folder.join("session-2026-b-0123abcd.jsonl"), other).unwrap();
        assert_eq!(read(&chats), None, "a link, and a session that begins alike");
        fs::remove_file(link).unwrap();
        let path = folder.join("session-2026-a-0123abcd.jsonl");
        let second = message("m-2", 200);
        let (half, rest) = second.split_at(20);
        fs::write(&path, named("0123abcd-1") + &message("m-1", 10) + half).unwrap();
        assert_eq!(read(&chats), Some((10, 0)));
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!((read(&chats), read(&chats)), (Some((200, 0)), Some((0, 0))));
    }

    // covers: AGENT-29
    #[test]
    fn files_of_sub_agents_of_gemini_are_read_as_they_appear_and_grow() {
        let home = tempfile::tempdir().unwrap();
        let chats = chats(home.path());
        let folder = home.path().join(".gemini/tmp/work/chats");
        fs::create_dir_all(&folder).unwrap();
        let main = named("0123abcd-1") + &message("m-1", 10);
        fs::write(folder.join("session-2026-a-0123abcd.jsonl"), main).unwrap();
        assert_eq!(read(&chats), Some((10, 0)));
        for other in ["0123abcd-2", "0123abcd-1"] {
            let helpers = folder.join(other);
            fs::create_dir_all(&helpers).unwrap();
            fs::write(helpers.join("h-1.jsonl"), named("h-1") + &message("m-2", 200)).unwrap();
        }
        let helpers = folder.join("0123abcd-1");
        std::os::unix::fs::symlink(folder.join("0123abcd-2/h-1.jsonl"), helpers.join("h-2.jsonl")).unwrap();
        assert_eq!(
            read(&chats),
            Some((0, 200)),
            "neither a link nor another session's"
        );
        let first = OpenOptions::new().append(true).open(helpers.join("h-1.jsonl"));
        first
            .unwrap()
            .write_all(message("m-3", 3_000).as_bytes())
            .unwrap();
        fs::write(helpers.join("h-3.jsonl"), named("h-3") + &message("m-4", 40_000)).unwrap();
        assert_eq!((read(&chats), read(&chats)), (Some((0, 43_000)), Some((0, 0))));
    }
}
