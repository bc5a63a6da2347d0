//! The execution thread, rule by rule (STATE-49 to STATE-60).

use std::collections::HashSet;

use hankweave_core::codon::{CheckpointType, CodonStatus};
use hankweave_core::document::{HankweaveState, KnownCheckpoints};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::testing::{Ending, Story, states};
use hankweave_core::thread::{
    CodonPoint, ExecutionThread, Resume, RetentionRule, TargetError, ThreadTip, build, can_continue_from,
    continuation_checkpoint, operations, position, removable, source_of_files, undo, walk,
};
use proptest::prelude::*;

use Ending::{Completed, Failed, Open, Skipped};

const PLAN: [&str; 4] = ["a", ">b", ">c", ">d"];

fn story() -> Story {
    Story::new().plan(&PLAN)
}

fn codon_id(text: &str) -> CodonId {
    CodonId::new(text).unwrap()
}

fn run_id(text: &str) -> RunId {
    RunId::new(text).unwrap()
}

fn thread(story: &Story) -> ExecutionThread {
    build(story.state(), None, None)
}

/// The codons as `run/codon`, and what is next.
#[track_caller]
fn check(story: &Story, codons: &[&str], next: Option<&str>) -> ExecutionThread {
    let thread = thread(story);
    let found: Vec<String> = thread
        .codons
        .iter()
        .map(|entry| format!("{}/{}", entry.run_id, entry.codon.codon_id()))
        .collect();
    assert_eq!(found, codons);
    assert_eq!(thread.next_codon_id.as_ref().map(CodonId::as_str), next);
    thread
}

/// Two codons completed, the third failed, and so did the run.
fn broken() -> Story {
    story()
        .fresh("r1")
        .codon("a", Completed)
        .codon("b", Completed)
        .codon("c", Failed)
        .run_fails()
}

// covers: STATE-49
#[test]
fn without_a_run_the_thread_is_empty() {
    let empty = check(&story(), &[], None);
    assert_eq!(
        (empty.total_runs, empty.failed, empty.has_running_codon),
        (0, false, false)
    );
    let unknown = build(broken().state(), Some(&run_id("nobody")), None);
    assert_eq!((unknown.total_runs, unknown.next_codon_id), (0, None));
}

// covers: STATE-49
#[test]
fn a_fresh_run_is_its_own_thread_newest_first() {
    let story = story()
        .fresh("r0")
        .run_completes()
        .fresh("r1")
        .codon("a", Completed)
        .codon("b", Completed);
    let thread = check(&story, &["r1/b", "r1/a"], Some("c"));
    let places: Vec<_> = thread
        .codons
        .iter()
        .map(|entry| (entry.global_index, entry.run_index, entry.codon_index_in_run))
        .collect();
    assert_eq!((thread.total_runs, places), (1, vec![(0, 0, 1), (1, 0, 0)]));
    let older = build(story.state(), Some(&run_id("r0")), None);
    assert_eq!((older.total_runs, older.codons.len()), (1, 0));
}

// The four cases.
// covers: STATE-50
#[test]
fn a_continuation_takes_over_what_came_before_its_point() {
    let normal = broken()
        .continues("r2", "r1", Some("b"), "b-end")
        .codon("c", Completed);
    check(&normal, &["r2/c", "r1/b", "r1/a"], Some("d"));
    let rig = broken()
        .continues("r2", "r1", Some("c"), "c-rig")
        .codon("c", Completed);
    check(&rig, &["r2/c", "r1/b", "r1/a"], Some("d"));
    let beginning = broken()
        .continues("r2", "r1", None, "a-rig")
        .codon("a", Completed);
    assert_eq!(check(&beginning, &["r2/a"], Some("b")).total_runs, 2);
    let broken_reference = broken().continues("r2", "r1", Some("zzz"), "b-end");
    check(&broken_reference, &["r1/c", "r1/b", "r1/a"], None);
}

// No story can produce this, so the document is changed directly.
// covers: STATE-49
#[test]
fn runs_that_continue_each_other_are_visited_once() {
    let story = broken()
        .continues("r2", "r1", Some("b"), "b-end")
        .codon("c", Completed);
    let mut document = serde_json::to_value(story.state()).unwrap();
    document["runs"][1]["startingConditions"] = serde_json::json!({"type": "continuation",
        "source": {"runId": "r2", "afterCodon": "c", "checkpointSha": "x"}});
    let state: HankweaveState = serde_json::from_value(document).unwrap();
    let thread = build(&state, None, None);
    assert_eq!((thread.codons.len(), thread.total_runs), (3, 2));
    let mut document = serde_json::to_value(story.state()).unwrap();
    document["runs"][0]["startingConditions"]["source"]["runId"] = "r2".into();
    let state: HankweaveState = serde_json::from_value(document).unwrap();
    let thread = build(&state, None, None);
    assert_eq!((thread.codons.len(), thread.total_runs), (1, 1));
}

// covers: STATE-52
#[test]
fn a_retry_in_a_run_belongs_to_the_thread() {
    let retried = story()
        .fresh("r1")
        .codon("a", Completed)
        .codon("b", Failed)
        .codon("b retry", Completed)
        .run_fails();
    let after = retried.clone().continues("r2", "r1", Some("b"), "b-retry-end");
    check(&after, &["r1/b", "r1/b", "r1/a"], Some("c"));
    let after_the_failure = retried.clone().continues("r2", "r1", Some("b"), "b-end");
    let thread = check(&after_the_failure, &["r1/b", "r1/a"], None);
    assert!(thread.failed, "an error checkpoint leads after the failed codon");
    let without_files = retried.clone().continues("r2", "r1", Some("b"), "");
    check(&without_files, &["r1/b", "r1/b", "r1/a"], Some("c"));
    let rig_of_the_first = retried.clone().continues("r2", "r1", Some("b"), "b-rig");
    check(&rig_of_the_first, &["r1/a"], Some("b"));
    let rig_of_the_second = retried.continues("r2", "r1", Some("b"), "b-retry-rig");
    assert!(check(&rig_of_the_second, &["r1/b", "r1/a"], None).failed);
}

// covers: STATE-53
#[test]
fn only_the_newest_codon_decides_whether_the_thread_failed() {
    let ignored = story().fresh("r1").codon("a", Failed).codon("b", Completed);
    assert!(!check(&ignored, &["r1/b", "r1/a"], Some("c")).failed);
    let running = story().fresh("r1").codon("a", Open(CodonStatus::Starting));
    let thread = check(&running, &["r1/a"], None);
    assert_eq!((thread.failed, thread.has_running_codon), (false, true));
    let failed_run = story().fresh("r1").codon("a", Completed).run_fails();
    assert!(
        !check(&failed_run, &["r1/a"], None).failed,
        "rule 1: a failed run has no next codon"
    );
    let skipped = story().fresh("r1").codon("a", Skipped).run_crashes();
    assert!(!check(&skipped, &["r1/a"], Some("b")).failed);
}

// Edge cases: a crash, before and after recovery.
// covers: STATE-53
#[test]
fn a_crash_is_a_failure_converted_or_not() {
    let open = story().fresh("r1").codon("a", Open(CodonStatus::Running));
    let converted = open.clone().run_crashes();
    let found = check(&converted, &["r1/a"], None);
    assert_eq!((found.failed, found.has_running_codon), (true, false));
    let mut document = serde_json::to_value(open.state()).unwrap();
    document["runs"][0]["status"] = "crashed".into();
    let state: HankweaveState = serde_json::from_value(document).unwrap();
    let found = build(&state, None, None);
    assert_eq!(
        (found.failed, found.has_running_codon, found.next_codon_id),
        (true, true, None)
    );
}

// covers: STATE-54
#[test]
fn what_is_next_follows_its_rules_in_their_order() {
    check(&story().fresh("r1"), &[], Some("a"));
    check(&Story::new().fresh("r1"), &[], None);
    let rig_of_the_first = broken().continues("r2", "r1", Some("a"), "a-rig");
    assert_eq!(check(&rig_of_the_first, &[], Some("a")).total_runs, 2);
    check(
        &broken().continues("r2", "r1", Some("c"), "c-rig"),
        &["r1/b", "r1/a"],
        Some("c"),
    );
    check(
        &broken().continues("r2", "r1", Some("b"), "b-end"),
        &["r1/b", "r1/a"],
        Some("c"),
    );
    check(&broken().continues("r2", "r1", None, ""), &[], Some("a"));
    check(
        &story()
            .fresh("r1")
            .run_fails()
            .continues("r2", "gone", Some("b"), "x"),
        &[],
        None,
    );
    check(
        &story()
            .fresh("r1")
            .run_fails()
            .continues("r2", "r1", Some("b"), "x"),
        &[],
        Some("c"),
    );
    check(&story().fresh("r1").codon("d", Completed), &["r1/d"], None);
    check(
        &story().fresh("r1").codon("stranger", Completed),
        &["r1/stranger"],
        None,
    );
    check(&story().fresh("r1").codon("a", Skipped), &["r1/a"], Some("b"));
    let same_sha = broken().continues("r2", "r1", Some("c"), "c-rig").run_fails();
    check(&same_sha, &["r1/b", "r1/a"], None);
}

// Rule 4 with a gap in the plan: the codon itself, not the successor of the newest one.
// covers: STATE-51
#[test]
fn a_rig_setup_continuation_runs_its_codon_again_whatever_the_plan_says() {
    let story = Story::new()
        .plan(&["a", "x", "b"])
        .fresh("r1")
        .codon("a", Completed)
        .codon("b", Failed)
        .run_fails()
        .continues("r2", "r1", Some("b"), "b-rig");
    check(&story, &["r1/a"], Some("b"));
}

// A crash in the session that a run continued: all attempts since the set-up run again, also those of earlier runs.
// covers: STATE-51
#[test]
fn a_rig_setup_continuation_passes_over_the_attempts_that_continued_it() {
    let story = broken()
        .continues("r2", "r1", Some("c"), "")
        .codon("c", Failed)
        .run_fails()
        .continues("r3", "r2", Some("c"), "c-rig");
    check(&story, &["r1/b", "r1/a"], Some("c"));
}

// Edge cases: `afterCodon: null` of a run that is itself a continuation.
// covers: STATE-50
#[test]
fn a_continuation_from_the_beginning_of_a_continuation_shows_the_grandparent() {
    let story = broken()
        .continues("r2", "r1", Some("b"), "b-end")
        .codon("c retry", Failed)
        .run_fails()
        .continues("r3", "r2", None, "");
    let thread = check(&story, &["r1/b", "r1/a"], Some("c"));
    assert_eq!((thread.total_runs, thread.codons[0].run_index), (3, 2));
}

/// Returns the session that a codon continues. The newest end of the thread and the whole thread must agree on it.
#[track_caller]
fn session(story: &Story, id: &str) -> Option<String> {
    let thread = thread(story);
    let plan = story.state().execution_plan.clone();
    let one = ThreadTip::of(story.state())
        .continuation_session(&codon_id(id))
        .map(ToString::to_string);
    let all = thread.continuation_sessions(&plan);
    assert_eq!(
        all.get(&codon_id(id)).copied().flatten().map(ToString::to_string),
        one
    );
    one
}

// covers: STATE-55, HANK-95
#[test]
fn a_fork_goes_on_from_the_newest_iteration_that_completed_before_it() {
    let plan = [
        "a", "b<a", ">c", "x#0<a", "y#0<x", "x#1<a", "y#1<x", "x#2<a", "z<x",
    ];
    let story = Story::new()
        .plan(&plan)
        .fresh("r1")
        .codon("a", Completed)
        .codon("b", Completed)
        .codon("c", Completed)
        .codon("x#0 first", Completed)
        .codon("x#1 second", Completed)
        .codon("x#2", Failed);
    for (id, expected) in [
        ("a", None),
        ("b", Some("a-session")),
        ("c", Some("b-session")),
        ("x#2", Some("a-session")),
        ("y#0", Some("x#0-first-session")),
        ("y#1", Some("x#1-second-session")),
        ("z", Some("x#1-second-session")),
    ] {
        assert_eq!(session(&story, id).as_deref(), expected, "{id}");
    }
    let unheard = Story::new().plan(&plan).fresh("r1").codon("a", Failed);
    assert_eq!(session(&unheard, "b"), None, "there is nothing to copy");
}

// covers: STATE-55
#[test]
fn a_session_is_taken_up_from_the_newest_record_that_has_one() {
    let story = story()
        .fresh("r1")
        .codon("a", Completed)
        .codon("b first", Completed)
        .codon("b second", Failed)
        .codon("c", Skipped);
    assert_eq!(session(&story, "a"), None, "a fresh codon");
    assert_eq!(session(&story, "b").as_deref(), Some("a-session"));
    assert_eq!(
        session(&story, "c").as_deref(),
        Some("b-first-session"),
        "a failed one is passed over"
    );
    assert_eq!(session(&story, "d"), None, "nothing was said before the skip");
    assert_eq!(session(&story, "stranger"), None);
    let count = serde_json::json!({"type": "AssistantMessageCountUpdated",
        "data": {"runId": "r1", "codonId": "c", "newCount": 1}});
    let talked = Story::new()
        .plan(&PLAN)
        .fresh("r1")
        .codon("c", Open(CodonStatus::Running))
        .tell(serde_json::from_value(count).unwrap())
        .tell(
            serde_json::from_value(serde_json::json!({"type": "CodonTransitioned",
            "data": {"runId": "r1", "codonId": "c", "from": "running", "to": "skipped", "metadata": {"skippedDuring": "running"}}}))
            .unwrap(),
        );
    assert_eq!(session(&talked, "d").as_deref(), Some("c-session"));
}

fn known(shas: &[&str]) -> HashSet<CheckpointSha> {
    shas.iter().map(|sha| CheckpointSha::new(*sha)).collect()
}

// covers: STATE-56
#[test]
fn checkpoints_are_listed_in_order_and_only_those_that_exist() {
    let story = broken();
    let all = known(&["a-rig", "a-end", "c-rig", "c-end"]);
    let thread = build(story.state(), None, Some(&all));
    let types = |index: usize| -> Vec<CheckpointType> {
        let checkpoints = thread.codons[index].validated_checkpoints.iter();
        checkpoints.map(|checkpoint| checkpoint.checkpoint_type).collect()
    };
    assert_eq!(types(0), [CheckpointType::RigSetup, CheckpointType::Error]);
    assert_eq!(types(1), []);
    assert_eq!(types(2), [CheckpointType::RigSetup, CheckpointType::Completed]);
    let without = build(story.state(), None, None);
    assert!(
        without
            .codons
            .iter()
            .all(|entry| entry.validated_checkpoints.is_empty())
    );
}

// covers: STATE-57
#[test]
fn the_last_success_is_the_newest_completed_codon_with_its_checkpoint() {
    let place = |shas: &[&str]| {
        let all = known(shas);
        let target = build(broken().state(), None, Some(&all)).last_success();
        target.map(|target| target.checkpoint_sha.to_string())
    };
    assert_eq!(place(&["a-end", "b-end", "c-rig"]).as_deref(), Some("b-end"));
    assert_eq!(
        place(&["a-end", "c-rig", "c-end"]).as_deref(),
        Some("c-rig"),
        "a failed codon prefers its rig"
    );
    assert_eq!(place(&["a-end", "b-rig"]).as_deref(), Some("b-rig"));
    assert_eq!(place(&[]), None);
}

// A run never continues after the failure that blocks it.
// covers: STATE-60
#[test]
fn a_blocked_thread_resumes_in_front_of_its_failure_or_anew() {
    let resumed = |shas: &[&str]| build(broken().state(), None, Some(&known(shas))).resume(true);
    let rolled_back = |shas: &[&str]| match resumed(shas) {
        Resume::RollBack(source) => Some(source.checkpoint_sha.to_string()),
        Resume::Fresh | Resume::Continue(_) | Resume::Again(_) | Resume::Session(..) => None,
    };
    assert_eq!(rolled_back(&["b-end", "c-end"]).as_deref(), Some("b-end"));
    assert_eq!(rolled_back(&["c-rig", "c-end"]).as_deref(), Some("c-rig"));
    assert_eq!(resumed(&["c-end"]), Resume::Fresh);
}

// covers: STATE-58
#[test]
fn the_way_back_to_a_codon_of_a_loop_leads_to_its_newest_iteration() {
    let story = Story::new()
        .plan(&["a"])
        .fresh("r1")
        .codon("mend#0", Completed)
        .codon("mend#1", Completed);
    let all = known(&["mend#0-end", "mend#1-end"]);
    let thread = build(story.state(), None, Some(&all));
    let after = |id: &str| {
        let target = thread.codon_target(&codon_id(id), CodonPoint::End).unwrap();
        target.after_codon.unwrap().to_string()
    };
    assert_eq!(
        (after("mend"), after("mend#0")),
        ("mend#1".to_owned(), "mend#0".to_owned())
    );
}

// covers: STATE-58
#[test]
fn the_way_back_leads_to_a_codon_or_a_commit() {
    let story = broken().fresh("r2").codon("a other", Completed);
    let all = known(&["a-rig", "a-end", "b-end", "a-other-end", "a-other-rig"]);
    let thread = build(story.state(), Some(&run_id("r1")), Some(&all));
    let to = |id: &str, point| {
        let target = thread.codon_target(&codon_id(id), point);
        target.map(|target| target.checkpoint_sha.to_string())
    };
    assert_eq!(to("a", CodonPoint::Start).as_deref(), Ok("a-rig"));
    assert_eq!(to("a", CodonPoint::End).as_deref(), Ok("a-end"));
    assert_eq!(
        to("a", CodonPoint::At(CheckpointType::Completed)).as_deref(),
        Ok("a-end")
    );
    assert_eq!(
        to("b", CodonPoint::At(CheckpointType::RigSetup)),
        Err(TargetError::NoCheckpoint(codon_id("b")))
    );
    assert_eq!(
        to("d", CodonPoint::End),
        Err(TargetError::UnknownCodon(codon_id("d")))
    );
    let by_sha = |prefix: &str| thread.sha_target(story.state(), &all as &dyn KnownCheckpoints, prefix);
    let found = by_sha("b").unwrap();
    assert_eq!(
        (found.run_id.as_str(), found.after_codon),
        ("r1", Some(codon_id("b")))
    );
    assert_eq!(
        by_sha("a-o").unwrap_err().to_string().matches("a-other").count(),
        2
    );
    assert_eq!(
        by_sha("a-other-e").unwrap().run_id.as_str(),
        "r2",
        "other runs come second"
    );
    assert!(matches!(by_sha("a-"), Err(TargetError::Ambiguous { matches, .. }) if matches.len() == 2));
    for nothing in ["", "c", "x"] {
        assert_eq!(by_sha(nothing), Err(TargetError::UnknownSha(nothing.to_owned())));
    }
}

/// A finished run that started with the files of `clean`, and the checkpoints that it made.
fn begun_clean() -> (HankweaveState, HashSet<CheckpointSha>) {
    let story = broken()
        .continues("r2", "r1", Some("b"), "b-end")
        .codon("c other", Failed);
    let mut document = serde_json::to_value(story.run_fails().state()).unwrap();
    document["initialCheckpoint"] = "clean".into();
    let shas = ["clean", "a-end", "b-rig", "b-end", "c-end", "c-other-end"];
    (serde_json::from_value(document).unwrap(), known(&shas))
}

// State file reference: the initial checkpoint "is the reset to factory".
#[test]
fn the_way_back_leads_to_the_files_before_the_first_codon() {
    let (state, all) = begun_clean();
    let thread = build(&state, None, Some(&all));
    let found = thread.sha_target(&state, &all, "cl").unwrap();
    assert_eq!((found.run_id.as_str(), &found.after_codon), ("r1", &None));
    assert_eq!(thread.beginning(&state, &all), Some(found.clone()));
    assert_eq!(
        thread.beginning(&state, &known(&["a-end"])),
        None,
        "nobody kept them"
    );

    let mut ahead = serde_json::to_value(&state).unwrap();
    ahead["pendingRollback"] = serde_json::json!({"source": found, "restored": true});
    let ahead: HankweaveState = serde_json::from_value(ahead).unwrap();
    let thread = build(&ahead, None, Some(&all));
    assert!(thread.codons.is_empty());
    assert_eq!(thread.next_codon_id, Some(codon_id("a")));
}

// Files that were kept before a rollback belong to the position of the history at that time.
#[test]
fn kept_files_stand_behind_the_checkpoint_that_they_were_made_from() {
    let (state, _) = begun_clean();
    let stands = |base: &str| {
        let found = source_of_files(&state, &CheckpointSha::new(base), &CheckpointSha::new("kept"))?;
        assert_eq!(found.checkpoint_sha.as_str(), "kept");
        Some((
            found.run_id.to_string(),
            found.after_codon.map(|id| id.to_string()),
        ))
    };
    let at = |run: &str, after: Option<&str>| Some((run.to_owned(), after.map(str::to_owned)));
    assert_eq!(stands("a-end"), at("r1", Some("a")));
    assert_eq!(stands("c-other-end"), at("r2", Some("c")));
    assert_eq!(
        stands("b-rig"),
        at("r1", Some("a")),
        "a codon that had only been set up runs again"
    );
    assert_eq!(stands("clean"), at("r1", None));
    assert_eq!(stands("unknown"), None);
}

// covers: STATE-64
#[test]
fn a_run_can_be_continued_from_its_beginning_and_from_what_completed() {
    let story = broken();
    let can = |run: &str, codon: Option<&str>| {
        let codon = codon.map(codon_id);
        let (state, run) = (story.state(), run_id(run));
        let sha = continuation_checkpoint(state, &run, codon.as_ref());
        (
            can_continue_from(state, &run, codon.as_ref()),
            sha.map(CheckpointSha::as_str),
        )
    };
    assert_eq!(can("r1", None), (true, Some("a-rig")));
    assert_eq!(can("r1", Some("b")), (true, Some("b-end")));
    assert_eq!(can("r1", Some("c")), (false, None));
    assert_eq!(can("r1", Some("d")), (false, None));
    assert_eq!(can("r9", None), (false, None));
}

// Edge cases, "parent missing".
// covers: STATE-49
#[test]
fn a_missing_parent_ends_the_walk_and_is_not_counted() {
    let orphan = story()
        .fresh("r1")
        .run_fails()
        .continues("r2", "gone", Some("a"), "x")
        .codon("b", Completed);
    assert_eq!(check(&orphan, &["r2/b"], Some("c")).total_runs, 1);
}

// One id in a parent and in its child.
// covers: STATE-52
#[test]
fn a_codon_that_ran_again_in_a_child_run_is_in_the_thread_twice() {
    let again = broken()
        .continues("r2", "r1", Some("b"), "b-end")
        .codon("b again", Completed);
    check(&again, &["r2/b", "r1/b", "r1/a"], Some("c"));
}

// Edge cases, "empty `checkpointSha`", also when the rig checkpoint of the codon is just as empty. No story can produce this.
// covers: STATE-51
#[test]
fn an_empty_checkpoint_is_never_a_rig_setup_continuation() {
    let story = broken().continues("r2", "r1", Some("c"), "");
    let mut document = serde_json::to_value(story.state()).unwrap();
    document["runs"][1]["codons"][2]["rigSetupCheckpoint"] = "".into();
    let state: HankweaveState = serde_json::from_value(document).unwrap();
    let thread = build(&state, None, None);
    assert_eq!(
        (thread.codons.len(), thread.failed, thread.next_codon_id),
        (3, true, None)
    );
}

// In any run, even a crashed one. No story can produce this.
// covers: STATE-53
#[test]
fn an_open_codon_of_an_older_run_still_runs() {
    let story = broken()
        .continues("r2", "r1", Some("c"), "c-rig")
        .codon("c", Completed);
    let mut document = serde_json::to_value(story.state()).unwrap();
    let open = story.clone().codon("d", Open(CodonStatus::Preparing));
    let open = serde_json::to_value(open.state()).unwrap()["runs"][0]["codons"][1].take();
    document["runs"][1]["status"] = "crashed".into();
    document["runs"][1]["codons"][0] = open;
    let state: HankweaveState = serde_json::from_value(document).unwrap();
    let thread = build(&state, None, None);
    assert_eq!(
        (thread.failed, thread.has_running_codon, thread.next_codon_id),
        (false, true, None)
    );
}

// No story can produce this.
// covers: STATE-35
#[test]
fn a_codon_that_completed_without_a_checkpoint_is_no_way_back() {
    let mut document = serde_json::to_value(broken().state()).unwrap();
    document["runs"][0]["codons"][1]["completionCheckpoint"] = "".into();
    let state: HankweaveState = serde_json::from_value(document).unwrap();
    let all = known(&["a-end", "b-rig"]);
    let thread = build(&state, None, Some(&all));
    assert_eq!(
        thread.codon_target(&codon_id("b"), CodonPoint::At(CheckpointType::Completed)),
        Err(TargetError::NoCheckpoint(codon_id("b")))
    );
    assert_eq!(thread.last_success().unwrap().checkpoint_sha.as_str(), "b-rig");
    assert_eq!(
        continuation_checkpoint(&state, &run_id("r1"), Some(&codon_id("b"))),
        None
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_walk_and_the_thread_are_the_same(state in states(60)) {
        for run in &state.runs {
            let thread = build(&state, Some(&run.run_id), None);
            let mut steps = walk(&state, Some(&run.run_id));
            for (entry, step) in thread.codons.iter().zip(steps.by_ref()) {
                prop_assert_eq!(&entry.codon, step.codon);
                prop_assert_eq!(entry.global_index, step.global_index);
            }
            prop_assert!(steps.next().is_none());
            prop_assert_eq!(steps.runs_visited(), thread.total_runs);
            prop_assert!(thread.total_runs <= state.runs.len());
            prop_assert_eq!(thread.has_running_codon, thread.codons.iter().any(|entry| !entry.codon.is_terminal()));
            if thread.failed || thread.has_running_codon {
                prop_assert_eq!(thread.next_codon_id, None);
            }
        }
    }
}

// Until the next run exists, the thread is the one that it will have.
// covers: STATE-59
#[test]
fn a_pending_way_back_is_where_the_thread_ends() {
    let story = broken();
    let pending = |after: &str, sha: &str| {
        let source = serde_json::json!({"runId": "r1", "afterCodon": after, "checkpointSha": sha});
        let data = serde_json::json!({"rollback": {"source": source, "restored": true}});
        StateEvent::from_json(serde_json::json!({"type": "RollbackPending", "data": data})).unwrap()
    };
    let story = story.tell(pending("a", "a-end"));
    let thread = check(&story, &["r1/a"], Some("b"));
    assert_eq!((thread.total_runs, thread.failed), (1, false));
    assert_eq!(position(story.state(), &thread).unwrap().as_str(), "a-end");
    let story = story.tell(pending("c", "c-rig"));
    check(&story, &["r1/b", "r1/a"], Some("c"));
    let story = story.continues("r2", "r1", Some("c"), "c-rig");
    check(&story, &["r1/b", "r1/a"], Some("c"));
}

#[test]
fn what_is_left_is_the_newest_checkpoint_of_the_run_or_the_one_it_began_with() {
    let at = |story: &Story| position(story.state(), &thread(story)).map(|sha| sha.to_string());
    assert_eq!(at(&story()), None);
    assert_eq!(at(&broken()).as_deref(), Some("c-end"));
    let open = story()
        .fresh("r1")
        .codon("a", Completed)
        .codon("b", Open(CodonStatus::Preparing));
    assert_eq!(at(&open).as_deref(), Some("a-end"));
    let begun = broken().continues("r2", "r1", Some("b"), "b-end");
    assert_eq!(at(&begun).as_deref(), Some("b-end"));
    let as_they_are = broken().continues("r2", "r1", Some("b"), "");
    assert_eq!(at(&as_they_are).as_deref(), Some("b-end"));

    // A blank checkpoint, as the older system recorded, names no commit.
    let story = story().fresh("r1").codon("a", Completed).codon("b", Completed);
    let mut older = serde_json::to_value(story.state()).unwrap();
    older["runs"][0]["codons"][1]["completionCheckpoint"] = "".into();
    let older: HankweaveState = serde_json::from_value(older).unwrap();
    let thread = build(&older, None, None);
    assert_eq!(position(&older, &thread).unwrap().as_str(), "b-rig");
}

// The files stay, the newest codon runs again.
// covers: RUN-3, RUN-2
#[test]
fn the_newest_codon_can_be_run_again_with_the_files_as_they_are() {
    let again = |story: &Story| thread(story).again().unwrap();
    assert_eq!(thread(&story()).again(), None);
    let story = broken();
    let source = again(&story);
    assert_eq!(
        (
            source.after_codon.as_ref().unwrap().as_str(),
            source.checkpoint_sha.is_blank()
        ),
        ("b", true)
    );
    check(
        &story.clone().continues("r2", "r1", Some("b"), ""),
        &["r1/b", "r1/a"],
        Some("c"),
    );
    let first = Story::new()
        .plan(&PLAN)
        .fresh("r1")
        .codon("a", Failed)
        .codon("a retry", Failed)
        .run_fails();
    assert_eq!(again(&first).after_codon, None);
    check(&first.continues("r2", "r1", None, ""), &[], Some("a"));
    let retried = story
        .continues("r2", "r1", Some("b"), "")
        .codon("c", Failed)
        .codon("c retry", Failed);
    let source = again(&retried);
    assert_eq!(
        (source.run_id.as_str(), source.after_codon.unwrap().as_str()),
        ("r1", "b")
    );
}

fn all_but(keep: usize) -> RetentionRule {
    RetentionRule {
        keep,
        ended_before: None,
    }
}

// covers: RUN-23
#[test]
fn what_neither_a_kept_run_nor_the_way_back_from_it_needs_may_go() {
    let story = story()
        .fresh("r1")
        .codon("a first", Completed)
        .run_completes()
        .fresh("r2")
        .codon("a second", Completed)
        .run_completes()
        .fresh("r3")
        .codon("a third", Completed)
        .run_completes();
    let state = story.state();
    let of = |run: &str| {
        let codons = state.run(&run_id(run)).unwrap().codons.iter();
        codons
            .flat_map(|codon| codon.checkpoints().map(|(_, sha)| sha.clone()))
            .collect::<Vec<_>>()
    };
    let may_go = removable(state, all_but(1), |_| None);
    assert_eq!(may_go.runs, [run_id("r2"), run_id("r1")]);
    assert!(of("r1").iter().all(|sha| may_go.checkpoints.contains(sha)));
    // An undo of the newest run leads to the end of the one before it.
    assert!(
        of("r2")
            .iter()
            .chain(&of("r3"))
            .all(|sha| !may_go.checkpoints.contains(sha))
    );
    // What is kept was made from all of it.
    let (first, third) = (of("r1")[0].clone(), of("r3")[0].clone());
    let chained = removable(state, all_but(1), |sha| (*sha == third).then(|| first.clone()));
    assert!(!chained.checkpoints.contains(&first));
    for rule in [
        all_but(3),
        RetentionRule {
            keep: 1,
            ended_before: Some(state.runs[2].start_time),
        },
    ] {
        assert!(removable(state, rule, |_| None).runs.is_empty(), "{rule:?}");
    }
}

proptest! {
    // covers: RUN-23
    #[test]
    fn a_cleanup_changes_neither_the_thread_nor_what_can_be_gone_back_to(state in states(40), keep in 0_usize..4) {
        let may_go = removable(&state, all_but(keep), |_| None);
        prop_assert!(may_go.runs.len() < state.runs.len().max(1));
        let all: HashSet<CheckpointSha> = state.checkpoints().cloned().collect();
        let mut kept = all.clone();
        kept.retain(|sha| !may_go.checkpoints.contains(sha));
        prop_assert_eq!(build(&state, None, Some(&kept)), build(&state, None, Some(&all)));
        for run in state.runs.iter().filter(|run| !may_go.runs.contains(&run.run_id)) {
            for logged in operations(&state).iter().filter(|logged| logged.id() == hankweave_core::thread::name(run.run_id.as_str())) {
                for point in [logged.before(&state), logged.after(&state)].into_iter().flatten() {
                    prop_assert!(!may_go.checkpoints.contains(&point.checkpoint_sha));
                }
            }
        }
        if let Some(undo) = undo(&state).filter(|_| keep > 0) {
            prop_assert!(!may_go.checkpoints.contains(&undo.target.checkpoint_sha));
        }
    }
}
