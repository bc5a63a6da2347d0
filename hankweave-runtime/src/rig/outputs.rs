//! Copies results from the workspace to the output directory (HANK-24).

use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::hank::{PatternError, Patterns};
use hankweave_core::time::Timestamp;

use super::files::{self, RigSelection};
use crate::world::disk::{Disk, FileKind, Folder, OpenedEntry};

/// Source and target of results.
#[derive(Debug, Clone)]
pub struct OutputCopier {
    /// The agent's workspace.
    pub workspace: PathBuf,
    /// The output directory by its real path; it exists.
    pub directory: PathBuf,
    /// Whether to replace a file with an equal name. Otherwise the new file gets another name.
    pub overwrite: bool,
    /// Whether an earlier process may have copied results already: then files with equal name and content are skipped.
    pub again: bool,
    /// Time that becomes part of the new name of a file whose name is taken.
    pub at: Timestamp,
}

/// Why results could not be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A pattern of `outputFiles` is wrong.
    #[error("failed to understand `outputFiles`")]
    Pattern(#[source] PatternError),
    /// The workspace could not be searched.
    #[error("failed to look for results in `{}`", folder.display())]
    Select {
        /// The workspace.
        folder: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// A file could not be copied.
    #[error("failed to copy `{}` to `{}`", path.display(), directory.display())]
    Copy {
        /// The file, relative to the workspace.
        path: PathBuf,
        /// The output directory.
        directory: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

impl OutputCopier {
    /// Copies every file that matches `patterns`, keeping its relative path. Returns the paths of the copies,
    /// relative to the output directory. Links are copied as links. Files in the output directory itself, if that is
    /// inside the workspace, are not copied.
    ///
    /// # Errors
    ///
    /// Returns [`OutputError`] with the first file that could not be copied; those before it are in their
    /// places.
    pub fn copy(&self, disk: &dyn Disk, patterns: &[String]) -> Result<Vec<PathBuf>, OutputError> {
        let patterns = Patterns::parse(patterns).map_err(OutputError::Pattern)?;
        let selection = RigSelection {
            patterns: &patterns,
            leave_out: self.directory.strip_prefix(&self.workspace).ok(),
            links: true,
        };
        let search_failed = |source| OutputError::Select {
            folder: self.workspace.clone(),
            source,
        };
        let workspace = disk.open_folder(&self.workspace).map_err(search_failed)?;
        let paths = files::select(&*workspace, selection).map_err(search_failed)?;
        let copy = |path: PathBuf| {
            let directory = self.open_directory(disk);
            let copied = directory.and_then(|directory| self.copy_one(&*workspace, &path, &*directory));
            copied.map_err(|source| OutputError::Copy {
                path,
                directory: self.directory.clone(),
                source,
            })
        };
        paths.into_iter().map(copy).collect()
    }

    /// Opens the output directory, unless an agent has replaced it or a folder on its path with a link (X11).
    fn open_directory(&self, disk: &dyn Disk) -> io::Result<Box<dyn Folder>> {
        match disk.real_path(&self.directory)? == self.directory {
            true => disk.open_folder(&self.directory),
            false => Err(io::Error::other("it is not where it was: a link is in its place")),
        }
    }

    /// Copies one file or link, and returns the path of the copy.
    fn copy_one(&self, workspace: &dyn Folder, path: &Path, directory: &dyn Folder) -> io::Result<PathBuf> {
        let target = match directory.lookup(path)? {
            None => path.to_owned(),
            Some(_) if self.again && is_same(workspace, directory, path)? => return Ok(path.to_owned()),
            Some(OpenedEntry::Folder(_)) if self.overwrite => return Err(io::ErrorKind::IsADirectory.into()),
            Some(_) if self.overwrite => {
                directory.at(path, |folder, name| folder.remove(name))?;
                path.to_owned()
            }
            Some(_) => files::free_name(directory, path, self.at.as_millis())?,
        };
        match workspace.find(path)? {
            OpenedEntry::File(mut file) => directory.make(&target, |folder, name| {
                // An incomplete copy is removed: it must not look like a result.
                let copied = folder.create_file(name, file.mode, &mut *file.content);
                copied.inspect_err(|_| drop(folder.remove(name)))
            })?,
            OpenedEntry::Other(FileKind::Link) => {
                let link = workspace.at(path, |folder, name| folder.read_link(name))?;
                directory.make(&target, |folder, name| folder.create_link(name, &link))?;
            }
            OpenedEntry::Folder(_) | OpenedEntry::Other(_) => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(target)
    }
}

/// Whether the files at `path` in both folders have equal content.
fn is_same(workspace: &dyn Folder, directory: &dyn Folder, path: &Path) -> io::Result<bool> {
    match (workspace.find(path)?, directory.find(path)?) {
        (OpenedEntry::File(own), OpenedEntry::File(there)) => files::same_content(own.content, there.content),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};

    struct Stage {
        folder: TempDir,
        outputs: OutputCopier,
    }

    impl Stage {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            fs::create_dir_all(folder.path().join("work/sub")).unwrap();
            fs::create_dir(folder.path().join("out")).unwrap();
            fs::write(folder.path().join("work/sub/a.txt"), "one").unwrap();
            fs::write(folder.path().join("work/.gitignore"), "*").unwrap();
            symlink("sub/a.txt", folder.path().join("work/link.txt")).unwrap();
            let outputs = OutputCopier {
                workspace: folder.path().join("work"),
                directory: root.join("out"),
                overwrite: false,
                again: false,
                at: Timestamp::from_millis(17),
            };
            Self { folder, outputs }
        }

        fn copy(&self) -> Result<Vec<String>, OutputError> {
            let copied = self.outputs.copy(&RealDisk, &["**/*.txt".to_owned()])?;
            Ok(copied.iter().map(|path| path.display().to_string()).collect())
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.folder.path().join(path)).unwrap()
        }
    }

    // covers: X11
    #[test]
    fn a_link_in_the_place_of_the_output_directory_is_not_followed() {
        let stage = Stage::new();
        let (out, elsewhere) = (
            stage.folder.path().join("out"),
            stage.folder.path().join("elsewhere"),
        );
        fs::create_dir(&elsewhere).unwrap();
        fs::remove_dir(&out).unwrap();
        symlink(&elsewhere, &out).unwrap();
        assert!(matches!(stage.copy(), Err(OutputError::Copy { .. })));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    // Ignore rules do not apply.
    // covers: HANK-24
    #[test]
    fn results_keep_their_paths_and_links_stay_links() {
        let stage = Stage::new();
        assert_eq!(stage.copy().unwrap(), ["link.txt", "sub/a.txt"]);
        assert_eq!(stage.read("out/sub/a.txt"), "one");
        let link = fs::read_link(stage.folder.path().join("out/link.txt")).unwrap();
        assert_eq!(link, Path::new("sub/a.txt"));
    }

    // covers: HANK-24
    #[test]
    fn a_pattern_that_matches_nothing_is_no_error() {
        let stage = Stage::new();
        let copied = stage.outputs.copy(&RealDisk, &["missing/**".to_owned()]);
        assert_eq!(copied.unwrap().len(), 0);
        assert_eq!(fs::read_dir(&stage.outputs.directory).unwrap().count(), 0);
    }

    // covers: HANK-25
    #[test]
    fn what_is_there_stays_unless_it_is_to_be_replaced() {
        let mut stage = Stage::new();
        stage.copy().unwrap();
        fs::write(stage.folder.path().join("work/sub/a.txt"), "two").unwrap();
        assert_eq!(stage.copy().unwrap(), ["link_1_17.txt", "sub/a_1_17.txt"]);
        assert_eq!(
            (stage.read("out/sub/a.txt"), stage.read("out/sub/a_1_17.txt")),
            ("one".into(), "two".into())
        );
        stage.outputs.overwrite = true;
        assert_eq!(stage.copy().unwrap(), ["link.txt", "sub/a.txt"]);
        assert_eq!(stage.read("out/sub/a.txt"), "two");
        stage.outputs.overwrite = false;
        stage.outputs.again = true;
        assert_eq!(
            stage.copy().unwrap()[1],
            "sub/a.txt",
            "the same content is there already"
        );
    }

    // covers: X3
    #[test]
    fn a_link_in_the_output_directory_leads_nothing_elsewhere() {
        let stage = Stage::new();
        symlink("/tmp", stage.folder.path().join("out/sub")).unwrap();
        assert!(matches!(stage.copy(), Err(OutputError::Copy { .. })));
    }

    #[test]
    fn an_output_directory_inside_the_workspace_is_no_result() {
        let mut stage = Stage::new();
        stage.outputs.directory = stage.folder.path().join("work/results");
        fs::create_dir(&stage.outputs.directory).unwrap();
        stage.copy().unwrap();
        stage.outputs.again = true;
        assert_eq!(stage.copy().unwrap().len(), 2);
    }

    #[test]
    fn a_full_disk_leaves_no_half_result() {
        for at in 0..20 {
            let stage = Stage::new();
            let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::FailAt(at, io::ErrorKind::StorageFull));
            match stage.outputs.copy(&disk, &["sub".to_owned()]) {
                Ok(_) => return,
                Err(error) => {
                    assert!(matches!(error, OutputError::Copy { .. }), "{error}");
                    assert!(!stage.folder.path().join("out/sub/a.txt").exists());
                }
            }
        }
        panic!("copying one file has fewer steps");
    }
}
