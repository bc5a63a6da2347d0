//! Any other Unix, such as macOS: as `hankweave_runtime::world` sees processes there.

use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use super::ProcessEntry;

/// None: start times of processes are times of day here, which no other boot has.
pub(super) fn boot_id() -> Option<String> {
    None
}

/// None: all processes of the machine can be seen.
pub(super) fn pid_namespace() -> Option<String> {
    None
}

/// Returns the process with this number; `None` if it does not exist or cannot be examined.
pub(super) fn find(pid: u32) -> Option<ProcessEntry> {
    let (wanted, mut table) = (Pid::from_u32(pid), System::new());
    let details = ProcessRefreshKind::nothing().without_tasks();
    table.refresh_processes_specifics(ProcessesToUpdate::Some(&[wanted]), true, details);
    let process = table.process(wanted)?;
    let has_ended = matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead);
    Some(ProcessEntry {
        started: (!has_ended).then(|| process.start_time()),
        has_ended,
        is_stopped: process.status() == ProcessStatus::Stop,
    })
}

/// Whether a process that we may signal, and that is not in the table, has ended: some systems leave it out until its parent reaps it.
pub(super) const UNSEEN_HAS_ENDED: bool = true;
