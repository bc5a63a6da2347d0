//! The published contract, for the drivers that are built in.

use std::sync::Arc;
use std::time::Duration;

use hankweave_agents::Launch;
use hankweave_driver_suite::{DriverSuite, Line, Report, Scene};
use hankweave_runtime::driver::ScriptedDriver;
use hankweave_testing::acp_agent::{self, SCRIPT};
use serde_json::{Value, json};

use super::{BINARY, HOST, Stage, built_in};

/// Not a test of its own: the agent that speaks ACP.
#[test]
#[ignore = "it is the agent of the others"]
fn plays() {
    acp_agent::play_if_asked();
}

fn follows(script: &Value) -> impl Fn(&mut Launch) + 'static {
    let script = script.to_string();
    move |launch| {
        let path = launch.work_dir.join("script.json");
        std::fs::write(&path, &script).expect("the folder is writable");
        launch.script = Some(path);
    }
}

fn runs(lines: &'static str) -> impl Fn(&mut Launch) + 'static {
    move |launch| launch.command = ["sh", "-c", lines].map(str::to_owned).into()
}

fn speaks(script: &Value) -> impl Fn(&mut Launch) + 'static {
    let script = script.to_string();
    move |launch| {
        launch.model = "acp".to_owned();
        launch.command = acp_agent::command("suite::plays");
        launch.env.insert(SCRIPT.to_owned(), script.clone());
    }
}

async fn looked_at(suite: DriverSuite) -> Report {
    let _turn = Stage::new();
    suite.run().await
}

// covers: AGENT-27
#[tokio::test]
async fn the_scripted_driver_keeps_the_contract() {
    let turn =
        json!({"text": "t", "usage": {"input": 10, "output": 5}, "tools": [{"bash": {"command": "true"}}]});
    let driver = ScriptedDriver::new(HOST.clone()).with_program(BINARY);
    let works = json!({"turns": [{"spawnDetached": "sleep 1000 & sleep 1000"}, {"hang": true}]});
    let suite = DriverSuite::new(Arc::new(driver))
        .scene(Scene::Succeeds, follows(&json!({"turns": [turn]})))
        .scene(
            Scene::Fails,
            follows(&json!({"result": {"message": "overloaded", "status": 529}})),
        )
        .scene(Scene::Works, follows(&works));
    looked_at(suite).await.assert_kept();
}

const SESSION: &str = r#"echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"${HANKWEAVE_RESUME_SESSION:-c-1}\"}"; "#;

// covers: AGENT-27
#[tokio::test]
async fn the_driver_of_commands_keeps_the_contract() {
    let lines = |rest: &str| -> &'static str { format!("{SESSION}{rest}").leak() };
    let suite = DriverSuite::new(built_in("command"))
        .scene(
            Scene::Succeeds,
            runs(lines(
                r#"echo '{"type":"result","is_error":false,"result":"done"}'"#,
            )),
        )
        .scene(Scene::Fails, runs(lines("exit 3")))
        .scene(
            Scene::Works,
            runs(lines(
                "trap '' TERM; setsid sleep 1000 & while :; do sleep 1; done",
            )),
        );
    looked_at(suite).await.assert_kept();
}

// covers: AGENT-27, AGENT-23
#[tokio::test]
async fn the_driver_of_agents_that_speak_acp_keeps_the_contract() {
    let usage =
        json!({"update": {"sessionUpdate": "usage_update", "cost": {"amount": 0.5, "currency": "USD"}}});
    let works = json!({"turn": [{"detach": "sleep 1000 & sleep 1000"}, {"deaf": true}]});
    let suite = DriverSuite::new(built_in("acp"))
        .scene(
            Scene::Succeeds,
            speaks(&json!({"turn": [{"say": "done"}, usage]})),
        )
        .scene(Scene::Fails, speaks(&json!({"turn": [{"exit": 3}]})))
        .scene(Scene::Works, speaks(&works));
    looked_at(suite).await.assert_kept();
}

/// The recordings of the real programs.
const STREAMS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../hankweave-core/tests/fixtures/agent-streams"
);

/// A program that takes its prompt and carries out these lines of shell, in which `$S` is the folder with the recordings.
fn program(lines: String) -> impl Fn(&mut Launch) + 'static {
    move |launch| {
        let path = launch.work_dir.join("program");
        let text = format!("#!/bin/sh\ncat > /dev/null\nS='{STREAMS}'\n{lines}\n");
        std::fs::write(&path, text).expect("the folder is writable");
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, everybody).expect("the folder is ours");
        launch.program = Some(path);
        launch.grace = Duration::from_secs(1);
    }
}

/// A native driver whose program prints what the real one has printed, when it began, continued with a session, was refused, and worked.
fn native(name: &str, goes_on: &str, code_of_401: i32) -> DriverSuite {
    let succeeds = format!(
        "case \"$*\" in *{goes_on}*) cat \"$S/{name}/resume-2-same.jsonl\" ;; *) cat \"$S/{name}/resume-1-first.jsonl\" ;; esac"
    );
    let fails = format!("cat \"$S/{name}/error-401.jsonl\"; exit {code_of_401}");
    let works = format!(
        "head -n 3 \"$S/{name}/resume-1-first.jsonl\"; trap '' INT TERM; setsid sleep 1000 & while :; do sleep 1; done"
    );
    DriverSuite::new(built_in(name))
        .scene(Scene::Succeeds, program(succeeds))
        .scene(Scene::Fails, program(fails))
        .scene(Scene::Works, program(works))
}

// covers: AGENT-27
#[tokio::test]
async fn the_driver_of_claude_keeps_the_contract() {
    let suite = native("claude", "--resume", 1);
    looked_at(suite).await.assert_kept();
}

// covers: AGENT-27
#[tokio::test]
async fn the_driver_of_codex_keeps_the_contract() {
    let suite = native("codex", "resume", 1);
    looked_at(suite).await.assert_kept();
}

// covers: AGENT-27
#[tokio::test]
async fn the_driver_of_pi_keeps_the_contract() {
    let suite = native("pi", "--session", 0);
    looked_at(suite).await.assert_kept();
}

// covers: AGENT-27
#[tokio::test]
async fn the_driver_of_opencode_keeps_the_contract() {
    let suite = native("opencode", "--session", 1);
    looked_at(suite).await.assert_kept();
}

// covers: AGENT-27
#[tokio::test]
async fn the_driver_of_gemini_keeps_the_contract() {
    let suite = native("gemini", "--resume", 145);
    looked_at(suite).await.assert_kept();
}

/// The suite finds what a driver does wrong, and reports what the driver does not show.
// covers: AGENT-27
#[tokio::test]
async fn what_is_broken_is_told() {
    let suite = DriverSuite::new(built_in("command")).scene(Scene::Succeeds, runs("echo no session"));
    let report = looked_at(suite).await;
    let broken: Vec<&str> = report.broken().map(|(rule, _)| rule).collect();
    assert_eq!(
        broken,
        [
            "an agent that did its work has succeeded",
            "the session is named before anything is said or used"
        ]
    );
    assert!(report.lines().contains(&Line::NotShown(Scene::Works)));
    assert!(
        report
            .to_string()
            .contains("BROKEN: an agent that did its work has succeeded: ")
    );
}
