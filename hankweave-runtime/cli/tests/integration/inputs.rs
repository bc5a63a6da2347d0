//! What agents are given: prompts, variables, environment, data (HANK-4, HANK-8, RUN-7).

use std::fs;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;

/// An agent that writes down what it was given, in files named after its session.
const CURIOUS_AGENT: &str = r#"
cat > prompt.txt
printf '%s' "$HANKWEAVE_APPENDED_SYSTEM_PROMPT" > system.txt
printf '%s %s %s %s' "$HANKWEAVE_MODEL" "$SECRET_NAME" "${GONE-removed}" "$OWN" > given.txt
ls -lL read_only_data_source > data.txt 2>&1
printf '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}\n'
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","usage":{}}\n'
"#;

fn write_hank(project: &TestProject, codon: &Value, top: &Value) {
    let script = project.write("agent.sh", CURIOUS_AGENT);
    let mut only = json!({"id": "only", "name": "only", "agent": {"command": ["sh", script], "stream": "claude"},
        "model": "shell", "continuationMode": "fresh", "promptText": "look"});
    only.as_object_mut()
        .unwrap()
        .extend(codon.as_object().unwrap().clone());
    let mut hank = json!({"hank": [only]});
    hank.as_object_mut()
        .unwrap()
        .extend(top.as_object().unwrap().clone());
    if codon.get("promptFile").is_some() {
        hank["hank"][0].as_object_mut().unwrap().remove("promptText");
    }
    project.write_hank(&hank);
}

fn read(project: &TestProject, path: &str) -> String {
    fs::read_to_string(project.directory().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

// covers: HANK-8
/// Nothing keeps an agent from writing where the link of the data leads: the end of the run says so, not only the refusal of the next one.
// covers: RUN-8
#[test]
fn data_that_has_changed_while_a_run_worked_is_said_at_its_end() {
    let project = project();
    let data = project.home().join("letters");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("one.txt"), "dear").unwrap();
    let script = |tools: &Value| {
        project.write(
            "s.json",
            json!({"turns": [{"text": "done", "tools": [tools]}]}).to_string(),
        );
        project.write_hank(
            &json!({"hank": [{"id": "a", "name": "a", "agent": {"script": "s.json"}, "model": "sonnet",
            "continuationMode": "fresh", "promptText": "x", "requires": "nothing"}]}),
        );
    };
    let data = data.to_str().unwrap();
    script(&json!({"read": {"path": "read_only_data_source/one.txt"}}));
    let clean = project.run(["run", "--headless", "--data", data]);
    assert!(!clean.expect_code(0).stderr.contains("has changed"), "{clean}");
    script(&json!({"bash": {"command": "echo touched, longer > read_only_data_source/one.txt"}}));
    let written = project.run(["run", "--headless", "--new", "--data", data]);
    let told = "has changed since the run began; a next run with --data is refused without --new";
    assert!(written.expect_code(0).stderr.contains(told), "{written}");
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": {"script": "s.json"}, "model": "sonnet", "continuationMode": "fresh", "promptText": "x",
        "requires": "nothing"})
    };
    project.write_hank(&json!({"hank": [codon("a"), codon("b")]}));
    let on = project.run(["run", "--headless", "--replan"]);
    let counts = "have changed since a run began with them, and what was completed counts";
    assert!(on.expect_code(0).stderr.contains(counts), "{on}");
    // One that is given no data begins with none.
    let without = project.run(["run", "--headless", "--new"]);
    assert!(
        !without.expect_code(0).stderr.contains("has changed"),
        "{without}"
    );
    project.run(["run", "--headless", "--data", data]).expect_code(65);
}

/// A program looks for its files in the workspace, so `validate` warns of one that only the hank has.
// covers: HANK-4
#[test]
fn files_of_programs_that_only_the_hank_has_are_warned_of() {
    let project = project();
    project.write("tool.sh", "");
    let sentinel = json!({"id": "s", "name": "S", "command": ["sh", "tool.sh"], "execution": {"strategy": "immediate"},
        "trigger": {"type": "event", "on": ["file.updated"]}});
    let mut hank = json!({"hank": [{"id": "a", "name": "a", "agent": {"command": ["sh", "tool.sh"], "stream": "claude"}, "model": "sonnet",
        "continuationMode": "fresh", "promptText": "x", "sentinels": [{"sentinelConfig": sentinel.clone()}]}]});
    let warned = |arguments: &[&str]| {
        let shown = project
            .run([&["validate"][..], arguments].concat())
            .stdout
            .clone();
        shown
            .matches("`tool.sh` is a file of the hank, and the program looks for it in the workspace")
            .count()
    };
    project.write_hank(&hank);
    assert_eq!((warned(&[]), warned(&["-e", "elsewhere"])), (0, 2));
    // A sentinel's program counts from the folder of its file, and its arguments do not.
    let mut in_file = sentinel;
    in_file["command"] = json!(["sh", "../tool.sh"]);
    project.write("sentinels/s.json", in_file.to_string());
    hank["hank"][0]["sentinels"] = json!([{"sentinelConfig": "sentinels/s.json"}]);
    project.write_hank(&hank);
    let words = "`../tool.sh` is a file of the hank";
    let shown = project.run(["validate"]);
    assert!(shown.expect_code(0).stdout.contains(words), "{shown}");
    hank["hank"][0]["sentinels"] = json!([]);
    hank["hank"][0]["rigSetup"] = json!([{"type": "copy", "copy": {"from": "tool.sh", "to": "tool.sh"}}]);
    project.write_hank(&hank);
    assert_eq!(warned(&["-e", "elsewhere"]), 0);
}

#[test]
fn prompts_are_joined_filled_in_and_lose_their_front_matter_and_comments() {
    let project = project();
    project.write("p/one.md", "---\nname: First\ntags: [a, b]\nversion: 1.0\nauthor: me\nextra: x\n---\none <%AGENT_ROOT%>\n<!-- gone\n -->\n```\n<!-- gone -->\n```\n");
    project.write(
        "p/two.md",
        "---\nname: Second\n---\ntwo <%DATA_DIR%> <%UNKNOWN%>\n",
    );
    project.write("global.md", "global <%PROJECT_DIR%>\n");
    project.write("own.md", "own <!-- gone --><%EXECUTION_DIR%>");
    let codon = json!({"promptFile": ["p/one.md", "p/two.md"], "appendSystemPromptFile": "own.md", "description": "says"});
    write_hank(
        &project,
        &codon,
        &json!({"globalSystemPromptFile": ["global.md", "own.md"]}),
    );
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let root = project.directory().canonicalize().unwrap().display().to_string();
    let prompt = format!("one {root}\n```\n```\n\ntwo {root}/read_only_data_source <%UNKNOWN%>\n");
    assert_eq!(read(&project, "prompt.txt"), prompt);
    let system = format!("global {root}\n\nown {root}\n\nown {root}");
    assert_eq!(read(&project, "system.txt"), system);
    let started = finished
        .json_lines()
        .into_iter()
        .find(|event| event["type"] == "codon.started")
        .unwrap();
    assert_eq!(started["data"]["codonDescription"], "says");
    let metadata = json!({"name": "First", "tags": ["a", "b"], "version": "1.0", "author": "me"});
    assert_eq!(started["data"]["promptMetadata"], metadata);
}

// A required variable may come as HANKWEAVE_X, and the agent gets it as X.
// covers: HANK-4
#[test]
fn requirements_are_missed_all_at_once_and_before_anything_is_made() {
    let mut project = project();
    let top =
        json!({"requirements": {"env": [" SECRET_NAME ", "TOKEN"], "tools": ["sh", "no-such-program"]}});
    write_hank(&project, &json!({}), &top);
    project
        .set("HANKWEAVE_TOKEN", "the-servers-own")
        .set("SECRET_NAME", "");
    let refused = project.run(["run", "--headless"]);
    refused.expect_code(1);
    for words in [
        "SECRET_NAME",
        "variable TOKEN",
        "program no-such-program",
        "hint: ",
    ] {
        assert!(refused.stderr.contains(words), "{words}\n{refused}");
    }
    assert!(!refused.stderr.contains("program sh") && !project.directory().join(".hankweave").exists());

    let top = json!({"requirements": {"env": ["SECRET_NAME"], "tools": ["sh"]}, "overrides": {"model": "everywhere"}});
    write_hank(&project, &json!({"env": {"OWN": "own"}}), &top);
    project
        .set("HANKWEAVE_SECRET_NAME", "given")
        .set("GONE", "here")
        .set("HANKWEAVE_GONE", "unset");
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(read(&project, "given.txt"), "everywhere given removed own");
}

// covers: HANK-57
#[test]
fn a_model_of_any_layer_replaces_that_of_every_codon() {
    let project = project();
    let model_of = |more: &[&str]| {
        let run = ["run", "--headless", "--new"];
        project.run(run.iter().chain(more)).expect_code(0);
        let given = read(&project, "given.txt");
        given.split_once(' ').map(|(model, _)| model.to_owned())
    };
    write_hank(&project, &json!({}), &json!({}));
    assert_eq!(model_of(&[]).as_deref(), Some("shell"));
    project.write("hankweave.json", r#"{"model": "file"}"#);
    assert_eq!(model_of(&[]).as_deref(), Some("file"));
    write_hank(
        &project,
        &json!({}),
        &json!({"overrides": {"model": "everywhere"}}),
    );
    assert_eq!(model_of(&[]).as_deref(), Some("everywhere"));
    assert_eq!(model_of(&["--model", "flag"]).as_deref(), Some("flag"));
}

// covers: RUN-8
#[test]
fn data_is_linked_and_a_run_goes_on_with_the_data_that_it_began_with() {
    let project = project();
    write_hank(
        &project,
        &json!({"checkpointedFiles": ["**/*"]}),
        &json!({"overrides": {"dataHashTimeLimit": 60000}}),
    );
    let data = project.home().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("a.csv"), "1").unwrap();
    let run = |more: &[&str]| project.run(["run", "--headless"].iter().chain(more));
    let data = data.to_str().unwrap();
    run(&["--data", data]).expect_code(0);
    assert!(read(&project, "data.txt").contains("a.csv"));
    let state = project.state(&project.directory());
    let sha = state["runs"][0]["codons"][0]["completionCheckpoint"]
        .as_str()
        .unwrap();
    let listed = project.checkpoints_git(&project.directory(), &["ls-tree", "-r", "--name-only", sha]);
    assert!(
        listed.stdout.contains("prompt.txt") && !listed.stdout.contains("read_only_data_source"),
        "{listed}"
    );

    run(&["--data", data]).expect_code(0);
    run(&[]).expect_code(0);
    fs::write(project.home().join("data/b.csv"), "2").unwrap();
    for changed in [data, project.home().join("data/b.csv").to_str().unwrap()] {
        let refused = run(&["--data", changed]);
        refused.expect_code(65);
        assert!(refused.stderr.contains("--new"), "{refused}");
    }
    run(&[
        "--new",
        "--data",
        project.home().join("data/b.csv").to_str().unwrap(),
    ])
    .expect_code(0);
    assert!(read(&project, "data.txt").contains("b.csv"));
    assert_eq!(read(&project, "read_only_data_source/b.csv"), "2");
}

#[test]
fn data_that_cannot_be_linked_is_refused_with_a_hint() {
    let project = project();
    write_hank(&project, &json!({}), &json!({}));
    project.write("inside/x", "");
    let root = project.directory();
    let refused = |arguments: &[&str]| {
        let refused = project.run(["run", "--headless"].iter().chain(arguments));
        refused.expect_code(65);
        assert!(refused.stderr.contains("hint: "), "{refused}");
        refused.stderr
    };
    assert!(refused(&["--data", "nowhere"]).contains("nowhere"));
    assert!(refused(&["--data", "."]).contains("is the execution directory"));
    assert!(refused(&["--data", "..", "-e", "new/deep"]).contains("holds the execution directory"));
    assert!(refused(&["--data", "/dev/null"]).contains("neither a file nor a folder"));
    assert!(
        !root.join(".hankweave").exists() && !root.join("new").exists(),
        "nothing was made"
    );
    project.write("read_only_data_source", "mine");
    assert!(refused(&["--data", "inside"]).contains("is not ours"));
    assert_eq!(read(&project, "read_only_data_source"), "mine");
}

// covers: HANK-15
#[test]
fn a_copy_leaves_out_what_the_hank_ignores_and_says_so() {
    let project = project();
    // The second run copies again, and what the first one had copied is not to be seen.
    let rig = json!([{"type": "copy", "copy": {"from": "./tpl", "to": "made"}, "replace": true}]);
    write_hank(&project, &json!({"rigSetup": rig}), &json!({}));
    for path in [
        "tpl/a.txt",
        "tpl/sub/x.log",
        "tpl/node_modules/m.js",
        "tpl/sub/b.tmp",
    ] {
        project.write(path, "x");
    }
    for (rules, left_out, made) in [
        (None, ["tpl/node_modules", "tpl/sub/x.log"], "made/sub/b.tmp"),
        (
            Some("*.tmp\n/tpl/a.txt\n"),
            ["tpl/a.txt", "tpl/sub/b.tmp"],
            "made/sub/x.log",
        ),
    ] {
        if let Some(rules) = rules {
            project.write(".gitignore", rules);
        }
        let checked = project.run(["validate"]);
        checked.expect_code(0);
        let finished = project.run(["run", "--headless", "--new"]);
        finished.expect_code(0);
        for path in left_out {
            let inner = path.strip_prefix("tpl/").unwrap();
            assert!(
                checked.stdout.contains(&format!("leaves `{inner}` out")),
                "{checked}"
            );
            assert!(finished.stdout.contains(path), "{finished}");
            assert!(
                !project.directory().join(path.replacen("tpl", "made", 1)).exists(),
                "{path}"
            );
        }
        assert!(project.directory().join(made).exists(), "{made}");
    }
}
