//! The socket: watching and commanding a run from other programs on this machine (WIRE-1 to WIRE-34).
//!
//! ```text
//! listen ─► head ─► gate ─► client (one task each) ─► session ─► commands (one task) ─► runner
//!                    │         ▲
//!                    └► plain  └── outbox ◄── hub (one task) ◄── state manager
//! ```
//!
//! What is refused is refused before the upgrade (WIRE-23 to WIRE-25). The hub never waits for a client: what a client
//! does not read waits in its outbox, which has an end. Connecting starts nothing.

mod attention;
mod client;
mod commands;
mod frames;
mod gate;
mod head;
mod history;
mod hub;
mod ledger;
mod limits;
mod listen;
mod meter;
mod origin;
mod outbox;
mod page;
mod plain;
mod reply;
mod session;
#[cfg(test)]
mod tests;
mod token;
mod wire;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::hank::Hank;
use hankweave_core::wire::Ready;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::commands::{Hands, Job};
use self::gate::Gate;
use self::hub::Hub;
use self::reply::Voice;
use self::token::Tokens;
use crate::attendance::Attendance;
use crate::error::chain;
use crate::journal::EventJournal;
use crate::paths::ExecutionDir;
use crate::runner::Commander;
use crate::shutdown::Shutdown;
use crate::state_manager::StateManager;
use crate::world::World;
use crate::world::net::Listener;

pub use limits::Limits;
pub use origin::Origin;

/// How long the server stays for those who listen when a run has ended by itself, so that they can ask about it.
const STAY: Duration = Duration::from_secs(1);

/// How long the events that are on their way may take when the run has ended.
const DELIVERY: Duration = Duration::from_secs(5);

/// Where the server listens and what it takes.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address; the loopback unless somebody has chosen another (WIRE-22).
    pub address: IpAddr,
    /// The port; 0 means any free one.
    pub port: u16,
    /// Origins of other pages that may connect, besides our own.
    pub origins: Vec<Origin>,
    /// What clients may cost.
    pub limits: Limits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            origins: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody else has the port, or it is not ours to have.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The token cannot be kept.
    #[error("failed to {action} `{}`", path.display())]
    Token {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The token of the environment cannot stand in a header.
    #[error(
        "the value of {variable} is no token: it must have 1 to 256 letters, digits, dots, dashes, underscores or tildes"
    )]
    BadToken {
        /// The variable.
        variable: &'static str,
    },
    /// Nobody could tell who may write.
    #[error("the token for everything and the one for reading are the same")]
    SameTokens,
}

/// A port that is ours; nobody is answered yet.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: Box<dyn Listener>,
    tokens: Tokens,
    options: ServerOptions,
}

/// What the server shows and acts on.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) dir: ExecutionDir,
    pub(crate) hank: Hank,
    pub(crate) manager: StateManager,
    pub(crate) commander: Commander,
    pub(crate) attendance: Attendance,
    pub(crate) shutdown: Shutdown,
}

/// A server at work.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    /// Whether every event has been handed out.
    told: watch::Receiver<bool>,
    work: AbortOnDropHandle<()>,
}

/// What all clients share.
#[derive(Debug)]
struct Shared {
    world: World,
    gate: Gate,
    hub: Hub,
    voice: Voice,
    manager: StateManager,
    journal: Arc<dyn EventJournal>,
    hank: Arc<Hank>,
    jobs: mpsc::Sender<Job>,
    /// Those who may send commands.
    attendance: Attendance,
    /// Those who have said something since their handshake, so they read as well.
    listeners: Attendance,
    /// Those of whom that is not known yet.
    doubtful: Attendance,
    shutdown: Shutdown,
    ready: Ready,
    limits: Limits,
    /// Places for clients.
    clients: Arc<Semaphore>,
    /// Places for clients that were too slow and have not read that yet.
    farewells: Semaphore,
    /// The run has ended by itself.
    ended: CancellationToken,
    /// The server stops.
    closing: CancellationToken,
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
        let load = move || Tokens::load(&outside, &state_dir);
        let tokens = world.blocking.run(load).await?;
        let address = SocketAddr::new(options.address, options.port);
        let listener = world
            .net
            .listen(address)
            .await
            .map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self {
            listener,
            tokens,
            options,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Where clients on this machine reach it: what listens everywhere is on the loopback as well.
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

    /// The same with the token for everything.
    pub(crate) fn control_address(&self) -> String {
        format!("{}#token={}", self.page_address(), self.tokens.full())
    }

    /// Begins to answer. Every event from now on reaches the clients.
    pub(crate) fn start(self, stage: Stage) -> Server {
        let (jobs, waiting) = mpsc::channel(commands::QUEUE);
        let hank = Arc::new(stage.hank);
        let voice = Voice::new(&stage.world);
        let hands = Hands {
            commander: stage.commander,
            manager: stage.manager.clone(),
            shutdown: stage.shutdown.clone(),
            hank: Arc::clone(&hank),
            voice: voice.clone(),
        };
        let position = stage.manager.last_seq();
        let events = stage.manager.subscribe_after(position);
        let mut degraded = stage.manager.degraded();
        let address = self.listener.address();
        let limits = self.options.limits;
        let shared = Arc::new(Shared {
            gate: Gate {
                tokens: self.tokens,
                port: address.port(),
                origins: self.options.origins,
            },
            hub: Hub::new(position),
            voice,
            journal: stage.manager.journal(),
            manager: stage.manager,
            hank,
            jobs,
            attendance: stage.attendance,
            listeners: Attendance::new(),
            doubtful: Attendance::new(),
            shutdown: stage.shutdown,
            ready: ready(&stage.dir, address.port()),
            clients: Arc::new(Semaphore::new(limits.clients)),
            farewells: Semaphore::new(limits.clients),
            ended: CancellationToken::new(),
            closing: CancellationToken::new(),
            limits,
            world: stage.world,
        });
        let (tell, told) = watch::channel(false);
        let (work, listener) = (Arc::clone(&shared), self.listener);
        let work = tokio::spawn(async move {
            let handing_out = async {
                if let Err(error) = work.hub.run(events).await {
                    tracing::error!(error = %chain(&error), "events cannot be read, so clients are left");
                    work.closing.cancel();
                }
                tell.send_replace(true);
            };
            let mourning = async {
                // A manager that has stopped can no longer fail.
                if let Ok(Some(failure)) = degraded.wait_for(Option::is_some).await.as_deref() {
                    work.hub.tell_all(&work.voice.fatal(chain(&**failure)));
                }
            };
            // Commands are carried out as long as somebody is here to send one; what is in progress then has nobody to hear of it.
            tokio::select! {
                biased;
                () = listen::listen(listener, Arc::clone(&work)) => {}
                _ = futures_util::future::join3(commands::run(hands, waiting), handing_out, mourning) => {}
            }
        });
        Server {
            shared,
            told,
            work: AbortOnDropHandle::new(work),
        }
    }
}

impl Server {
    /// Lets clients see the end of the run, then leaves them. The manager must have stopped. `by_itself`: nobody asked the run to stop.
    pub(crate) async fn close(mut self, by_itself: bool) {
        let _ = tokio::time::timeout(DELIVERY, self.told.wait_for(|told| *told)).await;
        if by_itself && self.shared.is_listened_to().await {
            tokio::time::sleep(STAY).await;
        }
        self.shared.closing.cancel();
        if let Err(error) = (&mut self.work).await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

impl Shared {
    /// Whether a client has said something since its handshake, or says something now that it is asked: the others may be such as never read.
    async fn is_listened_to(&self) -> bool {
        self.ended.cancel();
        let decided = async {
            tokio::select! {
                biased;
                () = self.listeners.somebody() => true,
                () = self.doubtful.nobody() => false,
            }
        };
        let answer = tokio::time::timeout(self.limits.answer, decided);
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
