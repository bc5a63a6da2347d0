//! How long events take until they are durable, beside bare appends and syncs of the same lines.
//!
//! `ours` goes through the whole state manager while so many events always wait for their tickets. `bare` appends as many lines to a file and
//! syncs it once. The two take turns, since the speed of a disk changes from minute to minute, and the ratio is that of neighbours. Each turn
//! is followed by a rest in which what it left to do in the background comes to its end. The history should make no difference.
//!
//! `cargo bench -p hankweave-runtime --bench state` takes two minutes.

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
use hankweave_core::event::{Encoded, Recorded, StateEvent};
use hankweave_core::id::{CodonId, Pid, RunId};
use hankweave_core::state::{HankweaveState, LiveState, StartingConditions, render};
use hankweave_core::time::Timestamp;
use hankweave_runtime::journal::{FileJournal, JournalLimits};
use hankweave_runtime::state_manager::{Parts, StateManager, Strictness, Ticket, load};
use hankweave_runtime::store::{LogBatch, StateFiles};
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::SystemClock;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::ids::RandomIds;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const WAITING: [usize; 4] = [1, 16, 64, 256];
const HISTORY: [usize; 3] = [10, 10_000, 100_000];
const CODONS_IN_A_RUN: usize = 100;
const OPEN_RUN: &str = "open";

const ROUNDS: usize = 9;
const TURN: Duration = Duration::from_millis(600);
const REST: Duration = Duration::from_millis(300);

fn main() {
    let runtime = Runtime::new().expect("threads can be started");
    let servers: Vec<Server> = HISTORY
        .iter()
        .map(|codons| Server::start(&runtime, *codons))
        .collect();
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let mut file = File::create(folder.path().join("bare.log")).expect("the file can be made");
    println!(
        "medians of {ROUNDS} rounds (least to most); microseconds for an event, or the ratio of two turns of one round"
    );
    for waiting in WAITING {
        let rounds: Vec<Round> = (0..ROUNDS)
            .map(|_| Round {
                bare: turn(waiting, |events| bare(&mut file, waiting, events)),
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

/// Microseconds for an event: bare, and for each history.
struct Round {
    bare: f64,
    ours: Vec<f64>,
}

fn report(waiting: usize, rounds: &[Round]) {
    println!("{waiting} waiting: bare {}", spread(rounds, |round| round.bare));
    for (index, codons) in HISTORY.iter().enumerate() {
        println!(
            "  {codons} codons of history: {}, bare/ours {}, rate of that with {} codons {}",
            spread(rounds, |round| round.ours[index]),
            spread(rounds, |round| round.bare / round.ours[index]),
            HISTORY[0],
            spread(rounds, |round| round.ours[0] / round.ours[index]),
        );
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

/// Lets `work` do events until the turn is over, each time for many rounds of those that wait, since nothing waits at the end of each time; the
/// result is the microseconds that one event took.
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

fn bare(file: &mut File, waiting: usize, events: usize) {
    let event = Encoded::new(cost_event()).expect("a cost is text");
    let mut lines = LogBatch::default();
    (1..=waiting as u64).for_each(|seq| lines.record(seq, Timestamp::UNIX_EPOCH, &event));
    for _ in 0..events / waiting {
        file.write_all(lines.as_bytes()).expect("the disk has space");
        file.sync_data().expect("the disk has space");
    }
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
        let (manager, task) = start(runtime, folder.path(), &document(codons));
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
    let parts = Parts {
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
fn document(codons: usize) -> HankweaveState {
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
        events.push(StateEvent::RunCompleted { run_id: run_id(&run) });
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
    live.document().clone()
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
