//! Checks and resolves the target of a rig's copy: it has to be a path inside the workspace, outside of protected folders.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use hankweave_core::hank::reserved::check_written;

use crate::world::disk::{Disk, Folder, PathError};

/// Why a copy may not go where it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyTargetError {
    /// The target is absolute, empty, or climbs out of the workspace.
    #[error("copy target `{to}` must be a path inside the workspace")]
    Outside {
        /// The target as written.
        to: PathBuf,
    },
    /// The target names a protected folder.
    #[error("copy target `{to}` {rule}")]
    Protected {
        /// The target as written.
        to: PathBuf,
        /// The rule that protects it, as a phrase after the path.
        rule: &'static str,
    },
    /// The folder that should hold the target is missing.
    #[error("the parent of copy target `{to}` does not exist")]
    Parent {
        /// The target as written.
        to: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A link leads the target out of the workspace.
    #[error("copy target `{to}` leaves the workspace through a link")]
    Link {
        /// The target as written.
        to: PathBuf,
    },
}

/// Target of a copy, as an entry of an open folder, so that a link that is planted later does not lead elsewhere.
#[derive(Debug)]
pub(super) struct CopyTarget {
    /// The folder around the target.
    pub(super) folder: Box<dyn Folder>,
    pub(super) name: OsString,
    /// The absolute path, for messages and for commands.
    pub(super) path: PathBuf,
}

/// Resolves the path `to` in `workspace`. Links are followed now and not when the hank is read, because an earlier command may have planted
/// one (X3). A link at the last part of the path is not followed: the copy replaces it.
pub(super) fn resolve(disk: &dyn Disk, workspace: &Path, to: &Path) -> Result<CopyTarget, CopyTargetError> {
    let outside = || CopyTargetError::Outside { to: to.to_owned() };
    let mut parts = Vec::new();
    for component in to.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    let names: PathBuf = parts.iter().collect();
    check_written(names.as_os_str().as_bytes()).map_err(|rule| CopyTargetError::Protected {
        to: to.to_owned(),
        rule,
    })?;
    let name = parts.pop().ok_or_else(outside)?;
    let missing = |source| CopyTargetError::Parent {
        to: to.to_owned(),
        source,
    };
    let through_link = || CopyTargetError::Link { to: to.to_owned() };
    let root = disk.real_path(workspace).map_err(missing)?;
    let parent = disk
        .real_path(&root.join(parts.iter().collect::<PathBuf>()))
        .map_err(missing)?;
    let inside = parent.strip_prefix(&root).map_err(|_| through_link())?;
    check_written(inside.as_os_str().as_bytes()).map_err(|_| through_link())?;
    // `inside` was free of links a moment ago; a link in it now was planted since, and is refused.
    let folder = disk.open_folder(&root).map_err(missing)?;
    let folder = match folder.folder(inside) {
        Ok(inner) => inner.unwrap_or(folder),
        Err(PathError::Link { .. } | PathError::NotAFolder { .. }) => return Err(through_link()),
        Err(error) => return Err(missing(error.into())),
    };
    Ok(CopyTarget {
        folder,
        name: name.to_owned(),
        path: parent.join(name),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::world::disk::RealDisk;

    #[track_caller]
    fn refused(to: &str) -> CopyTargetError {
        let folder = tempfile::tempdir().unwrap();
        symlink("/tmp", folder.path().join("out")).unwrap();
        fs::create_dir(folder.path().join(".git")).unwrap();
        symlink(".git", folder.path().join("innocent")).unwrap();
        resolve(&RealDisk, folder.path(), Path::new(to)).unwrap_err()
    }

    // covers: X3, F17
    #[test]
    fn a_target_stays_inside_the_workspace() {
        for to in ["", ".", "/etc/passwd", "../x", "a/../../x"] {
            assert!(matches!(refused(to), CopyTargetError::Outside { .. }), "{to}");
        }
        assert!(matches!(refused("out/x"), CopyTargetError::Link { .. }));
        assert!(matches!(refused("innocent/hooks"), CopyTargetError::Link { .. }));
        assert!(matches!(refused("missing/x"), CopyTargetError::Parent { .. }));
    }

    // covers: X3, X13
    #[test]
    fn protected_folders_are_refused_at_any_depth() {
        for to in [
            ".git",
            ".GIT/config",
            "sub/.git",
            "sub/.git./config",
            "sub/git~1/config",
            "sub/.g\u{200c}it",
            ".hankweave/state.json",
        ] {
            assert!(matches!(refused(to), CopyTargetError::Protected { .. }), "{to}");
        }
    }

    #[test]
    fn a_link_at_the_target_itself_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/etc", folder.path().join("link")).unwrap();
        let resolved = resolve(&RealDisk, folder.path(), Path::new("link")).unwrap();
        assert_eq!(resolved.path, folder.path().canonicalize().unwrap().join("link"));
    }
}
