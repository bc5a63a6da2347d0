use std::time::Duration;

use hankweave_task_model::lock::LockMode::{self, Collaborative, Exclusive};
use hankweave_task_model::{Holder, LockGrant, TaskError};
use serde_json::Value;

use super::place::{LEASE, Place, code, holder};
use crate::coordinator::{Acquire, CommitRequest, Release, Renew};

async fn ask(place: &Place, resource: &str, holder: Holder, mode: LockMode) -> Result<LockGrant, TaskError> {
    let acquire = Acquire {
        resource: resource.to_owned(),
        holder,
        mode,
        lease: Some(LEASE),
        in_order: true,
        task: None,
    };
    place
        .coordinator
        .acquire(acquire)
        .await
        .map(|acquired| acquired.held)
}

/// Worked examples: the answer of each operation at its time. Tokens count from the first one, which differs between places.
// covers: TASK-1, TASK-4
pub(super) async fn examples_of_locks_hold(place: Place) {
    let example: Value = serde_json::from_str(include_str!("lock-exclusive.json")).unwrap();
    let mut first = None;
    let mut time = 0;
    for op in example["ops"].as_array().unwrap() {
        // A server's time cannot be set, and a tenth of these leases is long enough to wait.
        let at = op["at"].as_u64().unwrap() / 100;
        place.pass(Duration::from_millis(at - time)).await;
        time = at;
        let text = |name: &str| op["args"][name].as_str().unwrap_or_default().to_owned();
        let (resource, owner, expect) = (text("resource"), text("owner"), &op["expect"]);
        match op["op"].as_str().unwrap() {
            "acquire" => {
                let lease = Duration::from_millis(op["args"]["timeout"].as_u64().unwrap() / 100);
                let acquire = Acquire {
                    resource,
                    holder: holder(&owner),
                    mode: Exclusive,
                    lease: Some(lease),
                    in_order: false,
                    task: None,
                };
                match place.coordinator.acquire(acquire).await {
                    Ok(acquired) => {
                        let first = *first.get_or_insert(acquired.held.token);
                        let token = acquired.held.token - first + 1;
                        assert!(
                            expect["ok"] == true && token >= expect["token"].as_u64().unwrap(),
                            "{op}"
                        );
                        assert_eq!(Value::from(acquired.held.count), expect["count"]);
                    }
                    Err(error) => assert_eq!(error.code(), expect["err"], "{op}"),
                }
            }
            "release" => assert!(place.release(&resource, &owner).await.unwrap().is_some()),
            "cleanup" => assert_eq!(
                Value::from(place.coordinator.clean_up().await.unwrap()),
                expect["removed"]
            ),
            other => panic!("{other}"),
        }
    }
}

// covers: TASK-4, TASK-5, TASK-92
pub(super) async fn a_lock_ends_and_its_holder_writes_no_more(place: Place) {
    let held = place.acquire("r", "slow").await.unwrap();
    let renew = Renew {
        resource: "r".to_owned(),
        token: held.token,
        lease: LEASE,
    };
    place.pass(LEASE / 2).await;
    assert!(place.coordinator.renew(renew.clone()).await.unwrap() > held.expires_at.unwrap());
    place.pass(LEASE + Duration::from_millis(2)).await;
    assert_eq!(code(place.coordinator.renew(renew).await), "LOCK_TIMEOUT");
    let next = place.acquire("r", "quick").await.unwrap();
    let commit = |token, expected_version| CommitRequest {
        resource: "r".to_owned(),
        token,
        expected_version,
    };
    assert_eq!(
        code(place.coordinator.commit(commit(held.token, 0)).await),
        "STALE_TOKEN"
    );
    assert_eq!(place.coordinator.commit(commit(next.token, 0)).await, Ok(1));
    assert_eq!(
        code(place.coordinator.commit(commit(next.token, 0)).await),
        "VERSION_CONFLICT"
    );
    assert_eq!(code(place.release("r", "slow").await), "LOCK_NOT_HELD");
    let endless = Acquire {
        resource: "s".to_owned(),
        holder: holder("a"),
        mode: Exclusive,
        lease: None,
        in_order: false,
        task: None,
    };
    // Inside one process no holder can vanish alone.
    let answer = place.coordinator.acquire(endless).await;
    assert!(
        answer.is_ok() == format!("{:?}", place.coordinator).starts_with("Memory"),
        "{answer:?}"
    );
}

// covers: TASK-1, TASK-2, TASK-3, TASK-16
pub(super) async fn holders_share_or_exclude_each_other_and_take_locks_in_order(place: Place) {
    let (one, two) = (Holder::new("a", "1"), Holder::new("a", "2"));
    let first = ask(&place, "m", one.clone(), Collaborative).await.unwrap();
    let second = ask(&place, "m", two.clone(), Collaborative).await.unwrap();
    assert!(second.token > first.token);
    assert_eq!(
        code(ask(&place, "m", Holder::new("b", "3"), Exclusive).await),
        "RESOURCE_LOCKED"
    );
    assert_eq!(
        code(ask(&place, "m", one.clone(), Exclusive).await),
        "RESOURCE_LOCKED"
    );
    let again = ask(&place, "m", one.clone(), Collaborative).await.unwrap();
    assert_eq!((again.token, again.count), (first.token, 2));
    let refused = ask(&place, "c", one.clone(), Exclusive).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`c` sorts before `m`, which is already held; acquire both at once"
    );
    ask(&place, "z", one.clone(), Exclusive).await.unwrap();
    let mut counts = Vec::new();
    for _ in 0..3 {
        let release = Release {
            resource: "m".to_owned(),
            holder: one.clone(),
            written: None,
        };
        counts.push(
            place
                .coordinator
                .release(release)
                .await
                .map(|held| held.map(|held| held.count)),
        );
    }
    assert_eq!(counts[..2], [Ok(Some(1)), Ok(Some(0))]);
    assert_eq!(code(counts.pop().unwrap()), "LOCK_NOT_HELD");
    let names: Vec<_> = place
        .coordinator
        .held()
        .await
        .unwrap()
        .into_iter()
        .map(|lock| lock.resource)
        .collect();
    assert_eq!(names, ["m", "z"]);
}

// covers: TASK-13, TASK-14
pub(super) async fn locks_are_removed_when_they_are_over_or_their_owner_is_gone(place: Place) {
    for resource in ["a", "b", "c"] {
        place.acquire(resource, "old").await.unwrap();
    }
    place.pass(LEASE + Duration::from_millis(2)).await;
    place.acquire("b", "new").await.unwrap();
    place.acquire("d", "new").await.unwrap();
    assert_eq!(
        place.coordinator.clean_up().await,
        Ok(2),
        "one was taken over before"
    );
    assert_eq!(
        place.coordinator.emergency_clean_up("nobody".to_owned()).await,
        Ok(0)
    );
    assert_eq!(
        place.coordinator.emergency_clean_up("new".to_owned()).await,
        Ok(2)
    );
    assert_eq!(place.coordinator.held().await, Ok(vec![]));
    assert_eq!(
        place.release("b", "new").await,
        Ok(None),
        "nobody holds it any more"
    );
}

// covers: TASK-14
pub(super) async fn no_version_of_a_forgotten_resource_comes_twice(place: Place) {
    let old = place.acquire("r", "a").await.unwrap();
    let commit = |token, expected_version| CommitRequest {
        resource: "r".to_owned(),
        token,
        expected_version,
    };
    assert_eq!(place.coordinator.commit(commit(old.token, 0)).await, Ok(1));
    place.release("r", "a").await.unwrap();
    assert_eq!(
        place.coordinator.resource("r".to_owned()).await.unwrap().version,
        1
    );
    let new = place.acquire("r", "b").await.unwrap();
    assert_eq!(
        code(place.coordinator.commit(commit(old.token, 1)).await),
        "STALE_TOKEN"
    );
    assert_eq!(
        code(place.coordinator.commit(commit(new.token, 0)).await),
        "VERSION_CONFLICT"
    );
    assert_eq!(place.coordinator.commit(commit(new.token, 1)).await, Ok(2));
}

// covers: TASK-25
pub(super) async fn who_waits_for_work_is_woken(place: Place) {
    let mut changes = place.coordinator.changes();
    place.create("report-7").await;
    changes.next().await;
    place.coordinator.close().await;
}
