//! The contract of agent drivers, shown with real processes that follow scripts.
//!
//! A test binary of its own, because its spawner adopts orphans and reaps every child of the process.

#![expect(clippy::disallowed_methods, reason = "a story is told in the real world")]

mod suite;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hankweave_agents::Launch;
use hankweave_core::agent::{AgentEvent, ExitOutcome, FailureKind, ProcessExit, Verdict};
use hankweave_core::cost::Usd;
use hankweave_core::id::SessionId;
use hankweave_runtime::driver::{
    AgentDriver, DriverSet, ProcessHost, RunningAgent, ScriptedDriver, StartError,
};
use hankweave_runtime::world::World;
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::process::sweep_marked;
use hankweave_testing::processes::Watched;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

const BINARY: &str = env!("CARGO_BIN_EXE_hankweave");

/// Far longer than anything here takes; it only turns a hang into a failure.
const DEADLINE: Duration = Duration::from_secs(60);

static WORLD: LazyLock<World> =
    LazyLock::new(|| World::real().adopting_orphans().expect("Linux has subreapers"));

static HOST: LazyLock<ProcessHost> = LazyLock::new(|| ProcessHost::new(&WORLD));

/// The driver of this name.
fn built_in(name: &str) -> Arc<dyn AgentDriver> {
    DriverSet::built_in(&HOST).get(name).expect("it is built in")
}

struct Stage {
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Lets one agent work at a time, as in a run: a sweep after one agent takes every orphan that this process has adopted for an orphan of that agent.
static TURN: Mutex<()> = Mutex::new(());

impl Stage {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("the temporary folder is writable"),
            // A test that failed leaves nothing in there.
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn launch(&self, script: &Value) -> Launch {
        fs::write(self.path("script.json"), script.to_string()).expect("the stage is writable");
        Launch {
            model: "claude-sonnet-4-5".to_owned(),
            prompt: "Tidy up.".to_owned(),
            appended_system_prompt: None,
            resume: None,
            fork: false,
            env: BTreeMap::new(),
            iteration: None,
            work_dir: self.folder.path().to_owned(),
            log_path: self.path("runs/tidy-scripted.log"),
            log_goes_on: false,
            max_dollars: None,
            carried: None,
            prices: hankweave_core::cost::pricing::Prices::listed(),
            auto_compact: false,
            temp_dir: self.path("tmp"),
            script: Some(self.path("script.json")),
            program: None,
            command: Vec::new(),
            permissions: hankweave_core::agent::Permissions::default(),
            options: hankweave_core::agent::AgentOptions::default(),
            result: None,
            auth: None,
            marker: self.folder.path().to_string_lossy().into_owned(),
            grace: Launch::DEFAULT_GRACE,
        }
    }

    async fn start(&self, script: &Value) -> RunningAgent {
        start(self.launch(script)).await
    }

    async fn play(&self, script: &Value) -> Played {
        finish(self.start(script).await).await
    }

    /// Whether any process of this stage is left: the sweep would have to kill it.
    async fn is_deserted(&self) -> bool {
        sweep_marked(&self.folder.path().to_string_lossy()).await.killed == 0
    }
}

async fn start(launch: Launch) -> RunningAgent {
    let driver = ScriptedDriver::new(HOST.clone()).with_program(BINARY);
    driver.start(launch).await.expect("the binary was just built")
}

struct Played {
    events: Vec<AgentEvent>,
    outcome: ExitOutcome,
    log: Vec<u8>,
}

/// Reads all events; fails unless exactly the last one says that the agent has finished.
async fn finish(mut agent: RunningAgent) -> Played {
    let mut events = Vec::new();
    while let Some(event) = timeout(DEADLINE, agent.events.recv())
        .await
        .expect("the agent ends")
    {
        events.push(event);
    }
    let Some(AgentEvent::Finished(outcome)) = events.pop() else {
        panic!("the last event is not the end: {events:?}");
    };
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, AgentEvent::Finished(_)))
    );
    Played {
        events,
        outcome,
        log: fs::read(&agent.log_path).expect("the log was created"),
    }
}

async fn session_started(agent: &mut RunningAgent) {
    let first = timeout(DEADLINE, agent.events.recv())
        .await
        .expect("the agent starts");
    assert!(
        matches!(first, Some(AgentEvent::SessionStarted { .. })),
        "{first:?}"
    );
}

/// Waits for a message, so that everything before it in the script has been done.
async fn says(agent: &mut RunningAgent, wanted: &str) {
    loop {
        match timeout(DEADLINE, agent.events.recv())
            .await
            .expect("the agent speaks")
        {
            Some(AgentEvent::Message { text, .. }) if text == wanted => return,
            Some(_) => {}
            None => panic!("the agent ended before it said {wanted:?}"),
        }
    }
}

fn failure(outcome: &ExitOutcome) -> (FailureKind, String) {
    match &outcome.verdict {
        Verdict::Success => panic!("the agent succeeded"),
        Verdict::Failure { reason, .. } => (reason.kind, reason.message.clone().unwrap_or_default()),
    }
}

#[tokio::test]
async fn a_run_is_told_from_its_session_to_its_end() {
    let stage = Stage::new();
    let played = stage
        .play(&json!({"sessionId": "s-1", "turns": [
            {"text": "turn ${N}: ${PROMPT}", "tools": [{"write": {"path": "note.txt", "content": "${CWD}"}}],
             "usage": {"input": 1200, "output": 37, "cacheCreation": 500, "cacheRead": 3000}},
            {"text": "done"}]}))
        .await;
    let told: Vec<&str> = played
        .events
        .iter()
        .map(|event| match event {
            AgentEvent::SessionStarted { session_id, .. } => session_id.as_str(),
            AgentEvent::Message { text, .. } => text,
            AgentEvent::Usage(_) => "usage",
            AgentEvent::ToolUse { name, .. } => name,
            AgentEvent::ToolResult(result) => &result.text,
            AgentEvent::Result(result) => &result.text,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "s-1",
            "turn 1: Tidy up.",
            "usage",
            "Write",
            "wrote note.txt",
            "done",
            "done"
        ]
    );
    assert_eq!(played.outcome.verdict, Verdict::Success);
    assert_eq!(played.outcome.usage.cost, Usd::from_micros(6_930));
    let note = fs::read_to_string(stage.path("note.txt")).expect("the tool wrote it");
    assert_eq!(
        Path::new(&note),
        stage.folder.path().canonicalize().expect("it exists")
    );
}

#[tokio::test]
async fn a_resumed_session_is_charged_for_its_own_part_only() {
    let stage = Stage::new();
    let script = json!({"turns": [{"text": "${SESSION_TURN}", "usage": {"input": 1000}}]});
    let mut launch = stage.launch(&script);
    launch.resume = Some(SessionId::new("s-2").expect("it is not empty"));
    for turn in ["1", "2"] {
        let played = finish(start(launch.clone()).await).await;
        assert!(matches!(&played.events[1], AgentEvent::Message { text, .. } if text == turn));
        assert_eq!(played.outcome.usage.cost, Usd::from_micros(3_000));
    }
    let last =
        fs::read_to_string(stage.path("runs/tidy-scripted-2.log")).expect("a second try has its own log");
    assert!(last.contains(r#""total_cost_usd":0.006"#), "{last}");
}

#[tokio::test]
async fn without_a_script_the_agent_tells_the_length_of_the_prompt() {
    let stage = Stage::new();
    let mut launch = stage.launch(&json!({}));
    launch.script = None;
    launch.prompt = "ü".repeat(300_000);
    let played = finish(start(launch).await).await;
    assert_eq!(played.outcome.verdict, Verdict::Success);
    assert!(played.events.iter().any(
        |event| matches!(event, AgentEvent::Result(result) if result.text.contains("300000 characters"))
    ));
}

#[tokio::test]
async fn no_output_is_lost_when_a_slow_reader_comes_after_the_end() {
    let stage = Stage::new();
    let turns: Vec<Value> = (0..200).map(|_| json!({"text": "line ${N}"})).collect();
    let agent = stage.start(&json!({"turns": turns})).await;
    // The queue and the pipe are smaller than the output, so the agent waits for this reader.
    let played = finish(agent).await;
    let messages = played
        .events
        .iter()
        .filter(|event| matches!(event, AgentEvent::Message { .. }))
        .count();
    assert_eq!(messages, 200);
    assert_eq!(played.log.iter().filter(|byte| **byte == b'\n').count(), 202);
}

// covers: S3, AGENT-14, F9
#[tokio::test]
async fn a_stop_ends_the_group_and_what_escaped_from_it() {
    let stage = Stage::new();
    let mut agent = stage
        .start(&json!({"turns": [
            {"spawnDetached": "sleep 1000 & sleep 1000"}, {"text": "ready"}, {"hang": true}]}))
        .await;
    says(&mut agent, "ready").await;
    agent.control.stop(DEADLINE).await;
    assert!(stage.is_deserted().await);
    let played = finish(agent).await;
    assert_eq!(played.outcome.exit, ProcessExit::Signaled(15));
    assert!(played.outcome.leftovers >= 1);
}

/// The grace period is for every process of the group, not only for its leader, which waits here for its child.
// covers: S3, F9
#[tokio::test]
async fn every_member_of_the_group_is_asked_to_end() {
    let stage = Stage::new();
    let mut launch = stage.launch(&json!({}));
    let child = "trap 'echo yes > asked.txt; exit' TERM; echo up > up.fifo; while :; do sleep 0.01; done";
    fs::write(stage.path("child.sh"), child).expect("the stage is writable");
    let leader = r#"mkfifo up.fifo; sh child.sh & trap 'wait; exit' TERM; read line < up.fifo
        echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"c-1\"}"; wait"#;
    launch.command = ["sh", "-c", leader].map(str::to_owned).into();
    let driver = built_in("command");
    let mut agent = driver.start(launch).await.expect("sh exists");
    session_started(&mut agent).await;
    agent.control.stop(DEADLINE / 4).await;
    finish(agent).await;
    assert!(stage.path("asked.txt").exists());
}

// covers: AGENT-15
#[tokio::test]
async fn an_agent_that_ignores_sigterm_is_killed_after_the_grace() {
    let stage = Stage::new();
    let mut agent = stage
        .start(&json!({"ignoreTerm": true, "turns": [{"hang": true}]}))
        .await;
    session_started(&mut agent).await;
    agent.control.stop(Duration::from_millis(50)).await;
    let played = finish(agent).await;
    assert_eq!(played.outcome.exit, ProcessExit::Signaled(9));
    assert_eq!(played.outcome.exit.code(), 137);
    assert!(!played.outcome.verdict.is_success());
}

#[tokio::test]
async fn a_stop_does_not_need_anybody_to_read_the_events() {
    let stage = Stage::new();
    let agent = stage
        .start(&json!({"turns": [{"hugeLine": 500_000}, {"raw": "x\n".repeat(5_000)}, {"hang": true}]}))
        .await;
    timeout(DEADLINE, agent.control.stop(Duration::from_millis(50)))
        .await
        .expect("the stop does not wait for a reader");
    assert!(stage.is_deserted().await);
}

#[tokio::test]
async fn dropping_a_running_agent_kills_it() {
    let stage = Stage::new();
    let mut agent = stage.start(&json!({"turns": [{"hang": true}]})).await;
    session_started(&mut agent).await;
    let pid = agent.pid.expect("it is a process");
    let watched = Watched::new(pid).expect("it lives");
    drop(agent);
    let end = tokio::task::spawn_blocking(move || watched.ends_within(DEADLINE));
    assert!(end.await.unwrap(), "the agent lives on");
}

// covers: S4, F9
#[tokio::test]
async fn a_descendant_that_holds_the_pipe_does_not_hold_the_run() {
    let stage = Stage::new();
    let played = stage
        .play(&json!({"turns": [{"holdStdout": true}, {"text": "last words"}]}))
        .await;
    assert_eq!(played.outcome.verdict, Verdict::Success);
    assert_eq!(played.outcome.leftovers, 1);
    assert!(matches!(played.events.last(), Some(AgentEvent::Result(result)) if result.text == "last words"));
    assert!(stage.is_deserted().await);
}

/// SHA-256 of fifty million `x`.
const HUGE_LINE: &str = "6e937662ccf4d140384f3153eb14d256794ed5091cbcea50931704bc7ed54f7f";

// covers: S9, F11
#[tokio::test]
async fn a_line_of_50_megabytes_is_told_by_its_length_and_kept_in_the_log() {
    let stage = Stage::new();
    let played = stage
        .play(&json!({"turns": [{"hugeLine": 50_000_000}, {"text": "after"}]}))
        .await;
    assert!(
        played
            .events
            .iter()
            .any(|event| matches!(event, AgentEvent::OutputTruncated { bytes: 50_000_000, sha256 } if sha256 == HUGE_LINE))
    );
    assert_eq!(played.outcome.verdict, Verdict::Success);
    assert!(played.log.len() > 50_000_000);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_told_as_unparsed_and_kept_in_the_log() {
    let stage = Stage::new();
    let played = stage
        .play(&json!({"turns": [{"invalidUtf8": true}, {"text": "after"}]}))
        .await;
    let start = "not \u{fffd} UTF-8".to_owned();
    assert!(played.events.contains(&AgentEvent::Unparsed { start }));
    assert!(played.log.windows(5).any(|window| window == b"not \xff"));
    assert_eq!(played.outcome.verdict, Verdict::Success);
}

// covers: S5, F10
#[tokio::test]
async fn every_end_but_a_clean_one_is_a_failure_with_a_reason() {
    let cases = [
        (
            json!({"noInit": true, "noResult": true}),
            0,
            "without reporting a session",
        ),
        (
            json!({"noResult": true, "turns": [{"text": "x"}]}),
            0,
            "without reporting a result",
        ),
        (
            json!({"exitCode": 3, "turns": [{"text": "x"}]}),
            3,
            "reported success but exited with code 3",
        ),
        (json!({"turns": [{"signal": 9}]}), 137, "killed by signal 9"),
        (
            json!({"noResult": true, "exitCode": 1, "turns": [{"stderr": "no such account"}]}),
            1,
            "no such account",
        ),
        (
            json!({"result": {"message": "overloaded", "status": 529}}),
            1,
            "overloaded (status 529)",
        ),
    ];
    for (script, code, words) in cases {
        let outcome = Stage::new().play(&script).await.outcome;
        assert_eq!(outcome.exit.code(), code, "{script}");
        let (_, message) = failure(&outcome);
        assert!(message.contains(words), "{script}: {message}");
    }
}

/// The line is not read, so it is unknown whether it reported a success.
// covers: S9, S5
#[tokio::test]
async fn a_result_in_a_line_beyond_the_limit_is_none() {
    let stage = Stage::new();
    let mut launch = stage.launch(&json!({}));
    let print = r#"echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"c-1\"}"
        printf "{\"type\":\"result\",\"is_error\":false,\"result\":\""; head -c 1048576 /dev/zero | tr '\0' x; echo "\"}""#;
    launch.command = ["sh", "-c", print].map(str::to_owned).into();
    let played = finish(built_in("command").start(launch).await.expect("sh exists")).await;
    let (_, message) = failure(&played.outcome);
    assert!(message.contains("without reporting a result"), "{message}");
    assert!(matches!(
        played.events.last(),
        Some(AgentEvent::OutputTruncated {
            bytes: 1_048_577..,
            ..
        })
    ));
}

// covers: RUN-10
#[tokio::test]
async fn a_full_context_is_told_apart_from_other_failures() {
    let played = Stage::new()
        .play(&json!({"result": {"contextExceeded": true}}))
        .await;
    assert!(matches!(
        played.outcome.verdict,
        Verdict::Failure {
            context_exceeded: true,
            ..
        }
    ));
}

// covers: S8
#[tokio::test]
async fn the_agent_does_not_see_the_token_of_the_server() {
    let stage = Stage::new();
    let inherited = [("PATH", "/usr/bin:/bin"), ("HANKWEAVE_TOKEN", "secret")];
    let host = ProcessHost::new(&World {
        environment: Arc::new(Environment::from_iter(inherited)),
        ..WORLD.clone()
    });
    let driver = ScriptedDriver::new(host).with_program(BINARY);
    let mut launch = stage.launch(&json!({"turns": [
        {"tools": [{"bash": {"command": "echo [$HANKWEAVE_TOKEN] [$GREETING] [${TMPDIR##*/}]"}}]}]}));
    launch.env.insert("GREETING".to_owned(), "hello".to_owned());
    let played = finish(driver.start(launch).await.expect("it starts")).await;
    assert!(
        played.events.iter().any(
            |event| matches!(event, AgentEvent::ToolResult(result) if result.text == "[] [hello] [tmp]\n")
        )
    );
}

#[tokio::test]
async fn a_custom_command_is_driven_like_any_agent() {
    let stage = Stage::new();
    let mut launch = stage.launch(&json!({}));
    let print = r#"read prompt; echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"c-1\"}"
        echo "{\"type\":\"result\",\"is_error\":false,\"result\":\"$HANKWEAVE_MODEL: $prompt\"}""#;
    launch.prompt = "Hello\n".to_owned();
    launch.command = ["sh", "-c", print].map(str::to_owned).into();
    let agent = built_in("command").start(launch).await.expect("sh exists");
    let played = finish(agent).await;
    assert_eq!(played.outcome.verdict, Verdict::Success);
    assert!(played.events.iter().any(
        |event| matches!(event, AgentEvent::Result(result) if result.text == "claude-sonnet-4-5: Hello")
    ));
}

// covers: S7
#[tokio::test]
async fn a_prompt_that_nobody_reads_is_no_crash() {
    let stage = Stage::new();
    let mut launch = stage.launch(&json!({}));
    launch.prompt = "x".repeat(5_000_000);
    launch.command = ["true".to_owned()].into();
    let agent = built_in("command").start(launch).await.expect("true exists");
    let played = finish(agent).await;
    assert_eq!(
        failure(&played.outcome).1,
        "the agent exited with code 0 without reporting a session"
    );
}

#[tokio::test]
async fn a_missing_program_is_a_start_error() {
    let stage = Stage::new();
    let mut launch = stage.launch(&json!({}));
    launch.command = ["no-such-agent".to_owned()].into();
    let error = built_in("command")
        .start(launch)
        .await
        .expect_err("it does not exist");
    assert!(matches!(error, StartError::Spawn { .. }), "{error}");
}

// covers: AGENT-22
#[test]
fn every_driver_states_what_its_agents_can_do() {
    let page = include_str!("../../../../docs/agents.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .skip_while(|line| !line.contains("`resume`"))
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().trim_matches('`'))
                .collect()
        })
        .collect();
    let (keys, rows) = (&rows[0][1..], &rows[2..]);
    let drivers = DriverSet::built_in(&HOST);
    let names: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(drivers.names().collect::<Vec<_>>(), names);
    for row in rows {
        let stated = serde_json::to_value(drivers.get(row[0]).unwrap().capabilities()).unwrap();
        for (key, cell) in keys.iter().zip(&row[1..]) {
            let told = match *cell {
                "yes" => true.into(),
                "no" => false.into(),
                word => Value::from(word),
            };
            assert_eq!(stated[key], told, "{key} of {}", row[0]);
        }
    }
}

#[tokio::test]
async fn the_built_in_drivers_are_found_by_name() {
    let drivers = DriverSet::built_in(&HOST);
    assert_eq!(
        drivers.names().collect::<Vec<_>>(),
        [
            "acp", "claude", "codex", "command", "gemini", "opencode", "pi", "scripted"
        ]
    );
    assert!(
        drivers
            .get("scripted")
            .is_some_and(|driver| driver.name() == "scripted")
    );
    assert!(drivers.get("nobody").is_none());
}
