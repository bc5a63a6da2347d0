//! Contents of a report, from the record alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_core::agent::{Access, AccessMode, AgentOptions};
use hankweave_core::codon::CodonStatus;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::PendingRollback;
use hankweave_core::hank::prompt::PromptValues;
use hankweave_core::hank::{CodonConfig, Hank, PromptSource, Requires};
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::thread::{self, CodonWork, LoggedOperation};
use hankweave_core::time::{SHORTEST_WAIT, Timestamp, short_duration};
use hankweave_core::view::{
    AttemptState, AttemptView, CodonCount, EarlierAttempts, ItemView, RunState, RunView, SentinelView,
    WaitKind, prompt_excerpt,
};
use hankweave_core::wire::NextSteps;
use hankweave_runtime::checkpoint::{ChangeKind, GitHistory, PathChange};
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::{CodonSummary, ExecutionDir};
use hankweave_task_model::task::TaskStatus;
use serde::Serialize;
use serde_json::Value;

use super::attempts::{AttemptReport, Outcome, attempts, is_cut_off};
use super::checks::CheckReport;
use super::heard::{Heard, Occasion, ReportedCrash, after_words, millis};
use super::rollbacks::{RollbackReport, rollbacks};
use super::terms::{CodonTerms, LoopReport, loops};
use crate::checkpoints::{LineCounts, MOST_PAIRS, changed_lines, changed_lines_of, unsaved};
use crate::owning_task::{GateAnswer, OwningTask};
use crate::report::at_its_budget;
use crate::status::{StatusView, UnseenCrash};
use crate::typed::HintCommands;

/// Rows of the spending that is none of a model in a codon that counts.
pub(super) const SENTINELS: &str = "sentinels";
pub(super) const BEFORE: &str = "runs before the one that started over";
pub(super) const OTHERS: &str = "attempts that are not listed";

/// Codons, attempts and files that a report lists.
const LISTED: usize = 200;

/// A run, as it is told to people who were not there (CLI-44).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    /// Name of the hank, or of the directory.
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    /// Id and name of the task whose run it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<Value>,
    pub(super) state: RunState,
    /// The files were rolled back since, so that the state is no longer that of the work.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_taken_back: bool,
    /// State in words, such as `paused (total budget of $5.0000 spent)`.
    pub(super) words: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    /// When it was asked for.
    #[serde(skip)]
    pub(super) at: Timestamp,
    /// Execution directory.
    pub(super) directory: PathBuf,
    /// Newest run, and when it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_began: Option<Timestamp>,
    pub(super) runs: usize,
    /// Number of them since the one that started over, this one included.
    pub(super) own_runs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) began: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Timestamp>,
    /// The newest run crashed, so that it ended at that time at the earliest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) ended_is_lower_bound: bool,
    /// Time at work of all runs, in milliseconds.
    pub(super) worked_ms: u64,
    /// A crash took part of that time, so that it is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) worked_is_lower_bound: bool,
    /// Limit of the time at work of all runs, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_limit_ms: Option<u64>,
    /// Time at work of the runs before the one that started over, in milliseconds, and whether a part of it is unknown.
    #[serde(skip)]
    pub(super) worked_before: (u64, bool),
    pub(super) codons: Vec<CodonReport>,
    /// Each start of a codon, in order; the newest ones.
    pub(super) attempts: Vec<AttemptReport>,
    /// Codons that are not listed because there are too many.
    pub(super) more_codons: usize,
    /// Entries of the plan that have not started.
    pub(super) planned: usize,
    /// Number of codons of the plan, and of those that are completed; each counts once.
    pub(super) count: CodonCount,
    /// Attempts that count no longer; what they cost stays spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) undone: Option<EarlierAttempts>,
    pub(super) files: FilesReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rollbacks: Vec<RollbackReport>,
    pub(super) money: MoneyReport,
    pub(super) occasions: Vec<Occasion>,
    /// Last words and cost of each sentinel.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) sentinels: BTreeMap<String, SentinelView>,
    /// What a person should know besides.
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

/// A codon that asks before it starts.
#[derive(Debug, Serialize)]
pub(super) struct AskingReport {
    pub(super) id: CodonId,
    pub(super) name: String,
    pub(super) denied: bool,
    /// Beginning of its prompt, or the files that hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    /// Effects that it must have, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requires: Option<String>,
    pub(super) agent: Option<AgentReport>,
}

/// A codon that has not started.
#[derive(Debug, Serialize)]
pub(super) struct PlannedReport {
    pub(super) id: CodonId,
    pub(super) name: String,
    /// Beginning of its prompt, or the files that hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    /// Effects that it must have, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requires: Option<String>,
    /// It asks for an approval before it starts.
    pub(super) asks: bool,
}

/// A codon of the report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodonReport {
    pub(super) id: CodonId,
    pub(super) name: String,
    /// Beginning of its prompt as the agent got it, cut; of a record without it that of the hank, or the names of its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    #[serde(flatten)]
    pub(super) terms: CodonTerms,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<AgentReport>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    /// Last message of its agent, cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) did: Option<String>,
    /// Number of attempts that count.
    pub(super) attempts: usize,
    /// Number of the newest of them among all starts of the codon, from 1.
    pub(super) attempt: usize,
    pub(super) tokens: TokenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files_changed: Option<u64>,
    /// Lines that it added and removed; `None` without a checkpoint or git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<LineCounts>,
    /// Files that it changed in all its attempts, ordered by path, the first ones; empty where they are not told from those of others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<FileReport>,
    /// Command that shows them all.
    #[serde(skip)]
    pub(super) shown_by: String,
    /// Files that it left changed without a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unsaved: Option<UnsavedReport>,
    /// Result of the check after an iteration of its loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) loop_check: Option<String>,
    pub(super) checks: Vec<CheckReport>,
    /// Command of its check, which has not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check_not_run: Option<String>,
    /// Its result, where it was asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<String>,
}

/// Agent of the newest attempt of a codon.
#[derive(Debug, Serialize)]
pub(super) struct AgentReport {
    pub(super) name: String,
    /// Model that answered, or that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// Permissions in words, where it has not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permissions: Option<String>,
}

/// Files of a codon that crashed, as the workspace has them.
#[derive(Debug, Serialize)]
pub(super) struct UnsavedReport {
    pub(super) count: usize,
    /// The first of them, ordered by path.
    pub(super) changes: Vec<FileReport>,
    /// Command that shows them.
    pub(super) command: String,
}

/// Files that differ from those before the first codon.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FilesReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<CheckpointSha>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<CheckpointSha>,
    /// Number of files; `None` where no checkpoint says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<usize>,
    /// The first of them, ordered by path.
    pub(super) changes: Vec<FileReport>,
    /// Lines added and removed in all of them; `None` without git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<LineCounts>,
    /// Command that shows their changes; empty where no checkpoint has them.
    pub(super) shown_by: String,
}

#[derive(Debug, Serialize)]
pub(super) struct FileReport {
    pub(super) path: String,
    pub(super) kind: ChangeKind,
    /// `None` for binary files.
    #[serde(flatten)]
    pub(super) lines: Option<LineCounts>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MoneyReport {
    pub(super) spent: Usd,
    /// Part of it that counts against the limit.
    pub(super) counted: Usd,
    /// Part of it from before the run that started over.
    pub(super) before: Usd,
    pub(super) at_least: bool,
    /// Whether more counts against the limit than is known.
    pub(super) counted_at_least: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<Usd>,
    /// Option of the command line that set the limit; without it that of the hank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limited_by: Option<String>,
    /// Spending by model, and in rows of their own what is none of a model; the rows add up.
    pub(super) by_model: BTreeMap<String, ModelReport>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelReport {
    pub(super) cost: Usd,
    pub(super) at_least: bool,
    pub(super) tokens: TokenUsage,
}

impl Receipt {
    pub(super) fn new(execution: &Path, status: &StatusView<'_>, hank: Option<&Hank>, heard: Heard) -> Self {
        let (run, own) = (status.state.runs.front(), thread::runs_of_history(status.state));
        let meta = hank.and_then(|hank| hank.meta.as_ref());
        let crash = heard.crash.as_ref();
        let mut attempts = attempts(status, &heard, LISTED);
        for attempt in &mut attempts {
            let name = attempt.agent.as_ref().and(attempt.agent_name.as_deref());
            let config = hank.zip(hank.and_then(|hank| hank.codon(attempt.codon.configured())));
            attempt.permissions = name.and_then(|name| permissions(name, config));
        }
        let codons = codons(execution, status, hank, (&heard, &attempts));
        let recorded = codons.len();
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
                None if !status.live && has_failed(status) => RunState::Failed,
                _ => status.drawn.state,
            },
            is_taken_back: taken_back(status).is_some(),
            words: words(status),
            sentinels: heard.view.sentinels.clone(),
            at: SystemClock.now(),
            cause: cause(status, crash),
            run_id: run.map(|run| run.run_id.clone()),
            run_began: run.map(|run| run.start_time),
            attempts,
            runs: status.state.runs.len(),
            own_runs: own,
            began: status
                .state
                .runs
                .iter()
                .take(own)
                .next_back()
                .map(|run| run.start_time),
            // The record of a crash has the time at which it was found.
            ended: match status.drawn.state {
                RunState::Crashed => crash.map(|crash| crash.life),
                _ => run.and_then(|run| run.end_time),
            },
            ended_is_lower_bound: crash.is_some(),
            worked_ms: millis(status.worked_in_all()),
            worked_is_lower_bound: status.drawn.has_lost_time(),
            time_limit_ms: status.drawn.time_limit_ms,
            worked_before: worked_before(status, own),
            count: status.drawn.codons,
            undone: status.drawn.undone.sum(),
            more_codons: recorded.saturating_sub(LISTED),
            planned: status.state.execution_plan.len().saturating_sub(recorded),
            // The newest ones say more about where the run stands.
            codons: codons.into_iter().skip(recorded.saturating_sub(LISTED)).collect(),
            files: FilesReport::of(execution, status),
            rollbacks: rollbacks(execution, status),
            money: money(status, &heard.view),
            remarks: remarks(status),
            next: status.next_steps(),
            asking: asking(status, hank, &heard, values.as_ref()),
            keeps_a_part: hank
                .is_some_and(|hank| hank.codons().any(|codon| !codon.checkpointed_files.is_empty())),
            after_next: planned(status.after_next(), hank, values.as_ref()),
            not_started: planned(not_started(status), hank, values.as_ref()),
            loops: hank.map_or_else(Vec::new, loops),
            directory,
            occasions: with_waits(heard, status),
        }
    }
}

/// Returns the time at work of the runs before the newest `own` ones, in milliseconds, and whether a part of it is unknown.
fn worked_before(status: &StatusView<'_>, own: usize) -> (u64, bool) {
    let before = status.state.runs.iter().skip(own);
    before.fold((0, false), |(sum, is_lost), run| {
        let sum = millis(status.worked(run)).saturating_add(sum);
        (sum, is_lost || status.lost_time(run))
    })
}

/// Whether the task failed whose run this is.
fn has_failed(status: &StatusView<'_>) -> bool {
    let task = status.task.as_ref();
    task.is_some_and(|task| task.status() == TaskStatus::Failed)
}

/// Returns why the run ended; nothing of a run that was taken back since, which its words say.
fn cause(status: &StatusView<'_>, crash: Option<&ReportedCrash>) -> Option<String> {
    let crashed = || Some(format!("The run crashed: {}", crash?.words));
    let failed = || {
        let newest = status.thread.codons.first().map(|entry| &entry.codon);
        let newest = newest.filter(|_| status.drawn.state == RunState::Failed)?;
        newest.failure_reason()?.words().map(str::to_owned)
    };
    let cause = status.drawn.cause.clone().or_else(crashed);
    // A run whose codon failed names that alone.
    let cause = cause.map(|cause| match failed().filter(|why| !cause.contains(why)) {
        Some(why) => format!("{cause}: {why}"),
        None => cause,
    });
    cause.filter(|_| taken_back(status).is_none())
}

/// Returns the rollback that has taken work back since the newest run; an undo of a rollback has brought it all back.
fn taken_back<'s>(status: &StatusView<'s>) -> Option<&'s PendingRollback> {
    let pending = status.state.pending_rollback.as_ref()?;
    let undone = pending
        .operation
        .as_ref()
        .and_then(|operation| operation.undoes.as_ref());
    let log = thread::operations(status.state);
    let is_rollback = |known: &LoggedOperation<'_>| matches!(known, LoggedOperation::Recorded(operation) if Some(&operation.id) == undone && operation.is_rollback() && operation.undoes.is_none());
    (!log.iter().any(is_rollback)).then_some(pending)
}

/// Codons of the plan that have not started and do not ask, in its order.
fn not_started<'s>(status: &StatusView<'s>) -> Vec<&'s CodonId> {
    let started = status.thread.newest_records();
    let planned = status.state.execution_plan.iter().map(|entry| &entry.codon_id);
    let asking = status.asked().map(|(id, _)| id);
    let rest = planned.filter(|id| !started.contains_key(*id) && Some(*id) != asking);
    rest.collect()
}

fn asking(
    status: &StatusView<'_>,
    hank: Option<&Hank>,
    heard: &Heard,
    values: Option<&PromptValues>,
) -> Option<AskingReport> {
    let (id, denied) = status.asked()?;
    let config = hank.zip(hank.and_then(|hank| hank.codon(id.configured())));
    let (known, codon) = config?;
    let required = known.required_of(codon).filter(|required| required.needs_files());
    Some(AskingReport {
        id: id.clone(),
        name: codon.name.clone(),
        denied,
        asked: written(codon, values),
        requires: required.map(Requires::words),
        agent: agent(id, config, &heard.view),
    })
}

/// Returns what the first of these codons are to do, by the hank.
fn planned(ids: Vec<&CodonId>, hank: Option<&Hank>, values: Option<&PromptValues>) -> Vec<PlannedReport> {
    let of = |id: &CodonId| {
        let config = hank.and_then(|hank| Some((hank, hank.codon(id.configured())?)));
        let required = config.and_then(|(hank, codon)| hank.required_of(codon));
        let codon = config.map(|(_, codon)| codon);
        PlannedReport {
            id: id.clone(),
            name: codon.map_or_else(|| id.configured().to_owned(), |codon| codon.name.clone()),
            asked: codon.and_then(|codon| written(codon, values)),
            requires: required
                .filter(|required| required.needs_files())
                .map(Requires::words),
            asks: codon.is_some_and(|codon| codon.approval.is_some()),
        }
    };
    ids.into_iter().take(LISTED).map(of).collect()
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

/// Codons that have started, in the order of the plan.
fn codons(
    execution: &Path,
    status: &StatusView<'_>,
    hank: Option<&Hank>,
    (heard, starts): (&Heard, &[AttemptReport]),
) -> Vec<CodonReport> {
    let newest = status.thread.newest_records();
    let planned = status.state.execution_plan.iter();
    let started = planned.filter_map(|entry| newest.get(&entry.codon_id).copied());
    let work = own_work(status);
    let lines = lines_of_codons(execution, &work);
    let mut changes = changes_of_codons(execution, &work);
    let (mut unsaved, mut attempts) = (unsaved(execution, status.state), status.attempts());
    started
        .map(|record| {
            let id = record.codon_id();
            let totals = attempts.remove(id).unwrap_or_else(|| status.totals_of(record));
            let summary = totals.over(CodonSummary::of(record));
            let config = hank.and_then(|hank| hank.codon(id.configured()));
            let of_budget = budget_words(&summary);
            CodonReport {
                name: config.map_or_else(|| id.configured().to_owned(), |config| config.name.clone()),
                asked: record
                    .asked()
                    .map(str::to_owned)
                    .or_else(|| written(config?, None)),
                terms: CodonTerms::of(hank.zip(config), record, heard),
                agent: agent(id, hank.zip(config), &heard.view),
                outcome: Outcome::of(status, record, &totals),
                did: last_message(status, heard, id),
                attempts: totals.count,
                attempt: starts
                    .iter()
                    .rfind(|start| start.codon == *id && !start.undone)
                    .map_or(totals.count, |start| start.number),
                lines: lines.get(id).copied(),
                changes: changes.remove(id).unwrap_or_default(),
                shown_by: status.typed.command(&format!("diff {id}")),
                tokens: summary.tokens,
                files_changed: summary.files_changed,
                unsaved: unsaved
                    .take_if(|(of, _)| of == id && is_cut_off(record))
                    .map(|(_, changes)| UnsavedReport {
                        count: changes.len(),
                        changes: changes.into_iter().take(LISTED).map(FileReport::of).collect(),
                        command: status.typed.command(&format!("diff {id}")),
                    }),
                loop_check: crate::report::loop_check(record),
                checks: heard.checks.of(id).to_vec(),
                check_not_run: config.and_then(|config| heard.check_not_run(config, record)),
                result: summary.result,
                remarks: of_budget.into_iter().chain(summary.remarks).collect(),
                id: id.clone(),
            }
        })
        .collect()
}

/// Returns the last message of a codon's agent in the newest of the attempts that count and have one.
fn last_message(status: &StatusView<'_>, heard: &Heard, id: &CodonId) -> Option<String> {
    let mut attempts = status.thread.codons.iter().map(|entry| entry.codon.as_ref());
    attempts
        .find_map(|attempt| heard.message(attempt).filter(|_| attempt.codon_id() == id))
        .map(str::to_owned)
}

/// Returns agent, model and permissions of the newest attempt of a codon.
fn agent(id: &CodonId, config: Option<(&Hank, &CodonConfig)>, heard: &RunView) -> Option<AgentReport> {
    let attempt = heard.newest_attempt(id).map(|(_, attempt)| attempt);
    let name = attempt.and_then(|attempt| attempt.agent.clone());
    let name = name.or_else(|| Some(config?.1.agent_name().to_owned()))?;
    let model = attempt.and_then(|attempt| attempt.model.clone());
    Some(AgentReport {
        permissions: permissions(&name, config),
        model: model.or_else(|| config?.1.model.clone()),
        name,
    })
}

/// Returns what the agent of this name may do in a codon, in words, where that is not everything; a scripted agent is kept to none.
fn permissions(name: &str, config: Option<(&Hank, &CodonConfig)>) -> Option<String> {
    let options = config.filter(|_| name != "scripted");
    let options = options.map(|(hank, codon)| hank.agent_options(codon))?;
    let limits = options
        .permissions
        .filter(|access| *access != Access::of(AccessMode::All));
    let limits = AgentOptions {
        permissions: limits,
        ..AgentOptions::default()
    };
    limits.in_short()
}

/// Returns that a codon ended at a limit of its own; a failure says that itself.
fn budget_words(codon: &CodonSummary) -> Option<String> {
    let exceeded = codon.budget_exceeded.filter(|_| codon.failure.is_none())?;
    Some(at_its_budget(codon.status, exceeded, codon.cost_is_lower_bound))
}

/// Work of each codon in all its attempts, and the number of files that it is known to have changed.
type OwnWork<'s> = BTreeMap<&'s CodonId, (CodonWork, Option<u64>)>;

fn own_work<'s>(status: &'s StatusView<'_>) -> OwnWork<'s> {
    let mut works = BTreeMap::new();
    for (at, entry) in status.thread.codons.iter().enumerate().take(MOST_PAIRS) {
        let codon = &*entry.codon;
        if codon.end_checkpoint().is_some()
            && !works.contains_key(codon.codon_id())
            && let Some(work) = status.thread.work(status.state, at)
        {
            works.insert(codon.codon_id(), (work, codon.files_changed()));
        }
    }
    works
}

/// Returns the files that each codon changed, at most [`LISTED`] of all codons together. Where their number is not that of the codon, some are those of a user.
fn changes_of_codons(execution: &Path, works: &OwnWork<'_>) -> BTreeMap<CodonId, Vec<FileReport>> {
    let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
    let Some(history) = GitHistory::open(&repository).ok().flatten() else {
        return BTreeMap::new();
    };
    let mut left = LISTED;
    let of_codon = |(id, (work, files)): (&&CodonId, &(CodonWork, Option<u64>))| {
        let (from, to) = work.ends().filter(|_| left > 0 && *files != Some(0))?;
        let changes = history.diff(from, to).ok()?;
        let count = u64::try_from(changes.len()).ok()?;
        files.is_none_or(|files| files == count).then_some(())?;
        let listed: Vec<_> = changes.into_iter().take(left).map(FileReport::of).collect();
        left -= listed.len();
        Some(((*id).clone(), listed))
    };
    works.iter().filter_map(of_codon).collect()
}

/// Returns the lines that each codon added and removed in all its attempts. Where other files have changed in between than the codon is known to have changed, some are
/// those of a user, and its lines are not known.
fn lines_of_codons(execution: &Path, works: &OwnWork<'_>) -> BTreeMap<CodonId, LineCounts> {
    let pairs: Vec<_> = works.values().filter_map(|(work, _)| work.ends()).collect();
    let lines = changed_lines_of(execution, &pairs).unwrap_or_default();
    let of_codon = |(id, (work, files)): (&&CodonId, &(CodonWork, Option<u64>))| {
        let (counts, changed) = lines.get(work.ends()?.1)?;
        let is_own = files.is_none_or(|files| files == *changed);
        is_own.then(|| ((*id).clone(), *counts))
    };
    works.iter().filter_map(of_codon).collect()
}

/// Beginning of a prompt as it is written, or filled in with `values`, or the files that hold it.
fn written(config: &CodonConfig, values: Option<&PromptValues>) -> Option<String> {
    let asked = match &config.prompt {
        PromptSource::Text(text) => {
            prompt_excerpt(&values.map_or_else(|| text.clone(), |values| values.render(text)))
        }
        PromptSource::Files(files) => prompt_excerpt(&files.join(", ")),
    };
    (!asked.is_empty()).then_some(asked)
}

impl FileReport {
    /// Returns a change whose lines are not counted.
    pub(super) fn of(change: PathChange) -> Self {
        Self {
            path: change.path.to_string(),
            kind: change.kind,
            lines: None,
        }
    }
}

impl FilesReport {
    fn of(execution: &Path, status: &StatusView<'_>) -> Self {
        let head = thread::head(status.state).map(|head| head.checkpoint_sha);
        let Some((from, to)) = status.drawn.files.base.clone().zip(head) else {
            return Self::default();
        };
        let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
        let history = GitHistory::open(&repository).ok().flatten();
        let changes = history.and_then(|history| history.diff(&from, &to).ok());
        let lines = changed_lines(execution, &from, &to);
        let listed = changes.iter().flatten().take(LISTED).map(|change| {
            let path = change.path.to_string();
            FileReport {
                lines: lines.as_ref().and_then(|lines| lines.get(&path).copied()),
                kind: change.kind,
                path,
            }
        });
        Self {
            changes: listed.collect(),
            count: changes.as_ref().map(Vec::len),
            lines: lines.map(|lines| {
                lines.values().fold(LineCounts::default(), |sum, one| LineCounts {
                    added: sum.added.saturating_add(one.added),
                    removed: sum.removed.saturating_add(one.removed),
                })
            }),
            shown_by: HintCommands::from_anywhere(execution).command(&format!(
                "diff {}..{}",
                from.short(),
                to.short()
            )),
            from: Some(from),
            to: Some(to),
        }
    }
}

fn money(status: &StatusView<'_>, heard: &RunView) -> MoneyReport {
    let mut by_model: BTreeMap<String, ModelReport> = BTreeMap::new();
    let mut add = |name: &str, cost: Usd, at_least: bool, tokens: TokenUsage| {
        if cost > Usd::ZERO || at_least || tokens != TokenUsage::ZERO {
            by_model
                .entry(name.to_owned())
                .or_default()
                .add(cost, at_least, tokens);
        }
    };
    let crash = status.crash.as_ref();
    let in_set_up = crash.is_some_and(|crash| crash.codon_status == Some(CodonStatus::Preparing));
    let mut add_attempt = |attempt: &AttemptView, item: Option<&ItemView>| {
        let model = attempt
            .model
            .as_deref()
            .or(item.and_then(|item| item.model.as_deref()));
        // One that a crash interrupted may have been in the middle of an answer, unless its agent had not started.
        let is_cut_off = attempt.state == AttemptState::Crashed && attempt.ended.is_none() && !in_set_up;
        let of_agent = (attempt.at_least && !attempt.sentinels_at_least) || is_cut_off;
        add(
            model.unwrap_or("unknown model"),
            attempt.cost,
            of_agent,
            attempt.tokens,
        );
        let of_sentinels = attempt.sentinels_at_least;
        add(SENTINELS, attempt.sentinels, of_sentinels, TokenUsage::ZERO);
    };
    for item in heard.items.values() {
        let attempts = item.attempts.values();
        attempts.for_each(|attempt| add_attempt(attempt, Some(item)));
    }
    for undone in heard.undone.newest.values() {
        add_attempt(&undone.attempt, heard.items.get(&undone.item));
    }
    let earlier = heard.items.values().filter_map(|item| item.earlier);
    for earlier in earlier.chain(heard.undone.earlier) {
        add(OTHERS, earlier.cost, earlier.at_least, earlier.tokens);
    }
    let (known, newest) = (&status.drawn.money, status.state.runs.front());
    add(BEFORE, known.before, known.before_at_least, TokenUsage::ZERO);
    let spent = status.state.total_spend();
    // The view knows the attempts of the plan as it is; the rest belongs to earlier plans.
    let listed = by_model.values().fold(Usd::ZERO, |sum, model| sum + model.cost);
    let rest = spent.saturating_sub(listed);
    if rest > Usd::ZERO {
        let sum = by_model.entry(OTHERS.to_owned()).or_default();
        sum.add(rest, status.costs_at_least(), TokenUsage::ZERO);
    }
    MoneyReport {
        spent,
        counted: known.counted(),
        before: known.before,
        at_least: status.costs_at_least(),
        counted_at_least: known.at_least || newest.is_some_and(|run| run.spends_at_least()),
        limit: known.limit,
        limited_by: status
            .typed
            .option("max-cost")
            .map(|given| format!("--max-cost {given}")),
        by_model,
    }
}

/// Returns the state of the run in words; of a task that ended in another way, that end.
fn words(status: &StatusView<'_>) -> String {
    let ended = match status.state.runs.front() {
        Some(run) => status.state_words(run),
        None => status.drawn.state_words(),
    };
    let failed = status
        .task
        .as_ref()
        .filter(|_| !status.live && status.drawn.state != RunState::Failed);
    let words = match (status.end_of_task(), failed.map(OwningTask::status)) {
        (Some(end), _) => format!("{} (its run: {ended})", end.words),
        (None, Some(TaskStatus::Failed)) => format!("failed (its run: {ended})"),
        (None, Some(TaskStatus::Pending)) => format!("pending (its run: {ended})"),
        (None, _) => ended,
    };
    match taken_back(status) {
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

impl ModelReport {
    fn add(&mut self, cost: Usd, at_least: bool, tokens: TokenUsage) {
        self.cost += cost;
        self.at_least |= at_least;
        self.tokens += tokens;
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
    let is_by_hand = status.drawn.state != RunState::Completed;
    let by_hand = status
        .end_of_task()
        .filter(|end| end.is_completed && is_by_hand)
        .map(|_| {
            "The task was completed by hand: changes since the last checkpoint are not among the files."
                .to_owned()
        });
    let of_task = absent
        .into_iter()
        .chain(failed)
        .chain(left_running)
        .chain(by_hand);
    of_task.chain(left_out).chain(odd).chain(shortened).collect()
}

/// Returns the answers of users that only the registry and the log of a task have: its denials, and an approval that no run has seen.
fn answers_of_task(status: &StatusView<'_>) -> Vec<Occasion> {
    let denials = status.task.as_ref().map_or_else(Vec::new, OwningTask::denials);
    let approval = status.answer().filter(|answer| answer.approval.granted);
    let answers = denials.into_iter().chain(approval.map(|answer| (answer, None)));
    let occasion = |(GateAnswer { approval, at }, waited): (GateAnswer, Option<Duration>)| {
        Some(Occasion {
            at: at?,
            what: format!(
                "{}: {}{}",
                approval.codon_id,
                approval.sentence(),
                after_words(waited)
            ),
            command: None,
            is_answer: true,
            waited_ms: waited.map(millis),
        })
    };
    answers.filter_map(occasion).collect()
}

/// Occasions with the waits among them, each with its length.
fn with_waits(heard: Heard, status: &StatusView<'_>) -> Vec<Occasion> {
    let now = SystemClock.now();
    let waits = heard.waits().filter(|wait| wait.kind != WaitKind::Approval);
    let waits = waits.filter_map(|wait| {
        let codon = wait.codon.as_ref().map(CodonId::as_str);
        let who = codon.or(wait.item.as_deref()).unwrap_or("the run");
        let lasts = status.live && wait.to.is_none_or(|to| to > now);
        let length = wait.to.map(|to| to.since(wait.from)).filter(|_| !lasts);
        // Nobody waited where a fallback or the end of the run came at once.
        let is_for_clock = matches!(wait.kind, WaitKind::Limit | WaitKind::Retry);
        if is_for_clock && length.is_some_and(|length| length < SHORTEST_WAIT) {
            return None;
        }
        let what = match wait.kind {
            WaitKind::Limit => "for the end of a usage limit",
            WaitKind::Background => "for background work",
            WaitKind::Suspended | WaitKind::Retry | WaitKind::Approval => "before another attempt",
        };
        let words = match (wait.kind, length, wait.to) {
            (WaitKind::Suspended, Some(length), _) => format!("was suspended for {}", short_duration(length)),
            (WaitKind::Suspended, None, _) => "is suspended".to_owned(),
            (_, Some(length), _) => format!("waited {} {what}", short_duration(length)),
            (_, None, Some(to)) => format!("waits {what} until {to}"),
            (_, None, None) => format!("waits {what}"),
        };
        let why = wait.why.as_deref();
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        Some(Occasion {
            at: wait.from,
            what: format!("{who} {words}{why}"),
            command: None,
            is_answer: false,
            waited_ms: length.map(millis),
        })
    });
    let mut occasions: Vec<Occasion> = waits.collect();
    occasions.extend(heard.occasions);
    occasions.extend(answers_of_task(status));
    occasions.sort_by_key(|occasion| occasion.at);
    occasions
}
