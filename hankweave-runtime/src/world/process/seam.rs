//! The seam between the runtime and the operating system's processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use futures_util::future::BoxFuture;
use hankweave_core::agent::ProcessExit;
use hankweave_core::id::{CodonId, RunId};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{FamilyUse, Sweep};
use crate::world::disk::Disk;

/// The environment variable that carries [`CommandSpec::marker`].
pub const MARKER_VARIABLE: &str = "HANKWEAVE_CODON";

/// Variable with the iteration of the loop, counted from 0, for the agent and the commands of a codon.
pub const ITERATION_VARIABLE: &str = "HANKWEAVE_ITERATION";

/// Returns the marker of the processes of a codon that works in this directory. A copy of the directory has equal runs,
/// and must not end the agents of the original. A directory that was moved keeps its marker (L4).
pub(crate) fn marker(disk: &dyn Disk, directory: &Path, run: &RunId, codon: &CodonId) -> String {
    let found = disk.metadata_followed(directory);
    let (device, number) = found.map_or_else(|_| (0, 0), |directory| directory.identity);
    format!("{device}:{number}/{run}/{codon}")
}

/// The marker of processes that belong to the user and not to the run, such as the browser: no sweep of adopted orphans ends them.
pub const SPARED_MARKER: &str = "browser";

/// Starts processes.
pub trait Spawner: Send + Sync + fmt::Debug {
    /// Starts one process in a session of its own. Must be called inside a tokio runtime, on a thread that lives as long as the child
    /// may: the system may end the child with the thread that started it.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, such as [`io::ErrorKind::NotFound`] for a missing program or folder.
    fn spawn(&self, spec: CommandSpec) -> io::Result<SpawnedProcess>;

    /// Samples the activity of the family of the agent `pid`, whose processes carry `marker`; `None` if the spawner cannot.
    /// Reads the process table, so it may take a moment.
    fn family_use(&self, pid: u32, marker: &str) -> Option<FamilyUse> {
        let _ = (pid, marker);
        None
    }

    /// Kills processes that carry `marker`, with their descendants: the agents that a crashed server left running.
    fn sweep<'a>(&'a self, marker: &'a str) -> BoxFuture<'a, Sweep>;
}

/// Command to start.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// Path of the program.
    pub program: PathBuf,
    /// Its arguments, without the program's name; no shell reads them.
    pub args: Vec<OsString>,
    /// The whole environment; nothing is inherited. See [`child_environment`](super::child_environment).
    pub env: BTreeMap<OsString, OsString>,
    /// The folder in which it runs.
    pub work_dir: PathBuf,
    /// Standard input.
    pub stdin: Stdin,
    /// Text that no other process tree has; every descendant that keeps its environment can be found by it.
    pub marker: String,
}

/// The standard input of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing to read.
    Closed,
    /// These bytes and then the end. A child that does not read them to the end is no error.
    Bytes(Vec<u8>),
    /// Open until [`SpawnedProcess::stdin`] is dropped: for a child that takes messages. Other children would wait for its end.
    Open,
}

/// A process that was started. Dropping it kills the process and what it started.
pub struct SpawnedProcess {
    /// The process id, which is also the id of its group.
    pub pid: u32,
    /// Start of the process, in the unit of [`Identity::start_ticks`](crate::world::identity::Identity::start_ticks): together
    /// with `pid` it names this process for good.
    pub start_time: u64,
    /// Its standard input, if it is [open](Stdin::Open).
    pub stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// Its standard output.
    pub stdout: Pin<Box<dyn AsyncRead + Send>>,
    /// Its standard error.
    pub stderr: Pin<Box<dyn AsyncRead + Send>>,
    /// Handle to wait for the process, signal it and sweep its descendants.
    pub control: Box<dyn ProcessControl>,
}

impl fmt::Debug for SpawnedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnedProcess")
            .field("pid", &self.pid)
            .field("start_time", &self.start_time)
            .finish_non_exhaustive()
    }
}

/// A signal to a whole process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSignal {
    /// SIGINT: asks to end, as the interrupt key does.
    Interrupt,
    /// SIGTERM: asks to end.
    Terminate,
    /// SIGKILL: ends without asking.
    Kill,
}

/// The handle to a running process and its group.
pub trait ProcessControl: Send {
    /// Waits until the process has ended, kills what is left of its group, and then reaps it; in this order, because
    /// the group id may be used again as soon as the process is reaped. Repeated calls return an equal result.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a later call continues waiting.
    fn wait(&mut self) -> BoxFuture<'_, io::Result<ProcessExit>>;

    /// Signals the whole group. Does nothing after the process was reaped.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn signal_group(&self, signal: GroupSignal) -> io::Result<()>;

    /// Kills and reaps the remaining descendants, also those outside the group. Takes at most 2.5 seconds, or the rest of
    /// the ten seconds of a whole stop.
    fn sweep(&mut self) -> BoxFuture<'_, Sweep>;
}
