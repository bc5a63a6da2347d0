//! A hank that was changed since its plan was made (STATE-45).

use hankweave_core::event::StateEvent;
use hankweave_core::hank::{Hank, parse};
use hankweave_core::plan::{Decision, ExpandError, HankChanges, hank_changes, replan};
use hankweave_core::testing::{Ending, Story};
use hankweave_core::thread::{self, Recovery};
use serde_json::{Value, json};

use Ending::{Completed, Failed};

use crate::decide::{begun, codon, flat, play};

/// `a`, then a loop of these codons that is done three times, then `d`.
fn looped(inner: &[&str]) -> Hank {
    let inner: Vec<Value> = inner.iter().map(|id| codon(id, "fresh")).collect();
    let until = json!({"type": "iterationLimit", "limit": 3});
    let items = [
        codon("a", "fresh"),
        json!({"type": "loop", "id": "l", "name": "L", "terminateOn": until, "codons": inner}),
        codon("d", "fresh"),
    ];
    parse(&json!({"hank": items}).to_string()).hank.unwrap()
}

/// A run of this hank that has come to the last of these codons.
fn ran(hank: &Hank, codons: &[(&str, Ending)]) -> Story {
    let story = begun(hank).fresh("r1");
    codons
        .iter()
        .fold(story, |story, (id, ending)| story.codon(id, *ending))
}

fn changes(story: &Story, hank: &Hank) -> HankChanges {
    hank_changes(
        story.state(),
        &thread::build(story.state(), None, None),
        hank,
        None,
    )
}

fn planned(story: &Story, hank: &Hank, recovery: Option<Recovery>) -> Result<Vec<String>, ExpandError> {
    let plan = replan(
        story.state(),
        &thread::build(story.state(), None, None),
        hank,
        recovery,
    )?;
    Ok(plan.iter().map(|entry| entry.codon_id.to_string()).collect())
}

#[track_caller]
fn assert_planned(story: &Story, hank: &Hank, ids: &[&str]) {
    assert_eq!(planned(story, hank, None).unwrap(), ids);
}

fn removed(story: &Story, hank: &Hank) -> Vec<String> {
    let misfits = changes(story, hank).misfits.into_iter();
    let id = |misfit| match misfit {
        ExpandError::RemovedCodon(id) => id.to_string(),
        other => panic!("{other:?}"),
    };
    misfits.map(id).collect()
}

// covers: STATE-45
#[test]
fn what_a_plan_goes_on_without_is_told() {
    let began = flat(&["a", "b", "c"]);
    let story = ran(&began, &[("a", Completed)]);
    let same = changes(&story, &began);
    assert_eq!((same.notices(), same.misfits.len()), (vec![], 0));
    assert_eq!(changes(&Story::new(), &began), HankChanges::default());
    for (now, told) in [
        (vec!["a", "b", "c", "m", "o"], vec!["(new: m, o);"]),
        (vec!["a", "c", "b"], vec!["(another order: c, b);"]),
        (
            vec!["n", "a", "b", "c"],
            vec!["has codon `n` in front of what has run"],
        ),
        (
            vec!["n", "a", "m", "c", "b"],
            vec!["(new: m; another order: m, c, b);", "has codon `n` in front"],
        ),
        (vec!["z", "b", "c"], vec![]),
        (vec!["b", "a", "c"], vec![]),
        (vec!["a", "b", "c", "z"], vec!["(new: z);"]),
    ] {
        let notices = changes(&story, &flat(&now)).notices();
        let matches = notices
            .iter()
            .zip(&told)
            .all(|(notice, told)| notice.contains(told));
        assert!(matches && notices.len() == told.len(), "{now:?}: {notices:?}");
    }
    let many = changes(&story, &flat(&["a", "b", "c", "1", "2", "3", "4", "5", "6", "7"])).notices();
    assert!(many[0].contains("(new: 1, 2, 3, 4, 5 and 2 more);"), "{many:?}");
    let story = ran(&began, &[("a", Completed), ("b", Completed), ("c", Completed)]);
    let renamed = changes(&story, &flat(&["a", "b", "k"])).notices();
    assert!(
        renamed[0].contains("new: k (codon `c` ran, and hank.json does not have that any more)"),
        "{renamed:?}"
    );
    let also_inside = changes(&ran(&looped(&["b"]), &[("a", Completed)]), &looped(&["b", "c"])).notices();
    assert!(also_inside[0].contains("(new: c#0);"), "{also_inside:?}");
}

/// Everything that the rest of the plan needs and lacks, at once; what has ended is not needed.
// covers: STATE-45
#[test]
fn what_a_plan_cannot_do_without_is_known_before_its_turn() {
    let began = flat(&["a", "b", "c"]);
    assert_eq!(removed(&ran(&began, &[]), &flat(&["x"])), ["a", "b", "c"]);
    assert_eq!(
        removed(&ran(&began, &[("a", Completed)]), &flat(&["x"])),
        ["b", "c"]
    );
    assert_eq!(
        removed(&ran(&began, &[("a", Completed), ("b", Failed)]), &flat(&["x"])),
        ["b", "c"]
    );
    let in_loop = ran(&looped(&["b", "c"]), &[("a", Completed), ("b#0", Completed)]);
    assert_eq!(removed(&in_loop, &looped(&["b"])), ["c#0"]);
    assert_eq!(removed(&in_loop, &flat(&["a", "d"])), ["c#0"]);
    assert_eq!(removed(&in_loop, &looped(&["c"])), Vec::<String>::new());
}

// covers: STATE-45
#[test]
fn a_plan_that_is_made_anew_keeps_what_has_run_and_takes_what_is_behind_it() {
    let began = flat(&["a", "b", "c"]);
    let story = ran(&began, &[("a", Completed), ("b", Completed)]);
    for (now, plan) in [
        (vec!["a", "b", "c"], vec!["a", "b", "c"]),
        (vec!["a", "b", "x", "c", "y"], vec!["a", "b", "x", "c", "y"]),
        // What is in front of the newest codon had its turn.
        (vec!["n", "a", "m", "b", "d"], vec!["a", "b", "d"]),
        (vec!["b", "a", "c"], vec!["a", "b", "c"]),
        // Without the newest one, what is behind the one before it.
        (vec!["a", "z"], vec!["a", "b", "z"]),
        (vec!["a"], vec!["a", "b"]),
    ] {
        assert_planned(&story, &flat(&now), &plan);
    }
    assert_eq!(
        planned(&story, &flat(&["x", "y"]), None),
        Err(ExpandError::NothingRemains)
    );
    assert_planned(&ran(&began, &[]), &flat(&["x", "y"]), &["x", "y"]);
}

/// A run goes back behind what succeeded before a codon that failed, so the hank says what is next, and whether that codon is.
// covers: STATE-45
#[test]
fn what_failed_stands_where_the_hank_has_it_unless_it_goes_on_first() {
    let story = ran(&flat(&["a", "b", "c"]), &[("a", Completed), ("b", Failed)]);
    assert_planned(&story, &flat(&["a", "b", "d"]), &["a", "b", "d"]);
    assert_planned(&story, &flat(&["a", "c", "b"]), &["a", "c", "b"]);
    assert_planned(&story, &flat(&["a", "n", "b", "c"]), &["a", "n", "b", "c"]);
    assert_planned(&story, &flat(&["a", "c"]), &["a", "c"]);
    assert_planned(
        &ran(&flat(&["a"]), &[("a", Failed)]),
        &flat(&["x", "a"]),
        &["x", "a"],
    );
    for first in [Recovery::Session, Recovery::CrashPoint] {
        let anew = planned(&story, &flat(&["a", "n", "c", "b"]), Some(first)).unwrap();
        assert_eq!(anew, ["a", "b", "n", "c"], "nothing that never ran is lost");
    }
    let back = planned(&story, &flat(&["a", "n", "c", "b"]), Some(Recovery::LastSuccess)).unwrap();
    assert_eq!(back, ["a", "n", "c", "b"]);
}

/// Codons of a loop that were moved, added in front, taken out: each that is there runs once in this iteration, if it stands behind what has run of it.
// covers: STATE-45
#[test]
fn a_loop_in_which_a_plan_is_made_anew_goes_on() {
    let began = looped(&["b", "c", "e"]);
    let stopped = || {
        let fails = |id: &str| if id == "c#1" { Failed } else { Completed };
        play(begun(&began).fresh("r1"), &began, fails).0
    };
    let head = ["a", "b#0", "c#0", "e#0", "b#1"];
    for (now, rest) in [
        (vec!["b", "c", "e"], vec!["c#1", "e#1", "d"]),
        (vec!["b", "e"], vec!["e#1", "d"]),
        (vec!["c", "e"], vec!["c#1", "e#1", "d"]),
        (vec!["b", "e", "c"], vec!["e#1", "c#1", "d"]),
        (vec!["n", "b", "c", "e"], vec!["c#1", "e#1", "d"]),
        (vec!["b", "n", "c", "e"], vec!["n#1", "c#1", "e#1", "d"]),
    ] {
        let now = looped(&now);
        let story = stopped();
        assert_planned(&story, &now, &[&head[..], &rest[..]].concat());
        let thread = thread::build(story.state(), None, None);
        let execution_plan = replan(story.state(), &thread, &now, None).unwrap();
        let gone_back = story
            .run_fails()
            .continues("r2", "r1", Some("b#1"), "b#1-end")
            .tell(StateEvent::PlanReplaced { execution_plan });
        let (_, ran, end) = play(gone_back, &now, |_| Completed);
        assert_eq!(ran[..rest.len() - 1], rest[..rest.len() - 1]);
        assert_eq!((ran.last().map(String::as_str), end), (Some("d"), Decision::Done));
    }
    // The loop is gone.
    assert_planned(&stopped(), &flat(&["a", "d"]), &[&head[..], &["d"]].concat());
}
