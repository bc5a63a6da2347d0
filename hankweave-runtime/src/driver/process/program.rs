//! Finding an agent's program.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first executable file called `name` in the folders of `path`, a value of the variable `PATH`.
pub(crate) fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_in_absolute_folders_are_programs() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("agent");
        std::fs::write(&program, "").unwrap();
        let path = env::join_paths([Path::new("."), Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(find_program("agent", &path), None);
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find_program("agent", &path), Some(program));
    }
}
