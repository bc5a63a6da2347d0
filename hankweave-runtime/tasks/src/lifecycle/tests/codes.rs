//! Codes of errors, each produced as a user of the library would see it.

use std::collections::BTreeSet;

use hankweave_task_model::lock::LockMode::{Collaborative, Exclusive};
use hankweave_task_model::{CheckpointId, Tries};

use super::*;
use crate::coordinator::{CommitRequest, Renew};
use crate::layers::{LayerError, RestoreOptions};
use crate::locks::LockRequest;
use crate::sqlite::Sqlite;
use crate::testing::{HOUR, SetClock};

const CODES: [&str; 27] = [
    "REGISTRY_NOT_INITIALIZED",
    "TASK_NOT_FOUND",
    "TASK_CREATE_FAILED",
    "TASK_UPDATE_FAILED",
    "TASK_DELETE_FAILED",
    "TASK_BULK_INSERT_FAILED",
    "INVALID_TASK_ID",
    "INVALID_TRANSITION",
    "HOOK_VETO",
    "HOOK_TIMEOUT",
    "RESOURCE_LOCKED",
    "LOCK_NOT_HELD",
    "LOCK_TIMEOUT",
    "VERSION_CONFLICT",
    "BATCH_UNLOCK_FAILED",
    "STALE_TOKEN",
    "LOCK_ORDER",
    "LOCK_BACKEND_UNAVAILABLE",
    "INVALID_ARGUMENT",
    "STATE_SAVE_FAILED",
    "STATE_LOAD_FAILED",
    "STATE_VALIDATION_FAILED",
    "STATE_UNRECOVERABLE",
    "CHECKPOINT_NOT_FOUND",
    "CHECKPOINT_CORRUPT",
    "INVALID_CHECKPOINT_ID",
    "RESOURCE_LOCKED after 2 tries",
];

/// Codes that were seen.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    fn task<T>(&mut self, answer: Result<T, TaskError>) {
        let error = answer.err().expect("it is refused");
        let tries = match &error {
            TaskError::TriesUsedUp { attempts, .. } => format!(" after {attempts} tries"),
            _ => String::new(),
        };
        self.0.insert(format!("{}{tries}", error.code()));
    }

    fn layer<T>(&mut self, answer: Result<T, LayerError>) {
        let error = answer.err().expect("it is refused");
        self.0.insert(error.code().to_owned());
    }
}

// covers: TASK-12, TASK-90
#[tokio::test]
async fn each_code_is_that_of_something_that_happens() {
    let mut seen = Seen::default();
    of_a_database_that_cannot(&mut seen).await;
    of_files(&mut seen);
    // No background work is left that a stopped clock would keep waiting.
    tokio::time::pause();
    of_steps(&mut seen).await;
    of_locks(&mut seen).await;
    let expected: BTreeSet<String> = CODES.map(str::to_owned).into();
    assert_eq!(seen.0, expected);
}

async fn of_a_database_that_cannot(seen: &mut Seen) {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path().join("registry.db"), World::real().clock);
    seen.task(Sqlite::open(&folder.path().join("none/registry.db"), clock.clone()).await);
    let registry = Arc::new(Sqlite::open(&path, clock).await.unwrap());
    let cannot = "CREATE TRIGGER full BEFORE INSERT ON deleted BEGIN SELECT RAISE(FAIL, 'planned'); END";
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch(cannot).unwrap();
    let locks = Locks::new(registry.clone(), World::real().ids);
    let layers = TaskLayers::new(World::real(), folder.path().join("tasks"));
    let lifecycle = Lifecycle::new(registry.clone(), locks, layers);
    lifecycle.create(NewTask::new(id("fix-3"))).await.unwrap();
    lifecycle.cancel(&id("fix-3")).await.unwrap();
    seen.task(lifecycle.delete(&id("fix-3")).await);
    other
        .execute_batch(
            "CREATE TRIGGER broken BEFORE UPDATE ON tasks BEGIN SELECT RAISE(FAIL, 'planned'); END",
        )
        .unwrap();
    seen.task(lifecycle.resume(&id("fix-3"), None).await);
    let row = registry.task(id("fix-3")).await.unwrap().unwrap();
    assert_eq!(row.record.status(), TaskStatus::Cancelled, "nothing is half done");
    registry.close().await;
    seen.task(registry.now().await);
}

fn of_files(seen: &mut Seen) {
    let folder = tempfile::tempdir().unwrap();
    let files = TaskLayers::new(World::real(), folder.path()).task(id("fix-3"));
    seen.layer(files.recover(None, None));
    seen.layer(files.update_state(None, |state| {
        drop(state.data.insert("n".to_owned(), json!(1_u64 << 60)))
    }));
    files.update_state(None, |_| {}).unwrap();
    seen.layer(files.checkpoint_id(Some("../../etc")));
    let absent = CheckpointId::parse("checkpoint_7").unwrap();
    seen.layer(files.restore_checkpoint(absent, RestoreOptions::default()));
    let made = files.create_checkpoint(None).unwrap().id;
    let state = files.path().join("checkpoints").join(&made).join("state.json");
    std::fs::write(state, "{}").unwrap();
    let made = CheckpointId::parse(&made).unwrap();
    seen.layer(files.restore_checkpoint(made, RestoreOptions::default()));
    for text in ["{", "{\"taskId\": \"fix-3\"}"] {
        std::fs::write(files.path().join("state.json"), text).unwrap();
        seen.layer(files.load_state());
    }
}

async fn of_steps(seen: &mut Seen) {
    let stage = Stage::new();
    stage.create("fix-3").await;
    seen.task(TaskId::new("../fix-3").map_err(TaskError::from));
    seen.task(stage.lifecycle.cancel(&id("nobody")).await);
    seen.task(stage.lifecycle.create(NewTask::new(id("fix-3"))).await);
    seen.task(
        stage
            .coordinator
            .create_all(vec![NewTask::new(id("fix-3"))])
            .await,
    );
    seen.task(stage.lifecycle.delete(&id("fix-3")).await);
    let patch = TaskPatch {
        if_version: Some(9),
        ..TaskPatch::default()
    };
    let update = UpdateTask {
        id: id("fix-3"),
        patch,
        token: None,
    };
    seen.task(stage.lifecycle.update(update).await);
    let fails = HookRun::new(|_| async { Err("no".to_owned()) });
    for run in [fails, HookRun::new(|_| pending())] {
        let hook = stage
            .lifecycle
            .register(HookPoint::BeforeCancel, 0, HookPolicy::Veto, run);
        seen.task(stage.lifecycle.cancel(&id("fix-3")).await);
        stage.lifecycle.unregister(hook);
    }
}

async fn of_locks(seen: &mut Seen) {
    let clock = SetClock::at_noon();
    let memory = Arc::new(Memory::new(clock.clone()));
    let locks = Locks::new(memory.clone(), World::real().ids);
    let request = |resource: &str, owner: &str| LockRequest {
        holder: hankweave_task_model::Holder::new(owner, "1"),
        ..locks.request(resource, owner, Exclusive)
    };
    seen.task(Tries::new(0));
    let held = locks.acquire(request("m", "ann")).await.unwrap().guard;
    seen.task(locks.acquire(request("m", "ben")).await);
    let twice = LockRequest {
        mode: Collaborative,
        tries: Tries::new(2).unwrap(),
        ..request("m", "ben")
    };
    seen.task(locks.acquire(twice).await);
    seen.task(locks.acquire(request("a", "ann")).await);
    let commit = CommitRequest {
        resource: "m".to_owned(),
        token: held.token() + 1,
        expected_version: 0,
    };
    seen.task(memory.commit(commit).await);
    clock.pass(HOUR);
    let renew = Renew {
        resource: "m".to_owned(),
        token: held.token(),
        lease: Duration::from_secs(1),
    };
    seen.task(memory.renew(renew).await);
    let other = locks.acquire(request("m", "ben")).await.unwrap().guard;
    seen.task(held.release(None).await);
    let batch = locks.acquire_all(&["x", "y"], &request("", "cid")).await.unwrap();
    locks.emergency_clean_up("cid").await.unwrap();
    let taken = locks.acquire(request("y", "dan")).await.unwrap().guard;
    seen.task(batch.release().await);
    taken.release(None).await.unwrap();
    other.release(None).await.unwrap();
}
