//! Processes of the operating system.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_core::agent::ProcessExit;
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process_group, set_child_subreaper, waitid,
};
use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::launch::{Launched, launch};
use super::sweep::{self, Look, Sought};
use super::{CommandSpec, GroupSignal, ProcessControl, SpawnedProcess, Spawner, Stdin, Sweep};

/// Starts real processes.
#[derive(Debug, Clone, Default)]
pub struct ChildSpawner {
    orphans: Option<Arc<Adoption>>,
}

/// The children somebody waits for; all other children are adopted orphans.
#[derive(Debug, Default)]
struct Adoption {
    owned: Mutex<BTreeSet<i32>>,
}

impl ChildSpawner {
    /// A spawner that leaves the rest of this process alone, for a program that has children of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A spawner that makes this process the parent of descendants whose own parent has ended, and reaps them (S2).
    /// Only for a program that starts all its children with it.
    ///
    /// # Errors
    ///
    /// Returns what the operating system said.
    pub fn adopting_orphans() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self {
            orphans: Some(Arc::default()),
        })
    }
}

impl Spawner for ChildSpawner {
    fn spawn(&self, spec: CommandSpec) -> io::Result<SpawnedProcess> {
        // With a handler children that end wait for us, also where whoever started us ignores them.
        drop(signal(SignalKind::child())?);
        unreaped::reap();
        let launched = match &self.orphans {
            None => launch(&spec)?,
            Some(adoption) => adoption.launch(&spec)?,
        };
        // From here on whatever fails ends it.
        let mut control = Box::new(ChildControl {
            group: launched.pid,
            ended: None,
            marker: spec.marker,
            exit: None,
            writer: None,
            adoption: self.orphans.clone(),
            asked: OnceLock::new(),
        });
        control.ended = Some(watch(launched.pidfd)?);
        // Less is what the system gives to users with many pipes, and it does.
        let _ = fcntl_setpipe_size(&launched.stdout, PIPE_BYTES);
        if let (Some(stdin), Stdin::Bytes(bytes)) = (launched.stdin, spec.stdin) {
            let stdin = pipe::Sender::from_owned_fd(stdin)?;
            control.writer = Some(AbortOnDropHandle::new(tokio::spawn(feed(stdin, bytes))));
        }
        let pid = launched.pid.as_raw_nonzero().get().unsigned_abs();
        Ok(SpawnedProcess {
            pid,
            start_time: sweep::start_time(pid).unwrap_or_default(),
            stdout: Box::pin(pipe::Receiver::from_owned_fd(launched.stdout)?),
            stderr: Box::pin(pipe::Receiver::from_owned_fd(launched.stderr)?),
            control,
        })
    }

    fn sweep<'a>(&'a self, marker: &'a str) -> BoxFuture<'a, Sweep> {
        Box::pin(sweep::sweep_marked(marker))
    }
}

impl Adoption {
    /// Starts a child and notes it in one step, so that nobody takes it for an orphan in between.
    fn launch(&self, spec: &CommandSpec) -> io::Result<Launched> {
        let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        let launched = launch(spec)?;
        owned.insert(launched.pid.as_raw_nonzero().get());
        Ok(launched)
    }

    fn forget(&self, pid: Pid) {
        let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        owned.remove(&pid.as_raw_nonzero().get());
    }

    /// What a sweep for `marker` has to do now.
    fn find(&self, marker: &str, look: Look<'_>) -> Sought {
        let owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        match look {
            Look::Everywhere => sweep::family_and_orphans(marker, &owned),
            Look::HoldChildren(held) => sweep::hold_orphans(&owned, held),
        }
    }
}

/// How far ahead of us a child may write: one that says much at once is not woken up for every 64 KiB of it.
const PIPE_BYTES: usize = 1 << 20;

/// Becomes readable when the process of a pidfd ends.
fn watch(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(
        deprecated,
        reason = "the replacement is unsafe; an owned descriptor is what it asks for"
    )]
    AsyncFd::new(pidfd)
}

async fn feed(mut stdin: pipe::Sender, bytes: Vec<u8>) {
    // A child that ends without reading everything breaks the pipe; how the child ends tells whether that matters.
    let _ = stdin.write_all(&bytes).await;
}

struct ChildControl {
    group: Pid,
    /// Readable once the child has ended, even before it is reaped; `None` only until it is watched.
    ended: Option<AsyncFd<OwnedFd>>,
    marker: String,
    exit: Option<ProcessExit>,
    writer: Option<AbortOnDropHandle<()>>,
    adoption: Option<Arc<Adoption>>,
    /// When it was told to end.
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
            let ended = self
                .ended
                .as_ref()
                .expect("a child that was given out is watched");
            drop(ended.readable().await?);
            self.signal_group(GroupSignal::Kill)?;
            // It has ended, so this does not wait.
            let status = waitid(WaitId::PidFd(ended.get_ref().as_fd()), WaitIdOptions::EXITED)?;
            let exit = process_exit(&status.expect("whoever may wait gets an answer"));
            self.exit = Some(exit);
            self.forget();
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
        match kill_process_group(self.group, signal) {
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
    /// What is left of this child now.
    fn find(&self, look: Look<'_>) -> Sought {
        match (&self.adoption, look) {
            (Some(adoption), look) => adoption.find(&self.marker, look),
            (None, Look::Everywhere) => sweep::family(&self.marker),
            (None, Look::HoldChildren(_)) => Sought::default(),
        }
    }

    /// What is left of the time of a whole stop, which is short where the child took long to end.
    fn time_to_sweep(&self) -> Duration {
        let since = self.asked.get().map(Instant::elapsed).unwrap_or_default();
        WHOLE_STOP.saturating_sub(since).max(sweep::DEADLINE)
    }

    fn forget(&self) {
        if let Some(adoption) = &self.adoption {
            adoption.forget(self.group);
        }
    }
}

/// Kills everything that is left. The child is reaped by whoever comes next, since nobody can wait here.
impl Drop for ChildControl {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // Nobody is left to be told, and there is nothing else to try.
            let _ = self.signal_group(GroupSignal::Kill);
            self.find(Look::Everywhere).kill();
            self.forget();
            if let Some(ended) = self.ended.take() {
                unreaped::add(ended.into_inner());
            }
        }
    }
}

/// Children that were killed when nobody could wait for their end.
mod unreaped {
    use super::{AsFd, Mutex, OwnedFd, PoisonError, WaitId, WaitIdOptions, waitid};

    static CHILDREN: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

    /// One more, by its pidfd. Those that have ended by now are reaped.
    pub(super) fn add(child: OwnedFd) {
        CHILDREN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(child);
        reap();
    }

    /// Reaps those that have ended. One of which the system knows nothing was reaped as an orphan.
    pub(super) fn reap() {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let mut children = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|child| matches!(waitid(WaitId::PidFd(child.as_fd()), ended), Ok(None)));
    }
}

fn process_exit(status: &WaitIdStatus) -> ProcessExit {
    match status.exit_status() {
        Some(code) => ProcessExit::Exited(code),
        None => ProcessExit::Signaled(status.terminating_signal().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rustix::process::{PidfdFlags, pidfd_open};

    use super::*;

    fn spawn(program: &str, argument: &str) -> SpawnedProcess {
        let spec = CommandSpec {
            program: program.into(),
            args: vec![argument.into()],
            env: BTreeMap::new(),
            work_dir: "/".into(),
            stdin: Stdin::Closed,
            marker: format!("reaped {}", std::process::id()),
        };
        ChildSpawner::new().spawn(spec).unwrap()
    }

    // covers: S2
    #[tokio::test]
    async fn a_child_that_was_dropped_is_killed_and_reaped_by_the_next_one() {
        let dropped = spawn("sleep", "600");
        let pid = Pid::from_raw(i32::try_from(dropped.pid).unwrap()).unwrap();
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        drop(dropped);
        // Another test may have reaped it already.
        let ended = waitid(
            WaitId::PidFd(pidfd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        );
        assert!(matches!(ended, Ok(Some(_)) | Err(Errno::CHILD)), "{ended:?}");
        let mut next = spawn("true", "");
        assert_eq!(next.control.wait().await.unwrap(), ProcessExit::Exited(0));
        let left = waitid(
            WaitId::PidFd(pidfd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        );
        assert!(matches!(left, Err(Errno::CHILD)), "{left:?}");
    }
}
