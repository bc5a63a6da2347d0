//! Copies a file or a folder of the hank into the workspace, and removes such a copy again (HANK-21). The source is listed completely before
//! anything is written.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use hankweave_core::hank::paths;

use super::target::CopyTarget;
use crate::world::disk::{CopyRules, Disk, FileKind, Folder, IoError, OpenedEntry, PathError};

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A part of the tree could not be read, removed or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The source is not a path inside the hank's folder.
    #[error("`{from}` {reason}")]
    Reference {
        /// The source as written.
        from: String,
        /// The broken rule, as a phrase after the path.
        reason: &'static str,
    },
    /// A link in the copied tree points out of it.
    #[error("link `{path}` points out of the copied folder")]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A folder exists where a file or link is to be copied. It is not removed, because everything in it would be lost.
    #[error("`{path}` is a folder, and a file is to be copied there")]
    FolderInTheWay {
        /// The folder.
        path: PathBuf,
    },
    /// An entry is of another kind than a file, a folder or a link.
    #[error("`{path}` is neither a file nor a folder")]
    Special {
        /// The entry.
        path: PathBuf,
    },
}

/// Copies `from`, a reference to a file or folder of the hank, to the target. With `replace` an existing target is removed first;
/// otherwise a folder is copied into an existing folder, file by file.
///
/// The source is checked before anything is removed, so that a tree that may not be copied leaves the target
/// unchanged. Git's own files inside the tree are left out (HANK-15). Returns the paths that were left out, as
/// references like `from`.
pub(super) fn copy(
    disk: &dyn Disk,
    hank: &Path,
    from: &str,
    target: &CopyTarget,
    replace: bool,
) -> Result<Vec<String>, CopyError> {
    let target = FolderEntry {
        folder: &*target.folder,
        name: &target.name,
        path: target.path.clone(),
    };
    with_survey(disk, hank, from, |tree, source, left_out| {
        match replace {
            true => target.remove()?,
            false => check_fits(tree, &target)?,
        }
        write(tree, source, &target)?;
        Ok(left_out)
    })?
}

/// Removes the files and links that a copy of `tree` made at `target`, and those of its folders that are then empty.
pub(super) fn take_out(tree: &Tree, target: &CopyTarget) -> io::Result<()> {
    take_out_entry(tree, &*target.folder, &target.name)
}

fn take_out_entry(tree: &Tree, folder: &dyn Folder, name: &OsStr) -> io::Result<()> {
    let Tree::Folder(inner) = tree else {
        return folder.remove(name);
    };
    let OpenedEntry::Folder(copied) = folder.open(name)? else {
        return Ok(());
    };
    for (name, tree) in inner {
        take_out_entry(tree, &*copied, name)?;
    }
    match copied.names()?.is_empty() {
        true => folder.remove(name),
        false => Ok(()),
    }
}

/// Lists what a copy of `from` would hold, and returns the result of `work` on the list, the folder around the source and the name of
/// the source.
pub(super) fn with_source<T>(
    disk: &dyn Disk,
    hank: &Path,
    from: &str,
    work: impl FnOnce(&Tree, &dyn Folder, &OsStr) -> T,
) -> Result<T, CopyError> {
    with_survey(disk, hank, from, |tree, source, _| {
        work(tree, source.folder, source.name)
    })
}

/// Lists `from` and everything in it, and returns the result of `work` on the list, the source, and the paths that a copy leaves out.
fn with_survey<T>(
    disk: &dyn Disk,
    hank: &Path,
    from: &str,
    work: impl FnOnce(&Tree, &FolderEntry<'_>, Vec<String>) -> T,
) -> Result<T, CopyError> {
    let names = paths::reference(from).map_err(|reason| CopyError::Reference {
        from: from.to_owned(),
        reason,
    })?;
    let (folder, name) = open_source(disk, hank, &names)?;
    let source = FolderEntry {
        folder: &*folder,
        name: name.as_ref(),
        path: names.iter().fold(hank.to_owned(), |path, name| path.join(name)),
    };
    let root = disk.open_folder(hank).map_err(IoError::at("read", hank))?;
    let rules = CopyRules::of(&*root).map_err(IoError::at("read", &hank.join(".gitignore")))?;
    let mut survey = CopySurvey {
        hank,
        rules,
        left_out: Vec::new(),
    };
    let tree = list_tree(&source, 0, &mut survey)?;
    let tree = tree.ok_or_else(|| source.special())?;
    Ok(work(&tree, &source, survey.left_out))
}

/// Rules for listing a tree, and the paths that they leave out.
struct CopySurvey<'a> {
    hank: &'a Path,
    rules: CopyRules,
    /// References that are not copied.
    left_out: Vec<String>,
}

impl CopySurvey<'_> {
    /// Returns whether the rules leave the entry out, and adds it to the list if so.
    fn leaves_out(&mut self, path: &Path, is_folder: bool) -> bool {
        let reference = path.strip_prefix(self.hank).unwrap_or(path);
        let leaves_out = self.rules.leave_out(reference, is_folder);
        if leaves_out {
            self.left_out.push(reference.to_string_lossy().into_owned());
        }
        leaves_out
    }
}

/// Entries to copy. They are listed completely before the first write: otherwise a copy to a target inside the source would copy
/// itself without end.
pub(super) enum Tree {
    Folder(Vec<(OsString, Tree)>),
    File,
    /// A link to this path.
    Link(PathBuf),
}

/// One entry of an open folder, in the source or the target; the path is for messages.
struct FolderEntry<'a> {
    folder: &'a dyn Folder,
    name: &'a OsStr,
    path: PathBuf,
}

impl FolderEntry<'_> {
    fn open(&self, action: &'static str) -> Result<OpenedEntry, IoError> {
        self.folder
            .open(self.name)
            .map_err(IoError::at(action, &self.path))
    }

    fn open_folder(&self, action: &'static str) -> Result<Box<dyn Folder>, CopyError> {
        match self.open(action)? {
            OpenedEntry::Folder(folder) => Ok(folder),
            OpenedEntry::File(_) | OpenedEntry::Other(_) => Err(self.special()),
        }
    }

    /// Returns the existing entry, if there is one.
    fn found(&self) -> Result<Option<OpenedEntry>, IoError> {
        match self.folder.open(self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some).map_err(IoError::at("look at", &self.path)),
        }
    }

    fn remove(&self) -> Result<(), IoError> {
        let removed = self.folder.remove(self.name);
        removed.map_err(IoError::at("remove", &self.path))
    }

    fn special(&self) -> CopyError {
        CopyError::Special {
            path: self.path.clone(),
        }
    }
}

/// Returns the entry `name` of `folder`, which is the opened `parent`.
fn inside<'a>(parent: &FolderEntry<'_>, folder: &'a dyn Folder, name: &'a OsStr) -> FolderEntry<'a> {
    FolderEntry {
        folder,
        name,
        path: parent.path.join(name),
    }
}

/// Opens the folder around the source, beginning at the hank's folder and following no link. Also returns the name of the source.
fn open_source<'a>(
    disk: &dyn Disk,
    hank: &Path,
    names: &[&'a str],
) -> Result<(Box<dyn Folder>, &'a str), CopyError> {
    let (name, folders) = names.split_last().expect("a reference has a name");
    let root = disk.open_folder(hank).map_err(IoError::at("read", hank))?;
    let around: PathBuf = folders.iter().collect();
    let path = hank.join(&around);
    match root.folder(&around) {
        Ok(folder) => Ok((folder.unwrap_or(root), name)),
        Err(PathError::Link { .. } | PathError::NotAFolder { .. }) => Err(CopyError::Special { path }),
        Err(error) => Err(IoError::at("read", &path)(error.into()).into()),
    }
}

/// Lists an entry that is `depth` folders deep in the tree; `None` if it is left out. The entry at depth 0, which the author has
/// named, is copied even if the rules exclude it.
fn list_tree(
    place: &FolderEntry<'_>,
    depth: usize,
    survey: &mut CopySurvey<'_>,
) -> Result<Option<Tree>, CopyError> {
    let failed = || IoError::at("read", &place.path);
    // Before it is opened: an entry that is left out may be unreadable, or of any kind. Patterns for folders alone follow once the kind is known.
    if depth > 0 && survey.leaves_out(&place.path, false) {
        return Ok(None);
    }
    match place.open("read")? {
        OpenedEntry::File(_) => Ok(Some(Tree::File)),
        OpenedEntry::Other(FileKind::Link) if depth > 0 => {
            let link = place.folder.read_link(place.name).map_err(failed())?;
            inner_link(link, &place.path, depth - 1).map(|link| Some(Tree::Link(link)))
        }
        OpenedEntry::Other(_) => Err(place.special()),
        OpenedEntry::Folder(_) if depth > 0 && survey.leaves_out(&place.path, true) => Ok(None),
        OpenedEntry::Folder(folder) => {
            let mut inner = Vec::new();
            for name in folder.names().map_err(failed())? {
                let entry = inside(place, &*folder, &name);
                if let Some(tree) = list_tree(&entry, depth + 1, survey)? {
                    inner.push((name, tree));
                }
            }
            Ok(Some(Tree::Folder(inner)))
        }
    }
}

/// Checks that the tree can be copied over the existing files: no folder may exist where the tree has a file or link.
fn check_fits(tree: &Tree, to: &FolderEntry<'_>) -> Result<(), CopyError> {
    match (tree, to.found()?) {
        (Tree::File | Tree::Link(_), Some(OpenedEntry::Folder(_))) => Err(CopyError::FolderInTheWay {
            path: to.path.clone(),
        }),
        (Tree::Folder(inner), Some(OpenedEntry::Folder(folder))) => {
            for (name, tree) in inner {
                check_fits(tree, &inside(to, &*folder, name))?;
            }
            Ok(())
        }
        (Tree::File | Tree::Link(_) | Tree::Folder(_), _) => Ok(()),
    }
}

/// Makes room for a file or link: removes an existing file or link of its name.
fn make_room(to: &FolderEntry<'_>) -> Result<(), CopyError> {
    match to.found()? {
        None => Ok(()),
        Some(OpenedEntry::File(_) | OpenedEntry::Other(_)) => Ok(to.remove()?),
        Some(OpenedEntry::Folder(_)) => Err(CopyError::FolderInTheWay {
            path: to.path.clone(),
        }),
    }
}

/// Writes the copy. An entry of the source that has changed its kind since it was listed ends the copy.
fn write(tree: &Tree, from: &FolderEntry<'_>, to: &FolderEntry<'_>) -> Result<(), CopyError> {
    let failed = || IoError::at("copy to", &to.path);
    match tree {
        Tree::Link(link) => {
            make_room(to)?;
            Ok(to.folder.create_link(to.name, link).map_err(failed())?)
        }
        Tree::File => {
            let OpenedEntry::File(mut file) = from.open("read")? else {
                return Err(from.special());
            };
            make_room(to)?;
            let copied = to.folder.create_file(to.name, file.mode, &mut *file.content);
            Ok(copied.map_err(failed())?)
        }
        Tree::Folder(inner) => {
            let source = from.open_folder("read")?;
            let target = match to.found()? {
                Some(OpenedEntry::Folder(folder)) => folder,
                existing => {
                    if existing.is_some() {
                        to.remove()?;
                    }
                    to.folder.create_folder(to.name).map_err(failed())?;
                    to.open_folder("copy to")?
                }
            };
            for (name, tree) in inner {
                write(tree, &inside(from, &*source, name), &inside(to, &*target, name))?;
            }
            Ok(())
        }
    }
}

/// Returns the path to which a link points if that stays inside the copied tree; otherwise the link is refused (X3). `path` is that of the link itself, in a
/// folder that is `folders` deep in the tree.
fn inner_link(link: PathBuf, path: &Path, folders: usize) -> Result<PathBuf, CopyError> {
    // `None` once the path has left the tree.
    let mut depth = Some(folders);
    for component in link.components() {
        depth = match (component, depth) {
            (Component::Normal(_), Some(depth)) => Some(depth + 1),
            (Component::CurDir, depth) => depth,
            (Component::ParentDir, Some(depth)) => depth.checked_sub(1),
            (Component::RootDir | Component::Prefix(_), _) | (_, None) => None,
        };
    }
    depth.map(|_| link).ok_or_else(|| CopyError::Link {
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::super::target;
    use super::*;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};

    fn tree() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("from/sub")).unwrap();
        fs::create_dir(folder.path().join("from/.git")).unwrap();
        fs::write(folder.path().join("from/sub/a.txt"), "a").unwrap();
        symlink("../sub/a.txt", folder.path().join("from/sub/link")).unwrap();
        folder
    }

    fn copy_to(folder: &TempDir, to: &str, replace: bool) -> Result<Vec<String>, CopyError> {
        let target = target::resolve(&RealDisk, folder.path(), Path::new(to)).unwrap();
        super::copy(&RealDisk, folder.path(), "from", &target, replace)
    }

    fn copy(folder: &TempDir) -> Result<Vec<String>, CopyError> {
        copy_to(folder, "to", false)
    }

    /// Something was there before: a file that the copy has, one that it does not have, and a link where it
    /// has a folder.
    fn with_target() -> TempDir {
        let folder = tree();
        let to = folder.path().join("to");
        fs::create_dir_all(to.join("sub")).unwrap();
        fs::write(to.join("sub/a.txt"), "old").unwrap();
        fs::write(to.join("sub/b.txt"), "b").unwrap();
        fs::create_dir(folder.path().join("from/inner")).unwrap();
        fs::write(folder.path().join("from/inner/c.txt"), "c").unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        symlink("../elsewhere", to.join("inner")).unwrap();
        folder
    }

    // covers: HANK-21
    #[test]
    fn a_copy_is_merged_into_the_folder_that_is_there() {
        let folder = with_target();
        copy(&folder).unwrap();
        let text = |name: &str| fs::read_to_string(folder.path().join("to").join(name)).unwrap();
        assert_eq!(
            ["sub/link", "sub/a.txt", "sub/b.txt", "inner/c.txt"].map(text),
            ["a", "a", "b", "c"]
        );
        assert_eq!(fs::read_dir(folder.path().join("elsewhere")).unwrap().count(), 0);
    }

    // covers: HANK-21
    #[test]
    fn a_copy_that_replaces_leaves_nothing_of_what_was_there() {
        let folder = with_target();
        copy_to(&folder, "to", true).unwrap();
        assert!(folder.path().join("to/sub/a.txt").exists() && !folder.path().join("to/sub/b.txt").exists());
    }

    #[test]
    fn a_folder_is_not_removed_for_a_file() {
        let folder = with_target();
        let to = folder.path().join("to/sub");
        fs::remove_file(to.join("a.txt")).unwrap();
        fs::create_dir(to.join("a.txt")).unwrap();
        fs::write(to.join("a.txt/work"), "precious").unwrap();
        assert!(matches!(copy(&folder), Err(CopyError::FolderInTheWay { .. })));
        assert!(to.join("a.txt/work").exists() && !folder.path().join("to/inner/c.txt").exists());
    }

    /// An ignored file that is named itself is copied nevertheless.
    // covers: HANK-15
    #[test]
    fn what_the_hank_ignores_is_left_out_of_trees_before_it_is_judged() {
        let folder = tree();
        fs::write(folder.path().join(".gitignore"), "from/\nskipped/\n*.tmp\n").unwrap();
        fs::create_dir(folder.path().join("from/skipped")).unwrap();
        symlink("/etc/passwd", folder.path().join("from/skipped/bad")).unwrap();
        fs::write(folder.path().join("from/sub/x.tmp"), "x").unwrap();
        assert_eq!(
            copy(&folder).unwrap(),
            ["from/.git", "from/skipped", "from/sub/x.tmp"]
        );
        assert!(folder.path().join("to/sub/a.txt").exists() && !folder.path().join("to/skipped").exists());
    }

    // covers: HANK-15
    #[test]
    fn files_of_git_are_left_out_at_any_depth_and_told() {
        let folder = tree();
        // In a worktree and in a submodule it is a file.
        fs::write(folder.path().join("from/sub/.git"), "gitdir: /elsewhere").unwrap();
        assert_eq!(copy(&folder).unwrap(), ["from/.git", "from/sub/.git"]);
        assert!(folder.path().join("to/sub/a.txt").exists());
        for name in [".git", "sub/.git"] {
            assert!(!folder.path().join("to").join(name).exists(), "{name}");
        }
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

    // covers: HANK-14
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

    #[test]
    fn a_target_inside_the_source_holds_one_copy_and_not_copies_of_itself() {
        let folder = tree();
        let target = target::resolve(&RealDisk, folder.path(), Path::new("from/sub/again")).unwrap();
        super::copy(&RealDisk, folder.path(), "from", &target, false).unwrap();
        assert!(target.path.join("sub/a.txt").exists());
        assert!(!target.path.join("sub/again").exists());
    }

    // covers: X2
    #[test]
    fn a_source_is_reached_through_no_link_and_stays_in_the_hank() {
        let folder = tree();
        let hank = folder.path().join("hank");
        fs::create_dir(&hank).unwrap();
        symlink("../from", hank.join("linked")).unwrap();
        let target = target::resolve(&RealDisk, folder.path(), Path::new("to")).unwrap();
        let copy = |from| super::copy(&RealDisk, &hank, from, &target, false).unwrap_err();
        assert!(matches!(copy("linked"), CopyError::Special { .. }));
        assert!(matches!(copy("linked/sub"), CopyError::Special { .. }));
        assert!(matches!(copy("../from"), CopyError::Reference { .. }));
    }

    #[test]
    fn permissions_are_copied_as_they_are() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tree();
        let mode = fs::Permissions::from_mode(0o751);
        fs::set_permissions(folder.path().join("from/sub/a.txt"), mode.clone()).unwrap();
        copy(&folder).unwrap();
        let copied = fs::metadata(folder.path().join("to/sub/a.txt"))
            .unwrap()
            .permissions();
        assert_eq!(copied.mode() & 0o7777, mode.mode());
    }

    #[test]
    fn a_crash_at_any_step_of_a_copy_leaves_what_lies_beside_it() {
        for n in 0..20 {
            let folder = tree();
            fs::write(folder.path().join("beside"), "kept").unwrap();
            let faulty = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(n));
            let target = target::resolve(&faulty, folder.path(), Path::new("to")).unwrap();
            let copied = super::copy(&faulty, folder.path(), "from", &target, true);
            assert_eq!(copied.is_err(), faulty.crashed(), "crash at {n}");
            assert_eq!(fs::read_to_string(folder.path().join("beside")).unwrap(), "kept");
            assert_eq!(
                fs::read_to_string(folder.path().join("from/sub/a.txt")).unwrap(),
                "a"
            );
            if !faulty.crashed() {
                return;
            }
        }
        panic!("a copy has fewer steps than that");
    }
}
