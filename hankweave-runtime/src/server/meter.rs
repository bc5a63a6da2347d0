//! A connection that measures what the client takes: how much, and since when nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::world::net::Connection;

/// Passes everything on.
#[derive(Debug)]
pub(super) struct MeteredConnection {
    connection: Box<dyn Connection>,
    /// How many bytes the client, or the system for it, has taken.
    sent: u64,
    /// When it took something last.
    took: Instant,
    /// Whether more is waiting that it does not take.
    is_stalled: bool,
}

impl MeteredConnection {
    pub(super) fn new(connection: Box<dyn Connection>) -> Self {
        Self {
            connection,
            sent: 0,
            took: Instant::now(),
            is_stalled: false,
        }
    }

    /// Since when the client, or the system for it, has taken nothing of what waits; `None` when nothing
    /// does.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.is_stalled.then_some(self.took)
    }

    /// How many bytes it has taken.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    fn measure(&mut self, written: &Poll<io::Result<usize>>) {
        self.is_stalled = written.is_pending();
        if let Poll::Ready(Ok(length)) = written {
            self.sent += *length as u64;
        }
        if !self.is_stalled {
            self.took = Instant::now();
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
