//! The claude decoder on recordings of the real program; the expected numbers are those of the model scripts.

use hankweave_agents::{AgentDecoder, ClaudeDecoder, ProcessEnd};
use hankweave_core::agent::{AgentEvent, EndedBy, ExitOutcome, FailureKind, ProcessExit, Verdict};
use hankweave_core::cost::{TokenUsage, Usd};
use serde_json::Value;

struct Played {
    events: Vec<AgentEvent>,
    outcome: ExitOutcome,
}

fn play(name: &str) -> Played {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agent-streams/claude");
    let read =
        |ending| std::fs::read_to_string(format!("{folder}/{name}.{ending}")).expect("the recording exists");
    let stream = read("jsonl");
    let meta: Value = serde_json::from_str(&read("meta.json")).expect("the recorder writes JSON");
    let exit = match meta["exit_code"].as_i64() {
        Some(code) => ProcessExit::Exited(code.try_into().expect("an exit code is small")),
        None => ProcessExit::Signaled(9),
    };
    let stderr = meta["stderr"].as_str().unwrap_or_default().to_owned();
    let mut decoder = ClaudeDecoder::new(name.starts_with("resume-2") || name.starts_with("resume-4"));
    let events = stream.split('\n').flat_map(|line| decoder.line(line)).collect();
    Played {
        events,
        outcome: decoder.finish(ProcessEnd {
            stderr_tail: stderr,
            ..ProcessEnd::of(exit, EndedBy::Itself)
        }),
    }
}

impl Played {
    fn count(&self, matches: impl Fn(&AgentEvent) -> bool) -> usize {
        self.events.iter().filter(|event| matches(event)).count()
    }

    #[track_caller]
    fn failure(&self) -> (FailureKind, bool, &str, bool) {
        match &self.outcome.verdict {
            Verdict::Success => panic!("the agent succeeded"),
            Verdict::Failure {
                reason,
                context_exceeded,
                ..
            } => (
                reason.kind,
                reason.retriable,
                reason.message.as_deref().unwrap_or_default(),
                *context_exceeded,
            ),
        }
    }
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
fn succeeds(name: &str, nanos: u64, used: TokenUsage) -> Played {
    let played = play(name);
    assert_eq!(played.outcome.verdict, Verdict::Success, "{name}");
    assert!(played.outcome.result_received, "{name}");
    assert_eq!(played.outcome.usage.cost, Usd::from_nanos(nanos), "{name}");
    assert_eq!(played.outcome.usage.tokens, used, "{name}");
    assert_eq!(
        played.count(|event| matches!(event, AgentEvent::Unparsed { .. })),
        0,
        "{name}"
    );
    played
}

// covers: AGENT-47
#[test]
fn successful_runs_have_the_cost_of_their_script() {
    succeeds("answer", 6_930_000, tokens(1_200, 37, 500, 3_000));
    succeeds("partial-messages", 6_930_000, tokens(1_200, 37, 500, 3_000));
    succeeds("two-tools", 21_300_000, tokens(3_300, 180, 2_000, 4_000));
    succeeds("parallel-tools", 15_225_000, tokens(4_300, 100, 100, 1_500));
    succeeds("slow", 5_520_000, tokens(1_650, 38, 0, 0));
    succeeds("permission", 4_530_000, tokens(1_260, 50, 0, 0));
    succeeds("unicode-big", 3_555_000, tokens(840, 69, 0, 0));
}

#[test]
fn a_run_is_told_in_the_order_in_which_it_happened() {
    let played = play("two-tools");
    let told: Vec<String> = played
        .events
        .iter()
        .map(|event| match event {
            AgentEvent::SessionStarted { model, .. } => {
                format!("session {}", model.as_deref().unwrap_or("?"))
            }
            AgentEvent::Message { text, .. } => format!("says {text}"),
            AgentEvent::ToolUse { name, .. } => format!("calls {name}"),
            AgentEvent::ToolResult(result) => format!("{:?} answers", result.tool_name.as_deref()),
            AgentEvent::Usage(usage) => format!("used {}", usage.usage.tokens.total()),
            AgentEvent::Result(result) => format!("result {}", result.text),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "session claude-sonnet-4-5",
            "says I will write the note.",
            "used 3001",
            "calls Write",
            "Some(\"Write\") answers",
            "says Now I will check it.",
            "used 3101",
            "calls Bash",
            "Some(\"Bash\") answers",
            "says Done: note.txt holds 22 bytes.",
            "used 3201",
            "result Done: note.txt holds 22 bytes.",
        ]
    );
}

// covers: AGENT-7
#[test]
fn a_resumed_session_counts_its_own_part_only() {
    succeeds("resume-1-first", 21_300_000, tokens(3_300, 180, 2_000, 4_000));
    succeeds("resume-2-same", 6_930_000, tokens(1_200, 37, 500, 3_000));
}

#[test]
fn a_sub_agent_costs_money_but_does_not_speak_for_the_codon() {
    let played = succeeds("subagent", 9_622_500, tokens(2_730, 91, 10, 100));
    let from_sub_agent = played.count(
        |event| matches!(event, AgentEvent::ToolUse { parent_tool_use_id: Some(_), name, .. } if name == "Write"),
    );
    assert_eq!(from_sub_agent, 1);
}

// covers: AGENT-4
#[test]
fn several_results_of_one_process_add_up() {
    let played = succeeds("background-command", 4_950_000, tokens(1_340, 62, 0, 0));
    let costs: Vec<Usd> = played
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Result(result) => Some(result.usage.cost),
            _ => None,
        })
        .collect();
    assert_eq!(costs, [Usd::from_micros(4_350), Usd::from_micros(4_950)]);
}

#[test]
fn retries_that_help_are_told_and_do_not_fail_the_run() {
    let played = succeeds("error-500-then-ok", 2_865_000, tokens(900, 11, 0, 0));
    assert!(
        played.count(|event| matches!(
            event,
            AgentEvent::Retrying {
                status: Some(500),
                ..
            }
        )) > 0
    );
}

#[test]
fn denied_permissions_are_listed() {
    let played = play("permission");
    let denied = played
        .count(|event| matches!(event, AgentEvent::Result(result) if result.permission_denials.len() == 2));
    assert_eq!(denied, 1);
}

#[test]
fn a_killed_run_costs_what_its_messages_cost() {
    for (name, code) in [("kill-term-in-tool", 143), ("kill-kill-in-tool", 137)] {
        let played = play(name);
        assert_eq!(played.outcome.exit.code(), code);
        assert!(!played.outcome.result_received);
        assert_eq!(played.outcome.usage.tokens, tokens(600, 1, 0, 0), "{name}");
        assert_eq!(played.outcome.usage.cost, Usd::from_nanos(1_815_000), "{name}");
        assert_eq!(
            (played.failure().0, played.failure().1),
            (FailureKind::Unknown, true)
        );
    }
}

// covers: AGENT-3
#[test]
fn an_interrupted_run_fails_although_it_exits_with_0() {
    let played = play("kill-int-in-stream");
    assert!(played.outcome.exit.is_success());
    assert!(!played.outcome.verdict.is_success());
    assert_eq!(played.outcome.usage.cost, Usd::from_micros(2_235));
}

#[test]
fn a_wrong_key_fails_without_another_try() {
    let played = play("error-401");
    let (kind, retriable, message, _) = played.failure();
    assert_eq!((kind, retriable), (FailureKind::ApiError, false));
    assert_eq!(message, "Invalid API key · Fix external API key (status 401)");
    assert_eq!(played.outcome.usage.cost, Usd::ZERO);
}

// covers: AGENT-11
#[test]
fn a_full_context_is_recognised() {
    let played = play("context-exceeded");
    let (kind, retriable, _, context_exceeded) = played.failure();
    assert_eq!(
        (kind, retriable, context_exceeded),
        (FailureKind::ApiError, false, true)
    );
    assert_eq!(played.outcome.usage.cost, Usd::from_micros(540_600));
}

#[test]
fn a_run_out_of_turns_fails_with_its_own_words() {
    let played = play("max-turns");
    assert_eq!(played.failure().2, "Reached maximum number of turns (3)");
    assert!(!played.failure().3);
}

// covers: AGENT-2
#[test]
fn an_unknown_session_reports_no_session() {
    let played = play("resume-4-unknown");
    assert_eq!(
        played.count(|event| matches!(event, AgentEvent::SessionStarted { .. })),
        0
    );
    assert!(!played.failure().1);
}

#[test]
fn a_silent_start_failure_speaks_through_standard_error() {
    let played = play("session-id-reused");
    assert!(played.events.is_empty());
    assert!(
        played.failure().2.contains("already in use"),
        "{}",
        played.failure().2
    );
}

#[test]
fn a_format_that_is_not_a_stream_is_unparsed_and_no_result() {
    let played = play("json-format");
    assert_eq!(
        played.count(|event| matches!(event, AgentEvent::Unparsed { .. })),
        1
    );
    assert!(!played.outcome.verdict.is_success());
}
