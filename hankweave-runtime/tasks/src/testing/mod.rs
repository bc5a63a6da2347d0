//! Test support for several modules.

mod captured;
mod clock;
pub(crate) mod database;

pub(crate) use captured::{Event, Events, on_event};
pub(crate) use clock::{HOUR, PausedClock, SetClock};
