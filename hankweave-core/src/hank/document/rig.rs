//! The rig of a codon: steps that prepare the workspace before the agent starts, and the files that are copied out of it afterwards.

use serde::{Serialize, Serializer};

/// One step that prepares the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RigItem {
    /// Action of the item.
    #[serde(flatten)]
    pub action: RigAction,
    /// Whether a failure is reported and then ignored.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_failure: bool,
}

/// Action of a rig item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum RigAction {
    /// Copies a file or folder of the hank into the workspace.
    ///
    /// An existing folder is merged: files are replaced one by one, and nothing else is deleted.
    Copy {
        /// From where to where.
        copy: CopyStep,
        /// Whether the target is removed first, with everything in it.
        #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        replace: bool,
    },
    /// Runs a shell command.
    Command {
        /// Command and working directory.
        command: RigCommand,
    },
}

/// From where to where a rig copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CopyStep {
    /// Relative to the folder of hank.json.
    pub from: String,
    /// Relative to the agent's workspace; its parent folder must exist.
    pub to: String,
}

/// A shell command of a rig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RigCommand {
    /// Text for the shell, not empty.
    pub run: String,
    /// Working directory.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "project")))]
    #[serde(skip_serializing_if = "WorkingDirectory::is_default")]
    pub working_directory: WorkingDirectory,
}

/// Working directory of a rig command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum WorkingDirectory {
    /// The agent's workspace.
    #[default]
    Project,
    /// The target of this codon's latest copy, else the workspace.
    LastCopied,
}

impl WorkingDirectory {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One group of files for the output directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct OutputItem {
    /// Globs in the agent's workspace, at least one.
    pub copy: Vec<String>,
    /// Commands that run first.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "tagged_commands")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<RigAction>"))]
    pub before_copy: Vec<RigCommand>,
}

fn tagged_commands<S: Serializer>(commands: &[RigCommand], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(commands.iter().map(|command| RigAction::Command {
        command: command.clone(),
    }))
}
