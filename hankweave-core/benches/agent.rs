//! The lines of an agent: what it costs to understand them.
//!
//! `agent-lines/ours` translates recorded streams of claude into events, each with a decoder of its own. `agent-large/ours` translates a stream that
//! has one line of 190 kB. `value` parses these lines into trees of values and does nothing with them; `ignored` only checks that they are JSON.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hankweave_agents::{AgentDecoder, AgentLine, ClaudeDecoder};
use serde::de::IgnoredAny;
use serde_json::Value;

const RECORDED: [&str; 4] = [
    include_str!("../tests/fixtures/agent-streams/claude/two-tools.jsonl"),
    include_str!("../tests/fixtures/agent-streams/claude/parallel-tools.jsonl"),
    include_str!("../tests/fixtures/agent-streams/claude/subagent.jsonl"),
    include_str!("../tests/fixtures/agent-streams/claude/background-command.jsonl"),
];
const LARGE: [&str; 1] = [include_str!(
    "../tests/fixtures/agent-streams/claude/unicode-big.jsonl"
)];

fn streams(criterion: &mut Criterion) {
    measure(criterion, "agent-lines", &RECORDED);
    measure(criterion, "agent-large", &LARGE);
}

fn measure(criterion: &mut Criterion, name: &str, streams: &[&str]) {
    let bytes: usize = streams.iter().map(|stream| stream.len()).sum();
    let lines: Vec<&str> = streams.iter().flat_map(|stream| stream.lines()).collect();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("ours", |bencher| {
        bencher.iter(|| streams.iter().for_each(|stream| decode(stream)));
    });
    group.bench_function("value", |bencher| {
        bencher.iter(|| {
            for line in &lines {
                black_box(serde_json::from_str::<Value>(line).expect("the line is JSON"));
            }
        });
    });
    group.bench_function("ignored", |bencher| {
        bencher.iter(|| {
            for line in &lines {
                serde_json::from_str::<IgnoredAny>(line).expect("the line is JSON");
            }
        });
    });
    group.finish();
}

fn decode(stream: &str) {
    let mut decoder = ClaudeDecoder::new(false);
    let mut events = Vec::new();
    for line in stream.lines() {
        decoder.decode(AgentLine::Text(line), &mut events);
        black_box(events.drain(..).count());
    }
}

criterion_group!(benches, streams);
criterion_main!(benches);
