//! Warnings about a usable document (STATE-34).

use std::collections::HashSet;

use super::{HankweaveState, KnownCheckpoints, RunRecord, StartingConditions, StateWarning, WarningKind};
use crate::codon::{CheckpointType, CodonExecution};
use crate::cost::Usd;
use crate::id::{CheckpointSha, RunId};

/// Two sums closer than this count as equal (STATE-2).
const COST_TOLERANCE: Usd = Usd::from_micros(1);

/// Known facts about the environment of a document; a fact that is unknown gives no warnings.
#[derive(Debug, Clone, Copy, Default)]
pub struct WarningContext<'a> {
    /// The commits that exist.
    pub checkpoints: Option<&'a dyn KnownCheckpoints>,
    /// The names of the folders under `runs/`.
    pub run_folders: &'a [String],
}

/// Every warning about a document.
#[must_use]
pub fn warnings(state: &HankweaveState, context: WarningContext<'_>) -> Vec<StateWarning> {
    let mut warnings = Vec::new();
    let checkpoints = context.checkpoints;
    let removed = state.removed_checkpoints();
    // A checkpoint that a cleanup has removed is not lost. While the commits are unknown, none is known to be lost.
    let is_lost = |sha: &CheckpointSha| {
        !removed.contains(sha) && checkpoints.is_some_and(|known| known.find(sha).is_none())
    };
    let mut checkpoint = |path: String, sha: &CheckpointSha| {
        if !sha.is_blank() && is_lost(sha) {
            warnings.push(missing(path, format!("commit `{sha}` is not in the repository")));
        }
    };
    if let Some(sha) = &state.initial_checkpoint {
        checkpoint("initialCheckpoint".to_owned(), sha);
    }
    if let Some(pending) = &state.pending_rollback {
        let path = "pendingRollback.source.checkpointSha".to_owned();
        checkpoint(path, &pending.source.checkpoint_sha);
    }
    for (index, run) in state.runs.iter().enumerate() {
        run_checkpoints(run, &format!("runs[{index}]"), &mut checkpoint);
    }
    let run_ids: HashSet<&RunId> = state.runs.iter().map(|run| &run.run_id).collect();
    for (index, run) in state.runs.iter().enumerate() {
        warnings.extend(missing_source(run, &run_ids, index));
    }
    for (run_index, run) in state.runs.iter().enumerate() {
        for (index, codon) in run.codons.iter().enumerate() {
            let path = format!("runs[{run_index}].codons[{index}]");
            warnings.extend(blank_completion(codon, &path));
            warnings.extend(cost_mismatch(codon, &path));
        }
    }
    warnings.extend(orphaned_folders(state, context.run_folders));
    warnings
}

fn run_checkpoints(run: &RunRecord, path: &str, checkpoint: &mut impl FnMut(String, &CheckpointSha)) {
    let field = match &run.starting_conditions {
        StartingConditions::Fresh { .. } => "initialCheckpointSha",
        StartingConditions::Continuation { .. } => "source.checkpointSha",
    };
    if let Some(sha) = run.starting_conditions.checkpoint() {
        checkpoint(format!("{path}.startingConditions.{field}"), sha);
    }
    for (index, codon) in run.codons.iter().enumerate() {
        for (checkpoint_type, sha) in codon.checkpoints() {
            let field = match checkpoint_type {
                CheckpointType::RigSetup => "rigSetupCheckpoint",
                CheckpointType::Completed => "completionCheckpoint",
                CheckpointType::Error => "errorCheckpoint",
                CheckpointType::Skipped => "skipCheckpoint",
            };
            checkpoint(format!("{path}.codons[{index}].{field}"), sha);
        }
    }
}

/// Warns of a run that continues one which the document does not have; the history before it belongs to no thread then.
fn missing_source(run: &RunRecord, run_ids: &HashSet<&RunId>, index: usize) -> Option<StateWarning> {
    let source = run.starting_conditions.source()?;
    let lost = !run_ids.contains(&source.run_id);
    lost.then(|| StateWarning {
        kind: WarningKind::MissingRun,
        path: format!("runs[{index}].startingConditions.source.runId"),
        message: format!(
            "run `{}`, which this run continues, is not in the document",
            source.run_id
        ),
    })
}

/// Warns of a completed codon without a checkpoint: the older system wrote a blank SHA when git failed (STATE-35).
fn blank_completion(codon: &CodonExecution, path: &str) -> Option<StateWarning> {
    let (checkpoint_type, sha) = codon.end_checkpoint()?;
    let blank = checkpoint_type == CheckpointType::Completed && sha.is_blank();
    blank.then(|| {
        missing(
            format!("{path}.completionCheckpoint"),
            "the codon completed without a checkpoint".to_owned(),
        )
    })
}

fn cost_mismatch(codon: &CodonExecution, path: &str) -> Option<StateWarning> {
    let recorded = codon.sentinel_cost();
    let sum: Usd = codon.sentinels().iter().map(|sentinel| sentinel.total_cost).sum();
    let difference = recorded.saturating_sub(sum).max(sum.saturating_sub(recorded));
    (difference > COST_TOLERANCE).then(|| StateWarning {
        kind: WarningKind::CostMismatch,
        path: format!("{path}.sentinels.totalCost"),
        message: format!(
            "is {}, and the sentinels add up to {}",
            recorded.as_dollars(),
            sum.as_dollars()
        ),
    })
}

fn orphaned_folders(state: &HankweaveState, folders: &[String]) -> Vec<StateWarning> {
    let known: HashSet<&str> = state.runs.iter().map(|run| run.run_id.as_str()).collect();
    let orphaned = folders.iter().filter(|folder| !known.contains(folder.as_str()));
    orphaned
        .map(|folder| StateWarning {
            kind: WarningKind::OrphanedFolder,
            path: format!("runs/{folder}"),
            message: "no run in the document has this folder".to_owned(),
        })
        .collect()
}

fn missing(path: String, message: String) -> StateWarning {
    StateWarning {
        kind: WarningKind::MissingCheckpoint,
        path,
        message,
    }
}
