use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use hankweave_core::id::{EventId, RunId};
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::ids::{IdSource, RandomIds};
use hankweave_task_model::lock::LockMode::{Collaborative, Exclusive};
use hankweave_task_model::{Holder, TaskError, Tries};
use serde_json::{Value, json};
use tokio::time::{Instant, advance, sleep};

use super::{LockRequest, Locks};
use crate::coordinator::{Coordinator, Hints};
use crate::engine::{Backend, Transaction};
use crate::memory::Memory;
use crate::testing::{Events, HOUR, PausedClock, SetClock};

fn locks() -> (Locks, Arc<Memory>) {
    let memory = Arc::new(Memory::new(PausedClock::from_now()));
    (Locks::new(memory.clone(), Arc::new(RandomIds::new())), memory)
}

// covers: TASK-28
#[tokio::test(start_paused = true)]
async fn an_exclusive_request_fails_at_once_and_a_collaborative_one_waits_its_tries() {
    let (locks, _) = locks();
    let held = locks
        .acquire(locks.request("r", "ann", Exclusive))
        .await
        .unwrap()
        .guard;
    let asked = Instant::now();
    let refused = locks
        .acquire(locks.request("r", "ben", Exclusive))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.to_string().as_str(), asked.elapsed()),
        ("`r` is held by ann", Duration::ZERO)
    );
    let tries = Tries::new(7).unwrap();
    let request = LockRequest {
        tries,
        ..locks.request("r", "ben", Collaborative)
    };
    let refused = locks.acquire(request.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.to_string().as_str()),
        ("RESOURCE_LOCKED", "`r` is held by ann, after 7 attempts")
    );
    assert_eq!(
        asked.elapsed(),
        Duration::from_millis(100 + 200 + 400 + 800 + 1000 + 1000)
    );
    let later = async {
        sleep(Duration::from_millis(250)).await;
        held.release(None).await.unwrap();
    };
    let (granted, ()) = tokio::join!(locks.acquire(request), later);
    granted.unwrap().guard.release(None).await.unwrap();
    let metrics = locks.metrics();
    assert_eq!(
        (
            metrics.conflicts.get(),
            metrics.waits.get(),
            metrics.retries.get()
        ),
        (10, 8, 8)
    );
}

// covers: TASK-29
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_its_holder_works_and_work_ends_when_it_is_lost() {
    let (locks, memory) = locks();
    let request = locks.request("r", "ann", Exclusive);
    let done = locks.with_lock(request.clone(), async |_| sleep(Duration::from_secs(95)).await);
    assert_eq!(done.await, Ok(()));
    assert_eq!(locks.metrics().renewals.get(), 9, "every ten seconds");
    let asked = Instant::now();
    let robbed = async {
        sleep(Duration::from_secs(15)).await;
        memory.emergency_clean_up("ann".to_owned()).await.unwrap();
    };
    let work = locks.with_lock(request, async |_| std::future::pending::<()>().await);
    let (lost, ()) = tokio::join!(work, robbed);
    assert_eq!(
        (lost.unwrap_err().code(), asked.elapsed().as_secs()),
        ("LOCK_TIMEOUT", 20)
    );
    assert_eq!(locks.metrics().expired.get(), 1);
}

// covers: TASK-4, TASK-29
#[tokio::test(start_paused = true)]
async fn a_lost_lock_stays_lost() {
    let (locks, memory) = locks();
    let request = locks.request("r", "ann", Exclusive);
    let mut lost = locks.acquire(request).await.unwrap().guard;
    memory.emergency_clean_up("ann".to_owned()).await.unwrap();
    let resource = "r".to_owned();
    let expired = TaskError::LockTimeout { resource };
    for _ in 0..2 {
        assert_eq!(lost.renew().await, Err(expired.clone()));
    }
    let mut has_worked = false;
    let work = async { has_worked = true };
    assert_eq!((lost.keep(work).await, has_worked), (Err(expired), false));
    assert_eq!(locks.metrics().expired.get(), 1);
}

// covers: TASK-30
#[tokio::test(start_paused = true)]
async fn a_lock_is_given_back_on_every_way_out() {
    let (locks, memory) = locks();
    let request = |owner: &str| locks.request(format!("of {owner}"), owner, Exclusive);
    let failed = locks
        .with_lock(request("a"), async |_| Err::<(), _>("no ink"))
        .await;
    assert_eq!(failed, Ok(Err("no ink")));
    let panics = locks.with_lock(request("b"), async |_| panic!("planned"));
    std::panic::AssertUnwindSafe(panics)
        .catch_unwind()
        .await
        .unwrap_err();
    let dropped = locks.with_lock(request("c"), async |_| std::future::pending::<()>().await);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), dropped)
            .await
            .is_err()
    );
    locks.close().await;
    assert_eq!(memory.held().await, Ok(vec![]));
}

// covers: TASK-16, TASK-31
#[tokio::test(start_paused = true)]
async fn several_are_taken_in_order_and_all_are_given_back_that_can_be() {
    let (locks, memory) = locks();
    let example: Value = serde_json::from_str(include_str!("lock-batch.json")).unwrap();
    let args = &example["ops"][0]["args"];
    let names: Vec<&str> = args["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let deployer = locks.request("", args["owner"].as_str().unwrap(), Exclusive);
    let batch = locks
        .acquire_all(&[&names[..], &names[..]].concat(), &deployer)
        .await
        .unwrap();
    let expected = example["ops"][0]["expect"]["acquired"].as_array().unwrap();
    assert!(
        batch
            .resources()
            .eq(expected.iter().map(|name| name.as_str().unwrap()))
    );
    let linter = LockRequest {
        tries: Tries::new(1).unwrap(),
        ..locks.request("repo:api", "linter", Collaborative)
    };
    let refused = locks.acquire(linter.clone()).await.unwrap_err();
    assert_eq!(refused.code(), example["ops"][1]["expect"]["err"]);
    let third = locks
        .acquire(locks.request("repo:zoo", "ann", Exclusive))
        .await
        .unwrap()
        .guard;
    let refused = locks.acquire_all(&["repo:aaa"], &deployer).await.unwrap_err();
    assert_eq!(refused.code(), "LOCK_ORDER", "it has one that stands behind");
    let other = locks.request("", "other", Exclusive);
    let refused = locks
        .acquire_all(&["repo:zoo", "repo:xyz"], &other)
        .await
        .unwrap_err();
    assert_eq!(refused.to_string(), "`repo:zoo` is held by ann");
    third.release(None).await.unwrap();
    assert_eq!(
        memory.held().await.unwrap().len(),
        2,
        "what was taken before the refusal is free"
    );
    memory.emergency_clean_up("deployer".to_owned()).await.unwrap();
    let taken = locks.acquire(linter).await.unwrap();
    let failed = batch.release().await.unwrap_err();
    assert_eq!(failed.to_string(), "these locks were not released: repo:api");
    taken.guard.release(None).await.unwrap();
}

// covers: TASK-34, TASK-92
#[tokio::test(start_paused = true)]
async fn the_summary_tells_what_was_and_what_is() {
    let (locks, _) = locks();
    let cleaner = locks.start_cleaner();
    let held = locks
        .acquire(locks.request("a", "ann", Exclusive))
        .await
        .unwrap()
        .guard;
    advance(Duration::from_millis(40)).await;
    held.release(None).await.unwrap();
    let old = LockRequest {
        holder: Holder::new("ben", "1"),
        ..locks.request("b", "ben", Exclusive)
    };
    let old = locks.acquire(old).await.unwrap().guard;
    advance(Duration::from_millis(7)).await;
    let summary = locks.summary().await.unwrap();
    // Under the names that other programs use as well.
    assert_eq!(
        json!(summary),
        json!({
            "totalLocks": 2, "activeLocks": 1, "expiredLocks": 0, "conflictsDetected": 0, "averageHoldTime": 40.0,
            "locksByOwner": {"ben": 1}, "oldestLock": {"resource": "b", "age": 7}, "waits": 0, "retries": 0, "renewals": 0,
        })
    );
    sleep(Duration::from_secs(301)).await;
    assert_eq!(locks.metrics().expired.get(), 1, "the cleaner has found it");
    cleaner.stop().await;
    old.release(None).await.unwrap();
}

// covers: TASK-92
#[tokio::test(start_paused = true)]
async fn a_lock_has_thirty_seconds_unless_more_are_asked_for() {
    let (locks, memory) = locks();
    let request = locks.request("r", "ann", Exclusive);
    assert_eq!(
        (request.lease, request.tries, request.jitter),
        (Some(Duration::from_secs(30)), Tries::new(3).unwrap(), 0.0)
    );
    let held = locks.acquire(request).await.unwrap().guard;
    let end = memory.now().await.unwrap().after(Duration::from_secs(30));
    assert_eq!(held.expires_at(), Some(end));
    // The lock is held at its last moment, and free after it.
    advance(Duration::from_secs(30)).await;
    let refused = locks.acquire(locks.request("r", "ben", Exclusive)).await;
    assert_eq!(refused.unwrap_err().code(), "RESOURCE_LOCKED");
    advance(Duration::from_millis(1)).await;
    let next = locks.acquire(locks.request("r", "ben", Exclusive)).await.unwrap();
    next.guard.release(None).await.unwrap();
    drop(held);
    locks.close().await;
}

/// Source of secrets whose bytes all have this value.
#[derive(Debug)]
struct Always(u8, RandomIds);

impl IdSource for Always {
    fn run_id(&self, now: Timestamp) -> RunId {
        self.1.run_id(now)
    }

    fn event_id(&self) -> EventId {
        self.1.event_id()
    }

    fn nonce(&self) -> String {
        self.1.nonce()
    }

    fn secret(&self) -> [u8; 32] {
        [self.0; 32]
    }
}

// covers: TASK-93
#[tokio::test(start_paused = true)]
async fn waits_are_off_by_no_more_than_is_asked_for_and_not_at_all_otherwise() {
    for (random, jitter, waited) in [
        (0, 0.0, 300),
        (0, 0.5, 150),
        (255, 0.5, 450),
        (255, 0.1, 330),
        (0, 9.0, 0),
    ] {
        let memory = Arc::new(Memory::new(PausedClock::from_now()));
        let locks = Locks::new(memory, Arc::new(Always(random, RandomIds::new())));
        let held = locks.acquire(locks.request("r", "ann", Exclusive)).await.unwrap();
        let asked = Instant::now();
        let request = LockRequest {
            holder: Holder::new("ben", "1"),
            jitter,
            ..locks.request("r", "ben", Collaborative)
        };
        let refused = locks.acquire(request).await.unwrap_err();
        assert_eq!(refused.to_string(), "`r` is held by ann, after 3 attempts");
        assert_eq!(
            asked.elapsed(),
            Duration::from_millis(waited),
            "{random} {jitter}"
        );
        held.guard.release(None).await.unwrap();
    }
}

/// Registry that does not answer releases.
#[derive(Debug)]
struct NoReturns {
    memory: Memory,
    is_away: AtomicBool,
}

impl Backend for NoReturns {
    async fn run<O: Transaction>(&self, operation: O) -> Result<O::Output, TaskError> {
        let gives_back = std::any::type_name::<O>() == std::any::type_name::<crate::coordinator::Release>();
        if gives_back && self.is_away.load(Ordering::Relaxed) {
            return Err(TaskError::LockBackendUnavailable("planned".to_owned()));
        }
        self.memory.run(operation).await
    }

    fn hints(&self) -> &Hints {
        self.memory.hints()
    }

    async fn close(&self) {}
}

// covers: TASK-30, TASK-31
#[tokio::test(start_paused = true)]
async fn a_return_that_fails_is_logged_and_costs_the_work_nothing() {
    let registry = Arc::new(NoReturns {
        memory: Memory::new(PausedClock::from_now()),
        is_away: AtomicBool::new(true),
    });
    let locks = Locks::new(registry.clone(), Arc::new(RandomIds::new()));
    let events = Events::capture();
    let done = locks.with_lock(locks.request("r", "ann", Exclusive), async |_| 7);
    assert_eq!(done.await, Ok(7));
    let told = events.take("a lock was not released");
    assert_eq!(
        (told.len(), told[0].field("resource"), told[0].field("owner")),
        (1, "r", "ann")
    );
    registry.is_away.store(false, Ordering::Relaxed);
    // Several locks are released in reverse order.
    let request = locks.request("", "ben", Exclusive);
    let batch = locks.acquire_all(&["c", "a", "b"], &request).await.unwrap();
    events.take("");
    batch.release().await.unwrap();
    let returned = events.take("Lock operation");
    let order: Vec<_> = returned.iter().map(|event| event.field("resource")).collect();
    assert_eq!(order, ["c", "b", "a"]);
    // A lock without a holder: the release logs this and returns no error.
    let request = locks.request("d", "ben", Exclusive);
    let held = locks.acquire(request).await.unwrap().guard;
    assert_eq!(locks.emergency_clean_up("ben").await, Ok(1));
    assert_eq!(held.release(None).await, Ok(()));
    let all = events.all();
    let warnings: Vec<_> = all
        .iter()
        .filter(|event| event.level == tracing::Level::WARN)
        .map(|event| event.field("message"))
        .collect();
    assert_eq!(
        warnings,
        [
            "the locks of an owner were removed",
            "a lock was released that was not held"
        ]
    );
}

// covers: TASK-100
#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_ends_no_work() {
    for jump in [24 * HOUR, -24 * HOUR] {
        let clock = SetClock::at_noon();
        let memory = Arc::new(Memory::new(clock.clone()));
        let locks = Locks::new(memory, Arc::new(RandomIds::new()));
        let began = Instant::now();
        let work = locks.with_lock(locks.request("r", "ann", Exclusive), async |_| {
            sleep(Duration::from_secs(5)).await;
            clock.jump(jump);
            let age = locks
                .summary()
                .await
                .unwrap()
                .oldest_lock
                .map(|oldest| oldest.age);
            assert_eq!(age, Some(0), "no age follows the wall clock");
            sleep(Duration::from_secs(40)).await;
        });
        assert_eq!(work.await.map_err(|error| error.code()), Ok(()), "{jump}");
        assert_eq!(began.elapsed().as_secs(), 45);
        assert_eq!(locks.summary().await.unwrap().active_locks, 0);
    }
}
