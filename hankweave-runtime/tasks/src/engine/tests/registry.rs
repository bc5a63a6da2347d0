use std::time::Duration;

use hankweave_core::cost::Usd;
use hankweave_task_model::LogLevel;
use hankweave_task_model::registry::{NewTask, Patch, RegistryChange, TaskCost, TaskPatch, TaskRow};
use hankweave_task_model::task::{TaskStatus, TaskTransition};
use serde_json::json;

use super::place::{LEASE, Place, code, fail, hold, id, start, task};
use crate::coordinator::{Create, ListQuery, TaskFilter, UpdateTask};

// covers: TASK-120
pub(super) async fn a_task_is_created_once_and_its_id_stays_taken(place: Place) {
    let row = place.create("report-7").await;
    assert_eq!((row.version, row.record.status()), (1, TaskStatus::Pending));
    assert_eq!(
        place.coordinator.task(id("report-7")).await,
        Ok(Some(row.clone()))
    );
    let again = Create {
        task: task("report-7"),
        hold: None,
    };
    assert_eq!(
        code(place.coordinator.create(again.clone()).await),
        "TASK_CREATE_FAILED"
    );
    let held = place.acquire("task:report-7", "ann").await.unwrap();
    let early = place.step(&row, held.token, [TaskTransition::Delete]).await;
    assert_eq!(code(early), "INVALID_TRANSITION");
    let both = [TaskTransition::Cancel, TaskTransition::Delete];
    place.step(&row, held.token, both).await.unwrap();
    assert_eq!(place.coordinator.task(id("report-7")).await, Ok(None));
    assert!(
        place
            .coordinator
            .deleted_at(id("report-7"))
            .await
            .unwrap()
            .is_some()
    );
    place.release("task:report-7", "ann").await.unwrap();
    assert_eq!(code(place.coordinator.create(again).await), "TASK_CREATE_FAILED");
    assert_eq!(place.coordinator.count(TaskFilter::default()).await, Ok(0));
}

// covers: TASK-3, TASK-20
pub(super) async fn a_task_is_created_and_begun_under_a_lock_that_its_creator_has_already(place: Place) {
    let before = place.acquire("task:report-7", "ann").await.unwrap();
    let create = Create {
        task: task("report-7"),
        hold: Some(hold("ann")),
    };
    let created = place.coordinator.create(create).await.unwrap();
    let held = created.held.unwrap();
    assert_eq!((held.token, held.count), (before.token, 2));
    assert_eq!(created.row.fencing_token, before.token);
    place.step(&created.row, before.token, [start()]).await.unwrap();
}

// covers: TASK-23
pub(super) async fn several_are_created_or_none(place: Place) {
    place.create("b").await;
    let refused = place
        .coordinator
        .create_all(vec![task("a"), task("b"), task("c")])
        .await;
    assert_eq!(code(refused), "TASK_BULK_INSERT_FAILED");
    let twice = place.coordinator.create_all(vec![task("a"), task("a")]).await;
    assert_eq!(code(twice), "TASK_BULK_INSERT_FAILED");
    assert_eq!(place.coordinator.count(TaskFilter::default()).await, Ok(1));
    let created = place
        .coordinator
        .create_all(vec![task("c"), task("a")])
        .await
        .unwrap();
    let ids: Vec<&str> = created.iter().map(|row| row.id().as_str()).collect();
    assert_eq!(ids, ["c", "a"]);
    assert_eq!(place.coordinator.count(TaskFilter::default()).await, Ok(3));
}

// covers: TASK-23
pub(super) async fn lists_are_filtered_newest_first_and_cut_behind_that(place: Place) {
    for (name, owner) in [("old", "ann"), ("other", "ben"), ("b", "ann"), ("a", "ann")] {
        let task = NewTask {
            owner: owner.to_owned(),
            ..task(name)
        };
        place
            .coordinator
            .create(Create { task, hold: None })
            .await
            .unwrap();
        place
            .pass(Duration::from_millis(if name == "b" { 0 } else { 5 }))
            .await;
    }
    let filter = TaskFilter {
        owner: Some("ann".to_owned()),
        status: Some(TaskStatus::Pending),
    };
    let list = async |offset, limit| {
        let query = ListQuery {
            filter: filter.clone(),
            offset,
            limit,
        };
        let rows = place.coordinator.tasks(query).await.unwrap();
        let is_sorted = |pair: &[TaskRow]| {
            let age = |row: &TaskRow| (std::cmp::Reverse(*row.record.created_at()), row.id().clone());
            age(&pair[0]) < age(&pair[1])
        };
        assert!(rows.windows(2).all(is_sorted), "{rows:?}");
        rows.len()
    };
    assert_eq!(
        (list(0, None).await, list(1, None).await, list(1, Some(1)).await),
        (3, 2, 1)
    );
    assert_eq!(list(0, Some(0)).await, 0);
    assert_eq!(place.coordinator.count(filter.clone()).await, Ok(3));
    let running = TaskFilter {
        status: Some(TaskStatus::Running),
        ..TaskFilter::default()
    };
    assert_eq!(place.coordinator.count(running).await, Ok(0));
}

// covers: TASK-22
pub(super) async fn an_update_leaves_what_is_absent_and_clears_what_is_null(place: Place) {
    let metadata = json!({"pages": 3}).as_object().unwrap().clone();
    let task = NewTask {
        owner: "ann".to_owned(),
        description: Some("all of it".to_owned()),
        metadata: metadata.clone(),
        ..task("report-7")
    };
    let created = place
        .coordinator
        .create(Create { task, hold: None })
        .await
        .unwrap()
        .row;
    let patch: TaskPatch = serde_json::from_value(json!({"name": "Write", "description": null})).unwrap();
    let update = |patch: TaskPatch| UpdateTask {
        id: id("report-7"),
        patch,
        token: None,
    };
    let row = place.coordinator.update(update(patch.clone())).await.unwrap();
    assert_eq!((row.version, row.status_version), (2, 1));
    assert_eq!(
        (row.record.name(), row.record.description()),
        (&"Write".to_owned(), &None)
    );
    assert_eq!(
        (row.record.owner(), row.record.metadata()),
        (&"ann".to_owned(), &metadata)
    );
    let late = TaskPatch {
        if_version: Some(created.version),
        ..patch
    };
    assert_eq!(
        code(place.coordinator.update(update(late)).await),
        "VERSION_CONFLICT"
    );
    let cleared = TaskPatch {
        owner: Patch::Clear,
        if_version: Some(2),
        ..TaskPatch::default()
    };
    let row = place.coordinator.update(update(cleared)).await.unwrap();
    assert_eq!((row.record.owner(), row.version), (&"system".to_owned(), 3));
    let nobody = UpdateTask {
        id: id("nobody"),
        patch: TaskPatch::default(),
        token: None,
    };
    assert_eq!(code(place.coordinator.update(nobody).await), "TASK_NOT_FOUND");
    let stranger = UpdateTask {
        token: Some(u64::MAX >> 12),
        ..update(TaskPatch::default())
    };
    assert_eq!(code(place.coordinator.update(stranger).await), "STALE_TOKEN");
}

// covers: TASK-20
pub(super) async fn a_step_needs_a_living_token_and_the_version_that_was_read(place: Place) {
    let row = place.create("fix-3").await;
    let slow = place.acquire("task:fix-3", "slow").await.unwrap();
    place.pass(LEASE + Duration::from_millis(2)).await;
    assert_eq!(
        code(place.step(&row, slow.token, [start()]).await),
        "STALE_TOKEN",
        "it is over"
    );
    let quick = place.acquire("task:fix-3", "quick").await.unwrap();
    assert!(quick.token > slow.token);
    assert_eq!(code(place.step(&row, slow.token, [start()]).await), "STALE_TOKEN");
    let running = place.step(&row, quick.token, [start()]).await.unwrap().row;
    assert_eq!((running.version, running.fencing_token), (2, quick.token));
    assert_eq!(
        code(place.step(&row, quick.token, [fail()]).await),
        "VERSION_CONFLICT"
    );
    let refused = place.step(&running, quick.token, [start()]).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "task `fix-3` is running; only a task that is pending can be started"
    );
    // Of several steps, none is taken if one of them is impossible.
    let half = place.step(&running, quick.token, [fail(), start()]).await;
    assert_eq!(code(half), "INVALID_TRANSITION");
    assert_eq!(
        place.coordinator.task(id("fix-3")).await,
        Ok(Some(running.clone()))
    );
    place
        .coordinator
        .request_cancel(id("fix-3"), Some("ann".to_owned()))
        .await
        .unwrap();
    let asked = place.coordinator.task(id("fix-3")).await.unwrap().unwrap();
    assert!(asked.cancel_requested_at.is_some() && asked.version == running.version);
    let requeued = place
        .step(&running, quick.token, [fail(), TaskTransition::Resume])
        .await
        .unwrap()
        .row;
    assert_eq!(
        (requeued.version, requeued.record.status()),
        (4, TaskStatus::Pending)
    );
    assert_eq!(
        (requeued.cancel_requested_at, &requeued.record.metadata()["error"]),
        (None, &json!("tests are red"))
    );
}

// covers: TASK-21
pub(super) async fn each_step_has_its_log_line_and_lines_stay_until_the_task_is_gone(place: Place) {
    let create = Create {
        task: task("fix-3"),
        hold: Some(hold("ann")),
    };
    let created = place.coordinator.create(create).await.unwrap();
    let token = created.held.unwrap().token;
    assert_eq!(created.row.fencing_token, token);
    let running = place.step(&created.row, token, [start()]).await.unwrap().row;
    let failed = place.step(&running, token, [fail()]).await.unwrap().row;
    let lines = place.coordinator.log_lines(id("fix-3"), 1).await.unwrap();
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line.seq, line.level, line.message.as_str()))
        .collect();
    let expected = [
        (Some(2), LogLevel::Info, "Task started by agent writer"),
        (Some(3), LogLevel::Error, "Task failed"),
    ];
    assert_eq!(told, expected);
    let unwritten = place.coordinator.unwritten(10).await.unwrap();
    assert_eq!(
        unwritten
            .iter()
            .map(|row| row.log_seq - row.written_seq)
            .collect::<Vec<_>>(),
        [3]
    );
    place.coordinator.mark_written(id("fix-3"), 3).await.unwrap();
    place.coordinator.mark_written(id("fix-3"), 2).await.unwrap();
    assert_eq!(place.coordinator.unwritten(10).await, Ok(vec![]));
    assert_eq!(
        place.coordinator.log_lines(id("fix-3"), 0).await.unwrap().len(),
        3
    );
    place
        .step(&failed, token, [TaskTransition::Delete])
        .await
        .unwrap();
    assert_eq!(place.coordinator.log_lines(id("fix-3"), 0).await, Ok(vec![]));
}

// covers: TASK-121
pub(super) async fn what_a_task_has_cost_stays_with_it_whatever_its_steps(place: Place) {
    let create = Create {
        task: task("fix-3"),
        hold: Some(hold("ann")),
    };
    let created = place.coordinator.create(create).await.unwrap();
    let token = created.held.unwrap().token;
    let running = place.step(&created.row, token, [start()]).await.unwrap().row;
    let cost = TaskCost {
        cost: Usd::from_micros(900_000),
        last_attempt_cost: Usd::from_micros(450_000),
        last_attempt_cost_is_lower_bound: true,
        cost_is_lower_bound: true,
        budget: Some(Usd::from_micros(500_000)),
        before_anew: None,
    };
    let noting = |token| RegistryChange {
        id: id("fix-3"),
        expected_version: running.version,
        token,
        steps: vec![fail()],
        cost: Some(cost),
        approval: None,
        by: None,
        lease: None,
        files: Patch::Keep,
    };
    let foreign = place.coordinator.change(noting(token + 1)).await;
    assert_eq!(code(foreign), "STALE_TOKEN", "only its worker notes it");
    let failed = place.coordinator.change(noting(token)).await.unwrap().row;
    assert_eq!(failed.version, running.version + 1);
    place
        .step(&failed, token, [TaskTransition::Resume])
        .await
        .unwrap();
    let read = place.coordinator.task(id("fix-3")).await.unwrap().unwrap();
    assert_eq!(TaskCost::of(&read.record), Some(cost));
    let listed = place.coordinator.tasks(ListQuery::default()).await.unwrap();
    assert_eq!(TaskCost::of(&listed[0].record), Some(cost));
}
