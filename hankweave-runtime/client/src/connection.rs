//! Opens one connection to a server: TCP, the upgrade to a WebSocket with the token, and the handshake. `worker` then uses the connection.

use std::io;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hankweave_core::wire::{ClientSession, Handshake, Response};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message as Frame};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::find::{FindError, ServerEndpoint};

/// How long connecting and the handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest message that the client accepts, in bytes. An event is smaller: it holds at most one line of an agent, whose length is limited.
const LARGEST: usize = 32 << 20;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no server to connect to.
    #[error(transparent)]
    Find(#[from] FindError),
    /// Nothing answers at its address.
    #[error("failed to connect to {authority}")]
    Connect {
        /// Address.
        authority: String,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The server does not accept the token.
    #[error("the server at {authority} does not take the token")]
    Unauthorized {
        /// Address.
        authority: String,
    },
    /// The server there is not one of hankweave, or it failed.
    #[error("{authority} does not answer like a server of hankweave: {why}")]
    Upgrade {
        /// Address.
        authority: String,
        /// Description of the failure.
        why: String,
    },
    /// The server refuses the handshake.
    #[error("the server refuses the handshake: {message}")]
    Refused {
        /// The name of the reason.
        code: String,
        /// The reason for people.
        message: String,
    },
}

/// A WebSocket after its handshake.
pub(super) type ClientStream = WebSocketStream<TcpStream>;

/// Connects and completes the handshake.
pub(super) async fn open(
    endpoint: &ServerEndpoint,
    handshake: &Handshake,
) -> Result<(ClientStream, ClientSession), ConnectError> {
    let connected = tokio::time::timeout(PATIENCE, connect(endpoint, handshake)).await;
    connected.unwrap_or_else(|_| Err(upgrade_error(endpoint, "it takes too long".to_owned())))
}

async fn connect(
    endpoint: &ServerEndpoint,
    handshake: &Handshake,
) -> Result<(ClientStream, ClientSession), ConnectError> {
    let authority = || endpoint.authority().to_owned();
    let stream = TcpStream::connect(endpoint.authority())
        .await
        .map_err(|source| ConnectError::Connect {
            authority: authority(),
            source,
        })?;
    let address = format!("ws://{}/ws", endpoint.authority());
    let mut request = address
        .into_client_request()
        .map_err(|error| upgrade_error(endpoint, error.to_string()))?;
    // No server has a token that a header cannot hold.
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", endpoint.token())).map_err(|_| {
        ConnectError::Unauthorized {
            authority: authority(),
        }
    })?;
    bearer.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST));
    let upgraded = client_async_with_config(request, stream, Some(config)).await;
    let (mut connection, _) = upgraded.map_err(|error| match error {
        Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            ConnectError::Unauthorized {
                authority: authority(),
            }
        }
        Error::Http(response) => upgrade_error(endpoint, response.status().to_string()),
        error => upgrade_error(endpoint, error.to_string()),
    })?;
    let hello = json!({"type": "handshake", "data": handshake}).to_string();
    let sent = connection.send(Frame::text(hello)).await;
    sent.map_err(|error| upgrade_error(endpoint, error.to_string()))?;
    let session = read_session(endpoint, &mut connection).await?;
    Ok((connection, session))
}

/// Waits for the answer to the handshake; skips messages that are no answer.
async fn read_session(
    endpoint: &ServerEndpoint,
    connection: &mut ClientStream,
) -> Result<ClientSession, ConnectError> {
    while let Some(frame) = connection.next().await {
        let frame = frame.map_err(|error| upgrade_error(endpoint, error.to_string()))?;
        let Frame::Text(text) = frame else {
            continue;
        };
        if let Ok(Response::Handshake(session)) = serde_json::from_str(&text) {
            return Ok(session);
        }
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        if value["type"] == "error" {
            let word = |name: &str| value["data"][name].as_str().unwrap_or_default().to_owned();
            return Err(ConnectError::Refused {
                code: word("code"),
                message: word("message"),
            });
        }
    }
    Err(upgrade_error(endpoint, "it closed without an answer".to_owned()))
}

fn upgrade_error(endpoint: &ServerEndpoint, why: String) -> ConnectError {
    let authority = endpoint.authority().to_owned();
    ConnectError::Upgrade { authority, why }
}
