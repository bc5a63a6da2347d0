//! hankweave.json, the environment and `hankweave config` (HANK-56, HANK-57).

use serde_json::{Value, json};

use crate::support::{project, shell_agent};

fn hank(agent: &Value) -> Value {
    json!({
        "overrides": {"shimIdleTimeout": 90, "budget": {"maxDollars": 4, "maxTimeSeconds": 500}},
        "hank": [{"id": "a", "name": "A", "agent": agent, "continuationMode": "fresh", "promptText": "go", "checkpointedFiles": ["*.txt"],
            "rigSetup": [{"type": "command", "command": {"run": "printenv ANTHROPIC_BASE_URL > url.txt"}}],
            "outputFiles": [{"copy": ["*.txt"]}]}]
    })
}

// covers: CLI-21, HANK-57
#[test]
fn every_value_is_shown_with_where_it_came_from() {
    let mut project = project();
    project.write_hank(&hank(&json!("scripted")));
    project.write(
        "hankweave.json",
        "{\n  \"model\": \"opus\", \"shimIdleTimeout\": 60, // quick\n  \"budget\": {\"maxDollars\": 3, \"maxTimeSeconds\": 600},\n  \"showCosts\": true\n}",
    );
    project.set("HANKWEAVE_RUNTIME_OUTPUT_DIRECTORY", "results");
    let finished = project.run(["config", "--json", "--port", "4000"]);
    finished.expect_code(0);
    let document = finished.json_document();
    let entry = |name: &str| {
        let entry = &document["settings"][name];
        (
            entry["value"].clone(),
            entry["source"].as_str().unwrap(),
            entry["line"].as_u64(),
        )
    };
    assert_eq!(entry("port"), (json!(4000), "flag", None));
    assert_eq!(entry("outputDirectory"), (json!("results"), "environment", None));
    assert_eq!(
        document["settings"]["outputDirectory"]["variable"],
        "HANKWEAVE_RUNTIME_OUTPUT_DIRECTORY"
    );
    assert_eq!(entry("shimIdleTimeout").1, "hank");
    assert_eq!(entry("model"), (json!("opus"), "file", Some(2)));
    // The lower one of both ceilings.
    assert_eq!(entry("budget.maxDollars"), (json!(3), "file", Some(3)));
    assert_eq!(entry("budget.maxTimeSeconds").1, "hank");
    assert_eq!(entry("autostart"), (json!(true), "default", None));
    assert_eq!(entry("anthropicBaseUrl"), (Value::Null, "default", None));
    assert_eq!(document["file"], "hankweave.json");
    assert!(document["warnings"][0].as_str().unwrap().contains("showCosts"));

    let finished = project.run(["config", "--max-cost", "9"]);
    finished.expect_code(0);
    let shown = |name: &str| {
        let line = finished.stdout.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name}\n{finished}")).to_owned()
    };
    assert!(shown("model").contains("hankweave.json:2:12"), "{finished}");
    assert!(shown("shimIdleTimeout").contains("hank.json:"), "{finished}");
    assert!(shown("budget.maxDollars").contains("command line"), "{finished}");
    assert!(!project.directory().join(".hankweave").exists());
}

// covers: HANK-56
#[test]
fn a_mistake_in_a_layer_stops_the_start_before_anything_is_made() {
    let mut project = project();
    project.write_hank(&hank(&json!("scripted")));
    project.write("hankweave.json", r#"{"port": "x", "autostrat": false}"#);
    project.set("HANKWEAVE_RUNTIME_SHIM_IDLE_TIMEOUT", "soon");
    for command in ["run", "config"] {
        let finished = project.run([command]);
        finished.expect_code(65);
        for told in [
            "hankweave.json:1:10: error: port: must be a whole number",
            "did you mean `autostart`?",
            "HANKWEAVE_RUNTIME_SHIM_IDLE_TIMEOUT: error: must be a whole number from 1 to 1800",
        ] {
            assert!(finished.stderr.contains(told), "{finished}");
        }
    }
    assert!(!project.directory().join(".hankweave").exists());
}

#[test]
fn what_the_file_says_reaches_the_run_and_its_agents() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&hank(&agent));
    project.write(
        "hankweave.json",
        r#"{"anthropicBaseUrl": "http://127.0.0.1:9/v1", "outputDirectory": "results", "budget": {"maxDollars": 0.1}}"#,
    );
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let result =
        |name: &str| std::fs::read_to_string(project.directory().join("results").join(name)).unwrap();
    assert_eq!(result("url.txt"), "http://127.0.0.1:9/v1\n");
    assert_eq!(result("done.txt"), "go\n");
    let summary = finished.json_lines();
    let summary = summary
        .iter()
        .find(|event| event["type"] == "budget.summary")
        .unwrap_or_else(|| panic!("no budget.summary\n{finished}"));
    assert!(summary["data"].to_string().contains("0.1"), "{summary}");
}
