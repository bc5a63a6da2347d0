//! What came from the remote, in a repository and a directory that are not in use yet.

use std::path::{Path, PathBuf};

use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{GitCheckpoints, MAX_FILE_BYTES, OpenRequest};
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::IoError;

use crate::book::Book;
use crate::error::RemoteError;
use crate::execution::Execution;
use crate::fetch::SEEN;
use crate::git::Git;
use crate::manifest::{Manifest, STATE};
use crate::record::{self, Pieces};
use crate::unpack::unpack;
use crate::verify;

/// An empty repository for checkpoints in this directory, of the files in `workspace`.
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

pub(super) fn open_store(
    world: &World,
    dir: &ExecutionDir,
    workspace: &Path,
) -> Result<GitCheckpoints, RemoteError> {
    let request = OpenRequest {
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
pub(super) struct Came {
    pub(super) git: Git,
    pub(super) record: String,
    pub(super) manifest: Manifest,
    pub(super) pieces: Pieces,
    pub(super) book: Book,
}

impl Came {
    pub(super) async fn look(
        git: Git,
        record: String,
        execution: Execution,
        url: &str,
    ) -> Result<Self, RemoteError> {
        let manifest = record::manifest(&git, &record).await?;
        if manifest.execution != execution {
            return Err(RemoteError::corrupt(format!(
                "it is that of {}",
                manifest.execution
            )));
        }
        let pieces = record::pieces(&git, &record).await?;
        let book = Book {
            url: url.to_owned(),
            execution,
            head: Some(record.clone()),
        };
        Ok(Self {
            git,
            record,
            manifest,
            pieces,
            book,
        })
    }

    /// Puts its branches and its files beneath a directory that is not in use yet, and verifies them there.
    pub(super) async fn prepare(&self, world: &World, temporary: &ExecutionDir) -> Result<(), RemoteError> {
        verify::shape(&self.manifest, &self.pieces, None)?;
        let mut orders = format!("update {SEEN} {}\n", self.record);
        for (branch, tip) in &self.manifest.branches {
            orders.push_str(&format!("update refs/heads/{branch} {tip}\n"));
        }
        let arguments = ["update-ref", "--stdin"];
        let updated = self
            .git
            .with_input("name the checkpoints", &arguments, orders.into_bytes());
        let updated = updated.await?;
        if !updated.exit.is_success() {
            return Err(RemoteError::corrupt(updated.said));
        }
        unpack(world, &self.git, &self.manifest, &self.pieces, &|file| {
            goes_to(temporary, file)
        })
        .await?;
        let (own, place, manifest) = (world.clone(), temporary.clone(), self.manifest.clone());
        world
            .blocking
            .run(move || verify::content(&own, &place, &manifest))
            .await
    }
}

/// Where a file of a record lies at first.
fn goes_to(temporary: &ExecutionDir, file: &str) -> PathBuf {
    match file.split_once('/') {
        Some((STATE, rest)) => temporary.state_dir().join(rest),
        // Until it is known where they belong.
        _ => staging(temporary).join(file),
    }
}

pub(super) fn staging(temporary: &ExecutionDir) -> PathBuf {
    temporary.state_dir().join("remote")
}
