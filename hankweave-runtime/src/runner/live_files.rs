//! The checkpointed files of a live run, for clients that ask the server for the list.

use std::sync::Arc;

use hankweave_core::document::HankweaveState;
use hankweave_core::plan::DeclaredPatterns;
use hankweave_core::wire::FileNode;

use crate::checkpoint::CheckpointStore;
use crate::codon::tree_now;
use crate::recovery::{OpenedExecution, without_own_files};
use crate::world::World;

/// Surveys the files when a client asks, and costs nothing until then.
#[derive(Debug, Clone)]
pub(crate) struct LiveFiles {
    world: World,
    checkpoints: Arc<dyn CheckpointStore>,
    /// Patterns that keep the hank's own files out of checkpoints.
    own_files: Vec<String>,
}

impl LiveFiles {
    pub(crate) fn of(opened: &OpenedExecution) -> Self {
        Self {
            world: opened.possession.world.clone(),
            checkpoints: Arc::clone(&opened.possession.checkpoints),
            own_files: opened.own_files.clone(),
        }
    }

    /// The files that the plan of `state` names.
    pub(crate) async fn tree(&self, state: &HankweaveState) -> Vec<FileNode> {
        let declared = DeclaredPatterns::of(&state.execution_plan);
        let patterns = without_own_files(declared, &self.own_files);
        tree_now(&self.world, &self.checkpoints, patterns).await
    }
}
