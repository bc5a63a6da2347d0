//! A connection that knows how much the client has taken.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::world::net::Connection;

/// Passes everything on, and counts what goes to the client.
#[derive(Debug)]
pub(super) struct Meter {
    connection: Box<dyn Connection>,
    taken: u64,
}

impl Meter {
    pub(super) fn new(connection: Box<dyn Connection>) -> Self {
        Self { connection, taken: 0 }
    }

    /// Bytes that the client, or the system for it, has taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }
}

impl AsyncRead for Meter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl AsyncWrite for Meter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.taken += count as u64;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}
