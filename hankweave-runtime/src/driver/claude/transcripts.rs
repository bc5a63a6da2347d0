//! The files in which claude writes down its conversations, read when a process did not live to say what it had used.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::agent::{AgentRecords, RecordsScope, Transcript};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

use crate::driver::AgentFolder;
use crate::driver::process::{LineFramer, OutputLine, ProcessHost, RecordSource};
use crate::world::disk::{Disk, Folder, OpenedEntry};

/// Read limit, in bytes.
const MOST_BYTES: u64 = 512 << 20;

/// Most lines hold what was said, and are long; these tell what it cost.
const KINDS: [&str; 3] = ["\"assistant\"", "\"api-request\"", "\"cost-state\""];

/// Size of one read.
const CHUNK_BYTES: usize = 64 << 10;

/// The transcripts beneath one configuration folder.
#[derive(Debug, Clone)]
pub(in crate::driver) struct Transcripts {
    disk: Arc<dyn Disk>,
    projects: PathBuf,
    /// Nothing older belongs to the process that is asked about.
    since: Option<Timestamp>,
    line_bytes: usize,
    prices: Arc<Prices>,
}

impl Transcripts {
    /// The transcripts of a process that works in this folder and has these variables beside those that it inherits; `None` where nothing says where
    /// they are. What claude itself has put no price on is counted at these prices.
    pub(in crate::driver) fn of(
        host: &ProcessHost,
        work_dir: &Path,
        own: &BTreeMap<String, String>,
        since: Option<Timestamp>,
        prices: &Arc<Prices>,
    ) -> Option<Self> {
        let config = host.agent_folder(work_dir, own, AgentFolder::CLAUDE)?;
        Some(Self {
            disk: host.world().disk.clone(),
            projects: config.join("projects"),
            since,
            line_bytes: host.limits().line_bytes,
            prices: prices.clone(),
        })
    }

    fn look_through(&self, session: &str, records: RecordsScope) -> io::Result<Option<AgentRecords>> {
        let plain = |character: char| character.is_ascii_alphanumeric() || character == '-';
        if session.is_empty() || !session.chars().all(plain) {
            return Ok(None);
        }
        let projects = self.disk.open_folder(&self.projects)?;
        let mut reading = TranscriptReader {
            transcript: Transcript::new(self.since).priced_by(self.prices.clone()),
            left: MOST_BYTES,
            line_bytes: self.line_bytes,
        };
        let mut found = false;
        for project in projects.names()? {
            let Ok(OpenedEntry::Folder(project)) = projects.open(&project) else {
                continue;
            };
            let Ok(OpenedEntry::File(main)) = project.open(OsStr::new(&format!("{session}.jsonl"))) else {
                continue;
            };
            found = true;
            if records == RecordsScope::Whole {
                reading.file(main.content)?;
            }
            let helpers = Path::new(session).join("subagents");
            if let Ok(OpenedEntry::Folder(helpers)) = project.find(&helpers) {
                reading.all_of(&*helpers)?;
            }
        }
        Ok(found.then(|| reading.transcript.finish()))
    }
}

impl RecordSource for Transcripts {
    fn read(&self, session: &SessionId, records: RecordsScope) -> Option<AgentRecords> {
        match self.look_through(session.as_str(), records) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "no transcript of the agent");
                None
            }
        }
    }
}

struct TranscriptReader {
    transcript: Transcript,
    left: u64,
    line_bytes: usize,
}

impl TranscriptReader {
    fn all_of(&mut self, folder: &dyn Folder) -> io::Result<()> {
        for name in folder.names()? {
            match folder.open(&name) {
                Ok(OpenedEntry::File(file)) => self.file(file.content)?,
                Ok(OpenedEntry::Folder(_) | OpenedEntry::Other(_)) => {}
                // What it says counts, and nobody knows it.
                Err(_) => self.transcript.cut_short(),
            }
        }
        Ok(())
    }

    fn file(&mut self, content: Box<dyn Read + Send>) -> io::Result<()> {
        let mut content = content.take(self.left);
        let mut framer = LineFramer::new(self.line_bytes);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let length = content.read(&mut chunk)?;
            let mut rest = &chunk[..length];
            while let Some(line) = framer.next(&mut rest) {
                self.line(&line);
            }
            if length == 0 {
                break;
            }
        }
        self.left = content.limit();
        if self.left == 0 {
            self.transcript.cut_short();
        }
        // A last line without its end was being written.
        self.transcript.end_file();
        Ok(())
    }

    fn line(&mut self, line: &OutputLine<'_>) {
        // One that is too long may be an answer; then its request stays without one.
        if let OutputLine::Text(text) = line
            && (KINDS.iter().any(|kind| text.contains(kind)))
        {
            self.transcript.line(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use hankweave_core::agent::{AgentDecoder, ClaudeDecoder, EndedBy, ProcessEnd, ProcessExit};

    use super::*;
    use crate::world::World;

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5"}"#;

    fn answer(id: &str, output: u64) -> String {
        format!(
            "{{\"type\":\"assistant\",\"message\":{{\"id\":\"{id}\",\"model\":\"claude-sonnet-4-5\",\"stop_reason\":\"end_turn\",\
             \"usage\":{{\"output_tokens\":{output}}}}}}}\n"
        )
    }

    fn output_of(config: &Path) -> u64 {
        let own = BTreeMap::from([("CLAUDE_CONFIG_DIR".to_owned(), config.display().to_string())]);
        let host = ProcessHost::new(&World::real());
        let transcripts = Transcripts::of(&host, config, &own, None, &Prices::listed()).unwrap();
        let mut decoder = ClaudeDecoder::new(false);
        decoder.line(INIT);
        let session = decoder.records_needed(RecordsScope::Whole).unwrap().clone();
        let recorded = transcripts.read(&session, RecordsScope::Whole);
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
}
