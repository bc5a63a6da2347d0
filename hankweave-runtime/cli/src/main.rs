//! The `hankweave` program: reads the arguments and calls the module of the command (`dispatch`). Only this crate reads arguments, prints, or chooses
//! an exit code.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests look at the real world themselves"
    )
)]

mod approve;
mod args;
mod begun_elsewhere;
#[expect(
    clippy::disallowed_types,
    reason = "a browser is the user's and outlives the run; everything else that is started ends with it"
)]
mod browser;
mod checkpoints;
mod cleanup;
mod commands;
#[expect(
    clippy::disallowed_methods,
    reason = "manual pages are the user's own files, written with the user's permissions, and have nothing to do with a run"
)]
mod completions;
mod config;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the process of a detached run outlives this one, and its log is standard output, which no seam has"
)]
mod detach;
mod diagram;
mod directory;
#[expect(
    clippy::disallowed_methods,
    reason = "looks at the directory that the user names; nothing runs"
)]
mod doctor;
mod failures;
mod hints;
mod holding;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "templates are the user's own files, written with the user's permissions before there is any run"
)]
mod init;
mod journal;
mod last_options;
mod lock;
mod logging;
mod logs;
mod machines;
#[cfg(feature = "mcp")]
mod mcp;
mod notify;
mod operations;
#[cfg(feature = "otel")]
mod otel;
mod own_output;
mod owning_task;
mod plan_changes;
mod present_workers;
mod prices;
mod put_back;
mod receipt;
mod recorded;
mod registry;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the copy is made before there is any run and goes after it; its files keep the permissions of the user's"
)]
mod rehearsal;
mod remote;
mod replay;
mod rollback;
mod run;
mod running_tasks;
mod schema;
mod sentinel;
mod server_log;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "units and their variables are the user's own files, and systemctl is the user's own program; nothing runs here"
)]
mod service;
mod settings;
mod signals;
#[expect(
    clippy::disallowed_methods,
    reason = "looks at the directory that the user names; nothing runs"
)]
mod state;
mod status;
mod task;
mod task_lines;
mod terminal;
mod thread;
mod toggle;
mod tui;
mod validate;
mod version;
mod view;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use hankweave_runtime::world::environment::outlive_file_limits;

use self::args::{Cli, Color, Command};
use self::terminal::exit::CliError;

fn main() -> ExitCode {
    completions::answer();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(request) => return version::print(&request).unwrap_or_else(|failure| failure.report()),
    };
    match cli.global.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    exit_after_panics();
    outlive_file_limits();
    catch_panic(|| match dispatch(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    })
}

/// Time from a panic until the program exits, if unwinding has not ended it before.
const UNWINDING: Duration = Duration::from_secs(10);

/// Makes a panic end the program (CLI-2). A panic in a thread of a library, which happens when the system refuses it to wake another thread, would
/// otherwise leave the program waiting for ever. The kernel kills the agents with the program.
#[expect(
    clippy::disallowed_methods,
    reason = "whatever else could keep the time may be what has panicked"
)]
fn exit_after_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        terminal::screen::give_back();
        report(panic);
        let end = || std::process::exit(terminal::exit::CliErrorKind::Bug.code().into());
        let later = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(UNWINDING);
            end()
        });
        // A system that gives no thread may well be the reason of the panic.
        if later.is_err() {
            end();
        }
    }));
}

/// Does the work of the program, and reports a panic as a bug with an exit code of its own. While the panic unwinds, every process that we started is
/// killed. Events that were acknowledged are already durable in the state log.
fn catch_panic(work: impl FnOnce() -> ExitCode) -> ExitCode {
    // Nothing that the work touched is used after the panic.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    result.unwrap_or_else(|_| {
        CliError::new(terminal::exit::CliErrorKind::Bug, "hankweave has panicked").report()
    })
}

fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let global = cli.global;
    match cli.command {
        Command::Run(args) => run::run(&global, &args),
        Command::Init(args) => init::init(&global, &args),
        Command::Validate(args) => validate::validate(&global, &args),
        Command::Doctor(args) => doctor::doctor(&global, &args),
        Command::Config(args) => config::config(&global, &args),
        Command::Prices(args) => prices::prices(&global, &args),
        Command::Status(args) => status::status(&global, &args),
        Command::Rollback(args) => rollback::rollback(&global, &args),
        Command::Undo(args) => operations::undo(&global, &args),
        Command::Op(command) => operations::op(&global, &command),
        Command::Cleanup(args) => cleanup::cleanup(&global, &args),
        Command::Replay(args) => replay::replay(&global, &args),
        Command::Attach(args) => remote::attach(&global, &args),
        Command::Page(args) => remote::page(&global, &args),
        Command::View(args) => view::view(&global, &args),
        Command::Next(execution) => remote::next(&global, &execution),
        Command::Approve(args) => approve::approve(&global, &args),
        Command::Skip(execution) => remote::skip(&global, &execution),
        Command::Redo(execution) => remote::redo(&global, &execution),
        Command::Stop(args) => remote::stop(&global, &args),
        Command::Diff(args) => checkpoints::diff(&global, &args),
        Command::Logs(args) => logs::logs(&global, &args),
        Command::Journal(args) => journal::journal(&global, &args),
        Command::State(command) => state::state(&global, &command),
        Command::Report(args) => receipt::report(&global, &args),
        Command::History(args) if args.all => state::history(&global, &args.document),
        Command::History(args) => thread::thread(&global, &args),
        Command::Cost(args) => state::cost(&global, &args),
        Command::Checkpoints(args) => checkpoints::checkpoints(&global, &args),
        Command::Sentinel(command) => sentinel::sentinel(&global, &command),
        Command::Service(command) => service::service(&global, &command),
        Command::Task(args) => task::task(&global, &args),
        Command::Worker(args) => worker::worker(&global, &args),
        Command::Push(args) => machines::push(&global, &args),
        Command::Pull(args) => machines::pull(&global, &args),
        Command::Clone(args) => machines::clone(&global, &args),
        Command::Lock(args) => lock::lock(&global, &args),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::mcp(&global, &args),
        Command::Diagram(args) => diagram::diagram(&args),
        Command::Schema(args) => schema::schema(&args),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man { folder } => completions::man(&folder),
        Command::ScriptedAgent { arguments } => Ok(hankweave_runtime::driver::play(arguments)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-2
    #[test]
    fn a_panic_is_a_bug_of_ours() {
        let code = catch_panic(|| panic!("on purpose"));
        assert_eq!(code, ExitCode::from(70));
        assert_eq!(catch_panic(|| ExitCode::from(3)), ExitCode::from(3));
    }
}
