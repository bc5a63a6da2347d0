use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_task_model::Holder;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::NewTask;
use hankweave_testing::postgres::{Cluster, Database, Secured};
use tokio_postgres::NoTls;

use super::Postgres;
use crate::coordinator::{Acquire, Coordinator, Create, Hold};

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

/// Changes the database behind the coordinator's back.
async fn run(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let work = async {
        client.batch_execute(sql).await.unwrap();
        drop(client);
    };
    let (ended, ()) = tokio::join!(connection, work);
    ended.unwrap();
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
    .await;
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
    run(database.url(), &older).await;
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
    let hold = Some(Hold {
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
            Err(error) => assert!(!is_trusted, "{host} {options}: {error}"),
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
