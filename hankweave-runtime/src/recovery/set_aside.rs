//! Moves aside entries of the state directory that are of another kind than their names promise: a link that leads elsewhere, a pipe
//! without a writer, a folder instead of a file.
//!
//! This happens when a directory is opened, before anything reads these entries, so that they block no start. A notice names the new
//! paths and the consequences.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use hankweave_core::discovery::{READ_ONLY_TOKEN_FILE, TOKEN_FILE};
use hankweave_core::time::Timestamp;

use super::shield::SHIELD;
use crate::paths::{ExecutionDir, PORT_FILE};
use crate::world::disk::{self, Disk, FileKind, QuarantinedEntry};

/// Our folders, and the end of the notice: what is out of reach without them. The repository of checkpoints is not listed; it repairs itself.
const FOLDERS: [(&str, &str); 4] = [
    ("events", "; the history of events starts again"),
    ("runs", "; the logs of earlier runs are out of reach"),
    ("logs", ""),
    ("tmp", "; sessions of agents that lay in it are out of reach"),
];

/// Our files, and the end of the notice: what is lost without them. state.json is not listed; the store handles it and its backup.
const FILES: [(&str, &str); 9] = [
    (
        "state.log",
        "; what happened after state.json was saved last cannot be rebuilt",
    ),
    ("state.json.bak", "; the backup of state.json starts again"),
    (TOKEN_FILE, ""),
    (READ_ONLY_TOKEN_FILE, ""),
    (PORT_FILE, "; an open page may not find the next run"),
    ("data.json", ""),
    ("execution-meta.json", ""),
    ("archive-manifest.json", "; the archive has lost its list"),
    ("aftermath.json", ""),
];

/// Folders whose entries are all of one kind, that kind, and the end of the notice about an entry of another kind.
const ENTRIES: [(&str, FileKind, &str); 3] = [
    ("events", FileKind::File, "; the events in it are out of reach"),
    ("runs", FileKind::Directory, ""),
    ("logs", FileKind::File, ""),
];

/// Moves aside entries of another kind than their names promise; returns a line for each. The instance lock must be
/// held.
pub(super) fn set_aside(disk: &dyn Disk, dir: &ExecutionDir, now: Timestamp) -> io::Result<Vec<String>> {
    let state_dir = dir.state_dir();
    let mut lines = Vec::new();
    let mut check = |path: &Path, kind, cost: &str| -> io::Result<()> {
        lines.extend(disk::only(disk, path, kind, now)?.map(|aside| describe(&aside, cost)));
        Ok(())
    };
    for name in disk.list_dir(&state_dir)? {
        if let Some((kind, cost)) = name.to_str().and_then(expected) {
            check(&state_dir.join(&name), kind, cost)?;
        }
    }
    for (folder, kind, cost) in ENTRIES {
        let folder = state_dir.join(folder);
        let names = match disk.list_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names?,
        };
        for name in names
            .iter()
            .filter(|name| !was_set_aside(name) && *name != SHIELD)
        {
            check(&folder.join(name), kind, cost)?;
        }
    }
    Ok(lines)
}

/// Returns the notice for the user; `cost` is its end.
pub(super) fn describe(aside: &QuarantinedEntry, cost: &str) -> String {
    let QuarantinedEntry { name, kind, kept } = aside;
    format!(
        "`{}` was {kind} and is kept as {}{cost}",
        name.display(),
        kept.display()
    )
}

/// Returns the required kind of an entry of the state directory, and the end of the notice about another kind; `None` for names that are not
/// listed. A temporary file, which a killed process may leave, is a file.
fn expected(name: &str) -> Option<(FileKind, &'static str)> {
    let in_list = |list: &[(&str, &'static str)], name| {
        let found = list.iter().find(|(listed, _)| *listed == name);
        found.map(|(_, cost)| *cost)
    };
    let folder = in_list(&FOLDERS, name).map(|cost| (FileKind::Directory, cost));
    let file = || in_list(&FILES, name).map(|cost| (FileKind::File, cost));
    let temporary = || {
        let target = name.strip_suffix(".tmp")?;
        (target == "state.json" || in_list(&FILES, target).is_some()).then_some((FileKind::File, ""))
    };
    folder.or_else(file).or_else(temporary)
}

/// Whether an earlier start has moved this entry aside: [`disk::only`] gives such a name.
fn was_set_aside(name: &OsStr) -> bool {
    name.to_string_lossy().contains(".damaged-")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::world::disk::RealDisk;

    // covers: X5
    #[test]
    fn only_what_cannot_be_ours_is_set_aside_and_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ExecutionDir::new(folder.path().to_owned());
        let state_dir = dir.state_dir();
        let elsewhere = folder.path().join("elsewhere");
        for kept in ["runs/1-a-b", "events", "of-others"] {
            fs::create_dir_all(state_dir.join(kept)).unwrap();
        }
        fs::write(state_dir.join("events/000001.jsonl"), "").unwrap();
        fs::create_dir(&elsewhere).unwrap();
        for link in [
            "logs",
            "runs/2-a-b",
            "events/000002.jsonl",
            "state.json",
            "of-others/x",
        ] {
            symlink(&elsewhere, state_dir.join(link)).unwrap();
        }
        for wrong in ["state.log", "state.json.bak", "state.json.tmp", "token"] {
            fs::create_dir(state_dir.join(wrong)).unwrap();
        }
        let now = Timestamp::parse("2025-01-04T12:00:00Z").unwrap();
        let lines = set_aside(&RealDisk, &dir, now).unwrap();
        assert_eq!(lines.len(), 7, "{lines:#?}");
        for name in [
            "logs",
            "runs/2-a-b",
            "events/000002.jsonl",
            "state.log",
            "state.json.bak",
            "state.json.tmp",
            "token",
        ] {
            let path = state_dir.join(name);
            assert!(path.symlink_metadata().is_err(), "{name}");
            let kept = format!("{}.damaged-2025-01-04T12-00-00.000Z", path.display());
            assert!(Path::new(&kept).symlink_metadata().is_ok(), "{name}");
            assert!(lines.iter().any(|line| line.contains(&kept)), "{name}");
        }
        assert_eq!(set_aside(&RealDisk, &dir, now).unwrap(), Vec::<String>::new());
        for kept in ["runs/1-a-b", "events/000001.jsonl", "state.json", "of-others/x"] {
            assert!(state_dir.join(kept).symlink_metadata().is_ok(), "{kept}");
        }
    }
}
