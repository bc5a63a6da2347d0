use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;

use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::NewTask;
use hankweave_task_model::task::TaskTransition;

use super::place::{LEASE, Place, code, complete, fail, hold, holder, id, start, task};
use crate::coordinator::{Acquire, Claim, Create, Renew};
use crate::testing::HOUR;

fn claim(owner: &str) -> Claim {
    Claim {
        owner: None,
        except: BTreeSet::new(),
        hold: hold(owner),
    }
}

// covers: TASK-25
pub(super) async fn the_oldest_pending_task_is_claimed_and_nobody_else_gets_it(place: Place) {
    for name in ["c", "b", "a"] {
        place.create(name).await;
        place.pass(Duration::from_millis(5)).await;
    }
    let workers = ["w1", "w2", "w3", "w4"];
    let claims = workers.map(|worker| place.coordinator.claim(claim(worker)));
    let claimed = join_all(claims).await.into_iter().map(Result::unwrap);
    let claimed: Vec<_> = claimed.flatten().collect();
    let ids: BTreeSet<&str> = claimed.iter().map(|claimed| claimed.row.id().as_str()).collect();
    assert_eq!(ids, BTreeSet::from(["a", "b", "c"]));
    let tokens: BTreeSet<u64> = claimed
        .iter()
        .map(|claimed| claimed.held.as_ref().unwrap().token)
        .collect();
    assert_eq!(tokens.len(), 3);
    assert_eq!(code(place.acquire("task:a", "somebody").await), "RESOURCE_LOCKED");
    // A task whose lease has expired is claimed again, the oldest first.
    place.pass(LEASE + Duration::from_millis(2)).await;
    let again = place.coordinator.claim(claim("w5")).await.unwrap().unwrap();
    assert_eq!(again.row.id().as_str(), "c");
    let of_nobody = Claim {
        owner: Some("nobody".to_owned()),
        ..claim("w6")
    };
    assert_eq!(place.coordinator.claim(of_nobody).await, Ok(None));
}

// covers: TASK-24
pub(super) async fn who_is_left_behind_is_found_only_without_a_living_lease(place: Place) {
    place.create("waits").await;
    place.create("runs").await;
    let row = place.coordinator.task(id("runs")).await.unwrap().unwrap();
    let held = place.acquire("task:runs", "worker").await.unwrap();
    let running = place.step(&row, held.token, [start()]).await.unwrap().row;
    let threshold = Duration::from_millis(50);
    place.pass(Duration::from_millis(60)).await;
    assert_eq!(
        place.coordinator.orphans(threshold).await,
        Ok(vec![]),
        "its lease lives"
    );
    place.pass(LEASE).await;
    assert_eq!(place.coordinator.orphans(threshold).await, Ok(vec![running]));
    assert_eq!(
        place.coordinator.orphans(Duration::from_secs(60)).await,
        Ok(vec![])
    );
}

// covers: TASK-100
pub(super) async fn a_clock_that_jumps_loses_no_task_and_gives_none_to_two(place: Place) {
    if place.has_lease_clock() {
        return a_jump_of_the_wall_clock_moves_no_lease(place).await;
    }
    if let Err(why) = place.stop_clock().await {
        return println!("skipped: {why}");
    }
    let threshold = Duration::from_secs(300);
    let orphans = async || {
        let orphans = place.coordinator.orphans(threshold).await.unwrap();
        orphans
            .into_iter()
            .map(|row| row.id().to_string())
            .collect::<Vec<_>>()
    };
    let renew = |token| Renew {
        resource: "task:fix-3".to_owned(),
        token,
        lease: LEASE,
    };
    place.create("fix-3").await;
    let claimed = place.coordinator.claim(claim("first")).await.unwrap().unwrap();
    let first = claimed.held.unwrap().token;
    let running = place.step(&claimed.row, first, [start()]).await.unwrap().row;
    // Clock back: the lease is live and can be renewed, and no other worker gets the task.
    place.jump(-HOUR).await;
    let end = place.coordinator.renew(renew(first)).await.unwrap();
    assert_eq!(end, place.coordinator.now().await.unwrap().after(LEASE));
    assert_eq!(
        code(place.acquire("task:fix-3", "second").await),
        "RESOURCE_LOCKED"
    );
    assert_eq!(place.coordinator.claim(claim("second")).await, Ok(None));
    assert!(orphans().await.is_empty());
    let note = place.step(&running, first, [fail(), TaskTransition::Resume]);
    let waits = note.await.unwrap().row;
    // Clock forward: the lease has expired, and its holder can no longer write, whatever the clock shows later.
    place.jump(HOUR).await;
    assert_eq!(code(place.coordinator.renew(renew(first)).await), "LOCK_TIMEOUT");
    let claimed = place.coordinator.claim(claim("second")).await.unwrap().unwrap();
    let second = claimed.held.unwrap().token;
    assert!(second > first);
    let running = place.step(&waits, second, [start()]).await.unwrap().row;
    for jump in [-HOUR, 2 * HOUR, -HOUR] {
        assert_eq!(code(place.step(&running, first, [fail()]).await), "STALE_TOKEN");
        place.jump(jump).await;
    }
    // Clock back: the second lease is live again, so the task is no orphan. An hour later it is an orphan, and is taken over once.
    place.jump(-HOUR).await;
    assert!(orphans().await.is_empty());
    place.jump(2 * HOUR).await;
    assert_eq!(orphans().await, ["fix-3"]);
    let third = place.acquire("task:fix-3", "third").await.unwrap().token;
    assert!(third > second);
    assert_eq!(code(place.step(&running, second, [fail()]).await), "STALE_TOKEN");
    place.step(&running, third, [fail()]).await.unwrap();
    let seqs = place.coordinator.log_lines(id("fix-3"), 0).await.unwrap();
    assert!(seqs.iter().map(|line| line.seq).eq((1..=6).map(Some)), "{seqs:?}");
}

/// On one machine leases and orphans follow the time since its start. A jump of a day takes no task from its worker, and keeps none from the next
/// one.
async fn a_jump_of_the_wall_clock_moves_no_lease(place: Place) {
    const DAY: i64 = 24 * HOUR;
    let threshold = Duration::from_secs(300);
    let renew = |token| Renew {
        resource: "task:fix-3".to_owned(),
        token,
        lease: LEASE,
    };
    place.create("fix-3").await;
    let claimed = place.coordinator.claim(claim("first")).await.unwrap().unwrap();
    let first = claimed.held.unwrap().token;
    let mut row = place.step(&claimed.row, first, [start()]).await.unwrap().row;
    for jump in [DAY, -DAY, -DAY, DAY] {
        place.jump(jump).await;
        assert_eq!(place.coordinator.claim(claim("second")).await, Ok(None));
        assert_eq!(
            code(place.acquire("task:fix-3", "second").await),
            "RESOURCE_LOCKED"
        );
        assert_eq!(place.coordinator.clean_up().await, Ok(0));
        assert_eq!(place.coordinator.orphans(threshold).await, Ok(vec![]));
        // Callers see wall times.
        let end = place.coordinator.renew(renew(first)).await.unwrap();
        let now = place.coordinator.now().await.unwrap();
        assert_eq!(end, now.after(LEASE));
        assert!(
            place
                .coordinator
                .held()
                .await
                .unwrap()
                .iter()
                .all(|lock| lock.lives(now))
        );
        row = place
            .step(&row, first, [fail(), TaskTransition::Resume, start()])
            .await
            .unwrap()
            .row;
    }
    // Whatever the clock shows, the lease ends when its time has passed, and the task becomes an orphan after the threshold.
    place.jump(-DAY).await;
    place.pass(LEASE + Duration::from_millis(1)).await;
    assert_eq!(code(place.coordinator.renew(renew(first)).await), "LOCK_TIMEOUT");
    assert_eq!(place.coordinator.orphans(threshold).await, Ok(vec![]));
    place.jump(DAY).await;
    assert_eq!(place.coordinator.orphans(threshold).await, Ok(vec![]));
    place.jump(-DAY).await;
    place.pass(threshold).await;
    assert_eq!(place.coordinator.orphans(threshold).await.unwrap().len(), 1);
    let second = place.acquire("task:fix-3", "second").await.unwrap().token;
    assert_eq!(code(place.step(&row, first, [fail()]).await), "STALE_TOKEN");
    place.step(&row, second, [fail()]).await.unwrap();
}

// covers: TASK-124
pub(super) async fn the_highest_priority_comes_first_and_a_task_waits_for_the_ones_before_it(place: Place) {
    let new = |name: &str, priority, after: &[&str]| NewTask {
        priority,
        after: after.iter().map(|name| id(name)).collect(),
        ..task(name)
    };
    let unknown = Create {
        task: new("lost", 0, &["nowhere"]),
        hold: None,
    };
    assert_eq!(
        code(place.coordinator.create(unknown).await),
        "TASK_CREATE_FAILED"
    );
    let itself = place
        .coordinator
        .create_all(vec![new("loop", 0, &["loop"])])
        .await;
    assert_eq!(code(itself), "TASK_BULK_INSERT_FAILED");
    let tasks = vec![
        new("usual", 0, &[]),
        new("late", -1, &[]),
        new("urgent", 5, &["usual"]),
        new("both", 9, &["urgent", "late"]),
    ];
    let rows = place.coordinator.create_all(tasks).await.unwrap();
    let read = place.coordinator.task(id("both")).await.unwrap().unwrap();
    assert_eq!((read.priority, &read.after), (9, &rows[3].after));
    let mut claimed = Vec::new();
    while let Some(next) = place.coordinator.claim(claim("worker")).await.unwrap() {
        claimed.push(next.row.id().to_string());
        let token = next.held.unwrap().token;
        let running = place.step(&next.row, token, [start()]).await.unwrap().row;
        let done = place.step(&running, token, [complete()]).await.unwrap().row;
        // A task that completed and was deleted does not hold others back.
        if done.id().as_str() == "usual" {
            place.step(&done, token, [TaskTransition::Delete]).await.unwrap();
        }
    }
    assert_eq!(claimed, ["usual", "urgent", "late", "both"]);
    // A failed task does.
    place.create("red").await;
    let failing = place.coordinator.claim(claim("worker")).await.unwrap().unwrap();
    let token = failing.held.unwrap().token;
    place.step(&failing.row, token, [start(), fail()]).await.unwrap();
    place
        .coordinator
        .create_all(vec![new("next", 0, &["red"])])
        .await
        .unwrap();
    assert_eq!(place.coordinator.claim(claim("worker")).await, Ok(None));
}

// covers: TASK-92
pub(super) async fn a_lock_that_is_taken_over_counts_as_expired(place: Place) {
    place.acquire("r", "gone").await.unwrap();
    place.create("fix-3").await;
    place.coordinator.claim(claim("gone")).await.unwrap();
    place.pass(LEASE + Duration::from_millis(2)).await;
    let acquire = Acquire {
        resource: "r".to_owned(),
        holder: holder("next"),
        mode: LockMode::Exclusive,
        lease: Some(LEASE),
        in_order: false,
        task: None,
    };
    assert_eq!(
        place.coordinator.acquire(acquire.clone()).await.unwrap().expired,
        1
    );
    assert_eq!(place.coordinator.acquire(acquire).await.unwrap().expired, 0);
    let claimed = place.coordinator.claim(claim("next")).await.unwrap().unwrap();
    assert_eq!(claimed.expired, 1);
}
