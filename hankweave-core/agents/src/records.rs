//! Usage records that an agent writes itself (transcripts, session files), common to all agents. A driver finds the files and reads them through
//! [`SessionLines`]; a decoder counts the resulting [`AgentRecords`].

use std::fmt::Debug;

use hankweave_core::cost::{Billed, ProcessUsage, ReportedUsage, TokenUsage, UsageConfidence, UsageTotals};

/// Occasion on which the agent's own records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordsScope {
    /// During the work, after output of the agent: usage that the lines do not report.
    SoFar,
    /// While the agent prints nothing, because a tool works that may use tokens itself.
    Meanwhile,
    /// After the end of the process: all records.
    Whole,
}

/// Usage records of a session.
#[derive(Debug, Default)]
pub struct AgentRecords {
    /// Usage by message, in the order written. A message may occur twice.
    pub messages: Vec<RecordedMessage>,
    /// Usage of sub-agents, where it is recorded apart.
    pub sub_agents: Vec<RecordedMessage>,
    /// Sum that the agent itself has written, where it did. It may include usage that no message reports.
    pub total: Option<UsageTotals>,
    /// Usage of the session before this process, where recorded.
    pub before: TokenUsage,
    /// The agent has shortened its conversation since the last reading.
    pub compacted: bool,
    /// More was used than recorded here: some request has no answer, or not everything was read.
    pub incomplete: bool,
    /// The last request of a conversation has no answer, or not everything was read. Unlike in `incomplete`, an earlier request without an answer does
    /// not count, because it may have been repeated.
    pub ends_open: bool,
}

/// Usage of one message of a model.
#[derive(Debug)]
pub struct RecordedMessage {
    /// The id that the message also has in the agent's output.
    pub id: String,
    /// The model that wrote the message; empty if the file does not name it.
    pub model: String,
    /// Billed usage.
    pub billed: Billed,
    /// How far `billed` can be trusted.
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

    /// Notes that there are more records, which cannot be read.
    pub fn cut_short(&mut self) {
        (self.incomplete, self.ends_open) = (true, true);
    }

    /// Adds the recorded usage to the usage that the process reported.
    pub fn apply_to(self, usage: &mut ProcessUsage) {
        for message in self.messages.into_iter().chain(self.sub_agents) {
            // Only the totals are needed, not the increase that is returned.
            let _ = usage.message(&message.id, &message.model, message.billed, message.word);
        }
        if let Some(total) = self.total
            && total.cost > usage.totals().cost
        {
            usage.result(ReportedUsage::SinceProcessStart(total));
        }
    }
}

/// Reader of one file in which an agent records a session. The file may grow while it is read.
pub trait SessionLines: Debug + Send {
    /// Reads one line; a line that is not understood is ignored.
    fn line(&mut self, line: &str);

    /// Notes that the file has more lines, which are not read.
    fn cut_short(&mut self);

    /// Whether the lines read so far belong to the wanted session.
    fn is_of_session(&self) -> bool;

    /// Returns the usage read since the last call.
    fn take(&mut self) -> AgentRecords;
}

/// Returns whether a line contains one of these words. Most lines of a session file hold messages and are long, so they are not parsed.
pub(super) fn has_word(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}
