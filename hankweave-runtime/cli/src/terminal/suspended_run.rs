//! Run that is suspended, as by Ctrl+Z, as its clients and `status` see it (S12).

use hankweave_core::time::Timestamp;

/// Suspended run. Its server answers nothing, so these facts come from the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SuspendedRun {
    pid: u32,
    /// Last sign of life before the suspension, or the time at which the suspension was noticed.
    since: Timestamp,
}

impl SuspendedRun {
    pub(crate) const fn new(pid: u32, since: Timestamp) -> Self {
        Self { pid, since }
    }

    pub(crate) const fn pid(self) -> u32 {
        self.pid
    }

    pub(crate) const fn since(self) -> Timestamp {
        self.since
    }

    /// Returns the time up to which durations of a run count: now, or the time of its suspension.
    pub(crate) fn time(suspended: Option<Self>, now: Timestamp) -> Timestamp {
        suspended.map_or(now, |suspended| suspended.since.min(now))
    }

    /// Returns how the run continues.
    pub(crate) fn how_to_continue(self) -> String {
        how_to_continue(self.pid)
    }
}

/// Returns how a suspended run continues.
pub(crate) fn how_to_continue(pid: u32) -> String {
    format!("`fg` in its terminal continues it, and so does `kill -CONT {pid}` anywhere")
}
