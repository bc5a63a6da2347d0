//! The pi decoder on recordings of the real program, versions 0.73 and 0.87; the expected numbers are those of the model scripts.

use hankweave_agents::{AgentDecoder, AgentLine, PiDecoder, ProcessEnd, RecordsScope};
use hankweave_core::agent::{AgentEvent, EndedBy, ExitOutcome, FailureKind, ProcessExit, Verdict};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{TokenUsage, Usd};
use serde_json::Value;

struct Played {
    events: Vec<AgentEvent>,
    outcome: ExitOutcome,
}

fn play(name: &str) -> Played {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agent-streams");
    let read = |ending| std::fs::read_to_string(format!("{folder}/{name}.{ending}")).unwrap();
    let meta: Value = serde_json::from_str(&read("meta.json")).unwrap();
    let exit = ProcessExit::Exited(meta["exit_code"].as_i64().unwrap().try_into().unwrap());
    let mut decoder = PiDecoder::default();
    let mut events = Vec::new();
    for line in read("jsonl").split('\n') {
        decoder.decode(AgentLine::Text(line), &mut events);
    }
    let outcome = decoder.finish(ProcessEnd {
        stderr_tail: meta["stderr"].as_str().unwrap_or_default().to_owned(),
        ..ProcessEnd::of(exit, EndedBy::Itself)
    });
    Played { events, outcome }
}

fn tokens(input: u64, output: u64, cache_creation: u64, cache_read: u64) -> TokenUsage {
    TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_creation_tokens: cache_creation,
        cache_read_tokens: cache_read,
    }
}

#[track_caller]
fn used(name: &str, nanos: u64, wanted: TokenUsage, lower_bound: bool) -> Played {
    let played = play(name);
    let usage = &played.outcome.usage;
    assert_eq!(usage.tokens, wanted, "{name}");
    assert_eq!(
        (usage.cost, usage.lower_bound),
        (Usd::from_nanos(nanos), lower_bound),
        "{name}"
    );
    let added = played.events.iter().map(|event| match event {
        AgentEvent::Usage(usage) => usage.added.cost,
        _ => Usd::ZERO,
    });
    assert_eq!(
        added.sum::<Usd>(),
        usage.cost,
        "{name}: the events have the whole cost"
    );
    played
}

#[track_caller]
fn failed(played: &Played, kind: FailureKind, retriable: bool, words: &str) {
    let Verdict::Failure { reason, .. } = &played.outcome.verdict else {
        panic!("the agent succeeded");
    };
    let message = reason.message.as_deref().unwrap();
    assert_eq!((reason.kind, reason.retriable), (kind, retriable), "{message}");
    assert!(message.contains(words), "{message}");
}

// covers: AGENT-21, AGENT-47
#[test]
fn both_versions_have_the_cost_of_their_script() {
    for version in ["pi", "pi-0.87"] {
        for (name, nanos, wanted) in [
            ("answer", 6_930_000, tokens(1_200, 37, 500, 3_000)),
            ("two-tools", 21_300_000, tokens(3_300, 180, 2_000, 4_000)),
        ] {
            let played = used(&format!("{version}/{name}"), nanos, wanted, false);
            assert_eq!(played.outcome.verdict, Verdict::Success, "{version}/{name}");
            assert!(played.outcome.result_received, "{version}/{name}");
        }
    }
    used(
        "pi/resume-1-first",
        21_300_000,
        tokens(3_300, 180, 2_000, 4_000),
        false,
    );
    // In a session that continues, each message is reported with its own usage.
    for resumed in ["pi/resume-2-same", "pi-0.87/resumed"] {
        used(resumed, 6_930_000, tokens(1_200, 37, 500, 3_000), false);
    }
}

// covers: AGENT-21
#[test]
fn both_versions_are_told_in_the_order_in_which_it_happened() {
    for version in ["pi", "pi-0.87"] {
        let played = play(&format!("{version}/two-tools"));
        let told = played.events.iter().filter_map(|event| match event {
            AgentEvent::SessionStarted { .. } => Some("session".to_owned()),
            AgentEvent::Message { text, .. } => Some(format!("says {text}")),
            AgentEvent::ToolUse { name, .. } => Some(format!("calls {name}")),
            AgentEvent::ToolResult(result) => result.tool_name.as_ref().map(|name| format!("{name} answers")),
            AgentEvent::Result(result) => Some(format!("result {}", result.text)),
            AgentEvent::Usage(_) => None,
            other => Some(format!("{other:?}")),
        });
        let wanted = [
            "session",
            "says I will write the note.",
            "calls write",
            "write answers",
            "says Now I will check it.",
            "calls bash",
            "bash answers",
            "says Done: note.txt holds 22 bytes.",
            "result Done: note.txt holds 22 bytes.",
        ];
        assert_eq!(told.collect::<Vec<_>>(), wanted, "{version}");
    }
}

// covers: AGENT-20
#[test]
fn the_last_message_decides_because_the_program_exits_with_0() {
    for refused in ["pi/error-401", "pi-0.87/error-401"] {
        let played = used(refused, 0, TokenUsage::ZERO, false);
        assert_eq!(played.outcome.exit, ProcessExit::Exited(0));
        failed(&played, FailureKind::ApiError, false, "401");
    }
    let full = play("pi-0.87/context-exceeded");
    assert_eq!(full.outcome.exit, ProcessExit::Exited(0));
    assert!(matches!(
        full.outcome.verdict,
        Verdict::Failure {
            context_exceeded: true,
            ..
        }
    ));
    let again = used(
        "pi-0.87/error-500-then-ok",
        2_865_000,
        tokens(900, 11, 0, 0),
        false,
    );
    assert_eq!(again.outcome.verdict, Verdict::Success);
    let retries = again.events.iter().filter(|event| {
        matches!(
            event,
            AgentEvent::Retrying {
                status: Some(500),
                max_retries: Some(3),
                ..
            }
        )
    });
    assert_eq!(retries.count(), 2);
    // A command was running, and no request was on its way.
    for killed in ["pi/kill-term-in-tool", "pi-0.87/killed"] {
        let played = used(killed, 2_295_000, tokens(600, 33, 0, 0), false);
        failed(
            &played,
            FailureKind::Unknown,
            true,
            "code 143 without reporting a result",
        );
        assert!(!played.outcome.result_received);
    }
}

// covers: AGENT-21, AGENT-46
#[test]
fn a_model_without_a_price_costs_at_least_nothing() {
    let mut decoder = PiDecoder::default();
    let line = r#"{"type":"message_end","message":{"role":"assistant","model":"nobody-1","stopReason":"stop",
        "usage":{"input":10,"output":2,"cost":{"total":0}}}}"#;
    decoder.decode(AgentLine::Text(line), &mut Vec::new());
    let usage = decoder.usage();
    assert_eq!(
        (usage.tokens.total(), usage.cost, usage.lower_bound),
        (12, Usd::ZERO, true)
    );
}

/// The price with its provider, as the hint of `validate` has it, and one of a model that pi has a price for itself.
// covers: AGENT-46
#[test]
fn a_price_that_the_user_gives_comes_before_what_pi_counts() {
    let sonnet = Prices::listed().find("claude-sonnet-4-5").unwrap().1.rate;
    let line = r#"{"type":"message_end","message":{"role":"assistant","provider":"scripted","model":"house-model","stopReason":"stop",
        "usage":{"input":1000,"output":1000,"cost":{"total":COST}}}}"#;
    let told = |prices: Prices, cost: &str| {
        let mut decoder = PiDecoder::default().priced_by(prices.into());
        let mut events = Vec::new();
        decoder.decode(AgentLine::Text(&line.replace("COST", cost)), &mut events);
        let unpriced = events
            .iter()
            .any(|event| matches!(event, AgentEvent::Usage(usage) if usage.is_unpriced));
        (decoder.usage().cost, decoder.usage().lower_bound, unpriced)
    };
    let given = |name: &str| Prices::default().with([(name.to_owned(), sonnet)], "mine.json");
    for name in ["scripted/house-model", "house-model"] {
        for cost in ["0", "7.5"] {
            assert_eq!(
                told(given(name), cost),
                (Usd::from_micros(18_000), false, false),
                "{name} {cost}"
            );
        }
    }
    assert_eq!(
        told(Prices::default(), "7.5"),
        (Usd::from_micros(7_500_000), false, false)
    );
    assert_eq!(
        told(given("another/house-model"), "0").0,
        Usd::from_micros(18_000)
    );
    assert_eq!(told(Prices::default(), "0"), (Usd::ZERO, true, true));
}

// covers: AGENT-20
#[test]
fn an_end_that_is_too_long_to_be_read_is_not_needed() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/agent-streams/pi/answer.jsonl"
    );
    let mut decoder = PiDecoder::default();
    let mut events = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let line = match line.contains("\"agent_end\"") {
            true => AgentLine::TooLong {
                bytes: 2 << 20,
                sha256: "",
            },
            false => AgentLine::Text(line),
        };
        decoder.decode(line, &mut events);
    }
    assert_eq!(decoder.records_needed(RecordsScope::Whole), None, "it is done");
    let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself));
    assert_eq!(
        (outcome.verdict, outcome.result_received),
        (Verdict::Success, true)
    );
}

/// A later reader of the lines does not know whether the agent was allowed to shorten its conversation, and gets an equal count.
// covers: AGENT-21
#[test]
fn a_summary_that_was_not_tried_costs_nothing() {
    let usage = |end: &str| {
        let mut decoder = PiDecoder::default();
        for line in [
            r#"{"type":"session","id":"s"}"#,
            r#"{"type":"compaction_start","reason":"threshold"}"#,
            end,
        ] {
            decoder.decode(AgentLine::Text(line), &mut Vec::new());
        }
        decoder.usage().lower_bound
    };
    assert!(!usage(r#"{"type":"compaction_end","aborted":true}"#));
    assert!(usage(r#"{"type":"compaction_end","aborted":false}"#));
}
