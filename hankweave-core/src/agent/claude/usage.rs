//! What one claude process used, and whether that is all (AGENT-7, AGENT-8).

use std::sync::Arc;

use super::line::{Message, StreamLine, Usage};
use crate::agent::event::{AgentEvent, MessageUsage};
use crate::agent::records::Recorded;
use crate::cost::pricing::Prices;
use crate::cost::{Billed, ProcessUsage, ReportedUsage, Statement, UsageTotals, Usd};

/// Counts what the lines of one process tell of usage.
#[derive(Debug)]
pub(super) struct ClaudeUsage {
    resumed: bool,
    /// What the earlier processes of the session cost, where that is known.
    carried: Option<Usd>,
    counted: ProcessUsage,
    /// A request was sent, and its answer has not begun.
    asking: bool,
    /// The connection of a request was lost, or the request was broken off, before the beginning of its answer was told; what it cost nobody tells.
    given_up: bool,
    /// A conversation was summed up, which costs and is told by a result only.
    summed_up: bool,
    /// A sub-agent has begun an answer, so that the one before it is in its transcript.
    helped: bool,
}

impl ClaudeUsage {
    /// Of a process that goes on with an earlier session, if it is `resumed`.
    pub(super) fn new(resumed: bool) -> Self {
        Self {
            resumed,
            carried: None,
            counted: ProcessUsage::default(),
            asking: false,
            given_up: false,
            summed_up: false,
            helped: false,
        }
    }

    pub(super) fn price_by(&mut self, prices: Arc<Prices>) {
        self.counted = ProcessUsage::priced_by(prices);
    }

    /// What the earlier processes of the session cost.
    pub(super) fn carry(&mut self, cost: Usd) {
        self.carried = Some(cost);
    }

    pub(super) fn totals(&self) -> UsageTotals {
        let mut totals = self.counted.totals();
        totals.lower_bound = self.is_lower_bound();
        totals
    }

    fn is_lower_bound(&self) -> bool {
        self.asking || self.given_up || self.summed_up || self.counted.is_lower_bound()
    }

    /// Whether transcripts tell more of sub-agents than the stream did.
    pub(super) fn is_helped(&self) -> bool {
        self.helped
    }

    /// A line that says what the program is about to do.
    pub(super) fn status(&mut self, status: Option<&str>) {
        self.asking |= status == Some("requesting");
        self.summed_up |= status == Some("compacting");
    }

    /// A connection that is lost may have carried half an answer; whoever answers with a status serves nothing.
    pub(super) fn retries_after(&mut self, status: Option<u16>) {
        self.given_up |= status.is_none();
    }

    /// An answer begins to come in pieces.
    pub(super) fn begun(&mut self, parent: Option<&str>) {
        self.asking &= parent.is_some();
    }

    /// A message, or a block of one.
    pub(super) fn told(&mut self, message: Message<'_>, parent: Option<&str>) -> Option<AgentEvent> {
        let (id, model, usage) = (message.id.0?, message.model.0?, message.usage.0?);
        let word = match message.stop_reason.0 {
            Some(_) => Statement::Final,
            None => Statement::Rough,
        };
        let billed = usage.billed();
        // An answer that comes whole is asked for when the one that was to come in pieces has broken off.
        let whole = parent.is_none() && word == Statement::Final && !billed.is_nothing();
        self.given_up |= self.asking && whole;
        self.asking &= !whole;
        self.message(&id, &model, billed, word, parent)
    }

    /// Usage stands on every line of a message, so only what is new of it counts.
    pub(super) fn message(
        &mut self,
        id: &str,
        model: &str,
        billed: Billed,
        word: Statement,
        parent: Option<&str>,
    ) -> Option<AgentEvent> {
        let counted = self.counted.message(id, model, billed, word)?;
        self.helped |= counted.is_new && parent.is_some() && word == Statement::Rough;
        Some(AgentEvent::Usage(MessageUsage {
            message_id: id.to_owned(),
            model: model.to_owned(),
            usage: counted.usage,
            added: counted.added,
            is_new: counted.is_new,
            is_lower_bound: self.is_lower_bound(),
            parent_tool_use_id: parent.map(str::to_owned),
        }))
    }

    /// A result; `lost` says that a request was broken off before it.
    pub(super) fn result(&mut self, line: &mut StreamLine<'_>, model: Option<&str>, lost: bool) {
        let reported = self.reported(line, model);
        self.counted.result(reported);
        self.given_up |= self.asking && lost;
        (self.asking, self.summed_up, self.helped) = (false, false, false);
    }

    /// The best statement of a result line about this process alone. `total_cost_usd` and `modelUsage` of a resumed
    /// session contain earlier processes, and not even reliably, so of such a session only what was added counts (AGENT-7).
    fn reported(&self, line: &mut StreamLine<'_>, model: Option<&str>) -> ReportedUsage {
        let prices = self.counted.prices();
        let stated = line
            .total_cost_usd
            .0
            .and_then(|dollars| Usd::from_dollars(dollars).ok());
        // Models without a price of their own are in the sum.
        let whole = |totals: &UsageTotals| !totals.lower_bound || stated.is_none();
        let since_last = std::mem::take(&mut line.model_usage_since_last_result);
        if let Some(totals) = since_last.totals(prices).filter(whole) {
            return ReportedUsage::SinceLastResult(totals);
        }
        let since_start = std::mem::take(&mut line.model_usage);
        if let Some(totals) = since_start.totals(prices).filter(|_| !self.resumed).filter(whole) {
            return ReportedUsage::SinceProcessStart(totals);
        }
        let billed = line.usage.0.as_ref().map(Usage::billed).unwrap_or_default();
        let Some(model) = model.map(str::to_owned) else {
            return ReportedUsage::Nothing;
        };
        match stated.and_then(|stated| self.own_share(stated, &model, &billed)) {
            Some(cost) if cost > Usd::ZERO || billed.is_nothing() => ReportedUsage::Money {
                model,
                tokens: billed.tokens,
                cost,
            },
            _ if billed.is_nothing() => ReportedUsage::Nothing,
            _ => ReportedUsage::Tokens { model, billed },
        }
    }

    /// What of a stated sum this process cost. A session that goes on states the sum of all its processes, but not of one that was killed, so
    /// it is no less than the tokens are worth.
    fn own_share(&self, stated: Usd, model: &str, billed: &Billed) -> Option<Usd> {
        if !self.resumed {
            return Some(stated);
        }
        let own = stated.saturating_sub(self.carried?);
        Some(own.max(billed.price(model, self.counted.prices()).unwrap_or(Usd::ZERO)))
    }

    /// Adds what the transcripts tell of sub-agents.
    pub(super) fn recall_helpers(&mut self, recorded: Option<Recorded>, events: &mut Vec<AgentEvent>) {
        let messages = recorded.into_iter().flat_map(|recorded| recorded.messages);
        for message in messages.filter(|message| message.word == Statement::Final) {
            // Which of them it was does not matter to anybody.
            let parent = Some("sub-agent");
            let (id, model) = (&message.id, &message.model);
            events.extend(self.message(id, model, message.billed, message.word, parent));
        }
        self.helped = false;
    }

    /// Adds all that the transcripts tell.
    pub(super) fn recall_all(&mut self, recorded: Recorded) {
        self.asking |= recorded.incomplete;
        recorded.settle(&mut self.counted);
    }
}
