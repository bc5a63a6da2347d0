//! The first record of a codon: it starts, with the checkpoint of the files before it.

use hankweave_core::codon::{Codon, Preparing};
use hankweave_core::event::StateEvent;
use hankweave_core::wire::Event;

use super::context::{CodonRun, StageResult};

/// Records that the codon starts, and waits until the record is durable: nothing may happen for a codon without a
/// record.
pub(super) async fn open(codon: &CodonRun<'_>) -> StageResult<Codon<Preparing>> {
    let (entry, start_checkpoint) = (codon.entry, codon.start_checkpoint().await);
    let started = StateEvent::CodonStarted {
        run_id: codon.run.run_id.clone(),
        codon_id: entry.codon_id.clone(),
        loop_context: entry.loop_context.clone(),
        chosen_agent: codon.chosen.clone(),
        start_checkpoint,
    };
    let recorded = codon.run.transition(started).await.await?;
    if let Some(chosen) = codon.chosen.clone().filter(|_| codon.falls_back) {
        let fallback = Event::CodonFallback {
            codon_id: entry.codon_id.clone(),
            chosen,
            same_session: codon.in_own_session,
        };
        codon.run.publish(fallback).await;
    }
    Ok(Codon::new(
        entry.codon_id.clone(),
        recorded.at,
        entry.loop_context.clone(),
    ))
}
