//! Messages to one client that are not written to the journal (WIRE-15).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    CodonDescription, FileDifferences, IdleReason, JournalEntry, LineDifferences, ListedCheckpoint, Mode,
    NextSteps, RunSnapshot,
};
use crate::id::{CheckpointSha, CodonId, EventId, RunId};
use crate::time::Timestamp;

/// The answer to the handshake: `{type: "handshake.response", data}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data")]
#[non_exhaustive]
pub enum Response {
    /// The only one that there is.
    #[serde(rename = "handshake.response")]
    Handshake(ClientSession),
}

/// Session of a client, from the answer to its handshake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClientSession {
    /// The server's name for the client.
    pub client_id: String,
    /// Rights of the client: those requested, or fewer when its token allows fewer.
    pub mode: Mode,
    /// The newest events, oldest first, if the client asked for them.
    pub event_history: Vec<JournalEntry>,
    /// How many events the journal holds.
    pub total_events: u64,
    /// The newest event that happened before; what comes live has a greater `seq`.
    pub last_seq: u64,
}

/// An event for one client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Direct {
    /// Its own name.
    pub id: EventId,
    /// When it was sent.
    pub timestamp: Timestamp,
    /// The command that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
    /// Payload.
    #[serde(flatten)]
    pub answer: DirectPayload,
}

/// Payload of an event for one client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum DirectPayload {
    /// Who the client is talking to; follows the answer to its handshake.
    #[serde(rename = "server.ready")]
    ServerReady(Ready),
    /// The answer to `ping`, or the `ping.broadcast` of a client.
    #[serde(rename = "pong")]
    Pong {
        /// Always `pong`.
        message: String,
        /// When it was sent.
        timestamp: Timestamp,
        /// Who sent the broadcast.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_id: Option<String>,
    },
    /// A part of the history.
    #[serde(rename = "history.batch")]
    HistoryBatch {
        /// Oldest first.
        events: Vec<JournalEntry>,
        /// Whether another part follows.
        has_more: bool,
    },
    /// The newest codon failed, and the user has to decide what to do with it.
    #[serde(rename = "incomplete.codon")]
    IncompleteCodon {
        /// The codon.
        codon_id: CodonId,
        /// Its name for people.
        codon_name: String,
        /// Why it failed and what can be done.
        message: String,
    },
    /// Nothing runs, for a client that came later than the event which reported that.
    #[serde(rename = "server.idle")]
    ServerIdle {
        /// Why.
        reason: IdleReason,
        /// Message for people.
        message: String,
    },
    /// The recorded checkpoints, for a client that asks when the run has ended and nothing is recorded any more.
    #[serde(rename = "checkpoint.list")]
    CheckpointList {
        /// The run that was asked for, else the newest one.
        run_id: RunId,
        /// Its branch.
        current_branch: String,
        /// Newest first.
        checkpoints: Vec<ListedCheckpoint>,
    },
    /// State of the run, for a client that asked.
    #[serde(rename = "state.snapshot")]
    StateSnapshot(Box<RunSnapshot>),
    /// Files that differ between two checkpoints, for a client that asked.
    #[serde(rename = "diff.files")]
    DiffFiles(Box<FileDifferences>),
    /// Lines of one of them, for a client that asked.
    #[serde(rename = "diff.lines")]
    DiffLines(Box<LineDifferences>),
    /// Report of the run, for a client that asked.
    #[serde(rename = "report")]
    Report {
        /// Report of the run, as `hankweave report` prints it; at most 512 KiB.
        markdown: String,
        /// Next steps, with the commands that can be typed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<NextSteps>,
    },
    /// Codon before it starts, for a client that asked.
    #[serde(rename = "plan.codon")]
    PlanCodon(Box<CodonDescription>),
    /// View of the run, for a client that asked for it: a `RunView`.
    #[serde(rename = "view")]
    View {
        /// View, free of `null`.
        view: Value,
    },
    /// Change of the view that the client has.
    #[serde(rename = "view.patch")]
    ViewPatch {
        /// `seq` of the view that it changes. A client with another view sends `view.get`.
        from: u64,
        /// `seq` of the view afterwards.
        seq: u64,
        /// Merge patch (RFC 7396).
        patch: Value,
    },
    /// A command is being carried out, or was.
    #[serde(rename = "command.ack")]
    CommandAck {
        /// Its id.
        command_id: String,
        /// Its type.
        command: String,
        /// Result of the command.
        outcome: CommandOutcome,
        /// The newest event when the command was taken up: what it causes has a greater `seq`.
        seq: u64,
        /// The codon that starts or is stopped; after a rollback the one that is rolled back to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codon_id: Option<CodonId>,
        /// After a rollback: what keeps the files as they were.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        safety_checkpoint: Option<CheckpointSha>,
        /// After a rollback: the codon that runs next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_codon_id: Option<CodonId>,
        /// The command had been carried out before: nothing was done this time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// A message of the client is not carried out.
    #[serde(rename = "error")]
    Error {
        /// Why.
        message: String,
        /// Whether the runtime stops because of it.
        fatal: bool,
        /// `operation`, or `fatal`.
        severity: String,
        /// Attempted command.
        context: String,
        /// A name for programs.
        code: String,
        /// Remedy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// The id of the command, if it could be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command_id: Option<String>,
    },
}

/// Who a client is talking to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// The version of hankweave.
    pub server_version: String,
    /// The execution directory.
    pub execution_path: PathBuf,
    /// Working directory of the agents.
    pub agent_root_path: PathBuf,
    /// Path of the run's data, if it has any.
    pub data_path: PathBuf,
    /// Port of the server.
    pub port: u16,
}

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CommandOutcome {
    /// The codon starts.
    Starting,
    /// The codon is being ended, or its next attempt is cancelled.
    Stopping,
    /// The codon may not start, and the run ends.
    Denied,
    /// The files are back.
    RolledBack,
    /// It is done.
    Done,
    /// The run is being stopped.
    ShuttingDown,
}
