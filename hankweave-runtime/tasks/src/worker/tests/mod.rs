//! Workers whose runs are real processes: a script takes the place of `hankweave`.

mod away;
mod hooks;
mod steps;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::{AgentId, TaskId};
use hankweave_runtime::world::World;
use hankweave_runtime::{Shutdown, StopCause};
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{NewTask, Patch, RegistryChange, TaskRow};
use hankweave_task_model::task::{Start, TaskStatus, TaskTransition};
use hankweave_task_model::{Holder, LogQuery, TaskState};
use serde_json::{Value, json};

use super::*;
use crate::coordinator::{Acquire, Claim, Coordinator, Create, ExclusiveHold, Release};
use crate::layers::{TaskFiles, TaskLayers, WORKSPACE};
use crate::lifecycle::{TaskAnswer, TaskStep};
use crate::memory::Memory;
use crate::recorder::Recorder;

/// Script of a codon that succeeds, with the events of `hankweave run --json`.
const CODON: &str = r#"echo '{"type":"codon.started","data":{"codonId":"draft"}}'
echo '{"type":"codon.completed","data":{"codonId":"draft","success":true,"cost":0.25,"duration":7}}'
"#;

struct Stage {
    folder: tempfile::TempDir,
    coordinator: Arc<dyn Coordinator>,
    files: TaskFiles,
    worker: Worker,
}

/// Creates a task, and a worker whose runs execute `script`.
async fn stage(script: &str, change: impl FnOnce(&mut WorkerOptions)) -> Stage {
    let coordinator: Arc<dyn Coordinator> = Arc::new(Memory::new(World::real().clock));
    stage_on(coordinator, script, change).await
}

/// Like `stage`, on this registry.
async fn stage_on(
    coordinator: Arc<dyn Coordinator>,
    script: &str,
    change: impl FnOnce(&mut WorkerOptions),
) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hankweave");
    std::fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let world = World::real();
    let layers = TaskLayers::new(world.clone(), folder.path().join("root"));
    let mut task = NewTask::new(TaskId::new("report-7").unwrap());
    let order = TaskSpec {
        hank: folder.path().join("hank"),
        data: None,
        arguments: Vec::new(),
    };
    order.put_into(&mut task.metadata).unwrap();
    coordinator.create(Create { task, hold: None }).await.unwrap();
    let mut options = WorkerOptions::new("w1", program);
    options.lease = Duration::from_millis(600);
    options.look = Duration::from_millis(20);
    options.grace = Duration::from_secs(5);
    options.orphan_after = Duration::ZERO;
    options.once = true;
    change(&mut options);
    Stage {
        files: layers.task(TaskId::new("report-7").unwrap()),
        worker: Worker::new(coordinator.clone(), layers, world, options),
        folder,
        coordinator,
    }
}

impl Stage {
    async fn row(&self) -> TaskRow {
        self.coordinator
            .task(self.files.id().clone())
            .await
            .unwrap()
            .unwrap()
    }

    fn state(&self) -> TaskState {
        self.files.load_state().unwrap().unwrap()
    }

    fn lines(&self) -> Vec<String> {
        let logs = self.files.load_log(&LogQuery::default()).unwrap();
        assert_eq!(logs.broken, 0);
        logs.entries.into_iter().map(|entry| entry.message).collect()
    }

    /// Runs the worker concurrently with `act`, which can stop it.
    async fn beside<T>(&self, act: impl AsyncFnOnce(&Shutdown) -> T) -> (WorkerSummary, T) {
        let shutdown = Shutdown::new();
        let (worked, acted) = tokio::join!(self.worker.work(&shutdown), act(&shutdown));
        (worked.unwrap(), acted)
    }

    /// Records a run that was killed in its first codon.
    fn record_run(&self) {
        self.record(&json!({"status": "crashed"}), &json!([]));
    }

    /// Records a run with these fields and a plan in the workspace.
    fn record(&self, fields: &Value, plan: &Value) {
        let folder = self.files.path().join(WORKSPACE).join(".hankweave");
        std::fs::create_dir_all(&folder).unwrap();
        let mut run = json!({
            "runId": "1795578587147-9tanmn-kmkxev", "runFolder": "/x", "gitBranch": "run-1", "codons": [],
            "startingConditions": {"type": "fresh", "initialCheckpointSha": "8db9c63849a5fedd358267d474294fad3cbe28f1"},
            "startTime": "2026-02-03T10:00:00.000Z", "endTime": "2026-02-03T10:00:00.000Z", "serverPid": 1,
        });
        let fields = fields.as_object().unwrap().clone();
        run.as_object_mut().unwrap().extend(fields);
        let state = json!({"runs": [run], "currentRunId": null, "executionPlan": plan});
        std::fs::write(folder.join("state.json"), state.to_string()).unwrap();
    }

    /// Starts the task for a worker of another process.
    async fn start_elsewhere(&self) -> Holder {
        let hold = ExclusiveHold {
            holder: Holder::new("lifecycle:gone", "1"),
            lease: Some(Duration::from_secs(60)),
        };
        let claim = Claim {
            owner: None,
            except: BTreeSet::new(),
            hold: hold.clone(),
        };
        let claimed = self.coordinator.claim(claim).await.unwrap().unwrap();
        let start = TaskTransition::Start(Start {
            agent_id: AgentId::new("gone").unwrap(),
            by_hand: false,
        });
        let change = RegistryChange {
            id: self.files.id().clone(),
            expected_version: 1,
            token: claimed.held.unwrap().token,
            steps: vec![start],
            cost: None,
            approval: None,
            by: None,
            lease: None,
            files: Patch::Keep,
        };
        self.coordinator.change(change).await.unwrap();
        hold.holder
    }

    /// Ends the lease of that worker, so that the task is an orphan.
    async fn lose_worker(&self, holder: Holder) {
        let release = Release {
            resource: "task:report-7".into(),
            holder,
            written: None,
        };
        self.coordinator.release(release).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    /// Records a run in the workspace that has paused for the approval of its only codon.
    fn record_approval_pause(&self) {
        let codon = json!({
            "id": "publish", "name": "Publish", "model": "m", "continuationMode": "fresh", "promptText": "x",
            "agent": {"script": "s.json"}, "approval": "Publish it?",
        });
        let hank = self.folder.path().join("hank.json");
        std::fs::write(&hank, json!({"hank": [codon]}).to_string()).unwrap();
        std::fs::write(self.folder.path().join("s.json"), "{}").unwrap();
        let plan = json!([{"codonId": "publish", "codon": codon}]);
        self.record(&json!({"status": "failed", "interruptedBy": "approval"}), &plan);
        let folder = self.files.path().join(WORKSPACE).join(".hankweave");
        let meta = json!({"hankPath": hank, "hankHash": "0".repeat(64)});
        std::fs::write(folder.join("execution-meta.json"), meta.to_string()).unwrap();
    }

    /// Waits until the run has created this file.
    async fn until(&self, name: &str) {
        while !self.folder.path().join(name).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn status(&self) -> (TaskStatus, Value) {
        let row = self.row().await;
        (row.record.status(), serde_json::to_value(&row).unwrap())
    }
}

/// Returns a script that reports its start, and ends on SIGTERM with a note of that.
fn until_terminated(folder: &str) -> String {
    format!(
        "trap 'echo > {folder}/terminated; exit 143' TERM\necho > {folder}/started\nwhile :; do sleep 0.01; done\n"
    )
}

// covers: TASK-53, TASK-54, TASK-55, TASK-59, TASK-70
#[tokio::test]
async fn a_task_is_claimed_run_and_completed_with_what_it_did() {
    let stage = stage(&format!("{CODON}echo \"$*\" > args\necho well >&2"), |_| {}).await;
    let (worked, ()) = stage.beside(async |_| ()).await;
    assert_eq!(
        worked,
        WorkerSummary {
            completed: 1,
            ..WorkerSummary::default()
        }
    );
    let (status, row) = stage.status().await;
    assert_eq!((status, &row["agentId"]), (TaskStatus::Completed, &json!("w1")));
    let result = &row["result"];
    assert_eq!(
        (
            &result["success"],
            &result["data"]["exitCode"],
            &result["data"]["lastLines"]
        ),
        (&json!(true), &json!(0), &json!(["well"]))
    );
    let state = stage.state();
    assert_eq!(
        (state.status, &state.data["cost"], &state.data["codons"][0]["id"]),
        (TaskStatus::Completed, &json!(0.25), &json!("draft"))
    );
    assert_eq!(state.data["result"]["success"], true);
    let expected = [
        "Task created",
        "Task started by agent w1",
        "Codon draft started",
        "Codon draft completed",
        "Task completed successfully",
    ];
    assert_eq!(stage.lines(), expected);
    let checkpoints = stage.files.checkpoints().unwrap().valid;
    let descriptions: Vec<&str> = checkpoints
        .iter()
        .map(|manifest| manifest.description.as_str())
        .collect();
    assert_eq!(descriptions, ["before completion", "codon draft completed"]);
    let workspace = stage.files.path().join("workspace");
    let args = std::fs::read_to_string(workspace.join("args")).unwrap();
    let hank = stage.folder.path().join("hank");
    let workspace = workspace.canonicalize().unwrap();
    assert_eq!(
        args.trim(),
        format!(
            "run {} -e {} --headless --json",
            hank.display(),
            workspace.display()
        )
    );
    assert!(stage.coordinator.held().await.unwrap().is_empty());
    assert!(stage.coordinator.unwritten(9).await.unwrap().is_empty());
    let page = stage.worker.page().await;
    for line in [
        "hankweave_task_transitions_total{to=\"running\"} 1",
        "hankweave_task_transitions_total{to=\"completed\"} 1",
        "hankweave_tasks_claimed_total 1",
        "hankweave_tasks_running 0",
        "hankweave_locks_granted_total 3",
        "hankweave_locks_active 0",
        "hankweave_task_transition_seconds_count 2",
        "hankweave_persistence_operations_total{layer=\"checkpoints\",operation=\"save\"} 2",
        "hankweave_persistence_failures_total{layer=\"logs\",operation=\"save\"} 0",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
    }
}

// covers: TASK-55
#[tokio::test]
async fn a_run_that_fails_fails_its_task_and_says_why() {
    let stage = stage("echo 'error: no ink' >&2; exit 1", |_| {}).await;
    let (worked, ()) = stage.beside(async |_| ()).await;
    assert_eq!(worked.failed, 1);
    let (status, row) = stage.status().await;
    assert_eq!(
        (status, &row["error"]),
        (TaskStatus::Failed, &json!("no ink (the run exited with code 1)"))
    );
    assert_eq!(stage.state().data["result"]["data"]["exitCode"], 1);
}

/// Prints a step of a run's own machines, as `hankweave run --json` does.
fn step_event(kind: &str, data: &Value) -> String {
    let event = json!({"type": "state.transition", "data": {"transition": {"type": kind, "data": data}}});
    format!("echo '{event}'\n")
}

// covers: TASK-122
#[tokio::test]
async fn a_failed_task_names_its_codon_the_cause_the_last_lines_and_the_command_for_more() {
    let failed = json!({
        "codonId": "page", "from": "running", "to": "failed",
        "metadata": {"failureReason": {"type": "unknown", "retriable": true, "message": "the tests are red"}},
    });
    let said = json!({"type": "assistant.action", "data": {"codonId": "page", "action": "message", "content": "2 of 7 failed\nsee page.rs"}});
    let script = step_event("CodonStarted", &json!({"codonId": "page"}))
        + &format!("printf '%s\\n' '{said}'\n")
        + &step_event("CodonTransitioned", &failed)
        + "echo 'page: http://127.0.0.1:33105/ (`hankweave page` prints the address)' >&2\nexit 1\n";
    let stage = stage(&script, |_| {}).await;
    stage.beside(async |_| ()).await;
    let (status, row) = stage.status().await;
    assert_eq!(
        (status, &row["error"]),
        (TaskStatus::Failed, &json!("page: the tests are red"))
    );
    let workspace = stage.files.path().join(WORKSPACE);
    let failure = json!({
        "cause": "the tests are red", "codonId": "page", "lastLines": ["2 of 7 failed", "see page.rs"],
        "command": format!("hankweave logs page -e {}", workspace.display()),
    });
    assert_eq!(
        (&row["failure"], &row["metadata"]["failure"]),
        (&failure, &failure)
    );
    assert_eq!(row["metadata"]["error"], row["error"]);
    let result = &stage.state().data["result"];
    assert_eq!(
        (&result["error"], &result["data"]["failure"]),
        (&row["error"], &failure)
    );
    let logs = stage.files.load_log(&LogQuery::default()).unwrap();
    let line = logs.entries.last().unwrap();
    assert_eq!(line.data.as_ref().unwrap()["failure"], failure);
}

// covers: TASK-122
#[tokio::test]
async fn a_pause_says_what_it_is_about() {
    for (by, cause) in [
        ("ceiling", "paused: the total budget is spent"),
        (
            "usage-limit",
            "paused: the usage limit of the provider is reached",
        ),
    ] {
        let script = step_event("RunFailed", &json!({"interruptedBy": by})) + "exit 3\n";
        let stage = stage(&script, |_| {}).await;
        stage.beside(async |_| ()).await;
        assert_eq!(stage.status().await.1["error"], cause);
    }
}

// covers: TASK-123
#[tokio::test]
async fn a_task_whose_codon_needs_an_approval_waits_and_continues_when_it_is_given() {
    let script = "test -e approved && exit 0; exit 3\n";
    for granted in [true, false] {
        let stage = stage(script, |_| {}).await;
        stage.record_approval_pause();
        let (worked, ()) = stage.beside(async |_| ()).await;
        assert_eq!((worked.waiting, worked.failed), (1, 0));
        let (status, row) = stage.status().await;
        assert_eq!(
            (status, &row["codonId"], &row["question"]),
            (TaskStatus::Waiting, &json!("publish"), &json!("Publish it?"))
        );
        assert_eq!(
            stage.lines().last().unwrap(),
            "Task waits for an approval of publish: Publish it?"
        );
        // No worker claims it, and it is no orphan.
        assert_eq!(stage.beside(async |_| ()).await.0, WorkerSummary::default());
        assert!(
            stage
                .coordinator
                .orphans(Duration::ZERO)
                .await
                .unwrap()
                .is_empty()
        );
        let lifecycle = stage.worker.lifecycle();
        let refused = lifecycle.resume(stage.files.id(), None).await.unwrap_err();
        assert_eq!(refused.code(), "INVALID_TRANSITION");
        std::fs::write(stage.files.path().join(WORKSPACE).join("approved"), "").unwrap();
        let answer = TaskStep::Answer(TaskAnswer {
            granted,
            by: "ann".to_owned(),
            reason: Some("checked".to_owned()),
        });
        lifecycle.take(stage.files.id(), &answer).await.unwrap();
        stage.beside(async |_| ()).await;
        let (status, row) = stage.status().await;
        let approval = &row["metadata"]["approval"];
        assert_eq!(
            (&approval["by"], &approval["granted"]),
            (&json!("ann"), &json!(granted))
        );
        match granted {
            true => assert_eq!((status, &row["attempt"]), (TaskStatus::Completed, &json!(1))),
            false => assert_eq!(
                (status, &row["error"]),
                (TaskStatus::Failed, &json!("publish: denied by ann: checked"))
            ),
        }
        let again = lifecycle.take(stage.files.id(), &answer).await.unwrap_err();
        assert!(
            again.to_string().contains("only a task that is waiting can be"),
            "{again}"
        );
    }
}

// covers: TASK-123
#[tokio::test]
async fn an_answer_of_a_client_to_the_live_run_is_noted_in_the_registry() {
    for (by, shown) in [(Value::Null, "a client of its run"), (json!("ann"), "ann")] {
        let answer = json!({"approval": {"codonId": "publish", "granted": true, "reason": "go", "by": by}});
        let withdrawn = json!({"approval": null});
        let script = step_event("ApprovalSet", &withdrawn) + &step_event("ApprovalSet", &answer);
        let stage = stage(&script, |_| {}).await;
        stage.beside(async |_| ()).await;
        let (status, row) = stage.status().await;
        assert_eq!(status, TaskStatus::Completed);
        let approval = &row["metadata"]["approval"];
        assert_eq!(
            (&approval["codonId"], &approval["granted"], &approval["by"]),
            (&json!("publish"), &json!(true), &json!(shown))
        );
        assert!(approval["at"].is_string(), "{approval}");
        let line = format!("publish approved by {shown}: go");
        assert!(stage.lines().contains(&line), "{:?}", stage.lines());
    }
}

// covers: TASK-55
#[tokio::test]
async fn a_task_without_a_hank_fails_and_harms_no_other() {
    let stage = stage("exit 0", |_| {}).await;
    let task = NewTask::new(TaskId::new("empty").unwrap());
    stage
        .coordinator
        .create(Create { task, hold: None })
        .await
        .unwrap();
    let (worked, ()) = stage.beside(async |_| ()).await;
    assert_eq!((worked.completed, worked.failed), (1, 1));
}

// covers: TASK-57
#[tokio::test]
async fn a_task_that_is_called_off_is_stopped_in_order() {
    let stage = stage("", |_| {}).await;
    let folder = stage.folder.path().display().to_string();
    std::fs::write(
        stage.folder.path().join("hankweave"),
        format!("#!/bin/sh\n{}", until_terminated(&folder)),
    )
    .unwrap();
    let (worked, ()) = stage
        .beside(async |_| {
            stage.until("started").await;
            stage
                .coordinator
                .request_cancel(stage.files.id().clone(), Some("ann".to_owned()))
                .await
                .unwrap();
        })
        .await;
    assert_eq!(worked.cancelled, 1);
    assert!(stage.folder.path().join("terminated").exists());
    assert_eq!(stage.status().await.0, TaskStatus::Cancelled);
    assert_eq!(stage.state().data["result"]["status"], "cancelled");
}

// covers: TASK-57
#[tokio::test]
async fn a_worker_that_is_stopped_lets_its_task_wait_for_another() {
    let stage = stage("", |options| options.once = false).await;
    let folder = stage.folder.path().display().to_string();
    std::fs::write(
        stage.folder.path().join("hankweave"),
        format!("#!/bin/sh\n{}", until_terminated(&folder)),
    )
    .unwrap();
    let (worked, ()) = stage
        .beside(async |shutdown| {
            stage.until("started").await;
            shutdown.request(StopCause::Terminate);
        })
        .await;
    assert_eq!(worked.requeued, 1);
    assert!(stage.folder.path().join("terminated").exists());
    let (status, row) = stage.status().await;
    assert_eq!((status, &row["attempt"]), (TaskStatus::Pending, &json!(2)));
    assert!(stage.coordinator.held().await.unwrap().is_empty());
}

// covers: TASK-52, TASK-56
#[tokio::test]
async fn a_worker_that_loses_its_task_stops_the_run_and_writes_nothing_more() {
    let stage = stage("", |options| options.orphans = OrphanPolicyConfig::Leave).await;
    let folder = stage.folder.path().display().to_string();
    std::fs::write(
        stage.folder.path().join("hankweave"),
        format!("#!/bin/sh\n{}", until_terminated(&folder)),
    )
    .unwrap();
    let (worked, before) = stage
        .beside(async |_| {
            stage.until("started").await;
            assert_eq!(
                stage
                    .coordinator
                    .emergency_clean_up("lifecycle:w1".into())
                    .await
                    .unwrap(),
                1,
                "its task; its presence stays"
            );
            (stage.row().await, stage.state(), stage.lines())
        })
        .await;
    assert_eq!(worked.lost, 1);
    assert!(stage.folder.path().join("terminated").exists());
    assert_eq!((stage.row().await, stage.state(), stage.lines()), before);
    let mut worker = stage.worker.clone();
    let mut options = WorkerOptions::clone(&worker.options);
    (options.name, options.orphans) = ("w2".into(), OrphanPolicyConfig::Requeue { tries: 5 });
    std::fs::write(
        stage.folder.path().join("hankweave"),
        format!("#!/bin/sh\n{CODON}"),
    )
    .unwrap();
    worker.options = Arc::new(options);
    assert_eq!(worker.work(&Shutdown::new()).await.unwrap().completed, 1);
    let (status, row) = stage.status().await;
    assert_eq!(
        (status, &row["attempt"], &row["agentId"]),
        (TaskStatus::Completed, &json!(2), &json!("w2"))
    );
}

// covers: TASK-56
#[tokio::test]
async fn a_task_that_was_orphaned_too_often_fails() {
    let too_often = "ORPHANED: 1 of 1 attempts in a row have lost their workers, so it is not requeued again";
    for (orphans, error) in [
        (OrphanPolicyConfig::Requeue { tries: 1 }, too_often),
        (OrphanPolicyConfig::Fail, "ORPHANED"),
    ] {
        let stage = stage(CODON, |options| options.orphans = orphans).await;
        let holder = stage.start_elsewhere().await;
        // With a live lease it is no orphan, whatever its age.
        assert_eq!(stage.beside(async |_| ()).await.0, WorkerSummary::default());
        assert_eq!(stage.status().await.0, TaskStatus::Running);
        stage.lose_worker(holder).await;
        assert_eq!(stage.beside(async |_| ()).await.0, WorkerSummary::default());
        let (status, row) = stage.status().await;
        assert_eq!((status, &row["error"]), (TaskStatus::Failed, &json!(error)));
        assert_eq!(
            stage.lines(),
            ["Task created", "Task started by agent gone", "Task failed"]
        );
    }
}

// covers: TASK-56
#[tokio::test]
async fn an_orphan_whose_run_had_completed_is_completed_and_not_failed() {
    let stage = stage(CODON, |options| options.orphans = OrphanPolicyConfig::Fail).await;
    let holder = stage.start_elsewhere().await;
    stage.record(&json!({"status": "completed"}), &json!([]));
    stage.lose_worker(holder).await;
    assert_eq!(stage.beside(async |_| ()).await.0.completed, 1);
    assert_eq!(stage.status().await.0, TaskStatus::Completed);
}

// covers: TASK-58
#[tokio::test]
async fn a_workspace_that_is_still_held_is_waited_for() {
    let script = "test -e tried && exit 0; echo > tried; exit 75";
    let stage = stage(script, |_| {}).await;
    let (worked, ()) = stage.beside(async |_| ()).await;
    assert_eq!(worked.completed, 1);
}

// covers: TASK-86
#[tokio::test]
async fn a_worker_goes_on_only_when_what_it_did_is_recorded() {
    let stage = stage(CODON, |_| {}).await;
    let (recorder, mut reports) = Recorder::new();
    let worker = stage.worker.clone().with_recorder(recorder);
    let shutdown = Shutdown::new();
    stage.record_run();
    let recording = async {
        let started = reports.next().await.unwrap();
        assert_eq!(stage.status().await.0, TaskStatus::Running);
        // The files are updated after the record, never before.
        assert_eq!(stage.state().status, TaskStatus::Pending);
        assert_eq!(started.history, None);
        drop(started);
        for checkpoints in [0, 1, 1] {
            let codons = reports.next().await.unwrap();
            assert_eq!(codons.history.as_ref().unwrap().runs.len(), 1);
            assert_eq!(stage.files.checkpoints().unwrap().valid.len(), checkpoints);
            assert_eq!(stage.status().await.0, TaskStatus::Running);
        }
        let completed = reports.next().await.unwrap();
        assert_eq!(stage.status().await.0, TaskStatus::Completed);
        assert_eq!(stage.state().status, TaskStatus::Running);
        assert_eq!(completed.history, None);
        drop(completed);
    };
    let (worked, ()) = tokio::join!(worker.work(&shutdown), recording);
    assert_eq!(worked.unwrap().completed, 1);
    assert_eq!(stage.state().status, TaskStatus::Completed);
}

// covers: TASK-86
#[tokio::test]
async fn a_task_that_was_kept_elsewhere_goes_on_with_its_lines_behind_its_token() {
    let stage = stage("exit 1", |_| {}).await;
    stage.beside(async |_| ()).await;
    let (row, id) = (stage.row().await, stage.files.id().clone());
    let lines = stage.coordinator.log_lines(id.clone(), 0).await.unwrap();
    let kept = Memory::holding(World::real().clock, &row, lines.clone());
    assert_eq!(kept.log_lines(id.clone(), 0).await.unwrap(), lines);
    let acquired = kept.acquire(Acquire {
        resource: TaskRow::lock_name(&id),
        holder: Holder::new("w2", "x"),
        mode: LockMode::Exclusive,
        lease: None,
        in_order: false,
        task: Some(id.clone()),
    });
    let token = acquired.await.unwrap().held.token;
    assert!(token > row.fencing_token, "{token}");
    let resume = RegistryChange {
        id,
        expected_version: row.version,
        token,
        steps: vec![TaskTransition::Resume],
        cost: None,
        approval: None,
        by: None,
        lease: None,
        files: Patch::Keep,
    };
    let resumed = kept.change(resume).await.unwrap();
    assert_eq!(resumed.lines[0].seq, Some(row.log_seq + 1));
}
