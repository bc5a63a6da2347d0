//! The last step of a codon: its checkpoint, its record with notes, and the event that reports its end (RUN-11).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::mem;
use std::sync::PoisonError;
use std::time::Duration;

use hankweave_core::agent::{ExitOutcome, FailureReason, InterruptedBy};
use hankweave_core::codon::Active as _;
use hankweave_core::codon::{
    BudgetExceeded, CheckpointType, Codon, Complete, Completed, Edge, Executed, Fail, Failed, LoopCheck,
    LoopStall, Preparing, SentinelState, Sentinels, Skip, Skipped,
};
use hankweave_core::cost::Usd;
use hankweave_core::event::StateEvent;
use hankweave_core::hank::OnFailure;
use hankweave_core::id::CheckpointSha;
use hankweave_core::wire::{Event, ExitStatus, ProgressKind};
use serde_json::Value;

use super::context::{CodonEnd, CodonRun, EarlyEnd, StageResult};
use super::interruption::Interruption;
use super::orders::CodonCommand;
use super::progress::await_with_progress;
use super::watchers::HasSentinels;
use crate::checkpoint::{Checkpoint, CheckpointError, CheckpointRequest, SkipReason, incomplete};
use crate::shutdown::StopCause;
use crate::state_manager::TransitionError;
use crate::world::secrets::Secrets;

/// Notes that the last record of a codon has besides the codon's state.
#[derive(Debug, Clone, Default)]
pub(super) struct EndDetails {
    /// Whether a full context completed the codon.
    pub(super) context_exceeded: bool,
    pub(super) budget_exceeded: Option<BudgetExceeded>,
    pub(super) loop_check: Option<LoopCheck>,
    pub(super) loop_stall: Option<LoopStall>,
    pub(super) result: Option<Value>,
}

impl EndDetails {
    pub(super) fn of_budget(exceeded: BudgetExceeded) -> Self {
        Self::default().with_budget(exceeded)
    }

    pub(super) fn with_budget(self, exceeded: BudgetExceeded) -> Self {
        Self {
            budget_exceeded: Some(exceeded),
            ..self
        }
    }

    fn add_to(&self, mut event: StateEvent, took: Duration) -> StateEvent {
        event = event.with_measured(took);
        if self.context_exceeded {
            event = event.with_context_exceeded();
        }
        if let Some(exceeded) = self.budget_exceeded {
            event = event.with_budget_exceeded(exceeded);
        }
        if let Some(check) = &self.loop_check {
            event = event.with_loop_check(check);
        }
        if let Some(stall) = &self.loop_stall {
            event = event.with_loop_stall(stall);
        }
        if let Some(result) = &self.result {
            event = event.with_result(result);
        }
        event
    }
}

/// Cost of a codon.
#[derive(Debug, Clone, Copy)]
struct Costs {
    agent: Usd,
    sentinels: Usd,
    /// Whether the sentinels cost more than is known.
    sentinels_cost_more: bool,
}

impl Costs {
    fn of(agent: Usd, sentinels: &Sentinels<Executed>) -> Self {
        let (states, cost) = sentinels.list_and_cost();
        Self {
            agent,
            sentinels: cost,
            sentinels_cost_more: states.iter().any(SentinelState::cost_is_lower_bound),
        }
    }
}

/// Contents of the last record and the last event of a codon, besides the codon's state.
struct EndRecord {
    exit_status: ExitStatus,
    failure_reason: Option<FailureReason>,
    notes: EndDetails,
}

/// Completes the codon, or fails it if its checkpoint cannot be made (G5, RUN-11).
pub(super) async fn complete<S: HasSentinels>(
    codon: &CodonRun<'_>,
    running: Codon<S>,
    exit: &ExitOutcome,
    notes: EndDetails,
) -> StageResult<CodonEnd>
where
    Complete: Edge<S, To = Completed>,
    Fail: Edge<S, To = Failed>,
{
    let completion_checkpoint = match codon.checkpoint(CheckpointType::Completed).await {
        Ok(sha) => sha,
        // 0, because the failure is not the agent's.
        Err(error) => return Err(codon.fail_unsaved(running, 0, "checkpoint", &error).await),
    };
    let complete = Complete {
        end_time: codon.run.world.clock.now(),
        completion_checkpoint,
        result_message_received: exit.result_received,
    };
    let record = EndRecord {
        exit_status: ExitStatus::Success,
        failure_reason: None,
        notes: EndDetails {
            result: codon.result.get(),
            ..notes
        },
    };
    let cost = |end: &Codon<Completed>| Costs::of(end.final_cost, &end.sentinels);
    let completed = codon.last_step(running, complete, record, cost).await?;
    Ok(CodonEnd::Completed(completed))
}

impl CodonRun<'_> {
    /// Publishes the files that a checkpoint leaves out, if they differ from those that the checkpoint before left out.
    async fn report_left_out(&self, checkpoint: &Checkpoint) {
        let left_out = checkpoint.left_out();
        let before = {
            let mut known = self.run.left_out.lock().unwrap_or_else(PoisonError::into_inner);
            mem::replace(&mut *known, left_out.clone())
        };
        if left_out != before {
            let event = incomplete(Some(&self.entry.codon_id), &checkpoint.sha, left_out);
            if let Some(event) = event {
                self.run.publish(event).await;
            }
        }
    }

    fn checkpoint_request(&self, kind: CheckpointType) -> CheckpointRequest {
        CheckpointRequest {
            kind,
            run_id: self.run.run_id.clone(),
            codon_id: self.entry.codon_id.clone(),
            codon_name: self.config.name.clone(),
            patterns: self.patterns.clone(),
            left_out: BTreeSet::new(),
            parent: self.run.tip().clone(),
            at: self.run.world.clock.now(),
            duration: None,
        }
    }

    /// Returns the checkpoint of the files before the codon: the newest one, or a new one if the files were changed since. A rollback compares with this
    /// checkpoint to find what the codon changed (RUN-2). The codon runs without it too: `None` when it could not be made.
    pub(super) async fn start_checkpoint(&self) -> Option<CheckpointSha> {
        let request = self.checkpoint_request(CheckpointType::RigSetup);
        let store = self.run.checkpoints.clone();
        let made = self.run.world.blocking.run(move || store.create_start(&request));
        // The codon is not on record yet.
        let about = (ProgressKind::Checkpoint, None);
        match await_with_progress(&self.run.manager, &self.run.checkpoints, about, made).await {
            Ok(Some(checkpoint)) => {
                *self.run.tip() = Some(checkpoint.sha.clone());
                // Changes from before the codon, such as those of the last codon's archive, are not this codon's work.
                self.run.watch.learn(self, checkpoint.seen).await;
                Some(checkpoint.sha)
            }
            Ok(None) => self.run.tip().clone(),
            Err(error) => {
                tracing::warn!(error = %crate::error::chain(&error), "no checkpoint of the files before the codon");
                None
            }
        }
    }

    /// Makes a checkpoint of the workspace, and publishes the changes of files since the last survey, so that they come before the
    /// event of the codon's end.
    pub(super) async fn checkpoint(&self, kind: CheckpointType) -> Result<CheckpointSha, CheckpointError> {
        let request = self.checkpoint_request(kind);
        let store = self.run.checkpoints.clone();
        let made = self.run.world.blocking.run(move || store.create(&request));
        let about = (ProgressKind::Checkpoint, Some(&self.entry.codon_id));
        let made = await_with_progress(&self.run.manager, &self.run.checkpoints, about, made).await;
        if made.is_err() {
            // No checkpoint has seen the files, so the watcher looks itself.
            self.run.watch.survey(self).await;
        }
        let checkpoint = made?;
        // Protected paths, such as git folders, get no line in the log: every checkpoint leaves them out.
        for skipped in checkpoint
            .skipped
            .iter()
            .filter(|skipped| skipped.reason != SkipReason::Protected)
        {
            tracing::info!(path = %skipped.path, reason = ?skipped.reason, "left out of the checkpoint");
        }
        *self.run.tip() = Some(checkpoint.sha.clone());
        self.report_left_out(&checkpoint).await;
        self.run.watch.learn(self, checkpoint.seen).await;
        let created = StateEvent::CheckpointCreated {
            run_id: self.run.run_id.clone(),
            codon_id: self.entry.codon_id.clone(),
            checkpoint_type: kind,
            sha: checkpoint.sha.clone(),
            branch: checkpoint.branch,
        };
        // Not awaited: a step that needs the checkpoint has its id in its own event, and waits for that event.
        drop(self.run.transition(created).await);
        Ok(checkpoint.sha)
    }

    /// The secrets to remove from the text of an error, which may hold what an agent printed.
    fn secrets(&self) -> Secrets {
        let own = self
            .config
            .env
            .iter()
            .map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
        Secrets::of(self.run.world.environment.iter().chain(own))
    }

    /// Ends the codon as failed, from any state, also when the error checkpoint cannot be made.
    pub(super) async fn fail<S: HasSentinels>(
        &self,
        codon: Codon<S>,
        exit_code: i64,
        reason: FailureReason,
    ) -> EarlyEnd
    where
        Fail: Edge<S, To = Failed>,
    {
        self.fail_with(codon, exit_code, reason, EndDetails::default())
            .await
    }

    /// Ends the codon as failed, like [`fail`](Self::fail), with notes.
    pub(super) async fn fail_with<S: HasSentinels>(
        &self,
        codon: Codon<S>,
        exit_code: i64,
        mut reason: FailureReason,
        notes: EndDetails,
    ) -> EarlyEnd
    where
        Fail: Edge<S, To = Failed>,
    {
        if let Some(message) = &mut reason.message {
            *message = self.secrets().redact(message).into_owned();
        }
        let error_checkpoint = self.last_checkpoint(CheckpointType::Error).await;
        let fail = Fail {
            end_time: self.run.world.clock.now(),
            exit_code,
            failure_reason: reason.clone(),
            error_checkpoint,
        };
        let record = EndRecord {
            exit_status: exit_status(exit_code),
            failure_reason: Some(reason),
            notes: EndDetails {
                result: self.result.get(),
                ..notes
            },
        };
        let cost = |end: &Codon<Failed>| Costs::of(end.partial_cost, &end.sentinels);
        match self.last_step(codon, fail, record, cost).await {
            Ok(failed) => EarlyEnd::Codon(CodonEnd::Failed(failed)),
            Err(unrecorded) => unrecorded.into(),
        }
    }

    /// Ends the codon as failed because a checkpoint could not be made; `what` names the checkpoint.
    pub(super) async fn fail_unsaved<S: HasSentinels>(
        &self,
        codon: Codon<S>,
        exit_code: i64,
        what: &str,
        error: &CheckpointError,
    ) -> EarlyEnd
    where
        Fail: Edge<S, To = Failed>,
    {
        // A rig can be set up again without loss; the work of an agent is not repeated automatically.
        let retriable = S::PHASE == Preparing::PHASE;
        let message = format!("{what} failed: {}", crate::error::chain(error));
        let reason = FailureReason::unknown(retriable, message);
        match error.is_of_the_repository() {
            true => self.fail_for_disk(codon, exit_code, reason).await,
            false => self.fail(codon, exit_code, reason).await,
        }
    }

    /// Ends the codon as failed because something that it needs could not be written to disk.
    pub(super) async fn fail_for_disk<S: HasSentinels>(
        &self,
        codon: Codon<S>,
        exit_code: i64,
        reason: FailureReason,
    ) -> EarlyEnd
    where
        Fail: Edge<S, To = Failed>,
    {
        match self.fail(codon, exit_code, reason).await {
            EarlyEnd::Codon(CodonEnd::Failed(failed)) => EarlyEnd::Codon(CodonEnd::Unsaved(failed)),
            ended => ended,
        }
    }

    /// Ends the codon after an interruption. `exit_code` is the agent's, or -1 if no agent was started.
    pub(super) async fn end_early<S: HasSentinels>(
        &self,
        codon: Codon<S>,
        exit_code: i64,
        why: Interruption,
    ) -> EarlyEnd
    where
        Fail: Edge<S, To = Failed>,
        Skip: Edge<S, To = Skipped>,
    {
        match why {
            Interruption::Ordered(CodonCommand::Skip) => {
                self.skip(codon, exit_code, EndDetails::default()).await
            }
            Interruption::Ordered(CodonCommand::Fail(message)) => {
                self.fail(codon, exit_code, FailureReason::unknown(false, message))
                    .await
            }
            Interruption::Ordered(CodonCommand::ForceStop(reason)) => {
                let reason = reason.unwrap_or_else(|| "user request".to_owned());
                let reason = FailureReason::unknown(true, format!("Force stopped: {reason}"));
                // -1, whatever the exit code of the agent (RUN-13).
                let ended = self.fail(codon, -1, reason).await;
                let message = format!("Codon {} force stopped", self.entry.codon_id);
                self.run.publish(Event::Info { message }).await;
                ended
            }
            Interruption::Stopped(cause) => {
                let reason = FailureReason::interrupted(
                    match cause {
                        Some(StopCause::Sentinel) => InterruptedBy::Sentinel,
                        _ => InterruptedBy::Stop,
                    },
                    self.run.shutdown.words(),
                );
                self.fail(codon, exit_code, reason).await
            }
            Interruption::Failure(reason) => self.fail(codon, exit_code, reason).await,
        }
    }

    /// Ends the codon as skipped, with a checkpoint of its work and its costs so far.
    pub(super) async fn skip<S: HasSentinels>(
        &self,
        codon: Codon<S>,
        exit_code: i64,
        notes: EndDetails,
    ) -> EarlyEnd
    where
        Skip: Edge<S, To = Skipped>,
    {
        let skip = Skip {
            end_time: self.run.world.clock.now(),
            skip_checkpoint: self.last_checkpoint(CheckpointType::Skipped).await,
        };
        let record = EndRecord {
            exit_status: exit_status(exit_code),
            failure_reason: None,
            notes,
        };
        let cost = |end: &Codon<Skipped>| Costs::of(end.partial_cost, &end.sentinels);
        match self.last_step(codon, skip, record, cost).await {
            Ok(skipped) => EarlyEnd::Codon(CodonEnd::Skipped(skipped)),
            Err(unrecorded) => unrecorded.into(),
        }
    }

    /// Takes the last step of the machine, records it, and then publishes the end. `cost` reads the costs from the ended codon.
    async fn last_step<S, E>(
        &self,
        mut codon: Codon<S>,
        edge: E,
        record: EndRecord,
        cost: impl FnOnce(&Codon<E::To>) -> Costs,
    ) -> Result<Codon<E::To>, TransitionError>
    where
        S: HasSentinels,
        E: Edge<S>,
    {
        let took = self.elapsed();
        self.cut_sentinels(&mut codon).await;
        let (end, transition) = codon.step(edge).into_parts();
        let files = self.run.watch.files_changed(self).await;
        if self.is_ignored(&record) {
            self.remarks
                .add("its failure is ignored (`onFailure`)".to_owned());
        }
        let mut event = record.notes.add_to(self.event(S::PHASE, &transition), took);
        event = event.with_remarks(&self.remarks.take());
        if let Some(files) = files {
            event = event.with_files_changed(files);
        }
        self.run.transition(event).await.await?;
        self.publish_end(cost(&end), record, took, files).await;
        Ok(end)
    }

    /// Whether the plan continues after this failure as after a success (HANK-44). It never does after an interruption or at a usage limit: nothing is wrong
    /// with the codon then, so it continues later.
    fn is_ignored(&self, record: &EndRecord) -> bool {
        let ignores = self.config.failure_policy() == OnFailure::Ignore;
        let reason = record.failure_reason.as_ref().filter(|_| ignores);
        reason.is_some_and(|reason| !reason.interrupted && reason.retry_at.is_none())
    }

    async fn publish_end(&self, costs: Costs, record: EndRecord, took: Duration, files_changed: Option<u64>) {
        let is_ignored = self.is_ignored(&record);
        let event = Event::CodonCompleted {
            codon_id: self.entry.codon_id.clone(),
            success: matches!(record.exit_status, ExitStatus::Success),
            cost: costs.agent,
            sentinel_cost: Some(costs.sentinels).filter(|cost| *cost != Usd::ZERO),
            cost_is_lower_bound: match costs.sentinels_cost_more {
                true => Some(true),
                false => self.published_lower_bound(),
            },
            duration: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            exit_status: record.exit_status,
            failure_ignored: is_ignored.then_some(true),
            failure_reason: record.failure_reason,
            budget_exceeded: record.notes.budget_exceeded,
            files_changed,
            result: record.notes.result,
        };
        self.run.publish(event).await;
    }

    /// Returns a checkpoint of the files that an incomplete codon leaves; `None` when it could not be made.
    async fn last_checkpoint(&self, kind: CheckpointType) -> Option<CheckpointSha> {
        match self.checkpoint(kind).await {
            Ok(sha) => Some(sha),
            Err(error) => {
                tracing::warn!(error = %crate::error::chain(&error), "no {kind} checkpoint of the codon");
                None
            }
        }
    }
}

/// Returns the exit code for the record of a codon whose agent may have been stopped. An agent that ended with code 0 but without
/// success counts as interrupted and gets 130, which shells report for an interrupt.
pub(super) fn exit_code(exit: &ExitOutcome) -> i64 {
    match exit.verdict.is_success() || !exit.exit.is_success() {
        true => i64::from(exit.exit.code()),
        false => 130,
    }
}

/// Returns the status of a codon that did not complete. Codes above 128 are those with which shells report a signal.
fn exit_status(code: i64) -> ExitStatus {
    match code {
        129..=192 => ExitStatus::Killed { signal: code - 128 },
        code => ExitStatus::Error { code },
    }
}
