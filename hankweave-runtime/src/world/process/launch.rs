//! What a child does to itself before it becomes the program that was asked for.

use std::io;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid, umask};
use tokio::process::Command;

/// The first descriptor that is not one of the three standard ones.
const FIRST_OTHER: libc::c_uint = 3;

/// Signals are numbered from 1; the ones from here on are those of real time, which nobody ignores for us.
const AFTER_LAST_SIGNAL: libc::c_int = 32;

/// Makes children of `command` start as "reliability and security", rule S1, wants: in a session of their own, ended when we are
/// killed, with nothing inherited but the three standard descriptors, default signals and umask 077.
///
/// A failure in here is a failure of the spawn, like a program that does not exist.
#[expect(
    unsafe_code,
    reason = "the standard library has no other way to run code between fork and exec"
)]
pub(super) fn prepare(command: &mut Command) {
    let parent = getpid();
    // SAFETY: the closure runs in the child of a fork, where only async-signal-safe calls are allowed. It makes system calls, allocates
    // nothing, takes no lock, and touches no memory but its copy of `parent`.
    unsafe {
        command.pre_exec(move || in_the_child(parent));
    }
}

fn in_the_child(parent: Pid) -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        // The parent was killed before the line above could take effect.
        return Err(io::ErrorKind::NotFound.into());
    }
    umask(Mode::from_raw_mode(0o077));
    close_others_at_exec();
    use_default_signals();
    Ok(())
}

/// Descriptors of ours are closed anyway; this is about those that we inherited from whoever started us.
#[expect(
    unsafe_code,
    reason = "no safe wrapper of this system call is async-signal-safe"
)]
fn close_others_at_exec() {
    // SAFETY: plain numbers; descriptors are only marked, and used by nobody after the exec. A kernel before 5.11 says no, which
    // leaves things as they are.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST_OTHER,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}

/// What we or whoever started us ignores is not ignored by agents: `nohup` is for hankweave itself.
#[expect(unsafe_code, reason = "no safe wrapper resets a signal")]
fn use_default_signals() {
    for signal in 1..AFTER_LAST_SIGNAL {
        // SAFETY: `SIG_DFL` runs no code of ours. SIGKILL and SIGSTOP refuse, and are default already.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}
