//! Cost of a codon late in a long night, next to its cost early: by processor time, bytes and calls of our own process.
//!
//! `cargo bench -p hankweave-cli --bench nights [ITERATIONS]`, 10,000 by default. A loop of that many iterations runs with the scripted agent, and
//! then a hank with that number of codons. Afterwards the commands that only read are measured on each. A flat night has equal figures in every line.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

#[expect(dead_code, reason = "other benchmarks use the rest")]
mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use support::{HANKWEAVE, ProcessCost};

/// Percentages of the codons after which the figures are taken.
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
    let (mut before, mut done) = ((0, ProcessCost::default()), 0);
    for line in BufReader::new(run.stdout.take().expect("it is piped")).lines() {
        if !line
            .expect("the program prints text")
            .contains("\"codon.completed\"")
        {
            continue;
        }
        done += 1;
        if marks.contains(&done) {
            let now = (done, ProcessCost::of(run.id()));
            tell(before, now, run.id());
            before = now;
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

#[expect(clippy::cast_precision_loss, reason = "the figures are for people")]
fn tell((first, before): (usize, ProcessCost), (last, now): (usize, ProcessCost), pid: u32) {
    let cost = now.with(before, |now, before| now - before);
    let of_each = |figure: u64| figure as f64 / (last - first) as f64;
    println!(
        "  {first:6} to {last:6}: {:6.2} ms user and {:6.2} ms system, {:8.0} bytes written, {:6.1} reads and writes for each; {} resident",
        of_each(cost.user) * 10.0,
        of_each(cost.system) * 10.0,
        of_each(cost.written),
        of_each(cost.calls),
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

/// Runs the command under a tool that measures it, and returns what both print on standard error; `None` if the tool is missing.
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
