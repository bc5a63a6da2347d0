//! Workers on several machines whose tasks a real Restate server keeps: homes and folders of their own, a git remote between them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use hankweave_testing::Running;
use hankweave_testing::restate::{Balancer, Server, free_addresses};
use serde_json::{Value, json};

use crate::machines_workers::{Place, completed, done, until};
use crate::restate::{codons, stop};

struct Stage {
    place: Place,
    server: Server,
    workers: [SocketAddr; 2],
    balancer: Balancer,
}

impl Stage {
    /// `None`, once the reason is printed, where there is no server.
    fn set() -> Option<Self> {
        let server = Server::start().inspect_err(|skip| println!("{skip}")).ok()?;
        let place = Place::new();
        place.write_hank();
        let workers = free_addresses().unwrap();
        Some(Self {
            place,
            server,
            workers,
            balancer: Balancer::before(&workers).unwrap(),
        })
    }

    /// Starts the worker of a machine, waits until Restate knows it, and returns it with the address of its figures.
    fn worker(&self, machine: usize, name: &str) -> (Running, String) {
        let listen = self.workers[machine].to_string();
        let (admin, shared) = (self.server.admin_url(), self.balancer.url());
        let worker = self.place.machines[machine].start([
            "worker",
            "--restate",
            &*admin,
            "--listen",
            &*listen,
            "--advertise",
            &*shared,
            "--owner",
            name,
            "--remote",
            &*self.place.url,
            "--metrics",
            "127.0.0.1:0",
        ]);
        let told = worker.wait_for_word(|word| word.contains("/metrics"));
        worker.wait_for_word(|word| word.contains("serves Restate"));
        let address = told.split_once("http://").unwrap().1;
        (worker, address.split_once('/').unwrap().0.to_owned())
    }

    fn call(&self, handler: &str, body: &str) -> (u16, Value) {
        self.server
            .call(&format!("/HankweaveTask/report-7/{handler}"), body)
    }

    fn begin(&self) {
        let run = json!({"hank": self.place.hank()});
        assert_eq!(self.call("run/send", &run.to_string()).0, 202);
    }

    /// None as long as Restate does not know the task yet.
    fn recorded(&self) -> Vec<String> {
        let (status, task) = self.call("show", "");
        match status {
            404 => Vec::new(),
            _ => codons(&task).into_iter().map(str::to_owned).collect(),
        }
    }

    /// The task is completed, each codon is recorded once, and the remote has all of it.
    fn is_whole(&self, machine: usize) -> Value {
        let (status, task) = self.call("attach", "");
        assert_eq!(
            (status, &task["task"]["status"]),
            (200, &json!("completed")),
            "{task:#}"
        );
        assert_eq!(codons(&task), ["one", "two", "three"]);
        assert_eq!(done(&self.place.workspace(machine)), "one\ntwo\nthree\n");
        let state = self.place.state(machine);
        assert_eq!(completed(&state), ["one", "two", "three"], "{state:#}");
        let [record] = &self.place.references("/record")[..] else {
            panic!("one record")
        };
        let manifest = self.place.manifest(record);
        let checkpoint = manifest["checkpoint"].as_str().unwrap();
        let files = self.place.git(&["show", &format!("{checkpoint}:done.txt")]);
        assert_eq!(files, "one\ntwo\nthree\n");
        assert_eq!(manifest["token"], task["task"]["fencingToken"], "{task:#}");
        task
    }
}

fn figures(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

// covers: TASK-75, TASK-61, TASK-59
#[test]
fn whoever_follows_a_worker_on_another_machine_goes_on_with_what_the_remote_has() {
    let Some(stage) = Stage::set() else { return };
    let (first, _) = stage.worker(0, "laptop");
    stage.place.go(&["one"]);
    stage.begin();
    until(|| stage.recorded() == ["one"]);
    stage.place.until_pushed("one");
    let (second, address) = stage.worker(1, "server");
    first.kill();
    stage.place.go(&["two", "three"]);
    let task = stage.is_whole(1);
    let state = stage.place.state(1);
    let runs = state["runs"].as_array().unwrap();
    let session = &runs.last().unwrap()["codons"][0]["claudeSessionId"];
    let two = &runs[0]["codons"][0];
    assert!(
        session.is_string() && two["previousSessionId"] == *session,
        "{state:#}"
    );
    let log =
        std::fs::read_to_string(stage.place.machines[1].home().join("tasks/report-7/logs.jsonl")).unwrap();
    assert!(log.contains("Run fetched from its remote"), "{log}");
    let numbers = log.lines().filter_map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["seq"].as_u64()
    });
    let lines = task["log"].as_array().unwrap().len() as u64;
    assert!(numbers.eq(1..=lines), "{log}");
    let page = figures(&address);
    for line in [
        "\nhankweave_tasks_claimed_total 1\n",
        "\nhankweave_tasks_running 0\n",
        "\nhankweave_task_transitions_total{to=\"completed\"} 1\n",
    ] {
        assert!(page.contains(line), "{page}");
    }
    stop(second);
    for machine in &stage.place.machines {
        assert_eq!(machine.left_behind(), []);
    }
}

/// What only the machine has that is lost is done again, and counts once.
// covers: TASK-75
#[test]
fn a_codon_counts_when_the_remote_has_it_and_not_before() {
    let Some(stage) = Stage::set() else { return };
    let (first, _) = stage.worker(0, "laptop");
    stage.place.go(&["one"]);
    stage.begin();
    until(|| stage.recorded() == ["one"]);
    let (remote, away) = (stage.place.remote(), stage.place.hank().join("away"));
    std::fs::rename(&remote, &away).unwrap();
    stage.place.go(&["two"]);
    until(|| completed(&stage.place.state(0)).len() == 2);
    let log = stage.place.machines[0].home().join("tasks/report-7/logs.jsonl");
    until(|| std::fs::read_to_string(&log).unwrap().contains("Run not pushed"));
    assert_eq!(stage.recorded(), ["one"]);
    first.kill();
    std::fs::rename(&away, &remote).unwrap();
    let (second, _) = stage.worker(1, "server");
    until(|| stage.recorded() == ["one", "two"]);
    second.kill();
    // The first machine comes back with work that only it has: that does not count, and is stored next to the record.
    let (last, _) = stage.worker(0, "laptop");
    stage.place.go(&["three"]);
    stage.is_whole(0);
    assert_eq!(stage.place.references("/kept/").len(), 1);
    stop(last);
}

impl Stage {
    /// Has a worker do the first codon, and kills the worker.
    fn first_is_done(&self) {
        let (first, _) = self.worker(0, "laptop");
        self.place.go(&["one"]);
        self.begin();
        until(|| self.recorded() == ["one"]);
        first.kill();
    }
}

/// A row of failed attempts is reported once, however long it is; the engine waits in between.
// covers: TASK-119
#[test]
fn a_remote_that_is_away_costs_no_task() {
    let Some(stage) = Stage::set() else { return };
    stage.first_is_done();
    let (remote, away) = (stage.place.remote(), stage.place.hank().join("away"));
    std::fs::rename(&remote, &away).unwrap();
    let (second, _) = stage.worker(1, "server");
    let shown = || stage.call("show", "").1;
    let not_fetched = |shown: &Value| {
        let error = shown["task"]["metadata"]["error"].as_str().unwrap_or_default();
        error.starts_with("NOT_FETCHED: the run cannot be fetched")
    };
    until(|| not_fetched(&shown()));
    let waits = shown();
    assert_eq!(waits["task"]["status"], "pending", "{waits:#}");
    let said = json!(waits["log"]).to_string();
    assert_eq!(said.matches("NOT_FETCHED").count(), 1, "{said}");
    for _ in 0..3 {
        second.wait_for_word(|word| word.contains("the remote does not answer"));
    }
    assert_eq!(shown(), waits, "nothing more is recorded");
    std::fs::rename(&away, &remote).unwrap();
    stage.place.go(&["two", "three"]);
    stage.is_whole(1);
    stop(second);
}

// covers: TASK-119
#[test]
fn a_task_that_waits_for_its_remote_is_called_off() {
    let Some(stage) = Stage::set() else { return };
    stage.first_is_done();
    std::fs::rename(stage.place.remote(), stage.place.hank().join("away")).unwrap();
    let (second, _) = stage.worker(1, "server");
    second.wait_for_word(|word| word.contains("the remote does not answer"));
    assert_eq!(stage.call("cancel", "").0, 200);
    let (status, task) = stage.call("attach", "");
    assert_eq!(
        (status, &task["task"]["status"]),
        (200, &json!("cancelled")),
        "{task:#}"
    );
    stop(second);
}

// covers: TASK-119
#[test]
fn a_record_that_is_damaged_fails_its_task() {
    let Some(stage) = Stage::set() else { return };
    stage.first_is_done();
    let [record] = &stage.place.references("/record")[..] else {
        panic!("one record")
    };
    let empty = stage.place.git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
    let commit = ["commit-tree", empty.trim(), "-m", "nothing"];
    let commit = stage.place.git(&[&identity[..], &commit].concat());
    stage.place.git(&["update-ref", record, commit.trim()]);
    let (second, _) = stage.worker(1, "server");
    let (_, task) = stage.call("attach", "");
    assert_eq!(task["task"]["status"], "failed", "{task:#}");
    let error = task["task"]["error"].as_str().unwrap();
    assert!(error.starts_with("the run cannot be fetched"), "{error}");
    stop(second);
}
