//! Decoder interface, common to all agents.

use std::fmt::Debug;

use serde::Deserialize;

use crate::actions::AcpAction;
use crate::lenient::Object;
use crate::records::{AgentRecords, RecordsScope};
use hankweave_core::agent::classify::{failure, with_stderr, without_result};
use hankweave_core::agent::{AgentEvent, AgentResult};
use hankweave_core::agent::{EndedBy, ExitOutcome, ProcessExit, Verdict};
use hankweave_core::cost::UsageTotals;
use hankweave_core::id::SessionId;

/// Decoder of the lines that one process prints. A driver makes one for each process; it is pure, and takes any lines (AGENT-33).
pub trait AgentDecoder: Send + Debug {
    /// Adds the events of a line, often none.
    fn decode(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>);

    /// Returns the pending actions and messages for the agent, in order; called after each line and before the first. Only an agent that
    /// talks both ways gives orders.
    fn take_orders(&mut self) -> Vec<AcpAction> {
        Vec::new()
    }

    /// Decides how the process did, after its last line.
    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome;

    /// Returns the usage of the process so far.
    fn usage(&self) -> UsageTotals;

    /// Returns the session whose records should be read now, because they hold more than the lines reported.
    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let _ = records;
        None
    }

    /// Sessions of sub-agents whose records are read along, if each has one of its own.
    fn sub_agents(&self) -> &[SessionId] {
        &[]
    }

    /// Adds the usage of the records that were [needed](Self::records_needed); `None` when there are none.
    fn recall(
        &mut self,
        records: RecordsScope,
        recorded: Option<AgentRecords>,
        events: &mut Vec<AgentEvent>,
    ) {
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

/// Number of characters that are reported of a line that is no JSON object.
pub(super) const UNPARSED_CHARS: usize = 200;

impl<'l> AgentLine<'l> {
    /// Returns the JSON object of the line. Text that is no JSON object is reported (AGENT-1); an empty line is ignored.
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
    /// Returns the end of a process that left no processes and printed no error.
    #[must_use]
    pub fn of(exit: ProcessExit, ended_by: EndedBy) -> Self {
        Self {
            exit,
            ended_by,
            stderr_tail: String::new(),
            leftovers: 0,
        }
    }

    /// Returns the result of an agent whose process ended in this way.
    pub(super) fn outcome(self, verdict: Verdict, usage: UsageTotals, result_received: bool) -> ExitOutcome {
        ExitOutcome {
            exit: self.exit,
            verdict,
            unless_shown: None,
            states_no_usage: false,
            usage,
            result_received,
            stderr_tail: self.stderr_tail,
            leftovers: self.leftovers,
        }
    }

    /// Whether its exit contradicts no success. A process that we have ended cannot choose its exit code.
    pub(super) fn may_be_success(&self) -> bool {
        self.exit.is_success() || self.ended_by == EndedBy::Us
    }

    /// How an agent did whose `last` answer decides, together with its exit. `part` is what it calls an answer.
    pub(super) fn verdict(&self, last: Option<&AgentResult>, part: &str, had_session: bool) -> Verdict {
        let (words, message) = match last {
            Some(last) if last.success && self.may_be_success() => return Verdict::Success,
            Some(last) if last.success => ("", self.contradiction()),
            Some(last) if !last.text.is_empty() => (last.text.as_str(), last.text.clone()),
            Some(last) => {
                let stop = last.terminal_reason.as_deref().unwrap_or("nothing");
                let message = format!("the last {part} of the agent ended with `{stop}`");
                ("", with_stderr(message, &self.stderr_tail))
            }
            None => without_result(self.exit, &self.stderr_tail, had_session),
        };
        failure(words, message, had_session)
    }

    /// Returns the message for a success that the exit code contradicts.
    pub(super) fn contradiction(&self) -> String {
        let message = format!("the agent reported success but {}", self.exit);
        with_stderr(message, &self.stderr_tail)
    }
}

/// Handles the name of the agent's session; `known` keeps it.
pub(super) fn session_started(
    known: &mut Option<SessionId>,
    id: Option<String>,
    model: Option<String>,
) -> Option<AgentEvent> {
    let session_id = SessionId::new(id?).ok()?;
    *known = Some(session_id.clone());
    Some(AgentEvent::SessionStarted { session_id, model })
}
