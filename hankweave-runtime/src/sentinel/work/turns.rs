//! Turn of a sentinel: from the events on which it acts to its answer.
//!
//! [`SentinelLoop::start_turns`] records the question and asks it (`call`). When the reply comes, [`SentinelLoop::end_turn`] records its cost first, then
//! stores the answer in its file (`keep_answer`), and [`SentinelLoop::end_write`] publishes it and passes on the request that it contains.

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

/// A turn that has started.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// Index of the sentinel.
    pub(super) index: usize,
    /// Number of its trigger.
    pub(super) number: u64,
    /// Number of events on which it acts.
    pub(super) event_count: usize,
    /// Whether its question may cost something. Until the cost is known, it is counted in `tally.uncounted`.
    pub(super) costs: bool,
}

/// Result of a question.
pub(super) enum TurnResult {
    Answered(SentinelAnswer),
    /// A model replied, which costs money even if the reply is no valid answer.
    Replied(Box<PendingQuestion>, Bill, AnswerCheck),
    Failed(CallError),
}

/// Answer that was written to its file, or could not be.
pub(super) struct AnswerWrite {
    turn: Turn,
    answer: SentinelAnswer,
    written: io::Result<()>,
}

impl SentinelLoop {
    /// Starts a turn of each idle sentinel that has to act.
    pub(super) async fn start_turns(&mut self) {
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
            // Recorded before the question is asked, so that it counts even if a crash cuts it short.
            let recorded = self.record().await;
            self.publish_trigger(turn).await;
            self.call(turn, firing, recorded);
        }
    }

    /// Asks the question of a turn, once its record is durable.
    fn call(&self, turn: Turn, firing: Firing, recorded: Ticket) {
        let one = &self.sentinels[turn.index];
        let context = self.context.clone();
        let (config, backend) = (one.loadable.config.clone(), one.loadable.backend.clone());
        let before = one.conversation.as_ref().map(Conversation::exchanges);
        self.add_wait(turn, async move {
            recorded.await?;
            match backend {
                SentinelBackend::Command => Ok(TurnResult::Answered(
                    command::call(context, config, firing).await?,
                )),
                SentinelBackend::Model(model) => {
                    let for_question = context.clone();
                    let make = move || model.question(&for_question, &firing, before.unwrap_or_default());
                    ask(context.world.blocking.run(make).await?, &context).await
                }
            }
        });
    }

    /// Asks a model to repair an answer of the wrong form.
    fn call_again(&self, turn: Turn, question: PendingQuestion, recorded: Ticket) {
        let context = self.context.clone();
        self.add_wait(turn, async move {
            recorded.await?;
            ask(question, &context).await
        });
    }

    fn add_wait(
        &self,
        turn: Turn,
        result: impl Future<Output = Result<TurnResult, CallError>> + Send + 'static,
    ) {
        self.waits.push(Box::pin(async move {
            (turn, result.await.unwrap_or_else(TurnResult::Failed))
        }));
    }

    /// Handles the result of a question.
    pub(super) async fn end_turn(&mut self, turn: Turn, result: TurnResult) {
        match result {
            TurnResult::Answered(answer) => {
                self.set_uncounted(turn, 0);
                let cost = answer.cost;
                self.keep_answer(turn, answer, cost).await;
            }
            TurnResult::Replied(question, bill, check) => {
                self.set_uncounted(turn, bill.uncounted);
                // The bill holds its place in the allowance until the cost is recorded.
                self.handle_reply(turn, *question, bill.cost, check).await;
            }
            TurnResult::Failed(CallError::Withheld(reason)) => self.cancel_question(turn, reason).await,
            TurnResult::Failed(error) => {
                self.set_uncounted(turn, error.uncounted(turn.costs));
                self.fail_call(turn.index, &error).await;
            }
        }
    }

    /// Publishes an answer that was written to its file, or could not be.
    pub(super) async fn end_write(&mut self, write: AnswerWrite) {
        if let Err(error) = write.written {
            let message = format!("the answer could not be kept: {error}");
            self.fail(write.turn.index, "file-write-failed", true, message)
                .await;
        }
        self.publish_answer(write.turn, write.answer).await;
    }

    /// Counts the requests of the turn whose cost stays unknown, in place of the one that was counted at its start.
    fn set_uncounted(&mut self, turn: Turn, uncounted: u64) {
        let tally = &mut self.sentinels[turn.index].tracked.tally;
        tally.uncounted = (tally.uncounted + uncounted).saturating_sub(u64::from(turn.costs));
    }

    /// Takes a question out of the figures: the allowance is closed, so the question was not asked.
    async fn cancel_question(&mut self, turn: Turn, reason: &'static str) {
        self.set_uncounted(turn, 0);
        let one = &mut self.sentinels[turn.index];
        one.busy = false;
        one.unfinished.add(UnfinishedKind::Question, 1, reason);
        one.tracked.tally.calls = one.tracked.tally.calls.saturating_sub(1);
        drop(self.record().await);
    }

    /// Handles the reply of a model, whose last requests have cost `cost`. An answer of the wrong form is repaired once (SENT-17).
    async fn handle_reply(&mut self, turn: Turn, pending: PendingQuestion, cost: Usd, check: AnswerCheck) {
        match check {
            AnswerCheck::Answer(answer) => {
                if let Some(conversation) = &mut self.sentinels[turn.index].conversation {
                    let (question, answer) = (pending.prompt, answer.text.clone());
                    conversation.add(Exchange { question, answer });
                }
                let answer = SentinelAnswer {
                    cost: pending.cost,
                    cost_is_lower_bound: pending.uncounted > 0,
                    tokens: pending.tokens,
                    ..answer
                };
                self.keep_answer(turn, answer, cost).await;
            }
            AnswerCheck::Flawed(said, why) if !pending.is_repaired => {
                drop(self.add_cost(turn.index, cost).await);
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
                self.call_again(turn, pending.repaired(said, &why), recorded);
            }
            AnswerCheck::Flawed(_, why) => {
                drop(self.add_cost(turn.index, cost).await);
                self.fail_call(turn.index, &CallError::Form(why)).await;
            }
            AnswerCheck::Refused(why) => {
                drop(self.add_cost(turn.index, cost).await);
                self.fail_call(turn.index, &CallError::Refused(why)).await;
            }
        }
    }

    /// Records a cost, and unloads a sentinel whose own budget is used up. Returns the ticket of the record.
    async fn add_cost(&mut self, index: usize, cost: Usd) -> Ticket {
        self.sentinels[index].tracked.tally.cost += cost;
        let recorded = self.record().await;
        if self.sentinels[index].tracked.is_spent() {
            let unloaded = self.unload(index, UnloadReason::BudgetReached, Some("resource"));
            drop(unloaded.await);
        }
        recorded
    }

    /// Records the cost of an answer and then, once that is durable, writes the answer to its file. An empty answer has no file and is not published.
    async fn keep_answer(&mut self, turn: Turn, answer: SentinelAnswer, cost: Usd) {
        let one = &mut self.sentinels[turn.index];
        one.failures.succeeded();
        if one.reports.outputs.unwrap_or(true) && !answer.text.trim().is_empty() {
            one.tracked.last_answer = Some(excerpt(&answer.text, MOST_WORDS));
        }
        let recorded = self.add_cost(turn.index, cost).await;
        if answer.text.is_empty() {
            self.sentinels[turn.index].busy = false;
            return self.forward_request(turn.index, answer.ask).await;
        }
        let (world, dir) = (self.context.world.clone(), self.context.dir.clone());
        let (outputs, to_write) = (
            self.sentinels[turn.index].loadable.outputs.clone(),
            answer.clone(),
        );
        let written = async move {
            recorded.await.map_err(io::Error::other)?;
            let (disk, at) = (Arc::clone(&world.disk), world.clock.now());
            let write = move || outputs.write(&*disk, &dir, &to_write, at);
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

    /// Passes the request of a sentinel to its codon, if the hank allows it. The answer is stored before, because the request may end the sentinel.
    async fn forward_request(&mut self, index: usize, request: Option<(Ask, String)>) {
        let Some((ask, reason)) = request else {
            return;
        };
        let (context, loadable) = (&self.context, &self.sentinels[index].loadable);
        let (id, word) = (&loadable.config.id, ask.as_str());
        let is_allowed = loadable.settings.may_ask.contains(&ask);
        let is_late = self.after_end && ask != Ask::Pause;
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        let message = match is_allowed {
            true if is_late => format!("sentinel {id} asks for `{word}`, but its codon has ended{why}"),
            true => format!("sentinel {id} asks for `{word}`{why}"),
            false => format!("sentinel {id} asks for `{word}`, which the hank does not allow (mayAsk){why}"),
        };
        let request = match is_allowed && !is_late {
            true => SentinelRequest::Asked(ask, format!("sentinel {id}{why}")),
            false => SentinelRequest::Refused(message.clone()),
        };
        context.publish(Event::Info { message }).await;
        (context.demand)(request);
    }

    /// Reports that a sentinel got no answer.
    async fn fail_call(&mut self, index: usize, error: &CallError) {
        self.fail(index, error.name(), error.is_fatal(), error.to_string())
            .await;
    }

    /// Counts and reports a failure of a sentinel. If the failure unloads the sentinel, the codon fails as well where the hank says so.
    async fn fail(&mut self, index: usize, error_type: &str, fatal: bool, message: String) {
        let one = &mut self.sentinels[index];
        one.busy = false;
        one.tracked.tally.failed += 1;
        let unload_reason = one.failures.failed(fatal);
        let id = one.loadable.config.id.clone();
        let event = Event::SentinelError {
            sentinel_id: id.clone(),
            codon_id: self.context.codon.clone(),
            error_type: error_type.to_owned(),
            message: message.clone(),
            retriable: !fatal,
            consecutive_failure_count: one.failures.in_a_row(),
        };
        let (is_reported, fails_codon) = (
            one.reports.errors.unwrap_or(true),
            one.loadable.config.fails_its_codon(),
        );
        if is_reported {
            self.sentinels[index].tracked.last_failure = Some(excerpt(&message, MOST_WORDS));
            self.context.publish(event).await;
        }
        match unload_reason {
            Some(reason) => {
                let kind = (reason == UnloadReason::FatalError).then_some("configuration");
                drop(self.unload(index, reason, kind).await);
                if fails_codon && !self.after_end {
                    (self.context.demand)(SentinelRequest::Failed(format!(
                        "sentinel {id} failed: {message}"
                    )));
                }
            }
            None => drop(self.record().await),
        }
    }

    async fn publish_trigger(&mut self, turn: Turn) {
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

    /// Publishes an answer, and passes on the request that it contains.
    async fn publish_answer(&mut self, turn: Turn, answer: SentinelAnswer) {
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

async fn ask(question: PendingQuestion, context: &Context) -> Result<TurnResult, CallError> {
    let (question, bill, check) = question.ask(context).await?;
    Ok(TurnResult::Replied(Box::new(question), bill, check))
}
