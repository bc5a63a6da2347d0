//! Sentinels that watch files: which changes they see, whatever checkpoints hold, and what their own files look like.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hankweave_testing::{ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::reference::blocks;
use crate::support::{codon, project};

/// Returns the guard from the page about hanks, with the files of its checkpoints named.
fn guard_of_the_page() -> Value {
    let blocks = blocks("hank.md");
    let guard = blocks
        .iter()
        .find(|block| block.text.contains("Stops what touches secrets"));
    let mut hank: Value = serde_json::from_str(&guard.unwrap().text).unwrap();
    hank["hank"][0]["checkpointedFiles"] = json!(["*.py"]);
    hank
}

/// The hank with an agent that does this.
fn scripted(project: &TestProject, mut hank: Value, tools: Value) -> Value {
    let script = json!({"turns": [{"text": "I begin.", "tools": tools}, {"text": "Done."}]});
    project.write("script.json", script.to_string());
    hank["hank"][0]["agent"] = json!({"script": "script.json"});
    hank
}

fn of<'e>(lines: &'e [Value], kind: &str) -> Vec<&'e Value> {
    let lines = lines.iter().filter(|line| line["type"] == kind);
    lines.map(|line| &line["data"]).collect()
}

#[track_caller]
fn assert_stopped(project: &TestProject, path: &str) {
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(1);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "draft");
    assert_eq!(
        (&record["status"], &record["failureReason"]["message"]),
        (
            &json!("failed"),
            &json!("stopped by sentinel guard: it touched .env")
        )
    );
    let lines = finished.json_lines();
    let told = of(&lines, "file.updated");
    let secret = told.iter().find(|data| data["path"] == path).unwrap();
    assert_eq!(secret["checkpointed"], false);
    assert_eq!(record["filesChanged"], json!(1), "{record:#}");
}

// covers: SENT-22
#[test]
fn the_guard_of_the_page_sees_a_file_that_no_checkpoint_holds() {
    for (path, ignored) in [(".env", ""), ("deploy/.env", ""), (".env", ".env\n")] {
        let project = project();
        let tools = json!([{"write": {"path": "a.py", "content": "1"}}, {"write": {"path": path, "content": "KEY=1"}},
            {"write": {"path": "b.txt", "content": "nobody waits for this"}}]);
        project.write(".gitignore", ignored);
        let hank = scripted(&project, guard_of_the_page(), tools);
        project.write_hank(&hank);
        project.run(["validate"]).expect_code(0);
        assert_stopped(&project, path);
        let journal = project.run(["journal", "--json", "--type", "file.updated"]);
        let told = journal.expect_code(0).json_lines();
        let of_path = |path: &str| told.iter().find(|line| line["data"]["path"] == path);
        assert_eq!(of_path("b.txt"), None);
        // What a `.gitignore` leaves out may be a secret.
        let fingerprint = &of_path(path).unwrap()["data"]["fingerprint"];
        assert_eq!(fingerprint.is_string(), ignored.is_empty());
    }
}

// covers: SENT-22
#[test]
fn what_is_never_looked_at_makes_no_guard_act_and_validate_says_so() {
    let project = project();
    let tools = json!([{"bash": {"command": "mkdir -p node_modules/x build; echo K=1 | tee node_modules/x/.env build/.env"}}]);
    project.write(".gitignore", "build/\n");
    let mut hank = scripted(&project, guard_of_the_page(), tools);
    project.write_hank(&hank);
    project.run(["run", "--headless"]).expect_code(0);
    let mut warnings = |operator: &str, value: Value| {
        let condition = json!({"operator": operator, "path": "path", "value": value});
        hank["hank"][0]["sentinels"][0]["sentinelConfig"]["trigger"]["conditions"][0] = condition;
        project.write_hank(&hank);
        let checked = project.run(["validate", "--json"]);
        let document = checked.expect_code(0).json_document();
        document["warnings"].to_string()
    };
    for (operator, value) in [
        ("matches", json!("^node_modules/")),
        ("equals", json!(".git/config")),
        ("in", json!(["../outside.txt"])),
        ("contains", json!("/node_modules/")),
        ("equals", json!("/etc/passwd")),
        ("matches", json!("(^|/)\\.git/hooks/")),
    ] {
        let told = warnings(operator, value.clone());
        assert!(told.contains("no sentinel sees"), "{value}: {told}");
    }
    for value in ["\\.gitignore$", "modules", "(^|/)\\.env$", "^src/.*node_modules"] {
        assert_eq!(warnings("matches", json!(value)), "[]", "{value}");
    }
}

// covers: SENT-22
#[test]
fn the_guard_of_the_page_stops_the_real_claude() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let turns = json!([
        {"text": "I keep the key.", "tools": [{"op": "write", "path": "${CWD}/.env", "content": "KEY=1\n"},
            {"op": "write", "path": "${CWD}/a.py", "content": "1\n"}], "usage": {"input": 100, "output": 5}},
        {"text": "Done.", "usage": {"input": 100, "output": 5}}]);
    let scenario =
        json!({"lanes": [{"name": "all", "when": {"user": "Write the first page"}, "turns": turns}]});
    let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let mut project = project();
    project
        .set("HANKWEAVE_CLAUDE_PATH", claude)
        .set("ANTHROPIC_BASE_URL", server.url())
        .set("ANTHROPIC_API_KEY", "sk-any")
        .set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    let mut hank = guard_of_the_page();
    hank["hank"][0]["agent"] = json!("claude");
    hank["hank"][0]["model"] = json!("claude-sonnet-4-5");
    project.write_hank(&hank);
    assert_stopped(&project, ".env");
}

/// The bits of a file or folder.
fn mode(project: &TestProject, path: &str) -> u32 {
    let metadata = fs::metadata(project.directory().join(path)).unwrap();
    metadata.permissions().mode() & 0o777
}

// covers: SENT-11
#[test]
fn answers_in_the_workspace_have_the_umask_of_the_user_and_ours_stay_private() {
    let script =
        json!({"turns": [{"text": "I begin.", "tools": [{"write": {"path": "agent.txt", "content": "x"}}]}]});
    let sentinel = |id: &str, output: Value| {
        json!({"sentinelConfig": {"id": id, "name": id, "command": ["sh", "-c", "cat > /dev/null; echo x | tee command.txt"],
            "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}, "output": output}})
    };
    let hank = json!({"hank": [{"id": "a", "name": "A", "agent": {"script": "script.json"}, "continuationMode": "fresh", "promptText": "x",
        "sentinels": [sentinel("seen", json!({"file": "notes/all.md", "lastValueFile": "notes/last.md"})), sentinel("own", json!({}))]}]});
    for (umask, file, folder) in [
        ("022", 0o644, 0o755),
        ("002", 0o664, 0o775),
        ("077", 0o600, 0o700),
        ("777", 0o600, 0o700),
    ] {
        let project = TestProject::new("/bin/sh");
        project.write("script.json", script.to_string());
        project.write_hank(&hank);
        let line = format!(
            "umask {umask}; exec '{}' run . --headless",
            env!("CARGO_BIN_EXE_hankweave")
        );
        // An agent that cannot read what it writes has failed; the sentinel has not.
        let finished = project.run(["-c", &line]);
        if umask != "777" {
            finished.expect_code(0);
            assert_eq!(mode(&project, "agent.txt"), file, "umask {umask}");
            assert_eq!(mode(&project, "command.txt"), file, "umask {umask}");
        }
        for path in ["notes/all.md", "notes/last.md"] {
            assert_eq!(mode(&project, path), file, "umask {umask}: {path}");
        }
        assert_eq!(mode(&project, "notes"), folder, "umask {umask}");
        assert_eq!(
            mode(&project, ".hankweave/outputs/own/own-a.md"),
            0o600,
            "umask {umask}"
        );
    }
}

/// A command sentinel that acts once, at the first line of the agent.
fn at_the_first_line(id: &str, script: &str) -> Value {
    let config = json!({"id": id, "name": id, "command": ["sh", "-c", script], "answer": "json",
        "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"},
        "output": {"file": "said.md"}});
    json!({"sentinelConfig": config, "settings": {"mayAsk": ["pause"]}})
}

// covers: SENT-10
#[test]
fn every_answer_in_a_file_is_reported_also_when_another_sentinel_pauses_meanwhile() {
    for _ in 0..4 {
        let project = project();
        let mut hank = guard_of_the_page();
        hank["hank"][0]["sentinels"] = json!([]);
        let mut sentinels: Vec<Value> = (0..8)
            .map(|number| at_the_first_line(&format!("writer-{number}"), r#"echo '{"text": "seen"}'"#))
            .collect();
        let pauses = r#"echo '{"text": "stop it", "ask": "pause", "reason": "enough"}'"#;
        sentinels.insert(4, at_the_first_line("pauser", pauses));
        hank["hank"][0]["sentinels"] = json!(sentinels);
        project.write_hank(&scripted(
            &project,
            hank,
            json!([{"bash": {"command": "sleep 20"}}]),
        ));
        let finished = project.run(["run", "--headless", "--json"]);
        finished.expect_code(3);
        let lines = finished.json_lines();
        let reported = of(&lines, "sentinel.output");
        let outputs = project.directory().join(".hankweave/outputs");
        let kept: Vec<String> = fs::read_dir(outputs)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().join("said.md").exists())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        assert!(kept.contains(&"pauser".to_owned()), "{kept:?}");
        for id in kept {
            assert!(
                reported.iter().any(|data| data["sentinelId"] == *id),
                "{id} has a file and no event"
            );
        }
    }
}
