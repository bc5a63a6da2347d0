//! The wait before another attempt: a short one after a failure, or until the usage limit of a provider has
//! ended.

use std::time::Duration;

use hankweave_core::plan::{Retry, UsageLimit};
use hankweave_core::time::{round_up, short_duration};
use hankweave_core::wire::{Event, ProgressKind};
use tokio::time::Instant;

use crate::codon::RunContext;

/// Longest delay after a failure: the maximum of `maxDelayMs` (HANK-47).
const LONGEST_DELAY: Duration = Duration::from_millis(600_000);

/// How often the wait checks whether the machine has slept, because tokio's clock does not count that time.
const SLEEP_CHECK: Duration = Duration::from_secs(30);

/// Remaining times at which a wait for a usage limit is reported again, after reports at every full hour.
const MARKS: [Duration; 6] = [
    Duration::from_secs(30 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(2 * 60),
    Duration::from_secs(60),
    Duration::from_secs(10),
];

/// A wait in progress.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    context: &'a RunContext,
    retry: &'a Retry,
    started_at: Instant,
    /// How long the machine had been up at the start; `None` if that is unknown.
    uptime_at_start: Option<Duration>,
    /// Length of the wait from its start.
    length: Duration,
    /// Remaining time at which the wait is reported next; `None` if it is reported no more.
    mark: Option<Duration>,
}

impl<'a> Wait<'a> {
    /// Starts the wait, or returns why it is too long. `failed` is the time of the failure on the monotonic clock, if the failure
    /// happened in this process: then setting the wall clock does not change the wait.
    pub(super) fn start(
        context: &'a RunContext,
        retry: &'a Retry,
        failed: Option<Instant>,
    ) -> Result<Self, WaitExceeded> {
        let clock = &context.world.clock;
        let left = match failed {
            Some(failed) => retry.wait().saturating_sub(failed.elapsed()),
            None => retry.remaining(clock.now()),
        };
        let length = length(retry.limit, left, context.options.max_wait)?;
        Ok(Self {
            context,
            retry,
            started_at: Instant::now(),
            uptime_at_start: clock.uptime(),
            length,
            mark: retry.limit.and_then(|_| mark_below(length)),
        })
    }

    /// Returns the message about the wait.
    pub(super) fn words(&self) -> String {
        let (id, left) = (&self.retry.entry.codon_id, self.remaining());
        match (self.retry.limit, self.counted_retry()) {
            (Some(limit), _) => format!(
                "{id} waits for its usage limit until {}, {} to go",
                limit.ends_at,
                short_duration(round_up(left))
            ),
            // The attempt before was interrupted, or another agent takes over.
            (None, None) => format!("{id} is run again"),
            (None, Some(number)) => format!(
                "{id} is tried again (retry {number} of {}) in {}",
                self.retry.most,
                short_duration(left)
            ),
        }
    }

    /// Returns the number of the retry, if it counts towards the retries of its codon.
    fn counted_retry(&self) -> Option<u32> {
        Some(self.retry.number).filter(|number| (1..=self.retry.most).contains(number))
    }

    /// Returns the event about the wait for programs, which count down by themselves.
    pub(super) fn event(&self) -> Event {
        let retry = self.retry;
        let number = self.counted_retry().filter(|_| retry.limit.is_none());
        Event::Progress {
            codon_id: Some(retry.entry.codon_id.clone()),
            kind: ProgressKind::Wait,
            subject: retry.limit.map(|_| "usage limit".to_owned()),
            done: number.map(u64::from),
            total: number.map(|_| retry.most.into()),
            ends_at: Some(self.context.world.clock.now().after(self.remaining())),
        }
    }

    /// Waits. Returns `true` at the end of the wait, and `false` when the remaining time is to be reported.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn wait(&mut self) -> bool {
        loop {
            let left = self.remaining();
            if left.is_zero() {
                return true;
            }
            if self.mark.is_some_and(|mark| left <= mark) {
                self.mark = mark_below(left);
                return false;
            }
            let until_mark = self.mark.map_or(left, |mark| left - mark);
            tokio::time::sleep(until_mark.min(SLEEP_CHECK)).await;
        }
    }

    /// Returns the remaining time. It passes while the machine sleeps as well.
    pub(super) fn remaining(&self) -> Duration {
        let passed = self.started_at.elapsed() + self.slept();
        self.length.saturating_sub(passed)
    }

    /// Returns how long the machine has slept since the start of the wait. Its uptime includes sleep, and tokio's clock does not.
    fn slept(&self) -> Duration {
        let uptimes = self.context.world.clock.uptime().zip(self.uptime_at_start);
        let passed = uptimes.map_or(Duration::ZERO, |(now, at_start)| now.saturating_sub(at_start));
        passed.saturating_sub(self.started_at.elapsed())
    }
}

/// A wait that is longer than the run may wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WaitExceeded {
    /// Reason for people.
    pub(super) why: String,
    /// Maximum wait that the user would have to allow.
    pub(super) needed: Duration,
}

/// Returns the length of a wait whose end is `left` away, or why it is too long. `most` limits the waits of a codon for usage limits, all together.
fn length(limit: Option<UsageLimit>, left: Duration, most: Duration) -> Result<Duration, WaitExceeded> {
    let Some(limit) = limit else {
        return Ok(left.min(LONGEST_DELAY));
    };
    let needed = limit.waited.saturating_add(left);
    if needed <= most {
        return Ok(left);
    }
    let waited = match limit.waited {
        Duration::ZERO => String::new(),
        waited => format!(", {} waited before", short_duration(round_up(waited))),
    };
    let why = format!(
        "its usage limit ends at {}{waited}; --max-wait is {}",
        limit.ends_at,
        short_duration(round_up(most))
    );
    Err(WaitExceeded { why, needed })
}

/// Returns the largest remaining time below `left` at which the wait is reported: a full hour, or one of [`MARKS`].
fn mark_below(left: Duration) -> Option<Duration> {
    let hour = Duration::from_secs(60 * 60);
    let hours = left.as_secs().saturating_sub(1) / hour.as_secs();
    match hours {
        0 => MARKS.into_iter().find(|mark| *mark < left),
        hours => Some(hour * u32::try_from(hours).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_of_every_hour_and_then_ever_more_often() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let mut told = Vec::new();
        let mut left = minutes(150);
        while let Some(mark) = mark_below(left) {
            told.push(mark);
            left = mark;
        }
        let expected = [120, 60, 30, 10, 5, 2, 1].map(minutes);
        assert_eq!(told[..7], expected);
        assert_eq!(told[7..], [Duration::from_secs(10)]);
    }

    // covers: HANK-46
    #[test]
    fn waits_that_are_added_up_are_limited() {
        let hours = |hours: u64| Duration::from_secs(hours * 60 * 60);
        let after = |waited| UsageLimit {
            ends_at: hankweave_core::time::Timestamp::UNIX_EPOCH,
            waited,
        };
        assert_eq!(
            length(Some(after(Duration::ZERO)), hours(6), hours(6)),
            Ok(hours(6))
        );
        let too_long = length(Some(after(hours(2))), hours(5), hours(6)).unwrap_err();
        assert!(too_long.why.contains("2h0m waited before"), "{too_long:?}");
        assert_eq!(too_long.needed, hours(7));
    }

    // covers: HANK-47
    #[test]
    fn a_wait_for_no_limit_is_at_most_ten_minutes() {
        for (left, waited) in [(599, 599), (600, 600), (601, 600), (u64::MAX, 600)] {
            let left = Duration::from_secs(left);
            // The patience for limits has no part in it.
            assert_eq!(
                length(None, left, Duration::ZERO),
                Ok(Duration::from_secs(waited))
            );
        }
    }
}
