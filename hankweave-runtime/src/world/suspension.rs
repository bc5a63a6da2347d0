//! Suspensions of this process by Ctrl+Z, which no time limit counts (S12).
//!
//! `process::suspend` calls `start` before the process suspends itself, and `end` once it continues; limits subtract
//! `total`. `SIGSTOP`, which stops a process from outside, cannot be caught: it starts no suspension, and limits count the
//! time.

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
    /// How long it lasted, including the sleep of the machine if the system reports an uptime.
    pub length: Duration,
}

/// Suspensions of this process so far. One account is enough, because the system suspends a process as a whole.
#[derive(Debug)]
struct SuspensionAccount {
    open: Option<OpenSuspension>,
    /// Length of all suspensions that have ended, by tokio's clock, because limits run by that clock.
    total: Duration,
}

/// Suspension that has not ended: its start by three clocks.
#[derive(Debug, Clone, Copy)]
struct OpenSuspension {
    /// By tokio's clock.
    begun: Instant,
    /// Wall time.
    from: Timestamp,
    /// Uptime of the machine, which counts its sleep.
    uptime: Option<Duration>,
}

impl SuspensionAccount {
    /// Opens `new` unless a suspension is open already, as after a second Ctrl+Z before [`end`], and returns the open one.
    fn start(&mut self, new: OpenSuspension) -> OpenSuspension {
        *self.open.get_or_insert(new)
    }
}

static ACCOUNT: Mutex<SuspensionAccount> = Mutex::new(SuspensionAccount {
    open: None,
    total: Duration::ZERO,
});

/// The newest suspension that has ended.
static NEWEST: LazyLock<watch::Sender<Option<Suspension>>> = LazyLock::new(watch::Sender::default);

/// Functions that are called before the process is suspended, each with the number of its [`Preparation`].
static PREPARATIONS: Mutex<Preparations> = Mutex::new(Vec::new());

type Preparations = Vec<(u64, Box<dyn Fn(Option<Duration>) + Send>)>;

/// Begins a suspension and calls the preparations.
pub(super) fn start() {
    let open = account().start(OpenSuspension {
        begun: Instant::now(),
        from: SystemClock.now(),
        uptime: SystemClock.uptime(),
    });
    preparations()
        .iter()
        .for_each(|(_, prepare)| prepare(open.uptime));
}

/// Ends the open suspension, if there is one, and reports it to the receivers of [`newest`].
pub(super) fn end() {
    let mut account = account();
    let Some(open) = account.open.take() else { return };
    let by_tokio = open.begun.elapsed();
    account.total += by_tokio;
    drop(account);
    let uptimes = SystemClock.uptime().zip(open.uptime);
    let length = uptimes.map_or(by_tokio, |(now, then)| now.saturating_sub(then));
    let from = open.from;
    NEWEST.send_replace(Some(Suspension { from, length }));
}

/// Whether a suspension is open: the process is about to be stopped, or has just continued.
pub(super) fn is_open() -> bool {
    account().open.is_some()
}

/// Returns the time for which this process was suspended so far, by tokio's clock. An open suspension counts as well: a limit may be checked after the process
/// has continued and before [`end`].
pub(super) fn total() -> Duration {
    let account = account();
    let open = account.open.as_ref();
    account.total + open.map_or(Duration::ZERO, |open| open.begun.elapsed())
}

/// Returns a receiver of the newest suspension that has ended. It keeps one value, so a late reader misses earlier ones.
pub(super) fn newest() -> watch::Receiver<Option<Suspension>> {
    NEWEST.subscribe()
}

fn account() -> MutexGuard<'static, SuspensionAccount> {
    ACCOUNT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn preparations() -> MutexGuard<'static, Preparations> {
    PREPARATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a function, which is called before each suspension of this process, until this value is dropped.
#[derive(Debug)]
#[must_use = "dropped, it prepares nothing"]
pub(crate) struct Preparation(u64);

impl Preparation {
    /// Adds `prepare`, which gets the uptime of the machine at the start of the suspension. The lock of an execution directory
    /// uses this to note the suspension in its file, so that other processes know why this one is silent. `prepare` must
    /// neither make nor drop a [`Preparation`]: that would deadlock.
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

/// Measures the time since its start, without the suspensions of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    begun: Instant,
    /// Time for which the process had been suspended before the start.
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

    /// Waits until `length` has elapsed; a suspension meanwhile makes the wait longer.
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

    /// Clock of a process that is suspended for `length` after its first 10 s.
    #[derive(Debug)]
    struct SuspendedClock {
        begun: Instant,
        length: Duration,
    }

    impl Clock for SuspendedClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn suspended(&self) -> Duration {
            let after = self.begun.elapsed().saturating_sub(Duration::from_secs(10));
            after.min(self.length)
        }
    }

    // covers: S12
    #[test]
    fn a_suspension_that_is_open_already_keeps_its_beginning_and_preparations_get_that() {
        let at = |seconds: u32| OpenSuspension {
            begun: Instant::now(),
            from: Timestamp::from_millis(i64::from(seconds) * 1000),
            uptime: Some(Duration::from_secs(seconds.into())),
        };
        let mut account = SuspensionAccount {
            open: None,
            total: Duration::ZERO,
        };
        assert_eq!(account.start(at(5)).uptime, Some(Duration::from_secs(5)));
        let second = account.start(at(9));
        assert_eq!(
            (second.uptime, second.from),
            (Some(Duration::from_secs(5)), at(5).from)
        );
    }

    // covers: S12
    #[tokio::test(start_paused = true)]
    async fn a_stopwatch_stands_still_while_the_process_is_suspended() {
        let clock = SuspendedClock {
            begun: Instant::now(),
            length: Duration::from_secs(3600),
        };
        let watch = Stopwatch::start(&clock);
        watch.reach(&clock, Duration::from_secs(8)).await;
        assert_eq!(clock.begun.elapsed(), Duration::from_secs(8));
        watch.reach(&clock, Duration::from_secs(60)).await;
        assert_eq!(clock.begun.elapsed(), Duration::from_secs(3660));
        assert_eq!(watch.elapsed(&clock), Duration::from_secs(60));
        let later = Stopwatch::start(&clock);
        later.reach(&clock, Duration::from_secs(5)).await;
        assert_eq!(
            clock.begun.elapsed(),
            Duration::from_secs(3665),
            "nothing of before counts"
        );
    }
}
