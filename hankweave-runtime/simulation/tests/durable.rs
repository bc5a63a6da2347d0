//! Durability of state files when a step returns, and the contents that a start reads from them (P1, D1 to D5).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::document::StartingConditions;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, EventId, Pid, RunId};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::journal::{Batch, EventJournal, FileJournal, JournalLimits, PageLimit};
use hankweave_runtime::state_manager::{
    LoadError, LoadedState, StateManager, StateManagerParts, Strictness, load,
};
use hankweave_runtime::store::{LogBatch, NOTHING_IN_DOUBT, StateFiles, read_log};
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::SystemClock;
use hankweave_runtime::world::disk::Disk;
use hankweave_runtime::world::ids::RandomIds;
use hankweave_simulation::disk::{Crash, Plan, SimDisk, Trouble, TroubleKind};
use hankweave_simulation::rng::Rng;
use tokio::task::JoinHandle;

const STATE_DIR: &str = "/state";

/// A disk with a state directory.
fn disk() -> SimDisk {
    disk_of(1)
}

fn disk_of(seed: u64) -> SimDisk {
    let disk = SimDisk::new(Rng::new(seed));
    disk.create_dir_private(Path::new(STATE_DIR))
        .expect("the virtual disk works");
    disk.sync_dir(Path::new("/")).expect("the virtual disk works");
    disk
}

fn open_journal(life: &SimDisk) -> FileJournal {
    let events = Path::new(STATE_DIR).join("events");
    FileJournal::open(Arc::new(life.clone()), &events, JournalLimits::default())
        .expect("the virtual disk works")
}

/// A start of the state manager.
fn start(disk: &SimDisk) -> (StateManagerParts, LoadedState) {
    try_start(disk, Plan::default()).expect("the virtual disk works")
}

/// Starts the state manager on a disk that may refuse it.
fn try_start(disk: &SimDisk, plan: Plan) -> Result<(StateManagerParts, LoadedState), LoadError> {
    let life = disk.begin_life(plan);
    let events = Path::new(STATE_DIR).join("events");
    let journal = FileJournal::open(Arc::new(life.clone()), &events, JournalLimits::default())
        .map_err(LoadError::Journal)?;
    let parts = StateManagerParts {
        files: StateFiles::new(Arc::new(life), None, STATE_DIR.into()),
        journal: Arc::new(journal),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds::new()),
        blocking: Blocking::Inline,
    };
    let loaded = load(&parts, Strictness::StartOver)?;
    Ok((parts, loaded))
}

/// The power goes right after the save, and takes everything that was not synced.
// covers: D1, D2, F2
#[test]
fn a_saved_document_is_there_after_a_loss_of_power() {
    let disk = disk();
    let files = StateFiles::new(Arc::new(disk.begin_life(Plan::default())), None, STATE_DIR.into());
    let durable = |name: &str| disk.durable().read(&Path::new(STATE_DIR).join(name), 100).ok();

    files.save(b"one", false).unwrap();
    assert_eq!(durable("state.json"), Some(b"one".to_vec()));
    files.save(b"two", true).unwrap();
    assert_eq!(durable("state.json"), Some(b"two".to_vec()));
    assert_eq!(durable("state.json.bak"), Some(b"one".to_vec()));
}

/// The power goes right after the first write to a new log.
// covers: P1, D1, F2
#[test]
fn a_line_of_a_new_log_is_there_after_a_loss_of_power() {
    let disk = disk();
    let files = StateFiles::new(Arc::new(disk.begin_life(Plan::default())), None, STATE_DIR.into());
    let mut log = files.open_log(&NOTHING_IN_DOUBT).unwrap();
    let mut line = LogBatch::default();
    line.closed(7);
    log.append(&line).unwrap();
    let path = Path::new(STATE_DIR).join("state.log");
    let durable = disk.durable().read(&path, 1 << 20).unwrap();
    assert_eq!(read_log(&durable).closed_at, Some(7));
}

/// A killed life has written to the journal without a sync. The next start finds state.json damaged and writes a new one,
/// and then the power goes.
// covers: P7, F2, F4
#[test]
fn what_a_new_document_contains_is_durable_in_the_journal() {
    let disk = disk();
    assert_eq!(live(&disk, Plan::default(), history(), Duration::ZERO), 2);
    disk.end_life(Some(Crash::Kill));
    let state_json = Path::new(STATE_DIR).join("state.json");
    disk.remove_file(&state_json).unwrap();
    disk.scribble(&state_json, b"{").unwrap();
    start(&disk);
    let (happened, journaled) = recorded(&disk.durable());
    assert_eq!((happened, journaled.len()), (2, 2), "{journaled:?}");
}

/// The disk refuses one or two operations of a life, syncs among them. The next life finds what it wrote in the memory of the system and continues with it on a
/// good disk; then the power goes, at once or when all is saved.
// covers: P1, P5, P7, F2, F3
#[test]
fn what_a_start_has_read_is_durable_although_an_earlier_sync_failed() {
    let until_all_is_saved = Duration::from_secs(10);
    for seed in 0..16 {
        let (in_a_row, at_once) = (1 + seed % 2, seed < 8);
        for first in 0.. {
            let disk = disk_of(seed);
            let trouble = Trouble {
                first,
                last: first + in_a_row - 1,
                kind: TroubleKind::Broken,
            };
            let plan = Plan {
                troubles: vec![trouble],
                ..Plan::default()
            };
            let told = live(&disk, plan, history(), until_all_is_saved);
            let refused = disk.refusals() > 0;
            disk.end_life(Some(Crash::Kill));
            match at_once {
                true => drop(start(&disk)),
                false => assert_eq!(live(&disk, Plan::default(), Vec::new(), until_all_is_saved), 0),
            }

            let (happened, journaled) = recorded(&disk.durable());
            let context = format!("seed {seed}, {trouble:?}: {journaled:?}");
            assert!(told <= happened, "a told event is gone; {context}");
            assert_eq!(happened, journaled.len(), "the journal is not history; {context}");
            if !refused {
                break;
            }
        }
    }
}

/// Events come faster than they are recorded, so that snapshots are saved while some events wait to be published; and the
/// power goes again and again.
// covers: P7, F2
#[test]
fn what_a_snapshot_contains_is_durable_in_the_journal_however_busy_the_writer_is() {
    // Enough at a time for the writer to wait for the journal while more events wait for it. A sender sends no more than
    // 128 without a pause.
    const SENDERS: u64 = 40;
    const EVENTS: u64 = 384;
    let disk = disk();
    let saved = runtime().block_on(async {
        let (parts, loaded) = start(&disk);
        let (manager, task) = StateManager::start(parts, loaded);
        let task = task.spawn();
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| flood(manager.clone(), sender, EVENTS))
            .collect();
        let mut saved = BTreeSet::new();
        while !senders.iter().all(JoinHandle::is_finished) {
            tokio::time::advance(Duration::from_millis(120)).await;
            let left = disk.durable();
            let file = |name: &str| left.read(&Path::new(STATE_DIR).join(name), 1 << 30);
            let log = read_log(&file("state.log").expect("there is a log"));
            let state = file("state.json").expect("there is a document");
            if log.mark_of(&state).is_some_and(|mark| saved.insert(mark.seq)) {
                let (parts, _) = start(&left);
                assert_eq!(
                    numbers(&*parts.journal),
                    (1..=log.last_seq()).collect::<Vec<_>>(),
                    "of {saved:?}"
                );
            }
        }
        task.abort();
        saved.len()
    });
    assert!(saved >= 2, "no snapshot was saved meanwhile");
}

/// Sends events without waiting for any of them.
fn flood(manager: StateManager, sender: u64, events: u64) -> JoinHandle<()> {
    tokio::spawn(async move {
        for number in 0..events {
            let sha = CheckpointSha::new(format!("{sender:020}{number:020}"));
            drop(manager.transition(StateEvent::InitialCheckpointSet { sha }).await);
        }
    })
}

/// The numbers of everything in a journal.
fn numbers(journal: &dyn EventJournal) -> Vec<u64> {
    let mut numbers: Vec<u64> = Vec::new();
    loop {
        let after = numbers.last().copied().unwrap_or(0);
        let page = journal
            .read_after(after, PageLimit::CLIENT)
            .expect("the virtual disk works");
        numbers.extend(page.entries.iter().map(|entry| entry.seq));
        if !page.more {
            return numbers;
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        // Timers are checked however much other work there is.
        .event_interval(1)
        .build()
        .expect("a runtime on this thread needs nothing")
}

/// The smallest history that a start takes for one: something that is saved at once, and something that has time.
fn history() -> Vec<StateEvent> {
    vec![
        StateEvent::RunStarted {
            run_id: RunId::new("run").expect("a plain name"),
            run_folder: "/project/.hankweave/runs/run".into(),
            git_branch: "run-run".to_owned(),
            starting_conditions: StartingConditions::fresh(None),
            server_pid: Pid(1),
        },
        StateEvent::InitialCheckpointSet {
            sha: CheckpointSha::new("1".repeat(40)),
        },
    ]
}

/// Lives a life in which the events happen, unless the disk prevents it, and which then rests. Returns the number of
/// acknowledged events.
fn live(disk: &SimDisk, plan: Plan, events: Vec<StateEvent>, rest: Duration) -> usize {
    runtime().block_on(async {
        let Ok((parts, loaded)) = try_start(disk, plan) else {
            return 0;
        };
        let (manager, task) = StateManager::start(parts, loaded);
        let task = task.spawn();
        let mut told = 0;
        for event in events {
            let ticket = manager.transition(event).await;
            told += usize::from(ticket.await.is_ok());
            // Now it is in the journal, and nothing with a later deadline has been synced.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(rest).await;
        task.abort();
        told
    })
}

/// How much of the history a start finds in the document, and the journal with it.
fn recorded(disk: &SimDisk) -> (usize, Vec<JournalEntry>) {
    let (parts, loaded) = start(disk);
    let state = loaded.state();
    let happened = state.runs.len() + usize::from(state.initial_checkpoint.is_some());
    let everything = PageLimit {
        entries: 10,
        bytes: 1 << 20,
    };
    let page = parts.journal.read_after(0, everything);
    (happened, page.expect("the virtual disk works").entries)
}

/// A start reads only the ends of the journal; docs/benchmarks.md has the time that takes.
// covers: P10
#[test]
fn a_start_reads_no_more_of_a_longer_journal() {
    let reads = |events: u64| {
        let disk = disk();
        let entry = |seq: u64| JournalEntry {
            seq,
            id: EventId::new(format!("event-{seq}")).unwrap(),
            timestamp: Timestamp::UNIX_EPOCH,
            event: Event::Info {
                message: "x".repeat(1_000),
            },
        };
        open_journal(&disk.begin_life(Plan::default()))
            .append(&Batch::new(&(1..=events).map(entry).collect::<Vec<_>>()))
            .unwrap();
        let life = disk.begin_life(Plan::default());
        assert_eq!(open_journal(&life).last_seq(), events);
        life.reads()
    };
    assert_eq!(reads(2_000), reads(20_000));
}
