//! Connections within the simulated machine: pipes of limited length that end with the life of the runtime.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use hankweave_runtime::world::net::{Connection, Listener, Net};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

/// Bytes that a pipe holds; whoever writes more waits for the reader.
const PIPE: usize = 16 * 1_024;

/// Connections that may wait until they are accepted.
const BACKLOG: usize = 64;

/// The only address that there is.
pub(crate) const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7_777);

/// A street with one door.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimNet(Arc<Mutex<Option<mpsc::Sender<DuplexStream>>>>);

impl SimNet {
    fn door(&self) -> MutexGuard<'_, Option<mpsc::Sender<DuplexStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knocks; `None` when nobody listens.
    pub(crate) fn connect(&self) -> Option<DuplexStream> {
        let (client, server) = tokio::io::duplex(PIPE);
        self.door().as_ref()?.try_send(server).ok()?;
        Some(client)
    }
}

impl Net for SimNet {
    fn listen(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        let (sender, knocking) = mpsc::channel(BACKLOG);
        *self.door() = Some(sender);
        let listener: Box<dyn Listener> = Box::new(SimListener { knocking });
        ready(Ok(listener)).boxed()
    }
}

#[derive(Debug)]
struct SimListener {
    knocking: mpsc::Receiver<DuplexStream>,
}

impl Listener for SimListener {
    fn address(&self) -> SocketAddr {
        ADDRESS
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        async move {
            match self.knocking.recv().await {
                Some(stream) => {
                    let connection: Box<dyn Connection> = Box::new(SimConnection(stream));
                    Ok(connection)
                }
                // Another listener has the door.
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

#[derive(Debug)]
struct SimConnection(DuplexStream);

impl Connection for SimConnection {
    fn local_address(&self) -> IpAddr {
        ADDRESS.ip()
    }
}

impl AsyncRead for SimConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for SimConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
