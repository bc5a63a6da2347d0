//! One socket: what is written and what is read, at the same time and without losing either.

use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::frames::Frames;
use super::meter::Meter;
use super::outbox::{Next, Outbox};
use crate::world::net::Connection;

/// How long the two closing frames may take.
pub(super) const CLOSING: Duration = Duration::from_secs(1);

/// What a client may be sent before it is asked whether it reads.
const TRUSTED_BYTES: u64 = 32 << 10;

/// What a client may still send while it is left.
const DRAINED_BYTES: u64 = 1 << 20;

/// A WebSocket and what goes out before anything that waits.
#[derive(Debug)]
pub(super) struct Wire {
    socket: WebSocketStream<Meter>,
    /// A part of the history that goes out before everything else.
    part: Option<Frames>,
    urgent: VecDeque<Message>,
    unflushed: bool,
}

/// What is told only to those who want it.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// That everything is sent.
    pub(super) idle: bool,
    /// That so much has gone to the client that it should have said something.
    pub(super) doubt: bool,
}

/// What happened on the socket.
#[derive(Debug)]
pub(super) enum Happened {
    /// The client sent this.
    Heard(Message),
    /// Everything is sent.
    Idle,
    /// The client has been sent much without a word of its own.
    Doubted,
    /// The client does not read.
    Overflowed,
    /// The client broke a rule.
    Broken(Leaving),
    /// The client has gone.
    Gone,
}

/// Why a client is left: a code and a word for its closing frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) code: CloseCode,
    pub(super) reason: &'static str,
}

impl Leaving {
    pub(super) const fn new(code: CloseCode, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

impl Wire {
    /// A socket whose upgrade was answered; `rest` is what the client had sent behind it.
    pub(super) async fn new(connection: Box<dyn Connection>, rest: Vec<u8>, config: WebSocketConfig) -> Self {
        let connection = Meter::new(connection);
        Self {
            socket: WebSocketStream::from_partially_read(connection, rest, Role::Server, Some(config)).await,
            part: None,
            urgent: VecDeque::new(),
            unflushed: false,
        }
    }

    /// Since when the client has taken nothing of what waits; `None` when nothing does.
    pub(super) fn refuses_since(&self) -> Option<Instant> {
        self.socket.get_ref().refuses_since()
    }

    /// Sends a text before everything that waits.
    pub(super) fn say(&mut self, text: Utf8Bytes) {
        self.urgent.push_back(Message::Text(text));
    }

    /// Sends a part of the history before everything that waits, and gives back the memory of the part before it, which must have gone.
    pub(super) fn pass_on(&mut self, part: Frames) -> Frames {
        self.part = Some(part);
        self.socket.get_mut().unload()
    }

    /// Asks the client whether it is there.
    pub(super) fn ask(&mut self) {
        self.urgent.push_back(Message::Ping(Vec::new().into()));
    }

    /// Sends what waits and hears what comes.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: a message leaves the outbox when the socket takes it.
    pub(super) async fn happens(&mut self, outbox: &Outbox, wants: &Wants) -> Happened {
        std::future::poll_fn(|context| self.poll(outbox, wants, context)).await
    }

    fn poll(&mut self, outbox: &Outbox, wants: &Wants, context: &mut Context<'_>) -> Poll<Happened> {
        loop {
            let sent = match self.poll_send(outbox, context) {
                Ok(sent) => sent,
                Err(happened) => return Poll::Ready(happened),
            };
            match self.socket.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(message))) => return Poll::Ready(Happened::Heard(message)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(broken(&error)),
                Poll::Ready(None) => return Poll::Ready(Happened::Gone),
                Poll::Pending => {}
            }
            let more = outbox.poll_changed(context).is_ready();
            if outbox.has_overflowed() {
                return Poll::Ready(Happened::Overflowed);
            }
            let is_much = self.socket.get_ref().sent() >= TRUSTED_BYTES;
            match (sent, more) {
                // The question goes out at once.
                (true, _) if wants.doubt && is_much => return Poll::Ready(Happened::Doubted),
                // Something came while the socket was read.
                (true, true) => {}
                (true, false) if wants.idle => return Poll::Ready(Happened::Idle),
                // A socket that is full wakes the task when it is not.
                (true, false) | (false, _) => return Poll::Pending,
            }
        }
    }

    /// Hands messages to the socket; says whether all are on their way.
    fn poll_send(&mut self, outbox: &Outbox, context: &mut Context<'_>) -> Result<bool, Happened> {
        if let Some(part) = self.part.take() {
            // The answer to a ping of the client may be on its way.
            if !self.poll_flush(context)? {
                self.part = Some(part);
                return Ok(false);
            }
            self.socket.get_mut().load(part);
            self.unflushed = true;
        }
        loop {
            match self.socket.poll_ready_unpin(context) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Err(error)) => return Err(broken(&error)),
                Poll::Ready(Ok(())) => {}
            }
            let message = match self.urgent.pop_front() {
                Some(message) => message,
                None => match outbox.take() {
                    Next::Message(text) => Message::Text(text),
                    Next::Overflowed => return Err(Happened::Overflowed),
                    Next::Nothing => break,
                },
            };
            self.unflushed = true;
            self.socket
                .start_send_unpin(message)
                .map_err(|error| broken(&error))?;
        }
        Ok(!self.unflushed || self.poll_flush(context)?)
    }

    /// Says whether everything that the socket has is on its way.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Result<bool, Happened> {
        match self.socket.poll_flush_unpin(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(broken(&error)),
            Poll::Ready(Ok(())) => {
                self.unflushed = false;
                Ok(true)
            }
        }
    }

    /// Says good-bye, which may take as long as `sending`, and waits for the answer and the end of the connection for no longer than `patience`.
    pub(super) async fn leave(mut self, leaving: Leaving, sending: Duration, patience: Duration) {
        let frame = CloseFrame {
            code: leaving.code,
            reason: Utf8Bytes::from_static(leaving.reason),
        };
        let said = self.socket.send(Message::Close(Some(frame)));
        let Ok(said) = tokio::time::timeout(sending, said).await else {
            return;
        };
        let work = async {
            if said.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
            self.hang_up().await;
        };
        // Whoever does not answer does without it.
        let _ = tokio::time::timeout(patience, work).await;
    }

    /// Ends a connection that the client has closed, or whose end it has heard of.
    pub(super) async fn hang_up(mut self) {
        let work = async {
            // The answer to a closing frame of the client.
            let _ = self.socket.flush().await;
            let mut connection = self.socket.into_inner();
            connection.shutdown().await?;
            // What is left unread would make the system take back what was said last.
            let mut rest = connection.take(DRAINED_BYTES);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        // Whoever does not hear it does without it.
        let _ = tokio::time::timeout(CLOSING, work).await;
    }
}

fn broken(error: &Error) -> Happened {
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    match error {
        Error::Capacity(_) => Happened::Broken(Leaving::new(CloseCode::Size, "the message is too large")),
        Error::Utf8(_) => Happened::Broken(Leaving::new(CloseCode::Invalid, "the message is no UTF-8")),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake | ProtocolError::SendAfterClosing) => {
            Happened::Gone
        }
        Error::Protocol(_) => {
            Happened::Broken(Leaving::new(CloseCode::Protocol, "this is no WebSocket frame"))
        }
        _ => Happened::Gone,
    }
}
