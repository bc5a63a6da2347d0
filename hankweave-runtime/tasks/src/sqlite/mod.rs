//! Registry of one machine: tasks and locks in one SQLite file, with nothing to install (TASK-26, TASK-36).
//!
//! SQLite's write-ahead log has `synchronous=FULL`: an operation is answered once it is on the disk. One thread has the connection. While this thread writes
//! one transaction, up to [`MOST_AT_ONCE`](writer::MOST_AT_ONCE) operations gather for the next transaction and share its sync.

mod place;
mod schema;
#[cfg(test)]
mod tests;
mod tx;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::Clock;
use hankweave_task_model::TaskError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::coordinator::Hints;
use crate::engine::{Backend, Fencing, LeaseClock, Transaction};
use writer::{QueuedOperation, SqliteWriter, WriterJob};

/// Maximum number of queued operations; callers wait for room.
const MOST_WAITING: usize = 1024;

/// Registry in an SQLite file, shared by all processes of one machine.
pub struct Sqlite {
    /// `None` once the registry is closed.
    job_sender: Mutex<Option<mpsc::Sender<Box<dyn WriterJob>>>>,
    /// Thread of the connection; `None` once the registry is closed.
    writer: Mutex<Option<JoinHandle<()>>>,
    hints: Arc<Hints>,
}

impl Sqlite {
    /// Version of the tables.
    pub const FORMAT: usize = schema::MIGRATIONS.len();

    /// Opens the file, or creates it in an existing folder. Leases are measured by the machine's uptime, which all its processes share; records get
    /// the wall time of `clock`.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::RegistryNotInitialized`] for a file on another machine, a file that is no registry or has a later version, and a file that
    /// cannot be opened.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, TaskError> {
        Self::open_with(path, clock, Fencing::Checked).await
    }

    pub(crate) async fn open_with(
        path: &Path,
        clock: Arc<dyn Clock>,
        fencing: Fencing,
    ) -> Result<Self, TaskError> {
        let path = path.to_owned();
        let opened = Blocking::Threads.run(move || schema::open(&path, clock)).await?;
        Ok(Self::start(opened, fencing))
    }

    /// Opens the file with another limit for waiting on other processes that write.
    #[cfg(test)]
    pub(crate) fn open_with_busy_timeout(
        path: &Path,
        clock: Arc<dyn Clock>,
        timeout: std::time::Duration,
    ) -> Self {
        let opened = schema::open(path, clock).unwrap();
        opened.0.busy_timeout(timeout).unwrap();
        Self::start(opened, Fencing::Checked)
    }

    /// Starts the thread for an open connection.
    fn start((connection, clock): (Connection, LeaseClock), fencing: Fencing) -> Self {
        let hints = Arc::new(Hints::default());
        let (job_sender, jobs) = mpsc::channel(MOST_WAITING);
        let writer = SqliteWriter {
            connection,
            clock,
            fencing,
            hints: hints.clone(),
        };
        let writer = Blocking::Threads.spawn(writer.work(jobs));
        Self {
            job_sender: Mutex::new(Some(job_sender)),
            writer: Mutex::new(Some(writer)),
            hints,
        }
    }

    fn job_sender(&self) -> Option<mpsc::Sender<Box<dyn WriterJob>>> {
        self.job_sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").finish_non_exhaustive()
    }
}

impl Backend for Sqlite {
    async fn run<O: Transaction>(&self, operation: O) -> Result<O::Output, TaskError> {
        let closed = || TaskError::LockBackendUnavailable("it is closed".to_owned());
        let (reply, result) = oneshot::channel();
        let job = Box::new(QueuedOperation::new(operation, reply));
        let job_sender = self.job_sender().ok_or_else(closed)?;
        job_sender.send(job).await.map_err(|_| closed())?;
        // The thread ends after the drop of the last sender. A sender kept until the answer would delay this, and so `close`.
        drop(job_sender);
        result.await.unwrap_or_else(|_| Err(closed()))
    }

    fn hints(&self) -> &Hints {
        &self.hints
    }

    async fn close(&self) {
        self.job_sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // The thread ends after the last queued operation. If it panicked, the callers of those operations have got an error.
            let _ = writer.await;
        }
    }
}
