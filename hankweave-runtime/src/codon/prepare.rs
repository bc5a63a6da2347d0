//! Preparing: the rig is set up and checkpointed.

use hankweave_core::agent::FailureReason;
use hankweave_core::codon::{CheckpointType, Codon, Preparing, Start, Starting};
use hankweave_core::id::CheckpointSha;
use hankweave_core::wire;

use super::budget;
use super::context::{CodonRun, RigNeed, StageResult};
use super::set_up::run_items;
use crate::checkpoint::CheckpointError;
use crate::world::suspension::Stopwatch;

/// Sets up the rig, if the codon has one that is neither left out nor in the files already.
pub(super) async fn prepare(
    codon: &CodonRun<'_>,
    preparing: Codon<Preparing>,
) -> StageResult<Codon<Starting>> {
    let rig_result = match &codon.rig {
        _ if codon.config.rig_setup.is_empty() => Ok(None),
        RigNeed::LeftOut => Ok(None),
        RigNeed::Done(done) => Ok(Some(done.clone())),
        RigNeed::SetUp => set_up(codon).await.map(Some),
    };
    let rig_setup_checkpoint = match rig_result {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            // A rig that was interrupted or has run out of time fails as well, so these causes count first.
            return Err(match (codon.interruption(), codon.used_up(), error) {
                (Some(why), ..) => codon.end_early(preparing, -1, why).await,
                (None, Some(exceeded), _) => budget::end_before_work(codon, preparing, -1, exceeded).await,
                (None, None, SetUpError::Items(reason)) => codon.fail(preparing, -1, reason).await,
                (None, None, SetUpError::Checkpoint(error)) => {
                    codon.fail_unsaved(preparing, -1, "rig checkpoint", &error).await
                }
            });
        }
    };
    let (starting, _) = codon.step(preparing, Start { rig_setup_checkpoint }).await;
    Ok(starting)
}

/// Why a rig could not be set up.
enum SetUpError {
    /// An item failed.
    Items(FailureReason),
    /// The checkpoint after the items could not be made.
    Checkpoint(CheckpointError),
}

/// Runs the items of the rig, and makes a checkpoint of the files after them.
async fn set_up(codon: &CodonRun<'_>) -> Result<CheckpointSha, SetUpError> {
    let clock = &*codon.run.world.clock;
    let stopwatch = Stopwatch::start(clock);
    run_items(codon).await.map_err(SetUpError::Items)?;
    let made = codon.checkpoint(CheckpointType::RigSetup).await;
    let sha = made.map_err(SetUpError::Checkpoint)?;
    let count = codon.config.rig_setup.len();
    codon
        .run
        .publish(wire::Event::RigSetupCompleted {
            codon_id: codon.entry.codon_id.clone(),
            rig_type: if count == 1 { "command" } else { "commands" }.to_owned(),
            command_count: count,
            duration_ms: u64::try_from(stopwatch.elapsed(clock).as_millis()).unwrap_or(u64::MAX),
            created_checkpoint: true,
        })
        .await;
    Ok(sha)
}
