//! Arguments of commands about tasks (CLI-40).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use hankweave_core::cost::Usd;
use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::time::Timestamp;
use hankweave_task_model::LogLevel;
use hankweave_task_model::task::TaskStatus;

use super::values::{dollars, duration, seconds, time};

/// Registry of tasks, and the folder of their files.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RegistryArgs {
    /// sqlite:PATH or postgres://… [default: a user file] [env: HANKWEAVE_REGISTRY]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) registry: Option<String>,
    /// Folder for task files [default: `tasks` next to the registry]
    #[arg(long, global = true, env = "HANKWEAVE_TASKS", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) tasks: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    pub(crate) place: RegistryArgs,
    #[command(subcommand)]
    pub(crate) command: TaskCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Create a task, or many with --from
    ///
    /// Each line of the file for --from is a JSON object with `name` and `hank`, and `data`, `id`, `description`, `owner`, `metadata`, `priority`, `after` and
    /// `arguments` as needed. `after` names tasks of the file, in any order, or of the registry. All tasks are created, or none; all mistakes are reported.
    #[command(
        after_long_help = "Examples:\n  hankweave task create \"Write the report\" --hank ./report --data ./figures\n  hankweave task create Tests --hank ./tests -- --max-cost 2\n  hankweave task create Publish --hank ./publish --after task_1770110100250 --priority 5\n  hankweave task create --from tasks.jsonl"
    )]
    Create(TaskCreateArgs),
    /// List tasks, newest first; --search TEXT, --count, --workers
    #[command(
        after_long_help = "Examples:\n  hankweave task list --status failed\n  hankweave task list --search report --limit 10"
    )]
    List(TaskListArgs),
    /// Show a task and its result; --report, --attempts, --decisions
    #[command(
        after_long_help = "Examples:\n  hankweave task show task_1770110100250\n  hankweave task show task_1770110100250 --attempts"
    )]
    Show(TaskShowArgs),
    /// Print the log of a task
    #[command(
        name = "log",
        alias = "history",
        after_long_help = "Examples:\n  hankweave task log task_1770110100250\n  hankweave task log task_1770110100250 --level error --start 8h"
    )]
    History(TaskHistoryArgs),
    /// Print the decisions of agents in a task
    #[command(hide = true)]
    Decisions(TaskDecisionsArgs),
    /// Make a checkpoint of the files of a task without a worker
    ///
    /// A worker makes one after each codon.
    #[command(hide = true)]
    Checkpoint(TaskCheckpointArgs),
    /// Restore a checkpoint of a task's state, log and decisions; --list
    ///
    /// The current ones are kept in a checkpoint first. The files in its workspace stay: `hankweave rollback -e WORKSPACE` takes those back.
    #[command(
        after_long_help = "Examples:\n  hankweave task restore task_1770110100250 --list\n  hankweave task restore task_1770110100250"
    )]
    Restore(TaskRestoreArgs),
    /// Recover the state of a task whose file cannot be read
    ///
    /// It comes from the newest checkpoint that is whole, or else its status alone from the log.
    #[command(
        hide = true,
        after_long_help = "Examples:\n  hankweave task recover task_1770110100250\n  hankweave task recover task_1770110100250 --json"
    )]
    Recover(TaskName),
    /// Cancel tasks; stop their runs if they are running
    #[command(
        after_long_help = "Examples:\n  hankweave task cancel task_1770110100250\n  hankweave task cancel task_1770110100250 task_1770110100251"
    )]
    Cancel(TaskNames),
    /// Requeue failed or cancelled tasks, or start them for an agent
    ///
    /// Their runs continue where they were.
    #[command(
        after_long_help = "Examples:\n  hankweave task resume task_1770110100250\n  hankweave task resume task_1770110100250 --max-cost 5\n  hankweave task resume task_1770110100250 --agent ann"
    )]
    Resume(TaskResumeArgs),
    /// Approve the codon that a waiting task asks about
    ///
    /// The task is requeued, and its next worker starts the codon.
    #[command(
        after_long_help = "Examples:\n  hankweave task approve task_1770110100250\n  hankweave task approve task_1770110100250 --reason \"checked the numbers\""
    )]
    Approve(TaskAnswerArgs),
    /// Deny the codon that a waiting task asks about; the task fails
    ///
    /// `task resume` lets the task ask again.
    #[command(
        after_long_help = "Examples:\n  hankweave task deny task_1770110100250\n  hankweave task deny task_1770110100250 --reason \"not on a Friday\""
    )]
    Deny(TaskAnswerArgs),
    /// Mark a running task as completed by hand
    ///
    /// A task with a live worker is refused.
    #[command(
        after_long_help = "Examples:\n  hankweave task complete task_1770110100250\n  hankweave task complete task_1770110100250 -m \"By hand\" -r '{\"pages\": 3}'"
    )]
    Complete(TaskCompleteArgs),
    /// Requeue running tasks without a worker, or that you work on by hand
    ///
    /// A task that a live worker holds is refused until its lease has ended. The next worker continues its run after the last codon that completed.
    #[command(
        after_long_help = "Examples:\n  hankweave task detach task_1770110100250\n  hankweave task detach task_1770110100250 --agent ann"
    )]
    Detach(TaskDetachArgs),
    /// List the attempts of a task: worker, time, cost and outcome
    #[command(hide = true)]
    Executions(TaskName),
    /// Delete an ended task and its files
    #[command(
        after_long_help = "Examples:\n  hankweave task delete task_1770110100250\n  hankweave task delete task_1770110100250 --force"
    )]
    Delete(TaskDeleteArgs),
    /// Count tasks by status
    #[command(hide = true)]
    Stats,
    /// Find tasks by id, name or description
    #[command(hide = true)]
    Find(TaskFindArgs),
    /// Print figures of tasks and locks
    ///
    /// For programs with --json or --csv; a worker serves its own figures with --metrics.
    #[command(hide = true)]
    Metrics(TaskMetricsArgs),
    /// Check the registry, the files and orphaned tasks
    #[command(
        after_long_help = "Examples:\n  hankweave task health --details\n  hankweave task health --fail-fast"
    )]
    Health(TaskHealthArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TaskCompleteArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Result, as JSON
    #[arg(short, long, value_name = "JSON", value_parser = json)]
    pub(crate) result: Option<serde_json::Value>,
    /// Sentence about the result, for people
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskDetachArgs {
    #[command(flatten)]
    pub(crate) tasks: TaskNames,
    /// Requeue it only when it is this agent's
    #[arg(short, long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskMetricsArgs {
    /// Print lines of a name and a value
    #[arg(short, long)]
    pub(crate) csv: bool,
    /// Short for --json
    #[arg(short, hide = true, conflicts_with = "csv")]
    pub(crate) j: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskHealthArgs {
    /// List orphans and locks
    #[arg(short, long)]
    pub(crate) details: bool,
    /// Stop at the first failed check, with an error
    #[arg(short, long)]
    pub(crate) fail_fast: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct TaskName {
    /// Task
    #[arg(value_name = "ID", value_parser = task_id)]
    pub(crate) id: TaskId,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct TaskNames {
    /// Tasks; if one is refused, the others are changed all the same
    #[arg(value_name = "ID", required = true, value_parser = task_id)]
    pub(crate) ids: Vec<TaskId>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskCreateArgs {
    /// Name of the task
    #[arg(required_unless_present = "from")]
    pub(crate) name: Option<String>,
    /// hank.json to run, or the folder that contains it
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, required_unless_present = "from")]
    pub(crate) hank: Option<PathBuf>,
    /// Create a task for each line of this file; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["name", "hank", "data", "id", "description", "metadata", "arguments"])]
    pub(crate) from: Option<PathBuf>,
    /// Priority; workers claim a higher one first
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub(crate) priority: i32,
    /// Task that must complete first; may be repeated
    #[arg(long, value_name = "ID", value_parser = task_id)]
    pub(crate) after: Vec<TaskId>,
    /// Read-only file or folder for its agents
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
    /// Id, unused so far [default: task_ and the time in milliseconds]
    #[arg(long, value_name = "ID", value_parser = task_id)]
    pub(crate) id: Option<TaskId>,
    /// Description of the task
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Owner of the task
    #[arg(short, long, value_name = "NAME", default_value = "system")]
    pub(crate) owner: String,
    /// Metadata, as a JSON object
    #[arg(short, long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Arguments of its run, such as -- --max-cost 2
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Status: pending, running, waiting, completed, failed or cancelled
    #[arg(short, long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<TaskStatus>,
    /// Owner of the listed tasks
    #[arg(short, long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskListArgs {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Number of tasks
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u64,
    /// Number of tasks to skip first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
    /// List tasks with this text in their id, name or description
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Count the tasks by status instead
    #[arg(long, conflicts_with_all = ["search", "status", "owner"])]
    pub(crate) count: bool,
    /// Sum up the attempts of each worker and their cost instead
    #[arg(long, conflicts_with_all = ["search", "status", "owner", "count"])]
    pub(crate) workers: bool,
}

impl TaskListArgs {
    /// Returns the arguments of `task find` for `query`.
    pub(crate) fn find(&self, query: &str) -> TaskFindArgs {
        TaskFindArgs {
            query: query.to_owned(),
            filter: self.filter.clone(),
            metadata: false,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct TaskShowArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// List the attempts: worker, time, cost and outcome
    #[arg(long, conflicts_with = "decisions")]
    pub(crate) attempts: bool,
    /// Print the decisions of agents
    #[arg(long)]
    pub(crate) decisions: bool,
    /// Print the report of its runs, as `hankweave report` does
    #[arg(long, conflicts_with_all = ["attempts", "decisions"])]
    pub(crate) report: bool,
}

impl TaskShowArgs {
    /// Returns the arguments of `task decisions`, with their defaults.
    pub(crate) fn decisions(&self) -> TaskDecisionsArgs {
        TaskDecisionsArgs {
            task: self.task.clone(),
            agent: None,
            limit: MOST_DECISIONS,
        }
    }
}

/// Default number of decisions that are printed.
const MOST_DECISIONS: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct TaskHistoryArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Level of the printed lines: info, warning, error or debug
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) level: Option<LogLevel>,
    /// Number of newest entries
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Earliest time, such as 2026-01-31T12:00:00Z, or 8h for 8 hours ago
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) start: Option<Timestamp>,
    /// Latest time, or an age such as 8h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) end: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskDecisionsArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Agent of the printed decisions
    #[arg(short, long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Number of newest entries
    #[arg(long, value_name = "N", default_value_t = MOST_DECISIONS)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct TaskCheckpointArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Description for people
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Compress the earlier checkpoints (gzip)
    #[arg(long)]
    pub(crate) pack: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskRestoreArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Checkpoint to restore [default: the newest]
    #[arg(short, long, value_name = "CHECKPOINT")]
    pub(crate) checkpoint: Option<String>,
    /// List the checkpoints; restore nothing
    #[arg(short, long, conflicts_with = "checkpoint")]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskResumeArgs {
    #[command(flatten)]
    pub(crate) tasks: TaskNames,
    /// Restore this checkpoint of its files first
    #[arg(short, long, value_name = "CHECKPOINT")]
    pub(crate) checkpoint: Option<String>,
    /// Start it by hand for this agent or person, without a worker
    ///
    /// Works for a pending task, too. Nothing counts its cost. `task complete` or `task detach` ends the work; a worker requeues the task when nothing about it has
    /// changed for its `--orphan-after`.
    #[arg(short, long, value_name = "AGENT", value_parser = agent_id)]
    pub(crate) agent: Option<AgentId>,
    /// Start it anew where its files are not; its codons are paid again
    ///
    /// A task that was begun in another folder of tasks is left to the workers of that folder. With --anew any worker may take it, also while it is pending. One that has its files, or
    /// its run from a remote, continues it all the same.
    #[arg(long, conflicts_with_all = ["agent", "checkpoint"])]
    pub(crate) anew: bool,
    /// New total budget of its runs, all attempts together
    ///
    /// It replaces the budget of the hank and that of `task create … -- --max-cost USD`, also for later attempts.
    #[arg(long, value_name = "USD", value_parser = dollars, conflicts_with = "agent", help_heading = "Limits, all attempts together")]
    pub(crate) max_cost: Option<Usd>,
    /// New total time at work of its runs
    #[arg(long, value_name = "DURATION", value_parser = seconds, conflicts_with = "agent", help_heading = "Limits, all attempts together")]
    pub(crate) max_time: Option<f64>,
    /// New longest wait for the end of a usage limit
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "agent", help_heading = "Limits, all attempts together")]
    pub(crate) max_wait: Option<Duration>,
}

impl TaskResumeArgs {
    /// Returns the options of the run that change, with their values.
    pub(crate) fn limits(&self) -> Vec<(&'static str, String)> {
        let cost = self
            .max_cost
            .map(|cost| ("max-cost", cost.as_dollars().to_string()));
        let time = self.max_time.map(|time| ("max-time", time.to_string()));
        let wait = self.max_wait.map(|wait| ("max-wait", wait.as_secs().to_string()));
        [cost, time, wait].into_iter().flatten().collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct TaskAnswerArgs {
    #[command(flatten)]
    pub(crate) tasks: TaskNames,
    /// Reason, which is recorded with the answer
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Name of the user who answers [default: the login name]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskDeleteArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Do not ask
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskFindArgs {
    /// Text to find, in any case
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Search the metadata as well
    #[arg(short, long)]
    pub(crate) metadata: bool,
}

fn task_id(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|error| format!("{} (INVALID_TASK_ID)", error.reason))
}

fn agent_id(text: &str) -> Result<AgentId, String> {
    AgentId::new(text).map_err(|error| error.to_string())
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))
}

fn status(text: &str) -> Result<TaskStatus, String> {
    text.parse::<TaskStatus>().map_err(|error| error.to_string())
}

fn level(text: &str) -> Result<LogLevel, String> {
    let level = serde_json::from_value(text.into());
    level.map_err(|_| "info, warning, error or debug".to_owned())
}
