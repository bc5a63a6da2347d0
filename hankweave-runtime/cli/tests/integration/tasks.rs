//! Tasks and workers, as people and scripts use them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;

use hankweave_testing::postgres::Database;
use hankweave_testing::{Finished, Running, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::project;

/// Writes a hank whose agent works for `seconds`, notes its prompt in its workspace, and succeeds.
fn write_hank(project: &TestProject, seconds: &str) {
    let script = AGENT.replace("MOMENT", seconds);
    let agent = json!({"command": ["sh", project.write("agent.sh", script)], "stream": "claude"});
    let codon = |id: &str| {
        json!({
            "id": id, "name": id, "model": "shell", "agent": agent, "continuationMode": "fresh",
            "promptText": format!("prompt of {id}"),
        })
    };
    project.write_hank(&json!({"hank": [codon("draft"), codon("review")]}));
}

const AGENT: &str = r#"
prompt=$(cat)
session="session-$$"
printf '{"type":"system","subtype":"init","session_id":"%s","model":"shell","cwd":"/","tools":[]}\n' "$session"
sleep MOMENT
printf '%s\n' "$prompt" >> done.txt
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":"done","num_turns":1,' "$session"
printf '"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5},"model_usage_since_last_result":'
printf '{"shell":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.25}}}\n'
"#;

fn create(project: &TestProject, id: &str) {
    let created = project.run([
        "task",
        "create",
        "Write the report",
        "--hank",
        ".",
        "--id",
        id,
        "--json",
    ]);
    assert_eq!(created.expect_code(0).json_document()["status"], "pending");
}

fn shown(project: &TestProject, id: &str) -> Value {
    project
        .run(["task", "show", id, "--json"])
        .expect_code(0)
        .json_document()
}

fn messages(project: &TestProject, id: &str) -> Vec<String> {
    let history = project
        .run(["task", "history", id, "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(history["broken"], 0);
    let entries = history["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["message"].as_str().unwrap().to_owned())
        .collect()
}

// covers: CLI-40, TASK-54
#[test]
fn a_task_goes_from_its_creation_to_its_end_with_nothing_to_install() {
    let project = project();
    write_hank(&project, "0");
    create(&project, "report-7");
    let again = project.run(["task", "create", "x", "--hank", ".", "--id", "report-7"]);
    again.expect_code(65);
    assert!(again.stderr.contains("TASK_CREATE_FAILED"), "{}", again.stderr);
    let listed = project.run(["task", "list"]);
    assert!(listed.expect_code(0).stdout.contains("report-7"));
    let worked = project.run(["worker", "--once", "--owner", "w1"]);
    worked.expect_code(0);
    assert!(
        worked.stderr.contains("1 completed, 0 failed"),
        "{}",
        worked.stderr
    );
    let task = shown(&project, "report-7");
    assert_eq!(
        (&task["task"]["status"], &task["task"]["agentId"]),
        (&json!("completed"), &json!("w1"))
    );
    assert_eq!(
        (&task["data"]["cost"], &task["checkpoints"]),
        (&json!(0.5), &json!(3))
    );
    assert_eq!(task["task"]["result"]["data"]["exitCode"], 0);
    let root = project.home().join(".local/share/hankweave/tasks/report-7");
    assert_eq!(task["folder"], json!(root));
    let done = std::fs::read_to_string(root.join("workspace/done.txt")).unwrap();
    assert_eq!(done, "prompt of draft\nprompt of review\n");
    let expected = [
        "Task created",
        "Task started by agent w1",
        "Codon draft started",
        "Codon draft completed",
        "Codon review started",
        "Codon review completed",
        "Task completed successfully",
    ];
    assert_eq!(messages(&project, "report-7"), expected);
    let found = project
        .run(["task", "find", "WRITE", "-s", "completed", "--json"])
        .json_document();
    assert_eq!(found["tasks"].as_array().unwrap().len(), 1);
    let stats = project.run(["task", "stats", "--json"]).json_document();
    assert_eq!(
        (&stats["total"], &stats["byStatus"]["completed"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        project.run(["task", "health", "--json"]).json_document()["orphans"],
        0
    );
    let restored = project
        .run(["task", "restore", "report-7", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(restored["state"]["status"], "completed");
    assert_eq!(restored["state"]["data"]["codons"].as_array().unwrap().len(), 2);
    let restored = project.run(["task", "restore", "report-7"]);
    let stays = "the files in its workspace stay; `hankweave rollback --codon ID -e ";
    assert!(
        restored.expect_code(0).stderr.contains(stays),
        "{}",
        restored.stderr
    );
    project.run(["task", "delete", "report-7"]).expect_code(2);
    project
        .run(["task", "delete", "report-7", "--force"])
        .expect_code(0);
    assert!(!root.exists());
    let gone = project.run(["task", "show", "report-7"]);
    gone.expect_code(65);
    assert!(
        gone.stderr.contains("TASK_NOT_FOUND") && gone.stderr.contains("hankweave task list"),
        "{}",
        gone.stderr
    );
}

// covers: CLI-40, TASK-57
#[test]
fn a_task_is_called_off_resumed_and_goes_on_where_it_was() {
    let project = project();
    write_hank(&project, "600");
    create(&project, "report-7");
    let mut worker = project.start(["worker", "--json", "--owner", "w1"]);
    worker.wait_for_line(|line| line.contains("\"status\":\"running\""));
    let busy = project.run(["task", "checkpoint", "report-7"]);
    busy.expect_code(75);
    assert!(
        busy.stderr.contains("RESOURCE_LOCKED") && busy.stderr.contains("hankweave lock list"),
        "{}",
        busy.stderr
    );
    while shown(&project, "report-7")["data"]["running"].is_null() {
        std::thread::yield_now();
    }
    let asked = project.run(["task", "cancel", "report-7"]);
    assert!(asked.expect_code(0).stdout.contains("(stopping)"));
    worker.wait_for_line(|line| line.contains("\"status\":\"cancelled\""));
    write_hank(&project, "0");
    let raised = ["task", "resume", "report-7", "--max-time", "900"];
    project.run(raised).expect_code(0);
    worker.wait_for_line(|line| line.contains("\"status\":\"completed\""));
    // How the codon ended that was cut off, and what the next attempt may use.
    let log = project.run(["task", "log", "report-7"]);
    for line in [" stopped\n", "Task started by agent w1 with --max-time 900\n"] {
        assert!(log.expect_code(0).stdout.contains(line), "{line}\n{log}");
    }
    worker.signal(Signal::TERM);
    worker
        .finish_within(std::time::Duration::from_secs(60))
        .expect_code(143);
    assert_eq!(shown(&project, "report-7")["task"]["attempt"], 2);
    let refused = project.run(["task", "cancel", "report-7"]);
    refused.expect_code(65);
    assert!(
        refused.stderr.contains("INVALID_TRANSITION"),
        "{}",
        refused.stderr
    );
    assert_eq!(project.left_behind(), []);
}

// covers: CLI-40
#[test]
fn what_cannot_be_a_task_or_a_registry_is_refused_with_a_code() {
    let project = project();
    write_hank(&project, "0");
    for (arguments, code, told) in [
        (vec!["task", "show", "../x"], 2, "INVALID_TASK_ID"),
        (vec!["task", "show", "none"], 65, "TASK_NOT_FOUND"),
        (vec!["task", "create", "x", "--hank", "nowhere"], 65, "nowhere"),
        (
            vec!["task", "create", "x", "--hank", ".", "-m", "[]"],
            65,
            "no JSON object",
        ),
        (
            vec!["task", "list", "--registry", "mysql://x"],
            74,
            "REGISTRY_NOT_INITIALIZED",
        ),
        (
            vec!["task", "list", "--registry", "sqlite:agent.sh"],
            74,
            "REGISTRY_NOT_INITIALIZED",
        ),
        (vec!["worker", "--jobs", "0"], 2, "0 is not in 1..=256"),
    ] {
        let refused = project.run(&arguments);
        refused.expect_code(code);
        assert!(refused.stderr.contains(told), "{arguments:?}: {}", refused.stderr);
    }
}

// covers: CLI-40, TASK-1
#[test]
fn people_take_locks_and_give_them_back() {
    let project = project();
    let acquire = |owner: &str| {
        project.run([
            "lock",
            "acquire",
            "deploy:web",
            "--owner",
            owner,
            "--lease",
            "10m",
            "--json",
        ])
    };
    let held = acquire("ann").expect_code(0).json_document();
    assert_eq!(held["held"]["token"], 1);
    let refused = acquire("ben");
    refused.expect_code(75);
    assert!(
        refused.stderr.contains("held by ann (RESOURCE_LOCKED)"),
        "{}",
        refused.stderr
    );
    assert!(project.run(["lock", "list"]).stdout.contains("deploy:web"));
    project
        .run(["lock", "renew", "deploy:web", "--token", "1"])
        .expect_code(0);
    project
        .run(["lock", "release", "deploy:web", "--owner", "ben"])
        .expect_code(1);
    let released = project
        .run(["lock", "release", "deploy:web", "--owner", "ann", "--json"])
        .json_document();
    assert_eq!(released, json!({"released": true, "count": 0}));
    let next = acquire("ben").expect_code(0).json_document();
    assert!(next["held"]["token"].as_u64() > Some(1), "{next}");
    assert_eq!(
        project.run(["lock", "free", "ben", "--json"]).json_document()["removed"],
        1
    );
}

// covers: CLI-40, TASK-3
#[test]
fn the_numbers_of_locks_are_said_in_words() {
    let project = project();
    let said = |arguments: &[&str]| project.run(arguments).expect_code(0).stdout.clone();
    let acquire = ["lock", "acquire", "deploy", "--owner", "ann", "--lease", "10m"];
    let release = ["lock", "release", "deploy", "--owner", "ann"];
    for _ in 0..3 {
        said(&acquire);
    }
    assert_eq!(said(&release), "released once; still held 2 times\n");
    assert_eq!(said(&release), "released once; still held once\n");
    assert_eq!(said(&release), "released\n");
    said(&acquire);
    assert_eq!(said(&["lock", "free", "ann"]), "1 lock removed\n");
    assert_eq!(said(&["lock", "cleanup"]), "0 locks removed\n");
}

fn counts(project: &TestProject) -> Value {
    project
        .run(["task", "stats", "--json"])
        .expect_code(0)
        .json_document()["byStatus"]
        .clone()
}

/// How often each task was completed, by what a worker has printed.
fn completed(worker: &Finished, counted: &mut BTreeMap<String, usize>) {
    let rows = worker
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for row in rows.filter(|row| row["status"] == "completed") {
        *counted.entry(row["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
}

fn begin(project: &TestProject, name: &str) -> Running {
    let mut worker = project.start([
        "worker",
        "--json",
        "--owner",
        name,
        "--lease",
        "5s",
        "--orphan-after",
        "1s",
    ]);
    worker.wait_for_line(|line| line.contains("\"status\":\"running\""));
    worker
}

// covers: TASK-52, TASK-56, TASK-58
#[test]
fn no_task_is_lost_or_completed_twice_when_one_worker_is_killed_and_another_sleeps() {
    all_is_done_once(&project());
}

// covers: TASK-52, TASK-56, TASK-58
#[test]
fn the_same_holds_over_postgresql() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let mut project = project();
    project.set("HANKWEAVE_REGISTRY", database.url());
    all_is_done_once(&project);
}

fn all_is_done_once(project: &TestProject) {
    const TASKS: usize = 5;
    write_hank(project, "0.5");
    for number in 0..TASKS {
        create(project, &format!("report-{number}"));
    }
    let (killed, sleeper) = (begin(project, "killed"), begin(project, "sleeper"));
    sleeper.signal(Signal::STOP);
    let mut counted = BTreeMap::new();
    completed(&killed.kill(), &mut counted);
    for round in 0.. {
        let worker = project.run([
            "worker",
            "--json",
            "--once",
            "--owner",
            "w3",
            "--lease",
            "5s",
            "--orphan-after",
            "1s",
        ]);
        completed(worker.expect_code(0), &mut counted);
        if counts(project)["completed"] == json!(TASKS) {
            break;
        }
        assert!(round < 500, "{}", counts(project));
    }
    sleeper.signal(Signal::CONT);
    sleeper.signal(Signal::TERM);
    let sleeper = sleeper.finish_within(std::time::Duration::from_secs(60));
    completed(sleeper.expect_code(143), &mut counted);
    let expected: BTreeMap<_, _> = (0..TASKS).map(|number| (format!("report-{number}"), 1)).collect();
    assert_eq!(counted, expected);
    for id in expected.keys() {
        let task = shown(project, id);
        assert_eq!(task["task"]["status"], "completed");
        let ends = messages(project, id)
            .into_iter()
            .filter(|message| message == "Task completed successfully");
        assert_eq!(ends.count(), 1, "{id}");
    }
    assert_eq!(project.left_behind(), []);
}

/// Fails for $0.90 in the first attempt, and ends well for $0.45 in the next. While there is a file `hold` it spends $0.30 and works on.
const DEAR: &str = r#"
cat > /dev/null
say() {
  printf '{"type":"result","subtype":"success","is_error":%s,"session_id":"s-%s","result":"%s","num_turns":1,' "$1" "$$" "$3"
  printf '"total_cost_usd":%s,"usage":{"input_tokens":10,"output_tokens":5},"model_usage_since_last_result":' "$2"
  printf '{"shell":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":%s}}}\n' "$2"
}
printf '{"type":"system","subtype":"init","session_id":"s-%s","model":"claude-sonnet-4-5","cwd":"/","tools":[]}\n' $$
if [ -e "$HOME/hold" ]; then
  printf '{"type":"assistant","session_id":"s-%s","parent_tool_use_id":null,"message":{"id":"m-%s","role":"assistant",' $$ $$
  printf '"model":"claude-sonnet-4-5","stop_reason":"end_turn","content":[{"type":"text","text":"dear"}],"usage":{"input_tokens":100000,"output_tokens":0}}}\n'
  exec sleep 600
fi
if [ -e "$HOME/tried" ]; then say false 0.45 done; else touch "$HOME/tried"; say true 0.90 "it does not work"; fi
"#;

fn write_dear_hank(project: &TestProject) {
    let agent = json!({"command": ["sh", project.write("dear.sh", DEAR)], "stream": "claude"});
    project.write_hank(
        &json!({"hank": [{"id": "draft", "name": "draft", "model": "claude-sonnet-4-5", "agent": agent,
        "continuationMode": "fresh", "promptText": "go"}]}),
    );
}

/// All attempts of the task cost `all`, and the last of them `last`, wherever that is shown.
#[track_caller]
fn costs(project: &TestProject, all: f64, last: f64) {
    let near = |value: &Value, expected: f64, place: &str| {
        let value = value
            .as_f64()
            .unwrap_or_else(|| panic!("no amount in {place}: {value}"));
        assert!(
            (value - expected).abs() < 1e-6,
            "{place}: {value} is not {expected}"
        );
    };
    let both = |value: &Value, place: &str| {
        near(&value["cost"], all, place);
        near(&value["lastAttemptCost"], last, place);
    };
    let json = |arguments: &[&str]| project.run(arguments).expect_code(0).json_document();
    let told = shown(project, "report-7");
    both(&told["task"], "task show");
    both(&told["data"], "state.json");
    if told["task"]["status"] == "completed" {
        both(&told["task"]["result"]["data"], "the result");
    }
    both(&json(&["task", "list", "--json"])["tasks"][0], "task list");
    let stats = json(&["task", "stats", "--json"]);
    near(&stats["cost"], all, "task stats");
    let status = told["task"]["status"].as_str().unwrap().to_owned();
    near(&stats["costByStatus"][&status], all, "task stats by status");
    let metrics = json(&["task", "metrics", "--json"]);
    near(&metrics["metrics"]["tasks_cost_usd"], all, "task metrics");
    near(
        &metrics["metrics"][format!("tasks_{status}_cost_usd")],
        all,
        "task metrics by status",
    );
    let folder = told["folder"].as_str().unwrap();
    let workspace = format!("{folder}/workspace");
    let run = json(&["state", "cost", "-e", &workspace, "--json"]);
    near(&run["total"]["spend"], all, "the record of the runs");
    let (sum, part) = (format!("${all:.4}"), format!("${last:.4}"));
    let of_people = project.run(["task", "show", "report-7"]).stdout;
    let expected = match all > last {
        true => format!("{sum}, of which the last attempt {part}\n"),
        false => format!("{sum}\n"),
    };
    assert!(of_people.contains(&expected), "{of_people}");
    for command in ["list", "stats"] {
        let of_people = project.run(["task", command]).stdout;
        assert!(of_people.contains(&sum), "{of_people}");
    }
}

fn a_resumed_task_costs_all_its_attempts(project: &TestProject) {
    write_dear_hank(project);
    create(project, "report-7");
    let listed = project.run(["task", "list"]).stdout;
    assert!(listed.contains("  -  "), "what has not run has no cost: {listed}");
    project.run(["worker", "--once"]).expect_code(0);
    costs(project, 0.90, 0.90);
    project.run(["task", "resume", "report-7"]).expect_code(0);
    costs(project, 0.90, 0.90);
    project.run(["worker", "--once"]).expect_code(0);
    costs(project, 1.35, 0.45);
}

// covers: TASK-121
#[test]
fn a_task_that_was_resumed_costs_all_its_attempts() {
    a_resumed_task_costs_all_its_attempts(&project());
}

// covers: TASK-121
#[test]
fn a_task_that_was_resumed_costs_all_its_attempts_over_postgresql() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let mut project = project();
    project.set("HANKWEAVE_REGISTRY", database.url());
    a_resumed_task_costs_all_its_attempts(&project);
}

/// A worker that is killed can note nothing; the record of its run knows what it spent.
// covers: TASK-121
#[test]
fn what_a_killed_worker_spent_counts_for_the_next_one() {
    let project = project();
    write_dear_hank(&project);
    std::fs::write(project.home().join("hold"), "").unwrap();
    std::fs::write(project.home().join("tried"), "").unwrap();
    create(&project, "report-7");
    let mut worker = project.start(["worker", "--json", "--lease", "1s", "--owner", "w1"]);
    worker.wait_for_line(|line| line.contains("\"status\":\"running\""));
    let workspace = project
        .home()
        .join(".local/share/hankweave/tasks/report-7/workspace");
    let journal = workspace.join(".hankweave/state.log");
    let log = workspace.with_file_name("logs.jsonl");
    let wait_for = |file: &Path, words: &str| {
        while !std::fs::read_to_string(file).is_ok_and(|text| text.contains(words)) {
            std::thread::yield_now();
        }
    };
    wait_for(&journal, "CostsIncremented");
    // A line is written when it is known, not when the worker ends.
    wait_for(&log, " started\"");
    worker.kill();
    let before = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(project.home().join("hold")).unwrap();
    while shown(&project, "report-7")["task"]["status"] != "completed" {
        let again = ["worker", "--once", "--orphan-after", "1s", "--lease", "5s"];
        project.run(again).expect_code(0);
    }
    let told = shown(&project, "report-7");
    let of = |name: &str| told["task"][name].as_f64().unwrap();
    assert!((of("cost") - 0.75).abs() < 1e-6, "{told:#}");
    assert!(of("lastAttemptCost") < 0.5, "{told:#}");
    let all = std::fs::read_to_string(&log).unwrap();
    assert!(all.starts_with(&before), "{before}\n{all}");
    assert_eq!(project.left_behind(), []);
}

// covers: TASK-59
#[test]
fn the_figures_of_a_worker_are_there_for_prometheus() {
    let project = project();
    let worker = project.start(["worker", "--metrics", "127.0.0.1:0"]);
    let told = worker.wait_for_word(|word| word.contains("/metrics"));
    let address = told
        .split_once("http://")
        .unwrap()
        .1
        .split_once('/')
        .unwrap()
        .0
        .to_owned();
    let ask = |path: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let page = ask("/metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("\nhankweave_tasks_running 0\n"), "{page}");
    assert!(page.contains("\nhankweave_task_cost_usd_total 0\n"), "{page}");
    write_hank(&project, "0");
    create(&project, "report-7");
    while !ask("/metrics").contains("\nhankweave_task_cost_usd_total 0.5\n") {
        std::thread::yield_now();
    }
    assert!(ask("/").starts_with("HTTP/1.1 404 "));
    worker.signal(Signal::INT);
    worker
        .finish_within(std::time::Duration::from_secs(60))
        .expect_code(130);
}
