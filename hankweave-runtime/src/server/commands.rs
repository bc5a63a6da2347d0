//! Carrying out the commands of all clients in one task, because a client may disconnect before its answer is
//! known.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hankweave_core::hank::Hank;
use hankweave_core::id::CodonId;
use hankweave_core::thread;
use hankweave_core::wire::{
    CheckpointList, ClientRequest, Code, Command as Wanted, CommandOutcome, DirectPayload, Event, Refused,
    RunSnapshot,
};
use tokio::sync::mpsc;

use super::ledger::{CommandLedger, LedgerStatus};
use super::outbox::Outbox;
use super::replies::{ParsedRequest, Replies};
use super::{CommandGuard, CommandRefusal};
use crate::error::chain;
use crate::runner::{AcceptedCommand, Commander, LiveFiles, Refusal, RollbackTarget, RunCommand};
use crate::shutdown::{Shutdown, StopCause};
use crate::state_manager::{StateManager, TransitionError};

/// Commands that are carried out at the same time; a command more waits in the queue.
const MOST: usize = 64;

/// Commands that may wait; further ones are refused as busy.
pub(super) const QUEUE: usize = 256;

/// A command on its way.
#[derive(Debug)]
pub(super) struct QueuedCommand {
    pub(super) request: ClientRequest,
    /// Name of the client.
    pub(super) client: String,
    /// User of the client, if it has named one.
    pub(super) user: Option<String>,
    /// Outbox for the answer.
    pub(super) from: Arc<Outbox>,
    /// The last event before it was taken up.
    pub(super) seq: u64,
}

/// Target of commands.
#[derive(Debug, Clone)]
pub(super) struct Executor {
    pub(super) commander: Commander,
    pub(super) manager: StateManager,
    pub(super) shutdown: Shutdown,
    pub(super) hank: Arc<Hank>,
    pub(super) replies: Replies,
    pub(super) files: LiveFiles,
    pub(super) guard: Option<Arc<dyn CommandGuard>>,
}

/// Result of a command.
type Result<T> = std::result::Result<T, CommandFailure>;

/// Why a command is not carried out.
enum CommandFailure {
    Refused(Refused),
    ByTheRun(Refusal),
    ByTheOwner(CommandRefusal),
}

/// Code of a command on which the owner of the run decides.
const OWNED: &str = "OWNED_BY_TASK";

/// Carries out commands until every sender is dropped.
pub(super) async fn run(executor: Executor, mut commands: mpsc::Receiver<QueuedCommand>) {
    let mut ledger = CommandLedger::default();
    let mut work = FuturesUnordered::new();
    loop {
        // Every arm is cancel safe: a receive that is dropped loses nothing, and the work stays where it is.
        tokio::select! {
            biased;
            Some((job, result)) = work.next() => executor.finish(&mut ledger, &job, result),
            job = commands.recv(), if work.len() < MOST => match job {
                Some(job) => match ledger.enter(&job.request, &job.from) {
                    LedgerStatus::New => work.push(executor.carry_out(job)),
                    LedgerStatus::InProgress => {}
                    LedgerStatus::Repeated(answer) => {
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
    fn finish(&self, ledger: &mut CommandLedger, job: &QueuedCommand, result: Result<DirectPayload>) {
        let (id, command) = (job.request.id.as_str(), job.request.command.name());
        let attempted = ParsedRequest {
            id: Some(id),
            command: Some(command),
        };
        match result {
            // It changes nothing, so it is not kept for a repeated request.
            Ok(answer @ DirectPayload::StateSnapshot(_)) => {
                let text = self.replies.answer(Some(id), answer);
                for outbox in ledger.forget(&job.request).iter().chain([&job.from]) {
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
                    CommandFailure::Refused(refused) => self.replies.refusal(&attempted, refused),
                    CommandFailure::ByTheRun(refusal) => {
                        let hint = Some(refusal.hint().to_owned());
                        self.replies
                            .error(&attempted, chain(&refusal), refusal.code(), hint)
                    }
                    CommandFailure::ByTheOwner(CommandRefusal { message, hint }) => {
                        self.replies.error(&attempted, message, OWNED, hint)
                    }
                };
                for outbox in ledger.forget(&job.request).iter().chain([&job.from]) {
                    outbox.push(text.clone());
                }
            }
        }
    }

    async fn carry_out(&self, job: QueuedCommand) -> (QueuedCommand, Result<DirectPayload>) {
        let result = self.execute(&job).await;
        (job, result)
    }

    async fn execute(&self, job: &QueuedCommand) -> Result<DirectPayload> {
        let ack = |outcome| acknowledge(job, outcome);
        if let Some(guard) = &self.guard {
            guard
                .check(&job.request.command)
                .map_err(CommandFailure::ByTheOwner)?;
        }
        match &job.request.command {
            Wanted::CheckpointList { run_id } => {
                let state = self.manager.snapshot();
                let list = CheckpointList::of(&state, Some(&self.hank), run_id.as_ref());
                let list = list.map_err(CommandFailure::Refused)?;
                match self.manager.record(list.clone().into()).await.await {
                    Ok(_) => Ok(ack(CommandOutcome::Done)),
                    // The run has ended, so nothing is recorded and only this client gets the list.
                    Err(TransitionError::Stopped) => {
                        let id = Some(job.request.id.as_str());
                        job.from.push(self.replies.answer(id, list.into()));
                        Ok(ack(CommandOutcome::Done))
                    }
                    Err(error) => Err(CommandFailure::Refused(Refused::new(
                        Code::InternalError,
                        chain(&error),
                    ))),
                }
            }
            Wanted::StateSnapshot => Ok(self.snapshot().await.into()),
            Wanted::ServerShutdown { reason } if self.shutdown.cause().is_none() => {
                self.note(job, None, reason.as_ref()).await;
                self.explain_stop(job, reason.as_deref());
                self.shutdown.request(StopCause::Request);
                Ok(ack(CommandOutcome::ShuttingDown))
            }
            // A second one while it lasts forces.
            Wanted::ServerShutdown { reason } | Wanted::ServerForceShutdown { reason } => {
                self.note(job, None, reason.as_ref()).await;
                self.explain_stop(job, reason.as_deref());
                self.shutdown.force();
                Ok(ack(CommandOutcome::ShuttingDown))
            }
            wanted => match run_command(wanted, job.user.as_deref().unwrap_or(&job.client)) {
                Some(command) => {
                    let accepted = self
                        .commander
                        .send(command)
                        .await
                        .map_err(CommandFailure::ByTheRun)?;
                    let answer = accept(job, accepted);
                    if let DirectPayload::CommandAck { codon_id, .. } = &answer {
                        self.note(job, codon_id.as_ref(), wanted.reason()).await;
                    }
                    Ok(answer)
                }
                // The client's own task answers these.
                None => Ok(ack(CommandOutcome::Done)),
            },
        }
    }
}

impl Executor {
    /// Records which client asked for what (WIRE-41), before the client gets its answer. When the run has ended nothing is recorded any more.
    async fn note(&self, job: &QueuedCommand, codon_id: Option<&CodonId>, reason: Option<&String>) {
        let event = Event::CommandAccepted {
            command: job.request.command.name().to_owned(),
            client_id: job.client.clone(),
            codon_id: codon_id.cloned(),
            reason: reason.cloned(),
            by: job.user.clone(),
        };
        let _ = self.manager.record(event).await.await;
    }

    /// Notes why a stop is asked for, and by which user.
    fn explain_stop(&self, job: &QueuedCommand, reason: Option<&str>) {
        let asked = job.user.as_deref().map(|user| format!("asked by {user}"));
        let words = match (reason, asked) {
            (Some(reason), Some(asked)) => Some(format!("{reason} ({asked})")),
            (reason, asked) => reason.map(str::to_owned).or(asked),
        };
        words.into_iter().for_each(|words| self.shutdown.explain(words));
    }

    /// Returns the state of the run. The number is read first: later events may be in the snapshot already, and nothing is missing.
    async fn snapshot(&self) -> RunSnapshot {
        let seq = self.manager.last_seq();
        let state = self.manager.snapshot();
        let tree = self.files.tree(&state).await;
        RunSnapshot::of(&state, &thread::build(&state, None, None), tree, seq)
    }
}

/// The command for the run, if it is one. `asker` is the user or the client whose it is.
fn run_command(wanted: &Wanted, asker: &str) -> Option<RunCommand> {
    let back = |target, restart: bool| Some(RunCommand::RollBack { target, restart });
    match wanted {
        Wanted::CodonStart {
            codon_id,
            skip_pre_commands,
        } => Some(RunCommand::Start {
            codon_id: codon_id.clone(),
            skip_rig: *skip_pre_commands,
        }),
        Wanted::CodonNext => Some(RunCommand::Next),
        Wanted::CodonApprove { codon_id, reason, by } => {
            Some(answered(codon_id, true, reason, by.as_deref().unwrap_or(asker)))
        }
        Wanted::CodonDeny { codon_id, reason, by } => {
            Some(answered(codon_id, false, reason, by.as_deref().unwrap_or(asker)))
        }
        Wanted::CodonSkip => Some(RunCommand::Skip),
        Wanted::CodonRedo => Some(RunCommand::Redo),
        Wanted::CodonForceStop { reason } => Some(RunCommand::ForceStop {
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
        Wanted::RollbackUndo {
            operation,
            auto_restart,
        } => back(RollbackTarget::UndoOf(operation.clone()), *auto_restart),
        _ => None,
    }
}

fn answered(codon_id: &Option<CodonId>, granted: bool, reason: &Option<String>, by: &str) -> RunCommand {
    RunCommand::Answer {
        codon_id: codon_id.clone(),
        granted,
        reason: reason.clone(),
        by: Some(by.to_owned()),
    }
}

fn accept(job: &QueuedCommand, accepted: AcceptedCommand) -> DirectPayload {
    let mut answer = match &accepted {
        AcceptedCommand::Starting(_) => acknowledge(job, CommandOutcome::Starting),
        AcceptedCommand::Denied(_) => acknowledge(job, CommandOutcome::Denied),
        AcceptedCommand::Stopping(_) => acknowledge(job, CommandOutcome::Stopping),
        AcceptedCommand::RolledBack(_) => acknowledge(job, CommandOutcome::RolledBack),
    };
    if let DirectPayload::CommandAck {
        codon_id,
        safety_checkpoint,
        next_codon_id,
        ..
    } = &mut answer
    {
        match accepted {
            AcceptedCommand::Starting(id) | AcceptedCommand::Stopping(id) | AcceptedCommand::Denied(id) => {
                *codon_id = Some(id)
            }
            AcceptedCommand::RolledBack(rollback) => {
                *codon_id = rollback.source.after_codon;
                *safety_checkpoint = rollback.safety;
                *next_codon_id = rollback.next;
            }
        }
    }
    answer
}

/// The answer that a command is or was carried out.
pub(super) fn acknowledge(job: &QueuedCommand, outcome: CommandOutcome) -> DirectPayload {
    DirectPayload::CommandAck {
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
