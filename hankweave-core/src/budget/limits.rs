//! What one codon may use when it begins (HANK-33 to HANK-38).

use std::time::Duration;

use super::account::{Account, Ledger};
use super::ceiling::{Ceiling, duration};
use super::pool::{Child, Pool};
use crate::codon::BudgetExceeded;
use crate::cost::Usd;
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::{CodonConfig, ContainerBudget, Hank, HankItem, LoopConfig, OnExceeded};
use crate::id::{CodonId, SessionId};
use crate::thread::ExecutionThread;

/// The limits of one execution of a codon; absent means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Money.
    pub dollars: Option<Usd>,
    /// Time from the start of the codon.
    pub time: Option<Duration>,
    /// Tokens that models write, all together.
    pub output_tokens: Option<u64>,
    /// Tokens of the largest turn, those that the model reads and those that it writes.
    pub context_tokens: Option<u64>,
    /// What follows when one of them is reached, if codon, loop or hank say so.
    pub on_exceeded: Option<OnExceeded>,
    /// Which of them are what the whole has left.
    pub of_the_whole: OfTheWhole,
}

/// Which limits of a codon are what the whole has left: when one of those is reached, everything is used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfTheWhole {
    /// Money.
    pub dollars: bool,
    /// Time.
    pub time: bool,
}

impl Limits {
    /// What is left of them for the codon `id` of `thread` that goes on in `session`: what it has written there counts. One that begins anew has
    /// all its tokens again.
    #[must_use]
    pub fn going_on(mut self, thread: &ExecutionThread, id: &CodonId, session: &SessionId) -> Self {
        let codons = thread.codons.iter().map(|entry| &entry.codon);
        let written = codons
            .filter(|codon| codon.codon_id() == id && codon.claude_session_id() == Some(session))
            .map(|codon| codon.agent_tokens().output_tokens)
            .fold(0, u64::saturating_add);
        self.output_tokens = self.output_tokens.map(|most| most.saturating_sub(written));
        self
    }

    /// Whether this limit is what the whole had left.
    #[must_use]
    pub fn is_of_the_whole(&self, exceeded: &BudgetExceeded) -> bool {
        match exceeded {
            BudgetExceeded::Cost { .. } => self.of_the_whole.dollars,
            BudgetExceeded::Duration { .. } => self.of_the_whole.time,
            BudgetExceeded::OutputTokens { .. } | BudgetExceeded::ContextTokens { .. } => false,
        }
    }

    /// What follows when this limit is reached: what codon, loop or hank say; when nobody says anything the run pauses where everything is
    /// used up, and else the codon has done what it may.
    #[must_use]
    pub fn consequence(&self, exceeded: &BudgetExceeded) -> OnExceeded {
        let default = match self.is_of_the_whole(exceeded) {
            true => OnExceeded::Pause,
            false => OnExceeded::Complete,
        };
        self.on_exceeded.unwrap_or(default)
    }
}

/// What `entry` may use if it begins now, behind everything that is recorded. `lived` tells how long the newest run has lived, if it goes on, by a
/// clock that nobody sets.
///
/// Codons and loops that `hank` does not have, because hank.json was changed, are limited by `ceiling` alone.
#[must_use]
pub fn limits(
    hank: &Hank,
    ceiling: Ceiling,
    state: &HankweaveState,
    entry: &PlanEntry,
    lived: Duration,
) -> Limits {
    resolve(hank, ceiling, &Ledger::new(state, lived).now(), entry)
}

/// The same behind what `account` holds.
pub(super) fn resolve(hank: &Hank, ceiling: Ceiling, account: &Account<'_>, entry: &PlanEntry) -> Limits {
    let context = entry.loop_context.as_ref();
    let scope = Scope {
        whole: hank
            .overrides
            .as_ref()
            .and_then(|overrides| overrides.budget.as_ref()),
        found: context.and_then(|context| hank.find_loop(&context.loop_id)),
        codon: hank.codon(entry.codon_id.configured()),
        hank,
        ceiling,
        account,
        entry,
    };
    let own = scope.codon.and_then(|codon| codon.budget).unwrap_or_default();
    let policies = [
        own.on_exceeded,
        scope.of_loop().and_then(|budget| budget.on_exceeded),
    ];
    let policy = policies.into_iter().flatten().next();
    let (dollars, whole_dollars) = scope.dollars(own.max_dollars);
    let (time, whole_time) = scope.time(own.max_time_seconds);
    Limits {
        dollars,
        time,
        output_tokens: own.max_output_tokens,
        context_tokens: own.max_context_tokens,
        on_exceeded: policy.or(scope.whole.and_then(|budget| budget.on_exceeded)),
        of_the_whole: OfTheWhole {
            dollars: whole_dollars,
            time: whole_time,
        },
    }
}

/// Everything that limits one codon, from the outside in.
struct Scope<'a> {
    hank: &'a Hank,
    whole: Option<&'a ContainerBudget>,
    found: Option<&'a LoopConfig>,
    codon: Option<&'a CodonConfig>,
    ceiling: Ceiling,
    account: &'a Account<'a>,
    entry: &'a PlanEntry,
}

impl Scope<'_> {
    fn of_loop(&self) -> Option<&ContainerBudget> {
        self.found.and_then(|found| found.budget.as_ref())
    }

    /// The least of all limits, and whether that is what the whole has left.
    fn dollars(&self, own: Option<Usd>) -> (Option<Usd>, bool) {
        let left = self
            .ceiling
            .max_dollars
            .map(|total| total.saturating_sub(self.account.spent));
        let allotted = self.ceiling.max_dollars.and_then(|total| self.allotted(total));
        let (inside, limited) = match self.found {
            // A loop that has no limit of its own passes on what the whole has left, in parts of its own if it makes some.
            Some(found) => {
                let inside = self.dollars_in_loop(found, left, allotted);
                let alone = self.dollars_in_loop(found, None, allotted);
                let part = inside.filter(|inside| Some(*inside) != left);
                (inside, [alone, part].into_iter().flatten().min())
            }
            None => {
                let inside = allotted.map(|allotted| allotted.saturating_sub(self.used()));
                (inside, inside)
            }
        };
        let own = own.map(|own| own.saturating_sub(self.used()));
        let least = [left, inside, own].into_iter().flatten().min();
        let others = [limited, own].into_iter().flatten().min();
        (least, is_of_the_whole(left, others))
    }

    /// What the hank allots to the codon, or to its loop.
    fn allotted(&self, total: Usd) -> Option<Usd> {
        let id = match self.found {
            Some(found) => found.id.as_str(),
            None => self.entry.codon_id.configured(),
        };
        let index = self.hank.items.iter().position(|item| item.id() == id)?;
        let shares = self.whole.map(|budget| &budget.shares);
        let child = |item: &HankItem| match item {
            HankItem::Codon(codon) => {
                let used = self.account.dollars_of_configured(codon.id.as_str());
                Child::new(codon.id.as_str(), shares, is_capped(codon), used)
            }
            HankItem::Loop(found) => {
                let capped = found
                    .budget
                    .as_ref()
                    .is_some_and(|budget| budget.max_dollars.is_some());
                let used = self.account.dollars_of_loop(found);
                Child::new(found.id.as_str(), shares, capped, used)
            }
        };
        let children = self.hank.items.iter().map(child).collect();
        Pool::new(total, self.whole, children).allotted(index)
    }

    /// Inside a loop, which has an envelope for all its iterations (HANK-34).
    fn dollars_in_loop(&self, found: &LoopConfig, left: Option<Usd>, allotted: Option<Usd>) -> Option<Usd> {
        let used = self.account.dollars_of_loop(found);
        let cap = found.budget.as_ref().and_then(|budget| budget.max_dollars);
        let at_its_begin = left.map(|left| left + used);
        let envelope = [cap, allotted, at_its_begin].into_iter().flatten().min()?;
        let shares = found.budget.as_ref().map(|budget| &budget.shares);
        let child = |codon: &CodonConfig| {
            let used = self.account.dollars_of_configured(codon.id.as_str());
            Child::new(codon.id.as_str(), shares, is_capped(codon), used)
        };
        let pool = Pool::new(envelope, self.of_loop(), found.codons.iter().map(child).collect());
        let rest = pool.total.saturating_sub(used);
        let id = self.entry.codon_id.configured();
        let index = found.codons.iter().position(|codon| codon.id.as_str() == id)?;
        let part = pool
            .allotted(index)
            .map(|part| part.saturating_sub(pool.used(index)));
        Some(part.map_or(rest, |part| part.min(rest)))
    }

    /// What earlier tries of this codon cost.
    fn used(&self) -> Usd {
        self.account.dollars_of_codon(&self.entry.codon_id)
    }

    /// As for money.
    fn time(&self, own: Option<f64>) -> (Option<Duration>, bool) {
        let own = own.map(duration);
        let own = own.map(|own| own.saturating_sub(self.account.time_of_codon(&self.entry.codon_id)));
        let in_loop = self.found.and_then(|found| {
            let cap = found.budget.as_ref()?.max_time_seconds?;
            Some(duration(cap).saturating_sub(self.account.time_of_loop(found)))
        });
        let left = self
            .ceiling
            .max_time
            .map(|total| total.saturating_sub(self.account.elapsed));
        let others = [own, in_loop].into_iter().flatten().min();
        let least = [others, left].into_iter().flatten().min();
        (least, is_of_the_whole(left, others))
    }
}

/// Whether what the whole has left is less than every other limit. Where both are the same the codon may end at its own, and the run pauses
/// before the next one, for which nothing is left.
fn is_of_the_whole<T: PartialOrd + Default>(left: Option<T>, others: Option<T>) -> bool {
    match (left, others) {
        (Some(left), Some(others)) => left < others || left == T::default(),
        (left, _) => left.is_some(),
    }
}

fn is_capped(codon: &CodonConfig) -> bool {
    codon.budget.is_some_and(|budget| budget.max_dollars.is_some())
}
