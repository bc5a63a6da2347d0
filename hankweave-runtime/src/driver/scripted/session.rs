//! Memory of a scripted agent between its processes: each session is a file in the temporary folder.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use hankweave_core::cost::{ModelUsage, UsageTotals};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::world::disk::{Disk, Folder, OpenedEntry, RealDisk};

/// Folder of sessions, in the temporary folder.
const FOLDER: &str = "scripted-sessions";

/// Read limit of a session file, in bytes. Our own files are much shorter.
const MAX_BYTES: u64 = 1 << 20;

/// Number of sessions above which the older half is removed. That does little harm: a codon mostly continues a recent session, and an unknown session starts
/// empty.
const MOST_SESSIONS: usize = 1_000;

/// A conversation: its number of prompts, and its usage.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScriptedSession {
    #[serde(skip)]
    pub(super) id: String,
    /// Number of prompts, that of this process included.
    pub(super) prompts: u64,
    /// Usage by model, of all processes.
    pub(super) models: BTreeMap<String, ModelUsage>,
}

/// Id of the session from which a process continues.
pub(super) enum EarlierSession {
    /// In this session.
    Resumed(String),
    /// In a copy of this session.
    Forked(String),
}

impl ScriptedSession {
    /// Opens the earlier session, a copy of it, or a new session, and counts one more prompt. A copy and a new session have the id `wanted`, else a random one.
    pub(super) fn open(earlier: Option<EarlierSession>, wanted: Option<String>, temporary: &Path) -> Self {
        let random = || Uuid::new_v4().to_string();
        let mut session = match earlier {
            Some(EarlierSession::Resumed(id)) => Self::read(id, temporary),
            Some(EarlierSession::Forked(id)) => Self {
                id: wanted.filter(|wanted| *wanted != id).unwrap_or_else(random),
                ..Self::read(id, temporary)
            },
            None => Self {
                id: wanted.unwrap_or_else(random),
                ..Self::default()
            },
        };
        session.prompts += 1;
        session
    }

    pub(super) fn totals(&self) -> UsageTotals {
        let mut totals = UsageTotals::default();
        for (model, usage) in &self.models {
            totals.add(model, *usage);
        }
        totals
    }

    pub(super) fn add(&mut self, usage: &UsageTotals) {
        let mut totals = self.totals();
        totals.merge(usage);
        self.models = totals.models;
    }

    /// Writes the session into its folder in `temporary`. If another kind of entry has the name of this folder, such as a link,
    /// it is removed and not followed.
    pub(super) fn save(&self, temporary: &Path) -> io::Result<()> {
        // A command of the script may have removed the temporary folder.
        RealDisk.make_private_dirs(temporary)?;
        let path = temporary.join(FOLDER);
        let temporary = RealDisk.open_folder(temporary)?;
        let name = OsStr::new(FOLDER);
        if !matches!(temporary.open(name), Ok(OpenedEntry::Folder(_))) {
            remove(&*temporary, name)?;
            match temporary.create_folder(name) {
                // Hankweave, which keeps the folder, has put it back meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        let OpenedEntry::Folder(folder) = temporary.open(name)? else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let file = OsString::from(file_name(&self.id));
        remove(&*folder, &file)?;
        folder.create_file(&file, 0o600, &mut &*serde_json::to_vec(self)?)?;
        remove_oldest(&*folder, &path)
    }

    /// Reads a session; one that is unknown or cannot be read starts empty.
    fn read(id: String, temporary: &Path) -> Self {
        let read_file = || {
            let OpenedEntry::Folder(folder) = RealDisk
                .open_folder(temporary)
                .ok()?
                .open(OsStr::new(FOLDER))
                .ok()?
            else {
                return None;
            };
            let OpenedEntry::File(file) = folder.open(OsStr::new(&file_name(&id))).ok()? else {
                return None;
            };
            serde_json::from_reader(file.content.take(MAX_BYTES)).ok()
        };
        let session = read_file().unwrap_or_default();
        Self { id, ..session }
    }
}

/// Removes the older half of the sessions in `folder`, which is at `path`, when there are too many.
fn remove_oldest(folder: &dyn Folder, path: &Path) -> io::Result<()> {
    if folder.names()?.len() <= MOST_SESSIONS {
        return Ok(());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_file() {
            files.push((metadata.modified()?, entry.file_name()));
        }
    }
    files.sort_unstable();
    files.truncate(files.len().saturating_sub(MOST_SESSIONS / 2));
    files.iter().try_for_each(|(_, name)| remove(folder, name))
}

/// Removes an entry, if it exists.
fn remove(folder: &dyn Folder, name: &OsStr) -> io::Result<()> {
    match folder.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns the name of a session's file. The id may be any text, so only its harmless characters are used.
fn file_name(id: &str) -> String {
    let harmless = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
    harmless.chain(".json".chars()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use super::*;

    // covers: X5
    #[test]
    fn a_session_is_kept_and_no_planted_link_is_followed() {
        let (temporary, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let prompts = |id: &str| {
            let session = ScriptedSession::open(
                Some(EarlierSession::Resumed(id.to_owned())),
                None,
                temporary.path(),
            );
            session.save(temporary.path()).unwrap();
            session.prompts
        };
        assert_eq!((prompts("s/1"), prompts("s/1"), prompts("other")), (1, 2, 1));
        let folder = temporary.path().join(FOLDER);
        let outside = elsewhere.path().join("s1.json");
        fs::write(&outside, r#"{"prompts": 7, "models": {}}"#).unwrap();
        fs::remove_file(folder.join("s1.json")).unwrap();
        symlink(&outside, folder.join("s1.json")).unwrap();
        assert_eq!(prompts("s/1"), 1, "a file that is a link");
        fs::remove_dir_all(&folder).unwrap();
        symlink(elsewhere.path(), &folder).unwrap();
        assert_eq!(
            (prompts("s/1"), prompts("s/1")),
            (1, 2),
            "a folder that is a link"
        );
        assert_eq!(
            fs::read_to_string(outside).unwrap(),
            r#"{"prompts": 7, "models": {}}"#
        );
    }

    #[test]
    fn of_a_long_night_the_newest_sessions_are_kept() {
        let temporary = tempfile::tempdir().unwrap();
        let save = |number: usize| {
            let id = format!("s{number}");
            let session = ScriptedSession::open(Some(EarlierSession::Resumed(id)), None, temporary.path());
            session.save(temporary.path()).unwrap();
            session.prompts
        };
        let folder = temporary.path().join(FOLDER);
        let begin = SystemTime::now() - Duration::from_secs(3_600);
        let count = || fs::read_dir(&folder).unwrap().count();
        for number in 0..MOST_SESSIONS {
            save(number);
            let file = fs::File::options()
                .write(true)
                .open(folder.join(format!("s{number}.json")));
            let saved_at = begin + Duration::from_secs(number as u64);
            file.unwrap().set_modified(saved_at).unwrap();
        }
        assert_eq!(count(), MOST_SESSIONS);
        save(MOST_SESSIONS);
        assert_eq!(count(), MOST_SESSIONS / 2);
        assert_eq!(save(MOST_SESSIONS - 1), 2, "a new one is known");
        assert_eq!(save(0), 1, "an old one is not");
    }
}
