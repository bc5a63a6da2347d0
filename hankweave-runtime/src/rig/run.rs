//! Runs the items of a rig in order: copies and commands (HANK-20, HANK-22). A check, and the commands of `beforeCopy`, run as items of a rig of their own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::agent::{FailureKind, FailureReason, InterruptedBy, ProcessExit};
use hankweave_core::hank::{RigAction, RigItem, WorkingDirectory};
use hankweave_core::wire::RigStream;
use tokio_util::sync::CancellationToken;

use super::copy::{self, CopyError};
use super::target::{self, CopyTargetError};
use crate::world::World;
use crate::world::disk::{FileKind, parent};

/// Settings with which the items of one rig run.
#[derive(Debug)]
pub struct Rig {
    /// The world (disk, processes, clock) in which copies and commands run.
    pub world: World,
    /// The hank's folder: where copies come from.
    pub hank: PathBuf,
    /// The agent's workspace: where copies go and commands run.
    pub workspace: PathBuf,
    /// The complete environment of the commands; see [`child_environment`](crate::world::process::child_environment).
    pub env: BTreeMap<OsString, OsString>,
    /// Unique to this process tree; see [`CommandSpec::marker`](crate::world::process::CommandSpec::marker).
    pub marker: String,
    /// Longest time of one command.
    pub deadline: Duration,
    /// How long a command may take to end when it is asked to.
    pub grace: Duration,
    /// Whether every item may fail, even if the item itself may not.
    pub ignore_failures: bool,
    /// Cancelled to stop the running command, with its grace period, and start no further item.
    pub cancel: CancellationToken,
    /// Cancelled to end the grace period.
    pub force: CancellationToken,
}

/// Event of a running rig. `index` is the position of the item, counted from 0.
#[derive(Debug)]
#[non_exhaustive]
pub enum RigEvent {
    /// An item begins.
    Began {
        /// The item.
        index: usize,
    },
    /// A command printed a line, on standard output or standard error; invalid UTF-8 replaced.
    Output {
        /// The item.
        index: usize,
        /// Stream of the line.
        stream: RigStream,
        /// The line without its line break. It has at most 64 KiB; a longer one is reported in pieces.
        line: String,
    },
    /// A copy skipped this path, relative to the hank's folder.
    LeftOut(String),
    /// An item failed that may fail; the rig continues.
    FailureIgnored {
        /// The item.
        index: usize,
        /// Why it failed.
        failure: RigFailure,
    },
}

/// Why a rig did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RigError {
    /// A step failed.
    #[error("rig step {} failed", index + 1)]
    Step {
        /// The step, counted from 0.
        index: usize,
        /// Why.
        #[source]
        failure: RigFailure,
    },
    /// The rig was stopped.
    #[error("the rig was stopped in step {}", index + 1)]
    Cancelled {
        /// The step, counted from 0.
        index: usize,
    },
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RigFailure {
    /// A command ended with another code than 0 (kind `command_failed`).
    #[error("the command {exit}{}", said.as_ref().map(|line| format!(": {line}")).unwrap_or_default())]
    CommandFailed {
        /// How it ended.
        exit: ProcessExit,
        /// Its last line on standard error, else on standard output.
        said: Option<String>,
    },
    /// A command took too long (kind `timeout`).
    #[error("the command was stopped after {} s", deadline.as_secs())]
    Timeout {
        /// The time it had.
        deadline: Duration,
    },
    /// A command could not be started or waited for (kind `other`).
    #[error("failed to run the command")]
    Spawn(#[source] io::Error),
    /// A copy may not go where it should (kind `other`).
    #[error(transparent)]
    Target(#[from] CopyTargetError),
    /// A copy failed (kind `other`).
    #[error(transparent)]
    Copy(#[from] CopyError),
}

impl RigFailure {
    /// Returns the word for this failure in events (HANK-20).
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CommandFailed { .. } => "command_failed",
            Self::Timeout { .. } => "timeout",
            Self::Spawn(_) | Self::Target(_) | Self::Copy(_) => "other",
        }
    }

    /// Returns the exit code of a command that failed, or -1 if a signal ended it; `None` for other failures.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::CommandFailed {
                exit: ProcessExit::Exited(code),
                ..
            } => Some(*code),
            Self::CommandFailed {
                exit: ProcessExit::Signaled(_),
                ..
            } => Some(-1),
            Self::Timeout { .. } | Self::Spawn(_) | Self::Target(_) | Self::Copy(_) => None,
        }
    }
}

impl RigError {
    /// Returns the reason that the failed codon records: a timeout (S6), a stop, or else an unknown reason that is worth
    /// another attempt.
    #[must_use]
    pub fn reason(&self) -> FailureReason {
        match self {
            Self::Step {
                failure: failure @ RigFailure::Timeout { .. },
                ..
            } => FailureReason {
                kind: FailureKind::Timeout,
                ..FailureReason::unknown(true, format!("{self}: {failure}"))
            },
            Self::Step { failure, .. } => FailureReason::unknown(true, format!("{self}: {failure}")),
            Self::Cancelled { .. } => FailureReason::interrupted(InterruptedBy::Stop, self.to_string()),
        }
    }
}

/// Why one item did not finish.
pub(super) enum StepError {
    Failed(RigFailure),
    Cancelled,
}

impl<F: Into<RigFailure>> From<F> for StepError {
    fn from(failure: F) -> Self {
        Self::Failed(failure.into())
    }
}

impl Rig {
    /// The usual time of one command (S6).
    pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);

    /// Runs the items in order and passes events to `report`.
    ///
    /// # Errors
    ///
    /// Returns [`RigError`] with the item that failed or was stopped; later items have not run.
    pub async fn run<F: Future<Output = ()>>(
        &self,
        items: &[RigItem],
        report: impl Fn(RigEvent) -> F,
    ) -> Result<(), RigError> {
        // The folder for commands with `workingDirectory: lastCopied`; the workspace before the first copy.
        let mut last_copied = self.workspace.clone();
        for (index, item) in items.iter().enumerate() {
            if self.cancel.is_cancelled() {
                return Err(RigError::Cancelled { index });
            }
            report(RigEvent::Began { index }).await;
            match self.item(index, &item.action, &mut last_copied, &report).await {
                Ok(()) => {}
                Err(StepError::Failed(failure)) if item.allow_failure || self.ignore_failures => {
                    report(RigEvent::FailureIgnored { index, failure }).await;
                }
                Err(StepError::Failed(failure)) => return Err(RigError::Step { index, failure }),
                Err(StepError::Cancelled) => return Err(RigError::Cancelled { index }),
            }
        }
        Ok(())
    }

    async fn item<F: Future<Output = ()>>(
        &self,
        index: usize,
        action: &RigAction,
        last_copied: &mut PathBuf,
        report: &impl Fn(RigEvent) -> F,
    ) -> Result<(), StepError> {
        match action {
            RigAction::Copy { copy, replace } => {
                let left_out;
                (*last_copied, left_out) = self.copy(&copy.from, Path::new(&copy.to), *replace).await?;
                for path in left_out {
                    report(RigEvent::LeftOut(path)).await;
                }
                Ok(())
            }
            RigAction::Command { command } => {
                let folder = match command.working_directory {
                    WorkingDirectory::Project => &self.workspace,
                    WorkingDirectory::LastCopied => last_copied,
                };
                self.command(index, &command.run, folder, report).await
            }
        }
    }

    /// Copies on a blocking thread.
    ///
    /// Returns the folder in which a later command can run (the copied folder, or the folder around a copied file), and the paths that
    /// were left out.
    async fn copy(&self, from: &str, to: &Path, replace: bool) -> Result<(PathBuf, Vec<String>), RigFailure> {
        let (disk, hank, workspace) = (
            Arc::clone(&self.world.disk),
            self.hank.clone(),
            self.workspace.clone(),
        );
        let (from, to) = (from.to_owned(), to.to_owned());
        let copy = move || {
            let target = target::resolve(&*disk, &workspace, &to)?;
            let left_out = copy::copy(&*disk, &hank, &from, &target, replace)?;
            let is_folder = disk
                .metadata(&target.path)
                .is_ok_and(|found| found.kind == FileKind::Directory);
            let folder = match is_folder {
                true => target.path,
                false => parent(&target.path).to_owned(),
            };
            Ok((folder, left_out))
        };
        self.world.blocking.run(copy).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::future::BoxFuture;
    use hankweave_core::hank::{CopyStep, RigCommand};
    use tempfile::TempDir;
    use tokio::io::{AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::world::process::{CommandSpec, GroupSignal, ProcessControl, SpawnedProcess, Spawner, Sweep};

    struct Stage {
        _folder: TempDir,
        rig: Rig,
    }

    impl Stage {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("workspace")).unwrap();
            std::fs::create_dir(folder.path().join("template")).unwrap();
            std::fs::write(folder.path().join("template/a.txt"), "hello").unwrap();
            let rig = Rig {
                world: World::real(),
                hank: folder.path().to_owned(),
                workspace: folder.path().join("workspace"),
                env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
                marker: folder.path().to_string_lossy().into_owned(),
                deadline: Rig::DEFAULT_DEADLINE,
                grace: Duration::from_millis(50),
                ignore_failures: false,
                cancel: CancellationToken::new(),
                force: CancellationToken::new(),
            };
            Self { _folder: folder, rig }
        }

        async fn run(&self, items: &[RigItem]) -> (Result<(), RigError>, Vec<String>) {
            let lines = Mutex::new(Vec::new());
            let report = |event| {
                lines.lock().unwrap().push(match event {
                    RigEvent::Output { line, .. } => line,
                    RigEvent::FailureIgnored { failure, .. } => failure.to_string(),
                    RigEvent::LeftOut(path) => path,
                    RigEvent::Began { .. } => return std::future::ready(()),
                });
                std::future::ready(())
            };
            let outcome = self.rig.run(items, report).await;
            (outcome, lines.into_inner().unwrap())
        }
    }

    fn copy() -> RigItem {
        let copy = CopyStep {
            from: "template".to_owned(),
            to: "copied".to_owned(),
        };
        RigItem {
            action: RigAction::Copy { copy, replace: false },
            allow_failure: false,
        }
    }

    fn command(run: &str, working_directory: WorkingDirectory, allow_failure: bool) -> RigItem {
        let command = RigCommand {
            run: run.to_owned(),
            working_directory,
        };
        RigItem {
            action: RigAction::Command { command },
            allow_failure,
        }
    }

    // covers: HANK-20
    #[tokio::test]
    async fn steps_run_in_order_and_a_command_may_run_where_the_last_copy_went() {
        let stage = Stage::new();
        let steps = [
            command("ls", WorkingDirectory::LastCopied, false),
            copy(),
            command(
                "cat a.txt; echo; echo oops >&2; exit 3",
                WorkingDirectory::LastCopied,
                true,
            ),
            command("ls", WorkingDirectory::Project, false),
        ];
        let (outcome, mut lines) = stage.run(&steps).await;
        outcome.unwrap();
        // Standard output and standard error are two pipes, so the order between them is not fixed.
        lines.sort();
        assert_eq!(
            lines,
            ["copied", "hello", "oops", "the command exited with code 3: oops"]
        );
    }

    // covers: HANK-20
    #[tokio::test]
    async fn a_failed_command_ends_the_rig() {
        let stage = Stage::new();
        let steps = [
            command("exit 7", WorkingDirectory::Project, false),
            command("touch later", WorkingDirectory::Project, false),
        ];
        let error = stage.run(&steps).await.0.unwrap_err();
        let RigError::Step { index: 0, failure } = &error else {
            panic!("{error}")
        };
        assert_eq!((failure.kind(), failure.exit_code()), ("command_failed", Some(7)));
        assert_eq!(
            error.reason(),
            FailureReason::unknown(true, "rig step 1 failed: the command exited with code 7")
        );
        assert!(!stage.rig.workspace.join("later").exists());
    }

    // covers: S6
    #[tokio::test]
    async fn a_command_that_takes_too_long_is_stopped_with_its_children() {
        let mut stage = Stage::new();
        stage.rig.deadline = Duration::from_millis(100);
        let steps = [command(
            "trap '' TERM; sleep 1000 & sleep 1000",
            WorkingDirectory::Project,
            false,
        )];
        let error = stage.run(&steps).await.0.unwrap_err();
        assert_eq!(error.reason().kind, FailureKind::Timeout);
        let RigError::Step { failure, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(failure.kind(), "timeout");
    }

    #[tokio::test]
    async fn a_stopped_rig_ends_its_command_and_begins_nothing_more() {
        let stage = Stage::new();
        let steps = [
            command("echo up; sleep 1000", WorkingDirectory::Project, true),
            copy(),
        ];
        let stop_when_up = |event| {
            if matches!(event, RigEvent::Output { line, .. } if line == "up") {
                stage.rig.cancel.cancel();
            }
            std::future::ready(())
        };
        let outcome = stage.rig.run(&steps, stop_when_up).await;
        assert!(matches!(outcome, Err(RigError::Cancelled { index: 0 })));
        assert!(!stage.rig.workspace.join("copied").exists());
    }

    /// A command that ends at once, while another process still holds its output.
    #[derive(Debug)]
    struct Ended(Mutex<Option<DuplexStream>>);

    impl Spawner for Ended {
        fn spawn(&self, _: CommandSpec) -> io::Result<SpawnedProcess> {
            Ok(SpawnedProcess {
                pid: 0,
                start_time: 0,
                stdin: None,
                stdout: Box::pin(self.0.lock().unwrap().take().unwrap()),
                stderr: Box::pin(tokio::io::empty()),
                control: Box::new(Self(Mutex::default())),
            })
        }

        fn sweep<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Sweep> {
            Box::pin(std::future::ready(Sweep::default()))
        }
    }

    impl ProcessControl for Ended {
        fn wait(&mut self) -> BoxFuture<'_, io::Result<ProcessExit>> {
            Box::pin(std::future::ready(Ok(ProcessExit::Exited(0))))
        }

        fn signal_group(&self, _: GroupSignal) -> io::Result<()> {
            Ok(())
        }

        fn sweep(&mut self) -> BoxFuture<'_, Sweep> {
            Box::pin(std::future::ready(Sweep::default()))
        }
    }

    // covers: HANK-20
    #[tokio::test(start_paused = true)]
    async fn a_slow_listener_gets_every_line_and_a_pipe_that_stays_open_is_left() {
        let (mut held, output) = tokio::io::duplex(1 << 10);
        held.write_all(b"1\n2\n3\n").await.unwrap();
        let mut stage = Stage::new();
        stage.rig.world.spawner = Arc::new(Ended(Mutex::new(Some(output))));
        let lines = Mutex::new(Vec::new());
        let report = async |event| {
            if let RigEvent::Output { line, .. } = event {
                tokio::time::sleep(Duration::from_secs(1)).await;
                lines.lock().unwrap().push(line);
            }
        };
        let begun = tokio::time::Instant::now();
        let items = [command("any", WorkingDirectory::Project, false)];
        stage.rig.run(&items, &report).await.unwrap();
        assert_eq!(*lines.lock().unwrap(), ["1", "2", "3"]);
        assert!(begun.elapsed() < Duration::from_secs(4));
        drop(held);
    }
}
