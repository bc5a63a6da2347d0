//! Write speed of task files, compared with the bare writes and syncs.
//!
//! Both take turns; each round gives a ratio, and the median over all rounds is printed. `cargo bench -p hankweave-tasks --bench layers` takes a
//! quarter of a minute.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hankweave_core::id::TaskId;
use hankweave_runtime::world::World;
use hankweave_tasks::layers::{Durability, TaskFiles, TaskLayers};
use hankweave_tasks::model::{LogEntry, LogLevel};
use serde_json::json;

const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_millis(500);

fn main() {
    let folder = tempfile::tempdir_in(place()).expect("there is a folder");
    let layers = TaskLayers::new(World::real(), folder.path().join("tasks"));
    let files = |name: &str| layers.task(TaskId::new(name).expect("it is plain"));
    let bare = folder.path().join("bare");
    fs::create_dir(&bare).expect("it is new");
    compare(
        "log lines/s, one at a time, buffered",
        append_bare(&bare, 1, false),
        append(&files("single"), 1, Durability::Buffered),
    );
    compare(
        "log lines/s, batches of 100 with sync",
        append_bare(&bare, 100, true),
        append(&files("batches"), 100, Durability::Each),
    );
    compare(
        "states/s with their syncs",
        replace_bare(&bare),
        save(files("state")),
    );
    compare(
        "checkpoints/s of 1,000 log lines with their syncs",
        copies_bare(&bare),
        checkpoint(files("copied")),
    );
}

/// Returns the folder of the files: `HANKWEAVE_BENCH_DIR`, or the temporary folder.
fn place() -> PathBuf {
    std::env::var_os("HANKWEAVE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

/// Runs both in turns and prints the medians of their rates and of the ratio.
fn compare(what: &str, mut theirs: impl FnMut() -> u64, mut ours: impl FnMut() -> u64) {
    let rounds: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| (rate(&mut theirs), rate(&mut ours)))
        .collect();
    let median = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    };
    println!(
        "{what}: ours {:.0}, bare {:.0}, ratio {:.2}",
        median(&|round| round.1),
        median(&|round| round.0),
        median(&|round| round.1 / round.0)
    );
}

fn rate(turn: &mut impl FnMut() -> u64) -> f64 {
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < TURN {
        done += turn();
    }
    done as f64 / began.elapsed().as_secs_f64()
}

fn entry(files: &TaskFiles) -> LogEntry {
    let data = json!({"fromStatus": "pending", "toStatus": "running", "agentId": "coder"});
    files.entry(LogLevel::Info, "Task started by agent coder", Some(data))
}

fn append(files: &TaskFiles, batch: usize, durability: Durability) -> impl FnMut() -> u64 + use<> {
    let mut log = files.open_log(durability).expect("it opens");
    let lines: Vec<LogEntry> = (0..batch).map(|_| entry(files)).collect();
    move || {
        log.append(&lines).expect("there is room");
        batch as u64
    }
}

fn append_bare(folder: &Path, batch: usize, syncs: bool) -> impl FnMut() -> u64 + use<> {
    let path = folder.join(format!("bare-{batch}.jsonl"));
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .expect("it opens");
    let text = vec![b'x'; 150 * batch];
    move || {
        file.write_all(&text).expect("there is room");
        if syncs {
            file.sync_data().expect("the disk works");
        }
        batch as u64
    }
}

fn save(files: TaskFiles) -> impl FnMut() -> u64 {
    let mut pages = 0;
    move || {
        pages += 1;
        let done = files.update_state(None, |state| {
            state.data.insert("pages".to_owned(), json!(pages));
        });
        done.expect("there is room");
        1
    }
}

fn sync(path: &Path) {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .expect("the disk works");
}

fn write(path: &Path, bytes: usize) {
    let mut file = File::create(path).expect("there is room");
    file.write_all(&vec![b'x'; bytes]).expect("there is room");
    file.sync_data().expect("the disk works");
}

fn replace_bare(folder: &Path) -> impl FnMut() -> u64 + use<> {
    let folder = folder.to_owned();
    move || {
        write(&folder.join("state.tmp"), 300);
        fs::rename(folder.join("state.tmp"), folder.join("state.json")).expect("there is room");
        sync(&folder);
        1
    }
}

fn checkpoint(files: TaskFiles) -> impl FnMut() -> u64 {
    files
        .update_state(None, |state| {
            drop(state.data.insert("pages".to_owned(), json!(1)))
        })
        .expect("there is room");
    let lines: Vec<LogEntry> = (0..1000).map(|_| entry(&files)).collect();
    files.append_log(&lines).expect("there is room");
    move || {
        let made = files.create_checkpoint(None).expect("there is room");
        // Without this, each checkpoint would slow down the next. Rotation prevents that in practice.
        fs::remove_dir_all(files.path().join("checkpoints").join(made.id)).expect("it is there");
        1
    }
}

fn copies_bare(folder: &Path) -> impl FnMut() -> u64 + use<> {
    let folder = folder.to_owned();
    move || {
        let copy = folder.join("copy");
        fs::create_dir(&copy).expect("it is new");
        for (name, bytes) in [
            ("state.json", 300),
            ("logs.jsonl", 150_000),
            ("manifest.json", 500),
        ] {
            write(&copy.join(name), bytes);
        }
        sync(&copy);
        fs::rename(&copy, folder.join("copied")).expect("it is new");
        sync(&folder);
        fs::remove_dir_all(folder.join("copied")).expect("it is there");
        1
    }
}
