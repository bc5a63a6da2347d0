//! How long events take until they are durable, beside the bare writes and syncs of the same lines.
//!
//! Both give the time for each event. `durable/<codons of history>/<events that wait>` goes through the whole state manager while so many
//! events always wait; `raw/<events>` appends as many lines to a file and syncs it once. The history should make no difference.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::event::{Encoded, Recorded, StateEvent};
use hankweave_core::id::{CodonId, Pid, RunId};
use hankweave_core::state::{HankweaveState, LiveState, StartingConditions, render};
use hankweave_core::time::Timestamp;
use hankweave_runtime::journal::{FileJournal, JournalLimits};
use hankweave_runtime::state_manager::{Parts, StateManager, Strictness, Ticket, load};
use hankweave_runtime::store::{LogBatch, StateFiles, StateLog};
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::SystemClock;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::ids::RandomIds;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const WAITING: [usize; 4] = [1, 16, 64, 256];
const HISTORY: [usize; 2] = [10, 10_000];
const CODONS_IN_A_RUN: usize = 100;
const OPEN_RUN: &str = "open";

fn durable_events(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("threads can be started");
    for history in HISTORY {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let (manager, task) = start(&runtime, folder.path(), &document(history));
        let mut group = criterion.benchmark_group(format!("durable/{history}"));
        for waiting in WAITING {
            group.bench_function(BenchmarkId::from_parameter(waiting), |bencher| {
                bencher.iter_custom(|events| {
                    let begin = Instant::now();
                    runtime.block_on(record(&manager, waiting, events));
                    begin.elapsed()
                });
            });
        }
        group.finish();
        runtime
            .block_on(manager.shutdown())
            .expect("the last save succeeds");
        runtime.block_on(task).expect("the task ends");
    }
}

fn raw_writes(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let mut log = StateLog::open(&RealDisk, &folder.path().join("raw.log"), 0).expect("the file can be made");
    let event = Encoded::new(cost_event()).expect("a cost is text");
    let mut group = criterion.benchmark_group("raw");
    for waiting in WAITING {
        let mut lines = LogBatch::default();
        (1..=waiting as u64).for_each(|seq| lines.record(seq, Timestamp::UNIX_EPOCH, &event));
        group.bench_function(BenchmarkId::from_parameter(waiting), |bencher| {
            bencher.iter_custom(|events| {
                let begin = Instant::now();
                for _ in 0..events.div_ceil(waiting as u64) {
                    log.append(&lines).expect("the disk has space");
                }
                begin.elapsed()
            });
        });
    }
    group.finish();
}

/// Records events so that as many always wait: the next one is sent once the oldest is durable.
async fn record(manager: &StateManager, waiting: usize, events: u64) {
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

criterion_group!(benches, raw_writes, durable_events);
criterion_main!(benches);
