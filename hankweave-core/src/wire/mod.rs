//! Protocol of the WebSocket (WIRE-1 to WIRE-21): messages of clients, messages to clients, and the journal.

mod activity;
mod agent;
mod budget;
mod checkpoints;
mod command;
mod conversions;
mod described;
mod diff;
mod direct;
mod event;
mod files;
mod inbound;
mod iteration;
mod journal;
mod next;
mod refusal;
mod rig;
mod run;
mod sentinel;
mod snapshot;
mod transition;

/// Version of the protocol. New commands, events and fields leave it as it is; a change that an older client would misread counts it up.
pub const FORMAT: u64 = 1;

/// Version of the lines of the journal, by the rule of [`FORMAT`].
pub const JOURNAL_FORMAT: u64 = 1;

/// The close code of a connection whose run has ended before the client received every event. The code 1001 means that the client has every event.
pub const CLOSED_INCOMPLETE: u16 = 4001;

pub use activity::{IdleReason, ProgressKind};
pub use agent::{AgentAction, ExitStatus};
pub use budget::{ActualUse, BudgetCeiling, BudgetLimits, BudgetRow, BudgetTotals};
pub use checkpoints::{CheckpointList, LeftOutFile, LeftOutReason, ListedCheckpoint};
pub use command::{ClientRequest, Command, RollbackPoint, ShaPrefix};
pub use described::CodonDescription;
pub use diff::{
    DifferenceKind, FileDifference, FileDifferences, LineDifference, LineDifferenceKind, LineDifferences,
    MAX_DIFF_FILES, MAX_DIFF_LINES, NoLinesReason,
};
pub use direct::{ClientSession, CommandOutcome, Direct, DirectPayload, Ready, Response};
pub use event::Event;
pub use files::{FileAction, FileNode, MAX_TREE_FILES, file_tree};
pub use inbound::{Handshake, Inbound, MAX_DEPTH, Mode, RawCommand};
pub use journal::JournalEntry;
pub use next::{NextCommand, NextSteps, OpenQuestion};
pub use refusal::{Code, Refused};
pub use rig::{CleanupStatus, FailedDirectory, FailedPath, RestoreStatus, RigStream};
pub use run::{DescribedLoop, HankTitle, RunEnding, cut_prompt};
pub use sentinel::{SentinelOrigin, SentinelTokens};
pub use snapshot::{MAX_SNAPSHOT_CODONS, RunSnapshot};
pub use transition::CurrentFigures;
