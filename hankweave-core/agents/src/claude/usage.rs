//! Usage of one claude process, and whether it is complete (AGENT-7, AGENT-8).
//!
//! While the process works, its messages are counted. A result corrects the sum, and the transcripts, read last, add what the results leave out.

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
    /// The process continues an earlier session.
    resumed: bool,
    /// Cost of the earlier processes of the session, where known.
    carried: Option<Usd>,
    counted: ProcessUsage,
    /// The model that the main conversation asks for.
    main_model: Option<String>,
    /// The program is claude itself, not a compatible one. Claude reports a request before it sends it, and the cost that it states for a model other
    /// than its own may be a guess.
    is_claude: bool,
    /// The program has reported a request before sending it.
    reports_requests: bool,
    /// Number of messages without an id so far.
    unnamed: u64,
    /// A request of the main conversation was sent, and its answer has not begun.
    request_open: bool,
    /// Some usage is unknown for good: a request lost its connection or was broken off before its answer was reported, or the results were incomplete.
    misses_cost: bool,
    /// A conversation was summed up. Only the next result reports the cost of that.
    has_compacted: bool,
    /// A sub-agent has begun an answer, so its earlier answers are in its transcript and can be read.
    sub_agent_answered: bool,
    /// The last result states its tokens, and all are 0.
    stated_nothing: bool,
}

impl ClaudeUsage {
    /// Returns an empty counter. `resumed` means that the process continues an earlier session.
    pub(super) fn new(resumed: bool) -> Self {
        Self {
            resumed,
            carried: None,
            counted: ProcessUsage::default(),
            main_model: None,
            is_claude: true,
            reports_requests: false,
            unnamed: 0,
            request_open: false,
            misses_cost: false,
            has_compacted: false,
            sub_agent_answered: false,
            stated_nothing: false,
        }
    }

    pub(super) fn price_by(&mut self, prices: Arc<Prices>) {
        self.counted = ProcessUsage::priced_by(prices);
    }

    pub(super) fn set_other_program(&mut self) {
        self.is_claude = false;
    }

    /// Sets the model that the process is started with, or that it names itself.
    pub(super) fn set_model(&mut self, model: &str) {
        self.main_model = Some(model.to_owned());
    }

    /// Returns whether the program may have sent a request that no line has reported.
    pub(super) fn may_ask_unreported(&self) -> bool {
        !self.is_claude && !self.reports_requests
    }

    /// Returns the name under which a model counts. A gateway may answer under a name without a price; the model that was asked for counts then.
    fn counted_as<'m>(&'m self, model: &'m str, parent: Option<&str>) -> &'m str {
        let prices = self.counted.prices();
        let asked = self.main_model.as_deref();
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

    /// Returns whether the last result states that nothing was used, as it does after a prompt that claude took for one of its own commands.
    pub(super) fn states_nothing(&self) -> bool {
        self.stated_nothing
    }

    fn is_lower_bound(&self) -> bool {
        self.request_open || self.misses_cost || self.has_compacted || self.counted.is_lower_bound()
    }

    /// Returns whether the transcripts of sub-agents have answers that are not counted yet.
    pub(super) fn has_sub_agent_news(&self) -> bool {
        self.sub_agent_answered
    }

    /// Handles a line that announces the next action of the program.
    pub(super) fn handle_status(&mut self, status: Option<&str>) {
        self.request_open |= status == Some("requesting");
        self.reports_requests |= self.request_open;
        self.has_compacted |= status == Some("compacting");
    }

    /// Notes that the program retries a request. A lost connection may have carried half an answer; a server that answered with an error `status` has
    /// served nothing.
    pub(super) fn retries_after(&mut self, status: Option<u16>) {
        self.misses_cost |= status.is_none();
    }

    /// Notes the start of an answer that comes in chunks.
    pub(super) fn message_started(&mut self, parent: Option<&str>) {
        self.request_open &= parent.is_some();
    }

    /// Counts a message, or a block of one. A program may leave out the id, and the model if it is the one of the main conversation.
    pub(super) fn message_reported(
        &mut self,
        message: Message<'_>,
        parent: Option<&str>,
    ) -> Option<AgentEvent> {
        let usage = message.usage.0?;
        let model = message.model.into_owned().or_else(|| self.main_model.clone())?;
        let id = message.id.into_owned().unwrap_or_else(|| self.next_unnamed());
        let confidence = match message.stop_reason.0 {
            Some(_) => UsageConfidence::Final,
            None => UsageConfidence::Rough,
        };
        let billed = usage.billed();
        // After an answer in chunks broke off, claude asks again, and gets the answer in a single line. The cost of the one that broke off is unknown.
        let whole = parent.is_none() && confidence == UsageConfidence::Final && !billed.is_nothing();
        self.misses_cost |= self.request_open && whole;
        self.request_open &= !whole;
        self.message(&id, &model, billed, confidence, parent)
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
        confidence: UsageConfidence,
        parent: Option<&str>,
    ) -> Option<AgentEvent> {
        let model = self.resolved(self.counted_as(model, parent)).to_owned();
        let counted = self.counted.message(id, &model, billed, confidence)?;
        self.sub_agent_answered |= counted.is_new && parent.is_some() && confidence == UsageConfidence::Rough;
        // Claude knows the prices of its own models, also of those newer than our list, and reports the cost at its end.
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

    /// Counts a result; `lost` means that a request was broken off before the result.
    pub(super) fn result(&mut self, line: &mut StreamLine<'_>, lost: bool) {
        self.stated_nothing = line.usage.0.as_ref().is_some_and(Usage::states_nothing);
        let reported = self.usage_of_result(line);
        self.counted.result(reported);
        self.misses_cost |= self.request_open && lost;
        (self.request_open, self.has_compacted, self.sub_agent_answered) = (false, false, false);
    }

    /// Returns the best statement of a result line about this process alone. For a resumed session, `total_cost_usd` and `modelUsage` contain
    /// earlier processes, and not even reliably. So only the increase counts (AGENT-7).
    fn usage_of_result(&self, line: &mut StreamLine<'_>) -> ReportedUsage {
        let prices = self.counted.prices();
        let stated = line
            .total_cost_usd
            .0
            .and_then(|dollars| Usd::from_dollars(dollars).ok());
        // If a sum lacks a price, the stated total is better, unless it was made with other prices than ours.
        let is_best = |sum: &ModelsSum| !sum.totals.lower_bound || sum.is_repriced || stated.is_none();
        let since_last = std::mem::take(&mut line.model_usage_since_last_result);
        if let Some(sum) = since_last.sum(prices).filter(is_best) {
            return ReportedUsage::SinceLastResult(sum.totals);
        }
        let since_start = std::mem::take(&mut line.model_usage);
        if let Some(sum) = since_start.sum(prices).filter(|_| !self.resumed).filter(is_best) {
            return ReportedUsage::SinceProcessStart(sum.totals);
        }
        let billed = line.usage.0.as_ref().map(Usage::billed).unwrap_or_default();
        let Some(model) = self
            .main_model
            .as_deref()
            .map(|asked| self.resolved(asked).to_owned())
        else {
            return ReportedUsage::Nothing;
        };
        let has_user_price = !billed.is_nothing() && prices.given_for(&model).is_some();
        let stated = stated.filter(|_| !has_user_price);
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
        self.sub_agent_answered = false;
    }

    /// Adds the usage that the transcripts have and the results lack. A result leaves out the answers of sub-agents that were being written, and no result
    /// has usage after the last one. Results also have usage that no transcript has, so the difference may be too small: any gap leaves a lower bound.
    pub(super) fn recall_rest(&mut self, recorded: AgentRecords) {
        let prices = Arc::clone(self.counted.shared_prices());
        let mut all = ProcessUsage::priced_by(Arc::clone(&prices));
        for message in recorded.messages.iter().chain(&recorded.sub_agents) {
            // Only the totals are needed, not the increase that is returned.
            let _ = all.message(&message.id, &message.model, message.billed, message.word);
        }
        self.misses_cost |= recorded.ends_open || all.is_open();
        if let Some(total) = recorded.total
            && total.cost > self.counted.totals().cost
        {
            self.misses_cost = true;
            self.counted.result(ReportedUsage::SinceProcessStart(total));
        }
        for (model, tokens) in missing(&all.totals(), &self.counted.totals(), &prices) {
            self.misses_cost = true;
            let id = format!("missing of {model}");
            let _ = self
                .counted
                .message(&id, &model, tokens.into(), UsageConfidence::Final);
        }
    }

    /// Adds all usage from the transcripts.
    pub(super) fn recall_all(&mut self, recorded: AgentRecords) {
        self.request_open |= recorded.incomplete;
        recorded.apply_to(&mut self.counted);
    }
}

fn is_of_claude(model: &str) -> bool {
    model.contains("claude-")
}

/// Returns the tokens of each model in `all` that `counted` lacks. A model that `counted` has under another name, such as that of a gateway, is compared
/// with the tokens of all names that are left over.
fn missing(all: &UsageTotals, counted: &UsageTotals, prices: &Prices) -> Vec<(String, TokenUsage)> {
    // The name in the price list, which is shared by the versions of a model.
    let family = |model: &str| prices.find(model).map_or(model, |(family, _)| family).to_owned();
    let mut left: BTreeMap<String, TokenUsage> = BTreeMap::new();
    for (model, usage) in &counted.models {
        *left.entry(family(model)).or_default() += usage.tokens;
    }
    let (mut missing, mut unmatched) = (Vec::new(), Vec::new());
    for (model, usage) in &all.models {
        match left.remove(&family(model)) {
            Some(counted) => missing.push((model.clone(), usage.tokens.at_least(counted) - counted)),
            None => unmatched.push((model.clone(), usage.tokens)),
        }
    }
    let mut left: TokenUsage = left.into_values().sum();
    for (model, tokens) in unmatched {
        missing.push((model, tokens.at_least(left) - left));
        left = left.at_least(tokens) - tokens;
    }
    missing.retain(|(_, tokens)| *tokens != TokenUsage::ZERO);
    missing
}
