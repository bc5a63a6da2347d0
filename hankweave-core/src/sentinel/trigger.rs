//! Finds the events that a sentinel acts on: single events, or sequences of events (SENT-1, SENT-3).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::condition::Condition;
use super::{ConditionConfig, PatternStep, Trigger};

/// Maximum length of a found sequence, counted in events of interest, those between the steps included.
pub const SEQUENCE_MEMORY: u64 = 1_000;

/// An event as a sentinel sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedEvent {
    /// Type of the event.
    pub kind: String,
    /// Data of the event.
    pub data: Value,
    /// The whole event, as one line of JSON.
    pub line: String,
}

impl ObservedEvent {
    /// Reads a line of the journal; `None` for an event that sentinels are not shown, such as a change of their own figures.
    #[must_use]
    pub fn from_line(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line {
            r#type: String,
            #[serde(default)]
            data: Value,
        }
        let Line { r#type: kind, data } = serde_json::from_str(line).ok()?;
        let of_sentinels = data
            .get("transitionType")
            .is_some_and(|name| name == "SentinelStatesUpdated");
        let line = line.to_owned();
        (Self::is_shown(&kind) && !of_sentinels).then_some(Self { kind, data, line })
    }

    /// Whether sentinels are shown events of this type: all but those of sentinels, and the prompts of agents, which are long.
    #[must_use]
    pub fn is_shown(kind: &str) -> bool {
        !kind.starts_with("sentinel.") && kind != "codon.prompted"
    }
}

/// Types of events; `None` means all.
#[derive(Debug, Clone)]
struct Kinds(Option<Vec<String>>);

impl Kinds {
    fn new(on: &[String]) -> Self {
        let all = on.iter().any(|kind| kind == "*");
        Self((!all).then(|| on.to_vec()))
    }

    fn has(&self, kind: &str) -> bool {
        let Self(kinds) = self;
        ObservedEvent::is_shown(kind)
            && kinds
                .as_ref()
                .is_none_or(|kinds| kinds.iter().any(|known| known == kind))
    }
}

/// Tests whether an event is one that the trigger, or a step of a sequence, waits for.
#[derive(Debug, Clone)]
pub(super) struct EventMatcher {
    kinds: Kinds,
    conditions: Vec<Condition>,
}

impl EventMatcher {
    fn new(on: &[String], conditions: &[ConditionConfig]) -> Self {
        Self {
            kinds: Kinds::new(on),
            conditions: conditions.iter().map(Condition::new).collect(),
        }
    }

    fn matches(&self, event: &ObservedEvent) -> bool {
        self.kinds.has(&event.kind)
            && self
                .conditions
                .iter()
                .all(|condition| condition.is_true(&event.data))
    }
}

/// Matcher of the events that a sentinel acts on.
#[derive(Debug, Clone)]
pub(super) enum Matcher {
    Event(EventMatcher),
    Sequence(Sequence),
}

impl Matcher {
    pub(super) fn new(trigger: &Trigger) -> Self {
        match trigger {
            Trigger::Event { on, conditions } => Self::Event(EventMatcher::new(on, conditions)),
            Trigger::Sequence {
                interest_filter,
                pattern,
                options,
            } => {
                let consecutive = options.and_then(|options| options.consecutive).unwrap_or(true);
                Self::Sequence(Sequence::new(&interest_filter.on, pattern, consecutive))
            }
        }
    }

    /// Whether events of this type matter to the trigger.
    pub(super) fn is_interested(&self, kind: &str) -> bool {
        match self {
            Self::Event(wanted) => wanted.kinds.has(kind),
            Self::Sequence(sequence) => sequence.interest.has(kind),
        }
    }

    /// Takes an event, and returns the events to act on if it completes a match.
    pub(super) fn see(&mut self, event: &Arc<ObservedEvent>) -> Option<Vec<Arc<ObservedEvent>>> {
        match self {
            Self::Event(wanted) => wanted.matches(event).then(|| vec![Arc::clone(event)]),
            Self::Sequence(sequence) => sequence.see(event),
        }
    }
}

/// Finds a sequence among the events of interest.
///
/// For each number of first steps it keeps only one occurrence: the one that begins last. That one is also the last to expire, so a sequence within
/// [`SEQUENCE_MEMORY`] is always found.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    interest: Kinds,
    steps: Vec<EventMatcher>,
    /// Whether no other event of interest may occur between the steps.
    consecutive: bool,
    /// Occurrence of the first step, of the first two steps, and so on.
    found: Vec<Option<PartialMatch>>,
    /// Number of events of interest so far.
    position: u64,
}

/// An occurrence of the first steps of a pattern.
#[derive(Debug, Clone)]
struct PartialMatch {
    /// Position of its first event.
    begin: u64,
    events: Vec<Arc<ObservedEvent>>,
}

impl Sequence {
    fn new(on: &[String], pattern: &[PatternStep], consecutive: bool) -> Self {
        let step = |step: &PatternStep| EventMatcher::new(std::slice::from_ref(&step.kind), &step.conditions);
        Self {
            interest: Kinds::new(on),
            steps: pattern.iter().map(step).collect(),
            consecutive,
            found: vec![None; pattern.len()],
            position: 0,
        }
    }

    fn see(&mut self, event: &Arc<ObservedEvent>) -> Option<Vec<Arc<ObservedEvent>>> {
        if !self.interest.has(&event.kind) {
            return None;
        }
        self.position += 1;
        // From the last step back, so that the event cannot continue an occurrence that it has just begun or continued itself.
        for step in (0..self.steps.len()).rev() {
            let matches = self.steps[step].matches(event);
            // The occurrence of the earlier steps, which the event may continue. If steps are consecutive, it is taken out: a later event cannot continue it.
            let before = match (step.checked_sub(1), self.consecutive) {
                (None, _) => Some(PartialMatch {
                    begin: self.position,
                    events: Vec::new(),
                }),
                (Some(before), true) => self.found[before].take(),
                (Some(before), false) if matches => self.found[before].clone(),
                (Some(_), false) => None,
            };
            let continued = before.filter(|found| matches && self.position - found.begin < SEQUENCE_MEMORY);
            if let Some(PartialMatch { begin, mut events }) = continued {
                events.push(Arc::clone(event));
                self.found[step] = Some(PartialMatch { begin, events });
            } else if self.consecutive {
                self.found[step] = None;
            }
        }
        let whole = self.found.last_mut()?.take()?;
        // The next sequence is searched among later events only.
        self.found.fill(None);
        Some(whole.events)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn seen(kind: &str, number: usize) -> Arc<ObservedEvent> {
        let line = json!({"seq": number, "type": kind, "data": {"n": number}}).to_string();
        Arc::new(ObservedEvent::from_line(&line).unwrap())
    }

    fn sequence(pattern: &[u8], consecutive: bool) -> Matcher {
        let steps: Vec<Value> = pattern
            .iter()
            .map(|letter| json!({"type": letter.to_string()}))
            .collect();
        let trigger = json!({"type": "sequence", "interestFilter": {"on": ["0", "1", "2"]}, "pattern": steps,
            "options": {"consecutive": consecutive}});
        Matcher::new(&serde_json::from_value(trigger).unwrap())
    }

    /// The numbers of the events of each hit.
    fn hits(matcher: &mut Matcher, letters: &[u8]) -> Vec<Vec<usize>> {
        let events = letters.iter().enumerate();
        let events = events.map(|(number, letter)| seen(&letter.to_string(), number));
        let hits = events.filter_map(|event| matcher.see(&event));
        let numbers = |hit: Vec<Arc<ObservedEvent>>| {
            hit.iter()
                .map(|event| usize::try_from(event.data["n"].as_u64().unwrap()).unwrap())
                .collect()
        };
        hits.map(numbers).collect()
    }

    /// The tail of the events of interest since the last hit.
    fn consecutive_hits(pattern: &[u8], letters: &[u8]) -> Vec<Vec<usize>> {
        let (mut kept, mut hits) = (Vec::new(), Vec::new());
        for (number, letter) in letters.iter().enumerate().filter(|(_, letter)| **letter < 3) {
            kept.push((number, *letter));
            if kept.len() >= pattern.len() {
                let tail = &kept[kept.len() - pattern.len()..];
                if tail.iter().map(|(_, letter)| *letter).eq(pattern.iter().copied()) {
                    hits.push(tail.iter().map(|(number, _)| *number).collect());
                    kept.clear();
                }
            }
        }
        hits
    }

    /// The end of each hit: whether the events of interest since the last one have the pattern in them.
    fn ends(pattern: &[u8], letters: &[u8]) -> Vec<usize> {
        let (mut next, mut ends) = (0, Vec::new());
        for (number, letter) in letters.iter().enumerate() {
            if *letter == pattern[next] {
                next += 1;
            }
            if next == pattern.len() {
                ends.push(number);
                next = 0;
            }
        }
        ends
    }

    proptest! {
        // covers: SENT-3
        #[test]
        fn a_consecutive_sequence_is_the_tail_of_what_is_of_interest(
            pattern in prop::collection::vec(0u8..3, 1..5), letters in prop::collection::vec(0u8..4, 0..80),
        ) {
            let found = hits(&mut sequence(&pattern, true), &letters);
            prop_assert_eq!(found, consecutive_hits(&pattern, &letters));
        }

        // covers: SENT-3
        #[test]
        fn another_sequence_is_found_as_soon_as_it_is_there(
            pattern in prop::collection::vec(0u8..3, 1..5), letters in prop::collection::vec(0u8..4, 0..80),
        ) {
            let found = hits(&mut sequence(&pattern, false), &letters);
            prop_assert_eq!(found.iter().map(|hit| *hit.last().unwrap()).collect::<Vec<_>>(), ends(&pattern, &letters));
            let mut used = found.concat();
            for hit in &found {
                prop_assert!(hit.iter().map(|number| letters[*number]).eq(pattern.iter().copied()), "in order");
            }
            used.dedup();
            prop_assert!(used.is_sorted() && used.len() == found.len() * pattern.len(), "no event counts twice");
        }
    }

    // covers: SENT-3
    #[test]
    fn the_newest_beginning_is_kept_and_an_old_one_is_forgotten() {
        assert_eq!(hits(&mut sequence(&[0, 1], false), &[0, 0, 2, 1]), [[1, 3]]);
        let memory = usize::try_from(SEQUENCE_MEMORY).unwrap();
        let with_distance = |between: usize| [vec![0], vec![2; between], vec![1]].concat();
        assert_eq!(
            hits(&mut sequence(&[0, 1], false), &with_distance(memory - 2)).len(),
            1
        );
        assert_eq!(
            hits(&mut sequence(&[0, 1], false), &with_distance(memory - 1)).len(),
            0
        );
    }

    // covers: SENT-1
    #[test]
    fn an_event_is_one_of_the_types_and_every_condition_is_true() {
        let matcher = |on: Value| {
            let conditions = json!([{"operator": "greaterThan", "path": "n", "value": 1}, {"operator": "lessThan", "path": "n", "value": 4}]);
            let trigger = json!({"type": "event", "on": on, "conditions": conditions});
            Matcher::new(&serde_json::from_value(trigger).unwrap())
        };
        assert_eq!(hits(&mut matcher(json!(["7", "8"])), &[7, 8, 9, 7, 7]), [[3]]);
        let mut all = matcher(json!(["8", "*"]));
        assert_eq!(hits(&mut all, &[7, 8, 9, 7, 7]), [[2], [3]]);
        let own = ObservedEvent {
            kind: "sentinel.output".to_owned(),
            ..(*seen("x", 2)).clone()
        };
        assert!(
            all.see(&Arc::new(own)).is_none(),
            "sentinels do not see sentinels"
        );
        for line in [
            r#"{"type": "sentinel.error", "data": {}}"#,
            r#"{"type": "codon.prompted", "data": {}}"#,
            r#"{"type": "state.transition", "data": {"transitionType": "SentinelStatesUpdated"}}"#,
        ] {
            assert_eq!(ObservedEvent::from_line(line), None);
        }
    }
}
