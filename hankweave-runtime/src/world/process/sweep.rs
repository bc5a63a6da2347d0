//! Finding and killing descendants that outlived their agent.
//!
//! They are found by the marker in their environment and by parentage. One that drops its environment and detaches
//! itself from a family that has already ended is not found; only a cgroup would hold it.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, waitpid};
use tokio::time::{Instant, sleep};

use super::MARKER_VARIABLE;

const DEADLINE: Duration = Duration::from_secs(5);

/// How often the process table is read while killed processes disappear.
const INTERVAL: Duration = Duration::from_millis(10);

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweep {
    /// Processes that were killed.
    pub killed: usize,
    /// Processes that were still there at the end, because the kernel holds them.
    pub survivors: usize,
}

/// Kills and reaps every process that carries `marker`, with its descendants, until none is left or five seconds are
/// over. Recovery uses it for the agents of a server that crashed.
pub async fn sweep_marked(marker: &str) -> Sweep {
    let deadline = Instant::now() + DEADLINE;
    let mut killed = BTreeSet::new();
    loop {
        let family = family_of(marker);
        if family.is_empty() || Instant::now() >= deadline {
            return Sweep {
                killed: killed.len(),
                survivors: family.len(),
            };
        }
        for process in family {
            process.kill();
            killed.insert((process.pid, process.start_time));
        }
        sleep(INTERVAL).await;
        reap(killed.iter().map(|(pid, _)| *pid));
    }
}

/// Kills what carries `marker` now, without waiting: for a drop, which cannot wait.
pub(super) fn kill_marked(marker: &str) {
    for process in family_of(marker) {
        process.kill();
    }
}

/// Reaps all our ended children but those in `owned`, which have somebody who waits for them.
pub(super) fn reap_orphans(owned: &BTreeSet<i32>) {
    let own_pid = getpid().as_raw_nonzero().get();
    let orphans = processes()
        .into_iter()
        .filter(|process| process.state == 'Z' && process.parent == own_pid && !owned.contains(&process.pid));
    reap(orphans.map(|process| process.pid));
}

/// When the process `pid` started, in clock ticks since the machine did; field 22 of its `stat`.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    Some(Process::read(i32::try_from(pid).ok()?)?.start_time)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    state: char,
    start_time: u64,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name in the second field may hold spaces and brackets, so the rest begins behind the last bracket.
    fn parse(pid: i32, stat: &str) -> Option<Self> {
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        Some(Self {
            pid,
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            start_time: fields.nth(17)?.parse().ok()?,
        })
    }

    fn carries(&self, marker: &str) -> bool {
        let entry = format!("{MARKER_VARIABLE}={marker}");
        fs::read(format!("/proc/{}/environ", self.pid)).is_ok_and(|environment| {
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == entry.as_bytes())
        })
    }

    /// Kills exactly this process: the pidfd is opened first and then compared, so that the id cannot have been reused.
    fn kill(&self) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        let same = Self::read(self.pid).is_some_and(|now| now.start_time == self.start_time);
        if same {
            // It may end by itself in between, and the next look at the table tells who is left.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
}

/// The living processes that carry `marker`, and the living descendants of any process that does.
fn family_of(marker: &str) -> Vec<Process> {
    let own_pid = getpid().as_raw_nonzero().get();
    let all: Vec<Process> = processes()
        .into_iter()
        .filter(|process| process.pid != own_pid && !matches!(process.state, 'Z' | 'X'))
        .collect();
    let marked = all.iter().filter(|process| process.carries(marker));
    let mut family: BTreeSet<i32> = marked.map(|process| process.pid).collect();
    loop {
        let before = family.len();
        let children = all.iter().filter(|process| family.contains(&process.parent));
        family.extend(children.map(|process| process.pid).collect::<Vec<_>>());
        if family.len() == before {
            break;
        }
    }
    all.into_iter()
        .filter(|process| family.contains(&process.pid))
        .collect()
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect()
}

/// Reaps those of `pids` that are our children and have ended.
fn reap(pids: impl Iterator<Item = i32>) {
    for pid in pids.filter_map(Pid::from_raw) {
        // Not every one of them is ours; those that are not have a parent who reaps them.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_behind_the_last_bracket() {
        let stat = "42 (a) S (b)) R 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 2 3";
        let process = Process::parse(42, stat).unwrap();
        assert_eq!(
            (process.parent, process.state, process.start_time),
            (7, 'R', 123_456)
        );
    }

    #[test]
    fn a_damaged_stat_line_is_no_process() {
        for stat in ["", "42 (x", "42 (x) S", "42 (x) S y 1"] {
            assert_eq!(Process::parse(42, stat), None, "{stat}");
        }
    }

    #[test]
    fn this_process_has_a_start_time() {
        assert!(start_time(std::process::id()).is_some());
    }
}
