//! Expands a hank to a plan: first with one iteration of each loop, then after each codon with the next iteration, if there is one (STATE-38 to STATE-43).

use std::ops::Range;

use crate::codon::{CodonExecution, LoopContext};
use crate::document::{AddedEntry, PlanEntry, PlanExtension, PlannedCodon, SharedList};
use crate::hank::{CodonConfig, Hank, HankItem, LoopConfig, TerminateOn};
use crate::id::{CodonId, LoopId};
use crate::machine::Extra;

/// A contextExceeded loop ends after this many iterations even if the context was never full, so that an idle
/// agent cannot run up costs for ever.
pub const MAX_OPEN_ITERATIONS: u32 = 1000;

/// Effect of an ended codon on the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum LoopStep {
    /// The codon is in no loop; the plan stays.
    NotInLoop,
    /// More codons of the loop are already in the plan; the plan stays.
    MidIteration,
    /// The codon was the last one of the loop; the plan stays.
    Ended {
        /// The loop.
        loop_id: LoopId,
        /// Why the loop is not repeated.
        reason: LoopEnd,
    },
    /// These entries are inserted at the index: the next iteration, or the rest of the present one, which was dropped before a rollback or is new in hank.json.
    Expand(Vec<PlanEntry>, usize),
    /// The context is full, a budget is used up or the check has passed: the loop has ended, and these entries, the rest of the
    /// iteration, are removed.
    DropRest {
        /// The loop.
        loop_id: LoopId,
        /// Why the loop is not repeated.
        reason: LoopEnd,
        /// Indices in the plan.
        entries: Range<usize>,
    },
}

/// Why a loop is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopEnd {
    /// The configured number of iterations is done.
    IterationLimit,
    /// The agent's context is full.
    ContextExceeded,
    /// The check of the loop has passed.
    CheckPassed,
    /// A limit of the codon's budget was reached.
    BudgetExceeded,
    /// [`MAX_OPEN_ITERATIONS`] are done and the context never was full.
    SafetyLimit,
}

/// Message of an ended codon to its loop (STATE-40, STATE-41, STATE-68).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopSignal {
    /// Nothing that ends a loop.
    Nothing,
    /// The context of its agent is full; that ends only a loop that is to run until then.
    Context,
    /// A budget is used up.
    Budget,
    /// The check of the loop has passed.
    CheckPassed,
}

impl LoopSignal {
    /// Returns the signal of a recorded codon. A budget comes first, because it ends every loop; an interrupted codon only pauses and signals nothing.
    #[must_use]
    pub fn of(codon: &CodonExecution) -> Self {
        if codon.interruption().is_some() {
            return Self::Nothing;
        }
        if codon.budget_exceeded().is_some() {
            Self::Budget
        } else if codon.loop_check().is_some_and(|check| check.passed) {
            Self::CheckPassed
        } else if codon.context_exceeded() {
            Self::Context
        } else {
            Self::Nothing
        }
    }
}

/// Why a plan cannot be advanced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// The codon that ended is not in the plan.
    #[error("codon `{0}` is not in the execution plan")]
    UnknownCodon(CodonId),
    /// The plan has a codon that the hank does not have, because hank.json has changed.
    #[error("codon `{0}` is still to be run, and hank.json does not have it any more")]
    RemovedCodon(CodonId),
    /// The plan has a codon in a loop, and hank.json no longer has it in that loop.
    #[error(
        "codon `{codon_id}` is still to be run, and hank.json does not have it any more in a loop `{loop_id}`"
    )]
    RemovedFromLoop {
        /// The planned codon.
        codon_id: CodonId,
        /// The loop in which it was planned.
        loop_id: LoopId,
    },
    /// The run is inside a loop that the hank does not have, because hank.json has changed.
    #[error(
        "codon `{codon_id}` has run in loop `{loop_id}`, which hank.json does not have any more, so nobody knows whether it would continue"
    )]
    UnknownLoop {
        /// The codon that ended.
        codon_id: CodonId,
        /// The loop it names.
        loop_id: LoopId,
    },
    /// The next iteration would put an id into the plan that is there already.
    #[error("codon `{0}` would be in the execution plan twice")]
    DuplicateCodon(CodonId),
    /// The iteration number in the plan is higher than any run can reach.
    #[error("loop `{0}` cannot be repeated any more: its iteration number is too high")]
    TooManyIterations(LoopId),
}

impl LoopStep {
    /// Returns this step in the form of its event; `ended` is the codon that it was computed for, in `plan`.
    #[must_use]
    pub fn extension(self, plan: &SharedList<PlanEntry>, ended: &CodonId) -> PlanExtension {
        let mut extension = PlanExtension {
            after: ended.clone(),
            dropped: 0,
            entries: Vec::new(),
        };
        match self {
            Self::NotInLoop | Self::MidIteration | Self::Ended { .. } => {}
            Self::Expand(entries, _) => {
                let added = |entry| AddedEntry::of(entry, plan);
                extension.entries = entries.into_iter().map(added).collect();
            }
            Self::DropRest { entries, .. } => {
                extension.dropped = u32::try_from(entries.len()).unwrap_or(u32::MAX);
            }
        }
        extension
    }

    /// Changes `plan`, for which the step was computed. In another plan, an index after the end means the end.
    pub fn apply_to(self, plan: &mut SharedList<PlanEntry>) {
        let end = plan.len();
        match self {
            Self::NotInLoop | Self::MidIteration | Self::Ended { .. } => {}
            Self::Expand(entries, index) => plan.splice(index.min(end)..index.min(end), entries),
            Self::DropRest { entries, .. } => plan.splice(entries, Vec::new()),
        }
    }
}

/// The plan of a fresh run: every codon in order, of each loop only iteration 0.
#[must_use]
pub fn initial_plan(hank: &Hank) -> SharedList<PlanEntry> {
    hank.items.iter().flat_map(first_entries).collect()
}

/// Returns the entries of one item of a hank in the plan of a fresh run.
pub(super) fn first_entries(item: &HankItem) -> Vec<PlanEntry> {
    match item {
        HankItem::Codon(codon) => vec![entry(codon, codon.id.clone(), None)],
        HankItem::Loop(found) => iteration(found, 0).expect("iteration 0 has one digit"),
    }
}

/// Returns the change of the plan after the codon `finished` has ended, in any way.
///
/// `signal` is the signal of the codon to its loop. A second call for one codon does not expand the loop again, so an interrupted run can ask again.
///
/// # Errors
///
/// Returns an [`ExpandError`] when the plan does not match the hank.
pub fn advance_loop(
    hank: &Hank,
    plan: &SharedList<PlanEntry>,
    finished: &CodonId,
    signal: LoopSignal,
) -> Result<LoopStep, ExpandError> {
    // The search starts at the end, since the codons of a long loop are near it.
    let index = plan.iter().rposition(|entry| entry.codon_id == *finished);
    let index = index.ok_or_else(|| ExpandError::UnknownCodon(finished.clone()))?;
    advance_loop_at(hank, plan, index, signal)
}

/// Returns the change of the plan after the codon at `index` has ended; see [`advance_loop`].
pub(super) fn advance_loop_at(
    hank: &Hank,
    plan: &SharedList<PlanEntry>,
    index: usize,
    signal: LoopSignal,
) -> Result<LoopStep, ExpandError> {
    let Some(context) = &plan[index].loop_context else {
        return Ok(LoopStep::NotInLoop);
    };
    let loop_id = context.loop_id.clone();
    // A loop that hank.json does not have any more is not repeated.
    let Some(found) = hank.find_loop(&loop_id) else {
        return Ok(LoopStep::NotInLoop);
    };
    let rest = index + 1..index + 1 + count_same_loop(plan.iter().skip(index + 1), &loop_id);
    let end = match (signal, &found.terminate_on) {
        (LoopSignal::Budget, _) => Some(LoopEnd::BudgetExceeded),
        (LoopSignal::Context, TerminateOn::ContextExceeded) => Some(LoopEnd::ContextExceeded),
        (LoopSignal::CheckPassed, TerminateOn::UntilCheckPasses { .. }) => Some(LoopEnd::CheckPassed),
        (LoopSignal::Context | LoopSignal::CheckPassed | LoopSignal::Nothing, _) => None,
    };
    match (end, rest.is_empty()) {
        (Some(reason), false) => Ok(LoopStep::DropRest {
            loop_id,
            reason,
            entries: rest,
        }),
        (Some(reason), true) => Ok(LoopStep::Ended { loop_id, reason }),
        (None, false) => Ok(LoopStep::MidIteration),
        (None, true) => next_entries(found, plan, index, context),
    }
}

/// Returns the number of entries at the start of `plan` that belong to the loop, in any iteration.
fn count_same_loop<'p>(plan: impl Iterator<Item = &'p PlanEntry>, loop_id: &LoopId) -> usize {
    let contexts = plan.map_while(|entry| entry.loop_context.as_ref());
    contexts.take_while(|context| context.loop_id == *loop_id).count()
}

/// Returns the entries to add after the last planned entry of a loop, which is at `last`: the rest of its iteration if that is not planned, else the next
/// iteration. hank.json may have changed, so the rest is what it now lists in the loop after the newest planned codon that it still lists.
fn next_entries(
    found: &LoopConfig,
    plan: &SharedList<PlanEntry>,
    last: usize,
    context: &LoopContext,
) -> Result<LoopStep, ExpandError> {
    let too_many = || ExpandError::TooManyIterations(found.id.clone());
    let is_planned = |entry: &PlanEntry| plan.iter().any(|known| known.codon_id == entry.codon_id);
    let index_in_loop = |entry: &PlanEntry| {
        let id = entry.codon_id.configured();
        found.codons.iter().position(|codon| codon.id.configured() == id)
    };
    let is_same_iteration = |entry: &&PlanEntry| {
        let other = entry.loop_context.as_ref();
        other.is_some_and(|other| other.loop_id == found.id && other.iteration == context.iteration)
    };
    let mut newest_first = plan.range(0..last + 1).rev().take_while(is_same_iteration);
    let done = newest_first.find_map(index_in_loop).map_or(0, |index| index + 1);
    let mut rest = iteration_from(found, context.iteration, done).ok_or_else(too_many)?;
    rest.retain(|entry| !is_planned(entry));
    if !rest.is_empty() {
        return Ok(LoopStep::Expand(rest, last + 1));
    }
    if let Some(reason) = limit_reached(found, context.iteration) {
        let loop_id = found.id.clone();
        return Ok(LoopStep::Ended { loop_id, reason });
    }
    let next = context
        .iteration
        .checked_add(1)
        .and_then(|next| iteration(found, next));
    let next = next.ok_or_else(too_many)?;
    match next.iter().find(|entry| is_planned(entry)) {
        Some(twice) => Err(ExpandError::DuplicateCodon(twice.codon_id.clone())),
        None => Ok(LoopStep::Expand(next, last + 1)),
    }
}

/// Returns the reason if no iteration follows the one with this number (STATE-39, STATE-40).
fn limit_reached(found: &LoopConfig, iteration: u32) -> Option<LoopEnd> {
    let reason = match found.terminate_on {
        TerminateOn::ContextExceeded => LoopEnd::SafetyLimit,
        TerminateOn::IterationLimit { .. } | TerminateOn::UntilCheckPasses { .. } => LoopEnd::IterationLimit,
    };
    let limit = found.most_iterations().unwrap_or(MAX_OPEN_ITERATIONS);
    (iteration >= limit.saturating_sub(1)).then_some(reason)
}

/// The codons of one iteration; `None` when an id cannot hold the number.
pub(super) fn iteration(found: &LoopConfig, iteration: u32) -> Option<Vec<PlanEntry>> {
    iteration_from(found, iteration, 0)
}

/// The codons of one iteration without the first `done` of them.
fn iteration_from(found: &LoopConfig, iteration: u32, done: usize) -> Option<Vec<PlanEntry>> {
    let codons = found.codons.iter().zip(0..).skip(done);
    let entries = codons.map(|(codon, codon_index_in_loop)| {
        let codon_id = CodonId::in_loop(codon.id.configured(), iteration).ok()?;
        let context = LoopContext {
            loop_id: found.id.clone(),
            iteration,
            codon_index_in_loop,
            extra: Extra::default(),
        };
        Some(entry(codon, codon_id, Some(context)))
    });
    entries.collect()
}

fn entry(codon: &CodonConfig, codon_id: CodonId, loop_context: Option<LoopContext>) -> PlanEntry {
    PlanEntry {
        codon: PlannedCodon::from(codon),
        codon_id,
        loop_context,
        extra: serde_json::Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LoopStep {
        fn applied_to(self, plan: &SharedList<PlanEntry>) -> SharedList<PlanEntry> {
            let mut plan = plan.clone();
            self.apply_to(&mut plan);
            plan
        }
    }

    fn hank(terminate_on: &str) -> Hank {
        let codon = |id: &str| {
            format!(
                r#"{{"id":"{id}","name":"{id}","model":"sonnet","continuationMode":"continue-previous","promptText":"x"}}"#
            )
        };
        let text = format!(
            r#"{{"hank":[{},{{"type":"loop","id":"l","name":"L","terminateOn":{terminate_on},"codons":[{},{}]}},{}]}}"#,
            codon("a"),
            codon("b"),
            codon("c"),
            codon("d"),
        );
        // The codon after a contextExceeded loop must not continue, but plans do not care.
        let text = text.replace(
            r#""id":"d","name":"d","model":"sonnet","continuationMode":"continue-previous""#,
            r#""id":"d","name":"d","model":"sonnet","continuationMode":"fresh""#,
        );
        let parsed = crate::hank::parse(&text);
        parsed.hank.unwrap_or_else(|| panic!("{:?}", parsed.problems))
    }

    const THREE_TIMES: &str = r#"{"type":"iterationLimit","limit":3}"#;
    const UNTIL_PASSED: &str = r#"{"type":"untilCheckPasses","run":"true","limit":2}"#;
    const UNTIL_FULL: &str = r#"{"type":"contextExceeded"}"#;

    fn ids(plan: &SharedList<PlanEntry>) -> Vec<&str> {
        plan.iter().map(|entry| entry.codon_id.as_str()).collect()
    }

    fn id(text: &str) -> CodonId {
        CodonId::new(text).unwrap()
    }

    // covers: STATE-38
    #[test]
    fn a_first_plan_has_only_iteration_zero_of_each_loop() {
        let plan = initial_plan(&hank(THREE_TIMES));
        assert_eq!(ids(&plan), ["a", "b#0", "c#0", "d"]);
        let context = plan[2].loop_context.as_ref().unwrap();
        assert_eq!(
            (
                context.loop_id.as_str(),
                context.iteration,
                context.codon_index_in_loop
            ),
            ("l", 0, 1)
        );
        assert_eq!(
            (plan[2].codon.id(), plan[2].codon.continues_previous()),
            (Some("c"), true)
        );
    }

    // covers: STATE-39
    #[test]
    fn an_iteration_is_inserted_directly_behind_the_one_that_ended_until_the_limit() {
        let hank = hank(THREE_TIMES);
        let mut plan = initial_plan(&hank);
        for last in ["c#0", "c#1"] {
            plan = advance_loop(&hank, &plan, &id(last), LoopSignal::Nothing)
                .unwrap()
                .applied_to(&plan);
        }
        assert_eq!(ids(&plan), ["a", "b#0", "c#0", "b#1", "c#1", "b#2", "c#2", "d"]);
        let end = advance_loop(&hank, &plan, &id("c#2"), LoopSignal::Nothing).unwrap();
        assert!(
            matches!(
                end,
                LoopStep::Ended {
                    reason: LoopEnd::IterationLimit,
                    ..
                }
            ),
            "{end:?}"
        );
    }

    // covers: STATE-39
    #[test]
    fn asking_twice_about_the_same_codon_expands_only_once() {
        let hank = hank(THREE_TIMES);
        let plan = initial_plan(&hank);
        let plan = advance_loop(&hank, &plan, &id("c#0"), LoopSignal::Nothing)
            .unwrap()
            .applied_to(&plan);
        assert_eq!(
            advance_loop(&hank, &plan, &id("c#0"), LoopSignal::Nothing),
            Ok(LoopStep::MidIteration)
        );
    }

    #[test]
    fn codons_outside_a_loop_or_in_its_middle_change_nothing() {
        let hank = hank(THREE_TIMES);
        let plan = initial_plan(&hank);
        assert_eq!(
            advance_loop(&hank, &plan, &id("a"), LoopSignal::Nothing),
            Ok(LoopStep::NotInLoop)
        );
        assert_eq!(
            advance_loop(&hank, &plan, &id("b#0"), LoopSignal::Nothing),
            Ok(LoopStep::MidIteration)
        );
    }

    // covers: STATE-40
    #[test]
    fn a_full_context_ends_a_loop_that_waits_for_it_and_drops_the_rest_of_the_iteration() {
        let hank = hank(UNTIL_FULL);
        let plan = initial_plan(&hank);
        let dropped = advance_loop(&hank, &plan, &id("b#0"), LoopSignal::Context).unwrap();
        assert_eq!(ids(&dropped.applied_to(&plan)), ["a", "b#0", "d"]);
        let ended = advance_loop(&hank, &plan, &id("c#0"), LoopSignal::Context).unwrap();
        assert!(
            matches!(
                ended,
                LoopStep::Ended {
                    reason: LoopEnd::ContextExceeded,
                    ..
                }
            ),
            "{ended:?}"
        );
    }

    // covers: STATE-40
    #[test]
    fn a_full_context_does_not_end_a_loop_with_an_iteration_limit() {
        let hank = hank(THREE_TIMES);
        let plan = initial_plan(&hank);
        assert!(matches!(
            advance_loop(&hank, &plan, &id("c#0"), LoopSignal::Context),
            Ok(LoopStep::Expand(..))
        ));
    }

    // covers: STATE-68
    #[test]
    fn a_loop_until_a_check_passes_ends_with_the_check_or_after_its_limit() {
        let passing = hank(UNTIL_PASSED);
        let plan = initial_plan(&passing);
        let step = |plan: &SharedList<PlanEntry>, ended: &str, signal| {
            advance_loop(&passing, plan, &id(ended), signal).unwrap()
        };
        let ends =
            |step: LoopStep, expected| matches!(step, LoopStep::Ended { reason, .. } if reason == expected);
        assert!(ends(
            step(&plan, "c#0", LoopSignal::CheckPassed),
            LoopEnd::CheckPassed
        ));
        assert_eq!(step(&plan, "b#0", LoopSignal::Context), LoopStep::MidIteration);
        let plan = step(&plan, "c#0", LoopSignal::Nothing).applied_to(&plan);
        assert_eq!(ids(&plan), ["a", "b#0", "c#0", "b#1", "c#1", "d"]);
        assert!(ends(
            step(&plan, "c#1", LoopSignal::CheckPassed),
            LoopEnd::CheckPassed
        ));
        assert!(ends(
            step(&plan, "c#1", LoopSignal::Nothing),
            LoopEnd::IterationLimit
        ));
        // A signal of another loop ends no counted loop.
        let counted = hank(THREE_TIMES);
        let step = advance_loop(
            &counted,
            &initial_plan(&counted),
            &id("c#0"),
            LoopSignal::CheckPassed,
        );
        assert!(matches!(step, Ok(LoopStep::Expand(..))));
    }

    // covers: HANK-62
    #[test]
    fn the_check_of_a_loop_is_due_behind_its_last_codon_or_when_a_budget_ends_it() {
        let until_passed = hank(UNTIL_PASSED);
        let plan = initial_plan(&until_passed);
        let due = |at: usize, ends| plan[at].due_check(&until_passed, ends);
        assert_eq!((due(0, true), due(1, false), due(3, true)), (None, None, None));
        assert_eq!(
            (due(1, true), due(2, false)),
            (Some(("true", true)), Some(("true", false)))
        );
        let again = advance_loop(&until_passed, &plan, &id("c#0"), LoopSignal::Nothing);
        let plan = again.unwrap().applied_to(&plan);
        assert_eq!(plan[4].due_check(&until_passed, false), Some(("true", true)));
        assert_eq!(plan[4].due_check(&hank(THREE_TIMES), false), None);
    }

    // covers: STATE-41
    #[test]
    fn a_budget_that_is_used_up_ends_its_loop_and_drops_the_rest_of_the_iteration() {
        for terminate_on in [THREE_TIMES, UNTIL_FULL, UNTIL_PASSED] {
            let hank = hank(terminate_on);
            let plan = initial_plan(&hank);
            let dropped = advance_loop(&hank, &plan, &id("b#0"), LoopSignal::Budget).unwrap();
            assert_eq!(ids(&dropped.applied_to(&plan)), ["a", "b#0", "d"]);
            let ended = advance_loop(&hank, &plan, &id("c#0"), LoopSignal::Budget).unwrap();
            assert!(
                matches!(
                    ended,
                    LoopStep::Ended {
                        reason: LoopEnd::BudgetExceeded,
                        ..
                    }
                ),
                "{ended:?}"
            );
        }
    }

    // covers: STATE-43
    #[test]
    fn the_rest_of_an_iteration_is_planned_again_when_somebody_went_back_into_it() {
        let hank = hank(UNTIL_FULL);
        let plan = initial_plan(&hank);
        let dropped = advance_loop(&hank, &plan, &id("b#0"), LoopSignal::Context)
            .unwrap()
            .applied_to(&plan);
        assert_eq!(ids(&dropped), ["a", "b#0", "d"]);
        let again = advance_loop(&hank, &dropped, &id("b#0"), LoopSignal::Nothing)
            .unwrap()
            .applied_to(&dropped);
        assert_eq!(again, plan);
        let next = advance_loop(&hank, &again, &id("c#0"), LoopSignal::Nothing)
            .unwrap()
            .applied_to(&again);
        assert_eq!(ids(&next), ["a", "b#0", "c#0", "b#1", "c#1", "d"]);
    }

    // covers: STATE-40
    #[test]
    fn a_loop_without_a_limit_ends_after_a_thousand_iterations() {
        let hank = hank(UNTIL_FULL);
        let found = hank.find_loop(&LoopId::new("l").unwrap());
        let mut plan = SharedList::from(iteration(found.unwrap(), 998).unwrap());
        plan = advance_loop(&hank, &plan, &id("c#998"), LoopSignal::Nothing)
            .unwrap()
            .applied_to(&plan);
        let end = advance_loop(&hank, &plan, &id("c#999"), LoopSignal::Nothing).unwrap();
        assert!(
            matches!(
                end,
                LoopStep::Ended {
                    reason: LoopEnd::SafetyLimit,
                    ..
                }
            ),
            "{end:?}"
        );
    }

    // covers: STATE-45
    #[test]
    fn a_loop_takes_what_it_plans_from_the_hank_as_it_is() {
        let hank = hank(THREE_TIMES);
        let mut plan = initial_plan(&hank);
        assert_eq!(
            advance_loop(&hank, &plan, &id("z"), LoopSignal::Nothing),
            Err(ExpandError::UnknownCodon(id("z")))
        );
        // By now the loop has another codon in front, and the codon that ended has another index.
        plan.truncate(2);
        plan[1].loop_context.as_mut().unwrap().codon_index_in_loop = 7;
        let step = advance_loop(&hank, &plan, &id("b#0"), LoopSignal::Nothing).unwrap();
        assert_eq!(ids(&step.applied_to(&plan)), ["a", "b#0", "c#0"]);
        // The codon that ended no longer exists: the codons after the one before it follow.
        plan[1].codon_id = id("gone#0");
        let step = advance_loop(&hank, &plan, &id("gone#0"), LoopSignal::Nothing).unwrap();
        assert_eq!(ids(&step.applied_to(&plan)), ["a", "gone#0", "b#0", "c#0"]);
        // A loop that no longer exists is not repeated.
        plan[1].loop_context.as_mut().unwrap().loop_id = LoopId::new("gone").unwrap();
        let step = advance_loop(&hank, &plan, &id("gone#0"), LoopSignal::Nothing);
        assert_eq!(step, Ok(LoopStep::NotInLoop));
    }
}
