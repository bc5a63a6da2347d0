use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;

use super::place::{LEASE, Place, code, hold, id, start};
use crate::coordinator::Claim;

fn claim(owner: &str) -> Claim {
    Claim {
        owner: None,
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
    // What its holder let go is claimed again, the oldest first.
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
