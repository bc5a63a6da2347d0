//! Rules for streams without a recording so far: recordings that are changed as the next versions of the programs may change them.

use hankweave_agents::{
    AgentDecoder, AgentLine, ClaudeDecoder, CodexDecoder, GeminiDecoder, OpencodeDecoder, PiDecoder,
    ProcessEnd,
};
use hankweave_core::agent::{AgentEvent, EndedBy, ExitOutcome, ProcessExit};
use hankweave_core::cost::Usd;
use serde_json::{Value, json};

/// A recording of an agent.
struct Recording {
    agent: String,
    name: String,
    lines: Vec<String>,
}

fn recordings() -> Vec<Recording> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agent-streams");
    let mut found = Vec::new();
    for agent in ["claude", "codex", "gemini", "opencode", "pi", "pi-0.87"] {
        for entry in std::fs::read_dir(format!("{folder}/{agent}")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // One is no stream, the others are what codex writes down itself.
            let is_stream = name.ends_with(".jsonl") && !name.ends_with(".rollout.jsonl");
            if is_stream && name != "json-format.jsonl" {
                let text = std::fs::read_to_string(path).unwrap();
                let lines = text.lines().filter(|line| !line.is_empty());
                let lines: Vec<String> = lines.map(str::to_owned).collect();
                // Some end without a word.
                if !lines.is_empty() {
                    let agent = agent.to_owned();
                    found.push(Recording { agent, name, lines });
                }
            }
        }
    }
    assert!(found.len() > 50);
    found
}

fn decoder(agent: &str) -> Box<dyn AgentDecoder> {
    match agent {
        "claude" => Box::new(ClaudeDecoder::new(false)),
        "codex" => Box::new(CodexDecoder::new(false).unrecorded()),
        "gemini" => Box::new(GeminiDecoder::default()),
        "opencode" => Box::new(OpencodeDecoder::new("anthropic/claude-sonnet-4-5")),
        _ => Box::new(PiDecoder::default()),
    }
}

/// All events, and the end of a process that exits with 0.
fn play<'l>(agent: &str, lines: impl IntoIterator<Item = AgentLine<'l>>) -> (Vec<AgentEvent>, ExitOutcome) {
    let mut decoder = decoder(agent);
    let mut events = Vec::new();
    for line in lines {
        decoder.decode(line, &mut events);
    }
    let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself));
    (events, outcome)
}

fn heard(agent: &str, lines: &[String]) -> (Vec<AgentEvent>, ExitOutcome) {
    play(agent, lines.iter().map(|line| AgentLine::Text(line)))
}

/// Adds a key to every object, and sorts the keys.
fn grown(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| match key.as_str() {
                // The names of models are the keys of these, and arguments of tools are reported unchanged.
                "models"
                | "modelUsage"
                | "model_usage_since_last_result"
                | "input"
                | "parameters"
                | "arguments"
                | "by_type" => (key, value),
                _ => (key, grown(value)),
            });
            let mut fields: serde_json::Map<String, Value> = fields.collect();
            fields.insert("a_key_of_tomorrow".to_owned(), json!({"type": "result", "id": 1}));
            Value::Object(fields)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(grown).collect()),
        other => other,
    }
}

// covers: AGENT-33
#[test]
fn new_keys_new_types_blank_lines_and_other_line_breaks_change_nothing() {
    for Recording { agent, name, lines } in recordings() {
        let plain = heard(&agent, &lines);
        let mut changed = vec![r#"{"type":"of_tomorrow","data":[1]}"#.to_owned(), String::new()];
        for line in &lines {
            // Opencode names its session with any line.
            let strange = json!({"type": ["no", "text"], "subtype": 7, "message": "none", "part": null, "usage": "much", "item": [], "stats": 1});
            changed.push(format!("{}\r", grown(serde_json::from_str(line).unwrap())));
            changed.push(strange.to_string());
        }
        let (events, outcome) = heard(&agent, &changed);
        assert_eq!(events, plain.0, "{agent}/{name}");
        assert_eq!(outcome, plain.1, "{agent}/{name}");
    }
}

// covers: AGENT-33
#[test]
fn a_line_that_is_too_long_is_told_and_passed_over() {
    for Recording { agent, name, lines } in recordings() {
        let plain = heard(&agent, &lines);
        let huge = AgentLine::TooLong {
            bytes: 1 << 30,
            sha256: "0",
        };
        let with_it = std::iter::once(huge).chain(lines.iter().map(|line| AgentLine::Text(line)));
        let (events, outcome) = play(&agent, with_it);
        assert!(matches!(events[0], AgentEvent::OutputTruncated { .. }));
        assert_eq!(events[1..], plain.0, "{agent}/{name}");
        assert_eq!(outcome, plain.1, "{agent}/{name}");
    }
}

/// The line that ends a run was not written whole. The facts that only this line reports stay unknown, and nothing is made up.
// covers: AGENT-33
#[test]
fn a_last_line_that_is_cut_off_says_nothing() {
    for Recording {
        agent,
        name,
        mut lines,
    } in recordings()
    {
        let whole = heard(&agent, &lines).1;
        let last = lines.pop().unwrap();
        let without = heard(&agent, &lines);
        let half = last.char_indices().nth(last.chars().count() / 2).unwrap().0;
        lines.push(last[..half].to_owned());
        let (events, outcome) = heard(&agent, &lines);
        assert_eq!(outcome, without.1, "{agent}/{name}");
        assert!(
            matches!(events.last(), Some(AgentEvent::Unparsed { .. })),
            "{agent}/{name}"
        );
        let (least, used) = (outcome.usage.tokens, whole.usage.tokens);
        assert_eq!(
            least.at_least(used),
            used,
            "{agent}/{name}: no more than was used"
        );
        let tells_less = least != used && outcome.result_received;
        assert!(
            !tells_less || outcome.usage.lower_bound,
            "{agent}/{name}: {outcome:?}"
        );
    }
}

/// Returns whether a line reports the usage of one message, which may be reported twice.
fn is_of_a_message(agent: &str, line: &str) -> bool {
    let value: Value = serde_json::from_str(line).unwrap();
    let wanted: &[&str] = match agent {
        "claude" => &["assistant"],
        "codex" => &["turn.completed"],
        "gemini" => &["result"],
        "opencode" => &["step_finish"],
        _ => &["message_end"],
    };
    value["type"].as_str().is_some_and(|kind| wanted.contains(&kind))
}

// covers: AGENT-31
#[test]
fn what_is_said_twice_counts_once() {
    for Recording { agent, name, lines } in recordings() {
        let twice = |line: &String| vec![line.clone(); 1 + usize::from(is_of_a_message(&agent, line))];
        let doubled: Vec<String> = lines.iter().flat_map(twice).collect();
        let (once, twice) = (heard(&agent, &lines).1, heard(&agent, &doubled).1);
        assert_eq!(twice.usage.tokens, once.usage.tokens, "{agent}/{name}");
        assert_eq!(twice.usage.cost, once.usage.cost, "{agent}/{name}");
    }
}

/// A cache that lives an hour costs more to fill, with every agent; other tiers and places of service have no price of their own.
// covers: AGENT-34
#[test]
fn an_hour_in_the_cache_has_its_price() {
    let pi = [
        json!({"type": "session", "id": "s"}),
        json!({"type": "message_end", "message": {"role": "assistant", "model": "claude-sonnet-4-5", "stopReason": "stop", "responseId": "r",
            "content": [], "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 1000, "cacheWrite1h": 400}}}),
        json!({"type": "agent_end"}),
    ];
    let usage = json!({"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 1000, "service_tier": "batch", "inference_geo": "us",
        "cache_creation": {"ephemeral_5m_input_tokens": 600, "ephemeral_1h_input_tokens": 400}});
    let claude = [
        json!({"type": "system", "subtype": "init", "session_id": "s", "model": "claude-sonnet-4-5"}),
        json!({"type": "result", "is_error": false, "result": "", "usage": usage}),
    ];
    // 600 tokens at $3.75 a million and 400 at $6.
    for (agent, lines) in [("pi", &pi[..]), ("claude", &claude[..])] {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let (_, outcome) = heard(agent, &lines);
        assert_eq!(outcome.usage.cost, Usd::from_micros(4_650), "{agent}");
        assert_eq!(outcome.usage.tokens.cache_creation_tokens, 1_000, "{agent}");
        assert!(
            outcome.verdict.is_success() && !outcome.usage.lower_bound,
            "{agent}"
        );
    }
}
