//! Changes of hank.json since the plan of a run was made, for `validate` and `status`, which only read the record (STATE-45).

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use hankweave_core::document::HankweaveState;
use hankweave_core::hank::Hank;
use hankweave_core::plan::{ContinuedRun, initial_plan};
use hankweave_core::thread::{Recovery, Resume};
use hankweave_runtime::inspect::recorded_checkpoints;
use serde::Serialize;

use crate::terminal::screen::SafeText;

/// Differences between hank.json and the plan, and where the next run starts with them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PlanChanges {
    /// Why the plan cannot be done any more.
    pub(crate) misfits: Vec<String>,
    /// Notices about the plan.
    pub(crate) notices: Vec<String>,
    /// First codon of the next run; `None` if no codon is left.
    #[serde(skip)]
    pub(crate) next: Option<String>,
    /// Position from which the next run continues; `None` if it starts at the first codon.
    #[serde(skip)]
    pub(crate) resume: Option<Resume>,
    /// The next run begins at the first codon of the hank, although runs are recorded.
    #[serde(skip)]
    pub(crate) is_fresh: bool,
    /// `--replan` would change the plan.
    #[serde(skip)]
    pub(crate) replan_differs: bool,
}

impl PlanChanges {
    /// Compares the hank with the recorded plan, for a next run that continues with `recovery`. Every recorded checkpoint counts as existing, so only the
    /// document is read.
    pub(crate) fn of(state: &HankweaveState, hank: &Hank, recovery: Option<Recovery>) -> Self {
        match continued_run(state, hank, recovery) {
            Some(run) => Self::from_run(&run, hank),
            None => Self::fresh(state, hank),
        }
    }

    /// Returns the changes that are left after the plan was made anew (`--replan`).
    pub(crate) fn anew(state: &HankweaveState, hank: &Hank, recovery: Option<Recovery>) -> Self {
        let Some(mut run) = continued_run(state, hank, recovery) else {
            return Self::fresh(state, hank);
        };
        match run.replan(hank) {
            Ok(()) => Self::from_run(&run, hank),
            Err(error) => Self {
                misfits: vec![error.to_string()],
                ..Self::default()
            },
        }
    }

    /// Returns the changes for a run that starts at the first codon, with a plan of its own.
    fn fresh(state: &HankweaveState, hank: &Hank) -> Self {
        let plan = initial_plan(hank);
        let first = plan.first().map(|entry| &entry.codon_id);
        Self {
            is_fresh: !state.runs.is_empty(),
            next: first.map(ToString::to_string),
            ..Self::default()
        }
    }

    /// Returns the changes for a run that continues.
    fn from_run(run: &ContinuedRun, hank: &Hank) -> Self {
        let changes = run.changes(hank);
        Self {
            resume: Some(run.resume().clone()),
            misfits: changes.misfits.iter().map(ToString::to_string).collect(),
            notices: match changes.misfits.is_empty() {
                true => changes.notices(),
                false => Vec::new(),
            },
            next: changes.next.first().map(ToString::to_string),
            is_fresh: false,
            replan_differs: changes.can_be_taken_over(),
        }
    }

    pub(crate) fn write(&self, text: &mut SafeText) -> fmt::Result {
        for misfit in &self.misfits {
            writeln!(text, "error: {misfit}")?;
        }
        if !self.misfits.is_empty() && self.replan_differs {
            writeln!(
                text,
                "  hint: undo the change, or continue as hank.json is now with --replan"
            )?;
        }
        self.notices
            .iter()
            .try_for_each(|notice| writeln!(text, "note: {notice}"))
    }
}

/// Whether the newest run is a rehearsal, which no run continues (CLI-74).
pub(crate) fn is_rehearsal(state: &HankweaveState) -> bool {
    state.runs.front().is_some_and(|run| run.is_rehearsal())
}

/// Returns the run that the next run continues; `None` if there is none, or if it is a rehearsal.
fn continued_run(state: &HankweaveState, hank: &Hank, recovery: Option<Recovery>) -> Option<ContinuedRun> {
    if is_rehearsal(state) {
        return None;
    }
    let known: HashSet<_> = recorded_checkpoints(state).into_iter().collect();
    ContinuedRun::of(state.clone(), hank, recovery, &known)
}
