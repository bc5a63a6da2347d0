//! Clocks that only a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::Clock;
use tokio::time::Instant;

/// A clock that a test sets.
#[derive(Debug)]
pub(crate) struct SetClock(AtomicI64);

/// An hour, in milliseconds.
pub(crate) const HOUR: i64 = 60 * 60 * 1000;

impl SetClock {
    pub(crate) fn at_noon() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_736_000_000_000)))
    }

    /// Moves it by so many milliseconds, forwards or back.
    pub(crate) fn jump(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// The same time as tokio's, which tests pause.
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
