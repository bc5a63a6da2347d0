//! A client of a live run: watches it and commands it from another program of the same user (WIRE-1 to WIRE-10).
//!
//! It finds the run by its execution directory, reconnects by itself when the connection is lost, and continues after the
//! last event that it returned. Every event comes once and in order. Events wait until the caller asks for them, so a caller
//! that sends a command and only then waits for its event misses nothing. Events for which there is no room are requested
//! from the server again later.
//!
//! ```no_run
//! use hankweave_core::wire::{Command, Event};
//! use hankweave_client::{Client, Options, RunAddress, ServerMessage};
//!
//! # async fn watch() -> Result<(), Box<dyn std::error::Error>> {
//! let target = RunAddress::Execution("my-hank".into());
//! let mut client = Client::connect(target, Options::commanding()).await?;
//! client.command(Command::CodonNext).await?;
//! let cost = client
//!     .until(|message| match message {
//!         ServerMessage::Event(entry) => match &entry.event {
//!             Event::CodonCompleted { cost, .. } => Some(*cost),
//!             _ => None,
//!         },
//!         _ => None,
//!     })
//!     .await?;
//! println!("{cost:?}");
//! # Ok(())
//! # }
//! ```
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

mod connection;
mod find;
mod message;
mod system;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hankweave_core::wire::{ClientRequest, ClientSession, Command, DirectPayload, Handshake, Mode};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use self::worker::{ConnectionTask, PendingCommand};

pub use connection::ConnectError;
pub use find::{Access, FindError, RunAddress, ServerEndpoint};
pub use message::ServerMessage;

/// Most events that wait for [`Client::next`]; those for which there is no room are requested again.
const WAITING_EVENTS: usize = 4_096;

/// Commands that may be in flight at once.
const WAITING_COMMANDS: usize = 64;

/// How long closing the connection may take.
const CLOSING: Duration = Duration::from_secs(2);

/// How a client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Requested mode.
    pub mode: Mode,
    /// Begin after this event; 0 means with the first one, `None` with what happens from now on.
    pub after: Option<u64>,
    /// Name of the user whose commands are sent, for the record; at most 1,000 bytes.
    pub user: Option<String>,
}

impl Options {
    /// Watches what happens from now on.
    #[must_use]
    pub const fn watching() -> Self {
        Self::with(Mode::Readonly)
    }

    /// Watches what happens from now on, and commands.
    #[must_use]
    pub const fn commanding() -> Self {
        Self::with(Mode::ReadAndWrite)
    }

    const fn with(mode: Mode) -> Self {
        Self {
            mode,
            after: None,
            user: None,
        }
    }

    /// Starts after an event.
    #[must_use]
    pub fn after(self, seq: u64) -> Self {
        Self {
            after: Some(seq),
            ..self
        }
    }

    fn handshake(self) -> Handshake {
        Handshake {
            mode: self.mode,
            send_previous_events: false,
            after_seq: self.after,
            view: false,
            events: None,
            user: self.user,
        }
    }
}

/// A connection to a live run that lasts until the run ends.
#[derive(Debug)]
pub struct Client {
    commands: CommandSender,
    events: mpsc::Receiver<ServerMessage>,
    session: ClientSession,
    /// The task of `worker`, which holds the connection.
    work: AbortOnDropHandle<()>,
}

/// Sends commands; clones share the connection, which ends with the [`Client`].
#[derive(Debug, Clone)]
pub struct CommandSender {
    pending_sender: mpsc::Sender<PendingCommand>,
    /// Set by the worker when it ends.
    ended: Arc<OnceLock<Disconnected>>,
}

/// Why nothing more comes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disconnected {
    /// The run has ended, and every event of it has come.
    #[error("the run has ended")]
    RunEnded,
    /// The run has ended, or its process no longer exists, before every event was received.
    #[error("the run has ended, and the events after number {after} were not received")]
    Incomplete {
        /// Number of the last event that was received or, if none was, of the one after which this client started.
        after: u64,
    },
    /// The server does not want this client any more.
    #[error("the server closed the connection: {0}")]
    Refused(String),
    /// The connection was lost and could not be had again.
    #[error("the connection to the server was lost: {0}")]
    Lost(String),
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The server refuses it; nothing has changed.
    #[error("{message}")]
    Refused {
        /// The name of the reason.
        code: String,
        /// The reason for people.
        message: String,
        /// Remedy.
        hint: Option<String>,
    },
    /// No answer comes any more; whether the command was carried out is not known.
    #[error("no answer came")]
    Unanswered(#[source] Disconnected),
    /// History comes by [`Options::after`].
    #[error("history comes by connecting after an event, not by a command")]
    History,
}

impl Client {
    /// Connects and completes the handshake.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; there is no second attempt.
    pub async fn connect(target: RunAddress, options: Options) -> Result<Self, ConnectError> {
        let endpoint = target.find_awake()?;
        let handshake = options.handshake();
        let (connection, session) = connection::open(&endpoint, &handshake).await?;
        let (pending_sender, pending) = mpsc::channel(WAITING_COMMANDS);
        let (sender, events) = mpsc::channel(WAITING_EVENTS);
        let ended = Arc::new(OnceLock::new());
        let position = handshake.after_seq.unwrap_or(session.last_seq);
        let worker = ConnectionTask::new(target, handshake, position, pending, sender, Arc::clone(&ended));
        let work = AbortOnDropHandle::new(tokio::spawn(worker.run(connection)));
        Ok(Self {
            commands: CommandSender {
                pending_sender,
                ended,
            },
            events,
            session,
            work,
        })
    }

    /// The server's response to the first handshake.
    #[must_use]
    pub const fn session(&self) -> &ClientSession {
        &self.session
    }

    /// A handle that sends commands while this client waits for events.
    #[must_use]
    pub fn commands(&self) -> CommandSender {
        self.commands.clone()
    }

    /// Sends a command and waits for the answer; see [`CommandSender::send`].
    ///
    /// # Errors
    ///
    /// [`CommandError`].
    pub async fn command(&self, command: Command) -> Result<DirectPayload, CommandError> {
        self.commands.send(command).await
    }

    /// Returns the next message. The end is returned only after all messages that came before it.
    ///
    /// # Errors
    ///
    /// [`Disconnected`], each time from then on.
    ///
    /// # Cancel safety
    ///
    /// A message that was not returned comes next time.
    pub async fn next(&mut self) -> Result<ServerMessage, Disconnected> {
        match self.events.recv().await {
            Some(message) => Ok(message),
            None => Err(self.commands.ended()),
        }
    }

    /// Skips messages until `wanted` returns a value for one.
    ///
    /// # Errors
    ///
    /// [`Disconnected`] when none comes any more.
    pub async fn until<T>(
        &mut self,
        mut wanted: impl FnMut(&ServerMessage) -> Option<T>,
    ) -> Result<T, Disconnected> {
        loop {
            if let Some(found) = wanted(&self.next().await?) {
                return Ok(found);
            }
        }
    }

    /// Leaves. The run continues.
    pub async fn close(self) {
        let Self {
            commands,
            events,
            work,
            ..
        } = self;
        // Once both channels are dropped, the worker closes the connection.
        drop((commands, events));
        // A server that does not answer is not waited for.
        let _ = tokio::time::timeout(CLOSING, work).await;
    }
}

impl CommandSender {
    /// Sends a command and waits for the answer: `command.ack`, or `pong` to a ping. If the connection is lost meanwhile,
    /// the command is sent again with its id, and the server carries it out once.
    ///
    /// # Errors
    ///
    /// [`CommandError`].
    pub async fn send(&self, command: Command) -> Result<DirectPayload, CommandError> {
        if matches!(command, Command::HistorySync { .. }) {
            return Err(CommandError::History);
        }
        let id = Uuid::new_v4().to_string();
        let request = ClientRequest { id, command };
        let (reply, result) = oneshot::channel();
        let sent = self.pending_sender.send(PendingCommand { request, reply }).await;
        let answer = match sent {
            Ok(()) => result.await.ok(),
            Err(_) => None,
        };
        match answer {
            Some(DirectPayload::Error {
                message, code, hint, ..
            }) => Err(CommandError::Refused { code, message, hint }),
            Some(answer) => Ok(answer),
            None => Err(CommandError::Unanswered(self.ended())),
        }
    }

    /// Why the worker has ended.
    fn ended(&self) -> Disconnected {
        let unknown = || Disconnected::Lost("the client was closed".to_owned());
        self.ended.get().cloned().unwrap_or_else(unknown)
    }
}
