//! Time of leases on one machine (TASK-100).
//!
//! Users and the network set the wall clock, and a lease that followed it could end while its holder works. So leases follow the time since the
//! machine's start, which is the same for all its processes. The registry stores the start as a point in lease time, chosen
//! so that lease time never goes back after a reboot, and old leases and orphans keep their order.

use std::sync::Arc;

use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::Clock;

/// Wall time for records, and lease time for locks.
#[derive(Debug, Clone)]
pub(crate) struct LeaseClock {
    clock: Arc<dyn Clock>,
    /// Lease time of the machine's start; `None` if leases follow the wall clock, because the system has no other clock.
    started_at: Option<Timestamp>,
}

impl LeaseClock {
    /// Creates a clock whose lease time starts at the present wall time.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let started_at = start_of_machine(&*clock, clock.now());
        Self { clock, started_at }
    }

    /// Creates a clock from the known lease time of the machine's start.
    pub(crate) fn started_at(clock: Arc<dyn Clock>, started_at: Option<Timestamp>) -> Self {
        Self { clock, started_at }
    }

    /// Returns the wall time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time that leases follow.
    pub(crate) fn lease_now(&self) -> Timestamp {
        let since_start = self.started_at.zip(self.clock.awake());
        since_start.map_or_else(|| self.now(), |(start, awake)| start.after(awake))
    }
}

/// Returns the lease time of the machine's start, given the present lease time `now`.
pub(crate) fn start_of_machine(clock: &dyn Clock, now: Timestamp) -> Option<Timestamp> {
    let awake = i64::try_from(clock.awake()?.as_millis()).ok()?;
    Some(Timestamp::from_millis(now.as_millis().saturating_sub(awake)))
}
