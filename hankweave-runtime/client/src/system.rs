//! Queries of a client to the system: small files, and the identity of a process.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use hankweave_core::discovery::{ProcessFacts, directory_name};
use hankweave_core::time::Timestamp;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

#[cfg_attr(all(target_os = "linux", not(feature = "portable")), path = "system/linux.rs")]
#[cfg_attr(
    not(all(target_os = "linux", not(feature = "portable"))),
    path = "system/portable.rs"
)]
mod side;

/// Reads a regular file of at most `limit` bytes. Follows no link, and does not wait for a writer of a FIFO.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Whether this machine has the address: a server can listen there.
pub(super) fn has_address(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Entry of a process in the table of the system.
struct ProcessEntry {
    /// When it started, in the unit of the system.
    started: Option<u64>,
    /// It waits for its parent to reap it.
    has_ended: bool,
    /// It is suspended.
    is_stopped: bool,
}

/// Returns the system's facts about a pid, and about the execution directory whose record names it.
pub(super) fn process(pid: u32, execution: &Path) -> ProcessFacts {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let found = number.and_then(|_| side::find(pid));
    let has_ended = |if_not_found: bool| found.as_ref().map_or(if_not_found, |found| found.has_ended);
    let is_alive = match number.map(test_kill_process) {
        None | Some(Err(Errno::SRCH)) => false,
        // A process that we may not signal exists.
        Some(Err(_)) => !has_ended(false),
        Some(Ok(())) => !has_ended(side::UNSEEN_HAS_ENDED),
    };
    ProcessFacts {
        boot_id: side::boot_id(),
        start_ticks: found.and_then(|found| found.started),
        is_alive,
        pid_namespace: side::pid_namespace(),
        directory: directory(execution),
        at: now(),
    }
}

/// Returns the name by which a lock record identifies a directory; `None` where the system does not know when it was made.
fn directory(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(directory_name(found.ino(), born))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Whether a process is suspended, as by Ctrl+Z.
pub(super) fn is_suspended(pid: u32) -> bool {
    side::find(pid).is_some_and(|found| found.is_stopped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(read(&file, 3).unwrap(), b"abc");
        assert_eq!(read(&file, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(
            read(folder.path(), 3).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(read(&link, 3).is_err());
    }

    #[test]
    fn this_process_is_alive_and_numbers_that_cannot_be_a_pid_are_not() {
        let process = |pid| process(pid, Path::new("/"));
        assert!(process(std::process::id()).is_alive);
        assert!(process(std::process::id()).start_ticks.is_some());
        assert!(!process(0).is_alive);
        assert!(!process(u32::MAX).is_alive);
    }
}
