//! One run: one life of the server (STATE-6, STATE-7).

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::plan::read_optional_plan;
use super::{PlanEntry, SharedList};
use crate::agent::InterruptedBy;
use crate::codon::CodonExecution;
use crate::id::{CheckpointSha, CodonId, Pid, RunId, SessionId};
use crate::machine::Extra;
use crate::run::{self, InvalidTransition, RunLife, RunTransition};
use crate::shape::{Checker, Shape};
use crate::time::Timestamp;

pub use crate::run::RunStatus;

/// One life of the server, from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Run"))]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Its id.
    pub run_id: RunId,
    /// Absolute path of its folder; the last part is the run id. Never trusted for writing.
    pub run_folder: PathBuf,
    /// The branch of its checkpoints, `run-<run id>`.
    pub git_branch: String,
    /// Origin of the run: fresh, or a run that it continues.
    pub starting_conditions: StartingConditions,
    /// Its codons in the order in which they started; another attempt of a codon is another record with its id.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<CodonExecution>"))]
    pub codons: SharedList<Arc<CodonExecution>>,
    /// Whether it is running, and how it ended.
    pub status: RunStatus,
    /// Time of its start.
    pub start_time: Timestamp,
    /// When it ended; absent while it is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// The process that serves or served it.
    pub server_pid: Pid,
    /// Cause of the interruption, when the run ended without a failure of its own and can continue; not part of the
    /// contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_by: Option<InterruptedBy>,
    /// Cause of the end for people, unless the run completed: the reason of a stop or a pause; not part of the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Plan of the history that this fresh run started, while the plan of another history is in force; not part of the contract.
    #[serde(
        default,
        deserialize_with = "read_optional_plan",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<PlanEntry>>"))]
    pub left_plan: Option<SharedList<PlanEntry>>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl RunRecord {
    /// The codon that has not ended, if there is one; the newest, should a damaged file hold several.
    #[must_use]
    pub fn open_codon(&self) -> Option<&CodonExecution> {
        let mut codons = self.codons.iter().rev().map(Arc::as_ref);
        codons.find(|codon| !codon.is_terminal())
    }

    /// Whether the run is a rehearsal, which no run continues.
    #[must_use]
    pub const fn is_rehearsal(&self) -> bool {
        matches!(
            self.starting_conditions,
            StartingConditions::Fresh { rehearsal: true, .. }
        )
    }

    /// Returns the life of the run as a value of the run machine.
    ///
    /// If a damaged file lacks the end of an ended run, the start counts as the end.
    #[must_use]
    pub fn life(&self) -> RunLife {
        let (run_id, start_time) = (self.run_id.clone(), self.start_time);
        let end_time = self.end_time.unwrap_or(start_time);
        match self.status {
            RunStatus::Running => RunLife::Running(run::Running { run_id, start_time }),
            RunStatus::Completed => RunLife::Completed(run::Completed {
                run_id,
                start_time,
                end_time,
            }),
            RunStatus::Failed => RunLife::Failed(run::Failed {
                run_id,
                start_time,
                end_time,
            }),
            RunStatus::Crashed => RunLife::Crashed(run::Crashed {
                run_id,
                start_time,
                end_time,
            }),
        }
    }

    /// Applies a step of the run machine. Every step ends the run, so a run that has ended refuses it.
    pub(crate) fn end(&mut self, transition: RunTransition) -> Result<(), InvalidTransition> {
        let ended = self.life().apply(transition)?;
        self.status = ended.status();
        self.end_time = ended.end_time().copied();
        Ok(())
    }
}

/// Origin of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum StartingConditions {
    /// From nothing.
    Fresh {
        /// The commit of the clean project.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial_checkpoint_sha: Option<CheckpointSha>,
        /// A rehearsal, which no run continues; not part of the contract.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rehearsal: bool,
        /// Names that other versions wrote; kept as they are.
        #[serde(flatten)]
        #[cfg_attr(feature = "schema", schemars(skip))]
        extra: Extra,
    },
    /// From a point of an earlier run.
    Continuation {
        /// That point.
        source: ContinuationSource,
        /// Why the earlier run is continued.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<ContinuationReason>,
        /// The session in which the codon that the source names continues; not part of the contract.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumed_session: Option<SessionId>,
        /// Names that other versions wrote; kept as they are.
        #[serde(flatten)]
        #[cfg_attr(feature = "schema", schemars(skip))]
        extra: Extra,
    },
}

impl StartingConditions {
    /// A run that starts from nothing, or from the commit of the clean project.
    #[must_use]
    pub fn fresh(initial_checkpoint_sha: Option<CheckpointSha>) -> Self {
        Self::Fresh {
            initial_checkpoint_sha,
            rehearsal: false,
            extra: Extra::default(),
        }
    }

    /// Sets whether a fresh run is a rehearsal. A run that continues another one never is, so its conditions stay.
    #[must_use]
    pub fn of_rehearsal(mut self, is_rehearsal: bool) -> Self {
        if let Self::Fresh { rehearsal, .. } = &mut self {
            *rehearsal = is_rehearsal;
        }
        self
    }

    /// A run that continues at `source`.
    #[must_use]
    pub fn continuation(source: ContinuationSource, reason: Option<ContinuationReason>) -> Self {
        Self::Continuation {
            source,
            reason,
            resumed_session: None,
            extra: Extra::default(),
        }
    }

    /// A run that continues the codon at `source`, in the session of its agent.
    #[must_use]
    pub fn in_session(source: ContinuationSource, session: SessionId) -> Self {
        Self::Continuation {
            source,
            reason: Some(ContinuationReason::Continue),
            resumed_session: Some(session),
            extra: Extra::default(),
        }
    }

    /// The session in which the codon that the source names continues.
    #[must_use]
    pub fn resumed_session(&self) -> Option<&SessionId> {
        match self {
            Self::Fresh { .. } => None,
            Self::Continuation { resumed_session, .. } => resumed_session.as_ref(),
        }
    }

    /// The point at which the run continues, unless it is a fresh one.
    #[must_use]
    pub fn source(&self) -> Option<&ContinuationSource> {
        match self {
            Self::Fresh { .. } => None,
            Self::Continuation { source, .. } => Some(source),
        }
    }

    /// Returns the commit that the run names as its start.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&CheckpointSha> {
        match self {
            Self::Fresh {
                initial_checkpoint_sha,
                ..
            } => initial_checkpoint_sha.as_ref(),
            Self::Continuation { source, .. } => Some(&source.checkpoint_sha),
        }
    }
}

/// The point of an earlier run at which another run continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContinuationSource {
    /// The earlier run.
    pub run_id: RunId,
    /// The codon after which the new run continues; `None` means the start of the earlier run.
    #[serde(deserialize_with = "codon_or_beginning")]
    #[shape(with = shape_of_codon_or_beginning)]
    pub after_codon: Option<CodonId>,
    /// The commit whose files the new run starts with; blank for "the files as they are".
    pub checkpoint_sha: CheckpointSha,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl ContinuationSource {
    /// Returns the start of the run `run_id`, with the files as they are.
    #[must_use]
    pub fn beginning_of(run_id: &RunId) -> Self {
        Self {
            run_id: run_id.clone(),
            after_codon: None,
            checkpoint_sha: CheckpointSha::new(""),
            extra: Extra::default(),
        }
    }

    /// The point after a codon of the run `run_id`, with the files of a commit.
    #[must_use]
    pub fn after(run_id: &RunId, codon: &CodonId, checkpoint_sha: CheckpointSha) -> Self {
        Self {
            after_codon: Some(codon.clone()),
            checkpoint_sha,
            ..Self::beginning_of(run_id)
        }
    }
}

/// Reads a codon id; `null` and an empty string both mean the start of the run (STATE-6).
fn codon_or_beginning<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CodonId>, D::Error> {
    match Option::<Cow<'de, str>>::deserialize(deserializer)? {
        Some(text) if !text.is_empty() => CodonId::new(text).map(Some).map_err(D::Error::custom),
        _ => Ok(None),
    }
}

fn shape_of_codon_or_beginning(checker: &mut Checker, value: &mut Value) {
    if value.as_str() != Some("") {
        CodonId::check(checker, value);
    }
}

/// Why an earlier run is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ContinuationReason {
    /// A codon is run again.
    Retry,
    /// A checkpoint was restored.
    Rollback,
    /// The earlier run continues.
    Continue,
}

crate::shape::leaves!(RunStatus);
