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

pub(super) async fn prepare(
    codon: &CodonRun<'_>,
    preparing: Codon<Preparing>,
) -> StageResult<Codon<Starting>> {
    let set_up_rig = async {
        match &codon.rig {
            _ if codon.config.rig_setup.is_empty() => Ok(None),
            RigNeed::LeftOut => Ok(None),
            RigNeed::Done(done) => Ok(Some(done.clone())),
            RigNeed::SetUp => set_up(codon).await.map(Some),
        }
    };
    let rig_setup_checkpoint = match set_up_rig.await {
        Ok(checkpoint) => checkpoint,
        Err(trouble) => {
            return Err(match (codon.interruption(), codon.used_up(), trouble) {
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
    Items(FailureReason),
    Checkpoint(CheckpointError),
}

/// Runs the items and checkpoints what they made.
async fn set_up(codon: &CodonRun<'_>) -> Result<CheckpointSha, SetUpError> {
    let clock = &*codon.run.world.clock;
    let begin = Stopwatch::start(clock);
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
            duration_ms: u64::try_from(begin.elapsed(clock).as_millis()).unwrap_or(u64::MAX),
            created_checkpoint: true,
        })
        .await;
    Ok(sha)
}
