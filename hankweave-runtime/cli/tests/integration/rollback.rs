//! Going back (CLI-16, STATE-57 to STATE-60, RUN-19).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{assert_checkpoint, codon, hankweave, project, shell_agent, strace_is_there, traced};

/// Three codons that append their prompts to `done.txt`; the second one has a rig.
fn write_hank(project: &TestProject, prompts: [&str; 3]) {
    let agent = shell_agent(project);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": format!("The {id}"), "agent": agent, "model": "shell", "continuationMode": "fresh",
            "promptText": prompt, "checkpointedFiles": ["*.txt"]})
    };
    let mut second = codon("second", prompts[1]);
    second["rigSetup"] = json!([{"type": "command", "command": {"run": "echo rig >> rig.txt"}}]);
    project.write_hank(&json!({"hank": [codon("first", prompts[0]), second, codon("third", prompts[2])]}));
}

/// A project in which all three codons completed.
fn done() -> TestProject {
    let project = project();
    write_hank(&project, ["one", "two", "three"]);
    project.run(["run", "--headless"]).expect_code(0);
    project
}

fn text(project: &TestProject, file: &str) -> String {
    fs::read_to_string(project.directory().join(file)).unwrap_or_default()
}

/// The codons of the thread as `run/codon`, newest first, and what is next.
fn thread(project: &TestProject) -> (Vec<String>, Value) {
    let thread = project.run(["thread", "--json"]).json_document();
    let codons = thread["codons"].as_array().unwrap().iter();
    let ids = codons.map(|entry| entry["codon"]["codonId"].as_str().unwrap().to_owned());
    (ids.collect(), thread["nextCodonId"].clone())
}

fn checkpoint<'s>(state: &'s Value, id: &str, field: &str) -> &'s str {
    codon(&state["runs"][0], id)[field].as_str().unwrap()
}

/// A signal finds a rollback in the middle of its work: it is finished, and the directory given back.
// covers: F19, P9
#[test]
fn a_rollback_that_is_asked_to_stop_is_finished_first() {
    if !strace_is_there() {
        return;
    }
    let project = TestProject::new("env");
    write_hank(&project, ["one", "two", "three"]);
    hankweave(&project, &["run", "--headless"]).expect_code(0);
    let state_dir = project.directory().join(".hankweave");
    let lock = state_dir.join("server.lock");
    for (signal, code, codon) in [("INT", 130, "second"), ("TERM", 143, "first")] {
        let inject = format!("inject=renameat,renameat2:signal=SIG{signal}:when=1");
        // As it is named in the call, which goes by the descriptor of the directory.
        let written = ["-e", &inject, "-P", "server.lock.tmp"];
        let stopped = traced(&project, &written, &["rollback", "--codon", codon]);
        stopped.expect_code(code);
        assert!(stopped.stdout.contains("rolled back to"), "{stopped}");
        assert!(!lock.exists(), "{stopped}");
    }
    assert_eq!(text(&project, "done.txt"), "one\n");
}

// covers: CLI-16, STATE-58
#[test]
fn a_codon_is_gone_back_to_and_the_next_run_goes_on_behind_it() {
    let project = done();
    let before = project.state(&project.directory());

    let dry = project.run(["rollback", "--codon", "first", "--dry-run", "--json"]);
    let listed = dry.expect_code(0).json_document();
    assert_eq!(
        (&listed["dryRun"], &listed["write"], &listed["delete"]),
        (&json!(true), &json!(["done.txt"]), &json!(["rig.txt"]))
    );
    assert_eq!(
        (
            text(&project, "done.txt").lines().count(),
            project.state(&project.directory())
        ),
        (3, before.clone())
    );

    project.write("mine.md", "no checkpoint knows me");
    let back = project
        .run(["rollback", "--codon", "first", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(
        (&back["nextCodonId"], &back["checkpointType"]),
        (&json!("second"), &json!("completed"))
    );
    assert_checkpoint(&project, &project.directory(), &back["safetyCheckpoint"]);
    let listed = project.run(["checkpoints", "--json"]).json_document();
    let mut rows = listed["checkpoints"].as_array().unwrap().iter();
    let safety = rows.find(|row| row["sha"] == back["safetyCheckpoint"]).unwrap();
    assert!(
        safety["branch"].as_str().unwrap().starts_with("recovery/"),
        "{safety}"
    );
    assert_eq!(
        (
            text(&project, "done.txt").as_str(),
            text(&project, "rig.txt").as_str()
        ),
        ("one\n", "")
    );
    assert_eq!(text(&project, "mine.md"), "no checkpoint knows me");
    assert_eq!(thread(&project), (vec!["first".to_owned()], json!("second")));

    write_hank(&project, ["one", "two, corrected", "three"]);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(text(&project, "done.txt"), "one\ntwo, corrected\nthree\n");
    let state = project.state(&project.directory());
    assert_eq!(state["runs"].as_array().unwrap().len(), 2);
    assert_eq!(state["pendingRollback"], Value::Null);
    let conditions = &state["runs"][0]["startingConditions"];
    let source = json!({"runId": before["runs"][0]["runId"], "afterCodon": "first",
        "checkpointSha": checkpoint(&before, "first", "completionCheckpoint")});
    assert_eq!(
        conditions,
        &json!({"type": "continuation", "source": source, "reason": "rollback"})
    );
    assert_eq!(
        thread(&project),
        (
            vec!["third".to_owned(), "second".to_owned(), "first".to_owned()],
            Value::Null
        )
    );
    let spent = project.run(["state", "cost", "--json"]).json_document();
    assert_eq!(
        spent["total"]["codonCost"],
        json!(1.25),
        "what was superseded was paid for all the same: {spent:#}"
    );
}

/// The first codon takes every file, for want of patterns, and the second one has some.
// covers: HANK-19
#[test]
fn what_was_there_before_the_first_codon_survives_the_way_back_to_it() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str, files: &[&str]| json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": id, "checkpointedFiles": files});
    project.write_hank(&json!({"hank": [codon("first", &[]), codon("second", &["done.txt"])]}));
    project.write("note.txt", "of the user");
    project.run(["run", "--headless"]).expect_code(0);
    let report = project.run(["report", "--json"]).json_document();
    let changed: Vec<&str> = report["files"]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(changed, ["done.txt"], "{report:#}");

    let initial =
        project.state(&project.directory())["runs"][0]["startingConditions"]["initialCheckpointSha"]
            .as_str()
            .unwrap()
            .to_owned();
    project
        .run(["rollback", "--to", &initial, "--yes"])
        .expect_code(0);
    assert_eq!(
        (text(&project, "note.txt"), text(&project, "done.txt")),
        ("of the user".to_owned(), String::new())
    );
}

// covers: STATE-59, HANK-23
#[test]
fn from_its_rig_setup_checkpoint_a_codon_runs_again_without_its_rig() {
    let project = done();
    project
        .run(["rollback", "--codon", "second", "--at", "rig-setup"])
        .expect_code(0);
    assert_eq!(thread(&project), (vec!["first".to_owned()], json!("second")));
    assert_eq!(
        (
            text(&project, "done.txt").as_str(),
            text(&project, "rig.txt").as_str()
        ),
        ("one\n", "rig\n")
    );
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(
        (
            text(&project, "done.txt").lines().count(),
            text(&project, "rig.txt").as_str()
        ),
        (3, "rig\n")
    );
    let state = project.state(&project.directory());
    let source = &state["runs"][0]["startingConditions"]["source"];
    assert_eq!(source["afterCodon"], "second");
    assert_eq!(
        codon(&state["runs"][0], "second")["rigSetupCheckpoint"],
        source["checkpointSha"]
    );
}

// covers: STATE-57, STATE-58
#[test]
fn a_prefix_of_a_sha_and_the_last_success_are_ways_back_too() {
    let project = done();
    let state = project.state(&project.directory());
    let prefix = &checkpoint(&state, "first", "completionCheckpoint")[..10];
    project.run(["rollback", "--to", prefix]).expect_code(0);
    assert_eq!(text(&project, "done.txt"), "one\n");
    // The undone codon is still in the history of another run, so a rollback forward to it works as well.
    let third = checkpoint(&state, "third", "completionCheckpoint");
    project.run(["rollback", "--to", third]).expect_code(0);
    assert_eq!(text(&project, "done.txt"), "one\ntwo\nthree\n");
    assert_eq!(thread(&project).1, Value::Null);
    project.write("done.txt", "scribbled over");
    let back = project
        .run(["rollback", "--last-success", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(
        (&back["codonId"], text(&project, "done.txt").as_str()),
        (&json!("third"), "one\ntwo\nthree\n")
    );
    let kept = format!("{}:done.txt", back["safetyCheckpoint"].as_str().unwrap());
    let shown = project.checkpoints_git(&project.directory(), &["show", &kept]);
    assert_eq!(shown.expect_code(0).stdout, "scribbled over");
}

// The replaced files are kept in a safety checkpoint, to which one can roll back like to any other.
#[test]
fn every_checkpoint_that_is_listed_is_a_way_back() {
    let project = done();
    let listed = || {
        let listed = project.run(["checkpoints", "--json"]).json_document();
        listed["checkpoints"].as_array().unwrap().clone()
    };
    let of_kind = |kind: &str| listed().into_iter().find(|row| row["type"] == kind).unwrap()["sha"].clone();
    let initial = of_kind("initial");
    let back_to = |sha: &Value, options: &[&str]| {
        let back = project.run([&["rollback", "--to", &sha.as_str().unwrap()[..10]], options].concat());
        back.expect_code(0);
        back
    };

    let dry = back_to(&initial, &["--dry-run"]);
    assert!(
        dry.stdout.contains("before the first codon") && dry.stdout.contains("next: first"),
        "{dry}"
    );
    let back = back_to(&initial, &["--json"]).json_document();
    assert_eq!(
        (&back["codonId"], &back["nextCodonId"]),
        (&Value::Null, &json!("first"))
    );
    assert_eq!(
        (text(&project, "done.txt"), text(&project, "rig.txt")),
        (String::new(), String::new())
    );
    assert_eq!(thread(&project), (vec![], json!("first")));

    let safety = of_kind("safety");
    assert_eq!(safety, back["safetyCheckpoint"]);
    let forward = back_to(&safety, &[]);
    assert!(forward.stdout.contains("after third"), "{forward}");
    assert_eq!(text(&project, "done.txt"), "one\ntwo\nthree\n");
    assert_eq!(thread(&project).0, ["third", "second", "first"]);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(
        text(&project, "done.txt"),
        "one\ntwo\nthree\n",
        "nothing was left to do"
    );

    for row in listed() {
        back_to(&row["sha"], &[]);
    }
    back_to(&initial, &[]);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(text(&project, "done.txt"), "one\ntwo\nthree\n");
    assert_eq!(thread(&project).0, ["third", "second", "first"]);
}

// The run that was left, and what people call the codon.
// covers: RUN-19
#[test]
fn a_rollback_tells_which_run_was_left_and_how_the_codon_is_called() {
    let project = done();
    let first = project.state(&project.directory());
    project.run(["rollback", "--codon", "second"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    let left = project.state(&project.directory())["runs"][0]["runId"].clone();
    let sha = checkpoint(&first, "first", "completionCheckpoint");
    project.run(["rollback", "--to", sha]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    let told = |kind: &str| {
        let told = project.run(["journal", "--type", kind]).json_lines();
        told.last().unwrap()["data"].clone()
    };
    let completed = told("rollback.completed");
    assert_eq!(
        (&completed["fromRun"], &completed["codonName"]),
        (&left, &json!("The first"))
    );
    assert_eq!(told("rollback.codonCheckpoint")["codonName"], "The first");
}

// Whenever a commit is made for a codon.
// covers: STATE-30, RUN-11
#[test]
fn every_checkpoint_of_a_codon_has_its_event() {
    let project = done();
    let told = project
        .run(["journal", "--type", "state.transition"])
        .json_lines();
    let created = told.iter().map(|event| &event["data"]["transition"]);
    let created: Vec<_> = created
        .filter(|event| event["type"] == "CheckpointCreated")
        .map(|event| {
            (
                &event["data"]["codonId"],
                &event["data"]["checkpointType"],
                &event["data"]["sha"],
            )
        })
        .collect();
    let state = project.state(&project.directory());
    let run = &state["runs"][0];
    let (rig, completed) = (json!("rig-setup"), json!("completed"));
    let at = |id: &str, field: &str| codon(run, id)[field].clone();
    let end = "completionCheckpoint";
    assert_eq!(
        created,
        [
            (&json!("first"), &completed, &at("first", end)),
            (&json!("second"), &rig, &at("second", "rigSetupCheckpoint")),
            (&json!("second"), &completed, &at("second", end)),
            (&json!("third"), &completed, &at("third", end)),
        ]
    );
}

// A rig may make a folder and copy into the one around it.
// covers: HANK-21
#[test]
fn a_rig_copies_into_a_folder_that_is_there_and_replaces_it_only_when_asked_to() {
    let project = project();
    let agent = shell_agent(&project);
    project.write("templates/main.txt", "template");
    let hank = |replace: bool| {
        let mut copy = json!({"type": "copy", "copy": {"from": "./templates", "to": "src"}});
        if replace {
            copy["replace"] = json!(true);
        }
        let command = json!({"run": "mkdir -p src/schema && echo own > src/schema/own.txt", "workingDirectory": "project"});
        json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "go",
            "rigSetup": [{"type": "command", "command": command}, copy]}]})
    };
    for replace in [false, true] {
        project.write_hank(&hank(replace));
        let there = if replace { "replaced" } else { "merged" };
        project.run(["run", "--headless", "-e", there]).expect_code(0);
        let in_src = |name: &str| project.directory().join(there).join("src").join(name).exists();
        assert_eq!(
            (in_src("main.txt"), in_src("schema/own.txt")),
            (true, !replace),
            "{there}"
        );
    }
}

// covers: STATE-58
#[test]
fn a_way_that_does_not_exist_is_refused_with_what_to_type_instead() {
    let project = done();
    let before = project.files();
    for (arguments, code, message) in [
        (vec!["rollback", "--to", "0000000"], 65, "hankweave checkpoints"),
        (vec!["rollback", "--to", "xyz"], 2, "0-9 and a-f"),
        (vec!["rollback", "--codon", "nobody"], 65, "hankweave history"),
        (
            vec!["rollback", "--codon", "first", "--at", "rig-setup"],
            65,
            "it has --at completed",
        ),
        (
            vec!["rollback", "--codon", "first", "--at", "sideways"],
            2,
            "possible values",
        ),
        (vec!["rollback"], 2, "--last-success"),
        (
            vec!["rollback", "--last-success", "--to", "00"],
            2,
            "cannot be used with",
        ),
        (
            vec!["rollback", "--last-success", "-e", "elsewhere"],
            65,
            "-e DIR",
        ),
    ] {
        let refused = project.run(&arguments);
        refused.expect_code(code);
        assert!(refused.stderr.contains(message), "{arguments:?}\n{refused}");
    }
    assert_eq!(project.files(), before);
    assert_eq!(text(&project, "done.txt").lines().count(), 3);
}

// covers: CLI-16
#[test]
fn while_a_run_lives_its_directory_is_not_taken_back() {
    let project = project();
    write_hank(&project, ["one", "two, wait for go", "three"]);
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("codon.started") && line.contains("second"));
    let refused = project.run(["rollback", "--last-success"]);
    refused.expect_code(1);
    assert!(refused.stderr.contains("stop it"), "{refused}");
    running.signal(Signal::TERM);
    running
        .finish_within(std::time::Duration::from_secs(30))
        .expect_code(143);
    project.run(["rollback", "--last-success"]).expect_code(0);
    assert_eq!(thread(&project), (vec!["first".to_owned()], json!("second")));
}

/// The checkpoint after the first codon, and where git keeps its `done.txt` unless that is in a pack.
fn object_of_first(project: &TestProject) -> (String, PathBuf) {
    let directory = project.directory();
    let state = project.state(&directory);
    let sha = checkpoint(&state, "first", "completionCheckpoint").to_owned();
    let blob = project.checkpoints_git(&directory, &["rev-parse", &format!("{sha}:done.txt")]);
    let blob = blob.expect_code(0).stdout.trim().to_owned();
    let objects = directory.join(".hankweave/checkpoints/objects");
    (sha, objects.join(&blob[..2]).join(&blob[2..]))
}

// Damaged contents, found before anything is touched.
// covers: G8, G10, CLI-16
#[test]
fn damaged_contents_change_nothing_and_the_way_to_their_names_is_told() {
    let project = done();
    project.damages_checkpoints();
    let (_, object) = object_of_first(&project);
    fs::remove_file(&object).unwrap();
    fs::write(&object, "no object").unwrap();
    let refused = project.run(["rollback", "--codon", "first"]);
    let said = &refused.expect_code(74).stderr;
    assert!(
        said.contains("no file was changed; `hankweave checkpoints verify`"),
        "{said}"
    );
    assert_eq!(text(&project, "done.txt").lines().count(), 3);
    assert_eq!(
        project.state(&project.directory())["pendingRollback"],
        Value::Null
    );
}

// Missing objects, found before anything is touched.
// covers: G10, CLI-16
#[test]
fn a_checkpoint_whose_objects_are_gone_is_refused_and_nothing_changes() {
    let project = done();
    project.damages_checkpoints();
    let directory = project.directory();
    let (sha, object) = object_of_first(&project);
    if !object.exists() {
        // Objects in a pack can be gone with the pack only.
        for pack in fs::read_dir(directory.join(".hankweave/checkpoints/objects/pack")).unwrap() {
            fs::remove_file(pack.unwrap().path()).unwrap();
        }
    } else {
        fs::remove_file(object).unwrap();
    }
    let refused = project.run(["rollback", "--to", &sha]);
    assert_ne!(refused.code, Some(0), "{refused}");
    let refused = project.run(["rollback", "--codon", "first"]);
    let said = &refused.expect_code(65).stderr;
    assert!(said.contains("it has none that can be restored"), "{said}");
    assert_eq!(text(&project, "done.txt").lines().count(), 3);
    assert_eq!(project.state(&directory)["pendingRollback"], Value::Null);
}

// covers: G7, F14
#[test]
fn a_link_planted_in_the_way_is_replaced_and_not_followed() {
    let project = done();
    let directory = project.directory();
    let outside = project.home().join("precious");
    fs::write(&outside, "do not touch").unwrap();
    fs::remove_file(directory.join("done.txt")).unwrap();
    symlink(&outside, directory.join("done.txt")).unwrap();
    project.run(["rollback", "--codon", "first"]).expect_code(0);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "do not touch");
    assert_eq!(text(&project, "done.txt"), "one\n");
    assert!(directory.join("done.txt").symlink_metadata().unwrap().is_file());
}

// An error checkpoint makes the failed codon the newest one, and nothing is next.
// covers: STATE-54
#[test]
fn from_an_error_checkpoint_nothing_is_next_and_that_is_said() {
    let project = project();
    write_hank(&project, ["one", "two", "three"]);
    let hank = text(&project, "hank.json").replace("\"two\"", "\"fail please\"");
    project.write("hank.json", hank);
    let agent = text(&project, "agent.sh").replace(
        "*\"wait for go\"*)",
        "*\"fail please\"*) exit 3 ;; *\"wait for go\"*)",
    );
    project.write("agent.sh", agent);
    project.run(["run", "--headless"]).expect_code(1);
    let back = project.run(["rollback", "--codon", "second"]);
    assert!(
        back.expect_code(0).stdout.ends_with(
            "blocked: second failed (`hankweave run` rolls back to the last success, first, and runs second again)\n"
        ),
        "{back}"
    );
    project.run(["run", "--headless"]).expect_code(1);
    project
        .run(["rollback", "--codon", "second", "--at", "rig-setup"])
        .expect_code(0);
    write_hank(&project, ["one", "two", "three"]);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(text(&project, "done.txt"), "one\ntwo\nthree\n");
}

// As in a live run. The hank is the one that ran last, in any folder.
// covers: RUN-6, RUN-20
#[test]
fn what_the_rigs_of_left_codons_had_copied_is_taken_out_unless_somebody_changed_it() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["*.txt"]})
    };
    let copy = |from: &str| json!({"type": "copy", "copy": {"from": from, "to": from}});
    for tool in ["whole", "changed"] {
        project.write(&format!("{tool}/tool.sh"), "echo tool");
    }
    let mut second = codon("second");
    second["rigSetup"] = json!([copy("whole"), copy("changed")]);
    project.write_hank(&json!({"hank": [codon("first"), second]}));
    let there = project.directory().join("elsewhere");
    let run = |arguments: &[&str]| project.run([arguments, &["-e", there.to_str().unwrap()]].concat());
    run(&["run", "--headless"]).expect_code(0);
    fs::write(there.join("changed/tool.sh"), "echo mine").unwrap();

    let back = ["rollback", "--codon", "first", "--json"];
    let dry = run(&[&back[..], &["--dry-run"]].concat())
        .expect_code(0)
        .json_document();
    assert_eq!(dry["rigCleanup"], json!(["whole"]));
    assert!(there.join("whole/tool.sh").exists());

    let done = run(&back).expect_code(0).json_document();
    assert_eq!(done["rigCleanup"], json!(["whole"]));
    assert!(!there.join("whole").exists());
    assert_eq!(
        fs::read_to_string(there.join("changed/tool.sh")).unwrap(),
        "echo mine"
    );
    let told = run(&["journal", "--type", "rollback.rigCleanup"]).json_lines();
    let ends: Vec<&Value> = told.iter().map(|event| &event["data"]["status"]).collect();
    assert_eq!(ends, ["started", "partial"]);
}

// covers: RUN-20
#[test]
fn a_copy_of_a_loops_rig_is_named_and_tried_once_however_often_its_codon_ran() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["*.txt"]})
    };
    let copy = |from: &str| json!({"type": "copy", "copy": {"from": from, "to": from}, "replace": true});
    for tool in ["whole", "changed"] {
        project.write(&format!("{tool}/tool.sh"), "echo tool");
    }
    let mut fix = codon("fix");
    fix["rigSetup"] = json!([copy("whole"), copy("changed")]);
    let until = json!({"type": "iterationLimit", "limit": 3});
    let rounds =
        json!({"type": "loop", "id": "rounds", "name": "Rounds", "terminateOn": until, "codons": [fix]});
    project.write_hank(&json!({"hank": [codon("first"), rounds]}));
    let there = project.directory().join("elsewhere");
    let run = |arguments: &[&str]| project.run([arguments, &["-e", there.to_str().unwrap()]].concat());
    run(&["run", "--headless"]).expect_code(0);
    fs::write(there.join("changed/tool.sh"), "echo mine").unwrap();

    let back = ["rollback", "--codon", "first", "--json"];
    let dry = run(&[&back[..], &["--dry-run"]].concat());
    assert_eq!(dry.expect_code(0).json_document()["rigCleanup"], json!(["whole"]));
    run(&back).expect_code(0);
    let told = run(&["journal", "--type", "rollback.rigCleanup"]).json_lines();
    let ends: Vec<&Value> = told.iter().map(|event| &event["data"]["status"]).collect();
    assert_eq!(ends, ["started", "partial"]);
}
