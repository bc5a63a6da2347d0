//! What a start does about checkpoints: it finds out which exist and removes old safety checkpoints (G10). A
//! restore that was interrupted is finished by the next run.

use std::collections::BTreeSet;
use std::sync::Arc;

use hankweave_core::document::HankweaveState;
use hankweave_core::id::CheckpointSha;

use super::OpenError;
use crate::checkpoint::{CheckpointStore, KnownCheckpoints};
use crate::world::World;

/// What a start found out about the checkpoints.
pub(super) struct InOrder {
    /// Those that the document names and that can be restored.
    pub(super) restorable: KnownCheckpoints,
    /// What a person should know.
    pub(super) notices: Vec<String>,
}

/// Puts the checkpoints in order.
pub(super) async fn put_in_order(
    world: &World,
    store: &Arc<dyn CheckpointStore>,
    state: &HankweaveState,
) -> Result<InOrder, OpenError> {
    let (recorded, store) = (recorded_checkpoints(state), Arc::clone(store));
    let work = move || {
        let restorable = store.restorable(&recorded)?;
        store.prune(&recorded)?;
        let missing = recorded.iter().filter(|sha| !restorable.contains_key(*sha));
        let told = |sha| format!("checkpoint {sha} is damaged or gone; there is no way back to it");
        let notices = missing.map(told).collect();
        Ok(InOrder { restorable, notices })
    };
    world.blocking.run(work).await.map_err(OpenError::History)
}

/// Every checkpoint that the document names, in the order of their SHAs. A blank one is none: the older
/// system wrote it when git failed.
#[must_use]
pub fn recorded_checkpoints(state: &HankweaveState) -> Vec<CheckpointSha> {
    let all: BTreeSet<_> = state.checkpoints().collect();
    all.into_iter().cloned().collect()
}
