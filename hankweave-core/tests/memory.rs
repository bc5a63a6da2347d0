//! What core takes from the allocator. Counts are exact and the same on every machine, so they are tests and not benchmarks.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::state::parse;
use hankweave_core::testing::{large_document, long_history};
use hankweave_core::time::Timestamp;

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

/// A file with `null` where only the older system would not mind is read by way of a tree of values, and the tree alone is larger than the file.
#[test]
fn loading_an_unusual_file_is_bounded_as_well() {
    let text = String::from_utf8(large_document(4 << 20)).unwrap();
    let unusual = r#""sentinels": {"totalCost": 0, "loaded": [{"id": "s", "model": "m", "loadedAt": "2025-01-04T12:00:00Z",
        "llmCallCount": 0, "failedLLMCalls": 0, "totalTriggers": null, "totalCost": 0, "status": "active"}]}, "codonId""#;
    let text = text.replacen(r#""codonId""#, unusual, 1);
    let times = peak_of_loading(text.as_bytes());
    println!("{times:.2} times the file");
    assert!(times <= 6.0, "{times}");
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
