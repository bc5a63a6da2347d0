//! Running a hank from another program.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::document::{HankweaveState, KnownCheckpoints};
use hankweave_core::id::RunId;
use hankweave_core::thread::ExecutionThread;
use hankweave_core::wire::Event;

use crate::checkpoint::{CheckpointStore, RestorePlan};
use crate::driver::{AgentDriver, DriverSet, ProcessHost};
use crate::hank_files::LoadedHank;
use crate::instance_lock::{InstanceLock, LockError};
use crate::options::{Recovery, RunOptions};
use crate::paths::ExecutionDir;
use crate::presence::ClientCount;
use crate::recovery::{self, OpenExecutionError, OpenExecutionRequest};
use crate::runner::{
    self, Commander, Inbox, LiveFiles, Rollback, RollbackError, RollbackTarget, RunDependencies, RunError,
    RunOutcome, UnfinishedCodon,
};
use crate::server::{AnswerTokens, Bound, ServeError, ServedRun, ServerOptions};
use crate::shutdown::Shutdown;
use crate::state_manager::{CostFigures, PersistenceError, Subscription};
use crate::world::World;

/// Collects what a run needs.
///
/// ```no_run
/// # async fn example(hank: hankweave_runtime::hank_files::LoadedHank) -> Result<(), Box<dyn std::error::Error>> {
/// use hankweave_runtime::{Hankweave, Shutdown};
///
/// let hankweave = Hankweave::builder(hank).execution_dir("my-project").open().await?;
/// let outcome = hankweave.run(Shutdown::new()).await?;
/// println!("{} codons, {}", outcome.codons.len(), outcome.run_cost);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Builder(pub(crate) OpenExecutionRequest);

impl Builder {
    /// The directory in which agents work; created when it does not exist. Default: the folder of the hank.
    #[must_use]
    pub fn execution_dir(mut self, dir: impl AsRef<Path>) -> Self {
        dir.as_ref().clone_into(&mut self.0.dir);
        self
    }

    /// How the run behaves.
    #[must_use]
    pub fn options(mut self, options: RunOptions) -> Self {
        self.0.options = options;
        self
    }

    /// Adds a driver, or replaces the driver with an equal name.
    #[must_use]
    pub fn driver(mut self, driver: impl AgentDriver) -> Self {
        self.0.drivers.insert(Arc::new(driver));
        self
    }

    /// Keeps checkpoints in `store` instead of a git repository in the execution directory.
    #[must_use]
    pub fn checkpoints(mut self, store: Arc<dyn CheckpointStore>) -> Self {
        self.0.checkpoints = Some(store);
        self
    }

    /// Takes the lock of the directory and repairs its records: state, journal, checkpoints, crashed
    /// runs.
    ///
    /// # Errors
    ///
    /// Returns [`OpenExecutionError`]. Problems with the hank and its agents are found before anything is written.
    pub async fn open(self) -> Result<Hankweave, OpenExecutionError> {
        let (mut opened, lock) = recovery::open(self.0).await?;
        if let Err(error) = runner::replan(&mut opened).await {
            opened.possession.give_back(lock).await;
            return Err(error);
        }
        // A run makes checkpoints, so the list that was read while opening becomes incomplete.
        opened.possession.restorable = None;
        // After everything that may refuse the start: the command line of a refused start must not be suggested again.
        recovery::remember_hank(&opened, false).await;
        let (commander, inbox) = runner::channel();
        Ok(Hankweave {
            opened,
            lock,
            commander,
            inbox,
            bound: None,
        })
    }
}

/// An open execution directory, ready to run.
#[derive(Debug)]
pub struct Hankweave {
    pub(crate) opened: recovery::OpenedExecution,
    lock: InstanceLock,
    commander: Commander,
    inbox: Inbox,
    /// The port for clients, once [`serve`](Self::serve) has taken one.
    bound: Option<Bound>,
}

impl Hankweave {
    /// Starts building a run of a hank in the real world.
    ///
    /// A run touches no process but its agents, the commands of its rigs and what those have started. So a
    /// program may have several runs and children of its own (S11). Processes that an agent left running are
    /// found by their process group, their session, the marker in their environment and their parents. A
    /// process that has shed all of these lives on, unless the program adopts orphans, as `hankweave run`
    /// does: `Hankweave::builder_in(World::real().adopting_orphans()?, hank)`. Adopting is for a program with
    /// one run at a time and no children of its own.
    ///
    /// The system ends an agent with the thread that started it, so the tokio runtime has to live as long as
    /// the run. From the first agent on there is a tokio handler for SIGCHLD, which calls the previous handler. A
    /// program that ignored SIGCHLD before has to reap its own children from then on.
    #[must_use]
    pub fn builder(hank: LoadedHank) -> Builder {
        Self::builder_in(World::real(), hank)
    }

    /// Starts building a run of a hank in another world, which everything in the run uses, including the built-in drivers.
    #[must_use]
    pub fn builder_in(world: World, hank: LoadedHank) -> Builder {
        let dir = hank.root.clone();
        Builder(OpenExecutionRequest {
            hank,
            dir,
            options: RunOptions::default(),
            drivers: DriverSet::built_in(&ProcessHost::new(&world)),
            checkpoints: None,
            world,
        })
    }

    /// Returns a subscription to all events from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.opened.possession.manager.subscribe()
    }

    /// Returns the sender of commands; they are obeyed as soon as the run runs.
    #[must_use]
    pub fn commander(&self) -> Commander {
        self.commander.clone()
    }

    /// Takes a port on which clients can watch and command the run as soon as it runs; they find the port in
    /// `server.lock`.
    ///
    /// # Errors
    ///
    /// [`ServeError`] when no port can be taken or no token made.
    pub async fn serve(&mut self, options: ServerOptions) -> Result<(), ServeError> {
        let possession = &self.opened.possession;
        let bound = Bound::bind(&possession.world, &possession.dir, options).await?;
        self.bound = Some(bound);
        Ok(())
    }

    /// Returns the tokens with which a notification answers a question, once a port was taken.
    #[must_use]
    pub fn answers(&self) -> Option<AnswerTokens> {
        self.bound.as_ref().map(|bound| bound.answers().clone())
    }

    /// Returns the port of the earlier runs in this directory if another program has it: pages that are open there do not follow this run.
    #[must_use]
    pub fn taken_port(&self) -> Option<u16> {
        self.bound.as_ref().and_then(Bound::taken_port)
    }

    /// Returns the address for clients, once a port was taken.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.bound.as_ref().map(Bound::address)
    }

    /// The address of the page that follows the run, once a port was taken. The address holds no token, so it may be
    /// shown; the page shows nothing without a token.
    #[must_use]
    pub fn page_address(&self) -> Option<String> {
        self.bound.as_ref().map(Bound::page_address)
    }

    /// The address that opens the page, with the token for reading. For the user only.
    #[must_use]
    pub fn read_only_address(&self) -> Option<String> {
        self.bound.as_ref().map(Bound::read_only_address)
    }

    /// Returns the address with the token for all rights, which allows commands.
    #[must_use]
    pub fn control_address(&self) -> Option<String> {
        self.bound.as_ref().map(Bound::control_address)
    }

    /// Returns the durable state.
    #[must_use]
    pub fn state(&self) -> Arc<HankweaveState> {
        self.opened.possession.manager.snapshot()
    }

    /// Reads the state as [`state`](Self::state) does, also while the run continues.
    pub fn state_reader(&self) -> impl Fn() -> Arc<HankweaveState> + Send + use<> {
        let manager = self.opened.possession.manager.clone();
        move || manager.snapshot()
    }

    /// Adds a note for people to the events of the run, also while the run continues. When the run has ended nothing is noted any more.
    pub fn note(&self, message: String) -> impl Future<Output = ()> + Send + use<> {
        let manager = self.opened.possession.manager.clone();
        async move { drop(manager.record(Event::Info { message }).await.await) }
    }

    /// The execution thread that ends in `target`, or in the newest run.
    ///
    /// With `validate` it names the checkpoints that can be restored. Without, which is faster, none counts
    /// as validated.
    ///
    /// # Errors
    ///
    /// Returns [`RollbackError`] when the checkpoints cannot be read.
    pub async fn execution_thread(
        &self,
        target: Option<&RunId>,
        validate: bool,
    ) -> Result<ExecutionThread, RollbackError> {
        let possession = &self.opened.possession;
        let known = match validate {
            true => Some(runner::known_checkpoints(possession).await?),
            false => None,
        };
        let known = known.as_ref().map(|known| known as &dyn KnownCheckpoints);
        Ok(possession.manager.execution_thread(target, known))
    }

    /// Returns the cost of the codons, from the durable state.
    #[must_use]
    pub fn costs(&self) -> CostFigures {
        self.opened.possession.manager.costs()
    }

    /// The paths in the execution directory.
    #[must_use]
    pub fn directory(&self) -> &ExecutionDir {
        &self.opened.possession.dir
    }

    /// Notices for the user about the state of the directory.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.opened.possession.notices
    }

    /// Why the next run cannot simply continue, if it cannot.
    ///
    /// # Errors
    ///
    /// Returns [`RunError`] when the checkpoints cannot be read.
    pub async fn trouble(&self) -> Result<Option<UnfinishedCodon>, RunError> {
        runner::trouble(&self.opened).await
    }

    /// Notes for other processes whether a person is asked where to continue, before [`run`](Self::run). Waits for the disk.
    ///
    /// # Errors
    ///
    /// [`LockError`] when the lock file cannot be written.
    pub fn note_question(&self, asking: bool) -> Result<(), LockError> {
        self.lock.note_question(asking)
    }

    /// Finds out which files the next run would change if it continued by [`Recovery::LastSuccess`]; `None` if it would undo no work. Changes no file.
    ///
    /// # Errors
    ///
    /// Returns [`RunError`] when the checkpoints or the files cannot be read, and [`RunError::NothingLeft`] where the run would pause at once because its
    /// budget is spent.
    pub async fn taken_back(&self) -> Result<Option<RestorePlan>, RunError> {
        runner::taken_back(&self.opened).await
    }

    /// Whether a run would end at once, because every codon of the plan has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        runner::has_nothing_to_do(&self.opened)
    }

    /// Whether a new plan made from the hank would differ from the recorded plan with which the run continues (STATE-45).
    #[must_use]
    pub fn can_be_replanned(&self) -> bool {
        self.opened.can_be_replanned
    }

    /// Returns how long the next run waits for the usage limit of a provider, if one is recorded.
    #[must_use]
    pub fn limit_ends_in(&self) -> Option<Duration> {
        let possession = &self.opened.possession;
        let thread = possession.manager.execution_thread(None, None);
        let ends_at = thread.codons.first()?.codon.failure_reason()?.retry_at?;
        let left = ends_at.since(possession.world.clock.now());
        Some(left).filter(|left| !left.is_zero())
    }

    /// How long an agent may take to end when it is asked to, before it is killed.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.opened.options.grace
    }

    /// Chooses where to continue after a failure or a crash, as [`RunOptions::recovery`] does.
    pub fn recover(&mut self, recovery: Recovery) {
        self.opened.options.recovery = Some(recovery);
    }

    /// Finds out what rolling back to `target` would change. Changes no file.
    ///
    /// # Errors
    ///
    /// Returns [`RollbackError`] when the rollback is not possible.
    pub async fn look_back(&self, target: &RollbackTarget) -> Result<Rollback, RollbackError> {
        runner::preview(&self.opened.possession, target).await
    }

    /// Rolls back to `target`: restores its files, keeps the current ones in a checkpoint, and lets the next
    /// run continue from there.
    ///
    /// # Errors
    ///
    /// Returns [`RollbackError`]; it says whether files were changed. A restore that was interrupted is
    /// finished by whatever starts next.
    pub async fn roll_back(&self, target: &RollbackTarget) -> Result<Rollback, RollbackError> {
        runner::go_back(&self.opened.possession, target).await
    }

    /// Releases the directory without a run.
    ///
    /// # Errors
    ///
    /// Returns [`PersistenceError`] when the last save failed.
    pub async fn close(self) -> Result<(), Arc<PersistenceError>> {
        self.opened
            .possession
            .release(Arc::new(self.lock), std::future::ready(()))
            .await
    }

    /// Runs to the end, to the first failure that is not ignored, or until `shutdown` is requested; then
    /// releases the directory.
    ///
    /// # Errors
    ///
    /// Returns [`RunError`] when the run could not be recorded or cannot continue for a reason other than its
    /// codons.
    pub async fn run(self, shutdown: Shutdown) -> Result<RunOutcome, RunError> {
        let presence = ClientCount::new();
        let possession = &self.opened.possession;
        let start_server = |bound: Bound| {
            bound.start(ServedRun {
                world: possession.world.clone(),
                dir: possession.dir.clone(),
                hank: self.opened.hank.clone(),
                manager: possession.manager.clone(),
                commander: self.commander.clone(),
                presence: presence.clone(),
                shutdown: shutdown.clone(),
                files: LiveFiles::of(&self.opened),
            })
        };
        let address = self.bound.as_ref().map(Bound::local_address);
        let server = self.bound.map(start_server);
        let dependencies = RunDependencies {
            server: address,
            presence: presence.clone(),
            shutdown: shutdown.clone(),
        };
        let close_server = async {
            if let Some(server) = server {
                let ended_by_itself = shutdown.cause().is_none();
                server.close(ended_by_itself).await;
            }
        };
        // Boxed: in a debug build the future of a whole run is too large for the stack of an embedder's thread.
        let run = runner::run(self.opened, self.lock, self.inbox, dependencies, close_server);
        Box::pin(run).await
    }
}

#[cfg(test)]
mod tests {

    use futures_util::FutureExt;
    use futures_util::future::{BoxFuture, ready};
    use hankweave_agents::Launch;
    use hankweave_core::agent::{
        AgentEvent, Capabilities, CostReporting, ExitOutcome, FailureKind, ProcessExit, Verdict,
    };
    use hankweave_core::id::SessionId;
    use tempfile::TempDir;

    use super::*;
    use crate::checkpoint::MemoryCheckpoints;
    use crate::driver::{AgentControl, EventSender, RunningAgent, StartError, event_channel};
    use crate::hank_files::load_from;
    use crate::runner::RunResult;
    use crate::state_manager::{Delivery, TransitionError};
    use crate::world::blocking::Blocking;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};
    use crate::world::environment::Environment;

    /// An agent that says one sentence and is done.
    struct Talker;

    impl AgentDriver for Talker {
        fn name(&self) -> &str {
            "talker"
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities {
                resume: true,
                cost: CostReporting::Exact,
                model_choice: true,
                system_prompt: true,
                ..Capabilities::NONE
            }
        }

        fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
            let session_id = SessionId::new("s-1").unwrap();
            let outcome = ExitOutcome::new(ProcessExit::Exited(0), Verdict::Success);
            let started = AgentEvent::SessionStarted {
                session_id,
                model: None,
            };
            let events = vec![started, AgentEvent::Finished(outcome)].into();
            let agent = RunningAgent {
                pid: None,
                log_path: launch.log_path,
                events,
                control: Box::new(Gone),
            };
            ready(Ok(agent)).boxed()
        }
    }

    /// An agent that says nothing until it is stopped.
    struct Mute;

    impl AgentDriver for Mute {
        fn name(&self) -> &str {
            "talker"
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities {
                resume: true,
                cost: CostReporting::Exact,
                model_choice: true,
                system_prompt: true,
                ..Capabilities::NONE
            }
        }

        fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
            let (sender, events) = event_channel(1);
            let agent = RunningAgent {
                pid: None,
                log_path: launch.log_path,
                events,
                control: Box::new(Stopped(sender)),
            };
            ready(Ok(agent)).boxed()
        }
    }

    struct Stopped(EventSender);

    impl AgentControl for Stopped {
        fn stop<'a>(&'a self, _: Duration) -> BoxFuture<'a, ()> {
            let outcome = ExitOutcome {
                result_received: false,
                ..ExitOutcome::new(ProcessExit::Signaled(15), Verdict::Success)
            };
            self.0.try_send(vec![AgentEvent::Finished(outcome)]).unwrap();
            ready(()).boxed()
        }
    }

    struct Gone;

    impl AgentControl for Gone {
        fn stop<'a>(&'a self, _: Duration) -> BoxFuture<'a, ()> {
            ready(()).boxed()
        }
    }

    const HANK: &str = r#"{"requirements": {"env": ["ONLY_IN_THIS_WORLD"]}, "hank": [{"id": "a", "name": "A", "model": "m",
        "continuationMode": "fresh", "promptFile": "p.md", "agent": "talker",
        "rigSetup": [{"type": "copy", "copy": {"from": "tpl", "to": "made"}}]}]}"#;

    fn stage() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("hank/tpl")).unwrap();
        std::fs::write(folder.path().join("hank/hank.json"), HANK).unwrap();
        std::fs::write(folder.path().join("hank/p.md"), "hello").unwrap();
        folder
    }

    fn builder(folder: &TempDir, disk: &FaultyDisk) -> Builder {
        let work = folder.path().join("work");
        let world = World {
            disk: Arc::new(disk.clone()),
            blocking: Blocking::Inline,
            ..World::with_environment(Environment::from_iter([("ONLY_IN_THIS_WORLD", "1")]))
        };
        let hank = load_from(disk, &folder.path().join("hank")).unwrap();
        Hankweave::builder_in(world, hank)
            .execution_dir(&work)
            .driver(Talker)
            .checkpoints(Arc::new(MemoryCheckpoints::new(&work)))
    }

    #[tokio::test]
    async fn a_run_stays_in_the_world_that_it_was_given() {
        let folder = stage();
        let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::None);
        let hankweave = builder(&folder, &disk).open().await.unwrap();
        let outcome = hankweave.run(Shutdown::new()).await.unwrap();
        assert!(
            matches!(outcome.result, RunResult::Completed),
            "{:?}",
            outcome.result
        );
        assert!(folder.path().join("work/made").is_dir());
        assert!(
            !folder.path().join("work/.hankweave/checkpoints").exists(),
            "no git"
        );
    }

    // covers: S6, F10
    #[tokio::test(start_paused = true)]
    async fn an_agent_that_names_no_session_for_a_minute_is_stopped_with_a_typed_reason() {
        let folder = stage();
        let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::None);
        let hankweave = builder(&folder, &disk).driver(Mute).open().await.unwrap();
        let begin = tokio::time::Instant::now();
        let outcome = hankweave.run(Shutdown::new()).await.unwrap();
        assert!(begin.elapsed() >= Duration::from_secs(60));
        let failure = outcome.codons[0].failure.as_ref().unwrap();
        assert_eq!(failure.kind, FailureKind::Timeout);
        assert_eq!(
            failure.message.as_deref(),
            Some("the agent named no session within 60 s")
        );
    }

    // covers: P5
    #[tokio::test]
    async fn a_disk_that_fails_while_nothing_runs_ends_the_run() {
        let folder = stage();
        let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::None);
        let done = builder(&folder, &disk).open().await.unwrap();
        done.run(Shutdown::new()).await.unwrap();
        let options = RunOptions {
            autostart: false,
            ..RunOptions::default()
        };
        let waiting = builder(&folder, &disk).options(options).open().await.unwrap();
        let (manager, mut events) = (waiting.opened.possession.manager.clone(), waiting.subscribe());
        let run = tokio::spawn(waiting.run(Shutdown::new()));
        let is_idle = |event: &Event| matches!(event, Event::ServerIdle { .. });
        while let Some(delivery) = events.next().await.unwrap() {
            if let Delivery::Events(events) = delivery
                && events.entries().any(|entry| is_idle(&entry.event))
            {
                break;
            }
        }
        disk.crash();
        let message = "one more".to_owned();
        assert!(manager.record(Event::Info { message }).await.await.is_err());
        let ended = tokio::time::timeout(Duration::from_secs(60), run).await;
        let ended = ended.expect("it ends by itself").unwrap();
        assert!(
            matches!(ended, Err(RunError::Record(TransitionError::NotDurable(_)))),
            "{ended:?}"
        );
    }

    #[tokio::test]
    async fn before_the_first_step_of_its_disk_a_run_has_made_nothing() {
        let folder = stage();
        let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(0));
        assert!(builder(&folder, &disk).open().await.is_err());
        assert!(disk.crashed() && !folder.path().join("work").exists());
    }
}
