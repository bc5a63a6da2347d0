//! Limits of the resources that clients may use (F13).

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::guest::{Guest, knock, soon};
use super::*;

/// A frame with its mask, which is all zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

// covers: F13, WIRE-31
#[tokio::test]
async fn malformed_frames_end_their_own_connection_and_nothing_else() {
    let live = live(waiting(&["one"])).await;
    let mut witness = Guest::commander(&live).await;
    let huge_header = [&[0x81, 0xff][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat();
    for (bytes, code) in [
        (frame(0x82, b"binary"), Some(1003)),
        (frame(0x81, b"\xff\xfe"), Some(1007)),
        (vec![0x81, 0x02, b'h', b'i'], Some(1002)),
        (frame(0xc1, b"reserved bit"), Some(1002)),
        (frame(0x83, b"reserved type"), Some(1002)),
        (frame(0x09, b"fragmented ping"), Some(1002)),
        (frame(0x80, b"nothing to continue"), Some(1002)),
        (frame(0x89, &[0; 126]), Some(1002)),
        (huge_header, Some(1009)),
        (frame(0x81, &vec![b' '; (1 << 20) + 1]), Some(1009)),
        (frame(0x88, &[]), None),
        (frame(0x88, &1000_u16.to_be_bytes()), Some(1000)),
    ] {
        let (mut guest, _) = Guest::enter(&live, json!({"mode": "readandwrite"})).await;
        // The server may close before everything is written.
        let _ = soon(guest.socket.get_mut().write_all(&bytes)).await;
        let start = &bytes[..bytes.len().min(20)];
        assert_eq!(guest.closed().await, code, "{start:x?}");
    }
    let pieces = [
        frame(0x01, br#"{"id": "p","#),
        frame(0x00, br#" "type":"#),
        frame(0x80, br#" "ping"}"#),
    ];
    witness
        .socket
        .get_mut()
        .write_all(&pieces.concat())
        .await
        .unwrap();
    assert_eq!(
        witness.answer("p").await["type"],
        "pong",
        "a message in pieces is a message"
    );
    live.stop().await;
}

// covers: F13, WIRE-33
#[tokio::test]
async fn a_flood_ends_with_a_policy_violation() {
    let live = live(waiting(&["one"])).await;
    let mut guest = Guest::commander(&live).await;
    for _ in 0..250 {
        // The server may close before everything is written.
        let _ = guest
            .socket
            .send(Message::text(r#"{"id": "p", "type": "ping"}"#))
            .await;
    }
    assert_eq!(guest.closed().await, Some(1008));
    let pongs = guest
        .heard
        .iter()
        .filter(|message| message["type"] == "pong")
        .count();
    assert!((90..=201).contains(&pongs), "{pongs}");
    live.stop().await;
}

// covers: F13, WIRE-32
#[tokio::test]
async fn a_client_that_does_not_read_is_left_and_nobody_else_notices() {
    let live = live(waiting(&["one"])).await;
    let (mut slow, _) = Guest::enter(&live, json!({"mode": "readonly"})).await;
    let mut quick = Guest::commander(&live).await;
    let is_end = |message: &serde_json::Value| message["data"]["message"] == "end of chatter";
    // Each round fits into a queue, and starts once the quick reader has taken the one before. So only the client that
    // never reads is disconnected.
    for _ in 0..40 {
        tokio::join!(live.chatter(100, 4_000), quick.until_that(is_end));
    }
    assert_eq!(slow.closed().await, Some(1013));
    let numbers = slow.numbers();
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    assert_eq!(
        numbers,
        (first..=last).collect::<Vec<_>>(),
        "what came has no holes"
    );
    // It comes back to what it missed.
    let (mut back, _) = Guest::enter(&live, json!({"mode": "readonly", "afterSeq": last})).await;
    back.until_that(is_end).await;
    assert_eq!(back.numbers()[0], last + 1);
    live.stop().await;
}

/// Returns everything that a client sends that then never reads.
fn deaf(live: &Live) -> Vec<u8> {
    let head = format!(
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {}\r\n\r\n",
        live.port, live.token
    );
    let handshake = json!({"type": "handshake", "data": {"mode": "readonly", "afterSeq": 0}});
    [head.into_bytes(), frame(0x81, handshake.to_string().as_bytes())].concat()
}

// covers: F13
#[tokio::test]
async fn forty_clients_that_never_read_do_not_keep_a_run() {
    let live = live(waiting(&["one"])).await;
    let mut guest = Guest::commander(&live).await;
    let mut strangers = Vec::new();
    for _ in 0..40 {
        let mut stranger = knock(&live).await;
        stranger.write_all(&deaf(&live)).await.unwrap();
        strangers.push(stranger);
    }
    let begin = Instant::now();
    // Rounds that fit into a queue, and the next one when the reader has had its fill.
    let is_end = |message: &serde_json::Value| message["data"]["message"] == "end of chatter";
    for _ in 0..25 {
        tokio::join!(live.chatter(100, 4_000), guest.until_that(is_end));
    }
    guest.accepted("n", "codon.next", json!(null)).await;
    guest.idle("all-codons-completed").await;
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    // Clients without room get an error. They hold up no other client, even if they do not read it.
    for _ in 0..40 {
        let mut stranger = knock(&live).await;
        stranger.write_all(&deaf(&live)).await.unwrap();
        strangers.push(stranger);
    }
    drop(guest);
    let begin = Instant::now();
    live.stop().await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    drop(strangers);
}

// covers: WIRE-30
#[tokio::test]
async fn one_client_too_many_is_told_so() {
    let live = live(waiting(&["one"])).await;
    let mut inside = Vec::new();
    for _ in 0..32 {
        inside.push(Guest::connect(&live, &live.token).await.unwrap());
    }
    let Err(Error::Http(response)) = Guest::connect(&live, &live.token).await else {
        panic!("32 are enough");
    };
    assert_eq!(response.status(), 503);
    drop(inside.pop());
    // The server has to notice that a client has left.
    let begin = Instant::now();
    while Guest::connect(&live, &live.token).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    live.stop().await;
}
