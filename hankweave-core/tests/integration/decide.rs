//! What runs next, decided from the document (STATE-38 to STATE-45).

use hankweave_core::codon::CodonStatus;
use hankweave_core::event::StateEvent;
use hankweave_core::hank::{Hank, parse};
use hankweave_core::plan::{BlockedBy, Decision, decide, initial_plan};
use hankweave_core::testing::{Ending, Story};
use serde_json::{Value, json};

use Ending::{Completed, Failed, Open, Skipped};

pub(crate) fn codon(id: &str, mode: &str) -> Value {
    json!({"id": id, "name": id, "model": "sonnet", "continuationMode": mode, "promptText": "x"})
}

/// `a`, then a loop of `b` and `c`, then `d`.
fn hank(terminate_on: &Value) -> Hank {
    let codons = [codon("b", "continue-previous"), codon("c", "continue-previous")];
    let items = [
        codon("a", "fresh"),
        json!({"type": "loop", "id": "l", "name": "L", "terminateOn": terminate_on, "codons": codons}),
        codon("d", "fresh"),
    ];
    parse(&json!({"hank": items}).to_string()).hank.unwrap()
}

pub(crate) fn twice() -> Hank {
    hank(&json!({"type": "iterationLimit", "limit": 2}))
}

fn until_full() -> Hank {
    hank(&json!({"type": "contextExceeded"}))
}

/// The codons of these ids, each in a conversation of its own.
pub(crate) fn flat(ids: &[&str]) -> Hank {
    let codons: Vec<Value> = ids.iter().map(|id| codon(id, "fresh")).collect();
    parse(&json!({"hank": codons}).to_string()).hank.unwrap()
}

pub(crate) fn begun(hank: &Hank) -> Story {
    let execution_plan = initial_plan(hank);
    Story::new().tell(StateEvent::PlanReplaced { execution_plan })
}

fn ask(story: &Story, hank: &Hank) -> Decision {
    decide(story.state(), hank)
}

/// Lets the plan run, every codon with the ending that `ending` gives it; returns the ids in order and the last decision.
pub(crate) fn play(
    mut story: Story,
    hank: &Hank,
    ending: impl Fn(&str) -> Ending,
) -> (Story, Vec<String>, Decision) {
    let mut ran = Vec::new();
    loop {
        match ask(&story, hank) {
            Decision::Start(entry) => {
                story = story.codon(entry.codon_id.as_str(), ending(entry.codon_id.as_str()));
                ran.push(entry.codon_id.to_string());
            }
            Decision::Extend(extension) => story = story.tell(StateEvent::PlanExtended { extension }),
            end @ (Decision::Ask(_)
            | Decision::Retry(_)
            | Decision::Wait
            | Decision::Done
            | Decision::Blocked(_)) => {
                return (story, ran, end);
            }
        }
    }
}

fn planned(story: &Story) -> Vec<&str> {
    story
        .state()
        .execution_plan
        .iter()
        .map(|entry| entry.codon_id.as_str())
        .collect()
}

#[test]
fn a_loop_is_expanded_one_iteration_at_a_time_up_to_its_limit() {
    let hank = twice();
    let story = begun(&hank).fresh("r1");
    assert_eq!(planned(&story), ["a", "b#0", "c#0", "d"]);
    let (story, ran, end) = play(story, &hank, |_| Completed);
    assert_eq!(ran, ["a", "b#0", "c#0", "b#1", "c#1", "d"]);
    assert_eq!((planned(&story).len(), end), (6, Decision::Done));
}

// covers: STATE-42
#[test]
fn a_loop_records_as_little_for_a_late_iteration_as_for_an_early_one() {
    let hank = hank(&json!({"type": "iterationLimit", "limit": 300}));
    let (mut story, mut lengths) = (begun(&hank).fresh("r1"), Vec::new());
    loop {
        match ask(&story, &hank) {
            Decision::Start(entry) => story = story.codon(entry.codon_id.as_str(), Completed),
            Decision::Extend(extension) => {
                let event = StateEvent::PlanExtended { extension };
                lengths.push(serde_json::to_string(&event).unwrap().len());
                story = story.tell(event);
            }
            end => {
                assert_eq!(end, Decision::Done);
                break;
            }
        }
    }
    assert_eq!((lengths.len(), planned(&story).len()), (299, 602));
    // Numbers of three digits take more room than those of one: five times a number, and one more.
    assert!(lengths[298] <= lengths[2] + 16, "{lengths:?}");
    // The content of state.json has not changed.
    let whole = serde_json::to_value(&story.state().execution_plan).unwrap();
    assert_eq!(whole[600]["codon"], whole[2]["codon"]);
    assert_eq!(whole[600]["loopContext"]["iteration"], 299);
}

// covers: STATE-42
#[test]
fn skipped_codons_advance_a_loop_like_completed_ones() {
    let hank = twice();
    let (_, ran, end) = play(begun(&hank).fresh("r1"), &hank, |_| Skipped);
    assert_eq!((ran.len(), end), (6, Decision::Done));
}

#[test]
fn a_full_context_ends_its_loop_and_drops_the_rest_of_the_iteration() {
    let hank = until_full();
    let mut story = begun(&hank).fresh("r1");
    for id in ["a", "b#0", "c#0"] {
        let Decision::Start(entry) = ask(&story, &hank) else {
            panic!("{:?}", ask(&story, &hank));
        };
        assert_eq!(entry.codon_id.as_str(), id);
        story = story.codon(id, Completed);
    }
    let Decision::Extend(extension) = ask(&story, &hank) else {
        panic!("the loop continues");
    };
    story = story
        .tell(StateEvent::PlanExtended { extension })
        .codon("b#1", Open(CodonStatus::Running));
    let full = json!({"type": "CodonTransitioned", "data": {"runId": "r1", "codonId": "b#1", "from": "running", "to": "completed",
        "metadata": {"checkpointSha": "x", "contextExceeded": true}}});
    story = story.tell(serde_json::from_value(full).unwrap());
    let (story, ran, end) = play(story, &hank, |_| Completed);
    assert_eq!((ran, end), (vec!["d".to_owned()], Decision::Done));
    assert_eq!(planned(&story), ["a", "b#0", "c#0", "b#1", "d"]);
}

#[test]
fn a_failure_blocks_unless_the_hank_says_to_ignore_it() {
    let hank = twice();
    let fails = |id: &str| if id == "c#0" { Failed } else { Completed };
    let (_, ran, end) = play(begun(&hank).fresh("r1"), &hank, fails);
    assert_eq!(ran, ["a", "b#0", "c#0"]);
    let Decision::Blocked(BlockedBy::FailedCodon(id)) = end else {
        panic!("{end:?}");
    };
    assert_eq!(id.as_str(), "c#0");
    let mut ignoring = codon("c", "continue-previous");
    ignoring["onFailure"] = json!("ignore");
    let items = [
        codon("a", "fresh"),
        json!({"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 2},
               "codons": [codon("b", "fresh"), ignoring]}),
        codon("d", "fresh"),
    ];
    let hank = parse(&json!({"hank": items}).to_string()).hank.unwrap();
    let (_, ran, end) = play(begun(&hank).fresh("r1"), &hank, fails);
    assert_eq!(ran, ["a", "b#0", "c#0", "b#1", "c#1", "d"]);
    assert_eq!(end, Decision::Done);
}

#[test]
fn an_open_codon_is_waited_for() {
    let hank = twice();
    let story = begun(&hank)
        .fresh("r1")
        .codon("a", Open(CodonStatus::Initializing));
    assert_eq!(ask(&story, &hank), Decision::Wait);
}

// covers: STATE-44
#[test]
fn a_continuation_keeps_the_plan_as_far_as_it_had_come() {
    let hank = twice();
    let fails = |id: &str| if id == "b#1" { Failed } else { Completed };
    let (story, ..) = play(begun(&hank).fresh("r1"), &hank, fails);
    let expanded = planned(&story).len();
    let story = story.run_fails().continues("r2", "r1", Some("b#1"), "b#1-rig");
    assert_eq!(planned(&story).len(), expanded);
    let (_, ran, end) = play(story, &hank, |_| Completed);
    assert_eq!(
        (ran, end),
        (
            vec!["b#1".to_owned(), "c#1".to_owned(), "d".to_owned()],
            Decision::Done
        )
    );
}

/// The plan of a run that ended between the end of an iteration and the next plan is taken up where it was.
#[test]
fn a_run_that_ended_before_its_loop_went_on_loses_no_iteration() {
    let hank = twice();
    let mut story = begun(&hank).fresh("r1");
    for id in ["a", "b#0", "c#0"] {
        story = story.codon(id, Completed);
    }
    let story = story.run_fails().continues("r2", "r1", Some("c#0"), "c#0-end");
    let (_, ran, end) = play(story, &hank, |_| Completed);
    assert_eq!(
        (ran, end),
        (["b#1", "c#1", "d"].map(str::to_owned).to_vec(), Decision::Done)
    );
}

/// A rollback into a loop that had ended, because its context was full, walks through it again as if for the first time.
// covers: STATE-43
#[test]
fn the_rest_of_a_loop_is_planned_again_after_going_back_into_it() {
    let hank = until_full();
    let full = json!({"type": "CodonTransitioned", "data": {"runId": "r1", "codonId": "b#0", "from": "running", "to": "completed",
        "metadata": {"checkpointSha": "b-end", "contextExceeded": true}}});
    let story = begun(&hank).fresh("r1").codon("a", Completed);
    let story = story
        .codon("b#0", Open(CodonStatus::Running))
        .tell(serde_json::from_value(full).unwrap());
    let (story, ran, _) = play(story, &hank, |_| Completed);
    assert_eq!(
        (ran, planned(&story)),
        (vec!["d".to_owned()], vec!["a", "b#0", "d"])
    );
    let mut story = story.run_completes().continues("r2", "r1", Some("a"), "a-end");
    for id in ["b#0", "c#0", "b#1", "c#1"] {
        let entry = loop {
            match ask(&story, &hank) {
                Decision::Start(entry) => break entry,
                Decision::Extend(extension) => story = story.tell(StateEvent::PlanExtended { extension }),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(entry.codon_id.as_str(), id);
        story = story.codon(id, Completed);
    }
}

// covers: STATE-45
#[test]
fn what_nobody_can_know_blocks_with_its_reason() {
    let hank = twice();
    let orphan = begun(&hank)
        .fresh("r0")
        .run_completes()
        .continues("r1", "gone", Some("a"), "x");
    assert_eq!(ask(&orphan, &hank), Decision::Blocked(BlockedBy::MissingParent));
    let changed = begun(&hank).fresh("r1").codon("stranger", Completed);
    assert!(matches!(
        ask(&changed, &hank),
        Decision::Blocked(BlockedBy::ChangedHank(_))
    ));
    assert_eq!(ask(&Story::new().fresh("r1"), &hank), Decision::Done);
}

/// The plan decides, also where hank.json has another order or more codons by now, or lacks one that has ended.
// covers: STATE-45
#[test]
fn another_order_and_new_codons_change_nothing_about_a_stored_plan() {
    let changes: [&[&str]; 3] = [&["a", "c", "b"], &["n", "a", "b", "c", "m"], &["b", "c"]];
    for changed in changes {
        let story = begun(&flat(&["a", "b", "c"])).fresh("r1").codon("a", Completed);
        let (_, ran, end) = play(story, &flat(changed), |_| Completed);
        assert_eq!(ran, ["b", "c"], "{changed:?}");
        assert_eq!(end, Decision::Done);
    }
}

/// The answer depends on the document alone, so a restart decides as the runner before it would have done.
// covers: STATE-44
#[test]
fn a_document_that_was_saved_and_loaded_gets_the_same_answer() {
    let hank = twice();
    let mut story = begun(&hank).fresh("r1");
    for id in ["a", "b#0", "c#0"] {
        story = story.codon(id, Completed);
        let loaded =
            hankweave_core::document::parse(hankweave_core::document::render(story.state()).as_bytes())
                .unwrap();
        let again = decide(&loaded, &hank);
        assert_eq!(again, ask(&story, &hank));
    }
}

/// `a`, then a loop of `b` that has to be approved and may fail once.
fn asking() -> Hank {
    let mut approved = codon("b", "fresh");
    approved["approval"] = json!("Deploy?");
    approved["onFailure"] = json!("retry");
    let until = json!({"type": "iterationLimit", "limit": 2});
    let round = json!({"type": "loop", "id": "l", "name": "L", "terminateOn": until, "codons": [approved]});
    let mut free = codon("a", "fresh");
    free["approval"] = json!(false);
    parse(&json!({"hank": [free, round]}).to_string()).hank.unwrap()
}

fn answered(codon: &str, granted: bool) -> StateEvent {
    let data = json!({"approval": {"codonId": codon, "granted": granted, "later": 1}});
    StateEvent::from_json(json!({"type": "ApprovalSet", "data": data})).unwrap()
}

// covers: STATE-65
#[test]
fn each_iteration_waits_for_an_answer_of_its_own_and_a_restart_knows_it() {
    let hank = asking();
    let asked = |story: &Story| match ask(story, &hank) {
        Decision::Ask(entry) => entry.codon_id.to_string(),
        other => panic!("{other:?}"),
    };
    let (story, ran, _) = play(begun(&hank).fresh("r1"), &hank, |_| Completed);
    assert_eq!((ran, asked(&story)), (vec!["a".to_owned()], "b#0".to_owned()));
    let other = story.clone().tell(answered("a", true));
    assert_eq!(asked(&other), "b#0", "the answer is about another codon");

    let denied = story.clone().tell(answered("b#0", false));
    let blocked = Decision::Blocked(BlockedBy::Denied("b#0".parse().unwrap()));
    assert_eq!(ask(&denied, &hank), blocked);
    let stored =
        hankweave_core::document::parse(hankweave_core::document::render(denied.state()).as_bytes()).unwrap();
    let read = decide(&stored, &hank);
    assert_eq!((&stored, read), (denied.state(), blocked));

    let granted = denied.tell(answered("b#0", true));
    let failed = granted.clone().codon("b#0", Failed).run_fails();
    let again = failed.continues("r2", "r1", Some("a"), "a-end");
    let starts = |decision| matches!(decision, Decision::Start(entry) if entry.codon_id.as_str() == "b#0");
    assert!(starts(ask(&again, &hank)), "what was approved may be tried again");
    let (story, ran, _) = play(granted, &hank, |_| Completed);
    assert_eq!((ran, asked(&story)), (vec!["b#0".to_owned()], "b#1".to_owned()));
}
