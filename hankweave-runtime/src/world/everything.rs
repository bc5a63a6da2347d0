//! All seams together, as one value that the program makes at its start.

use std::io;
use std::sync::Arc;

use super::blocking::Blocking;
use super::clock::{Clock, SystemClock};
use super::disk::{Disk, SparedDisk, Spares, records_folder};
use super::environment::Environment;
use super::http::{Http, NoHttp};
use super::identity::{Identity, SystemIdentity};
use super::ids::{IdSource, RandomIds};
use super::net::{Net, RealNet};
use super::process::{ChildSpawner, Spawner};

/// Everything outside the process. The whole runtime gets it as a parameter.
#[derive(Debug, Clone)]
pub struct World {
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Our own files.
    pub disk: Arc<dyn Disk>,
    /// New identifiers.
    pub ids: Arc<dyn IdSource>,
    /// Connections.
    pub net: Arc<dyn Net>,
    /// Requests to servers of others.
    pub http: Arc<dyn Http>,
    /// Identity of this process and of the current boot.
    pub identity: Arc<dyn Identity>,
    /// Environment of the program at its start.
    pub environment: Arc<Environment>,
    /// Child processes.
    pub spawner: Arc<dyn Spawner>,
    /// Pool for calls that wait for the disk.
    pub blocking: Blocking,
}

impl World {
    /// The real world, but without HTTP: a program that asks models puts a client into [`http`](Self::http).
    #[must_use]
    pub fn real() -> Self {
        Self::with_environment(Environment::of_process())
    }

    /// Like [`real`](Self::real), with another environment.
    #[must_use]
    pub fn with_environment(environment: Environment) -> Self {
        Self {
            clock: Arc::new(SystemClock),
            disk: Arc::new(SparedDisk::new(Spares::new(records_folder(&environment)))),
            ids: Arc::new(RandomIds::new()),
            net: Arc::new(RealNet),
            http: Arc::new(NoHttp),
            identity: Arc::new(SystemIdentity),
            environment: Arc::new(environment),
            spawner: Arc::new(ChildSpawner::new()),
            blocking: Blocking::Threads,
        }
    }

    /// Makes this process the parent of every descendant whose own parent has ended, so that it can end the processes that an
    /// agent left. See [`ChildSpawner::adopting_orphans`] for the programs that may do so: it ends every other child as well.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system if this process cannot become the parent of orphans.
    pub fn adopting_orphans(self) -> io::Result<Self> {
        Ok(Self {
            spawner: Arc::new(ChildSpawner::adopting_orphans()?),
            ..self
        })
    }
}
