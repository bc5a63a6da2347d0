//! A run in which everything happens, as a client sees it on a real socket (WIRE-15).

use std::collections::BTreeSet;
use std::time::Duration;

use hankweave_testing::{Running, TestProject};
use serde_json::{Value, json};

use crate::guest::Guest;
use crate::support::project;

const MODEL: &str = "claude-sonnet-4-5";

fn command(run: &str) -> Value {
    json!({"type": "command", "command": {"run": run}})
}

/// A codon of the scripted agent with these turns.
fn codon(project: &TestProject, id: &str, turns: &Value, more: &Value) -> Value {
    let file = format!("{id}.json");
    project.write(&file, json!({"turns": turns}).to_string());
    let mut codon = json!({"id": id, "name": id, "agent": {"script": file}, "model": MODEL, "continuationMode": "fresh",
        "promptText": "go", "checkpointedFiles": ["*.txt"]});
    codon
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    codon
}

/// A codon that does everything, a loop of two iterations, one that leaves processes and files, and one whose results cannot be copied.
fn write_hank(project: &TestProject) {
    let busy = json!([
        {"thinking": "First a file.", "text": "Here it is.", "usage": {"input": 1_000, "output": 10},
            "tools": [{"write": {"path": "busy.txt", "content": "written"}}, {"bash": {"command": "exit 3"}}]},
        {"raw": "no JSON", "hugeLine": 20_000_000},
    ]);
    let mut fails = command("echo to nobody >&2; exit 7");
    fails["allowFailure"] = json!(true);
    let busy = codon(
        project,
        "busy",
        &busy,
        &json!({"rigSetup": [command("echo the rig speaks; touch busy.tmp"), fails], "archiveOnSuccess": ["busy.tmp"],
            "exhaustWithPrompt": "more", "maxExtensions": 1}),
    );
    let round = codon(
        project,
        "round",
        &json!([{"text": "again", "tools": [{"write": {"path": "round.tmp", "content": "${ITERATION}"}}]}]),
        &json!({"archiveOnSuccess": ["round.tmp"]}),
    );
    let rounds = json!({"type": "loop", "id": "rounds", "name": "Rounds", "codons": [round],
        "terminateOn": {"type": "iterationLimit", "limit": 2}});
    project.write("template/page.md", "a template");
    project.write("other/page.md", "another template");
    let copy = |from: &str| json!({"type": "copy", "copy": {"from": from, "to": format!("copy-of-{from}")}});
    // What the archive needs a folder for is a file.
    let place = command("touch last.tmp rigArchive/last");
    let last = codon(
        project,
        "last",
        &json!([{"tools": [{"write": {"path": "copy-of-other/page.md", "content": "changed"}}]}]),
        &json!({"rigSetup": [copy("template"), copy("other"), place], "archiveOnSuccess": ["last.tmp"]}),
    );
    let groups = json!([{"copy": ["*.txt"], "beforeCopy": [command("exit 1")]}]);
    let lost = codon(project, "lost", &json!([]), &json!({"outputFiles": groups}));
    project.write_hank(
        &json!({"hank": [busy, rounds, last, lost], "overrides": {"budget": {"maxDollars": 100}}}),
    );
}

fn start(project: &TestProject) -> (Running, Guest) {
    let running = project.start(["run", "--headless", "--no-autostart", "-o", "out"]);
    let guest = Guest::enter(&project.directory(), "readandwrite");
    (running, guest)
}

fn of<'g>(guest: &'g Guest, name: &str) -> Vec<&'g Value> {
    let named = guest.heard.iter().filter(|message| message["type"] == name);
    named.map(|message| &message["data"]).collect()
}

/// Each event is described in `docs/protocol.md` as well, which names this test for most of them.
// covers: STATE-46, WIRE-15
#[test]
fn a_client_sees_everything_that_can_happen_in_a_run() {
    let project = project();
    write_hank(&project);
    let (running, mut guest) = start(&project);
    guest.idle("startup");
    for id in ["busy", "round#0", "round#1", "last"] {
        assert_eq!(guest.command(id, "codon.next")["data"]["codonId"], id);
        guest.idle("codon-completed");
    }
    guest.command("list", "checkpoint.list");
    guest.send(json!({"id": "back", "type": "rollback.toCodon", "data": {"codonId": "busy", "checkpointType": "end"}}));
    guest.idle("rollback-completed");
    guest.send(json!({"id": "lost", "type": "codon.start", "data": {"codonId": "lost"}}));
    guest.until(|message| message["type"] == "run.ended" && message["data"]["outcome"] == "failed");
    running.finish_within(Duration::from_secs(60)).expect_code(1);

    let seen: BTreeSet<&str> = guest
        .heard
        .iter()
        .filter(|message| message["seq"].is_u64())
        .map(|message| message["type"].as_str().unwrap())
        .collect();
    let expected = [
        "archive.completed",
        "archive.partial",
        "assistant.action",
        "budget.summary",
        "checkpoint.list",
        "codon.completed",
        "codon.extended",
        "codon.prompted",
        "codon.started",
        "command.accepted",
        "error",
        "file.updated",
        "filetree.updated",
        "info",
        "loop.iteration.completed",
        "output.truncated",
        "output.unparsed",
        "progress",
        "rig.output",
        "rig.setup.completed",
        "rig.setup.failed",
        "rollback.archiveRestore",
        "rollback.codonCheckpoint",
        "rollback.completed",
        "rollback.progress",
        "rollback.rigCleanup",
        "rollback.started",
        "run.described",
        "run.ended",
        "server.idle",
        "state.transition",
        "token.usage",
        "tool.result",
    ];
    assert_eq!(seen, expected.into());
    check_data(&guest);
}

/// All fields of `token.usage` say what the codon has used so far, and `message` what the message has.
// covers: WIRE-35
#[test]
fn usage_is_that_of_the_codon_so_far_in_every_field() {
    let project = project();
    let turn = json!({"text": "on", "usage": {"input": 1_000, "output": 10, "cacheRead": 5}});
    project.write("script.json", json!({"turns": [turn, turn, turn]}).to_string());
    let dear = json!({"id": "big", "name": "Big", "command": ["wc", "-l"], "execution": {"strategy": "count", "threshold": 10},
        "trigger": {"type": "event", "on": ["token.usage"], "conditions": [
            {"path": "inputTokens", "operator": "greaterThan", "value": 1_500},
            {"path": "message.inputTokens", "operator": "lessThan", "value": 1_500}]}});
    let codon = json!({"id": "a", "name": "A", "agent": {"script": "script.json"}, "model": MODEL, "continuationMode": "fresh", "promptText": "go",
        "sentinels": [{"sentinelConfig": dear, "settings": {"reportToWebsocket": {"triggers": true}}}]});
    project.write_hank(&json!({"hank": [codon]}));
    let finished = project.run(["run", "--headless", "--json"]);
    let lines = finished.expect_code(0).json_lines();
    let of = |kind: &str| -> Vec<Value> {
        let lines = lines.iter().filter(|line| line["type"] == kind);
        lines.map(|line| line["data"].clone()).collect()
    };
    let usage = of("token.usage");
    let field = |name: &str| -> Vec<u64> {
        usage
            .iter()
            .map(|data| data[name].as_u64().unwrap_or_else(|| panic!("{name} in {data}")))
            .collect()
    };
    assert_eq!(field("inputTokens")[..3], [1_000, 2_000, 3_000]);
    // As claude itself, it reports what it wrote at its end.
    assert_eq!(field("outputTokens")[..3], [1, 2, 3]);
    assert_eq!(field("outputTokens").last(), Some(&30));
    assert_eq!(field("cacheReadTokens")[..3], [5, 10, 15]);
    let message =
        json!({"inputTokens": 1_000, "outputTokens": 1, "cacheCreationTokens": 0, "cacheReadTokens": 5});
    assert!(
        usage[..3].iter().all(|data| data["message"] == message),
        "{usage:#?}"
    );
    let costs: Vec<f64> = usage
        .iter()
        .map(|data| data["totalCost"].as_f64().unwrap())
        .collect();
    assert!(costs[..3].windows(2).all(|two| two[0] < two[1]), "{costs:?}");
    // The sum that an agent reports at its end is that of its messages.
    assert!(
        usage[3..]
            .iter()
            .all(|data| data["inputTokens"] == 3_000 && data.get("message").is_none())
    );
    // Two of the three are beyond 1,500 tokens so far, and none by itself.
    assert_eq!(of("sentinel.triggered")[0]["eventCount"], 2);
}

/// What the events say, where nothing else shows it.
fn check_data(guest: &Guest) {
    let actions: BTreeSet<&str> = of(guest, "assistant.action")
        .iter()
        .map(|data| data["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["message", "thinking", "tool_use"].into());
    let result = of(guest, "tool.result")[1];
    assert_eq!(
        (&result["isError"], &result["truncated"]),
        (&json!(true), &json!(false))
    );
    let usage = of(guest, "token.usage")[0];
    assert_eq!(
        (&usage["inputTokens"], &usage["modelId"]),
        (&json!(1_000), &json!(MODEL))
    );
    assert!(
        usage["totalCost"].as_f64().is_some_and(|cost| cost > 0.0),
        "{usage}"
    );
    let printed: Vec<&Value> = of(guest, "rig.output").iter().map(|data| &data["line"]).collect();
    assert!(
        printed.contains(&&json!("the rig speaks")) && printed.contains(&&json!("to nobody")),
        "{printed:?}"
    );
    let failed = of(guest, "rig.setup.failed")[0];
    assert_eq!(
        (
            &failed["failureType"],
            &failed["exitCode"],
            &failed["commandIndex"],
            &failed["ignored"]
        ),
        (&json!("command_failed"), &json!(7), &json!(1), &json!(true))
    );
    let iterations: Vec<(&Value, &Value)> = of(guest, "loop.iteration.completed")
        .iter()
        .map(|data| (&data["iteration"], &data["isFinal"]))
        .collect();
    assert_eq!(
        iterations,
        [(&json!(0), &json!(false)), (&json!(1), &json!(true))]
    );
    assert_eq!(of(guest, "error")[0]["code"], "OUTPUT_FAILED");

    // A copy that was changed is the user's work and stays (RUN-20).
    let cleanups = of(guest, "rollback.rigCleanup");
    let directories = json!(["copy-of-other", "copy-of-template"]);
    assert_eq!(
        cleanups[0],
        &json!({"codonId": "last", "codonName": "last", "directories": directories, "status": "started"})
    );
    let changed = json!([{"directory": "copy-of-other", "error": "it was changed since it was copied"}]);
    assert_eq!(
        cleanups[1..],
        [
            &json!({"codonId": "last", "codonName": "last", "directories": directories, "status": "partial",
            "successfulCleanups": ["copy-of-template"], "failedCleanups": changed})
        ]
    );
}
