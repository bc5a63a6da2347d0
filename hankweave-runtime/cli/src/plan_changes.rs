//! How hank.json has changed since the plan of a run was made, as commands tell it that only look (STATE-45).

use std::fmt::{self, Write as _};
use std::sync::Arc;

use hankweave_core::document::HankweaveState;
use hankweave_core::hank::Hank;
use hankweave_core::plan::{HankChanges, Standing, Wish, hank_changes, replan, resume};
use hankweave_core::thread::{self, Recovery};
use hankweave_runtime::inspect::recorded_checkpoints;
use serde::Serialize;

use crate::screen::Text;

#[derive(Debug, Default, Serialize)]
pub(crate) struct PlanChanges {
    /// Why the plan cannot be done any more.
    pub(crate) misfits: Vec<String>,
    /// What does not count, or what does in a plan made anew.
    pub(crate) notices: Vec<String>,
    /// What a run would run next.
    #[serde(skip)]
    pub(crate) next: Option<String>,
    /// A plan made anew is another one.
    #[serde(skip)]
    pub(crate) can_be_taken_over: bool,
}

impl PlanChanges {
    /// Compares the hank with the recorded plan, as a run goes on with `recovery`. Where every recorded checkpoint is taken for one that is there, nothing but the
    /// document is read.
    pub(crate) fn of(state: &HankweaveState, hank: &Hank, recovery: Option<Recovery>) -> Self {
        match state.runs.is_empty() {
            true => Self::default(),
            false => Self::told(&compare(state, hank, recovery, false), HankChanges::notices),
        }
    }

    /// The same for a plan made anew, which is laid into `state`.
    pub(crate) fn anew(state: &mut HankweaveState, hank: &Hank, recovery: Option<Recovery>) -> Self {
        if state.runs.is_empty() {
            return Self::default();
        }
        let (thread, standing) = standing(state, hank, recovery);
        match replan(state, &thread, hank, &standing) {
            Ok(plan) => state.execution_plan = Arc::new(plan),
            Err(error) => {
                return Self {
                    misfits: vec![error.to_string()],
                    ..Self::default()
                };
            }
        }
        let changes = hank_changes(state, &thread, hank, &standing, true);
        Self::told(&changes, |changes| vec![changes.of_new_plan()])
    }

    fn told(changes: &HankChanges, notices: impl Fn(&HankChanges) -> Vec<String>) -> Self {
        Self {
            misfits: changes.misfits.iter().map(ToString::to_string).collect(),
            notices: match changes.misfits.is_empty() {
                true => notices(changes),
                false => Vec::new(),
            },
            next: changes.next.first().map(ToString::to_string),
            can_be_taken_over: changes.can_be_taken_over(),
        }
    }

    pub(crate) fn write(&self, text: &mut Text) -> fmt::Result {
        for misfit in &self.misfits {
            writeln!(text, "error: {misfit}")?;
        }
        if !self.misfits.is_empty() && self.can_be_taken_over {
            writeln!(
                text,
                "  hint: undo the change, or go on as hank.json is now with --replan"
            )?;
        }
        self.notices
            .iter()
            .try_for_each(|notice| writeln!(text, "note: {notice}"))
    }
}

fn compare(state: &HankweaveState, hank: &Hank, recovery: Option<Recovery>, is_new: bool) -> HankChanges {
    let (thread, standing) = standing(state, hank, recovery);
    hank_changes(state, &thread, hank, &standing, is_new)
}

fn standing(
    state: &HankweaveState,
    hank: &Hank,
    recovery: Option<Recovery>,
) -> (thread::ExecutionThread, Standing) {
    let known: std::collections::HashSet<_> = recorded_checkpoints(state).into_iter().collect();
    let thread = thread::build(state, None, Some(&known));
    let wish = Wish {
        recovery,
        again: false,
    };
    let standing = Standing::of(state, &thread, &resume(state, &thread, hank, wish, &known));
    (thread, standing)
}
