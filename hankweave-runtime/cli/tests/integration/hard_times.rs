//! Kills at random moments, many instances at once, disks that are full or fail: what was acknowledged stays, and the next start continues.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use hankweave_testing::{Finished, TestProject, TinyDisk, swept};
use serde_json::{Value, json};

use crate::support::{assert_checkpoint, codon, project, strace_is_there, traced};

/// Far longer than anything here takes; it only turns a hang into a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// Writes a hank of three codons of the scripted agent, which write to a file and then play `turns`.
fn write_hank(project: &TestProject, turns: &Value) {
    let mut all = vec![json!({"tools": [{"append": {"path": "work.txt", "content": "${PROMPT}\n"}}]})];
    all.extend(turns.as_array().cloned().unwrap_or_default());
    project.write("script.json", json!({"turns": all}).to_string());
    let codon = |id: &str| {
        json!({"id": id, "name": id, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": id,
            "agent": {"script": "script.json"}})
    };
    project.write_hank(&json!({"hank": [codon("one"), codon("two"), codon("three")]}));
}

/// Asserts everything that must hold while no instance is at work, no matter what happened before.
#[track_caller]
fn assert_in_order(project: &TestProject, execution: &Path) -> Value {
    let state_dir = execution.join(".hankweave");
    let verdict = project.run(["state", "validate", "--json", "-e", &execution.to_string_lossy()]);
    verdict.expect_code(0);
    assert_eq!(verdict.json_document()["valid"], true, "{verdict}");
    let leftovers: Vec<PathBuf> = files_below(&state_dir)
        .into_iter()
        .filter(|path| {
            let name = path.to_string_lossy();
            !path.starts_with(state_dir.join("tmp")) && (name.ends_with(".tmp") || name.ends_with(".lock"))
        })
        .collect();
    assert_eq!(leftovers, Vec::<PathBuf>::new());
    assert_eq!(project.left_behind(), []);
    let state = project.state(execution);
    let runs = state["runs"].as_array().unwrap();
    for record in runs.iter().flat_map(|run| run["codons"].as_array().unwrap()) {
        for name in ["rigSetupCheckpoint", "completionCheckpoint", "errorCheckpoint"] {
            if record.get(name).is_some_and(|sha| sha != "") {
                assert_checkpoint(project, execution, &record[name]);
            }
        }
    }
    state
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files
}

/// The journal's whole lines, and how many are torn.
fn journal(execution: &Path) -> (Vec<Value>, usize) {
    let mut segments = files_below(&execution.join(".hankweave/events"));
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    segments.sort();
    let text: String = segments
        .iter()
        .map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned())
        .collect();
    let (mut whole, mut torn) = (Vec::new(), 0);
    for line in text.lines().filter(|line| !line.is_empty()) {
        match serde_json::from_str(line) {
            Ok(event) => whole.push(event),
            Err(_) => torn += 1,
        }
    }
    (whole, torn)
}

/// What the program printed as acknowledged: codons that completed, with their run.
fn acknowledged(finished: &Finished) -> Vec<(u64, Value)> {
    let events = finished
        .stdout
        .lines()
        .map_while(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter_map(|event| Some((event["seq"].as_u64()?, event)))
        .collect()
}

/// Numbers that look random and depend only on the seed.
struct Dice(u64);

impl Dice {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn number(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |value| value.parse().unwrap())
}

/// Forty kills, each followed by another start that may be killed as well. `HANKWEAVE_TEST_KILLS` and
/// `HANKWEAVE_TEST_SEED` make it longer or another one.
// covers: F1, P1, P7, P8, P9, L4
#[test]
fn after_a_kill_at_any_moment_the_next_start_goes_on_from_what_was_acknowledged() {
    let (kills, seed) = (
        number("HANKWEAVE_TEST_KILLS", 40),
        number("HANKWEAVE_TEST_SEED", 20_250_104),
    );
    println!("HANKWEAVE_TEST_SEED={seed} HANKWEAVE_TEST_KILLS={kills}");
    let mut dice = Dice(seed);
    let mut killed = 0;
    while killed < kills {
        let project = TestProject::in_memory(env!("CARGO_BIN_EXE_hankweave"));
        write_hank(&project, &json!([{"text": "half-way", "delayMs": 30}]));
        let execution = project.directory();
        let mut promised: BTreeMap<u64, Value> = BTreeMap::new();
        let mut crashes = 0;
        // The time that a whole run takes is unknown, so that the kills reach into all of it and beyond.
        for _ in 0..8 {
            let running = project.start(["run", "--headless", "--json"]);
            std::thread::sleep(Duration::from_millis(dice.below(400)));
            let finished = running.kill();
            promised.extend(acknowledged(&finished));
            if finished.signal.is_none() {
                finished.expect_code(0);
                break;
            }
            (killed, crashes) = (killed + 1, crashes + 1);
        }
        let last = project.run(["run", "--headless", "--json"]);
        last.expect_code(0);
        promised.extend(acknowledged(&last));

        let state = assert_in_order(&project, &execution);
        assert_eq!(state["currentRunId"], Value::Null, "{last}\n{state:#}");
        let work = fs::read_to_string(execution.join("work.txt")).unwrap();
        for id in ["one", "two", "three"] {
            assert!(work.lines().any(|line| line == id), "{id} is missing: {work}");
        }
        let (events, torn) = journal(&execution);
        assert!(torn <= crashes, "{torn} torn lines after {crashes} crashes");
        let mut recorded = BTreeMap::new();
        for event in &events {
            let doubled = recorded.insert(event["seq"].as_u64().unwrap(), event);
            assert!(doubled.is_none(), "{event} has the number of {doubled:?}");
        }
        // State events are durable before they are shown. Others may be shown first, but a kill takes nothing from a file.
        for (seq, event) in &promised {
            let kept = recorded.get(seq);
            assert_eq!(
                kept.map(|kept| &kept["id"]),
                Some(&event["id"]),
                "{event} is lost"
            );
        }
    }
}

/// Two and six at once on one directory, none of which is prepared: one works, the others are refused and change nothing.
// covers: F6, L1, L3
#[test]
fn of_many_instances_exactly_one_works() {
    for count in [2, 6] {
        let project = project();
        write_hank(
            &project,
            &json!([{"tools": [{"bash": {"command": "while [ ! -e go ]; do sleep 0.01; done"}}]}]),
        );
        let instances: Vec<_> = (0..count).map(|_| project.start(["run", "--headless"])).collect();
        std::thread::scope(|scope| {
            let (end, ends) = mpsc::channel();
            for instance in instances {
                let end = end.clone();
                scope.spawn(move || end.send(instance.finish_within(DEADLINE)));
            }
            // All but one end; the remaining one holds the directory.
            for _ in 1..count {
                let finished = ends.recv().expect("nobody is refused");
                finished.expect_code(75);
                assert!(finished.stderr.contains("in use"), "{finished}");
            }
            project.write("go", "");
            ends.recv().expect("one works").expect_code(0);
        });
        let state = assert_in_order(&project, &project.directory());
        assert_eq!(state["runs"].as_array().map(Vec::len), Some(1));
    }
}

/// A disk that fills while the agent talks: the run ends with exit code 74, the records are whole, and with more space it continues.
// covers: F3, P4, P5
#[test]
fn a_disk_that_is_full_ends_the_run_in_order_and_space_lets_it_go_on() {
    // From a disk that is too small for the first file to one that is full somewhere in the middle.
    for kib in [64, 256, 1024] {
        let disk = match TinyDisk::mount(kib) {
            Ok(disk) => disk,
            Err(skip) => return println!("{skip}"),
        };
        let project = project();
        let talk: Vec<Value> = (0..40).map(|_| json!({"text": "x".repeat(20_000)})).collect();
        write_hank(&project, &json!(talk));
        let execution = disk.path();
        let arguments = ["run", ".", "--headless", "-e", &execution.to_string_lossy()].map(str::to_owned);
        let full = project.run(&arguments);
        full.expect_code(74);
        assert!(!full.stderr.contains("panicked"), "{full}");
        assert_eq!(project.left_behind(), []);
        disk.grow(64 * 1024);
        project.run(&arguments).expect_code(0);
        let state = assert_in_order(&project, execution);
        let newest = &state["runs"][0];
        assert_eq!(newest["status"], "completed", "{newest:#}");
    }
}

/// A checkpoint that does not fit fails its codon, and is reported as a problem of the disk. A limit of the user for the length of files does not
/// end us by its signal.
// covers: G5, F3
#[test]
fn a_checkpoint_that_the_disk_does_not_take_is_a_matter_of_the_disk() {
    let shell = TestProject::new("/bin/sh");
    let mut dice = Dice(1);
    let noise: Vec<u8> = (0..400 << 10).map(|_| dice.below(256) as u8).collect();
    shell.write("noise.bin", noise);
    let script = json!({"turns": [{"tools": [{"bash": {"command": "ln -f noise.bin work.bin"}}]}]});
    shell.write("script.json", script.to_string());
    shell.write_hank(&json!({"hank": [{"id": "one", "name": "One", "model": "claude-sonnet-4-5", "continuationMode": "fresh",
        "promptText": "go", "agent": {"script": "script.json"}, "checkpointedFiles": ["work.bin"]}]}));
    let run = format!("exec '{}' run --headless", env!("CARGO_BIN_EXE_hankweave"));
    let limited = shell.run(["-c", &format!("ulimit -f 256; {run}")]);
    limited.expect_code(74);
    let state = shell.state(&shell.directory());
    let record = codon(&state["runs"][0], "one");
    assert_eq!(record["status"], "failed", "{record}");
    let message = record["failureReason"]["message"].as_str().unwrap();
    assert!(message.starts_with("checkpoint failed: "), "{message}");
    shell.run(["-c", &run]).expect_code(0);
    let healthy = TestProject::new(env!("CARGO_BIN_EXE_hankweave"));
    assert_in_order(&healthy, &shell.directory());
}

/// A disk that gives an error for a file of the user's is not a mistake in that file.
// covers: F3
#[test]
fn input_that_the_disk_does_not_give_is_a_matter_of_the_disk() {
    if !strace_is_there() {
        return;
    }
    let project = TestProject::in_memory("env");
    project.write("prompt.md", "hello");
    project.write("tree/file", "x");
    project.write("hankweave.json", "{}");
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "One", "agent": "scripted", "continuationMode": "fresh",
        "promptFile": "prompt.md", "rigSetup": [{"type": "copy", "copy": {"from": "tree", "to": "made"}}]}]}),
    );
    for (call, path, command) in [
        ("openat", "hank.json", "run"),
        ("read", "hank.json", "validate"),
        ("read", "hankweave.json", "run"),
        ("read", "hankweave.json", "config"),
        ("read", "prompt.md", "run"),
        ("getdents64", "tree", "validate"),
    ] {
        let path = project.directory().join(path);
        let inject = format!("inject={call}:error=EIO");
        let path = path.to_string_lossy();
        let hit = traced(&project, &["-P", &path, "-e", &inject], &[command]);
        assert_eq!(hit.code, Some(74), "{call} {path} {command}: {hit}");
        assert!(hit.stderr.contains("Input/output error"), "{hit}");
        assert!(
            !project.directory().join(".hankweave").exists(),
            "nothing was written"
        );
    }
}

/// Errors of single system calls on our own files: never a panic, never a hang, and always another start that completes.
// covers: F3, P5, D5
#[test]
fn a_system_call_that_fails_costs_at_most_the_run() {
    if !strace_is_there() {
        return;
    }
    let calls = [
        ("fdatasync", "EIO", ".hankweave/state.log"),
        ("write", "ENOSPC", ".hankweave/state.log"),
        ("write", "EIO", ".hankweave/events/000001.jsonl"),
        ("fdatasync", "EIO", ".hankweave/events/000001.jsonl"),
        ("write", "EINTR", ".hankweave/state.log"),
        ("fdatasync", "EINTR", ".hankweave/state.log"),
        ("fsync", "EIO", ".hankweave"),
        // Files inside our folder are reached from its descriptor, so each call counts by the folder in which it is made.
        ("renameat,renameat2", "ENOSPC", ".hankweave"),
        ("openat", "EIO", ".hankweave"),
        ("mkdirat", "ENOSPC", ".hankweave"),
        ("mkdirat", "EIO", ".hankweave"),
        ("mkdirat", "EIO", ".hankweave/runs"),
    ];
    for (call, error, path) in calls {
        for when in swept(1..=5) {
            let project = TestProject::in_memory("env");
            write_hank(&project, &json!([]));
            let inject = format!("inject={call}:error={error}:when={when}");
            let hit = run_injected(&project, Some(path), &inject);
            let place = format!("{inject} on {path}: {hit}");
            assert!(matches!(hit.code, Some(0 | 74)), "{place}");
            assert!(!hit.stderr.contains("panicked"), "{place}");
            if error == "EINTR" {
                assert_eq!(hit.code, Some(0), "{place}");
            } else if when == 1 {
                // Every run makes each of these calls, and cannot continue without it.
                assert_eq!(hit.code, Some(74), "{place}");
            }
            let healthy = TestProject::new(env!("CARGO_BIN_EXE_hankweave"));
            let execution = project.directory();
            let hank = execution.to_string_lossy();
            let again = healthy.run(["run", &hank, "--headless", "-e", &hank]);
            assert_eq!(again.code, Some(0), "after {place}\n{again}");
            assert_in_order(&healthy, &execution);
        }
    }
}

/// Runs the hank of a project from its start, with an `injection` of strace on a path in the project, or on every path.
fn run_injected(project: &TestProject, path: Option<&str>, injection: &str) -> Finished {
    let path = path.map(|path| project.directory().join(path).to_string_lossy().into_owned());
    let mut options = vec!["-e", injection];
    options.extend(path.iter().flat_map(|path| ["-P", path]));
    traced(project, &options, &["run", "--headless", "--new"])
}

/// "Could not read" must never look like "damaged": a repository that the system does not give to us once, or not at all, stays where it is.
// covers: G10, P8, F21, RUN-5
#[test]
fn a_repository_that_cannot_be_read_at_the_moment_is_not_taken_for_a_broken_one() {
    if !strace_is_there() {
        return;
    }
    let project = TestProject::in_memory("env");
    write_hank(&project, &json!([]));
    let healthy = TestProject::new(env!("CARGO_BIN_EXE_hankweave"));
    run_injected(&project, Some("none"), "inject=openat:error=EIO").expect_code(0);
    for path in ["HEAD", "config", "refs/heads/main"] {
        for when in ["1", "1+"] {
            let injection = format!("inject=openat:error=EIO:when={when}");
            let injected = run_injected(
                &project,
                Some(&format!(".hankweave/checkpoints/{path}")),
                &injection,
            );
            assert!(matches!(injected.code, Some(0 | 74)), "{injected}");
            assert_in_order(&healthy, &project.directory());
        }
    }
}

/// The system refuses the first `write` of every thread, also that with which threads wake one another. The program ends, and
/// the next start continues.
// covers: F3, P5, CLI-2
#[test]
fn a_runtime_whose_threads_cannot_wake_one_another_ends() {
    if !strace_is_there() {
        return;
    }
    let project = TestProject::in_memory("env");
    write_hank(&project, &json!([]));
    let hit = run_injected(&project, None, "inject=write:error=EIO:when=1");
    assert!(hit.code.is_some_and(|code| code != 0), "{hit}");
    let healthy = TestProject::new(env!("CARGO_BIN_EXE_hankweave"));
    let execution = project.directory();
    let hank = execution.to_string_lossy();
    let again = healthy.run(["run", &hank, "--headless", "-e", &hank]);
    assert_eq!(again.code, Some(0), "after {hit}\n{again}");
    assert_in_order(&healthy, &execution);
}

/// Without a thread there is no run, but an orderly word about it.
// covers: F3
#[test]
fn a_system_that_gives_no_threads_is_told_with_an_exit_code() {
    if !strace_is_there() {
        return;
    }
    let project = TestProject::in_memory("env");
    write_hank(&project, &json!([]));
    let inject = "inject=clone,clone3:error=EAGAIN";
    traced(&project, &["-e", inject], &["run", "--headless"]).expect_code(74);
}

/// A line of 50 MB, bytes that are no text, and a hundred thousand lines, with at most 64 MiB of memory over idle.
// covers: F11, S9
#[test]
fn whatever_an_agent_prints_takes_little_memory_and_loses_nothing() {
    let project = TestProject::in_memory(env!("CARGO_BIN_EXE_hankweave"));
    let lines = "x\n".repeat(10_000);
    let mut turns = vec![
        json!({"tools": [{"bash": {"command": "while [ ! -e go ]; do sleep 0.01; done"}}]}),
        json!({"hugeLine": 50_000_000, "invalidUtf8": true}),
    ];
    turns.extend((0..10).map(|_| json!({"raw": lines.trim_end()})));
    turns.push(json!({"text": "that was all", "tools": [{"bash": {"command": "while [ ! -e end ]; do sleep 0.01; done"}}]}));
    project.write("script.json", json!({"turns": turns}).to_string());
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "A", "model": "claude-sonnet-4-5", "continuationMode": "fresh",
        "promptText": "x", "agent": {"script": "script.json"}}]}),
    );
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"codon.started\""));
    let idle = memory(running.pid(), "VmRSS:");
    project.write("go", "");
    running.wait_for_line(|line| line.contains("that was all"));
    let most = memory(running.pid(), "VmHWM:");
    project.write("end", "");
    let finished = running.finish_within(DEADLINE);
    finished.expect_code(0);
    assert!(most < idle + (64 << 10), "{idle} KiB idle, {most} KiB at most");

    let (events, torn) = journal(&project.directory());
    assert_eq!(torn, 0);
    let unparsed = events
        .iter()
        .filter(|event| event["type"] == "output.unparsed")
        .count();
    assert_eq!(unparsed, 100_001);
    let cut: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "output.truncated")
        .collect();
    assert_eq!(cut.len(), 1);
    assert_eq!(cut[0]["data"]["length"], 50_000_000);
    assert_eq!(cut[0]["data"]["sha256"].as_str().map(str::len), Some(64));
    let shown: BTreeSet<u64> = acknowledged(&finished).into_iter().map(|(seq, _)| seq).collect();
    assert!(shown.len() > 100_000, "{} events were shown", shown.len());
}

/// KiB of the process as the kernel counts them.
pub(crate) fn memory(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
