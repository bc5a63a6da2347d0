//! Checkpoints as a user meets them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{codon, project};
use crate::terminal::Terminal;

/// Runs three codons that write `one`, `two` and `three` to `file`; the last one fails until its script is repaired.
fn a_failed_run(project: &TestProject) -> Value {
    let script = |name: &str, rest: &str| {
        let turns = format!(r#"[{{"tools":[{{"write":{{"path":"file","content":"{name}"}}}}]}}]"#);
        project.write(&format!("{name}.json"), format!(r#"{{"turns":{turns}{rest}}}"#));
    };
    script("one", "");
    script("two", "");
    script("three", r#","result":{"message":"no"},"exitCode":1"#);
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": {"script": format!("{id}.json")}, "continuationMode": "fresh",
            "promptText": "go", "checkpointedFiles": ["file"]})
    };
    project.write_hank(&json!({"hank": [codon("one"), codon("two"), codon("three")]}));
    project.run(["run", "--headless"]).expect_code(1);
    script("three", "");
    project.state(&project.directory())
}

// covers: G10, F21
#[test]
fn checkpoints_that_are_gone_are_told_and_left_out_of_the_way_back() {
    let project = project();
    project.damages_checkpoints();
    let state = a_failed_run(&project);
    let sha = |id: &str, kind: &str| {
        let sha = &codon(&state["runs"][0], id)[kind];
        sha.as_str().unwrap().to_owned()
    };
    let gone = [
        sha("two", "completionCheckpoint"),
        sha("three", "errorCheckpoint"),
    ];
    let objects = project.directory().join(".hankweave/checkpoints/objects");
    for gone in &gone {
        fs::remove_file(objects.join(&gone[..2]).join(&gone[2..])).unwrap();
    }

    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);

    for gone in &gone {
        let told = format!("checkpoint {gone} is damaged or gone");
        assert!(finished.stderr.contains(&told), "{}", finished.stderr);
    }
    let state = project.state(&project.directory());
    let resumed = &state["runs"][0];
    let source = &resumed["startingConditions"]["source"];
    assert_eq!(source["checkpointSha"], json!(sha("one", "completionCheckpoint")));
    assert_eq!(resumed["codons"].as_array().map(Vec::len), Some(2));
    assert_eq!(codon(resumed, "three")["status"], "completed");
}

// Only checkpoints that no longer exist are left out, and each of them is reported.
// covers: G10, STATE-56
#[test]
fn a_lost_checkpoint_hides_no_older_one_and_a_deleted_repository_has_none() {
    let project = project();
    project.damages_checkpoints();
    let state = a_failed_run(&project);
    let sha = |id: &str, kind: &str| codon(&state["runs"][0], id)[kind].as_str().unwrap().to_owned();
    let repository = project.directory().join(".hankweave/checkpoints");
    let gone = sha("two", "completionCheckpoint");
    fs::remove_file(repository.join("objects").join(&gone[..2]).join(&gone[2..])).unwrap();
    let missed = || {
        let verdict = project.run(["state", "validate", "--json"]).json_document();
        let warnings = verdict["warnings"].as_array().unwrap().clone();
        let missing = warnings
            .iter()
            .filter(|warning| warning["type"] == "missing_checkpoint");
        missing
            .map(|warning| warning["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let validated = || {
        let thread = project.run(["thread", "--json"]).json_document();
        let codons = thread["codons"].as_array().unwrap().clone();
        let shas = codons
            .iter()
            .map(|entry| entry["validatedCheckpoints"][0]["sha"].clone());
        shas.collect::<Vec<_>>()
    };
    assert_eq!(missed(), ["runs[0].codons[1].completionCheckpoint"]);
    let (one, three) = (
        sha("one", "completionCheckpoint"),
        sha("three", "errorCheckpoint"),
    );
    assert_eq!(validated(), [json!(three), Value::Null, json!(one)]);

    fs::remove_dir_all(&repository).unwrap();
    let all = missed();
    assert_eq!(
        all.len(),
        5,
        "the initial one twice, and one of each codon: {all:?}"
    );
    assert_eq!(validated(), [Value::Null, Value::Null, Value::Null]);
}

// covers: G8, F1
#[test]
fn going_back_that_a_crash_cut_off_is_finished_before_anything_else() {
    let project = project();
    let state = a_failed_run(&project);
    let sha = |id: &str, kind: &str| codon(&state["runs"][0], id)[kind].clone();
    let source = json!({"runId": state["runs"][0]["runId"], "afterCodon": "two", "checkpointSha": sha("two", "completionCheckpoint")});
    let mut cut_off = state.clone();
    cut_off["pendingRollback"] = json!({"source": source, "left": sha("three", "errorCheckpoint"),
        "safety": sha("three", "errorCheckpoint"), "restored": false});
    project.write(".hankweave/state.json", cut_off.to_string());
    // With `--new` nothing else would touch the files.
    let finished = project.run(["run", "--headless", "--new"]);
    finished.expect_code(0);
    assert!(
        finished.stdout.contains("had been interrupted and was finished"),
        "{}",
        finished.stdout
    );
}

/// Runs `hankweave checkpoints …` and reads its JSON.
#[track_caller]
fn look(project: &TestProject, arguments: &[&str]) -> Value {
    let arguments = ["checkpoints", "--json"].iter().chain(arguments);
    project.run(arguments).expect_code(0).json_document()
}

/// What a command prints for people.
#[track_caller]
fn printed(project: &TestProject, code: i32, arguments: &[&str]) -> String {
    project.run(arguments).expect_code(code).stdout.clone()
}

// covers: CLI-13
#[test]
fn all_checkpoints_are_listed_newest_first() {
    let project = project();
    let state = a_failed_run(&project);
    let (run, files) = (&state["runs"][0], project.files());
    let listed = look(&project, &[]);
    let rows = listed["checkpoints"].as_array().unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| (&row["type"], &row["codonId"], &row["sha"], &row["missing"]))
        .collect();
    let (error, completed, initial) = (json!("error"), json!("completed"), json!("initial"));
    let id = ["one", "two", "three"].map(|id| json!(id));
    let expected = [
        (
            &error,
            &id[2],
            &codon(run, "three")["errorCheckpoint"],
            &json!(false),
        ),
        (
            &completed,
            &id[1],
            &codon(run, "two")["completionCheckpoint"],
            &json!(false),
        ),
        (
            &completed,
            &id[0],
            &codon(run, "one")["completionCheckpoint"],
            &json!(false),
        ),
        (&initial, &Value::Null, &state["initialCheckpoint"], &json!(false)),
    ];
    assert_eq!(told, expected);
    assert_eq!(rows[0]["runId"], run["runId"]);
    assert_eq!(rows[0]["parent"], rows[1]["sha"]);

    let text = printed(&project, 0, &["checkpoints", "list"]);
    assert_eq!(text.lines().count(), 4);
    let first = text.lines().next().unwrap();
    for word in [
        &rows[0]["sha"].as_str().unwrap()[..10],
        "error",
        "three",
        run["runId"].as_str().unwrap(),
    ] {
        assert!(first.contains(word), "{first}");
    }
    assert_eq!(project.files(), files, "looking changes nothing");
}

// covers: CLI-13
#[test]
fn a_checkpoint_is_shown_and_compared_by_the_beginning_of_its_name() {
    let project = project();
    let state = a_failed_run(&project);
    let sha = |id: &str| {
        codon(&state["runs"][0], id)["completionCheckpoint"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (one, two) = (sha("one"), sha("two"));
    let shown = look(&project, &["show", &two[..12]]);
    assert_eq!((&shown["sha"], &shown["parent"]), (&json!(two), &json!(one)));
    assert_eq!(shown["files"], json!(["file"]));
    assert_eq!(shown["changes"], json!([{"path": "file", "kind": "modified"}]));
    assert!(
        shown["message"]
            .as_str()
            .unwrap()
            .starts_with("completed:two [run:")
    );
    let text = printed(&project, 0, &["checkpoints", "show", &one]);
    assert!(text.starts_with(&one) && text.ends_with("A file\n"), "{text}");

    let initial = state["initialCheckpoint"].as_str().unwrap();
    let compared = look(&project, &["diff", initial, &two]);
    assert_eq!(compared["changes"], json!([{"path": "file", "kind": "added"}]));
    let text = printed(&project, 0, &["checkpoints", "diff", &two[..12], initial]);
    assert_eq!(text, "D file\n");
}

// covers: CLI-23
#[test]
fn what_a_codon_changed_is_shown_with_its_contents() {
    let project = project();
    let state = a_failed_run(&project);
    let completed = |id: &str| {
        codon(&state["runs"][0], id)["completionCheckpoint"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (one, two) = (completed("one"), completed("two"));
    let mark = project.home().join("ran");
    let external = format!("[diff]\n\texternal = touch {}\n", mark.display());
    fs::write(project.home().join(".gitconfig"), external).unwrap();
    let second = "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\n";
    for what in ["two", &two[..8], &format!("one..{}", &two[..8])] {
        assert!(printed(&project, 0, &["diff", what]).ends_with(second), "{what}");
    }
    let newest = printed(&project, 0, &["diff"]);
    assert!(
        newest.contains("-two\n") && newest.contains("+three\n"),
        "{newest}"
    );
    let stat = printed(&project, 0, &["diff", "one..three", "--stat"]);
    assert!(stat.contains("file | 2 +-"), "{stat}");
    let told = project.run(["diff", "two", "--json"]).json_document();
    assert_eq!(
        told,
        json!({"from": one, "to": two, "changes": [{"path": "file", "kind": "modified"}]})
    );
    let refused = project.run(["diff", "four"]);
    refused.expect_code(65);
    assert!(
        refused
            .stderr
            .contains("`hankweave checkpoints` lists all of them"),
        "{refused}"
    );
    assert!(!mark.exists(), "the configuration of the user ran a program");
}

// covers: CLI-23
#[test]
fn on_a_terminal_what_changed_goes_through_a_pager() {
    let project = project();
    a_failed_run(&project);
    let pager = project.write("bin/less", "#!/bin/sh\necho \"paged with $*\"; head -n 6; exit");
    fs::set_permissions(&pager, fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!(
        "PATH=\"$PWD/bin:$PATH\" exec '{}' diff two",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until("paged with -FRX");
    terminal.until("\u{1b}[31m-one");
    assert_eq!(terminal.close(), Some(0), "a pager may be left early");
}

// covers: G10
#[test]
fn every_damaged_part_of_a_checkpoint_is_named() {
    let project = project();
    let state = a_failed_run(&project);
    let sha = |id: &str| {
        codon(&state["runs"][0], id)["completionCheckpoint"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let all = look(&project, &["verify"]);
    assert_eq!(
        (all["checkpoints"].as_array().map(Vec::len), &all["damaged"]),
        (Some(4), &json!(0))
    );

    let object = |sha: &str| {
        let object = format!("{sha}:file");
        let named = project.checkpoints_git(&project.directory(), &["rev-parse", &object]);
        named.expect_code(0).stdout.trim().to_owned()
    };
    let place = |object: &str| {
        let objects = project.directory().join(".hankweave/checkpoints/objects");
        objects.join(&object[..2]).join(&object[2..])
    };
    project.damages_checkpoints();
    let (one, two) = (object(&sha("one")), object(&sha("two")));
    // Other contents under this name, and none under that one.
    fs::remove_file(place(&one)).unwrap();
    fs::copy(place(&two), place(&one)).unwrap();
    fs::remove_file(place(&two)).unwrap();

    let finished = project.run(["checkpoints", "verify", "--json", &sha("one"), &sha("two")]);
    let verdict = finished.expect_code(1).json_document();
    let damage = |kind: &str, object: &str| json!([{"path": "file", "object": object, "kind": kind}]);
    assert_eq!(verdict["checkpoints"][0]["damage"], damage("corrupt", &one));
    assert_eq!(verdict["checkpoints"][1]["damage"], damage("missing", &two));
    let text = printed(&project, 1, &["checkpoints", "verify"]);
    // Also with the directory, as other commands take it.
    assert_eq!(printed(&project, 1, &["checkpoints", "verify", "."]), text);
    assert!(text.contains(&format!("  missing file (object {two})")), "{text}");
    assert!(text.contains("4 checkpoints,"), "{text}");
    let listed = look(&project, &["list"]);
    assert_eq!(listed["checkpoints"][1]["missing"], true, "{listed:#}");
}

// covers: CLI-3
#[test]
fn a_checkpoint_that_cannot_be_shown_is_told_from_one_that_does_not_exist() {
    let project = project();
    project.damages_checkpoints();
    let state = a_failed_run(&project);
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let finished = project.run(["checkpoints"].iter().chain(arguments));
        finished.expect_code(code);
        assert!(
            finished.stderr.contains(why) && finished.stderr.contains("hint:"),
            "{}",
            finished.stderr
        );
        assert!(finished.stdout.is_empty());
    };
    refused(
        &["show", "0123456789"],
        65,
        "no checkpoint begins with `0123456789`",
    );
    refused(&["show", "HEAD"], 65, "`HEAD` is no SHA");
    let of_directory = "a directory is named with -e: `hankweave checkpoints -e work`";
    refused(&["verify", "./work"], 65, of_directory);
    refused(&["diff", "main", "HEAD"], 65, "`main` is no SHA");
    refused(&["-e", "nowhere"], 65, "`nowhere` is no execution directory");
    refused(
        &["list", "-e", "nowhere"],
        65,
        "`nowhere` is no execution directory",
    );

    let lost = codon(&state["runs"][0], "two")["completionCheckpoint"]
        .as_str()
        .unwrap();
    let repository = project.directory().join(".hankweave/checkpoints");
    fs::remove_file(repository.join("objects").join(&lost[..2]).join(&lost[2..])).unwrap();
    refused(&["show", lost], 65, &format!("failed to read checkpoint {lost}"));
    fs::remove_file(repository.join("HEAD")).unwrap();
    refused(&["list"], 65, "checkpoints");
    fs::remove_dir_all(&repository).unwrap();
    refused(&["show", lost], 65, "there is no checkpoint repository");
    let listed = look(&project, &["list"]);
    let rows = listed["checkpoints"].as_array().unwrap();
    assert!(
        rows.len() == 4 && rows.iter().all(|row| row["missing"] == true),
        "{listed:#}"
    );
}

#[test]
fn a_project_without_checkpoints_has_none() {
    let project = project();
    fs::create_dir(project.directory().join(".hankweave")).unwrap();
    assert_eq!(look(&project, &[]), json!({"checkpoints": []}));
    let text = printed(&project, 0, &["checkpoints"]);
    assert_eq!(text, "no checkpoint has been made yet\n");
    project.run(["checkpoints", "verify"]).expect_code(0);
}
