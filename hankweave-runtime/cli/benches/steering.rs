//! Going back and continuing, measured on whole processes.
//!
//! Each round measures all candidates one after the other, and the medians over the rounds are compared, so that a machine whose
//! speed drifts changes all of them alike. That is why this is no criterion benchmark. What earlier steps leave to be written in the background is
//! written before a candidate begins: a rollback syncs, and would wait for it otherwise.
//!
//! `cargo bench -p hankweave-cli --bench steering`

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

#[expect(dead_code, reason = "other benchmarks use the rest")]
mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::sync;
use serde_json::json;

use support::{HANKWEAVE, median, millis, shell, succeed, tree};

const ROUNDS: usize = 7;

/// Number of files in the tree of the rollback, and of those that are rolled back.
const FILES: usize = 5_000;
const CHANGED: usize = 50;

/// Files of the tree in which codons follow one another, and how many codons.
const SMALL: usize = 1_000;
const CODONS: usize = 21;

fn main() {
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let (ours, git) = way_back();
    println!("{CHANGED} changed files of {FILES} taken back, median of {ROUNDS} rounds, milliseconds");
    println!("  hankweave rollback           {:8.2}", millis(ours));
    println!("  git checkout                 {:8.2}", millis(git));
    println!(
        "  hankweave / git              {:8.2}",
        millis(ours) / millis(git)
    );
    let gap = between_codons();
    println!(
        "{SMALL} files, from the last word of an agent to the first of the next: {:.2} ms (median of {} gaps)",
        millis(gap),
        CODONS - 1
    );
}

/// Returns the time of a rollback after a codon that changed some files, and the time of such a checkout with git.
fn way_back() -> (Duration, Duration) {
    let ours = tree(FILES);
    let change = format!(
        "for n in $(seq 0 {}); do echo changed >> d$((n % 20))/f$n; done",
        CHANGED - 1
    );
    let codon = |id: &str, command: &str| {
        let file = format!("{id}.json");
        let script = json!({"turns": [{"tools": [{"bash": {"command": command}}]}]});
        write(ours.path(), &file, &script.to_string());
        json!({"id": id, "name": id, "agent": {"script": file}, "continuationMode": "fresh", "promptText": "go"})
    };
    let hank = json!({"hank": [codon("one", "true"), codon("two", &change)]});
    write(ours.path(), "hank.json", &hank.to_string());
    let git = tree(FILES);
    let setup = "git init -q . && git config user.name a && git config user.email a@b && git add -A && git commit -qm one && git tag one";
    succeed(&mut shell(git.path(), setup));
    succeed(&mut shell(
        git.path(),
        &format!("{change} && git commit -qam two && git tag two"),
    ));
    let (mut our_times, mut git_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        succeed(hankweave(&["run", "--headless", "."]).current_dir(ours.path()));
        sync();
        our_times.push(timed(
            hankweave(&["rollback", "--codon", "one"]).current_dir(ours.path()),
        ));
        succeed(&mut shell(git.path(), "git checkout -q two"));
        sync();
        git_times.push(timed(
            Command::new("git")
                .args(["checkout", "-q", "one"])
                .current_dir(git.path()),
        ));
    }
    let first = std::fs::read_to_string(ours.path().join("d0/f0")).expect("the file is there");
    assert_eq!(first, "file 0\n", "the files are back");
    (median(our_times), median(git_times))
}

/// The time between two agents that note when they begin and end; the starts of their shells and clocks are part of it.
fn between_codons() -> Duration {
    let folder = tree(SMALL);
    let agent = "date +%s%N >> times\n\
        echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\",\"cwd\":\"/\",\"tools\":[]}'\n\
        echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"s\",\"result\":\"done\"}'\n\
        exec date +%s%N >> times\n";
    write(folder.path(), "agent.sh", agent);
    let codons: Vec<_> = (0..CODONS)
        .map(|number| {
            json!({"id": format!("c{number}"), "name": "c", "model": "m", "continuationMode": "fresh", "promptText": "go",
                "agent": {"command": ["sh", folder.path().join("agent.sh")], "stream": "claude"}})
        })
        .collect();
    write(folder.path(), "hank.json", &json!({"hank": codons}).to_string());
    succeed(hankweave(&["run", "--headless", "."]).current_dir(folder.path()));
    let times = std::fs::read_to_string(folder.path().join("times")).expect("the agents wrote it");
    let times: Vec<u64> = times
        .lines()
        .map(|line| line.parse().expect("nanoseconds are a number"))
        .collect();
    assert_eq!(times.len(), 2 * CODONS);
    let gaps = times[1..]
        .chunks_exact(2)
        .map(|pair| Duration::from_nanos(pair[1] - pair[0]));
    median(gaps.collect())
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the folder is ours");
}

fn hankweave(arguments: &[&str]) -> Command {
    let mut command = Command::new(HANKWEAVE);
    command.args(arguments);
    command
}

fn timed(command: &mut Command) -> Duration {
    let begin = Instant::now();
    succeed(command);
    begin.elapsed()
}
