//! Meaning of a database error for the caller.

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::engine::TxError;

/// Errors of a collision with others; another attempt may succeed.
const IN_THE_WAY: [SqlState; 3] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::UNIQUE_VIOLATION,
];

/// Errors that may pass: the server starts, stops, waits, has no space (TASK-117) or too many clients, or only follows another server.
const LATER: [SqlState; 10] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::DISK_FULL,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    SqlState::QUERY_CANCELED,
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::TOO_MANY_CONNECTIONS,
];

pub(super) fn is_in_the_way(error: &Error) -> bool {
    error.code().is_some_and(|code| IN_THE_WAY.contains(code))
}

impl From<Error> for TxError {
    fn from(error: Error) -> Self {
        let Some(database) = error.as_db_error() else {
            return Self::Away(chain(&error));
        };
        let reason = database.message().to_owned();
        let code = database.code();
        // Class 08 is about connections.
        if LATER.contains(code) || IN_THE_WAY.contains(code) || code.code().starts_with("08") {
            Self::Away(reason)
        } else {
            Self::Failed(reason)
        }
    }
}

/// Returns an error with its causes; the library's own message alone does not give the reason.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut beneath = error.source();
    while let Some(source) = beneath {
        text = format!("{text}: {source}");
        beneath = source.source();
    }
    text
}

impl From<PoolError> for TxError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            other => Self::Away(other.to_string()),
        }
    }
}
