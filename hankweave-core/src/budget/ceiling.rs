//! Total budget ("ceiling"): the limit on the money and time of a run together with the runs that it continues.

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
    /// Limit of money.
    pub max_dollars: Option<Usd>,
    /// Limit of the time in which codons are at work.
    pub max_time: Option<Duration>,
}

impl Ceiling {
    /// Returns the ceiling of a run of `hank`. `self` comes from the command line; a limit that it lacks, of money or of time, is taken from the hank
    /// (HANK-30).
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
    /// Time at work.
    elapsed: Duration,
}

impl CeilingUse {
    /// Returns the usage so far. A codon that has not ended counts with its cost, but not with its time.
    #[must_use]
    pub fn of(ceiling: Ceiling, state: &HankweaveState) -> Self {
        let account = ThreadLedger::new(state).now();
        // If the user started over, the runs before that do not count.
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
            max_dollars: self.used_up_dollars().map(|most| enough(self.spent, most)),
            max_time: self.used_up_time().map(|most| {
                Duration::from_secs(self.elapsed.saturating_add(most).saturating_add(second).as_secs())
            }),
        }
    }

    /// Returns, in words, the money spent, the ceiling and the amount above it; `None` within the ceiling.
    #[must_use]
    pub fn over_budget(&self) -> Option<String> {
        over_budget(self.spent, self.ceiling.max_dollars?, self.is_lower_bound)
    }

    /// Returns the ceiling's limit of money if it is used up.
    fn used_up_dollars(&self) -> Option<Usd> {
        self.ceiling.max_dollars.filter(|most| self.spent >= *most)
    }

    /// Returns the ceiling's limit of time if it is used up.
    fn used_up_time(&self) -> Option<Duration> {
        self.ceiling.max_time.filter(|most| self.elapsed >= *most)
    }
}

/// `used $0.6000 of $0.5000`: the limit that is used up, money first.
impl fmt::Display for CeilingUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.used_up_dollars(), self.used_up_time()) {
            (Some(most), _) => write!(f, "used {} of {most}", self.spent.display(self.is_lower_bound)),
            (None, Some(most)) => {
                let (elapsed, most) = (short_duration(self.elapsed), short_duration(most));
                write!(f, "used {elapsed} of {most}")
            }
            (None, None) => f.write_str("nothing of it is used up"),
        }
    }
}

/// Returns `most` more than was spent, in whole cents. The amount spent is rounded down to the decimals that people see, but the result is more than
/// the exact amount in any case.
fn enough(spent: Usd, most: Usd) -> Usd {
    /// Billionths of a dollar in the last decimal that people see.
    const SHOWN: u64 = 100_000;
    let shown = Usd::from_nanos(spent.as_nanos() / SHOWN * SHOWN);
    let sum = whole_cents(shown + most);
    match sum > spent {
        true => sum,
        false => whole_cents(spent + Usd::from_nanos(1)),
    }
}

/// Rounds up to whole cents.
fn whole_cents(amount: Usd) -> Usd {
    const CENT: u64 = 10_000_000;
    Usd::from_nanos(amount.as_nanos().div_ceil(CENT).saturating_mul(CENT))
}

/// Returns a number of seconds from hank.json as a duration. A number that is too large becomes the longest duration, which is as good as no limit.
pub(super) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
