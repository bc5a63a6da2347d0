//! The parts of the world that differ between systems, for Linux: `/proc`, pidfds (descriptors of processes), adopted orphans,
//! and children that end with us. `portable.rs` is the twin for other systems.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hankweave_core::agent::ProcessExit;
use libc::c_uint;
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, set_parent_process_death_signal, waitid,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

use super::process::{ChildUse, MARKER_VARIABLE, Process};

/// Abilities that this system lacks for a run.
pub(super) const WEAKER: &[&str] = &[];

/// Identifies the current boot of the machine.
pub(super) fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// Name space of the pids of this process.
pub(super) fn pid_namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Time since the machine's start, with its sleep.
pub(super) fn uptime() -> Option<Duration> {
    clock_gettime(ClockId::Boottime).try_into().ok()
}

/// Time since the machine's start without its sleep.
pub(super) fn awake() -> Option<Duration> {
    clock_gettime(ClockId::Monotonic).try_into().ok()
}

/// Makes everything durable that was written to the file system of `file`.
pub(super) fn sync_file_system(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

/// Lets the system start to write a part of a file to the disk: `length` bytes from offset `from` on.
pub(super) fn send_on(file: &File, from: u64, length: u64) {
    // This is advice: a system that ignores it writes the part later.
    let _ = fadvise(file, from, NonZeroU64::new(length), Advice::DontNeed);
}

/// The process with this number.
pub(super) fn process(pid: i32) -> Option<Process> {
    parse(pid, str::from_utf8(&read(pid, "stat")?).ok()?)
}

/// Parses `/proc/PID/stat`. The name in the second field may hold spaces and brackets, so the other fields begin after the
/// last bracket.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let first_thread_ended = matches!(state, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(13)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        group,
        session,
        lives: !first_thread_ended || threads > 1,
        is_stopped: state == "T",
        start_time: fields.nth(1)?.parse().ok()?,
    })
}

/// All processes.
pub(super) fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(process)
        .collect()
}

/// Whether a process that can be signalled has ended: it stays in the table until its parent reaps it.
pub(super) fn has_ended(pid: i32) -> bool {
    process(pid).is_some_and(|process| !process.lives)
}

/// The marker variable in the environment of a process.
pub(super) fn marker(pid: i32) -> Option<Vec<u8>> {
    let environment = read(pid, "environ")?;
    let value = |variable: &'_ [u8]| -> Option<Vec<u8>> {
        let value = variable.strip_prefix(MARKER_VARIABLE.as_bytes())?;
        Some(value.strip_prefix(b"=")?.to_owned())
    };
    environment.split(|byte| *byte == 0).find_map(value)
}

/// Whether the process suspends itself, which shows in that it catches SIGTSTP.
pub(super) fn suspends_itself(pid: i32) -> bool {
    let status = read(pid, "status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mut lines = status.lines();
    let caught = lines.find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
    let bit = 1_u64 << (Signal::TSTP.as_raw() - 1);
    caught.is_some_and(|caught| caught & bit != 0)
}

/// Signals exactly this process: the pidfd is opened first and then compared, so that the id cannot have been reused.
pub(super) fn signal(meant: &Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(meant.pid) else {
        return;
    };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if process(meant.pid).is_some_and(|now| now.key() == meant.key()) {
        // Fails if the process has ended by itself since; the next scan of the table shows which processes are left.
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// Makes this process the parent of descendants whose own parent has ended; `false` where the system has no such thing.
pub(super) fn adopt_orphans() -> io::Result<bool> {
    set_child_subreaper(Some(getpid()))?;
    Ok(true)
}

/// Our children and the orphans that we have adopted; none where the system does not list them.
pub(super) fn our_children() -> Vec<i32> {
    // Orphans become the children of our first thread.
    let list = format!("/proc/self/task/{}/children", getpid().as_raw_nonzero());
    let list = fs::read_to_string(list).unwrap_or_default();
    let numbers = list.split_ascii_whitespace();
    numbers.filter_map(|pid| pid.parse().ok()).collect()
}

/// End of a child that is not reaped yet.
pub(super) struct ChildEnd(AsyncFd<OwnedFd>);

impl ChildEnd {
    /// Watches a child that is not reaped yet, so that the number is its own.
    pub(super) fn of(leader: Pid) -> io::Result<Self> {
        let pidfd = pidfd_open(leader, PidfdFlags::empty())?;
        #[expect(
            deprecated,
            reason = "the replacement is unsafe; an owned descriptor is what it asks for"
        )]
        AsyncFd::new(pidfd).map(Self)
    }

    /// Waits until the child has ended, and leaves it unreaped.
    pub(super) async fn reached(&mut self) -> io::Result<()> {
        self.0.readable().await.map(drop)
    }

    /// Returns how the child has ended, and leaves it unreaped.
    pub(super) fn exit(&self, _child: &mut Child) -> io::Result<ProcessExit> {
        let unreaped = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::PidFd(self.0.get_ref().as_fd()), unreaped)?;
        let status = status.expect("whoever may wait gets an answer");
        Ok(match status.exit_status() {
            Some(code) => ProcessExit::Exited(code),
            None => ProcessExit::Signaled(status.terminating_signal().unwrap_or_default()),
        })
    }
}

/// Length of a widened pipe, in bytes. With the usual 64 KiB a child that writes much would have to wait for us more often.
const PIPE_BYTES: usize = 1 << 20;

pub(super) fn widen(pipe: impl AsFd) {
    // The system refuses this to users with many pipes; the usual length is enough.
    let _ = fcntl_setpipe_size(pipe, PIPE_BYTES);
}

/// Makes the system kill this process, a child before its program, when the thread that started it ends.
pub(super) fn end_with(parent: Pid) -> Result<(), Errno> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid() == Some(parent) {
        true => Ok(()),
        // The parent ended before the line above took effect.
        false => Err(Errno::SRCH),
    }
}

/// Closes the descriptors from `first` on when this process, a child, becomes its program.
#[expect(unsafe_code, reason = "no safe wrapper marks a range of descriptors")]
pub(super) fn close_later(first: c_uint) {
    // SAFETY: plain numbers. Descriptors are only marked, and not used after the exec; a kernel before 5.11 refuses,
    // which leaves them open.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}

/// Returns the use of the machine by one process; nothing if it no longer exists.
pub(super) fn usage(pid: i32) -> ChildUse {
    ChildUse {
        processor: processor(pid).unwrap_or_default(),
        written: written(pid).unwrap_or_default(),
        listens: listens(pid),
    }
}

/// Length of a tick of the times in `/proc`, which programs see as a hundredth of a second on every system.
const TICK: Duration = Duration::from_millis(10);

/// State of a listening socket, in `/proc/PID/net/tcp`.
const LISTENS: &str = "0A";

/// Returns the processor time of the process and of its children that have ended.
fn processor(pid: i32) -> Option<Duration> {
    let stat = read(pid, "stat")?;
    let stat = str::from_utf8(&stat).ok()?.rsplit_once(')')?.1;
    // utime, stime, cutime and cstime.
    let ticks = stat.split_ascii_whitespace().skip(11).take(4);
    let ticks: u32 = ticks.filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    Some(TICK * ticks)
}

fn written(pid: i32) -> Option<u64> {
    let io = read(pid, "io")?;
    let mut lines = str::from_utf8(&io).ok()?.lines();
    lines.find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
}

/// Whether the process holds a socket that takes connections over the network.
fn listens(pid: i32) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let sockets = targets.filter_map(|target| {
        let name = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(name.to_owned())
    });
    let sockets: BTreeSet<String> = sockets.collect();
    !sockets.is_empty()
        && ["net/tcp", "net/tcp6"]
            .iter()
            .any(|table| has_listener(pid, table, &sockets))
}

/// Whether one of `sockets`, named by their inodes, listens according to this table.
fn has_listener(pid: i32, table: &str, sockets: &BTreeSet<String>) -> bool {
    let table = read(pid, table).unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(3) == Some(LISTENS) && fields.nth(5).is_some_and(|inode| sockets.contains(inode))
    })
}

/// Reads a file about a process. The system reports no length for it, so `take` keeps `read_to_end` from asking for one. Most
/// files are shorter than the first read.
fn read(pid: i32, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    let file = File::open(format!("/proc/{pid}/{name}")).ok()?;
    file.take(u64::MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_stat_line_is_read_behind_the_last_bracket() {
        let stat = "42 (a) S (b)) R 7 42 43 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 2 3";
        let process = parse(42, stat).unwrap();
        assert_eq!(
            (process.parent, process.session, process.lives, process.start_time),
            (7, 43, true, 123_456)
        );
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_lives_as_long_as_another_runs() {
        for (threads, lives) in [(1, false), (3, true)] {
            let stat = format!("42 (a) Z 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 123456 1 2 3");
            assert_eq!(parse(42, &stat).unwrap().lives, lives);
        }
    }

    #[test]
    fn a_damaged_stat_line_is_no_process() {
        for stat in ["", "42 (x", "42 (x) S", "42 (x) S y 1"] {
            assert_eq!(parse(42, stat), None, "{stat}");
        }
    }

    // covers: HANK-75
    #[test]
    fn this_process_listens_while_it_holds_such_a_socket() {
        let own = i32::try_from(std::process::id()).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listens(own));
        drop(socket);
    }
}
