//! Writer that the kernel kills in the middle of its work.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a test starts and kills real processes, and stops at the first surprise"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_runtime::world::World;
use hankweave_tasks::layers::{Durability, TaskFiles, TaskLayers};
use hankweave_tasks::model::{CheckpointId, LogLevel, LogQuery};
use serde_json::json;

const ROOT: &str = "HANKWEAVE_TEST_TASK_ROOT";

/// Lifetimes of the writer in milliseconds, chosen to kill it at different moments.
const LIVES: [u64; 6] = [1, 4, 9, 17, 30, 55];

fn files(root: &Path) -> TaskFiles {
    TaskLayers::new(World::real(), root).task(TaskId::new("report-7").unwrap())
}

/// Process that is going to be killed. Without the variable it does nothing.
#[test]
fn writer() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let files = files(Path::new(&root));
    let mut log = files.open_log(Durability::Batch).unwrap();
    let begin = files
        .load_state()
        .unwrap()
        .and_then(|state| state.version)
        .unwrap_or(0);
    for number in begin + 1.. {
        let state = files.update_state(Some(1), |state| {
            state.data.insert("number".into(), json!(number));
        });
        assert_eq!(state.unwrap().version, Some(number));
        log.append(&[files.entry(LogLevel::Info, format!("line {number}"), None)])
            .unwrap();
        log.sync().unwrap();
        if number % 3 == 0 {
            files.create_checkpoint(None).unwrap();
        }
        println!("promised {number}");
    }
}

// covers: TASK-42, TASK-43, TASK-44
#[test]
fn what_a_killed_writer_has_promised_is_there_and_the_rest_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let files = files(&root);
    let mut promised = 0;
    for life in LIVES {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["writer", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROOT, &root)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let number = |line: String| line.split_once("promised ")?.1.parse::<u64>().ok();
        // The writer lives until its first promise, and then for this time.
        promised = lines.by_ref().find_map(|line| number(line.unwrap())).unwrap();
        std::thread::sleep(Duration::from_millis(life));
        writer.kill().unwrap();
        writer.wait().unwrap();
        promised = lines
            .filter_map(|line| number(line.ok()?))
            .last()
            .unwrap_or(promised);
        let swept = TaskLayers::new(World::real(), &root).sweep().unwrap();
        assert!(swept.held.is_empty(), "the kernel gives its lock back");
        let state = files.load_state().unwrap().unwrap();
        let version = state.version.unwrap();
        assert_eq!(state.data["number"], json!(version));
        assert!(
            [promised, promised + 1].contains(&version),
            "{promised} {version}"
        );
        let logs = files.load_log(&LogQuery::default()).unwrap();
        assert_eq!(logs.broken, 0);
        assert!(
            logs.entries
                .iter()
                .any(|entry| entry.message == format!("line {promised}"))
        );
        let checkpoints = files.checkpoints().unwrap();
        // Each life may have ended before a checkpoint was complete.
        let whole = (promised / 3).saturating_sub(LIVES.len() as u64);
        assert!(checkpoints.invalid.is_empty() && checkpoints.valid.len() as u64 >= whole);
        for manifest in checkpoints.valid {
            files
                .read_checkpoint(CheckpointId::parse(&manifest.id).unwrap())
                .unwrap();
        }
    }
    assert!(promised >= LIVES.len() as u64);
}
