//! The WebSocket of one client: [`ClientSocket::next`] sends waiting messages and receives frames at the same time, and may be cancelled without losing any.

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

use super::history::HistoryChunk;
use super::meter::MeteredConnection;
use super::outbox::{Dequeued, Outbox};
use crate::world::net::Connection;

/// How long the two closing frames may take.
pub(super) const CLOSING: Duration = Duration::from_secs(1);

/// Bytes that a client may be sent before a ping shows whether it reads.
const UNPROVEN_BYTES: u64 = 32 << 10;

/// Limit of bytes that a client may still send while it is disconnected.
const DRAINED_BYTES: u64 = 1 << 20;

/// The WebSocket of a client.
#[derive(Debug)]
pub(super) struct ClientSocket {
    socket: WebSocketStream<MeteredConnection>,
    /// Messages that are sent before those of the outbox.
    urgent: VecDeque<Message>,
    /// Whether `socket` may hold bytes that the connection has not taken.
    unflushed: bool,
}

/// Optional events that the caller wants.
#[derive(Debug, Default)]
pub(super) struct Interests {
    /// [`SocketEvent::Idle`]
    pub(super) idle: bool,
    /// [`SocketEvent::Unproven`]
    pub(super) unproven: bool,
}

/// Event of the socket.
#[derive(Debug)]
pub(super) enum SocketEvent {
    /// The client sent this.
    Message(Message),
    /// Every message is sent.
    Idle,
    /// Enough bytes were sent to the client that a ping should show whether it reads.
    Unproven,
    /// The client does not read.
    Overflowed,
    /// The client broke a rule.
    Violation(CloseReason),
    /// The client has closed the connection.
    Closed,
}

/// Why a client is disconnected: a code and a text for its closing frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CloseReason {
    pub(super) code: CloseCode,
    pub(super) reason: &'static str,
}

impl CloseReason {
    pub(super) const fn new(code: CloseCode, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

impl ClientSocket {
    /// Makes the socket of a connection whose upgrade was answered; `rest` has the bytes that the client sent after its request.
    pub(super) async fn new(connection: Box<dyn Connection>, rest: Vec<u8>, config: WebSocketConfig) -> Self {
        let connection = MeteredConnection::new(connection);
        Self {
            socket: WebSocketStream::from_partially_read(connection, rest, Role::Server, Some(config)).await,
            urgent: VecDeque::new(),
            unflushed: false,
        }
    }

    /// Since when the client has taken none of the bytes that wait; `None` when no bytes wait.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.socket.get_ref().stalled_since()
    }

    /// Sends a text before everything that waits in the outbox.
    pub(super) fn send(&mut self, text: Utf8Bytes) {
        self.urgent.push_back(Message::Text(text));
    }

    /// Sends a part of the history before everything that waits in the outbox.
    pub(super) fn send_part(&mut self, part: HistoryChunk) {
        self.urgent.extend(part.messages.into_iter().map(Message::Text));
    }

    /// Pings the client.
    pub(super) fn ping(&mut self) {
        self.urgent.push_back(Message::Ping(Vec::new().into()));
    }

    /// Sends waiting messages and receives frames, until there is an event.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: a message leaves the outbox when the socket takes it.
    pub(super) async fn next(&mut self, outbox: &Outbox, interests: &Interests) -> SocketEvent {
        std::future::poll_fn(|context| self.poll(outbox, interests, context)).await
    }

    fn poll(
        &mut self,
        outbox: &Outbox,
        interests: &Interests,
        context: &mut Context<'_>,
    ) -> Poll<SocketEvent> {
        loop {
            let is_all_sent = match self.poll_send(outbox, context) {
                Ok(is_all_sent) => is_all_sent,
                Err(event) => return Poll::Ready(event),
            };
            match self.socket.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(message))) => return Poll::Ready(SocketEvent::Message(message)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(failure_event(&error)),
                Poll::Ready(None) => return Poll::Ready(SocketEvent::Closed),
                Poll::Pending => {}
            }
            let has_more = outbox.poll_changed(context).is_ready();
            if outbox.has_overflowed() {
                return Poll::Ready(SocketEvent::Overflowed);
            }
            let is_much = self.socket.get_ref().sent() >= UNPROVEN_BYTES;
            match (is_all_sent, has_more) {
                // Reported only when everything is sent, so that no message is in front of the ping that follows.
                (true, _) if interests.unproven && is_much => return Poll::Ready(SocketEvent::Unproven),
                // A message came while the socket was read: it is sent in the next round.
                (true, true) => {}
                (true, false) if interests.idle => return Poll::Ready(SocketEvent::Idle),
                // The task is woken when the socket has room again, or when a frame or a message comes.
                (true, false) | (false, _) => return Poll::Pending,
            }
        }
    }

    /// Passes messages to the socket; returns whether the connection has taken all of them.
    fn poll_send(&mut self, outbox: &Outbox, context: &mut Context<'_>) -> Result<bool, SocketEvent> {
        loop {
            match self.socket.poll_ready_unpin(context) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Err(error)) => return Err(failure_event(&error)),
                Poll::Ready(Ok(())) => {}
            }
            let message = match self.urgent.pop_front() {
                Some(message) => message,
                None => match outbox.take() {
                    Dequeued::Message(text) => Message::Text(text),
                    Dequeued::Overflowed => return Err(SocketEvent::Overflowed),
                    Dequeued::Nothing => break,
                },
            };
            self.unflushed = true;
            self.socket
                .start_send_unpin(message)
                .map_err(|error| failure_event(&error))?;
        }
        Ok(!self.unflushed || self.poll_flush(context)?)
    }

    /// Flushes the socket; returns whether the connection has taken all its bytes.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Result<bool, SocketEvent> {
        match self.socket.poll_flush_unpin(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(failure_event(&error)),
            Poll::Ready(Ok(())) => {
                self.unflushed = false;
                Ok(true)
            }
        }
    }

    /// Sends the closing frame, for at most `sending`, and waits for the answer and the end of the
    /// connection, for at most `patience`.
    pub(super) async fn disconnect(mut self, why: CloseReason, sending: Duration, patience: Duration) {
        let frame = CloseFrame {
            code: why.code,
            reason: Utf8Bytes::from_static(why.reason),
        };
        let sent = self.socket.send(Message::Close(Some(frame)));
        let Ok(sent) = tokio::time::timeout(sending, sent).await else {
            return;
        };
        let work = async {
            if sent.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
            self.hang_up().await;
        };
        // A client that does not answer is not waited for.
        let _ = tokio::time::timeout(patience, work).await;
    }

    /// Ends the connection, after the client has closed it or after a closing frame was sent.
    pub(super) async fn hang_up(mut self) {
        let work = async {
            // The answer to a closing frame of the client.
            let _ = self.socket.flush().await;
            let mut connection = self.socket.into_inner();
            connection.shutdown().await?;
            // The system would discard the last messages if input was left unread.
            let mut rest = connection.take(DRAINED_BYTES);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        // A client that does not react is not waited for.
        let _ = tokio::time::timeout(CLOSING, work).await;
    }
}

/// Returns the event of a socket that has failed.
fn failure_event(error: &Error) -> SocketEvent {
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    match error {
        Error::Capacity(_) => {
            SocketEvent::Violation(CloseReason::new(CloseCode::Size, "the message is too large"))
        }
        Error::Utf8(_) => {
            SocketEvent::Violation(CloseReason::new(CloseCode::Invalid, "the message is no UTF-8"))
        }
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake | ProtocolError::SendAfterClosing) => {
            SocketEvent::Closed
        }
        Error::Protocol(_) => SocketEvent::Violation(CloseReason::new(
            CloseCode::Protocol,
            "this is no WebSocket frame",
        )),
        _ => SocketEvent::Closed,
    }
}
