//! The simulated machine: what outlives the runtime.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_runtime::world::World;
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::disk::Disk;
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::net::MemoryNet;
use hankweave_runtime::world::process::CommandSpec;

use crate::check::{Broken, KnownLines, Records, Told, check_open, check_outputs, document};
use crate::checkpoints::{SimCheckpoints, Vault};
use crate::disk::{Crash, Plan, SimDisk};
use crate::models::Provider;
use crate::processes::{Processes, SimSpawner};
use crate::rng::Rng;
use crate::spectators::{Seen, Spectator};
use crate::world::{Ids, SimClock, SimIdentity, SimIds};

/// Folder of the hank.
pub(crate) const HANK: &str = "/hank";

/// The execution directory.
pub(crate) const WORK: &str = "/work";

/// Time of the wall clock at the beginning of everything.
const BEGIN_MILLIS: i64 = 1_736_000_000_000;

/// Everything that exists before a life of the runtime and after it.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) disk: SimDisk,
    pub(crate) processes: Processes,
    pub(crate) vault: Vault,
    pub(crate) witness: Witness,
    pub(crate) provider: Provider,
    /// The network of the present life.
    pub(crate) net: MemoryNet,
    /// Events that the clients have seen in all lives; the first client is attentive.
    pub(crate) spectators: Vec<Seen>,
    ids: Ids,
    clocks: Rng,
    boot: u64,
    lives: i64,
    known_lines: RefCell<KnownLines>,
}

/// Every other story has an audience.
fn spectators(rng: &Rng) -> Vec<Seen> {
    match rng.fork("spectators").one_in(2) {
        true => vec![Seen::default(), Seen::default(), Seen::default()],
        false => Vec::new(),
    }
}

/// Remembers the published events, and notes broken promises.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) told: Told,
    broken: Option<Broken>,
}

impl Witness {
    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the first thing that is wrong.
    pub(crate) fn check(&self, holds: Result<(), Broken>) {
        let mut notes = self.notes();
        if let Err(broken) = holds
            && notes.broken.is_none()
        {
            notes.broken = Some(broken);
        }
    }

    /// The first thing that was wrong so far.
    pub(crate) fn verdict(&self) -> Result<(), Broken> {
        self.notes().broken.clone().map_or(Ok(()), Err)
    }
}

impl Machine {
    /// A machine with a hank and a program called `agent`; the first `wild` processes may misbehave.
    ///
    /// # Errors
    ///
    /// When the hank cannot be written.
    pub(crate) fn new(rng: &Rng, hank: &str, wild: u64) -> io::Result<Self> {
        let disk = SimDisk::new(rng.fork("disk"));
        disk.plant(&Path::new(HANK).join("hank.json"), 0o644, hank.as_bytes())?;
        disk.plant(&Path::new(HANK).join("template/one.txt"), 0o644, b"one")?;
        disk.plant(&Path::new(HANK).join("template/deep/two.txt"), 0o755, b"two")?;
        disk.plant(Path::new("/bin/agent"), 0o755, b"")?;
        disk.watch(&state_dir().join("state.log"));
        Ok(Self {
            processes: Processes::new(disk.outside(), wild, rng.fork("processes")),
            vault: Vault::default(),
            witness: Witness::default(),
            provider: Provider::new(rng.fork("models")),
            net: MemoryNet::default(),
            spectators: spectators(rng),
            ids: Arc::new(SimIds::new(rng.fork("ids"))),
            clocks: rng.fork("clocks"),
            boot: 1,
            lives: 0,
            known_lines: RefCell::default(),
            disk,
        })
    }

    /// Replaces the hank.
    ///
    /// # Errors
    ///
    /// When the hank cannot be written.
    pub(crate) fn rewrite_hank(&self, hank: &str) -> io::Result<()> {
        let path = Path::new(HANK).join("hank.json");
        self.disk.remove_file(&path)?;
        self.disk.plant(&path, 0o644, hank.as_bytes())
    }

    /// The world of a new life of the runtime. Must be called inside its tokio runtime.
    pub(crate) fn begin_life(&mut self, plan: Plan, restless_clock: bool) -> World {
        let life = self.disk.begin_life(plan);
        self.net = MemoryNet::default();
        self.lives += 1;
        let millis = BEGIN_MILLIS + self.lives * 3_600_000;
        let clock = SimClock::new(millis, restless_clock, Rng::new(self.clocks.roll()));
        self.world(&life, Arc::new(clock))
    }

    /// Returns the spectators of the present life.
    pub(crate) fn audience(&self) -> Vec<Spectator> {
        let seats = self.spectators.iter().enumerate();
        seats
            .map(|(seat, seen)| Spectator {
                net: self.net.clone(),
                seen: seen.clone(),
                rng: self
                    .clocks
                    .fork(&format!("spectator {seat} of life {}", self.lives)),
                attentive: seat == 0,
            })
            .collect()
    }

    /// Returns the world of another process that runs during the present life.
    pub(crate) fn beside(&self, world: &World) -> World {
        World {
            identity: Arc::new(self.identity()),
            ..world.clone()
        }
    }

    fn identity(&self) -> SimIdentity {
        SimIdentity {
            pid: self.processes.new_pid(),
            boot: self.boot,
            processes: self.processes.clone(),
        }
    }

    fn world(&self, life: &SimDisk, clock: Arc<SimClock>) -> World {
        let (disk, witness) = (self.disk.clone(), self.witness.clone());
        let spawner = SimSpawner {
            processes: self.processes.clone(),
            life: life.clone(),
            on_spawn: Arc::new(move |spec| witness.check(check_spawn(&disk, spec))),
        };
        World {
            clock,
            disk: Arc::new(life.clone()),
            ids: self.ids.clone(),
            net: Arc::new(self.net.clone()),
            http: Arc::new(self.provider.line(&self.disk, &self.witness)),
            identity: Arc::new(self.identity()),
            environment: Arc::new(Environment::from_iter([
                ("PATH", "/bin"),
                ("ANTHROPIC_API_KEY", "a key"),
            ])),
            spawner: Arc::new(spawner),
            blocking: Blocking::Inline,
        }
    }

    pub(crate) fn checkpoints(&self, disk: &SimDisk) -> SimCheckpoints {
        SimCheckpoints {
            vault: self.vault.clone(),
            disk: disk.clone(),
            workspace: PathBuf::from(WORK),
        }
    }

    /// Ends the present life.
    pub(crate) fn end_life(&mut self, crash: Option<Crash>) {
        self.disk.end_life(crash);
        self.processes.lose_players();
        if crash == Some(Crash::PowerLoss) {
            self.processes.end_all();
            self.boot += 1;
        }
    }

    /// Damages a state file visibly: its end is missing, it has zeros inside, or it no longer exists.
    pub(crate) fn damage(&self, name: &str, rng: &mut Rng) {
        let path = state_dir().join(name);
        let Ok(mut bytes) = self.disk.read(&path, u64::MAX) else {
            return;
        };
        // It was read a moment ago, and a new file takes its place: the other name of a linked one is not damaged with it.
        let _ = self.disk.remove_file(&path);
        match rng.up_to(2) {
            0 => bytes.truncate(rng.up_to(bytes.len().saturating_sub(3))),
            1 => {
                let from = rng.up_to(bytes.len().saturating_sub(1));
                let to = (from + 1 + rng.up_to(600)).min(bytes.len());
                bytes[from..to].fill(0);
            }
            _ => return,
        }
        let _ = self.disk.scribble(&path, &bytes);
    }

    /// Reads the records as they are.
    ///
    /// # Errors
    ///
    /// When they cannot be read at all.
    pub(crate) fn records(&self) -> Result<Records, Broken> {
        Records::read(&self.disk, &state_dir(), &mut self.known_lines.borrow_mut())
    }
}

/// Checks what must hold when a process is started, even if the power went at this moment.
fn check_spawn(disk: &SimDisk, spec: &CommandSpec) -> Result<(), Broken> {
    let durable = document(&disk.durable(), &state_dir())?;
    let named = spec
        .marker
        .split_once('/')
        .and_then(|(_, named)| named.split_once('/'));
    let (run, codon) = named.ok_or("the marker names no codon")?;
    check_open(&durable, run, codon)?;
    if !spec.program.ends_with("agent") {
        return Ok(());
    }
    if disk.refused_watched() {
        return Err(format!(
            "P5: an agent of {codon} was started after the disk had refused the log"
        ));
    }
    let files = disk.tree(Path::new(WORK), ".hankweave");
    check_outputs(&durable, Path::new(WORK), &files)
}

pub(crate) fn state_dir() -> PathBuf {
    Path::new(WORK).join(".hankweave")
}
