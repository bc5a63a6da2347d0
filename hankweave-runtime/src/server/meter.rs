//! A connection that sends what was read from the journal as it is, and knows since when the client takes nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::frames::Frames;
use crate::world::net::Connection;

/// Passes everything on, behind a part of the history if there is one.
#[derive(Debug)]
pub(super) struct Meter {
    connection: Box<dyn Connection>,
    /// Goes out before anything that is written.
    part: Frames,
    /// How many bytes of it have gone.
    gone: usize,
    /// How many bytes the client, or the system for it, has taken.
    sent: u64,
    /// When it took something last.
    took: Instant,
    /// Whether there is more that it does not take.
    refuses: bool,
}

impl Meter {
    pub(super) fn new(connection: Box<dyn Connection>) -> Self {
        Self {
            connection,
            part: Frames::default(),
            gone: 0,
            sent: 0,
            took: Instant::now(),
            refuses: false,
        }
    }

    /// Since when the client, or the system for it, has taken nothing of what waits; `None` when nothing does.
    pub(super) fn refuses_since(&self) -> Option<Instant> {
        self.refuses.then_some(self.took)
    }

    /// How many bytes it has taken.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends these frames. What was written before must be on its way, or they would stand in the middle of another one.
    pub(super) fn load(&mut self, part: Frames) {
        (self.part, self.gone) = (part, 0);
    }

    /// Gives back the memory of a part that has gone.
    pub(super) fn unload(&mut self) -> Frames {
        self.gone = 0;
        std::mem::take(&mut self.part).cleared()
    }

    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.gone < self.part.bytes().len() {
            let rest = &self.part.bytes()[self.gone..];
            let written = Pin::new(&mut self.connection).poll_write(context, rest);
            self.look(&written);
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                length => self.gone += length,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn look(&mut self, written: &Poll<io::Result<usize>>) {
        self.refuses = written.is_pending();
        if let Poll::Ready(Ok(length)) = written {
            self.sent += *length as u64;
        }
        if !self.refuses {
            self.took = Instant::now();
        }
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
        ready!(self.poll_part(context))?;
        let written = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.look(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_part(context))?;
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}
