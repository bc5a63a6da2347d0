//! What everything together may use.

use std::time::Duration;

use crate::cost::Usd;
use crate::hank::Hank;

/// The ceiling of a run and of the runs that it goes on with; absent means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Money.
    pub max_dollars: Option<Usd>,
    /// Time in which a run goes on.
    pub max_time: Option<Duration>,
}

impl Ceiling {
    /// The ceiling of a run of `hank`: what the command line says, which is `self`, else what the hank says; each currency for itself
    /// ("hank configuration", section 6.3, run ceiling).
    #[must_use]
    pub fn over(self, hank: &Hank) -> Self {
        let budget = hank
            .overrides
            .as_ref()
            .and_then(|overrides| overrides.budget.as_ref());
        let max_time = budget.and_then(|budget| budget.max_time_seconds).map(duration);
        Self {
            max_dollars: self.max_dollars.or(budget.and_then(|budget| budget.max_dollars)),
            max_time: self.max_time.or(max_time),
        }
    }
}

/// Seconds as hank.json has them; more than a duration can hold is no limit that anybody reaches.
pub(super) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
