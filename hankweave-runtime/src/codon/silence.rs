//! Decides what is due when an agent prints nothing: a warning, a sample of its processes, or its end (S6, HANK-50, HANK-75).
//!
//! An agent at work may be silent for long, because a model may think for long. After its answer an agent ends, unless
//! background work keeps it alive. The run waits for work after which the agent will continue, as the agent reports. It also waits
//! for processes that the agent left running and that are busy. Other background work is ended soon.

use std::time::Duration;

use hankweave_core::hank::{LONGEST_SILENCE_SECONDS, SETTLE_SECONDS};
use tokio::time::Instant;

use super::context::CodonRun;

/// The silence of one agent.
#[derive(Debug)]
pub(super) struct Silence {
    limits: SilenceLimits,
    /// Time of the last output, or of the last sample in which processes that were left running were busy.
    since: Instant,
    /// When the agent answered, if it has done nothing itself since.
    answered: Option<Instant>,
    /// Whether the agent waits for background work, as it has reported.
    waits: bool,
    /// Whether processes that the agent left running were busy.
    busy: bool,
    /// Time of the last sample of processes that were left running; `None` after new output.
    sampled_at: Option<Instant>,
    /// Whether the warning about this silence was published.
    warned: bool,
    /// Time for which the run was suspended so far; the other times leave it out.
    suspended: Duration,
}

/// The limits of a silence.
#[derive(Debug, Clone, Copy)]
struct SilenceLimits {
    /// How long an agent at work may be silent.
    longest: Duration,
    /// How long processes may continue after an answer if the run does not wait for them.
    settle: Duration,
    /// How long the run waits for background work after an answer.
    background: Duration,
}

/// Action after a silence. The durations are limits, except `silent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SilenceAction {
    /// A warning is published: the agent was silent for `silent`, and is ended at `longest`.
    Warning { silent: Duration, longest: Duration },
    /// The processes that the agent has left running are sampled.
    Sample,
    /// Processes that the agent has left running are ended, unless they are busy.
    Settled(Duration),
    /// The agent has waited for its background work for too long.
    Cut(Duration),
    /// The agent is ended.
    TooLong(Duration),
}

impl Silence {
    /// Returns the silence with the limits of the codon, or else of the hank.
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
        let limits = SilenceLimits {
            longest,
            settle,
            background: codon.run.hank.longest_background(codon.config),
        };
        Self {
            suspended: codon.run.world.clock.suspended(),
            ..Self::new(limits, Instant::now())
        }
    }

    fn new(limits: SilenceLimits, since: Instant) -> Self {
        Self {
            limits,
            since,
            answered: None,
            waits: false,
            busy: false,
            sampled_at: None,
            warned: false,
            suspended: Duration::ZERO,
        }
    }

    /// Leaves out the time for which the run was suspended, `suspended` in total: the agent was suspended as well, and could print nothing. Returns
    /// whether the total has grown since the last call.
    pub(super) fn leave_out_suspension(&mut self, suspended: Duration) -> bool {
        let new = suspended.saturating_sub(self.suspended);
        self.suspended = suspended;
        let moments = [
            Some(&mut self.since),
            self.answered.as_mut(),
            self.sampled_at.as_mut(),
        ];
        moments.into_iter().flatten().for_each(|moment| *moment += new);
        !new.is_zero()
    }

    /// Notes output at `now`: whether it was the answer or came after it without new work of the agent, and whether the agent waits for work.
    pub(super) fn note_output(&mut self, now: Instant, has_answered: bool, waits: bool) {
        self.since = now;
        self.answered = has_answered.then(|| self.answered.unwrap_or(now));
        self.waits = waits;
        (self.busy, self.sampled_at, self.warned) = (false, None, false);
    }

    /// Notes a sample at `now` of processes that the agent left running. Processes that were busy since the sample before break the silence.
    pub(super) fn note_sample(&mut self, now: Instant, busy: bool) {
        self.sampled_at = Some(now);
        if busy {
            (self.since, self.busy) = (now, true);
        }
    }

    /// Returns when the wait after the answer ends; `None` if the run waits for nothing.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        let answered = self.answered.filter(|_| self.waits || self.busy)?;
        Some(answered + self.limits.background)
    }

    /// Whether idle processes that the agent left running may be ended at `now`.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        now >= self.since + self.limits.settle
    }

    /// Returns how long processes may continue after an answer if the run does not wait for them.
    pub(super) const fn settle_time(&self) -> Duration {
        self.limits.settle
    }

    /// Returns the next action if nothing is printed, and when it is due.
    pub(super) fn next(&self) -> (Instant, SilenceAction) {
        let SilenceLimits { longest, settle, .. } = self.limits;
        // If the settle time is longer than the longest silence, the silence ends the agent first, as it does before an answer.
        if self.answered.is_some() && (self.waits || settle <= longest) {
            return self.next_after_answer();
        }
        if self.warned {
            return (self.since + longest, SilenceAction::TooLong(longest));
        }
        let silent = longest * 4 / 5;
        (self.since + silent, SilenceAction::Warning { silent, longest })
    }

    /// The first action is a sample, after half a settle time: only two samples show whether processes are busy. While the agent waits for work, more samples
    /// follow; otherwise the end is due next, a settle time after the last output or busy sample.
    fn next_after_answer(&self) -> (Instant, SilenceAction) {
        let SilenceLimits {
            settle, background, ..
        } = self.limits;
        let sample = (
            self.sampled_at.unwrap_or(self.since) + settle / 2,
            SilenceAction::Sample,
        );
        let next = match self.sampled_at {
            Some(_) if !self.waits => (self.since + settle, SilenceAction::Settled(settle)),
            _ => sample,
        };
        match self.waits_until() {
            Some(cut) if cut <= next.0 => (cut, SilenceAction::Cut(background)),
            _ => next,
        }
    }

    /// Notes that the warning was published.
    pub(super) fn note_warning(&mut self) {
        self.warned = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const SETTLE: Duration = Duration::from_secs(10);
    const LOOK: Duration = Duration::from_secs(5);

    fn silence(longest: Duration, settle: Duration, since: Instant) -> Silence {
        let limits = SilenceLimits {
            longest,
            settle,
            background: 20 * MINUTE,
        };
        Silence::new(limits, since)
    }

    #[test]
    fn an_agent_that_works_is_warned_of_before_its_silence_is_too_long() {
        let start = Instant::now();
        let mut silence = silence(30 * MINUTE, SETTLE, start);
        let warning = SilenceAction::Warning {
            silent: 24 * MINUTE,
            longest: 30 * MINUTE,
        };
        assert_eq!(silence.next(), (start + 24 * MINUTE, warning));
        silence.note_warning();
        assert_eq!(
            silence.next(),
            (start + 30 * MINUTE, SilenceAction::TooLong(30 * MINUTE))
        );
        silence.note_output(start + 25 * MINUTE, false, false);
        assert_eq!(silence.next(), (start + 49 * MINUTE, warning), "warned of again");
    }

    #[test]
    fn what_is_left_behind_an_answer_settles_soon_and_not_while_the_agent_works_again() {
        let start = Instant::now();
        let mut silence = silence(30 * MINUTE, SETTLE, start);
        silence.note_output(start + MINUTE, true, false);
        assert_eq!(silence.next(), (start + MINUTE + LOOK, SilenceAction::Sample));
        silence.note_sample(start + MINUTE + LOOK, false);
        assert_eq!(
            silence.next(),
            (start + MINUTE + SETTLE, SilenceAction::Settled(SETTLE))
        );
        silence.note_output(start + 2 * MINUTE, false, false);
        assert!(matches!(silence.next().1, SilenceAction::Warning { .. }));
    }

    // covers: HANK-75
    #[test]
    fn what_is_left_and_busy_is_waited_for_up_to_its_limit() {
        let start = Instant::now();
        let mut silence = silence(30 * MINUTE, SETTLE, start);
        silence.note_output(start, true, false);
        silence.note_sample(start + LOOK, false);
        assert_eq!(silence.waits_until(), None);
        let mut now = start + SETTLE;
        while silence.next() == (now, SilenceAction::Settled(SETTLE)) {
            silence.note_sample(now, true);
            now += SETTLE;
        }
        let cut = start + 20 * MINUTE;
        assert_eq!(silence.next(), (cut, SilenceAction::Cut(20 * MINUTE)));
        assert_eq!(silence.waits_until(), Some(cut));
    }

    // covers: HANK-75
    #[test]
    fn an_agent_that_waits_is_waited_for_up_to_a_limit_that_begins_with_its_answer() {
        let start = Instant::now();
        // A shorter limit for silences is that of an agent that works.
        let mut silence = silence(2 * SETTLE, SETTLE, start);
        silence.note_output(start, true, true);
        let mut now = start + LOOK;
        while silence.next() == (now, SilenceAction::Sample) {
            silence.note_sample(now, false);
            now += LOOK;
        }
        assert_eq!(
            silence.next(),
            (start + 20 * MINUTE, SilenceAction::Cut(20 * MINUTE))
        );
        // Output meanwhile does not start the wait again, but work of the agent does.
        silence.note_output(start + MINUTE, true, true);
        assert_eq!(silence.waits_until(), Some(start + 20 * MINUTE));
        silence.note_output(start + 2 * MINUTE, false, true);
        assert_eq!(silence.waits_until(), None);
        silence.note_output(start + 3 * MINUTE, true, true);
        assert_eq!(silence.waits_until(), Some(start + 23 * MINUTE));
    }

    #[test]
    fn a_limit_of_silence_holds_for_what_settles_as_well() {
        let start = Instant::now();
        let mut silence = silence(SETTLE, MINUTE, start);
        silence.note_output(start, true, false);
        silence.note_warning();
        assert_eq!(silence.next(), (start + SETTLE, SilenceAction::TooLong(SETTLE)));
    }

    // covers: S12
    #[test]
    fn an_agent_that_was_suspended_has_neither_been_silent_nor_waited() {
        let start = Instant::now();
        let mut silence = silence(30 * MINUTE, SETTLE, start);
        assert!(silence.leave_out_suspension(60 * MINUTE));
        assert_eq!(silence.next().0, start + 84 * MINUTE);
        assert!(!silence.leave_out_suspension(60 * MINUTE), "it is known");
        silence.note_output(start + 61 * MINUTE, true, true);
        silence.leave_out_suspension(62 * MINUTE);
        assert_eq!(silence.waits_until(), Some(start + 83 * MINUTE));
        assert_eq!(silence.next().0, start + 63 * MINUTE + LOOK);
    }
}
