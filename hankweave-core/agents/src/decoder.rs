//! Decoder interface, common to all agents, and the helpers that the decoders share.
//!
//! A driver of the runtime calls `decode` for each line and `finish` after the last one. In between it reads the session records that the decoder
//! needs (`records_needed`) and hands them over (`recall`).

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

    /// Returns the pending actions and messages for the agent, in order; called after each line and before the first. Only the decoder of an agent
    /// that talks both ways has any.
    fn take_orders(&mut self) -> Vec<AcpAction> {
        Vec::new()
    }

    /// Decides how the process did; called once, after its last line.
    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome;

    /// Returns the usage of the process so far.
    fn usage(&self) -> UsageTotals;

    /// Returns the session whose records should be read now, because they hold more than the lines reported.
    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let _ = records;
        None
    }

    /// Returns the sessions of sub-agents, whose records are read too. Empty if sub-agents have no sessions of their own.
    fn sub_agents(&self) -> &[SessionId] {
        &[]
    }

    /// Adds the usage of the [needed](Self::records_needed) records; `recorded` is `None` when none were found.
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
    /// A line longer than the limit, which was not read (S9).
    TooLong {
        /// Length of the line in bytes.
        bytes: u64,
        /// SHA-256 of the line in hexadecimal digits.
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
    /// Exit code or signal.
    pub exit: ProcessExit,
    /// Whether we ended the process.
    pub ended_by: EndedBy,
    /// The end of its standard error.
    pub stderr_tail: String,
    /// Number of descendants that outlived the process and were killed.
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

    /// Whether the exit fits a success. A process that we have ended cannot choose its exit code, so any exit fits.
    pub(super) fn may_be_success(&self) -> bool {
        self.exit.is_success() || self.ended_by == EndedBy::Us
    }

    /// Returns the verdict on an agent, from its `last` answer and its exit. `part` is the agent's word for an answer, such as "step".
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

/// Stores a reported session id in `known`, and returns the event; `None`, with `known` unchanged, if the id is missing or invalid.
pub(super) fn session_started(
    known: &mut Option<SessionId>,
    id: Option<String>,
    model: Option<String>,
) -> Option<AgentEvent> {
    let session_id = SessionId::new(id?).ok()?;
    *known = Some(session_id.clone());
    Some(AgentEvent::SessionStarted { session_id, model })
}
