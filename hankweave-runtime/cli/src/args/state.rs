//! Arguments of commands that read the state document and the checkpoints.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use hankweave_core::time::Timestamp;

use super::ExecutionArgs;

/// State document that a command reads.
#[derive(Debug, Clone, Args)]
pub(crate) struct Document {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// State file to read, instead of DIR
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide = true)]
    pub(crate) state: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// List every run with its codons, also those that were rolled back
    #[arg(long, conflicts_with_all = ["run", "no_checkpoint_validation", "known_checkpoints"])]
    pub(crate) all: bool,
    /// End with this run, as its id or the start or end of it [default: the newest]
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Skip the check of checkpoints in the repository
    #[arg(long, hide = true)]
    pub(crate) no_checkpoint_validation: bool,
    /// JSON list of SHAs that stands in for the repository
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide = true)]
    pub(crate) known_checkpoints: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print the state document
    #[command(
        after_long_help = "Examples:\n  hankweave state show my-hank\n  hankweave state show my-hank | jq '.runs | length'"
    )]
    Show(Document),
    /// Check the state files; with --repair also repair them
    #[command(
        after_long_help = "Examples:\n  hankweave state validate my-hank\n  hankweave state validate my-hank --repair"
    )]
    Validate(StateValidateArgs),
    /// Fold events into a document and print the result; writes nothing
    #[command(hide = true)]
    Apply(StateApplyArgs),
    /// Show spending by run, codon and sentinel
    #[command(hide = true)]
    Cost(StateCostArgs),
    /// List all runs with their codons
    #[command(hide = true)]
    History(Document),
}

#[derive(Debug, Args)]
pub(crate) struct StateValidateArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// JSON list of SHAs that stands in for the repository
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide = true)]
    pub(crate) known_checkpoints: Option<PathBuf>,
    /// Repair the files as the start of a run would
    ///
    /// Damaged ones are quarantined, and the rest is written.
    #[arg(long, conflicts_with = "state")]
    pub(crate) repair: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StateApplyArgs {
    /// Events: a JSON list, or one JSON object a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) events: PathBuf,
    /// Initial document [default: an empty one]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
    /// Time of every event, as 2025-01-04T12:00:00.000Z [default: its own, or now]
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    pub(crate) now: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct StateCostArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// Count only this run and newer ones
    ///
    /// The run is its id, or the start or end of it.
    #[arg(long, value_name = "RUN")]
    pub(crate) since: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointsArgs {
    /// Execution directory, or -e DIR [default: .] [env: HANKWEAVE_EXECUTION]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Execution directory
    #[arg(short, long, global = true, env = "HANKWEAVE_EXECUTION", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath, hide = true)]
    execution: PathBuf,
    #[command(subcommand)]
    pub(crate) command: Option<CheckpointsCommand>,
}

impl CheckpointsArgs {
    pub(crate) fn execution(&self) -> &Path {
        let dir = self.dir_of_command().or(self.dir.as_deref());
        dir.unwrap_or(&self.execution)
    }

    /// Whether a directory is named before the subcommand, and another one after it.
    pub(crate) fn has_two_directories(&self) -> bool {
        self.dir.is_some() && self.dir_of_command().is_some()
    }

    fn dir_of_command(&self) -> Option<&Path> {
        match self.command.as_ref()? {
            CheckpointsCommand::List { dir }
            | CheckpointsCommand::Show { dir, .. }
            | CheckpointsCommand::Diff { dir, .. } => dir.as_deref(),
            // The argument may be a SHA: `checkpoints` finds out.
            CheckpointsCommand::Verify { .. } => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// List checkpoints, newest first; the default
    #[command(
        after_long_help = "Examples:\n  hankweave checkpoints list my-hank\n  hankweave checkpoints list my-hank --json"
    )]
    List {
        /// Execution directory, or -e DIR [default: .] [env: HANKWEAVE_EXECUTION]
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// Show a checkpoint, its files and its changes
    #[command(
        after_long_help = "Examples:\n  hankweave checkpoints show 06a894ec641f\n  hankweave checkpoints show 06a894ec641f my-hank"
    )]
    Show {
        /// SHA of the checkpoint, or start of it
        sha: String,
        /// Execution directory, or -e DIR [default: .] [env: HANKWEAVE_EXECUTION]
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// List the files that differ between two checkpoints
    #[command(
        after_long_help = "Examples:\n  hankweave checkpoints diff 267746d687d7 06a894ec641f\n  hankweave checkpoints diff 267746d687d7 06a894ec641f my-hank"
    )]
    Diff {
        /// SHA of the earlier checkpoint, or start of it
        from: String,
        /// SHA of the later checkpoint, or start of it
        to: String,
        /// Execution directory, or -e DIR [default: .] [env: HANKWEAVE_EXECUTION]
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// Read every part of checkpoints and report damage
    #[command(
        after_long_help = "Examples:\n  hankweave checkpoints verify my-hank\n  hankweave checkpoints verify 06a894ec641f -e my-hank"
    )]
    Verify {
        /// SHAs of checkpoints, or the execution directory alone [default: all]
        ///
        /// Option -e DIR names the execution directory of SHAs.
        #[arg(value_name = "SHA")]
        shas: Vec<String>,
    },
}
