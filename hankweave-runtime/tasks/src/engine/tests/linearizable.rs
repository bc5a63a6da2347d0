use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use hankweave_task_model::TaskError;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{Patch, RegistryChange, TaskRow};
use hankweave_task_model::task::TaskTransition;

use super::history::{Call, Client, Event, Reply, Spec, is_linearizable};
use super::place::{Place, fail, holder, id, start};
use crate::coordinator::{Acquire, CommitRequest, Coordinator, Release};

const CLIENTS: Client = 6;
const CALLS: usize = 20;

/// Small pseudo-random numbers, determined by the seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Memory of a client, which continues with its last token even after it has lost the lock.
#[derive(Default)]
struct Memory {
    token: u64,
    version: u64,
    row: u64,
}

impl Memory {
    fn next(&self, chance: &mut Chance) -> Call {
        match chance.below(10) {
            0..3 => Call::Acquire,
            3 => Call::Release,
            4 => Call::Evict(chance.below(CLIENTS as u64) as Client),
            5..7 => Call::Commit {
                token: self.token,
                expected: self.version,
            },
            _ => Call::Change {
                token: self.token,
                expected: self.row,
            },
        }
    }

    fn learn(&mut self, call: &Call, reply: &Reply) {
        match (call, reply) {
            (_, Reply::Granted { token, version, row }) => {
                (self.token, self.version, self.row) = (*token, *version, *row);
            }
            (Call::Commit { .. }, Reply::Written(version) | Reply::Conflict(version)) => {
                self.version = *version
            }
            (Call::Change { .. }, Reply::Written(row) | Reply::Conflict(row)) => self.row = *row,
            _ => {}
        }
    }
}

fn owner(client: Client) -> String {
    format!("client-{client}")
}

async fn carry_out(coordinator: &dyn Coordinator, task: &str, client: Client, call: &Call) -> Reply {
    let resource = TaskRow::lock_name(&id(task));
    let refused = |error: TaskError| match error {
        TaskError::ResourceLocked { .. } => Reply::Locked,
        TaskError::LockNotHeld { .. } => Reply::NotHeld,
        TaskError::StaleToken { .. } => Reply::Stale,
        TaskError::VersionConflict { version, .. } => Reply::Conflict(version),
        other => panic!("{other}"),
    };
    match call {
        Call::Acquire => {
            let acquire = Acquire {
                resource,
                holder: holder(&owner(client)),
                mode: LockMode::Exclusive,
                lease: Some(Duration::from_secs(3600)),
                in_order: false,
                task: Some(id(task)),
            };
            let acquired = coordinator.acquire(acquire).await;
            acquired.map_or_else(refused, |acquired| Reply::Granted {
                token: acquired.held.token,
                version: acquired.version,
                row: acquired.row.unwrap().version,
            })
        }
        Call::Release => {
            let release = Release {
                resource,
                holder: holder(&owner(client)),
                written: None,
            };
            let released = coordinator.release(release).await;
            released.map_or_else(refused, |held| Reply::Released(held.is_some()))
        }
        Call::Evict(of) => Reply::Evicted(coordinator.emergency_clean_up(owner(*of)).await.unwrap()),
        Call::Commit { token, expected } => {
            let commit = CommitRequest {
                resource,
                token: *token,
                expected_version: *expected,
            };
            coordinator
                .commit(commit)
                .await
                .map_or_else(refused, Reply::Written)
        }
        Call::Change { token, expected } => {
            let steps = vec![start(), fail(), TaskTransition::Resume];
            let change = RegistryChange {
                id: id(task),
                expected_version: *expected,
                token: *token,
                steps,
                cost: None,
                approval: None,
                by: None,
                lease: None,
                files: Patch::Keep,
            };
            let changed = coordinator.change(change).await;
            changed.map_or_else(refused, |changed| Reply::Written(changed.row.version))
        }
    }
}

/// Records the answers that several concurrent clients get on one task.
async fn history(place: &Place, task: &'static str, seed: u64) -> Vec<Event> {
    let (events, moments) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    let clients = (0..CLIENTS).map(|client| {
        let (coordinator, events, moments) = (place.coordinator.clone(), events.clone(), moments.clone());
        tokio::spawn(async move {
            let (mut chance, mut memory) = (Chance(seed * 1000 + client as u64), Memory::default());
            for _ in 0..CALLS {
                let call = memory.next(&mut chance);
                let asked = moments.fetch_add(1, Ordering::SeqCst);
                let reply = carry_out(&*coordinator, task, client, &call).await;
                let answered = moments.fetch_add(1, Ordering::SeqCst);
                memory.learn(&call, &reply);
                let event = Event {
                    client,
                    call,
                    reply,
                    asked,
                    answered,
                };
                events.lock().unwrap().push(event);
                tokio::task::yield_now().await;
            }
        })
    });
    join_all(clients)
        .await
        .into_iter()
        .for_each(|ended| ended.unwrap());
    std::mem::take(&mut events.lock().unwrap())
}

/// Returns for each of several seeds, each with its own task, whether some order explains the answers of the clients.
async fn seeds_with_an_order(place: &Place) -> Vec<bool> {
    let mut orders = Vec::new();
    for (seed, task) in (1..).zip(["a", "b", "c", "d", "e", "f"]) {
        let row = place.create(task).await;
        let base = place
            .coordinator
            .resource(TaskRow::lock_name(row.id()))
            .await
            .unwrap()
            .version;
        let events = history(place, task, seed).await;
        orders.push(is_linearizable(&events, Spec::new(base, row.version)));
        for client in 0..CLIENTS {
            place.coordinator.emergency_clean_up(owner(client)).await.unwrap();
        }
    }
    orders
}

// covers: TASK-23
pub(super) async fn what_clients_see_has_an_order(place: Place) {
    assert_eq!(seeds_with_an_order(&place).await, [true; 6]);
}

/// The check must find a history without an order if tokens are not checked; otherwise it would prove nothing.
// covers: TASK-20
pub(super) async fn a_missing_fence_is_found(place: Place) {
    let orders = seeds_with_an_order(&place).await;
    assert!(orders.contains(&false), "{orders:?}");
}
