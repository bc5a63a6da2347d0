//! The data that every stage of a codon gets, and how a stage ends: [`RunContext`] for all codons of a run, [`CodonRun`] for one codon.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hankweave_core::budget::{Ceiling, CodonLimits};
use hankweave_core::codon::{
    Active, ChosenAgent, Codon, CodonExecution, CodonPhase, CodonTransition, Completed, Edge, Failed, Skipped,
};
use hankweave_core::cost::UsageTotals;
use hankweave_core::document::PlanEntry;
use hankweave_core::event::StateEvent;
use hankweave_core::hank::{CodonConfig, Hank};
use hankweave_core::id::{CheckpointSha, RunId, SessionId};
use hankweave_core::wire::{self, LeftOutFile};
use serde_json::Value;

use super::orders::{Orders, Remarks};
use super::rehearsed::RehearsedSteps;
use super::surveyed::FileWatcher;
use crate::checkpoint::CheckpointStore;
use crate::driver::DriverSet;
use crate::hank_files::LoadedHank;
use crate::options::RunOptions;
use crate::paths::ExecutionDir;
use crate::presence::ClientCount;
use crate::sentinel::{Allowance, EndWatchers, Watchers};
use crate::shutdown::Shutdown;
use crate::state_manager::{PersistenceError, StateManager, Ticket, TransitionError};
use crate::world::World;
use crate::world::disk::Spare;
use crate::world::process::marker;
use crate::world::suspension::Stopwatch;

/// Context of all codons of one run.
#[derive(Debug)]
pub(crate) struct RunContext {
    pub(crate) world: World,
    pub(crate) dir: ExecutionDir,
    /// Source of prompts and rig files.
    pub(crate) loaded: LoadedHank,
    /// The hank with the options of this run applied.
    pub(crate) hank: Hank,
    pub(crate) drivers: DriverSet,
    pub(crate) manager: StateManager,
    pub(crate) checkpoints: Arc<dyn CheckpointStore>,
    pub(crate) shutdown: Shutdown,
    /// The files as they were seen last.
    pub(crate) watch: FileWatcher,
    /// The clients that may send commands.
    pub(crate) presence: ClientCount,
    pub(crate) options: RunOptions,
    /// Patterns that keep the hank's own files out of checkpoints.
    pub(crate) own_files: Vec<String>,
    pub(crate) run_id: RunId,
    /// The newest checkpoint of the run, or the one that it started from; the next one builds on it.
    pub(crate) tip: Mutex<Option<CheckpointSha>>,
    /// Files that the newest checkpoint of the run leaves out.
    pub(crate) left_out: Mutex<Vec<LeftOutFile>>,
    /// Steps that a rehearsal has left out.
    pub(crate) rehearsed: RehearsedSteps,
    /// Checkpoint of the rig (set-up of the workspace) of the first codon, if that rig is in the files already.
    pub(crate) rig: Option<CheckpointSha>,
}

impl RunContext {
    /// Returns the newest checkpoint, on which the next one builds.
    pub(crate) fn tip(&self) -> MutexGuard<'_, Option<CheckpointSha>> {
        self.tip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the total budget.
    pub(crate) fn ceiling(&self) -> Ceiling {
        self.options.ceiling.or_from_hank(&self.hank)
    }

    /// Whether a user may send a command.
    pub(crate) fn is_attended(&self) -> bool {
        self.options.attended || !self.options.autostart || !self.presence.is_empty()
    }

    /// Records and publishes an event that does not change the state.
    pub(crate) async fn publish(&self, event: wire::Event) {
        // Losing the receipt is harmless: a journal that cannot be written shows up in the next transition.
        drop(self.manager.record(event).await);
    }

    /// Updates the spare copy of the record, before an agent could remove parts of the record (P11).
    pub(crate) async fn keep_record(&self) {
        if let Some(spare) = self.spare() {
            self.world.blocking.run(move || spare.follow()).await;
        }
    }

    /// Puts back parts of the record that the codon has removed, and reports it.
    pub(crate) async fn tend_record(&self) {
        let Some(spare) = self.spare() else { return };
        let restore = move || {
            spare.restore_missing();
            spare.take_put_back()
        };
        if self.world.blocking.run(restore).await {
            let message = "`.hankweave` was removed and has been put back; nothing is lost".to_owned();
            self.publish(wire::Event::Info { message }).await;
        }
    }

    /// Returns the spare copy of the record; `None` if the disk keeps none.
    fn spare(&self) -> Option<Arc<Spare>> {
        self.world.disk.spares()?.of(&self.dir.state_dir())
    }

    pub(crate) async fn transition(&self, event: StateEvent) -> Ticket {
        self.manager.transition(event).await
    }

    /// The error with which the disk has failed; after it nothing new may start (P5).
    pub(crate) fn failure(&self) -> Option<Arc<PersistenceError>> {
        self.manager.degraded().borrow().clone()
    }

    /// Waits until the disk has failed.
    pub(crate) async fn degraded(&self) {
        let mut degraded = self.manager.degraded();
        // A manager that has stopped can no longer degrade.
        if degraded.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// One attempt of a codon: what is known about it before it starts, and what its stages share.
#[derive(Debug)]
pub(crate) struct CodonRun<'a> {
    pub(crate) run: &'a RunContext,
    pub(crate) entry: &'a PlanEntry,
    pub(crate) config: &'a CodonConfig,
    /// Session to continue with: the codon's own, that of the previous codon, or that of the codon that it forks.
    pub(crate) session: Option<SessionId>,
    /// Whether the agent continues from a copy of `session`.
    pub(crate) is_fork: bool,
    /// Whether `session` is the codon's own: the codon was interrupted and continues where it stopped.
    pub(crate) in_own_session: bool,
    /// Whether `session` is that of a skipped codon. The agent may not know it: it may have been ended before it wrote its session down.
    pub(crate) in_skipped_session: bool,
    /// Whether the codon's earlier session stayed on another machine (RUN-27) or is unknown to the agent, which therefore begins a new one.
    pub(crate) session_is_elsewhere: bool,
    /// The chosen agent, if the codon has fallbacks; `config` is the codon as that agent runs it.
    pub(crate) chosen: Option<ChosenAgent>,
    /// Whether `chosen` is a fallback that was not the agent of the attempt before.
    pub(crate) falls_back: bool,
    /// Summary of what another agent did, for the prompt.
    pub(crate) handover: Option<String>,
    /// Every pattern of `checkpointedFiles` from the first entry of the plan to this one.
    pub(crate) patterns: Vec<String>,
    pub(crate) rig: RigNeed,
    /// Limits of money, time and context that are left for this attempt.
    pub(crate) limits: CodonLimits,
    /// The codon's time at work (HANK-35).
    pub(crate) begun: Stopwatch,
    /// Orders of users and sentinels to end the codon.
    pub(crate) orders: Orders,
    /// The sentinels of the codon, as long as they work.
    pub(crate) watchers: Mutex<Option<Watchers>>,
    /// The sentinels that act on the end of the codon.
    pub(crate) end_watchers: Mutex<Option<EndWatchers>>,
    /// Whether the sentinels may still ask their models.
    pub(crate) allowance: Arc<Allowance>,
    /// Whether the agent used more than is known.
    pub(crate) cost_is_lower_bound: AtomicBool,
    /// Remarks for the last record of the codon.
    pub(crate) remarks: Remarks,
    /// The result of the codon, once an answer fits the schema.
    pub(crate) result: CurrentResult,
}

/// Result of an attempt that has not ended.
#[derive(Debug, Default)]
pub(crate) struct CurrentResult(Mutex<Option<Value>>);

impl CurrentResult {
    pub(super) fn get(&self) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn replace(&self, result: Option<Value>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = result;
    }
}

/// Treatment of a codon's rig (HANK-23).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RigNeed {
    /// The rig is to be set up and checkpointed.
    SetUp,
    /// The rig is in the files already, and in this checkpoint.
    Done(CheckpointSha),
    /// The user wants the codon without its rig.
    LeftOut,
}

impl From<Option<CheckpointSha>> for RigNeed {
    fn from(done: Option<CheckpointSha>) -> Self {
        done.map_or(Self::SetUp, Self::Done)
    }
}

/// How a codon ended.
#[derive(Debug)]
pub(crate) enum CodonEnd {
    /// Its work is in the completion checkpoint.
    Completed(Codon<Completed>),
    /// It did not succeed.
    Failed(Codon<Failed>),
    /// It failed because a checkpoint, or the folders and files of its agent, could not be written to disk.
    Unsaved(Codon<Failed>),
    /// A user or a sentinel skipped it, or a limit was reached before its agent worked.
    Skipped(Codon<Skipped>),
}

impl CodonEnd {
    /// The record that the typed codon implies.
    pub(crate) fn into_execution(self) -> CodonExecution {
        match self {
            Self::Completed(codon) => codon.into_execution(),
            Self::Failed(codon) | Self::Unsaved(codon) => codon.into_execution(),
            Self::Skipped(codon) => codon.into_execution(),
        }
    }
}

/// How a codon can end before its last stage.
#[derive(Debug)]
pub(crate) enum EarlyEnd {
    /// The codon reached a terminal state.
    Codon(CodonEnd),
    /// A step could not be recorded.
    Unrecorded(TransitionError),
}

impl From<TransitionError> for EarlyEnd {
    fn from(error: TransitionError) -> Self {
        Self::Unrecorded(error)
    }
}

pub(crate) type StageResult<T> = Result<T, EarlyEnd>;

impl CodonRun<'_> {
    /// Returns the codon's time at work so far, without the time for which the run was suspended (HANK-35).
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed(&*self.run.world.clock)
    }

    /// Whether a full context completes the codon, instead of failing it.
    pub(super) fn completes_at_full_context(&self) -> bool {
        self.entry.may_exceed_context(&self.run.hank) || self.config.exhaust_with_prompt.is_some()
    }

    /// Takes one step of the machine and sends its event.
    ///
    /// Does not wait until the event is durable; at the end of the codon the ticket is awaited for that.
    pub(crate) async fn step<S, E>(&self, codon: Codon<S>, edge: E) -> (Codon<E::To>, Ticket)
    where
        S: Active,
        E: Edge<S>,
    {
        self.step_noting(codon, edge, |event| event).await
    }

    /// Like [`step`](Self::step); `note` adds to the event what the state does not hold.
    pub(crate) async fn step_noting<S, E>(
        &self,
        codon: Codon<S>,
        edge: E,
        note: impl FnOnce(StateEvent) -> StateEvent,
    ) -> (Codon<E::To>, Ticket)
    where
        S: Active,
        E: Edge<S>,
    {
        let (codon, transition) = codon.step(edge).into_parts();
        let event = note(self.event(S::PHASE, &transition));
        (codon, self.run.transition(event).await)
    }

    /// Returns the event of a step that leaves the state `from`.
    pub(crate) fn event(&self, from: CodonPhase, transition: &CodonTransition) -> StateEvent {
        let (run, codon) = (self.run.run_id.clone(), self.entry.codon_id.clone());
        let event = StateEvent::transitioned(run, codon, from, transition);
        match self.cost_is_lower_bound.load(Ordering::Relaxed) && transition.target().is_terminal() {
            true => event.with_cost_as_lower_bound(),
            false => event,
        }
    }

    /// Marks the cost as a lower bound if the agent used anything before it named its session: no state before `Running` holds usage.
    pub(super) fn note_usage_before_session(&self, usage: &UsageTotals) {
        self.cost_is_lower_bound
            .fetch_or(!usage.is_nothing(), Ordering::Relaxed);
    }

    /// Returns `Some(true)` if the agent cost more than is known, else `None`, as events have it.
    pub(super) fn published_lower_bound(&self) -> Option<bool> {
        let is_lower_bound = self.cost_is_lower_bound.load(Ordering::Relaxed);
        is_lower_bound.then_some(true)
    }

    /// Returns the marker in the environment of the codon's processes, by which they are found.
    pub(crate) fn marker(&self) -> String {
        let run = self.run;
        marker(
            &*run.world.disk,
            run.dir.root(),
            &run.run_id,
            &self.entry.codon_id,
        )
    }
}
