//! A process as the table of the system has it.

use rustix::process::Signal;

use crate::world::system;

/// Unique name of a process: numbers are reused.
pub(super) type ProcessKey = (i32, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::world) struct Process {
    pub(in crate::world) pid: i32,
    pub(in crate::world) parent: i32,
    /// The process group; 0 where it began outside our container.
    pub(in crate::world) group: i32,
    /// The session; 0 where it began outside our container.
    pub(in crate::world) session: i32,
    /// Whether one of its threads still runs. The first one may have ended before the others, and looks like an ended process then.
    pub(in crate::world) lives: bool,
    /// A signal has stopped it.
    pub(in crate::world) is_stopped: bool,
    /// In the unit of the system; what started later has no smaller number.
    pub(in crate::world) start_time: u64,
}

impl Process {
    pub(in crate::world) fn name(&self) -> ProcessKey {
        (self.pid, self.start_time)
    }

    pub(super) fn kill(&self) {
        system::signal(self, Signal::KILL);
    }

    /// Whether it lives and no signal has stopped it.
    pub(super) fn works(&self) -> bool {
        let now = system::process(self.pid).filter(|now| now.name() == self.name());
        now.is_some_and(|now| now.lives && !now.is_stopped)
    }

    /// Whether it works and suspends itself when it is asked to, as a run does.
    pub(super) fn suspends_itself(&self) -> bool {
        self.works() && system::suspends_itself(self.pid)
    }

    /// Whether the marker of the process begins with this text.
    pub(super) fn has_marker(&self, start: &str) -> bool {
        system::marker(self.pid).is_some_and(|found| found.starts_with(start.as_bytes()))
    }
}

/// Whether the marker of a process has this value.
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
        assert!(found.is_some_and(|found| found.lives && !found.is_stopped && found.works()));
    }
}
