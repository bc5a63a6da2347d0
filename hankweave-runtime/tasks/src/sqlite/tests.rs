use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hankweave_core::id::{AgentId, TaskId};
use hankweave_runtime::world::clock::SystemClock;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{NewTask, Patch, RegistryChange};
use hankweave_task_model::task::{Fail, Start, TaskTransition};
use hankweave_task_model::{Holder, TaskError};

use super::Sqlite;
use crate::coordinator::{Acquire, Claim, Coordinator, Create, ExclusiveHold, ListQuery};
use crate::testing::{HOUR, SetClock};

/// Variable with the registry on which a copy of this test works until it is killed.
const WORK_ON: &str = "HANKWEAVE_TEST_REGISTRY";
/// Variable with the names of its tasks.
const NAMES: &str = "HANKWEAVE_TEST_NAMES";

const ROUNDS: usize = 6;

async fn open(path: &Path) -> Sqlite {
    Sqlite::open(path, Arc::new(SystemClock)).await.unwrap()
}

fn steps() -> Vec<TaskTransition> {
    let agent_id = AgentId::new("writer").unwrap();
    let fail = TaskTransition::Fail(Fail {
        error: "red".to_owned(),
        failure: None,
    });
    vec![
        TaskTransition::Start(Start {
            agent_id,
            by_hand: false,
        }),
        fail,
        TaskTransition::Resume,
    ]
}

/// Creates a task and changes it endlessly. Prints each answer.
async fn work(registry: &Sqlite, name: &str) {
    let hold = Some(ExclusiveHold {
        holder: Holder::new(name, "1"),
        lease: Some(Duration::from_secs(300)),
    });
    let task = NewTask::new(TaskId::new(name).unwrap());
    let created = registry.create(Create { task, hold }).await.unwrap();
    let (mut row, token) = (created.row, created.held.unwrap().token);
    loop {
        println!("answered {name} {} {}.", row.version, row.log_seq);
        let change = RegistryChange {
            id: row.id().clone(),
            expected_version: row.version,
            token,
            steps: steps(),
            cost: None,
            approval: None,
            by: None,
            lease: None,
            files: Patch::Keep,
        };
        row = registry.change(change).await.unwrap().row;
    }
}

/// Part of the next test, which starts this as a process and kills it.
#[tokio::test]
async fn works_until_it_is_killed() {
    let (Ok(path), Ok(names)) = (std::env::var(WORK_ON), std::env::var(NAMES)) else {
        return;
    };
    let registry = open(Path::new(&path)).await;
    let names: Vec<String> = (0..4).map(|number| format!("{names}-{number}")).collect();
    join_all(names.iter().map(|name| work(&registry, name))).await;
}

fn start(path: &Path, names: &str) -> Child {
    let mut copy = Command::new(std::env::current_exe().unwrap());
    copy.args([
        "--exact",
        "sqlite::tests::works_until_it_is_killed",
        "--nocapture",
    ]);
    copy.env(WORK_ON, path)
        .env(NAMES, names)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    copy.spawn().unwrap()
}

/// Kills the copy after this number of answers and returns the last answer about each task.
fn kill_after(mut copy: Child, answers: usize) -> BTreeMap<String, (u64, u64)> {
    let mut output = BufReader::new(copy.stdout.take().unwrap());
    let mut text = String::new();
    for _ in 0..answers {
        output.read_line(&mut text).unwrap();
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
    output.read_to_string(&mut text).unwrap();
    let mut last = BTreeMap::new();
    for line in text
        .lines()
        .filter_map(|line| line.split_once("answered ")?.1.strip_suffix('.'))
    {
        let words: Vec<&str> = line.split(' ').collect();
        last.insert(
            words[0].to_owned(),
            (words[1].parse().unwrap(), words[2].parse().unwrap()),
        );
    }
    last
}

// covers: TASK-36
#[tokio::test]
async fn nothing_that_was_answered_is_lost_when_a_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut answered = BTreeMap::new();
    for round in 0..ROUNDS {
        // Two copies at once, killed at different moments.
        let copies = [0, 1].map(|copy| start(&path, &format!("r{round}-{copy}")));
        let answers = [7 + 31 * round, 40 + 11 * round];
        for (copy, answers) in copies.into_iter().zip(answers) {
            answered.extend(kill_after(copy, answers));
        }
    }
    let registry = open(&path).await;
    let rows = registry.tasks(ListQuery::default()).await.unwrap();
    let known: BTreeMap<&str, _> = rows.iter().map(|row| (row.id().as_str(), row)).collect();
    assert!(answered.len() > ROUNDS, "{answered:?}");
    for (name, (version, seq)) in &answered {
        let row = known[name.as_str()];
        assert!(
            row.version >= *version && row.log_seq >= *seq,
            "{name} lost what was answered"
        );
    }
    for row in &rows {
        let lines = registry.log_lines(row.id().clone(), 0).await.unwrap();
        let seqs: Vec<u64> = lines.iter().filter_map(|line| line.seq).collect();
        assert!(seqs.iter().copied().eq(1..=row.log_seq), "{}: {seqs:?}", row.id());
        assert_eq!(row.version, row.log_seq, "a line a step");
    }
    let tokens: BTreeSet<u64> = rows.iter().map(|row| row.fencing_token).collect();
    assert_eq!(tokens.len(), rows.len(), "no token is granted twice");
    registry.close().await;
}

// covers: TASK-26
#[tokio::test]
async fn another_programs_file_and_that_of_a_later_version_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, sql, told) in [
        (
            "other.db",
            "CREATE TABLE notes (text)",
            "the database of another program",
        ),
        (
            "later.db",
            "PRAGMA application_id = 1751215723; PRAGMA user_version = 99",
            "made by a later hankweave",
        ),
    ] {
        let path = folder.path().join(name);
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        let refused = Sqlite::open(&path, Arc::new(SystemClock)).await.unwrap_err();
        assert!(
            refused.code() == "REGISTRY_NOT_INITIALIZED" && refused.to_string().contains(told),
            "{refused}"
        );
    }
    let text = folder.path().join("text.db");
    std::fs::write(
        &text,
        "this is no database at all, it is a text of some length".repeat(99),
    )
    .unwrap();
    let refused = Sqlite::open(&text, Arc::new(SystemClock)).await.unwrap_err();
    assert_eq!(refused.code(), "REGISTRY_NOT_INITIALIZED");
}

// covers: TASK-26, TASK-117
#[tokio::test]
async fn a_full_file_fails_a_step_and_a_smaller_one_after_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let registry = open(&path).await;
    registry.close().await;
    let (connection, clock) = super::schema::open(&path, Arc::new(SystemClock)).unwrap();
    let pages: u32 = connection
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    connection
        .pragma_update(None, "max_page_count", pages + 4)
        .unwrap();
    let registry = Sqlite::start((connection, clock), crate::engine::Fencing::Checked);
    let large = |name: &str| NewTask {
        name: "x".repeat(100_000),
        ..NewTask::new(TaskId::new(name).unwrap())
    };
    let refused = registry
        .create(Create {
            task: large("a"),
            hold: None,
        })
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "LOCK_BACKEND_UNAVAILABLE", "{refused}");
    let small = NewTask::new(TaskId::new("b").unwrap());
    let both = tokio::join!(
        registry.create(Create {
            task: large("c"),
            hold: None
        }),
        registry.create(Create {
            task: small,
            hold: None
        }),
    );
    assert_eq!(
        (both.0.unwrap_err().code(), both.1.unwrap().row.version),
        ("LOCK_BACKEND_UNAVAILABLE", 1)
    );
    assert_eq!(registry.tasks(ListQuery::default()).await.unwrap().len(), 1);
    registry.close().await;
}

async fn create(registry: &Sqlite, name: &str) -> Result<(), TaskError> {
    let task = NewTask::new(TaskId::new(name).unwrap());
    registry.create(Create { task, hold: None }).await.map(drop)
}

// covers: TASK-101
#[tokio::test]
async fn another_writer_is_waited_for_and_then_the_registry_is_away_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let registry = Sqlite::open_with_busy_timeout(&path, Arc::new(SystemClock), Duration::from_millis(30));
    create(&registry, "a").await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let away = |answer: Result<(), TaskError>| {
        let error = answer.unwrap_err();
        assert_eq!(error.code(), "LOCK_BACKEND_UNAVAILABLE", "{error}");
    };
    away(create(&registry, "b").await);
    let hold = ExclusiveHold {
        holder: Holder::new("w", "1"),
        lease: Some(Duration::from_secs(30)),
    };
    let claim = Claim {
        owner: None,
        except: BTreeSet::new(),
        hold,
    };
    away(registry.claim(claim.clone()).await.map(drop));
    // Readers do not wait.
    assert_eq!(registry.tasks(ListQuery::default()).await.unwrap().len(), 1);
    other.execute_batch("ROLLBACK").unwrap();
    create(&registry, "b").await.unwrap();
    assert!(registry.claim(claim).await.unwrap().is_some());
    registry.close().await;
}

// covers: TASK-101
#[tokio::test]
async fn a_registry_that_cannot_be_written_is_away_and_whole_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (place, path) = (folder.path().join("data"), folder.path().join("data/registry.db"));
    std::fs::create_dir(&place).unwrap();
    let registry = open(&path).await;
    create(&registry, "a").await.unwrap();
    registry.close().await;
    // As on a disk that was remounted read-only.
    let (connection, clock) = super::schema::open(&path, Arc::new(SystemClock)).unwrap();
    connection.pragma_update(None, "query_only", true).unwrap();
    let registry = Sqlite::start((connection, clock), crate::engine::Fencing::Checked);
    let refused = create(&registry, "b").await.unwrap_err();
    assert_eq!(refused.code(), "LOCK_BACKEND_UNAVAILABLE", "{refused}");
    assert_eq!(registry.tasks(ListQuery::default()).await.unwrap().len(), 1);
    registry.close().await;
    // Its folder was moved away, and something else has its name.
    let gone = folder.path().join("gone");
    std::fs::rename(&place, &gone).unwrap();
    for name in ["", "a file"] {
        if !name.is_empty() {
            std::fs::write(&place, name).unwrap();
        }
        let refused = Sqlite::open(&path, Arc::new(SystemClock)).await.unwrap_err();
        assert_eq!(refused.code(), "REGISTRY_NOT_INITIALIZED", "{refused}");
    }
    std::fs::remove_file(&place).unwrap();
    std::fs::rename(&gone, &place).unwrap();
    let registry = open(&path).await;
    create(&registry, "b").await.unwrap();
    assert_eq!(registry.tasks(ListQuery::default()).await.unwrap().len(), 2);
    registry.close().await;
}

// covers: TASK-101
#[tokio::test]
async fn a_folder_that_may_not_be_written_any_more_opens_no_registry() {
    if rustix::process::geteuid().is_root() {
        return println!("skipped: root may write everywhere");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    open(&path).await.close().await;
    let permit = |mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(folder.path(), permissions).unwrap();
    };
    permit(0o500);
    let refused = Sqlite::open(&path, Arc::new(SystemClock)).await;
    permit(0o700);
    assert_eq!(refused.unwrap_err().code(), "REGISTRY_NOT_INITIALIZED");
    let registry = open(&path).await;
    create(&registry, "a").await.unwrap();
    registry.close().await;
}

// covers: TASK-101
#[tokio::test]
async fn what_is_answered_is_synced_lists_have_their_indexes_and_others_are_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let connection = super::schema::open(&folder.path().join("registry.db"), Arc::new(SystemClock))
        .unwrap()
        .0;
    let pragma = |name: &str| {
        let value = connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
        format!("{:?}", value.unwrap())
    };
    assert_eq!(
        ["journal_mode", "synchronous", "busy_timeout"].map(pragma),
        ["Text(\"wal\")", "Integer(2)", "Integer(5000)"]
    );
    for (query, index) in [
        ("status = 'pending' ORDER BY created_at, id", "tasks_status"),
        (
            "status = 'pending' ORDER BY priority DESC, created_at, id",
            "tasks_claim",
        ),
        ("status = 'running' AND changed_at < 7", "tasks_changed"),
        ("owner = 'ann'", "tasks_owner"),
        ("true ORDER BY created_at DESC", "tasks_created"),
        ("written_seq < log_seq", "tasks_unwritten"),
    ] {
        let sql = format!("EXPLAIN QUERY PLAN SELECT * FROM tasks WHERE {query}");
        let plan: String = connection.query_row(&sql, [], |row| row.get("detail")).unwrap();
        assert!(plan.contains(index), "{query}: {plan}");
    }
}

// covers: TASK-100
#[tokio::test]
async fn leases_continue_after_a_reboot_with_a_wall_clock_of_any_time() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SetClock::at_noon());
    let path = folder.path().join("registry.db");
    let registry = Sqlite::open(&path, clock.clone()).await.unwrap();
    let acquire = |owner: &str| Acquire {
        resource: "r".to_owned(),
        holder: Holder::new(owner, "1"),
        mode: LockMode::Exclusive,
        lease: Some(Duration::from_secs(60)),
        in_order: false,
        task: None,
    };
    registry.acquire(acquire("ann")).await.unwrap();
    registry.close().await;
    // Another process of this boot uses the machine's clock as well.
    clock.jump(HOUR);
    let registry = Sqlite::open(&path, clock.clone()).await.unwrap();
    assert_eq!(
        registry.acquire(acquire("bob")).await.unwrap_err().code(),
        "RESOURCE_LOCKED"
    );
    registry.close().await;
    // The wall clock was set back while the machine was off. The lease ends within its length, not after years.
    clock.jump(-1000 * HOUR);
    clock.reboot();
    let registry = Sqlite::open(&path, clock.clone()).await.unwrap();
    assert_eq!(
        registry.acquire(acquire("bob")).await.unwrap_err().code(),
        "RESOURCE_LOCKED"
    );
    clock.pass(60_001);
    registry.acquire(acquire("bob")).await.unwrap();
    registry.close().await;
}

// covers: TASK-101
#[tokio::test]
async fn a_registry_that_is_damaged_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let registry = open(&path).await;
    create(&registry, "a").await.unwrap();
    let claim = || Claim {
        owner: None,
        except: BTreeSet::new(),
        hold: ExclusiveHold {
            holder: Holder::new("w", "1"),
            lease: Some(Duration::from_secs(30)),
        },
    };
    let other = rusqlite::Connection::open(&path).unwrap();
    for damage in ["UPDATE tasks SET record = 'no record'", "DROP TABLE tasks"] {
        other.execute_batch(damage).unwrap();
        let refused = registry.claim(claim()).await.unwrap_err();
        assert!(
            matches!(refused, TaskError::RegistryUnusable(_)),
            "{damage}: {refused}"
        );
        assert_eq!(refused.code(), "REGISTRY_NOT_INITIALIZED");
    }
    registry.close().await;
}
