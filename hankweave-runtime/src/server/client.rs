//! One client, from its upgrade to its end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hankweave_core::wire::{Code, Handshake, Inbound, Mode, RawCommand, Refused};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::Shared;
use super::attention::{Attention, Look};
use super::frames::Frames;
use super::history::{self, Part};
use super::limits::Rate;
use super::outbox::Outbox;
use super::reply::Attempted;
use super::token::Role;
use super::wire::{CLOSING, Happened, Leaving, Wants, Wire};
use crate::attendance::Attendee;
use crate::error::chain;
use crate::journal::JournalError;

/// A client and where it stands.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) role: Role,
    /// The server's name for it.
    pub(super) id: String,
    pub(super) number: u64,
    pub(super) outbox: Arc<Outbox>,
    /// What it may do; `None` before its handshake.
    pub(super) mode: Option<Mode>,
    /// Where it stands in history.
    pub(super) feed: Feed,
    pub(super) sync: Option<Sync>,
    /// How far the hub had come when the part of the journal that is being read was asked for.
    known: u64,
    rate: Rate,
    attention: Attention,
    attendee: Option<Attendee>,
}

/// Which events a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// None yet.
    Nothing,
    /// Those of the journal behind this number, until it has caught up.
    CatchingUp(u64),
    /// What happens, as it happens.
    Live,
}

/// A `history.sync` in progress.
#[derive(Debug)]
pub(super) struct Sync {
    pub(super) command_id: String,
    /// The last event that was sent.
    pub(super) position: u64,
    /// What is behind it came or comes by itself.
    pub(super) until: u64,
}

/// A part of the journal on its way.
type Reading = BoxFuture<'static, Result<Part, JournalError>>;

impl Client {
    pub(super) fn new(shared: Arc<Shared>, role: Role, number: u64) -> Self {
        let limits = &shared.limits;
        Self {
            role,
            id: format!("client-{}", shared.world.ids.nonce()),
            number,
            outbox: Arc::new(Outbox::new(limits.outbound_messages, limits.outbound_bytes)),
            mode: None,
            feed: Feed::Nothing,
            sync: None,
            known: 0,
            rate: Rate::new(limits.rate),
            attention: Attention::new(),
            attendee: None,
            shared,
        }
    }

    /// Serves the client until it leaves or is left. `place` is given back as soon as it no longer counts.
    pub(super) async fn serve(mut self, mut wire: Wire, place: OwnedSemaphorePermit) {
        let leaving = self.talk(&mut wire).await;
        let (sending, patience) = (
            self.time_to_take(&wire),
            self.attention.patience(&self.shared.limits),
        );
        self.shared.hub.leave(self.number);
        (self.attendee, self.attention) = (None, Attention::new());
        let Some(leaving) = leaving else {
            return self.unless_closed(wire.hang_up()).await;
        };
        tracing::debug!(
            client = self.id,
            code = u16::from(leaving.code),
            "a client is left: {}",
            leaving.reason
        );
        let limits = &self.shared.limits;
        match leaving {
            SLOW => {}
            GOING_AWAY => return wire.leave(leaving, sending, patience).await,
            _ => return self.unless_closed(wire.leave(leaving, CLOSING, CLOSING)).await,
        }
        // It may take long until it reads on: it keeps nobody out meanwhile.
        drop(place);
        if let Ok(_seat) = self.shared.farewells.try_acquire() {
            self.unless_closed(wire.leave(leaving, limits.farewell, limits.farewell))
                .await;
        }
    }

    /// Takes leave of somebody for whom the server does not stay.
    async fn unless_closed(&self, farewell: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = farewell => {}
            () = self.shared.closing.cancelled() => {}
        }
    }

    /// Hears and answers; returns why the client is left, `None` when it has gone by itself.
    async fn talk(&mut self, wire: &mut Wire) -> Option<Leaving> {
        let shared = Arc::clone(&self.shared);
        // A part of the history is read while the one before it is sent, and waits until everything is.
        let mut reading: Option<Reading> = None;
        let mut idle = false;
        // Until when it may get the rest, once the server stops.
        let mut end: Option<Instant> = None;
        let begin = Instant::now();
        loop {
            let wants = Wants {
                idle: !idle && (end.is_some() || self.wants_history()),
                doubt: end.is_none() && self.attention.is_in_doubt(),
            };
            let next_look = self.next_look(wire, begin, end);
            // Every arm is cancel safe: a part of the journal that was read stays where it is until it is taken.
            tokio::select! {
                biased;
                () = shared.closing.cancelled(), if end.is_none() => {
                    end = Some(Instant::now() + shared.limits.last_words);
                }
                () = shared.ended.cancelled(), if self.attention.is_in_doubt() => self.ask_at_the_end(wire),
                part = read_on(&mut reading), if idle => {
                    idle = false;
                    match part {
                        Ok(part) => {
                            let memory = self.pass_on(wire, part);
                            reading = self.wants_history().then(|| self.read(memory));
                        }
                        Err(error) => {
                            tracing::error!(error = %chain(&error), "a client cannot get its history");
                            return Some(Leaving::new(CloseCode::Error, "the journal cannot be read"));
                        }
                    }
                }
                happened = wire.happens(&self.outbox, &wants) => match happened {
                    Happened::Heard(message) => {
                        if let Some(leaving) = self.hear(wire, message).await {
                            return leaving;
                        }
                    }
                    Happened::Idle if self.wants_history() => {
                        idle = true;
                        reading.get_or_insert_with(|| self.read(Frames::default()));
                    }
                    Happened::Idle => return Some(GOING_AWAY),
                    Happened::Doubted => self.ask(wire),
                    Happened::Overflowed => return Some(SLOW),
                    Happened::Broken(leaving) => return Some(leaving),
                    Happened::Gone => return None,
                },
                () = tokio::time::sleep_until(next_look) => {
                    if end.is_some_and(|end| self.has_had_its_time(wire, end)) {
                        return Some(GOING_AWAY);
                    }
                    if let Some(leaving) = self.look(wire, begin) {
                        return Some(leaving);
                    }
                }
            }
        }
    }

    /// The next moment at which the client may have been silent for too long, or may have had its time before `end`.
    fn next_look(&self, wire: &Wire, begin: Instant, end: Option<Instant>) -> Instant {
        let limits = &self.shared.limits;
        let mut next = self.attention.next_look(limits);
        if self.mode.is_none() {
            next = next.min(begin + limits.handshake);
        }
        // Since when it takes nothing is known only when it is looked at.
        let soon = Instant::now() + self.time_to_take(wire).min(LOOK);
        end.map_or(next, |end| next.min(end).min(soon))
    }

    /// Asks a silent client whether it is there, and leaves one that does not answer or never begins.
    fn look(&mut self, wire: &mut Wire, begin: Instant) -> Option<Leaving> {
        let limits = &self.shared.limits;
        if self.mode.is_none() && begin.elapsed() >= limits.handshake {
            return Some(Leaving::new(CloseCode::Policy, "there was no handshake"));
        }
        match self.attention.look(limits) {
            Look::Silent => return Some(Leaving::new(CloseCode::Policy, "silent")),
            Look::Ask => self.ask(wire),
            Look::Fine => {}
        }
        None
    }

    /// Asks whether it listens, unless the question would only wait behind what it does not take.
    fn ask_at_the_end(&mut self, wire: &mut Wire) {
        let answer = self.shared.limits.answer;
        match wire
            .refuses_since()
            .is_some_and(|since| since.elapsed() >= answer)
        {
            true => self.attention.give_up(),
            false => self.ask(wire),
        }
    }

    fn ask(&mut self, wire: &mut Wire) {
        self.attention.ask();
        wire.ask();
    }

    /// Whether the server, which stops, stays no longer for it: whoever takes something of what waits gets all of it before `end`, and one that
    /// takes nothing keeps nobody.
    fn has_had_its_time(&self, wire: &Wire, end: Instant) -> bool {
        self.time_to_take(wire).is_zero() || Instant::now() >= end
    }

    /// How long it may still take nothing of what waits.
    fn time_to_take(&self, wire: &Wire) -> Duration {
        let refused = wire.refuses_since().map(|since| since.elapsed());
        let hesitation = self.attention.hesitation(&self.shared.limits);
        hesitation.saturating_sub(refused.unwrap_or_default())
    }

    /// Takes one frame. `Some`: the client is left for this reason, or has gone.
    async fn hear(&mut self, wire: &mut Wire, message: Message) -> Option<Option<Leaving>> {
        self.attention.hear(&self.shared.listeners);
        // Answers to our pings among them: nobody is asked as often as that.
        if !matches!(message, Message::Close(_)) && self.rate.is_exceeded() {
            return Some(Some(Leaving::new(CloseCode::Policy, "too many messages")));
        }
        match message {
            Message::Text(text) => {
                self.read_message(wire, &text).await;
                None
            }
            Message::Ping(_) | Message::Pong(_) => None,
            Message::Close(_) => Some(None),
            Message::Binary(_) | Message::Frame(_) => Some(Some(Leaving::new(
                CloseCode::Unsupported,
                "only text is understood",
            ))),
        }
    }

    async fn read_message(&mut self, wire: &mut Wire, text: &str) {
        match Inbound::read(text) {
            Err(refused) => self.refuse(&Attempted::default(), refused),
            Ok(Inbound::Command(command)) => self.read_command(command),
            Ok(Inbound::Handshake(handshake)) => {
                let done = match handshake {
                    Ok(handshake) => self.shake_hands(wire, handshake).await,
                    Err(refused) => Err(refused),
                };
                if let Err(refused) = done {
                    let attempted = Attempted {
                        id: None,
                        command: Some("handshake"),
                    };
                    self.refuse(&attempted, refused);
                }
            }
        }
    }

    /// The handshake first (WIRE-2), because nobody else is told what a command looks like.
    fn read_command(&mut self, command: RawCommand) {
        let (id, name) = (command.id().map(str::to_owned), command.name().map(str::to_owned));
        let checked = match self.mode {
            Some(mode) => command.check().map(|request| (request, mode)),
            None => Err(Refused::new(
                Code::HandshakeRequired,
                "Handshake required before sending commands",
            )),
        };
        let done = checked.and_then(|(request, mode)| self.take(request, mode));
        if let Err(refused) = done {
            let attempted = Attempted {
                id: id.as_deref(),
                command: name.as_deref(),
            };
            self.refuse(&attempted, refused);
        }
    }

    fn refuse(&self, attempted: &Attempted<'_>, refused: Refused) {
        self.say(self.shared.voice.refuse(attempted, refused));
    }

    /// Sends something behind what waits already.
    pub(super) fn say(&self, text: Utf8Bytes) {
        // A client that does not read is found out when the socket is looked at next.
        self.outbox.push(text);
    }

    /// What is known after the handshake counts from now on.
    pub(super) fn enter(&mut self, handshake: &Handshake) -> Mode {
        let mode = match self.role {
            Role::Full => handshake.mode,
            Role::ReadOnly => Mode::Readonly,
        };
        self.mode = Some(mode);
        self.attention.enter(&self.shared.doubtful);
        self.attendee = (mode == Mode::ReadAndWrite).then(|| self.shared.attendance.arrive());
        mode
    }

    fn wants_history(&self) -> bool {
        self.sync.is_some() || matches!(self.feed, Feed::CatchingUp(_))
    }

    /// Begins to read the next part of the history that the client wants.
    fn read(&mut self, memory: Frames) -> Reading {
        self.known = self.shared.hub.position();
        let (shared, blocking) = (Arc::clone(&self.shared), self.shared.world.blocking);
        if let Feed::CatchingUp(after) = self.feed {
            let read = move || history::events(&*shared.journal, after, memory);
            return blocking.run(read).boxed();
        }
        let Some(sync) = &self.sync else {
            return std::future::pending().boxed();
        };
        let (id, range) = (sync.command_id.clone(), (sync.position, sync.until));
        let read = move || history::batches(&*shared.journal, range, (&shared.voice, &id), memory);
        blocking.run(read).boxed()
    }

    /// Sends a part of the history, before what happens from now on; returns memory for the next one.
    fn pass_on(&mut self, wire: &mut Wire, part: Part) -> Frames {
        if let Feed::CatchingUp(position) = self.feed {
            let position = match (part.last_seq, part.more) {
                (Some(last), true) => last,
                // Numbers are left out after a crash: where the journal ends, nothing is missing up to where the hub was.
                (last, _) => last.unwrap_or(position).max(self.known),
            };
            let joined = !part.more && self.shared.hub.join_behind(self.number, &self.outbox, position);
            self.feed = match joined {
                true => Feed::Live,
                false => Feed::CatchingUp(position),
            };
        } else if let Some(mut sync) = self.sync.take() {
            sync.position = part.last_seq.unwrap_or(sync.position);
            self.sync = part.more.then_some(sync);
        }
        wire.pass_on(part.frames)
    }
}

/// How often a client is looked at while the server stops.
const LOOK: Duration = Duration::from_millis(50);

/// A client that did not read.
const SLOW: Leaving = Leaving::new(CloseCode::Again, "slow");

/// The server stops.
const GOING_AWAY: Leaving = Leaving::new(CloseCode::Away, "the run has ended");

/// The part that is being read; waits for ever when none is.
async fn read_on(reading: &mut Option<Reading>) -> Result<Part, JournalError> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}
