//! Opening the checkpoint repository safely with libgit2, and helpers for libgit2's errors and names.

use std::path::Path;
use std::sync::Once;

use git2::{ConfigLevel, ErrorClass, ErrorCode, Oid, Repository};
use hankweave_core::id::CheckpointSha;

use super::object::ObjectError;
use super::shape;

/// Cuts libgit2 off from the configuration of the user and of the system; every use of git2 in this process goes
/// through here first.
#[expect(unsafe_code, reason = "libgit2 has these paths as global variables")]
pub(super) fn isolate() {
    static ISOLATED: Once = Once::new();
    ISOLATED.call_once(|| {
        for level in [
            ConfigLevel::System,
            ConfigLevel::Global,
            ConfigLevel::XDG,
            ConfigLevel::ProgramData,
        ] {
            // SAFETY: `Once` lets one thread in and holds the others back, and no other code of this process
            // touches the search paths.
            let emptied = unsafe { git2::opts::set_search_path(level, "") };
            emptied.expect("an empty search path is valid for each of these levels");
        }
    });
}

/// Opens the bare repository at `path`.
pub(super) fn open(path: &Path) -> Result<Repository, ObjectError> {
    const ACTION: &str = "open the checkpoint repository";
    isolate();
    // Agents run while we do and may change the repository, so its shape is checked each time.
    shape::check(path).map_err(ObjectError::at(ACTION))?;
    Repository::open_bare(path).map_err(ObjectError::at(ACTION))
}

/// Returns `None` if an object is missing or damaged. A disk that cannot be read stays an error.
pub(super) fn if_readable<T>(found: Result<T, git2::Error>) -> Result<Option<T>, git2::Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.class() == ErrorClass::Os && error.code() != ErrorCode::NotFound => Err(error),
        Err(_) => Ok(None),
    }
}

pub(super) fn name_of(commit: Oid) -> CheckpointSha {
    CheckpointSha::new(commit.to_string())
}
