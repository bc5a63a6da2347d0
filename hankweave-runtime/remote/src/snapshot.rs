//! Contents of a record, read from an execution directory for a push. While a run works in the directory, they are what a
//! start would find after a crash at that moment (RUN-28).

use std::path::{Path, PathBuf};

use hankweave_core::document::HankweaveState;
use hankweave_core::hank::paths::reference;
use hankweave_core::hank::references;
use hankweave_core::state::StateSource;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::inspect;
use hankweave_runtime::instance_lock::live_record;
use hankweave_runtime::state_manager::peek;
use hankweave_runtime::store::{FoundFile, FoundState, StateFiles};
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{Disk, IoError, read_if_present};

use crate::contents::{FileSource, PIECE, RecordFile};
use crate::error::RemoteError;
use crate::files::{add, list, walk};
use crate::manifest::{ExecutionMeta, HANK, STATE, is_of_a_record};
use crate::sessions::{self, Sessions};

/// Maximum number of times that state.json is read again, because a live run replaces it now and then.
const MOST_LOOKS: usize = 20;

/// Longest execution-meta.json that is read, in bytes; ours are shorter.
const MAX_META_BYTES: u64 = 1 << 20;

/// Contents of a record, without the checkpoints.
#[derive(Debug)]
pub(crate) struct RecordSnapshot {
    pub(crate) state: HankweaveState,
    pub(crate) contents: Vec<RecordFile>,
    /// Last event number in the journal.
    pub(crate) last_event: u64,
    /// File of the hank, relative to the execution directory; `None` if it is elsewhere.
    pub(crate) hank: Option<String>,
    pub(crate) meta: ExecutionMeta,
    pub(crate) sessions: Sessions,
}

/// Reads the record of a directory. Blocks; takes no lock.
pub(crate) fn take(world: &World, dir: &ExecutionDir) -> Result<RecordSnapshot, RemoteError> {
    let disk = &*world.disk;
    let is_live = live_record(disk, &*world.identity, &dir.state_dir()).is_some();
    let found = find_state(world, dir)?;
    let state = document(&found)?;
    let last = match is_live {
        // The run may have written later entries of the journal since the state was read.
        true => found.log.last_seq(),
        false => u64::MAX,
    };
    let mut contents = state_files(disk, dir, &found)?;
    let last_event = add_journal(disk, dir, last, &mut contents)?;
    add_others(disk, &dir.state_dir(), &mut contents)?;
    let hank = add_hank(disk, dir, &mut contents);
    let path = dir.execution_meta();
    let meta = read_if_present(disk, &path, MAX_META_BYTES).map_err(IoError::at("read", &path))?;
    let meta = ExecutionMeta::of(&meta.unwrap_or_default(), hank.is_some());
    let sessions = sessions::collect(world, dir, &state, &mut contents)?;
    Ok(RecordSnapshot {
        state,
        contents,
        last_event,
        hank,
        meta,
        sessions,
    })
}

/// Returns the history of runs in a directory as a start would find it, also while a run works there. Blocks; takes no lock.
///
/// # Errors
///
/// [`RemoteError::NothingRecorded`] when there is none, [`RemoteError::Unreadable`] when it cannot be read.
pub fn history(world: &World, dir: &ExecutionDir) -> Result<HankweaveState, RemoteError> {
    document(&find_state(world, dir)?)
}

/// Reads state.json and the state log, again until they match or the attempts are used up.
fn find_state(world: &World, dir: &ExecutionDir) -> Result<FoundState, RemoteError> {
    let files = StateFiles::new(world.disk.clone(), None, dir.state_dir());
    let unreadable = |error: &dyn std::error::Error| RemoteError::Unreadable {
        why: error.to_string(),
    };
    let mut found = files.find().map_err(|error| unreadable(&error))?;
    for _ in 0..MOST_LOOKS {
        let fits = match &found.primary {
            FoundFile::Bytes(bytes) => found.log.knows(bytes),
            FoundFile::Absent | FoundFile::Unusable => true,
        };
        if fits {
            break;
        }
        found = files.find().map_err(|error| unreadable(&error))?;
    }
    Ok(found)
}

/// Returns the document that a start would load.
pub(crate) fn document(found: &FoundState) -> Result<HankweaveState, RemoteError> {
    let recovered = peek(found, false, Vec::new);
    if recovered.history_was_reset || !matches!(recovered.source, StateSource::Primary | StateSource::Backup)
    {
        let problems = recovered.primary_problems.iter().map(ToString::to_string);
        let why = problems.collect::<Vec<_>>().join("; ");
        return match found.primary {
            FoundFile::Absent if !found.traces => Err(RemoteError::NothingRecorded),
            _ => Err(RemoteError::Unreadable {
                why: format!("state.json: {why}"),
            }),
        };
    }
    match recovered.state.runs.is_empty() {
        true => Err(RemoteError::NothingRecorded),
        false => Ok(recovered.state),
    }
}

/// Returns state.json, or its backup, and the state log.
fn state_files(
    disk: &dyn Disk,
    dir: &ExecutionDir,
    found: &FoundState,
) -> Result<Vec<RecordFile>, RemoteError> {
    let mut contents = Vec::new();
    let mut add = |name: &str, bytes: Vec<u8>| {
        contents.push(RecordFile {
            path: format!("{STATE}/{name}"),
            source: FileSource::Bytes(bytes),
        });
    };
    if let FoundFile::Bytes(bytes) = &found.primary {
        add("state.json", bytes.clone());
    } else if let Ok(FoundFile::Bytes(bytes)) = found.backup() {
        add("state.json", bytes.clone());
    }
    // Only the part that is known to be durable, without the zeros after it.
    let path = dir.state_dir().join("state.log");
    let length = usize::try_from(found.log.last_write.end).unwrap_or(usize::MAX);
    if length > 0 && length < usize::MAX {
        let read = disk
            .read_at(&path, 0, length)
            .map_err(IoError::at("read", &path))?;
        add("state.log", read);
    }
    Ok(contents)
}

/// Adds the complete lines of the journal with event numbers up to `last`, and returns the greatest of these numbers.
fn add_journal(
    disk: &dyn Disk,
    dir: &ExecutionDir,
    last: u64,
    contents: &mut Vec<RecordFile>,
) -> Result<u64, RemoteError> {
    let mut files = Vec::new();
    walk(disk, &dir.events(), "events", 0, &mut files)?;
    let mut last_event = 0;
    for (path, file, length) in files {
        let (whole, newest) = lines_up_to(disk, &file, length, last).map_err(IoError::at("read", &file))?;
        last_event = newest.unwrap_or(last_event);
        if whole > 0 {
            contents.push(RecordFile {
                path: format!("{STATE}/{path}"),
                source: FileSource::File(file, whole),
            });
        }
    }
    Ok(last_event)
}

/// Returns the length in bytes of the complete lines with event numbers up to `last`, and the greatest of these numbers.
fn lines_up_to(disk: &dyn Disk, file: &Path, length: u64, last: u64) -> std::io::Result<(u64, Option<u64>)> {
    let (mut whole, mut newest) = (0, None);
    let (mut read, mut line): (u64, Vec<u8>) = (0, Vec::new());
    while read < length {
        let chunk = disk.read_at(file, read, PIECE.min(length - read) as usize)?;
        if chunk.is_empty() {
            break;
        }
        for (place, byte) in chunk.iter().enumerate() {
            if *byte != b'\n' {
                // The number is at the start of the line.
                if line.len() < 40 {
                    line.push(*byte);
                }
                continue;
            }
            match number_of(&line) {
                Some(number) if number > last => return Ok((whole, newest)),
                number => newest = number.or(newest),
            }
            whole = read + place as u64 + 1;
            line.clear();
        }
        read += chunk.len() as u64;
    }
    Ok((whole, newest))
}

/// Returns the event number at the start of a line.
fn number_of(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"seq\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// Adds the remaining entries of the state directory that belong to a record.
fn add_others(disk: &dyn Disk, state_dir: &Path, contents: &mut Vec<RecordFile>) -> Result<(), RemoteError> {
    let is_added_before = |name: &str| matches!(name, "events" | "state.json" | "state.log");
    for name in list(disk, state_dir)? {
        let Some(name) = name
            .to_str()
            .filter(|name| is_of_a_record(name) && !is_added_before(name))
        else {
            continue;
        };
        add(disk, &state_dir.join(name), &format!("{STATE}/{name}"), contents)?;
    }
    Ok(())
}

/// Adds the hank and the files that it names, if the hank is in the execution directory; checkpoints do not have these
/// files. Returns the path of the hank's file, relative to that directory.
fn add_hank(disk: &dyn Disk, dir: &ExecutionDir, contents: &mut Vec<RecordFile>) -> Option<String> {
    let loaded = inspect::last_hank(disk, dir).ok()??;
    let folder = loaded.root.strip_prefix(dir.root()).ok()?;
    let own = folder.join(loaded.file.file_name()?);
    let named: Vec<PathBuf> = match &loaded.hank {
        Some(hank) => {
            let paths = references(hank)
                .into_iter()
                .filter_map(|named| reference(named.path).ok());
            paths
                .map(|names| folder.join(PathBuf::from_iter(names)))
                .collect()
        }
        None => Vec::new(),
    };
    for path in std::iter::once(&own).chain(&named) {
        let place = format!("{HANK}/{}", path.to_str()?);
        let is_added = |content: &RecordFile| content.path == place;
        if !contents.iter().any(is_added)
            && let Err(error) = add(disk, &dir.root().join(path), &place, contents)
        {
            tracing::warn!(%error, "a file of the hank does not come along");
        }
    }
    own.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use hankweave_runtime::world::disk::RealDisk;

    use super::*;

    // covers: RUN-28
    #[test]
    fn of_a_journal_that_grows_the_whole_lines_up_to_a_number_count() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("000001.jsonl");
        let lines = "{\"seq\":1,\"x\":1}\n{\"seq\":7,\"x\":2}\n{\"seq\":9,\"x\":3}\n{\"seq\":12,\"half";
        std::fs::write(&file, lines).unwrap();
        let length = lines.len() as u64;
        let look = |last| lines_up_to(&RealDisk, &file, length, last).unwrap();
        assert_eq!(look(8), (32, Some(7)));
        assert_eq!(look(u64::MAX), (48, Some(9)));
        assert_eq!(look(0), (0, None));
    }
}
