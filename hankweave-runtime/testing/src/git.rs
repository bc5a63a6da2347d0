//! Git's own check of a repository.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Asks git about a repository when it is dropped; see [`assert_sound`]. A test that has failed already is left alone.
#[derive(Debug)]
pub struct SoundAtEnd(pub PathBuf);

impl Drop for SoundAtEnd {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_sound(&self.0);
        }
    }
}

/// Asserts that `git fsck --strict` finds nothing wrong with the repository in the folder `repository`. Prints a note if
/// there is no git.
///
/// # Panics
///
/// Panics with the output of git.
#[track_caller]
pub fn assert_sound(repository: &Path) {
    let asked = Command::new("git")
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .arg("--git-dir")
        .arg(repository)
        .args(["fsck", "--full", "--strict", "--no-dangling", "--no-progress"])
        .output();
    let Ok(answer) = asked else {
        eprintln!("skipped: there is no git to look at {}", repository.display());
        return;
    };
    let said = [answer.stdout, answer.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let finds = |line: &str| !line.starts_with("notice: ");
    assert!(
        answer.status.success() && !said.concat().lines().any(finds),
        "git finds fault with {}:\n{}",
        repository.display(),
        said.concat()
    );
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    #[should_panic(expected = "git finds fault")]
    fn a_branch_without_its_commit_is_found() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let repository = folder.path();
        let made = Command::new("git")
            .args(["init", "-q", "--bare"])
            .arg(repository)
            .status();
        assert!(
            made.is_ok_and(|made| made.success()),
            "git finds fault: there is none"
        );
        assert_sound(repository);
        fs::write(repository.join("refs/heads/main"), format!("{:040}\n", 1))
            .expect("the folder is writable");
        drop(SoundAtEnd(repository.to_owned()));
    }
}
