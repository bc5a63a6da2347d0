//! Helpers for the archive, results and copies: selecting files of the workspace by patterns, comparing contents, free names, and removing empty
//! folders. No link is followed.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hankweave_core::hank::Patterns;
use hankweave_core::hank::exclude::is_excluded;

use crate::world::disk::{FileKind, Folder, OpenedEntry};

/// Deepest folder that is searched. A deeper tree is a mistake, and walking it costs one open folder for each level.
const MAX_DEPTH: usize = 256;

/// Selection of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct RigSelection<'a> {
    pub(super) patterns: &'a Patterns,
    /// Folder to leave out with everything inside, relative to the workspace.
    pub(super) leave_out: Option<&'a Path>,
    /// Whether links are selected as well; they are not followed.
    pub(super) links: bool,
}

/// The selected files, relative to `root` and in the order of their names; never files of git or hankweave.
pub(super) fn select(root: &dyn Folder, selection: RigSelection<'_>) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    root.walk(&mut |folder, path, name| {
        let (name, depth) = (name?, path.components().count());
        if is_excluded(name.as_bytes(), depth == 1) || selection.leave_out == Some(path) {
            return Ok(None);
        }
        let is_match = selection.patterns.matches(path.as_os_str().as_bytes());
        match folder.open(name) {
            Ok(OpenedEntry::Folder(inner)) if depth <= MAX_DEPTH => return Ok(Some(inner)),
            Ok(OpenedEntry::File(_)) if is_match => files.push(path.to_owned()),
            Ok(OpenedEntry::Other(FileKind::Link)) if is_match && selection.links => {
                files.push(path.to_owned())
            }
            Err(error) if is_match => return Err(error),
            // Entries that do not match may be of any kind, and unreadable.
            Ok(_) | Err(_) => {}
        }
        Ok(None)
    })?;
    Ok(files)
}

/// Whether both have equal bytes.
pub(super) fn same_content(left: Box<dyn Read + Send>, right: Box<dyn Read + Send>) -> io::Result<bool> {
    let (mut left, mut right) = (BufReader::new(left), BufReader::new(right));
    loop {
        let (left_bytes, right_bytes) = (left.fill_buf()?, right.fill_buf()?);
        let length = left_bytes.len().min(right_bytes.len());
        // An empty buffer is the end of its file: the contents are equal if both ends are reached.
        if length == 0 || left_bytes[..length] != right_bytes[..length] {
            return Ok(left_bytes.is_empty() && right_bytes.is_empty());
        }
        left.consume(length);
        right.consume(length);
    }
}

/// Returns the first free path: `path` itself, else with the name `<stem>_<n>_<timestamp>` and the extension of `path` (HANK-25).
pub(super) fn free_name(root: &dyn Folder, path: &Path, timestamp: i64) -> io::Result<PathBuf> {
    let mut candidate = path.to_owned();
    for number in 1_u32.. {
        if root.lookup(&candidate)?.is_none() {
            break;
        }
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("_{number}_{timestamp}"));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        candidate = path.with_file_name(name);
    }
    Ok(candidate)
}

/// Removes the empty folders on the path to `path`, from the inside out.
pub(super) fn remove_empty_folders(root: &dyn Folder, path: &Path) -> io::Result<()> {
    let around = path.ancestors().skip(1);
    for folder in around.filter(|folder| !folder.as_os_str().is_empty()) {
        let removed = root.at(folder, |parent, name| match parent.open(name)? {
            OpenedEntry::Folder(inner) if inner.names()?.is_empty() => parent.remove(name).map(|()| true),
            OpenedEntry::Folder(_) | OpenedEntry::File(_) | OpenedEntry::Other(_) => Ok(false),
        })?;
        if !removed {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::world::disk::{Disk, RealDisk};

    fn selected(links: bool, patterns: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        for path in [
            "a.txt",
            "src/b.txt",
            "out/c.txt",
            ".hankweave/state.json",
            "src/.git/config",
            "rigArchive/a/old.txt",
            ".hidden/d.txt",
            ".gitignore",
        ] {
            write(path);
        }
        symlink("../a.txt", folder.path().join("src/link.txt")).unwrap();
        symlink("src", folder.path().join("linked")).unwrap();
        let selection = RigSelection {
            patterns: &Patterns::parse(patterns).unwrap(),
            leave_out: Some(Path::new("out")),
            links,
        };
        let root = RealDisk.open_folder(folder.path()).unwrap();
        let files = select(&*root, selection).unwrap();
        files.iter().map(|path| path.display().to_string()).collect()
    }

    // covers: HANK-16, G4
    #[test]
    fn patterns_mean_files_and_never_what_belongs_to_git_or_to_us() {
        assert_eq!(
            selected(false, &["**/*.txt"]),
            [".hidden/d.txt", "a.txt", "src/b.txt"]
        );
        assert_eq!(selected(true, &["src"]), ["src/b.txt", "src/link.txt"]);
        assert_eq!(
            selected(false, &[".hankweave/**", "rigArchive/**", "src/.git/**"]),
            [""; 0]
        );
    }

    // covers: HANK-25
    #[test]
    fn a_name_that_is_taken_gets_a_number_and_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = RealDisk.open_folder(folder.path()).unwrap();
        let free = |path: &str| {
            free_name(&*root, Path::new(path), 17)
                .unwrap()
                .display()
                .to_string()
        };
        assert_eq!(free("r.tar.gz"), "r.tar.gz");
        fs::write(folder.path().join("r.tar.gz"), "x").unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(folder.path().join("deep/plain"), "x").unwrap();
        assert_eq!(free("r.tar.gz"), "r.tar_1_17.gz");
        fs::write(folder.path().join("r.tar_1_17.gz"), "x").unwrap();
        assert_eq!(free("r.tar.gz"), "r.tar_2_17.gz");
        assert_eq!(free("deep/plain"), "deep/plain_1_17");
    }

    #[test]
    fn folders_that_became_empty_go_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b/c")).unwrap();
        fs::write(folder.path().join("a/keep"), "x").unwrap();
        let root = RealDisk.open_folder(folder.path()).unwrap();
        remove_empty_folders(&*root, Path::new("a/b/c/moved.txt")).unwrap();
        assert!(folder.path().join("a/keep").exists() && !folder.path().join("a/b").exists());
    }
}
