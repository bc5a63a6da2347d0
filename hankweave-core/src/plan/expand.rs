//! The execution plan, one loop iteration at a time (STATE-38 to STATE-43).

use std::ops::Range;

use crate::codon::{CodonExecution, LoopContext};
use crate::document::{PlanEntry, PlannedCodon};
use crate::hank::{CodonConfig, Hank, HankItem, LoopConfig, TerminateOn};
use crate::id::{CodonId, LoopId};
use crate::machine::Extra;

/// A contextExceeded loop ends after this many iterations even if the context was never full, so that an idle
/// agent cannot run up costs for ever.
pub const MAX_OPEN_ITERATIONS: u32 = 1000;

/// What a codon that has ended means for the plan.
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
        /// Why it is not repeated.
        reason: LoopEnd,
    },
    /// These entries follow, inserted at the index: the next iteration, or the rest of this one, which had
    /// been dropped before a rollback.
    Expand(Vec<PlanEntry>, usize),
    /// The context is full or a budget is used up: the loop has ended, and these entries, the rest of the
    /// iteration, are removed.
    DropRest {
        /// The loop.
        loop_id: LoopId,
        /// Why it is not repeated.
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
    /// A limit of the codon's budget was reached.
    BudgetExceeded,
    /// [`MAX_OPEN_ITERATIONS`] are done and the context never was full.
    SafetyLimit,
}

/// What an agent has exhausted (STATE-40, STATE-41).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overrun {
    /// Nothing.
    Nothing,
    /// Its context; only a loop that waits for that ends with it.
    Context,
    /// Its budget.
    Budget,
}

impl Overrun {
    /// The overrun of a recorded codon. A budget comes first: it ends every loop, unless the codon only
    /// pauses.
    #[must_use]
    pub fn of(codon: &CodonExecution) -> Self {
        if codon.interruption().is_some() {
            return Self::Nothing;
        }
        match (codon.budget_exceeded(), codon.context_exceeded()) {
            (Some(_), _) => Self::Budget,
            (None, true) => Self::Context,
            (None, false) => Self::Nothing,
        }
    }
}

/// Why a plan cannot be advanced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The codon that ended is not in the plan.
    #[error("codon `{0}` is not in the execution plan")]
    UnknownCodon(CodonId),
    /// The plan names a loop that the hank does not have, because hank.json has changed.
    #[error("codon `{codon_id}` belongs to loop `{loop_id}`, which hank.json does not have")]
    UnknownLoop {
        /// The codon that ended.
        codon_id: CodonId,
        /// The loop it names.
        loop_id: LoopId,
    },
    /// The plan gives the codon a place that its loop does not have, because hank.json has changed.
    #[error("codon `{codon_id}` is codon {index} of loop `{loop_id}`, which has fewer")]
    OutsideLoop {
        /// The codon that ended.
        codon_id: CodonId,
        /// The loop it names.
        loop_id: LoopId,
        /// Its place there, counted from 0.
        index: u32,
    },
    /// The next iteration would put an id into the plan that is there already.
    #[error("codon `{0}` would be in the execution plan twice")]
    DuplicateCodon(CodonId),
    /// The iteration number in the plan is higher than any run can reach.
    #[error("loop `{0}` cannot be repeated any more: its iteration number is too high")]
    TooManyIterations(LoopId),
}

impl LoopStep {
    /// The plan after this step.
    ///
    /// `plan` is the plan that the step was computed for; indices after the end of another one mean its end.
    #[must_use]
    pub fn applied_to(self, plan: &[PlanEntry]) -> Vec<PlanEntry> {
        let mut plan = plan.to_vec();
        let end = plan.len();
        match self {
            Self::NotInLoop | Self::MidIteration | Self::Ended { .. } => {}
            Self::Expand(entries, index) => drop(plan.splice(index.min(end)..index.min(end), entries)),
            Self::DropRest { entries, .. } => drop(plan.drain(entries.start.min(end)..entries.end.min(end))),
        }
        plan
    }
}

/// The plan of a fresh run: every codon in order, of each loop only iteration 0.
#[must_use]
pub fn initial_plan(hank: &Hank) -> Vec<PlanEntry> {
    let entries = hank.items.iter().flat_map(|item| match item {
        HankItem::Codon(codon) => vec![entry(codon, codon.id.clone(), None)],
        HankItem::Loop(found) => iteration(found, 0).expect("iteration 0 has one digit"),
    });
    entries.collect()
}

/// What changes after the codon `finished` has ended, however it ended.
///
/// `overrun` is what its agent has exhausted. Asking twice about the same codon expands a loop only once, so
/// an interrupted run can ask again.
///
/// # Errors
///
/// Returns an [`ExpandError`] when the plan does not match the hank.
pub fn advance_loop(
    hank: &Hank,
    plan: &[PlanEntry],
    finished: &CodonId,
    overrun: Overrun,
) -> Result<LoopStep, ExpandError> {
    let index = plan.iter().position(|entry| entry.codon_id == *finished);
    let index = index.ok_or_else(|| ExpandError::UnknownCodon(finished.clone()))?;
    let Some(context) = &plan[index].loop_context else {
        return Ok(LoopStep::NotInLoop);
    };
    let loop_id = context.loop_id.clone();
    let codon_id = finished.clone();
    let Some(found) = hank.find_loop(&loop_id) else {
        return Err(ExpandError::UnknownLoop { codon_id, loop_id });
    };
    let index_in_loop = context.codon_index_in_loop;
    if found.codons.len() <= index_in_loop as usize {
        return Err(ExpandError::OutsideLoop {
            codon_id,
            loop_id,
            index: index_in_loop,
        });
    }
    let rest = index + 1..index + 1 + count_same_loop(&plan[index + 1..], &loop_id);
    let waits_for_context = found.terminate_on == TerminateOn::ContextExceeded;
    let end = match overrun {
        Overrun::Budget => Some(LoopEnd::BudgetExceeded),
        Overrun::Context if waits_for_context => Some(LoopEnd::ContextExceeded),
        Overrun::Context | Overrun::Nothing => None,
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

/// How many entries at the front of `plan` belong to the loop, in this iteration or a later one.
fn count_same_loop(plan: &[PlanEntry], loop_id: &LoopId) -> usize {
    let contexts = plan.iter().map_while(|entry| entry.loop_context.as_ref());
    contexts.take_while(|context| context.loop_id == *loop_id).count()
}

/// What follows the last entry of a loop, at `last`: the rest of its iteration when that is not planned, else
/// the next iteration.
fn next_entries(
    found: &LoopConfig,
    plan: &[PlanEntry],
    last: usize,
    context: &LoopContext,
) -> Result<LoopStep, ExpandError> {
    let done = context.codon_index_in_loop as usize + 1;
    let entries = if done < found.codons.len() {
        iteration(found, context.iteration).map(|mut whole| whole.split_off(done))
    } else if let Some(reason) = limit_reached(found, context.iteration) {
        return Ok(LoopStep::Ended {
            loop_id: found.id.clone(),
            reason,
        });
    } else {
        iteration(found, context.iteration + 1)
    };
    let entries = entries.ok_or_else(|| ExpandError::TooManyIterations(found.id.clone()))?;
    let is_planned = |id: &CodonId| plan.iter().any(|entry| entry.codon_id == *id);
    match entries.iter().find(|entry| is_planned(&entry.codon_id)) {
        Some(twice) => Err(ExpandError::DuplicateCodon(twice.codon_id.clone())),
        None => Ok(LoopStep::Expand(entries, last + 1)),
    }
}

/// Why no iteration follows the one with this number, if none does (STATE-39, STATE-40).
fn limit_reached(found: &LoopConfig, iteration: u32) -> Option<LoopEnd> {
    let (limit, reason) = match found.terminate_on {
        TerminateOn::IterationLimit { limit } => (limit, LoopEnd::IterationLimit),
        TerminateOn::ContextExceeded => (MAX_OPEN_ITERATIONS, LoopEnd::SafetyLimit),
    };
    (iteration >= limit.saturating_sub(1)).then_some(reason)
}

/// The codons of one iteration; `None` when an id cannot hold the number.
fn iteration(found: &LoopConfig, iteration: u32) -> Option<Vec<PlanEntry>> {
    let entries = found.codons.iter().zip(0..).map(|(codon, codon_index_in_loop)| {
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
        // The codon behind a contextExceeded loop must not continue, but plans do not care.
        let text = text.replace(
            r#""id":"d","name":"d","model":"sonnet","continuationMode":"continue-previous""#,
            r#""id":"d","name":"d","model":"sonnet","continuationMode":"fresh""#,
        );
        let parsed = crate::hank::parse(&text);
        parsed.hank.unwrap_or_else(|| panic!("{:?}", parsed.problems))
    }

    const THREE_TIMES: &str = r#"{"type":"iterationLimit","limit":3}"#;
    const UNTIL_FULL: &str = r#"{"type":"contextExceeded"}"#;

    fn ids(plan: &[PlanEntry]) -> Vec<&str> {
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
            plan = advance_loop(&hank, &plan, &id(last), Overrun::Nothing)
                .unwrap()
                .applied_to(&plan);
        }
        assert_eq!(ids(&plan), ["a", "b#0", "c#0", "b#1", "c#1", "b#2", "c#2", "d"]);
        let end = advance_loop(&hank, &plan, &id("c#2"), Overrun::Nothing).unwrap();
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
        let plan = advance_loop(&hank, &plan, &id("c#0"), Overrun::Nothing)
            .unwrap()
            .applied_to(&plan);
        assert_eq!(
            advance_loop(&hank, &plan, &id("c#0"), Overrun::Nothing),
            Ok(LoopStep::MidIteration)
        );
    }

    #[test]
    fn codons_outside_a_loop_or_in_its_middle_change_nothing() {
        let hank = hank(THREE_TIMES);
        let plan = initial_plan(&hank);
        assert_eq!(
            advance_loop(&hank, &plan, &id("a"), Overrun::Nothing),
            Ok(LoopStep::NotInLoop)
        );
        assert_eq!(
            advance_loop(&hank, &plan, &id("b#0"), Overrun::Nothing),
            Ok(LoopStep::MidIteration)
        );
    }

    // covers: STATE-40
    #[test]
    fn a_full_context_ends_a_loop_that_waits_for_it_and_drops_the_rest_of_the_iteration() {
        let hank = hank(UNTIL_FULL);
        let plan = initial_plan(&hank);
        let dropped = advance_loop(&hank, &plan, &id("b#0"), Overrun::Context).unwrap();
        assert_eq!(ids(&dropped.applied_to(&plan)), ["a", "b#0", "d"]);
        let ended = advance_loop(&hank, &plan, &id("c#0"), Overrun::Context).unwrap();
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
            advance_loop(&hank, &plan, &id("c#0"), Overrun::Context),
            Ok(LoopStep::Expand(..))
        ));
    }

    // covers: STATE-41
    #[test]
    fn a_budget_that_is_used_up_ends_its_loop_and_drops_the_rest_of_the_iteration() {
        for terminate_on in [THREE_TIMES, UNTIL_FULL] {
            let hank = hank(terminate_on);
            let plan = initial_plan(&hank);
            let dropped = advance_loop(&hank, &plan, &id("b#0"), Overrun::Budget).unwrap();
            assert_eq!(ids(&dropped.applied_to(&plan)), ["a", "b#0", "d"]);
            let ended = advance_loop(&hank, &plan, &id("c#0"), Overrun::Budget).unwrap();
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
        let dropped = advance_loop(&hank, &plan, &id("b#0"), Overrun::Context)
            .unwrap()
            .applied_to(&plan);
        assert_eq!(ids(&dropped), ["a", "b#0", "d"]);
        let again = advance_loop(&hank, &dropped, &id("b#0"), Overrun::Nothing)
            .unwrap()
            .applied_to(&dropped);
        assert_eq!(again, plan);
        let next = advance_loop(&hank, &again, &id("c#0"), Overrun::Nothing)
            .unwrap()
            .applied_to(&again);
        assert_eq!(ids(&next), ["a", "b#0", "c#0", "b#1", "c#1", "d"]);
    }

    // covers: STATE-40
    #[test]
    fn a_loop_without_a_limit_ends_after_a_thousand_iterations() {
        let hank = hank(UNTIL_FULL);
        let mut plan = iteration(hank.find_loop(&LoopId::new("l").unwrap()).unwrap(), 998).unwrap();
        plan = advance_loop(&hank, &plan, &id("c#998"), Overrun::Nothing)
            .unwrap()
            .applied_to(&plan);
        let end = advance_loop(&hank, &plan, &id("c#999"), Overrun::Nothing).unwrap();
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
    fn a_plan_that_does_not_fit_the_hank_is_an_error() {
        let hank = hank(THREE_TIMES);
        let mut plan = initial_plan(&hank);
        assert_eq!(
            advance_loop(&hank, &plan, &id("z"), Overrun::Nothing),
            Err(ExpandError::UnknownCodon(id("z")))
        );
        plan[1].loop_context.as_mut().unwrap().codon_index_in_loop = 2;
        assert!(matches!(
            advance_loop(&hank, &plan, &id("b#0"), Overrun::Nothing),
            Err(ExpandError::OutsideLoop { index: 2, .. })
        ));
        plan[2].loop_context.as_mut().unwrap().loop_id = LoopId::new("gone").unwrap();
        assert!(matches!(
            advance_loop(&hank, &plan, &id("c#0"), Overrun::Nothing),
            Err(ExpandError::UnknownLoop { .. })
        ));
    }
}
