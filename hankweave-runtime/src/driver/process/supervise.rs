//! The task that owns one agent process.
//!
//! Three things happen side by side: the *pump* reads the output; the *scribe*, on a thread of its own, writes it into the log, turns it into
//! events, and may wait for a slow reader of them, and then the pump waits as well; the *watch* waits for the end or a stop and never
//! waits for a reader. The end of the process, not of its output, is the end of the
//! agent ("reliability and security", rule S4).

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_core::agent::{AgentEvent, ClaudeDecoder, ProcessExit};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::host::ProcessLimits;
use super::lines::{Line, LineFramer};
use super::log::Log;
use crate::driver::{AgentControl, EventSender};
use crate::world::blocking::Blocking;
use crate::world::process::{ProcessControl, SpawnedProcess, Sweep, stop};

/// Size of one read at most.
const CHUNK_BYTES: usize = 256 << 10;

/// What was read and not written down yet, in reads.
const UNWRITTEN: usize = 4;

/// Events that are told together at most.
const AT_ONCE: usize = 1_024;

/// How much is read after the drain time, when an endless writer that nobody could kill holds the pipe.
const LATE_BYTES: usize = 1 << 20;

const STDERR_TAIL_BYTES: usize = 16 << 10;

/// Everything the task needs.
pub(super) struct Supervisor {
    pub(super) process: SpawnedProcess,
    pub(super) log: Log,
    pub(super) decoder: ClaudeDecoder,
    pub(super) events: EventSender,
    pub(super) limits: ProcessLimits,
    pub(super) blocking: Blocking,
    /// Used when the reader of the events goes away without a stop.
    pub(super) grace: Duration,
}

/// Starts the task. Dropping the returned handle ends it, and with it the process.
pub(super) fn supervise(supervisor: Supervisor) -> TaskControl {
    let (ask, asked) = watch::channel(None);
    let (tell_ended, ended) = watch::channel(None);
    let task = tokio::spawn(run(supervisor, asked, tell_ended));
    TaskControl {
        ask,
        ended,
        _task: AbortOnDropHandle::new(task),
    }
}

/// Stops the task's process.
#[derive(Debug)]
pub(super) struct TaskControl {
    ask: watch::Sender<Option<Duration>>,
    ended: watch::Receiver<Option<Instant>>,
    _task: AbortOnDropHandle<()>,
}

impl AgentControl for TaskControl {
    fn stop<'a>(&'a self, grace: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.ask.send_replace(Some(grace));
            // An error means that the task is over, and so is the process.
            let _ = self.ended.clone().wait_for(Option::is_some).await;
        })
    }
}

async fn run(
    supervisor: Supervisor,
    asked: watch::Receiver<Option<Duration>>,
    ended: watch::Sender<Option<Instant>>,
) {
    let Supervisor {
        process,
        log,
        decoder,
        events,
        limits,
        blocking,
        grace,
    } = supervisor;
    let scribe = Scribe {
        log,
        decoder,
        events: events.clone(),
        framer: LineFramer::new(limits.line_bytes),
    };
    let (chunks, unwritten) = mpsc::channel(UNWRITTEN);
    let scribe = blocking.spawn(scribe.run(unwritten));
    let stdout = Drain::new(process.stdout, &ended, limits.drain);
    let stderr = Drain::new(process.stderr, &ended, limits.drain);
    let mut control = process.control;
    let watched = watch_process(&mut *control, asked, &ended, &events, grace);
    let ((), stderr_tail, (exit, sweep)) = tokio::join!(pump(stdout, chunks), tail(stderr), watched);
    let decoder = match scribe.await {
        Ok(decoder) => decoder,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Only a tokio runtime that is going away cancels the scribe, and then it drops this task as well.
        Err(_) => std::future::pending().await,
    };
    if sweep.survivors > 0 {
        tracing::warn!(
            survivors = sweep.survivors,
            "descendants of the agent could not be killed"
        );
    }
    let outcome = decoder.finish(exit, stderr_tail, sweep.killed);
    // A reader that went away does not need to be told.
    let _ = events.send(vec![AgentEvent::Finished(outcome)]).await;
}

/// Waits for the end of the process, helps it along when asked, and cleans up. Then tells the readers of its pipes.
async fn watch_process(
    control: &mut dyn ProcessControl,
    mut asked: watch::Receiver<Option<Duration>>,
    ended: &watch::Sender<Option<Instant>>,
    events: &EventSender,
    grace: Duration,
) -> (ProcessExit, Sweep) {
    // Both other arms only look: losing them loses nothing.
    let exit = tokio::select! {
        biased;
        exit = control.wait() => exit,
        grace = asked_to_stop(&mut asked) => end(control, grace, &mut asked).await,
        () = events.closed() => stop(control, grace).await,
    };
    let exit = exit.unwrap_or_else(|error| {
        tracing::error!(%error, "failed to wait for the agent");
        ProcessExit::Signaled(KILLED)
    });
    let sweep = control.sweep().await;
    ended.send_replace(Some(Instant::now()));
    (exit, sweep)
}

/// Asks the process to end and kills it after `grace`, or as soon as somebody asks with less patience.
async fn end(
    control: &mut dyn ProcessControl,
    grace: Duration,
    asked: &mut watch::Receiver<Option<Duration>>,
) -> io::Result<ProcessExit> {
    let sooner = async {
        let less = |asked: &Option<Duration>| asked.is_some_and(|asked| asked < grace);
        if asked.wait_for(less).await.is_err() {
            // Nobody can ask any more; the task is about to be dropped.
            std::future::pending().await
        }
    };
    // Dropping the graceful stop half-way is harmless: the other one signals the same group again.
    tokio::select! {
        biased;
        exit = stop(control, grace) => exit,
        () = sooner => stop(control, Duration::ZERO).await,
    }
}

/// What is told about a process that even SIGKILL did not end.
const KILLED: i32 = 9;

async fn asked_to_stop(asked: &mut watch::Receiver<Option<Duration>>) -> Duration {
    let grace = asked
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|grace| *grace);
    match grace {
        Some(grace) => grace,
        // Nobody can ask any more; then the task is about to be dropped.
        None => std::future::pending().await,
    }
}

/// Hands the output over to the scribe.
async fn pump(mut output: Drain<impl AsyncRead + Unpin>, chunks: mpsc::Sender<Vec<u8>>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = output.read(&mut chunk).await;
        if length == 0 {
            return;
        }
        // The scribe goes away before only by a panic, which is passed on when it is awaited.
        let _ = chunks.send(chunk[..length].to_vec()).await;
    }
}

/// Turns output into log and events.
struct Scribe {
    log: Log,
    decoder: ClaudeDecoder,
    events: EventSender,
    framer: LineFramer,
}

impl Scribe {
    /// Works until nothing more can come; returns what it knows about the agent then.
    async fn run(mut self, mut chunks: mpsc::Receiver<Vec<u8>>) -> ClaudeDecoder {
        while let Some(chunk) = chunks.recv().await {
            self.log.append(&chunk);
            self.hear(&chunk).await;
        }
        self.hear_the_rest().await;
        self.decoder
    }

    /// Tells what the lines of `chunk` say, many at a time.
    async fn hear(&mut self, mut chunk: &[u8]) {
        let mut events = Vec::new();
        while let Some(line) = self.framer.next(&mut chunk) {
            self.read(line, &mut events);
            if events.len() >= AT_ONCE {
                self.tell(std::mem::take(&mut events)).await;
            }
        }
        self.tell(events).await;
    }

    /// Tells what the last line says, which has no end.
    async fn hear_the_rest(&mut self) {
        if let Some(line) = self.framer.finish() {
            let mut events = Vec::new();
            self.read(line, &mut events);
            self.tell(events).await;
        }
    }

    async fn tell(&mut self, events: Vec<AgentEvent>) {
        if !events.is_empty() {
            // A reader that went away makes the watch stop the process; until then the output goes on into the log.
            let _ = self.events.send(events).await;
        }
    }

    fn read(&mut self, line: Line<'_>, events: &mut Vec<AgentEvent>) {
        match line {
            Line::Text(text) => self.decoder.read(&text, events),
            Line::TooLong { bytes, sha256 } => events.push(AgentEvent::OutputTruncated { bytes, sha256 }),
        }
    }
}

/// The last bytes of `output`.
async fn tail(mut output: Drain<impl AsyncRead + Unpin>) -> String {
    let mut tail = Vec::new();
    let mut chunk = vec![0; STDERR_TAIL_BYTES];
    loop {
        let length = output.read(&mut chunk).await;
        if length == 0 {
            return String::from_utf8_lossy(&tail).into_owned();
        }
        tail.extend_from_slice(&chunk[..length]);
        tail.drain(..tail.len().saturating_sub(STDERR_TAIL_BYTES));
    }
}

/// A pipe that is read to its end, or until some time after the end of the process when something holds it open.
struct Drain<R> {
    pipe: R,
    ended: watch::Receiver<Option<Instant>>,
    patience: Duration,
    late_bytes: usize,
}

impl<R: AsyncRead + Unpin> Drain<R> {
    fn new(pipe: R, ended: &watch::Sender<Option<Instant>>, patience: Duration) -> Self {
        Self {
            pipe,
            ended: ended.subscribe(),
            patience,
            late_bytes: 0,
        }
    }

    /// The number of bytes read, 0 at the end. What already waits in the pipe is read even when the time is over, so
    /// that a slow reader of the events loses nothing.
    async fn read(&mut self, chunk: &mut [u8]) -> usize {
        // Both arms are cancel safe: a read that was not finished has taken nothing.
        let early = tokio::select! {
            biased;
            deadline = deadline(&mut self.ended, self.patience) => Err(deadline),
            read = self.pipe.read(chunk) => Ok(read),
        };
        let read = match early {
            Ok(read) => read,
            Err(deadline) => self.read_late(chunk, deadline).await,
        };
        read.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read the agent's output");
            0
        })
    }

    async fn read_late(&mut self, chunk: &mut [u8], deadline: Instant) -> io::Result<usize> {
        if self.late_bytes > LATE_BYTES {
            return Ok(0);
        }
        match timeout_at(deadline, self.pipe.read(chunk)).await {
            Ok(read) => {
                if Instant::now() >= deadline {
                    self.late_bytes += read.as_ref().copied().unwrap_or(0);
                }
                read
            }
            Err(_) => Ok(0),
        }
    }
}

/// Waits for the end of the process and returns when its output is no longer waited for.
async fn deadline(ended: &mut watch::Receiver<Option<Instant>>, patience: Duration) -> Instant {
    let ended = ended
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|ended| *ended);
    ended.unwrap_or_else(Instant::now) + patience
}
