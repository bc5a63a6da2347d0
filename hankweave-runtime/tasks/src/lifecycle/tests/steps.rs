//! Steps: the statuses that permit them, and their log lines.

use hankweave_task_model::{CheckpointId, LogLevel};

use super::*;
use crate::coordinator::{Claim, ExclusiveHold, Release};
use crate::lifecycle::{ORPHANED, TaskAnswer, TaskStep};
use crate::testing::SetClock;

fn result() -> hankweave_task_model::task::TaskResult {
    serde_json::from_value(json!({"success": true, "message": "all of it"})).unwrap()
}

fn ask() -> TaskStep {
    TaskStep::Ask(hankweave_task_model::task::Ask {
        codon_id: "publish".to_owned(),
        question: "Publish it?".to_owned(),
    })
}

fn answer(granted: bool) -> TaskStep {
    TaskStep::Answer(TaskAnswer {
        granted,
        by: "ann".to_owned(),
        reason: None,
    })
}

fn steps() -> [TaskStep; 11] {
    [
        TaskStep::Start(agent("coder")),
        TaskStep::Complete(result()),
        TaskStep::Fail("red".into()),
        TaskStep::Requeue("red".to_owned()),
        ask(),
        answer(true),
        answer(false),
        TaskStep::Cancel,
        TaskStep::Delete,
        TaskStep::Resume,
        TaskStep::ResumeFor(agent("coder")),
    ]
}

/// Returns the steps that lead to a status, from the creation on.
fn way_to(status: TaskStatus) -> Vec<TaskStep> {
    let start = TaskStep::Start(agent("coder"));
    match status {
        TaskStatus::Running => vec![start],
        TaskStatus::Waiting => vec![start, ask()],
        TaskStatus::Completed => vec![start, TaskStep::Complete(result())],
        TaskStatus::Failed => vec![start, TaskStep::Fail("red".into())],
        TaskStatus::Cancelled => vec![TaskStep::Cancel],
        _ => vec![],
    }
}

// covers: TASK-91
#[tokio::test]
async fn every_step_is_taken_where_it_may_be_and_refused_everywhere_else() {
    let possible = [
        (TaskStatus::Pending, vec!["start", "cancel", "resume start"]),
        (
            TaskStatus::Running,
            vec!["complete", "fail", "fail resume", "ask", "cancel"],
        ),
        (TaskStatus::Waiting, vec!["approve", "deny", "fail", "cancel"]),
        (TaskStatus::Completed, vec!["delete"]),
        (TaskStatus::Failed, vec!["delete", "resume", "resume start"]),
        (TaskStatus::Cancelled, vec!["delete", "resume", "resume start"]),
    ];
    let stage = Stage::new();
    for (from, possible) in possible {
        for step in steps() {
            let name = format!("{from}-{}", step.method().replace(' ', "-"));
            stage.create(&name).await;
            for step in way_to(from) {
                stage.lifecycle.take(&id(&name), &step).await.unwrap();
            }
            let before = stage.coordinator.task(id(&name)).await;
            let files = stage.layers.task(id(&name));
            let state = files.load_state().unwrap();
            match stage.lifecycle.take(&id(&name), &step).await {
                Ok(row) => {
                    assert!(possible.contains(&step.method()), "{name}");
                    assert_eq!(row.record.status(), step.leads_to());
                }
                Err(error) => {
                    assert!(!possible.contains(&step.method()), "{name}");
                    let start = format!("task `{name}` is {from}; only a task that is ");
                    assert_eq!(error.code(), "INVALID_TRANSITION");
                    assert!(error.to_string().starts_with(&start), "{error}");
                    assert_eq!(stage.coordinator.task(id(&name)).await, before);
                    assert_eq!(files.load_state().unwrap(), state);
                }
            }
            assert_eq!(stage.coordinator.held().await, Ok(vec![]));
        }
    }
    for step in steps() {
        let nobody = stage.lifecycle.take(&id("nobody"), &step).await.unwrap_err();
        assert_eq!(nobody.code(), "TASK_NOT_FOUND");
    }
}

// covers: TASK-91
#[tokio::test]
async fn the_log_tells_of_each_step_who_took_it_and_what_came_of_it() {
    let stage = Stage::new();
    let mut task = NewTask::new(id("fix-3"));
    (task.name, task.owner) = ("Fix it".to_owned(), "ann".to_owned());
    stage.lifecycle.create(task).await.unwrap();
    let start = || TaskStep::Start(agent("coder"));
    let fail = TaskStep::Fail("red".into());
    for step in [
        start(),
        fail,
        TaskStep::Resume,
        TaskStep::Cancel,
        TaskStep::Resume,
        start(),
        TaskStep::Complete(result()),
    ] {
        stage.lifecycle.take(&id("fix-3"), &step).await.unwrap();
    }
    let files = stage.layers.task(id("fix-3"));
    let entries = files.load_log(&LogQuery::default()).unwrap().entries;
    let expected = [
        (
            LogLevel::Info,
            "Task created",
            json!({"name": "Fix it", "owner": "ann"}),
        ),
        (
            LogLevel::Info,
            "Task started by agent coder",
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "coder"}),
        ),
        (LogLevel::Error, "Task failed", json!({"error": "red"})),
        (LogLevel::Info, "Task resumed", json!({"toStatus": "pending"})),
        (
            LogLevel::Warning,
            "Task cancelled",
            json!({"fromStatus": "pending"}),
        ),
        (LogLevel::Info, "Task resumed", json!({"fromStatus": "cancelled"})),
        (
            LogLevel::Info,
            "Task started by agent coder",
            json!({"fromStatus": "pending"}),
        ),
        (
            LogLevel::Info,
            "Task completed successfully",
            json!({"result": {"success": true, "message": "all of it"}}),
        ),
    ];
    assert_eq!(entries.len(), expected.len());
    for (entry, (level, message, data)) in entries.iter().zip(expected) {
        assert_eq!((entry.level, &*entry.message), (level, message));
        for (name, value) in data.as_object().unwrap() {
            assert_eq!(entry.data.as_ref().unwrap()[name], *value, "{message} {name}");
        }
    }
    let row = serde_json::to_value(stage.coordinator.task(id("fix-3")).await.unwrap().unwrap()).unwrap();
    assert_eq!(
        (&row["attempt"], &row["version"], &row["metadata"]["error"]),
        (&json!(3), &json!(8), &json!(null)),
        "why an earlier attempt failed says nothing of a completed task"
    );
}

// covers: TASK-98
#[tokio::test]
async fn an_orphan_is_resumed_and_a_task_that_somebody_works_on_is_not() {
    let clock = SetClock::at_noon();
    let stage = Stage::by_clock(clock.clone());
    stage.create("fix-3").await;
    let hold = ExclusiveHold {
        holder: stage.locks.scope("lifecycle:coder"),
        lease: Some(Duration::from_secs(30)),
    };
    let claim = Claim {
        owner: None,
        except: std::collections::BTreeSet::new(),
        hold: hold.clone(),
    };
    stage.coordinator.claim(claim).await.unwrap().unwrap();
    let held = stage.lifecycle.with_hold(hold.clone());
    held.start(&id("fix-3"), agent("coder")).await.unwrap();
    let files = stage.layers.task(id("fix-3"));
    let checkpoint = CheckpointId::parse(&files.create_checkpoint(None).unwrap().id).unwrap();
    clock.pass(10_000);
    let busy = stage.lifecycle.resume(&id("fix-3"), None).await.unwrap_err();
    assert_eq!(busy.code(), "RESOURCE_LOCKED", "its lease lives");
    let release = Release {
        resource: "task:fix-3".to_owned(),
        holder: hold.holder,
        written: None,
    };
    stage.coordinator.release(release).await.unwrap();
    let early = stage.lifecycle.resume(&id("fix-3"), None).await.unwrap_err();
    assert_eq!(early.code(), "INVALID_TRANSITION", "it was changed a moment ago");
    clock.pass(5 * 60 * 1000);
    let row = stage
        .lifecycle
        .resume(&id("fix-3"), Some(checkpoint))
        .await
        .unwrap();
    let row = serde_json::to_value(row).unwrap();
    assert_eq!(
        (&row["status"], &row["attempt"], &row["metadata"]["error"]),
        (&json!("pending"), &json!(2), &json!(ORPHANED))
    );
    let lines = files.load_log(&LogQuery::default()).unwrap().entries;
    let is_note = |line: &&hankweave_task_model::LogEntry| line.message == "Checkpoint restored";
    assert_eq!(lines.iter().filter(is_note).count(), 1);
    assert_eq!(stage.coordinator.held().await, Ok(vec![]));
}

// covers: TASK-115
#[tokio::test]
async fn an_agent_takes_up_what_waits_failed_or_was_called_off_and_nobody_comes_in_between() {
    let stage = Stage::new();
    let claims = Arc::new(Mutex::new(Vec::new()));
    let (coordinator, claimed, locks) = (stage.coordinator.clone(), claims.clone(), stage.locks.clone());
    let worker = HookRun::new(move |_| {
        let (coordinator, claimed, locks) = (coordinator.clone(), claimed.clone(), locks.clone());
        async move {
            let hold = ExclusiveHold {
                holder: locks.scope("lifecycle:worker"),
                lease: Some(Duration::from_secs(30)),
            };
            let claim = coordinator
                .claim(Claim {
                    owner: None,
                    except: std::collections::BTreeSet::new(),
                    hold,
                })
                .await;
            claimed.lock().unwrap().push(claim.unwrap());
            Ok(())
        }
    });
    let lifecycle = &stage.lifecycle;
    let from = [
        ("a", TaskStatus::Pending),
        ("b", TaskStatus::Failed),
        ("c", TaskStatus::Cancelled),
    ];
    let mut checkpoints = Vec::new();
    for (name, status) in from {
        stage.create(name).await;
        let made = stage.layers.task(id(name)).create_checkpoint(None).unwrap();
        checkpoints.push(CheckpointId::parse(&made.id).unwrap());
        for step in way_to(status) {
            lifecycle.take(&id(name), &step).await.unwrap();
        }
    }
    lifecycle.register(HookPoint::BeforeStart, 0, HookPolicy::Veto, worker);
    let told = ["Task resumed", "Task started by agent critic"];
    for ((name, status), checkpoint) in from.into_iter().zip(checkpoints) {
        let before = stage.coordinator.task(id(name)).await.unwrap().unwrap();
        claims.lock().unwrap().clear();
        let row = lifecycle
            .resume_for(&id(name), Some(checkpoint), agent("critic"))
            .await
            .unwrap();
        assert_eq!(*claims.lock().unwrap(), [None], "{name}");
        let agent_id = serde_json::to_value(&row).unwrap()["agentId"].clone();
        assert_eq!(
            (row.record.status(), agent_id),
            (TaskStatus::Running, json!("critic"))
        );
        let lines = stage
            .coordinator
            .log_lines(id(name), before.log_seq)
            .await
            .unwrap();
        let lines: Vec<&str> = lines.iter().map(|line| &*line.message).collect();
        assert_eq!(lines, told[usize::from(status == TaskStatus::Pending)..]);
        let log = stage.layers.task(id(name)).load_log(&LogQuery::default());
        let log = log.unwrap().entries;
        assert!(log.iter().any(|line| line.message == "Checkpoint restored"));
        let again = lifecycle.resume_for(&id(name), None, agent("critic")).await;
        assert_eq!(again.unwrap_err().code(), "INVALID_TRANSITION", "somebody has it");
    }
    let refuses = HookRun::new(async |_| Err("not today".to_owned()));
    lifecycle.register(HookPoint::BeforeStart, 1, HookPolicy::Veto, refuses);
    stage.create("d").await;
    lifecycle.cancel(&id("d")).await.unwrap();
    let before = stage.coordinator.task(id("d")).await;
    let vetoed = lifecycle.resume_for(&id("d"), None, agent("critic")).await;
    assert_eq!(vetoed.unwrap_err().code(), "HOOK_VETO");
    assert_eq!(stage.coordinator.task(id("d")).await, before);
    assert_eq!(stage.coordinator.held().await, Ok(vec![]));
}

// covers: TASK-115, TASK-98
#[tokio::test]
async fn an_agent_takes_up_an_orphan_once_that_was_left_alone() {
    let clock = SetClock::at_noon();
    let stage = Stage::by_clock(clock.clone());
    for name in ["fix-3", "other"] {
        stage.create(name).await;
        stage.lifecycle.start(&id(name), agent("coder")).await.unwrap();
    }
    clock.pass(5 * 60 * 1000);
    let resume = async || {
        stage
            .lifecycle
            .resume_for(&id("fix-3"), None, agent("critic"))
            .await
    };
    assert_eq!(resume().await.unwrap_err().code(), "INVALID_TRANSITION");
    clock.pass(1);
    let row = serde_json::to_value(resume().await.unwrap()).unwrap();
    assert_eq!(
        (&row["status"], &row["attempt"], &row["agentId"]),
        (&json!("running"), &json!(2), &json!("critic"))
    );
    assert_eq!(row["metadata"]["error"], ORPHANED);
    let other = stage.coordinator.task(id("other")).await.unwrap().unwrap();
    assert_eq!(other.record.status(), TaskStatus::Running, "it was not asked for");
}
