//! The events that change the state document (STATE-22).

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::encode_metadata;
use crate::agent::InterruptedBy;
use crate::codon::{
    BudgetExceeded, CheckpointType, ChosenAgent, CodonPhase, CodonStatus, CodonTransition, LoopCheck,
    LoopContext, LoopStall, SentinelState,
};
use crate::cost::{TokenUsage, Usd};
use crate::document::{
    Approval, Operation, PendingRollback, PlanEntry, PlanExtension, SharedList, StartingConditions,
    read_optional_plan, read_plan,
};
use crate::id::{CheckpointSha, CodonId, Pid, RunId};
use crate::run::RunTransition;
use crate::shape::{Checker, Named, Shape};
use crate::time::Timestamp;

/// A fact that changes the state document.
///
/// Thirteen kinds are documented. `ExtensionCountUpdated` comes from files of the older system and is only read.
/// `PlanReplaced` and `PlanExtended` are ours: the documented events do not report how a loop grew the plan, and a log without that could not
/// rebuild the document. `RollbackPending`, `ApprovalSet` and `OperationRecorded` are ours as well. They record where the next run continues,
/// whether a user has approved the next codon, and what was removed; all of this must survive a crash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Named, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum StateEvent {
    /// A run starts; it becomes the current run.
    RunStarted {
        /// The new run.
        run_id: RunId,
        /// Absolute path of the folder for its logs.
        run_folder: PathBuf,
        /// The branch of its checkpoints.
        git_branch: String,
        /// Fresh, or which run it continues.
        starting_conditions: StartingConditions,
        /// The process that serves the run.
        server_pid: Pid,
    },
    /// Every codon of the run is done.
    RunCompleted {
        /// The run.
        run_id: RunId,
        /// Cause of the end for people, if its process continued with another run before every codon was done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// The run stopped because something failed, or because it was interrupted.
    RunFailed {
        /// The run.
        run_id: RunId,
        /// Cause of the interruption, when nothing failed: the run can continue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupted_by: Option<InterruptedBy>,
        /// Cause of the end for people, such as the reason of a stop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// The process that served the run no longer exists.
    RunCrashed {
        /// The run.
        run_id: RunId,
        /// When the crash was noticed.
        detected_at: Timestamp,
        /// The state of the codon that was open.
        last_codon_status: LastCodonStatus,
        /// Last heartbeat that its process left, where it left one: it worked or waited until then at least.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_heartbeat: Option<Timestamp>,
    },
    /// A codon starts to prepare.
    CodonStarted {
        /// The run.
        run_id: RunId,
        /// The entry of the execution plan.
        codon_id: CodonId,
        /// Position in its loop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loop_context: Option<LoopContext>,
        /// Agent that was chosen for the attempt, where the codon has fallbacks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chosen_agent: Option<ChosenAgent>,
        /// Checkpoint of the files with which it starts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_checkpoint: Option<CheckpointSha>,
    },
    /// A codon moves to another state.
    CodonTransitioned {
        /// The run.
        run_id: RunId,
        /// The codon.
        codon_id: CodonId,
        /// The state it leaves.
        from: CodonStatus,
        /// The state it enters.
        to: CodonStatus,
        /// Metadata of that state; checked at the border.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
    },
    /// The costs so far, as absolute values.
    CostsUpdated {
        /// The run.
        run_id: RunId,
        /// The codon.
        codon_id: CodonId,
        /// In US dollars.
        cost: Usd,
        /// The tokens so far.
        tokens: TokenUsage,
    },
    /// Costs that come on top of what is known.
    CostsIncremented {
        /// The run.
        run_id: RunId,
        /// The codon.
        codon_id: CodonId,
        /// In US dollars.
        cost_delta: Usd,
        /// The additional tokens.
        tokens_delta: TokenUsage,
    },
    /// The number of messages so far.
    AssistantMessageCountUpdated {
        /// The run.
        run_id: RunId,
        /// The codon.
        codon_id: CodonId,
        /// The absolute count.
        new_count: u64,
    },
    /// The agent's own final figures; they replace the running ones.
    CodonFinalCostSet {
        /// The run.
        run_id: RunId,
        /// The codon.
        codon_id: CodonId,
        /// In US dollars.
        final_cost: Usd,
        /// All tokens of the codon.
        final_tokens: TokenUsage,
    },
    /// The sentinels of a codon, as absolute values.
    SentinelStatesUpdated {
        /// The run.
        run_id: RunId,
        /// The codon.
        codon_id: CodonId,
        /// All sentinels of the codon.
        sentinel_states: Vec<SentinelState>,
        /// Total cost of the sentinels, in US dollars.
        total_cost: Usd,
        /// Whether the codon has ended, and its sentinels have answered to that; absent while it is open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_end: Option<bool>,
    },
    /// A checkpoint exists.
    CheckpointCreated {
        /// The run.
        run_id: RunId,
        /// The codon.
        codon_id: CodonId,
        /// When in the life of the codon it was made.
        checkpoint_type: CheckpointType,
        /// The commit.
        sha: CheckpointSha,
        /// The branch that holds it.
        branch: String,
    },
    /// The first checkpoint of the project, before any codon ran.
    InitialCheckpointSet {
        /// The commit.
        sha: CheckpointSha,
    },
    /// How often an agent session was extended; only the older system writes it.
    ExtensionCountUpdated {
        /// The run.
        run_id: RunId,
        /// The codon.
        codon_id: CodonId,
        /// The absolute count.
        extension_count: u64,
    },
    /// A rollback was chosen, its files were restored, or it was given up; the next run continues from it.
    RollbackPending {
        /// The rollback; `None` when it was given up before a file had changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rollback: Option<PendingRollback>,
        /// Plan of the history to which it returns, once its files are back, if that is not the one whose plan is in force.
        #[serde(
            default,
            deserialize_with = "read_optional_plan",
            skip_serializing_if = "Option::is_none"
        )]
        #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<PlanEntry>>"))]
        execution_plan: Option<SharedList<PlanEntry>>,
    },
    /// The user answered whether a codon may start, or the answer no longer counts.
    ApprovalSet {
        /// The answer; `None` when the user will be asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<Approval>,
    },
    /// An operation starts that restores no file: a cleanup.
    OperationRecorded {
        /// The operation.
        operation: Operation,
    },
    /// The execution plan was made; older versions also wrote it whole for each iteration of a loop.
    PlanReplaced {
        /// The whole new plan.
        #[serde(deserialize_with = "read_plan")]
        #[cfg_attr(feature = "schema", schemars(with = "Vec<PlanEntry>"))]
        execution_plan: SharedList<PlanEntry>,
    },
    /// A loop continues or ends, and the plan with it.
    PlanExtended {
        /// Entries after one of its codons.
        extension: PlanExtension,
    },
}

/// The state of the codon that was open when a run crashed; the older system also writes `unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", untagged)]
pub enum LastCodonStatus {
    /// A codon was open in this state, or the newest one had ended in it.
    Known(CodonStatus),
    /// There was no codon.
    Unknown(UnknownStatus),
}

/// The word `unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnknownStatus {
    /// `unknown`
    Unknown,
}

impl Shape for LastCodonStatus {
    fn check(checker: &mut Checker, value: &mut Value) {
        if value.as_str() != Some("unknown") {
            CodonStatus::check(checker, value);
        }
    }
}

impl From<Option<CodonStatus>> for LastCodonStatus {
    fn from(status: Option<CodonStatus>) -> Self {
        status.map_or(Self::Unknown(UnknownStatus::Unknown), Self::Known)
    }
}

impl StateEvent {
    /// The event of one typed step.
    #[must_use]
    pub fn transitioned(
        run_id: RunId,
        codon_id: CodonId,
        from: CodonPhase,
        transition: &CodonTransition,
    ) -> Self {
        let metadata = encode_metadata(transition, from);
        Self::CodonTransitioned {
            run_id,
            codon_id,
            from: from.into(),
            to: transition.target(),
            metadata: (!metadata.is_empty()).then_some(metadata),
        }
    }

    /// Returns the event of a step of the run machine. `open` is the state of the codon that was open then; only the event of a crash has it.
    #[must_use]
    pub fn run_ended(run_id: RunId, transition: &RunTransition, open: Option<CodonStatus>) -> Self {
        match transition {
            RunTransition::Complete(_) => Self::RunCompleted { run_id, cause: None },
            RunTransition::Fail(_) => Self::RunFailed {
                run_id,
                interrupted_by: None,
                cause: None,
            },
            RunTransition::Crash(crash) => Self::RunCrashed {
                run_id,
                detected_at: crash.end_time,
                last_codon_status: open.into(),
                last_heartbeat: None,
            },
        }
    }

    /// Notes on a crash the last heartbeat of the process; other events stay as they are.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Option<Timestamp>) -> Self {
        if let Self::RunCrashed { last_heartbeat, .. } = &mut self {
            *last_heartbeat = heartbeat;
        }
        self
    }

    /// Notes on the end of a codon that its agent had run out of context; other events stay as they are.
    #[must_use]
    pub fn with_context_exceeded(self) -> Self {
        self.with_note("contextExceeded", Value::Bool(true))
    }

    /// Notes on the end of a codon which limit of its budget was reached; other events stay as they are.
    #[must_use]
    pub fn with_budget_exceeded(self, exceeded: BudgetExceeded) -> Self {
        match serde_json::to_value(exceeded) {
            Ok(value) => self.with_note("budgetExceeded", value),
            // Three numbers and a word always are JSON.
            Err(error) => unreachable!("{exceeded:?} is not written: {error}"),
        }
    }

    /// Adds the output of the loop's check to the end of a codon; other events stay as they are.
    #[must_use]
    pub fn with_loop_check(self, check: &LoopCheck) -> Self {
        match serde_json::to_value(check) {
            Ok(value) => self.with_note("loopCheck", value),
            // A truth value and a text always are JSON.
            Err(error) => unreachable!("{check:?} is not written: {error}"),
        }
    }

    /// Notes on the end of a codon how long its loop has repeated itself; other events stay as they are.
    #[must_use]
    pub fn with_loop_stall(self, stall: &LoopStall) -> Self {
        match serde_json::to_value(stall) {
            Ok(value) => self.with_note("loopStall", value),
            // A number and a text always are JSON.
            Err(error) => unreachable!("{stall:?} is not written: {error}"),
        }
    }

    /// Notes on the end of a codon that it cost more than is known; other events stay as they are.
    #[must_use]
    pub fn with_cost_as_lower_bound(self) -> Self {
        self.with_note("costIsLowerBound", Value::Bool(true))
    }

    /// Notes on the end of a run that it was interrupted; other events stay as they are.
    #[must_use]
    pub fn with_interruption(mut self, by: InterruptedBy) -> Self {
        if let Self::RunFailed { interrupted_by, .. } = &mut self {
            *interrupted_by = Some(by);
        }
        self
    }

    /// Notes on the end of a run its cause for people; other events stay as they are.
    #[must_use]
    pub fn with_cause(mut self, text: Option<String>) -> Self {
        if let Self::RunFailed { cause, .. } | Self::RunCompleted { cause, .. } = &mut self {
            *cause = text;
        }
        self
    }

    /// Adds further remarks for people to the end of a codon; other events stay as they are.
    #[must_use]
    pub fn with_remarks(self, remarks: &[String]) -> Self {
        match remarks.is_empty() {
            true => self,
            false => self.with_note("remarks", remarks.into()),
        }
    }

    /// Adds the duration of a codon to the event of its end, as measured by a clock that is never set. Other events stay as they are.
    #[must_use]
    pub fn with_measured(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.with_note("durationMs", Value::from(millis))
    }

    /// Notes on the end of a codon how many checkpointed files differ from its start; other events stay as they are.
    #[must_use]
    pub fn with_files_changed(self, files: u64) -> Self {
        self.with_note("filesChanged", Value::from(files))
    }

    /// Notes on the end of a codon its result; other events stay as they are.
    #[must_use]
    pub fn with_result(self, result: &Value) -> Self {
        self.with_note("result", result.clone())
    }

    /// Notes on the start of an agent the beginning of its prompt; other events stay as they are.
    #[must_use]
    pub fn with_asked(self, asked: &str) -> Self {
        match asked.is_empty() {
            true => self,
            false => self.with_note("asked", asked.into()),
        }
    }

    /// Adds a name to the metadata of a codon's transition; other events stay as they are.
    fn with_note(mut self, name: &str, value: Value) -> Self {
        if let Self::CodonTransitioned { metadata, .. } = &mut self {
            metadata.get_or_insert_default().insert(name.to_owned(), value);
        }
        self
    }

    /// Returns whether the event reports the cost of a codon.
    #[must_use]
    pub const fn tells_costs(&self) -> bool {
        matches!(
            self,
            Self::CostsUpdated { .. } | Self::CostsIncremented { .. } | Self::CodonFinalCostSet { .. }
        )
    }

    /// The run that the event is about, if it is about one.
    #[must_use]
    pub const fn run_id(&self) -> Option<&RunId> {
        match self {
            Self::RunStarted { run_id, .. }
            | Self::RunCompleted { run_id, .. }
            | Self::RunFailed { run_id, .. }
            | Self::RunCrashed { run_id, .. }
            | Self::CodonStarted { run_id, .. }
            | Self::CodonTransitioned { run_id, .. }
            | Self::CostsUpdated { run_id, .. }
            | Self::CostsIncremented { run_id, .. }
            | Self::AssistantMessageCountUpdated { run_id, .. }
            | Self::CodonFinalCostSet { run_id, .. }
            | Self::SentinelStatesUpdated { run_id, .. }
            | Self::CheckpointCreated { run_id, .. }
            | Self::ExtensionCountUpdated { run_id, .. } => Some(run_id),
            Self::InitialCheckpointSet { .. }
            | Self::RollbackPending { .. }
            | Self::ApprovalSet { .. }
            | Self::OperationRecorded { .. }
            | Self::PlanReplaced { .. }
            | Self::PlanExtended { .. } => None,
        }
    }

    /// The codon that the event is about, if it is about one.
    #[must_use]
    pub const fn codon_id(&self) -> Option<&CodonId> {
        match self {
            Self::CodonStarted { codon_id, .. }
            | Self::CodonTransitioned { codon_id, .. }
            | Self::CostsUpdated { codon_id, .. }
            | Self::CostsIncremented { codon_id, .. }
            | Self::AssistantMessageCountUpdated { codon_id, .. }
            | Self::CodonFinalCostSet { codon_id, .. }
            | Self::SentinelStatesUpdated { codon_id, .. }
            | Self::CheckpointCreated { codon_id, .. }
            | Self::ExtensionCountUpdated { codon_id, .. } => Some(codon_id),
            Self::ApprovalSet { approval } => match approval {
                Some(approval) => Some(&approval.codon_id),
                None => None,
            },
            Self::RunStarted { .. }
            | Self::RunCompleted { .. }
            | Self::RunFailed { .. }
            | Self::RunCrashed { .. }
            | Self::InitialCheckpointSet { .. }
            | Self::RollbackPending { .. }
            | Self::OperationRecorded { .. }
            | Self::PlanReplaced { .. }
            | Self::PlanExtended { .. } => None,
        }
    }
}
