//! A hank that was changed since its plan was made (STATE-45).

use hankweave_core::event::StateEvent;
use hankweave_core::hank::Hank;
use hankweave_core::plan::{Decision, ExpandError, HankChanges, hank_changes, replan};
use hankweave_core::testing::{Ending, Story};
use hankweave_core::thread;

use Ending::{Completed, Failed};

use crate::decide::{begun, flat, play, twice};

fn changes<'a>(story: &'a Story, hank: &'a Hank) -> HankChanges<'a> {
    hank_changes(story.state(), &thread::build(story.state(), None, None), hank)
}

// covers: STATE-45
#[test]
fn what_a_plan_goes_on_without_is_told() {
    let began = flat(&["a", "b", "c"]);
    let story = begun(&began).fresh("r1").codon("a", Completed);
    assert_eq!(changes(&story, &began), HankChanges::default());
    assert_eq!(changes(&Story::new(), &began), HankChanges::default());
    let told = |ids: &[&str]| {
        let now = flat(ids);
        let changes = changes(&story, &now);
        let added: Vec<String> = changes.added.iter().map(ToString::to_string).collect();
        assert_eq!(
            (changes.misfits.len(), changes.notice().is_some()),
            (0, changes.reordered || !added.is_empty())
        );
        (added, changes.reordered)
    };
    assert_eq!(
        told(&["n", "a", "b", "c", "m"]),
        (vec!["codon `n`".to_owned(), "codon `m`".to_owned()], false)
    );
    assert_eq!(told(&["a", "c", "b"]), (vec![], true));
    assert_eq!(told(&["b", "c"]), (vec![], false));
    let looped = twice();
    let notice = changes(&story, &looped).notice().unwrap();
    assert!(notice.contains(": loop `l`, codon `d` are new;"), "{notice}");
}

/// Everything that the rest of the plan needs and lacks, at once; what has ended is not needed.
// covers: STATE-45
#[test]
fn what_a_plan_cannot_do_without_is_known_before_its_turn() {
    let story = begun(&flat(&["a", "b", "c"])).fresh("r1");
    let removed = |story: &Story, ids: &[&str]| -> Vec<String> {
        let now = flat(ids);
        let misfits = changes(story, &now).misfits;
        misfits
            .iter()
            .map(|misfit| match misfit {
                ExpandError::RemovedCodon(id) => id.to_string(),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(removed(&story, &["x"]), ["a", "b", "c"]);
    let story = story.codon("a", Completed);
    assert_eq!(removed(&story, &["x"]), ["b", "c"]);
    let failed = story.codon("b", Failed);
    assert_eq!(removed(&failed, &["x"]), ["b", "c"]);
    // A loop may go on behind its codon that has ended, and each of its codons is needed by its id.
    let in_loop = begun(&twice())
        .fresh("r1")
        .codon("a", Completed)
        .codon("b#0", Completed)
        .codon("c#0", Completed);
    let without = flat(&["a", "b", "c", "d"]);
    assert!(matches!(
        changes(&in_loop, &without).misfits[..],
        [ExpandError::UnknownLoop { .. }]
    ));
    assert_eq!(changes(&in_loop, &twice()).misfits, []);
}

/// The ids of the plan that goes on with `hank`.
fn ids(story: &Story, hank: &Hank) -> Vec<String> {
    let plan = replan(story.state(), &thread::build(story.state(), None, None), hank).unwrap();
    plan.iter().map(|entry| entry.codon_id.to_string()).collect()
}

// covers: STATE-45
#[test]
fn a_plan_that_is_made_anew_keeps_what_has_run_and_takes_what_is_behind_it() {
    let began = flat(&["a", "b", "c"]);
    let story = begun(&began)
        .fresh("r1")
        .codon("a", Completed)
        .codon("b", Completed);
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
        assert_eq!(ids(&story, &flat(&now)), plan, "{now:?}");
    }
    let state = story.state();
    let none = replan(state, &thread::build(state, None, None), &flat(&["x", "y"]));
    assert_eq!(none, Err(ExpandError::NothingRemains));
    let nothing_ran = begun(&began).fresh("r1");
    assert_eq!(ids(&nothing_ran, &flat(&["x", "y"])), ["x", "y"]);
}

/// A codon that failed and was taken out of hank.json is in nobody's way.
// covers: STATE-45
#[test]
fn a_failed_codon_that_is_gone_is_not_planned_again() {
    let story = begun(&flat(&["a", "b", "c"]))
        .fresh("r1")
        .codon("a", Completed)
        .codon("b", Failed);
    assert_eq!(ids(&story, &flat(&["a", "b", "d"])), ["a", "b", "d"]);
    assert_eq!(ids(&story, &flat(&["a", "c"])), ["a", "c"]);
    assert_eq!(
        ids(
            &begun(&flat(&["a"])).fresh("r1").codon("a", Failed),
            &flat(&["x"])
        ),
        ["x"]
    );
}

/// A loop that goes on takes the rest of its iteration and what follows from the hank.
// covers: STATE-45
#[test]
fn a_loop_in_which_a_plan_is_made_anew_goes_on() {
    let hank = twice();
    let story = begun(&hank)
        .fresh("r1")
        .codon("a", Completed)
        .codon("b#0", Completed);
    assert_eq!(ids(&story, &hank), ["a", "b#0", "d"]);
    let execution_plan = replan(story.state(), &thread::build(story.state(), None, None), &hank).unwrap();
    let story = story.tell(StateEvent::PlanReplaced { execution_plan });
    assert_eq!(changes(&story, &hank), HankChanges::default());
    let (_, ran, end) = play(story, &hank, |_| Completed);
    assert_eq!(ran, ["c#0", "b#1", "c#1", "d"]);
    assert_eq!(end, Decision::Done);
}
