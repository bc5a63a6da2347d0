//! Events of a rollback in progress. [`undo_codons`] also removes the copies that rigs had made.

use std::collections::BTreeSet;

use hankweave_core::document::HankweaveState;
use hankweave_core::id::CodonId;
use hankweave_core::wire::Event;

use super::super::rig_cleanup::clean_up;
use super::route::RollbackPlan;
use super::{Rollback, RollbackError};
use crate::checkpoint::{NAMED, changed_files};
use crate::recovery::LockedExecution;
use crate::rig::RigCopy;

pub(super) fn started(route: &RollbackPlan, rollback: &Rollback) -> Event {
    let (source, undone) = (&route.source, route.codons());
    Event::RollbackStarted {
        from_run: route
            .state
            .runs
            .front()
            .map_or_else(|| source.run_id.clone(), |run| run.run_id.clone()),
        from_codon: route
            .thread
            .codons
            .first()
            .map(|entry| entry.codon.codon_id().clone()),
        to_codon: source.after_codon.clone(),
        to_checkpoint: source.checkpoint_sha.clone(),
        checkpoint_type: rollback.checkpoint_type,
        codons_to_process: undone
            .iter()
            .map(|entry| entry.codon.codon_id().clone())
            .collect(),
    }
}

/// Publishes the steps of a rollback: one for each undone codon, newest first, and a last one for the files. At the step of a codon,
/// removes the copies that its rig had made. Returns the removed copies.
pub(super) async fn undo_codons(possession: &LockedExecution, route: &RollbackPlan) -> Vec<RigCopy> {
    let (undone, kept) = (route.codons(), route.kept_copies(possession));
    let total_steps = undone.len() + 1;
    let progress = |current_step, message| Event::RollbackProgress {
        current_step,
        total_steps,
        message,
    };
    let (mut removed, mut cleaned) = (Vec::new(), BTreeSet::new());
    for (index, entry) in undone.iter().enumerate() {
        let id = entry.codon.codon_id();
        possession
            .publish(progress(index + 1, format!("leaving {id}")))
            .await;
        if let Some((checkpoint_type, sha)) = entry.codon.checkpoints().last() {
            let checkpoint = Event::RollbackCodonCheckpoint {
                codon_id: id.clone(),
                codon_name: name_of(&route.state, id),
                checkpoint: sha.clone(),
                checkpoint_type: Some(checkpoint_type),
                message: "what it left can be found here".to_owned(),
            };
            possession.publish(checkpoint).await;
        }
        // Iterations and attempts of a codon share its copies, so they are removed once.
        if cleaned.insert(id.configured()) {
            removed.extend(clean_up(possession, id, name_of(&route.state, id), &kept).await);
        }
    }
    let target = route.source.checkpoint_sha.short();
    let message = format!("bringing back the files of checkpoint {target}");
    possession.publish(progress(total_steps, message)).await;
    removed
}

/// Publishes that the files of the target's codon are restored.
pub(super) async fn publish_arrival(
    possession: &LockedExecution,
    state: &HankweaveState,
    rollback: &Rollback,
) {
    let source = &rollback.source;
    let Some(codon_id) = source.after_codon.clone() else {
        return;
    };
    let arrived = Event::RollbackCodonCheckpoint {
        codon_name: name_of(state, &codon_id),
        codon_id,
        checkpoint: source.checkpoint_sha.clone(),
        checkpoint_type: rollback.checkpoint_type,
        message: "the files are back".to_owned(),
    };
    possession.publish(arrived).await;
}

/// Describes the end of a rollback, with the files that it changed.
pub(super) fn arrived(rollback: &Rollback, changed: usize) -> Event {
    let (source, files) = (&rollback.source, &rollback.files);
    let of_codon = source.after_codon.as_ref().map(|id| format!(" of {id}"));
    let target = format!(
        "{}{}",
        source.checkpoint_sha.short(),
        of_codon.unwrap_or_default()
    );
    // Copies of rigs were removed before the restore: `files`, planned before that, has them, and `changed` does not. The larger number counts.
    let message = match changed.max(files.count()) {
        0 => format!("no file had to change for checkpoint {target}"),
        count => format!(
            "rolled back to checkpoint {target} ({}: {})",
            changed_files(count),
            files.names(NAMED)
        ),
    };
    Event::Info { message }
}

pub(super) fn failed(error: &RollbackError) -> Event {
    Event::Error {
        message: format!("Rollback failed: {}", crate::error::chain(error)),
        fatal: false,
        codon: None,
        severity: Some("operation".to_owned()),
        context: None,
        code: Some("ROLLBACK_FAILED".to_owned()),
    }
}

/// The name of the codon, or its id if the plan does not have the codon any more.
fn name_of(state: &HankweaveState, id: &CodonId) -> String {
    let planned = state.planned(id);
    let name = planned.and_then(|entry| entry.codon.name());
    name.unwrap_or(id.as_str()).to_owned()
}
