//! Why a sentinel got no answer.

use std::io;

use hankweave_core::hank::TemplateError;
use hankweave_core::sentinel::AnswerError;
use hankweave_core::sentinel::model::{CallRefusal, EndpointError};

use rustix::io::Errno;

use crate::state_manager::TransitionError;

/// Why a command or a model gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("the command could not be started: {0}")]
    Start(#[source] io::Error),
    #[error("the command gave no answer within {0} s")]
    Timeout(u64),
    #[error("the command {exit}{complaint}")]
    Failed { exit: String, complaint: String },
    #[error("the answer is longer than 1 MiB")]
    TooLong,
    #[error("the answer is not UTF-8 text")]
    NotUtf8,
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error(transparent)]
    Prompt(#[from] TemplateError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The model gave no answer. The number counts the requests that may be billed nevertheless.
    #[error("the model gave no answer: {0}")]
    Model(CallRefusal, u64),
    /// No question may be asked any more.
    #[error("nothing was asked: {0}")]
    Withheld(&'static str),
    #[error("the model does not answer this: {0}")]
    Refused(String),
    #[error("the answer of the model does not have its form: {0}")]
    Form(String),
    #[error("nothing was asked, because that could not be recorded: {0}")]
    NotRecorded(#[from] TransitionError),
}

impl CallError {
    /// Whether another attempt would fail as well.
    pub(super) fn is_fatal(&self) -> bool {
        match self {
            Self::Start(error) => is_lasting(error),
            Self::Endpoint(_) => true,
            Self::Model(refusal, _) => refusal.fatal,
            _ => false,
        }
    }

    /// Number of requests that may have cost an unknown amount. `costs`: the sentinel's command is known to cost something.
    pub(super) const fn uncounted(&self, costs: bool) -> u64 {
        match self {
            Self::Model(_, uncounted) => *uncounted,
            Self::Timeout(_) | Self::Failed { .. } | Self::TooLong | Self::NotUtf8 | Self::Answer(_) => {
                costs as u64
            }
            // Nothing was asked, or the cost was counted with the model's reply.
            Self::Start(_)
            | Self::Prompt(_)
            | Self::Endpoint(_)
            | Self::Withheld(_)
            | Self::Refused(_)
            | Self::Form(_)
            | Self::NotRecorded(_) => 0,
        }
    }

    /// The type of the error in events.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Prompt(_) => "template-render-failed",
            Self::Endpoint(_) | Self::Model(..) | Self::Withheld(_) | Self::Refused(_) | Self::Form(_) => {
                "llm-call-failed"
            }
            _ => "command-failed",
        }
    }
}

/// Whether the program itself is the cause of an error at its start. Any other error of the system may not come again.
fn is_lasting(error: &io::Error) -> bool {
    let lasting = [
        Errno::NOENT,
        Errno::ACCESS,
        Errno::PERM,
        Errno::NOEXEC,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::LOOP,
        Errno::NAMETOOLONG,
        Errno::TOOBIG,
    ];
    // An error without a number, such as that of a program that was not found, is not one of the system.
    let errno = Errno::from_io_error(error);
    errno.is_none_or(|errno| lasting.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SENT-7
    #[test]
    fn a_command_that_cannot_start_at_the_moment_may_start_later() {
        for (errno, fatal) in [
            (Errno::AGAIN, false),
            (Errno::MFILE, false),
            (Errno::TXTBSY, false),
            (Errno::CHILD, false),
            (Errno::NOENT, true),
            (Errno::ACCESS, true),
        ] {
            assert_eq!(CallError::Start(errno.into()).is_fatal(), fatal, "{errno}");
        }
        assert!(CallError::Start(io::ErrorKind::NotFound.into()).is_fatal());
    }
}
