//! The command line (CLI-1 to CLI-29).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

mod descriptions;
mod hank;
mod history;
mod live;
mod locks;
mod machines;
mod read;
mod recorded;
mod run;
mod state;
mod tasks;
mod values;
mod workers;

pub(crate) use descriptions::*;
pub(crate) use hank::*;
pub(crate) use history::*;
pub(crate) use live::*;
pub(crate) use locks::*;
pub(crate) use machines::*;
pub(crate) use read::counts_for_validate;
pub(crate) use recorded::*;
pub(crate) use run::*;
pub(crate) use state::*;
pub(crate) use tasks::*;
pub(crate) use workers::*;

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
  143  stopped by SIGTERM, or by SIGHUP as when the terminal is closed";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a hank, or go on with it
    #[command(after_long_help = RUN_ENDINGS)]
    Run(Box<RunArgs>),
    /// Write a small hank that runs at once with the scripted agent
    Init(InitArgs),
    /// Check a hank and show what it would do; runs nothing, writes nothing
    Validate(Box<ValidateArgs>),
    /// Check whether a run can work here: agents, keys, git, disk, limits, prices
    ///
    /// Starts no agent and writes nothing. Ends with 1 when something would keep a run from starting.
    Doctor(DoctorArgs),
    /// Show every setting with its value and where it came from
    Config(Box<ConfigArgs>),
    /// Show what models cost, and where each price comes from
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
    /// by the code that read them then, everything else comes from the record. Ends with 1 when something comes out differently than recorded,
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
    /// Approve or deny the codon that waits for an approval
    ///
    /// A live run goes on at once, otherwise the next run does. For example: hankweave approve deploy, or
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
        /// The folder to write them to.
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
