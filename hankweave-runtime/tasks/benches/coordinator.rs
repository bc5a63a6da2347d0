//! Locks and steps per second, compared with the layers that they use.
//!
//! `table` is the pure lock table. `bare` commits one small row directly to the database. Baseline and coordinator take turns; each round gives a
//! ratio, and the median over all rounds is printed.
//!
//! `cargo bench -p hankweave-tasks --bench coordinator` takes a minute. PostgreSQL is left out if it is not installed.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::World;
use hankweave_runtime::world::clock::SystemClock;
use hankweave_tasks::coordinator::{Acquire, Coordinator, Create, ExclusiveHold, Release};
use hankweave_tasks::layers::TaskLayers;
use hankweave_tasks::model::lock::LockMode;
use hankweave_tasks::model::registry::{NewTask, Patch, RegistryChange};
use hankweave_tasks::model::task::{Fail, Start, TaskTransition};
use hankweave_tasks::model::{Holder, LockTable};
use hankweave_tasks::{Lifecycle, Locks, Memory, Postgres, Sqlite};
use hankweave_testing::postgres::Cluster;
use serde_json::json;
use tokio::runtime::Runtime;

const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_millis(700);
const LEASE: Option<Duration> = Some(Duration::from_secs(3600));

fn main() {
    let runtime = Runtime::new().expect("threads can be started");
    for held in [0, 1_000, 100_000] {
        let (table, memory) = (table(held), runtime.block_on(memory(held)));
        compare(
            &format!("pairs/s with {held} held"),
            "table",
            table_pairs(table),
            || runtime.block_on(pairs(&*memory)),
        );
    }
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    for waiting in [1, 64] {
        let path = folder.path().join(format!("{waiting}.db"));
        let registry = runtime
            .block_on(Sqlite::open(&path, Arc::new(SystemClock)))
            .expect("it opens");
        let bare = bare_sqlite(&folder.path().join(format!("bare-{waiting}.db")));
        compare(
            &format!("SQLite steps/s, {waiting} at once"),
            "bare",
            bare,
            || runtime.block_on(steps(&registry, waiting)),
        );
        runtime.block_on(Coordinator::close(&registry));
    }
    match Cluster::start(true) {
        Ok(cluster) => postgres(&runtime, &cluster, folder.path()),
        Err(skip) => println!("{skip}"),
    }
}

fn postgres(runtime: &Runtime, cluster: &Cluster, folder: &std::path::Path) {
    let url = cluster.url("postgres");
    let registry = Arc::new(runtime.block_on(Postgres::open(&url)).expect("it opens"));
    let world = World::real();
    let locks = Locks::new(registry.clone(), world.ids.clone());
    let lifecycle = Lifecycle::new(
        registry.clone(),
        locks,
        TaskLayers::new(world, folder.join("tasks")),
    );
    let clients = runtime.block_on(bare_clients(&url));
    let bare = || runtime.block_on(bare_commits(&clients));
    compare(
        "PostgreSQL cycles/s in the registry, 10 at once",
        "bare",
        bare,
        || runtime.block_on(cycles(&*registry)),
    );
    let bare = || runtime.block_on(bare_commits(&clients));
    compare(
        "PostgreSQL cycles/s with all files, 10 at once",
        "bare",
        bare,
        || runtime.block_on(whole_cycles(&lifecycle)),
    );
    runtime.block_on(Coordinator::close(&*registry));
}

/// Runs both in turns and prints the medians of their rates and of the ratio.
fn compare(what: &str, baseline: &str, mut theirs: impl FnMut() -> f64, mut ours: impl FnMut() -> f64) {
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (theirs(), ours())).collect();
    let median = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    };
    let (theirs, ours, ratio) = (
        median(&|round| round.0),
        median(&|round| round.1),
        median(&|round| round.1 / round.0),
    );
    println!("{what}: ours {ours:.0}, {baseline} {theirs:.0}, ratio {ratio:.2}");
}

fn holder(number: usize) -> Holder {
    Holder::new("bench", number.to_string())
}

fn table(held: usize) -> LockTable {
    let mut table = LockTable::default();
    for number in 0..held {
        let _ = table.acquire(
            &format!("held-{number}"),
            &holder(number),
            LockMode::Exclusive,
            None,
            Timestamp::UNIX_EPOCH,
        );
    }
    table
}

fn table_pairs(mut table: LockTable) -> impl FnMut() -> f64 + use<> {
    let (own, now) = (Holder::new("own", "1"), Timestamp::UNIX_EPOCH);
    move || {
        rate(|| {
            for _ in 0..1000 {
                let _ = table.acquire("r", &own, LockMode::Exclusive, LEASE, now);
                let _ = table.release("r", &own, now);
            }
            1000
        })
    }
}

fn rate(mut turn: impl FnMut() -> u64) -> f64 {
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < TURN {
        done += turn();
    }
    done as f64 / began.elapsed().as_secs_f64()
}

fn acquire(resource: &str, holder: Holder) -> Acquire {
    let (resource, mode) = (resource.to_owned(), LockMode::Exclusive);
    Acquire {
        resource,
        holder,
        mode,
        lease: LEASE,
        in_order: false,
        task: None,
    }
}

async fn memory(held: usize) -> Arc<Memory> {
    let memory = Arc::new(Memory::new(Arc::new(SystemClock)));
    for number in 0..held {
        memory
            .acquire(acquire(&format!("held-{number}"), holder(number)))
            .await
            .expect("it is free");
    }
    memory
}

async fn pairs(coordinator: &dyn Coordinator) -> f64 {
    let (began, mut done, own) = (Instant::now(), 0, Holder::new("own", "1"));
    while began.elapsed() < TURN {
        for _ in 0..1000 {
            coordinator
                .acquire(acquire("r", own.clone()))
                .await
                .expect("it is free");
            let release = Release {
                resource: "r".to_owned(),
                holder: own.clone(),
                written: None,
            };
            coordinator.release(release).await.expect("it is ours");
        }
        done += 1000;
    }
    f64::from(done) / began.elapsed().as_secs_f64()
}

fn next_id() -> TaskId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    TaskId::new(format!("task-{}", NEXT.fetch_add(1, Ordering::Relaxed))).expect("it is plain")
}

fn hold(id: &TaskId) -> ExclusiveHold {
    ExclusiveHold {
        holder: Holder::new("own", id.as_str()),
        lease: LEASE,
    }
}

fn start() -> TaskTransition {
    TaskTransition::Start(Start {
        agent_id: AgentId::new("bench").expect("it is not empty"),
        by_hand: false,
    })
}

fn fail() -> TaskTransition {
    TaskTransition::Fail(Fail {
        error: "red".to_owned(),
        failure: None,
    })
}

/// Takes single steps of this many tasks concurrently.
async fn steps(coordinator: &dyn Coordinator, tasks: usize) -> f64 {
    let began = Instant::now();
    let work = (0..tasks).map(|_| async {
        let id = next_id();
        let create = Create {
            hold: Some(hold(&id)),
            task: NewTask::new(id.clone()),
        };
        let created = coordinator.create(create).await.expect("it is new");
        let (mut version, token, mut done) = (
            created.row.version,
            created.held.expect("it is asked for").token,
            0,
        );
        while began.elapsed() < TURN {
            for step in [start(), fail(), TaskTransition::Resume] {
                let change = RegistryChange {
                    id: id.clone(),
                    expected_version: version,
                    token,
                    steps: vec![step],
                    cost: None,
                    approval: None,
                    by: None,
                    lease: None,
                    files: Patch::Keep,
                };
                version = coordinator.change(change).await.expect("it is ours").row.version;
                done += 1;
            }
        }
        done
    });
    let done: u32 = join_all(work).await.iter().sum();
    f64::from(done) / began.elapsed().as_secs_f64()
}

fn bare_sqlite(path: &std::path::Path) -> impl FnMut() -> f64 + use<> {
    let connection = rusqlite::Connection::open(path).expect("it opens");
    let script = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE rows (text TEXT)";
    connection.execute_batch(script).expect("it is empty");
    move || {
        rate(|| {
            connection
                .execute("INSERT INTO rows VALUES ('a row')", [])
                .map_or(0, |rows| rows as u64)
        })
    }
}

/// Creates, starts and completes tasks, each step under its lock.
async fn cycles(coordinator: &dyn Coordinator) -> f64 {
    in_flight(async || {
        let id = next_id();
        let (resource, own) = (format!("task:{id}"), hold(&id));
        let release = || Release {
            resource: resource.clone(),
            holder: own.holder.clone(),
            written: Some((id.clone(), 1)),
        };
        let create = Create {
            hold: Some(own.clone()),
            task: NewTask::new(id.clone()),
        };
        coordinator.create(create).await.expect("it is new");
        coordinator.release(release()).await.expect("it is ours");
        for step in [start(), fail()] {
            let acquire = Acquire {
                task: Some(id.clone()),
                ..acquire(&resource, own.holder.clone())
            };
            let acquired = coordinator.acquire(acquire).await.expect("it is free");
            let expected_version = acquired.row.expect("it is there").version;
            let change = RegistryChange {
                id: id.clone(),
                expected_version,
                token: acquired.held.token,
                steps: vec![step],
                cost: None,
                approval: None,
                by: None,
                lease: None,
                files: Patch::Keep,
            };
            coordinator.change(change).await.expect("it is ours");
            coordinator.release(release()).await.expect("it is ours");
        }
    })
    .await
}

async fn whole_cycles(lifecycle: &Lifecycle) -> f64 {
    in_flight(async || {
        let id = next_id();
        lifecycle
            .create(NewTask::new(id.clone()))
            .await
            .expect("it is new");
        lifecycle
            .start(&id, AgentId::new("bench").expect("it is not empty"))
            .await
            .expect("it is pending");
        let result = serde_json::from_value(json!({"success": true})).expect("it is a result");
        lifecycle.complete(&id, result).await.expect("it runs");
    })
    .await
}

async fn in_flight(cycle: impl AsyncFn()) -> f64 {
    let began = Instant::now();
    let work = (0..10).map(|_| async {
        let mut done = 0;
        while began.elapsed() < TURN {
            cycle().await;
            done += 1;
        }
        done
    });
    let done: u32 = join_all(work).await.iter().sum();
    f64::from(done) / began.elapsed().as_secs_f64()
}

async fn bare_clients(url: &str) -> Vec<tokio_postgres::Client> {
    let mut clients = Vec::new();
    for _ in 0..10 {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
            .await
            .expect("it is there");
        tokio::spawn(connection);
        clients.push(client);
    }
    clients[0]
        .batch_execute("CREATE TABLE IF NOT EXISTS bare (text text)")
        .await
        .expect("it is ours");
    clients
}

async fn bare_commits(clients: &[tokio_postgres::Client]) -> f64 {
    let began = Instant::now();
    let work = clients.iter().map(|client| async move {
        let mut done = 0;
        while began.elapsed() < TURN {
            client
                .batch_execute("INSERT INTO bare VALUES ('a row')")
                .await
                .expect("it is ours");
            done += 1;
        }
        done
    });
    let done: u32 = join_all(work).await.iter().sum();
    f64::from(done) / began.elapsed().as_secs_f64()
}
