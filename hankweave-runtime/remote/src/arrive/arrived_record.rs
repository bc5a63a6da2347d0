//! Record fetched from the remote, in a repository and a directory that are not in use yet: first steps of a clone or pull.

use std::path::{Path, PathBuf};

use hankweave_core::hank::reserved::RepositoryShape;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{GitCheckpoints, MAX_FILE_BYTES, OpenStoreRequest};
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::IoError;

use crate::book::{RemoteTracking, SEEN};
use crate::error::RemoteError;
use crate::execution::RemoteExecution;
use crate::git::Git;
use crate::limits::ArrivalLimits;
use crate::manifest::{HANK, RecordManifest, STATE, is_of_a_record};
use crate::record::{self, Pieces};
use crate::sessions;
use crate::unpack::unpack;
use crate::verify;

/// Creates an empty checkpoint repository in this directory, for the files in `workspace`.
pub(super) async fn new_repository(
    world: &World,
    dir: &ExecutionDir,
    workspace: &Path,
) -> Result<Git, RemoteError> {
    let (own, place, workspace) = (world.clone(), dir.clone(), workspace.to_owned());
    let made = move || {
        let made = own.disk.make_private_dirs(&place.state_dir());
        made.map_err(IoError::at("make", &place.state_dir()))?;
        open_store(&own, &place, &workspace).map(drop)
    };
    world.blocking.run(made).await?;
    Git::new(world, &dir.checkpoints())
}

/// Opens the checkpoints in this directory, for the files in `workspace`.
pub(super) fn open_store(
    world: &World,
    dir: &ExecutionDir,
    workspace: &Path,
) -> Result<GitCheckpoints, RemoteError> {
    let request = OpenStoreRequest {
        repository: dir.checkpoints(),
        workspace: workspace.to_owned(),
        at: world.clock.now(),
        nonce: world.ids.nonce(),
        most_bytes: MAX_FILE_BYTES,
    };
    Ok(GitCheckpoints::open(&request)?.0)
}

/// A record that was fetched into a new repository.
#[derive(Debug)]
pub(super) struct FetchedRecord {
    pub(super) git: Git,
    /// Name of the record's commit.
    pub(super) record: String,
    pub(super) manifest: RecordManifest,
    pub(super) pieces: Pieces,
    pub(super) tracking: RemoteTracking,
    limits: ArrivalLimits,
}

impl FetchedRecord {
    /// Reads and checks the manifest and the list of pieces of the record.
    pub(super) async fn read_record(
        git: Git,
        record: String,
        execution: RemoteExecution,
        url: &str,
        limits: ArrivalLimits,
    ) -> Result<Self, RemoteError> {
        limits.check_objects(&git).await?;
        let manifest = record::manifest(&git, &record).await?;
        limits.check_manifest(&manifest)?;
        sessions::check(&manifest)?;
        if manifest.execution != execution {
            return Err(RemoteError::corrupt(format!(
                "it is that of {}",
                manifest.execution
            )));
        }
        let pieces = record::pieces(&git, &record, &limits).await?;
        let tracking = RemoteTracking {
            url: url.to_owned(),
            execution,
            head: Some(record.clone()),
            arrived: true,
            arrived_at: None,
        };
        Ok(Self {
            git,
            record,
            manifest,
            pieces,
            tracking,
            limits,
        })
    }

    /// Writes the branches and files of the record into `temporary`, which is not in use yet, and verifies them there.
    /// `workspace` is the folder for the files of the hank and the checkpoint.
    pub(super) async fn prepare(
        &self,
        world: &World,
        temporary: &ExecutionDir,
        workspace: &Path,
    ) -> Result<(), RemoteError> {
        verify::shape(&self.manifest, &self.pieces, None)?;
        self.refuse_repository(world, workspace).await?;
        let mut updates = format!("update {SEEN} {}\n", self.record);
        for (branch, tip) in &self.manifest.branches {
            updates.push_str(&format!("update refs/heads/{branch} {tip}\n"));
        }
        let arguments = ["update-ref", "--stdin"];
        let updated = self
            .git
            .with_input("name the checkpoints", &arguments, updates.into_bytes());
        let updated = updated.await?;
        if !updated.exit.is_success() {
            return Err(RemoteError::corrupt(updated.said));
        }
        unpack(world, &self.git, &self.manifest, &self.pieces, &|file| {
            destination(temporary, file)
        })
        .await?;
        let (own, place) = (world.clone(), temporary.clone());
        let (manifest, limits) = (self.manifest.clone(), self.limits);
        world
            .blocking
            .run(move || verify::content(&own, &place, &manifest, &limits))
            .await
    }

    /// Fails if the files of the hank and of the checkpoint, together with the existing ones, would turn `workspace` into a
    /// git repository: git, started in it, would follow the settings of that repository (X13).
    async fn refuse_repository(&self, world: &World, workspace: &Path) -> Result<(), RemoteError> {
        let mut shape = RepositoryShape::default();
        let hank = self
            .manifest
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(HANK));
        for path in hank {
            let name = path.trim_start_matches('/').split('/').next();
            shape.add(name.unwrap_or_default().as_bytes());
        }
        if let Some(checkpoint) = &self.manifest.checkpoint {
            let arguments = ["ls-tree", "-z", "--name-only", "--full-tree", checkpoint.as_str()];
            let mut each = |name: &[u8]| {
                shape.add(name);
                Ok(())
            };
            self.git
                .each_line("look at the checkpoint", &arguments, 0, 64 << 10, &mut each)
                .await?;
        }
        if shape == RepositoryShape::default() {
            return Ok(());
        }
        let (disk, workspace) = (world.disk.clone(), workspace.to_owned());
        let existing = move || {
            let names = RepositoryShape::NAMES.into_iter();
            names
                .filter(|name| disk.metadata(&workspace.join(name)).is_ok())
                .collect::<Vec<_>>()
        };
        let existing = world.blocking.run(existing).await;
        let mut before = RepositoryShape::default();
        for name in existing {
            before.add(name.as_bytes());
            shape.add(name.as_bytes());
        }
        match shape.is_repository() && !before.is_repository() {
            true => Err(RemoteError::corrupt(
                "its files would make a git repository of the directory",
            )),
            false => Ok(()),
        }
    }
}

/// Returns the path to which a file of a record is unpacked; `None` for a file that only earlier versions put into a record.
fn destination(temporary: &ExecutionDir, file: &str) -> Option<PathBuf> {
    match file.split_once('/') {
        Some((STATE, rest)) => is_of_a_record(rest).then(|| temporary.state_dir().join(rest)),
        // Files outside of the state directory are staged, until `InstallStep` puts them at their final paths.
        _ => Some(staging(temporary).join(file)),
    }
}

/// Folder for the files of a record that are not in the state directory: those of hank and sessions.
pub(super) fn staging(temporary: &ExecutionDir) -> PathBuf {
    temporary.state_dir().join("remote")
}
