//! The seam to the clock of the machine: wall time for records, which people and the network can set, and facts about sleep
//! and suspension. Durations, deadlines and budgets follow tokio's clock, which only tests can pause and nothing can set.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hankweave_core::time::Timestamp;
use tokio::sync::watch;

use super::identity::{Identity as _, SystemIdentity};
use super::suspension::{self, Suspension};
use super::system;

/// Source of the time in records. It is never used to order events or to measure durations.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// Time since the machine's start with its sleep, which tokio's clock does not count. Setting the clock does not change
    /// it, and every process on the machine reads an equal value. `None` if the system does not provide it.
    fn uptime(&self) -> Option<Duration> {
        None
    }

    /// Time since the machine's start without its sleep, as tokio's clock counts it. Setting the clock does not change
    /// it, and every process on the machine reads an equal value. `None` if the system does not provide it.
    fn awake(&self) -> Option<Duration> {
        None
    }

    /// Time for which this process was suspended so far, as by Ctrl+Z, by tokio's clock (S12).
    fn suspended(&self) -> Duration {
        Duration::ZERO
    }

    /// Receiver of suspensions of this process, each when it has ended. It has only the newest, so it may miss some; `None`
    /// where a process is never suspended.
    fn suspensions(&self) -> Option<watch::Receiver<Option<Suspension>>> {
        None
    }

    /// Id of the machine's current boot, to which [`awake`](Self::awake) belongs; `None` where the system does not provide it.
    fn boot_id(&self) -> Option<String> {
        None
    }
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Timestamp::from_millis(millis)
    }

    fn uptime(&self) -> Option<Duration> {
        system::uptime()
    }

    fn awake(&self) -> Option<Duration> {
        system::awake()
    }

    fn suspended(&self) -> Duration {
        suspension::total()
    }

    fn suspensions(&self) -> Option<watch::Receiver<Option<Suspension>>> {
        Some(suspension::newest())
    }

    fn boot_id(&self) -> Option<String> {
        SystemIdentity.boot_id()
    }
}

/// A clock that never moves, so that equal stories give equal documents.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Noon;

#[cfg(test)]
impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_735_992_000_000)
    }
}
