//! Places in which tests of the suite run.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{ChangedTask, NewTask, Patch, RegistryChange, TaskRow};
use hankweave_task_model::task::TaskTransition;
use hankweave_task_model::{Holder, LockGrant, TaskError};
use hankweave_testing::postgres::Database;

use crate::coordinator::{Acquire, Coordinator, Create, ExclusiveHold, Release};
use crate::engine::Fencing;
use crate::memory::Memory;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::testing::{SetClock, database};

/// Empty coordinator, with control over its time.
pub(super) struct Place {
    pub(super) coordinator: Arc<dyn Coordinator>,
    /// Source of the time.
    time: Time,
    /// Keeps the data of the coordinator alive.
    _kept: Box<dyn Any + Send + Sync>,
}

/// Source of a place's time.
enum Time {
    Ours(Arc<SetClock>),
    /// Time of a database with this URL.
    Servers(String),
}

pub(super) fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

pub(super) fn task(text: &str) -> NewTask {
    NewTask::new(id(text))
}

pub(super) fn holder(owner: &str) -> Holder {
    Holder::new(owner, "1")
}

pub(super) fn code<T: std::fmt::Debug>(answer: Result<T, TaskError>) -> &'static str {
    answer.unwrap_err().code()
}

pub(super) const LEASE: Duration = Duration::from_millis(200);

impl Place {
    pub(super) async fn memory(fencing: Fencing) -> Result<Self, String> {
        let clock = SetClock::at_noon();
        let coordinator = match fencing {
            Fencing::Checked => Memory::new(clock.clone()),
            Fencing::Skipped => Memory::unfenced(clock.clone()),
        };
        Ok(Self {
            coordinator: Arc::new(coordinator),
            time: Time::Ours(clock),
            _kept: Box::new(()),
        })
    }

    pub(super) async fn sqlite(fencing: Fencing) -> Result<Self, String> {
        let (clock, folder) = (SetClock::at_noon(), tempfile::tempdir().unwrap());
        let path = folder.path().join("registry.db");
        let opened = Sqlite::open_with(&path, clock.clone(), fencing).await;
        let coordinator = Arc::new(opened.map_err(|error| error.to_string())?);
        Ok(Self {
            coordinator,
            time: Time::Ours(clock),
            _kept: Box::new(folder),
        })
    }

    pub(super) async fn postgres(fencing: Fencing) -> Result<Self, String> {
        let database = Database::create().map_err(|skip| skip.0)?;
        let opened = Postgres::open_with(database.url(), fencing).await;
        let coordinator = Arc::new(opened.map_err(|error| error.to_string()).unwrap());
        Ok(Self {
            coordinator,
            time: Time::Servers(database.url().to_owned()),
            _kept: Box::new(database),
        })
    }

    /// Lets this much time pass for the coordinator.
    pub(super) async fn pass(&self, time: Duration) {
        if let Time::Ours(clock) = &self.time {
            let millis = i64::try_from(time.as_millis()).unwrap();
            return clock.pass(millis);
        }
        let end = self.coordinator.now().await.unwrap().after(time);
        while self.coordinator.now().await.unwrap() < end {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether leases follow a clock that cannot be set, rather than the one that [`jump`](Self::jump) sets.
    pub(super) fn has_lease_clock(&self) -> bool {
        matches!(self.time, Time::Ours(_))
    }

    /// Stops the clock, so that only [`jump`](Self::jump) moves it. Returns the reason if that is impossible.
    pub(super) async fn stop_clock(&self) -> Result<(), String> {
        match &self.time {
            Time::Ours(_) => Ok(()),
            Time::Servers(url) => database::stop_clock(url).await,
        }
    }

    /// Moves a stopped clock by this number of milliseconds, forwards or back.
    pub(super) async fn jump(&self, millis: i64) {
        match &self.time {
            Time::Ours(clock) => clock.jump(millis),
            Time::Servers(url) => database::jump(url, millis).await,
        }
    }

    pub(super) async fn create(&self, name: &str) -> TaskRow {
        let create = Create {
            task: task(name),
            hold: None,
        };
        self.coordinator.create(create).await.unwrap().row
    }

    pub(super) async fn acquire(&self, resource: &str, owner: &str) -> Result<LockGrant, TaskError> {
        let acquire = Acquire {
            resource: resource.to_owned(),
            holder: holder(owner),
            mode: LockMode::Exclusive,
            lease: Some(LEASE),
            in_order: false,
            task: None,
        };
        self.coordinator
            .acquire(acquire)
            .await
            .map(|acquired| acquired.held)
    }

    pub(super) async fn release(&self, resource: &str, owner: &str) -> Result<Option<LockGrant>, TaskError> {
        let release = Release {
            resource: resource.to_owned(),
            holder: holder(owner),
            written: None,
        };
        self.coordinator.release(release).await
    }

    pub(super) async fn step(
        &self,
        row: &TaskRow,
        token: u64,
        steps: impl IntoIterator<Item = TaskTransition>,
    ) -> Result<ChangedTask, TaskError> {
        let change = RegistryChange {
            id: row.id().clone(),
            expected_version: row.version,
            token,
            steps: steps.into_iter().collect(),
            cost: None,
            approval: None,
            by: None,
            lease: None,
            files: Patch::Keep,
        };
        self.coordinator.change(change).await
    }
}

pub(super) fn hold(owner: &str) -> ExclusiveHold {
    ExclusiveHold {
        holder: holder(owner),
        lease: Some(LEASE),
    }
}

pub(super) fn start() -> TaskTransition {
    let agent_id = hankweave_core::id::AgentId::new("writer").unwrap();
    TaskTransition::Start(hankweave_task_model::task::Start {
        agent_id,
        by_hand: false,
    })
}

pub(super) fn complete() -> TaskTransition {
    let result = hankweave_task_model::task::TaskResult {
        by_hand: false,
        success: true,
        status: None,
        data: None,
        error: None,
        message: None,
        extra: hankweave_core::machine::Extra::default(),
    };
    TaskTransition::Complete(hankweave_task_model::task::Complete { result })
}

pub(super) fn fail() -> TaskTransition {
    let error = "tests are red".to_owned();
    TaskTransition::Fail(hankweave_task_model::task::Fail { error, failure: None })
}
