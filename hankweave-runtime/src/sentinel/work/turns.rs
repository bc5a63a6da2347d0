//! Turn of a sentinel: it asks, pays, keeps the answer and reports it.

use std::io;
use std::sync::Arc;

use hankweave_core::codon::UnloadReason;
use hankweave_core::cost::Usd;
use hankweave_core::sentinel::model::{Conversation, Exchange};
use hankweave_core::sentinel::{Ask, Firing, SentinelAnswer};
use hankweave_core::view::excerpt;
use hankweave_core::wire::{Event, SentinelTokens};

use super::super::call::CallError;
use super::super::command;
use super::super::model::{AnswerCheck, Bill, PendingQuestion};
use super::super::{Context, SentinelBackend, SentinelRequest};
use super::SentinelLoop;
use super::unfinished::UnfinishedKind;
use crate::state_manager::Ticket;

/// Longest answer or failure in the state document, in bytes.
const MOST_WORDS: usize = 240;

/// Index of the sentinel, number of its trigger, and number of events on which it acts.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) index: usize,
    pub(super) number: u64,
    pub(super) event_count: usize,
    /// Whether it counts among the requests whose cost is still unknown.
    pub(super) costs: bool,
}

/// Result that a sentinel had to wait for.
pub(super) enum TurnResult {
    Answered(SentinelAnswer),
    /// A model answered, which has a price, whatever the answer is worth.
    Judged(Box<PendingQuestion>, Bill, AnswerCheck),
    Failed(CallError),
}

/// Answer whose way to the disk has ended.
pub(super) struct AnswerWrite {
    turn: Turn,
    answer: SentinelAnswer,
    written: io::Result<()>,
}

impl SentinelLoop {
    /// The sentinels that are idle act, each once.
    pub(super) async fn begin_turns(&mut self) {
        for index in 0..self.sentinels.len() {
            let one = &mut self.sentinels[index];
            let is_withheld = one.withhold(&self.context.allowance);
            if is_withheld || one.busy || !one.tracked.is_active() {
                continue;
            }
            let Some(firing) = one.engine.next_firing() else {
                continue;
            };
            let costs = one.costs();
            one.busy = true;
            one.tracked.tally.calls += 1;
            one.tracked.tally.uncounted += u64::from(costs);
            one.tracked.tally.triggers = one.engine.fired();
            one.tracked.tally.last_call = Some(self.context.world.clock.now());
            let turn = Turn {
                index,
                number: firing.number,
                event_count: firing.events.len(),
                costs,
            };
            // A call that a crash cuts short counts as made.
            let recorded = self.record().await;
            self.tell_trigger(turn).await;
            self.call(turn, firing, recorded);
        }
    }

    /// Asks, once that is recorded.
    fn call(&self, turn: Turn, firing: Firing, recorded: Ticket) {
        let one = &self.sentinels[turn.index];
        let context = self.context.clone();
        let (config, backend) = (one.loadable.config.clone(), one.loadable.backend.clone());
        let before = one.conversation.as_ref().map(Conversation::exchanges);
        self.wait_for(turn, async move {
            recorded.await?;
            match backend {
                SentinelBackend::Command => Ok(TurnResult::Answered(
                    command::call(context, config, firing).await?,
                )),
                SentinelBackend::Model(model) => {
                    let world = context.clone();
                    let asked = move || model.question(&world, &firing, before.unwrap_or_default());
                    ask(context.world.blocking.run(asked).await?, &context).await
                }
            }
        });
    }

    /// Asks a model once more for what has not its form.
    fn call_again(&self, turn: Turn, asked: PendingQuestion, recorded: Ticket) {
        let context = self.context.clone();
        self.wait_for(turn, async move {
            recorded.await?;
            ask(asked, &context).await
        });
    }

    fn wait_for(
        &self,
        turn: Turn,
        done: impl Future<Output = Result<TurnResult, CallError>> + Send + 'static,
    ) {
        self.waits.push(Box::pin(async move {
            (turn, done.await.unwrap_or_else(TurnResult::Failed))
        }));
    }

    pub(super) async fn end_turn(&mut self, turn: Turn, done: TurnResult) {
        match done {
            TurnResult::Answered(answer) => {
                self.count(turn, 0);
                let cost = answer.cost;
                self.answered(turn, answer, cost).await;
            }
            TurnResult::Judged(asked, bill, judged) => {
                self.count(turn, bill.uncounted);
                self.judged(turn, *asked, bill.cost, judged).await;
            }
            TurnResult::Failed(CallError::Withheld(reason)) => self.withheld(turn, reason).await,
            TurnResult::Failed(error) => {
                self.count(turn, error.uncounted(turn.costs));
                self.unanswered(turn.index, &error).await;
            }
        }
    }

    pub(super) async fn end_write(&mut self, write: AnswerWrite) {
        if let Err(error) = write.written {
            let message = format!("the answer could not be kept: {error}");
            self.failed(write.turn.index, "file-write-failed", true, message)
                .await;
        }
        self.tell_output(write.turn, write.answer).await;
    }

    /// Counts the requests of unknown cost, in place of the one that has ended.
    fn count(&mut self, turn: Turn, uncounted: u64) {
        let tally = &mut self.sentinels[turn.index].tracked.tally;
        tally.uncounted = (tally.uncounted + uncounted).saturating_sub(u64::from(turn.costs));
    }

    /// Takes back a question that was not asked.
    async fn withheld(&mut self, turn: Turn, reason: &'static str) {
        self.count(turn, 0);
        let one = &mut self.sentinels[turn.index];
        one.busy = false;
        one.unfinished.add(UnfinishedKind::Question, 1, reason);
        one.tracked.tally.calls = one.tracked.tally.calls.saturating_sub(1);
        drop(self.record().await);
    }

    /// Pays the reply first; one that does not have its form is repaired once (SENT-17).
    async fn judged(&mut self, turn: Turn, asked: PendingQuestion, cost: Usd, judged: AnswerCheck) {
        match judged {
            AnswerCheck::Answer(answer) => {
                if let Some(conversation) = &mut self.sentinels[turn.index].conversation {
                    let (question, answer) = (asked.prompt, answer.text.clone());
                    conversation.add(Exchange { question, answer });
                }
                let answer = SentinelAnswer {
                    cost: asked.cost,
                    cost_is_lower_bound: asked.uncounted > 0,
                    tokens: asked.tokens,
                    ..answer
                };
                self.answered(turn, answer, cost).await;
            }
            AnswerCheck::Flawed(said, why) if !asked.is_repaired => {
                drop(self.paid(turn.index, cost).await);
                let one = &mut self.sentinels[turn.index];
                if !one.tracked.is_active() {
                    one.busy = false;
                    return;
                }
                let allowance = &self.context.allowance;
                if !allowance.is_open() {
                    one.busy = false;
                    one.unfinished
                        .add(UnfinishedKind::Question, 1, allowance.why_closed());
                    return;
                }
                one.tracked.tally.calls += 1;
                one.tracked.tally.uncounted += u64::from(turn.costs);
                let recorded = self.record().await;
                self.call_again(turn, asked.repaired(said, &why), recorded);
            }
            AnswerCheck::Flawed(_, why) => {
                drop(self.paid(turn.index, cost).await);
                self.unanswered(turn.index, &CallError::Form(why)).await;
            }
            AnswerCheck::Refused(why) => {
                drop(self.paid(turn.index, cost).await);
                self.unanswered(turn.index, &CallError::Refused(why)).await;
            }
        }
    }

    /// Records what was paid, and ends the service of a sentinel that has used up what it may cost.
    async fn paid(&mut self, index: usize, cost: Usd) -> Ticket {
        self.sentinels[index].tracked.tally.cost += cost;
        let recorded = self.record().await;
        if self.sentinels[index].tracked.is_spent() {
            let unloaded = self.unload(index, UnloadReason::BudgetReached, Some("resource"));
            drop(unloaded.await);
        }
        recorded
    }

    /// Its costs are durable before an answer is kept.
    async fn answered(&mut self, turn: Turn, answer: SentinelAnswer, cost: Usd) {
        let one = &mut self.sentinels[turn.index];
        one.failures.succeeded();
        if one.reports.outputs.unwrap_or(true) && !answer.text.trim().is_empty() {
            one.tracked.last_answer = Some(excerpt(&answer.text, MOST_WORDS));
        }
        let recorded = self.paid(turn.index, cost).await;
        if answer.text.is_empty() {
            self.sentinels[turn.index].busy = false;
            return self.forward_request(turn.index, answer.ask).await;
        }
        let (world, dir) = (self.context.world.clone(), self.context.dir.clone());
        let (outputs, kept) = (
            self.sentinels[turn.index].loadable.outputs.clone(),
            answer.clone(),
        );
        let written = async move {
            recorded.await.map_err(io::Error::other)?;
            let (disk, at) = (Arc::clone(&world.disk), world.clock.now());
            let write = move || outputs.write(&*disk, &dir, &kept, at);
            world.blocking.run(write).await
        };
        self.writes.push(Box::pin(async move {
            let written = written.await;
            AnswerWrite {
                turn,
                answer,
                written,
            }
        }));
    }

    /// Passes on what a sentinel asks for, if the hank lets it. Its answer is kept by then: what it asks for may end it.
    async fn forward_request(&mut self, index: usize, asked: Option<(Ask, String)>) {
        let Some((ask, reason)) = asked else {
            return;
        };
        let (context, loadable) = (&self.context, &self.sentinels[index].loadable);
        let (id, word) = (&loadable.config.id, ask.as_str());
        let may = loadable.settings.may_ask.contains(&ask);
        let is_late = self.after_end && ask != Ask::Pause;
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        let message = match may {
            true if is_late => format!("sentinel {id} asks for `{word}`, but its codon has ended{why}"),
            true => format!("sentinel {id} asks for `{word}`{why}"),
            false => format!("sentinel {id} asks for `{word}`, which the hank does not allow (mayAsk){why}"),
        };
        let request = match may && !is_late {
            true => SentinelRequest::Asked(ask, format!("sentinel {id}{why}")),
            false => SentinelRequest::Refused(message.clone()),
        };
        context.publish(Event::Info { message }).await;
        (context.demand)(request);
    }

    async fn unanswered(&mut self, index: usize, error: &CallError) {
        self.failed(index, error.name(), error.is_fatal(), error.to_string())
            .await;
    }

    async fn failed(&mut self, index: usize, error_type: &str, fatal: bool, message: String) {
        let one = &mut self.sentinels[index];
        one.busy = false;
        one.tracked.tally.failed += 1;
        let unloaded = one.failures.failed(fatal);
        let id = one.loadable.config.id.clone();
        let event = Event::SentinelError {
            sentinel_id: id.clone(),
            codon_id: self.context.codon.clone(),
            error_type: error_type.to_owned(),
            message: message.clone(),
            retriable: !fatal,
            consecutive_failure_count: one.failures.in_a_row(),
        };
        let (told, fails) = (
            one.reports.errors.unwrap_or(true),
            one.loadable.config.fails_its_codon(),
        );
        if told {
            self.sentinels[index].tracked.last_failure = Some(excerpt(&message, MOST_WORDS));
            self.context.publish(event).await;
        }
        match unloaded {
            Some(reason) => {
                let kind = (reason == UnloadReason::FatalError).then_some("configuration");
                drop(self.unload(index, reason, kind).await);
                if fails && !self.after_end {
                    (self.context.demand)(SentinelRequest::Failed(format!(
                        "sentinel {id} failed: {message}"
                    )));
                }
            }
            None => drop(self.record().await),
        }
    }

    async fn tell_trigger(&mut self, turn: Turn) {
        let one = &self.sentinels[turn.index];
        if one.reports.triggers.unwrap_or(false) {
            let event = Event::SentinelTriggered {
                sentinel_id: one.loadable.config.id.clone(),
                codon_id: self.context.codon.clone(),
                trigger_number: turn.number,
                strategy: one.loadable.config.execution.name().to_owned(),
                event_count: turn.event_count,
                queue_size: one.engine.waiting(),
            };
            self.context.publish(event).await;
        }
    }

    async fn tell_output(&mut self, turn: Turn, answer: SentinelAnswer) {
        let one = &mut self.sentinels[turn.index];
        one.busy = false;
        if one.reports.outputs.unwrap_or(true) {
            let event = Event::SentinelOutput {
                sentinel_id: one.loadable.config.id.clone(),
                codon_id: self.context.codon.clone(),
                trigger_number: turn.number,
                output_type: match answer.value {
                    Some(_) => "structured".to_owned(),
                    None => "text".to_owned(),
                },
                content: answer.value.unwrap_or_else(|| answer.text.into()),
                cost: answer.cost,
                cost_is_lower_bound: answer.cost_is_lower_bound.then_some(true),
                tokens: SentinelTokens {
                    input: answer.tokens.input_tokens,
                    output: answer.tokens.output_tokens,
                },
                event_count: turn.event_count,
            };
            self.context.publish(event).await;
        }
        self.forward_request(turn.index, answer.ask).await;
    }
}

async fn ask(asked: PendingQuestion, context: &Context) -> Result<TurnResult, CallError> {
    let (asked, bill, judged) = asked.ask(context).await?;
    Ok(TurnResult::Judged(Box::new(asked), bill, judged))
}
