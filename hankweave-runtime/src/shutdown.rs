//! The switch with which signals, clients, sentinels and embedding programs ask a run to stop.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why a run is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopCause {
    /// SIGINT, or Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP, as when the terminal is closed.
    HangUp,
    /// The embedding program, or a client.
    Request,
    /// A client that wants an end at once.
    ForcedRequest,
    /// A sentinel, which asked for a pause.
    Sentinel,
}

impl StopCause {
    /// The exit code of a process that ends for this cause before the plan is done (CLI-1).
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            // Scripts know this code as that of a run which was ended from outside.
            Self::Terminate | Self::HangUp => 143,
            Self::Request | Self::ForcedRequest | Self::Sentinel => 3,
        }
    }

    /// Returns the name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupted by SIGINT",
            Self::Terminate => "terminated by SIGTERM",
            Self::HangUp => "its terminal was closed (SIGHUP)",
            Self::Request => "stopped on request",
            Self::ForcedRequest => "stopped by force on request",
            Self::Sentinel => "paused by a sentinel",
        }
    }
}

/// The switch that stops a run; clones share it.
///
/// The first request stops in order: the agent is asked to end, its work is checkpointed, everything is synced. The second one forces:
/// the agent is killed at once.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    orderly: CancellationToken,
    forced: CancellationToken,
    cause: Arc<OnceLock<StopCause>>,
    /// Set if a client forces the stop, no matter which request came first.
    forced_cause: Arc<OnceLock<StopCause>>,
    /// Reason of the first request that gave one.
    reason: Arc<OnceLock<String>>,
}

impl Shutdown {
    /// Returns a switch on which no stop was requested.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop; asking again forces. The cause of the first request stays.
    pub fn request(&self, cause: StopCause) {
        if self.cause.set(cause).is_err() {
            self.forced.cancel();
        }
        self.orderly.cancel();
    }

    /// Notes why a stop is asked for; the first reason stays.
    pub fn explain(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
    }

    /// Returns the reason that was given for the stop.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Returns cause and reason in words.
    #[must_use]
    pub fn words(&self) -> String {
        let cause = self.cause().map_or("stopped", StopCause::as_str);
        match (self.cause(), self.reason()) {
            (Some(StopCause::Sentinel), Some(sentinel)) => format!("paused by {sentinel}"),
            (_, Some(reason)) => format!("{cause}: {reason}"),
            (_, None) => cause.to_owned(),
        }
    }

    /// Asks a second time, or for the first time by force. The forced request then becomes the cause of the stop.
    pub fn force(&self) {
        let _ = self.forced_cause.set(StopCause::ForcedRequest);
        let _ = self.cause.set(StopCause::ForcedRequest);
        self.forced.cancel();
        self.orderly.cancel();
    }

    /// Why the run is asked to stop, if it is.
    #[must_use]
    pub fn cause(&self) -> Option<StopCause> {
        self.forced_cause.get().or(self.cause.get()).copied()
    }

    /// Waits until the run is asked to stop.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn requested(&self) {
        self.orderly.cancelled().await;
    }

    /// The token that is cancelled with the first request.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.orderly
    }

    /// The token that is cancelled when the stop is forced.
    #[must_use]
    pub fn force_token(&self) -> &CancellationToken {
        &self.forced
    }
}
