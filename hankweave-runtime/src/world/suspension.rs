//! Time for which this process was suspended, which no limit counts (S12).

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hankweave_core::time::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::clock::{Clock, SystemClock};

/// Suspension that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspension {
    /// When it began.
    pub from: Timestamp,
    /// How long it lasted, with the sleep of the machine.
    pub length: Duration,
}

/// Suspensions of a process: as a whole, so there is one account of them.
#[derive(Debug)]
struct SuspensionAccount {
    /// Suspension that has not ended.
    open: Option<OpenSuspension>,
    /// All that have ended, by tokio's clock.
    total: Duration,
}

#[derive(Debug)]
struct OpenSuspension {
    begun: Instant,
    from: Timestamp,
    /// Uptime of the machine when it began.
    up: Option<Duration>,
}

static ACCOUNT: Mutex<SuspensionAccount> = Mutex::new(SuspensionAccount {
    open: None,
    total: Duration::ZERO,
});

/// Work to do before the process stops, by a number of its own.
type Preparations = Vec<(u64, Box<dyn Fn(Option<Duration>) + Send>)>;

static PREPARATIONS: Mutex<Preparations> = Mutex::new(Vec::new());

static NEWEST: LazyLock<watch::Sender<Option<Suspension>>> = LazyLock::new(watch::Sender::default);

fn account() -> MutexGuard<'static, SuspensionAccount> {
    ACCOUNT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts from here on as suspended.
pub(super) fn begin() {
    let open = OpenSuspension {
        begun: Instant::now(),
        from: SystemClock.now(),
        up: SystemClock.uptime(),
    };
    let up = open.up;
    account().open.get_or_insert(open);
    preparations().iter().for_each(|(_, prepare)| prepare(up));
}

fn preparations() -> MutexGuard<'static, Preparations> {
    PREPARATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a preparation for each suspension of this process until it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it prepares nothing"]
pub(crate) struct Preparation(u64);

impl Preparation {
    /// Does this before each suspension, with the uptime of the machine: other processes may look at what it has written while this one is stopped.
    pub(crate) fn new(prepare: impl Fn(Option<Duration>) + Send + 'static) -> Self {
        let mut all = preparations();
        let number = all.last().map_or(0, |(last, _)| last + 1);
        all.push((number, Box::new(prepare)));
        Self(number)
    }
}

impl Drop for Preparation {
    fn drop(&mut self) {
        preparations().retain(|(number, _)| *number != self.0);
    }
}

/// Whether the process is suspended, or about to be.
pub(super) fn is_open() -> bool {
    account().open.is_some()
}

/// Counts as working from here on, and reports the suspension.
pub(super) fn end() {
    let mut account = account();
    let Some(open) = account.open.take() else { return };
    let by_tokio = open.begun.elapsed();
    account.total += by_tokio;
    drop(account);
    let up = SystemClock.uptime().zip(open.up);
    let length = up.map_or(by_tokio, |(now, then)| now.saturating_sub(then));
    let from = open.from;
    NEWEST.send_replace(Some(Suspension { from, length }));
}

/// Time for which this process was suspended so far, by tokio's clock. One that has just continued is counted before anybody can look.
pub(super) fn total() -> Duration {
    let account = account();
    let open = account.open.as_ref();
    account.total + open.map_or(Duration::ZERO, |open| open.begun.elapsed())
}

/// Shows each suspension once it has ended.
pub(super) fn newest() -> watch::Receiver<Option<Suspension>> {
    NEWEST.subscribe()
}

/// Time at work since a start: without that for which this process was suspended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    begun: Instant,
    suspended: Duration,
}

impl Stopwatch {
    pub(crate) fn start(clock: &dyn Clock) -> Self {
        Self {
            begun: Instant::now(),
            suspended: clock.suspended(),
        }
    }

    pub(crate) fn elapsed(&self, clock: &dyn Clock) -> Duration {
        let all = self.begun.elapsed();
        all.saturating_sub(clock.suspended().saturating_sub(self.suspended))
    }

    /// Waits until this much time has passed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn reach(&self, clock: &dyn Clock, length: Duration) {
        loop {
            let left = length.saturating_sub(self.elapsed(clock));
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock of a process that was suspended for this long after its first 10 s.
    #[derive(Debug)]
    struct Suspended(Instant, Duration);

    impl Clock for Suspended {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn suspended(&self) -> Duration {
            self.0
                .elapsed()
                .saturating_sub(Duration::from_secs(10))
                .min(self.1)
        }
    }

    // covers: S12
    #[tokio::test(start_paused = true)]
    async fn a_stopwatch_stands_still_while_the_process_is_suspended() {
        let clock = Suspended(Instant::now(), Duration::from_secs(3600));
        let watch = Stopwatch::start(&clock);
        watch.reach(&clock, Duration::from_secs(8)).await;
        assert_eq!(clock.0.elapsed(), Duration::from_secs(8));
        watch.reach(&clock, Duration::from_secs(60)).await;
        assert_eq!(clock.0.elapsed(), Duration::from_secs(3660));
        assert_eq!(watch.elapsed(&clock), Duration::from_secs(60));
        let later = Stopwatch::start(&clock);
        later.reach(&clock, Duration::from_secs(5)).await;
        assert_eq!(
            clock.0.elapsed(),
            Duration::from_secs(3665),
            "nothing of before counts"
        );
    }
}
