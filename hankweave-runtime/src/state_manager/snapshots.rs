//! Decides when to write a snapshot of the document to state.json, and writes it in the background.
//!
//! A snapshot is rendered on a blocking thread, then the writer appends its mark to the log, then the file is
//! replaced on a blocking thread. There is one snapshot at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_core::document::{HankweaveState, render_sized};
use tokio::time::Instant;

use super::journal_writer::JournalQueue;
use super::{PersistenceError, StateManagerParts};
use crate::store::SnapshotMark;

/// Shortest time from a change that is no transition of a run or codon to its snapshot. A transition only waits for the
/// pause of [`TRANSITION_PACE`].
const PATIENCE: Duration = Duration::from_millis(100);

/// Pause before the snapshot of a transition, in multiples of the duration of the last snapshot. So snapshots take
/// at most a tenth of the disk's time, however large the document and however slow the disk.
const TRANSITION_PACE: u32 = 9;

/// Pause before the snapshot of any other change, in the same unit: these are frequent, and the log has them already. So their
/// snapshots take at most a thirtieth of the disk's time.
const PACE: u32 = 29;

/// Maximum number of bytes that snapshots write in a second, averaged over time. So a late codon of a long night costs no
/// more than an early one. A file of n MiB may lag n seconds behind the log (D11).
const BYTES_A_SECOND: u64 = 1 << 20;

/// Expected growth of the next document, in bytes: it is rendered into a buffer that has this much more than the last one.
const GROWTH: usize = 64 << 10;

/// Minimum number of bytes that are cut off the log: large enough that cutting is rare, and small enough that a log of this length is
/// read in a fraction of a second.
pub(super) const WORTH_CUTTING: u64 = 32 << 20;

/// The schedule of snapshots, and the one in progress.
pub(super) struct Snapshots {
    parts: StateManagerParts,
    journal: JournalQueue,
    /// The snapshot in progress.
    work: Option<BoxFuture<'static, SnapshotStep>>,
    /// Start of the snapshot in progress.
    begun: Instant,
    /// When the next snapshot is due; `None` if everything is saved or in progress.
    due: Option<Instant>,
    /// End of the last snapshot.
    ended: Instant,
    /// Duration of the last snapshot.
    took: Duration,
    /// Length of the last document, in bytes.
    length: usize,
    cuts: LogTrimPoints,
}

/// Outcome of one step of a snapshot, after which the writer starts the next step.
pub(super) enum SnapshotStep {
    /// A snapshot is due: the writer starts it.
    Due,
    /// The text is rendered: the writer makes its mark durable and then saves it.
    Rendered(Rendered),
    /// state.json was replaced, or not. The number is the length of the log when the snapshot was started.
    Saved(u64, Result<(), Arc<PersistenceError>>),
}

/// A snapshot that is not saved yet.
pub(super) struct Rendered {
    text: String,
    /// Identifies the text in the log.
    pub(super) mark: SnapshotMark,
    /// Length of the log when the snapshot was started.
    cut: u64,
}

/// Offsets in the log, in bytes, at which the records begin that the saved documents do not contain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogTrimPoints {
    /// The offset for state.json.
    primary: u64,
    /// The offset for the backup, which is the older document.
    backup: u64,
}

impl LogTrimPoints {
    /// A snapshot taken when the log had `cut` bytes is now state.json; the one before it became the backup
    /// if it was kept.
    pub(super) fn saved(&mut self, cut: u64, kept_current: bool) {
        if kept_current {
            self.backup = self.primary;
        }
        self.primary = cut;
    }

    /// Returns the length of the beginning that neither document needs, once cutting it off a log of `length` bytes is worthwhile. From then on it counts as
    /// cut off.
    ///
    /// Cutting copies the remaining part of the log. At least as much is cut off as is copied, so that each record is copied at most once.
    pub(super) fn take_unneeded(&mut self, length: u64) -> Option<u64> {
        // The backup is the older document, so it needs more of the log.
        let unneeded = self.backup;
        if unneeded < WORTH_CUTTING || unneeded < length - unneeded {
            return None;
        }
        self.backup = 0;
        self.primary -= unneeded;
        Some(unneeded)
    }
}

impl Snapshots {
    pub(super) fn new(parts: StateManagerParts, journal: JournalQueue, cuts: LogTrimPoints) -> Self {
        Self {
            parts,
            journal,
            work: None,
            begun: Instant::now(),
            due: None,
            ended: Instant::now(),
            took: Duration::ZERO,
            length: 0,
            cuts,
        }
    }

    /// Notes that the document changed, by a transition of a run or codon or in another way.
    pub(super) fn changed(&mut self, transition: bool) {
        let (patience, pace) = match transition {
            true => (Duration::ZERO, TRANSITION_PACE),
            false => (PATIENCE, PACE),
        };
        let pause = (self.took * pace).max(time_for(self.length));
        let due = (self.ended + pause).max(Instant::now() + patience);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Whether everything is saved.
    pub(super) fn is_idle(&self) -> bool {
        self.work.is_none() && self.due.is_none()
    }

    /// Makes a pending snapshot due at once.
    pub(super) fn hurry(&mut self) {
        self.due = self.due.map(|_| Instant::now());
    }

    /// Abandons due work and work in progress, because the disk has failed.
    pub(super) fn abandon(&mut self) {
        self.due = None;
        self.work = None;
    }

    /// Starts a snapshot of `state`, which contains all events up to `seq`. `cut` is the length of the log at this state.
    pub(super) fn start(&mut self, state: HankweaveState, seq: u64, cut: u64) {
        self.due = None;
        self.begun = Instant::now();
        let (blocking, expected) = (self.parts.blocking, self.length + GROWTH);
        self.work = Some(Box::pin(blocking.run(move || {
            let text = render_sized(&state, expected);
            let mark = SnapshotMark::of(seq, text.as_bytes());
            SnapshotStep::Rendered(Rendered { text, mark, cut })
        })));
    }

    /// Saves a snapshot whose mark is durable. The journal is synced first, so that a start can complete the journal from the part of
    /// the log after state.json alone.
    pub(super) fn save(&mut self, rendered: Rendered) {
        let (journal, files, blocking) = (
            self.journal.clone(),
            self.parts.files.clone(),
            self.parts.blocking,
        );
        let Rendered { text, cut, .. } = rendered;
        self.length = text.len();
        self.work = Some(Box::pin(async move {
            if let Err(error) = journal.sync().await {
                return SnapshotStep::Saved(cut, Err(error));
            }
            let saved = blocking.run(move || files.save(text.as_bytes(), true)).await;
            SnapshotStep::Saved(
                cut,
                saved.map_err(|error| Arc::new(PersistenceError::Files(error))),
            )
        }));
    }

    /// Waits for the end of the step in progress, or for the time at which a snapshot is due.
    ///
    /// Cancel safe: the step stays in progress.
    pub(super) async fn step(&mut self) -> SnapshotStep {
        match (&mut self.work, self.due) {
            (Some(work), _) => {
                let step = work.await;
                self.work = None;
                if matches!(step, SnapshotStep::Saved(..)) {
                    (self.ended, self.took) = (Instant::now(), self.begun.elapsed());
                }
                step
            }
            (None, Some(due)) => {
                tokio::time::sleep_until(due).await;
                SnapshotStep::Due
            }
            (None, None) => std::future::pending().await,
        }
    }

    /// Returns the parts of the log that the saved documents need.
    pub(super) fn cuts(&mut self) -> &mut LogTrimPoints {
        &mut self.cuts
    }
}

/// Returns the time in which this number of bytes may be written at [`BYTES_A_SECOND`].
fn time_for(bytes: usize) -> Duration {
    let micros = (bytes as u64).saturating_mul(1_000_000) / BYTES_A_SECOND;
    Duration::from_micros(micros)
}
