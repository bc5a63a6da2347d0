//! Commands that look into the state document and the checkpoints.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use hankweave_core::id::RunId;
use hankweave_core::time::Timestamp;

use super::Execution;

/// Which state document a command looks at.
#[derive(Debug, Clone, Args)]
pub(crate) struct Document {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Read this file instead of the one of an execution directory.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ThreadArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// End with this run instead of the newest one.
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<RunId>,
    /// Do not look for the checkpoints in the repository.
    #[arg(long)]
    pub(crate) no_checkpoint_validation: bool,
    /// A JSON list of SHAs that stands in for the repository.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) known_checkpoints: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print the state document
    Show(Document),
    /// Check the state files; changes nothing unless asked to
    Validate(StateValidateArgs),
    /// Fold events into a document and print the result; writes nothing
    Apply(StateApplyArgs),
    /// Show what was spent, by run, codon and sentinel
    Cost(StateCostArgs),
    /// List all runs with their codons
    History(Document),
}

#[derive(Debug, Args)]
pub(crate) struct StateValidateArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// A JSON list of SHAs that stands in for the repository.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) known_checkpoints: Option<PathBuf>,
    /// Repair the files as a start would: set damaged ones aside and write the recovered document.
    #[arg(long, conflicts_with = "state")]
    pub(crate) repair: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StateApplyArgs {
    /// The events: a JSON list, or one JSON object a line.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) events: PathBuf,
    /// The document to begin with [default: an empty one].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
    /// The time of every event, such as 2025-01-04T12:00:00.000Z [default: its own, or now].
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    pub(crate) now: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct StateCostArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// Count this run and all newer ones only.
    #[arg(long, value_name = "RUN")]
    pub(crate) since: Option<RunId>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointsArgs {
    /// The execution directory; it holds .hankweave.
    #[arg(short, long, global = true, env = "HANKWEAVE_EXECUTION", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) execution: PathBuf,
    #[command(subcommand)]
    pub(crate) command: Option<CheckpointsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// List all checkpoints, newest first; the default
    List,
    /// Show a checkpoint, its files and what it changed
    Show {
        /// Its SHA, or the beginning of it.
        sha: String,
    },
    /// Show which files differ between two checkpoints
    Diff {
        /// The earlier one: its SHA, or the beginning of it.
        from: String,
        /// The later one.
        to: String,
    },
    /// Read every part of checkpoints and report which could not be restored
    Verify {
        /// Which ones [default: all].
        #[arg(value_name = "SHA")]
        shas: Vec<String>,
    },
}
