//! Clients of the socket: they come, lag, vanish and come back after the last event that they saw, through all lives of the runtime.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hankweave_core::discovery::TOKEN_FILE;
use hankweave_runtime::world::disk::Disk;
use hankweave_runtime::world::net::MemoryNet;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::check::Broken;
use crate::machine::{Witness, state_dir};
use crate::rng::Rng;

/// Longest token that is read, in bytes.
const TOKEN_BYTES: u64 = 1_024;

/// Events that a client has seen in all lives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<BTreeSet<u64>>>);

/// A client that watches one life.
#[derive(Debug)]
pub(crate) struct Spectator {
    pub(crate) net: MemoryNet,
    pub(crate) seen: Seen,
    pub(crate) rng: Rng,
    /// It never lags and never vanishes.
    pub(crate) attentive: bool,
}

impl Seen {
    pub(crate) fn numbers(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> u64 {
        self.numbers().last().copied().unwrap_or(0)
    }

    /// Takes in an event.
    ///
    /// # Errors
    ///
    /// When it came before, or out of order (P2).
    fn hear(&self, seq: u64) -> Result<(), Broken> {
        let last = self.last();
        if seq <= last {
            return Err(format!("P2: a client got number {seq} after {last}"));
        }
        self.numbers().insert(seq);
        Ok(())
    }
}

impl Spectator {
    /// Watches until the life ends.
    pub(crate) async fn watch(mut self, disk: Arc<dyn Disk>, witness: Witness) {
        loop {
            let token = disk.read(&state_dir().join(Path::new(TOKEN_FILE)), TOKEN_BYTES);
            if let (Ok(token), Some(stream)) = (token, self.net.connect()) {
                let token = String::from_utf8_lossy(&token).trim_end().to_owned();
                if let Ok(socket) = self.enter(stream, &token).await {
                    let held = self.listen(socket).await;
                    witness.check(held);
                }
            }
            self.pause(2_000).await;
        }
    }

    async fn pause(&mut self, most_millis: u64) {
        let millis = self.rng.within(1..most_millis);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    async fn enter(&self, stream: DuplexStream, token: &str) -> Result<WebSocketStream<DuplexStream>, Error> {
        let mut request = format!("ws://{}/ws", MemoryNet::ADDRESS).into_client_request()?;
        let bearer = format!("Bearer {token}").parse()?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let (mut socket, _) = client_async(request, stream).await?;
        let data = json!({"mode": "readonly", "afterSeq": self.seen.last()});
        let handshake = json!({"type": "handshake", "data": data});
        socket.send(Message::text(handshake.to_string())).await?;
        Ok(socket)
    }

    /// Hears events until the server leaves or the client has had enough.
    async fn listen(&mut self, mut socket: WebSocketStream<DuplexStream>) -> Result<(), Broken> {
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text)
                .map_err(|error| format!("a client got no JSON: {error}: {text}"))?;
            if message["data"]["code"] == "UNKNOWN_SEQ" {
                return Err(format!(
                    "P2: a client saw number {}, which nobody knows",
                    self.seen.last()
                ));
            }
            if let Some(seq) = message["seq"].as_u64() {
                self.seen.hear(seq)?;
            }
            if !self.attentive && self.rng.one_in(10) {
                self.pause(20_000).await;
            }
            if !self.attentive && self.rng.one_in(15) {
                return Ok(());
            }
        }
        Ok(())
    }
}
