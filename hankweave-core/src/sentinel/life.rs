//! The life of a sentinel: its state machine, its figures, and the failures after which it is taken out of service (SENT-6, SENT-7).

pub mod machine;

use self::machine::SentinelLife;
use self::machine::sentinel::{Sentinel, SentinelTransition, Unload};
use super::SentinelConfig;
use crate::codon::{SentinelState, SentinelStatus, UnloadReason};
use crate::cost::Usd;
use crate::machine::Extra;
use crate::time::Timestamp;

/// Activity of a sentinel so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentinelCounts {
    /// Answers that were asked for, failed ones included.
    pub calls: u64,
    /// Number of these that failed.
    pub failed: u64,
    /// Time at which an answer was last asked for.
    pub last_call: Option<Timestamp>,
    /// Number of times that the sentinel was triggered.
    pub triggers: u64,
    /// Known cost of the answers.
    pub cost: Usd,
    /// Number of requests with an unknown cost: they have no answer yet, were cut off, or have no price.
    pub uncounted: u64,
}

/// A sentinel and its figures, as they are recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracked {
    life: SentinelLife,
    /// Activity so far.
    pub tally: SentinelCounts,
    /// Last answer for people.
    pub last_answer: Option<String>,
    /// Last failure for people.
    pub last_failure: Option<String>,
    /// Spending limit.
    limit: Option<Usd>,
}

impl Tracked {
    /// Returns a sentinel that starts to watch.
    #[must_use]
    pub fn new(config: &SentinelConfig, at: Timestamp) -> Self {
        let life = Sentinel::new(config.id.clone(), config.model_name().to_owned(), at);
        Self {
            life: life.into_life(),
            tally: SentinelCounts::default(),
            last_answer: None,
            last_failure: None,
            limit: config.max_dollars,
        }
    }

    /// Returns the state.
    #[must_use]
    pub const fn life(&self) -> &SentinelLife {
        &self.life
    }

    /// Whether the sentinel is still in service.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.life.is_terminal()
    }

    /// Notes that no new events will occur; the sentinel still acts on those that wait.
    pub fn drain(&mut self) {
        self.step(SentinelTransition::Drain);
    }

    /// Takes the sentinel out of service; returns whether it was in service.
    pub fn unload(&mut self, unloaded_at: Timestamp, reason: UnloadReason) -> bool {
        self.step(SentinelTransition::Unload(Unload { unloaded_at, reason }))
    }

    /// Whether the cost has reached the sentinel's limit.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.limit.is_some_and(|limit| self.tally.cost >= limit)
    }

    /// Returns the record for the state document.
    #[must_use]
    pub fn record(&self) -> SentinelState {
        let SentinelCounts {
            calls,
            failed,
            last_call,
            triggers,
            cost,
            uncounted,
        } = self.tally;
        let unloaded = match &self.life {
            SentinelLife::Unloaded(unloaded) => Some((unloaded.unloaded_at, unloaded.reason)),
            SentinelLife::Watching(_) | SentinelLife::Draining(_) => None,
        };
        SentinelState {
            id: self.life.id().clone(),
            model: self.life.model().clone(),
            loaded_at: *self.life.loaded_at(),
            llm_call_count: calls,
            failed_llm_calls: failed,
            last_llm_call_at: last_call,
            total_triggers: triggers,
            total_cost: cost,
            uncounted_requests: uncounted,
            status: match unloaded {
                Some(_) => SentinelStatus::Unloaded,
                None => SentinelStatus::Active,
            },
            unloaded_at: unloaded.map(|(at, _)| at),
            unload_reason: unloaded.map(|(_, reason)| reason),
            last_answer: self.last_answer.clone(),
            last_failure: self.last_failure.clone(),
            extra: Extra::default(),
        }
    }

    /// Takes a transition, and returns whether the present state has it.
    fn step(&mut self, step: SentinelTransition) -> bool {
        match self.life.clone().apply(step) {
            Ok(life) => {
                self.life = life;
                true
            }
            Err(_) => false,
        }
    }
}

/// Counter of failures in a row, and the rules for taking the sentinel out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    in_a_row: u64,
    /// Number of failures in a row that takes the sentinel out of service.
    most: u64,
    /// Whether one fatal failure takes the sentinel out of service.
    unload_on_fatal: bool,
    /// Whether the sentinel continues after any number of failures in a row.
    tolerant: bool,
}

impl Failures {
    /// Returns a counter without failures.
    #[must_use]
    pub fn none(config: &SentinelConfig) -> Self {
        let handling = config.error_handling.unwrap_or_default();
        let conversational = config.conversational.as_ref();
        Self {
            in_a_row: 0,
            most: handling.max_consecutive_failures.unwrap_or(3),
            unload_on_fatal: handling.unload_on_fatal_error.unwrap_or(true),
            tolerant: conversational.is_some_and(|talk| talk.continue_on_error == Some(true)),
        }
    }

    /// Returns the number of failures in a row.
    #[must_use]
    pub const fn in_a_row(&self) -> u64 {
        self.in_a_row
    }

    /// Notes a success, which ends a row of failures.
    pub const fn succeeded(&mut self) {
        self.in_a_row = 0;
    }

    /// Notes a failure; `fatal` means that every further request would fail, too. Returns the reason for which the sentinel has to be taken out of service,
    /// if it has to.
    pub fn failed(&mut self, fatal: bool) -> Option<UnloadReason> {
        self.in_a_row += 1;
        match fatal {
            true if self.unload_on_fatal => Some(UnloadReason::FatalError),
            _ if self.in_a_row >= self.most && !self.tolerant => Some(UnloadReason::ConsecutiveFailures),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(more: Value) -> SentinelConfig {
        let mut config = json!({"id": "s", "name": "S", "command": ["x"], "trigger": {"type": "event", "on": ["*"]},
            "execution": {"strategy": "immediate"}});
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(config).unwrap()
    }

    // covers: SENT-6
    #[test]
    fn a_sentinel_is_unloaded_once_and_its_record_says_when_and_why() {
        let at = Timestamp::from_millis;
        let mut tracked = Tracked::new(&config(json!({})), at(1));
        assert_eq!(tracked.record().status, SentinelStatus::Active);
        tracked.drain();
        assert!(matches!(tracked.life(), SentinelLife::Draining(_)));
        assert!(tracked.unload(at(2), UnloadReason::FatalError));
        assert!(
            !tracked.unload(at(3), UnloadReason::CodonComplete),
            "the first reason stays"
        );
        tracked.drain();
        let record = tracked.record();
        assert_eq!(
            (record.unloaded_at, record.unload_reason),
            (Some(at(2)), Some(UnloadReason::FatalError))
        );
        assert_eq!(
            (record.status, record.model.as_str()),
            (SentinelStatus::Unloaded, "command")
        );
    }

    // covers: SENT-7
    #[test]
    fn failures_in_a_row_and_fatal_ones_take_it_out_of_service() {
        let mut failures = Failures::none(&config(json!({})));
        assert_eq!([failures.failed(false), failures.failed(false)], [None, None]);
        failures.succeeded();
        assert_eq!([failures.failed(false), failures.failed(false)], [None, None]);
        assert_eq!(failures.failed(false), Some(UnloadReason::ConsecutiveFailures));
        assert_eq!(
            Failures::none(&config(json!({}))).failed(true),
            Some(UnloadReason::FatalError)
        );
        let patient = json!({"errorHandling": {"maxConsecutiveFailures": 2, "unloadOnFatalError": false}});
        let mut failures = Failures::none(&config(patient));
        assert_eq!(failures.failed(true), None);
        assert_eq!(failures.failed(true), Some(UnloadReason::ConsecutiveFailures));
    }

    // covers: SENT-7
    #[test]
    fn a_sentinel_is_spent_at_its_limit() {
        let mut tracked = Tracked::new(&config(json!({"maxDollars": 0.5})), Timestamp::UNIX_EPOCH);
        tracked.tally.cost = Usd::from_micros(499_999);
        assert!(!tracked.is_spent());
        tracked.tally.cost = Usd::from_micros(500_000);
        assert!(tracked.is_spent());
    }
}
