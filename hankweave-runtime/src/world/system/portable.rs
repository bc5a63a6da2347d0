//! The parts of the world that differ between systems, for any Unix but Linux, such as macOS; `linux.rs` is the twin. The
//! feature `portable` selects this file on Linux as well, for tests (S13).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use libc::c_uint;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Signal, WaitId, WaitIdOptions, getrlimit, kill_process, waitid};
use rustix::time::{ClockId, clock_gettime};
use sysinfo::{ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind};
use tokio::process::Child;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal as signals};

use super::process::{ChildUse, MARKER_VARIABLE, Process};

/// Abilities that this system lacks for a run.
pub(super) const WEAKER: &[&str] = &[
    "when hankweave is killed, its agents run on until the next start ends them",
    "a process that an agent has started is not found once it has a session of its own, another environment and no living parent",
    "a server that an agent leaves running is waited for like other work in the background",
];

/// Returns `None`: none is needed, because start times of processes are times of day here, which no other boot has.
pub(super) fn boot_id() -> Option<String> {
    None
}

/// Returns `None`: all processes of the machine are in one name space.
pub(super) fn pid_namespace() -> Option<String> {
    None
}

/// Time since the machine's start, with its sleep where the monotonic clock counts that, as on macOS.
pub(super) fn uptime() -> Option<Duration> {
    clock_gettime(ClockId::Monotonic).try_into().ok()
}

/// Returns `None`: without the id of a boot, it is unknown which start the time counts from.
pub(super) fn awake() -> Option<Duration> {
    None
}

/// Makes everything durable that was written to the file system of `file`.
#[cfg(target_vendor = "apple")]
#[expect(unsafe_code, reason = "no crate has this call")]
pub(super) fn sync_file_system(file: impl AsFd) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    unsafe extern "C" {
        fn fsync_volume_np(file: libc::c_int, flags: libc::c_int) -> libc::c_int;
    }
    /// Past the cache of the drive, and waiting until it is done.
    const FULL: libc::c_int = 0x01 | 0x02;
    // SAFETY: plain numbers; the descriptor is open as long as it is borrowed.
    match unsafe { fsync_volume_np(file.as_fd().as_raw_fd(), FULL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes everything durable that was written; these systems only know all file systems at once.
#[cfg(not(target_vendor = "apple"))]
pub(super) fn sync_file_system(_file: impl AsFd) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}

/// Does nothing: the system writes a file to the disk when it is synced.
pub(super) fn send_on(_file: &File, _from: u64, _length: u64) {}

/// The process with this number.
pub(super) fn process(pid: i32) -> Option<Process> {
    let wanted = sysinfo::Pid::from_u32(u32::try_from(pid).ok()?);
    let table = read_table(ProcessesToUpdate::Some(&[wanted]), basic_facts());
    table.process(wanted).map(entry)
}

/// All processes.
pub(super) fn processes() -> Vec<Process> {
    let table = read_table(ProcessesToUpdate::All, basic_facts());
    table.processes().values().map(entry).collect()
}

/// Reads only the facts that every reading of the table gives.
fn basic_facts() -> ProcessRefreshKind {
    ProcessRefreshKind::nothing().without_tasks()
}

fn read_table(which: ProcessesToUpdate<'_>, facts: ProcessRefreshKind) -> System {
    let mut table = System::new();
    table.refresh_processes_specifics(which, true, facts);
    table
}

fn entry(process: &sysinfo::Process) -> Process {
    let number = |pid: sysinfo::Pid| i32::try_from(pid.as_u32()).unwrap_or_default();
    let pid = number(process.pid());
    Process {
        pid,
        parent: process.parent().map_or(0, number),
        group: group(pid),
        session: process.session_id().map_or(0, number),
        lives: !matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead),
        is_stopped: process.status() == ProcessStatus::Stop,
        start_time: process.start_time(),
    }
}

/// The process group; 0 where it began outside our container, which the typed call refuses.
#[expect(
    unsafe_code,
    reason = "the safe wrapper asserts that no group has the number 0"
)]
fn group(pid: i32) -> i32 {
    // SAFETY: a plain number; a number without a process is answered with -1.
    unsafe { libc::getpgid(pid) }.max(0)
}

/// Whether a process that can be signalled has ended: some systems leave it out of the table until its parent reaps it.
pub(super) fn has_ended(pid: i32) -> bool {
    process(pid).is_none_or(|process| !process.lives)
}

/// The marker variable in the environment of a process; macOS hides that of its own programs, such as `/bin/sh`.
pub(super) fn marker(pid: i32) -> Option<Vec<u8>> {
    let pid = sysinfo::Pid::from_u32(u32::try_from(pid).ok()?);
    let environment = basic_facts().with_environ(UpdateKind::Always);
    let table = read_table(ProcessesToUpdate::Some(&[pid]), environment);
    let value = |variable: &std::ffi::OsString| -> Option<Vec<u8>> {
        let value = variable
            .as_encoded_bytes()
            .strip_prefix(MARKER_VARIABLE.as_bytes())?;
        Some(value.strip_prefix(b"=")?.to_owned())
    };
    table.process(pid)?.environ().iter().find_map(value)
}

/// Whether the process runs our program, which suspends itself. The signals that a process catches are not known here.
pub(super) fn suspends_itself(pid: i32) -> bool {
    let program = |pid: u32| {
        let pid = sysinfo::Pid::from_u32(pid);
        let table = read_table(
            ProcessesToUpdate::Some(&[pid]),
            basic_facts().with_exe(UpdateKind::Always),
        );
        Some(table.process(pid)?.exe()?.to_owned())
    };
    let own = program(std::process::id());
    own.is_some() && own == u32::try_from(pid).ok().and_then(program)
}

/// Signals exactly this process: its key is compared first. These systems do not reuse an id so soon that another process
/// could have it by then.
pub(super) fn signal(meant: &Process, signal: Signal) {
    let is_meant = process(meant.pid).is_some_and(|now| now.key() == meant.key());
    if let Some(pid) = Pid::from_raw(meant.pid).filter(|_| is_meant) {
        // Fails if the process has ended by itself since; the next scan of the table shows which processes are left.
        let _ = kill_process(pid, signal);
    }
}

/// Makes this process the parent of descendants whose own parent has ended; `false` where the system has no such thing.
pub(super) fn adopt_orphans() -> io::Result<bool> {
    Ok(false)
}

/// Returns none: these systems let no process adopt orphans.
pub(super) fn our_children() -> Vec<i32> {
    Vec::new()
}

/// End of a child that is not reaped yet.
pub(super) struct ChildEnd {
    leader: Pid,
    /// Reports that any child has ended.
    ends: SignalStream,
}

impl ChildEnd {
    /// Watches a child that is not reaped yet, so that the number is its own.
    pub(super) fn of(leader: Pid) -> io::Result<Self> {
        let ends = signals(SignalKind::child())?;
        Ok(Self { leader, ends })
    }

    /// Waits until the child has ended, and leaves it unreaped.
    pub(super) async fn reached(&mut self) -> io::Result<()> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while waitid(WaitId::Pid(self.leader), look)?.is_none() {
            if self.ends.recv().await.is_none() {
                return Err(io::Error::other("nothing tells when a child ends"));
            }
        }
        Ok(())
    }

    /// Returns how the child has ended, and reaps it: some systems report the signal that ended a child only to the call
    /// that reaps it.
    pub(super) fn exit(&self, child: &mut Child) -> io::Result<ProcessExit> {
        use std::os::unix::process::ExitStatusExt;
        let status = child.try_wait()?.ok_or(io::ErrorKind::WouldBlock)?;
        Ok(match status.code() {
            Some(code) => ProcessExit::Exited(code),
            None => ProcessExit::Signaled(status.signal().unwrap_or_default()),
        })
    }
}

/// Does nothing: pipes have the length that the system gives them.
pub(super) fn widen(_pipe: impl AsFd) {}

/// Does nothing: no signal reports to a child that its parent has ended.
pub(super) fn end_with(_parent: Pid) -> Result<(), Errno> {
    Ok(())
}

/// Maximum number of descriptors that are closed. macOS allows a process no more unless it is configured to.
const MOST_DESCRIPTORS: u64 = 10_240;

/// Closes the descriptors from `first` on when this process, a child, becomes its program.
#[expect(unsafe_code, reason = "nobody owns the descriptors that are marked here")]
pub(super) fn close_later(first: c_uint) {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(MOST_DESCRIPTORS);
    let most = u32::try_from(most.min(MOST_DESCRIPTORS)).unwrap_or(first);
    for descriptor in (first..most).filter_map(|number| libc::c_int::try_from(number).ok()) {
        // SAFETY: plain numbers. Descriptors are only marked, and not used after the exec; one that is not open is refused.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Returns the use of the machine by one process, without its ended children; nothing if it no longer exists. It is
/// unknown which processes take connections.
pub(super) fn usage(pid: i32) -> ChildUse {
    let pid = sysinfo::Pid::from_u32(u32::try_from(pid).unwrap_or_default());
    let table = read_table(
        ProcessesToUpdate::Some(&[pid]),
        basic_facts().with_cpu().with_disk_usage(),
    );
    table
        .process(pid)
        .map_or_else(ChildUse::default, |process| ChildUse {
            processor: Duration::from_millis(process.accumulated_cpu_time()),
            written: process.disk_usage().total_written_bytes,
            listens: false,
        })
}
