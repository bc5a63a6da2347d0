//! Recorded executions, played once more (CLI-33, RUN-22).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hankweave_testing::acp_agent::{self, SCRIPT};
use hankweave_testing::{Finished, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::real_agents::RealAgent;
use crate::real_money::DEADLINE;
use crate::real_stories::{self, real};
use crate::support::{project, shell_agent};

/// Returns every file inside a folder with its content.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    found
}

/// Plays what is recorded, which must not change, and returns what the replay says of itself.
fn replay(project: &TestProject, code: i32) -> (Finished, Value) {
    let recorded = project.directory().join(".hankweave");
    let before = contents(&recorded);
    let directory = project.directory().to_string_lossy().into_owned();
    let finished = project.run(["replay", &directory, "--speed", "max", "--json"]);
    finished.expect_code(code);
    assert!(contents(&recorded) == before, "the record was changed");
    let last = finished.json_lines().pop().unwrap();
    assert_eq!(last["type"], "replay.completed");
    (finished, last["data"].clone())
}

/// Two codons with a rig and a check; the first is killed in its work and continues in another run.
fn record() -> TestProject {
    let project = project();
    let agent = shell_agent(&project);
    let rig = json!([{"type": "command", "command": {"run": "echo rigged"}}]);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
            "checkpointedFiles": ["*.txt"], "rigSetup": rig})
    };
    let mut checked = codon("b", "on");
    checked["check"] = json!({"run": "[ $(wc -l < done.txt) -ge 3 ]"});
    project.write_hank(&json!({"hank": [codon("a", "wait for go"), checked]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"working\""));
    running.signal(Signal::KILL);
    running.finish_within(DEADLINE);
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    project
}

// covers: CLI-33, RUN-22
#[test]
fn a_whole_thread_comes_out_as_it_is_recorded() {
    let project = record();
    let (finished, outcome) = replay(&project, 0);
    assert_eq!(outcome["difference"], Value::Null);
    assert!(outcome["fromLogs"].as_u64().unwrap() >= 4, "{outcome}");
    assert!(outcome["compared"].as_u64().unwrap() >= 2, "{outcome}");
    // Programs get every event of every run as it was recorded.
    let journal = project.run(["journal"]);
    let lines = finished.json_lines();
    assert_eq!(lines[..lines.len() - 1], journal.json_lines());
    // What came out is an execution directory of its own.
    let place = outcome["execution"].as_str().unwrap();
    let state = |directory: &Path| project.state(directory);
    assert_eq!(state(Path::new(place)), state(&project.directory()));
    let status = project.run(["status", "-e", place]);
    status.expect_code(0);
    // People see sentences.
    let directory = project.directory().to_string_lossy().into_owned();
    let named = project.home().join("named");
    let named = named.to_str().unwrap();
    let told = project.run(["replay", &directory, "--speed", "max", "-e", named]);
    told.expect_code(0);
    assert!(
        told.stderr.contains("everything came out as it is recorded"),
        "{told}"
    );
    assert!(told.stdout.contains("a: working"), "{told}");
    // Nothing is written over.
    project
        .run(["replay", &directory, "-e", &directory])
        .expect_code(65);
    project.run(["replay", &directory, "-e", named]).expect_code(65);
}

// covers: CLI-33
#[test]
fn a_replay_whose_gaps_last_longer_than_any_clock_waits_until_it_is_stopped() {
    let project = record();
    let directory = project.directory().to_string_lossy().into_owned();
    let mut running = project.start(["replay", &directory, "--speed", "1e-30", "--json"]);
    running.wait_for_line(|line| line.contains("\"seq\""));
    running.signal(Signal::TERM);
    running.finish_within(DEADLINE).expect_code(143);
}

// covers: CLI-33, RUN-22
#[test]
fn the_first_difference_is_named() {
    let project = record();
    let logs = contents(&project.directory().join(".hankweave/runs"));
    let log = logs
        .keys()
        .rfind(|path| path.to_string_lossy().contains("b-command"))
        .unwrap();
    let said = fs::read_to_string(log).unwrap();
    // Another word, a cost that was not recorded, and a missing line.
    let without = said.lines().filter(|line| !line.contains("working"));
    for (changed, named) in [
        (
            said.replacen(r#""text":"working""#, r#""text":"idling""#, 1),
            "b (command), what it said 1.",
        ),
        (said.replace("0.25", "0.75"), "b (command), what it used"),
        (
            without.collect::<Vec<_>>().join("\n"),
            "b (command), what it said 1.",
        ),
    ] {
        fs::write(log, changed).unwrap();
        let (_, outcome) = replay(&project, 1);
        assert_eq!(outcome["difference"]["place"], named, "{outcome}");
    }
}

/// A loop, a codon that fails and is tried again, and a rollback after which the rest of the hank runs once more.
// covers: CLI-33, RUN-22
#[test]
fn loops_retries_and_rollbacks_come_out_as_they_are_recorded() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
            "checkpointedFiles": ["*.txt"]})
    };
    let mut tried = codon("tried", "on");
    tried["check"] = json!({"run": "echo >> tries.txt; [ $(wc -l < tries.txt) -ge 2 ]"});
    tried["onFailure"] = json!("retry");
    tried["retryConfig"] = json!({"delayMs": 0});
    let turns = json!({"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 2},
        "codons": [codon("turn", "again")]});
    project.write_hank(&json!({"hank": [codon("first", "begin"), tried, turns]}));
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["rollback", "--codon", "tried"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    let (_, outcome) = replay(&project, 0);
    assert_eq!(outcome["difference"], Value::Null);
    assert!(outcome["compared"].as_u64().unwrap() >= 6, "{outcome}");
}

/// Each run counts with prices of its own, which are stored only in its folder.
// covers: CLI-33, RUN-22
#[test]
fn money_is_computed_at_the_prices_that_each_run_had() {
    let project = project();
    let said = [
        r#"{"type":"system","subtype":"init","session_id":"s-1","model":"house"}"#,
        r#"{"type":"result","subtype":"success","result":"done","is_error":false,"usage":{"input_tokens":1000,"output_tokens":10}}"#,
    ];
    let script = project.write(
        "agent.sh",
        format!("cat > /dev/null\ncat <<'END'\n{}\nEND\n", said.join("\n")),
    );
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": {"command": ["sh", script], "stream": "claude"}, "model": "house",
            "continuationMode": "fresh", "promptText": "go", "checkpointedFiles": ["*.txt"]})
    };
    let prices =
        |input: u64| json!({"prices": {"models": {"house": {"input": input, "output": 0}}}}).to_string();
    let settings = project.write("hankweave.json", prices(100));
    project.write_hank(&json!({"hank": [codon("a"), codon("b")]}));
    project.run(["run", "--headless"]).expect_code(0);
    fs::write(&settings, prices(300)).unwrap();
    project.run(["rollback", "--codon", "a"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    fs::remove_file(settings).unwrap();
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap().iter();
    let costs: Vec<f64> = runs
        .flat_map(|run| run["codons"].as_array().unwrap())
        .filter_map(|record| record["finalCost"].as_f64())
        .collect();
    assert!(costs.contains(&0.1) && costs.contains(&0.3), "{costs:?}");
    let (_, outcome) = replay(&project, 0);
    assert_eq!(outcome["difference"], Value::Null);
    assert_eq!(outcome["compared"], 3, "{outcome}");
}

/// Plays what is recorded, and once more with other numbers in the log of `of`, which have to be found.
fn comes_out(project: &TestProject, compared: u64, of: &str, number: &str, other: &str) {
    let (_, outcome) = replay(project, 0);
    assert_eq!(outcome["difference"], Value::Null);
    assert_eq!(outcome["compared"], compared, "{outcome}");
    let logs = contents(&project.directory().join(".hankweave/runs"));
    let log = logs
        .keys()
        .find(|path| path.to_string_lossy().contains(of))
        .unwrap();
    let said = fs::read_to_string(log).unwrap();
    assert!(said.contains(number), "{said}");
    fs::write(log, said.replace(number, other)).unwrap();
    let (_, outcome) = replay(project, 1);
    let place = outcome["difference"]["place"].as_str().unwrap();
    assert!(place.ends_with("what it used"), "{outcome}");
}

/// A program that prints a recording of the real one, another one when it continues with a session.
fn prints(project: &mut TestProject, agent: &str, ends: [&str; 2]) {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../hankweave-core/tests/fixtures/agent-streams"
    );
    let [first, next] = ends.map(|name| format!("{folder}/{agent}/{name}.jsonl"));
    let file = project.home().join(agent);
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\ncase \"$*\" in *--resume*|*--session*) file='{next}' ;; *) file='{first}' ;; esac\n\
         sed 's/\"cost\":0[.0-9]*/\"cost\":0/' \"$file\"\n"
    );
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    project.set(format!("HANKWEAVE_{}_PATH", agent.to_uppercase()), file);
}

fn two(agent: &str, model: &str) -> Value {
    let codon = |id: &str, mode: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": model, "continuationMode": mode, "promptText": "go",
            "checkpointedFiles": ["*.txt"]})
    };
    json!({"hank": [codon("one", "fresh"), codon("two", "continue-previous")]})
}

/// Neither agent reports the cost of its tokens here, and opencode not even its model.
// covers: CLI-33, RUN-22
#[test]
fn what_gemini_and_opencode_said_comes_out_as_it_is_recorded() {
    let changes = [
        (
            "gemini",
            "gemini-2.5-pro",
            r#""output_tokens":37"#,
            r#""output_tokens":38"#,
        ),
        ("opencode", "house/model", r#""output":37"#, r#""output":38"#),
    ];
    for (agent, model, number, other) in changes {
        let mut project = project();
        prints(&mut project, agent, ["resume-1-first", "resume-2-same"]);
        let price = json!({"prices": {"models": {"house/model": {"input": 7, "output": 11}}}});
        project.write("hankweave.json", price.to_string());
        project.write_hank(&two(agent, model));
        project.run(["run", "--headless"]).expect_code(0);
        fs::remove_file(project.directory().join("hankweave.json")).unwrap();
        let state = project.state(&project.directory());
        for record in state["runs"][0]["codons"].as_array().unwrap() {
            assert!(record["finalCost"].as_f64().unwrap() > 0.0, "{record:#}");
        }
        comes_out(&project, 2, &format!("two-{agent}"), number, other);
    }
}

/// The log of codex reports the tokens of the whole session at the end; their parts are in a file elsewhere.
// covers: CLI-33, RUN-22
#[test]
fn what_codex_used_is_what_its_log_and_the_recorded_messages_tell() {
    let mut project = project();
    let file = project.home().join("codex");
    fs::write(&file, CODEX).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    project.set("HANKWEAVE_CODEX_PATH", file);
    project.write_hank(&two("codex", "gpt-5.1-codex"));
    project.run(["run", "--headless"]).expect_code(0);
    fs::remove_dir_all(project.home().join(".codex")).unwrap();
    let state = project.state(&project.directory());
    let records = state["runs"][0]["codons"].as_array().unwrap();
    let used = |index: usize| records[index]["finalTokens"]["inputTokens"].as_u64();
    assert_eq!([used(0), used(1)], [Some(1000), Some(2000)], "{records:#?}");
    comes_out(
        &project,
        2,
        "two-codex",
        "\"input_tokens\":3000",
        "\"input_tokens\":3001",
    );
}

/// It uses 1000 tokens at first and 2000 when it continues, and writes down both.
const CODEX: &str = r#"#!/bin/sh
cat > /dev/null
case "$*" in *resume*) used=2000 all=3000 written=2 ;; *) used=1000 all=1000 written=1 ;; esac
mkdir -p "$HOME/.codex/sessions/2026/11/25"
file="$HOME/.codex/sessions/2026/11/25/rollout-t-1.jsonl"
at=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
echo '{"type":"thread.started","thread_id":"t-1"}'
echo '{"type":"turn.started"}'
echo '{"timestamp":"'$at'","type":"turn_context","payload":{"model":"gpt-5.1-codex"}}' >> "$file"
echo '{"timestamp":"'$at'","type":"token_usage_record","payload":{"response_id":"r-'$all'","usage":{"input_tokens":'$used',"output_tokens":1},"thread_token_usage":{"input_tokens":'$all',"output_tokens":'$written'}}}' >> "$file"
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":'$all',"output_tokens":'$written'}}'
"#;

/// Codex that uses 1000 tokens, and 2000 in the next message of its process.
const TWO_MESSAGES: &str = r#"#!/bin/sh
cat > /dev/null
mkdir -p "$HOME/.codex/sessions/2026/11/25"
file="$HOME/.codex/sessions/2026/11/25/rollout-t-1.jsonl"
at=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
record() {
  echo '{"timestamp":"'$at'","type":"token_usage_record","payload":{"response_id":"r-'$2'","usage":{"input_tokens":'$1',"output_tokens":1},"thread_token_usage":{"input_tokens":'$2',"output_tokens":'$3'}}}' >> "$file"
  echo '{"type":"item.completed","item":{"id":"item_'$3'","type":"agent_message","text":"Done."}}'
}
echo '{"type":"thread.started","thread_id":"t-1"}'
echo '{"type":"turn.started"}'
echo '{"timestamp":"'$at'","type":"turn_context","payload":{"model":"gpt-5.1-codex"}}' >> "$file"
record 1000 1000 1
record 2000 3000 2
echo '{"type":"turn.completed","usage":{"input_tokens":3000,"output_tokens":2}}'
"#;

/// Rewrites a journal as older versions wrote it: with what is new in a message in the place of the sum so far.
fn as_of_older_versions(journal: &str) -> String {
    let mut before = 0;
    let lines = journal.lines().map(|line| {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        let data = entry["data"].as_object_mut().unwrap();
        if data.contains_key("totalCost") && data.remove("message").is_some() {
            let so_far = data["inputTokens"].as_u64().unwrap();
            data["inputTokens"] = json!(so_far - before);
            data["outputTokens"] = json!(1);
            before = so_far;
        }
        format!("{entry}\n")
    });
    lines.collect()
}

// covers: CLI-33, RUN-22, WIRE-35
#[test]
fn messages_count_once_in_journals_of_this_version_and_of_older_ones() {
    let mut project = project();
    let file = project.home().join("codex");
    fs::write(&file, TWO_MESSAGES).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    project.set("HANKWEAVE_CODEX_PATH", file);
    let hank = two("codex", "gpt-5.1-codex");
    project.write_hank(&json!({"hank": [hank["hank"][0]]}));
    project.run(["run", "--headless"]).expect_code(0);
    let events = project.directory().join(".hankweave/events");
    let mut files = contents(&events).into_iter();
    let (place, journal) = files
        .find(|(place, _)| place.extension().is_some_and(|kind| kind == "jsonl"))
        .unwrap();
    let journal = String::from_utf8(journal).unwrap();
    let told: Vec<(u64, Value)> = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|entry| entry["type"] == "token.usage" && entry["data"]["modelId"].is_string())
        .map(|entry| {
            let data = &entry["data"];
            (
                data["inputTokens"].as_u64().unwrap(),
                data["message"]["inputTokens"].clone(),
            )
        })
        .collect();
    assert_eq!(told, [(1000, json!(1000)), (3000, json!(2000))]);
    replay(&project, 0);
    fs::write(place, as_of_older_versions(&journal)).unwrap();
    replay(&project, 0);
}

/// Not a story: what the next one starts as its agent.
#[test]
#[ignore = "it is the agent of another test"]
fn plays() {
    acp_agent::play_if_asked();
}

/// Its money is the sum of its session, and it is started again when its check does not pass.
// covers: CLI-33, RUN-22
#[test]
fn what_an_agent_over_acp_said_comes_out_as_it_is_recorded() {
    let project = project();
    let usage = |sum: f64| json!({"update": {"sessionUpdate": "usage_update", "used": 9, "size": 99, "cost": {"amount": sum, "currency": "USD"}}});
    let codon = |id: &str, mode: &str, sum: f64, more: Value| {
        let script = json!({"turn": [{"say": "I was told ${PROMPT}."}, {"write": {"path": "work.txt", "content": id}}, usage(sum)]});
        let mut codon = json!({"id": id, "name": id, "agent": {"acp": acp_agent::command("replay::plays")}, "continuationMode": mode,
            "promptText": "go", "env": {SCRIPT: script.to_string()}, "checkpointedFiles": ["*.txt"]});
        codon
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        codon
    };
    let check = json!({"check": {"run": "echo >> tries; [ $(wc -l < tries) -ge 2 ]", "retries": 2}});
    let codons = [
        codon("one", "fresh", 0.25, json!({})),
        codon("two", "continue-previous", 0.75, json!({})),
        codon("three", "fresh", 0.25, check),
    ];
    project.write_hank(&json!({"hank": codons}));
    project.run(["run", "--headless"]).expect_code(0);
    let state = project.state(&project.directory());
    let costs: Vec<&Value> = state["runs"][0]["codons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| &record["finalCost"])
        .collect();
    assert_eq!(costs, [0.25, 0.5, 0.25]);
    comes_out(&project, 3, "two-acp", "0.75", "0.85");
}

/// What a model says to two codons, the second of which continues in the session of the first.
fn turns() -> Value {
    json!({"turns": [
        {"text": "I write it.", "tools": [{"op": "write", "path": "${CWD}/a.txt", "content": "x"}], "usage": {"input": 900, "output": 40}},
        {"text": "Done.", "usage": {"input": 1000, "output": 5}},
        {"text": "Again.", "usage": {"input": 700, "output": 9}},
    ]})
}

/// What the real programs said and used, once more without them.
// covers: CLI-33, RUN-22
#[test]
fn executions_of_real_agents_come_out_as_they_are_recorded() {
    let check = |project: &TestProject, codons: [Value; 2]| {
        project.write_hank(&json!({"hank": codons}));
        project.run(["run", "--headless"]).expect_code(0);
        let (_, outcome) = replay(project, 0);
        assert!(outcome["fromLogs"].as_u64().unwrap() >= 4, "{outcome}");
    };
    let modes = [("one", "fresh"), ("two", "continue-previous")];
    if let Some((project, server)) = real_stories::stage("", turns()) {
        let codons = modes.map(|(id, mode)| {
            real(
                &server,
                id,
                mode,
                "TASK",
                &json!({"checkpointedFiles": ["*.txt"]}),
            )
        });
        check(&project, codons);
    }
    for agent in RealAgent::all() {
        let (project, _server) = agent.stage(turns());
        check(&project, modes.map(|(id, mode)| agent.codon(id, mode, "TASK")));
    }
}
