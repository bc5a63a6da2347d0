//! The socket: watching and commanding a run from other programs on this machine (WIRE-1 to WIRE-34).
//!
//! ```text
//! accept ─► head ─► gate ─► door ─► client (one task each) ─► session ─► commands (one task) ─► runner
//!                    │       │         ▲
//!                    └► plain└► list  └── outbox ◄── hub (one task, folds the view) ◄── state manager
//! ```
//!
//! Refusals come before the upgrade (WIRE-23 to WIRE-25). The hub never waits for a client: messages that
//! a client does not read wait in its outbox, which has a limited size. Connecting starts nothing.

mod accept;
mod answers;
mod client;
mod commands;
mod door;
mod gate;
mod head;
mod history;
mod hub;
mod ledger;
mod limits;
mod list;
mod liveness;
mod meter;
mod origin;
mod outbox;
mod page;
mod plain;
mod port;
mod proof;
mod reading;
mod record;
mod replies;
mod session;
mod shown_view;
mod socket;
#[cfg(test)]
mod tests;
mod token;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use hankweave_core::hank::Hank;
use hankweave_core::id::CodonId;
use hankweave_core::thread;
use hankweave_core::view::RunView;
use hankweave_core::wire::{CodonDescription, Command, Event, NextSteps, Ready};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::answers::TokenAnswer;
use self::commands::{Executor, QueuedCommand};
use self::door::{Door, Rooms};
use self::gate::Gate;
use self::hub::Hub;
use self::port::OwnPort;
use self::reading::RecordReader;
use self::replies::Replies;
use self::token::{AccessTokens, Role};
use crate::error::chain;
use crate::journal::EventHistory;
use crate::paths::ExecutionDir;
use crate::presence::ClientCount;
use crate::runner::{Commander, LiveFiles, RunCommand};
use crate::shutdown::Shutdown;
use crate::state_manager::StateManager;
use crate::world::World;
use crate::world::disk::IoError;
use crate::world::net::Listener;

pub use answers::{AnswerPaths, AnswerTokens};
pub use limits::ServerLimits;
pub use list::{ListServer, RunList, record_name};
pub use origin::Origin;
pub use page::exported_page;
pub use record::{OpenRecordError, RecordServer};

/// How long the server stays for responsive clients when a run has ended by itself, so that they can ask about it.
const LINGER: Duration = Duration::from_secs(1);

/// How long passing on the last events may take when the run has ended, and then making the report.
const DELIVERY: Duration = Duration::from_secs(5);

/// Address and limits of the server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The address; the loopback by default (WIRE-22).
    pub address: IpAddr,
    /// The port; 0 means that of the directory, which stays from run to run, or the next one if it is taken (WIRE-42).
    pub port: u16,
    /// Origins of other pages that may connect, besides our own.
    pub origins: Vec<Origin>,
    /// Limits of clients.
    pub limits: ServerLimits,
    /// Texts about the run; without them no report is sent.
    pub texts: Option<Arc<dyn RunTexts>>,
    /// Host and port under which others reach the server, as through a proxy. Answers of notifications may arrive there
    /// (WIRE-50).
    pub reached_as: Option<String>,
    /// Refuses commands that the owner of the run decides; without it none is refused for that.
    pub guard: Option<Arc<dyn CommandGuard>>,
}

/// Owner of a run that decides what clients may do to it, as the worker of a task does.
pub trait CommandGuard: fmt::Debug + Send + Sync {
    /// Lets a command of a client pass.
    ///
    /// # Errors
    ///
    /// Returns why the owner refuses it.
    fn check(&self, command: &Command) -> Result<(), CommandRefusal>;
}

/// Refusal by a [`CommandGuard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRefusal {
    /// Why the command is refused.
    pub message: String,
    /// Command or advice that helps instead.
    pub hint: Option<String>,
}

/// Report of a run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// Report of the run, for people.
    pub markdown: String,
    /// Outlook, open question and commands that continue.
    pub next: NextSteps,
}

/// Source of texts about a run, made from its record; each may take seconds.
pub trait RunTexts: fmt::Debug + Send + Sync {
    /// Returns the report.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is no report.
    fn report(&self) -> Result<RunReport, String>;

    /// Returns the hank's description of a codon; `None` if the hank has no such codon.
    ///
    /// # Errors
    ///
    /// Returns the reason if the hank cannot be read.
    fn describe(&self, codon: &CodonId) -> Result<Option<CodonDescription>, String>;
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            origins: Vec::new(),
            limits: ServerLimits::default(),
            texts: None,
            reached_as: None,
            guard: None,
        }
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The port is taken, or this user may not have it.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The token cannot be kept.
    #[error(transparent)]
    Token(#[from] IoError),
    /// The token of the environment is not valid in a header.
    #[error(
        "the value of {variable} is no token: it must have 1 to 256 letters, digits, dots, dashes, underscores or tildes"
    )]
    BadToken {
        /// The variable.
        variable: &'static str,
    },
    /// The two tokens are equal, so reading and writing could not be distinguished.
    #[error("the token for everything and the one for reading are the same")]
    SameTokens,
}

/// A port that listens; no client is answered yet.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: Box<dyn Listener>,
    tokens: AccessTokens,
    answers: AnswerTokens,
    options: ServerOptions,
    /// Port of the earlier runs in this directory, if another program has it.
    taken_port: Option<u16>,
}

/// Parts of a run that the server shows and acts on.
#[derive(Debug)]
pub(crate) struct ServedRun {
    pub(crate) world: World,
    pub(crate) dir: ExecutionDir,
    pub(crate) hank: Hank,
    pub(crate) manager: StateManager,
    pub(crate) commander: Commander,
    pub(crate) presence: ClientCount,
    pub(crate) shutdown: Shutdown,
    pub(crate) files: LiveFiles,
}

/// A server at work.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    texts: Option<Arc<dyn RunTexts>>,
    /// Whether every event has been passed on.
    delivered: watch::Receiver<bool>,
    work: AbortOnDropHandle<()>,
}

/// Common parts of all clients.
#[derive(Debug)]
struct Shared {
    world: World,
    hub: Hub,
    replies: Replies,
    source: ServedSource,
    history: Arc<dyn EventHistory>,
    /// Commands to the run.
    command_sender: mpsc::Sender<QueuedCommand>,
    /// Passes the answers of notifications to the run; `None` for a record, where nothing runs.
    commander: Option<Commander>,
    /// Requests that `reading` answers from the files of the directory.
    reading_sender: mpsc::Sender<QueuedCommand>,
    /// Clients that may send commands.
    presence: ClientCount,
    /// Clients that have sent something since their handshake, so they read as well.
    responsive: ClientCount,
    /// Clients that have sent nothing since their handshake, so it is not known whether they read.
    unproven: ClientCount,
    shutdown: Shutdown,
    ready: Ready,
    limits: ServerLimits,
    /// Places for clients that were too slow and have not read their closing frame yet.
    slow_closes: Semaphore,
    /// Cancelled when the run has ended by itself: unproven clients are pinged then.
    ended: CancellationToken,
    /// Cancelled when the server stops.
    closing: CancellationToken,
}

/// Source of the data that the server shows.
#[derive(Debug)]
enum ServedSource {
    /// A run at work.
    Run { manager: StateManager, hank: Arc<Hank> },
    /// The record of the directory, without a run to command.
    Record,
}

impl ServedSource {
    /// Returns the rights of a client with a token for `role`.
    const fn role(&self, role: Role) -> Role {
        match self {
            Self::Run { .. } => role,
            Self::Record => Role::ReadOnly,
        }
    }
}

impl Bound {
    /// Takes the port and the tokens.
    ///
    /// # Errors
    ///
    /// [`ServeError`]; no port is taken then.
    pub(crate) async fn bind(
        world: &World,
        dir: &ExecutionDir,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let (outside, state_dir) = (world.clone(), dir.state_dir());
        let load = move || AccessTokens::load(&outside, &state_dir);
        let tokens = world.blocking.run(load).await?;
        Self::bind_with(tokens, world, dir, options).await
    }

    async fn bind_with(
        tokens: AccessTokens,
        world: &World,
        dir: &ExecutionDir,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let own = OwnPort::listen(world, dir, options.address);
        Self::bind_at(tokens, world, own, options).await
    }

    /// Takes the port of `options`; where that is 0, `own`.
    async fn bind_at(
        tokens: AccessTokens,
        world: &World,
        own: impl Future<Output = io::Result<OwnPort>>,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let address = SocketAddr::new(options.address, options.port);
        let listening = match options.port {
            0 => own.await,
            _ => world.net.listen(address).await.map(|listener| OwnPort {
                listener,
                taken: None,
            }),
        };
        let own = listening.map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self {
            listener: own.listener,
            tokens,
            answers: AnswerTokens::default(),
            options,
            taken_port: own.taken,
        })
    }

    /// Returns the tokens for the question that waits.
    pub(crate) fn answers(&self) -> &AnswerTokens {
        &self.answers
    }

    /// Returns the port of the earlier runs in this directory, if it is taken.
    pub(crate) fn taken_port(&self) -> Option<u16> {
        self.taken_port
    }

    /// Returns the listening address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the address for clients on this machine: a server that listens everywhere is on the loopback as well.
    pub(crate) fn local_address(&self) -> SocketAddr {
        let address = self.address();
        let host = match address.ip() {
            IpAddr::V4(host) if host.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(host) if host.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            host => host,
        };
        SocketAddr::new(host, address.port())
    }

    /// The address of the page, which shows nothing without a token.
    pub(crate) fn page_address(&self) -> String {
        format!("http://{}/", self.local_address())
    }

    /// The address of the page with the token for reading, where browsers keep it to themselves.
    pub(crate) fn read_only_address(&self) -> String {
        format!("{}#token={}", self.page_address(), self.tokens.read_only())
    }

    /// Returns the address with the token for all rights.
    pub(crate) fn control_address(&self) -> String {
        format!("{}#token={}", self.page_address(), self.tokens.full())
    }

    /// Starts to answer. Every event from now on reaches the clients.
    pub(crate) fn start(self, run: ServedRun) -> Server {
        let (command_sender, commands) = mpsc::channel(commands::QUEUE);
        let commander = Some(run.commander.clone());
        let hank = Arc::new(run.hank);
        let replies = Replies::new(&run.world);
        let executor = Executor {
            commander: run.commander,
            manager: run.manager.clone(),
            shutdown: run.shutdown.clone(),
            hank: Arc::clone(&hank),
            replies: replies.clone(),
            files: run.files,
            guard: self.options.guard.clone(),
        };
        let position = run.manager.last_seq();
        let events = run.manager.subscribe_after(position);
        let state = run.manager.snapshot();
        let view = RunView::of_state(&state, &thread::build(&state, None, None), position);
        let mut degraded = run.manager.degraded();
        let (reading_sender, requests) = mpsc::channel(reading::QUEUE);
        let texts = self.options.texts.clone();
        let reader = RecordReader::new(&run.world, &run.dir, replies, texts.clone());
        let parts = SharedParts {
            world: run.world,
            dir: run.dir,
            hub: Hub::new(position, view),
            history: run.manager.journal(),
            source: ServedSource::Run {
                manager: run.manager,
                hank,
            },
            command_sender,
            commander,
            reading_sender,
            presence: run.presence,
            shutdown: run.shutdown,
            closing: CancellationToken::new(),
        };
        let shared = parts.share(self.address().port(), self.options.limits.clone());
        let closing = shared.closing.clone();
        let (door, listener) = self.door(Rooms::One(Arc::clone(&shared)), closing);
        let (delivered_sender, delivered) = watch::channel(false);
        let work = Arc::clone(&shared);
        let work = tokio::spawn(async move {
            let passing_on = async {
                if let Err(error) = work.hub.run(events, &work.replies).await {
                    tracing::error!(error = %chain(&error), "events cannot be read, so clients are disconnected");
                    work.closing.cancel();
                }
                delivered_sender.send_replace(true);
            };
            let reporting_failure = async {
                // A manager that has stopped can no longer fail.
                if let Ok(Some(failure)) = degraded.wait_for(Option::is_some).await.as_deref() {
                    work.hub.broadcast(&work.replies.fatal(chain(&**failure)));
                }
            };
            // `accept` ends when the server stops and all clients have left. No client could get an answer from the other tasks then, so they are dropped.
            tokio::select! {
                biased;
                () = accept::accept(listener, door) => {}
                _ = futures_util::future::join4(
                    commands::run(executor, commands),
                    reading::run(reader, requests),
                    passing_on,
                    reporting_failure,
                ) => {}
            }
        });
        Server {
            shared,
            texts,
            delivered,
            work: AbortOnDropHandle::new(work),
        }
    }

    /// Lets clients into `rooms`, and does `work` meanwhile, until `stop` is done.
    async fn serve(
        self,
        rooms: Rooms,
        closing: CancellationToken,
        work: impl Future<Output = ()>,
        stop: impl Future<Output = ()>,
    ) {
        let (door, listener) = self.door(rooms, closing.clone());
        let stopping = async {
            stop.await;
            closing.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = accept::accept(listener, door) => {}
            _ = futures_util::future::join(work, stopping) => {}
        }
    }

    /// Returns the door that lets clients into `rooms` until `closing`, and its listener.
    fn door(self, rooms: Rooms, closing: CancellationToken) -> (Arc<Door>, Box<dyn Listener>) {
        let limits = self.options.limits;
        let door = Door {
            gate: Gate {
                tokens: self.tokens,
                answers: self.answers,
                reached_as: self.options.reached_as,
                port: self.listener.address().port(),
                origins: self.options.origins,
                is_list: matches!(rooms, Rooms::Many(_)),
            },
            clients: Arc::new(Semaphore::new(limits.clients)),
            limits,
            closing,
            rooms,
        };
        (Arc::new(door), self.listener)
    }
}

/// Parts in which the server of a run and that of a record differ.
struct SharedParts {
    world: World,
    dir: ExecutionDir,
    hub: Hub,
    source: ServedSource,
    history: Arc<dyn EventHistory>,
    command_sender: mpsc::Sender<QueuedCommand>,
    commander: Option<Commander>,
    reading_sender: mpsc::Sender<QueuedCommand>,
    presence: ClientCount,
    shutdown: Shutdown,
    closing: CancellationToken,
}

impl SharedParts {
    /// Makes the common parts of all clients.
    fn share(self, port: u16, limits: ServerLimits) -> Arc<Shared> {
        Arc::new(Shared {
            hub: self.hub,
            replies: Replies::new(&self.world),
            source: self.source,
            history: self.history,
            command_sender: self.command_sender,
            commander: self.commander,
            reading_sender: self.reading_sender,
            presence: self.presence,
            responsive: ClientCount::new(),
            unproven: ClientCount::new(),
            shutdown: self.shutdown,
            ready: ready(&self.dir, port),
            slow_closes: Semaphore::new(limits.clients),
            ended: CancellationToken::new(),
            closing: self.closing,
            limits,
            world: self.world,
        })
    }
}

impl Server {
    /// Lets clients receive the end of the run, then disconnects them. The state manager must have stopped.
    /// `by_itself`: the run ended without a request to stop.
    pub(crate) async fn close(mut self, by_itself: bool) {
        let _ = tokio::time::timeout(DELIVERY, self.delivered.wait_for(|delivered| *delivered)).await;
        self.send_report().await;
        if by_itself && self.shared.has_responsive_client().await {
            tokio::time::sleep(LINGER).await;
        }
        self.shared.closing.cancel();
        if let Err(error) = (&mut self.work).await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }

    /// Sends the report of the run that has ended to the clients that follow the view, which cannot ask for the report later.
    async fn send_report(&self) {
        let Some(texts) = self.texts.clone().filter(|_| self.shared.hub.has_followers()) else {
            return;
        };
        let making = self.shared.world.blocking.run(move || reading::report(&*texts));
        // Without the report, a page shows the command that prints it.
        if let Ok(Ok(report)) = tokio::time::timeout(DELIVERY, making).await {
            let text = self.shared.replies.answer(None, report);
            self.shared.hub.send_followers(&text);
        }
    }
}

/// Name for answers from a notification, in place of a client's name.
const NOTIFICATION: &str = "notification";

impl Shared {
    /// Passes the answer of a notification's button to the run; returns the text for the user.
    async fn answer(&self, answer: TokenAnswer) -> Result<&'static str, String> {
        let TokenAnswer { codon_id, granted } = answer;
        let (Some(commander), ServedSource::Run { manager, .. }) = (&self.commander, &self.source) else {
            return Err("nothing runs here".to_owned());
        };
        let command = RunCommand::Answer {
            codon_id: Some(codon_id.clone()),
            granted,
            reason: None,
            by: Some(NOTIFICATION.to_owned()),
        };
        commander.send(command).await.map_err(|refusal| chain(&refusal))?;
        let (command, said) = match granted {
            true => ("codon.approve", "approved\n"),
            false => ("codon.deny", "denied\n"),
        };
        let event = Event::CommandAccepted {
            command: command.to_owned(),
            client_id: NOTIFICATION.to_owned(),
            codon_id: Some(codon_id),
            reason: None,
            by: None,
        };
        // When the run has ended nothing is recorded any more.
        let _ = manager.record(event).await.await;
        Ok(said)
    }

    /// Whether a client has sent something since its handshake, or answers a ping now. A client that has not may never read.
    async fn has_responsive_client(&self) -> bool {
        self.ended.cancel();
        let decided = async {
            tokio::select! {
                biased;
                () = self.responsive.present() => true,
                () = self.unproven.absent() => false,
            }
        };
        let answer = tokio::time::timeout(self.limits.final_pong, decided);
        answer.await.unwrap_or(false)
    }
}

fn ready(dir: &ExecutionDir, port: u16) -> Ready {
    Ready {
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        execution_path: dir.root().to_owned(),
        agent_root_path: dir.root().to_owned(),
        data_path: dir.root().join("read_only_data_source"),
        port,
    }
}
