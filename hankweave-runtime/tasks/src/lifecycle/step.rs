//! The steps that can be asked for, and from where (TASK-32, TASK-91).

use hankweave_core::id::AgentId;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::{Complete, Fail, Start, TaskResult, TaskStatus, TaskTransition, Typed};
use hankweave_task_model::{HookPoint, TaskError};
use serde_json::{Value, json};

/// A step that somebody wants to take.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskStep {
    /// An agent begins to work on a pending task.
    Start(AgentId),
    /// The work on a running task is done.
    Complete(TaskResult),
    /// The work on a running task failed.
    Fail(String),
    /// The work on a running task failed, and it waits for a worker again: two transitions in one commit.
    Requeue(String),
    /// Somebody calls a pending or running task off.
    Cancel,
    /// A task that has ended is removed with its files.
    Delete,
    /// A task that failed or was called off waits again.
    Resume,
    /// An agent begins to work on a task that waits, failed or was called off, in one commit.
    ResumeFor(AgentId),
}

impl TaskStep {
    /// The name for it in logs and errors.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Complete(_) => "complete",
            Self::Fail(_) => "fail",
            Self::Requeue(_) => "fail resume",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Resume => "resume",
            Self::ResumeFor(_) => "resume start",
        }
    }

    /// Returns the status after the step.
    #[must_use]
    pub const fn leads_to(&self) -> TaskStatus {
        match self {
            Self::Start(_) | Self::ResumeFor(_) => TaskStatus::Running,
            Self::Complete(_) => TaskStatus::Completed,
            Self::Fail(_) => TaskStatus::Failed,
            Self::Cancel => TaskStatus::Cancelled,
            Self::Delete => TaskStatus::Deleted,
            Self::Requeue(_) | Self::Resume => TaskStatus::Pending,
        }
    }

    /// On whose behalf the lock is taken.
    pub(super) fn who(&self) -> &str {
        match self {
            Self::Start(agent_id) | Self::ResumeFor(agent_id) => agent_id.as_str(),
            _ => super::SYSTEM,
        }
    }

    /// Returns the description of the step for hooks.
    pub(super) fn about(&self) -> Value {
        match self {
            Self::Start(agent_id) | Self::ResumeFor(agent_id) => json!(agent_id),
            Self::Complete(result) => json!(result),
            Self::Fail(error) | Self::Requeue(error) => json!(error),
            Self::Cancel | Self::Delete | Self::Resume => Value::Null,
        }
    }

    /// When its hooks run, before and behind it.
    pub(super) const fn points(&self) -> Option<(HookPoint, HookPoint)> {
        match self {
            Self::Start(_) | Self::ResumeFor(_) => Some((HookPoint::BeforeStart, HookPoint::AfterStart)),
            Self::Complete(_) => Some((HookPoint::BeforeComplete, HookPoint::AfterComplete)),
            Self::Fail(_) | Self::Requeue(_) => Some((HookPoint::BeforeFail, HookPoint::AfterFail)),
            Self::Cancel => Some((HookPoint::BeforeCancel, HookPoint::AfterCancel)),
            Self::Delete => Some((HookPoint::BeforeDelete, HookPoint::AfterDelete)),
            Self::Resume => None,
        }
    }

    /// The transitions, as the typed task makes them.
    pub(super) fn of(&self, row: &TaskRow) -> Result<Vec<TaskTransition>, TaskError> {
        let typed = row.record.clone().typed().ok();
        typed
            .and_then(|typed| self.taken(typed))
            .ok_or_else(|| TaskError::InvalidTransition {
                id: row.id().to_string(),
                from: row.record.status().as_str(),
                method: self.method(),
            })
    }

    fn taken(&self, typed: Typed) -> Option<Vec<TaskTransition>> {
        let fail = |error: &String| Fail { error: error.clone() };
        Some(match (self.clone(), typed) {
            (Self::Start(agent_id) | Self::ResumeFor(agent_id), Typed::Pending(task)) => {
                vec![task.step(Start { agent_id }).into_event()]
            }
            (Self::ResumeFor(agent_id), Typed::Failed(_) | Typed::Cancelled(_)) => {
                vec![TaskTransition::Resume, TaskTransition::Start(Start { agent_id })]
            }
            (Self::Complete(result), Typed::Running(task)) => {
                vec![task.step(Complete { result }).into_event()]
            }
            (Self::Fail(error), Typed::Running(task)) => vec![task.step(fail(&error)).into_event()],
            (Self::Requeue(error), Typed::Running(task)) => {
                vec![task.step(fail(&error)).into_event(), TaskTransition::Resume]
            }
            (Self::Cancel, Typed::Pending(_) | Typed::Running(_)) => vec![TaskTransition::Cancel],
            (Self::Delete, Typed::Completed(_) | Typed::Failed(_) | Typed::Cancelled(_)) => {
                vec![TaskTransition::Delete]
            }
            (Self::Resume, Typed::Failed(_) | Typed::Cancelled(_)) => vec![TaskTransition::Resume],
            _ => return None,
        })
    }
}
