//! The list of steps that a rehearsal has left out, for the outcome of the run. `rehearsal` adds to it.

use std::sync::{Mutex, PoisonError};

use hankweave_core::hank::RehearsedKind;
use hankweave_core::id::CodonId;

/// Step of a real run that a rehearsal has left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RehearsedStep {
    /// Codon of the step.
    pub codon: CodonId,
    /// Kind of step.
    pub kind: RehearsedKind,
    /// Step in words, such as a question, a command or the number of iterations.
    pub text: String,
}

/// Steps that a rehearsal has left out so far, in order.
#[derive(Debug, Default)]
pub(crate) struct RehearsedSteps(Mutex<Vec<RehearsedStep>>);

impl RehearsedSteps {
    /// Adds a step if it is new, and returns whether it was.
    pub(super) fn add(&self, codon: &CodonId, kind: RehearsedKind, text: &str) -> bool {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let step = RehearsedStep {
            codon: codon.clone(),
            kind,
            text: text.to_owned(),
        };
        // The steps of one codon are adjacent, so the search ends at another codon.
        let is_new = !steps
            .iter()
            .rev()
            .take_while(|known| known.codon == *codon)
            .any(|known| *known == step);
        if is_new {
            steps.push(step);
        }
        is_new
    }

    /// Takes all steps out.
    pub(crate) fn take(&self) -> Vec<RehearsedStep> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
