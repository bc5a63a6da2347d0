//! The information file `server.lock`: which process holds the lock, written by the holder and read by others.

use std::path::Path;

use hankweave_core::discovery::{LOCK_FILE, MAX_LOCK_FILE_BYTES, ProcessFacts, ServerLockRecord};

use hankweave_core::time::Timestamp;

use super::LockWorld;
use crate::world::clock::{Clock as _, SystemClock};
use crate::world::disk::{self, Disk};
use crate::world::identity::Identity;

/// Returns the first contents of the information file, for a lock of this process.
pub(super) fn of_this_process(world: &LockWorld, state_dir: &Path) -> ServerLockRecord {
    let (pid, now) = (world.identity.pid(), world.clock.now());
    ServerLockRecord {
        pid,
        process_start_ticks: world.identity.start_ticks(pid),
        boot_id: world.identity.boot_id(),
        pid_namespace: world.identity.pid_namespace(),
        directory: world.identity.directory(disk::parent(state_dir)),
        lock_id: world.ids.nonce(),
        port: None,
        address: None,
        run_id: None,
        activity: None,
        stopping: false,
        asking: false,
        suspended_at_uptime_ms: None,
        start_time: now,
        last_heartbeat: now,
    }
}

/// Reads the information file in `state_dir`; `None` when it is absent, unreadable or damaged.
#[must_use]
pub fn read_record(disk: &dyn Disk, state_dir: &Path) -> Option<ServerLockRecord> {
    let bytes = disk.read(&state_dir.join(LOCK_FILE), MAX_LOCK_FILE_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the last heartbeat in the information file: a killed process worked at least until then. `None` without a readable file,
/// or if the heartbeat is later than `now`, because a clock was wrong then.
#[must_use]
pub fn last_heartbeat(disk: &dyn Disk, state_dir: &Path, now: Timestamp) -> Option<Timestamp> {
    let heartbeat = read_record(disk, state_dir)?.last_heartbeat;
    (heartbeat <= now).then_some(heartbeat)
}

/// Returns the information file if the process that wrote it lives and works in this directory. `None` also if another
/// process has this pid by now, or if the directory is a copy and the process works in the original.
#[must_use]
pub fn live_record(disk: &dyn Disk, identity: &dyn Identity, state_dir: &Path) -> Option<ServerLockRecord> {
    let record = read_record(disk, state_dir)?;
    let now = ProcessFacts {
        boot_id: identity.boot_id(),
        start_ticks: identity.start_ticks(record.pid),
        is_alive: identity.is_alive(record.pid),
        pid_namespace: identity.pid_namespace(),
        directory: identity.directory(disk::parent(state_dir)),
        at: SystemClock.now(),
    };
    record.is_live(&now).then_some(record)
}

/// Returns the last heartbeat in the information file of a copied `state_dir`, which the process in the original directory
/// wrote; `None` if `state_dir` is no copy that was made during a run.
#[must_use]
pub fn copied_at(disk: &dyn Disk, identity: &dyn Identity, state_dir: &Path) -> Option<Timestamp> {
    let record = read_record(disk, state_dir)?;
    let lies_in = identity.directory(disk::parent(state_dir));
    record
        .is_copied(lies_in.as_deref())
        .then_some(record.last_heartbeat)
}

/// Returns the holder's pid and port, each if it is a valid number. The rest of the file may be damaged.
pub(super) fn read_holder(disk: &dyn Disk, state_dir: &Path) -> (Option<u32>, Option<u16>) {
    let Some(value) = disk
        .read(&state_dir.join(LOCK_FILE), MAX_LOCK_FILE_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
    else {
        return (None, None);
    };
    let number = |name: &str| value.get(name).and_then(serde_json::Value::as_u64);
    (
        number("pid").and_then(|pid| u32::try_from(pid).ok()),
        number("port").and_then(|port| u16::try_from(port).ok()),
    )
}
