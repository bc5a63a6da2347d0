//! The ids of state events.
//!
//! A state event is durable in the log before it is in the journal, and a start inserts into the journal the events
//! that a loss of power took from it. Clients remember events by their ids, so an event that is inserted again must keep its
//! id: the id is derived from the log.

use hankweave_core::event::StateEvent;
use hankweave_core::id::EventId;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::CurrentFigures;

/// The id of the event with number `seq`; `figures` are those after the event.
///
/// It begins with the id of the run, which is unique. The id of an event outside of runs, which is rare, begins with
/// the time of the event.
pub(crate) fn state_event_id(
    seq: u64,
    at: Timestamp,
    event: &StateEvent,
    figures: &CurrentFigures,
) -> EventId {
    let run = event.run_id().or(figures.current_run_id.as_ref());
    let id = match (run, event) {
        (Some(run), _) => format!("{run}:{seq}"),
        (None, StateEvent::InitialCheckpointSet { sha }) => format!("{}-{sha}:{seq}", at.as_millis()),
        (None, _) => format!("{}:{seq}", at.as_millis()),
    };
    EventId::new(id).expect("an id is not empty")
}
