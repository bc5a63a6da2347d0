//! Usage of one claude process, and whether it is complete (AGENT-7, AGENT-8).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::line::{Message, ModelsSum, StreamLine, Usage};
use crate::records::AgentRecords;
use hankweave_core::agent::{AgentEvent, MessageUsage};
use hankweave_core::cost::pricing::{Prices, model_of_alias};
use hankweave_core::cost::{
    Billed, ProcessUsage, ReportedUsage, TokenUsage, UsageConfidence, UsageTotals, Usd,
};

/// Counter of the usage that the lines of one process report.
#[derive(Debug)]
pub(super) struct ClaudeUsage {
    resumed: bool,
    /// Cost of the earlier processes of the session, where known.
    carried: Option<Usd>,
    counted: ProcessUsage,
    /// The model that the main conversation asks for.
    asked: Option<String>,
    /// The program is claude itself. It reports a request before it sends it. The money that its results state for a model without a price is a
    /// guess, unless the model is its own.
    is_claude: bool,
    /// Requests are reported before they are sent.
    tells_requests: bool,
    /// Messages without an id so far.
    unnamed: u64,
    /// A request was sent, and its answer has not begun.
    asking: bool,
    /// A request lost its connection, or was broken off, before the start of its answer was reported. Its cost is unknown.
    given_up: bool,
    /// A conversation was summed up. Only a result reports the cost of that.
    summed_up: bool,
    /// A sub-agent has begun an answer, so that the one before it is in its transcript.
    helped: bool,
    /// The last result has a number of tokens, and it is 0.
    stated_nothing: bool,
}

impl ClaudeUsage {
    /// Of a process that continues with an earlier session, if it is `resumed`.
    pub(super) fn new(resumed: bool) -> Self {
        Self {
            resumed,
            carried: None,
            counted: ProcessUsage::default(),
            asked: None,
            is_claude: true,
            tells_requests: false,
            unnamed: 0,
            asking: false,
            given_up: false,
            summed_up: false,
            helped: false,
            stated_nothing: false,
        }
    }

    pub(super) fn price_by(&mut self, prices: Arc<Prices>) {
        self.counted = ProcessUsage::priced_by(prices);
    }

    pub(super) fn is_of_another_program(&mut self) {
        self.is_claude = false;
    }

    /// Sets the model that the process is started with, or that it names itself.
    pub(super) fn asks_for(&mut self, model: &str) {
        self.asked = Some(model.to_owned());
    }

    /// Returns whether a request may be open that no line has reported.
    pub(super) fn may_ask_untold(&self) -> bool {
        !self.is_claude && !self.tells_requests
    }

    /// The name under which a model counts. A gateway may answer under the name of another model; its price is that of the one that was asked for.
    fn counted_as<'m>(&'m self, model: &'m str, parent: Option<&str>) -> &'m str {
        let prices = self.counted.prices();
        let asked = self.asked.as_deref();
        let asked = asked.filter(|_| parent.is_none() && !is_of_claude(model));
        match asked {
            Some(asked) if prices.find(model).is_none() && prices.find(asked).is_some() => asked,
            Some(_) | None => model,
        }
    }

    /// Returns the model of an alias if the program is not claude: another program may report only the alias.
    fn resolved<'m>(&self, model: &'m str) -> &'m str {
        model_of_alias(model).filter(|_| !self.is_claude).unwrap_or(model)
    }

    /// Sets the cost of the earlier processes of the session.
    pub(super) fn add_earlier_cost(&mut self, cost: Usd) {
        self.carried = Some(cost);
    }

    pub(super) fn totals(&self) -> UsageTotals {
        let mut totals = self.counted.totals();
        totals.lower_bound = self.is_lower_bound();
        totals
    }

    /// Returns whether the process itself reports that it used nothing, as it does after a prompt that it took for a command of its own.
    pub(super) fn states_nothing(&self) -> bool {
        self.stated_nothing
    }

    fn is_lower_bound(&self) -> bool {
        self.asking || self.given_up || self.summed_up || self.counted.is_lower_bound()
    }

    /// Returns whether transcripts report more of sub-agents than the stream did.
    pub(super) fn is_helped(&self) -> bool {
        self.helped
    }

    /// Reads a line that announces the next action of the program.
    pub(super) fn status(&mut self, status: Option<&str>) {
        self.asking |= status == Some("requesting");
        self.tells_requests |= self.asking;
        self.summed_up |= status == Some("compacting");
    }

    /// A lost connection may have carried half an answer; a server that answers with a status has served nothing.
    pub(super) fn retries_after(&mut self, status: Option<u16>) {
        self.given_up |= status.is_none();
    }

    /// Notes the start of an answer that comes in chunks.
    pub(super) fn message_started(&mut self, parent: Option<&str>) {
        self.asking &= parent.is_some();
    }

    /// A message, or a block of one. A program may leave out its id, and its model when it is the one that it was started with.
    pub(super) fn message_reported(
        &mut self,
        message: Message<'_>,
        parent: Option<&str>,
    ) -> Option<AgentEvent> {
        let usage = message.usage.0?;
        let model = message.model.into_owned().or_else(|| self.asked.clone())?;
        let id = message.id.into_owned().unwrap_or_else(|| self.next_unnamed());
        let word = match message.stop_reason.0 {
            Some(_) => UsageConfidence::Final,
            None => UsageConfidence::Rough,
        };
        let billed = usage.billed();
        // An answer that comes whole is asked for when the one that was to come in pieces has broken off.
        let whole = parent.is_none() && word == UsageConfidence::Final && !billed.is_nothing();
        self.given_up |= self.asking && whole;
        self.asking &= !whole;
        self.message(&id, &model, billed, word, parent)
    }

    fn next_unnamed(&mut self) -> String {
        self.unnamed += 1;
        format!("unnamed-{}", self.unnamed)
    }

    /// Counts the usage of a message. Every line of the message repeats it, so only the increase counts.
    pub(super) fn message(
        &mut self,
        id: &str,
        model: &str,
        billed: Billed,
        word: UsageConfidence,
        parent: Option<&str>,
    ) -> Option<AgentEvent> {
        let model = self.resolved(self.counted_as(model, parent)).to_owned();
        let counted = self.counted.message(id, &model, billed, word)?;
        self.helped |= counted.is_new && parent.is_some() && word == UsageConfidence::Rough;
        // Claude knows the prices of its own models, also of those newer than the list, and reports the money at its end.
        let is_unpriced =
            self.is_claude && !is_of_claude(&model) && self.counted.prices().find(&model).is_none();
        Some(AgentEvent::Usage(MessageUsage {
            message_id: id.to_owned(),
            model,
            usage: counted.usage,
            added: counted.added,
            is_new: counted.is_new,
            is_lower_bound: self.is_lower_bound(),
            is_unpriced,
            is_sum: false,
            parent_tool_use_id: parent.map(str::to_owned),
        }))
    }

    /// Counts a result; `lost` means that a request was broken off before it.
    pub(super) fn result(&mut self, line: &mut StreamLine<'_>, lost: bool) {
        self.stated_nothing = line.usage.0.as_ref().is_some_and(Usage::states_nothing);
        let reported = self.reported(line);
        self.counted.result(reported);
        self.given_up |= self.asking && lost;
        (self.asking, self.summed_up, self.helped) = (false, false, false);
    }

    /// Returns the best statement of a result line about this process alone. For a resumed session, `total_cost_usd` and `modelUsage` contain
    /// earlier processes, and not even reliably. So only the increase counts (AGENT-7).
    fn reported(&self, line: &mut StreamLine<'_>) -> ReportedUsage {
        let prices = self.counted.prices();
        let stated = line
            .total_cost_usd
            .0
            .and_then(|dollars| Usd::from_dollars(dollars).ok());
        // Models without a price of their own are in the sum, if that has no other prices.
        let whole = |sum: &ModelsSum| !sum.totals.lower_bound || sum.is_repriced || stated.is_none();
        let since_last = std::mem::take(&mut line.model_usage_since_last_result);
        if let Some(sum) = since_last.sum(prices).filter(whole) {
            return ReportedUsage::SinceLastResult(sum.totals);
        }
        let since_start = std::mem::take(&mut line.model_usage);
        if let Some(sum) = since_start.sum(prices).filter(|_| !self.resumed).filter(whole) {
            return ReportedUsage::SinceProcessStart(sum.totals);
        }
        let billed = line.usage.0.as_ref().map(Usage::billed).unwrap_or_default();
        let Some(model) = self.asked.as_deref().map(|asked| self.resolved(asked).to_owned()) else {
            return ReportedUsage::Nothing;
        };
        let is_given = !billed.is_nothing() && prices.given_for(&model).is_some();
        let stated = stated.filter(|_| !is_given);
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

    /// Returns this process's share of a stated sum. A continued session states the sum of all its processes, except killed ones, so
    /// it is no less than the tokens are worth.
    fn own_share(&self, stated: Usd, model: &str, billed: &Billed) -> Option<Usd> {
        if !self.resumed {
            return Some(stated);
        }
        let own = stated.saturating_sub(self.carried?);
        Some(own.max(billed.price(model, self.counted.prices()).unwrap_or(Usd::ZERO)))
    }

    /// Adds the usage of sub-agents from the transcripts.
    pub(super) fn recall_helpers(&mut self, recorded: Option<AgentRecords>, events: &mut Vec<AgentEvent>) {
        let messages = recorded.into_iter().flat_map(|recorded| recorded.sub_agents);
        for message in messages.filter(|message| message.word == UsageConfidence::Final) {
            // The events need no more than a mark that a sub-agent wrote the message.
            let parent = Some("sub-agent");
            let (id, model) = (&message.id, &message.model);
            events.extend(self.message(id, model, message.billed, message.word, parent));
        }
        self.helped = false;
    }

    /// Adds what the transcripts have beyond the results. A result leaves out the answers of sub-agents that were being written, and what ended after the
    /// last one no result states. Results also hold what no transcript has, so what is found missing is not all for sure.
    pub(super) fn recall_rest(&mut self, recorded: AgentRecords) {
        let prices = Arc::clone(self.counted.shared_prices());
        let mut all = ProcessUsage::priced_by(Arc::clone(&prices));
        for message in recorded.messages.iter().chain(&recorded.sub_agents) {
            // What a message adds is in the totals.
            let _ = all.message(&message.id, &message.model, message.billed, message.word);
        }
        self.given_up |= recorded.ends_open || all.is_open();
        if let Some(total) = recorded.total
            && total.cost > self.counted.totals().cost
        {
            self.given_up = true;
            self.counted.result(ReportedUsage::SinceProcessStart(total));
        }
        for (model, tokens) in missing(&all.totals(), &self.counted.totals(), &prices) {
            self.given_up = true;
            let id = format!("missing of {model}");
            let _ = self
                .counted
                .message(&id, &model, tokens.into(), UsageConfidence::Final);
        }
    }

    /// Adds all usage from the transcripts.
    pub(super) fn recall_all(&mut self, recorded: AgentRecords) {
        self.asking |= recorded.incomplete;
        recorded.apply_to(&mut self.counted);
    }
}

fn is_of_claude(model: &str) -> bool {
    model.contains("claude-")
}

/// The tokens of each model of `all` that `counted` does not have. A model that has two names, such as that of a gateway, is compared with what is left of
/// the other names.
fn missing(all: &UsageTotals, counted: &UsageTotals, prices: &Prices) -> Vec<(String, TokenUsage)> {
    let family = |model: &str| prices.find(model).map_or(model, |(family, _)| family).to_owned();
    let mut left: BTreeMap<String, TokenUsage> = BTreeMap::new();
    for (model, usage) in &counted.models {
        *left.entry(family(model)).or_default() += usage.tokens;
    }
    let (mut more, mut unnamed) = (Vec::new(), Vec::new());
    for (model, usage) in &all.models {
        match left.remove(&family(model)) {
            Some(counted) => more.push((model.clone(), usage.tokens.at_least(counted) - counted)),
            None => unnamed.push((model.clone(), usage.tokens)),
        }
    }
    let mut left: TokenUsage = left.into_values().sum();
    for (model, tokens) in unnamed {
        more.push((model, tokens.at_least(left) - left));
        left = left.at_least(tokens) - tokens;
    }
    more.retain(|(_, tokens)| *tokens != TokenUsage::ZERO);
    more
}
