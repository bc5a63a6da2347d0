//! Total budget: the limit on everything together.

use std::fmt;
use std::time::Duration;

use super::account::ThreadLedger;
use crate::cost::{Usd, over_budget};
use crate::document::HankweaveState;
use crate::hank::Hank;
use crate::thread::runs_of_history;
use crate::time::short_duration;

/// The ceiling of a run and of the runs that it continues; absent means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Money.
    pub max_dollars: Option<Usd>,
    /// Time in which codons are at work.
    pub max_time: Option<Duration>,
}

impl Ceiling {
    /// The ceiling of a run of `hank`: `self`, which comes from the command line, else the one of the hank;
    /// each currency for itself (HANK-30).
    #[must_use]
    pub fn or_from_hank(self, hank: &Hank) -> Self {
        let budget = hank.budget();
        let max_time = budget.and_then(|budget| budget.max_time_seconds).map(duration);
        Self {
            max_dollars: self.max_dollars.or(budget.and_then(|budget| budget.max_dollars)),
            max_time: self.max_time.or(max_time),
        }
    }
}

/// A ceiling and what was used of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CeilingUse {
    ceiling: Ceiling,
    spent: Usd,
    /// Whether more was spent than is known.
    is_lower_bound: bool,
    elapsed: Duration,
}

impl CeilingUse {
    /// Returns the usage of all codons that have ended.
    #[must_use]
    pub fn of(ceiling: Ceiling, state: &HankweaveState) -> Self {
        let account = ThreadLedger::new(state).now();
        // What was spent before a run that started over counts against nothing.
        let mut counting = state.runs.iter().take(runs_of_history(state));
        Self {
            ceiling,
            spent: account.spent,
            is_lower_bound: counting.any(|run| run.cost_is_lower_bound()),
            elapsed: account.elapsed,
        }
    }

    /// Returns the spending that counts against the total budget, in US dollars.
    #[must_use]
    pub fn spent(&self) -> Usd {
        self.spent
    }

    /// Whether more was spent than is known.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.is_lower_bound
    }

    /// Returns the time at work that counts against the total budget.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns a ceiling with which work can continue after this one is used up: the used amount plus the amount of this ceiling, in whole cents and
    /// seconds.
    #[must_use]
    pub fn more(&self) -> Ceiling {
        let second = Duration::from_secs(1);
        Ceiling {
            max_dollars: self.dollars().map(|most| enough(self.spent, most)),
            max_time: self.time().map(|most| {
                Duration::from_secs(self.elapsed.saturating_add(most).saturating_add(second).as_secs())
            }),
        }
    }

    /// Returns by how much more money than the ceiling was spent, after both amounts; `None` within the ceiling.
    #[must_use]
    pub fn over_budget(&self) -> Option<String> {
        over_budget(self.spent, self.ceiling.max_dollars?, self.is_lower_bound)
    }

    /// The money of the ceiling, when it is used up.
    fn dollars(&self) -> Option<Usd> {
        self.ceiling.max_dollars.filter(|most| self.spent >= *most)
    }

    /// The time of the ceiling, when it is used up.
    fn time(&self) -> Option<Duration> {
        self.ceiling.max_time.filter(|most| self.elapsed >= *most)
    }
}

/// `used $0.6000 of $0.5000`, of what is used up
impl fmt::Display for CeilingUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.dollars(), self.time()) {
            (Some(most), _) => write!(f, "used {} of {most}", self.spent.display(self.is_lower_bound)),
            (None, Some(most)) => {
                let (elapsed, most) = (short_duration(self.elapsed), short_duration(most));
                write!(f, "used {elapsed} of {most}")
            }
            (None, None) => f.write_str("nothing of it is used up"),
        }
    }
}

/// Returns `most` on top of the amount that people see as spent, in whole cents, and more than was spent in any case.
fn enough(spent: Usd, most: Usd) -> Usd {
    const SHOWN: u64 = 100_000;
    let shown = Usd::from_nanos(spent.as_nanos() / SHOWN * SHOWN);
    let sum = whole_cents(shown + most);
    match sum > spent {
        true => sum,
        false => whole_cents(spent + Usd::from_nanos(1)),
    }
}

/// The next amount of whole cents.
fn whole_cents(amount: Usd) -> Usd {
    const CENT: u64 = 10_000_000;
    Usd::from_nanos(amount.as_nanos().div_ceil(CENT).saturating_mul(CENT))
}

/// Seconds of hank.json; more than a duration can hold is as good as no limit.
pub(super) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
