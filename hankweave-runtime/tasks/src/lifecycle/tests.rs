mod codes;
mod hooks;
mod steps;
mod told;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::pending;
use hankweave_core::id::{AgentId, TaskId};
use hankweave_runtime::world::World;
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::Clock;
use hankweave_task_model::registry::{NewTask, Patch, TaskPatch};
use hankweave_task_model::task::TaskStatus;
use hankweave_task_model::{DEFAULT_PRIORITY, HookPoint, HookPolicy, LogQuery, TaskError};
use serde_json::{Value, json};

use super::{HookRun, Lifecycle, OrphanAction};
use crate::coordinator::{Coordinator, Create, UpdateTask};
use crate::layers::TaskLayers;
use crate::locks::Locks;
use crate::memory::Memory;
use crate::testing::on_event;

struct Stage {
    lifecycle: Lifecycle,
    coordinator: Arc<Memory>,
    layers: TaskLayers,
    locks: Locks,
    /// Events in order.
    trace: Trace,
    _folder: tempfile::TempDir,
}

type Trace = Arc<Mutex<Vec<String>>>;

impl Stage {
    fn new() -> Self {
        Self::by_clock(World::real().clock)
    }

    fn by_clock(clock: Arc<dyn Clock>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = World {
            clock,
            blocking: Blocking::Inline,
            ..World::real()
        };
        let coordinator = Arc::new(Memory::new(world.clock.clone()));
        let locks = Locks::new(coordinator.clone(), world.ids.clone());
        let layers = TaskLayers::new(world, folder.path().join("tasks"));
        let lifecycle = Lifecycle::new(coordinator.clone(), locks.clone(), layers.clone());
        Self {
            lifecycle,
            coordinator,
            layers,
            locks,
            trace: Trace::default(),
            _folder: folder,
        }
    }

    fn hook(&self, point: HookPoint, name: &str, priority: i64) -> String {
        let (trace, name) = (self.trace.clone(), format!("hook:{name}"));
        let run = HookRun::new(move |_| {
            trace.lock().unwrap().push(name.clone());
            async { Ok(()) }
        });
        self.lifecycle
            .register(point, priority, HookPolicy::Continue, run)
            .to_string()
    }

    async fn create(&self, name: &str) {
        self.lifecycle.create(NewTask::new(id(name))).await.unwrap();
    }
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn agent(text: &str) -> AgentId {
    AgentId::new(text).unwrap()
}

/// Records what is logged about locks, the registry and the files.
fn record(trace: &Trace) {
    let trace = trace.clone();
    on_event(move |event| {
        let field = |name| event.field(name);
        let line = match (field("message"), field("operation")) {
            ("Lock operation", "acquire") => format!("lock:{}", field("resource")),
            ("Lock operation", _) => format!("unlock:{}", field("resource")),
            ("State transition", _) => format!("registry:{}->{}", field("fromState"), field("toState")),
            ("Persistence operation", "save") if field("layer") == "logs" => "log".to_owned(),
            _ => return,
        };
        trace.lock().unwrap().push(line);
    });
}

async fn play(stage: &Stage, op: &Value) {
    let (args, expect) = (&op["args"], &op["expect"]);
    let text = |name: &str| args[name].as_str().unwrap_or_default().to_owned();
    let task = || id(args["id"].as_str().unwrap());
    stage.trace.lock().unwrap().clear();
    let row = match op["op"].as_str().unwrap() {
        "hook" => {
            let points = [HookPoint::BeforeStart, HookPoint::AfterFail];
            let point = points
                .into_iter()
                .find(|point| point.name() == args["point"])
                .unwrap();
            let priority = args["priority"].as_i64().unwrap_or(DEFAULT_PRIORITY);
            return assert_eq!(stage.hook(point, &text("name"), priority), expect["hookId"]);
        }
        "create" => {
            let mut new = NewTask::new(task());
            new.name = args["name"].as_str().map_or(new.name, str::to_owned);
            new.owner = args["owner"].as_str().map_or(new.owner, str::to_owned);
            new.metadata = args["metadata"].as_object().cloned().unwrap_or_default();
            stage.lifecycle.create(new).await.unwrap()
        }
        "start" => stage
            .lifecycle
            .start(&task(), agent(&text("agentId")))
            .await
            .unwrap(),
        "complete" => {
            let result = serde_json::from_value(args["result"].clone()).unwrap();
            stage.lifecycle.complete(&task(), result).await.unwrap()
        }
        "fail" => stage.lifecycle.fail(&task(), text("error")).await.unwrap(),
        "get" => {
            let row = serde_json::to_value(stage.coordinator.task(task()).await.unwrap().unwrap()).unwrap();
            for (name, value) in expect["task"].as_object().unwrap() {
                assert_eq!(row[name], *value, "{name}");
            }
            return;
        }
        other => panic!("{other}"),
    };
    assert_eq!(
        (json!(row.version), json!(row.record.status())),
        (expect["version"].clone(), expect["status"].clone())
    );
    if let Some(expected) = op["expect_trace"].as_array() {
        let trace = stage.trace.lock().unwrap().clone();
        // The level of the line and the note in the metadata are part of the commit.
        let expected: Vec<&str> = expected.iter().map(|line| line.as_str().unwrap()).collect();
        let expected = expected
            .iter()
            .filter(|line| **line != "metadata:error")
            .map(|line| match line.starts_with("log:") {
                true => "log",
                false => line,
            });
        assert!(trace.iter().eq(expected), "{trace:?}");
    }
}

// covers: TASK-17, TASK-32
#[tokio::test]
async fn examples_of_steps_hold_and_each_happens_in_its_order() {
    for example in [
        include_str!("lifecycle-complete.json"),
        include_str!("hooks-order.json"),
    ] {
        let (stage, example): (_, Value) = (Stage::new(), serde_json::from_str(example).unwrap());
        record(&stage.trace);
        for op in example["ops"].as_array().unwrap() {
            play(&stage, op).await;
        }
    }
}

// covers: TASK-32
#[tokio::test]
async fn a_refused_step_runs_its_hooks_before_gives_the_lock_back_and_changes_nothing() {
    let stage = Stage::new();
    stage.create("fix-3").await;
    stage.hook(HookPoint::BeforeComplete, "before", 10);
    stage.hook(HookPoint::AfterComplete, "after", 10);
    let before = stage.coordinator.task(id("fix-3")).await;
    let result = serde_json::from_value(json!({"success": true})).unwrap();
    let refused = stage.lifecycle.complete(&id("fix-3"), result).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "task `fix-3` is pending; only a task that is running can be completed"
    );
    assert_eq!(*stage.trace.lock().unwrap(), ["hook:before"]);
    assert_eq!(stage.coordinator.task(id("fix-3")).await, before);
    assert_eq!(stage.coordinator.held().await, Ok(vec![]));
    let nobody = stage.lifecycle.cancel(&id("nobody")).await.unwrap_err();
    assert_eq!(nobody.code(), "TASK_NOT_FOUND");
}

// covers: TASK-35
#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_panics_or_hangs_stops_a_step_only_with_a_veto() {
    let stage = Stage::new();
    stage.create("fix-3").await;
    let fails = || HookRun::new(|_| async { Err("no disk".to_owned()) });
    let panics = || HookRun::new(|_| async { panic!("planned") });
    let hangs = || HookRun::new(|_| pending());
    let start = async || stage.lifecycle.start(&id("fix-3"), agent("coder")).await;
    for (run, code) in [
        (fails(), "HOOK_VETO"),
        (panics(), "HOOK_VETO"),
        (hangs(), "HOOK_TIMEOUT"),
    ] {
        let hook = stage
            .lifecycle
            .register(HookPoint::BeforeStart, 0, HookPolicy::Veto, run);
        assert_eq!(start().await.unwrap_err().code(), code);
        assert!(stage.lifecycle.unregister(hook));
    }
    for run in [fails(), panics()] {
        stage
            .lifecycle
            .register(HookPoint::BeforeStart, 0, HookPolicy::Continue, run.clone());
        stage
            .lifecycle
            .register(HookPoint::AfterStart, 0, HookPolicy::Veto, run);
    }
    assert_eq!(start().await.unwrap().record.status(), TaskStatus::Running);
    assert_eq!(stage.lifecycle.metrics().failed_hooks.get(), 7);
    // Two hooks that hang use up the time of a step.
    for _ in 0..3 {
        stage
            .lifecycle
            .register(HookPoint::BeforeFail, 0, HookPolicy::Continue, hangs());
    }
    let late = stage
        .lifecycle
        .fail(&id("fix-3"), "red".to_owned())
        .await
        .unwrap_err();
    assert_eq!(late.code(), "LOCK_TIMEOUT");
}

// covers: TASK-33
#[tokio::test]
async fn files_follow_each_step_and_a_start_mends_what_a_crash_left() {
    let stage = Stage::new();
    stage.create("fix-3").await;
    stage.lifecycle.start(&id("fix-3"), agent("coder")).await.unwrap();
    let files = stage.layers.task(id("fix-3"));
    let seqs = || files.log_seqs().unwrap().into_iter().collect::<Vec<u64>>();
    assert_eq!(
        (seqs(), files.load_state().unwrap().unwrap().status),
        (vec![1, 2], TaskStatus::Running)
    );
    assert_eq!(stage.coordinator.unwritten(9).await, Ok(vec![]));
    // As after a crash after the commit: the registry has a task without files, and a deleted task still has files.
    stage
        .coordinator
        .create(Create {
            task: NewTask::new(id("late")),
            hold: None,
        })
        .await
        .unwrap();
    stage.create("gone").await;
    stage.lifecycle.cancel(&id("gone")).await.unwrap();
    let state = stage.layers.task(id("gone")).load_state().unwrap().unwrap();
    stage.lifecycle.delete(&id("gone")).await.unwrap();
    assert!(!stage.layers.task(id("gone")).path().exists());
    stage.layers.task(id("gone")).save_state(&state).unwrap();
    let recovered = stage
        .lifecycle
        .recover(OrphanAction::Report, Duration::from_secs(300))
        .await
        .unwrap();
    assert_eq!(
        (recovered.followed, recovered.removed),
        (vec![id("late")], vec![id("gone")])
    );
    assert!(recovered.orphans.is_empty(), "it was changed a moment ago");
    let late = stage
        .layers
        .task(id("late"))
        .load_log(&LogQuery::default())
        .unwrap()
        .entries;
    assert_eq!((late.len(), late[0].seq), (1, Some(1)));
    let again = stage
        .lifecycle
        .recover(OrphanAction::Report, Duration::from_secs(300))
        .await
        .unwrap();
    assert!(again.followed.is_empty() && again.removed.is_empty());
    let resumed = stage
        .lifecycle
        .fail(&id("fix-3"), "red".to_owned())
        .await
        .unwrap();
    assert_eq!(resumed.record.metadata()["error"], "red");
    let resumed = stage.lifecycle.resume(&id("fix-3"), None).await.unwrap();
    assert_eq!(
        (serde_json::to_value(&resumed).unwrap()["attempt"].clone(), seqs()),
        (json!(2), vec![1, 2, 3, 4])
    );
}

// covers: TASK-33
#[tokio::test]
async fn a_resume_from_a_checkpoint_brings_its_data_back_or_changes_nothing() {
    let stage = Stage::new();
    stage.create("fix-3").await;
    let files = stage.layers.task(id("fix-3"));
    let token = files.load_state().unwrap().unwrap().fencing_token;
    files
        .update_state(token, |state| {
            drop(state.data.insert("pages".to_owned(), json!(3)))
        })
        .unwrap();
    let manifest = files.create_checkpoint(None).unwrap();
    files
        .update_state(token, |state| {
            drop(state.data.insert("pages".to_owned(), json!(9)))
        })
        .unwrap();
    stage.lifecycle.cancel(&id("fix-3")).await.unwrap();
    let nowhere = hankweave_task_model::CheckpointId::parse("checkpoint_1").unwrap();
    assert!(stage.lifecycle.resume(&id("fix-3"), Some(nowhere)).await.is_err());
    let row = stage.coordinator.task(id("fix-3")).await.unwrap().unwrap();
    assert_eq!(row.record.status(), TaskStatus::Cancelled);
    let checkpoint = hankweave_task_model::CheckpointId::parse(&manifest.id).unwrap();
    stage
        .lifecycle
        .resume(&id("fix-3"), Some(checkpoint))
        .await
        .unwrap();
    let state = files.load_state().unwrap().unwrap();
    assert_eq!(
        (state.data["pages"].clone(), state.status),
        (json!(3), TaskStatus::Pending)
    );
    assert_eq!(stage.coordinator.held().await, Ok(vec![]));
}

// covers: TASK-24, TASK-32
#[tokio::test]
async fn an_orphan_fails_and_a_note_that_changes_meanwhile_disturbs_no_step() {
    let stage = Stage::new();
    stage.create("fix-3").await;
    let patch = TaskPatch {
        name: Patch::Set("Fix it".to_owned()),
        ..TaskPatch::default()
    };
    let (coordinator, update) = (
        stage.coordinator.clone(),
        UpdateTask {
            id: id("fix-3"),
            patch,
            token: None,
        },
    );
    let (writer, note) = (coordinator.clone(), update.clone());
    let rename = HookRun::new(move |_| {
        let (writer, note) = (writer.clone(), note.clone());
        async move {
            writer
                .update(note)
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        }
    });
    stage
        .lifecycle
        .register(HookPoint::BeforeStart, 0, HookPolicy::Veto, rename);
    let running = stage.lifecycle.start(&id("fix-3"), agent("coder")).await.unwrap();
    assert_eq!((running.version, running.record.name().as_str()), (3, "Fix it"));
    let holder = stage.locks.scope("lifecycle:worker");
    let request = crate::locks::LockRequest {
        holder: holder.clone(),
        ..stage
            .locks
            .request("task:fix-3", "", hankweave_task_model::lock::LockMode::Exclusive)
    };
    let held = stage.locks.acquire(request).await.unwrap().guard;
    let cancel = stage.lifecycle.cancel(&id("fix-3")).await;
    assert!(
        matches!(cancel, Err(TaskError::ResourceLocked { .. })),
        "its worker has to be asked"
    );
    tokio::time::sleep(Duration::from_millis(5)).await;
    let none = stage
        .lifecycle
        .recover(OrphanAction::Fail, Duration::ZERO)
        .await
        .unwrap();
    assert!(none.orphans.is_empty(), "somebody holds it");
    held.release(None).await.unwrap();
    let found = stage
        .lifecycle
        .recover(OrphanAction::Fail, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(found.orphans, [id("fix-3")]);
    let row = serde_json::to_value(coordinator.task(id("fix-3")).await.unwrap().unwrap()).unwrap();
    assert_eq!(
        (&row["status"], &row["error"]),
        (&json!("failed"), &json!("ORPHANED"))
    );
}
