//! Kinds of lengthy activity, for the event `progress`, and reasons why nothing runs, for `server.idle`.

use serde::{Deserialize, Serialize};

/// Lengthy activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProgressKind {
    /// Files are put into a checkpoint.
    Checkpoint,
    /// Files are restored.
    Restore,
    /// An item of a rig starts, or a check, which has no `done` and `total`.
    Rig,
    /// The agent waits before it asks its model again.
    Retry,
    /// The agent has answered and is waited for, as long as it waits for work in the background, or what it left running is busy.
    Background,
    /// The run waits before it attempts a codon again, or for the end of a usage limit.
    Wait,
}

/// Why nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum IdleReason {
    /// The server has just started and waits for a command.
    Startup,
    /// A codon ended and the next one waits for a command.
    CodonCompleted,
    /// The plan is finished.
    AllCodonsCompleted,
    /// The files were rolled back.
    RollbackCompleted,
    /// The next codon waits for the user's approval.
    ApprovalRequired,
}
