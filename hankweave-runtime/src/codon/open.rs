//! The first record of a codon.

use hankweave_core::codon::{Codon, Preparing};
use hankweave_core::event::StateEvent;
use hankweave_core::wire::Event;

use super::context::{CodonRun, StageResult};

/// Records that the codon begins, and waits until that is durable: nothing may happen for a codon without a
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
        let told = Event::CodonFallback {
            codon_id: entry.codon_id.clone(),
            chosen,
            same_session: codon.in_own_session,
        };
        codon.run.publish(told).await;
    }
    Ok(Codon::new(
        entry.codon_id.clone(),
        recorded.at,
        entry.loop_context.clone(),
    ))
}
