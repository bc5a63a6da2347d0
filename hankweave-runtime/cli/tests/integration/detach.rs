//! `hankweave run --detach`: a run that outlives its terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hankweave_testing::processes::Watched;
use hankweave_testing::pty::OnTerminal;
use hankweave_testing::{Finished, TestProject};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{codon, project, shell_agent};

const DEADLINE: Duration = Duration::from_secs(120);

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hankweave"))
}

/// Writes a hank of these prompts, one codon each; an agent with "wait for go" waits for the file `go`.
fn write_codons(project: &TestProject, prompts: &[&str]) -> Value {
    let agent = shell_agent(project);
    let script = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    project.write(
        "agent.sh",
        script.replace(
            "[ -e go ] || exec sleep 600",
            "until [ -e go ]; do sleep 0.02; done",
        ),
    );
    let codons = prompts.iter().enumerate().map(|(number, prompt)| {
        json!({"id": format!("c{number}"), "name": format!("C{number}"), "agent": agent, "model": "claude-sonnet-4-5",
               "continuationMode": "fresh", "promptText": prompt})
    });
    let hank = json!({"hank": codons.collect::<Vec<_>>()});
    project.write_hank(&hank);
    hank
}

fn pid(started: &Value) -> u32 {
    u32::try_from(started["pid"].as_u64().unwrap()).unwrap()
}

/// Starts a detached run; returns what it printed.
#[track_caller]
fn detached(project: &TestProject, arguments: &[&str]) -> Value {
    let arguments = [&["run", "--detach", "--json"], arguments].concat();
    project.run(arguments).expect_code(0).json_document()
}

#[track_caller]
fn until_ended(started: &Value) {
    // One that has ended already is no process any more.
    if let Some(run) = Watched::new(pid(started)) {
        assert!(
            run.ends_within(DEADLINE),
            "the run does not end:\n{}",
            at_what(started)
        );
    }
}

/// Returns where each thread of a run that does not end waits, and what the run has printed.
fn at_what(started: &Value) -> String {
    let process = format!("/proc/{}", started["pid"]);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let threads = fs::read_dir(format!("{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let threads = threads.map(|thread| {
        let thread = thread.path().display().to_string();
        format!(
            "{} waits in {}\n",
            read(&format!("{thread}/comm")).trim(),
            read(&format!("{thread}/wchan"))
        )
    });
    let log = started["log"].as_str().map(read).unwrap_or_default();
    format!("{}{log}", threads.collect::<String>())
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::yield_now();
    }
}

fn log(project: &TestProject) -> String {
    fs::read_to_string(project.directory().join(".hankweave/logs/detached.log")).unwrap_or_default()
}

fn newest(project: &TestProject) -> Value {
    project.state(&project.directory())["runs"][0].clone()
}

// covers: CLI-80, F19
#[test]
fn a_detached_run_outlives_its_terminal_and_is_found_by_every_command() {
    let project = project();
    write_codons(&project, &["wait for go", "two"]);
    let line = format!("'{}' run --detach; echo code=$?; read line", program().display());
    let Some(mut shell) = OnTerminal::start(&project, Path::new("/bin/sh"), &["-c", &line]) else {
        return;
    };
    shell.until("code=");
    let shown = shell.shown();
    for words in [
        "code=0",
        "detached: the run continues without this terminal (process ",
        ".hankweave/logs/detached.log",
        "hankweave status",
        "hankweave attach",
        "hankweave logs --follow",
        "hankweave stop",
    ] {
        assert!(shown.contains(words), "no {words:?} in {shown}");
    }
    assert!(!shown.contains("hankweave approve"), "{shown}");
    let number = shown
        .split("(process ")
        .nth(1)
        .unwrap()
        .split(')')
        .next()
        .unwrap();
    let run = Watched::new(number.parse().unwrap()).unwrap();

    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(fields[3], number, "it leads its session: {stat}");
    assert_eq!(fields[4], "0", "it has no terminal: {stat}");
    let open = |fd: u32| fs::read_link(format!("/proc/{number}/fd/{fd}")).unwrap();
    assert_eq!(open(0), Path::new("/dev/null"));
    let file = fs::canonicalize(project.directory().join(".hankweave/logs/detached.log")).unwrap();
    assert_eq!((open(1), open(2)), (file.clone(), file.clone()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    shell.hang_up();
    let pid = Pid::from_raw(number.parse().unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    let mut follower = project.start(["attach", "--json", "--after", "0"]);
    follower.wait_for_line(|line| line.contains("\"working\""));
    let mut logs = project.start(["logs", "--follow", "--json"]);
    logs.wait_for_line(|line| line.contains("\"working\""));
    let mut said = project.start(["logs", "--follow"]);
    said.wait_for_line(|line| line.contains("working"));
    let status = project.run(["status", "--json"]).expect_code(0).json_document();
    assert_eq!(status["live"], true, "{status:#}");
    let page = project.run(["page"]);
    assert!(page.expect_code(0).stdout.contains("#token="), "{page}");
    project.write("go", "");
    assert!(run.ends_within(DEADLINE), "the run does not end");
    follower.finish_within(DEADLINE).expect_code(0);
    logs.kill();
    // A codon that starts while a client follows the run counts.
    let said = said.finish_within(DEADLINE);
    assert!(
        said.stdout.contains("c1  ") && !said.stdout.contains("undone"),
        "{said}"
    );
    assert_eq!(newest(&project)["status"], "completed");
    let printed = log(&project);
    assert!(
        printed.contains("Finished: 2 of 2 codons completed."),
        "{printed}"
    );
    assert!(!printed.contains("#token="), "{printed}");
    project.run(["replay", ".", "--speed", "max"]).expect_code(0);
    assert_eq!(project.left_behind(), []);
}

/// Returns the output and exit code of a start without `--detach`, and of one with it.
#[track_caller]
fn both(project: &TestProject, arguments: &[&str]) -> [Finished; 2] {
    let plain = [&["run", "--headless"], arguments].concat();
    let detached = [&["run", "--detach"], arguments].concat();
    [project.run(plain), project.run(detached)]
}

// covers: CLI-80, RUN-1
#[test]
fn a_run_that_cannot_start_ends_the_command_with_its_own_message_and_code() {
    let project = project();
    project.write("hank.json", "{\"hank\": [}");
    let [plain, detached] = both(&project, &[]);
    assert_eq!(detached.expect_code(65).stderr, plain.expect_code(65).stderr);
    assert!(
        !project.directory().join(".hankweave").exists(),
        "nothing is written"
    );

    write_codons(&project, &["wait for go"]);
    let [plain, detached] = both(&project, &["--data", "missing"]);
    assert_eq!(detached.stderr, plain.stderr);
    assert_eq!(detached.code, plain.code);
    assert!(
        !project.directory().join(".hankweave").exists(),
        "nothing is written"
    );

    let started = self::detached(&project, &[]);
    let [plain, detached] = both(&project, &[]);
    assert_eq!(detached.expect_code(75).stderr, plain.expect_code(75).stderr);
    assert!(detached.stderr.contains(&pid(&started).to_string()), "{detached}");
    project.write("go", "");
    until_ended(&started);
    assert_eq!(newest(&project)["status"], "completed");

    let [plain, detached] = both(&project, &[]);
    let repeated = detached
        .expect_code(0)
        .stderr
        .replace("hankweave run --detach", "hankweave run");
    assert_eq!(repeated, plain.expect_code(0).stderr);
    for refused in [&["--dry-run"][..], &["--rehearse"]] {
        project
            .run([&["run", "--detach"], refused].concat())
            .expect_code(2);
    }
    assert_eq!(project.left_behind(), []);
}

// covers: CLI-80, CLI-30, STATE-65
#[test]
fn a_detached_run_waits_for_an_approval_and_names_the_command() {
    let project = project();
    let mut hank = write_codons(&project, &["one", "two"]);
    hank["hank"][1]["approval"] = json!("Is it right?");
    project.write_hank(&hank);
    let started = project.run(["run", "--detach"]);
    let said = &started.expect_code(0).stdout;
    assert!(said.contains("  answer     hankweave approve\n"), "{said}");
    let status = || project.run(["status"]).expect_code(0).stdout.clone();
    until("the question", || status().contains("c1 waits for an approval"));
    project.run(["approve"]).expect_code(0);
    until("the end", || newest(&project)["status"] == "completed");
    until("the end of the process", || project.left_behind().is_empty());
}

// covers: CLI-80, CLI-30
#[test]
fn a_detached_run_whose_next_codon_was_denied_is_no_run_that_continues() {
    let project = project();
    let mut hank = write_codons(&project, &["one", "two"]);
    hank["hank"][1]["approval"] = json!("Is it right?");
    project.write_hank(&hank);
    project.run(["run", "--headless"]).expect_code(3);
    project.run(["approve", "--deny"]).expect_code(0);
    let again = project.run(["run", "--detach"]);
    again.expect_code(3);
    assert_eq!(again.stdout, "");
    assert!(
        again
            .stderr
            .contains("Paused before c1: it was denied; 1 of 2 codons completed"),
        "{again}"
    );
    assert_eq!(project.left_behind(), []);
}

// covers: CLI-80, P9, HANK-30, CLI-27
#[test]
fn a_detached_run_that_was_killed_is_continued_detached_and_pauses_at_its_budget() {
    let project = project();
    write_codons(&project, &["one", "wait for go", "three"]);
    let first = detached(&project, &[]);
    let number = first["pid"].as_i64().unwrap();
    until("the second codon", || {
        newest(&project)["codons"]
            .as_array()
            .is_some_and(|codons| codons.len() == 2)
    });
    let run = Watched::new(pid(&first)).unwrap();
    kill_process(
        Pid::from_raw(i32::try_from(number).unwrap()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
    assert!(run.ends_within(DEADLINE));
    project.write("go", "");
    let tell = "cat > told; printf %s \"$HANKWEAVE_NEXT\" > next";
    let started = project.run(["run", "--detach", "--json", "--max-cost", "0.5", "--notify", tell]);
    let said = &started.expect_code(0).stderr;
    assert!(
        said.contains("c1 crashed; a detached run asks nothing on the terminal"),
        "{said}"
    );
    let second = started.json_document();
    assert_ne!(second["runId"], first["runId"]);
    until_ended(&second);
    let state = project
        .run(["state", "show", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(state["runs"][0]["interruptedBy"], "ceiling", "{state:#}");
    assert_eq!(state["runs"][1]["status"], "crashed", "{state:#}");
    let told: Value =
        serde_json::from_str(&fs::read_to_string(project.directory().join("told")).unwrap()).unwrap();
    assert_eq!(told["event"], "paused");
    let next = fs::read_to_string(project.directory().join("next")).unwrap();
    assert!(next.contains("--max-cost") && next.contains("--detach"), "{next}");
    let third = detached(&project, &["--max-cost", "5"]);
    until_ended(&third);
    let done = newest(&project);
    assert_eq!(codon(&done, "c2")["status"], "completed", "{done:#}");
    assert_eq!(project.left_behind(), []);
}

/// Ctrl+C while the run starts ends both processes, or comes too late; either way the directory can be used.
// covers: CLI-80
#[test]
fn ctrl_c_while_a_detached_run_starts_leaves_nothing_half_begun() {
    let project = project();
    write_codons(&project, &["wait for go"]);
    for _ in 0..5 {
        let command = project.start(["run", "--detach", "--json"]);
        let children = format!("/proc/{0}/task/{0}/children", command.pid());
        until("the process of the run", || {
            fs::read_to_string(&children).is_ok_and(|children| !children.is_empty())
        });
        command.signal(Signal::INT);
        let ended = command.finish_within(DEADLINE);
        if ended.code == Some(0) {
            project.run(["stop"]).expect_code(0);
            until_ended(&ended.json_document());
        } else {
            assert_eq!(ended.code, Some(130), "{ended}");
        }
        until("the end of all", || project.left_behind().is_empty());
    }
    project.write("go", "");
    let started = detached(&project, &[]);
    until_ended(&started);
    assert_eq!(newest(&project)["status"], "completed");
}

// covers: CLI-80
#[test]
fn events_of_a_detached_run_are_in_its_log_and_a_command_starts_and_stops_it() {
    let project = project();
    write_codons(&project, &["wait for go"]);
    let started = detached(&project, &["--no-autostart", "-e", "work"]);
    let work = fs::canonicalize(project.directory().join("work")).unwrap();
    assert_eq!(started["execution"], work.to_str().unwrap());
    assert_eq!(
        started["log"],
        work.join(".hankweave/logs/detached.log").to_str().unwrap()
    );
    project.run(["next", "work"]).expect_code(0);
    project.run(["stop", "work", "--reason", "enough"]).expect_code(0);
    until_ended(&started);
    let log = fs::read_to_string(work.join(".hankweave/logs/detached.log")).unwrap();
    let events: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let has = |kind: &str| events.iter().any(|event| event["type"] == kind);
    assert!(has("run.described") && has("run.ended"), "{log}");
    assert_eq!(project.state(&work)["runs"][0]["runId"], started["runId"]);
    assert_eq!(project.left_behind(), []);
}

// covers: CLI-80, TASK-123
#[test]
fn a_task_does_not_detach_its_run() {
    let project = project();
    write_codons(&project, &["one"]);
    let refused = project.run(["task", "create", "x", "--hank", ".", "--", "--detach"]);
    let said = &refused.expect_code(65).stderr;
    assert!(
        said.contains("a worker waits for its run, which --detach does not"),
        "{said}"
    );
    let created = project.run(["task", "create", "x", "--hank", ".", "--json"]);
    let task = created.expect_code(0).json_document();
    project.run(["worker", "--once"]).expect_code(0);
    let folder = project
        .home()
        .join(".local/share/hankweave/tasks")
        .join(task["id"].as_str().unwrap());
    let workspace = folder.join("workspace");
    assert!(workspace.is_dir(), "{}", workspace.display());
    let hank = project.directory();
    let arguments = [
        "run",
        hank.to_str().unwrap(),
        "-e",
        workspace.to_str().unwrap(),
        "--detach",
    ];
    let refused = project.run(arguments);
    assert!(
        refused
            .expect_code(2)
            .stderr
            .contains("a task is run by its worker"),
        "{refused}"
    );
}
