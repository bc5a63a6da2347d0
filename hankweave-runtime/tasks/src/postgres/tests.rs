use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_runtime::world::ids::RandomIds;
use hankweave_task_model::Holder;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::NewTask;
use hankweave_task_model::task::TaskStatus;
use hankweave_testing::postgres::{Cluster, Database, Secured};
use tokio_postgres::SimpleQueryMessage;

use super::Postgres;
use crate::coordinator::{Acquire, Claim, Coordinator, Create, ExclusiveHold, ListQuery, TaskFilter};
use crate::locks::{LockRequest, Locks};
use crate::testing::HOUR;
use crate::testing::database::{jump, run, stop_clock};

fn holder() -> Holder {
    Holder::new("a", "1")
}

async fn token(registry: &Postgres, resource: &str) -> u64 {
    let acquire = Acquire {
        resource: resource.to_owned(),
        holder: holder(),
        mode: LockMode::Exclusive,
        lease: Some(Duration::from_secs(30)),
        in_order: false,
        task: None,
    };
    registry.acquire(acquire).await.unwrap().held.token
}

// covers: TASK-27
#[tokio::test]
async fn tokens_rise_with_the_timeline_and_behind_what_is_known() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("{skip}"),
    };
    let registry = Postgres::open(database.url()).await.unwrap();
    let (first, second) = (token(&registry, "a").await, token(&registry, "b").await);
    assert_eq!(
        (first, second),
        ((1 << 40) + 1, (1 << 40) + 2),
        "it is on its first timeline"
    );
    // A restored database knows a token of a later timeline than the server is on, and its sequence is behind.
    run(
        database.url(),
        "UPDATE hankweave.locks SET token = 5 * 1099511627776 WHERE resource = 'a';
        ALTER SEQUENCE hankweave.tokens RESTART",
    )
    .await
    .unwrap();
    let again = Postgres::open(database.url()).await.unwrap();
    let third = token(&again, "c").await;
    assert!(third > 5 << 40 && third < (1 << 53) - 1, "{third}");
    again.close().await;
    registry.close().await;
    let acquire = registry.task(TaskId::new("a").unwrap()).await;
    assert_eq!(
        acquire.unwrap_err().code(),
        "LOCK_BACKEND_UNAVAILABLE",
        "it is closed"
    );
}

// covers: TASK-27
#[tokio::test]
async fn a_transaction_sees_what_was_committed_meanwhile_whatever_the_database_has_for_a_default() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("{skip}"),
    };
    let default = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$";
    run(database.url(), default).await.unwrap();
    let registry = Postgres::open(database.url()).await.unwrap();
    let client = registry.pool.get().await.unwrap();
    let level = client.query_one("SHOW transaction_isolation", &[]).await.unwrap();
    assert_eq!(level.get::<_, String>(0), "read committed");
    drop(client);
    registry.close().await;
}

// covers: TASK-23
#[tokio::test]
async fn an_older_database_keeps_its_locks_and_their_versions() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("{skip}"),
    };
    let older = format!(
        "CREATE SCHEMA hankweave; SET search_path TO hankweave; CREATE TABLE schema_version (version bigint NOT NULL);
        INSERT INTO schema_version VALUES (1); {}
        INSERT INTO resources VALUES ('a', 7, 41);
        INSERT INTO locks VALUES ('a', 42, 'a', '1', 'exclusive', 1, 0, 4102444800000)",
        super::schema::MIGRATIONS[0]
    );
    run(database.url(), &older).await.unwrap();
    let registry = Postgres::open(database.url()).await.unwrap();
    let resource = registry.resource("a".to_owned()).await.unwrap();
    assert_eq!((resource.version, resource.written), (7, 41));
    assert_eq!(
        (&resource.held[0].holder, resource.held[0].token),
        (&holder(), 42)
    );
    registry.close().await;
}

// covers: TASK-27
#[tokio::test]
async fn a_server_that_goes_away_and_comes_back_loses_nothing() {
    let cluster = match Cluster::start(true) {
        Ok(cluster) => cluster,
        Err(skip) => return println!("{skip}"),
    };
    let registry = Postgres::open(&cluster.url("postgres")).await.unwrap();
    let hold = Some(ExclusiveHold {
        holder: holder(),
        lease: Some(Duration::from_secs(300)),
    });
    let task = NewTask::new(TaskId::new("report-7").unwrap());
    let created = registry.create(Create { task, hold }).await.unwrap();
    let before = token(&registry, "a").await;
    cluster.restart().unwrap();
    // Connections that it had are broken; each of them may be noticed by one call.
    let mut tries = 0;
    let row = loop {
        tries += 1;
        match registry.task(created.row.id().clone()).await {
            Ok(row) => break row,
            Err(error) => assert!(
                error.code() == "LOCK_BACKEND_UNAVAILABLE" && tries < 25,
                "{error}"
            ),
        }
    };
    assert_eq!(row, Some(created.row));
    assert_eq!(
        registry.resource("task:report-7".to_owned()).await.unwrap().held,
        [created.held.unwrap()]
    );
    assert!(token(&registry, "b").await > before);
    registry.close().await;
}

#[tokio::test]
async fn a_url_that_leads_nowhere_is_refused_or_away() {
    let refused = Postgres::open("postgres://host:port/").await.unwrap_err();
    assert_eq!(refused.code(), "REGISTRY_NOT_INITIALIZED");
    let away = Postgres::open("postgres://hankweave@%2Fnowhere/registry")
        .await
        .unwrap_err();
    assert_eq!(away.code(), "LOCK_BACKEND_UNAVAILABLE", "{away}");
}

// covers: TASK-73
#[tokio::test]
async fn the_way_to_the_database_is_encrypted_as_the_url_says() {
    let secured = match Secured::start() {
        Ok(secured) => secured,
        Err(skip) => return println!("{skip}"),
    };
    let authority = secured.authority.display().to_string().replace('/', "%2F");
    let encrypted = "SELECT 1 / count(*) FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";
    for (host, options, is_trusted) in [
        ("localhost", "sslmode=require".to_owned(), true),
        ("localhost", "".to_owned(), true),
        (
            "localhost",
            format!("sslmode=verify-full&sslrootcert={authority}"),
            true,
        ),
        (
            "127.0.0.1",
            format!("sslmode=verify-full&sslrootcert={authority}"),
            false,
        ),
        (
            "127.0.0.1",
            format!("sslmode=verify-ca&sslrootcert={authority}"),
            true,
        ),
        (
            "127.0.0.1",
            format!("sslmode=require&sslrootcert={authority}"),
            true,
        ),
    ] {
        let url = secured.url(host, &options);
        match Postgres::open(&url).await {
            Ok(registry) => {
                assert!(is_trusted, "{host} {options}");
                let connection = registry.pool.get().await.unwrap();
                connection.batch_execute(encrypted).await.unwrap();
                registry.close().await;
            }
            Err(error) => {
                assert!(!is_trusted, "{host} {options}: {error}");
                assert_eq!(error.code(), "REGISTRY_NOT_INITIALIZED", "waiting does not help");
            }
        }
    }
    let other = secured.other.display().to_string().replace('/', "%2F");
    for (options, told) in [
        (format!("sslmode=verify-ca&sslrootcert={other}"), "certificate"),
        ("sslmode=verify-ca&sslrootcert=%2Fnowhere".to_owned(), "/nowhere"),
        ("sslmode=perhaps".to_owned(), "perhaps"),
    ] {
        let refused = Postgres::open(&secured.url("localhost", &options)).await;
        let told_so = hankweave_runtime::error::chain(&refused.unwrap_err());
        assert!(told_so.contains(told), "{options}: {told_so}");
    }
    let plain = Postgres::open(&secured.url("localhost", "sslmode=disable"))
        .await
        .unwrap();
    let connection = plain.pool.get().await.unwrap();
    assert!(connection.batch_execute(encrypted).await.is_err(), "it is plain");
}

/// Returns the URL of a server on this machine that answers the first message of one client, whatever that is, and ends.
fn server_that_answers(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        assert!(client.read(&mut [0; 1_024]).unwrap() > 0);
        client.write_all(answer).unwrap();
    });
    format!("postgres://hankweave@127.0.0.1:{port}/registry")
}

// covers: TASK-101
#[tokio::test]
async fn a_server_that_the_url_does_not_fit_is_refused_and_not_waited_for() {
    let wants_password = server_that_answers(b"R\0\0\0\x08\0\0\0\x03") + "?sslmode=disable";
    let wants_kerberos = server_that_answers(b"R\0\0\0\x08\0\0\0\x02") + "?sslmode=disable";
    let does_not_encrypt = server_that_answers(b"N") + "?sslmode=require";
    let wrong_escape = server_that_answers(b"N") + "?sslmode=verify-ca&sslrootcert=%+1";
    for (url, told) in [
        (wrong_escape, "not encoded as URLs are"),
        (wants_password, "password missing"),
        (wants_kerberos, "authentication"),
        (does_not_encrypt, "does not support TLS"),
    ] {
        let refused = Postgres::open(&url).await.unwrap_err();
        assert_eq!(refused.code(), "REGISTRY_NOT_INITIALIZED", "{refused}");
        assert!(refused.to_string().contains(told), "{refused}");
    }
    let breaks_off = Postgres::open(&server_that_answers(b"")).await.unwrap_err();
    assert_eq!(breaks_off.code(), "LOCK_BACKEND_UNAVAILABLE", "{breaks_off}");
}

/// A few thousand tasks, of which few wait, run or have lines that are not written.
const MANY: &str = "INSERT INTO hankweave.tasks (id, status, owner, created_at, updated_at, version, status_version, fencing_token,
        log_seq, written_seq, record)
    SELECT 'many_' || n, CASE n % 200 WHEN 0 THEN 'running' WHEN 1 THEN 'pending' ELSE 'completed' END, 'owner_' || n % 500,
        n, n, 1, 1, 1, CASE n % 250 WHEN 0 THEN 2 ELSE 1 END, 1, record
    FROM hankweave.tasks, generate_series(1, 5000) AS n; ANALYZE hankweave.tasks";

/// The plans are those of the very statements that the operations have sent.
// covers: TASK-118
#[tokio::test]
async fn lists_have_their_indexes_and_use_them() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("{skip}"),
    };
    let registry = Postgres::open(database.url()).await.unwrap();
    let task = NewTask::new(TaskId::new("first").unwrap());
    registry.create(Create { task, hold: None }).await.unwrap();
    run(database.url(), MANY).await.unwrap();
    let running = || TaskFilter {
        status: Some(TaskStatus::Running),
        owner: None,
    };
    let of_owner = TaskFilter {
        status: None,
        owner: Some("owner_7".to_owned()),
    };
    for filter in [running(), of_owner, TaskFilter::default()] {
        let (offset, limit) = (0, Some(10));
        let listed = registry.tasks(ListQuery {
            filter,
            offset,
            limit,
        });
        assert_eq!(listed.await.unwrap().len(), 10);
    }
    assert_eq!(registry.count(running()).await.unwrap(), 25);
    assert_eq!(
        registry.orphans(Duration::from_secs(300)).await.unwrap().len(),
        25
    );
    assert_eq!(registry.unwritten(50).await.unwrap().len(), 21);
    let hold = ExclusiveHold {
        holder: holder(),
        lease: Some(Duration::from_secs(30)),
    };
    let claimed = registry
        .claim(Claim {
            owner: None,
            except: BTreeSet::new(),
            hold,
        })
        .await
        .unwrap();
    assert!(claimed.is_some());

    let connection = registry.pool.get().await.unwrap();
    let known = "SELECT name, statement FROM pg_prepared_statements";
    let known = connection.query(known, &[]).await.unwrap();
    for (part, arguments, indexes) in [
        (
            "status = $1 ORDER BY created_at DESC",
            "'running', 10, 0",
            &["tasks_status", "tasks_changed", "tasks_claim"][..],
        ),
        (
            "owner = $1 ORDER BY created_at DESC",
            "'owner_7', 10, 0",
            &["tasks_owner"],
        ),
        ("true ORDER BY created_at DESC", "10, 0", &["tasks_created"]),
        (
            "count(*) FROM tasks WHERE status = $1",
            "'running'",
            &["tasks_status", "tasks_changed", "tasks_claim"],
        ),
        (
            "status = 'running' AND (updated_at < $1",
            "70, 5000",
            &["tasks_changed", "tasks_status"],
        ),
        ("written_seq < log_seq", "50", &["tasks_unwritten"]),
        ("status = 'pending'", "64", &["tasks_status", "tasks_claim"]),
    ] {
        let statement = known.iter().find(|row| row.get::<_, String>(1).contains(part));
        let name: String = statement
            .unwrap_or_else(|| panic!("nobody has sent {part}"))
            .get(0);
        let explain = format!("EXPLAIN EXECUTE \"{name}\" ({arguments})");
        let plan = connection.simple_query(&explain).await.unwrap();
        let plan: Vec<&str> = plan
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        let plan = plan.join("\n");
        assert!(indexes.iter().any(|index| plan.contains(index)), "{part}\n{plan}");
        assert!(!plan.contains("Seq Scan on tasks"), "{part}\n{plan}");
    }
    drop(connection);
    registry.close().await;
}

// covers: TASK-100
#[tokio::test]
async fn a_servers_clock_that_jumps_ends_work_whose_lease_is_over_and_no_other() {
    for (by, ends) in [(HOUR, Err("LOCK_TIMEOUT")), (-HOUR, Ok(()))] {
        let database = match Database::create() {
            Ok(database) => database,
            Err(skip) => return println!("{skip}"),
        };
        if let Err(why) = stop_clock(database.url()).await {
            return println!("skipped: {why}");
        }
        let registry = Arc::new(Postgres::open(database.url()).await.unwrap());
        let locks = Locks::new(registry.clone(), Arc::new(RandomIds::new()));
        let lease = Duration::from_millis(1200);
        let request = LockRequest {
            lease: Some(lease),
            ..locks.request("r", "ann", LockMode::Exclusive)
        };
        let began = std::time::Instant::now();
        let work = locks.with_lock(request, async |_| {
            jump(database.url(), by).await;
            tokio::time::sleep(2 * lease).await;
        });
        assert_eq!(work.await.map_err(|error| error.code()), ends, "{by}");
        assert_eq!(
            began.elapsed() > 2 * lease,
            ends.is_ok(),
            "the next renewal finds out"
        );
        locks.close().await;
        registry.close().await;
    }
}
