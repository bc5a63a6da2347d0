//! The registry of tasks, as the commands about tasks, locks and workers open it: which registry is meant, what to do with it, and messages for its
//! errors (CLI-40).

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::hank::{Setting, SettingValue};
use hankweave_core::id::TaskId;
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;
use hankweave_runtime::world::blocking::lasting_runtime;
use hankweave_runtime::world::disk::{Disk as _, RealDisk, parent};
use hankweave_runtime::world::environment::{Environment, make_new_files_private};
use hankweave_task_model::TaskError;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::layers::{LayerError, TaskFiles, TaskLayers, WORKSPACE, machine_name};
use hankweave_tasks::locks::{GrantedLock, LockRequest};
use hankweave_tasks::{Coordinator, Lifecycle, Locks, Postgres, Sqlite};

use crate::args::RegistryArgs;
use crate::begun_elsewhere;
use crate::config;
use crate::hints::{task_command, without_password};
use crate::settings::Flags;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::shell::word;

/// A registry that answers, and the files of its tasks.
#[derive(Clone)]
pub(crate) struct Registry {
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) locks: Locks,
    /// Changes the status of tasks, with the same hooks as workers.
    pub(crate) lifecycle: Lifecycle,
    pub(crate) layers: TaskLayers,
    pub(crate) world: World,
    /// Address of the registry: `sqlite:PATH` or a `postgres` URL.
    pub(crate) url: String,
    /// Options of the command that named the registry and the folder of tasks.
    place: RegistryArgs,
}

/// Opens the registry, runs `act` with it, and closes it.
pub(crate) fn with_registry<T>(
    place: &RegistryArgs,
    act: impl AsyncFnOnce(&Registry) -> Result<T, CliError>,
) -> Result<T, CliError> {
    with_runtime(async {
        let registry = Registry::open(place).await?;
        let done = act(&registry).await;
        registry.close().await;
        done
    })
}

/// Opens the registry, runs `act` with it, and closes it; `None` if all of that takes longer than `limit`.
pub(crate) fn with_registry_within<T>(
    limit: Duration,
    place: &RegistryArgs,
    act: impl AsyncFnOnce(&Registry) -> Result<Option<T>, CliError>,
) -> Result<Option<T>, CliError> {
    with_runtime(async {
        let result = within(limit, async {
            let registry = Registry::open(place).await?;
            let done = act(&registry).await;
            registry.close().await;
            done
        });
        result.await.unwrap_or(Ok(None))
    })
}

/// Runs `work` to its end, on a runtime that also has other threads.
pub(crate) fn with_runtime<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    make_new_files_private();
    let runtime = lasting_runtime().map_err(|error| CliError::no_threads(&error))?;
    let done = runtime.block_on(work);
    // A thread that waits for a disk that hangs must not keep the process.
    runtime.shutdown_background();
    done
}

/// Opens the registry at an address; makes the folder of a registry in a file if there is none.
async fn connect(url: &str, world: &World) -> Result<Arc<dyn Coordinator>, TaskError> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Arc::new(Postgres::open(url).await?));
    }
    let Some(path) = url.strip_prefix("sqlite:") else {
        let message = "it is neither sqlite:PATH nor postgres://…".to_owned();
        return Err(TaskError::RegistryNotInitialized(message));
    };
    let path = Path::new(path);
    let made = RealDisk.make_private_dirs(parent(path));
    made.map_err(|error| TaskError::RegistryNotInitialized(error.to_string()))?;
    Ok(Arc::new(Sqlite::open(path, world.clock.clone()).await?))
}

/// Returns the address of the registry and the folder of tasks that these options mean; what they leave out comes from the settings and defaults.
fn locate(place: &RegistryArgs) -> Result<(String, PathBuf), CliError> {
    let given = place
        .registry
        .clone()
        .map(|url| (Setting::Registry, SettingValue::Text(url)));
    let configuration = config::resolve(None, &Flags::from_iter(given))?;
    if let Some(planted) = configuration.refused(Setting::Registry) {
        let planted = word(planted);
        let takes_it = format!("`export HANKWEAVE_REGISTRY={planted}` or `--registry {planted}`");
        return Err(config::refused("registry", &takes_it));
    }
    let data = || data_folder(&Environment::of_process());
    let url = match configuration.text(Setting::Registry) {
        Some(url) => url.to_owned(),
        None => format!("sqlite:{}", data()?.join("registry.db").display()),
    };
    let root = match (&place.tasks, url.strip_prefix("sqlite:")) {
        (Some(root), _) => root.clone(),
        (None, Some(path)) => parent(Path::new(path)).join("tasks"),
        (None, None) => data()?.join("tasks"),
    };
    Ok((url, root))
}

/// Returns the folder of the files of tasks that are kept without a registry.
#[cfg(feature = "restate")]
pub(crate) fn tasks_folder(place: &RegistryArgs) -> Result<PathBuf, CliError> {
    match &place.tasks {
        Some(root) => Ok(root.clone()),
        None => Ok(data_folder(&Environment::of_process())?.join("tasks")),
    }
}

/// Returns the options that name this registry and this folder of tasks; each is left out if commands here would find it without. A registry that is not
/// known counts as the default one.
pub(crate) fn place_of(registry: Option<&str>, root: &Path) -> RegistryArgs {
    let usual = locate(&RegistryArgs::default()).ok();
    let is_usual = |url: &&str| {
        usual
            .as_ref()
            .is_some_and(|(usual, _)| real_url(usual) == real_url(url))
    };
    let registry = registry.filter(|url| !is_usual(url)).map(str::to_owned);
    let named = RegistryArgs {
        registry,
        tasks: None,
    };
    let environment = Environment::of_process();
    let set = environment.get("HANKWEAVE_TASKS").map(PathBuf::from);
    let folder = set.or_else(|| locate(&named).ok().map(|(_, root)| root));
    let is_found = folder.is_some_and(|folder| real_or_given(&folder) == real_or_given(root));
    RegistryArgs {
        tasks: (!is_found).then(|| root.to_owned()),
        ..named
    }
}

/// Name in the place of a registry for tasks that Restate keeps.
pub(crate) const RESTATE: &str = "restate";

/// Returns the address of a registry in the form that workers keep with their tasks: a file by its real path, a server without its password.
pub(crate) fn kept_url(url: &str) -> String {
    real_url(url)
}

fn real_url(url: &str) -> String {
    match url.strip_prefix("sqlite:") {
        Some(path) => format!("sqlite:{}", real_or_given(Path::new(path)).display()),
        None => without_password(url),
    }
}

fn real_or_given(path: &Path) -> PathBuf {
    RealDisk.real_path(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns `hankweave` in the user's folder for data.
fn data_folder(environment: &Environment) -> Result<PathBuf, CliError> {
    let absolute = |name| {
        environment
            .get(name)
            .map(Path::new)
            .filter(|path| path.is_absolute())
    };
    let home = || Some(absolute("HOME")?.join(".local/share"));
    let data = absolute("XDG_DATA_HOME").map(Path::to_owned).or_else(home);
    let data = data.ok_or_else(|| {
        let message = "neither XDG_DATA_HOME nor HOME names a folder for the registry";
        CliError::new(CliErrorKind::Input, message).hint("name one with --registry sqlite:PATH")
    })?;
    Ok(data.join(OsStr::new("hankweave")))
}

impl Registry {
    /// Opens the registry at `place`.
    pub(crate) async fn open(place: &RegistryArgs) -> Result<Self, CliError> {
        let (url, root) = locate(place)?;
        let world = World::real();
        let coordinator = connect(&url, &world)
            .await
            .map_err(|error| failure(&error, place))?;
        let layers = TaskLayers::new(world.clone(), root);
        let locks = Locks::new(Arc::clone(&coordinator), world.ids.clone());
        let lifecycle = Lifecycle::new(Arc::clone(&coordinator), locks.clone(), layers.clone());
        lifecycle.register_builtin();
        Ok(Self {
            layers,
            locks,
            lifecycle,
            coordinator,
            world,
            url,
            place: place.clone(),
        })
    }

    /// Closes the registry, without waiting for requests of other async tasks.
    pub(crate) async fn close(&self) {
        self.locks.close().await;
        self.coordinator.close().await;
    }

    /// Returns the task, which must exist.
    pub(crate) async fn task(&self, id: &TaskId) -> Result<TaskRow, CliError> {
        let row = self.coordinator.task(id.clone()).await;
        let row = row.map_err(|error| self.failure(&error))?;
        row.ok_or_else(|| self.failure(&TaskError::TaskNotFound(id.to_string())))
    }

    /// Returns the files of a task on this machine. Files of another registry's task are refused only when they are used (TASK-125).
    pub(crate) fn files(&self, row: &TaskRow) -> TaskFiles {
        self.layers.find(row)
    }

    /// Returns the workspace of a task on this machine, in whichever folder of tasks it was begun.
    pub(crate) fn workspace_of(&self, row: &TaskRow) -> PathBuf {
        self.files(row).path().join(WORKSPACE)
    }

    /// Returns a sentence about a begun task whose files are not in this folder of tasks (TASK-127); `None` if no files are missing.
    pub(crate) fn begun_elsewhere(&self, row: &TaskRow) -> Option<String> {
        let missing = self.layers.missing(row)?;
        let location = || match missing.is_of_machine {
            true => format!("in {}", missing.location.folder),
            false => begun_elsewhere::place(&missing.location),
        };
        Some(match row.record.status() {
            // Without advice how to continue: a completed task does not, and a running one does by itself.
            TaskStatus::Completed | TaskStatus::Running => format!("its files are {}", location()),
            _ => begun_elsewhere::words(&self.place, row.id(), &missing),
        })
    }

    /// Returns the options that named the registry.
    pub(crate) fn place(&self) -> &RegistryArgs {
        &self.place
    }

    /// Returns the workspace that a task has or would have in this folder of tasks.
    pub(crate) fn workspace(&self, id: &TaskId) -> PathBuf {
        self.layers.task(id.clone()).path().join(WORKSPACE)
    }

    /// Makes that workspace if it does not exist. A folder of another registry's task is refused.
    pub(crate) async fn make_workspace(&self, id: &TaskId) -> io::Result<PathBuf> {
        self.lifecycle.check_folder(id).await.map_err(io::Error::other)?;
        let (disk, workspace) = (self.world.disk.clone(), self.workspace(id));
        let make = move || disk.make_private_dirs(&workspace).map(|()| workspace);
        self.world.blocking.run(make).await
    }

    /// Runs `act` on the files of a task under its exclusive lock. `act` gets the task as it is under the lock, and the fencing token.
    pub(crate) async fn under_lock<T>(
        &self,
        id: &TaskId,
        act: impl AsyncFnOnce(&TaskRow, u64) -> Result<T, LayerError>,
    ) -> Result<T, LayerError> {
        let request = LockRequest {
            task: Some(id.clone()),
            ..self.locks.request(
                TaskRow::lock_name(id),
                "lifecycle:command-line",
                LockMode::Exclusive,
            )
        };
        let GrantedLock { mut guard, row, .. } = self.locks.acquire(request).await?;
        let (row, token) = (
            row.ok_or_else(|| TaskError::TaskNotFound(id.to_string()))?,
            guard.token(),
        );
        let done = guard.keep(act(&row, token)).await;
        // A release that fails does not undo `act`, so it is only logged; the lock expires.
        guard.release_or_log(None).await;
        done?
    }

    pub(crate) fn failure(&self, error: &TaskError) -> CliError {
        failure(error, &self.place)
    }

    pub(crate) fn layer_failure(&self, error: &LayerError) -> CliError {
        match error {
            LayerError::Task(error) => self.failure(error),
            _ => CliError::new(CliErrorKind::Io, format!("{} ({})", chain(error), error.code())),
        }
    }

    /// Returns a command about this registry that can be pasted.
    pub(crate) fn command(&self, arguments: &str) -> String {
        task_command(&self.place, arguments)
    }
}

/// Describes an error with its code and a hint.
fn failure(error: &TaskError, place: &RegistryArgs) -> CliError {
    let kind = match error.code() {
        "RESOURCE_LOCKED" => CliErrorKind::Held,
        "LOCK_BACKEND_UNAVAILABLE"
        | "REGISTRY_NOT_INITIALIZED"
        | "STATE_SAVE_FAILED"
        | "TASK_UPDATE_FAILED" => CliErrorKind::Io,
        "VERSION_CONFLICT" | "STALE_TOKEN" | "LOCK_TIMEOUT" | "LOCK_NOT_HELD" => CliErrorKind::Failed,
        _ => CliErrorKind::Input,
    };
    let failure = CliError::new(kind, format!("{error} ({})", error.code()));
    let hint = match error {
        TaskError::FolderTaken { .. } => FOLDER_TAKEN.to_owned(),
        TaskError::FilesElsewhere { id, folder, machine } => {
            let other_machine = Some(machine.as_str()).filter(|machine| *machine != machine_name());
            begun_elsewhere::hint(place, id, folder, other_machine)
        }
        TaskError::TaskNotFound(_) => format!("`{}` lists the tasks", task_command(place, "task list")),
        TaskError::ResourceLocked { .. } => format!("`{}` lists the holders", task_command(place, "lock list")),
        TaskError::StateLoadFailed(_) | TaskError::StateValidationFailed(_) => {
            format!(
                "`{}` recovers the state from its checkpoints and its log",
                task_command(place, "task recover ID")
            )
        }
        TaskError::CheckpointNotFound { .. } | TaskError::CheckpointCorrupt { .. } => {
            format!(
                "`{}` lists the checkpoints",
                task_command(place, "task restore ID --list")
            )
        }
        TaskError::InvalidTransition { id, from: "failed" | "cancelled", method: "approve" | "deny" } => {
            format!(
                "it does not wait for an approval; `{}` lets a worker continue it, up to its next approval, if it has one",
                task_command(place, &format!("task resume {id}"))
            )
        }
        TaskError::InvalidTransition { id, from: "pending" | "running", method: "approve" | "deny" } => {
            format!(
                "it does not wait for an approval now; once its worker has come to its question, `{}` shows it",
                task_command(place, &format!("task show {id}"))
            )
        }
        TaskError::InvalidTransition { id, from: "failed" | "cancelled", method: "fail resume" } => {
            format!("`{}` lets a worker continue it", task_command(place, &format!("task resume {id}")))
        }
        TaskError::InvalidTransition { id, from: "waiting", .. } => {
            let [approve, deny, cancel] = ["approve", "deny", "cancel"].map(|step| task_command(place, &format!("task {step} {id}")));
            format!("`{approve}` or `{deny}` answers its question; `{cancel}` withdraws it, after which the task can be worked on by hand (`task resume -a NAME`)")
        }
        TaskError::BudgetSpent { id, .. } => {
            format!("`{}` names the command that allows more", task_command(place, &format!("task show {id}")))
        }
        TaskError::InvalidTransition { id, .. } => {
            format!("`{}` shows its status", task_command(place, &format!("task show {id}")))
        }
        TaskError::RegistryUnusable(_) => {
            "restore the registry from a copy, or start a new one with another --registry; `sqlite3 FILE .recover` reads what is left of a file".to_owned()
        }
        TaskError::LockBackendUnavailable(_) if is_of_server(place) => {
            "start its database again, for which its workers wait, or name a registry that answers with --registry".to_owned()
        }
        TaskError::RegistryNotInitialized(_) | TaskError::LockBackendUnavailable(_) => {
            "name a registry that answers with --registry sqlite:PATH or --registry postgres://…".to_owned()
        }
        _ => return failure,
    };
    failure.hint(hint)
}

/// Hint for two registries that use one folder of tasks.
pub(crate) const FOLDER_TAKEN: &str = "use another id, or give this registry a folder of its own with --tasks DIR or HANKWEAVE_TASKS, for its workers, too; a begun task stays with the workers of the folder in which it was begun";

/// Whether the registry is a database server.
fn is_of_server(place: &RegistryArgs) -> bool {
    locate(place).is_ok_and(|(url, _)| url.starts_with("postgres"))
}

/// Whether the registry may exist. The file of a registry is made by the first command that opens it; whether a server answers is not tried.
pub(crate) fn is_there(place: &RegistryArgs) -> bool {
    locate(place).is_ok_and(|(url, _)| match url.strip_prefix("sqlite:") {
        Some(path) => RealDisk.metadata_followed(Path::new(path)).is_ok(),
        None => true,
    })
}

/// Returns the ids of the newest tasks, for completions in a shell; none if the registry does not exist, or is a server, which may take long.
pub(crate) fn known_ids() -> Vec<String> {
    let place = RegistryArgs::default();
    let is_file = locate(&place).is_ok_and(|(url, _)| url.starts_with("sqlite:"));
    if !is_file || !is_there(&place) {
        return Vec::new();
    }
    let listed = with_registry(&place, async |registry: &Registry| {
        let newest = hankweave_tasks::coordinator::ListQuery {
            limit: Some(200),
            ..Default::default()
        };
        let rows = registry.coordinator.tasks(newest).await;
        rows.map_err(|error| registry.failure(&error))
    });
    let rows = listed.unwrap_or_default();
    rows.iter().map(|row| row.id().to_string()).collect()
}

/// Waits for `work`; `None` if that takes longer than `limit`.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-126
    #[test]
    fn a_hint_has_no_password() {
        let place = RegistryArgs {
            registry: Some("postgres://ann:s3cret@db.example/tasks".to_owned()),
            ..RegistryArgs::default()
        };
        let told = failure(&TaskError::TaskNotFound("t-1".into()), &place);
        let told = format!("{told:?}");
        assert!(
            told.contains("--registry postgres://ann@db.example/tasks") && !told.contains("s3cret"),
            "{told}"
        );
    }

    // covers: TASK-126
    #[test]
    fn the_kept_address_of_a_registry_has_no_password() {
        for (given, kept) in [
            (
                "postgres://ann:se:cret@db:5432/tasks",
                "postgres://ann@db:5432/tasks",
            ),
            (
                "postgresql://db/tasks?sslmode=require&password=x",
                "postgresql://db/tasks?sslmode=require",
            ),
            ("postgres://db/tasks?password=x", "postgres://db/tasks"),
        ] {
            assert_eq!(kept_url(given), kept, "{given}");
        }
    }
}
