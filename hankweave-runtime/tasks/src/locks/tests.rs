use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::Clock;
use hankweave_runtime::world::ids::RandomIds;
use hankweave_task_model::lock::LockMode::{Collaborative, Exclusive};
use hankweave_task_model::{Holder, Tries};
use serde_json::Value;
use tokio::time::{Instant, advance, sleep};

use super::{LockRequest, Locks};
use crate::coordinator::Coordinator;
use crate::memory::Memory;

/// The same time as tokio's, which tests pause.
#[derive(Debug)]
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0).after(self.0.elapsed())
    }
}

fn locks() -> (Locks, Arc<Memory>) {
    let memory = Arc::new(Memory::new(Arc::new(Paused(Instant::now()))));
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
        ("RESOURCE_LOCKED", "`r` is held by ann, after 7 tries")
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

// covers: TASK-31
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
    assert_eq!(failed.to_string(), "these locks were not given back: repo:api");
    taken.guard.release(None).await.unwrap();
}

// covers: TASK-34
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
    assert_eq!(
        (
            summary.total_locks,
            summary.active_locks,
            summary.average_hold_time
        ),
        (2, 1, 40.0)
    );
    assert_eq!(
        summary.oldest_lock.map(|oldest| (oldest.resource, oldest.age)),
        Some(("b".to_owned(), 7))
    );
    assert_eq!(summary.locks_by_owner.get("ben"), Some(&1));
    sleep(Duration::from_secs(301)).await;
    assert_eq!(locks.metrics().expired.get(), 1, "the cleaner has found it");
    cleaner.stop().await;
    old.release(None).await.unwrap();
}
