//! Opening an execution directory for a hank.

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
    /// A plan made again from the hank would be another one than the recorded plan.
    pub(crate) can_be_replanned: bool,
}

impl OpenedExecution {
    /// The patterns of a checkpoint: those of the hank, or everything, and never the hank's own files.
    pub(crate) fn patterns(&self, declared: Vec<String>) -> Vec<String> {
        without_own_files(declared, &self.own_files)
    }
}

/// Excludes own files from the patterns. An empty list means every file, so it needs an explicit pattern once a file is excluded.
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
    /// Instead of a git repository in the directory.
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
    match apart(&possession, &options) {
        Ok(fresh) => options.fresh |= fresh,
        Err(error) => {
            possession.give_back(lock).await;
            return Err(error);
        }
    }
    possession.notices.extend(redirections(&hank));
    possession.notices.extend(started_beside(&hank));
    let overridden = overridden_sandboxes(&hank, &ProcessHost::new(&possession.world));
    let said = |problem: Problem| format!("{}; {}", problem.message, problem.hint.unwrap_or_default());
    possession.notices.extend(overridden.into_iter().map(said));
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

/// Keeps rehearsals apart from runs (CLI-74): whether this one begins from nothing, because it or the newest run is a rehearsal.
fn apart(possession: &LockedExecution, options: &RunOptions) -> Result<bool, OpenExecutionError> {
    let state = possession.manager.snapshot();
    if options.rehearsal && !state.runs.iter().all(|run| run.is_rehearsal()) {
        let path = possession.dir.root().to_owned();
        return Err(OpenExecutionError::RecordOfRuns { path });
    }
    Ok(options.rehearsal || state.runs.front().is_some_and(|run| run.is_rehearsal()))
}

/// Remembers the hank for rollbacks that do not name it, and how its run was asked for once that `starts`. Without it they leave what its rigs have copied, which loses
/// nothing.
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
    let place = DataPaths {
        workspace: possession.dir.root().to_owned(),
        record: possession.dir.data_record(),
        goes_on: !options.fresh && !possession.manager.snapshot().runs.is_empty(),
        limit: limit.map_or(FINGERPRINT_TIME, Duration::from_millis),
    };
    let disk = Arc::clone(&possession.world.disk);
    let brought = possession.world.blocking.run(move || data.link(&*disk, &place));
    brought.await.map_err(OpenExecutionError::Data)
}

/// Returns the MCP servers and arguments of the hank, which start programs: the user of a downloaded hank should see them (S8).
fn started_beside(hank: &Hank) -> Vec<String> {
    let said = hank.codons().flat_map(|codon| {
        let options = hank.agent_options(codon);
        let id = &codon.id;
        let servers = options.servers();
        let servers =
            servers.map(|(name, server)| format!("codon {id} starts MCP server {name}: {}", server.line()));
        let mut said: Vec<String> = servers.collect();
        if !options.arguments().is_empty() {
            let args = options.arguments().join(" ");
            said.push(format!("codon {id} gives its agent arguments: {args}"));
        }
        said
    });
    said.collect()
}

/// Returns the redirections of the hank: the user of a downloaded hank should see them (S8).
fn redirections(hank: &Hank) -> Vec<String> {
    let say = |codon: &CodonConfig| {
        let names = redirecting_variables(codon);
        let redirects = "which redirects programs or traffic";
        (!names.is_empty()).then(|| format!("codon {} sets {}, {redirects}", codon.id, names.join(", ")))
    };
    hank.codons().filter_map(say).collect()
}
