//! Runs the command line of a rig item: reports its output, stops it at its deadline or on request, and leaves no process running.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use hankweave_core::wire::RigStream;
use tokio::io::AsyncRead;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::run::{Rig, RigEvent, RigFailure, StepError};
use crate::world::process::{BoundedLines, CommandSpec, ProcessControl, Stdin, stop};
use crate::world::suspension::Stopwatch;

/// Longest line that is reported whole, in bytes; a longer one is reported in pieces.
const LINE_BYTES: usize = 64 << 10;

/// Longest part of a line that is named as the cause of a failure, in characters.
const CAUSE_CHARACTERS: usize = 300;

/// How long to wait for more output after the end of the command. The time that reports take does not count.
const DRAIN: Duration = Duration::from_millis(500);

impl Rig {
    /// Runs `line` with `sh -c` in `folder` and leaves no process running.
    pub(super) async fn command<F: Future<Output = ()>>(
        &self,
        index: usize,
        line: &str,
        folder: &Path,
        report: &impl Fn(RigEvent) -> F,
    ) -> Result<(), StepError> {
        let spec = CommandSpec {
            program: "/bin/sh".into(),
            args: ["-c", line].map(OsString::from).into(),
            env: self.env.clone(),
            work_dir: folder.to_owned(),
            stdin: Stdin::Closed,
            marker: self.marker.clone(),
        };
        let mut process = self.world.spawner.spawn(spec).map_err(RigFailure::Spawn)?;
        let has_ended = CancellationToken::new();
        let output = async {
            tokio::join!(
                read_lines(index, RigStream::Stdout, &mut process.stdout, &has_ended, report),
                read_lines(index, RigStream::Stderr, &mut process.stderr, &has_ended, report)
            )
        };
        let control = &mut *process.control;
        let (clock, started) = (&*self.world.clock, Stopwatch::start(&*self.world.clock));
        let watch = async {
            // The losing arms only wait: nothing is lost with them.
            let end = tokio::select! {
                biased;
                exit = control.wait() => exit.map(check_exit),
                () = started.reach(clock, self.deadline) => {
                    let timeout = RigFailure::Timeout { deadline: self.deadline };
                    self.stop(control).await.map(|_| Err(timeout.into()))
                }
                () = self.cancel.cancelled() => self.stop(control).await.map(|_| Err(StepError::Cancelled)),
            };
            // Ends processes that the command has left running, so that they no longer hold its pipes.
            control.sweep().await;
            has_ended.cancel();
            end.unwrap_or_else(|error| Err(RigFailure::Spawn(error).into()))
        };
        let (result, (last_of_stdout, last_of_stderr)) = tokio::join!(watch, output);
        result.map_err(|error| match error {
            StepError::Failed(RigFailure::CommandFailed { exit, .. }) => {
                let said = last_of_stderr.or(last_of_stdout);
                RigFailure::CommandFailed { exit, said }.into()
            }
            error => error,
        })
    }

    /// Asks the command to end; a forced stop skips the grace period.
    async fn stop(&self, control: &mut dyn ProcessControl) -> io::Result<ProcessExit> {
        // Dropping the graceful stop halfway is harmless: the forced one signals the group again.
        tokio::select! {
            biased;
            exit = stop(control, self.grace) => exit,
            () = self.force.cancelled() => stop(control, Duration::ZERO).await,
        }
    }
}

fn check_exit(exit: ProcessExit) -> Result<(), StepError> {
    match exit.is_success() {
        true => Ok(()),
        false => Err(RigFailure::CommandFailed { exit, said: None }.into()),
    }
}

/// Reports the lines of `output` until it ends, and returns the beginning of the last line with content. After the command `has_ended`, waits
/// at most [`DRAIN`] for more: a process that still holds the pipe then could not be killed.
async fn read_lines<F: Future<Output = ()>>(
    index: usize,
    stream: RigStream,
    output: &mut (impl AsyncRead + Unpin),
    has_ended: &CancellationToken,
    report: &impl Fn(RigEvent) -> F,
) -> Option<String> {
    let mut last = None;
    let mut lines = BoundedLines::new(output, b'\n', LINE_BYTES);
    // The part of `DRAIN` that is left.
    let mut left = DRAIN;
    while !left.is_zero() {
        let reading = lines.next();
        tokio::pin!(reading);
        let read = tokio::select! {
            biased;
            () = has_ended.cancelled() => {
                let since = Instant::now();
                let read = timeout(left, reading).await;
                left = left.saturating_sub(since.elapsed());
                read.unwrap_or(Ok(None))
            }
            read = &mut reading => read,
        };
        let Ok(Some(piece)) = read else { return last };
        let line = String::from_utf8_lossy(&piece.bytes).into_owned();
        if !line.trim().is_empty() {
            last = Some(line.trim().chars().take(CAUSE_CHARACTERS).collect());
        }
        report(RigEvent::Output { index, stream, line }).await;
    }
    last
}
