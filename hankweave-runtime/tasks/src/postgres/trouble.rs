//! Meaning of a database error for the caller: a conflict, a temporary state, or a failure that no waiting ends.
//!
//! [`Backend::run`](crate::engine::Backend::run) repeats a transaction at once after a conflict. A conflict that all attempts met, and a temporary state of the
//! server, become [`TxError::Away`], after which workers wait; everything else becomes [`TxError::Failed`], after which workers end (TASK-101).

use std::error::Error as StdError;
use std::io;

use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::engine::TxError;

/// Conflicts with other transactions.
const CONFLICTS: [SqlState; 3] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    // Two transactions have inserted a row of one key: the next attempt finds the other one's row.
    SqlState::UNIQUE_VIOLATION,
];

/// Temporary states of the server.
const TEMPORARY: [SqlState; 10] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    // The server starts, or recovers after a crash.
    SqlState::CANNOT_CONNECT_NOW,
    // As on a full local disk (TASK-117).
    SqlState::DISK_FULL,
    // This process was suspended inside a transaction.
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    SqlState::LOCK_NOT_AVAILABLE,
    // A replica has no write-ahead log of its own, from which a token takes its epoch; once promoted, it has.
    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    // The statement took longer than its limit.
    SqlState::QUERY_CANCELED,
    // The server is a replica.
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::TOO_MANY_CONNECTIONS,
];

/// Whether the transaction met another one, so that the next attempt may succeed.
pub(super) fn is_conflict(error: &Error) -> bool {
    error.code().is_some_and(|code| CONFLICTS.contains(code))
}

impl From<Error> for TxError {
    fn from(error: Error) -> Self {
        let (reason, is_temporary) = match error.as_db_error() {
            Some(database) => {
                let code = database.code();
                // Class 08 is about connections.
                let is_temporary =
                    TEMPORARY.contains(code) || CONFLICTS.contains(code) || code.code().starts_with("08");
                (database.message().to_owned(), is_temporary)
            }
            None => (chain(&error), error.is_closed() || is_broken(&error)),
        };
        match is_temporary {
            true => Self::Away(reason),
            false => Self::Failed(reason),
        }
    }
}

/// Whether the server could not be reached, or the connection broke. The library also reports a missing password, an untrusted certificate and a server
/// that does not encrypt; those are not temporary.
fn is_broken(error: &Error) -> bool {
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    // Both kinds are about content: a refused certificate, a value that cannot be sent.
    source.is_some_and(|source| {
        !matches!(
            source.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
        )
    })
}

/// Returns an error with its causes; the library's own words alone do not say why.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl From<PoolError> for TxError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => error.into(),
            // No connection became free in time, or the pool is closed.
            other => Self::Away(chain(&other)),
        }
    }
}
