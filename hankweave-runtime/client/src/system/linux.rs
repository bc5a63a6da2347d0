//! Linux: `/proc`.

use std::fs::read_to_string;

use hankweave_core::discovery::{has_ended, is_stopped, start_ticks};

use super::ProcessEntry;

/// Identifies the current boot of the machine.
pub(super) fn boot_id() -> Option<String> {
    let text = read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// Name space of the pids of this process.
pub(super) fn pid_namespace() -> Option<String> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Returns the process with this number; `None` if it cannot be examined.
pub(super) fn find(pid: u32) -> Option<ProcessEntry> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ProcessEntry {
        started: start_ticks(&stat),
        has_ended: has_ended(&stat),
        is_stopped: is_stopped(&stat),
    })
}

/// Whether a process that exists, but cannot be examined, counts as ended. That is unknown, so it does not.
pub(super) const UNSEEN_HAS_ENDED: bool = false;
