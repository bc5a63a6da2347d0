//! One client, from its upgrade to its end.

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

/// A client and its state.
pub(super) struct ClientConnection {
    pub(super) shared: Arc<Shared>,
    pub(super) role: Role,
    /// The server's name for it.
    pub(super) id: String,
    pub(super) number: u64,
    pub(super) outbox: Arc<Outbox>,
    /// Rights; `None` before its handshake.
    pub(super) mode: Option<Mode>,
    /// User whose commands it sends, if it has named one.
    pub(super) user: Option<String>,
    /// The events that it gets.
    pub(super) feed: EventFeed,
    pub(super) sync: Option<Sync>,
    /// How far the hub had come when the part of the journal that is being read was asked for.
    known: u64,
    rate: RateWindow,
    liveness: Liveness,
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
    /// Later events have come already or will come by themselves.
    pub(super) until: u64,
}

/// A part of the journal on its way.
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
            known: 0,
            rate: RateWindow::new(limits.rate),
            liveness: Liveness::new(),
            presence: None,
            shared,
        }
    }

    /// Serves the client until either side disconnects. `place` is freed as soon as the client no longer
    /// counts.
    pub(super) async fn serve(mut self, mut socket: ClientSocket, place: OwnedSemaphorePermit) {
        let why = self.talk(&mut socket).await;
        let (sending, patience) = (
            self.stall_time_left(&socket),
            self.liveness.close_time(&self.shared.limits),
        );
        self.shared.hub.leave(self.number);
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
        // It may take long until it reads on; its place is free for others meanwhile.
        drop(place);
        if let Ok(_permit) = self.shared.slow_closes.try_acquire() {
            self.unless_closed(socket.disconnect(why, limits.slow_close, limits.slow_close))
                .await;
        }
    }

    /// Disconnects a client for which a server that stops does not wait.
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
        // A part of the history is read while the one before it is sent, and waits until everything is.
        let mut reading: Option<PendingRead> = None;
        let mut idle = false;
        // Until when it may receive the rest, once the server stops.
        let mut end: Option<Instant> = None;
        let begin = Instant::now();
        loop {
            let interests = Interests {
                idle: !idle && (end.is_some() || self.wants_history()),
                unproven: end.is_none() && self.liveness.wants_ping(),
            };
            let next_check = self.next_check(socket, begin, end);
            // Every arm is cancel safe: a part of the journal that was read stays where it is until it is
            // taken.
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
                            reading = self.wants_history().then(|| self.read());
                        }
                        Err(error) => {
                            tracing::error!(error = %chain(&error), "a client cannot get its history");
                            return Some(CloseReason::new(CloseCode::Error, "the journal cannot be read"));
                        }
                    }
                }
                event = socket.next(&self.outbox, &interests) => match event {
                    SocketEvent::Message(message) => {
                        if let Some(ended) = self.receive(socket, message).await {
                            return ended;
                        }
                    }
                    SocketEvent::Idle if self.wants_history() => {
                        idle = true;
                        reading.get_or_insert_with(|| self.read());
                    }
                    SocketEvent::Idle => return Some(GOING_AWAY),
                    SocketEvent::Unproven => self.ping(socket),
                    SocketEvent::Overflowed => return Some(SLOW),
                    SocketEvent::Violation(why) => return Some(why),
                    SocketEvent::Closed => return None,
                },
                () = tokio::time::sleep_until(next_check) => {
                    // Not idle: something waits for it still.
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
        // Since when it takes nothing is known only when it is checked.
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

    /// Pings it, unless the ping would only wait after messages that it does not take.
    fn ping_at_the_end(&mut self, socket: &mut ClientSocket) {
        let longest = self.shared.limits.final_pong;
        match socket
            .stalled_since()
            .is_some_and(|since| since.elapsed() >= longest)
        {
            true => self.liveness.give_up(),
            false => self.ping(socket),
        }
    }

    fn ping(&mut self, socket: &mut ClientSocket) {
        self.liveness.pinged();
        socket.ping();
    }

    /// Whether a server that stops no longer waits for it. A client that keeps taking messages has time until
    /// `end`, and one that takes nothing is not waited for.
    fn has_had_its_time(&self, socket: &ClientSocket, end: Instant) -> bool {
        self.stall_time_left(socket).is_zero() || Instant::now() >= end
    }

    /// How long it may still take nothing of what waits.
    fn stall_time_left(&self, socket: &ClientSocket) -> Duration {
        let refused = socket.stalled_since().map(|since| since.elapsed());
        let stall_time = self.liveness.stall_time(&self.shared.limits);
        stall_time.saturating_sub(refused.unwrap_or_default())
    }

    /// Handles one frame. `Some`: the client is disconnected for this reason, or has closed the connection
    /// itself.
    async fn receive(&mut self, socket: &mut ClientSocket, message: Message) -> Option<Option<CloseReason>> {
        self.liveness.received(&self.shared.responsive);
        // Pongs count as well: no client is pinged as often as that.
        if !matches!(message, Message::Close(_)) && self.rate.is_exceeded() {
            return Some(Some(CloseReason::new(CloseCode::Policy, "too many messages")));
        }
        match message {
            Message::Text(text) => {
                self.read_message(socket, &text).await;
                None
            }
            Message::Ping(_) | Message::Pong(_) => None,
            Message::Close(_) => Some(None),
            Message::Binary(_) | Message::Frame(_) => Some(Some(CloseReason::new(
                CloseCode::Unsupported,
                "only text is understood",
            ))),
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

    /// Without a handshake (WIRE-2) no command is even checked.
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
        // A client that does not read is noticed when the socket is polled next.
        self.outbox.push(text);
    }

    /// Applies the handshake.
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

    /// Begins to read the next part of the history that the client wants.
    fn read(&mut self) -> PendingRead {
        self.known = self.shared.hub.position();
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

    /// Sends a part of the history, before the events that happen from now on.
    fn send_part(&mut self, socket: &mut ClientSocket, part: HistoryChunk) {
        if let EventFeed::CatchingUp(position) = self.feed {
            let position = match (part.last_seq, part.more) {
                (Some(last), true) => last,
                // Numbers are left out after a crash: where the journal ends, nothing is missing up to where
                // the hub was.
                (last, _) => last.unwrap_or(position).max(self.known),
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

/// Returns the part that is being read; waits forever if none is.
async fn read_on(reading: &mut Option<PendingRead>) -> Result<HistoryChunk, IoError> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}
