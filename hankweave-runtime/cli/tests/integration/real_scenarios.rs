//! The real `claude` program, in the version of the tests and in another one where there is one, and the real `codex` and `pi`, through everything
//! that a model and its line do: what is recorded is what the model server served.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use hankweave_testing::processes::Watched;
use hankweave_testing::{ModelServer, Running, Scenario, TestProject, agents};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::real_agents::RealAgent;
use crate::real_money::{DEADLINE, assert_true, begun};
use crate::real_stories::real;
use crate::support::project;

/// How long an agent may take to obey a signal.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of agents that work concurrently.
const AT_ONCE: usize = 4;

/// A scenario, and for one that does not end by itself whether an answer is being written when it is stopped, or has ended.
type Story = (&'static str, Value, Option<Answer>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Begun,
    Ended,
}

fn says(text: &str, input: u64, output: u64) -> Value {
    json!({"text": text, "usage": {"input": input, "output": output}})
}

/// A turn that calls this tool.
fn uses(tool: &Value, input: u64, output: u64) -> Value {
    json!({"text": "I work.", "tools": [tool], "usage": {"input": input, "output": output}})
}

fn bash(command: &str) -> Value {
    json!({"op": "bash", "command": command, "description": "Work", "timeout": 300_000})
}

fn write(path: &str) -> Value {
    json!({"op": "write", "path": path, "content": "made\n"})
}

fn refuses(status: u16, kind: &str, message: &str, repeat: &Value) -> Value {
    json!({"error": {"status": status, "type": kind, "message": message, "headers": {"retry-after": 1}}, "repeat": repeat})
}

fn ends_by_itself() -> Vec<(&'static str, Value)> {
    let forever = json!("forever");
    let twice = json!(2);
    let failing = |repeat| refuses(500, "api_error", "Internal server error", repeat);
    let limited = |repeat| refuses(429, "rate_limit_error", "Too many requests", repeat);
    let overloaded = refuses(529, "overloaded_error", "Overloaded", &twice);
    let too_long = refuses(
        400,
        "invalid_request_error",
        "prompt is too long: 210340 tokens > 200000 maximum",
        &forever,
    );
    let cached = json!({"input": 1100, "output": 41, "cache_creation": 400, "cache_read": 2500});
    let background =
        json!({"op": "bash", "command": "tail -f /dev/null", "description": "Wait", "background": true});
    let slow = json!({"delay_ms": 700, "text": "Word by word, as slowly as it goes.", "chunks": 6, "chunk_delay_ms": 100,
        "tools": [bash("sleep 0.5; echo slept")], "usage": {"input": 700, "output": 28}});
    let task = json!({"op": "task", "description": "Small job", "prompt": "DELEGATED: write the file",
        "subagent": "general-purpose", "background": false});
    let delegates = json!({"lanes": [
        {"name": "helper", "when": {"first_user": "DELEGATED"}, "turns": [
            uses(&write("${CWD}/helped.txt"), 310, 17), says("It is written.", 340, 12)]},
        {"name": "main", "turns": [uses(&task, 900, 35), says("The helper is done.", 1000, 15), says("Done.", 1000, 15)]}]});
    let by_history = json!({"select": "history", "turns": [
        uses(&write("${CWD}/out.txt"), 950, 31), uses(&bash("cat out.txt"), 1000, 24), says("Done.", 1040, 6)]});
    let both = json!({"thinking": "Two files, one message.", "text": "I write both.",
        "tools": [write("${CWD}/a.txt"), write("${CWD}/b.txt")], "usage": cached});
    let step = json!({"text": "Step ${N}.", "tools": [bash("echo step ${N} >> steps.txt")],
        "usage": {"input": 90, "output": 11, "cache_read": 900}, "repeat": 25});
    let cut = |stop: &str, output: u64| json!({"text": "It stops in the midd", "stop_reason": stop, "usage": {"input": 310, "output": output}});
    let dropped = json!({"text": "The line breaks before this answer has ended.", "chunks": 6, "drop": "mid_stream",
        "usage": {"input": 480, "output": 23}});
    let turns = |turns: &[Value]| json!({"turns": turns});
    vec![
        ("answer", turns(&[json!({"text": "It is 42.", "usage": cached})])),
        (
            "background-command",
            turns(&[uses(&background, 610, 32), says("It continues.", 650, 8)]),
        ),
        ("context-exceeded-first", turns(std::slice::from_ref(&too_long))),
        (
            "context-exceeded",
            turns(&[uses(&bash("seq 1 200"), 180_000, 45), too_long]),
        ),
        (
            "drop-mid-stream",
            turns(&[dropped, says("Whole at last.", 490, 9)]),
        ),
        (
            "error-401",
            json!({"require_key": "sk-another", "turns": [says("Never.", 1, 1)]}),
        ),
        ("error-429-forever", turns(&[limited(&forever)])),
        (
            "error-429-then-ok",
            turns(&[limited(&twice), says("Let through.", 870, 12)]),
        ),
        ("error-500-forever", turns(&[failing(&forever)])),
        (
            "error-500-midway",
            turns(&[uses(&write("${CWD}/half.txt"), 1400, 43), failing(&forever)]),
        ),
        (
            "error-500-then-ok",
            turns(&[failing(&twice), says("Back again.", 880, 13)]),
        ),
        (
            "error-529-then-ok",
            turns(&[overloaded, says("Less to do.", 890, 14)]),
        ),
        ("many-turns", turns(&[step, says("All done.", 90, 7)])),
        (
            "max-output",
            turns(&[cut("max_tokens", 32_000), says("le.", 350, 6)]),
        ),
        (
            "nohup-child",
            turns(&[
                uses(
                    &bash("nohup setsid tail -f /dev/null >/dev/null 2>&1 & echo started"),
                    620,
                    34,
                ),
                says("It is detached.", 660, 10),
            ]),
        ),
        (
            "parallel-tools",
            turns(&[both, says("Both are written.", 2200, 11)]),
        ),
        (
            "permission",
            turns(&[
                uses(&write("/proc/nobody/may/x.txt"), 410, 19),
                uses(&bash("touch made.txt"), 430, 22),
                says("I may not.", 450, 8),
            ]),
        ),
        ("portable-history", by_history),
        ("refusal", turns(&[cut("refusal", 10)])),
        ("slow", turns(&[slow, says("Done slowly.", 740, 7)])),
        ("subagent", delegates),
        (
            "tool-error",
            turns(&[
                uses(&bash("echo no >&2; exit 3"), 410, 21),
                uses(&json!({"name": "NoSuchTool", "input": {"x": 1}}), 430, 20),
                says("Both failed.", 450, 10),
            ]),
        ),
        (
            "two-tools",
            turns(&[
                uses(&write("${CWD}/note.txt"), 1010, 52),
                uses(&bash("wc -c note.txt"), 1090, 58),
                says("Done.", 1180, 66),
            ]),
        ),
        (
            "unicode-big",
            turns(&[
                json!({"text": "Größe — 日本語 — \u{2028} — \u{1F9F5} — \" \\.",
            "tools": [bash("head -c 200000 /dev/zero | tr '\\0' x")], "usage": {"input": 390, "output": 58}}),
                says("Fertig ✔", 430, 8),
            ]),
        ),
    ]
}

fn stories() -> Vec<Story> {
    let endless = json!({"turns": [uses(&bash("tail -f /dev/null & tail -f /dev/null"), 590, 31), says("It ended.", 630, 9)]});
    let silent = json!({"turns": [{"text": "The line falls silent in the middle of this.", "chunks": 6, "hang": true,
        "usage": {"input": 680, "output": 26}}]});
    let alone = ends_by_itself()
        .into_iter()
        .map(|(name, scenario)| (name, scenario, None));
    alone
        .chain([
            ("hang", silent, Some(Answer::Begun)),
            ("long-command", endless, Some(Answer::Ended)),
        ])
        .collect()
}

/// Agent that plays the stories.
enum Player {
    Claude(PathBuf),
    Other(RealAgent),
}

impl Player {
    fn play(&self, (name, scenario, stopped_when): Story) {
        let (project, server, codon) = self.stage(scenario);
        project.write_hank(
            &json!({"overrides": {"settleSeconds": 1, "maxBackgroundSeconds": 2}, "hank": [codon]}),
        );
        let mut running = project.start(["run", "--headless", "--json"]);
        if let Some(answer) = stopped_when {
            self.wait(&mut running, &server, answer);
            running.signal(Signal::TERM);
        }
        let finished = running.finish_within(DEADLINE);
        assert!(matches!(finished.code, Some(0 | 1 | 143)), "{finished}");
        assert_eq!(project.left_behind(), []);
        match self {
            Self::Claude(_) => assert_true(&project, &server),
            Self::Other(agent) if agent.keeps_silent_about(name) => agent.assert_at_most(&project, &server),
            Self::Other(agent) => agent.assert_true(&project, &server),
        }
    }

    /// The agent gets a signal while its command runs: the codon has failed, with everything that it started.
    fn is_ended_by(&self, signal: Signal) {
        let endless = bash("tail -f /dev/null & tail -f /dev/null");
        let turns = [uses(&endless, 590, 31), says("It ended.", 630, 9)];
        let (project, _server, codon) = self.stage(json!({"turns": turns}));
        project.write_hank(&json!({"overrides": {"settleSeconds": 1}, "hank": [codon]}));
        let mut running = project.start(["run", "--headless", "--json"]);
        running.wait_for_line(|line| line.contains("\"tool_use\""));
        // With what the log has and the file does not have yet.
        let state = project.run(["state", "show", "--json"]).json_document();
        let pid = state["runs"][0]["codons"][0]["claudePid"].as_i64().unwrap();
        let agent = Watched::new(u32::try_from(pid).unwrap()).unwrap();
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
        // One that continues when it is interrupted in a command is asked by us.
        if !agent.ends_within(PATIENCE) {
            running.signal(Signal::TERM);
        }
        let finished = running.finish_within(DEADLINE);
        assert!(
            matches!(finished.code, Some(0 | 1 | 143)),
            "{signal:?}: {finished}"
        );
        assert_eq!(project.left_behind(), [], "{signal:?}");
    }

    fn stage(&self, scenario: Value) -> (TestProject, ModelServer, Value) {
        match self {
            Self::Claude(claude) => {
                let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
                let mut project = project();
                project.set("HANKWEAVE_CLAUDE_PATH", claude);
                let mut codon = real(&server, "a", "fresh", "TASK", &json!({}));
                codon["env"]["CLAUDE_CODE_MAX_RETRIES"] = json!("2");
                (project, server, codon)
            }
            Self::Other(agent) => {
                let (project, server) = agent.stage(scenario);
                (project, server, agent.codon("a", "fresh", "TASK"))
            }
        }
    }

    /// Waits until an answer is being written or has ended. Claude reports both, the others reliably only the second.
    fn wait(&self, running: &mut Running, server: &ModelServer, answer: Answer) {
        if matches!(self, Self::Other(_)) && answer == Answer::Begun {
            return begun(server, 1);
        }
        running.wait_for_line(|line: &str| {
            let so_far = line.contains("\"costIsLowerBound\":true");
            let fits = matches!(self, Self::Other(_)) || so_far == (answer == Answer::Begun);
            line.contains("\"token.usage\"") && fits
        });
    }
}

fn play_all(player: &Player) {
    let mut stories = stories();
    stories.retain(|(name, ..)| !matches!(player, Player::Other(agent) if agent.cannot_play(name)));
    while !stories.is_empty() {
        let rest = stories.split_off(stories.len().min(AT_ONCE));
        let some = std::mem::replace(&mut stories, rest);
        thread::scope(|scope| {
            for story in some {
                // A failure is printed after the name of its thread.
                let thread = thread::Builder::new().name(story.0.to_owned());
                thread.spawn_scoped(scope, || player.play(story)).unwrap();
            }
        });
    }
}

// covers: AGENT-8
#[test]
fn every_scenario_costs_what_was_served() {
    match agents::claude() {
        Ok(claude) => play_all(&Player::Claude(claude)),
        Err(skip) => println!("{skip}"),
    }
}

#[test]
fn every_scenario_costs_what_was_served_with_another_version() {
    match agents::other_claude() {
        Ok(claude) => play_all(&Player::Claude(claude)),
        Err(skip) => println!("{skip}"),
    }
}

// covers: AGENT-17, AGENT-21
#[test]
fn every_scenario_costs_what_was_served_by_other_agents() {
    for agent in RealAgent::all() {
        play_all(&Player::Other(agent));
    }
}

/// In the middle of a command that never ends, and not by us.
// covers: AGENT-14
#[test]
fn every_signal_that_ends_a_real_agent_leaves_nothing_behind() {
    let claude = agents::claude().map(Player::Claude);
    let claude = claude.inspect_err(|skip| println!("{skip}")).ok();
    for player in claude.into_iter().chain(RealAgent::all().map(Player::Other)) {
        thread::scope(|scope| {
            for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::KILL] {
                let player = &player;
                scope.spawn(move || player.is_ended_by(signal));
            }
        });
    }
}
