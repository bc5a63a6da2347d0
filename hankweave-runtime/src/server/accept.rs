//! Accepts connections and serves each in a task of its own: reads the head of its request, lets the gate decide, and answers it or passes it to the door. A
//! connection has a limited time to show a token, and a new one is never kept out.

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

/// How long nothing is accepted after the system failed to give a connection, as for lack of descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts clients until the server closes, then waits for them to leave.
pub(super) async fn accept(mut listener: Box<dyn Listener>, door: Arc<Door>) {
    let mut connections = JoinSet::new();
    // One for each connection that has not shown a token yet, oldest first; it is cancelled when the connection ends or shows a token. If there are too many,
    // the oldest connection is evicted by cancelling it, so that a client with a token gets in however many connections come without one.
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
    // Dropping this cancels `evicted`, which takes the connection off the list of those without a token.
    let pending = evicted.clone().drop_guard();
    let head = tokio::select! {
        biased;
        // The head comes first: a client that has sent it is not evicted for later connections that have sent nothing.
        head = tokio::time::timeout(door.limits.head, Head::read(&mut connection)) => head,
        () = evicted.cancelled() => return turn_away(connection).await,
        () = door.closing.cancelled() => return,
    };
    let reached = connection.local_address();
    // Results in the connection only if it has shown a token; any other is answered here.
    let answering = async {
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
                Admission::Answer(answer) => match door.answer(answer).await {
                    Ok(text) => plain::send_text(connection, text).await,
                    Err(why) => plain::refuse(connection, StatusCode::CONFLICT, &why).await,
                },
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
        admitted = answering => admitted,
        () = evicted.cancelled() => None,
        () = door.closing.cancelled() => None,
    };
    // From here on the connection is not evicted.
    drop(pending);
    if let Some(admitted) = admitted {
        door.serve(admitted).await;
    }
}

/// Answers an evicted connection. The answer fits into the buffer of the system, so sending it does not wait for the client.
async fn turn_away(mut connection: Box<dyn Connection>) {
    let line = format!(
        "HTTP/1.1 {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        StatusCode::SERVICE_UNAVAILABLE
    );
    let _ = tokio::time::timeout(RETRY_DELAY, connection.write_all(line.as_bytes())).await;
}
