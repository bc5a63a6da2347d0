//! Agents that do not want to end, the processes that they leave running, and a runtime that is itself killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hankweave_testing::processes::{Marked, Watched};
use hankweave_testing::{Finished, Running, TestProject};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{codon, project, shell_agent, strace_is_there, traced};

/// Far longer than anything here takes; it only turns a hang into a failure.
const DEADLINE: Duration = Duration::from_secs(60);

/// Writes a hank of one codon whose agent carries out `body`, lines of shell, between its opening and its closing line. The script is stored
/// outside of the workspace, where no rollback changes it.
pub(crate) fn write_hank(project: &TestProject, body: &str) {
    let opening = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"m","cwd":"/","tools":[]}"#;
    let closing =
        r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done"}"#;
    let script = format!("echo '{opening}'\n{body}\necho '{closing}'\n");
    let path = project.home().join("agent.sh");
    fs::write(&path, script).unwrap();
    let agent = json!({"command": ["sh", path], "stream": "claude"});
    project.write_hank(&json!({"hank": [{
        "id": "a", "name": "A", "model": "m", "continuationMode": "fresh", "promptText": "hello", "agent": agent,
        "rigSetup": [{"type": "command", "command": {"run": "umask > rig-umask.txt"}}],
    }]}));
}

/// Returns the text of a file that a process wrote which has ended.
#[track_caller]
pub(crate) fn text_of(project: &TestProject, name: &str) -> String {
    let text = fs::read_to_string(project.directory().join(name)).unwrap();
    text.trim().to_owned()
}

/// A pipe in the home folder of a project, into which its agent writes one line.
pub(crate) struct Pipe(Receiver<String>);

impl Pipe {
    fn new(project: &TestProject) -> Self {
        Self::named(project, "pipe")
    }

    /// One of this name in the home of the project.
    pub(crate) fn named(project: &TestProject, name: &str) -> Self {
        let path = project.home().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Open at both ends, so that neither opening it here nor writing into it there has to wait.
        let pipe = File::options().read(true).write(true).open(path).unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            BufReader::new(pipe).read_line(&mut line).unwrap();
            sender.send(line)
        });
        Self(lines)
    }

    /// Waits for the line.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let line = self.0.recv_timeout(DEADLINE).expect("a line was written");
        line.trim().to_owned()
    }
}

/// Whether there is such a process, zombies left out.
pub(crate) fn is_there(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// The processes of a project but the runtime itself.
fn family(project: &TestProject, running: &Running) -> Vec<(Marked, Watched)> {
    let processes = project.left_behind().into_iter();
    processes
        .filter(|process| process.pid != running.pid())
        .filter_map(|process| Watched::new(process.pid).map(|watched| (process, watched)))
        .collect()
}

#[track_caller]
fn assert_end(family: &[(Marked, Watched)], deadline: Instant) {
    assert!(!family.is_empty());
    for (process, watched) in family {
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(watched.ends_within(left), "{process:?} lives on");
    }
}

fn started(line: &str) -> bool {
    line.contains("\"codon.started\"")
}

fn only_codon(project: &TestProject) -> Value {
    codon(&project.state(&project.directory())["runs"][0], "a").clone()
}

/// Sessions, descriptors and signals of children do not depend on how hankweave itself was started; the umask is that of the user.
// covers: S1, HANK-24
#[test]
fn what_agents_rigs_and_results_make_has_the_umask_of_the_user() {
    let project = TestProject::new("/bin/sh");
    write_hank(&project, "mkdir -p sub/deep; echo made > sub/deep/made.txt");
    let text = fs::read_to_string(project.directory().join("hank.json")).unwrap();
    let mut hank: Value = serde_json::from_str(&text).unwrap();
    hank["hank"][0]["outputFiles"] = json!([{"copy": ["sub/**"]}]);
    project.write_hank(&hank);
    let line = format!(
        "umask 002; exec '{}' run . --headless -o results/new",
        env!("CARGO_BIN_EXE_hankweave")
    );
    project.run(["-c", &line]).expect_code(0);
    for (path, expected) in [
        ("rig-umask.txt", 0o664),
        ("sub/deep", 0o775),
        ("sub/deep/made.txt", 0o664),
        ("results/new", 0o775),
        ("results/new/sub/deep", 0o775),
        ("results/new/sub/deep/made.txt", 0o664),
        (".hankweave", 0o700),
        (".hankweave/state.json", 0o600),
    ] {
        let mode = fs::metadata(project.directory().join(path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, expected, "{path}: {mode:o}");
    }
}

// covers: S1
#[test]
fn agents_and_rigs_inherit_nothing_from_the_shell_that_started_us() {
    let project = TestProject::new("/bin/sh");
    write_hank(
        &project,
        "umask > umask.txt; ls /proc/$$/fd > fds.txt; while read -r line; do echo \"$line\"; done < /proc/$$/status > status.txt; cat /proc/$$/stat > stat.txt; echo $$ > pid.txt",
    );
    let line = format!(
        "trap '' HUP QUIT USR1; umask 0; exec 9</dev/null; exec '{}' run . --headless",
        env!("CARGO_BIN_EXE_hankweave")
    );
    project.run(["-c", &line]).expect_code(0);

    assert_eq!(text_of(&project, "umask.txt"), "0000");
    assert_eq!(text_of(&project, "rig-umask.txt"), "0000");
    let descriptors = text_of(&project, "fds.txt");
    // The shell itself keeps its script at 10 or so; what was open at 9 is not there.
    assert!(
        !descriptors.lines().any(|descriptor| descriptor == "9"),
        "{descriptors}"
    );
    let status = text_of(&project, "status.txt");
    for mask in ["SigIgn:", "SigBlk:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap();
        let mask = u64::from_str_radix(line.trim(), 16).unwrap();
        // Those of real time belong to the C library.
        assert_eq!(mask & 0x7fff_ffff, 0, "{line}");
    }
    let pid = text_of(&project, "pid.txt");
    let stat = text_of(&project, "stat.txt");
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    assert_eq!(
        (fields[2], fields[3]),
        (&*pid, &*pid),
        "group and session are its own"
    );
}

/// The agent is killed by the kernel together with the runtime, not only by the next start.
// covers: S1, P9, F1
#[test]
fn an_agent_does_not_outlive_a_runtime_that_is_killed() {
    let project = project();
    write_hank(
        &project,
        "trap '' HUP INT TERM\necho $$ > \"$HOME/pipe\"\nsleep 600 & wait",
    );
    let pipe = Pipe::new(&project);
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(started);
    let pid = pipe.line();
    let agent = Watched::new(pid.parse().unwrap()).unwrap();
    assert!(is_there(&pid));
    assert_eq!(running.kill().signal, Some(9));
    assert!(agent.ends_within(DEADLINE), "the agent lives on");
}

/// A process with another session, another environment and a parent that has ended: only its adoption by us shows
/// whose it is. The marker of another codon, as agents of a run inside the run have one, does not protect it.
// covers: S2, S4, P9, F9
#[test]
fn what_dropped_its_session_its_parent_and_its_environment_is_gone_before_the_checkpoint() {
    for (output, environment) in [
        ("</dev/null >/dev/null 2>&1", ""),
        ("", ""),
        ("", "HANKWEAVE_CODON=another"),
    ] {
        let project = project();
        let stray = format!(
            "setsid env -i {environment} /bin/sh -c '(trap \"\" HUP TERM; while :; do date +%N > busy.txt; /bin/sleep 0.01; done) {output} & echo $! > stray.txt'"
        );
        write_hank(
            &project,
            &format!("{stray} & \nwait $!\nwhile [ ! -s busy.txt ]; do :; done"),
        );
        let finished = project.run(["run", "--headless"]);
        finished.expect_code(0);
        assert!(!is_there(&text_of(&project, "stray.txt")), "it lives on");

        let record = only_codon(&project);
        let sha = record["completionCheckpoint"].as_str().unwrap();
        let saved = project.checkpoints_git(&project.directory(), &["show", &format!("{sha}:busy.txt")]);
        let found = fs::read_to_string(project.directory().join("busy.txt")).unwrap();
        assert_eq!(saved.stdout, found, "somebody wrote after the checkpoint");
    }
}

/// Stopping takes the grace of five seconds and not much more, and then nothing is left.
// covers: S3, P9, F9
#[test]
fn a_family_that_ignores_sigterm_is_gone_in_ten_seconds() {
    let project = project();
    let pipe = Pipe::new(&project);
    let child = "sh -c 'trap \"\" TERM HUP INT; echo up; while :; do sleep 600; done' > \"$HOME/pipe\"";
    write_hank(
        &project,
        &format!("trap '' TERM HUP INT\nsetsid {child} &\nwhile :; do sleep 600; done"),
    );
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(started);
    assert_eq!(pipe.line(), "up");
    let family = family(&project, &running);
    let begin = Instant::now();
    running.signal(Signal::TERM);
    // Only until these have ended: the checkpoint after that waits for the disk, which other programs may keep busy.
    assert_end(&family, begin + Duration::from_secs(10));
    running.finish_within(DEADLINE).expect_code(143);
    assert_eq!(project.left_behind(), []);
    let record = only_codon(&project);
    assert_eq!(
        (&record["status"], &record["exitCode"]),
        (&json!("failed"), &json!(137))
    );
}

/// A dozen processes at a time, each of which starts another in a session of its own and ends; all of them share a lock. They end by themselves if
/// they are not killed.
const CHAINS: &str = r#"
import fcntl, os, sys, time
home, again = os.environ["HOME"], len(sys.argv) > 1
if not again:
    kept = {name: os.environ[name] for name in ["HOME", "PROJECT_OF_A_TEST"]}
    os.execve(sys.executable, [sys.executable, sys.argv[0], "again"], kept)
lock = open(home + "/lock", "w")
fcntl.flock(lock, fcntl.LOCK_SH)
end = time.monotonic() + 20
for _ in range(12):
    if os.fork() == 0:
        break
else:
    open(home + "/pipe", "w").write("up\n")
    os._exit(0)
while time.monotonic() < end:
    os.setsid()
    time.sleep(0.005)
    if os.fork() != 0:
        os._exit(0)
"#;

/// A process that ends as soon as it has started another no longer exists when it would be killed, so it is stopped first.
// covers: S2, S3, P9, F9
#[test]
fn what_forks_ends_and_leaves_its_session_all_the_time_does_not_outlive_a_stop() {
    if Command::new("python3").arg("-V").output().is_err() {
        return println!("skipped: there is no python3");
    }
    for _ in 0..4 {
        let project = project();
        let pipe = Pipe::new(&project);
        fs::write(project.home().join("chains.py"), CHAINS).unwrap();
        write_hank(
            &project,
            "python3 \"$HOME/chains.py\" </dev/null >/dev/null 2>&1 &\nexec sleep 600",
        );
        let running = project.start(["run", "--headless"]);
        assert_eq!(pipe.line(), "up");
        running.signal(Signal::TERM);
        running.finish_within(DEADLINE).expect_code(143);
        let lock = File::open(project.home().join("lock")).unwrap();
        let alone = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        assert!(alone.is_ok(), "they live on: {:?}", project.left_behind());
    }
}

/// An agent may work for days, and everything that it starts and leaves would keep its place in the process table.
// covers: S2
#[test]
fn an_orphan_that_has_ended_is_reaped_while_its_agent_works() {
    let project = project();
    write_hank(
        &project,
        r#"(sh -c 'echo $$ > "$HOME/orphan"' &)
until [ -s "$HOME/orphan" ]; do sleep 0.02; done
while [ -e "/proc/$(cat "$HOME/orphan")" ]; do sleep 0.02; done"#,
    );
    let running = project.start(["run", "--headless"]);
    running.finish_within(DEADLINE).expect_code(0);
}

// covers: S5, F10
#[test]
fn an_agent_that_is_killed_has_failed_with_128_and_its_signal() {
    let project = project();
    write_hank(&project, "kill -KILL $$");
    project.run(["run", "--headless"]).expect_code(1);
    let record = only_codon(&project);
    assert_eq!(
        (&record["status"], &record["exitCode"]),
        (&json!("failed"), &json!(137))
    );
    let message = record["failureReason"]["message"].as_str().unwrap();
    assert!(message.contains("killed by signal 9"), "{message}");
}

/// The hank says how long an agent may say nothing (HANK-50).
// covers: S6, HANK-50, F10
#[test]
fn an_agent_that_is_silent_for_too_long_is_stopped_with_a_typed_reason() {
    let project = project();
    write_hank(&project, "sleep 600");
    let mut hank: Value =
        serde_json::from_str(&fs::read_to_string(project.directory().join("hank.json")).unwrap()).unwrap();
    hank["hank"][0]["shimIdleTimeout"] = json!(1);
    project.write_hank(&hank);
    project.run(["run", "--headless"]).expect_code(1);
    let reason = only_codon(&project)["failureReason"].clone();
    assert_eq!(reason["type"], "timeout", "{reason}");
    assert_eq!(project.left_behind(), []);
}

/// Runs a codon with these keys, whose agent carries out `body` between its opening and its closing line; returns the finished run and its codon.
#[track_caller]
fn run_with(project: &TestProject, body: &str, keys: &Value, code: i32) -> (Finished, Value) {
    write_hank(project, body);
    let mut hank: Value =
        serde_json::from_str(&fs::read_to_string(project.directory().join("hank.json")).unwrap()).unwrap();
    let codon = hank["hank"][0].as_object_mut().unwrap();
    codon.extend(keys.as_object().unwrap().clone());
    project.write_hank(&hank);
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(code);
    assert_eq!(project.left_behind(), []);
    (finished, only_codon(project))
}

const SUCCESS: &str =
    r#"echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done"}'"#;
const MESSAGE: &str = r#"echo '{"type":"assistant","parent_tool_use_id":null,"message":{"id":"m-1","role":"assistant","content":[{"type":"text","text":"once more"}]}}'"#;

/// An agent that has said its success and only keeps background work alive is ended, and what it said counts: exit code 143 or death by
/// signal is our doing.
// covers: S6, HANK-50, F10
#[test]
fn background_work_behind_a_success_is_ended_and_the_codon_completes() {
    let keys = json!({"settleSeconds": 1});
    let linger = format!("{SUCCESS}\nsleep 600 & wait");
    for (keys, what) in [
        (keys, "settleSeconds"),
        (json!({"shimIdleTimeout": 1}), "shimIdleTimeout"),
    ] {
        let project = project();
        let (finished, record) = run_with(&project, &linger, &keys, 0);
        assert_eq!(record["status"], "completed", "{record:#}");
        assert!(finished.stdout.contains(what), "{finished}");
        let remark = "what its agent left running was ended 1s after the answer (settleSeconds)";
        let noted = what == "settleSeconds";
        let status = project.run(["status"]).expect_code(0).stdout.clone();
        assert_eq!(
            (finished.stderr.contains(remark), status.contains(remark)),
            (noted, noted),
            "{finished}{status}"
        );
    }
}

/// As long as the agent itself works again, what it said before decides nothing.
// covers: F10
#[test]
fn an_agent_that_works_again_behind_its_answer_is_not_ended_for_it() {
    let project = project();
    let works_again = format!("{SUCCESS}\n{MESSAGE}\nsleep 3; echo late > late.txt\n");
    let (_, record) = run_with(&project, &works_again, &json!({"settleSeconds": 1}), 0);
    assert_eq!(record["exitCode"], 0, "{record:#}");
    assert_eq!(text_of(&project, "late.txt"), "late");
}

/// A user who watches is warned before a silence becomes too long.
// covers: S6, F10
#[test]
fn a_silence_is_warned_of_before_it_is_too_long() {
    let project = project();
    let (finished, _) = run_with(&project, "sleep 600", &json!({"shimIdleTimeout": 2}), 1);
    let warning = "silent for 1.6s; the agent is ended at 2s (shimIdleTimeout)";
    assert!(finished.stdout.contains(warning), "{finished}");
}

/// The pid that a crashed run recorded may belong to any process by now: no process is killed for its number.
// covers: L5, F6
#[test]
fn a_process_that_got_the_recorded_pid_of_an_agent_is_left_alone() {
    let project = project();
    write_hank(&project, "sleep 600");
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(started);
    running.kill();
    let state_file = project.directory().join(".hankweave/state.json");
    // The file may be older than the log, which `state show` reads as well.
    let mut state = project.run(["state", "show", "--json"]).json_document();
    let innocent = TestProject::new("/bin/sh");
    let mut other = innocent.start(["-c", "echo up; exec sleep 600"]);
    other.wait_for_line(|line| line == "up\n");
    state["runs"][0]["codons"][0]["claudePid"] = json!(other.pid());
    fs::write(&state_file, state.to_string()).unwrap();
    let log = project.directory().join(".hankweave/state.log");
    fs::write(&log, "").unwrap();

    fs::write(project.home().join("agent.sh"), "exit 3\n").unwrap();
    project.run(["run", "--headless"]).expect_code(1);
    assert_eq!(
        project.state(&project.directory())["runs"][1]["status"],
        "crashed"
    );
    assert!(is_there(&other.pid().to_string()));
}

/// A stop is acknowledged at once, and a codon that is stopped has not failed.
// covers: F19, CLI-1
#[test]
fn a_stop_is_answered_at_once_and_is_no_failure() {
    for (signal, code, answer) in [
        (
            Signal::INT,
            130,
            "stopping: the agent has 5s; Ctrl+C again ends it now",
        ),
        (
            Signal::TERM,
            143,
            "stopping (SIGTERM): the agent has 5s; a second signal ends it now",
        ),
    ] {
        let project = project();
        // It ends only when the answer was seen.
        write_hank(
            &project,
            "trap '' TERM INT\nwhile [ ! -e seen ]; do sleep 0.05; done",
        );
        let mut running = project.start(["run", "--headless"]);
        running.wait_for_line(|line| line.contains("the agent works"));
        running.signal(signal);
        running.wait_for_word(|line| line.contains(answer));
        project.write("seen", "");
        let finished = running.finish_within(DEADLINE);
        finished.expect_code(code);
        let lines = format!("{}{}", finished.stdout, finished.stderr);
        assert!(lines.contains("a: stopped after"), "{finished}");
        assert!(!lines.contains("fail"), "{finished}");
    }
}

/// A hang-up stops a run like SIGTERM, unless it was started to outlive its terminal.
// covers: F19
#[test]
fn a_hang_up_stops_a_run_but_not_under_nohup() {
    let project = project();
    write_hank(&project, "while [ ! -e go ]; do sleep 0.01; done");
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(started);
    running.signal(Signal::HUP);
    running.finish_within(DEADLINE).expect_code(143);

    let shell = TestProject::new("/bin/sh");
    write_hank(&shell, "while [ ! -e go ]; do sleep 0.01; done");
    let line = format!(
        "trap '' HUP; exec '{}' run --headless --json",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let mut running = shell.start(["-c", &line]);
    running.wait_for_line(started);
    running.signal(Signal::HUP);
    shell.write("go", "");
    running.finish_within(DEADLINE).expect_code(0);
}

/// A start is busy with the directory for as long as that takes; a signal meanwhile is handled as well.
// covers: F19, P9
#[test]
fn a_signal_that_comes_during_the_start_leaves_nothing_behind() {
    if !strace_is_there() {
        return;
    }
    let project = TestProject::new("env");
    write_hank(&project, "");
    let lock = project.directory().join(".hankweave/server.lock");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 143)] {
        // The first thing that a start does with the directory.
        let inject = format!("inject=renameat,renameat2:signal=SIG{signal}:when=1");
        // As it is named in the call, which goes by the descriptor of the directory.
        let written = "server.lock.tmp";
        let stopped = traced(&project, &["-e", &inject, "-P", written], &["run", "--headless"]);
        stopped.expect_code(code);
        assert!(!lock.exists(), "{stopped}");
        assert_eq!(project.left_behind(), []);
        let runs = &project.state(&project.directory())["runs"];
        assert_eq!(runs, &json!([]), "no run has begun");
    }
}

/// The reader of our output may stop reading; the work continues.
// covers: F19, CLI-6
#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    let shell = TestProject::new("/bin/sh");
    write_hank(&shell, "while [ ! -e go ]; do sleep 0.01; done");
    let line = format!(
        "('{}' run --headless --json; echo $? > code.txt) | (read -r first; exec 0</dev/null; touch go)",
        env!("CARGO_BIN_EXE_hankweave")
    );
    shell.run(["-c", &line]).expect_code(0);
    assert_eq!(text_of(&shell, "code.txt"), "0");
    assert_eq!(only_codon(&shell)["status"], "completed");
}

/// The reader of our output may be stuck; the work continues, and so does its end.
// covers: F19, CLI-6
#[test]
fn a_reader_that_does_not_read_holds_nothing_up() {
    let shell = TestProject::new("/bin/sh");
    let said = Pipe::new(&shell);
    let filler = "x".repeat(1_000);
    write_hank(
        &shell,
        &format!(
            "yes {filler} | head -n 500; echo said > \"$HOME/pipe\"; while [ ! -e go ]; do sleep 0.01; done"
        ),
    );
    // A pipe that the shell itself keeps open, and that is not read.
    let line = format!(
        "mkfifo \"$HOME/unread\"; exec 3<>\"$HOME/unread\"; exec '{}' run --headless --json >&3",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let running = shell.start(["-c", &line]);
    assert_eq!(said.line(), "said");
    running.signal(Signal::TERM);
    running.finish_within(DEADLINE).expect_code(143);
    assert_eq!(only_codon(&shell)["status"], "failed");
}

/// A reader of our output may be slow: it still gets what was printed before the run had ended.
// covers: F19
#[test]
fn a_reader_that_begins_when_everything_is_over_misses_nothing() {
    let shell = TestProject::new("/bin/sh");
    let filler = "x".repeat(1_000);
    write_hank(&shell, &format!("yes {filler} | head -n 500"));
    // The last save of the state comes after the last event.
    let line = format!(
        "'{}' run --headless --json | (until grep -q endTime .hankweave/state.json; do sleep 0.01; done; cat > told)",
        env!("CARGO_BIN_EXE_hankweave")
    );
    shell.run(["-c", &line]).expect_code(0);
    let journal = text_of(&shell, ".hankweave/events/000001.jsonl");
    let told = text_of(&shell, "told");
    let last = told.lines().last();
    assert!(told.lines().count() > 500, "{last:?}");
    assert!(journal.ends_with(&told), "{last:?}");
}

/// Our own output may go to a full disk; the run does not depend on it.
// covers: F3, F19
#[test]
fn output_that_cannot_be_written_costs_nothing() {
    let shell = TestProject::new("/bin/sh");
    write_hank(&shell, "exit 3");
    let binary = env!("CARGO_BIN_EXE_hankweave");
    for (format, code) in [("--json", 1), ("-vv", 1), ("--new", 1), ("--no-such-option", 2)] {
        let line = format!("exec '{binary}' run --headless {format} >/dev/full 2>/dev/full");
        shell.run(["-c", &line]).expect_code(code);
    }
}

/// A result that cannot be written is a failure, with a message.
// covers: F3
#[test]
fn a_result_that_cannot_be_written_is_told() {
    let shell = TestProject::new("/bin/sh");
    let line = format!(
        "exec '{}' diagram codon >/dev/full",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let refused = shell.run(["-c", &line]);
    refused.expect_code(74);
    let told = "failed to write to standard output: No space left on device";
    assert!(refused.stderr.contains(told), "{refused}");
}

/// Two signals: the agent gets no grace.
// covers: D8, F19
#[test]
fn a_second_signal_kills_at_once() {
    let project = project();
    write_hank(&project, "trap '' TERM INT\nwhile :; do sleep 600; done");
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(started);
    let family = family(&project, &running);
    let begin = Instant::now();
    running.signal(Signal::INT);
    // Of another kind, because two of one kind may arrive as one.
    running.signal(Signal::TERM);
    assert_end(&family, begin + Duration::from_secs(4));
    let code = running.finish_within(DEADLINE).code;
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    assert_eq!(project.left_behind(), []);
}

/// A second signal is handled during the grace period, too.
// covers: D8, F19
#[test]
fn a_second_signal_ends_the_grace_that_has_begun() {
    let project = project();
    let pipe = Pipe::new(&project);
    write_hank(
        &project,
        "trap 'echo heard > \"$HOME/pipe\"' TERM\nwhile :; do sleep 0.2; done",
    );
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(started);
    running.signal(Signal::INT);
    assert_eq!(pipe.line(), "heard");
    let begin = Instant::now();
    running.signal(Signal::INT);
    running.finish_within(DEADLINE).expect_code(130);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert_eq!(project.left_behind(), []);
    let state = project.state(&project.directory());
    let stopped = &state["runs"][0]["codons"][0];
    assert!(
        stopped["errorCheckpoint"].is_string(),
        "the files are kept all the same: {stopped:#}"
    );
}

/// So is it while a command of a rig is asked to end.
// covers: D8, F19
#[test]
fn a_second_signal_ends_the_grace_of_a_rig() {
    let project = project();
    let pipe = Pipe::new(&project);
    // A shell that is about to start a sleep handles a signal after the sleep, so the sleep must not be long.
    let command = "trap 'echo heard > \"$HOME/pipe\"' TERM; echo up; while :; do sleep 0.2; done";
    project.write_hank(&json!({"hank": [{
        "id": "a", "name": "A", "agent": "scripted", "continuationMode": "fresh", "promptText": "hello",
        "rigSetup": [{"type": "command", "command": {"run": command}}],
    }]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("rig.output"));
    running.signal(Signal::TERM);
    assert_eq!(pipe.line(), "heard");
    let begin = Instant::now();
    running.signal(Signal::TERM);
    running.finish_within(DEADLINE).expect_code(143);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert_eq!(project.left_behind(), []);
}

/// A live holder that says nothing, stopped or suspended, still holds the directory.
// covers: L2, F7
#[test]
fn a_stopped_holder_admits_nobody() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&json!({"hank": [{
        "id": "a", "name": "A", "model": "m", "continuationMode": "fresh", "promptText": "wait for go", "agent": agent,
    }]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(started);
    running.signal(Signal::STOP);
    let lock = project.directory().join(".hankweave/server.lock");
    let mut record: Value = serde_json::from_str(&fs::read_to_string(&lock).unwrap()).unwrap();
    record["lastHeartbeat"] = json!("2001-01-01T00:00:00.000Z");
    fs::write(&lock, record.to_string()).unwrap();
    let refused = project.run(["run", "--headless"]);
    refused.expect_code(75);
    assert!(
        refused.stderr.contains(&format!("pid {}", running.pid())),
        "{refused}"
    );
    running.signal(Signal::CONT);
    running.signal(Signal::TERM);
    running.finish_within(DEADLINE).expect_code(143);
}

/// Both folders are on one machine. The copied run has no agent, because a start ends the agents of a run that it takes for crashed.
// covers: L4
#[test]
fn a_folder_that_is_copied_while_a_run_goes_on_is_another_one() {
    let project = project();
    write_hank(
        &project,
        "while [ ! -e go ]; do sleep 0.05; done; echo x > done.txt",
    );
    let mut running = project.start(["run", "-e", "work", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"s-1\""));
    let (work, copy) = (project.directory().join("work"), project.directory().join("copy"));
    // The exit code of `cp` is not checked: it fails if a temporary file of the run was removed before its turn, and still copies everything else.
    Command::new("cp")
        .arg("-a")
        .args([&work, &copy])
        .status()
        .unwrap();

    fs::write(copy.join("go"), "").unwrap();
    project.run(["run", "-e", "copy", "--headless"]).expect_code(0);
    let statuses = |place: &Path| -> Vec<Value> {
        let state = project.state(place);
        let runs = state["runs"].as_array().unwrap();
        runs.iter().map(|run| run["status"].clone()).collect()
    };
    assert_eq!(statuses(&copy), [json!("completed"), json!("crashed")]);
    assert!(copy.join("done.txt").exists());

    // The original knows nothing of it, still has its lock, and its agent works on.
    assert_eq!(statuses(&work), [json!("running")]);
    project.run(["run", "-e", "work", "--headless"]).expect_code(75);
    fs::write(work.join("go"), "").unwrap();
    running.finish_within(DEADLINE).expect_code(0);
}
