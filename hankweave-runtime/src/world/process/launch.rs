//! Starting a program without a copy of ourselves.
//!
//! A fork copies the tables of our memory, and afterwards each page that we write. That takes a millisecond for ten megabytes and grows with
//! them, on the way from one codon to the next. Here the child borrows our memory, on a stack of its own, while the thread that
//! starts it stands still until it has become the program that was asked for (`CLONE_VM` and `CLONE_VFORK`, as `posix_spawn` does it, which
//! cannot tie the life of a child to ours).

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_char, c_int, c_uint, c_void};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, chdir, getpid, getppid, kill_process, set_parent_process_death_signal, setsid,
    umask, waitpid,
};

use super::{CommandSpec, MARKER_VARIABLE, Stdin};

/// The first descriptor that is not one of the three standard ones.
const FIRST_OTHER: RawFd = 3;

/// Signals are numbered from 1; the ones from here on are those of real time, which nobody ignores for us.
const AFTER_LAST_SIGNAL: c_int = 32;

/// What the child needs between its birth and its program: a few system calls.
const STACK_BYTES: usize = 64 << 10;

/// Where programs are looked for when nobody says where.
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";

/// Reads a program that says nothing about who does.
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// A process that has become its program, and our ends of its pipes.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) pid: Pid,
    /// Names the process, and becomes readable when it ends.
    pub(super) pidfd: OwnedFd,
    /// `None` when it has nothing to read.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Starts a program as S1 wants: in a session of its own, ended when the thread that starts it is, with
/// nothing inherited but the three standard descriptors, default signals and umask 077.
///
/// # Errors
///
/// What the operating system said to the first step that failed, also to one of the child's: [`io::ErrorKind::NotFound`] for a missing
/// program or folder. [`io::ErrorKind::InvalidInput`] for a text with a zero byte. Nothing is left behind then.
pub(super) fn launch(spec: &CommandSpec) -> io::Result<Launched> {
    let (stdin, our_stdin) = match spec.stdin {
        Stdin::Closed => {
            let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            (nothing, None)
        }
        Stdin::Bytes(_) => {
            let (read, write) = pipe()?;
            (read, Some(write))
        }
    };
    let (our_stdout, stdout) = pipe()?;
    let (our_stderr, stderr) = pipe()?;
    let standard = [
        above_standard(stdin)?,
        above_standard(stdout)?,
        above_standard(stderr)?,
    ];
    let (pid, pidfd) = start(&Plan::new(spec, &standard)?)?;
    Ok(Launched {
        pid,
        pidfd,
        stdin: our_stdin,
        stdout: our_stdout,
        stderr: our_stderr,
    })
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// One of the three standard descriptors may have been free, and the child would write over it.
fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    match fd.as_raw_fd() >= FIRST_OTHER {
        true => Ok(fd),
        false => Ok(fcntl_dupfd_cloexec(&fd, FIRST_OTHER)?),
    }
}

/// Everything that the child uses, made before it begins: it may allocate nothing.
struct Plan {
    parent: Pid,
    folder: CString,
    standard: [RawFd; 3],
    /// Where the program may be.
    programs: Vec<Program>,
    arguments: Texts,
    environment: Texts,
    /// What the child was told by the system when it failed; zero as long as it has not.
    failure: AtomicI32,
}

/// A place where the program may be.
struct Program {
    path: CString,
    /// The arguments of a shell that reads it.
    for_shell: Vec<*const c_char>,
}

/// Texts as the system takes them.
struct Texts {
    /// They own what the pointers point to.
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Texts {
    fn new(texts: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let texts = texts.map(text).collect::<io::Result<Vec<_>>>()?;
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]);
        Ok(Self {
            pointers: pointers.collect(),
            _texts: texts,
        })
    }
}

fn text(text: OsString) -> io::Result<CString> {
    Ok(CString::new(text.into_vec())?)
}

impl Plan {
    fn new(spec: &CommandSpec, standard: &[OwnedFd; 3]) -> io::Result<Self> {
        let marker = (OsString::from(MARKER_VARIABLE), OsString::from(&spec.marker));
        let variables = spec.env.iter().filter(|(name, _)| *name != MARKER_VARIABLE);
        let variables = variables
            .map(|(name, value)| (name.clone(), value.clone()))
            .chain([marker]);
        let environment = variables.map(|(mut variable, value)| {
            variable.push("=");
            variable.push(value);
            variable
        });
        let program = spec.program.clone().into_os_string();
        let arguments = Texts::new([program].into_iter().chain(spec.args.iter().cloned()))?;
        let places = places(&spec.program, spec.env.get(OsStr::new("PATH")));
        let programs = places.into_iter().map(|place| Program::new(place, &arguments));
        Ok(Self {
            parent: getpid(),
            folder: text(spec.work_dir.clone().into_os_string())?,
            standard: [0, 1, 2].map(|number| standard[number].as_raw_fd()),
            programs: programs.collect::<io::Result<_>>()?,
            environment: Texts::new(environment)?,
            arguments,
            failure: AtomicI32::new(0),
        })
    }
}

impl Program {
    fn new(place: OsString, arguments: &Texts) -> io::Result<Self> {
        let path = text(place)?;
        let rest = arguments.pointers.iter().skip(1).copied();
        Ok(Self {
            for_shell: [SHELL.as_ptr(), path.as_ptr()].into_iter().chain(rest).collect(),
            path,
        })
    }
}

/// A name without a folder is looked for in those of `PATH`, an empty one of which is the folder of the child.
fn places(program: &Path, path: Option<&OsString>) -> Vec<OsString> {
    let name = program.as_os_str();
    if name.as_bytes().contains(&b'/') {
        return vec![name.to_owned()];
    }
    let path = path.map_or(USUAL_PATH, |path| path.as_bytes());
    let folders = path.split(|byte| *byte == b':');
    folders
        .map(|folder| Path::new(OsStr::from_bytes(folder)).join(name).into_os_string())
        .collect()
}

/// Starts the child, and waits until it has become its program.
#[expect(
    unsafe_code,
    reason = "no safe wrapper starts a process that borrows our memory"
)]
fn start(plan: &Plan) -> io::Result<(Pid, OwnedFd)> {
    let mut stack = vec![MaybeUninit::<u128>::uninit(); STACK_BYTES / size_of::<u128>()];
    let mut pidfd: c_int = -1;
    let pid = {
        // A handler of ours must not run in the child, where it would find our memory and another process.
        let _blocked = BlockedSignals::all()?;
        // SAFETY: the stack grows down from the end of memory that nobody else uses. The child reads the plan, which outlives it as a borrower of our
        // memory, since this thread stands still until then; it writes to `failure` only, which is atomic. See `child` for what it does.
        unsafe {
            libc::clone(
                child,
                stack.as_mut_ptr_range().end.cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
                ptr::from_ref(plan).cast_mut().cast::<c_void>(),
                ptr::from_mut(&mut pidfd),
            )
        }
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let pid = Pid::from_raw(pid).expect("the system gives positive numbers");
    if pidfd < 0 {
        // A kernel before 5.2 does not know what it is asked for.
        let _ = kill_process(pid, Signal::KILL);
        reap(pid);
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the system has opened it for us, and nobody else knows of it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    match plan.failure.load(Ordering::Relaxed) {
        0 => Ok((pid, pidfd)),
        failure => {
            // It has ended or is about to.
            reap(pid);
            Err(io::Error::from_raw_os_error(failure))
        }
    }
}

fn reap(child: Pid) {
    // It is ours, so nothing else can be wrong.
    let _ = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
}

/// As long as it lives, this thread gets no signals.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    #[expect(unsafe_code, reason = "no safe wrapper blocks signals")]
    fn all() -> io::Result<Self> {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the first call fills `all`, the second one fills `before` where it succeeds.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
                0 => Ok(Self(before.assume_init())),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

impl Drop for BlockedSignals {
    #[expect(unsafe_code, reason = "no safe wrapper unblocks signals")]
    fn drop(&mut self) {
        // SAFETY: the set is what the system has given. Only a wrong first argument makes it fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut());
        }
    }
}

/// The child, in our memory. It makes system calls, allocates nothing, takes no lock and does not panic.
#[expect(unsafe_code, reason = "the system hands over a pointer")]
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: `start` has passed its plan, and waits.
    let plan = unsafe { &*plan.cast::<Plan>() };
    let failure = become_the_program(plan);
    plan.failure.store(failure.raw_os_error(), Ordering::Relaxed);
    // SAFETY: nothing of ours is run at the end, unlike with `exit`.
    unsafe { libc::_exit(127) }
}

/// Returns only when that fails.
fn become_the_program(plan: &Plan) -> Errno {
    match prepare(plan) {
        Ok(()) => execute(plan),
        Err(error) => error,
    }
}

fn prepare(plan: &Plan) -> Result<(), Errno> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(plan.parent) {
        // The parent was killed before the line above could take effect.
        return Err(Errno::SRCH);
    }
    umask(Mode::from_raw_mode(0o077));
    chdir(&*plan.folder)?;
    use_standard(plan.standard)?;
    close_others_at_exec();
    use_default_signals();
    Ok(())
}

#[expect(unsafe_code, reason = "the safe wrapper wants descriptors that are owned")]
fn use_standard(standard: [RawFd; 3]) -> Result<(), Errno> {
    for (number, fd) in (0..FIRST_OTHER).zip(standard) {
        // SAFETY: plain numbers. The table of descriptors is a copy, and nobody in the child owns one of these three.
        if unsafe { libc::dup2(fd, number) } < 0 {
            return Err(last_error());
        }
    }
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
            FIRST_OTHER as c_uint,
            c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}

/// What we or whoever started us ignores is not ignored by agents: `nohup` is for hankweave itself. What is blocked is blocked no longer.
#[expect(unsafe_code, reason = "no safe wrapper resets a signal")]
fn use_default_signals() {
    for signal in 1..AFTER_LAST_SIGNAL {
        // SAFETY: `SIG_DFL` runs no code of ours, and the table of handlers is a copy. SIGKILL and SIGSTOP refuse, and are default already.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: the first call fills `none`.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Tries each place as `execvp` does: what is missing or may not be run there may be found at the next one.
#[expect(unsafe_code, reason = "no safe wrapper becomes a program without allocating")]
fn execute(plan: &Plan) -> Errno {
    let (arguments, environment) = (
        plan.arguments.pointers.as_ptr(),
        plan.environment.pointers.as_ptr(),
    );
    let (mut refused, mut missing) = (None, Errno::NOENT);
    for program in &plan.programs {
        // SAFETY: all three end with a null, and point to texts that the plan owns.
        let error = unsafe {
            libc::execve(program.path.as_ptr(), arguments, environment);
            last_error()
        };
        match error {
            Errno::NOEXEC => {
                // SAFETY: as above.
                unsafe {
                    libc::execve(SHELL.as_ptr(), program.for_shell.as_ptr(), environment);
                }
                return last_error();
            }
            Errno::ACCESS => refused = Some(error),
            Errno::NOENT | Errno::NOTDIR => missing = error,
            _ => return error,
        }
    }
    refused.unwrap_or(missing)
}

/// What the system said last to this thread, whose place for it the child borrows too.
fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, File, Permissions};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    fn spec(program: impl Into<PathBuf>, args: &[&str], work_dir: &Path) -> CommandSpec {
        CommandSpec {
            program: program.into(),
            args: args.iter().map(OsString::from).collect(),
            env: BTreeMap::from([("PATH".into(), "/nowhere:/bin:/usr/bin".into())]),
            work_dir: work_dir.to_owned(),
            stdin: Stdin::Closed,
            marker: "a marker".to_owned(),
        }
    }

    /// What a program prints, once it has ended.
    fn printed(spec: &CommandSpec) -> String {
        let launched = launch(spec).unwrap();
        let mut text = String::new();
        File::from(launched.stdout).read_to_string(&mut text).unwrap();
        File::from(launched.stderr).read_to_string(&mut text).unwrap();
        waitpid(Some(launched.pid), WaitOptions::empty()).unwrap();
        text
    }

    fn refused(spec: &CommandSpec) -> io::ErrorKind {
        launch(spec).unwrap_err().kind()
    }

    // covers: S1
    #[test]
    fn a_child_has_its_arguments_its_environment_and_its_folder_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let script = r#"pwd; echo "$0" "$@"; /usr/bin/env | sort; ls /proc/$$/fd; umask; read -r _ _ _ _ _ session _ < /proc/$$/stat; echo $session; echo $$; cat"#;
        let said = printed(&spec("sh", &["-c", script, "a", "b c", ""], folder.path()));
        let lines: Vec<_> = said.lines().collect();
        let work_dir = folder.path().canonicalize().unwrap();
        assert_eq!(lines[..2], [work_dir.to_str().unwrap(), "a b c "]);
        for variable in ["HANKWEAVE_CODON=a marker", "PATH=/nowhere:/bin:/usr/bin"] {
            assert!(lines.contains(&variable), "{said}");
        }
        assert!(!said.contains("CARGO"), "{said}");
        let place = lines.iter().position(|line| *line == "0").unwrap();
        assert_eq!(lines[place..place + 4], ["0", "1", "2", "0077"]);
        assert_eq!(lines[place + 4], lines[place + 5], "it leads its session");
        assert_eq!(lines.len(), place + 6);
    }

    #[test]
    fn a_program_that_cannot_be_started_is_told_by_what_the_system_says() {
        let folder = tempfile::tempdir().unwrap();
        let missing_folder = folder.path().join("none");
        let plain = folder.path().join("plain");
        fs::write(&plain, "echo read by a shell: $1").unwrap();
        let plain_spec = spec(&plain, &["so"], folder.path());
        for (spec, kind) in [
            (
                spec("no-such-program", &[], folder.path()),
                io::ErrorKind::NotFound,
            ),
            (
                spec("/bin/no-such-program", &[], folder.path()),
                io::ErrorKind::NotFound,
            ),
            (
                spec("/bin/sh/x", &[], folder.path()),
                io::ErrorKind::NotADirectory,
            ),
            (spec("true", &[], &missing_folder), io::ErrorKind::NotFound),
            (plain_spec.clone(), io::ErrorKind::PermissionDenied),
            (
                spec("true", &["a\0b"], folder.path()),
                io::ErrorKind::InvalidInput,
            ),
        ] {
            assert_eq!(refused(&spec), kind, "{spec:?}");
        }
        fs::set_permissions(&plain, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(printed(&plain_spec), "read by a shell: so\n");
    }

    /// The folder of the child may be one of those where programs are.
    #[test]
    fn a_name_is_looked_for_in_each_folder_of_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let tool = folder.path().join("tool");
        fs::write(&tool, "#!/bin/sh\necho found").unwrap();
        fs::set_permissions(&tool, Permissions::from_mode(0o700)).unwrap();
        let mut spec = spec("tool", &[], folder.path());
        assert_eq!(refused(&spec), io::ErrorKind::NotFound);
        spec.env.insert("PATH".into(), "/bin::/usr/bin".into());
        assert_eq!(printed(&spec), "found\n");
        spec.env.remove(OsStr::new("PATH"));
        assert_eq!(refused(&spec), io::ErrorKind::NotFound);
        spec.program = "true".into();
        assert_eq!(printed(&spec), "");
    }
}
