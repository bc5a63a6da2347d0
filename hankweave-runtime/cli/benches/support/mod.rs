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

/// A temporary folder with so many small files.
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
