//! A network within the process, for tests and simulations, independent of clock and system.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use super::{Connection, Listener, Net};

/// Bytes that a pipe holds; a writer with more waits for the reader.
const PIPE: usize = 16 * 1_024;

/// Connections that may wait until they are accepted.
const BACKLOG: usize = 64;

/// A network with one listener, the newest one, as the sender of new connections to it; clones share the network.
#[derive(Debug, Clone, Default)]
pub struct MemoryNet(Arc<Mutex<Option<mpsc::Sender<DuplexStream>>>>);

impl MemoryNet {
    /// The only address of this network.
    pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7_777);

    /// Connects to the listener; `None` if there is none.
    pub fn connect(&self) -> Option<DuplexStream> {
        let (client, server) = tokio::io::duplex(PIPE);
        self.listener().as_ref()?.try_send(server).ok()?;
        Some(client)
    }

    fn listener(&self) -> MutexGuard<'_, Option<mpsc::Sender<DuplexStream>>> {
        // Every change is a single assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Net for MemoryNet {
    fn listen(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        let (sender, incoming) = mpsc::channel(BACKLOG);
        *self.listener() = Some(sender);
        let listener: Box<dyn Listener> = Box::new(MemoryListener(incoming));
        ready(Ok(listener)).boxed()
    }
}

#[derive(Debug)]
struct MemoryListener(mpsc::Receiver<DuplexStream>);

impl Listener for MemoryListener {
    fn address(&self) -> SocketAddr {
        MemoryNet::ADDRESS
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        async {
            match self.0.recv().await {
                Some(stream) => Ok(Box::new(stream) as Box<dyn Connection>),
                // A newer listener has replaced this one.
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

impl Connection for DuplexStream {
    fn local_address(&self) -> IpAddr {
        MemoryNet::ADDRESS.ip()
    }
}
