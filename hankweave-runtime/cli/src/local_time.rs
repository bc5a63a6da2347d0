//! Times in the time zone of the person who reads them.

use std::sync::LazyLock;

use hankweave_core::local_time::LocalZone;
use hankweave_core::time::Timestamp;
use hankweave_runtime::local_zone;
use hankweave_runtime::world::World;
use hankweave_runtime::world::clock::{Clock, SystemClock};

static ZONE: LazyLock<LocalZone> = LazyLock::new(|| local_zone(&World::real()));

/// Returns a time as `14:02`, with its day where that is not today.
pub(crate) fn local(time: Timestamp) -> String {
    ZONE.display(time, SystemClock.now())
}
