//! Commands of clients to the server (WIRE-8).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::codon::CheckpointType;
use crate::id::{CodonId, RunId};
use crate::shape::{Named, Shape, leaf, leaves};
use crate::thread::CodonPoint;

/// A command with the name that its client gave it: `{id, type, data?}`.
///
/// A request that is sent twice is one request: a client that lost the answer asks again with the id unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientRequest {
    /// Chosen by the client, 1 to 256 bytes; answers name it as `commandId`.
    pub id: String,
    /// Requested command.
    #[serde(flatten)]
    pub command: Command,
}

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Named, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Command {
    /// Start this codon of the plan.
    #[serde(rename = "codon.start")]
    CodonStart {
        /// The codon.
        codon_id: CodonId,
        /// Leave out the set-up of its rig.
        #[serde(default)]
        skip_pre_commands: bool,
    },
    /// Start the codon that is next.
    #[serde(rename = "codon.next")]
    CodonNext,
    /// Approve that the codon starts which waits for an approval.
    #[serde(rename = "codon.approve")]
    CodonApprove {
        /// The codon; when absent, the one that waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon_id: Option<CodonId>,
        /// For the record; at most 1,000 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[shape(with = leaf::<Reason>)]
        reason: Option<String>,
        /// Name of the user who answers, for the record; the one of the handshake when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[shape(with = leaf::<Reason>)]
        by: Option<String>,
    },
    /// Deny that it starts; the run ends.
    #[serde(rename = "codon.deny")]
    CodonDeny {
        /// The codon; when absent, the one that waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon_id: Option<CodonId>,
        /// For the record; at most 1,000 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[shape(with = leaf::<Reason>)]
        reason: Option<String>,
        /// Name of the user who answers, for the record; the one of the handshake when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[shape(with = leaf::<Reason>)]
        by: Option<String>,
    },
    /// End the running codon as skipped.
    #[serde(rename = "codon.skip")]
    CodonSkip,
    /// Run the newest codon again.
    #[serde(rename = "codon.redo")]
    CodonRedo,
    /// Kill the agent of the running codon, which fails.
    #[serde(rename = "codon.forceStop")]
    CodonForceStop {
        /// For the record; at most 1,000 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[shape(with = leaf::<Reason>)]
        reason: Option<String>,
    },
    /// List the checkpoints.
    #[serde(rename = "checkpoint.list")]
    CheckpointList {
        /// Of this run only; of all runs when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
    },
    /// Roll back to a checkpoint.
    #[serde(rename = "rollback.toCheckpoint")]
    RollbackToCheckpoint {
        /// Its SHA, or the beginning of it.
        checkpoint_sha: ShaPrefix,
        /// Whether codons start by themselves afterwards, in a run that starts codons by itself.
        #[serde(default)]
        auto_restart: bool,
    },
    /// Roll back to a point in the life of a codon.
    #[serde(rename = "rollback.toCodon")]
    RollbackToCodon {
        /// The codon.
        codon_id: CodonId,
        /// Which of its checkpoints.
        checkpoint_type: RollbackPoint,
        /// Whether codons start by themselves afterwards, in a run that starts codons by itself.
        #[serde(default)]
        auto_restart: bool,
    },
    /// Roll back to the newest codon that completed.
    #[serde(rename = "rollback.toLastSuccess")]
    RollbackToLastSuccess {
        /// Whether codons start by themselves afterwards, in a run that starts codons by itself.
        #[serde(default)]
        auto_restart: bool,
    },
    /// Undo a rollback that was made in this run: the newest operation that is not undone.
    #[serde(rename = "rollback.undo")]
    RollbackUndo {
        /// Id of its operation, as the view names it, so that a second client does not undo another one.
        operation: String,
        /// Whether codons start by themselves afterwards, in a run that starts codons by itself.
        #[serde(default)]
        auto_restart: bool,
    },
    /// Answer with `state.snapshot`.
    #[serde(rename = "state.snapshot")]
    StateSnapshot,
    /// Answer with `view`.
    #[serde(rename = "view.get")]
    ViewGet,
    /// Answer with `diff.files`: the files that differ between two checkpoints.
    #[serde(rename = "diff.files")]
    DiffFiles {
        /// The later checkpoint: its SHA, or the beginning of it.
        to: ShaPrefix,
        /// The earlier one; when absent the newest from before the codon of `to` started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<ShaPrefix>,
    },
    /// Answer with `diff.lines`: a part of the lines of one of these files.
    #[serde(rename = "diff.lines")]
    DiffLines {
        /// The later checkpoint: its SHA, or the beginning of it.
        to: ShaPrefix,
        /// The earlier one; when absent the newest from before the codon of `to` started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<ShaPrefix>,
        /// The file, as `diff.files` names it.
        path: String,
        /// Number of lines that are left out before the first one; 0 when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
        /// Most lines of the answer; 500 when absent, and never more than 2,000 or 512 KiB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    },
    /// Answer with `report`: what the run did, for people.
    #[serde(rename = "report.get")]
    ReportGet,
    /// Answer with `plan.codon`: what a codon of the hank is to do, before it starts.
    #[serde(rename = "plan.codon")]
    PlanCodon {
        /// The codon; the id of an iteration means all of them.
        codon_id: CodonId,
    },
    /// Send the history as `history.batch` events.
    #[serde(rename = "history.sync")]
    HistorySync {
        /// Only what has a greater `seq`; everything when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_seq: Option<u64>,
    },
    /// Answer with `pong`.
    #[serde(rename = "ping")]
    Ping,
    /// Send `pong` to every client.
    #[serde(rename = "ping.broadcast")]
    PingBroadcast,
    /// Stop in order; a second one while it lasts forces.
    #[serde(rename = "server.shutdown")]
    ServerShutdown {
        /// For people; at most 1,000 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[shape(with = leaf::<Reason>)]
        reason: Option<String>,
    },
    /// Kill the agent and stop.
    #[serde(rename = "server.force_shutdown")]
    ServerForceShutdown {
        /// For people; at most 1,000 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[shape(with = leaf::<Reason>)]
        reason: Option<String>,
    },
}

impl Command {
    /// Whether a client may send the command also in read-only mode, and also while the run is being stopped (WIRE-6, WIRE-14).
    /// A command that [stops the server](Self::stops_the_server) needs more than a token for reading (WIRE-7).
    #[must_use]
    pub const fn is_always_allowed(&self) -> bool {
        match self {
            Self::CheckpointList { .. }
            | Self::StateSnapshot
            | Self::ViewGet
            | Self::DiffFiles { .. }
            | Self::DiffLines { .. }
            | Self::ReportGet
            | Self::PlanCodon { .. }
            | Self::HistorySync { .. }
            | Self::Ping
            | Self::ServerShutdown { .. }
            | Self::ServerForceShutdown { .. } => true,
            Self::CodonStart { .. }
            | Self::CodonNext
            | Self::CodonApprove { .. }
            | Self::CodonDeny { .. }
            | Self::CodonSkip
            | Self::CodonRedo
            | Self::CodonForceStop { .. }
            | Self::RollbackToCheckpoint { .. }
            | Self::RollbackToCodon { .. }
            | Self::RollbackToLastSuccess { .. }
            | Self::RollbackUndo { .. }
            | Self::PingBroadcast => false,
        }
    }

    /// Returns the reason that the client gave.
    #[must_use]
    pub const fn reason(&self) -> Option<&String> {
        match self {
            Self::CodonApprove { reason, .. }
            | Self::CodonDeny { reason, .. }
            | Self::CodonForceStop { reason }
            | Self::ServerShutdown { reason }
            | Self::ServerForceShutdown { reason } => reason.as_ref(),
            Self::CodonStart { .. }
            | Self::CodonNext
            | Self::CodonSkip
            | Self::CodonRedo
            | Self::CheckpointList { .. }
            | Self::RollbackToCheckpoint { .. }
            | Self::RollbackToCodon { .. }
            | Self::RollbackToLastSuccess { .. }
            | Self::RollbackUndo { .. }
            | Self::StateSnapshot
            | Self::ViewGet
            | Self::DiffFiles { .. }
            | Self::DiffLines { .. }
            | Self::ReportGet
            | Self::PlanCodon { .. }
            | Self::HistorySync { .. }
            | Self::Ping
            | Self::PingBroadcast => None,
        }
    }

    /// Whether the files of the execution directory are enough to answer it.
    #[must_use]
    pub const fn only_reads_files(&self) -> bool {
        matches!(
            self,
            Self::DiffFiles { .. } | Self::DiffLines { .. } | Self::ReportGet | Self::PlanCodon { .. }
        )
    }

    /// Whether it ends the run.
    #[must_use]
    pub const fn stops_the_server(&self) -> bool {
        matches!(
            self,
            Self::ServerShutdown { .. } | Self::ServerForceShutdown { .. }
        )
    }
}

/// A point in the life of a codon that one can roll back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RollbackPoint {
    /// Its first checkpoint.
    Start,
    /// Its last checkpoint.
    End,
    /// After its rig was set up.
    RigSetup,
    /// After it completed.
    Completed,
    /// After it failed.
    Error,
    /// After it was skipped.
    Skipped,
}

impl From<RollbackPoint> for CodonPoint {
    fn from(point: RollbackPoint) -> Self {
        match point {
            RollbackPoint::Start => Self::Start,
            RollbackPoint::End => Self::End,
            RollbackPoint::RigSetup => Self::At(CheckpointType::RigSetup),
            RollbackPoint::Completed => Self::At(CheckpointType::Completed),
            RollbackPoint::Error => Self::At(CheckpointType::Error),
            RollbackPoint::Skipped => Self::At(CheckpointType::Skipped),
        }
    }
}

/// The SHA of a checkpoint, or 12 or more digits that it begins with (WIRE-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ShaPrefix(String);

impl ShaPrefix {
    #[cfg(feature = "schema")]
    pub(crate) const PATTERN: &str = "^[0-9a-f]{12,64}$";

    /// Takes 12 to 64 digits from 0-9 and a-f.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let fits = (12..=64).contains(&text.len()) && text.bytes().all(is_digit);
        fits.then_some(Self(text))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ShaPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ShaPrefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message = "must be the SHA of a checkpoint, or the first 12 or more of its digits 0-9 and a-f";
        Self::new(String::deserialize(deserializer)?).ok_or_else(|| serde::de::Error::custom(message))
    }
}

/// Rule for the length of a text for people or the record; reading one checks it and keeps nothing.
pub(super) struct Reason;

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.len() {
            0..=1_000 => Ok(Self),
            _ => Err(serde::de::Error::custom("must have at most 1000 bytes")),
        }
    }
}

leaves!(ShaPrefix);
