//! Rehearsals: a hank runs without agents, and nothing of it counts (CLI-74). Its scripts are checked first (HANK-74).

use std::fs;
use std::path::{Path, PathBuf};

use hankweave_testing::{Finished, TestProject};
use serde_json::{Value, json};

use crate::support::{assert_usd, project};
use crate::terminal::Terminal;

const MODEL: &str = "claude-sonnet-4-5";

fn codon(id: &str, more: Value) -> Value {
    let mut codon =
        json!({"id": id, "name": id, "model": MODEL, "continuationMode": "fresh", "promptText": "go"});
    let fields = codon.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    codon
}

/// A command that leaves a file in the home folder.
fn leaves(project: &TestProject, name: &str) -> String {
    format!("touch {}", project.home().join(name).display())
}

// covers: CLI-74
#[test]
fn options_of_agents_fallbacks_and_results_have_a_line_for_each_codon() {
    let project = project();
    let options = json!({"effort": "high", "permissions": {"mode": "read-only", "deny": ["WebSearch"]}, "isolate": true,
        "fallback": ["claude-haiku-4-5", "wait"], "result": {"schema": {"type": "object"}}});
    project.write_hank(&json!({"overrides": {"permissions": "edit"}, "hank": [codon("one", options), codon("two", json!({}))]}));
    let finished = project.run(["run", "--rehearse", "--headless", "--json"]);
    finished.expect_code(0);
    let steps = steps(&finished);
    for step in [
        json!([
            "one",
            "set",
            "permissions read-only without WebSearch, effort high, isolate"
        ]),
        json!(["two", "set", "permissions edit"]),
    ] {
        assert!(steps.contains(&step), "{step}: {steps:#?}");
    }
    let told = project.run(["run", "--rehearse", "--headless"]);
    for words in [
        "one  would set: permissions read-only without WebSearch, effort high, isolate",
        "two  would set: permissions edit",
        "one  would fall back to: claude-haiku-4-5, then a wait",
        "one  would require: an answer that fits the schema",
    ] {
        assert!(told.stderr.contains(words), "{words}: {told}");
    }
    // The scripted agent replaces the real ones in a run as well.
    project
        .run(["run", "--agent", "scripted", "--headless"])
        .expect_code(0);
}

/// Copies that rehearsals have left.
fn copies(project: &TestProject) -> Vec<PathBuf> {
    let scratch = project.home().with_file_name("tmp");
    let entries = fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().path());
    let is_copy = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("hankweave-rehearsal-")
    };
    entries.filter(is_copy).collect()
}

fn only_copy(project: &TestProject) -> PathBuf {
    let mut copies = copies(project);
    assert_eq!(copies.len(), 1, "{copies:?}");
    copies.remove(0)
}

/// Steps that a rehearsal has left out, as its events have them.
fn steps(finished: &Finished) -> Vec<Value> {
    let lines = finished.json_lines();
    let steps = lines.iter().filter(|line| line["type"] == "rehearsal.step");
    let step = |line: &Value| {
        json!([
            line["data"]["codonId"],
            line["data"]["kind"],
            line["data"]["text"]
        ])
    };
    steps.map(step).collect()
}

/// A hank with everything at which a run without agents and people would stop.
fn gated(project: &TestProject) -> Value {
    let run = |name: &str| leaves(project, name);
    let sentinel = json!({"id": "guard", "name": "Guard", "trigger": {"type": "event", "on": ["file.updated"]},
        "execution": {"strategy": "immediate"}, "command": ["sh", "-c", run("watched")]});
    let rig = format!(
        "test -f data.txt && echo ${{HANKWEAVE_REHEARSAL:-0}} >> {}",
        project.home().join("rig").display()
    );
    json!({
        "overrides": {"budget": {"maxDollars": 5, "maxTimeSeconds": 3600}},
        "hank": [
            codon("plan", json!({"check": {"run": format!("{} && false", run("checked"))}, "budget": {"maxDollars": 1},
                "rigSetup": [{"type": "copy", "copy": {"from": "notes", "to": "copied"}}, {"type": "command", "command": {"run": rig}}],
                "sentinels": [{"sentinelConfig": sentinel, "settings": {"failCodonIfNotLoaded": true}}]})),
            {"type": "loop", "id": "green", "name": "Green", "terminateOn": {"type": "untilCheckPasses", "run": format!("{} && false", run("looped")), "limit": 5},
                "budget": {"maxDollars": 2},
                "codons": [
                    codon("fix", json!({"check": {"run": run("inner")}, "approval": true})),
                    codon("tidy", json!({"continuationMode": "continue-previous", "exhaustWithPrompt": "more?", "maxExtensions": 7})),
                ]},
            {"type": "loop", "id": "many", "name": "Many", "terminateOn": {"type": "iterationLimit", "limit": 100_000},
                "codons": [codon("step", json!({"approval": "Another step?"}))]},
            {"type": "loop", "id": "full", "name": "Full", "terminateOn": {"type": "contextExceeded"},
                "codons": [codon("round", json!({"continuationMode": "continue-previous"}))]},
            codon("deploy", json!({"model": "gpt-5", "requires": ["plan.md"], "approval": "Deploy to production?",
                "outputFiles": [{"copy": ["copied/**"], "beforeCopy": [{"type": "command", "command": {"run": run("before")}}]}]})),
        ]
    })
}

fn write_gated(project: &TestProject) {
    project.write("notes/a.md", "a");
    project.write("data.txt", "data");
    project.write_hank(&gated(project));
}

// covers: CLI-74
#[test]
fn checks_would_run_approvals_are_given_and_each_loop_makes_one_pass() {
    let project = project();
    write_gated(&project);
    let files = || -> Vec<PathBuf> {
        project
            .files()
            .into_iter()
            .filter(|file| file.starts_with("project"))
            .collect()
    };
    let before = files();
    let rehearsed = project.run(["run", "--rehearse", "--headless", "--output", "results"]);
    let Finished { stdout, stderr, .. } = rehearsed.expect_code(0);
    for line in [
        "plan: would watch: guard, on file.updated; at once\n",
        "fix#0: one pass of at most 5\n",
        "fix#0: would ask: may fix#0 begin?\n",
        "tidy#0: would continue at most 7 times with: more?\n",
        "step#0: one pass of 100000\n",
        "step#0: would ask: Another step?\n",
        "round#0: one pass of as many as the context allows\n",
        "deploy: would ask: Deploy to production?\n",
        "deploy: would require: changes of plan.md\n",
        "deploy: would copy: copied/** to results\n",
    ] {
        assert!(stdout.contains(line), "{line}{rehearsed}");
    }
    for name in ["checked", "looped", "inner", "before"] {
        assert_eq!(
            stdout
                .matches(&format!("would run: {}", leaves(&project, name)))
                .count(),
            1,
            "{name}\n{rehearsed}"
        );
    }
    for words in [
        "note: a rehearsal, in the copy ",
        "\nRehearsed: 6 of 6 codons completed; nothing was asked, checked or spent.\n",
        "\nRehearsed instead of done:\n",
        "  deploy   would ask: Deploy to production?\n",
        "  run it       hankweave run --output results\n",
    ] {
        assert!(stderr.contains(words), "{words}\n{rehearsed}");
    }
    assert!(
        !format!("{stdout}{stderr}").contains("check passed"),
        "no check has run: {rehearsed}"
    );
    // Only the rig has run, and it knew.
    assert_eq!(fs::read_to_string(project.home().join("rig")).unwrap(), "1\n");
    for name in ["checked", "looped", "inner", "before", "watched"] {
        assert!(!project.home().join(name).exists(), "{name}");
    }
    assert_eq!(files(), before, "nothing is left where runs work");
    assert!(copies(&project).is_empty());
    project.run(["status"]).expect_code(65);
}

// covers: CLI-74, WIRE-41
#[test]
fn events_say_that_it_is_a_rehearsal_and_what_is_left_out() {
    let project = project();
    write_gated(&project);
    let rehearsed = project.run(["run", "--rehearse", "--json"]);
    rehearsed.expect_code(0);
    let lines = rehearsed.json_lines();
    let of = |kind: &str| {
        lines
            .iter()
            .filter(|line| line["type"] == kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("run.described")[0]["data"]["rehearsal"], true);
    assert!(of("approval.requested").is_empty() && of("check.completed").is_empty());
    let run = |name: &str, rest: &str| format!("{}{rest}", leaves(&project, name));
    assert_eq!(
        steps(&rehearsed),
        [
            json!(["plan", "watch", "guard, on file.updated; at once"]),
            json!(["plan", "run", run("checked", " && false")]),
            json!(["fix#0", "repeat", "at most 5"]),
            json!(["fix#0", "ask", "may fix#0 begin?"]),
            json!(["fix#0", "run", run("inner", "")]),
            json!(["tidy#0", "extend", "at most 7 times with: more?"]),
            json!(["tidy#0", "run", run("looped", " && false")]),
            json!(["step#0", "repeat", "100000"]),
            json!(["step#0", "ask", "Another step?"]),
            json!(["round#0", "repeat", "as many as the context allows"]),
            json!(["deploy", "ask", "Deploy to production?"]),
            json!(["deploy", "require", "changes of plan.md"]),
        ],
        "without --output nothing would be copied"
    );
    // A real run reports nothing of this.
    project.write_hank(&json!({"hank": [codon("a", json!({"model": "scripted"}))]}));
    let real = project.run(["run", "--json"]);
    let lines = real.expect_code(0).json_lines();
    let described = lines.iter().find(|line| line["type"] == "run.described").unwrap();
    assert_eq!(described["data"].get("rehearsal"), None);
    assert!(steps(&real).is_empty());
}

/// `one`, whose script uses tokens, and `two`, which has to be approved.
fn asking(project: &TestProject) {
    let script = json!({"turns": [{"text": "Done", "usage": {"input": 100_000, "output": 10},
        "tools": [{"append": {"path": "done.txt", "content": "done\n"}}]}]});
    project.write("script.json", script.to_string());
    let agent = json!({"agent": {"script": "script.json"}, "checkpointedFiles": ["done.txt"]});
    let mut two = codon("two", agent.clone());
    two["approval"] = json!("Go on?");
    project.write_hank(&json!({"hank": [codon("one", agent), two]}));
}

fn done(folder: &Path) -> String {
    fs::read_to_string(folder.join("done.txt")).unwrap_or_default()
}

// covers: CLI-74
#[test]
fn a_run_after_a_rehearsal_begins_at_the_first_codon_and_asks() {
    let project = project();
    asking(&project);
    let directory = project.directory();
    let rehearse = || {
        let rehearsed = project.run(["run", "--rehearse", "--headless"]);
        let text = &rehearsed.expect_code(0).stderr;
        assert!(
            text.contains("  one  completed") && text.contains("$0.0000        0 tokens"),
            "{rehearsed}"
        );
    };
    rehearse();
    assert_eq!(done(&directory), "", "the script has worked in the copy");
    let paused = project.run(["run", "--headless"]);
    let text = &paused.expect_code(3).stderr;
    assert!(
        text.contains("Paused before two: it waits for an approval: Go on?"),
        "{paused}"
    );
    let state = project.state(&directory);
    assert_eq!(
        (state["runs"].as_array().unwrap().len(), done(&directory).as_str()),
        (1, "done\n")
    );
    // A run that waits is left as it is.
    rehearse();
    assert_eq!(
        (project.state(&directory), done(&directory).as_str()),
        (state, "done\n")
    );
    project.run(["approve", "two"]).expect_code(0);
    rehearse();
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(done(&directory), "done\ndone\n");
    let cost = project.run(["status", "--json"]).json_document();
    assert_usd(&cost["totalSpend"], 0.6003);
    assert!(copies(&project).is_empty());
}

/// A hank whose rig does this in a rehearsal alone.
fn with_rig(project: &TestProject, rig: &str) {
    let command = format!("test -z \"$HANKWEAVE_REHEARSAL\" || {{ {rig}; }}");
    let rig = json!([{"type": "command", "command": {"run": command}}]);
    let plain = json!({"model": "scripted"});
    let with_rig = json!({"model": "scripted", "rigSetup": rig});
    project.write_hank(&json!({"hank": [codon("one", plain), codon("two", with_rig)]}));
}

// covers: CLI-74
#[test]
fn the_record_of_a_rehearsal_that_failed_is_kept_and_continued_by_no_run() {
    let project = project();
    with_rig(&project, "echo broken; exit 7");
    let failed = project.run(["run", "--rehearse", "--headless"]);
    let copy = only_copy(&project);
    let path = copy.to_str().unwrap();
    let text = &failed.expect_code(1).stderr;
    for words in [
        "Rehearsal failed at two; 1 of 2 codons completed.".to_owned(),
        "rig step 1 failed: the command exited with code 7: broken (`test -z ".to_owned(),
        format!("  its copy     {path} "),
        "  again        hankweave run --rehearse\n".to_owned(),
    ] {
        assert!(text.contains(&words), "{words}\n{failed}");
    }
    let status = project.run(["status", "-e", path]).expect_code(0).stdout.clone();
    assert!(
        status.contains(": failed (rehearsal), at ")
            && status.contains("it was a rehearsal: a run begins at the first codon"),
        "{status}"
    );
    let json = project.run(["status", "-e", path, "--json"]).json_document();
    assert_eq!(json["run"]["rehearsal"], true);
    assert!(
        json["view"]["headline"]
            .as_str()
            .unwrap()
            .starts_with("Rehearsal: Failed at two"),
        "{json}"
    );
    let plan = project
        .run(["run", "--dry-run", "-e", path])
        .expect_code(0)
        .stdout
        .clone();
    assert!(plan.contains("\nnext: one\n"), "{plan}");
    // A run in the copy itself starts anew, no matter what was approved or rolled back there.
    let real = project.run(["run", "-e", path, "--headless"]);
    let text = &real.expect_code(0).stderr;
    assert!(text.contains("Finished: 2 of 2 codons completed."), "{real}");
    let operations = project
        .run(["op", "log", "-e", path])
        .expect_code(0)
        .stdout
        .clone();
    assert!(operations.contains("  run --rehearse  "), "{operations}");
    // And a rehearsal begins anew, and not in the record of the run.
    let state = project.state(&copy);
    project
        .run(["run", "-e", path, "--rehearse", "--headless"])
        .expect_code(1);
    assert_eq!((project.state(&copy), copies(&project).len()), (state, 2));
}

// covers: CLI-74, P9
#[test]
fn a_rehearsal_that_was_killed_is_continued_by_no_run() {
    let project = project();
    with_rig(&project, "echo now; exec sleep 600");
    let mut rehearsal = project.start(["run", "--rehearse", "--headless"]);
    rehearsal.wait_for_line(|line| line.contains("| now"));
    rehearsal.kill();
    assert!(!project.directory().join(".hankweave").exists());
    let copy = only_copy(&project);
    let real = project.run(["run", "-e", copy.to_str().unwrap(), "--headless"]);
    assert!(
        real.expect_code(0)
            .stderr
            .contains("Finished: 2 of 2 codons completed."),
        "{real}"
    );
}

// covers: CLI-74
#[test]
fn a_failure_that_is_ignored_or_tried_again_does_not_make_a_second_pass() {
    let project = project();
    project.write(
        "fails.json",
        json!({"result": {"message": "overloaded", "status": 529}}).to_string(),
    );
    let failing = |id: &str, more: Value| {
        let mut failing = codon(id, more);
        failing["agent"] = json!({"script": "fails.json"});
        failing["approval"] = json!(true);
        failing
    };
    let retry = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 1, "delayMs": 60_000}});
    project.write_hank(&json!({"hank": [
        {"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "untilCheckPasses", "run": "false", "limit": 9},
            "codons": [failing("ignored", json!({"onFailure": "ignore"}))]},
        failing("again", retry),
    ]}));
    let rehearsed = project.run(["run", "--rehearse", "--json"]);
    rehearsed.expect_code(1);
    assert_eq!(
        steps(&rehearsed),
        [
            json!(["ignored#0", "repeat", "at most 9"]),
            json!(["ignored#0", "ask", "may ignored#0 begin?"]),
            json!(["again", "ask", "may again begin?"]),
            json!(["again", "wait", "1m0s before retry 1 of 1"]),
        ],
        "a codon that is tried again asks once, and is not waited for"
    );
}

// covers: CLI-74
#[test]
fn a_rehearsal_passes_the_limits_of_its_scripts_and_never_waits() {
    let project = project();
    // Each would take a year.
    let limit = "Claude AI usage limit reached|4102444800";
    let year = 31_536_000_000_u64;
    let limited =
        json!({"turns": [{"text": "So far.", "delayMs": year}], "result": {"message": limit, "status": 429}});
    project.write("limited.json", limited.to_string());
    project.write(
        "hangs.json",
        json!({"turns": [{"text": "Hm.", "hang": true}]}).to_string(),
    );
    let script = |id: &str, script: &str, more: Value| {
        let mut codon = codon(id, more);
        codon["agent"] = json!({"script": script});
        codon
    };
    let checked = json!({"check": {"run": "cargo test"}});
    project.write_hank(&json!({"hank": [
        script("waits", "limited.json", checked),
        script("falls", "limited.json", json!({"fallback": ["claude-haiku-4-5"]})),
        script("hangs", "hangs.json", json!({})),
    ]}));
    let rehearsed = project.run(["run", "--rehearse", "--json"]);
    rehearsed.expect_code(0);
    assert_eq!(
        steps(&rehearsed),
        [
            json!([
                "waits",
                "wait",
                "for its usage limit until 2100-01-01T00:00:00.000Z"
            ]),
            json!(["waits", "run", "cargo test"]),
            json!(["falls", "fallback", "claude-haiku-4-5"]),
            json!([
                "falls",
                "fallback",
                "claude-haiku-4-5, at its usage limit until 2100-01-01T00:00:00.000Z"
            ]),
        ]
    );
    let told = project.run(["run", "--rehearse", "--headless"]);
    assert!(
        told.expect_code(0)
            .stderr
            .contains("waits  would wait for its usage limit until "),
        "{told}"
    );
}

// covers: CLI-29
#[test]
fn a_dry_run_names_the_fallbacks_and_the_budget_that_its_settings_replace() {
    let project = project();
    let falls = codon("one", json!({"fallback": ["claude-haiku-4-5", "wait"]}));
    project.write_hank(
        &json!({"overrides": {"budget": {"maxDollars": 2, "maxTimeSeconds": 60}}, "hank": [falls]}),
    );
    let arguments = [
        "run",
        "--agent",
        "scripted",
        "--dry-run",
        "--max-cost",
        "5",
        "--max-time",
        "60",
    ];
    let shown = project.run(arguments).expect_code(0).stdout.clone();
    for words in [
        "one: the scripted agent stands in for claude-haiku-4-5, then a wait for the usage limit (fallback) as well\n",
        "limits: $5.0000 (in place of $2.0000 in the hank), and 1m0s\n",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    let json = project.run([&arguments[..], &["--json"]].concat());
    let left_out = &json.expect_code(0).json_document()["fallbacksLeftOut"];
    assert_eq!(left_out[0]["codonId"], "one");
}

// covers: CLI-74, HANK-1
#[test]
fn a_broken_hank_fails_its_rehearsal_with_the_place() {
    let project = project();
    let refused = |more: Value, words: &str| {
        project.write_hank(&json!({"hank": [codon("a", more)]}));
        let rehearsed = project.run(["run", "--rehearse", "--headless"]);
        let text = &rehearsed.expect_code(65).stderr;
        assert!(text.contains(words), "{words}\n{rehearsed}");
        assert!(copies(&project).is_empty());
    };
    let copy = json!([{"type": "copy", "copy": {"from": "absent", "to": "there"}}]);
    refused(
        json!({"rigSetup": copy}),
        "hank[0].rigSetup[0].copy.from (codon \"a\"): `absent` does not exist",
    );
    refused(
        json!({"agent": {"script": "absent.json"}}),
        "hank[0].agent.script (codon \"a\"): `absent.json` does not exist",
    );
    refused(
        json!({"model": "sonet"}),
        "hank[0].model (codon \"a\"): no agent here runs the model `sonet`",
    );
    let endless =
        json!({"agent": {"acp": ["none"]}, "budget": {"maxOutputTokens": 5}, "check": {"run": "true"}});
    refused(
        endless,
        "hank[0].budget.maxOutputTokens (codon \"a\"): agent `acp` does not tell what it uses",
    );
    project
        .write_hank(&json!({"requirements": {"tools": ["no-such-tool"]}, "hank": [codon("a", json!({}))]}));
    let rehearsed = project.run(["run", "--rehearse", "--headless"]);
    assert!(
        rehearsed.expect_code(1).stderr.contains("no-such-tool"),
        "{rehearsed}"
    );
    for other in ["--dry-run", "--no-autostart", "--replan", "--recover=session"] {
        project.run(["run", "--rehearse", other]).expect_code(2);
    }
}

// covers: CLI-74, CLI-24
#[test]
fn a_rehearsal_is_shown_on_a_terminal() {
    let project = project();
    write_gated(&project);
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, "run --rehearse") else {
        return;
    };
    terminal.until("run it ");
    let shown = terminal.history();
    for words in [
        "\nstep: would ask: Another step?",
        "Deploy to production?",
        "Rehearsed: 6 of 6 codons completed",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert_eq!(terminal.close(), Some(0));
}

// covers: HANK-74, CLI-7
#[test]
fn everything_wrong_with_scripts_is_told_at_once_with_its_place() {
    let project = project();
    let scripts = [
        ("good.json", "\u{feff}{\"turns\": [{\"text\": \"Hello\"}]}".to_owned()),
        ("text.json", "turns: none".to_owned()),
        ("empty.json", " \n".to_owned()),
        ("comment.json", "{\n  // nothing\n  \"turns\": []\n}".to_owned()),
        (
            "many.json",
            "{\n  \"turns\": [\n    {\"say\": \"a\"},\n    {\"delayMs\": \"1\", \"tools\": [{\"edit\": {}}]}\n  ],\n  \"exitCode\": 256\n}".to_owned(),
        ),
    ];
    let mut codons = vec![codon(
        "absent",
        json!({"agent": {"script": "scripts/absent.json"}}),
    )];
    for (name, text) in &scripts {
        project.write(&format!("scripts/{name}"), text);
        let id = name.trim_end_matches(".json");
        codons.push(codon(id, json!({"agent": {"script": format!("scripts/{name}")}})));
    }
    project.write_hank(&json!({"hank": codons}));
    let validated = project.run(["validate"]);
    let shown = &validated.expect_code(1).stdout;
    for words in [
        "hank[0].agent.script (codon \"absent\"): `scripts/absent.json` does not exist",
        "\nscripts/text.json:1:1: error: codon \"text\": ",
        "\nscripts/empty.json:1:1: error: codon \"empty\": the file is empty",
        "\nscripts/comment.json:2:3: error: codon \"comment\": ",
        "\nscripts/many.json:3:6: error: turns[0].say (codon \"many\"): `say` is not a key of a turn\n  hint: write `text`",
        "scripts/many.json:4:17: error: turns[1].delayMs (codon \"many\"): must be a whole number without a point, not a string",
        "scripts/many.json:4:33: error: turns[1].tools[0].edit (codon \"many\"): `edit` is not a key of a tool call\n  hint: write `write`",
        "scripts/many.json:6:15: error: exitCode (codon \"many\"): must be a whole number from 0 to 255, without a point, not `256`",
    ] {
        assert!(shown.contains(words), "{words}\n{validated}");
    }
    assert!(!shown.contains("good.json:"), "{validated}");
    project.run(["run", "--headless"]).expect_code(65);
    project.write_hank(&json!({"hank": [codons[1].clone()]}));
    project.run(["run", "--headless"]).expect_code(0);
}

// covers: CLI-74
#[test]
fn options_that_the_scripted_agent_leaves_out_are_named_where_it_stands_in() {
    let project = project();
    let codon = json!({"id": "only", "name": "Only", "agent": "claude", "model": "haiku", "continuationMode": "fresh", "promptText": "go",
        "permissions": "read-only"});
    project.write_hank(&json!({"hank": [codon]}));
    let own = project.run(["validate", "--json"]).json_document();
    assert_eq!(own["optionsLeftOut"], Value::Null, "{own:#}");
    let shown = project.run(["validate", "--agent", "scripted"]);
    let words = "only: the scripted agent stands in without permissions read-only\n";
    assert!(shown.expect_code(0).stdout.contains(words), "{shown}");
    let ran = project.run(["run", "--agent", "scripted", "--headless"]);
    assert!(ran.stderr.contains(&format!("note: {words}")), "{ran}");
    let report = project.run(["report"]);
    let left_out = "was to have permissions read-only, which the scripted agent does not have";
    assert!(report.stdout.contains(left_out), "{report}");
    let json = project.run(["validate", "--agent", "scripted", "--json"]);
    let left_out = &json.expect_code(0).json_document()["optionsLeftOut"];
    assert_eq!(
        left_out,
        &json!([{"codonId": "only", "options": "permissions read-only"}])
    );
}
