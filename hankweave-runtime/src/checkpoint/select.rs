//! The walk through the workspace, which selects the files that belong to a checkpoint, or that a restore would replace.
//! Snapshots and surveys begin with it.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use hankweave_core::hank::CHECKPOINTED_FILE_LIMIT_MB;
use hankweave_core::hank::exclude::is_excluded;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::tree::Listing;
use super::workspace::{FileStat, Workspace};
use super::{Patterns, SkipReason, Skipped, TreePath};
use crate::world::disk::{open_folder_in, open_regular_in};

/// Default of the longest file that is stored, in bytes.
pub const MAX_FILE_BYTES: u64 = CHECKPOINTED_FILE_LIMIT_MB << 20;

/// Maximum depth of nested folders. Each open one costs a descriptor, and 1,024 is a common limit for these.
const MAX_DEPTH: usize = 256;

/// Most threads that walk. Each may have [`MAX_DEPTH`] folders open.
const MOST_THREADS: usize = 3;

/// Largest `.gitignore` that is read, in bytes; the rest of a larger one does not count.
const MAX_IGNORE_BYTES: u64 = 1 << 20;

/// Folder with so many third-party files that its unlisted ones stay out, see [`FileSelection::unlisted`].
const UNVISITED: &[u8] = b"node_modules";

/// Rules for the files to select.
#[derive(Debug)]
pub(super) struct FileSelection<'a> {
    /// Files that match and are not ignored.
    pub(super) patterns: &'a Patterns,
    /// Files that are wanted even if they are ignored or do not match: those of any of these listings.
    pub(super) tracked: &'a [&'a Listing],
    /// Whether to select also the entries that a restore of the tracked files would replace, and so has to save first: files
    /// of any size, a file in the place of a tracked folder, and everything inside a folder in the place of a tracked
    /// file.
    pub(super) in_the_way: bool,
    /// Whether to select also the unlisted files: those that do not match, are ignored or are too long. [`UNVISITED`]
    /// folders and folders that are ignored as a whole stay out.
    pub(super) unlisted: bool,
    /// Longest file, in bytes. A file in the way of a restore may be of any length.
    pub(super) most_bytes: u64,
}

impl FileSelection<'_> {
    fn tracks(&self, path: &[u8]) -> bool {
        self.tracked.iter().any(|listing| listing.contains(path))
    }

    fn tracks_beneath(&self, folder: &[u8]) -> bool {
        self.tracked.iter().any(|listing| listing.holds_beneath(folder))
    }
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Selected {
    pub(super) files: Vec<SelectedFile>,
    pub(super) skipped: Vec<Skipped>,
}

/// A file or link as the walk saw it.
#[derive(Debug, Clone)]
pub(super) struct SelectedFile {
    pub(super) path: TreePath,
    pub(super) stat: FileStat,
    /// Whether it matches the patterns, is not ignored and is not too long. Otherwise it is here because it is tracked, in
    /// the way of a restore or unlisted.
    pub(super) matches: bool,
    /// Whether a `.gitignore` leaves it out.
    pub(super) is_ignored: bool,
}

/// A folder that could not be listed.
#[derive(Debug)]
pub(super) struct WalkError {
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

/// Walks through `workspace` and returns the wanted files in the order of their paths.
pub(super) fn select(workspace: &Workspace, selection: &FileSelection<'_>) -> Result<Selected, WalkError> {
    let mut walker = Walker {
        selection,
        rules: Vec::new(),
        path: Vec::new(),
        depth: 0,
        threads: thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MOST_THREADS),
        selected: Selected::default(),
    };
    match open_folder_in(workspace.root(), ".").and_then(|root| walker.walk_folder(root, WalkMode::Default)) {
        Ok(()) => Ok(walker.selected),
        // The path of the folder that failed is still in the walker.
        Err(source) => Err(WalkError {
            path: workspace.locate(&walker.path),
            source: source.into(),
        }),
    }
}

/// Which files of a folder the walk selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WalkMode {
    /// Matching files that are not ignored, and tracked files.
    Default,
    /// The folder is ignored: only what is tracked.
    Tracked,
    /// The folder is in the place of a tracked file: all of it, see [`FileSelection::in_the_way`].
    Everything,
}

struct Walker<'a> {
    selection: &'a FileSelection<'a>,
    /// The rules of the `.gitignore` files on the path, outermost first.
    rules: Vec<IgnoreRules>,
    /// Path of the current entry, relative to the workspace.
    path: Vec<u8>,
    /// Number of open folders, 1 in the workspace itself.
    depth: usize,
    /// Number of threads that may walk through the entries inside.
    threads: usize,
    selected: Selected,
}

/// Name of an entry in a folder, and its type.
type RawEntry = (Box<[u8]>, FileType);

/// The rules of one `.gitignore`.
#[derive(Clone)]
struct IgnoreRules {
    /// Length of the folder's path with its slash.
    prefix: usize,
    rules: Arc<Gitignore>,
}

impl Walker<'_> {
    /// Visits everything in a folder, whose path is `self.path`.
    fn walk_folder(&mut self, folder: OwnedFd, mode: WalkMode) -> Result<(), Errno> {
        let mut folder = Dir::new(folder)?;
        let names = names(&mut folder)?;
        let prefix = if self.path.is_empty() {
            0
        } else {
            self.path.len() + 1
        };
        let rules = if mode == WalkMode::Default {
            read_rules(folder.fd()?, &names, prefix)
        } else {
            None
        };
        let has_rules = rules.is_some();
        self.rules.extend(rules);
        self.depth += 1;
        let folders = names.iter().filter(|(_, kind)| *kind == FileType::Directory);
        match self.threads > 1 && folders.count() > 1 {
            true => self.visit_in_threads(folder.fd()?, &names, mode)?,
            false => names
                .iter()
                .try_for_each(|name| self.visit(folder.fd()?, name, mode))?,
        }
        self.depth -= 1;
        if has_rules {
            self.rules.pop();
        }
        Ok(())
    }

    /// Visits the entry `name`. Meanwhile `path` ends with this name. After an error it stays so, for the message.
    fn visit(
        &mut self,
        parent: BorrowedFd<'_>,
        (name, kind): &RawEntry,
        mode: WalkMode,
    ) -> Result<(), Errno> {
        let length = self.path.len();
        if length > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        self.entry(parent, name, *kind, mode)?;
        self.path.truncate(length);
        Ok(())
    }

    /// Visits `names` in several threads, each of which takes the next remaining one. The results are put together in the
    /// order of the names.
    fn visit_in_threads(
        &mut self,
        parent: BorrowedFd<'_>,
        names: &[RawEntry],
        mode: WalkMode,
    ) -> Result<(), Errno> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            let take = || {
                let index = next.fetch_add(1, Relaxed);
                Some((index, names.get(index)?))
            };
            while let Some((index, name)) = take() {
                let mut walker = self.single_threaded();
                let visited = walker.visit(parent, name, mode);
                done.push((index, walker, visited));
            }
            done
        };
        let mut found = thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(work)).collect();
            let mut found = work();
            for thread in others {
                found.extend(
                    thread
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                );
            }
            found
        });
        found.sort_unstable_by_key(|(index, ..)| *index);
        for (_, walker, visited) in found {
            if visited.is_err() {
                self.path = walker.path;
                return visited;
            }
            self.selected.files.extend(walker.selected.files);
            self.selected.skipped.extend(walker.selected.skipped);
        }
        Ok(())
    }

    /// Returns a walker at this position that has found nothing and starts no threads.
    fn single_threaded(&self) -> Self {
        Self {
            selection: self.selection,
            rules: self.rules.clone(),
            path: self.path.clone(),
            depth: self.depth,
            threads: 1,
            selected: Selected::default(),
        }
    }

    fn entry(&mut self, parent: impl AsFd, name: &[u8], kind: FileType, mode: WalkMode) -> Result<(), Errno> {
        if is_excluded(name, self.depth == 1) {
            self.skip(SkipReason::Protected);
            return Ok(());
        }
        let kind = match kind {
            // `names` could not read the kind. If it cannot be read now either, the error decides whether the entry is skipped.
            FileType::Unknown => match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(error) => return self.skip_or_fail(error),
            },
            known => known,
        };
        let is_folder = kind == FileType::Directory;
        let mode = if mode == WalkMode::Default && self.is_ignored(is_folder) {
            WalkMode::Tracked
        } else {
            mode
        };
        match kind {
            FileType::Directory => self.subfolder(parent, name, mode),
            FileType::RegularFile | FileType::Symlink => self.file(parent, name, mode),
            // An ignored entry is not reported.
            _ if mode == WalkMode::Tracked => Ok(()),
            _ => {
                self.skip(SkipReason::NotAFile);
                Ok(())
            }
        }
    }

    fn subfolder(&mut self, parent: impl AsFd, name: &[u8], mode: WalkMode) -> Result<(), Errno> {
        let in_the_way = self.selection.in_the_way && self.selection.tracks(&self.path);
        let mode = if in_the_way { WalkMode::Everything } else { mode };
        if mode == WalkMode::Tracked && !self.selection.tracks_beneath(&self.path) {
            return Ok(());
        }
        if self.depth == MAX_DEPTH {
            self.skip(SkipReason::TooDeep);
            return Ok(());
        }
        match open_folder_in(parent, name) {
            Ok(folder) => self.walk_folder(folder, mode),
            Err(error) => self.skip_or_fail(error),
        }
    }

    fn file(&mut self, parent: impl AsFd, name: &[u8], mode: WalkMode) -> Result<(), Errno> {
        let (selection, in_the_way) = (self.selection, self.selection.in_the_way);
        let mut matches = mode == WalkMode::Default && selection.patterns.matches(&self.path);
        let unlisted = selection.unlisted
            && !self
                .path
                .split(|&byte| byte == b'/')
                .any(|name| name == UNVISITED);
        let wanted = matches
            || unlisted
            || mode == WalkMode::Everything
            || selection.tracks(&self.path)
            || in_the_way && selection.tracks_beneath(&self.path);
        if !wanted {
            return Ok(());
        }
        let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(error) => return self.skip_or_fail(error),
        };
        let Some(stat) = FileStat::of(&stat) else {
            return Ok(());
        };
        if stat.size > selection.most_bytes && !in_the_way {
            self.selected.skipped.push(Skipped {
                path: self.current(),
                reason: SkipReason::TooLarge,
                size: Some(stat.size),
            });
            if !unlisted {
                return Ok(());
            }
            matches = false;
        }
        self.selected.files.push(SelectedFile {
            path: self.current(),
            stat,
            matches,
            is_ignored: mode == WalkMode::Tracked,
        });
        Ok(())
    }

    /// Passes over an entry that vanished during the walk, and skips one that we may not read. Other errors stay errors.
    fn skip_or_fail(&mut self, error: Errno) -> Result<(), Errno> {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Ok(()),
            Errno::ACCESS | Errno::PERM => {
                self.skip(SkipReason::Unreadable);
                Ok(())
            }
            other => Err(other),
        }
    }

    fn skip(&mut self, reason: SkipReason) {
        self.selected.skipped.push(Skipped {
            path: self.current(),
            reason,
            size: None,
        });
    }

    fn current(&self) -> TreePath {
        TreePath::of_names(&self.path)
    }

    /// Whether the path is ignored by the innermost `.gitignore` that matches it.
    fn is_ignored(&self, is_folder: bool) -> bool {
        for IgnoreRules { prefix, rules } in self.rules.iter().rev() {
            let matched = rules.matched(Path::new(OsStr::from_bytes(&self.path[*prefix..])), is_folder);
            if !matched.is_none() {
                return matched.is_ignore();
            }
        }
        false
    }
}

/// Returns the names in `folder` without `.` and `..`, in the order of the paths that begin with them. `list_in` would fail for an
/// entry whose kind cannot be read, and with it the checkpoint. Here such an entry has an unknown kind.
fn names(folder: &mut Dir) -> Result<Vec<RawEntry>, Errno> {
    let mut names: Vec<RawEntry> = Vec::new();
    while let Some(entry) = folder.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((name.into(), known_kind(folder.fd()?, name, entry.file_type())));
        }
    }
    names.sort_unstable_by(in_order_of_paths);
    Ok(names)
}

/// Returns the kind of the entry `name`, also where the file system's listings lack it; unreadable entries stay unknown.
fn known_kind(folder: impl AsFd, name: &[u8], listed: FileType) -> FileType {
    match listed {
        FileType::Unknown => rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        known => known,
    }
}

/// Compares names as git does: as if the name of a folder ended with a slash.
fn in_order_of_paths((left, left_kind): &RawEntry, (right, right_kind): &RawEntry) -> Ordering {
    let common = left.len().min(right.len());
    let next = |name: &[u8], kind| match kind {
        FileType::Directory => Some(*name.get(common).unwrap_or(&b'/')),
        _ => name.get(common).copied(),
    };
    let after = || next(left, *left_kind).cmp(&next(right, *right_kind));
    left[..common].cmp(&right[..common]).then_with(after)
}

/// Returns the rules of the `.gitignore` in `folder`; `None` when there is none or it cannot be read. Lines that are no pattern do not count.
fn read_rules(folder: impl AsFd, names: &[RawEntry], prefix: usize) -> Option<IgnoreRules> {
    names.iter().find(|(name, _)| **name == *b".gitignore")?;
    let file = open_regular_in(folder, ".gitignore").ok()?;
    let mut text = Vec::new();
    file.take(MAX_IGNORE_BYTES).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&text).lines() {
        let _ = builder.add_line(None, line); // Git passes over a line that is no pattern, too.
    }
    Some(IgnoreRules {
        prefix,
        rules: Arc::new(builder.build().ok()?),
    })
}
