//! Looking at an execution directory.

use std::path::{Path, PathBuf};

use hankweave_client::Target;
use hankweave_core::discovery::{LockRecord, STATE_DIR};
use hankweave_runtime::instance_lock::live_record;
use hankweave_runtime::world::disk::{Disk, FileKind, RealDisk};
use hankweave_runtime::world::identity::SystemIdentity;

use crate::exit::{Failure, FailureKind};
use crate::typed::Typed;

/// The state directory of an execution directory that is only looked at.
pub(crate) fn existing_state_dir(execution: &Path) -> Result<PathBuf, Failure> {
    let state_dir = execution.join(STATE_DIR);
    let metadata = RealDisk.metadata(&state_dir);
    if metadata.is_ok_and(|metadata| metadata.kind == FileKind::Directory) {
        return Ok(state_dir);
    }
    let message = format!(
        "`{}` is no execution directory: it has no {}",
        execution.display(),
        STATE_DIR
    );
    let typed = Typed::about(execution);
    let hint = match typed.knows_the_hank() {
        true => format!("name it with -e DIR; `{}` makes one there", typed.run()),
        false if execution != Path::new(".") => {
            "name another one with -e DIR; a run in it makes one".to_owned()
        }
        false => "name it with -e DIR".to_owned(),
    };
    Err(Failure::new(FailureKind::Input, message).hint(hint))
}

/// Whether a process works in this execution directory, according to its lock file.
pub(crate) fn is_served(execution: &Path) -> bool {
    holder(execution).is_some()
}

/// What the process that works in this execution directory says of itself.
pub(crate) fn holder(execution: &Path) -> Option<LockRecord> {
    live_record(&RealDisk, &SystemIdentity, &execution.join(STATE_DIR))
}

/// Whether a run is live in the directory and takes clients.
pub(crate) fn takes_clients(execution: &Path) -> bool {
    Target::Execution(execution.to_owned()).is_there()
}
