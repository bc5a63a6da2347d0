//! The record outlives what agents do to it: commands that remove the state directory, or a part of it, while a run works.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hankweave_testing::{Finished, ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::support::{assert_checkpoint, assert_usd, codon, project};

/// Both gits of a machine, where they exist.
fn gits() -> Vec<&'static str> {
    let known = ["/usr/bin/git", "/usr/local/bin/git"];
    known.into_iter().filter(|git| Path::new(git).exists()).collect()
}

/// A project of git's with three codons, the second of which does `command` and then says one thing more.
fn three_codons(command: &str) -> TestProject {
    let project = project();
    with_three_codons(&project, command);
    project
}

fn with_three_codons(project: &TestProject, command: &str) {
    let usage = json!({"input": 1000, "output": 1000});
    let script = |text: &str, command: &str| {
        json!({"turns": [
            {"text": text, "usage": usage, "tools": [{"append": {"path": "work.txt", "content": format!("{text}\n")}},
                {"bash": {"command": command}}]},
            {"text": "done", "usage": usage},
        ]})
    };
    project.write("hank/one.json", script("one", "true").to_string());
    project.write("hank/two.json", script("two", command).to_string());
    project.write("hank/three.json", script("three", "true").to_string());
    let codon = |id: &str| {
        json!({"id": id, "name": id, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go",
            "agent": {"script": format!("{id}.json")}})
    };
    project.write(
        "hank/hank.json",
        json!({"hank": [codon("one"), codon("two"), codon("three")]}).to_string(),
    );
    project.write(".gitignore", "ignored\n");
    git(project, &["init", "-q"]);
    git(project, &["add", "-A"]);
    git(
        project,
        &[
            "-c",
            "user.name=n",
            "-c",
            "user.email=e@x",
            "commit",
            "-qm",
            "begin",
        ],
    );
}

fn git(project: &TestProject, arguments: &[&str]) -> String {
    git_of(project, "git", arguments)
}

#[track_caller]
fn git_of(project: &TestProject, git: &str, arguments: &[&str]) -> String {
    let done = project.command(Path::new(git)).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

const IN_PLACE: [&str; 5] = ["run", "hank/hank.json", "--headless", "-e", "."];

/// Runs the hank in the project itself.
fn run(project: &TestProject) -> Finished {
    project.run(IN_PLACE)
}

/// Each codon ran once and was paid once, its checkpoints can be restored, and the journal has no gap.
#[track_caller]
fn assert_whole(project: &TestProject, told: &Finished) {
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{told}\n{state:#}");
    for id in ["one", "two", "three"] {
        let record = codon(&runs[0], id);
        assert_eq!(record["status"], "completed", "{told}\n{state:#}");
        assert_usd(&record["finalCost"], 2.0 * 0.018);
        assert_checkpoint(project, &project.directory(), &record["completionCheckpoint"]);
    }
    project.run(["checkpoints", "verify"]).expect_code(0);
    project.run(["state", "validate"]).expect_code(0);
    let journal = project.run(["journal", "--json"]);
    let numbers: Vec<u64> = journal
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["seq"].as_u64())
        .collect();
    assert_eq!(
        numbers,
        (1..=numbers.len() as u64).collect::<Vec<_>>(),
        "{journal}"
    );
}

fn state_dir(project: &TestProject) -> PathBuf {
    project.directory().join(".hankweave")
}

/// The folder of spare records in the home of a project.
fn records(project: &TestProject) -> PathBuf {
    project.home().join(".local/state/hankweave/records")
}

/// Returns the existing spare records.
fn spares(project: &TestProject) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(records(project)) else {
        return Vec::new();
    };
    found.map(|entry| entry.unwrap().path()).collect()
}

// covers: P11, F22
#[test]
fn what_an_agent_removes_of_the_record_is_put_back_and_nothing_is_paid_twice() {
    let mut commands = vec![
        "rm -rf .hankweave".to_owned(),
        "rm -rf .hankweave/*".to_owned(),
        "find . -path ./.git -prune -o -type f -name '*' ! -path './hank/*' -delete".to_owned(),
        "rm -rf .hankweave/checkpoints".to_owned(),
        "rm -rf .hankweave/events .hankweave/runs".to_owned(),
        "rm -f .hankweave/state.json .hankweave/state.log".to_owned(),
        "rm -rf .hankweave && mkdir -p \"$TMPDIR\"".to_owned(),
        "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e@x GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e@x; git stash -q -a; git stash pop -q || true".to_owned(),
    ];
    for git in gits() {
        for arguments in ["clean -fdx", "clean -ffdx", "clean -fdX", "stash -a", "stash -u"] {
            commands.push(format!("{git} -c user.name=n -c user.email=e@x {arguments}"));
        }
    }
    for command in commands {
        println!("{command}");
        let project = three_codons(&command);
        let told = run(&project);
        assert_eq!(told.code, Some(0), "{command}: {told}");
        assert_whole(&project, &told);
        if command.contains("rm -rf .hankweave") {
            assert!(
                told.stdout.contains("has been put back") || told.stderr.contains("has been put back"),
                "{told}"
            );
            assert_told_before_its_end(&project, "two");
        }
        assert_eq!(spares(&project), Vec::<PathBuf>::new(), "{command}");
    }
}

/// The journal, and so each screen, reports the removal before the end of the codon.
#[track_caller]
fn assert_told_before_its_end(project: &TestProject, codon: &str) {
    let journal = project.run(["journal", "--json"]).stdout;
    let events: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let position =
        |is_it: &dyn Fn(&str) -> bool| events.iter().position(|event| is_it(&event.to_string())).unwrap();
    let told = position(&|event| event.contains("has been put back"));
    let ended = position(&|event| event.contains("codon.completed") && event.contains(codon));
    assert!(told < ended, "{journal}");
}

/// A spare record on another file system, which holds copies, works as well.
// covers: P11
#[test]
fn a_spare_record_on_another_file_system_is_as_good() {
    let Some(elsewhere) = another_file_system() else {
        return;
    };
    for command in [
        "rm -rf .hankweave",
        "git clean -qffdx",
        "rm -f .hankweave/*",
        "rm -rf .hankweave/events",
    ] {
        println!("{command}");
        let mut project = three_codons(command);
        project.set("XDG_STATE_HOME", elsewhere.path());
        let told = run(&project);
        assert_eq!(told.code, Some(0), "{told}");
        assert_whole(&project, &told);
    }
    let mut project = three_codons(KILLED);
    project.set("XDG_STATE_HOME", elsewhere.path());
    assert_goes_on_after_a_kill(&project);
    assert!(!elsewhere.path().join("hankweave/records").exists());
}

/// A folder on another file system than the projects of tests; `None`, and a word about it, where there is none.
fn another_file_system() -> Option<tempfile::TempDir> {
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    let shared = Path::new("/dev/shm");
    let is_another = device(shared).is_some() && device(shared) != device(&std::env::temp_dir());
    if !is_another {
        println!("skipped: there is no other file system");
        return None;
    }
    Some(tempfile::tempdir_in(shared).unwrap())
}

/// Removes the record and kills hankweave before it could notice: no thread is at work any more when the record goes.
const KILLED: &str = "p=$(ps -o ppid= -p $PPID); kill -STOP $p; while ps -L -o stat= -p $p | grep -qv T; do :; done; rm -rf .hankweave; kill -9 $p; sleep 60";

/// A process that is killed before it could put anything back leaves that to the next start.
// covers: P11, F1
#[test]
fn what_a_killed_run_could_not_put_back_the_next_one_does() {
    let project = three_codons(KILLED);
    assert_goes_on_after_a_kill(&project);
    assert_eq!(spares(&project), Vec::<PathBuf>::new());
}

#[track_caller]
fn assert_goes_on_after_a_kill(project: &TestProject) {
    let killed = run(project);
    assert_eq!(killed.code, None, "{killed}");
    assert!(!state_dir(project).join("state.log").exists());
    end_two_well(&project.directory());
    let told = run(project);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(told.stderr.contains("has been put back"), "{told}");
    assert_eq!(times(&project.state(&project.directory())), (1, 2, 1), "{told}");
    project.run(["checkpoints", "verify"]).expect_code(0);
}

/// Lets the second codon do nothing bad when it runs again.
fn end_two_well(project: &Path) {
    let script = json!({"turns": [{"text": "two", "usage": {"input": 1000, "output": 1000}}]});
    fs::write(project.join("hank/two.json"), script.to_string()).unwrap();
}

/// How often each codon has run.
fn times(state: &Value) -> (usize, usize, usize) {
    let runs = state["runs"].as_array().unwrap();
    let ran: Vec<_> = runs
        .iter()
        .flat_map(|run| run["codons"].as_array().unwrap())
        .collect();
    let times = |id: &str| ran.iter().filter(|codon| codon["codonId"] == id).count();
    (times("one"), times("two"), times("three"))
}

/// A spare record is tied to the directory itself: a project that was moved finds it, a copy and another project of its name do not.
// covers: P11
#[test]
fn a_spare_record_is_of_one_directory_whatever_that_is_called() {
    let project = three_codons(KILLED);
    assert_eq!(run(&project).code, None);
    let (here, copy, moved) = (
        project.directory(),
        project.home().join("copy"),
        project.home().join("moved"),
    );
    let copied = project
        .command(Path::new("cp"))
        .arg("-a")
        .arg(&here)
        .arg(&copy)
        .status()
        .unwrap();
    assert!(copied.success());
    // The killed run may have begun to put its record back.
    let _ = fs::remove_dir_all(copy.join(".hankweave"));
    fs::rename(&here, &moved).unwrap();
    fs::create_dir(&here).unwrap();
    with_three_codons(&project, "true");
    let run_in = |folder: &Path| {
        end_two_well(folder);
        let told = project.run([
            "run".as_ref(),
            folder.join("hank/hank.json").as_os_str(),
            "--headless".as_ref(),
            "-e".as_ref(),
            folder.as_os_str(),
        ]);
        assert_eq!(told.code, Some(0), "{told}");
        (
            times(&project.state(folder)),
            told.stderr.contains("has been put back"),
        )
    };
    assert_eq!(run_in(&moved), ((1, 2, 1), true));
    assert_eq!(run_in(&copy), ((1, 1, 1), false));
    assert_eq!(run_in(&here), ((1, 1, 1), false));
}

// covers: P11
#[test]
fn who_removes_the_record_between_two_runs_begins_anew() {
    let project = three_codons("true");
    for _ in 0..2 {
        let told = run(&project);
        assert_eq!(told.code, Some(0), "{told}");
        assert!(!told.stderr.contains("put back"), "{told}");
        assert_eq!(times(&project.state(&project.directory())), (1, 1, 1));
        fs::remove_dir_all(state_dir(&project)).unwrap();
    }
}

/// While the state directory is missing, no other process starts in it, and commands that only read print something sensible.
// covers: P11, L1
#[test]
fn nobody_gets_in_while_the_record_is_gone() {
    let hankweave = env!("CARGO_BIN_EXE_hankweave");
    let command = format!(
        "rm -rf .hankweave; {hankweave} run hank/hank.json --headless -e . > /dev/null 2>&1; echo $? > second; \
         {hankweave} status > /dev/null 2>&1; echo $? > status; {hankweave} attach --json > /dev/null 2>&1 & sleep 0.2; kill $!"
    );
    let project = three_codons(&command);
    let told = run(&project);
    assert_eq!(told.code, Some(0), "{told}");
    assert_whole(&project, &told);
    let code = |name: &str| fs::read_to_string(project.directory().join(name)).unwrap();
    assert_eq!(code("second"), "75\n");
    assert_ne!(code("status"), "70\n");
}

// covers: P11, G7
#[test]
fn one_can_go_back_behind_a_removal_and_a_loop_survives_one_in_each_iteration() {
    let project = project();
    let step = json!({"turns": [{"text": "on", "usage": {"input": 1000, "output": 1000},
        "tools": [{"append": {"path": "work.txt", "content": "${ITERATION}\n"}}, {"bash": {"command": "rm -rf .hankweave"}}]},
        {"text": "done"}]});
    project.write("hank/step.json", step.to_string());
    project.write_hank(&json!({"hank": []}));
    project.write(
        "hank/hank.json",
        json!({"hank": [{"type": "loop", "id": "again", "name": "Again", "terminateOn": {"type": "iterationLimit", "limit": 3},
            "codons": [{"id": "step", "name": "Step", "model": "claude-sonnet-4-5", "continuationMode": "fresh",
                "promptText": "go", "agent": {"script": "step.json"}}]}]})
        .to_string(),
    );
    let told = run(&project);
    assert_eq!(told.code, Some(0), "{told}");
    let work = || fs::read_to_string(project.directory().join("work.txt")).unwrap();
    assert_eq!(work(), "0\n1\n2\n");
    let state = project.state(&project.directory());
    let codons = state["runs"][0]["codons"].as_array().unwrap();
    assert_eq!(codons.len(), 3, "{state:#}");
    for codon in codons {
        assert_usd(&codon["finalCost"], 0.018);
    }
    let first = codons
        .iter()
        .find(|codon| codon["codonId"] == "step#0")
        .unwrap_or(&codons[0]);
    let sha = first["completionCheckpoint"].as_str().unwrap();
    project.run(["rollback", "--to", sha]).expect_code(0);
    assert_eq!(work(), "0\n");
}

/// Also without a spare record: git passes over the folders with the most in them, in directories of earlier versions from the next start on.
// covers: P12
#[test]
fn git_clean_between_two_runs_costs_nothing_that_was_paid() {
    for git in gits() {
        let project = three_codons("exit 0");
        project.write(
            "hank/three.json",
            json!({"turns": [], "result": {"message": "no"}}).to_string(),
        );
        assert_eq!(run(&project).code, Some(1));
        for folder in ["checkpoints", "events", "runs"] {
            fs::remove_file(state_dir(&project).join(folder).join(".git")).unwrap();
        }
        assert_eq!(run(&project).code, Some(1));
        assert_eq!(
            git_of(&project, git, &["status", "--short"]),
            " M hank/three.json\n?? work.txt\n"
        );
        git_of(&project, git, &["add", "-A"]);
        git_of(&project, git, &["clean", "-fdx"]);
        assert!(!state_dir(&project).join("state.json").exists());
        project.write(
            "hank/three.json",
            json!({"turns": [{"text": "three"}]}).to_string(),
        );
        let told = run(&project);
        assert_eq!(told.code, Some(0), "{told}");
        assert_eq!(times(&project.state(&project.directory())), (1, 1, 3), "{told}");
        project.run(["checkpoints", "verify"]).expect_code(0);
        // To git the repository of the checkpoints is what it was.
        let clone = project.home().join("clone");
        git_of(
            &project,
            git,
            &["clone", "-q", ".hankweave/checkpoints", clone.to_str().unwrap()],
        );
        project
            .checkpoints_git(&project.directory(), &["fsck", "--strict"])
            .expect_code(0);
    }
}

/// An agent that moves the record out of its way has moved a copy: the run continues in the record that was put back, and shares no
/// file with that one.
// covers: P11
#[test]
fn a_record_that_was_moved_away_is_put_back_and_shares_nothing_with_the_moved_one() {
    let project = three_codons("mv .hankweave ../moved");
    let told = run(&project);
    assert_eq!(told.code, Some(0), "{told}");
    assert_whole(&project, &told);
    let moved = project.directory().join("../moved");
    for name in ["state.log", "events/000001.jsonl"] {
        let [here, there] =
            [state_dir(&project), moved.clone()].map(|dir| fs::metadata(dir.join(name)).unwrap());
        assert_ne!(here.ino(), there.ino(), "{name}");
        assert_eq!((here.nlink(), there.nlink()), (1, 1), "{name}");
    }
    assert_eq!(spares(&project), Vec::<PathBuf>::new());
    // Also where the run was killed before it could notice.
    let project = three_codons(&KILLED.replace("rm -rf .hankweave", "mv .hankweave ../moved"));
    assert_goes_on_after_a_kill(&project);
}

/// Commands that only look find what a killed run could not put back, and say so once.
// covers: P11
#[test]
fn what_a_killed_run_could_not_put_back_is_found_by_all_commands() {
    for look in [
        &["status"][..],
        &["state", "history"],
        &["checkpoints"],
        &["rollback", "--last-success"],
    ] {
        let project = three_codons(KILLED);
        assert_eq!(run(&project).code, None);
        assert!(!state_dir(&project).join("state.log").exists());
        let told = project.run(look);
        assert_eq!(told.code, Some(0), "{look:?}: {told}");
        assert_eq!(
            told.stderr.matches("has been put back").count(),
            1,
            "{look:?}: {told}"
        );
        let again = project.run(["status"]);
        assert!(!again.stderr.contains("put back"), "{again}");
        end_two_well(&project.directory());
        let told = run(&project);
        assert_eq!(told.code, Some(0), "{told}");
        assert_eq!(times(&project.state(&project.directory())), (1, 2, 1), "{told}");
        assert_eq!(spares(&project), Vec::<PathBuf>::new());
    }
}

/// Services and containers may run without a home.
// covers: P11
#[test]
fn a_user_without_a_home_has_a_spare_record_as_well() {
    let mut project = three_codons("rm -rf .hankweave");
    project.set("HOME", "");
    let told = run(&project);
    assert_eq!(told.code, Some(0), "{told}");
    assert_whole(&project, &told);
}

/// Without a place for a second copy the run ends, and says what is true.
// covers: P11, P5
#[test]
fn a_record_that_cannot_be_put_back_is_not_said_to_be() {
    for (command, said) in [
        (
            "rm -rf .hankweave",
            "was removed or moved, in whole or in part, and could not be put back",
        ),
        // Which of the two words comes depends on what notices it first: the lock, or a file that is written.
        ("mv .hankweave ../elsewhere", "move it back"),
    ] {
        let mut project = three_codons(command);
        project.set("XDG_STATE_HOME", "/proc/none").damages_checkpoints();
        let told = run(&project);
        assert_eq!(told.code, Some(74), "{command}: {told}");
        assert!(told.stderr.contains(said), "{command}: {told}");
        assert!(!told.stderr.contains("make room"), "{command}: {told}");
        if command.starts_with("mv") {
            let _ = fs::remove_dir_all(state_dir(&project));
            fs::rename(project.directory().join("../elsewhere"), state_dir(&project)).unwrap();
            end_two_well(&project.directory());
            let next = run(&project);
            assert_eq!(next.code, Some(0), "{next}");
            assert_eq!(times(&project.state(&project.directory())).0, 1, "{next}");
        }
    }
}

/// The real claude runs the command with its own tool, in a codon of its own, and continues working.
// covers: P11
#[test]
fn what_claude_removes_with_its_bash_tool_is_put_back() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    for command in ["git clean -fdx", "git clean -ffdx", "rm -rf .hankweave"] {
        let usage = |output: u32| json!({"input": 1000, "output": output});
        let lane = |word: &str, command: &str| {
            json!({"name": word, "when": {"user": word}, "turns": [
                {"text": "I do it.", "usage": usage(50), "tools": [{"op": "bash", "command": command, "description": "Tidy up"}]},
                {"text": "I note it.", "usage": usage(60), "tools": [{"op": "bash", "command": format!("echo {word} >> work.txt"), "description": "Note it"}]},
                {"text": "Done.", "usage": usage(70)}]})
        };
        let lanes = json!({"require_key": "sk-good", "lanes": [
            lane("FIRST-TASK", "true"), lane("SECOND-TASK", command), lane("THIRD-TASK", "true")]});
        let server = ModelServer::start(Scenario::try_from(lanes).unwrap()).unwrap();
        let mut project = project();
        project.set("HANKWEAVE_CLAUDE_PATH", &claude);
        let codon = |id: &str, prompt: &str| {
            json!({"id": id, "name": id, "agent": "claude", "model": "claude-sonnet-4-5", "continuationMode": "fresh",
                "promptText": prompt, "env": {"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-good",
                "CLAUDE_CODE_MAX_RETRIES": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}})
        };
        project.write(
            "hank/hank.json",
            json!({"hank": [codon("one", "FIRST-TASK"), codon("two", "SECOND-TASK"), codon("three", "THIRD-TASK")]})
                .to_string(),
        );
        git(&project, &["init", "-q"]);
        git(&project, &["add", "-A"]);
        git(
            &project,
            &[
                "-c",
                "user.name=n",
                "-c",
                "user.email=e@x",
                "commit",
                "-qm",
                "begin",
            ],
        );
        let told = run(&project);
        assert_eq!(told.code, Some(0), "{command}: {told}");
        let state = project.state(&project.directory());
        assert_eq!(times(&state), (1, 1, 1), "{command}: {state:#}");
        for id in ["one", "two", "three"] {
            // 3000 in and 180 out.
            assert_usd(&codon_of(&state, id)["finalCost"], 0.0117);
        }
        project.run(["checkpoints", "verify"]).expect_code(0);
    }
}

fn codon_of<'s>(state: &'s Value, id: &str) -> &'s Value {
    codon(&state["runs"][0], id)
}
