//! What a talkative agent costs in time and memory, and how long a start takes after a crash, measured on whole processes.
//!
//! Baselines are measured in each round as well. `cargo bench -p hankweave-cli --bench output` measures both; `-- lines` or `-- recovery` measures
//! one. `-- --gib` adds a stream and a journal of one GiB each, which need 3 GB of disk.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::StartingConditions;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CodonId, Pid, RunId};
use hankweave_runtime::hank_files::load;
use hankweave_runtime::journal::{FileJournal, JournalLimits};
use hankweave_runtime::state_manager::{self, StateManager, StateManagerParts, Strictness};
use hankweave_runtime::store::StateFiles;
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::SystemClock;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::ids::RandomIds;
use hankweave_runtime::{Hankweave, Shutdown, StopCause};
use tokio::runtime::Runtime;

const HANKWEAVE: &str = env!("CARGO_BIN_EXE_hankweave");
const LINES: usize = 100_000;
const ROUNDS: usize = 7;
const RUNS: usize = 100;
const EVENTS: u64 = 10_000;
const GIB: u64 = 1 << 30;
/// Streams of the real program.
const RECORDED: [&str; 4] = [
    include_str!("../../../hankweave-core/tests/fixtures/agent-streams/claude/two-tools.jsonl"),
    include_str!("../../../hankweave-core/tests/fixtures/agent-streams/claude/parallel-tools.jsonl"),
    include_str!("../../../hankweave-core/tests/fixtures/agent-streams/claude/subagent.jsonl"),
    include_str!("../../../hankweave-core/tests/fixtures/agent-streams/claude/background-command.jsonl"),
];
const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s-1","model":"m","cwd":"/","tools":[]}"#;
const RESULT: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done"}"#;

fn main() {
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let (options, words): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let chosen = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let sizes = match options.iter().any(|option| option == "--gib") {
        true => &[false, true][..],
        false => &[false],
    };
    for &large in sizes {
        match large {
            false if chosen("lines") => lines(),
            true if chosen("lines") => stream(),
            _ => {}
        }
        if chosen("recovery") {
            recovery(large);
        }
    }
}

fn lines() {
    let empty = median(
        (0..ROUNDS)
            .map(|_| run(&format!("echo '{INIT}'; echo '{RESULT}'")))
            .collect(),
    );
    println!("a run of an agent that says two lines: {:.1} ms", millis(empty));
    for (name, words) in [
        ("lines as claude prints them, recorded", recorded_lines()),
        ("the shortest lines that say something", short_lines()),
    ] {
        let folder = tempfile::tempdir().expect("the system has room for a temporary folder");
        let path = folder.path().join("lines.jsonl");
        fs::write(&path, format!("{INIT}\n{words}{RESULT}\n")).expect("the folder is ours");
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bare.push(cat_with_syncs(&path));
            ours.push(run(&format!("cat '{}'", path.display())));
        }
        let (bare, ours) = (median(bare), median(ours));
        println!(
            "{LINES} {name}, {} MB, median of {ROUNDS} rounds",
            words.len() / 1_000_000
        );
        println!("  cat to a file, one fsync each 200 ms   {:8.1} ms", millis(bare));
        println!("  hankweave run, everything in it        {:8.1} ms", millis(ours));
        println!(
            "  ours / cat                             {:8.2}   without what two lines take {:.2}",
            millis(ours) / millis(bare),
            (millis(ours) - millis(empty)) / millis(bare)
        );
    }
}

/// What the agent and its tools said in recorded conversations, over and over.
fn recorded_lines() -> String {
    let of_the_conversation = |line: &&str| {
        [r#"{"type":"assistant""#, r#"{"type":"user""#]
            .iter()
            .any(|begin| line.starts_with(begin))
    };
    let words: Vec<&str> = RECORDED
        .iter()
        .flat_map(|stream| stream.lines())
        .filter(of_the_conversation)
        .collect();
    words
        .iter()
        .cycle()
        .take(LINES)
        .fold(String::new(), |lines, line| lines + line + "\n")
}

/// Text of one long message, a block a line.
fn short_lines() -> String {
    let mut lines = String::new();
    for number in 0..LINES {
        let _ = writeln!(
            lines,
            r#"{{"type":"assistant","session_id":"s-1","parent_tool_use_id":null,"uuid":"{number:032}","message":{{"id":"msg_1","role":"assistant","model":"m","content":[{{"type":"text","text":"Line {number}: the work continues."}}],"usage":{{"input_tokens":10,"output_tokens":1}}}}}}"#
        );
    }
    lines
}

/// What any recorder must do: read the pipe, append, sync each 200 ms and at the end.
fn cat_with_syncs(path: &Path) -> Duration {
    let target = tempfile::NamedTempFile::new().expect("the system has room for a temporary file");
    let begin = Instant::now();
    let mut child = Command::new("cat")
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat exists");
    let mut output = child.stdout.take().expect("standard output is piped");
    let (mut file, mut chunk) = (target.as_file(), vec![0; 64 << 10]);
    let mut synced = Instant::now();
    loop {
        let length = output.read(&mut chunk).expect("a pipe can be read");
        if length == 0 {
            break;
        }
        file.write_all(&chunk[..length]).expect("the disk has space");
        if synced.elapsed() >= Duration::from_millis(200) {
            file.sync_data().expect("the disk works");
            synced = Instant::now();
        }
    }
    file.sync_data().expect("the disk works");
    let _ = child.wait();
    begin.elapsed()
}

/// A whole run of one codon whose agent is this line of shell.
fn run(agent: &str) -> Duration {
    let folder = project(agent);
    let begin = Instant::now();
    let mut child = start(folder.path(), Stdio::null());
    let status = child.wait().expect("it was started");
    assert!(status.success(), "{status}");
    begin.elapsed()
}

fn project(agent: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("the system has room for a temporary folder");
    let codon = serde_json::json!({"hank": [{
        "id": "a", "name": "a", "model": "m", "continuationMode": "fresh", "promptText": "x",
        "agent": {"command": ["sh", "-c", format!("cat > /dev/null; {agent}")], "stream": "claude"},
    }]});
    fs::write(folder.path().join("hank.json"), codon.to_string()).expect("the folder is ours");
    folder
}

fn start(folder: &Path, output: Stdio) -> Child {
    Command::new(HANKWEAVE)
        .args(["run", "--headless", "--json"])
        .arg(folder)
        .args(["-e".as_ref(), folder])
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built for this benchmark")
}

/// The most memory that a stream of one GiB takes over that of an idle run.
fn stream() {
    let line = "x".repeat(1_023);
    let folder = project(&format!(
        "echo '{INIT}'; while [ ! -e go ]; do sleep 0.05; done; yes {line} | head -c {GIB}; echo '{RESULT}'"
    ));
    let mut child = start(folder.path(), Stdio::piped());
    let mut shown = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
    let started = shown
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains("\"codon.started\""));
    assert!(started, "the agent never started");
    let idle = memory(child.id(), "VmRSS:");
    fs::write(folder.path().join("go"), "").expect("the folder is ours");
    let begin = Instant::now();
    let (mut most, mut events) = (0, 0_u64);
    for _ in shown.map_while(Result::ok) {
        events += 1;
        if events.is_multiple_of(10_000) {
            most = memory(child.id(), "VmHWM:").max(most);
        }
    }
    let elapsed = begin.elapsed();
    let status = child.wait().expect("it was started");
    assert!(status.success(), "{status}");
    println!(
        "1 GiB of output, {events} events shown: {:.1} s, {idle} KiB idle, {most} KiB at most, {} KiB over idle",
        elapsed.as_secs_f64(),
        most.saturating_sub(idle)
    );
}

fn memory(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let found = status.lines().find_map(|line| line.strip_prefix(name));
    found
        .and_then(|kib| kib.trim().trim_end_matches(" kB").trim().parse().ok())
        .unwrap_or(0)
}

/// From a killed run to a directory that is ready for the next one: lock, journal, state, checkpoints, processes, the record of the crash.
fn recovery(large: bool) {
    let runtime = Runtime::new().expect("threads can be started");
    let (mut ready, mut extra) = (Vec::new(), 0);
    for _ in 0..ROUNDS {
        let folder = crashed(large);
        let hank = load(folder.path()).expect("the hank was just written");
        let before = memory(std::process::id(), "VmRSS:");
        let begin = Instant::now();
        let opened = runtime.block_on(async {
            let builder = Hankweave::builder(hank);
            builder.execution_dir(folder.path()).open().await
        });
        ready.push(begin.elapsed());
        extra = extra.max(memory(std::process::id(), "VmRSS:").saturating_sub(before));
        let opened = opened.expect("nothing is damaged");
        assert!(
            opened
                .notices()
                .iter()
                .any(|notice| notice.contains("had crashed")),
            "{:?}",
            opened.notices()
        );
        let shutdown = Shutdown::new();
        shutdown.request(StopCause::Request);
        runtime
            .block_on(opened.run(shutdown))
            .expect("it stops before its first codon");
    }
    let what = if large { ", a journal of 1 GiB" } else { "" };
    println!(
        "ready after a kill with {RUNS} runs and {EVENTS} events{what}: {:.1} ms, at most {extra} KiB more (median of {ROUNDS})",
        millis(median(ready))
    );
}

/// An execution directory as a killed run leaves it.
fn crashed(large: bool) -> tempfile::TempDir {
    let folder = project("exit 0");
    let state_dir = folder.path().join(".hankweave");
    fs::create_dir(&state_dir).expect("the folder is ours");
    fs::set_permissions(&state_dir, PermissionsExt::from_mode(0o700)).expect("the folder is ours");
    let behind = if large {
        grow_journal(&state_dir.join("events"))
    } else {
        0
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has room for one more");
    runtime.block_on(record(&state_dir, behind));
    folder
}

/// Records a hundred runs, and stops in the middle of the last one without recording its end.
async fn record(state_dir: &Path, behind: u64) {
    let disk = Arc::new(RealDisk);
    let journal = FileJournal::open(disk.clone(), &state_dir.join("events"), JournalLimits::default());
    let parts = StateManagerParts {
        files: StateFiles::new(disk, None, state_dir.to_owned()),
        journal: Arc::new(journal.expect("the journal can be made")),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds::new()),
        blocking: Blocking::Inline,
    };
    let loaded = state_manager::load(&parts, Strictness::StartOver).expect("nothing is damaged");
    let (manager, task) = StateManager::start(parts, loaded);
    let task = task.spawn();
    let mut last = None;
    for event in history() {
        last = Some(manager.transition(event).await);
    }
    let receipt = last
        .expect("there is a history")
        .await
        .expect("the story is legal");
    assert!(receipt.seq >= EVENTS + behind, "{}", receipt.seq);
    task.abort();
    let _ = task.await;
}

fn history() -> Vec<StateEvent> {
    let mut events = Vec::new();
    for number in 1..RUNS {
        let run = RunId::new(format!("run-{number}")).expect("the name is a folder name");
        events.push(run_started(&run));
        events.push(codon_started(&run));
        events.push(moved(
            &run,
            "preparing",
            "skipped",
            r#"{"skippedDuring":"preparing"}"#,
        ));
        events.push(StateEvent::RunCompleted {
            run_id: run,
            cause: None,
        });
    }
    let run = RunId::new("open").expect("the name is a folder name");
    events.push(run_started(&run));
    events.push(codon_started(&run));
    events.push(moved(&run, "preparing", "starting", "{}"));
    let process = r#"{"claudePid":1,"claudeLogPath":"runs/open/a-command.log"}"#;
    events.push(moved(&run, "starting", "initializing", process));
    events.push(moved(
        &run,
        "initializing",
        "running",
        r#"{"claudeSessionId":"session"}"#,
    ));
    while (events.len() as u64) < EVENTS {
        events.push(StateEvent::CostsIncremented {
            run_id: run.clone(),
            codon_id: codon_id(),
            cost_delta: Usd::from_micros(1),
            tokens_delta: TokenUsage {
                output_tokens: 1,
                ..TokenUsage::ZERO
            },
        });
    }
    events
}

fn codon_id() -> CodonId {
    CodonId::new("a").expect("the name is a codon id")
}

fn run_started(run: &RunId) -> StateEvent {
    StateEvent::RunStarted {
        run_id: run.clone(),
        run_folder: Path::new("/project/.hankweave/runs").join(run.as_str()),
        git_branch: format!("run-{run}"),
        starting_conditions: StartingConditions::fresh(None),
        server_pid: Pid(1),
    }
}

fn codon_started(run: &RunId) -> StateEvent {
    StateEvent::CodonStarted {
        run_id: run.clone(),
        codon_id: codon_id(),
        loop_context: None,
        chosen_agent: None,
        start_checkpoint: None,
    }
}

fn moved(run: &RunId, from: &str, to: &str, metadata: &str) -> StateEvent {
    let status = |name: &str| serde_json::from_value(name.into()).expect("the name is a status");
    StateEvent::CodonTransitioned {
        run_id: run.clone(),
        codon_id: codon_id(),
        from: status(from),
        to: status(to),
        metadata: Some(serde_json::from_str(metadata).expect("the metadata is an object")),
    }
}

/// Lines of agent output with rising numbers in segments of 64 MiB; returns the last number.
fn grow_journal(events: &Path) -> u64 {
    fs::create_dir(events).expect("the folder is ours");
    let (mut seq, mut written, mut segment) = (0_u64, 0_u64, 1);
    while written < GIB {
        let path = events.join(format!("{segment:06}.jsonl"));
        let mut file = BufWriter::new(File::create(path).expect("the folder is ours"));
        let mut bytes = 0;
        while bytes < 64 << 20 {
            seq += 1;
            let line = format!(
                "{{\"seq\":{seq},\"id\":\"bench-{seq}\",\"timestamp\":\"2025-01-04T12:00:00.000Z\",\"type\":\"info\",\"data\":{{\"message\":\"{}\"}}}}\n",
                "x".repeat(400)
            );
            bytes += line.len() as u64;
            file.write_all(line.as_bytes()).expect("the disk has space");
        }
        written += bytes;
        segment += 1;
    }
    seq
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}
