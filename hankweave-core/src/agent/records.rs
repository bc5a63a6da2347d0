//! What an agent has written down itself of what its session has used, whoever the agent.

use crate::cost::{Billed, ProcessUsage, ReportedUsage, Statement, TokenUsage, UsageTotals};

/// How much an agent's own records are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// While it works, what its lines do not tell.
    SoFar,
    /// After the end, everything.
    Whole,
}

/// What the records of a session say. A driver finds and reads them; a decoder counts them.
#[derive(Debug, Default)]
pub struct Recorded {
    /// What messages have used, in the order in which it was written down. A message may stand there twice.
    pub messages: Vec<RecordedMessage>,
    /// The sum that the agent itself has written down, which may know what no message tells.
    pub total: Option<UsageTotals>,
    /// What the session had used before this process, where that is written down.
    pub before: TokenUsage,
    /// The agent has shortened its conversation since this was read last.
    pub compacted: bool,
    /// More was used than this: a request has no answer yet, or not everything was read.
    pub incomplete: bool,
    /// A conversation ends with a request without an answer, or not everything was read. Unlike `incomplete` it says nothing of a request that was made again.
    pub ends_open: bool,
}

/// What one message of a model has used.
#[derive(Debug)]
pub struct RecordedMessage {
    /// The id that the message also has in the agent's output.
    pub id: String,
    /// The model that wrote it.
    pub model: String,
    /// What it has used.
    pub billed: Billed,
    /// How far that can be trusted.
    pub word: Statement,
}

impl Recorded {
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
