//! What follows the end of a codon: results and the archive (HANK-24 to HANK-27).

use std::fs;
use std::path::Path;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{codon, project, shell_agent};

/// One codon that appends its prompt to `done.txt`, with more fields.
fn one(project: &TestProject, id: &str, more: &Value) -> Value {
    let mut codon = json!({"id": id, "name": id, "agent": shell_agent(project), "model": "shell",
        "continuationMode": "fresh", "promptText": id, "checkpointedFiles": ["*.txt"]});
    codon
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    codon
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn events(finished: &hankweave_testing::Finished, wanted: &str) -> Vec<Value> {
    let lines = finished.json_lines().into_iter();
    lines
        .filter(|event| event["type"] == wanted)
        .map(|event| event["data"].clone())
        .collect()
}

// covers: HANK-24
#[test]
fn results_that_match_nothing_are_told_as_no_files() {
    let project = project();
    let more = json!({"outputFiles": [{"copy": ["nothing/**"]}]});
    project.write_hank(&json!({"hank": [one(&project, "only", &more)]}));
    let run = project.run(["run", "--headless", "--json", "--output", "out"]);
    run.expect_code(0);
    let told = events(&run, "info");
    let told = told.iter().filter_map(|info| info["message"].as_str());
    assert_eq!(
        told.filter(|message| message.starts_with("only: 0 files copied to "))
            .count(),
        1,
        "{run}"
    );
    let report = project.run(["report"]);
    assert!(report.stdout.contains(": only: 0 files copied to "), "{report}");
}

// covers: HANK-24
#[test]
fn results_are_copied_in_groups_behind_their_commands() {
    let project = project();
    let groups = json!([
        {"copy": ["report/**", "!report/*.tmp"], "beforeCopy": [
            {"type": "command", "command": {"run": "mkdir -p report && echo $TITLE > report/a.md && touch report/b.tmp"}}]},
        {"copy": ["done.txt"]},
    ]);
    let more = json!({"outputFiles": groups, "env": {"TITLE": "Results"}});
    project.write_hank(&json!({"hank": [one(&project, "only", &more)]}));
    project.write(".gitignore", "report/\n");

    project.run(["run", "--headless"]).expect_code(0);
    assert!(
        !project.directory().join("report").exists(),
        "without --output nothing is done"
    );

    let out = project.home().join("out");
    let run = |more: &[&str]| {
        let output = out.to_str().unwrap();
        let arguments = ["run", "--headless", "--new", "--output", output];
        project.run(arguments.iter().chain(more)).expect_code(0).clone()
    };
    let copied = run(&[]);
    assert!(
        copied.stdout.contains("/out: report/a.md, done.txt")
            || copied.stderr.contains("/out: report/a.md, done.txt"),
        "the copies are named: {copied}"
    );
    assert_eq!(names(&out), ["done.txt", "report"]);
    assert_eq!(
        (read(out.join("report/a.md")), names(&out.join("report"))),
        ("Results\n".to_owned(), vec!["a.md".to_owned()])
    );
    assert_eq!(read(out.join("done.txt")), "only\nonly\n");

    run(&[]);
    let renamed = names(&out)
        .into_iter()
        .find(|name| name.starts_with("done_1_"))
        .unwrap();
    assert!(renamed.ends_with(".txt"), "{renamed}");
    assert_eq!(read(out.join("done.txt")), "only\nonly\n", "what was there stays");
    run(&["--overwrite-output"]);
    assert_eq!(read(out.join("done.txt")), "only\nonly\nonly\nonly\n");
}

// covers: HANK-26
#[test]
fn results_that_cannot_be_handed_out_fail_the_run_and_are_handed_out_by_the_next_start() {
    let project = project();
    let groups = json!([
        {"copy": ["done.txt"], "beforeCopy": [{"type": "command", "command": {"run": "test -e ready"}}]},
        {"copy": ["*.txt"]},
    ]);
    let only = one(&project, "only", &json!({"outputFiles": groups}));
    project.write_hank(&json!({"hank": [only, one(&project, "later", &json!({}))]}));
    let out = project.home().join("out");
    let output = out.to_str().unwrap().to_owned();
    let failed = project.run(["run", "--headless", "--json", "-o", &output]);
    failed.expect_code(1);
    let error = &events(&failed, "error")[0];
    assert_eq!(
        (&error["code"], &error["codon"]),
        (&json!("OUTPUT_FAILED"), &json!("only"))
    );
    assert!(
        failed.stdout.contains("command 1 of beforeCopy failed"),
        "{failed}"
    );
    let state = project.state(&project.directory());
    assert_eq!(state["runs"][0]["status"], "failed");
    assert_eq!(codon(&state["runs"][0], "only")["status"], "completed");
    assert_eq!(names(&out), [""; 0]);

    let again = project.run(["run", "--headless", "-o", &output]);
    again.expect_code(1);
    assert!(
        again.stderr.contains("were not handed out") || again.stdout.contains("were not handed out"),
        "{again}"
    );
    project.write("ready", "");
    project.run(["run", "--headless", "-o", &output]).expect_code(0);
    assert!(names(&out).contains(&"done.txt".to_owned()));
    assert_eq!(read(project.directory().join("done.txt")), "only\nlater\n");
    let state = project.state(&project.directory());
    assert_eq!(
        state["runs"].as_array().unwrap().len(),
        2,
        "a start that hands out nothing opens no run"
    );
}

#[test]
fn an_output_directory_that_cannot_be_is_refused_before_anything_runs() {
    let project = project();
    project.write_hank(&json!({"hank": [one(&project, "only", &json!({"outputFiles": [{"copy": ["*"]}]}))]}));
    project.write("file", "");
    for (output, code) in [
        ("file", 74),
        ("file/inside", 74),
        (".", 65),
        (".hankweave/out", 65),
    ] {
        let refused = project.run(["run", "--headless", "-o", output]);
        refused.expect_code(code);
        assert!(refused.stderr.contains("hint: "), "{refused}");
    }
    assert!(!project.directory().join("done.txt").exists());
    project.run(["run", "--headless", "-o", "inside"]).expect_code(0);
    let inside = names(&project.directory().join("inside"));
    assert!(
        inside.contains(&"done.txt".to_owned()) && !inside.contains(&"inside".to_owned()),
        "{inside:?}"
    );
    let state = project.state(&project.directory());
    let sha = codon(&state["runs"][0], "only")["completionCheckpoint"]
        .as_str()
        .unwrap()
        .to_owned();
    let listed = project.checkpoints_git(&project.directory(), &["ls-tree", "-r", "--name-only", &sha]);
    assert!(!listed.stdout.contains("inside"), "{listed}");
}

// A loop's own patterns count once, when it terminates.
// covers: HANK-27
#[test]
fn what_served_its_purpose_is_moved_away_and_comes_back_with_a_rollback() {
    let project = project();
    let write = |run: &str| json!([{"type": "command", "command": {"run": run}}]);
    let draft = one(
        &project,
        "draft",
        &json!({"rigSetup": write("mkdir -p scratch && echo draft > scratch/note && echo draft > kept.txt"),
            "archiveOnSuccess": ["scratch", "none/*"], "outputFiles": [{"copy": ["scratch/**"]}]}),
    );
    let inner = one(
        &project,
        "polish",
        &json!({"rigSetup": write("date +%N > round.tmp; echo x >> all.tmp"), "archiveOnSuccess": ["round.tmp"]}),
    );
    let looped = json!({"type": "loop", "id": "rounds", "name": "rounds", "terminateOn": {"type": "iterationLimit", "limit": 2},
        "codons": [inner], "archiveOnSuccess": ["all.tmp"]});
    project.write_hank(&json!({"hank": [draft, looped, one(&project, "end", &json!({}))]}));
    let out = project.home().join("out");
    let finished = project.run(["run", "--headless", "--json", "-o", out.to_str().unwrap()]);
    finished.expect_code(0);

    let root = project.directory();
    assert_eq!(
        names(&root.join("rigArchive")),
        ["draft", "polish-0", "polish-1", "rounds-1"]
    );
    assert!(!root.join("scratch").exists() && root.join("kept.txt").exists());
    assert_eq!(
        read(out.join("scratch/note")),
        "draft\n",
        "results come before the archive"
    );
    assert_eq!(read(root.join("rigArchive/rounds-1/all.tmp")), "x\nx\n");
    let archived = events(&finished, "archive.completed");
    let of = |id: &str| archived.iter().filter(|event| event["codonId"] == id).count();
    assert_eq!(
        (of("draft"), of("polish#0"), of("polish#1"), of("rounds")),
        (1, 1, 1, 1),
        "{archived:?}"
    );
    assert_eq!(archived[0]["archivedPaths"], json!(["scratch/note"]));
    let manifest: Value = serde_json::from_str(&read(root.join(".hankweave/archive-manifest.json"))).unwrap();
    assert_eq!(
        (
            &manifest["version"],
            manifest["entries"].as_array().unwrap().len()
        ),
        (&json!("1.0.0"), 4)
    );
    let state = project.state(&root);
    let shown = codon(&state["runs"][0], "end")["completionCheckpoint"]
        .as_str()
        .unwrap()
        .to_owned();
    let listed = project.checkpoints_git(&root, &["ls-tree", "-r", "--name-only", &shown]);
    assert!(!listed.stdout.contains("rigArchive"), "{listed}");

    // After `draft`: the files that the loop archived are restored, those that `draft` archived stay in the archive.
    let back = ["rollback", "--codon", "draft"];
    let looked = project
        .run(back.iter().chain(&["--dry-run", "--json"]))
        .json_document();
    assert_eq!(looked["unarchive"].as_array().unwrap().len(), 3, "{looked:#}");
    assert!(
        root.join("rigArchive/rounds-1").exists(),
        "a dry run moves nothing"
    );
    project.run(back).expect_code(0);
    assert_eq!(
        names(&root.join("rigArchive")),
        ["draft", "polish-0"],
        "one round.tmp is in the way of the other"
    );
    assert!(root.join("round.tmp").exists() && root.join("all.tmp").exists());
    let journal = fs::read_dir(root.join(".hankweave/events")).unwrap();
    let text: String = journal.map(|file| read(file.unwrap().path())).collect();
    assert!(text.contains("rollback.archiveRestore"));

    // Before `draft`: its own files come back as well.
    project
        .run(["rollback", "--codon", "draft", "--at", "rig-setup"])
        .expect_code(0);
    assert_eq!(read(root.join("scratch/note")), "draft\n");
}

// covers: F1, P9, RUN-14
#[test]
fn after_a_kill_in_the_middle_the_next_start_hands_out_and_archives_what_is_missing() {
    let project = project();
    let waits = "echo waiting; echo $$ > scratch.tmp; [ -e go ] || { sleep 600 & wait; }";
    let groups =
        json!([{"copy": ["done.txt"], "beforeCopy": [{"type": "command", "command": {"run": waits}}]}]);
    let only = one(
        &project,
        "only",
        &json!({"outputFiles": groups, "archiveOnSuccess": ["*.tmp"]}),
    );
    project.write_hank(&json!({"hank": [only]}));
    let mut running = project.start(["run", "--headless", "--json", "-o", "out"]);
    running.wait_for_line(|line| line.contains("rig.output") && line.contains("waiting"));
    running.kill();
    project.write("go", "");
    let finished = project.run(["run", "--headless", "--json", "-o", "out"]);
    finished.expect_code(0);
    assert_eq!(project.left_behind(), []);
    assert_eq!(read(project.directory().join("out/done.txt")), "only\n");
    assert!(project.directory().join("rigArchive/only/scratch.tmp").exists());
    assert_eq!(events(&finished, "archive.completed").len(), 1);
    let state = project.state(&project.directory());
    assert_eq!(
        codon(&state["runs"][0], "only")["status"],
        "completed",
        "nothing ran twice"
    );
    assert_eq!(state["runs"].as_array().unwrap().len(), 1);
}

/// Files that are moved away after a codon are none of the work of the next one, which has to do something itself.
// covers: HANK-66
#[test]
fn an_archive_is_no_work_of_the_codon_after_it() {
    let project = project();
    let watched = json!({"checkpointedFiles": ["*.txt"]});
    let mut first = one(&project, "first", &json!({"archiveOnSuccess": ["done.txt"]}));
    let mut second = one(&project, "second", &json!({"requires": "changes"}));
    second["agent"] = json!({"command": ["sh", project.write("idle.sh", IDLE)], "stream": "claude"});
    for codon in [&mut first, &mut second] {
        codon
            .as_object_mut()
            .unwrap()
            .extend(watched.as_object().unwrap().clone());
    }
    project.write_hank(&json!({"hank": [first, second]}));
    project.run(["run", "--headless"]).expect_code(1);
    let state = project.state(&project.directory());
    let second = codon(&state["runs"][0], "second");
    assert_eq!(
        (&second["status"], &second["filesChanged"]),
        (&json!("failed"), &json!(0)),
        "{second:#}"
    );
}

/// Says that it is done, and did nothing.
const IDLE: &str = r#"cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"none"}'
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done"}'
"#;

// The hank is in the workspace, but the agent may not move the files of its author.
#[test]
fn a_hank_does_not_archive_itself() {
    let project = project();
    let mut only = one(
        &project,
        "only",
        &json!({"archiveOnSuccess": ["**"], "promptFile": "p/only.md"}),
    );
    only.as_object_mut().unwrap().remove("promptText");
    project.write_hank(&json!({"hank": [only]}));
    project.write("p/only.md", "only");
    project.run(["run", "--headless", "-o", "out"]).expect_code(0);
    let root = project.directory();
    assert!(root.join("rigArchive/only/done.txt").exists() && !root.join("done.txt").exists());
    assert!(root.join("hank.json").exists() && root.join("p/only.md").exists() && root.join("out").exists());
}

#[test]
fn files_that_cannot_be_archived_stay_and_are_told() {
    let project = project();
    let more = json!({"archiveOnSuccess": ["*.tmp"], "rigSetup": [{"type": "command",
        "command": {"run": "touch a.tmp; ln -s /tmp rigArchive"}}]});
    project.write_hank(&json!({"hank": [one(&project, "only", &more)]}));
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let partial = &events(&finished, "archive.partial")[0];
    assert_eq!(
        (&partial["archivedPaths"], &partial["failedPaths"][0]["path"]),
        (&json!([]), &json!("a.tmp"))
    );
    assert!(project.directory().join("a.tmp").exists());
}

// Without a copy `lastCopied` is the agent's workspace.
// covers: HANK-22
#[test]
fn commands_run_where_the_last_copy_went() {
    let project = project();
    let command =
        |run: &str| json!({"type": "command", "command": {"run": run, "workingDirectory": "lastCopied"}});
    let copy = |from: &str, to: &str| json!({"type": "copy", "copy": {"from": from, "to": to}});
    project.write("templates/a/x", "");
    project.write("templates/file", "");
    let rig = json!([
        command("pwd > p0.txt"),
        copy("templates/a", "first"),
        command("pwd > ../p1.txt"),
        copy("templates/a", "first/second"),
        command("pwd > ../../p2.txt"),
        copy("templates/file", "first/file"),
        command("pwd > ../p3.txt")
    ]);
    let second = one(&project, "two", &json!({"rigSetup": [command("pwd > p4.txt")]}));
    project.write_hank(&json!({"hank": [one(&project, "one", &json!({"rigSetup": rig})), second]}));
    project.run(["run", "--headless"]).expect_code(0);
    let root = project.directory().canonicalize().unwrap();
    for (number, folder) in ["", "first", "first/second", "first", ""].iter().enumerate() {
        let expected = format!("{}\n", root.join(folder).display());
        let expected = expected.replace("/\n", "\n");
        assert_eq!(read(root.join(format!("p{number}.txt"))), expected, "p{number}");
    }
}

// Typed into the program.
// covers: WIRE-12
#[test]
fn any_codon_can_be_started_from_the_terminal() {
    let project = TestProject::new("/bin/sh");
    let rig = json!({"rigSetup": [{"type": "command", "command": {"run": "echo rig >> rig.txt"}}]});
    project.write_hank(&json!({"hank": [one(&project, "one", &json!({})), one(&project, "two", &rig)]}));
    let program = env!("CARGO_BIN_EXE_hankweave");
    // Commands that come while a codon runs are refused, so each waits until nothing runs.
    let idle = |times: u8| {
        format!(
            "until [ $(cat .hankweave/events/*.jsonl | grep -c server.idle) -ge {times} ]; do sleep 0.05; done"
        )
    };
    let typed = [
        "until [ -e .hankweave/events ]; do sleep 0.05; done".to_owned(),
        idle(1),
        "echo start nobody; echo start two --skip-rig".to_owned(),
        idle(2),
        "echo start one".to_owned(),
        idle(3),
        "echo quit".to_owned(),
    ]
    .join("; ");
    let line = format!("({typed}) | '{program}' run --no-autostart --headless");
    let finished = project.run(["-c", &line]);
    // The codon after the one that was started last has not run in this run.
    finished.expect_code(3);
    for words in [
        "refused: unknown codon: nobody",
        "hint: ",
        "starting two",
        "starting one",
    ] {
        assert!(finished.stderr.contains(words), "{words}\n{finished}");
    }
    assert_eq!(read(project.directory().join("done.txt")), "two\none\n");
    assert!(!project.directory().join("rig.txt").exists());
}

// A refused command leaves no folder, also if the path to it is a link.
// covers: X11
#[test]
fn an_output_directory_among_our_own_files_is_refused_and_not_made() {
    let project = project();
    project
        .write_hank(&json!({"hank": [one(&project, "a", &json!({"outputFiles": [{"copy": ["*.txt"]}]}))]}));
    let work = project.directory();
    fs::create_dir(work.join(".hankweave")).unwrap();
    fs::set_permissions(
        work.join(".hankweave"),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    std::os::unix::fs::symlink(".hankweave", work.join("way")).unwrap();
    for place in [".hankweave/x/y", "./new/../.hankweave/x", "way/x", "."] {
        let finished = project.run(["run", "--headless", "--output", place]);
        finished.expect_code(65);
        assert!(
            finished.stderr.contains("it is where the agents work"),
            "{finished}"
        );
        assert!(!work.join(".hankweave/x").exists(), "{place} was made");
    }
    assert!(!work.join("new").exists() && !work.join("done.txt").exists());
}
