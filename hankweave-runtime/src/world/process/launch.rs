//! How a program is started: by the standard library, with a few steps of ours in the child.

use std::process::Stdio;

use libc::c_uint;
use rustix::fs::{Mode, RawMode};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, setsid, umask};
use tokio::process::Command;

use super::{CommandSpec, MARKER_VARIABLE, Stdin};
use crate::world::environment::{AFTER_LAST_SIGNAL, umask_of_user};
use crate::world::system;

/// The first descriptor that is not one of the three standard ones.
const FIRST_OTHER: c_uint = 3;

/// Returns the command that starts a program as S1 requires: in a session of its own, and killed when the thread that started
/// it ends. The program gets only the three standard descriptors, default signals and the user's umask. Dropping the child
/// kills it.
#[expect(
    unsafe_code,
    reason = "no safe interface runs anything in the child, and nobody else can give it all of this"
)]
pub(super) fn command(spec: &CommandSpec) -> Command {
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(&spec.env)
        .env(MARKER_VARIABLE, &spec.marker)
        .current_dir(&spec.work_dir)
        .stdin(match spec.stdin {
            Stdin::Closed => Stdio::null(),
            Stdin::Bytes(_) | Stdin::Open => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let (parent, umask) = (getpid(), umask_of_user());
    // SAFETY: the child is a copy of a process with many threads, and only this thread continues: it must not wait for a
    // lock or allocate. `prepare` makes system calls and nothing else.
    unsafe { command.pre_exec(move || Ok(prepare(parent, umask)?)) };
    command
}

/// Runs in the child, right before it becomes its program. The standard library has unblocked all signals.
fn prepare(parent: Pid, of_user: Option<u32>) -> Result<(), Errno> {
    setsid()?;
    system::end_with(parent)?;
    // The umask of this process keeps our own files private (X5); files that a child makes are the user's.
    if let Some(of_user) = of_user {
        umask(Mode::from_raw_mode(of_user as RawMode));
    }
    inherit_nothing();
    Ok(())
}

/// Resets descriptors and signals that a child would inherit from the process that started us. Our own descriptors are
/// closed anyway, but that process may have left others open. It may also have made us ignore signals, as `nohup` does,
/// which is meant for hankweave alone.
#[expect(unsafe_code, reason = "no safe wrapper resets a signal")]
fn inherit_nothing() {
    system::close_later(FIRST_OTHER);
    for signal in 1..AFTER_LAST_SIGNAL {
        // SAFETY: `SIG_DFL` runs no code of ours; SIGKILL and SIGSTOP refuse, and are default already.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::fs::{self, Permissions};
    use std::io;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

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

    /// Returns the output of a program, once it has ended.
    async fn printed(spec: &CommandSpec) -> io::Result<String> {
        let output = command(spec).output().await?;
        Ok(String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }

    // covers: S1
    #[tokio::test]
    async fn a_child_has_its_arguments_its_environment_and_its_folder_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let script = r#"pwd; echo "$0" "$@"; /usr/bin/env | sort; ls /proc/$$/fd; umask; read -r _ _ _ _ _ session _ < /proc/$$/stat; echo $session; echo $$; cat"#;
        let said = printed(&spec("sh", &["-c", script, "a", "b c", ""], folder.path())).await;
        let said = said.unwrap();
        let lines: Vec<_> = said.lines().collect();
        let work_dir = folder.path().canonicalize().unwrap();
        assert_eq!(lines[..2], [work_dir.to_str().unwrap(), "a b c "]);
        for variable in ["HANKWEAVE_CODON=a marker", "PATH=/nowhere:/bin:/usr/bin"] {
            assert!(lines.contains(&variable), "{said}");
        }
        assert!(!said.contains("CARGO"), "{said}");
        let place = lines.iter().position(|line| *line == "0").unwrap();
        let own = std::process::Command::new("sh")
            .args(["-c", "umask"])
            .output()
            .unwrap();
        let own = String::from_utf8(own.stdout).unwrap();
        assert_eq!(lines[place..place + 4], ["0", "1", "2", own.trim()]);
        assert_eq!(lines[place + 4], lines[place + 5], "it leads its session");
        assert_eq!(lines.len(), place + 6);
    }

    #[tokio::test]
    async fn a_program_that_cannot_be_started_is_told_by_what_the_system_says() {
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
            assert_eq!(printed(&spec).await.unwrap_err().kind(), kind, "{spec:?}");
        }
        fs::set_permissions(&plain, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(printed(&plain_spec).await.unwrap(), "read by a shell: so\n");
    }
}
