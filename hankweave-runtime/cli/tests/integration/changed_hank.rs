//! A hank.json that was changed between two runs (STATE-45).

use std::fs;

use hankweave_testing::{Finished, TestProject};
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

/// A codon that appends its id to `done.txt` and completes when `check` passes.
fn codon(project: &TestProject, id: &str, check: &str) -> Value {
    json!({"id": id, "name": id, "agent": shell_agent(project), "model": "claude-sonnet-4-5", "continuationMode": "fresh",
        "promptText": id, "checkpointedFiles": ["done.txt"], "check": {"run": check, "retries": 0}})
}

fn write(project: &TestProject, codons: &[(&str, &str)]) {
    let codons: Vec<Value> = codons
        .iter()
        .map(|(id, check)| codon(project, id, check))
        .collect();
    project.write_hank(&json!({"hank": codons}));
}

/// `a`, then a loop of these codons that is done twice, then `d`. Only the second `c` fails.
fn write_loop(project: &TestProject, inner: &[&str]) {
    let check = |id: &str| {
        if id == "c" {
            "test ! -e twice || exit 1; touch twice"
        } else {
            "true"
        }
    };
    let inner: Vec<Value> = inner.iter().map(|id| codon(project, id, check(id))).collect();
    let until = json!({"type": "iterationLimit", "limit": 2});
    let looped = json!({"type": "loop", "id": "l", "name": "l", "terminateOn": until, "codons": inner});
    project.write_hank(&json!({"hank": [codon(project, "a", "true"), looped, codon(project, "d", "true")]}));
}

#[track_caller]
fn run(project: &TestProject, more: &[&str], code: i32) -> Finished {
    let finished = project.run([&["run", "--headless", "-e", "work"], more].concat());
    finished.expect_code(code);
    finished
}

fn state(project: &TestProject) -> Value {
    project.state(&project.directory().join("work"))
}

/// What the agents that count have written, one word a codon.
fn done(project: &TestProject) -> String {
    let done = fs::read_to_string(project.directory().join("work/done.txt")).unwrap();
    done.lines().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn assert_told(finished: &Finished, told: &[&str]) {
    let everything = format!("{}{}", finished.stdout, finished.stderr);
    for told in told {
        assert!(everything.contains(told), "{told}\n{finished}");
    }
}

// covers: STATE-45, RUN-1
#[test]
fn a_codon_that_is_gone_refuses_a_start_before_anything_is_spent() {
    let project = project();
    write(
        &project,
        &[("a", "true"), ("b", "false"), ("c", "true"), ("d", "true")],
    );
    run(&project, &[], 1);
    let before = state(&project);

    write(&project, &[("a", "true"), ("b", "true"), ("x", "true")]);
    for refused in [
        run(&project, &[], 65),
        run(&project, &["--recover", "session"], 65),
    ] {
        let gone = ["codon `c` is still to be run", "codon `d` is still to be run"];
        assert_told(
            &refused,
            &[&gone[..], &["--replan` continues", "--new` starts over"]].concat(),
        );
    }
    let dry = run(&project, &["--dry-run"], 65);
    assert_told(&dry, &["error: codon `c` is still to be run"]);
    let json = run(&project, &["--dry-run", "--json"], 65).json_document();
    assert_eq!(json["planChanges"]["misfits"].as_array().unwrap().len(), 2);
    let status = project.run(["status", "-e", "work"]);
    assert_told(
        &status,
        &[
            "error: codon `d` is still to be run",
            "hankweave run work --replan",
        ],
    );
    assert!(
        !status.stdout.contains("--recover"),
        "what is refused is not offered: {status}"
    );
    assert_eq!(state(&project), before);

    // Undone, it continues where it failed.
    write(
        &project,
        &[("a", "true"), ("b", "true"), ("c", "true"), ("d", "true")],
    );
    run(&project, &[], 0);
    assert_eq!(done(&project), "a b c d");
}

// covers: STATE-45
#[test]
fn a_codon_that_is_new_is_told_and_run_without_paying_for_the_others_again() {
    let project = project();
    write(&project, &[("a", "true")]);
    run(&project, &[], 0);
    write(&project, &[("a", "true"), ("later", "true")]);
    let over = run(&project, &[], 0);
    assert_told(
        &over,
        &[
            "(new: later)",
            "Nothing left to do",
            "continue     hankweave run work --replan",
        ],
    );
    let dry = run(&project, &["--dry-run"], 0);
    let status = project.run(["status", "-e", "work"]);
    for looked in [dry, status] {
        assert_told(&looked, &["(new: later)"]);
    }

    let dry = run(&project, &["--dry-run", "--replan"], 0);
    assert_told(&dry, &["the plan was made again; next: later", "next: later\n"]);
    let more = run(&project, &["--replan"], 0);
    assert_told(&more, &["the plan was made again; next: later", "2 of 2 codons"]);
    assert_eq!(done(&project), "a later");
    let again = run(&project, &["--replan"], 0);
    assert_told(&again, &["nothing is left to run"]);

    write(&project, &[("first", "true"), ("a", "true"), ("renamed", "true")]);
    let renamed = run(&project, &["--replan"], 0);
    assert_told(
        &renamed,
        &[
            "(hank.json does not have later any more, which ran)",
            "next: first, renamed",
        ],
    );
    assert_eq!(done(&project), "a later first renamed");
    write(&project, &[("a", "true"), ("later", "true"), ("last", "true")]);
    let anew = run(&project, &["--new"], 0);
    assert_told(&anew, &["3 of 3 codons"]);
}

/// The run rolls back to the end of its last success, and continues with the codons that the hank has now.
// covers: STATE-45
#[test]
fn a_plan_made_anew_goes_on_without_the_codon_that_failed() {
    let project = project();
    write(&project, &[("a", "true"), ("b", "false"), ("c", "true")]);
    run(&project, &[], 1);
    write(&project, &[("a", "true"), ("d", "true")]);
    run(&project, &[], 65);
    let refused = run(&project, &["--replan", "--recover", "crash-point"], 65);
    assert_told(
        &refused,
        &[
            "codon `b` is still to be run",
            "--replan --recover last-success` leaves it out",
        ],
    );
    run(&project, &["--replan"], 0);
    assert_eq!(done(&project), "a d");
    let plan = &state(&project)["executionPlan"];
    let ids: Vec<&Value> = plan
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["codonId"])
        .collect();
    assert_eq!(ids, ["a", "d"]);

    // The hank has none of the codons that succeeded: they still count, and everything in the hank is new.
    write(&project, &[("x", "true")]);
    let all = run(&project, &["--replan"], 0);
    assert_told(
        &all,
        &["(hank.json does not have a, d any more, which ran); next: x"],
    );
    assert_eq!(done(&project), "a d x");
}

/// A codon that never ran is not lost, wherever the failed codon is now.
// covers: STATE-45
#[test]
fn a_codon_that_failed_is_run_where_it_stands_now() {
    for (more, order) in [
        (&["--replan"][..], "a n c b"),
        (&["--replan", "--recover", "crash-point"], "a b b n c"),
    ] {
        let project = project();
        write(&project, &[("a", "true"), ("b", "false"), ("c", "true")]);
        run(&project, &[], 1);
        write(
            &project,
            &[("a", "true"), ("n", "true"), ("c", "true"), ("b", "true")],
        );
        assert_told(
            &run(&project, &["--dry-run"], 0),
            &["new: n; another order: n, c, b"],
        );
        run(&project, more, 0);
        assert_eq!(done(&project), order);
    }
}

/// A codon with a rig has a checkpoint to roll back to. Codons that are now in front of it still run first.
// covers: STATE-45
#[test]
fn a_codon_in_front_of_the_first_one_that_failed_is_run_before_it() {
    let project = project();
    let with_rig = |check: &str| {
        let mut codon = codon(&project, "b", check);
        codon["rigSetup"] = json!([{"type": "command", "command": {"run": "echo rig >> rig.txt"}}]);
        codon
    };
    project.write_hank(&json!({"hank": [with_rig("false")]}));
    run(&project, &[], 1);
    project.write_hank(&json!({"hank": [codon(&project, "n", "true"), with_rig("true")]}));
    run(&project, &["--replan"], 0);
    assert_eq!(done(&project), "n b");
}

// covers: STATE-45
#[test]
fn a_loop_that_was_changed_in_the_middle_goes_on() {
    for (now, more, order) in [
        (&["b", "c", "e"][..], &[][..], "a b c e b c e d"),
        (&["b", "e"], &["--replan"], "a b c e b e d"),
        (&["c", "e"], &["--replan"], "a b c e b c e d"),
        (&["n", "b", "c", "e"], &[], "a b c e b c e d"),
        (&["n", "b", "c", "e"], &["--replan"], "a b c e b n c e d"),
        (&["e", "c", "b"], &["--replan"], "a b c e b e c d"),
        (&["b", "n", "e", "c"], &["--replan"], "a b c e b n e c d"),
    ] {
        let project = project();
        write_loop(&project, &["b", "c", "e"]);
        run(&project, &[], 1);
        fs::remove_file(project.directory().join("work/twice")).unwrap();
        write_loop(&project, now);
        run(&project, more, 0);
        assert_eq!(done(&project), order, "{now:?}");
    }
}

/// A loop may continue where the plan has ended.
// covers: STATE-45, CLI-14
#[test]
fn a_loop_whose_limit_was_raised_is_seen_to_go_on() {
    let project = project();
    let write = |limit: u32| {
        let until = json!({"type": "iterationLimit", "limit": limit});
        let looped = json!({"type": "loop", "id": "l", "name": "l", "terminateOn": until, "codons": [codon(&project, "b", "true")]});
        project.write_hank(&json!({"hank": [looped]}));
    };
    write(1);
    run(&project, &[], 0);
    assert_told(&project.run(["status", "-e", "work"]), &["nothing is left to do"]);
    write(2);
    assert_told(&project.run(["status", "-e", "work"]), &["next: b#1"]);
    assert_told(&run(&project, &["--dry-run"], 0), &["next: b#1"]);
    run(&project, &[], 0);
    assert_eq!(done(&project), "b b");
}

/// Nothing would run from there otherwise, and `status` says so.
// covers: RUN-2
#[test]
fn behind_a_failure_a_run_goes_on_from_the_last_success_although_a_rollback_led_there() {
    let project = project();
    write(
        &project,
        &[("a", "true"), ("b", "test -e ../mended"), ("c", "true")],
    );
    run(&project, &[], 1);
    for more in [&[][..], &["--recover", "crash-point"]] {
        let back = project.run(["rollback", "-e", "work", "--codon", "b", "--at", "error"]);
        back.expect_code(0);
        assert_eq!(done(&project), "a b");
        let again = run(&project, more, 1);
        assert_told(&again, &["b: preparing"]);
    }
    fs::write(project.directory().join("mended"), "").unwrap();
    project.run(["undo", "-e", "work"]).expect_code(0);
    run(&project, &[], 0);
    assert_eq!(done(&project), "a b c");
}

/// What was undone does not count, and a failure that was ignored is one when hank.json says so.
// covers: STATE-45, RUN-2
#[test]
fn what_was_undone_or_is_not_ignored_any_more_is_run_again() {
    let project = project();
    write(&project, &[("x", "false")]);
    run(&project, &[], 1);
    write(&project, &[("n", "true"), ("x", "true")]);
    run(&project, &["--replan"], 0);
    for _ in 0..2 {
        project.run(["undo", "-e", "work"]).expect_code(0);
    }
    assert_told(&run(&project, &["--dry-run", "--replan"], 0), &["next: n, x"]);
    run(&project, &["--replan"], 0);
    assert_eq!(done(&project), "n x");

    let with = |policy: &str| {
        let mut second = codon(&project, "y", if policy == "ignore" { "false" } else { "true" });
        second["onFailure"] = json!(policy);
        let hank = [codon(&project, "n", "true"), second, codon(&project, "z", "true")];
        project.write_hank(&json!({"hank": hank}));
    };
    with("ignore");
    run(&project, &["--new"], 0);
    assert_told(&run(&project, &["--replan"], 0), &["nothing is left to run"]);
    with("abort");
    assert_told(&run(&project, &["--replan"], 0), &["next: y\n", "3 of 3 codons"]);
}

/// Before its first codon a run has nothing to keep.
// covers: STATE-45, CLI-14
#[test]
fn a_run_in_which_nothing_has_run_takes_the_hank_as_it_is() {
    let project = project();
    let write = |more: Vec<Value>| {
        let mut asked = codon(&project, "a", "true");
        asked["approval"] = json!(true);
        project.write_hank(&json!({"hank": more.into_iter().chain([asked]).collect::<Vec<_>>()}));
    };
    write(Vec::new());
    run(&project, &[], 3);
    project.run(["approve", "a", "-e", "work"]).expect_code(0);
    write(vec![codon(&project, "n", "true")]);
    assert_told(
        &project.run(["status", "-e", "work"]),
        &["next: n", "continues with n"],
    );
    let dry = run(&project, &["--dry-run"], 0);
    assert_told(&dry, &["next: n"]);
    assert!(!dry.stdout.contains("note:"), "{dry}");
    run(&project, &[], 0);
    assert_eq!(done(&project), "n a");
}

/// An undo takes files back, not the plan: with the old hank.json again, the plan is made again once more.
// covers: STATE-45, STATE-67
#[test]
fn the_plan_stays_with_an_undo() {
    let project = project();
    write(&project, &[("a", "true"), ("b", "false")]);
    run(&project, &[], 1);
    write(&project, &[("a", "true"), ("c", "true")]);
    run(&project, &["--replan"], 0);
    assert_eq!(done(&project), "a c");
    project.run(["undo", "-e", "work"]).expect_code(0);
    assert_told(&run(&project, &["--dry-run"], 0), &["next: c"]);
    write(&project, &[("a", "true"), ("b", "true")]);
    assert_told(
        &run(&project, &[], 65),
        &["codon `c` is still to be run", "--replan"],
    );
    assert_told(&run(&project, &["--replan"], 0), &["next: b"]);
    assert_eq!(done(&project), "a b");
}
