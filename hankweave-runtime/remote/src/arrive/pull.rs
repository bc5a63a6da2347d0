//! Pull: updates a directory from its remote. The order: lock; compare the remote's record with ours; keep ours on the remote
//! if it is replaced; prepare and verify the new record in a staging folder; install its sessions and its hank; announce it, so
//! that the next start finishes an interrupted pull; move it to its final paths.

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

/// Prefix of the local references that keep commits of a replaced record; the name of the commit follows.
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
pub async fn pull(
    world: &World,
    dir: &ExecutionDir,
    request: &PullRequest,
) -> Result<FetchedRun, RemoteError> {
    let (own, place) = (world.clone(), dir.clone());
    let locked = move || {
        let locks = take_locks(&*own.disk, &place)?;
        // An earlier pull may have been killed after it announced its record, whose rest must then be installed.
        arrival::finish(&own, &place)?;
        Ok::<_, RemoteError>(locks)
    };
    let _locks = world.blocking.run(locked).await?;
    let push = PushRequest {
        url: request.url.clone(),
        execution: request.execution.clone(),
        token: request.token,
        replace: false,
    };
    let local = LocalSide::read_local(world, dir, &push).await?;
    let remote_head = remote_head(&local).await?;
    if local.base.as_ref().is_some_and(|base| base.commit == remote_head) {
        return Ok(nothing_new(&local, remote_head));
    }
    let limits = ArrivalLimits::of(world)?;
    let record = fetch(
        &local.git,
        &local.tracking.url,
        &local.tracking.execution,
        &limits,
    )
    .await?;
    let ours = local.write().await?;
    refuse_later_owner(&local, &ours, &record, request.token).await?;
    if local.is_ancestor(&record, &ours.commit).await? {
        return Ok(nothing_new(&local, record));
    }
    let kept = keep_ours(&local, &ours, &record, request.replace).await?;
    let arrived = take_over(world, dir, local, record, (request.replace, limits)).await?;
    Ok(FetchedRun { kept, ..arrived })
}

/// Returns the commit of the record that the remote has now.
async fn remote_head(local: &LocalSide<'_>) -> Result<String, RemoteError> {
    let RemoteTracking { url, execution, .. } = &local.tracking;
    let remote_head = head(&local.git, url, execution).await?;
    remote_head.ok_or_else(|| RemoteError::NoSuchRun {
        url: shown(url),
        wanted: execution.to_string(),
        known: Vec::new(),
    })
}

/// Returns an error if the remote's record has a greater token: it belongs to a later owner of the task. Without a token, as for a pull
/// by hand, any record may be pulled.
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

/// Pushes our record under `kept/` if the remote's does not contain it, and returns its reference. Fails if our record could
/// not be pushed, or if `replace` is not set.
async fn keep_ours(
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

/// Replaces the existing record and files with those of the fetched `record`.
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
    let RemoteTracking { execution, url, .. } = local.tracking;
    let fetched = FetchedRecord::read_record(git, record, execution, &url, limits).await?;
    // The remote's record need not follow ours if it may replace ours.
    let base = local.base.as_ref().filter(|_| !replace);
    verify::shape(&fetched.manifest, &fetched.pieces, base)?;
    fetched.prepare(world, &temporary, dir.root()).await?;
    let work = InstallStep {
        world: world.clone(),
        final_dir: dir.clone(),
        hank_root: dir.root().to_owned(),
        fetched,
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
    references.extend(references_to_replaced(local, record).await?);
    let references: Vec<&str> = references.iter().map(String::as_str).collect();
    let old = local.checkpoints();
    let copied = git.fetch(ACTION, &old.to_string_lossy(), &references).await?;
    copied.or_refused(ACTION).map(drop)
}

/// Returns what git has to fetch so that all commits which `record` does not contain stay reachable. Each gets a reference
/// named after the commit, not the name of its branch: branch names return with every pull, and git refuses to fetch two
/// references into one. Safety checkpoints keep their names, so that only the newest ones are kept.
async fn references_to_replaced(local: &LocalSide<'_>, record: &str) -> Result<Vec<String>, RemoteError> {
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
        url: local.tracking.url.clone(),
        execution: local.tracking.execution.clone(),
        record,
        checkpoint: local.draft.manifest.checkpoint.clone(),
        hank: None,
        left_behind: Vec::new(),
        different: Vec::new(),
        kept: None,
    }
}

/// Takes the locks of a pull, which exclude other pulls and runs.
fn take_locks(disk: &dyn Disk, dir: &ExecutionDir) -> Result<Vec<Arc<dyn DirLockGuard>>, RemoteError> {
    if let Err(unread @ RemoteError::Io(_)) = remembered(disk, dir) {
        return Err(unread);
    }
    let run_lock = book::keep_runs_out(disk, dir)?;
    let remote_lock = book::lock(disk, dir)?;
    Ok(run_lock.into_iter().chain(remote_lock).collect())
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

#[cfg(test)]
mod tests {
    use hankweave_runtime::world::disk::RealDisk;

    use super::*;

    #[test]
    fn a_note_about_the_remote_that_cannot_be_read_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ExecutionDir::new(folder.path().to_owned());
        let nothing = take_locks(&RealDisk, &dir).unwrap_err();
        assert!(matches!(nothing, RemoteError::NothingRecorded), "{nothing}");
        std::fs::create_dir_all(dir.state_dir().join("remote.json")).unwrap();
        let unread = take_locks(&RealDisk, &dir).unwrap_err();
        assert!(unread.to_string().contains("remote.json"), "{unread}");
    }
}
