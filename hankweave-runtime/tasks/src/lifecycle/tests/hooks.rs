//! Hooks: their input, their effects, and what is logged about them.

use tokio::time::sleep;

use super::*;
use crate::lifecycle::{HookCall, ORPHANED, TaskStep};
use crate::testing::{Event, Events};

/// Returns a hook that always succeeds.
fn works() -> HookRun {
    HookRun::new(|_| async { Ok(()) })
}

// covers: TASK-99
#[tokio::test]
async fn at_each_of_the_ten_moments_hooks_are_told_the_task_and_what_it_is_about() {
    let stage = Stage::new();
    for point in HookPoint::ALL {
        let trace = stage.trace.clone();
        let tell = HookRun::new(move |call: HookCall| {
            let told = format!("{} {} {}", call.point.name(), call.task, call.about);
            trace.lock().unwrap().push(told);
            async { Ok(()) }
        });
        stage
            .lifecycle
            .register(point, DEFAULT_PRIORITY, HookPolicy::Continue, tell);
    }
    let done = serde_json::from_value(json!({"success": true})).unwrap();
    for (name, steps) in [
        (
            "a",
            vec![TaskStep::Start(agent("coder")), TaskStep::Complete(done)],
        ),
        (
            "b",
            vec![TaskStep::Start(agent("coder")), TaskStep::Fail(ORPHANED.into())],
        ),
        (
            "c",
            vec![
                TaskStep::Cancel,
                TaskStep::Resume,
                TaskStep::Cancel,
                TaskStep::Delete,
            ],
        ),
    ] {
        stage.create(name).await;
        for step in steps {
            stage.lifecycle.take(&id(name), &step).await.unwrap();
        }
    }
    let expected = [
        ("TaskStart a", "\"coder\""),
        ("TaskComplete a", "{\"success\":true}"),
        ("TaskStart b", "\"coder\""),
        ("TaskFail b", "\"ORPHANED\""),
        // The creation and the resumption of a task have no hooks.
        ("TaskCancel c", "null"),
        ("TaskCancel c", "null"),
        ("TaskDelete c", "null"),
    ];
    let expected = expected
        .iter()
        .flat_map(|(what, about)| ["before", "after"].map(|when| format!("{when}{what} {about}")));
    assert_eq!(*stage.trace.lock().unwrap(), expected.collect::<Vec<_>>());
}

// covers: TASK-17, TASK-99
#[tokio::test]
async fn a_hook_that_registers_another_is_heard_from_the_next_step_on() {
    let stage = Stage::new();
    let (lifecycle, trace) = (stage.lifecycle.clone(), stage.trace.clone());
    let breeds = HookRun::new(move |_| {
        let trace = trace.clone();
        let bred = HookRun::new(move |_| {
            trace.lock().unwrap().push("bred".to_owned());
            async { Ok(()) }
        });
        lifecycle.register(HookPoint::BeforeStart, 99, HookPolicy::Continue, bred);
        async { Ok(()) }
    });
    let first = stage
        .lifecycle
        .register(HookPoint::BeforeStart, -1, HookPolicy::Continue, breeds);
    let other = stage
        .lifecycle
        .register(HookPoint::AfterFail, 0, HookPolicy::Veto, works());
    for (name, heard) in [("a", 0), ("b", 1), ("c", 3)] {
        stage.create(name).await;
        stage.lifecycle.start(&id(name), agent("coder")).await.unwrap();
        assert_eq!(stage.trace.lock().unwrap().len(), heard, "{name}");
    }
    let ids = |point: HookPoint| {
        let hooks = stage.lifecycle.hooks();
        let at = hooks.iter().filter(|hook| hook.point == point);
        at.map(|hook| hook.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        ids(HookPoint::BeforeStart),
        ["hook_0", "hook_2", "hook_3", "hook_4"]
    );
    assert_eq!(ids(HookPoint::AfterFail), ["hook_1"]);
    assert!(stage.lifecycle.unregister(other) && !stage.lifecycle.unregister(other));
    assert!(stage.lifecycle.unregister(first));
    assert_eq!(stage.lifecycle.hooks().len(), 3);
    let next = stage
        .lifecycle
        .register(HookPoint::AfterFail, 0, HookPolicy::Veto, works());
    assert_eq!(next.to_string(), "hook_5", "no name comes twice");
}

// covers: TASK-99
#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_with_its_hook_moment_and_duration_and_a_veto_comes_before_the_lock() {
    let stage = Stage::new();
    stage.create("fix-3").await;
    let events = Events::capture();
    let slow = HookRun::new(|_| async {
        sleep(Duration::from_millis(1500)).await;
        Err("no disk".to_owned())
    });
    stage
        .lifecycle
        .register(HookPoint::BeforeStart, 0, HookPolicy::Veto, slow);
    stage.hook(HookPoint::BeforeStart, "later", 1);
    let refused = stage.lifecycle.start(&id("fix-3"), agent("coder")).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "hook_0 forbids the step: no disk"
    );
    assert!(stage.trace.lock().unwrap().is_empty(), "later hooks do not run");
    let took_a_lock = |event: &Event| event.field("message") == "Lock operation";
    assert!(!events.all().iter().any(took_a_lock));
    let failed = events.take("a hook failed");
    let told: Vec<_> = failed
        .iter()
        .map(|event| (event.field("hook"), event.field("point"), event.field("taskId")))
        .collect();
    assert_eq!(told, [("hook_0", "beforeTaskStart", "fix-3")]);
    let duration: f64 = failed[0].field("duration").parse().unwrap();
    assert!((1500.0..1502.0).contains(&duration), "{duration}");
}

// covers: TASK-97
#[tokio::test]
async fn a_hook_takes_steps_of_other_tasks_and_of_its_own_only_behind_a_step() {
    let stage = Stage::new();
    for name in ["mine", "other"] {
        stage.create(name).await;
    }
    // In a circle: the hook before the start of one task starts the other, whose hook would start the first again.
    let (lifecycle, trace) = (stage.lifecycle.clone(), stage.trace.clone());
    let starts = HookRun::new(move |call: HookCall| {
        let (lifecycle, trace) = (lifecycle.clone(), trace.clone());
        async move {
            for name in ["mine", "other"] {
                let taken = lifecycle.start(&id(name), agent("coder")).await;
                let told = taken.map_or_else(|error| error.code(), |_| "taken");
                trace
                    .lock()
                    .unwrap()
                    .push(format!("{} starts {name}: {told}", call.task));
            }
            Ok(())
        }
    });
    stage
        .lifecycle
        .register(HookPoint::BeforeStart, 0, HookPolicy::Continue, starts);
    let lifecycle = stage.lifecycle.clone();
    let cancels = HookRun::new(move |call: HookCall| {
        let lifecycle = lifecycle.clone();
        async move {
            let cancelled = lifecycle.cancel(&call.task).await;
            cancelled.map(drop).map_err(|error| error.to_string())
        }
    });
    stage
        .lifecycle
        .register(HookPoint::AfterStart, 0, HookPolicy::Continue, cancels);
    stage.lifecycle.start(&id("mine"), agent("coder")).await.unwrap();
    let expected = [
        "mine starts mine: INVALID_ARGUMENT",
        "other starts mine: INVALID_ARGUMENT",
        "other starts other: INVALID_ARGUMENT",
        "mine starts other: taken",
    ];
    assert_eq!(*stage.trace.lock().unwrap(), expected);
    for name in ["mine", "other"] {
        let row = stage.coordinator.task(id(name)).await.unwrap().unwrap();
        assert_eq!(row.record.status(), TaskStatus::Cancelled, "{name}");
    }
}
