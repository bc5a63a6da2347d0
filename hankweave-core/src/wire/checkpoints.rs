//! Recorded checkpoints, as the answer to `checkpoint.list` has them (WIRE-20), and files that are missing in a checkpoint.

use serde::{Deserialize, Serialize};

use super::{Code, Refused};
use crate::codon::{CheckpointType, CodonExecution, CodonStatus};
use crate::document::HankweaveState;
use crate::hank::Hank;
use crate::id::{CheckpointSha, CodonId, RunId};
use crate::time::Timestamp;

/// A recorded checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedCheckpoint {
    /// The codon that it is of.
    pub codon_id: CodonId,
    /// The name of that codon for people; its id when hank.json no longer has it.
    pub codon_name: String,
    /// When in the life of the codon it was made.
    pub checkpoint_type: CheckpointType,
    /// The commit.
    pub sha: CheckpointSha,
    /// Status of the codon.
    pub status: CodonStatus,
    /// When the codon ended; for a checkpoint of its rig, when it started.
    pub timestamp: Timestamp,
}

/// A file or folder of the workspace that belongs to a checkpoint and is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LeftOutFile {
    /// Path relative to the workspace.
    pub path: String,
    /// Why.
    pub reason: LeftOutReason,
    /// Its length in bytes; absent when that is not the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Why a file is not in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LeftOutReason {
    /// It is larger than `checkpointedFileLimitMb` allows.
    TooLarge,
    /// The system does not let us read it.
    Unreadable,
    /// It lies inside too many folders.
    TooDeep,
}

impl LeftOutReason {
    /// The word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::Unreadable => "unreadable",
            Self::TooDeep => "too-deep",
        }
    }
}

/// The checkpoints of one run, or of all runs.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointList {
    /// The run that was asked for, else the newest one.
    pub(super) run_id: RunId,
    /// Its branch.
    pub(super) current_branch: String,
    /// Newest first.
    pub(super) checkpoints: Vec<ListedCheckpoint>,
}

impl CheckpointList {
    /// The checkpoints of one run, or of all runs, newest first.
    ///
    /// # Errors
    ///
    /// [`Refused`] when there is no such run, or none at all.
    pub fn of(state: &HankweaveState, hank: Option<&Hank>, run: Option<&RunId>) -> Result<Self, Refused> {
        let newest = state.runs.front();
        let named = match run {
            Some(id) => state
                .run(id)
                .ok_or_else(|| Refused::new(Code::UnknownRun, format!("Run {id} not found")))?,
            None => newest.ok_or_else(|| Refused::new(Code::UnknownRun, "No active run"))?,
        };
        let runs = state
            .runs
            .iter()
            .filter(|found| run.is_none_or(|id| found.run_id == *id));
        let codons = runs.flat_map(|run| run.codons.iter().rev());
        Ok(Self {
            run_id: named.run_id.clone(),
            current_branch: named.git_branch.clone(),
            checkpoints: codons.flat_map(|codon| listed(codon, hank)).collect(),
        })
    }
}

/// The checkpoints of one codon, newest first.
fn listed<'c>(
    codon: &'c CodonExecution,
    hank: Option<&Hank>,
) -> impl Iterator<Item = ListedCheckpoint> + use<'c> {
    let id = codon.codon_id();
    let config = hank.and_then(|hank| hank.codon(id.configured()));
    let name = config.map_or_else(|| id.to_string(), |config| config.name.clone());
    let mut checkpoints: Vec<_> = codon.checkpoints().collect();
    checkpoints.reverse();
    checkpoints.into_iter().map(move |(checkpoint_type, sha)| {
        let end = codon
            .end_time()
            .filter(|_| checkpoint_type != CheckpointType::RigSetup);
        ListedCheckpoint {
            codon_id: id.clone(),
            codon_name: name.clone(),
            checkpoint_type,
            sha: sha.clone(),
            status: codon.status(),
            timestamp: *end.unwrap_or(codon.start_time()),
        }
    })
}
