//! Money that the children of a container share: the codons and loops of a hank, or the codons of a loop (HANK-31, HANK-32).

use std::collections::BTreeMap;

use crate::cost::Usd;
use crate::hank::{Allocation, ContainerBudget};

/// All shares together: shares are counted in billionths of the pool.
const ALL_SHARES: u64 = 1_000_000_000;

/// The money of a hank or of a loop.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) total: Usd,
    allocation: Allocation,
    /// The children in the order of hank.json.
    children: Vec<PoolShare>,
    /// The part of `total` that is not given away in shares.
    rest: Usd,
    /// For each child, the number of children from it on that divide `rest`: those with neither share nor limit.
    sharers_from: Vec<u64>,
}

/// The claim of a codon, or of a loop as a whole, on a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolShare {
    /// Share in billionths of the pool, if hank.json sets one.
    share: Option<u64>,
    /// Whether the child has a limit of its own, and so does not count among those that divide the rest.
    has_limit: bool,
}

impl PoolShare {
    pub(super) fn new(id: &str, shares: Option<&BTreeMap<String, f64>>, has_limit: bool) -> Self {
        let share = shares.and_then(|shares| shares.get(id)).copied();
        Self {
            share: share.map(billionths),
            has_limit,
        }
    }
}

/// Returns a fraction in billionths; all computation after that is exact.
fn billionths(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is above 0 and at most 1"
    )]
    let billionths = (share.clamp(0.0, 1.0) * 1e9).round() as u64;
    billionths
}

impl Pool {
    pub(super) fn new(total: Usd, budget: Option<&ContainerBudget>, children: Vec<PoolShare>) -> Self {
        let allocation = budget.and_then(|budget| budget.allocation);
        Self::with(total, allocation.unwrap_or(Allocation::Shared), children)
    }

    fn with(total: Usd, allocation: Allocation, children: Vec<PoolShare>) -> Self {
        let shared: u64 = children.iter().filter_map(|child| child.share).sum();
        let mut sharers_from: Vec<u64> = Vec::with_capacity(children.len());
        for child in children.iter().rev() {
            let after = sharers_from.last().copied().unwrap_or(0);
            sharers_from.push(after + u64::from(child.share.is_none() && !child.has_limit));
        }
        sharers_from.reverse();
        Self {
            total,
            allocation,
            children,
            rest: fraction_of(total, ALL_SHARES.saturating_sub(shared)),
            sharers_from,
        }
    }

    /// Returns the part of the pool for the child at `index`; `None` when the children share one pool without parts. `used` returns the usage of a child.
    pub(super) fn allotted(&self, index: usize, used: impl Fn(usize) -> Usd) -> Option<Usd> {
        match self.allocation {
            Allocation::Shared => None,
            Allocation::Proportional => Some(self.part(index)),
            Allocation::ProportionalStrict => Some(self.part(index).min(self.strictly_left(index, used))),
        }
    }

    /// Returns the share of the child. Without one it is an equal part of the rest, divided among the children from this one on that have neither
    /// share nor limit.
    fn part(&self, index: usize) -> Usd {
        if let Some(share) = self.children.get(index).and_then(|child| child.share) {
            return fraction_of(self.total, share);
        }
        let sharers = self.sharers_from.get(index).copied().unwrap_or(0);
        Usd::from_nanos(self.rest.as_nanos() / sharers.max(1))
    }

    /// Returns the money left after the earlier children. Each counts with its allotment even if it used less: a strict pool gives nothing back.
    fn strictly_left(&self, index: usize, used: impl Fn(usize) -> Usd) -> Usd {
        (0..index).fold(self.total, |left, earlier| {
            let allotted = self.part(earlier).min(left);
            left.saturating_sub(allotted.max(used(earlier)))
        })
    }
}

/// Returns `share` billionths of an amount, rounded down.
fn fraction_of(amount: Usd, share: u64) -> Usd {
    let nanos = u128::from(amount.as_nanos()) * u128::from(share) / u128::from(ALL_SHARES);
    Usd::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use Allocation::{Proportional, ProportionalStrict, Shared};
    use proptest::prelude::*;

    use super::*;

    /// A child and its usage.
    type UsedShare = (PoolShare, Usd);

    fn child(share: Option<f64>, has_limit: bool, used: u64) -> UsedShare {
        let share = share.map(billionths);
        (PoolShare { share, has_limit }, Usd::from_micros(used))
    }

    /// Returns the parts of all children; `None` when they have none of their own.
    fn parts(allocation: Allocation, children: &[UsedShare]) -> Option<Vec<Usd>> {
        let shares = children.iter().map(|(share, _)| *share).collect();
        let pool = Pool::with(WHOLE_POOL, allocation, shares);
        let parts = (0..children.len()).map(|index| pool.allotted(index, |child| children[child].1));
        parts.collect()
    }

    const WHOLE_POOL: Usd = Usd::from_micros(10_000);

    #[track_caller]
    fn check(allocation: Allocation, children: &[UsedShare], expected: &[u64]) {
        let expected: Vec<Usd> = expected.iter().copied().map(Usd::from_micros).collect();
        assert_eq!(parts(allocation, children), Some(expected), "{allocation:?}");
    }

    // covers: HANK-31
    #[test]
    fn in_a_shared_pool_nobody_has_a_part() {
        assert_eq!(parts(Shared, &[child(None, false, 0)]), None);
    }

    // covers: HANK-32
    #[test]
    fn shares_are_shares_of_the_whole_and_the_others_divide_the_rest() {
        check(
            Proportional,
            &[
                child(Some(0.5), false, 0),
                child(None, false, 0),
                child(None, false, 0),
            ],
            &[5_000, 2_500, 5_000],
        );
        // One that has a limit of its own does not count among those who divide.
        check(
            Proportional,
            &[
                child(None, true, 0),
                child(None, false, 0),
                child(Some(0.2), true, 0),
            ],
            &[8_000, 8_000, 2_000],
        );
    }

    // covers: HANK-32
    #[test]
    fn strictly_what_a_child_leaves_goes_to_nobody() {
        let thirds = [
            child(Some(0.5), false, 0),
            child(Some(0.3), false, 0),
            child(None, false, 0),
        ];
        check(ProportionalStrict, &thirds, &[5_000, 3_000, 2_000]);
        let spendthrift = [
            child(Some(0.5), false, 9_000),
            child(Some(0.3), false, 0),
            child(None, false, 0),
        ];
        check(ProportionalStrict, &spendthrift, &[5_000, 1_000, 0]);
    }

    fn children() -> impl Strategy<Value = Vec<UsedShare>> {
        let raw = (0_u64..4_000, any::<bool>(), any::<bool>());
        prop::collection::vec(raw, 1..6).prop_map(|raw| {
            let most = raw.len() as f64;
            let children = raw
                .into_iter()
                .enumerate()
                .map(|(index, (used, shared, has_limit))| {
                    let share = shared.then_some((index + 1) as f64 / (most * (most + 1.0) / 2.0));
                    child(share, has_limit, used)
                });
            children.collect()
        })
    }

    proptest! {
        #[test]
        fn nobody_is_allotted_more_than_the_whole(children in children()) {
            for allocation in [Proportional, ProportionalStrict] {
                let parts = parts(allocation, &children).unwrap();
                prop_assert!(parts.into_iter().all(|part| part <= WHOLE_POOL));
            }
        }

        #[test]
        fn strict_parts_are_never_more_than_the_whole_together(children in children()) {
            let sum: Usd = parts(ProportionalStrict, &children).unwrap().into_iter().sum();
            prop_assert!(sum <= WHOLE_POOL, "{sum}");
        }

        #[test]
        fn strict_is_never_more_than_proportional(children in children()) {
            let [strict, generous] =
                [ProportionalStrict, Proportional].map(|allocation| parts(allocation, &children).unwrap());
            prop_assert!(strict.iter().zip(&generous).all(|(strict, generous)| strict <= generous));
        }
    }
}
