//! Sentinels, one bad setting after another (HANK-51 to HANK-55).

use super::{fresh, hank, problems};

/// A hank whose codon has one sentinel; `trigger`, `execution` and what follows are its own.
fn with(trigger: &str, execution: &str, more: &str) -> String {
    let sentinel = format!(
        r#""id": "s", "name": "S", "model": "a/b", "userPromptText": "x", "trigger": {trigger}, "execution": {execution}{more}"#
    );
    hank(&[fresh(
        "a",
        &format!(r#""sentinels": [{{"sentinelConfig": {{{sentinel}}}}}]"#),
    )])
}

const EVENT: &str = r#"{"type": "event", "on": ["*"]}"#;
const IMMEDIATE: &str = r#"{"strategy": "immediate"}"#;

/// Path inside the sentinel and message of every problem.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let found: Vec<String> = problems(text)
        .iter()
        .map(|line| match line.split_once("sentinelConfig") {
            Some((_, rest)) => rest.trim_start_matches('.').replace(" (codon \"a\")", ""),
            None => line.clone(),
        })
        .collect();
    assert_eq!(found, expected, "in {text}");
}

#[track_caller]
fn trigger(trigger: &str, expected: &[&str]) {
    check(&with(trigger, IMMEDIATE, ""), expected);
}

#[track_caller]
fn condition(condition: &str, expected: &[&str]) {
    let event = format!(r#"{{"type": "event", "on": ["*"], "conditions": [{condition}]}}"#);
    trigger(&event, expected);
}

#[track_caller]
fn execution(execution: &str, expected: &[&str]) {
    check(&with(EVENT, execution, ""), expected);
}

#[track_caller]
fn more(more: &str, expected: &[&str]) {
    check(&with(EVENT, IMMEDIATE, &format!(", {more}")), expected);
}

#[test]
fn a_trigger_is_an_event_or_a_sequence() {
    trigger(EVENT, &[]);
    trigger(
        "{}",
        &["trigger: must be an object whose `type` is one of event, sequence"],
    );
    trigger(
        r#"{"type": "event", "on": []}"#,
        &["trigger.on: must not be empty"],
    );
    trigger(r#"{"type": "event"}"#, &["trigger.on: is missing"]);
    trigger(
        r#"{"type": "sequence", "interestFilter": {"on": ["*"]}, "pattern": [{"type": "codon.started"}], "options": {"consecutive": false}}"#,
        &[],
    );
    trigger(
        r#"{"type": "sequence", "interestFilter": {"on": []}, "pattern": [], "options": {"consecutive": 1}}"#,
        &[
            "trigger.interestFilter.on: must not be empty",
            "trigger.pattern: must not be empty",
            "trigger.options.consecutive: must be true or false, not a number",
        ],
    );
}

#[test]
fn a_condition_compares_with_what_its_operator_can_compare() {
    for good in [
        r#"{"operator": "equals", "path": "a.b", "value": null}"#,
        r#"{"operator": "notEquals", "path": "a", "value": true}"#,
        r#"{"operator": "in", "path": "a", "value": ["x", 1]}"#,
        r#"{"operator": "contains", "path": "a", "value": "x"}"#,
        r#"{"operator": "matches", "path": "a", "value": "^x"}"#,
        r#"{"operator": "lessThan", "path": "a", "value": -0.5}"#,
    ] {
        condition(good, &[]);
    }
    condition(
        r#"{"operator": "like", "path": "", "value": 1}"#,
        &[
            "trigger.conditions[0].operator: must be one of equals, notEquals, in, notIn, contains, matches, greaterThan, lessThan, not `like`",
            "trigger.conditions[0].path: must not be empty",
        ],
    );
    condition(
        r#"{"operator": "notIn", "path": "a", "value": []}"#,
        &["trigger.conditions[0].value: must not be empty"],
    );
    condition(
        r#"{"operator": "equals", "path": "a", "value": [1]}"#,
        &["trigger.conditions[0].value: must be a string, a number, true, false or null"],
    );
    condition(
        r#"{"operator": "greaterThan", "path": "a", "value": "1"}"#,
        &["trigger.conditions[0].value: must be a number, not a string"],
    );
}

// covers: HANK-54
#[test]
fn a_regular_expression_that_cannot_be_read_is_refused_where_it_stands() {
    let matches = |regex: &str| {
        let value = serde_json::Value::from(regex);
        format!(r#"{{"operator": "matches", "path": "a", "value": {value}}}"#)
    };
    for good in [r"^\d+/(?<name>[^\]]*)$", r"\/\p{Greek}", "(?i)a|b", r"\\1", ""] {
        condition(&matches(good), &[]);
    }
    for (bad, reason) in [
        ("a(b", "unclosed group, at its character 2"),
        (
            "[z-a]",
            "invalid character class range, the start must be <= the end, at its character 2",
        ),
        ("x{2", "unclosed counted repetition, at its character 2"),
        (
            "ab(?!c)",
            "look-around, including look-ahead and look-behind, is not supported, at its character 3",
        ),
        (r"(a)\1", "backreferences are not supported, at its character 4"),
        (r"\p{Greeks}", "Unicode property not found, at its character 1"),
    ] {
        let message = format!("trigger.conditions[0].value: is no regular expression: {reason}");
        condition(&matches(bad), &[&message]);
    }
    condition(
        r#"{"operator": "matches", "path": "a", "value": 1}"#,
        &["trigger.conditions[0].value: must be a string, not a number"],
    );
}

/// A name that no event has would never trigger anything.
// covers: HANK-52
#[test]
fn a_trigger_names_events_that_there_are() {
    trigger(
        r#"{"type": "event", "on": ["codon.started", "file.updated", "*"]}"#,
        &[],
    );
    trigger(
        r#"{"type": "event", "on": ["codon.complete", "tool.result"]}"#,
        &["trigger.on[0]: there is no event `codon.complete`"],
    );
    trigger(
        r#"{"type": "sequence", "interestFilter": {"on": ["codon.stared"]}, "pattern": [{"type": "Codon.Started"}, {"type": "*"}]}"#,
        &[
            "trigger.interestFilter.on[0]: there is no event `codon.stared`",
            "trigger.pattern[0].type: there is no event `Codon.Started`",
        ],
    );
    let text = with(r#"{"type": "event", "on": ["codon.complete"]}"#, IMMEDIATE, "");
    let parsed = hankweave_core::hank::parse(&text);
    let hint = parsed.problems.iter().next().unwrap().hint.clone();
    assert_eq!(hint.as_deref(), Some("did you mean `codon.completed`?"));
}

/// Sentinel events are never fed back, and connection events go to one client.
// covers: HANK-52
#[test]
fn a_trigger_on_events_that_no_sentinel_sees_is_a_warning() {
    let on = r#"{"type": "event", "on": ["sentinel.output", "pong"]}"#;
    trigger(
        on,
        &[
            "trigger.on[0]: comes from sentinels and is never given to them",
            "trigger.on[1]: goes to one client alone; no sentinel sees it",
        ],
    );
    let parsed = hankweave_core::hank::parse(&with(on, IMMEDIATE, ""));
    assert!(!parsed.problems.has_errors());
}

/// Sentinels watch while the agent works, and a sequence is looked for among the events of interest alone.
// covers: HANK-52
#[test]
fn a_trigger_that_can_never_be_met_is_a_warning() {
    trigger(
        r#"{"type": "event", "on": ["codon.completed", "rig.setup.failed", "rollback.started", "server.idle", "codon.started"]}"#,
        &[
            "trigger.on[1]: comes before the sentinels of its codon begin to watch; none sees it",
            "trigger.on[2]: comes while no codon runs; no sentinel sees it",
            "trigger.on[3]: comes while no codon runs; no sentinel sees it",
        ],
    );
    let sequence = |interest: &str| {
        format!(
            r#"{{"type": "sequence", "interestFilter": {{"on": ["{interest}"]}}, "pattern": [{{"type": "file.updated"}}, {{"type": "*"}}]}}"#
        )
    };
    trigger(&sequence("file.updated"), &[]);
    trigger(&sequence("*"), &[]);
    let never = sequence("tool.result");
    trigger(
        &never,
        &["trigger.pattern[0].type: is not in `interestFilter.on`, so the sequence is never found"],
    );
    assert!(
        !hankweave_core::hank::parse(&with(&never, IMMEDIATE, ""))
            .problems
            .has_errors()
    );
}

/// A path that no listed event type can have is an error; `*` can have any, and `content` is legal on file.updated.
// covers: HANK-53
#[test]
fn a_condition_looks_where_an_event_can_have_something() {
    let on = |events: &str, path: &str| {
        format!(
            r#"{{"type": "event", "on": {events}, "conditions": [{{"operator": "equals", "path": "{path}", "value": 1}}]}}"#
        )
    };
    for (events, path) in [
        (r#"["codon.started"]"#, "promptMetadata.version"),
        (r#"["info", "tool.result"]"#, "isError"),
        (r#"["assistant.action"]"#, "toolInput.file_path"),
        (r#"["file.updated"]"#, "content"),
        (r#"["info", "*"]"#, "anything.at.all"),
    ] {
        trigger(&on(events, path), &[]);
    }
    trigger(
        &on(r#"["info", "tool.result"]"#, "isEror"),
        &["trigger.conditions[0].path: `isEror` is not in the data of info or tool.result"],
    );
    trigger(
        &on(r#"["token.usage"]"#, "totalCost.usd"),
        &["trigger.conditions[0].path: `totalCost.usd` is not in the data of token.usage"],
    );
    // A mistake in the name of the event is reported once.
    trigger(
        &on(r#"["tool.results"]"#, "isEror"),
        &["trigger.on[0]: there is no event `tool.results`"],
    );
    let step = r#"{"type": "info", "conditions": [{"operator": "equals", "path": "text", "value": 1}]}"#;
    trigger(
        &format!(r#"{{"type": "sequence", "interestFilter": {{"on": ["*"]}}, "pattern": [{step}]}}"#),
        &["trigger.pattern[0].conditions[0].path: `text` is not in the data of info"],
    );
}

// covers: HANK-51
#[test]
fn an_execution_has_its_own_number_within_limits() {
    for good in [
        r#"{"strategy": "debounce", "milliseconds": 300000}"#,
        r#"{"strategy": "count", "threshold": 1}"#,
        r#"{"strategy": "timeWindow", "milliseconds": 3600000}"#,
    ] {
        execution(good, &[]);
    }
    execution(
        "{}",
        &["execution: must be an object whose `strategy` is one of immediate, debounce, count, timeWindow"],
    );
    execution(
        r#"{"strategy": "debounce", "milliseconds": 300001}"#,
        &["execution.milliseconds: must be a whole number from 1 to 300000, not `300001`"],
    );
    execution(
        r#"{"strategy": "count", "milliseconds": 5}"#,
        &[
            "execution.threshold: is missing",
            "execution.milliseconds: `milliseconds` is not a key of a count execution",
        ],
    );
}

#[test]
fn a_conversation_needs_a_system_prompt_and_a_limit() {
    let conversation = r#""conversational": {"trimmingStrategy": {"type": "maxTurns", "maxTurns": 100}}"#;
    more(&format!(r#""systemPromptText": "s", {conversation}"#), &[]);
    more(conversation, &["conversational: needs a system prompt"]);
    more(
        r#""systemPromptText": "s", "conversational": {"trimmingStrategy": {"type": "maxTokens", "maxTokens": 100001}}"#,
        &["conversational.trimmingStrategy.maxTokens: must be a whole number from 1 to 100000, not `100001`"],
    );
}

#[test]
fn a_structured_output_has_one_schema_or_its_words() {
    more(
        r#""structuredOutput": {"output": "object", "schemaStr": "{}"}"#,
        &[],
    );
    more(
        r#""structuredOutput": {"output": "enum", "enumValues": ["a"]}"#,
        &[],
    );
    more(
        r#""structuredOutput": {"output": "array"}"#,
        &["structuredOutput.schemaStr: is missing"],
    );
    more(
        r#""structuredOutput": {"output": "object", "schemaStr": "{}", "schemaFile": "s.json", "enumValues": ["a"]}"#,
        &[
            "structuredOutput.schemaFile: must not stand beside `schemaStr`",
            "structuredOutput.enumValues: has no meaning here; this output needs schemaStr or schemaFile",
        ],
    );
    more(
        r#""structuredOutput": {"output": "enum", "enumValues": []}, "output": {"format": "text"}"#,
        &[
            "structuredOutput.enumValues: must not be empty",
            "output: must not have a format beside `structuredOutput`",
        ],
    );
    more(
        r#""structuredOutput": {"output": "enum", "enumValues": ["a"]}, "joinString": "-""#,
        &["joinString: must not stand beside `structuredOutput`: it joins texts"],
    );
}

// covers: HANK-51
#[test]
fn the_rest_is_checked_by_type_and_key() {
    more(
        r#""errorHandling": {"maxConsecutiveFailures": 0, "unloadOnFatalError": 1}, "llmParams": {"temperature": "hot", "topP": 1},
        "output": {"format": "json"}, "reportToWebsocket": {"outputs": 1}, "when": 1"#,
        &[
            "errorHandling.maxConsecutiveFailures: must be a whole number, at least 1, not `0`",
            "errorHandling.unloadOnFatalError: must be true or false, not a number",
            "llmParams.temperature: must be a number, not a string",
            "llmParams.topP: `topP` is not a key of `llmParams`",
            "output.format: json is an older name",
            "reportToWebsocket.outputs: must be true or false, not a number",
            "when: `when` is not a key of a sentinel",
        ],
    );
}

// covers: HANK-60
#[test]
fn a_sentinel_asks_a_model_or_has_a_command() {
    let with = |more: &str| {
        let sentinel =
            format!(r#""id": "s", "name": "S", "trigger": {EVENT}, "execution": {IMMEDIATE}{more}"#);
        hank(&[fresh(
            "a",
            &format!(r#""sentinels": [{{"sentinelConfig": {{{sentinel}}}}}]"#),
        )])
    };
    let command = r#", "command": ["jq", "-r", ".events[0].data.path"]"#;
    check(&with(command), &[]);
    check(
        &with(&format!(
            r#"{command}, "answer": "json", "timeoutSeconds": 5, "maxDollars": 0.5, "errorHandling": {{"onError": "failCodon"}}"#
        )),
        &[],
    );
    check(&with(""), &["model: is missing", "userPromptText: is missing"]);
    check(
        &with(r#", "command": [""]"#),
        &["command: must begin with a program"],
    );
    check(
        &with(&format!(
            r#"{command}, "answer": "xml", "timeoutSeconds": 0, "model": "a/b", "llmParams": {{}}"#
        )),
        &[
            "answer: must be one of text, json, not `xml`",
            "timeoutSeconds: must be a whole number from 1 to 3600, not `0`",
            "model: must not stand beside `command`: it is about asking a model",
            "llmParams: must not stand beside `command`: it is about asking a model",
        ],
    );
    more(
        r#""answer": "json""#,
        &["answer: is about what a `command` prints"],
    );
}

#[test]
fn an_entry_says_where_outputs_go_and_what_is_reported() {
    let text = hank(&[fresh(
        "a",
        r#""sentinels": [{"sentinelConfig": "s.json", "settings": {"failCodonIfNotLoaded": "no", "outputPaths": {"logFile": "", "file": "x"},
        "reportToWebsocket": {"errors": 0}}}]"#,
    )]);
    let found = problems(&text);
    let places = [
        "failCodonIfNotLoaded",
        "outputPaths.file",
        "outputPaths.logFile",
        "reportToWebsocket.errors",
    ];
    assert_eq!(found.len(), places.len(), "{found:?}");
    for place in places {
        assert!(
            found
                .iter()
                .any(|line| line.contains(&format!("hank[0].sentinels[0].settings.{place}"))),
            "{place}: {found:?}"
        );
    }
}
