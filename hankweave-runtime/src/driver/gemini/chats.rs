//! The files in which gemini writes down its sessions, read while it works and after its end.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hankweave_core::agent::{AgentRecords, GeminiChat, RecordsScope};
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

use crate::driver::AgentFolder;
use crate::driver::process::{GrowingFile, ProcessHost, RecordSource};
use crate::world::disk::{Disk, Folder, OpenedEntry};

/// How much of the id of a session stands in the name of its file.
const ID_CHARS: usize = 8;

/// Most lines hold what was said; those of messages tell what they cost, and some name the session.
const KINDS: [&str; 2] = ["\"sessionId\"", "\"tokens\""];

/// How often a file is looked for that is not there, before the end.
const MOST_LOOKS: u32 = 3;

/// The session files beneath one folder, of which one is read.
#[derive(Debug)]
pub(in crate::driver) struct GeminiChats {
    disk: Arc<dyn Disk>,
    projects: PathBuf,
    /// Start of this process; older messages belong to an earlier one.
    since: Option<Timestamp>,
    line_bytes: usize,
    reading: Mutex<(Option<ChatReader>, u32)>,
}

impl GeminiChats {
    /// The files of a process that works in this folder and has these variables beside those that it inherits; `None` where nothing says where they are.
    pub(in crate::driver) fn of(
        host: &ProcessHost,
        work_dir: &Path,
        own: &BTreeMap<String, String>,
        since: Option<Timestamp>,
    ) -> Option<Self> {
        let home = host.agent_folder(work_dir, own, AgentFolder::GEMINI)?;
        Some(Self {
            disk: host.world().disk.clone(),
            projects: home.join(".gemini/tmp"),
            since,
            line_bytes: host.limits().line_bytes,
            reading: Mutex::new((None, 0)),
        })
    }

    /// Returns the messages written since the last call.
    fn go_on(&self, session: &SessionId, records: RecordsScope) -> io::Result<Option<AgentRecords>> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, looks) = &mut *reading;
        if let Some(file) = file {
            return file.go_on().map(Some);
        }
        if *looks < MOST_LOOKS || records == RecordsScope::Whole {
            *looks += 1;
            *file = self.find(session)?;
        }
        Ok(file.as_mut().map(|file| file.chat.take()))
    }

    /// The file of a session, which stands in a folder of its project.
    fn find(&self, session: &SessionId) -> io::Result<Option<ChatReader>> {
        let id: String = session.as_str().chars().take(ID_CHARS).collect();
        let end = format!("-{id}.jsonl");
        let projects = self.disk.open_folder(&self.projects)?;
        for project in projects.names()? {
            let Ok(OpenedEntry::Folder(project)) = projects.open(&project) else {
                continue;
            };
            let Ok(OpenedEntry::Folder(chats)) = project.open(OsStr::new("chats")) else {
                continue;
            };
            if let Some(found) = self.find_in(&*chats, session, &end)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Several sessions may begin alike, so the file has to name it.
    fn find_in(&self, chats: &dyn Folder, session: &SessionId, end: &str) -> io::Result<Option<ChatReader>> {
        for name in chats.names()?.iter().rev() {
            let is_like_it = name.to_str().is_some_and(|name| name.ends_with(end));
            if let (true, OpenedEntry::File(file)) = (is_like_it, chats.open(name)?) {
                let mut reader = ChatReader {
                    chat: GeminiChat::new(session.clone(), self.since),
                    file: GrowingFile::new(file.content, self.line_bytes),
                };
                reader.read()?;
                if reader.chat.is_of_session() {
                    return Ok(Some(reader));
                }
            }
        }
        Ok(None)
    }
}

impl RecordSource for GeminiChats {
    fn read(&self, session: &SessionId, records: RecordsScope) -> Option<AgentRecords> {
        match self.go_on(session, records) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "no session file of the agent");
                None
            }
        }
    }
}

/// A file that is read as it grows.
#[derive(Debug)]
struct ChatReader {
    chat: GeminiChat,
    file: GrowingFile,
}

impl ChatReader {
    fn go_on(&mut self) -> io::Result<AgentRecords> {
        self.read()?;
        Ok(self.chat.take())
    }

    fn read(&mut self) -> io::Result<()> {
        self.file.read(|line| {
            if KINDS.iter().any(|kind| line.contains(kind)) {
                self.chat.line(line);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;
    use crate::world::World;

    fn named(session: &str) -> String {
        format!("{{\"sessionId\":\"{session}\",\"kind\":\"main\"}}\n")
    }

    fn message(id: &str, output: u64) -> String {
        format!(
            "{{\"id\":\"{id}\",\"type\":\"gemini\",\"content\":\"\",\"tokens\":{{\"output\":{output}}},\"model\":\"m\"}}\n"
        )
    }

    // covers: AGENT-29
    #[test]
    fn a_session_file_of_gemini_is_found_by_its_session_and_read_as_it_grows() {
        let home = tempfile::tempdir().unwrap();
        let own = BTreeMap::from([("GEMINI_CLI_HOME".to_owned(), home.path().display().to_string())]);
        let chats = GeminiChats::of(&ProcessHost::new(&World::real()), home.path(), &own, None).unwrap();
        let session = SessionId::new("0123abcd-1").unwrap();
        let output = || {
            let recorded = chats.read(&session, RecordsScope::Whole)?;
            let messages = recorded.messages.iter();
            Some(
                messages
                    .map(|message| message.billed.tokens.output_tokens)
                    .sum::<u64>(),
            )
        };
        assert_eq!(output(), None, "nothing is written yet");
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
        assert_eq!(output(), None, "a link, and a session that begins alike");
        fs::remove_file(link).unwrap();
        let path = folder.join("session-2026-a-0123abcd.jsonl");
        let second = message("m-2", 200);
        let (half, rest) = second.split_at(20);
        fs::write(&path, named("0123abcd-1") + &message("m-1", 10) + half).unwrap();
        assert_eq!(output(), Some(10));
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!((output(), output()), (Some(200), Some(0)));
    }
}
