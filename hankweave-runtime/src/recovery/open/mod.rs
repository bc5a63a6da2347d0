//! Opening an execution directory: its lock and its records.

mod error;
mod output;
mod possession;
mod records;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::document::StateProblem;
use hankweave_core::hank::{CodonConfig, Hank, redirecting_variables};
use hankweave_core::state::Source;
use tokio::time::Instant;

use self::output::prepare_output;
use self::records::{open_records, prepare_directory};
use super::own_files::own_files;
use super::rigs::{last_hank, remember, remembered, rig_copies};
use super::{checkpoints, crash};
use crate::checkpoint::CheckpointStore;
use crate::data::{Data, Place};
use crate::driver::DriverSet;
use crate::hank_files::LoadedHank;
use crate::instance_lock::{InstanceLock, LockError};
use crate::options::RunOptions;
use crate::paths::ExecutionDir;
use crate::preflight;
use crate::state_manager::{Loaded, StateManager};
use crate::world::World;

pub use self::error::OpenError;
pub(crate) use self::possession::Possession;

/// How long a lock that is held is tried again. A killed server may not have ended yet, and a child that it
/// was about to start holds the lock until it becomes another program. A start right after a kill must not
/// fail for that.
const LINGER: Duration = Duration::from_secs(1);

/// How long the fingerprint of the data may take, unless the hank says otherwise (RUN-8).
const FINGERPRINT_TIME: Duration = Duration::from_secs(5);

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
