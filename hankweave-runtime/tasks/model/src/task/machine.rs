//! Task machine: 7 states, 14 edges (STATE-61, STATE-62).
//!
//! Time, version and lock token of each change belong to the registry's row, not to the machine.

use serde_json::{Map, Value};

use super::{TaskFailure, TaskResult};
use hankweave_core::attempt::{AttemptNumber, SpentAttempt};
use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::machine;
use hankweave_core::machine::Extra;
use hankweave_core::time::Timestamp;

/// One task, as a registry stores it.
#[machine(Task, tests, schema = "schema")]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum TaskRecord {
    /// Fields of every state.
    #[shared]
    Base {
        /// Id of the task, which is never used twice.
        id: TaskId,
        /// Name for people.
        name: String,
        /// Description.
        description: Option<String>,
        /// Owner, who is responsible for the task.
        owner: String,
        /// Time of creation.
        created_at: Timestamp,
        /// Notes of its owner.
        #[serde(default)]
        metadata: Map<String, Value>,
        /// Names that others wrote; kept as they are.
        #[extra]
        extra: Extra,
    },

    /// The task waits for a worker or an agent.
    #[initial("createTask()")]
    #[to(start("startTask()") => Running, cancel("cancelTask()") => Cancelled)]
    Pending {
        /// 1 at first, one more after each resume.
        #[carry]
        attempt: AttemptNumber,
    },

    /// An agent works on it.
    #[to(
        complete("completeTask()") => Completed,
        fail("failTask()") => Failed,
        cancel("cancelTask()") => Cancelled,
        ask("askTask()") => Waiting
    )]
    #[keeps(attempt)]
    Running {
        /// Worker or agent of the attempt.
        agent_id: AgentId,
        /// A user or an agent works on it without a worker, so that nothing counts its cost.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_hand: bool,
    },

    /// A codon of the task needs the approval of a user; no worker holds the task.
    #[to(approve("approveTask()") => Pending, fail("failTask()") => Failed, cancel("cancelTask()") => Cancelled)]
    #[keeps(attempt, agent_id)]
    Waiting {
        /// Codon that needs the approval.
        codon_id: String,
        /// Question to the user.
        question: String,
    },

    /// The work is done.
    #[to(delete("deleteTask()") => Deleted)]
    #[keeps(attempt, agent_id)]
    Completed {
        /// Result.
        result: TaskResult,
    },

    /// The work failed; the task can be resumed.
    #[to(delete("deleteTask()") => Deleted, resume("resumeTask()") => Pending)]
    #[keeps(agent_id)]
    Failed {
        /// Attempt that failed.
        #[carry]
        attempt: SpentAttempt,
        /// Codon and cause, in a sentence.
        error: String,
        /// Details of the failure; absent if there is only the sentence, as in records of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Box<TaskFailure>>,
    },

    /// The task was cancelled; it can be resumed.
    #[to(delete("deleteTask()") => Deleted, resume("resumeTask()") => Pending)]
    Cancelled {
        /// Attempt that was cancelled.
        #[carry]
        attempt: SpentAttempt,
        /// Worker or agent of the attempt, if it had started.
        #[carry]
        agent_id: Option<AgentId>,
        /// Status before the cancellation.
        #[origin]
        cancelled_during: TaskPhase,
    },

    /// The task and its files are deleted. No registry stores such a record; `delete` returns it.
    #[terminal]
    Deleted {
        /// Status before the deletion.
        #[origin]
        deleted_from: TaskPhase,
    },
}
