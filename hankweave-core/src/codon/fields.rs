//! Facts about a codon that its machine does not declare. They are kept in the field `extra`, under the keys below, and are read in any state.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    BudgetExceeded, CheckpointType, ChosenAgent, CodonExecution, CodonStatus, Fail, Failed, LoopCheck,
    LoopStall, SentinelState,
};
use crate::agent::{AskedResult, CRASHED, FailureReason, InterruptedBy};
use crate::id::CheckpointSha;
use crate::machine::Extra;
use crate::time::Timestamp;

/// Key of the mark that the agent ran out of context.
const CONTEXT_EXCEEDED: &str = "contextExceeded";

/// Key of the limit of its budget that the codon reached (STATE-10).
const BUDGET_EXCEEDED: &str = "budgetExceeded";

/// Key of the result of its loop's check.
const LOOP_CHECK: &str = "loopCheck";

/// Key of the mark that the codon cost more than is known.
const COST_IS_LOWER_BOUND: &str = "costIsLowerBound";

/// Key of the duration of an ended codon, in milliseconds, measured by a clock that is never set.
const DURATION: &str = "durationMs";

/// Key of further remarks for people on an ended codon.
const REMARKS: &str = "remarks";

/// Key of how long the loop has repeated itself.
const LOOP_STALL: &str = "loopStall";

/// Key of the agent that was chosen for the attempt, where the codon has fallbacks.
const CHOSEN_AGENT: &str = "chosenAgent";

/// Key of the checkpoint of the files with which the codon started.
const START_CHECKPOINT: &str = "startCheckpoint";

/// Key of the number of files that differ from the start of the codon.
const FILES_CHANGED: &str = "filesChanged";

/// Key of the result of a codon (STATE-80).
const RESULT: &str = "result";

/// Key of the beginning of the prompt (STATE-72).
const ASKED: &str = "asked";

/// Longest beginning of a prompt that a record keeps, in bytes.
pub const MOST_ASKED: usize = 240;

/// Key of the agent that continued in the place of this attempt (STATE-73).
const REPLACED_BY: &str = "replacedBy";

impl Fail {
    /// Returns the failure of a codon whose server crashed (STATE-26).
    #[must_use]
    pub fn crashed(end_time: Timestamp) -> Self {
        Self {
            end_time,
            exit_code: -1,
            failure_reason: FailureReason::unknown(false, CRASHED),
            error_checkpoint: None,
        }
    }
}

/// Returns the position of the agent in the list of its codon (the codon's own agent, then its fallbacks), from the `extra` fields of a record.
fn entry_of_agent(extra: &Extra) -> u32 {
    let entry = extra
        .get(CHOSEN_AGENT)
        .and_then(|chosen| chosen.get("entry")?.as_u64());
    entry.map_or(0, |entry| u32::try_from(entry).unwrap_or(u32::MAX))
}

impl Failed {
    /// Returns the position of its agent in the list of the codon: 0 is the codon's own.
    #[must_use]
    pub fn entry_of_agent(&self) -> u32 {
        entry_of_agent(&self.extra)
    }
}

impl CodonExecution {
    /// The checkpoint made when the codon ended, with its type.
    #[must_use]
    pub fn end_checkpoint(&self) -> Option<(CheckpointType, &CheckpointSha)> {
        let of = |kind, sha: Option<_>| sha.map(|sha| (kind, sha));
        of(CheckpointType::Completed, self.completion_checkpoint())
            .or_else(|| of(CheckpointType::Error, self.error_checkpoint()))
            .or_else(|| of(CheckpointType::Skipped, self.skip_checkpoint()))
    }

    /// The checkpoints of the codon, that of the rig first.
    pub fn checkpoints(&self) -> impl Iterator<Item = (CheckpointType, &CheckpointSha)> {
        let rig = self
            .rig_setup_checkpoint()
            .map(|sha| (CheckpointType::RigSetup, sha));
        rig.into_iter().chain(self.end_checkpoint())
    }

    /// Whether the agent ran out of context; recorded under a name of our own, because it decides whether a loop continues.
    #[must_use]
    pub fn context_exceeded(&self) -> bool {
        self.extra().get(CONTEXT_EXCEEDED) == Some(&Value::Bool(true))
    }

    /// Notes that the agent ran out of context.
    pub(crate) fn set_context_exceeded(&mut self) {
        self.extra_mut().insert(CONTEXT_EXCEEDED, Value::Bool(true));
    }

    /// The limit of its budget that the codon reached.
    #[must_use]
    pub fn budget_exceeded(&self) -> Option<BudgetExceeded> {
        serde_json::from_value(self.extra().get(BUDGET_EXCEEDED)?.clone()).ok()
    }

    /// Notes which limit of its budget the codon reached.
    pub(crate) fn set_budget_exceeded(&mut self, exceeded: Value) {
        self.extra_mut().insert(BUDGET_EXCEEDED, exceeded);
    }

    /// Returns the result of the loop's check after the codon; `None` when it was not due.
    #[must_use]
    pub fn loop_check(&self) -> Option<LoopCheck> {
        serde_json::from_value(self.extra().get(LOOP_CHECK)?.clone()).ok()
    }

    /// Notes the result of its loop's check.
    pub(crate) fn set_loop_check(&mut self, check: Value) {
        self.extra_mut().insert(LOOP_CHECK, check);
    }

    /// Returns how long the loop of the codon has repeated itself; `None` when the iteration was not compared with the one before.
    #[must_use]
    pub fn loop_stall(&self) -> Option<LoopStall> {
        serde_json::from_value(self.extra().get(LOOP_STALL)?.clone()).ok()
    }

    /// Notes how long its loop has repeated itself.
    pub(crate) fn set_loop_stall(&mut self, stall: Value) {
        self.extra_mut().insert(LOOP_STALL, stall);
    }

    /// Returns the agent that was chosen for this attempt; `None` when the codon had no fallbacks and ran as configured in hank.json.
    #[must_use]
    pub fn chosen_agent(&self) -> Option<ChosenAgent> {
        serde_json::from_value(self.extra().get(CHOSEN_AGENT)?.clone()).ok()
    }

    /// Returns the checkpoint of the files with which the codon started, before its rig; `None` where none was made.
    #[must_use]
    pub fn start_checkpoint(&self) -> Option<CheckpointSha> {
        let sha = self.extra().get(START_CHECKPOINT)?.as_str()?;
        Some(CheckpointSha::new(sha)).filter(|sha| !sha.is_blank())
    }

    /// Notes the checkpoint of the files with which the codon started.
    pub(crate) fn set_start_checkpoint(&mut self, sha: &CheckpointSha) {
        let sha = Value::String(sha.as_str().to_owned());
        self.extra_mut().insert(START_CHECKPOINT, sha);
    }

    /// Returns the position of its agent in the list of the codon: 0 is the codon's own.
    #[must_use]
    pub fn entry_of_agent(&self) -> u32 {
        entry_of_agent(self.extra())
    }

    /// Notes the agent that was chosen for the attempt.
    pub(crate) fn set_chosen_agent(&mut self, chosen: &ChosenAgent) {
        match serde_json::to_value(chosen) {
            Ok(value) => drop(self.extra_mut().insert(CHOSEN_AGENT, value)),
            // Names, a number and a time always are JSON.
            Err(error) => unreachable!("{chosen:?} is not written: {error}"),
        }
    }

    /// Returns the beginning of the prompt as the agent got it, in one line; `None` where it never started, and in records of older versions.
    #[must_use]
    pub fn asked(&self) -> Option<&str> {
        self.extra().get(ASKED)?.as_str()
    }

    /// Notes the beginning of the prompt. A text that is too long is not noted.
    pub(crate) fn set_asked(&mut self, asked: &Value) {
        if asked.as_str().is_some_and(|text| text.len() <= MOST_ASKED) {
            self.extra_mut().insert(ASKED, asked.clone());
        }
    }

    /// Returns the agent that continued at once in the place of the one of this attempt, for people: `codex with gpt-5.6`.
    #[must_use]
    pub fn replaced_by(&self) -> Option<&str> {
        self.extra().get(REPLACED_BY)?.as_str()
    }

    /// Returns for people that another agent continued in the place of the one of this attempt.
    #[must_use]
    pub fn replacement(&self) -> Option<String> {
        let agent = self.replaced_by()?;
        Some(format!("{agent} continued in its place"))
    }

    /// Notes the agent that continued in the place of the one of this attempt.
    pub(crate) fn set_replaced_by(&mut self, chosen: &ChosenAgent) {
        self.extra_mut().insert(REPLACED_BY, chosen.words().into());
    }

    /// Returns remarks for people, in addition to the state of the codon: a fallback that it ran with, background work that was ended, the request
    /// of a sentinel, and the last words of its sentinels.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        // The reason of a sentinel's request is the sentinel's answer, so the remark with the answer would repeat that.
        let noted = self.noted_remarks();
        let reason = self.failure_reason().and_then(|reason| reason.message.as_deref());
        let is_repetition = |remark: &String| {
            let mut others = noted.iter().map(String::as_str).chain(reason);
            others.any(|other| other.ends_with(remark.as_str()))
        };
        let of_sentinels = self.sentinels().iter().flat_map(SentinelState::remarks);
        let of_sentinels: Vec<String> = of_sentinels.filter(|remark| !is_repetition(remark)).collect();
        let chosen = self.chosen_agent();
        let fallback = chosen.and_then(|chosen| {
            Some(format!(
                "ran on {}, {}",
                chosen.words(),
                chosen.instead.as_ref()?.words()
            ))
        });
        let of_agent = fallback.into_iter().chain(self.replacement());
        of_agent.chain(noted).chain(of_sentinels).collect()
    }

    /// Returns the remarks that were noted when the codon ended.
    #[must_use]
    pub fn noted_remarks(&self) -> Vec<String> {
        let remarks = self.extra().get(REMARKS).cloned();
        remarks
            .and_then(|remarks| serde_json::from_value(remarks).ok())
            .unwrap_or_default()
    }

    /// Returns the result that the agent of a completed or failed codon gave, if any.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        let result = self.extra().get(RESULT)?;
        (self.may_have_result() && result.is_object()).then_some(result)
    }

    /// Whether a codon in this state may have a result; a skipped one may not.
    fn may_have_result(&self) -> bool {
        matches!(self.status(), CodonStatus::Completed | CodonStatus::Failed)
    }

    /// Notes the result, if the codon has completed or failed. A result that is too long is not noted.
    pub(crate) fn set_result(&mut self, result: &Value) {
        let fits = result.is_object() && result.to_string().len() <= AskedResult::MAX_BYTES;
        if fits && self.may_have_result() {
            self.extra_mut().insert(RESULT, result.clone());
        }
    }

    /// Notes further remarks for people.
    pub(crate) fn set_remarks(&mut self, remarks: Value) {
        self.extra_mut().insert(REMARKS, remarks);
    }

    /// Whether the codon cost more than is recorded: the agent, or one of the sentinels.
    #[must_use]
    pub fn cost_is_lower_bound(&self) -> bool {
        let of_sentinels = || self.sentinels().iter().any(SentinelState::cost_is_lower_bound);
        self.agent_cost_is_lower_bound() || of_sentinels()
    }

    /// Returns whether the agent of the codon cost more than is recorded, by an unknown amount, because it was cut off in an answer.
    #[must_use]
    pub fn agent_cost_is_lower_bound(&self) -> bool {
        self.extra().get(COST_IS_LOWER_BOUND) == Some(&Value::Bool(true))
    }

    /// Whether the codon cost more than is recorded, or its agent works and may be in the middle of an answer.
    #[must_use]
    pub fn spends_at_least(&self) -> bool {
        self.cost_is_lower_bound() || self.status() == CodonStatus::Running
    }

    /// Whether the agent of the codon used more tokens than are recorded, or works and may be in the middle of an answer.
    #[must_use]
    pub fn uses_at_least(&self) -> bool {
        self.agent_cost_is_lower_bound() || self.status() == CodonStatus::Running
    }

    /// Notes that the codon cost more than is recorded.
    pub(crate) fn set_cost_is_lower_bound(&mut self) {
        self.extra_mut().insert(COST_IS_LOWER_BOUND, Value::Bool(true));
    }

    /// Returns whether the codon failed because its server crashed, not by itself. How long it worked in all is unknown then.
    #[must_use]
    pub fn crashed(&self) -> bool {
        let message = self.failure_reason().and_then(|reason| reason.message.as_deref());
        self.status() == CodonStatus::Failed && message == Some(CRASHED)
    }

    /// Returns the duration of the codon once it has ended: the measured one, else the time from its start to its end. For a codon that
    /// [`crashed`](Self::crashed) only a measured duration counts; the codon worked at least that long.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let end = self.end_time().filter(|_| !self.crashed());
        let by_times = end.map(|end| end.since(*self.start_time()));
        let measured = self.extra().get(DURATION).and_then(Value::as_u64);
        measured.map(Duration::from_millis).or(by_times)
    }

    /// Number of checkpointed files that differed from the start of the codon when it ended, if they were compared.
    #[must_use]
    pub fn files_changed(&self) -> Option<u64> {
        self.extra().get(FILES_CHANGED)?.as_u64()
    }

    /// Copies undeclared facts of `other`, the stored record, into this record of a typed codon, which never has them, so that the two can be compared. The
    /// caller does not compare records with other undeclared facts, such as a budget that was reached.
    #[must_use]
    pub fn measured_like(mut self, other: &Self) -> Self {
        for name in [
            CHOSEN_AGENT,
            START_CHECKPOINT,
            ASKED,
            DURATION,
            FILES_CHANGED,
            RESULT,
        ] {
            if let Some(measured) = other.extra().get(name) {
                self.extra_mut().insert(name, measured.clone());
            }
        }
        self
    }

    /// Notes the measured values among the metadata of the event that ends the codon.
    pub(crate) fn set_measured(&mut self, metadata: &Map<String, Value>) {
        for name in [DURATION, FILES_CHANGED] {
            if let Some(measured) = metadata.get(name).filter(|value| value.is_u64()) {
                self.extra_mut().insert(name, measured.clone());
            }
        }
    }

    /// Returns the cause of the interruption, if the codon was interrupted: such a codon has no fault and can continue.
    #[must_use]
    pub fn interruption(&self) -> Option<InterruptedBy> {
        self.failure_reason()?.interruption()
    }
}
