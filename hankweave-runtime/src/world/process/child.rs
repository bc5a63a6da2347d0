//! Processes of the operating system.

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
    adopts: bool,
}

/// The children that a spawner of this process waits for. Where one adopts orphans, all other children are orphans.
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
        // With a handler, children that end wait for us, even if the process that started us ignores them. Otherwise it
        // would only wake us up for each orphan of an agent that forks all the time, and leave us no time to stop that
        // agent.
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
                asked: OnceLock::new(),
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

/// Waits until a child of this process has ended: the one that has the number now, which a later one may have when this is awaited.
pub fn until_ended(pid: u32) -> impl Future<Output = ()> {
    let child = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let end = child.and_then(|child| ChildEnd::of(child).ok());
    async {
        if let Some(mut end) = end {
            // Who cannot be watched any more is reaped.
            let _ = end.reached().await;
        }
    }
}

/// How often orphans that have ended are reaped while a child works.
const REAPING: Duration = Duration::from_secs(1);

async fn feed(mut stdin: ChildStdin, bytes: Vec<u8>) {
    // A child that ends without reading everything breaks the pipe; the child's exit shows whether that matters.
    let _ = stdin.write_all(&bytes).await;
}

struct ChildControl {
    /// Reaped when this is dropped and not before, where the system lets us: until then the number of the leader means its group and its session, and nothing else.
    child: Child,
    leader: Pid,
    end: ChildEnd,
    marker: String,
    exit: Option<ProcessExit>,
    writer: Option<AbortOnDropHandle<()>>,
    adopts: bool,
    /// When it was asked to end.
    asked: OnceLock<Instant>,
}

/// From the first signal to the end of the sweep (S3), with a little left for the rest.
const WHOLE_STOP: Duration = Duration::from_millis(9_500);

impl ProcessControl for ChildControl {
    fn wait(&mut self) -> BoxFuture<'_, io::Result<ProcessExit>> {
        Box::pin(async {
            if let Some(exit) = self.exit {
                return Ok(exit);
            }
            self.until_it_has_ended().await?;
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
        self.asked.get_or_init(Instant::now);
        let signal = match signal {
            GroupSignal::Interrupt => Signal::INT,
            GroupSignal::Terminate => Signal::TERM,
            GroupSignal::Kill => Signal::KILL,
        };
        match kill_process_group(self.leader, signal) {
            // Nothing but the ended leader is left, and some systems do not count it.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sweep(&mut self) -> BoxFuture<'_, Sweep> {
        Box::pin(sweep::sweep_all(self.time_to_sweep(), |look| self.find(look)))
    }
}

impl ChildControl {
    /// Reaps meanwhile what has become a child of ours and ended.
    async fn until_it_has_ended(&mut self) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                reached = self.end.reached() => return reached,
                () = sleep(REAPING), if self.adopts => sweep::reap_orphans(&children()),
            }
        }
    }

    /// Returns the remains of this child now.
    fn find(&self, look: SweepDepth<'_>) -> SweepScan {
        let family = ProcessSet {
            marker: &self.marker,
            session: Some(self.leader.as_raw_nonzero().get()),
        };
        match (look, self.adopts) {
            (SweepDepth::Everywhere, true) => family.find_with_orphans(&children()),
            (SweepDepth::Everywhere, false) => family.find(),
            (SweepDepth::HoldChildren(held), true) => sweep::hold_orphans(&children(), held),
            (SweepDepth::HoldChildren(_), false) => SweepScan::default(),
        }
    }

    /// Returns the remaining time of a whole stop, which is short where the child took long to end.
    fn time_to_sweep(&self) -> Duration {
        let since = self.asked.get().map(Instant::elapsed).unwrap_or_default();
        WHOLE_STOP.saturating_sub(since).max(sweep::DEADLINE)
    }
}

/// Kills everything that is left. A child that has not ended by then is reaped by tokio, since a drop cannot wait.
impl Drop for ChildControl {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // There is no caller to report a failure to, and nothing else to try.
            let _ = self.signal_group(GroupSignal::Kill);
            self.find(SweepDepth::Everywhere).kill();
        }
        // Its number stays noted as long as it may still be reaped.
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
