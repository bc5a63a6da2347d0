//! Reads and writes of operations, as SQL statements. Reads that belong together are sent together. Writes are queued, and sent together with the commit or in
//! front of the next read.

use futures_util::future::{join_all, try_join_all};
use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{Holder, LockGrant, LogEntry, Resource};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::lease::ConnectionLease;
use super::trouble::is_conflict;
use crate::coordinator::{HeldLock, ListQuery, TaskFilter};
use crate::engine::{Fencing, LocksToRemove, ReadSet, ResourceView, Tx, TxError, TxResult};
use crate::stored::{
    StoredHeld, StoredTask, deleted_from, integer, line_columns, natural, read_id, read_line, time,
};

/// Columns of [`stored_task`].
const TASK: &str = "record, updated_at, version, status_version, fencing_token, log_seq, written_seq, cancel_requested_at, priority, after_tasks";
/// Columns of [`stored_held`].
const HELD: &str = "owner, scope, mode, token, count, acquired_at, expires_at, resource";
/// SQL for the database's clock, in Unix milliseconds.
macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}
const CLOCK: &str = concat!("SELECT ", now!());
/// Query for a resource with its holders: one row for each holder, or one row without a holder. Each row repeats the resource's version and `written`.
/// Nothing is stored of a resource without a holder: its version is the highest one of all such resources, the number `forgotten`, so that no version
/// repeats (TASK-14).
const RESOURCE: &str = concat!(
    "SELECT owner, scope, mode, token, count, acquired_at, expires_at, resource,
        coalesce(version, value) AS version, coalesce(written, 0) AS written, ",
    now!(),
    " AS now FROM numbers LEFT JOIN locks ON resource = $1 WHERE name = 'forgotten' ORDER BY token"
);
const DELETED: &str = "SELECT deleted_at FROM deleted WHERE id = $1";
/// Query for a new token. It consists of an epoch, above 40 bits, and a number from a sequence. The epoch is the timeline of the server plus a number
/// from the table. A promoted replica starts a new timeline, so its tokens exceed all earlier ones, even those that it never received (TASK-27).
const TOKEN: &str = "SELECT (value + ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint) * 1099511627776
    + nextval('tokens') FROM numbers WHERE name = 'epoch'";
/// Query for a holder's first resource from `$3` on, by which a lock out of order is refused.
const LATER_RESOURCE: &str = concat!(
    "SELECT resource FROM locks WHERE owner = $1 AND scope = $2 AND resource >= $3 AND (expires_at IS NULL OR expires_at >= ",
    now!(),
    ") ORDER BY resource LIMIT 1"
);

/// Query that waits for a resource and locks it until the end of the transaction.
const LOCK: &str = "SELECT true FROM pg_advisory_xact_lock(hashtextextended($1, 4711))";
/// Query that locks a resource without waiting, and returns whether it could.
const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 4711))";

/// Maximum number of writes sent together.
const MOST_TOGETHER: usize = 16;

/// Value of a queued statement.
#[derive(Debug)]
enum SqlValue {
    Text(String),
    Number(i64),
    OptionalNumber(Option<i64>),
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl SqlValue {
    fn get(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number,
            Self::OptionalNumber(number) => number,
            Self::Numbers(numbers) => numbers,
            Self::Texts(texts) => texts,
        }
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<Option<i64>> for SqlValue {
    fn from(number: Option<i64>) -> Self {
        Self::OptionalNumber(number)
    }
}

impl From<Vec<i64>> for SqlValue {
    fn from(numbers: Vec<i64>) -> Self {
        Self::Numbers(numbers)
    }
}

impl From<Vec<String>> for SqlValue {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(SqlValue::from($value)),*] };
}

/// SQL text and its values.
type Query<'a> = (&'a str, Vec<SqlValue>);

/// Transaction of one operation. It begins with the first read.
pub(super) struct PostgresTx<'a> {
    connection: &'a ConnectionLease,
    fencing: Fencing,
    /// End of queries for a task: a row lock, if the operation may write.
    for_update: &'static str,
    /// Queued writes.
    writes: Vec<Query<'static>>,
    /// Time of the database, once it was read.
    now: Option<Timestamp>,
    /// Whether the last error was a conflict with another transaction.
    met_conflict: bool,
}

impl<'a> PostgresTx<'a> {
    pub(super) fn new(connection: &'a ConnectionLease, fencing: Fencing, writes: bool) -> Self {
        Self {
            connection,
            fencing,
            for_update: if writes { "FOR UPDATE" } else { "" },
            writes: Vec::new(),
            now: None,
            met_conflict: false,
        }
    }

    /// Commits, or rolls back after an error.
    pub(super) async fn end<T>(&mut self, result: TxResult<T>) -> TxResult<T> {
        match result {
            Ok(output) => {
                self.flush("COMMIT").await?;
                Ok(output)
            }
            Err(trouble) => {
                self.writes.clear();
                // If the rollback fails, the transaction stays open, and the lease closes the connection.
                if self.connection.is_open()
                    && self.connection.client().batch_execute("ROLLBACK").await.is_ok()
                {
                    self.connection.set_open(false);
                }
                Err(trouble)
            }
        }
    }

    /// Whether the transaction failed only because of a conflict with another one.
    pub(super) fn met_conflict(&self) -> bool {
        self.met_conflict
    }

    fn trouble(&mut self, error: Error) -> TxError {
        self.met_conflict = is_conflict(&error);
        error.into()
    }

    /// Sends the queued writes, and then `last`: a commit, after which the transaction has ended, or nothing.
    async fn flush(&mut self, last: &'static str) -> TxResult<()> {
        // Without a read there is no transaction, and no operation writes before it has read.
        if !self.connection.is_open() {
            return Ok(());
        }
        let writes = std::mem::take(&mut self.writes);
        let client = self.connection.client();
        let mut statements = Vec::new();
        for (sql, _) in &writes {
            statements.push(
                client
                    .prepare_cached(sql)
                    .await
                    .map_err(|error| self.trouble(error))?,
            );
        }
        let values: Vec<Vec<&(dyn ToSql + Sync)>> = writes
            .iter()
            .map(|(_, values)| values.iter().map(SqlValue::get).collect())
            .collect();
        let executions = statements
            .iter()
            .zip(&values)
            .map(|(statement, values)| client.execute(statement, values));
        // Polled in this order, so the database gets the commit last. If a write fails, the database rolls everything back.
        let (written, ended) = tokio::join!(biased; join_all(executions), async {
            match last {
                "" => Ok(()),
                last => client.batch_execute(last).await,
            }
        });
        if ended.is_ok() && !last.is_empty() {
            self.connection.set_open(false);
        }
        for result in written {
            result.map_err(|error| self.trouble(error))?;
        }
        ended.map_err(|error| self.trouble(error))
    }

    /// Queues a write.
    async fn write(&mut self, sql: &'static str, values: Vec<SqlValue>) -> TxResult<()> {
        self.writes.push((sql, values));
        match self.writes.len() >= MOST_TOGETHER {
            true => self.flush("").await,
            false => Ok(()),
        }
    }

    /// Sends the queued writes and then all of these queries at once, the first time after BEGIN. The database runs them one after another. Returns the
    /// rows of each query.
    async fn read(&mut self, queries: &[Query<'_>]) -> TxResult<Vec<Vec<Row>>> {
        if !self.writes.is_empty() {
            self.flush("").await?;
        }
        let client = self.connection.client();
        let mut statements = Vec::new();
        for (sql, _) in queries {
            statements.push(
                client
                    .prepare_cached(sql)
                    .await
                    .map_err(|error| self.trouble(error))?,
            );
        }
        let values: Vec<Vec<&(dyn ToSql + Sync)>> = queries
            .iter()
            .map(|(_, values)| values.iter().map(SqlValue::get).collect())
            .collect();
        let results = statements
            .iter()
            .zip(&values)
            .map(|(statement, values)| client.query(statement, values));
        let begins = !self.connection.is_open();
        // Set before BEGIN is sent: if this future is dropped, the connection must be closed and not return to the pool.
        self.connection.set_open(true);
        let (begun, results) = tokio::join!(biased; async {
            match begins {
                true => client.batch_execute("BEGIN").await,
                false => Ok(()),
            }
        }, try_join_all(results));
        begun.map_err(|error| self.trouble(error))?;
        results.map_err(|error| self.trouble(error))
    }

    /// Sends one query and returns its rows.
    async fn query(&mut self, sql: &str, values: Vec<SqlValue>) -> TxResult<Vec<Row>> {
        let mut results = self.read(&[(sql, values)]).await?;
        Ok(results.pop().unwrap_or_default())
    }

    async fn rows(&mut self, sql: &str, values: Vec<SqlValue>) -> TxResult<Vec<TaskRow>> {
        let rows = self.query(sql, values).await?;
        rows.iter().map(|row| stored_task(row).row()).collect()
    }

    /// Locks a resource for this transaction and reads it, with the data of `read_set`. If `waits` is false, returns `None` when another transaction has
    /// the resource.
    async fn lock_and_read(
        &mut self,
        name: &str,
        waits: bool,
        read_set: ReadSet<'_>,
    ) -> TxResult<Option<ResourceView>> {
        let (lock, task) = match waits {
            true => (LOCK, task_by_id(self.for_update)),
            // A transaction that does not get the resource must not block the one that has it.
            false => (TRY_LOCK, task_by_id("")),
        };
        let mut queries = vec![(lock, values![name]), (RESOURCE, values![name])];
        let id = read_set.task.map_or("", TaskId::as_str);
        queries.extend(read_set.task.map(|_| (task.as_str(), values![id])));
        queries.extend(read_set.deleted.then(|| (DELETED, values![id])));
        queries.extend(
            read_set
                .holder
                .map(|holder| (LATER_RESOURCE, values![&*holder.owner, &*holder.scope, name])),
        );
        queries.extend(read_set.token.then(|| (TOKEN, values![])));
        let mut results = self.read(&queries).await?.into_iter();
        // Results come in the order of the queries; `next(false)` stands for a query that was not sent.
        let mut next = |was_sent: bool| match was_sent {
            true => results.next().unwrap_or_default(),
            false => Vec::new(),
        };
        if !next(true).first().is_some_and(|is_locked| is_locked.get(0)) {
            return Ok(None);
        }
        let resource = self.stored_resource(&next(true))?;
        let task = next(read_set.task.is_some());
        Ok(Some(ResourceView {
            resource,
            task: task.first().map(|row| stored_task(row).row()).transpose()?,
            deleted_at: next(read_set.deleted).first().map(|row| time(row.get(0))),
            later_resource: later_resource(&next(read_set.holder.is_some()), name),
            token: number(&next(read_set.token)),
        }))
    }

    fn stored_resource(&mut self, rows: &[Row]) -> TxResult<Resource> {
        let first = rows
            .first()
            .ok_or_else(|| TxError::Failed("the table of numbers is empty".to_owned()))?;
        self.now = Some(time(first.get("now")));
        let held = rows
            .iter()
            .filter(|row| row.get::<_, Option<i64>>("token").is_some());
        let held = held.map(|row| Ok(stored_held(row).lock()?.held));
        Ok(Resource {
            held: held.collect::<TxResult<_>>()?,
            version: natural(first.get("version")),
            written: natural(first.get("written")),
        })
    }

    /// Replaces the locks of a resource; writes only those that differ.
    async fn put_held(&mut self, name: &str, before: &[LockGrant], after: &Resource) -> TxResult<()> {
        for gone in before
            .iter()
            .filter(|held| !after.held.iter().any(|kept| kept.token == held.token))
        {
            let sql = "DELETE FROM locks WHERE resource = $1 AND token = $2";
            self.write(sql, values![name, integer(gone.token)]).await?;
        }
        let (version, written) = (integer(after.version), integer(after.written));
        for held in after.held.iter().filter(|held| !before.contains(held)) {
            let sql = "INSERT INTO locks (resource, token, owner, scope, mode, count, acquired_at, expires_at, version, written)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (resource, token) DO UPDATE SET count = $6, expires_at = $8";
            let Holder { owner, scope } = &held.holder;
            let (since, until) = (
                held.acquired_at.as_millis(),
                held.expires_at.map(Timestamp::as_millis),
            );
            let (token, count) = (integer(held.token), i64::from(held.count));
            let mode = held.mode.as_str();
            let values = values![
                name, token, &**owner, &**scope, mode, count, since, until, version, written
            ];
            self.write(sql, values).await?;
        }
        Ok(())
    }
}

fn task_by_id(for_update: &str) -> String {
    format!("SELECT {TASK} FROM tasks WHERE id = $1 {for_update}")
}

fn stored_task(row: &Row) -> StoredTask {
    StoredTask {
        record: row.get(0),
        updated_at: row.get(1),
        version: row.get(2),
        status_version: row.get(3),
        fencing_token: row.get(4),
        log_seq: row.get(5),
        written_seq: row.get(6),
        cancel_requested_at: row.get(7),
        priority: row.get(8),
        after: row.get(9),
    }
}

fn number(rows: &[Row]) -> u64 {
    natural(rows.first().map_or(0, |row| row.get(0)))
}

/// Returns the first resource after `name` that the holder has; `None` if it has `name` itself, which it may lock again out of order.
fn later_resource(rows: &[Row], name: &str) -> Option<String> {
    let first = rows.first().map(|row| row.get::<_, String>(0));
    first.filter(|first| first != name)
}

fn stored_held(row: &Row) -> StoredHeld {
    StoredHeld {
        owner: row.get(0),
        scope: row.get(1),
        mode: row.get(2),
        token: row.get(3),
        count: row.get(4),
        acquired_at: row.get(5),
        expires_at: row.get(6),
        resource: row.get(7),
    }
}

/// Returns the condition of a filter, and its values.
fn condition(filter: &TaskFilter) -> (&'static str, Vec<SqlValue>) {
    match (filter.status, filter.owner.as_deref()) {
        (None, None) => ("true", values![]),
        (Some(status), None) => ("status = $1", values![status.as_str()]),
        (None, Some(owner)) => ("owner = $1", values![owner]),
        (Some(status), Some(owner)) => ("status = $1 AND owner = $2", values![status.as_str(), owner]),
    }
}

impl Tx for PostgresTx<'_> {
    const ENDLESS: bool = false;

    fn fencing(&self) -> Fencing {
        self.fencing
    }

    async fn now(&mut self) -> TxResult<Timestamp> {
        if let Some(now) = self.now {
            return Ok(now);
        }
        let rows = self.query(CLOCK, values![]).await?;
        let now = rows.first().map_or(0, |row| row.get(0));
        Ok(*self.now.insert(time(now)))
    }

    async fn task(&mut self, id: &TaskId) -> TxResult<Option<TaskRow>> {
        Ok(self
            .rows(&task_by_id(self.for_update), values![id.as_str()])
            .await?
            .pop())
    }

    async fn deleted_at(&mut self, id: &TaskId) -> TxResult<Option<Timestamp>> {
        let rows = self.query(DELETED, values![id.as_str()]).await?;
        Ok(rows.first().map(|row| time(row.get(0))))
    }

    async fn has_completed(&mut self, id: &TaskId) -> TxResult<Option<bool>> {
        let sql = "SELECT status = 'completed' FROM tasks WHERE id = $1 UNION ALL
            SELECT status = 'completed' FROM deleted WHERE id = $1";
        let rows = self.query(sql, values![id.as_str()]).await?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    async fn tasks(&mut self, query: &ListQuery) -> TxResult<Vec<TaskRow>> {
        let (condition, mut values) = condition(&query.filter);
        let next = values.len() + 1;
        let sql = format!(
            "SELECT {TASK} FROM tasks WHERE {condition} ORDER BY created_at DESC, id LIMIT ${next} OFFSET ${}",
            next + 1
        );
        values.push(query.limit.map(integer).into());
        values.push(integer(query.offset).into());
        self.rows(&sql, values).await
    }

    async fn count(&mut self, filter: &TaskFilter) -> TxResult<u64> {
        let (condition, values) = condition(filter);
        let rows = self
            .query(&format!("SELECT count(*) FROM tasks WHERE {condition}"), values)
            .await?;
        Ok(number(&rows))
    }

    async fn put_task(&mut self, row: &TaskRow, lines: &[LogEntry]) -> TxResult<()> {
        let sql = "WITH task AS (INSERT INTO tasks (id, created_at, status, owner, record, updated_at, version, status_version, fencing_token,
                log_seq, written_seq, cancel_requested_at, priority, after_tasks)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $15, $16)
            ON CONFLICT (id) DO UPDATE SET status = $3, owner = $4, record = $5, updated_at = $6, version = $7, status_version = $8,
                fencing_token = $9, log_seq = $10, written_seq = $11, cancel_requested_at = $12)
            INSERT INTO lines (task, seq, line) SELECT $1, * FROM unnest($13::bigint[], $14::text[])";
        let (stored, record) = (StoredTask::of(row)?, &row.record);
        let lines: Vec<(i64, String)> = lines.iter().map(line_columns).collect::<TxResult<_>>()?;
        let (numbers, texts): (Vec<i64>, Vec<String>) = lines.into_iter().unzip();
        let values = values![
            row.id().as_str(),
            record.created_at().as_millis(),
            record.status().as_str(),
            record.owner().as_str(),
            stored.record.as_str(),
            stored.updated_at,
            stored.version,
            stored.status_version,
            stored.fencing_token,
            stored.log_seq,
            stored.written_seq,
            stored.cancel_requested_at,
            numbers,
            texts,
            stored.priority,
            stored.after.as_str(),
        ];
        self.write(sql, values).await
    }

    async fn remove_task(&mut self, row: &TaskRow) -> TxResult<()> {
        let id = row.id().as_str();
        self.write("DELETE FROM tasks WHERE id = $1", values![id]).await?;
        self.write("DELETE FROM lines WHERE task = $1", values![id])
            .await?;
        let at = row.updated_at.as_millis();
        self.write(
            "INSERT INTO deleted (id, deleted_at, status) VALUES ($1, $2, $3)",
            values![id, at, deleted_from(row)],
        )
        .await
    }

    async fn claimable(&mut self, owner: Option<&str>, limit: u32) -> TxResult<Vec<TaskId>> {
        const FREE: &str = concat!(
            "NOT EXISTS (SELECT 1 FROM locks WHERE resource = 'task:' || id AND (expires_at IS NULL OR expires_at >= ",
            now!(),
            "))"
        );
        // All earlier tasks have completed. Scalar queries, so that each is looked up by its id; joins would read the whole table.
        const MAY_START: &str = "(task.after_tasks = '[]' OR NOT EXISTS (
            SELECT 1 FROM jsonb_array_elements_text(task.after_tasks::jsonb) AS earlier (task_id)
            WHERE coalesce((SELECT status FROM tasks WHERE id = task_id), (SELECT status FROM deleted WHERE id = task_id), '') <> 'completed'))";
        let limit = i64::from(limit);
        let (condition, values) = match owner {
            Some(owner) => ("AND owner = $2", values![limit, owner]),
            None => ("", values![limit]),
        };
        let sql = format!(
            "SELECT id FROM tasks AS task WHERE status = 'pending' {condition} AND {FREE} AND {MAY_START}
            ORDER BY priority DESC, created_at, id LIMIT $1"
        );
        let rows = self.query(&sql, values).await?;
        rows.iter().map(|row| read_id(row.get(0))).collect()
    }

    async fn orphans(&mut self, before: Timestamp) -> TxResult<Vec<TaskRow>> {
        let sql = format!(
            "SELECT {TASK} FROM tasks WHERE status = 'running' AND (updated_at < $1 OR cancel_requested_at IS NOT NULL) AND NOT EXISTS (
                SELECT 1 FROM locks WHERE resource = 'task:' || id AND (expires_at IS NULL OR expires_at >= $2))
            ORDER BY updated_at"
        );
        let now = self.now().await?.as_millis();
        self.rows(&sql, values![before.as_millis(), now]).await
    }

    async fn log_lines(&mut self, id: &TaskId, after_seq: u64) -> TxResult<Vec<LogEntry>> {
        let sql = "SELECT line FROM lines WHERE task = $1 AND seq > $2 ORDER BY seq";
        let rows = self.query(sql, values![id.as_str(), integer(after_seq)]).await?;
        rows.iter().map(|row| read_line(row.get(0))).collect()
    }

    async fn unwritten(&mut self, limit: u32) -> TxResult<Vec<TaskRow>> {
        let sql = format!("SELECT {TASK} FROM tasks WHERE written_seq < log_seq ORDER BY id LIMIT $1");
        self.rows(&sql, values![i64::from(limit)]).await
    }

    async fn mark_written(&mut self, id: &TaskId, seq: u64) -> TxResult<()> {
        let sql = "UPDATE tasks SET written_seq = $2 WHERE id = $1 AND written_seq < $2";
        // Only a read begins the transaction, and without it the write would not be sent.
        if !self.connection.is_open() {
            self.now().await?;
        }
        self.write(sql, values![id.as_str(), integer(seq)]).await
    }

    async fn read_view(&mut self, name: &str, read_set: ReadSet<'_>) -> TxResult<ResourceView> {
        Ok(self
            .lock_and_read(name, true, read_set)
            .await?
            .unwrap_or_default())
    }

    async fn read_view_if_free(
        &mut self,
        name: &str,
        read_set: ReadSet<'_>,
    ) -> TxResult<Option<ResourceView>> {
        self.lock_and_read(name, false, read_set).await
    }

    async fn put_resource(&mut self, name: &str, before: &Resource, after: Resource) -> TxResult<()> {
        self.put_held(name, &before.held, &after).await?;
        let numbers = (integer(after.version), integer(after.written));
        if after.held.is_empty() {
            // Its rows are gone; only its version is remembered.
            if after.version > 0 {
                let sql = "UPDATE numbers SET value = $1 WHERE name = 'forgotten' AND value < $1";
                self.write(sql, values![numbers.0]).await?;
            }
        } else if (before.version, before.written) != (after.version, after.written) {
            let sql = "UPDATE locks SET version = $2, written = $3 WHERE resource = $1";
            self.write(sql, values![name, numbers.0, numbers.1]).await?;
        }
        Ok(())
    }

    async fn held(&mut self) -> TxResult<Vec<HeldLock>> {
        let sql = format!("SELECT {HELD} FROM locks ORDER BY resource, token");
        let rows = self.query(&sql, values![]).await?;
        rows.iter().map(|row| stored_held(row).lock()).collect()
    }

    async fn names_with(&mut self, locks: LocksToRemove<'_>) -> TxResult<Vec<String>> {
        let (sql, values) = match locks {
            LocksToRemove::Expired(now) => (
                "SELECT DISTINCT resource FROM locks WHERE expires_at < $1 ORDER BY resource",
                values![now.as_millis()],
            ),
            LocksToRemove::OfOwner(owner) => (
                "SELECT DISTINCT resource FROM locks WHERE owner = $1 ORDER BY resource",
                values![owner],
            ),
        };
        let rows = self.query(sql, values).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
