//! Pull: updates a directory from its remote.

use std::collections::BTreeSet;
use std::sync::Arc;

use hankweave_runtime::ExecutionDir;
use hankweave_runtime::arrival;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{DirLockGuard, Disk, IoError};

use super::FetchedRun;
use super::arrived_record::{FetchedRecord, new_repository};
use super::finish::InstallStep;
use crate::book::{self, RemoteTracking, SEEN, remembered};
use crate::error::RemoteError;
use crate::execution::RemoteExecution;
use crate::fetch::{fetch, head};
use crate::git::Git;
use crate::limits::ArrivalLimits;
use crate::push::{LocalSide, PushRequest, WrittenRecord};
use crate::record;
use crate::url::shown;
use crate::verify;

/// Root of the references that keep replaced commits, each followed by the name of its commit.
const BEFORE: &str = "refs/hankweave/before/";

/// The branches of safety checkpoints.
const SAFETY: &str = "refs/heads/recovery/";

/// Options of a pull.
#[derive(Debug, Clone, Default)]
pub struct PullRequest {
    /// Remote to use in place of the remembered one.
    pub url: Option<String>,
    /// Name of the history to use in place of the remembered one.
    pub execution: Option<RemoteExecution>,
    /// Fencing token of the task, 0 for none. A record under a greater token belongs to a later owner.
    pub token: u64,
    /// Whether the remote's record replaces ours when both sides continued. Ours is pushed first, under `kept/`.
    pub replace: bool,
}

/// Updates a directory from its remote.
///
/// # Errors
///
/// [`RemoteError`]. The directory is unchanged then, with one exception: some files of the new checkpoint could not be restored.
pub async fn pull(world: &World, dir: &ExecutionDir, order: &PullRequest) -> Result<FetchedRun, RemoteError> {
    let (own, place) = (world.clone(), dir.clone());
    let held = move || {
        let locks = hold(&*own.disk, &place)?;
        // An earlier pull may have been killed when its record already counted: what is left of it is no rubbish.
        arrival::finish(&own, &place)?;
        Ok::<_, RemoteError>(locks)
    };
    let _locks = world.blocking.run(held).await?;
    let push = PushRequest {
        url: order.url.clone(),
        execution: order.execution.clone(),
        token: order.token,
        replace: false,
    };
    let local = LocalSide::read_local(world, dir, &push).await?;
    let there = there(&local).await?;
    if local.base.as_ref().is_some_and(|base| base.commit == there) {
        return Ok(nothing_new(&local, there));
    }
    let limits = ArrivalLimits::of(world)?;
    let record = fetch(&local.git, &local.book.url, &local.book.execution, &limits).await?;
    let ours = local.write().await?;
    refuse_later_owner(&local, &ours, &record, order.token).await?;
    if local.is_ancestor(&record, &ours.commit).await? {
        return Ok(nothing_new(&local, record));
    }
    let kept = give_way(&local, &ours, &record, order.replace).await?;
    let arrived = take_over(world, dir, local, record, (order.replace, limits)).await?;
    Ok(FetchedRun { kept, ..arrived })
}

/// Returns the record that the remote has now.
async fn there(local: &LocalSide<'_>) -> Result<String, RemoteError> {
    let RemoteTracking { url, execution, .. } = &local.book;
    let there = head(&local.git, url, execution).await?;
    there.ok_or_else(|| RemoteError::NoSuchRun {
        url: shown(url),
        wanted: execution.to_string(),
        known: Vec::new(),
    })
}

/// Returns an error if the remote's record has a greater token: it belongs to a later owner of the task.
async fn refuse_later_owner(
    local: &LocalSide<'_>,
    ours: &WrittenRecord,
    record: &str,
    token: u64,
) -> Result<(), RemoteError> {
    let theirs = record::manifest(&local.git, record).await?.token;
    if token == 0 || theirs <= token {
        return Ok(());
    }
    Err(RemoteError::Superseded {
        ours: token,
        theirs,
        kept: local.keep(ours).await,
    })
}

/// Pushes local work that the remote lacks under `kept/`, and returns its reference. Returns an error unless that succeeded and `replace` is set.
async fn give_way(
    local: &LocalSide<'_>,
    ours: &WrittenRecord,
    record: &str,
    replace: bool,
) -> Result<Option<String>, RemoteError> {
    if ours.is_base && local.is_ancestor(&ours.commit, record).await? {
        return Ok(None);
    }
    let kept = local.keep(ours).await;
    match kept.is_some() && replace {
        true => Ok(kept),
        false => Err(RemoteError::Diverged {
            ours: ours.commit.clone(),
            theirs: record.to_owned(),
            kept,
        }),
    }
}

/// Replaces the existing record and files with those that arrived.
async fn take_over(
    world: &World,
    dir: &ExecutionDir,
    local: LocalSide<'_>,
    record: String,
    (replace, limits): (bool, ArrivalLimits),
) -> Result<FetchedRun, RemoteError> {
    let left = local.draft.manifest.checkpoint.clone();
    let temporary = prepare(world, dir).await?;
    let git = new_repository(world, &temporary, dir.root()).await?;
    copy_checkpoints(&git, &local, &record).await?;
    let RemoteTracking { execution, url, .. } = local.book;
    let came = FetchedRecord::read_record(git, record, execution, &url, limits).await?;
    let base = local.base.as_ref().filter(|_| !replace);
    verify::shape(&came.manifest, &came.pieces, base)?;
    came.prepare(world, &temporary, dir.root()).await?;
    let work = InstallStep {
        world: world.clone(),
        final_dir: dir.clone(),
        hank_root: dir.root().to_owned(),
        came,
    };
    world
        .blocking
        .run(move || {
            let arrived = work.install(&temporary)?;
            work.announce(&temporary, left)?;
            Ok(arrived)
        })
        .await
}

/// Copies the record, and the commits that it replaces, into the new repository.
async fn copy_checkpoints(git: &Git, local: &LocalSide<'_>, record: &str) -> Result<(), RemoteError> {
    const ACTION: &str = "copy the checkpoints";
    let mut references = vec![format!("+{SEEN}:{SEEN}")];
    references.extend(give_way_references(local, record).await?);
    let references: Vec<&str> = references.iter().map(String::as_str).collect();
    let old = local.checkpoints();
    let copied = git.fetch(ACTION, &old.to_string_lossy(), &references).await?;
    copied.or_refused(ACTION).map(drop)
}

/// Returns references to all commits that the record does not lead to. Each stays reachable under its own name and not under the name of a branch of
/// the record: branch names return with every pull, and git refuses to fetch two references into one. Safety checkpoints keep their names, so that
/// only the newest ones are kept.
async fn give_way_references(local: &LocalSide<'_>, record: &str) -> Result<Vec<String>, RemoteError> {
    let unmerged = format!("--no-merged={record}");
    let format = "--format=%(objectname) %(refname)";
    let arguments = ["for-each-ref", &unmerged, format, "refs/heads", "refs/hankweave"];
    let listed = local.git.run("list the checkpoints", &arguments).await?;
    let mut seen = BTreeSet::new();
    let references = listed.lines().filter_map(|line| line.split_once(' '));
    let references = references.filter(|(commit, name)| name.starts_with(SAFETY) || seen.insert(*commit));
    Ok(references
        .map(|(commit, name)| match name.starts_with(SAFETY) {
            true => format!("+{name}:{name}"),
            false => format!("+{name}:{BEFORE}{commit}"),
        })
        .collect())
}

fn nothing_new(local: &LocalSide<'_>, record: String) -> FetchedRun {
    FetchedRun {
        changed: false,
        url: local.book.url.clone(),
        execution: local.book.execution.clone(),
        record,
        checkpoint: local.draft.manifest.checkpoint.clone(),
        hank: None,
        left_behind: Vec::new(),
        different: Vec::new(),
        kept: None,
    }
}

/// Takes the locks of a pull, which exclude other pulls and runs.
fn hold(disk: &dyn Disk, dir: &ExecutionDir) -> Result<Vec<Arc<dyn DirLockGuard>>, RemoteError> {
    if remembered(disk, dir).is_err_and(|error| matches!(error, RemoteError::Io(_))) {
        return Err(RemoteError::NothingRecorded);
    }
    let run = book::keep_runs_out(disk, dir)?;
    Ok(run.into_iter().chain(book::take(disk, dir)?).collect())
}

/// Removes what an earlier pull left in the staging folder, and returns an empty directory there for the record.
async fn prepare(world: &World, dir: &ExecutionDir) -> Result<ExecutionDir, RemoteError> {
    let (own, place) = (world.clone(), dir.clone());
    let made = move || {
        arrival::discard(&*own.disk, &place)?;
        let temporary = arrival::place(&place);
        let made = own.disk.make_private_dirs(&temporary.state_dir());
        made.map_err(IoError::at("make", &temporary.state_dir()))?;
        Ok::<_, RemoteError>(temporary)
    };
    world.blocking.run(made).await
}
