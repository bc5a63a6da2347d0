//! Cost of the spare record: own processor time, bytes and calls of a run with it, next to one that has no place for it.
//!
//! Each round measures all candidates one after the other, and the sums over the rounds are compared.
//!
//! `cargo bench -p hankweave-cli --bench record`

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

use serde_json::{Value, json};
use support::{HANKWEAVE, ProcessCost, tree};

const CODONS: usize = 100;
const FILES: usize = 1_000;
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let here = tempfile::tempdir().expect("the system has room for a temporary folder");
    let elsewhere = tempfile::tempdir_in("/dev/shm").expect("the system has a second file system");
    let places = [Path::new("/proc/none"), here.path(), elsewhere.path()];
    let mut sums = [ProcessCost::default(); 3];
    for _ in 0..ROUNDS {
        for (sum, place) in sums.iter_mut().zip(places) {
            *sum = sum.with(run(place), |sum, more| sum + more);
        }
    }
    println!("{CODONS} codons, {FILES} files, {ROUNDS} rounds, own figures for each codon");
    let without = sums[0];
    for (name, cost) in ["no spare record", "links", "copies elsewhere"]
        .into_iter()
        .zip(sums)
    {
        tell(name, cost, without);
    }
}

/// Runs the hank with its spare record in `place`, and reads the figures once its last codon has completed.
fn run(place: &Path) -> ProcessCost {
    let folder = tree(FILES);
    let codon = |index: usize| {
        let id = format!("c{index}");
        json!({"id": id, "name": id, "agent": {"script": "append.json"}, "model": "haiku",
            "continuationMode": "fresh", "promptText": "go"})
    };
    let hank: Value = (0..CODONS).map(codon).collect();
    let script =
        json!({"turns": [{"text": "on", "tools": [{"append": {"path": "work.txt", "content": "on\n"}}]}]});
    for (name, content) in [("hank.json", json!({"hank": hank})), ("append.json", script)] {
        std::fs::write(folder.path().join(name), content.to_string()).expect("the folder is ours");
    }
    let mut run = Command::new(HANKWEAVE)
        .args(["run", "--json", "--headless", "-e"])
        .args([folder.path(), folder.path().join("hank.json").as_path()])
        .env("XDG_STATE_HOME", place)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let lines = BufReader::new(run.stdout.take().expect("it is piped")).lines();
    let mut completed = lines
        .map_while(Result::ok)
        .filter(|line| line.contains("\"codon.completed\""));
    assert!(completed.nth(CODONS - 1).is_some(), "the run has failed");
    let cost = ProcessCost::of(run.id());
    drop(completed);
    assert!(run.wait().is_ok(), "the run is ours");
    cost
}

#[expect(clippy::cast_precision_loss, reason = "the figures are for people")]
fn tell(name: &str, cost: ProcessCost, without: ProcessCost) {
    let of_each = |figure: u64| figure as f64 / (CODONS * ROUNDS) as f64;
    let ratio = |figure: u64, without: u64| figure as f64 / without as f64;
    println!(
        "  {name:16} {:6.2} ms ({:.2}), {:8.0} bytes written ({:.2}), {:6.1} reads and writes ({:.2})",
        of_each(cost.user + cost.system) * 10.0,
        ratio(cost.user + cost.system, without.user + without.system),
        of_each(cost.written),
        ratio(cost.written, without.written),
        of_each(cost.calls),
        ratio(cost.calls, without.calls),
    );
}
