//! Environment of the program at its start (variables, ignored signals, umask), and the search for programs on PATH.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process::{geteuid, umask};

use super::disk::{Disk, FileKind, permissions};

/// The environment variables and the program itself, read once so that nothing that happens later changes an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    program: Option<PathBuf>,
    fallback_state: Option<PathBuf>,
    /// Name of the account, where the system has it in a file.
    account: Option<String>,
    /// One bit for each signal, the lowest for signal 1.
    ignored_signals: u64,
}

impl Environment {
    /// Returns the environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            program: std::env::current_exe().ok(),
            fallback_state: Some(format!("/var/tmp/hankweave-{}", geteuid().as_raw()).into()),
            account: account(geteuid().as_raw()),
            ignored_signals: ignored_signals(),
        }
    }

    /// Whether the program was started with this signal ignored, as `nohup` does with SIGHUP. `signal` counts from 1.
    #[must_use]
    pub fn ignores_signal(&self, signal: i32) -> bool {
        (1..=64).contains(&signal) && self.ignored_signals >> (signal - 1) & 1 == 1
    }

    /// Returns the folder for lasting files of a user without a home; `None` if this is not the environment of a process.
    #[must_use]
    pub fn fallback_state(&self) -> Option<&Path> {
        self.fallback_state.as_deref()
    }

    /// The value of a variable; `None` when it is not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Name of the user: as the environment has it, else that of the account.
    #[must_use]
    pub fn user(&self) -> Option<String> {
        let names = ["LOGNAME", "USER"].map(|name| self.get(name).and_then(OsStr::to_str));
        let mut names = names.into_iter().flatten().chain(self.account.as_deref());
        names.find(|name| !name.trim().is_empty()).map(str::to_owned)
    }

    /// All variables with their values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns the environment with another value of one variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Returns the file of the running program; `None` if the system does not report it.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    /// An environment of these variables, whose program is not known.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self {
            variables,
            program: None,
            fallback_state: None,
            account: None,
            ignored_signals: 0,
        }
    }
}

/// Returns the name of an account in `/etc/passwd`.
fn account(id: u32) -> Option<String> {
    name_of_account(&std::fs::read_to_string("/etc/passwd").ok()?, id)
}

fn name_of_account(accounts: &str, id: u32) -> Option<String> {
    let id = id.to_string();
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        // `name:password:id:` begins a line.
        let (name, account_id) = (fields.next()?, fields.nth(1)?);
        (account_id == id).then(|| name.to_owned())
    })
}

/// The signals that this process ignores, one bit for each.
#[expect(unsafe_code, reason = "no safe wrapper tells what becomes of a signal")]
fn ignored_signals() -> u64 {
    let is_ignored = |signal: &libc::c_int| {
        // SAFETY: all zeros are an action, which the call replaces; without a new one it changes nothing.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(*signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
        }
    };
    let ignored = (1..AFTER_LAST_SIGNAL).filter(is_ignored);
    ignored.fold(0, |mask, signal| mask | 1 << (signal - 1))
}

/// First number of the real-time signals, which no program ignores for us. Signals are numbered from 1.
pub(super) const AFTER_LAST_SIGNAL: libc::c_int = 32;

/// The umask that the user had chosen, set when this process gets another one.
static UMASK_OF_USER: OnceLock<u32> = OnceLock::new();

/// Makes every new file and folder of this process private, also those that libraries make (X5). For a program
/// of its own, not for one that embeds the runtime: it concerns the whole process.
pub fn make_new_files_private() {
    let before = umask(Mode::from_raw_mode(0o077));
    // A second call would read our own umask, so only the first sets the user's.
    let _ = UMASK_OF_USER.set(permissions(before.as_raw_mode()));
}

/// Lets a write beyond the user's limit for the length of files (`ulimit -f`) fail like one to a full disk, instead of ending
/// the process. Like [`make_new_files_private`] only for a program of its own; programs that it starts get the default back.
#[expect(unsafe_code, reason = "no safe wrapper ignores a signal")]
pub fn outlive_file_limits() {
    // SAFETY: ignoring a signal runs no code of ours, whatever other threads do.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Returns the user's umask, which new files in the workspace must get explicitly; `None` if it is still that of this process.
#[must_use]
pub fn umask_of_user() -> Option<u32> {
    UMASK_OF_USER.get().copied()
}

/// Returns the first executable file called `name` in the absolute folders of `path`, a value of the variable `PATH`.
pub fn find_program(disk: &dyn Disk, name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(disk, candidate))
}

fn is_executable(disk: &dyn Disk, path: &Path) -> bool {
    disk.metadata_followed(path)
        .is_ok_and(|metadata| metadata.kind == FileKind::File && metadata.mode & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::disk::RealDisk;
    use super::*;

    #[test]
    fn the_name_of_a_user_without_variables_is_that_of_the_account() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\n# no account\nada:x:1000:1000::/home/ada:/bin/zsh\n";
        let names = [0, 1000, 7].map(|id| name_of_account(accounts, id));
        assert_eq!(names, [Some("root".to_owned()), Some("ada".to_owned()), None]);
        let of = |variables: &[(&str, &str)]| Environment {
            account: Some("ada".to_owned()),
            ..variables.iter().copied().collect::<Environment>()
        };
        assert_eq!(of(&[]).user().as_deref(), Some("ada"));
        assert_eq!(of(&[("USER", " ")]).user().as_deref(), Some("ada"));
        assert_eq!(of(&[("USER", "grace")]).user().as_deref(), Some("grace"));
    }

    #[test]
    fn only_executable_files_in_absolute_folders_are_programs() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("agent");
        std::fs::write(&program, "").unwrap();
        let path = std::env::join_paths([Path::new("."), Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(find_program(&RealDisk, "agent", &path), None);
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find_program(&RealDisk, "agent", &path), Some(program));
    }
}
