//! Removes the copies that rigs made in the workspace, when a rollback undoes their codons (RUN-20).
//!
//! Only an unchanged copy is removed, because it can be made again. Changed and additional files stay.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::copy::{self, CopyError, Tree};
use super::files;
use super::target::{self, CopyTarget, CopyTargetError};
use crate::world::disk::{Disk, FileKind, Folder, IoError, OpenedEntry};

/// The copies that the rigs of a hank make.
#[derive(Debug, Clone, Default)]
pub struct RigCopies {
    /// The hank's folder.
    pub hank: PathBuf,
    /// The agent's workspace.
    pub workspace: PathBuf,
    /// The copies of each codon, by the id in hank.json.
    pub of: BTreeMap<String, Vec<RigCopy>>,
}

/// One copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RigCopy {
    /// The source, a reference inside the hank's folder.
    pub from: String,
    /// The target, relative to the workspace.
    pub to: PathBuf,
    /// Whether the copy replaces its target. Then everything in the target comes from the copy.
    pub replace: bool,
}

/// Why a copy is not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeptCopy {
    /// It was changed since it was copied.
    #[error("it was changed since it was copied")]
    Changed,
    /// It cannot be compared with its source.
    #[error("it cannot be compared with its source")]
    Compare(#[source] CopyError),
    /// Its place cannot be reached.
    #[error("its place cannot be reached")]
    Place(#[source] CopyTargetError),
    /// It could not be removed.
    #[error("it could not be removed")]
    Remove(#[source] io::Error),
}

impl RigCopies {
    /// Returns the targets of these codons' rigs.
    pub fn targets<'c>(&self, codons: impl Iterator<Item = &'c str>) -> BTreeSet<&Path> {
        let copies = codons.filter_map(|codon| self.of.get(codon)).flatten();
        copies.map(|copy| copy.to.as_path()).collect()
    }

    /// Returns the copies of a codon that are in the workspace, the last one first, without those at the places of
    /// `kept`, which other codons need.
    pub fn found<'a>(&'a self, disk: &dyn Disk, codon: &str, kept: &BTreeSet<&Path>) -> Vec<&'a RigCopy> {
        let copies = self.of.get(codon).into_iter().flatten().rev();
        let exists = |copy: &&RigCopy| disk.metadata(&self.workspace.join(&copy.to)).is_ok();
        // Of several copies to one place, the last one is in the workspace.
        let mut places = BTreeSet::new();
        copies
            .filter(|copy| !kept.contains(copy.to.as_path()) && places.insert(&copy.to))
            .filter(exists)
            .collect()
    }

    /// Removes an unchanged copy, entry by entry.
    ///
    /// # Errors
    ///
    /// [`KeptCopy`]. Files that were removed before [`KeptCopy::Remove`] are copied again, so that the copy stays whole.
    pub fn take_out(&self, disk: &dyn Disk, copy: &RigCopy) -> Result<(), KeptCopy> {
        let target = self.unchanged_target(disk, copy)?;
        let remove = |tree: &Tree, _: &dyn Folder, _: &OsStr| copy::take_out(tree, &target);
        let removed = copy::with_source(disk, &self.hank, &copy.from, remove).map_err(KeptCopy::Compare)?;
        removed.map_err(|error| {
            // Without `replace`, which would first try to remove the target, and that has just failed.
            if let Err(error) = copy::copy(disk, &self.hank, &copy.from, &target, false) {
                tracing::warn!(%error, to = %copy.to.display(), "a part of a rig's copy is missing");
            }
            KeptCopy::Remove(error)
        })
    }

    /// Whether a copy could be removed now. Changes nothing.
    pub fn can_take_out(&self, disk: &dyn Disk, copy: &RigCopy) -> bool {
        self.unchanged_target(disk, copy).is_ok()
    }

    /// Returns the target of a copy that is unchanged.
    fn unchanged_target(&self, disk: &dyn Disk, copy: &RigCopy) -> Result<CopyTarget, KeptCopy> {
        let target = target::resolve(disk, &self.workspace, &copy.to).map_err(KeptCopy::Place)?;
        let compare = |tree: &Tree, source: &dyn Folder, name: &OsStr| {
            let copied = (&*target.folder, &*target.name);
            is_unchanged(tree, (source, name), copied, copy.replace)
        };
        let unchanged =
            copy::with_source(disk, &self.hank, &copy.from, compare).map_err(KeptCopy::Compare)?;
        match unchanged {
            Ok(true) => Ok(target),
            Ok(false) => Err(KeptCopy::Changed),
            Err(error) => Err(KeptCopy::Compare(
                IoError::at("compare", &target.path)(error).into(),
            )),
        }
    }

    /// Makes a removed copy again.
    ///
    /// # Errors
    ///
    /// Returns the reason if it cannot be made.
    pub fn put_back(&self, disk: &dyn Disk, copy: &RigCopy) -> Result<(), KeptCopy> {
        let target = target::resolve(disk, &self.workspace, &copy.to).map_err(KeptCopy::Place)?;
        copy::copy(disk, &self.hank, &copy.from, &target, copy.replace).map_err(KeptCopy::Compare)?;
        Ok(())
    }
}

/// An entry of an open folder: the folder, and the name in it.
type DirEntryRef<'a> = (&'a dyn Folder, &'a OsStr);

/// Whether `copy` is an unchanged copy of `tree` at `source`. With `alone`, additional entries count as a change.
fn is_unchanged(
    tree: &Tree,
    source: DirEntryRef<'_>,
    copy: DirEntryRef<'_>,
    alone: bool,
) -> io::Result<bool> {
    match (tree, copy.0.open(copy.1)?) {
        (Tree::File, OpenedEntry::File(copied)) => match source.0.open(source.1)? {
            OpenedEntry::File(original) => {
                Ok(original.mode == copied.mode && files::same_content(original.content, copied.content)?)
            }
            OpenedEntry::Folder(_) | OpenedEntry::Other(_) => Ok(false),
        },
        (Tree::Link(link), OpenedEntry::Other(FileKind::Link)) => Ok(copy.0.read_link(copy.1)? == *link),
        (Tree::Folder(inner), OpenedEntry::Folder(copied)) => {
            let OpenedEntry::Folder(original) = source.0.open(source.1)? else {
                return Ok(false);
            };
            let names: BTreeSet<_> = copied.names()?.into_iter().collect();
            if alone && names.len() != inner.len() {
                return Ok(false);
            }
            for (name, tree) in inner {
                let unchanged =
                    names.contains(name) && is_unchanged(tree, (&*original, name), (&*copied, name), alone)?;
                if !unchanged {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Tree::File | Tree::Link(_) | Tree::Folder(_), _) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};

    /// A hank with a tree and a workspace with its copy.
    fn stage() -> (TempDir, RigCopies, RigCopy) {
        stage_of(true)
    }

    fn stage_of(replace: bool) -> (TempDir, RigCopies, RigCopy) {
        let folder = tempfile::tempdir().unwrap();
        let (hank, workspace) = (folder.path().join("hank"), folder.path().join("work"));
        fs::create_dir_all(hank.join("from/sub")).unwrap();
        fs::create_dir(&workspace).unwrap();
        fs::write(hank.join("from/sub/a.txt"), "a".repeat(100_001)).unwrap();
        fs::write(hank.join("from/left-out.log"), "no part of a copy").unwrap();
        symlink("sub/a.txt", hank.join("from/link")).unwrap();
        let copy = RigCopy {
            from: "from".to_owned(),
            to: "to".into(),
            replace,
        };
        let of = BTreeMap::from([("a".to_owned(), vec![copy.clone()])]);
        let copies = RigCopies { hank, workspace, of };
        copies.put_back(&RealDisk, &copy).unwrap();
        (folder, copies, copy)
    }

    // covers: RUN-20
    #[test]
    fn an_untouched_copy_is_taken_out_and_can_be_made_again() {
        let (_folder, copies, copy) = stage();
        let found = |kept: &[&str]| {
            let kept = kept.iter().map(Path::new).collect();
            copies.found(&RealDisk, "a", &kept).len()
        };
        assert_eq!((found(&[]), found(&["to"])), (1, 0), "what others need stays");
        copies.take_out(&RealDisk, &copy).unwrap();
        assert!(!copies.workspace.join("to").exists());
        assert_eq!(found(&[]), 0);
        copies.put_back(&RealDisk, &copy).unwrap();
        assert!(copies.workspace.join("to/link").exists());
    }

    // covers: RUN-20
    #[test]
    fn a_copy_in_which_anything_was_changed_stays_whole() {
        let changes: [fn(&Path); 6] = [
            |to| fs::write(to.join("sub/a.txt"), "b".repeat(100_001)).unwrap(),
            |to| fs::write(to.join("sub/a.txt"), "a".repeat(100_000)).unwrap(),
            |to| fs::write(to.join("sub/new.txt"), "").unwrap(),
            |to| fs::remove_file(to.join("link")).unwrap(),
            |to| fs::set_permissions(to.join("sub/a.txt"), fs::Permissions::from_mode(0o700)).unwrap(),
            |to| {
                fs::remove_file(to.join("link")).unwrap();
                symlink("sub", to.join("link")).unwrap();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let (_folder, copies, copy) = stage();
            let to = copies.workspace.join("to");
            change(&to);
            let left = copies.take_out(&RealDisk, &copy).unwrap_err();
            assert!(matches!(left, KeptCopy::Changed), "change {number}: {left:?}");
            assert!(to.join("sub/a.txt").exists(), "change {number}");
        }
    }

    // covers: RUN-20
    #[test]
    fn of_a_merged_copy_only_what_it_brought_is_taken_out() {
        let (_folder, copies, copy) = stage_of(false);
        let to = copies.workspace.join("to");
        fs::write(to.join("sub/work.txt"), "of an agent").unwrap();
        copies.take_out(&RealDisk, &copy).unwrap();
        assert_eq!(
            (
                to.join("sub/a.txt").exists(),
                to.join("link").symlink_metadata().is_ok()
            ),
            (false, false)
        );
        assert_eq!(
            fs::read_to_string(to.join("sub/work.txt")).unwrap(),
            "of an agent"
        );

        copies.put_back(&RealDisk, &copy).unwrap();
        fs::write(to.join("sub/a.txt"), "changed").unwrap();
        let left = copies.take_out(&RealDisk, &copy).unwrap_err();
        assert!(matches!(left, KeptCopy::Changed), "{left:?}");

        let (_folder, copies, copy) = stage_of(false);
        copies.take_out(&RealDisk, &copy).unwrap();
        assert!(!copies.workspace.join("to").exists(), "nothing else was in it");
    }

    // covers: RUN-20
    #[test]
    fn a_copy_of_which_a_part_cannot_be_removed_stays_whole() {
        for replace in [true, false] {
            for n in 0.. {
                let (_folder, copies, copy) = stage_of(replace);
                let fault = Fault::FailAt(n, io::ErrorKind::PermissionDenied);
                let disk = FaultyDisk::new(Arc::new(RealDisk), fault);
                let Err(left) = copies.take_out(&disk, &copy) else {
                    assert_eq!(n, 4, "two files and two folders are removed");
                    break;
                };
                assert!(matches!(left, KeptCopy::Remove(_)), "step {n}: {left:?}");
                assert!(copies.can_take_out(&RealDisk, &copy), "step {n}");
            }
        }
    }

    // covers: X3
    #[test]
    fn nothing_outside_the_workspace_is_taken_out() {
        let (folder, copies, _) = stage();
        fs::rename(copies.workspace.join("to"), folder.path().join("to")).unwrap();
        symlink("..", copies.workspace.join("out")).unwrap();
        let copy = RigCopy {
            from: "from".to_owned(),
            to: "out/to".into(),
            replace: true,
        };
        let left = copies.take_out(&RealDisk, &copy).unwrap_err();
        assert!(matches!(left, KeptCopy::Place(_)), "{left:?}");
        assert!(folder.path().join("to").exists());
    }
}
