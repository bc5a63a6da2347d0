//! The task that owns an execution directory, when the directory is the workspace of a task (CLI-40).
//!
//! Commands find the task with [`OwningTask::of`], which reads the state file next to the workspace, and ask its registry with
//! [`OwningTask::looked_up`]. Then they refuse what only commands about the task may do, and show its status and what continues it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::cost::Usd;
use hankweave_core::document::{HankweaveState, RunRecord};
use hankweave_core::id::{CodonId, TaskId};
use hankweave_core::time::{Timestamp, duration_argument};
use hankweave_core::wire::Command;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::{CommandGuard, CommandRefusal};
use hankweave_task_model::registry::{FilesLocation, TaskCost, TaskRow};
use hankweave_task_model::task::{NeededBudget, TaskApproval, TaskRecord, TaskStatus};
use hankweave_task_model::{LogEntry, LogQuery, TaskError, TaskState};
use hankweave_tasks::layers::{MissingFiles, TaskFiles, TaskLayers, WORKSPACE, machine_name};
use hankweave_tasks::worker::TaskSpec;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::args::RegistryArgs;
use crate::begun_elsewhere;
use crate::directory::{self, SuspendedWorker};
use crate::hints::{HintCommands, task_command};
use crate::holding::{AbsentWorker, TaskHolders, has_crashed};
use crate::registry::{RESTATE, Registry, is_there, place_of, with_registry_within};
use crate::task_lines::{LogLine, lines};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::screen::{local_time, one_line};
use crate::terminal::shell::word;

/// Time limit for the answer of a registry; after it, a command uses the files alone.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Task that owns a workspace, as its files say, or as its registry says if that was asked.
#[derive(Debug, Clone)]
pub(crate) struct OwningTask {
    id: TaskId,
    /// `None` if neither files nor registry give one.
    name: Option<String>,
    /// Status by its registry, or by its files.
    status: TaskStatus,
    /// Why the task failed.
    error: Option<String>,
    /// Larger budget that the failed task needs to continue.
    needed: Option<NeededBudget>,
    files: TaskFiles,
    /// Options that name the registry and the folder of tasks; the suggested commands repeat them.
    place: RegistryArgs,
    /// The task has cost more than is known: an attempt lost its worker.
    cost_is_lower_bound: bool,
    /// Time of the task's creation, by its files. A registry may have another task with this id, whose time differs.
    created: Option<Timestamp>,
    /// The engine Restate keeps the task in place of a registry, so that no command about tasks knows the task.
    is_of_restate: bool,
    /// The task in its registry; `None` if that was not asked or does not have it.
    row: Option<TaskRow>,
    /// Locks and workers of the registry; `None` if the registry was not asked or the task is not running.
    holders: Option<TaskHolders>,
    /// Location of newer files than these, in which a later attempt works or has worked; `None` if the registry was not asked or knows of none.
    went_on_in: Option<FilesLocation>,
    /// The registry was asked and did not answer.
    is_unanswered: bool,
}

/// Answer of a registry about the task of a workspace.
enum RegistryFinding {
    Row(Box<TaskRow>, Option<TaskHolders>),
    /// It had the task, which was deleted.
    Deleted,
    /// It never had the task, or has another task with that id.
    Another,
}

/// End of a task: completed, deleted or cancelled. Its newest run does not show an end that a user has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskEnd {
    /// `completed by hand: Finished by ann`
    pub(crate) words: String,
    /// Completed or deleted, not cancelled.
    pub(crate) is_completed: bool,
}

impl TaskEnd {
    /// Returns the end of a task with this status; `None` if the task has not ended or has failed. `row` is the task in its registry, if that was asked.
    pub(crate) fn of(status: TaskStatus, row: Option<&TaskRow>) -> Option<Self> {
        let is_completed = match status {
            TaskStatus::Completed | TaskStatus::Deleted => true,
            TaskStatus::Cancelled => false,
            _ => return None,
        };
        let result = match row.map(|row| &row.record) {
            Some(TaskRecord::Completed(completed)) => Some(&completed.result),
            _ => None,
        };
        let by_hand = if result.is_some_and(|result| result.by_hand) {
            " by hand"
        } else {
            ""
        };
        let message = result.and_then(|result| result.message.as_deref());
        let message = message.map_or_else(String::new, |message| format!(": {}", one_line(message)));
        let by = row.filter(|_| !is_completed).and_then(TaskRow::cancelled_by);
        let by = by.map_or_else(String::new, |by| format!(" by {}", one_line(by)));
        Some(Self {
            words: format!("{status}{by_hand}{by}{message}"),
            is_completed,
        })
    }

    /// Returns the end with what may follow: `cancelled; once it is resumed, a worker continues it`.
    pub(crate) fn in_short(&self) -> String {
        match self.is_completed {
            true => self.words.clone(),
            false => format!("{}; once it is resumed, a worker continues it", self.words),
        }
    }
}

/// Answer of a user to the question of a codon, as the registry or the log of the task has it.
#[derive(Debug)]
pub(crate) struct GateAnswer {
    pub(crate) approval: TaskApproval,
    /// Time of the answer, if known.
    pub(crate) at: Option<Timestamp>,
}

impl GateAnswer {
    /// Returns the answer for JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut json = json!(self.approval);
        json["at"] = json!(self.at);
        json
    }

    /// Returns the answer in words: `denied by ann at 14:02: not on a Friday`.
    pub(crate) fn words(&self) -> String {
        let TaskApproval {
            granted, by, reason, ..
        } = &self.approval;
        let answer = if *granted { "approved" } else { "denied" };
        let at = self.at.map(|at| format!(" at {}", local_time(at)));
        let reason = reason.as_ref().map(|reason| format!(": {}", one_line(reason)));
        let (at, reason) = (at.unwrap_or_default(), reason.unwrap_or_default());
        format!("{answer} by {}{at}{reason}", one_line(by))
    }
}

/// Returns the state directory of an execution directory, for commands that only read. In a workspace where no run is recorded, the error names its task.
pub(crate) fn existing_state_dir(execution: &Path) -> Result<PathBuf, CliError> {
    directory::existing_state_dir(execution).map_err(|error| match OwningTask::of(execution) {
        Some(task) => task.looked_up().without_run(execution),
        None => error,
    })
}

/// Refuses a run by hand in the workspace of a task that has not completed: it would spend beyond the budget of the task,
/// past its registry (TASK-126).
///
/// `marker` is that of this process: it shows whether the worker of the task started the run, which is then allowed. For any other run, the caller has
/// asked the registry about `task`.
pub(crate) fn check_run(task: &OwningTask, marker: Option<&OsStr>) -> Result<(), CliError> {
    match task.is_run_by_worker(marker) {
        true => Ok(()),
        false => task.check_completed(),
    }
}

/// Refuses a command that changes the files of a task by hand while the task waits or is at work (TASK-126): its next attempt would continue with
/// other files than its registry, its log and its worker know.
pub(crate) fn check_by_hand(execution: &Path, command: &str) -> Result<(), CliError> {
    match OwningTask::of(execution).map(OwningTask::looked_up) {
        Some(task) => task.check_ended(command),
        None => Ok(()),
    }
}

/// Refuses to stop the run of a task that a worker has, since the task would fail by that; `task cancel` stops it (TASK-126).
pub(crate) fn check_stop(execution: &Path) -> Result<(), CliError> {
    match OwningTask::of(execution).map(OwningTask::looked_up) {
        Some(task) if task.status == TaskStatus::Running && !task.is_free() => Err(task.refuse_stop()),
        _ => Ok(()),
    }
}

/// Whether a task with this status has ended, so that no worker continues it by itself.
pub(crate) fn has_ended(status: TaskStatus) -> bool {
    matches!(
        status,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled | TaskStatus::Deleted
    )
}

/// Whether the task had completed before this run started.
pub(crate) fn has_ended_before(row: &TaskRow, run: &RunRecord) -> bool {
    row.record.status() == TaskStatus::Completed && run.start_time > row.updated_at
}

/// Describes the files of a task that are at another location.
fn missing(location: FilesLocation, id: &TaskId) -> MissingFiles {
    let is_of_machine = location.machine == machine_name();
    let files = Path::new(&location.folder).join(id.as_str());
    MissingFiles {
        is_found: is_of_machine && RealDisk.metadata(&files).is_ok(),
        is_of_machine,
        location,
    }
}

/// Returns what continues the task whose workspace this is; `None` for a directory of another kind.
pub(crate) fn onward(execution: &Path) -> Option<String> {
    Some(OwningTask::of(execution)?.onward())
}

/// Returns the option with which an attempt waits this long for the end of a usage limit: ` --max-wait 9h`.
pub(crate) fn patience_option(patience: Duration) -> String {
    format!(" --max-wait {}", duration_argument(patience))
}

impl OwningTask {
    /// Returns the task whose workspace `execution` is; `None` for a directory of another kind.
    pub(crate) fn of(execution: &Path) -> Option<Self> {
        // The folder of a task that no worker has begun does not exist yet, so it has no real path.
        let absolute = || Some(RealDisk.real_path(Path::new(".")).ok()?.join(execution));
        let workspace = RealDisk.real_path(execution).ok().or_else(absolute)?;
        if workspace.file_name()? != WORKSPACE {
            return None;
        }
        let folder = workspace.parent()?;
        let (root, id) = (folder.parent()?, folder.file_name()?.to_str()?);
        let id = TaskId::new(id).ok()?;
        let files = TaskLayers::new(World::real(), root).task(id.clone());
        let state = files.load_state().ok()?;
        let task = Self::from_files(id, files, root, state.as_ref());
        match state {
            Some(_) => Some(task),
            // Before its first start only its registry knows the task, and no file names that registry. Asks the default one, if this is its folder of tasks.
            None if task.place.tasks.is_none() => Some(task.looked_up()).filter(|task| task.row.is_some()),
            None => None,
        }
    }

    /// Returns the task as its files say; without a state file it is pending.
    fn from_files(id: TaskId, files: TaskFiles, root: &Path, state: Option<&TaskState>) -> Self {
        let field = |name: &str| state.and_then(|state| state.data.get(name));
        let text = |name: &str| field(name).and_then(Value::as_str);
        let result = field("result").unwrap_or(&Value::Null);
        let cost = state.and_then(|state| TaskCost::of_data(&state.data));
        Self {
            created: files.created().ok().flatten(),
            place: place_of(text("registry"), root),
            is_of_restate: text("registry") == Some(RESTATE),
            name: text("name").map(str::to_owned),
            error: result["error"].as_str().map(str::to_owned),
            needed: serde_json::from_value(result["data"]["failure"]["needed"].clone()).ok(),
            cost_is_lower_bound: cost.is_some_and(|cost| cost.cost_is_lower_bound),
            status: state.map_or(TaskStatus::Pending, |state| state.status),
            id,
            files,
            row: None,
            holders: None,
            went_on_in: None,
            is_unanswered: false,
        }
    }

    /// Asks the registry, which knows what happened after the newest run. If the registry does not answer, the task stays as the files say.
    pub(crate) fn looked_up(self) -> Self {
        // A thread of another async runtime must not block on the registry.
        if self.row.is_some() || self.is_of_restate || Handle::try_current().is_ok() || !is_there(&self.place)
        {
            return self;
        }
        let finding = with_registry_within(TIME_LIMIT, &self.place, async |registry: &Registry| {
            let failed = |error: TaskError| registry.failure(&error);
            let coordinator = &registry.coordinator;
            let Some(row) = coordinator.task(self.id.clone()).await.map_err(failed)? else {
                let deleted = coordinator.deleted_at(self.id.clone()).await.map_err(failed)?;
                return Ok(Some(match deleted {
                    Some(_) => RegistryFinding::Deleted,
                    None => RegistryFinding::Another,
                }));
            };
            // Another registry may have a task of this id.
            if self
                .created
                .is_some_and(|created| created != *row.record.created_at())
            {
                return Ok(Some(RegistryFinding::Another));
            }
            let holders = TaskHolders::of(registry, std::slice::from_ref(&row)).await?;
            Ok(Some(RegistryFinding::Row(Box::new(row), holders)))
        });
        match finding {
            Ok(Some(RegistryFinding::Row(row, holders))) => self.known_as(*row, holders),
            Ok(Some(RegistryFinding::Deleted)) => Self {
                status: TaskStatus::Deleted,
                ..self
            },
            Ok(Some(RegistryFinding::Another)) => self,
            Ok(None) | Err(_) => Self {
                is_unanswered: true,
                ..self
            },
        }
    }

    /// Replaces what the files say by this row of the registry.
    pub(crate) fn known_as(self, row: TaskRow, holders: Option<TaskHolders>) -> Self {
        let failed = match &row.record {
            TaskRecord::Failed(failed) => Some(failed),
            _ => None,
        };
        Self {
            name: Some(row.record.name().clone()),
            status: row.record.status(),
            error: failed.map(|failed| failed.error.clone()),
            needed: failed.and_then(|failed| failed.failure.as_ref()?.needed),
            went_on_in: self.files.went_on_in(&row),
            cost_is_lower_bound: TaskCost::of(&row.record).is_some_and(|cost| cost.cost_is_lower_bound),
            row: Some(row),
            holders,
            ..self
        }
    }

    /// Returns the answer of a user that decides whether this codon starts: a denial by which the task failed, or an approval that no run has seen. A task
    /// that is worked on by hand has no run, so every answer counts.
    pub(crate) fn answer(&self, codon: &CodonId) -> Option<GateAnswer> {
        let noted = self.row.as_ref()?.record.metadata().get("approval")?;
        let approval: TaskApproval = serde_json::from_value(noted.clone()).ok()?;
        let decides = match self.status {
            // The error of a denial begins with the codon: `publish: denied by ann`.
            TaskStatus::Failed => !approval.granted && self.error.as_ref()?.starts_with(codon.as_str()),
            TaskStatus::Running if self.worked_on_by().is_some() => true,
            TaskStatus::Pending | TaskStatus::Running => approval.granted,
            _ => false,
        };
        let at = serde_json::from_value(noted["at"].clone()).ok();
        (decides && approval.codon_id == codon.as_str()).then_some(GateAnswer { approval, at })
    }

    /// Returns the denials in the log of the task, which no run saw. Each has the time that its question had waited, if known.
    pub(crate) fn denials(&self) -> Vec<(GateAnswer, Option<Duration>)> {
        let log = self.files.load_log(&LogQuery::default());
        let mut asked_at = None;
        let denial = |entry: LogEntry| {
            let data = entry.data?;
            if data["toStatus"] == TaskStatus::Waiting.as_str() {
                asked_at = Some(entry.timestamp);
            }
            let approval: TaskApproval = serde_json::from_value(data["approval"].clone()).ok()?;
            let at = Some(entry.timestamp);
            let waited = asked_at.map(|asked| entry.timestamp.since(asked));
            (!approval.granted).then_some((GateAnswer { approval, at }, waited))
        };
        let entries = log.map(|log| log.entries).unwrap_or_default();
        entries.into_iter().filter_map(denial).collect()
    }

    /// Returns the steps of users, except answers, and the requeues in the log of the task: `the task was cancelled by ann`.
    pub(crate) fn steps_of_users(&self) -> Vec<(Timestamp, String)> {
        let log = self.files.load_log(&LogQuery::default());
        let entries = log.map(|log| log.entries).unwrap_or_default();
        let step = |line: LogLine<'_>| {
            let data = line
                .entry
                .data
                .as_ref()
                .filter(|data| data["approval"].is_null())?;
            let is_by_hand = data["result"]["byHand"] == true;
            let is_listed = data["by"].is_string() || is_by_hand || line.is_requeue;
            let what = line.message.strip_prefix("Task ").filter(|_| is_listed)?;
            Some((line.entry.timestamp, format!("the task was {}", one_line(what))))
        };
        lines(&entries).into_iter().filter_map(step).collect()
    }

    /// Returns the worker of the running task if the worker does not renew its lease. `state` and `is_live` are the record and the process in the workspace.
    pub(crate) fn absent_worker(&self, state: &HankweaveState, is_live: bool) -> Option<AbsentWorker> {
        let (row, holders) = (self.row.as_ref()?, self.holders.as_ref()?);
        holders.absent(row, has_crashed(state, is_live, row))
    }

    /// Whether the task is running and its newest attempt works in these files.
    pub(crate) fn works_in_these_files(&self) -> bool {
        let row = self.row.as_ref();
        let has_newest = |row: &TaskRow| self.files.has_newest_attempt(row);
        self.status == TaskStatus::Running && row.is_some_and(has_newest)
    }

    /// Returns the worker of the running task, which `worker` describes as suspended on this machine.
    pub(crate) fn suspended(&self, worker: SuspendedWorker) -> Option<AbsentWorker> {
        Some(self.holders.as_ref()?.suspended(self.row.as_ref()?, worker))
    }

    /// Returns how the task ended; `None` if it has not ended or has failed.
    pub(crate) fn end(&self) -> Option<TaskEnd> {
        TaskEnd::of(self.status, self.row.as_ref())
    }

    /// Returns the status of a task whose newest files are elsewhere: `completed in /tasks on host-b, where its newest files are`.
    pub(crate) fn went_on(&self) -> Option<String> {
        Some(format!(
            "{} {}",
            self.status,
            begun_elsewhere::newest_in(self.went_on_in.as_ref()?)
        ))
    }

    /// Whether a later attempt than those of these files works, or has worked, elsewhere.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.went_on_in.is_some()
    }

    /// Whether the registry was asked and did not answer, so that the status comes from the files alone.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_unanswered
    }

    /// Returns the total cost of the task, and why that is, or may be, more than the `recorded` cost of the runs here; `None` where it is not.
    /// `is_lower_bound`: the recorded cost is already shown as "at least".
    pub(crate) fn cost_beyond(&self, recorded: Usd, is_lower_bound: bool) -> Option<(String, &'static str)> {
        let all = self.files.cost(self.row.as_ref()?)?;
        let is_unsure = all.cost_is_lower_bound && !is_lower_bound;
        let why = match (all.cost > recorded, is_unsure) {
            (true, _) => "runs of some attempts are not recorded here",
            (false, _) if all.cost_is_lower_bound && all.before_anew.is_some() => match self.is_elsewhere() {
                true => "the runs since it started anew are not recorded here",
                false => "the runs before it started anew are not recorded here",
            },
            (false, true) => "an attempt lost its worker and may have cost more than its registry knows",
            (false, false) => return None,
        };
        Some((all.sum_in_words(), why))
    }

    /// Whether the task has cost more than is known, because an attempt lost its worker.
    pub(crate) fn cost_is_lower_bound(&self) -> bool {
        self.cost_is_lower_bound
    }

    /// Returns the total budget that was set for the task itself, which its next attempt has.
    pub(crate) fn set_budget(&self) -> Option<Usd> {
        TaskSpec::read(self.row.as_ref()?.record.metadata())
            .ok()?
            .max_cost()
    }

    /// Whether a user started this run after the task had completed, so that it is no attempt of the task.
    pub(crate) fn has_ended_before(&self, run: &RunRecord) -> bool {
        self.row.as_ref().is_some_and(|row| has_ended_before(row, run))
    }

    /// Returns the user who cancelled the task, or has asked its worker to.
    pub(crate) fn cancelled_by(&self) -> Option<&str> {
        self.row.as_ref()?.cancelled_by()
    }

    /// Returns when a user asked to cancel the running task, if its worker has not stopped it yet.
    pub(crate) fn cancel_requested_at(&self) -> Option<Timestamp> {
        self.row.as_ref()?.cancel_requested_at
    }

    /// Returns the agent or user who works on the task without a worker.
    pub(crate) fn worked_on_by(&self) -> Option<&str> {
        match &self.row.as_ref()?.record {
            TaskRecord::Running(running) if running.by_hand => Some(running.agent_id.as_str()),
            _ => None,
        }
    }

    /// Returns why the task failed, unless `cause`, which is shown next to it, says so already.
    pub(crate) fn failure_beside(&self, cause: Option<&str>) -> Option<&str> {
        let error = self
            .error
            .as_deref()
            .filter(|_| self.status == TaskStatus::Failed)?;
        let is_said = cause.is_some_and(|cause| error.contains(cause) || cause.ends_with(error));
        (!is_said).then_some(error)
    }

    /// Returns the error for a workspace in which no run is recorded.
    fn without_run(&self, execution: &Path) -> CliError {
        let named = self.named();
        let root = self.files.path().parent().map(Path::to_owned);
        let is_another = |there: &FilesLocation| {
            there.machine != machine_name() || root.as_deref() != Some(Path::new(&there.folder))
        };
        let there = self.row.as_ref().and_then(|row| FilesLocation::of(&row.record));
        let there = there.filter(is_another);
        let message = match (self.failure_beside(None), self.end()) {
            _ if let Some(there) = &there => {
                let place = begun_elsewhere::place(there);
                format!("{named} is {}, and its runs are recorded {place}", self.status)
            }
            _ if self.is_unanswered => format!(
                "{named} has recorded no run in `{}`, and its registry does not answer",
                execution.display()
            ),
            (Some(error), _) => format!("{named} has failed and recorded no run: {error}"),
            (None, Some(end)) => format!("{named} has recorded no run, and was {}", end.words),
            (None, None) => format!("{named} has recorded no run in `{}`", execution.display()),
        };
        let show = self.command("show");
        let hint = match there {
            Some(location) if self.status == TaskStatus::Pending => {
                let continues = begun_elsewhere::continues(&self.place, &missing(location, &self.id));
                format!("{continues}; `{show}` shows it")
            }
            None if self.is_unanswered => format!("`{show}` shows it once its registry answers"),
            Some(_) | None => self.onward(),
        };
        CliError::new(CliErrorKind::Input, message).hint(hint)
    }

    pub(crate) fn id(&self) -> &TaskId {
        &self.id
    }

    pub(crate) fn status(&self) -> TaskStatus {
        self.status
    }

    /// Returns the name, or the id where no name is known.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// Returns name and id for people: `task Publish the page [page-3]`, without the word where the name begins with it.
    fn named(&self) -> String {
        let name = self.name.as_deref().filter(|name| *name != self.id.as_str());
        let Some(name) = name.map(one_line) else {
            return format!("task {}", self.id);
        };
        let begins = name
            .get(..5)
            .is_some_and(|word| word.eq_ignore_ascii_case("task "));
        let word = if begins { "" } else { "task " };
        format!("{word}{name} [{}]", self.id)
    }

    /// Returns the task as JSON, without the values that are unknown.
    pub(crate) fn to_json(&self) -> Value {
        let mut json = json!({"id": self.id, "name": self.name, "status": self.status.as_str()});
        if let Some(error) = self.failure_beside(None) {
            json["error"] = error.into();
        }
        if let Some(at) = self.cancel_requested_at() {
            json["cancelRequestedAt"] = json!(at);
        }
        json
    }

    /// Returns `hankweave task WHAT ID`, with the options that name the registry.
    fn command(&self, what: &str) -> String {
        task_command(&self.place, &format!("task {what} {}", self.id))
    }

    /// Returns the line that says whose workspace a directory is.
    pub(crate) fn line(&self) -> String {
        match self.is_of_restate {
            true => format!("{}, kept by Restate", self.named()),
            false if self.status == TaskStatus::Deleted => format!("{}, which was deleted", self.named()),
            false => format!("{}: `{}` shows it", self.named(), self.command("show")),
        }
    }

    /// Returns the commands that continue the task, with their effects, in place of those of a run.
    /// `is_live`: a run works in the workspace. `is_free`: no worker holds the task. `asked` is the codon that waits for an approval, `patience` the time
    /// that the next run would have to wait for a usage limit, and `next` the first step of that run.
    pub(crate) fn commands(
        &self,
        is_live: bool,
        is_free: bool,
        asked: Option<&CodonId>,
        patience: Option<Duration>,
        next: Option<String>,
    ) -> Vec<(String, String)> {
        let mut offers = Vec::new();
        if self.is_of_restate || self.status == TaskStatus::Deleted {
            return offers;
        }
        let mut offer = |what: &str, effect: String| offers.push((self.command(what), effect));
        match (asked, self.status) {
            (_, TaskStatus::Running) if is_live && self.cancel_requested_at().is_some() => {}
            (_, TaskStatus::Running) if is_live && !is_free => offer("cancel", "stops it".to_owned()),
            // The run works on although the task is no longer its worker's: the worker was suspended when the lease ended or the task was taken away.
            _ if is_live => {
                let workspace = self.files.path().join(WORKSPACE);
                let stop = HintCommands::about(&workspace).command("stop");
                offers.push((stop, "stops it".to_owned()));
            }
            (Some(codon), TaskStatus::Waiting) => {
                offer("approve", format!("lets {codon} begin"));
                offer("deny", "fails the task; resumed, it asks again".to_owned());
            }
            (asked, TaskStatus::Failed | TaskStatus::Cancelled) => {
                let effect = match (self.needed.and_then(|needed| needed.explanation()), asked) {
                    (Some(explanation), _) => format!("lets a worker continue it; {explanation}"),
                    (None, None) if patience.is_some() => {
                        "lets a worker continue it, which waits for the usage limit".to_owned()
                    }
                    (None, Some(codon)) => format!("lets {codon} ask again"),
                    (None, None) => {
                        let next = next.map_or_else(String::new, |next| format!("; its run {next}"));
                        format!("lets a worker continue it{next}")
                    }
                };
                offers.push((self.resume_command(patience), effect));
            }
            (_, TaskStatus::Running) if is_free => {
                if self.worked_on_by().is_some() {
                    offer("complete", "completes it".to_owned());
                }
                let does = match self.cancel_requested_at() {
                    Some(_) => "cancels it now",
                    None => "requeues it now",
                };
                offer("detach", does.to_owned());
            }
            _ => {}
        }
        offers.push((self.command("show"), "shows the task".to_owned()));
        if self.is_unanswered {
            let effects = offers.iter_mut().map(|(_, effect)| effect);
            effects.for_each(|effect| effect.push_str(", once its registry answers"));
        }
        offers
    }

    /// Returns the command that lets a worker continue the task: with a budget that is large enough, and with `patience` as the longest wait for the end
    /// of a usage limit.
    pub(crate) fn resume_command(&self, patience: Option<Duration>) -> String {
        let needed = self.needed.filter(|_| self.status == TaskStatus::Failed);
        let options = needed.map(|needed| needed.options()).unwrap_or_default();
        let patience = patience.map(patience_option).unwrap_or_default();
        task_command(
            &self.place,
            &format!("task resume {}{options}{patience}", self.id),
        )
    }

    /// Returns the note for a user who starts a run in the workspace.
    pub(crate) fn note(&self) -> String {
        format!("this is the workspace of {}; {}\n", self.named(), self.onward())
    }

    /// Returns what continues the task, and the command that shows it.
    pub(crate) fn onward(&self) -> String {
        if self.is_of_restate {
            return "Restate continues it".to_owned();
        }
        let continues = match self.status {
            TaskStatus::Waiting => format!(
                "`{}` or `{}` answers its question",
                self.command("approve"),
                self.command("deny")
            ),
            TaskStatus::Pending => format!("`{}` continues it", task_command(&self.place, "worker")),
            TaskStatus::Running => match self.worked_on_by() {
                Some(who) => {
                    let [complete, detach] = ["complete", "detach"].map(|what| self.command(what));
                    let who = one_line(who);
                    format!("{who} works on it by hand, `{complete}` completes it, `{detach}` requeues it")
                }
                None if self.is_free() => {
                    format!("no worker holds it, `{}` requeues it", self.command("detach"))
                }
                None => format!("its worker runs it, `{}` stops it", self.command("cancel")),
            },
            TaskStatus::Completed | TaskStatus::Deleted => {
                return format!("`{}` shows it", self.command("show"));
            }
            TaskStatus::Failed | TaskStatus::Cancelled => {
                format!("`{}` lets a worker continue it", self.resume_command(None))
            }
        };
        format!("{continues}, `{}` shows it", self.command("show"))
    }

    /// Whether answers to the task's questions have to go to its registry (TASK-123). Once the task has completed, a run in the workspace is a user's own,
    /// which is answered like any other.
    pub(crate) fn is_answered_there(&self) -> bool {
        !matches!(self.status, TaskStatus::Completed | TaskStatus::Deleted)
    }

    /// Returns the command that answers the question of the task; a task that failed by a denial has to be resumed first.
    pub(crate) fn answer_command(&self) -> String {
        match self.status {
            TaskStatus::Failed | TaskStatus::Cancelled => self.resume_command(None),
            _ => self.command("approve"),
        }
    }

    /// Returns the command that runs the task after a rehearsal in its workspace, where `run` is refused; `None` once it has completed.
    pub(crate) fn run_command(&self) -> Option<String> {
        Some(match self.status {
            TaskStatus::Completed | TaskStatus::Deleted => return None,
            TaskStatus::Pending => task_command(&self.place, "worker"),
            TaskStatus::Running => self.command("show"),
            TaskStatus::Waiting | TaskStatus::Failed | TaskStatus::Cancelled => self.answer_command(),
        })
    }

    /// Refuses an answer in the record of the directory: the next worker takes answers only from the registry (TASK-123).
    pub(crate) fn refuse_answer(&self, is_denial: bool, reason: Option<&str>) -> CliError {
        let answer = self.command(if is_denial { "deny" } else { "approve" });
        let reason = reason.map_or_else(String::new, |reason| format!(" --reason {}", word(reason)));
        let message = format!(
            "`approve` does not answer for a task, and this is the workspace of {}",
            self.named()
        );
        let hint = match self.status {
            _ if self.is_of_restate => format!("call `answer` of `HankweaveTask/{}` in Restate", self.id),
            TaskStatus::Failed | TaskStatus::Cancelled => {
                format!(
                    "the task is {}: `{}` lets a worker ask again, then `{answer}{reason}` answers",
                    self.status,
                    self.resume_command(None)
                )
            }
            TaskStatus::Waiting => format!("`{answer}{reason}` does"),
            // Pending or running: once the task has completed, an answer is not refused (`is_answered_there`).
            _ => format!(
                "the task is {} and asks nothing now; once it waits, `{answer}{reason}` answers; {}",
                self.status,
                self.onward()
            ),
        };
        CliError::new(CliErrorKind::Failed, message).hint(hint)
    }

    /// Whether the task waits for a worker.
    pub(crate) fn is_pending(&self) -> bool {
        self.status == TaskStatus::Pending
    }

    /// Whether the registry says that no worker holds the running task.
    pub(crate) fn is_free(&self) -> bool {
        let known = self.row.as_ref().zip(self.holders.as_ref());
        known.is_some_and(|(row, holders)| holders.worker(row).is_none())
    }

    /// Refuses a run if another location has newer files of the task: the run would pay again for what was done there.
    fn check_newest(&self) -> Result<(), CliError> {
        let Some(there) = &self.went_on_in else {
            return Ok(());
        };
        let message = format!(
            "the newest files of {} are {}, and a run here would pay again for what was done there",
            self.named(),
            begun_elsewhere::place(there)
        );
        Err(CliError::new(CliErrorKind::Failed, message).hint(format!(
            "where its runs were pushed, `hankweave clone REMOTE DIR --run {}` brings them into a folder of your own",
            self.id
        )))
    }

    /// Refuses a run by hand unless the task has completed.
    fn check_completed(&self) -> Result<(), CliError> {
        self.check_newest()?;
        let kind = match self.status {
            TaskStatus::Completed | TaskStatus::Deleted => return Ok(()),
            TaskStatus::Running => CliErrorKind::Held,
            _ => CliErrorKind::Failed,
        };
        let message = format!(
            "`run` does not work for a task, which has its own budget and worker, and this is the workspace of {}",
            self.named()
        );
        Err(CliError::new(kind, message).hint(self.onward()))
    }

    /// Returns the error for `stop` in the workspace of a task.
    fn refuse_stop(&self) -> CliError {
        let message = format!(
            "`stop` does not work for a task, which would fail of it, and this is the workspace of {}",
            self.named()
        );
        let hint = match self.is_of_restate {
            true => format!("call `cancel` of `HankweaveTask/{}` in Restate", self.id),
            false => self.onward(),
        };
        CliError::new(CliErrorKind::Held, message).hint(hint)
    }

    /// Refuses `command`, which changes the files, unless the task has ended.
    fn check_ended(&self, command: &str) -> Result<(), CliError> {
        let (kind, is) = match self.status {
            status if has_ended(status) => return Ok(()),
            TaskStatus::Running => (CliErrorKind::Held, "is running"),
            TaskStatus::Waiting => (CliErrorKind::Failed, "waits for an approval"),
            _ => (CliErrorKind::Failed, "waits for a worker"),
        };
        let message = format!(
            "`{command}` does not change the files of a task that is not over, and this is the workspace of {}, which {is}",
            self.named()
        );
        let hint = match self.is_of_restate {
            true => format!("call `cancel` of `HankweaveTask/{}` in Restate first", self.id),
            false => format!(
                "`{}` ends it; then `{command}` works, and `{}` lets a worker continue from there",
                self.command("cancel"),
                self.command("resume")
            ),
        };
        Err(CliError::new(kind, message).hint(hint))
    }

    /// Whether the worker of the task has started the process with this marker.
    pub(crate) fn is_run_by_worker(&self, marker: Option<&OsStr>) -> bool {
        let own = format!("task/{}/", self.id);
        marker.is_some_and(|marker| marker.as_encoded_bytes().starts_with(own.as_bytes()))
    }

    /// Returns the task as the guard that checks the commands of clients to the run which its worker has started.
    pub(crate) fn guard(self) -> Arc<dyn CommandGuard> {
        // The task is running, since its worker has started this run. The answer of a registry would become outdated while the run lives.
        Arc::new(Self {
            status: TaskStatus::Running,
            row: None,
            ..self
        })
    }

    /// Lets a command to the run pass, or refuses it as the command line does.
    fn check_command(&self, command: &Command) -> Result<(), CliError> {
        match command {
            Command::ServerShutdown { .. }
            | Command::ServerForceShutdown { .. }
            | Command::CodonForceStop { .. } => match self.is_taken_from_run() {
                true => Ok(()),
                false => Err(self.refuse_stop()),
            },
            Command::RollbackToCheckpoint { .. }
            | Command::RollbackToCodon { .. }
            | Command::RollbackToLastSuccess { .. } => self.check_ended("rollback"),
            Command::RollbackUndo { .. } => self.check_ended("undo"),
            _ => Ok(()),
        }
    }

    /// Whether the task, by its files, is no longer running, so that its run works for nothing and may be stopped.
    fn is_taken_from_run(&self) -> bool {
        let state = self.files.load_state().ok().flatten();
        state.is_some_and(|state| state.status != TaskStatus::Running)
    }

    /// Names the task in an error about its workspace.
    pub(crate) fn explain(&self, error: CliError) -> CliError {
        error.hint(self.note().trim_end().to_owned())
    }
}

/// A client of a run gets no further than the command of the same name on the command line (TASK-126).
impl CommandGuard for OwningTask {
    fn check(&self, command: &Command) -> Result<(), CommandRefusal> {
        self.check_command(command).map_err(|refused| CommandRefusal {
            message: refused.message().to_owned(),
            hint: refused.remedy().map(str::to_owned),
        })
    }
}
