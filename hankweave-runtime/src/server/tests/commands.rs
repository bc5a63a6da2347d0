//! Every command on a real socket (WIRE-12, WIRE-13).

use hankweave_core::codon::CodonStatus;
use hankweave_core::thread;
use serde_json::{Value, json};

use super::guest::{Guest, soon};
use super::*;
use crate::options::OutputDirectory;
use crate::runner::RunResult;

// covers: WIRE-13
#[tokio::test]
async fn a_run_is_taken_through_its_codons_by_commands() {
    let project = waiting(&["one", "wait", "three"]);
    let live = live(project).await;
    let mut guest = Guest::commander(&live).await;
    guest.refused("codon.redo", json!(null), "NOTHING_TO_REDO").await;
    guest.refused("codon.skip", json!(null), "NOTHING_RUNNING").await;
    guest
        .refused("codon.forceStop", json!(null), "NOTHING_RUNNING")
        .await;

    let first = guest.accepted("1", "codon.next", json!(null)).await;
    assert_eq!(
        (&first["outcome"], &first["codonId"]),
        (&json!("starting"), &json!("a"))
    );
    let started = guest.started("a").await;
    assert!(
        started["seq"].as_u64() > first["seq"].as_u64(),
        "what a command causes comes after it"
    );
    guest.idle("codon-completed").await;

    guest.accepted("2", "codon.next", json!(null)).await;
    guest.started("b").await;
    let refused = guest.refused("codon.next", json!(null), "CODON_RUNNING").await;
    assert!(refused["hint"].as_str().is_some_and(|hint| !hint.is_empty()));
    guest.refused("codon.redo", json!(null), "CODON_RUNNING").await;
    guest
        .refused("rollback.toLastSuccess", json!(null), "CODON_RUNNING")
        .await;
    let skipped = guest.accepted("3", "codon.skip", json!(null)).await;
    assert_eq!(
        (&skipped["outcome"], &skipped["codonId"]),
        (&json!("stopping"), &json!("b"))
    );
    guest.idle("codon-completed").await;

    let redone = guest.accepted("4", "codon.redo", json!(null)).await;
    assert_eq!(redone["codonId"], "b");
    guest.started("b").await;
    guest
        .accepted("5", "codon.forceStop", json!({"reason": "too slow"}))
        .await;
    guest.idle("codon-completed").await;
    guest.refused("codon.next", json!(null), "CODON_FAILED").await;
    let failure = serde_json::to_value(&*live.state().runs[0].codons[0]).unwrap();
    assert_eq!(failure["failureReason"]["message"], "Force stopped: too slow");
    let is_told =
        |message: &Value| message["type"] == "info" && message["data"]["message"] == "Codon b force stopped";
    assert!(guest.heard.iter().any(is_told), "{:#?}", guest.heard);

    let (mut late, _) = Guest::enter(&live, json!({"mode": "readonly"})).await;
    let incomplete = late.until("incomplete.codon").await;
    assert_eq!(
        (&incomplete["data"]["codonId"], &incomplete["data"]["codonName"]),
        (&json!("b"), &json!("b"))
    );

    guest.accepted("6", "codon.redo", json!(null)).await;
    guest.started("b").await;
    guest.accepted("7", "codon.skip", json!(null)).await;
    guest.idle("codon-completed").await;
    guest.accepted("8", "codon.next", json!(null)).await;
    guest.idle("all-codons-completed").await;
    guest.refused("codon.next", json!(null), "NOTHING_NEXT").await;
    assert_eq!(live.project.done(), "one\nwait\nwait\nwait\nthree\n");
    live.stop().await;
}

// covers: WIRE-12
#[tokio::test]
async fn any_codon_of_the_plan_is_started_on_command() {
    let live = live(waiting(&["one", "two"])).await;
    let mut guest = Guest::commander(&live).await;
    guest
        .refused("codon.start", json!({"codonId": "nobody"}), "UNKNOWN_CODON")
        .await;
    let data = json!({"codonId": "b", "skipPreCommands": true});
    for (id, runs) in [("1", 1), ("2", 2)] {
        let started = guest.accepted(id, "codon.start", data.clone()).await;
        assert_eq!(
            (&started["outcome"], &started["codonId"]),
            (&json!("starting"), &json!("b"))
        );
        guest.started("b").await;
        guest.until("server.idle").await;
        assert_eq!(live.state().runs.len(), runs);
    }
    assert_eq!(live.project.done(), "two\ntwo\n");
    live.stop().await;
}

// covers: WIRE-11, WIRE-13, WIRE-20
#[tokio::test]
async fn a_run_goes_back_to_where_a_client_wants_it() {
    let project = waiting(&["one", "two"]);
    let live = live(project).await;
    let mut guest = Guest::commander(&live).await;
    guest
        .refused("checkpoint.list", json!({"runId": "nobody"}), "UNKNOWN_RUN")
        .await;
    for id in ["1", "2"] {
        guest.accepted(id, "codon.next", json!(null)).await;
        guest.until("codon.completed").await;
        guest.until("server.idle").await;
    }
    guest.send(json!({"id": "3", "type": "checkpoint.list"})).await;
    let list = guest.until("checkpoint.list").await["data"].clone();
    let run = live.state().runs[0].clone();
    assert_eq!(
        (&list["runId"], &list["currentBranch"]),
        (&json!(run.run_id), &json!(run.git_branch))
    );
    let checkpoints = list["checkpoints"].as_array().unwrap();
    let shown = |index: usize| {
        let checkpoint = &checkpoints[index];
        [
            &checkpoint["codonId"],
            &checkpoint["codonName"],
            &checkpoint["checkpointType"],
            &checkpoint["status"],
        ]
        .map(|value| value.as_str().unwrap().to_owned())
    };
    assert_eq!(
        (checkpoints.len(), shown(0), shown(1)),
        (
            2,
            ["b", "b", "completed", "completed"].map(str::to_owned),
            ["a", "a", "completed", "completed"].map(str::to_owned)
        )
    );
    let sha = checkpoints[1]["sha"].as_str().unwrap().to_owned();

    let to_codon = |id: &str, point: &str| json!({"codonId": id, "checkpointType": point});
    guest
        .refused("rollback.toCodon", to_codon("nobody", "end"), "ROLLBACK_FAILED")
        .await;
    guest
        .refused("rollback.toCodon", to_codon("a", "rig-setup"), "ROLLBACK_FAILED")
        .await;
    guest
        .refused(
            "rollback.toCheckpoint",
            json!({"checkpointSha": "f".repeat(40)}),
            "ROLLBACK_FAILED",
        )
        .await;
    guest
        .refused(
            "rollback.toCheckpoint",
            json!({"checkpointSha": &sha[..11]}),
            "INVALID_COMMAND",
        )
        .await;

    for (id, name, data) in [
        ("4", "rollback.toCodon", to_codon("a", "end")),
        ("5", "rollback.toCheckpoint", json!({"checkpointSha": &sha[..12]})),
        ("6", "rollback.toLastSuccess", json!({"autoRestart": false})),
    ] {
        let done = guest.accepted(id, name, data).await;
        assert_eq!(
            (&done["outcome"], &done["codonId"], &done["nextCodonId"]),
            (&json!("rolled-back"), &json!("a"), &json!("b")),
            "{done}"
        );
        guest.idle("rollback-completed").await;
        let told = |name: &str| {
            guest
                .heard
                .iter()
                .rev()
                .find(|message| message["type"] == name)
                .unwrap()
        };
        assert_eq!(told("rollback.started")["data"]["toCheckpoint"], sha.as_str());
        assert_eq!(told("rollback.completed")["data"]["checkpoint"], sha.as_str());
        assert_eq!(live.project.done(), "one\n");
    }
    live.stop().await;
}

// covers: STATE-67
#[tokio::test]
async fn a_rollback_of_a_live_run_is_undone_by_its_id_and_nothing_else_is() {
    let live = live(waiting(&["one", "two"])).await;
    let mut guest = Guest::commander(&live).await;
    for id in ["1", "2"] {
        guest.accepted(id, "codon.next", json!(null)).await;
        guest.until("codon.completed").await;
        guest.until("server.idle").await;
    }
    let run = thread::name(live.state().runs[0].run_id.as_str());
    let undo = |id: &str| json!({"operation": id});
    guest
        .refused("rollback.undo", undo(&run), "ROLLBACK_FAILED")
        .await;
    let back = json!({"codonId": "a", "checkpointType": "end"});
    guest.accepted("3", "rollback.toCodon", back).await;
    guest.idle("rollback-completed").await;
    assert_eq!(live.project.done(), "one\n");

    let view = guest.command("4", "view.get", json!(null)).await["data"]["view"].clone();
    let operation = live.state().operations.last().unwrap().id.clone();
    assert_eq!(view["undo"]["operation"], operation.as_str(), "{view}");
    guest
        .refused("rollback.undo", undo("0123456789ab"), "ROLLBACK_FAILED")
        .await;
    let done = guest.accepted("5", "rollback.undo", undo(&operation)).await;
    assert_eq!(
        (&done["outcome"], &done["codonId"], &done["nextCodonId"]),
        (&json!("rolled-back"), &json!("b"), &Value::Null),
        "{done}"
    );
    guest.idle("rollback-completed").await;
    assert_eq!(live.project.done(), "one\ntwo\n");
    let state = live.state();
    assert_eq!(
        state.operations.last().unwrap().undoes.as_deref(),
        Some(&*operation)
    );
    guest
        .refused("rollback.undo", undo(&operation), "ROLLBACK_FAILED")
        .await;
    let view = guest.command("6", "view.get", json!(null)).await["data"]["view"].clone();
    assert!(view["undo"].is_null(), "an undo is not undone: {view}");
    live.stop().await;
}

#[tokio::test]
async fn pings_go_to_one_and_broadcasts_to_all_who_shook_hands() {
    let live = live(waiting(&["one"])).await;
    let mut guest = Guest::commander(&live).await;
    let (mut reader, _) = Guest::enter(&live, json!({"mode": "readonly"})).await;
    let (mut stranger, _) = Guest::connect(&live, &live.token).await.unwrap();
    let pong = guest.command("p", "ping", json!(null)).await;
    assert_eq!(
        (&pong["type"], &pong["data"]["message"], &pong["data"]["clientId"]),
        (&json!("pong"), &json!("pong"), &Value::Null)
    );
    assert!(pong["data"]["timestamp"].is_string());
    let session = guest
        .heard
        .iter()
        .find(|message| message["type"] == "handshake.response")
        .unwrap();
    let client = session["data"]["clientId"].clone();
    guest.send(json!({"id": "b", "type": "ping.broadcast"})).await;
    for one in [&mut guest, &mut reader] {
        assert_eq!(one.until("pong").await["data"]["clientId"], client);
    }
    let session = stranger.shake(json!({"mode": "readonly"})).await;
    assert_eq!(
        (stranger.heard.len(), &session["mode"]),
        (1, &json!("readonly")),
        "no pong before"
    );
    live.stop().await;
}

// covers: F20
#[tokio::test]
async fn a_client_that_dies_and_repeats_its_command_starts_nothing_twice() {
    let project = waiting(&["one", "two"]);
    let live = live(project).await;
    let mut guest = Guest::commander(&live).await;
    let mut watcher = Guest::commander(&live).await;
    guest.send(json!({"id": "only-once", "type": "codon.next"})).await;
    drop(guest);
    watcher.idle("codon-completed").await;
    let mut again = Guest::commander(&live).await;
    let data = again.accepted("only-once", "codon.next", json!(null)).await;
    assert_eq!((&data["repeated"], &data["codonId"]), (&json!(true), &json!("a")));
    // A different command under a known id is a new command.
    again.refused("codon.skip", json!(null), "NOTHING_RUNNING").await;
    assert_eq!(live.project.done(), "one\n");
    assert_eq!(live.state().runs[0].codons.len(), 1);
    live.stop().await;
}

// covers: WIRE-14
#[tokio::test]
async fn the_server_is_stopped_in_order_and_says_good_bye() {
    let live = live(Project::new(&["wait"])).await;
    let mut guest = Guest::commander(&live).await;
    guest.accepted("s", "server.shutdown", json!(null)).await;
    let code = guest.closed().await;
    assert_eq!(code, Some(1001));
    assert!(
        guest
            .heard
            .iter()
            .any(|message| message["data"]["transitionType"] == "RunFailed"),
        "the end was told"
    );
    let outcome = soon(live.task).await.unwrap().unwrap();
    assert_eq!(outcome.result, RunResult::Stopped(StopCause::Request));
}

// The run counts as unfinished, although it was stopped on purpose.
// covers: WIRE-13
#[tokio::test]
async fn the_server_is_stopped_by_force() {
    let live = live(Project::new(&["wait"])).await;
    let mut guest = Guest::commander_from_the_beginning(&live).await;
    guest.started("a").await;
    guest.accepted("f", "server.force_shutdown", json!(null)).await;
    assert_eq!(guest.closed().await, Some(1001));
    let outcome = soon(live.task).await.unwrap().unwrap();
    assert_eq!(outcome.result, RunResult::Stopped(StopCause::ForcedRequest));
    assert_eq!(StopCause::ForcedRequest.exit_code(), 3);
}

// covers: WIRE-8
#[tokio::test]
async fn a_message_that_is_no_command_is_answered_and_harms_nothing() {
    let live = live(waiting(&["one"])).await;
    let mut guest = Guest::commander(&live).await;
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    for (text, code, words) in [
        ("no json", "NOT_JSON", "Command execution failed: "),
        ("[]", "INVALID_COMMAND", "Invalid command format: "),
        (
            r#"{"type": "ping"}"#,
            "INVALID_COMMAND",
            "Invalid command format: id: is missing",
        ),
        (
            r#"{"id": "a", "type": "codon.explode"}"#,
            "UNKNOWN_COMMAND",
            "Invalid command format: ",
        ),
        (
            r#"{"id": "a", "type": "codon.start", "data": {"codonId": "../x"}}"#,
            "INVALID_COMMAND",
            "Invalid command format: data.codonId: ",
        ),
        (&deep, "TOO_DEEP", "Command execution failed: "),
    ] {
        guest.say(text).await;
        let error = guest.until("error").await;
        assert_eq!(error["data"]["code"], code, "{error}");
        assert!(
            error["data"]["message"].as_str().unwrap().starts_with(words),
            "{error}"
        );
    }
    guest.accepted("n", "codon.next", json!(null)).await;
    guest.idle("all-codons-completed").await;
    assert_eq!(live.state().runs[0].codons[0].status(), CodonStatus::Completed);
    live.stop().await;
}

// covers: HANK-41
#[tokio::test]
async fn a_failure_waits_for_a_client_that_can_act() {
    let live = live(Project::new(&["wait fail"])).await;
    let mut guest = Guest::commander_from_the_beginning(&live).await;
    guest.started("a").await;
    guest.accepted("f", "codon.forceStop", json!(null)).await;
    guest.idle("codon-completed").await;
    guest.accepted("r", "codon.redo", json!(null)).await;
    guest.started("a").await;
    guest.accepted("s", "codon.skip", json!(null)).await;
    assert_eq!(guest.closed().await, Some(1001));
    assert_eq!(
        soon(live.task).await.unwrap().unwrap().result,
        RunResult::Completed
    );
}

/// Clients show a codon as ended while its results are still being copied.
// covers: WIRE-13
#[tokio::test]
async fn what_needs_a_moment_without_a_codon_waits_for_the_results_of_one_that_has_ended() {
    let mut project = waiting(&["one", "two"]);
    project.options.output = Some(OutputDirectory {
        path: project.work().with_file_name("results"),
        overwrite: true,
    });
    let until_told = json!({"run": "until [ -e go ]; do sleep 0.02; done"});
    let outputs = json!([{"beforeCopy": [{"type": "command", "command": until_told}], "copy": ["done.txt"]}]);
    project.write(&["one", "two"], &json!({"outputFiles": outputs}));
    let live = live(project).await;
    let mut guest = Guest::commander(&live).await;
    guest.accepted("1", "codon.next", json!(null)).await;
    let is_end = |message: &Value| {
        let transition = &message["data"]["transition"];
        message["type"] == "state.transition" && transition.to_string().contains("\"to\":\"completed\"")
    };
    guest.until_that(is_end).await;
    guest
        .send(json!({"id": "2", "type": "codon.redo", "data": null}))
        .await;
    // A later command is answered first.
    guest
        .refused("codon.approve", json!({"codonId": "b"}), "NOT_ASKED")
        .await;
    let is_answer = |message: &Value| message["commandId"] == "2" || message["data"]["commandId"] == "2";
    assert!(!guest.heard.iter().any(is_answer), "{:#?}", guest.heard);
    std::fs::write(live.project.work().join("go"), "").unwrap();
    let redone = guest.answer("2").await;
    assert_eq!(
        (&redone["type"], &redone["data"]["codonId"]),
        (&json!("command.ack"), &json!("a")),
        "{redone}"
    );
    guest.started("a").await;
}
