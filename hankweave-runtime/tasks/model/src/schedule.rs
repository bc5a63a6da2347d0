//! Frequency of a task's checkpoints: more often when more is at stake (TASK-48).

use std::time::Duration;

/// Silence after which a session counts as interrupted.
pub const INTERRUPTED_AFTER: Duration = Duration::from_secs(5 * 60);

/// Minimum time between two checkpoints for interruptions.
pub const BETWEEN_INTERRUPTIONS: Duration = Duration::from_secs(30);

/// Events since the last checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UnsavedWork {
    /// Operations of agents.
    pub operations: u64,
    /// Files that changed.
    pub files: u64,
    /// Duration of the work.
    pub duration: Duration,
    /// Failures.
    pub failures: u64,
    /// How complex the work is, 0 to 1.
    pub complexity: f64,
}

/// Amount of work at stake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Everything.
    Critical,
}

impl Risk {
    /// Returns the time from one checkpoint to the next.
    #[must_use]
    pub fn interval(self) -> Duration {
        let minutes = match self {
            Self::Low => 30,
            Self::Medium => 15,
            Self::High => 5,
            Self::Critical => 1,
        };
        Duration::from_secs(minutes * 60)
    }
}

impl UnsavedWork {
    /// Returns the points that determine the risk.
    #[must_use]
    pub fn score(&self) -> u32 {
        let minutes = self.duration.as_secs() / 60;
        points(self.operations, [15, 60, 120])
            + points(self.files, [30, 150, 600])
            + points(minutes, [15, 45, 90])
            + points(self.failures, [2, 4, 8])
            + if self.complexity > 0.7 { 2 } else { 0 }
    }

    /// Returns the risk for the points.
    #[must_use]
    pub fn risk(&self) -> Risk {
        match self.score() {
            12.. => Risk::Critical,
            8.. => Risk::High,
            4.. => Risk::Medium,
            _ => Risk::Low,
        }
    }

    /// Whether a checkpoint is due when this time has passed since the last one.
    #[must_use]
    pub fn is_due(&self, since_last: Duration) -> bool {
        since_last >= self.risk().interval()
    }
}

/// Whether an interruption gets a checkpoint. `since_last` is the time since the last interruption with a checkpoint, if there was one.
#[must_use]
pub fn interruption_counts(since_last: Option<Duration>) -> bool {
    since_last.is_none_or(|since| since >= BETWEEN_INTERRUPTIONS)
}

/// Returns 0 points below `some`, 2 from `some`, 3 from `much` and 4 from `most` on.
fn points(value: u64, [some, much, most]: [u64; 3]) -> u32 {
    match value {
        value if value >= most => 4,
        value if value >= much => 3,
        value if value >= some => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    // covers: TASK-48
    #[test]
    fn the_more_is_at_stake_the_sooner_a_checkpoint_is_due() {
        let nothing = UnsavedWork::default();
        assert_eq!((nothing.score(), nothing.risk()), (0, Risk::Low));
        for (stake, score, risk, due) in [
            (
                UnsavedWork {
                    operations: 14,
                    ..nothing
                },
                0,
                Risk::Low,
                30,
            ),
            (
                UnsavedWork {
                    operations: 15,
                    failures: 2,
                    ..nothing
                },
                4,
                Risk::Medium,
                15,
            ),
            (
                UnsavedWork {
                    operations: 60,
                    files: 150,
                    complexity: 0.8,
                    ..nothing
                },
                8,
                Risk::High,
                5,
            ),
            (
                UnsavedWork {
                    operations: 120,
                    files: 600,
                    duration: minutes(90),
                    ..nothing
                },
                12,
                Risk::Critical,
                1,
            ),
            (
                UnsavedWork {
                    failures: 8,
                    complexity: 0.7,
                    ..nothing
                },
                4,
                Risk::Medium,
                15,
            ),
            (
                UnsavedWork {
                    duration: minutes(45),
                    files: 30,
                    ..nothing
                },
                5,
                Risk::Medium,
                15,
            ),
        ] {
            assert_eq!((stake.score(), stake.risk()), (score, risk), "{stake:?}");
            assert!(stake.is_due(minutes(due)) && !stake.is_due(minutes(due) - Duration::from_millis(1)));
        }
    }

    // covers: TASK-48
    #[test]
    fn a_row_of_interruptions_gets_one_checkpoint() {
        assert!(interruption_counts(None));
        assert!(!interruption_counts(Some(Duration::from_secs(29))));
        assert!(interruption_counts(Some(BETWEEN_INTERRUPTIONS)));
    }
}
