//! The part of the reducer for events of one codon.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::index::RecordPosition;
use super::super::rejected::{Rejected, not_working, still_open};
use super::{Applied, Reducer, advance};
use crate::codon::{
    CheckpointType, ChosenAgent, CodonExecution, CodonPhase, CodonStatus, CodonTransition, SentinelState,
};
use crate::cost::{TokenUsage, Usd};
use crate::event::decode_metadata;
use crate::id::{CheckpointSha, RunId};
use crate::time::Timestamp;

impl Reducer<'_> {
    /// Adds the record `opened` to a run that has no open record (STATE-27). If its agent `chosen` is a fallback that starts right after the attempt of another
    /// agent, the record of that attempt gets a note (STATE-73).
    pub(super) fn start_codon(
        &mut self,
        id: &RunId,
        opened: CodonExecution,
        chosen: Option<&ChosenAgent>,
    ) -> Result<Applied, Rejected> {
        let position = self.running(id)?;
        if let Some(open) = self.index.open_codon(self.state, position) {
            return Err(still_open(&self.state.runs[position].codons[open]));
        }
        if self.state.pending_rollback.is_some() {
            let message = format!("run `{id}` is being left: only the next run takes up the way back");
            return Err(Rejected::Conflict(message));
        }
        let codons = &mut self.run_mut(position).codons;
        if let (Some(before), Some(chosen)) = (codons.last(), chosen)
            && is_replaced(before, &opened, chosen)
        {
            let (position, mut replaced) = (codons.len() - 1, CodonExecution::clone(before));
            replaced.set_replaced_by(chosen);
            codons[position] = Arc::new(replaced);
        }
        codons.push(Arc::new(opened));
        self.index.codon_started(self.state, position);
        Ok(Applied::TRANSITION)
    }

    /// Makes a transition and takes over the notes that its metadata may have.
    pub(super) fn step(
        &mut self,
        record: RecordPosition,
        from: CodonStatus,
        to: CodonStatus,
        metadata: Option<&Map<String, Value>>,
        at: Timestamp,
    ) -> Result<Applied, Rejected> {
        let codon = self.codon(record);
        let (transition, phase) = check_transition(codon, from, to, metadata, at)?;
        let mut changed = advance(codon, transition, phase)?;
        let is_true = |name| metadata.and_then(|metadata| metadata.get(name)) == Some(&Value::Bool(true));
        if is_true("contextExceeded") {
            changed.set_context_exceeded();
        }
        if is_true("costIsLowerBound") {
            changed.set_cost_is_lower_bound();
        }
        if let Some(exceeded) = metadata.and_then(|metadata| metadata.get("budgetExceeded")) {
            changed.set_budget_exceeded(exceeded.clone());
        }
        if let Some(check) = metadata.and_then(|metadata| metadata.get("loopCheck")) {
            changed.set_loop_check(check.clone());
        }
        if let Some(stall) = metadata.and_then(|metadata| metadata.get("loopStall")) {
            changed.set_loop_stall(stall.clone());
        }
        let asked = metadata.filter(|_| to == CodonStatus::Initializing);
        if let Some(asked) = asked.and_then(|metadata| metadata.get("asked")) {
            changed.set_asked(asked);
        }
        if let Some(metadata) = metadata.filter(|_| changed.is_terminal()) {
            changed.set_measured(metadata);
            if let Some(result) = metadata.get("result") {
                changed.set_result(result);
            }
            if let Some(remarks) = metadata.get("remarks") {
                changed.set_remarks(remarks.clone());
            }
        }
        let applied = Applied {
            cost_before: codon.codon_cost(),
            cost_after: changed.codon_cost(),
            spend_before: codon.spend(),
            spend_after: changed.spend(),
            in_current_run: self.is_current(record.run),
            transition: true,
        };
        self.replace(record, changed);
        Ok(applied)
    }

    /// Changes the cost and the tokens of a codon whose agent works or whose sentinels finish: a report of costs may come that late (STATE-28).
    pub(super) fn change_costs(
        &mut self,
        record: RecordPosition,
        change: impl FnOnce(Usd, TokenUsage) -> (Usd, TokenUsage),
    ) -> Result<Applied, Rejected> {
        let in_current_run = self.is_current(record.run);
        let spend_before = self.codon(record).spend();
        let (cost, tokens) = match self.codon_mut(record) {
            CodonExecution::Running(codon) => (&mut codon.current_cost, &mut codon.current_tokens.usage),
            CodonExecution::CompletingSentinels(codon) => {
                (&mut codon.current_cost, &mut codon.current_tokens.usage)
            }
            other => return Err(not_working(other, "costs")),
        };
        let cost_before = *cost;
        (*cost, *tokens) = change(*cost, *tokens);
        let cost_after = *cost;
        Ok(Applied {
            cost_before,
            cost_after,
            spend_before,
            spend_after: self.codon(record).spend(),
            in_current_run,
            transition: false,
        })
    }

    pub(super) fn count_messages(
        &mut self,
        record: RecordPosition,
        new_count: u64,
    ) -> Result<Applied, Rejected> {
        match self.codon_mut(record) {
            CodonExecution::Running(codon) => codon.assistant_message_count = new_count,
            CodonExecution::CompletingSentinels(codon) => codon.assistant_message_count = new_count,
            other => return Err(not_working(other, "a message count")),
        }
        Ok(Applied::NOTHING)
    }

    /// Replaces the sentinels of a codon that is open and past its set-up (STATE-29).
    pub(super) fn replace_sentinels(
        &mut self,
        record: RecordPosition,
        states: &[SentinelState],
        total_cost: Usd,
    ) -> Result<Applied, Rejected> {
        let spend_before = self.codon(record).spend();
        let sentinels = match self.codon_mut(record) {
            CodonExecution::Starting(codon) => &mut codon.sentinels,
            CodonExecution::Initializing(codon) => &mut codon.sentinels,
            CodonExecution::Running(codon) => &mut codon.sentinels,
            CodonExecution::CompletingSentinels(codon) => &mut codon.sentinels,
            other => return Err(not_working(other, "sentinels")),
        };
        sentinels.replace(states.to_vec(), total_cost);
        Ok(Applied {
            spend_before,
            spend_after: self.codon(record).spend(),
            ..Applied::NOTHING
        })
    }

    /// Replaces the sentinels of a codon that has ended and had sentinels (STATE-29).
    pub(super) fn finish_sentinels(
        &mut self,
        record: RecordPosition,
        states: &[SentinelState],
        total_cost: Usd,
    ) -> Result<Applied, Rejected> {
        let spend_before = self.codon(record).spend();
        if !self.codon_mut(record).finish_sentinels(states, total_cost) {
            return Err(not_working(self.codon(record), "last words of sentinels"));
        }
        Ok(Applied {
            spend_before,
            spend_after: self.codon(record).spend(),
            ..Applied::NOTHING
        })
    }

    /// Records a rig-setup checkpoint (STATE-30).
    ///
    /// Other checkpoints, and those of a codon that has ended, are ignored: they are in the metadata of the transition that ends the codon.
    pub(super) fn record_checkpoint(
        &mut self,
        record: RecordPosition,
        checkpoint_type: CheckpointType,
        sha: &CheckpointSha,
    ) -> Applied {
        if checkpoint_type != CheckpointType::RigSetup {
            return Applied::NOTHING;
        }
        let field = match self.codon_mut(record) {
            CodonExecution::Preparing(codon) => &mut codon.rig_setup_checkpoint,
            CodonExecution::Starting(codon) => &mut codon.rig_setup_checkpoint,
            CodonExecution::Initializing(codon) => &mut codon.rig_setup_checkpoint,
            CodonExecution::Running(codon) => &mut codon.rig_setup_checkpoint,
            CodonExecution::CompletingSentinels(codon) => &mut codon.rig_setup_checkpoint,
            _ => return Applied::NOTHING,
        };
        *field = Some(sha.clone());
        Applied::NOTHING
    }

    /// Sets the number of extensions, an undeclared field of the older system.
    pub(super) fn count_extensions(
        &mut self,
        record: RecordPosition,
        count: u64,
    ) -> Result<Applied, Rejected> {
        if self.codon(record).is_terminal() {
            return Err(not_working(self.codon(record), "an extension count"));
        }
        let extra = self.codon_mut(record).extra_mut();
        extra.insert("extensionCount", Value::from(count));
        Ok(Applied::NOTHING)
    }
}

/// Whether the agent of `opened` continues in the place of the agent of `before`, the record in front of it.
fn is_replaced(before: &CodonExecution, opened: &CodonExecution, chosen: &ChosenAgent) -> bool {
    before.codon_id() == opened.codon_id()
        && before.status() == CodonStatus::Failed
        && chosen.instead.is_some()
        && before.entry_of_agent() != chosen.entry
}

/// Checks a transition, first its edge, then its metadata, and returns it with the phase that the event names (STATE-15). A start keeps the rig checkpoint that
/// the record has (STATE-20).
fn check_transition(
    codon: &CodonExecution,
    from: CodonStatus,
    to: CodonStatus,
    metadata: Option<&Map<String, Value>>,
    at: Timestamp,
) -> Result<(CodonTransition, CodonPhase), Rejected> {
    let actual = codon.status();
    let refused = Rejected::InvalidTransition { from: actual, to };
    if from != actual || !from.targets().contains(&to) {
        return Err(refused);
    }
    let phase = CodonPhase::try_from(from).map_err(|_| refused)?;
    let (mut transition, phase) = decode_metadata(phase, to, metadata, at)?;
    if let CodonTransition::Start(start) = &mut transition
        && start.rig_setup_checkpoint.is_none()
    {
        start.rig_setup_checkpoint = codon.rig_setup_checkpoint().cloned();
    }
    Ok((transition, phase))
}
