//! Memory that core takes from the allocator. Counts are exact and equal on every machine, so they are tests and not benchmarks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashSet;
use std::time::Duration;

use hankweave_agents::{AgentDecoder, AgentLine, ClaudeDecoder};
use hankweave_core::budget::{Ceiling, RunBudgets, summary};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{HankweaveState, PlanEntry, SharedList, parse};
use hankweave_core::event::StateEvent;
use hankweave_core::hank::{self, Hank};
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::plan::{
    ContinuedRun, Decision, LoopSignal, advance_loop, decide, initial_plan, iteration_end,
};
use hankweave_core::testing::{Ending, Story, large_document, long_history};
use hankweave_core::thread::{Recovery, ThreadTip};
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};

/// The system's allocator, with a tally for each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory that the thread holds now, that it held at most and that it asked for, in bytes, and how often it asked. A block that is freed by another thread
/// stays counted.
#[derive(Clone, Copy, Default)]
struct Tally {
    live: usize,
    peak: usize,
    asked: usize,
    calls: usize,
}

thread_local! {
    static TALLY: Cell<Tally> = const { Cell::new(Tally { live: 0, peak: 0, asked: 0, calls: 0 }) };
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
        tally.asked += layout.size();
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

/// Returns how often `work` asks for memory, and the most bytes that it holds in addition to those held before.
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

/// Returns a good document of about 4 MB, changed by `shape`, in which one codon has a `null` in place of a number, as the older system allowed.
fn unusual(shape: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut document: Value = serde_json::from_slice(&large_document(4 << 20)).unwrap();
    shape(&mut document);
    let sentinel = json!({"id": "s", "model": "m", "loadedAt": "2025-01-04T12:00:00Z", "llmCallCount": 0, "failedLLMCalls": 0,
        "totalTriggers": null, "totalCost": 0, "status": "active"});
    document["runs"][0]["codons"][0]["sentinels"] = json!({"loaded": [sentinel], "totalCost": 0});
    serde_json::to_vec_pretty(&document).unwrap()
}

/// An unusual file is read as a tree of values, which is several times as large as its text.
#[test]
fn loading_an_unusual_file_takes_at_most_eight_times_the_file() {
    let text = unusual(|_| {});
    let times = peak_of_loading(&text);
    println!("{times:.2} times the file");
    assert!(times <= 8.0, "{times}");
}

/// Errors in a file are found in that tree of values.
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

/// Returns the most memory that decoding `lines` lines of an agent takes, in bytes; `messages` of them have an id of their own.
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
            decoder.decode(AgentLine::Text(&text.replace('\n', " ")), &mut events);
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

/// Returns a hank of `codons` codons with a budget each, and a state in which the first half has run until the run was stopped.
fn half_a_night(codons: usize) -> (Hank, HankweaveState) {
    let codon = |number: usize| {
        json!({"id": format!("c{number}"), "name": "c", "model": "haiku", "continuationMode": "fresh", "promptText": "x",
            "budget": {"maxDollars": 1}})
    };
    let items: Vec<Value> = (0..codons).map(codon).collect();
    let hank = hank::parse(&json!({ "hank": items }).to_string()).hank.unwrap();
    let story = (0..codons / 2).fold(Story::new().fresh("r0"), |story, number| {
        story.codon(&format!("c{number}"), Ending::Completed)
    });
    let mut state = story.run_fails().state().clone();
    state.execution_plan = initial_plan(&hank);
    (hank, state)
}

/// A loop of many iterations whose first ones have run until the run was stopped: nothing that is looked at ahead copies the plan.
#[test]
fn looking_ahead_in_a_loop_copies_no_plan() {
    const DONE: usize = 2_000;
    let codon = json!({"id": "work", "name": "work", "model": "haiku", "continuationMode": "fresh", "promptText": "x"});
    let found = json!({"type": "loop", "id": "l", "name": "l", "codons": [codon],
        "terminateOn": {"type": "iterationLimit", "limit": 10_000}});
    let hank = hank::parse(&json!({"hank": [found]}).to_string()).hank.unwrap();
    let mut plan = initial_plan(&hank);
    for number in 0..DONE {
        let id = CodonId::in_loop("work", u32::try_from(number).unwrap()).unwrap();
        advance_loop(&hank, &plan, &id, LoopSignal::Nothing)
            .unwrap()
            .apply_to(&mut plan);
    }
    let story = (0..DONE).fold(Story::new().fresh("r0"), |story, number| {
        story.codon(&format!("work#{number}"), Ending::Completed)
    });
    let mut state = story.run_fails().state().clone();
    state.execution_plan = plan;
    let known: HashSet<CheckpointSha> = state.checkpoints().cloned().collect();
    let continued = ContinuedRun::of(state, &hank, Some(Recovery::CrashPoint), &known).unwrap();
    let (changes, tally) = measured(|| continued.changes(&hank));
    assert!(!changes.next.is_empty() && !changes.can_be_taken_over());
    let calls = tally.calls / DONE;
    println!("{calls} calls for each iteration");
    assert!(calls <= 20, "{calls} calls for each iteration");
}

/// Checks that `work` asks for about as much memory for each codon of a long night as for each of a short one.
#[track_caller]
fn check_that_it_is_linear(work: impl Fn(&Hank, HankweaveState)) {
    let [short, long] = [200, 2_000].map(|codons| {
        let (hank, state) = half_a_night(codons);
        let ((), tally) = measured(|| work(&hank, state));
        (tally.asked / codons, tally.calls as f64 / codons as f64)
    });
    println!("{short:?} and {long:?} bytes and calls for each codon");
    assert!(long.0 <= short.0 * 3 / 2, "bytes");
    assert!(long.1 <= short.1 * 1.5, "calls");
}

#[test]
fn the_summary_of_budgets_grows_with_a_night_and_not_with_its_square() {
    let ceiling = Ceiling {
        max_dollars: Some(Usd::from_micros(1_000_000)),
        max_time: None,
    };
    check_that_it_is_linear(|hank, state| {
        let summary = summary(hank, ceiling, &state).unwrap();
        assert_eq!(summary.rows.len(), state.execution_plan.len());
    });
}

#[test]
fn the_changes_of_a_hank_grow_with_a_night_and_not_with_its_square() {
    check_that_it_is_linear(|hank, state| {
        let known: HashSet<CheckpointSha> = state.checkpoints().cloned().collect();
        let continued = ContinuedRun::of(state, hank, Some(Recovery::CrashPoint), &known).unwrap();
        assert!(!continued.changes(hank).can_be_taken_over());
    });
}

/// Returns a loop of `iterations` iterations with a budget for each of its parts.
fn loop_of(iterations: usize) -> Hank {
    let budget = json!({"maxDollars": 1_000_000});
    let codon = json!({"id": "work", "name": "w", "model": "haiku", "continuationMode": "continue-previous", "promptText": "x",
        "budget": budget});
    let found = json!({"type": "loop", "id": "l", "name": "l", "codons": [codon], "budget": budget,
        "terminateOn": {"type": "iterationLimit", "limit": iterations}});
    hank::parse(&json!({ "hank": [found] }).to_string()).hank.unwrap()
}

/// Everything that is decided about one iteration of a run that continues. Returns the document after it.
fn iterate(story: Story, hank: &Hank, budgets: &mut RunBudgets<'_>, tally: &mut Tally) -> Story {
    let (entry, before) = measured(|| match decide(story.state(), hank) {
        Decision::Start(entry) => {
            budgets.limits(story.state(), &entry);
            let thread = ThreadTip::of(story.state());
            let resumed = thread.continuation_session(&entry.codon_id);
            assert_eq!(resumed.is_some(), thread.newest().is_some());
            entry
        }
        other => panic!("{other:?}"),
    });
    let story = story.codon(entry.codon_id.as_str(), Ending::Completed);
    let (extension, after) = measured(|| {
        assert!(iteration_end(story.state(), hank, &entry.codon_id).is_some());
        match decide(story.state(), hank) {
            Decision::Extend(extension) => extension,
            other => panic!("{other:?}"),
        }
    });
    tally.asked = before.asked + after.asked;
    tally.calls = before.calls + after.calls;
    story.tell(StateEvent::PlanExtended { extension })
}

#[test]
fn what_is_decided_late_in_a_night_takes_as_much_memory_as_early() {
    let iterations = 1_000;
    let hank = loop_of(iterations + 1);
    let execution_plan = initial_plan(&hank);
    let mut story = Story::new()
        .tell(StateEvent::PlanReplaced { execution_plan })
        .fresh("r0");
    let ceiling = Ceiling {
        max_dollars: Some(Usd::from_micros(1_000_000)),
        max_time: Some(Duration::from_secs(1_000_000)),
    };
    let mut budgets = RunBudgets::of(&hank, ceiling);
    let tallies: Vec<Tally> = (0..iterations)
        .map(|_| {
            let mut tally = Tally::default();
            let before = std::mem::take(&mut story);
            story = iterate(before, &hank, &mut budgets, &mut tally);
            tally
        })
        .collect();
    // The table of what was used doubles now and then, so one of several is looked at.
    let least = |tallies: &[Tally]| {
        let bytes = tallies.iter().map(|tally| tally.asked).min();
        (
            bytes.unwrap(),
            tallies.iter().map(|tally| tally.calls).min().unwrap(),
        )
    };
    let (early, late) = (least(&tallies[90..100]), least(&tallies[iterations - 10..]));
    println!("{early:?} and {late:?} bytes and calls");
    // Numbers have more digits by then.
    assert!(
        late.0 <= early.0 + 100 && late.1 == early.1,
        "{early:?} and {late:?}"
    );
}

/// Measures 64 extensions of a plan of `iterations` iterations, each of which leaves a version for a reader.
fn extending(iterations: u32) -> Tally {
    let hank = loop_of(100_000);
    let entry = initial_plan(&hank)[0].clone();
    let id = |iteration| CodonId::in_loop("work", iteration).unwrap();
    let entries = (0..iterations).map(|iteration| {
        let mut entry = entry.clone();
        entry.codon_id = id(iteration);
        entry.loop_context.as_mut().unwrap().iteration = iteration;
        entry
    });
    let mut plan: SharedList<PlanEntry> = entries.collect();
    let ((), tally) = measured(|| {
        for iteration in iterations..iterations + 64 {
            let _shown = plan.clone();
            let step = advance_loop(&hank, &plan, &id(iteration - 1), LoopSignal::Nothing).unwrap();
            step.extension(&plan, &id(iteration - 1))
                .extend(&mut plan)
                .unwrap();
        }
    });
    tally
}

/// A reader holds the plan before each extension, so what it shares with the one after must not be copied.
#[test]
fn an_extension_of_a_long_plan_copies_one_piece_of_it() {
    let (early, late) = (extending(1_024), extending(12_800));
    let asked = [early, late].map(|tally| tally.asked / 64);
    println!("{asked:?} bytes, {} and {} calls", early.calls, late.calls);
    // A pointer for each piece of 64 entries, and numbers with more digits.
    assert!(asked[1] <= asked[0] + 4_096, "{asked:?}");
    assert!(late.calls <= early.calls, "calls");
}
