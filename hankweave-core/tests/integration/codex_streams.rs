//! The codex decoder on recordings of the real program; the expected numbers are those of the model scripts.

use hankweave_agents::{
    AgentDecoder, AgentLine, CodexDecoder, ProcessEnd, RecordsScope, Rollout, SessionLines,
};
use hankweave_core::agent::{AgentEvent, EndedBy, ExitOutcome, FailureKind, ProcessExit, Verdict};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::time::Timestamp;
use serde_json::Value;

struct Played {
    events: Vec<AgentEvent>,
    outcome: ExitOutcome,
}

/// Plays a recording with the rollout file that was recorded with it, if one was.
fn play(name: &str, since: Option<&str>) -> Played {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agent-streams/codex");
    let read = |ending| std::fs::read_to_string(format!("{folder}/{name}.{ending}"));
    let meta: Value = serde_json::from_str(&read("meta.json").unwrap()).unwrap();
    let exit = match meta["exit_code"].as_i64() {
        Some(code) => ProcessExit::Exited(code.try_into().unwrap()),
        None => ProcessExit::Signaled(9),
    };
    let mut decoder = CodexDecoder::new(since.is_some());
    let mut events = Vec::new();
    for line in read("jsonl").unwrap().split('\n') {
        decoder.decode(AgentLine::Text(line), &mut events);
    }
    let recorded = read("rollout.jsonl").ok().map(|lines| {
        let mut rollout = Rollout::new(since.map(|at| Timestamp::parse(at).unwrap()));
        lines.lines().for_each(|line| rollout.line(line));
        rollout.take()
    });
    if decoder.records_needed(RecordsScope::Whole).is_some() {
        decoder.recall(RecordsScope::Whole, recorded, &mut events);
    }
    let outcome = decoder.finish(ProcessEnd {
        stderr_tail: meta["stderr"].as_str().unwrap_or_default().to_owned(),
        ..ProcessEnd::of(exit, EndedBy::Itself)
    });
    Played { events, outcome }
}

/// Input, output and what was read from the cache; codex was never billed for what is written to it.
fn tokens(input: u64, output: u64, cache_read: u64) -> TokenUsage {
    TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_creation_tokens: 0,
        cache_read_tokens: cache_read,
    }
}

fn told(played: &Played) -> Vec<String> {
    let told = |event: &AgentEvent| match event {
        AgentEvent::SessionStarted { .. } => "session".to_owned(),
        AgentEvent::Message { text, .. } => format!("says {text}"),
        AgentEvent::ToolUse { name, .. } => format!("calls {name}"),
        AgentEvent::ToolResult(result) => format!(
            "{} {}",
            result.tool_name.as_deref().unwrap(),
            if result.is_error { "fails" } else { "answers" }
        ),
        AgentEvent::Usage(usage) => format!("used {}", usage.added.tokens.total()),
        AgentEvent::Result(result) => format!("result {}", result.success),
        AgentEvent::Retrying { attempt, status, .. } => format!("retry {attempt} {status:?}"),
        other => format!("{other:?}"),
    };
    played.events.iter().map(told).collect()
}

#[track_caller]
fn used(name: &str, since: Option<&str>, wanted: TokenUsage, nanos: u64, lower_bound: bool) -> Played {
    let played = play(name, since);
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

// covers: AGENT-18
#[test]
fn successful_runs_have_the_tokens_of_their_script() {
    // No rollout file was recorded with them, so their model is not known, and no price.
    for (name, wanted) in [
        ("answer", tokens(1_700, 37, 3_000)),
        ("two-tools", tokens(5_300, 180, 4_000)),
        ("resume-1-first", tokens(5_300, 180, 4_000)),
        ("tool-error", tokens(1_260, 50, 0)),
    ] {
        let played = used(name, None, wanted, 0, true);
        assert_eq!(played.outcome.verdict, Verdict::Success, "{name}");
        assert!(played.outcome.result_received, "{name}");
    }
    assert_eq!(play("slow", None).outcome.verdict, Verdict::Success);
}

// covers: AGENT-18
#[test]
fn a_run_is_told_in_the_order_in_which_it_happened() {
    assert_eq!(
        told(&play("tool-error", None)),
        [
            "session",
            "says This command fails.",
            "calls shell",
            "shell fails",
            "says This tool does not exist.",
            "says Both failed as expected.",
            "used 1310",
            "result true",
        ]
    );
    let dropped = play("drop-mid-stream", None);
    assert_eq!(told(&dropped)[..2], ["session", "retry 1 None"]);
    assert!(
        dropped.outcome.usage.lower_bound,
        "half an answer may have been paid for"
    );
}

// covers: AGENT-17
#[test]
fn an_answer_that_was_cut_off_may_have_been_paid_for_without_another_try() {
    let lower_bound = |why: &str| {
        let mut decoder = CodexDecoder::new(false);
        let mut events = Vec::new();
        let failed = format!(r#"{{"type":"turn.failed","error":{{"message":"{why}"}}}}"#);
        for line in [
            r#"{"type":"thread.started","thread_id":"t-1"}"#,
            r#"{"type":"turn.started"}"#,
            &failed,
        ] {
            decoder.decode(AgentLine::Text(line), &mut events);
        }
        decoder.recall(RecordsScope::Whole, Some(Rollout::new(None).take()), &mut events);
        decoder.usage().lower_bound
    };
    assert!(lower_bound(
        "stream disconnected before completion: idle timeout waiting for SSE"
    ));
    assert!(!lower_bound("unexpected status 401 Unauthorized: no"));
}

// covers: AGENT-17, AGENT-47
#[test]
fn a_resumed_session_counts_only_what_is_new() {
    // 1,700 in, 37 out and 3,000 read from the cache at 1.25, 10 and 0.125 dollars per million.
    let resumed = used(
        "resumed",
        Some("2026-11-23T23:53:00.000Z"),
        tokens(1_700, 37, 3_000),
        2_870_000,
        false,
    );
    assert_eq!(
        told(&resumed),
        ["session", "says The answer is 42.", "used 4737", "result true"]
    );
    // This session as a whole.
    used("resumed", None, tokens(7_000, 217, 7_000), 11_795_000, false);
    // Without its rollout file the earlier usage is unknown.
    used(
        "resume-2-same",
        Some("2026-11-23T00:00:00.000Z"),
        TokenUsage::ZERO,
        0,
        true,
    );
}

// covers: AGENT-17
#[test]
fn what_is_told_as_a_sum_because_no_rollout_file_is_found_says_nothing_of_the_context() {
    let mut decoder = CodexDecoder::new(false).with_model("gpt-5.1-codex");
    let mut events = Vec::new();
    for line in [
        r#"{"type":"thread.started","thread_id":"t-1"}"#,
        r#"{"type":"turn.started"}"#,
        r#"{"type":"turn.completed","usage":{"input_tokens":900000,"cached_input_tokens":700000,"output_tokens":5000}}"#,
    ] {
        decoder.decode(AgentLine::Text(line), &mut events);
    }
    decoder.recall(RecordsScope::Whole, None, &mut events);
    let usages: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Usage(usage) => Some((usage.is_sum, usage.added.tokens)),
            _ => None,
        })
        .collect();
    assert_eq!(usages, [(true, tokens(200_000, 5_000, 700_000))]);
}

// covers: AGENT-17
#[test]
fn what_a_failed_or_killed_run_used_stands_in_its_rollout_file() {
    let failed_late = used("failed-midway", None, tokens(1_800, 44, 0), 2_690_000, false);
    failed(&failed_late, FailureKind::ApiError, true, "high demand");
    let full = used("out-of-context", None, tokens(180_000, 40, 0), 225_400_000, false);
    assert!(matches!(
        full.outcome.verdict,
        Verdict::Failure {
            context_exceeded: true,
            ..
        }
    ));
    let killed = used("killed", None, tokens(600, 33, 0), 1_080_000, true);
    failed(
        &killed,
        FailureKind::Unknown,
        true,
        "signal 9 without reporting a result",
    );
    assert!(!killed.outcome.result_received);
}

// covers: AGENT-19
#[test]
fn what_sub_agents_use_is_missing_and_marked_so() {
    let played = used("subagent", None, tokens(2_110, 60, 10), 3_238_750, true);
    assert!(told(&played).contains(&"calls spawn_agent".to_owned()));
}

// covers: AGENT-18
#[test]
fn failures_are_classified_by_their_words() {
    let refused = play("error-401", None);
    failed(&refused, FailureKind::ApiError, false, "401");
    assert_eq!(
        told(&refused)[1..],
        ["retry 1 Some(401)", "retry 2 Some(401)", "result false"]
    );
    let full = play("context-exceeded", None);
    failed(&full, FailureKind::ApiError, false, "ran out of room");
    for name in ["kill-kill-in-tool", "kill-term-in-tool"] {
        let killed = play(name, None);
        failed(&killed, FailureKind::Unknown, true, "without reporting a result");
        assert!(killed.outcome.usage.lower_bound);
    }
    let unknown = play("resume-4-unknown", Some("2026-11-23T00:00:00.000Z"));
    assert!(unknown.events.is_empty());
    assert!(!unknown.outcome.verdict.is_success());
}
