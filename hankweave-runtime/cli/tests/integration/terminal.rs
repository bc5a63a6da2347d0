//! What a person sees and types on a terminal, which `script` makes.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::support::{project, shell_agent, writing_agent};

/// Time after which an awaited output counts as missing, also on a busy machine.
const DEADLINE: Duration = Duration::from_secs(180);

/// The program on a terminal of its own, in the folder of the project.
pub(crate) struct Terminal {
    child: Child,
    /// `None` once no more keys are typed.
    keys: Option<ChildStdin>,
    shown: ChildStdout,
    /// All that was sent to it until now.
    sent: Vec<u8>,
    /// What was sent when the last wait began and when it ended; what comes after that has not been seen.
    seen: (usize, usize),
    /// How many lines and columns it has.
    size: (u16, u16),
    /// Its screen.
    drawn: Drawn,
}

impl Terminal {
    /// Runs the program with these words of a shell; `None`, with the reason printed, where nothing makes terminals.
    pub(crate) fn open(project: &TestProject, arguments: &str) -> Option<Self> {
        Self::of(
            project,
            &format!("exec '{}' {arguments}", env!("CARGO_BIN_EXE_hankweave")),
        )
    }

    /// Runs the program on a terminal of this size, like `open`.
    pub(crate) fn sized(project: &TestProject, lines: u16, columns: u16, arguments: &str) -> Option<Self> {
        let program = env!("CARGO_BIN_EXE_hankweave");
        let line = format!("stty rows {lines} columns {columns}; exec '{program}' {arguments}");
        Self::of_size(project, &line, (lines, columns))
    }

    /// Runs a line of a shell that gives the terminal this number of lines and columns, like `open`.
    pub(crate) fn of_size(project: &TestProject, line: &str, size: (u16, u16)) -> Option<Self> {
        let mut terminal = Self::of(project, line)?;
        terminal.size = size;
        terminal.drawn = Drawn::new(size, 0);
        Some(terminal)
    }

    /// Runs a line of a shell on a terminal; `None`, with the reason printed, where nothing makes terminals.
    pub(crate) fn of(project: &TestProject, line: &str) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            println!("skipped: there is no `script`, which makes terminals");
            return None;
        }
        let mut child = project
            .command(Path::new("script"))
            .args(["--quiet", "--return", "--flush", "--command", line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (keys, shown) = (child.stdin.take(), child.stdout.take().unwrap());
        Some(Self {
            child,
            keys,
            shown,
            sent: Vec::new(),
            seen: (0, 0),
            size: (24, 80),
            drawn: Drawn::new((24, 80), 0),
        })
    }

    /// Waits until this is on the screen; what comes after it has not been seen then.
    #[track_caller]
    pub(crate) fn until(&mut self, wanted: &str) {
        let deadline = Instant::now() + DEADLINE;
        let from = self.seen.1;
        let end = loop {
            if let Some(found) = memchr::memmem::find(&self.sent[from..], wanted.as_bytes()) {
                break from + found + wanted.len();
            }
            let read = self.read(deadline);
            assert!(
                read.is_ok(),
                "{} before {wanted:?} came. On the screen:\n{}\nSent since the last time: {:?}",
                read.unwrap_err(),
                self.standing(),
                String::from_utf8_lossy(&self.sent[from..])
            );
        };
        self.seen = (from, end);
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    pub(crate) fn until_standing(&mut self, wanted: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !wanted(&self.standing()) {
            let read = self.read(deadline);
            assert!(
                read.is_ok(),
                "{} before the screen was as wanted:\n{}",
                read.unwrap_err(),
                self.standing()
            );
        }
    }

    /// Returns the lines that are on the screen now.
    pub(crate) fn standing(&self) -> String {
        rows(self.drawn.parser.screen()).join("\n")
    }

    /// Returns the screen with its colours.
    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.drawn.parser.screen()
    }

    /// Returns all lines that are on the screen or have left it at the top.
    pub(crate) fn history(&self) -> String {
        let mut drawn = Drawn::new(self.size, 100_000);
        drawn.draw(&self.sent);
        let screen = drawn.parser.screen_mut();
        screen.set_scrollback(usize::MAX);
        let mut lines = Vec::new();
        for above in (1..=screen.scrollback()).rev() {
            screen.set_scrollback(above);
            lines.extend(rows(screen).into_iter().next());
        }
        screen.set_scrollback(0);
        lines.extend(rows(screen));
        lines.join("\n")
    }

    /// All that was sent until now.
    pub(crate) fn sent(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.sent)
    }

    /// What was sent during the last wait.
    fn seen(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.sent[self.seen.0..self.seen.1])
    }

    /// Takes what is sent next, or says why nothing comes any more.
    fn read(&mut self, deadline: Instant) -> Result<(), &'static str> {
        // Something that is drawn again always has more to say.
        let left = deadline.saturating_duration_since(Instant::now());
        let shown = self.shown.as_fd();
        let mut wanted = [PollFd::new(&shown, PollFlags::IN)];
        if left.is_zero() || poll(&mut wanted, Some(&Timespec::try_from(left).unwrap())).unwrap() == 0 {
            return Err("the deadline passed");
        }
        let mut chunk = [0; 4_096];
        let length = self.shown.read(&mut chunk).unwrap();
        self.drawn.draw(&chunk[..length]);
        self.sent.extend(&chunk[..length]);
        match length {
            0 => Err("the terminal ended"),
            _ => Ok(()),
        }
    }

    /// Takes what has been sent until now.
    pub(crate) fn look(&mut self) {
        // That nothing has been sent is no failure.
        let _ = self.read(Instant::now() + Duration::from_millis(1));
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the program has ended and all its output is read.
    pub(crate) fn until_ended(&mut self) {
        let deadline = Instant::now() + DEADLINE;
        while self.read(deadline).is_ok() {}
        assert!(
            Instant::now() < deadline,
            "the program does not end:\n{}",
            self.standing()
        );
    }

    /// Waits for the end of the program, and returns its exit code.
    #[track_caller]
    pub(crate) fn close(mut self) -> Option<i32> {
        self.keys = None;
        let deadline = Instant::now() + DEADLINE;
        while self.read(deadline).is_ok() {}
        assert!(
            Instant::now() < deadline,
            "the program does not end:\n{}",
            self.standing()
        );
        self.child.wait().unwrap().code()
    }
}

/// Screen of a terminal.
struct Drawn {
    parser: vt100::Parser,
    /// The beginning of a character that is not whole yet.
    rest: Vec<u8>,
}

impl Drawn {
    fn new((lines, columns): (u16, u16), scrollback: usize) -> Self {
        Self {
            parser: vt100::Parser::new(lines, columns, scrollback),
            rest: Vec::new(),
        }
    }

    /// Terminals show U+FFFD in one column, where this parser shows nothing.
    fn draw(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        let end = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        let text = String::from_utf8_lossy(&whole).replace('\u{fffd}', "?");
        self.parser.process(text.as_bytes());
    }
}

fn rows(screen: &vt100::Screen) -> Vec<String> {
    let rows = screen.rows(0, screen.size().1);
    rows.map(|row| row.trim_end().to_owned()).collect()
}

const CTRL_C: &str = "\u{3}";

/// A codon whose agent does not end when it is asked to.
fn stubborn(project: &TestProject) {
    let script = project.write(
        "agent.sh",
        r#"trap '' INT TERM
printf '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}\n'
while :; do sleep 600; done"#,
    );
    let agent = json!({"command": ["sh", script], "stream": "claude"});
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": "go"}]}),
    );
}

#[test]
fn ctrl_c_is_answered_at_once_and_the_second_one_ends_what_runs() {
    let project = project();
    stubborn(&project);
    let Some(mut terminal) = Terminal::open(&project, "run") else {
        return;
    };
    terminal.until(" running");
    terminal.press(CTRL_C);
    terminal.until("stopping: the agent has 5s; Ctrl+C again ends it now");
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
    terminal.until(" running");
    project.run(["stop"]).expect_code(0);
    terminal.until("stopping (on request): the agent has 5s; Ctrl+C ends it now");
    project.run(["stop", "--force"]).expect_code(0);
    terminal.until("stopping: what still runs is ended now");
    // Unfinished on purpose, with force as without.
    assert_eq!(terminal.close(), Some(3));
}

// A restarted run has not met the limit itself; the remaining time is still counted down.
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

#[test]
fn what_is_not_known_of_a_cost_is_said_while_an_answer_is_written() {
    let project = project();
    let agent = writing_agent(&project, "exec sleep 600");
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go"}]}),
    );
    let Some(mut terminal) = Terminal::open(&project, "run") else {
        return;
    };
    terminal.until("at least $0.3000");
    let status = project.run(["status"]);
    assert!(status.stdout.contains("all runs at least $0.3000"), "{status}");
    terminal.press(CTRL_C);
    terminal.until("this run at least $0.3000");
    assert_eq!(terminal.close(), Some(130));
}

/// What a terminal shows of keys would move what is drawn again by a line.
#[test]
fn a_terminal_does_not_show_ctrl_c_where_lines_are_drawn_anew_and_is_given_back_as_it_was() {
    let project = project();
    stubborn(&project);
    let line = format!(
        "trap : INT; stty -a > before; '{}' run; stty -a > after; echo 'given' back",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until(" running");
    terminal.press(CTRL_C);
    terminal.until("Ctrl+C again ends it now");
    assert!(!terminal.seen().contains("^C"), "{:?}", terminal.seen());
    terminal.press(CTRL_C);
    terminal.until("given back");
    terminal.close();
    let settings = |name: &str| std::fs::read_to_string(project.directory().join(name)).unwrap();
    assert_eq!(settings("before"), settings("after"));
}

/// Two codons of an agent that is done at once, of which the second waits for `go`.
fn two_codons(project: &TestProject) {
    let agent = shell_agent(project);
    let codon = |id: &str, prompt: &str| json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt});
    project.write_hank(&json!({"hank": [codon("one", "one"), codon("two", "two, wait for go")]}));
}

/// A line that is drawn again would go over what is being typed.
// covers: CLI-24
#[test]
fn nothing_is_drawn_anew_where_commands_are_typed() {
    let project = project();
    two_codons(&project);
    let Some(mut terminal) = Terminal::open(&project, "run --no-autostart") else {
        return;
    };
    terminal.until("nothing starts by itself");
    terminal.press("next\n");
    terminal.until("one: completed");
    terminal.press("quit\n");
    terminal.until("continue  ");
    assert!(!terminal.sent().contains("\u{1b}[2K"), "{:?}", terminal.sent());
    assert_eq!(terminal.close(), Some(3));
}
