//! Workers on several machines: each has files, home and folder for temporary files of its own; the registry and a git remote lie between them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_remote::{
    CloneRequest, PushOutcome, PushRequest, Pushed, RemoteError, RemoteExecution, clone, push,
};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::World;
use hankweave_testing::postgres::Database;
use hankweave_testing::sshd::Sshd;
use hankweave_testing::{Finished, Running, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::project;

pub(crate) const TASK: &str = "report-7";

/// A registry, a remote and a hank that all machines see, and two machines.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) machines: [TestProject; 2],
    /// URL of the remote, as workers get it.
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut machines = [project(), project()];
        let registry = format!("sqlite:{}", folder.path().join("registry.db").display());
        for machine in &mut machines {
            machine.set("HANKWEAVE_REGISTRY", &registry);
            let tasks = machine.home().join("tasks");
            machine.set("HANKWEAVE_TASKS", tasks);
        }
        let url = folder.path().join("runs.git").display().to_string();
        let place = Self {
            folder,
            machines,
            url,
        };
        place.make_remote();
        place
    }

    fn make_remote(&self) {
        let mut git = Command::new("git");
        let made = git.args(["init", "-q", "--bare"]).arg(self.remote()).status();
        assert!(made.unwrap().success());
    }

    pub(crate) fn remote(&self) -> PathBuf {
        self.folder.path().join("runs.git")
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        let ran = git
            .arg("--git-dir")
            .arg(self.remote())
            .args(arguments)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    /// Whether the history of a reference holds this commit.
    fn reaches(&self, reference: &str, commit: &str) -> bool {
        let history = self.git(&["rev-list", reference]);
        history.lines().any(|line| line == commit)
    }

    pub(crate) fn references(&self, end: &str) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname)", "refs/hankweave"]);
        let fitting = listed.lines().filter(|name| name.contains(end));
        fitting.map(str::to_owned).collect()
    }

    pub(crate) fn manifest(&self, reference: &str) -> Value {
        let text = self.git(&["cat-file", "blob", &format!("{reference}:manifest.json")]);
        serde_json::from_str(&text).unwrap()
    }

    /// Three codons in one session; each waits for its file `go`.
    pub(crate) fn write_hank(&self) {
        self.write_hank_of(&["one", "two", "three"]);
    }

    /// Writes a hank of these codons in one session; each waits for its file `go`.
    fn write_hank_of(&self, ids: &[&str]) {
        let codon = |id: &str, mode: &str| {
            let go = self.folder.path().join(format!("go-{id}"));
            let wait = format!(
                "while [ ! -e '{}' ]; do sleep 0.05; done; echo {id} >> done.txt",
                go.display()
            );
            let script = json!({"turns": [{"text": id, "tools": [{"bash": {"command": wait}}]}]});
            std::fs::write(self.folder.path().join(format!("{id}.json")), script.to_string()).unwrap();
            json!({"id": id, "name": id, "agent": {"script": format!("{id}.json")}, "continuationMode": mode,
                "promptText": id, "checkpointedFiles": ["*.txt"]})
        };
        let mode = |place: usize| if place == 0 { "fresh" } else { "continue-previous" };
        let codons = ids.iter().enumerate().map(|(place, id)| codon(id, mode(place)));
        let hank = json!({"hank": codons.collect::<Vec<_>>()});
        std::fs::write(self.hank().join("hank.json"), hank.to_string()).unwrap();
    }

    /// The folder of the hank.
    pub(crate) fn hank(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn create(&self) {
        self.write_hank();
        self.create_task();
    }

    fn create_task(&self) {
        let hank = self.folder.path().to_string_lossy().into_owned();
        let create = ["task", "create", "Report", "--hank", &*hank, "--id", TASK];
        self.machines[0].run(create).expect_code(0);
    }

    pub(crate) fn go(&self, codons: &[&str]) {
        for id in codons {
            std::fs::write(self.folder.path().join(format!("go-{id}")), "").unwrap();
        }
    }

    fn arguments(&self, name: &str) -> Vec<String> {
        let arguments = [
            "worker",
            "--json",
            "--owner",
            name,
            "--lease",
            "5s",
            "--orphan-after",
            "1s",
            "--remote",
        ];
        arguments
            .map(str::to_owned)
            .into_iter()
            .chain([self.url.clone()])
            .collect()
    }

    fn start(&self, machine: usize, name: &str) -> Running {
        let mut worker = self.machines[machine].start(self.arguments(name));
        worker.wait_for_line(|line| line.contains("\"status\":\"running\""));
        worker
    }

    /// Works on this machine until the task is completed.
    fn complete(&self, machine: usize, name: &str) {
        for round in 0.. {
            let mut arguments = self.arguments(name);
            arguments.push("--once".to_owned());
            self.machines[machine].run(&arguments).expect_code(0);
            if self.shown(machine)["task"]["status"] == "completed" {
                return;
            }
            assert!(round < 500, "{:#}", self.shown(machine));
        }
    }

    fn shown(&self, machine: usize) -> Value {
        let shown = self.machines[machine].run(["task", "show", TASK, "--json"]);
        shown.expect_code(0).json_document()
    }

    fn messages(&self, machine: usize) -> String {
        let history = self.machines[machine].run(["task", "history", TASK]);
        history.expect_code(0).stdout.clone()
    }

    pub(crate) fn workspace(&self, machine: usize) -> PathBuf {
        self.machines[machine]
            .home()
            .join("tasks")
            .join(TASK)
            .join("workspace")
    }

    pub(crate) fn state(&self, machine: usize) -> Value {
        self.machines[machine].state(&self.workspace(machine))
    }

    /// Waits until a codon of the task has completed on this machine and the remote knows that.
    pub(crate) fn until_pushed(&self, codon: &str) {
        let codon = format!("\"codonId\":\"{codon}\"");
        self.until_in_log(|line| line.contains(&codon) && line.contains("\"to\":\"completed\""));
    }

    /// Waits for a line of the log of states on the remote.
    fn until_in_log(&self, is_it: impl Fn(&str) -> bool) {
        until(|| {
            self.references("/record").first().is_some_and(|record| {
                let state = self.git(&["cat-file", "blob", &format!("{record}:state/state.log/000000")]);
                state.lines().any(&is_it)
            })
        });
    }

    /// Asserts that the first machine, which lost the task and cannot reach the second one, names where the task continued.
    fn is_told_where_it_left(&self) {
        let tasks = [0, 1].map(|machine: usize| self.machines[machine].home().join("tasks"));
        let away = tasks[1].with_extension("away");
        std::fs::rename(&tasks[1], &away).unwrap();
        let workspace = self.workspace(0);
        let there = format!("in {} on ", tasks[1].display());
        let told = |arguments: &[&str], words: &[&str]| {
            let told = self.machines[0].run(arguments).expect_code(0).stdout.clone();
            for words in words {
                assert!(told.contains(words), "{words}: {told}");
            }
            assert!(told.contains(&there) && !told.contains("by hand"), "{told}");
        };
        told(
            &["task", "show", TASK],
            &["  went on      in ", "  here         1 of 3 codons"],
        );
        let execution = workspace.to_str().unwrap();
        let here = "the task is completed in ";
        told(
            &["status", "-e", execution],
            &[here, "where its newest files are; what follows ended before"],
        );
        told(
            &["report", "-e", execution],
            &[
                "completed elsewhere (its newest run here: crashed)",
                "The task is completed in ",
            ],
        );
        let log = self.messages(0);
        assert!(
            log.contains("Task completed"),
            "steps of the other machine: {log}"
        );
        let again = self.machines[0].run([
            "run",
            self.hank().to_str().unwrap(),
            "-e",
            execution,
            "--headless",
        ]);
        let refused = &again.expect_code(1).stderr;
        let clone = format!("`hankweave clone REMOTE DIR --run {TASK}`");
        assert!(
            refused.contains("would pay again for what was done there") && refused.contains(&clone),
            "{again}"
        );
        std::fs::rename(&away, &tasks[1]).unwrap();
    }
}

pub(crate) fn until(holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "it never happens");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn done(workspace: &Path) -> String {
    std::fs::read_to_string(workspace.join("done.txt")).unwrap_or_default()
}

/// How often each codon has completed, by the record of runs.
pub(crate) fn completed(state: &Value) -> Vec<String> {
    let runs = state["runs"].as_array().unwrap().iter().rev();
    let records = runs.flat_map(|run| run["codons"].as_array().unwrap());
    let completed = records.filter(|record| record["status"] == "completed");
    completed
        .map(|record| record["codonId"].as_str().unwrap().to_owned())
        .collect()
}

/// The registry's answer goes where the task goes: a denial asks again on the next machine, and an approval holds there, also after
/// its worker was killed.
// covers: TASK-123, TASK-61
#[test]
fn an_approval_travels_with_its_task_and_a_denial_asks_again_elsewhere() {
    let place = Place::new();
    place.write_hank();
    let file = place.hank().join("hank.json");
    let mut hank: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    hank["hank"][1]["approval"] = json!("Go on?");
    std::fs::write(&file, hank.to_string()).unwrap();
    place.create_task();
    place.go(&["one"]);
    let once = |machine: usize| {
        let mut arguments = place.arguments("w");
        arguments.push("--once".to_owned());
        place.machines[machine].run(&arguments).expect_code(0);
    };
    let step = |step: &str| {
        place.machines[0].run(["task", step, TASK]).expect_code(0);
    };
    once(0);
    assert_eq!(place.shown(0)["task"]["status"], "waiting");
    step("deny");
    step("resume");
    once(1);
    assert_eq!(
        place.shown(1)["task"]["status"],
        "waiting",
        "{:#}",
        place.shown(1)
    );
    step("approve");
    let worker = place.start(0, "w0");
    let log = place.workspace(0).join(".hankweave/state.log");
    let is_open = |id: &str| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.lines()
            .any(|line| line.contains("CodonStarted") && line.contains(&format!("\"{id}\"")))
    };
    until(|| is_open("two"));
    worker.kill();
    place.go(&["two", "three"]);
    place.complete(1, "w1");
    assert_eq!(done(&place.workspace(1)), "one\ntwo\nthree\n");
    let asked = place
        .messages(1)
        .matches("Task waits for an approval of two")
        .count();
    assert_eq!(asked, 2, "{}", place.messages(1));
}

/// The cost of an attempt whose files are elsewhere is unknown to the machine that requeues its task, and is shown as unknown.
// covers: TASK-121
#[test]
fn an_attempt_that_another_machine_requeues_is_not_said_to_have_cost_nothing() {
    let place = Place::new();
    place.create();
    let worker = place.start(0, "laptop");
    let log = place.workspace(0).join(".hankweave/state.log");
    until(|| std::fs::read_to_string(&log).is_ok_and(|log| log.contains("CodonStarted")));
    worker.kill();
    let tasks = place.machines[0].home().join("tasks");
    let away = tasks.with_extension("away");
    std::fs::rename(&tasks, &away).unwrap();
    until(|| place.machines[1].run(["task", "detach", TASK]).code == Some(0));
    let task = &place.shown(1)["task"];
    assert_eq!(
        (&task["status"], &task["costIsLowerBound"]),
        (&json!("pending"), &json!(true)),
        "{task:#}"
    );
    let list = place.machines[1].run(["task", "list"]).stdout.clone();
    assert!(list.contains(" unknown "), "{list}");
    std::fs::rename(&away, &tasks).unwrap();
}

// covers: TASK-60, TASK-61
#[test]
fn a_worker_that_is_killed_in_a_codon_is_followed_by_one_on_another_machine() {
    is_followed_elsewhere(&Place::new());
}

/// The database is the truth, and git asks ssh for the way.
// covers: TASK-60, TASK-61, TASK-27
#[test]
fn the_same_holds_over_postgresql_and_ssh() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let sshd = match Sshd::start() {
        Ok(sshd) => sshd,
        Err(skip) => return println!("{skip}"),
    };
    let mut place = Place::new();
    for machine in &mut place.machines {
        machine.set("HANKWEAVE_REGISTRY", database.url());
        machine.set("GIT_SSH_COMMAND", sshd.command());
    }
    place.url = sshd.url(&place.remote());
    is_followed_elsewhere(&place);
    for machine in &place.machines {
        assert_eq!(machine.left_behind(), []);
    }
}

fn is_followed_elsewhere(place: &Place) {
    place.create();
    place.go(&["one"]);
    let first = place.start(0, "laptop");
    place.until_pushed("one");
    // Where a codon has begun, more may have been spent than the remote knows.
    place.until_in_log(|line| line.contains("CodonStarted") && line.contains("\"two\""));
    assert_eq!(first.kill().signal, Some(9));
    place.go(&["two", "three"]);
    place.complete(1, "server");
    let shown = place.machines[1].run(["task", "show", TASK]);
    let unknown = "  in all       3 of 3 codons, 1 file changed, unknown, ";
    assert!(shown.expect_code(0).stdout.contains(unknown), "{shown}");
    place.is_told_where_it_left();
    assert_eq!(done(&place.workspace(1)), "one\ntwo\nthree\n");
    let state = place.state(1);
    assert_eq!(completed(&state), ["one", "two", "three"], "{state:#}");
    let last = &state["runs"][0]["codons"];
    let session = &state["runs"].as_array().unwrap().last().unwrap()["codons"][0]["claudeSessionId"];
    assert!(
        session.is_string() && last[0]["previousSessionId"] == *session,
        "{state:#}"
    );
    let messages = place.messages(1);
    for words in ["Run fetched from its remote", "Run pushed to its remote"] {
        assert!(messages.contains(words), "{words}\n{messages}");
    }
    let [record] = &place.references("/record")[..] else {
        panic!("one record")
    };
    let manifest = place.manifest(record);
    let files = place.git(&[
        "show",
        &format!("{}:done.txt", manifest["checkpoint"].as_str().unwrap()),
    ]);
    assert_eq!(files, "one\ntwo\nthree\n");
    // People can look at it as well.
    let cloned = place.machines[0].run(["clone", &*place.url, "copy", "--run", TASK]);
    cloned.expect_code(0);
    let late = place.machines[0].run(["push", "-e", "copy"]);
    assert!(matches!(late.code, Some(0 | 1)), "{late}");
    place.git(&["fsck", "--strict", "--no-dangling"]);
}

/// The codon after it may take hours, and a machine that is lost then would have its work paid again.
// covers: TASK-60
#[test]
fn a_push_that_failed_is_made_again_before_the_next_checkpoint() {
    let place = Place::new();
    place.create();
    place.go(&["one"]);
    let worker = place.start(0, "laptop");
    place.until_pushed("one");
    let away = place.folder.path().join("away");
    std::fs::rename(place.remote(), &away).unwrap();
    place.go(&["two"]);
    until(|| place.messages(0).contains("Run not pushed:"));
    std::fs::rename(&away, place.remote()).unwrap();
    place.until_pushed("two");
    until(|| place.messages(0).contains("Run pushed again"));
    worker.signal(Signal::TERM);
    worker.finish_within(Duration::from_secs(90)).expect_code(143);
    let status = place.machines[0].run(["status", "-e", place.workspace(0).to_str().unwrap()]);
    let stopped = "terminated by SIGTERM: its worker laptop stopped it";
    assert!(status.expect_code(0).stdout.contains(stopped), "{status}");
}

/// An agent writes settings into its workspace, and the record takes them to the next machine.
// covers: CLI-63, TASK-60
#[test]
fn settings_that_a_task_brings_from_another_machine_start_nothing_and_are_told() {
    let place = Place::new();
    place.write_hank();
    let evil = place.hank().join("EVIL");
    let settings = json!({"notify": format!("touch {}", evil.display())});
    for (file, from, to) in [
        (
            "one.json",
            "echo one",
            format!(
                "echo '{}' > hankweave.json; echo one",
                settings.to_string().replace('"', "\\\"")
            ),
        ),
        (
            "hank.json",
            "\"*.txt\"",
            "\"*.txt\",\"hankweave.json\"".to_owned(),
        ),
    ] {
        let path = place.hank().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(path, text.replace(from, &to)).unwrap();
    }
    place.create_task();
    place.go(&["one"]);
    let first = place.start(0, "laptop");
    place.until_pushed("one");
    assert_eq!(first.kill().signal, Some(9));
    place.go(&["two", "three"]);
    until(|| {
        let mut arguments = place.arguments("server");
        arguments.push("--once".to_owned());
        place.machines[1].run(&arguments);
        place.shown(1)["task"]["status"] == "failed"
    });
    assert!(place.workspace(1).join("hankweave.json").exists());
    assert!(!evil.exists());
    let shown = place.machines[1].run(["task", "show", TASK]);
    assert!(
        shown.stdout.contains("hankweave.json came from a remote"),
        "{shown}"
    );
    assert!(shown.stdout.contains("config --trust"), "{shown}");
}

/// Each worker is killed after its codon, and the next one works on the other machine.
// covers: TASK-60, TASK-61
#[test]
fn a_task_goes_from_machine_to_machine_and_back_and_back_again() {
    let place = Place::new();
    let codons = ["one", "two", "three", "four", "five"];
    place.write_hank_of(&codons);
    place.create_task();
    let [others @ .., last] = &codons;
    for (turn, codon) in others.iter().enumerate() {
        place.go(&[codon]);
        let worker = place.start(turn % 2, &format!("worker-{turn}"));
        place.until_pushed(codon);
        assert_eq!(worker.kill().signal, Some(9));
    }
    place.go(&[last]);
    place.complete(0, "last");
    let state = place.state(0);
    assert_eq!(completed(&state), codons, "{state:#}");
    assert_eq!(done(&place.workspace(0)), "one\ntwo\nthree\nfour\nfive\n");
    let messages = place.messages(0);
    // A killed worker may lose messages that it had not printed yet.
    let fetched = messages.matches("Run fetched from its remote").count();
    assert!(fetched >= 2, "{messages}");
}

/// The worker on the first machine sleeps beyond its lease while its run continues; when it wakes, the task has continued elsewhere.
// covers: TASK-62
#[test]
fn a_partition_ends_with_one_record_and_the_loser_stays_reachable() {
    let place = Place::new();
    place.create();
    place.go(&["one"]);
    let sleeper = place.start(0, "sleeper");
    place.until_pushed("one");
    sleeper.signal(Signal::STOP);
    place.go(&["two"]);
    // Its run does not know that.
    until(|| done(&place.workspace(0)).ends_with("two\n"));
    until(|| completed(&place.state(0)).len() == 2);
    let lost = place.state(0)["runs"][0]["codons"][1]["completionCheckpoint"].clone();
    place.go(&["three"]);
    place.complete(1, "server");
    let record = place.references("/record");
    let won = place.git(&["rev-parse", &record[0]]);
    sleeper.signal(Signal::CONT);
    // More than one, where its push was under way when its lease ended.
    until(|| !place.references("/kept/").is_empty());
    sleeper.signal(Signal::TERM);
    let slept: Finished = sleeper.finish_within(Duration::from_secs(90));
    assert!(slept.stdout.contains("\"lost\":1"), "{slept}");
    assert_eq!(place.references("/record"), record);
    assert_eq!(
        place.git(&["rev-parse", &record[0]]),
        won,
        "the record is that of the later owner"
    );
    let token = |name: &str| place.manifest(name)["token"].as_u64().unwrap();
    let lost = lost.as_str().unwrap();
    let kept = place.references("/kept/");
    assert!(
        kept.iter().all(|kept| token(kept) < token(&record[0])),
        "{kept:?}"
    );
    assert!(kept.iter().any(|kept| place.reaches(kept, lost)), "{kept:?}");
    assert_eq!(place.git(&["show", &format!("{lost}:done.txt")]), "one\ntwo\n");
    assert_eq!(completed(&place.state(1)), ["one", "two", "three"]);
    assert_eq!(place.shown(1)["task"]["status"], "completed");
}

// covers: TASK-60, TASK-61, TASK-119
#[test]
fn a_remote_that_is_away_stops_no_task_and_is_told() {
    let place = Place::new();
    place.create();
    place.go(&["one"]);
    let worker = place.start(0, "laptop");
    place.until_pushed("one");
    std::fs::rename(place.remote(), place.folder.path().join("away")).unwrap();
    place.go(&["two", "three"]);
    until(|| place.shown(0)["task"]["status"] == "completed");
    worker.signal(Signal::TERM);
    worker.finish_within(Duration::from_secs(90)).expect_code(143);
    assert_eq!(done(&place.workspace(0)), "one\ntwo\nthree\n");
    let messages = place.messages(0);
    assert_eq!(messages.matches("Run not pushed:").count(), 1, "{messages}");
    assert_eq!(
        messages.matches("it is on this machine alone").count(),
        1,
        "{messages}"
    );
    // Where a run cannot be fetched nothing starts again, and no task is lost.
    let create = [
        "task",
        "create",
        "Other",
        "--hank",
        &*place.folder.path().to_string_lossy(),
        "--id",
        "other",
    ];
    place.machines[1].run(create).expect_code(0);
    let other = || {
        let shown = place.machines[1].run(["task", "show", "other", "--json"]);
        shown.expect_code(0).json_document()["task"].clone()
    };
    let worker = place.machines[1].start(place.arguments("server"));
    until(|| other()["attempt"] == 2);
    let waits = other();
    assert_eq!(waits["status"], "pending");
    let error = waits["metadata"]["error"].as_str().unwrap();
    assert!(
        error.starts_with("NOT_FETCHED: the run cannot be fetched"),
        "{error}"
    );
    worker.wait_for_word(|word| word.contains("the remote does not answer"));
    assert_eq!(
        other()["version"],
        waits["version"],
        "no try is used up while it waits"
    );
    std::fs::rename(place.folder.path().join("away"), place.remote()).unwrap();
    until(|| other()["status"] == "completed");
    assert_eq!(other()["attempt"], 2);
    worker.signal(Signal::TERM);
    worker.finish_within(Duration::from_secs(90)).expect_code(143);
}

async fn push_under(place: &Place, directory: &Path, token: u64) -> Result<Pushed, RemoteError> {
    let order = PushRequest {
        url: Some(place.remote().to_string_lossy().into_owned()),
        execution: Some(execution()),
        token,
        replace: false,
    };
    push(&World::real(), &ExecutionDir::new(directory.to_owned()), &order).await
}

async fn clone_to(place: &Place, directory: &Path) {
    let order = CloneRequest {
        url: place.remote().to_string_lossy().into_owned(),
        wanted: Some(execution().to_string()),
        into: directory.to_owned(),
    };
    clone(&World::real(), &order).await.unwrap();
}

fn execution() -> RemoteExecution {
    RemoteExecution::of_task(&TaskId::new(TASK).unwrap(), Timestamp::from_millis(7))
}

/// Both believe that they own the task, in every order of their pushes.
// covers: TASK-62
#[tokio::test]
async fn of_two_owners_the_later_one_has_the_record_and_the_other_is_kept() {
    let place = Place::new();
    place.create();
    place.go(&["one", "two", "three"]);
    let hank = place.folder.path().to_string_lossy().into_owned();
    let directories = ["first", "second", "third"].map(|name| place.folder.path().join(name));
    let [first, second, third] = &directories;
    // A run with nothing to do is still a run, so there is something to push.
    let run = |directory: &Path| {
        let directory = directory.to_string_lossy().into_owned();
        let arguments = ["run", &*hank, "-e", &*directory, "--headless", "--new"];
        place.machines[0].run(arguments).expect_code(0);
    };
    run(first);
    let begun = push_under(&place, first, 5).await.unwrap();
    assert_eq!(begun.outcome, PushOutcome::Pushed);
    clone_to(&place, second).await;
    let taken = push_under(&place, second, 7).await.unwrap();
    assert_eq!((taken.outcome, &taken.kept), (PushOutcome::Pushed, &None));

    // The earlier owner does not know that yet.
    run(first);
    let late = push_under(&place, first, 5).await.unwrap_err();
    let RemoteError::Superseded {
        ours: 5,
        theirs: 7,
        kept: Some(kept),
    } = late
    else {
        panic!("{late}")
    };
    assert_eq!(place.references("/kept/"), std::slice::from_ref(&kept));
    assert_eq!(place.manifest(&kept)["token"], 5);
    let again = push_under(&place, second, 7).await.unwrap();
    assert_eq!(
        (again.outcome, &again.record),
        (PushOutcome::UpToDate, &taken.record)
    );

    // The next owner has fetched, and the earlier one pushes once more before it does.
    clone_to(&place, third).await;
    run(second);
    let before = push_under(&place, second, 7).await.unwrap();
    let last = push_under(&place, third, 9).await.unwrap();
    assert!(
        last.kept
            .as_ref()
            .is_some_and(|kept| kept.ends_with(&before.record)),
        "{last:?}"
    );
    let [record] = &place.references("/record")[..] else {
        panic!("one record")
    };
    assert_eq!(place.git(&["rev-parse", record]).trim(), last.record);
    assert_eq!(place.references("/kept/").len(), 2);
    let [once, twice] = [
        push_under(&place, second, 7).await,
        push_under(&place, second, 7).await,
    ];
    assert!(matches!(once, Err(RemoteError::Superseded { theirs: 9, .. })));
    assert!(matches!(twice, Err(RemoteError::Superseded { theirs: 9, .. })));
    assert_eq!(place.references("/kept/").len(), 2, "it is there once");
}
