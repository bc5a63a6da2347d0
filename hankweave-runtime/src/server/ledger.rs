//! Ledger of the commands that were carried out: a command that is sent again is answered again, and done once (F20,
//! WIRE-10).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hankweave_core::wire::{ClientRequest, Command, DirectPayload};

use super::outbox::Outbox;

/// How many ids are remembered.
const REMEMBERED: usize = 1_024;

/// The commands of all clients, whatever connection they came over.
#[derive(Debug, Default)]
pub(super) struct CommandLedger {
    entries: HashMap<String, LedgerEntry>,
    /// The ids of what was done, oldest first.
    done: VecDeque<String>,
}

#[derive(Debug)]
struct LedgerEntry {
    command: Command,
    state: CommandState,
}

#[derive(Debug)]
enum CommandState {
    /// In progress; these asked again.
    Begun(Vec<Arc<Outbox>>),
    /// Done, with this answer.
    Done(DirectPayload),
}

/// Treatment of a command.
#[derive(Debug)]
pub(super) enum LedgerStatus {
    /// It is new: do it.
    New,
    /// It is being done; its sender will get the answer as well.
    InProgress,
    /// It was done, with this answer.
    Repeated(DirectPayload),
}

impl CommandLedger {
    /// Enters a command. A command that has the id of another command, but a different content, is a command of its
    /// own.
    pub(super) fn enter(&mut self, request: &ClientRequest, from: &Arc<Outbox>) -> LedgerStatus {
        if let Some(entry) = self.entries.get_mut(&request.id)
            && entry.command == request.command
        {
            return match &mut entry.state {
                CommandState::Begun(others) => {
                    others.push(Arc::clone(from));
                    LedgerStatus::InProgress
                }
                CommandState::Done(answer) => LedgerStatus::Repeated(repeated(answer.clone())),
            };
        }
        let entry = LedgerEntry {
            command: request.command.clone(),
            state: CommandState::Begun(Vec::new()),
        };
        self.forget(&request.id);
        self.entries.insert(request.id.clone(), entry);
        LedgerStatus::New
    }

    /// Notes that a command was carried out, and returns the other clients that asked for it.
    pub(super) fn finish(&mut self, request: &ClientRequest, answer: &DirectPayload) -> Vec<Arc<Outbox>> {
        let Some(entry) = self.begun(request) else {
            return Vec::new();
        };
        let done = CommandState::Done(answer.clone());
        let CommandState::Begun(others) = std::mem::replace(&mut entry.state, done) else {
            return Vec::new();
        };
        self.remember(request.id.clone());
        others
    }

    /// Forgets a command that was refused, so that it may be sent again. Returns the other clients that asked for it.
    pub(super) fn abandon(&mut self, request: &ClientRequest) -> Vec<Arc<Outbox>> {
        if self.begun(request).is_none() {
            return Vec::new();
        }
        match self.entries.remove(&request.id) {
            Some(LedgerEntry {
                state: CommandState::Begun(others),
                ..
            }) => others,
            _ => Vec::new(),
        }
    }

    /// The entry of a command in progress; `None` when another command has taken its id meanwhile.
    fn begun(&mut self, request: &ClientRequest) -> Option<&mut LedgerEntry> {
        let entry = self.entries.get_mut(&request.id)?;
        let is_begun = matches!(entry.state, CommandState::Begun(_)) && entry.command == request.command;
        is_begun.then_some(entry)
    }

    fn remember(&mut self, id: String) {
        self.done.push_back(id);
        if self.done.len() > REMEMBERED
            && let Some(oldest) = self.done.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    fn forget(&mut self, id: &str) {
        self.entries.remove(id);
        self.done.retain(|done| done != id);
    }
}

/// The answer to a command that is sent again.
pub(super) fn repeated(mut answer: DirectPayload) -> DirectPayload {
    if let DirectPayload::CommandAck { repeated, .. } = &mut answer {
        *repeated = true;
    }
    answer
}

#[cfg(test)]
mod tests {
    use hankweave_core::wire::CommandOutcome;

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

    #[test]
    fn another_command_with_the_same_id_is_a_command_of_its_own() {
        let mut ledger = CommandLedger::default();
        let (next, skip) = (request("1", Command::CodonNext), request("1", Command::CodonSkip));
        assert!(matches!(ledger.enter(&next, &outbox()), LedgerStatus::New));
        assert!(matches!(ledger.enter(&skip, &outbox()), LedgerStatus::New));
        assert_eq!(ledger.finish(&next, &ack(&next)).len(), 0);
        ledger.finish(&skip, &ack(&skip));
        assert!(matches!(
            ledger.enter(&skip, &outbox()),
            LedgerStatus::Repeated(_)
        ));
        assert!(matches!(ledger.enter(&next, &outbox()), LedgerStatus::New));
    }

    // covers: WIRE-10
    #[test]
    fn what_was_refused_may_be_tried_again() {
        let (mut ledger, next) = (CommandLedger::default(), request("a", Command::CodonNext));
        ledger.enter(&next, &outbox());
        assert!(matches!(ledger.enter(&next, &outbox()), LedgerStatus::InProgress));
        assert_eq!(ledger.abandon(&next).len(), 1);
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
        assert_eq!((ledger.entries.len(), ledger.done.len()), (1_024, 1_024));
        assert!(matches!(ledger.enter(&all[0], &outbox()), LedgerStatus::New));
    }
}
