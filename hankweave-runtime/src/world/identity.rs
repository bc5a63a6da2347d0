//! Identity of processes, beyond their reusable numbers, and of this boot of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use hankweave_core::discovery::directory_name;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::system;

/// Answers what the operating system knows about processes and about this boot.
///
/// A pid alone is reused; together with the time the process started and the boot it belongs to it names one process (L2, L5).
pub trait Identity: Send + Sync + std::fmt::Debug {
    /// The pid of this process.
    fn pid(&self) -> u32;

    /// The user whose files this process creates.
    fn user_id(&self) -> u32;

    /// Identifies the current boot of the machine; `None` if the system does not report it.
    fn boot_id(&self) -> Option<String>;

    /// Name space of the pids of this process, as a container has one of its own; `None` if the system does not report it.
    fn pid_namespace(&self) -> Option<String> {
        None
    }

    /// [Name](directory_name) of a directory, from its inode and time of birth; `None` if the system does not report these.
    fn directory(&self, path: &Path) -> Option<String> {
        let _ = path;
        None
    }

    /// Start of process `pid`, in the unit of the system: clock ticks since boot on Linux, elsewhere seconds since 1970.
    /// `None` if there is no such process, if it is a zombie, or if the system does not report its start.
    fn start_ticks(&self, pid: u32) -> Option<u64>;

    /// Whether process `pid` exists and is no zombie. Only the system's answer "no such process" shows that it does not
    /// exist: a process that we may not signal is alive (STATE-37).
    fn is_alive(&self, pid: u32) -> bool;
}

/// The operating system's own answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIdentity;

impl Identity for SystemIdentity {
    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn user_id(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn boot_id(&self) -> Option<String> {
        system::boot_id()
    }

    fn pid_namespace(&self) -> Option<String> {
        system::pid_namespace()
    }

    fn directory(&self, path: &Path) -> Option<String> {
        let found = fs::metadata(path).ok()?;
        let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(directory_name(found.ino(), born))
    }

    fn start_ticks(&self, pid: u32) -> Option<u64> {
        let process = system::process(i32::try_from(pid).ok()?)?;
        process.lives.then_some(process.start_time)
    }

    fn is_alive(&self, pid: u32) -> bool {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return false;
        };
        let number = pid.as_raw_nonzero().get();
        match test_kill_process(pid) {
            Err(Errno::SRCH) => false,
            Err(_) => system::process(number).is_none_or(|process| process.lives),
            Ok(()) => !system::has_ended(number),
        }
    }
}

impl SystemIdentity {
    /// Returns the parent of process `pid`; `None` if the system does not report it.
    #[must_use]
    pub fn parent(self, pid: u32) -> Option<u32> {
        u32::try_from(system::process(i32::try_from(pid).ok()?)?.parent).ok()
    }

    /// Whether process `pid` is suspended, as by Ctrl+Z or `kill -STOP`.
    #[must_use]
    pub fn is_suspended(self, pid: u32) -> bool {
        let process = i32::try_from(pid).ok().and_then(system::process);
        process.is_some_and(|process| process.is_stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: STATE-37
    #[test]
    fn this_process_is_alive_and_has_a_start_time() {
        let pid = SystemIdentity.pid();
        assert!(SystemIdentity.is_alive(pid));
        assert!(SystemIdentity.start_ticks(pid).is_some());
    }

    // covers: STATE-37
    #[test]
    fn numbers_that_cannot_be_a_pid_are_not_alive() {
        assert!(!SystemIdentity.is_alive(0));
        assert!(!SystemIdentity.is_alive(u32::MAX));
    }
}
