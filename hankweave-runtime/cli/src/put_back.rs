//! A record that an agent has removed, put back before it is looked at.

use std::path::Path;

use hankweave_core::discovery::STATE_DIR;
use hankweave_runtime::world::disk::{Disk as _, RealDisk, Spares, records_folder};
use hankweave_runtime::world::environment::Environment;

use crate::terminal::screen::print_stderr;

/// Puts back what an agent removed of the state directory before its run was killed.
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
