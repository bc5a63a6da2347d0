//! The outcome of a run, as `Hankweave::run` returns it: the result, and a summary of each codon.

use std::time::Duration;

use hankweave_core::agent::{FailureReason, InterruptedBy};
use hankweave_core::budget::{Ceiling, CeilingUse};
use hankweave_core::codon::{BudgetExceeded, CodonExecution, CodonStatus, LoopCheck};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{HankweaveState, RunRecord};
use hankweave_core::hank::Hank;
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::thread::{self, ThreadTip};
use hankweave_core::view::RunView;
use hankweave_core::wire::Event;
use serde::Serialize;
use serde_json::Value;

use crate::codon::RehearsedStep;
use crate::shutdown::StopCause;

/// Result of a run. Callers match all variants: a result that a caller does not know must not pass for another one, so a new variant is a breaking change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunResult {
    /// Every codon of the plan has ended.
    Completed,
    /// Every codon had ended before the run.
    NothingToDo,
    /// This codon failed and its policy does not ignore that.
    Failed(CodonId),
    /// This codon failed because its checkpoint, or the folders and files of its agent, could not be written,
    /// and its policy does not ignore that.
    Unsaved(CodonId),
    /// This codon completed, and its results could not be copied to the output directory for this reason.
    OutputFailed(CodonId, String),
    /// The run was asked to stop.
    Stopped(StopCause),
    /// The run paused before a codon or in it: because of a budget, a usage limit, an approval, the size of its record, a loop that repeats itself, or a
    /// sentinel. Nothing failed, and the next run can continue.
    Paused(Pause),
}

/// Why a run pauses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pause {
    /// The codon that was interrupted, or that did not start.
    pub codon: CodonId,
    /// Cause of the interruption.
    pub by: InterruptedBy,
    /// Cause for people.
    pub why: String,
    /// The new total budget that is needed to continue; only the limits that have to be raised.
    pub more: Ceiling,
    /// How long the run would have to be allowed to wait for usage limits, if that is more than it may wait.
    pub patience: Option<Duration>,
}

/// The outcome of a run, with its figures.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The run; `None` when nothing was to be done.
    pub run_id: Option<RunId>,
    /// How it ended.
    pub result: RunResult,
    /// Its codons in the order in which they ran.
    pub codons: Vec<CodonSummary>,
    /// Spending of the run, including skipped codons.
    pub run_cost: Usd,
    /// Whether more was spent in the run than is known.
    pub run_cost_is_lower_bound: bool,
    /// Spending of all runs.
    pub total_cost: Usd,
    /// Whether more was spent in all runs than is known.
    pub total_cost_is_lower_bound: bool,
    /// Total budget and what is used of it; `None` when nothing was to be done, or when the results of an earlier codon could not be copied and no run
    /// started.
    pub budget: Option<CeilingUse>,
    /// Number of codons of the plan that are completed, in this run or before; each counts once, however often a loop repeats it.
    pub completed: usize,
    /// Number of codons of the plan.
    pub planned: usize,
    /// Whether every codon of the plan has ended.
    pub done: bool,
    /// Reason that was given for a stop.
    pub stop_reason: Option<String>,
    /// Steps of a real run that were left out; `None` when it was no rehearsal.
    pub rehearsed: Option<Vec<RehearsedStep>>,
}

/// How one codon ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CodonSummary {
    /// The codon.
    pub codon_id: CodonId,
    /// Its last state.
    pub status: CodonStatus,
    /// From its start to its end; zero while it is open.
    #[serde(skip)]
    pub duration: Duration,
    /// Cost, in US dollars, also when it was skipped.
    pub cost: Usd,
    /// It cost more, and it is unknown how much.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_lower_bound: bool,
    /// The tokens it used.
    pub tokens: TokenUsage,
    /// More tokens were used than are known, because the agent was cut off in an answer or is at work.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tokens_are_lower_bound: bool,
    /// The checkpoint made when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointSha>,
    /// Number of checkpointed files that differed from its start when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<u64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureReason>,
    /// The limit of its budget that it reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_exceeded: Option<BudgetExceeded>,
    /// Cause of the interruption; the codon has no fault and can continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted_by: Option<InterruptedBy>,
    /// Agent that continued at once in the place of its own, after a limit or an outage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// Result of the check after an iteration of its loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_check: Option<LoopCheck>,
    /// Its result, where it was asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Number of its attempts in earlier runs that count.
    #[serde(skip)]
    pub earlier_attempts: usize,
    /// Number of its sentinels that failed.
    #[serde(skip)]
    pub failed_sentinels: usize,
    /// Remarks for people: background work that was ended, the request of a sentinel, the last output of its sentinels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl RunOutcome {
    /// The outcome of `run_id`, or of no run.
    pub(super) fn of(
        run_id: Option<&RunId>,
        result: RunResult,
        (state, hank): (&HankweaveState, &Hank),
        done: bool,
    ) -> Self {
        let run = run_id.and_then(|id| state.run(id));
        let view = RunView::of_state(state, &thread::build(state, None, None), 0);
        // The hank defines the last iteration of each loop; the state does not.
        let view = view.with_description(&Event::run_described(hank, Ceiling::default()));
        let (completed, planned) = view.completed();
        let thread = ThreadTip::of(state);
        let codons = run.map(|run| {
            let earlier_attempts = |id: &CodonId| {
                let in_run = run.codons.iter().filter(|codon| codon.codon_id() == id).count();
                thread.attempts(id).count().saturating_sub(in_run)
            };
            let codons = run.codons.iter().map(|codon| CodonSummary {
                earlier_attempts: earlier_attempts(codon.codon_id()),
                ..CodonSummary::of(codon)
            });
            codons.collect()
        });
        Self {
            run_id: run_id.cloned(),
            result,
            codons: codons.unwrap_or_default(),
            run_cost: run.map_or(Usd::ZERO, RunRecord::spend),
            run_cost_is_lower_bound: run.is_some_and(RunRecord::cost_is_lower_bound),
            total_cost: state.total_spend(),
            total_cost_is_lower_bound: state.cost_is_lower_bound(),
            budget: None,
            completed,
            planned,
            done,
            stop_reason: None,
            rehearsed: None,
        }
    }
}

impl CodonSummary {
    /// Sums up one record.
    #[must_use]
    pub fn of(codon: &CodonExecution) -> Self {
        Self {
            codon_id: codon.codon_id().clone(),
            status: codon.status(),
            duration: codon.duration().unwrap_or_default(),
            cost: codon.spend(),
            cost_is_lower_bound: codon.spends_at_least(),
            tokens: codon.agent_tokens(),
            tokens_are_lower_bound: codon.uses_at_least(),
            checkpoint: codon.end_checkpoint().map(|(_, sha)| sha.clone()),
            files_changed: codon.files_changed(),
            failure: codon.failure_reason().map(|reason| FailureReason {
                message: reason.words().map(str::to_owned),
                ..reason.clone()
            }),
            budget_exceeded: codon.budget_exceeded(),
            interrupted_by: codon.interruption(),
            replaced_by: codon.replaced_by().map(str::to_owned),
            loop_check: codon.loop_check(),
            result: codon.result().cloned(),
            earlier_attempts: 0,
            failed_sentinels: codon
                .sentinels()
                .iter()
                .filter(|sentinel| sentinel.has_failed())
                .count(),
            remarks: codon.remarks(),
        }
    }
}
