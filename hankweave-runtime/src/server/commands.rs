//! Carrying out the commands of all clients in one task, because a client may disconnect before its answer is
//! known.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hankweave_core::hank::Hank;
use hankweave_core::id::CodonId;
use hankweave_core::thread;
use hankweave_core::wire::{
    Answer, CheckpointList, Code, Command as Wanted, Outcome, Refused, Request, RunSnapshot,
};
use tokio::sync::mpsc;

use super::ledger::{Entered, Ledger};
use super::outbox::Outbox;
use super::replies::{Attempted, Replies};
use crate::error::chain;
use crate::runner::{Accepted, Command, Commander, LiveFiles, Refusal, RollbackTarget};
use crate::shutdown::{Shutdown, StopCause};
use crate::state_manager::{StateManager, TransitionError};

/// Commands that are carried out at the same time; a command more waits in the queue.
const MOST: usize = 64;

/// Commands that may wait; further ones are refused as busy.
pub(super) const QUEUE: usize = 256;

/// A command on its way.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: Request,
    /// Where the answer goes.
    pub(super) from: Arc<Outbox>,
    /// The last event before it was taken up.
    pub(super) seq: u64,
}

/// What commands act on.
#[derive(Debug, Clone)]
pub(super) struct Executor {
    pub(super) commander: Commander,
    pub(super) manager: StateManager,
    pub(super) shutdown: Shutdown,
    pub(super) hank: Arc<Hank>,
    pub(super) replies: Replies,
    pub(super) files: LiveFiles,
}

/// What became of a command.
type Result<T> = std::result::Result<T, Failure>;

/// Why a command is not carried out.
enum Failure {
    Refused(Refused),
    ByTheRun(Refusal),
}

/// Carries out commands until every sender is dropped.
pub(super) async fn run(executor: Executor, mut jobs: mpsc::Receiver<Job>) {
    let mut ledger = Ledger::default();
    let mut work = FuturesUnordered::new();
    loop {
        // Every arm is cancel safe: a receive that is dropped loses nothing, and the work stays where it is.
        tokio::select! {
            biased;
            Some((job, result)) = work.next() => executor.finish(&mut ledger, &job, result),
            job = jobs.recv(), if work.len() < MOST => match job {
                Some(job) => match ledger.enter(&job.request, &job.from) {
                    Entered::New => work.push(executor.carry_out(job)),
                    Entered::InProgress => {}
                    Entered::Repeated(answer) => {
                        job.from.push(executor.replies.answer(Some(&job.request.id), answer));
                    }
                },
                None => break,
            },
        }
    }
    while let Some((job, result)) = work.next().await {
        executor.finish(&mut ledger, &job, result);
    }
}

impl Executor {
    /// Answers every client that sent the command.
    fn finish(&self, ledger: &mut Ledger, job: &Job, result: Result<Answer>) {
        let (id, command) = (job.request.id.as_str(), job.request.command.name());
        let attempted = Attempted {
            id: Some(id),
            command: Some(command),
        };
        match result {
            // It changes nothing, so it is not kept for somebody who asks again.
            Ok(answer @ Answer::StateSnapshot(_)) => {
                let text = self.replies.answer(Some(id), answer);
                for outbox in ledger.abandon(&job.request).iter().chain([&job.from]) {
                    outbox.push(text.clone());
                }
            }
            Ok(answer) => {
                let others = ledger.finish(&job.request, &answer);
                job.from.push(self.replies.answer(Some(id), answer.clone()));
                for other in others {
                    let again = super::ledger::repeated(answer.clone());
                    other.push(self.replies.answer(Some(id), again));
                }
            }
            Err(failure) => {
                let text = match failure {
                    Failure::Refused(refused) => self.replies.refusal(&attempted, refused),
                    Failure::ByTheRun(refusal) => {
                        let hint = Some(refusal.hint().to_owned());
                        self.replies
                            .error(&attempted, chain(&refusal), refusal.code(), hint)
                    }
                };
                for outbox in ledger.abandon(&job.request).iter().chain([&job.from]) {
                    outbox.push(text.clone());
                }
            }
        }
    }

    async fn carry_out(&self, job: Job) -> (Job, Result<Answer>) {
        let result = self.execute(&job).await;
        (job, result)
    }

    async fn execute(&self, job: &Job) -> Result<Answer> {
        let ack = |outcome| acknowledge(job, outcome);
        match &job.request.command {
            Wanted::CheckpointList { run_id } => {
                let state = self.manager.snapshot();
                let list = CheckpointList::of(&state, &self.hank, run_id.as_ref());
                let list = list.map_err(Failure::Refused)?;
                match self.manager.record(list.clone().into()).await.await {
                    Ok(_) => Ok(ack(Outcome::Done)),
                    // The run has ended, so nothing is recorded and only this client gets the list.
                    Err(TransitionError::Stopped) => {
                        let id = Some(job.request.id.as_str());
                        job.from.push(self.replies.answer(id, list.into()));
                        Ok(ack(Outcome::Done))
                    }
                    Err(error) => Err(Failure::Refused(Refused::new(Code::InternalError, chain(&error)))),
                }
            }
            Wanted::StateSnapshot => Ok(self.snapshot().await.into()),
            Wanted::ServerShutdown { .. } if self.shutdown.cause().is_none() => {
                self.shutdown.request(StopCause::Request);
                Ok(ack(Outcome::ShuttingDown))
            }
            // A second one while it lasts forces.
            Wanted::ServerShutdown { .. } | Wanted::ServerForceShutdown { .. } => {
                self.shutdown.force();
                Ok(ack(Outcome::ShuttingDown))
            }
            wanted => match run_command(wanted) {
                Some(command) => {
                    let accepted = self.commander.send(command).await.map_err(Failure::ByTheRun)?;
                    Ok(accept(job, accepted))
                }
                // The client's own task answers these.
                None => Ok(ack(Outcome::Done)),
            },
        }
    }
}

impl Executor {
    /// Where everything stands. The number is read first: what comes after it may be in the snapshot already, and nothing is missing.
    async fn snapshot(&self) -> RunSnapshot {
        let seq = self.manager.last_seq();
        let state = self.manager.snapshot();
        let tree = self.files.tree(&state).await;
        RunSnapshot::of(&state, &thread::build(&state, None, None), tree, seq)
    }
}

/// The command for the run, if it is one.
fn run_command(wanted: &Wanted) -> Option<Command> {
    let back = |target, restart: bool| Some(Command::RollBack { target, restart });
    match wanted {
        Wanted::CodonStart {
            codon_id,
            skip_pre_commands,
        } => Some(Command::Start {
            codon_id: codon_id.clone(),
            skip_rig: *skip_pre_commands,
        }),
        Wanted::CodonNext => Some(Command::Next),
        Wanted::CodonApprove { codon_id, reason } => Some(answered(codon_id, true, reason)),
        Wanted::CodonDeny { codon_id, reason } => Some(answered(codon_id, false, reason)),
        Wanted::CodonSkip => Some(Command::Skip),
        Wanted::CodonRedo => Some(Command::Redo),
        Wanted::CodonForceStop { reason } => Some(Command::ForceStop {
            reason: reason.clone(),
        }),
        Wanted::RollbackToCheckpoint {
            checkpoint_sha,
            auto_restart,
        } => back(
            RollbackTarget::Checkpoint(checkpoint_sha.as_str().to_owned()),
            *auto_restart,
        ),
        Wanted::RollbackToCodon {
            codon_id,
            checkpoint_type,
            auto_restart,
        } => back(
            RollbackTarget::Codon(codon_id.clone(), (*checkpoint_type).into()),
            *auto_restart,
        ),
        Wanted::RollbackToLastSuccess { auto_restart } => back(RollbackTarget::LastSuccess, *auto_restart),
        Wanted::CheckpointList { .. }
        | Wanted::StateSnapshot
        | Wanted::HistorySync { .. }
        | Wanted::Ping
        | Wanted::PingBroadcast
        | Wanted::ServerShutdown { .. }
        | Wanted::ServerForceShutdown { .. } => None,
    }
}

fn answered(codon_id: &Option<CodonId>, granted: bool, reason: &Option<String>) -> Command {
    Command::Answer {
        codon_id: codon_id.clone(),
        granted,
        reason: reason.clone(),
    }
}

fn accept(job: &Job, accepted: Accepted) -> Answer {
    let mut answer = match &accepted {
        Accepted::Starting(_) => acknowledge(job, Outcome::Starting),
        Accepted::Denied(_) => acknowledge(job, Outcome::Denied),
        Accepted::Stopping(_) => acknowledge(job, Outcome::Stopping),
        Accepted::RolledBack(_) => acknowledge(job, Outcome::RolledBack),
    };
    if let Answer::CommandAck {
        codon_id,
        safety_checkpoint,
        next_codon_id,
        ..
    } = &mut answer
    {
        match accepted {
            Accepted::Starting(id) | Accepted::Stopping(id) | Accepted::Denied(id) => *codon_id = Some(id),
            Accepted::RolledBack(rollback) => {
                *codon_id = rollback.source.after_codon;
                *safety_checkpoint = rollback.safety;
                *next_codon_id = rollback.next;
            }
        }
    }
    answer
}

/// The answer that a command is or was carried out.
pub(super) fn acknowledge(job: &Job, outcome: Outcome) -> Answer {
    Answer::CommandAck {
        command_id: job.request.id.clone(),
        command: job.request.command.name().to_owned(),
        outcome,
        seq: job.seq,
        codon_id: None,
        safety_checkpoint: None,
        next_codon_id: None,
        repeated: false,
    }
}
