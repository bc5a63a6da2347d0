//! What to say about errors of the library, and what to type then.

use std::error::Error;
use std::io;
use std::path::Path;

use hankweave_core::discovery::STATE_DIR;
use hankweave_core::id::CheckpointSha;
use hankweave_core::plan::ExpandError;
use hankweave_core::thread::TargetError;
use hankweave_runtime::checkpoint::RestoreError;
use hankweave_runtime::data::DataError;
use hankweave_runtime::hank_files::{LoadHankError, LoadedHank};
use hankweave_runtime::instance_lock::LockError;
use hankweave_runtime::preflight::PreflightError;
use hankweave_runtime::rig::ArchiveError;
use hankweave_runtime::state_manager::{LoadError, TransitionError};
use hankweave_runtime::store::StateFileError;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::{OpenError, RollbackError, RunError, ServeError};

use crate::directory::takes_clients;
use crate::exit::{Failure, FailureKind};
use crate::typed::{Change, Typed, in_folder, path_word};

pub(crate) fn hank_failure(error: &LoadHankError) -> Failure {
    let init = |folder: &Path| format!("`{}` writes a hank to start from", in_folder("init", folder));
    let (kind, hint) = match error {
        LoadHankError::NoHankInFolder { folder } => (FailureKind::Input, init(folder)),
        LoadHankError::Missing { path } => {
            let folder = match path.file_name() {
                Some(name) if name == "hank.json" => path.parent().unwrap_or(path),
                _ => &path.with_extension(""),
            };
            (FailureKind::Input, init(folder))
        }
        LoadHankError::Unreadable { source, .. } if source.is_of_the_system() => (
            FailureKind::Io,
            "mend the disk, then type the same again".to_owned(),
        ),
        LoadHankError::Unreadable { .. } => (
            FailureKind::Input,
            "it must be a regular file that you may read".to_owned(),
        ),
    };
    Failure::from_error(kind, error).hint(hint)
}

/// A hank was read that cannot be used.
pub(crate) fn hank_with_mistakes(loaded: &LoadedHank) -> Failure {
    let file = loaded.file.display().to_string();
    let problems = loaded.problems.display_in(&file);
    let message = format!("the hank cannot be used\n{}", problems.trim_end());
    Failure::new(FailureKind::Input, message)
}

const SURVIVORS: &str = "they wait for the kernel, such as for a disk; try again when they are gone";

pub(crate) fn open_failure(error: &OpenError, typed: &Typed) -> Failure {
    match error {
        OpenError::Preflight(PreflightError::Hank(_)) => {
            Failure::from_error(FailureKind::Input, error)
                .hint(format!("`{}` shows everything about the hank; nothing was written", typed.validate()))
        }
        OpenError::Preflight(PreflightError::Agent { .. }) => {
            Failure::from_error(FailureKind::Failed, error).hint(format!(
                "nothing was written; hankweave doctor tells what is here, and `{}` makes a dry run without any agent program, in a directory of its own",
                typed.dry_run()
            ))
        }
        OpenError::Preflight(PreflightError::Requirements(_)) => {
            Failure::from_error(FailureKind::Failed, error).hint("provide it and type the same again; nothing was written")
        }
        OpenError::Lock(LockError::Held { .. }) => {
            Failure::from_error(FailureKind::Held, error).hint(held(typed))
        }
        OpenError::Lock(LockError::Unsupported { .. }) => {
            let vouched = typed.run_with(&[Change::Flag("allow-no-lock")]);
            Failure::from_error(FailureKind::Io, error).hint(format!(
                "use a directory on a local disk (-e DIR), or `{vouched}` when no other instance uses this one"
            ))
        }
        OpenError::Lock(LockError::NotPrivate { .. }) => Failure::from_error(FailureKind::Io, error)
            .hint("it holds prompts and everything that agents print, so it must be yours alone"),
        OpenError::Lock(LockError::OpenToAll { state_dir }) => {
            let close = format!("chmod 700 {}", path_word(state_dir));
            Failure::from_error(FailureKind::Io, error)
                .hint(format!("look at what is in it, then take it from others with `{close}`"))
        }
        OpenError::ChangedHank { why, replanned } => {
            let hint = match replanned {
                true => changed_hank_anew(why, typed),
                false => changed_hank(typed),
            };
            Failure::from_error(FailureKind::Input, error).hint(hint)
        }
        OpenError::Data(DataError::Changed { .. }) => {
            Failure::from_error(FailureKind::Input, error).hint(format!(
                "`{}` starts over with it and keeps the history; `{}` goes on with what is linked",
                typed.run_with(&[Change::Flag("new")]),
                typed.run_with(&[Change::Without("data")])
            ))
        }
        OpenError::Data(DataError::InTheWay { .. }) => Failure::from_error(FailureKind::Input, error)
            .hint("move it away, or use another execution directory (-e DIR)"),
        OpenError::Data(DataError::Io { .. }) => Failure::from_error(FailureKind::Io, error)
            .hint("no codon has run; mend it and type the same again"),
        OpenError::Data(_) => Failure::from_error(FailureKind::Input, error)
            .hint("name a file or folder beside the execution directory with --data PATH, or another directory with -e DIR"),
        OpenError::Output { source, .. } => {
            let kind = match source.kind() {
                io::ErrorKind::InvalidInput => FailureKind::Input,
                _ => FailureKind::Io,
            };
            Failure::from_error(kind, error)
                .hint("choose another directory with --output DIR; no codon has run")
        }
        OpenError::Directory { .. } => Failure::from_error(FailureKind::Io, error)
            .hint("choose a directory that you may write to with -e DIR"),
        OpenError::State(LoadError::History(_)) => {
            Failure::from_error(FailureKind::Input, error)
                .hint(format!(
                    "`{}` keeps what is there and starts a new history",
                    typed.run_with(&[Change::Without("strict-state")])
                ))
        }
        OpenError::State(LoadError::Version { .. }) => {
            Failure::from_error(FailureKind::Input, error).hint(
                "use the version of hankweave that wrote it, or another execution directory (-e DIR)",
            )
        }
        OpenError::Lock(_)
        | OpenError::Journal(_)
        | OpenError::State(_)
        | OpenError::Checkpoints(_)
        | OpenError::History(_)
        | OpenError::Arrival(_)
        | OpenError::Plan(_)
        | OpenError::Crash(_) => Failure::from_error(FailureKind::Io, error),
    }
}

/// What can be done about an instance that has the directory.
fn held(typed: &Typed) -> String {
    if takes_clients(typed.execution()) {
        return format!(
            "`{}` shows what it does, `{}` stops it; or use another execution directory (-e DIR)",
            typed.command("attach"),
            typed.command("stop")
        );
    }
    format!(
        "wait until it is done (`{}` shows where it stands), or use another execution directory (-e DIR)",
        typed.command("status")
    )
}

pub(crate) fn serve_failure(error: &ServeError, typed: &Typed) -> Failure {
    match error {
        ServeError::Listen { .. } => Failure::from_error(FailureKind::Io, error).hint(format!(
            "`{}` takes any free port",
            typed.run_with(&[Change::Set("port", "0")])
        )),
        ServeError::Token { .. } => Failure::from_error(FailureKind::Io, error),
        ServeError::BadToken { .. } | ServeError::SameTokens => {
            Failure::from_error(FailureKind::Input, error)
                .hint("unset the variable, and tokens are made in .hankweave")
        }
    }
}

pub(crate) fn run_failure(error: &RunError, typed: &Typed) -> Failure {
    match error {
        RunError::Record(TransitionError::Rejected(_)) | RunError::CodonLeftOpen => {
            Failure::from_error(FailureKind::Bug, error)
        }
        RunError::ChangedHank(_) => Failure::from_error(FailureKind::Input, error).hint(changed_hank(typed)),
        RunError::MissingParent => Failure::from_error(FailureKind::Input, error).hint(format!(
            "`{}` starts over; the history stays",
            typed.run_with(&[Change::Flag("new")])
        )),
        RunError::Record(_) | RunError::Save(_) | RunError::Checkpoint(_) => {
            let hint = lost_record(error, typed)
                .unwrap_or_else(|| format!("make room or mend the disk, and `{}` goes on", typed.run()));
            Failure::from_error(FailureKind::Io, error).hint(hint)
        }
        RunError::Rollback(error) => rollback_failure(error, typed),
    }
}

/// What to do about a record of which others have taken something, which could not be put back; `None` when the disk is to blame.
fn lost_record(error: &(dyn Error + 'static), typed: &Typed) -> Option<String> {
    let (run, state_dir) = (typed.run(), typed.execution().join(STATE_DIR));
    let place = path_word(&state_dir);
    if any_cause(error, &|cause| {
        matches!(cause.downcast_ref(), Some(StateFileError::LockLost { .. }))
    }) {
        return Some(format!(
            "{place} was moved: move it back, and `{run}` goes on; without it that begins at the first codon"
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
        true => format!("`{run}` goes on by what is left of it"),
        false => format!("`{run}` goes on if you have a copy of it, and begins at the first codon without"),
    };
    Some(format!(
        "{place} was removed, in whole or in part, and could not be put back: {rest}"
    ))
}

fn any_cause(error: &(dyn Error + 'static), is_it: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    is_it(error) || error.source().is_some_and(|cause| any_cause(cause, is_it))
}

fn changed_hank(typed: &Typed) -> String {
    format!(
        "undo the change; or `{}` goes on as hank.json is now; or `{}` starts over, and the history stays",
        typed.run_with(&[Change::Flag("replan")]),
        typed.run_with(&[Change::Flag("new")])
    )
}

/// Where a plan made anew does not do either.
fn changed_hank_anew(why: &[ExpandError], typed: &Typed) -> String {
    match why {
        [
            ExpandError::RemovedCodon(_) | ExpandError::RemovedFromLoop { .. },
            ..,
        ] => {
            let back = typed.run_with(&[Change::Flag("replan"), Change::Set("recover", "last-success")]);
            format!("`{back}` leaves it out and goes back behind the last success")
        }
        _ => format!(
            "undo the change; or go back in front of it with `{}` (`{}` lists them) and use --replan there; or `{}` starts over, and the history stays",
            typed.command("rollback --to SHA"),
            typed.command("checkpoints"),
            typed.run_with(&[Change::Flag("new")])
        ),
    }
}

/// What to say about a rollback that did not happen, and what to type instead.
pub(crate) fn rollback_failure(error: &RollbackError, typed: &Typed) -> Failure {
    match error {
        RollbackError::Running => Failure::from_error(FailureKind::Held, error).hint(format!(
            "`{}` stops the run first, as Ctrl-C does where it was started",
            typed.command("stop")
        )),
        RollbackError::Survivors { .. } => Failure::from_error(FailureKind::Io, error).hint(SURVIVORS),
        RollbackError::Target(TargetError::Ambiguous { .. }) => {
            Failure::from_error(FailureKind::Input, error).hint("type more characters of the SHA")
        }
        RollbackError::Target(TargetError::UnknownCodon(_)) => Failure::from_error(FailureKind::Input, error)
            .hint(format!(
                "`{}` lists the codons with their checkpoints",
                typed.command("history")
            )),
        RollbackError::Target(TargetError::UnknownSha(_)) => Failure::from_error(FailureKind::Input, error)
            .hint(format!("`{}` lists all of them", typed.command("checkpoints"))),
        RollbackError::Target(TargetError::NoCheckpoint(_)) => Failure::from_error(FailureKind::Input, error)
            .hint(format!(
                "`{}` shows which checkpoints it has; --at start and --at end take the first and the last",
                typed.command("history")
            )),
        RollbackError::CleanedUp { .. } => Failure::from_error(FailureKind::Failed, error).hint(format!(
            "`{}` lists the operations, and which of them are within reach",
            typed.command("op log")
        )),
        RollbackError::NothingToUndo => Failure::from_error(FailureKind::Failed, error).hint(format!(
            "`{}` lists all operations; op restore ID goes to any of them",
            typed.command("op log")
        )),
        RollbackError::UnknownOperation(_) | RollbackError::AmbiguousOperation(_) => {
            Failure::from_error(FailureKind::Input, error)
                .hint(format!("`{}` lists all of them", typed.command("op log")))
        }
        RollbackError::Archive(ArchiveError::Manifest { path, .. }) => {
            Failure::from_error(FailureKind::Input, error).hint(format!(
                "`mv {0} {0}.old` puts it aside; then run the same command again",
                path_word(path)
            ))
        }
        RollbackError::Archive(_) => Failure::from_error(FailureKind::Io, error)
            .hint("mend the disk, then run the same command again: it finishes what was begun"),
        RollbackError::NoSuccess => Failure::from_error(FailureKind::Input, error).hint(format!(
            "`{}` starts from the first codon; the history stays",
            typed.run_with(&[Change::Flag("new")])
        )),
        RollbackError::CutOff { safety, .. } => {
            Failure::from_error(FailureKind::Input, error).hint(past_cut_off(safety.as_ref(), typed))
        }
        RollbackError::Restore(RestoreError::InTheWay { path, .. }) => {
            Failure::from_error(FailureKind::Failed, error)
                .hint(format!("move `{path}` away and try again; nothing was changed"))
        }
        RollbackError::Restore(RestoreError::Repository { .. }) => {
            Failure::from_error(FailureKind::Input, error).hint(format!(
                "nothing was changed; git would start what the settings there name, so `{}` lists the checkpoints to go to instead",
                typed.command("checkpoints")
            ))
        }
        RollbackError::Restore(RestoreError::History(_)) => {
            let (verify, list) = (typed.command("checkpoints verify"), typed.command("checkpoints"));
            Failure::from_error(FailureKind::Io, error).hint(format!(
                "no file was changed; `{verify}` names what is damaged, `{list}` lists the others"
            ))
        }
        RollbackError::Record(TransitionError::Rejected(_)) => Failure::from_error(FailureKind::Bug, error),
        RollbackError::History(_) | RollbackError::Record(_) => Failure::from_error(FailureKind::Io, error),
        RollbackError::Restore(_) | RollbackError::Interrupted { .. } => {
            Failure::from_error(FailureKind::Io, error).hint(
                "make room or mend the disk, then run the same command again: it finishes what was begun",
            )
        }
    }
}

/// What to type when an interrupted restore cannot be finished: either way nothing is thrown away.
fn past_cut_off(safety: Option<&CheckpointSha>, typed: &Typed) -> String {
    let kept = safety.map_or_else(String::new, |safety| {
        format!("; what was there before is kept in checkpoint {}", safety.short())
    });
    format!(
        "`{}` lists the checkpoints that one can go to instead, `{}` starts from the first codon with the files as they are{kept}",
        typed.command("checkpoints"),
        typed.run_with(&[Change::Flag("new")])
    )
}
