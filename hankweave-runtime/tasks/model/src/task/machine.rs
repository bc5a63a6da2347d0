//! The task machine: 6 states, 10 edges (STATE-61, STATE-62).
//!
//! What every change of a record brings (its time, its version, the token of the lock) belongs to the registry's row, not to
//! the machine.

use serde_json::{Map, Value};

use super::TaskResult;
use hankweave_core::attempt::{AttemptNumber, SpentAttempt};
use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::machine;
use hankweave_core::machine::Extra;
use hankweave_core::time::Timestamp;

/// One task, as a registry keeps it.
#[machine(Task, tests, schema = "schema")]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum TaskRecord {
    /// Fields of every state.
    #[shared]
    Base {
        /// The task; an id is never used twice.
        id: TaskId,
        /// Name for people.
        name: String,
        /// Description.
        description: Option<String>,
        /// Who is responsible for it.
        owner: String,
        /// When it was created.
        created_at: Timestamp,
        /// Notes of its owner.
        #[serde(default)]
        metadata: Map<String, Value>,
        /// Names that others wrote; kept as they are.
        #[extra]
        extra: Extra,
    },

    /// Waits for an agent.
    #[initial("createTask()")]
    #[to(start("startTask()") => Running, cancel("cancelTask()") => Cancelled)]
    Pending {
        /// 1 at first, one more after each resume.
        #[carry]
        attempt: AttemptNumber,
    },

    /// An agent works on it.
    #[to(complete("completeTask()") => Completed, fail("failTask()") => Failed, cancel("cancelTask()") => Cancelled)]
    #[keeps(attempt)]
    Running {
        /// That agent.
        agent_id: AgentId,
    },

    /// The work is done.
    #[to(delete("deleteTask()") => Deleted)]
    #[keeps(attempt, agent_id)]
    Completed {
        /// Result.
        result: TaskResult,
    },

    /// The work failed; it can be taken up again.
    #[to(delete("deleteTask()") => Deleted, resume("resumeTask()") => Pending)]
    #[keeps(agent_id)]
    Failed {
        /// The try that failed.
        #[carry]
        attempt: SpentAttempt,
        /// Error.
        error: String,
    },

    /// Somebody called it off; it can be taken up again.
    #[to(delete("deleteTask()") => Deleted, resume("resumeTask()") => Pending)]
    Cancelled {
        /// The try that was called off.
        #[carry]
        attempt: SpentAttempt,
        /// The agent that worked on it, if one did.
        #[carry]
        agent_id: Option<AgentId>,
        /// Whether it had been started.
        #[origin]
        cancelled_during: TaskPhase,
    },

    /// The task and its files are gone. No registry keeps such a record; it is what `delete` leaves in the caller's hand.
    #[terminal]
    Deleted {
        /// How the task had ended.
        #[origin]
        deleted_from: TaskPhase,
    },
}
