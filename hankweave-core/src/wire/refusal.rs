//! Why something that a client sent is not carried out, with a name for programs (WIRE-9).

use crate::shape::Named;

/// Reason of a refusal, as a name for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Named)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum Code {
    /// The text is no JSON.
    NotJson,
    /// Brackets are nested too deep.
    TooDeep,
    /// The message has not the form of a command, or its data are not what they must be.
    InvalidCommand,
    /// There is no command of this name.
    UnknownCommand,
    /// The handshake has not the form that it must have.
    InvalidHandshake,
    /// A command came before the handshake.
    HandshakeRequired,
    /// The history that was asked for does not exist.
    UnknownSeq,
    /// The client may only read.
    InsufficientPermissions,
    /// The run is being stopped.
    Stopping,
    /// Too many commands wait.
    Busy,
    /// There is no such run.
    UnknownRun,
    /// The hank has no such codon.
    UnknownCodon,
    /// There is no such checkpoint, or its files cannot be read.
    UnknownCheckpoint,
    /// The server failed to answer.
    InternalError,
}

/// Why a message is not carried out; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// Reason.
    pub code: Code,
    /// Every part of the problem.
    pub message: String,
}

impl Refused {
    /// Refuses a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}
