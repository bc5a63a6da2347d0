//! The first record of a codon.

use hankweave_core::codon::{Codon, Preparing};
use hankweave_core::event::StateEvent;

use super::context::{CodonRun, StageResult};

/// Records that the codon begins, and waits until that is durable: nothing may happen for a codon without a
/// record.
pub(super) async fn open(codon: &CodonRun<'_>) -> StageResult<Codon<Preparing>> {
    let entry = codon.entry;
    let started = StateEvent::CodonStarted {
        run_id: codon.run.run_id.clone(),
        codon_id: entry.codon_id.clone(),
        loop_context: entry.loop_context.clone(),
    };
    let recorded = codon.run.transition(started).await.await?;
    Ok(Codon::new(
        entry.codon_id.clone(),
        recorded.at,
        entry.loop_context.clone(),
    ))
}
