//! One sentinel at work: its queue, its figures, and what it gives up.

use hankweave_core::cost::Usd;
use hankweave_core::sentinel::model::Conversation;
use hankweave_core::sentinel::{Failures, ReportToWebsocket, SentinelEngine, Tracked};
use hankweave_core::time::Timestamp;

use super::super::{Allowance, Loadable, SentinelBackend};
use super::unfinished::{Unfinished, UnfinishedKind};

/// A sentinel at work.
pub(super) struct ActiveSentinel {
    pub(super) loadable: Loadable,
    /// Which of its reports clients get.
    pub(super) reports: ReportToWebsocket,
    /// Decides when it acts, and has the queue of the times to act.
    pub(super) engine: SentinelEngine,
    /// Its status and figures.
    pub(super) tracked: Tracked,
    pub(super) failures: Failures,
    /// The questions and answers that its model remembers, if it remembers any.
    pub(super) conversation: Option<Conversation>,
    /// Whether it waits for an answer, or for the disk.
    pub(super) busy: bool,
    /// Work that it has left unfinished and not reported yet.
    pub(super) unfinished: Unfinished,
    /// Number of the times to act that the engine has dropped and that are either reported already or counted in `unfinished`.
    reported_dropped: u64,
}

impl ActiveSentinel {
    pub(super) fn new(loadable: Loadable, loaded_at: Timestamp) -> Self {
        let config = &loadable.config;
        let own_reports = config.report_to_websocket.unwrap_or_default();
        Self {
            reports: loadable.settings.report_to_websocket.merged_over(own_reports),
            engine: SentinelEngine::new(config),
            tracked: Tracked::new(config, loaded_at),
            failures: Failures::none(config),
            conversation: config.conversational.as_ref().map(Conversation::new),
            busy: false,
            unfinished: Unfinished::default(),
            reported_dropped: 0,
            loadable,
        }
    }

    /// Whether its loading and unloading are reported to clients.
    pub(super) fn reports_lifecycle(&self) -> bool {
        self.reports.lifecycle.unwrap_or(true)
    }

    /// Whether its answers cost something: those of a model, and those of a command that has reported a cost.
    pub(super) fn costs(&self) -> bool {
        match self.loadable.backend {
            SentinelBackend::Model(_) => true,
            SentinelBackend::Command => self.tracked.tally.cost > Usd::ZERO,
        }
    }

    /// If the sentinel costs something and no question may be asked any more, gives up its queue and returns `true`.
    pub(super) fn withhold(&mut self, allowance: &Allowance) -> bool {
        let is_withheld = self.costs() && !allowance.is_open();
        if is_withheld {
            self.give_up(allowance.why_closed());
        }
        is_withheld
    }

    /// Gives up the events that the sentinel has collected, its queue, and its open question, because its codon does not wait longer.
    pub(super) fn cut_short(&mut self, allowance: &Allowance) {
        if !self.tracked.is_active() {
            return;
        }
        let reason = allowance.why_cut();
        self.engine.flush();
        if !self.withhold(allowance) {
            self.give_up(reason);
        }
        if self.busy {
            self.busy = false;
            let kind = match self.costs() {
                true => UnfinishedKind::Answer,
                false => UnfinishedKind::Action,
            };
            self.unfinished.add(kind, 1, reason);
        }
    }

    fn give_up(&mut self, reason: &'static str) {
        let times = self.engine.give_up();
        self.reported_dropped += times as u64;
        let kind = match self.costs() {
            true => UnfinishedKind::Question,
            false => UnfinishedKind::Action,
        };
        self.unfinished.add(kind, times, reason);
    }

    /// Returns the number of times to act that were dropped since the last call, without those that are reported as unfinished.
    pub(super) fn take_dropped(&mut self) -> u64 {
        let all = self.engine.dropped();
        let new = all.saturating_sub(self.reported_dropped);
        self.reported_dropped = all;
        new
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hankweave_core::budget::CodonLimits;
    use hankweave_core::id::CodonId;
    use hankweave_core::sentinel::{MOST_FIRINGS, ObservedEvent, SentinelConfig, SentinelSettings};
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::super::super::files::SentinelFiles;
    use super::*;

    fn command_that_has_cost(cost: Usd) -> ActiveSentinel {
        let config: SentinelConfig = serde_json::from_value(json!({"id": "s", "name": "S", "command": ["x"],
            "trigger": {"type": "event", "on": ["info"]}, "execution": {"strategy": "immediate"}}))
        .unwrap();
        let settings = SentinelSettings::default();
        let outputs = SentinelFiles::of(&config, &settings, &CodonId::new("a").unwrap()).unwrap();
        let loadable = Loadable {
            config,
            settings,
            source_path: None,
            outputs,
            backend: SentinelBackend::Command,
        };
        let mut sentinel = ActiveSentinel::new(loadable, Timestamp::UNIX_EPOCH);
        sentinel.tracked.tally.cost = cost;
        sentinel
    }

    fn see(sentinel: &mut ActiveSentinel, count: usize) {
        let event = Arc::new(ObservedEvent::from_line(r#"{"type":"info","data":{}}"#).unwrap());
        for _ in 0..count {
            sentinel.engine.see(&event, std::time::Duration::ZERO);
        }
    }

    fn used_up() -> (Allowance, CancellationToken) {
        let limits = CodonLimits {
            left_of_ceiling: Some(Usd::from_micros(1)),
            ..CodonLimits::default()
        };
        let halt = CancellationToken::new();
        let allowance = Allowance::new(&limits, &halt);
        allowance.set_agent_cost(Usd::from_micros(1));
        (allowance, halt)
    }

    // covers: SENT-13, SENT-20
    #[test]
    fn a_command_that_costs_nothing_is_cut_short_by_its_codon_and_not_by_the_budget() {
        let (allowance, halt) = used_up();
        for reason in ["the codon has ended", "its codon did not wait for it"] {
            let mut sentinel = command_that_has_cost(Usd::ZERO);
            see(&mut sentinel, 2);
            sentinel.busy = true;
            assert!(!sentinel.withhold(&allowance), "it may go on");
            sentinel.cut_short(&allowance);
            let said = format!("it did not act 3 more times, because {reason}");
            assert_eq!(sentinel.unfinished.take(), [said]);
            halt.cancel();
        }
    }

    // covers: SENT-13, SENT-20
    #[test]
    fn a_command_that_costs_has_no_answer_where_it_is_cut_and_is_not_asked_without_money() {
        let (allowance, _) = used_up();
        let mut sentinel = command_that_has_cost(Usd::from_micros(1));
        see(&mut sentinel, 2);
        sentinel.busy = true;
        sentinel.cut_short(&allowance);
        let said = [
            "2 questions were not asked, because the budget is used up",
            "1 question got no answer, because the codon has ended",
        ];
        assert_eq!(sentinel.unfinished.take(), said);
    }

    // covers: SENT-5
    #[test]
    fn what_did_not_fit_in_the_queue_is_warned_of_once() {
        let mut sentinel = command_that_has_cost(Usd::ZERO);
        see(&mut sentinel, MOST_FIRINGS + 5);
        sentinel.cut_short(&used_up().0);
        assert_eq!(
            sentinel.take_dropped(),
            5,
            "the others are reported as unfinished"
        );
        assert_eq!(sentinel.take_dropped(), 0);
    }
}
