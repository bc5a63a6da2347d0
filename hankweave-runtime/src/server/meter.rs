//! A connection that measures how many bytes the client has taken, and since when it takes none. Bytes that a system buffers for the client count as taken.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::world::net::Connection;

/// Passes everything on to the inner connection.
#[derive(Debug)]
pub(super) struct MeteredConnection {
    connection: Box<dyn Connection>,
    /// How many bytes the client has taken.
    sent: u64,
    /// When the client last took bytes.
    last_taken: Instant,
    /// Whether bytes wait that the client does not take.
    is_stalled: bool,
}

impl MeteredConnection {
    pub(super) fn new(connection: Box<dyn Connection>) -> Self {
        Self {
            connection,
            sent: 0,
            last_taken: Instant::now(),
            is_stalled: false,
        }
    }

    /// Since when the client has taken none of the bytes that wait; `None` when no bytes wait.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.is_stalled.then_some(self.last_taken)
    }

    /// How many bytes the client has taken.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    fn measure(&mut self, written: &Poll<io::Result<usize>>) {
        self.is_stalled = written.is_pending();
        if let Poll::Ready(Ok(length)) = written {
            self.sent += *length as u64;
        }
        if !self.is_stalled {
            self.last_taken = Instant::now();
        }
    }
}

impl AsyncRead for MeteredConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl AsyncWrite for MeteredConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.measure(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}
