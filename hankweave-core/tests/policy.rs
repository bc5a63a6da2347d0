//! What follows a failure ("hank configuration", section 6.4).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use hankweave_core::codon::CodonStatus;
use hankweave_core::event::StateEvent;
use hankweave_core::hank::{Hank, parse};
use hankweave_core::plan::{BlockedBy, Decision, Retry, decide, initial_plan};
use hankweave_core::testing::{Ending, Story};
use hankweave_core::thread;
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
    decide(story.state(), &thread::build(story.state(), None, None), hank)
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

// hank-config.md 6.4, row `abort`: both kinds of reasons stop the run.
#[test]
fn abort_stops_at_every_failure_and_is_the_default() {
    for hank in [hank(&json!({})), hank(&json!({"onFailure": "abort"}))] {
        for retriable in [true, false] {
            let reason = json!({"type": "api-error", "retriable": retriable});
            assert_blocked(&ask(&fails(begun(&hank), &reason), &hank));
        }
    }
}

// hank-config.md 6.4, row `ignore`: both kinds of reasons go on, and a run whose last codon failed so has done everything.
#[test]
fn ignore_goes_on_after_every_failure() {
    let hank = hank(&json!({"onFailure": "ignore"}));
    for retriable in [true, false] {
        let reason = json!({"type": "api-error", "retriable": retriable});
        assert_eq!(ask(&fails(begun(&hank), &reason), &hank), Decision::Done);
    }
}

// hank-config.md 6.4, row `retry`, reason permanent.
#[test]
fn a_permanent_failure_is_not_tried_again() {
    let hank = retrying(&json!({}));
    let reason = json!({"type": "api-error", "retriable": false});
    assert_blocked(&ask(&fails(begun(&hank), &reason), &hank));
}

// hank-config.md 6.4, row `retry`: up to maxAttempts, the delay doubles and is clamped to maxDelayMs.
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

// hank-config.md 6.4: a hint of the provider counts, is clamped too, and is ignored above an hour.
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

// The counter is computed from the records, so it survives a restart.
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

#[test]
fn the_wait_is_counted_from_the_failure_and_a_clock_set_back_does_not_prolong_it() {
    let hank = retrying(&json!({"delayMs": 10_000}));
    let retry = retry(ask(&fails(begun(&hank), &overloaded()), &hank));
    let at = |millis: i64| hankweave_core::time::Timestamp::from_millis(retry.failed_at.as_millis() + millis);
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

#[test]
fn a_codon_that_a_crash_cut_off_is_not_ignored() {
    let hank = ignoring();
    let story = begun(&hank)
        .codon("b", Ending::Open(CodonStatus::Running))
        .run_crashes();
    assert_blocked(&ask(&story, &hank));
}
