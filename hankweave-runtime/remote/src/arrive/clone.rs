//! Clone: makes a new directory for a history of runs. It is prepared in a staging folder, which gets its name at the end.

use std::path::{Path, PathBuf};

use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{IoError, parent};

use super::FetchedRun;
use super::arrived_record::{FetchedRecord, new_repository};
use super::finish::InstallStep;
use crate::error::RemoteError;
use crate::fetch::{choose, fetch};
use crate::limits::ArrivalLimits;
use crate::place::{StagingDir, is_occupied};
use crate::url::check_url;

/// Source and target of a clone.
#[derive(Debug, Clone)]
pub struct CloneRequest {
    /// The remote.
    pub url: String,
    /// Name of the history on the remote, or its start or end; `None` for the only history.
    pub wanted: Option<String>,
    /// Target directory, absolute. It must be missing or empty.
    pub into: PathBuf,
}

/// Clones a history of runs into a new directory.
///
/// # Errors
///
/// [`RemoteError`]. After an error there is no directory.
pub async fn clone(world: &World, request: &CloneRequest) -> Result<FetchedRun, RemoteError> {
    check_url(&request.url)?;
    let limits = ArrivalLimits::of(world)?;
    let (own, into) = (world.clone(), request.into.clone());
    let occupied = move || is_occupied(&*own.disk, &into);
    if world.blocking.run(occupied).await? {
        let path = request.into.clone();
        return Err(RemoteError::Occupied { path });
    }
    let execution = choose(world, &request.url, request.wanted.as_deref()).await?;
    let (own, into) = (world.clone(), request.into.clone());
    let staging_dir = world
        .blocking
        .run(move || StagingDir::next_to(&own, &into))
        .await?;
    let temporary = ExecutionDir::new(staging_dir.path().to_owned());
    let git = new_repository(world, &temporary, temporary.root())
        .await?
        .without_questions()
        .await?;
    let record = fetch(&git, &request.url, &execution, &limits).await?;
    let fetched = FetchedRecord::read_record(git, record, execution, &request.url, limits).await?;
    fetched.prepare(world, &temporary, temporary.root()).await?;
    let work = InstallStep {
        world: world.clone(),
        final_dir: ExecutionDir::new(real_place(world, &request.into)?),
        hank_root: temporary.root().to_owned(),
        fetched,
    };
    world
        .blocking
        .run(move || {
            let arrived = work.install(&temporary)?;
            work.restore(&temporary)?;
            let place = work.final_dir.root().to_owned();
            staging_dir.finish(&place)?;
            Ok(arrived)
        })
        .await
}

/// Returns the absolute path, without links, that the new folder `into` will have.
fn real_place(world: &World, into: &Path) -> Result<PathBuf, RemoteError> {
    let folder = world.disk.real_path(parent(into));
    let folder = folder.map_err(IoError::at("find", parent(into)))?;
    Ok(folder.join(into.file_name().unwrap_or_default()))
}
