//! `hankweave view --root`: a list of all runs below a folder and of the tasks of a registry (WIRE-51).
//!
//! The list is made when a page asks for it. A directory whose record has not changed since is not read again.

mod row;
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hankweave_core::time::Timestamp;
use hankweave_core::view::RunState;
use hankweave_core::wire::Event;
use hankweave_runtime::world::World;
use hankweave_runtime::world::blocking::lasting_runtime;
use hankweave_runtime::world::disk::{Disk, FileKind, RealDisk, parent, records_folder};
use hankweave_runtime::world::environment::{Environment, make_new_files_private};
use hankweave_runtime::{
    ExecutionDir, ListServer, RunList, RunTexts, ServeError, ServerOptions, record_name,
};
use hankweave_task_model::registry::{TaskCost, TaskRow};
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::coordinator::{ListQuery, TaskFilter, WorkerPresence};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use self::row::{DrawnRun, Group, ListRow};
use self::walk::FoundDirectories;
use super::{PageServer, attend};
use crate::args::{Global, RegistryArgs, ViewArgs};
use crate::directory::holder;
use crate::failures::serve_failure;
use crate::hints::HintCommands;
use crate::holding::{AbsentWorker, TaskHolders};
use crate::logging;
use crate::owning_task::OwningTask;
use crate::present_workers::{NONE, present};
use crate::receipt;
use crate::registry::{Registry, is_there, within};
use crate::running_tasks::{absent_worker, cost_so_far};
use crate::status;
use crate::task::EarlierTasks;
use crate::terminal::exit::{CliError, CliErrorKind};

/// Most execution directories, and most tasks, in the list.
const MAX_ROWS: usize = 200;

/// Time that the registry may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time for which a list is used again for further requests.
const FRESH: Duration = Duration::from_secs(1);

/// Time for which the found directories stay valid.
const FOUND_FRESH: Duration = Duration::from_secs(10);

/// Serves the list until a signal.
pub(super) fn serve(global: &Global, args: &ViewArgs, root: &Path) -> Result<ExitCode, CliError> {
    logging::install(global);
    make_new_files_private();
    let root = folder(root)?;
    let runtime = lasting_runtime().map_err(|error| CliError::no_threads(&error))?;
    let ended = runtime.block_on(open_and_serve(global, args, root));
    // A thread that waits for a disk that hangs must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Returns the real path of the folder to list.
fn folder(root: &Path) -> Result<PathBuf, CliError> {
    let metadata = RealDisk.metadata_followed(root);
    if !metadata.is_ok_and(|metadata| metadata.kind == FileKind::Directory) {
        let message = format!("`{}` is no folder", root.display());
        return Err(CliError::new(CliErrorKind::Input, message).hint("name the folder that holds your runs"));
    }
    RealDisk
        .real_path(root)
        .map_err(|error| CliError::from_error(CliErrorKind::Io, &error))
}

/// Opens the server of the list and serves until a signal.
async fn open_and_serve(global: &Global, args: &ViewArgs, root: PathBuf) -> Result<ExitCode, CliError> {
    let world = World::real();
    let list = Arc::new(Listing::new(&world, &root, &args.place));
    let mut options = ServerOptions::default();
    options.port = args.port.unwrap_or(0);
    let source: Arc<dyn RunList> = list.clone();
    let opening = async {
        let opened = ListServer::open(&world, &root, source, options).await;
        opened.map_err(|error| failure(&error, args))
    };
    let served = "the list is served until Ctrl+C, and follows the runs below this folder";
    let browser_folder = args.open.then(browser_folder).flatten();
    let ended = attend(global, &world, opening, served, browser_folder).await;
    list.close().await;
    ended
}

impl PageServer for ListServer {
    fn address(&self) -> String {
        self.read_only_address()
    }

    fn answer(self, stop: impl Future<Output = ()>) -> impl Future<Output = ()> {
        self.serve(stop)
    }
}

/// Returns a private folder of the user for the file that opens the browser: nothing is written into the listed folder.
fn browser_folder() -> Option<PathBuf> {
    let records = records_folder(&Environment::of_process())?;
    let folder = parent(&records).to_owned();
    RealDisk.make_private_dirs(&folder).ok()?;
    Some(folder)
}

fn failure(error: &ServeError, args: &ViewArgs) -> CliError {
    match error {
        ServeError::Listen { .. } => CliError::from_error(CliErrorKind::Io, error)
            .hint("without --port it is the port of the folder, or the next free one"),
        error => serve_failure(error, &HintCommands::about(&args.execution.execution)),
    }
}

/// Makes the list, and keeps facts from one list for the next.
struct Listing {
    world: World,
    /// Folder whose runs are listed.
    root: PathBuf,
    /// Home of the user, which is shown as `~`.
    home: Option<PathBuf>,
    /// Arguments that say where the registry is.
    place: RegistryArgs,
    /// The open registry; `None` before the first list, or if there is no registry.
    registry: Mutex<Option<Registry>>,
    /// The newest list as JSON, and its time.
    newest: Mutex<Option<(Instant, Arc<str>)>>,
    /// Facts that earlier lists have read.
    known: Arc<std::sync::Mutex<KnownRuns>>,
    /// Directories of the newest list by their names.
    directories: RwLock<HashMap<String, PathBuf>>,
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").field("root", &self.root).finish()
    }
}

/// Directories that were found, and runs that were read.
#[derive(Debug, Default)]
struct KnownRuns {
    /// Execution directories of the last search, and its time.
    found: Option<(Instant, Arc<FoundDirectories>)>,
    /// Run of each directory with the stamp of its record; `None` for a record without a run, or that cannot be read.
    drawn: HashMap<PathBuf, (Stamp, Option<DrawnRun>)>,
}

/// Figures that change with a record: while they are equal, it need not be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    /// Length in bytes and time of change of each file that a run writes.
    files: Vec<(u64, (i64, u32))>,
    /// Length of the journal, in bytes.
    journal: u64,
    /// Process that works in the directory.
    holder: Option<u32>,
    /// Version of the task in its registry; 0 for a run without a task.
    task: u64,
}

/// Tasks of the registry.
#[derive(Debug, Default)]
struct ListedTasks {
    rows: Vec<ListedTask>,
    holders: Option<TaskHolders>,
    /// Present workers.
    workers: Vec<WorkerPresence>,
    /// Number of pending tasks.
    queued: u64,
    /// Whether the registry has more tasks than `rows`.
    is_cut: bool,
    /// Why the registry could not be asked.
    error: Option<String>,
}

/// A task with facts that its row does not have.
#[derive(Debug)]
struct ListedTask {
    row: TaskRow,
    workspace: PathBuf,
    cost: Option<TaskCost>,
    /// Why it waits in vain for an earlier task.
    blocked: Option<String>,
    /// Worker of a running task, if it does not work.
    absent: Option<AbsentWorker>,
}

/// Rows of one list.
struct GatheredRows {
    rows: Vec<ListRow>,
    /// Directories of the rows by their names.
    directories: HashMap<String, PathBuf>,
    /// Whether more directories may exist.
    is_cut: bool,
}

impl RunList for Listing {
    fn listed(&self) -> BoxFuture<'_, Arc<str>> {
        self.list().boxed()
    }

    fn directory(&self, name: &str) -> Option<PathBuf> {
        let directories = self.directories.read().unwrap_or_else(PoisonError::into_inner);
        directories.get(name).cloned()
    }

    fn texts(&self, directory: &Path) -> Option<Arc<dyn RunTexts>> {
        Some(receipt::texts(directory))
    }
}

impl Listing {
    fn new(world: &World, root: &Path, place: &RegistryArgs) -> Self {
        let home = Environment::of_process().get("HOME").map(PathBuf::from);
        Self {
            world: world.clone(),
            root: root.to_owned(),
            home: home.and_then(|home| RealDisk.real_path(&home).ok()),
            place: place.clone(),
            registry: Mutex::default(),
            newest: Mutex::default(),
            known: Arc::default(),
            directories: RwLock::default(),
        }
    }

    async fn close(&self) {
        if let Some(registry) = self.registry.lock().await.take() {
            registry.close().await;
        }
    }

    /// Makes the list, unless it was made just now. Pages that ask at the same time share one list.
    async fn list(&self) -> Arc<str> {
        let mut newest = self.newest.lock().await;
        if let Some((at, list)) = &*newest
            && at.elapsed() < FRESH
        {
            return Arc::clone(list);
        }
        let tasks = self.tasks().await;
        let (queued, error, is_cut) = (tasks.queued, tasks.error.clone(), tasks.is_cut);
        let now = self.world.clock.now();
        let (root, home, known) = (self.root.clone(), self.home.clone(), Arc::clone(&self.known));
        let gathering = move || {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.gather(&root, home.as_deref(), &tasks, now)
        };
        let gathered = self.world.blocking.run(gathering).await;
        let root = shown(&self.root, self.home.as_deref());
        let list = json!({
            "at": now,
            "root": root,
            "rows": gathered.rows,
            "workers": workers(&gathered.rows),
            "queued": queued,
            "isCut": is_cut || gathered.is_cut,
            "registryError": error,
        });
        let list: Arc<str> = list.to_string().into();
        *self.directories.write().unwrap_or_else(PoisonError::into_inner) = gathered.directories;
        *newest = Some((Instant::now(), Arc::clone(&list)));
        list
    }

    /// Asks the registry, if there is one. A registry that does not answer is no reason to show no runs.
    async fn tasks(&self) -> ListedTasks {
        let mut registry = self.registry.lock().await;
        let asking = async {
            if registry.is_none() && is_there(&self.place) {
                *registry = Some(Registry::open(&self.place).await?);
            }
            match &*registry {
                Some(registry) => listed_tasks(registry).await,
                None => Ok(ListedTasks::default()),
            }
        };
        let failed = |error: String| ListedTasks {
            error: Some(error),
            ..ListedTasks::default()
        };
        match within(PATIENCE, asking).await {
            Some(Ok(tasks)) => tasks,
            Some(Err(error)) => failed(error.message().to_owned()),
            None => failed("the registry does not answer".to_owned()),
        }
    }
}

async fn listed_tasks(registry: &Registry) -> Result<ListedTasks, CliError> {
    let failed = |error| registry.failure(&error);
    let query = ListQuery {
        limit: Some(MAX_ROWS as u64 + 1),
        ..ListQuery::default()
    };
    let mut rows = registry.coordinator.tasks(query).await.map_err(failed)?;
    let is_cut = rows.len() > MAX_ROWS;
    rows.truncate(MAX_ROWS);
    let pending = TaskFilter {
        status: Some(TaskStatus::Pending),
        owner: None,
    };
    let queued = registry.coordinator.count(pending).await.map_err(failed)?;
    let holders = TaskHolders::of(registry, &rows).await?;
    let workers = present(registry).await?;
    let mut earlier = EarlierTasks::new(registry, &rows);
    let mut listed = Vec::new();
    for row in rows {
        let absent = holders
            .as_ref()
            .and_then(|holders| absent_worker(registry, holders, &row));
        listed.push(ListedTask {
            workspace: registry.workspace_of(&row),
            cost: cost_so_far(registry, &row).await,
            blocked: earlier.blocked(&row).await?,
            absent,
            row,
        });
    }
    Ok(ListedTasks {
        rows: listed,
        holders,
        workers,
        queued,
        is_cut,
        error: None,
    })
}

/// Returns the names of the workers that hold tasks.
fn workers(rows: &[ListRow]) -> BTreeSet<&str> {
    rows.iter().filter_map(|row| row.worker.as_deref()).collect()
}

impl KnownRuns {
    /// Makes the rows: a row for each task, with the run in its workspace, then a row for each other directory below `root`.
    fn gather(
        &mut self,
        root: &Path,
        home: Option<&Path>,
        tasks: &ListedTasks,
        now: Timestamp,
    ) -> GatheredRows {
        let found = self.find_directories(root);
        let (mut rows, mut directories, mut seen) = (Vec::new(), HashMap::new(), BTreeSet::new());
        for listed in &tasks.rows {
            let (task, workspace) = (&listed.row, &listed.workspace);
            let path = RealDisk
                .real_path(workspace)
                .unwrap_or_else(|_| workspace.clone());
            let owner =
                OwningTask::of(&path).map(|owner| owner.known_as(task.clone(), tasks.holders.clone()));
            let folder = shown(&path, home);
            let run = self.run_in(&path, owner, task.version);
            let run = run.map(|drawn| named(ListRow::of_run(drawn, &folder, now), &path, &mut directories));
            let mut row = ListRow::of_task(task, listed.cost, run, &folder, now);
            let worker = tasks.holders.as_ref().and_then(|holders| holders.worker(task));
            match &listed.absent {
                Some(absent) => row.mark_absent(absent, worker),
                None => row.worker = worker,
            }
            match &listed.blocked {
                Some(blocked) => row.mark_blocked(blocked),
                None if tasks.workers.is_empty() && task.record.status() == TaskStatus::Pending => {
                    NONE.clone_into(&mut row.last);
                }
                None => {}
            }
            rows.push(row);
            seen.insert(path);
        }
        for path in found.directories.iter().filter(|path| !seen.contains(*path)) {
            let owner = OwningTask::of(path);
            if let Some(drawn) = self.run_in(path, owner.clone(), 0) {
                let row = ListRow::of_run(drawn, &shown(path, home), now);
                let row = match &owner {
                    Some(owner) => row.of_files(owner, now),
                    None => row,
                };
                rows.push(named(row, path, &mut directories));
            }
        }
        self.drawn
            .retain(|path, _| seen.contains(path) || found.directories.contains(path));
        sort(&mut rows);
        GatheredRows {
            rows,
            directories,
            is_cut: found.is_cut,
        }
    }

    /// Returns the execution directories below `root`, searched again if the last search is too old.
    fn find_directories(&mut self, root: &Path) -> Arc<FoundDirectories> {
        if let Some((at, found)) = &self.found
            && at.elapsed() < FOUND_FRESH
        {
            return Arc::clone(found);
        }
        let found = Arc::new(walk::find(root, MAX_ROWS));
        self.found = Some((Instant::now(), Arc::clone(&found)));
        found
    }

    /// Returns the run of a directory, read again if its record has changed; `None` without a recorded run.
    fn run_in(&mut self, path: &Path, task: Option<OwningTask>, version: u64) -> Option<&DrawnRun> {
        if !receipt::has_record(path) {
            return None;
        }
        let stamp = Stamp::of(path, version);
        let is_known = self.drawn.get(path).is_some_and(|(known, _)| *known == stamp);
        if !is_known {
            let drawn = read_run(path, task);
            self.drawn.insert(path.to_owned(), (stamp, drawn));
        }
        self.drawn.get(path)?.1.as_ref()
    }
}

/// Reads the run of a directory; `None` if none is recorded or the record cannot be read.
fn read_run(path: &Path, task: Option<OwningTask>) -> Option<DrawnRun> {
    let mut view = status::drawn(path, task)
        .inspect_err(
            |error| tracing::warn!(path = %path.display(), error = error.message(), "a run cannot be listed"),
        )
        .ok()?;
    view.run.as_ref()?;
    let is_at_rest = view.state == RunState::Running && view.now.is_none() && view.activity.is_none();
    if is_at_rest && crate::state::is_idle(path).unwrap_or_default() {
        view.state = RunState::Idle;
    }
    let message = crate::state::newest_message(path).ok().flatten();
    let message = message.and_then(|entry| match entry.event {
        Event::AssistantAction { content, .. } => Some(content),
        _ => None,
    });
    Some(DrawnRun { view, message })
}

impl Stamp {
    fn of(path: &Path, task: u64) -> Self {
        let state_dir = ExecutionDir::new(path.to_owned()).state_dir();
        let stamp = |name: &str| {
            let metadata = RealDisk.metadata(&state_dir.join(name)).ok();
            metadata.map_or((0, (0, 0)), |metadata| (metadata.length, metadata.modified))
        };
        Self {
            files: ["state.json", "state.log", "server.lock"].map(stamp).into(),
            journal: crate::state::journal_bytes(path).unwrap_or_default(),
            holder: holder(path).map(|holder| holder.pid),
            task,
        }
    }
}

/// Gives a row the name of its record, under which its page is served.
fn named(row: ListRow, path: &Path, directories: &mut HashMap<String, PathBuf>) -> ListRow {
    let name = record_name(path);
    directories.insert(name.clone(), path.to_owned());
    ListRow {
        record: Some(name),
        ..row
    }
}

/// Sorts rows by their group. In the first group, rows that wait for a user, the longest wait comes first; in the others the newest row.
fn sort(rows: &mut [ListRow]) {
    rows.sort_by(|a, b| {
        let by_time = match a.group {
            Group::Waits => a.since.cmp(&b.since),
            _ => b.since.cmp(&a.since),
        };
        let groups = a.group.cmp(&b.group);
        groups.then(by_time).then_with(|| a.folder.cmp(&b.folder))
    });
}

/// Returns a path for people, with `~` for the home folder.
fn shown(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}
