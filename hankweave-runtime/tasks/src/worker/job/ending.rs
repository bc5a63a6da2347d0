//! Questions and failures of runs (TASK-122, TASK-123). Before a run starts, its job aligns the answer in the workspace with the registry's. After the run, the
//! job gets the question at which the run paused, or the cause of its failure.

use hankweave_core::time::Timestamp;
use std::path::Path;

use hankweave_core::agent::{InterruptedBy, ProcessExit};
use hankweave_core::budget::CeilingUse;
use hankweave_core::document::HankweaveState;
use hankweave_core::id::CodonId;
use hankweave_core::plan::{BlockedBy, Decision, decide_with_replans};
use hankweave_core::thread::prompt_values;
use hankweave_remote::history;
use hankweave_runtime::error::chain;
use hankweave_runtime::instance_lock::LockError;
use hankweave_runtime::world::World;
use hankweave_runtime::{ExecutionDir, OpenDirectory, OpenExecutionError, RunOptions, inspect};
use hankweave_task_model::TaskError;
use hankweave_task_model::registry::{Patch, TaskPatch, TaskRow};
use hankweave_task_model::task::{Ask, NeededBudget, TaskApproval, TaskFailure};
use serde_json::json;

use super::{Job, PAUSED};
use crate::coordinator::UpdateTask;
use crate::layers::WORKSPACE;
use crate::worker::order::TaskSpec;

/// Number of attempts to change the task's row, if another writer changes it between reading and writing.
const NOTE_TRIES: u32 = 5;

/// Reason why the answer in the workspace was not aligned with the answer in the registry.
#[derive(Debug)]
pub(super) enum AnswerError {
    /// Another process works in the workspace.
    Held,
    /// The change was not recorded.
    Failed(String),
}

impl AnswerError {
    fn of(error: &OpenExecutionError) -> Self {
        match error {
            OpenExecutionError::Lock(LockError::Held { .. }) => Self::Held,
            error => Self::Failed(chain(error)),
        }
    }
}

/// Change of the answer in a workspace.
enum DueAnswer {
    /// Record that this codon is approved.
    Grant(CodonId),
    /// Remove the answer, so that the run asks again.
    Withdraw,
}

/// Returns the change that the answer in the workspace needs to match `approval`, the one in the registry; `None` if it needs none.
fn due_change(world: &World, dir: &ExecutionDir, approval: Option<&TaskApproval>) -> Option<DueAnswer> {
    let state = history(world, dir).ok()?;
    let is_granted = |codon: &CodonId| approval.is_some_and(|approval| approval.codon_id == codon.as_str());
    let gated_codon = match next_gate(world, dir, &state) {
        Some(Gate::Asked(ask)) => CodonId::new(ask.codon_id).ok(),
        Some(Gate::Denied(codon, _)) => Some(codon),
        None => None,
    };
    if let Some(codon) = gated_codon.filter(is_granted) {
        return Some(DueAnswer::Grant(codon));
    }
    let recorded = state.approval.as_ref()?;
    let is_valid = recorded.granted && is_granted(&recorded.codon_id);
    (!is_valid).then_some(DueAnswer::Withdraw)
}

/// Approval that the next codon of a run needs.
enum Gate {
    /// The question is open.
    Asked(Ask),
    /// A user has denied this codon, for this reason if one was given.
    Denied(CodonId, Option<String>),
}

/// Returns the gate at which the last run in `dir` paused; `None` if it did not pause for an approval.
fn gate_of_pause(world: &World, dir: &ExecutionDir) -> Option<Gate> {
    let state = history(world, dir).ok()?;
    let newest = state.runs.front()?;
    if newest.interrupted_by != Some(InterruptedBy::Approval) {
        return None;
    }
    next_gate(world, dir, &state)
}

/// Returns the gate of the next codon; `None` if the codon needs no approval.
fn next_gate(world: &World, dir: &ExecutionDir, state: &HankweaveState) -> Option<Gate> {
    let hank = inspect::last_hank(&*world.disk, dir).ok()??.hank?;
    match decide_with_replans(state, &hank) {
        Decision::Ask(entry) => {
            let config = hank.codon(entry.codon_id.configured())?;
            let values = prompt_values(dir.root(), &hank, state);
            let question = config.approval.as_ref()?.fill(&entry.codon_id, &values);
            Some(Gate::Asked(Ask {
                codon_id: entry.codon_id.to_string(),
                question,
            }))
        }
        Decision::Blocked(BlockedBy::Denied(codon)) => {
            let reason = state.approval.as_ref().and_then(|answer| answer.reason.clone());
            Some(Gate::Denied(codon, reason))
        }
        _ => None,
    }
}

impl Job {
    /// Returns the question of a run that has paused for an approval, or why the run did not succeed.
    pub(super) async fn ending(
        &mut self,
        exit: ProcessExit,
        messages: &[String],
    ) -> Result<Ask, TaskFailure> {
        let gate = match exit {
            ProcessExit::Exited(PAUSED) => {
                let (world, dir) = (self.worker.world.clone(), self.execution());
                self.worker
                    .world
                    .blocking
                    .run(move || gate_of_pause(&world, &dir))
                    .await
            }
            _ => None,
        };
        match gate {
            Some(Gate::Asked(ask)) => Ok(ask),
            Some(Gate::Denied(codon, reason)) => Err(TaskFailure {
                codon_id: Some(codon.to_string()),
                ..match reason {
                    Some(reason) => format!("denied: {reason}").into(),
                    None => "denied".into(),
                }
            }),
            None => Err(TaskFailure {
                needed: self.needed_budget().await,
                ..self.failure(exit, messages)
            }),
        }
    }

    /// Returns the total budget with which the run could continue, if it paused because its total budget was spent.
    async fn needed_budget(&mut self) -> Option<NeededBudget> {
        let ceiling = self.progress.spent_ceiling()?;
        let (world, dir) = (self.worker.world.clone(), self.execution());
        let read = move || history(&world, &dir).ok();
        let state = self.worker.world.blocking.run(read).await?;
        NeededBudget::of(&CeilingUse::of(ceiling, &state))
    }

    /// Returns the failure of a run: of its failed codon, else its pause, else the first error that the run printed.
    fn failure(&self, exit: ProcessExit, messages: &[String]) -> TaskFailure {
        let directory = quoted(self.execution().root());
        if let Some(failed) = self.progress.failed() {
            // The message of an agent that exited has the last lines of its standard error.
            let mut lines = failed.cause.lines().map(str::to_owned);
            let cause = lines.next().unwrap_or_default();
            return TaskFailure {
                cause,
                codon_id: Some(failed.codon.clone()),
                last_lines: self.progress.last_lines().into_iter().chain(lines).collect(),
                command: Some(format!("hankweave logs {} -e {directory}", failed.codon)),
                ..TaskFailure::default()
            };
        }
        if let Some(pause) = self.progress.pause() {
            return TaskFailure {
                cause: pause.to_string(),
                // The run's own messages name commands that continue the run, not its task.
                last_lines: self.progress.last_lines(),
                command: Some(format!("hankweave status -e {directory}")),
                ..TaskFailure::default()
            };
        }
        let is_error = |line: &&String| line.starts_with("error: ");
        let error = messages.iter().find(is_error).or_else(|| messages.last());
        let error = error.map(|line| line.strip_prefix("error: ").unwrap_or(line).to_owned());
        let error = error.map(|error| with_first_problem(error, messages));
        TaskFailure {
            cause: exit_cause(exit, error),
            last_lines: messages.to_vec(),
            command: Some(self.command_for_more(&directory)),
            ..TaskFailure::default()
        }
    }

    /// Returns the command that prints more about a run without a failed codon. If no run was recorded, the command is about its hank.
    fn command_for_more(&self, directory: &str) -> String {
        let spec = TaskSpec::read(self.row.record.metadata()).ok();
        match spec.filter(|_| !self.files.has_run()) {
            Some(spec) => format!("hankweave validate {}", quoted(&spec.hank)),
            None => format!("hankweave status -e {directory}"),
        }
    }

    /// Replaces the answer in the workspace by that of the registry, which alone counts (TASK-123). An approval starts the codon. Any other answer in
    /// the workspace is withdrawn, so that the run asks again. The run also asks again if an approval cannot be recorded.
    ///
    /// # Errors
    ///
    /// Returns [`AnswerError`] when another process works in the workspace, or when a codon could start without an approval.
    pub(super) async fn align_answer(&mut self) -> Result<(), AnswerError> {
        let stored = self.row.record.metadata().get("approval").cloned();
        let at = stored.as_ref();
        let at = at.and_then(|stored| serde_json::from_value(stored["at"].clone()).ok());
        let answer = stored.and_then(|stored| serde_json::from_value::<TaskApproval>(stored).ok());
        let approval = answer.filter(|answer| answer.granted);
        let (world, dir, known) = (self.worker.world.clone(), self.execution(), approval.clone());
        let find = move || due_change(&world, &dir, known.as_ref());
        let Some(change) = self.worker.world.blocking.run(find).await else {
            return Ok(());
        };
        match (self.change_answer(&change, approval, at).await, change) {
            (Err(AnswerError::Failed(why)), DueAnswer::Grant(_)) => {
                tracing::warn!(taskId = %self.row.id(), why, "an approval is not recorded; the run asks again");
                Ok(())
            }
            (changed, _) => changed,
        }
    }

    /// Changes the answer in the workspace, as given by the user of `approval` at the time `at`.
    async fn change_answer(
        &mut self,
        change: &DueAnswer,
        approval: Option<TaskApproval>,
        at: Option<Timestamp>,
    ) -> Result<(), AnswerError> {
        let (by, reason) = approval.map(|approval| (approval.by, approval.reason)).unzip();
        let mut options = RunOptions::default();
        // An unreadable record must not be replaced by a new one just to record an answer.
        options.strict_state = true;
        let dir = self.execution();
        let opened = OpenDirectory::open(self.worker.world.clone(), dir.root(), &options).await;
        let opened = opened.map_err(|error| AnswerError::of(&error))?;
        let changed = match change {
            DueAnswer::Grant(codon) => opened.answer(codon, true, reason.flatten(), (by, at)).await,
            DueAnswer::Withdraw => opened.withdraw_answer().await,
        };
        let closed = opened.close().await;
        changed.map_err(|error| AnswerError::Failed(chain(&error)))?;
        closed.map_err(|error| AnswerError::Failed(chain(&*error)))
    }

    /// Stores in the registry the answer that a client gave to the live run, so that the next attempt does not ask again.
    pub(super) async fn note_answer(&mut self, approval: &TaskApproval) {
        let mut answer = json!(approval);
        answer["at"] = json!(self.worker.world.clock.now());
        let patch = |row: &TaskRow| {
            let mut metadata = row.record.metadata().clone();
            metadata.insert("approval".to_owned(), answer.clone());
            TaskPatch {
                metadata: Patch::Set(metadata),
                ..TaskPatch::default()
            }
        };
        if let Err(error) = self.note_in_registry(patch).await {
            tracing::warn!(taskId = %self.row.id(), %error, "an answer is not noted; the next attempt asks again");
        }
    }

    /// Changes the running task's row in the registry by `patch`, which is called with the newest row at each attempt.
    pub(super) async fn note_in_registry(
        &mut self,
        patch: impl Fn(&TaskRow) -> TaskPatch,
    ) -> Result<(), TaskError> {
        let mut tries = 0;
        loop {
            let update = UpdateTask {
                id: self.row.id().clone(),
                patch: TaskPatch {
                    if_version: Some(self.row.version),
                    ..patch(&self.row)
                },
                token: Some(self.token),
            };
            tries += 1;
            match self.lifecycle.update(update).await {
                Ok(row) => {
                    self.row = row;
                    return Ok(());
                }
                Err(TaskError::VersionConflict { .. }) if tries < NOTE_TRIES => {
                    let read = self.worker.coordinator.task(self.row.id().clone()).await;
                    if let Ok(Some(row)) = read {
                        self.row = row;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Execution directory of the task's runs.
    fn execution(&self) -> ExecutionDir {
        ExecutionDir::new(self.files.path().join(WORKSPACE))
    }
}

/// Adds to the error the first problem of an invalid hank, and the number of the others. The error itself names none.
fn with_first_problem(error: String, messages: &[String]) -> String {
    let mut problems = messages.iter().filter_map(|line| line.split_once(": error: "));
    let Some((place, problem)) = problems.next() else {
        return error;
    };
    let place = place.rsplit('/').next().unwrap_or(place);
    match problems.count() {
        0 => format!("{error}: {place}: {problem}"),
        more => format!("{error}: {place}: {problem}, and {more} more"),
    }
}

/// Returns the cause of a run that ended without a failed codon, with the run's error if it printed one.
fn exit_cause(exit: ProcessExit, error: Option<String>) -> String {
    let ended = match exit {
        ProcessExit::Exited(code) => format!("the run exited with code {code}"),
        ProcessExit::Signaled(signal) => format!("signal {signal} ended the run"),
    };
    match error {
        Some(error) => format!("{error} ({ended})"),
        None => ended,
    }
}

/// Returns the path as one word of a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@%,:=".contains(character);
    match path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-122
    #[test]
    fn a_hank_that_cannot_be_used_is_told_with_its_first_problem() {
        let told = |messages: &[&str]| {
            let messages: Vec<String> = messages.iter().map(|line| (*line).to_owned()).collect();
            with_first_problem("the hank cannot be used".to_owned(), &messages)
        };
        let hank = [
            "error: the hank cannot be used",
            "/h/my hank/hank.json:1:11: error: hank[0].name: is missing",
        ];
        let cause = "the hank cannot be used: hank.json:1:11: hank[0].name: is missing";
        assert_eq!(told(&hank), cause);
        assert_eq!(
            told(&[hank[0], hank[1], hank[1], "  hint: x"]),
            format!("{cause}, and 1 more")
        );
        assert_eq!(told(&["error: no room"]), "the hank cannot be used");
    }
}
