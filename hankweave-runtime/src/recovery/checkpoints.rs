//! Checkpoints at a start: it finds out which exist and removes old safety checkpoints (G10). A
//! restore that was interrupted is finished by the next run.

use std::collections::BTreeSet;
use std::sync::Arc;

use hankweave_core::document::HankweaveState;
use hankweave_core::id::CheckpointSha;

use super::OpenExecutionError;
use crate::checkpoint::{CheckpointStore, CheckpointsBySha};
use crate::world::World;

/// Result of the start's check of the checkpoints.
pub(super) struct VerifiedCheckpoints {
    /// The checkpoints that the document names and that can be restored.
    pub(super) restorable: CheckpointsBySha,
    /// Notices for people.
    pub(super) notices: Vec<String>,
}

/// Puts the checkpoints in order.
pub(super) async fn put_in_order(
    world: &World,
    store: &Arc<dyn CheckpointStore>,
    state: &HankweaveState,
) -> Result<VerifiedCheckpoints, OpenExecutionError> {
    let (recorded, store) = (recorded_checkpoints(state), Arc::clone(store));
    let work = move || {
        let restorable = store.restorable(&recorded)?;
        store.prune(&recorded)?;
        let missing = recorded.iter().filter(|sha| !restorable.contains_key(*sha));
        let told = |sha| format!("checkpoint {sha} is damaged or gone; there is no way back to it");
        let notices = missing.map(told).collect();
        Ok(VerifiedCheckpoints { restorable, notices })
    };
    world
        .blocking
        .run(work)
        .await
        .map_err(OpenExecutionError::History)
}

/// Returns every checkpoint that the document names, in the order of their SHAs. A blank SHA is no checkpoint: the older
/// system wrote it when git failed.
#[must_use]
pub fn recorded_checkpoints(state: &HankweaveState) -> Vec<CheckpointSha> {
    let all: BTreeSet<_> = state.checkpoints().collect();
    all.into_iter().cloned().collect()
}
