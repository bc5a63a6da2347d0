//! What several stories need.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hankweave_testing::{Finished, TestProject};
use rustix::process::Pid;
use serde_json::{Value, json};

/// How long something that is bound to happen is waited for.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// An empty project for the program under test.
pub(crate) fn project() -> TestProject {
    TestProject::new(env!("CARGO_BIN_EXE_hankweave"))
}

/// Writes an agent made of shell lines and returns what hank.json says to use it.
///
/// It appends its prompt to `done.txt`. Where the prompt says "wait for go" it first waits, as good as for ever,
/// unless a file `go` is there.
pub(crate) fn shell_agent(project: &TestProject) -> Value {
    let script = project.write("agent.sh", SHELL_AGENT);
    json!({"command": ["sh", script], "stream": "claude"})
}

const SHELL_AGENT: &str = r#"
prompt=$(cat)
session="session-$$"
say() {
  printf '{"type":"assistant","session_id":"%s","parent_tool_use_id":null,"message":{"id":"msg-%s-%s","role":"assistant",' "$session" $$ "$1"
  printf '"model":"shell","content":[{"type":"text","text":"%s"}],"usage":{"input_tokens":10,"output_tokens":1}}}\n' "$1"
}
printf '{"type":"system","subtype":"init","session_id":"%s","model":"shell","cwd":"/","tools":[]}\n' "$session"
say working
case "$prompt" in
*"wait for go"*) [ -e go ] || exec sleep 600 ;;
esac
printf '%s\n' "$prompt" >> done.txt
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":"done","num_turns":1,' "$session"
printf '"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5},"model_usage_since_last_result":'
printf '{"shell":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.25}}}\n'
"#;

/// Waits until there is a file.
#[track_caller]
pub(crate) fn wait_for(path: &Path) {
    let end = Instant::now() + SOON;
    while !path.exists() {
        assert!(Instant::now() < end, "no {}", path.display());
        std::thread::yield_now();
    }
}

/// Writes an agent that is in the middle of an answer whose question alone costs $0.30, then carries out `rest`; returns what hank.json
/// says to use it.
pub(crate) fn writing_agent(project: &TestProject, rest: &str) -> Value {
    let opening = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","cwd":"/","tools":[]}"#;
    let message = r#"{"type":"assistant","session_id":"s-1","message":{"id":"m-1","role":"assistant","model":"claude-sonnet-4-5","stop_reason":null,"content":[{"type":"text","text":"so far"}],"usage":{"input_tokens":100000,"output_tokens":0}}}"#;
    let script = format!("cat > /dev/null\nprintf '%s\\n' '{opening}' '{message}'\n{rest}\n");
    json!({"command": ["sh", project.write("writing.sh", script)], "stream": "claude"})
}

/// Finds the record of a codon in a run.
#[track_caller]
pub(crate) fn codon<'s>(run: &'s Value, id: &str) -> &'s Value {
    let records = run["codons"].as_array().unwrap();
    records
        .iter()
        .find(|record| record["codonId"] == id)
        .unwrap_or_else(|| panic!("no codon {id} in {run:#}"))
}

/// Asserts that `sha` names a commit in the checkpoint repository.
#[track_caller]
pub(crate) fn assert_checkpoint(project: &TestProject, execution: &Path, sha: &Value) {
    let commit = format!(
        "{}^{{commit}}",
        sha.as_str().unwrap_or_else(|| panic!("not a checkpoint: {sha}"))
    );
    project
        .checkpoints_git(execution, &["cat-file", "-e", &commit])
        .expect_code(0);
}

/// Asserts an amount of US dollars, which is never compared exactly (STATE-2).
#[track_caller]
pub(crate) fn assert_usd(amount: &Value, expected: f64) {
    let amount = amount
        .as_f64()
        .unwrap_or_else(|| panic!("not an amount: {amount}"));
    assert!((amount - expected).abs() < 1e-6, "{amount} is not {expected}");
}

/// The port in `server.lock`, as soon as it is there.
pub(crate) fn port(execution: &Path) -> u16 {
    let deadline = Instant::now() + SOON;
    loop {
        let lock = std::fs::read_to_string(execution.join(".hankweave/server.lock")).unwrap_or_default();
        let lock: Value = serde_json::from_str(&lock).unwrap_or_default();
        match lock["port"].as_u64() {
            Some(port) => return u16::try_from(port).unwrap(),
            None => assert!(Instant::now() < deadline, "no port in server.lock"),
        }
        std::thread::yield_now();
    }
}

/// Waits until the process has been stopped, as by Ctrl+Z.
pub(crate) fn until_stopped(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let deadline = Instant::now() + SOON;
    while !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T ")) {
        assert!(Instant::now() < deadline, "it is not stopped:\n{}", threads(pid));
        std::thread::yield_now();
    }
}

/// What the system says of each thread of a process, for the message of a test that has waited in vain.
fn threads(pid: Pid) -> String {
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let read =
        |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string());
    let of = |task: std::fs::DirEntry| {
        let [status, call] = ["status", "syscall"].map(|file| read(task.path().join(file)));
        let wanted = [
            "State:", "PPid:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:",
        ];
        let lines = status
            .lines()
            .filter(|line| wanted.iter().any(|key| line.starts_with(key)));
        format!(
            "{:?} {call}{}\n",
            task.file_name(),
            lines.collect::<Vec<_>>().join(", ")
        )
    };
    match std::fs::read_dir(&tasks) {
        Ok(entries) => entries.flatten().map(of).collect(),
        Err(error) => format!("{tasks}: {error}"),
    }
}

/// Whether faults can be injected; says so when not.
pub(crate) fn strace_is_there() -> bool {
    let there = Command::new("strace").arg("-V").output().is_ok();
    if !there {
        println!("skipped: strace is not installed");
    }
    there
}

/// Runs hankweave in a project whose program is `env`, so that another one can be put in front of it.
pub(crate) fn hankweave(project: &TestProject, arguments: &[&str]) -> Finished {
    project.run([env!("CARGO_BIN_EXE_hankweave")].iter().chain(arguments))
}

/// Runs hankweave under strace with these options; strace stops it only at the calls in question.
pub(crate) fn traced(project: &TestProject, options: &[&str], arguments: &[&str]) -> Finished {
    let strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"];
    let program = [env!("CARGO_BIN_EXE_hankweave")];
    project.run(strace.iter().chain(options).chain(&program).chain(arguments))
}
