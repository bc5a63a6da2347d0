//! Tables, and their migration in an older database.

use tokio_postgres::{Client, Error};

/// Database lock for changes of the tables, so that only one of several starting programs makes them.
const MIGRATING: i64 = 0x6861_6E6B;

/// Migrations from each version of the tables to the next one.
///
/// Lists, counts, claims and orphans find their tasks by the indexes (TASK-118).
pub(super) const MIGRATIONS: [&str; 3] = [r#"
CREATE TABLE numbers (name text PRIMARY KEY, value bigint NOT NULL);
INSERT INTO numbers VALUES ('epoch', 0), ('forgotten', 0);
CREATE SEQUENCE tokens AS bigint MAXVALUE 1099511627775;
CREATE FUNCTION next_token() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT ((SELECT value FROM hankweave.numbers WHERE name = 'epoch')
            + ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint) * 1099511627776
        + nextval('hankweave.tokens')
$$;
CREATE TABLE tasks (
    id text COLLATE "C" PRIMARY KEY,
    status text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    version bigint NOT NULL,
    status_version bigint NOT NULL,
    fencing_token bigint NOT NULL,
    log_seq bigint NOT NULL,
    written_seq bigint NOT NULL,
    cancel_requested_at bigint,
    record text NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX tasks_status ON tasks (status, created_at, id);
CREATE INDEX tasks_owner ON tasks (owner);
CREATE INDEX tasks_changed ON tasks (status, updated_at);
CREATE INDEX tasks_created ON tasks (created_at);
CREATE INDEX tasks_unwritten ON tasks (id) WHERE written_seq < log_seq;
CREATE TABLE lines (
    task text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (task, seq)
);
CREATE TABLE deleted (id text COLLATE "C" PRIMARY KEY, deleted_at bigint NOT NULL);
CREATE TABLE resources (name text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, written bigint NOT NULL);
CREATE TABLE locks (
    resource text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    owner text NOT NULL,
    scope text NOT NULL,
    mode text NOT NULL,
    count bigint NOT NULL,
    acquired_at bigint NOT NULL,
    expires_at bigint,
    PRIMARY KEY (resource, token)
);
CREATE INDEX locks_holder ON locks (owner, scope, resource);
"#, "
ALTER TABLE locks ADD version bigint NOT NULL DEFAULT 0, ADD written bigint NOT NULL DEFAULT 0;
UPDATE locks SET version = resources.version, written = resources.written FROM resources WHERE name = resource;
DROP TABLE resources;
DROP FUNCTION next_token();
", "
ALTER TABLE tasks ADD priority bigint NOT NULL DEFAULT 0, ADD after_tasks text NOT NULL DEFAULT '[]';
ALTER TABLE deleted ADD status text NOT NULL DEFAULT '';
CREATE INDEX tasks_claim ON tasks (status, priority DESC, created_at, id);
"];

/// Migrates the tables; the inner error is the reason why a database of a later version cannot be used.
pub(super) async fn migrate(client: &mut Client) -> Result<Result<(), String>, Error> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATING])
        .await?;
    let exists = "SELECT to_regclass('hankweave.schema_version') IS NOT NULL";
    if !transaction.query_one(exists, &[]).await?.get::<_, bool>(0) {
        let begin = "CREATE SCHEMA IF NOT EXISTS hankweave; CREATE TABLE hankweave.schema_version (version bigint NOT NULL);
            INSERT INTO hankweave.schema_version VALUES (0)";
        transaction.batch_execute(begin).await?;
    }
    let version = transaction
        .query_one("SELECT version FROM hankweave.schema_version", &[])
        .await?;
    let version: i64 = version.get(0);
    let applied = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(missing) = MIGRATIONS.get(applied..) else {
        return Ok(Err(format!(
            "it has version {version} and was made by a later hankweave; update this one"
        )));
    };
    transaction
        .batch_execute("SET LOCAL search_path TO hankweave")
        .await?;
    for script in missing {
        transaction.batch_execute(script).await?;
    }
    if !missing.is_empty() {
        let version = MIGRATIONS.len() as i64;
        transaction
            .execute("UPDATE schema_version SET version = $1", &[&version])
            .await?;
    }
    transaction.batch_execute(RAISE_EPOCH).await?;
    transaction.commit().await?;
    Ok(Ok(()))
}

/// Statement that raises the epoch, the part of tokens above 40 bits (see `TOKEN` in `tx`), above that of all stored tokens. A database that was restored
/// into another server may have tokens of a later timeline than the server's.
const RAISE_EPOCH: &str = "
WITH known (token) AS (
    SELECT greatest((SELECT max(fencing_token) FROM tasks), (SELECT max(token) FROM locks), (SELECT max(written) FROM locks))
), timeline (number) AS (
    SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
)
UPDATE numbers SET value = known.token / 1099511627776 + 1 - timeline.number FROM known, timeline
WHERE name = 'epoch' AND known.token / 1099511627776 > value + timeline.number";
