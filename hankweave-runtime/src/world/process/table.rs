//! A process as the process table of the system has it, and questions about it.

use rustix::process::Signal;

use crate::world::system;

/// Unique key of a process: its process id, which may be reused, and its start time.
pub(super) type ProcessKey = (i32, u64);

/// A process at the time when the table was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::world) struct Process {
    pub(in crate::world) pid: i32,
    pub(in crate::world) parent: i32,
    /// The process group; 0 where it began outside our container.
    pub(in crate::world) group: i32,
    /// The session; 0 where it began outside our container.
    pub(in crate::world) session: i32,
    /// Whether one of its threads still runs. If only the first thread has ended, the process looks ended in the table.
    pub(in crate::world) lives: bool,
    /// Whether a signal has stopped it.
    pub(in crate::world) is_stopped: bool,
    /// Start, in the unit of the system; a process that started later has no smaller number.
    pub(in crate::world) start_time: u64,
}

impl Process {
    pub(in crate::world) fn key(&self) -> ProcessKey {
        (self.pid, self.start_time)
    }

    pub(super) fn kill(&self) {
        system::signal(self, Signal::KILL);
    }

    /// Whether the process lives now and no signal has stopped it.
    pub(super) fn is_running(&self) -> bool {
        let now = system::process(self.pid).filter(|now| now.key() == self.key());
        now.is_some_and(|now| now.lives && !now.is_stopped)
    }

    /// Whether the process runs now, and suspends itself when it gets SIGTSTP, as a run does.
    pub(super) fn suspends_itself(&self) -> bool {
        self.is_running() && system::suspends_itself(self.pid)
    }

    /// Whether the marker in the environment of the process begins with this text.
    pub(super) fn marker_starts_with(&self, start: &str) -> bool {
        system::marker(self.pid).is_some_and(|found| found.starts_with(start.as_bytes()))
    }
}

/// Whether the process carries this marker in its environment.
pub(super) fn carries(pid: i32, marker: &str) -> bool {
    system::marker(pid).is_some_and(|found| found == marker.as_bytes())
}

/// When the process `pid` started, in the unit of the system.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    Some(system::process(i32::try_from(pid).ok()?)?.start_time)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    // covers: L5
    #[test]
    fn a_process_that_got_the_number_of_another_is_not_killed() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let itself = system::process(i32::try_from(child.id()).unwrap()).unwrap();
        let earlier = Process {
            start_time: itself.start_time - 1,
            ..itself
        };
        earlier.kill();
        // A signal that was sent would come before the first byte is read.
        child.stdin.take().unwrap().write_all(b"alive").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.stdout, output.status.success()),
            (b"alive".to_vec(), true)
        );
    }

    #[test]
    fn this_process_is_in_the_table() {
        let own = std::process::id();
        assert!(start_time(own).is_some());
        let number = i32::try_from(own).unwrap();
        let found = system::processes()
            .into_iter()
            .find(|process| process.pid == number);
        assert!(found.is_some_and(|found| found.lives && !found.is_stopped && found.is_running()));
    }
}
