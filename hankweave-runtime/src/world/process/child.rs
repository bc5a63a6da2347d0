//! Processes of the operating system.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use hankweave_core::agent::ProcessExit;
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open, set_child_subreaper};
use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::task::AbortOnDropHandle;

use super::sweep::{self, Sought};
use super::{
    CommandSpec, GroupSignal, MARKER_VARIABLE, ProcessControl, SpawnedProcess, Spawner, Stdin, Sweep, launch,
};

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

    /// A spawner that makes this process the parent of descendants whose own parent has ended, and reaps them
    /// ("reliability and security", rule S2). Only for a program that starts all its children with it.
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
        let mut command = command(&spec);
        let mut child = match &self.orphans {
            None => command.spawn()?,
            Some(adoption) => adoption.spawn(&mut command)?,
        };
        let pid = child.id().expect("a child that was not waited for has an id");
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let group = group.expect("the id of a child is positive");
        let stdout = Box::pin(child.stdout.take().expect("standard output is piped"));
        // Less is what the system gives to users with many pipes, and it does.
        let _ = fcntl_setpipe_size(&*stdout, PIPE_BYTES);
        let stderr = Box::pin(child.stderr.take().expect("standard error is piped"));
        let stdin = child.stdin.take();
        let mut control = Box::new(ChildControl {
            ended: watch(group)?,
            child,
            group,
            marker: spec.marker,
            exit: None,
            writer: None,
            adoption: self.orphans.clone(),
        });
        if let (Some(stdin), Stdin::Bytes(bytes)) = (stdin, spec.stdin) {
            control.writer = Some(AbortOnDropHandle::new(tokio::spawn(feed(stdin, bytes))));
        }
        Ok(SpawnedProcess {
            pid,
            start_time: sweep::start_time(pid).unwrap_or_default(),
            stdout,
            stderr,
            control,
        })
    }

    fn sweep<'a>(&'a self, marker: &'a str) -> BoxFuture<'a, Sweep> {
        Box::pin(sweep::sweep_marked(marker))
    }
}

impl Adoption {
    /// Starts a child and notes it in one step, so that nobody takes it for an orphan in between.
    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        owned.extend(child.id().and_then(|pid| i32::try_from(pid).ok()));
        Ok(child)
    }

    fn forget(&self, pid: Pid) {
        let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        owned.remove(&pid.as_raw_nonzero().get());
    }

    /// What a sweep for `marker` has to do now.
    fn find(&self, marker: &str) -> Sought {
        let owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        sweep::family_and_orphans(marker, &owned)
    }
}

fn command(spec: &CommandSpec) -> Command {
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(&spec.env)
        .env(MARKER_VARIABLE, &spec.marker)
        .current_dir(&spec.work_dir)
        .stdin(match spec.stdin {
            Stdin::Closed => Stdio::null(),
            Stdin::Bytes(_) => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    launch::prepare(&mut command);
    command
}

/// How far ahead of us a child may write: one that says much at once is not woken up for every 64 KiB of it.
const PIPE_BYTES: usize = 1 << 20;

/// A descriptor that becomes readable when `pid` ends.
fn watch(pid: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    #[expect(
        deprecated,
        reason = "the replacement is unsafe; an owned descriptor is what it asks for"
    )]
    AsyncFd::new(pidfd)
}

async fn feed(mut stdin: ChildStdin, bytes: Vec<u8>) {
    // A child that ends without reading everything breaks the pipe; how the child ends tells whether that matters.
    let _ = stdin.write_all(&bytes).await;
    let _ = stdin.shutdown().await;
}

struct ChildControl {
    child: Child,
    group: Pid,
    /// Readable once the child has ended, even before it is reaped.
    ended: AsyncFd<OwnedFd>,
    marker: String,
    exit: Option<ProcessExit>,
    writer: Option<AbortOnDropHandle<()>>,
    adoption: Option<Arc<Adoption>>,
}

impl ProcessControl for ChildControl {
    fn wait(&mut self) -> BoxFuture<'_, io::Result<ProcessExit>> {
        Box::pin(async {
            if let Some(exit) = self.exit {
                return Ok(exit);
            }
            drop(self.ended.readable().await?);
            self.signal_group(GroupSignal::Kill)?;
            let exit = process_exit(self.child.wait().await?);
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
        let signal = match signal {
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
        Box::pin(sweep::sweep_all(|| self.find()))
    }
}

impl ChildControl {
    /// What is left of this child now.
    fn find(&self) -> Sought {
        match &self.adoption {
            None => sweep::family(&self.marker),
            Some(adoption) => adoption.find(&self.marker),
        }
    }

    fn forget(&self) {
        if let Some(adoption) = &self.adoption {
            adoption.forget(self.group);
        }
    }
}

/// Kills everything that is left; tokio reaps the child itself.
impl Drop for ChildControl {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // Nobody is left to be told, and there is nothing else to try.
            let _ = self.signal_group(GroupSignal::Kill);
            self.find().kill();
            self.forget();
        }
    }
}

fn process_exit(status: ExitStatus) -> ProcessExit {
    match status.code() {
        Some(code) => ProcessExit::Exited(code),
        None => ProcessExit::Signaled(status.signal().unwrap_or_default()),
    }
}
