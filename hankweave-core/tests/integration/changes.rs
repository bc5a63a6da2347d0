//! A hank that was changed since its plan was made (STATE-45).

use std::cell::Cell;
use std::collections::HashSet;

use hankweave_core::document::{PlanEntry, SharedList};
use hankweave_core::event::StateEvent;
use hankweave_core::hank::{Hank, HankItem, OnFailure, parse};
use hankweave_core::id::{CodonId, LoopId};
use hankweave_core::plan::{
    ContinuedRun, Decision, ExpandError, HankChanges, RunIntent, initial_plan, resume,
};
use hankweave_core::testing::{Ending, Story};
use hankweave_core::thread::{self, Recovery, Resume};
use proptest::prelude::*;
use serde_json::{Value, json};

use Ending::{Completed, Failed};

use crate::decide::{begun, codon, flat, play};
use crate::laws::config;

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

fn going_on(story: &Story, hank: &Hank, recovery: Option<Recovery>) -> Option<ContinuedRun> {
    let known = story.state().checkpoints().cloned().collect::<HashSet<_>>();
    ContinuedRun::of(story.state().clone(), hank, recovery, &known)
}

fn changes(story: &Story, hank: &Hank) -> HankChanges {
    going_on(story, hank, None).map_or_else(HankChanges::default, |going_on| going_on.changes(hank))
}

/// The plan made again; a run that starts at the first codon makes its own.
fn anew(
    story: &Story,
    hank: &Hank,
    recovery: Option<Recovery>,
) -> Result<SharedList<PlanEntry>, ExpandError> {
    let Some(mut going_on) = going_on(story, hank, recovery) else {
        return Ok(initial_plan(hank));
    };
    going_on.replan(hank)?;
    Ok(going_on.state().execution_plan.clone())
}

fn planned(story: &Story, hank: &Hank, recovery: Option<Recovery>) -> Result<Vec<String>, ExpandError> {
    let plan = anew(story, hank, recovery)?;
    Ok(plan.iter().map(|entry| entry.codon_id.to_string()).collect())
}

#[track_caller]
fn assert_planned(story: &Story, hank: &Hank, ids: &[&str]) {
    assert_eq!(planned(story, hank, None).unwrap(), ids);
}

/// A story that continues with a plan made again, as the next run would.
fn replanned(story: Story, hank: &Hank) -> Story {
    let execution_plan = anew(&story, hank, None).unwrap();
    story.tell(StateEvent::PlanReplaced { execution_plan })
}

fn misfits(story: &Story, hank: &Hank) -> Vec<String> {
    changes(story, hank)
        .misfits
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn removed(story: &Story, hank: &Hank) -> Vec<String> {
    let id = |misfit| match misfit {
        ExpandError::RemovedCodon(id) | ExpandError::RemovedFromLoop { codon_id: id, .. } => id.to_string(),
        other => panic!("{other:?}"),
    };
    changes(story, hank).misfits.into_iter().map(id).collect()
}

// covers: STATE-45
#[test]
fn what_a_plan_goes_on_without_is_told() {
    let began = flat(&["a", "b", "c"]);
    let story = ran(&began, &[("a", Completed)]);
    for (now, told) in [
        (vec!["a", "b", "c"], None),
        (vec!["a", "b", "c", "m", "o"], Some("(new: m, o);")),
        (vec!["a", "c", "b"], Some("(another order: c, b);")),
        (vec!["n", "a", "b", "c"], Some("(new: n);")),
        (
            vec!["z", "b", "c"],
            Some("(new: z (hank.json does not have a any more, which ran));"),
        ),
        (vec!["b", "a", "c"], None),
    ] {
        let notice = changes(&story, &flat(&now)).notices().pop();
        let is_told = notice
            .as_deref()
            .map(|notice| told.is_some_and(|told| notice.contains(told)));
        assert_eq!(is_told, told.map(|_| true), "{now:?}: {notice:?}");
    }
    assert_eq!(changes(&Story::new(), &began), HankChanges::default());
    let many = changes(&story, &flat(&["a", "b", "c", "1", "2", "3", "4", "5", "6", "7"]))
        .notices()
        .pop()
        .unwrap();
    assert!(many.contains("(new: 1, 2, 3, 4, 5 and 2 more);"), "{many:?}");
    let also_inside = changes(&ran(&looped(&["b"]), &[("a", Completed)]), &looped(&["b", "c"]))
        .notices()
        .pop();
    assert!(also_inside.unwrap().ends_with("new and run: c#0"));
}

/// A codon of the loop that was interrupted has started, and the loop has not ended.
// covers: STATE-45
#[test]
fn an_interrupted_iteration_adds_nothing_to_an_unchanged_hank() {
    let hank = looped(&["b"]);
    let story = ran(&hank, &[("a", Completed), ("b#0", Completed), ("b#1", Failed)]);
    assert_eq!(changes(&story, &hank).notices(), [""; 0]);
}

/// Everything that the rest of the plan needs and lacks, at once; what has ended is not needed.
// covers: STATE-45
#[test]
fn what_a_plan_cannot_do_without_is_known_before_its_turn() {
    let began = flat(&["a", "b", "c"]);
    assert_eq!(
        changes(&ran(&began, &[]), &flat(&["x"])),
        HankChanges::default(),
        "it starts again"
    );
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
    assert_eq!(removed(&in_loop, &looped(&["c"])), Vec::<String>::new());
    // It is unknown how often a loop would continue that the hank does not have, even if the hank has its codons.
    let gone = flat(&["a", "b", "c", "d"]);
    let told = misfits(&in_loop, &gone);
    assert!(
        told[0].contains("codon `c#0`") && told[1].contains("loop `l`, which hank.json does not have"),
        "{told:?}"
    );
    assert_eq!(
        misfits(&ran(&looped(&["b"]), &[("a", Completed)]), &gone).len(),
        1
    );
    let over = play(begun(&looped(&["b"])).fresh("r1"), &looped(&["b"]), |id| {
        if id == "d" { Failed } else { Completed }
    })
    .0;
    assert_eq!(misfits(&over, &flat(&["a", "d"])), Vec::<String>::new());
}

// covers: STATE-45
#[test]
fn a_plan_that_is_made_anew_keeps_what_has_succeeded_and_takes_everything_else_from_the_hank() {
    let began = flat(&["a", "b", "c"]);
    let story = ran(&began, &[("a", Completed), ("b", Completed)]);
    for (now, plan) in [
        (vec!["a", "b", "c"], vec!["a", "b", "c"]),
        (vec!["a", "b", "x", "c", "y"], vec!["a", "b", "x", "c", "y"]),
        (vec!["n", "a", "m", "b", "d"], vec!["a", "b", "n", "m", "d"]),
        (vec!["b", "a", "c"], vec!["a", "b", "c"]),
        (vec!["a", "z"], vec!["a", "b", "z"]),
        (vec!["a"], vec!["a", "b"]),
        (vec!["x", "y"], vec!["a", "b", "x", "y"]),
    ] {
        assert_planned(&story, &flat(&now), &plan);
    }
    assert_planned(&ran(&began, &[]), &flat(&["x", "y"]), &["x", "y"]);
}

/// A run rolls back to the last success before a codon that failed. So the hank decides which codon is next, and whether it is the failed one.
// covers: STATE-45
#[test]
fn what_failed_stands_where_the_hank_has_it_unless_it_goes_on_first() {
    let story = ran(&flat(&["a", "b", "c"]), &[("a", Completed), ("b", Failed)]);
    assert_planned(&story, &flat(&["a", "b", "d"]), &["a", "b", "d"]);
    assert_planned(&story, &flat(&["a", "c", "b"]), &["a", "c", "b"]);
    assert_planned(&story, &flat(&["b", "c", "a"]), &["a", "b", "c"]);
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
    // It rolls back to the end of the success, in front of a failure that was ignored.
    let mut ignored = codon("b", "fresh");
    ignored["onFailure"] = json!("ignore");
    let ignoring = |ids: &[&str]| {
        let codon = |id: &&str| {
            if *id == "b" {
                ignored.clone()
            } else {
                codon(id, "fresh")
            }
        };
        let codons: Vec<Value> = ids.iter().map(codon).collect();
        parse(&json!({"hank": codons}).to_string()).hank.unwrap()
    };
    let began = ignoring(&["a", "b", "c", "d"]);
    let story = ran(&began, &[("a", Completed), ("b", Failed), ("c", Failed)]);
    assert_planned(&story, &ignoring(&["a", "c", "b", "d"]), &["a", "c", "b", "d"]);
    assert_eq!(removed(&story, &flat(&["a", "c", "d"])), ["b"]);
}

/// Codons of a loop that were moved, added, taken out: each that is there and has not run in this iteration does.
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
        (vec!["b", "c", "e"], vec!["c#1", "e#1", "b#2"]),
        (vec!["b", "e"], vec!["e#1", "b#2"]),
        (vec!["c", "e"], vec!["c#1", "e#1", "c#2"]),
        (vec!["b", "e", "c"], vec!["e#1", "c#1", "b#2"]),
        (vec!["c", "b", "e"], vec!["c#1", "e#1", "c#2"]),
        (vec!["n", "b", "c", "e"], vec!["n#1", "c#1", "e#1", "n#2"]),
        (vec!["b", "n", "c", "e"], vec!["n#1", "c#1", "e#1", "b#2"]),
    ] {
        let now = looped(&now);
        let story = replanned(stopped(), &now);
        let ids: Vec<&str> = story
            .state()
            .execution_plan
            .iter()
            .map(|entry| entry.codon_id.as_str())
            .collect();
        assert_eq!(ids, [&head[..], &rest[..rest.len() - 1], &["d"]].concat());
        let told = changes(&story, &now);
        assert_eq!(
            told.next[..rest.len()]
                .iter()
                .map(|id| id.as_str())
                .collect::<Vec<_>>(),
            rest
        );
        let gone_back = story.run_fails().continues("r2", "r1", Some("b#1"), "b#1-end");
        let (_, ran, end) = play(gone_back, &now, |_| Completed);
        let foretold: Vec<&str> = told.next.iter().map(|id| id.as_str()).collect();
        assert_eq!(ran, foretold);
        assert_eq!((ran.last().map(String::as_str), end), (Some("d"), Decision::Done));
    }
    // The loop no longer exists, or has another name, with ids that are taken.
    assert_planned(&stopped(), &flat(&["a", "d"]), &[&head[..], &["d"]].concat());
    let mut renamed = looped(&["b", "c", "e"]);
    let HankItem::Loop(found) = &mut renamed.items[1] else {
        panic!()
    };
    found.id = LoopId::new("m").unwrap();
    assert!(matches!(
        planned(&stopped(), &renamed, None),
        Err(ExpandError::DuplicateCodon(_))
    ));
}

/// Some of these codons in some order, with a loop of some of those inside at some place, or none.
fn hanks() -> impl Strategy<Value = Hank> {
    let outer = Just(vec!["a", "b", "c", "d", "e"]).prop_shuffle();
    let inner = Just(vec!["p", "q", "r"]).prop_shuffle();
    let ignored = proptest::collection::vec(any::<bool>(), 8);
    (
        outer,
        1_usize..=5,
        inner,
        0_usize..=3,
        0_usize..=5,
        1..=3,
        ignored,
    )
        .prop_map(|(outer, most, inner, most_inner, place, limit, ignored)| {
            let codon = |id: &str| {
                let mut codon = codon(id, "fresh");
                let number = "abcdepqr".find(id).unwrap();
                codon["onFailure"] = json!(if ignored[number] { "ignore" } else { "abort" });
                codon
            };
            let mut items: Vec<Value> = outer[..most].iter().map(|id| codon(id)).collect();
            if most_inner > 0 {
                let inner: Vec<Value> = inner[..most_inner].iter().map(|id| codon(id)).collect();
                let until = json!({"type": "iterationLimit", "limit": limit});
                let found =
                    json!({"type": "loop", "id": "l", "name": "L", "terminateOn": until, "codons": inner});
                items.insert(place.min(items.len()), found);
            }
            parse(&json!({"hank": items}).to_string()).hank.unwrap()
        })
}

/// Returns the next run, as it starts after this story.
fn goes_on(story: Story, hank: &Hank) -> Story {
    let known = story.state().checkpoints().cloned().collect::<HashSet<_>>();
    let thread = thread::build(story.state(), None, Some(&known));
    match resume(story.state(), &thread, hank, RunIntent::default(), &known) {
        Resume::Continue(source) | Resume::RollBack(source) => {
            let after = source.after_codon.as_ref().map(|id| id.as_str());
            story.continues(
                "r2",
                source.run_id.as_str(),
                after,
                source.checkpoint_sha.as_str(),
            )
        }
        Resume::Fresh => story.fresh("r2"),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(config(300))]

    /// For any result of the first hank and any second hank: what is announced is what runs, in this order; no codon that succeeded in front of the
    /// position at which the run continues runs again; and every codon of the second hank has run in the end.
    // covers: STATE-45
    #[test]
    fn what_is_announced_of_a_changed_hank_is_what_runs(began in hanks(), now in hanks(), failing in 0_usize..12) {
        let count = Cell::new(0);
        let (story, ran, end) = play(begun(&began).fresh("r1"), &began, |_| {
            count.set(count.get() + 1);
            if count.get() == failing { Failed } else { Completed }
        });
        let story = if end == Decision::Done { story.run_completes() } else { story.run_fails() };
        let names = |ids: &[CodonId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut going_on = going_on(&story, &now, None);
        let plain = going_on.as_ref().map(|going_on| going_on.changes(&now));
        if let Some(plain) = plain.filter(|plain| plain.misfits.is_empty()) {
            let (_, runs, end) = play(goes_on(story.clone(), &now), &now, |_| Completed);
            prop_assert_eq!((runs, end), (names(&plain.next), Decision::Done));
        }
        let (story, runs, end) = play(goes_on(replanned(story, &now), &now), &now, |_| Completed);
        prop_assert_eq!(end, Decision::Done);
        if let Some(going_on) = &mut going_on {
            going_on.replan(&now).unwrap();
            let told = going_on.changes(&now);
            prop_assert_eq!((&told.misfits[..], &runs), (&[][..], &names(&told.next)));
            let stays = going_on.state().execution_plan.range(0..going_on.kept(&now));
            let stays: Vec<&str> = stays.map(|entry| entry.codon_id.as_str()).collect();
            prop_assert!(!runs.iter().any(|id| stays.contains(&id.as_str())), "{stays:?} {runs:?}");
        }
        // A loop that has run is one item, with any codons in it.
        let codons = now.items.iter().filter(|item| item.as_loop().is_none()).flat_map(HankItem::codons);
        for codon in codons {
            let id = codon.id.as_str();
            let has_failed = failing.checked_sub(1).and_then(|failing| ran.get(failing)).is_some_and(|ran| ran == id);
            let is_done = ran.iter().any(|ran| ran == id) && !(has_failed && codon.failure_policy() != OnFailure::Ignore);
            prop_assert!(is_done || runs.iter().any(|ran| ran == id), "{id} of {ran:?} {runs:?}");
        }
        let again = changes(&story.run_completes(), &now);
        prop_assert!(!again.can_be_taken_over() && again.next.is_empty(), "{again:?}");
    }
}
