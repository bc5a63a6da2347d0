//! The view of a run on a real socket, and the events that it needs (WIRE-40, WIRE-41).

use hankweave_core::view::apply_patch;
use serde_json::{Value, json};

use super::guest::Guest;
use super::*;

/// The view that a client has by now.
fn view_of(guest: &Guest) -> Value {
    let mut view = Value::Null;
    for message in &guest.heard {
        let data = &message["data"];
        match message["type"].as_str() {
            Some("view") => view = data["view"].clone(),
            Some("view.patch") => {
                assert_eq!(data["from"], view["seq"], "no patch is missing");
                apply_patch(&mut view, &data["patch"]);
                assert_eq!(data["seq"], view["seq"]);
            }
            _ => {}
        }
    }
    view
}

async fn until_state(guest: &mut Guest, state: &str) {
    while view_of(guest)["state"] != state {
        guest.next().await.unwrap();
    }
}

fn of_type<'g>(guest: &'g Guest, wanted: &str) -> Vec<&'g Value> {
    let messages = guest.heard.iter().filter(|message| message["type"] == wanted);
    messages.map(|message| &message["data"]).collect()
}

// covers: WIRE-37, WIRE-40
#[tokio::test]
async fn a_client_follows_the_view_by_patches_alone() {
    let live = live(waiting(&["one", "wait"])).await;
    let (mut watcher, _) =
        Guest::enter(&live, json!({"mode": "readonly", "view": true, "events": false})).await;
    until_state(&mut watcher, "idle").await;
    assert_eq!(view_of(&watcher)["order"], json!(["a", "b"]));
    let mut commander = Guest::commander(&live).await;
    commander.accepted("1", "codon.next", json!(null)).await;
    commander.idle("codon-completed").await;
    commander.accepted("2", "codon.next", json!(null)).await;
    commander.started("b").await;
    until_state(&mut watcher, "running").await;
    commander.accepted("3", "codon.skip", json!(null)).await;
    commander.idle("all-codons-completed").await;
    let shown = |view: &Value| {
        let state = |item: &str| view["items"][item]["attempts"]["1.1"]["state"].clone();
        (state("a"), state("b"))
    };
    while shown(&view_of(&watcher)) != (json!("completed"), json!("skipped")) {
        watcher.next().await.unwrap();
    }
    until_state(&mut watcher, "idle").await;
    let (mut late, _) = Guest::enter(&live, json!({"mode": "readonly", "view": true})).await;
    let whole = late.until("view").await["data"]["view"].clone();
    let asked = watcher.command("v", "view.get", json!(null)).await["data"]["view"].clone();
    assert_eq!(asked, whole, "whoever comes later sees what the others see");
    assert_eq!(view_of(&watcher), whole);
    assert!(
        watcher.heard.iter().all(|message| !message["seq"].is_u64()),
        "it wanted no events"
    );
    let end = tokio::spawn(live.stop());
    assert_eq!(watcher.closed().await, Some(1001));
    end.await.unwrap();
    assert_eq!(view_of(&watcher)["state"], "completed");
}

// covers: WIRE-41
#[tokio::test]
async fn a_run_says_what_it_is_who_asked_and_how_it_ended() {
    let mut project = waiting(&["one"]);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": id, "model": "m", "continuationMode": "fresh", "agent": "actor",
            "promptText": prompt, "checkpointedFiles": ["*.txt"]})
    };
    let mut last = codon("b", "two");
    last["approval"] = json!("May it be published?");
    let round = json!({"type": "loop", "id": "l", "name": "Round", "codons": [codon("a", "one")],
        "terminateOn": {"type": "iterationLimit", "limit": 1}});
    project.write_items(&json!([round, last]));
    project.options.ceiling.max_dollars = Some(hankweave_core::cost::Usd::from_micros(5_000_000));
    let live = live(project).await;
    let mut guest = Guest::commander_from_the_beginning(&live).await;
    let described = guest.until("run.described").await["data"].clone();
    assert_eq!(
        described,
        json!({"goal": "one", "maxDollars": 5, "loops": [{"id": "l", "name": "Round", "most": 1}]})
    );
    guest.accepted("1", "codon.next", json!(null)).await;
    let asked = guest.until("approval.requested").await["data"].clone();
    assert_eq!(asked, json!({"codonId": "b", "question": "May it be published?"}));
    guest.idle("approval-required").await;
    guest
        .accepted("2", "codon.deny", json!({"reason": "not on a Friday"}))
        .await;
    let ended = guest.until("run.ended").await["data"].clone();
    let run = live.state().runs[0].run_id.to_string();
    assert_eq!(
        ended,
        json!({"runId": run, "outcome": "paused", "cause": "b: it was denied: not on a Friday"})
    );
    let accepted: Vec<(&str, &str)> = of_type(&guest, "command.accepted")
        .iter()
        .map(|data| {
            (
                data["command"].as_str().unwrap(),
                data["reason"].as_str().unwrap_or(""),
            )
        })
        .collect();
    assert_eq!(accepted, [("codon.next", ""), ("codon.deny", "not on a Friday")]);
    let session = of_type(&guest, "handshake.response")[0]["clientId"].clone();
    assert_eq!(of_type(&guest, "command.accepted")[0]["clientId"], session);
    let started = of_type(&guest, "codon.started")[0];
    assert_eq!(
        (&started["agent"], &started["model"]),
        (&json!("actor"), &json!("m"))
    );
    let prompted = of_type(&guest, "codon.prompted");
    assert_eq!(prompted, [&json!({"codonId": "a#0", "prompt": "one"})]);
    assert_eq!(of_type(&guest, "run.described").len(), 1, "once a run");
    live.task.await.unwrap().unwrap();
}

// covers: HANK-62, WIRE-41
#[cfg(unix)]
#[tokio::test]
async fn a_check_that_ran_is_told_with_its_last_line() {
    let project = waiting(&["one"]);
    let codon = json!({"id": "a", "name": "a", "model": "m", "continuationMode": "fresh", "agent": "actor",
        "promptText": "one", "checkpointedFiles": ["*.txt"]});
    let run = "echo first; echo 3 of 148 are red; test \"$(wc -l < done.txt)\" -ge 2";
    project.write_items(
        &json!([{"type": "loop", "id": "l", "name": "l", "codons": [codon],
        "terminateOn": {"type": "untilCheckPasses", "run": run, "limit": 3}}]),
    );
    let live = live(project).await;
    let mut guest = Guest::commander_from_the_beginning(&live).await;
    for id in ["1", "2"] {
        guest.accepted(id, "codon.next", json!(null)).await;
        guest.until("check.completed").await;
        guest.until("server.idle").await;
    }
    let checks: Vec<Value> = of_type(&guest, "check.completed").into_iter().cloned().collect();
    assert_eq!(checks.len(), 2, "{checks:#?}");
    let told = |check: &Value| {
        (
            check["loopId"].clone(),
            check["passed"].clone(),
            check["says"].clone(),
        )
    };
    assert_eq!(
        told(&checks[0]),
        (json!("l"), json!(false), json!("3 of 148 are red"))
    );
    assert_eq!(
        told(&checks[1]),
        (json!("l"), json!(true), json!("3 of 148 are red"))
    );
    assert!(
        checks[0]["why"].as_str().is_some_and(|why| why.contains('1')),
        "{:#}",
        checks[0]
    );
    assert_eq!(checks[0]["run"], run);
    live.stop().await;
}
