//! One task: its run, its files, and how it ends (TASK-52 to TASK-55, TASK-58).

use std::io;
use std::path::Path;
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use hankweave_core::id::AgentId;
use hankweave_core::machine::Extra;
use hankweave_runtime::Shutdown;
use hankweave_task_model::registry::{Change, TaskRow};
use hankweave_task_model::task::{Complete, Fail, Start, TaskRecord, TaskResult, TaskTransition};
use hankweave_task_model::{Level, Retention, TaskError};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::child::{Run, Said};
use super::claims::Worker;
use super::lease::Lease;
use super::order::Order;
use super::progress::{Milestone, Progress};
use crate::layers::{Durability, LayerError, TaskFiles, TaskLog};
use crate::publish::publish;

/// The exit code of a run in a directory where another one works.
const HELD: i32 = 75;

/// How often a run is started in a directory (TASK-58) that somebody else holds, and how long is waited in between: a run whose worker has lost its task stops
/// within its grace.
const HELD_TRIES: u32 = 60;
const HELD_WAIT: Duration = Duration::from_secs(1);

/// The subfolder in which agents work.
const WORKSPACE: &str = "workspace";

/// What became of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobEnd {
    Completed,
    Failed,
    Cancelled,
    /// It waits again.
    Requeued,
    /// It is somebody else's now.
    Lost,
}

/// How a run ended.
enum Outcome {
    Ended(ProcessExit, Vec<String>),
    Cancelled,
    Stopped,
    NotStarted(String),
    Lost,
}

/// Why a job cannot go on.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error(transparent)]
    Registry(#[from] TaskError),
    #[error(transparent)]
    Files(#[from] LayerError),
    #[error("the run cannot be followed")]
    Run(#[from] io::Error),
}

/// A task that was claimed.
pub(super) struct Job {
    worker: Worker,
    row: TaskRow,
    lease: Lease,
    files: TaskFiles,
    shutdown: Shutdown,
    progress: Progress,
}

impl Job {
    pub(super) fn new(worker: Worker, row: TaskRow, lease: Lease, shutdown: Shutdown) -> Self {
        let files = worker.layers.task(row.id().clone());
        Self {
            worker,
            row,
            lease,
            files,
            shutdown,
            progress: Progress::default(),
        }
    }

    /// Runs the task to its end, or until it is lost, and gives it back.
    pub(super) async fn work(mut self) -> JobEnd {
        let end = match self.run_task().await {
            Ok(end) => end,
            Err(error) => self.give_up(error).await,
        };
        self.worker.metrics.ended(end == JobEnd::Lost);
        // The lock of a task that is lost is somebody else's.
        if end != JobEnd::Lost {
            let written = self.row.written_seq;
            self.lease.release(written).await;
        }
        end
    }

    async fn run_task(&mut self) -> Result<JobEnd, JobError> {
        let agent_id = AgentId::new(&*self.worker.options.name)
            .map_err(|_| TaskError::InvalidArgument("a worker has a name"))?;
        self.step(vec![TaskTransition::Start(Start { agent_id })]).await?;
        let outcome = match Order::read(self.row.record.metadata()) {
            Ok(order) => self.run_order(&order).await?,
            Err(why) => Outcome::NotStarted(why),
        };
        let (steps, result, end) = self.conclusion(outcome);
        if end == JobEnd::Lost {
            return Ok(end);
        }
        self.save_progress(Some(result)).await?;
        self.step(steps).await?;
        Ok(end)
    }

    /// Something of this machine does not work: the task fails with it, unless it is no longer ours.
    async fn give_up(&mut self, error: JobError) -> JobEnd {
        let told = hankweave_runtime::error::chain(&error);
        tracing::error!(taskId = %self.row.id(), error = told, "the task cannot go on here");
        if !self.lease.lives() {
            return JobEnd::Lost;
        }
        let fail = TaskTransition::Fail(Fail { error: told });
        match self.change(vec![fail]).await {
            Ok(()) => JobEnd::Failed,
            Err(_) => JobEnd::Lost,
        }
    }

    async fn change(&mut self, steps: Vec<TaskTransition>) -> Result<(), TaskError> {
        let (from, began) = (self.row.record.status(), Instant::now());
        let trigger = steps
            .iter()
            .map(TaskTransition::method)
            .collect::<Vec<_>>()
            .join(" ");
        let change = Change {
            id: self.row.id().clone(),
            expected_version: self.row.version,
            token: self.lease.token,
            steps,
        };
        self.row = self.worker.coordinator.change(change).await?.row;
        let (to, took) = (self.row.record.status(), began.elapsed());
        self.worker.metrics.step(to, took);
        let duration = took.as_secs_f64() * 1000.0;
        tracing::info!(system = "TaskLifecycle", taskId = %self.row.id(), fromState = %from, toState = %to, trigger, duration, "State transition");
        self.worker.tell(&self.row);
        Ok(())
    }

    /// A step in the registry, and behind it in the files.
    async fn step(&mut self, steps: Vec<TaskTransition>) -> Result<(), JobError> {
        self.change(steps).await?;
        let coordinator = &*self.worker.coordinator;
        self.row.written_seq = publish(coordinator, &self.files, &self.row, Some(self.lease.token)).await?;
        Ok(())
    }

    async fn run_order(&mut self, order: &Order) -> Result<Outcome, JobError> {
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
        for _ in 0..HELD_TRIES {
            match self.run_once(order, &execution, &mut log).await? {
                Outcome::Ended(exit, _) if exit.code() == HELD => {}
                outcome => return Ok(outcome),
            }
            tokio::select! {
                () = self.lease.lost() => return Ok(Outcome::Lost),
                () = self.lease.cancelled() => return Ok(Outcome::Cancelled),
                () = self.shutdown.requested() => return Ok(Outcome::Stopped),
                () = sleep(HELD_WAIT) => {}
            }
        }
        Ok(Outcome::NotStarted(
            "another run works in its workspace".to_owned(),
        ))
    }

    async fn run_once(
        &mut self,
        order: &Order,
        execution: &Path,
        log: &mut TaskLog,
    ) -> Result<Outcome, JobError> {
        let options = &self.worker.options;
        // Of its own, so that a sweep takes no process of a worker that has lost the task or has it now.
        let marker = format!("task/{}/{}", self.row.id(), self.worker.world.ids.nonce());
        let started = Run::start(&self.worker.world, &options.program, order, execution, marker);
        let mut run = match started {
            Ok(run) => run,
            Err(error) => return Ok(Outcome::NotStarted(format!("the run cannot be started: {error}"))),
        };
        let grace = options.grace;
        let cause = loop {
            let due = log.sync_due();
            let sync = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.lease.lost() => break Outcome::Lost,
                () = self.lease.cancelled() => break Outcome::Cancelled,
                () = self.shutdown.requested() => break Outcome::Stopped,
                () = sync => log.sync()?,
                said = run.next() => match said? {
                    Said::Event(line) => self.take(&line, log).await?,
                    Said::Ended(exit) => {
                        log.sync()?;
                        return Ok(Outcome::Ended(exit, run.last_messages().await));
                    }
                },
            }
        };
        run.stop(grace).await?;
        run.last_messages().await;
        // What it said while it was stopping is in its own records.
        Ok(match self.lease.lives() {
            true => cause,
            false => Outcome::Lost,
        })
    }

    /// Notes what an event says. A worker whose lease is over writes nothing any more.
    async fn take(&mut self, line: &[u8], log: &mut TaskLog) -> Result<(), JobError> {
        let Some(milestone) = self.progress.take(line) else {
            return Ok(());
        };
        if !self.lease.lives() {
            return Ok(());
        }
        let (level, message, data) = match &milestone {
            Milestone::Started(codon) => (
                Level::Info,
                format!("Codon {codon} started"),
                json!({"codon": codon}),
            ),
            Milestone::Ended {
                codon,
                success: true,
                data,
            } => (Level::Info, format!("Codon {codon} completed"), data.clone()),
            Milestone::Ended {
                codon,
                success: false,
                data,
            } => (Level::Error, format!("Codon {codon} failed"), data.clone()),
        };
        log.append(&[self.files.entry(level, message, Some(data))])?;
        self.save_progress(None).await?;
        if let Milestone::Ended {
            codon, success: true, ..
        } = milestone
        {
            self.checkpoint(format!("codon {codon} completed")).await?;
        }
        Ok(())
    }

    async fn save_progress(&self, result: Option<Value>) -> Result<(), LayerError> {
        let (progress, token) = (self.progress.clone(), self.lease.token);
        let attempt = match &self.row.record {
            TaskRecord::Running(running) => running.attempt.number(),
            _ => 0,
        };
        let save = move |files: &TaskFiles| {
            files.update_state(Some(token), |state| {
                progress.put_into(attempt, &mut state.data);
                state.data.insert("result".into(), json!(result));
            })
        };
        self.files.run(save).await.map(drop)
    }

    async fn checkpoint(&self, description: String) -> Result<(), LayerError> {
        let make = move |files: &TaskFiles| {
            files.create_checkpoint(Some(&description))?;
            files.rotate_checkpoints(&Retention::default())
        };
        self.files.run(make).await.map(drop)
    }

    /// What the registry is told, what the state keeps, and what became of the task.
    fn conclusion(&self, outcome: Outcome) -> (Vec<TaskTransition>, Value, JobEnd) {
        let fail = |error: String| vec![TaskTransition::Fail(Fail { error })];
        match outcome {
            Outcome::Ended(exit, messages) => {
                let result = self.result(exit, messages);
                let data = json!(result);
                match exit.is_success() {
                    true => (
                        vec![TaskTransition::Complete(Complete { result })],
                        data,
                        JobEnd::Completed,
                    ),
                    false => (fail(told(exit, &result)), data, JobEnd::Failed),
                }
            }
            Outcome::NotStarted(why) => {
                let result = json!({"success": false, "error": why});
                (fail(why), result, JobEnd::Failed)
            }
            Outcome::Cancelled => {
                let result = json!({"success": false, "status": "cancelled", "data": self.figures()});
                (vec![TaskTransition::Cancel], result, JobEnd::Cancelled)
            }
            Outcome::Stopped => {
                let mut steps = fail("WORKER_STOPPED".to_owned());
                steps.push(TaskTransition::Resume);
                (steps, Value::Null, JobEnd::Requeued)
            }
            Outcome::Lost => (Vec::new(), Value::Null, JobEnd::Lost),
        }
    }

    fn figures(&self) -> Value {
        json!({"cost": self.progress.cost(), "codons": self.progress.ended_codons()})
    }

    fn result(&self, exit: ProcessExit, messages: Vec<String>) -> TaskResult {
        let success = exit.is_success();
        let mut data = self.figures();
        data["exitCode"] = json!(exit.code());
        data["lastLines"] = json!(messages);
        TaskResult {
            success,
            status: Some(if success { "completed" } else { "failed" }.to_owned()),
            data: Some(data),
            error: messages.last().filter(|_| !success).cloned(),
            message: None,
            extra: Extra::default(),
        }
    }
}

/// How a run ended that did not do what it should, in a line.
fn told(exit: ProcessExit, result: &TaskResult) -> String {
    let what = match exit {
        ProcessExit::Exited(3) => "the run has paused and can go on when the task is resumed".to_owned(),
        ProcessExit::Exited(code) => format!("the run has ended with {code}"),
        ProcessExit::Signaled(signal) => format!("signal {signal} has ended the run"),
    };
    match &result.error {
        Some(error) => format!("{what}: {error}"),
        None => what,
    }
}
