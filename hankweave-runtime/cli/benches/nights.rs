//! Cost of a codon late in a long night, next to its cost early: by processor time, bytes and calls of our own process.
//!
//! `cargo bench -p hankweave-cli --bench nights [ITERATIONS]`, 10,000 by default. A loop of that many iterations runs with the scripted agent, and
//! then a hank of that many codons; afterwards the commands that only read look at each. A night that stays flat has the same figures in every line.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

/// The program that is measured.
const HANKWEAVE: &str = env!("CARGO_BIN_EXE_hankweave");

/// After so many codons of a hundred the figures are taken.
const MARKS: [usize; 6] = [1, 2, 10, 50, 90, 100];

fn main() {
    let mut arguments = std::env::args().skip(1);
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let codons = arguments
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(10_000);
    println!("a loop of {codons} iterations");
    night(codons, &loop_of(codons));
    println!("a hank of {codons} codons");
    night(codons, &row_of(codons));
}

fn codon(id: &str) -> Value {
    json!({"id": id, "name": id, "agent": "scripted", "model": "haiku", "continuationMode": "fresh",
        "promptText": "x".repeat(200), "checkpointedFiles": ["*.txt"]})
}

fn loop_of(iterations: usize) -> Value {
    json!([{"type": "loop", "id": "l", "name": "l", "codons": [codon("work")],
        "terminateOn": {"type": "iterationLimit", "limit": iterations}}])
}

fn row_of(codons: usize) -> Value {
    (0..codons).map(|number| codon(&format!("c{number}"))).collect()
}

/// Usage of a process so far.
#[derive(Clone, Copy, Default)]
struct Used {
    codons: usize,
    /// Of the processor, in clock ticks.
    ticks: u64,
    written: u64,
    calls: u64,
}

fn night(codons: usize, items: &Value) {
    let folder = tempfile::tempdir().expect("the system has room for a temporary folder");
    let (hank, work) = (folder.path().join("hank"), folder.path().join("work"));
    std::fs::create_dir_all(&hank).expect("the folder is ours");
    std::fs::write(hank.join("hank.json"), json!({"hank": items}).to_string()).expect("the folder is ours");
    let mut run = Command::new(HANKWEAVE)
        .arg("run")
        .arg(&hank)
        .args(["--headless", "--json", "-e"])
        .arg(&work)
        // The second copy of the record goes with the rest.
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let marks = MARKS.map(|part| (codons * part / 100).max(1));
    let (mut before, mut done) = (Used::default(), 0);
    for line in BufReader::new(run.stdout.take().expect("it is piped")).lines() {
        if !line
            .expect("the program prints text")
            .contains("\"codon.completed\"")
        {
            continue;
        }
        done += 1;
        if marks.contains(&done) {
            let used = used(run.id(), done);
            tell(before, used, run.id());
            before = used;
        }
    }
    assert!(
        run.wait().is_ok_and(|status| status.success()),
        "the night has failed"
    );
    let hank = hank.to_string_lossy();
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["run", &hank, "--dry-run"],
        &["history", "--all"],
        &["cost"],
        &["checkpoints", "list"],
        &["logs"],
    ] {
        look(arguments, &work);
    }
    println!(
        "  {} files of sessions",
        files_in(&work.join(".hankweave/tmp/scripted-sessions"))
    );
}

fn files_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

fn used(pid: u32, codons: usize) -> Used {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let tick = |field: usize| fields[field].parse::<u64>().expect("the system counts ticks");
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("it is ours");
    let count = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.trim().parse::<u64>().ok())
            .expect("the system counts")
    };
    Used {
        codons,
        ticks: tick(11) + tick(12),
        written: count("wchar:"),
        calls: count("syscr:") + count("syscw:"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the figures are for people")]
fn tell(before: Used, now: Used, pid: u32) {
    let codons = (now.codons - before.codons) as f64;
    let of_each = |count: u64, earlier: u64| (count - earlier) as f64 / codons;
    println!(
        "  {:6} to {:6}: {:6.2} ms, {:8.0} bytes written, {:6.1} reads and writes for each; {} resident",
        before.codons,
        now.codons,
        // A tick is a hundredth of a second wherever this runs.
        of_each(now.ticks, before.ticks) * 10.0,
        of_each(now.written, before.written),
        of_each(now.calls, before.calls),
        resident(pid),
    );
}

fn resident(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or("nothing").trim().to_owned()
}

/// Prints the processor time and the peak memory of a command that only reads, and its instructions. The first two need GNU time, the last valgrind.
fn look(arguments: &[&str], work: &Path) {
    let begin = Instant::now();
    let timed = said(&["time", "-f", "%U s user, %S s system, %M KiB"], arguments, work);
    let counted = said(
        &[
            "valgrind",
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ],
        arguments,
        work,
    );
    let refs = counted
        .as_deref()
        .and_then(|text| Some(text.split_once("refs:")?.1));
    let instructions = refs.and_then(|text| text.split_whitespace().next());
    println!(
        "  {}: {}, {} instructions, {:.1} s with all that",
        arguments.join(" "),
        timed.as_deref().map_or("not timed", last_line),
        instructions.unwrap_or("uncounted"),
        begin.elapsed().as_secs_f64(),
    );
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or_default()
}

/// Runs the command beneath a tool that measures it, and returns what both print on standard error; `None` where there is no such tool.
fn said(tool: &[&str], arguments: &[&str], work: &Path) -> Option<String> {
    let ended = Command::new(tool[0])
        .args(&tool[1..])
        .arg(HANKWEAVE)
        .args(arguments)
        .arg("-e")
        .arg(work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .ok()?;
    assert!(ended.status.success(), "{arguments:?}");
    Some(String::from_utf8_lossy(&ended.stderr).into_owned())
}
