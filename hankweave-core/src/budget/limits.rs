//! Limits of one codon at its start (HANK-33 to HANK-38).
//!
//! A codon may be limited by its own budget, by that of its loop, by a share of the hank's or loop's money, and by the ceiling (the total budget). What
//! earlier attempts and codons have used is subtracted from each; the lowest limit counts. [`HankBudgets`] has the budgets, [`Scope`] computes the limits
//! of one codon, and [`RunBudgets`] avoids counting the usage again for each codon of a run.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::account::{Account, ThreadLedger};
use super::ceiling::{Ceiling, duration};
use super::pool::{Pool, PoolShare};
use crate::codon::BudgetExceeded;
use crate::cost::Usd;
use crate::document::{HankweaveState, PlanEntry, RunRecord, RunStatus};
use crate::hank::{CodonConfig, ContainerBudget, Hank, HankItem, LoopConfig, OnExceeded};
use crate::id::{CodonId, RunId, SessionId};
use crate::thread::{ThreadItem, ThreadTip};

/// The limits of one execution of a codon; absent means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodonLimits {
    /// Money of the agent: the lowest of all limits.
    pub dollars: Option<Usd>,
    /// The codon's own limit of money as configured, and the amount that its earlier attempts have used.
    pub own_dollars: Option<(Usd, Usd)>,
    /// Time from the start of the codon.
    pub time: Option<Duration>,
    /// Sum of the tokens that models write.
    pub output_tokens: Option<u64>,
    /// Tokens of the largest turn, read and written together.
    pub context_tokens: Option<u64>,
    /// Action at a limit, if codon, loop or hank set one.
    pub on_exceeded: Option<OnExceeded>,
    /// Whether `dollars` is the share of a larger amount that is allotted to the codon, or to its loop (HANK-31).
    pub is_share: bool,
    /// Whether `dollars` and `time` are what is left of the ceiling.
    pub of_the_ceiling: PartOf,
    /// Whether `dollars` and `time` are what is left of the budget of the loop.
    pub of_the_loop: PartOf,
    /// The whole ceiling, of which earlier codons may have used a part.
    pub ceiling: Ceiling,
    /// The whole budget of the loop, of which earlier codons may have used a part.
    pub loop_budget: Ceiling,
    /// The money that is left of the ceiling, for the agent and the sentinels of the codon together (SENT-10).
    pub left_of_ceiling: Option<Usd>,
    /// The money that is left of the limit of the loop, for agents and sentinels together. It limits only the sentinels; the agent is limited by
    /// `dollars` (SENT-20).
    pub left_of_loop: Option<Usd>,
}

/// Which limits of a codon are the rest of a larger limit: if such a limit is reached, the larger one is used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartOf {
    /// The limit of money.
    pub dollars: bool,
    /// The limit of time.
    pub time: bool,
}

impl CodonLimits {
    /// Returns the limits that are left for the codon `id` of `thread` when its agent continues in `session`.
    ///
    /// Output tokens that were written in that session count; a codon that starts a new session has all its tokens again.
    #[must_use]
    pub fn going_on(mut self, thread: &ThreadTip<'_>, id: &CodonId, session: &SessionId) -> Self {
        let written = thread
            .attempts(id)
            .filter(|codon| codon.agent_session_id() == Some(session))
            .map(|codon| codon.agent_tokens().output_tokens)
            .fold(0, u64::saturating_add);
        self.output_tokens = self.output_tokens.map(|most| most.saturating_sub(written));
        self
    }

    /// Whether the reached limit is what was left of the ceiling.
    #[must_use]
    pub fn is_of_the_ceiling(&self, exceeded: &BudgetExceeded) -> bool {
        match exceeded {
            // In the second case, agent and sentinels together have reached the ceiling.
            BudgetExceeded::Cost { limit, .. } => {
                self.of_the_ceiling.dollars
                    || (self.dollars != Some(*limit) && self.left_of_ceiling == Some(*limit))
            }
            BudgetExceeded::Duration { .. } => self.of_the_ceiling.time,
            BudgetExceeded::OutputTokens { .. } | BudgetExceeded::ContextTokens { .. } => false,
        }
    }

    /// Adds to a reached limit the larger budget of which it is the rest: the ceiling or the budget of the loop.
    pub(super) fn with_larger(&self, exceeded: BudgetExceeded) -> BudgetExceeded {
        let of_the_ceiling = self.is_of_the_ceiling(&exceeded);
        let of_the_loop = |is_part: bool| is_part && !of_the_ceiling;
        match exceeded {
            BudgetExceeded::Cost { limit, used, .. } => BudgetExceeded::Cost {
                limit,
                used,
                total: self.ceiling.max_dollars.filter(|_| of_the_ceiling),
                loop_total: self
                    .loop_budget
                    .max_dollars
                    .filter(|_| of_the_loop(self.of_the_loop.dollars)),
                share: self.is_share && self.dollars == Some(limit),
            },
            BudgetExceeded::Duration { limit, used, .. } => BudgetExceeded::Duration {
                limit,
                used,
                total: self.ceiling.max_time.filter(|_| of_the_ceiling),
                loop_total: self
                    .loop_budget
                    .max_time
                    .filter(|_| of_the_loop(self.of_the_loop.time)),
            },
            BudgetExceeded::OutputTokens { .. } | BudgetExceeded::ContextTokens { .. } => exceeded,
        }
    }

    /// If the reached limit is the rest of the codon's own limit, returns that whole limit with the usage of all attempts.
    #[must_use]
    pub fn over_all_attempts(&self, exceeded: BudgetExceeded) -> BudgetExceeded {
        match (exceeded, self.own_dollars) {
            // The condition holds if `limit` is what `before`, the usage of earlier attempts, has left of `own`: zero if `before` is more than `own`.
            (
                BudgetExceeded::Cost {
                    limit,
                    used,
                    total: None,
                    loop_total: None,
                    share: false,
                },
                Some((own, before)),
            ) if limit + before == own.max(before) => BudgetExceeded::of_money(own, used + before),
            (exceeded, _) => exceeded,
        }
    }

    /// Returns the action at the reached limit: that of the codon, loop or hank. By default the run pauses if
    /// the ceiling is used up, and otherwise the codon counts as completed.
    #[must_use]
    pub fn consequence(&self, exceeded: &BudgetExceeded) -> OnExceeded {
        let default = match self.is_of_the_ceiling(exceeded) {
            true => OnExceeded::Pause,
            false => OnExceeded::Complete,
        };
        self.on_exceeded.unwrap_or(default)
    }
}

/// Returns the limits of `entry` if it starts now, after the usage that `state` records.
///
/// Codons and loops that `hank` does not have, because hank.json was changed, are limited by `ceiling` alone.
#[must_use]
pub fn limits(hank: &Hank, ceiling: Ceiling, state: &HankweaveState, entry: &PlanEntry) -> CodonLimits {
    RunBudgets::of(hank, ceiling).limits(state, entry)
}

/// Budgets of a run in progress. Each call counts only the codons that have ended since the last call, not the whole history again.
#[derive(Debug)]
pub struct RunBudgets<'h> {
    budgets: HankBudgets<'h>,
    account: Account,
    /// The run in progress, as far as `account` has counted it; `None` if the next call has to count everything.
    counted: Option<CountedRun>,
}

/// The run in progress, and the number of its codons that are counted.
#[derive(Debug)]
struct CountedRun {
    run_id: RunId,
    codons: usize,
}

impl<'h> RunBudgets<'h> {
    /// Returns the budgets of a run; nothing is counted yet.
    #[must_use]
    pub fn of(hank: &'h Hank, ceiling: Ceiling) -> Self {
        Self {
            budgets: HankBudgets::of(hank, ceiling),
            account: Account::default(),
            counted: None,
        }
    }

    /// Returns the limits of `entry` as [`limits`] does. `state` must be a later state of the document of the last call.
    pub fn limits(&mut self, state: &HankweaveState, entry: &PlanEntry) -> CodonLimits {
        self.count(state);
        self.budgets.limits(&self.account, entry)
    }

    /// Brings the account up to date: adds the new codons of the run in progress. In another run, or with a codon that has not ended and may still change,
    /// it counts everything again.
    fn count(&mut self, state: &HankweaveState) {
        let has_ended = |run: &&RunRecord| run.codons.last().is_none_or(|codon| codon.is_terminal());
        let newest = state.runs.front().map(AsRef::as_ref).filter(has_ended);
        let newest = newest.filter(|run| run.status == RunStatus::Running);
        match (newest, &mut self.counted) {
            (Some(run), Some(counted)) if counted.run_id == run.run_id => {
                for index in counted.codons..run.codons.len() {
                    self.account.count(&ThreadItem::in_newest_run(run, index));
                }
                counted.codons = run.codons.len();
            }
            _ => {
                self.account = ThreadLedger::new(state).now();
                self.counted = newest.map(|run| CountedRun {
                    run_id: run.run_id.clone(),
                    codons: run.codons.len(),
                });
            }
        }
    }
}

/// Budgets of a hank and its ceiling, with an index of the hank's items.
#[derive(Debug)]
pub(super) struct HankBudgets<'h> {
    hank: &'h Hank,
    ceiling: Ceiling,
    /// Index in `hank.items` of each codon outside of loops and of each loop, by id.
    items: HashMap<&'h str, usize>,
    /// The dollars of the ceiling, shared among the hank's items; `None` without a limit of money.
    pool: Option<Pool>,
}

impl<'h> HankBudgets<'h> {
    pub(super) fn of(hank: &'h Hank, ceiling: Ceiling) -> Self {
        let shares = hank.budget().map(|budget| &budget.shares);
        let child = |item: &HankItem| match item {
            HankItem::Codon(codon) => pool_share(codon, shares),
            HankItem::Loop(found) => {
                let budget = found.budget.as_ref();
                let has_limit = budget.is_some_and(|budget| budget.max_dollars.is_some());
                PoolShare::new(found.id.as_str(), shares, has_limit)
            }
        };
        let pool = |total| Pool::new(total, hank.budget(), hank.items.iter().map(child).collect());
        Self {
            hank,
            ceiling,
            items: hank.items.iter().map(HankItem::id).zip(0..).collect(),
            pool: ceiling.max_dollars.map(pool),
        }
    }

    /// Returns the limits that are left for `entry` after the usage in `account`.
    pub(super) fn limits(&self, account: &Account, entry: &PlanEntry) -> CodonLimits {
        let scope = Scope {
            budgets: self,
            in_loop: self.loop_of(entry),
            account,
            entry,
        };
        let codon = self.hank.codon(entry.codon_id.configured());
        let own = codon.and_then(|codon| codon.budget).unwrap_or_default();
        let of_container = |budget: Option<&ContainerBudget>| budget.and_then(|budget| budget.on_exceeded);
        let on_exceeded = own
            .on_exceeded
            .or_else(|| of_container(scope.configured_loop_budget()));
        // What is left of the codon's own limits.
        let own_dollars = own.max_dollars.map(|own| own.saturating_sub(scope.used()));
        let own_time = own.max_time_seconds.map(|own| scope.left_of_time(own));
        let left_of_loop = scope.left_of_loop();
        let (dollars, dollars_of_ceiling) = scope.dollars(own_dollars);
        let (time, time_of_ceiling) = scope.time(own_time, left_of_loop.max_time);
        let dollars_of_loop = !dollars_of_ceiling && is_part(dollars, left_of_loop.max_dollars, own_dollars);
        CodonLimits {
            dollars,
            own_dollars: own.max_dollars.map(|own| (own, scope.used())),
            is_share: dollars.is_some() && !dollars_of_ceiling && !dollars_of_loop && dollars != own_dollars,
            time,
            output_tokens: own.max_output_tokens,
            context_tokens: own.max_context_tokens,
            on_exceeded: on_exceeded.or_else(|| of_container(self.hank.budget())),
            of_the_ceiling: PartOf {
                dollars: dollars_of_ceiling,
                time: time_of_ceiling,
            },
            of_the_loop: PartOf {
                dollars: dollars_of_loop,
                time: !time_of_ceiling && is_part(time, left_of_loop.max_time, own_time),
            },
            ceiling: self.ceiling,
            loop_budget: scope.loop_budget(),
            left_of_ceiling: scope.left_of_ceiling(),
            left_of_loop: left_of_loop.max_dollars,
        }
    }

    fn loop_of(&self, entry: &PlanEntry) -> Option<&'h LoopConfig> {
        self.hank.find_loop(&entry.loop_context.as_ref()?.loop_id)
    }

    /// Returns the usage of a codon or loop of the hank.
    fn used(&self, item: usize, account: &Account) -> Usd {
        match &self.hank.items[item] {
            HankItem::Codon(codon) => account.dollars_of_configured(codon.id.as_str()),
            HankItem::Loop(found) => account.dollars_of_loop(found),
        }
    }
}

/// Returns the claim of a codon on the pool of its hank or loop.
fn pool_share(codon: &CodonConfig, shares: Option<&BTreeMap<String, f64>>) -> PoolShare {
    let has_limit = codon.budget.is_some_and(|budget| budget.max_dollars.is_some());
    PoolShare::new(codon.id.as_str(), shares, has_limit)
}

/// One codon with all that limits it.
struct Scope<'a> {
    budgets: &'a HankBudgets<'a>,
    /// The loop that contains the codon.
    in_loop: Option<&'a LoopConfig>,
    account: &'a Account,
    entry: &'a PlanEntry,
}

impl Scope<'_> {
    fn configured_loop_budget(&self) -> Option<&ContainerBudget> {
        self.in_loop.and_then(|found| found.budget.as_ref())
    }

    fn left_of_ceiling(&self) -> Option<Usd> {
        let total = self.budgets.ceiling.max_dollars?;
        Some(total.saturating_sub(self.account.spent))
    }

    /// Returns the whole budget of the loop.
    fn loop_budget(&self) -> Ceiling {
        let budget = self.configured_loop_budget();
        Ceiling {
            max_dollars: budget.and_then(|budget| budget.max_dollars),
            max_time: budget.and_then(|budget| budget.max_time_seconds).map(duration),
        }
    }

    /// Returns what is left of the budget of the loop.
    fn left_of_loop(&self) -> Ceiling {
        let Some(in_loop) = self.in_loop else {
            return Ceiling::default();
        };
        let whole = self.loop_budget();
        let dollars_used = self.account.dollars_of_loop(in_loop);
        let time_used = self.account.time_of_loop(in_loop);
        Ceiling {
            max_dollars: whole.max_dollars.map(|limit| limit.saturating_sub(dollars_used)),
            max_time: whole.max_time.map(|limit| limit.saturating_sub(time_used)),
        }
    }

    /// Returns the lowest of all limits of money, and whether that is what is left of the ceiling; `own` is what is left of the codon's own limit.
    fn dollars(&self, own: Option<Usd>) -> (Option<Usd>, bool) {
        let left = self.left_of_ceiling();
        let allotted = self.allotted();
        // `inside` is the limit that loop and shares set. In a loop this may be just `left`, passed on. `not_ceiling` leaves that out, so that the ceiling
        // can be compared with the other limits.
        let (inside, not_ceiling) = match self.in_loop {
            // A loop without a limit of its own passes on what is left of the ceiling, in shares if it has any. A share counts as another limit
            // than the ceiling.
            Some(in_loop) => {
                let inside = self.dollars_in_loop(in_loop, left, allotted);
                let without_ceiling = self.dollars_in_loop(in_loop, None, allotted);
                let share = inside.filter(|inside| Some(*inside) != left);
                (inside, least([without_ceiling, share]))
            }
            None => {
                let inside = allotted.map(|allotted| allotted.saturating_sub(self.used()));
                (inside, inside)
            }
        };
        let others = least([not_ceiling, own]);
        (least([left, inside, own]), is_of_the_ceiling(left, others))
    }

    /// Returns the money that the hank's pool allots to the codon, or to its loop; `None` without shares.
    fn allotted(&self) -> Option<Usd> {
        let id = match self.in_loop {
            Some(found) => found.id.as_str(),
            None => self.entry.codon_id.configured(),
        };
        let budgets = self.budgets;
        let index = *budgets.items.get(id)?;
        let used = |item| budgets.used(item, self.account);
        budgets.pool.as_ref()?.allotted(index, used)
    }

    /// Returns the limit of money of a codon in a loop, which has one envelope for all its iterations (HANK-34). `left` is what is left of the ceiling,
    /// `allotted` the hank's allotment to the loop.
    fn dollars_in_loop(&self, found: &LoopConfig, left: Option<Usd>, allotted: Option<Usd>) -> Option<Usd> {
        let used = self.account.dollars_of_loop(found);
        let cap = found.budget.as_ref().and_then(|budget| budget.max_dollars);
        // `cap` and `allotted` count from the start of the loop, so what was left of the ceiling then is compared; `used` is subtracted below.
        let left_at_start = left.map(|left| left + used);
        let envelope = least([cap, allotted, left_at_start])?;
        let shares = found.budget.as_ref().map(|budget| &budget.shares);
        let children = found.codons.iter().map(|codon| pool_share(codon, shares));
        let pool = Pool::new(envelope, self.configured_loop_budget(), children.collect());
        let rest = pool.total.saturating_sub(used);
        let id = self.entry.codon_id.configured();
        let index = found.codons.iter().position(|codon| codon.id.as_str() == id)?;
        let used = |index: usize| {
            let id = found.codons[index].id.as_str();
            self.account.dollars_of_configured(id)
        };
        let share = pool.allotted(index, used);
        let share_left = share.map(|share| share.saturating_sub(used(index)));
        Some(share_left.map_or(rest, |share_left| share_left.min(rest)))
    }

    /// Returns the cost of earlier attempts at this codon.
    fn used(&self) -> Usd {
        self.account.dollars_of_codon(&self.entry.codon_id)
    }

    /// Returns what is left of the codon's own limit of time; `own` is the whole limit, in seconds.
    fn left_of_time(&self, own: f64) -> Duration {
        duration(own).saturating_sub(self.account.time_of_codon(&self.entry.codon_id))
    }

    /// Returns the lowest of all limits of time, and whether that is what is left of the ceiling. `own` and `in_loop` are what is left of the limits of
    /// codon and loop.
    fn time(&self, own: Option<Duration>, in_loop: Option<Duration>) -> (Option<Duration>, bool) {
        let total = self.budgets.ceiling.max_time;
        let left = total.map(|total| total.saturating_sub(self.account.elapsed));
        let others = least([own, in_loop]);
        (least([others, left]), is_of_the_ceiling(left, others))
    }
}

/// Returns the lowest limit; `None` if there is none.
fn least<T: Ord, const N: usize>(limits: [Option<T>; N]) -> Option<T> {
    limits.into_iter().flatten().min()
}

/// Whether `limit` is `left`, what is left of a larger limit, and not the codon's own.
fn is_part<T: PartialEq>(limit: Option<T>, left: Option<T>, own: Option<T>) -> bool {
    limit.is_some() && limit == left && limit != own
}

/// Whether `left`, what is left of the ceiling, is less than every other limit. If both are equal, the codon ends at the other limit, and the run
/// pauses before the next codon, for which nothing is left. If nothing is left already, the ceiling counts.
fn is_of_the_ceiling<T: PartialOrd + Default>(left: Option<T>, others: Option<T>) -> bool {
    match (left, others) {
        (Some(left), Some(others)) => left < others || left == T::default(),
        (left, _) => left.is_some(),
    }
}
