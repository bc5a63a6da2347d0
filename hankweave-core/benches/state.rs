//! The state document: one event, loading, the thread, and hank.json.
//!
//! `apply/<codons>` records one cost event in a document with that number of codons. `apply-copied/<codons>` does it as the older system does, with
//! a copy of the document and totals summed again. `load/ours` reads and checks a state.json of about 50 MB; `load/value` only parses its bytes into
//! a tree of values. `thread` goes through 1,000 runs with 10,000 codons. `next` finds the codon after 999 codons of 1,000 and its budget. `hank`
//! parses and checks 1,000 codons.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hankweave_core::budget::{Ceiling, limits};
use hankweave_core::codon::CodonExecution;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{HankweaveState, parse};
use hankweave_core::event::StateEvent;
use hankweave_core::hank;
use hankweave_core::id::CodonId;
use hankweave_core::plan::{Decision, decide, initial_plan};
use hankweave_core::state::LiveState;
use hankweave_core::testing::{Ending, Story, large_document, long_history};
use hankweave_core::thread::build;
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};

const LOADED_BYTES: usize = 50 << 20;

fn cost_event(live: &LiveState) -> StateEvent {
    let current = live.document().current_run_id.clone();
    StateEvent::CostsIncremented {
        run_id: current.expect("a run is open"),
        codon_id: CodonId::new("work").expect("the text is an id"),
        cost_delta: Usd::from_micros(1),
        tokens_delta: TokenUsage::ZERO,
    }
}

fn apply(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("apply");
    for codons in [10, 100, 10_000, 100_000] {
        let mut live = long_history(codons);
        let event = cost_event(&live);
        group.bench_function(BenchmarkId::from_parameter(codons), |bencher| {
            bencher.iter(|| {
                let applied = live.apply_event(&event, Timestamp::UNIX_EPOCH);
                black_box(applied.expect("the codon is running"))
            });
        });
    }
    group.finish();
    let live = long_history(10_000);
    let mut state = live.document().clone();
    let mut group = criterion.benchmark_group("apply-copied");
    group.sample_size(10);
    group.bench_function("10000", |bencher| {
        bencher.iter(|| {
            let (next, total) = copied(&state);
            state = next;
            black_box(total)
        });
    });
    group.finish();
}

/// The published algorithm of the older system: a deep copy of everything, the change, and all costs summed again.
fn copied(state: &HankweaveState) -> (HankweaveState, Usd) {
    let mut next = state.clone();
    for run in &mut next.runs {
        let mut copy = (**run).clone();
        copy.codons = run.codons.iter().map(|codon| (**codon).clone().into()).collect();
        *run = copy.into();
    }
    let open = next.runs.iter_mut().find(|run| run.open_codon().is_some());
    let run = std::sync::Arc::make_mut(open.expect("a run is open"));
    for place in 0..run.codons.len() {
        if let CodonExecution::Running(running) = std::sync::Arc::make_mut(&mut run.codons[place]) {
            running.current_cost += Usd::from_micros(1);
        }
    }
    let total = next.total_cost();
    (next, total)
}

fn load(criterion: &mut Criterion) {
    let bytes = large_document(LOADED_BYTES);
    let mut group = criterion.benchmark_group("load");
    group
        .sample_size(10)
        .throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("ours", |bencher| {
        bencher.iter(|| parse(&bytes).expect("the document is good"));
    });
    group.bench_function("value", |bencher| {
        bencher.iter(|| serde_json::from_slice::<Value>(&bytes).expect("the document is JSON"));
    });
    group.finish();
}

fn thread(criterion: &mut Criterion) {
    let live = long_history(10_000);
    let thread = build(live.document(), None, None);
    assert!(thread.codons.len() > 10_000 && thread.total_runs == 1_001);
    criterion.bench_function("thread", |bencher| {
        bencher.iter(|| build(live.document(), None, None));
    });
}

/// Everything that is found out between two codons: the thread, what is next, and what that may use.
fn next(criterion: &mut Criterion) {
    let budget = json!({"maxDollars": 100, "maxTimeSeconds": 1e9, "allocation": "proportional", "shares": {"codon-0": 0.5}});
    let text = json!({"overrides": {"budget": budget}, "hank": thousand_codons()}).to_string();
    let hank = hank::parse(&text).hank.expect("the hank is good");
    let execution_plan = initial_plan(&hank);
    let ids: Vec<_> = execution_plan
        .iter()
        .map(|entry| entry.codon_id.clone())
        .collect();
    let mut story = Story::new()
        .tell(StateEvent::PlanReplaced { execution_plan })
        .fresh("r");
    for id in &ids[..999] {
        story = story.codon(id.as_str(), Ending::Completed);
    }
    let state = story.state();
    let ceiling = Ceiling::default().or_from_hank(&hank);
    criterion.bench_function("next", |bencher| {
        bencher.iter(|| {
            let Decision::Start(entry) = decide(state, &hank) else {
                panic!("the last codon is next");
            };
            limits(&hank, ceiling, state, &entry)
        });
    });
}

fn thousand_codons() -> Vec<Value> {
    let codon = |number| {
        json!({
            "id": format!("codon-{number}"), "name": format!("Codon {number}"), "model": "sonnet",
            "continuationMode": "fresh", "promptText": "Do it.", "checkpointedFiles": ["src/**", "docs/*.md"],
        })
    };
    (0..1_000).map(codon).collect()
}

fn parse_hank(criterion: &mut Criterion) {
    let text = json!({ "hank": thousand_codons() }).to_string();
    assert!(!hank::parse(&text).problems.has_errors());
    criterion.bench_function("hank", |bencher| bencher.iter(|| hank::parse(&text)));
}

criterion_group!(benches, apply, load, thread, next, parse_hank);
criterion_main!(benches);
