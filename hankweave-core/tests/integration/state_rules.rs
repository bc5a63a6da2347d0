//! Rules about whole documents: what is loaded, what is warned about, what things cost.

use std::collections::HashSet;

use hankweave_core::cost::Usd;
use hankweave_core::document::{HankweaveState, WarningContext, WarningKind, parse, render, warnings};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::id::{CheckpointSha, RunId};
use hankweave_core::state::{Candidate, LiveState, StateSource, recover};
use hankweave_core::testing::{Ending, Story};
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};

fn story() -> Story {
    Story::new()
        .plan(&["a", "b"])
        .fresh("r1")
        .codon("a", Ending::Completed)
}

/// One codon of every status, each with a cost of its own where it has one, in one run for each that is open.
fn every_status() -> Value {
    let tokens = |count: u64| json!({"inputTokens": count, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0});
    let codon = |status: &str, fields: Value| {
        let mut codon = json!({"codonId": status, "status": status, "startTime": "2025-01-04T12:00:00.000Z"});
        codon
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        codon
    };
    let agent = |fields: Value| {
        let mut agent = json!({"claudePid": 9, "claudeLogPath": "runs/r/a-claude.log"});
        agent
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        agent
    };
    let current = |count: u64| {
        agent(
            json!({"claudeSessionId": "s", "currentCost": count, "currentTokens": tokens(count), "assistantMessageCount": 1}),
        )
    };
    let sentinel = json!({"id": "w", "model": "m", "loadedAt": "2025-01-04T12:00:00.000Z", "llmCallCount": 1,
        "failedLLMCalls": 0, "totalTriggers": 1, "totalCost": 100, "status": "unloaded"});
    let ended = json!([
        codon(
            "completed",
            json!({"claudeLogPath": "runs/r/a-claude.log", "claudeSessionId": "s", "exitCode": 0, "finalCost": 1,
            "finalTokens": tokens(1), "resultMessageReceived": true, "completionCheckpoint": "ccc", "endTime": "2025-01-04T12:01:00.000Z",
            "rigSetupCheckpoint": "rrr", "sentinels": {"executed": [sentinel], "totalCost": 100}})
        ),
        codon(
            "failed",
            json!({"exitCode": 1, "failedDuring": "running", "failureReason": {"type": "unknown", "retriable": false},
            "partialCost": 2, "partialTokens": tokens(2), "errorCheckpoint": "eee", "endTime": "2025-01-04T12:01:00.000Z"})
        ),
        codon(
            "skipped",
            json!({"skippedDuring": "running", "partialCost": 4, "partialTokens": tokens(4), "skipCheckpoint": "sss",
            "endTime": "2025-01-04T12:01:00.000Z"})
        ),
        codon("running", current(8)),
    ]);
    let run = |id: &str, status: &str, codons: Value| {
        json!({"runId": id, "runFolder": format!("/p/{id}"), "gitBranch": format!("run-{id}"), "status": status, "serverPid": 7,
            "startingConditions": {"type": "fresh", "initialCheckpointSha": "iii"}, "startTime": "2025-01-04T12:00:00.000Z", "codons": codons})
    };
    let mut continuation = run(
        "r2",
        "crashed",
        json!([codon("completing-sentinels", current(16))]),
    );
    continuation["startingConditions"] = json!({"type": "continuation", "source": {"runId": "r1", "afterCodon": "completed", "checkpointSha": "kkk"}});
    json!({
        "runs": [
            run("r5", "running", ended),
            run("r4", "crashed", json!([codon("preparing", json!({}))])),
            run("r3", "crashed", json!([codon("starting", json!({}))])),
            continuation,
            run("r1", "crashed", json!([codon("initializing", agent(json!({})))])),
        ],
        "currentRunId": "r5", "initialCheckpoint": "000", "executionPlan": [],
    })
}

fn accepted(document: &Value) -> HankweaveState {
    parse(document.to_string().as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}"))
}

// covers: STATE-47
#[test]
fn each_status_counts_its_own_cost_and_a_skipped_codon_counts_none() {
    let state = accepted(&every_status());
    let dollars = |amount: u64| Usd::from_micros(amount * 1_000_000);
    assert_eq!(state.total_cost(), dollars(1 + 2 + 8 + 16));
    let current = state.current_run().unwrap();
    assert_eq!(current.codon_cost(), dollars(1 + 2 + 8));
    assert_eq!(
        current.codon_tokens().input_tokens,
        1 + 2 + 8,
        "tokens follow the same rule"
    );
    assert_eq!(
        state.total_spend(),
        dollars(1 + 2 + 4 + 8 + 16 + 100),
        "with skipped codons and sentinels"
    );
    let mut stopped = every_status();
    stopped["currentRunId"] = Value::Null;
    let totals = LiveState::new(accepted(&stopped)).totals();
    assert_eq!(
        (totals.current_run, totals.total),
        (Usd::ZERO, dollars(1 + 2 + 8 + 16))
    );
}

// covers: STATE-34
#[test]
fn a_commit_that_is_gone_is_missed_wherever_it_stands() {
    let state = accepted(&every_status());
    let missed = |known: &[&str]| -> Vec<String> {
        let known: HashSet<CheckpointSha> = known.iter().map(|sha| CheckpointSha::new(*sha)).collect();
        let found = warnings(
            &state,
            WarningContext {
                checkpoints: Some(&known),
                run_folders: &[],
            },
        );
        assert!(
            found
                .iter()
                .all(|warning| warning.kind == WarningKind::MissingCheckpoint)
        );
        found.into_iter().map(|warning| warning.path).collect()
    };
    assert_eq!(
        missed(&["iii"]),
        [
            "initialCheckpoint",
            "runs[0].codons[0].rigSetupCheckpoint",
            "runs[0].codons[0].completionCheckpoint",
            "runs[0].codons[1].errorCheckpoint",
            "runs[0].codons[2].skipCheckpoint",
            "runs[3].startingConditions.source.checkpointSha",
        ]
    );
    let fresh = missed(&["000", "rrr", "ccc", "eee", "sss", "kkk"]);
    assert_eq!(fresh[0], "runs[0].startingConditions.initialCheckpointSha");
    assert_eq!(fresh.len(), 4, "of each fresh run");
}

// covers: STATE-34
#[test]
fn a_run_that_continues_an_unknown_one_is_a_warning() {
    let mut document = every_status();
    document["runs"][3]["startingConditions"]["source"]["runId"] = json!("lost");
    let found = warnings(&accepted(&document), WarningContext::default());
    let found: Vec<_> = found
        .iter()
        .map(|warning| (warning.kind, &*warning.path))
        .collect();
    assert_eq!(
        found,
        [(WarningKind::MissingRun, "runs[3].startingConditions.source.runId")]
    );
}

// covers: STATE-2, STATE-34
#[test]
fn sums_of_sentinels_may_differ_by_a_millionth() {
    for (recorded, expected) in [
        (100.000_001, 0),
        (99.999_999, 0),
        (100.000_002, 1),
        (99.999_998, 1),
    ] {
        let mut document = every_status();
        document["runs"][0]["codons"][0]["sentinels"]["totalCost"] = json!(recorded);
        let found = warnings(&accepted(&document), WarningContext::default());
        assert_eq!(found.len(), expected, "{recorded}: {found:?}");
    }
}

// covers: STATE-11
#[test]
fn every_reason_of_the_tables_is_read_and_written_and_no_other() {
    for (known, field, values) in [
        (
            true,
            "failure",
            &[
                "timeout",
                "rate-limit",
                "api-error",
                "sentinel-load-failure",
                "unknown",
            ][..],
        ),
        (false, "failure", &["Timeout", "crash"]),
        (
            true,
            "unload",
            &[
                "codon-complete",
                "fatal-error",
                "consecutive-failures",
                "shutdown",
            ],
        ),
        (false, "unload", &["bored"]),
    ] {
        for value in values {
            let mut document = every_status();
            let codons = &mut document["runs"][0]["codons"];
            match field {
                "failure" => codons[1]["failureReason"]["type"] = json!(value),
                _ => codons[0]["sentinels"]["executed"][0]["unloadReason"] = json!(value),
            }
            let read = parse(document.to_string().as_bytes());
            assert_eq!(read.is_ok(), known, "{value}");
            assert!(read.is_err() || render(&read.unwrap()).contains(&format!("\"{value}\"")));
        }
    }
}

// covers: STATE-3, STATE-7
#[test]
fn ids_of_both_systems_are_read_and_the_branch_is_never_made_up() {
    for id in ["1736000000000-abc123-def456", "1736000000000-x9k2a", "anything"] {
        let mut document = every_status();
        document["runs"][4]["runId"] = json!(id);
        document["runs"][4]["gitBranch"] = json!(id);
        let state = accepted(&document);
        let run = state.run(&RunId::new(id).unwrap()).unwrap();
        assert_eq!(run.git_branch, id);
    }
}

// covers: STATE-25
#[test]
fn an_older_run_that_is_found_crashed_leaves_the_current_one_alone() {
    let mut document = every_status();
    document["runs"][3]["status"] = json!("running");
    let mut live = LiveState::new(accepted(&document));
    let before = live.totals();
    let event = json!({"type": "RunCrashed",
        "data": {"runId": "r2", "detectedAt": "2025-01-05T00:00:00Z", "lastCodonStatus": "completing-sentinels"}});
    live.apply_event(&StateEvent::from_json(event).unwrap(), Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_eq!(live.document().current_run_id.as_ref().unwrap().as_str(), "r5");
    assert_eq!(live.totals(), before, "the codon keeps what it had cost");
    assert_eq!(live.document().runs[3].codons[0].status().as_str(), "failed");
}

// covers: STATE-25
#[test]
fn a_run_that_ends_in_order_leaves_no_current_run() {
    for kind in ["RunCompleted", "RunFailed"] {
        let mut document = every_status();
        document["runs"][3]["status"] = json!("running");
        document["runs"][3]["codons"] = json!([]);
        let mut live = LiveState::new(accepted(&document));
        let event = json!({"type": kind, "data": {"runId": "r2"}});
        live.apply_event(&StateEvent::from_json(event).unwrap(), Timestamp::UNIX_EPOCH)
            .unwrap();
        assert_eq!(live.document().current_run_id, None, "{kind}");
        assert_eq!(live.totals().current_run, Usd::ZERO, "{kind}");
    }
}

// covers: STATE-31
#[test]
fn a_continuation_keeps_the_stored_plan() {
    let story = story().run_fails();
    let plan = story.state().execution_plan.clone();
    let continued = story.continues("r2", "r1", Some("a"), "a-end");
    assert_eq!(continued.state().execution_plan, plan);
}

/// What `recover` makes of two files and a journal: the source, the runs, and whether history was reset.
fn recovered(
    primary: Option<&str>,
    backup: Option<&str>,
    journal: &[Recorded<StateEvent>],
    existed: bool,
) -> (StateSource, usize, bool) {
    fn candidate(text: &str) -> Candidate<'_> {
        Candidate {
            bytes: text.as_bytes(),
            tail: &[],
        }
    }
    let found = recover(
        primary.map(candidate),
        backup.map(candidate),
        || journal.to_vec(),
        existed,
    );
    (found.source, found.state.runs.len(), found.history_was_reset)
}

// covers: P6
#[test]
fn the_first_file_that_is_good_is_loaded_and_a_reset_is_told() {
    let older = render(story().state());
    let newer = story().run_completes().fresh("r2");
    let (good, journal) = (render(newer.state()), newer.events());
    let dangling = good.replace("\"currentRunId\": \"r2\"", "\"currentRunId\": \"gone\"");
    assert_ne!(dangling, good);
    let check = |primary: Option<&str>, backup: Option<&str>, journal: &[_], existed, expected| {
        assert_eq!(recovered(primary, backup, journal, existed), expected);
    };
    check(
        Some(&good),
        Some(&older),
        journal,
        true,
        (StateSource::Primary, 2, false),
    );
    for damaged in ["", "{", "[]", dangling.as_str()] {
        check(
            Some(damaged),
            Some(&older),
            journal,
            true,
            (StateSource::Backup, 1, false),
        );
        check(Some(damaged), None, journal, true, (StateSource::Log, 2, false));
        check(
            Some(damaged),
            Some(damaged),
            &[],
            true,
            (StateSource::Fresh, 0, true),
        );
    }
    check(None, Some(&older), &[], true, (StateSource::Backup, 1, false));
    check(None, None, journal, true, (StateSource::Log, 2, false));
    check(None, None, &[], true, (StateSource::Fresh, 0, true));
    check(None, None, &[], false, (StateSource::Fresh, 0, false));
}
