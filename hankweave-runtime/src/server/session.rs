//! Answers the handshake of a client, and answers or queues its commands. `client` calls it for each message.

use std::sync::Arc;

use hankweave_core::codon::CodonExecution;
use hankweave_core::thread;
use hankweave_core::wire::{
    ClientRequest, Code, Command, CommandOutcome, DirectPayload, Handshake, Mode, Refused,
};

use tokio::sync::mpsc;

use super::ServedSource;
use super::client::{ClientConnection, EventFeed, Sync};
use super::commands::{QueuedCommand, acknowledge};
use super::history;
use super::replies::SessionStart;
use super::socket::ClientSocket;
use super::token::Role;
use crate::error::chain;

impl ClientConnection {
    /// Answers the handshake. The client joins at one point in history: earlier events can be asked for,
    /// later ones come by themselves (WIRE-2, WIRE-4).
    pub(super) async fn answer_handshake(
        &mut self,
        socket: &mut ClientSocket,
        handshake: Handshake,
    ) -> Result<(), Refused> {
        let is_first = self.mode.is_none();
        if let Some(after) = handshake.after_seq {
            self.check_resumption(after, is_first)?;
        }
        let shared = Arc::clone(&self.shared);
        // The last event before those that the client gets as new ones.
        let position = match (is_first, handshake.after_seq) {
            (true, _) if handshake.events == Some(false) => shared.hub.position(),
            (true, Some(after)) => {
                self.feed = EventFeed::CatchingUp(after);
                after
            }
            (true, None) => {
                self.feed = EventFeed::Live;
                shared.hub.join(self.number, &self.outbox)
            }
            (false, _) => shared.hub.position(),
        };
        let journal = Arc::clone(&shared.history);
        let with_events = handshake.send_previous_events && handshake.after_seq.is_none();
        let reading = move || history::for_handshake(&*journal, position, with_events);
        let (history, total_events) = shared
            .world
            .blocking
            .run(reading)
            .await
            .map_err(|error| Refused::new(Code::InternalError, chain(&error)))?;
        let start = SessionStart {
            client_id: &self.id.clone(),
            mode: self.enter(&handshake),
            history: &history,
            total_events,
            last_seq: position,
        };
        // Sent before the outbox, which has the events since the client joined.
        socket.send(start.message());
        if is_first {
            if handshake.view {
                shared.hub.show(self.number, &self.outbox, &shared.replies);
            }
            socket.send(
                shared
                    .replies
                    .answer(None, DirectPayload::ServerReady(shared.ready.clone())),
            );
            let has_history = handshake.send_previous_events || handshake.after_seq.is_some();
            for answer in self.idle_notices(!has_history) {
                socket.send(shared.replies.answer(None, answer));
            }
        }
        Ok(())
    }

    /// Checks that a client may continue after the event `after`: in its first handshake, and if there is such an event.
    fn check_resumption(&self, after: u64, is_first: bool) -> Result<(), Refused> {
        if !is_first {
            let message = "Invalid handshake: afterSeq belongs to the first handshake; history.sync asks for history later";
            return Err(Refused::new(Code::InvalidHandshake, message));
        }
        let last = match &self.shared.source {
            ServedSource::Run { manager, .. } => manager.last_seq(),
            ServedSource::Record => self.shared.hub.position(),
        };
        if after > last {
            let message =
                format!("Invalid handshake: afterSeq: there is no event {after}; the newest one is {last}");
            return Err(Refused::new(Code::UnknownSeq, message));
        }
        Ok(())
    }

    /// Returns the notices for a client that connects while nothing runs, and so has missed them. `with_idle`: also why nothing runs, for a client that gets
    /// no earlier events.
    fn idle_notices(&self, with_idle: bool) -> Vec<DirectPayload> {
        let Some(idle) = self.shared.hub.idle() else {
            return Vec::new();
        };
        let mut notices = Vec::new();
        if with_idle {
            notices.push(DirectPayload::ServerIdle {
                reason: idle.reason,
                message: idle.message,
            });
        }
        let ServedSource::Run { manager, hank } = &self.shared.source else {
            return notices;
        };
        let state = manager.snapshot();
        let thread = thread::build(&state, None, None);
        if let Some(CodonExecution::Failed(failed)) = thread.codons.first().map(|entry| entry.codon.as_ref())
        {
            let config = hank.codon(failed.codon_id.configured());
            let why = failed
                .failure_reason
                .message
                .as_deref()
                .unwrap_or("no reason is known");
            notices.push(DirectPayload::IncompleteCodon {
                codon_id: failed.codon_id.clone(),
                codon_name: config.map_or_else(|| failed.codon_id.to_string(), |config| config.name.clone()),
                message: format!("it failed: {why}; codon.redo runs it again, a rollback rolls back to an earlier checkpoint"),
            });
        }
        notices
    }

    /// Checks the rights of the client. Answers commands that need no other task, and queues the others (WIRE-6, WIRE-7, WIRE-14).
    pub(super) fn accept(&mut self, request: ClientRequest, mode: Mode) -> Result<(), Refused> {
        self.check_permission(&request.command, mode)?;
        match &request.command {
            Command::Ping => self.send(self.shared.replies.pong(Some(&request.id), None)),
            Command::HistorySync { after_seq } => {
                let after = after_seq.unwrap_or(0);
                return self.start_sync(request, after);
            }
            Command::ViewGet => {
                let view = self.shared.hub.view(&self.shared.replies);
                self.send(
                    self.shared
                        .replies
                        .answer(Some(&request.id), DirectPayload::View { view }),
                );
            }
            Command::PingBroadcast => {
                let pong = self.shared.replies.pong(None, Some(self.id.clone()));
                self.shared.hub.broadcast(&pong);
                let job = self.job(request);
                let answer = acknowledge(&job, CommandOutcome::Done);
                self.send(self.shared.replies.answer(Some(&job.request.id), answer));
            }
            command if command.only_reads_files() => return self.queue(&self.shared.reading_sender, request),
            _ => return self.queue(&self.shared.command_sender, request),
        }
        Ok(())
    }

    fn queue(&self, sender: &mpsc::Sender<QueuedCommand>, request: ClientRequest) -> Result<(), Refused> {
        let sent = sender.try_send(self.job(request));
        sent.map_err(|_| Refused::new(Code::Busy, "too many commands are waiting"))
    }

    /// Refuses a command that the client may not send, or not while the run is being stopped.
    fn check_permission(&self, command: &Command, mode: Mode) -> Result<(), Refused> {
        if !command.is_always_allowed() && self.shared.shutdown.cause().is_some() {
            return Err(Refused::new(Code::Stopping, "the run is being stopped"));
        }
        let is_beyond_mode = mode == Mode::Readonly && !command.is_always_allowed();
        // A client in read-only mode may stop the server if its token has all rights.
        let is_beyond_token = self.role == Role::ReadOnly && command.stops_the_server();
        if is_beyond_mode || is_beyond_token {
            let message = format!("{} needs more than reading", command.name());
            return Err(Refused::new(Code::InsufficientPermissions, message));
        }
        Ok(())
    }

    /// Starts to send history, up to the event before the first one that the client gets as a new event.
    fn start_sync(&mut self, request: ClientRequest, after: u64) -> Result<(), Refused> {
        if self.sync.is_some() {
            return Err(Refused::new(Code::Busy, "history is being sent already"));
        }
        let until = match self.feed {
            EventFeed::CatchingUp(position) => position,
            EventFeed::Live | EventFeed::Nothing => self.shared.hub.position(),
        };
        self.sync = Some(Sync {
            command_id: request.id,
            position: after,
            until,
        });
        Ok(())
    }

    fn job(&self, request: ClientRequest) -> QueuedCommand {
        QueuedCommand {
            request,
            client: self.id.clone(),
            user: self.user.clone(),
            from: Arc::clone(&self.outbox),
            seq: self.shared.hub.position(),
        }
    }
}
