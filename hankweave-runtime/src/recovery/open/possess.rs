//! Takes possession of an execution directory: takes its lock, opens its records, ends processes of a crashed run, and records the crash. The result is a
//! [`LockedExecution`], which variables elsewhere call `possession`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::document::HankweaveState;
use hankweave_core::event::StateEvent;
use hankweave_core::hank::Hank;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::Event;
use tokio::time::Instant;

use super::OpenExecutionError;
use super::possession::LockedExecution;
use super::records::{OpenedRecords, open_records, prepare_directory};
use crate::checkpoint::{CheckpointStore, MAX_FILE_BYTES};
use crate::instance_lock::{InstanceLock, LockError};
use crate::options::RunOptions;
use crate::paths::ExecutionDir;
use crate::recovery::rigs::{last_hank, remembered};
use crate::recovery::{checkpoints, crash};
use crate::state_manager::StateManager;
use crate::world::World;
use crate::world::process::Sweep;

/// How long to try to take a lock that is held. A start right after a kill must not fail: the killed process may not have
/// ended yet, and a child that it was about to start holds the lock until the child becomes another program.
const LINGER: Duration = Duration::from_secs(1);

/// Opens the directory without a hank. The copies that rigs have made are known from the recorded hank that ran last.
pub(crate) async fn possess_without_hank(
    world: World,
    dir: &Path,
    options: &RunOptions,
) -> Result<(LockedExecution, InstanceLock), OpenExecutionError> {
    let (mut possession, lock) = possess(world, dir, options, None, None).await?;
    let (disk, dir) = (Arc::clone(&possession.world.disk), possession.dir.clone());
    let remembered = possession.world.blocking.run(move || remembered(&*disk, &dir));
    possession.rig_copies = Arc::new(remembered.await);
    Ok((possession, lock))
}

/// Takes the lock, opens the records, and cleans up after a crashed run (P9).
pub(super) async fn possess(
    world: World,
    dir: &Path,
    options: &RunOptions,
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    hank: Option<&Hank>,
) -> Result<(LockedExecution, InstanceLock), OpenExecutionError> {
    let dir = ExecutionDir::new(prepare_directory(&*world.disk, dir)?);
    let records = records(&world, &dir, options, checkpoints, most_bytes(hank)).await?;
    let mut notices = records.notices();
    let (manager, task) = StateManager::start(records.parts, records.loaded);
    // `LockedExecution::release` awaits the task after it has shut the manager down.
    let writer = task.spawn();
    let state = manager.snapshot();
    let swept = sweep(&world, &dir, &state).await;
    let now = world.clock.now();
    let heartbeat = records.lock.left_heartbeat();
    for event in costs(&world, (&dir, heartbeat), options, hank, &state, now).await {
        record(&manager, event).await?;
    }
    for (event, notice) in crash::crashes(&state, now, heartbeat)
        .into_iter()
        .chain(crash::left_open(&state, now))
    {
        notices.push(notice);
        record(&manager, event).await?;
    }
    if let Some(message) = crash::ended_words(swept.killed) {
        notices.push(message.clone());
        // Losing the receipt is harmless: a journal that cannot be written shows up in the next transition.
        drop(manager.record(Event::Info { message }).await);
    }
    let verified = checkpoints::verify(&world, &records.checkpoints, &state).await?;
    notices.extend(verified.notices);
    let possession = LockedExecution {
        world,
        dir,
        manager,
        writer,
        checkpoints: records.checkpoints,
        restorable: Some(verified.restorable),
        survivors: swept.survivors,
        rig_copies: Arc::default(),
        notices,
    };
    Ok((possession, records.lock))
}

/// Longest file that a checkpoint holds, in bytes.
fn most_bytes(hank: Option<&Hank>) -> u64 {
    let overrides = hank.and_then(|hank| hank.overrides.as_ref());
    let limit = overrides.and_then(|overrides| overrides.checkpointed_file_limit_mb);
    limit.map_or(MAX_FILE_BYTES, |limit| limit.saturating_mul(1 << 20))
}

/// Opens the records. While another process holds the directory, tries again for [`LINGER`].
async fn records(
    world: &World,
    dir: &ExecutionDir,
    options: &RunOptions,
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    most_bytes: u64,
) -> Result<OpenedRecords, OpenExecutionError> {
    let last_attempt = Instant::now() + LINGER;
    loop {
        let (own, dir, options) = (world.clone(), dir.clone(), options.clone());
        let checkpoints = checkpoints.clone();
        let open = move || open_records(&own, &dir, &options, checkpoints, most_bytes);
        match world.blocking.run(open).await {
            Err(OpenExecutionError::Lock(LockError::Held { .. })) if Instant::now() < last_attempt => {
                tokio::time::sleep(LINGER / 50).await;
            }
            opened => return opened,
        }
    }
}

/// Ends the processes that a crashed run left running.
async fn sweep(world: &World, dir: &ExecutionDir, state: &HankweaveState) -> Sweep {
    let mut all = Sweep::default();
    for marker in crash::markers(&*world.disk, dir.root(), state) {
        let swept = world.spawner.sweep(&marker).await;
        all.killed += swept.killed;
        all.survivors += swept.survivors;
    }
    all
}

/// Returns events with the costs of crashed codons. `heartbeat` is the last one of their run. Without a `hank`, the recorded hank that ran last has
/// the settings of their agents.
async fn costs(
    world: &World,
    (dir, heartbeat): (&ExecutionDir, Option<Timestamp>),
    options: &RunOptions,
    hank: Option<&Hank>,
    state: &Arc<HankweaveState>,
    now: Timestamp,
) -> Vec<StateEvent> {
    let (own, dir, state) = (world.clone(), dir.clone(), Arc::clone(state));
    let (hank, prices) = (hank.cloned(), options.prices.clone());
    let reckon = move || {
        let loaded = || last_hank(&*own.disk, &dir).ok().flatten()?.hank;
        let hank = hank.or_else(loaded);
        let sources = crash::Sources {
            world: &own,
            dir: &dir,
            hank: hank.as_ref(),
            prices: &prices,
            heartbeat,
        };
        crash::costs(&sources, &state, now)
    };
    world.blocking.run(reckon).await
}

async fn record(manager: &StateManager, event: StateEvent) -> Result<(), OpenExecutionError> {
    manager
        .transition(event)
        .await
        .await
        .map_err(OpenExecutionError::Crash)?;
    Ok(())
}
