//! Each rule of the reducer by its number (STATE-14 to STATE-32).

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::document::{HankweaveState, RunStatus, render};
use hankweave_core::event::StateEvent;
use hankweave_core::state::Rejected;
use hankweave_core::testing::{Ending, Story};
use hankweave_core::thread::ThreadTip;
use serde_json::{Value, json};

use Ending::{Completed, Failed, Open, Skipped};

const RUN: &str = "r1";

fn event(kind: &str, mut data: Value) -> StateEvent {
    data.as_object_mut().unwrap().entry("runId").or_insert(json!(RUN));
    StateEvent::from_json(json!({"type": kind, "data": data})).unwrap()
}

fn step(from: &str, to: &str, metadata: Value) -> StateEvent {
    event(
        "CodonTransitioned",
        json!({"codonId": "a", "from": from, "to": to, "metadata": metadata}),
    )
}

fn in_status(status: CodonStatus) -> Story {
    let ending = match status {
        CodonStatus::Completed => Completed,
        CodonStatus::Failed => Failed,
        CodonStatus::Skipped => Skipped,
        open => Open(open),
    };
    Story::new().fresh(RUN).codon("a", ending)
}

/// The newest record as JSON.
fn record(story: &Story) -> Value {
    serde_json::to_value(story.state().runs[0].codons.last().unwrap()).unwrap()
}

/// Refused, with every byte as it was.
#[track_caller]
fn refused(story: &Story, event: StateEvent) -> Rejected {
    let mut story = story.clone();
    let before = render(story.state());
    let rejected = story.try_tell(event).unwrap_err();
    assert_eq!(render(story.state()), before);
    rejected
}

#[track_caller]
fn refused_as(story: &Story, event: StateEvent, kind: &str, fields: &[&str]) {
    let rejected = refused(story, event);
    assert_eq!(
        (rejected.kind(), rejected.fields()),
        (kind, fields.to_vec()),
        "{rejected}"
    );
}

fn tokens(count: u64) -> Value {
    json!({"inputTokens": count, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0})
}

// covers: STATE-15
#[test]
fn an_edge_that_is_not_there_is_refused_before_its_metadata_are_looked_at() {
    let story = in_status(CodonStatus::Starting);
    for event in [
        step("starting", "running", json!({})),
        step("preparing", "starting", json!({})),
        step("starting", "starting", json!({})),
        step("completed", "running", json!({})),
    ] {
        refused_as(&story, event, "invalid_transition", &[]);
    }
    let done = in_status(CodonStatus::Completed);
    let rejected = refused(
        &done,
        step("completed", "running", json!({"claudeSessionId": "s"})),
    );
    assert_eq!(
        rejected.to_string(),
        "Invalid transition from completed to running"
    );
}

// covers: STATE-16, STATE-17, STATE-18
#[test]
fn metadata_that_are_missing_or_wrong_are_all_named() {
    let initializing = in_status(CodonStatus::Initializing);
    let rejected = refused(&initializing, step("initializing", "running", Value::Null));
    assert_eq!(
        rejected.to_string(),
        "Missing required metadata for transition to running: claudeSessionId"
    );
    let starting = in_status(CodonStatus::Starting);
    refused_as(
        &starting,
        step("starting", "initializing", json!({})),
        "metadata",
        &["claudePid", "claudeLogPath"],
    );
    let wrong = json!({"claudePid": "9", "claudeLogPath": null, "previousSessionId": 4});
    refused_as(
        &starting,
        step("starting", "initializing", wrong),
        "metadata",
        &["claudeLogPath", "claudePid", "previousSessionId"],
    );
    let running = in_status(CodonStatus::Running);
    for blank in ["", " \n"] {
        let metadata = json!({"checkpointSha": blank});
        refused_as(
            &running,
            step("running", "completed", metadata),
            "metadata",
            &["checkpointSha"],
        );
    }
    refused_as(
        &running,
        step("running", "failed", json!({})),
        "metadata",
        &["exitCode", "failureReason", "failedDuring"],
    );
    refused_as(
        &running,
        step("running", "skipped", json!({})),
        "metadata",
        &["skippedDuring"],
    );
    for during in ["completed", "completing-sentinels", "failed", "nowhere"] {
        let metadata = json!({"skippedDuring": during});
        refused_as(
            &running,
            step("running", "skipped", metadata),
            "metadata",
            &["skippedDuring"],
        );
    }
    let draining = in_status(CodonStatus::CompletingSentinels);
    let story = draining.tell(step(
        "completing_sentinels",
        "skipped",
        json!({"skippedDuring": "completing_sentinels"}),
    ));
    assert_eq!(record(&story)["skippedDuring"], "completing-sentinels");
}

// covers: STATE-16
#[test]
fn unknown_metadata_are_ignored() {
    let metadata = json!({"checkpointSha": "x", "checkpointBranch": "b", "extensionCount": 3, "exitCode": 9});
    let story = in_status(CodonStatus::Running).tell(step("running", "completed", metadata));
    assert_eq!(
        (&record(&story)["exitCode"], &record(&story)["extensionCount"]),
        (&json!(0), &Value::Null)
    );
}

// covers: STATE-19
#[test]
fn current_figures_become_final_or_partial() {
    let costs = event(
        "CostsUpdated",
        json!({"codonId": "a", "cost": 0.5, "tokens": tokens(7)}),
    );
    let story = in_status(CodonStatus::Running).tell(costs);
    let end = |to: &str, metadata: Value| record(&story.clone().tell(step("running", to, metadata)));
    let completed = end("completed", json!({"checkpointSha": "x"}));
    assert_eq!(
        (&completed["finalCost"], &completed["finalTokens"]["inputTokens"]),
        (&json!(0.5), &json!(7))
    );
    assert_eq!(
        (&completed["resultMessageReceived"], &completed["currentCost"]),
        (&json!(false), &Value::Null)
    );
    let reason = json!({"type": "unknown", "retriable": false});
    let failed = end(
        "failed",
        json!({"exitCode": -1, "failureReason": reason, "failedDuring": "starting"}),
    );
    assert_eq!(
        (&failed["partialCost"], &failed["failedDuring"]),
        (&json!(0.5), &json!("starting"))
    );
    let skipped = end(
        "skipped",
        json!({"skippedDuring": "running", "checkpointSha": "s"}),
    );
    assert_eq!(
        (&skipped["partialCost"], &skipped["skipCheckpoint"]),
        (&json!(0.5), &json!("s"))
    );
    assert_eq!(skipped["assistantMessageCount"], 0);
    let early = in_status(CodonStatus::Preparing).tell(step(
        "preparing",
        "skipped",
        json!({"skippedDuring": "preparing"}),
    ));
    assert_eq!(
        (
            &record(&early)["partialCost"],
            &record(&early)["assistantMessageCount"]
        ),
        (&json!(0), &Value::Null)
    );
}

// covers: STATE-20
#[test]
fn a_rig_checkpoint_comes_by_event_or_with_the_step() {
    let preparing = in_status(CodonStatus::Preparing);
    let rig = event(
        "CheckpointCreated",
        json!({"codonId": "a", "checkpointType": "rig-setup", "sha": "rig", "branch": "b"}),
    );
    let known = preparing
        .clone()
        .tell(rig)
        .tell(step("preparing", "starting", Value::Null));
    assert_eq!(record(&known)["rigSetupCheckpoint"], "rig");
    let given = preparing
        .clone()
        .tell(step("preparing", "starting", json!({"checkpointSha": "given"})));
    assert_eq!(record(&given)["rigSetupCheckpoint"], "given");
    let none = preparing.tell(step("preparing", "starting", json!({})));
    assert_eq!(record(&none)["rigSetupCheckpoint"], Value::Null);
}

// covers: STATE-30
#[test]
fn a_checkpoint_event_changes_no_record_that_has_ended() {
    for status in [CodonStatus::Completed, CodonStatus::Failed, CodonStatus::Skipped] {
        for kind in ["rig-setup", "completed", "error", "skipped"] {
            let story = in_status(status);
            let before = render(story.state());
            let told = story.tell(event(
                "CheckpointCreated",
                json!({"codonId": "a", "checkpointType": kind, "sha": "late", "branch": "b"}),
            ));
            assert_eq!(render(told.state()), before, "{status} {kind}");
        }
    }
}

// covers: STATE-23, STATE-5
#[test]
fn a_run_begins_in_front_and_alone() {
    let story = Story::new().fresh(RUN);
    let run = &story.state().runs[0];
    assert_eq!(
        (run.status, run.codons.len(), run.end_time),
        (RunStatus::Running, 0, None)
    );
    assert_eq!(story.state().current_run_id.as_ref().unwrap().as_str(), RUN);
    let start = |id: &str| {
        event(
            "RunStarted",
            json!({"runId": id, "runFolder": "/x", "gitBranch": "b", "startingConditions": {"type": "fresh"}, "serverPid": 1}),
        )
    };
    refused_as(&story, start("r2"), "conflict", &[]);
    let ended = story.run_fails();
    refused_as(&ended, start(RUN), "conflict", &[]);
    let both = ended.fresh("r2");
    assert_eq!(both.state().runs[0].run_id.as_str(), "r2", "newest first");
}

// covers: STATE-24
#[test]
fn a_run_ends_once() {
    for story in [
        Story::new().fresh(RUN).run_completes(),
        Story::new().fresh(RUN).run_fails(),
        Story::new().fresh(RUN).run_crashes(),
    ] {
        assert_eq!(story.state().current_run_id, None);
        assert!(story.state().runs[0].end_time.is_some());
        let crash = json!({"detectedAt": "2025-01-05T00:00:00Z", "lastCodonStatus": "unknown"});
        for event in [
            event("RunCompleted", json!({})),
            event("RunFailed", json!({})),
            event("RunCrashed", crash),
            event("CodonStarted", json!({"codonId": "b"})),
        ] {
            refused_as(&story, event, "conflict", &[]);
        }
    }
}

// A codon that is open keeps its run open, or nothing could continue after it.
// covers: STATE-24
#[test]
fn a_run_does_not_end_while_a_codon_is_open() {
    for status in [
        CodonStatus::Preparing,
        CodonStatus::Starting,
        CodonStatus::Initializing,
        CodonStatus::Running,
        CodonStatus::CompletingSentinels,
    ] {
        let story = in_status(status);
        for kind in ["RunCompleted", "RunFailed"] {
            refused_as(&story, event(kind, json!({})), "conflict", &[]);
        }
    }
    for status in [CodonStatus::Completed, CodonStatus::Failed, CodonStatus::Skipped] {
        let story = in_status(status).tell(event("RunCompleted", json!({})));
        assert_eq!(story.state().runs[0].status, RunStatus::Completed);
    }
}

// covers: STATE-26
#[test]
fn a_crash_closes_the_open_codon_where_it_stood() {
    for status in [
        CodonStatus::Preparing,
        CodonStatus::Starting,
        CodonStatus::Initializing,
        CodonStatus::Running,
        CodonStatus::CompletingSentinels,
    ] {
        let crash = json!({"detectedAt": "2025-01-05T00:00:00Z", "lastCodonStatus": status});
        let story = in_status(status).tell(event("RunCrashed", crash));
        let codon = record(&story);
        assert_eq!(
            (&codon["status"], &codon["failedDuring"]),
            (&json!("failed"), &json!(status))
        );
        assert_eq!(
            (&codon["exitCode"], &codon["endTime"]),
            (&json!(-1), &json!("2025-01-05T00:00:00.000Z"))
        );
        assert_eq!(
            codon["failureReason"],
            json!({"type": "unknown", "retriable": false, "message": "Server crashed"})
        );
        assert_eq!(story.state().runs[0].status, RunStatus::Crashed);
    }
}

// covers: STATE-27
#[test]
fn what_does_not_exist_is_not_found_and_a_second_open_codon_is_a_conflict() {
    let story = in_status(CodonStatus::Running);
    refused_as(
        &story,
        event("CodonStarted", json!({"codonId": "b"})),
        "conflict",
        &[],
    );
    refused_as(
        &story,
        event("RunFailed", json!({"runId": "gone"})),
        "not_found",
        &[],
    );
    for (run, codon) in [("gone", "a"), (RUN, "gone")] {
        let costs = json!({"runId": run, "codonId": codon, "cost": 1, "tokens": tokens(1)});
        refused_as(&story, event("CostsUpdated", costs), "not_found", &[]);
        let checkpoint =
            json!({"runId": run, "codonId": codon, "checkpointType": "error", "sha": "x", "branch": "b"});
        refused_as(&story, event("CheckpointCreated", checkpoint), "not_found", &[]);
    }
}

// covers: STATE-28
#[test]
fn costs_are_taken_while_the_agent_works_and_while_sentinels_drain() {
    let updates = [
        event(
            "CostsUpdated",
            json!({"codonId": "a", "cost": 0.5, "tokens": tokens(5)}),
        ),
        event(
            "CostsIncremented",
            json!({"codonId": "a", "costDelta": 0.5, "tokensDelta": tokens(5)}),
        ),
        event(
            "CodonFinalCostSet",
            json!({"codonId": "a", "finalCost": 0.5, "finalTokens": tokens(5)}),
        ),
        event(
            "AssistantMessageCountUpdated",
            json!({"codonId": "a", "newCount": 4}),
        ),
    ];
    for status in CodonStatus::ALL {
        let takes = matches!(status, CodonStatus::Running | CodonStatus::CompletingSentinels);
        for update in &updates {
            let story = in_status(*status);
            if takes {
                let told = story.tell(update.clone());
                assert_eq!(told.live().totals().total, told.state().total_cost());
            } else {
                refused_as(&story, update.clone(), "conflict", &[]);
            }
        }
    }
    let twice = in_status(CodonStatus::Running)
        .tell(updates[0].clone())
        .tell(updates[1].clone());
    assert_eq!(record(&twice)["currentCost"], json!(1));
    assert_eq!(
        record(&twice.tell(updates[2].clone()))["currentCost"],
        json!(0.5),
        "absolute"
    );
}

// covers: STATE-12, STATE-29
#[test]
fn sentinels_are_replaced_while_the_codon_is_open_and_renamed_when_it_ends() {
    let sentinel = json!({"id": "s", "model": "m", "loadedAt": "2025-01-04T12:00:00Z", "llmCallCount": 1,
        "failedLLMCalls": 0, "totalTriggers": 1, "totalCost": 0.25, "status": "active"});
    let update = event(
        "SentinelStatesUpdated",
        json!({"codonId": "a", "sentinelStates": [sentinel], "totalCost": 0.25}),
    );
    for status in CodonStatus::ALL {
        let story = in_status(*status);
        if *status == CodonStatus::Preparing || status.is_terminal() {
            refused_as(&story, update.clone(), "conflict", &[]);
            continue;
        }
        let loaded = story.tell(update.clone());
        assert_eq!(
            record(&loaded)["sentinels"]["loaded"].as_array().unwrap().len(),
            1
        );
        let metadata = json!({"skippedDuring": status});
        let ended = record(&loaded.tell(step(status.as_str(), "skipped", metadata)));
        assert_eq!(
            ended["sentinels"]["executed"].as_array().unwrap().len(),
            1,
            "{status}"
        );
        assert_eq!(
            (&ended["sentinels"]["totalCost"], &ended["sentinels"]["loaded"]),
            (&json!(0.25), &Value::Null)
        );
    }
}

// covers: STATE-29
#[test]
fn after_its_end_the_sentinels_of_a_codon_may_still_cost_something() {
    let update = |cost: f64, after: bool| {
        let sentinel = json!({"id": "s", "model": "m", "loadedAt": "2025-01-04T12:00:00Z", "llmCallCount": 1,
            "failedLLMCalls": 0, "totalTriggers": 1, "totalCost": cost, "status": "active"});
        let mut data = json!({"codonId": "a", "sentinelStates": [sentinel], "totalCost": cost});
        if after {
            data["afterEnd"] = json!(true);
        }
        event("SentinelStatesUpdated", data)
    };
    let open = in_status(CodonStatus::Running);
    refused_as(
        &open.clone().tell(update(0.25, false)),
        update(0.5, true),
        "conflict",
        &[],
    );
    let ended = |story: Story| story.tell(step("running", "skipped", json!({"skippedDuring": "running"})));
    refused_as(&ended(open.clone()), update(0.5, true), "conflict", &[]);
    let watched = ended(open.tell(update(0.25, false)));
    let told = record(&watched.clone().tell(update(0.5, true)));
    assert_eq!(told["sentinels"]["totalCost"], json!(0.5));
    assert_eq!(told["sentinels"]["executed"][0]["totalCost"], json!(0.5));
    assert_eq!(told["status"], "skipped");
    refused_as(&watched, update(0.5, false), "conflict", &[]);
}

// covers: STATE-21
#[test]
fn after_a_retry_events_mean_the_open_record_and_then_the_newest() {
    let story = Story::new()
        .fresh(RUN)
        .codon("a first", Failed)
        .codon("a second", Open(CodonStatus::Running));
    let costs = event(
        "CostsUpdated",
        json!({"codonId": "a", "cost": 0.5, "tokens": tokens(5)}),
    );
    let told = story.tell(costs.clone());
    let CodonExecution::Failed(first) = &*told.state().runs[0].codons[0] else {
        panic!("the first try failed");
    };
    assert_eq!(first.partial_cost.as_dollars(), 0.0);
    assert_eq!(record(&told)["currentCost"], json!(0.5));
    let ended = told.tell(step("running", "completed", json!({"checkpointSha": "x"})));
    refused_as(&ended, costs, "conflict", &[]);
    let rejected = refused(&ended, step("failed", "running", json!({})));
    assert!(
        rejected.to_string().contains("from completed"),
        "the newest one is meant: {rejected}"
    );
}

// covers: STATE-22
#[test]
fn the_fourteenth_event_is_tolerated() {
    let extended = event(
        "ExtensionCountUpdated",
        json!({"codonId": "a", "extensionCount": 2}),
    );
    let story = in_status(CodonStatus::Running).tell(extended.clone());
    assert_eq!(record(&story)["extensionCount"], 2);
    refused_as(&in_status(CodonStatus::Completed), extended, "conflict", &[]);
}

// covers: STATE-22, STATE-31
#[test]
fn the_document_as_a_whole_changes_by_two_events() {
    let story = Story::new()
        .plan(&["a", "b"])
        .tell(event("InitialCheckpointSet", json!({"sha": "zero"})));
    assert_eq!(
        story.state().initial_checkpoint.as_ref().unwrap().as_str(),
        "zero"
    );
    let entry = json!({"codon": {}, "codonId": "a"});
    let twice = event("PlanReplaced", json!({"executionPlan": [entry, entry]}));
    refused_as(&story, twice, "conflict", &[]);
}

// Ours: a rollback to the history that a fresh run left needs the plan of that history.
// covers: STATE-31, STATE-32
#[test]
fn a_way_back_to_an_earlier_history_takes_its_plan_up_again() {
    let planned = |story: &Story| {
        let plan = story.state().execution_plan.iter();
        plan.map(|entry| entry.codon_id.to_string()).collect::<Vec<_>>()
    };
    let back = |story: Story, run: &str, after: &str| {
        let source = json!({"runId": run, "afterCodon": after, "checkpointSha": "abc"});
        let pending = json!({"rollback": {"source": source, "restored": true}});
        let asked = StateEvent::from_json(json!({"type": "RollbackPending", "data": pending})).unwrap();
        let StateEvent::RollbackPending {
            rollback: Some(rollback),
            ..
        } = &asked
        else {
            panic!("it has a way back")
        };
        let plan = story.state().left_plan_at(&rollback.source).cloned();
        story.tell(StateEvent::RollbackPending {
            rollback: Some(rollback.clone()),
            execution_plan: plan,
        })
    };
    let story = Story::new()
        .fresh("r1")
        .plan(&["a", "b"])
        .codon("a", Completed)
        .run_completes();
    let story = story
        .fresh("r2")
        .plan(&["x"])
        .codon("x", Completed)
        .run_completes();
    let first = back(story, "r1", "a");
    assert_eq!(planned(&first), ["a", "b"]);
    assert_eq!(
        ThreadTip::of(first.state()).next_codon_id().unwrap().as_str(),
        "b"
    );
    let second = back(first.clone(), "r2", "x");
    assert_eq!(planned(&second), ["x"]);
    assert_eq!(planned(&back(second.clone(), "r1", "a")), ["a", "b"]);
    // A run that continues keeps the plan that is in force, and one that starts over leaves it.
    let third = first
        .continues("r3", "r1", Some("a"), "abc")
        .codon("b", Completed)
        .run_completes();
    let third = third
        .fresh("r4")
        .plan(&["z"])
        .codon("z", Completed)
        .run_completes();
    assert_eq!(planned(&back(third.clone(), "r3", "b")), ["a", "b"]);
    assert_eq!(planned(&back(third.clone(), "r2", "x")), ["x"]);
    // Each plan is kept once, and a document is unchanged after it was written and read.
    let kept = third.state().runs.iter().map(|run| run.left_plan.as_ref());
    let kept: Vec<_> = kept.map(|plan| plan.map(|plan| plan.len())).collect();
    assert_eq!(kept, [None, None, Some(1), Some(2)]);
    let read: HankweaveState = serde_json::from_value(serde_json::to_value(third.state()).unwrap()).unwrap();
    assert_eq!(&read, third.state());
}

// Ours: the position at which the next run continues is on record while no codon runs, even if the run that is left has failed. The run that
// continues there clears it.
// covers: STATE-32
#[test]
fn a_way_back_is_pending_until_a_run_takes_it_up() {
    let pending = |run: &str| {
        let source = json!({"runId": run, "afterCodon": "a", "checkpointSha": "a-end"});
        StateEvent::from_json(
            json!({"type": "RollbackPending", "data": {"rollback": {"source": source, "restored": false}}}),
        )
        .unwrap()
    };
    let given_up = StateEvent::from_json(json!({"type": "RollbackPending", "data": {}})).unwrap();
    refused_as(&in_status(CodonStatus::Running), pending(RUN), "conflict", &[]);
    let open = in_status(CodonStatus::Completed);
    let next_codon = || event("CodonStarted", json!({"codonId": "b"}));
    refused_as(&open, pending("stranger"), "not_found", &[]);
    let story = open.tell(pending(RUN));
    refused_as(&story, next_codon(), "conflict", &[]);
    let stays = story.clone().tell(given_up).tell(next_codon());
    assert_eq!(stays.state().pending_rollback, None);
    for left in [story.clone().run_completes(), story.run_crashes()] {
        let rollback = left.state().pending_rollback.clone().unwrap();
        assert_eq!((rollback.source.run_id.as_str(), rollback.restored), (RUN, false));
        let taken_up = left
            .continues("r2", RUN, Some("a"), "a-end")
            .codon("b", Completed);
        assert_eq!(taken_up.state().pending_rollback, None);
    }
}

// covers: STATE-65
#[test]
fn an_answer_is_about_a_codon_of_the_plan_and_comes_before_it_begins() {
    let answer = |codon: &str| {
        let data = json!({"approval": {"codonId": codon, "granted": true}});
        StateEvent::from_json(json!({"type": "ApprovalSet", "data": data})).unwrap()
    };
    refused_as(&in_status(CodonStatus::Running), answer("a"), "conflict", &[]);
    let story = in_status(CodonStatus::Completed).plan(&["a", "b"]);
    refused_as(&story, answer("stranger"), "not_found", &[]);
    let answered = story.tell(answer("b"));
    assert!(answered.state().approval.as_ref().unwrap().granted);
    let withdrawn = StateEvent::from_json(json!({"type": "ApprovalSet", "data": {}})).unwrap();
    assert_eq!(answered.tell(withdrawn).state().approval, None);
}
