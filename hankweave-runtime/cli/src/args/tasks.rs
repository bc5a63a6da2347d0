//! What can be typed about tasks (CLI-40).

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::time::Timestamp;
use hankweave_task_model::Level;
use hankweave_task_model::task::TaskStatus;

/// Where tasks are kept.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Place {
    /// Where tasks are kept: sqlite:PATH or postgres://… [env: HANKWEAVE_REGISTRY] [default: a file in the data folder of the user].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) registry: Option<String>,
    /// The folder with a folder for each task [default: `tasks` beside the registry, or in the data folder of the user].
    #[arg(long, global = true, env = "HANKWEAVE_TASKS", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) tasks: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: TaskCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Create a task: a hank that a worker is to run
    ///
    /// For example: hankweave task create "Write the report" --hank ./report --data ./figures
    Create(TaskCreateArgs),
    /// List tasks, newest first
    List(TaskListArgs),
    /// Show a task, how far it has come and what came out
    Show(TaskName),
    /// Print the newest lines of the log of a task
    History(TaskHistoryArgs),
    /// Print what agents decided in a task
    Decisions(TaskDecisionsArgs),
    /// Make a checkpoint of the files of a task that nobody works on
    ///
    /// Whoever works on a task makes one behind each codon.
    Checkpoint(TaskCheckpointArgs),
    /// Go back to a checkpoint of a task, or list them with --list
    ///
    /// What is there is kept in a checkpoint first. For example: hankweave task restore task_1770110100250 --list
    Restore(TaskRestoreArgs),
    /// Tell what the state of a task was, when its file cannot be read any more
    Recover(TaskName),
    /// Call a task off; when it runs, its worker is asked to stop it
    Cancel(TaskName),
    /// Let a task that failed or was cancelled wait for a worker again, or give it to an agent with --agent
    ///
    /// Its run goes on where it was. For example: hankweave task resume task_1770110100250
    Resume(TaskResumeArgs),
    /// Complete a running task by hand; one that somebody works on is refused
    ///
    /// For example: hankweave task complete task_1770110100250 -m "Finished by hand" -r '{"pages": 3}'
    Complete(TaskCompleteArgs),
    /// Let a running task wait again that nobody works on any more
    Detach(TaskDetachArgs),
    /// List the tries of a task: who worked on it, from when to when, and how each of them ended
    Executions(TaskName),
    /// Delete a task that has ended, with its files
    Delete(TaskDeleteArgs),
    /// Count tasks by status
    Stats,
    /// Find tasks by what their id, name or description says
    Find(TaskFindArgs),
    /// Print figures of tasks and locks, as `--json` or `--csv` for programs; those of a worker are under its --metrics
    Metrics(TaskMetricsArgs),
    /// Tell whether the registry answers, and what needs somebody
    Health(TaskHealthArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TaskCompleteArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// What came out, as JSON.
    #[arg(short, long, value_name = "JSON", value_parser = json)]
    pub(crate) result: Option<serde_json::Value>,
    /// A sentence about it, for people.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskDetachArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Only when it is this agent's.
    #[arg(short, long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskMetricsArgs {
    /// Print lines of a name and a value.
    #[arg(short, long)]
    pub(crate) csv: bool,
    /// Short for --json.
    #[arg(short, conflicts_with = "csv")]
    pub(crate) j: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskHealthArgs {
    /// Name what was left behind and who holds what.
    #[arg(short, long)]
    pub(crate) details: bool,
    /// End with an error when a check fails, and look at nothing behind it.
    #[arg(short, long)]
    pub(crate) fail_fast: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskName {
    /// The task.
    #[arg(value_name = "ID", value_parser = task_id)]
    pub(crate) id: TaskId,
}

#[derive(Debug, Args)]
pub(crate) struct TaskCreateArgs {
    /// What people call it.
    pub(crate) name: String,
    /// The hank.json to run, or the folder that holds one.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) hank: PathBuf,
    /// A file or folder that its agents may read.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
    /// Its id; none is used twice [default: task_ and the time in milliseconds].
    #[arg(long, value_name = "ID", value_parser = task_id)]
    pub(crate) id: Option<TaskId>,
    /// What it is about.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Who is responsible for it.
    #[arg(short, long, value_name = "NAME", default_value = "system")]
    pub(crate) owner: String,
    /// A JSON object with whatever belongs to it.
    #[arg(short, long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// More arguments of its run, behind `--`, such as -- --max-cost 2.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Only tasks of this status.
    #[arg(short, long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<TaskStatus>,
    /// Only tasks of this owner.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskListArgs {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// At most so many.
    #[arg(short, long, value_name = "NUMBER", default_value_t = 100)]
    pub(crate) limit: u64,
    /// Leave so many of them out first.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) offset: u64,
}

#[derive(Debug, Args)]
pub(crate) struct TaskHistoryArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Only lines of this level: info, warning, error or debug.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) level: Option<Level>,
    /// At most so many, the newest.
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Not before this time, such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    pub(crate) start: Option<Timestamp>,
    /// Not after this time.
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    pub(crate) end: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskDecisionsArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Only those of this agent.
    #[arg(short, long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// At most so many, the newest.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct TaskCheckpointArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// For people.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Pack those before it (gzip).
    #[arg(long)]
    pub(crate) pack: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskRestoreArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Which one [default: the newest].
    #[arg(short, long, value_name = "CHECKPOINT")]
    pub(crate) checkpoint: Option<String>,
    /// Only list them.
    #[arg(short, long, conflicts_with = "checkpoint")]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskResumeArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Go back to this checkpoint of its files first.
    #[arg(short, long, value_name = "CHECKPOINT")]
    pub(crate) checkpoint: Option<String>,
    /// Start it for this agent at once, also when it waits already; `task complete` or `task detach` ends its work.
    #[arg(short, long, value_name = "AGENT", value_parser = agent_id)]
    pub(crate) agent: Option<AgentId>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskDeleteArgs {
    #[command(flatten)]
    pub(crate) task: TaskName,
    /// Do not ask.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TaskFindArgs {
    /// What is looked for; upper and lower case are the same.
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Look into the metadata as well.
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

fn level(text: &str) -> Result<Level, String> {
    let level = serde_json::from_value(text.into());
    level.map_err(|_| "info, warning, error or debug".to_owned())
}
