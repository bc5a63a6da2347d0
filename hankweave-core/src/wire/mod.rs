//! What passes over the WebSocket (WIRE-1 to WIRE-21): what clients send, what they get, and what is written to the journal.

mod agent;
mod budget;
mod checkpoints;
mod command;
mod direct;
mod event;
mod files;
mod inbound;
mod iteration;
mod refusal;
mod snapshot;

pub use budget::{ActualUse, BudgetCeiling, BudgetLimits, BudgetRow, BudgetTotals};
pub use checkpoints::{CheckpointList, ListedCheckpoint};
pub use command::{Command, Point, Request, ShaPrefix};
pub use direct::{Answer, Direct, Outcome, Ready, Response, Session};
pub use event::{
    AgentAction, CleanupStatus, CurrentFigures, Event, ExitStatus, FailedDirectory, FailedPath, IdleReason,
    JournalEntry, ProgressKind, RestoreStatus, RigStream, SentinelOrigin, SentinelTokens,
};
pub use files::{FileAction, FileNode, MAX_TREE_FILES, file_tree};
pub use inbound::{Handshake, Inbound, MAX_DEPTH, Mode, RawCommand};
pub use refusal::{Code, Refused};
pub use snapshot::MAX_SNAPSHOT_CODONS;
