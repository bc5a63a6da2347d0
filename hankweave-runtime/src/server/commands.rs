//! Carries out the commands of all clients in one task, because a client may disconnect before its answer is known. `session` queues them; commands that
//! concern one client alone, or only read files, do not come here.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hankweave_core::hank::Hank;
use hankweave_core::id::CodonId;
use hankweave_core::thread;
use hankweave_core::wire::{
    CheckpointList, ClientRequest, Code, Command, CommandOutcome, DirectPayload, Event, Refused, RunSnapshot,
};
use tokio::sync::mpsc;

use super::ledger::{CommandLedger, LedgerStatus, repeated};
use super::outbox::Outbox;
use super::replies::{ParsedRequest, Replies};
use super::{CommandGuard, CommandRefusal};
use crate::error::chain;
use crate::runner::{AcceptedCommand, Commander, LiveFiles, Refusal, RollbackTarget, RunCommand};
use crate::shutdown::{Shutdown, StopCause};
use crate::state_manager::{StateManager, TransitionError};

/// Most commands that are carried out at the same time; others wait in the queue.
const MAX_RUNNING: usize = 64;

/// Commands that may wait; further ones are refused as busy.
pub(super) const QUEUE: usize = 256;

/// A command of a client that is to be carried out.
#[derive(Debug)]
pub(super) struct QueuedCommand {
    pub(super) request: ClientRequest,
    /// Name of the client.
    pub(super) client: String,
    /// User of the client, if it has named one.
    pub(super) user: Option<String>,
    /// Outbox for the answer.
    pub(super) from: Arc<Outbox>,
    /// The last event before the command was queued.
    pub(super) seq: u64,
}

/// Carries out commands on the run, and answers them.
#[derive(Debug, Clone)]
pub(super) struct Executor {
    pub(super) commander: Commander,
    pub(super) manager: StateManager,
    pub(super) shutdown: Shutdown,
    pub(super) hank: Arc<Hank>,
    pub(super) replies: Replies,
    pub(super) files: LiveFiles,
    /// Owner of the run, which may refuse commands; `None` if the run has no owner.
    pub(super) guard: Option<Arc<dyn CommandGuard>>,
}

/// Result of a command.
type Result<T> = std::result::Result<T, CommandFailure>;

/// Why a command is not carried out.
enum CommandFailure {
    /// By the server.
    Refused(Refused),
    ByTheRun(Refusal),
    ByTheOwner(CommandRefusal),
}

/// Code of a refusal by the owner of the run.
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
            job = commands.recv(), if work.len() < MAX_RUNNING => match job {
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
            // A snapshot changes nothing, so a repeated request gets a new one.
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
                    other.push(self.replies.answer(Some(id), repeated(answer.clone())));
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
            Command::CheckpointList { run_id } => {
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
            Command::StateSnapshot => Ok(self.snapshot().await.into()),
            Command::ServerShutdown { reason } if self.shutdown.cause().is_none() => {
                self.record_acceptance(job, None, reason.as_ref()).await;
                self.explain_stop(job, reason.as_deref());
                self.shutdown.request(StopCause::Request);
                Ok(ack(CommandOutcome::ShuttingDown))
            }
            // A second shutdown while the first one lasts is forced.
            Command::ServerShutdown { reason } | Command::ServerForceShutdown { reason } => {
                self.record_acceptance(job, None, reason.as_ref()).await;
                self.explain_stop(job, reason.as_deref());
                self.shutdown.force();
                Ok(ack(CommandOutcome::ShuttingDown))
            }
            command => match run_command(command, job.user.as_deref().unwrap_or(&job.client)) {
                Some(for_run) => {
                    let accepted = self
                        .commander
                        .send(for_run)
                        .await
                        .map_err(CommandFailure::ByTheRun)?;
                    let answer = acknowledge_accepted(job, accepted);
                    if let DirectPayload::CommandAck { codon_id, .. } = &answer {
                        self.record_acceptance(job, codon_id.as_ref(), command.reason())
                            .await;
                    }
                    Ok(answer)
                }
                // No such command is queued: `session` answers it, or queues it for `reading`.
                None => Ok(ack(CommandOutcome::Done)),
            },
        }
    }

    /// Records which client sent the command (WIRE-41), before the client gets its answer. After the end of the run nothing is recorded.
    async fn record_acceptance(
        &self,
        job: &QueuedCommand,
        codon_id: Option<&CodonId>,
        reason: Option<&String>,
    ) {
        let event = Event::CommandAccepted {
            command: job.request.command.name().to_owned(),
            client_id: job.client.clone(),
            codon_id: codon_id.cloned(),
            reason: reason.cloned(),
            by: job.user.clone(),
        };
        let _ = self.manager.record(event).await.await;
    }

    /// Notes the reason of a stop, and the user who asked for it.
    fn explain_stop(&self, job: &QueuedCommand, reason: Option<&str>) {
        let asked = job.user.as_deref().map(|user| format!("asked by {user}"));
        let words = match (reason, asked) {
            (Some(reason), Some(asked)) => Some(format!("{reason} ({asked})")),
            (reason, asked) => reason.map(str::to_owned).or(asked),
        };
        words.into_iter().for_each(|words| self.shutdown.explain(words));
    }

    /// Returns the state of the run. `seq` is read first: the snapshot may contain later events as well, but lacks none up to `seq`.
    async fn snapshot(&self) -> RunSnapshot {
        let seq = self.manager.last_seq();
        let state = self.manager.snapshot();
        let tree = self.files.tree(&state).await;
        RunSnapshot::of(&state, &thread::build(&state, None, None), tree, seq)
    }
}

/// Returns the command in the form of the runner; `None` for a command that is not for the run. `sender` names the user or the client that sent it.
fn run_command(command: &Command, sender: &str) -> Option<RunCommand> {
    let roll_back = |target, restart: bool| Some(RunCommand::RollBack { target, restart });
    match command {
        Command::CodonStart {
            codon_id,
            skip_pre_commands,
        } => Some(RunCommand::Start {
            codon_id: codon_id.clone(),
            skip_rig: *skip_pre_commands,
        }),
        Command::CodonNext => Some(RunCommand::Next),
        Command::CodonApprove { codon_id, reason, by } => Some(answer_command(
            codon_id,
            true,
            reason,
            by.as_deref().unwrap_or(sender),
        )),
        Command::CodonDeny { codon_id, reason, by } => Some(answer_command(
            codon_id,
            false,
            reason,
            by.as_deref().unwrap_or(sender),
        )),
        Command::CodonSkip => Some(RunCommand::Skip),
        Command::CodonRedo => Some(RunCommand::Redo),
        Command::CodonForceStop { reason } => Some(RunCommand::ForceStop {
            reason: reason.clone(),
        }),
        Command::RollbackToCheckpoint {
            checkpoint_sha,
            auto_restart,
        } => roll_back(
            RollbackTarget::Checkpoint(checkpoint_sha.as_str().to_owned()),
            *auto_restart,
        ),
        Command::RollbackToCodon {
            codon_id,
            checkpoint_type,
            auto_restart,
        } => roll_back(
            RollbackTarget::Codon(codon_id.clone(), (*checkpoint_type).into()),
            *auto_restart,
        ),
        Command::RollbackToLastSuccess { auto_restart } => {
            roll_back(RollbackTarget::LastSuccess, *auto_restart)
        }
        Command::RollbackUndo {
            operation,
            auto_restart,
        } => roll_back(RollbackTarget::UndoOf(operation.clone()), *auto_restart),
        _ => None,
    }
}

fn answer_command(
    codon_id: &Option<CodonId>,
    granted: bool,
    reason: &Option<String>,
    by: &str,
) -> RunCommand {
    RunCommand::Answer {
        codon_id: codon_id.clone(),
        granted,
        reason: reason.clone(),
        by: Some(by.to_owned()),
    }
}

/// Returns the acknowledgement of a command that the run has accepted.
fn acknowledge_accepted(job: &QueuedCommand, accepted: AcceptedCommand) -> DirectPayload {
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

/// Returns the acknowledgement of a command, with nothing but its outcome.
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
