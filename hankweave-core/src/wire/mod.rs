//! What passes over the WebSocket (WIRE-1 to WIRE-21): what clients send, what they get, and what is written to the journal.

mod activity;
mod agent;
mod budget;
mod checkpoints;
mod command;
mod direct;
mod event;
mod files;
mod inbound;
mod iteration;
mod journal;
mod refusal;
mod rig;
mod sentinel;
mod snapshot;
mod transition;

/// The close code of a connection whose run has ended before the client had every event; with 1001 it has.
pub const CLOSED_INCOMPLETE: u16 = 4001;

pub use activity::{IdleReason, ProgressKind};
pub use agent::{AgentAction, ExitStatus};
pub use budget::{ActualUse, BudgetCeiling, BudgetLimits, BudgetRow, BudgetTotals};
pub use checkpoints::{CheckpointList, LeftOutFile, LeftOutReason, ListedCheckpoint};
pub use command::{Command, Point, Request, ShaPrefix};
pub use direct::{Answer, Direct, Outcome, Ready, Response, Session};
pub use event::Event;
pub use files::{FileAction, FileNode, MAX_TREE_FILES, file_tree};
pub use inbound::{Handshake, Inbound, MAX_DEPTH, Mode, RawCommand};
pub use journal::JournalEntry;
pub use refusal::{Code, Refused};
pub use rig::{CleanupStatus, FailedDirectory, FailedPath, RestoreStatus, RigStream};
pub use sentinel::{SentinelOrigin, SentinelTokens};
pub use snapshot::{MAX_SNAPSHOT_CODONS, RunSnapshot};
pub use transition::CurrentFigures;
