//! Decides when a sentinel acts (SENT-4, SENT-5): the four strategies, and the queue of firings. A firing is one time that the sentinel has to act.
//!
//! The caller passes each event to `see`, calls `tick` when `due` has come, and takes firings with `next_firing`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::trigger::Matcher;
use super::{ObservedEvent, SentinelConfig, SentinelExecution};

/// Maximum of firings in the queue.
pub const MOST_FIRINGS: usize = 100;

/// Maximum of events in the queue.
pub const MOST_EVENTS: usize = 10_000;

/// Maximum length of all events in the queue, in bytes.
pub const MOST_BYTES: usize = 16 << 20;

/// One time that a sentinel acts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Firing {
    /// Number of the firing, counted from 1.
    pub number: u64,
    /// Events to act on, oldest first.
    pub events: Vec<Arc<ObservedEvent>>,
}

/// Events in order; the oldest are dropped when there are too many.
#[derive(Debug, Clone, Default)]
struct EventBuffer {
    events: VecDeque<Arc<ObservedEvent>>,
    /// Length of all events.
    bytes: usize,
    /// Number of matches of the trigger that added events.
    matches: u64,
}

impl EventBuffer {
    fn add(&mut self, events: Vec<Arc<ObservedEvent>>) {
        self.matches += 1;
        self.bytes += bytes(&events);
        self.events.extend(events);
        while (self.events.len() > MOST_EVENTS || self.bytes > MOST_BYTES) && self.events.len() > 1 {
            if let Some(oldest) = self.events.pop_front() {
                self.bytes -= oldest.line.len();
            }
        }
    }
}

/// Decides when a sentinel acts. All times are counted from the loading of the sentinel, and never decrease.
#[derive(Debug, Clone)]
pub struct SentinelEngine {
    matcher: Matcher,
    execution: SentinelExecution,
    /// Events for the next firing.
    collected: EventBuffer,
    /// When the collected events have to be fired.
    due: Option<Duration>,
    /// Start of the first time window.
    first_window: Option<Duration>,
    queue: VecDeque<Firing>,
    queued_events: usize,
    queued_bytes: usize,
    /// Number of all firings so far.
    fired: u64,
    /// Number of firings that were dropped from the queue.
    dropped: u64,
}

impl SentinelEngine {
    /// Returns the engine of a sentinel that has seen nothing yet.
    #[must_use]
    pub fn new(config: &SentinelConfig) -> Self {
        Self {
            matcher: Matcher::new(&config.trigger),
            execution: config.execution,
            collected: EventBuffer::default(),
            due: None,
            first_window: None,
            queue: VecDeque::new(),
            queued_events: 0,
            queued_bytes: 0,
            fired: 0,
            dropped: 0,
        }
    }

    /// Whether the engine has to see events of this type.
    #[must_use]
    pub fn is_interested(&self, kind: &str) -> bool {
        self.matcher.is_interested(kind)
    }

    /// Takes an event that occurred at `now`, and fires if the strategy says so.
    pub fn see(&mut self, event: &Arc<ObservedEvent>, now: Duration) {
        // Collected events that are due by now are fired without this one.
        self.tick(now);
        let Some(events) = self.matcher.see(event) else {
            return;
        };
        self.collected.add(events);
        match self.execution {
            SentinelExecution::Immediate => self.fire(),
            SentinelExecution::Count { threshold } if self.collected.matches >= threshold => self.fire(),
            SentinelExecution::Count { .. } => {}
            SentinelExecution::Debounce { milliseconds } => {
                self.due = Some(now + Duration::from_millis(milliseconds))
            }
            SentinelExecution::TimeWindow { milliseconds } => {
                if self.due.is_none() {
                    self.due = Some(self.end_of_window(now, Duration::from_millis(milliseconds)));
                }
            }
        }
    }

    /// Returns the end of the window that contains `now`. The first window starts with the first event; the others follow without gaps, with or without
    /// events.
    fn end_of_window(&mut self, now: Duration, length: Duration) -> Duration {
        let first = *self.first_window.get_or_insert(now);
        let length = length.max(Duration::from_millis(1));
        let whole = (now - first).as_nanos() / length.as_nanos();
        let windows = u32::try_from(whole + 1).unwrap_or(u32::MAX);
        first + length * windows
    }

    /// Returns the time at which [`tick`](Self::tick) is needed next, unless an event occurs before.
    #[must_use]
    pub const fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Fires if the collected events are due at `now`.
    pub fn tick(&mut self, now: Duration) {
        if self.due.is_some_and(|due| due <= now) {
            self.fire();
        }
    }

    /// Fires the collected events, because no more will occur.
    pub fn flush(&mut self) {
        if self.collected.matches > 0 {
            self.fire();
        }
    }

    /// Takes the next firing from the queue.
    pub fn next_firing(&mut self) -> Option<Firing> {
        let next = self.queue.pop_front()?;
        self.queued_events -= next.events.len();
        self.queued_bytes -= bytes(&next.events);
        Some(next)
    }

    /// Drops all firings in the queue, and returns their number.
    pub fn give_up(&mut self) -> usize {
        let given_up = std::iter::from_fn(|| self.next_firing()).count();
        self.dropped += given_up as u64;
        given_up
    }

    /// Returns the number of firings in the queue.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of all firings so far.
    #[must_use]
    pub const fn fired(&self) -> u64 {
        self.fired
    }

    /// Returns the number of dropped firings: the queue was too long, or the sentinel may not act any more.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Queues the collected events as one firing, and drops the oldest firings if the queue is too long.
    fn fire(&mut self) {
        self.due = None;
        let EventBuffer { events, bytes, .. } = std::mem::take(&mut self.collected);
        self.fired += 1;
        self.queued_events += events.len();
        self.queued_bytes += bytes;
        self.queue.push_back(Firing {
            number: self.fired,
            events: events.into(),
        });
        let is_too_long = |engine: &Self| {
            engine.queue.len() > MOST_FIRINGS
                || engine.queued_events > MOST_EVENTS
                || engine.queued_bytes > MOST_BYTES
        };
        while self.queue.len() > 1 && is_too_long(self) {
            self.next_firing();
            self.dropped += 1;
        }
    }
}

fn bytes(events: &[Arc<ObservedEvent>]) -> usize {
    events.iter().map(|event| event.line.len()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn engine(execution: Value) -> SentinelEngine {
        let config = json!({"id": "s", "name": "S", "command": ["x"], "trigger": {"type": "event", "on": ["info"]}, "execution": execution});
        SentinelEngine::new(&serde_json::from_value(config).unwrap())
    }

    fn seen(number: usize) -> Arc<ObservedEvent> {
        let line = json!({"type": "info", "data": {"n": number}}).to_string();
        Arc::new(ObservedEvent::from_line(&line).unwrap())
    }

    /// The numbers of the events that each firing has, when events come with these pauses between them, in milliseconds.
    fn fired(engine: &mut SentinelEngine, pauses: &[u64]) -> Vec<Vec<usize>> {
        let (mut now, mut all) = (Duration::ZERO, Vec::new());
        let mut collect = |engine: &mut SentinelEngine| {
            while let Some(firing) = engine.next_firing() {
                assert_eq!(firing.number, all.len() as u64 + 1);
                all.push(
                    firing
                        .events
                        .iter()
                        .map(|event| usize::try_from(event.data["n"].as_u64().unwrap()).unwrap())
                        .collect(),
                );
            }
        };
        for (number, pause) in pauses.iter().enumerate() {
            now += Duration::from_millis(*pause);
            engine.see(&seen(number), now);
            collect(engine);
        }
        engine.flush();
        collect(engine);
        assert_eq!((engine.due(), engine.waiting(), engine.dropped()), (None, 0, 0));
        all
    }

    /// Groups the events: a new group starts wherever `splits` is true of two neighbours.
    fn groups(times: &[u64], splits: impl Fn(u64, u64) -> bool) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (number, time) in times.iter().enumerate() {
            match groups.last_mut() {
                Some(group) if !splits(times[number - 1], *time) => group.push(number),
                _ => groups.push(vec![number]),
            }
        }
        groups
    }

    fn times(pauses: &[u64]) -> Vec<u64> {
        pauses
            .iter()
            .scan(0, |now, pause| {
                *now += pause;
                Some(*now)
            })
            .collect()
    }

    proptest! {
        // covers: SENT-4
        #[test]
        fn a_count_makes_exact_batches_and_the_rest_comes_at_the_end(
            threshold in 1usize..7, pauses in prop::collection::vec(0u64..50, 0..60),
        ) {
            let numbers: Vec<usize> = (0..pauses.len()).collect();
            let expected: Vec<Vec<usize>> = numbers.chunks(threshold).map(<[usize]>::to_vec).collect();
            prop_assert_eq!(fired(&mut engine(json!({"strategy": "count", "threshold": threshold})), &pauses), expected);
        }

        // covers: SENT-4
        #[test]
        fn a_debounce_waits_until_nothing_has_come_for_a_while(
            quiet in 1u64..50, pauses in prop::collection::vec(0u64..60, 0..60),
        ) {
            let expected = groups(&times(&pauses), |before, now| now - before >= quiet);
            prop_assert_eq!(fired(&mut engine(json!({"strategy": "debounce", "milliseconds": quiet})), &pauses), expected);
        }

        // covers: SENT-4
        #[test]
        fn windows_follow_one_another_from_the_first_event_on(
            length in 1u64..50, pauses in prop::collection::vec(0u64..60, 0..60),
        ) {
            let times = times(&pauses);
            let window = |time: u64| (time - times[0]) / length;
            let expected = groups(&times, |before, now| window(before) != window(now));
            prop_assert_eq!(fired(&mut engine(json!({"strategy": "timeWindow", "milliseconds": length})), &pauses), expected);
        }

        // covers: SENT-5
        #[test]
        fn the_queue_has_limits_and_keeps_the_newest(count in 0usize..400) {
            let mut engine = engine(json!({"strategy": "immediate"}));
            for number in 0..count {
                engine.see(&seen(number), Duration::ZERO);
            }
            prop_assert_eq!(engine.waiting(), count.min(MOST_FIRINGS));
            prop_assert_eq!(engine.dropped() as usize, count.saturating_sub(MOST_FIRINGS));
            if let Some(oldest) = engine.next_firing() {
                prop_assert_eq!(oldest.number as usize, count.saturating_sub(MOST_FIRINGS) + 1);
            }
        }
    }

    // covers: SENT-5
    #[test]
    fn what_is_collected_has_limits_in_events_and_in_bytes() {
        let mut engine = engine(json!({"strategy": "debounce", "milliseconds": 1_000}));
        for number in 0..MOST_EVENTS + 5 {
            engine.see(&seen(number), Duration::ZERO);
        }
        engine.flush();
        let events = engine.next_firing().unwrap().events;
        assert_eq!((events.len(), &events[0].data["n"]), (MOST_EVENTS, &json!(5)));
        let large = Arc::new(ObservedEvent {
            line: "x".repeat(MOST_BYTES / 2 + 1),
            ..(*seen(1)).clone()
        });
        for _ in 0..3 {
            engine.see(&large, Duration::ZERO);
        }
        engine.flush();
        assert_eq!(engine.next_firing().unwrap().events.len(), 1);
    }

    #[test]
    fn what_is_due_is_told_and_fires_without_another_event() {
        let mut engine = engine(json!({"strategy": "debounce", "milliseconds": 10}));
        assert_eq!(engine.due(), None);
        engine.see(&seen(0), Duration::from_millis(5));
        assert_eq!(engine.due(), Some(Duration::from_millis(15)));
        engine.tick(Duration::from_millis(14));
        assert_eq!(engine.waiting(), 0);
        engine.tick(Duration::from_millis(15));
        assert_eq!((engine.waiting(), engine.due(), engine.fired()), (1, None, 1));
    }
}
