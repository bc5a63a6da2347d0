//! Reads and writes of operations, as SQL statements on the connection of `writer`.

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{Holder, LockGrant, LogEntry, Resource};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::coordinator::{HeldLock, ListQuery, TaskFilter};
use crate::engine::{
    Fencing, LeaseClock, LocalTx, LocksToRemove, ReadSet, ResourceView, Tx, TxResult, read_view_locally,
};
use crate::stored::{StoredHeld, StoredTask, deleted_from, integer, line_columns, natural, read_line, time};

/// Columns of [`stored_task`].
const TASK: &str = "record, updated_at, version, status_version, fencing_token, log_seq, written_seq, cancel_requested_at, priority, after_tasks";
/// Columns of [`stored_held`].
const HELD: &str = "owner, scope, mode, token, count, acquired_at, expires_at, resource";

/// State of one transaction, which is open on the connection.
pub(super) struct SqliteTx<'a> {
    connection: &'a mut Connection,
    clock: &'a LeaseClock,
    fencing: Fencing,
}

impl<'a> SqliteTx<'a> {
    pub(super) fn new(connection: &'a mut Connection, clock: &'a LeaseClock, fencing: Fencing) -> Self {
        Self {
            connection,
            clock,
            fencing,
        }
    }

    fn execute(&mut self, sql: &str, values: impl Params) -> TxResult<()> {
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    /// Returns the first row, if there is one.
    fn first<T>(
        &mut self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> TxResult<Option<T>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.query_row(values, read).optional()?)
    }

    fn all<T>(
        &mut self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> TxResult<Vec<T>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(values, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn rows(&mut self, sql: &str, values: impl Params) -> TxResult<Vec<TaskRow>> {
        let stored = self.all(sql, values, stored_task)?;
        stored.into_iter().map(StoredTask::row).collect()
    }

    fn held_locks(&mut self, sql: &str, values: impl Params) -> TxResult<Vec<HeldLock>> {
        let stored = self.all(sql, values, stored_held)?;
        stored.into_iter().map(StoredHeld::lock).collect()
    }

    /// Returns a value of the table `numbers`.
    fn number(&mut self, name: &str) -> TxResult<u64> {
        let sql = "SELECT value FROM numbers WHERE name = ?1";
        let value = self.first(sql, [name], |row| row.get(0))?;
        Ok(natural(value.unwrap_or(0)))
    }

    /// Replaces the locks of a resource; writes only those that differ.
    fn put_held(&mut self, name: &str, before: &[LockGrant], after: &[LockGrant]) -> TxResult<()> {
        for gone in before
            .iter()
            .filter(|held| !after.iter().any(|kept| kept.token == held.token))
        {
            let sql = "DELETE FROM locks WHERE resource = ?1 AND token = ?2";
            self.execute(sql, params![name, integer(gone.token)])?;
        }
        for held in after.iter().filter(|held| !before.contains(held)) {
            let sql = "INSERT OR REPLACE INTO locks (resource, token, owner, scope, mode, count, acquired_at, expires_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let Holder { owner, scope } = &held.holder;
            let mode = held.mode.as_str();
            let (since, until) = (
                held.acquired_at.as_millis(),
                held.expires_at.map(Timestamp::as_millis),
            );
            let token = integer(held.token);
            self.execute(
                sql,
                params![name, token, &**owner, &**scope, mode, held.count, since, until],
            )?;
        }
        Ok(())
    }
}

fn stored_task(row: &Row<'_>) -> rusqlite::Result<StoredTask> {
    Ok(StoredTask {
        record: row.get(0)?,
        updated_at: row.get(1)?,
        version: row.get(2)?,
        status_version: row.get(3)?,
        fencing_token: row.get(4)?,
        log_seq: row.get(5)?,
        written_seq: row.get(6)?,
        cancel_requested_at: row.get(7)?,
        priority: row.get(8)?,
        after: row.get(9)?,
    })
}

fn stored_held(row: &Row<'_>) -> rusqlite::Result<StoredHeld> {
    Ok(StoredHeld {
        owner: row.get(0)?,
        scope: row.get(1)?,
        mode: row.get(2)?,
        token: row.get(3)?,
        count: row.get(4)?,
        acquired_at: row.get(5)?,
        expires_at: row.get(6)?,
        resource: row.get(7)?,
    })
}

/// Returns the condition of a filter, and its values.
fn condition(filter: &TaskFilter) -> (&'static str, Vec<Value>) {
    let status = filter
        .status
        .map(|status| Value::from(status.as_str().to_owned()));
    let owner = filter.owner.clone().map(Value::from);
    let sql = match (&status, &owner) {
        (None, None) => "true",
        (Some(_), None) => "status = ?",
        (None, Some(_)) => "owner = ?",
        (Some(_), Some(_)) => "status = ? AND owner = ?",
    };
    (sql, status.into_iter().chain(owner).collect())
}

impl Tx for SqliteTx<'_> {
    const ENDLESS: bool = false;

    fn fencing(&self) -> Fencing {
        self.fencing
    }

    async fn now(&mut self) -> TxResult<Timestamp> {
        Ok(self.clock.now())
    }

    async fn lease_now(&mut self) -> TxResult<Timestamp> {
        Ok(self.clock.lease_now())
    }

    async fn task(&mut self, id: &TaskId) -> TxResult<Option<TaskRow>> {
        let sql = format!("SELECT {TASK} FROM tasks WHERE id = ?1");
        let stored = self.first(&sql, [id.as_str()], stored_task)?;
        stored.map(StoredTask::row).transpose()
    }

    async fn deleted_at(&mut self, id: &TaskId) -> TxResult<Option<Timestamp>> {
        let sql = "SELECT deleted_at FROM deleted WHERE id = ?1";
        Ok(self.first(sql, [id.as_str()], |row| row.get(0))?.map(time))
    }

    async fn has_completed(&mut self, id: &TaskId) -> TxResult<Option<bool>> {
        let sql = "SELECT status = 'completed' FROM tasks WHERE id = ?1 UNION ALL
            SELECT status = 'completed' FROM deleted WHERE id = ?1";
        self.first(sql, [id.as_str()], |row| row.get(0))
    }

    async fn tasks(&mut self, query: &ListQuery) -> TxResult<Vec<TaskRow>> {
        let (condition, mut values) = condition(&query.filter);
        let sql = format!(
            "SELECT {TASK} FROM tasks WHERE {condition} ORDER BY created_at DESC, id LIMIT ? OFFSET ?"
        );
        // -1 is no limit.
        values.push(query.limit.map_or(-1, integer).into());
        values.push(integer(query.offset).into());
        self.rows(&sql, rusqlite::params_from_iter(values))
    }

    async fn count(&mut self, filter: &TaskFilter) -> TxResult<u64> {
        let (condition, values) = condition(filter);
        let sql = format!("SELECT count(*) FROM tasks WHERE {condition}");
        let number = self.first(&sql, rusqlite::params_from_iter(values), |row| row.get(0))?;
        Ok(natural(number.unwrap_or(0)))
    }

    async fn put_task(&mut self, row: &TaskRow, lines: &[LogEntry]) -> TxResult<()> {
        // A request to cancel keeps the version, and so `changed_at`, the time from which an orphan counts as unchanged.
        let sql = "INSERT INTO tasks (id, created_at, status, owner, record, updated_at, version, status_version, fencing_token, log_seq,
                written_seq, cancel_requested_at, changed_at, priority, after_tasks)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
            ON CONFLICT (id) DO UPDATE SET status = ?3, owner = ?4, record = ?5, updated_at = ?6, version = ?7, status_version = ?8,
                fencing_token = ?9, log_seq = ?10, written_seq = ?11, cancel_requested_at = ?12,
                changed_at = CASE version WHEN ?7 THEN changed_at ELSE ?13 END";
        let (stored, record) = (StoredTask::of(row)?, &row.record);
        let values = params![
            row.id().as_str(),
            record.created_at().as_millis(),
            record.status().as_str(),
            record.owner(),
            stored.record,
            stored.updated_at,
            stored.version,
            stored.status_version,
            stored.fencing_token,
            stored.log_seq,
            stored.written_seq,
            stored.cancel_requested_at,
            self.clock.lease_now().as_millis(),
            stored.priority,
            stored.after,
        ];
        self.execute(sql, values)?;
        for line in lines {
            let (seq, text) = line_columns(line)?;
            let sql = "INSERT INTO lines (task, seq, line) VALUES (?1, ?2, ?3)";
            self.execute(sql, params![row.id().as_str(), seq, text])?;
        }
        Ok(())
    }

    async fn remove_task(&mut self, row: &TaskRow) -> TxResult<()> {
        let id = row.id().as_str();
        self.execute("DELETE FROM tasks WHERE id = ?1", [id])?;
        self.execute("DELETE FROM lines WHERE task = ?1", [id])?;
        let at = row.updated_at.as_millis();
        self.execute(
            "INSERT INTO deleted (id, deleted_at, status) VALUES (?1, ?2, ?3)",
            params![id, at, deleted_from(row)],
        )
    }

    async fn claimable(&mut self, owner: Option<&str>, limit: u32) -> TxResult<Vec<TaskId>> {
        let sql = "SELECT id FROM tasks AS task WHERE status = 'pending' AND (?1 IS NULL OR owner = ?1) AND NOT EXISTS (
                SELECT 1 FROM locks WHERE resource = 'task:' || id AND (expires_at IS NULL OR expires_at >= ?2))
            AND NOT EXISTS (SELECT 1 FROM json_each(task.after_tasks) AS earlier
                WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = earlier.value AND status = 'completed')
                AND NOT EXISTS (SELECT 1 FROM deleted WHERE id = earlier.value AND status = 'completed'))
            ORDER BY priority DESC, created_at, id LIMIT ?3";
        let now = self.clock.lease_now().as_millis();
        let ids: Vec<String> = self.all(sql, params![owner, now, limit], |row| row.get(0))?;
        ids.into_iter().map(crate::stored::read_id).collect()
    }

    async fn orphans(&mut self, before: Timestamp) -> TxResult<Vec<TaskRow>> {
        let sql = format!(
            "SELECT {TASK} FROM tasks WHERE status = 'running' AND (changed_at < ?1 OR cancel_requested_at IS NOT NULL) AND NOT EXISTS (
                SELECT 1 FROM locks WHERE resource = 'task:' || id AND (expires_at IS NULL OR expires_at >= ?2))
            ORDER BY changed_at"
        );
        let now = self.clock.lease_now().as_millis();
        self.rows(&sql, params![before.as_millis(), now])
    }

    async fn log_lines(&mut self, id: &TaskId, after_seq: u64) -> TxResult<Vec<LogEntry>> {
        let sql = "SELECT line FROM lines WHERE task = ?1 AND seq > ?2 ORDER BY seq";
        let lines: Vec<String> = self.all(sql, params![id.as_str(), integer(after_seq)], |row| row.get(0))?;
        lines.iter().map(|line| read_line(line)).collect()
    }

    async fn unwritten(&mut self, limit: u32) -> TxResult<Vec<TaskRow>> {
        let sql = format!("SELECT {TASK} FROM tasks WHERE written_seq < log_seq ORDER BY id LIMIT ?1");
        self.rows(&sql, [limit])
    }

    async fn mark_written(&mut self, id: &TaskId, seq: u64) -> TxResult<()> {
        let sql = "UPDATE tasks SET written_seq = ?2 WHERE id = ?1 AND written_seq < ?2";
        self.execute(sql, params![id.as_str(), integer(seq)])
    }

    async fn read_view(&mut self, name: &str, read_set: ReadSet<'_>) -> TxResult<ResourceView> {
        read_view_locally(self, name, read_set).await
    }

    async fn put_resource(&mut self, name: &str, before: &Resource, after: Resource) -> TxResult<()> {
        self.put_held(name, &before.held, &after.held)?;
        // A resource has a row as long as it has a holder.
        let has_row = !before.held.is_empty();
        let is_changed = (before.version, before.written) != (after.version, after.written);
        if after.held.is_empty() {
            let sql = "UPDATE numbers SET value = ?1 WHERE name = 'forgotten' AND value < ?1";
            self.execute(sql, [integer(after.version)])?;
            self.execute("DELETE FROM resources WHERE name = ?1", [name])
        } else if is_changed || !has_row {
            let sql = "INSERT OR REPLACE INTO resources (name, version, written) VALUES (?1, ?2, ?3)";
            self.execute(sql, params![name, integer(after.version), integer(after.written)])
        } else {
            Ok(())
        }
    }

    async fn held(&mut self) -> TxResult<Vec<HeldLock>> {
        let sql = format!("SELECT {HELD} FROM locks ORDER BY resource, token");
        self.held_locks(&sql, [])
    }

    async fn names_with(&mut self, locks: LocksToRemove<'_>) -> TxResult<Vec<String>> {
        match locks {
            LocksToRemove::Expired(now) => {
                let sql = "SELECT DISTINCT resource FROM locks WHERE expires_at < ?1 ORDER BY resource";
                self.all(sql, [now.as_millis()], |row| row.get(0))
            }
            LocksToRemove::OfOwner(owner) => {
                let sql = "SELECT DISTINCT resource FROM locks WHERE owner = ?1 ORDER BY resource";
                self.all(sql, [owner], |row| row.get(0))
            }
        }
    }
}

impl LocalTx for SqliteTx<'_> {
    fn read_resource(&mut self, name: &str) -> TxResult<Resource> {
        let sql = "SELECT version, written FROM resources WHERE name = ?1";
        let known = self.first(sql, [name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((version, written)) = known else {
            let version = self.number("forgotten")?;
            return Ok(Resource {
                version,
                ..Resource::default()
            });
        };
        let sql = format!("SELECT {HELD} FROM locks WHERE resource = ?1 ORDER BY token");
        let held = self.held_locks(&sql, [name])?;
        Ok(Resource {
            held: held.into_iter().map(|lock| lock.held).collect(),
            version: natural(version),
            written: natural(written),
        })
    }

    fn next_token(&mut self) -> TxResult<u64> {
        let sql = "UPDATE numbers SET value = value + 1 WHERE name = 'token' RETURNING value";
        let token = self.first(sql, [], |row| row.get(0))?;
        Ok(natural(token.unwrap_or(0)))
    }

    fn held_behind(&mut self, name: &str, holder: &Holder) -> TxResult<Option<String>> {
        let sql = "SELECT resource FROM locks WHERE owner = ?1 AND scope = ?2 AND resource >= ?3
                AND (expires_at IS NULL OR expires_at >= ?4) ORDER BY resource LIMIT 1";
        let now = self.clock.lease_now().as_millis();
        let values = params![&*holder.owner, &*holder.scope, name, now];
        // The query includes `name`, because a holder of `name` gets `None`.
        let first: Option<String> = self.first(sql, values, |row| row.get(0))?;
        Ok(first.filter(|first| first != name))
    }
}
