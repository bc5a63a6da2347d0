//! The lock file of the older system, a program before hankweave that does not know our kernel lock. A start reads this file
//! so that the two never work in one directory.

use std::path::Path;
use std::time::Duration;

use hankweave_core::discovery::MAX_LOCK_FILE_BYTES;
use hankweave_core::time::Timestamp;
use serde_json::Value;

use super::LockWorld;

/// Name of the older system's lock file (L7).
const FOREIGN_LOCK_FILE: &str = "runtime.lock";

/// Age of a heartbeat beyond which its server counts as ended (L7).
const STALE_AFTER: Duration = Duration::from_secs(120);

/// Returns the pid of a live server of the older system that works in `state_dir`.
pub(super) fn live_holder(world: &LockWorld, state_dir: &Path) -> Option<u32> {
    let bytes = world
        .disk
        .read(&state_dir.join(FOREIGN_LOCK_FILE), MAX_LOCK_FILE_BYTES)
        .ok()?;
    let value: Value = serde_json::from_slice(&bytes).ok()?;
    let pid = pid_of(&value).filter(|pid| world.identity.is_alive(*pid))?;
    is_fresh(&value, world.clock.now()).then_some(pid)
}

/// The pid in the file, which very old versions wrote as a bare number.
fn pid_of(value: &Value) -> Option<u32> {
    let pid = value.as_u64().or_else(|| value.get("pid")?.as_u64())?;
    u32::try_from(pid).ok()
}

/// Whether the heartbeat is recent. True without a readable heartbeat: then the pid alone decides.
fn is_fresh(value: &Value, now: Timestamp) -> bool {
    value
        .get("lastHeartbeat")
        .and_then(Value::as_str)
        .and_then(|text| Timestamp::parse(text).ok())
        .is_none_or(|heartbeat| now.since(heartbeat) <= STALE_AFTER)
}
