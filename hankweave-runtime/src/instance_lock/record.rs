//! The information file about the holder of the lock.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use hankweave_core::id::RunId;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LOCK_FILE, LockWorld};
use crate::world::disk::Disk;
use crate::world::identity::Identity;

/// Largest information file that is read, in bytes.
pub(super) const MAX_BYTES: u64 = 64 * 1024;

/// Who holds the lock, as it stands in `server.lock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockRecord {
    /// The holder's process.
    pub pid: u32,
    /// When that process started, in clock ticks since boot; it tells a reused pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_start_ticks: Option<u64>,
    /// The boot that the pid and the ticks belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Differs for each time the lock was taken.
    pub lock_id: String,
    /// The port of the server, once it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where clients on this machine reach it, unless that is 127.0.0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The run in progress, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// When the lock was taken.
    pub start_time: Timestamp,
    /// When the holder last wrote the file.
    pub last_heartbeat: Timestamp,
}

impl LockRecord {
    pub(super) fn of_this_process(world: &LockWorld) -> Self {
        let (pid, now) = (world.identity.pid(), world.clock.now());
        Self {
            pid,
            process_start_ticks: world.identity.start_ticks(pid),
            boot_id: world.identity.boot_id(),
            lock_id: world.ids.nonce(),
            port: None,
            address: None,
            run_id: None,
            start_time: now,
            last_heartbeat: now,
        }
    }

    /// Where a client on this machine reaches the server.
    #[must_use]
    pub fn reachable(&self) -> Option<SocketAddr> {
        let address = self.address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        Some(SocketAddr::new(address, self.port?))
    }

    fn is_live(&self, identity: &dyn Identity) -> bool {
        let same_boot = match (&self.boot_id, identity.boot_id()) {
            (Some(then), Some(now)) => *then == now,
            _ => true,
        };
        let same_process = match (self.process_start_ticks, identity.start_ticks(self.pid)) {
            (Some(then), now) => now == Some(then),
            (None, _) => identity.is_alive(self.pid),
        };
        same_boot && same_process
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a record holds numbers and texts only");
        bytes.push(b'\n');
        bytes
    }
}

/// Reads the information file in `state_dir`; `None` when it is absent, unreadable or damaged.
#[must_use]
pub fn read_record(disk: &dyn Disk, state_dir: &Path) -> Option<LockRecord> {
    let bytes = disk.read(&state_dir.join(LOCK_FILE), MAX_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The same, unless the process that wrote the file is gone; its number may be another's by now.
#[must_use]
pub fn live_record(disk: &dyn Disk, identity: &dyn Identity, state_dir: &Path) -> Option<LockRecord> {
    read_record(disk, state_dir).filter(|record| record.is_live(identity))
}

/// The holder's pid and port, each only if it makes sense: the rest of the file may be damaged.
pub(super) fn read_holder(disk: &dyn Disk, state_dir: &Path) -> (Option<u32>, Option<u16>) {
    let Some(value) = disk
        .read(&state_dir.join(LOCK_FILE), MAX_BYTES)
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
