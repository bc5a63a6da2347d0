//! Running the command line of a rig step.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use hankweave_core::wire::RigStream;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::RigEvent;
use crate::world::process::{CommandSpec, ProcessControl, Spawner, Stdin, stop};

/// Longest line that is told as one; a longer one is told in pieces.
const LINE_BYTES: u64 = 64 << 10;

/// How long output is still read after the end of the command.
const DRAIN: Duration = Duration::from_millis(500);

/// What commands of one rig have in common.
pub(super) struct CommandRunner<'a> {
    pub(super) spawner: &'a dyn Spawner,
    pub(super) env: &'a BTreeMap<OsString, OsString>,
    pub(super) marker: &'a str,
    pub(super) deadline: Duration,
    pub(super) grace: Duration,
    pub(super) force: &'a CancellationToken,
    pub(super) cancel: &'a CancellationToken,
    pub(super) events: &'a mpsc::Sender<RigEvent>,
}

/// How a command ended.
pub(super) enum CommandEnd {
    Ended(ProcessExit),
    TimedOut,
    Cancelled,
}

impl CommandRunner<'_> {
    /// Runs `line` with `sh -c` in `folder` and leaves no process behind.
    pub(super) async fn run(&self, index: usize, line: &str, folder: &Path) -> io::Result<CommandEnd> {
        let mut process = self.spawner.spawn(CommandSpec {
            program: "/bin/sh".into(),
            args: ["-c", line].map(OsString::from).into(),
            env: self.env.clone(),
            work_dir: folder.to_owned(),
            stdin: Stdin::Closed,
            marker: self.marker.to_owned(),
        })?;
        let output = async {
            tokio::join!(
                self.tell(index, RigStream::Stdout, &mut process.stdout),
                self.tell(index, RigStream::Stderr, &mut process.stderr)
            )
        };
        let control = &mut *process.control;
        let watched = async {
            // The losing arms only wait: nothing is lost with them.
            let end = tokio::select! {
                biased;
                exit = control.wait() => exit.map(CommandEnd::Ended),
                () = tokio::time::sleep(self.deadline) => self.stop(control).await.map(|_| CommandEnd::TimedOut),
                () = self.cancel.cancelled() => self.stop(control).await.map(|_| CommandEnd::Cancelled),
            };
            control.sweep().await;
            end
        };
        tokio::pin!(output, watched);
        tokio::select! {
            biased;
            end = &mut watched => {
                // Whoever still holds the pipe could not be killed and has nothing to say to us.
                let _ = timeout(DRAIN, output).await;
                end
            }
            _ = &mut output => watched.await,
        }
    }

    /// Asks the command to end; force takes the grace away.
    async fn stop(&self, control: &mut dyn ProcessControl) -> io::Result<ProcessExit> {
        // Dropping the graceful stop half-way is harmless: the other one signals the same group again.
        tokio::select! {
            biased;
            exit = stop(control, self.grace) => exit,
            () = self.force.cancelled() => stop(control, Duration::ZERO).await,
        }
    }

    async fn tell(&self, index: usize, stream: RigStream, output: &mut (impl AsyncRead + Unpin)) {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut output).take(LINE_BYTES).read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    let text =
                        String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
                    // A listener that went away does not stop the rig.
                    let _ = self
                        .events
                        .send(RigEvent::Output {
                            index,
                            stream,
                            line: text,
                        })
                        .await;
                }
            }
        }
    }
}
