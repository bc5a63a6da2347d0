//! Running a hank from another program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::agent::Launch;

use crate::checkpoint::CheckpointStore;
use crate::driver::{AgentDriver, DriverSet, ProcessHost};
use crate::hank_files::LoadedHank;
use crate::instance_lock::InstanceLock;
use crate::paths::ExecutionDir;
use crate::recovery::{self, OpenError};
use crate::runner::{self, RunError, RunOutcome};
use crate::shutdown::Shutdown;
use crate::state_manager::Subscription;
use crate::world::World;

/// How a run behaves, apart from its hank.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Replaces the agent of every codon.
    pub agent: Option<String>,
    /// Replaces the model of every codon.
    pub model: Option<String>,
    /// Start from the first codon and keep the history.
    pub fresh: bool,
    /// Stop instead of starting over when the recorded history cannot be read ("reliability and security", promise P6).
    pub strict_state: bool,
    /// Go on when an item of a rig fails.
    pub ignore_rig_failures: bool,
    /// How long an agent may take to end when it is asked to, before it is killed.
    pub grace: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            agent: None,
            model: None,
            fresh: false,
            strict_state: false,
            ignore_rig_failures: false,
            grace: Launch::DEFAULT_GRACE,
        }
    }
}

/// Collects what a run needs.
///
/// ```no_run
/// # async fn example(hank: hankweave_runtime::hank_files::LoadedHank) -> Result<(), Box<dyn std::error::Error>> {
/// use hankweave_runtime::{Hankweave, Shutdown};
///
/// let hankweave = Hankweave::builder(hank)?.execution_dir("my-project").open().await?;
/// let outcome = hankweave.run(Shutdown::new()).await?;
/// println!("{} codons, {}", outcome.codons.len(), outcome.run_cost);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Builder {
    pub(crate) hank: LoadedHank,
    pub(crate) dir: PathBuf,
    pub(crate) options: RunOptions,
    pub(crate) drivers: DriverSet,
    pub(crate) checkpoints: Option<Arc<dyn CheckpointStore>>,
    pub(crate) world: World,
}

impl Builder {
    /// The directory in which agents work; created when it does not exist. Default: the folder of the hank.
    #[must_use]
    pub fn execution_dir(mut self, dir: impl AsRef<Path>) -> Self {
        dir.as_ref().clone_into(&mut self.dir);
        self
    }

    /// How the run behaves.
    #[must_use]
    pub fn options(mut self, options: RunOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a driver, or replaces the one of the same name.
    #[must_use]
    pub fn driver(mut self, driver: impl AgentDriver) -> Self {
        self.drivers.insert(Arc::new(driver));
        self
    }

    /// Keeps checkpoints in `store` instead of a git repository in the execution directory.
    #[must_use]
    pub fn checkpoints(mut self, store: Arc<dyn CheckpointStore>) -> Self {
        self.checkpoints = Some(store);
        self
    }

    /// Takes the directory into possession and brings its records in order: lock, state, journal, checkpoints, crashed runs.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`]. Problems with the hank and its agents are found before anything is written.
    pub async fn open(self) -> Result<Hankweave, OpenError> {
        let (opened, lock) = recovery::open(self).await?;
        Ok(Hankweave { opened, lock })
    }
}

/// An execution directory in our possession, ready to run.
#[derive(Debug)]
pub struct Hankweave {
    opened: recovery::Opened,
    lock: InstanceLock,
}

impl Hankweave {
    /// Begins with a hank in the real world.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system when this process cannot be told to adopt the orphans of its agents.
    pub fn builder(hank: LoadedHank) -> std::io::Result<Builder> {
        Ok(Self::builder_in(World::real()?, hank))
    }

    /// Begins with a hank in another world, which everything in the run goes through, the built-in drivers among it.
    #[must_use]
    pub fn builder_in(world: World, hank: LoadedHank) -> Builder {
        let dir = hank.root.clone();
        Builder {
            hank,
            dir,
            options: RunOptions::default(),
            drivers: DriverSet::built_in(&ProcessHost::new(&world)),
            checkpoints: None,
            world,
        }
    }

    /// Everything that happens from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.opened.manager.subscribe()
    }

    /// Where things lie.
    #[must_use]
    pub fn directory(&self) -> &ExecutionDir {
        &self.opened.dir
    }

    /// What a person should know about how the directory was found.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.opened.notices
    }

    /// Runs to the end, to the first failure that is not ignored, or until `shutdown` is requested; then releases the directory.
    ///
    /// # Errors
    ///
    /// Returns [`RunError`] when the run could not be recorded or cannot go on for a reason of ours.
    pub async fn run(self, shutdown: Shutdown) -> Result<RunOutcome, RunError> {
        runner::run(self.opened, self.lock, shutdown).await
    }
}
