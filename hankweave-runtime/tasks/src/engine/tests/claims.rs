use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;

use super::place::{LEASE, Place, code, fail, hold, id, start};
use crate::coordinator::{Claim, Renew};
use crate::testing::HOUR;

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

// covers: TASK-100
pub(super) async fn a_clock_that_jumps_loses_no_task_and_gives_none_to_two(place: Place) {
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
    // Back: the lease lives on, it is renewed, and nobody else gets in.
    place.jump(-HOUR).await;
    let end = place.coordinator.renew(renew(first)).await.unwrap();
    assert_eq!(end, place.coordinator.now().await.unwrap().after(LEASE));
    assert_eq!(
        code(place.acquire("task:fix-3", "second").await),
        "RESOURCE_LOCKED"
    );
    assert_eq!(place.coordinator.claim(claim("second")).await, Ok(None));
    assert!(orphans().await.is_empty());
    let note = place.step(
        &running,
        first,
        [fail(), hankweave_task_model::task::TaskTransition::Resume],
    );
    let waits = note.await.unwrap().row;
    // Forth again: it is over, and whoever had it writes no more, whatever the clock says later.
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
    // Back again its lease lives once more, and it is no orphan; an hour later it is one, and is taken over once.
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
