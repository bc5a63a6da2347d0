//! Clock, ids and processes' names, all from a seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hankweave_core::id::{EventId, RunId};
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::Clock;
use hankweave_runtime::world::identity::Identity;
use hankweave_runtime::world::ids::IdSource;
use tokio::time::Instant;

use crate::disk::USER;
use crate::processes::Processes;
use crate::rng::Rng;

/// How far one jump of the wall clock may lead, in milliseconds: a month.
const FARTHEST_JUMP: u64 = 30 * 24 * 3_600_000;

/// A wall clock that follows tokio's paused clock, and jumps now and then (D9).
#[derive(Debug)]
pub(crate) struct SimClock {
    begin: Instant,
    state: Mutex<(Rng, i64)>,
    restless: bool,
}

impl SimClock {
    /// A clock that shows `millis` now. Must be made inside the tokio runtime whose clock it follows.
    pub(crate) fn new(millis: i64, restless: bool, rng: Rng) -> Self {
        Self {
            begin: Instant::now(),
            state: Mutex::new((rng, millis)),
            restless,
        }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (rng, millis) = &mut *state;
        if self.restless && rng.one_in(30) {
            let jump = rng.within(0..FARTHEST_JUMP).cast_signed();
            *millis += if rng.one_in(2) { jump } else { -jump };
        }
        let passed = i64::try_from(self.begin.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(*millis + passed)
    }
}

/// Ids that never come twice, in whatever life.
#[derive(Debug)]
pub(crate) struct SimIds {
    rng: Mutex<Rng>,
    events: AtomicU64,
}

impl SimIds {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rng: Mutex::new(rng),
            events: AtomicU64::new(1),
        }
    }

    fn number(&self) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).roll()
    }
}

impl IdSource for SimIds {
    fn run_id(&self, now: Timestamp) -> RunId {
        let number = self.number();
        let id = format!(
            "{}-{:06x}-{:06x}",
            now.as_millis(),
            number >> 40,
            number & 0xff_ffff
        );
        RunId::new(id).expect("digits and dashes are a folder name")
    }

    fn event_id(&self) -> EventId {
        let number = self.events.fetch_add(1, Ordering::Relaxed);
        EventId::new(format!("event-{number}")).expect("an id is not empty")
    }

    fn nonce(&self) -> String {
        format!("{:016x}", self.number())
    }

    fn secret(&self) -> [u8; 32] {
        let mut secret = [0; 32];
        for part in secret.chunks_exact_mut(8) {
            part.copy_from_slice(&self.number().to_le_bytes());
        }
        secret
    }
}

/// One life of the runtime as a process of the simulated machine.
#[derive(Debug)]
pub(crate) struct SimIdentity {
    pub(crate) pid: u32,
    pub(crate) boot: u64,
    pub(crate) processes: Processes,
}

impl Identity for SimIdentity {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn user_id(&self) -> u32 {
        USER
    }

    fn boot_id(&self) -> Option<String> {
        Some(format!("boot-{}", self.boot))
    }

    fn start_ticks(&self, pid: u32) -> Option<u64> {
        self.is_alive(pid).then(|| u64::from(pid) * 10)
    }

    fn is_alive(&self, pid: u32) -> bool {
        pid == self.pid || self.processes.is_alive(pid)
    }
}

/// Shared, because it continues through all lives.
pub(crate) type Ids = Arc<SimIds>;

/// The longest time that anything may take which is bounded at all.
pub(crate) const LONGEST: Duration = Duration::from_secs(6 * 3_600);
