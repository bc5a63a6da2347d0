//! Job for one claimed task, from its start to the release of its lock: starts the task in the registry, fetches its run, works on the run and follows its
//! events, and ends the attempt in the registry and the files (TASK-52 to TASK-55, TASK-58, TASK-67, TASK-68, TASK-102). The worker's loop starts it with
//! [`Job::work`].

mod carried;
mod costs;
mod ending;
mod watched;

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::machine::Extra;
use hankweave_core::time::short_duration;
use hankweave_runtime::instance_lock::live_record;
use hankweave_runtime::world::process::stop_suspended;
use hankweave_runtime::{ExecutionDir, Shutdown};
use hankweave_task_model::registry::{FilesLocation, Patch, TaskRow};
use hankweave_task_model::task::{TaskFailure, TaskRecord, TaskResult};
use hankweave_task_model::{LogLevel, Retention, SUSPENDED_MS, TaskError};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::cancellation::called_off;
use super::carry::{BackgroundPush, SyncEvent};
use super::child::{ChildEvent, Run};
use super::claims::{ANSWERS_AGAIN, Worker};
use super::order::TaskSpec;
use super::orphans::is_lost;
use super::progress::{Milestone, TaskProgress};
use super::resources::Monitor;
use super::schedule::{CheckpointCause, Schedule};
use crate::coordinator::{Coordinator, ExclusiveHold};
use crate::layers::{Durability, LayerError, RecordedBefore, TaskFiles, TaskLog, WORKSPACE};
use crate::lifecycle::{Lifecycle, TaskStep};
use crate::locks::LockGuard;
use crate::publish::publish;
use costs::CostLedger;
use ending::AnswerError;
use watched::sleep_until_maybe;

/// Exit code of a run in a directory that another run holds.
const HELD: i32 = 75;

/// Exit codes of a run that was stopped with SIGTERM, or killed.
const STOPPED: [i32; 2] = [143, 137];

/// Exit code of a run that has paused.
const PAUSED: i32 = 3;

/// Number of starts of a run in a directory that another run holds (TASK-58), and the pause between them: long enough for the other run to stop within its
/// grace, if its worker has lost the task.
const HELD_TRIES: u32 = 60;
const HELD_WAIT: Duration = Duration::from_secs(1);

/// Start of the error of a task that waits because its run could not be fetched (TASK-119).
pub const NOT_FETCHED: &str = "NOT_FETCHED";

/// Outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobEnd {
    Completed,
    Failed,
    Cancelled,
    /// The task waits for the approval of a user.
    Waiting,
    /// The task is requeued.
    Requeued,
    /// The task is requeued, for a worker that reaches the remote.
    NotFetched,
    /// Another worker has the task.
    Lost,
}

/// Outcome of a run.
enum JobOutcome {
    /// The run has ended by itself, with these last messages.
    Ended(ProcessExit, Vec<String>),
    /// A user has cancelled the task.
    Cancelled,
    /// The worker stops.
    Stopped,
    /// The remote has a record of a later owner of the task.
    Lost,
    /// The run could not start, for this reason.
    NotStarted(String),
    /// The work of another machine cannot be fetched now, for this reason.
    NotFetched(String),
}

/// Reason why a job cannot continue.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error(transparent)]
    Registry(#[from] TaskError),
    #[error(transparent)]
    Files(#[from] LayerError),
    #[error("the run cannot be followed")]
    Run(#[from] io::Error),
}

impl JobError {
    /// Returns the [`TaskError`], if it is one, of the registry or of the files.
    fn registry(&self) -> Option<&TaskError> {
        match self {
            Self::Registry(error) | Self::Files(LayerError::Task(error)) => Some(error),
            Self::Files(_) | Self::Run(_) => None,
        }
    }
}

/// Returns what happened to a task that worker `name` has lost, which held it under `token`, in words: `its lease had ended, and w2 has it now`.
async fn fate_of(coordinator: &dyn Coordinator, id: &TaskId, name: &str, token: u64) -> String {
    let found = coordinator.task(id.clone()).await.ok().flatten();
    let is_unclaimed = found.as_ref().is_some_and(|row| row.fencing_token == token);
    match found.map(|row| row.record) {
        // Until the task is requeued, the registry shows the attempt that has ended.
        Some(TaskRecord::Running(_)) if is_unclaimed => {
            "its lease had ended, and no worker holds it now".to_owned()
        }
        Some(TaskRecord::Running(running)) if running.agent_id.as_str() == name => {
            "its lease had ended, and this worker has taken it again".to_owned()
        }
        Some(TaskRecord::Running(running)) => {
            format!("its lease had ended, and {} has it now", running.agent_id)
        }
        Some(record) => format!("its lease had ended, and it is {} now", record.status()),
        None => "its lease has ended or another worker has it".to_owned(),
    }
}

/// Claimed task, and the state of the work on it.
pub(super) struct Job {
    worker: Worker,
    /// Newest known row of the task.
    row: TaskRow,
    /// Lifecycle that uses the job's lock.
    lifecycle: Lifecycle,
    /// Token of the job's lock.
    token: u64,
    files: TaskFiles,
    shutdown: Shutdown,
    /// Cancelled once a user asks to cancel the task.
    cancel_requested: CancellationToken,
    progress: TaskProgress,
    /// Folder of the task's files before this attempt, if an earlier attempt had started.
    begun_in: Option<FilesLocation>,
    /// Costs of the task, once an attempt has started.
    ledger: Option<CostLedger>,
    schedule: Schedule,
    /// Live run. It is here and not in the work, which is dropped when the lease is lost: the run must then be stopped in order.
    run: Option<Run>,
    /// Background push of the run, if there is a remote. If the task is lost, it pushes the work under another name.
    carrier: Option<BackgroundPush>,
}

impl Job {
    pub(super) fn new(worker: Worker, row: TaskRow, guard: &LockGuard, shutdown: Shutdown) -> Self {
        let files = worker.layers.task_of(&row);
        let hold = ExclusiveHold {
            holder: guard.holder().clone(),
            lease: Some(worker.options.lease),
        };
        Self {
            lifecycle: worker.lifecycle.with_hold(hold),
            token: guard.token(),
            begun_in: FilesLocation::of(&row.record),
            worker,
            row,
            files,
            shutdown,
            cancel_requested: CancellationToken::new(),
            progress: TaskProgress::default(),
            ledger: None,
            schedule: Schedule::new(),
            run: None,
            carrier: None,
        }
    }

    /// Runs the task to its end, or until its lease is lost, and releases it (TASK-52).
    pub(super) async fn work(mut self, mut guard: LockGuard) -> JobEnd {
        let (worker, id, token) = (self.worker.clone(), self.row.id().clone(), self.token);
        let cancel_requested = self.cancel_requested.clone();
        let watch_requests = async {
            called_off(&*worker.coordinator, &id, worker.options.look).await;
            cancel_requested.cancel();
            std::future::pending::<Infallible>().await
        };
        let result = tokio::select! {
            biased;
            result = guard.keep(self.run_to_end()) => result,
            never = watch_requests => match never {},
        };
        // A run that continued after the loss would block the next run of its task.
        let stopped = self.stop_run(None).await;
        if let Some(carrier) = self.carrier.take() {
            carrier.give_up().await;
        }
        guard.release_or_log(None).await;
        // An error of the guard means that the lease was lost.
        let end = result.unwrap_or(JobEnd::Lost);
        if end == JobEnd::Lost {
            let run = match stopped.map(ProcessExit::code) {
                Some(code) if STOPPED.contains(&code) => "the run of that attempt is stopped",
                Some(_) => "the run of that attempt had ended by itself",
                None => "the run of that attempt had ended before, which the registry was not told",
            };
            tracing::warn!(
                "task {id} is lost: {}; {run}",
                fate_of(&*worker.coordinator, &id, &worker.options.name, token).await
            );
        }
        worker.metrics().ended.add(1);
        worker.metrics().lost.add((end == JobEnd::Lost).into());
        end
    }

    async fn run_to_end(&mut self) -> JobEnd {
        match self.run_task().await {
            Ok(end) => end,
            Err(error) => self.give_up(error).await,
        }
    }

    /// Starts the task, works on its run, and ends the attempt.
    async fn run_task(&mut self) -> Result<JobEnd, JobError> {
        let agent_id = AgentId::new(&*self.worker.options.name)
            .map_err(|_| TaskError::InvalidArgument("a worker has a name"))?;
        match self.step(TaskStep::Start(agent_id)).await {
            // The task is cancelled. If it stayed pending, it would be claimed again and again.
            Err(vetoed @ (TaskError::HookVeto { .. } | TaskError::HookTimeout { .. })) => {
                let result = json!({"success": false, "error": vetoed.to_string()});
                self.save_progress(Some(result)).await?;
                self.step(TaskStep::Cancel).await?;
                return Ok(JobEnd::Cancelled);
            }
            started => started?,
        }
        self.files.run(TaskFiles::check_origin).await?;
        let outcome = match TaskSpec::read(self.row.record.metadata()) {
            Ok(spec) => self.run_spec(&spec).await?,
            Err(why) => JobOutcome::NotStarted(why),
        };
        self.settle_ledger().await;
        self.note_over_budget().await?;
        let Some((step, result, end)) = self.conclusion(outcome).await else {
            return Ok(JobEnd::Lost);
        };
        self.save_progress(Some(result)).await?;
        self.step(step).await?;
        Ok(end)
    }

    /// Fails the task because something on this machine does not work or a hook refuses the completion. Returns `Lost` if another worker has the
    /// task.
    async fn give_up(&mut self, error: JobError) -> JobEnd {
        if error.registry().is_some_and(is_lost) {
            return JobEnd::Lost;
        }
        let mut message = hankweave_runtime::error::chain(&error);
        if let Some(TaskError::FolderTaken { .. }) = error.registry() {
            message.push_str("; give the workers of this registry a folder of their own with --tasks DIR");
        }
        tracing::error!(taskId = %self.row.id(), error = message, "the task cannot continue here");
        match self.step(TaskStep::Fail(message.into())).await {
            Ok(()) => JobEnd::Failed,
            Err(_) => JobEnd::Lost,
        }
    }

    /// Takes a step. While the registry does not answer, tries again for as long as the lease is live.
    async fn step(&mut self, step: TaskStep) -> Result<(), TaskError> {
        // Whether an attempt got no answer, and so may have succeeded.
        let mut is_unsure = false;
        loop {
            let files = self.location_after().await;
            let lifecycle = self.lifecycle.noting(self.cost_at(&step), files);
            self.row = match lifecycle.take(self.row.id(), &step).await {
                Ok(row) => row,
                Err(TaskError::LockBackendUnavailable(why)) => {
                    if !std::mem::replace(&mut is_unsure, true) {
                        tracing::warn!(taskId = %self.row.id(), "the registry does not answer, trying again: {why}");
                    }
                    sleep(self.worker.options.look).await;
                    continue;
                }
                Err(error @ TaskError::InvalidTransition { .. }) if is_unsure => {
                    self.already_taken(&step).await.ok_or(error)?
                }
                Err(error) => return Err(error),
            };
            if is_unsure {
                tracing::warn!(taskId = %self.row.id(), "{ANSWERS_AGAIN}");
            }
            self.worker.report(&self.row);
            return Ok(());
        }
    }

    /// Returns the change of the task's location with the end of this attempt: back to the former folder, if no run was recorded in this one.
    async fn location_after(&mut self) -> Patch<FilesLocation> {
        if FilesLocation::of(&self.row.record) == self.begun_in {
            return Patch::Keep;
        }
        let files = self.files.clone();
        match self.worker.world.blocking.run(move || files.has_run()).await {
            true => Patch::Keep,
            false => self.begun_in.clone().map_or(Patch::Clear, Patch::Set),
        }
    }

    /// Returns the task if an earlier attempt at this step succeeded but its answer was lost. Updates the files.
    async fn already_taken(&mut self, step: &TaskStep) -> Option<TaskRow> {
        let coordinator = &*self.worker.coordinator;
        let row = coordinator.task(self.row.id().clone()).await.ok()??;
        if row.record.status() != step.leads_to() || row.fencing_token != self.token {
            return None;
        }
        if let Err(error) = publish(coordinator, &self.files, &row, Some(self.token)).await {
            tracing::warn!(taskId = %row.id(), %error, "the files of a task do not follow yet");
        }
        Some(row)
    }

    /// Stops the run in order, if there is one, and writes its last events into `log`. Returns how the run ended; `None` if there was no
    /// run, or it could not be stopped.
    async fn stop_run(&mut self, log: Option<&mut TaskLog>) -> Option<ProcessExit> {
        let mut run = self.run.take()?;
        let stopped = run.stop(self.worker.options.grace).await;
        if let Err(error) = &stopped {
            tracing::warn!(taskId = %self.row.id(), %error, "a run was not stopped");
        }
        if let Some(log) = log
            && let Err(error) = self.note_remaining_events(&mut run, log).await
        {
            tracing::warn!(taskId = %self.row.id(), %error, "the end of a run was not noted");
        }
        // Only for its sweep of leftover processes: the run's own records have these messages.
        run.last_messages().await;
        stopped.ok()
    }

    /// Notes the remaining events of an ended run.
    async fn note_remaining_events(&mut self, run: &mut Run, log: &mut TaskLog) -> Result<(), JobError> {
        while let ChildEvent::Event(line) = run.next().await? {
            self.note_event(&line, log).await?;
        }
        Ok(log.sync()?)
    }

    /// Prepares the workspace, fetches the run, works on it, and pushes the rest.
    async fn run_spec(&mut self, spec: &TaskSpec) -> Result<JobOutcome, JobError> {
        let disk = self.worker.world.disk.clone();
        let workspace = self.files.path().join(WORKSPACE);
        let made = self
            .worker
            .world
            .blocking
            .run(move || disk.make_dirs(&workspace))
            .await;
        let execution = made?;
        let mut log = self.files.run(|files| files.open_log(Durability::Batch)).await?;
        if let Some(outcome) = self.fetch_progress(&execution, &mut log).await? {
            return Ok(outcome);
        }
        self.open_ledger(&mut log).await?;
        self.record_local_history().await;
        let outcome = self.run_when_free(spec, &execution, &mut log).await?;
        self.push_rest(outcome, &mut log).await
    }

    /// Starts the run as soon as no other process works in the directory.
    async fn run_when_free(
        &mut self,
        spec: &TaskSpec,
        execution: &Path,
        log: &mut TaskLog,
    ) -> Result<JobOutcome, JobError> {
        for _ in 0..HELD_TRIES {
            match self.align_answer().await {
                Ok(()) => match self.run_once(spec, execution, log).await? {
                    JobOutcome::Ended(exit, _) if exit.code() == HELD => {}
                    outcome => return Ok(outcome),
                },
                Err(AnswerError::Held) => {}
                Err(AnswerError::Failed(why)) => {
                    let why = format!("the answer to its question cannot be recorded: {why}");
                    return Ok(JobOutcome::NotStarted(why));
                }
            }
            self.end_suspended_run().await;
            tokio::select! {
                () = self.cancel_requested.cancelled() => return Ok(JobOutcome::Cancelled),
                () = self.shutdown.requested() => return Ok(JobOutcome::Stopped),
                () = sleep(HELD_WAIT) => {}
            }
        }
        Ok(JobOutcome::NotStarted(
            "another run works in its workspace".to_owned(),
        ))
    }

    /// Ends the run of a suspended worker in the workspace. That worker's lease has ended, but a suspended run does not stop without a signal (TASK-58).
    async fn end_suspended_run(&mut self) {
        let (world, id) = (self.worker.world.clone(), self.row.id().clone());
        let execution = ExecutionDir::new(self.files.path().join(WORKSPACE));
        let end = move || {
            let holder = live_record(&*world.disk, &*world.identity, &execution.state_dir())?;
            stop_suspended(holder.pid, &marker(&id)).then_some(holder.pid)
        };
        if let Some(pid) = self.worker.world.blocking.run(end).await {
            tracing::info!(taskId = %self.row.id(), pid, "the run of a suspended worker is stopped: this worker has the task");
        }
    }

    /// Starts the run and follows it to its end.
    async fn run_once(
        &mut self,
        spec: &TaskSpec,
        execution: &Path,
        log: &mut TaskLog,
    ) -> Result<JobOutcome, JobError> {
        let options = &self.worker.options;
        // A unique marker, so that the removal of this run's processes affects no run of another worker for the task.
        let marker = format!("{}{}", marker(self.row.id()), self.worker.world.ids.nonce());
        let started = Run::start(
            &self.worker.world,
            &options.program,
            spec,
            execution,
            (&options.name, marker),
        );
        match started {
            Ok(run) => self.run = Some(run),
            Err(error) => {
                return Ok(JobOutcome::NotStarted(format!(
                    "the run cannot be started: {error}"
                )));
            }
        }
        let mut monitor = self.monitor();
        while let Some(run) = &mut self.run {
            let (log_sync, usage_sample) = (
                sleep_until_maybe(log.sync_due()),
                sleep_until_maybe(monitor.as_ref().map(Monitor::next)),
            );
            tokio::select! {
                biased;
                () = self.cancel_requested.cancelled() => break,
                () = self.shutdown.requested() => break,
                () = log_sync => log.sync()?,
                () = usage_sample => self.sample_usage(&mut monitor, log).await?,
                () = tokio::time::sleep_until(self.schedule.next()) => {
                    let cause = self.schedule.checkpoint_due();
                    self.checkpoint_because(cause).await?;
                }
                event = next_sync_event(&mut self.carrier) => match event {
                    SyncEvent::Note(note) => self.note(&note, log)?,
                    SyncEvent::Pushed(history) => self.record(*history).await,
                    SyncEvent::Superseded => return Ok(JobOutcome::Lost),
                },
                event = run.next() => match event? {
                    ChildEvent::Event(line) => self.note_event(&line, log).await?,
                    ChildEvent::Ended(exit) => {
                        log.sync()?;
                        let messages = match self.run.take() {
                            Some(run) => run.last_messages().await,
                            None => Vec::new(),
                        };
                        return Ok(JobOutcome::Ended(exit, messages));
                    }
                },
            }
        }
        let cause = self.schedule.stopped();
        self.checkpoint_because(cause).await?;
        self.stop_run(Some(log)).await;
        Ok(match self.cancel_requested.is_cancelled() {
            true => JobOutcome::Cancelled,
            false => JobOutcome::Stopped,
        })
    }

    /// Handles an event of the run: log line, progress in the state, decisions, checkpoint and push.
    async fn note_event(&mut self, line: &[u8], log: &mut TaskLog) -> Result<(), JobError> {
        let milestone = self.progress.take(line);
        self.schedule
            .output_seen(matches!(milestone, Some(Milestone::Ended { success: false, .. })));
        let Some(milestone) = milestone else {
            return Ok(());
        };
        if let Milestone::Answered(approval) = &milestone {
            self.note_answer(approval).await;
        }
        let (level, message, data) = match &milestone {
            Milestone::Answered(approval) => (
                LogLevel::Info,
                format!("{} {}", approval.codon_id, approval.sentence()),
                json!({"approval": approval}),
            ),
            Milestone::Started(codon) => (
                LogLevel::Info,
                format!("Codon {codon} started"),
                json!({"codon": codon}),
            ),
            Milestone::Continued(millis) => (
                LogLevel::Info,
                format!("Suspended for {}", short_duration(Duration::from_millis(*millis))),
                json!({SUSPENDED_MS: millis}),
            ),
            Milestone::Ended {
                codon, outcome, data, ..
            } => {
                let level = match *outcome {
                    "completed" => LogLevel::Info,
                    "failed" => LogLevel::Error,
                    _ => LogLevel::Warning,
                };
                let over = data["overBudget"].as_str().map(|over| format!(", {over}"));
                let message = format!("Codon {codon} {outcome}{}", over.unwrap_or_default());
                (level, message, data.clone())
            }
        };
        log.append(&[self.files.entry(level, message, Some(data))])?;
        self.report_costs();
        self.save_progress(None).await?;
        if let (Milestone::Started(_), Some(carrier)) = (&milestone, &self.carrier) {
            carrier.request_push();
        }
        if let Milestone::Ended { codon, success, .. } = milestone {
            let agent = codon.clone();
            let take_over = move |files: &TaskFiles| files.take_over_decisions(&agent);
            self.files.run(take_over).await?;
            if success {
                self.checkpoint(format!("codon {codon} completed")).await?;
                match &self.carrier {
                    Some(carrier) => carrier.request_push(),
                    None => self.record_local_history().await,
                }
            }
        }
        Ok(())
    }

    /// Makes a checkpoint for this cause, if there is one and the options ask for such checkpoints.
    async fn checkpoint_because(&mut self, cause: Option<CheckpointCause>) -> Result<(), LayerError> {
        match cause {
            Some(cause) if self.worker.options.checkpoints_by_risk => {
                self.checkpoint(cause.description().to_owned()).await
            }
            _ => Ok(()),
        }
    }

    /// Writes the progress, the costs and the result, if the attempt has one, into the state.
    async fn save_progress(&mut self, result: Option<Value>) -> Result<(), LayerError> {
        let (progress, token, cost) = (self.progress.clone(), self.token, self.cost());
        let recorded_before = self.recorded_before();
        let attempt = match &self.row.record {
            TaskRecord::Running(running) => running.attempt.number(),
            // A hook has refused the start, so there is no attempt.
            _ => 0,
        };
        let (name, registry) = (
            self.row.record.name().clone(),
            self.worker.options.registry.clone(),
        );
        let save = move |files: &TaskFiles| {
            files.update_state(Some(token), |state| {
                state.data.insert("name".into(), json!(name));
                if let Some(registry) = &registry {
                    state.data.insert("registry".into(), json!(registry));
                }
                progress.put_into(attempt, cost, &mut state.data);
                RecordedBefore::put_into(recorded_before, token, &mut state.data);
                state.data.insert("result".into(), json!(result));
            })
        };
        self.files.run(save).await.map(drop)
    }

    /// Makes a checkpoint. Packs earlier ones, if the options ask for it, and removes those that need not be kept.
    async fn checkpoint(&mut self, description: String) -> Result<(), LayerError> {
        // Separate calls of `run`, which repeats a call if another process was in the folder: the other calls must not be repeated with it.
        if self.worker.options.packs_checkpoints {
            self.files.run(TaskFiles::pack_checkpoints).await?;
        }
        let token = Some(self.token);
        let make = move |files: &TaskFiles| files.create_checkpoint_under(token, Some(&description));
        self.files.run(make).await?;
        let rotate = |files: &TaskFiles| files.rotate_checkpoints(&Retention::default());
        self.files.run(rotate).await?;
        self.schedule.made();
        Ok(())
    }

    /// Returns the step that ends the attempt, the result for the state, and the outcome of the job; `None` if the task belongs to another worker.
    async fn conclusion(&mut self, outcome: JobOutcome) -> Option<(TaskStep, Value, JobEnd)> {
        Some(match outcome {
            JobOutcome::Ended(exit, messages) if exit.is_success() => {
                let result = self.result(exit, messages, None);
                let data = json!(result);
                (TaskStep::Complete(result), data, JobEnd::Completed)
            }
            JobOutcome::Ended(exit, messages) => match self.ending(exit, &messages).await {
                Ok(ask) => (TaskStep::Ask(ask), Value::Null, JobEnd::Waiting),
                Err(failure) => {
                    let data = json!(self.result(exit, messages, Some(&failure)));
                    (TaskStep::Fail(failure), data, JobEnd::Failed)
                }
            },
            JobOutcome::NotStarted(why) => {
                let result = json!({"success": false, "error": why});
                (TaskStep::Fail(why.into()), result, JobEnd::Failed)
            }
            JobOutcome::NotFetched(why) => {
                let step = TaskStep::Requeue(format!("{NOT_FETCHED}: {why}"));
                (step, Value::Null, JobEnd::NotFetched)
            }
            JobOutcome::Cancelled => {
                let result = json!({"success": false, "status": "cancelled", "data": self.totals()});
                (TaskStep::Cancel, result, JobEnd::Cancelled)
            }
            JobOutcome::Stopped => (
                TaskStep::Requeue("WORKER_STOPPED".to_owned()),
                Value::Null,
                JobEnd::Requeued,
            ),
            JobOutcome::Lost => return None,
        })
    }

    /// Returns the cost and the number of codons, for the result.
    fn totals(&self) -> Value {
        let mut totals = json!(self.cost());
        totals["codons"] = json!(self.progress.ended_codons());
        totals
    }

    fn result(&self, exit: ProcessExit, messages: Vec<String>, failure: Option<&TaskFailure>) -> TaskResult {
        let success = exit.is_success();
        let mut data = self.totals();
        data["exitCode"] = json!(exit.code());
        data["lastLines"] = json!(failure.map_or(&messages, |failure| &failure.last_lines));
        if let Some(failure) = failure {
            data["failure"] = json!(failure);
        }
        TaskResult {
            success,
            status: Some(if success { "completed" } else { "failed" }.to_owned()),
            data: Some(data),
            error: failure.map(ToString::to_string),
            message: self.progress.over_budgets().filter(|_| success),
            by_hand: false,
            extra: Extra::default(),
        }
    }
}

/// Returns the start of the markers of a task's runs. A marker is in the environment of all processes of a run.
fn marker(id: &TaskId) -> String {
    format!("task/{id}/")
}

/// Returns the next event of the background push; waits for ever without one.
async fn next_sync_event(carrier: &mut Option<BackgroundPush>) -> SyncEvent {
    match carrier {
        Some(carrier) => carrier.next().await,
        None => std::future::pending().await,
    }
}
