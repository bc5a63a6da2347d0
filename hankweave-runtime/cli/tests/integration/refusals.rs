//! Every refusal says what to type instead (CLI-3).

use std::fs;

use serde_json::json;

use crate::support::{project, shell_agent};

// covers: CLI-3
#[test]
fn refusals_name_the_command_that_works_also_from_another_folder() {
    let project = project();
    let agent = shell_agent(&project);
    let one = json!({"id": "one", "name": "one", "agent": agent, "model": "shell", "continuationMode": "fresh",
        "promptText": "one", "checkpointedFiles": ["*.txt"]});
    let looped = json!({"type": "loop", "id": "rounds", "name": "rounds",
        "terminateOn": {"type": "iterationLimit", "limit": 2},
        "codons": [{"id": "again", "name": "again", "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "again"}]});
    project.write_hank(&json!({"hank": [one, looped]}));
    let work = "it's work";
    for (arguments, code, hints) in [
        (vec!["status"], 65, vec!["-e DIR", "`hankweave run`"]),
        (vec!["run", "nowhere"], 65, vec!["hankweave init nowhere"]),
        (vec!["run", "--max-cost", "-1"], 2, vec!["such as 2.50"]),
    ] {
        let refused = project.run(arguments);
        refused.expect_code(code);
        assert!(
            hints.iter().all(|hint| refused.stderr.contains(hint)),
            "{hints:?}\n{refused}"
        );
    }
    project.run(["run", "--headless", "-e", work]).expect_code(0);
    let (here, there) = (r"-e 'it'\''s work'", r"'it'\''s work'");
    for (arguments, hints) in [
        (
            vec!["rollback", "--codon", "again#7"],
            vec!["again#0", "again#1", "hankweave history "],
        ),
        (
            vec!["rollback", "--codon", "one", "--at", "rig-setup"],
            vec!["it has --at completed", "hankweave history "],
        ),
        (
            vec!["rollback", "--to", "000000000000"],
            vec!["hankweave checkpoints "],
        ),
        (vec!["checkpoints", "show", "zz"], vec!["`hankweave checkpoints"]),
    ] {
        let refused = project.run(arguments.iter().chain(&["-e", work]));
        refused.expect_code(65);
        assert!(
            hints.iter().all(|hint| refused.stderr.contains(hint)),
            "{hints:?}\n{refused}"
        );
        let is_rollback = arguments[0] == "rollback";
        assert!(!is_rollback || refused.stderr.contains(here), "{refused}");
    }
    let empty = project.run(["thread", "-e", work, "--run", "nobody"]);
    empty.expect_code(0);
    assert!(
        empty.stderr.contains("no run `nobody` is recorded")
            && empty.stderr.contains("hankweave history --all ")
    );

    let back = project.run(["rollback", "-e", work, "--codon", "one"]);
    assert!(
        back.stdout
            .contains(&format!("`hankweave run {there}` continues there")),
        "{back}"
    );
    let status = project.run(["status", "-e", work]).stdout;
    for command in [
        format!("hankweave run {there} --new"),
        format!("hankweave history {here}"),
    ] {
        assert!(status.contains(&command), "{command}\n{status}");
    }
    // Where nothing is remembered, the hank is the one in the directory.
    fs::copy(
        project.directory().join("hank.json"),
        project.directory().join(work).join("hank.json"),
    )
    .unwrap();
    fs::remove_file(
        project
            .directory()
            .join(work)
            .join(".hankweave/execution-meta.json"),
    )
    .unwrap();
    let status = project.run(["status", "-e", work]).stdout;
    assert!(status.contains(&format!("hankweave run {there}  ")), "{status}");
}

// What follows the end of a codon and is not done is seen, with the way to do it.
// covers: HANK-26
#[test]
fn results_that_were_not_handed_out_are_seen_in_the_status() {
    let project = project();
    let agent = shell_agent(&project);
    let groups = json!([{"copy": ["done.txt"], "beforeCopy": [{"type": "command", "command": {"run": "test -e ready"}}]}]);
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": "one", "outputFiles": groups}]}),
    );
    project.run(["run", "--headless", "-o", "out"]).expect_code(1);
    let said = "what follows the end of one is not done";
    let status = project.run(["status"]).stdout;
    assert!(
        status.contains(said) && status.contains("finishes that"),
        "{status}"
    );
    assert_eq!(
        project.run(["status", "--json"]).json_document()["unfinishedCodonId"],
        "one"
    );
    project.write("ready", "");
    project.run(["run", "--headless", "-o", "out"]).expect_code(0);
    assert!(!project.run(["status"]).stdout.contains(said));
}

// covers: HANK-1
#[test]
fn a_system_prompt_that_no_variable_holds_is_refused_before_a_run() {
    let project = project();
    let long = json!({"id": "a", "name": "A", "agent": shell_agent(&project), "model": "shell", "continuationMode": "fresh",
        "promptText": "go", "appendSystemPromptFile": "long.md"});
    project.write("long.md", "x".repeat(200_000));
    project.write_hank(&json!({"hank": [long]}));
    for command in [&["validate"][..], &["run", "--headless"]] {
        let refused = project.run(command);
        let text = format!("{refused}");
        assert_ne!(refused.code, Some(0), "{text}");
        assert!(
            text.contains("its system prompt has 200000 bytes; a program of one's own gets at most 131008, in one variable"),
            "{text}"
        );
    }
}
