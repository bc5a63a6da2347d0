//! Fields that several states have, found whatever the state is.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{BudgetExceeded, CheckpointType, CodonExecution, Fail};
use crate::agent::{FailureReason, InterruptedBy};
use crate::id::{CheckpointSha, SessionId};
use crate::machine::Extra;
use crate::time::Timestamp;

/// The key under which a record keeps that its agent ran out of context.
const CONTEXT_EXCEEDED: &str = "contextExceeded";

/// The key under which a record keeps which limit of its budget it reached (STATE-10).
const BUDGET_EXCEEDED: &str = "budgetExceeded";

/// The key under which a record keeps that its codon cost more than is known.
const COST_IS_LOWER_BOUND: &str = "costIsLowerBound";

/// The key under which an ended record keeps how long the codon took, in milliseconds of a clock that nobody sets.
const DURATION: &str = "durationMs";

/// The key under which an ended record keeps how long its run had lived by then, measured in the same way.
const RUN_TIME: &str = "runTimeMs";

impl Fail {
    /// The end of a codon whose server is gone (STATE-26).
    #[must_use]
    pub fn crashed(end_time: Timestamp) -> Self {
        Self {
            end_time,
            exit_code: -1,
            failure_reason: FailureReason::unknown(false, "Server crashed"),
            error_checkpoint: None,
        }
    }
}

impl CodonExecution {
    /// The checkpoint after rig set-up.
    #[must_use]
    pub fn rig_setup_checkpoint(&self) -> Option<&CheckpointSha> {
        match self {
            Self::Preparing(codon) => codon.rig_setup_checkpoint.as_ref(),
            Self::Starting(codon) => codon.rig_setup_checkpoint.as_ref(),
            Self::Initializing(codon) => codon.rig_setup_checkpoint.as_ref(),
            Self::Running(codon) => codon.rig_setup_checkpoint.as_ref(),
            Self::CompletingSentinels(codon) => codon.rig_setup_checkpoint.as_ref(),
            Self::Completed(codon) => codon.rig_setup_checkpoint.as_ref(),
            Self::Failed(codon) => codon.rig_setup_checkpoint.as_ref(),
            Self::Skipped(codon) => codon.rig_setup_checkpoint.as_ref(),
        }
    }

    /// The checkpoint made when the codon ended, with its type.
    #[must_use]
    pub fn end_checkpoint(&self) -> Option<(CheckpointType, &CheckpointSha)> {
        match self {
            Self::Preparing(_)
            | Self::Starting(_)
            | Self::Initializing(_)
            | Self::Running(_)
            | Self::CompletingSentinels(_) => None,
            Self::Completed(codon) => Some((CheckpointType::Completed, &codon.completion_checkpoint)),
            Self::Failed(codon) => codon
                .error_checkpoint
                .as_ref()
                .map(|sha| (CheckpointType::Error, sha)),
            Self::Skipped(codon) => codon
                .skip_checkpoint
                .as_ref()
                .map(|sha| (CheckpointType::Skipped, sha)),
        }
    }

    /// The checkpoints of the codon, that of the rig first.
    pub fn checkpoints(&self) -> impl Iterator<Item = (CheckpointType, &CheckpointSha)> {
        let rig = self
            .rig_setup_checkpoint()
            .map(|sha| (CheckpointType::RigSetup, sha));
        rig.into_iter().chain(self.end_checkpoint())
    }

    /// The agent's session, once it is known.
    #[must_use]
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::Preparing(_) | Self::Starting(_) | Self::Initializing(_) => None,
            Self::Running(codon) => Some(&codon.claude_session_id),
            Self::CompletingSentinels(codon) => Some(&codon.claude_session_id),
            Self::Completed(codon) => Some(&codon.claude_session_id),
            Self::Failed(codon) => codon.claude_session_id.as_ref(),
            Self::Skipped(codon) => codon.claude_session_id.as_ref(),
        }
    }

    /// The session that the agent was asked to resume.
    #[must_use]
    pub fn previous_session_id(&self) -> Option<&SessionId> {
        match self {
            Self::Preparing(_) | Self::Starting(_) => None,
            Self::Initializing(codon) => codon.previous_session_id.as_ref(),
            Self::Running(codon) => codon.previous_session_id.as_ref(),
            Self::CompletingSentinels(codon) => codon.previous_session_id.as_ref(),
            Self::Completed(codon) => codon.previous_session_id.as_ref(),
            Self::Failed(codon) => codon.previous_session_id.as_ref(),
            Self::Skipped(codon) => codon.previous_session_id.as_ref(),
        }
    }

    /// Whether the agent ran out of context; recorded under a name of our own, because it decides whether a loop goes on.
    #[must_use]
    pub fn context_exceeded(&self) -> bool {
        self.extra().get(CONTEXT_EXCEEDED) == Some(&Value::Bool(true))
    }

    /// Notes that the agent ran out of context.
    pub(crate) fn set_context_exceeded(&mut self) {
        self.extra_mut().insert(CONTEXT_EXCEEDED, Value::Bool(true));
    }

    /// The limit of its budget that the codon reached.
    #[must_use]
    pub fn budget_exceeded(&self) -> Option<BudgetExceeded> {
        serde_json::from_value(self.extra().get(BUDGET_EXCEEDED)?.clone()).ok()
    }

    /// Notes which limit of its budget the codon reached.
    pub(crate) fn set_budget_exceeded(&mut self, exceeded: Value) {
        self.extra_mut().insert(BUDGET_EXCEEDED, exceeded);
    }

    /// Whether the codon cost more than is recorded, and nobody knows how much: its agent was cut off in an answer.
    #[must_use]
    pub fn cost_is_lower_bound(&self) -> bool {
        self.extra().get(COST_IS_LOWER_BOUND) == Some(&Value::Bool(true))
    }

    /// Notes that the codon cost more than is recorded.
    pub(crate) fn set_cost_is_lower_bound(&mut self) {
        self.extra_mut().insert(COST_IS_LOWER_BOUND, Value::Bool(true));
    }

    /// How long the codon took, once it has ended: as it was measured, or by its times where nobody did.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let end = self.end_time()?;
        let by_times = || end.since(*self.start_time());
        Some(self.millis(DURATION).unwrap_or_else(by_times))
    }

    /// How long its run had lived when the codon ended, if that was measured.
    #[must_use]
    pub fn run_time(&self) -> Option<Duration> {
        self.millis(RUN_TIME)
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        Some(Duration::from_millis(self.extra().get(name)?.as_u64()?))
    }

    /// The same with what was measured for `other`, which a typed codon does not know.
    #[must_use]
    pub fn measured_like(mut self, other: &Self) -> Self {
        for name in [DURATION, RUN_TIME] {
            if let Some(measured) = other.extra().get(name) {
                self.extra_mut().insert(name, measured.clone());
            }
        }
        self
    }

    /// Takes over what was measured, of what an event notes on the end of the codon.
    pub(crate) fn set_measured(&mut self, metadata: &Map<String, Value>) {
        for name in [DURATION, RUN_TIME] {
            if let Some(measured) = metadata.get(name).filter(|value| value.is_u64()) {
                self.extra_mut().insert(name, measured.clone());
            }
        }
    }

    /// What interrupted the codon, if something did: nothing is wrong with it, and it can go on.
    #[must_use]
    pub fn interruption(&self) -> Option<InterruptedBy> {
        match self {
            Self::Failed(failed) => failed.failure_reason.interruption(),
            Self::Preparing(_)
            | Self::Starting(_)
            | Self::Initializing(_)
            | Self::Running(_)
            | Self::CompletingSentinels(_)
            | Self::Completed(_)
            | Self::Skipped(_) => None,
        }
    }

    /// The fields that this version does not know.
    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        match self {
            Self::Preparing(codon) => &mut codon.extra,
            Self::Starting(codon) => &mut codon.extra,
            Self::Initializing(codon) => &mut codon.extra,
            Self::Running(codon) => &mut codon.extra,
            Self::CompletingSentinels(codon) => &mut codon.extra,
            Self::Completed(codon) => &mut codon.extra,
            Self::Failed(codon) => &mut codon.extra,
            Self::Skipped(codon) => &mut codon.extra,
        }
    }

    /// When the codon ended, if it has.
    #[must_use]
    pub fn end_time(&self) -> Option<Timestamp> {
        match self {
            Self::Preparing(_)
            | Self::Starting(_)
            | Self::Initializing(_)
            | Self::Running(_)
            | Self::CompletingSentinels(_) => None,
            Self::Completed(codon) => Some(codon.end_time),
            Self::Failed(codon) => Some(codon.end_time),
            Self::Skipped(codon) => Some(codon.end_time),
        }
    }
}
