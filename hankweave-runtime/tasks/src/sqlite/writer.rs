//! Thread that owns the connection. It takes all waiting operations from a queue, up to [`MOST_AT_ONCE`], performs them in one transaction, and answers
//! their callers after the commit.

use std::sync::Arc;

use futures_util::FutureExt;
use hankweave_runtime::world::process::uninterrupted;
use hankweave_task_model::TaskError;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::tx::SqliteTx;
use crate::coordinator::Hints;
use crate::engine::{Fencing, LeaseClock, Transaction, TxError, TxResult, error_of};

/// Number of operations in one transaction: enough to share a sync among all that wait, few enough for a quick answer.
pub(super) const MOST_AT_ONCE: usize = 256;

/// Operation in the queue, whatever its output.
pub(super) trait WriterJob: Send {
    fn writes(&self) -> bool;
    /// Performs the operation and stores its result, also a refusal. An error means that the whole transaction failed.
    fn perform(&mut self, tx: &mut SqliteTx<'_>) -> TxResult<()>;
    /// Sends the result to the caller, once it is durable. Returns whether to notify listeners.
    fn answer(self: Box<Self>) -> bool;
    /// Sends the error of a failed transaction to the caller.
    fn fail(self: Box<Self>, trouble: TxError);
}

/// Operation with the caller that waits for its result.
pub(super) struct QueuedOperation<O: Transaction> {
    operation: O,
    result: Result<O::Output, TaskError>,
    reply: oneshot::Sender<Result<O::Output, TaskError>>,
}

impl<O: Transaction> QueuedOperation<O> {
    pub(super) fn new(operation: O, reply: oneshot::Sender<Result<O::Output, TaskError>>) -> Self {
        let result = Err(TaskError::LockBackendUnavailable(
            "it was not performed".to_owned(),
        ));
        Self {
            operation,
            result,
            reply,
        }
    }
}

impl<O: Transaction> WriterJob for QueuedOperation<O> {
    fn writes(&self) -> bool {
        O::WRITES
    }

    fn perform(&mut self, tx: &mut SqliteTx<'_>) -> TxResult<()> {
        let result = self.operation.perform(tx).now_or_never();
        // SQLite answers before the call returns, so an operation never has to wait.
        match result.unwrap_or_else(|| Err(TxError::Away("SQLite is busy".to_owned()))) {
            Ok(output) => self.result = Ok(output),
            // A refused operation has written nothing, so the transaction continues.
            Err(TxError::Refused(error)) => self.result = Err(error),
            Err(trouble) => return Err(trouble),
        }
        Ok(())
    }

    fn answer(self: Box<Self>) -> bool {
        let notifies = O::WRITES && self.result.is_ok() && self.operation.notifies();
        // A caller that has stopped waiting sees the result at its next read.
        let _ = self.reply.send(self.result);
        notifies
    }

    fn fail(self: Box<Self>, trouble: TxError) {
        let error = error_of(&self.operation, trouble);
        let _ = self.reply.send(Err(error));
    }
}

/// The connection, with the parts that its transactions need.
pub(super) struct SqliteWriter {
    pub(super) connection: Connection,
    pub(super) clock: LeaseClock,
    pub(super) fencing: Fencing,
    pub(super) hints: Arc<Hints>,
}

impl SqliteWriter {
    /// Performs operations until all senders are dropped.
    pub(super) async fn work(mut self, mut waiting: mpsc::Receiver<Box<dyn WriterJob>>) {
        let mut jobs = Vec::new();
        while waiting.recv_many(&mut jobs, MOST_AT_ONCE).await > 0 {
            self.perform_all(&mut jobs);
        }
    }

    /// Performs all operations in one transaction. If that fails, performs each in its own transaction, so that none fails because of another.
    fn perform_all(&mut self, jobs: &mut Vec<Box<dyn WriterJob>>) {
        match self.transact(jobs) {
            Ok(()) => self.answer(jobs.drain(..)),
            Err(_) if jobs.len() > 1 => {
                for job in jobs.drain(..) {
                    self.perform_alone(job);
                }
            }
            Err(trouble) => jobs.drain(..).for_each(|job| job.fail(copy_of(&trouble))),
        }
    }

    fn perform_alone(&mut self, job: Box<dyn WriterJob>) {
        let mut job = [job];
        let result = self.transact(&mut job);
        let [job] = job;
        match result {
            Ok(()) => self.answer([job]),
            Err(trouble) => job.fail(trouble),
        }
    }

    /// Sends the results to all callers, then a hint to the listeners if an operation asks for one.
    fn answer(&self, jobs: impl IntoIterator<Item = Box<dyn WriterJob>>) {
        let mut notifies = false;
        for job in jobs {
            notifies |= job.answer();
        }
        if notifies {
            self.hints.notify();
        }
    }

    /// Performs these operations in one transaction.
    fn transact(&mut self, jobs: &mut [Box<dyn WriterJob>]) -> TxResult<()> {
        // A process that is suspended during a transaction would keep all other processes from writing.
        uninterrupted(|| self.begin_perform_commit(jobs))
    }

    fn begin_perform_commit(&mut self, jobs: &mut [Box<dyn WriterJob>]) -> TxResult<()> {
        let writes = jobs.iter().any(|job| job.writes());
        let begin = if writes { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.execute(begin)?;
        let result = self.perform(jobs).and_then(|()| self.execute("COMMIT"));
        if !self.connection.is_autocommit() {
            // If the rollback fails, the next opening of the file rolls back.
            let _ = self.execute("ROLLBACK");
        }
        result
    }

    fn perform(&mut self, jobs: &mut [Box<dyn WriterJob>]) -> TxResult<()> {
        let mut tx = SqliteTx::new(&mut self.connection, &self.clock, self.fencing);
        jobs.iter_mut().try_for_each(|job| job.perform(&mut tx))
    }

    fn execute(&self, sql: &str) -> TxResult<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.execute([])?;
        Ok(())
    }
}

fn copy_of(trouble: &TxError) -> TxError {
    match trouble {
        TxError::Refused(error) => TxError::Refused(error.clone()),
        TxError::Away(reason) => TxError::Away(reason.clone()),
        TxError::Failed(reason) => TxError::Failed(reason.clone()),
    }
}

impl From<rusqlite::Error> for TxError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // Temporary states: another process has the file, or the disk is full or faulty (TASK-101, TASK-117).
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OperationInterrupted
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure,
            ) => Self::Away(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}
