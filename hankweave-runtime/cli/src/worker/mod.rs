//! `hankweave worker`: prepares a [`Worker`] from the arguments, lets it work until a signal or, with `--once`, until nothing is left to do, and prints each
//! step. With `--restate` the module `restate` does this instead.

mod metrics;
#[cfg(feature = "restate")]
mod restate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hankweave_runtime::Shutdown;
use hankweave_runtime::checkpoint::is_usable_for_review;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::IoError;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::coordinator::WorkerPresence;
use hankweave_tasks::layers::{LayerError, LeaveReason, TaskLayers, machine_name};
use hankweave_tasks::lifecycle::is_contained;
use hankweave_tasks::worker::{
    OrphanPolicyConfig, ResourceWatch, USUAL_TRIES, Worker, WorkerOptions, WorkerSummary,
};
use serde_json::json;

use crate::args::{CheckpointPolicy, Global, OrphanPolicy, WorkerArgs};
use crate::begun_elsewhere;
use crate::config::remote;
use crate::logging;
use crate::registry::{Registry, kept_url, with_registry};
use crate::signals::{self, HangUp, stopped};
use crate::task::{all_of, counts, line_with_reason, running};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::{self, columns_of_errors, local_time, print_stderr};
use crate::terminal::suspend;
use crate::terminal::wrap::hanging;

pub(crate) fn worker(global: &Global, args: &WorkerArgs) -> Result<ExitCode, CliError> {
    logging::install(global);
    #[cfg(feature = "restate")]
    if let Some(admin) = &args.restate.admin {
        return restate::worker(global, args, admin);
    }
    with_registry(&args.place, async |registry: &Registry| {
        work(global, args, registry).await
    })
}

async fn work(global: &Global, args: &WorkerArgs, registry: &Registry) -> Result<ExitCode, CliError> {
    let swept = sweep(&registry.world, &registry.layers).await;
    swept.map_err(|error| registry.layer_failure(&error))?;
    let mut options = options(args, &registry.world)?;
    options.registry = Some(kept_url(&registry.url));
    let listener = metrics::listen(args.metrics).await?;
    let shutdown = Shutdown::new();
    let signals = signals::watch(shutdown.clone(), HangUp::Stops);
    if !global.quiet && !global.json() {
        let started = format!("worker {} started;", options.name);
        let files = format!("task files are in {}", registry.layers.root().display());
        let length = started.len() + 1 + files.len();
        let joint = match columns_of_errors() {
            Some(room) if length > room => "\n",
            _ => " ",
        };
        print_stderr(format!("{started}{joint}{files}\n"));
    }
    // Before the worker announces itself, so that it does not find itself.
    warn_of_namesake(registry, &options.name).await;
    let (quiet, json) = (global.quiet, global.json());
    let worker = Worker::new(
        Arc::clone(&registry.coordinator),
        registry.layers.clone(),
        registry.world.clone(),
        options,
    )
    .with_step_reporter(move |row| print_step(row, quiet, json));
    let place = registry.place().clone();
    let has_advised = AtomicBool::new(false);
    let worker = worker.with_left_reporter(move |row, why| {
        // The advice for a taken folder is the same for all tasks, so it is printed once.
        let is_first = matches!(why, LeaveReason::Taken(_)) && !has_advised.swap(true, Ordering::Relaxed);
        if !quiet {
            let line = begun_elsewhere::left_alone(&place, row.id(), why, is_first);
            print_stderr(for_terminal(&line));
        }
    });
    let page = metrics::serve(listener, async || worker.page().await);
    let worked = tokio::select! {
        never = signals => match never {},
        never = suspend::answer_for_runs() => match never {},
        never = page => match never {},
        worked = worker.work(&shutdown) => worked,
    };
    let worked = worked.map_err(|error| registry.failure(&error))?;
    report(global, &worked)?;
    if args.once && !global.json() && !global.quiet {
        print_stderr(left_over(registry).await?);
    }
    Ok(stopped(&shutdown))
}

/// Returns the numbers of tasks that have not completed, a line for each kind with the command that lists them.
async fn left_over(registry: &Registry) -> Result<String, CliError> {
    let counts = counts(registry).await?;
    let running = running(registry).await?;
    let elsewhere = begun_in_another_folder(registry).await?;
    let lines = [
        (TaskStatus::Waiting, counts["waiting"], "waiting for an approval"),
        (TaskStatus::Failed, counts["failed"], "failed"),
        (
            TaskStatus::Running,
            running.held,
            "running, under the lease of another worker",
        ),
        (
            TaskStatus::Running,
            running.unheld,
            "running, but no worker holds it",
        ),
        (
            TaskStatus::Pending,
            elsewhere,
            "begun in another folder of tasks or on another machine",
        ),
        (
            TaskStatus::Pending,
            counts["pending"].saturating_sub(elsewhere),
            "pending after other tasks, or new",
        ),
    ];
    let lines = lines.iter().filter(|(_, number, _)| *number > 0);
    let lines = lines.map(|(status, number, about)| {
        let list = registry.command(&format!("task list --status {status}"));
        for_terminal(&format!("  {number} {about}: `{list}`"))
    });
    Ok(lines.collect())
}

/// Returns the number of pending tasks whose files are in another folder (TASK-127).
async fn begun_in_another_folder(registry: &Registry) -> Result<u64, CliError> {
    let rows = all_of(registry, TaskStatus::Pending).await?;
    let missing = rows.iter().filter(|row| registry.layers.missing(row).is_some());
    Ok(missing.count() as u64)
}

/// Breaks a line between its words to fit the terminal of standard error.
fn for_terminal(line: &str) -> String {
    let lines = match columns_of_errors() {
        Some(room) => hanging(line, room, "    "),
        None => vec![line.to_owned()],
    };
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Warns of another worker of this name: every screen distinguishes workers by their names.
async fn warn_of_namesake(registry: &Registry, name: &str) {
    // A registry that does not answer is no failure here: the worker waits for it later.
    let workers = registry.coordinator.workers().await.unwrap_or_default();
    let is_same = |worker: &&WorkerPresence| worker.name == name && !worker.is_late;
    if let Some(other) = workers.iter().find(is_same) {
        tracing::warn!(
            "another worker {name} is there, since {}: what either of them does cannot be told apart; give each a name of its own (--owner)",
            local_time(other.since)
        );
    }
}

/// Removes the unfinished files of writers that no longer exist.
async fn sweep(world: &World, layers: &TaskLayers) -> Result<(), LayerError> {
    let layers = layers.clone();
    let swept = world.blocking.run(move || layers.sweep()).await?;
    for path in &swept.removed {
        tracing::info!(path, "an unfinished file of an earlier process was removed");
    }
    Ok(())
}

fn options(args: &WorkerArgs, world: &World) -> Result<WorkerOptions, CliError> {
    let program = world
        .environment
        .program()
        .ok_or_else(|| CliError::new(CliErrorKind::Io, "the path of this program is unknown"))?;
    let name = args.owner.clone().unwrap_or_else(|| own_name(world));
    let mut options = WorkerOptions::new(name, program);
    options.jobs = args.jobs.into();
    options.once = args.once;
    options.lease = args.lease;
    options.remote = remote(args.remote.as_deref(), world, "worker --remote URL")?;
    options.orphan_after = args.orphan_after;
    options.checkpoints_by_risk = args.checkpoints == CheckpointPolicy::Risk;
    options.packs_checkpoints = args.pack_checkpoints;
    options.keeps_plans = args.plan;
    if args.contained && !is_contained(world) {
        return Err(
            CliError::new(CliErrorKind::Input, "this worker does not run in a container")
                .hint("start it in one, or without --contained; nothing was claimed"),
        );
    }
    options.requires_container = args.contained;
    options.watch = args.watch.then(ResourceWatch::default);
    options.branch = args
        .branch
        .as_deref()
        .map(|path| repository(path, world))
        .transpose()?;
    options.orphans = match args.orphans {
        OrphanPolicy::Requeue => OrphanPolicyConfig::Requeue { tries: USUAL_TRIES },
        OrphanPolicy::Fail => OrphanPolicyConfig::Fail,
        OrphanPolicy::Leave => OrphanPolicyConfig::Leave,
    };
    Ok(options)
}

/// Returns the real path of the repository for `--branch`, or an error if it cannot be used: then no task could start.
fn repository(path: &Path, world: &World) -> Result<PathBuf, CliError> {
    let place = world.disk.real_path(path).map_err(IoError::at("find", path));
    let place = place.map_err(|error| CliError::from_error(CliErrorKind::Input, &error))?;
    match is_usable_for_review(&place) {
        Ok(()) => Ok(place),
        Err(error) => Err(CliError::from_error(CliErrorKind::Input, &error)
            .hint("name a repository of this user's with --branch, or make one with `git init`")),
    }
}

fn own_name(world: &World) -> String {
    format!("{}-{}", machine_name(), world.identity.pid())
}

/// Prints a line for each step of a task. Output that is not read is no reason to stop work.
fn print_step(row: &TaskRow, quiet: bool, json: bool) {
    let printed = match (quiet, json) {
        (_, true) => serde_json::to_string(row)
            .map(|row| screen::print(format!("{row}\n")))
            .ok(),
        (true, false) => None,
        (false, false) => Some(screen::print(line_with_reason(row))),
    };
    if let Some(Err(error)) = printed {
        tracing::debug!(%error, "nobody reads what is printed");
    }
}

/// Prints the number of attempts by outcome.
fn report(global: &Global, worked: &WorkerSummary) -> Result<(), CliError> {
    let WorkerSummary {
        completed,
        failed,
        cancelled,
        waiting,
        requeued,
        lost,
    } = worked;
    if global.json() {
        let document = json!({"completed": completed, "failed": failed, "cancelled": cancelled, "waiting": waiting, "requeued": requeued, "lost": lost});
        return output::print_json_text(&format!("{document}\n"));
    }
    if !global.quiet {
        print_stderr(for_terminal(&format!(
            "attempts: {completed} completed, {failed} failed, {cancelled} cancelled, {waiting} waiting, {requeued} requeued, {lost} lost"
        )));
    }
    Ok(())
}
