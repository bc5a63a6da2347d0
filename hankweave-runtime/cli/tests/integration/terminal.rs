//! What a person sees and types on a terminal, which `script` makes.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
use serde_json::json;

use crate::support::project;

/// The program on a terminal of its own, in the folder of the project.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: ChildStdout,
    screen: String,
}

impl Terminal {
    /// Runs the program with these words of a shell; `None`, with the reason printed, where nothing makes terminals.
    pub(crate) fn open(project: &TestProject, arguments: &str) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            println!("skipped: there is no `script`, which makes terminals");
            return None;
        }
        let line = format!("exec '{}' {arguments}", env!("CARGO_BIN_EXE_hankweave"));
        let mut child = project
            .command(Path::new("script"))
            .args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (keys, shown) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let screen = String::new();
        Some(Self {
            child,
            keys,
            shown,
            screen,
        })
    }

    /// Waits until this is on the screen; what comes behind it has not been seen then.
    #[track_caller]
    pub(crate) fn until(&mut self, wanted: &str) {
        let mut chunk = [0; 4_096];
        while !self.screen.contains(wanted) {
            let length = self.shown.read(&mut chunk).unwrap();
            assert!(
                length > 0,
                "the terminal ended before {wanted:?}: {}",
                self.screen
            );
            self.screen.push_str(&String::from_utf8_lossy(&chunk[..length]));
        }
        let (_, rest) = self.screen.split_once(wanted).unwrap();
        self.screen = rest.to_owned();
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the program, and returns its exit code.
    pub(crate) fn close(mut self) -> Option<i32> {
        drop(self.keys);
        self.child.wait().unwrap().code()
    }
}

const CTRL_C: &str = "\u{3}";

/// A codon whose agent does not end when it is asked to.
fn stubborn(project: &TestProject) {
    let script = project.write(
        "agent.sh",
        r#"trap '' INT TERM
printf '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}\n'
touch begun
while :; do sleep 600; done"#,
    );
    let agent = json!({"command": ["sh", script], "stream": "claude"});
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": "go"}]}),
    );
}

fn begun(project: &TestProject) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !project.directory().join("begun").exists() {
        assert!(Instant::now() < deadline, "the agent does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ctrl_c_is_answered_at_once_and_the_second_one_ends_what_runs() {
    let project = project();
    stubborn(&project);
    let Some(mut terminal) = Terminal::open(&project, "run") else {
        return;
    };
    begun(&project);
    terminal.press(CTRL_C);
    terminal.until("stopping: the agent has 5 s; Ctrl+C again ends it now");
    let begin = Instant::now();
    terminal.press(CTRL_C);
    terminal.until("stopping: what still runs is ended now");
    terminal.until("Stopped (interrupted by SIGINT)");
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "the grace was not cut short"
    );
    assert_eq!(terminal.close(), Some(130));
    assert_eq!(project.left_behind(), []);
}

#[test]
fn a_stop_from_elsewhere_is_told_on_the_terminal_of_the_run() {
    let project = project();
    stubborn(&project);
    let Some(mut terminal) = Terminal::open(&project, "run") else {
        return;
    };
    begun(&project);
    project.run(["stop"]).expect_code(0);
    terminal.until("stopping (on request): the agent has 5 s; Ctrl+C ends it now");
    project.run(["stop", "--force"]).expect_code(0);
    terminal.until("stopping: what still runs is ended now");
    // Unfinished on purpose, with force as without.
    assert_eq!(terminal.close(), Some(3));
}

// After a restart nobody has seen the failure; how long it still takes is counted down all the same.
#[test]
fn the_rest_of_a_usage_limit_is_counted_down_after_a_restart_as_well() {
    let project = project();
    let script = project.write(
        "agent.sh",
        r#"printf '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}\n'
printf '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%s,"rateLimitType":"five_hour"}}\n' $(($(date +%s) + 3600))
printf '{"type":"result","is_error":true,"session_id":"s-1","result":"You have hit your limit","api_error_status":429,"usage":{}}\n'
exit 1"#,
    );
    let agent = json!({"command": ["sh", script], "stream": "claude"});
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": "go"}]}),
    );
    for _ in 0..2 {
        let Some(mut terminal) = Terminal::open(&project, "run") else {
            return;
        };
        // It moves: not one line only.
        terminal.until("the usage limit ends in ");
        terminal.until("the usage limit ends in ");
        terminal.press(CTRL_C);
        assert_eq!(terminal.close(), Some(130));
    }
}
