//! Clients that send nothing, while time passes as the test wants. They are in memory, so they depend on no clock and no
//! network.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::*;
use crate::runner::RunCommand;
use crate::world::net::MemoryNet;

type Socket = WebSocketStream<DuplexStream>;

/// A run in a network of its own.
async fn in_memory(project: Project) -> (Live, MemoryNet) {
    let net = MemoryNet::default();
    let mut builder = project.builder();
    builder.0.world.net = Arc::new(net.clone());
    let hankweave = builder.open().await.unwrap();
    let live = live_in(project, hankweave).await;
    (live, net)
}

async fn connect(live: &Live, net: &MemoryNet) -> Socket {
    let address = format!("ws://{}/ws", MemoryNet::ADDRESS);
    let mut request = address.into_client_request().unwrap();
    let bearer = format!("Bearer {}", live.token).parse().unwrap();
    request.headers_mut().insert("Authorization", bearer);
    client_async(request, net.connect().unwrap()).await.unwrap().0
}

async fn enter(live: &Live, net: &MemoryNet, data: Value) -> Socket {
    let mut socket = connect(live, net).await;
    let handshake = json!({"type": "handshake", "data": data});
    socket.send(Message::text(handshake.to_string())).await.unwrap();
    socket
}

/// Reads until a message has this in it.
async fn until(socket: &mut Socket, wanted: &str) {
    while !socket
        .next()
        .await
        .unwrap()
        .unwrap()
        .to_text()
        .unwrap()
        .contains(wanted)
    {}
}

/// Reads until the server closes and returns the code.
async fn closed(socket: &mut Socket) -> Option<u16> {
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Close(frame) = message {
            return frame.map(|frame| frame.code.into());
        }
    }
    None
}

// covers: WIRE-2, WIRE-34
#[tokio::test(start_paused = true)]
async fn whoever_never_shakes_hands_is_left() {
    let (live, net) = in_memory(waiting(&["one"])).await;
    let (mut socket, begin) = (connect(&live, &net).await, Instant::now());
    assert_eq!(closed(&mut socket).await, Some(1008));
    assert_eq!(
        begin.elapsed().as_secs(),
        ServerLimits::default().handshake.as_secs()
    );
    live.stop().await;
}

// covers: F13, WIRE-30
#[tokio::test(start_paused = true)]
async fn strangers_do_not_keep_out_whoever_has_a_token() {
    let (live, net) = in_memory(waiting(&["one"])).await;
    let begin = Instant::now();
    let mut half_open = Vec::new();
    for _ in 0..200 {
        let mut stream = net.connect().unwrap();
        stream.write_all(b"GET /ws HTTP/1.1\r\n").await.unwrap();
        half_open.push(stream);
        // Few may wait at the door.
        tokio::task::yield_now().await;
    }
    let mut guest = enter(&live, &net, json!({"mode": "readandwrite"})).await;
    until(&mut guest, "server.ready").await;
    assert_eq!(begin.elapsed().as_secs(), 0, "nobody's time was up");
    let mut answers = [String::new(), String::new()];
    half_open[0].read_to_string(&mut answers[0]).await.unwrap();
    assert!(answers[0].starts_with("HTTP/1.1 503 "), "{}", answers[0]);
    half_open[199].read_to_string(&mut answers[1]).await.unwrap();
    assert!(answers[1].starts_with("HTTP/1.1 408 "), "{}", answers[1]);
    assert_eq!(begin.elapsed().as_secs(), ServerLimits::default().head.as_secs());
    live.stop().await;
}

// covers: WIRE-34
#[tokio::test(start_paused = true)]
async fn whoever_says_nothing_is_left_and_whoever_reads_says_enough() {
    let (live, net) = in_memory(waiting(&["one"])).await;
    // A client that reads answers the server's questions by itself; one that does not read answers nothing.
    let mut reader = enter(&live, &net, json!({"mode": "readonly"})).await;
    let mut dead = enter(&live, &net, json!({"mode": "readonly"})).await;
    let long = ServerLimits::default().silence * 5;
    let left = tokio::time::timeout(long, closed(&mut reader)).await;
    assert!(left.is_err(), "left with {left:?}");
    let mut heard = Vec::new();
    dead.get_mut().read_to_end(&mut heard).await.unwrap();
    let closing = [&[0x88, 8][..], &1008_u16.to_be_bytes(), b"silent"].concat();
    assert!(heard.ends_with(&closing), "{heard:x?}");
    live.say("still there").await;
    until(&mut reader, "still there").await;
    live.stop().await;
}

// covers: F13, WIRE-21
#[tokio::test(start_paused = true)]
async fn at_the_end_whoever_reads_slowly_gets_everything_and_whoever_does_not_read_keeps_nobody() {
    let (live, net) = in_memory(waiting(&["one"])).await;
    live.chatter(400, 1_000).await;
    let everything = json!({"mode": "readonly", "afterSeq": 0});
    let deaf = enter(&live, &net, everything.clone()).await;
    let mut slow = enter(&live, &net, everything).await;
    let reading = async {
        let (mut heard, mut last) = (0, String::new());
        while let Some(Ok(message)) = slow.next().await {
            if let Message::Close(frame) = message {
                return (last, frame.map(|frame| u16::from(frame.code)));
            }
            heard += 1;
            if heard % 40 == 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            if message.to_text().unwrap().contains("\"seq\"") {
                last = message.to_text().unwrap().to_owned();
            }
        }
        (last, None)
    };
    let begin = Instant::now();
    let journal = live.manager.journal();
    let stopping = async {
        live.stop().await;
        begin.elapsed()
    };
    let ((last, code), elapsed) = tokio::join!(reading, stopping);
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(
        (last["seq"].as_u64(), code),
        (Some(journal.last_seq()), Some(1001))
    );
    // The last of it waits in the pipe, from where it comes without the server.
    assert!(elapsed >= Duration::from_millis(600), "{elapsed:?}");
    assert!(elapsed <= Duration::from_millis(1_500), "{elapsed:?}");
    drop(deaf);
}

// covers: WIRE-21
#[tokio::test(start_paused = true)]
async fn whoever_does_not_get_everything_in_time_is_told_that_at_the_end() {
    let (live, net) = in_memory(waiting(&["one"])).await;
    live.chatter(4_000, 1_000).await;
    let mut slow = enter(&live, &net, json!({"mode": "readonly", "afterSeq": 0})).await;
    let journal = live.manager.journal();
    let reading = async {
        let mut heard = 0;
        while let Some(Ok(message)) = slow.next().await {
            if let Message::Close(frame) = message {
                return (heard, frame.map(|frame| u16::from(frame.code)));
            }
            heard += 1;
            if heard % 40 == 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        (heard, None)
    };
    let ((heard, code), _) = tokio::join!(reading, live.stop());
    assert!(heard < journal.last_seq(), "{heard}");
    assert_eq!(code, Some(hankweave_core::wire::CLOSED_INCOMPLETE));
}

/// Ends the last codon, and returns how long the run takes from there to its end.
async fn skip_to_the_end(live: Live) -> Duration {
    while live.commander.send(RunCommand::Skip).await.is_err() {
        // The codon has not begun.
        tokio::task::yield_now().await;
    }
    let begin = Instant::now();
    live.task.await.unwrap().unwrap();
    begin.elapsed()
}

// covers: F13
#[tokio::test(start_paused = true)]
async fn a_run_that_ends_by_itself_stays_for_those_who_listen_and_for_nobody_else() {
    let (live, net) = in_memory(Project::new(&["wait"])).await;
    let mut deaf = enter(&live, &net, json!({"mode": "readonly"})).await;
    until(&mut deaf, "server.ready").await;
    let elapsed = skip_to_the_end(live).await;
    let answer = ServerLimits::default().final_pong;
    assert!(elapsed >= answer && elapsed <= 2 * answer, "{elapsed:?}");
    drop(deaf);

    let (live, net) = in_memory(Project::new(&["wait"])).await;
    let mut listener = enter(&live, &net, json!({"mode": "readonly"})).await;
    until(&mut listener, "server.ready").await;
    let (elapsed, code) = tokio::join!(skip_to_the_end(live), closed(&mut listener));
    assert!(elapsed >= LINGER, "{elapsed:?}");
    assert_eq!(code, Some(1001));
}

// covers: F13
#[tokio::test(start_paused = true)]
async fn whoever_has_left_a_question_open_while_the_run_went_on_keeps_nobody_at_its_end() {
    let (live, net) = in_memory(Project::new(&["wait"])).await;
    let mut mute = enter(&live, &net, json!({"mode": "readonly"})).await;
    // Messages to it arrive, and nothing shows that they are read.
    let mut heard = vec![0; 36_000];
    let arriving = mute.get_mut().read_exact(&mut heard);
    let (_, arrived) = tokio::join!(live.chatter(40, 1_000), arriving);
    arrived.unwrap();
    tokio::time::sleep(ServerLimits::default().first_pong).await;
    let elapsed = skip_to_the_end(live).await;
    assert!(elapsed < ServerLimits::default().final_pong, "{elapsed:?}");
    drop(mute);
}

// covers: F13
#[tokio::test(start_paused = true)]
async fn whoever_takes_nothing_when_the_run_ends_keeps_nobody() {
    let (live, net) = in_memory(Project::new(&["wait"])).await;
    let deaf = enter(&live, &net, json!({"mode": "readonly"})).await;
    // More than the system takes for it.
    live.chatter(100, 1_000).await;
    tokio::time::sleep(ServerLimits::default().final_pong).await;
    let elapsed = skip_to_the_end(live).await;
    assert!(elapsed < ServerLimits::default().final_pong, "{elapsed:?}");
    drop(deaf);
}
