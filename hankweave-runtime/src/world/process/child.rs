//! Child processes of the operating system: start, signals, end, and the sweep of what they leave. The parts are in the
//! modules next to this one.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_core::agent::ProcessExit;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::activity::family_use;
use super::launch::command;
use super::suspend::until_continued;
use super::sweep::{self, ProcessSet, SweepDepth, SweepScan};
use super::table::start_time;
use super::{CommandSpec, FamilyUse, GroupSignal, ProcessControl, SpawnedProcess, Spawner, Stdin, Sweep};
use crate::world::environment::Environment;
use crate::world::system::{self, ChildEnd};

/// Starts real processes.
#[derive(Debug, Clone, Default)]
pub struct ChildSpawner {
    /// Whether this process is the parent of its orphans, see [`adopting_orphans`](Self::adopting_orphans).
    adopts: bool,
}

/// Process ids of the children that spawners of this process have started and not reaped. If a spawner adopts orphans, all
/// other children of this process are orphans.
static CHILDREN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

pub(super) fn children() -> MutexGuard<'static, BTreeSet<i32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChildSpawner {
    /// A spawner that leaves the rest of this process alone, for a program that has children of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A spawner that makes this process the parent of descendants whose own parent has ended, and reaps them (S2). Only for a program that starts
    /// all its children with spawners, and has one run at a time.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn adopting_orphans() -> io::Result<Self> {
        let adopts = system::adopt_orphans()?;
        Ok(Self { adopts })
    }
}

impl Spawner for ChildSpawner {
    fn spawn(&self, spec: CommandSpec) -> io::Result<SpawnedProcess> {
        // If SIGCHLD is ignored, the system reaps our children itself, and we could not learn how they ended. A handler
        // prevents that. In other cases no handler is set: it would wake us up for each orphan of an agent that forks all
        // the time, and leave us no time to stop that agent.
        if Environment::of_process().ignores_signal(Signal::CHILD.as_raw()) {
            drop(signal(SignalKind::child())?);
        }
        let (mut child, leader) = start(&spec)?;
        let end = ChildEnd::of(leader)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = (stdout.expect("it is piped"), stderr.expect("it is piped"));
        system::widen(&stdout);
        let (stdin, writer) = match (stdin, spec.stdin) {
            (Some(stdin), Stdin::Bytes(bytes)) => {
                let feeding = tokio::spawn(feed(stdin, bytes));
                (None, Some(AbortOnDropHandle::new(feeding)))
            }
            (stdin, _) => (stdin, None),
        };
        let pid = leader.as_raw_nonzero().get().unsigned_abs();
        Ok(SpawnedProcess {
            pid,
            // 0 if the system does not report it.
            start_time: start_time(pid).unwrap_or_default(),
            stdin: stdin.map(|stdin| Box::pin(stdin) as _),
            stdout: Box::pin(stdout),
            stderr: Box::pin(stderr),
            control: Box::new(ChildControl {
                child,
                leader,
                end,
                marker: spec.marker,
                exit: None,
                writer,
                adopts: self.adopts,
                first_signal: OnceLock::new(),
            }),
        })
    }

    fn family_use(&self, pid: u32, marker: &str) -> Option<FamilyUse> {
        Some(family_use(i32::try_from(pid).ok()?, marker))
    }

    fn sweep<'a>(&'a self, marker: &'a str) -> BoxFuture<'a, Sweep> {
        Box::pin(sweep::sweep_marked(marker))
    }
}

/// Starts a child and notes it in one step, so that no sweep takes it for an orphan in between.
fn start(spec: &CommandSpec) -> io::Result<(Child, Pid)> {
    let mut command = command(spec);
    let mut children = until_continued(children());
    let child = command.spawn()?;
    let number = child.id().and_then(|id| i32::try_from(id).ok());
    let leader = number.and_then(Pid::from_raw).expect("it was not waited for");
    children.insert(leader.as_raw_nonzero().get());
    Ok((child, leader))
}

/// Waits until the child of this process that has the number `pid` at the call has ended. The number is not looked up again
/// when the future is awaited, because a later process may have it by then.
pub fn until_ended(pid: u32) -> impl Future<Output = ()> {
    let child = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let end = child.and_then(|child| ChildEnd::of(child).ok());
    async {
        if let Some(mut end) = end {
            // An error shows that the child was reaped.
            let _ = end.reached().await;
        }
    }
}

/// Interval at which ended orphans are reaped while a child works.
const REAPING: Duration = Duration::from_secs(1);

async fn feed(mut stdin: ChildStdin, bytes: Vec<u8>) {
    // A child that ends without reading everything breaks the pipe; the child's exit shows whether that matters.
    let _ = stdin.write_all(&bytes).await;
}

struct ChildControl {
    /// Reaped only when this value is dropped, where the system allows that. Until then no other process, group or session
    /// can get the number of the leader.
    child: Child,
    leader: Pid,
    end: ChildEnd,
    marker: String,
    exit: Option<ProcessExit>,
    /// The task that writes the bytes of [`Stdin::Bytes`].
    writer: Option<AbortOnDropHandle<()>>,
    adopts: bool,
    /// Time of the first signal to the group.
    first_signal: OnceLock<Instant>,
}

/// Time from the first signal to the end of the sweep (S3): a little less than the ten seconds of a whole stop.
const WHOLE_STOP: Duration = Duration::from_millis(9_500);

impl ProcessControl for ChildControl {
    fn wait(&mut self) -> BoxFuture<'_, io::Result<ProcessExit>> {
        Box::pin(async {
            if let Some(exit) = self.exit {
                return Ok(exit);
            }
            self.wait_for_end().await?;
            self.signal_group(GroupSignal::Kill)?;
            let exit = self.end.exit(&mut self.child)?;
            self.exit = Some(exit);
            // A descendant may still hold the other end of the pipe and not read it.
            self.writer = None;
            Ok(exit)
        })
    }

    fn signal_group(&self, signal: GroupSignal) -> io::Result<()> {
        if self.exit.is_some() {
            return Ok(());
        }
        self.first_signal.get_or_init(Instant::now);
        let signal = match signal {
            GroupSignal::Interrupt => Signal::INT,
            GroupSignal::Terminate => Signal::TERM,
            GroupSignal::Kill => Signal::KILL,
        };
        match kill_process_group(self.leader, signal) {
            // Only the ended leader is left in the group, and some systems report it as missing.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sweep(&mut self) -> BoxFuture<'_, Sweep> {
        Box::pin(sweep::sweep_all(self.time_to_sweep(), |depth| self.find(depth)))
    }
}

impl ChildControl {
    /// Waits until the child has ended; meanwhile reaps adopted orphans that have ended.
    async fn wait_for_end(&mut self) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                reached = self.end.reached() => return reached,
                () = sleep(REAPING), if self.adopts => sweep::reap_orphans(&children()),
            }
        }
    }

    /// Finds the processes that belong to this child and still exist.
    fn find(&self, depth: SweepDepth<'_>) -> SweepScan {
        let family = ProcessSet {
            marker: &self.marker,
            session: Some(self.leader.as_raw_nonzero().get()),
        };
        match (depth, self.adopts) {
            (SweepDepth::Everywhere, true) => family.find_with_orphans(&children()),
            (SweepDepth::Everywhere, false) => family.find(),
            (SweepDepth::HoldChildren(held), true) => sweep::hold_orphans(&children(), held),
            (SweepDepth::HoldChildren(_), false) => SweepScan::default(),
        }
    }

    /// Returns the time that is left for the sweep: less if the child took long to end, but at least [`sweep::DEADLINE`].
    fn time_to_sweep(&self) -> Duration {
        let since = self.first_signal.get().map(Instant::elapsed).unwrap_or_default();
        WHOLE_STOP.saturating_sub(since).max(sweep::DEADLINE)
    }
}

/// Kills the remaining processes. A child that has not ended by then is reaped by tokio, since a drop cannot wait.
impl Drop for ChildControl {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // There is no caller to report a failure to, and nothing else to try.
            let _ = self.signal_group(GroupSignal::Kill);
            self.find(SweepDepth::Everywhere).kill();
        }
        // An unreaped child stays in `CHILDREN`, so that no sweep takes it for an orphan.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            children().remove(&self.leader.as_raw_nonzero().get());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    // covers: S2
    #[tokio::test]
    async fn a_child_that_was_dropped_is_killed_and_reaped() {
        let spec = CommandSpec {
            program: "/bin/sleep".into(),
            args: vec!["600".into()],
            env: BTreeMap::new(),
            work_dir: "/".into(),
            stdin: Stdin::Closed,
            marker: format!("reaped {}", std::process::id()),
        };
        let process = ChildSpawner::new().spawn(spec).unwrap();
        let pid = Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap();
        drop(process);
        let left = || {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(pid), look)
        };
        while left().is_ok() {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(left().unwrap_err(), Errno::CHILD);
    }
}
