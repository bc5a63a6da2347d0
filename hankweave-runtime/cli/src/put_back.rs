//! Puts back a record that an agent has removed, before a command reads it. A run keeps a spare record outside the directory.

use std::path::Path;

use hankweave_core::discovery::STATE_DIR;
use hankweave_runtime::world::disk::{Disk as _, RealDisk, Spares, records_folder};
use hankweave_runtime::world::environment::Environment;

use crate::terminal::screen::print_stderr;

/// Puts back the files of the state directory that an agent removed before its run was killed.
pub(crate) fn put_back(execution: &Path) {
    let spares = Spares::new(records_folder(&Environment::of_process()));
    let real = RealDisk.real_path(execution);
    if real.is_ok_and(|execution| spares.restore(&execution.join(STATE_DIR))) {
        let place = execution.join(STATE_DIR);
        print_stderr(format!(
            "note: `{}` was removed while a run worked there, and has been put back\n",
            place.display()
        ));
    }
}
