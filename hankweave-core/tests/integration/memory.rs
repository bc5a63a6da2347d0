//! What core takes from the allocator. Counts are exact and the same on every machine, so they are tests and not benchmarks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hankweave_core::agent::{AgentDecoder, AgentLine, ClaudeDecoder};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::parse;
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::testing::{large_document, long_history};
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};

/// The system's allocator, with a tally for each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the thread holds now, what it held at most, and how often it asked. A block that is freed by another thread stays counted.
#[derive(Clone, Copy, Default)]
struct Tally {
    live: usize,
    peak: usize,
    calls: usize,
}

thread_local! {
    static TALLY: Cell<Tally> = const { Cell::new(Tally { live: 0, peak: 0, calls: 0 }) };
}

// A block that grows is a new block and then a copy, as the trait does it by itself: the tally is never too low.
#[expect(
    unsafe_code,
    reason = "an allocator is unsafe to write; both calls go to the system's as they are"
)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut tally = TALLY.get();
        tally.live += layout.size();
        tally.peak = tally.peak.max(tally.live);
        tally.calls += 1;
        TALLY.set(tally);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let mut tally = TALLY.get();
        tally.live = tally.live.saturating_sub(layout.size());
        TALLY.set(tally);
        unsafe { System.dealloc(block, layout) }
    }
}

/// How often `work` asks for memory, and what it holds at most beside what was there before, in bytes.
fn measured<T>(work: impl FnOnce() -> T) -> (T, Tally) {
    TALLY.set(Tally::default());
    let result = work();
    (result, TALLY.get())
}

/// The file and all that reading it needs, as a multiple of the file.
fn peak_of_loading(bytes: &[u8]) -> f64 {
    let (state, tally) = measured(|| parse(bytes).unwrap());
    drop(state);
    (bytes.len() + tally.peak) as f64 / bytes.len() as f64
}

#[test]
fn loading_takes_at_most_four_times_the_file() {
    let bytes = large_document(4 << 20);
    let times = peak_of_loading(&bytes);
    println!("{times:.2} times the file");
    assert!(times <= 4.0, "{times}");
}

/// A good document of about 4 MB in which one codon has a `null` that only the older system would not mind, as it is told by `shape`.
fn unusual(shape: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut document: Value = serde_json::from_slice(&large_document(4 << 20)).unwrap();
    shape(&mut document);
    let sentinel = json!({"id": "s", "model": "m", "loadedAt": "2025-01-04T12:00:00Z", "llmCallCount": 0, "failedLLMCalls": 0,
        "totalTriggers": null, "totalCost": 0, "status": "active"});
    document["runs"][0]["codons"][0]["sentinels"] = json!({"loaded": [sentinel], "totalCost": 0});
    serde_json::to_vec_pretty(&document).unwrap()
}

/// Such a file is read as a tree of values, which is several times as large as its text.
#[test]
fn loading_an_unusual_file_takes_at_most_eight_times_the_file() {
    let text = unusual(|_| {});
    let times = peak_of_loading(&text);
    println!("{times:.2} times the file");
    assert!(times <= 8.0, "{times}");
}

/// What is wrong with a file is found in the same tree.
#[test]
fn refusing_a_damaged_file_takes_at_most_eight_times_the_file() {
    let text = unusual(|document| document["runs"][0]["status"] = json!("dancing"));
    let (problems, tally) = measured(|| parse(&text).unwrap_err());
    assert_eq!(problems.len(), 1, "{problems:?}");
    let times = (text.len() + tally.peak) as f64 / text.len() as f64;
    println!("{times:.2} times the file");
    assert!(times <= 8.0, "{times}");
}

/// What an event costs does not depend on history.
#[test]
fn a_cost_event_takes_as_much_memory_with_ten_codons_as_with_ten_thousand() {
    let takes = |codons: usize| {
        let mut live = long_history(codons);
        let event = StateEvent::CostsIncremented {
            run_id: live.document().current_run_id.clone().unwrap(),
            codon_id: CodonId::new("work").unwrap(),
            cost_delta: Usd::from_micros(1),
            tokens_delta: TokenUsage::ZERO,
        };
        // The first event about a run makes its index.
        live.apply_event(&event, Timestamp::UNIX_EPOCH).unwrap();
        let (applied, tally) = measured(|| live.apply_event(&event, Timestamp::UNIX_EPOCH));
        applied.unwrap();
        (tally.calls, tally.peak)
    };
    assert_eq!(takes(10), takes(10_000));
    assert_eq!(takes(10).0, 0, "nothing is allocated");
}

/// What decoding so many lines of an agent takes at most, in bytes; `messages` of them have an id of their own.
fn peak_of_decoding(lines: usize, messages: usize) -> usize {
    let mut decoder = ClaudeDecoder::new(false);
    let mut events = Vec::with_capacity(16);
    let ((), tally) = measured(|| {
        for line in 0..lines {
            let id = line % messages;
            let text = format!(
                r#"{{"type":"assistant","message":{{"id":"m-{id}","model":"claude-sonnet-4-5","stop_reason":"end_turn","content":[{{"type":"text","text":"{:1000}"}}],
                    "usage":{{"input_tokens":10,"output_tokens":10}}}}}}"#,
                "said"
            );
            decoder.hear(AgentLine::Text(&text.replace('\n', " ")), &mut events);
            events.clear();
        }
    });
    tally.peak
}

/// Of each message its number is kept, so that it counts once; nothing else of a stream is.
// covers: AGENT-35
#[test]
fn decoding_takes_no_more_for_a_longer_stream() {
    let (short, long) = (peak_of_decoding(1_000, 100), peak_of_decoding(10_000, 100));
    assert_eq!(short, long);
    let more_messages = peak_of_decoding(10_000, 10_000);
    let of_one = (more_messages - long) / 9_900;
    println!("{short} bytes, and {of_one} for each message");
    assert!(of_one <= 64, "{of_one}");
}
