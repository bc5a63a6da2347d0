//! Ending of a run: its cause if it failed, its question if a codon needs an approval, and the delivery of the answer (TASK-122, TASK-123).

use std::path::Path;

use hankweave_core::agent::{InterruptedBy, ProcessExit};
use hankweave_core::document::HankweaveState;
use hankweave_core::id::CodonId;
use hankweave_core::plan::{BlockedBy, Decision, decide_with_replans};
use hankweave_remote::history;
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;
use hankweave_runtime::{ExecutionDir, OpenDirectory, RunOptions, inspect};
use hankweave_task_model::task::{Ask, TaskApproval, TaskFailure};

use super::{Job, PAUSED};
use crate::layers::WORKSPACE;

/// Next step of a run that has paused for an approval.
enum Gate {
    Asked(Ask),
    Denied(CodonId, Option<String>),
}

/// Returns the question or the denial at which the last run in `dir` paused.
fn gate(world: &World, dir: &ExecutionDir) -> Option<Gate> {
    let state = history(world, dir).ok()?;
    let newest = state.runs.front()?;
    (newest.interrupted_by == Some(InterruptedBy::Approval)).then_some(())?;
    next_gate(world, dir, &state)
}

fn next_gate(world: &World, dir: &ExecutionDir, state: &HankweaveState) -> Option<Gate> {
    let hank = inspect::last_hank(&*world.disk, dir).ok()??.hank?;
    match decide_with_replans(state, &hank) {
        Decision::Ask(entry) => {
            let config = hank.codon(entry.codon_id.configured())?;
            let question = config.approval.as_ref()?.words(&entry.codon_id);
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
                self.worker.world.blocking.run(move || gate(&world, &dir)).await
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
            None => Err(self.failure(exit, messages)),
        }
    }

    /// Returns the cause of a run that failed: that of its codon, else the first error that the run printed.
    fn failure(&self, exit: ProcessExit, messages: &[String]) -> TaskFailure {
        let directory = quoted(self.execution().root());
        if let Some(failed) = self.progress.failed() {
            return TaskFailure {
                cause: failed.cause.clone(),
                codon_id: Some(failed.codon.clone()),
                last_lines: self.progress.last_lines(),
                command: Some(format!("hankweave logs {} -e {directory}", failed.codon)),
                ..TaskFailure::default()
            };
        }
        let is_error = |line: &&String| line.starts_with("error: ");
        let said = messages.iter().find(is_error).or_else(|| messages.last());
        let said = said.map(|line| line.strip_prefix("error: ").unwrap_or(line).to_owned());
        TaskFailure {
            cause: self
                .progress
                .pause()
                .map_or_else(|| exit_cause(exit, said), str::to_owned),
            last_lines: messages.to_vec(),
            command: Some(format!("hankweave status -e {directory}")),
            ..TaskFailure::default()
        }
    }

    /// Records the answer of a user in the workspace, so that the run continues; an answer to another question stays unused.
    pub(super) async fn deliver_approval(&mut self) {
        let noted = self.row.record.metadata().get("approval").cloned();
        let Some(approval) = noted.and_then(|noted| serde_json::from_value::<TaskApproval>(noted).ok())
        else {
            return;
        };
        if !approval.granted {
            return;
        }
        if let Err(error) = self.record_answer(approval).await {
            tracing::warn!(taskId = %self.row.id(), error, "the approval could not be recorded; the run asks again");
        }
    }

    async fn record_answer(&mut self, approval: TaskApproval) -> Result<(), String> {
        let (world, dir) = (self.worker.world.clone(), self.execution());
        let is_asked = move || {
            let state = history(&world, &dir).ok()?;
            match next_gate(&world, &dir, &state)? {
                Gate::Asked(ask) => Some(ask.codon_id),
                Gate::Denied(codon, _) => Some(codon.to_string()),
            }
        };
        let asked = self.worker.world.blocking.run(is_asked).await;
        let Some(codon) = asked.filter(|asked| *asked == approval.codon_id) else {
            return Ok(());
        };
        let codon = CodonId::new(codon).map_err(|error| error.to_string())?;
        let options = RunOptions {
            strict_state: true,
            ..RunOptions::default()
        };
        let dir = self.execution();
        let opened = OpenDirectory::open(self.worker.world.clone(), dir.root(), &options).await;
        let opened = opened.map_err(|error| chain(&error))?;
        let answered = opened.answer(&codon, true, Some(approval.sentence())).await;
        let closed = opened.close().await;
        answered.map_err(|error| chain(&error))?;
        closed.map_err(|error| chain(&*error))
    }

    /// Execution directory of the task's runs.
    fn execution(&self) -> ExecutionDir {
        ExecutionDir::new(self.files.path().join(WORKSPACE))
    }
}

/// Returns the cause of a run that ended without a failed codon.
fn exit_cause(exit: ProcessExit, said: Option<String>) -> String {
    let ended = match exit {
        ProcessExit::Exited(code) => format!("the run exited with code {code}"),
        ProcessExit::Signaled(signal) => format!("signal {signal} ended the run"),
    };
    match said {
        Some(said) => format!("{said} ({ended})"),
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
