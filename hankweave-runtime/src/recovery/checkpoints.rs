//! What a start does about checkpoints: ends an interrupted restore, finds out which checkpoints are still there, forgets old
//! safety checkpoints ("reliability and security", rules G8, G9 and G10).

use std::collections::BTreeSet;
use std::sync::Arc;

use hankweave_core::id::CheckpointSha;
use hankweave_core::state::{HankweaveState, StartingConditions};

use super::OpenError;
use crate::checkpoint::{CheckpointStore, RestoreRequest, UnfinishedRestore};
use crate::world::World;

/// Puts the checkpoints in order and says what a person should know of that. `survivors` is the number of processes of an earlier run that could not be ended.
pub(super) async fn put_in_order(
    world: &World,
    store: &Arc<dyn CheckpointStore>,
    state: &HankweaveState,
    survivors: usize,
) -> Result<Vec<String>, OpenError> {
    let recorded = recorded(state);
    let (store, now) = (Arc::clone(store), world.clock.now());
    let work = move || {
        let mut notices = Vec::new();
        if let Some(unfinished) = store.unfinished_restore().map_err(OpenError::Restore)? {
            if survivors > 0 {
                return Err(OpenError::Survivors { count: survivors });
            }
            let request = RestoreRequest {
                target: unfinished.target.clone(),
                left: unfinished.left.clone(),
                at: now,
            };
            store.restore(&request).map_err(OpenError::Restore)?;
            notices.push(describe_restore(&unfinished));
        }
        let restorable = store.restorable(&recorded).map_err(OpenError::History)?;
        let missing = recorded.iter().filter(|sha| !restorable.contains_key(*sha));
        let told = |sha| format!("checkpoint {sha} is damaged or gone; there is no way back to it");
        notices.extend(missing.map(told));
        store.prune(&recorded).map_err(OpenError::History)?;
        Ok(notices)
    };
    world.blocking.run(work).await
}

fn describe_restore(unfinished: &UnfinishedRestore) -> String {
    format!(
        "going back to checkpoint {} had been interrupted and was finished; what was there before is kept in checkpoint {}",
        unfinished.target.short(),
        unfinished.safety.short()
    )
}

/// Every checkpoint that the document names, in the order of their SHAs. A blank one is none: the older system wrote it when git failed.
pub(crate) fn recorded(state: &HankweaveState) -> Vec<CheckpointSha> {
    let runs = state.runs.iter().flat_map(|run| {
        let begun = match &run.starting_conditions {
            StartingConditions::Fresh {
                initial_checkpoint_sha,
                ..
            } => initial_checkpoint_sha.as_ref(),
            StartingConditions::Continuation { source, .. } => Some(&source.checkpoint_sha),
        };
        let codons = run
            .codons
            .iter()
            .flat_map(|codon| codon.checkpoints().map(|(_, sha)| sha));
        begun.into_iter().chain(codons)
    });
    let all: BTreeSet<_> = runs
        .chain(&state.initial_checkpoint)
        .filter(|sha| !sha.is_blank())
        .collect();
    all.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use hankweave_core::time::Timestamp;

    use super::*;
    use crate::checkpoint::{GitCheckpoints, InitialRequest, OpenRequest};

    /// A project with a restore that was cut off before it changed anything.
    fn cut_off() -> (tempfile::TempDir, Arc<dyn CheckpointStore>) {
        let folder = tempfile::tempdir().unwrap();
        let at = Timestamp::from_millis(1_736_000_000_000);
        let repository = folder.path().join(".hankweave");
        let request = OpenRequest {
            repository: repository.clone(),
            workspace: folder.path().to_owned(),
            at,
            nonce: "n".to_owned(),
        };
        let (store, _) = GitCheckpoints::open(&request).unwrap();
        let [first, second] = ["1", "2"].map(|version| {
            std::fs::write(folder.path().join("file"), version).unwrap();
            let patterns = Vec::new();
            store.initial(&InitialRequest { patterns, at }).unwrap().sha
        });
        let note = UnfinishedRestore {
            target: first,
            left: Some(second.clone()),
            safety: second,
            at,
        };
        let note = serde_json::to_vec(&note).unwrap();
        std::fs::write(repository.join("unfinished-restore.json"), note).unwrap();
        (folder, Arc::new(store))
    }

    fn text(folder: &tempfile::TempDir) -> String {
        std::fs::read_to_string(folder.path().join("file")).unwrap()
    }

    // covers: G8
    #[tokio::test]
    async fn a_restore_that_was_cut_off_is_finished_and_told() {
        let (folder, store) = cut_off();
        let world = World::real().unwrap();
        let found = put_in_order(&world, &store, &HankweaveState::default(), 0)
            .await
            .unwrap();
        assert_eq!(text(&folder), "1");
        assert!(found[0].contains("was finished"), "{found:?}");
        let again = put_in_order(&world, &store, &HankweaveState::default(), 0)
            .await
            .unwrap();
        assert!(again.is_empty(), "{again:?}");
    }

    // covers: G9
    #[tokio::test]
    async fn no_file_is_taken_back_while_a_process_of_ours_lives() {
        let (folder, store) = cut_off();
        let world = World::real().unwrap();
        let refused = put_in_order(&world, &store, &HankweaveState::default(), 1).await;
        assert!(
            matches!(refused, Err(OpenError::Survivors { count: 1 })),
            "{refused:?}"
        );
        assert_eq!(text(&folder), "2");
    }
}
