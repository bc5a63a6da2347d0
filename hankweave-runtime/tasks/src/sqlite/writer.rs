//! Thread that owns the connection.

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

/// Operation that waits for the thread.
pub(super) trait WriterJob: Send {
    fn writes(&self) -> bool;
    /// Performs the operation. An error means that the whole transaction failed.
    fn perform(&mut self, tx: &mut SqliteTx<'_>) -> TxResult<()>;
    /// Sends the result to the caller, once it is durable. Returns whether to notify listeners.
    fn answer(self: Box<Self>) -> bool;
    fn fail(self: Box<Self>, trouble: TxError);
}

pub(super) struct Waiting<O: Transaction> {
    operation: O,
    done: Result<O::Output, TaskError>,
    answer: oneshot::Sender<Result<O::Output, TaskError>>,
}

impl<O: Transaction> Waiting<O> {
    pub(super) fn new(operation: O, answer: oneshot::Sender<Result<O::Output, TaskError>>) -> Self {
        let done = Err(TaskError::LockBackendUnavailable(
            "it was not performed".to_owned(),
        ));
        Self {
            operation,
            done,
            answer,
        }
    }
}

impl<O: Transaction> WriterJob for Waiting<O> {
    fn writes(&self) -> bool {
        O::WRITES
    }

    fn perform(&mut self, tx: &mut SqliteTx<'_>) -> TxResult<()> {
        let done = self.operation.perform(tx).now_or_never();
        // SQLite answers before the call returns, so an operation never has to wait.
        match done.unwrap_or_else(|| Err(TxError::Away("SQLite is busy".to_owned()))) {
            Ok(output) => self.done = Ok(output),
            // A refusal comes before any write.
            Err(TxError::Refused(error)) => self.done = Err(error),
            Err(trouble) => return Err(trouble),
        }
        Ok(())
    }

    fn answer(self: Box<Self>) -> bool {
        let notifies = O::WRITES && self.done.is_ok() && self.operation.notifies();
        // A caller that has stopped waiting sees the result at its next read.
        let _ = self.answer.send(self.done);
        notifies
    }

    fn fail(self: Box<Self>, trouble: TxError) {
        let error = error_of(&self.operation, trouble);
        let _ = self.answer.send(Err(error));
    }
}

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
            self.carry_out(&mut jobs);
        }
    }

    /// Performs all operations in one transaction. If that fails, performs each in its own transaction, so that none fails because of another.
    fn carry_out(&mut self, jobs: &mut Vec<Box<dyn WriterJob>>) {
        match self.together(jobs) {
            Ok(()) => self.answer(jobs.drain(..)),
            Err(_) if jobs.len() > 1 => {
                for job in jobs.drain(..) {
                    self.alone(job);
                }
            }
            Err(trouble) => jobs.drain(..).for_each(|job| job.fail(again(&trouble))),
        }
    }

    fn alone(&mut self, job: Box<dyn WriterJob>) {
        let mut job = [job];
        let done = self.together(&mut job);
        let [job] = job;
        match done {
            Ok(()) => self.answer([job]),
            Err(trouble) => job.fail(trouble),
        }
    }

    fn answer(&self, jobs: impl IntoIterator<Item = Box<dyn WriterJob>>) {
        let mut notifies = false;
        for job in jobs {
            notifies |= job.answer();
        }
        if notifies {
            self.hints.notify();
        }
    }

    fn together(&mut self, jobs: &mut [Box<dyn WriterJob>]) -> TxResult<()> {
        // A process that is suspended during a transaction would keep all others from writing.
        uninterrupted(|| self.transaction(jobs))
    }

    fn transaction(&mut self, jobs: &mut [Box<dyn WriterJob>]) -> TxResult<()> {
        let writes = jobs.iter().any(|job| job.writes());
        let begin = if writes { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.execute(begin)?;
        let done = self.perform(jobs).and_then(|()| self.execute("COMMIT"));
        if !self.connection.is_autocommit() {
            // If the rollback fails, the next opening of the file rolls back.
            let _ = self.execute("ROLLBACK");
        }
        done
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

fn again(trouble: &TxError) -> TxError {
    match trouble {
        TxError::Refused(error) => TxError::Refused(error.clone()),
        TxError::Away(reason) => TxError::Away(reason.clone()),
        TxError::Failed(reason) => TxError::Failed(reason.clone()),
    }
}

impl From<rusqlite::Error> for TxError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // Another process has the file, or the disk is full or faulty. Each may pass (TASK-101, TASK-117).
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
