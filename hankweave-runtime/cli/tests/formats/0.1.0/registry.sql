PRAGMA application_id = 1751215723;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE boot (id TEXT NOT NULL, started_at INTEGER NOT NULL) STRICT;
INSERT INTO "boot" VALUES('2bef73f6-2507-45b5-bacf-0abaa2391e6b',1795700850706);
CREATE TABLE deleted (id TEXT PRIMARY KEY, deleted_at INTEGER NOT NULL, status TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;
CREATE TABLE lines (
    task TEXT NOT NULL,
    seq INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "lines" VALUES('task_1795728549153',1,'{"timestamp":"2026-11-26T21:29:09.154Z","level":"info","message":"Task created","data":{"name":"The first task","owner":"system","toStatus":"pending"},"seq":1}');
INSERT INTO "lines" VALUES('task_1795728549300',1,'{"timestamp":"2026-11-26T21:29:09.301Z","level":"info","message":"Task created","data":{"name":"The second task","owner":"system","toStatus":"pending"},"seq":1}');
INSERT INTO "lines" VALUES('task_1795728549300',2,'{"timestamp":"2026-11-26T21:29:10.940Z","level":"warning","message":"Task cancelled","data":{"fromStatus":"pending","toStatus":"cancelled"},"seq":2}');
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
CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "numbers" VALUES('forgotten',0);
INSERT INTO "numbers" VALUES('token',3);
CREATE TABLE resources (name TEXT PRIMARY KEY, version INTEGER NOT NULL, written INTEGER NOT NULL) STRICT, WITHOUT ROWID;
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
, changed_at INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0, after_tasks TEXT NOT NULL DEFAULT '[]') STRICT, WITHOUT ROWID;
INSERT INTO "tasks" VALUES('task_1795728549153','pending','system',1795728549154,1795728549154,1,1,1,1,1,NULL,'{"status":"pending","id":"task_1795728549153","name":"The first task","owner":"system","createdAt":"2026-11-26T21:29:09.154Z","metadata":{"run":{"hank":"/tmp/story"}},"attempt":1}',1795728549154,0,'[]');
INSERT INTO "tasks" VALUES('task_1795728549300','cancelled','system',1795728549301,1795728550940,2,2,3,2,2,NULL,'{"status":"cancelled","id":"task_1795728549300","name":"The second task","owner":"system","createdAt":"2026-11-26T21:29:09.301Z","metadata":{"run":{"hank":"/tmp/story"}},"attempt":1,"cancelledDuring":"pending"}',1795728550941,0,'[]');
CREATE INDEX tasks_status ON tasks (status, created_at, id);
CREATE INDEX tasks_owner ON tasks (owner);
CREATE INDEX tasks_created ON tasks (created_at);
CREATE INDEX tasks_unwritten ON tasks (id) WHERE written_seq < log_seq;
CREATE INDEX locks_holder ON locks (owner, scope, resource);
CREATE INDEX tasks_changed ON tasks (status, changed_at);
CREATE INDEX tasks_claim ON tasks (status, priority DESC, created_at, id);
COMMIT;
