//! The data of a run: a file or folder of the user's that agents may read and that is never copied (RUN-7).
//!
//! The data is linked into the workspace as `read_only_data_source`, which checkpoints, archives and outputs leave out. The
//! [record](DataPaths::record) keeps a short fingerprint, which shows whether a run continues with the data that the first
//! run had (RUN-8).

mod fingerprint;
mod link;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_core::discovery::STATE_DIR;
use serde::{Deserialize, Serialize};

use crate::world::disk::{Disk, FileKind, IoError, read_if_present, replace};

pub use fingerprint::Fingerprint;

/// Longest record that is read, in bytes; ours are shorter.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// Existing data that can be linked.
#[derive(Debug, Clone)]
pub struct Data {
    /// Path of the data without links.
    path: PathBuf,
    /// Whether the data is one file. Then the workspace gets a folder with a link to this file.
    is_file: bool,
}

/// Why data cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The path of the data cannot be read.
    #[error("failed to find the data `{}`", path.display())]
    Missing {
        /// As it was named.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// Something else than a file or a folder.
    #[error("the data `{}` is neither a file nor a folder", path.display())]
    Special {
        /// As it was named.
        path: PathBuf,
    },
    /// A link to it would lead in a circle, or to our own files.
    #[error("the data `{}` {relation} `{}`", path.display(), execution.display())]
    Nested {
        /// Path of the data without links.
        path: PathBuf,
        /// Relation of the two paths, as a phrase between them.
        relation: &'static str,
        /// The execution directory.
        execution: PathBuf,
    },
    /// The recorded run began with other data.
    #[error("the recorded runs used {before}, not `{}` as it is now", path.display())]
    Changed {
        /// Path of the data without links.
        path: PathBuf,
        /// Former data, as a phrase.
        before: String,
    },
    /// An entry that we did not make has the name of the link.
    #[error("`{}` is not ours and stands where the data is to be linked", path.display())]
    InTheWay {
        /// Path of that entry.
        path: PathBuf,
    },
    /// The data, the link or the record could not be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Contents of the record: the data of the newest run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataRecord {
    /// Path of the data without links; parts that are not UTF-8 are replaced.
    path: String,
    fingerprint: Fingerprint,
}

/// Maximum time of the check of the data at the end of a run.
const MAX_CHECK_TIME: Duration = Duration::from_secs(1);

/// Link and record of an execution directory's data, and how the data is checked.
#[derive(Debug, Clone)]
pub struct DataPaths {
    /// The agent's workspace.
    pub workspace: PathBuf,
    /// The record.
    pub record: PathBuf,
    /// Whether the run continues earlier ones, so that the data must be as in the record.
    pub goes_on: bool,
    /// How long the fingerprint may take.
    pub limit: Duration,
}

impl Data {
    /// Finds the data at `named`, for the execution directory `execution`, which need not exist yet. Writes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`DataError`] when the data does not exist or cannot be linked.
    pub fn find(disk: &dyn Disk, named: &Path, execution: &Path) -> Result<Self, DataError> {
        let missing = |source| DataError::Missing {
            path: named.to_owned(),
            source,
        };
        let path = disk.real_path(named).map_err(missing)?;
        let is_file = match disk.metadata_followed(&path).map_err(missing)?.kind {
            FileKind::File => true,
            FileKind::Directory => false,
            _ => {
                return Err(DataError::Special {
                    path: named.to_owned(),
                });
            }
        };
        let execution = real_path_of(disk, execution);
        let state = execution.join(STATE_DIR);
        let relation = if path == execution {
            Some("is the execution directory")
        } else if execution.starts_with(&path) {
            Some("holds the execution directory")
        } else if path.starts_with(&state) {
            Some("lies in the state directory of")
        } else {
            None
        };
        match relation {
            Some(relation) => Err(DataError::Nested {
                path,
                relation,
                execution,
            }),
            None => Ok(Self { path, is_file }),
        }
    }

    /// Links the data into the workspace and writes the record.
    ///
    /// # Errors
    ///
    /// Returns [`DataError`] when earlier runs that this run continues used other data, or when the data cannot be linked.
    pub fn link(&self, disk: &dyn Disk, place: &DataPaths) -> Result<(), DataError> {
        let fingerprint =
            Fingerprint::of(disk, &self.path, place.limit).map_err(IoError::at("read", &self.path))?;
        let read = read_if_present(disk, &place.record, MAX_RECORD_BYTES);
        let known = read.map_err(IoError::at("read", &place.record))?;
        // A damaged record shows nothing about the data.
        let known = known.and_then(|bytes| serde_json::from_slice::<DataRecord>(&bytes).ok());
        if let Some(known) = known.filter(|_| place.goes_on) {
            self.compare(&known, &fingerprint)?;
        }
        link::link(disk, &place.workspace, self).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => DataError::InTheWay {
                path: place.workspace.join(hankweave_core::hank::exclude::DATA),
            },
            _ => IoError::at("link", &self.path)(error).into(),
        })?;
        let record = DataRecord {
            path: self.path.to_string_lossy().into_owned(),
            fingerprint,
        };
        let text = serde_json::to_vec(&record).expect("a record is text");
        Ok(replace(disk, &place.record, &text).map_err(IoError::at("write", &place.record))?)
    }

    /// Fails if the data is not that of the record `known`.
    fn compare(&self, known: &DataRecord, now: &Fingerprint) -> Result<(), DataError> {
        let before = if known.path != self.path.to_string_lossy() {
            format!("`{}`", known.path)
        } else if known.fingerprint.differs_from(now) {
            "an earlier state of these data".to_owned()
        } else {
            return Ok(());
        };
        Err(DataError::Changed {
            path: self.path.clone(),
            before,
        })
    }
}

/// Returns the path of the data of a `record` if the data surely changed since the newest run began. An agent may have
/// changed it, because nothing keeps an agent from writing where the link leads.
#[must_use]
pub fn changed_since_start(disk: &dyn Disk, record: &Path) -> Option<PathBuf> {
    let record = read_if_present(disk, record, MAX_RECORD_BYTES).ok()??;
    let known: DataRecord = serde_json::from_slice(&record).ok()?;
    let path = PathBuf::from(known.path);
    let now = Fingerprint::of(disk, &path, MAX_CHECK_TIME).ok()?;
    known.fingerprint.differs_from(&now).then_some(path)
}

/// Returns the path without links of a folder that may not exist yet: links are resolved in its existing ancestors.
fn real_path_of(disk: &dyn Disk, folder: &Path) -> PathBuf {
    let existing = folder
        .ancestors()
        .find(|ancestor| disk.real_path(ancestor).is_ok() && !ancestor.as_os_str().is_empty());
    let (base, rest) = match existing {
        Some(existing) => (
            disk.real_path(existing),
            folder.strip_prefix(existing).unwrap_or(folder),
        ),
        // A relative path of which no part exists begins in the current folder.
        None => (disk.real_path(Path::new(".")), folder),
    };
    let base = base.unwrap_or_default();
    match rest.as_os_str().is_empty() {
        true => base,
        false => base.join(rest),
    }
}
