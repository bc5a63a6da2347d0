//! A client of the built program.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::{IntoClientRequest, client};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use crate::support::port;

/// A client that waits for the messages that a test wants.
pub(crate) struct Guest {
    socket: WebSocket<TcpStream>,
    /// All messages that it has received.
    pub(crate) heard: Vec<Value>,
}

/// Opens a connection to the run in this directory.
pub(crate) fn knock(execution: &Path) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port(execution))).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

impl Guest {
    /// Connects with the address and the token in the files of the execution directory.
    pub(crate) fn enter(execution: &Path, mode: &str) -> Self {
        // The token is written before the port.
        port(execution);
        let token = std::fs::read_to_string(execution.join(".hankweave/token")).unwrap();
        Self::enter_with(execution, token.trim_end(), mode)
    }

    /// Connects with a token of the caller.
    pub(crate) fn enter_with(execution: &Path, token: &str, mode: &str) -> Self {
        let mut guest = Self::connect(execution, token).expect("there is room");
        guest.send(json!({"type": "handshake", "data": {"mode": mode, "afterSeq": 0}}));
        guest.until(|message| message["type"] == "server.ready");
        guest
    }

    /// Opens a WebSocket and says nothing; `None` when the server does not want to.
    pub(crate) fn connect(execution: &Path, token: &str) -> Option<Self> {
        let mut request = format!("ws://127.0.0.1:{}/ws", port(execution))
            .into_client_request()
            .unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("Authorization", bearer);
        let (socket, _) = client(request, knock(execution)).ok()?;
        let heard = Vec::new();
        Some(Self { socket, heard })
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    /// The next message that is wanted.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    self.heard.push(value.clone());
                    if wanted(&value) {
                        return value;
                    }
                }
                Ok(Message::Close(frame)) => panic!("closed: {frame:?} after {:#?}", self.heard),
                Ok(_) => {}
                Err(error) => panic!("{error} after {:#?}", self.heard),
            }
        }
    }

    /// Sends a command and returns the answer to it.
    pub(crate) fn command(&mut self, id: &str, name: &str) -> Value {
        self.send(json!({"id": id, "type": name}));
        self.until(|message| message["commandId"] == id)
    }

    /// Waits until the run idles for this reason.
    pub(crate) fn idle(&mut self, reason: &str) {
        self.until(|message| message["type"] == "server.idle" && message["data"]["reason"] == reason);
    }
}
