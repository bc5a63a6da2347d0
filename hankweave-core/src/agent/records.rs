//! Usage records that an agent writes itself, common to all agents.

use crate::cost::{Billed, ProcessUsage, ReportedUsage, TokenUsage, UsageConfidence, UsageTotals};

/// How much an agent's own records are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordsScope {
    /// While it works, what its lines do not tell.
    SoFar,
    /// After the end, everything.
    Whole,
}

/// Usage records of a session. A driver finds and reads them; a decoder counts them.
#[derive(Debug, Default)]
pub struct AgentRecords {
    /// Usage by message, in the order written. A message may occur twice.
    pub messages: Vec<RecordedMessage>,
    /// The sum that the agent itself has written down, which may know what no message tells.
    pub total: Option<UsageTotals>,
    /// Usage of the session before this process, where recorded.
    pub before: TokenUsage,
    /// The agent has shortened its conversation since this was read last.
    pub compacted: bool,
    /// More was used than this: a request has no answer yet, or not everything was read.
    pub incomplete: bool,
    /// A conversation ends with a request without an answer, or not everything was read. Unlike `incomplete` it says nothing of a request that was made again.
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
    /// Adds what was read to what the process itself told.
    pub fn settle(self, usage: &mut ProcessUsage) {
        for message in self.messages {
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
