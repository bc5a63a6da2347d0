//! The commands of a live run (WIRE-12, WIRE-13).
//!
//! All commands reach the runner through one bounded channel. The runner accepts each, or refuses it with a
//! reason. What happens then is published as events.

use std::collections::VecDeque;

use hankweave_core::id::CodonId;
use tokio::sync::{mpsc, oneshot};

use super::{Rollback, RollbackError, RollbackTarget};
use crate::state_manager::TransitionError;

/// Maximum number of commands in the channel; a sender of another one waits.
const QUEUE: usize = 16;

/// A command for a live run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunCommand {
    /// Start the codon that is next; a retry that is due later starts now.
    Next,
    /// Run the newest codon again, however it ended, with the files as they are.
    Redo,
    /// Start this entry of the plan, with the files as they are; the run then continues with the entries after it.
    ///
    /// When the entry has ended in the current run already, a continuation run with the reason `retry` is opened for
    /// it.
    Start {
        /// The entry of the plan.
        codon_id: CodonId,
        /// Leave its rig out (`skipPreCommands`).
        skip_rig: bool,
    },
    /// Answer whether the codon that waits for an approval may start.
    Answer {
        /// The codon; `None` for any codon that waits.
        codon_id: Option<CodonId>,
        /// Whether the codon may start; otherwise the run ends.
        granted: bool,
        /// For the record.
        reason: Option<String>,
        /// Client or user that answers, for the record.
        by: Option<String>,
    },
    /// End the running codon as skipped: its agent is asked to stop, then killed.
    Skip,
    /// Kill the agent; the codon fails, and nothing starts by itself.
    ForceStop {
        /// For the record; "user request" when absent.
        reason: Option<String>,
    },
    /// Roll back to an earlier checkpoint.
    RollBack {
        /// Target.
        target: RollbackTarget,
        /// Whether the next codon starts by itself, in a run that starts codons by itself.
        restart: bool,
    },
}

/// A command that is being carried out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AcceptedCommand {
    /// This codon starts.
    Starting(CodonId),
    /// This codon is being ended, or its next attempt is cancelled.
    Stopping(CodonId),
    /// This codon may not begin, and the run ends.
    Denied(CodonId),
    /// The files were restored.
    RolledBack(Box<Rollback>),
}

/// Why a command is not carried out. Nothing has changed, except after a [`Rollback`](Self::Rollback) that states a change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The command needs a moment in which no codon runs.
    #[error("cannot {what} while codon `{codon}` is running")]
    CodonRunning {
        /// Requested command.
        what: &'static str,
        /// The codon.
        codon: CodonId,
    },
    /// The command is about a running codon, but no codon runs.
    #[error("no codon is currently running")]
    NothingRunning,
    /// The plan has ended.
    #[error("no more codons to run")]
    NothingNext,
    /// The next codon needs an approval.
    #[error("codon `{0}` waits for an approval")]
    ApprovalRequired(CodonId),
    /// No codon waits for an approval, or not this one.
    #[error("{}", not_asked(.0.as_ref()))]
    NotAsked(Option<CodonId>),
    /// The answer could not be recorded.
    #[error("the answer could not be recorded")]
    NotRecorded(#[source] TransitionError),
    /// The newest codon failed, so nothing is next.
    #[error("nothing is next, because codon `{0}` failed")]
    Blocked(CodonId),
    /// The plan has no such codon.
    #[error("unknown codon: {0}")]
    UnknownCodon(CodonId),
    /// There is nothing that could run again.
    #[error("no codon has been run yet to redo")]
    NothingToRedo,
    /// The target does not exist, or the restore failed.
    #[error("rollback failed")]
    Rollback(#[source] RollbackError),
    /// Files are being restored.
    #[error("a rollback is in progress")]
    RollbackInProgress,
    /// The run is being stopped.
    #[error("the run is being stopped")]
    Stopping,
    /// The run has ended.
    #[error("the run has ended")]
    Ended,
}

/// The message of [`Refusal::NotAsked`]; `codon` is the codon that the command named.
fn not_asked(codon: Option<&CodonId>) -> String {
    match codon {
        Some(id) => format!("codon `{id}` does not wait for an approval"),
        None => "no codon waits for an approval".to_owned(),
    }
}

impl Refusal {
    /// A name for programs (WIRE-9).
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::CodonRunning { .. } => "CODON_RUNNING",
            Self::NothingRunning => "NOTHING_RUNNING",
            Self::NothingNext => "NOTHING_NEXT",
            Self::ApprovalRequired(_) => "APPROVAL_REQUIRED",
            Self::NotAsked(_) => "NOT_ASKED",
            Self::NotRecorded(_) => "NOT_RECORDED",
            Self::Blocked(_) => "CODON_FAILED",
            Self::UnknownCodon(_) => "UNKNOWN_CODON",
            Self::NothingToRedo => "NOTHING_TO_REDO",
            Self::Rollback(_) => "ROLLBACK_FAILED",
            Self::RollbackInProgress => "ROLLBACK_IN_PROGRESS",
            Self::Stopping => "STOPPING",
            Self::Ended => "RUN_ENDED",
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::CodonRunning { .. } => "wait until it has ended, skip it, or stop it by force first",
            Self::NothingRunning => {
                "start a codon first: next starts the one that is next, redo the newest one"
            }
            Self::ApprovalRequired(_) => "approve lets it begin, deny ends the run",
            Self::NotAsked(_) => "the state tells what is next",
            Self::NotRecorded(_) => {
                "make room on the disk, and the next run in the same directory asks again"
            }
            Self::NothingNext => "redo runs the newest codon again, rollback rolls back to an earlier one",
            Self::Blocked(_) => "redo runs it again, rollback rolls back to an earlier checkpoint",
            Self::UnknownCodon(_) => "the state lists the codons of the plan",
            Self::NothingToRedo => "next starts the first codon",
            Self::Rollback(_) => "checkpoint.list tells the checkpoints that there are",
            Self::RollbackInProgress => "wait until the files are back",
            Self::Stopping | Self::Ended => "the next run in the same directory continues",
        }
    }
}

/// Sends commands to a live run; cheap to clone.
#[derive(Debug, Clone)]
pub struct Commander(mpsc::Sender<RunnerRequest>);

impl Commander {
    /// Sends a command and waits for the answer of the runner.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal`]; nothing has changed then, except after a [`Refusal::Rollback`] that states
    /// a change.
    pub async fn send(&self, command: RunCommand) -> Result<AcceptedCommand, Refusal> {
        let (reply, answer) = oneshot::channel();
        let request = RunnerRequest { command, reply };
        self.0.send(request).await.map_err(|_| Refusal::Ended)?;
        answer.await.unwrap_or(Err(Refusal::Ended))
    }
}

/// A command with the place for its answer.
#[derive(Debug)]
pub(crate) struct RunnerRequest {
    pub(super) command: RunCommand,
    pub(super) reply: CommandReply,
}

pub(super) type CommandReply = oneshot::Sender<Result<AcceptedCommand, Refusal>>;

/// The runner's end of the channel.
#[derive(Debug)]
pub(crate) struct Inbox {
    requests: mpsc::Receiver<RunnerRequest>,
    /// Requests that could not be carried out while a codon ran, oldest first; at most [`QUEUE`].
    deferred: VecDeque<RunnerRequest>,
}

/// The channel for one run.
pub(crate) fn channel() -> (Commander, Inbox) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let inbox = Inbox {
        requests: receiver,
        deferred: VecDeque::new(),
    };
    (Commander(sender), inbox)
}

impl Inbox {
    /// Returns the next command; waits forever if every sender was dropped.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> RunnerRequest {
        if let Some(request) = self.deferred.pop_front() {
            return request;
        }
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// Does `work`, and meanwhile passes each request to `obey`. Requests that `obey` returns are the next ones after the work.
    pub(super) async fn obey_during<T>(
        &mut self,
        work: impl Future<Output = T>,
        mut obey: impl FnMut(RunnerRequest) -> Option<RunnerRequest>,
    ) -> T {
        let mut returned = VecDeque::new();
        tokio::pin!(work);
        let result = loop {
            // Both arms are cancel safe: the work is only borrowed, and a receive that is dropped loses
            // nothing. A command that arrives together with the end of the work is left for the time after it.
            tokio::select! {
                biased;
                result = &mut work => break result,
                request = self.next(), if returned.len() < QUEUE => returned.extend(obey(request)),
            }
        };
        // `next` takes the oldest request, so those that are still deferred are newer.
        returned.append(&mut self.deferred);
        self.deferred = returned;
        result
    }

    /// Does `work`, and refuses all commands meanwhile.
    pub(super) async fn refuse_during<T>(
        &mut self,
        refusal: fn() -> Refusal,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        loop {
            // Both arms are cancel safe: the work is only borrowed, and a receive that is dropped loses
            // nothing.
            tokio::select! {
                biased;
                result = &mut work => return result,
                request = self.next() => answer(request.reply, Err(refusal())),
            }
        }
    }
}

/// Answers a command. Its sender may have stopped waiting, which is harmless.
pub(super) fn answer(reply: CommandReply, answer: Result<AcceptedCommand, Refusal>) {
    let _ = reply.send(answer);
}
