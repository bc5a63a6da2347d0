//! Nothing is lost and nothing comes twice (WIRE-4, WIRE-5, P2).

use std::time::{Duration, Instant};

use serde_json::json;

use super::guest::{Guest, soon};
use super::*;
use crate::runner::RunResult;

#[tokio::test]
async fn a_client_that_comes_in_the_middle_gets_each_event_once_and_in_order() {
    let live = live(waiting(&["one"])).await;
    live.chatter(700, 10).await;
    let enter = |handshake| Guest::enter(&live, handshake);
    // After everything, after some, and from now on, while events come.
    let visits = async {
        let all = enter(json!({"mode": "readonly", "afterSeq": 0})).await;
        let some = enter(json!({"mode": "readonly", "afterSeq": 300})).await;
        let newest = enter(json!({"mode": "readonly", "sendPreviousEvents": true})).await;
        (all.0, some.0, newest)
    };
    let ((), (mut all, mut some, (mut newest, session))) = tokio::join!(live.chatter(2_000, 10), visits);
    live.say("the very end").await;
    let is_end = |message: &serde_json::Value| message["data"]["message"] == "the very end";
    tokio::join!(
        all.until_that(is_end),
        some.until_that(is_end),
        newest.until_that(is_end)
    );
    let (all, some) = (all.numbers(), some.numbers());
    let history: Vec<u64> = session["eventHistory"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(
        (history.len(), history.last().copied()),
        (50, session["lastSeq"].as_u64())
    );
    let joined = [history, newest.numbers()].concat();
    let journaled = live.journaled();
    let until = |numbers: &[u64]| {
        journaled
            .iter()
            .copied()
            .filter(|seq| seq <= numbers.last().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(all, until(&all));
    assert_eq!(
        some,
        until(&some)
            .into_iter()
            .filter(|seq| *seq > 300)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        joined,
        until(&joined)
            .into_iter()
            .filter(|seq| *seq >= joined[0])
            .collect::<Vec<_>>()
    );
    live.stop().await;
}

// covers: WIRE-4
#[tokio::test]
async fn a_client_that_comes_back_goes_on_behind_the_last_event_that_it_saw() {
    let live = live(waiting(&["one"])).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let after = seen.last().copied().unwrap_or(0);
        let (mut guest, session) = Guest::enter(&live, json!({"mode": "readonly", "afterSeq": after})).await;
        assert_eq!(session["lastSeq"], after);
        live.chatter(40, 10).await;
        guest
            .until_that(|message| message["data"]["message"] == "end of chatter")
            .await;
        seen.extend(guest.numbers());
        live.chatter(40, 10).await;
    }
    let expected: Vec<u64> = live
        .journaled()
        .into_iter()
        .filter(|seq| seq <= seen.last().unwrap())
        .collect();
    assert_eq!(seen, expected);

    let (mut stranger, _) = Guest::connect(&live, &live.token).await.unwrap();
    let beyond = live.manager.last_seq() + 1;
    stranger
        .send(json!({"type": "handshake", "data": {"mode": "readonly", "afterSeq": beyond}}))
        .await;
    assert_eq!(stranger.until("error").await["data"]["code"], "UNKNOWN_SEQ");
    stranger.shake(json!({"mode": "readonly"})).await;
    stranger
        .send(json!({"type": "handshake", "data": {"mode": "readonly", "afterSeq": 1}}))
        .await;
    assert_eq!(stranger.until("error").await["data"]["code"], "INVALID_HANDSHAKE");
    live.stop().await;
}

// covers: WIRE-5
#[tokio::test]
async fn history_comes_in_batches_and_live_events_between_them() {
    let live = live(waiting(&["one"])).await;
    live.chatter(1_000, 2_000).await;
    let mut guest = Guest::commander(&live).await;
    let total = guest.heard[0]["data"]["totalEvents"].as_u64().unwrap();
    assert_eq!(total, live.journaled().len() as u64);
    guest.send(json!({"id": "h", "type": "history.sync"})).await;
    guest.send(json!({"id": "again", "type": "history.sync"})).await;
    live.chatter(50, 10).await;
    let (mut batches, mut history) = (0, Vec::new());
    loop {
        let batch = guest
            .until_that(|message| message["type"] == "history.batch")
            .await;
        let events = batch["data"]["events"].as_array().unwrap();
        assert!(events.len() <= 256 && batch.to_string().len() <= 1 << 20);
        assert_eq!(batch["commandId"], "h");
        history.extend(events.iter().map(|event| event["seq"].as_u64().unwrap()));
        batches += 1;
        if batch["data"]["hasMore"] == false {
            break;
        }
    }
    assert!(batches > 3);
    live.say("the very end").await;
    guest
        .until_that(|message| message["data"]["message"] == "the very end")
        .await;
    let journaled = live.journaled();
    assert_eq!(history, journaled[..history.len()], "the history has no holes");
    assert_eq!(
        guest.numbers(),
        journaled[total as usize..],
        "nor has what came live"
    );
    assert!(history.len() as u64 >= total);
    assert!(
        guest
            .heard
            .iter()
            .any(|message| message["commandId"] == "again" && message["data"]["code"] == "BUSY")
    );

    let part = guest
        .command("p", "history.sync", json!({"afterSeq": live.manager.last_seq()}))
        .await;
    assert_eq!(part["data"], json!({"events": [], "hasMore": false}));
    live.stop().await;
}

// With code 1001, a second after the last event.
// covers: WIRE-21
#[tokio::test]
async fn clients_see_the_end_of_a_run_before_it_leaves() {
    let live = live(Project::new(&["wait"])).await;
    let mut guest = Guest::commander(&live).await;
    guest.accepted("s", "codon.skip", json!(null)).await;
    guest.idle("all-codons-completed").await;
    let last = Instant::now();
    let history = guest.command("h", "history.sync", json!(null)).await;
    assert!(
        history["data"]["events"].as_array().unwrap().len() > 5,
        "the past can be asked for still"
    );
    guest.refused("codon.next", json!(null), "RUN_ENDED").await;
    guest.send(json!({"id": "l", "type": "checkpoint.list"})).await;
    let list = guest.until("checkpoint.list").await;
    assert!(
        list["seq"].is_null() && list["data"]["checkpoints"][0]["codonId"] == "a",
        "{list}"
    );
    guest.until("command.ack").await;
    assert_eq!(guest.closed().await, Some(1001));
    assert!(
        last.elapsed() >= Duration::from_millis(900),
        "{:?}",
        last.elapsed()
    );
    assert_eq!(
        soon(live.task).await.unwrap().unwrap().result,
        RunResult::Completed
    );
}
