//! Logging about steps, locks and files, and what must not be logged.

use tracing::Level;

use super::*;
use crate::locks::LockRequest;
use crate::testing::{Event, Events};

// covers: TASK-96
#[tokio::test]
async fn every_step_lock_and_file_is_logged_under_its_names_and_nothing_of_what_it_says() {
    let stage = Stage::new();
    let events = Events::capture();
    let mut task = NewTask::new(id("fix-3"));
    task.name = "a secret".to_owned();
    stage.lifecycle.create(task).await.unwrap();
    stage.lifecycle.start(&id("fix-3"), agent("coder")).await.unwrap();
    let files = stage.layers.task(id("fix-3"));
    files
        .update_state(Some(9), |state| {
            drop(state.data.insert("prompt".to_owned(), json!("a secret")))
        })
        .unwrap();
    files
        .append_decision(&hankweave_task_model::AgentDecision {
            timestamp: hankweave_core::time::Timestamp::from_millis(0),
            agent: "coder".to_owned(),
            decision: "a secret".to_owned(),
            reasoning: "a secret".to_owned(),
            metadata: None,
        })
        .unwrap();
    files.create_checkpoint(Some("a secret")).unwrap();
    files.load_decisions().unwrap();
    files.checkpoints().unwrap();
    files.load_log(&LogQuery::default()).unwrap();
    files.load_state().unwrap();
    let of_others = LockRequest {
        holder: stage.locks.scope("ann"),
        ..stage.locks.request(
            "task:fix-3",
            "",
            hankweave_task_model::lock::LockMode::Collaborative,
        )
    };
    let held = stage.locks.acquire(of_others).await.unwrap().guard;
    stage.lifecycle.cancel(&id("fix-3")).await.unwrap_err();
    held.release(None).await.unwrap();
    let all = events.all();
    assert!(all.iter().all(|event| !format!("{event:?}").contains("a secret")));
    let of = |message: &str| -> Vec<_> {
        let wanted = all.iter().filter(|event| event.field("message") == message);
        wanted.cloned().collect()
    };
    let steps = of("State transition");
    let told: Vec<_> = steps
        .iter()
        .map(|event| {
            assert_eq!(
                (event.level, event.names()),
                (
                    Level::INFO,
                    vec!["duration", "fromState", "system", "taskId", "toState", "trigger"]
                )
            );
            assert!(event.field("duration").parse::<f64>().unwrap() >= 0.0);
            ["system", "taskId", "fromState", "toState", "trigger"].map(|name| event.field(name))
        })
        .collect();
    assert_eq!(
        told,
        [
            ["TaskLifecycle", "fix-3", "none", "pending", "create"],
            ["TaskLifecycle", "fix-3", "pending", "running", "start"],
        ]
    );
    let locks = of("Lock operation");
    let told: Vec<_> = locks
        .iter()
        .map(|event| {
            assert_eq!(event.level, Level::DEBUG);
            ["resource", "owner", "mode", "operation", "result"].map(|name| event.field(name))
        })
        .collect();
    let ours = |owner, mode, operation, result| ["task:fix-3", owner, mode, operation, result];
    assert_eq!(
        told,
        [
            ours("lifecycle:system", "exclusive", "release", "success"),
            ours("lifecycle:coder", "exclusive", "acquire", "success"),
            ours("lifecycle:coder", "exclusive", "release", "success"),
            ours("ann", "collaborative", "acquire", "success"),
            ours("lifecycle:system", "exclusive", "acquire", "failed"),
            ours("ann", "collaborative", "release", "success"),
        ]
    );
    assert!(locks[1].field("token").parse::<u64>().unwrap() > 0 && locks[1].names().contains(&"waited"));
    let persistence = of("Persistence operation");
    for event in &persistence {
        assert_eq!((event.level, event.field("taskId")), (Level::TRACE, "fix-3"));
        assert!(event.field("duration").parse::<f64>().unwrap() >= 0.0);
        let known = ["duration", "failed", "layer", "operation", "taskId"];
        assert!(event.names().iter().all(|name| known.contains(name)), "{event:?}");
    }
    for layer in ["state", "logs", "decisions", "checkpoints"] {
        for operation in ["save", "load"] {
            let is_it =
                |event: &Event| event.field("layer") == layer && event.field("operation") == operation;
            assert!(persistence.iter().any(is_it), "{layer} {operation}");
        }
    }
}

// covers: TASK-104
#[tokio::test]
async fn a_task_that_changes_without_end_and_stays_where_it_is_is_reported() {
    let stage = Stage::new();
    stage.create("fix-3").await;
    let events = Events::capture();
    let note = || UpdateTask {
        id: id("fix-3"),
        patch: TaskPatch::default(),
        token: None,
    };
    let message = "a task changes again and again without a new status";
    for _ in 0..super::super::MANY_CHANGES {
        stage.lifecycle.update(note()).await.unwrap();
    }
    assert!(events.take(message).is_empty());
    for _ in 0..super::super::MANY_CHANGES {
        stage.lifecycle.update(note()).await.unwrap();
    }
    let reported = events.take(message);
    assert_eq!(
        (
            reported.len(),
            reported[0].field("taskId"),
            reported[0].field("status")
        ),
        (1, "fix-3", "pending")
    );
}

// covers: TASK-104
#[tokio::test(start_paused = true)]
async fn a_step_that_takes_too_long_ends_and_names_who_holds_the_lock_since_when() {
    let stage = Stage::new();
    stage.create("fix-3").await;
    let events = Events::capture();
    for _ in 0..3 {
        let hangs = HookRun::new(|_| pending());
        stage
            .lifecycle
            .register(HookPoint::BeforeCancel, 0, HookPolicy::Continue, hangs);
    }
    let request = LockRequest {
        lease: None,
        ..stage.locks.request(
            "task:fix-3",
            "ann",
            hankweave_task_model::lock::LockMode::Exclusive,
        )
    };
    let held = stage.locks.acquire(request).await.unwrap().guard;
    let asked = tokio::time::Instant::now();
    let late = stage.lifecycle.cancel(&id("fix-3")).await.unwrap_err();
    assert_eq!((late.code(), asked.elapsed().as_secs()), ("LOCK_TIMEOUT", 60));
    let told = events.take("a step took too long while this lock was held");
    let fields = ["resource", "owner", "scope", "method"].map(|name| told[0].field(name).to_owned());
    assert_eq!(
        fields,
        ["task:fix-3", "ann", &held.holder().scope, "cancel"].map(str::to_owned)
    );
    assert!(told[0].field("since").contains('T'), "{told:?}");
    held.release(None).await.unwrap();
}
