//! What is durable when a step on the state files returns, and what a start reads of them ("reliability and security", sections 2 and 3).

use std::path::Path;
use std::sync::Arc;

use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, EventId};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::journal::{EventJournal, FileJournal, JournalLimits, PageLimit};
use hankweave_runtime::state_manager::{Loaded, Parts, StateManager, Strictness, load};
use hankweave_runtime::store::StateFiles;
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::SystemClock;
use hankweave_runtime::world::disk::Disk;
use hankweave_runtime::world::ids::RandomIds;
use hankweave_simulation::disk::{Crash, Plan, SimDisk};
use hankweave_simulation::rng::Rng;

const STATE_DIR: &str = "/state";

/// A disk with a state directory.
fn disk() -> SimDisk {
    let disk = SimDisk::new(Rng::new(1));
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
fn start(disk: &SimDisk) -> (Parts, Loaded) {
    let life = disk.begin_life(Plan::default());
    let journal = open_journal(&life);
    let parts = Parts {
        files: StateFiles::new(Arc::new(life), None, STATE_DIR.into()),
        journal: Arc::new(journal),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds::new()),
        blocking: Blocking::Inline,
    };
    let loaded = load(&parts, Strictness::StartOver).expect("the virtual disk works");
    (parts, loaded)
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

/// A killed life has told the journal and not synced it; the next start finds state.json damaged and writes a new one, and then the power goes.
// covers: P7, F2, F4
#[test]
fn what_a_new_document_contains_is_durable_in_the_journal() {
    let disk = disk();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let sha = CheckpointSha::new("1".repeat(40));
    let seq = runtime.block_on(async {
        let (parts, loaded) = start(&disk);
        let (manager, task) = StateManager::start(parts, loaded);
        let task = task.spawn();
        let mut events = manager.subscribe();
        let ticket = manager.transition(StateEvent::InitialCheckpointSet { sha }).await;
        let receipt = ticket.await.unwrap();
        // Published, so it stands in the journal; its sync would come 200 ms later.
        events.next().await.unwrap().unwrap();
        task.abort();
        receipt.seq
    });
    drop(runtime);
    disk.end_life(Some(Crash::Kill));
    let state_json = Path::new(STATE_DIR).join("state.json");
    disk.remove_file(&state_json).unwrap();
    disk.scribble(&state_json, b"{").unwrap();
    start(&disk);

    let (parts, _) = start(&disk.durable());
    let everything = PageLimit {
        entries: 10,
        bytes: 1 << 20,
    };
    let page = parts.journal.read_after(0, everything).unwrap();
    assert!(page.entries.iter().any(|entry| entry.seq == seq), "{page:?}");
}

/// A start looks at the ends of the journal alone; how long that takes is in docs/benchmarks.md.
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
        let entries: Vec<_> = (1..=events).map(|seq| Arc::new(entry(seq))).collect();
        open_journal(&disk.begin_life(Plan::default()))
            .append(&entries)
            .unwrap();
        let life = disk.begin_life(Plan::default());
        assert_eq!(open_journal(&life).last_seq(), events);
        life.reads()
    };
    assert_eq!(reads(2_000), reads(20_000));
}
