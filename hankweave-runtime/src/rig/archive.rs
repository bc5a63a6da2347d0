//! The archive: after a codon or loop, files that are no longer needed are moved out of the way of later codons; a rollback moves
//! them back (HANK-27).
//!
//! `archive-manifest.json` names every file in the archive. An entry is written before its file moves away, and removed after
//! the file has moved back, so a crash leaves at most an entry whose file never left its place.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::codon::LoopContext;
use hankweave_core::hank::exclude::{ARCHIVE, is_excluded};
use hankweave_core::hank::{PatternError, Patterns};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::files::{self, RigSelection};
use crate::world::disk::{Disk, Folder, IoError, read_if_present, replace};

/// Size limit of a manifest that is read, in bytes; hankweave writes no larger one.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// The only version there is.
const VERSION: &str = "1.0.0";

/// Stands for the checkpoint of an entry whose checkpoint is not known.
const ORPHAN: &str = "orphan";

/// The archive of one workspace.
#[derive(Debug, Clone)]
pub struct Archive {
    /// The agent's workspace, with the archive in it.
    pub workspace: PathBuf,
    /// `archive-manifest.json`
    pub manifest: PathBuf,
}

/// One file in the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveEntry {
    /// Former path, relative to the workspace.
    pub source_path: String,
    /// Path in the archive, relative to the workspace.
    pub archive_path: String,
    /// Id of the codon after which it was moved, or of the loop.
    pub codon_id: String,
    /// The iteration, when a codon in a loop moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_context: Option<LoopContext>,
    /// The checkpoint after which it was moved; `orphan` when that is not known.
    pub checkpoint_sha: String,
    /// When it was moved.
    pub timestamp: Timestamp,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Content of `archive-manifest.json`.
#[derive(Debug, Serialize, Deserialize)]
struct ArchiveManifest {
    version: String,
    entries: Vec<ArchiveEntry>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// Files to move away, and for which codon or loop.
#[derive(Debug, Clone)]
pub struct ArchiveRequest {
    /// Patterns of the files.
    pub patterns: Vec<String>,
    /// The folder in the archive: `<codon id>`, or `<loop id>-<iteration>`.
    pub folder: String,
    /// The codon or the loop.
    pub codon_id: String,
    /// The iteration, for a codon in a loop.
    pub loop_context: Option<LoopContext>,
    /// The checkpoint that has the files before the move.
    pub checkpoint: Option<CheckpointSha>,
    /// The time of the move.
    pub at: Timestamp,
}

/// Result of a move; paths are those in the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// Files that were moved.
    pub paths: Vec<String>,
    /// Files that could not be moved, and why.
    pub failed: Vec<(String, String)>,
}

/// A file that was to be moved back, and the error if that failed.
pub type RestoredEntry = (ArchiveEntry, Result<(), String>);

/// Why the archive cannot be used. Nothing was moved, unless the manifest could not be written after files were moved back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A pattern of `archiveOnSuccess` is wrong.
    #[error("failed to understand `archiveOnSuccess`")]
    Pattern(#[source] PatternError),
    /// The workspace or the manifest could not be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The manifest cannot be understood.
    #[error("`{}` is damaged; move it away, its files are in `{ARCHIVE}`", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Problem.
        #[source]
        source: serde_json::Error,
    },
}

impl Archive {
    /// Moves files into the archive; a file that cannot be moved stays. Links stay, and so do the files of git and
    /// hankweave.
    ///
    /// # Errors
    ///
    /// Returns [`ArchiveError`] when nothing could be moved at all.
    pub fn put(&self, disk: &dyn Disk, request: &ArchiveRequest) -> Result<Moved, ArchiveError> {
        let patterns = Patterns::parse(&request.patterns).map_err(ArchiveError::Pattern)?;
        let selection = RigSelection {
            patterns: &patterns,
            leave_out: None,
            links: false,
        };
        let root = disk
            .open_folder(&self.workspace)
            .map_err(IoError::at("read", &self.workspace))?;
        let selected = files::select(&*root, selection).map_err(IoError::at("read", &self.workspace))?;
        let (mut manifest, mut moved) = (self.read(disk)?, Moved::default());
        // Drops entries whose file never left its place because of a crash. The file is selected again if it is still to be archived.
        manifest
            .entries
            .retain(|entry| exists(&*root, &entry.archive_path));
        let existing = manifest.entries.len();
        for path in selected {
            match entry(&*root, request, &path) {
                Ok(entry) => manifest.entries.push(entry),
                Err(error) => moved.failed.push((path.display().to_string(), error.to_string())),
            }
        }
        if manifest.entries.len() == existing {
            return Ok(moved);
        }
        self.write(disk, &manifest)?;
        let new = manifest.entries.split_off(existing);
        for entry in new {
            match self.move_file(disk, &*root, &entry.source_path, &entry.archive_path) {
                Ok(()) => {
                    moved.paths.push(entry.source_path.clone());
                    manifest.entries.push(entry);
                }
                Err(error) => moved.failed.push((entry.source_path, error.to_string())),
            }
        }
        // An error would hide the moved files from the caller. The next move drops the entries of files that stayed.
        if !moved.failed.is_empty()
            && let Err(error) = self.write(disk, &manifest)
        {
            tracing::warn!(%error, "the manifest of the archive still names files that were not moved");
        }
        Ok(moved)
    }

    /// Whether the archive has no files.
    ///
    /// # Errors
    ///
    /// Returns [`ArchiveError`] when the manifest cannot be read.
    pub fn is_empty(&self, disk: &dyn Disk) -> Result<bool, ArchiveError> {
        Ok(self.read(disk)?.entries.is_empty())
    }

    /// Returns the entries of files that a rollback moves back: those archived after one of the `undone` checkpoints, and orphans. Files
    /// of all other checkpoints stay in the archive.
    ///
    /// # Errors
    ///
    /// Returns [`ArchiveError`] when the manifest cannot be read.
    pub fn undone(
        &self,
        disk: &dyn Disk,
        undone: &BTreeSet<CheckpointSha>,
    ) -> Result<Vec<ArchiveEntry>, ArchiveError> {
        let is_undone = |entry: &ArchiveEntry| {
            entry.checkpoint_sha == ORPHAN || undone.contains(&CheckpointSha::new(&*entry.checkpoint_sha))
        };
        let entries = self.read(disk)?.entries.into_iter();
        Ok(entries.filter(is_undone).collect())
    }

    /// Moves the files of `entries` back, and removes the moved ones from the manifest. The newest comes first, so it gets the place if several files had
    /// the same one. A file whose place is taken, or that cannot be moved, stays in the archive. Returns the files whose move was tried.
    ///
    /// # Errors
    ///
    /// Returns [`ArchiveError`] when nothing could be moved at all, or the manifest could not be written after the move.
    pub fn restore(
        &self,
        disk: &dyn Disk,
        entries: &[ArchiveEntry],
    ) -> Result<Vec<RestoredEntry>, ArchiveError> {
        let root = disk
            .open_folder(&self.workspace)
            .map_err(IoError::at("read", &self.workspace))?;
        let mut manifest = self.read(disk)?;
        let mut results = Vec::new();
        for entry in entries.iter().rev() {
            let result = match is_place_taken(&*root, entry) {
                Ok(true) => None,
                Ok(false) => Some(self.move_file(disk, &*root, &entry.archive_path, &entry.source_path)),
                Err(error) => Some(Err(error)),
            };
            let is_in_archive = exists(&*root, &entry.archive_path);
            if !is_in_archive {
                manifest.entries.retain(|known| known != entry);
            }
            if let Some(result) = result {
                results.push((entry.clone(), result.map_err(|error| error.to_string())));
            }
        }
        self.write(disk, &manifest)?;
        Ok(results)
    }

    /// Moves a file within the workspace, never over an existing entry and through no link.
    fn move_file(&self, disk: &dyn Disk, root: &dyn Folder, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (workspace_path(from)?, workspace_path(to)?);
        // Refuses a link on the path to the file.
        root.find(from)?;
        // Makes the folders around the target, and refuses an existing target.
        root.make(to, |folder, name| match folder.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        })?;
        disk.rename(&self.workspace.join(from), &self.workspace.join(to))?;
        // Empty folders that cannot be removed are no failure of the move.
        let _ = files::remove_empty_folders(root, from);
        Ok(())
    }

    fn read(&self, disk: &dyn Disk) -> Result<ArchiveManifest, ArchiveError> {
        let read = read_if_present(disk, &self.manifest, MAX_MANIFEST_BYTES);
        match read.map_err(IoError::at("read", &self.manifest))? {
            None => Ok(ArchiveManifest {
                version: VERSION.to_owned(),
                entries: Vec::new(),
                extra: Map::new(),
            }),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|source| ArchiveError::Manifest {
                path: self.manifest.clone(),
                source,
            }),
        }
    }

    fn write(&self, disk: &dyn Disk, manifest: &ArchiveManifest) -> Result<(), IoError> {
        let text = serde_json::to_vec_pretty(manifest).expect("a manifest is text and numbers");
        replace(disk, &self.manifest, &text).map_err(IoError::at("write", &self.manifest))
    }
}

/// Returns the entry for a file, with a free path in the archive.
fn entry(root: &dyn Folder, request: &ArchiveRequest, path: &Path) -> io::Result<ArchiveEntry> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidFilename, "the name is not UTF-8"))
    };
    let preferred = Path::new(ARCHIVE).join(&request.folder).join(path);
    let free = files::free_name(root, &preferred, request.at.as_millis())?;
    let sha = request.checkpoint.as_ref().map_or(ORPHAN, CheckpointSha::as_str);
    Ok(ArchiveEntry {
        source_path: text(path)?,
        archive_path: text(&free)?,
        codon_id: request.codon_id.clone(),
        loop_context: request.loop_context.clone(),
        checkpoint_sha: sha.to_owned(),
        timestamp: request.at,
        extra: Map::new(),
    })
}

/// Whether the former place of the file is taken: by a file of the restored checkpoint, or by the file itself, if it never
/// left.
fn is_place_taken(root: &dyn Folder, entry: &ArchiveEntry) -> io::Result<bool> {
    let source = workspace_path(&entry.source_path)?;
    Ok(root.lookup(source)?.is_some())
}

/// Whether an entry may exist; an entry that cannot be examined counts as existing.
fn exists(root: &dyn Folder, path: &str) -> bool {
    root.lookup(Path::new(path)).map_or(true, |found| found.is_some())
}

/// Checks a path of the manifest, which others may have edited: the path must stay in the workspace, and of the folders of git and
/// hankweave it may lead into the archive alone (X6).
fn workspace_path(path: &str) -> io::Result<&Path> {
    let refused = || {
        io::Error::new(
            io::ErrorKind::InvalidFilename,
            "the path leads out of the workspace",
        )
    };
    if path.starts_with('/') || path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(refused());
    }
    let mut names = path.split('/').enumerate();
    let is_ours = names
        .any(|(depth, name)| is_excluded(name.as_bytes(), depth == 0) && !(depth == 0 && name == ARCHIVE));
    match is_ours {
        true => Err(refused()),
        false => Ok(Path::new(path)),
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
        archive: Archive,
    }

    impl Stage {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("build/deep")).unwrap();
            fs::create_dir(folder.path().join(".hankweave")).unwrap();
            fs::write(folder.path().join("build/deep/a.o"), "object").unwrap();
            fs::write(folder.path().join("notes.md"), "notes").unwrap();
            let archive = Archive {
                workspace: folder.path().to_owned(),
                manifest: folder.path().join(".hankweave/archive-manifest.json"),
            };
            Self { folder, archive }
        }

        fn request(sha: &str) -> ArchiveRequest {
            ArchiveRequest {
                patterns: vec!["build".to_owned(), "*.md".to_owned()],
                folder: "draft-1".to_owned(),
                codon_id: "draft#1".to_owned(),
                loop_context: None,
                checkpoint: Some(CheckpointSha::new(sha)),
                at: Timestamp::from_millis(17),
            }
        }

        fn put(&self, sha: &str) -> Moved {
            self.archive.put(&RealDisk, &Self::request(sha)).unwrap()
        }

        fn take_back(&self, shas: &[&str]) -> Vec<RestoredEntry> {
            let undone = shas.iter().map(|sha| CheckpointSha::new(*sha)).collect();
            let entries = self.archive.undone(&RealDisk, &undone).unwrap();
            self.archive.restore(&RealDisk, &entries).unwrap()
        }

        fn has(&self, path: &str) -> bool {
            self.folder.path().join(path).symlink_metadata().is_ok()
        }

        fn entries(&self) -> usize {
            self.archive.read(&RealDisk).unwrap().entries.len()
        }
    }

    // Folders that became empty are removed.
    // covers: HANK-27, RUN-21
    #[test]
    fn files_move_away_and_back_with_their_paths() {
        let stage = Stage::new();
        let moved = stage.put("abc");
        assert_eq!(
            (moved.paths, moved.failed),
            (vec!["build/deep/a.o".into(), "notes.md".into()], vec![])
        );
        assert!(
            stage.has("rigArchive/draft-1/build/deep/a.o") && !stage.has("build") && !stage.has("notes.md")
        );
        assert_eq!(stage.entries(), 2);
        assert!(stage.take_back(&["other"]).is_empty());
        assert_eq!(stage.take_back(&["abc"]).len(), 2);
        assert_eq!(
            fs::read_to_string(stage.folder.path().join("build/deep/a.o")).unwrap(),
            "object"
        );
        assert!(!stage.has("rigArchive") && stage.entries() == 0);
    }

    // covers: HANK-27
    #[test]
    fn what_is_archived_twice_is_there_twice_and_nothing_is_overwritten_on_the_way_back() {
        let stage = Stage::new();
        stage.put("first");
        fs::write(stage.folder.path().join("notes.md"), "newer").unwrap();
        stage.put("second");
        assert!(stage.has("rigArchive/draft-1/notes_1_17.md"));
        fs::write(stage.folder.path().join("notes.md"), "restored").unwrap();
        let taken = stage.take_back(&["first", "second"]);
        assert_eq!(taken.len(), 1, "{taken:?}");
        assert_eq!(
            fs::read_to_string(stage.folder.path().join("notes.md")).unwrap(),
            "restored"
        );
        assert_eq!(stage.entries(), 2);
    }

    // covers: X6
    #[test]
    fn a_crafted_manifest_moves_nothing() {
        let stage = Stage::new();
        symlink("/tmp", stage.folder.path().join("elsewhere")).unwrap();
        for (source, archived) in [
            ("../x", "notes.md"),
            ("/tmp/x", "notes.md"),
            (".git/hooks/post-commit", "notes.md"),
            (".hankweave/state.json", "notes.md"),
            ("elsewhere/x", "notes.md"),
            ("x", ".hankweave/archive-manifest.json"),
        ] {
            let entry = serde_json::json!({"sourcePath": source, "archivePath": archived, "codonId": "a",
                "checkpointSha": "orphan", "timestamp": "2025-01-04T12:00:00.000Z"});
            let manifest = serde_json::json!({"version": "1.0.0", "entries": [entry]});
            fs::write(&stage.archive.manifest, manifest.to_string()).unwrap();
            let taken = stage.take_back(&[]);
            assert!(
                taken.iter().all(|(_, result)| result.is_err()),
                "{source}: {taken:?}"
            );
            assert!(stage.has("notes.md") && stage.has(".hankweave/archive-manifest.json"));
        }
        fs::write(&stage.archive.manifest, "{").unwrap();
        let damaged = stage.archive.put(&RealDisk, &Stage::request("abc"));
        assert!(matches!(damaged, Err(ArchiveError::Manifest { .. })));
        assert!(stage.has("notes.md"));
    }

    // covers: X11
    #[test]
    fn an_archive_that_is_a_link_is_not_followed() {
        let stage = Stage::new();
        symlink("/tmp", stage.folder.path().join("rigArchive")).unwrap();
        let moved = stage.put("abc");
        assert_eq!((moved.paths.len(), moved.failed.len()), (0, 2), "{moved:?}");
        assert!(stage.has("notes.md"));
    }

    // covers: F1
    #[test]
    fn after_a_crash_at_any_step_every_file_is_in_one_place_and_finds_its_way_back() {
        for at in 0..40 {
            let stage = Stage::new();
            let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(at));
            drop(stage.archive.put(&disk, &Stage::request("abc")));
            for (place, archived) in [
                ("notes.md", "rigArchive/draft-1/notes.md"),
                ("build/deep/a.o", "rigArchive/draft-1/build/deep/a.o"),
            ] {
                assert!(stage.has(place) != stage.has(archived), "crash at {at}: {place}");
            }
            stage.take_back(&["abc"]);
            assert!(
                stage.has("notes.md") && stage.has("build/deep/a.o") && stage.entries() == 0,
                "crash at {at}"
            );
            if !disk.crashed() {
                return;
            }
        }
        panic!("archiving two files has fewer steps");
    }

    /// One file cannot be moved, and another operation fails, such as the last write of the manifest.
    // covers: HANK-27, F3
    #[test]
    fn after_any_error_every_moved_file_is_reported() {
        for at in 0..40 {
            let stage = Stage::new();
            let archived = stage.folder.path().join("rigArchive/draft-1");
            fs::create_dir_all(&archived).unwrap();
            fs::write(archived.join("build"), "in the place of the folder").unwrap();
            let fault = Fault::FailAt(at, io::ErrorKind::StorageFull);
            let disk = FaultyDisk::new(Arc::new(RealDisk), fault);
            let put = stage.archive.put(&disk, &Stage::request("abc"));
            let reported = put.map_or(0, |moved| moved.paths.len());
            let moved = usize::from(stage.has("rigArchive/draft-1/notes.md"));
            assert_eq!(reported, moved, "error at {at}");
            stage.take_back(&["abc"]);
            assert!(
                stage.has("notes.md") && stage.has("build/deep/a.o") && stage.entries() == 0,
                "error at {at}"
            );
            if disk.operations() <= at {
                assert_eq!(moved, 1);
                return;
            }
        }
        panic!("archiving one file has fewer steps");
    }
}
