//! Workers whose tasks a real Restate server keeps.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hankweave_testing::restate::{Balancer, Server, free_addresses};
use hankweave_testing::{Running, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::project;

const PATIENCE: Duration = Duration::from_secs(60);

/// Says in `began` which codon it works on, and waits until that may end.
const AGENT: &str = r#"
prompt=$(cat)
codon=${prompt##* }
session="session-$$"
printf '{"type":"system","subtype":"init","session_id":"%s","model":"shell","cwd":"/","tools":[]}\n' "$session"
printf '%s\n' "$codon" >> GATES/began
while [ ! -e GATES/may-end-$codon ]; do sleep 0.02; done
printf '%s\n' "$prompt" >> done.txt
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":"done","num_turns":1,' "$session"
printf '"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5},"model_usage_since_last_result":'
printf '{"shell":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.25}}}\n'
"#;

/// A server, a hank of the codons `draft` and `review`, and an address for two workers.
struct Stage {
    project: TestProject,
    server: Server,
    workers: [SocketAddr; 2],
    balancer: Balancer,
}

impl Stage {
    /// `None`, once the reason is printed, where there is no server.
    fn set() -> Option<Self> {
        Self::with_review(&json!({}))
    }

    /// The codon `review` has these keys besides.
    fn with_review(more: &Value) -> Option<Self> {
        let server = match Server::start() {
            Ok(server) => server,
            Err(skip) => {
                println!("{skip}");
                return None;
            }
        };
        let project = project();
        let gates = project.directory().display().to_string();
        let agent = project.write("agent.sh", AGENT.replace("GATES", &gates));
        let agent = json!({"command": ["sh", agent], "stream": "claude"});
        let codon = |id: &str| {
            json!({
                "id": id, "name": id, "model": "shell", "agent": agent, "continuationMode": "fresh",
                "promptText": format!("prompt of {id}"),
            })
        };
        let mut review = codon("review");
        review.as_object_mut()?.extend(more.as_object()?.clone());
        project.write_hank(&json!({"hank": [codon("draft"), review]}));
        let workers = free_addresses().unwrap();
        Some(Self {
            project,
            server,
            workers,
            balancer: Balancer::before(&workers).unwrap(),
        })
    }

    /// Starts one of the two workers, which share the folder of the tasks, and waits until Restate knows it.
    fn worker(&self, number: usize, name: &str) -> Running {
        let listen = self.workers[number].to_string();
        let (admin, shared) = (self.server.admin_url(), self.balancer.url());
        let worker = self.project.start([
            "worker",
            "--restate",
            &admin,
            "--listen",
            &listen,
            "--advertise",
            &shared,
            "--owner",
            name,
        ]);
        worker.wait_for_word(|word| word.contains("serves Restate"));
        worker
    }

    fn call(&self, handler: &str, body: &Value) -> (u16, Value) {
        let body = match body {
            Value::Null if handler != "run" => String::new(),
            body => body.to_string(),
        };
        self.server
            .call(&format!("/HankweaveTask/report-7/{handler}"), &body)
    }

    fn begin(&self) {
        let hank = self.project.directory();
        let (status, answer) = self.call("run/send", &json!({"hank": hank, "name": "The report"}));
        assert_eq!((status, &answer["status"]), (202, &json!("Accepted")));
    }

    /// Waits until an agent has begun for the `times`th time to work on a codon.
    fn began(&self, codon: &str, times: usize) {
        let file = self.project.directory().join("began");
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            let began = std::fs::read_to_string(&file).unwrap_or_default();
            if began.lines().filter(|line| *line == codon).count() == times {
                return;
            }
            assert!(
                std::time::Instant::now() < until,
                "{codon} has not begun: {began:?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn may_end(&self, codon: &str) {
        self.project.write(&format!("may-end-{codon}"), "");
    }

    fn folder(&self) -> PathBuf {
        self.project.home().join(".local/share/hankweave/tasks/report-7")
    }

    /// Waits until no worker works on the task any more, and returns it.
    fn ended(&self) -> Value {
        let (status, task) = self.call("attach", &Value::Null);
        assert_eq!(status, 200, "{task}");
        task
    }

    /// The task is completed, each codon is recorded once, and each did its work once to its end.
    fn is_whole(&self) -> Value {
        let task = self.ended();
        assert_eq!(task["task"]["status"], "completed", "{task:#}");
        assert_eq!(codons(&task), ["draft", "review"]);
        let done = std::fs::read_to_string(self.folder().join("workspace/done.txt")).unwrap();
        assert_eq!(done, "prompt of draft\nprompt of review\n");
        let lines = messages(&task);
        assert_eq!(
            lines
                .iter()
                .filter(|line| **line == "Task completed successfully")
                .count(),
            1
        );
        // The log in the folder has each line that Restate has, once.
        let log = std::fs::read_to_string(self.folder().join("logs.jsonl")).unwrap();
        let entries = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let numbers: Vec<u64> = entries.filter_map(|entry| entry["seq"].as_u64()).collect();
        assert_eq!(numbers, (1..=lines.len() as u64).collect::<Vec<_>>());
        task
    }
}

pub(crate) fn codons(task: &Value) -> Vec<&str> {
    let codons = task["codons"].as_array().unwrap().iter();
    codons.map(|codon| codon["codonId"].as_str().unwrap()).collect()
}

fn messages(task: &Value) -> Vec<&str> {
    let log = task["log"].as_array().unwrap().iter();
    log.map(|entry| entry["message"].as_str().unwrap()).collect()
}

pub(crate) fn stop(worker: Running) {
    worker.signal(Signal::TERM);
    worker.finish_within(PATIENCE).expect_code(143);
}

// covers: TASK-87, CLI-60
#[test]
fn each_codon_is_recorded_once_whichever_worker_is_killed_or_stopped() {
    let Some(stage) = Stage::set() else { return };
    let (killed, stopped) = (stage.worker(0, "killed"), stage.worker(1, "stopped"));
    stage.begin();
    stage.began("draft", 1);
    killed.kill();
    stage.began("draft", 2);
    stage.may_end("draft");
    stage.began("review", 1);
    stop(stopped);
    let last = stage.worker(0, "last");
    stage.began("review", 2);
    stage.may_end("review");
    let task = stage.is_whole();
    let expected = [
        "Task created",
        "Task started by agent killed",
        "Task failed",
        "Task resumed",
        "Task started by agent stopped",
        "Task failed",
        "Task resumed",
        "Task started by agent last",
        "Task completed successfully",
    ];
    assert_eq!(messages(&task), expected);
    stop(last);
    assert_eq!(stage.project.left_behind(), []);
}

// covers: TASK-87, TASK-89
#[test]
fn a_server_that_is_killed_and_comes_back_loses_nothing() {
    let Some(mut stage) = Stage::set() else { return };
    let worker = stage.worker(0, "w1");
    let service = stage.server.ask_admin("/services/HankweaveTask");
    assert_eq!(
        (&service["inactivity_timeout"], &service["abort_timeout"]),
        (&json!("365d"), &json!("365d"))
    );
    stage.begin();
    stage.began("draft", 1);
    stage.may_end("draft");
    stage.began("review", 1);
    stage.server.kill();
    stage.server.restart().unwrap();
    stage.began("review", 2);
    stage.may_end("review");
    stage.is_whole();
    stop(worker);
    assert_eq!(stage.project.left_behind(), []);
}

// covers: TASK-88
#[test]
fn a_task_is_called_off_in_the_middle_and_goes_on_when_it_is_run_again() {
    let Some(stage) = Stage::set() else { return };
    let worker = stage.worker(0, "w1");
    assert_eq!(stage.call("cancel", &Value::Null).0, 404);
    let (status, refused) = stage.call("run", &json!({"hank": "relative"}));
    assert_eq!(status, 400, "{refused}");
    stage.begin();
    stage.began("draft", 1);
    stage.may_end("draft");
    stage.began("review", 1);
    let (status, running) = stage.call("cancel", &Value::Null);
    assert_eq!((status, &running["task"]["status"]), (200, &json!("running")));
    let task = stage.ended();
    assert_eq!(
        (&task["task"]["status"], codons(&task)),
        (&json!("cancelled"), vec!["draft"])
    );
    let (status, refused) = stage.call("cancel", &Value::Null);
    assert!(
        status == 409
            && refused["message"]
                .as_str()
                .unwrap()
                .contains("INVALID_TRANSITION"),
        "{refused}"
    );
    stage.may_end("review");
    let (status, row) = stage.call("run", &Value::Null);
    assert_eq!((status, &row["attempt"]), (200, &json!(2)));
    stage.is_whole();
    // A task that has completed is not begun again.
    assert_eq!(stage.call("run", &Value::Null), (200, row));
    stop(worker);
    assert_eq!(stage.project.left_behind(), []);
}

// covers: TASK-88
#[test]
fn an_invocation_that_is_cancelled_from_outside_stops_its_run_and_the_task_can_go_on() {
    let Some(stage) = Stage::set() else { return };
    let worker = stage.worker(0, "w1");
    stage.begin();
    stage.began("draft", 1);
    let (_, task) = stage.call("show", &Value::Null);
    let invocation = task["invocation"].as_str().unwrap();
    stage.server.cancel(invocation);
    let stopped = stage.ended();
    assert_eq!(
        stopped["task"]["status"], "running",
        "nothing is recorded of that: {stopped:#}"
    );
    stage.may_end("draft");
    stage.may_end("review");
    assert_eq!(stage.call("run", &Value::Null).0, 200);
    stage.is_whole();
    stop(worker);
    assert_eq!(stage.project.left_behind(), []);
}

// covers: TASK-88, TASK-123
#[test]
fn a_task_that_waits_is_answered_and_continues_where_it_was() {
    let Some(stage) = Stage::with_review(&json!({"approval": "Publish it?"})) else {
        return;
    };
    let worker = stage.worker(0, "w1");
    let ann = |granted: bool| json!({"granted": granted, "by": "ann", "reason": "checked"});
    assert_eq!(stage.call("answer", &ann(true)).0, 404);
    stage.begin();
    stage.began("draft", 1);
    let (status, refused) = stage.call("show", &Value::Null);
    assert_eq!((status, &refused["task"]["status"]), (200, &json!("running")));
    stage.may_end("draft");
    stage.may_end("review");
    let waiting = stage.ended();
    assert_eq!(
        (&waiting["task"]["status"], &waiting["task"]["question"]),
        (&json!("waiting"), &json!("Publish it?"))
    );
    // Without an answer it is not begun again, and the refusal says how it is answered.
    let (status, refused) = stage.call("run", &Value::Null);
    let message = refused["message"].as_str().unwrap();
    assert!(
        status == 409 && message.contains("review: Publish it?") && message.contains("`answer`"),
        "{refused}"
    );
    let (status, refused) = stage.call("cancel", &Value::Null);
    assert!(
        status == 409 && refused["message"].as_str().unwrap().contains("`answer`"),
        "{refused}"
    );
    let (status, denied) = stage.call("answer", &ann(false));
    assert_eq!((status, &denied["task"]["status"]), (200, &json!("failed")));
    assert_eq!(denied["task"]["error"], "review: denied by ann: checked");
    let (status, refused) = stage.call("answer", &ann(true));
    assert!(
        status == 409
            && refused["message"]
                .as_str()
                .unwrap()
                .contains("INVALID_TRANSITION")
    );
    // Run again, it asks again; then the answer continues it after the codon that has completed.
    assert_eq!(stage.call("run", &Value::Null).0, 409);
    let (status, approved) = stage.call("answer", &ann(true));
    assert_eq!((status, &approved["task"]["status"]), (200, &json!("pending")));
    let (status, row) = stage.call("run", &Value::Null);
    assert_eq!(
        (status, &row["metadata"]["approval"]["by"]),
        (200, &json!("ann")),
        "{row}"
    );
    stage.is_whole();
    stop(worker);
    assert_eq!(stage.project.left_behind(), []);
}

// covers: CLI-60
#[test]
fn a_server_that_does_not_answer_is_an_error_with_a_way_on() {
    let project = project();
    let [nowhere] = free_addresses().unwrap();
    let admin = format!("http://{nowhere}");
    let refused = project.run(["worker", "--restate", &admin, "--listen", "127.0.0.1:0"]);
    refused.expect_code(74);
    assert!(refused.stderr.contains("--restate http://"), "{}", refused.stderr);
    let both = project.run(["worker", "--restate", &admin, "--registry", "sqlite:x"]);
    both.expect_code(2);
}
