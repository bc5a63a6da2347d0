//! Opening of a registry file: its tables, their migration in an older file, and the lease time of the machine's start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::Clock;
use hankweave_task_model::TaskError;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};

use crate::engine::{LeaseClock, start_of_machine};

/// Application id `hank`, which distinguishes a registry from files of other programs.
const APPLICATION: i32 = 0x6861_6E6B;

/// Time limit of waiting for another process's transaction (TASK-101).
const BUSY: Duration = Duration::from_secs(5);

/// Migrations from each version of the tables to the next one; the file stores the number of those applied.
pub(super) const MIGRATIONS: [&str; 2] = ["
CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO numbers VALUES ('token', 0), ('forgotten', 0);
CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    owner TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    status_version INTEGER NOT NULL,
    fencing_token INTEGER NOT NULL,
    log_seq INTEGER NOT NULL,
    written_seq INTEGER NOT NULL,
    cancel_requested_at INTEGER,
    record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_status ON tasks (status, created_at, id);
CREATE INDEX tasks_owner ON tasks (owner);
CREATE INDEX tasks_changed ON tasks (status, updated_at);
CREATE INDEX tasks_created ON tasks (created_at);
CREATE INDEX tasks_unwritten ON tasks (id) WHERE written_seq < log_seq;
CREATE TABLE lines (
    task TEXT NOT NULL,
    seq INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE deleted (id TEXT PRIMARY KEY, deleted_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE resources (name TEXT PRIMARY KEY, version INTEGER NOT NULL, written INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE locks (
    resource TEXT NOT NULL,
    token INTEGER NOT NULL,
    owner TEXT NOT NULL,
    scope TEXT NOT NULL,
    mode TEXT NOT NULL,
    count INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (resource, token)
) STRICT, WITHOUT ROWID;
CREATE INDEX locks_holder ON locks (owner, scope, resource);
", "
CREATE TABLE boot (id TEXT NOT NULL, started_at INTEGER NOT NULL) STRICT;
ALTER TABLE tasks ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN after_tasks TEXT NOT NULL DEFAULT '[]';
ALTER TABLE deleted ADD COLUMN status TEXT NOT NULL DEFAULT '';
UPDATE tasks SET changed_at = updated_at;
DROP INDEX tasks_changed;
CREATE INDEX tasks_changed ON tasks (status, changed_at);
CREATE INDEX tasks_claim ON tasks (status, priority DESC, created_at, id);
"];

/// Opens a registry and migrates its tables.
pub(super) fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<(Connection, LeaseClock), TaskError> {
    super::place::check(path)?;
    let failed =
        |reason: String| TaskError::RegistryNotInitialized(format!("`{}`: {reason}", path.display()));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(path, flags).map_err(|error| failed(error.to_string()))?;
    match prepare(&mut connection, clock) {
        Ok(Ok(clock)) => Ok((connection, clock)),
        Ok(Err(reason)) => Err(failed(reason)),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Sets the connection up and returns its clock; the inner error is the reason why the file cannot be used.
fn prepare(
    connection: &mut Connection,
    clock: Arc<dyn Clock>,
) -> rusqlite::Result<Result<LeaseClock, String>> {
    connection.busy_timeout(BUSY)?;
    // Before the journal mode, which is written into the file: a file of another program must stay unchanged.
    if let Err(reason) = migrate(connection)? {
        return Ok(Err(reason));
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.set_prepared_statement_cache_capacity(64);
    let started_at = start_of_boot(connection, &*clock)?;
    Ok(Ok(LeaseClock::started_at(clock, started_at)))
}

/// Returns the lease time of the machine's start, which the first process of a boot records (TASK-100). It is derived from the wall time, or from
/// the latest time in the registry if that is later. `None` if the system has no id or no clock of a boot.
fn start_of_boot(connection: &mut Connection, clock: &dyn Clock) -> rusqlite::Result<Option<Timestamp>> {
    let Some(boot) = clock.boot_id() else {
        return Ok(None);
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let known = transaction
        .query_row("SELECT started_at FROM boot WHERE id = ?1", [&boot], |row| {
            row.get(0)
        })
        .optional()?;
    if let Some(known) = known {
        return Ok(Some(Timestamp::from_millis(known)));
    }
    let latest = "SELECT max(coalesce((SELECT max(changed_at) FROM tasks), 0), coalesce((SELECT max(acquired_at) FROM locks), 0))";
    let latest = Timestamp::from_millis(transaction.query_row(latest, [], |row| row.get(0))?);
    let started_at = start_of_machine(clock, clock.now().max(latest));
    if let Some(started_at) = started_at {
        transaction.execute("DELETE FROM boot", [])?;
        transaction.execute(
            "INSERT INTO boot VALUES (?1, ?2)",
            params![boot, started_at.as_millis()],
        )?;
    }
    transaction.commit()?;
    Ok(started_at)
}

/// Migrates the tables; the inner error is the reason why the file cannot be used.
fn migrate(connection: &mut Connection) -> rusqlite::Result<Result<(), String>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number = |name: &str| transaction.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: u32 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION && (application != 0 || version != 0 || tables > 0) {
        return Ok(Err("it is the database of another program".to_owned()));
    }
    let applied = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(missing) = MIGRATIONS.get(applied..) else {
        return Ok(Err(format!(
            "it has version {version} and was made by a later hankweave; update this one"
        )));
    };
    for script in missing {
        transaction.execute_batch(script)?;
    }
    if !missing.is_empty() {
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i32)?;
    }
    transaction.commit()?;
    Ok(Ok(()))
}
