//! Accepting connections: each has a limited time to show a token, and a new one is never kept out.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_util::sync::CancellationToken;

use super::door::{Admitted, Door};
use super::gate::Admission;
use super::head::{Head, HeadError};
use super::plain;
use crate::world::net::{Connection, Listener};

/// How long nothing is accepted when the system cannot give another connection, for lack of descriptors for
/// example.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts clients until the server closes, then waits for them to leave.
pub(super) async fn accept(mut listener: Box<dyn Listener>, door: Arc<Door>) {
    let mut connections = JoinSet::new();
    // Connections that have not shown a token yet, oldest first; each is cancelled when it ends or shows one. If there is no
    // room for another one, the oldest is evicted, so that a client with a token gets in however many come
    // without one.
    let mut pending: VecDeque<CancellationToken> = VecDeque::new();
    loop {
        // Every arm is cancel safe: a connection that was not accepted waits in the queue of the system.
        tokio::select! {
            biased;
            () = door.closing.cancelled() => break,
            Some(ended) = connections.join_next() => report_panic(ended),
            accepted = listener.accept() => match accepted {
                Ok(connection) => {
                    let evicted = CancellationToken::new();
                    pending.retain(|token| !token.is_cancelled());
                    pending.push_back(evicted.clone());
                    if pending.len() > door.limits.unauthenticated
                        && let Some(oldest) = pending.pop_front()
                    {
                        oldest.cancel();
                    }
                    connections.spawn(receive(connection, Arc::clone(&door), evicted));
                }
                Err(error) => pause(&error).await,
            },
        }
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        report_panic(ended);
    }
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(RETRY_DELAY).await;
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a client's task failed; please report this bug");
    }
}

/// Serves a connection that was just accepted, unless it is evicted before it has shown a token.
async fn receive(mut connection: Box<dyn Connection>, door: Arc<Door>, evicted: CancellationToken) {
    let pending = evicted.clone().drop_guard();
    let head = tokio::select! {
        biased;
        // First: a client that has sent its head already is not evicted for later ones that have sent
        // nothing.
        head = tokio::time::timeout(door.limits.head, Head::read(&mut connection)) => head,
        () = evicted.cancelled() => return turn_away(connection).await,
        () = door.closing.cancelled() => return,
    };
    let reached = connection.local_address();
    let answer = async {
        match head {
            Err(_) => {
                plain::refuse(
                    connection,
                    StatusCode::REQUEST_TIMEOUT,
                    "the head of the request took too long",
                )
                .await
            }
            Ok(Err(HeadError::Gone)) => {}
            Ok(Err(error @ HeadError::TooLarge)) => {
                plain::refuse(
                    connection,
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    &error.to_string(),
                )
                .await;
            }
            Ok(Err(error @ HeadError::Malformed)) => {
                plain::refuse(connection, StatusCode::BAD_REQUEST, &error.to_string()).await;
            }
            Ok(Ok(head)) => match door.gate.admit(&head, reached) {
                Admission::Asset(asset, host) => plain::send(connection, asset, &host).await,
                Admission::Proof(proof) => plain::send_json(connection, &proof).await,
                Admission::Answer(answer) => {
                    let said = door.answer(answer).await;
                    match said {
                        Ok(said) => plain::send_text(connection, said).await,
                        Err(why) => plain::refuse(connection, StatusCode::CONFLICT, &why).await,
                    }
                }
                Admission::Refused(status, why) => plain::refuse(connection, status, why).await,
                Admission::List => return Some(Admitted::List(connection)),
                Admission::Upgrade(upgrade) => {
                    return Some(Admitted::Client {
                        connection,
                        upgrade,
                        rest: head.rest,
                    });
                }
            },
        }
        None
    };
    let admitted = tokio::select! {
        biased;
        admitted = answer => admitted,
        () = evicted.cancelled() => None,
        () = door.closing.cancelled() => None,
    };
    // A client with a token is evicted no more.
    drop(pending);
    if let Some(admitted) = admitted {
        door.serve(admitted).await;
    }
}

/// Answers an evicted connection: a line that fits into the buffer of the system, so that nothing is waited
/// for.
async fn turn_away(mut connection: Box<dyn Connection>) {
    let line = format!(
        "HTTP/1.1 {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        StatusCode::SERVICE_UNAVAILABLE
    );
    let _ = tokio::time::timeout(RETRY_DELAY, connection.write_all(line.as_bytes())).await;
}
