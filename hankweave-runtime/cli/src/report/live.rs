//! A view that is redrawn while the run goes on.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use hankweave_core::agent::{FailureReason, InterruptedBy};
use hankweave_core::codon::CodonStatus;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use serde::Deserialize;

use super::words::{budget, duration, say, standing, tokens};
use crate::screen::{Area, Bar};

/// How often the running line is drawn anew.
const TICK: Duration = Duration::from_millis(120);

/// What the agent does.
const ACTION: &str = "    {wide_msg:.dim}";

/// One line for each codon, the agent's actions below the running one.
#[derive(Debug)]
pub(crate) struct LiveView {
    area: Area,
    action: Bar,
    codons: HashMap<CodonId, CodonLine>,
}

#[derive(Debug)]
struct CodonLine {
    bar: Bar,
    status: CodonStatus,
    /// What interrupted it, which is no failure.
    interrupted_by: Option<InterruptedBy>,
    cost: Usd,
    /// It has cost more than is known.
    is_lower_bound: bool,
    usage: TokenUsage,
}

impl LiveView {
    pub(super) fn new() -> Self {
        let area = Area::default();
        let action = area.add(ACTION);
        Self {
            area,
            action,
            codons: HashMap::new(),
        }
    }

    pub(super) fn area(&self) -> Area {
        self.area.clone()
    }

    pub(super) fn event(&mut self, entry: &JournalEntry) -> io::Result<()> {
        match &entry.event {
            Event::StateTransition { transition, .. } => self.transition(transition, entry.timestamp),
            Event::TokenUsage {
                codon_id,
                total_cost,
                cost_is_lower_bound,
                ..
            } => {
                if let Some(line) = self.codons.get_mut(codon_id) {
                    (line.cost, line.is_lower_bound) = (*total_cost, *cost_is_lower_bound == Some(true));
                    line.draw();
                }
            }
            Event::BudgetSummary { ceiling, totals, .. } => {
                self.area.say(format!("  {}", budget(ceiling, totals)))?;
            }
            Event::Info { message } => self.area.say(format!("  {message}"))?,
            Event::Error { message, .. } => self.area.say(format!("  error: {message}"))?,
            other => {
                if let Some(text) = say(other) {
                    self.action.set_message(text);
                }
            }
        }
        Ok(())
    }

    fn transition(&mut self, event: &StateEvent, at: Timestamp) {
        match event {
            StateEvent::CodonStarted { codon_id, .. } => {
                self.action.set_template(ACTION);
                self.action.stop_ticking();
                let template = format!("{{spinner:.cyan}} {codon_id:<24} {{msg}} {{elapsed:>8}}");
                let bar = self.area.insert_before(&self.action, &template);
                bar.tick_every(TICK);
                let line = CodonLine {
                    bar,
                    status: CodonStatus::Preparing,
                    interrupted_by: None,
                    cost: Usd::ZERO,
                    is_lower_bound: false,
                    usage: TokenUsage::ZERO,
                };
                line.draw();
                self.codons.insert(codon_id.clone(), line);
            }
            StateEvent::CodonTransitioned {
                codon_id,
                to,
                metadata,
                ..
            } => {
                let Some(line) = self.codons.get_mut(codon_id) else {
                    return;
                };
                line.status = *to;
                let reason = metadata.as_ref().and_then(reason);
                line.interrupted_by = reason.as_ref().and_then(FailureReason::interruption);
                line.draw();
                if to.is_terminal() {
                    line.end(codon_id);
                    self.action.set_message("");
                    if let Some(ends_at) = reason.and_then(|reason| reason.retry_at) {
                        self.count_down(ends_at.since(at));
                    }
                }
            }
            StateEvent::CostsIncremented {
                codon_id,
                tokens_delta,
                ..
            } => {
                if let Some(line) = self.codons.get_mut(codon_id) {
                    line.usage += *tokens_delta;
                    line.draw();
                }
            }
            StateEvent::CodonFinalCostSet {
                codon_id,
                final_cost,
                final_tokens,
                ..
            } => {
                if let Some(line) = self.codons.get_mut(codon_id) {
                    (line.cost, line.usage) = (*final_cost, *final_tokens);
                    line.draw();
                }
            }
            _ => {}
        }
    }

    /// Shows how much is left of a usage limit, until the next codon starts.
    pub(super) fn count_down(&self, left: Duration) {
        let template = "    the usage limit ends in {left:.dim}";
        self.action.count_down(template, left, duration);
        self.action.tick_every(Duration::from_secs(1));
    }

    /// Takes the moving parts away; the lines of ended codons stay.
    pub(super) fn clear(&mut self) {
        self.action.clear();
        for line in self.codons.values().filter(|line| !line.status.is_terminal()) {
            line.bar.leave();
        }
    }
}

impl CodonLine {
    fn draw(&self) {
        let used = tokens(self.usage.total());
        self.bar.set_message(format!(
            "{:<13} {used:>8} tokens {:>10}",
            standing(self.status, self.interrupted_by),
            self.cost.told(self.is_lower_bound)
        ));
    }

    fn end(&self, id: &CodonId) {
        let (mark, sign) = match self.status {
            CodonStatus::Completed => ("{prefix:.green}", "✓"),
            _ if self.interrupted_by.is_some() => ("{prefix:.yellow}", "■"),
            _ => ("{prefix:.red}", "✗"),
        };
        self.bar
            .set_template(&format!("{mark} {id:<24} {{msg}} {{elapsed:>8}}"));
        self.bar.set_prefix(sign);
        self.bar.leave();
    }
}

/// Why a codon failed.
fn reason(metadata: &serde_json::Map<String, serde_json::Value>) -> Option<FailureReason> {
    FailureReason::deserialize(metadata.get("failureReason")?).ok()
}
