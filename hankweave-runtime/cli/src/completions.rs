//! `hankweave completions`, the candidates that a shell asks for at each press of Tab, and `hankweave man`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::document::HankweaveState;
use hankweave_core::hank::Hank;
use hankweave_core::thread;
use hankweave_runtime::driver::{DriverSet, ProcessHost};
use hankweave_runtime::hank_files;
use hankweave_runtime::world::World;
use hankweave_runtime::world::environment::Environment;

use crate::args;
use crate::state::read_execution;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;

/// Variable that a shell sets when it asks what could come next.
const VARIABLE: &str = "HANKWEAVE_COMPLETE";

/// Answers and ends the program if a shell asks what could come next; otherwise does nothing (CLI-28).
pub(crate) fn answer() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Prints the script with which a shell asks for completions.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, CliError> {
    let name = shell.to_string();
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(&name) {
        let program = "hankweave";
        let written = shell.write_registration(VARIABLE, program, program, program, &mut script);
        written.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    }
    output::print(&*String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Candidates for an argument: names that lead to the subcommand, id of the argument, and the function that returns the candidates.
type Completer = (
    &'static [&'static str],
    &'static str,
    fn() -> Vec<CompletionCandidate>,
);

const COMPLETERS: &[Completer] = &[
    (&["run"], "agent", agents),
    (&["run"], "model", models),
    (&["validate"], "agent", agents),
    (&["validate"], "model", models),
    (&["prices"], "model", models),
    (&["history"], "run", runs),
    (&["cost"], "since", runs),
    (&["state", "cost"], "since", runs),
    (&["rollback"], "codon", codons),
    (&["approve"], "codon", codons),
    (&["op", "show"], "id", operations),
    (&["op", "restore"], "id", operations),
    (&["logs"], "codon", codons),
    (&["diff"], "what", codons),
    (&["sentinel", "test"], "codon", codons),
    (&["task", "show"], "id", tasks),
    (&["task", "log"], "id", tasks),
    (&["task", "decisions"], "id", tasks),
    (&["task", "checkpoint"], "id", tasks),
    (&["task", "restore"], "id", tasks),
    (&["task", "recover"], "id", tasks),
    (&["task", "cancel"], "id", tasks),
    (&["task", "resume"], "id", tasks),
    (&["task", "delete"], "id", tasks),
];

/// Returns the program's arguments with the candidates of each.
fn command() -> Command {
    let mut command = args::command();
    for (path, argument, candidates) in COMPLETERS {
        command = with_candidates(command, path, argument, *candidates);
    }
    command
}

/// Adds candidates to the argument of the subcommand at `path`.
fn with_candidates(
    command: Command,
    path: &[&'static str],
    argument: &'static str,
    candidates: fn() -> Vec<CompletionCandidate>,
) -> Command {
    match path.split_first() {
        Some((name, rest)) => {
            command.mut_subcommand(name, |inner| with_candidates(inner, rest, argument, candidates))
        }
        // `mut_arg` would move a positional argument to the end.
        None => command.mut_args(|known| match known.get_id() == argument {
            true => known.add(ArgValueCandidates::new(candidates)),
            false => known,
        }),
    }
}

/// Returns the record of the execution directory that commands use by default; `None`, without an error, if it cannot be read.
fn state() -> Option<HankweaveState> {
    let environment = Environment::of_process();
    let execution = environment.get("HANKWEAVE_EXECUTION");
    read_execution(&execution.map_or_else(|| PathBuf::from("."), PathBuf::from)).ok()
}

fn hank() -> Option<Hank> {
    hank_files::load(Path::new(".")).ok()?.hank
}

/// Returns the planned codons and those of this folder's hank.
fn codons() -> Vec<CompletionCandidate> {
    let (state, hank) = (state(), hank());
    let planned = state.iter().flat_map(|state| state.execution_plan.iter());
    let planned = planned.map(|entry| entry.codon_id.to_string());
    let written = hank
        .iter()
        .flat_map(Hank::codons)
        .map(|codon| codon.id.to_string());
    candidates(planned.chain(written).collect())
}

fn runs() -> Vec<CompletionCandidate> {
    let state = state();
    let runs = state.iter().flat_map(|state| state.runs.iter());
    candidates(runs.map(|run| run.run_id.to_string()).collect())
}

fn operations() -> Vec<CompletionCandidate> {
    let state = state();
    let log = state.iter().flat_map(thread::operations);
    candidates(log.map(|logged| logged.id()).collect())
}

fn agents() -> Vec<CompletionCandidate> {
    let world = World::with_environment(Environment::of_process());
    let drivers = DriverSet::built_in(&ProcessHost::new(&world));
    // These two need a command line, as in `--agent '{"acp": ["program"]}'`, so the bare name is no value.
    candidates(
        drivers
            .names()
            .filter(|name| !["acp", "command"].contains(name))
            .map(str::to_owned)
            .collect(),
    )
}

fn models() -> Vec<CompletionCandidate> {
    candidates(
        Prices::listed()
            .iter()
            .map(|(model, _)| model.to_owned())
            .collect(),
    )
}

/// Returns the tasks of the registry that commands use by default.
fn tasks() -> Vec<CompletionCandidate> {
    candidates(crate::registry::known_ids().into_iter().collect())
}

fn candidates(names: BTreeSet<String>) -> Vec<CompletionCandidate> {
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Writes a page for each command, `hankweave.1`, `hankweave-run.1` and so on, into a folder that is made if it is not there.
pub(crate) fn man(folder: &Path) -> Result<ExitCode, CliError> {
    write_pages(folder).map_err(|error| {
        let message = format!("failed to write the pages to `{}`: {error}", folder.display());
        CliError::new(CliErrorKind::Io, message)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(args::command(), folder)
}
