//! Hanks of `init`: templates, copies of other hanks, and what an editor needs of them.

use std::fs;
use std::path::Path;

use hankweave_testing::{TestProject, clients};
use serde_json::{Value, json};

use crate::support::project;

/// Templates, with the files that an agent would have written and without which their checks do not pass.
const TEMPLATES: [(&str, &[(&str, &str)]); 8] = [
    ("scripted", &[]),
    ("claude", &[]),
    ("until-green", &[]),
    ("docs", &[]),
    ("extract", &[("out/records.jsonl", "{\"source\": \"a.txt\"}\n")]),
    ("migrate", &[("migration/plan.md", "- [x] one\n")]),
    ("review", &[]),
    ("night", &[]),
];

/// A project with the template in `hank`, a `make` whose tests pass, and a workspace in which the agent's files are.
fn stage(template: &str, written: &[(&str, &str)]) -> TestProject {
    let mut project = project();
    project.write("bin/make", "#!/bin/sh\nexit 0\n");
    let tool = project.directory().join("bin/make");
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    project.set(
        "PATH",
        format!("{}:{path}", project.directory().join("bin").display()),
    );
    project
        .run(["init", "hank", "--template", template])
        .expect_code(0);
    for (path, content) in written {
        project.write(&format!("work/{path}"), content);
    }
    project
}

// covers: CLI-18
#[test]
fn every_template_is_valid_without_a_warning_and_runs_to_its_end() {
    let help = project().run(["init", "--help"]);
    for (template, written) in TEMPLATES {
        assert!(
            help.stdout.contains(&format!("- {template}:")),
            "{template}\n{help}"
        );
        let project = stage(template, written);
        if template == "night" {
            project.write("work/TODO.md", "- [x] one\n- [!] two: no tests\n");
        }
        let arguments = ["hank", "--agent", "scripted", "-e", "work"];
        let validated = project.run(["validate", "--json"].iter().chain(&arguments));
        let document = validated.expect_code(0).json_document();
        assert_eq!(
            (&document["errors"], &document["warnings"]),
            (&json!([]), &json!([])),
            "{template}"
        );
        let run = || project.run(["run", "--headless"].iter().chain(&arguments));
        let mut ended = run();
        let asks = fs::read_to_string(project.directory().join("hank/hank.json")).unwrap();
        if asks.contains("\"approval\"") {
            ended.expect_code(3);
            project.run(["approve", "work"]).expect_code(0);
            ended = run();
        }
        ended.expect_code(0);
        let state = project.state(&project.directory().join("work"));
        let runs = state["runs"].as_array().unwrap();
        assert!(
            runs.iter().any(|run| run["status"] == "completed"),
            "{template} {runs:#?}"
        );
    }
    let listed = help
        .stdout
        .lines()
        .filter(|line| line.trim_start().starts_with("- "))
        .count();
    assert_eq!(
        listed,
        TEMPLATES.len(),
        "each template of the help is run here\n{help}"
    );
}

// covers: CLI-18
#[test]
fn a_template_whose_work_was_not_done_does_not_count_as_complete() {
    for (template, written) in [
        (
            "extract",
            ("out/records.jsonl", "{\"source\": \"a.txt\"}\nnone\n"),
        ),
        ("migrate", ("migration/plan.md", "- [x] one\n- [ ] two\n")),
        ("night", ("TODO.md", "- [x] one\n- [ ] two\n")),
    ] {
        let project = stage(template, &[written]);
        let run = || project.run(["run", "hank", "--headless", "--agent", "scripted", "-e", "work"]);
        let mut ended = run();
        if template == "migrate" {
            project.run(["approve", "work"]).expect_code(0);
            ended = run();
        }
        // A loop whose work stays undone is stuck, and waits for a person.
        ended.expect_code(if template == "extract" { 1 } else { 3 });
    }
}

// covers: CLI-18
#[test]
fn init_writes_the_schema_that_the_hank_names_and_schema_renews_it() {
    let project = project();
    project.run(["init", "mine"]).expect_code(0);
    let file = project.directory().join("mine/hank.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(schema, project.run(["schema", "hank"]).json_document());
    assert_eq!(schema["allowComments"], true);
    let hank = fs::read_to_string(project.directory().join("mine/hank.json")).unwrap();
    assert!(hank.contains("\"$schema\": \"./hank.schema.json\""), "{hank}");
    fs::write(&file, "old").unwrap();
    let renewed = project.run(["schema", "hank", "-o", "mine/hank.schema.json"]);
    assert_eq!(renewed.expect_code(0).stdout, "");
    assert_eq!(
        serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap(),
        schema
    );
    let nowhere = project.run(["schema", "hank", "-o", "no/such/folder.json"]);
    assert!(
        nowhere.expect_code(74).stderr.contains("no/such/folder.json"),
        "{nowhere}"
    );
}

// covers: CLI-18
#[test]
fn an_editor_completes_and_checks_the_hank_of_init() {
    for template in ["scripted", "until-green"] {
        let mut editor = match clients::json_language() {
            Ok(editor) => editor,
            Err(skip) => return println!("{skip}"),
        };
        let project = project();
        project
            .run(["init", "hank", "--template", template])
            .expect_code(0);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/clients/json_language.js");
        let answer = editor
            .arg(script)
            .arg(project.directory().join("hank/hank.json"))
            .output()
            .unwrap();
        assert!(answer.status.success(), "{answer:?}");
        let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
        assert_eq!(
            answer["messages"],
            json!([]),
            "comments of the template are allowed"
        );
        let misspelt = answer["misspelt"].to_string();
        assert!(misspelt.contains("continuationMod is not allowed"), "{answer}");
        assert!(
            answer["offered"].as_array().unwrap().contains(&json!("check")),
            "{answer}"
        );
    }
}

// covers: CLI-18
#[test]
fn init_from_copies_a_hank_without_its_runs() {
    let project = project();
    project.run(["init", "team"]).expect_code(0);
    project.run(["run", "team", "--headless"]).expect_code(0);
    project.write("team/.git/config", "[core]\n");
    project.write("team/node_modules/a.js", "");
    project.write("team/sentinels/guard.json", "{}");
    project.run(["init", "mine", "--from", "team"]).expect_code(0);
    let listed = |folder: &str| {
        let files = project.files().into_iter();
        let inside = files.filter_map(|path| {
            Some(
                path.strip_prefix("project")
                    .ok()?
                    .strip_prefix(folder)
                    .ok()?
                    .to_owned(),
            )
        });
        inside.map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    let mine = listed("mine");
    for wanted in [
        "hank.json",
        "hank.schema.json",
        "prompts/draft.md",
        "sentinels/guard.json",
    ] {
        assert!(mine.iter().any(|path| path == wanted), "{wanted} {mine:?}");
    }
    let left = mine.iter().filter(|path| {
        [".hankweave", ".git", "node_modules"]
            .iter()
            .any(|part| path.split('/').next() == Some(part))
    });
    assert_eq!(left.count(), 0, "{mine:?}");
    project.run(["run", "mine", "--headless"]).expect_code(0);

    // Nothing is written over, and no hank with mistakes is copied.
    let again = project.run(["init", "mine", "--from", "team"]);
    assert!(
        again.expect_code(65).stderr.contains("already holds hank.json"),
        "{again}"
    );
    let nothing = project.run(["init", "new", "--from", "team/prompts"]);
    assert!(
        nothing.expect_code(65).stderr.contains("no hank.json"),
        "{nothing}"
    );
    project.write("team/hank.json", "{\"hank\": []}");
    project.run(["init", "new", "--from", "team"]).expect_code(65);
    assert!(!project.directory().join("new").exists());
}

// covers: CLI-18
#[test]
fn init_from_refuses_a_link_and_writes_nothing() {
    let project = project();
    project.run(["init", "team"]).expect_code(0);
    std::os::unix::fs::symlink("/etc/hostname", project.directory().join("team/secret")).unwrap();
    let refused = project.run(["init", "mine", "--from", "team"]);
    assert!(
        refused.expect_code(65).stderr.contains("team/secret"),
        "{refused}"
    );
    assert!(!project.directory().join("mine").exists());
}

// covers: HANK-70
#[test]
fn a_hank_jsonc_is_a_hank_everywhere_and_two_are_an_error() {
    let project = project();
    project.run(["init", "mine"]).expect_code(0);
    let path = |name: &str| project.directory().join("mine").join(name);
    fs::rename(path("hank.json"), path("hank.jsonc")).unwrap();
    project.run(["validate", "mine"]).expect_code(0);
    project.run(["config", "mine"]).expect_code(0);
    project.run(["doctor", "mine"]).expect_code(0);
    project.run(["run", "mine", "--headless"]).expect_code(0);
    let status = project.run(["status", "mine"]);
    status.expect_code(0);
    assert!(
        !format!("{status}").contains("hank.jsonc"),
        "the folder is enough in hints\n{status}"
    );
    let taken = project.run(["init", "mine"]);
    assert!(
        taken.expect_code(65).stderr.contains("already holds hank.jsonc"),
        "{taken}"
    );

    fs::copy(path("hank.jsonc"), path("hank.json")).unwrap();
    for command in ["validate", "run", "config", "doctor"] {
        let refused = project.run([command, "mine"]);
        refused.expect_code(65);
        assert!(
            refused.stderr.contains("holds both hank.json and hank.jsonc"),
            "{refused}"
        );
        assert!(refused.stderr.contains("hint: name the file"), "{refused}");
    }
    project.run(["validate", "mine/hank.jsonc"]).expect_code(0);
}
