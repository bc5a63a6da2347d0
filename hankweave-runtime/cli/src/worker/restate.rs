//! `hankweave worker --restate`: Restate stores the tasks, and sends them to the process that answers at the registered address (CLI-60).

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use hankweave_http::HttpClient;
use hankweave_restate::{RegisterError, RestateEngine, register, serve};
use hankweave_runtime::Shutdown;
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;
use hankweave_tasks::layers::TaskLayers;
use tokio::net::TcpListener;

use super::{metrics, options, print_step, sweep};
use crate::args::{Global, WorkerArgs};
use crate::registry::{RESTATE, tasks_folder, with_runtime};
use crate::signals::{self, HangUp, stopped};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::screen::print_stderr;
use crate::terminal::suspend;

pub(super) fn worker(global: &Global, args: &WorkerArgs, admin: &str) -> Result<ExitCode, CliError> {
    let root = tasks_folder(&args.place)?;
    with_runtime(work(global, args, admin, root))
}

async fn work(global: &Global, args: &WorkerArgs, admin: &str, root: PathBuf) -> Result<ExitCode, CliError> {
    let world = World {
        http: Arc::new(HttpClient::new()),
        ..World::real()
    };
    let layers = TaskLayers::new(world.clone(), root);
    let swept = sweep(&world, &layers).await;
    swept.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let mut options = options(args, &world)?;
    options.registry = Some(RESTATE.to_owned());
    let name = options.name.clone();
    let (quiet, json) = (global.quiet, global.json());
    let report_step = move |row: &_| print_step(row, quiet, json);
    let engine = RestateEngine::new(layers.clone(), world.clone(), options, report_step);
    let figures = engine.figures();
    let page = metrics::serve(metrics::listen(args.metrics).await?, async || {
        figures.page(&layers)
    });
    let (listener, address) = listen(args).await?;
    let shutdown = Shutdown::new();
    // Runs together with `served`: Restate calls the worker while it is being registered.
    let registered = async {
        register(&*world.http, admin, &address).await.map_err(refused)?;
        if !quiet && !json {
            let root = layers.root().display();
            print_stderr(format!(
                "worker {name} serves Restate at {address}; task files are in {root}\n"
            ));
        }
        Ok::<_, CliError>(())
    };
    let served = async {
        serve(engine, listener, &shutdown).await;
        Ok(())
    };
    tokio::select! {
        never = signals::watch(shutdown.clone(), HangUp::Stops) => match never {},
        never = suspend::answer_for_runs() => match never {},
        never = page => match never {},
        done = async { tokio::try_join!(registered, served) } => done.map(|_| stopped(&shutdown)),
    }
}

/// Returns the listener of this worker, and its address for Restate.
async fn listen(args: &WorkerArgs) -> Result<(TcpListener, String), CliError> {
    let wanted = args.restate.listen;
    let failed = |error: std::io::Error| {
        CliError::new(CliErrorKind::Io, format!("failed to listen on {wanted}: {error}"))
            .hint("name another address with --listen, such as 127.0.0.1:0")
    };
    let listener = TcpListener::bind(wanted).await.map_err(failed)?;
    let own = listener.local_addr().map_err(failed)?;
    let address = args.restate.advertise.clone();
    Ok((listener, address.unwrap_or_else(|| format!("http://{own}"))))
}

fn refused(error: RegisterError) -> CliError {
    let failed = CliError::new(CliErrorKind::Io, chain(&error));
    match error {
        RegisterError::Away { .. } => failed.hint(
            "name the admin interface of a Restate server that runs, such as --restate http://127.0.0.1:9070",
        ),
        RegisterError::Refused { .. } => failed.hint(
            "Restate must reach the workers at the address of --advertise; new programs take an address of their own, so that executions end where they began",
        ),
        _ => failed,
    }
}
