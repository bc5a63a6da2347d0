//! A client against a server that does what a test wants.

use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use hankweave_core::wire::{CLOSED_INCOMPLETE, Command, CommandOutcome, DirectPayload, Event};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message as Frame, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, accept_async};

use super::*;

type Socket = WebSocketStream<TcpStream>;

/// Messages that the server has received on all connections: handshakes and commands.
type Heard = Arc<Mutex<Vec<Value>>>;

/// Serves one connection after another; `serve` gets the socket after its handshake and the number of the connection.
async fn server<F, W>(last_seq: u64, mut serve: F) -> (RunAddress, Heard, AbortOnDropHandle<()>)
where
    F: FnMut(Visitor, usize) -> W + Send + 'static,
    W: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let heard = Heard::default();
    let records = Arc::clone(&heard);
    let work = tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let mut visitor = Visitor {
                socket: accept_async(stream).await.unwrap(),
                heard: Arc::clone(&records),
            };
            visitor.hear().await;
            let session = json!({"clientId": "c", "mode": "readandwrite", "eventHistory": [], "totalEvents": last_seq,
                "lastSeq": last_seq});
            visitor
                .say(json!({"type": "handshake.response", "data": session}))
                .await;
            serve(visitor, number).await;
        }
    });
    (
        RunAddress::Endpoint(ServerEndpoint::new(authority, "token")),
        heard,
        AbortOnDropHandle::new(work),
    )
}

struct Visitor {
    socket: Socket,
    heard: Heard,
}

impl Visitor {
    /// Returns the next message; `None` if the client has disconnected.
    async fn hear(&mut self) -> Option<Value> {
        while let Some(Ok(frame)) = self.socket.next().await {
            if let Frame::Text(text) = frame {
                let value: Value = serde_json::from_str(&text).unwrap();
                self.heard.lock().unwrap().push(value.clone());
                return Some(value);
            }
        }
        None
    }

    /// Sends a message, which a disconnected client does not receive.
    async fn say(&mut self, value: Value) {
        let _ = self.socket.send(Frame::text(value.to_string())).await;
    }

    async fn tell(&mut self, seqs: impl IntoIterator<Item = u64>) {
        for seq in seqs {
            self.say(json!({"seq": seq, "id": format!("e{seq}"), "timestamp": "2025-01-04T12:00:00.000Z", "type": "info",
                "data": {"message": format!("number {seq}")}}))
                .await;
        }
    }

    async fn acknowledge(&mut self, command: &Value) {
        self.say(json!({"id": "a", "timestamp": "2025-01-04T12:00:00.000Z", "commandId": command["id"], "type": "command.ack",
            "data": {"commandId": command["id"], "command": command["type"], "outcome": "done", "seq": 1}}))
            .await;
    }

    async fn close(mut self, code: CloseCode, reason: &'static str) {
        let reason = Utf8Bytes::from_static(reason);
        let _ = self.socket.close(Some(CloseFrame { code, reason })).await;
        while let Some(Ok(_)) = self.socket.next().await {}
    }
}

/// The event after which the client wants to continue, for each of its handshakes.
fn places(heard: &Heard) -> Vec<Option<u64>> {
    let heard = heard.lock().unwrap();
    let handshakes = heard.iter().filter(|message| message["type"] == "handshake");
    handshakes
        .map(|message| message["data"]["afterSeq"].as_u64())
        .collect()
}

async fn seqs_to_the_end(client: &mut Client) -> (Vec<u64>, Disconnected) {
    let mut seqs = Vec::new();
    loop {
        match client.next().await {
            Ok(message) => seqs.extend(message.seq()),
            Err(ended) => return (seqs, ended),
        }
    }
}

// covers: F20
#[tokio::test]
async fn a_lost_connection_is_taken_up_behind_the_last_event() {
    let (target, heard, _work) = server(3, |mut visitor, number| async move {
        match number {
            0 => {
                visitor.tell(4..=6).await;
                visitor.close(CloseCode::Again, "slow").await;
            }
            // Closed without a closing frame.
            1 => visitor.tell(7..=8).await,
            // The server may send what the client has already.
            _ => {
                visitor.tell(8..=9).await;
                visitor.close(CloseCode::Away, "the run has ended").await;
            }
        }
    })
    .await;
    let mut client = Client::connect(target, Options::watching()).await.unwrap();
    assert_eq!(client.session().last_seq, 3);
    let (seqs, ended) = seqs_to_the_end(&mut client).await;
    assert_eq!((seqs, ended), (vec![4, 5, 6, 7, 8, 9], Disconnected::RunEnded));
    assert_eq!(places(&heard), [None, Some(6), Some(8)]);
    // The end stays the end.
    assert_eq!(client.next().await, Err(Disconnected::RunEnded));
    let refused = client.command(Command::CodonNext).await;
    assert_eq!(refused, Err(CommandError::Unanswered(Disconnected::RunEnded)));
}

// covers: F20
#[tokio::test]
async fn a_command_whose_answer_was_lost_is_asked_again_under_its_name() {
    let (target, heard, _work) = server(0, |mut visitor, number| async move {
        let command = visitor.hear().await.unwrap();
        if number > 0 {
            visitor.acknowledge(&command).await;
            visitor.hear().await;
        }
    })
    .await;
    let client = Client::connect(target, Options::commanding()).await.unwrap();
    let answer = client.command(Command::CodonSkip).await.unwrap();
    assert!(matches!(
        answer,
        DirectPayload::CommandAck {
            outcome: CommandOutcome::Done,
            ..
        }
    ));
    let commands: Vec<Value> = heard
        .lock()
        .unwrap()
        .iter()
        .filter(|message| message["type"] == "codon.skip")
        .cloned()
        .collect();
    assert_eq!(commands.len(), 2);
    assert_eq!(commands[0], commands[1]);
}

#[tokio::test]
async fn events_that_find_no_room_are_asked_for_again_and_commands_are_answered_meanwhile() {
    const ALL: u64 = 3 * WAITING_EVENTS as u64;
    let (target, heard, _work) = server(0, |mut visitor, _| async move {
        let after = places(&visitor.heard).pop().flatten();
        visitor.tell(after.unwrap() + 1..=ALL).await;
        while let Some(command) = visitor.hear().await {
            visitor.acknowledge(&command).await;
        }
    })
    .await;
    let mut client = Client::connect(target, Options::commanding().after(0))
        .await
        .unwrap();
    // No events are taken, and the answer comes after more of them than there is room for.
    client.command(Command::CodonNext).await.unwrap();
    for expected in 1..=ALL {
        assert_eq!(client.next().await.unwrap().seq(), Some(expected));
    }
    let places = places(&heard);
    assert!(places.len() >= 2 && places.len() < 10, "{places:?}");
    client.close().await;
}

#[tokio::test]
async fn an_event_that_came_before_the_wait_began_ends_the_wait() {
    let (target, _heard, _work) = server(0, |mut visitor, _| async move {
        let command = visitor.hear().await.unwrap();
        visitor.tell(1..=2).await;
        visitor.acknowledge(&command).await;
        visitor.hear().await;
    })
    .await;
    let mut client = Client::connect(target, Options::commanding()).await.unwrap();
    client.command(Command::CodonNext).await.unwrap();
    let found = client
        .until(|message| match message {
            ServerMessage::Event(entry) => match &entry.event {
                Event::Info { message } => Some(message.clone()),
                _ => None,
            },
            ServerMessage::Direct(_) | ServerMessage::Unknown { .. } => None,
        })
        .await;
    assert_eq!(found.unwrap(), "number 1");
}

#[tokio::test]
async fn a_server_that_does_not_want_the_client_is_not_asked_again() {
    let (target, heard, _work) = server(0, |visitor, _| async move {
        visitor.close(CloseCode::Policy, "too many messages").await;
    })
    .await;
    let mut client = Client::connect(target, Options::watching()).await.unwrap();
    let (_, ended) = seqs_to_the_end(&mut client).await;
    assert_eq!(ended, Disconnected::Refused("too many messages".to_owned()));
    assert_eq!(places(&heard).len(), 1);
}

// covers: WIRE-21
#[tokio::test]
async fn an_end_before_everything_was_sent_says_what_is_missing() {
    let (target, _heard, _work) = server(3, |mut visitor, _| async move {
        visitor.tell(4..=6).await;
        let code = CloseCode::Library(CLOSED_INCOMPLETE);
        visitor
            .close(code, "the run has ended, and not everything was sent")
            .await;
    })
    .await;
    let mut client = Client::connect(target, Options::watching()).await.unwrap();
    let (seqs, ended) = seqs_to_the_end(&mut client).await;
    assert_eq!(
        (seqs, ended),
        (vec![4, 5, 6], Disconnected::Incomplete { after: 6 })
    );
}

// Everything was sent, and this side had no room for it and cannot ask again.
// covers: WIRE-21
#[tokio::test]
async fn an_end_that_comes_before_there_was_room_for_everything_is_no_clean_end() {
    const ALL: u64 = 2 * WAITING_EVENTS as u64;
    let (target, _heard, _work) = server(0, |mut visitor, number| async move {
        match number {
            0 => {
                visitor.tell(1..=ALL).await;
                visitor.close(CloseCode::Away, "the run has ended").await;
            }
            _ => {
                let after = places(&visitor.heard).pop().flatten().unwrap();
                visitor.tell(after + 1..=ALL).await;
                visitor.close(CloseCode::Away, "the run has ended").await;
            }
        }
    })
    .await;
    let mut client = Client::connect(target, Options::watching().after(0))
        .await
        .unwrap();
    // No event is taken until the channel is full, so that later ones are dropped and requested again.
    while client.events.len() < client.events.max_capacity() {
        tokio::task::yield_now().await;
    }
    let (seqs, ended) = seqs_to_the_end(&mut client).await;
    assert_eq!((seqs.len() as u64, ended), (ALL, Disconnected::RunEnded));
}

#[tokio::test]
async fn a_server_that_stays_away_ends_the_client() {
    let (target, _heard, work) = server(0, |mut visitor, _| async move {
        visitor.tell(1..=1).await;
    })
    .await;
    let mut client = Client::connect(target, Options::watching()).await.unwrap();
    assert_eq!(client.next().await.unwrap().seq(), Some(1));
    drop(work);
    let (_, ended) = seqs_to_the_end(&mut client).await;
    assert!(matches!(ended, Disconnected::Lost(_)), "{ended}");
    let history = client.command(Command::HistorySync { after_seq: None }).await;
    assert_eq!(history, Err(CommandError::History));
}
