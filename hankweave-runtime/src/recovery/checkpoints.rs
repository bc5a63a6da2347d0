//! Verifies the recorded checkpoints when a directory is opened, and removes old safety checkpoints (G10). An interrupted
//! restore is not finished here but by the next run.

use std::collections::BTreeSet;
use std::sync::Arc;

use hankweave_core::document::HankweaveState;
use hankweave_core::id::CheckpointSha;

use super::OpenExecutionError;
use crate::checkpoint::{CheckpointStore, CheckpointsBySha};
use crate::world::World;

/// Result of the start's check of the checkpoints.
pub(super) struct VerifiedCheckpoints {
    /// The recorded checkpoints that can be restored.
    pub(super) restorable: CheckpointsBySha,
    /// Notices for people.
    pub(super) notices: Vec<String>,
}

/// Verifies the checkpoints, and removes old safety checkpoints.
pub(super) async fn verify(
    world: &World,
    store: &Arc<dyn CheckpointStore>,
    state: &HankweaveState,
) -> Result<VerifiedCheckpoints, OpenExecutionError> {
    let (recorded, store) = (recorded_checkpoints(state), Arc::clone(store));
    let work = move || {
        let restorable = store.restorable(&recorded)?;
        store.prune(&recorded)?;
        let missing = recorded.iter().filter(|sha| !restorable.contains_key(*sha));
        let notice = |sha| format!("checkpoint {sha} is damaged or gone; there is no way back to it");
        let notices = missing.map(notice).collect();
        Ok(VerifiedCheckpoints { restorable, notices })
    };
    world
        .blocking
        .run(work)
        .await
        .map_err(OpenExecutionError::History)
}

/// Returns every checkpoint that the state names and no cleanup has removed, in the order of their SHAs. Blank SHAs are left out: older versions wrote
/// one when git failed.
#[must_use]
pub fn recorded_checkpoints(state: &HankweaveState) -> Vec<CheckpointSha> {
    let all: BTreeSet<_> = state.checkpoints().collect();
    all.into_iter().cloned().collect()
}
