//! Many tasks over four workers, of which one is killed again and again: each task completes exactly once, and every layer of it is whole.
//!
//! A small one runs with all tests. The large one is asked for, best in a release build:
//! `cargo test --release -p hankweave-cli --test integration -- --ignored soak`; `HANKWEAVE_SOAK_TASKS` says how many tasks (10,000 without it).

use std::sync::Arc;
use std::time::{Duration, Instant};

use hankweave_core::id::TaskId;
use hankweave_runtime::world::World;
use hankweave_task_model::registry::{NewTask, TaskRow};
use hankweave_task_model::task::TaskStatus;
use hankweave_task_model::{CheckpointId, LogQuery};
use hankweave_tasks::coordinator::{Coordinator, ListQuery, TaskFilter};
use hankweave_tasks::layers::{TaskFiles, TaskLayers};
use hankweave_tasks::worker::TaskSpec;
use hankweave_tasks::{Postgres, Sqlite};
use hankweave_testing::postgres::Database;
use hankweave_testing::{Running, TestProject};
use rustix::process::Signal;
use serde_json::json;

use crate::support::project;

const WORKERS: usize = 4;

/// The most that a soak takes.
const PATIENCE: Duration = Duration::from_secs(3 * 60 * 60);

const AGENT: &str = r#"
cat > /dev/null
echo done >> done.txt
printf '{"type":"system","subtype":"init","session_id":"s-%s","model":"shell","cwd":"/","tools":[]}\n' $$
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s-%s","result":"done","num_turns":1,' $$
printf '"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5},"model_usage_since_last_result":'
printf '{"shell":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.25}}}\n'
"#;

fn soak(project: &TestProject, open: impl AsyncFn() -> Arc<dyn Coordinator>, tasks: usize) {
    let kills = if tasks < 100 { 3 } else { 20 };
    let agent = json!({"command": ["sh", project.write("agent.sh", AGENT)], "stream": "claude"});
    project.write_hank(&json!({"hank": [{
        "id": "work", "name": "work", "model": "shell", "agent": agent, "continuationMode": "fresh", "promptText": "work",
    }]}));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let registry = runtime.block_on(open());
    let order = TaskSpec {
        hank: project.directory(),
        data: None,
        arguments: Vec::new(),
    };
    let new = (0..tasks).map(|number| {
        let mut task = NewTask::new(TaskId::new(format!("soak-{number:05}")).unwrap());
        order.put_into(&mut task.metadata).unwrap();
        task
    });
    let new: Vec<NewTask> = new.collect();
    for some in new.chunks(500) {
        runtime.block_on(registry.create_all(some.to_vec())).unwrap();
    }
    let began = Instant::now();
    let completed = |status| {
        let filter = TaskFilter {
            status: Some(status),
            owner: None,
        };
        usize::try_from(runtime.block_on(registry.count(filter)).unwrap()).unwrap()
    };
    let mut workers: Vec<Running> = (0..WORKERS).map(|number| start(project, number)).collect();
    let mut killed = 0;
    loop {
        let done = completed(TaskStatus::Completed);
        // The files of a task whose worker was killed after its last step follow by and by, and its lease ends.
        if done == tasks && runtime.block_on(is_at_rest(&*registry)) {
            break;
        }
        assert_eq!(completed(TaskStatus::Failed), 0, "one more try would have done");
        assert!(began.elapsed() < PATIENCE, "{done} of {tasks} are done");
        if done >= (killed + 1) * tasks / (kills + 1) && killed < kills {
            workers.remove(0).kill();
            killed += 1;
            workers.push(start(project, WORKERS + killed));
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let took = began.elapsed();
    for worker in workers {
        worker.signal(Signal::TERM);
        worker.finish_within(Duration::from_secs(60)).expect_code(143);
    }
    println!(
        "{tasks} tasks, {WORKERS} workers, {killed} killed: {:.1} s, {:.1} tasks/s",
        took.as_secs_f64(),
        tasks as f64 / took.as_secs_f64()
    );
    assert_eq!(killed, kills);
    let root = project.home().join(".local/share/hankweave/tasks");
    let layers = TaskLayers::new(World::real(), root);
    let rows = runtime.block_on(registry.tasks(ListQuery::default())).unwrap();
    assert_eq!(rows.len(), tasks);
    for row in rows {
        is_whole(&row, &layers.task(row.id().clone()));
    }
    assert!(runtime.block_on(is_at_rest(&*registry)));
    runtime.block_on(registry.close());
    assert_eq!(project.left_behind(), []);
}

/// Whether no lock is held, and the files contain everything.
async fn is_at_rest(registry: &dyn Coordinator) -> bool {
    registry.clean_up().await.unwrap();
    registry.held().await.unwrap().is_empty() && registry.unwritten(1).await.unwrap().is_empty()
}

fn start(project: &TestProject, number: usize) -> Running {
    let name = format!("w{number}");
    let options = ["--lease", "10s", "--orphan-after", "1s", "--quiet"];
    project.start(["worker", "--owner", &name].into_iter().chain(options))
}

/// State, log and checkpoints agree with the registry, and the task has completed once.
fn is_whole(row: &TaskRow, files: &TaskFiles) {
    let id = row.id();
    let state = files.load_state().unwrap().unwrap();
    assert_eq!(
        (row.record.status(), state.status),
        (TaskStatus::Completed, TaskStatus::Completed),
        "{id}"
    );
    let log = files.load_log(&LogQuery::default()).unwrap();
    let seqs: Vec<u64> = log.entries.iter().filter_map(|entry| entry.seq).collect();
    assert!(seqs.iter().copied().eq(1..=row.log_seq), "{id}: {seqs:?}");
    let ends = log
        .entries
        .iter()
        .filter(|entry| entry.message == "Task completed successfully");
    assert_eq!(ends.count(), 1, "{id}");
    let all = files.checkpoints().unwrap();
    assert!(all.invalid.is_empty() && !all.valid.is_empty(), "{id}");
    for manifest in all.valid {
        let checkpoint = CheckpointId::parse(&manifest.id).unwrap();
        files.read_checkpoint(checkpoint).unwrap();
    }
}

async fn sqlite(project: &TestProject) -> Arc<dyn Coordinator> {
    let folder = project.home().join(".local/share/hankweave");
    std::fs::create_dir_all(&folder).unwrap();
    let opened = Sqlite::open(&folder.join("registry.db"), World::real().clock).await;
    Arc::new(opened.unwrap())
}

fn over_postgresql(tasks: usize) {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let mut project = project();
    project.set("HANKWEAVE_REGISTRY", database.url());
    let open = async || {
        let registry: Arc<dyn Coordinator> = Arc::new(Postgres::open(database.url()).await.unwrap());
        registry
    };
    soak(&project, open, tasks);
}

fn over_sqlite(tasks: usize) {
    let project = project();
    soak(&project, async || sqlite(&project).await, tasks);
}

fn many() -> usize {
    let asked = std::env::var("HANKWEAVE_SOAK_TASKS");
    asked.map_or(10_000, |number| number.parse().unwrap())
}

// covers: TASK-72, TASK-74
#[test]
fn a_small_soak_on_sqlite_completes_each_task_once() {
    over_sqlite(24);
}

// covers: TASK-72
#[test]
fn a_small_soak_on_postgresql_completes_each_task_once() {
    over_postgresql(24);
}

#[test]
#[ignore = "takes an hour or so: docs/testing.md says when"]
fn soak_on_sqlite() {
    over_sqlite(many());
}

#[test]
#[ignore = "takes an hour or so: docs/testing.md says when"]
fn soak_on_postgresql() {
    over_postgresql(many());
}
