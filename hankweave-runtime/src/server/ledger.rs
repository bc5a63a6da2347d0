//! Ledger of the commands of all clients: a command that is sent again gets the answer again and is done once (F20, WIRE-10).
//!
//! A command is entered when it arrives. It ends as finished, with an answer that is remembered, or as forgotten, and both return the other clients that sent it
//! meanwhile and wait for its answer.

use std::collections::VecDeque;
use std::sync::Arc;

use hankweave_core::wire::{ClientRequest, DirectPayload};

use super::outbox::Outbox;

/// Number of finished commands that are remembered.
const REMEMBERED: usize = 1_024;

/// Commands of all clients, over whatever connection they came. Two requests are one command if they have the id and everything else in common: clients choose
/// the ids, so two clients may choose the same one for different commands.
#[derive(Debug, Default)]
pub(super) struct CommandLedger {
    running: Vec<RunningCommand>,
    /// Finished commands, oldest first.
    finished: VecDeque<FinishedCommand>,
}

/// Command in progress.
#[derive(Debug)]
struct RunningCommand {
    request: ClientRequest,
    /// Clients that sent the command again and wait for its answer.
    waiting: Vec<Arc<Outbox>>,
}

#[derive(Debug)]
struct FinishedCommand {
    request: ClientRequest,
    answer: DirectPayload,
}

/// State in which a command that arrives is found.
#[derive(Debug)]
pub(super) enum LedgerStatus {
    /// Never seen: carry it out.
    New,
    /// Being carried out; its end returns this sender, too.
    InProgress,
    /// Carried out earlier, with this answer.
    Repeated(DirectPayload),
}

impl CommandLedger {
    /// Enters a command that `from` has sent.
    pub(super) fn enter(&mut self, request: &ClientRequest, from: &Arc<Outbox>) -> LedgerStatus {
        if let Some(running) = self.running.iter_mut().find(|one| one.request == *request) {
            running.waiting.push(Arc::clone(from));
            return LedgerStatus::InProgress;
        }
        if let Some(finished) = self.finished.iter().find(|one| one.request == *request) {
            return LedgerStatus::Repeated(repeated(finished.answer.clone()));
        }
        self.running.push(RunningCommand {
            request: request.clone(),
            waiting: Vec::new(),
        });
        LedgerStatus::New
    }

    /// Remembers the answer of a command that was carried out, and returns the other clients that wait for it.
    pub(super) fn finish(&mut self, request: &ClientRequest, answer: &DirectPayload) -> Vec<Arc<Outbox>> {
        self.finished.push_back(FinishedCommand {
            request: request.clone(),
            answer: answer.clone(),
        });
        if self.finished.len() > REMEMBERED {
            self.finished.pop_front();
        }
        self.forget(request)
    }

    /// Removes a command in progress without an answer, so that it is carried out when it is sent again; returns the other clients that wait for it.
    pub(super) fn forget(&mut self, request: &ClientRequest) -> Vec<Arc<Outbox>> {
        let index = self.running.iter().position(|one| one.request == *request);
        index.map_or_else(Vec::new, |index| self.running.swap_remove(index).waiting)
    }
}

/// Marks an answer as one to a command that was sent again.
pub(super) fn repeated(mut answer: DirectPayload) -> DirectPayload {
    if let DirectPayload::CommandAck { repeated, .. } = &mut answer {
        *repeated = true;
    }
    answer
}

#[cfg(test)]
mod tests {
    use hankweave_core::wire::{Command, CommandOutcome};

    use super::*;

    fn request(id: &str, command: Command) -> ClientRequest {
        ClientRequest {
            id: id.to_owned(),
            command,
        }
    }

    fn ack(request: &ClientRequest) -> DirectPayload {
        DirectPayload::CommandAck {
            command_id: request.id.clone(),
            command: request.command.name().to_owned(),
            outcome: CommandOutcome::Starting,
            seq: 7,
            codon_id: None,
            safety_checkpoint: None,
            next_codon_id: None,
            repeated: false,
        }
    }

    fn outbox() -> Arc<Outbox> {
        Arc::new(Outbox::new(8, 8_000))
    }

    // covers: F20, WIRE-10
    #[test]
    fn a_command_that_is_sent_again_is_answered_again_and_done_once() {
        let (mut ledger, next) = (CommandLedger::default(), request("a", Command::CodonNext));
        assert!(matches!(ledger.enter(&next, &outbox()), LedgerStatus::New));
        assert!(matches!(ledger.enter(&next, &outbox()), LedgerStatus::InProgress));
        assert_eq!(ledger.finish(&next, &ack(&next)).len(), 1);
        let LedgerStatus::Repeated(DirectPayload::CommandAck {
            seq: 7,
            repeated: true,
            ..
        }) = ledger.enter(&next, &outbox())
        else {
            panic!("it was done");
        };
    }

    // covers: WIRE-10
    #[test]
    fn another_command_with_the_same_id_is_a_command_of_its_own() {
        let mut ledger = CommandLedger::default();
        let (next, skip) = (request("1", Command::CodonNext), request("1", Command::CodonSkip));
        let is_new = |status| matches!(status, LedgerStatus::New);
        assert!(is_new(ledger.enter(&next, &outbox())));
        assert!(matches!(ledger.enter(&next, &outbox()), LedgerStatus::InProgress));
        assert!(is_new(ledger.enter(&skip, &outbox())));
        assert!(
            matches!(ledger.enter(&next, &outbox()), LedgerStatus::InProgress),
            "it would be done twice"
        );
        assert_eq!(ledger.finish(&next, &ack(&next)).len(), 2, "each gets the answer");
        assert_eq!(ledger.finish(&skip, &ack(&skip)).len(), 0);
        for done in [&next, &skip] {
            assert!(matches!(ledger.enter(done, &outbox()), LedgerStatus::Repeated(_)));
        }
    }

    // covers: WIRE-10
    #[test]
    fn what_was_refused_may_be_tried_again() {
        let (mut ledger, next) = (CommandLedger::default(), request("a", Command::CodonNext));
        ledger.enter(&next, &outbox());
        assert!(matches!(ledger.enter(&next, &outbox()), LedgerStatus::InProgress));
        assert_eq!(ledger.forget(&next).len(), 1);
        assert!(matches!(ledger.enter(&next, &outbox()), LedgerStatus::New));
    }

    // covers: F20, WIRE-10
    #[test]
    fn the_last_1024_ids_are_remembered() {
        let mut ledger = CommandLedger::default();
        let all: Vec<ClientRequest> = (0..=1_024)
            .map(|number| request(&number.to_string(), Command::CodonNext))
            .collect();
        for request in &all {
            ledger.enter(request, &outbox());
            ledger.finish(request, &ack(request));
        }
        assert!(matches!(
            ledger.enter(&all[1], &outbox()),
            LedgerStatus::Repeated(_)
        ));
        assert_eq!((ledger.running.len(), ledger.finished.len()), (0, 1_024));
        assert!(matches!(ledger.enter(&all[0], &outbox()), LedgerStatus::New));
    }
}
