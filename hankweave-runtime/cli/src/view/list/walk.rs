//! Search for execution directories below a folder. The search follows no link and has limits.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use hankweave_core::discovery::STATE_DIR;
use hankweave_runtime::world::disk::{Disk, FileKind, RealDisk};

/// Depth of the folders that are searched, below the first one.
const MAX_DEPTH: usize = 8;

/// Most entries of folders that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// Folders of tools, which are large and in which no user starts a run.
const SKIPPED: [&str; 3] = ["node_modules", "target", "venv"];

/// Execution directories below a folder.
#[derive(Debug, Default)]
pub(super) struct FoundDirectories {
    /// Found directories, the highest ones first.
    pub(super) directories: Vec<PathBuf>,
    /// A limit ended the search, so there may be more.
    pub(super) is_cut: bool,
}

/// Searches `root` and the folders below it, hidden ones excepted, for at most `most` execution directories.
pub(super) fn find(root: &Path, most: usize) -> FoundDirectories {
    find_within(root, most, MAX_ENTRIES)
}

/// Like [`find`]; looks at no more than `entries` entries of folders.
fn find_within(root: &Path, most: usize, mut entries: usize) -> FoundDirectories {
    let mut found = FoundDirectories::default();
    let mut waiting = VecDeque::from([(root.to_owned(), 0)]);
    while let Some((folder, depth)) = waiting.pop_front() {
        if is_folder(&folder.join(STATE_DIR)) {
            if found.directories.len() == most {
                found.is_cut = true;
                return found;
            }
            found.directories.push(folder.clone());
        }
        // A folder that cannot be read, such as one of another user, counts as empty.
        let names = RealDisk.list_dir(&folder).unwrap_or_default();
        for name in names {
            let is_searched = name
                .to_str()
                .is_none_or(|name| !name.starts_with('.') && !SKIPPED.contains(&name));
            if entries == 0 || (depth == MAX_DEPTH && is_searched && is_folder(&folder.join(&name))) {
                found.is_cut = true;
                if entries == 0 {
                    return found;
                }
                continue;
            }
            entries -= 1;
            let inner = folder.join(&name);
            if is_searched && is_folder(&inner) {
                waiting.push_back((inner, depth + 1));
            }
        }
    }
    found
}

fn is_folder(path: &Path) -> bool {
    let metadata = RealDisk.metadata(path);
    metadata.is_ok_and(|metadata| metadata.kind == FileKind::Directory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(root: &Path, found: &FoundDirectories) -> Vec<String> {
        let below = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
        let mut names: Vec<String> = found.directories.iter().map(below).collect();
        names.sort();
        names
    }

    // covers: WIRE-51
    #[test]
    fn directories_with_a_record_are_found_and_links_and_folders_of_tools_are_not_searched() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        let outside = place.path().join("outside");
        for with_record in [
            "",
            "a",
            "b/c/d",
            ".hidden",
            "node_modules/x",
            "a/.hankweave/runs/x",
        ] {
            fs::create_dir_all(root.join(with_record).join(STATE_DIR)).unwrap();
        }
        fs::create_dir_all(outside.join(STATE_DIR)).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        symlink(&root, root.join("b/round")).unwrap();
        fs::create_dir_all(root.join("planted")).unwrap();
        symlink(outside.join(STATE_DIR), root.join("planted").join(STATE_DIR)).unwrap();
        fs::create_dir_all(root.join("file")).unwrap();
        fs::write(root.join("file").join(STATE_DIR), "").unwrap();
        let found = find(&root, 10);
        assert_eq!(names(&root, &found), ["", "a", "b/c/d"]);
        assert!(!found.is_cut);
    }

    // covers: WIRE-51
    #[test]
    fn the_search_has_limits_and_reports_them() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let deepest = (1..=MAX_DEPTH).fold(root.to_owned(), |path, _| path.join("d"));
        fs::create_dir_all(deepest.join(STATE_DIR)).unwrap();
        let found = find(root, 10);
        assert_eq!((found.directories, found.is_cut), (vec![deepest.clone()], false));
        fs::create_dir_all(deepest.join("e").join(STATE_DIR)).unwrap();
        let found = find(root, 10);
        assert_eq!((found.directories, found.is_cut), (vec![deepest], true));
        for name in ["a", "b", "c"] {
            fs::create_dir_all(root.join(name).join(STATE_DIR)).unwrap();
        }
        let found = find(root, 2);
        assert_eq!((found.directories.len(), found.is_cut), (2, true));
        assert!(find_within(root, 10, 2).is_cut);
    }
}
