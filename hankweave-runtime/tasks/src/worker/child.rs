//! Run of a hank, as a child process of the worker: its events come from standard output, its messages from standard error.

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

/// Longest event that is read, in bytes. A longer one is cut, and is no valid event then.
const LONGEST_EVENT: usize = 1 << 20;

/// Longest message line that is kept, in bytes, and number of kept lines.
const LONGEST_MESSAGE: usize = 500;
const MESSAGES: usize = 10;

/// Time limit of reading the rest of an ended run's output, which a process that the run left behind may keep open.
const DRAINING: Duration = Duration::from_secs(2);

/// Variable with the name of the worker that started a run and that stops it with SIGTERM.
pub const WORKER_VARIABLE: &str = "HANKWEAVE_WORKER";

/// Process of a run. Dropping it kills the run and its child processes.
pub(super) struct Run {
    process: SpawnedProcess,
    events: BoundedLines,
    /// Unread messages; `None` after their end.
    messages: Option<BoundedLines>,
    /// Last messages, the newest last.
    last: VecDeque<String>,
}

/// Event of a run's process.
#[derive(Debug)]
pub(super) enum ChildEvent {
    /// Line of the run's events.
    Event(Vec<u8>),
    /// End of the run.
    Ended(ProcessExit),
}

impl Run {
    /// Starts the run in the execution directory, which must exist. `worker` is the name of the worker; the unique `marker` is in the environment of all
    /// processes of the run, which are found by it.
    pub(super) fn start(
        world: &World,
        program: &Path,
        spec: &TaskSpec,
        execution: &Path,
        (worker, marker): (&str, String),
    ) -> io::Result<Self> {
        let environment = Environment::clone(&world.environment).with(WORKER_VARIABLE, worker);
        let env = environment.iter().filter(|(name, _)| !is_for_one_run(name));
        let mut process = world.spawner.spawn(CommandSpec {
            program: program.to_owned(),
            args: spec.command_line(execution, has_data(&*world.disk, execution)),
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

    /// Returns the id of the run's process, the root of its process tree.
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
                message = next_message(&mut self.messages) => self.keep_message(message),
                exit = self.process.control.wait() => return self.unread_event(exit?).await,
            }
        }
    }

    /// Returns the next event that was printed before the end, or the end.
    async fn unread_event(&mut self, exit: ProcessExit) -> io::Result<ChildEvent> {
        match timeout(DRAINING, next_line(&mut self.events)).await {
            Ok(Ok(Some(line))) => Ok(ChildEvent::Event(line)),
            _ => Ok(ChildEvent::Ended(exit)),
        }
    }

    /// Keeps a message among the last ones; `None` ends the messages.
    fn keep_message(&mut self, message: Option<Vec<u8>>) {
        let Some(message) = message else {
            self.messages = None;
            return;
        };
        // Two lines would mislead after the end: the run's page no longer exists, and a suspension does not explain how the run ended.
        if message.starts_with(b"page: http") || message.starts_with(b"suspended: ") {
            return;
        }
        if self.last.len() == MESSAGES {
            // The first two lines stay if they are an error and its first cause.
            let is_error = self.last.front().is_some_and(|line| line.starts_with("error: "));
            drop(self.last.remove(if is_error { 2 } else { 0 }));
        }
        self.last
            .push_back(String::from_utf8_lossy(&message).into_owned());
    }

    /// Stops the run in order, and kills it when it takes too long.
    pub(super) async fn stop(&mut self, grace: Duration) -> io::Result<ProcessExit> {
        stop(&mut *self.process.control, grace).await
    }

    /// Returns the last lines of the run's messages, and ends the processes that the run has left behind. Must be called after the run's end.
    pub(super) async fn last_messages(mut self) -> Vec<String> {
        while self.messages.is_some()
            && let Ok(message) = timeout(DRAINING, next_message(&mut self.messages)).await
        {
            self.keep_message(message);
        }
        self.process.control.sweep().await;
        self.last.into()
    }
}

/// Whether the workspace contains the data of an earlier attempt.
fn has_data(disk: &dyn Disk, execution: &Path) -> bool {
    let record = ExecutionDir::new(execution.to_owned()).data_record();
    disk.metadata(&record).is_ok() && disk.metadata_followed(&execution.join(DATA)).is_ok()
}

/// Whether the variable has the directory or the port of a single run. A worker has several runs, so they must not inherit it.
fn is_for_one_run(name: &OsStr) -> bool {
    ["HANKWEAVE_EXECUTION", "HANKWEAVE_PORT", "HANKWEAVE_RUNTIME_PORT"]
        .iter()
        .any(|own| name == *own)
}

/// Returns the next line, without the excess of a line that is too long. Cancel safe: nothing is lost.
async fn next_line(lines: &mut BoundedLines) -> io::Result<Option<Vec<u8>>> {
    loop {
        match lines.next().await? {
            Some(chunk) if !chunk.is_first => {}
            chunk => return Ok(chunk.map(|chunk| chunk.bytes)),
        }
    }
}

/// Returns the next message; `None` once, after the last one, and then waits for ever.
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

    /// Messages that ended before the run can have no further lines, so the run does not wait for them.
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
        run.keep_message(None);
        pause();
        let begun = Instant::now();
        assert!(run.last_messages().await.is_empty());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
