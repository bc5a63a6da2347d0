//! How long an agent may say nothing (S6, HANK-50).
//!
//! An agent that has answered is only kept alive by processes that it left running; they are ended soon. One
//! that works may be silent for long, because a model may think for long.

use std::time::Duration;

use hankweave_core::hank::{LONGEST_SILENCE_SECONDS, SETTLE_SECONDS};
use tokio::time::Instant;

use super::context::CodonRun;

/// The silence of one agent.
#[derive(Debug)]
pub(super) struct Silence {
    /// How long an agent may be silent that works.
    longest: Duration,
    /// How long one that has answered may be.
    settle: Duration,
    /// When something was said last.
    since: Instant,
    /// Time for which the run was suspended before that.
    suspended: Duration,
    has_answered: bool,
    warned: bool,
}

/// Action after a silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SilenceAction {
    /// A warning is published that the agent will be ended.
    Warning { silent: Duration, longest: Duration },
    /// Processes that the agent has left running are ended.
    Settled(Duration),
    /// The agent is ended.
    TooLong(Duration),
}

impl Silence {
    /// As the codon says, else as the hank says.
    pub(super) fn of(codon: &CodonRun<'_>) -> Self {
        let (own, everywhere) = (codon.config, codon.run.hank.overrides.as_ref());
        let longest = own
            .shim_idle_timeout
            .or_else(|| everywhere?.shim_idle_timeout)
            .unwrap_or(LONGEST_SILENCE_SECONDS);
        let settle = own
            .settle_seconds
            .or_else(|| everywhere?.settle_seconds)
            .unwrap_or(SETTLE_SECONDS);
        let [longest, settle] = [longest, settle].map(Duration::from_secs);
        Self {
            suspended: codon.run.world.clock.suspended(),
            ..Self::new(longest, settle, Instant::now())
        }
    }

    fn new(longest: Duration, settle: Duration, since: Instant) -> Self {
        Self {
            longest,
            settle,
            since,
            suspended: Duration::ZERO,
            has_answered: false,
            warned: false,
        }
    }

    /// Notes that something was said at `now`, after which the agent has answered or not. `suspended` is the time for which the run was suspended so far.
    pub(super) fn broken(&mut self, now: Instant, suspended: Duration, has_answered: bool) {
        (self.since, self.suspended) = (now, suspended);
        self.has_answered = has_answered;
        self.warned = false;
    }

    /// Returns the next action if nothing is printed, and when it is due. An agent that is suspended with its run cannot speak.
    pub(super) fn next(&self, suspended: Duration) -> (Instant, SilenceAction) {
        let since = self.since + suspended.saturating_sub(self.suspended);
        if self.has_answered && self.settle <= self.longest {
            return (since + self.settle, SilenceAction::Settled(self.settle));
        }
        if self.warned {
            return (since + self.longest, SilenceAction::TooLong(self.longest));
        }
        let (silent, longest) = (self.longest * 4 / 5, self.longest);
        (since + silent, SilenceAction::Warning { silent, longest })
    }

    /// The warning was given.
    pub(super) fn warned(&mut self) {
        self.warned = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const SETTLE: Duration = Duration::from_secs(10);

    #[test]
    fn an_agent_that_works_is_warned_of_before_its_silence_is_too_long() {
        let start = Instant::now();
        let mut silence = Silence::new(30 * MINUTE, SETTLE, start);
        let warning = SilenceAction::Warning {
            silent: 24 * MINUTE,
            longest: 30 * MINUTE,
        };
        assert_eq!(silence.next(Duration::ZERO), (start + 24 * MINUTE, warning));
        silence.warned();
        assert_eq!(
            silence.next(Duration::ZERO),
            (start + 30 * MINUTE, SilenceAction::TooLong(30 * MINUTE))
        );
        silence.broken(start + 25 * MINUTE, Duration::ZERO, false);
        assert_eq!(
            silence.next(Duration::ZERO),
            (start + 49 * MINUTE, warning),
            "warned of again"
        );
    }

    #[test]
    fn what_is_left_behind_an_answer_settles_soon_and_not_while_the_agent_works_again() {
        let start = Instant::now();
        let mut silence = Silence::new(30 * MINUTE, SETTLE, start);
        silence.broken(start + MINUTE, Duration::ZERO, true);
        assert_eq!(
            silence.next(Duration::ZERO),
            (start + MINUTE + SETTLE, SilenceAction::Settled(SETTLE))
        );
        silence.broken(start + 2 * MINUTE, Duration::ZERO, false);
        assert!(matches!(
            silence.next(Duration::ZERO).1,
            SilenceAction::Warning { .. }
        ));
        silence.broken(start + 3 * MINUTE, Duration::ZERO, true);
        assert_eq!(
            silence.next(Duration::ZERO),
            (start + 3 * MINUTE + SETTLE, SilenceAction::Settled(SETTLE))
        );
    }

    #[test]
    fn a_limit_of_silence_holds_for_what_settles_as_well() {
        let start = Instant::now();
        let mut silence = Silence::new(SETTLE, MINUTE, start);
        silence.broken(start, Duration::ZERO, true);
        silence.warned();
        assert_eq!(
            silence.next(Duration::ZERO),
            (start + SETTLE, SilenceAction::TooLong(SETTLE))
        );
    }

    // covers: S12
    #[test]
    fn an_agent_that_was_suspended_has_not_been_silent() {
        let start = Instant::now();
        let mut silence = Silence::new(30 * MINUTE, SETTLE, start);
        assert_eq!(silence.next(60 * MINUTE).0, start + 84 * MINUTE);
        silence.broken(start + 61 * MINUTE, 60 * MINUTE, false);
        assert_eq!(
            silence.next(60 * MINUTE).0,
            start + 85 * MINUTE,
            "what was before it"
        );
        assert_eq!(silence.next(62 * MINUTE).0, start + 87 * MINUTE);
    }
}
