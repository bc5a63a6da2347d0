//! What hankweave costs on top of the agents that it runs, measured on whole processes.
//!
//! Each round measures all candidates one after the other, and the medians over the rounds are compared, so that a machine whose
//! speed drifts changes all of them alike. That is why this is no criterion benchmark.
//!
//! `cargo bench -p hankweave-cli --bench overhead`

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

#[expect(dead_code, reason = "other benchmarks use the rest")]
mod support;

use std::fmt::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{HANKWEAVE, median, millis, shell, succeed, tree};

const CODONS: usize = 50;
const FILES: usize = 1_000;
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let (mut agent, mut run, mut by_hand, mut version) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        agent.push(agent_alone());
        run.push(with_hankweave());
        by_hand.push(with_git_by_hand());
        version.push(print_version());
    }
    let (agent, run, by_hand) = (median(agent), median(run), median(by_hand));
    println!("{CODONS} codons, {FILES} files, median of {ROUNDS} rounds, milliseconds for each codon");
    println!("  agent alone                  {:8.2}", millis(agent));
    println!(
        "  hankweave run                {:8.2}   overhead {:.2}",
        millis(run),
        millis(run) - millis(agent)
    );
    println!(
        "  agent, git add, git commit   {:8.2}   overhead {:.2}",
        millis(by_hand),
        millis(by_hand) - millis(agent)
    );
    println!(
        "  hankweave run / by hand      {:8.2}",
        millis(run) / millis(by_hand)
    );
    println!(
        "hankweave --version            {:8.2} ms",
        millis(median(version))
    );
    println!("resident memory while an agent works: {} KiB", idle_memory());
}

/// The scripted agent that does nothing, for each codon.
fn agent_alone() -> Duration {
    let begin = Instant::now();
    for _ in 0..CODONS {
        succeed(Command::new(HANKWEAVE).arg("scripted-agent"));
    }
    begin.elapsed() / CODONS as u32
}

fn with_hankweave() -> Duration {
    let folder = tree(FILES);
    let mut hank = String::from("{\"hank\":[");
    for index in 0..CODONS {
        let comma = if index == 0 { "" } else { "," };
        let codon = format!("{comma}{{\"id\":\"c{index}\",\"name\":\"c{index}\",\"agent\":\"scripted\",");
        let _ = write!(
            hank,
            "{codon}\"continuationMode\":\"fresh\",\"promptText\":\"do nothing\"}}"
        );
    }
    hank.push_str("]}");
    let file = folder.path().join("hank.json");
    std::fs::write(&file, hank).expect("a temporary folder can be written to");
    let begin = Instant::now();
    succeed(
        Command::new(HANKWEAVE)
            .arg("run")
            .arg(&file)
            .args(["-e".as_ref(), folder.path()]),
    );
    begin.elapsed() / CODONS as u32
}

fn with_git_by_hand() -> Duration {
    let folder = tree(FILES);
    let setup = "git init -q . && git config user.name a && git config user.email a@b && git add -A && git commit -qm first";
    succeed(shell(folder.path(), setup));
    let one = format!(
        "'{HANKWEAVE}' scripted-agent > agent.log && git add -A && git commit -q --allow-empty -m codon"
    );
    let begin = Instant::now();
    for _ in 0..CODONS {
        succeed(shell(folder.path(), &one));
    }
    begin.elapsed() / CODONS as u32
}

fn print_version() -> Duration {
    let begin = Instant::now();
    succeed(Command::new(HANKWEAVE).arg("--version"));
    begin.elapsed()
}

/// KiB of `hankweave run` once its agent has started and says nothing.
fn idle_memory() -> u64 {
    let folder = tree(FILES);
    std::fs::write(folder.path().join("hang.json"), r#"{"turns":[{"hang":true}]}"#)
        .expect("the folder is ours");
    let hank = r#"{"hank":[{"id":"a","name":"a","agent":{"script":"hang.json"},"continuationMode":"fresh","promptText":"x"}]}"#;
    std::fs::write(folder.path().join("hank.json"), hank).expect("the folder is ours");
    let mut child = Command::new(HANKWEAVE)
        .args(["run", "--json"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built for this benchmark");
    let out = child.stdout.take().expect("standard output is piped");
    let started = std::io::BufRead::lines(std::io::BufReader::new(out))
        .map_while(Result::ok)
        .any(|line| line.contains("\"codon.started\""));
    assert!(started, "the agent never started");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let kib = resident
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0);
    succeed(Command::new("kill").arg(child.id().to_string()));
    let _ = child.wait();
    kib
}
