//! The data of a run: what agents may read and is never copied (RUN-7).
//!
//! It is linked into the workspace as `read_only_data_source`, where no checkpoint, archive or output sees it. A short fingerprint shows whether a
//! run continues with the data that it began with (RUN-8).

mod fingerprint;
mod link;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_core::discovery::STATE_DIR;
use serde::{Deserialize, Serialize};

use crate::world::disk::{Disk, FileKind, IoError, read_if_present, replace};

pub use fingerprint::Fingerprint;

/// A larger record is not one of ours.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// Existing data that can be linked.
#[derive(Debug, Clone)]
pub struct Data {
    /// Its real place.
    path: PathBuf,
    /// A file becomes a folder with that file in it.
    is_file: bool,
}

/// Why data cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Nothing can be read there.
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
        /// The real place of the data.
        path: PathBuf,
        /// How they lie, as a phrase between the two.
        relation: &'static str,
        /// The execution directory.
        execution: PathBuf,
    },
    /// The recorded run began with other data.
    #[error("the recorded runs used {before}, not `{}` as it is now", path.display())]
    Changed {
        /// The real place of the data.
        path: PathBuf,
        /// Former data, as a phrase.
        before: String,
    },
    /// Something that we did not put there has the name of the link.
    #[error("`{}` is not ours and stands where the data is to be linked", path.display())]
    InTheWay {
        /// The place.
        path: PathBuf,
    },
    /// The data, the link or the record could not be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Remembered data of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataRecord {
    /// Its real place; what is not UTF-8 in it is replaced.
    path: String,
    fingerprint: Fingerprint,
}

/// Maximum time of the check of the data at the end of a run.
const LOOK: Duration = Duration::from_secs(1);

/// Link and record of an execution directory's data.
#[derive(Debug, Clone)]
pub struct DataPaths {
    /// The agent's workspace.
    pub workspace: PathBuf,
    /// The record.
    pub record: PathBuf,
    /// Earlier runs continue, so the data must be theirs.
    pub goes_on: bool,
    /// How long the fingerprint may take.
    pub limit: Duration,
}

impl Data {
    /// Looks at the data for the execution directory `execution`, which need not exist yet. Writes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`DataError`] when it is not there or cannot be linked.
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
        let execution = nearest(disk, execution);
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

    /// Links the data into the workspace and remembers it.
    ///
    /// # Errors
    ///
    /// Returns [`DataError`] when the runs that continue used other data, or when it cannot be linked.
    pub fn link(&self, disk: &dyn Disk, place: &DataPaths) -> Result<(), DataError> {
        let fingerprint =
            Fingerprint::of(disk, &self.path, place.limit).map_err(IoError::at("read", &self.path))?;
        let read = read_if_present(disk, &place.record, MAX_RECORD_BYTES);
        let known = read.map_err(IoError::at("read", &place.record))?;
        // A record that cannot be understood says nothing about the data.
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

/// Returns the data of a `record` if it surely changed since the newest run began: nothing keeps an agent from writing where the link leads.
#[must_use]
pub fn changed_since_start(disk: &dyn Disk, record: &Path) -> Option<PathBuf> {
    let record = read_if_present(disk, record, MAX_RECORD_BYTES).ok()??;
    let known: DataRecord = serde_json::from_slice(&record).ok()?;
    let path = PathBuf::from(known.path);
    let now = Fingerprint::of(disk, &path, LOOK).ok()?;
    known.fingerprint.differs_from(&now).then_some(path)
}

/// The real place of a folder that may not exist yet.
fn nearest(disk: &dyn Disk, folder: &Path) -> PathBuf {
    let missing = |ancestor: &&Path| disk.real_path(ancestor).is_err();
    let exists = folder
        .ancestors()
        .find(|ancestor| !missing(ancestor) && !ancestor.as_os_str().is_empty());
    let (base, rest) = match exists {
        Some(exists) => (
            disk.real_path(exists),
            folder.strip_prefix(exists).unwrap_or(folder),
        ),
        None => (disk.real_path(Path::new(".")), folder),
    };
    let base = base.unwrap_or_default();
    match rest.as_os_str().is_empty() {
        true => base,
        false => base.join(rest),
    }
}
