//! Usage limits of providers: finding out when one ends.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use hankweave_core::agent::{FailureKind, FailureReason, limit_ends_at};

use super::context::CodonRun;
use crate::world::World;

/// Where systems keep the data of time zones.
const ZONES: &str = "/usr/share/zoneinfo";

/// The data of one zone has a few KiB.
const MOST_ZONE_BYTES: u64 = 64 << 10;

impl CodonRun<'_> {
    /// The reason of an agent's failure, with the end of the usage limit where it is known: from the agent,
    /// from a time to wait, or from the clock time in its message.
    pub(super) async fn with_limit(&self, reason: FailureReason) -> FailureReason {
        if reason.retry_at.is_some() {
            return reason;
        }
        let now = self.run.world.clock.now();
        let asks_to_wait = reason
            .retry_after_ms
            .filter(|_| reason.kind == FailureKind::RateLimit);
        if let Some(millis) = asks_to_wait {
            return reason.limited_until(now.after(Duration::from_millis(millis)));
        }
        let Some(message) = reason.message.clone() else {
            return reason;
        };
        let world = self.run.world.clone();
        let read = move || limit_ends_at(&message, now, &|name| zone(&world, name));
        match self.run.world.blocking.run(read).await {
            Some(ends_at) => reason.limited_until(ends_at),
            None => reason,
        }
    }
}

/// The data of a time zone; that of the machine without a name.
fn zone(world: &World, name: Option<&str>) -> Option<Vec<u8>> {
    let of_machine = || world.environment.get("TZ")?.to_str();
    let path = match name.or_else(of_machine) {
        Some(name) => named(name)?,
        None => PathBuf::from("/etc/localtime"),
    };
    // Both are links on many systems.
    let path = world.disk.real_path(&path).ok()?;
    world.disk.read(&path, MOST_ZONE_BYTES).ok()
}

/// The file of a zone, which lies where zones lie whatever the name says.
fn named(name: &str) -> Option<PathBuf> {
    let name = Path::new(name);
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| Path::new(ZONES).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_lies_where_zones_lie() {
        assert_eq!(
            named("Europe/Berlin"),
            Some(Path::new(ZONES).join("Europe/Berlin"))
        );
        for name in ["../passwd", "/etc/passwd", "Europe/../../x"] {
            assert_eq!(named(name), None);
        }
    }
}
