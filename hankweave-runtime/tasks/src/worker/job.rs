//! Job for one task: its run, its files, and its outcome (TASK-52 to TASK-55, TASK-58, TASK-67, TASK-68, TASK-102).

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
use watched::at;

/// Exit code of a run in a directory that another run holds.
const HELD: i32 = 75;

/// Exit codes of a run that was stopped with SIGTERM, or killed.
const STOPPED: [i32; 2] = [143, 137];

/// Exit code of a run that has paused.
const PAUSED: i32 = 3;

/// Number of starts of a run in a directory that another process holds (TASK-58), and the pause between them. A run whose worker has lost its task
/// stops within its grace.
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
    Ended(ProcessExit, Vec<String>),
    CalledOff,
    Stopped,
    /// The remote has a record of a later owner of the task.
    Lost,
    NotStarted(String),
    /// The work of another machine cannot be fetched now.
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
    fn registry(&self) -> Option<&TaskError> {
        match self {
            Self::Registry(error) | Self::Files(LayerError::Task(error)) => Some(error),
            Self::Files(_) | Self::Run(_) => None,
        }
    }
}

/// Returns what happened to a task that the worker `own` has lost, in words: `its lease had ended, and w2 has it now`.
async fn fate_of(coordinator: &dyn Coordinator, id: &TaskId, own: (&str, u64)) -> String {
    let (name, token) = own;
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

/// Claimed task.
pub(super) struct Job {
    worker: Worker,
    row: TaskRow,
    lifecycle: Lifecycle,
    token: u64,
    files: TaskFiles,
    shutdown: Shutdown,
    called_off: CancellationToken,
    progress: TaskProgress,
    /// Folder of the task's files before this attempt, if an earlier one had started.
    begun_in: Option<FilesLocation>,
    /// Costs of the task, once an attempt has started.
    ledger: Option<CostLedger>,
    schedule: Schedule,
    /// Live run. It outlives the work, which is dropped when the lease is lost.
    run: Option<Run>,
    /// Pushes the run while it works, if there is a remote. After a lost task it keeps the work.
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
            called_off: CancellationToken::new(),
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
        let is_called_off = self.called_off.clone();
        let watch = async {
            called_off(&*worker.coordinator, &id, worker.options.look).await;
            is_called_off.cancel();
            std::future::pending::<Infallible>().await
        };
        let kept = tokio::select! {
            biased;
            kept = guard.keep(self.run_to_end()) => kept,
            never = watch => match never {},
        };
        // A run that continued after the loss would block the next run of its task.
        let stopped = self.stop_run(None).await;
        if let Some(carrier) = self.carrier.take() {
            carrier.give_up().await;
        }
        guard.release_or_log(None).await;
        let end = kept.unwrap_or(JobEnd::Lost);
        if end == JobEnd::Lost {
            let run = match stopped.map(ProcessExit::code) {
                Some(code) if STOPPED.contains(&code) => "the run of that attempt is stopped",
                Some(_) => "the run of that attempt had ended by itself",
                None => "the run of that attempt had ended before, which the registry was not told",
            };
            tracing::warn!(
                "task {id} is lost: {}; {run}",
                fate_of(&*worker.coordinator, &id, (&worker.options.name, token)).await
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

    async fn run_task(&mut self) -> Result<JobEnd, JobError> {
        let agent_id = AgentId::new(&*self.worker.options.name)
            .map_err(|_| TaskError::InvalidArgument("a worker has a name"))?;
        match self.step(TaskStep::Start(agent_id)).await {
            // Otherwise a task that must not start would be claimed again and again.
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
            Ok(order) => self.run_order(&order).await?,
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
        let mut told = hankweave_runtime::error::chain(&error);
        if let Some(TaskError::FolderTaken { .. }) = error.registry() {
            told.push_str("; give the workers of this registry a folder of their own with --tasks DIR");
        }
        tracing::error!(taskId = %self.row.id(), error = told, "the task cannot continue here");
        match self.step(TaskStep::Fail(told.into())).await {
            Ok(()) => JobEnd::Failed,
            Err(_) => JobEnd::Lost,
        }
    }

    /// Takes a step. While the registry does not answer, tries again for as long as the lease is live.
    async fn step(&mut self, step: TaskStep) -> Result<(), TaskError> {
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
                    self.taken_before(&step).await.ok_or(error)?
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

    /// Returns the change of the task's location with the end of this attempt: back to the former folder, if nothing was recorded here.
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
    async fn taken_before(&mut self, step: &TaskStep) -> Option<TaskRow> {
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

    /// Stops the run in order, if there is one, and notes in the log how its codon ended.
    async fn stop_run(&mut self, log: Option<&mut TaskLog>) -> Option<ProcessExit> {
        let mut run = self.run.take()?;
        let stopped = run.stop(self.worker.options.grace).await;
        if let Err(error) = &stopped {
            tracing::warn!(taskId = %self.row.id(), %error, "a run was not stopped");
        }
        if let Some(log) = log
            && let Err(error) = self.take_rest(&mut run, log).await
        {
            tracing::warn!(taskId = %self.row.id(), %error, "the end of a run was not noted");
        }
        // Its messages while stopping are in its own records.
        run.last_messages().await;
        stopped.ok()
    }

    /// Notes the remaining events of an ended run.
    async fn take_rest(&mut self, run: &mut Run, log: &mut TaskLog) -> Result<(), JobError> {
        while let ChildEvent::Event(line) = run.next().await? {
            self.take(&line, log).await?;
        }
        Ok(log.sync()?)
    }

    async fn run_order(&mut self, order: &TaskSpec) -> Result<JobOutcome, JobError> {
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
        self.record_what_is_here().await;
        let outcome = self.run_when_free(order, &execution, &mut log).await?;
        self.carried(outcome, &mut log).await
    }

    async fn run_when_free(
        &mut self,
        order: &TaskSpec,
        execution: &Path,
        log: &mut TaskLog,
    ) -> Result<JobOutcome, JobError> {
        for _ in 0..HELD_TRIES {
            match self.align_answer().await {
                Ok(()) => match self.run_once(order, execution, log).await? {
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
                () = self.called_off.cancelled() => return Ok(JobOutcome::CalledOff),
                () = self.shutdown.requested() => return Ok(JobOutcome::Stopped),
                () = sleep(HELD_WAIT) => {}
            }
        }
        Ok(JobOutcome::NotStarted(
            "another run works in its workspace".to_owned(),
        ))
    }

    /// Ends the run of a suspended worker in the workspace. Its lease has ended, but without a signal the run would stay (TASK-58).
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

    async fn run_once(
        &mut self,
        order: &TaskSpec,
        execution: &Path,
        log: &mut TaskLog,
    ) -> Result<JobOutcome, JobError> {
        let options = &self.worker.options;
        // A unique marker, so that a sweep affects no process of a worker that has lost the task or has it now.
        let marker = format!("{}{}", marker(self.row.id()), self.worker.world.ids.nonce());
        let started = Run::start(
            &self.worker.world,
            &options.program,
            order,
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
            let (sync, look) = (at(log.sync_due()), at(monitor.as_ref().map(Monitor::next)));
            tokio::select! {
                biased;
                () = self.called_off.cancelled() => break,
                () = self.shutdown.requested() => break,
                () = sync => log.sync()?,
                () = look => self.watch(&mut monitor, log).await?,
                () = tokio::time::sleep_until(self.schedule.next()) => {
                    let cause = self.schedule.checkpoint_due();
                    self.checkpoint_because(cause).await?;
                }
                told = next_sync_event(&mut self.carrier) => match told {
                    SyncEvent::Note(note) => self.note(&note, log)?,
                    SyncEvent::Pushed(history) => self.record(*history).await,
                    SyncEvent::Superseded => return Ok(JobOutcome::Lost),
                },
                said = run.next() => match said? {
                    ChildEvent::Event(line) => self.take(&line, log).await?,
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
        Ok(match self.called_off.is_cancelled() {
            true => JobOutcome::CalledOff,
            false => JobOutcome::Stopped,
        })
    }

    /// Notes the contents of an event.
    async fn take(&mut self, line: &[u8], log: &mut TaskLog) -> Result<(), JobError> {
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
            carrier.codon();
        }
        if let Milestone::Ended { codon, success, .. } = milestone {
            let agent = codon.clone();
            let take_over = move |files: &TaskFiles| files.take_over_decisions(&agent);
            self.files.run(take_over).await?;
            if success {
                self.checkpoint(format!("codon {codon} completed")).await?;
                match &self.carrier {
                    Some(carrier) => carrier.codon(),
                    None => self.record_what_is_here().await,
                }
            }
        }
        Ok(())
    }

    async fn checkpoint_because(&mut self, cause: Option<CheckpointCause>) -> Result<(), LayerError> {
        match cause {
            Some(cause) if self.worker.options.checkpoints_by_risk => {
                self.checkpoint(cause.description().to_owned()).await
            }
            _ => Ok(()),
        }
    }

    async fn save_progress(&mut self, result: Option<Value>) -> Result<(), LayerError> {
        let (progress, token, cost) = (self.progress.clone(), self.token, self.cost());
        let recorded_before = self.recorded_before();
        let attempt = match &self.row.record {
            TaskRecord::Running(running) => running.attempt.number(),
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

    async fn checkpoint(&mut self, description: String) -> Result<(), LayerError> {
        // One after another: an operation that is repeated because another process was in the folder must not repeat the other one.
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

    /// Returns the step for the registry, the value for the state, and the outcome of the job; `None` if the task belongs to another worker.
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
            JobOutcome::CalledOff => {
                let result = json!({"success": false, "status": "cancelled", "data": self.figures()});
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

    fn figures(&self) -> Value {
        let mut figures = json!(self.cost());
        figures["codons"] = json!(self.progress.ended_codons());
        figures
    }

    fn result(&self, exit: ProcessExit, messages: Vec<String>, failure: Option<&TaskFailure>) -> TaskResult {
        let success = exit.is_success();
        let mut data = self.figures();
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

/// Returns the start of the markers of a task's runs.
fn marker(id: &TaskId) -> String {
    format!("task/{id}/")
}

/// Returns the next event of the push to the remote, if there is one.
async fn next_sync_event(carrier: &mut Option<BackgroundPush>) -> SyncEvent {
    match carrier {
        Some(carrier) => carrier.next().await,
        None => std::future::pending().await,
    }
}
