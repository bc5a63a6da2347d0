//! Running a rig (HANK-20, HANK-22).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::agent::{FailureKind, FailureReason, InterruptedBy, ProcessExit};
use hankweave_core::wire::RigStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::command::{CommandEnd, CommandRunner};
use super::copy::{self, CopyError};
use super::target::{self, TargetError};
use super::{RigAction, RigStep, WorkingDirectory};
use crate::world::blocking::Blocking;
use crate::world::disk::{Disk, FileKind, parent};
use crate::world::process::Spawner;

/// Everything around the steps of one rig.
#[derive(Debug)]
pub struct Rig {
    /// Starts the commands.
    pub spawner: Arc<dyn Spawner>,
    /// Where copies read and write.
    pub disk: Arc<dyn Disk>,
    /// Where copies wait for the disk.
    pub blocking: Blocking,
    /// The hank's folder: where copies come from.
    pub hank: PathBuf,
    /// The agent's workspace: where copies go and commands run.
    pub workspace: PathBuf,
    /// The whole environment of the commands; see [`environment`](crate::world::process::environment).
    pub env: BTreeMap<OsString, OsString>,
    /// Text that no other process tree has; see [`CommandSpec::marker`](crate::world::process::CommandSpec::marker).
    pub marker: String,
    /// Longest time of one command.
    pub deadline: Duration,
    /// How long a command may take to end when it is asked to.
    pub grace: Duration,
    /// Takes that time away.
    pub force: CancellationToken,
}

/// What is told while a rig runs. `index` is the place of the step, counted from 0.
#[derive(Debug)]
pub enum RigEvent {
    /// A step begins.
    Started {
        /// The step.
        index: usize,
    },
    /// A command printed a line, on standard output or standard error; invalid UTF-8 replaced.
    Output {
        /// The step.
        index: usize,
        /// Where it was printed.
        stream: RigStream,
        /// The line without its line break; at most 64 KiB, a longer one comes in pieces.
        line: String,
    },
    /// A copy passed something over.
    LeftOut {
        /// The step.
        index: usize,
        /// What was not copied, relative to the hank's folder.
        path: String,
    },
    /// A step succeeded.
    Completed {
        /// The step.
        index: usize,
    },
    /// A step failed and the rig goes on, because it may.
    FailureIgnored {
        /// The step.
        index: usize,
        /// Why it failed.
        failure: RigFailure,
    },
}

/// What a finished rig did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RigSummary {
    /// Steps that succeeded.
    pub completed: usize,
    /// Steps that failed and were allowed to.
    pub ignored: usize,
}

/// Why a rig did not finish.
#[derive(Debug, thiserror::Error)]
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
pub enum RigFailure {
    /// A command ended with another code than 0 (kind `command_failed`).
    #[error("the command {exit}")]
    CommandFailed {
        /// How it ended.
        exit: ProcessExit,
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
    Target(#[from] TargetError),
    /// A copy failed (kind `other`).
    #[error(transparent)]
    Copy(#[from] CopyError),
}

impl RigFailure {
    /// The word for this failure in events (HANK-20).
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CommandFailed { .. } => "command_failed",
            Self::Timeout { .. } => "timeout",
            Self::Spawn(_) | Self::Target(_) | Self::Copy(_) => "other",
        }
    }

    /// The exit code of a command that failed; -1 for death by a signal.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::CommandFailed {
                exit: ProcessExit::Exited(code),
            } => Some(*code),
            Self::CommandFailed {
                exit: ProcessExit::Signaled(_),
            } => Some(-1),
            Self::Timeout { .. } | Self::Spawn(_) | Self::Target(_) | Self::Copy(_) => None,
        }
    }
}

impl RigError {
    /// What the failed codon records: a time that ran out (S6) or something unknown, and worth
    /// another try.
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

/// How one step went wrong.
enum StepEnd {
    Failed(RigFailure),
    Cancelled,
}

impl From<RigFailure> for StepEnd {
    fn from(failure: RigFailure) -> Self {
        Self::Failed(failure)
    }
}

impl Rig {
    /// The usual time of one command (S6).
    pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);

    /// Runs the steps in order and tells `events` about them. `cancel` stops a running command as an agent is stopped,
    /// and lets no further step begin.
    ///
    /// # Errors
    ///
    /// Returns [`RigError`] with the step that failed or was stopped; later steps have not run.
    pub async fn run(
        &self,
        steps: &[RigStep],
        events: &mpsc::Sender<RigEvent>,
        cancel: &CancellationToken,
    ) -> Result<RigSummary, RigError> {
        let mut summary = RigSummary::default();
        let mut last_copied = self.workspace.clone();
        for (index, step) in steps.iter().enumerate() {
            if cancel.is_cancelled() {
                return Err(RigError::Cancelled { index });
            }
            // Nobody has to listen: a send that fails is no failure of the rig.
            let _ = events.send(RigEvent::Started { index }).await;
            let event = match self
                .step(index, &step.action, &mut last_copied, events, cancel)
                .await
            {
                Ok(()) => {
                    summary.completed += 1;
                    RigEvent::Completed { index }
                }
                Err(StepEnd::Failed(failure)) if step.allow_failure => {
                    summary.ignored += 1;
                    RigEvent::FailureIgnored { index, failure }
                }
                Err(StepEnd::Failed(failure)) => return Err(RigError::Step { index, failure }),
                Err(StepEnd::Cancelled) => return Err(RigError::Cancelled { index }),
            };
            let _ = events.send(event).await;
        }
        Ok(summary)
    }

    async fn step(
        &self,
        index: usize,
        action: &RigAction,
        last_copied: &mut PathBuf,
        events: &mpsc::Sender<RigEvent>,
        cancel: &CancellationToken,
    ) -> Result<(), StepEnd> {
        match action {
            RigAction::Copy { from, to, replace } => {
                let left_out;
                (*last_copied, left_out) = self.copy(from, to, *replace).await?;
                for path in left_out {
                    let _ = events.send(RigEvent::LeftOut { index, path }).await;
                }
                Ok(())
            }
            RigAction::Command {
                run,
                working_directory,
            } => {
                let folder = match working_directory {
                    WorkingDirectory::Project => &self.workspace,
                    WorkingDirectory::LastCopied => last_copied,
                };
                let runner = CommandRunner {
                    spawner: &*self.spawner,
                    env: &self.env,
                    marker: &self.marker,
                    deadline: self.deadline,
                    grace: self.grace,
                    force: &self.force,
                    cancel,
                    events,
                };
                self.command_end(runner.run(index, run, folder).await)
            }
        }
    }

    /// Copies on a thread that may wait for the disk, and returns the folder in which a command can run (the target, or what holds a file) and
    /// what was left out.
    async fn copy(&self, from: &str, to: &Path, replace: bool) -> Result<(PathBuf, Vec<String>), RigFailure> {
        let (disk, hank, workspace) = (Arc::clone(&self.disk), self.hank.clone(), self.workspace.clone());
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
        self.blocking.run(copy).await
    }

    fn command_end(&self, end: io::Result<CommandEnd>) -> Result<(), StepEnd> {
        match end {
            Ok(CommandEnd::Ended(exit)) if exit.is_success() => Ok(()),
            Ok(CommandEnd::Ended(exit)) => Err(RigFailure::CommandFailed { exit }.into()),
            Ok(CommandEnd::TimedOut) => Err(RigFailure::Timeout {
                deadline: self.deadline,
            }
            .into()),
            Ok(CommandEnd::Cancelled) => Err(StepEnd::Cancelled),
            Err(error) => Err(RigFailure::Spawn(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::world::disk::RealDisk;
    use crate::world::process::ChildSpawner;

    struct Stage {
        _folder: TempDir,
        rig: Rig,
        cancel: CancellationToken,
    }

    impl Stage {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("workspace")).unwrap();
            std::fs::create_dir(folder.path().join("template")).unwrap();
            std::fs::write(folder.path().join("template/a.txt"), "hello").unwrap();
            let rig = Rig {
                disk: Arc::new(RealDisk),
                blocking: Blocking::Threads,
                hank: folder.path().to_owned(),
                spawner: Arc::new(ChildSpawner::new()),
                workspace: folder.path().join("workspace"),
                env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
                marker: folder.path().to_string_lossy().into_owned(),
                deadline: Rig::DEFAULT_DEADLINE,
                grace: Duration::from_millis(50),
                force: CancellationToken::new(),
            };
            Self {
                _folder: folder,
                rig,
                cancel: CancellationToken::new(),
            }
        }

        fn copy(&self) -> RigStep {
            let action = RigAction::Copy {
                from: "template".into(),
                to: "copied".into(),
                replace: false,
            };
            RigStep {
                action,
                allow_failure: false,
            }
        }

        async fn run(&self, steps: &[RigStep]) -> (Result<RigSummary, RigError>, Vec<String>) {
            let (sender, mut receiver) = mpsc::channel(100);
            let outcome = self.rig.run(steps, &sender, &self.cancel).await;
            drop(sender);
            let mut lines = Vec::new();
            while let Some(event) = receiver.recv().await {
                match event {
                    RigEvent::Output { line, .. } => lines.push(line),
                    RigEvent::FailureIgnored { failure, .. } => lines.push(failure.to_string()),
                    RigEvent::LeftOut { path, .. } => lines.push(path),
                    RigEvent::Started { .. } | RigEvent::Completed { .. } => {}
                }
            }
            (outcome, lines)
        }
    }

    fn command(run: &str, working_directory: WorkingDirectory, allow_failure: bool) -> RigStep {
        let action = RigAction::Command {
            run: run.to_owned(),
            working_directory,
        };
        RigStep {
            action,
            allow_failure,
        }
    }

    // covers: HANK-20
    #[tokio::test]
    async fn steps_run_in_order_and_a_command_may_run_where_the_last_copy_went() {
        let stage = Stage::new();
        let steps = [
            command("ls", WorkingDirectory::LastCopied, false),
            stage.copy(),
            command(
                "cat a.txt; echo; echo oops >&2; exit 3",
                WorkingDirectory::LastCopied,
                true,
            ),
            command("ls", WorkingDirectory::Project, false),
        ];
        let (outcome, mut lines) = stage.run(&steps).await;
        assert_eq!(
            outcome.unwrap(),
            RigSummary {
                completed: 3,
                ignored: 1
            }
        );
        // Standard output and standard error are two pipes, so the order between them is not fixed.
        lines.sort();
        assert_eq!(
            lines,
            ["copied", "hello", "oops", "the command exited with code 3"]
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
        let (sender, mut receiver) = mpsc::channel(100);
        let steps = [
            command("echo up; sleep 1000", WorkingDirectory::Project, true),
            stage.copy(),
        ];
        let stop_when_up = async {
            while !matches!(receiver.recv().await, Some(RigEvent::Output { line, .. }) if line == "up") {}
            stage.cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(stage.rig.run(&steps, &sender, &stage.cancel), stop_when_up);
        assert!(matches!(outcome, Err(RigError::Cancelled { index: 0 })));
        assert!(!stage.rig.workspace.join("copied").exists());
    }
}
