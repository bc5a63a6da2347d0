//! How lines of claude are understood.

use super::*;
use crate::decoder::UNPARSED_CHARS;
use crate::records::SessionLines;
use hankweave_core::agent::FailureReason;
use hankweave_core::agent::{EndedBy, ProcessExit};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5"}"#;
const OK: &str = r#"{"subtype":"success","result":"done","is_error":false,"type":"result"}"#;
const BAD: &str = r#"{"type":"result","subtype":"success","result":"API Error: 500","is_error":true}"#;

fn run(lines: &[&str], exit: ProcessExit) -> ExitOutcome {
    let mut decoder = ClaudeDecoder::new(false);
    for line in lines {
        decoder.line(line);
    }
    decoder.finish(ProcessEnd::of(exit, EndedBy::Itself))
}

#[track_caller]
fn failure(outcome: &ExitOutcome) -> (&FailureReason, bool) {
    match &outcome.verdict {
        Verdict::Success => panic!("the agent succeeded"),
        Verdict::Failure {
            reason,
            context_exceeded,
            ..
        } => (reason, *context_exceeded),
    }
}

// covers: AGENT-3
#[test]
fn success_needs_exit_code_0_and_a_successful_result() {
    assert!(run(&[INIT, OK], ProcessExit::Exited(0)).verdict.is_success());
    assert!(!run(&[INIT, OK], ProcessExit::Exited(143)).verdict.is_success());
    assert!(!run(&[INIT, OK], ProcessExit::Signaled(9)).verdict.is_success());
    assert!(!run(&[INIT, BAD], ProcessExit::Exited(0)).verdict.is_success());
    assert!(!run(&[INIT], ProcessExit::Exited(0)).verdict.is_success());
}

/// A process that background work keeps alive is ended by a signal, which does not undo the success of its work.
#[test]
fn an_agent_that_we_ended_after_its_success_has_succeeded() {
    let ended = |lines: &[&str], exit| {
        let mut decoder = ClaudeDecoder::new(false);
        for line in lines {
            decoder.line(line);
        }
        let outcome = decoder.finish(ProcessEnd::of(exit, EndedBy::Us));
        outcome.verdict.is_success()
    };
    for exit in [
        ProcessExit::Exited(143),
        ProcessExit::Exited(0),
        ProcessExit::Signaled(9),
    ] {
        assert!(ended(&[INIT, OK], exit), "{exit}");
        assert!(ended(&[INIT, OK, INIT, BAD], exit), "{exit}");
        assert!(!ended(&[INIT, BAD], exit), "{exit}");
        assert!(!ended(&[INIT], exit), "{exit}");
    }
}

/// As claude 2.1.330 prints it for a subscription.
#[test]
fn a_usage_limit_names_its_end() {
    let event = |status: &str| {
        format!(
            r#"{{"type":"rate_limit_event","rate_limit_info":{{"status":"{status}","resetsAt":1795449600,"rateLimitType":"five_hour"}}}}"#
        )
    };
    let limit =
        r#"{"type":"result","is_error":true,"result":"You've hit your limit","api_error_status":429}"#;
    let end = Timestamp::parse("2026-11-23T16:00:00Z").unwrap();
    let until = |lines: &[&str]| {
        let outcome = run(lines, ProcessExit::Exited(1));
        let (reason, _) = failure(&outcome);
        reason.retry_at
    };
    let [rejected, allowed] = ["rejected", "allowed_warning"].map(event);
    assert_eq!(until(&[INIT, &rejected, limit]), Some(end));
    assert_eq!(until(&[INIT, &allowed, limit]), None);
    assert_eq!(until(&[INIT, &rejected, &allowed, limit]), None);
    assert_eq!(until(&[INIT, &rejected, BAD]), None, "another failure");
}

// covers: AGENT-4
#[test]
fn an_error_after_a_real_success_is_ignored() {
    assert!(run(&[INIT, OK, BAD], ProcessExit::Exited(0)).verdict.is_success());
    assert!(run(&[INIT, BAD, OK], ProcessExit::Exited(0)).verdict.is_success());
}

// covers: S5
#[test]
fn a_missing_session_and_a_missing_result_have_reasons_of_their_own() {
    let outcome = run(&[], ProcessExit::Exited(0));
    assert_eq!(
        failure(&outcome).0,
        &FailureReason::unknown(false, "the agent exited with code 0 without reporting a session")
    );
    let outcome = run(&[INIT], ProcessExit::Signaled(9));
    assert_eq!(
        failure(&outcome).0,
        &FailureReason::unknown(
            true,
            "the agent was killed by signal 9 without reporting a result"
        )
    );
    assert_eq!(outcome.exit.code(), 137);
}

#[test]
fn without_a_result_the_words_on_standard_error_count() {
    let mut decoder = ClaudeDecoder::new(false);
    decoder.line(INIT);
    let outcome = decoder.finish(ProcessEnd {
        stderr_tail: "connect ECONNREFUSED\n".into(),
        ..ProcessEnd::of(ProcessExit::Exited(1), EndedBy::Itself)
    });
    let (reason, _) = failure(&outcome);
    assert_eq!((reason.kind, reason.retriable), (FailureKind::ApiError, true));
}

// covers: AGENT-2
#[test]
fn only_the_opening_line_names_the_session() {
    let mut decoder = ClaudeDecoder::new(true);
    let echo = r#"{"type":"result","session_id":"asked-for","is_error":true,"errors":["no conversation"]}"#;
    let events = decoder.line(echo);
    assert!(matches!(&events[..], [AgentEvent::Result(result)] if result.text == "no conversation"));
}

// covers: F11, AGENT-1
#[test]
fn what_is_no_json_object_is_told_with_its_start() {
    let mut decoder = ClaudeDecoder::new(false);
    let deep = "[".repeat(100_000);
    for line in ["plain words", "[1,2]", "12", "{\"type\":", deep.as_str()] {
        let start: String = line.chars().take(UNPARSED_CHARS).collect();
        assert_eq!(decoder.line(line), [AgentEvent::Unparsed { start }]);
    }
    for line in ["", "  ", "{}", r#"{"type":"new_thing"}"#, r#"{"type":7}"#] {
        assert_eq!(decoder.line(line), []);
    }
}

// covers: AGENT-1
#[test]
fn a_known_line_of_an_unknown_shape_is_passed_over() {
    let mut decoder = ClaudeDecoder::new(false);
    for line in [
        r#"{"type":"assistant"}"#,
        r#"{"type":"assistant","message":{"content":"text"}}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text"},{"type":"novel"},7]}}"#,
        r#"{"type":"user","message":{"content":"a plain prompt"}}"#,
        r#"{"type":"system","subtype":"init"}"#,
        r#"{"type":"system","subtype":"init","session_id":""}"#,
    ] {
        assert_eq!(decoder.line(line), [], "{line}");
    }
}

// covers: D10
#[test]
fn numbers_that_cannot_be_counts_or_money_are_left_out() {
    let result = r#"{"type":"result","is_error":false,"model_usage_since_last_result":
            {"claude-sonnet-4-5":{"inputTokens":-5,"outputTokens":"9","cacheReadInputTokens":1000,"costUSD":-2}}}"#;
    let usage = run(&[INIT, result], ProcessExit::Exited(0)).usage;
    assert_eq!((usage.tokens.total(), usage.cost), (1_000, Usd::from_micros(300)));
}

// covers: AGENT-7
#[test]
fn a_resumed_session_never_counts_the_cumulative_numbers() {
    let result = r#"{"type":"result","is_error":false,"total_cost_usd":9.0,
            "modelUsage":{"claude-sonnet-4-5":{"inputTokens":99,"costUSD":9.0}},"usage":{"input_tokens":10}}"#;
    let mut resumed = ClaudeDecoder::new(true);
    resumed.line(INIT);
    resumed.line(result);
    let usage = resumed
        .finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself))
        .usage;
    assert_eq!(usage.cost, Usd::from_micros(30));
    let fresh = run(&[INIT, result], ProcessExit::Exited(0)).usage;
    assert_eq!(fresh.cost, Usd::from_micros(9_000_000));
}

// covers: AGENT-7
#[test]
fn a_sum_without_a_list_of_models_counts() {
    let result = |dollars: f64| {
        format!(
            r#"{{"type":"result","is_error":false,"total_cost_usd":{dollars},"usage":{{"input_tokens":10}}}}"#
        )
    };
    let init = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"somebodys-model"}"#;
    let usage = |mut decoder: ClaudeDecoder, dollars: f64| {
        decoder.line(init);
        decoder.line(&result(dollars));
        decoder
            .finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself))
            .usage
    };
    let fresh = usage(ClaudeDecoder::new(false), 0.5);
    assert_eq!(
        (fresh.cost, fresh.tokens.input_tokens),
        (Usd::from_micros(500_000), 10)
    );
    let carried = Usd::from_micros(400_000);
    let resumed = usage(ClaudeDecoder::new(true).carrying(carried), 0.5);
    assert_eq!(resumed.cost, Usd::from_micros(100_000));
    let unknown = usage(ClaudeDecoder::new(true), 0.5);
    assert_eq!((unknown.cost, unknown.lower_bound), (Usd::ZERO, true));
}

const BEGIN: &str = r#"{"type":"stream_event","parent_tool_use_id":null,"event":{"type":"message_start",
        "message":{"id":"m-1","model":"claude-sonnet-4-5","usage":{"input_tokens":1000,"output_tokens":1}}}}"#;
const BLOCK: &str = r#"{"type":"assistant","parent_tool_use_id":null,"message":{"id":"m-1",
        "model":"claude-sonnet-4-5","stop_reason":null,"content":[],"usage":{"input_tokens":1000,"output_tokens":1}}}"#;
const END: &str = r#"{"type":"stream_event","parent_tool_use_id":null,"event":{"type":"message_delta",
        "delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4000,"cache_creation_input_tokens":10,
        "cache_creation":{"ephemeral_1h_input_tokens":10},"server_tool_use":{"web_search_requests":2}}}}"#;

#[test]
fn a_message_that_is_told_in_pieces_is_known_when_it_has_ended() {
    let mut decoder = ClaudeDecoder::new(false);
    decoder.line(INIT);
    let begun = decoder.line(BEGIN);
    assert!(matches!(&begun[..], [AgentEvent::Usage(begun)] if begun.is_lower_bound));
    assert_eq!(decoder.line(BLOCK), []);
    let [AgentEvent::Usage(end)] = &decoder.line(END)[..] else {
        panic!("the end of the message is told");
    };
    assert_eq!((end.is_new, end.added.tokens.output_tokens), (false, 3_999));
    let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Signaled(9), EndedBy::Itself));
    let usage = outcome.usage;
    assert_eq!(
        (usage.tokens.input_tokens, usage.tokens.output_tokens),
        (1_000, 4_000)
    );
    // 1000 x 3 + 4000 x 15 + 10 x 6 micro-dollars and two searches.
    assert_eq!((usage.cost, usage.lower_bound), (Usd::from_micros(83_060), false));
}

#[test]
fn what_a_sub_agent_wrote_is_read_from_its_transcript_when_it_goes_on() {
    let line = |id: &str| {
        format!(
            r#"{{"type":"assistant","parent_tool_use_id":"t","message":{{"id":"{id}","model":"claude-sonnet-4-5",
                "content":[],"usage":{{"input_tokens":300,"output_tokens":1}}}}}}"#
        )
    };
    let mut decoder = ClaudeDecoder::new(false);
    decoder.line(INIT);
    decoder.line(BEGIN);
    assert_eq!(decoder.records_needed(RecordsScope::SoFar), None);
    decoder.line(&line("h-1"));
    assert!(decoder.records_needed(RecordsScope::SoFar).is_some());
    let mut transcript = Transcript::of_sub_agent(None);
    transcript.line(
        r#"{"type":"assistant","message":{"id":"h-1","model":"claude-sonnet-4-5","stop_reason":"tool_use",
            "usage":{"input_tokens":300,"output_tokens":4000}}}"#,
    );
    let mut events = Vec::new();
    decoder.recall(RecordsScope::SoFar, Some(transcript.take()), &mut events);
    let [AgentEvent::Usage(told)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((told.added.tokens.output_tokens, told.is_new), (3_999, false));
    assert!(told.parent_tool_use_id.is_some() && decoder.records_needed(RecordsScope::SoFar).is_none());
}

/// A sub-agent in the background, whose tool use answers at once.
// covers: HANK-37
#[test]
fn transcripts_are_read_at_a_pace_while_sub_agents_may_work() {
    let answer = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"h-1","model":"claude-sonnet-4-5",
        "content":[],"usage":{"input_tokens":300,"output_tokens":1}}}"#;
    let over =
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}"#;
    let mut decoder = ClaudeDecoder::new(false);
    let mut is_paced = |line: &str| {
        decoder.line(line);
        decoder.records_needed(RecordsScope::Meanwhile).is_some()
    };
    assert_eq!(
        [INIT, BEGIN, over, answer, OK, over].map(&mut is_paced),
        [false, false, false, true, true, false]
    );
}

// covers: AGENT-8
#[test]
fn what_a_killed_process_was_asking_for_is_not_known() {
    let asking = r#"{"type":"system","subtype":"status","status":"requesting"}"#;
    let lower_bound = |lines: &[&str]| run(lines, ProcessExit::Signaled(9)).usage.lower_bound;
    assert!(!lower_bound(&[INIT, asking, BEGIN, END]));
    assert!(lower_bound(&[INIT, asking, BEGIN]));
    assert!(lower_bound(&[INIT, asking, BEGIN, END, asking]));
    let result = |reason: &str| {
        format!(r#"{{"type":"result","is_error":true,"terminal_reason":"{reason}","total_cost_usd":0.1}}"#)
    };
    assert!(lower_bound(&[INIT, asking, &result("aborted_streaming")]));
    assert!(!lower_bound(&[
        INIT,
        asking,
        BEGIN,
        END,
        &result("aborted_tools")
    ]));
    assert!(lower_bound(&[INIT, asking, &result("api_error")]));
    assert!(!lower_bound(&[INIT, asking, &result("blocking_limit")]));
    let refused = result("api_error").replace("is_error", r#"api_error_status":500,"is_error"#);
    assert!(!lower_bound(&[INIT, asking, &refused]));
    // A program that prints no chunks never reports the output of a message.
    assert!(lower_bound(&[INIT, BLOCK]));
    let ended = BLOCK.replace(r#""stop_reason":null"#, r#""stop_reason":"end_turn""#);
    assert!(!lower_bound(&[INIT, &ended]));
}

// covers: AGENT-7, AGENT-8
#[test]
fn another_program_that_is_ended_before_its_result_costs_at_least_what_its_messages_tell() {
    let another = || {
        ClaudeDecoder::new(false)
            .of_another_program()
            .with_model("claude-sonnet-4-5")
    };
    let bare =
        r#"{"type":"assistant","message":{"content":[],"usage":{"input_tokens":1000,"output_tokens":1}}}"#;
    let named = BLOCK.replace(r#""stop_reason":null"#, r#""stop_reason":"end_turn""#);
    let asking = r#"{"type":"system","subtype":"status","status":"requesting"}"#;
    let end = |lines: &[&str], exit, ended_by| {
        let mut decoder = another();
        let told = lines.iter().flat_map(|line| decoder.line(line));
        let counted = told.filter(|event| matches!(event, AgentEvent::Usage(_))).count();
        let usage = decoder.finish(ProcessEnd::of(exit, ended_by)).usage;
        (counted, usage.cost.as_nanos() / 1_000, usage.lower_bound)
    };
    let stopped = |lines: &[&str]| end(lines, ProcessExit::Signaled(15), EndedBy::Us);
    assert_eq!(stopped(&[]), (0, 0, true));
    assert_eq!(stopped(&[INIT]), (0, 0, true));
    assert_eq!(stopped(&[bare]), (1, 3_015, true));
    assert_eq!(stopped(&[INIT, bare, bare]), (2, 6_030, true));
    assert_eq!(stopped(&[INIT, &named]), (1, 3_015, true));
    assert_eq!(
        stopped(&[INIT, asking, BEGIN, END]),
        (2, 83_060, false),
        "it tells its requests"
    );
    let told = OK.replace('{', r#"{"total_cost_usd":0.5,"#);
    assert_eq!(stopped(&[INIT, bare, &told]), (1, 500_000, false));
    let by_itself = |lines: &[&str]| end(lines, ProcessExit::Exited(127), EndedBy::Itself);
    assert_eq!(by_itself(&[]), (0, 0, false));
    assert_eq!(by_itself(&[bare]), (1, 3_015, true));
    assert!(
        AgentDecoder::usage(&another()).lower_bound,
        "nobody heard its end"
    );
}

/// As claude 2.1.329 and 2.1.330 print it when a connection breaks off in the middle of an answer.
// covers: AGENT-8
#[test]
fn an_answer_that_was_asked_for_again_may_have_cost_twice() {
    let asking = r#"{"type":"system","subtype":"status","status":"requesting"}"#;
    let retry = |status: &str| {
        format!(
            r#"{{"type":"system","subtype":"api_retry","attempt":1,"error_status":{status},"error":"unknown"}}"#
        )
    };
    let whole = BLOCK.replace(r#""stop_reason":null"#, r#""stop_reason":"end_turn""#);
    let lower_bound = |lines: &[&str]| run(lines, ProcessExit::Exited(0)).usage.lower_bound;
    assert!(lower_bound(&[INIT, asking, &retry("null"), BEGIN, END, OK]));
    assert!(!lower_bound(&[INIT, asking, &retry("529"), BEGIN, END, OK]));
    assert!(lower_bound(&[INIT, asking, &whole, OK]));
    assert!(!lower_bound(&[INIT, asking, BEGIN, &whole, END, OK]));
}

// covers: AGENT-5
#[test]
fn a_long_tool_answer_is_cut_between_characters() {
    let mut decoder = ClaudeDecoder::new(false);
    let line = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":"{}"}}]}}}}"#,
        "ü".repeat(2_501)
    );
    let events = decoder.line(&line);
    let [AgentEvent::ToolResult(result)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        (
            result.truncated,
            result.original_length,
            result.text.chars().count()
        ),
        (true, 2_501, 2_503)
    );
}

#[test]
fn a_compacted_conversation_is_told() {
    let line = r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{}}"#;
    assert_eq!(ClaudeDecoder::new(false).line(line), [AgentEvent::Compacted]);
}

/// A result whose model has used 1,000 tokens in and 1,000 out, and money of this basis.
fn priced_result(model: &str, basis: &str) -> String {
    let usage = format!(r#"{{"{model}":{{"inputTokens":1000,"outputTokens":1000,"costUSD":0.03{basis}}}}}"#);
    format!(
        r#"{{"type":"result","subtype":"success","result":"done","is_error":false,"total_cost_usd":0.03,
            "usage":{{"input_tokens":1000,"output_tokens":1000}},"modelUsage":{usage},"model_usage_since_last_result":{usage}}}"#
    )
}

fn cost_of(model: &str, basis: &str, prices: &Arc<Prices>) -> (Usd, bool) {
    let mut decoder = ClaudeDecoder::new(false).priced_by(prices.clone());
    decoder.line(&INIT.replace("claude-sonnet-4-5", model));
    decoder.line(&priced_result(model, basis));
    let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself));
    (outcome.usage.cost, outcome.usage.lower_bound)
}

// covers: AGENT-46
#[test]
fn only_a_price_of_claudes_list_is_known_and_that_of_a_user_comes_first() {
    const LIST: &str = r#","costBasis":"list""#;
    const GUESSED: &str = r#","costBasis":"unknown""#;
    let listed = Prices::listed();
    let told = Usd::from_micros(30_000);
    // A newer model than those of our list, and a version of claude that does not report the source of its price.
    assert_eq!(cost_of("claude-next-9", LIST, &listed), (told, false));
    assert_eq!(cost_of("claude-next-9", "", &listed), (told, false));
    assert_eq!(cost_of("house-model", GUESSED, &listed), (Usd::ZERO, true));
    // $3 in and $15 out a million.
    let sonnet = (Usd::from_micros(18_000), false);
    assert_eq!(cost_of("claude-sonnet-4-5", GUESSED, &listed), sonnet);
    let (_, price) = listed.find("claude-sonnet-4-5").unwrap();
    let models = ["house-model", "claude-opus-5"].map(|model| (model.to_owned(), price.rate));
    let own = Arc::new(Prices::default().with(models, "mine.json"));
    for basis in [LIST, GUESSED, ""] {
        for model in ["house-model", "claude-opus-5"] {
            assert_eq!(cost_of(model, basis, &own), sonnet, "{model} {basis}");
        }
    }
}

// covers: AGENT-46
#[test]
fn a_gateway_that_answers_under_another_name_has_the_price_of_the_model_that_was_asked_for() {
    let (_, price) = Prices::default()
        .find("claude-sonnet-4-5")
        .map(|(name, price)| (name.to_owned(), price.clone()))
        .unwrap();
    let own = Arc::new(Prices::default().with([("house-model".to_owned(), price.rate)], "mine.json"));
    let mut decoder = ClaudeDecoder::new(false).priced_by(own);
    decoder.line(&INIT.replace("claude-sonnet-4-5", "house-model"));
    let said = r#"{"type":"assistant","message":{"id":"m","model":"upstream-7","stop_reason":"end_turn","content":[],
        "usage":{"input_tokens":1000,"output_tokens":1000}}}"#;
    let usage = |events: &[AgentEvent]| match events {
        [AgentEvent::Usage(usage)] => (usage.usage.cost, usage.is_unpriced),
        _ => panic!("{events:?}"),
    };
    assert_eq!(usage(&decoder.line(said)), (Usd::from_micros(18_000), false));
    let mut without = ClaudeDecoder::new(false);
    without.line(&INIT.replace("claude-sonnet-4-5", "house-model"));
    assert_eq!(usage(&without.line(said)), (Usd::ZERO, true));
    // Another program may report the money of its models in its result.
    let mut other = ClaudeDecoder::new(false).of_another_program();
    assert_eq!(usage(&other.line(said)), (Usd::ZERO, false));
    // An alias that the program names counts as the newest model of its family, so that a limit in dollars holds.
    let mut other = ClaudeDecoder::new(false).of_another_program();
    let (cost, is_unpriced) = usage(&other.line(&said.replace("upstream-7", "haiku")));
    assert!(cost > Usd::ZERO && !is_unpriced, "{cost:?}");
    // Claude knows what its own models cost, also the newest.
    let mut newest = ClaudeDecoder::new(false);
    newest.line(INIT);
    let events = newest.line(&said.replace("upstream-7", "claude-next-9"));
    assert_eq!(usage(&events), (Usd::ZERO, false));
}

/// A sub-agent that has ended one answer and asked again, and the result of a budget that was reached meanwhile.
fn ended_by_its_budget() -> ClaudeDecoder {
    let mut decoder = ClaudeDecoder::new(false);
    decoder.line(INIT);
    decoder.line(
        r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"h-1","model":"claude-sonnet-4-5",
            "content":[{"type":"tool_use","id":"c-1","name":"Bash","input":{}}],"usage":{"input_tokens":300,"output_tokens":1}}}"#,
    );
    decoder.line(
        r#"{"type":"result","subtype":"error_max_budget_usd","is_error":true,"terminal_reason":"budget_exhausted","total_cost_usd":0.0159,
            "model_usage_since_last_result":{"claude-sonnet-4-5":{"inputTokens":300,"outputTokens":1000,"costUSD":0.0159,"costBasis":"list"}}}"#,
    );
    decoder
}

/// Records in the transcripts of a sub-agent with these lines after its first answer.
fn helper_transcript(more: &[&str]) -> AgentRecords {
    let mut transcript = Transcript::of_sub_agent(None);
    transcript.line(r#"{"type":"api-request","id":"r-1"}"#);
    transcript.line(
        r#"{"type":"assistant","requestRef":"r-1","message":{"id":"h-1","model":"claude-sonnet-4-5","stop_reason":"tool_use",
            "usage":{"input_tokens":300,"output_tokens":1000}}}"#,
    );
    more.iter().for_each(|line| transcript.line(line));
    transcript.take()
}

// covers: AGENT-8
#[test]
fn what_a_result_leaves_out_of_sub_agents_is_in_their_transcripts() {
    const REQUEST: &str = r#"{"type":"api-request","id":"r-2"}"#;
    const BEGUN: &str = r#"{"type":"assistant","requestRef":"r-2","message":{"id":"h-2","model":"claude-sonnet-4-5","stop_reason":null,
        "usage":{"input_tokens":300,"output_tokens":1}}}"#;
    let ended = BEGUN
        .replace("null", "\"tool_use\"")
        .replace(r#""output_tokens":1"#, r#""output_tokens":1000"#);
    let used = |more: &[&str]| {
        let mut decoder = ended_by_its_budget();
        assert!(decoder.records_needed(RecordsScope::Whole).is_some());
        decoder.recall(
            RecordsScope::Whole,
            Some(helper_transcript(more)),
            &mut Vec::new(),
        );
        assert!(decoder.records_needed(RecordsScope::Whole).is_none());
        let usage = decoder
            .finish(ProcessEnd::of(ProcessExit::Exited(1), EndedBy::Itself))
            .usage;
        (usage.cost.as_nanos() / 1_000, usage.lower_bound)
    };
    assert_eq!(used(&[]), (15_900, false), "nothing is left out");
    assert_eq!(used(&[REQUEST]), (15_900, true), "its answer had not begun");
    assert_eq!(used(&[REQUEST, BEGUN]), (16_815, true), "as far as it is known");
    assert_eq!(
        used(&[REQUEST, BEGUN, &ended]),
        (31_800, true),
        "no result states it"
    );
    // A request that was made again is no evidence.
    assert_eq!(
        used(&[
            REQUEST,
            &REQUEST.replace("r-2", "r-3"),
            &ended.replace("r-2", "r-3")
        ]),
        (31_800, true)
    );
    let mut covered = ended_by_its_budget();
    let mut transcript = Transcript::new(None);
    transcript.line(r#"{"type":"api-request","id":"r-0"}"#);
    transcript.line(r#"{"type":"api-request","id":"r-1"}"#);
    transcript.line(
        r#"{"type":"assistant","requestRef":"r-1","message":{"id":"h-1","model":"claude-sonnet-4-5","stop_reason":"tool_use",
            "usage":{"input_tokens":300,"output_tokens":1000}}}"#,
    );
    covered.recall(RecordsScope::Whole, Some(transcript.take()), &mut Vec::new());
    assert!(
        !AgentDecoder::usage(&covered).lower_bound,
        "the request before was made again"
    );
}

// covers: AGENT-8
#[test]
fn a_sub_agent_that_was_asking_at_the_end_may_have_cost_more() {
    let answered = r#"{"type":"user","parent_tool_use_id":"t","message":{"content":[{"type":"tool_result","tool_use_id":"c-1","content":"x"}]}}"#;
    let over =
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}"#;
    let lower_bound = |lines: &[&str]| {
        let mut decoder = ended_by_its_budget();
        for line in lines {
            decoder.line(line);
        }
        decoder.recall(RecordsScope::Whole, Some(helper_transcript(&[])), &mut Vec::new());
        AgentDecoder::usage(&decoder).lower_bound
    };
    assert!(!lower_bound(&[]), "its tool has not answered");
    assert!(lower_bound(&[answered]));
    assert!(!lower_bound(&[answered, over]));
}

fn background(decoder: &mut ClaudeDecoder, line: &str) -> Vec<(String, bool)> {
    let works = decoder.line(line).into_iter().filter_map(|event| match event {
        AgentEvent::Background(works) => Some(works),
        _ => None,
    });
    let works = works.flatten();
    works.map(|work| (work.title, work.is_command)).collect()
}

// covers: AGENT-50
#[test]
fn what_is_in_the_background_is_told_whole_and_empty_at_its_end() {
    let mut decoder = ClaudeDecoder::new(false);
    let two = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b1","task_type":"local_bash","description":"Run\n the tests"},
        {"task_id":"a1","task_type":"local_agent","description":""},{"task_id":7},5]}"#.replace('\n', "");
    let told = background(&mut decoder, &two);
    assert_eq!(
        told,
        [("Run the tests".to_owned(), true), ("a1".to_owned(), false)]
    );
    let none = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#;
    assert_eq!(decoder.line(none), [AgentEvent::Background(Vec::new())]);
    // Other tools answer programs with texts and lists.
    for result in [r#""text""#, "[1]", r#"{"stdout":""}"#] {
        let line = format!(r#"{{"type":"user","message":{{"content":[]}},"tool_use_result":{result}}}"#);
        assert_eq!(decoder.line(&line), []);
    }
}

// covers: AGENT-50
#[test]
fn a_wake_up_is_open_until_it_comes() {
    let mut decoder = ClaudeDecoder::new(false);
    let asked = r#"{"type":"user","message":{"content":[]},"tool_use_result":{"scheduledFor":1795750380000,"wasClamped":false}}"#;
    assert_eq!(
        background(&mut decoder, asked),
        [("a wake-up of its own".to_owned(), false)]
    );
    assert_eq!(decoder.line(asked), [], "it is known");
    let tasks = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b1","description":"Build"}]}"#;
    assert_eq!(background(&mut decoder, tasks).len(), 2);
    let comes = r#"{"type":"command_lifecycle","state":"started","wakeup_source":"loop_wakeup"}"#;
    assert_eq!(background(&mut decoder, comes), [("Build".to_owned(), false)]);
    assert_eq!(
        decoder.line(r#"{"type":"command_lifecycle","state":"completed"}"#),
        []
    );
}

// covers: AGENT-4, AGENT-50
#[test]
fn an_error_after_the_wait_decides_and_one_after_the_work_does_not() {
    const OPEN: &str = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b1","description":"Test"}]}"#;
    const ENDED: &str = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#;
    let succeeds = |lines: &[&str]| run(lines, ProcessExit::Exited(0)).verdict.is_success();
    assert!(!succeeds(&[INIT, OPEN, OK, ENDED, INIT, BAD]));
    assert!(succeeds(&[INIT, OPEN, OK, ENDED, INIT, OK, INIT, BAD]));
    assert!(succeeds(&[INIT, OPEN, OK, ENDED]));
}

// covers: AGENT-70
#[test]
fn an_answer_in_a_form_is_told_apart_from_its_words() {
    let structured = |line: &str| {
        let events = ClaudeDecoder::new(false).line(line);
        let result = events.into_iter().find_map(|event| match event {
            AgentEvent::Result(result) => Some(result),
            _ => None,
        });
        result.unwrap().structured
    };
    let line = |more: &str| {
        format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"done"{more}}}"#
        )
    };
    assert_eq!(
        structured(&line(r#","structured_output":{"files":["a"]}"#)),
        Some(serde_json::json!({"files": ["a"]}))
    );
    assert_eq!(structured(&line("")), None);
    assert_eq!(structured(&line(r#","structured_output":null"#)), None);
}
