//! `hankweave push`, `pull` and `clone`: move runs between machines through a git repository, the remote (CLI-50, CLI-51, CLI-52). The work is done by
//! `hankweave_remote`; here are the arguments, the choice of the remote and the output.

mod failures;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hankweave_remote::{
    CloneRequest, FetchedRun, MAX_SIZE_VARIABLE, PullRequest, PushOutcome, PushRequest, Pushed, RemoteError,
};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::world::environment::{Environment, make_new_files_private};
use serde_json::json;

use self::failures::failure;
use crate::args::{ArrivalArgs, CloneArgs, Global, PullArgs, PushArgs};
use crate::config::{named_remote, remote};
use crate::directory::is_served;
use crate::hints::HintCommands;
use crate::logging;
use crate::owning_task::{check_by_hand, existing_state_dir};
use crate::settings::TrustedSettings;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::{one_line, print_stderr};
use crate::terminal::shell::word;

pub(crate) fn push(global: &Global, args: &PushArgs) -> Result<ExitCode, CliError> {
    logging::install(global);
    make_new_files_private();
    let named = &args.execution.execution;
    let dir = existing(named).map_err(|error| hint_at_remote(error, named))?;
    let hints = HintCommands::about(named);
    let world = World::real();
    let request = PushRequest {
        url: remote_to_set(args.remote.as_deref(), &world, &dir, |url| {
            hints.command(&format!("push --remote {url}"))
        })?,
        replace: args.replace,
        ..PushRequest::default()
    };
    let is_live = is_served(dir.root());
    let pushed = block_on(hankweave_remote::push(&world, &dir, &request))?;
    let pushed = pushed.map_err(|error| failure(&error, &hints))?;
    if global.json() {
        output::print_json(&pushed_document(&pushed))?;
    } else if !global.quiet {
        output::print(words::pushed(&pushed, is_live))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn pull(global: &Global, args: &PullArgs) -> Result<ExitCode, CliError> {
    logging::install(global);
    make_new_files_private();
    let dir = existing(&args.execution.execution)?;
    check_by_hand(&args.execution.execution, "pull")?;
    let hints = HintCommands::about(&args.execution.execution);
    let world = world(&args.limits);
    let request = PullRequest {
        url: remote_to_set(None, &world, &dir, |url| {
            format!("HANKWEAVE_REMOTE={url} {}", hints.command("pull"))
        })?,
        replace: args.replace,
        ..PullRequest::default()
    };
    let pulled = block_on(hankweave_remote::pull(&world, &dir, &request))?;
    let pulled = pulled.map_err(|error| failure(&error, &hints))?;
    report(global, &args.execution.execution, &pulled)
}

pub(crate) fn clone(global: &Global, args: &CloneArgs) -> Result<ExitCode, CliError> {
    logging::install(global);
    make_new_files_private();
    let world = world(&args.limits);
    let url = remote(args.remote.as_deref(), &world, "clone URL")?;
    let url = url.ok_or_else(|| {
        CliError::new(CliErrorKind::Usage, "nobody says where from")
            .hint("name the repository: `hankweave clone URL`")
    })?;
    let directory = match &args.directory {
        Some(directory) => directory.clone(),
        None => directory_for(&url)?,
    };
    let here = RealDisk.real_path(Path::new("."));
    let here = here.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let request = CloneRequest {
        into: here.join(&directory),
        wanted: args.run.clone(),
        url,
    };
    let hints = HintCommands::about(&directory);
    let cloned = block_on(hankweave_remote::clone(&world, &request))?;
    let cloned = cloned.map_err(|error| failure(&error, &hints))?;
    let trusted = TrustedSettings::of(&*world.disk, &world.environment, &request.into);
    note_remote(&trusted, &cloned.url);
    report(global, &directory, &cloned)
}

/// Returns a world with the size limit for the fetched record, if the arguments have one.
fn world(limits: &ArrivalArgs) -> World {
    match limits.max_size {
        Some(size) => {
            let environment = Environment::of_process();
            World::with_environment(environment.with(MAX_SIZE_VARIABLE, &size.to_string()))
        }
        None => World::real(),
    }
}

/// Returns the remote to set for a run: the typed one, or, for a run without a remembered remote, that of the settings. `None` if the run keeps its
/// remembered remote, or there is none at all.
///
/// A remembered remote may come from another person with the record. So it is refused unless the user has named it for this directory before or names it
/// in the settings; the hint is then `command` with that remote.
fn remote_to_set(
    typed: Option<&str>,
    world: &World,
    dir: &ExecutionDir,
    command: impl FnOnce(&str) -> String,
) -> Result<Option<String>, CliError> {
    let trusted = TrustedSettings::of(&*world.disk, &world.environment, dir.root());
    let remembered = match hankweave_remote::remembered(&*world.disk, dir) {
        Ok(remembered) if typed.is_none() => remembered.map(|remembered| remembered.url),
        // A typed remote replaces the remembered one. If the remembered one cannot be read, the push or pull itself fails.
        Ok(_) | Err(_) => None,
    };
    let Some(remembered) = remembered else {
        let url = remote(typed, world, "push --remote URL")?;
        url.iter().for_each(|url| note_remote(&trusted, url));
        return Ok(url);
    };
    if !trusted.has_remote(&remembered) {
        if named_remote(world)?.as_ref() != Some(&remembered) {
            return Err(untrusted_remote(&remembered, &command(&word(&remembered))));
        }
        note_remote(&trusted, &remembered);
    }
    Ok(None)
}

/// Returns the error for a remembered remote that the user has not named.
fn untrusted_remote(remote: &str, command: &str) -> CliError {
    let message = format!(
        "the record of this directory names the remote {}, and a directory may come from anybody",
        one_line(hankweave_remote::shown(remote))
    );
    CliError::new(CliErrorKind::Usage, message).hint(format!("if you know it, `{command}` continues with it"))
}

/// Notes that the user has named this remote for the directory. If that fails, the remote is refused next time.
fn note_remote(trusted: &TrustedSettings<'_>, url: &str) {
    if let Err(error) = trusted.accept_remote(url) {
        tracing::warn!(%error, "the remote is not remembered as the user's");
    }
}

/// Returns the execution directory, which must exist.
fn existing(execution: &Path) -> Result<ExecutionDir, CliError> {
    existing_state_dir(execution)?;
    let real = RealDisk.real_path(execution);
    let real = real.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    Ok(ExecutionDir::new(real))
}

/// Adds a hint on how to name a remote, for a user who typed its URL in place of the directory, as git takes it.
fn hint_at_remote(error: CliError, named: &Path) -> CliError {
    let is_bare = || RealDisk.metadata(&named.join("HEAD")).is_ok();
    match named.to_str() {
        Some(url) if url.contains(':') || is_bare() => {
            let push = HintCommands::about(Path::new(".")).command(&format!("push --remote {}", word(url)));
            error.hint(format!("`{push}` pushes the run of this directory there"))
        }
        Some(_) | None => error,
    }
}

/// Runs `work` to its end; the outer error is that of the runtime.
fn block_on<T>(
    work: impl Future<Output = Result<T, RemoteError>>,
) -> Result<Result<T, RemoteError>, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let done = runtime.block_on(work);
    // A thread that waits for a disk that hangs must not keep the process.
    runtime.shutdown_background();
    Ok(done)
}

/// Returns the last name in an address as the new directory, as `git clone` does.
fn directory_for(url: &str) -> Result<PathBuf, CliError> {
    let name = url
        .trim_end_matches('/')
        .rsplit(['/', ':'])
        .next()
        .unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(name);
    match matches!(name, "" | "." | "..") {
        true => Err(
            CliError::new(CliErrorKind::Usage, "the address has no name for a directory")
                .hint("name one after it"),
        ),
        false => Ok(PathBuf::from(name)),
    }
}

fn pushed_document(pushed: &Pushed) -> serde_json::Value {
    let outcome = match pushed.outcome {
        PushOutcome::Pushed => "pushed",
        PushOutcome::UpToDate => "up-to-date",
    };
    json!({
        "outcome": outcome,
        "remote": hankweave_remote::shown(&pushed.url),
        "run": pushed.execution,
        "record": pushed.record,
        "checkpoint": pushed.checkpoint,
        "kept": pushed.kept,
        "leftBehind": pushed.left_behind,
    })
}

/// Prints what a pull or clone has fetched.
fn report(global: &Global, execution: &Path, arrived: &FetchedRun) -> Result<ExitCode, CliError> {
    if global.json() {
        output::print_json(&json!({
            "outcome": if arrived.changed { "arrived" } else { "up-to-date" },
            "directory": execution,
            "remote": hankweave_remote::shown(&arrived.url),
            "run": arrived.execution,
            "record": arrived.record,
            "checkpoint": arrived.checkpoint,
            "hank": arrived.hank,
            "leftBehind": arrived.left_behind,
            "different": arrived.different,
            "kept": arrived.kept,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if global.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    output::print(words::arrived(execution, arrived))?;
    for notice in words::notices(execution, arrived) {
        print_stderr(format!("note: {notice}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_clone_is_called_as_git_would_call_it() {
        for (url, name) in [
            ("ssh://git@x.example/runs.git", Some("runs")),
            ("git@x.example:runs.git", Some("runs")),
            ("/srv/runs/", Some("runs")),
            ("/", None),
        ] {
            assert_eq!(directory_for(url).ok(), name.map(PathBuf::from), "{url}");
        }
    }
}
