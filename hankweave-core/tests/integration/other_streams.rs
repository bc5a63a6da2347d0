//! The decoders of opencode and gemini, and that of programs that speak ACP, on recordings of the real programs; the expected numbers are those of the model scripts.

use hankweave_agents::{
    AcpDecoder, AgentDecoder, AgentLine, AgentRecords, GeminiChat, GeminiDecoder, OpencodeDecoder,
    ProcessEnd, RecordsScope, SessionLines,
};
use hankweave_core::agent::{
    AgentEvent, EndedBy, ExitOutcome, FailureKind, MessageUsage, ProcessExit, Verdict,
};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::id::SessionId;
use serde_json::Value;

struct Played {
    events: Vec<AgentEvent>,
    outcome: ExitOutcome,
    wants_more: bool,
}

fn play(agent: &str, name: &str) -> Played {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agent-streams");
    let read = |ending| std::fs::read_to_string(format!("{folder}/{agent}/{name}.{ending}")).unwrap();
    let exit = match agent {
        // They are ended when they have answered.
        "acp" => ProcessExit::Signaled(15),
        _ => {
            let meta: Value = serde_json::from_str(&read("meta.json")).unwrap();
            let code = meta["exit_code"].as_i64();
            code.map_or(ProcessExit::Signaled(15), |code| {
                ProcessExit::Exited(code.try_into().unwrap())
            })
        }
    };
    let mut decoder: Box<dyn AgentDecoder> = match agent {
        "acp" => Box::new(AcpDecoder::of_log(Prices::listed(), None, Usd::ZERO)),
        "gemini" => Box::new(GeminiDecoder::default()),
        _ => Box::new(OpencodeDecoder::new("anthropic/claude-sonnet-4-5")),
    };
    let mut events = Vec::new();
    for line in read("jsonl").split('\n') {
        decoder.decode(AgentLine::Text(line), &mut events);
    }
    let outcome = decoder.finish(ProcessEnd::of(exit, EndedBy::Itself));
    let wants_more = decoder.records_needed(RecordsScope::Whole).is_some();
    Played {
        events,
        outcome,
        wants_more,
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
fn succeeded(agent: &str, name: &str, nanos: u64, wanted: TokenUsage) {
    let played = play(agent, name);
    let outcome = &played.outcome;
    assert_eq!(outcome.verdict, Verdict::Success, "{agent}/{name}");
    assert_eq!(outcome.usage.tokens, wanted, "{agent}/{name}");
    assert_eq!(
        (outcome.usage.cost, outcome.usage.lower_bound),
        (Usd::from_nanos(nanos), false),
        "{agent}/{name}"
    );
    let added = played.events.iter().map(|event| match event {
        AgentEvent::Usage(usage) => usage.added.cost,
        _ => Usd::ZERO,
    });
    assert_eq!(
        added.sum::<Usd>(),
        outcome.usage.cost,
        "the events have the whole cost"
    );
    assert!(outcome.result_received && !played.wants_more);
}

// covers: AGENT-46
#[test]
fn a_price_that_the_user_gives_comes_before_what_opencode_counts() {
    let sonnet = Prices::listed().find("claude-sonnet-4-5").unwrap().1.rate;
    let line = r#"{"type":"step_finish","sessionID":"s","part":{"id":"p","messageID":"m","type":"step-finish","reason":"stop",
        "tokens":{"input":1000,"output":1000,"reasoning":0,"cache":{"read":0,"write":0}},"cost":COST}}"#;
    let told = |prices: Prices, cost: &str| {
        let mut decoder = OpencodeDecoder::new("scripted/house-model").priced_by(prices.into());
        let mut events = Vec::new();
        decoder.decode(AgentLine::Text(&line.replace("COST", cost)), &mut events);
        let unpriced = events
            .iter()
            .any(|event| matches!(event, AgentEvent::Usage(usage) if usage.is_unpriced));
        (decoder.usage().cost, unpriced)
    };
    let given = |name: &str| Prices::default().with([(name.to_owned(), sonnet)], "mine.json");
    for cost in ["0", "7.5"] {
        for name in ["scripted/house-model", "house-model"] {
            assert_eq!(
                told(given(name), cost),
                (Usd::from_micros(18_000), false),
                "{name}"
            );
        }
    }
    assert_eq!(
        told(Prices::default(), "7.5"),
        (Usd::from_micros(7_500_000), false)
    );
    assert_eq!(told(Prices::default(), "0"), (Usd::ZERO, true));
}

// covers: AGENT-28, AGENT-47
#[test]
fn opencode_tells_tokens_and_money_of_each_step() {
    succeeded("opencode", "answer", 6_930_000, tokens(1_200, 37, 500, 3_000));
    succeeded(
        "opencode",
        "two-tools",
        21_300_000,
        tokens(3_300, 180, 2_000, 4_000),
    );
    succeeded(
        "opencode",
        "resume-2-same",
        6_930_000,
        tokens(1_200, 37, 500, 3_000),
    );
}

// covers: AGENT-29, AGENT-47
#[test]
fn gemini_tells_tokens_at_its_end_and_they_are_priced() {
    // 1,700 tokens at 1.25, 3,000 from the cache at 0.125 and 37 written at 10 dollars a million.
    succeeded("gemini", "answer", 2_870_000, tokens(1_700, 37, 0, 3_000));
    succeeded("gemini", "two-tools", 8_925_000, tokens(5_300, 180, 0, 4_000));
    succeeded("gemini", "resume-2-same", 2_870_000, tokens(1_700, 37, 0, 3_000));
}

// covers: AGENT-28, AGENT-29
#[test]
fn both_are_told_in_the_order_in_which_it_happened() {
    for (agent, [write, run]) in [
        ("opencode", ["write", "bash"]),
        ("gemini", ["write_file", "run_shell_command"]),
    ] {
        let played = play(agent, "two-tools");
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
            "session".to_owned(),
            "says I will write the note.".to_owned(),
            format!("calls {write}"),
            format!("{write} answers"),
            "says Now I will check it.".to_owned(),
            format!("calls {run}"),
            format!("{run} answers"),
            "says Done: note.txt holds 22 bytes.".to_owned(),
            "result Done: note.txt holds 22 bytes.".to_owned(),
        ];
        assert_eq!(told.collect::<Vec<_>>(), wanted, "{agent}");
    }
}

/// opencode starts the step again, and reports nothing of the answer that was lost.
// covers: AGENT-28
#[test]
fn an_answer_that_opencode_asks_for_again_makes_a_lower_bound() {
    let step = |kind: &str, rest: &str| {
        format!(r#"{{"type":"{kind}","sessionID":"s-1","part":{{"messageID":"m-1"{rest}}}}}"#)
    };
    let end = r#","id":"p-1","reason":"stop","cost":0.25,"tokens":{"input":10,"output":5}"#;
    for (starts, is_lower_bound) in [(1, false), (2, true)] {
        let mut decoder = OpencodeDecoder::new("scripted/m");
        let mut events = Vec::new();
        let started = std::iter::repeat_n(step("step_start", ""), starts);
        for line in started.chain([step("step_finish", end)]) {
            decoder.decode(AgentLine::Text(&line), &mut events);
        }
        assert_eq!(decoder.usage().lower_bound, is_lower_bound);
        assert_eq!(decoder.usage().cost, Usd::from_dollars(0.25).unwrap());
    }
}

// covers: AGENT-28, AGENT-29
#[test]
fn a_refused_key_is_a_failure_and_a_killed_run_costs_at_least_what_it_told() {
    for agent in ["opencode", "gemini"] {
        let Verdict::Failure { reason, .. } = play(agent, "error-401").outcome.verdict else {
            panic!("{agent} succeeded");
        };
        assert_eq!(
            (reason.kind, reason.retriable),
            (FailureKind::ApiError, false),
            "{agent}"
        );
        assert!(reason.message.unwrap().contains("401"));
        let killed = play(agent, "kill-term-in-tool");
        assert!(!killed.outcome.verdict.is_success());
        assert!(killed.outcome.usage.lower_bound && killed.wants_more, "{agent}");
    }
}

// covers: AGENT-28
#[test]
fn a_step_without_an_end_and_a_sub_agent_make_the_cost_a_lower_bound() {
    let played = |lines: &[&str]| {
        let mut decoder = OpencodeDecoder::new("no-such-model");
        for line in lines {
            decoder.decode(AgentLine::Text(line), &mut Vec::new());
        }
        decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself))
    };
    let step = r#"{"type":"step_start","sessionID":"s","part":{}}"#;
    let stop = r#"{"type":"step_finish","sessionID":"s","part":{"reason":"stop","cost":0.5}}"#;
    let task = r#"{"type":"tool_use","sessionID":"s","part":{"tool":"task","callID":"c","state":{"status":"error","error":"no"}}}"#;
    let unpriced =
        r#"{"type":"step_finish","sessionID":"s","part":{"reason":"stop","tokens":{"input":9},"cost":0}}"#;
    assert!(!played(&[step, stop]).usage.lower_bound);
    assert!(played(&[step, task, stop]).usage.lower_bound);
    assert!(
        played(&[step, unpriced]).usage.lower_bound,
        "a model without a price"
    );
    let cut_off = played(&[step, stop, step]);
    assert!(cut_off.usage.lower_bound && !cut_off.verdict.is_success());
    let tool_calls = stop.replace("stop\"", "tool-calls\"");
    assert!(
        !played(&[step, &tool_calls]).verdict.is_success(),
        "more was to come"
    );
}

/// Answer of opencode 1.18.33, the others of codex-acp 0.16.0.
// covers: AGENT-23, AGENT-24, AGENT-25
#[test]
fn what_real_speakers_of_acp_say_is_understood() {
    let answer = play("acp", "answer").outcome;
    assert!(answer.verdict.is_success() && answer.unless_shown.is_some());
    assert_eq!(answer.usage.tokens, tokens(1_200, 37, 500, 3_000));
    assert!(answer.usage.lower_bound);

    let played = play("acp", "two-tools");
    let told = played.events.iter().map(|event| match event {
        AgentEvent::SessionStarted { .. } => "session".to_owned(),
        AgentEvent::Message { text, .. } => format!("says {text}"),
        AgentEvent::ToolUse { name, .. } => format!("calls {name}"),
        AgentEvent::ToolResult(result) => format!("answers {}", !result.is_error),
        AgentEvent::Result(result) => format!("result {}", result.text),
        other => format!("{other:?}"),
    });
    let wanted = [
        "session",
        "says I write.",
        "calls printf hello > note.txt",
        "answers true",
        "says Done.",
        "result Done.",
    ];
    assert_eq!(told.collect::<Vec<_>>(), wanted);

    let Verdict::Failure { reason, .. } = play("acp", "error-401").outcome.verdict else {
        panic!("it succeeded");
    };
    assert_eq!((reason.kind, reason.retriable), (FailureKind::ApiError, false));
    assert!(reason.message.unwrap().contains("401 Unauthorized"));
}

/// The output of opencode 1.18.33: the summary first, then its own message to its model.
// covers: AGENT-28
#[test]
fn a_conversation_that_opencode_shortens_is_told_as_such_and_not_as_its_words() {
    let continues = r#"{"type":"text","sessionID":"ses_1","part":{"type":"text","metadata":{"compaction_continue":true},"synthetic":true,"text":"Continue if you have next steps."}}"#;
    let mut decoder = OpencodeDecoder::new("scripted/m");
    let mut events = Vec::new();
    decoder.decode(AgentLine::Text(continues), &mut events);
    assert_eq!(events.last(), Some(&AgentEvent::Compacted), "{events:?}");
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, AgentEvent::Message { .. }))
    );
}

/// One run of gemini, whose requests had these tokens together.
fn gemini(input: u64, more: &[&str], end: &str) -> ExitOutcome {
    let stats = format!(
        r#""stats":{{"models":{{"gemini-2.5-pro":{{"total_tokens":{input},"input_tokens":{input},"output_tokens":0,"cached":0}}}}}}"#
    );
    let result = format!(r#"{{"type":"result",{end},{stats}}}"#);
    let mut decoder = GeminiDecoder::default();
    let init = r#"{"type":"init","session_id":"s","model":"gemini-2.5-pro"}"#;
    for line in [init].iter().chain(more).chain([&result.as_str()]) {
        decoder.decode(AgentLine::Text(line), &mut Vec::new());
    }
    decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself))
}

/// The price of long prompts is that of one request, and gemini reports only the sum of its requests.
// covers: AGENT-29
#[test]
fn a_sum_of_requests_has_not_the_price_of_a_long_prompt() {
    let done = r#""status":"success""#;
    let short = gemini(200_000, &[], done).usage;
    assert_eq!(
        (short.cost, short.lower_bound),
        (Usd::from_nanos(250_000_000), false)
    );
    let more = gemini(240_000, &[], done).usage;
    assert_eq!(
        (more.cost, more.lower_bound),
        (Usd::from_nanos(300_000_000), true)
    );
}

// covers: AGENT-29
#[test]
fn gemini_that_gives_up_has_failed_and_what_was_cut_off_may_have_been_paid() {
    let warning = r#"{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}"#;
    let looped = gemini(100, &[warning], r#""status":"success""#);
    assert!(looped.usage.lower_bound);
    let Verdict::Failure { reason, .. } = looped.verdict else {
        panic!("it succeeded");
    };
    assert_eq!(
        reason.message.as_deref(),
        Some("Loop detected, stopping execution")
    );
    let other = r#"{"type":"error","severity":"warning","message":"something else"}"#;
    assert!(
        gemini(100, &[other], r#""status":"success""#)
            .verdict
            .is_success()
    );

    let failed = |words: &str| {
        let end = format!(r#""status":"error","error":{{"type":"Error","message":{words}}}"#);
        gemini(100, &[], &end).usage.lower_bound
    };
    assert!(failed(r#""[API Error: terminated]""#));
    assert!(!failed(
        r#""[API Error: {\"error\":{\"code\":400,\"message\":\"no\"}}]""#
    ));
}

const INIT: &str = r#"{"type":"init","session_id":"s-1","model":"gemini-2.5-pro"}"#;
const CALL: &str = r#"{"type":"tool_use","tool_name":"look","tool_id":"t-1","parameters":{}}"#;

/// Records of a session file with messages of 1,000 tokens read, 100 of them from the cache, and 57 written.
fn chat(ids: &[&str]) -> Option<AgentRecords> {
    let mut chat = GeminiChat::new(SessionId::new("s-1").unwrap(), None);
    chat.line(r#"{"sessionId":"s-1","kind":"main"}"#);
    for id in ids {
        chat.line(&format!(
            r#"{{"id":"{id}","type":"gemini","tokens":{{"input":1000,"output":50,"cached":100,"thoughts":7,"tool":0,"total":1057}},"model":"gemini-2.5-pro"}}"#
        ));
    }
    Some(chat.take())
}

fn reported(events: &mut Vec<AgentEvent>) -> Vec<MessageUsage> {
    let usages = events.drain(..).filter_map(|event| match event {
        AgentEvent::Usage(usage) => Some(usage),
        _ => None,
    });
    usages.collect()
}

/// The file has the name that was asked for, and the result that of the version which answered.
// covers: AGENT-29, AGENT-31
#[test]
fn gemini_tells_each_message_while_it_works_and_its_end_adds_the_rest() {
    for name in ["gemini-2.5-pro", "gemini-2.5-pro-001"] {
        let mut decoder = GeminiDecoder::default().recorded();
        let mut events = Vec::new();
        decoder.decode(AgentLine::Text(INIT), &mut events);
        decoder.decode(AgentLine::Text(CALL), &mut events);
        assert!(decoder.records_needed(RecordsScope::SoFar).is_some());
        decoder.recall(RecordsScope::SoFar, chat(&["m-1"]), &mut events);
        assert!(
            decoder.records_needed(RecordsScope::SoFar).is_none(),
            "nothing is new"
        );
        let first = reported(&mut events);
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].added.tokens, tokens(900, 57, 0, 100));
        assert!(!first[0].is_sum && decoder.usage().lower_bound);

        let result = format!(
            r#"{{"type":"result","status":"success","stats":{{"models":{{"{name}":{{"total_tokens":2114,"input_tokens":2000,"output_tokens":100,"cached":200}},"gemini-2.5-flash":{{"total_tokens":40,"input_tokens":30,"output_tokens":10,"cached":0}}}}}}}}"#
        );
        decoder.decode(AgentLine::Text(&result), &mut events);
        assert_eq!(events, [], "it waits for the file");
        decoder.recall(RecordsScope::SoFar, chat(&["m-1", "m-2"]), &mut events);
        let AgentEvent::Result(told) = events.last().unwrap().clone() else {
            panic!("no result: {events:?}");
        };
        let rest = reported(&mut events);
        let added: Vec<_> = rest
            .iter()
            .map(|usage| (usage.model.as_str(), usage.is_sum))
            .collect();
        assert_eq!(added, [("gemini-2.5-pro", false), ("gemini-2.5-flash", true)]);
        assert_eq!(rest[1].added.tokens, tokens(30, 10, 0, 0));
        let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself));
        assert_eq!(outcome.usage.tokens, tokens(1_830, 124, 0, 200));
        assert_eq!((&outcome.usage, outcome.usage.lower_bound), (&told.usage, false));
    }
}

/// The result counts sub-agents, too. While one works, no line reports its usage.
// covers: AGENT-29
#[test]
fn sub_agents_of_gemini_count_while_they_work_and_once() {
    let mut decoder = GeminiDecoder::default().recorded();
    let mut events = Vec::new();
    decoder.decode(AgentLine::Text(INIT), &mut events);
    assert!(
        decoder.records_needed(RecordsScope::Meanwhile).is_none(),
        "no tool works"
    );
    decoder.decode(AgentLine::Text(CALL), &mut events);
    decoder.recall(RecordsScope::SoFar, chat(&["m-1"]), &mut events);
    assert!(decoder.records_needed(RecordsScope::Meanwhile).is_some());
    events.clear();
    let helpers = |ids: &[&str]| AgentRecords {
        sub_agents: chat(ids).unwrap().messages,
        ..AgentRecords::default()
    };
    decoder.recall(
        RecordsScope::Meanwhile,
        Some(helpers(&["h-1", "h-1"])),
        &mut events,
    );
    let told = reported(&mut events);
    assert_eq!(told.len(), 1, "it is told twice and counts once");
    assert_eq!(told[0].added.tokens, tokens(900, 57, 0, 100));
    assert!(
        told[0].parent_tool_use_id.is_some(),
        "it says nothing of the context"
    );

    decoder.decode(
        AgentLine::Text(r#"{"type":"tool_result","tool_id":"t-1","status":"success"}"#),
        &mut events,
    );
    assert!(decoder.records_needed(RecordsScope::Meanwhile).is_none());
    let result = r#"{"type":"result","status":"success","stats":{"models":{"gemini-2.5-pro":{"total_tokens":2114,"input_tokens":2000,"output_tokens":100,"cached":200}}}}"#;
    decoder.decode(AgentLine::Text(result), &mut events);
    decoder.recall(RecordsScope::SoFar, chat(&[]), &mut events);
    let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself));
    assert_eq!(outcome.usage.tokens, tokens(1_800, 114, 0, 200));
    assert!(!outcome.usage.lower_bound);
}

/// A result counts unchanged if its file is not read, and a killed run counts the usage in its file.
// covers: AGENT-8, AGENT-29
#[test]
fn gemini_counts_its_result_without_a_file_and_its_file_without_a_result() {
    let result = r#"{"type":"result","status":"success","stats":{"models":{"gemini-2.5-pro":{"total_tokens":1057,"input_tokens":1000,"output_tokens":50,"cached":100}}}}"#;
    for recalled in [false, true] {
        let mut decoder = GeminiDecoder::default().recorded();
        decoder.decode(AgentLine::Text(INIT), &mut Vec::new());
        decoder.decode(AgentLine::Text(result), &mut Vec::new());
        assert!(decoder.records_needed(RecordsScope::Whole).is_some());
        if recalled {
            decoder.recall(RecordsScope::Whole, None, &mut Vec::new());
            assert!(decoder.records_needed(RecordsScope::Whole).is_none());
        }
        let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself));
        assert_eq!(outcome.usage.tokens, tokens(900, 57, 0, 100));
        assert!(!outcome.usage.lower_bound && outcome.verdict.is_success());
    }
    let mut decoder = GeminiDecoder::default();
    decoder.decode(AgentLine::Text(INIT), &mut Vec::new());
    decoder.recall(RecordsScope::Whole, chat(&["m-1", "m-1", "m-2"]), &mut Vec::new());
    let used = decoder.usage();
    assert_eq!(
        (used.tokens, used.lower_bound),
        (tokens(1_800, 114, 0, 200), true)
    );
}

/// The price of a long prompt is that of the message that had it.
// covers: AGENT-29
#[test]
fn a_message_of_gemini_with_a_long_prompt_has_its_price() {
    let message = |input: u64| {
        let mut chat = GeminiChat::new(SessionId::new("s-1").unwrap(), None);
        chat.line(r#"{"sessionId":"s-1"}"#);
        chat.line(&format!(
            r#"{{"id":"m-1","type":"gemini","tokens":{{"input":{input},"total":{input}}},"model":"gemini-2.5-pro"}}"#
        ));
        let mut decoder = GeminiDecoder::default().recorded();
        let mut events = Vec::new();
        decoder.decode(AgentLine::Text(INIT), &mut events);
        decoder.recall(RecordsScope::SoFar, Some(chat.take()), &mut events);
        let usage = reported(&mut events).remove(0);
        (usage.added.cost, usage.is_lower_bound)
    };
    assert_eq!(message(200_000), (Usd::from_nanos(250_000_000), false));
    assert_eq!(message(240_000), (Usd::from_nanos(600_000_000), false));
}
