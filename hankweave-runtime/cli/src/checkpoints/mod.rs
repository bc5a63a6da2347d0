//! `hankweave checkpoints` and `hankweave diff`: commands that read the checkpoint repository and change nothing, so they need no lock.

mod catalogue;
#[expect(
    clippy::disallowed_types,
    reason = "git and the pager work for the person at this terminal and end with the command: nothing is supervised"
)]
mod contents;
mod list;
mod show;
mod verify;

use std::path::Path;
use std::process::ExitCode;

use hankweave_core::id::CheckpointSha;
use hankweave_runtime::checkpoint::HistoryError;

use self::catalogue::Catalogue;
use crate::args::{CheckpointsArgs, CheckpointsCommand, Global};
use crate::directory::existing_state_dir;
use crate::hints::in_folder;
use crate::terminal::exit::{CliError, CliErrorKind};

pub(super) use contents::{
    LineCounts, MOST_PAIRS, UnsavedChanges, changed_lines, changed_lines_of, compare_file, diff,
};

pub(super) fn checkpoints(global: &Global, args: &CheckpointsArgs) -> Result<ExitCode, CliError> {
    if args.has_two_directories() {
        let message = "two execution directories are given, one before the subcommand and one after it";
        let help = in_folder("checkpoints --help", Path::new("."));
        let hint = format!("name one; `{help}` shows where");
        return Err(CliError::new(CliErrorKind::Usage, message).hint(hint));
    }
    // In place of SHAs, `verify` also takes the directory, as other commands do.
    if let Some(CheckpointsCommand::Verify { shas }) = &args.command
        && let [directory] = &shas[..]
        && existing_state_dir(Path::new(directory)).is_ok()
    {
        return verify::verify(global, &Catalogue::of(Path::new(directory))?, &[]);
    }
    let catalogue = Catalogue::of(args.execution())?;
    match &args.command {
        None | Some(CheckpointsCommand::List { .. }) => list::list(global, &catalogue),
        Some(CheckpointsCommand::Show { sha, .. }) => show::show(global, &catalogue, sha),
        Some(CheckpointsCommand::Diff { from, to, .. }) => show::diff(global, &catalogue, from, to),
        Some(CheckpointsCommand::Verify { shas }) => verify::verify(global, &catalogue, shas),
    }
}

/// Returns the full SHA of the checkpoint that begins with `prefix`: users see short SHAs, and clients must send full ones.
pub(super) fn full_name(execution: &Path, prefix: &str) -> Result<CheckpointSha, CliError> {
    Ok(Catalogue::of(execution)?.find(prefix)?.sha.clone())
}

/// Describes a checkpoint that cannot be read.
fn unreadable(catalogue: &Catalogue, sha: &CheckpointSha, error: &HistoryError) -> CliError {
    let message = format!(
        "failed to read checkpoint {sha}: {}",
        hankweave_runtime::error::chain(error)
    );
    let verify = catalogue
        .hints
        .command(&format!("checkpoints verify {}", sha.short()));
    CliError::new(CliErrorKind::Input, message).hint(format!("`{verify}` tells what is missing"))
}
