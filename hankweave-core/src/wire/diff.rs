//! Differences between two checkpoints: the answers to the commands `diff.files` and `diff.lines` (WIRE-45).

use serde::{Deserialize, Serialize};

use crate::id::CheckpointSha;

/// Most files in one answer, in the order of their paths.
pub const MAX_DIFF_FILES: usize = 2_000;

/// Most lines in one answer, also if the client asks for more.
pub const MAX_DIFF_LINES: usize = 2_000;

/// Files that differ between two checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileDifferences {
    /// The earlier checkpoint.
    pub from: CheckpointSha,
    /// The later one.
    pub to: CheckpointSha,
    /// The files in the order of their paths; the first 2,000 of them.
    pub files: Vec<FileDifference>,
    /// Number of all files that differ.
    pub count: u64,
    /// Lines that all files gained, where they are counted.
    pub added: u64,
    /// Lines that all files lost, where they are counted.
    pub removed: u64,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileDifference {
    /// Path relative to the workspace; bytes that are no text are written as `\x..`.
    pub path: String,
    /// Its path in the earlier checkpoint, if it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// Kind of difference.
    pub change: DifferenceKind,
    /// Lines that the file gained; absent for a file whose lines are not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Lines that it lost; absent for a file whose lines are not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
    /// Why its lines are not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_lines: Option<NoLinesReason>,
    /// Length in the earlier checkpoint, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_size: Option<u64>,
    /// Length in the later checkpoint, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DifferenceKind {
    /// Only the later checkpoint has it.
    Created,
    /// Its content, or the way it is run, is another.
    Modified,
    /// Only the earlier checkpoint has it.
    Deleted,
    /// It had another path, and perhaps another content.
    Renamed,
}

/// Why the lines of a file are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NoLinesReason {
    /// It is no text.
    Binary,
    /// It has more than 16 MiB or 500,000 lines.
    TooLarge,
    /// The lines of the files before it are more than are counted in one answer; its own can be asked for.
    NotCounted,
}

/// Part of the lines of one file that differs, with the lines around them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LineDifferences {
    /// The earlier checkpoint.
    pub from: CheckpointSha,
    /// The later one.
    pub to: CheckpointSha,
    /// Path of the file, as `diff.files` has it.
    pub path: String,
    /// Number of lines before the first one here.
    pub offset: u64,
    /// Lines in their order.
    pub lines: Vec<LineDifference>,
    /// Number of all lines; 0 for a file that does not differ, or whose lines are not shown.
    pub count: u64,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LineDifference {
    /// Kind of line.
    pub kind: LineDifferenceKind,
    /// Its number in the earlier file, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<u32>,
    /// Its number in the later file, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<u32>,
    /// The line without its end; a longer one is cut after 2,000 characters, with `…`.
    pub text: String,
}

/// Kind of a line in a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LineDifferenceKind {
    /// Both files have it.
    #[serde(rename = " ")]
    Context,
    /// Only the later file has it.
    #[serde(rename = "+")]
    Added,
    /// Only the earlier file has it.
    #[serde(rename = "-")]
    Removed,
    /// Start of a part of the file, as `@@ -1,4 +1,6 @@`.
    #[serde(rename = "@")]
    Hunk,
    /// The line before it does not end with a line break.
    #[serde(rename = "\\")]
    NoNewline,
}
