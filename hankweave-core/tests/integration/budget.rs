//! What a codon may use (HANK-30 to HANK-39).

use std::time::Duration;

use hankweave_core::budget::{Ceiling, CeilingUse, CodonLimits, Meter, RunBudgets, limits, summary};
use hankweave_core::codon::{BudgetExceeded, CodonStatus};
use hankweave_core::cost::{ModelUsage, TokenUsage, Usd};
use hankweave_core::event::StateEvent;
use hankweave_core::hank::{Hank, OnExceeded, parse};
use hankweave_core::id::{CodonId, RunId, SessionId};
use hankweave_core::plan::{Decision, decide, initial_plan};
use hankweave_core::testing::{Ending, Story};
use hankweave_core::thread::{self, ThreadTip};
use hankweave_core::view::RunView;
use hankweave_core::wire::{Event, RunSnapshot};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A codon with this budget.
fn codon(id: &str, budget: &Value) -> Value {
    let mut codon =
        json!({"id": id, "name": id, "model": "sonnet", "continuationMode": "fresh", "promptText": "x"});
    if !budget.is_null() {
        codon["budget"] = budget.clone();
    }
    codon
}

fn free(id: &str) -> Value {
    codon(id, &Value::Null)
}

fn hank(budget: &Value, items: &[Value]) -> Hank {
    let mut hank = json!({"hank": items});
    if !budget.is_null() {
        hank["overrides"] = json!({"budget": budget});
    }
    let parsed = parse(&hank.to_string());
    parsed.hank.unwrap_or_else(|| panic!("{:?}", parsed.problems))
}

fn loop_of(limit: u32, budget: &Value, codons: &[Value]) -> Value {
    let terminate_on = json!({"type": "iterationLimit", "limit": limit});
    let mut found =
        json!({"type": "loop", "id": "l", "name": "L", "terminateOn": terminate_on, "codons": codons});
    if !budget.is_null() {
        found["budget"] = budget.clone();
    }
    found
}

fn begun(hank: &Hank) -> Story {
    let execution_plan = initial_plan(hank);
    Story::new()
        .tell(StateEvent::PlanReplaced { execution_plan })
        .fresh("r1")
}

/// A codon runs, costs `dollars` dollars, and ends.
fn spends(story: Story, id: &str, dollars: f64, to: CodonStatus) -> Story {
    let story = story.codon(id, Ending::Open(CodonStatus::Running));
    let run_id = story.state().current_run_id.clone().unwrap();
    let metadata = match to {
        CodonStatus::Completed => json!({"checkpointSha": format!("{id}-end")}),
        CodonStatus::Failed => {
            json!({"exitCode": 1, "failedDuring": "running", "checkpointSha": format!("{id}-end"),
            "failureReason": {"type": "api-error", "retriable": true}})
        }
        _ => json!({"skippedDuring": "running", "checkpointSha": format!("{id}-end")}),
    };
    let end = json!({"type": "CodonTransitioned", "data": {"runId": run_id, "codonId": id, "from": "running", "to": to,
        "metadata": metadata}});
    let costs = StateEvent::CostsUpdated {
        run_id,
        codon_id: CodonId::new(id).unwrap(),
        cost: usd(dollars),
        tokens: TokenUsage::ZERO,
    };
    story.tell(costs).tell(serde_json::from_value(end).unwrap())
}

fn completes(story: Story, id: &str, dollars: f64) -> Story {
    spends(story, id, dollars, CodonStatus::Completed)
}

fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars).unwrap()
}

/// Time at work of the codons of the newest run.
fn worked(story: &Story) -> Duration {
    let codons = &story.state().runs[0].codons;
    codons.iter().filter_map(|codon| codon.duration()).sum()
}

fn ask_under(ceiling: Ceiling, story: &Story, hank: &Hank, id: &str) -> CodonLimits {
    let plan = &story.state().execution_plan;
    let entry = plan.iter().find(|entry| entry.codon_id.as_str() == id).unwrap();
    limits(hank, ceiling.or_from_hank(hank), story.state(), entry)
}

fn ask(story: &Story, hank: &Hank, id: &str) -> CodonLimits {
    ask_under(Ceiling::default(), story, hank, id)
}

#[track_caller]
fn assert_dollars(limits: CodonLimits, expected: f64) {
    assert_eq!(limits.dollars, Some(usd(expected)));
}

/// Puts the next iteration of the loop into the plan.
fn replanned(story: Story, hank: &Hank) -> Story {
    match decide(story.state(), hank) {
        Decision::Extend(extension) => story.tell(StateEvent::PlanExtended { extension }),
        other => panic!("{other:?}"),
    }
}

// covers: HANK-30
#[test]
fn the_command_line_replaces_the_ceiling_of_the_hank() {
    let hank = hank(&json!({"maxDollars": 2, "maxTimeSeconds": 50}), &[free("a")]);
    let story = begun(&hank);
    let own = ask(&story, &hank, "a");
    assert_dollars(own, 2.0);
    assert_eq!(own.time, Some(Duration::from_secs(50)));
    let ceiling = Ceiling {
        max_dollars: Some(usd(7.0)),
        max_time: None,
    };
    let replaced = ask_under(ceiling, &story, &hank, "a");
    assert_dollars(replaced, 7.0);
    assert_eq!(replaced.time, Some(Duration::from_secs(50)));
}

#[test]
fn without_a_budget_nothing_is_limited() {
    let hank = hank(&Value::Null, &[free("a"), loop_of(2, &Value::Null, &[free("b")])]);
    let story = completes(begun(&hank), "a", 100.0);
    assert_eq!(ask(&story, &hank, "b#0"), CodonLimits::default());
    assert_eq!(summary(&hank, Ceiling::default(), story.state()), None);
}

// covers: HANK-31
#[test]
fn in_a_shared_pool_whoever_comes_first_may_use_all_that_remains() {
    let hank = hank(&json!({"maxDollars": 2}), &[free("a"), free("b"), free("c")]);
    let story = begun(&hank);
    assert_dollars(ask(&story, &hank, "a"), 2.0);
    let story = completes(story, "a", 0.5);
    assert_dollars(ask(&story, &hank, "b"), 1.5);
    let story = completes(story, "b", 1.75);
    assert_dollars(ask(&story, &hank, "c"), 0.0);
}

// covers: HANK-32
#[test]
fn in_a_proportional_pool_what_is_left_flows_back() {
    let budget = json!({"maxDollars": 10, "allocation": "proportional", "shares": {"a": 0.5}});
    let items = [
        free("a"),
        free("b"),
        codon("c", &json!({"maxDollars": 9})),
        free("d"),
    ];
    let hank = hank(&budget, &items);
    let story = begun(&hank);
    assert_dollars(ask(&story, &hank, "a"), 5.0);
    let story = completes(story, "a", 1.0);
    assert_dollars(ask(&story, &hank, "b"), 2.5);
    let story = completes(story, "b", 2.5);
    assert_dollars(ask(&story, &hank, "c"), 5.0);
    let story = completes(story, "c", 4.0);
    assert_dollars(ask(&story, &hank, "d"), 2.5);
}

// covers: HANK-32
#[test]
fn a_share_is_at_most_what_remains() {
    let budget = json!({"maxDollars": 10, "allocation": "proportional", "shares": {"b": 0.5}});
    let hank = hank(&budget, &[free("a"), free("b")]);
    let story = completes(begun(&hank), "a", 8.0);
    assert_dollars(ask(&story, &hank, "b"), 2.0);
}

// covers: HANK-32
#[test]
fn in_a_strict_pool_what_is_left_goes_to_nobody() {
    let budget = |allocation: &str| json!({"maxDollars": 10, "allocation": allocation, "shares": {"a": 0.8}});
    for (allocation, expected) in [("proportional", 1.0), ("proportional-strict", 1.0)] {
        let hank = hank(&budget(allocation), &[free("a"), free("b"), free("c")]);
        assert_dollars(ask(&completes(begun(&hank), "a", 1.0), &hank, "b"), expected);
        // c shares the rest with no other codon. With a strict allocation the half of b is lost, though it was not used.
        let story = completes(completes(begun(&hank), "a", 1.0), "b", 0.0);
        let left = if allocation == "proportional" { 2.0 } else { 1.0 };
        assert_dollars(ask(&story, &hank, "c"), left);
    }
}

// covers: HANK-33
#[test]
fn a_limit_of_its_own_only_lowers_what_a_codon_may_use() {
    for (own, expected) in [(1.0, 1.0), (5.0, 2.0)] {
        let hank = hank(
            &json!({"maxDollars": 2}),
            &[codon("a", &json!({"maxDollars": own}))],
        );
        assert_dollars(ask(&begun(&hank), &hank, "a"), expected);
    }
    let alone = hank(&Value::Null, &[codon("a", &json!({"maxDollars": 3}))]);
    assert_dollars(ask(&begun(&alone), &alone, "a"), 3.0);
}

// covers: HANK-34
#[test]
fn a_loop_has_an_envelope_for_all_its_iterations() {
    let inner = [codon("b", &json!({"maxDollars": 0.75})), free("c")];
    let items = [free("a"), loop_of(3, &json!({"maxDollars": 2}), &inner)];
    let hank = hank(&json!({"maxDollars": 10}), &items);
    let story = completes(begun(&hank), "a", 1.0);
    assert_dollars(ask(&story, &hank, "b#0"), 0.75);
    assert_dollars(ask(&story, &hank, "c#0"), 2.0);
    let story = completes(completes(story, "b#0", 0.75), "c#0", 0.5);
    let story = replanned(story, &hank);
    assert_dollars(ask(&story, &hank, "b#1"), 0.75);
    assert_dollars(ask(&completes(story, "b#1", 0.5), &hank, "c#1"), 0.25);
}

// covers: HANK-34
#[test]
fn the_envelope_of_a_loop_is_what_the_hank_allots_to_it_or_has_left() {
    let budget = json!({"maxDollars": 10, "allocation": "proportional", "shares": {"l": 0.3, "a": 0.7}});
    let items = [free("a"), loop_of(2, &json!({"maxDollars": 5}), &[free("b")])];
    let proportional = hank(&budget, &items);
    let story = completes(begun(&proportional), "a", 1.0);
    assert_dollars(ask(&story, &proportional, "b#0"), 3.0);
    let shared = hank(&json!({"maxDollars": 4}), &items);
    let story = completes(begun(&shared), "a", 1.5);
    assert_dollars(ask(&story, &shared, "b#0"), 2.5);
}

#[test]
fn the_codons_of_a_loop_share_its_envelope_over_all_iterations() {
    let budget =
        json!({"maxDollars": 4, "allocation": "proportional-strict", "shares": {"b": 0.25, "c": 0.75}});
    let hank = hank(&Value::Null, &[loop_of(2, &budget, &[free("b"), free("c")])]);
    let story = completes(begun(&hank), "b#0", 0.75);
    assert_dollars(ask(&story, &hank, "c#0"), 3.0);
    let story = replanned(completes(story, "c#0", 1.0), &hank);
    assert_dollars(ask(&story, &hank, "b#1"), 0.25);
    assert_dollars(ask(&story, &hank, "c#1"), 2.0);
}

// In a story a second passes with every event.
// covers: HANK-35
#[test]
fn time_is_the_least_of_what_codon_loop_and_hank_have_left() {
    let seconds = |limits: CodonLimits| limits.time.map(|time| time.as_secs());
    let inner = [codon("b", &json!({"maxTimeSeconds": 40}))];
    let items = [
        free("a"),
        loop_of(2, &json!({"maxTimeSeconds": 30}), &inner),
        free("d"),
    ];
    let hank = hank(&json!({"maxTimeSeconds": 100}), &items);
    let story = begun(&hank);
    assert_eq!(seconds(ask(&story, &hank, "a")), Some(100));
    assert_eq!(seconds(ask(&story, &hank, "b#0")), Some(30));
    let story = completes(story, "a", 0.0);
    let worked = worked(&story).as_secs();
    assert!(worked >= 2);
    assert_eq!(seconds(ask(&story, &hank, "d")), Some(100 - worked));
    let story = completes(story, "b#0", 0.0);
    let loop_time = story.state().runs[0].codons[1]
        .end_time()
        .unwrap()
        .since(*story.state().runs[0].codons[1].start_time());
    let story = replanned(story, &hank);
    assert_eq!(seconds(ask(&story, &hank, "b#1")), Some(30 - loop_time.as_secs()));
}

// In a story a second passes with every event.
// covers: HANK-35
#[test]
fn time_between_codons_counts_for_nobody() {
    let hank = hank(&json!({"maxTimeSeconds": 100}), &[free("a"), free("b")]);
    let mut story = completes(begun(&hank), "a", 0.0);
    let left = Duration::from_secs(100) - worked(&story);
    let mut carried = RunBudgets::of(&hank, Ceiling::default().or_from_hank(&hank));
    for _ in 0..150 {
        story = story.tell(StateEvent::ApprovalSet { approval: None });
        let entry = &story.state().execution_plan[1];
        assert_eq!(carried.limits(story.state(), entry).time, Some(left));
    }
    assert_eq!(ask(&story, &hank, "b").time, Some(left));
    let told = summary(&hank, Ceiling::default().or_from_hank(&hank), story.state()).unwrap();
    assert_eq!(told.elapsed, told.rows[0].took);
    let view = RunView::of_state(story.state(), &thread::build(story.state(), None, None), 0);
    assert_eq!(view.worked(story.events().last().unwrap().at), told.elapsed);
    let again = story.run_crashes().continues("r2", "r1", Some("a"), "a-end");
    assert_eq!(ask(&again, &hank, "b").time, Some(left));
}

/// The times of records come from a clock that a user can set; the measured duration counts.
// covers: HANK-35
#[test]
fn a_clock_that_was_set_decides_nothing() {
    let hank = hank(&json!({"maxTimeSeconds": 60}), &[free("a"), free("b")]);
    for end_time in ["2099-01-01T00:00:00.000Z", "1999-01-01T00:00:00.000Z"] {
        let story = begun(&hank).codon("a", Ending::Open(CodonStatus::Running));
        let end = json!({"type": "CodonTransitioned", "data": {"runId": "r1", "codonId": "a", "from": "running", "to": "completed",
            "metadata": {"checkpointSha": "a-end", "endTime": end_time}}});
        let end: StateEvent = serde_json::from_value(end).unwrap();
        let took = Duration::from_secs(7);
        let story = story.tell(end.with_measured(took)).run_fails();
        assert_eq!(story.state().runs[0].codons[0].duration(), Some(took));
        let story = story.continues("r2", "r1", Some("a"), "a-end");
        let plan = &story.state().execution_plan;
        let ceiling = Ceiling::default().or_from_hank(&hank);
        let left = limits(&hank, ceiling, story.state(), &plan[1]).time;
        assert_eq!(left, Some(Duration::from_secs(60) - took));
        let told = summary(&hank, ceiling, story.state()).unwrap();
        assert_eq!((told.rows[0].took, told.elapsed), (took, took));
        let thread = thread::build(story.state(), None, None);
        let told = RunSnapshot::of(story.state(), &thread, Vec::new(), 0);
        assert_eq!(told.total_time, 7_000);
    }
}

// The time after a crash belongs to no run.
// covers: HANK-39
#[test]
fn the_time_of_earlier_runs_counts_and_that_between_them_does_not() {
    let hank = hank(&json!({"maxTimeSeconds": 100}), &[free("a"), free("b")]);
    let ended = completes(begun(&hank), "a", 0.0).run_completes();
    let first = worked(&ended);
    let story = ended.continues("r2", "r1", Some("a"), "a-end");
    assert_eq!(
        ask(&story, &hank, "b").time,
        Some(Duration::from_secs(100) - first)
    );

    let open = completes(begun(&hank), "a", 0.0).codon("b", Ending::Open(CodonStatus::Running));
    let known = worked(&open);
    let crashed = open.run_crashes();
    let crash = crashed.state().runs[0].end_time.unwrap();
    assert!(crash.since(*crashed.state().runs[0].codons[1].start_time()) > Duration::ZERO);
    let story = crashed.continues("r2", "r1", Some("a"), "a-end");
    assert_eq!(
        ask(&story, &hank, "b").time,
        Some(Duration::from_secs(100) - known)
    );
}

// Another attempt has all of them again.
// covers: HANK-36
#[test]
fn token_limits_are_those_of_the_codon_for_every_execution() {
    let hank = hank(
        &Value::Null,
        &[codon("a", &json!({"maxOutputTokens": 7, "maxContextTokens": 9}))],
    );
    let story = spends(begun(&hank), "a", 1.0, CodonStatus::Failed);
    let found = ask(&story, &hank, "a");
    assert_eq!((found.output_tokens, found.context_tokens), (Some(7), Some(9)));
}

// An execution that continues in its session is one execution.
// covers: HANK-36
#[test]
fn what_was_written_in_a_session_counts_when_the_codon_goes_on_there() {
    let hank = hank(&Value::Null, &[codon("a", &json!({"maxOutputTokens": 7}))]);
    let story = begun(&hank).codon("a", Ending::Open(CodonStatus::Running));
    let costs = StateEvent::CostsUpdated {
        run_id: story.state().current_run_id.clone().unwrap(),
        codon_id: CodonId::new("a").unwrap(),
        cost: usd(1.0),
        tokens: TokenUsage {
            output_tokens: 5,
            ..TokenUsage::ZERO
        },
    };
    let story = story.tell(costs);
    let told = ThreadTip::of(story.state());
    let left = |id: &str, session: &SessionId| {
        let found = ask(&story, &hank, "a").going_on(&told, &CodonId::new(id).unwrap(), session);
        found.output_tokens
    };
    let session = told.newest().unwrap().codon.agent_session_id().unwrap();
    assert_eq!(left("a", session), Some(2));
    assert_eq!(left("another", session), Some(7));
    assert_eq!(left("a", &SessionId::new("another").unwrap()), Some(7));
}

// covers: HANK-38
#[test]
fn the_innermost_word_decides_what_follows_a_limit() {
    let policy = |whole: Option<&str>, around: Option<&str>, own: Option<&str>| {
        let budget = |policy: Option<&str>| match policy {
            Some(policy) => json!({"maxTimeSeconds": 5, "onExceeded": policy}),
            None => json!({"maxTimeSeconds": 5}),
        };
        let items = [loop_of(2, &budget(around), &[codon("b", &budget(own))])];
        let hank = hank(&budget(whole), &items);
        ask(&begun(&hank), &hank, "b#0").on_exceeded
    };
    assert_eq!(policy(None, None, None), None);
    assert_eq!(policy(Some("fail"), None, None), Some(OnExceeded::Fail));
    assert_eq!(
        policy(Some("fail"), Some("complete"), None),
        Some(OnExceeded::Complete)
    );
    assert_eq!(policy(None, None, Some("pause")), Some(OnExceeded::Pause));
    assert_eq!(
        policy(Some("complete"), Some("complete"), Some("fail")),
        Some(OnExceeded::Fail)
    );
}

// covers: HANK-38
#[test]
fn where_nobody_says_anything_the_whole_pauses_and_everything_else_is_done() {
    let cost = BudgetExceeded::of_money(Usd::ZERO, Usd::ZERO);
    let time = BudgetExceeded::of_time(Duration::ZERO, Duration::ZERO);
    let of = |whole: f64, around: &Value, own: &Value, allocation: &str| {
        let items = [codon("a", own), loop_of(2, around, &[codon("b", own), free("c")])];
        let hank = hank(
            &json!({"maxDollars": whole, "maxTimeSeconds": whole, "allocation": allocation}),
            &items,
        );
        let story = begun(&hank);
        ["a", "b#0"].map(|id| {
            let limits = ask(&story, &hank, id);
            (limits.consequence(&cost), limits.consequence(&time))
        })
    };
    use OnExceeded::{Complete, Pause};
    let null = Value::Null;
    let two = json!({"maxDollars": 2, "maxTimeSeconds": 2});
    assert_eq!(of(1.0, &null, &null, "shared"), [(Pause, Pause); 2]);
    // Its own limit is lower, or equal: the codon has done what it may, and the run pauses before the next codon.
    assert_eq!(of(3.0, &null, &two, "shared"), [(Complete, Complete); 2]);
    assert_eq!(of(2.0, &null, &two, "shared"), [(Complete, Complete); 2]);
    assert_eq!(of(1.0, &null, &two, "shared"), [(Pause, Pause); 2]);
    assert_eq!(
        of(3.0, &two, &null, "shared"),
        [(Pause, Pause), (Complete, Complete)]
    );
    // A part of the whole is a limit of the codon: the others have theirs.
    assert_eq!(
        of(3.0, &null, &null, "proportional"),
        [(Complete, Pause), (Complete, Pause)]
    );
}

// Where the whole is used up, nothing is skipped for it.
// covers: HANK-40
#[test]
fn a_codon_for_which_the_whole_has_nothing_left_pauses_and_more_money_lets_it_go_on() {
    let hank = hank(&json!({"maxDollars": 2}), &[free("a"), free("b")]);
    let story = spends(begun(&hank), "a", 2.335, CodonStatus::Completed);
    let limits = ask(&story, &hank, "b");
    let nothing_left = Meter::new(limits).exceeded(Duration::ZERO).unwrap();
    assert_eq!(limits.consequence(&nothing_left), OnExceeded::Pause);
    let ceiling = Ceiling::default().or_from_hank(&hank);
    let whole = CeilingUse::of(ceiling, story.state());
    assert_eq!(whole.to_string(), "used $2.3350 of $2.0000");
    let raised = whole.more();
    assert_eq!(
        (raised.max_dollars, raised.max_time),
        (Some(Usd::from_micros(4_340_000)), None)
    );
}

// covers: HANK-33
#[test]
fn what_earlier_tries_used_counts() {
    let budget = json!({"maxDollars": 10, "allocation": "proportional", "shares": {"a": 0.5}});
    let hank = hank(&budget, &[codon("a", &json!({"maxDollars": 4})), free("b")]);
    let story = spends(begun(&hank), "a", 1.5, CodonStatus::Failed);
    assert_dollars(ask(&story, &hank, "a"), 2.5);
    let story = spends(story, "a", 2.5, CodonStatus::Failed);
    assert_dollars(ask(&story, &hank, "a"), 0.0);
    assert_dollars(ask(&story, &hank, "b"), 5.0);
}

/// Spent money stays spent, that of skipped codons and of runs that a rollback left included. A fresh start begins at zero.
// covers: HANK-39
#[test]
fn everything_that_was_spent_since_the_thread_began_counts() {
    let hank = hank(&json!({"maxDollars": 10}), &[free("a"), free("b")]);
    let story = completes(begun(&hank), "a", 1.0);
    let story = spends(story, "b", 2.0, CodonStatus::Skipped).run_completes();
    let back = completes(story.clone().continues("r2", "r1", Some("a"), "a-end"), "b", 3.0).run_completes();
    let again = back.continues("r3", "r1", Some("a"), "a-end");
    assert_dollars(ask(&again, &hank, "b"), 4.0);
    let anew = again.run_fails().fresh("r4");
    assert_dollars(ask(&anew, &hank, "a"), 10.0);
    let old = anew.run_fails().continues("r5", "r1", Some("a"), "a-end");
    assert_dollars(ask(&old, &hank, "b"), 4.0);
}

// covers: HANK-39
#[test]
fn a_codon_that_comes_again_after_going_back_has_its_own_limit_again() {
    let hank = hank(
        &json!({"maxDollars": 10}),
        &[free("a"), codon("b", &json!({"maxDollars": 3}))],
    );
    let story = completes(completes(begun(&hank), "a", 1.0), "b", 3.0).run_completes();
    let back = story.continues("r2", "r1", Some("a"), "a-end");
    assert_dollars(ask(&back, &hank, "b"), 3.0);
}

// covers: RUN-16
#[test]
fn the_summary_tells_what_each_codon_might_use_and_what_it_used() {
    let hank = hank(
        &json!({"maxDollars": 5}),
        &[free("a"), codon("b", &json!({"maxOutputTokens": 9})), free("c")],
    );
    let story = spends(begun(&hank), "a", 1.0, CodonStatus::Failed);
    let story = completes(story, "a", 0.5);
    let story = spends(story, "b", 2.0, CodonStatus::Skipped);
    let ceiling = Ceiling::default().or_from_hank(&hank);
    let event = Event::from(summary(&hank, ceiling, story.state()).unwrap());
    let json = serde_json::to_value(&event).unwrap();
    assert_eq!(json["type"], "budget.summary");
    let data = &json["data"];
    assert_eq!(
        (&data["ceiling"], &data["allocation"]),
        (&json!({"maxDollars": 5}), &json!("shared"))
    );
    let row = |index: usize| {
        let row = &data["rows"][index];
        (
            row["codonId"].clone(),
            row["status"].clone(),
            row["budget"].clone(),
            row["actual"]["dollars"].clone(),
        )
    };
    assert_eq!(
        row(0),
        (
            json!("a"),
            json!("completed"),
            json!({"maxDollars": 5}),
            json!(1.5)
        )
    );
    assert_eq!(
        row(1),
        (
            json!("b"),
            json!("skipped"),
            json!({"maxDollars": 3.5, "maxOutputTokens": 9}),
            json!(2)
        )
    );
    assert_eq!(
        row(2),
        (json!("c"), json!("planned"), json!({"maxDollars": 1.5}), json!(0))
    );
    assert_eq!(
        (&data["totals"]["budgetDollars"], &data["totals"]["actualDollars"]),
        (&json!(5), &json!(3.5))
    );
    assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
}

/// A limit that was reached is on record, and ends the loop of its codon.
// covers: STATE-41
#[test]
fn a_reached_limit_is_recorded_and_ends_the_loop() {
    let hank = hank(
        &json!({"maxDollars": 1}),
        &[loop_of(4, &Value::Null, &[free("b"), free("c")]), free("d")],
    );
    let story = begun(&hank).codon("b#0", Ending::Open(CodonStatus::Running));
    let mut meter = Meter::new(ask(&story, &hank, "b#0"));
    let usage = ModelUsage {
        tokens: TokenUsage::ZERO,
        cost: usd(1.25),
    };
    meter.message(usage, usage, false);
    let exceeded = meter.exceeded(Duration::ZERO).unwrap();
    let end = json!({"type": "CodonTransitioned", "data": {"runId": RunId::new("r1").unwrap(), "codonId": "b#0", "from": "running",
        "to": "completed", "metadata": {"checkpointSha": "x"}}});
    let end: StateEvent = serde_json::from_value(end).unwrap();
    let story = story.tell(end.with_budget_exceeded(exceeded));
    let record = &story.state().runs[0].codons[0];
    assert_eq!(record.budget_exceeded(), Some(exceeded));
    let stored = serde_json::to_value(record.as_ref()).unwrap();
    assert_eq!(
        stored["budgetExceeded"],
        json!({"currency": "cost", "limit": 1, "used": 1.25, "total": 1})
    );
    let story = replanned(story, &hank);
    let plan: Vec<&str> = story
        .state()
        .execution_plan
        .iter()
        .map(|entry| entry.codon_id.as_str())
        .collect();
    assert_eq!(plan, ["b#0", "d"]);
}

fn budgets() -> impl Strategy<Value = Value> {
    let allocation = prop_oneof![Just("shared"), Just("proportional"), Just("proportional-strict")];
    (allocation, any::<bool>()).prop_map(|(allocation, shares)| match (allocation, shares) {
        ("shared", _) | (_, false) => json!({"maxDollars": 10, "allocation": allocation}),
        (_, true) => {
            json!({"maxDollars": 10, "allocation": allocation, "shares": {"a": 0.2, "l": 0.45, "e": 0.1}})
        }
    })
}

proptest! {
    /// For any shares and any codons: if no codon uses more than it may, all of them together never use more than the ceiling, with retries, skips
    /// and rollbacks.
    // covers: HANK-30
    #[test]
    fn codons_that_keep_to_their_limits_keep_to_the_ceiling_together(
        budget in budgets(),
        around in prop::option::of(1_u32..8),
        own in prop::option::of(1_u32..8),
        greed in prop::collection::vec((0.0_f64..=1.0, 0_u8..4), 1..24),
    ) {
        let around = around.map_or(Value::Null, |dollars| json!({"maxDollars": dollars}));
        let own = own.map_or(Value::Null, |dollars| json!({"maxDollars": dollars}));
        let inner = [free("b"), codon("c", &own)];
        let mut items = [free("a"), loop_of(3, &around, &inner), free("d"), codon("e", &own)];
        for index in [0, 2, 3] {
            items[index]["onFailure"] = json!("retry");
        }
        let hank = hank(&budget, &items);
        let (mut story, mut spent, mut run) = (begun(&hank), Usd::ZERO, 1);
        let mut carried = RunBudgets::of(&hank, Ceiling::default().or_from_hank(&hank));
        for (greed, end) in greed {
            let entry = match decide(story.state(), &hank) {
                Decision::Extend(extension) => {
                    story = story.tell(StateEvent::PlanExtended { extension });
                    continue;
                }
                Decision::Start(entry) => entry,
                Decision::Retry(retry) => retry.entry,
                Decision::Ask(_) | Decision::Wait | Decision::Done | Decision::Blocked(_) => break,
            };
            let limits = ask(&story, &hank, entry.codon_id.as_str());
            prop_assert_eq!(carried.limits(story.state(), &entry), limits);
            let limit = limits.dollars.unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of it")]
            let used = Usd::from_nanos((limit.as_nanos() as f64 * greed) as u64).min(limit);
            spent += used;
            let to = [CodonStatus::Completed, CodonStatus::Failed, CodonStatus::Skipped, CodonStatus::Completed];
            story = spends(story, entry.codon_id.as_str(), used.as_dollars(), to[usize::from(end)]);
            if end == 3 {
                run += 1;
                let parent = format!("r{}", run - 1);
                story = story.run_completes().continues(&format!("r{run}"), &parent, None, "");
            }
        }
        prop_assert!(spent <= usd(10.0), "{spent}");
    }
}
