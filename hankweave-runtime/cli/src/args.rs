//! The command line (CLI-1 to CLI-29).

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use hankweave_core::cost::Usd;
use hankweave_core::hank::{AgentChoice, Setting, SettingValue};
use hankweave_core::id::{CodonId, RunId, SentinelId};
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::disk::{Disk, RealDisk};
use hankweave_runtime::{GivenOption, Invocation};

use crate::screen::tell;

mod machines;
mod tasks;

pub(crate) use machines::*;
pub(crate) use tasks::*;

/// Runs AI coding agents one after another: durable, checkpointed, resumable.
///
/// A hank (hank.json) is a sequence of codons; each codon is one run of a coding agent. hankweave takes them through set-up, agent and
/// checkpoint, and records every step in .hankweave/state.json.
#[derive(Debug, Parser)]
#[command(name = "hankweave", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Start with: hankweave init my-hank && hankweave run my-hank")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line; ends the program when it is wrong.
    pub(crate) fn read() -> Self {
        let mut command = Self::command();
        command.build();
        let matches = command.clone().try_get_matches();
        let matches = matches.unwrap_or_else(|error| refuse(&error));
        if let Some(other) = beside_execution(&matches) {
            let message = format!("the argument '--execution <DIR>' cannot be used with '--{other}'");
            refuse(&command.error(ErrorKind::ArgumentConflict, message));
        }
        let mut cli =
            Self::from_arg_matches(&matches).unwrap_or_else(|error| refuse(&error.format(&mut command)));
        if let (Command::Run(args), Some((name, matches))) = (&mut cli.command, matches.subcommand()) {
            let options = command.find_subcommand(name).map(|run| given(run, matches));
            args.invocation = Invocation {
                folder: RealDisk.real_path(Path::new(".")).unwrap_or_default(),
                hank: args.hank.clone(),
                execution: args.execution.clone(),
                options: options.unwrap_or_default(),
            };
        }
        cli
    }
}

/// Ends the program with what is wrong with what was typed. Help is ours to the last letter; a complaint quotes what may have been pasted.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    tell(error.render().to_string());
    std::process::exit(error.exit_code())
}

/// What was typed beside an execution directory and stands in for one. A variable that is always set contradicts nobody, which
/// `conflicts_with` does not know.
fn beside_execution(matches: &ArgMatches) -> Option<&'static str> {
    if let Some((_, inner)) = matches.subcommand() {
        return beside_execution(inner);
    }
    let is_typed = |name: &str| {
        let is_known = matches.ids().any(|id| id == name);
        is_known && matches.value_source(name) == Some(ValueSource::CommandLine)
    };
    let other = ["state", "url"].into_iter().find(|name| is_typed(name));
    other.filter(|_| is_typed("execution"))
}

/// Whether `validate` has this option of `run` as well.
pub(crate) fn counts_for_validate(name: &str) -> bool {
    let command = Cli::command();
    let validate = command.find_subcommand("validate");
    let mut options = validate.into_iter().flat_map(clap::Command::get_arguments);
    options.any(|option| option.get_long() == Some(name))
}

/// Options of `run` that count for one start only, and what an [`Invocation`] holds apart.
const NOT_REPEATED: [&str; 7] = [
    "hank",
    "execution",
    "new",
    "recover",
    "open",
    "dry_run",
    "headless",
];

/// The options that were typed and that another run in the same place repeats: whatever `run` has now or gets later, but those above and the
/// ones of every subcommand, which say how results are printed.
fn given(run: &clap::Command, matches: &ArgMatches) -> Vec<GivenOption> {
    let is_typed = |id: &str| {
        let is_known = matches.ids().any(|known| known == id);
        is_known && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let repeated = run.get_arguments().filter(|argument| {
        let id = argument.get_id().as_str();
        !argument.is_global_set() && !NOT_REPEATED.contains(&id) && is_typed(id)
    });
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
    repeated.filter_map(option).collect()
}

/// Options of every subcommand.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// How results are printed.
    #[arg(long, global = true, value_enum, default_value_t = Format::Human)]
    pub(crate) format: Format,
    /// Short for --format json.
    #[arg(long, global = true)]
    json: bool,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// Print nothing but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Global {
    pub(crate) fn json(&self) -> bool {
        self.json || self.format == Format::Json
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// For programs.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The meaning of the exit codes of `run`.
const RUN_ENDINGS: &str = "\
Exit codes:
  0    every codon has ended
  1    a codon or the run failed
  2    wrong usage
  3    unfinished on purpose, can go on: what everything may use is used up, a usage
       limit holds, somebody has to approve what is next, or a command stopped it;
       `hankweave run` goes on
  65   bad input, such as a hank with mistakes
  70   a bug in hankweave
  74   the disk does not read or write
  75   another instance works in the directory
  130  stopped by SIGINT (Ctrl+C)
  143  stopped by SIGTERM";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a hank, or go on with it
    #[command(after_long_help = RUN_ENDINGS)]
    Run(Box<RunArgs>),
    /// Write a small hank that runs at once with the scripted agent
    Init(InitArgs),
    /// Check a hank and show what it would do; runs nothing, writes nothing
    Validate(Box<ValidateArgs>),
    /// Look whether a run can work here: agents, keys, git, disk, limits, prices
    ///
    /// Starts no agent and writes nothing. Ends with 1 when something would keep a run from starting.
    Doctor(DoctorArgs),
    /// Show every setting with its value and where it came from
    Config(Box<ConfigArgs>),
    /// Show what models cost, and who says so
    Prices(PricesArgs),
    /// Show where a run stands, what it cost and what comes next
    Status(Execution),
    /// Show the execution thread: one history out of many runs, newest first
    Thread(ThreadArgs),
    /// Go back to an earlier checkpoint; the next run goes on from there
    ///
    /// What is in the way is kept in a checkpoint first. `hankweave thread` lists the checkpoints.
    Rollback(RollbackArgs),
    /// Take back the last operation: the files and the record; again for the one before it
    ///
    /// An operation is a run, a rollback, a restore. What is in the files is kept in a checkpoint first, and what was spent stays counted.
    /// An undo is an operation too: `hankweave op restore` goes back to where things stood before it.
    Undo(UndoArgs),
    /// The log of operations: everything that changed the files and the record
    #[command(subcommand)]
    Op(OpCommand),
    /// Remove what old runs have left: their logs, and checkpoints that nothing else needs
    ///
    /// Shows what would go, with sizes, and asks. What the newest runs, their operations and the thread need stays, so whatever can be undone among them
    /// still can be; what is removed cannot come back. The record of all runs and what they cost stay. What cleanups removed is in `op log`.
    /// For example: hankweave cleanup --keep 3, or hankweave cleanup --older-than 30d --yes
    Cleanup(CleanupArgs),
    /// Play a recorded execution once more, from the logs of its agents, and compare what comes out
    ///
    /// Shows all runs of DIR as `run` shows one. No model, agent, rig or check is started and DIR is not changed: what agents say is read from their logs
    /// by the code that read them then, everything else is told from the record. Ends with 1 when something comes out in another way than it is recorded,
    /// and names the first difference. For example: hankweave replay my-hank --speed max
    Replay(ReplayArgs),
    /// Follow a live run from another terminal
    Attach(AttachArgs),
    /// Print the address that opens the page of a live run
    ///
    /// It holds a token: whoever has the address can do what the token allows. Show it to nobody and keep it in no log.
    Page(PageArgs),
    /// Start the codon that is next in a live run
    Next(Execution),
    /// Answer whether the codon may begin that waits for an approval
    ///
    /// Where a run is live it goes on at once, else the next run does. For example: hankweave approve deploy, or
    /// hankweave approve --deny --reason "not on a Friday"
    Approve(ApproveArgs),
    /// Skip the codon that runs in a live run
    Skip(Execution),
    /// Stop a live run; the next run goes on from there
    Stop(StopArgs),
    /// Show what changed in the files, by codon or between checkpoints
    ///
    /// For example: hankweave diff draft, or hankweave diff 1f3a9c..77b0e2 --stat
    Diff(DiffArgs),
    /// Print what agents, rigs and sentinels said and did, by codon
    ///
    /// With -v also what agents thought, and what tools answered.
    Logs(LogsArgs),
    /// Print the recorded events: sentences on a terminal, elsewhere one JSON object a line
    Journal(JournalArgs),
    /// Look into the recorded state
    #[command(subcommand)]
    State(StateCommand),
    /// List, show, compare and verify checkpoints; changes nothing
    Checkpoints(CheckpointsArgs),
    /// Try a sentinel without a model and without a run
    #[command(subcommand)]
    Sentinel(SentinelCommand),
    /// Create, follow and steer tasks: hanks that workers run
    ///
    /// A task is a hank to be run; a worker (hankweave worker) claims tasks and runs their hanks. Without --registry they are kept in a file in your data folder, with nothing to install; with postgres://… many machines share them.
    ///
    /// For example:
    ///
    ///   hankweave task create "Write the report" --hank ./report
    ///
    ///   hankweave worker --once
    ///
    ///   hankweave task list
    #[command(verbatim_doc_comment)]
    Task(Box<TaskArgs>),
    /// Work: claim tasks and run their hanks, until told to stop
    ///
    /// Each hank runs as a process of its own under a lease. SIGTERM stops the runs in order and lets their tasks wait for another worker. For example:
    /// hankweave worker --registry postgres://db/tasks --jobs 4
    Worker(WorkerArgs),
    /// Push a run to a git remote, so that it can go on on another machine
    ///
    /// Checkpoints, state, journal and what agents know of their sessions go together, to any URL that your git can push to, with its credentials. A run may work meanwhile.
    /// For example: hankweave push --remote ssh://git@example.org/runs.git
    Push(PushArgs),
    /// Bring a directory up to date with its remote, when the run went on elsewhere
    Pull(PullArgs),
    /// Bring a run from a git remote into a new directory, with its files as of the last checkpoint
    ///
    /// For example: hankweave clone ssh://git@example.org/runs.git my-run
    Clone(CloneArgs),
    /// Take, hold and give back locks that workers and people share
    Lock(LockArgs),
    /// Offer tasks to an agent as tools, over the Model Context Protocol on standard input and output
    ///
    /// The agent starts it. For example, in a file for claude --mcp-config:
    /// {"mcpServers": {"tasks": {"command": "hankweave", "args": ["mcp"]}}}
    #[cfg(feature = "mcp")]
    Mcp(McpArgs),
    /// Draw a state machine from the code
    Diagram(DiagramArgs),
    /// Print the JSON Schema of a document, from the code
    Schema(SchemaArgs),
    /// Print the script that completes commands in a shell, with the ids of codons and runs
    ///
    /// For example: hankweave completions bash > ~/.local/share/bash-completion/completions/hankweave
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages, one for each command
    ///
    /// For example: hankweave man ~/.local/share/man/man1
    Man {
        /// The folder that they go to.
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// The program that a scripted agent runs as; not for people.
    #[command(hide = true, disable_help_flag = true)]
    ScriptedAgent {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Which execution directory a command looks at.
#[derive(Debug, Clone, Args)]
pub(crate) struct Execution {
    /// The execution directory; it holds .hankweave.
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) execution: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The execution directory that is played; it holds .hankweave.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) recorded: PathBuf,
    /// A new directory for what comes out [default: one in the folder for temporary files].
    #[arg(short, long, value_name = "NEW", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
    /// How many times as fast as it was recorded, or `max` for no wait at all.
    #[arg(long, value_name = "TIMES", default_value = "1")]
    pub(crate) speed: Speed,
}

/// How fast the recorded gaps pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// So many times as fast as they were.
    Times(f64),
    /// Without any wait.
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            _ if text == "max" => Ok(Self::Max),
            Ok(times) if times.is_finite() && times > 0.0 => Ok(Self::Times(times)),
            _ => Err("write a number above 0, or max".to_owned()),
        }
    }
}

impl Speed {
    /// How long a recorded gap takes now.
    pub(crate) fn of(self, gap: Duration) -> Duration {
        match self {
            Self::Max => Duration::ZERO,
            Self::Times(times) => Duration::try_from_secs_f64(gap.as_secs_f64() / times).unwrap_or(gap),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A hank.json, or the folder that holds one.
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) hank: PathBuf,
    /// The directory in which agents work; created when it does not exist [default: the folder of the hank].
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
    /// A file or folder that agents may read as read_only_data_source; it is linked, not copied.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
    /// Start from the first codon and keep the history.
    #[arg(long)]
    pub(crate) new: bool,
    /// Where to go on when the newest codon failed or was cut off [default: ask on a terminal, else last-success; after a pause session].
    #[arg(long, value_enum, value_name = "WHERE", conflicts_with = "new")]
    pub(crate) recover: Option<Recover>,
    /// The address on which clients connect. Anything but the loopback opens the server to other machines; a token is needed in any case.
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) listen: IpAddr,
    /// Open the page that follows the run in a browser, for reading.
    #[arg(long)]
    pub(crate) open: bool,
    /// Tell clients what stands in files that change, as far as it is text of at most 64 KiB; the journal keeps it.
    #[arg(long)]
    pub(crate) file_contents: bool,
    /// Only show what the run would do, from where, and within which limits; starts nothing and writes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// No live view and no questions, even on a terminal.
    #[arg(long)]
    pub(crate) headless: bool,
    /// Replace files in the output directory; otherwise a copy whose name is taken gets another one.
    #[arg(long)]
    pub(crate) overwrite_output: bool,
    /// Stop instead of starting over when the recorded history cannot be read.
    #[arg(long)]
    pub(crate) strict_state: bool,
    /// Start on a file system that cannot lock; you vouch that no other instance uses the directory.
    #[arg(long)]
    pub(crate) allow_no_lock: bool,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// All of this as it was typed, for hints that repeat it.
    #[arg(skip)]
    pub(crate) invocation: Invocation,
}

/// Settings that can also come from the environment, the hank or hankweave.json; here they win.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Settings, also of hankweave.json; `hankweave config` shows them")]
pub(crate) struct SettingArgs {
    /// Run every codon with this agent: a name such as `codex`, or `scripted` for a dry run, or a program as in a hank, such as
    /// '{"acp": ["opencode", "acp"]}'. `--model acp` leaves the model to it.
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub(crate) agent: Option<AgentChoice>,
    /// Run every codon with this model.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The port on which clients connect; 0 means any free one, which `.hankweave/server.lock` names [env: HANKWEAVE_PORT].
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Start no codon before it is asked for: commands come from clients, or from standard input, one a line (`help` lists them).
    #[arg(long)]
    pub(crate) no_autostart: bool,
    /// Spend at most so many US dollars, earlier runs included; replaces what the hank says. When they are spent the run pauses (exit code 3).
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true)]
    pub(crate) max_cost: Option<Usd>,
    /// Run for at most so many seconds, earlier runs included; replaces what the hank says. When they are over the run pauses (exit code 3).
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) max_time: Option<f64>,
    /// Wait at most so long for the end of a provider's usage limit: seconds, or `90m`, `6h`, `1h30m`; beyond it the run ends with exit code 3
    /// [default: 6h].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_wait: Option<Duration>,
    /// Copy the files of `outputFiles` there when their codon has completed [default: they stay in the workspace].
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Go on when an item of a rig fails.
    #[arg(long)]
    pub(crate) ignore_rig_failures: bool,
    /// Tell somebody when the run waits for a command, pauses, fails or has finished: `bell`, `desktop`, an address that gets it as JSON, or a command, which gets it as JSON on
    /// its standard input and in $HANKWEAVE_EVENT, $HANKWEAVE_REASON and $HANKWEAVE_NEXT.
    #[arg(long, value_name = "HOW", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) notify: Option<String>,
    /// Prices of models, laid over the list prices; `hankweave prices` shows both.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prices: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The hank whose agents and requirements are looked for [default: that of this folder, if it has one].
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) hank: Option<PathBuf>,
    /// The directory in which agents would work [default: the folder of the hank].
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PricesArgs {
    /// The name of a model, as an agent says it or as it stands in a hank [default: all that are known].
    pub(crate) model: Option<String>,
    /// Prices of models, laid over the list prices: {"models": {"NAME": {"input": 3, "output": 15}}}, in dollars per million tokens.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prices: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// A hank.json, or the folder that holds one; without a hank its layer is empty.
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) hank: PathBuf,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
}

/// An agent as in a hank; its name needs no quotes.
fn agent(text: &str) -> Result<AgentChoice, String> {
    match Setting::Agent.from_variable(text)? {
        SettingValue::Agent(agent) => Ok(agent),
        other => Err(format!("`{other}` is no agent")),
    }
}

fn dollars(text: &str) -> Result<Usd, String> {
    let dollars = text.parse().ok().and_then(|value| Usd::from_dollars(value).ok());
    let dollars = dollars.filter(|dollars| *dollars > Usd::ZERO);
    dollars.ok_or_else(|| "a number of US dollars above 0, such as 2.50".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| {
        Duration::try_from_secs_f64(*seconds).is_ok_and(|duration| !duration.is_zero())
    });
    seconds.ok_or_else(|| "a number of seconds above 0, such as 600".to_owned())
}

/// `90`, `90s`, `30m`, `6h`, `1d`, `1h30m`
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a number of seconds, or a time such as 90m, 6h or 1h30m".to_owned();
    let (mut seconds, mut rest) = (Some(0_u64), text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let unit = match behind.chars().next() {
            None | Some('s') => 1,
            Some('m') => 60,
            Some('h') => 60 * 60,
            Some('d') => 24 * 60 * 60,
            Some(_) => return Err(wrong()),
        };
        let part = number.parse::<u64>().map_err(|_| wrong())?.checked_mul(unit);
        seconds = seconds.zip(part).and_then(|(sum, part)| sum.checked_add(part));
        rest = behind.get(1..).unwrap_or_default();
    }
    let seconds = seconds.filter(|_| !text.is_empty()).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recover {
    /// Keep the files as they are, and let the agent go on in its session where it was interrupted.
    Session,
    /// Take the files back to the last success; what was there is kept in a checkpoint.
    LastSuccess,
    /// Keep the files as they are and run the codon again.
    CrashPoint,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to write it; created when it does not exist.
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Template::Scripted)]
    pub(crate) template: Template,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Two codons and a loop, played by the built-in scripted agent; needs no key and no network.
    Scripted,
    /// One codon for the `claude` program.
    Claude,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// A hank.json, or the folder that holds one.
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) hank: PathBuf,
    /// The directory in which agents would work [default: the folder of the hank].
    #[arg(short, long, env = "HANKWEAVE_EXECUTION", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) execution: Option<PathBuf>,
    /// The file or folder that agents would read as read_only_data_source.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print the state document
    Show(Document),
    /// Check the state files; changes nothing unless asked to
    Validate(StateValidateArgs),
    /// Fold events into a document and print the result; writes nothing
    Apply(StateApplyArgs),
    /// Show what was spent, by run, codon and sentinel
    Cost(StateCostArgs),
    /// List all runs with their codons
    History(Document),
}

/// Which state document a command looks at.
#[derive(Debug, Clone, Args)]
pub(crate) struct Document {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Read this file instead of the one of an execution directory.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ThreadArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// End with this run instead of the newest one.
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<RunId>,
    /// Do not look for the checkpoints in the repository.
    #[arg(long)]
    pub(crate) no_checkpoint_validation: bool,
    /// A JSON list of SHAs that stands in for the repository.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) known_checkpoints: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// The address that `hankweave page` prints, instead of an execution directory.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) url: Option<String>,
    /// Begin after this event; 0 shows everything [default: what happens from now on].
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// Take commands from standard input, one a line (`help` lists them).
    #[arg(long)]
    pub(crate) control: bool,
    /// Take the whole screen: plan, transcript, files, costs and sentinels, with keys that command the run.
    #[arg(long, conflicts_with_all = ["control", "after"])]
    pub(crate) tui: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// With the token for watching; the default.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// With the token for everything: whoever has the address commands the run.
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) control: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The codon, as `hankweave status` tells it [default: whichever waits].
    pub(crate) codon: Option<CodonId>,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// It may not begin: the run ends before it, until somebody approves it after all or goes back.
    #[arg(long)]
    pub(crate) deny: bool,
    /// For the record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Kill the agent instead of asking it to end.
    #[arg(long)]
    pub(crate) force: bool,
    /// For the record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
#[group(id = "speaker", multiple = false, args = ["agent", "rig", "server"])]
pub(crate) struct LogsArgs {
    /// Only this codon; a codon of a loop with all its iterations, unless one is named (draft#1) [default: all].
    pub(crate) codon: Option<CodonId>,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Go on with what comes, until interrupted.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only what agents said and did.
    #[arg(long)]
    pub(crate) agent: bool,
    /// Only what commands of rigs printed.
    #[arg(long)]
    pub(crate) rig: bool,
    /// Only what sentinels said, or only this one (--sentinel=ID).
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, conflicts_with_all = ["agent", "rig"])]
    pub(crate) sentinel: Option<Option<SentinelId>>,
    /// The log of hankweave itself instead.
    #[arg(long, conflicts_with_all = ["codon", "follow", "sentinel"])]
    pub(crate) server: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SentinelCommand {
    /// Show what a sentinel would have been asked in a recorded run, and when; asks nobody
    ///
    /// It sees each codon from the start of its agent to its end, by the recorded times, and never waits for an answer. With --json each
    /// line is what it would have been given. For example: hankweave sentinel test sentinels/guard.json --journal .
    Test(SentinelTestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SentinelTestArgs {
    /// The sentinel, in a file of its own.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// The execution directory whose journal is read; it holds .hankweave.
    #[arg(long, short = 'e', visible_alias = "execution", env = "HANKWEAVE_EXECUTION", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) journal: PathBuf,
    /// Only this codon; a codon of a loop with all its iterations, unless one is named (draft#1) [default: all].
    #[arg(long, value_name = "ID")]
    pub(crate) codon: Option<CodonId>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// What a codon changed, or a checkpoint, or everything between two of them (FROM..TO) [default: the newest codon].
    #[arg(value_name = "CODON|CHECKPOINT[..CHECKPOINT]")]
    pub(crate) what: Option<String>,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// How much changed in each file instead.
    #[arg(long)]
    pub(crate) stat: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Begin after this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
    /// Go on with the events that come, until interrupted.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only events of this type, such as codon.completed; can be given several times.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kinds: Vec<String>,
}

#[derive(Debug, Args)]
#[group(id = "target", required = true, multiple = false, args = ["to", "codon", "last_success"])]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Go back to the checkpoint with this SHA, or the one that begins like this.
    #[arg(long, value_name = "SHA", value_parser = sha_prefix)]
    pub(crate) to: Option<String>,
    /// Go back to a checkpoint of this codon.
    #[arg(long, value_name = "ID")]
    pub(crate) codon: Option<CodonId>,
    /// Which of its checkpoints.
    #[arg(long, value_enum, value_name = "POINT", default_value_t = Point::End, conflicts_with_all = ["to", "last_success"])]
    pub(crate) at: Point,
    /// Go back to the newest codon that completed.
    #[arg(long)]
    pub(crate) last_success: bool,
    /// Only list which files would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Point {
    /// After its rig was set up: the codon runs again.
    RigSetup,
    /// After it completed.
    Completed,
    /// After it failed.
    Error,
    /// After it was skipped.
    Skipped,
    /// Its first checkpoint.
    Start,
    /// Its last checkpoint.
    End,
}

/// What can be the beginning of a SHA.
fn sha_prefix(text: &str) -> Result<String, String> {
    let is_hex = !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hex {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("a SHA, or its beginning, is made of 0-9 and a-f".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Only list which files would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// So many runs keep everything, the newest ones.
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: u32,
    /// Of the others, only those that ended longer ago than this, such as 30d or 12h.
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,
    /// Only show what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OpCommand {
    /// List all operations, newest first, with what they cost and how many files they changed
    Log(OpLogArgs),
    /// Show one operation, and where things stood before and after it
    Show(OpShowArgs),
    /// Go to where things stood after an operation; that is an operation of its own
    Restore(OpRestoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OpLogArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Only so many, the newest ones.
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct OpShowArgs {
    /// Its id, or the beginning of it.
    #[arg(value_parser = sha_prefix)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) execution: Execution,
}

#[derive(Debug, Args)]
pub(crate) struct OpRestoreArgs {
    /// Its id, or the beginning of it.
    #[arg(value_parser = sha_prefix)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Only list which files would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StateValidateArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// A JSON list of SHAs that stands in for the repository.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) known_checkpoints: Option<PathBuf>,
    /// Do to the files what a start would do: keep damaged ones aside, write the recovered document.
    #[arg(long, conflicts_with = "state")]
    pub(crate) repair: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StateApplyArgs {
    /// The events: a JSON list, or one JSON object a line.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) events: PathBuf,
    /// The document to begin with [default: an empty one].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
    /// The time of every event, such as 2025-01-04T12:00:00.000Z [default: its own, or now].
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    pub(crate) now: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct StateCostArgs {
    #[command(flatten)]
    pub(crate) document: Document,
    /// Count this run and all newer ones only.
    #[arg(long, value_name = "RUN")]
    pub(crate) since: Option<RunId>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointsArgs {
    /// The execution directory; it holds .hankweave.
    #[arg(short, long, global = true, env = "HANKWEAVE_EXECUTION", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) execution: PathBuf,
    #[command(subcommand)]
    pub(crate) command: Option<CheckpointsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// List all checkpoints, newest first; the default
    List,
    /// Show a checkpoint, its files and what it changed
    Show {
        /// Its SHA, or the beginning of it.
        sha: String,
    },
    /// Show which files differ between two checkpoints
    Diff {
        /// The earlier one: its SHA, or the beginning of it.
        from: String,
        /// The later one.
        to: String,
    },
    /// Read every part of checkpoints and report which could not be restored
    Verify {
        /// Which ones [default: all].
        #[arg(value_name = "SHA")]
        shas: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DiagramArgs {
    /// Which machine.
    #[arg(value_enum)]
    pub(crate) machine: MachineName,
    /// The form.
    #[arg(long = "as", value_enum, default_value_t = DiagramFormat::Mermaid, value_name = "FORM")]
    pub(crate) form: DiagramFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MachineName {
    /// One run of an agent.
    Codon,
    /// One life of the server.
    Run,
    /// A task of the task system.
    Task,
    /// One acquisition of a lock.
    Lock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiagramFormat {
    /// Mermaid, which many pages draw by themselves.
    Mermaid,
    /// Graphviz.
    Dot,
    /// PlantUML.
    Plantuml,
    /// JSON.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Of what.
    #[arg(value_enum)]
    pub(crate) document: SchemaName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaName {
    /// hank.json
    Hank,
    /// A sentinel in a file of its own.
    Sentinel,
    /// hankweave.json
    Config,
    /// .hankweave/state.json
    State,
    /// One state event, as state.log and the journal hold it.
    Event,
    /// One command, as a client sends it over the WebSocket.
    Command,
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-33
    #[test]
    fn the_gaps_of_a_replay_are_scaled() {
        let speed = |text: &str| text.parse::<Speed>();
        let gap = Duration::from_secs(30);
        assert_eq!(speed("10").unwrap().of(gap), Duration::from_secs(3));
        assert_eq!(speed("0.5").unwrap().of(gap), Duration::from_secs(60));
        assert_eq!(speed("max").unwrap().of(gap), Duration::ZERO);
        for wrong in ["0", "-1", "inf", "nan", "fast", ""] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_typed_for_a_run_is_kept_and_what_is_for_once_is_not() {
        let mut command = Cli::command();
        let typed = "hankweave run a --json -v --new --headless --open --max-cost 2.50 -o out --data d --no-autostart --port 0";
        let matches = command.try_get_matches_from_mut(typed.split(' ')).unwrap();
        let run = command.find_subcommand("run").unwrap();
        let mut given: Vec<(String, Option<String>, bool)> = given(run, matches.subcommand().unwrap().1)
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

    #[test]
    fn a_time_is_seconds_or_has_units() {
        let read = |text| duration(text).map(|duration| duration.as_secs());
        for (text, seconds) in [
            ("0", 0),
            ("90", 90),
            ("90s", 90),
            ("30m", 1_800),
            ("1h30m", 5_400),
            ("2d", 172_800),
        ] {
            assert_eq!(read(text), Ok(seconds), "{text}");
        }
        for text in ["", "h", "-1", "1.5h", "6x", "1h h", "99999999999999999999"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
