//! Parses the command line ([`Cli::read`]) and refuses wrong arguments. For `run`, adds the options of the last run in the directory, and notes the
//! arguments as an [`Invocation`] for hints and for the next run.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches, ValueHint};
use hankweave_runtime::world::disk::{Disk, RealDisk};
use hankweave_runtime::{GivenOption, Invocation, OptionScope};

use super::last_run::LastRunHere;
use super::{Cli, Command, RunArgs, SettingArgs};
use crate::terminal::screen::print_stderr;

/// Request of `--version --verbose`.
#[derive(Debug)]
pub(crate) struct VersionRequest {
    pub(crate) is_json: bool,
}

impl Cli {
    /// Reads the command line. Ends the program if it is wrong, and after printing help; `--version --verbose` is an error, for the caller to print.
    pub(crate) fn read() -> Result<Self, VersionRequest> {
        let mut command = super::command();
        command.build();
        let matches = command.clone().try_get_matches();
        let matches = match matches {
            Ok(matches) => matches,
            Err(error) if error.kind() == ErrorKind::DisplayVersion && is_verbose(typed()) => {
                let is_json = typed().any(|argument| argument == "--json");
                return Err(VersionRequest { is_json });
            }
            Err(error) => refuse(&error),
        };
        if let Some((name, other)) = beside_execution(&matches) {
            let message = format!("the argument '{name}' cannot be used with '{other}'");
            refuse(&command.error(ErrorKind::ArgumentConflict, message));
        }
        let cli =
            Self::from_arg_matches(&matches).unwrap_or_else(|error| refuse(&error.format(&mut command)));
        Ok(match (cli.command, matches.subcommand()) {
            (Command::Run(args), Some((_, typed))) => Self {
                command: Command::Run(with_last_run(&command, args, typed)),
                ..cli
            },
            (command, _) => Self { command, ..cli },
        })
    }
}

/// Returns the settings of a run of this hank with these arguments, as a worker starts it.
///
/// # Errors
///
/// Returns why `run` refuses the arguments.
pub(crate) fn settings_of_run(hank: &Path, arguments: &[String]) -> Result<SettingArgs, String> {
    let run = read_run(
        ["hankweave", "run", "--headless", "--json", "-e", "."],
        hank,
        arguments,
    )?;
    match run.args.detach {
        true => Err("a worker waits for its run, which --detach does not".to_owned()),
        false => Ok(run.args.settings),
    }
}

/// Arguments of a run that another command starts.
pub(crate) struct ReadRun {
    pub(crate) args: Box<RunArgs>,
    /// Whether `-e` is among them, so that no variable names the execution directory.
    pub(crate) has_execution: bool,
}

/// Reads the arguments of a run that follow the words `begin` and the hank.
fn read_run<const N: usize>(begin: [&str; N], hank: &Path, arguments: &[String]) -> Result<ReadRun, String> {
    let mut line: Vec<OsString> = begin.map(OsString::from).into();
    line.push(hank.as_os_str().to_owned());
    line.extend(arguments.iter().map(OsString::from));
    let read = super::command().try_get_matches_from(line);
    let read = read.and_then(|matches| {
        let typed = matches.subcommand().map(|(_, typed)| typed);
        let has_execution = typed.is_some_and(|typed| is_typed(typed, "execution"));
        Ok((Cli::from_arg_matches(&matches)?.command, has_execution))
    });
    match read {
        Ok((Command::Run(args), has_execution)) => Ok(ReadRun { args, has_execution }),
        Ok(_) => Err("they start no run".to_owned()),
        Err(error) => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or("they are wrong");
            Err(first.strip_prefix("error: ").unwrap_or(first).to_owned())
        }
    }
}

/// Returns the arguments of the run that a service starts again and again.
///
/// # Errors
///
/// Returns why `run` refuses the options, or why a service cannot have them.
pub(crate) fn run_of_service(hank: &Path, options: &[String]) -> Result<ReadRun, String> {
    let read = read_run(["hankweave", "run"], hank, options)?;
    let run = &read.args;
    let refused = [
        ("--detach", run.detach),
        ("--dry-run", run.dry_run),
        ("--rehearse", run.rehearse),
        ("--new", run.new),
        ("--replan", run.replan),
        ("--open", run.open),
        ("--headless", run.headless),
    ];
    match refused.into_iter().find(|(_, is_given)| *is_given) {
        Some(("--headless", _)) => Err("a service is headless in any case".to_owned()),
        Some((name, _)) => Err(format!(
            "{name} is for one start, and a service starts again and again"
        )),
        None => Ok(read),
    }
}

/// Completes the arguments of `run` by the lasting options of the last run in the same directory, and notes them for the next run (RUN-41).
fn with_last_run(command: &clap::Command, args: Box<RunArgs>, matches: &ArgMatches) -> Box<RunArgs> {
    let Some(run) = command.find_subcommand("run") else {
        return args;
    };
    let here = RealDisk.real_path(Path::new(".")).unwrap_or_default();
    let last = LastRunHere::of(&args);
    let is_typed = |name: &str| {
        let mut options = run.get_arguments();
        let option = options.find(|option| option.get_long() == Some(name));
        // An option that this version does not have counts as typed, so that it is not taken over.
        option.is_none_or(|option| is_typed(matches, option.get_id().as_str()))
    };
    let kept = match args.forget {
        true => Vec::new(),
        false => last.options(&here, is_typed),
    };
    let options = typed_options(run, matches)
        .into_iter()
        .chain(kept.iter().cloned());
    let options = options.collect();
    let mut args = match kept.is_empty() {
        true => args,
        false => read_again(command, &kept),
    };
    last.name_hank(&mut args.hank);
    args.invocation = Invocation {
        folder: here,
        hank: lasting(&args.hank.hank),
        execution: args.hank.execution.as_deref().map(lasting),
        options,
    };
    args.kept = kept;
    args
}

/// Returns a path that stays valid if the working directory is removed: the real path instead of one with `..`.
fn lasting(path: &Path) -> PathBuf {
    let leads_up = path.components().any(|part| part == Component::ParentDir);
    let real = leads_up.then(|| RealDisk.real_path(path).ok());
    real.flatten().unwrap_or_else(|| path.to_owned())
}

/// Reads the arguments of `run` with more options than were typed.
fn read_again(command: &clap::Command, kept: &[GivenOption]) -> Box<RunArgs> {
    let options = kept.iter().map(|option| match &option.value {
        Some(value) => format!("--{}={value}", option.name).into(),
        None => format!("--{}", option.name).into(),
    });
    let line = after_run(typed(), options);
    let read = command.clone().try_get_matches_from(line);
    let read = read.and_then(|matches| Cli::from_arg_matches(&matches));
    match read.map(|cli| cli.command) {
        Ok(Command::Run(args)) => args,
        Ok(_) => unreachable!("`run` was read before"),
        Err(error) => {
            print_stderr("note: the options of the last run here cannot be used; --forget leaves them out\n");
            refuse(&error)
        }
    }
}

/// Returns the arguments for the process of a detached run: those of this process and the mark `--detached-process`.
pub(crate) fn detached_arguments() -> Vec<OsString> {
    after_run(typed().skip(1), ["--detached-process".into()])
}

/// Puts `options` right after the subcommand `run`. No option before a subcommand has free text as its value, so the first word `run` is the subcommand.
fn after_run(
    arguments: impl Iterator<Item = OsString>,
    options: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let run = arguments.iter().position(|argument| argument == "run");
    let place = run.map_or(0, |run| run + 1);
    arguments.splice(place..place, options);
    arguments
}

/// Returns the words of the command line, beginning with the program.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line, which clap reads in the same way"
)]
fn typed() -> impl Iterator<Item = OsString> {
    std::env::args_os()
}

/// Whether the arguments contain `--verbose` or `-v`. Clap cannot say so: it stops at `--version`, whatever follows.
fn is_verbose(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.skip(1).any(|argument| {
        let argument = argument.to_string_lossy();
        let short = argument.strip_prefix('-').filter(|short| !short.starts_with('-'));
        argument == "--verbose" || short.is_some_and(|short| short.contains('v'))
    })
}

/// Ends the program with clap's message. Help contains only our own text and is printed as it is; an error quotes what was typed, perhaps pasted, so
/// [`print_stderr`] makes it safe for the terminal.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    print_stderr(error.render().to_string());
    std::process::exit(error.exit_code())
}

/// Returns two typed arguments that conflict because both name an execution directory, or what replaces one. The variable `HANKWEAVE_EXECUTION`
/// conflicts with nothing; clap's `conflicts_with` would count it.
fn beside_execution(matches: &ArgMatches) -> Option<(&'static str, &'static str)> {
    if let Some((_, inner)) = matches.subcommand() {
        return beside_execution(inner);
    }
    let directories = [("dir", "[DIR]"), ("execution", "--execution <DIR>")];
    let replacements = [("state", "--state"), ("url", "--url")];
    let is_typed = |(id, _): &(&str, &'static str)| is_typed(matches, id);
    let mut typed_directories = directories.into_iter().filter(is_typed);
    let (_, first) = typed_directories.next()?;
    let second = typed_directories.next();
    let (_, other) = second.or_else(|| replacements.into_iter().find(is_typed))?;
    Some((first, other))
}

/// Whether an argument was typed. A default or a variable may give it a value as well.
fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    let is_known = matches.ids().any(|known| known == id);
    is_known && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns a test whether `subcommand` takes a recorded option of a run. A record may come from anywhere, so the test also demands that `run` itself
/// remembers such an option, and that the option has a value if and only if it takes one.
pub(crate) fn repeated_by(subcommand: &str) -> impl Fn(&GivenOption) -> bool + use<> {
    let command = super::command();
    // Names of options, and whether they take a value.
    let options = |name: &str| -> Vec<(String, bool)> {
        let found = command.find_subcommand(name).into_iter();
        let options = found
            .flat_map(clap::Command::get_arguments)
            .filter(|option| !is_apart(option));
        let named = options
            .filter_map(|option| Some((option.get_long()?.to_owned(), option.get_action().takes_values())));
        named.collect()
    };
    let (of_run, of_subcommand) = (options("run"), options(subcommand));
    move |option| {
        let shape = (option.name.clone(), option.value.is_some());
        option.scope() > OptionScope::Start && of_run.contains(&shape) && of_subcommand.contains(&shape)
    }
}

/// Whether an argument is not noted as an option of a run: global options say how results are printed, and an [`Invocation`] has a field for the directory.
fn is_apart(argument: &clap::Arg) -> bool {
    argument.is_global_set() || argument.get_id() == "execution"
}

/// Returns the options that were typed and that count for more than one start.
fn typed_options(run: &clap::Command, matches: &ArgMatches) -> Vec<GivenOption> {
    let typed = run
        .get_arguments()
        .filter(|argument| !is_apart(argument) && is_typed(matches, argument.get_id().as_str()));
    let hints = [ValueHint::AnyPath, ValueHint::DirPath, ValueHint::FilePath];
    let option = |argument: &clap::Arg| {
        let value = || matches.get_raw(argument.get_id().as_str())?.next_back();
        let takes_value = argument.get_action().takes_values();
        Some(GivenOption {
            name: argument.get_long()?.to_owned(),
            value: takes_value
                .then(value)
                .flatten()
                .map(|value| value.to_string_lossy().into_owned()),
            is_path: hints.contains(&argument.get_value_hint()),
        })
    };
    let options = typed.filter_map(option);
    options
        .filter(|option| option.scope() > OptionScope::Start)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbose_may_stand_anywhere_and_in_a_cluster() {
        let typed = |line: &str| is_verbose(line.split(' ').map(OsString::from));
        for more in ["h --version --verbose", "h -v --version", "h -Vv", "h -V -vv"] {
            assert!(typed(more), "{more}");
        }
        for less in [
            "h --version",
            "h -V",
            "hankweave-v --version",
            "h --version --verbos",
        ] {
            assert!(!typed(less), "{less}");
        }
    }

    // covers: CLI-80
    #[test]
    fn the_process_of_a_detached_run_gets_what_was_typed() {
        let marked = |line: &str| {
            let line = line.split(' ').map(OsString::from);
            let marked = after_run(line, ["--detached-process".into()]);
            marked.join(std::ffi::OsStr::new(" "))
        };
        assert_eq!(marked("run a --detach"), "run --detached-process a --detach");
        assert_eq!(
            marked("--color never run run --detach"),
            "--color never run --detached-process run --detach"
        );
    }

    #[test]
    fn what_was_typed_for_a_run_is_kept_and_what_is_for_once_is_not() {
        let mut command = super::super::command();
        let typed = "hankweave run a --json -v --new --headless --open --max-cost 2.50 -o out --data d --no-autostart --port 0";
        let matches = command.try_get_matches_from_mut(typed.split(' ')).unwrap();
        let run = command.find_subcommand("run").unwrap();
        let mut given: Vec<(String, Option<String>, bool)> =
            typed_options(run, matches.subcommand().unwrap().1)
                .into_iter()
                .map(|option| (option.name, option.value, option.is_path))
                .collect();
        given.sort();
        let expected = [
            ("data", Some("d"), true),
            ("max-cost", Some("2.50"), false),
            ("no-autostart", None, false),
            ("output", Some("out"), true),
            ("port", Some("0"), false),
        ];
        let owned = |(name, value, is_path): (&str, Option<&str>, bool)| {
            (name.to_owned(), value.map(str::to_owned), is_path)
        };
        assert_eq!(given, expected.map(owned));
    }
}
