//! Prices: the list, its overrides, and limits in dollars where no price is known.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;

const HOUSE: &str = r#"{"models": {"house-model": {"input": 1000, "output": 5000}}}"#;

/// A codon of a program that prints one message of `model`, of 100 tokens in and 10 out, and a result that reports tokens but no money.
fn codon(project: &TestProject, model: &str) -> Value {
    let usage = r#""usage":{"input_tokens":100,"output_tokens":10}"#;
    let lines = [
        r#"{"type":"system","subtype":"init","session_id":"s-1","model":"MODEL"}"#.to_owned(),
        format!(
            r#"{{"type":"assistant","message":{{"id":"m1","model":"MODEL","stop_reason":"end_turn",{usage},"content":[]}}}}"#
        ),
        format!(r#"{{"type":"result","subtype":"success","result":"done","is_error":false,{usage}}}"#),
    ];
    let said = lines.join("\n").replace("MODEL", model);
    project.write("agent.sh", format!("cat > /dev/null\ncat <<'END'\n{said}\nEND\n"));
    let script = project.directory().join("agent.sh");
    json!({"id": "a", "name": "A", "model": model, "agent": {"command": ["sh", script], "stream": "claude"},
        "continuationMode": "fresh", "promptText": "go", "budget": {"maxDollars": 1}})
}

#[test]
fn the_list_is_shown_with_its_date_and_where_each_price_came_from() {
    let project = project();
    project.write("mine.json", HOUSE);
    project.write(
        "hankweave.json",
        r#"{"prices": {"models": {"claude-opus-5": {"input": 1, "output": 2}}}}"#,
    );
    let list = project.run(["prices", "--json"]).expect_code(0).json_document();
    assert_eq!(list["asOf"].as_str().map(str::len), Some(10), "{list}");
    assert_eq!(list["models"]["claude-sonnet-5"]["from"], "list");
    assert_eq!(list["models"]["claude-opus-5"]["from"], "hankweave.json");
    assert_eq!(list["models"]["claude-opus-5"]["cacheWrite1h"], 2);
    // What is printed can be given back.
    project.write("again.json", list.to_string());
    let again = project.run(["prices", "--prices", "again.json", "claude-haiku-5-5", "--json"]);
    let again = again.expect_code(0).json_document();
    assert_eq!(
        again["price"]["longPrompt"],
        list["models"]["claude-haiku-5-5"]["longPrompt"]
    );
    assert_eq!(again["price"]["from"], "again.json");

    let shown = project.run(["prices", "--prices", "mine.json", "house-model-20260101[1m]"]);
    let told = &shown.expect_code(0).stdout;
    assert!(
        told.contains("priced as house-model") && told.contains("1000") && told.contains("mine.json"),
        "{shown}"
    );
    let alias = project.run(["prices", "opus[1m]"]);
    assert!(alias.expect_code(0).stdout.contains("at its start"), "{alias}");
    let unknown = project.run(["prices", "claude-sonet-5"]);
    unknown.expect_code(1);
    assert!(
        unknown.stderr.contains("near it are claude-sonnet-5"),
        "{unknown}"
    );
}

// covers: HANK-28
#[test]
fn a_limit_that_cannot_be_held_stops_the_start_and_the_hint_gives_the_file() {
    let project = project();
    let codon = codon(&project, "house-model");
    project.write_hank(&json!({"hank": [codon]}));
    let before = project.files();
    for command in [&["validate"][..], &["run", "--headless"]] {
        let refused = project.run(command);
        refused.expect_code(if command[0] == "run" { 65 } else { 1 });
        let told = format!("{}{}", refused.stdout, refused.stderr);
        for part in [
            "hank[0].budget.maxDollars (codon \"a\"): this limit cannot be held",
            "`house-model`",
            "`--prices prices.json`",
            r#"{"models": {"house-model": {"input": 3, "output": 15}}}"#,
        ] {
            assert!(told.contains(part), "{part}\n{refused}");
        }
    }
    assert_eq!(project.files(), before);
}

/// The limit of the command line counts as well, and a mistake in the file of prices is reported with its position.
#[test]
fn a_limit_of_the_command_line_needs_a_price_and_a_bad_file_of_prices_is_refused() {
    let project = project();
    let mut codon = codon(&project, "house-model");
    codon.as_object_mut().unwrap().remove("budget");
    project.write_hank(&json!({"hank": [codon]}));
    let doubtful = project.run(["validate"]);
    assert!(
        doubtful
            .expect_code(0)
            .stdout
            .contains("the price of `house-model` is not known"),
        "{doubtful}"
    );
    project.run(["validate", "--max-cost", "1"]).expect_code(1);
    project
        .run(["run", "--headless", "--max-cost", "1"])
        .expect_code(65);
    project.write("bad.json", r#"{"models": {"house-model": {"input": "x"}}}"#);
    for command in ["validate", "run"] {
        let refused = project.run([command, "--max-cost", "1", "--prices", "bad.json"]);
        refused.expect_code(65);
        assert!(
            refused
                .stderr
                .contains("bad.json:1:38: error: models.house-model.input"),
            "{refused}"
        );
    }
    project.run(["run", "--prices", "nowhere.json"]).expect_code(65);
    assert!(!project.directory().join(".hankweave").exists());
}

#[test]
fn a_price_that_is_given_counts_and_holds_the_limit() {
    let project = project();
    let codon = codon(&project, "house-model");
    project.write_hank(&json!({"hank": [codon]}));
    project.write("mine.json", HOUSE);
    project.run(["validate", "--prices", "mine.json"]).expect_code(0);
    project
        .run(["run", "--headless", "--prices", "mine.json"])
        .expect_code(0);
    let state: Value = serde_json::from_str(
        &std::fs::read_to_string(project.directory().join(".hankweave/state.json")).unwrap(),
    )
    .unwrap();
    // 100 tokens at $1000 and 10 at $5000 a million.
    assert_eq!(state["runs"][0]["codons"][0]["finalCost"], json!(0.15));
}

/// The codon with this id of the only run.
fn record(project: &TestProject) -> Value {
    project.state(&project.directory())["runs"][0]["codons"][0].clone()
}

/// A codon with a script of one answer of 110,000 tokens.
fn scripted(project: &TestProject, model: &str) -> Value {
    project.write(
        "s.json",
        r#"{"turns": [{"text": "x", "usage": {"input": 100000, "output": 10000}}]}"#,
    );
    json!({"id": "a", "name": "A", "model": model, "agent": {"script": "s.json"}, "continuationMode": "fresh", "promptText": "go"})
}

// An alias is no model of the scripted agent, which has prices for models alone.
// covers: HANK-6, AGENT-46
#[test]
fn a_script_whose_model_has_no_price_costs_an_unknown_amount_and_its_limit_is_refused() {
    for model in ["house-model"] {
        let project = project();
        project.write_hank(&json!({"hank": [scripted(&project, model)]}));
        let refused = project.run(["run", "--headless", "--max-cost", "0.01"]);
        refused.expect_code(65);
        assert!(
            refused.stderr.contains("nobody here knows the price"),
            "{refused}"
        );
        let finished = project.run(["run", "--headless"]);
        finished.expect_code(0);
        let record = record(&project);
        assert_eq!(
            (&record["finalCost"], &record["costIsLowerBound"]),
            (&json!(0), &json!(true))
        );
        for shown in [&finished.stderr, &project.run(["status"]).stdout] {
            assert!(
                shown.contains("unknown") && !shown.contains("$0.0000"),
                "{model}: {shown}"
            );
        }
    }
    let project = project();
    project.write("mine.json", HOUSE);
    project.write_hank(&json!({"hank": [scripted(&project, "house-model")]}));
    let run = ["run", "--headless", "--max-cost", "1000", "--prices", "mine.json"];
    project.run(run).expect_code(0);
    // 100,000 tokens at $1000 and 10,000 at $5000 a million.
    let record = record(&project);
    assert_eq!(
        (&record["finalCost"], &record["costIsLowerBound"]),
        (&json!(150), &Value::Null)
    );
}

// An alias of claude is a model of the list for a script as well: what `validate` accepts with `--agent scripted`, it accepts of a script.
// covers: AGENT-46
#[test]
fn an_alias_that_a_script_plays_has_the_price_of_its_model() {
    let project = project();
    project.write_hank(&json!({"hank": [scripted(&project, "sonnet")]}));
    for more in [&[][..], &["--agent", "scripted"]] {
        let validate = ["validate", "--max-cost", "9"];
        project.run(validate.iter().chain(more)).expect_code(0);
    }
    project
        .run(["run", "--headless", "--max-cost", "9"])
        .expect_code(0);
    let record = record(&project);
    assert!(record["finalCost"].as_f64().unwrap() > 0.0, "{record}");
    assert_eq!(record["costIsLowerBound"], Value::Null);
    let shown = project.run(["prices", "sonnet"]);
    assert!(
        shown.stdout.contains("that one is priced, and claude-sonnet-"),
        "{shown}"
    );
}

// Claude resolves this name to the model of another vendor.
// covers: AGENT-46
#[test]
fn an_agent_whose_dollars_are_limited_is_ended_at_its_first_answer_without_a_price() {
    let mut project = project();
    let mut codon = codon(&project, "house-model");
    codon["agent"] = json!("claude");
    codon["model"] = json!("sonnet");
    // It would continue for ever.
    let script = project.directory().join("agent.sh");
    let text = std::fs::read_to_string(&script).unwrap();
    let before: Vec<&str> = text.lines().filter(|line| !line.contains("\"result\"")).collect();
    std::fs::write(
        &script,
        format!("#!/bin/sh\n{}\nexec tail -f /dev/null\n", before.join("\n")),
    )
    .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    project.set("HANKWEAVE_CLAUDE_PATH", &script);
    project.write_hank(&json!({"hank": [codon]}));
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(1);
    let record = record(&project);
    let reason = &record["failureReason"];
    assert_eq!(
        (&record["status"], &reason["retriable"]),
        (&json!("failed"), &json!(false)),
        "{record:#}"
    );
    let message = reason["message"].as_str().unwrap();
    for part in [
        "`house-model`",
        "--prices prices.json",
        r#"{"models": {"house-model": {"input": 3, "output": 15}}}"#,
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(project.left_behind(), []);
}

// covers: AGENT-46
#[test]
fn a_price_that_is_given_comes_before_the_money_that_an_agent_reports() {
    for basis in ["list", "unknown"] {
        for (arguments, cost) in [
            (&["run", "--headless", "--prices", "mine.json"][..], Some(0.15)),
            (&["run", "--headless"], (basis == "list").then_some(7.0)),
        ] {
            let project = project();
            project.write("mine.json", HOUSE);
            let mut codon = codon(&project, "house-model");
            codon.as_object_mut().unwrap().remove("budget");
            let script = project.directory().join("agent.sh");
            let text = std::fs::read_to_string(&script).unwrap();
            let usage = format!(
                r#"{{"house-model":{{"inputTokens":100,"outputTokens":10,"costUSD":7,"costBasis":"{basis}"}}}}"#
            );
            let stated = format!(
                r#""type":"result","total_cost_usd":7,"modelUsage":{usage},"model_usage_since_last_result":{usage}"#
            );
            std::fs::write(&script, text.replace(r#""type":"result""#, &stated)).unwrap();
            project.write_hank(&json!({"hank": [codon]}));
            project.run(arguments).expect_code(0);
            let record = record(&project);
            assert_eq!(
                record["finalCost"].as_f64(),
                cost.or(Some(0.0)),
                "{basis} {arguments:?}"
            );
            assert_eq!(
                record["costIsLowerBound"] == true,
                cost.is_none(),
                "{basis} {arguments:?}"
            );
        }
    }
}

// The crash cut the agent off. The folder of its transcripts is set in its hank, and the price of its model on the command line.
// covers: AGENT-8, RUN-6
#[test]
fn what_a_crash_cut_off_is_counted_with_the_folder_of_its_codon_and_the_prices_of_the_run() {
    let project = project();
    project.write("mine.json", HOUSE);
    let hank = |agent: &str| {
        let script = project.write("agent.sh", agent);
        project.write_hank(
            &json!({"hank": [{"id": "a", "name": "A", "model": "house-model", "continuationMode": "fresh",
            "promptText": "go", "agent": {"command": ["sh", script], "stream": "claude"}, "checkpointedFiles": ["*.txt"],
            "env": {"CLAUDE_CONFIG_DIR": "own"}}]}),
        );
    };
    let begin = r#"cat > /dev/null
printf '%s\n' '{"type":"system","subtype":"init","session_id":"s-1","model":"house-model"}'
printf '%s\n' '{"type":"assistant","message":{"id":"m1","model":"house-model","stop_reason":null,"usage":{"input_tokens":100,"output_tokens":1},"content":[]}}'
"#;
    hank(&format!("{begin}exec tail -f /dev/null\n"));
    let transcript = r#"{"type":"assistant","message":{"id":"m1","model":"house-model","stop_reason":"end_turn","usage":{"input_tokens":100,"output_tokens":10}}}"#;
    project.write("own/projects/-here/s-1.jsonl", format!("{transcript}\n"));
    let mut running = project.start(["run", "--headless", "--json", "--prices", "mine.json"]);
    running.wait_for_line(|line| line.contains("\"token.usage\""));
    running.kill();
    hank(&format!(
        "{begin}printf '%s\\n' '{}'\n",
        r#"{"type":"result","subtype":"success","result":"done","is_error":false,"usage":{"input_tokens":100,"output_tokens":1}}"#
    ));
    // What it costs from now on says nothing about what it has cost.
    project.write("mine.json", HOUSE.replace("1000", "2000"));
    let checkpoints = project
        .run(["checkpoints", "--json"])
        .expect_code(0)
        .json_document();
    let first = checkpoints.to_string();
    let first = first.split('"').find(|word| word.len() == 40).unwrap().to_owned();
    for taking_up in [
        &["run", "--headless", "--prices", "mine.json"][..],
        &["run", "--headless"],
        &["rollback", "--to", &first],
    ] {
        let folder = project.directory().join(".hankweave");
        let crashed = project.directory().join("crashed");
        let copy = |from: &Path, to: &Path| {
            let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
            assert!(copied.success());
        };
        match crashed.exists() {
            false => copy(&folder, &crashed),
            true => {
                std::fs::remove_dir_all(&folder).unwrap();
                copy(&crashed, &folder);
            }
        }
        project.run(taking_up).expect_code(0);
        let state = project.state(&project.directory());
        let runs = state["runs"].as_array().unwrap();
        let cut_off = runs.iter().find(|run| run["status"] == "crashed").unwrap();
        let cut_off = &cut_off["codons"][0];
        assert_eq!(cut_off["partialTokens"]["outputTokens"], 10, "{cut_off:#}");
        // 100 tokens at 1000 and 10 at 5000 dollars for a million.
        assert_eq!(cut_off["partialCost"], 0.15, "{taking_up:?}: {cut_off:#}");
        assert_eq!(cut_off["costIsLowerBound"], true);
    }
}
