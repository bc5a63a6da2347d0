//! Steps of a task, and the statuses in which each is possible (TASK-32, TASK-91).

use hankweave_core::id::AgentId;
use hankweave_task_model::registry::{Patch, RegistryChange, TaskRow};
use hankweave_task_model::task::{
    Ask, Complete, Fail, Start, TaskApproval, TaskFailure, TaskRecord, TaskResult, TaskStatus,
    TaskTransition, Typed,
};
use hankweave_task_model::{HookPoint, TaskError};
use serde_json::{Value, json};

/// Step of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskStep {
    /// A pending task is started for a worker.
    Start(AgentId),
    /// A pending task is started for an agent that works on it without a worker.
    Attach(AgentId),
    /// A running task has completed.
    Complete(TaskResult),
    /// The work on a running task failed.
    Fail(TaskFailure),
    /// A running task is requeued, with the reason: it fails and is resumed, in one commit.
    Requeue(String),
    /// A running task waits for the approval of a codon.
    Ask(Ask),
    /// A user answers the question of a waiting task; a denied task fails.
    Answer(TaskAnswer),
    /// A pending, running or waiting task is cancelled.
    Cancel,
    /// An ended task is deleted with its files.
    Delete,
    /// A failed or cancelled task is requeued.
    Resume,
    /// A pending, failed or cancelled task is started for an agent that works on it without a worker, in one commit.
    ResumeFor(AgentId),
}

/// Answer of a user to a waiting task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAnswer {
    /// Whether the codon may start.
    pub granted: bool,
    /// User who answers.
    pub by: String,
    /// Reason of the user.
    pub reason: Option<String>,
}

impl TaskAnswer {
    /// Returns the answer in the form that is stored with the task, for this codon.
    fn approval_of(&self, codon_id: &str) -> TaskApproval {
        TaskApproval {
            codon_id: codon_id.to_owned(),
            granted: self.granted,
            by: self.by.clone(),
            reason: self.reason.clone(),
        }
    }

    fn sentence(&self) -> String {
        self.approval_of("").sentence()
    }
}

impl TaskStep {
    /// Returns the answer to store with the task; `None` for a step that is no answer.
    fn approval(&self, row: &TaskRow) -> Option<TaskApproval> {
        match (self, &row.record) {
            (Self::Answer(answer), TaskRecord::Waiting(waiting)) => {
                Some(answer.approval_of(&waiting.codon_id))
            }
            _ => None,
        }
    }

    /// Returns the name used in logs and errors.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Start(_) | Self::Attach(_) => "start",
            Self::Complete(_) => "complete",
            Self::Fail(_) => "fail",
            Self::Requeue(_) => "fail resume",
            Self::Ask(_) => "ask",
            Self::Answer(answer) if answer.granted => "approve",
            Self::Answer(_) => "deny",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Resume => "resume",
            Self::ResumeFor(_) => "resume start",
        }
    }

    /// Whether the step ends the attempt of a lost worker.
    pub(crate) fn ends_orphan(&self) -> bool {
        match self {
            Self::Requeue(error) => error == super::ORPHANED,
            Self::Fail(failure) => failure.cause.starts_with(super::ORPHANED),
            _ => false,
        }
    }

    /// Returns the status after the step.
    #[must_use]
    pub const fn leads_to(&self) -> TaskStatus {
        match self {
            Self::Start(_) | Self::Attach(_) | Self::ResumeFor(_) => TaskStatus::Running,
            Self::Complete(_) => TaskStatus::Completed,
            Self::Fail(_) => TaskStatus::Failed,
            Self::Cancel => TaskStatus::Cancelled,
            Self::Delete => TaskStatus::Deleted,
            Self::Ask(_) => TaskStatus::Waiting,
            Self::Answer(answer) if !answer.granted => TaskStatus::Failed,
            Self::Requeue(_) | Self::Resume | Self::Answer(_) => TaskStatus::Pending,
        }
    }

    /// Returns the name of the lock's holder.
    pub(super) fn holder_name(&self) -> &str {
        match self {
            Self::Start(agent_id) | Self::Attach(agent_id) | Self::ResumeFor(agent_id) => agent_id.as_str(),
            Self::Answer(answer) => &answer.by,
            _ => super::SYSTEM,
        }
    }

    /// Returns the description of the step for hooks.
    pub(super) fn about(&self) -> Value {
        match self {
            Self::Start(agent_id) | Self::Attach(agent_id) | Self::ResumeFor(agent_id) => json!(agent_id),
            Self::Complete(result) => json!(result),
            Self::Fail(failure) => json!(failure.to_string()),
            Self::Requeue(error) => json!(error),
            Self::Ask(ask) => json!(ask),
            Self::Answer(answer) => json!(answer.sentence()),
            Self::Cancel | Self::Delete | Self::Resume => Value::Null,
        }
    }

    /// Returns the moments of the step's hooks, before and after it.
    pub(super) const fn points(&self) -> Option<(HookPoint, HookPoint)> {
        match self {
            Self::Start(_) | Self::Attach(_) | Self::ResumeFor(_) => {
                Some((HookPoint::BeforeStart, HookPoint::AfterStart))
            }
            Self::Complete(_) => Some((HookPoint::BeforeComplete, HookPoint::AfterComplete)),
            Self::Answer(answer) if answer.granted => None,
            Self::Fail(_) | Self::Requeue(_) | Self::Answer(_) => {
                Some((HookPoint::BeforeFail, HookPoint::AfterFail))
            }
            Self::Cancel => Some((HookPoint::BeforeCancel, HookPoint::AfterCancel)),
            Self::Delete => Some((HookPoint::BeforeDelete, HookPoint::AfterDelete)),
            Self::Ask(_) | Self::Resume => None,
        }
    }

    /// Returns the step as a change of this task under the lock with this token.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::InvalidTransition`].
    pub fn change(&self, row: &TaskRow, token: u64) -> Result<RegistryChange, TaskError> {
        Ok(RegistryChange {
            id: row.id().clone(),
            expected_version: row.version,
            token,
            steps: self.transitions(row)?,
            cost: None,
            approval: self.approval(row),
            by: None,
            lease: None,
            files: Patch::Keep,
        })
    }

    /// Returns this step, or `Cancel` in its place if a user has asked to cancel the task: such a task is not requeued, and does not fail because its worker
    /// was lost.
    pub(super) fn or_requested_cancel(&self, row: &TaskRow) -> &Self {
        let is_replaceable = matches!(self, Self::Requeue(_)) || self.ends_orphan();
        match is_replaceable && row.cancel_requested_at.is_some() {
            true => &Self::Cancel,
            false => self,
        }
    }

    /// Returns the transitions of the task's state machine that make up this step, or an error if the task's status does not permit the step.
    pub(super) fn transitions(&self, row: &TaskRow) -> Result<Vec<TaskTransition>, TaskError> {
        let typed = row.record.clone().typed().ok();
        typed
            .and_then(|typed| self.or_requested_cancel(row).typed_transitions(typed))
            .ok_or_else(|| TaskError::InvalidTransition {
                id: row.id().to_string(),
                from: row.record.status().as_str(),
                method: self.method(),
            })
    }

    fn typed_transitions(&self, typed: Typed) -> Option<Vec<TaskTransition>> {
        let fail = |failure: TaskFailure| Fail::from(failure);
        Some(match (self.clone(), typed) {
            (Self::Start(agent_id), Typed::Pending(task)) => {
                let by_hand = false;
                vec![task.step(Start { agent_id, by_hand }).into_event()]
            }
            (Self::Attach(agent_id) | Self::ResumeFor(agent_id), Typed::Pending(task)) => {
                let by_hand = true;
                vec![task.step(Start { agent_id, by_hand }).into_event()]
            }
            (Self::ResumeFor(agent_id), Typed::Failed(_) | Typed::Cancelled(_)) => {
                let by_hand = true;
                vec![
                    TaskTransition::Resume,
                    TaskTransition::Start(Start { agent_id, by_hand }),
                ]
            }
            (Self::Complete(result), Typed::Running(task)) => {
                vec![task.step(Complete { result }).into_event()]
            }
            (Self::Fail(failure), Typed::Running(task)) => vec![task.step(fail(failure)).into_event()],
            (Self::Fail(failure), Typed::Waiting(task)) => vec![task.step(fail(failure)).into_event()],
            (Self::Requeue(error), Typed::Running(task)) => {
                vec![task.step(fail(error.into())).into_event(), TaskTransition::Resume]
            }
            (Self::Ask(ask), Typed::Running(task)) => vec![task.step(ask).into_event()],
            (Self::Answer(answer), Typed::Waiting(_)) if answer.granted => vec![TaskTransition::Approve],
            (Self::Answer(answer), Typed::Waiting(task)) => {
                let failure = TaskFailure {
                    codon_id: Some(task.codon_id.clone()),
                    ..answer.sentence().into()
                };
                vec![task.step(fail(failure)).into_event()]
            }
            (Self::Cancel, Typed::Pending(_) | Typed::Running(_) | Typed::Waiting(_)) => {
                vec![TaskTransition::Cancel]
            }
            (Self::Delete, Typed::Completed(_) | Typed::Failed(_) | Typed::Cancelled(_)) => {
                vec![TaskTransition::Delete]
            }
            (Self::Resume, Typed::Failed(_) | Typed::Cancelled(_)) => vec![TaskTransition::Resume],
            _ => return None,
        })
    }
}
