//! `hankweave view`: the page of recorded runs: served from here, in a file ([`export`]), or linked from a list of all runs below a folder ([`list`]).

mod differences;
mod export;
mod list;

use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::ExitCode;

use hankweave_core::id::RunId;
use hankweave_runtime::world::World;
use hankweave_runtime::world::blocking::lasting_runtime;
use hankweave_runtime::world::disk::{Disk, RealDisk};
use hankweave_runtime::world::environment::make_new_files_private;
use hankweave_runtime::{ExecutionDir, OpenRecordError, RecordServer, ServeError, ServerOptions, Shutdown};
use serde_json::json;

use crate::args::{Document, Global, ViewArgs};
use crate::browser::Browser;
use crate::directory::holder;
use crate::failures::serve_failure;
use crate::hints::HintCommands;
use crate::logging;
use crate::owning_task::existing_state_dir;
use crate::receipt;
use crate::signals::{self, HangUp, stopped};
use crate::state::{named_run, read_execution};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::print_stderr;

/// Serves the page of recorded runs, or writes it into a file. It takes no lock, so a live run continues undisturbed.
pub(crate) fn view(global: &Global, args: &ViewArgs) -> Result<ExitCode, CliError> {
    match (&args.export, &args.root) {
        (Some(file), _) => export::export(global, &args.execution.execution, file),
        (None, Some(root)) => list::serve(global, args, root),
        (None, None) => serve(global, args),
    }
}

/// Serves the page until a signal (WIRE-46).
fn serve(global: &Global, args: &ViewArgs) -> Result<ExitCode, CliError> {
    logging::install(global);
    make_new_files_private();
    let execution = &args.execution.execution;
    existing_state_dir(execution)?;
    let failed = |error| CliError::from_error(CliErrorKind::Io, &error);
    let dir = ExecutionDir::new(RealDisk.real_path(execution).map_err(failed)?);
    let run = args
        .run
        .as_deref()
        .map(|text| chosen_run(args, text))
        .transpose()?;
    let runtime = lasting_runtime().map_err(|error| CliError::no_threads(&error))?;
    let ended = runtime.block_on(open_and_serve(global, args, dir, run));
    // A thread that waits for a disk that hangs must not keep the process.
    runtime.shutdown_background();
    ended
}

fn chosen_run(args: &ViewArgs, text: &str) -> Result<RunId, CliError> {
    let document = Document {
        execution: args.execution.clone(),
        state: None,
    };
    named_run(&read_execution(&args.execution.execution)?, text, &document)
}

/// Opens the server of the record and serves until a signal.
async fn open_and_serve(
    global: &Global,
    args: &ViewArgs,
    dir: ExecutionDir,
    run: Option<RunId>,
) -> Result<ExitCode, CliError> {
    let (world, state_dir) = (World::real(), dir.state_dir());
    let mut options = ServerOptions::default();
    options.port = args.port.unwrap_or(0);
    // The texts of the report are about the newest run, so another run has none.
    options.texts = run.is_none().then(|| receipt::texts(dir.root()));
    let opening = async {
        let opened = RecordServer::open(&world, dir, run, options).await;
        let server = opened.map_err(|error| failure(&error, args))?;
        if let Some(port) = server.taken_port() {
            note(global, &why_other_port(&args.execution.execution, port));
        }
        Ok(server)
    };
    let served = "the page is served until Ctrl+C, and follows the runs in this directory";
    let browser_folder = args.open.then_some(state_dir);
    attend(global, &world, opening, served, browser_folder).await
}

/// Server of pages.
trait PageServer {
    /// Returns the address with the token for reading.
    fn address(&self) -> String;

    /// Answers clients until `stop` is done.
    fn answer(self, stop: impl Future<Output = ()>) -> impl Future<Output = ()>;
}

impl PageServer for RecordServer {
    fn address(&self) -> String {
        self.read_only_address()
    }

    fn answer(self, stop: impl Future<Output = ()>) -> impl Future<Output = ()> {
        self.serve(stop)
    }
}

/// Opens a server, prints its address and serves until a signal. With a `browser_folder` it also opens the page in a browser, by a private file in that
/// folder.
async fn attend<S: PageServer>(
    global: &Global,
    world: &World,
    opening: impl Future<Output = Result<S, CliError>>,
    served: &str,
    browser_folder: Option<PathBuf>,
) -> Result<ExitCode, CliError> {
    let shutdown = Shutdown::new();
    let mut watch = pin!(signals::watch(shutdown.clone(), HangUp::Stops));
    let server = tokio::select! {
        biased;
        never = &mut watch => match never {},
        () = shutdown.requested() => return Ok(stopped(&shutdown)),
        opened = opening => opened,
    }?;
    announce(global, &server.address(), served)?;
    let browser = browser_folder.map(|folder| Browser::open(world, &folder, &server.address()));
    let mut browser = match browser {
        Some(Err(error)) => {
            note(global, &format!("the page was not opened: {error}"));
            None
        }
        browser => browser.and_then(Result::ok),
    };
    until_stopped(server, watch, &shutdown, browser.as_mut()).await;
    Ok(stopped(&shutdown))
}

/// Serves until a signal, and logs if the browser could not be opened.
async fn until_stopped(
    server: impl PageServer,
    watch: Pin<&mut impl Future<Output = std::convert::Infallible>>,
    shutdown: &Shutdown,
    browser: Option<&mut Browser>,
) {
    let opening = async {
        if let Some(browser) = browser
            && !browser.opened().await
        {
            tracing::warn!("the program that opens the page has failed");
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        never = watch => match never {},
        () = opening => {}
        () = server.answer(shutdown.requested()) => {}
        () = shutdown.force_token().cancelled() => {}
    }
}

/// Describes why the page has another port than usual: `port`, that of the directory, is taken.
fn why_other_port(execution: &Path, port: u16) -> String {
    match holder(execution).and_then(|record| record.port) == Some(port) {
        true => format!(
            "the live run has port {port}; `{}` prints the address of its page",
            HintCommands::about(execution).command("page")
        ),
        false => format!("another program has port {port}, which this directory had before"),
    }
}

/// Prints the address. It has a token, so it is for the user alone, as that of `hankweave page`.
fn announce(global: &Global, address: &str, served: &str) -> Result<(), CliError> {
    match global.json() {
        true => {
            let document = json!({"address": address, "access": "read-only"});
            output::print_json_text(&format!("{document}\n"))
        }
        false => {
            output::print(format!("{address}\n"))?;
            note(global, served);
            Ok(())
        }
    }
}

fn note(global: &Global, text: &str) {
    if !global.quiet {
        print_stderr(format!("{text}\n"));
    }
}

fn no_run(execution: &Path) -> CliError {
    let message = format!("`{}` has no recorded run", execution.display());
    CliError::new(CliErrorKind::Input, message)
        .hint("name another directory with -e DIR, or start a run in it")
}

fn failure(error: &OpenRecordError, args: &ViewArgs) -> CliError {
    let execution = &args.execution.execution;
    match error {
        OpenRecordError::Empty => no_run(execution),
        OpenRecordError::UnknownRun { .. } => CliError::from_error(CliErrorKind::Input, error).hint(format!(
            "`{}` lists the runs",
            HintCommands::about(execution).command("history --all")
        )),
        OpenRecordError::Serve(error @ ServeError::Listen { .. }) => {
            CliError::from_error(CliErrorKind::Io, error)
                .hint("without --port it is the port of the directory, or the next free one")
        }
        OpenRecordError::Serve(error) => serve_failure(error, &HintCommands::about(execution)),
        _ => CliError::from_error(CliErrorKind::Io, error),
    }
}
