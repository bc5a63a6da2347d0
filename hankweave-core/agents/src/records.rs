//! Usage records that an agent writes itself, common to all agents.

use std::fmt::Debug;

use hankweave_core::cost::{Billed, ProcessUsage, ReportedUsage, TokenUsage, UsageConfidence, UsageTotals};

/// How much an agent's own records are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordsScope {
    /// During the work: usage that the lines do not report.
    SoFar,
    /// While it prints nothing, because a tool works that may use tokens itself.
    Meanwhile,
    /// After the end, everything.
    Whole,
}

/// Usage records of a session. A driver finds and reads them; a decoder counts them.
#[derive(Debug, Default)]
pub struct AgentRecords {
    /// Usage by message, in the order written. A message may occur twice.
    pub messages: Vec<RecordedMessage>,
    /// Usage of sub-agents, where it is recorded apart.
    pub sub_agents: Vec<RecordedMessage>,
    /// Sum that the agent itself has written, which may include usage that no message reports.
    pub total: Option<UsageTotals>,
    /// Usage of the session before this process, where recorded.
    pub before: TokenUsage,
    /// The agent has shortened its conversation since this was read last.
    pub compacted: bool,
    /// More was used than this: a request has no answer yet, or not everything was read.
    pub incomplete: bool,
    /// A conversation ends with a request without an answer, or not everything was read. Unlike with `incomplete`, the request may have been made
    /// again.
    pub ends_open: bool,
}

/// Usage of one message of a model.
#[derive(Debug)]
pub struct RecordedMessage {
    /// The id that the message also has in the agent's output.
    pub id: String,
    /// The model that wrote it.
    pub model: String,
    /// Billed usage.
    pub billed: Billed,
    /// How far that can be trusted.
    pub word: UsageConfidence,
}

impl AgentRecords {
    /// Adds the records of another file of the session.
    pub fn merge(&mut self, other: Self) {
        self.messages.extend(other.messages);
        self.sub_agents.extend(other.sub_agents);
        self.total = other.total.or(self.total.take());
        self.before += other.before;
        self.compacted |= other.compacted;
        self.incomplete |= other.incomplete;
        self.ends_open |= other.ends_open;
    }

    /// Notes that there is more, which cannot be read.
    pub fn cut_short(&mut self) {
        (self.incomplete, self.ends_open) = (true, true);
    }

    /// Adds the recorded usage to the usage that the process reported.
    pub fn apply_to(self, usage: &mut ProcessUsage) {
        for message in self.messages.into_iter().chain(self.sub_agents) {
            // What a message adds is in the totals.
            let _ = usage.message(&message.id, &message.model, message.billed, message.word);
        }
        if let Some(total) = self.total
            && total.cost > usage.totals().cost
        {
            usage.result(ReportedUsage::SinceProcessStart(total));
        }
    }
}

/// Reader of one file in which an agent records a session, and which may grow meanwhile.
pub trait SessionLines: Debug + Send {
    /// Reads one line; a line that is not understood is ignored.
    fn line(&mut self, line: &str);

    /// Notes that there is more, which is not read.
    fn cut_short(&mut self);

    /// Whether the lines read so far are those of the session that was looked for.
    fn is_of_session(&self) -> bool;

    /// Returns the usage read since the last call.
    fn take(&mut self) -> AgentRecords;
}

/// Returns whether a line contains one of these words. Most lines of a session file hold messages and are long, so they are not parsed.
pub(super) fn has_word(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}
