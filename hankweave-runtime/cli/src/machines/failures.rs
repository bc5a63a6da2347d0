//! Messages about a push, pull or clone that failed, with commands that help (CLI-51).

use hankweave_remote::RemoteError;

use crate::hints::HintCommands;
use crate::terminal::exit::{CliError, CliErrorKind};

pub(super) fn failure(error: &RemoteError, hints: &HintCommands) -> CliError {
    let failure = CliError::from_error(kind(error), error);
    match hint(error, hints) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn kind(error: &RemoteError) -> CliErrorKind {
    match error {
        RemoteError::NoGit
        | RemoteError::Git { .. }
        | RemoteError::TimedOut { .. }
        | RemoteError::Diverged { .. }
        | RemoteError::Behind { .. }
        | RemoteError::Superseded { .. } => CliErrorKind::Failed,
        RemoteError::BadUrl { .. } | RemoteError::BadSize { .. } | RemoteError::NoRemote => {
            CliErrorKind::Usage
        }
        RemoteError::Busy { .. } | RemoteError::Live { .. } => CliErrorKind::Held,
        RemoteError::NothingRecorded
        | RemoteError::Unreadable { .. }
        | RemoteError::Empty { .. }
        | RemoteError::NoSuchRun { .. }
        | RemoteError::Several { .. }
        | RemoteError::Corrupt { .. }
        | RemoteError::TooLarge { .. }
        | RemoteError::Format { .. }
        | RemoteError::Occupied { .. } => CliErrorKind::Input,
        _ => CliErrorKind::Io,
    }
}

fn hint(error: &RemoteError, hints: &HintCommands) -> Option<String> {
    let place_of_yours = |kept: &Option<String>| match kept {
        Some(kept) => format!("yours is kept on the remote as {kept}"),
        None => "yours is on this machine alone".to_owned(),
    };
    Some(match error {
        RemoteError::NoGit => "install git".to_owned(),
        RemoteError::NoRemote => format!(
            "`{}` pushes to it and remembers it; `git init --bare /srv/runs.git` makes one",
            hints.command("push --remote /srv/runs.git")
        ),
        RemoteError::Git { said, .. } if said.contains("does not appear to be a git repository") => {
            "nothing was changed; `git init --bare PATH` makes an empty repository where the remote is to be".to_owned()
        }
        RemoteError::Git { .. } | RemoteError::TimedOut { .. } => {
            "nothing was changed; git goes there with your own settings and asks nothing, so `git ls-remote URL` must work without a question"
                .to_owned()
        }
        RemoteError::Diverged { kept, .. } => format!(
            "{}; `{}` continues with that of the remote, `{}` with yours, and the other one stays there beside it",
            place_of_yours(kept),
            hints.command("pull --replace"),
            hints.command("push --replace")
        ),
        RemoteError::Behind { .. } => format!("`{}` brings it here", hints.command("pull")),
        RemoteError::Superseded { kept, .. } => {
            format!("the run of a later attempt of the task stays there; {}", place_of_yours(kept))
        }
        RemoteError::Live { .. } => format!("`{}` stops it first", hints.command("stop")),
        RemoteError::NothingRecorded => format!("`{}` runs its hank first", hints.run()),
        RemoteError::Empty { .. } => "`hankweave push --remote URL` where the run is brings it there".to_owned(),
        RemoteError::NoSuchRun { known, .. } => match known.is_empty() {
            true => return None,
            false => format!("there are {}", known.join(", ")),
        },
        RemoteError::Several { .. } => "choose one with --run ID".to_owned(),
        RemoteError::Corrupt { .. } => {
            "nothing was changed here; push it again from a machine that has it whole, to another remote if need be".to_owned()
        }
        RemoteError::TooLarge { .. } => {
            "nothing was changed here; if you trust the remote, take more with `--max-size 16GiB` or HANKWEAVE_MAX_SIZE=16GiB".to_owned()
        }
        RemoteError::BadSize { .. } => "write it as 8GiB, or in bytes".to_owned(),
        RemoteError::Format { .. } => "use the version of hankweave that pushed it".to_owned(),
        RemoteError::Occupied { .. } => "name another directory after URL".to_owned(),
        _ => return None,
    })
}
