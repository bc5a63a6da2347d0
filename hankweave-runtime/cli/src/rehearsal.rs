//! Workspace of a rehearsal: a copy of the execution directory, so that nothing of a rehearsal is left where runs work (CLI-74).

use std::fs::{self, DirBuilder, FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process;

use hankweave_core::discovery::STATE_DIR;

use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::screen::print_stderr;

/// Copy of an execution directory. Dropping this removes the copy.
#[derive(Debug)]
pub(crate) struct RehearsalCopy {
    path: PathBuf,
    /// The copy stays when this is dropped.
    keep: bool,
}

impl RehearsalCopy {
    /// Copies everything in `workspace` but the records of runs; if `workspace` does not exist, the copy is empty.
    pub(crate) fn of(workspace: &Path) -> Result<Self, CliError> {
        let failed = |error: io::Error| {
            let message = format!(
                "failed to copy `{}` for the rehearsal: {error}",
                workspace.display()
            );
            CliError::new(CliErrorKind::Io, message)
                .hint("TMPDIR names a folder with more room; -e DIR another directory to rehearse in")
        };
        let path = new_folder(&std::env::temp_dir()).map_err(failed)?;
        let copy = Self { path, keep: false };
        match fs::canonicalize(workspace) {
            Ok(root) => Copying {
                root: &root,
                copy: &copy.path,
            }
            .folder(&root, &copy.path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
        .map_err(failed)?;
        Ok(copy)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the copy, so that the user can look at it.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for RehearsalCopy {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path) {
            let path = self.path.display();
            print_stderr(format!(
                "note: the copy of the rehearsal stays in {path}: {error}\n"
            ));
        }
    }
}

/// Makes a folder with a new name that only the user may enter.
fn new_folder(within: &Path) -> io::Result<PathBuf> {
    let within = fs::canonicalize(within)?;
    let mut number = 0_u32;
    loop {
        let path = within.join(format!("hankweave-rehearsal-{}-{number}", process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

struct Copying<'a> {
    /// Real path of the workspace.
    root: &'a Path,
    /// Folder that becomes its copy.
    copy: &'a Path,
}

impl Copying<'_> {
    fn folder(&self, from: &Path, to: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type()?;
            if self.is_left_out(&path, kind) {
                continue;
            }
            match self.entry(&path, &target, kind) {
                // Removed since the folder was listed: agents and editors do so at any time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    let path = path.display();
                    print_stderr(format!("note: `{path}` cannot be read and is not in the copy\n"));
                }
                copied => copied?,
            }
        }
        Ok(())
    }

    /// Whether an entry is not copied: our records, the copy itself if it lies in the workspace, and a `.git` file, through which git commands would work in
    /// the real repository.
    fn is_left_out(&self, path: &Path, kind: FileType) -> bool {
        let is_git_link = kind.is_file() && path.ends_with(".git");
        path == self.root.join(STATE_DIR) || path == self.copy || is_git_link
    }

    fn entry(&self, path: &Path, target: &Path, kind: FileType) -> io::Result<()> {
        if kind.is_dir() {
            DirBuilder::new().mode(0o700).create(target)?;
            self.folder(path, target)?;
            // Only now: a folder that may not be written to could not be filled.
            return fs::set_permissions(
                target,
                fs::metadata(path).map(|found: Metadata| found.permissions())?,
            );
        }
        if kind.is_symlink() {
            return symlink(self.rebased(fs::read_link(path)?), target);
        }
        // Sockets, pipes and devices are left out: they belong to running programs.
        match kind.is_file() {
            true => fs::copy(path, target).map(drop),
            false => Ok(()),
        }
    }

    /// Returns the target for the copy of a link. An absolute path into the workspace leads into the copy instead, as a relative one does anyway.
    fn rebased(&self, target: PathBuf) -> PathBuf {
        match target.strip_prefix(self.root) {
            Ok(within) => self.copy.join(within),
            Err(_) => target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    // covers: CLI-74
    #[test]
    fn a_copy_has_everything_but_records_and_leads_nowhere_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for made in [".hankweave", "src/deep", "read-only", "module"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        for (name, text) in [
            (".hankweave/state.json", "{}"),
            ("src/deep/run.sh", "true"),
            ("read-only/file", "text"),
            ("module/.git", "gitdir: elsewhere"),
        ] {
            fs::write(root.join(name), text).unwrap();
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let set = |name: &str, mode| {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        set("src/deep/run.sh", 0o755);
        set("read-only", 0o500);
        symlink(root.join("src"), root.join("absolute")).unwrap();
        symlink("src", root.join("relative")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();

        let copy = RehearsalCopy::of(&root).unwrap();
        let at = |name: &str| copy.path().join(name);
        for absent in [".hankweave", "module/.git", "pipe"] {
            assert!(fs::symlink_metadata(at(absent)).is_err(), "{absent}");
        }
        assert_eq!(fs::read_to_string(at("read-only/file")).unwrap(), "text");
        assert_eq!(
            (mode(&at("src/deep/run.sh")), mode(&at("read-only"))),
            (0o755, 0o500)
        );
        assert_eq!(mode(copy.path()), 0o700);
        assert_eq!(fs::read_link(at("absolute")).unwrap(), at("src"));
        assert_eq!(fs::read_link(at("relative")).unwrap(), Path::new("src"));
        set("read-only", 0o700);
        fs::set_permissions(at("read-only"), fs::Permissions::from_mode(0o700)).unwrap();
        let path = copy.path().to_owned();
        drop(copy);
        assert!(!path.exists());
        let empty = RehearsalCopy::of(&root.join("nothing")).unwrap();
        assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    }
}
