//! Clocks that only a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::Clock;
use tokio::time::Instant;

/// Clock that a test sets: its wall time, and the time since its machine's start, both in milliseconds.
#[derive(Debug)]
pub(crate) struct SetClock {
    wall: AtomicI64,
    awake: AtomicI64,
    /// Number of starts of the machine.
    boots: AtomicI64,
}

/// An hour, in milliseconds.
pub(crate) const HOUR: i64 = 60 * 60 * 1000;

impl SetClock {
    pub(crate) fn at_noon() -> Arc<Self> {
        Arc::new(Self {
            wall: AtomicI64::new(1_736_000_000_000),
            awake: AtomicI64::new(5_000),
            boots: AtomicI64::new(1),
        })
    }

    /// Lets this many milliseconds pass.
    pub(crate) fn pass(&self, millis: i64) {
        self.awake.fetch_add(millis, Ordering::SeqCst);
        self.jump(millis);
    }

    /// Sets the wall time this many milliseconds forwards or back, while no time passes.
    pub(crate) fn jump(&self, millis: i64) {
        self.wall.fetch_add(millis, Ordering::SeqCst);
    }

    /// Starts the machine again.
    pub(crate) fn reboot(&self) {
        self.awake.store(0, Ordering::SeqCst);
        self.boots.fetch_add(1, Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn awake(&self) -> Option<Duration> {
        u64::try_from(self.awake.load(Ordering::SeqCst))
            .ok()
            .map(Duration::from_millis)
    }

    fn boot_id(&self) -> Option<String> {
        Some(format!("boot {}", self.boots.load(Ordering::SeqCst)))
    }
}

/// Clock with the time of tokio, which tests pause.
#[derive(Debug)]
pub(crate) struct PausedClock(Instant);

impl PausedClock {
    pub(crate) fn from_now() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.after(self.0.elapsed())
    }
}
