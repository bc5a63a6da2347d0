//! The files in which codex writes down its sessions, read while it works and after its end.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hankweave_core::agent::{AgentRecords, RecordsScope, Rollout};
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

use crate::driver::AgentFolder;
use crate::driver::process::{GrowingFile, ProcessHost, RecordSource};
use crate::world::disk::{Disk, Folder, OpenedEntry};

/// Most lines hold what was said, and are long; these tell what it cost, and that a conversation was shortened.
const KINDS: [&str; 6] = [
    "\"turn_context\"",
    "\"token_usage_record\"",
    "\"token_count\"",
    "\"compacted\"",
    "\"thread_settings_applied\"",
    "\"web_search_call\"",
];

/// How often a file is looked for that is not there, before the end.
const MOST_LOOKS: u32 = 3;

/// The rollout files beneath one folder, of which one is read.
#[derive(Debug)]
pub(in crate::driver) struct Rollouts {
    disk: Arc<dyn Disk>,
    sessions: PathBuf,
    /// Start of this process; older lines belong to an earlier one.
    since: Option<Timestamp>,
    line_bytes: usize,
    reading: Mutex<(Option<RolloutReader>, u32)>,
}

impl Rollouts {
    /// The files of a process that works in this folder and has these variables beside those that it inherits; `None` where nothing says where they are.
    pub(in crate::driver) fn of(
        host: &ProcessHost,
        work_dir: &Path,
        own: &BTreeMap<String, String>,
        since: Option<Timestamp>,
    ) -> Option<Self> {
        let home = host.agent_folder(work_dir, own, AgentFolder::CODEX)?;
        Some(Self {
            disk: host.world().disk.clone(),
            sessions: home.join("sessions"),
            since,
            line_bytes: host.limits().line_bytes,
            reading: Mutex::new((None, 0)),
        })
    }

    /// Returns the lines written since the last call.
    fn go_on(&self, session: &str, records: RecordsScope) -> io::Result<Option<AgentRecords>> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, looks) = &mut *reading;
        if file.is_none() && (*looks < MOST_LOOKS || records == RecordsScope::Whole) {
            *looks += 1;
            let sessions = self.disk.open_folder(&self.sessions)?;
            *file = find(&*sessions, &format!("-{session}.jsonl"), 3)?.map(|content| RolloutReader {
                rollout: Rollout::new(self.since),
                file: GrowingFile::new(content, self.line_bytes),
            });
        }
        match file {
            Some(file) => file.go_on().map(Some),
            None => Ok(None),
        }
    }
}

impl RecordSource for Rollouts {
    fn read(&self, session: &SessionId, records: RecordsScope) -> Option<AgentRecords> {
        match self.go_on(session.as_str(), records) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "no rollout file of the agent");
                None
            }
        }
    }
}

/// The file whose name ends so, beneath folders of years, months and days, the newest first.
fn find(folder: &dyn Folder, end: &str, levels: u32) -> io::Result<Option<Box<dyn Read + Send>>> {
    for name in folder.names()?.iter().rev() {
        if levels > 0 {
            if let Ok(OpenedEntry::Folder(inner)) = folder.open(name)
                && let Ok(Some(found)) = find(&*inner, end, levels - 1)
            {
                return Ok(Some(found));
            }
        } else if name.to_str().is_some_and(|name| name.ends_with(end))
            && let OpenedEntry::File(file) = folder.open(name)?
        {
            return Ok(Some(file.content));
        }
    }
    Ok(None)
}

/// A file that is read as it grows.
#[derive(Debug)]
struct RolloutReader {
    rollout: Rollout,
    file: GrowingFile,
}

impl RolloutReader {
    fn go_on(&mut self) -> io::Result<AgentRecords> {
        self.file.read(|line| {
            if KINDS.iter().any(|kind| line.contains(kind)) {
                self.rollout.line(line);
            }
        })?;
        if self.file.is_cut_short() {
            self.rollout.cut_short();
        }
        Ok(self.rollout.take())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;
    use crate::world::World;

    fn response(id: &str, output: u64) -> String {
        format!(
            "{{\"timestamp\":\"2026-11-23T10:00:00.000Z\",\"type\":\"token_usage_record\",\"payload\":{{\"response_id\":\"{id}\",\
             \"usage\":{{\"output_tokens\":{output}}}}}}}\n"
        )
    }

    // covers: AGENT-17
    #[test]
    fn a_file_is_read_as_it_grows_and_no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let own = BTreeMap::from([("CODEX_HOME".to_owned(), home.path().display().to_string())]);
        let rollouts = Rollouts::of(&ProcessHost::new(&World::real()), home.path(), &own, None).unwrap();
        let session = SessionId::new("t-1").unwrap();
        let output = || {
            let recorded = rollouts.read(&session, RecordsScope::SoFar)?;
            Some(
                recorded
                    .messages
                    .iter()
                    .map(|message| message.billed.tokens.output_tokens)
                    .sum::<u64>(),
            )
        };
        assert_eq!(output(), None, "nothing is written yet");
        let day = home.path().join("sessions/2026/11/23");
        fs::create_dir_all(&day).unwrap();
        fs::write(home.path().join("elsewhere"), response("r-0", 7)).unwrap();
        let link = day.join("rollout-2026-a-t-1.jsonl");
        std::os::unix::fs::symlink(home.path().join("elsewhere"), &link).unwrap();
        assert_eq!(output(), None, "a link");
        fs::remove_file(link).unwrap();
        let path = day.join("rollout-2026-b-t-1.jsonl");
        let second = response("r-2", 200);
        let (half, rest) = second.split_at(20);
        fs::write(&path, response("r-1", 10) + half).unwrap();
        assert_eq!(output(), Some(10));
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!((output(), output()), (Some(200), Some(0)));
    }
}
