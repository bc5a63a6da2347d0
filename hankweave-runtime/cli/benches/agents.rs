//! What `hankweave run` of one codon with the real claude takes beyond claude alone, measured on whole processes.
//!
//! Both ask the scripted model server with equal arguments, environment and prompt. Each round measures one and then the other, and every second
//! round swaps the order, so that a machine whose speed drifts affects both alike. That is why this is no criterion benchmark.
//!
//! `cargo bench -p hankweave-cli --bench agents`

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

#[expect(dead_code, reason = "other benchmarks use the rest")]
mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hankweave_testing::{ModelServer, Scenario, agents};
use serde_json::json;
use support::{HANKWEAVE, median, millis, shell, succeed, tree};
use tempfile::TempDir;

const ROUNDS: usize = 21;

const PROMPT: &str = "Do the scripted task.";

fn main() {
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let scenario = json!({"turns": [{"text": "Done."}], "after": "repeat-last"});
    let scenario = Scenario::try_from(scenario).expect("it is a scenario");
    let server = ModelServer::start(scenario).expect("a port of this machine is free");
    let home = tempfile::tempdir().expect("the system has room for a temporary folder");
    let stage = Stage {
        claude,
        url: server.url(),
        home,
    };
    // Both have been read from the disk once.
    let (mut bare, mut run) = (Vec::new(), Vec::new());
    stage.bare();
    stage.run();
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            bare.push(stage.bare());
            run.push(stage.run());
        } else {
            run.push(stage.run());
            bare.push(stage.bare());
        }
    }
    let beyond: Vec<f64> = sorted(
        bare.iter()
            .zip(&run)
            .map(|(bare, run)| millis(*run) - millis(*bare)),
    );
    let (bare, run) = (median(bare), median(run));
    println!("one codon, median of {ROUNDS} rounds, milliseconds");
    println!("  claude alone     {:8.1}", millis(bare));
    println!("  hankweave run    {:8.1}", millis(run));
    println!(
        "  difference       {:8.1}   within a round {:.1}",
        millis(run) - millis(bare),
        beyond[beyond.len() / 2]
    );
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

struct Stage {
    claude: PathBuf,
    url: String,
    home: TempDir,
}

impl Stage {
    fn bare(&self) -> Duration {
        let claude = self.claude.display();
        self.timed(&format!(
            "printf %s '{PROMPT}' | '{claude}' -p --output-format stream-json --verbose --include-partial-messages \
             --forward-subagent-text --model claude-sonnet-4-5 --dangerously-skip-permissions"
        ))
    }

    fn run(&self) -> Duration {
        self.timed(&format!("exec '{HANKWEAVE}' run --headless"))
    }

    /// From the start of a process in a workspace of its own to its end, with nothing of the environment but what claude needs.
    fn timed(&self, line: &str) -> Duration {
        let folder = tree(20);
        let hank = json!({"hank": [{"id": "a", "name": "a", "agent": "claude", "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": PROMPT, "checkpointedFiles": ["*.txt"]}]});
        std::fs::write(folder.path().join("hank.json"), hank.to_string()).expect("the folder is ours");
        let mut command = shell(folder.path(), line);
        command.env_clear().env("HANKWEAVE_CLAUDE_PATH", &self.claude);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path());
        command.envs([
            ("ANTHROPIC_API_KEY", "sk-test"),
            ("IS_SANDBOX", "1"),
            ("LANG", "C.UTF-8"),
        ]);
        let quiet = [
            "DISABLE_TELEMETRY",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_AUTOUPDATER",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            // As `hankweave run` sets them.
            "DISABLE_COMPACT",
            "DISABLE_AUTO_COMPACT",
        ];
        command
            .envs(quiet.map(|name| (name, "1")))
            .env("ANTHROPIC_BASE_URL", &self.url);
        let begin = Instant::now();
        succeed(command);
        begin.elapsed()
    }
}
