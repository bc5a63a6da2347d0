//! The state manager under a scheduler that chooses another order each time, and notices a deadlock.
//!
//! The code is the real one: queue, tickets, log, journalist, subscriptions, shutdown. The manager's two tasks, the
//! senders, the watchers and the stoppers are tasks of [`shuttle`], which may let another one continue at each await that
//! waits and before each use of the disk. The channels of tokio are used as they are. No timer fires except those that
//! are due at once, so that no timeout hides a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use hankweave_core::document::HankweaveState;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, RunId};
use hankweave_core::wire::Event;
use hankweave_runtime::journal::MemoryJournal;
use hankweave_runtime::state_manager::{
    Delivery, StateManager, StateManagerParts, StateManagerTask, Strictness, Subscription, TransitionError,
    load,
};
use hankweave_runtime::store::{LogContents, StateFiles, read_log};
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::SystemClock;
use hankweave_runtime::world::disk::Disk;
use hankweave_runtime::world::ids::RandomIds;
use hankweave_simulation::disk::{Plan, SimDisk, Trouble, TroubleKind};
use hankweave_simulation::rng::Rng;
use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread::yield_now;

/// Number of orders to try; `HANKWEAVE_TEST_SCHEDULES` overrides it.
const SCHEDULES: usize = 1_000;

const STATE_DIR: &str = "/state";

/// Runs the story in many orders.
fn explore(story: fn()) {
    let schedules = std::env::var("HANKWEAVE_TEST_SCHEDULES");
    let schedules = schedules.ok().and_then(|number| number.parse().ok());
    let timers = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("timers need nothing of the system");
    let _timers = timers.enter();
    shuttle::check_random(story, schedules.unwrap_or(SCHEDULES));
}

/// A manager on a disk of its own.
struct Stage {
    disk: SimDisk,
    manager: StateManager,
    /// The numbers of the acknowledged events, and whether they are state events.
    told: Mutex<BTreeMap<u64, bool>>,
}

impl Stage {
    fn new(plan: Plan) -> (Self, StateManagerTask) {
        let disk = SimDisk::new(Rng::new(1));
        let life = disk.begin_life(plan).pausing(yield_now);
        life.create_dir_private(Path::new(STATE_DIR))
            .expect("the virtual disk works");
        life.sync_dir(Path::new("/")).expect("the virtual disk works");
        let parts = StateManagerParts {
            files: StateFiles::new(Arc::new(life), None, STATE_DIR.into()),
            journal: Arc::new(MemoryJournal::default()),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds::new()),
            blocking: Blocking::Inline,
        };
        let loaded = load(&parts, Strictness::StartOver).expect("the virtual disk works");
        let (manager, task) = StateManager::start(parts, loaded);
        let told = Mutex::default();
        (Self { disk, manager, told }, task)
    }

    /// The log as a loss of power would leave it.
    fn durable_log(&self) -> LogContents {
        let path = Path::new(STATE_DIR).join("state.log");
        read_log(&self.disk.durable().read(&path, u64::MAX).unwrap_or_default())
    }

    fn assert_durable(&self, seq: u64) {
        let log = self.durable_log();
        assert!(
            log.records.iter().any(|record| record.seq == seq),
            "number {seq} is not durable"
        );
    }

    /// Sends two state events with another event and an unacceptable one between them. Only then asks for their outcomes.
    async fn send(&self, number: u64) {
        let sha = |number| StateEvent::InitialCheckpointSet {
            sha: CheckpointSha::new(format!("{number:040}")),
        };
        let message = number.to_string();
        let first = self.manager.transition(sha(number)).await;
        let other = self.manager.record(Event::Info { message }).await;
        let run_id = RunId::new("nobody").expect("a plain name");
        let wrong = self
            .manager
            .transition(StateEvent::RunCompleted { run_id, cause: None })
            .await;
        let second = self.manager.transition(sha(number + 1)).await;
        assert!(wrong.await.is_err(), "a run that never began has ended");
        for (ticket, is_state) in [(first, true), (other, false), (second, true)] {
            match ticket.await {
                Ok(receipt) => {
                    if is_state {
                        self.assert_durable(receipt.seq);
                        assert_ne!(
                            *self.manager.snapshot(),
                            HankweaveState::default(),
                            "told and not shown"
                        );
                    }
                    let before = self
                        .told
                        .lock()
                        .expect("nobody has panicked")
                        .insert(receipt.seq, is_state);
                    assert_eq!(before, None, "{} came twice", receipt.seq);
                }
                Err(TransitionError::Stopped | TransitionError::NotDurable(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Follows everything after `position` to its end, and returns the last number.
    async fn follow(&self, mut events: Subscription, mut position: u64) -> u64 {
        while let Some(delivery) = events.next().await.expect("the journal can be read") {
            let Delivery::Events(events) = delivery else {
                continue;
            };
            for entry in events.entries() {
                assert_eq!(entry.seq, position + 1, "not the next one");
                position = entry.seq;
                if matches!(entry.event, Event::StateTransition { .. }) {
                    self.assert_durable(position);
                }
            }
        }
        position
    }
}

/// Runs senders, watchers and two tasks that stop everything, all at once. Returns whether both stops succeeded, and what
/// the watchers saw last.
fn play(stage: &Arc<Stage>, task: StateManagerTask) -> (bool, Vec<u64>) {
    let (writer, journalist) = task.split();
    let tasks = [spawn(writer), spawn(journalist)];
    let senders = [10, 20].map(|number| {
        let stage = Arc::clone(stage);
        spawn(async move { stage.send(number).await })
    });
    let watchers = [true, false].map(|from_the_start| {
        let stage = Arc::clone(stage);
        spawn(async move {
            let position = if from_the_start {
                0
            } else {
                stage.manager.last_seq()
            };
            let events = stage.manager.subscribe_after(position);
            stage.follow(events, position).await
        })
    });
    let stops = [0, 1].map(|_| {
        let stage = Arc::clone(stage);
        spawn(async move { stage.manager.shutdown().await.is_ok() })
    });
    block_on(async {
        for sender in senders {
            sender.await.expect("a sender ends");
        }
        let stopped = all(stops).await.into_iter().all(|stopped| stopped);
        for task in tasks {
            task.await.expect("the manager ends");
        }
        (stopped, all(watchers).await)
    })
}

async fn all<T>(tasks: [JoinHandle<T>; 2]) -> Vec<T> {
    let mut values = Vec::new();
    for task in tasks {
        values.push(task.await.expect("the manager ends"));
    }
    values
}

// covers: P1, P2, P3, P4, D8, F8
#[test]
fn every_ticket_is_answered_once_its_event_is_durable_and_everybody_sees_one_order() {
    explore(|| {
        let (stage, task) = Stage::new(Plan::default());
        let stage = Arc::new(stage);
        let (stopped, seen) = play(&stage, task);
        assert!(stopped, "nothing hinders a stop");
        let last = stage
            .told
            .lock()
            .expect("nobody has panicked")
            .keys()
            .last()
            .copied()
            .unwrap_or(0);
        assert!(
            seen.iter().all(|seen| *seen >= last),
            "told {last}, seen {seen:?}"
        );
        assert_eq!(stage.durable_log().closed_at, Some(stage.manager.last_seq()));
    });
}

/// A disk that fails at any operation after the start, once or from then on.
// covers: P1, P4, P5
#[test]
fn with_a_failing_disk_no_ticket_lies_and_nobody_waits_for_ever() {
    explore(|| {
        let start = Stage::new(Plan::default()).0.disk.operations();
        let first = start + thread_rng().gen_range(0..16);
        let last = if thread_rng().gen_bool(0.5) {
            first
        } else {
            u64::MAX
        };
        let kind = TroubleKind::Broken;
        let troubles = vec![Trouble { first, last, kind }];
        let (stage, task) = Stage::new(Plan {
            troubles,
            ..Plan::default()
        });
        let stage = Arc::new(stage);
        let (stopped, _) = play(&stage, task);
        let degraded = stage.manager.degraded().borrow().is_some();
        assert!(!(stopped && degraded), "the stop of a failed disk said yes");
        // Every acknowledgement was checked when it came; nothing has undone it since.
        let log = stage.durable_log();
        let durable: BTreeSet<u64> = log.records.iter().map(|record| record.seq).collect();
        let told = stage.told.lock().expect("nobody has panicked");
        let mut states = told.iter().filter(|(_, is_state)| **is_state);
        assert!(
            states.all(|(seq, _)| durable.contains(seq)),
            "{told:?}, {durable:?}"
        );
    });
}
