//! A terminal that a test can close while a program uses it.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::processes::Watched;
use crate::project::TestProject;

/// How long a program may take to show something.
const DEADLINE: Duration = Duration::from_secs(120);

/// A program that leads a session on a terminal of its own.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    /// `None` once the terminal is closed.
    terminal: Option<File>,
    shown: Vec<u8>,
}

impl OnTerminal {
    /// Starts `program`; `None` where there is no `setsid`, which gives a program its terminal.
    ///
    /// # Panics
    ///
    /// Panics when the system makes no terminal.
    #[must_use]
    pub fn start(project: &TestProject, program: &Path, arguments: &[&str]) -> Option<Self> {
        let (terminal, other_end) = open_terminal();
        let end = || Stdio::from(other_end.try_clone().expect("a terminal can be shared"));
        let mut command = project.command(Path::new("setsid"));
        // Under `nohup` all processes ignore a hang-up unless they are started so.
        command.args(["--ctty", "env", "--default-signal=HUP"]);
        command.arg(program).args(arguments);
        command
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end());
        let child = command.spawn().ok()?;
        Some(Self {
            child,
            terminal: Some(terminal),
            shown: Vec::new(),
        })
    }

    /// Everything that the program has shown so far.
    #[must_use]
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Waits until the program has shown this.
    ///
    /// # Panics
    ///
    /// Panics when it does not come.
    #[track_caller]
    pub fn until(&mut self, wanted: &str) {
        while !self.shown().contains(wanted) {
            assert!(
                self.read(),
                "{wanted:?} does not come; shown was {}",
                self.shown()
            );
        }
    }

    /// Waits until the program shows something more; `false` when nothing comes.
    pub fn read(&mut self) -> bool {
        let Some(terminal) = &mut self.terminal else {
            return false;
        };
        let limit = Timespec::try_from(DEADLINE).expect("a test does not wait for ages");
        let mut ready = [PollFd::new(&*terminal, PollFlags::IN)];
        if poll(&mut ready, Some(&limit)).is_ok_and(|ready| ready == 0) {
            return false;
        }
        let mut chunk = [0; 256];
        // A terminal that no other process holds any more cannot be read.
        let length = terminal.read(&mut chunk).unwrap_or(0);
        self.shown.extend(&chunk[..length]);
        length > 0
    }

    /// Types keys.
    ///
    /// # Panics
    ///
    /// Panics when the terminal was closed.
    pub fn press(&mut self, keys: &str) {
        use std::io::Write as _;
        let terminal = self.terminal.as_mut().expect("the terminal is open");
        terminal
            .write_all(keys.as_bytes())
            .expect("a terminal takes keys");
    }

    /// Closes the terminal, as a lost connection does.
    pub fn hang_up(&mut self) {
        self.terminal = None;
    }

    /// Waits for the end of the program, reading what it shows if the terminal is still open.
    ///
    /// # Panics
    ///
    /// Panics when it does not end in time.
    #[track_caller]
    pub fn finish_within(mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        while self.terminal.is_some() && Instant::now() < end && self.read() {}
        let watched = Watched::new(self.child.id()).expect("a child that was not reaped exists");
        if !watched.ends_within(end.saturating_duration_since(Instant::now())) {
            // The test fails in any case.
            let _ = self.child.kill();
            panic!("the program does not end; shown was {}", self.shown());
        }
        self.child.wait().expect("a child can be waited for")
    }

    /// Like [`finish_within`](Self::finish_within), with the exit code.
    ///
    /// # Panics
    ///
    /// Panics when a signal has ended the program as well.
    #[track_caller]
    pub fn code_within(self, limit: Duration) -> i32 {
        let status = self.finish_within(limit);
        let code = status.code();
        code.unwrap_or_else(|| panic!("ended by signal {:?}", status.signal()))
    }
}

/// Both ends of a new terminal: ours, and that of a program.
fn open_terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("a terminal can be made");
    grantpt(&ours).expect("a new terminal is ours");
    unlockpt(&ours).expect("a new terminal can be unlocked");
    let name = ptsname(&ours, Vec::new()).expect("a new terminal has a name");
    let other_end = OpenOptions::new()
        .read(true)
        .write(true)
        .open(OsStr::from_bytes(name.to_bytes()));
    let other_end = other_end.expect("a new terminal can be opened");
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&other_end, size).expect("a terminal takes its size");
    (File::from(ours), other_end)
}
