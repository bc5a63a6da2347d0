//! A throw-away project in which the built `hankweave` binary runs, isolated from the user who runs the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::git::assert_sound;
use crate::processes::{Marked, kill_marked, marked};

/// Every process of a project carries this variable, with a value of the project's own. Its name must not begin with
/// `HANKWEAVE_`, for then agents and rigs do not get it, and processes that they leave behind would not be found.
const MARKER: &str = "PROJECT_OF_A_TEST";

/// Default limit for the duration of a call.
const DEADLINE: Duration = Duration::from_secs(120);

/// A temporary folder with a project, a home and a scratch folder. Everything in it is removed with it, also
/// running processes. Before that git checks every checkpoint repository in it.
#[derive(Debug)]
pub struct TestProject {
    folder: tempfile::TempDir,
    binary: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    marker: String,
    is_damaged: AtomicBool,
}

impl TestProject {
    /// Makes an empty project for `binary`: in a test of the runtime, `env!("CARGO_BIN_EXE_hankweave")`.
    ///
    /// # Panics
    ///
    /// Panics when the temporary folder cannot be made, as do all methods when the file system fails them.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self::in_folder(tempfile::tempdir(), binary.into())
    }

    /// Makes an empty project in memory, if the system has a folder there: for tests that start the program very often
    /// and need no real disk.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn in_memory(binary: impl Into<PathBuf>) -> Self {
        let shared = Path::new("/dev/shm");
        let folder = if shared.is_dir() {
            tempfile::tempdir_in(shared)
        } else {
            tempfile::tempdir()
        };
        Self::in_folder(folder, binary.into())
    }

    fn in_folder(folder: std::io::Result<tempfile::TempDir>, binary: PathBuf) -> Self {
        let folder = folder.expect("a temporary folder can be made");
        for part in ["project", "home", "tmp"] {
            fs::create_dir(folder.path().join(part)).expect("the temporary folder is writable");
        }
        let marker = folder.path().display().to_string();
        let mut project = Self {
            folder,
            binary,
            environment: BTreeMap::new(),
            marker,
            is_damaged: AtomicBool::new(false),
        };
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let (home, scratch) = (project.home(), project.folder.path().join("tmp"));
        project
            .set("PATH", path)
            .set("HOME", home)
            .set("TMPDIR", scratch)
            .set("LANG", "C.UTF-8")
            .set("TZ", "UTC");
        let marker = project.marker.clone();
        project.set(MARKER, marker);
        project
    }

    /// Returns the folder of the hank, which is also where the program is started.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// Returns the home folder that the program sees.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Writes a file of the project, with its parent folders, and returns its path.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory().join(relative);
        fs::create_dir_all(path.parent().expect("a file has a parent")).expect("the project is writable");
        fs::write(&path, content).expect("the project is writable");
        path
    }

    /// Writes `hank.json`.
    pub fn write_hank(&self, hank: &Value) -> PathBuf {
        self.write("hank.json", format!("{hank:#}\n"))
    }

    /// Sets a variable for the program. Nothing but `PATH` is inherited from the tests.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Runs the program to its end.
    ///
    /// # Panics
    ///
    /// Panics with everything printed so far when the program is not done within two minutes.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Finished {
        self.start(arguments).finish_within(DEADLINE)
    }

    /// Starts the program and returns at once.
    ///
    /// # Panics
    ///
    /// Panics when the program cannot be started.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Running {
        Running::spawn(self.command(&self.binary).args(arguments))
    }

    /// Runs git in the checkpoint repository of an execution directory.
    #[track_caller]
    pub fn checkpoints_git(&self, execution: &Path, arguments: &[&str]) -> Finished {
        let mut git = self.command(Path::new("git"));
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        git.arg("--git-dir")
            .arg(execution.join(".hankweave/checkpoints"))
            .args(arguments);
        Running::spawn(&mut git).finish_within(DEADLINE)
    }

    /// Reads `state.json` of an execution directory.
    ///
    /// # Panics
    ///
    /// Panics when there is none, or when it is not JSON.
    #[track_caller]
    #[must_use]
    pub fn state(&self, execution: &Path) -> Value {
        let path = execution.join(".hankweave/state.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Lists everything in the project, the home and the scratch folder: relative paths, sorted.
    #[must_use]
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        list(self.folder.path(), self.folder.path(), &mut found);
        found
    }

    /// Says that the test damages a checkpoint repository, with which git then finds fault in the end.
    pub fn damages_checkpoints(&self) {
        self.is_damaged.store(true, Relaxed);
    }

    /// Lists the processes that were started in this project and are still there.
    #[must_use]
    pub fn left_behind(&self) -> Vec<Marked> {
        marked(MARKER, &self.marker)
    }

    /// A program as the project starts all of its own: in its directory, with its variables and no others.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory())
            .env_clear()
            .envs(&self.environment);
        command
    }
}

impl Drop for TestProject {
    fn drop(&mut self) {
        kill_marked(MARKER, &self.marker);
        if std::thread::panicking() || self.is_damaged.load(Relaxed) {
            return;
        }
        repositories(self.folder.path())
            .iter()
            .for_each(|repository| assert_sound(repository));
    }
}

/// Returns the checkpoint repositories inside `folder`. Folders that disappear meanwhile, or cannot be read, have none.
fn repositories(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let inner = folders.map(|entry| match entry.path() {
        // The spare copy of a run that was killed may end in the middle of a change; a start repairs what it puts back from there.
        path if path.ends_with(".local/state/hankweave/records") => Vec::new(),
        path if path.ends_with(".hankweave/checkpoints") => vec![path],
        path => repositories(&path),
    });
    inner.flatten().collect()
}

fn list(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the project is readable").flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(root, &path, found);
        }
        found.insert(
            path.strip_prefix(root)
                .expect("entries lie below the root")
                .to_path_buf(),
        );
    }
}

/// Resets signals. The shell of the tests may ignore some, as `nohup` and shells do for background commands, and programs
/// inherit that.
#[expect(unsafe_code, reason = "no safe wrapper resets a signal in a child")]
fn with_default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: `SIG_DFL` runs no code of ours.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(reset) }
}

/// A program that was started and may still be at work. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    handle: OwnedFd,
    started: Instant,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    printed: String,
    exit: Receiver<ExitStatus>,
}

impl Running {
    #[track_caller]
    fn spawn(command: &mut Command) -> Self {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = with_default_signals(command)
            .spawn()
            .unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"));
        // The child is not reaped yet, so the handle is surely its own; a pid alone may be reused later.
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("a child has a handle");
        Self {
            pid: child.id(),
            handle,
            started: Instant::now(),
            stdout: lines_of(child.stdout.take().expect("standard output is a pipe")),
            stderr: lines_of(child.stderr.take().expect("standard error is a pipe")),
            printed: String::new(),
            exit: exit_of(child),
        }
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the program has printed a line to standard output for which `wanted` holds, and returns it.
    ///
    /// # Panics
    ///
    /// Panics with what was printed when the output ends first or two minutes pass.
    #[track_caller]
    pub fn wait_for_line(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self
                .stdout
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    self.printed.push_str(&line);
                    if wanted(&line) {
                        return line;
                    }
                }
                Err(why) => {
                    let stderr = rest(&self.stderr);
                    panic!(
                        "the awaited line did not come ({why})\n{}\n--- stderr\n{stderr}",
                        self.printed
                    )
                }
            }
        }
    }

    /// Waits for a line on standard error, like [`wait_for_line`](Self::wait_for_line) on standard output.
    ///
    /// # Panics
    ///
    /// Panics when it ends first or two minutes pass.
    #[track_caller]
    pub fn wait_for_word(&self, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.stderr.recv_timeout(left) {
                Ok(line) if wanted(&line) => return line,
                Ok(_) => {}
                Err(why) => panic!("the awaited line did not come on standard error ({why})"),
            }
        }
    }

    /// Sends a signal to the program itself, not to its children.
    pub fn signal(&self, signal: Signal) {
        // The caller that reads the exit notices a program that has just ended by itself.
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Kills the program the hard way and waits for its end.
    #[track_caller]
    pub fn kill(self) -> Finished {
        self.signal(Signal::KILL);
        self.finish_within(DEADLINE)
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    ///
    /// Panics with what was printed when the program is still there after `deadline`.
    #[track_caller]
    pub fn finish_within(mut self, deadline: Duration) -> Finished {
        let status = self.exit.recv_timeout(deadline);
        let elapsed = self.started.elapsed();
        if status.is_err() {
            self.signal(Signal::KILL);
        }
        let stdout = std::mem::take(&mut self.printed) + &rest(&self.stdout);
        let stderr = rest(&self.stderr);
        let Ok(status) = status else {
            let seconds = deadline.as_secs();
            panic!("the program was still there after {seconds} s\n{stdout}\n--- stderr\n{stderr}");
        };
        Finished {
            code: status.code(),
            signal: status.signal(),
            stdout,
            stderr,
            elapsed,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reads a pipe line by line. The reader ends with the pipe, which a grandchild may hold open for longer than anyone
/// listens.
fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    lines
}

/// Returns the rest of the output of a program that has ended. Another process that holds the pipe open in silence for
/// two seconds does not hold up the test.
fn rest(lines: &Receiver<String>) -> String {
    std::iter::from_fn(|| lines.recv_timeout(Duration::from_secs(2)).ok()).collect()
}

/// Hands the exit status over when the program ends, and reaps it.
fn exit_of(mut child: Child) -> Receiver<ExitStatus> {
    let (sender, exit) = channel();
    std::thread::spawn(move || {
        if let Ok(status) = child.wait() {
            // If the test has failed already, no receiver is left.
            let _ = sender.send(status);
        }
    });
    exit
}

/// Exit and output of a program.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Time from start to end.
    pub elapsed: Duration,
}

impl Finished {
    /// Asserts the exit code and shows everything that was printed if it is another one.
    ///
    /// # Panics
    ///
    /// Panics when the code is another one.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "signal {:?}\n{self}", self.signal);
        self
    }

    /// Reads standard output as one JSON document.
    ///
    /// # Panics
    ///
    /// Panics when it is not JSON.
    #[track_caller]
    #[must_use]
    pub fn json_document(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error})\n{self}"))
    }

    /// Reads standard output as one JSON value a line.
    ///
    /// # Panics
    ///
    /// Panics at the first line that is not JSON.
    #[track_caller]
    #[must_use]
    pub fn json_lines(&self) -> Vec<Value> {
        let parsed = self.stdout.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("not a JSON line ({error}): {line}"))
        });
        parsed.collect()
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> TestProject {
        TestProject::new("/bin/sh")
    }

    #[test]
    fn a_program_sees_only_the_environment_of_the_project() {
        let mut project = shell();
        project.set("EXTRA", "yes");
        let finished = project.run([
            "-c",
            "echo $HOME; echo $EXTRA; echo ${CARGO_MANIFEST_DIR-none}; pwd",
        ]);
        let expected = format!(
            "{}\nyes\nnone\n{}\n",
            project.home().display(),
            project.directory().display()
        );
        assert_eq!(finished.expect_code(0).stdout, expected);
    }

    #[test]
    fn exit_codes_signals_and_both_outputs_are_kept_apart() {
        let finished = shell().run(["-c", "echo out; echo err >&2; exit 7"]);
        assert_eq!(
            (finished.code, &*finished.stdout, &*finished.stderr),
            (Some(7), "out\n", "err\n")
        );
        assert_eq!(shell().run(["-c", "kill -9 $$"]).signal, Some(9));
    }

    #[test]
    fn a_line_can_be_awaited_and_the_program_killed() {
        let project = shell();
        let mut running = project.start(["-c", "echo one; echo two; exec sleep 600"]);
        assert_eq!(running.wait_for_line(|line| line.starts_with("tw")), "two\n");
        let finished = running.kill();
        assert_eq!((finished.signal, &*finished.stdout), (Some(9), "one\ntwo\n"));
    }

    #[test]
    #[should_panic(expected = "still there after 0 s")]
    fn a_program_that_does_not_end_is_killed_at_the_deadline() {
        let project = shell();
        project
            .start(["-c", "exec sleep 600"])
            .finish_within(Duration::ZERO);
    }

    #[test]
    fn what_a_program_leaves_behind_is_seen() {
        let project = shell();
        let finished = project.run(["-c", "sleep 600 >/dev/null 2>&1 & echo $!"]);
        let left: Vec<_> = project
            .left_behind()
            .into_iter()
            .map(|process| process.pid.to_string())
            .collect();
        assert_eq!(left, [finished.stdout.trim()]);
    }

    #[test]
    fn files_are_listed_with_their_folders() {
        let project = shell();
        project.write("a/b.txt", "x");
        let listed = project.files().into_iter().map(|path| path.display().to_string());
        let expected = ["home", "project", "project/a", "project/a/b.txt", "tmp"];
        assert_eq!(listed.collect::<Vec<_>>(), expected);
    }
}
