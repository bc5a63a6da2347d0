//! Facts about an execution directory that commands look up: whether it is one, which process works in it and whether that is suspended, and the last
//! sign of life of a run. Nothing of the record is written, except that removed files are put back.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_client::RunAddress;
use hankweave_core::codon::CodonExecution;
use hankweave_core::discovery::{STATE_DIR, ServerLockRecord};
use hankweave_core::time::Timestamp;
use hankweave_runtime::instance_lock::{self, LockError, last_heartbeat, live_record};
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use hankweave_runtime::world::disk::{Disk, FileKind, RealDisk};
use hankweave_runtime::world::identity::SystemIdentity;
use hankweave_runtime::{ExecutionDir, inspect};
use tokio::time::sleep;

use crate::hints::HintCommands;
use crate::put_back::put_back;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::report::RunProcess;
use crate::terminal::suspended_run::SuspendedRun;

/// Interval at which a client checks whether its run is suspended.
const SUSPENSION_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the state directory of an execution directory, for commands that only read. Files that an agent removed before its run was killed are put
/// back first.
pub(crate) fn existing_state_dir(execution: &Path) -> Result<PathBuf, CliError> {
    let state_dir = execution.join(STATE_DIR);
    put_back(execution);
    let metadata = RealDisk.metadata(&state_dir);
    if metadata.is_ok_and(|metadata| metadata.kind == FileKind::Directory) {
        return Ok(state_dir);
    }
    let message = format!(
        "`{}` is no execution directory: it has no {}",
        execution.display(),
        STATE_DIR
    );
    let hints = HintCommands::about(execution);
    let hint = match hints.knows_the_hank() {
        true => format!(
            "`{}` starts the first run there; -e DIR names another directory",
            hints.run()
        ),
        false if execution != Path::new(".") => {
            "name another one with -e DIR; a run in it makes one".to_owned()
        }
        false => "name it with -e DIR".to_owned(),
    };
    Err(CliError::new(CliErrorKind::Input, message).hint(hint))
}

/// Whether a process works in this execution directory, according to its lock file.
pub(crate) fn is_served(execution: &Path) -> bool {
    holder(execution).is_some()
}

/// Returns what the process of the newest run does. `state` is a state file without its directory, which does not show whether a process exists: then one
/// is assumed to work.
pub(crate) fn process_of(state: Option<&Path>, execution: &Path) -> RunProcess {
    match (state, holder(execution)) {
        (Some(_), _) => RunProcess::Working,
        (None, None) => RunProcess::None,
        (None, Some(holder)) if SystemIdentity.is_suspended(holder.pid) => RunProcess::Suspended(holder.pid),
        (None, Some(_)) => RunProcess::Working,
    }
}

/// Returns the lock record of the process that works in this execution directory.
pub(crate) fn holder(execution: &Path) -> Option<ServerLockRecord> {
    live_record(&RealDisk, &SystemIdentity, &execution.join(STATE_DIR))
}

/// Returns when this execution directory was copied from one that a run worked in; `None` where it is no such copy.
pub(crate) fn copied_at(execution: &Path) -> Option<Timestamp> {
    instance_lock::copied_at(&RealDisk, &SystemIdentity, &execution.join(STATE_DIR))
}

/// Returns advice about a process that asks a question in its terminal before it begins.
pub(crate) fn answer_there(pid: u32) -> String {
    match SystemIdentity.is_suspended(pid) {
        // A `kill -CONT` would not help: the process would read its terminal in the background, which suspends it again.
        true => format!(
            "it asks a question in its terminal, and is suspended: `fg` there asks again, `kill -KILL {pid}` ends it; nothing has begun"
        ),
        false => format!(
            "it asks a question in its terminal: answer there, or end it with `kill {pid}`; nothing has begun"
        ),
    }
}

/// Returns the advice of [`answer_there`] about the process that works in an execution directory; `None` if the process asks no question.
pub(crate) fn question_there(execution: &Path) -> Option<String> {
    let asking = holder(execution).filter(|holder| holder.asking)?;
    Some(answer_there(asking.pid))
}

/// Logs a failure to note in the lock file whether a question is open. It is no reason to stop: if the lock is lost, the next step of the run finds out.
pub(crate) fn noted_question(noted: Result<(), LockError>) {
    if let Err(error) = noted {
        tracing::debug!("the lock file was not written: {error}");
    }
}

/// Returns the last sign of life of the run that has worked in this execution directory: its newest event, or the heartbeat in the lock file that a
/// killed process leaves.
pub(crate) fn last_sign(execution: &Path) -> Option<Timestamp> {
    let heartbeat = last_heartbeat(&RealDisk, &execution.join(STATE_DIR), SystemClock.now());
    inspect::last_sign(&RealDisk, &ExecutionDir::new(execution.to_owned()), heartbeat)
}

/// Returns the shortest time that an open codon can have worked if its process no longer exists; `None` if the run left no sign of life.
pub(crate) fn lived(execution: &Path, codon: &CodonExecution) -> Option<Duration> {
    let dir = ExecutionDir::new(execution.to_owned());
    Some(inspect::lived(&RealDisk, &dir, codon, last_sign(execution)?))
}

/// Returns the run that works in this execution directory, if it is suspended, as by Ctrl+Z; it counts as suspended since its last sign of life.
pub(crate) fn suspended(execution: &Path) -> Option<SuspendedRun> {
    let pid = holder(execution)?.pid;
    let since = || last_sign(execution).unwrap_or_else(|| SystemClock.now());
    SystemIdentity
        .is_suspended(pid)
        .then(|| SuspendedRun::new(pid, since()))
}

/// Watches whether a run is suspended, and reports each change. Never returns: the caller drops it when it no longer follows the run.
pub(crate) async fn watch_suspension(
    execution: Option<&Path>,
    mut report: impl FnMut(Option<SuspendedRun>),
) -> Infallible {
    let Some(execution) = execution else {
        // The run is on another machine, and only that machine knows.
        return std::future::pending().await;
    };
    let mut before: Option<SuspendedRun> = None;
    loop {
        sleep(SUSPENSION_INTERVAL).await;
        // A suspension that was found before keeps its time; another one counts from now on.
        let found = suspended(execution).map(|found| match before {
            Some(known) if known.pid() == found.pid() => known,
            _ => SuspendedRun::new(found.pid(), SystemClock.now()),
        });
        if found != before {
            before = found;
            report(found);
        }
    }
}

/// A worker of which the process, its run, or both are suspended, as by Ctrl+Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SuspendedWorker {
    /// Process to continue: the worker, or its run if only the run is suspended.
    pub(crate) pid: u32,
    /// Process of the worker's run.
    pub(crate) run: u32,
    /// Whether the run is suspended.
    pub(crate) with_run: bool,
}

impl SuspendedWorker {
    /// Whether only the run is suspended.
    pub(crate) const fn is_run(&self) -> bool {
        self.pid == self.run
    }
}

/// Returns the worker of the run in this execution directory if the worker or the run is suspended.
pub(crate) fn suspended_worker(execution: &Path) -> Option<SuspendedWorker> {
    let run = holder(execution)?.pid;
    let with_run = SystemIdentity.is_suspended(run);
    // A run of a task is the child of its worker.
    let worker = SystemIdentity.parent(run);
    let worker = worker.filter(|pid| SystemIdentity.is_suspended(*pid));
    let pid = worker.or(with_run.then_some(run))?;
    Some(SuspendedWorker { pid, run, with_run })
}

/// Whether a run is live in the directory and takes clients.
pub(crate) fn takes_clients(execution: &Path) -> bool {
    RunAddress::Execution(execution.to_owned()).is_there()
}
