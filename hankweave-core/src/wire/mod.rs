//! What clients see: the events of the WebSocket and of `run --json`.

mod event;

pub use event::{
    AgentAction, CurrentFigures, Event, ExitStatus, FailedPath, IdleReason, JournalEntry, RestoreStatus,
    RigStream,
};
