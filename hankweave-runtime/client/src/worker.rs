//! The task of a client: one connection after another until the run ends.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hankweave_core::wire::{CLOSED_INCOMPLETE, ClientRequest, DirectPayload, Handshake};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message as Frame};

use crate::CLOSING;
use crate::Disconnected;
use crate::RunAddress;
use crate::connection::{self, ClientStream, ConnectError};
use crate::find::FindError;
use crate::message::ServerMessage;

/// How many attempts there are to reconnect, and the delay after the first one, which doubles with each attempt.
const ATTEMPTS: u32 = 6;
const FIRST_DELAY: Duration = Duration::from_millis(50);

/// A command that waits for its answer.
#[derive(Debug)]
pub(super) struct PendingCommand {
    pub(super) request: ClientRequest,
    /// Gets the answer; dropped when none can come any more.
    pub(super) reply: oneshot::Sender<DirectPayload>,
}

/// The state of the task.
pub(super) struct ConnectionTask {
    target: RunAddress,
    handshake: Handshake,
    /// The last event that was passed on, or that the caller does not want.
    position: u64,
    requests: mpsc::Receiver<PendingCommand>,
    events: mpsc::Sender<ServerMessage>,
    /// Commands that were sent and have no answer yet, by their ids.
    unanswered: BTreeMap<String, PendingCommand>,
    /// Whether an event was skipped because `events` is full. From then on all messages are skipped, until a new connection sends the events again.
    lagging: bool,
    /// Why the task has ended, for the caller.
    ended: Arc<OnceLock<Disconnected>>,
}

/// Why a connection has ended.
enum Disconnect {
    /// It was lost for this reason; another connection continues.
    Again(String),
    /// No other connection follows.
    Ended(Disconnected),
    /// The caller has dropped the client.
    Left,
}

impl ConnectionTask {
    pub(super) fn new(
        target: RunAddress,
        handshake: Handshake,
        position: u64,
        requests: mpsc::Receiver<PendingCommand>,
        events: mpsc::Sender<ServerMessage>,
        ended: Arc<OnceLock<Disconnected>>,
    ) -> Self {
        Self {
            target,
            handshake,
            position,
            requests,
            events,
            unanswered: BTreeMap::new(),
            lagging: false,
            ended,
        }
    }

    /// Works until the run ends or the client leaves.
    pub(super) async fn run(mut self, first: ClientStream) {
        let mut connection = first;
        let ended = loop {
            let disconnect = self.serve(&mut connection).await;
            // Sends the closing frame or answers it; a server that does not take it is not waited for.
            let _ = tokio::time::timeout(CLOSING, connection.close(None)).await;
            drop(connection);
            match disconnect {
                Disconnect::Left => return,
                Disconnect::Ended(ended) => break ended,
                Disconnect::Again(why) => match self.reconnect(why).await {
                    Ok(next) => connection = next,
                    Err(ended) => break ended,
                },
            }
        };
        // Set before the channels close, which wakes the waiting callers.
        let _ = self.ended.set(ended);
    }

    /// Receives and sends until the connection has ended.
    async fn serve(&mut self, connection: &mut ClientStream) -> Disconnect {
        // Commands whose answers may have been lost with the last connection are sent again. The server carries out a command only once.
        let unanswered: Vec<Frame> = self
            .unanswered
            .values()
            .map(|pending| frame(&pending.request))
            .collect();
        for frame in unanswered {
            if let Err(error) = connection.send(frame).await {
                return Disconnect::Again(error.to_string());
            }
        }
        let events = self.events.clone();
        loop {
            // Every arm is cancel safe: frames, commands and room for events stay where they are until they are taken.
            tokio::select! {
                received = connection.next() => {
                    if let ControlFlow::Break(disconnect) = self.receive(received) {
                        return disconnect;
                    }
                }
                pending = self.requests.recv() => {
                    let Some(pending) = pending else {
                        return Disconnect::Left;
                    };
                    let frame = frame(&pending.request);
                    self.unanswered.insert(pending.request.id.clone(), pending);
                    if let Err(error) = connection.send(frame).await {
                        return Disconnect::Again(error.to_string());
                    }
                }
                room = events.reserve_many(events.max_capacity()), if self.lagging => {
                    if room.is_err() {
                        return Disconnect::Left;
                    }
                    // The caller has taken all waiting events. A new connection sends the skipped ones.
                    drop(room);
                    return Disconnect::Again("the events that were skipped are asked for again".to_owned());
                }
                () = events.closed() => return Disconnect::Left,
            }
        }
    }

    /// Handles a frame of the server. Breaks when the connection has ended.
    fn receive(&mut self, received: Option<Result<Frame, Error>>) -> ControlFlow<Disconnect> {
        match received {
            None => ControlFlow::Break(Disconnect::Again("the server has gone".to_owned())),
            Some(Err(error)) => ControlFlow::Break(Disconnect::Again(error.to_string())),
            Some(Ok(Frame::Close(frame))) => ControlFlow::Break(self.closed_by(frame)),
            Some(Ok(Frame::Text(text))) => {
                if let Some(message) = ServerMessage::read(&text) {
                    self.pass_on(message);
                }
                ControlFlow::Continue(())
            }
            Some(Ok(_)) => ControlFlow::Continue(()),
        }
    }

    /// Passes a message to the command or the caller that waits for it.
    fn pass_on(&mut self, message: ServerMessage) {
        if let ServerMessage::Direct(direct) = &message
            && let Some(id) = &direct.command_id
        {
            if let Some(pending) = self.unanswered.remove(id) {
                // Sending fails if the caller no longer waits for the answer.
                let _ = pending.reply.send(direct.answer.clone());
            }
            return;
        }
        let seq = message.seq();
        if self.lagging || seq.is_some_and(|seq| seq <= self.position) {
            return;
        }
        match self.events.try_send(message) {
            Ok(()) => self.position = seq.unwrap_or(self.position),
            // A message without a number cannot be requested again: it is left out.
            Err(TrySendError::Full(_)) => self.lagging = seq.is_some(),
            // The next check of the channel notices that it is closed.
            Err(TrySendError::Closed(_)) => {}
        }
    }

    /// Reconnects and continues where the last connection ended.
    async fn reconnect(&mut self, mut why: String) -> Result<ClientStream, Disconnected> {
        self.handshake.after_seq = Some(self.position);
        for attempt in 0..ATTEMPTS {
            match self.target.find() {
                // The run has ended, and no closing frame has confirmed that this client has everything.
                Err(FindError::NotLive { .. } | FindError::NoExecution { .. }) => {
                    return Err(self.incomplete());
                }
                Err(error) => why = error.to_string(),
                Ok(endpoint) => match connection::open(&endpoint, &self.handshake).await {
                    Ok((connection, _)) => {
                        self.lagging = false;
                        return Ok(connection);
                    }
                    Err(error @ (ConnectError::Refused { .. } | ConnectError::Unauthorized { .. })) => {
                        return Err(Disconnected::Refused(error.to_string()));
                    }
                    Err(error) => why = error.to_string(),
                },
            }
            tokio::time::sleep(FIRST_DELAY * 2_u32.pow(attempt)).await;
        }
        Err(Disconnected::Lost(why))
    }

    fn incomplete(&self) -> Disconnected {
        Disconnected::Incomplete { after: self.position }
    }

    /// Returns the meaning of a closing frame.
    fn closed_by(&self, frame: Option<CloseFrame>) -> Disconnect {
        let Some(frame) = frame else {
            return Disconnect::Again("the server closed".to_owned());
        };
        match frame.code {
            // The server has sent everything, but some events were skipped here. A new connection may still get them.
            CloseCode::Away | CloseCode::Normal if self.lagging => {
                Disconnect::Again(frame.reason.to_string())
            }
            CloseCode::Away | CloseCode::Normal => Disconnect::Ended(Disconnected::RunEnded),
            CloseCode::Library(CLOSED_INCOMPLETE) => Disconnect::Ended(self.incomplete()),
            // This client was too slow, or silent for too long. A new connection gets the events that it missed.
            CloseCode::Again => Disconnect::Again(frame.reason.to_string()),
            CloseCode::Policy if frame.reason == "silent" => Disconnect::Again(frame.reason.to_string()),
            _ => Disconnect::Ended(Disconnected::Refused(frame.reason.to_string())),
        }
    }
}

fn frame(request: &ClientRequest) -> Frame {
    let text = serde_json::to_string(request).expect("a command has text keys");
    Frame::text(text)
}
