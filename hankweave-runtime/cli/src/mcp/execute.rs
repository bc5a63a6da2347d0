//! Runs the shell command of the tool `execute_in_task` in the workspace of a task, with a time limit and limited output (CLI-57).

use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use hankweave_core::agent::ProcessExit;
use hankweave_runtime::world::World;
use hankweave_runtime::world::process::{CommandSpec, Stdin, stop};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout};

/// Number of bytes that are kept of each output stream.
const KEPT: usize = 64 << 10;

/// Time that a command has after its limit to stop in order, and time after its end for reading the rest of its output.
const GRACE: Duration = Duration::from_secs(2);

/// Result of a command.
#[derive(Debug)]
pub(super) struct CommandOutput {
    pub(super) exit: ProcessExit,
    /// The command was stopped at its time limit.
    pub(super) timed_out: bool,
    pub(super) took: Duration,
    pub(super) stdout: CapturedOutput,
    pub(super) stderr: CapturedOutput,
}

/// Output of one stream.
#[derive(Debug, Default)]
pub(super) struct CapturedOutput {
    kept: Vec<u8>,
    /// Whether there was more than [`KEPT`].
    pub(super) is_cut: bool,
}

impl CapturedOutput {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }

    /// Reads a stream to its end, also beyond [`KEPT`], so that the command does not block on a full pipe.
    async fn read(&mut self, mut stream: Pin<Box<dyn AsyncRead + Send>>) {
        let mut chunk = vec![0; 16 << 10];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            let room = KEPT.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&chunk[..read.min(room)]);
            self.is_cut |= read > room;
        }
    }
}

/// Runs a command. Processes that the command leaves running are ended with it; `marker` identifies them.
pub(super) async fn execute(
    world: &World,
    workspace: PathBuf,
    command: &str,
    limit: Duration,
    marker: String,
) -> io::Result<CommandOutput> {
    let began = Instant::now();
    let env = world.environment.iter();
    let mut process = world.spawner.spawn(CommandSpec {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), command.into()],
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        work_dir: workspace,
        stdin: Stdin::Closed,
        marker,
    })?;
    let closed = || Box::pin(tokio::io::empty());
    let out = std::mem::replace(&mut process.stdout, closed());
    let err = std::mem::replace(&mut process.stderr, closed());
    let (mut stdout, mut stderr) = (CapturedOutput::default(), CapturedOutput::default());
    let (exit, timed_out) = {
        let mut reading = pin!(
            async {
                tokio::join!(stdout.read(out), stderr.read(err));
            }
            .fuse()
        );
        // Waits for the exit; the output is read meanwhile, and may end earlier.
        let ended = async {
            loop {
                tokio::select! {
                    exit = process.control.wait() => break exit,
                    () = &mut reading => {}
                }
            }
        };
        let ended = timeout(limit, ended).await;
        let (exit, timed_out) = match ended {
            Ok(exit) => (exit?, false),
            Err(_) => (stop(&mut *process.control, GRACE).await?, true),
        };
        if !reading.is_terminated() {
            // A process that the command left running may hold the streams.
            let _ = timeout(GRACE, reading).await;
        }
        (exit, timed_out)
    };
    process.control.sweep().await;
    Ok(CommandOutput {
        exit,
        timed_out,
        took: began.elapsed(),
        stdout,
        stderr,
    })
}
