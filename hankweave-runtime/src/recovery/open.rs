//! Opening an execution directory: its lock and its records.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::discovery::{READ_ONLY_TOKEN_FILE, TOKEN_FILE};
use hankweave_core::document::StateProblem;
use hankweave_core::hank::{CodonConfig, Hank, redirecting_variables};
use hankweave_core::state::Source;
use hankweave_core::wire::Event;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::own_files::{exclusion, own_files};
use super::rigs::{last_hank, remember, remembered, rig_copies};
use super::set_aside::{self, describe as describe_aside};
use super::{checkpoints, crash};
use crate::arrival::{self, ArrivalError};
use crate::checkpoint::{self, CheckpointStore, GitCheckpoints, HistoryError, KnownCheckpoints, OpenReport};
use crate::data::{Data, DataError, Place};
use crate::driver::DriverSet;
use crate::hank_files::LoadedHank;
use crate::instance_lock::{InstanceLock, LockError, LockWorld};
use crate::journal::{FileJournal, JournalLimits};
use crate::options::RunOptions;
use crate::paths::ExecutionDir;
use crate::preflight::{self, PreflightError};
use crate::rig::RigCopies;
use crate::state_manager::{
    self, LoadError, Loaded, Parts, PersistenceError, StateManager, Strictness, TransitionError,
};
use crate::store::StateFiles;
use crate::world::World;
use crate::world::disk::{Disk, IoError, remove_if_present, with_suffix};

/// How long a lock that is held is tried again. A killed server may not have ended yet, and a child that it
/// was about to start holds the lock until it becomes another program. A start right after a kill must not
/// fail for that.
const LINGER: Duration = Duration::from_secs(1);

/// How long the fingerprint of the data may take, unless the hank says otherwise (RUN-8).
const FINGERPRINT_TIME: Duration = Duration::from_secs(5);

/// Why an execution directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The hank cannot be run here; nothing was written.
    #[error(transparent)]
    Preflight(PreflightError),
    /// The execution directory cannot be used.
    #[error("failed to use `{path}` as execution directory")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The data cannot be used.
    #[error(transparent)]
    Data(DataError),
    /// Results cannot go where they should.
    #[error("failed to use `{}` as output directory", path.display())]
    Output {
        /// The directory.
        path: PathBuf,
        /// What the system said, or what is wrong with it.
        #[source]
        source: io::Error,
    },
    /// Another instance holds the directory, or the lock failed.
    #[error(transparent)]
    Lock(LockError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(IoError),
    /// The state cannot be used.
    #[error(transparent)]
    State(LoadError),
    /// The checkpoint repository cannot be used.
    #[error(transparent)]
    Checkpoints(checkpoint::OpenError),
    /// The checkpoints cannot be read, so it is unknown where to go on.
    #[error("failed to look for the recorded checkpoints")]
    History(#[source] HistoryError),
    /// What came from another machine is not in place yet.
    #[error("failed to put in place what came from another machine")]
    Arrival(#[source] ArrivalError),
    /// A crash that was found could not be recorded.
    #[error("failed to record the crash of an earlier run")]
    Crash(#[source] TransitionError),
}

/// An execution directory that is locked, with its records in order.
#[derive(Debug)]
pub(crate) struct Possession {
    pub(crate) world: World,
    pub(crate) dir: ExecutionDir,
    pub(crate) manager: StateManager,
    pub(crate) writer: JoinHandle<()>,
    pub(crate) checkpoints: Arc<dyn CheckpointStore>,
    /// The recorded checkpoints that can be restored; `None` once a run may have made another one.
    pub(crate) restorable: Option<KnownCheckpoints>,
    /// Processes of an earlier run that could not be ended.
    pub(crate) survivors: usize,
    /// What the rigs of the hank copy; empty when no hank is known.
    pub(crate) rig_copies: Arc<RigCopies>,
    pub(crate) notices: Vec<String>,
}

impl Possession {
    /// Runs `work` with the checkpoints, on a blocking thread.
    pub(crate) async fn with_checkpoints<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn CheckpointStore) -> T + Send + 'static,
    ) -> T {
        let store = Arc::clone(&self.checkpoints);
        self.world.blocking.run(move || work(&*store)).await
    }

    /// Records and publishes an event that does not change the state.
    pub(crate) async fn publish(&self, event: Event) {
        // Losing the receipt is harmless: a journal that cannot be written shows up in the next transition.
        drop(self.manager.record(event).await);
    }

    /// Writes what is left to write, waits for `last`, and gives the directory back (D8).
    ///
    /// # Errors
    ///
    /// [`PersistenceError`] when the last save failed.
    pub(crate) async fn release(
        self,
        lock: Arc<InstanceLock>,
        last: impl Future<Output = ()>,
    ) -> Result<(), Arc<PersistenceError>> {
        let saved = self.manager.shutdown().await;
        // The writer ends with `shutdown`, unless its disk hangs; a panic in it is passed on.
        let hangs = saved
            .as_ref()
            .is_err_and(|error| matches!(**error, PersistenceError::TimedOut { .. }));
        if !hangs
            && let Err(error) = self.writer.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
        last.await;
        if let Err(error) = self.world.blocking.run(move || lock.release()).await {
            tracing::warn!(error = %crate::error::chain(&error), "server.lock is left behind");
        }
        saved
    }
}

/// An open execution directory, and the hank to run in it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) possession: Possession,
    pub(crate) loaded: LoadedHank,
    pub(crate) hank: Hank,
    pub(crate) options: RunOptions,
    pub(crate) drivers: DriverSet,
    /// Patterns that keep the hank's own files out of checkpoints.
    pub(crate) own_files: Vec<String>,
}

impl Opened {
    /// The patterns of a checkpoint: those of the hank, or everything, and never the hank's own files.
    pub(crate) fn patterns(&self, declared: Vec<String>) -> Vec<String> {
        without_own_files(declared, &self.own_files)
    }
}

/// An empty list means every file; as soon as something is left out, that has to be said.
pub(crate) fn without_own_files(mut patterns: Vec<String>, own_files: &[String]) -> Vec<String> {
    if patterns.is_empty() && !own_files.is_empty() {
        patterns.push("**/*".to_owned());
    }
    patterns.extend_from_slice(own_files);
    patterns
}

/// What to open, and how.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub(crate) hank: LoadedHank,
    pub(crate) dir: PathBuf,
    pub(crate) options: RunOptions,
    pub(crate) drivers: DriverSet,
    /// Instead of a git repository in the directory.
    pub(crate) checkpoints: Option<Arc<dyn CheckpointStore>>,
    pub(crate) world: World,
}

/// Opens the directory. The lock is returned separately, because the caller keeps and releases it.
pub(crate) async fn open(request: OpenRequest) -> Result<(Opened, InstanceLock), OpenError> {
    let OpenRequest {
        hank: loaded,
        dir,
        mut options,
        drivers,
        checkpoints,
        world,
    } = request;
    let hank = preflight::check(&loaded, &options, &drivers, &world).map_err(OpenError::Preflight)?;
    let find = |named: &PathBuf| Data::find(&*world.disk, named, &dir).map_err(OpenError::Data);
    let data = options.data.as_ref().map(find).transpose()?;
    let (mut possession, lock) = possess(world, &dir, &options, checkpoints, Some(&hank)).await?;
    possession.notices.extend(redirections(&hank));
    possession.restorable = None;
    possession.rig_copies = Arc::new(rig_copies(&loaded, &hank, possession.dir.root()));
    let mut own_files = own_files(&loaded, &hank, possession.dir.root());
    let prepared = async {
        prepare_output(&possession, &mut options, &mut own_files)?;
        match data {
            Some(data) => bring(&possession, &hank, &options, data).await,
            None => Ok(()),
        }
    };
    if let Err(error) = prepared.await {
        if let Err(unsaved) = possession.release(Arc::new(lock), std::future::ready(())).await {
            tracing::warn!(error = %crate::error::chain(&*unsaved), "the last save failed");
        }
        return Err(error);
    }
    // Only now: the command line of a refused start must not be suggested again.
    remember_hank(&possession, &loaded, &options).await;
    let opened = Opened {
        possession,
        loaded,
        hank,
        options,
        drivers,
        own_files,
    };
    Ok((opened, lock))
}

/// Remembers the hank for rollbacks that do not name it. Without it they leave what its rigs have copied, which loses
/// nothing.
async fn remember_hank(possession: &Possession, hank: &LoadedHank, options: &RunOptions) {
    let (disk, dir, hank, options) = (
        Arc::clone(&possession.world.disk),
        possession.dir.clone(),
        hank.clone(),
        options.clone(),
    );
    let remembered = possession
        .world
        .blocking
        .run(move || remember(&*disk, &dir, &hank, &options));
    if let Err(error) = remembered.await {
        tracing::warn!(%error, "where the hank is could not be remembered");
    }
}

/// Links the data into the workspace.
async fn bring(
    possession: &Possession,
    hank: &Hank,
    options: &RunOptions,
    data: Data,
) -> Result<(), OpenError> {
    let limit = hank
        .overrides
        .as_ref()
        .and_then(|overrides| overrides.data_hash_time_limit);
    let place = Place {
        workspace: possession.dir.root().to_owned(),
        record: possession.dir.data_record(),
        goes_on: !options.fresh && !possession.manager.snapshot().runs.is_empty(),
        limit: limit.map_or(FINGERPRINT_TIME, Duration::from_millis),
    };
    let disk = Arc::clone(&possession.world.disk);
    let brought = possession.world.blocking.run(move || data.bring(&*disk, &place));
    brought.await.map_err(OpenError::Data)
}

/// Makes the output directory and resolves its path. Inside the workspace it is left out of checkpoints.
fn prepare_output(
    possession: &Possession,
    options: &mut RunOptions,
    own_files: &mut Vec<String>,
) -> Result<(), OpenError> {
    let Some(output) = &mut options.output else {
        return Ok(());
    };
    let failed = |source| OpenError::Output {
        path: output.path.clone(),
        source,
    };
    let (root, state) = (possession.dir.root(), possession.dir.state_dir());
    let check = |place: &Path| match place == root || place.starts_with(&state) {
        true => Err(failed(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is where the agents work",
        ))),
        false => Ok(()),
    };
    // Checked before it is made, so that a refusal leaves nothing behind, and again at its real path.
    let disk = &*possession.world.disk;
    check(&place_of(disk, &output.path))?;
    let real = disk.make_dirs(&output.path).map_err(failed)?;
    check(&real)?;
    own_files.extend(real.strip_prefix(root).ok().and_then(Path::to_str).map(exclusion));
    output.path = real;
    Ok(())
}

/// The path that a folder will have once it is made: the real path of the part that exists, and the rest.
fn place_of(disk: &dyn Disk, path: &Path) -> PathBuf {
    let real = path.ancestors().find_map(|ancestor| {
        let named = match ancestor.as_os_str().is_empty() {
            true => Path::new("."),
            false => ancestor,
        };
        let rest = path.strip_prefix(ancestor).ok()?;
        Some((disk.real_path(named).ok()?, rest))
    });
    let (mut place, rest) = real.unwrap_or_else(|| (PathBuf::new(), path));
    for part in rest.components() {
        match part {
            Component::ParentDir => drop(place.pop()),
            Component::CurDir => {}
            part => place.push(part),
        }
    }
    place
}

/// Opens the directory without a hank; what rigs have copied is known from the hank that ran last.
pub(crate) async fn possess_without_hank(
    world: World,
    dir: &Path,
    options: &RunOptions,
) -> Result<(Possession, InstanceLock), OpenError> {
    let (mut possession, lock) = possess(world, dir, options, None, None).await?;
    let (disk, dir) = (Arc::clone(&possession.world.disk), possession.dir.clone());
    let remembered = possession.world.blocking.run(move || remembered(&*disk, &dir));
    possession.rig_copies = Arc::new(remembered.await);
    Ok((possession, lock))
}

/// Takes the lock, opens the records, and cleans up after a crashed run.
async fn possess(
    world: World,
    dir: &Path,
    options: &RunOptions,
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    hank: Option<&Hank>,
) -> Result<(Possession, InstanceLock), OpenError> {
    let dir = ExecutionDir::new(prepare_directory(&*world.disk, dir)?);
    let blocking = world.blocking;
    let refusal = Instant::now() + LINGER;
    let records = loop {
        let (world, dir, options) = (world.clone(), dir.clone(), options.clone());
        let checkpoints = checkpoints.clone();
        let opened = blocking.run(move || open_records(&world, &dir, &options, checkpoints));
        match opened.await {
            Err(OpenError::Lock(LockError::Held { .. })) if Instant::now() < refusal => {
                tokio::time::sleep(LINGER / 50).await;
            }
            opened => break opened?,
        }
    };
    let mut notices = records.set_aside;
    notices.extend(records.lock.notice());
    notices.extend(describe(&records.loaded));
    notices.extend(records.report.moved_aside.iter().map(|path| {
        format!(
            "the checkpoint repository could not be read and is kept as {}; its checkpoints are out of reach",
            path.display()
        )
    }));
    if records.report.mended {
        let mended = "the checkpoint repository had lost its first commit and has a new one; checkpoints that are whole are within reach";
        notices.push(mended.to_owned());
    }
    let set_aside = records.report.set_aside.iter();
    notices.extend(set_aside.map(|(what, kept)| format!("{what}; it is kept as {}", kept.display())));
    let (manager, task) = StateManager::start(records.parts, records.loaded);
    // Owned by `Opened`, whose run awaits it after `shutdown`.
    let writer = task.spawn();
    let state = manager.snapshot();
    let mut survivors = 0;
    for marker in crash::markers(&state) {
        let swept = world.spawner.sweep(&marker).await;
        survivors += swept.survivors;
        if swept.killed > 0 {
            notices.push(format!(
                "{} processes that a crashed run had left behind were ended",
                swept.killed
            ));
        }
    }
    let now = world.clock.now();
    let costs = {
        let (world, dir, state) = (world.clone(), dir.clone(), Arc::clone(&state));
        let (hank, prices) = (hank.cloned(), options.prices.clone());
        let reckon = move || {
            let loaded = || last_hank(&*world.disk, &dir).ok().flatten()?.hank;
            let hank = hank.or_else(loaded);
            let sources = crash::Sources {
                world: &world,
                dir: &dir,
                hank: hank.as_ref(),
                prices: &prices,
            };
            crash::costs(&sources, &state, now)
        };
        blocking.run(reckon).await
    };
    for event in costs {
        manager.transition(event).await.await.map_err(OpenError::Crash)?;
    }
    let crashes = crash::crashes(&state, now).into_iter().map(|crashed| {
        let told = crashed
            .run_id()
            .map(|run| format!("run {run} had crashed; its open codon is closed as failed"));
        (crashed, told.unwrap_or_default())
    });
    for (closed, told) in crashes.chain(crash::left_open(&state, now)) {
        notices.push(told);
        manager.transition(closed).await.await.map_err(OpenError::Crash)?;
    }
    let in_order = checkpoints::put_in_order(&world, &records.checkpoints, &state).await?;
    notices.extend(in_order.notices);
    let possession = Possession {
        world,
        dir,
        manager,
        writer,
        checkpoints: records.checkpoints,
        restorable: Some(in_order.restorable),
        survivors,
        rig_copies: Arc::default(),
        notices,
    };
    Ok((possession, records.lock))
}

/// Makes the directory when it does not exist, and resolves its path. Its name is durable then: files that
/// are synced in a directory without a durable name are lost with the power (P1).
fn prepare_directory(disk: &dyn Disk, dir: &Path) -> Result<PathBuf, OpenError> {
    let failed = |source| OpenError::Directory {
        path: dir.to_owned(),
        source,
    };
    if dir.to_str().is_none() {
        let reason = "state.json is text and cannot hold a path that is not UTF-8";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidFilename, reason)));
    }
    let lacking = dir
        .ancestors()
        .take_while(|folder| is_absent(disk, folder))
        .count();
    let real = disk.make_dirs(dir).map_err(failed)?;
    for (distance, folder) in real.ancestors().skip(1).take(lacking.max(1)).enumerate() {
        match disk.sync_dir(folder) {
            // Another user's folder. The parent of an existing directory is synced because a killed process
            // of ours may have made the directory.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && distance >= lacking => {}
            synced => synced.map_err(failed)?,
        }
    }
    Ok(real)
}

fn is_absent(disk: &dyn Disk, folder: &Path) -> bool {
    !folder.as_os_str().is_empty()
        && disk
            .metadata_followed(folder)
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

struct Records {
    lock: InstanceLock,
    parts: Parts,
    loaded: Loaded,
    checkpoints: Arc<dyn CheckpointStore>,
    report: OpenReport,
    /// What was moved aside, in words.
    set_aside: Vec<String>,
}

/// Opens the files, in the documented order: lock, journal, state, checkpoints (RUN-1, L3). Blocks.
fn open_records(
    world: &World,
    dir: &ExecutionDir,
    options: &RunOptions,
    checkpoints: Option<Arc<dyn CheckpointStore>>,
) -> Result<Records, OpenError> {
    let state_dir = dir.state_dir();
    let lock_world = LockWorld {
        disk: Arc::clone(&world.disk),
        clock: Arc::clone(&world.clock),
        ids: Arc::clone(&world.ids),
        identity: Arc::clone(&world.identity),
    };
    let lock = InstanceLock::acquire(lock_world, &state_dir, options.exclusion).map_err(OpenError::Lock)?;
    arrival::finish(world, dir).map_err(OpenError::Arrival)?;
    let mut set_aside: Vec<String> = lock
        .set_aside()
        .iter()
        .map(|aside| describe_aside(aside, ""))
        .collect();
    let strange = set_aside::set_aside(&*world.disk, dir, world.clock.now());
    set_aside.extend(strange.map_err(|source| OpenError::Directory {
        path: state_dir.clone(),
        source,
    })?);
    for token in [TOKEN_FILE, READ_ONLY_TOKEN_FILE] {
        // Left by a process that was killed while it wrote a token. A disk that fails is noticed below.
        let _ = remove_if_present(&*world.disk, &with_suffix(&state_dir.join(token), ".tmp"));
    }
    let journal = FileJournal::open(Arc::clone(&world.disk), &dir.events(), JournalLimits::default())
        .map_err(OpenError::Journal)?;
    let parts = Parts {
        files: StateFiles::new(Arc::clone(&world.disk), lock.guard(), state_dir),
        journal: Arc::new(journal),
        clock: Arc::clone(&world.clock),
        ids: Arc::clone(&world.ids),
        blocking: world.blocking,
    };
    let strictness = if options.strict_state {
        Strictness::Stop
    } else {
        Strictness::StartOver
    };
    let loaded = state_manager::load(&parts, strictness).map_err(OpenError::State)?;
    let (checkpoints, report) = match checkpoints {
        Some(store) => (store, OpenReport::default()),
        None => open_repository(world, dir)?,
    };
    Ok(Records {
        lock,
        parts,
        loaded,
        checkpoints,
        report,
        set_aside,
    })
}

fn open_repository(
    world: &World,
    dir: &ExecutionDir,
) -> Result<(Arc<dyn CheckpointStore>, OpenReport), OpenError> {
    let request = checkpoint::OpenRequest {
        repository: dir.checkpoints(),
        workspace: dir.root().to_owned(),
        at: world.clock.now(),
        nonce: world.ids.nonce(),
    };
    let (store, report) = GitCheckpoints::open(&request).map_err(OpenError::Checkpoints)?;
    Ok((Arc::new(store), report))
}

/// What the hank redirects: the user of a downloaded hank should see that (S8).
fn redirections(hank: &Hank) -> Vec<String> {
    let say = |codon: &CodonConfig| {
        let names = redirecting_variables(codon);
        let redirects = "which redirects programs or traffic";
        (!names.is_empty()).then(|| format!("codon {} sets {}, {redirects}", codon.id, names.join(", ")))
    };
    hank.codons().filter_map(say).collect()
}

/// What a person should know about how the state was found.
fn describe(loaded: &Loaded) -> Vec<String> {
    let mut notices = Vec::new();
    match loaded.source {
        Source::Primary => {}
        Source::Backup => notices.push("state.json could not be used; the backup was loaded".to_owned()),
        Source::Log => notices.push("state.json was rebuilt from the recorded events".to_owned()),
        Source::Fresh if loaded.history_was_reset => {
            notices.push("the recorded history could not be read; it starts anew".to_owned());
        }
        Source::Fresh => {}
    }
    let problem = |problem: &StateProblem| format!("state.json: {problem}");
    notices.extend(loaded.primary_problems.iter().map(problem));
    notices.extend(
        loaded
            .quarantined
            .iter()
            .map(|path| format!("the damaged file is kept as {}", path.display())),
    );
    notices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::environment::Environment;

    // covers: L3, RUN-1
    #[test]
    fn a_start_that_is_refused_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let world = World::with_environment(Environment::default());
        let dir = ExecutionDir::new(folder.path().to_owned());
        let open = || open_records(&world, &dir, &RunOptions::default(), None);
        let holder = open().map_err(|error| error.to_string()).ok().unwrap();
        // Whatever a start would mend: a torn line, and what is left of a save.
        let state_dir = dir.state_dir();
        let files = ["events/000001.jsonl", "state.json.tmp", "token.tmp"].map(|name| state_dir.join(name));
        for file in &files {
            std::fs::write(file, "torn").unwrap();
        }
        assert!(matches!(
            open().map(drop),
            Err(OpenError::Lock(LockError::Held { .. }))
        ));
        for file in &files {
            assert_eq!(
                std::fs::read_to_string(file).unwrap(),
                "torn",
                "{}",
                file.display()
            );
        }
        drop(holder);
        open().map_err(|error| error.to_string()).ok().unwrap();
        assert!(!files[1].exists() && !files[2].exists());
    }
}
