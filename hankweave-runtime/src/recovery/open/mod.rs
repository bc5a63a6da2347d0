//! Opens an execution directory for a hank ([`open`]): preflight, then `possess` (lock, records, crashes), then the output directory and the data.

mod error;
mod notices;
mod output;
mod possess;
mod possession;
mod records;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::hank::{CodonConfig, Hank, Problem, redirecting_variables};

use self::output::prepare_output;
use self::possess::possess;
use super::own_files::own_files;
use super::rigs::{remember, rig_copies};
use crate::checkpoint::CheckpointStore;
use crate::data::{Data, DataPaths};
use crate::driver::{DriverSet, ProcessHost, overridden_sandboxes};
use crate::hank_files::LoadedHank;
use crate::instance_lock::InstanceLock;
use crate::options::RunOptions;
use crate::preflight;
use crate::world::World;

pub use self::error::OpenExecutionError;
pub(crate) use self::possess::possess_without_hank;
pub(crate) use self::possession::LockedExecution;

/// Default for the maximum time of the data's fingerprint (RUN-8).
const FINGERPRINT_TIME: Duration = Duration::from_secs(5);

/// An open execution directory, and the hank to run in it.
#[derive(Debug)]
pub(crate) struct OpenedExecution {
    pub(crate) possession: LockedExecution,
    pub(crate) loaded: LoadedHank,
    pub(crate) hank: Hank,
    pub(crate) options: RunOptions,
    pub(crate) drivers: DriverSet,
    /// Patterns that keep the hank's own files out of checkpoints.
    pub(crate) own_files: Vec<String>,
    /// Whether a new plan made from the hank would differ from the recorded plan.
    pub(crate) can_be_replanned: bool,
}

impl OpenedExecution {
    /// Returns the patterns of a checkpoint: the declared ones, or everything if none are declared, without the hank's own files.
    pub(crate) fn patterns(&self, declared: Vec<String>) -> Vec<String> {
        without_own_files(declared, &self.own_files)
    }
}

/// Adds patterns that exclude the hank's own files. An empty list means every file, so it needs an explicit pattern once a file is excluded.
pub(crate) fn without_own_files(mut patterns: Vec<String>, own_files: &[String]) -> Vec<String> {
    if patterns.is_empty() && !own_files.is_empty() {
        patterns.push("**/*".to_owned());
    }
    patterns.extend_from_slice(own_files);
    patterns
}

/// Directory to open, and how.
#[derive(Debug)]
pub(crate) struct OpenExecutionRequest {
    pub(crate) hank: LoadedHank,
    pub(crate) dir: PathBuf,
    pub(crate) options: RunOptions,
    pub(crate) drivers: DriverSet,
    /// Checkpoint store to use instead of a git repository in the directory.
    pub(crate) checkpoints: Option<Arc<dyn CheckpointStore>>,
    pub(crate) world: World,
}

/// Opens the directory. The lock is returned separately, because the caller keeps and releases it.
pub(crate) async fn open(
    request: OpenExecutionRequest,
) -> Result<(OpenedExecution, InstanceLock), OpenExecutionError> {
    let OpenExecutionRequest {
        hank: loaded,
        dir,
        mut options,
        drivers,
        checkpoints,
        world,
    } = request;
    let hank =
        preflight::check(&loaded, &options, &drivers, &world).map_err(OpenExecutionError::Preflight)?;
    let find = |named: &PathBuf| Data::find(&*world.disk, named, &dir).map_err(OpenExecutionError::Data);
    let data = options.data.as_ref().map(find).transpose()?;
    let (mut possession, lock) = possess(world, &dir, &options, checkpoints, Some(&hank)).await?;
    match separate_rehearsals(&possession, &options) {
        Ok(must_start_fresh) => options.fresh |= must_start_fresh,
        Err(error) => {
            possession.give_back(lock).await;
            return Err(error);
        }
    }
    possession.notices.extend(redirections(&hank));
    possession.notices.extend(started_programs(&hank));
    let overridden = overridden_sandboxes(&hank, &ProcessHost::new(&possession.world));
    let notice = |problem: Problem| format!("{}; {}", problem.message, problem.hint.unwrap_or_default());
    possession.notices.extend(overridden.into_iter().map(notice));
    possession.rig_copies = Arc::new(rig_copies(&loaded, &hank, possession.dir.root()));
    let mut own_files = own_files(&loaded, &hank, possession.dir.root());
    let prepared = async {
        prepare_output(&possession, &mut options, &mut own_files)?;
        match data {
            Some(data) => link_data(&possession, &hank, &options, data).await,
            None => Ok(()),
        }
    };
    if let Err(error) = prepared.await {
        possession.give_back(lock).await;
        return Err(error);
    }
    let opened = OpenedExecution {
        possession,
        loaded,
        hank,
        options,
        drivers,
        own_files,
        can_be_replanned: false,
    };
    Ok((opened, lock))
}

/// Refuses a rehearsal in a directory with the record of a run (CLI-74). Returns whether the run has to start fresh, because it or the newest
/// run is a rehearsal.
fn separate_rehearsals(
    possession: &LockedExecution,
    options: &RunOptions,
) -> Result<bool, OpenExecutionError> {
    let state = possession.manager.snapshot();
    if options.rehearsal && !state.runs.iter().all(|run| run.is_rehearsal()) {
        let path = possession.dir.root().to_owned();
        return Err(OpenExecutionError::RecordOfRuns { path });
    }
    Ok(options.rehearsal || state.runs.front().is_some_and(|run| run.is_rehearsal()))
}

/// Records the hank for later rollbacks, which start without one, and the command line and limits of its run. `starts` is whether a run starts now. A rollback
/// that does not find the record leaves copies of rigs in the workspace, which loses nothing.
pub(crate) async fn remember_hank(opened: &OpenedExecution, starts: bool) {
    let possession = &opened.possession;
    let (disk, dir, hank, options) = (
        Arc::clone(&possession.world.disk),
        possession.dir.clone(),
        opened.loaded.clone(),
        opened.options.clone(),
    );
    let remembered = possession
        .world
        .blocking
        .run(move || remember(&*disk, &dir, &hank, &options, starts));
    if let Err(error) = remembered.await {
        tracing::warn!(%error, "where the hank is could not be remembered");
    }
}

/// Links the data into the workspace.
async fn link_data(
    possession: &LockedExecution,
    hank: &Hank,
    options: &RunOptions,
    data: Data,
) -> Result<(), OpenExecutionError> {
    let limit = hank
        .overrides
        .as_ref()
        .and_then(|overrides| overrides.data_hash_time_limit);
    let paths = DataPaths {
        workspace: possession.dir.root().to_owned(),
        record: possession.dir.data_record(),
        goes_on: !options.fresh && !possession.manager.snapshot().runs.is_empty(),
        limit: limit.map_or(FINGERPRINT_TIME, Duration::from_millis),
    };
    let disk = Arc::clone(&possession.world.disk);
    let linked = possession.world.blocking.run(move || data.link(&*disk, &paths));
    linked.await.map_err(OpenExecutionError::Data)
}

/// Returns notices about MCP servers and arguments of the hank, which start programs: the user of a downloaded hank should see them (S8).
fn started_programs(hank: &Hank) -> Vec<String> {
    let notices = hank.codons().flat_map(|codon| {
        let options = hank.agent_options(codon);
        let id = &codon.id;
        let servers = options.servers();
        let servers =
            servers.map(|(name, server)| format!("codon {id} starts MCP server {name}: {}", server.line()));
        let mut notices: Vec<String> = servers.collect();
        if !options.arguments().is_empty() {
            let args = options.arguments().join(" ");
            notices.push(format!("codon {id} gives its agent arguments: {args}"));
        }
        notices
    });
    notices.collect()
}

/// Returns notices about variables that redirect programs or traffic: the user of a downloaded hank should see them (S8).
fn redirections(hank: &Hank) -> Vec<String> {
    let notice = |codon: &CodonConfig| {
        let names = redirecting_variables(codon);
        let redirects = "which redirects programs or traffic";
        (!names.is_empty()).then(|| format!("codon {} sets {}, {redirects}", codon.id, names.join(", ")))
    };
    hank.codons().filter_map(notice).collect()
}
