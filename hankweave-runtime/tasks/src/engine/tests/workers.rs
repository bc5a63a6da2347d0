use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hankweave_task_model::lock::LockMode;

use super::place::{LEASE, Place, holder};
use crate::coordinator::{Acquire, Claim, ExclusiveHold, OrphanAction, Presence, WorkerTerms};

const TERMS: WorkerTerms = WorkerTerms {
    slots: 2,
    lease_ms: 60_000,
    orphan_after_ms: 30_000,
    orphans: OrphanAction::Requeue,
};

/// Lease that does not end within a test.
const LONG: Duration = Duration::from_secs(60);

/// Returns the present workers, each with the number of its tasks.
async fn there(place: &Place) -> Vec<(String, u64)> {
    let workers = place.coordinator.workers().await.unwrap();
    workers
        .into_iter()
        .map(|worker| (worker.name, worker.tasks))
        .collect()
}

/// Keeps a presence until the registry has `count` workers of this name.
async fn arrive(place: &Place, presence: &Presence, name: &str, count: usize) {
    let is_there = async {
        while there(place)
            .await
            .iter()
            .filter(|(there, _)| there == name)
            .count()
            < count
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = is_there => {}
        never = presence.keep() => match never {},
    }
}

/// A worker is present whether it holds a task or not. One that no longer reports disappears with its lease and leaves nothing behind.
// covers: TASK-128
pub(super) async fn a_worker_is_there_until_it_ends_or_its_lease_does(place: Place) {
    let with = |name: &str, id: &str, terms| {
        Presence::new(Arc::clone(&place.coordinator), name, id.to_owned(), terms, None)
    };
    let (idle, busy) = (with("idle", "1", TERMS), with("busy", "2", TERMS));
    place.create("t").await;
    arrive(&place, &idle, "idle", 1).await;
    arrive(&place, &busy, "busy", 1).await;
    let claim = Claim {
        owner: None,
        except: BTreeSet::new(),
        hold: ExclusiveHold {
            holder: holder("lifecycle:busy"),
            lease: Some(LONG),
        },
    };
    assert!(place.coordinator.claim(claim).await.unwrap().is_some());
    let named = |names: &[(&str, u64)]| -> Vec<(String, u64)> {
        let own = |(name, tasks): &(&str, u64)| ((*name).to_owned(), *tasks);
        names.iter().map(own).collect()
    };
    assert_eq!(there(&place).await, named(&[("busy", 1), ("idle", 0)]));
    let worker = place.coordinator.workers().await.unwrap().remove(1);
    assert_eq!(
        (worker.terms, worker.is_busy(), worker.is_late),
        (TERMS, false, false)
    );
    assert!(worker.since <= worker.seen_at, "{worker:?}");
    let held = place.coordinator.held().await.unwrap();
    let held: Vec<_> = held.iter().map(|lock| lock.resource.as_str()).collect();
    assert_eq!(held, ["task:t"], "a presence keeps nobody from anything");

    // Several workers may have one name, and each is present by itself. A user's lock of such a name is no worker.
    let acquire = Acquire {
        resource: "worker:idle".to_owned(),
        holder: holder("ann"),
        mode: LockMode::Collaborative,
        lease: Some(LONG),
        in_order: false,
        task: None,
    };
    place.coordinator.acquire(acquire).await.unwrap();
    let twin = with("idle", "3", TERMS);
    arrive(&place, &twin, "idle", 2).await;
    idle.end().await;
    assert_eq!(there(&place).await, named(&[("busy", 1), ("idle", 0)]));
    twin.end().await;
    assert_eq!(there(&place).await, named(&[("busy", 1)]));
    // Removing the locks of a worker that seems dead keeps its presence. A user's lock of such a name is removed.
    let free = async |owner: &str| place.coordinator.emergency_clean_up(owner.to_owned()).await;
    assert_eq!((free("lifecycle:busy").await, free("ann").await), (Ok(1), Ok(1)));
    assert_eq!(there(&place).await, named(&[("busy", 0)]));

    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    let brief = with("brief", "4", WorkerTerms { lease_ms, ..TERMS });
    arrive(&place, &brief, "brief", 1).await;
    place.pass(LEASE + Duration::from_millis(2)).await;
    assert_eq!(there(&place).await, named(&[("busy", 0)]));
    place.coordinator.clean_up().await.unwrap();
    let resource = place
        .coordinator
        .resource("worker:brief".to_owned())
        .await
        .unwrap();
    assert_eq!(resource.held, []);
    // A worker that was suspended is present again.
    arrive(&place, &brief, "brief", 1).await;
}
