//! Writing state.json in the background.
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

/// How long a change that is no transition waits at least for its snapshot. A transition only waits for its
/// pace.
const PATIENCE: Duration = Duration::from_millis(100);

/// The pause before a transition is saved, in multiples of the time of the last snapshot. So snapshots take
/// at most a tenth of the disk, however large the document and however slow the disk.
const TRANSITION_PACE: u32 = 9;

/// Pace of all other changes, which are frequent: a thirtieth of the disk's time. The log has them already.
const PACE: u32 = 29;

/// Maximum number of bytes that snapshots write in a second, averaged over time. So a late codon of a long night costs no
/// more than an early one. The file lags behind the log by as many seconds as it has MiB (D11).
const BYTES_A_SECOND: u64 = 1 << 20;

/// Possible growth of the next document, in bytes.
const GROWTH: usize = 64 << 10;

/// How much is cut off at least: large enough that cutting is rare, and small enough to be read in a fraction
/// of a second.
pub(super) const WORTH_CUTTING: u64 = 32 << 20;

/// When to write a snapshot, and how far the one in progress has come.
pub(super) struct Snapshots {
    parts: StateManagerParts,
    journal: JournalQueue,
    work: Option<BoxFuture<'static, SnapshotStep>>,
    /// When the work began.
    begun: Instant,
    due: Option<Instant>,
    /// When the last one ended, and how long it took.
    ended: Instant,
    took: Duration,
    /// How long the last document was, in bytes.
    length: usize,
    cuts: LogTrimPoints,
}

/// Next step.
pub(super) enum SnapshotStep {
    /// It is time to begin.
    Due,
    /// The text is made; its mark must become durable before it may be saved.
    Rendered(Rendered),
    /// state.json was replaced, or not.
    Saved(u64, Result<(), Arc<PersistenceError>>),
}

/// A snapshot that is not saved yet.
pub(super) struct Rendered {
    text: String,
    /// Names the text in the log.
    pub(super) mark: SnapshotMark,
    cut: u64,
}

/// Offsets in the log where the records begin that the saved documents do not contain, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogTrimPoints {
    primary: u64,
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

    /// Returns the part that neither document needs, once cutting a log of `length` bytes is worthwhile; it counts as cut off.
    ///
    /// At least as much is cut off as is copied, so that each record is copied at most once.
    pub(super) fn take_unneeded(&mut self, length: u64) -> Option<u64> {
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

    /// Notes that the document changed.
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

    /// Begins a snapshot of `state`, which contains everything up to `seq` and was reached when the log had
    /// `cut` bytes.
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

    /// Saves a snapshot whose mark is durable. The journal is synced first, so that a start needs nothing of
    /// the log that is older than state.json to complete it.
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

    /// Waits for the next step: the end of the one in progress, or the time to begin.
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
