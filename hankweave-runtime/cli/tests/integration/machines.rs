//! Runs that move between machines. Two projects act as machines, each with its own home and its own folder for temporary files. A bare repository is
//! between them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hankweave_testing::sshd::Sshd;
use hankweave_testing::{Finished, ModelServer, Running, Scenario, TestProject, agents, swept};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{hankweave, project, shell_agent, strace_is_there, traced};

/// The bare repository between the machines.
pub(crate) struct Between {
    folder: tempfile::TempDir,
}

impl Between {
    pub(crate) fn new() -> Self {
        let between = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let made = Command::new("git")
            .args(["init", "-q", "--bare"])
            .arg(between.path())
            .stdout(std::process::Stdio::null())
            .status();
        assert!(made.unwrap().success());
        between
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("runs.git")
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// What git prints there.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let ran = Command::new("git")
            .arg("--git-dir")
            .arg(self.path())
            .args(arguments)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    /// The references that end like this.
    pub(crate) fn references(&self, end: &str) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname)", "refs/hankweave"]);
        let fitting = listed.lines().filter(|name| name.contains(end));
        fitting.map(str::to_owned).collect()
    }

    /// A file of a record, out of its only piece.
    pub(crate) fn recorded(&self, reference: &str, file: &str) -> Value {
        let text = self.git(&["cat-file", "blob", &format!("{reference}:{file}")]);
        serde_json::from_str(&text).unwrap()
    }
}

/// Two codons in one session; the second hangs until `free` lets it end.
pub(crate) fn write_hank(project: &TestProject) {
    let script = |word: &str, hang: bool| {
        let tools = json!([{"append": {"path": "done.txt", "content": format!("{word}\n")}}]);
        json!({"turns": [{"text": "begins", "hang": hang}, {"text": word, "tools": tools}]}).to_string()
    };
    project.write("one.json", script("one", false));
    project.write("two.json", script("two", true));
    let codon = |id: &str, mode: &str| {
        json!({"id": id, "name": id, "agent": {"script": format!("{id}.json")}, "continuationMode": mode,
            "promptText": id, "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("one", "fresh"), codon("two", "continue-previous")]}));
}

pub(crate) fn free(directory: &Path) {
    let path = directory.join("two.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"hang\":true", "\"hang\":false")).unwrap();
}

fn has_begun(codon: &'static str) -> impl Fn(&str) -> bool {
    move |line| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["type"] == "codon.started" && event["data"]["codonId"] == codon
    }
}

/// Runs until the second codon works, and stops there.
pub(crate) fn run_half(project: &TestProject) {
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(has_begun("two"));
    stop(running);
}

fn stop(running: Running) {
    running.signal(Signal::TERM);
    running.finish_within(Duration::from_secs(60)).expect_code(143);
}

pub(crate) fn push(project: &TestProject, more: &[&str]) -> Value {
    let pushed = project.run(["push", "--json"].iter().chain(more));
    pushed.expect_code(0).json_document()
}

pub(crate) fn clone(project: &TestProject, url: &str) -> Value {
    let cloned = project.run(["clone", url, "work", "--json"]);
    cloned.expect_code(0).json_document()
}

pub(crate) fn done(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("done.txt")).unwrap_or_default()
}

pub(crate) fn codons(state: &Value) -> BTreeMap<String, Value> {
    let runs = state["runs"].as_array().unwrap().iter().rev();
    let records = runs.flat_map(|run| run["codons"].as_array().unwrap());
    records
        .map(|record| (record["codonId"].as_str().unwrap().to_owned(), record.clone()))
        .collect()
}

/// From the laptop to the server, to the end there, and back.
fn goes_on_elsewhere(laptop: &TestProject, server: &TestProject, url: &str) {
    write_hank(laptop);
    run_half(laptop);
    let pushed = push(laptop, &["--remote", url]);
    assert_eq!(
        (&pushed["outcome"], &pushed["leftBehind"]),
        (&json!("pushed"), &json!([]))
    );
    let as_git = laptop.run(["push", url]);
    assert!(
        as_git
            .expect_code(65)
            .stderr
            .contains(&format!("hint: `hankweave push --remote {url}` pushes")),
        "{as_git}"
    );
    assert_eq!(push(laptop, &[])["outcome"], "up-to-date");

    let cloned = clone(server, url);
    assert_eq!(cloned["record"], pushed["record"]);
    let work = server.directory().join("work");
    assert_eq!(done(&work), "one\n", "the files are those of the last checkpoint");
    free(&work);
    let run = ["run", "work", "--headless"];
    server.run(run).expect_code(0);
    assert_eq!(done(&work), "one\ntwo\n");
    let state = server.state(&work);
    let records = codons(&state);
    assert_eq!(records["two"]["status"], "completed", "{state:#}");
    assert_eq!(
        records["two"]["claudeSessionId"],
        records["one"]["claudeSessionId"]
    );
    assert_eq!(state["runs"].as_array().unwrap().len(), 2);
    assert_eq!(push(server, &["-e", "work"])["outcome"], "pushed");

    let behind = laptop.run(["push"]);
    behind.expect_code(1);
    assert!(
        behind.stderr.contains("`hankweave pull` brings it here"),
        "{behind}"
    );
    let pulled = laptop.run(["pull", "--json"]).expect_code(0).json_document();
    assert_eq!(
        (&pulled["outcome"], &pulled["kept"]),
        (&json!("arrived"), &Value::Null)
    );
    assert_eq!(
        pulled["different"],
        json!(["two.json"]),
        "it is left as it is here"
    );
    assert_eq!(done(&laptop.directory()), "one\ntwo\n");
    assert_eq!(laptop.state(&laptop.directory()), state);
    assert_eq!(
        laptop.run(["pull", "--json"]).json_document()["outcome"],
        "up-to-date"
    );
    laptop.run(["checkpoints", "verify"]).expect_code(0);
    laptop.run(["run", "--headless"]).expect_code(0);
    assert_eq!(laptop.left_behind(), []);
}

// covers: CLI-50, RUN-28
#[test]
fn what_began_on_a_laptop_goes_on_on_a_server_and_comes_back() {
    let between = Between::new();
    goes_on_elsewhere(&project(), &project(), &between.url());
    assert_eq!(between.references("/record").len(), 1);
    between.git(&["fsck", "--strict", "--no-dangling"]);
}

// covers: CLI-50
#[test]
fn the_same_goes_over_ssh() {
    let sshd = match Sshd::start() {
        Ok(sshd) => sshd,
        Err(skip) => return println!("{skip}"),
    };
    let (between, mut laptop, mut server) = (Between::new(), project(), project());
    for machine in [&mut laptop, &mut server] {
        machine.set("GIT_SSH_COMMAND", sshd.command());
    }
    goes_on_elsewhere(&laptop, &server, &sshd.url(&between.path()));
    // A client without access is not asked for a password.
    let stranger = project();
    let refused = stranger.run(["clone", &sshd.url(&between.path()), "work"]);
    refused.expect_code(1);
    assert!(refused.stderr.contains("git ls-remote"), "{refused}");
    assert!(!stranger.directory().join("work").exists());
}

/// The agent's own transcript comes along: the real one answers from it on the other machine.
// covers: RUN-27
#[test]
fn the_real_claude_goes_on_in_its_session_on_another_machine() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let usage = json!({"input": 10, "output": 5});
    let lane = |word: &str, turns: Value| json!({"name": word, "when": {"user": word}, "turns": turns});
    let again = json!([{"text": "again", "usage": usage}]);
    let scenario = json!({"lanes": [
        lane("SECOND-TASK", again),
        lane("FIRST-TASK", json!([{"text": "the word is heron", "usage": usage}]))]});
    let model = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let (between, mut laptop, mut server) = (Between::new(), project(), project());
    for machine in [&mut laptop, &mut server] {
        machine.set("HANKWEAVE_CLAUDE_PATH", claude.clone());
    }
    let env = json!({"ANTHROPIC_BASE_URL": model.url(), "ANTHROPIC_API_KEY": "sk-any", "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"});
    let codon = |id: &str, mode: &str, prompt: &str| {
        json!({"id": id, "name": id, "agent": "claude", "model": "claude-sonnet-4-5", "continuationMode": mode,
            "promptText": prompt, "env": env, "approval": id == "second"})
    };
    laptop.write_hank(&json!({"hank": [
        codon("first", "fresh", "FIRST-TASK: remember a word"),
        codon("second", "continue-previous", "SECOND-TASK: which word was it?")]}));
    laptop.run(["run", "--headless"]).expect_code(3);
    let pushed = push(&laptop, &["--remote", &between.url()]);
    assert_eq!(pushed["leftBehind"], json!([]));

    clone(&server, &between.url());
    server.run(["approve", "second", "-e", "work"]).expect_code(0);
    server.run(["run", "work", "--headless"]).expect_code(0);
    let state = server.state(&server.directory().join("work"));
    let records = codons(&state);
    assert_eq!(records["second"]["status"], "completed", "{state:#}");
    assert_eq!(
        records["second"]["claudeSessionId"],
        records["first"]["claudeSessionId"]
    );
    let asked = model.requests();
    let last = asked
        .iter()
        .rev()
        .find(|asked| asked.lane() == Some("SECOND-TASK"))
        .unwrap();
    assert!(
        format!("{last:?}").contains("heron"),
        "the conversation before it is known: {last:?}"
    );
}

/// A run that is pushed while it works continues where it is, and a clone of it prints a note.
// covers: CLI-52
#[test]
fn a_record_that_was_pushed_while_its_run_was_at_work_says_so_where_it_arrives() {
    let (between, laptop, server) = (Between::new(), project(), project());
    write_hank(&laptop);
    let mut running = laptop.start(["run", "--headless", "--json"]);
    running.wait_for_line(has_begun("two"));
    push(&laptop, &["--remote", &between.url()]);
    let cloned = server.run(["clone", &between.url(), "work"]);
    assert!(
        cloned.expect_code(0).stderr.contains(
            "note: its record was pushed while two was at work: where its run goes on elsewhere, a run here pays again"
        ),
        "{cloned}"
    );
    stop(running);
    push(&laptop, &[]);
    let pulled = server.run(["pull", "-e", "work"]);
    assert!(!pulled.expect_code(0).stderr.contains("was at work"), "{pulled}");
}

// covers: RUN-27
#[test]
fn a_session_that_stayed_on_another_machine_is_not_offered() {
    let (between, laptop, server) = (Between::new(), project(), project());
    laptop.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": shell_agent(&laptop), "model": "shell",
        "continuationMode": "fresh", "promptText": "wait for go"}]}),
    );
    let mut running = laptop.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains("working"));
    stop(running);
    push(&laptop, &["--remote", &between.url()]);
    server.run(["clone", &between.url(), "work"]).expect_code(0);
    let offered = |status: &Finished| status.expect_code(0).stdout.contains("--recover session");
    assert!(offered(&laptop.run(["status"])));
    assert!(!offered(&server.run(["status", "-e", "work"])));
}

// covers: RUN-27
#[test]
fn an_agent_whose_sessions_nobody_can_take_along_begins_a_new_one_and_that_is_said() {
    let (between, laptop, server) = (Between::new(), project(), project());
    let agent = shell_agent(&laptop);
    let codon = |id: &str, mode: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": mode, "promptText": id,
            "checkpointedFiles": ["*.txt"], "approval": id == "two"})
    };
    laptop.write_hank(&json!({"hank": [codon("one", "fresh"), codon("two", "continue-previous")]}));
    laptop.run(["run", "--headless"]).expect_code(3);
    let pushed = push(&laptop, &["--remote", &between.url()]);
    assert_eq!(pushed["leftBehind"].as_array().unwrap().len(), 1);
    let cloned = server.run(["clone", &between.url(), "work"]);
    assert!(
        cloned
            .expect_code(0)
            .stderr
            .contains("1 session of agents did not come along"),
        "{cloned}"
    );
    server.run(["approve", "two", "-e", "work"]).expect_code(0);
    let ran = server.run(["run", "work", "--headless"]);
    ran.expect_code(0);
    assert!(
        ran.stdout
            .contains("stayed on another machine; its agent begins a new one"),
        "{ran}"
    );
    let records = codons(&server.state(&server.directory().join("work")));
    assert_eq!(records["two"]["previousSessionId"], Value::Null);
    assert_eq!(done(&server.directory().join("work")), "one\ntwo\n");
    server.run(["push", "-e", "work"]).expect_code(0);
    let again = server.run(["clone", &between.url(), "again"]);
    let said = "nothing is left to do; `hankweave report -e again` shows it";
    assert!(again.expect_code(0).stdout.contains(said), "{again}");
}

// covers: CLI-51, RUN-28
#[test]
fn when_both_sides_went_on_both_are_named_and_nothing_is_lost() {
    for take_theirs in [true, false] {
        let (between, laptop, server) = (Between::new(), project(), project());
        write_hank(&laptop);
        run_half(&laptop);
        push(&laptop, &["--remote", &between.url()]);
        clone(&server, &between.url());
        let work = server.directory().join("work");
        for (machine, directory) in [(&server, &work), (&laptop, &laptop.directory())] {
            free(directory);
            std::fs::write(directory.join("note.txt"), directory.display().to_string()).unwrap();
            machine
                .run(["run".as_ref(), directory.as_os_str(), "--headless".as_ref()])
                .expect_code(0);
        }
        let theirs = push(&server, &["-e", "work"])["record"]
            .as_str()
            .unwrap()
            .to_owned();
        let before = laptop.state(&laptop.directory());
        let refused = laptop.run(["push"]);
        refused.expect_code(1);
        let kept = between.references("/kept/");
        let [kept] = &kept[..] else { panic!("{kept:?}") };
        let ours = kept.rsplit('/').next().unwrap();
        for words in [
            &*theirs,
            ours,
            kept,
            "hankweave pull --replace",
            "hankweave push --replace",
        ] {
            assert!(refused.stderr.contains(words), "{words}\n{refused}");
        }
        laptop.run(["pull"]).expect_code(1);
        assert_eq!(laptop.state(&laptop.directory()), before, "nothing has changed");

        let note = |directory: &Path| std::fs::read_to_string(directory.join("note.txt")).unwrap();
        let resolved = match take_theirs {
            true => laptop.run(["pull", "--replace", "--json"]),
            false => laptop.run(["push", "--replace", "--json"]),
        };
        let resolved = resolved.expect_code(0).json_document();
        let owner = if take_theirs { &work } else { &laptop.directory() };
        assert_eq!(note(&laptop.directory()), owner.display().to_string());
        let loser = if take_theirs { ours } else { &*theirs };
        assert!(resolved["kept"].as_str().unwrap().ends_with(loser), "{resolved}");
        for record in [ours, &*theirs] {
            let manifest = between.recorded(record, "manifest.json");
            let checkpoint = manifest["checkpoint"].as_str().unwrap();
            between.git(&["cat-file", "-e", &format!("{checkpoint}:note.txt")]);
        }
        assert_eq!(between.references("/record").len(), 1);
        assert_eq!(push(&laptop, &[])["outcome"], "up-to-date");
        laptop.run(["run", "--headless"]).expect_code(0);
    }
}

/// A run that ends and a new one, from one machine to the other and back, five times each.
// covers: CLI-50, RUN-28
#[test]
fn a_run_goes_to_and_fro_ten_times() {
    let (between, laptop, server) = (Between::new(), project(), project());
    write_hank(&laptop);
    free(&laptop.directory());
    laptop.run(["run", "--headless"]).expect_code(0);
    push(&laptop, &["--remote", &between.url()]);
    clone(&server, &between.url());
    let sides = [
        (&server, server.directory().join("work")),
        (&laptop, laptop.directory()),
    ];
    for turn in 0..10 {
        let ((from, there), (to, here)) = (&sides[turn % 2], &sides[(turn + 1) % 2]);
        from.run(["run", "--headless", "--new", &there.to_string_lossy()])
            .expect_code(0);
        from.run(["push", "-e", &there.to_string_lossy()]).expect_code(0);
        let pulled = to.run(["pull", "--json", "-e", &here.to_string_lossy()]);
        assert_eq!(
            pulled.expect_code(0).json_document()["outcome"],
            "arrived",
            "turn {turn}"
        );
        assert_eq!(to.state(here), from.state(there), "turn {turn}");
        assert_eq!(done(here), "one\ntwo\n".repeat(turn + 2), "turn {turn}");
    }
    for (machine, directory) in &sides {
        let verify = ["checkpoints", "verify", "-e", &directory.to_string_lossy()];
        machine.run(verify).expect_code(0);
    }
    assert!(between.references("/kept/").is_empty());
}

/// What gave way is not lost with the next pull, nor with the one after that.
// covers: CLI-51, RUN-28
#[test]
fn each_history_that_gives_way_stays_within_reach() {
    let (between, laptop, server) = (Between::new(), project(), project());
    write_hank(&laptop);
    free(&laptop.directory());
    laptop.run(["run", "--headless"]).expect_code(0);
    push(&laptop, &["--remote", &between.url()]);
    clone(&server, &between.url());
    let work = server.directory().join("work");
    let mut given_way = Vec::new();
    for turn in 0..5 {
        for (machine, directory) in [(&server, &work), (&laptop, &laptop.directory())] {
            std::fs::write(
                directory.join("note.txt"),
                format!("{turn} in {}", directory.display()),
            )
            .unwrap();
            machine
                .run(["run", "--headless", "--new", &directory.to_string_lossy()])
                .expect_code(0);
        }
        push(&server, &["-e", "work"]);
        let state = laptop.state(&laptop.directory());
        let last = state["runs"][0]["codons"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone();
        given_way.push(last["completionCheckpoint"].as_str().unwrap().to_owned());
        laptop.run(["pull"]).expect_code(1);
        let pulled = laptop
            .run(["pull", "--replace", "--json"])
            .expect_code(0)
            .json_document();
        assert!(pulled["kept"].is_string(), "turn {turn}: {pulled}");
        assert_eq!(
            laptop.state(&laptop.directory()),
            server.state(&work),
            "turn {turn}"
        );
        for (turn, lost) in given_way.iter().enumerate() {
            let note = laptop.checkpoints_git(&laptop.directory(), &["show", &format!("{lost}:note.txt")]);
            note.expect_code(0);
            let expected = format!("{turn} in {}", laptop.directory().display());
            assert_eq!(note.stdout, expected);
        }
    }
    assert_eq!(between.references("/kept/").len(), 5);
    laptop.run(["checkpoints", "verify"]).expect_code(0);
}

/// Every object of the remote is cut, emptied or garbled in turn. Whatever the outcome, it is reported, and nothing is half done here.
// covers: RUN-29, CLI-52
#[test]
fn what_is_damaged_on_the_remote_changes_nothing_here() {
    let (between, laptop, server) = (Between::new(), project(), project());
    write_hank(&laptop);
    run_half(&laptop);
    push(&laptop, &["--remote", &between.url()]);
    clone(&server, &between.url());
    let work = server.directory().join("work");
    free(&laptop.directory());
    laptop.run(["run", "--headless"]).expect_code(0);
    push(&laptop, &[]);
    let before = server.state(&work);
    between.git(&["repack", "-q", "-a", "-d"]);
    let packs = std::fs::read_dir(between.path().join("objects/pack")).unwrap();
    let pack = packs
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "pack"));
    let pack = pack.unwrap();
    let whole = std::fs::read(&pack).unwrap();
    std::fs::set_permissions(&pack, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut refused = 0;
    for step in 0..12 {
        let place = whole.len() * (2 * step + 1) / 24;
        let mut damaged = whole.clone();
        match step % 3 {
            0 => damaged.truncate(place),
            1 => damaged[place..].fill(0),
            _ => damaged[place] ^= 0xff,
        }
        std::fs::write(&pack, &damaged).unwrap();
        let fresh = project();
        let cloned = fresh.run(["clone", &between.url(), "work"]);
        let pulled = server.run(["pull", "-e", "work"]);
        assert!(
            !cloned.stderr.contains("panicked") && !pulled.stderr.contains("panicked"),
            "{cloned}{pulled}"
        );
        if cloned.code != Some(0) {
            refused += 1;
            assert!(
                matches!(cloned.code, Some(1 | 65)) && cloned.stderr.contains("hint:"),
                "{cloned}"
            );
            assert_eq!(
                std::fs::read_dir(fresh.directory()).unwrap().count(),
                0,
                "{cloned}"
            );
        }
        if pulled.code != Some(0) {
            assert_eq!(server.state(&work), before, "{pulled}");
            assert_eq!(done(&work), "one\n");
        } else {
            // What it lacked had not been damaged.
            assert_eq!(done(&work), "one\ntwo\n");
            break;
        }
    }
    assert!(refused > 0, "no damage was noticed");
    std::fs::write(&pack, &whole).unwrap();
    server.run(["pull", "-e", "work"]).expect_code(0);
    assert_eq!(done(&work), "one\ntwo\n");
}

/// A record whose files are whole for git and not for us.
// covers: RUN-29
#[test]
fn a_record_that_tells_something_else_than_it_holds_is_refused() {
    let (between, laptop) = (Between::new(), project());
    write_hank(&laptop);
    run_half(&laptop);
    push(&laptop, &["--remote", &between.url()]);
    let reference = between.references("/record").remove(0);
    let good = between.git(&["rev-parse", &reference]).trim().to_owned();
    for (path, content) in [
        ("state/state.json/000000", Some("{}")),
        ("state/events/000001.jsonl/000000", Some("{\"seq\":1")),
        ("manifest.json", Some("{\"format\":9}")),
        ("manifest.json", None),
        ("state/state.json/000000", None),
        ("state/token/000000", Some("x")),
    ] {
        let index = between.folder.path().join("index");
        let git = |arguments: &[&str], input: &str| {
            let mut git = Command::new("git");
            git.arg("--git-dir")
                .arg(between.path())
                .args(arguments)
                .env("GIT_INDEX_FILE", &index)
                .env("GIT_WORK_TREE", between.folder.path());
            git.env("GIT_AUTHOR_NAME", "x")
                .env("GIT_AUTHOR_EMAIL", "x")
                .env("GIT_COMMITTER_NAME", "x")
                .env("GIT_COMMITTER_EMAIL", "x");
            let file = between.folder.path().join("input");
            std::fs::write(&file, input).unwrap();
            git.stdin(std::fs::File::open(&file).unwrap());
            let ran = git.output().unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            String::from_utf8(ran.stdout).unwrap().trim().to_owned()
        };
        git(&["read-tree", &good], "");
        match content {
            Some(content) => {
                let blob = git(&["hash-object", "-w", "--stdin"], content);
                git(
                    &[
                        "update-index",
                        "--add",
                        "--cacheinfo",
                        &format!("100644,{blob},{path}"),
                    ],
                    "",
                );
            }
            None => drop(git(&["update-index", "--force-remove", path], "")),
        }
        let tree = git(&["write-tree"], "");
        let forged = git(&["commit-tree", &tree, "-p", &good], "forged");
        between.git(&["update-ref", &reference, &forged]);
        let server = project();
        let refused = server.run(["clone", &between.url(), "work"]);
        refused.expect_code(65);
        assert!(refused.stderr.contains("hint:"), "{path}: {refused}");
        assert_eq!(
            std::fs::read_dir(server.directory()).unwrap().count(),
            0,
            "{refused}"
        );
        let pulled = laptop.run(["pull"]);
        pulled.expect_code(65);
    }
}

/// A remote without runs, a machine on which a run has completed, and another machine.
fn machines_with_a_run() -> (Between, TestProject, TestProject) {
    let machine = || TestProject::in_memory("env");
    let (between, laptop, server) = (Between::new(), machine(), machine());
    write_hank(&laptop);
    free(&laptop.directory());
    hankweave(&laptop, &["run", "--headless"]).expect_code(0);
    (between, laptop, server)
}

/// Runs a command under strace, which kills it at the `when`th of these calls; returns whether it was killed.
fn killed(machine: &TestProject, call: &str, when: usize, arguments: &[&str]) -> bool {
    let injection = format!("inject={call}:signal=SIGKILL:when={when}");
    traced(machine, &["-e", &injection], arguments).code != Some(0)
}

// covers: CLI-52, RUN-26
#[test]
fn a_push_a_pull_and_a_clone_that_are_killed_are_done_or_are_not() {
    if !strace_is_there() {
        return;
    }
    let mut hits = BTreeMap::new();
    for call in [
        "fsync,fdatasync",
        "rename,renameat,renameat2",
        "unlinkat",
        "execve",
    ] {
        for when in swept([1, 4, 12]) {
            let (between, laptop, server) = machines_with_a_run();
            let mut hit = |what, was_hit| *hits.entry(what).or_insert(0) += usize::from(was_hit);

            hit(
                "push",
                killed(&laptop, call, when, &["push", "--remote", &between.url()]),
            );
            hankweave(&laptop, &["push", "--remote", &between.url()]).expect_code(0);
            assert_eq!(between.references("/record").len(), 1);
            assert!(between.references("/kept/").is_empty(), "{call} {when}");

            let was_hit = killed(&server, call, when, &["clone", &between.url(), "work"]);
            hit("clone", was_hit);
            let work = server.directory().join("work");
            if !work.exists() {
                hankweave(&server, &["clone", &between.url(), "work"]).expect_code(0);
            }
            assert_eq!(done(&work), "one\ntwo\n", "{call} {when}");
            hankweave(&server, &["pull", "-e", "work"]).expect_code(0);
            let others = std::fs::read_dir(server.directory()).unwrap().count();
            assert_eq!(
                others, 1,
                "{call} {when}: what a killed clone left is gone, or there was none"
            );

            hankweave(&laptop, &["rollback", "--codon", "one"]).expect_code(0);
            hankweave(&laptop, &["run", "--headless"]).expect_code(0);
            hankweave(&laptop, &["push"]).expect_code(0);
            let wanted = laptop.state(&laptop.directory());
            hit("pull", killed(&server, call, when, &["pull", "-e", "work"]));
            // The next run finishes the pull, or starts it.
            hankweave(&server, &["run", "work", "--headless"]).expect_code(0);
            let state = server.state(&work);
            let pulled = hankweave(&server, &["pull", "-e", "work", "--replace"]);
            pulled.expect_code(0);
            assert!(
                state == wanted || state["runs"].as_array().unwrap().len() == 1,
                "{call} {when}: {state:#}"
            );
            assert_eq!(server.state(&work), wanted, "{call} {when}");
            assert_eq!(done(&work), "one\ntwo\n", "{call} {when}");
            hankweave(&server, &["checkpoints", "verify", "-e", "work"]).expect_code(0);
        }
    }
    assert!(hits.values().all(|hits| *hits > 2), "{hits:?}");
}

/// From the moment at which a pulled record counts, another push or pull finishes the pull first, as a run does.
// covers: CLI-52, RUN-26
#[test]
fn a_pull_that_is_killed_once_it_counts_is_finished_by_the_next_push_or_pull() {
    if !strace_is_there() {
        return;
    }
    for follows in ["push", "pull"] {
        let (between, laptop, server) = machines_with_a_run();
        hankweave(&laptop, &["push", "--remote", &between.url()]).expect_code(0);
        hankweave(&server, &["clone", &between.url(), "work"]).expect_code(0);
        hankweave(&laptop, &["rollback", "--codon", "one"]).expect_code(0);
        hankweave(&laptop, &["run", "--headless"]).expect_code(0);
        hankweave(&laptop, &["push"]).expect_code(0);
        let wanted = laptop.state(&laptop.directory());

        let work = server.directory().join("work");
        let counts = || work.join(".hankweave/remote/ready.json").exists();
        // The journal is the second entry to be moved, so one is in place then.
        let calls = "rename,renameat,renameat2";
        let [trace, inject] = [format!("trace={calls}"), format!("inject={calls}:signal=SIGKILL")];
        let options = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
        let strace = ["strace"].iter().chain(&options).chain(&["-P", "events"]);
        let pull = [env!("CARGO_BIN_EXE_hankweave"), "pull", "-e", "work"];
        let pulled = server.run(strace.chain(&pull));
        assert!(
            counts() && work.join(".hankweave/remote/before/checkpoints").exists(),
            "{pulled}"
        );
        // What a git leaves that is killed with its pull.
        let seen = work.join(".hankweave/checkpoints/refs/hankweave");
        std::fs::create_dir_all(&seen).unwrap();
        std::fs::write(seen.join("seen.lock"), "").unwrap();
        let followed = hankweave(&server, &[follows, "-e", "work"]);
        followed.expect_code(0);
        assert_eq!(server.state(&work), wanted, "{follows}: {followed}");
        assert!(!counts(), "{follows}");
        assert!(
            between.references("/kept/").is_empty(),
            "{follows}: nothing was ours"
        );
        hankweave(&server, &["checkpoints", "verify", "-e", "work"]).expect_code(0);
    }
}

// covers: CLI-50
#[test]
fn what_cannot_be_pushed_pulled_or_cloned_says_what_to_do() {
    let (between, laptop) = (Between::new(), project());
    write_hank(&laptop);
    laptop.run(["push"]).expect_code(65);
    run_half(&laptop);
    let url = between.url();
    for (arguments, code, told) in [
        (vec!["push"], 2, "push --remote"),
        (vec!["pull"], 2, "push --remote"),
        (
            vec!["push", "--remote", "/nowhere/runs.git"],
            1,
            "git init --bare",
        ),
        (
            vec!["push", "--remote", "http://127.0.0.1:1/x"],
            1,
            "git ls-remote",
        ),
        (
            vec!["push", "--remote=--upload-pack=touch x"],
            2,
            "is no git remote",
        ),
        (vec!["clone", &url, "work"], 65, "has no run"),
        (vec!["clone", "/", "."], 65, "is not empty"),
    ] {
        let refused = laptop.run(&arguments);
        refused.expect_code(code);
        assert!(refused.stderr.contains(told), "{arguments:?}: {refused}");
    }
    let mut running = laptop.start(["run", "--headless", "--json"]);
    running.wait_for_line(has_begun("two"));
    // Beside a live run a push is as a crash would leave it; a pull would tear it.
    let pushed = laptop.run(["push", "--remote", &url]);
    assert!(
        pushed.expect_code(0).stdout.contains("the run continues"),
        "{pushed}"
    );
    let pulled = laptop.run(["pull"]);
    pulled.expect_code(75);
    assert!(pulled.stderr.contains("hankweave stop"), "{pulled}");
    stop(running);
    let server = project();
    let unknown = server.run(["clone", &url, "work", "--run", "nothing"]);
    unknown.expect_code(65);
    assert!(unknown.stderr.contains("there are runs/"), "{unknown}");
    clone(&server, &url);
    free(&server.directory().join("work"));
    server.run(["run", "work", "--headless"]).expect_code(0);
    assert_eq!(done(&server.directory().join("work")), "one\ntwo\n");
}
