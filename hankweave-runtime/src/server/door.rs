//! Door of one listener. `accept` passes it each connection that the gate admitted: the connection becomes a client of the run or record that it named (its
//! room), or gets the list of records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_util::sync::CancellationToken;

use super::answers::TokenAnswer;
use super::client::ClientConnection;
use super::gate::{Gate, Upgrade};
use super::limits::ServerLimits;
use super::list::{ListedRecords, OpenRecord};
use super::socket::ClientSocket;
use super::{Shared, plain};
use crate::world::net::Connection;

/// Common parts of all connections to one listener.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) gate: Gate,
    pub(super) limits: ServerLimits,
    /// Free places for clients with a token.
    pub(super) clients: Arc<Semaphore>,
    /// Cancelled when the server stops.
    pub(super) closing: CancellationToken,
    pub(super) rooms: Rooms,
}

/// Records that clients can enter.
#[derive(Debug)]
pub(super) enum Rooms {
    /// A run at work, or the record of one directory.
    One(Arc<Shared>),
    /// The records of a list.
    Many(ListedRecords),
}

/// A connection that has shown a token.
pub(super) enum Admitted {
    /// It gets the list.
    List(Box<dyn Connection>),
    /// It becomes a client.
    Client {
        connection: Box<dyn Connection>,
        upgrade: Upgrade,
        /// Bytes after the head of its request.
        rest: Vec<u8>,
    },
}

/// The room of a client.
struct Room {
    shared: Arc<Shared>,
    /// Keeps the record open.
    _record: Option<OpenRecord>,
}

impl Door {
    /// Passes the answer of a notification's button to the run; returns the text for the user.
    pub(super) async fn answer(&self, answer: TokenAnswer) -> Result<&'static str, String> {
        match &self.rooms {
            Rooms::One(shared) => shared.answer(answer).await,
            Rooms::Many(_) => Err("nothing runs here".to_owned()),
        }
    }

    /// Serves a connection that has shown a token, if there is room.
    pub(super) async fn serve(&self, admitted: Admitted) {
        let place = self.clients.clone().try_acquire_owned();
        match (admitted, place) {
            (Admitted::List(connection) | Admitted::Client { connection, .. }, Err(_)) => {
                let why = "there are too many clients";
                let refused = plain::refuse(connection, StatusCode::SERVICE_UNAVAILABLE, why);
                self.unless_closing(refused).await;
            }
            (Admitted::List(connection), Ok(_place)) => self.unless_closing(self.list(connection)).await,
            (
                Admitted::Client {
                    connection,
                    upgrade,
                    rest,
                },
                Ok(place),
            ) => {
                let (role, response) = (upgrade.role, upgrade.response);
                let entering = async {
                    let (connection, room) = self.enter(connection, upgrade.record.as_deref()).await?;
                    let socket = self.upgrade(connection, &response, rest).await?;
                    Some((socket, room))
                };
                let entered = tokio::select! {
                    biased;
                    entered = entering => entered,
                    () = self.closing.cancelled() => None,
                };
                if let Some((socket, room)) = entered {
                    static NUMBERS: AtomicU64 = AtomicU64::new(1);
                    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
                    ClientConnection::new(Arc::clone(&room.shared), role, number)
                        .serve(socket, place)
                        .await;
                }
            }
        }
    }

    async fn unless_closing(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = work => {}
            () = self.closing.cancelled() => {}
        }
    }

    async fn list(&self, connection: Box<dyn Connection>) {
        match &self.rooms {
            Rooms::Many(records) => plain::send_json(connection, &records.listed().await).await,
            // The gate of a server of one run admits no request for a list.
            Rooms::One(_) => {}
        }
    }

    /// Finds the room of a client; refuses the client and returns `None` where there is none.
    async fn enter(
        &self,
        connection: Box<dyn Connection>,
        record: Option<&str>,
    ) -> Option<(Box<dyn Connection>, Room)> {
        let records = match &self.rooms {
            Rooms::One(shared) => {
                let shared = Arc::clone(shared);
                let room = Room {
                    shared,
                    _record: None,
                };
                return Some((connection, room));
            }
            Rooms::Many(records) => records,
        };
        match records.open(record.unwrap_or_default()).await {
            Ok(record) => {
                let room = Room {
                    shared: record.shared()?,
                    _record: Some(record),
                };
                Some((connection, room))
            }
            Err((status, why)) => {
                plain::refuse(connection, status, &why).await;
                None
            }
        }
    }

    /// Accepts the upgrade to a WebSocket.
    async fn upgrade(
        &self,
        mut connection: Box<dyn Connection>,
        response: &[u8],
        rest: Vec<u8>,
    ) -> Option<ClientSocket> {
        let written = tokio::time::timeout(self.limits.head, connection.write_all(response)).await;
        written.ok()?.ok()?;
        Some(ClientSocket::new(connection, rest, self.limits.socket()).await)
    }
}
