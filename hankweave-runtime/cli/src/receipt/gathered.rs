//! Contents of a report, gathered from the record: [`Receipt::new`] collects what the other modules of `receipt` find.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hankweave_core::document::PendingRollback;
use hankweave_core::hank::Hank;
use hankweave_core::id::RunId;
use hankweave_core::plan::Decision;
use hankweave_core::thread::{self, LoggedOperation};
use hankweave_core::time::Timestamp;
use hankweave_core::view::{CodonCount, EarlierAttempts, RunState, SentinelView};
use hankweave_core::wire::NextSteps;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::data::changed_since_start;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::task::TaskStatus;
use serde::Serialize;
use serde_json::Value;

use super::attempts::{AttemptReport, attempts};
use super::codons::{
    AskingReport, CodonReport, PlannedReport, asking, codons, not_started, permissions, planned,
};
use super::files::{FilesReport, LISTED};
use super::from_journal::{JournalFacts, Occasion, ReportedCrash, millis};
use super::money::{MoneyReport, money};
use super::occasions::all_occasions;
use super::rollbacks::{RollbackReport, rollbacks};
use super::terms::{LoopReport, loops};
use crate::owning_task::OwningTask;
use crate::status::{StatusView, UnseenCrash};
use crate::terminal::screen::one_line;

/// Report of a run for people who did not watch it (CLI-44).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    /// Name of the task, of the hank, or of the directory.
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    /// The task whose run it is, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<Value>,
    pub(super) state: RunState,
    /// The files were rolled back after the run, so that `state` no longer describes them.
    #[serde(rename = "isTakenBack", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_rolled_back: bool,
    /// State in words, such as `paused (total budget of $5.0000 spent)`.
    pub(super) words: String,
    /// Why the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    /// Time at which the report was requested.
    #[serde(skip)]
    pub(super) at: Timestamp,
    /// Execution directory.
    pub(super) directory: PathBuf,
    /// Newest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<RunId>,
    /// Start of the newest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_began: Option<Timestamp>,
    /// Number of recorded runs.
    pub(super) runs: usize,
    /// Number of runs that continue one another up to the newest; earlier ones came before a run that started over at the first codon.
    pub(super) own_runs: usize,
    /// Start of the first of `own_runs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) began: Option<Timestamp>,
    /// End of the newest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Timestamp>,
    /// The newest run crashed, so that it ended at `ended` at the earliest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) ended_is_lower_bound: bool,
    /// Time at work of `own_runs`, in milliseconds.
    pub(super) worked_ms: u64,
    /// A part of that time is unknown because of a crash.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) worked_is_lower_bound: bool,
    /// Limit of the time at work of all runs, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_limit_ms: Option<u64>,
    /// Time at work of the runs before `own_runs`, in milliseconds, and whether a part of it is unknown.
    #[serde(skip)]
    pub(super) worked_before: (u64, bool),
    pub(super) codons: Vec<CodonReport>,
    /// Newest starts of codons, in their order.
    pub(super) attempts: Vec<AttemptReport>,
    /// Number of codons that are not listed because there are too many.
    pub(super) more_codons: usize,
    /// Number of entries of the plan that have not started.
    pub(super) planned: usize,
    /// Number of codons of the plan, and of the completed ones among them.
    pub(super) count: CodonCount,
    /// Sums of the attempts that no longer count; their cost stays spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) undone: Option<EarlierAttempts>,
    pub(super) files: FilesReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rollbacks: Vec<RollbackReport>,
    pub(super) money: MoneyReport,
    pub(super) occasions: Vec<Occasion>,
    /// Last answer and cost of each sentinel.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) sentinels: BTreeMap<String, SentinelView>,
    /// Other sentences that a reader should know.
    pub(super) remarks: Vec<String>,
    /// Next steps, with the commands that can be typed.
    pub(super) next: NextSteps,
    /// Codon that waits for an approval, or was denied, as the hank has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asking: Option<AskingReport>,
    /// Some codons keep only a part of the files in checkpoints.
    #[serde(skip)]
    pub(super) keeps_a_part: bool,
    /// Codons that have not started, without the one that is next.
    pub(super) after_next: Vec<PlannedReport>,
    /// Codons that have not started, without the one that asks.
    pub(super) not_started: Vec<PlannedReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) loops: Vec<LoopReport>,
}

impl Receipt {
    /// Gathers the contents. `facts` are those of the journal, `hank` that of the last run, if it can be read.
    pub(super) fn new(
        execution: &Path,
        status: &StatusView<'_>,
        hank: Option<&Hank>,
        facts: JournalFacts,
    ) -> Self {
        let (run, own_runs) = (status.state.runs.front(), thread::runs_of_history(status.state));
        let meta = hank.and_then(|hank| hank.meta.as_ref());
        let crash = facts.crash.as_ref();
        let mut attempts = attempts(status, &facts, LISTED);
        for attempt in &mut attempts {
            let name = attempt.agent.as_ref().and(attempt.agent_name.as_deref());
            let config = hank.zip(hank.and_then(|hank| hank.codon(attempt.codon.configured())));
            attempt.permissions = name.and_then(|name| permissions(name, config));
        }
        let codons = codons(execution, status, hank, &facts, &attempts);
        let started = codons.len();
        let directory = RealDisk.real_path(execution);
        let directory = directory.unwrap_or_else(|_| execution.to_owned());
        let values = hank.map(|hank| thread::prompt_values(&directory, hank, status.state));
        Self {
            name: match (&status.task, meta) {
                (Some(task), _) => task.name().to_owned(),
                (None, Some(meta)) => meta.name.clone(),
                (None, None) => name_of(execution),
            },
            task: status.task_json(),
            description: meta.and_then(|meta| meta.description.clone()),
            state: match status.end_of_task() {
                Some(end) if end.is_completed => RunState::Completed,
                None if !status.live && task_has_failed(status) => RunState::Failed,
                _ => status.drawn.state,
            },
            is_rolled_back: undoing_rollback(status).is_some(),
            words: words(status),
            sentinels: facts.view.sentinels.clone(),
            at: SystemClock.now(),
            cause: cause(status, crash),
            run_id: run.map(|run| run.run_id.clone()),
            run_began: run.map(|run| run.start_time),
            attempts,
            runs: status.state.runs.len(),
            own_runs,
            began: status
                .state
                .runs
                .iter()
                .take(own_runs)
                .next_back()
                .map(|run| run.start_time),
            // For a crash the record has only the time at which it was noticed.
            ended: match status.drawn.state {
                RunState::Crashed => crash.map(|crash| crash.life),
                _ => run.and_then(|run| run.end_time),
            },
            ended_is_lower_bound: crash.is_some(),
            worked_ms: millis(status.worked_in_all()),
            worked_is_lower_bound: status.drawn.has_lost_time(),
            time_limit_ms: status.drawn.time_limit_ms,
            worked_before: worked_before(status, own_runs),
            count: status.drawn.codons,
            undone: status.drawn.undone.sum(),
            more_codons: started.saturating_sub(LISTED),
            planned: status.state.execution_plan.len().saturating_sub(started),
            // Of too many codons the newest are listed, which show best how far the run is.
            codons: codons.into_iter().skip(started.saturating_sub(LISTED)).collect(),
            files: FilesReport::of(execution, status),
            rollbacks: rollbacks(execution, status),
            money: money(status, &facts.view),
            remarks: remarks(status),
            next: status.next_steps(),
            asking: asking(status, hank, &facts, values.as_ref()),
            keeps_a_part: hank
                .is_some_and(|hank| hank.codons().any(|codon| !codon.checkpointed_files.is_empty())),
            after_next: planned(status, status.after_next(), hank, values.as_ref(), &facts.view),
            not_started: planned(status, not_started(status), hank, values.as_ref(), &facts.view),
            loops: hank.map_or_else(Vec::new, loops),
            directory,
            occasions: all_occasions(facts, status),
        }
    }
}

/// Returns the time at work of the runs before the newest `own_runs`, in milliseconds, and whether a part of it is unknown.
fn worked_before(status: &StatusView<'_>, own_runs: usize) -> (u64, bool) {
    let before = status.state.runs.iter().skip(own_runs);
    before.fold((0, false), |(sum, is_lost), run| {
        let sum = millis(status.worked(run)).saturating_add(sum);
        (sum, is_lost || status.lost_time(run))
    })
}

/// Whether the run is of a task that has failed.
fn task_has_failed(status: &StatusView<'_>) -> bool {
    let task = status.task.as_ref();
    task.is_some_and(|task| task.status() == TaskStatus::Failed)
}

/// Returns why the run ended. `None` after a rollback, because the status then names the rollback.
fn cause(status: &StatusView<'_>, crash: Option<&ReportedCrash>) -> Option<String> {
    let crashed = || Some(format!("The run crashed: {}", crash?.words));
    let failed = || {
        let newest = status.thread.codons.first().map(|entry| &entry.codon);
        let newest = newest.filter(|_| status.drawn.state == RunState::Failed)?;
        newest.failure_reason()?.words().map(str::to_owned)
    };
    let cause = status.drawn.cause.clone().or_else(crashed);
    // The cause of the run may only name the codon that failed; adds why that failed.
    let cause = cause.map(|cause| match failed().filter(|why| !cause.contains(why)) {
        Some(why) => format!("{cause}: {why}"),
        None => cause,
    });
    cause.filter(|_| undoing_rollback(status).is_none())
}

/// Returns the rollback since the newest run, if it has undone work. The undo of a rollback brings work back instead. A rollback after which no codon is left
/// to run has undone none either.
fn undoing_rollback<'s>(status: &StatusView<'s>) -> Option<&'s PendingRollback> {
    let pending = status.state.pending_rollback.as_ref()?;
    if matches!(status.decision, Some(Decision::Done)) {
        return None;
    }
    let undone = pending
        .operation
        .as_ref()
        .and_then(|operation| operation.undoes.as_ref());
    let log = thread::operations(status.state);
    let is_undone_rollback = |known: &LoggedOperation<'_>| match known {
        LoggedOperation::Recorded(operation) => {
            Some(&operation.id) == undone && operation.is_rollback() && operation.undoes.is_none()
        }
        LoggedOperation::Run(_) => false,
    };
    (!log.iter().any(is_undone_rollback)).then_some(pending)
}

fn name_of(execution: &Path) -> String {
    let real = RealDisk
        .real_path(execution)
        .unwrap_or_else(|_| execution.to_owned());
    real.file_name()
        .unwrap_or(real.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// Returns the state of the run in words, preceded by the status of its task where that is another one, and followed by a rollback since.
fn words(status: &StatusView<'_>) -> String {
    let of_run = match status.state.runs.front() {
        Some(run) => status.state_words(run),
        None => status.drawn.state_words(),
    };
    let task = status
        .task
        .as_ref()
        .filter(|task| !status.live && (status.drawn.state != RunState::Failed || task.is_pending()));
    let is_here = status.went_on().is_none();
    let words = match (status.end_of_task(), task.map(OwningTask::status)) {
        (_, Some(task)) if !is_here => format!("{task} elsewhere (its newest run here: {of_run})"),
        (Some(end), _) => format!("{} (its run: {of_run})", end.words),
        (None, Some(TaskStatus::Failed)) => format!("failed (its run: {of_run})"),
        (None, Some(TaskStatus::Pending)) => format!("pending (its run: {of_run})"),
        (None, _) => of_run,
    };
    match undoing_rollback(status) {
        Some(back) => {
            let sha = back.source.checkpoint_sha.short();
            let undone = back
                .operation
                .as_ref()
                .filter(|operation| operation.command == "undo");
            let how = undone.map_or("rolled back", |_| "undone: back");
            format!("{words}, then {how} to checkpoint {sha}")
        }
        None => words,
    }
}

fn remarks(status: &StatusView<'_>) -> Vec<String> {
    let absent = status.absent_worker();
    let absent = absent.map(|absent| format!("The task is running: {}.", absent.in_short()));
    let failed = status.failure_of_task();
    let failed = failed.map(|error| format!("The task failed: {error}."));
    let left_out = status
        .left_out
        .words()
        .map(|files| format!("Not in the last checkpoint: {files}."));
    let odd = status
        .warnings
        .iter()
        .map(|warning| format!("Odd record: {}: {}.", warning.path, warning.message));
    let shortened = status
        .is_shortened
        .then(|| format!("Of the journal, {}.", crate::recorded::SHORTENED));
    let left_running = status.crash.as_ref().and_then(UnseenCrash::left_words);
    let left_running = left_running.map(|words| format!("{words}."));
    // Only work by hand completes a task whose newest run did not complete.
    let went_on = status.went_on();
    let is_by_hand = status.drawn.state != RunState::Completed && went_on.is_none();
    let went_on = went_on.map(|went_on| format!("The task is {went_on}; this report ends before."));
    let by_hand = status
        .end_of_task()
        .filter(|end| end.is_completed && is_by_hand)
        .map(|_| {
            "The task was completed by hand: changes since the last checkpoint are not among the files."
                .to_owned()
        });
    let beyond = status
        .task
        .as_ref()
        .and_then(|task| task.cost_beyond(status.state.total_spend(), status.records_at_least()));
    let beyond = beyond.map(|(all, why)| format!("The task cost {all} in all: {why}."));
    let data = ExecutionDir::new(status.hints.execution().to_owned()).data_record();
    let data = status
        .task
        .as_ref()
        .and_then(|_| changed_since_start(&RealDisk, &data));
    let data = data.map(|data| {
        format!(
            "The data {} have changed since the task was begun: a later attempt reads them as they are then.",
            one_line(data.display().to_string())
        )
    });
    let newest = status.state.runs.front();
    let is_later = |task: &OwningTask| newest.is_some_and(|run| task.has_ended_before(run));
    let later = status.task.as_ref().filter(|task| is_later(task)).map(|_| {
        "The newest run is a user's, after the task had completed: its cost is none of the task's.".to_owned()
    });
    let of_task = went_on
        .into_iter()
        .chain(later)
        .chain(beyond)
        .chain(absent)
        .chain(failed)
        .chain(left_running)
        .chain(data)
        .chain(by_hand);
    of_task.chain(left_out).chain(odd).chain(shortened).collect()
}
