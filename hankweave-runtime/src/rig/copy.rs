//! Copying a file or a folder into the workspace.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A part of the tree could not be read, removed or written.
    #[error("failed to {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A link in the copied tree points out of it.
    #[error("link `{path}` points out of the copied folder")]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// Something is neither a file, a folder nor a link.
    #[error("`{path}` is neither a file nor a folder")]
    Special {
        /// The thing.
        path: PathBuf,
    },
}

/// Replaces `to` by a copy of `from`. Everything is looked at before anything is removed, so that a tree that may not be
/// copied leaves the target as it was. Git folders inside the tree are left out.
pub(super) fn replace(from: &Path, to: &Path) -> Result<(), CopyError> {
    let mut entries = Vec::new();
    collect(from, Path::new(""), &mut entries)?;
    remove(to).map_err(io_error("remove", to))?;
    for entry in &entries {
        entry.write(from, to)?;
    }
    Ok(())
}

/// One thing to copy; its path is relative to the source and empty for the source itself.
struct Entry {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Folder,
    File,
    Link(PathBuf),
}

impl Entry {
    fn write(&self, from: &Path, to: &Path) -> Result<(), CopyError> {
        let source = below(from, &self.path);
        let target = below(to, &self.path);
        let written = match &self.kind {
            Kind::Folder => fs::create_dir(&target),
            Kind::File => fs::copy(&source, &target).map(drop),
            Kind::Link(link) => symlink(link, &target),
        };
        written.map_err(io_error("copy to", &target))
    }
}

/// Lists the tree, a folder before what is in it.
fn collect(root: &Path, path: &Path, entries: &mut Vec<Entry>) -> Result<(), CopyError> {
    let source = below(root, path);
    let file_type = fs::symlink_metadata(&source)
        .map_err(io_error("read", &source))?
        .file_type();
    let kind = if file_type.is_dir() {
        Kind::Folder
    } else if file_type.is_file() {
        Kind::File
    } else if file_type.is_symlink() && path != Path::new("") {
        Kind::Link(inner_link(&source, path)?)
    } else {
        return Err(CopyError::Special { path: source });
    };
    entries.push(Entry {
        path: path.to_owned(),
        kind,
    });
    if file_type.is_dir() {
        for child in fs::read_dir(&source).map_err(io_error("read", &source))? {
            let name = child.map_err(io_error("read", &source))?.file_name();
            if name != ".git" {
                collect(root, &path.join(name), entries)?;
            }
        }
    }
    Ok(())
}

/// The target of a link that stays inside the copied tree; any other is refused ("reliability and security", rule X3).
fn inner_link(source: &Path, path: &Path) -> Result<PathBuf, CopyError> {
    let link = fs::read_link(source).map_err(io_error("read", source))?;
    let folders = path.components().count().saturating_sub(1);
    let mut depth = Some(folders);
    for component in link.components() {
        depth = match (component, depth) {
            (Component::Normal(_), Some(depth)) => Some(depth + 1),
            (Component::CurDir, depth) => depth,
            (Component::ParentDir, Some(depth)) => depth.checked_sub(1),
            (Component::RootDir | Component::Prefix(_), _) | (_, None) => None,
        };
    }
    match depth {
        Some(_) => Ok(link),
        None => Err(CopyError::Link {
            path: source.to_owned(),
        }),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Joins without the slash that an empty path would leave behind.
fn below(root: &Path, path: &Path) -> PathBuf {
    if path == Path::new("") {
        return root.to_owned();
    }
    root.join(path)
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CopyError + use<> {
    let path = path.to_owned();
    move |source| CopyError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn tree() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("from/sub")).unwrap();
        fs::create_dir(folder.path().join("from/.git")).unwrap();
        fs::write(folder.path().join("from/sub/a.txt"), "a").unwrap();
        symlink("../sub/a.txt", folder.path().join("from/sub/link")).unwrap();
        folder
    }

    fn copy(folder: &TempDir) -> Result<(), CopyError> {
        replace(&folder.path().join("from"), &folder.path().join("to"))
    }

    #[test]
    fn a_copy_replaces_what_was_there() {
        let folder = tree();
        fs::create_dir(folder.path().join("to")).unwrap();
        fs::write(folder.path().join("to/old.txt"), "old").unwrap();
        copy(&folder).unwrap();
        assert_eq!(
            fs::read_to_string(folder.path().join("to/sub/link")).unwrap(),
            "a"
        );
        assert!(!folder.path().join("to/old.txt").exists());
        assert!(!folder.path().join("to/.git").exists());
    }

    // covers: X3
    #[test]
    fn a_link_out_of_the_tree_is_refused_and_the_target_stays() {
        for link in ["/etc/passwd", "../../secret", "../sub/../../x"] {
            let folder = tree();
            fs::write(folder.path().join("to"), "precious").unwrap();
            symlink(link, folder.path().join("from/sub/bad")).unwrap();
            assert!(matches!(copy(&folder), Err(CopyError::Link { .. })), "{link}");
            assert_eq!(fs::read_to_string(folder.path().join("to")).unwrap(), "precious");
        }
    }

    #[test]
    fn a_socket_is_refused() {
        let folder = tree();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("from/socket")).unwrap();
        assert!(matches!(copy(&folder), Err(CopyError::Special { .. })));
    }

    #[test]
    fn a_link_at_the_target_is_replaced_and_not_followed() {
        let folder = tree();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        symlink("elsewhere", folder.path().join("to")).unwrap();
        copy(&folder).unwrap();
        assert!(folder.path().join("to").symlink_metadata().unwrap().is_dir());
        assert_eq!(fs::read_dir(folder.path().join("elsewhere")).unwrap().count(), 0);
    }
}
