//! Limits of one codon at its start (HANK-33 to HANK-38).

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
    /// Money.
    pub dollars: Option<Usd>,
    /// The codon's own limit, and what its earlier attempts have used of it.
    pub own_dollars: Option<(Usd, Usd)>,
    /// Time from the start of the codon.
    pub time: Option<Duration>,
    /// Tokens that models write, all together.
    pub output_tokens: Option<u64>,
    /// Tokens of the largest turn, those that the model reads and those that it writes.
    pub context_tokens: Option<u64>,
    /// Action at a limit, if codon, loop or hank set one.
    pub on_exceeded: Option<OnExceeded>,
    /// Whether the money is the share of a larger amount that is allotted to the codon, or to its loop (HANK-31).
    pub is_share: bool,
    /// Which of them are what is left of the ceiling.
    pub of_the_ceiling: PartOf,
    /// Which of them are what is left of the budget of the loop.
    pub of_the_loop: PartOf,
    /// The ceiling, of which earlier codons may have used a part.
    pub ceiling: Ceiling,
    /// The budget of the loop, of which earlier codons may have used a part.
    pub loop_budget: Ceiling,
    /// The money that is left of the ceiling, for the agent and the sentinels of the codon together (SENT-10).
    pub left_of_ceiling: Option<Usd>,
    /// The money that is left of the limit of its loop, for agents and sentinels together. It holds back the sentinels alone: that of the agent is in
    /// `dollars` (SENT-20).
    pub left_of_loop: Option<Usd>,
}

/// Limits of a codon that are the rest of a larger limit: when such a limit is reached, the larger one is used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartOf {
    /// Money.
    pub dollars: bool,
    /// Time.
    pub time: bool,
}

impl CodonLimits {
    /// Returns the limits that are left for the codon `id` of `thread` when its agent continues in `session`.
    ///
    /// The tokens written there count; a codon that begins again has all its tokens again.
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

    /// Whether this limit is what was left of the ceiling.
    #[must_use]
    pub fn is_of_the_ceiling(&self, exceeded: &BudgetExceeded) -> bool {
        match exceeded {
            BudgetExceeded::Cost { limit, .. } => {
                self.of_the_ceiling.dollars
                    || (self.dollars != Some(*limit) && self.left_of_ceiling == Some(*limit))
            }
            BudgetExceeded::Duration { .. } => self.of_the_ceiling.time,
            BudgetExceeded::OutputTokens { .. } | BudgetExceeded::ContextTokens { .. } => false,
        }
    }

    /// Returns a limit with the total budget or the budget of the loop, where it is what was left of that.
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

    /// Returns a limit with what earlier attempts have used of it, where it is the codon's own.
    #[must_use]
    pub fn over_all_attempts(&self, exceeded: BudgetExceeded) -> BudgetExceeded {
        match (exceeded, self.own_dollars) {
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

    /// Returns the action at this limit: that of the codon, loop or hank. By default the run pauses when
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

/// Returns the limits of `entry` if it starts now, after everything recorded.
///
/// Codons and loops that `hank` does not have, because hank.json was changed, are limited by `ceiling` alone.
#[must_use]
pub fn limits(hank: &Hank, ceiling: Ceiling, state: &HankweaveState, entry: &PlanEntry) -> CodonLimits {
    RunBudgets::of(hank, ceiling).limits(state, entry)
}

/// Budgets of a run that continues: what was used is counted once, codon by codon, and not again for each of them.
#[derive(Debug)]
pub struct RunBudgets<'h> {
    budgets: HankBudgets<'h>,
    account: Account,
    counted: Option<CountedRun>,
}

/// A running run of which each codon has ended and is in the account.
#[derive(Debug)]
struct CountedRun {
    run_id: RunId,
    codons: usize,
}

impl<'h> RunBudgets<'h> {
    /// Nothing is counted yet.
    #[must_use]
    pub fn of(hank: &'h Hank, ceiling: Ceiling) -> Self {
        Self {
            budgets: HankBudgets::of(hank, ceiling),
            account: Account::default(),
            counted: None,
        }
    }

    /// Returns the limits of `entry` as [`limits`] does, for a document that has followed the one of the last call.
    pub fn limits(&mut self, state: &HankweaveState, entry: &PlanEntry) -> CodonLimits {
        self.count(state);
        self.budgets.limits(&self.account, entry)
    }

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

/// Budgets of a hank and its ceiling, with what is needed to look up an entry of a plan without searching the hank.
#[derive(Debug)]
pub(super) struct HankBudgets<'h> {
    hank: &'h Hank,
    ceiling: Ceiling,
    /// Positions of codons and loops in the hank, which share one namespace.
    items: HashMap<&'h str, usize>,
    /// The dollars of the ceiling as its children share them.
    pool: Option<Pool>,
}

impl<'h> HankBudgets<'h> {
    pub(super) fn of(hank: &'h Hank, ceiling: Ceiling) -> Self {
        let shares = hank.budget().map(|budget| &budget.shares);
        let child = |item: &HankItem| match item {
            HankItem::Codon(codon) => pool_share(codon, shares),
            HankItem::Loop(found) => {
                let budget = found.budget.as_ref();
                let capped = budget.is_some_and(|budget| budget.max_dollars.is_some());
                PoolShare::new(found.id.as_str(), shares, capped)
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

    /// Returns the limits after the usage in `account`.
    pub(super) fn limits(&self, account: &Account, entry: &PlanEntry) -> CodonLimits {
        let scope = Scope {
            budgets: self,
            found: self.loop_of(entry),
            account,
            entry,
        };
        let codon = self.hank.codon(entry.codon_id.configured());
        let own = codon.and_then(|codon| codon.budget).unwrap_or_default();
        let of_container = |budget: Option<&ContainerBudget>| budget.and_then(|budget| budget.on_exceeded);
        let on_exceeded = own.on_exceeded.or_else(|| of_container(scope.of_loop()));
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

fn pool_share(codon: &CodonConfig, shares: Option<&BTreeMap<String, f64>>) -> PoolShare {
    let capped = codon.budget.is_some_and(|budget| budget.max_dollars.is_some());
    PoolShare::new(codon.id.as_str(), shares, capped)
}

/// Everything that limits one codon, from the outside in.
struct Scope<'a> {
    budgets: &'a HankBudgets<'a>,
    found: Option<&'a LoopConfig>,
    account: &'a Account,
    entry: &'a PlanEntry,
}

impl Scope<'_> {
    fn of_loop(&self) -> Option<&ContainerBudget> {
        self.found.and_then(|found| found.budget.as_ref())
    }

    fn left_of_ceiling(&self) -> Option<Usd> {
        let total = self.budgets.ceiling.max_dollars?;
        Some(total.saturating_sub(self.account.spent))
    }

    fn loop_budget(&self) -> Ceiling {
        let budget = self.of_loop();
        Ceiling {
            max_dollars: budget.and_then(|budget| budget.max_dollars),
            max_time: budget.and_then(|budget| budget.max_time_seconds).map(duration),
        }
    }

    fn left_of_loop(&self) -> Ceiling {
        let Ceiling {
            max_dollars,
            max_time,
        } = self.loop_budget();
        let used = |dollars: Usd, found| dollars.saturating_sub(self.account.dollars_of_loop(found));
        let taken = |time: Duration, found| time.saturating_sub(self.account.time_of_loop(found));
        Ceiling {
            max_dollars: max_dollars.zip(self.found).map(|(cap, found)| used(cap, found)),
            max_time: max_time.zip(self.found).map(|(cap, found)| taken(cap, found)),
        }
    }

    /// The lowest of all limits, and whether that is what is left of the ceiling; `own` is what is left of the codon's own.
    fn dollars(&self, own: Option<Usd>) -> (Option<Usd>, bool) {
        let left = self.left_of_ceiling();
        let allotted = self.allotted();
        let (inside, limited) = match self.found {
            // A loop without a limit of its own passes on what is left of the ceiling, in shares if it has
            // any.
            Some(found) => {
                let inside = self.dollars_in_loop(found, left, allotted);
                let alone = self.dollars_in_loop(found, None, allotted);
                let part = inside.filter(|inside| Some(*inside) != left);
                (inside, least([alone, part]))
            }
            None => {
                let inside = allotted.map(|allotted| allotted.saturating_sub(self.used()));
                (inside, inside)
            }
        };
        let others = least([limited, own]);
        (least([left, inside, own]), is_of_the_ceiling(left, others))
    }

    /// Returns the hank's allotment to the codon, or to its loop.
    fn allotted(&self) -> Option<Usd> {
        let id = match self.found {
            Some(found) => found.id.as_str(),
            None => self.entry.codon_id.configured(),
        };
        let budgets = self.budgets;
        let index = *budgets.items.get(id)?;
        let used = |item| budgets.used(item, self.account);
        budgets.pool.as_ref()?.allotted(index, used)
    }

    /// Inside a loop, which has an envelope for all its iterations (HANK-34).
    fn dollars_in_loop(&self, found: &LoopConfig, left: Option<Usd>, allotted: Option<Usd>) -> Option<Usd> {
        let used = self.account.dollars_of_loop(found);
        let cap = found.budget.as_ref().and_then(|budget| budget.max_dollars);
        let at_its_beginning = left.map(|left| left + used);
        let envelope = least([cap, allotted, at_its_beginning])?;
        let shares = found.budget.as_ref().map(|budget| &budget.shares);
        let children = found.codons.iter().map(|codon| pool_share(codon, shares));
        let pool = Pool::new(envelope, self.of_loop(), children.collect());
        let rest = pool.total.saturating_sub(used);
        let id = self.entry.codon_id.configured();
        let index = found.codons.iter().position(|codon| codon.id.as_str() == id)?;
        let used = |index: usize| {
            let id = found.codons[index].id.as_str();
            self.account.dollars_of_configured(id)
        };
        let part = pool.allotted(index, used);
        let part = part.map(|part| part.saturating_sub(used(index)));
        Some(part.map_or(rest, |part| part.min(rest)))
    }

    /// Returns the cost of earlier attempts at this codon.
    fn used(&self) -> Usd {
        self.account.dollars_of_codon(&self.entry.codon_id)
    }

    /// Returns what is left of the codon's own limit of time, in seconds.
    fn left_of_time(&self, own: f64) -> Duration {
        duration(own).saturating_sub(self.account.time_of_codon(&self.entry.codon_id))
    }

    /// As for money.
    fn time(&self, own: Option<Duration>, in_loop: Option<Duration>) -> (Option<Duration>, bool) {
        let total = self.budgets.ceiling.max_time;
        let left = total.map(|total| total.saturating_sub(self.account.elapsed));
        let others = least([own, in_loop]);
        (least([others, left]), is_of_the_ceiling(left, others))
    }
}

/// The lowest of the limits that there are.
fn least<T: Ord, const N: usize>(limits: [Option<T>; N]) -> Option<T> {
    limits.into_iter().flatten().min()
}

/// Whether a limit is what is left of a larger one, and not the codon's own.
fn is_part<T: PartialEq>(limit: Option<T>, left: Option<T>, own: Option<T>) -> bool {
    limit.is_some() && limit == left && limit != own
}

/// Whether what is left of the ceiling is less than every other limit. Where both are equal the codon may end
/// at its own, and the run pauses before the next one, for which nothing is left.
fn is_of_the_ceiling<T: PartialOrd + Default>(left: Option<T>, others: Option<T>) -> bool {
    match (left, others) {
        (Some(left), Some(others)) => left < others || left == T::default(),
        (left, _) => left.is_some(),
    }
}
