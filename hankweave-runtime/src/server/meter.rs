//! A connection that knows since when the client takes nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::world::net::Connection;

/// Passes everything on, and looks whether it is taken.
#[derive(Debug)]
pub(super) struct Meter {
    connection: Box<dyn Connection>,
    /// When the client took something last.
    took: Instant,
    /// Whether there is more that it does not take.
    refuses: bool,
}

impl Meter {
    pub(super) fn new(connection: Box<dyn Connection>) -> Self {
        let took = Instant::now();
        let refuses = false;
        Self {
            connection,
            took,
            refuses,
        }
    }

    /// Since when the client, or the system for it, has taken nothing of what waits; `None` when nothing does.
    pub(super) fn refuses_since(&self) -> Option<Instant> {
        self.refuses.then_some(self.took)
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
        self.refuses = written.is_pending();
        if !self.refuses {
            self.took = Instant::now();
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
