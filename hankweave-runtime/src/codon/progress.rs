//! Reports the progress of a long write of the checkpoint store to clients (CLI-36).

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::CodonId;
use hankweave_core::wire::{Event, ProgressKind};

use crate::checkpoint::{CheckpointStore, Counts};
use crate::state_manager::StateManager;

/// Duration of a write before its progress is first reported, and interval between reports.
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits for `work`, a write of `store`, and meanwhile reports the number of files that are done. `codon` is the codon of the write, if it is on record.
pub(crate) async fn await_with_progress<T>(
    manager: &StateManager,
    store: &Arc<dyn CheckpointStore>,
    (kind, codon): (ProgressKind, Option<&CodonId>),
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let mut reported = None;
    loop {
        match next(|| store.progress(), work.as_mut(), &mut reported).await {
            Wakeup::Done(done) => return done,
            // A receipt that is lost is harmless: nothing depends on it.
            Wakeup::Counts(counts) => drop(manager.record(event(kind, codon, counts)).await),
        }
    }
}

/// Why a wait ended.
enum Wakeup<T> {
    /// The work is done, with this result.
    Done(T),
    /// These counts are to be reported.
    Counts(Counts),
}

/// Waits for `work`, or until `progress` differs from the last counts that were `reported`.
async fn next<T>(
    progress: impl Fn() -> Option<Counts>,
    mut work: Pin<&mut impl Future<Output = T>>,
    reported: &mut Option<Counts>,
) -> Wakeup<T> {
    loop {
        // The work is only borrowed, so it continues after the sleep.
        tokio::select! {
            biased;
            done = &mut work => return Wakeup::Done(done),
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let before = std::mem::replace(reported, progress());
        if let Some(counts) = reported.filter(|counts| before != Some(*counts)) {
            return Wakeup::Counts(counts);
        }
    }
}

fn event(kind: ProgressKind, codon: Option<&CodonId>, counts: Counts) -> Event {
    let number = |count: usize| u64::try_from(count).ok();
    Event::Progress {
        codon_id: codon.cloned(),
        kind,
        subject: None,
        done: number(counts.done),
        total: number(counts.total),
        ends_at: None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// Returns the reported numbers of files until `work` is done.
    async fn told(progress: impl Fn() -> Option<Counts>, work: impl Future<Output = ()>) -> Vec<usize> {
        let mut work = pin!(work);
        let (mut counted, mut told) = (Vec::new(), None);
        while let Wakeup::Counts(counts) = next(&progress, work.as_mut(), &mut told).await {
            counted.push(counts.done);
        }
        counted
    }

    // covers: CLI-36
    #[tokio::test(start_paused = true)]
    async fn a_long_write_is_told_and_a_short_one_is_not() {
        let begun = Instant::now();
        // A file each 300 ms, of which there are 4; then nothing is counted any more.
        let progress = || {
            let done = usize::try_from(begun.elapsed().as_millis() / 300).ok()?;
            (done < 4).then_some(Counts { done, total: 4 })
        };
        assert_eq!(
            told(progress, tokio::time::sleep(Duration::from_millis(1_900))).await,
            [1, 3]
        );
        let still = || Some(Counts { done: 1, total: 9 });
        assert!(told(still, async {}).await.is_empty(), "it was over before");
        assert_eq!(
            told(still, tokio::time::sleep(INTERVAL * 5)).await,
            [1],
            "nothing has changed"
        );
    }
}
