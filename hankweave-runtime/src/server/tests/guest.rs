//! A client for tests.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::Live;

/// Nothing here takes longer, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client with a socket.
pub(super) struct Guest {
    pub(super) socket: WebSocketStream<TcpStream>,
    /// All messages that it has received.
    pub(super) heard: Vec<Value>,
}

/// Waits for the result of `work`, and fails the test if it does not come.
pub(super) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work)
        .await
        .expect("it takes too long")
}

/// Opens a connection that sends nothing.
pub(super) async fn knock(live: &Live) -> TcpStream {
    TcpStream::connect(("127.0.0.1", live.port)).await.unwrap()
}

/// Sends bytes and returns everything that comes until the server closes.
pub(super) async fn exchange(live: &Live, bytes: &[u8]) -> String {
    let mut stream = knock(live).await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A server that has read enough may close the connection.
    let _ = soon(stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

impl Guest {
    /// Opens a WebSocket with this token.
    pub(super) async fn connect(live: &Live, token: &str) -> Result<(Self, Response), Error> {
        let mut request = format!("ws://127.0.0.1:{}/ws", live.port)
            .into_client_request()
            .unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("Authorization", bearer);
        let (socket, response) = soon(client_async(request, knock(live).await)).await?;
        let heard = Vec::new();
        Ok((Self { socket, heard }, response))
    }

    /// Connects with the token for all rights and shakes hands; returns the data of the answer as well.
    pub(super) async fn enter(live: &Live, handshake: Value) -> (Self, Value) {
        let (mut guest, _) = Self::connect(live, &live.token).await.unwrap();
        let session = guest.shake(handshake).await;
        guest.until("server.ready").await;
        (guest, session)
    }

    /// Like `enter`, for a client that sends commands.
    pub(super) async fn commander(live: &Live) -> Self {
        Self::enter(live, json!({"mode": "readandwrite"})).await.0
    }

    /// Like `commander`, for a client that receives all events from the first one on.
    pub(super) async fn commander_from_the_beginning(live: &Live) -> Self {
        Self::enter(live, json!({"mode": "readandwrite", "afterSeq": 0}))
            .await
            .0
    }

    pub(super) async fn shake(&mut self, handshake: Value) -> Value {
        self.send(json!({"type": "handshake", "data": handshake})).await;
        self.until("handshake.response").await["data"].clone()
    }

    pub(super) async fn send(&mut self, message: Value) {
        self.say(&message.to_string()).await;
    }

    pub(super) async fn say(&mut self, text: &str) {
        soon(self.socket.send(Message::text(text))).await.unwrap();
    }

    /// The next message; `Err` with the code when the server has closed.
    pub(super) async fn next(&mut self) -> Result<Value, Option<u16>> {
        loop {
            match soon(self.socket.next()).await {
                Some(Ok(Message::Text(text))) => {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    self.heard.push(value.clone());
                    return Ok(value);
                }
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The next message of this type.
    pub(super) async fn until(&mut self, wanted: &str) -> Value {
        self.until_that(|message| message["type"] == wanted).await
    }

    pub(super) async fn until_that(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.next().await {
                Ok(message) if wanted(&message) => return message,
                Ok(_) => {}
                Err(code) => panic!("closed with {code:?} after {:#?}", self.heard),
            }
        }
    }

    /// Sends a command and returns the answer to it.
    pub(super) async fn command(&mut self, id: &str, name: &str, data: Value) -> Value {
        self.send(json!({"id": id, "type": name, "data": data})).await;
        self.answer(id).await
    }

    pub(super) async fn answer(&mut self, id: &str) -> Value {
        self.until_that(|message| message["commandId"] == id).await
    }

    /// Sends a command that is carried out and returns its outcome.
    pub(super) async fn accepted(&mut self, id: &str, name: &str, data: Value) -> Value {
        let answer = self.command(id, name, data).await;
        assert_eq!(
            (&answer["type"], &answer["data"]["commandId"]),
            (&json!("command.ack"), &json!(id)),
            "{answer}"
        );
        assert_eq!(answer["data"]["command"], name);
        assert!(answer["data"]["seq"].is_u64(), "{answer}");
        answer["data"].clone()
    }

    /// Sends a command that is refused with this code.
    pub(super) async fn refused(&mut self, name: &str, data: Value, code: &str) -> Value {
        let id = format!("refused-{}", self.heard.len());
        let answer = self.command(&id, name, data).await;
        let error = &answer["data"];
        assert_eq!(
            (&answer["type"], &error["code"]),
            (&json!("error"), &json!(code)),
            "{answer}"
        );
        assert_eq!(
            (&error["fatal"], &error["severity"], &error["context"]),
            (
                &json!(false),
                &json!("operation"),
                &json!(format!("Attempted command: {name}"))
            )
        );
        assert_eq!(error["commandId"], id);
        error.clone()
    }

    /// Waits until the run idles for this reason.
    pub(super) async fn idle(&mut self, reason: &str) -> Value {
        self.until_that(|message| message["type"] == "server.idle" && message["data"]["reason"] == reason)
            .await
    }

    pub(super) async fn started(&mut self, codon: &str) -> Value {
        self.until_that(|message| message["type"] == "codon.started" && message["data"]["codonId"] == codon)
            .await
    }

    /// Reads until the server closes and returns the code.
    pub(super) async fn closed(&mut self) -> Option<u16> {
        loop {
            if let Err(code) = self.next().await {
                return code;
            }
        }
    }

    /// Returns the numbers of all journal events that it has received, in the order of arrival.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.heard
            .iter()
            .filter_map(|message| message["seq"].as_u64())
            .collect()
    }
}
