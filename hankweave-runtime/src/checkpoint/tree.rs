//! Contents of a checkpoint, as plain data: paths, modes and contents by id.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use git2::Oid;
use serde::{Serialize, Serializer};

/// A path inside the workspace: bytes, parts divided by `/`, never absolute and never leading out.
///
/// Names are whatever the file system allows (G4). Shown to people, bytes that are not
/// printable text appear as `\x..` escapes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Arc<[u8]>);

/// Bytes that are not a path inside a workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a path inside a workspace", .path.escape_ascii())]
pub struct InvalidPath {
    /// The bytes as they were given.
    pub path: Vec<u8>,
}

impl TreePath {
    /// Makes a path of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidPath`] when a part is empty, `.` or `..`, or holds a NUL byte.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidPath> {
        let good = bytes
            .split(|&byte| byte == b'/')
            .all(|part| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0));
        if good {
            Ok(Self(bytes.into()))
        } else {
            Err(InvalidPath { path: bytes.into() })
        }
    }

    /// A path put together from names that the system listed, none of them `.` or `..`.
    pub(super) fn of_names(bytes: &[u8]) -> Self {
        debug_assert!(Self::new(bytes).is_ok());
        Self(bytes.into())
    }

    /// The bytes of the path.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path, relative to the workspace.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The names along the path, outermost first; at least one.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/')
    }

    /// The folder that holds the path and the name in it; the folder is empty at the root.
    pub(super) fn split(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[], &self.0),
        }
    }

    /// Every folder above the path, innermost first, the root (empty) last.
    pub(super) fn folders(&self) -> impl Iterator<Item = &[u8]> {
        let slashes = self.0.iter().enumerate().rev();
        slashes
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| &self.0[..at])
            .chain([&[][..]])
    }
}

impl Borrow<[u8]> for TreePath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One path that differs between two checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathChange {
    /// Path.
    pub path: TreePath,
    /// How.
    pub kind: ChangeKind,
}

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// Only the later checkpoint has it.
    Added,
    /// Contents, executable bit or kind differ.
    Modified,
    /// Only the earlier checkpoint has it.
    Deleted,
}

/// Kind of an entry; the numbers are those of git tree objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileMode {
    Regular,
    Executable,
    Link,
}

impl FileMode {
    pub(super) fn to_git(self) -> u32 {
        match self {
            Self::Regular => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Link => 0o120_000,
        }
    }

    pub(super) fn from_git(mode: u32) -> Option<Self> {
        match mode {
            // Old versions of git wrote the mode 664.
            0o100_644 | 0o100_664 => Some(Self::Regular),
            0o100_755 => Some(Self::Executable),
            0o120_000 => Some(Self::Link),
            _ => None,
        }
    }
}

/// One file of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileEntry {
    pub(super) mode: FileMode,
    pub(super) blob: Oid,
}

/// All files of a checkpoint, in the order of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing(Vec<(TreePath, FileEntry)>);

/// The ids of the folders of a checkpoint; the root has the empty name.
pub(super) type Folders = HashMap<Box<[u8]>, Oid>;

impl Listing {
    /// Returns the files but for those of `left_out`.
    pub(super) fn without(self, left_out: &BTreeSet<TreePath>) -> Self {
        let mut files = self.0;
        files.retain(|(path, _)| !left_out.contains(path));
        Self(files)
    }

    pub(super) fn get(&self, path: &[u8]) -> Option<&FileEntry> {
        let found = self.0.binary_search_by(|(known, _)| known.as_bytes().cmp(path));
        found.ok().map(|at| &self.0[at].1)
    }

    pub(super) fn contains(&self, path: &[u8]) -> bool {
        self.get(path).is_some()
    }

    /// Whether there is a file anywhere inside the folder `folder`.
    pub(super) fn holds_beneath(&self, folder: &[u8]) -> bool {
        let prefix = [folder, b"/"].concat();
        let first = self.0.partition_point(|(path, _)| path.as_bytes() < &prefix[..]);
        self.0
            .get(first)
            .is_some_and(|(path, _)| path.as_bytes().starts_with(&prefix))
    }

    /// Returns the files inside the folder `folder`. The root, which has the empty name, has all of them.
    pub(super) fn beneath(&self, folder: &[u8]) -> &[(TreePath, FileEntry)] {
        if folder.is_empty() {
            return &self.0;
        }
        let prefix = [folder, b"/"].concat();
        let first = self.0.partition_point(|(path, _)| path.as_bytes() < &prefix[..]);
        let rest = &self.0[first..];
        &rest[..rest.partition_point(|(path, _)| path.as_bytes().starts_with(&prefix))]
    }

    pub(super) fn as_slice(&self) -> &[(TreePath, FileEntry)] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &TreePath> {
        self.0.iter().map(|(path, _)| path)
    }

    pub(super) fn blobs(&self) -> impl Iterator<Item = Oid> {
        self.0.iter().map(|(_, entry)| entry.blob)
    }
}

impl FromIterator<(TreePath, FileEntry)> for Listing {
    /// Of two entries for one path, which a folder that changes while it is listed can give, the first counts.
    fn from_iter<I: IntoIterator<Item = (TreePath, FileEntry)>>(files: I) -> Self {
        let mut files: Vec<_> = files.into_iter().collect();
        // Most files are in order already, which takes one comparison each.
        files.sort_by(|(left, _), (right, _)| left.cmp(right));
        files.dedup_by(|(later, _), (path, _)| later == path);
        Self(files)
    }
}

/// Returns the changes that turn `from` into `to`, in the order of the paths.
pub(super) fn changes(from: &Listing, to: &Listing) -> Vec<PathChange> {
    let (mut old, mut new) = (from.0.iter().peekable(), to.0.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return changes,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            // Mostly both are one shared allocation, and comparing that reads none of its bytes.
            (Some((before, _)), Some((after, _))) if before == after => std::cmp::Ordering::Equal,
            (Some((before, _)), Some((after, _))) => before.cmp(after),
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        let (path, kind) = match (before, after) {
            (Some((_, left)), Some((_, right))) if left == right => continue,
            (Some(_), Some((path, _))) => (path, ChangeKind::Modified),
            (Some((path, _)), None) => (path, ChangeKind::Deleted),
            (None, Some((path, _))) => (path, ChangeKind::Added),
            (None, None) => return changes,
        };
        changes.push(PathChange {
            path: path.clone(),
            kind,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(files: &[(&str, u8)]) -> Listing {
        let entry = |content: u8| FileEntry {
            mode: FileMode::Regular,
            blob: Oid::from_bytes(&[content; 20]).unwrap(),
        };
        files
            .iter()
            .map(|(path, content)| (TreePath::new(path.as_bytes()).unwrap(), entry(*content)))
            .collect()
    }

    #[test]
    fn a_path_that_leads_out_is_refused() {
        for bad in ["", "/", "/a", "a/", "a//b", ".", "a/./b", "..", "a/../b", "a\0b"] {
            assert!(TreePath::new(bad.as_bytes()).is_err(), "{bad:?}");
        }
        for good in ["a", ".a", "...", "a b/-c", "a\nb"] {
            assert!(TreePath::new(good.as_bytes()).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_path_is_shown_without_control_characters() {
        let path = TreePath::new(b"gr\xc3\xbcn/a\n\xff").unwrap();
        assert_eq!(path.to_string(), "gr\u{fc}n/a\\n\\xff");
    }

    #[test]
    fn folders_are_listed_from_the_inside_out() {
        let path = TreePath::new(b"a/b/c").unwrap();
        assert_eq!(path.folders().collect::<Vec<_>>(), [&b"a/b"[..], b"a", b""]);
        assert_eq!(path.split(), (&b"a/b"[..], &b"c"[..]));
    }

    #[test]
    fn changes_name_what_was_added_modified_and_deleted() {
        let found = changes(
            &listing(&[("a", 1), ("b", 1), ("c", 1)]),
            &listing(&[("b", 2), ("c", 1), ("d", 1)]),
        );
        let found: Vec<_> = found
            .iter()
            .map(|change| (change.path.to_string(), change.kind))
            .collect();
        let expected = [
            ("a", ChangeKind::Deleted),
            ("b", ChangeKind::Modified),
            ("d", ChangeKind::Added),
        ];
        assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
    }

    #[test]
    fn a_listing_has_each_path_once_and_in_order() {
        let files = listing(&[("b", 1), ("a", 2), ("b", 3)]);
        assert_eq!(files, listing(&[("a", 2), ("b", 1)]));
        assert!(files.contains(b"a") && !files.contains(b"c"));
        assert_eq!(files.get(b"b"), listing(&[("b", 1)]).get(b"b"));
    }

    #[test]
    fn a_folder_holds_only_what_is_beneath_it() {
        let files = listing(&[("a.b", 1), ("a/x", 1), ("ab/y", 1)]);
        assert!(files.holds_beneath(b"a"));
        assert!(files.holds_beneath(b"ab"));
        assert!(!files.holds_beneath(b"b"));
        assert!(!files.holds_beneath(b"a/x"));
    }
}
