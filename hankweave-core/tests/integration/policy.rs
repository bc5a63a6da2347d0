//! What follows a failure (HANK-41 to HANK-47).

use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::codon::CodonStatus;
use hankweave_core::document::StartingConditions;
use hankweave_core::event::StateEvent;
use hankweave_core::hank::{Hank, parse};
use hankweave_core::id::CodonId;
use hankweave_core::plan::{BlockedBy, Decision, Retry, decide, initial_plan, obstacle};
use hankweave_core::testing::{Ending, Story};
use hankweave_core::thread::{self, Recovery, Resume};
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};

/// `a`, and `b` with the given policy.
fn hank(policy: &Value) -> Hank {
    let mut codon =
        json!({"id": "b", "name": "b", "model": "sonnet", "continuationMode": "fresh", "promptText": "x"});
    let first =
        json!({"id": "a", "name": "a", "model": "sonnet", "continuationMode": "fresh", "promptText": "x"});
    codon
        .as_object_mut()
        .unwrap()
        .extend(policy.as_object().unwrap().clone());
    parse(&json!({"hank": [first, codon]}).to_string()).hank.unwrap()
}

fn retrying(config: &Value) -> Hank {
    hank(&json!({"onFailure": "retry", "retryConfig": config}))
}

fn begun(hank: &Hank) -> Story {
    let execution_plan = initial_plan(hank);
    Story::new()
        .tell(StateEvent::PlanReplaced { execution_plan })
        .fresh("r1")
        .codon("a", Ending::Completed)
}

/// `b` runs and fails for this reason.
fn fails(story: Story, reason: &Value) -> Story {
    let story = story.codon("b", Ending::Open(CodonStatus::Running));
    let run = story.state().current_run_id.clone();
    let failed = json!({"type": "CodonTransitioned", "data": {"runId": run, "codonId": "b", "from": "running", "to": "failed",
        "metadata": {"exitCode": 1, "failedDuring": "running", "checkpointSha": "b-end", "failureReason": reason}}});
    story.tell(serde_json::from_value(failed).unwrap())
}

fn overloaded() -> Value {
    json!({"type": "api-error", "retriable": true, "message": "529 overloaded"})
}

fn ask(story: &Story, hank: &Hank) -> Decision {
    decide(story.state(), hank)
}

#[track_caller]
fn retry(decision: Decision) -> Retry {
    match decision {
        Decision::Retry(retry) => retry,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_blocked(decision: &Decision) {
    assert!(
        matches!(decision, Decision::Blocked(BlockedBy::FailedCodon(id)) if id.as_str() == "b"),
        "{decision:?}"
    );
}

// covers: HANK-41
#[test]
fn abort_stops_at_every_failure_and_is_the_default() {
    for hank in [hank(&json!({})), hank(&json!({"onFailure": "abort"}))] {
        for retriable in [true, false] {
            let reason = json!({"type": "api-error", "retriable": retriable});
            assert_blocked(&ask(&fails(begun(&hank), &reason), &hank));
        }
    }
}

// covers: HANK-44
#[test]
fn ignore_goes_on_after_every_failure() {
    let hank = hank(&json!({"onFailure": "ignore"}));
    for retriable in [true, false] {
        let reason = json!({"type": "api-error", "retriable": retriable});
        assert_eq!(ask(&fails(begun(&hank), &reason), &hank), Decision::Done);
    }
}

// covers: HANK-42
#[test]
fn a_permanent_failure_is_not_tried_again() {
    let hank = retrying(&json!({}));
    let reason = json!({"type": "api-error", "retriable": false});
    assert_blocked(&ask(&fails(begun(&hank), &reason), &hank));
}

// covers: HANK-42
#[test]
fn a_retriable_failure_is_tried_again_with_growing_delays_until_the_tries_are_used_up() {
    let hank = retrying(&json!({"maxAttempts": 4, "delayMs": 1000, "maxDelayMs": 5000}));
    let mut story = begun(&hank);
    for (number, seconds) in [(1, 1), (2, 2), (3, 4), (4, 5)] {
        story = fails(story, &overloaded());
        let retry = retry(ask(&story, &hank));
        assert_eq!((retry.number, retry.most), (number, 4));
        assert_eq!(retry.after, Duration::from_secs(seconds));
        assert_eq!(retry.entry.codon_id.as_str(), "b");
    }
    assert_blocked(&ask(&fails(story, &overloaded()), &hank));
}

// covers: HANK-42
#[test]
fn without_a_configuration_there_are_three_retries_after_one_two_and_four_seconds() {
    let hank = hank(&json!({"onFailure": "retry"}));
    let mut story = begun(&hank);
    for seconds in [1, 2, 4] {
        story = fails(story, &overloaded());
        assert_eq!(retry(ask(&story, &hank)).after, Duration::from_secs(seconds));
    }
    assert_blocked(&ask(&fails(story, &overloaded()), &hank));
}

// covers: HANK-43
#[test]
fn a_hint_of_the_provider_replaces_the_delay() {
    let hank = retrying(&json!({"delayMs": 1000, "maxDelayMs": 60000}));
    for (hint, expected) in [
        (7_000, 7_000),
        (61_000, 60_000),
        (3_600_000, 60_000),
        (3_600_001, 1_000),
    ] {
        let reason = json!({"type": "rate-limit", "retriable": true, "retryAfterMs": hint});
        let retry = retry(ask(&fails(begun(&hank), &reason), &hank));
        assert_eq!(retry.after, Duration::from_millis(expected), "{hint}");
    }
}

fn limited(ends_at: &str) -> Value {
    json!({"type": "rate-limit", "retriable": true, "retryAt": ends_at, "interrupted": true, "interruptedBy": "usage-limit"})
}

const LATER: &str = "2099-01-01T00:00:00.000Z";

/// The codon has no fault if its provider has a limit, and any other action would meet that limit as well.
// covers: HANK-46
#[test]
fn the_end_of_a_usage_limit_is_waited_for_whatever_the_policy_says() {
    for policy in [
        json!({}),
        json!({"onFailure": "ignore"}),
        json!({"onFailure": "retry"}),
    ] {
        let hank = hank(&policy);
        let retry = retry(ask(&fails(begun(&hank), &limited(LATER)), &hank));
        let limit = retry.limit.unwrap();
        assert_eq!(limit.ends_at, Timestamp::parse(LATER).unwrap(), "{policy}");
        assert_eq!((limit.waited, retry.number), (Duration::ZERO, 0), "{policy}");
        let before = Timestamp::parse("2098-12-31T23:00:00Z").unwrap();
        assert_eq!(retry.remaining(before), Duration::from_secs(3_600));
    }
}

// covers: HANK-46
#[test]
fn a_wait_for_a_usage_limit_uses_up_no_try() {
    let hank = retrying(&json!({"maxAttempts": 1}));
    let story = fails(fails(begun(&hank), &limited(LATER)), &overloaded());
    assert_eq!(retry(ask(&story, &hank)).number, 1);
    let story = fails(story, &limited(LATER));
    assert!(retry(ask(&story, &hank)).limit.is_some());
    assert_blocked(&ask(&fails(story, &overloaded()), &hank));
}

/// A provider that always answers `soon` is not asked too often, and the sum of its waits is known.
#[test]
fn waits_for_limits_are_added_up_and_become_longer() {
    let hank = hank(&json!({}));
    let mut story = begun(&hank);
    let mut waited = Duration::ZERO;
    for least in [0, 2, 4, 8] {
        story = fails(story, &limited("2000-01-01T00:00:00.000Z"));
        let retry = retry(ask(&story, &hank));
        assert_eq!(retry.remaining(retry.failed_at), Duration::from_secs(least));
        waited = retry.limit.unwrap().waited;
    }
    assert_eq!(waited, Duration::ZERO, "these limits had ended");
    story = fails(fails(story, &limited(LATER)), &limited(LATER));
    assert!(retry(ask(&story, &hank)).limit.unwrap().waited > waited);
}

// The counter is computed from the records, so it survives a restart.
// covers: HANK-45
#[test]
fn a_continuation_goes_on_counting() {
    let hank = retrying(&json!({"maxAttempts": 2}));
    let story = fails(begun(&hank), &overloaded())
        .run_fails()
        .continues("r2", "r1", Some("b"), "b-end");
    assert_eq!(retry(ask(&story, &hank)).number, 1);
    let story = fails(story, &overloaded());
    assert_eq!(retry(ask(&story, &hank)).number, 2);
    assert_blocked(&ask(&fails(story, &overloaded()), &hank));
}

// covers: HANK-45
#[test]
fn a_codon_that_was_stopped_with_its_run_did_not_use_up_a_try() {
    let hank = retrying(&json!({"maxAttempts": 1, "delayMs": 9000}));
    let stopped = json!({"type": "unknown", "retriable": true, "interrupted": true});
    let story = fails(begun(&hank), &stopped);
    let again = retry(ask(&story, &hank));
    assert_eq!((again.number, again.after), (0, Duration::ZERO));
    let story = fails(story, &overloaded());
    assert_eq!(retry(ask(&story, &hank)).number, 1);
    assert_blocked(&ask(&fails(story, &overloaded()), &hank));
}

#[test]
fn what_was_run_again_from_an_earlier_point_starts_to_count_anew() {
    let hank = retrying(&json!({"maxAttempts": 1}));
    let story = fails(fails(begun(&hank), &overloaded()), &overloaded());
    assert_blocked(&ask(&story, &hank));
    let story = story.run_fails().continues("r2", "r1", Some("a"), "a-end");
    assert!(matches!(ask(&story, &hank), Decision::Start(_)));
    assert_eq!(retry(ask(&fails(story, &overloaded()), &hank)).number, 1);
}

// covers: HANK-47
#[test]
fn the_wait_is_counted_from_the_failure_and_a_clock_set_back_does_not_prolong_it() {
    let hank = retrying(&json!({"delayMs": 10_000}));
    let retry = retry(ask(&fails(begun(&hank), &overloaded()), &hank));
    let at = |millis: i64| Timestamp::from_millis(retry.failed_at.as_millis() + millis);
    let left = [-5_000, 0, 4_000, 10_000, 99_000].map(|millis| retry.remaining(at(millis)).as_secs());
    assert_eq!(left, [10, 10, 6, 0, 0]);
}

fn ignoring() -> Hank {
    hank(&json!({"onFailure": "ignore"}))
}

/// A codon that was stopped with its run has not failed by itself: ignoring that would lose it.
#[test]
fn a_codon_that_was_stopped_with_its_run_is_run_again_and_not_ignored() {
    let hank = ignoring();
    let reason = json!({"type": "unknown", "retriable": true, "interrupted": true, "message": "SIGTERM"});
    let story = fails(begun(&hank), &reason).run_fails();
    let again = retry(ask(
        &story.clone().continues("r2", "r1", Some("b"), "b-end"),
        &hank,
    ));
    assert_eq!(
        (again.number, again.after, again.entry.codon_id.as_str()),
        (0, Duration::ZERO, "b")
    );
    assert_eq!(retry(ask(&story, &hank)).number, 0);
}

// covers: HANK-44
#[test]
fn a_codon_that_a_crash_cut_off_is_not_ignored() {
    let hank = ignoring();
    let story = begun(&hank)
        .codon("b", Ending::Open(CodonStatus::Running))
        .run_crashes();
    assert_blocked(&ask(&story, &hank));
}

/// `b` is interrupted by this, and its run with it.
fn interrupted(hank: &Hank, by: &str) -> Story {
    let reason = json!({"type": "unknown", "retriable": true, "interrupted": true, "interruptedBy": by});
    let by = serde_json::from_value(json!(by)).unwrap();
    fails(begun(hank), &reason).run_pauses(by)
}

fn threaded(story: &Story) -> thread::ExecutionThread {
    thread::build(story.state(), None, None)
}

// `nextCodonId` is null when everything is complete or has failed, and a run that was interrupted is neither.
// covers: STATE-54
#[test]
fn after_an_interruption_the_codon_that_it_cut_off_is_next_whatever_its_policy() {
    for policy in ["abort", "ignore", "retry"] {
        let hank = hank(&json!({"onFailure": policy}));
        for by in ["stop", "ceiling", "usage-limit"] {
            let story = interrupted(&hank, by);
            let thread = threaded(&story);
            assert_eq!(
                thread.next_codon_id.as_ref().map(CodonId::as_str),
                Some("b"),
                "{by}"
            );
            assert!(!thread.failed && !thread.has_running_codon, "{by}");
            let again = retry(ask(&story, &hank));
            assert_eq!((again.number, again.after), (0, Duration::ZERO), "{by}");
            // Only a stop leaves a choice, and only where a failure would block.
            let chooses = by == "stop" && policy == "abort";
            let obstacle = obstacle(story.state(), &thread, &hank);
            assert_eq!(obstacle.is_some(), chooses, "{by}, {policy}");
        }
    }
}

// An ordinary failure leaves nothing next, also where the newest codon has completed.
#[test]
fn a_run_that_paused_between_two_codons_goes_on_with_the_next_and_one_that_failed_does_not() {
    let hank = hank(&json!({}));
    let next = |story: &Story| threaded(story).next_codon_id.map(|id| id.to_string());
    assert_eq!(next(&begun(&hank).run_fails()), None);
    let paused = begun(&hank).run_pauses(InterruptedBy::Ceiling);
    assert_eq!(next(&paused).as_deref(), Some("b"));
    assert_eq!(next(&fails(begun(&hank), &overloaded()).run_fails()), None);
}

// State after an interruption: the session of its agent, and the position at which a run continues by default.
#[test]
fn an_interrupted_codon_has_a_session_to_go_on_with_and_a_failed_one_has_not() {
    let hank = hank(&json!({}));
    let found = |story: &Story| {
        let thread = threaded(story);
        (
            thread.own_session().map(ToString::to_string),
            thread.default_recovery(),
        )
    };
    let session = || Some("b-session".to_owned());
    assert_eq!(
        found(&interrupted(&hank, "ceiling")),
        (session(), Recovery::Session)
    );
    assert_eq!(
        found(&interrupted(&hank, "stop")),
        (session(), Recovery::LastSuccess)
    );
    let crashed = begun(&hank)
        .codon("b", Ending::Open(CodonStatus::Running))
        .run_crashes();
    assert_eq!(found(&crashed), (session(), Recovery::LastSuccess));
    let lost = fails(
        begun(&hank),
        &json!({"type": "unknown", "retriable": true, "interrupted": true, "interruptedBy": "lost-session"}),
    );
    assert_eq!(found(&lost).0, None);
    assert_eq!(found(&fails(begun(&hank), &overloaded()).run_fails()).0, None);
}

// A crash after the run was opened and before its codon started leaves nothing to choose: the choice is on record.
// covers: RUN-3
#[test]
fn a_run_that_was_opened_for_a_session_goes_on_with_that_codon_until_it_has_begun() {
    let hank = hank(&json!({}));
    let crashed = begun(&hank)
        .codon("b", Ending::Open(CodonStatus::Running))
        .run_crashes();
    let Some(Resume::Session(source, session)) = threaded(&crashed).in_session() else {
        panic!("there is a session");
    };
    assert_eq!(source.after_codon.as_ref().map(CodonId::as_str), Some("b"));
    let opened = |story: Story| {
        let started = json!({"type": "RunStarted", "data": {"runId": "r2", "runFolder": "/project/.hankweave/runs/r2",
            "gitBranch": "run-r2", "serverPid": 7,
            "startingConditions": StartingConditions::in_session(source.clone(), session.clone())}});
        story.tell(serde_json::from_value(started).unwrap())
    };
    for story in [opened(crashed.clone()), opened(crashed.clone()).run_crashes()] {
        let thread = threaded(&story);
        assert_eq!(thread.next_codon_id.as_ref().map(CodonId::as_str), Some("b"));
        assert!(!thread.failed);
        assert!(
            matches!(decide(story.state(), &hank), Decision::Start(entry) if entry.codon_id.as_str() == "b")
        );
        assert_eq!(obstacle(story.state(), &thread, &hank), None);
        let id = thread.next_codon_id.unwrap();
        assert_eq!(thread::resumed_session(story.state(), &id), Some(&session));
    }
    // Once it has started, its record counts.
    let ended = opened(crashed).codon("b", Ending::Completed);
    assert_eq!(ask(&ended, &hank), Decision::Done);
    assert_eq!(
        thread::resumed_session(ended.state(), &"b".parse().unwrap()),
        None
    );
}

// A run is only interrupted while it continues, so a failure that it continued after counts no more.
// covers: STATE-53, STATE-54
#[test]
fn a_run_that_was_interrupted_behind_a_failure_goes_on_where_its_policy_says() {
    for (policy, expected) in [("ignore", Some("c")), ("retry", Some("b")), ("abort", None)] {
        let codon = |id: &str, policy: &str| json!({"id": id, "name": id, "model": "sonnet", "continuationMode": "fresh", "promptText": "x", "onFailure": policy});
        let codons = [codon("a", "abort"), codon("b", policy), codon("c", "abort")];
        let hank = parse(&json!({ "hank": codons }).to_string()).hank.unwrap();
        let failed = fails(begun(&hank), &overloaded());
        assert_eq!(threaded(&failed.clone().run_fails()).next_codon_id, None);
        let paused = failed.run_pauses(InterruptedBy::Ceiling);
        // Another run that pauses before it has a codon changes nothing.
        let again = paused.clone().continues("r2", "r1", Some("b"), "b-end");
        for story in [paused, again.run_pauses(InterruptedBy::Stop)] {
            let thread = threaded(&story);
            let next = thread.next_codon_id.as_ref().map(CodonId::as_str);
            assert_eq!((next, thread.failed), (expected, expected.is_none()), "{policy}");
        }
    }
}
