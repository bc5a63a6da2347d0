//! The door: who knocks gets a limited time to show a token, and the newest one always gets in.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::client::Client;
use super::gate::{Admission, Status};
use super::head::{Head, HeadError};
use super::plain;
use super::wire::Wire;
use crate::world::net::{Connection, Listener};

/// How long the door stays shut when the system cannot give another connection, for want of descriptors for example.
const RESPITE: Duration = Duration::from_millis(100);

/// Lets clients in until the server closes, then waits for them to leave.
pub(super) async fn listen(mut listener: Box<dyn Listener>, shared: Arc<Shared>) {
    let mut guests = JoinSet::new();
    let strangers = Arc::new(Strangers::new(shared.limits.strangers));
    loop {
        // Every arm is cancel safe: a connection that was not taken waits in the queue of the system.
        tokio::select! {
            biased;
            () = shared.closing.cancelled() => break,
            Some(left) = guests.join_next() => note(left),
            accepted = listener.accept() => match accepted {
                Ok(connection) => {
                    let stranger = strangers.enter();
                    guests.spawn(receive(connection, Arc::clone(&shared), stranger));
                }
                Err(error) => pause(&error).await,
            },
        }
    }
    drop(listener);
    while let Some(left) = guests.join_next().await {
        note(left);
    }
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(RESPITE).await;
}

fn note(left: Result<(), tokio::task::JoinError>) {
    if let Err(error) = left
        && error.is_panic()
    {
        tracing::error!(%error, "a client's task failed; please report this bug");
    }
}

/// Hears what somebody wants who has just come.
async fn receive(mut connection: Box<dyn Connection>, shared: Arc<Shared>, stranger: Stranger) {
    let head = tokio::select! {
        biased;
        // First of all: whoever has said everything already is not driven out for those who came later and say nothing.
        head = tokio::time::timeout(shared.limits.head, Head::read(&mut connection)) => head,
        () = stranger.driven_out() => return turn_away(connection).await,
        () = shared.closing.cancelled() => return,
    };
    let reached = connection.local_address();
    let answer = async {
        match head {
            Err(_) => {
                plain::refuse(
                    connection,
                    Status::Timeout,
                    "the head of the request took too long",
                )
                .await
            }
            Ok(Err(HeadError::Gone)) => {}
            Ok(Err(error @ HeadError::TooLarge)) => {
                plain::refuse(connection, Status::HeadTooLarge, &error.to_string()).await;
            }
            Ok(Err(error @ HeadError::Malformed)) => {
                plain::refuse(connection, Status::BadRequest, &error.to_string()).await;
            }
            Ok(Ok(head)) => match shared.gate.admit(&head, reached) {
                Admission::Asset(asset, host) => plain::send(connection, asset, &host).await,
                Admission::Refused(status, why) => plain::refuse(connection, status, why).await,
                Admission::Upgrade(role, answer) => {
                    let upgraded = upgrade(connection, &shared, &answer, head.rest).await;
                    return upgraded.map(|(wire, place)| (wire, place, role));
                }
            },
        }
        None
    };
    let upgraded = tokio::select! {
        biased;
        upgraded = answer => upgraded,
        () = stranger.driven_out() => None,
        () = shared.closing.cancelled() => None,
    };
    drop(stranger);
    if let Some((wire, place, role)) = upgraded {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Client::new(shared, role, number).serve(wire, place).await;
    }
}

/// Makes a socket of the connection of somebody who has shown a token, if there is room.
async fn upgrade(
    mut connection: Box<dyn Connection>,
    shared: &Shared,
    answer: &[u8],
    rest: Vec<u8>,
) -> Option<(Wire, OwnedSemaphorePermit)> {
    let Ok(place) = shared.clients.clone().try_acquire_owned() else {
        plain::refuse(connection, Status::Unavailable, "there are too many clients").await;
        return None;
    };
    let written = tokio::time::timeout(shared.limits.head, connection.write_all(answer)).await;
    written.ok()?.ok()?;
    let wire = Wire::new(connection, rest, shared.limits.socket()).await;
    Some((wire, place))
}

/// Somebody else needs the place: a line that fits into what the system keeps, and nothing to wait for.
async fn turn_away(mut connection: Box<dyn Connection>) {
    let line = format!(
        "HTTP/1.1 {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        Status::Unavailable.line()
    );
    let _ = tokio::time::timeout(RESPITE, connection.write_all(line.as_bytes())).await;
}

/// Those who have not shown a token yet. One more than there is room for drives out the one that has been here longest, so whoever has a
/// token gets in however many come without one.
#[derive(Debug)]
struct Strangers {
    most: usize,
    here: Mutex<VecDeque<(u64, CancellationToken)>>,
    next: AtomicU64,
}

/// One of them, until this is dropped.
#[derive(Debug)]
struct Stranger {
    all: Arc<Strangers>,
    number: u64,
    out: CancellationToken,
}

impl Strangers {
    fn new(most: usize) -> Self {
        Self {
            most,
            here: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    fn enter(self: &Arc<Self>) -> Stranger {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let out = CancellationToken::new();
        let mut here = self.here();
        here.push_back((number, out.clone()));
        if here.len() > self.most
            && let Some((_, oldest)) = here.pop_front()
        {
            oldest.cancel();
        }
        drop(here);
        Stranger {
            all: Arc::clone(self),
            number,
            out,
        }
    }

    fn here(&self) -> MutexGuard<'_, VecDeque<(u64, CancellationToken)>> {
        // Every change is a single call.
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    async fn driven_out(&self) {
        self.out.cancelled().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.all.here().retain(|(number, _)| *number != self.number);
    }
}
