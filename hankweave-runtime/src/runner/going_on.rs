//! Whether a hank fits the plan of the run that goes on (STATE-45).

use std::sync::Arc;

use hankweave_core::document::{HankweaveState, PlanEntry};
use hankweave_core::event::StateEvent;
use hankweave_core::hank::Hank;
use hankweave_core::plan::{ExpandError, HankChanges, Standing, Wish, hank_changes, replan, resume};
use hankweave_core::thread::{self, ExecutionThread, Resume};

use super::rollback::restorable;
use crate::recovery::{OpenError, Opened};

/// Makes the plan anew where that is wanted, and notes what to tell about a hank that has changed.
///
/// # Errors
///
/// [`OpenError::ChangedHank`] when the rest of the plan cannot be done with the hank; nothing was written then.
pub(crate) async fn go_on(opened: &mut Opened) -> Result<(), OpenError> {
    let Some(mut ahead) = Ahead::of(opened).await? else {
        return Ok(());
    };
    if !opened.options.replan {
        let changes = ahead.changes(opened, false);
        check(opened, &changes)?;
        opened.possession.notices.extend(changes.notices());
        return Ok(());
    }
    let anew = replan(&ahead.state, &ahead.thread, &opened.hank, &ahead.standing);
    let execution_plan = anew.map_err(|error| refused(opened, vec![error]))?;
    ahead.take(execution_plan.clone(), &opened.hank);
    let changes = ahead.changes(opened, true);
    check(opened, &changes)?;
    let manager = &opened.possession.manager;
    let recorded = manager
        .transition(StateEvent::PlanReplaced { execution_plan })
        .await;
    recorded.await.map_err(OpenError::Plan)?;
    opened.possession.notices.push(changes.of_new_plan());
    Ok(())
}

/// Where a run that goes on stands.
struct Ahead {
    state: HankweaveState,
    thread: ExecutionThread,
    resume: Resume,
    standing: Standing,
}

impl Ahead {
    /// `None` when a run begins at the first codon with a plan of its own.
    async fn of(opened: &Opened) -> Result<Option<Self>, OpenError> {
        let state = HankweaveState::clone(&opened.possession.manager.snapshot());
        if opened.options.fresh || state.runs.is_empty() {
            return Ok(None);
        }
        let known = restorable(&opened.possession).await;
        let known = known.map_err(OpenError::History)?;
        let thread = thread::build(&state, None, Some(&known));
        let wish = Wish {
            recovery: opened.options.recovery,
            again: false,
        };
        let resume = resume(&state, &thread, &opened.hank, wish, &known);
        if resume == Resume::Fresh {
            return Ok(None);
        }
        let standing = Standing::of(&state, &thread, &opened.hank, &resume);
        Ok(Some(Self {
            state,
            thread,
            resume,
            standing,
        }))
    }

    /// Goes on with another plan from the same place.
    fn take(&mut self, plan: Vec<PlanEntry>, hank: &Hank) {
        self.state.execution_plan = Arc::new(plan);
        self.standing = Standing::of(&self.state, &self.thread, hank, &self.resume);
    }

    fn changes(&self, opened: &Opened, is_new: bool) -> HankChanges {
        hank_changes(&self.state, &self.thread, &opened.hank, &self.standing, is_new)
    }
}

fn check(opened: &Opened, changes: &HankChanges) -> Result<(), OpenError> {
    match changes.misfits.is_empty() {
        true => Ok(()),
        false => Err(refused(opened, changes.misfits.clone())),
    }
}

fn refused(opened: &Opened, why: Vec<ExpandError>) -> OpenError {
    OpenError::ChangedHank {
        why,
        replanned: opened.options.replan,
    }
}

/// What hank.json says by now beside the recorded plan.
pub(crate) async fn changes(opened: &Opened) -> Result<HankChanges, OpenError> {
    let ahead = Ahead::of(opened).await?;
    Ok(ahead.map_or_else(HankChanges::default, |ahead| ahead.changes(opened, false)))
}
