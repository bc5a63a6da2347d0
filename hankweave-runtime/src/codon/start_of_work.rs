//! Finds the attempts of a codon that belong together, and the files with which the first of them started. `proof`, `effects` and `watch` use this
//! to count changes of earlier attempts as the codon's work.

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::document::HankweaveState;
use hankweave_core::id::CheckpointSha;
use hankweave_core::thread::{self, ThreadTip};

use super::context::CodonRun;

/// Attempts that count as one piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempts {
    /// Attempts in the session of the present attempt.
    InSession,
    /// All attempts since the codon last ended as completed or skipped.
    All,
}

/// Returns the checkpoint of the files with which the first of these attempts started; `None` where the checkpoint is not known.
pub(super) fn start_of_work(
    codon: &CodonRun<'_>,
    state: &HankweaveState,
    which: Attempts,
) -> Option<CheckpointSha> {
    let thread = thread::build(state, None, None);
    let attempts = thread
        .codons
        .iter()
        .take_while(|entry| belongs(codon, &entry.codon, which));
    let attempts = attempts.count();
    thread.files_before(state, attempts.checked_sub(1)?)
}

/// Whether the present attempt follows an attempt of the codon that neither completed nor was skipped.
pub(super) fn was_attempted(codon: &CodonRun<'_>, state: &HankweaveState) -> bool {
    let thread = ThreadTip::of(state);
    // The newest codon is the present attempt.
    let before = thread.codons().nth(1);
    let is_its = |attempt: &CodonExecution| belongs(codon, attempt, Attempts::All);
    before.is_some_and(|before| is_its(before.codon)) || last_of_run_before(state).is_some_and(is_its)
}

/// Returns the last codon of the previous run, while the newest run has only its first codon. A run that keeps the files repeats that last codon, which then
/// is not part of the thread.
fn last_of_run_before(state: &HankweaveState) -> Option<&CodonExecution> {
    let mut runs = state.runs.iter();
    let newest = runs.next()?;
    let last = runs.next()?.codons.last()?;
    (newest.codons.len() == 1).then_some(&**last)
}

/// Whether `attempt` is an attempt of the codon, and one of those that `which` names.
pub(super) fn belongs(codon: &CodonRun<'_>, attempt: &CodonExecution, which: Attempts) -> bool {
    let is_its = attempt.codon_id() == &codon.entry.codon_id;
    is_its
        && match which {
            // The present attempt has not named its session yet.
            Attempts::InSession => {
                let session = attempt.agent_session_id();
                session.is_none_or(|session| Some(session) == codon.session.as_ref())
            }
            Attempts::All => !matches!(attempt.status(), CodonStatus::Completed | CodonStatus::Skipped),
        }
}
