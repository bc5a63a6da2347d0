//! Schedule of a task's checkpoints while a codon works (TASK-71): a checkpoint is due after much work, after a long silence and at a stop.

use std::time::Duration;

use hankweave_task_model::{INTERRUPTED_AFTER, UnsavedWork, interruption_counts};
use tokio::time::Instant;

/// Interval of checks whether a checkpoint is due, because time alone also raises what is at stake.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Cause of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointCause {
    /// Enough is at stake.
    Due,
    /// The run has been silent for long.
    Silent,
    /// The run is being stopped.
    Stopped,
}

impl CheckpointCause {
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Due => "as much as this is at stake",
            Self::Silent => "the run has said nothing for five minutes",
            Self::Stopped => "the run is being stopped",
        }
    }
}

/// State of the schedule for one job.
#[derive(Debug)]
pub(super) struct Schedule {
    last_checkpoint: Instant,
    last_output: Instant,
    /// Last interruption (a silence or a stop) that got a checkpoint.
    last_interruption: Option<Instant>,
    last_check: Instant,
    /// Operations and failures since the last checkpoint. The duration is filled in at each check; a job does not know the other fields.
    stake: UnsavedWork,
}

impl Schedule {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            last_checkpoint: now,
            last_output: now,
            last_interruption: None,
            last_check: now,
            stake: UnsavedWork::default(),
        }
    }

    /// Notes output of the run.
    pub(super) fn output_seen(&mut self, has_failed: bool) {
        self.last_output = Instant::now();
        self.stake.operations += 1;
        self.stake.failures += u64::from(has_failed);
    }

    /// Notes that a checkpoint was made.
    pub(super) fn made(&mut self) {
        self.last_checkpoint = Instant::now();
        self.stake = UnsavedWork::default();
    }

    /// Returns the time of the next check.
    pub(super) fn next(&self) -> Instant {
        self.last_check + CHECK_INTERVAL
    }

    /// Returns why a checkpoint is due, if one is.
    pub(super) fn checkpoint_due(&mut self) -> Option<CheckpointCause> {
        let now = Instant::now();
        self.last_check = now;
        let since = now - self.last_checkpoint;
        let stake = UnsavedWork {
            duration: since,
            ..self.stake
        };
        if stake.is_due(since) {
            return Some(CheckpointCause::Due);
        }
        // A silence of `INTERRUPTED_AFTER` is an interruption. A checkpoint since then already covers it.
        let is_silent = now - self.last_output >= INTERRUPTED_AFTER
            && self.last_checkpoint < self.last_output + INTERRUPTED_AFTER;
        (is_silent && self.count_interruption(now)).then_some(CheckpointCause::Silent)
    }

    /// Returns why the stop of a run gets a checkpoint, if it does. Of several interruptions in a row only one does.
    pub(super) fn stopped(&mut self) -> Option<CheckpointCause> {
        self.count_interruption(Instant::now())
            .then_some(CheckpointCause::Stopped)
    }

    /// Returns whether an interruption now gets a checkpoint, and stores its time if it does.
    fn count_interruption(&mut self, now: Instant) -> bool {
        let counts = interruption_counts(self.last_interruption.map(|then| now - then));
        if counts {
            self.last_interruption = Some(now);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    // covers: TASK-71
    #[tokio::test(start_paused = true)]
    async fn a_checkpoint_is_due_by_what_is_at_stake_by_silence_and_at_the_end() {
        let mut schedule = Schedule::new();
        for _ in 0..29 {
            advance(MINUTE).await;
            schedule.output_seen(false);
            if schedule.checkpoint_due().is_some() {
                break;
            }
        }
        // 15 events and 15 minutes are four points: a checkpoint every 15 minutes.
        assert_eq!(schedule.next() - schedule.last_checkpoint, 16 * MINUTE);
        schedule.made();
        for _ in 0..4 {
            schedule.output_seen(false);
            advance(MINUTE).await;
            assert_eq!(schedule.checkpoint_due(), None);
        }
        advance(4 * MINUTE).await;
        assert_eq!(schedule.checkpoint_due(), Some(CheckpointCause::Silent));
        schedule.made();
        advance(MINUTE).await;
        assert_eq!(schedule.checkpoint_due(), None, "it is as silent as before");
        assert_eq!(schedule.stopped(), Some(CheckpointCause::Stopped));
        assert_eq!(schedule.stopped(), None);
        for _ in 0..120 {
            schedule.output_seen(true);
        }
        advance(5 * MINUTE).await;
        assert_eq!(schedule.checkpoint_due(), Some(CheckpointCause::Due));
    }
}
