//! A run that is suspended, as by Ctrl+Z, and continues.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hankweave_testing::model_server::{ModelServer, Scenario};
use hankweave_testing::{Running, TestProject, agents};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{SOON, project, until_stopped, wait_for};
use crate::task_project::paste;
use crate::terminal::Terminal;

/// How long one looks whether anything works.
const LOOK: Duration = Duration::from_secs(2);

/// Writes a hank whose agent works until there is a file `go`, and starts a tool in a session of its own that works without end.
fn working(project: &TestProject) {
    let script = r#"cat > /dev/null
echo $$ > agent.pid
setsid sh -c 'echo $$ > tool.pid; while :; do echo x >> ticks; sleep 0.02; done' < /dev/null > /dev/null 2>&1 &
printf '%s\n' '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}'
printf '%s\n' '{"type":"assistant","session_id":"s-1","message":{"id":"m-1","role":"assistant","model":"shell","content":[{"type":"text","text":"working"}],"usage":{"input_tokens":10,"output_tokens":1}}}'
until [ -e go ]; do sleep 0.02; done
printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","num_turns":1,"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5},"model_usage_since_last_result":{"shell":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.25}}}'
"#;
    let agent = json!({"command": ["sh", project.write("agent.sh", script)], "stream": "claude"});
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "Name of one", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": "go"}]}),
    );
}

/// Reads a process id from a file of the project, as soon as it is there.
#[track_caller]
fn pid(project: &TestProject, read: impl Fn(&str) -> Option<i64>, file: &str) -> Pid {
    let end = Instant::now() + SOON;
    loop {
        let text = fs::read_to_string(project.directory().join(file)).unwrap_or_default();
        let number = read(&text).and_then(|number| Pid::from_raw(i32::try_from(number).ok()?));
        match number {
            Some(pid) => return pid,
            None => assert!(Instant::now() < end, "no process in {file}"),
        }
        std::thread::yield_now();
    }
}

fn of_line(text: &str) -> Option<i64> {
    text.ends_with('\n').then(|| text.trim().parse().ok())?
}

fn of_lock(text: &str) -> Option<i64> {
    serde_json::from_str::<Value>(text).ok()?["pid"].as_i64()
}

/// The processes of the run, its agent and the agent's tool, once all work.
fn processes(project: &TestProject) -> [Pid; 3] {
    [
        pid(project, of_lock, ".hankweave/server.lock"),
        pid(project, of_line, "agent.pid"),
        pid(project, of_line, "tool.pid"),
    ]
}

/// Looks for a while whether the tool works.
#[track_caller]
fn stands_still(project: &TestProject) {
    let ticks = || fs::metadata(project.directory().join("ticks")).map_or(0, |ticks| ticks.len());
    let (before, end) = (ticks(), Instant::now() + LOOK);
    while Instant::now() < end {
        assert_eq!(ticks(), before, "the tool works on");
        std::thread::yield_now();
    }
}

/// Waits until an agent or its tool is suspended. One that waits for its child to become a program (vfork) waits for the stopped child.
#[track_caller]
fn until_suspended(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let end = Instant::now() + SOON;
    let is_suspended = |stat: &str| stat.contains(") T ") || stat.contains(") D ");
    while !fs::read_to_string(&stat).is_ok_and(|stat| is_suspended(&stat)) {
        assert!(Instant::now() < end, "{pid:?} is not suspended");
        std::thread::yield_now();
    }
}

/// Waits until a run and all that it has started are suspended.
#[track_caller]
fn until_all_suspended([run, agent, tool]: [Pid; 3]) {
    until_stopped(run);
    [agent, tool].into_iter().for_each(until_suspended);
}

fn events(project: &TestProject, kind: &str) -> Vec<Value> {
    let journal = project.run(["journal", "--json", "--type", kind]);
    journal.expect_code(0).json_lines()
}

/// A line of a shell with job control: it suspends the program, and continues it once there is a file `continue`.
fn shell_line() -> String {
    format!(
        "set -m; '{}' run --max-time 600; stty -a > suspended.txt; until [ -e continue ]; do sleep 0.05; done; fg; code=$?; stty -a > after; exit $code",
        env!("CARGO_BIN_EXE_hankweave")
    )
}

// covers: S12, CLI-24, HANK-35
#[test]
fn ctrl_z_suspends_the_agents_as_well_and_counts_against_no_limit() {
    let project = project();
    working(&project);
    let Some(mut terminal) = Terminal::of(&project, &shell_line()) else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("│ working"));
    let all = processes(&project);
    let number = all[0].as_raw_nonzero();
    terminal.press("\u{1a}");
    until_all_suspended(all);
    let modes = project.directory().join("suspended.txt");
    wait_for(&modes);
    let worked = || {
        let status = project.run(["status", "--json"]).expect_code(0).json_document();
        let attempt = &status["view"]["items"]["one"]["attempts"]["1.1"];
        let others = attempt["suspendedMs"].as_i64().unwrap();
        (status["run"]["workedMs"].clone(), others)
    };
    let (before, others) = worked();
    stands_still(&project);
    let (after, later) = worked();
    assert_eq!(after, before, "the clock stands with the run");
    assert!(
        later >= others + 2_000,
        "no part of the suspension is work in the view: {others} ms, {later} ms"
    );
    let logs = project.run(["logs"]).expect_code(0).stdout.clone();
    assert!(
        logs.contains("— suspended since ")
            && logs.ends_with(&format!("; `kill -CONT {number}` continues it\n")),
        "{logs}"
    );
    let modes = fs::read_to_string(modes).unwrap();
    for mode in [" icanon", " echo "] {
        assert!(modes.contains(mode), "the shell gets its terminal back: {modes}");
    }

    let status = project.run(["status"]);
    let status = &status.expect_code(0).stdout;
    for words in [
        format!(": suspended (process {number}) since "),
        "one is suspended with its run".to_owned(),
        format!("  kill -CONT {number} "),
    ] {
        assert!(status.contains(&words), "no {words:?} in {status}");
    }
    let status = project.run(["status", "--json"]);
    assert_eq!(
        status.expect_code(0).json_document()["suspendedPid"],
        number.get()
    );
    for command in ["approve", "next", "attach"] {
        let refused = project.run([command]);
        let said = &refused.expect_code(75).stderr;
        let hint = format!("`fg` in its terminal continues it, and so does `kill -CONT {number}` anywhere");
        assert!(
            said.contains(&format!("is suspended (process {number})")) && said.contains(&hint),
            "{command}: {said}"
        );
    }

    project.write("continue", "");
    terminal.until("continued after ");
    terminal.until_standing(|screen| screen.contains("│ working") && screen.contains("suspended at "));
    project.write("go", "");
    terminal.until("Finished: 1 of 1 codon completed.");
    assert_eq!(terminal.close(), Some(0));

    let continued = events(&project, "run.continued");
    let suspended = continued[0]["data"]["suspendedMs"].as_u64().unwrap();
    assert!(continued.len() == 1 && suspended >= 2_000, "{continued:?}");
    let state = project
        .run(["state", "show", "--json"])
        .expect_code(0)
        .json_document();
    let codon = &state["runs"][0]["codons"][0];
    let took = events(&project, "codon.completed")[0]["data"]["duration"]
        .as_u64()
        .unwrap();
    let at = |key: &str| {
        let text = codon[key].as_str().unwrap();
        hankweave_core::time::Timestamp::parse(text).unwrap()
    };
    let all = at("endTime").since(at("startTime"));
    let suspended = Duration::from_millis(suspended);
    assert!(
        Duration::from_millis(took) < all.saturating_sub(suspended) + Duration::from_millis(500),
        "{took} ms of {all:?}, {suspended:?} of them suspended"
    );
    let report = project.run(["report"]);
    let report = &report.expect_code(0).stdout;
    assert!(report.contains("one was suspended for "), "{report}");
    // A run that starts over takes nothing from what happened before.
    project.run(["run", "--headless", "--new"]).expect_code(0);
    let report = project.run(["report"]);
    let report = &report.expect_code(0).stdout;
    assert!(report.contains("one was suspended for "), "{report}");
}

// covers: S12, CLI-35
#[test]
fn the_whole_screen_of_a_run_suspends_its_agents_as_well() {
    let project = project();
    working(&project);
    let Some(mut terminal) = Terminal::of(&project, &shell_line()) else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("│ working"));
    terminal.press("t");
    terminal.until_standing(|screen| screen.contains("Runs Name of one"));
    terminal.press("\u{1a}");
    until_all_suspended(processes(&project));
    stands_still(&project);
    project.write("continue", "");
    terminal.until_standing(|screen| screen.contains("suspended at ") && screen.contains("Runs Name of one"));
    project.write("go", "");
    terminal.until_standing(|screen| screen.contains("Completed"));
    terminal.press("q");
    terminal.until("Finished: 1 of 1 codon completed.");
    assert_eq!(terminal.close(), Some(0));
}

/// A client that is attached shows that the run is suspended, and its clock stops.
// covers: S12, CLI-24, CLI-35
#[test]
fn an_attached_client_stands_still_with_its_run() {
    let project = project();
    working(&project);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"working\""));
    let all = processes(&project);
    let Some(mut lines) = Terminal::open(&project, "attach") else {
        return;
    };
    let Some(mut screen) = Terminal::open(&project, "attach --tui") else {
        return;
    };
    lines.until_standing(|screen| screen.contains("│ working"));
    screen.until_standing(|screen| screen.contains("Runs Name of one"));
    kill_process(all[0], Signal::TSTP).unwrap();
    until_all_suspended(all);
    let how = format!("kill -CONT {}", all[0].as_raw_nonzero());
    lines.until_standing(|screen| screen.contains(&how) && screen.contains(" · suspended"));
    screen.until_standing(|screen| screen.contains("Suspended") && screen.contains(&how));
    let foot = |terminal: &Terminal| {
        let standing = terminal.standing();
        let foot = standing
            .lines()
            .rfind(|line| line.contains("1 of 1") || line.contains("0 of 1"));
        foot.map(str::to_owned)
    };
    let (before, end) = ([foot(&lines), foot(&screen)], Instant::now() + LOOK);
    assert!(before.iter().all(Option::is_some), "{before:?}");
    // A line that is being drawn again is not there for a moment.
    while Instant::now() < end {
        for (terminal, before) in [&lines, &screen].into_iter().zip(&before) {
            let now = foot(terminal);
            assert!(now.is_none() || now == *before, "{now:?}, {before:?}");
        }
        lines.look();
        screen.look();
    }
    for (terminal, before) in [&mut lines, &mut screen].into_iter().zip(&before) {
        terminal.until_standing(|screen| before.as_ref().is_some_and(|foot| screen.contains(foot)));
    }
    kill_process(all[0], Signal::CONT).unwrap();
    lines.until("continued after ");
    lines.until_standing(|screen| !screen.contains(" · suspended"));
    screen.until_standing(|screen| screen.contains("Runs Name of one"));
    project.write("go", "");
    run.finish_within(SOON).expect_code(0);
    lines.close();
    screen.press("q");
    screen.close();
}

/// The last line of a client reports how its run has ended, and names the command that shows how to continue.
// covers: CLI-24
#[test]
fn an_attached_client_says_how_its_run_ended() {
    let project = project();
    working(&project);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"working\""));
    let mut client = project.start(["attach", "--after", "0"]);
    client.wait_for_line(|line| line.contains("working"));
    project
        .run(["stop", "--reason", "the fan is loud"])
        .expect_code(0);
    run.finish_within(SOON).expect_code(3);
    let left = client.finish_within(SOON);
    let said = &left.expect_code(0).stderr;
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("Stopped")
            && last.contains("the fan is loud")
            && last.ends_with("; `hankweave status` tells how to continue"),
        "{said}"
    );
}

// covers: S12
#[test]
fn a_suspended_run_can_be_stopped() {
    let project = project();
    working(&project);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"working\""));
    let all = processes(&project);
    kill_process(all[0], Signal::TSTP).unwrap();
    until_all_suspended(all);
    let stopped = project.run(["stop"]);
    let said = &stopped.expect_code(0).stderr;
    assert!(
        said.contains("the run was suspended; it continues in order to stop"),
        "{said}"
    );
    run.finish_within(SOON).expect_code(3);
    assert_eq!(events(&project, "run.continued").len(), 1);
}

/// A shell in a name space of processes of its own, with this line.
fn in_container(project: &TestProject, line: &str) -> std::process::Command {
    let mut command = project.command(Path::new("unshare"));
    let space = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    command.args(space).args(["sh", "-c", line]);
    command
}

/// What began outside a container has session 0 and group 0 inside.
// covers: S12
#[test]
fn a_run_in_a_session_that_began_outside_its_container_is_suspended_as_well() {
    let project = project();
    working(&project);
    let namespace = |line: &str| in_container(&project, line);
    if !namespace("true")
        .output()
        .is_ok_and(|tried| tried.status.success())
    {
        return println!("skipped: unshare makes no namespace of processes here");
    }
    let line = format!(
        "'{}' run --headless --json > run.txt 2>&1 & run=$!
until [ -e tool.pid ]; do sleep 0.02; done
kill -TSTP $run
while grep -qs '^State:.[^TZ]' /proc/$run/status; do sleep 0.02; done
kill -CONT $run
touch go
wait $run",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let status = namespace(&line).status().unwrap();
    let printed = fs::read_to_string(project.directory().join("run.txt")).unwrap();
    assert!(status.success(), "{status}: {printed}");
    assert_eq!(events(&project, "run.continued").len(), 1);
}

/// Outside of its container, a run whose process has another number, or none, is recognized by its heartbeats.
// covers: L5
#[test]
fn a_run_in_a_container_works_for_whoever_looks_from_outside() {
    let project = project();
    working(&project);
    let inside = |line: &str| in_container(&project, line);
    if !inside("true").output().is_ok_and(|tried| tried.status.success()) {
        return println!("skipped: unshare makes no namespace of processes here");
    }
    let line = format!("exec '{}' run --headless", env!("CARGO_BIN_EXE_hankweave"));
    let mut run = inside(&line).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_for(&project.directory().join("tool.pid"));
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status.contains(": running, since ") && !status.contains("crash"),
        "{status}"
    );
    project.write("go", "");
    assert!(run.wait().unwrap().success());
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(status.contains(": completed, "), "{status}");
}

/// A program that another one stops gets no signal, so it cannot stop its agent; at least that is reported.
// covers: CLI-14
#[test]
fn a_run_that_another_program_has_stopped_is_suspended_as_well() {
    let project = project();
    working(&project);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"working\""));
    let own = processes(&project)[0];
    kill_process(own, Signal::STOP).unwrap();
    until_stopped(own);
    let status = project.run(["status"]);
    let status = &status.expect_code(0).stdout;
    assert!(status.contains(": suspended (process "), "{status}");
    kill_process(own, Signal::CONT).unwrap();
    project.write("go", "");
    run.finish_within(SOON).expect_code(0);
}

/// The real claude is a tree of processes that talks to its model meanwhile.
// covers: S12
#[test]
fn the_real_claude_is_suspended_with_its_tools_and_continues() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let tool = "echo $$ > tool.pid; until [ -e go ]; do echo x >> ticks; sleep 0.02; done";
    let turns = json!([
        {"text": "I wait.", "tools": [{"op": "bash", "command": tool, "description": "Wait"}], "usage": {"input": 10, "output": 5}},
        {"text": "Done.", "usage": {"input": 20, "output": 5}}]);
    let scenario = Scenario::try_from(json!({"turns": turns})).unwrap();
    let server = ModelServer::start(scenario).unwrap();
    let mut project = project();
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "Name of one", "agent": "claude", "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "Wait",
        "env": {"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "any"}}]}),
    );
    let Some(mut terminal) = Terminal::of(&project, &shell_line()) else {
        return;
    };
    let own = pid(&project, of_lock, ".hankweave/server.lock");
    let tool = pid(&project, of_line, "tool.pid");
    terminal.press("\u{1a}");
    until_stopped(own);
    until_suspended(tool);
    stands_still(&project);
    project.write("continue", "");
    terminal.until("continued after ");
    project.write("go", "");
    terminal.until("Finished: 1 of 1 codon completed.");
    assert_eq!(terminal.close(), Some(0));
    assert_eq!(project.left_behind(), []);
}

/// Writes a hank whose agent works without end in the first attempt, and completes in a later one; the first has a tool in a session of its own.
fn working_at_first(project: &TestProject) {
    let script = r#"cat > /dev/null
printf '%s\n' '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}'
printf '%s\n' '{"type":"assistant","session_id":"s-1","message":{"id":"m-1","role":"assistant","model":"shell","content":[{"type":"text","text":"working"}],"usage":{"input_tokens":10,"output_tokens":1}}}'
if [ ! -e "$HOME/attempted" ]; then
    echo > "$HOME/attempted"
    echo $$ > "$HOME/agent.pid"
    setsid sh -c 'echo $$ > "$HOME/tool.pid"; while :; do sleep 0.02; done' < /dev/null > /dev/null 2>&1 &
    until [ -e "$HOME/go" ]; do sleep 0.02; done
fi
printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","num_turns":1,"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5},"model_usage_since_last_result":{"shell":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.25}}}'
"#;
    let agent = json!({"command": ["sh", project.write("agent.sh", script)], "stream": "claude"});
    project.write(
        "hank/hank.json",
        json!({"hank": [{"id": "one", "name": "Name of one", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": "go"}]})
        .to_string(),
    );
    let create = ["task", "create", "Slow", "--hank", "hank", "--id", "slow"];
    project.run(create).expect_code(0);
}

/// Reads a process id from a file in the home of the project, as soon as it is there.
#[track_caller]
fn pid_at_home(project: &TestProject, read: impl Fn(&str) -> Option<i64>, file: &str) -> Pid {
    let file = project.home().join(file);
    pid(project, read, file.to_str().unwrap())
}

/// The processes of a task's run, its agent and the agent's tool, once all work.
fn processes_of_task(project: &TestProject) -> [Pid; 3] {
    let lock = ".local/share/hankweave/tasks/slow/workspace/.hankweave/server.lock";
    [
        pid_at_home(project, of_lock, lock),
        pid_at_home(project, of_line, "agent.pid"),
        pid_at_home(project, of_line, "tool.pid"),
    ]
}

fn task(project: &TestProject) -> Value {
    let shown = project.run(["task", "show", "slow", "--json"]);
    shown.expect_code(0).json_document()["task"].clone()
}

// covers: S12, TASK-52
#[test]
fn a_worker_is_suspended_with_its_runs_and_continues_with_them() {
    let project = project();
    working_at_first(&project);
    let (worker, own) = suspended_with_run(&project, &["worker", "--once", "--lease", "1h"]);
    let place = project.home().join(".local/share/hankweave/tasks/slow/workspace");
    let place = place.to_str().unwrap();
    let status = project.run(["status", "-e", place]);
    let status = &status.expect_code(0).stdout;
    assert!(
        status.contains(": suspended (process ") && status.contains("one is suspended with its worker"),
        "{status}"
    );
    // List and show name the process that continues both.
    let number = own.as_raw_nonzero();
    let words = format!("`fg` in its terminal or `kill -CONT {number}` continues both; its lease ends in ");
    for shown in [&["task", "list"][..], &["task", "show", "slow"]] {
        let shown = project.run(shown).expect_code(0).stdout.clone();
        assert!(
            shown.contains("suspended with its worker ") && shown.contains(&words),
            "{shown}"
        );
    }
    fs::write(project.home().join("go"), "").unwrap();
    kill_process(own, Signal::CONT).unwrap();
    worker.finish_within(SOON).expect_code(0);
    let row = task(&project);
    assert_eq!(
        (&row["status"], &row["cost"]),
        (&json!("completed"), &json!(0.25))
    );
    // The run knows that it was suspended, so that the time counts against no limit.
    let continued = project.run(["journal", "-e", place, "--json", "--type", "run.continued"]);
    assert_eq!(continued.expect_code(0).json_lines().len(), 1);
}

/// A suspended worker stops nothing before it continues.
// covers: S12, TASK-57
#[test]
fn a_cancelled_task_of_a_suspended_worker_says_what_continues_it() {
    let project = project();
    working_at_first(&project);
    let (worker, own) = suspended_with_run(&project, &["worker", "--once", "--lease", "1h"]);
    let cancelled = project.run(["task", "cancel", "slow"]);
    let pid = own.as_raw_nonzero();
    let continues = format!("`kill -CONT {pid}` continues both");
    let said = &cancelled.expect_code(0).stderr.replace("\n  ", " ");
    assert!(
        said.contains(&continues) && said.contains("its worker stops it once it works again"),
        "{said}"
    );
    let place = project.home().join(".local/share/hankweave/tasks/slow/workspace");
    let status = project.run(["status", place.to_str().unwrap()]);
    let status = &status.expect_code(0).stdout;
    assert!(
        status.contains("  the task is to be cancelled, as asked by ") && !status.contains("task cancel"),
        "{status}"
    );
    kill_process(own, Signal::CONT).unwrap();
    worker.finish_within(SOON).expect_code(0);
    assert_eq!(task(&project)["status"], "cancelled");
}

/// A debugger, or `kill -STOP` with one number, suspends the worker alone.
// covers: TASK-52
#[test]
fn the_run_of_a_worker_that_alone_is_suspended_is_not_called_so() {
    let project = project();
    working_at_first(&project);
    let worker = project.start(["worker", "--once", "--lease", "1h", "--owner", "w1"]);
    let own = Pid::from_raw(i32::try_from(worker.pid()).unwrap()).unwrap();
    processes_of_task(&project);
    kill_process(own, Signal::STOP).unwrap();
    until_stopped(own);
    let told = |arguments: &[&str]| project.run(arguments).expect_code(0).stdout.replace("\n  ", " ");
    let pid = own.as_raw_nonzero();
    let words = format!(
        "its worker w1 is suspended, and its run works on: `fg` in its terminal or `kill -CONT {pid}` continues the worker"
    );
    let list = told(&["task", "list"]);
    assert!(list.contains(&words), "{list}");
    let place = project.home().join(".local/share/hankweave/tasks/slow/workspace");
    let status = told(&["status", "-e", place.to_str().unwrap()]);
    assert!(status.contains(&words), "{status}");
    let attempts = told(&["task", "show", "slow", "--attempts"]);
    assert!(
        attempts.contains("running") && !attempts.contains('≥'),
        "{attempts}"
    );
    kill_process(own, Signal::CONT).unwrap();
    project.run(["task", "cancel", "slow"]).expect_code(0);
    worker.finish_within(SOON).expect_code(0);
}

/// Starts a worker and suspends it with its run and their agents while these work, as Ctrl+Z does.
fn suspended_with_run(project: &TestProject, arguments: &[&str]) -> (Running, Pid) {
    let worker = project.start(arguments);
    let own = Pid::from_raw(i32::try_from(worker.pid()).unwrap()).unwrap();
    let all = processes_of_task(project);
    kill_process(own, Signal::TSTP).unwrap();
    until_all_suspended(all);
    until_stopped(own);
    (worker, own)
}

/// Lets another worker take the task over and complete it.
fn completed_by_another(project: &TestProject) {
    while task(project)["status"] != "completed" {
        let second = [
            "worker",
            "--once",
            "--orphan-after",
            "1s",
            "--lease",
            "1h",
            "--owner",
            "w2",
        ];
        let worked = project.run(second);
        worked.expect_code(0);
        let shown = task(project);
        assert_ne!(shown["status"], "failed", "{shown:#} {}", worked.stderr);
    }
}

/// Starts the worker `w1` and suspends it alone while its run works, without its lease.
fn suspended_without_lease(project: &TestProject) -> (Running, Pid) {
    let first = project.start(["worker", "--once", "--lease", "1h", "--owner", "w1"]);
    let own = Pid::from_raw(i32::try_from(first.pid()).unwrap()).unwrap();
    processes_of_task(project);
    // A worker that is stopped while it writes would lock every other process out of the folder of the task.
    while project.run(["task", "show", "slow", "--json"]).json_document()["data"]["running"].is_null() {
        std::thread::yield_now();
    }
    kill_process(own, Signal::STOP).unwrap();
    until_stopped(own);
    project.run(["lock", "free", "lifecycle:w1"]).expect_code(0);
    (first, own)
}

/// Until the next worker has ended the run of the one before it, the suspended process is not that of the next one.
// covers: TASK-52, TASK-58
#[test]
fn a_worker_that_takes_a_task_over_is_not_called_suspended() {
    let project = project();
    working_at_first(&project);
    let (first, own) = suspended_without_lease(&project);
    let second = project.start(["worker", "--orphan-after", "1s", "--lease", "1h", "--owner", "w2"]);
    let deadline = Instant::now() + SOON;
    let mut shown = String::new();
    while task(&project)["status"] != "completed" {
        assert!(Instant::now() < deadline, "{shown}");
        shown = project
            .run(["task", "list"])
            .expect_code(0)
            .stdout
            .replace("\n    ", " ");
        assert!(!shown.contains("its worker w2 is suspended"), "{shown}");
    }
    second.signal(Signal::TERM);
    second.finish_within(SOON).expect_code(143);
    kill_process(own, Signal::CONT).unwrap();
    first.finish_within(SOON).expect_code(0);
}

/// A run whose worker alone is suspended continues to work. The worker that has the task now ends that run first, so that no two runs work on the
/// task, and none works on it after a cancel.
// covers: TASK-58
#[test]
fn the_run_of_a_suspended_worker_that_lost_its_lease_does_not_work_on() {
    let project = project();
    working_at_first(&project);
    let (first, own) = suspended_without_lease(&project);
    completed_by_another(&project);
    // A worker that could do nothing is not named as the one that stopped the run.
    let report = project.run(["task", "show", "slow", "--report"]);
    let report = &report.expect_code(0).stdout;
    assert!(
        report.contains("its worker w1 was suspended, and the worker that has the task now stopped it"),
        "{report}"
    );
    kill_process(own, Signal::CONT).unwrap();
    first.finish_within(SOON).expect_code(0);
    assert_eq!(task(&project)["cost"], 0.25);
    // A sum is a lower bound on all screens or on none.
    let place = project.home().join(".local/share/hankweave/tasks/slow/workspace");
    let place = place.to_str().unwrap();
    let lost = task(&project)["costIsLowerBound"] == true;
    let report = project
        .run(["report", "--json", "-e", place])
        .expect_code(0)
        .json_document();
    let status = project
        .run(["status", "--json", "-e", place])
        .expect_code(0)
        .json_document();
    assert_eq!(
        (
            lost,
            report["money"]["atLeast"] == true,
            status["costIsLowerBound"] == true
        ),
        (true, true, true),
        "{report:#} {status:#}"
    );
    // A run that starts over there is a user's, and what it costs is known.
    project
        .run(["run", "hank", "-e", place, "--headless", "--new"])
        .expect_code(0);
    let status = project.run(["status", place]).expect_code(0).stdout.clone();
    assert!(
        status.contains("  it is a user's, after the task had completed: its cost is none of the task's\n"),
        "{status}"
    );
    let report = project.run(["report", place]).expect_code(0).stdout.clone();
    assert!(
        report.contains("1 of 1 codon, ") && report.contains(", $0.2500, "),
        "{report}"
    );
    assert_eq!(project.left_behind(), []);
}

/// Ctrl+Z holds both: what is cancelled meanwhile names what lets the worker stop the run.
// covers: TASK-57, TASK-58
#[test]
fn a_task_that_is_cancelled_while_both_are_suspended_without_a_lease_says_what_ends_the_run() {
    let project = project();
    working_at_first(&project);
    let (first, own) = suspended_with_run(&project, &["worker", "--once", "--lease", "1h", "--owner", "w1"]);
    project.run(["lock", "free", "lifecycle:w1"]).expect_code(0);
    let cancelled = project.run(["task", "cancel", "slow"]);
    let ends = format!(
        "its run is suspended with its worker: after `fg` in its terminal or `kill -CONT {}` the worker stops it",
        own.as_raw_nonzero()
    );
    let said = cancelled.expect_code(0).stderr.replace("\n  ", " ");
    assert!(said.contains(&ends), "{said}");
    for screen in [&["task", "list"][..], &["task", "show", "slow"]] {
        let shown = project.run(screen).expect_code(0).stdout.replace("\n  ", " ");
        assert!(shown.contains(&ends), "{shown}");
    }
    kill_process(own, Signal::CONT).unwrap();
    first.finish_within(SOON).expect_code(0);
    assert_eq!(task(&project)["status"], "cancelled");
    assert_eq!(project.left_behind(), []);
}

/// Another worker on this machine takes the task over meanwhile: the suspended run gives its directory up, and the work counts once.
// covers: S12, TASK-52, TASK-58
#[test]
fn a_suspended_worker_that_lost_its_lease_pays_nothing_twice() {
    let project = project();
    working_at_first(&project);
    let (first, own) = suspended_with_run(
        &project,
        &["worker", "--once", "--lease", "1h", "--json", "--owner", "w1"],
    );
    // Its lease ends now, and not while it still works.
    project.run(["lock", "free", "lifecycle:w1"]).expect_code(0);
    let shown = project
        .run(["task", "show", "slow"])
        .expect_code(0)
        .stdout
        .clone();
    let pid = own.as_raw_nonzero();
    let stops = format!(
        "and its lease has ended: after `fg` in its terminal or `kill -CONT {pid}` the worker stops the run"
    );
    assert!(
        shown.contains(&stops) && !shown.contains("continues both"),
        "{shown}"
    );
    let place = project.home().join(".local/share/hankweave/tasks/slow/workspace");
    let status = project.run(["status", "-e", place.to_str().unwrap()]);
    let status = &status.expect_code(0).stdout;
    assert!(
        status.contains("its lease has ended, so the worker stops the run")
            && !status.contains("continues both"),
        "{status}"
    );
    completed_by_another(&project);
    let before = task(&project);
    kill_process(own, Signal::CONT).unwrap();
    let worked = first.finish_within(SOON);
    let counts = worked.expect_code(0).json_lines();
    assert_eq!(counts.last().unwrap()["lost"], 1, "{counts:?}");
    assert!(
        worked.stderr.contains(
            "task slow is lost: its lease had ended, and it is completed now; the run of that attempt"
        ),
        "{}",
        worked.stderr
    );
    let row = task(&project);
    assert_eq!(
        (&row["status"], &row["cost"]),
        (&json!("completed"), &json!(0.25))
    );
    assert_eq!(row, before);
    assert_eq!(project.left_behind(), []);
}

/// The name of the worker stays in the registry until the task is requeued, which does not mean that another worker has the task.
// covers: TASK-52
#[test]
fn a_worker_that_lost_a_task_names_no_other_while_nobody_has_taken_it() {
    let project = project();
    working_at_first(&project);
    let (first, own) = suspended_with_run(
        &project,
        &[
            "worker",
            "--once",
            "--lease",
            "2s",
            "--orphan-after",
            "1h",
            "--owner",
            "w1",
        ],
    );
    let has_ended = || {
        let shown = project.run(["task", "show", "slow"]);
        shown.stdout.contains("its lease has ended")
    };
    let deadline = Instant::now() + SOON;
    while !has_ended() {
        assert!(Instant::now() < deadline, "the lease does not end");
    }
    kill_process(own, Signal::CONT).unwrap();
    let worked = first.finish_within(SOON);
    worked.expect_code(0);
    let lost = "task slow is lost: its lease had ended, and no worker holds it now; the run of that attempt is stopped";
    assert!(worked.stderr.contains(lost), "{}", worked.stderr);
}

/// A task that is cancelled while its worker is suspended without a lease has a run that works on: what ends it can be typed.
// covers: TASK-57, TASK-58
#[test]
fn the_run_of_a_task_that_was_cancelled_behind_its_suspended_worker_can_be_stopped() {
    let project = project();
    working_at_first(&project);
    let (first, own) = suspended_without_lease(&project);
    let cancelled = project.run(["task", "cancel", "slow"]);
    let said = &cancelled.expect_code(0).stderr;
    let place = project.home().join(".local/share/hankweave/tasks/slow/workspace");
    let place = place.to_str().unwrap();
    let works_on = "its run works on, and spends, because its worker is suspended: `";
    let stop = said.split_once(works_on).unwrap_or_else(|| panic!("{said}")).1;
    let stop = stop.split('`').next().unwrap();
    let status = project.run(["status", "-e", place]).expect_code(0).stdout.clone();
    assert!(
        status.contains(stop) && !status.contains("task cancel slow"),
        "{status}"
    );
    for screen in [&["task", "list"][..], &["task", "show", "slow"]] {
        let shown = project.run(screen).expect_code(0).stdout.clone();
        assert!(shown.contains("its run works on, and spends"), "{shown}");
    }
    paste(&project, stop);
    kill_process(own, Signal::CONT).unwrap();
    first.finish_within(SOON).expect_code(0);
    assert_eq!(task(&project)["status"], "cancelled");
    assert_eq!(project.left_behind(), []);
}
