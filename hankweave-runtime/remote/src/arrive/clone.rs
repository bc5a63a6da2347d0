//! A new directory for a run.

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
    /// Name of the history there, or the start of the name; `None` for the only history.
    pub wanted: Option<String>,
    /// Target directory, absolute. It must be missing or empty.
    pub into: PathBuf,
}

/// Clones a history of runs into a new directory.
///
/// # Errors
///
/// [`RemoteError`]. After an error there is no directory.
pub async fn clone(world: &World, order: &CloneRequest) -> Result<FetchedRun, RemoteError> {
    check_url(&order.url)?;
    let limits = ArrivalLimits::of(world)?;
    let (own, into) = (world.clone(), order.into.clone());
    let occupied = move || is_occupied(&*own.disk, &into);
    if world.blocking.run(occupied).await? {
        let path = order.into.clone();
        return Err(RemoteError::Occupied { path });
    }
    let execution = choose(world, &order.url, order.wanted.as_deref()).await?;
    let (own, into) = (world.clone(), order.into.clone());
    let workshop = world
        .blocking
        .run(move || StagingDir::next_to(&own, &into))
        .await?;
    let temporary = ExecutionDir::new(workshop.path().to_owned());
    let git = new_repository(world, &temporary, temporary.root())
        .await?
        .without_questions()
        .await?;
    let record = fetch(&git, &order.url, &execution, &limits).await?;
    let came = FetchedRecord::read_record(git, record, execution, &order.url, limits).await?;
    came.prepare(world, &temporary, temporary.root()).await?;
    let work = InstallStep {
        world: world.clone(),
        final_dir: ExecutionDir::new(real_place(world, &order.into)?),
        hank_root: temporary.root().to_owned(),
        came,
    };
    world
        .blocking
        .run(move || {
            let arrived = work.install(&temporary)?;
            work.restore(&temporary)?;
            let place = work.final_dir.root().to_owned();
            workshop.finish(&place)?;
            Ok(arrived)
        })
        .await
}

/// Returns the absolute path that a folder will have.
fn real_place(world: &World, into: &Path) -> Result<PathBuf, RemoteError> {
    let folder = world.disk.real_path(parent(into));
    let folder = folder.map_err(IoError::at("find", parent(into)))?;
    Ok(folder.join(into.file_name().unwrap_or_default()))
}
