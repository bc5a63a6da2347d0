//! The command line (CLI-1 to CLI-29): [`Cli`] with its [`Command`]s. Each submodule has the arguments of some commands; `read` parses them, and
//! `values` has parsers of single values. Doc comments of arguments are the text of `--help`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

mod descriptions;
mod execution;
mod hank;
mod history;
mod last_run;
mod live;
mod locks;
mod machines;
mod read;
mod recorded;
mod run;
mod service;
mod state;
mod tasks;
mod values;
mod workers;

pub(crate) use descriptions::*;
pub(crate) use execution::*;
pub(crate) use hank::*;
pub(crate) use history::*;
pub(crate) use last_run::{folder_in, folder_of, found_by_directory, is_file, is_of_worker, shortest_name};
pub(crate) use live::*;
pub(crate) use locks::*;
pub(crate) use machines::*;
pub(crate) use read::{
    ReadRun, VersionRequest, detached_arguments, repeated_by, run_of_service, settings_of_run,
};
pub(crate) use recorded::*;
pub(crate) use run::*;
pub(crate) use service::*;
pub(crate) use state::*;
pub(crate) use tasks::*;
pub(crate) use workers::*;

/// Run AI coding agents step by step, with checkpoints, budgets and undo
///
/// A hank (hank.json) is a sequence of codons; each codon is one run of a coding agent. hankweave takes them through set-up, agent and
/// checkpoint, and records every step in .hankweave/state.json.
#[derive(Debug, Parser)]
#[command(
    name = "hankweave",
    version,
    propagate_version = true,
    max_term_width = 100,
    subcommand_value_name = "COMMAND"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every subcommand.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Format of results; --json is short for --format json
    #[arg(long, global = true, value_enum, default_value_t = Format::Human, hide = true)]
    pub(crate) format: Format,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Use colours: auto, always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto, hide_possible_values = true)]
    pub(crate) color: Color,
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more; repeat for everything
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
    Human,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    // On a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

/// Groups of commands on the first page of `--help`. Each visible command is in one group.
pub(crate) const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Start here",
        &[
            "init", "doctor", "validate", "run", "status", "report", "logs", "diff", "approve", "stop",
            "undo",
        ],
    ),
    (
        "Watch and steer",
        &["attach", "page", "view", "next", "skip", "redo"],
    ),
    ("Go back", &["history", "rollback", "op", "cleanup"]),
    (
        "Look into",
        &["cost", "checkpoints", "journal", "replay", "state"],
    ),
    (
        "Tasks and machines",
        &["service", "task", "worker", "push", "pull", "clone", "mcp"],
    ),
    (
        "Tools",
        &[
            "config",
            "prices",
            "sentinel",
            "schema",
            "diagram",
            "completions",
            "man",
        ],
    ),
];

/// Returns the parser, with a first page of `--help` that has the commands in groups, which clap cannot do by itself.
pub(crate) fn command() -> clap::Command {
    let command = <Cli as clap::CommandFactory>::command();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups.push_str(&format!("{title}:\n"));
        // A name is not found if its feature is not built in.
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = subcommand
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            groups.push_str(&format!("  {:<12} {about}\n", subcommand.get_name()));
        }
        groups.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Global options:\n{{options}}\n\n\
         Examples:\n  hankweave init my-hank\n  hankweave run my-hank"
    );
    command.help_template(template)
}

/// Exit codes and examples of `run`.
const RUN_ENDINGS: &str = "\
Exit codes:
  0    completed
  1    a codon or the run failed
  2    invalid usage
  3    paused, or stopped by a command; `hankweave run` continues
  65   invalid input, such as a hank with mistakes
  70   a bug in hankweave
  74   disk error
  75   directory in use by another process
  130  stopped by SIGINT (Ctrl+C)
  143  stopped by SIGTERM, or by SIGHUP (closed terminal)

Examples:
  hankweave run my-hank --max-cost 5 --max-time 8h
  hankweave run my-hank --rehearse";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a hank from a template, or from a hank that you have
    #[command(
        after_long_help = "Examples:\n  hankweave init my-hank\n  hankweave init my-hank --template until-green\n  hankweave init my-hank --from ../team/review"
    )]
    Init(InitArgs),
    /// Check that agents, keys, git and disk are ready for a run
    ///
    /// Starts no agent and writes nothing. Ends with 1 when something would keep a run from starting.
    #[command(after_long_help = "Examples:\n  hankweave doctor\n  hankweave doctor my-hank")]
    Doctor(DoctorArgs),
    /// Check a hank and show its plan; run nothing
    #[command(
        after_long_help = "Examples:\n  hankweave validate my-hank\n  hankweave validate my-hank --json"
    )]
    Validate(Box<ValidateArgs>),
    /// Run a hank, or continue its last run
    ///
    /// After a failure it asks where to continue, or follows --recover. Ctrl+C stops the run; a second Ctrl+C stops it at once.
    #[command(after_long_help = RUN_ENDINGS)]
    Run(Box<RunArgs>),
    /// Show progress, cost and what comes next
    #[command(after_long_help = "Examples:\n  hankweave status my-hank\n  hankweave status my-hank --json")]
    Status(ExecutionArgs),
    /// Report what a run did, as Markdown
    ///
    /// Codons, checks, changed files, money, approvals and the command that continues, from the record alone. Each run that ends leaves it in
    /// `.hankweave/report.md`.
    #[command(
        after_long_help = "Examples:\n  hankweave report my-hank\n  hankweave report --html > report.html"
    )]
    Report(ReportArgs),
    /// Print what agents did, by codon
    ///
    /// Rigs and sentinels are printed as well; with -v also thoughts and the results of tools. What an agent prints
    /// on standard error is not logged: where nothing else says why it failed, the failure has the last lines of it.
    #[command(after_long_help = "Examples:\n  hankweave logs --follow\n  hankweave logs draft#1 my-hank")]
    Logs(LogsArgs),
    /// Show changed files, by codon or between checkpoints
    #[command(after_long_help = "Examples:\n  hankweave diff draft\n  hankweave diff 1f3a9c..77b0e2 --stat")]
    Diff(DiffArgs),
    /// Approve or deny the codon that waits for approval
    ///
    /// A live run continues at once, otherwise the next run does. Until the codon has begun, a rollback to the checkpoint
    /// before it takes an approval back.
    #[command(
        after_long_help = "Examples:\n  hankweave approve my-hank\n  hankweave approve --deny --reason \"not on a Friday\""
    )]
    Approve(ApproveArgs),
    /// Stop a live run; the next run continues it
    #[command(
        after_long_help = "Examples:\n  hankweave stop my-hank\n  hankweave stop --force --reason \"wrong branch\""
    )]
    Stop(StopArgs),
    /// Undo the last run, rollback or restore
    ///
    /// On a terminal it shows the files that would change, and asks. The files as they are now are kept in a checkpoint first, and what was spent stays
    /// counted. Repeat it to undo the operation before. An undo is an operation too: `hankweave op restore` rolls back to the state before it.
    #[command(after_long_help = "Examples:\n  hankweave undo my-hank --dry-run\n  hankweave undo my-hank")]
    Undo(UndoArgs),
    /// Follow a live run from another terminal
    #[command(after_long_help = "Examples:\n  hankweave attach my-hank\n  hankweave attach my-hank --tui")]
    Attach(AttachArgs),
    /// Print the address of the live page
    ///
    /// The address holds a token: it gives its owner the rights of the token. Show it to nobody and keep it in no log.
    #[command(after_long_help = "Examples:\n  hankweave page my-hank\n  hankweave page my-hank --control")]
    Page(PageArgs),
    /// Serve the page of recorded runs, or write it into one file
    ///
    /// Prints the address of the page, which only watches, and serves it until Ctrl+C on the port of the directory. A run that starts meanwhile is shown as
    /// well. The address holds a token: show it to nobody and keep it in no log.
    ///
    /// A file of --export opens in a browser without a server, and shows the plan, the costs and the newest 32 MiB of the transcripts. It holds what agents
    /// said and what tools answered, but no token.
    ///
    /// With --root the page lists the runs of all execution directories below a folder and the tasks of the registry; each row opens the page of its run.
    #[command(
        after_long_help = "Examples:\n  hankweave view my-hank\n  hankweave view my-hank --open\n  hankweave view --export night.html my-hank\n  hankweave view --root ~/work"
    )]
    View(ViewArgs),
    /// Start the next codon of a live run
    ///
    /// The run must wait for a command, as with --no-autostart.
    #[command(
        after_long_help = "Examples:\n  hankweave next my-hank\n  hankweave next my-hank && hankweave attach my-hank"
    )]
    Next(ExecutionArgs),
    /// Skip the running codon
    #[command(
        after_long_help = "Examples:\n  hankweave skip my-hank\n  hankweave skip my-hank && hankweave status my-hank"
    )]
    Skip(ExecutionArgs),
    /// Run the newest codon of a live run again
    ///
    /// It starts with the files as they are, and what was spent stays counted. The run must wait for a command, as after a failure with --no-autostart.
    #[command(
        after_long_help = "Examples:\n  hankweave redo my-hank\n  hankweave redo my-hank && hankweave attach my-hank"
    )]
    Redo(ExecutionArgs),
    /// List codons with the checkpoints to return to
    ///
    /// The list is one history out of many runs, newest first; with --all every run with its codons.
    #[command(
        alias = "thread",
        after_long_help = "Examples:\n  hankweave history my-hank\n  hankweave history --all --json"
    )]
    History(HistoryArgs),
    /// Return to a checkpoint; the next run continues from there
    ///
    /// Files in the way are kept in a checkpoint first. `hankweave history` lists the checkpoints.
    #[command(
        after_long_help = "Examples:\n  hankweave rollback --last-success\n  hankweave rollback my-hank --codon draft --dry-run"
    )]
    Rollback(RollbackArgs),
    /// List, show and restore operations
    ///
    /// An operation changed files or the record: a run, a rollback, an undo, a restore or a cleanup.
    #[command(
        subcommand,
        after_long_help = "Examples:\n  hankweave op log my-hank\n  hankweave op restore 1f3a9c"
    )]
    Op(OpCommand),
    /// Delete logs and checkpoints of old runs
    ///
    /// Shows what would go, with sizes, and asks. Everything that the newest runs, their operations and the thread need stays, so they can
    /// still be undone; a deletion cannot. The record of all runs and their cost stay, and `op log` lists the deletions.
    #[command(
        after_long_help = "Examples:\n  hankweave cleanup --keep 3\n  hankweave cleanup --older-than 30d --yes"
    )]
    Cleanup(CleanupArgs),
    /// Show spending by run, codon and sentinel
    #[command(after_long_help = "Examples:\n  hankweave cost my-hank\n  hankweave cost my-hank --json")]
    Cost(StateCostArgs),
    /// List, show, compare and verify checkpoints
    ///
    /// It changes nothing.
    #[command(after_long_help = "Examples:\n  hankweave checkpoints my-hank\n  hankweave checkpoints verify")]
    Checkpoints(CheckpointsArgs),
    /// Print recorded events
    ///
    /// Sentences on a terminal, elsewhere one JSON object a line.
    #[command(
        after_long_help = "Examples:\n  hankweave journal my-hank --type codon.completed\n  hankweave journal --follow --json"
    )]
    Journal(JournalArgs),
    /// Replay a recorded run from its logs and compare
    ///
    /// Shows all runs of DIR as `run` shows one. No model, agent, rig or check is started and DIR is not changed: agents' output is read from their logs
    /// by the code that read it then, everything else comes from the record. Ends with 1 when something differs from the record,
    /// and names the first difference.
    #[command(
        after_long_help = "Examples:\n  hankweave replay my-hank\n  hankweave replay my-hank --speed max"
    )]
    Replay(ReplayArgs),
    /// Print, validate and repair the recorded state
    #[command(
        subcommand,
        after_long_help = "Examples:\n  hankweave state show my-hank\n  hankweave state validate my-hank --repair"
    )]
    State(StateCommand),
    /// Run a hank as a service that starts again after a reboot
    #[command(
        subcommand,
        after_long_help = "Examples:\n  hankweave service install night --max-cost 20\n  hankweave service uninstall night"
    )]
    Service(ServiceCommand),
    /// Create and manage tasks: hanks that workers run
    ///
    /// Without --registry, tasks are kept in a file in your data folder, with nothing to install; with postgres://… many machines share them.
    #[command(
        after_long_help = "Examples:\n  hankweave task create \"Write the report\" --hank ./report -- --max-cost 2\n  hankweave task list --status failed\n\nLess usual: `task stats`, `task metrics`, `task decisions`, `task checkpoint`,\n`task recover`, and `hankweave lock` for locks that people and workers share."
    )]
    Task(Box<TaskArgs>),
    /// Claim tasks and run them
    ///
    /// Each hank runs as a process of its own under a lease. SIGTERM stops all runs and requeues their tasks.
    #[command(
        after_long_help = "Examples:\n  hankweave worker --once\n  hankweave worker --registry postgres://db/tasks --jobs 4"
    )]
    Worker(WorkerArgs),
    /// Push a run to a git remote, to continue it on another machine
    ///
    /// Checkpoints, state, journal and the sessions of agents travel together, to any URL that your git can push to, with its credentials. A run may be live
    /// meanwhile.
    #[command(
        after_long_help = "Examples:\n  hankweave push --remote ssh://git@example.org/runs.git\n  hankweave push my-hank"
    )]
    Push(PushArgs),
    /// Update a directory from its remote
    #[command(after_long_help = "Examples:\n  hankweave pull my-hank\n  hankweave pull my-hank --replace")]
    Pull(PullArgs),
    /// Clone a run from a git remote into a new directory
    ///
    /// Its files are those of the last checkpoint.
    #[command(
        after_long_help = "Examples:\n  hankweave clone ssh://git@example.org/runs.git my-run\n  hankweave clone ssh://git@example.org/runs.git --run t0v5iu"
    )]
    Clone(CloneArgs),
    /// Take, hold and release locks that workers and people share
    #[command(
        hide = true,
        after_long_help = "Examples:\n  hankweave lock list\n  hankweave lock acquire deploy:web --owner ann --lease 10m"
    )]
    Lock(LockArgs),
    /// Offer tasks as tools over the Model Context Protocol
    ///
    /// The agent starts it and talks to it over standard input and output.
    #[cfg(feature = "mcp")]
    #[command(
        after_long_help = "Examples:\n  hankweave mcp\n  hankweave mcp --registry postgres://db/tasks\n\nIn a file for claude --mcp-config:\n  {\"mcpServers\": {\"tasks\": {\"command\": \"hankweave\", \"args\": [\"mcp\"]}}}"
    )]
    Mcp(McpArgs),
    /// Show every setting, its value and its source
    #[command(after_long_help = "Examples:\n  hankweave config\n  hankweave config my-hank --json")]
    Config(Box<ConfigArgs>),
    /// Show model prices and their sources
    #[command(after_long_help = "Examples:\n  hankweave prices\n  hankweave prices claude-sonnet-4-5")]
    Prices(PricesArgs),
    /// Try a sentinel on a recorded run, or convert an old one
    ///
    /// It asks no model and starts no run.
    #[command(
        subcommand,
        after_long_help = "Examples:\n  hankweave sentinel test sentinels/guard.json my-hank\n  hankweave sentinel convert sentinels/guard.json"
    )]
    Sentinel(SentinelCommand),
    /// Print the JSON Schema of a document
    #[command(
        after_long_help = "Examples:\n  hankweave schema hank -o hank.schema.json\n  hankweave schema state"
    )]
    Schema(SchemaArgs),
    /// Draw a state machine from the code
    #[command(after_long_help = "Examples:\n  hankweave diagram codon\n  hankweave diagram run --as dot")]
    Diagram(DiagramArgs),
    /// Print a completion script, with the ids of codons and runs
    #[command(
        after_long_help = "Examples:\n  hankweave completions bash >> ~/.bashrc\n  hankweave completions fish > ~/.config/fish/completions/hankweave.fish"
    )]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Write the manual pages, one for each command
    #[command(after_long_help = "Examples:\n  hankweave man ~/.local/share/man/man1\n  hankweave man pages")]
    Man {
        /// Folder for the pages
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Run as the program of a scripted agent; not for people
    #[command(hide = true, disable_help_flag = true)]
    ScriptedAgent {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longest line of help, in characters, without the default and the variable that follow it in brackets.
    const WIDTH: usize = 70;

    #[test]
    fn every_visible_command_is_in_one_group() {
        let command = command();
        let visible = command.get_subcommands().filter(|known| !known.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        if cfg!(not(feature = "mcp")) {
            grouped.retain(|name| *name != "mcp");
        }
        assert_eq!(visible, grouped);
    }

    fn check(command: &clap::Command, wrong: &mut Vec<String>) {
        let options = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let options = options
            .filter_map(|argument| Some((argument.get_id().to_string(), argument.get_help()?.to_string())));
        let about = command
            .get_about()
            .map(|about| ("about".to_owned(), about.to_string()));
        for (id, text) in options.chain(about) {
            let line = text.split(" [").next().unwrap_or_default();
            let is_long = line.chars().count() > WIDTH;
            if is_long || text.ends_with('.') {
                wrong.push(format!("{} {id}: {text}", command.get_name()));
            }
        }
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            check(inner, wrong);
        }
    }

    #[test]
    fn every_line_of_help_is_short() {
        let mut wrong = Vec::new();
        check(&command(), &mut wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Returns the examples in the long help of a command.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.clone().render_long_help().to_string();
        let examples = help.lines().map(str::trim_start);
        let examples = examples.filter(|line| line.starts_with("hankweave "));
        examples.map(str::to_owned).collect()
    }

    /// Calls `see` with each visible command below this one and with its path, and with the locks, which are hidden but have pages.
    fn walk(command: &clap::Command, path: &str, see: &mut impl FnMut(&str, &clap::Command)) {
        for inner in command.get_subcommands() {
            if inner.is_hide_set() && inner.get_name() != "lock" {
                continue;
            }
            let path = format!("{path} {}", inner.get_name());
            see(&path, inner);
            walk(inner, &path, see);
        }
    }

    #[test]
    fn every_command_has_two_examples_of_itself() {
        let mut wrong = Vec::new();
        walk(&command(), "hankweave", &mut |path, command| {
            let examples = examples(command);
            let own = examples.iter().filter(|line| line.starts_with(path)).count();
            if own < 2 {
                wrong.push(format!("{path}: {examples:?}"));
            }
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Returns the words of the first command of a line, as a shell reads it up to a redirection or another command.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in line.chars() {
            match (c, quote) {
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                (' ', None) => words.push(String::new()),
                _ => words.last_mut().unwrap().push(c),
            }
        }
        let is_end = |word: &String| ["|", ">", ">>", "&&"].contains(&word.as_str());
        words.into_iter().take_while(|word| !is_end(word)).collect()
    }

    #[test]
    fn every_example_is_understood() {
        let mut wrong = Vec::new();
        walk(&command(), "hankweave", &mut |path, command_of_path| {
            for example in examples(command_of_path) {
                if let Err(error) = command().try_get_matches_from(words(&example)) {
                    wrong.push(format!("{path}: {example}: {error}"));
                }
            }
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
