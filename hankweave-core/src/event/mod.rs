//! Events, the facts that change the state document: how they are read and checked, and the envelope in which they are recorded.

mod metadata;
mod read;
mod recorded;
mod state_event;

pub use metadata::{MetadataError, decode_metadata, encode_metadata};
pub use read::{InvalidEvent, InvalidEventKind};
pub use recorded::Recorded;
pub use state_event::{LastCodonStatus, StateEvent};
