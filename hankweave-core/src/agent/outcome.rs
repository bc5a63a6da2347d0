//! How an agent ended.

use std::fmt;

use super::classify::with_stderr;
use super::failure::FailureReason;
use crate::cost::UsageTotals;

/// The end of one agent, reported once and last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitOutcome {
    /// Exit of the program, as the operating system reports it.
    pub exit: ProcessExit,
    /// Meaning of the exit, together with the agent's own words.
    pub verdict: Verdict,
    /// Verdict that replaces a success in a codon without a check, if no changed file proves the success (AGENT-24). `None` after a failure, and for agents
    /// that report success themselves.
    pub unless_shown: Option<Verdict>,
    /// Whether the agent itself states that it used no token. An agent without any statement about its usage states nothing (AGENT-49).
    pub states_no_usage: bool,
    /// Usage of this process, without earlier processes of a resumed session.
    pub usage: UsageTotals,
    /// Whether the agent printed its closing message (`resultMessageReceived`).
    pub result_received: bool,
    /// The last 16 KiB of standard error, invalid UTF-8 replaced.
    pub stderr_tail: String,
    /// Number of descendants that had outlived the agent and were killed.
    pub leftovers: usize,
}

impl ExitOutcome {
    /// Returns the end of an agent that used nothing, printed its closing message and left no processes, as an agent without a process does.
    #[must_use]
    pub fn new(exit: ProcessExit, verdict: Verdict) -> Self {
        Self {
            exit,
            verdict,
            unless_shown: None,
            states_no_usage: false,
            usage: UsageTotals::default(),
            result_received: true,
            stderr_tail: String::new(),
            leftovers: 0,
        }
    }

    /// Returns `message`, which names no cause, with the last lines of standard error.
    #[must_use]
    pub fn with_stderr(&self, message: String) -> String {
        with_stderr(message, &self.stderr_tail)
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessExit {
    /// It ended by itself.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
}

impl ProcessExit {
    /// Returns the exit code as a shell reports it: 128 + n for signal n (S5).
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128_i32.saturating_add(signal),
        }
    }

    /// Whether the process ended by itself with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// A phrase that fits after "the agent".
impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signaled(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}

/// Who ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndedBy {
    /// It ended by itself, or was ended from outside.
    Itself,
    /// We asked it to end, or killed it.
    Us,
}

/// Whether an agent did its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The agent gave a successful result, and ended with code 0 unless we have ended it.
    Success,
    /// The agent failed.
    Failure {
        /// Why.
        reason: FailureReason,
        /// Whether the conversation no longer fits into the model's context; a codon may count that as its end.
        context_exceeded: bool,
    },
}

impl Verdict {
    /// Whether this is [`Verdict::Success`].
    #[must_use]
    pub fn is_success(&self) -> bool {
        *self == Self::Success
    }
}
