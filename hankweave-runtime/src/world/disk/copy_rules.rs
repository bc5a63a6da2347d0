//! Rules for the entries that a copy of a hank's folder leaves out, when a rig copies from there (HANK-15).

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hankweave_core::hank::reserved::is_git;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{Folder, OpenedEntry};

/// Largest `.gitignore` that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Rules for a hank without a `.gitignore`: entries that make a copy large, or belong to one machine.
const DEFAULTS: &str = "node_modules/\n.hankweave/\n.DS_Store\n__pycache__/\n*.log\ndist/\nbuild/\ntarget/\n.venv/\nvenv/\ncoverage/\n.cache/\n";

/// The rules of one hank: those of its `.gitignore`, even an empty one, else the default ones. Git's own files never belong to a copy.
#[derive(Debug)]
pub struct CopyRules(Gitignore);

impl CopyRules {
    /// Reads the rules in the folder of the hank.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, and [`InvalidInput`](io::ErrorKind::InvalidInput) if the file is not regular
    /// or is larger than 1 MiB: then the rules are unknown.
    pub fn of(hank: &dyn Folder) -> io::Result<Self> {
        let text = match hank.open(OsStr::new(".gitignore")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => DEFAULTS.to_owned(),
            Err(error) => return Err(error),
            Ok(OpenedEntry::File(file)) => {
                let mut text = Vec::new();
                file.content.take(MAX_BYTES + 1).read_to_end(&mut text)?;
                if text.len() as u64 > MAX_BYTES {
                    return Err(invalid("is larger than 1 MiB"));
                }
                String::from_utf8_lossy(&text).into_owned()
            }
            Ok(OpenedEntry::Folder(_) | OpenedEntry::Other(_)) => {
                return Err(invalid("is not a regular file"));
            }
        };
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines() {
            let _ = builder.add_line(None, line); // Git passes over a line that is no pattern, too.
        }
        builder.build().map(Self).map_err(io::Error::other)
    }

    /// Whether a copy leaves out the entry at `path`, relative to the folder of the hank; a folder with everything inside.
    #[must_use]
    pub fn leave_out(&self, path: &Path, is_folder: bool) -> bool {
        let name = path.file_name().map(OsStr::as_bytes);
        name.is_some_and(is_git) || self.0.matched(path, is_folder).is_ignore()
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("the .gitignore of the hank {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Disk, RealDisk};
    use super::*;

    // covers: HANK-15
    #[test]
    fn the_own_rules_of_a_hank_replace_the_built_in_ones_and_git_is_always_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let rules = || CopyRules::of(&*RealDisk.open_folder(folder.path()).unwrap());
        let left_out = |rules: &CopyRules, path: &str, is_folder| rules.leave_out(Path::new(path), is_folder);
        let built_in = rules().unwrap();
        for (path, is_folder) in [
            ("tpl/node_modules", true),
            ("tpl/x.log", false),
            ("a/b/dist", true),
            ("tpl/.git", true),
        ] {
            assert!(left_out(&built_in, path, is_folder), "{path}");
        }
        assert!(!left_out(&built_in, "tpl/dist", false) && !left_out(&built_in, "tpl/src", true));
        std::fs::write(
            folder.path().join(".gitignore"),
            "/tpl/secret\n*.tmp\n!keep.tmp\n",
        )
        .unwrap();
        let own = rules().unwrap();
        assert!(
            left_out(&own, "tpl/secret", false)
                && left_out(&own, "x/a.tmp", false)
                && left_out(&own, "x/.GIT", false)
        );
        assert!(!left_out(&own, "x/keep.tmp", false) && !left_out(&own, "tpl/node_modules", true));
        std::fs::remove_file(folder.path().join(".gitignore")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join(".gitignore")).unwrap();
        assert_eq!(rules().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
