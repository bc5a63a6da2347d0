//! One client, from its upgrade to its end: [`ClientConnection::serve`] receives its messages, sends the messages in its outbox and the history that it asked
//! for, pings it, and disconnects it if it is silent, slow or breaks a rule. `session` answers its handshake and its commands.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hankweave_core::wire::{CLOSED_INCOMPLETE, Code, Handshake, Inbound, Mode, RawCommand, Refused};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::Shared;
use super::history::{self, HistoryChunk};
use super::limits::RateWindow;
use super::liveness::{Liveness, LivenessAction};
use super::outbox::Outbox;
use super::replies::ParsedRequest;
use super::socket::{CLOSING, ClientSocket, CloseReason, Interests, SocketEvent};
use super::token::Role;
use crate::error::chain;
use crate::presence::PresenceGuard;
use crate::world::disk::IoError;

/// How often a client is checked while the server stops.
const CLOSING_CHECK: Duration = Duration::from_millis(50);

/// The client did not read.
const SLOW: CloseReason = CloseReason::new(CloseCode::Again, "slow");

/// The server stops, and the client does not have everything.
const LEFT_BEHIND: CloseReason = CloseReason::new(
    CloseCode::Library(CLOSED_INCOMPLETE),
    "the run has ended, and not everything was sent",
);

/// The server stops, and everything was sent.
const GOING_AWAY: CloseReason = CloseReason::new(CloseCode::Away, "the run has ended");

/// A client and its state.
pub(super) struct ClientConnection {
    pub(super) shared: Arc<Shared>,
    /// Rights of its token.
    pub(super) role: Role,
    /// The server's name for it.
    pub(super) id: String,
    /// Number under which the hub knows it.
    pub(super) number: u64,
    pub(super) outbox: Arc<Outbox>,
    /// Rights; `None` before its handshake.
    pub(super) mode: Option<Mode>,
    /// User whose commands it sends, if it has named one.
    pub(super) user: Option<String>,
    /// The events that it gets.
    pub(super) feed: EventFeed,
    /// History that it has requested.
    pub(super) sync: Option<Sync>,
    /// Position of the hub when the newest reading of the journal started.
    hub_position: u64,
    rate: RateWindow,
    liveness: Liveness,
    /// Counts it among the clients that may send commands.
    presence: Option<PresenceGuard>,
}

/// The events that a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventFeed {
    /// None yet.
    Nothing,
    /// Events of the journal after this number, until the client has caught up.
    CatchingUp(u64),
    /// New events, as they happen.
    Live,
}

/// A `history.sync` in progress.
#[derive(Debug)]
pub(super) struct Sync {
    pub(super) command_id: String,
    /// The last event that was sent.
    pub(super) position: u64,
    /// The last event to send: the client gets later ones as new events.
    pub(super) until: u64,
}

/// A part of the journal that is being read.
type PendingRead = BoxFuture<'static, Result<HistoryChunk, IoError>>;

impl ClientConnection {
    pub(super) fn new(shared: Arc<Shared>, role: Role, number: u64) -> Self {
        let limits = &shared.limits;
        Self {
            role: shared.source.role(role),
            id: format!("client-{}", shared.world.ids.nonce()),
            number,
            outbox: Arc::new(Outbox::new(limits.outbound_messages, limits.outbound_bytes)),
            mode: None,
            user: None,
            feed: EventFeed::Nothing,
            sync: None,
            hub_position: 0,
            rate: RateWindow::new(limits.rate),
            liveness: Liveness::new(),
            presence: None,
            shared,
        }
    }

    /// Serves the client until either side disconnects. Dropping `place` lets another client in.
    pub(super) async fn serve(mut self, mut socket: ClientSocket, place: OwnedSemaphorePermit) {
        let why = self.talk(&mut socket).await;
        let (sending, patience) = (
            self.stall_time_left(&socket),
            self.liveness.close_time(&self.shared.limits),
        );
        self.shared.hub.leave(self.number);
        // From here on it counts neither as present nor as a client that may still answer.
        (self.presence, self.liveness) = (None, Liveness::new());
        let Some(why) = why else {
            return self.unless_closed(socket.hang_up()).await;
        };
        tracing::debug!(
            client = self.id,
            code = u16::from(why.code),
            "a client is disconnected: {}",
            why.reason
        );
        let limits = &self.shared.limits;
        match why {
            SLOW => {}
            GOING_AWAY | LEFT_BEHIND => return socket.disconnect(why, sending, patience).await,
            _ => return self.unless_closed(socket.disconnect(why, CLOSING, CLOSING)).await,
        }
        // A slow client may take long to read its closing frame. Other clients may have its place meanwhile.
        drop(place);
        if let Ok(_permit) = self.shared.slow_closes.try_acquire() {
            self.unless_closed(socket.disconnect(why, limits.slow_close, limits.slow_close))
                .await;
        }
    }

    /// Disconnects the client. A server that stops does not wait for that.
    async fn unless_closed(&self, disconnect: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = disconnect => {}
            () = self.shared.closing.cancelled() => {}
        }
    }

    /// Receives and answers. Returns why the client is disconnected; `None` when it has closed the connection
    /// itself.
    async fn talk(&mut self, socket: &mut ClientSocket) -> Option<CloseReason> {
        let shared = Arc::clone(&self.shared);
        // The next part of the history is read while the previous one is being sent.
        let mut reading: Option<PendingRead> = None;
        // Whether everything before that part is sent. Only then the part is taken.
        let mut idle = false;
        // Once the server stops: until when the client may receive its last messages.
        let mut end: Option<Instant> = None;
        let begin = Instant::now();
        loop {
            let interests = Interests {
                idle: !idle && (end.is_some() || self.wants_history()),
                unproven: end.is_none() && self.liveness.wants_ping(),
            };
            let next_check = self.next_check(socket, begin, end);
            // Every arm is cancel safe: a part of the journal that was read stays in `reading`.
            tokio::select! {
                biased;
                () = shared.closing.cancelled(), if end.is_none() => {
                    end = Some(Instant::now() + shared.limits.final_delivery);
                }
                () = shared.ended.cancelled(), if self.liveness.wants_ping() => self.ping_at_the_end(socket),
                part = read_on(&mut reading), if idle => {
                    idle = false;
                    match part {
                        Ok(part) => {
                            self.send_part(socket, part);
                            reading = self.wants_history().then(|| self.start_reading());
                        }
                        Err(error) => {
                            tracing::error!(error = %chain(&error), "a client cannot get its history");
                            return Some(CloseReason::new(CloseCode::Error, "the journal cannot be read"));
                        }
                    }
                }
                event = socket.next(&self.outbox, &interests) => match event {
                    SocketEvent::Message(message) => {
                        if let ControlFlow::Break(why) = self.receive(socket, message).await {
                            return why;
                        }
                    }
                    SocketEvent::Idle if self.wants_history() => {
                        idle = true;
                        reading.get_or_insert_with(|| self.start_reading());
                    }
                    SocketEvent::Idle => return Some(GOING_AWAY),
                    SocketEvent::Unproven => self.ping(socket),
                    SocketEvent::Overflowed => return Some(SLOW),
                    SocketEvent::Violation(why) => return Some(why),
                    SocketEvent::Closed => return None,
                },
                () = tokio::time::sleep_until(next_check) => {
                    // The socket is not idle, so the client does not have everything.
                    if end.is_some_and(|end| self.has_had_its_time(socket, end)) {
                        return Some(LEFT_BEHIND);
                    }
                    if let Some(why) = self.check(socket, begin) {
                        return Some(why);
                    }
                }
            }
        }
    }

    /// The next moment at which the client may have been silent or stalled for too long.
    fn next_check(&self, socket: &ClientSocket, begin: Instant, end: Option<Instant>) -> Instant {
        let limits = &self.shared.limits;
        let mut next = self.liveness.next_check(limits);
        if self.mode.is_none() {
            next = next.min(begin + limits.handshake);
        }
        // While the server stops it is checked often: only a check notices that the client takes nothing.
        let soon = Instant::now() + self.stall_time_left(socket).min(CLOSING_CHECK);
        end.map_or(next, |end| next.min(end).min(soon))
    }

    /// Pings a silent client, and disconnects one that does not answer or sends no handshake.
    fn check(&mut self, socket: &mut ClientSocket, begin: Instant) -> Option<CloseReason> {
        let limits = &self.shared.limits;
        if self.mode.is_none() && begin.elapsed() >= limits.handshake {
            return Some(CloseReason::new(CloseCode::Policy, "there was no handshake"));
        }
        match self.liveness.check(limits) {
            LivenessAction::Silent => return Some(CloseReason::new(CloseCode::Policy, "silent")),
            LivenessAction::Ping => self.ping(socket),
            LivenessAction::Fine => {}
        }
        None
    }

    /// Pings the client, unless it has taken nothing for so long that the ping would only wait in the socket.
    fn ping_at_the_end(&mut self, socket: &mut ClientSocket) {
        let longest = self.shared.limits.final_pong;
        let is_stuck = socket
            .stalled_since()
            .is_some_and(|since| since.elapsed() >= longest);
        if is_stuck {
            self.liveness.give_up();
        } else {
            self.ping(socket);
        }
    }

    fn ping(&mut self, socket: &mut ClientSocket) {
        self.liveness.pinged();
        socket.ping();
    }

    /// Whether a server that stops no longer waits for the client: until `end` if it keeps taking messages, and only for its stall time if it takes nothing.
    fn has_had_its_time(&self, socket: &ClientSocket, end: Instant) -> bool {
        self.stall_time_left(socket).is_zero() || Instant::now() >= end
    }

    /// How much longer the client may take none of the bytes that wait for it.
    fn stall_time_left(&self, socket: &ClientSocket) -> Duration {
        let stalled = socket.stalled_since().map(|since| since.elapsed());
        let stall_time = self.liveness.stall_time(&self.shared.limits);
        stall_time.saturating_sub(stalled.unwrap_or_default())
    }

    /// Handles one frame. Breaks with the reason why the client is disconnected; `None` when it has closed the connection itself.
    async fn receive(
        &mut self,
        socket: &mut ClientSocket,
        message: Message,
    ) -> ControlFlow<Option<CloseReason>> {
        self.liveness.received(&self.shared.responsive);
        // Pongs count as well: a client is pinged too rarely to exceed the rate by answering.
        if !matches!(message, Message::Close(_)) && self.rate.is_exceeded() {
            let why = CloseReason::new(CloseCode::Policy, "too many messages");
            return ControlFlow::Break(Some(why));
        }
        match message {
            Message::Text(text) => {
                self.read_message(socket, &text).await;
                ControlFlow::Continue(())
            }
            Message::Ping(_) | Message::Pong(_) => ControlFlow::Continue(()),
            Message::Close(_) => ControlFlow::Break(None),
            Message::Binary(_) | Message::Frame(_) => {
                let why = CloseReason::new(CloseCode::Unsupported, "only text is understood");
                ControlFlow::Break(Some(why))
            }
        }
    }

    async fn read_message(&mut self, socket: &mut ClientSocket, text: &str) {
        match Inbound::read(text) {
            Err(refused) => self.refuse(&ParsedRequest::default(), refused),
            Ok(Inbound::Command(command)) => self.read_command(command),
            Ok(Inbound::Handshake(handshake)) => {
                let done = match handshake {
                    Ok(handshake) => self.answer_handshake(socket, handshake).await,
                    Err(refused) => Err(refused),
                };
                if let Err(refused) = done {
                    let attempted = ParsedRequest {
                        id: None,
                        command: Some("handshake"),
                    };
                    self.refuse(&attempted, refused);
                }
            }
        }
    }

    /// Checks a command and accepts it. Before the handshake (WIRE-2) every command is refused without a check.
    fn read_command(&mut self, command: RawCommand) {
        let (id, name) = (command.id().map(str::to_owned), command.name().map(str::to_owned));
        let checked = match self.mode {
            Some(mode) => command.check().map(|request| (request, mode)),
            None => Err(Refused::new(
                Code::HandshakeRequired,
                "Handshake required before sending commands",
            )),
        };
        let done = checked.and_then(|(request, mode)| self.accept(request, mode));
        if let Err(refused) = done {
            let attempted = ParsedRequest {
                id: id.as_deref(),
                command: name.as_deref(),
            };
            self.refuse(&attempted, refused);
        }
    }

    fn refuse(&self, attempted: &ParsedRequest<'_>, refused: Refused) {
        self.send(self.shared.replies.refusal(attempted, refused));
    }

    /// Sends a message after those that wait already.
    pub(super) fn send(&self, text: Utf8Bytes) {
        // If the outbox overflows, the next poll of the socket reports it.
        self.outbox.push(text);
    }

    /// Applies the handshake: sets the rights of the client and counts it.
    pub(super) fn enter(&mut self, handshake: &Handshake) -> Mode {
        let mode = match self.role {
            Role::Full => handshake.mode,
            Role::ReadOnly => Mode::Readonly,
        };
        self.mode = Some(mode);
        self.user.clone_from(&handshake.user);
        self.liveness.enter(&self.shared.unproven);
        self.presence = (mode == Mode::ReadAndWrite).then(|| self.shared.presence.enter());
        mode
    }

    fn wants_history(&self) -> bool {
        self.sync.is_some() || matches!(self.feed, EventFeed::CatchingUp(_))
    }

    /// Starts to read the next part of the history that the client wants.
    fn start_reading(&mut self) -> PendingRead {
        self.hub_position = self.shared.hub.position();
        let (shared, blocking) = (Arc::clone(&self.shared), self.shared.world.blocking);
        if let EventFeed::CatchingUp(after) = self.feed {
            let read = move || history::events(&*shared.history, after);
            return blocking.run(read).boxed();
        }
        let Some(sync) = &self.sync else {
            return std::future::pending().boxed();
        };
        let (id, range) = (sync.command_id.clone(), (sync.position, sync.until));
        let read = move || history::batches(&*shared.history, range, (&shared.replies, &id));
        blocking.run(read).boxed()
    }

    /// Sends a part of the history. After the last one the client gets new events from the hub.
    fn send_part(&mut self, socket: &mut ClientSocket, part: HistoryChunk) {
        if let EventFeed::CatchingUp(position) = self.feed {
            let position = match (part.last_seq, part.more) {
                (Some(last), true) => last,
                // The journal was read to its end, so the client has everything up to the hub's position, even if that is greater: a crash leaves out numbers.
                (last, _) => last.unwrap_or(position).max(self.hub_position),
            };
            let joined = !part.more && self.shared.hub.join_after(self.number, &self.outbox, position);
            self.feed = match joined {
                true => EventFeed::Live,
                false => EventFeed::CatchingUp(position),
            };
        } else if let Some(mut sync) = self.sync.take() {
            sync.position = part.last_seq.unwrap_or(sync.position);
            self.sync = part.more.then_some(sync);
        }
        socket.send_part(part);
    }
}

/// Returns the part that is being read, once it is read; waits forever if there is none.
async fn read_on(reading: &mut Option<PendingRead>) -> Result<HistoryChunk, IoError> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}
