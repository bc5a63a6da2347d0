//! Sentinels of one codon: observers that act on its events, by a command or a model. They subscribe to the state manager like any other subscriber and
//! delay no other task (SENT-9 to SENT-13). `codon` starts them and waits for their end.
//!
//! One task follows the events for all sentinels of a codon ([`Watchers`]). `hankweave_core::sentinel` decides when a sentinel acts; the sentinel then runs
//! its command or asks its model, one question at a time for each sentinel, while the task continues listening.

mod allowance;
mod call;
mod command;
mod files;
mod model;
mod problems;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hankweave_core::codon::SentinelState;
use hankweave_core::cost::Usd;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::hank::{SentinelEntry, SentinelSource};
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::sentinel::{Ask, FileInterest, SentinelConfig, SentinelSettings};
use hankweave_core::wire::{Event, SentinelOrigin};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::allowance::{Allowance, Spent};
use self::files::SentinelFiles;
use self::model::SentinelModel;
pub(crate) use self::problems::sentinel_problems;
use self::work::SentinelLoop;
use crate::hank_files::LoadedHank;
use crate::paths::ExecutionDir;
use crate::state_manager::StateManager;
use crate::world::World;
use crate::world::process::marker;

/// Returns the marker of a sentinel's processes, by which they are found and ended. It differs from the marker of the codon's agent, so that the end of the
/// agent does not end them.
pub(crate) fn sentinel_marker(codon: &str, sentinel: &str) -> String {
    format!("{codon}/sentinel/{sentinel}")
}

/// Common parts of a codon's sentinels.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) world: World,
    pub(crate) manager: StateManager,
    pub(crate) dir: ExecutionDir,
    /// The folder of the hank; paths of programs are relative to it.
    pub(crate) hank: PathBuf,
    /// Prices of the models' answers.
    pub(crate) prices: Arc<Prices>,
    /// Environment variables of the codon, which override those of this process.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) run: RunId,
    pub(crate) codon: CodonId,
    /// Whether models may be asked.
    pub(crate) allowance: Arc<Allowance>,
    /// Passes the request of a sentinel to the codon.
    pub(crate) demand: Arc<dyn Fn(SentinelRequest) + Send + Sync>,
}

impl Context {
    /// The marker of the codon.
    fn marker(&self) -> String {
        marker(&*self.world.disk, self.dir.root(), &self.run, &self.codon)
    }

    /// Publishes an event, without waiting until it is durable: nothing that a sentinel does next depends on it.
    async fn publish(&self, event: Event) {
        drop(self.manager.record(event).await);
    }
}

/// Request of a sentinel to its codon; the text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SentinelRequest {
    /// The sentinel asks for an action that the hank allows.
    Asked(Ask, String),
    /// The sentinel asks for an action that is refused.
    Refused(String),
    /// The sentinel failed, and its codon with it.
    Failed(String),
}

/// A sentinel that was read and checked, and can start.
#[derive(Debug, Clone)]
pub(crate) struct Loadable {
    config: SentinelConfig,
    settings: SentinelSettings,
    /// File of its configuration; `None` where that is in hank.json.
    source_path: Option<String>,
    outputs: SentinelFiles,
    backend: SentinelBackend,
}

/// Source of a sentinel's answers.
#[derive(Debug, Clone)]
enum SentinelBackend {
    Command,
    Model(Arc<SentinelModel>),
}

impl Loadable {
    /// Reads and checks the sentinel of an entry. Waits for the disk. The error states why it cannot start.
    pub(crate) fn of(entry: &SentinelEntry, loaded: &LoadedHank, context: &Context) -> Result<Self, String> {
        let config = SentinelConfig::of(entry, &loaded.sentinels)?;
        let source_path = match &entry.sentinel_config {
            SentinelSource::Inline(_) => None,
            SentinelSource::File(path) => Some(path.clone()),
        };
        let settings =
            SentinelSettings::from_checked(entry.settings.clone()).map_err(|error| error.to_string())?;
        let outputs = SentinelFiles::of(&config, &settings, &context.codon)?;
        let backend = match config.model {
            None => {
                command::check(&config, &context.hank, &context.world, &context.env)?;
                SentinelBackend::Command
            }
            Some(_) => SentinelBackend::Model(Arc::new(SentinelModel::of(entry, &config, context, loaded)?)),
        };
        Ok(Self {
            backend,
            config,
            settings,
            source_path,
            outputs,
        })
    }

    /// Whether a condition or its prompt uses the text of changed files. The events then carry it (SENT-19).
    fn needs_contents(&self) -> bool {
        let prompt = match &self.backend {
            SentinelBackend::Command => "",
            SentinelBackend::Model(model) => model.prompt(),
        };
        self.config.speaks_of_contents(prompt)
    }

    fn origin(&self) -> SentinelOrigin {
        match self.source_path {
            Some(_) => SentinelOrigin::File,
            None => SentinelOrigin::Inline,
        }
    }
}

/// Request of a codon to its sentinels to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentinelShutdown {
    /// The codon still runs.
    NotRequested,
    /// The sentinels see everything up to event number `until` and act on it; work that is not finished at the deadline is cut short.
    Drain { until: u64, deadline: Instant },
    /// Unfinished work is cut short.
    Now,
}

/// The sentinels of a codon at work, with their task. Dropping it ends the task.
pub(crate) struct Watchers {
    shutdown_sender: watch::Sender<SentinelShutdown>,
    totals: watch::Receiver<SentinelTotals>,
    /// Whether one of them reads the contents of changed files.
    pub(crate) speak_of_contents: bool,
    /// The files whose changes they wait for; `None` where they wait for none.
    pub(crate) file_interest: Option<Arc<FileInterest>>,
    /// Returns the loop if some sentinels act on the end of the codon.
    task: AbortOnDropHandle<Option<SentinelLoop>>,
}

/// Sentinels that act on the end of their codon, and wait for it.
pub(crate) struct EndWatchers(SentinelLoop);

/// The last figures of all sentinels of a codon.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentinelTotals {
    pub(crate) states: Vec<SentinelState>,
    pub(crate) cost: Usd,
}

impl Watchers {
    /// Records and publishes that the sentinels watch, then starts their task, which shows them every event after that record. Returns their first
    /// figures as well.
    pub(crate) async fn start(context: Context, sentinels: Vec<Loadable>) -> (Self, SentinelTotals) {
        let events = context.manager.subscribe();
        let own_files: BTreeSet<String> = sentinels
            .iter()
            .flat_map(|loadable| loadable.outputs.in_workspace())
            .collect();
        let speak_of_contents = sentinels.iter().any(Loadable::needs_contents);
        let triggers = sentinels.iter().map(|loadable| &loadable.config.trigger);
        let file_interest = FileInterest::of(triggers).map(Arc::new);
        let (totals_sender, totals) = watch::channel(SentinelTotals::default());
        let mut work = SentinelLoop::new(context, sentinels, events, own_files, totals_sender);
        work.load().await;
        let records = totals.borrow().clone();
        let (shutdown_sender, shutdown) = watch::channel(SentinelShutdown::NotRequested);
        let task = AbortOnDropHandle::new(tokio::spawn(work.run(shutdown)));
        (
            Self {
                shutdown_sender,
                totals,
                speak_of_contents,
                file_interest,
                task,
            },
            records,
        )
    }

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> Usd {
        self.totals.borrow().cost
    }

    /// Lets the sentinels see everything up to event number `until` and act on it, until `deadline` or until `cut` is done.
    pub(crate) async fn drain(
        mut self,
        until: u64,
        deadline: Instant,
        cut: impl Future<Output = ()>,
    ) -> (SentinelTotals, Option<EndWatchers>) {
        self.shutdown_sender
            .send_replace(SentinelShutdown::Drain { until, deadline });
        let ended = tokio::select! {
            biased;
            ended = &mut self.task => Some(ended),
            () = cut => None,
        };
        match ended {
            Some(ended) => self.results(ended),
            None => self.cut().await,
        }
    }

    /// Cuts the work of the sentinels short.
    pub(crate) async fn cut(mut self) -> (SentinelTotals, Option<EndWatchers>) {
        self.shutdown_sender.send_replace(SentinelShutdown::Now);
        let ended = (&mut self.task).await;
        self.results(ended)
    }

    /// Returns the last figures, and the sentinels that act on the end of the codon. If the task has crashed, which is a bug of hankweave, the codon does
    /// not fail because of it, and the money that the sentinels have spent counts.
    fn results(
        &self,
        ended: Result<Option<SentinelLoop>, JoinError>,
    ) -> (SentinelTotals, Option<EndWatchers>) {
        let remaining = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "the sentinels of a codon have crashed; please report this bug");
            None
        });
        (self.totals.borrow().clone(), remaining.map(EndWatchers))
    }
}

impl EndWatchers {
    /// Lets the sentinels act on the end of their codon, until `deadline` or until `cut` is done. `allowance` decides whether
    /// models may be asked.
    pub(crate) async fn act(
        self,
        allowance: Arc<Allowance>,
        deadline: Instant,
        cut: impl Future<Output = ()>,
    ) -> SentinelTotals {
        let watchers = self.restart(allowance);
        // No last number: the sentinels stop at the event of the codon's end.
        watchers.drain(u64::MAX, deadline, cut).await.0
    }

    /// Ends the sentinels without waiting for their work.
    pub(crate) async fn dismiss(self, allowance: Arc<Allowance>) -> SentinelTotals {
        self.restart(allowance).cut().await.0
    }

    /// Starts the task of the sentinels once more.
    fn restart(self, allowance: Arc<Allowance>) -> Watchers {
        let Self(mut work) = self;
        let totals = work.prepare_for_end(allowance);
        let (shutdown_sender, shutdown) = watch::channel(SentinelShutdown::NotRequested);
        Watchers {
            shutdown_sender,
            totals,
            speak_of_contents: false,
            file_interest: None,
            task: AbortOnDropHandle::new(tokio::spawn(work.run(shutdown))),
        }
    }
}

impl fmt::Debug for EndWatchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndWatchers").finish_non_exhaustive()
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").finish_non_exhaustive()
    }
}
