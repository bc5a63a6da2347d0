//! Data that Restate stores for a task, changed by durable steps.

use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::{NewTask, Patch, RegistryChange, TaskRow};
use hankweave_task_model::task::{Fail, TaskStatus, TaskTransition};
use hankweave_task_model::{LogEntry, TaskError};
use hankweave_tasks::lifecycle::{TaskAnswer, TaskStep};
use hankweave_tasks::worker::NOT_FETCHED;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::codons::CompletedCodon;

/// Task as its virtual object stores it: the data that a registry would have, and the codons that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RestateTask {
    pub(crate) task: TaskRow,
    pub(crate) log: Vec<LogEntry>,
    /// Completed codons, in the order of their recording.
    pub(crate) codons: Vec<CompletedCodon>,
    /// Id of the last invocation of `run` for the task: `cancel` sends its signal to it, and `attach` waits for it.
    pub(crate) invocation: String,
}

/// Result of a durable step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DurableStep {
    /// The task has taken steps, with these log lines.
    Task(TaskRow, Vec<LogEntry>),
    /// A codon has succeeded.
    Codon(CompletedCodon),
}

impl RestateTask {
    pub(crate) fn new(task: NewTask, now: Timestamp) -> Self {
        let (task, created) = TaskRow::new(task, 0, now);
        Self {
            task,
            log: vec![created],
            codons: Vec::new(),
            invocation: String::new(),
        }
    }

    /// Adds the result of a durable step.
    pub(crate) fn take(&mut self, step: DurableStep) {
        match step {
            DurableStep::Task(task, lines) => {
                self.task = task;
                self.log.extend(lines);
            }
            DurableStep::Codon(success) => self.codons.push(success),
        }
    }

    /// Whether the task needs no worker until a user answers or resumes it.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(
            self.task.record.status(),
            TaskStatus::Pending | TaskStatus::Running
        )
    }

    /// Returns why the task waits, if its run could not be fetched (TASK-119).
    pub(crate) fn not_fetched(&self) -> Option<&str> {
        let record = &self.task.record;
        let error = record.metadata().get("error").and_then(Value::as_str);
        error.filter(|error| record.status() == TaskStatus::Pending && error.starts_with(NOT_FETCHED))
    }

    pub(crate) fn has(&self, success: &CompletedCodon) -> bool {
        self.codons.iter().any(|codon| codon.is(success))
    }

    /// Returns the number of the last log line.
    pub(crate) fn last_line(&self) -> u64 {
        self.log.iter().filter_map(|line| line.seq).max().unwrap_or(0)
    }

    /// Returns the step that requeues the task: a running one has lost its worker, any other had ended and is resumed.
    pub(crate) fn requeue(&self, now: Timestamp) -> Result<DurableStep, TaskError> {
        let orphaned = TaskTransition::Fail(Fail {
            error: "ORPHANED".to_owned(),
            failure: None,
        });
        match self.task.record.status() {
            TaskStatus::Running => self.change(vec![orphaned, TaskTransition::Resume], now),
            _ => self.change(vec![TaskTransition::Resume], now),
        }
    }

    /// Returns the step of a user's answer to the question of a waiting task (TASK-123).
    pub(crate) fn answer(&self, answer: &TaskAnswer, now: Timestamp) -> Result<DurableStep, TaskError> {
        let change = TaskStep::Answer(answer.clone()).change(&self.task, self.task.fencing_token)?;
        let changed = self.task.change(&change, now)?;
        Ok(DurableStep::Task(changed.row, changed.lines))
    }

    /// Returns the step that cancels the task while no worker has it.
    pub(crate) fn cancel(&self, now: Timestamp) -> Result<DurableStep, TaskError> {
        self.change(vec![TaskTransition::Cancel], now)
    }

    /// Returns the durable step that applies `steps` to the task. Restate lets one handler at a time change a task, so the token needs no check.
    fn change(&self, steps: Vec<TaskTransition>, now: Timestamp) -> Result<DurableStep, TaskError> {
        let change = RegistryChange {
            id: self.task.id().clone(),
            expected_version: self.task.version,
            token: self.task.fencing_token,
            steps,
            cost: None,
            approval: None,
            by: None,
            lease: None,
            files: Patch::Keep,
        };
        let changed = self.task.change(&change, now)?;
        Ok(DurableStep::Task(changed.row, changed.lines))
    }
}
