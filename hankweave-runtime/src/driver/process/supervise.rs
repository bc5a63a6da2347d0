//! The task that owns one agent process.
//!
//! Three things happen at the same time. The *pump* reads standard output. The *output logger*, on a thread
//! of its own, writes it into the log and sends its events; while it waits for the disk or the receiver, the
//! pump waits too. The *watch* waits for the end of the process or a stop and never waits for a receiver. The
//! end of the process, not of its output, is the end of the agent (S4).
//!
//! An agent that talks both ways has an *attendant* as well, which does what the decoder orders and tells the watch when the work is over: such an agent does
//! not end by itself.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_agents::ProcessEnd;
use hankweave_core::agent::{EndedBy, ProcessExit};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::attend::{AcpHost, StopSignals, WAITING_ORDERS, is_true};
use super::output::OutputLogger;
use crate::driver::{AgentControl, EventSender};
use crate::world::blocking::Blocking;
use crate::world::process::{ProcessControl, SpawnedProcess, Sweep, interrupt, stop};

/// Size of one read, at most.
const CHUNK_BYTES: usize = 256 << 10;

/// How many chunks may wait for the output logger.
const WAITING_CHUNKS: usize = 4;

/// How much is read after the drain time, when a process that could not be killed writes without end.
const LATE_BYTES: usize = 1 << 20;

const STDERR_TAIL_BYTES: usize = 16 << 10;

/// How long an agent that talks both ways may take to end when its work is over and it hears no more.
const AFTER_WORK: Duration = Duration::from_secs(1);

/// Everything the task needs.
pub(super) struct Supervisor {
    pub(super) process: SpawnedProcess,
    /// Talks to the process, if somebody does.
    pub(super) attendant: Option<AcpHost>,
    pub(super) logger: OutputLogger,
    /// Shows when the receiver is dropped.
    pub(super) events: EventSender,
    /// How long output is still read after the end of the process.
    pub(super) drain: Duration,
    pub(super) blocking: Blocking,
    /// Used when the receiver is dropped without a stop.
    pub(super) grace: Duration,
    /// The process is interrupted before it is asked to end.
    pub(super) interrupt_first: bool,
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
            // An error means that the task has ended, and so has the process.
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
        attendant,
        mut logger,
        events,
        drain,
        blocking,
        grace,
        interrupt_first,
    } = supervisor;
    let (chunks, waiting) = mpsc::channel(WAITING_CHUNKS);
    let (ask_to_stop, stopping) = watch::channel(false);
    let (tell_over, over) = watch::channel(false);
    let signs = StopSignals {
        stopping,
        over: tell_over,
    };
    let attending = start_host(attendant, &mut logger, signs, ended.subscribe());
    let logger = blocking.spawn(logger.run(waiting));
    let stdout = Drain::new(process.stdout, &ended, drain);
    let stderr = Drain::new(process.stderr, &ended, drain);
    let mut process = Stoppable {
        control: process.control,
        interrupt_first,
        ask_to_stop,
        over,
    };
    let watched = watch_process(&mut process, asked, &ended, &events, grace);
    let ((), stderr_tail, (exit, ended_by, sweep), ()) =
        tokio::join!(pump(stdout, chunks), tail(stderr), watched, attending);
    let logger = match logger.await {
        Ok(logger) => logger,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Only a tokio runtime that shuts down cancels the logger, and then it drops this task as well.
        Err(_) => std::future::pending().await,
    };
    if sweep.survivors > 0 {
        tracing::warn!(
            survivors = sweep.survivors,
            "descendants of the agent could not be killed"
        );
    }
    let end = ProcessEnd {
        exit,
        ended_by,
        stderr_tail,
        leftovers: sweep.killed,
    };
    logger.finish(end).await;
}

/// Lets the attendant work until nothing more is ordered, or the process has ended.
fn start_host(
    attendant: Option<AcpHost>,
    logger: &mut OutputLogger,
    signs: StopSignals,
    mut ended: watch::Receiver<Option<Instant>>,
) -> impl Future<Output = ()> + use<> {
    let attending = attendant.map(|attendant| {
        let (orders, ordered) = mpsc::channel(WAITING_ORDERS);
        logger.orders = Some(orders);
        attendant.run(ordered, signs)
    });
    async move {
        let Some(attending) = attending else { return };
        // An agent that has ended need not be told anything.
        tokio::select! {
            () = attending => {}
            _ = ended.wait_for(Option::is_some) => {}
        }
    }
}

/// Waits for the end of the process, stops it when asked, and cleans up. Then lets the readers of its pipes
/// know.
async fn watch_process(
    process: &mut Stoppable,
    mut asked: watch::Receiver<Option<Duration>>,
    ended: &watch::Sender<Option<Instant>>,
    events: &EventSender,
    grace: Duration,
) -> (ProcessExit, EndedBy, Sweep) {
    let mut over = process.over.clone();
    // The other arms only wait: losing them loses nothing.
    let (exit, ended_by) = tokio::select! {
        biased;
        exit = process.control.wait() => (exit, EndedBy::Itself),
        grace = asked_to_stop(&mut asked) => (end(process, grace, &mut asked).await, EndedBy::Us),
        () = is_true(&mut over) => (end_of_work(process, grace, &mut asked).await, EndedBy::Us),
        () = events.closed() => (process.stop(grace).await, EndedBy::Us),
    };
    let exit = exit.unwrap_or_else(|error| {
        tracing::error!(%error, "failed to wait for the agent");
        ProcessExit::Signaled(KILLED)
    });
    let sweep = process.control.sweep().await;
    ended.send_replace(Some(Instant::now()));
    (exit, ended_by, sweep)
}

/// Asks the process to end and kills it after `grace`, or after a shorter grace that is asked for meanwhile.
async fn end(
    process: &mut Stoppable,
    grace: Duration,
    asked: &mut watch::Receiver<Option<Duration>>,
) -> io::Result<ProcessExit> {
    let sooner = async {
        let less = |asked: &Option<Duration>| asked.is_some_and(|asked| asked < grace);
        if asked.wait_for(less).await.is_err() {
            // The handle is gone: the task is about to be dropped.
            std::future::pending().await
        }
    };
    // Dropping the graceful stop half-way is harmless: the other one signals the same group again.
    tokio::select! {
        biased;
        exit = process.stop(grace) => exit,
        () = sooner => process.stop(Duration::ZERO).await,
    }
}

/// Lets an agent end whose work is over, and asks it to when it does not.
async fn end_of_work(
    process: &mut Stoppable,
    grace: Duration,
    asked: &mut watch::Receiver<Option<Duration>>,
) -> io::Result<ProcessExit> {
    match timeout(AFTER_WORK.min(grace), process.control.wait()).await {
        Ok(exit) => exit,
        Err(_) => end(process, grace, asked).await,
    }
}

/// A process, and how it is asked to end.
struct Stoppable {
    control: Box<dyn ProcessControl>,
    interrupt_first: bool,
    /// Has an agent told to stop that is talked to.
    ask_to_stop: watch::Sender<bool>,
    /// Its work is over.
    over: watch::Receiver<bool>,
}

impl Stoppable {
    async fn stop(&mut self, grace: Duration) -> io::Result<ProcessExit> {
        if self.ask_to_stop.receiver_count() == 0 || *self.over.borrow() {
            return self.signal(grace).await;
        }
        // Half of the time is for words.
        self.ask_to_stop.send_replace(true);
        let mut over = self.over.clone();
        let has_stopped = async {
            is_true(&mut over).await;
            tokio::time::sleep(AFTER_WORK).await;
        };
        tokio::select! {
            biased;
            exit = self.control.wait() => return exit,
            _ = timeout(grace / 2, has_stopped) => {}
        }
        self.signal(grace / 2).await
    }

    async fn signal(&mut self, grace: Duration) -> io::Result<ProcessExit> {
        match self.interrupt_first {
            true => interrupt(&mut *self.control, grace).await,
            false => stop(&mut *self.control, grace).await,
        }
    }
}

/// Signal recorded for a process that even SIGKILL did not end.
const KILLED: i32 = 9;

async fn asked_to_stop(asked: &mut watch::Receiver<Option<Duration>>) -> Duration {
    let grace = asked
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|grace| *grace);
    match grace {
        Some(grace) => grace,
        // The handle is gone: the task is about to be dropped.
        None => std::future::pending().await,
    }
}

/// Passes the output to its logger.
async fn pump(mut output: Drain<impl AsyncRead + Unpin>, chunks: mpsc::Sender<Vec<u8>>) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        if output.read(&mut chunk).await == 0 {
            return;
        }
        // The logger ends earlier only by a panic, which is passed on when it is awaited.
        let _ = chunks.send(chunk).await;
    }
}

/// The last bytes of `output`.
async fn tail(mut output: Drain<impl AsyncRead + Unpin>) -> String {
    let mut tail = Vec::new();
    let mut chunk = Vec::with_capacity(STDERR_TAIL_BYTES);
    while output.read(&mut chunk).await > 0 {
        tail.append(&mut chunk);
        tail.drain(..tail.len().saturating_sub(STDERR_TAIL_BYTES));
    }
    String::from_utf8_lossy(&tail).into_owned()
}

/// A pipe that is read to its end, or until some time after the end of the process when something holds it
/// open.
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

    /// Fills the capacity of `chunk`, and returns the number of bytes read, 0 at the end.
    ///
    /// What already waits in the pipe is read even when the time is over, so that a slow receiver loses
    /// nothing.
    async fn read(&mut self, chunk: &mut Vec<u8>) -> usize {
        // Both arms are cancel safe: a read that was not finished has taken nothing.
        let early = tokio::select! {
            biased;
            deadline = deadline(&mut self.ended, self.patience) => Err(deadline),
            read = self.pipe.read_buf(chunk) => Ok(read),
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

    async fn read_late(&mut self, chunk: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
        if self.late_bytes > LATE_BYTES {
            return Ok(0);
        }
        match timeout_at(deadline, self.pipe.read_buf(chunk)).await {
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
