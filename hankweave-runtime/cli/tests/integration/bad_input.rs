//! Every mistake gets the right exit code, a message that says where and what next, and leaves no trace.

use hankweave_testing::{Finished, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

fn good_codon(id: &str) -> Value {
    json!({"id": id, "name": id, "agent": "scripted", "continuationMode": "fresh", "promptText": "hello"})
}

/// Runs the program on a project that `prepare` has made, and checks that it only printed messages.
#[track_caller]
fn check(
    prepare: impl FnOnce(&mut TestProject),
    arguments: &[&str],
    code: i32,
    fragments: &[&str],
) -> Finished {
    let mut project = project();
    prepare(&mut project);
    let before = project.files();
    let finished = project.run(arguments);
    finished.expect_code(code);
    for fragment in fragments {
        assert!(finished.stderr.contains(fragment), "no `{fragment}`\n{finished}");
    }
    assert_eq!(finished.stdout, "", "messages go to standard error");
    assert!(!finished.stderr.contains("panicked"), "{finished}");
    assert_eq!(project.files(), before, "nothing was written");
    finished
}

#[track_caller]
fn check_hank(hank: &Value, fragments: &[&str]) {
    check(
        |project| drop(project.write_hank(hank)),
        &["run", "--headless"],
        65,
        fragments,
    );
}

// covers: CLI-3
#[test]
fn a_missing_hank_is_named_with_a_next_step() {
    check(
        |_| {},
        &["run", "--headless"],
        65,
        &["hank.json", "hint", "hankweave init"],
    );
    check(|_| {}, &["run", "nowhere.json"], 65, &["nowhere.json", "hint"]);
    // Where a hank from elsewhere has worked, a new one would be in its way.
    let project = project();
    project.write("my/hank.json", json!({"hank": [good_codon("a")]}).to_string());
    project.run(["run", "my", "-e", "work", "--headless"]);
    let refused = project.run(["validate", "work"]);
    refused.expect_code(65);
    let hint = "its last run was of my: `hankweave run work` continues that run";
    assert!(refused.stderr.contains(hint), "{refused}");
}

#[test]
fn a_hank_that_is_not_json_is_refused_with_its_line() {
    let broken = |project: &mut TestProject| drop(project.write("hank.json", "{\n  \"hank\": [\n    oops\n"));
    check(broken, &["run", "--headless"], 65, &["hank.json:3:5"]);
    let empty = |project: &mut TestProject| drop(project.write("hank.json", ""));
    check(empty, &["run", "--headless"], 65, &["hank.json:1:1"]);
    let bytes = |project: &mut TestProject| drop(project.write("hank.json", [0xff, 0xfe, 0x00]));
    check(bytes, &["run", "--headless"], 65, &["hank.json"]);
}

#[test]
fn a_wrong_type_is_found_three_levels_deep() {
    let mut codon = good_codon("one");
    codon["rigSetup"] = json!([{"type": "copy", "copy": {"from": "a", "to": 5}}]);
    check_hank(
        &json!({"hank": [codon]}),
        &["hank.json:", "hank[0].rigSetup[0].copy.to", "number"],
    );
}

#[test]
fn an_id_is_used_once() {
    check_hank(
        &json!({"hank": [good_codon("same"), good_codon("same")]}),
        &["hank[1].id", "same"],
    );
    let in_loop = json!({"type": "loop", "id": "l", "name": "l", "codons": [good_codon("same")],
        "terminateOn": {"type": "iterationLimit", "limit": 2}});
    check_hank(
        &json!({"hank": [good_codon("same"), in_loop]}),
        &["hank[1].codons[0].id", "same"],
    );
}

// covers: F17
#[test]
fn an_id_with_a_hash_or_a_slash_is_refused() {
    for id in ["review#0", "../up", "a/b", ""] {
        check_hank(&json!({"hank": [good_codon(id)]}), &["hank[0].id"]);
    }
}

// covers: F17
#[test]
fn a_prompt_file_must_be_there_and_inside_the_hank() {
    let with_prompt = |file: &str| {
        let mut codon = good_codon("one");
        codon.as_object_mut().unwrap().shift_remove("promptText");
        codon["promptFile"] = json!(file);
        json!({"hank": [codon]})
    };
    check_hank(
        &with_prompt("prompts/none.md"),
        &["hank[0].promptFile", "prompts/none.md"],
    );
    check_hank(
        &with_prompt("../secret.md"),
        &["hank[0].promptFile", "folder of the hank"],
    );
    check_hank(&with_prompt("/etc/hostname"), &["hank[0].promptFile"]);
}

// covers: CLI-1, X4
#[test]
fn a_pattern_that_leads_out_of_the_workspace_is_refused() {
    for pattern in ["../x", "/etc/*", "a/../../b"] {
        let mut codon = good_codon("one");
        codon["checkpointedFiles"] = json!([pattern]);
        check_hank(&json!({"hank": [codon]}), &["hank[0].checkpointedFiles[0]"]);
    }
}

#[test]
fn several_mistakes_are_told_at_once() {
    let mut codon = good_codon("a b");
    codon["continuationMode"] = json!("sometimes");
    codon["promtFile"] = json!("x.md");
    check_hank(
        &json!({"hank": [codon]}),
        &[
            "hank[0].id",
            "hank[0].continuationMode",
            "promtFile",
            "promptFile",
        ],
    );
}

#[test]
fn an_agent_program_that_is_not_there_is_named() {
    let prepare = |project: &mut TestProject| {
        let mut codon = good_codon("one");
        codon["agent"] = json!("claude");
        codon["model"] = json!("claude-sonnet-4-5");
        project.write_hank(&json!({"hank": [codon]}));
        project.set("PATH", "/nowhere");
    };
    check(
        prepare,
        &["run", "--headless"],
        1,
        &["claude", "PATH", "HANKWEAVE_CLAUDE_PATH", "hint"],
    );
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let prepare = |project: &mut TestProject| {
        project.write("a-file", "not a folder");
        project.write_hank(&json!({"hank": [good_codon("one")]}));
    };
    check(
        prepare,
        &["run", "--headless", "-e", "a-file/execution"],
        74,
        &["a-file/execution"],
    );
}

#[test]
fn a_second_instance_is_refused_and_the_first_one_goes_on() {
    let project = project();
    let mut codon = good_codon("one");
    codon["agent"] = shell_agent(&project);
    codon["model"] = json!("shell");
    codon["promptText"] = json!("wait for go");
    project.write_hank(&json!({"hank": [codon]}));
    let mut first = project.start(["run", "--headless", "--json"]);
    first.wait_for_line(|line| line.contains("codon.started"));

    let second = project.run(["run", "--headless"]);
    second.expect_code(75);
    assert!(
        second.stderr.contains(&first.pid().to_string()),
        "the holder's pid is named\n{second}"
    );

    first.signal(Signal::TERM);
    first
        .finish_within(std::time::Duration::from_secs(30))
        .expect_code(143);
    let state = project.state(&project.directory());
    assert_eq!(
        state["runs"].as_array().map(Vec::len),
        Some(1),
        "the second instance has left no run"
    );
}

#[test]
fn a_script_that_cannot_be_read_is_explained() {
    let finished = project().run(["scripted-agent", "--script", "/nowhere.json"]);
    finished.expect_code(2);
    assert!(
        finished
            .stderr
            .contains("failed to read the script `/nowhere.json`"),
        "{finished}"
    );
}

/// Mistakes in a list are named by the positions of its items, also where an item before them is none.
// covers: HANK-1
#[test]
fn no_mistake_is_named_at_the_place_of_another_item() {
    let project = project();
    let codon = json!({"id": "a", "name": "a", "model": "sonnet", "continuationMode": "fresh", "promptText": "x",
        "rigSetup": [1, {"type": "copy", "copy": {"from": "no.txt", "to": "x"}}],
        "sentinels": [1, {"sentinelConfig": "no.json"}]});
    project.write_hank(&json!({"hank": [codon]}));
    let refused = project.run(["validate"]).expect_code(1).stdout.clone();
    for place in ["hank[0].rigSetup[0]:", "hank[0].sentinels[0]:"] {
        assert!(refused.contains(&place.replace(':', "")), "{refused}");
    }
    for wrong in ["rigSetup[0].copy", "sentinels[0].sentinelConfig"] {
        assert!(!refused.contains(wrong), "{refused}");
    }
}

// covers: HANK-93
#[test]
fn variables_that_nothing_fills_in_are_named() {
    let project = project();
    let mut codon = good_codon("a");
    codon["promptText"] = json!("Read <%DATA_DIR%> and <% DATA_DIR %>");
    codon["rigSetup"] = json!([{"type": "command", "command": {"run": "ls '<%DATA_DIR%>' || true"}}]);
    codon["check"] = json!({"run": "echo '<%results.a.x%> <%= erb %>'"});
    codon["outputFiles"] = json!([{"copy": ["*.md", "note-${HANKWEAVE_ITERATION}.md"]}]);
    codon["archiveOnSuccess"] = json!(["<%ITERATION%>/**"]);
    project.write_hank(&json!({"hank": [codon]}));
    let shown = project.run(["validate"]).expect_code(0).stdout.clone();
    for words in [
        "`<% DATA_DIR %>` is no variable",
        "`<%DATA_DIR%>` stands for something in prompts alone",
        "the data of a run is in `read_only_data_source`",
        "`<%results.a.x%>` stands for something in prompts alone",
        "outputFiles[0].copy[1] (codon \"a\"): `${` is a part of the name: a pattern has no variables",
        "archiveOnSuccess[0] (codon \"a\"): `<%` is a part of the name",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(
        !shown.contains("`<%= erb %>`"),
        "a template of another program: {shown}"
    );

    let no_data = "a prompt names <%DATA_DIR%>, and this run has no data: `--data FOLDER` names it";
    let run = project.run(["run", "--headless"]);
    assert!(
        run.stdout.contains(no_data) || run.stderr.contains(no_data),
        "{run}"
    );
    project.write("letters/one.txt", "hello");
    let run = project.run(["run", "--headless", "--new", "--data", "letters"]);
    assert!(
        !run.stdout.contains(no_data) && !run.stderr.contains(no_data),
        "{run}"
    );
}
