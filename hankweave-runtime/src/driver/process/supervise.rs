//! The task that owns one agent process.
//!
//! Three things happen at the same time. The *pump* reads standard output. The *output logger*, on a thread
//! of its own, writes it into the log and sends its events; while it waits for the disk or the receiver, the
//! pump waits too. The *watch* waits for the end of the process or a stop and never waits for a receiver. The
//! end of the process, not of its output, is the end of the agent (S4).
//!
//! An agent that talks both ways has an *attendant* as well, which writes messages to its standard input. The attendant
//! carries out the actions that the decoder returns, and reports to the watch when the work is done, because such an
//! agent does not end by itself.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_agents::ProcessEnd;
use hankweave_core::agent::{EndedBy, ProcessExit};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::output::OutputLogger;
use super::two_way::{Attendant, StopSignals, WAITING_ACTIONS, wait_until_true};
use crate::driver::{AgentControl, EventSender};
use crate::world::blocking::Blocking;
use crate::world::process::{ProcessControl, SpawnedProcess, Sweep, interrupt, stop};

/// Size of one read, at most.
const CHUNK_BYTES: usize = 256 << 10;

/// How many chunks may wait for the output logger.
const WAITING_CHUNKS: usize = 4;

/// Number of bytes that are read after the drain time: a process that could not be killed may write without end.
const LATE_BYTES: usize = 1 << 20;

/// Number of last bytes of standard error that are kept.
const STDERR_TAIL_BYTES: usize = 16 << 10;

/// Time in which an agent that talks both ways has to end after its work is done and its input is closed.
const AFTER_WORK: Duration = Duration::from_secs(1);

/// Everything the task needs.
pub(super) struct Supervisor {
    pub(super) process: SpawnedProcess,
    /// Writes messages to the agent, if it talks both ways.
    pub(super) attendant: Option<Attendant>,
    pub(super) logger: OutputLogger,
    /// Used only to notice that the receiver of the events is dropped.
    pub(super) events: EventSender,
    /// How long output is still read after the end of the process.
    pub(super) drain: Duration,
    pub(super) blocking: Blocking,
    /// How long the process may take to end, when no stop says how long.
    pub(super) grace: Duration,
    /// Whether a stop interrupts the process before it asks it to end.
    pub(super) interrupt_first: bool,
}

/// Starts the task. Dropping the returned handle ends it, and with it the process.
pub(super) fn supervise(supervisor: Supervisor) -> TaskControl {
    let (stop_sender, stop_request) = watch::channel(None);
    let (exited_sender, exited) = watch::channel(None);
    let task = tokio::spawn(run(supervisor, stop_request, exited_sender));
    TaskControl {
        stop_sender,
        exited,
        _task: AbortOnDropHandle::new(task),
    }
}

/// Stops the task's process.
#[derive(Debug)]
pub(super) struct TaskControl {
    /// Requests a stop, with the grace in which the process may end by itself.
    stop_sender: watch::Sender<Option<Duration>>,
    /// When the process was found to have ended, with its descendants.
    exited: watch::Receiver<Option<Instant>>,
    _task: AbortOnDropHandle<()>,
}

impl AgentControl for TaskControl {
    fn stop<'a>(&'a self, grace: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.stop_sender.send_replace(Some(grace));
            // An error means that the task has ended, and so has the process.
            let _ = self.exited.clone().wait_for(Option::is_some).await;
        })
    }
}

async fn run(
    supervisor: Supervisor,
    stop_request: watch::Receiver<Option<Duration>>,
    exited_sender: watch::Sender<Option<Instant>>,
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
    let (chunk_sender, chunk_receiver) = mpsc::channel(WAITING_CHUNKS);
    let (stopping_sender, stopping) = watch::channel(false);
    let (work_done_sender, work_done) = watch::channel(false);
    let signals = StopSignals {
        stopping,
        work_done_sender,
    };
    let attending = start_attendant(attendant, &mut logger, signals, exited_sender.subscribe());
    let logger = blocking.spawn(logger.run(chunk_receiver));
    let stdout = Drain::new(process.stdout, &exited_sender, drain);
    let stderr = Drain::new(process.stderr, &exited_sender, drain);
    let mut process = Stoppable {
        control: process.control,
        interrupt_first,
        stopping_sender,
        work_done,
    };
    let watched = watch_process(&mut process, stop_request, &exited_sender, &events, grace);
    // All four must run at the same time. A process whose output is not read blocks at its full pipe and never ends. A
    // descendant that holds a pipe open keeps the readers from ending until the watch has sent the exit. An agent that
    // talks both ways ends only once its attendant has closed its input; the attendant gets its actions from the
    // output that the pump reads, and ends with the exit.
    let ((), stderr_tail, (exit, ended_by, sweep), ()) =
        tokio::join!(pump(stdout, chunk_sender), tail(stderr), watched, attending);
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

/// Lets the attendant work until there are no further actions, or the process has ended.
fn start_attendant(
    attendant: Option<Attendant>,
    logger: &mut OutputLogger,
    signals: StopSignals,
    mut exited: watch::Receiver<Option<Instant>>,
) -> impl Future<Output = ()> + use<> {
    let attending = attendant.map(|attendant| {
        let (action_sender, actions) = mpsc::channel(WAITING_ACTIONS);
        logger.action_sender = Some(action_sender);
        attendant.run(actions, signals)
    });
    async move {
        let Some(attending) = attending else { return };
        // An agent that has ended gets no more messages.
        tokio::select! {
            () = attending => {}
            _ = exited.wait_for(Option::is_some) => {}
        }
    }
}

/// Waits for the end of the process, stops it on request, and kills its descendants. Then sends the exit to the readers of
/// its pipes.
async fn watch_process(
    process: &mut Stoppable,
    mut stop_request: watch::Receiver<Option<Duration>>,
    exited_sender: &watch::Sender<Option<Instant>>,
    events: &EventSender,
    grace: Duration,
) -> (ProcessExit, EndedBy, Sweep) {
    let mut work_done = process.work_done.clone();
    // The arms that are dropped have only waited, so nothing is lost.
    let (exit, ended_by) = tokio::select! {
        biased;
        exit = process.control.wait() => (exit, EndedBy::Itself),
        grace = stop_requested(&mut stop_request) => (end(process, grace, &mut stop_request).await, EndedBy::Us),
        () = wait_until_true(&mut work_done) => (end_of_work(process, grace, &mut stop_request).await, EndedBy::Us),
        () = events.closed() => (process.stop(grace).await, EndedBy::Us),
    };
    let exit = exit.unwrap_or_else(|error| {
        tracing::error!(%error, "failed to wait for the agent");
        ProcessExit::Signaled(KILLED)
    });
    let sweep = process.control.sweep().await;
    exited_sender.send_replace(Some(Instant::now()));
    (exit, ended_by, sweep)
}

/// Asks the process to end and kills it after `grace`; at once if a stop with a shorter grace is requested meanwhile.
async fn end(
    process: &mut Stoppable,
    grace: Duration,
    stop_request: &mut watch::Receiver<Option<Duration>>,
) -> io::Result<ProcessExit> {
    let sooner = async {
        let is_shorter = |requested: &Option<Duration>| requested.is_some_and(|requested| requested < grace);
        if stop_request.wait_for(is_shorter).await.is_err() {
            // The handle was dropped: the task is about to be dropped too.
            std::future::pending().await
        }
    };
    // Dropping the graceful stop halfway is harmless: the forced one signals the group again.
    tokio::select! {
        biased;
        exit = process.stop(grace) => exit,
        () = sooner => process.stop(Duration::ZERO).await,
    }
}

/// Lets an agent end after its work is done, and asks it to end if it does not.
async fn end_of_work(
    process: &mut Stoppable,
    grace: Duration,
    stop_request: &mut watch::Receiver<Option<Duration>>,
) -> io::Result<ProcessExit> {
    match timeout(AFTER_WORK.min(grace), process.control.wait()).await {
        Ok(exit) => exit,
        Err(_) => end(process, grace, stop_request).await,
    }
}

/// A process, and the ways to end it.
struct Stoppable {
    control: Box<dyn ProcessControl>,
    interrupt_first: bool,
    /// Lets the attendant ask its agent to stop; has no receiver without an attendant.
    stopping_sender: watch::Sender<bool>,
    /// Whether the work of the agent is done.
    work_done: watch::Receiver<bool>,
}

impl Stoppable {
    /// Ends the process within about `grace`: by a message to an agent that talks both ways and still works, and then by signals.
    async fn stop(&mut self, grace: Duration) -> io::Result<ProcessExit> {
        if self.stopping_sender.receiver_count() == 0 || *self.work_done.borrow() {
            return self.signal(grace).await;
        }
        // The first half of the time is for the message, the second for signals.
        self.stopping_sender.send_replace(true);
        let mut work_done = self.work_done.clone();
        let has_stopped = async {
            wait_until_true(&mut work_done).await;
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

/// Number of SIGKILL, recorded as the exit when waiting for a process fails, as when it survives even that signal.
const KILLED: i32 = 9;

/// Waits for a stop request, and returns its grace.
async fn stop_requested(stop_request: &mut watch::Receiver<Option<Duration>>) -> Duration {
    let grace = stop_request
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|grace| *grace);
    match grace {
        Some(grace) => grace,
        // The handle was dropped: the task is about to be dropped too.
        None => std::future::pending().await,
    }
}

/// Reads the output and passes it to the logger.
async fn pump(mut output: Drain<impl AsyncRead + Unpin>, chunk_sender: mpsc::Sender<Vec<u8>>) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        if output.read(&mut chunk).await == 0 {
            return;
        }
        // Sending fails only if the logger has panicked. `run` passes that panic on.
        let _ = chunk_sender.send(chunk).await;
    }
}

/// Reads `output` and returns its last bytes as text.
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
    exited: watch::Receiver<Option<Instant>>,
    /// How long the pipe is still read after the end of the process.
    patience: Duration,
    /// Number of bytes that were read after the deadline.
    late_bytes: usize,
}

impl<R: AsyncRead + Unpin> Drain<R> {
    fn new(pipe: R, exited_sender: &watch::Sender<Option<Instant>>, patience: Duration) -> Self {
        Self {
            pipe,
            exited: exited_sender.subscribe(),
            patience,
            late_bytes: 0,
        }
    }

    /// Fills the capacity of `chunk`, and returns the number of bytes read, 0 at the end.
    ///
    /// Output that is already in the pipe is read even after the deadline, so that a slow receiver loses nothing.
    async fn read(&mut self, chunk: &mut Vec<u8>) -> usize {
        // Both arms are cancel safe: a read that was not finished has taken nothing.
        let read = tokio::select! {
            biased;
            deadline = deadline(&mut self.exited, self.patience) => Err(deadline),
            read = self.pipe.read_buf(chunk) => Ok(read),
        };
        let read = match read {
            Ok(read) => read,
            Err(deadline) => self.read_late(chunk, deadline).await,
        };
        read.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read the agent's output");
            0
        })
    }

    /// Reads after the end of the process, until `deadline`; after it only bytes that are in the pipe already.
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

/// Waits for the end of the process, and returns the time until which its output is waited for.
async fn deadline(exited: &mut watch::Receiver<Option<Instant>>, patience: Duration) -> Instant {
    let exited = exited
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|exited| *exited);
    exited.unwrap_or_else(Instant::now) + patience
}
