//! Progress of a task, which its job collects from the events that the run prints (TASK-54).

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::Ceiling;
use hankweave_core::codon::{BudgetExceeded, CodonStatus};
use hankweave_core::cost::Usd;
use hankweave_core::view::AttemptState;
use hankweave_task_model::registry::TaskCost;
use hankweave_task_model::task::TaskApproval;
use serde_json::{Map, Value, json};

/// Event that gets a line in the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Milestone {
    /// A codon's agent has started.
    Started(String),
    /// A client of the live run has answered the question of a codon.
    Answered(TaskApproval),
    /// The run continues after a suspension of this many milliseconds.
    Continued(u64),
    /// A codon has ended.
    Ended {
        /// Codon.
        codon: String,
        /// Whether it succeeded.
        success: bool,
        /// Outcome as a word.
        outcome: &'static str,
        /// Data of the event.
        data: Value,
    },
}

/// Number of an agent's last lines that are kept, and the longest length of one, in characters.
const MOST_LINES: usize = 10;
const LONGEST_LINE: usize = 500;

/// Number of codons beyond their budgets that a result names.
const NAMED: usize = 3;

/// Failed codon of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FailedCodon {
    pub(super) codon: String,
    /// Cause, which may have several lines.
    pub(super) cause: String,
}

/// Progress of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TaskProgress {
    /// Codon whose agent works now.
    running: Option<String>,
    /// Whether a user skipped the newest codon, or no budget was left for it.
    is_skipped: bool,
    /// Data of the ended codons, as in the log.
    codons: Vec<Value>,
    /// Cost of the ended codons.
    cost: Usd,
    cost_is_lower_bound: bool,
    /// Last failed codon; `None` once a later codon has completed.
    failed: Option<FailedCodon>,
    /// Reason why the run paused.
    pause: Option<RunPause>,
    /// Total budget of the run; without limits until the run reports it at its end.
    ceiling: Ceiling,
    /// Last lines of the agent of the newest codon.
    last_lines: VecDeque<String>,
}

impl TaskProgress {
    /// Reads one event of the run, and returns the log line that it needs, if any.
    pub(super) fn take(&mut self, line: &[u8]) -> Option<Milestone> {
        let event: Value = serde_json::from_slice(line).ok()?;
        let data = &event["data"];
        let codon = || data["codonId"].as_str().map(str::to_owned);
        match event["type"].as_str()? {
            "codon.started" => {
                self.running = codon();
                Some(Milestone::Started(codon()?))
            }
            "run.continued" => data["suspendedMs"].as_u64().map(Milestone::Continued),
            "codon.completed" => Some(self.end_codon(codon()?, data)),
            "assistant.action" if data["action"] == "message" => self.keep_lines(&data["content"]),
            // Only the output of the command: the cause of the failure already names the command.
            "check.completed" if data["passed"] == false => self.keep_lines(&data["says"]),
            "budget.summary" => {
                self.ceiling = ceiling(&data["ceiling"]);
                None
            }
            "tool.result" if data["isError"] == true => self.keep_lines(&data["result"]),
            "state.transition" => self.read_transition(&data["transition"]),
            _ => None,
        }
    }

    /// Keeps the last lines of an agent's or a check's output.
    fn keep_lines(&mut self, text: &Value) -> Option<Milestone> {
        let lines = text.as_str()?.lines().map(str::trim_end);
        for line in lines.filter(|line| !line.is_empty()) {
            if self.last_lines.len() == MOST_LINES {
                self.last_lines.pop_front();
            }
            self.last_lines
                .push_back(line.chars().take(LONGEST_LINE).collect());
        }
        None
    }

    /// Reads a transition of the run's own state machines: causes of failures and pauses, and answers.
    fn read_transition(&mut self, transition: &Value) -> Option<Milestone> {
        let data = &transition["data"];
        match transition["type"].as_str()? {
            "RunStarted" => (self.failed, self.pause) = (None, None),
            "CodonStarted" => {
                self.is_skipped = false;
                self.last_lines.clear();
            }
            "CodonTransitioned" if data["to"] == "skipped" => self.is_skipped = true,
            "CodonTransitioned" if data["to"] == "completed" => self.failed = None,
            "CodonTransitioned" if data["to"] == "failed" => {
                let metadata = &data["metadata"];
                let cause = metadata["failureReason"]["message"].as_str();
                let cause = cause.unwrap_or("it failed without a message");
                self.failed = Some(FailedCodon {
                    codon: data["codonId"].as_str()?.to_owned(),
                    // The hint is needed: a plain resume would pay for this failure again.
                    cause: match exceeded_of(metadata) {
                        None => cause.to_owned(),
                        Some(exceeded) => {
                            let key = exceeded.key_in_hank().unwrap_or("budget");
                            format!(
                                "{cause} (a larger {key} in hank.json first, or the next attempt fails too)"
                            )
                        }
                    },
                });
            }
            "ApprovalSet" => return answer_milestone(&data["approval"]),
            "RunFailed" => self.pause = RunPause::of(data),
            _ => {}
        }
        None
    }

    /// Returns the codon that made the run fail.
    pub(super) fn failed(&self) -> Option<&FailedCodon> {
        self.failed.as_ref().filter(|_| self.pause.is_none())
    }

    /// Returns why the run paused, if it did.
    pub(super) fn pause(&self) -> Option<&RunPause> {
        self.pause.as_ref()
    }

    /// Returns the total budget at which the run paused.
    pub(super) fn spent_ceiling(&self) -> Option<Ceiling> {
        let is_spent = self.pause.as_ref()?.by == InterruptedBy::Ceiling;
        is_spent.then_some(self.ceiling)
    }

    /// Returns the total budget in US dollars, once the run has reported it at its end.
    pub(super) fn budget(&self) -> Option<Usd> {
        self.ceiling.max_dollars
    }

    /// Returns the last lines of the newest codon's agent, the newest last.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.last_lines.iter().cloned().collect()
    }

    /// Adds a codon that has ended.
    fn end_codon(&mut self, codon: String, data: &Value) -> Milestone {
        let cost = dollars(&data["cost"]) + dollars(&data["sentinelCost"]);
        let success = data["success"].as_bool().unwrap_or(false);
        let is_lower_bound = data["costIsLowerBound"] == true;
        self.cost += cost;
        self.cost_is_lower_bound |= is_lower_bound;
        self.running = None;
        let mut ended = json!({
            "id": codon, "success": success, "cost": cost, "duration": data["duration"],
        });
        if is_lower_bound {
            ended["costIsLowerBound"] = true.into();
        }
        if let Some(files) = data["filesChanged"].as_u64() {
            ended["filesChanged"] = files.into();
        }
        let outcome = match self.is_skipped {
            true => AttemptState::Skipped.as_str(),
            false => outcome(success, &data["failureReason"]["interruptedBy"]),
        };
        // Readers take a missing outcome from `success`.
        if outcome != uninterrupted_outcome(success) {
            ended["outcome"] = outcome.into();
        }
        let exceeded = exceeded_of(data);
        if let Some(exceeded) = exceeded.filter(|_| success) {
            ended["overBudget"] = budget_reached(exceeded, is_lower_bound).into();
        }
        if success && !data["result"].is_null() {
            ended["result"] = data["result"].clone();
        }
        let data = ended;
        self.codons.push(data.clone());
        Milestone::Ended {
            codon,
            success,
            outcome,
            data,
        }
    }

    /// Returns the completed codons that reached limits of their own, with the overrun: a sentence about the result; `None` if none did.
    pub(super) fn over_budgets(&self) -> Option<String> {
        let over: Vec<String> = self.codons.iter().filter_map(over_budget).collect();
        let named = over[..over.len().min(NAMED)].join("; ");
        match over.len().saturating_sub(NAMED) {
            0 => (!named.is_empty()).then_some(named),
            more => Some(format!("{named}; and {more} more")),
        }
    }

    /// Returns the number of codons that have ended.
    pub(super) fn ended_codons(&self) -> usize {
        self.codons.len()
    }

    /// Returns the total cost of the ended codons.
    pub(super) fn cost(&self) -> Usd {
        self.cost
    }

    /// Whether the ended codons cost more than is known.
    pub(super) fn cost_is_lower_bound(&self) -> bool {
        self.cost_is_lower_bound
    }

    /// Writes the progress of this attempt, and the cost of all attempts, into the data of a state.
    pub(super) fn put_into(&self, attempt: u32, cost: TaskCost, data: &mut Map<String, Value>) {
        data.insert("attempt".into(), json!(attempt));
        data.insert("running".into(), json!(self.running));
        data.insert("codons".into(), Value::Array(self.codons.clone()));
        data.insert("cost".into(), json!(cost.cost));
        data.insert("lastAttemptCost".into(), json!(cost.last_attempt_cost));
        for (name, is_lower_bound) in [
            ("costIsLowerBound", cost.cost_is_lower_bound),
            (
                "lastAttemptCostIsLowerBound",
                cost.last_attempt_cost_is_lower_bound,
            ),
        ] {
            match is_lower_bound {
                true => drop(data.insert(name.into(), true.into())),
                false => drop(data.shift_remove(name)),
            }
        }
        match cost.budget {
            Some(budget) => drop(data.insert("budget".into(), json!(budget))),
            None => drop(data.shift_remove("budget")),
        }
    }
}

/// Returns an ended codon that reached a limit of its own, in words.
fn over_budget(codon: &Value) -> Option<String> {
    let over = codon["overBudget"].as_str()?;
    Some(format!("{}: {over}", codon["id"].as_str()?))
}

/// Returns the limit that the end of a codon names.
fn exceeded_of(end: &Value) -> Option<BudgetExceeded> {
    serde_json::from_value(end["budgetExceeded"].clone()).ok()
}

/// Returns the limit that a completed codon reached: `budget reached: used $0.0300 of $0.0110, over its budget by $0.0190`.
fn budget_reached(exceeded: BudgetExceeded, is_lower_bound: bool) -> String {
    format!("budget reached: {}", exceeded.words_with_overrun(is_lower_bound))
}

/// Returns the outcome of a codon, in the word of every other screen: `paused` if a budget interrupted it.
fn outcome(success: bool, interrupted_by: &Value) -> &'static str {
    let by: Option<InterruptedBy> = serde_json::from_value(interrupted_by.clone()).ok();
    match by.filter(|_| !success) {
        Some(_) => AttemptState::of(CodonStatus::Failed, by).map_or("failed", AttemptState::as_str),
        None => uninterrupted_outcome(success),
    }
}

/// Returns the outcome of a codon that was not interrupted.
const fn uninterrupted_outcome(success: bool) -> &'static str {
    if success { "completed" } else { "failed" }
}

/// Returns the answer that a run has recorded; `None` if the run has removed an answer.
fn answer_milestone(answer: &Value) -> Option<Milestone> {
    Some(Milestone::Answered(TaskApproval {
        codon_id: answer["codonId"].as_str()?.to_owned(),
        granted: answer["granted"].as_bool()?,
        by: answer["by"].as_str().unwrap_or("a client of its run").to_owned(),
        reason: answer["reason"].as_str().map(str::to_owned),
    }))
}

/// Returns the total budget in a budget summary.
fn ceiling(data: &Value) -> Ceiling {
    let limit = |name: &str| data[name].as_f64();
    Ceiling {
        max_dollars: limit("maxDollars").and_then(|dollars| Usd::from_dollars(dollars).ok()),
        max_time: limit("maxTimeSeconds").and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    }
}

/// Pause of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunPause {
    by: InterruptedBy,
    /// Cause in the run's own words.
    cause: Option<String>,
}

impl RunPause {
    /// Returns the pause of a run that failed with this data; `None` if it did not pause.
    fn of(data: &Value) -> Option<Self> {
        let by: InterruptedBy = serde_json::from_value(data["interruptedBy"].clone()).ok()?;
        by.is_pause().then(|| Self {
            by,
            cause: data["cause"].as_str().map(str::to_owned),
        })
    }
}

/// Shows the cause, in the run's own words if it has some: `paused: draft: the total budget is used up: used $0.7500 of $0.5000`.
impl fmt::Display for RunPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cause) = &self.cause {
            return write!(f, "paused: {cause}");
        }
        f.write_str(match self.by {
            InterruptedBy::Ceiling => "paused: the total budget is spent",
            InterruptedBy::UsageLimit => "paused: the usage limit of the provider is reached",
            InterruptedBy::Approval => "paused: an approval is needed",
            InterruptedBy::Sentinel => "paused: a sentinel asked for it",
            InterruptedBy::Stuck => {
                "paused: a loop is stuck, for nothing changed and its check printed the same as before"
            }
            InterruptedBy::Disk => "paused: the record takes as much room as it may",
            // Not reached: these are no pauses.
            InterruptedBy::Stop | InterruptedBy::LostSession => "paused",
        })
    }
}

fn dollars(amount: &Value) -> Usd {
    let dollars = amount.as_f64().unwrap_or_default();
    Usd::from_dollars(dollars).unwrap_or(Usd::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-54
    #[test]
    fn events_of_codons_are_counted_and_others_say_nothing() {
        let mut progress = TaskProgress::default();
        let mut take = |event: Value| progress.take(event.to_string().as_bytes());
        assert_eq!(take(json!({"type": "info", "data": {}})), None);
        let started = take(json!({"type": "codon.started", "data": {"codonId": "draft"}}));
        assert_eq!(started, Some(Milestone::Started("draft".into())));
        let continued = take(json!({"type": "run.continued", "data": {"runId": "r", "suspendedMs": 7}}));
        assert_eq!(continued, Some(Milestone::Continued(7)));
        let ended = json!({"type": "codon.completed", "data": {"codonId": "draft", "success": true, "cost": 0.25, "sentinelCost": 0.5, "duration": 7}});
        let Some(Milestone::Ended { codon, success, .. }) = take(ended) else {
            panic!("it has ended")
        };
        assert_eq!((codon.as_str(), success), ("draft", true));
        assert_eq!(progress.take(b"no json"), None);
        let mut data = Map::new();
        let cost = TaskCost {
            cost: progress.cost() + progress.cost(),
            last_attempt_cost: progress.cost(),
            last_attempt_cost_is_lower_bound: false,
            cost_is_lower_bound: progress.cost_is_lower_bound(),
            budget: None,
            before_anew: None,
        };
        progress.put_into(2, cost, &mut data);
        let codon = json!({"id": "draft", "success": true, "cost": 0.75, "duration": 7});
        assert_eq!(
            Value::Object(data),
            json!({"attempt": 2, "running": null, "codons": [codon], "cost": 1.5, "lastAttemptCost": 0.75})
        );
    }

    // covers: TASK-54, TASK-122
    #[test]
    fn a_limit_that_a_codon_exceeded_is_told_with_its_end() {
        let mut progress = TaskProgress::default();
        let mut take = |event: Value| progress.take(event.to_string().as_bytes());
        let exceeded = json!({"currency": "cost", "limit": 0.01, "used": 0.029});
        let ended = take(
            json!({"type": "codon.completed", "data": {"codonId": "build", "success": true, "cost": 0.029, "duration": 7, "budgetExceeded": exceeded}}),
        );
        let Some(Milestone::Ended { data, .. }) = ended else {
            panic!("it has ended")
        };
        assert_eq!(
            data["overBudget"],
            "budget reached: used $0.0290 of $0.0100, over its budget by $0.0190"
        );
        let ended = take(
            json!({"type": "codon.completed", "data": {"codonId": "build", "success": true, "cost": 0.029, "costIsLowerBound": true, "duration": 7, "budgetExceeded": exceeded}}),
        );
        let Some(Milestone::Ended { data, .. }) = ended else {
            panic!("it has ended")
        };
        assert_eq!(
            data["overBudget"],
            "budget reached: used at least $0.0290 of $0.0100, over its budget by at least $0.0190"
        );
        let rest = json!({"currency": "cost", "limit": 0.0373, "used": 0.048, "total": 0.1});
        let ended = take(
            json!({"type": "codon.completed", "data": {"codonId": "tidy", "success": true, "cost": 0.048, "duration": 7, "budgetExceeded": rest}}),
        );
        let Some(Milestone::Ended { data, .. }) = ended else {
            panic!("it has ended")
        };
        assert_eq!(
            data["overBudget"],
            "budget reached: used $0.0480 of the $0.0373 left of the total of $0.1000, over the total by $0.0107"
        );
        let reason = json!({"message": "the budget is used up: used $0.0290 of $0.0100"});
        let failed = json!({"type": "CodonTransitioned", "data": {"codonId": "build", "to": "failed",
            "metadata": {"failureReason": reason, "budgetExceeded": exceeded}}});
        take(json!({"type": "state.transition", "data": {"transition": failed}}));
        let cause = "the budget is used up: used $0.0290 of $0.0100 (a larger `maxDollars` in hank.json first, or the next attempt fails too)";
        assert_eq!(progress.failed().map(|failed| failed.cause.as_str()), Some(cause));
    }

    // covers: TASK-54
    #[test]
    fn a_codon_that_is_skipped_has_not_failed() {
        let mut progress = TaskProgress::default();
        let mut take = |event: Value| progress.take(event.to_string().as_bytes());
        let step =
            |transition: Value| json!({"type": "state.transition", "data": {"transition": transition}});
        let ended = |codon: &str| json!({"type": "codon.completed", "data": {"codonId": codon, "success": false, "cost": 0.25, "duration": 7}});
        let mut outcomes = Vec::new();
        for (codon, to) in [("build", "skipped"), ("test", "failed")] {
            take(step(json!({"type": "CodonStarted", "data": {"codonId": codon}})));
            take(step(
                json!({"type": "CodonTransitioned", "data": {"codonId": codon, "to": to}}),
            ));
            if let Some(Milestone::Ended { outcome, data, .. }) = take(ended(codon)) {
                outcomes.push((outcome, data["outcome"].clone()));
            }
        }
        assert_eq!(outcomes, [("skipped", json!("skipped")), ("failed", Value::Null)]);
        assert_eq!(
            progress.failed().map(|failed| failed.codon.as_str()),
            Some("test")
        );
    }

    // covers: TASK-54
    #[test]
    fn codons_beyond_their_budgets_are_named_with_the_overrun() {
        let mut progress = TaskProgress::default();
        assert_eq!(progress.over_budgets(), None);
        for number in 0..5 {
            let ended = json!({"type": "codon.completed", "data": {"codonId": format!("fix#{number}"), "success": number > 0, "cost": 0.03,
                "duration": 7, "budgetExceeded": {"currency": "cost", "limit": 0.011, "used": 0.03}}});
            progress.take(ended.to_string().as_bytes());
        }
        let over = "budget reached: used $0.0300 of $0.0110, over its budget by $0.0190";
        assert_eq!(
            progress.over_budgets().unwrap(),
            format!("fix#1: {over}; fix#2: {over}; fix#3: {over}; and 1 more")
        );
    }
}
