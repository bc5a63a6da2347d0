//! The ledger of attempts: agents may report usage twice, leave it open or repeat it from earlier processes. The usage of a message still counts
//! once, in its codon, in its run and in all runs (AGENT-31).

use std::collections::{BTreeMap, VecDeque};

use hankweave_agents::{
    AgentDecoder, AgentLine, AgentRecords, ClaudeDecoder, CodexDecoder, PiDecoder, ProcessEnd,
    RecordedMessage, RecordsScope,
};
use hankweave_core::agent::{AgentEvent, EndedBy, ProcessExit};
use hankweave_core::codon::CodonStatus;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{Billed, TokenUsage, UsageConfidence, UsageTotals, Usd};
use hankweave_core::event::StateEvent;
use hankweave_core::testing::{Ending, Story};
use proptest::prelude::*;
use serde_json::{Value, json};

const MODELS: [&str; 2] = ["claude-sonnet-4-5", "claude-opus-4-5"];

/// What one message of a model used, and what its lines are like.
#[derive(Debug, Clone)]
struct Message {
    used: [u64; 4],
    model: usize,
    /// The sub-agent that wrote it; 0 is the main conversation.
    by: usize,
    /// How often its lines come once more.
    doubled: u8,
}

/// How one process of an agent ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Success,
    Failure,
    /// Before its last line; `true` in the middle of its last message.
    Killed(bool),
}

/// One process: an attempt at a codon.
#[derive(Debug, Clone)]
struct Try {
    messages: Vec<Message>,
    end: End,
    /// In the session of the attempt before.
    resumed: bool,
    skipped: bool,
    /// What the sentinels of the codon cost, in microdollars.
    sentinels: u64,
    /// The user rolls back to a point after it.
    rolled_back: bool,
}

fn message() -> impl Strategy<Value = Message> {
    (
        [1..5_000_u64, 2..900, 0..400, 0..9_000],
        0..2_usize,
        0..3_usize,
        0..3_u8,
    )
        .prop_map(|(used, model, by, doubled)| Message {
            used,
            model,
            by,
            doubled,
        })
}

fn tries() -> impl Strategy<Value = Vec<Try>> {
    let end = prop_oneof![
        3 => Just(End::Success),
        1 => Just(End::Failure),
        1 => any::<bool>().prop_map(End::Killed),
    ];
    let some = (
        prop::collection::vec(message(), 1..8),
        end,
        any::<bool>(),
        prop::bool::weighted(0.2),
        0..3_u64,
        prop::bool::weighted(0.2),
    );
    let one = some.prop_map(|(messages, end, resumed, skipped, sentinels, rolled_back)| Try {
        messages,
        end,
        resumed,
        skipped,
        sentinels,
        rolled_back,
    });
    prop::collection::vec(one, 1..6)
}

impl Message {
    fn billed(&self) -> Billed {
        let [
            input_tokens,
            output_tokens,
            cache_creation_tokens,
            cache_read_tokens,
        ] = self.used;
        Billed::from(TokenUsage {
            input_tokens,
            output_tokens,
            cache_creation_tokens,
            cache_read_tokens,
        })
    }

    /// Returns the message with the usage that is known when it begins.
    fn begun(&self) -> Self {
        let [input, _, written, read] = self.used;
        Self {
            used: [input, 1, written, read],
            ..self.clone()
        }
    }

    fn price(&self) -> Usd {
        self.billed()
            .price(MODELS[self.model], &Prices::listed())
            .unwrap()
    }
}

/// What a process used, by the id of the message.
type Ledger = BTreeMap<String, Message>;

fn sum(ledger: &Ledger) -> (Usd, TokenUsage) {
    let messages = ledger.values();
    (
        messages.clone().map(Message::price).sum(),
        messages.map(|message| message.billed().tokens).sum(),
    )
}

/// Whose lines are played.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Agent {
    Claude,
    Codex,
    Pi,
}

/// What was played of one process.
struct Played {
    ledger: Ledger,
    events: Vec<AgentEvent>,
    usage: UsageTotals,
}

/// Everything that the processes of a session used before.
#[derive(Default)]
struct Before {
    cost: Usd,
    tokens: TokenUsage,
}

fn play(agent: Agent, number: usize, this: &Try, before: &Before) -> Played {
    let mut ledger = Ledger::new();
    let last = this.messages.len() - 1;
    let cut = |index| this.end == End::Killed(true) && index == last;
    for (index, message) in this.messages.iter().enumerate() {
        let id = format!("m-{number}-{index}");
        // Of an answer that was cut off, codex has written down nothing.
        match (cut(index), agent) {
            (true, Agent::Codex) => {}
            (true, _) => drop(ledger.insert(id, message.begun())),
            (false, _) => drop(ledger.insert(id, message.clone())),
        }
    }
    let (mut decoder, lines): (Box<dyn AgentDecoder>, Vec<Value>) = match agent {
        Agent::Claude => (
            Box::new(ClaudeDecoder::new(this.resumed).carrying(before.cost)),
            claude(number, this, &ledger, before),
        ),
        Agent::Codex => (
            Box::new(CodexDecoder::new(this.resumed)),
            codex(this, &ledger, before),
        ),
        Agent::Pi => (Box::new(PiDecoder::default()), pi(number, this)),
    };
    let mut events = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        decoder.decode(AgentLine::Text(&line.to_string()), &mut events);
        if agent == Agent::Codex && index % 3 == 2 {
            decoder.recall(
                RecordsScope::SoFar,
                Some(rollout(&ledger, before, index)),
                &mut events,
            );
        }
    }
    if agent == Agent::Codex {
        decoder.recall(
            RecordsScope::Whole,
            Some(rollout(&ledger, before, usize::MAX)),
            &mut events,
        );
    }
    let exit = match this.end {
        End::Success => ProcessExit::Exited(0),
        End::Failure => ProcessExit::Exited(1),
        End::Killed(_) => ProcessExit::Signaled(9),
    };
    let usage = decoder.finish(ProcessEnd::of(exit, EndedBy::Itself)).usage;
    Played {
        ledger,
        events,
        usage,
    }
}

/// The lines of claude: pieces while a message is written, its whole lines as often as it likes, and sums of the whole session in the result.
fn claude(number: usize, this: &Try, ledger: &Ledger, before: &Before) -> Vec<Value> {
    let mut lines = vec![json!({"type": "system", "subtype": "init", "session_id": "s", "model": MODELS[0]})];
    let usage = |[input, output, written, read]: [u64; 4]| {
        json!({"input_tokens": input, "output_tokens": output, "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read})
    };
    let last = this.messages.len() - 1;
    let mut ends: Vec<Value> = Vec::new();
    // The main conversation and its sub-agents write in turns.
    let mut lanes: [VecDeque<Value>; 3] = Default::default();
    for (index, message) in this.messages.iter().enumerate() {
        let (id, model) = (format!("m-{number}-{index}"), MODELS[message.model]);
        let said = &mut lanes[message.by];
        let parent = (message.by > 0).then(|| format!("tool-{}", message.by));
        let begun = usage(message.begun().used);
        let whole = json!({"type": "assistant", "parent_tool_use_id": parent, "message": {"id": id, "model": model,
            "content": [{"type": "text", "text": "x"}], "usage": begun, "stop_reason": null}});
        let piece =
            |event: Value| json!({"type": "stream_event", "parent_tool_use_id": parent, "event": event});
        said.push_back(piece(
            json!({"type": "message_start", "message": {"id": id, "model": model, "usage": begun}}),
        ));
        said.extend((0..=message.doubled).map(|_| whole.clone()));
        if this.end == End::Killed(true) && index == last {
            break;
        }
        said.push_back(piece(
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": message.used[1]}}),
        ));
        said.push_back(piece(json!({"type": "message_stop"})));
        // Late lines of messages that have ended.
        said.extend(ends.iter().take(usize::from(message.doubled)).cloned());
        ends.push(whole);
    }
    lines.extend(interleaved(lanes, this));
    if let End::Killed(_) = this.end {
        return lines;
    }
    let mut models = BTreeMap::<&str, (TokenUsage, Usd)>::new();
    for message in ledger.values() {
        let (tokens, cost) = models.entry(MODELS[message.model]).or_default();
        *tokens += message.billed().tokens;
        *cost += message.price();
    }
    let since: serde_json::Map<String, Value> = models
        .into_iter()
        .map(|(model, (tokens, cost))| {
            let used = json!({"inputTokens": tokens.input_tokens, "outputTokens": tokens.output_tokens,
                "cacheCreationInputTokens": tokens.cache_creation_tokens, "cacheReadInputTokens": tokens.cache_read_tokens,
                "costUSD": cost.as_dollars()});
            (model.to_owned(), used)
        })
        .collect();
    let (cost, _) = sum(ledger);
    let is_error = this.end == End::Failure;
    lines.push(
        json!({"subtype": "success", "is_error": is_error, "result": "x", "type": "result", "session_id": "s",
        "total_cost_usd": (cost + before.cost).as_dollars(), "model_usage_since_last_result": since}),
    );
    lines
}

/// Returns the lines of all lanes, each in its order; the figures of the attempt decide how they are mixed.
fn interleaved(mut lanes: [VecDeque<Value>; 3], this: &Try) -> Vec<Value> {
    let mut figures = this.messages.iter().flat_map(|message| message.used).cycle();
    let mut lines = Vec::new();
    while lanes.iter().any(|lane| !lane.is_empty()) {
        let lane = usize::try_from(figures.next().unwrap_or_default()).unwrap() % 3;
        lines.extend(lanes[lane].pop_front());
        let longest = lanes.iter_mut().max_by_key(|lane| lane.len());
        lines.extend(longest.and_then(VecDeque::pop_front));
    }
    lines
}

/// Returns the lines of codex, which report the tokens of the whole session, and only at the end.
fn codex(this: &Try, ledger: &Ledger, before: &Before) -> Vec<Value> {
    let mut lines = vec![
        json!({"type": "thread.started", "thread_id": "s"}),
        json!({"type": "turn.started"}),
    ];
    lines.extend((0..this.messages.len()).map(|index| {
        json!({"type": "item.completed", "item": {"id": format!("item_{index}"), "type": "agent_message", "text": "x"}})
    }));
    let tokens = sum(ledger).1 + before.tokens;
    let input = tokens.input_tokens + tokens.cache_creation_tokens + tokens.cache_read_tokens;
    match this.end {
        End::Success => lines.push(json!({"type": "turn.completed", "usage": {"input_tokens": input,
            "cached_input_tokens": tokens.cache_read_tokens, "cache_write_input_tokens": tokens.cache_creation_tokens,
            "output_tokens": tokens.output_tokens}})),
        End::Failure => lines.push(json!({"type": "turn.failed", "error": {"message": "high demand"}})),
        End::Killed(_) => {}
    }
    lines
}

/// Returns the records that codex has written after `lines` lines; each response may be in them several times.
fn rollout(ledger: &Ledger, before: &Before, lines: usize) -> AgentRecords {
    let told = ledger.iter().take(lines);
    let messages = told.flat_map(|(id, message)| {
        (0..=message.doubled).map(|_| RecordedMessage {
            id: id.clone(),
            model: MODELS[message.model].to_owned(),
            billed: message.billed(),
            word: UsageConfidence::Final,
        })
    });
    AgentRecords {
        messages: messages.collect(),
        before: before.tokens,
        ..AgentRecords::default()
    }
}

/// The lines of pi: a message grows, and its end may come twice.
fn pi(number: usize, this: &Try) -> Vec<Value> {
    let mut lines = vec![
        json!({"type": "session", "id": "s"}),
        json!({"type": "agent_start"}),
    ];
    let last = this.messages.len() - 1;
    let usage = |message: &Message| {
        let [input, output, written, read] = message.used;
        json!({"input": input, "output": output, "cacheRead": read, "cacheWrite": written,
            "cost": {"total": message.price().as_dollars()}})
    };
    for (index, message) in this.messages.iter().enumerate() {
        let id = format!("m-{number}-{index}");
        let whole = |message: &Message, stop: Option<&str>| {
            json!({"role": "assistant", "responseId": id, "model": MODELS[message.model], "usage": usage(message),
                "content": [{"type": "text", "text": "x"}], "stopReason": stop})
        };
        lines.push(json!({"type": "turn_start"}));
        lines.push(json!({"type": "message_start", "message": whole(&message.begun(), None)}));
        lines.extend(
            (0..message.doubled).map(|_| json!({"type": "message_update", "usage": usage(&message.begun())})),
        );
        if this.end == End::Killed(true) && index == last {
            return lines;
        }
        let stop = if index == last { "stop" } else { "toolUse" };
        let stop = if this.end == End::Failure && index == last {
            "error"
        } else {
            stop
        };
        let end = json!({"type": "message_end", "message": whole(message, Some(stop))});
        lines.extend((0..=message.doubled).map(|_| end.clone()));
    }
    if this.end == End::Success {
        lines.push(json!({"type": "agent_end"}));
    }
    lines
}

/// A story of one codon after the other, with the figures that its agents, its skips and its sentinels should come to.
struct Books {
    story: Story,
    /// The run that continues, and the figures of each run.
    runs: Vec<(String, Usd)>,
    total: Usd,
    spend: Usd,
}

impl Books {
    fn begin(&mut self, continued: bool) {
        let run = format!("r{}", self.runs.len());
        let story = std::mem::take(&mut self.story);
        self.story = match self.runs.last().filter(|_| continued) {
            Some((parent, _)) => story.continues(&run, parent, None, "c"),
            None => story.fresh(&run),
        };
        self.runs.push((run, Usd::ZERO));
    }

    fn tell(&mut self, event: Value) {
        let event: StateEvent = serde_json::from_value(event).unwrap();
        self.story.try_tell(event).unwrap();
    }

    /// Enters a process as the runtime does: the usage that each message adds, and in the end the total of the decoder.
    fn enter(&mut self, number: usize, this: &Try, played: &Played) {
        let run = self.runs.last().unwrap().0.clone();
        let id = format!("c{number}");
        self.story = std::mem::take(&mut self.story).codon(&id, Ending::Open(CodonStatus::Running));
        let place = json!({"runId": run, "codonId": id});
        let event = |kind: &str, more: Value| {
            let mut data = place.as_object().unwrap().clone();
            data.extend(more.as_object().unwrap().clone());
            json!({"type": kind, "data": data})
        };
        for added in played.events.iter().filter_map(|event| match event {
            AgentEvent::Usage(usage) => Some(usage.added),
            _ => None,
        }) {
            self.tell(event(
                "CostsIncremented",
                json!({"costDelta": added.cost, "tokensDelta": added.tokens}),
            ));
        }
        let (cost, tokens) = sum(&played.ledger);
        let killed = matches!(this.end, End::Killed(_));
        if !killed {
            let told = json!({"finalCost": played.usage.cost, "finalTokens": played.usage.tokens});
            self.tell(event("CodonFinalCostSet", told));
        }
        let state = self.story.state();
        let record = state.current_run().unwrap().codons.last().unwrap();
        assert_eq!(
            (record.agent_cost(), record.agent_tokens()),
            (cost, tokens),
            "the codon is its ledger"
        );
        let sentinels = Usd::from_micros(this.sentinels);
        if this.sentinels > 0 {
            self.tell(event(
                "SentinelStatesUpdated",
                json!({"sentinelStates": [], "totalCost": sentinels}),
            ));
        }
        self.spend += cost + sentinels;
        let counted = if this.skipped && !killed { Usd::ZERO } else { cost };
        self.total += counted;
        self.runs.last_mut().unwrap().1 += counted;
        if killed {
            self.story = std::mem::take(&mut self.story).run_crashes();
            return self.begin(true);
        }
        let (to, metadata) = match (this.skipped, this.end) {
            (true, _) => (
                "skipped",
                json!({"skippedDuring": "running", "checkpointSha": "e"}),
            ),
            (false, End::Failure) => (
                "failed",
                json!({"exitCode": 1, "failedDuring": "running", "checkpointSha": "e",
                "failureReason": {"type": "unknown", "retriable": true, "message": "x"}}),
            ),
            _ => (
                "completed",
                json!({"checkpointSha": "e", "resultMessageReceived": true}),
            ),
        };
        self.tell(event(
            "CodonTransitioned",
            json!({"from": "running", "to": to, "metadata": metadata}),
        ));
        if this.rolled_back {
            self.story = std::mem::take(&mut self.story).run_fails();
            self.begin(true);
        }
    }

    fn check(&self) {
        let totals = self.story.live().totals();
        assert_eq!((totals.total, totals.spend), (self.total, self.spend), "all runs");
        let state = self.story.state();
        let runs = state
            .runs
            .iter()
            .rev()
            .map(|run| (run.run_id.to_string(), run.codon_cost()));
        assert_eq!(runs.collect::<Vec<_>>(), self.runs, "each run");
        assert_eq!(
            totals.current_run,
            self.runs.last().unwrap().1,
            "the run that continues"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    // covers: AGENT-31
    #[test]
    fn what_a_message_used_counts_once_in_its_codon_its_run_and_all_runs(tries in tries()) {
        for agent in [Agent::Claude, Agent::Codex, Agent::Pi] {
            let mut books = Books { story: Story::new(), runs: Vec::new(), total: Usd::ZERO, spend: Usd::ZERO };
            books.begin(false);
            let mut before = Before::default();
            for (number, this) in tries.iter().enumerate() {
                if !this.resumed {
                    before = Before::default();
                }
                let played = play(agent, number, this, &before);
                let (cost, tokens) = sum(&played.ledger);
                prop_assert_eq!((played.usage.cost, played.usage.tokens), (cost, tokens), "{:?} {}", agent, number);
                if this.end == End::Killed(true) {
                    prop_assert!(played.usage.lower_bound, "half an answer may have been paid for");
                }
                before.cost += cost;
                before.tokens += tokens;
                books.enter(number, this, &played);
                books.check();
            }
        }
    }
}
