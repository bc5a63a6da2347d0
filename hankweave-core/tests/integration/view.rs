//! View of a run: laws of the fold, its bounds, its words.

use hankweave_core::agent::InterruptedBy;
use hankweave_core::codon::{CheckpointType, CodonStatus};
use hankweave_core::cost::Usd;
use hankweave_core::document::{ContinuationSource, PendingRollback, PlanEntry};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::state::LiveState;
use hankweave_core::testing::{Ending, Story, histories};
use hankweave_core::thread;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{
    AttemptKey, AttemptState, MAX_VIEW_BYTES, RunState, RunView, apply_patch, change_message, difference,
};
use hankweave_core::wire::{CurrentFigures, DirectPayload, Event, JournalEntry};
use proptest::prelude::*;
use serde_json::{Value, json};

/// One of each event of the protocol.
fn examples() -> Vec<Event> {
    let lines = include_str!("../fixtures/wire/events.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn entry(seq: u64, event: Event) -> JournalEntry {
    JournalEntry {
        seq,
        id: format!("e-{seq}").parse().unwrap(),
        timestamp: Timestamp::from_millis(1_736_000_000_000 + i64::try_from(seq).unwrap() * 1_000),
        event,
    }
}

/// Journal of the accepted events of a history, with other events between them.
fn journal(history: &[Recorded<StateEvent>], others: &[(u8, Event)]) -> Vec<JournalEntry> {
    let mut live = LiveState::default();
    let mut others = others.iter().cycle();
    let mut entries = Vec::new();
    for recorded in history {
        if live.apply(recorded).is_ok() {
            let figures = CurrentFigures::of(&live);
            entries.push(Event::state_transition(Box::new(recorded.event.clone()), figures));
        }
        if let Some((count, event)) = others.next() {
            entries.extend(std::iter::repeat_n(event.clone(), usize::from(*count)));
        }
    }
    (1..).zip(entries).map(|(seq, event)| entry(seq, event)).collect()
}

fn fold(entries: &[JournalEntry]) -> RunView {
    let mut view = RunView::default();
    entries.iter().for_each(|entry| view.take(entry));
    view
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn journals() -> impl Strategy<Value = Vec<JournalEntry>> {
    let codon = |mut event: Value, codon: u8| {
        for key in ["codonId", "codon"] {
            if event["data"].get(key).is_some() {
                event["data"][key] = json!(char::from(b'a' + codon).to_string());
            }
        }
        serde_json::from_value(event).unwrap()
    };
    let other = (prop::sample::select(examples()), 0..3u8)
        .prop_map(move |(event, number)| codon(serde_json::to_value(event).unwrap(), number));
    let others = proptest::collection::vec((0..4u8, other), 1..20);
    (histories(60), others).prop_map(|(history, others)| journal(&history, &others))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    // covers: WIRE-37
    #[test]
    fn the_patch_of_later_events_turns_the_earlier_view_into_the_later_one(entries in journals(), cut in any::<prop::sample::Index>()) {
        let (earlier, _) = entries.split_at(cut.index(entries.len() + 1));
        let (before, after) = (fold(earlier).to_json(), fold(&entries).to_json());
        prop_assert!(!has_null(&after), "{after}");
        let mut patched = before.clone();
        apply_patch(&mut patched, &difference(&before, &after));
        prop_assert_eq!(&patched, &after);
        apply_patch(&mut patched, &difference(&before, &after));
        prop_assert_eq!(&patched, &after, "a patch is harmless twice");
        match change_message(&before, &after) {
            None => prop_assert_eq!(before, after),
            Some(DirectPayload::View { view }) => prop_assert_eq!(view, after),
            Some(DirectPayload::ViewPatch { from, seq, patch }) => {
                prop_assert_eq!((json!(from), json!(seq)), (before["seq"].clone(), after["seq"].clone()));
                let mut patched = before;
                apply_patch(&mut patched, &patch);
                prop_assert_eq!(patched, after);
            }
            Some(other) => panic!("{other:?}"),
        }
    }

    // covers: WIRE-36
    #[test]
    fn a_recorded_journal_gives_the_live_view(entries in journals()) {
        let lines: Vec<String> = entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        let read: Vec<JournalEntry> = lines.iter().map(|line| JournalEntry::from_json(line.as_bytes()).unwrap()).collect();
        prop_assert_eq!(fold(&read), fold(&entries));
    }

    // covers: WIRE-36
    #[test]
    fn a_view_that_is_stored_continues_as_if_it_had_not_been(entries in journals(), cut in any::<prop::sample::Index>()) {
        let (earlier, later) = entries.split_at(cut.index(entries.len() + 1));
        let mut read: RunView = serde_json::from_value(fold(earlier).to_json()).unwrap();
        later.iter().for_each(|entry| read.take(entry));
        let whole = fold(&entries);
        prop_assert_eq!(&read, &whole);
        entries.iter().for_each(|entry| read.take(entry));
        prop_assert_eq!(read, whole, "old entries change nothing");
    }
}

fn plan_of(ids: impl Iterator<Item = (String, Option<String>)>) -> Vec<PlanEntry> {
    let noise = "\"\\\u{1}漢".repeat(200);
    let entry = |(id, within): (String, Option<String>)| {
        let place = within.map(|of| json!({"loopId": of, "iteration": 0, "codonIndexInLoop": 0}));
        let codon_id = if place.is_some() {
            format!("{id}#0")
        } else {
            id.clone()
        };
        let mut entry = json!({"codon": {"id": id, "name": noise, "model": noise, "approval": noise}, "codonId": codon_id});
        if let Some(place) = place {
            entry["loopContext"] = place;
        }
        serde_json::from_value(entry).unwrap()
    };
    ids.map(entry).collect()
}

/// Writes long texts into every field with text of an agent.
fn inflate(value: &mut Value, number: usize) {
    let long = format!("{number} {}", "\"\\\u{1}漢".repeat(300));
    let Some(data) = value["data"].as_object_mut() else {
        return;
    };
    for (key, field) in data {
        match key.as_str() {
            "codonId" | "codon" => *field = json!(format!("c{}", number % 3)),
            "content" | "result" | "message" | "subject" | "line" | "toolName" | "path" | "modelId" => {
                *field = json!(long);
            }
            "toolUseId" | "parentToolUseId" | "sentinelId" => *field = json!(long),
            "toolInput" => *field = json!({"description": long}),
            "endsAt" | "done" => *field = Value::Null,
            _ => {}
        }
    }
}

// covers: WIRE-38
#[test]
fn a_view_is_bounded_after_a_hundred_thousand_events() {
    let id = |number: usize| format!("{}{number:05}", "c".repeat(123));
    let plan = plan_of((0..3_000).map(|number| {
        let within = (number % 2 == 1).then(|| format!("{}{:05}", "l".repeat(123), number / 7));
        (id(number), within)
    }));
    let figures =
        json!({"currentRunId": "r", "runCount": 1, "totalCost": 0, "currentRunCost": 0, "totalSpend": 1.5});
    let transition = |event: Value| {
        let name = event["type"].clone();
        let data = json!({"transitionType": name, "transition": event, "resultingState": figures});
        serde_json::from_value::<Event>(json!({"type": "state.transition", "data": data})).unwrap()
    };
    let long = "\"\\\u{1}漢".repeat(300);
    let failure = json!({"failureReason": {"type": "unknown", "retriable": true, "message": long},
        "loopCheck": {"passed": false, "says": long}, "budgetExceeded": {"currency": "cost", "limit": 1, "used": 2}});
    let mut view = RunView::default();
    let mut seq = 0;
    let mut take = |view: &mut RunView, event: Event| {
        seq += 1;
        view.take(&entry(seq, event));
    };
    take(
        &mut view,
        transition(json!({"type": "PlanReplaced", "data": {"executionPlan": plan}})),
    );
    assert!(view.omitted.after > 2_000, "{:?}", view.omitted);
    let noise: Vec<Value> = examples()
        .iter()
        .map(|event| serde_json::to_value(event).unwrap())
        .collect();
    let mut largest = 0;
    for round in 0..100_000 / 5 {
        if round % 1_900 == 0 {
            // Each starts over, so that attempts of earlier histories are kept as well.
            let fresh = json!({"runId": format!("r{round}"), "runFolder": "/p", "gitBranch": "b", "serverPid": 1,
                "startingConditions": {"type": "fresh", "initialCheckpointSha": "s"}});
            take(
                &mut view,
                transition(json!({"type": "RunStarted", "data": fresh})),
            );
        }
        // First the whole plan, then few of its codons again and again.
        let number = if round < 10_000 { round } else { round % 40 };
        let suffix = if number % 2 == 1 { "#0" } else { "" };
        let codon = format!("{}{suffix}", id(number % 3_000));
        let place = (number % 2 == 1).then(|| json!({"loopId": format!("{}{:05}", "l".repeat(123), (number % 3_000) / 7), "iteration": 0, "codonIndexInLoop": 0}));
        let mut started = json!({"runId": "r", "codonId": codon});
        if let Some(place) = place {
            started["loopContext"] = place;
        }
        take(
            &mut view,
            transition(json!({"type": "CodonStarted", "data": started})),
        );
        for more in 0..3 {
            let number = round * 3 + more;
            let mut event = noise[number % noise.len()].clone();
            inflate(&mut event, number);
            if let Ok(event) = serde_json::from_value(event) {
                take(&mut view, event);
            }
        }
        let ended =
            json!({"runId": "r", "codonId": codon, "from": "running", "to": "failed", "metadata": failure});
        take(
            &mut view,
            transition(json!({"type": "CodonTransitioned", "data": ended})),
        );
        if round % 200 == 0 || round > 19_990 {
            largest = largest.max(view.to_json().to_string().len());
        }
    }
    assert!(largest <= MAX_VIEW_BYTES, "{largest} bytes");
    assert!(view.seq > 90_000, "{}", view.seq);
    assert!(!view.history.left.is_empty(), "earlier histories are kept");
    let earlier: u64 = view
        .items
        .values()
        .filter_map(|item| item.earlier)
        .map(|earlier| earlier.count)
        .sum();
    assert!(earlier > 0, "older attempts are summed");
}

/// A journal of a story, in which nothing but the state changes.
fn told(story: &Story) -> Vec<JournalEntry> {
    journal(story.events(), &[])
}

fn in_loop(ids: &[&str]) -> StateEvent {
    let entries = ids.iter().map(|id| {
        let (name, place) = match id.split_once('#') {
            Some((name, number)) => {
                let number: u32 = number.parse().unwrap();
                (
                    name,
                    Some(json!({"loopId": "fix", "iteration": number, "codonIndexInLoop": 0})),
                )
            }
            None => (*id, None),
        };
        let mut entry = json!({"codon": {"id": name, "name": format!("Name of {name}")}, "codonId": id});
        if let Some(place) = place {
            entry["loopContext"] = place;
        }
        entry
    });
    let plan: Vec<Value> = entries.collect();
    StateEvent::from_json(json!({"type": "PlanReplaced", "data": {"executionPlan": plan}})).unwrap()
}

#[test]
fn the_plan_has_one_row_for_each_entry_and_the_iterations_go_round_inside() {
    let story = Story::new()
        .tell(in_loop(&["survey", "build#0", "review#0", "release"]))
        .fresh("r1")
        .codon("survey", Ending::Completed)
        .codon("build#0", Ending::Failed)
        .codon("build#0", Ending::Completed)
        .codon("review#0", Ending::Completed);
    let view = fold(&told(&story));
    assert_eq!(view.order, ["survey", "fix", "release"]);
    assert_eq!(view.items["fix"].order, ["build", "review"]);
    let build = &view.items["build"];
    let key = |attempt| AttemptKey {
        iteration: 1,
        attempt,
    };
    assert_eq!(build.attempts[&key(1)].state, AttemptState::Failed);
    assert_eq!(build.attempts[&key(2)].state, AttemptState::Completed);
    let json = view.to_json();
    assert_eq!(
        json["items"]["build"]["attempts"]["1.2"]["state"], "completed",
        "{json}"
    );
    let story = story.codon("build#1", Ending::Open(CodonStatus::Running));
    let view = fold(&told(&story));
    assert_eq!(view.headline, "Runs Name of build (iteration 2)");
    assert_eq!(view.next.as_deref(), Some("Then Name of review"));
    assert_eq!(view.now.as_ref().unwrap().phase, "working");
    assert!(
        view.is_working() && !fold(&told(&story.run_crashes())).is_working(),
        "an answer may be open as long as the agent works"
    );
    assert_eq!(view.items["fix"].iteration, Some(2));
    assert_eq!(view.position(), (1, 4), "a codon of a loop counts once");
    assert_eq!(
        view.coming().collect::<Vec<_>>(),
        ["Name of review", "Name of release"]
    );
}

// covers: WIRE-39
#[test]
fn each_outcome_has_one_word() {
    let begun = || Story::new().plan(&["a", "b"]).fresh("r1");
    let open = || begun().codon("a", Ending::Open(CodonStatus::Running));
    let cases = [
        (Story::new(), RunState::Planned, "Nothing has run yet"),
        (open(), RunState::Running, "Runs a"),
        (
            begun()
                .codon("a", Ending::Completed)
                .codon("b", Ending::Completed)
                .run_completes(),
            RunState::Completed,
            "Completed",
        ),
        (
            begun().codon("a", Ending::Failed).run_fails(),
            RunState::Failed,
            "Failed at a",
        ),
        (
            begun().run_pauses(InterruptedBy::Stop),
            RunState::Stopped,
            "Stopped",
        ),
        (
            begun().run_pauses(InterruptedBy::Ceiling),
            RunState::Paused,
            "Paused (budget spent)",
        ),
        (
            begun().run_pauses(InterruptedBy::Approval),
            RunState::Paused,
            "Paused (approval needed)",
        ),
        (open().run_crashes(), RunState::Crashed, "Crashed"),
    ];
    for (story, state, headline) in cases {
        let view = fold(&told(&story));
        assert_eq!(view.state, state);
        assert!(
            view.headline.starts_with(headline),
            "{}: {headline}",
            view.headline
        );
        let document = story.state();
        let read = RunView::of_state(document, &thread::build(document, None, None), 0);
        assert_eq!((read.state, &read.headline), (view.state, &view.headline));
        let states = |view: &RunView| -> Vec<(String, AttemptKey, AttemptState)> {
            let items = view.items.iter();
            let attempts = items.flat_map(|(id, item)| {
                item.attempts
                    .iter()
                    .map(|(key, attempt)| (id.clone(), *key, attempt.state))
            });
            attempts.collect()
        };
        assert_eq!(states(&read), states(&view), "{headline}");
        assert_eq!((read.money, &read.order), (view.money, &view.order), "{headline}");
    }
}

#[test]
fn what_a_rollback_undoes_is_planned_again() {
    let story = Story::new().plan(&["a", "b"]).fresh("r1");
    let story = story.codon("a", Ending::Completed).codon("b", Ending::Completed);
    let mut entries = told(&story);
    let rollback = |kind: &str| {
        let found = examples().into_iter().find(|event| event.name() == kind);
        let mut event = serde_json::to_value(found.unwrap()).unwrap();
        event["data"]["codonsToProcess"] = json!(["b"]);
        serde_json::from_value::<Event>(event).unwrap()
    };
    let next = entries.len() as u64 + 1;
    entries.push(entry(next, rollback("rollback.started")));
    let view = fold(&entries);
    assert!(view.newest_attempt(&"b".parse().unwrap()).unwrap().1.undone);
    entries.push(entry(next + 1, rollback("rollback.completed")));
    let view = fold(&entries);
    assert!(view.items["b"].attempts.is_empty() && view.items["a"].attempts.len() == 1);
}

// covers: WIRE-41
#[test]
fn what_the_state_does_not_say_is_told_by_events_of_their_own() {
    let story = Story::new()
        .tell(in_loop(&["survey", "build#0", "release"]))
        .fresh("r1")
        .codon("build#0", Ending::Open(CodonStatus::Running));
    let mut view = fold(&told(&story));
    let mut seq = view.seq;
    let mut take = |view: &mut RunView, kind: &str, data: Value| {
        seq += 1;
        let event = serde_json::from_value(json!({"type": kind, "data": data})).unwrap();
        view.take(&entry(seq, event));
    };
    let loops = json!([{"id": "fix", "name": "Until the tests pass", "most": 5, "until": "cargo test"}]);
    let hank = json!({"name": "Move sessions", "version": "3"});
    let described = json!({"hank": hank, "maxDollars": 5, "maxTimeMs": 14_400_000, "loops": loops});
    take(&mut view, "run.described", described);
    assert_eq!(view.headline, "Runs Name of build (1 of at most 5)");
    assert_eq!(
        view.next.as_deref(),
        Some("Then Name of build again, or Name of release")
    );
    assert_eq!(
        view.money.limit.map(|limit| limit.to_string()).as_deref(),
        Some("$5.0000")
    );
    assert_eq!(
        (view.time_limit_ms, view.items["fix"].until.as_deref()),
        (Some(14_400_000), Some("cargo test"))
    );
    let check = json!({"codonId": "build#0", "loopId": "fix", "run": "cargo test", "passed": false, "durationMs": 12, "why": "exited with code 1", "says": "3 of 148 fail"});
    take(&mut view, "check.completed", check);
    assert_eq!(
        view.items["fix"].checks[&1].says.as_deref(),
        Some("3 of 148 fail")
    );
    take(
        &mut view,
        "codon.started",
        json!({"codonId": "build#0", "codonName": "Build it", "sessionId": "s", "startTime": "2026-01-04T12:00:00Z", "agent": "claude", "model": "sonnet"}),
    );
    let (_, attempt) = view.current().unwrap();
    assert_eq!(
        (attempt.agent.as_deref(), attempt.model.as_deref()),
        (Some("claude"), Some("sonnet"))
    );
    take(
        &mut view,
        "approval.requested",
        json!({"codonId": "release", "question": "May it be released?"}),
    );
    take(
        &mut view,
        "server.idle",
        json!({"reason": "approval-required", "message": "release waits for an approval: May it be released?"}),
    );
    assert_eq!(view.headline, "Waits for you: May it be released?");
    assert_eq!(
        view.ask.as_ref().unwrap().codon.as_ref().unwrap().as_str(),
        "release"
    );
    assert_eq!(view.waits.len(), 1);
    take(
        &mut view,
        "command.accepted",
        json!({"command": "codon.deny", "clientId": "client-1", "codonId": "release", "reason": "not on a Friday"}),
    );
    let command = view.commands.values().next().unwrap();
    assert_eq!(
        (command.client.as_str(), command.reason.as_deref()),
        ("client-1", Some("not on a Friday"))
    );
    take(
        &mut view,
        "run.ended",
        json!({"runId": "r1", "outcome": "paused", "cause": "release: it was denied: not on a Friday"}),
    );
    assert_eq!(
        view.cause.as_deref(),
        Some("release: it was denied: not on a Friday")
    );
}

#[test]
fn what_the_sentinels_may_have_cost_more_is_not_forgotten_when_the_agent_answers() {
    let story = Story::new()
        .plan(&["a"])
        .fresh("r1")
        .codon("a", Ending::Open(CodonStatus::Running));
    let mut entries = told(&story);
    let sentinel = json!({"id": "s", "model": "haiku", "loadedAt": "2025-01-04T12:00:00Z", "llmCallCount": 1, "failedLLMCalls": 0,
        "totalCost": 0.25, "uncountedRequests": 1, "status": "active"});
    let event = json!({"type": "SentinelStatesUpdated", "data": {"runId": "r1", "codonId": "a", "sentinelStates": [sentinel], "totalCost": 0.25}});
    let story = story.tell(StateEvent::from_json(event).unwrap());
    entries.push(told(&story).pop().unwrap());
    let usage = json!({"codonId": "a", "inputTokens": 1, "outputTokens": 1, "cacheCreationTokens": 0, "cacheReadTokens": 0, "totalCost": 0.5});
    let usage = serde_json::from_value(json!({"type": "token.usage", "data": usage})).unwrap();
    entries.push(entry(entries.len() as u64 + 1, usage));
    let view = fold(&entries);
    let (_, attempt) = view.current().unwrap();
    assert_eq!(attempt.spent().display(attempt.at_least), "at least $0.7500");
    assert!(view.money.at_least);
}

// covers: WIRE-39
#[test]
fn a_sentinel_has_cost_what_its_failed_and_unpublished_answers_cost_too() {
    let id = |kind: &str, mut data: Value| {
        data["sentinelId"] = json!("guard");
        data["codonId"] = json!("a");
        serde_json::from_value(json!({"type": kind, "data": data})).unwrap()
    };
    let loaded = || {
        let data = json!({"model": "haiku", "triggerType": "event", "executionStrategy": "immediate", "conversational": false, "source": "inline"});
        id("sentinel.loaded", data)
    };
    let output = json!({"triggerNumber": 1, "outputType": "text", "content": "fine", "cost": 0.25, "tokens": {"input": 1, "output": 1}, "eventCount": 1});
    let unloaded = |cost: f64| {
        let data = json!({"reason": "codon-complete", "finalCost": cost, "llmCallCount": 2});
        id("sentinel.unloaded", data)
    };
    let events = [
        loaded(),
        id("sentinel.output", output),
        unloaded(0.75),
        loaded(),
        unloaded(0.125),
    ];
    let entries: Vec<_> = (1..).zip(events).map(|(seq, event)| entry(seq, event)).collect();
    let sentinel = &fold(&entries).sentinels["guard"];
    assert_eq!((sentinel.answers, sentinel.cost), (1, Usd::from_micros(875_000)));
}

// covers: WIRE-39
#[test]
fn a_question_is_asked_until_it_is_answered_and_the_answer_names_the_client() {
    let story = Story::new().plan(&["a"]).fresh("r1");
    let mut entries = told(&story);
    let seq = entries.len() as u64 + 1;
    let idle =
        json!({"type": "server.idle", "data": {"reason": "approval-required", "message": "May a start?"}});
    entries.push(entry(seq, serde_json::from_value(idle).unwrap()));
    let view = fold(&entries);
    assert_eq!(
        (view.state, view.headline.as_str()),
        (RunState::Asking, "Waits for you: May a start?")
    );
    let story = story.tell(
        StateEvent::from_json(
            json!({"type": "ApprovalSet", "data": {"approval": {"codonId": "a", "granted": true, "reason": "looked at it"}}}),
        )
        .unwrap(),
    );
    let answered = told(&story).pop().unwrap();
    entries.push(entry(seq + 1, answered.event));
    let view = fold(&entries);
    assert_eq!((view.state, view.ask), (RunState::Running, None));
    let wait = view.waits.values().next().unwrap();
    assert!(wait.to.is_some_and(|to| to > wait.from), "{wait:?}");
    let answered = view.answered.unwrap();
    assert_eq!(
        (answered.granted, answered.reason.as_deref(), answered.client),
        (true, Some("looked at it"), None)
    );
    for (client, codon, command) in [
        ("client-1", "b", "codon.approve"),
        ("client-2", "a", "codon.skip"),
        ("client-3", "a", "codon.approve"),
    ] {
        let data = json!({"command": command, "clientId": client, "codonId": codon});
        let accepted = serde_json::from_value(json!({"type": "command.accepted", "data": data})).unwrap();
        entries.push(entry(entries.len() as u64 + 1, accepted));
    }
    let answered = fold(&entries).answered.unwrap();
    assert_eq!(answered.client.as_deref(), Some("client-3"));
}

// covers: WIRE-39
#[test]
fn an_answer_keeps_the_name_of_the_user_that_it_was_recorded_with() {
    let answer =
        json!({"type": "ApprovalSet", "data": {"approval": {"codonId": "a", "granted": true, "by": "ada"}}});
    let story = Story::new().plan(&["a"]).fresh("r1");
    let story = story.tell(StateEvent::from_json(answer).unwrap());
    let mut entries = told(&story);
    let data = json!({"command": "codon.approve", "clientId": "client-1", "codonId": "a"});
    let accepted = serde_json::from_value(json!({"type": "command.accepted", "data": data})).unwrap();
    entries.push(entry(entries.len() as u64 + 1, accepted));
    let answered = fold(&entries).answered.unwrap();
    assert_eq!(answered.client.as_deref(), Some("ada"));
}

/// The event that closes a codon which cost more than is known, before the crash of its run.
fn cut_off(codon: &str) -> StateEvent {
    StateEvent::from_json(
        json!({"type": "CodonTransitioned", "data": {"runId": "r1", "codonId": codon, "from": "running", "to": "failed", "metadata": {
            "failedDuring": "running", "exitCode": -1, "costIsLowerBound": true,
            "failureReason": {"type": "unknown", "retriable": false, "message": "Server crashed"}}}}),
    )
    .unwrap()
}

// covers: WIRE-39, HANK-35
#[test]
fn the_time_between_a_kill_and_the_next_start_is_no_time_at_work() {
    let open = Ending::Open(CodonStatus::Running);
    let story = Story::new().plan(&["a"]).fresh("r1").codon("a", open);
    let story = story.tell(cut_off("a")).run_crashes();
    let view = fold(&told(&story));
    let attempt = view.items["a"].attempts.values().next().unwrap();
    assert_eq!(attempt.state, AttemptState::Crashed);
    assert!(attempt.at_least);
    let later = Timestamp::from_millis(1_736_000_900_000);
    assert_eq!(attempt.worked(later), std::time::Duration::ZERO);
    assert!(view.has_lost_time() && view.problem.is_none(), "{view:?}");
    let document = of_document(&story);
    let of_document = document.items["a"].attempts.values().next().unwrap();
    assert_eq!(of_document.state, attempt.state);
}

// covers: WIRE-39, HANK-35
#[test]
fn what_is_known_of_the_time_before_a_kill_is_time_at_work_everywhere() {
    let open = Ending::Open(CodonStatus::Running);
    let story = Story::new().plan(&["a"]).fresh("r1").codon("a", open);
    let mut unseen = fold(&told(&story));
    unseen.mark_crashed(None);
    let attempt = unseen.items["a"].attempts.values().next().unwrap();
    let until_newest = unseen.at.unwrap().since(attempt.began.unwrap());
    assert!(!until_newest.is_zero());
    let mut measured = of_document(&story);
    measured.mark_crashed(Some(std::time::Duration::from_secs(4)));
    let later = Timestamp::from_millis(1_736_000_900_000);
    assert_eq!(unseen.worked(later), until_newest);
    assert_eq!(attempt.last_at_work(), unseen.at);
    // A heartbeat may be newer than all events.
    let mut alive = fold(&told(&story));
    let beat = alive.at.unwrap().after(std::time::Duration::from_secs(30));
    alive.note_alive(Some(beat));
    alive.mark_crashed(None);
    assert_eq!(
        alive.worked(later),
        until_newest + std::time::Duration::from_secs(30)
    );
    assert_eq!(measured.worked(later).as_secs(), 4);
    let seen = story
        .tell(cut_off("a").with_measured(std::time::Duration::from_secs(4)))
        .run_crashes();
    for view in [fold(&told(&seen)), of_document(&seen)] {
        assert_eq!(view.worked(later).as_secs(), 4);
        assert!(view.has_lost_time());
    }
    let codon = &seen.state().runs[0].codons[0];
    assert_eq!(hankweave_core::budget::time_at_work(codon).as_secs(), 4);
}

// covers: STATE-73, WIRE-39
#[test]
fn an_attempt_whose_agent_a_fallback_replaces_says_so_in_journal_and_document() {
    let limit = json!({"type": "CodonTransitioned", "data": {"runId": "r1", "codonId": "a", "from": "running", "to": "failed", "metadata": {
        "failedDuring": "running", "exitCode": 1,
        "failureReason": {"type": "rate-limit", "retriable": true, "interrupted": true, "interruptedBy": "usage-limit"}}}});
    let starts = |entry: u32| {
        let instead = json!({"agent": "claude", "cause": "usage-limit"});
        let chosen = json!({"entry": entry, "agent": "codex", "model": "gpt-5.2", "instead": instead});
        let data = json!({"runId": "r1", "codonId": "a", "chosenAgent": chosen});
        StateEvent::from_json(json!({"type": "CodonStarted", "data": data})).unwrap()
    };
    let open = Ending::Open(CodonStatus::Running);
    let limited = || {
        let story = Story::new().plan(&["a"]).fresh("r1").codon("a", open);
        story.tell(StateEvent::from_json(limit.clone()).unwrap())
    };
    for (entry, expected, by) in [
        (1, AttemptState::Replaced, Some("codex with gpt-5.2")),
        (0, AttemptState::Paused, None),
    ] {
        let story = limited().tell(starts(entry));
        for view in [fold(&told(&story)), of_document(&story)] {
            let attempt = view.items["a"].attempts.values().next().unwrap();
            assert_eq!((attempt.state, attempt.replaced_by.as_deref()), (expected, by));
        }
    }
    let attempt = fold(&told(&limited()));
    let attempt = attempt.items["a"].attempts.values().next().unwrap();
    assert_eq!(attempt.state, AttemptState::Paused, "nobody has continued yet");
}

#[test]
fn a_failure_keeps_the_last_lines_and_a_sub_agent_has_its_own() {
    let run = Story::new().plan(&["a"]).fresh("r1");
    let open = told(&run.clone().codon("a", Ending::Open(CodonStatus::Running)));
    let failed = told(&run.codon("a", Ending::Failed));
    let tool = |id: &str, by: Option<&str>, what: &str| {
        let mut data = json!({"codonId": "a", "action": "tool_use", "content": "", "toolName": "Task", "toolUseId": id,
            "toolInput": {"description": what}});
        if let Some(by) = by {
            data["parentToolUseId"] = json!(by);
        }
        serde_json::from_value::<Event>(json!({"type": "assistant.action", "data": data})).unwrap()
    };
    let mut view = fold(&open);
    let mut seq = view.seq;
    let mut take = |view: &mut RunView, event| {
        seq += 1;
        view.take(&entry(seq, event));
    };
    take(&mut view, tool("t1", None, "look at the tests"));
    take(&mut view, tool("t2", Some("t1"), "count them"));
    let now = view.now.as_ref().unwrap();
    assert_eq!(now.doing().unwrap().title, "count them");
    assert_eq!(
        now.lines.values().collect::<Vec<_>>(),
        ["› Task look at the tests"]
    );
    let agent = &now.agents["t1"];
    assert_eq!(
        (agent.title.as_str(), agent.last.as_str()),
        ("look at the tests", "› Task count them")
    );
    let ends = failed.into_iter().skip(open.len());
    ends.for_each(|ended| take(&mut view, ended.event));
    let problem = view.problem.unwrap();
    assert_eq!(
        problem.tail.values().collect::<Vec<_>>(),
        ["› Task look at the tests"]
    );
}

/// An agent that continued after a check has done most of it again.
// covers: WIRE-39
#[test]
fn the_last_lines_of_a_failure_are_those_since_the_check_before() {
    let run = Story::new().plan(&["a"]).fresh("r1");
    let open = told(&run.clone().codon("a", Ending::Open(CodonStatus::Running)));
    let failed = told(&run.codon("a", Ending::Failed));
    let mut view = fold(&open);
    let mut seq = view.seq;
    let mut take = |view: &mut RunView, event| {
        seq += 1;
        view.take(&entry(seq, event));
    };
    let event =
        |kind: &str, data| serde_json::from_value::<Event>(json!({"type": kind, "data": data})).unwrap();
    for time in 1..=3 {
        let says = json!({"codonId": "a", "action": "message", "content": format!("I try, time {time}")});
        take(&mut view, event("assistant.action", says));
        let check =
            json!({"codonId": "a", "run": "test", "passed": false, "durationMs": 5, "says": "2 failed"});
        take(&mut view, event("check.completed", check));
        let continues = json!({"message": format!("a: the agent continues (retry {time} of 2)")});
        take(&mut view, event("info", continues));
    }
    let ends = failed.into_iter().skip(open.len());
    ends.for_each(|ended| take(&mut view, ended.event));
    let problem = view.problem.unwrap();
    assert_eq!(
        problem.tail.values().collect::<Vec<_>>(),
        [
            "a: the agent continues (retry 2 of 2)",
            "I try, time 3",
            "check failed: 2 failed",
            "a: the agent continues (retry 3 of 2)"
        ]
    );
}

// covers: WIRE-39, S12
#[test]
fn a_suspension_is_no_time_at_work() {
    let open = Ending::Open(CodonStatus::Running);
    let story = Story::new().plan(&["a", "b"]).fresh("r1");
    let story = story.codon("a", Ending::Completed).codon("b", open);
    let mut view = fold(&told(&story));
    let later = view.at.unwrap().after(std::time::Duration::from_secs(100));
    let before = view.worked(later);
    let data = json!({"runId": "r1", "suspendedAt": view.at, "suspendedMs": 60_000});
    let event = serde_json::from_value(json!({"type": "run.continued", "data": data})).unwrap();
    view.take(&entry(view.seq + 1, event));
    assert_eq!(view.worked(later), before - std::time::Duration::from_secs(60));
    assert_eq!(view.waits.len(), 1);
    assert_eq!(view.completed(), (1, 2));
}

// covers: HANK-75, WIRE-39
#[test]
fn a_wait_for_background_work_is_the_headline_and_ends_when_the_agent_works_again() {
    let story = Story::new()
        .plan(&["a"])
        .fresh("r1")
        .codon("a", Ending::Open(CodonStatus::Running));
    let mut entries = told(&story);
    let headline = fold(&entries).headline;
    let seq = entries.len() as u64 + 1;
    let wait = json!({"type": "progress", "data": {"codonId": "a", "kind": "background", "subject": "Run the tests", "endsAt": "2027-01-04T12:00:00Z"}});
    entries.push(entry(seq, serde_json::from_value(wait).unwrap()));
    let view = fold(&entries);
    assert_eq!(
        view.headline,
        format!(
            "{}: Run the tests",
            headline.replace("Runs", "Waits for background work of")
        )
    );
    let limit = view.waits.values().next().unwrap().to.unwrap();
    assert_eq!(view.activity.unwrap().to, Some(limit));
    let says = json!({"type": "assistant.action", "data": {"codonId": "a", "action": "message", "content": "They have passed."}});
    entries.push(entry(seq + 1, serde_json::from_value(says).unwrap()));
    let view = fold(&entries);
    assert_eq!((view.headline, view.activity), (headline, None));
    let wait = view.waits.values().next().unwrap();
    assert!(
        wait.to.is_some_and(|to| to < limit),
        "it ended before its limit: {wait:?}"
    );
}

/// Returns the history and the money of a view: attempts that count with their states, those that do not, and both amounts.
fn account(view: &RunView) -> Value {
    let items = view.items.iter();
    let attempts = items.flat_map(|(id, item)| {
        let attempts = item.attempts.iter();
        attempts.map(move |(key, attempt)| format!("{id} {key} {}", attempt.state.as_str()))
    });
    let undone = view.undone.sum().unwrap_or_default();
    json!({
        "attempts": attempts.collect::<Vec<_>>(),
        "undone": [json!(undone.count), json!(undone.cost), json!(undone.at_least), json!(undone.lost_time)],
        "money": view.money,
        "codons": view.codons,
        "rollback": view.rollback.as_ref().map(|back| (&back.codon, &back.checkpoint)),
    })
}

fn of_document(story: &Story) -> RunView {
    let document = story.state();
    RunView::of_state(document, &thread::build(document, None, None), 0)
}

fn rolls_back(story: Story, run: &str, after: Option<&str>, sha: &str) -> Story {
    let source = json!({"runId": run, "afterCodon": after, "checkpointSha": sha});
    let pending =
        json!({"type": "RollbackPending", "data": {"rollback": {"source": source, "restored": true}}});
    story.tell(StateEvent::from_json(pending).unwrap())
}

fn costs(story: Story, run: &str, codon: &str, dollars: f64) -> Story {
    let tokens = json!({"inputTokens": 1, "outputTokens": 1, "cacheCreationTokens": 0, "cacheReadTokens": 0});
    let data = json!({"runId": run, "codonId": codon, "costDelta": dollars, "tokensDelta": tokens});
    story.tell(StateEvent::from_json(json!({"type": "CostsIncremented", "data": data})).unwrap())
}

// covers: WIRE-38
#[test]
fn a_budget_that_was_reached_says_where_more_was_spent_than_is_known() {
    for (is_lower_bound, words) in [
        (false, "used $2.0000 of $1.0000"),
        (true, "used at least $2.0000 of $1.0000"),
    ] {
        let story = Story::new().plan(&["a"]).fresh("r1");
        let story = story.codon("a", Ending::Open(CodonStatus::Running));
        let reason = json!({"type": "unknown", "retriable": true, "message": "spent"});
        let exceeded = json!({"currency": "cost", "limit": 1, "used": 2});
        let end = json!({"failureReason": reason, "failedDuring": "running", "exitCode": 1, "budgetExceeded": exceeded,
            "costIsLowerBound": is_lower_bound});
        let end = json!({"runId": "r1", "codonId": "a", "from": "running", "to": "failed", "metadata": end});
        let end = StateEvent::from_json(json!({"type": "CodonTransitioned", "data": end})).unwrap();
        let story = story.tell(end);
        for view in [fold(&told(&story)), of_document(&story)] {
            let attempts = view.items["a"].attempts.values();
            let budgets: Vec<_> = attempts.map(|attempt| attempt.budget.as_deref()).collect();
            assert_eq!(budgets, [Some(words)]);
        }
    }
}

// covers: WIRE-38
#[test]
fn a_loop_into_which_a_rollback_leads_has_not_ended() {
    let story = Story::new()
        .tell(in_loop(&[
            "survey", "build#0", "review#0", "build#1", "review#1", "release",
        ]))
        .fresh("r1")
        .codon("survey", Ending::Completed)
        .codon("build#0", Ending::Completed)
        .codon("review#0", Ending::Completed)
        .codon("build#1", Ending::Completed)
        .codon("review#1", Ending::Completed)
        .codon("release", Ending::Completed)
        .run_completes();
    let count = |view: &RunView| (view.codons.completed, view.codons.planned);
    assert_eq!(count(&of_document(&story)), (4, 4));
    let sha = "4444444444444444444444444444444444444444";
    let story = rolls_back(story, "r1", Some("review#0"), sha);
    for view in [fold(&told(&story)), of_document(&story)] {
        assert_eq!(count(&view), (1, 4), "{:?}", view.state);
    }
}

// covers: WIRE-38, STATE-31
#[test]
fn a_way_back_to_an_earlier_history_shows_its_plan() {
    let story = Story::new()
        .fresh("r1")
        .plan(&["a", "b"])
        .codon("a", Ending::Completed)
        .run_completes();
    let story = story
        .fresh("r2")
        .plan(&["x"])
        .codon("x", Ending::Completed)
        .run_completes();
    let source = json!({"runId": "r1", "afterCodon": "a", "checkpointSha": "4444444444444444444444444444444444444444"});
    let pending = json!({"source": source, "restored": true});
    let left = story.state().runs[1].left_plan.clone().unwrap();
    let data = json!({"rollback": pending, "executionPlan": left});
    let story = story.tell(StateEvent::from_json(json!({"type": "RollbackPending", "data": data})).unwrap());
    for view in [fold(&told(&story)), of_document(&story)] {
        assert_eq!(
            (view.order, view.items["a"].attempts.len()),
            (vec!["a".to_owned(), "b".to_owned()], 1)
        );
    }
}

// covers: WIRE-48
#[test]
fn what_a_rollback_undid_stays_spent_and_an_undo_lets_it_count_again() {
    let open = || Ending::Open(CodonStatus::Running);
    let story = Story::new()
        .plan(&["a", "b"])
        .fresh("r1")
        .codon("a", Ending::Completed);
    let story = costs(story.codon("b", open()), "r1", "b", 0.25).run_crashes();
    let before = account(&of_document(&story));
    assert_eq!(account(&fold(&told(&story))), before);
    let story = rolls_back(story, "r1", None, "4444444444444444444444444444444444444444");
    let view = fold(&told(&story));
    assert_eq!(account(&view), account(&of_document(&story)));
    assert_eq!(view.completed(), (0, 2));
    assert!(
        view.headline.starts_with("Rolled back to checkpoint 4444"),
        "{}",
        view.headline
    );
    let undone = view.undone.sum().unwrap();
    assert_eq!(
        (undone.count, view.money.spent),
        (2, undone.cost),
        "what was undone stays spent"
    );
    assert!(view.has_lost_time(), "the time of the crash is still unknown");
    let back = rolls_back(
        story.clone(),
        "r1",
        Some("b"),
        "5555555555555555555555555555555555555555",
    );
    let view = fold(&told(&back));
    assert_eq!(account(&view), account(&of_document(&back)));
    assert_eq!((view.completed(), view.undone.sum()), ((1, 2), None));
    let again = story.continues("r2", "r1", None, "4444444444444444444444444444444444444444");
    let again = costs(again.codon("a", open()), "r2", "a", 0.5);
    let view = fold(&told(&again));
    assert_eq!(account(&view), account(&of_document(&again)));
    let counting = view.items.values().map(|item| item.spent()).sum::<Usd>();
    assert_eq!(
        counting + view.undone.sum().unwrap().cost,
        view.money.spent,
        "the rows add up"
    );
}

// covers: WIRE-48
#[test]
fn what_a_rollback_undid_does_not_count_again_where_more_followed_than_is_listed() {
    let sha = |digit: char| digit.to_string().repeat(40);
    let ids: Vec<String> = (0..250).map(|number| format!("c{number}")).collect();
    let plan: Vec<&str> = ["a", "b"]
        .into_iter()
        .chain(ids.iter().map(String::as_str))
        .collect();
    let open = || Ending::Open(CodonStatus::Running);
    let story = Story::new().plan(&plan).fresh("r1").codon("a", Ending::Completed);
    let story = costs(story.codon("b", open()), "r1", "b", 0.25).run_crashes();
    let story = rolls_back(story, "r1", Some("a"), &sha('4'));
    let story = story.continues("r2", "r1", Some("a"), &sha('4'));
    let story = plan[1..]
        .iter()
        .fold(story, |story, id| story.codon(id, Ending::Completed));
    let story = story.run_completes();
    let before = fold(&told(&story)).undone.sum();
    assert_eq!(
        before.map(|undone| (undone.count, undone.cost)),
        Some((1, Usd::from_dollars(0.25).unwrap()))
    );
    let story = story.continues("r3", "r2", Some("c249"), &sha('5'));
    assert_eq!(fold(&told(&story)).undone.sum(), before);
}

/// Of the 260 iterations the 200 newest are listed, and the one to which the rollback leads is in the sum of the others.
// covers: WIRE-48
#[test]
fn a_way_back_to_an_attempt_that_is_only_summed_undoes_all_that_are_listed_after_it() {
    let ids: Vec<String> = (0..260).map(|number| format!("build#{number}")).collect();
    let plan: Vec<&str> = ids.iter().map(String::as_str).collect();
    let story = Story::new().tell(in_loop(&plan)).fresh("r1");
    let story = plan
        .iter()
        .fold(story, |story, id| story.codon(id, Ending::Completed));
    let story = story.run_completes();
    let sha = "4444444444444444444444444444444444444444";
    let story = rolls_back(story, "r1", Some("build#9"), sha);
    let adds_up = |story: &Story, listed: usize| {
        let view = fold(&told(story));
        assert_eq!(view.items["build"].attempts.len(), listed);
        assert_eq!(view.undone.sum().map(|undone| undone.count), Some(200));
        let counting: Usd = view.items.values().map(|item| item.spent()).sum();
        assert_eq!(counting + view.undone.sum().unwrap().cost, view.money.spent);
    };
    adds_up(&story, 0);
    let story = story.continues("r2", "r1", Some("build#9"), sha);
    adds_up(&story.codon("build#10", Ending::Completed), 1);
}

/// Of the two runs only the second has listed attempts, and the rollback leads into the first.
// covers: WIRE-48
#[test]
fn a_way_back_to_a_run_that_is_only_summed_undoes_all_that_are_listed() {
    let ids: Vec<String> = (0..230).map(|number| format!("build#{number}")).collect();
    let plan: Vec<&str> = ids.iter().map(String::as_str).collect();
    let complete = |story: Story, ids: &[&str]| {
        let story = ids
            .iter()
            .fold(story, |story, id| story.codon(id, Ending::Completed));
        story.run_completes()
    };
    let sha = |digit: char| digit.to_string().repeat(40);
    let story = complete(Story::new().tell(in_loop(&plan)).fresh("r1"), &plan[..10]);
    let story = story.continues("r2", "r1", Some("build#9"), &sha('4'));
    let story = complete(story, &plan[10..]);
    let listed = &fold(&told(&story)).items["build"].attempts;
    assert!(
        listed
            .values()
            .all(|attempt| attempt.run.as_ref().is_some_and(|run| run.as_str() == "r2"))
    );
    for after in [Some("build#5"), None] {
        let story = rolls_back(story.clone(), "r1", after, &sha('5'));
        let view = fold(&told(&story));
        assert_eq!(view.items["build"].attempts.len(), 0, "{after:?}");
        assert_eq!(
            view.undone.sum().map(|undone| undone.count),
            Some(200),
            "{after:?}"
        );
    }
}

// covers: WIRE-48, STATE-50
#[test]
fn a_way_back_across_histories_brings_back_exactly_what_led_there() {
    let sha = |digit: char| digit.to_string().repeat(40);
    let spends = |story: Story, run: &str, id: &str| {
        let open = Ending::Open(CodonStatus::Running);
        costs(story.codon(id, open), run, id, 0.25).run_crashes()
    };
    let story = Story::new()
        .plan(&["a", "b"])
        .fresh("r1")
        .codon("a", Ending::Completed);
    let story = spends(story, "r1", "b");
    let story = rolls_back(story, "r1", Some("a"), &sha('4'));
    let story = spends(story.continues("r2", "r1", Some("a"), &sha('4')), "r2", "b");
    // To one attempt of b and to the other one: each history has its own.
    let story = rolls_back(story, "r1", Some("b"), &sha('5'));
    let story = rolls_back(story, "r2", Some("b"), &sha('6'));
    let agree = |story: &Story| {
        let (view, read) = (fold(&told(story)), of_document(story));
        assert_eq!(account(&view), account(&read));
        let counting: Usd = view.items.values().map(|item| item.spent()).sum();
        let undone = view.undone.sum().unwrap_or_default();
        assert_eq!(
            counting + undone.cost + view.money.before,
            view.money.spent,
            "the rows add up"
        );
        view
    };
    let runs = |view: &RunView| -> Vec<String> {
        let attempts = view.items.values().flat_map(|item| item.attempts.values());
        attempts
            .map(|attempt| attempt.run.as_ref().unwrap().to_string())
            .collect()
    };
    assert_eq!(runs(&agree(&story)), ["r1", "r2"]);
    // A run starts over, and is undone to where the history stood; then a way leads to it again.
    let story = spends(story.fresh("r3"), "r3", "a");
    assert_eq!(runs(&agree(&story)), ["r3"]);
    let story = rolls_back(story, "r1", Some("a"), &sha('4'));
    let view = agree(&story);
    assert_eq!(
        (runs(&view), view.money.before),
        (vec!["r1".to_owned()], Usd::ZERO)
    );
    let story = rolls_back(story, "r3", Some("a"), &sha('7'));
    let view = agree(&story);
    assert_eq!(
        (runs(&view), view.money.before.to_string()),
        (vec!["r3".to_owned()], "$0.5000".to_owned())
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    // covers: WIRE-48
    #[test]
    fn what_counts_in_the_journal_counts_in_the_document(history in histories(60)) {
        let mut live = LiveState::default();
        let mut entries = Vec::new();
        for recorded in &history {
            let is_left_out = match &recorded.event {
                // The view forgets the entries that a new plan leaves out.
                StateEvent::PlanReplaced { .. } => !entries.is_empty(),
                StateEvent::RunStarted { starting_conditions, .. } => {
                    let source = starting_conditions.source();
                    let is_known = |source: &ContinuationSource| {
                        let run = live.document().run(&source.run_id);
                        run.is_some_and(|run| !run.codons.is_empty())
                    };
                    source.is_some_and(|source| !is_known(source))
                }
                // A rig has one checkpoint, which the steps of its codon name as well.
                StateEvent::CheckpointCreated { checkpoint_type: CheckpointType::RigSetup, .. } => true,
                // It shows what is being undone until that is done.
                StateEvent::RollbackPending { rollback, .. } => {
                    let has_codons = |back: &PendingRollback| {
                        let run = live.document().run(&back.source.run_id);
                        run.is_some_and(|run| !run.codons.is_empty())
                    };
                    rollback.as_ref().is_none_or(|back| !back.restored || !has_codons(back))
                }
                _ => false,
            };
            if !is_left_out && live.apply(recorded).is_ok() {
                let figures = CurrentFigures::of(&live);
                let event = Event::state_transition(Box::new(recorded.event.clone()), figures);
                entries.push(entry(entries.len() as u64 + 1, event));
            }
        }
        let document = live.document();
        let read = RunView::of_state(document, &thread::build(document, None, None), 0);
        let counting = |view: &RunView| {
            let mut account = account(view);
            // These histories start codons that no plan has.
            account["codons"].take();
            account
        };
        prop_assert_eq!(counting(&fold(&entries)), counting(&read));
    }
}
