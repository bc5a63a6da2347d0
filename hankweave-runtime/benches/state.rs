//! Time until events are durable, compared with bare appends and syncs of their lines.
//!
//! `ours` goes through the whole state manager while a fixed number of events always wait for their tickets. An event
//! leaves two lines: one in the log, which is synced before the ticket resolves, and one in the journal, which is synced
//! within 200 ms (D5). `bare` writes these lines, made in advance, with equal syncs. `log` leaves out the lines of the
//! journal. `saves` writes the whole document for each event without a sync, as the older system did. They take turns,
//! since the speed of a disk changes from minute to minute, and a ratio is that of neighbours. After each turn there is a
//! rest, in which its background work ends. The length of the history should make no difference to `ours`.
//!
//! `cargo bench -p hankweave-runtime --bench state` takes four minutes.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{HankweaveState, StartingConditions, render};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::id::{CodonId, Pid, RunId};
use hankweave_core::state::LiveState;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{CurrentFigures, Event, JournalEntry};
use hankweave_runtime::journal::{Batch, FileJournal, JournalLimits};
use hankweave_runtime::state_manager::{StateManager, StateManagerParts, Strictness, Ticket, load};
use hankweave_runtime::store::{LogBatch, StateFiles};
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::SystemClock;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::ids::{IdSource as _, RandomIds};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const WAITING: [usize; 4] = [1, 16, 64, 256];
const HISTORY: [usize; 4] = [10, SAVED, 10_000, 100_000];
const CODONS_IN_A_RUN: usize = 100;

/// Codons of the document that is saved whole.
const SAVED: usize = 1_000;

const OPEN_RUN: &str = "open";

const ROUNDS: usize = 9;
const TURN: Duration = Duration::from_millis(600);
const REST: Duration = Duration::from_millis(300);

/// How long the journal may lack the sync.
const PATIENCE: Duration = Duration::from_millis(200);

fn main() {
    let runtime = Runtime::new().expect("threads can be started");
    let servers: Vec<Server> = HISTORY
        .iter()
        .map(|codons| Server::start(&runtime, *codons))
        .collect();
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    println!(
        "medians of {ROUNDS} rounds (least to most); microseconds for an event, or the ratio of two turns of one round"
    );
    let mut saves = WholeSaves::new();
    for waiting in WAITING {
        let mut log = Bare::new(folder.path(), "log", waiting, false);
        let mut bare = Bare::new(folder.path(), "bare", waiting, true);
        let rounds: Vec<Round> = (0..ROUNDS)
            .map(|_| Round {
                saves: turn(1, |events| saves.write(events)),
                log: turn(waiting, |events| log.write(events)),
                bare: turn(waiting, |events| bare.write(events)),
                ours: servers
                    .iter()
                    .map(|server| {
                        turn(waiting, |events| {
                            runtime.block_on(record(&server.manager, waiting, events))
                        })
                    })
                    .collect(),
            })
            .collect();
        report(waiting, &rounds);
    }
    servers.into_iter().for_each(|server| server.stop(&runtime));
}

/// Microseconds for an event: saved whole, bare without and with the journal's lines, and for each history.
struct Round {
    saves: f64,
    log: f64,
    bare: f64,
    ours: Vec<f64>,
}

fn report(waiting: usize, rounds: &[Round]) {
    println!(
        "{waiting} waiting: bare {}, log {}, log/bare {}",
        spread(rounds, |round| round.bare),
        spread(rounds, |round| round.log),
        spread(rounds, |round| round.log / round.bare)
    );
    for (index, codons) in HISTORY.iter().enumerate() {
        println!(
            "  {codons} codons of history: {}, bare/ours {}, log/ours {}, rate of that with {} codons {}",
            spread(rounds, |round| round.ours[index]),
            spread(rounds, |round| round.bare / round.ours[index]),
            spread(rounds, |round| round.log / round.ours[index]),
            HISTORY[0],
            spread(rounds, |round| round.ours[0] / round.ours[index]),
        );
        if *codons == SAVED {
            println!(
                "  the same saved whole: {}, saves/ours {}",
                spread(rounds, |round| round.saves),
                spread(rounds, |round| round.saves / round.ours[index])
            );
        }
    }
}

fn spread(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> String {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    format!(
        "{:.2} ({:.2} to {:.2})",
        figures[ROUNDS / 2],
        figures[0],
        figures[ROUNDS - 1]
    )
}

/// Lets `work` handle events until the turn has ended, and returns the microseconds for one event. Each call handles many
/// rounds of waiting events, since no event waits at the end of a call.
fn turn(waiting: usize, mut work: impl FnMut(usize)) -> f64 {
    let at_a_time = 64 * waiting;
    std::thread::sleep(REST);
    let begin = Instant::now();
    let mut events = 0;
    while begin.elapsed() < TURN {
        work(at_a_time);
        events += at_a_time;
    }
    begin.elapsed().as_secs_f64() * 1e6 / events as f64
}

/// The lines of as many events as wait, and the files that they are written to.
struct Bare {
    log: File,
    log_lines: LogBatch,
    journal: Option<Journal>,
    waiting: usize,
}

struct Journal {
    file: File,
    lines: Batch,
    synced: Instant,
}

impl Bare {
    fn new(folder: &Path, name: &str, waiting: usize, with_journal: bool) -> Self {
        let file = |kind: &str| {
            File::create(folder.join(format!("{name}-{waiting}.{kind}"))).expect("the file can be made")
        };
        let event = cost_event();
        let mut log_lines = LogBatch::default();
        for seq in numbers(waiting) {
            log_lines
                .record(seq, Timestamp::UNIX_EPOCH, &event)
                .expect("a cost is text");
        }
        Self {
            log: file("log"),
            log_lines,
            journal: with_journal.then(|| Journal {
                file: file("journal"),
                lines: journal_lines(waiting, &event),
                synced: Instant::now(),
            }),
            waiting,
        }
    }

    fn write(&mut self, events: usize) {
        for _ in 0..events / self.waiting {
            self.log
                .write_all(self.log_lines.as_bytes())
                .expect("the disk has space");
            self.log.sync_data().expect("the disk has space");
            if let Some(journal) = &mut self.journal {
                journal.write();
            }
        }
    }
}

impl Journal {
    fn write(&mut self) {
        self.file
            .write_all(self.lines.text().as_bytes())
            .expect("the disk has space");
        if self.synced.elapsed() > PATIENCE {
            self.file.sync_data().expect("the disk has space");
            self.synced = Instant::now();
        }
    }
}

/// The document, saved for each event as the older system did it: the file is copied, the whole document
/// written as indented text, and renamed into its place. Nothing is synced.
struct WholeSaves {
    folder: TempDir,
    live: LiveState,
}

impl WholeSaves {
    fn new() -> Self {
        let saves = Self {
            folder: tempfile::tempdir().expect("there is a place for temporary files"),
            live: history(SAVED),
        };
        saves.save();
        saves
    }

    fn write(&mut self, events: usize) {
        for _ in 0..events {
            self.live
                .apply_event(&cost_event(), Timestamp::UNIX_EPOCH)
                .expect("a running codon takes costs");
            let [current, backup, _] = self.paths();
            std::fs::copy(current, backup).expect("the disk has space");
            self.save();
        }
    }

    fn save(&self) {
        let [current, _, temporary] = self.paths();
        let text = serde_json::to_string_pretty(self.live.document()).expect("a document is text");
        std::fs::write(&temporary, text).expect("the disk has space");
        std::fs::rename(temporary, current).expect("the disk works");
    }

    fn paths(&self) -> [PathBuf; 3] {
        ["state.json", "state.backup.json", "state.json.tmp"].map(|name| self.folder.path().join(name))
    }
}

/// As long as those of the events that are recorded meanwhile.
fn numbers(waiting: usize) -> impl Iterator<Item = u64> {
    (1_000_000..).take(waiting)
}

fn journal_lines(waiting: usize, event: &StateEvent) -> Batch {
    let ids = RandomIds::new();
    let figures = CurrentFigures {
        current_run_id: Some(run_id(OPEN_RUN)),
        run_count: 2,
        total_cost: Usd::from_micros(1_000_001),
        current_run_cost: Usd::from_micros(1_000_001),
        total_spend: Some(Usd::from_micros(1_000_001)),
    };
    let entries = numbers(waiting).map(|seq| JournalEntry {
        seq,
        id: ids.event_id(),
        timestamp: Timestamp::UNIX_EPOCH,
        event: Event::state_transition(Box::new(event.clone()), figures.clone()),
    });
    Batch::new(&entries.collect::<Vec<_>>())
}

/// Records events so that as many always wait: the next one is sent once the oldest is durable.
async fn record(manager: &StateManager, waiting: usize, events: usize) {
    let event = cost_event();
    let mut tickets = VecDeque::with_capacity(waiting);
    for _ in 0..events {
        if tickets.len() == waiting {
            acknowledged(&mut tickets).await;
        }
        tickets.push_back(manager.transition(event.clone()).await);
    }
    while !tickets.is_empty() {
        acknowledged(&mut tickets).await;
    }
}

async fn acknowledged(tickets: &mut VecDeque<Ticket>) {
    if let Some(oldest) = tickets.pop_front() {
        oldest.await.expect("a running codon takes costs");
    }
}

/// A state manager with its files.
struct Server {
    _folder: TempDir,
    manager: StateManager,
    task: JoinHandle<()>,
}

impl Server {
    fn start(runtime: &Runtime, codons: usize) -> Self {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let (manager, task) = start(runtime, folder.path(), history(codons).document());
        Self {
            _folder: folder,
            manager,
            task,
        }
    }

    fn stop(self, runtime: &Runtime) {
        let stopped = runtime.block_on(self.manager.shutdown());
        stopped.expect("the last save succeeds");
        runtime.block_on(self.task).expect("the task ends");
    }
}

fn start(runtime: &Runtime, dir: &Path, state: &HankweaveState) -> (StateManager, JoinHandle<()>) {
    std::fs::write(dir.join("state.json"), render(state)).expect("the disk has space");
    let journal = FileJournal::open(Arc::new(RealDisk), &dir.join("events"), JournalLimits::default())
        .expect("the journal can be made");
    let parts = StateManagerParts {
        files: StateFiles::new(Arc::new(RealDisk), None, dir.to_owned()),
        journal: Arc::new(journal),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds::new()),
        blocking: Blocking::Threads,
    };
    let loaded = load(&parts, Strictness::Stop).expect("the document was just written");
    let (manager, task) = StateManager::start(parts, loaded);
    let _inside = runtime.enter();
    (manager, task.spawn())
}

/// Runs with `codons` skipped codons between them, and an open run with one running codon.
fn history(codons: usize) -> LiveState {
    let mut live = LiveState::default();
    let mut events = Vec::new();
    for first in (0..codons).step_by(CODONS_IN_A_RUN) {
        let run = format!("run-{first}");
        events.push(run_started(&run));
        for number in 0..CODONS_IN_A_RUN.min(codons - first) {
            let codon = format!("c{number}");
            events.push(codon_started(&run, &codon));
            events.push(codon_event(
                &run,
                &codon,
                "preparing",
                "skipped",
                r#"{"skippedDuring":"preparing"}"#,
            ));
        }
        events.push(StateEvent::RunCompleted {
            run_id: run_id(&run),
            cause: None,
        });
    }
    events.push(run_started(OPEN_RUN));
    events.push(codon_started(OPEN_RUN, "write"));
    for (from, to, metadata) in [
        ("preparing", "starting", "{}"),
        (
            "starting",
            "initializing",
            r#"{"claudePid":1,"claudeLogPath":"runs/open/write-claude.log"}"#,
        ),
        ("initializing", "running", r#"{"claudeSessionId":"session"}"#),
    ] {
        events.push(codon_event(OPEN_RUN, "write", from, to, metadata));
    }
    for (seq, event) in (1..).zip(events) {
        live.apply(&Recorded {
            seq,
            at: Timestamp::UNIX_EPOCH,
            event,
        })
        .expect("the story is legal");
    }
    live
}

fn run_id(name: &str) -> RunId {
    RunId::new(name).expect("the name is a folder name")
}

fn codon_id(name: &str) -> CodonId {
    CodonId::new(name).expect("the name is a codon id")
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

fn codon_started(run: &str, codon: &str) -> StateEvent {
    StateEvent::CodonStarted {
        run_id: run_id(run),
        codon_id: codon_id(codon),
        loop_context: None,
        chosen_agent: None,
        start_checkpoint: None,
    }
}

fn codon_event(run: &str, codon: &str, from: &str, to: &str, metadata: &str) -> StateEvent {
    let status = |name: &str| serde_json::from_value(name.into()).expect("the name is a status");
    StateEvent::CodonTransitioned {
        run_id: run_id(run),
        codon_id: codon_id(codon),
        from: status(from),
        to: status(to),
        metadata: Some(serde_json::from_str(metadata).expect("the metadata is an object")),
    }
}

fn cost_event() -> StateEvent {
    StateEvent::CostsIncremented {
        run_id: run_id(OPEN_RUN),
        codon_id: codon_id("write"),
        cost_delta: Usd::from_micros(1),
        tokens_delta: TokenUsage {
            output_tokens: 1,
            ..TokenUsage::ZERO
        },
    }
}
