//! Processes that play a script.
//!
//! They belong to the simulated machine, not to the runtime: if that is killed they live on, as in the real world, until they are
//! ended or the power goes.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::ProcessExit;
use hankweave_runtime::world::process::{
    CommandSpec, GroupSignal, ProcessControl, SpawnedProcess, Spawner, Sweep,
};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::AbortHandle;

use crate::agents::{Child, Fate, Script, Step, Task, output_of, script};
use crate::disk::{Content, SimDisk};
use crate::rng::Rng;

/// Capacity of a pipe.
const PIPE_BYTES: usize = 64 << 10;

const INT: i32 = 2;
const TERM: i32 = 15;
const KILL: i32 = 9;

/// The processes of the simulated machine.
#[derive(Debug, Clone)]
pub(crate) struct Processes(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    processes: BTreeMap<u32, Process>,
    next_pid: u32,
    rng: Rng,
    /// Processes started so far.
    started: u64,
    /// Number of processes after which all are tame.
    wild: u64,
    /// Fates of the agents of these codons.
    fates: BTreeMap<String, Fate>,
    disk: SimDisk,
}

#[derive(Debug)]
struct Process {
    group: u32,
    marker: String,
    ignores_term: bool,
    exit: watch::Sender<Option<ProcessExit>>,
    /// Task that plays the script; `None` if its tokio runtime no longer exists.
    player: Option<AbortHandle>,
}

impl Process {
    fn is_alive(&self) -> bool {
        self.exit.borrow().is_none()
    }

    fn end(&mut self, exit: ProcessExit) {
        if !self.is_alive() {
            return;
        }
        self.exit.send_replace(Some(exit));
        if let Some(player) = self.player.take() {
            player.abort();
        }
    }
}

impl Processes {
    /// No process yet. They write to `disk`; after the first `wild` ones they do nothing but what they should.
    pub(crate) fn new(disk: SimDisk, wild: u64, rng: Rng) -> Self {
        Self(Arc::new(Mutex::new(Table {
            processes: BTreeMap::new(),
            next_pid: 100,
            rng,
            started: 0,
            wild,
            fates: BTreeMap::new(),
            disk,
        })))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a pid that was never used.
    pub(crate) fn new_pid(&self) -> u32 {
        self.table().take_pid()
    }

    pub(crate) fn is_alive(&self, pid: u32) -> bool {
        self.table().processes.get(&pid).is_some_and(Process::is_alive)
    }

    /// Returns the markers of the living processes.
    pub(crate) fn alive(&self) -> Vec<String> {
        let table = self.table();
        let alive = table.processes.values().filter(|process| process.is_alive());
        alive.map(|process| process.marker.clone()).collect()
    }

    /// Makes all processes behave well from now on.
    pub(crate) fn tame(&self) {
        self.table().wild = 0;
    }

    /// Gives every agent of this codon this fate from now on.
    pub(crate) fn doom(&self, codon: &str, fate: Fate) {
        self.table().fates.insert(codon.to_owned(), fate);
    }

    /// From now on the agents of this codon do their work.
    pub(crate) fn pardon(&self, codon: &str) {
        self.table().fates.remove(codon);
    }

    /// The power goes.
    pub(crate) fn end_all(&self) {
        for process in self.table().processes.values_mut() {
            process.end(ProcessExit::Signaled(KILL));
        }
    }

    /// Ends the tasks that play the scripts, since the runtime was killed. The processes themselves live on and print
    /// nothing more.
    pub(crate) fn lose_players(&self) {
        for process in self.table().processes.values_mut() {
            process.player = None;
        }
    }

    fn end(&self, pid: u32, exit: ProcessExit) {
        if let Some(process) = self.table().processes.get_mut(&pid) {
            process.end(exit);
        }
    }

    /// Kills the processes for which `doomed` is true, and returns their number.
    fn kill(&self, doomed: impl Fn(&Process) -> bool) -> usize {
        let mut table = self.table();
        let doomed = table
            .processes
            .values_mut()
            .filter(|process| process.is_alive() && doomed(process));
        doomed
            .map(|process| process.end(ProcessExit::Signaled(KILL)))
            .count()
    }

    fn add(&self, marker: &str, group: Option<u32>, ignores_term: bool) -> u32 {
        let mut table = self.table();
        let pid = table.take_pid();
        let process = Process {
            group: group.unwrap_or(pid),
            marker: marker.to_owned(),
            ignores_term,
            exit: watch::channel(None).0,
            player: None,
        };
        table.processes.insert(pid, process);
        pid
    }

    fn set_player(&self, pid: u32, player: AbortHandle) {
        if let Some(process) = self.table().processes.get_mut(&pid) {
            process.player = Some(player);
        }
    }

    fn exit_of(&self, pid: u32) -> watch::Receiver<Option<ProcessExit>> {
        let table = self.table();
        let process = table.processes.get(&pid).expect("processes stay in the table");
        process.exit.subscribe()
    }

    /// Starts a process of the runtime's life that `life` is the disk of.
    fn start(&self, spec: &CommandSpec, life: &SimDisk) -> SpawnedProcess {
        let script = self.table().script(spec);
        let pid = self.add(&spec.marker, None, script.ignores_term);
        let (output, stdout) = duplex(PIPE_BYTES);
        let player = Player {
            processes: self.clone(),
            pid,
            marker: spec.marker.clone(),
            output: Arc::new(AsyncMutex::new(output)),
        };
        self.set_player(pid, tokio::spawn(player.play(script)).abort_handle());
        SpawnedProcess {
            pid,
            start_time: u64::from(pid) * 10,
            stdin: None,
            stdout: Box::pin(stdout),
            stderr: Box::pin(tokio::io::empty()),
            control: Box::new(SimControl {
                processes: self.clone(),
                pid,
                marker: spec.marker.clone(),
                life: life.clone(),
            }),
        }
    }
}

impl Table {
    fn take_pid(&mut self) -> u32 {
        self.next_pid += 1;
        self.next_pid
    }

    fn script(&mut self, spec: &CommandSpec) -> Script {
        self.started += 1;
        let is_agent = spec.program.ends_with("agent");
        let codon = spec.marker.rsplit('/').next().filter(|_| is_agent);
        let own = codon.map(|codon| output_of(&spec.work_dir, codon).0);
        let tree = self.disk.tree(&spec.work_dir, ".hankweave");
        let outputs = tree
            .iter()
            .filter(|(_, content)| matches!(content, Content::File(_, bytes) if bytes.starts_with(b"what ")));
        let others: Vec<_> = outputs
            .map(|(path, _)| spec.work_dir.join(path))
            .filter(|path| Some(path) != own.as_ref())
            .collect();
        let task = Task {
            codon,
            args: &spec.args,
            work_dir: &spec.work_dir,
            others: &others,
        };
        let mut script = script(&task, self.started > self.wild, &mut self.rng);
        if let Some(fate) = codon.and_then(|codon| self.fates.get(codon)) {
            script.suffer(*fate);
        }
        script
    }
}

/// Plays the script of one process.
struct Player {
    processes: Processes,
    pid: u32,
    marker: String,
    output: Arc<AsyncMutex<DuplexStream>>,
}

impl Player {
    async fn play(self, script: Script) {
        for step in script.steps {
            match step {
                // The reader may have ended.
                Step::Print(bytes) => drop(self.output.lock().await.write_all(&bytes).await),
                Step::Pause(time) => tokio::time::sleep(time).await,
                Step::Write(path, content) => {
                    let disk = self.processes.table().disk.clone();
                    // A missing workspace is the runtime's affair.
                    let _ = disk.scribble(&path, &content);
                }
                Step::Fork(child) => self.fork(child),
                Step::Exit(code) => return self.end(ProcessExit::Exited(code)),
                Step::Fall(signal) => return self.end(ProcessExit::Signaled(signal)),
                Step::Hang => std::future::pending().await,
            }
        }
    }

    fn end(&self, exit: ProcessExit) {
        self.processes.end(self.pid, exit);
    }

    fn fork(&self, child: Child) {
        let group = (!child.own_group).then_some(self.pid);
        let pid = self.processes.add(&self.marker, group, true);
        let held = child.holds_output.then(|| Arc::clone(&self.output));
        let player = tokio::spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        self.processes.set_player(pid, player.abort_handle());
    }
}

#[derive(Debug)]
struct SimControl {
    processes: Processes,
    pid: u32,
    marker: String,
    life: SimDisk,
}

impl ProcessControl for SimControl {
    fn wait(&mut self) -> BoxFuture<'_, io::Result<ProcessExit>> {
        let mut exit = self.processes.exit_of(self.pid);
        async move {
            let exit = exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
            let exit = exit.ok_or_else(|| io::Error::other("no such process"))?;
            self.processes.kill(|process| process.group == self.pid);
            Ok(exit)
        }
        .boxed()
    }

    fn signal_group(&self, signal: GroupSignal) -> io::Result<()> {
        let mut table = self.processes.table();
        for process in table
            .processes
            .values_mut()
            .filter(|process| process.group == self.pid)
        {
            match signal {
                GroupSignal::Interrupt | GroupSignal::Terminate if process.ignores_term => {}
                GroupSignal::Interrupt => process.end(ProcessExit::Signaled(INT)),
                GroupSignal::Terminate => process.end(ProcessExit::Signaled(TERM)),
                GroupSignal::Kill => process.end(ProcessExit::Signaled(KILL)),
            }
        }
        Ok(())
    }

    fn sweep(&mut self) -> BoxFuture<'_, Sweep> {
        let killed = self.processes.kill(|process| process.marker == self.marker);
        ready(Sweep { killed, survivors: 0 }).boxed()
    }
}

impl Drop for SimControl {
    fn drop(&mut self) {
        // A runtime that was killed drops nothing.
        if !self.life.is_down() {
            self.processes.kill(|process| process.marker == self.marker);
        }
    }
}

/// Called with the marker of each process before it starts.
type OnSpawn = Arc<dyn Fn(&CommandSpec) + Send + Sync>;

/// The way of one life of the runtime to the processes.
pub(crate) struct SimSpawner {
    pub(crate) processes: Processes,
    pub(crate) life: SimDisk,
    pub(crate) on_spawn: OnSpawn,
}

impl std::fmt::Debug for SimSpawner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimSpawner")
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

impl Spawner for SimSpawner {
    fn spawn(&self, spec: CommandSpec) -> io::Result<SpawnedProcess> {
        if self.life.is_down() {
            return Err(io::Error::other("this life is over"));
        }
        (self.on_spawn)(&spec);
        let refuses = {
            let mut table = self.processes.table();
            table.started < table.wild && table.rng.one_in(40)
        };
        if refuses {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(self.processes.start(&spec, &self.life))
    }

    fn sweep<'a>(&'a self, marker: &'a str) -> BoxFuture<'a, Sweep> {
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let doomed = |process: &Process| process.marker == marker;
            let killed = if self.life.is_down() {
                0
            } else {
                self.processes.kill(doomed)
            };
            Sweep { killed, survivors: 0 }
        }
        .boxed()
    }
}
