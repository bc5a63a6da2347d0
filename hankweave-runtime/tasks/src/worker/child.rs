//! The run of a hank, as a process of its own.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use hankweave_core::hank::exclude::DATA;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::Disk;
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::process::{BoundedLines, CommandSpec, SpawnedProcess, Stdin, stop};
use tokio::time::timeout;

use super::order::TaskSpec;

/// The longest event that is read, in bytes; of others the rest is left out, and then they are none.
const LONGEST_EVENT: usize = 1 << 20;

/// The longest line of messages that is kept, in bytes, and how many.
const LONGEST_MESSAGE: usize = 500;
const MESSAGES: usize = 10;

/// How long what an ended run has printed may take to be read.
const DRAINING: Duration = Duration::from_secs(2);

/// Variable with the name of the worker that has started a run, and that stops it with SIGTERM.
pub const WORKER_VARIABLE: &str = "HANKWEAVE_WORKER";

/// A run; dropping it kills it and what it started.
pub(super) struct Run {
    process: SpawnedProcess,
    events: BoundedLines,
    messages: Option<BoundedLines>,
    last: VecDeque<String>,
}

/// Event of a run's process.
#[derive(Debug)]
pub(super) enum ChildEvent {
    /// A line of its events.
    Event(Vec<u8>),
    /// It has ended.
    Ended(ProcessExit),
}

impl Run {
    /// Starts it in the execution directory, which must exist.
    pub(super) fn start(
        world: &World,
        program: &Path,
        order: &TaskSpec,
        execution: &Path,
        (worker, marker): (&str, String),
    ) -> io::Result<Self> {
        let environment = Environment::clone(&world.environment).with(WORKER_VARIABLE, worker);
        let env = environment.iter().filter(|(name, _)| !is_for_one_run(name));
        let mut process = world.spawner.spawn(CommandSpec {
            program: program.to_owned(),
            args: order.command_line(execution, has_data(&*world.disk, execution)),
            env: env
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            work_dir: execution.to_owned(),
            stdin: Stdin::Closed,
            marker,
        })?;
        let closed = || Box::pin(tokio::io::empty());
        let events = std::mem::replace(&mut process.stdout, closed());
        let messages = std::mem::replace(&mut process.stderr, closed());
        Ok(Self {
            process,
            events: BoundedLines::new(events, b'\n', LONGEST_EVENT),
            messages: Some(BoundedLines::new(messages, b'\n', LONGEST_MESSAGE)),
            last: VecDeque::new(),
        })
    }

    /// The id of its process, beneath which everything else that it starts is.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Waits for the next event, or for the end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(super) async fn next(&mut self) -> io::Result<ChildEvent> {
        loop {
            tokio::select! {
                biased;
                line = next_line(&mut self.events) => match line? {
                    Some(line) => return Ok(ChildEvent::Event(line)),
                    None => return Ok(ChildEvent::Ended(self.process.control.wait().await?)),
                },
                message = next_message(&mut self.messages) => self.note(message),
                exit = self.process.control.wait() => return self.rest(exit?).await,
            }
        }
    }

    /// Returns output that was printed before the end and is not read yet.
    async fn rest(&mut self, exit: ProcessExit) -> io::Result<ChildEvent> {
        match timeout(DRAINING, next_line(&mut self.events)).await {
            Ok(Ok(Some(line))) => Ok(ChildEvent::Event(line)),
            _ => Ok(ChildEvent::Ended(exit)),
        }
    }

    fn note(&mut self, message: Option<Vec<u8>>) {
        let Some(message) = message else {
            self.messages = None;
            return;
        };
        // The address of a page ends with its run, and that the run was suspended with its worker is no message about it.
        if message.starts_with(b"page: http") || message.starts_with(b"suspended: ") {
            return;
        }
        if self.last.len() == MESSAGES {
            // An error names its first cause in the line after it.
            let is_error = self.last.front().is_some_and(|line| line.starts_with("error: "));
            drop(self.last.remove(if is_error { 2 } else { 0 }));
        }
        self.last
            .push_back(String::from_utf8_lossy(&message).into_owned());
    }

    /// Asks it to stop in order, and kills it when it takes too long.
    pub(super) async fn stop(&mut self, grace: Duration) -> io::Result<ProcessExit> {
        stop(&mut *self.process.control, grace).await
    }

    /// The last lines of its messages. Call it when it has ended.
    pub(super) async fn last_messages(mut self) -> Vec<String> {
        while self.messages.is_some()
            && let Ok(message) = timeout(DRAINING, next_message(&mut self.messages)).await
        {
            self.note(message);
        }
        self.process.control.sweep().await;
        self.last.into()
    }
}

/// Whether the data of an earlier attempt are in the workspace, and there.
fn has_data(disk: &dyn Disk, execution: &Path) -> bool {
    let record = ExecutionDir::new(execution.to_owned()).data_record();
    disk.metadata(&record).is_ok() && disk.metadata_followed(&execution.join(DATA)).is_ok()
}

/// Returns whether the variable names a path of a single run, of which a worker has several.
fn is_for_one_run(name: &OsStr) -> bool {
    ["HANKWEAVE_EXECUTION", "HANKWEAVE_PORT", "HANKWEAVE_RUNTIME_PORT"]
        .iter()
        .any(|own| name == *own)
}

/// The next line, without what is too long of it. Cancel safe: nothing is lost.
async fn next_line(lines: &mut BoundedLines) -> io::Result<Option<Vec<u8>>> {
    loop {
        match lines.next().await? {
            Some(piece) if !piece.is_first => {}
            piece => return Ok(piece.map(|piece| piece.bytes)),
        }
    }
}

/// The next message; `None` once, when there are no more, and then never again.
async fn next_message(messages: &mut Option<BoundedLines>) -> Option<Vec<u8>> {
    match messages {
        Some(lines) => next_line(lines).await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, pause};

    use super::*;

    /// Nothing more can come from messages that have ended before the run, so nobody waits for it.
    #[tokio::test]
    async fn messages_that_have_ended_are_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let order = TaskSpec {
            hank: folder.path().join("hank"),
            data: None,
            arguments: Vec::new(),
        };
        let world = World::real();
        let program = Path::new("/bin/true");
        let mut run = Run::start(&world, program, &order, folder.path(), ("w1", "m".to_owned())).unwrap();
        while let ChildEvent::Event(_) = run.next().await.unwrap() {}
        run.note(None);
        pause();
        let begun = Instant::now();
        assert!(run.last_messages().await.is_empty());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
