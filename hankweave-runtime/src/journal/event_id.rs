//! The ids of state events.
//!
//! A state event is durable in the log before it is in the journal, and a start puts into the journal again what a loss of power took from there. Clients
//! remember events by their ids, so such an event must get the id that it had: it follows from what the log says.

use std::fmt::Write as _;

use hankweave_core::event::StateEvent;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::CurrentFigures;

/// Writes the id of number `seq` into `id`, which is emptied first; `figures` are those after the event.
///
/// It begins with the run, whose id no other has. What happens outside of runs is rare, and begins with its time.
pub(crate) fn write_id(
    id: &mut String,
    seq: u64,
    at: Timestamp,
    event: &StateEvent,
    figures: &CurrentFigures,
) {
    id.clear();
    let run = event.run_id().or(figures.current_run_id.as_ref());
    // Writing to a String cannot fail.
    let _ = match (run, event) {
        (Some(run), _) => write!(id, "{run}:{seq}"),
        (None, StateEvent::InitialCheckpointSet { sha }) => write!(id, "{}-{sha}:{seq}", at.as_millis()),
        (None, _) => write!(id, "{}:{seq}", at.as_millis()),
    };
}
