//! Processes that a test has left running, found by a marker in their environment. Linux only: it reads /proc.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// A living process that carries a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// Process id.
    pub pid: u32,
    /// Its command line, words joined by spaces.
    pub command: String,
}

/// Lists the living processes whose environment holds exactly `name=value`, zombies left out.
///
/// A process that ends while the list is made is left out as well.
#[must_use]
pub fn marked(name: &str, value: &str) -> Vec<Marked> {
    let wanted = format!("{name}={value}");
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<Marked> = entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let folder = entry.path();
            carries(&folder, wanted.as_bytes()).then(|| Marked {
                pid,
                command: command_line(&folder),
            })
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// Kills every process that [`marked`] finds and returns what it found.
pub fn kill_marked(name: &str, value: &str) -> Vec<Marked> {
    let found = marked(name, value);
    for process in &found {
        if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) {
            // It may have ended by itself in the meantime, which is as good.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    found
}

/// A process whose end is waited for.
#[derive(Debug)]
pub struct Watched(OwnedFd);

impl Watched {
    /// `None` when there is no such process.
    #[must_use]
    pub fn new(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Self)
    }

    /// Waits for the end of the process, and returns whether it came in time.
    ///
    /// # Panics
    ///
    /// Panics if the system does not let it be watched.
    #[must_use]
    pub fn ends_within(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).expect("a test does not wait for ages");
        let mut end = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut end, Some(&limit)).expect("a process can be watched") > 0
    }
}

/// A zombie's environment is empty, so it never matches.
fn carries(folder: &Path, wanted: &[u8]) -> bool {
    let environment = fs::read(folder.join("environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == wanted)
}

fn command_line(folder: &Path) -> String {
    let bytes = fs::read(folder.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .replace('\0', " ")
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_found_by_its_marker_until_it_is_killed() {
        let marker = format!("unit-{}", std::process::id());
        let mut shell = Command::new("sh")
            .args(["-c", "echo ready; read line"])
            .env("HANKWEAVE_TEST_UNIT", &marker)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();

        let watched = Watched::new(shell.id()).unwrap();
        assert!(!watched.ends_within(Duration::ZERO));
        let found = kill_marked("HANKWEAVE_TEST_UNIT", &marker);
        assert!(watched.ends_within(Duration::from_secs(60)));
        assert_eq!(
            found.iter().map(|process| process.pid).collect::<Vec<_>>(),
            [shell.id()]
        );
        shell.wait().unwrap();
        assert_eq!(marked("HANKWEAVE_TEST_UNIT", &marker), []);
    }
}
