//! Access of clients, and their rights (WIRE-2, WIRE-6).

use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

use super::guest::{Guest, soon};
use super::*;

// covers: WIRE-3
#[tokio::test]
async fn a_handshake_is_answered_with_who_the_client_and_the_server_are() {
    let project = waiting(&["one"]);
    let live = live(project).await;
    let (mut guest, response) = Guest::connect(&live, &live.token).await.unwrap();
    assert!(response.headers().get("sec-websocket-protocol").is_none());
    let session = guest.shake(json!({"mode": "readonly"})).await;
    assert!(session["clientId"].as_str().is_some_and(|id| !id.is_empty()));
    assert_eq!(
        (&session["mode"], &session["eventHistory"]),
        (&json!("readonly"), &json!([]))
    );
    let ready = guest.until("server.ready").await;
    let root = live.project.work().canonicalize().unwrap();
    let data = &ready["data"];
    assert_eq!(
        (&data["port"], &data["serverVersion"]),
        (&json!(live.port), &json!(env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(
        (&data["executionPath"], &data["agentRootPath"]),
        (&json!(root), &json!(root))
    );
    assert!(ready["id"].is_string() && ready["timestamp"].is_string() && ready["seq"].is_null());
    // The first heartbeat writes the port down, while the server works.
    let noted = async {
        loop {
            let lock = std::fs::read(root.join(".hankweave/server.lock")).unwrap();
            match serde_json::from_slice::<serde_json::Value>(&lock).unwrap()["port"].as_u64() {
                Some(port) => return port,
                None => tokio::task::yield_now().await,
            }
        }
    };
    assert_eq!(soon(noted).await, u64::from(live.port));
    for file in ["server.lock", "state.json"] {
        let text = std::fs::read_to_string(root.join(".hankweave").join(file)).unwrap_or_default();
        assert!(!text.contains(&live.token), "no token in {file}");
    }
    live.stop().await;
}

// covers: WIRE-2
#[tokio::test]
async fn nothing_is_done_or_told_before_the_handshake() {
    let live = live(waiting(&["one"])).await;
    let (mut guest, _) = Guest::connect(&live, &live.token).await.unwrap();
    live.chatter(3, 1).await;
    for (name, data) in [
        ("codon.next", json!(null)),
        ("ping", json!(null)),
        ("no.such", json!(5)),
    ] {
        let error = guest.refused(name, data, "HANDSHAKE_REQUIRED").await;
        assert_eq!(error["message"], "Handshake required before sending commands");
    }
    for data in [json!({}), json!({"mode": "admin"}), json!("readonly")] {
        guest.send(json!({"type": "handshake", "data": data})).await;
        assert_eq!(guest.until("error").await["data"]["code"], "INVALID_HANDSHAKE");
    }
    assert_eq!(guest.numbers(), [0_u64; 0], "no event");
    guest.shake(json!({"mode": "readandwrite"})).await;
    guest.accepted("a", "codon.next", json!(null)).await;
    live.stop().await;
}

// covers: WIRE-1
#[tokio::test]
async fn connecting_starts_nothing() {
    let live = live(waiting(&["one"])).await;
    let mut guest = Guest::commander(&live).await;
    let idle = guest.idle("startup").await;
    assert!(
        idle["seq"].is_null() && idle["data"]["message"] == "a is next",
        "{idle}"
    );
    guest.shake(json!({"mode": "readandwrite"})).await;
    guest.command("p", "ping", json!({})).await;
    assert!(live.state().runs[0].codons.is_empty());
    live.stop().await;
}

// covers: WIRE-6
#[tokio::test]
async fn a_reader_changes_nothing() {
    let live = live(waiting(&["one"])).await;
    let (mut guest, _) = Guest::enter(&live, json!({"mode": "readonly"})).await;
    for (name, data) in [
        ("codon.next", json!(null)),
        ("codon.start", json!({"codonId": "a"})),
        ("codon.skip", json!(null)),
        ("codon.redo", json!(null)),
        ("codon.forceStop", json!(null)),
        ("rollback.toCheckpoint", json!({"checkpointSha": "0123456789ab"})),
        (
            "rollback.toCodon",
            json!({"codonId": "a", "checkpointType": "end"}),
        ),
        ("rollback.toLastSuccess", json!(null)),
        ("rollback.undo", json!({"operation": "0123456789ab"})),
        ("ping.broadcast", json!(null)),
    ] {
        guest.refused(name, data, "INSUFFICIENT_PERMISSIONS").await;
    }
    assert_eq!(guest.command("p", "ping", json!(null)).await["type"], "pong");
    assert_eq!(
        guest.command("h", "history.sync", json!(null)).await["type"],
        "history.batch"
    );
    guest.accepted("c", "checkpoint.list", json!(null)).await;
    // A second handshake may ask for more, because the token allows it.
    let session = guest.shake(json!({"mode": "readandwrite"})).await;
    assert_eq!(session["mode"], "readandwrite");
    guest.accepted("n", "codon.next", json!(null)).await;
    live.stop().await;
}

// covers: WIRE-7
#[tokio::test]
async fn a_token_for_reading_allows_no_more_whatever_is_asked_for() {
    let live = live(waiting(&["one"])).await;
    let (mut guest, _) = Guest::connect(&live, &live.read_only_token).await.unwrap();
    let session = guest.shake(json!({"mode": "readandwrite"})).await;
    assert_eq!(session["mode"], "readonly");
    for name in ["codon.next", "server.shutdown", "server.force_shutdown"] {
        guest.refused(name, json!(null), "INSUFFICIENT_PERMISSIONS").await;
    }
    let (mut reader, _) = Guest::enter(&live, json!({"mode": "readonly"})).await;
    let data = reader
        .accepted("s", "server.shutdown", json!({"reason": "enough"}))
        .await;
    assert_eq!(data["outcome"], "shutting-down");
    let outcome = live.task.await.unwrap().unwrap();
    assert!(matches!(
        outcome.result,
        crate::runner::RunResult::Stopped(StopCause::Request)
    ));
}

// covers: F12
#[tokio::test]
async fn a_client_without_the_token_gets_no_socket() {
    let live = live(waiting(&["one"])).await;
    for token in ["", "wrong", &live.token[1..]] {
        let Err(Error::Http(response)) = Guest::connect(&live, token).await else {
            panic!("{token} is no token");
        };
        assert_eq!(response.status(), 401);
    }
    live.stop().await;
}

// covers: WIRE-22
#[tokio::test]
async fn a_port_that_is_taken_is_told() {
    let live = live(waiting(&["one"])).await;
    let other = waiting(&["one"]);
    let mut second = other.open().await;
    let options = ServerOptions {
        port: live.port,
        ..ServerOptions::default()
    };
    let error = second.serve(options).await.unwrap_err();
    assert!(
        error.to_string().ends_with(&format!("127.0.0.1:{}", live.port)),
        "{error}"
    );
    second.close().await.unwrap();
    live.stop().await;
}
