//! The seam to the network: listeners for the clients of a run.

#[cfg(any(test, feature = "testing"))]
mod memory;

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

#[cfg(any(test, feature = "testing"))]
pub use memory::MemoryNet;

/// Bytes that the kernel keeps for a client that does not read yet. With a quarter of this, sending a long history took a
/// tenth longer.
const SEND_BUFFER: u32 = 1 << 20;

/// Connections that may wait until they are accepted.
const BACKLOG: u32 = 1_024;

/// Opens listeners; a simulation has a network of its own.
pub trait Net: Send + Sync + Debug {
    /// Listens on an address; port 0 means any free one.
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;
}

/// An address at which clients can connect.
pub trait Listener: Send + Debug {
    /// The address, with the actual port where 0 was requested.
    fn address(&self) -> SocketAddr;

    /// Waits for the next connection.
    ///
    /// Nothing is lost when the future is dropped.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>>;
}

/// A connection to one client.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin + Debug {
    /// The address of ours that the client has reached.
    fn local_address(&self) -> IpAddr;
}

/// The network of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealNet;

impl Net for RealNet {
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        async move {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4(),
                SocketAddr::V6(_) => TcpSocket::new_v6(),
            }?;
            // Without this, a run could not use the port of a run that has just ended.
            socket.set_reuseaddr(true)?;
            // Accepted sockets inherit this size.
            socket.set_send_buffer_size(SEND_BUFFER)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let address = listener.local_addr()?;
            let listener: Box<dyn Listener> = Box::new(RealListener { listener, address });
            Ok(listener)
        }
        .boxed()
    }
}

#[derive(Debug)]
struct RealListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener for RealListener {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        async move {
            let (stream, _) = self.listener.accept().await?;
            let local = stream.local_addr()?.ip();
            // Events are short and must arrive at once.
            stream.set_nodelay(true)?;
            let connection: Box<dyn Connection> = Box::new(RealConnection { stream, local });
            Ok(connection)
        }
        .boxed()
    }
}

#[derive(Debug)]
struct RealConnection {
    stream: TcpStream,
    local: IpAddr,
}

impl Connection for RealConnection {
    fn local_address(&self) -> IpAddr {
        self.local
    }
}

impl AsyncRead for RealConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for RealConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
