//! The execution thread: one history out of many runs ("execution thread").

mod build;
mod next;
mod resume;
mod session;

pub use build::{
    CheckpointFacts, CheckpointTable, ExecutionThread, KnownCheckpoints, ThreadCodon, ValidatedCheckpoint,
    build,
};
pub use resume::Resume;
