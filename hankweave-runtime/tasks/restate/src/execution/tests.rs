//! Executions whose runs are real processes: a script takes the place of `hankweave`.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use hankweave_core::cost::Usd;
use hankweave_core::id::TaskId;
use hankweave_runtime::StopCause;
use hankweave_runtime::world::World;
use hankweave_task_model::LogQuery;
use hankweave_task_model::registry::{NewTask, TaskCost};
use hankweave_tasks::layers::{TaskLayers, WORKSPACE};
use hankweave_tasks::worker::{TaskSpec, WorkerOptions};
use serde_json::json;

use super::*;

struct Stage {
    folder: tempfile::TempDir,
    engine: Arc<RestateEngine>,
    kept: RestateTask,
}

/// Returns a task, and an engine whose runs execute `script`.
fn stage(script: &str) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hankweave");
    std::fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let world = World::real();
    let layers = TaskLayers::new(world.clone(), folder.path().join("root"));
    let mut options = WorkerOptions::new("w1", program);
    options.look = Duration::from_millis(20);
    let mut task = NewTask::new(TaskId::new("report-7").unwrap());
    let order = TaskSpec {
        hank: folder.path().join("hank"),
        data: None,
        arguments: Vec::new(),
    };
    order.put_into(&mut task.metadata).unwrap();
    Stage {
        kept: RestateTask::new(task, world.clock.now()),
        engine: Arc::new(RestateEngine::new(layers, world, options, |_| {})),
        folder,
    }
}

impl Stage {
    fn execution(&self) -> RestateExecution {
        RestateExecution::new(Arc::clone(&self.engine), &self.kept)
    }

    /// Records the next step and returns its name.
    async fn step(&mut self, execution: &mut RestateExecution) -> String {
        let step = execution.next(&self.kept).await.unwrap();
        let told = match &step {
            DurableStep::Task(row, _) => row.record.status().to_string(),
            DurableStep::Codon(success) => success.codon_id.to_string(),
        };
        self.kept.take(step);
        told
    }

    /// Records the steps of an execution until the task has ended.
    async fn steps(&mut self) -> Vec<String> {
        let (mut execution, mut told) = (self.execution(), Vec::new());
        while !matches!(told.last().map(String::as_str), Some("completed" | "failed")) {
            told.push(self.step(&mut execution).await);
        }
        told
    }

    /// Writes the history of killed runs, each with the success of one codon; the newest run comes first.
    fn record_successes(&self, successes: &[(&str, &str)]) {
        let execution = self.execution().files.path().join(WORKSPACE).join(".hankweave");
        std::fs::create_dir_all(&execution).unwrap();
        let runs: Vec<_> = successes
            .iter()
            .map(|(run, codon)| run_with(run, codon))
            .collect();
        let state = json!({"runs": runs, "currentRunId": null, "executionPlan": []});
        std::fs::write(execution.join("state.json"), state.to_string()).unwrap();
    }
}

fn run_with(run: &str, codon: &str) -> serde_json::Value {
    let at = "2026-02-03T10:00:00.000Z";
    let tokens = json!({"inputTokens": 1, "outputTokens": 1, "cacheCreationTokens": 0, "cacheReadTokens": 0});
    let codon = json!({
        "status": "completed", "codonId": codon, "startTime": at, "endTime": at, "exitCode": 0,
        "claudeSessionId": "s-1", "claudeLogPath": "x.log", "finalCost": 0.25, "finalTokens": tokens,
        "completionCheckpoint": "ed24e7f0667672b56b0654755225d7d99ff794b3", "resultMessageReceived": true,
    });
    json!({
        "runId": run, "runFolder": format!("/x/{run}"), "gitBranch": format!("run-{run}"), "codons": [codon],
        "startingConditions": {"type": "fresh", "initialCheckpointSha": "8db9c63849a5fedd358267d474294fad3cbe28f1"},
        "status": "completed", "startTime": at, "endTime": at, "serverPid": 1,
    })
}

// covers: TASK-87, TASK-121
#[tokio::test]
async fn a_success_that_only_the_run_has_recorded_is_recorded_once_before_the_run_goes_on() {
    let mut stage = stage("exit 1");
    let first = ("1795578587147-9tanmn-kmkxev", "draft");
    stage.record_successes(&[first]);
    assert_eq!(stage.steps().await, ["running", "draft", "failed"]);
    // A second start finds nothing unrecorded.
    assert_eq!(stage.steps().await, ["pending", "running", "failed"]);
    // A success of the same codon in another run is a separate success.
    stage.record_successes(&[("1795578587148-9tanmn-kmkxev", "draft"), first]);
    assert_eq!(stage.steps().await, ["pending", "running", "draft", "failed"]);
    // The task keeps the cost of both.
    let cost = TaskCost::of(&stage.kept.task.record).unwrap();
    assert_eq!(cost.cost, Usd::from_micros(500_000));
}

/// A worker that is killed before the first success is recorded leaves two of them to the next worker.
// covers: TASK-87
#[tokio::test]
async fn of_successes_that_are_not_recorded_the_oldest_comes_first() {
    let mut stage = stage("exit 0");
    stage.record_successes(&[
        ("1795578587148-9tanmn-kmkxev", "review"),
        ("1795578587147-9tanmn-kmkxev", "draft"),
    ]);
    assert_eq!(stage.steps().await, ["running", "draft", "review", "completed"]);
}

// covers: TASK-87
#[tokio::test]
async fn a_task_whose_worker_is_gone_waits_again_and_keeps_its_log() {
    let mut stage = stage("echo $$ > pid; exec sleep 600");
    let mut killed = stage.execution();
    assert_eq!(stage.step(&mut killed).await, "running");
    drop(killed);
    let mut execution = stage.execution();
    assert_eq!(stage.step(&mut execution).await, "pending");
    assert_eq!(stage.step(&mut execution).await, "running");
    execution.cancel().await.unwrap();
    assert_eq!(stage.step(&mut execution).await, "cancelled");
    let seqs = stage.kept.log.iter().map(|line| line.seq);
    assert!(seqs.eq((1..=6).map(Some)), "{:?}", stage.kept.log);
    // After a worker was killed at this moment, the next one updates the files.
    drop(execution);
    stage.execution().finish(&stage.kept).await.unwrap();
    let files = stage.execution().files;
    assert_eq!(files.load_state().unwrap().unwrap().status, TaskStatus::Cancelled);
    let log = files.load_log(&LogQuery::default()).unwrap().entries;
    let mut seqs: Vec<_> = log.iter().filter_map(|line| line.seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=6).collect::<Vec<u64>>());
    assert_eq!(stage.step(&mut stage.execution()).await, "pending");
}

// covers: TASK-88
#[tokio::test]
async fn a_task_that_is_called_off_before_it_runs_is_never_begun() {
    let mut stage = stage("touch ../../../begun");
    let mut execution = stage.execution();
    execution.cancel().await.unwrap();
    assert_eq!(stage.step(&mut execution).await, "cancelled");
    assert!(!stage.folder.path().join("begun").exists());
}

// covers: CLI-60
#[tokio::test]
async fn a_worker_that_stops_begins_nothing_and_says_so() {
    let stage = stage("exit 0");
    stage.engine.shutdown.request(StopCause::Interrupt);
    let refused = stage.execution().next(&stage.kept).await;
    assert!(matches!(refused, Err(Interrupted::Stopping)), "{refused:?}");
}
