//! Turns errors of the library into messages of the program: each function adds the exit code's kind and a hint with commands that help.

use std::error::Error;
use std::io;
use std::path::Path;

use hankweave_core::discovery::STATE_DIR;
use hankweave_core::hank::{FILE_NAMES, Problems};
use hankweave_core::id::CheckpointSha;
use hankweave_core::plan::ExpandError;
use hankweave_core::thread::TargetError;
use hankweave_runtime::checkpoint::RestoreError;
use hankweave_runtime::data::DataError;
use hankweave_runtime::hank_files::{self, LoadHankError, LoadedHank};
use hankweave_runtime::instance_lock::LockError;
use hankweave_runtime::preflight::PreflightError;
use hankweave_runtime::rig::ArchiveError;
use hankweave_runtime::state_manager::{LoadError, TransitionError};
use hankweave_runtime::store::StateFileError;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::{OpenExecutionError, RollbackError, RunError, ServeError};

use crate::directory::{question_there, suspended, takes_clients};
use crate::hints::{CommandEdit, HintCommands, in_folder};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::shell::path_word;

pub(crate) fn hank_failure(error: &LoadHankError) -> CliError {
    let init = |folder: &Path| format!("`{}` writes a hank to start from", in_folder("init", folder));
    let (kind, hint) = match error {
        LoadHankError::NoHankInFolder { folder } => (
            CliErrorKind::Input,
            continuing(folder).unwrap_or_else(|| init(folder)),
        ),
        LoadHankError::Missing { path } => {
            // A missing `fix/hank.json` suggests the folder `fix`, a missing `fix.json` as well.
            let folder = match path.file_name() {
                Some(name) if FILE_NAMES.iter().any(|known| name == *known) => path.parent().unwrap_or(path),
                _ => &path.with_extension(""),
            };
            (CliErrorKind::Input, init(folder))
        }
        LoadHankError::TwoHanksInFolder { .. } => (
            CliErrorKind::Input,
            "name the file that is meant, or remove the other".to_owned(),
        ),
        LoadHankError::Unreadable { source, .. } if source.is_of_the_system() => (
            CliErrorKind::Io,
            "repair the disk, then type the same again".to_owned(),
        ),
        _ => (
            CliErrorKind::Input,
            "it must be a regular file that you may read".to_owned(),
        ),
    };
    CliError::from_error(kind, error).hint(hint)
}

/// Returns the hint for a folder without a hank in which a run has worked: how to continue that run.
fn continuing(folder: &Path) -> Option<String> {
    RealDisk.metadata(&folder.join(STATE_DIR)).ok()?;
    let hints = HintCommands::about(folder);
    let hank = hints.hank()?;
    Some(format!(
        "its last run was of {}: `{}` continues that run",
        hank.display(),
        hints.run()
    ))
}

/// Loads a hank, and adds what [`with_conversions`] adds.
pub(crate) fn load_hank(path: &Path) -> Result<LoadedHank, CliError> {
    let loaded = hank_files::load(path).map_err(|error| hank_failure(&error))?;
    Ok(with_conversions(loaded))
}

/// Extends each hint about a sentinel file of an older system by the command that converts the file.
pub(crate) fn with_conversions(mut loaded: LoadedHank) -> LoadedHank {
    if loaded.old_sentinels.is_empty() {
        return loaded;
    }
    let folder = loaded.file.parent().unwrap_or(Path::new(""));
    let folder = folder.strip_prefix(".").unwrap_or(folder).to_owned();
    let problems = loaded.problems.iter().cloned().map(|mut problem| {
        if let (Some(file), Some(hint)) = (loaded.old_sentinels.get(&problem.path), &mut problem.hint) {
            let joint = if hint.ends_with('?') { " " } else { "; " };
            hint.push_str(&format!("{joint}{}", conversion_of(&folder.join(file))));
        }
        problem
    });
    let mut hinted = Problems::default();
    hinted.extend(problems);
    loaded.problems = hinted;
    loaded
}

/// Returns the part of a hint that names the command which converts a sentinel file of an older system.
pub(crate) fn conversion_of(file: &Path) -> String {
    let file = path_word(file);
    format!("`hankweave sentinel convert --write {file}` converts the whole file")
}

/// Describes a hank that was read and cannot be used.
pub(crate) fn hank_with_mistakes(loaded: &LoadedHank) -> CliError {
    let file = loaded.file.display().to_string();
    let problems = loaded.problems.display_in(&file);
    let message = format!("the hank cannot be used\n{}", problems.trim_end());
    CliError::new(CliErrorKind::Input, message)
}

/// Hint about processes that did not end when they were killed.
const SURVIVORS: &str = "they wait for the kernel, such as for a disk; try again when they are gone";

pub(crate) fn open_failure(error: &OpenExecutionError, hints: &HintCommands) -> CliError {
    match error {
        OpenExecutionError::Preflight(PreflightError::Hank(_)) => {
            CliError::from_error(CliErrorKind::Input, error)
                .hint(format!("`{}` shows everything about the hank; nothing was written", hints.validate()))
        }
        OpenExecutionError::Preflight(PreflightError::Agent { .. }) => {
            CliError::from_error(CliErrorKind::Failed, error).hint(format!(
                "nothing was written; hankweave doctor tells what is here, and `{}` rehearses the hank without any agent program, in a copy of the directory",
                hints.rehearse()
            ))
        }
        OpenExecutionError::Preflight(PreflightError::Requirements(_)) => {
            CliError::from_error(CliErrorKind::Failed, error).hint("provide it and type the same again; nothing was written")
        }
        OpenExecutionError::RecordOfRuns { .. } => CliError::from_error(CliErrorKind::Input, error)
            .hint("rehearse in another directory (-e DIR)"),
        OpenExecutionError::Lock(LockError::Held { .. }) => {
            CliError::from_error(CliErrorKind::Held, error).hint(held(hints))
        }
        OpenExecutionError::Lock(LockError::Unsupported { .. }) => {
            let vouched = hints.run_with(&[CommandEdit::Flag("allow-no-lock")]);
            CliError::from_error(CliErrorKind::Io, error).hint(format!(
                "use a directory on a local disk (-e DIR), or `{vouched}` when no other instance uses this one"
            ))
        }
        OpenExecutionError::Lock(LockError::NotPrivate { .. }) => CliError::from_error(CliErrorKind::Io, error)
            .hint("it holds prompts and everything that agents print, so it must be yours alone"),
        OpenExecutionError::Lock(LockError::OpenToAll { state_dir }) => {
            let close = format!("chmod 700 {}", path_word(state_dir));
            CliError::from_error(CliErrorKind::Io, error)
                .hint(format!("look at what is in it, then take it from others with `{close}`"))
        }
        OpenExecutionError::ChangedHank { why, replanned } => {
            let hint = match replanned {
                true => changed_hank_anew(why, hints),
                false => changed_hank(hints),
            };
            CliError::from_error(CliErrorKind::Input, error).hint(hint)
        }
        OpenExecutionError::Data(DataError::Changed { .. }) => {
            CliError::from_error(CliErrorKind::Input, error).hint(format!(
                "`{}` starts over with it and keeps the history; `{}` continues with what is linked",
                hints.run_with(&[CommandEdit::Flag("new")]),
                hints.run_with(&[CommandEdit::Without("data")])
            ))
        }
        OpenExecutionError::Data(DataError::InTheWay { .. }) => CliError::from_error(CliErrorKind::Input, error)
            .hint("move it away, or use another execution directory (-e DIR)"),
        OpenExecutionError::Data(DataError::Io { .. }) => CliError::from_error(CliErrorKind::Io, error)
            .hint("no codon has run; mend it and type the same again"),
        OpenExecutionError::Data(_) => CliError::from_error(CliErrorKind::Input, error)
            .hint("name a file or folder beside the execution directory with --data PATH, or another directory with -e DIR"),
        OpenExecutionError::Output { source, .. } => {
            let kind = match source.kind() {
                io::ErrorKind::InvalidInput => CliErrorKind::Input,
                _ => CliErrorKind::Io,
            };
            CliError::from_error(kind, error)
                .hint("choose another directory with --output DIR; no codon has run")
        }
        OpenExecutionError::Directory { .. } => CliError::from_error(CliErrorKind::Io, error)
            .hint("choose a directory that you may write to with -e DIR"),
        OpenExecutionError::State(LoadError::History(_)) => {
            CliError::from_error(CliErrorKind::Input, error)
                .hint(format!(
                    "`{}` keeps what is there and starts a new history",
                    hints.run_with(&[CommandEdit::Without("strict-state")])
                ))
        }
        OpenExecutionError::State(LoadError::Version { .. }) => {
            CliError::from_error(CliErrorKind::Input, error).hint(
                "use the version of hankweave that wrote it, or another execution directory (-e DIR)",
            )
        }
        _ => CliError::from_error(CliErrorKind::Io, error),
    }
}

/// Returns advice about another process that has locked the directory.
fn held(hints: &HintCommands) -> String {
    if let Some(answer) = question_there(hints.execution()) {
        return answer;
    }
    match suspended(hints.execution()) {
        Some(run) if takes_clients(hints.execution()) => {
            let stop = hints.command("stop");
            return format!(
                "the run is suspended: {}; `{stop}` stops it",
                run.how_to_continue()
            );
        }
        Some(other) => {
            return format!(
                "the command that has it (process {}) is suspended: `fg` in its terminal continues it",
                other.pid()
            );
        }
        None => {}
    }
    if takes_clients(hints.execution()) {
        return format!(
            "`{}` shows what it does, `{}` stops it; or use another execution directory (-e DIR)",
            hints.command("attach"),
            hints.command("stop")
        );
    }
    format!(
        "wait until it is done (`{}` shows where it stands), or use another execution directory (-e DIR)",
        hints.command("status")
    )
}

pub(crate) fn serve_failure(error: &ServeError, hints: &HintCommands) -> CliError {
    match error {
        ServeError::Listen { .. } => CliError::from_error(CliErrorKind::Io, error).hint(format!(
            "`{}` takes the port of the directory, or the next free one",
            hints.run_with(&[CommandEdit::Set("port", "0")])
        )),
        ServeError::BadToken { .. } | ServeError::SameTokens => {
            CliError::from_error(CliErrorKind::Input, error)
                .hint("unset the variable, and tokens are made in .hankweave")
        }
        _ => CliError::from_error(CliErrorKind::Io, error),
    }
}

pub(crate) fn run_failure(error: &RunError, hints: &HintCommands) -> CliError {
    match error {
        RunError::Record(TransitionError::Rejected(_)) | RunError::CodonLeftOpen => {
            CliError::from_error(CliErrorKind::Bug, error)
        }
        RunError::ChangedHank(_) => {
            CliError::from_error(CliErrorKind::Input, error).hint(changed_hank(hints))
        }
        RunError::MissingParent => CliError::from_error(CliErrorKind::Input, error).hint(format!(
            "`{}` starts over; the history stays",
            hints.run_with(&[CommandEdit::Flag("new")])
        )),
        RunError::Rollback(error) => rollback_failure(error, hints),
        RunError::NothingLeft { budget, .. } => CliError::from_error(CliErrorKind::Paused, error).hint(
            format!("`{}` continues", hints.run_with_more(budget.more(), None, &[])),
        ),
        _ => {
            let hint = lost_record(error, hints)
                .unwrap_or_else(|| format!("make room or repair the disk, and `{}` continues", hints.run()));
            CliError::from_error(CliErrorKind::Io, error).hint(hint)
        }
    }
}

/// Returns advice for a record whose files were removed or moved and could not be put back; `None` if no file is missing: then the disk is to blame.
fn lost_record(error: &(dyn Error + 'static), hints: &HintCommands) -> Option<String> {
    let (run, state_dir) = (hints.run(), hints.execution().join(STATE_DIR));
    let place = path_word(&state_dir);
    if any_cause(error, &|cause| {
        matches!(cause.downcast_ref(), Some(StateFileError::LockLost { .. }))
    }) {
        return Some(format!(
            "{place} was moved: move it back, and `{run}` continues; without it that begins at the first codon"
        ));
    }
    let not_found = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    if !any_cause(error, &|cause| cause.downcast_ref().is_some_and(not_found)) {
        return None;
    }
    let is_there = |name| RealDisk.metadata(&state_dir.join(name)).is_ok();
    let rest = match ["state.json", "state.json.bak", "events"]
        .into_iter()
        .any(is_there)
    {
        true => format!("`{run}` continues by what is left of it"),
        false => format!(
            "`{run}` continues if you move it back or have a copy of it, and begins at the first codon without"
        ),
    };
    Some(format!(
        "{place} was removed or moved, in whole or in part, and could not be put back: {rest}"
    ))
}

/// Whether `is_it` is true of the error or of one of its causes.
fn any_cause(error: &(dyn Error + 'static), is_it: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    is_it(error) || error.source().is_some_and(|cause| any_cause(cause, is_it))
}

/// Returns the hint for a hank that has changed since the run was planned.
fn changed_hank(hints: &HintCommands) -> String {
    format!(
        "undo the change; or `{}` continues as hank.json is now; or `{}` starts over, and the history stays",
        hints.run_with(&[CommandEdit::Flag("replan")]),
        hints.run_with(&[CommandEdit::Flag("new")])
    )
}

/// Returns the hint for a changed hank from which `--replan` could make no new plan, because of `why`.
fn changed_hank_anew(why: &[ExpandError], hints: &HintCommands) -> String {
    match why {
        [
            ExpandError::RemovedCodon(_) | ExpandError::RemovedFromLoop { .. },
            ..,
        ] => {
            let back = hints.run_with(&[
                CommandEdit::Flag("replan"),
                CommandEdit::Set("recover", "last-success"),
            ]);
            format!("`{back}` leaves it out and rolls back to after the last success")
        }
        _ => format!(
            "undo the change; or roll back in front of it with `{}` (`{}` lists them) and use --replan there; or `{}` starts over, and the history stays",
            hints.command("rollback --to SHA"),
            hints.command("checkpoints"),
            hints.run_with(&[CommandEdit::Flag("new")])
        ),
    }
}

/// Describes a rollback that did not happen, with a command that helps.
pub(crate) fn rollback_failure(error: &RollbackError, hints: &HintCommands) -> CliError {
    match error {
        RollbackError::Running => CliError::from_error(CliErrorKind::Held, error).hint(format!(
            "`{}` stops the run first, as Ctrl-C does where it was started",
            hints.command("stop")
        )),
        RollbackError::Survivors { .. } => CliError::from_error(CliErrorKind::Io, error).hint(SURVIVORS),
        RollbackError::Target(TargetError::Ambiguous { .. }) => {
            CliError::from_error(CliErrorKind::Input, error).hint("type more characters of the SHA")
        }
        RollbackError::Target(TargetError::UnknownCodon(_)) => CliError::from_error(CliErrorKind::Input, error)
            .hint(format!(
                "`{}` lists the codons with their checkpoints",
                hints.command("history")
            )),
        RollbackError::Target(TargetError::UnknownSha(_)) => CliError::from_error(CliErrorKind::Input, error)
            .hint(format!("`{}` lists all of them", hints.command("checkpoints"))),
        RollbackError::Target(TargetError::NoCheckpoint(_)) => CliError::from_error(CliErrorKind::Input, error)
            .hint(format!(
                "`{}` shows which checkpoints it has; --at start and --at end take the first and the last",
                hints.command("history")
            )),
        RollbackError::CleanedUp { .. } => CliError::from_error(CliErrorKind::Failed, error).hint(format!(
            "`{}` lists the operations, and which of them are within reach",
            hints.command("op log")
        )),
        RollbackError::NothingToUndo => CliError::from_error(CliErrorKind::Failed, error).hint(format!(
            "`{}` lists all operations; `{}` goes to any of them",
            hints.command("op log"),
            hints.command("op restore ID")
        )),
        RollbackError::UnknownOperation(_) | RollbackError::AmbiguousOperation(_) => {
            CliError::from_error(CliErrorKind::Input, error)
                .hint(format!("`{}` lists all of them", hints.command("op log")))
        }
        RollbackError::Archive(ArchiveError::Manifest { path, .. }) => {
            CliError::from_error(CliErrorKind::Input, error).hint(format!(
                "`mv {0} {0}.old` puts it aside; then run the same command again",
                path_word(path)
            ))
        }
        RollbackError::Archive(_) => CliError::from_error(CliErrorKind::Io, error)
            .hint("repair the disk, then run the same command again: it finishes what was begun"),
        RollbackError::NoSuccess => CliError::from_error(CliErrorKind::Input, error).hint(format!(
            "`{}` starts from the first codon; the history stays",
            hints.run_with(&[CommandEdit::Flag("new")])
        )),
        RollbackError::CutOff { safety, .. } => {
            CliError::from_error(CliErrorKind::Input, error).hint(past_cut_off(safety.as_ref(), hints))
        }
        RollbackError::Restore(RestoreError::InTheWay { path, .. }) => {
            CliError::from_error(CliErrorKind::Failed, error)
                .hint(format!("move `{path}` away and try again; nothing was changed"))
        }
        RollbackError::Restore(RestoreError::Repository { .. }) => {
            CliError::from_error(CliErrorKind::Input, error).hint(format!(
                "nothing was changed; git would start what the settings there name, so `{}` lists the checkpoints to go to instead",
                hints.command("checkpoints")
            ))
        }
        RollbackError::Restore(RestoreError::History(_)) => {
            let (verify, list) = (hints.command("checkpoints verify"), hints.command("checkpoints"));
            CliError::from_error(CliErrorKind::Io, error).hint(format!(
                "no file was changed; `{verify}` names what is damaged, `{list}` lists the others"
            ))
        }
        RollbackError::Record(TransitionError::Rejected(_)) => CliError::from_error(CliErrorKind::Bug, error),
        RollbackError::Restore(_) | RollbackError::Interrupted { .. } => {
            CliError::from_error(CliErrorKind::Io, error).hint(
                "make room or repair the disk, then run the same command again: it finishes what was begun",
            )
        }
        _ => CliError::from_error(CliErrorKind::Io, error),
    }
}

/// Returns the two ways out of an interrupted restore that cannot be finished; neither discards anything.
fn past_cut_off(safety: Option<&CheckpointSha>, hints: &HintCommands) -> String {
    let kept = safety.map_or_else(String::new, |safety| {
        format!("; the replaced files are kept in checkpoint {}", safety.short())
    });
    format!(
        "`{}` lists the checkpoints that one can go to instead, `{}` starts from the first codon with the files as they are{kept}",
        hints.command("checkpoints"),
        hints.run_with(&[CommandEdit::Flag("new")])
    )
}
