//! What a decoder of an agent's output is, whoever the agent.

use std::fmt::Debug;

use serde::Deserialize;

use super::acp::Order;
use super::event::AgentEvent;
use super::lenient::Object;
use super::outcome::{EndedBy, ExitOutcome, ProcessExit};
use super::records::{Recorded, Records};
use crate::cost::UsageTotals;
use crate::id::SessionId;

/// Says what the lines that one process prints mean. A driver makes one for each process; it is pure, and takes any lines (AGENT-33).
pub trait AgentDecoder: Send + Debug {
    /// Adds what a line says, often nothing.
    fn hear(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>);

    /// What the agent has to be told, and what is to be done for it, in this order; taken after each line and before the first one. Only an agent that
    /// talks both ways gives orders.
    fn take_orders(&mut self) -> Vec<Order> {
        Vec::new()
    }

    /// Decides how the process did, after its last line.
    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome;

    /// What the process has used until now.
    fn usage(&self) -> UsageTotals;

    /// The session of which these records should be read now, because they tell more than the lines did.
    fn wants(&self, records: Records) -> Option<&SessionId> {
        let _ = records;
        None
    }

    /// Adds what the records say that it [wanted](Self::wants); `None` when there are none.
    fn recall(&mut self, records: Records, recorded: Option<Recorded>, events: &mut Vec<AgentEvent>) {
        let _ = (records, recorded, events);
    }
}

/// A line that an agent printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentLine<'l> {
    /// Without its line break, invalid UTF-8 replaced.
    Text(&'l str),
    /// It was longer than is read (S9).
    TooLong {
        /// Its length in bytes.
        bytes: u64,
        /// Its SHA-256 in hexadecimal digits.
        sha256: &'l str,
    },
}

/// How much of a line that is no JSON object is told.
pub(super) const UNPARSED_CHARS: usize = 200;

impl<'l> AgentLine<'l> {
    /// The JSON object that the line holds. One that holds something else is told (AGENT-1); an empty one says nothing.
    pub(super) fn read<T: Deserialize<'l>>(self, events: &mut Vec<AgentEvent>) -> Option<T> {
        match self {
            Self::Text(text) if text.trim().is_empty() => {}
            Self::Text(text) => match serde_json::from_str::<Object<T>>(text) {
                Ok(Object(Some(line))) => return Some(line),
                Ok(Object(None)) | Err(_) => events.push(AgentEvent::Unparsed {
                    start: text.trim().chars().take(UNPARSED_CHARS).collect(),
                }),
            },
            Self::TooLong { bytes, sha256 } => events.push(AgentEvent::OutputTruncated {
                bytes,
                sha256: sha256.to_owned(),
            }),
        }
        None
    }
}

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// How it ended.
    pub exit: ProcessExit,
    /// Who ended it.
    pub ended_by: EndedBy,
    /// The end of its standard error.
    pub stderr_tail: String,
    /// How many descendants had to be killed.
    pub leftovers: usize,
}

impl ProcessEnd {
    /// The end of a process that left nothing behind and said nothing at its end.
    #[must_use]
    pub fn of(exit: ProcessExit, ended_by: EndedBy) -> Self {
        Self {
            exit,
            ended_by,
            stderr_tail: String::new(),
            leftovers: 0,
        }
    }
}
