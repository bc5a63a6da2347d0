//! The server's life: a thread of its own, so that tests which block can still be answered.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::http::{self, Shared, lock};
use super::ids::Ids;
use super::log::{Asked, Served};
use super::scenario::Scenario;
use super::script::Script;

/// A running model server. Dropping it closes every connection and ends its thread.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Options in addition to the scenario.
pub struct Options {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Values for `${NAME}` in the strings of the scenario. They go before `CWD`, `MODEL` and `N`.
    pub variables: BTreeMap<String, String>,
    /// Called for each request, on the server's thread, before it is answered.
    pub on_request: Box<dyn Fn(&Asked) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            variables: BTreeMap::new(),
            on_request: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("port", &self.port)
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

/// Why the server is not running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or there is no network at all.
    #[error("failed to listen on 127.0.0.1:{port}")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The thread or what it waits with could not be made.
    #[error("failed to start the server's thread")]
    Thread(#[source] io::Error),
}

impl ModelServer {
    /// Starts to play `scenario` on a free port.
    ///
    /// # Errors
    ///
    /// Returns [`StartError`] when the system refuses a port or a thread.
    pub fn start(scenario: Scenario) -> Result<Self, StartError> {
        Self::start_with(scenario, Options::default())
    }

    /// Starts to play `scenario` with `options`.
    ///
    /// # Errors
    ///
    /// Returns [`StartError`] when the system refuses the port or a thread.
    pub fn start_with(scenario: Scenario, options: Options) -> Result<Self, StartError> {
        let refused = |source| StartError::Listen {
            port: options.port,
            source,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let shared = Arc::new(Shared {
            script: Mutex::new(Script::new(scenario)),
            asked: Mutex::new(Vec::new()),
            served: Arc::default(),
            variables: options.variables,
            on_request: options.on_request,
            ids: Ids::new(address.port()),
            started: Instant::now(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("model-server".to_owned())
            .spawn(move || runtime.block_on(serve(listener, served, stopped)))
            .map_err(StartError::Thread)?;
        Ok(Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the base address that agents are given, such as `http://127.0.0.1:41327`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Continues with another scenario, from its beginning.
    pub fn play(&self, scenario: Scenario) {
        *lock(&self.shared.script) = Script::new(scenario);
    }

    /// Returns everything that was asked so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// Returns what was served so far, oldest first, refusals left out.
    #[must_use]
    pub fn served(&self) -> Vec<Served> {
        lock(&self.shared.served.served).clone()
    }

    /// Waits until the served requests fulfil `reached`, at most for `limit`; returns whether they did.
    #[must_use]
    pub fn wait_until(&self, limit: Duration, reached: impl Fn(&[Served]) -> bool) -> bool {
        let ledger = &self.shared.served;
        let served = lock(&ledger.served);
        let waited = ledger
            .changed
            .wait_timeout_while(served, limit, |served| !reached(served));
        let (served, _) = waited.unwrap_or_else(PoisonError::into_inner);
        reached(&served)
    }

    /// Waits until the server ends by itself, which it does only when listening fails.
    pub fn wait(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic on the server's thread has been printed already and shows as a dead connection.
            let _ = thread.join();
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.join();
    }
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Accepts connections until the owner goes away. Open connections end with the set they are kept in.
async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request| http::answer(Arc::clone(&shared), request));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
            Some(_) = connections.join_next() => {
                // How a connection ended is the script's or the client's doing, never an error of the server.
            }
            _ = &mut stopped => return,
        }
    }
}
