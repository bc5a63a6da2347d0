//! Which documents are read, what is kept of them, and everything that is reported about the others (STATE-1 to STATE-13, STATE-33, STATE-34).

use std::collections::HashSet;

use hankweave_core::cost::Usd;
use hankweave_core::document::{
    HankweaveState, MAX_STATE_BYTES, StateProblem, WarningContext, WarningKind, parse, render, warnings,
};
use hankweave_core::id::CheckpointSha;
use serde_json::{Value, json};

const RUN: &str = "1736000000000-abc123-def456";

/// A document with these codons in one run.
fn document(codons: Value) -> Value {
    json!({
        "runs": [{
            "runId": RUN, "runFolder": format!("/p/.hankweave/runs/{RUN}"), "gitBranch": format!("run-{RUN}"),
            "startingConditions": {"type": "fresh", "initialCheckpointSha": "aaa"},
            "codons": codons, "status": "running", "startTime": "2025-01-04T12:00:00.000Z", "serverPid": 7,
        }],
        "currentRunId": RUN,
        "initialCheckpoint": "aaa",
        "executionPlan": [{"codon": {"id": "draft", "model": "sonnet"}, "codonId": "draft"}],
    })
}

fn tokens() -> Value {
    json!({"inputTokens": 1, "outputTokens": 2, "cacheCreationTokens": 3, "cacheReadTokens": 4})
}

fn sentinel() -> Value {
    json!({"id": "watch", "model": "haiku", "loadedAt": "2025-01-04T12:00:00.000Z", "llmCallCount": 1,
           "failedLLMCalls": 0, "totalTriggers": 2, "totalCost": 0.5, "status": "active"})
}

/// A codon with every field that its status allows.
fn codon(status: &str) -> Value {
    let mut codon = json!({"status": status, "codonId": "draft", "startTime": "2025-01-04T12:00:00.000Z",
        "loopContext": {"loopId": "l", "iteration": 0, "codonIndexInLoop": 0}});
    let mut put = |fields: Value| {
        let fields = fields.as_object().unwrap().clone();
        codon.as_object_mut().unwrap().extend(fields);
    };
    if status != "preparing" {
        put(json!({"rigSetupCheckpoint": "rrr"}));
    }
    match status {
        "preparing" => {}
        "starting" => put(json!({"sentinels": {"loaded": [sentinel()], "totalCost": 0.5}})),
        "initializing" => put(json!({"sentinels": {"loaded": [sentinel()], "totalCost": 0.5},
            "claudePid": 9, "claudeLogPath": "runs/r/draft-claude.log", "previousSessionId": "p"})),
        "running" | "completing-sentinels" => {
            put(json!({"sentinels": {"loaded": [sentinel()], "totalCost": 0.5},
            "claudePid": 9, "claudeLogPath": "runs/r/draft-claude.log", "previousSessionId": "p",
            "claudeSessionId": "s", "currentCost": 0.25, "currentTokens": tokens(), "assistantMessageCount": 3}));
        }
        "completed" => put(json!({"sentinels": {"executed": [sentinel()], "totalCost": 0.5},
            "claudeLogPath": "runs/r/draft-claude.log", "previousSessionId": "p", "claudeSessionId": "s",
            "endTime": "2025-01-04T12:00:01.000Z", "exitCode": 0, "finalCost": 0.25, "finalTokens": tokens(),
            "resultMessageReceived": true, "completionCheckpoint": "ccc"})),
        "failed" => put(
            json!({"sentinels": {"executed": [sentinel()], "totalCost": 0.5}, "claudePid": 9,
            "claudeLogPath": "runs/r/draft-claude.log", "previousSessionId": "p", "claudeSessionId": "s",
            "endTime": "2025-01-04T12:00:01.000Z", "exitCode": 1, "failedDuring": "running",
            "failureReason": {"type": "timeout", "retriable": true, "message": "slow", "sentinelRefs": ["x"]},
            "partialCost": 0.25, "partialTokens": tokens(), "errorCheckpoint": "eee"}),
        ),
        "skipped" => put(
            json!({"sentinels": {"executed": [sentinel()], "totalCost": 0.5}, "claudePid": 9,
            "claudeLogPath": "runs/r/draft-claude.log", "previousSessionId": "p", "claudeSessionId": "s",
            "assistantMessageCount": 3, "endTime": "2025-01-04T12:00:01.000Z", "skippedDuring": "running",
            "partialCost": 0.25, "partialTokens": tokens(), "skipCheckpoint": "sss"}),
        ),
        other => panic!("no status {other}"),
    }
    codon
}

const STATUSES: [&str; 8] = [
    "preparing",
    "starting",
    "initializing",
    "running",
    "completing-sentinels",
    "completed",
    "failed",
    "skipped",
];

#[track_caller]
fn accepted(document: &Value) -> HankweaveState {
    parse(document.to_string().as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}\n{document:#}"))
}

fn problems(document: &Value) -> Vec<StateProblem> {
    parse(document.to_string().as_bytes()).err().unwrap_or_default()
}

/// Kind and path of every problem, in order of path.
#[track_caller]
fn refused(document: &Value, expected: &[(&str, &str)]) {
    let mut found: Vec<(String, String)> = problems(document)
        .iter()
        .map(|problem| (problem.kind.to_string(), problem.path.clone()))
        .collect();
    found.sort();
    let mut expected: Vec<(String, String)> = expected
        .iter()
        .map(|(kind, path)| ((*kind).to_owned(), (*path).to_owned()))
        .collect();
    expected.sort();
    assert_eq!(found, expected, "{:?}\n{document:#}", problems(document));
}

/// Every object in a value, by JSON pointer.
fn objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            found.push(pointer.to_owned());
            for (name, value) in object {
                objects(value, &format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(item, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

// covers: STATE-8
#[test]
fn every_status_is_read_with_all_its_fields_and_written_back() {
    for status in STATUSES {
        let document = document(json!([codon(status)]));
        let written: Value = serde_json::from_str(&render(&accepted(&document))).unwrap();
        assert_eq!(written, document, "{status}");
    }
}

// covers: D4
#[test]
fn unknown_names_are_kept_in_every_object() {
    let conditions = json!({"type": "continuation", "reason": "retry",
        "source": {"runId": "gone", "afterCodon": "draft", "checkpointSha": "aaa"}});
    for status in STATUSES {
        for starting_conditions in [None, Some(&conditions)] {
            let mut whole = document(json!([codon(status)]));
            whole["executionPlan"][0]["loopContext"] =
                json!({"loopId": "l", "iteration": 0, "codonIndexInLoop": 0});
            if let Some(conditions) = starting_conditions {
                whole["runs"][0]["startingConditions"] = conditions.clone();
            }
            let mut pointers = Vec::new();
            objects(&whole, "", &mut pointers);
            for pointer in &pointers {
                let object = whole.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
                object.insert("fromTheFuture".to_owned(), json!({"deep": [1, null]}));
            }
            let written: Value = serde_json::from_str(&render(&accepted(&whole))).unwrap();
            assert_eq!(written, whole, "{status}");
        }
    }
}

/// Numbers come back to the last digit.
// covers: D4
#[test]
fn numbers_under_unknown_names_come_back_as_they_were_read() {
    let mut given = document(json!([codon("completed")]));
    given["future"] = json!([11_844_674_407.370_955, 0.1, 1e-7, 1e300, u64::MAX, i64::MIN]);
    let written: Value = serde_json::from_str(&render(&accepted(&given))).unwrap();
    assert_eq!(written["future"], given["future"]);
}

// covers: STATE-8
#[test]
fn known_names_in_the_wrong_status_are_refused() {
    let mut fields = serde_json::Map::new();
    for status in STATUSES {
        fields.extend(codon(status).as_object().unwrap().clone());
    }
    let tolerated = |status: &str, name: &str| match status {
        "preparing" => name == "rigSetupCheckpoint",
        "completed" => [
            "claudePid",
            "currentCost",
            "currentTokens",
            "assistantMessageCount",
        ]
        .contains(&name),
        _ => false,
    };
    for status in STATUSES {
        for (name, value) in &fields {
            let mut codon = codon(status);
            if codon.get(name).is_some() {
                continue;
            }
            codon[name] = value.clone();
            let whole = document(json!([codon]));
            if tolerated(status, name) {
                accepted(&whole);
            } else {
                refused(&whole, &[("invalid_codon", &format!("runs[0].codons[0].{name}"))]);
            }
            codon[name] = Value::Null;
            accepted(&document(json!([codon])));
        }
    }
}

// covers: STATE-8, STATE-9
#[test]
fn required_names_are_missed_and_optional_ones_may_be_null() {
    let optional = |status: &str, name: &str| match name {
        "loopContext" | "rigSetupCheckpoint" | "sentinels" | "previousSessionId" | "errorCheckpoint"
        | "skipCheckpoint" => true,
        "claudePid" | "claudeLogPath" | "claudeSessionId" => matches!(status, "failed" | "skipped"),
        "assistantMessageCount" => status == "skipped",
        _ => false,
    };
    for status in STATUSES {
        for name in codon(status).as_object().unwrap().keys() {
            let mut without = codon(status);
            without.as_object_mut().unwrap().remove(name);
            let mut null = codon(status);
            null[name] = Value::Null;
            for changed in [without, null] {
                let whole = document(json!([changed]));
                if optional(status, name) {
                    accepted(&whole);
                } else {
                    let found = problems(&whole);
                    let path = format!("runs[0].codons[0].{name}");
                    assert!(
                        found.iter().any(|problem| problem.path == path),
                        "{status} {name}: {found:?}"
                    );
                }
            }
        }
    }
}

// covers: STATE-33
#[test]
fn every_problem_of_a_document_is_reported() {
    let mut codon = codon("failed");
    codon["exitCode"] = json!("one");
    codon["failureReason"] = json!({"type": "bad-luck", "message": 7});
    codon["failedDuring"] = json!("completed");
    codon["partialTokens"]["inputTokens"] = json!(-1);
    codon["sentinels"]["executed"][0]["status"] = json!("asleep");
    codon["finalCost"] = json!(1);
    let mut whole = document(json!([codon, {"codonId": "a/b", "status": "dreaming", "startTime": "now"}, 5]));
    whole["runs"][0]["status"] = json!("walking");
    whole["runs"][0]["startingConditions"] = json!({"type": "continuation", "source": {"runId": ""}});
    whole["currentRunId"] = json!("nobody");
    whole["executionPlan"] = json!({});
    let codon = "runs[0].codons[0]";
    refused(
        &whole,
        &[
            ("invalid_codon", &format!("{codon}.exitCode")),
            ("invalid_codon", &format!("{codon}.failureReason.type")),
            ("invalid_codon", &format!("{codon}.failureReason.retriable")),
            ("invalid_codon", &format!("{codon}.failureReason.message")),
            ("invalid_codon", &format!("{codon}.failedDuring")),
            ("invalid_codon", &format!("{codon}.partialTokens.inputTokens")),
            ("invalid_codon", &format!("{codon}.sentinels.executed[0].status")),
            ("invalid_codon", &format!("{codon}.finalCost")),
            ("invalid_codon", "runs[0].codons[1].codonId"),
            ("invalid_codon", "runs[0].codons[1].status"),
            ("invalid_codon", "runs[0].codons[1].startTime"),
            ("invalid_codon", "runs[0].codons[2]"),
            ("corrupted_data", "runs[0].status"),
            ("corrupted_data", "runs[0].startingConditions.source.runId"),
            ("corrupted_data", "runs[0].startingConditions.source.afterCodon"),
            (
                "corrupted_data",
                "runs[0].startingConditions.source.checkpointSha",
            ),
            ("missing_run", "currentRunId"),
            ("corrupted_data", "executionPlan"),
        ],
    );
}

// covers: STATE-33
#[test]
fn what_is_no_document_is_corrupted_data() {
    for (whole, path) in [
        (json!([]), "$"),
        (
            json!({"runs": 1, "currentRunId": null, "executionPlan": []}),
            "runs",
        ),
        (
            json!({"runs": [], "currentRunId": 1, "executionPlan": []}),
            "currentRunId",
        ),
        (json!({"runs": [], "executionPlan": []}), "currentRunId"),
        (json!({"runs": [], "currentRunId": null}), "executionPlan"),
        (
            json!({"runs": [], "currentRunId": null, "executionPlan": [], "schemaVersion": 2}),
            "schemaVersion",
        ),
    ] {
        refused(&whole, &[("corrupted_data", path)]);
    }
    for name in [
        "runId",
        "runFolder",
        "gitBranch",
        "startingConditions",
        "codons",
        "status",
        "startTime",
        "serverPid",
    ] {
        let mut whole = document(json!([]));
        whole["currentRunId"] = Value::Null;
        whole["runs"][0].as_object_mut().unwrap().remove(name);
        refused(&whole, &[("corrupted_data", &format!("runs[0].{name}"))]);
    }
}

// In words for people, with the place in the text.
// covers: STATE-33
#[test]
fn text_that_is_not_json_is_placed_by_line_and_column() {
    for (text, message) in [
        ("", "1:1: the text ends before the document does"),
        ("{\"runs\": [", "1:10: the text ends before the document does"),
        ("{\n  \"runs\": [,\n", "2:12: there is no JSON value here"),
        ("{runs: []}", "1:2: a name must stand in double quotes"),
        (
            "{\"runs\": [],}",
            "1:13: there is a comma, and nothing follows it",
        ),
        ("{\"x\": 1e999}", "1:11: the number is too large"),
        (
            "{\"runs\":[],\"currentRunId\":null,\"executionPlan\":[]} x",
            "1:52: there is more text after the end of the document",
        ),
    ] {
        let problems = parse(text.as_bytes()).unwrap_err();
        assert_eq!((problems.len(), problems[0].message.as_str()), (1, message));
    }
    let problems = parse(b"{\"runs\":[],\"currentRunId\":\"\xff\",\"executionPlan\":[]}").unwrap_err();
    assert_eq!(problems[0].kind.name(), "corrupted_data");
}

#[test]
fn a_name_that_stands_twice_is_refused() {
    let text = r#"{"runs":[],"runs":[],"currentRunId":null,"executionPlan":[],"x":1,"x":2}"#;
    let found: Vec<String> = parse(text.as_bytes())
        .unwrap_err()
        .into_iter()
        .map(|problem| problem.path)
        .collect();
    assert_eq!(found, ["runs", "x"]);
    assert!(parse(br#"{"runs":[],"currentRunId":null,"executionPlan":[],"x":1,"x":2}"#).is_err());
}

// covers: D3
#[test]
fn size_and_depth_are_limited() {
    let nested = |depth: usize| {
        let text = format!(
            r#"{{"runs":[],"currentRunId":null,"executionPlan":[],"x":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        parse(text.as_bytes())
    };
    assert!(nested(63).is_ok());
    assert_eq!(nested(64).unwrap_err()[0].path, "$");
    assert!(nested(100_000).is_err());
    assert!(parse(&vec![b' '; MAX_STATE_BYTES + 1]).is_err());
}

// covers: D3
#[test]
fn ids_are_unique_and_one_codon_of_a_run_is_open() {
    let mut whole = document(json!([codon("running"), codon("completed"), codon("preparing")]));
    let run = whole["runs"][0].clone();
    whole["runs"].as_array_mut().unwrap().push(run);
    let entry = whole["executionPlan"][0].clone();
    whole["executionPlan"].as_array_mut().unwrap().push(entry);
    refused(
        &whole,
        &[
            ("invalid_codon", "runs[0].codons[2].status"),
            ("corrupted_data", "runs[1].runId"),
            ("invalid_codon", "runs[1].codons[2].status"),
            ("corrupted_data", "executionPlan[1].codonId"),
        ],
    );
}

// covers: STATE-13
#[test]
fn the_underscore_is_read_and_the_hyphen_is_written() {
    let mut failed = codon("failed");
    failed["failedDuring"] = json!("completing_sentinels");
    let mut skipped = codon("skipped");
    skipped["skippedDuring"] = json!("completing_sentinels");
    let mut open = codon("completing-sentinels");
    open["status"] = json!("completing_sentinels");
    let written = render(&accepted(&document(json!([failed, skipped, open]))));
    assert_eq!(written.matches("\"completing-sentinels\"").count(), 3);
    assert_eq!(written.matches("completing_sentinels").count(), 0);
}

// covers: STATE-1, STATE-6
#[test]
fn older_spellings_of_values_are_read() {
    for (time, written) in [
        ("2025-01-04T12:00:00Z", "2025-01-04T12:00:00.000Z"),
        ("2025-01-04T13:30:00.5+01:30", "2025-01-04T12:00:00.500Z"),
        ("2025-01-04T12:00:00.123456789Z", "2025-01-04T12:00:00.123Z"),
    ] {
        let mut whole = document(json!([]));
        whole["runs"][0]["startTime"] = json!(time);
        assert_eq!(accepted(&whole).runs[0].start_time.to_string(), written);
    }
    let mut whole = document(json!([]));
    whole["runs"][0]["startingConditions"] =
        json!({"type": "continuation", "source": {"runId": "x", "afterCodon": "", "checkpointSha": ""}});
    let source = accepted(&whole).runs[0].starting_conditions.source().cloned();
    assert_eq!(source.unwrap().after_codon, None);
}

// covers: STATE-10
#[test]
fn what_the_older_system_leaves_on_a_record_is_read() {
    let mut completed = codon("completed");
    for (name, value) in [
        ("claudePid", json!(9)),
        ("currentCost", json!(0.25)),
        ("currentTokens", tokens()),
        ("assistantMessageCount", json!(4)),
        ("extensionCount", json!(2)),
        (
            "budgetExceeded",
            json!({"currency": "cost", "limit": 1, "used": 1.5}),
        ),
    ] {
        completed[name] = value;
    }
    let sentinel = &mut completed["sentinels"]["executed"][0];
    sentinel.as_object_mut().unwrap().remove("totalTriggers");
    sentinel["unloadReason"] = json!("shutdown");
    let mut failed = codon("failed");
    failed["failureReason"]["retryAfterMs"] = json!(100);
    failed["sentinels"]["executed"][0]["totalTriggers"] = Value::Null;
    let written: Value =
        serde_json::from_str(&render(&accepted(&document(json!([completed, failed]))))).unwrap();
    let completed = &written["runs"][0]["codons"][0];
    assert_eq!(
        (&completed["claudePid"], &completed["currentCost"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(completed["extensionCount"], 2);
    assert_eq!(completed["budgetExceeded"]["used"], 1.5);
    assert_eq!(completed["sentinels"]["executed"][0]["totalTriggers"], 0);
    let failed = &written["runs"][0]["codons"][1];
    assert_eq!(failed["failureReason"]["retryAfterMs"], 100);
}

// covers: STATE-2
#[test]
fn costs_come_back_as_they_were_written() {
    for cost in ["0", "0.1", "0.00693", "1e-6", "12", "123456.789012"] {
        let mut open = codon("running");
        open["currentCost"] = serde_json::from_str(cost).unwrap();
        let state = accepted(&document(json!([open])));
        let written: Value = serde_json::from_str(&render(&state)).unwrap();
        assert_eq!(
            written["runs"][0]["codons"][0]["currentCost"].as_f64(),
            cost.parse().ok()
        );
    }
    for cost in [json!(-0.5), json!("1"), json!(1e300)] {
        let mut open = codon("running");
        open["currentCost"] = cost;
        refused(
            &document(json!([open])),
            &[("invalid_codon", "runs[0].codons[0].currentCost")],
        );
    }
}

// covers: STATE-34, STATE-35
#[test]
fn warnings_name_what_is_odd_and_never_block() {
    let mut blank = codon("completed");
    blank["completionCheckpoint"] = json!("");
    blank["sentinels"]["totalCost"] = json!(0.75);
    let mut whole = document(json!([blank, codon("failed")]));
    whole["runs"][0]["startingConditions"] =
        json!({"type": "continuation", "source": {"runId": "x", "afterCodon": null, "checkpointSha": ""}});
    let state = accepted(&whole);
    let known: HashSet<CheckpointSha> = ["rrr", "eee"].into_iter().map(CheckpointSha::new).collect();
    let folders = [RUN.to_owned(), "stranger".to_owned()];
    let found = warnings(
        &state,
        WarningContext {
            checkpoints: Some(&known),
            run_folders: &folders,
        },
    );
    let found: Vec<(WarningKind, &str)> = found
        .iter()
        .map(|warning| (warning.kind, warning.path.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (WarningKind::MissingCheckpoint, "initialCheckpoint"),
            (WarningKind::MissingRun, "runs[0].startingConditions.source.runId"),
            (
                WarningKind::MissingCheckpoint,
                "runs[0].codons[0].completionCheckpoint"
            ),
            (WarningKind::CostMismatch, "runs[0].codons[0].sentinels.totalCost"),
            (WarningKind::OrphanedFolder, "runs/stranger"),
        ]
    );
    let unknown = warnings(&state, WarningContext::default());
    assert_eq!(
        unknown.len(),
        3,
        "an unknown run and a blank checkpoint need no repository: {unknown:?}"
    );
    assert_eq!(state.total_spend(), Usd::from_micros(1_750_000));
}

// covers: STATE-6
#[test]
fn a_continuation_names_its_source_in_the_nested_form_only() {
    let with = |conditions: Value| {
        let mut document = document(json!([]));
        document["runs"][0]["startingConditions"] = conditions;
        parse(document.to_string().as_bytes())
    };
    let problems = with(json!({"type": "continuation", "sourceRunId": "r0"})).unwrap_err();
    assert_eq!(problems[0].path, "runs[0].startingConditions.source");
    let source = json!({"runId": "r0", "afterCodon": null, "checkpointSha": ""});
    assert!(with(json!({"type": "continuation", "source": source})).is_ok());
}

// covers: STATE-7
#[test]
fn the_branch_of_a_run_is_read_and_never_derived() {
    let mut document = document(json!([]));
    document["runs"][0]["gitBranch"] = json!("a-branch");
    let state = parse(document.to_string().as_bytes()).unwrap();
    assert_eq!(state.runs[0].git_branch, "a-branch");
}
