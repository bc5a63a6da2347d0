//! All seams together.

use std::io;
use std::sync::Arc;

use super::blocking::Blocking;
use super::clock::{Clock, SystemClock};
use super::disk::{Disk, RealDisk};
use super::environment::Environment;
use super::identity::{Identity, SystemIdentity};
use super::ids::{IdSource, RandomIds};
use super::net::{Net, RealNet};
use super::process::{ChildSpawner, Spawner};

/// Everything outside, as one value that is handed down.
#[derive(Debug, Clone)]
pub struct World {
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Files of ours.
    pub disk: Arc<dyn Disk>,
    /// New identifiers.
    pub ids: Arc<dyn IdSource>,
    /// Connections.
    pub net: Arc<dyn Net>,
    /// Which process and which boot this is.
    pub identity: Arc<dyn Identity>,
    /// What the program was started with.
    pub environment: Arc<Environment>,
    /// Child processes.
    pub spawner: Arc<dyn Spawner>,
    /// Where calls run that wait for the disk.
    pub blocking: Blocking,
}

impl World {
    /// The real one.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system when this process cannot be told to adopt the orphans of its children.
    pub fn real() -> io::Result<Self> {
        Ok(Self {
            clock: Arc::new(SystemClock),
            disk: Arc::new(RealDisk),
            ids: Arc::new(RandomIds::new()),
            net: Arc::new(RealNet),
            identity: Arc::new(SystemIdentity),
            environment: Arc::new(Environment::of_process()),
            spawner: Arc::new(ChildSpawner::adopting_orphans()?),
            blocking: Blocking::Threads,
        })
    }

    /// The real one for a unit test, which must not adopt what other tests in the same process start.
    #[cfg(test)]
    pub(crate) fn with_environment(environment: Environment) -> Self {
        Self {
            clock: Arc::new(SystemClock),
            disk: Arc::new(RealDisk),
            ids: Arc::new(RandomIds::new()),
            net: Arc::new(RealNet),
            identity: Arc::new(SystemIdentity),
            environment: Arc::new(environment),
            spawner: Arc::new(ChildSpawner::new()),
            blocking: Blocking::Threads,
        }
    }
}
