use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{HankweaveState, PlanEntry, StartingConditions};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::id::{CheckpointSha, CodonId, EventId, Pid, RunId};
use hankweave_core::state::{LiveState, StateSource};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use tokio::task::JoinHandle;

use super::journal_writer::SEQ_GAP;
use super::*;
use crate::journal::{Batch, BatchLine, FileJournal, JournalLimits, PageLimit};
use crate::store::read_log;
use crate::world::clock::Noon;
use crate::world::disk::{Disk, Fault, FaultyDisk, RealDisk};
use crate::world::ids::RandomIds;

/// Makes a directory in memory if the system supports it: the sweeps sync thousands of times.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
    .unwrap()
}

/// One life of the manager.
struct Life {
    manager: StateManager,
    task: JoinHandle<()>,
}

pub(super) fn parts(disk: &Arc<dyn Disk>, dir: &Path) -> Option<StateManagerParts> {
    let journal = FileJournal::open(Arc::clone(disk), &dir.join("events"), JournalLimits::default()).ok()?;
    Some(StateManagerParts {
        files: StateFiles::new(Arc::clone(disk), None, dir.to_owned()),
        journal: Arc::new(journal),
        clock: Arc::new(Noon),
        ids: Arc::new(RandomIds::new()),
        blocking: Blocking::Inline,
    })
}

/// Starts on `disk`; `None` when the disk does not let it.
fn try_start(disk: &Arc<dyn Disk>, dir: &Path) -> Option<Life> {
    let parts = parts(disk, dir)?;
    let loaded = load(&parts, Strictness::StartOver).ok()?;
    let (manager, task) = StateManager::start(parts, loaded);
    Some(Life {
        manager,
        task: task.spawn(),
    })
}

fn start(dir: &Path) -> Life {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    try_start(&disk, dir).unwrap()
}

fn reload(dir: &Path) -> (StateManagerParts, LoadedState) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let parts = parts(&disk, dir).unwrap();
    let loaded = load(&parts, Strictness::Stop).unwrap();
    (parts, loaded)
}

impl Life {
    async fn end(self) {
        self.manager.shutdown().await.unwrap();
        self.task.await.unwrap();
    }

    /// Ends as by kill -9: nothing more is written.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn transition(&self, event: StateEvent) -> Result<Receipt, TransitionError> {
        self.manager.transition(event).await.await
    }
}

fn sha(number: u64) -> StateEvent {
    StateEvent::InitialCheckpointSet {
        sha: CheckpointSha::new(format!("{number:040}")),
    }
}

fn run_id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn run_started(name: &str) -> StateEvent {
    StateEvent::RunStarted {
        run_id: run_id(name),
        run_folder: PathBuf::from("/project/.hankweave/runs").join(name),
        git_branch: format!("run-{name}"),
        starting_conditions: StartingConditions::fresh(None),
        server_pid: Pid(1),
    }
}

fn run_completed(name: &str) -> StateEvent {
    StateEvent::RunCompleted {
        run_id: run_id(name),
        cause: None,
    }
}

fn info(number: u64) -> Event {
    Event::Info {
        message: format!("number {number}"),
    }
}

fn fold(events: &[StateEvent]) -> HankweaveState {
    let mut live = LiveState::default();
    for (seq, event) in (1..).zip(events) {
        live.apply(&Recorded {
            seq,
            at: Noon.now(),
            event: event.clone(),
        })
        .unwrap();
    }
    live.document().clone()
}

/// The numbers in the journal, and the state events among its entries.
fn journaled(parts: &StateManagerParts) -> (Vec<u64>, Vec<StateEvent>) {
    let limit = PageLimit {
        entries: usize::MAX,
        bytes: usize::MAX,
    };
    let page = parts.journal.read_after(0, limit).unwrap();
    let seqs = page.entries.iter().map(|entry| entry.seq).collect();
    let events = page
        .entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::StateTransition { transition, .. } => Some(StateEvent::clone(transition)),
            _ => None,
        })
        .collect();
    (seqs, events)
}

#[tokio::test(start_paused = true)]
async fn a_fresh_directory_begins_with_an_empty_document() {
    let folder = folder();
    let life = start(folder.path());
    assert_eq!(*life.manager.snapshot(), HankweaveState::default());
    assert_eq!(life.transition(sha(1)).await.unwrap().seq, 1);
    life.end().await;
}

// Absolute costs, and getters that walk through no history.
// covers: STATE-48
#[tokio::test(start_paused = true)]
async fn costs_are_told_with_the_time_of_the_last_one() {
    let folder = folder();
    let life = start(folder.path());
    assert_eq!(life.manager.costs(), CostFigures::default());
    life.transition(run_started("a")).await.unwrap();
    let transitioned = |from: &str, to: &str, metadata: serde_json::Value| {
        let data =
            serde_json::json!({"runId": "a", "codonId": "c", "from": from, "to": to, "metadata": metadata});
        serde_json::from_value(serde_json::json!({"type": "CodonTransitioned", "data": data})).unwrap()
    };
    let codon_id: CodonId = "c".parse().unwrap();
    life.transition(StateEvent::CodonStarted {
        run_id: run_id("a"),
        codon_id: codon_id.clone(),
        loop_context: None,
        chosen_agent: None,
        start_checkpoint: None,
    })
    .await
    .unwrap();
    for (from, to, metadata) in [
        ("preparing", "starting", serde_json::json!({})),
        (
            "starting",
            "initializing",
            serde_json::json!({"claudePid": 1, "claudeLogPath": "l"}),
        ),
        (
            "initializing",
            "running",
            serde_json::json!({"claudeSessionId": "s"}),
        ),
    ] {
        life.transition(transitioned(from, to, metadata)).await.unwrap();
    }
    assert_eq!(life.manager.costs().last_updated, None);
    let (cost, tokens) = (Usd::from_micros(250_000), TokenUsage::default());
    let updated = StateEvent::CostsUpdated {
        run_id: run_id("a"),
        codon_id,
        cost,
        tokens,
    };
    life.transition(updated).await.unwrap();
    let expected = CostFigures {
        total: cost,
        current_run: cost,
        last_updated: Some(Noon.now()),
    };
    assert_eq!(life.manager.costs(), expected);
    let thread = life.manager.execution_thread(Some(&run_id("a")), None);
    assert_eq!((thread.codons.len(), thread.has_running_codon), (1, true));
    assert_eq!(
        life.manager.execution_thread(Some(&run_id("b")), None).total_runs,
        0
    );
    life.end().await;
}

#[tokio::test(start_paused = true)]
async fn another_life_continues_document_and_numbers() {
    let folder = folder();
    let life = start(folder.path());
    life.transition(run_started("a")).await.unwrap();
    let last = life.manager.record(info(1)).await.await.unwrap().seq;
    life.end().await;
    let life = start(folder.path());
    assert_eq!(*life.manager.snapshot(), fold(&[run_started("a")]));
    assert_eq!(life.transition(sha(1)).await.unwrap().seq, last + 1);
    life.end().await;
}

// covers: P2
/// A kill may come after the log and before state.json. The next life repairs the file although it records
/// nothing itself.
#[tokio::test(start_paused = true)]
async fn a_life_without_events_of_its_own_brings_state_json_up_to_date() {
    let dir = folder();
    let file = dir.path().join("state.json");
    start(dir.path()).end().await;
    let stale = std::fs::read(&file).unwrap();
    let life = start(dir.path());
    life.transition(run_started("a")).await.unwrap();
    life.kill().await;
    std::fs::write(&file, stale).unwrap();

    start(dir.path()).end().await;
    let mended = hankweave_core::document::parse(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(mended.current_run_id, Some(run_id("a")));
}

// covers: P2
#[tokio::test(start_paused = true)]
async fn after_an_unclean_end_no_number_is_given_out_again() {
    let folder = folder();
    let life = start(folder.path());
    let last = life.transition(sha(1)).await.unwrap().seq;
    life.kill().await;
    let life = start(folder.path());
    assert!(life.transition(sha(2)).await.unwrap().seq > last + SEQ_GAP);
    life.end().await;
}

// covers: P3, F8
#[tokio::test(start_paused = true)]
async fn a_rejected_event_does_not_block_the_next() {
    let folder = folder();
    let life = start(folder.path());
    let tickets = [
        life.manager.transition(run_completed("nobody")).await,
        life.manager.transition(run_started("a")).await,
        life.manager.transition(run_completed("nobody")).await,
        life.manager.transition(run_completed("a")).await,
    ];
    let answers = join_all(tickets).await;
    assert!(matches!(answers[0], Err(TransitionError::Rejected(_))));
    assert!(matches!(answers[2], Err(TransitionError::Rejected(_))));
    assert_eq!(
        (answers[1].as_ref().unwrap().seq, answers[3].as_ref().unwrap().seq),
        (1, 2)
    );
    assert_eq!(
        *life.manager.snapshot(),
        fold(&[run_started("a"), run_completed("a")])
    );
    life.end().await;
}

#[tokio::test]
async fn a_refused_event_leaves_nothing_in_the_log() {
    let folder = folder();
    let life = start(folder.path());
    let no_text = StateEvent::RunStarted {
        run_id: run_id("b"),
        run_folder: OsString::from_vec(vec![0xff]).into(),
        git_branch: String::new(),
        starting_conditions: StartingConditions::fresh(None),
        server_pid: Pid(1),
    };
    let tickets = [
        life.manager.transition(run_completed("nobody")).await,
        life.manager.transition(run_started("a")).await,
        life.manager.transition(no_text).await,
        life.manager.transition(run_completed("a")).await,
    ];
    let answers = join_all(tickets).await;
    assert!(matches!(answers[0], Err(TransitionError::Rejected(_))));
    assert!(matches!(answers[2], Err(TransitionError::NotText(_))));
    life.kill().await;
    let log = read_log(&std::fs::read(folder.path().join("state.log")).unwrap());
    let recorded: Vec<_> = log
        .records
        .into_iter()
        .map(|record| (record.seq, record.event))
        .collect();
    assert_eq!(recorded, [(1, run_started("a")), (2, run_completed("a"))]);
    assert_eq!(log.damaged_lines, 0);
}

// covers: D5
#[tokio::test(start_paused = true)]
async fn sixty_four_waiting_events_share_one_sync() {
    let folder = folder();
    let counting = FaultyDisk::new(Arc::new(RealDisk), Fault::None);
    let disk: Arc<dyn Disk> = Arc::new(counting.clone());
    let life = try_start(&disk, folder.path()).unwrap();
    let before = counting.syncs();
    let mut tickets = Vec::new();
    for number in 0..64 {
        tickets.push(life.manager.transition(sha(number)).await);
    }
    assert!(join_all(tickets).await.iter().all(Result::is_ok));
    assert_eq!(counting.syncs() - before, 1);
    life.end().await;
}

// covers: P2, P4
#[tokio::test(start_paused = true)]
async fn subscribers_see_every_event_once_and_in_order() {
    let folder = folder();
    let life = start(folder.path());
    life.transition(sha(0)).await.unwrap();
    let mut from_now = life.manager.subscribe();
    let mut from_start = life.manager.subscribe_after(0);
    for number in 1..=20 {
        drop(life.manager.record(info(number)).await);
        drop(life.manager.transition(sha(number)).await);
    }
    life.end().await;
    assert_eq!(drain(&mut from_now).await, ((2..=41).collect(), 0));
    assert_eq!(drain(&mut from_start).await, ((1..=41).collect(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_told_and_misses_nothing() {
    let folder = folder();
    let life = start(folder.path());
    let mut slow = life.manager.subscribe();
    drop(life.manager.record(info(1)).await.await);
    assert!(matches!(slow.next().await.unwrap(), Some(Delivery::Events(_))));
    for _ in 2..=9_000 {
        let message = "x".repeat(1_000);
        drop(life.manager.record(Event::Info { message }).await);
    }
    life.end().await;
    let (seqs, lagged) = drain(&mut slow).await;
    assert_eq!(seqs, (2..=9_000).collect::<Vec<_>>());
    assert_eq!(lagged, 1);
}

/// Subscribers get the published events themselves; what this process has just encoded is not decoded.
#[tokio::test(start_paused = true)]
async fn subscribers_get_the_very_events_that_were_published() {
    let folder = folder();
    let life = start(folder.path());
    let mut all = [life.manager.subscribe(), life.manager.subscribe()];
    for number in 1..=100 {
        drop(life.manager.record(info(number)).await);
    }
    life.end().await;
    let mut seen = all.each_ref().map(|_| Vec::new());
    for (subscription, seen) in all.iter_mut().zip(&mut seen) {
        while let Some(Delivery::Events(events)) = subscription.next().await.unwrap() {
            seen.push(events);
        }
    }
    let [one, other] = seen.each_ref().map(|seen| seen.iter().flat_map(Events::values));
    let pairs: Vec<_> = one.zip(other).collect();
    assert_eq!(pairs.len(), 100);
    assert!(pairs.iter().all(|(one, other)| std::ptr::eq(*one, *other)));
}

/// A subscriber that lagged takes events from memory once they are in memory again.
#[tokio::test(start_paused = true)]
async fn a_subscriber_that_lagged_reads_no_more_of_the_journal_than_it_must() {
    let folder = folder();
    let life = start(folder.path());
    let (mut slow, mut quick) = (life.manager.subscribe_after(0), life.manager.subscribe());
    for _ in 1..=9_000 {
        let message = "x".repeat(1_000);
        drop(life.manager.record(Event::Info { message }).await);
    }
    life.end().await;
    let mut last = [None, None];
    for (subscription, last) in [&mut slow, &mut quick].into_iter().zip(&mut last) {
        while let Some(delivery) = subscription.next().await.unwrap() {
            if let Delivery::Events(events) = delivery {
                *last = Some(events);
            }
        }
    }
    let newest = last
        .each_ref()
        .map(|last| last.as_ref().unwrap().values().last().unwrap());
    assert!(std::ptr::eq(newest[0], newest[1]));
    assert_eq!(newest[0].seq, 9_000);
}

#[tokio::test(start_paused = true)]
async fn more_events_at_a_time_than_the_queue_holds_come_in_order() {
    let folder = folder();
    let life = start(folder.path());
    let mut events = life.manager.subscribe_after(0);
    for number in 1..=10_000 {
        drop(life.manager.record(info(number)).await);
    }
    life.transition(sha(1)).await.unwrap();
    life.end().await;
    let mut told = Vec::new();
    while let Some(delivery) = events.next().await.unwrap() {
        if let Delivery::Events(events) = delivery {
            told.extend(events.entries().map(|entry| entry.event));
        }
    }
    let last = told.pop().unwrap();
    assert!(matches!(last, Event::StateTransition { .. }), "{last:?}");
    assert_eq!(told, (1..=10_000).map(info).collect::<Vec<_>>());
}

// covers: P2, P3
#[tokio::test(start_paused = true)]
async fn events_keep_the_order_in_which_they_were_sent() {
    let folder = folder();
    let life = start(folder.path());
    let mut events = life.manager.subscribe_after(0);
    drop(life.manager.record(info(1)).await);
    drop(life.manager.record(info(2)).await);
    drop(life.manager.transition(sha(1)).await);
    drop(life.manager.record(info(3)).await);
    life.end().await;
    let mut told = Vec::new();
    while let Some(delivery) = events.next().await.unwrap() {
        if let Delivery::Events(events) = delivery {
            told.extend(events.lines().map(|line| (line.seq(), line.kind())));
        }
    }
    let first = told[0].0;
    let kinds = ["info", "info", "state.transition", "info"];
    assert_eq!(told, (first..).zip(kinds).collect::<Vec<_>>());
}

/// Returns the numbers of all events until the end, and how often the subscriber was notified that it lags.
async fn drain(subscription: &mut Subscription) -> (Vec<u64>, usize) {
    let (mut seqs, mut lagged) = (Vec::new(), 0);
    while let Some(delivery) = subscription.next().await.unwrap() {
        match delivery {
            Delivery::Events(events) => seqs.extend(events.entries().map(|entry| entry.seq)),
            Delivery::Lagged => lagged += 1,
        }
    }
    (seqs, lagged)
}

#[tokio::test(start_paused = true)]
async fn a_quiet_change_reaches_the_document_file_within_its_patience() {
    let folder = folder();
    let life = start(folder.path());
    life.transition(sha(7)).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(101)).await;
    let text = std::fs::read_to_string(folder.path().join("state.json")).unwrap();
    assert_eq!(text, hankweave_core::document::render(&fold(&[sha(7)])));
    life.kill().await;
}

// covers: P7
#[tokio::test(start_paused = true)]
async fn events_that_the_journal_lost_come_back_from_the_log() {
    let folder = folder();
    let life = start(folder.path());
    for number in 1..=5 {
        life.transition(sha(number)).await.unwrap();
    }
    life.kill().await;
    let journal = folder.path().join("events/000001.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let kept: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(i, _)| ![1, 4].contains(i))
        .map(|(_, l)| l)
        .collect();
    std::fs::write(&journal, kept.join("\n") + "\n").unwrap();
    let (parts, loaded) = reload(folder.path());
    assert_eq!(loaded.restored_events, 2);
    assert_eq!(journaled(&parts), ((1..=5).collect(), (1..=5).map(sha).collect()));
}

// covers: F4, P6
#[tokio::test(start_paused = true)]
async fn a_damaged_document_is_set_aside_and_the_backup_with_the_log_replaces_it() {
    let folder = folder();
    let life = start(folder.path());
    life.transition(run_started("a")).await.unwrap();
    life.transition(run_completed("a")).await.unwrap();
    life.transition(sha(1)).await.unwrap();
    life.kill().await;
    std::fs::write(folder.path().join("state.json"), "{\"runs\":").unwrap();
    let (_, loaded) = reload(folder.path());
    assert_eq!(
        (loaded.source, loaded.quarantined.len()),
        (StateSource::Backup, 1)
    );
    assert!(!loaded.primary_problems.is_empty());
    assert_eq!(
        *loaded.state(),
        fold(&[run_started("a"), run_completed("a"), sha(1)])
    );
    assert_eq!(
        std::fs::read_to_string(&loaded.quarantined[0]).unwrap(),
        "{\"runs\":"
    );
    drop(loaded);
    assert_eq!(reload(folder.path()).1.source, StateSource::Primary);
}

/// Kills a life before its last event got into state.json. Returns the state of its acknowledged events.
async fn killed_behind_a_snapshot(folder: &Path) -> HankweaveState {
    let life = start(folder);
    life.transition(run_started("a")).await.unwrap();
    life.transition(run_completed("a")).await.unwrap();
    life.transition(sha(1)).await.unwrap();
    life.kill().await;
    fold(&[run_started("a"), run_completed("a"), sha(1)])
}

// covers: F4, P6
#[tokio::test(start_paused = true)]
async fn a_document_that_was_damaged_in_its_place_and_can_still_be_read_is_not_loaded() {
    for (damaged, source) in [
        (&["state.json"][..], StateSource::Backup),
        (&["state.json", "state.json.bak"][..], StateSource::Log),
    ] {
        let folder = folder();
        let told = killed_behind_a_snapshot(folder.path()).await;
        for name in damaged {
            let path = folder.path().join(name);
            let text = std::fs::read_to_string(&path).unwrap();
            let other = text.replacen("run-a", "run-b", 1).replacen('\n', " ", 1);
            assert!(
                hankweave_core::document::parse(other.as_bytes()).is_ok(),
                "{other}"
            );
            std::fs::write(&path, other).unwrap();
        }
        let (_, loaded) = reload(folder.path());
        assert_eq!((loaded.source, loaded.state()), (source, &told));
    }
}

// covers: F4, P6
#[tokio::test(start_paused = true)]
async fn without_both_documents_the_recorded_events_rebuild_it() {
    let folder = folder();
    let story = [run_started("a"), run_completed("a"), sha(1)];
    let life = start(folder.path());
    for event in &story {
        life.transition(event.clone()).await.unwrap();
    }
    life.end().await;
    for name in ["state.json", "state.json.bak"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    std::fs::remove_file(folder.path().join("state.log")).unwrap();
    let (_, loaded) = reload(folder.path());
    assert_eq!((loaded.source, loaded.quarantined.len()), (StateSource::Log, 2));
    assert_eq!(*loaded.state(), fold(&story));
}

// covers: P5, P7, F3
#[tokio::test(start_paused = true)]
async fn what_the_journal_refused_reaches_it_at_the_next_start() {
    for n in 0.. {
        let folder = folder();
        let faulty = FaultyDisk::new(
            Arc::new(RealDisk),
            Fault::FailAt(n, std::io::ErrorKind::StorageFull),
        );
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        let mut all_recorded = false;
        if let Some(life) = try_start(&disk, folder.path()) {
            for event in [run_started("a"), run_completed("a")] {
                // Refused or not: what counts is what the log has.
                let _ = life.transition(event).await;
            }
            all_recorded = life.manager.shutdown().await.is_ok();
            life.task.await.unwrap();
        }
        let (parts, loaded) = reload(folder.path());
        assert_eq!(*loaded.state(), fold(&journaled(&parts).1), "refusal at {n}");
        if all_recorded && faulty.operations() <= n {
            return;
        }
    }
}

// covers: P6, F4
#[tokio::test(start_paused = true)]
async fn a_strict_start_stops_before_it_changes_anything() {
    let folder = folder();
    std::fs::write(folder.path().join("state.json"), "damaged").unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let parts = parts(&disk, folder.path()).unwrap();
    assert!(matches!(
        load(&parts, Strictness::Stop),
        Err(LoadError::History(_))
    ));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("state.json")).unwrap(),
        "damaged"
    );
    let loaded = load(&parts, Strictness::StartOver).unwrap();
    assert!(loaded.history_was_reset);
    assert_eq!(loaded.quarantined.len(), 1);
}

// covers: D4
#[tokio::test(start_paused = true)]
async fn the_state_of_another_version_is_refused_and_left_as_it_is() {
    let folder = folder();
    let life = start(folder.path());
    life.transition(run_started("a")).await.unwrap();
    life.transition(run_completed("a")).await.unwrap();
    life.end().await;
    let ours = std::fs::read_to_string(folder.path().join("state.json")).unwrap();
    let newer = ours.replacen('{', "{\n  \"schemaVersion\": 2,", 1);
    // The primary, though the backup is good; the backup, when it is all there is.
    for name in ["state.json", "state.json.bak"] {
        std::fs::write(folder.path().join(name), &newer).unwrap();
        let photograph = || {
            let names = RealDisk.list_dir(folder.path()).unwrap().into_iter();
            let files = names.filter(|name| name.to_string_lossy().starts_with("state."));
            files
                .map(|name| (std::fs::read(folder.path().join(&name)).unwrap(), name))
                .collect::<Vec<_>>()
        };
        let before = photograph();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let refused = load(&parts(&disk, folder.path()).unwrap(), Strictness::StartOver);
        assert!(
            matches!(refused, Err(LoadError::Version { version: 2 })),
            "{name}: {refused:?}"
        );
        assert_eq!(photograph(), before, "{name}");
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn damage_in_the_log_is_reported_once_and_kept() {
    let folder = folder();
    let life = start(folder.path());
    life.transition(sha(1)).await.unwrap();
    life.transition(sha(2)).await.unwrap();
    life.kill().await;
    let path = folder.path().join("state.log");
    let mut bytes = std::fs::read(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (_, loaded) = reload(folder.path());
    assert_eq!((loaded.damaged_log_lines, loaded.quarantined.len()), (1, 1));
    assert_eq!(*loaded.state(), fold(&[sha(2)]));
    drop(loaded);
    assert_eq!(reload(folder.path()).1.damaged_log_lines, 0);
}

// covers: D2
#[tokio::test(start_paused = true)]
async fn a_long_log_is_cut_and_still_continues_both_documents() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |number: u64| {
        let prompt = format!("{number} {}", "x".repeat(4 << 20));
        let codon = serde_json::from_value(serde_json::json!({ "prompt": prompt })).unwrap();
        let codon_id = CodonId::new("write").unwrap();
        vec![PlanEntry {
            codon,
            codon_id,
            loop_context: None,
            extra: Default::default(),
        }]
    };
    let life = start(folder.path());
    let (mut number, mut longest) = (0, 0);
    loop {
        number += 1;
        life.manager
            .replace_plan(plan(number).into())
            .await
            .await
            .unwrap();
        // As long as a document of this size waits for its turn.
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let length = std::fs::metadata(folder.path().join("state.log")).unwrap().len();
        if length < longest {
            break;
        }
        longest = length;
        assert!(longest < 2 * snapshots::WORTH_CUTTING, "it is never cut");
    }
    life.kill().await;
    let expected = fold(&[StateEvent::PlanReplaced {
        execution_plan: plan(number).into(),
    }]);
    std::fs::write(folder.path().join("state.json"), "damaged").unwrap();
    let (_, loaded) = reload(folder.path());
    assert_eq!((loaded.source, loaded.state()), (StateSource::Backup, &expected));
}

// covers: P4, P5, F3
#[tokio::test(start_paused = true)]
async fn after_a_failed_write_nothing_is_recorded_and_the_old_state_stays_visible() {
    let mut degraded = 0;
    for n in 0.. {
        let folder = folder();
        let faulty = FaultyDisk::new(
            Arc::new(RealDisk),
            Fault::FailAt(n, std::io::ErrorKind::StorageFull),
        );
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        let Some(life) = try_start(&disk, folder.path()) else {
            continue;
        };
        let mut known = HankweaveState::default();
        let mut recorded = Vec::new();
        for event in [run_started("a"), sha(1), run_completed("a")] {
            match life.transition(event.clone()).await {
                Ok(_) => {
                    recorded.push(event);
                    known = fold(&recorded);
                }
                Err(TransitionError::NotDurable(_)) => assert!(life.manager.degraded().borrow().is_some()),
                Err(other) => panic!("failure at {n}: {other}"),
            }
            assert_eq!(*life.manager.snapshot(), known, "failure at {n}");
        }
        if life.manager.shutdown().await.is_err() {
            degraded += 1;
            assert!(matches!(
                life.transition(sha(2)).await,
                Err(TransitionError::Stopped)
            ));
        }
        life.task.await.unwrap();
        if faulty.operations() <= n {
            assert!(degraded > 10, "the sweep must have met the writes of the manager");
            return;
        }
        let (_, loaded) = reload(folder.path());
        assert_eq!(*loaded.state(), known, "failure at {n}");
    }
}

// covers: D8
#[tokio::test(start_paused = true)]
async fn shutting_down_saves_everything_and_answers_what_comes_later() {
    let folder = folder();
    let life = start(folder.path());
    let waiting = life.manager.transition(sha(3)).await;
    life.manager.shutdown().await.unwrap();
    assert!(waiting.await.is_ok());
    assert!(matches!(
        life.transition(sha(4)).await,
        Err(TransitionError::Stopped)
    ));
    life.manager.shutdown().await.unwrap();
    life.task.await.unwrap();
    let text = std::fs::read_to_string(folder.path().join("state.json")).unwrap();
    assert_eq!(text, hankweave_core::document::render(&fold(&[sha(3)])));
}

#[tokio::test(start_paused = true)]
async fn dropping_every_handle_ends_the_task() {
    let folder = folder();
    let Life { manager, task } = start(folder.path());
    drop(manager.transition(sha(1)).await);
    drop(manager);
    task.await.unwrap();
    assert_eq!(*reload(folder.path()).1.state(), fold(&[sha(1)]));
}

// covers: P1, P7, P9, F1
#[tokio::test(start_paused = true)]
async fn crash_anywhere_recovers() {
    let story = [
        run_started("a"),
        sha(1),
        run_completed("a"),
        sha(2),
        run_started("b"),
        sha(3),
        run_completed("b"),
    ];
    for n in 0.. {
        let folder = folder();
        let faulty = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(n));
        let acknowledged = play(&story, &faulty, folder.path()).await;
        let (parts, loaded) = reload(folder.path());
        let told = (acknowledged..=story.len()).find(|count| *loaded.state() == fold(&story[..*count]));
        let told = told.unwrap_or_else(|| panic!("crash at {n}: {acknowledged} events were acknowledged"));
        let (seqs, events) = journaled(&parts);
        assert!(seqs.is_sorted_by(|a, b| a < b), "crash at {n}: {seqs:?}");
        assert_eq!(events, story[..told], "crash at {n}");
        let names = RealDisk.list_dir(folder.path()).unwrap();
        assert!(
            names.iter().all(|name| !name.to_string_lossy().contains(".tmp")),
            "crash at {n}: {names:?}"
        );
        if !faulty.crashed() {
            assert!(n > 40, "the sweep must have met every kind of step");
            return;
        }
    }
}

/// Sends the story in three lives until the disk crashes, and returns the number of acknowledged events.
async fn play(story: &[StateEvent], faulty: &FaultyDisk, dir: &Path) -> usize {
    let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
    let mut acknowledged = 0;
    for (part, clean) in [(0..2, true), (2..5, false), (5..story.len(), true)] {
        let Some(life) = try_start(&disk, dir) else { break };
        for event in &story[part] {
            drop(life.manager.record(info(0)).await);
            if life.transition(event.clone()).await.is_err() {
                break;
            }
            acknowledged += 1;
        }
        if faulty.crashed() {
            life.kill().await;
            break;
        }
        if clean {
            // The crash may happen in here, when everything is acknowledged.
            let _ = life.manager.shutdown().await;
            life.task.await.unwrap();
        } else {
            life.kill().await;
        }
    }
    acknowledged
}

#[test]
fn events_behind_a_number_come_with_their_lines() {
    let entry = |seq| JournalEntry {
        seq,
        id: EventId::new("e").unwrap(),
        timestamp: Timestamp::UNIX_EPOCH,
        event: info(seq),
    };
    let all = [1, 3, 4].map(entry);
    let batch = Arc::new(Batch::new(&all));
    for (after, seen) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3)] {
        let events = Events::after(Arc::clone(&batch), after);
        assert_eq!(events.entries().collect::<Vec<_>>(), all[seen..]);
        let lines: Vec<_> = events.lines().map(BatchLine::text).collect();
        assert_eq!(lines, events.text().lines().collect::<Vec<_>>());
    }
}

/// Returns a plan that makes state.json at least this number of bytes long.
fn large_plan(bytes: usize) -> StateEvent {
    let entry = serde_json::json!({"codon": {"id": "a", "description": "x".repeat(bytes)}, "codonId": "a"});
    StateEvent::PlanReplaced {
        execution_plan: vec![serde_json::from_value(entry).unwrap()].into(),
    }
}

// A long night makes the file large, and each codon would write all of it several times.
// covers: D11
#[tokio::test(start_paused = true)]
async fn snapshots_write_a_mebibyte_a_second_at_most_and_the_last_one_is_complete() {
    let folder = folder();
    let life = start(folder.path());
    let size = 2 << 20;
    // The plans of three earlier histories are kept in addition.
    life.transition(large_plan(size / 4)).await.unwrap();
    let seconds = 20;
    let mut lengths = Vec::new();
    for number in 0..seconds * 5 {
        let name = format!("run-{number}");
        for event in [run_started(&name), run_completed(&name)] {
            life.transition(event).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            lengths.push(std::fs::metadata(folder.path().join("state.json")).unwrap().len());
        }
    }
    lengths.dedup();
    let written: u64 = lengths.iter().sum();
    let most = (seconds + 1) << 20;
    assert!(
        written <= most + size as u64,
        "{} snapshots: {written} bytes",
        lengths.len()
    );
    assert!(lengths.len() > 5, "{} snapshots", lengths.len());
    life.end().await;
    let saved = std::fs::read(folder.path().join("state.json")).unwrap();
    let saved = hankweave_core::document::parse(&saved).unwrap();
    assert_eq!(saved.runs.len() as u64, seconds * 5);
}
