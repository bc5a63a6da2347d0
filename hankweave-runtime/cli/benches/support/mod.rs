//! What benchmarks of whole processes have in common.

use std::borrow::BorrowMut;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// The program that is measured.
pub(crate) const HANKWEAVE: &str = env!("CARGO_BIN_EXE_hankweave");

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Returns a temporary folder with this number of small files.
pub(crate) fn tree(files: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("the system has room for a temporary folder");
    for index in 0..files {
        let dir = folder.path().join(format!("d{}", index % 20));
        std::fs::create_dir_all(&dir).expect("the folder is ours");
        std::fs::write(dir.join(format!("f{index}")), format!("file {index}\n")).expect("the folder is ours");
    }
    folder
}

/// A shell line in a folder.
pub(crate) fn shell(dir: &Path, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(dir);
    command
}

/// Runs a command that must succeed.
pub(crate) fn succeed(mut command: impl BorrowMut<Command>) {
    let command = command.borrow_mut();
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?}");
}

/// Figures of a process so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProcessCost {
    /// Processor time in the program itself, in clock ticks of a hundredth of a second.
    pub(crate) user: u64,
    /// Processor time in the system, in clock ticks.
    pub(crate) system: u64,
    /// Bytes that were written.
    pub(crate) written: u64,
    /// Reads and writes.
    pub(crate) calls: u64,
}

impl ProcessCost {
    pub(crate) fn of(pid: u32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).expect("it runs");
        let (stat, io) = (read("stat"), read("io"));
        // The name of the program, in front of all other fields, may contain spaces.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |field: usize| fields[field].parse::<u64>().expect("the system counts ticks");
        let count = |name: &str| {
            let count = io
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            count.expect("the system counts")
        };
        Self {
            user: ticks(11),
            system: ticks(12),
            written: count("wchar:"),
            calls: count("syscr:") + count("syscw:"),
        }
    }

    /// These figures after a change of each.
    pub(crate) fn with(self, other: Self, change: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            user: change(self.user, other.user),
            system: change(self.system, other.system),
            written: change(self.written, other.written),
            calls: change(self.calls, other.calls),
        }
    }
}
