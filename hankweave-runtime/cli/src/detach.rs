//! `hankweave run --detach`: a run in a session of its own, which outlives the terminal (CLI-80).
//!
//! The command starts itself once more, as the leader of a session, with one end of a socket pair as its standard input. The new process prints on
//! the terminal until the directory is its own, then into a log file. Through the socket it reports twice: that its output has moved, then that the run
//! works or waits. After the second report the command returns. If the socket closes before, the command ends as the process ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use hankweave_core::event::StateEvent;
use hankweave_core::id::RunId;
use hankweave_core::thread::Recovery;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::world::disk::{Disk as _, IoError, RealDisk, parent, with_suffix};
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::{ExecutionDir, Hankweave};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::args::{Global, RunArgs, detached_arguments};
use crate::hints::HintCommands;
use crate::owning_task::OwningTask;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::print_stderr;

/// Largest length of the log in bytes; a longer one becomes `detached.log.1`.
const LOG_LIMIT: u64 = 16 << 20;

/// Report of the new process to the command that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
enum DetachReport {
    /// The output goes to the log, which had this length in bytes before.
    Moved { from: u64 },
    /// The run works or waits.
    Begun(BegunDetached),
}

/// Run that continues by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BegunDetached {
    pid: u32,
    run_id: RunId,
    /// Some codon of the hank asks for an approval before it starts, so that the command `approve` is worth a line.
    asks: bool,
}

/// Starts the run in a process of its own, and returns once it is under way.
pub(crate) fn start(global: &Global, args: &RunArgs) -> Result<ExitCode, CliError> {
    let hints = HintCommands::by(&args.invocation);
    if let Some(task) = OwningTask::of(hints.execution()) {
        let message = "a task is run by its worker, which waits for it: --detach is not for its workspace";
        return Err(task.explain(CliError::new(CliErrorKind::Usage, message)));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    runtime.block_on(async {
        // Listens before the process exists: an earlier signal ends this command alone, and every later one is passed on.
        let signals = StopSignals::new().map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
        let (reports, mut process) = spawn().map_err(|error| {
            let message = format!("failed to start the process of the run: {error}");
            CliError::new(CliErrorKind::Io, message)
        })?;
        let awaited = until_begun(reports, &process, signals).await;
        let awaited = awaited.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
        match awaited.begun {
            Some(begun) => print_started(global, &hints, &begun),
            None => ended_early(&mut process, &hints, awaited.from).await,
        }
    })
}

/// Starts this program once more; returns the end of the socket that gets its reports.
fn spawn() -> io::Result<(tokio::net::UnixStream, Child)> {
    let environment = Environment::of_process();
    let program = environment
        .program()
        .ok_or_else(|| io::Error::other("the system does not tell where hankweave is"))?;
    let (reports, child_end) = UnixStream::pair()?;
    reports.set_nonblocking(true)?;
    let process = Command::new(program)
        .args(detached_arguments())
        .stdin(Stdio::from(OwnedFd::from(child_end)))
        .spawn()?;
    Ok((tokio::net::UnixStream::from_std(reports)?, process))
}

/// Reports of a process until its run is under way, or until the process has closed the socket.
#[derive(Debug, Default)]
struct AwaitedStart {
    /// Length of the log in bytes before the output went there; `None` as long as it goes to the terminal.
    from: Option<u64>,
    /// `None` if the process reported no run, or a signal was passed on.
    begun: Option<BegunDetached>,
}

/// Signals that stop this command or the run that it starts.
#[derive(Debug)]
struct StopSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl StopSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }
}

/// Waits for the reports. Passes signals to this command on to the process; after one, only the end of the process counts, not its report of a run.
async fn until_begun(
    reports: tokio::net::UnixStream,
    process: &Child,
    mut signals: StopSignals,
) -> io::Result<AwaitedStart> {
    let pid = process
        .id()
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    // Fails if the process has just ended; then no signal is needed.
    let pass_on = |signal| pid.is_some_and(|pid| kill_process(pid, signal).is_ok());
    let mut lines = BufReader::new(reports).lines();
    let (mut awaited, mut is_stopped) = (AwaitedStart::default(), false);
    loop {
        // Every arm is cancel safe.
        let line = tokio::select! {
            line = lines.next_line() => line?,
            _ = signals.interrupt.recv() => { is_stopped |= pass_on(Signal::INT); continue }
            _ = signals.terminate.recv() => { is_stopped |= pass_on(Signal::TERM); continue }
        };
        match line.and_then(|line| serde_json::from_str(&line).ok()) {
            Some(DetachReport::Moved { from }) => awaited.from = Some(from),
            Some(DetachReport::Begun(begun)) => {
                awaited.begun = Some(begun).filter(|_| !is_stopped);
                return Ok(awaited);
            }
            None => return Ok(awaited),
        }
    }
}

/// Prints that the run continues, and how to follow it.
fn print_started(global: &Global, hints: &HintCommands, begun: &BegunDetached) -> Result<ExitCode, CliError> {
    let execution = real(hints.execution());
    let log = ExecutionDir::new(execution.clone()).detached_log();
    if global.json() {
        // On one line, as everything that `run --json` prints.
        let started = json!({
            "pid": begun.pid,
            "runId": begun.run_id,
            "execution": execution.to_string_lossy(),
            "log": log.to_string_lossy(),
        });
        output::print_json_text(&format!("{started}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if global.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!(
        "detached: the run continues without this terminal (process {})\n  directory  {}\n  output     {}\n",
        begun.pid,
        execution.display(),
        log.display()
    );
    let commands = [
        ("status", "status"),
        ("watch", "attach"),
        ("read", "logs --follow"),
        ("answer", "approve"),
        ("stop", "stop"),
    ];
    let useful = commands
        .into_iter()
        .filter(|(_, command)| begun.asks || *command != "approve");
    for (name, command) in useful {
        text.push_str(&format!("  {name:<9}  {}\n", hints.command(command)));
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Ends as the process has ended, with what it has printed into the log.
async fn ended_early(
    process: &mut Child,
    hints: &HintCommands,
    from: Option<u64>,
) -> Result<ExitCode, CliError> {
    let status = process.wait().await;
    let status = status.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    if let Some(from) = from {
        let log = ExecutionDir::new(real(hints.execution())).detached_log();
        let printed = RealDisk.read(&log, LOG_LIMIT).unwrap_or_default();
        let printed = printed.get(usize::try_from(from).unwrap_or(usize::MAX)..);
        print_stderr(String::from_utf8_lossy(printed.unwrap_or_default()).into_owned());
    }
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    let code = code.and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn real(path: &Path) -> PathBuf {
    RealDisk.real_path(path).unwrap_or_else(|_| path.to_owned())
}

/// Process of a detached run, which reports to the command that started it until the run is under way.
#[derive(Debug)]
pub(crate) struct Detachment {
    reports: UnixStream,
    /// Log of the directory; `None` until the output has moved into it.
    log: Option<DetachedLog>,
    /// Value for [`BegunDetached::asks`].
    asks: bool,
}

impl Detachment {
    /// Leaves the session of the terminal.
    pub(crate) fn start() -> Result<Self, CliError> {
        let detach = || -> io::Result<Self> {
            // Fails for the leader of a process group, as when this process was started by hand: it then stays in its session.
            let _ = setsid();
            let reports = io::stdin().as_fd().try_clone_to_owned()?;
            dup2_stdin(File::open("/dev/null")?)?;
            Ok(Self {
                reports: UnixStream::from(reports),
                log: None,
                asks: false,
            })
        };
        detach().map_err(|error| {
            CliError::new(CliErrorKind::Io, format!("failed to leave the terminal: {error}"))
        })
    }

    /// Sets whether some codon of the hank asks for an approval.
    pub(crate) fn asking(mut self, asks: bool) -> Self {
        self.asks = asks;
        self
    }

    /// Prints into the log of the directory from now on, and reports this.
    pub(crate) fn move_output(&mut self, directory: &ExecutionDir) -> Result<(), CliError> {
        let path = directory.detached_log();
        let moved = DetachedLog::open(path.clone()).and_then(|log| {
            let from = log.length()?;
            log.take_output()?;
            Ok((log, from))
        });
        let (log, from) = moved
            .map_err(|error| CliError::from_error(CliErrorKind::Io, &IoError::at("open", &path)(error)))?;
        self.log = Some(log);
        self.report(&DetachReport::Moved { from });
        Ok(())
    }

    fn report(&mut self, report: &DetachReport) {
        let mut line = serde_json::to_vec(report).unwrap_or_default();
        line.push(b'\n');
        // The command that waits for this line may have been closed with its terminal; the run continues without it.
        let _ = self.reports.write_all(&line);
    }

    /// Reports the run once it works or waits, and keeps the log short for as long as the run lives. A run that ends before it works or waits, as after a
    /// denial, is not reported. `run` returns the id of the newest run.
    pub(crate) async fn attend(mut self, mut events: Subscription, run: impl Fn() -> Option<RunId>) {
        let mut is_under_way = false;
        while !is_under_way && let Ok(Some(delivery)) = events.next().await {
            let Delivery::Events(events) = delivery else {
                continue;
            };
            is_under_way = events.values().any(works_or_waits);
        }
        if let Some(run_id) = run().filter(|_| is_under_way) {
            let pid = std::process::id();
            let asks = self.asks;
            self.report(&DetachReport::Begun(BegunDetached { pid, run_id, asks }));
        }
        let Self { log, reports, .. } = self;
        // Without a report of the run, the closed socket lets the command wait for the end of this process.
        drop(reports);
        let Some(mut log) = log else { return };
        while let Ok(Some(_)) = events.next().await {
            if let Err(error) = log.keep_short(LOG_LIMIT) {
                tracing::warn!(%error, "the log of the detached run cannot be moved away");
                return;
            }
        }
    }
}

/// Whether a run works, or waits for something, from this event on.
fn works_or_waits(entry: &JournalEntry) -> bool {
    match &entry.event {
        Event::ApprovalRequested { .. } | Event::ServerIdle { .. } | Event::Progress { .. } => true,
        Event::StateTransition { transition, .. } => matches!(**transition, StateEvent::CodonStarted { .. }),
        _ => false,
    }
}

/// Returns the note that a detached run decides by itself where to continue after a codon that failed, crashed or was stopped. `None` without such a codon.
pub(crate) async fn unasked_question(hankweave: &Hankweave) -> Option<String> {
    let trouble = hankweave.trouble().await.ok()??;
    let codon = &trouble.codon;
    let happened = match (trouble.crashed, trouble.stopped) {
        (true, _) => "crashed",
        (_, true) => "was stopped",
        _ => "failed",
    };
    let goes_on = match trouble.default {
        Recovery::Session => "lets it continue in its session",
        Recovery::LastSuccess => "rolls back to the last success",
        Recovery::CrashPoint => "keeps the files and runs it again",
    };
    Some(format!(
        "{codon} {happened}; a detached run asks nothing on the terminal and {goes_on}; --recover chooses another way"
    ))
}

/// Log that is standard output and standard error of this process.
#[derive(Debug)]
struct DetachedLog {
    path: PathBuf,
    file: File,
}

impl DetachedLog {
    fn open(path: PathBuf) -> io::Result<Self> {
        RealDisk.make_private_dirs(parent(&path))?;
        let mut log = Self {
            file: open_log(&path)?,
            path,
        };
        if log.length()? > LOG_LIMIT {
            log.rotate()?;
        }
        Ok(log)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn take_output(&self) -> io::Result<()> {
        dup2_stdout(&self.file)?;
        dup2_stderr(&self.file)?;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        RealDisk.rename(&self.path, &with_suffix(&self.path, ".1"))?;
        self.file = open_log(&self.path)?;
        Ok(())
    }

    fn keep_short(&mut self, limit: u64) -> io::Result<()> {
        if self.length()? > limit {
            self.rotate()?;
            self.take_output()?;
        }
        Ok(())
    }
}

/// Opens a log for appending. Fails for a link in its place, which would lead the output elsewhere.
fn open_log(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_comes_back_from_its_line() {
        let begun = BegunDetached {
            pid: 7,
            run_id: RunId::new("1795579518454-8b2pil-3fl8f7").unwrap(),
            asks: true,
        };
        for report in [DetachReport::Moved { from: 9 }, DetachReport::Begun(begun)] {
            let line = serde_json::to_string(&report).unwrap();
            assert_eq!(serde_json::from_str::<DetachReport>(&line).unwrap(), report);
        }
    }

    // covers: CLI-80
    #[test]
    fn a_long_log_is_moved_away_and_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/detached.log");
        let mut log = DetachedLog::open(path.clone()).unwrap();
        log.file.write_all(b"long\n").unwrap();
        log.rotate().unwrap();
        log.file.write_all(b"new\n").unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), "new\n");
        assert_eq!(read(&with_suffix(&path, ".1")), "long\n");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
        assert!(DetachedLog::open(path).is_err());
        assert!(!folder.path().join("elsewhere").exists());
    }
}
