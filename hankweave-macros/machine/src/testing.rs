//! Tests that every machine should pass.
//!
//! [`machine(Name, tests)`](macro@crate::machine) writes them into the crate of the machine, where `cargo test` finds them. [`Coverage`] is for tests of
//! your own.

use core::fmt::Debug;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Edge, Machine, Name, Walk};

/// Number of times that each test is repeated, each time with other values.
const ROUNDS: u32 = 3;

/// Which edges of a machine the tests have walked.
///
/// ```
/// use hankweave_machine::{machine, testing::Coverage};
///
/// #[machine(Lamp)]
/// pub enum LampRecord {
///     #[initial]
///     #[to(light => Lit, remove => Gone)]
///     Dark,
///     #[to(remove => Gone)]
///     Lit,
///     #[terminal]
///     Gone,
/// }
///
/// let mut coverage = Coverage::new(&LAMP);
/// coverage.record(LampStatus::Dark, "light");
/// assert_eq!(coverage.unwalked().len(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct Coverage {
    machine: &'static Machine,
    /// Whether each edge was walked, in the order of the machine.
    walked: Vec<bool>,
}

impl Coverage {
    /// Nothing was walked yet.
    pub fn new(machine: &'static Machine) -> Self {
        Self {
            machine,
            walked: machine.edges.iter().map(|_| false).collect(),
        }
    }

    /// Notes a step: the status that it left, and its method.
    ///
    /// # Panics
    ///
    /// Panics when the machine has no such edge.
    pub fn record(&mut self, from: impl Name, method: &str) {
        let is_this = |edge: &Edge| {
            let left = self.machine.state(edge.from);
            edge.method == method && left.is_some_and(|state| state.stored_name == from.as_str())
        };
        match self.machine.edges.iter().position(is_this) {
            Some(index) => self.walked[index] = true,
            None => panic!("{} has no edge `{method}` from {from}", self.machine.name),
        }
    }

    /// The edges that were never walked.
    pub fn unwalked(&self) -> Vec<&'static Edge> {
        let edges = self.machine.edges.iter().zip(&self.walked);
        edges
            .filter(|(_, walked)| !**walked)
            .map(|(edge, _)| edge)
            .collect()
    }

    /// Asserts that every edge was walked.
    ///
    /// # Panics
    ///
    /// Panics with the edges that were not walked.
    pub fn assert_complete(&self) {
        let missing: Vec<String> = self
            .unwalked()
            .iter()
            .map(|edge| format!("{} --{}-> {}", edge.from, edge.method, edge.to))
            .collect();
        assert!(
            missing.is_empty(),
            "no test walks these edges of {}: {}",
            self.machine.name,
            missing.join(", ")
        );
    }
}

/// A stored enum that the tests can handle. The macro implements the trait. `n` is a number from which the values of fields are made up.
pub trait Subject: Clone + PartialEq + Debug {
    /// The event enum.
    type Transition: Clone + PartialEq + Debug;
    /// The status.
    type Status: Name;

    /// The graph.
    const MACHINE: &'static Machine;

    /// A new value, by the typed constructor.
    fn start(n: u32) -> Self;

    /// The status of the value.
    fn status(&self) -> Self::Status;

    /// Changes every live field, by the typed setters.
    #[must_use]
    fn stir(self, n: u32) -> Self;

    /// The event of a method.
    fn event(method: &str, n: u32) -> Self::Transition;

    /// Makes the step of an event, by `apply`.
    ///
    /// # Errors
    ///
    /// Returns the untouched value when its state has no such step.
    fn dynamic(self, event: Self::Transition) -> Result<Self, Self>;

    /// Makes a step twice: by the typed method, and by the typed `step`. Returns both values and the event of `step`; `None` if the state lacks the method.
    fn typed(self, method: &str, n: u32) -> Option<(Self, Self, Self::Transition)>;
}

/// Table that the compiler fills: a state, a target or a method, and whether the types allow that step.
pub type Typed = [(&'static str, &'static str, bool)];

/// Asserts that types, graph and `apply` agree on every ordered pair of states, and on every pair of a state and a method.
///
/// # Panics
///
/// Panics with the first pair on which they do not agree.
pub fn agree_on_every_pair<T: Subject>(states: &Typed, methods: &Typed) {
    for (from, value) in one_of_each::<T>() {
        for (_, to, typed) in states.iter().filter(|(state, ..)| *state == from) {
            let in_graph = T::MACHINE.has_edge(from, to);
            let dynamic = methods
                .iter()
                .filter(|(state, ..)| *state == from)
                .filter_map(|(_, method, _)| value.clone().dynamic(T::event(method, 0)).ok())
                .any(|entered| state_name(&entered) == *to);
            assert_eq!(
                (*typed, dynamic),
                (in_graph, in_graph),
                "types and `apply` on {from} -> {to}"
            );
        }
        for (_, method, typed) in methods.iter().filter(|(state, ..)| *state == from) {
            let in_graph = T::MACHINE.edges_from(from).any(|edge| edge.method == *method);
            let (dynamic, is_unchanged) = match value.clone().dynamic(T::event(method, 0)) {
                // Only a refusal has to leave the value unchanged.
                Ok(_) => (true, true),
                Err(back) => (false, back == value),
            };
            assert!(is_unchanged, "a refused `{method}` changed the value of {from}");
            assert_eq!(
                (*typed, dynamic),
                (in_graph, in_graph),
                "types and `apply` on `{method}` from {from}"
            );
        }
    }
    let count = T::MACHINE.states.len();
    assert_eq!(states.len(), count * count, "every pair of states is listed");
}

/// Makes the walks of [`Machine::walks_over_every_edge`], each by types and by `apply`, which must end in equal values.
///
/// # Panics
///
/// Panics at the first difference.
pub fn walk_every_edge<T: Subject>() {
    let mut coverage = Coverage::new(T::MACHINE);
    for walk in T::MACHINE.walks_over_every_edge() {
        for round in 0..ROUNDS {
            walk_once::<T>(&walk, round, &mut coverage);
        }
    }
    coverage.assert_complete();
}

fn walk_once<T: Subject>(walk: &Walk, round: u32, coverage: &mut Coverage) {
    let mut value = T::start(round);
    for (n, edge) in (round..).zip(walk) {
        value = value.stir(n);
        let event = T::event(edge.method, n);
        let by_event = value.clone().dynamic(event.clone());
        coverage.record(value.status(), edge.method);
        let (by_method, by_step, event_of_step) = value
            .typed(edge.method, n)
            .expect("the type has every method of the table");
        assert_eq!(
            by_event.as_ref(),
            Ok(&by_method),
            "`apply` and method on {edge:?}"
        );
        assert_eq!(by_step, by_method, "step and method on {edge:?}");
        assert_eq!(event_of_step, event, "the event of {edge:?}");
        value = by_method;
    }
    assert_eq!(state_name(&value), T::MACHINE.end_of(walk), "the end of {walk:?}");
}

/// Asserts that a value of every state and every event is equal after being written as JSON and read again. Where the machine keeps unknown fields, each value
/// is tested with one as well.
///
/// # Panics
///
/// Panics at the first difference.
#[cfg(feature = "serde")]
pub fn every_value_round_trips<T>()
where
    T: Subject + serde::Serialize + serde::de::DeserializeOwned,
    T::Transition: serde::Serialize + serde::de::DeserializeOwned,
{
    for (_, value) in one_of_each::<T>() {
        let mut stored = round_trip(&value);
        if T::MACHINE.open {
            stored["a name of another program"] = serde_json::Value::from(1);
            let read: T = serde_json::from_value(stored.clone()).expect("unknown names are kept");
            assert_eq!(round_trip(&read), stored, "unknown names are written back");
        }
    }
    for edge in T::MACHINE.edges {
        for n in 0..ROUNDS {
            round_trip(&T::event(edge.method, n));
        }
    }
}

/// Writes a value, reads it, compares both, and returns the JSON.
#[cfg(feature = "serde")]
fn round_trip<T>(value: &T) -> serde_json::Value
where
    T: PartialEq + Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let text = serde_json::to_string(value).expect("the value can be written");
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(read, *value, "{text}");
    serde_json::from_str(&text).expect("what serde wrote is JSON")
}

/// Returns [`ROUNDS`] values of every state, each with the name of the state, reached by the shortest walk and by typed methods.
fn one_of_each<T: Subject>() -> Vec<(&'static str, T)> {
    let mut values = Vec::new();
    for state in T::MACHINE.states {
        let walk = T::MACHINE.way_to(state.name).expect("every state can be reached");
        for round in 0..ROUNDS {
            let value = walk.iter().fold(T::start(round), |value, edge| {
                let step = value.stir(round).typed(edge.method, round);
                step.expect("the type has every method of the table").0
            });
            values.push((state.name, value.stir(round)));
        }
    }
    values
}

fn state_name<T: Subject>(value: &T) -> &'static str {
    let stored_name = value.status().as_str();
    let mut states = T::MACHINE.states.iter();
    let state = states.find(|state| state.stored_name == stored_name);
    state.expect("every status is a state").name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{JOB, JobStatus};

    #[test]
    #[should_panic(
        expected = "no test walks these edges of Job: Running --fail-> Failed, Running --retry-> Queued"
    )]
    fn an_edge_that_was_never_walked_fails_the_test() {
        let mut coverage = Coverage::new(&JOB);
        coverage.record(JobStatus::Queued, "start");
        coverage.record(JobStatus::Running, "finish");
        coverage.assert_complete();
    }

    #[test]
    #[should_panic(expected = "Job has no edge `fail` from finished")]
    fn an_edge_that_does_not_exist_cannot_be_recorded() {
        Coverage::new(&JOB).record(JobStatus::Finished, "fail");
    }
}
