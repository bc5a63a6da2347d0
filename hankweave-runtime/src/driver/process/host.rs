//! Host of agent processes: their limits, and their access to the machine, such as environment, programs and private files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_agents::Launch;

use crate::driver::AgentFolder;
use crate::world::World;
use crate::world::disk::{FileKind, parent, remove_if_present};
use crate::world::environment;
use crate::world::process;

/// Common parts of drivers of agent processes: how processes are started, what they inherit, and their limits.
#[derive(Debug, Clone)]
pub struct ProcessHost {
    world: World,
    limits: ProcessLimits,
}

/// Bounds on what an agent may print (S4, S9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Longest line that is decoded, in bytes; a longer one is only reported with its length. 1 MiB.
    pub line_bytes: usize,
    /// Limit for the messages of an agent that talks both ways, whose lines hold whole files. 16 MiB.
    pub message_bytes: usize,
    /// Largest log file, in bytes. 1 GiB.
    pub log_bytes: u64,
    /// How long output is still read after the end of the process, when something else holds the pipe. 500
    /// ms.
    pub drain: Duration,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            line_bytes: 1 << 20,
            message_bytes: 16 << 20,
            log_bytes: 1 << 30,
            drain: Duration::from_millis(500),
        }
    }
}

impl ProcessHost {
    /// Makes a host in `world`. Agents inherit the environment of `world` without the variables that [`process::child_environment`] leaves out.
    /// Variables such as `HANKWEAVE_CLAUDE_PATH` are looked up in that environment, too.
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self {
            world: world.clone(),
            limits: ProcessLimits::default(),
        }
    }

    pub(in crate::driver) fn world(&self) -> &World {
        &self.world
    }

    pub(in crate::driver) fn limits(&self) -> &ProcessLimits {
        &self.limits
    }

    /// Returns a variable of this process, even if agents do not inherit it.
    pub(in crate::driver) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.world.environment.get(name)
    }

    /// Returns all variables of an agent whose own ones are `own`.
    pub(super) fn environment(&self, own: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
        process::child_environment(&self.world.environment, own)
    }

    /// Returns the path of `folder` for an agent that works in `work_dir` with the variables `own`.
    pub(in crate::driver) fn agent_folder(
        &self,
        work_dir: &Path,
        own: &BTreeMap<String, String>,
        folder: AgentFolder,
    ) -> Option<PathBuf> {
        let environment = self.environment(own);
        folder.path(work_dir, |name| {
            environment.get(OsStr::new(name)).map(OsString::as_os_str)
        })
    }

    /// Returns the search path for programs of an agent with this environment.
    pub(in crate::driver) fn search_path(&self, launch: &Launch) -> OsString {
        let own = launch.env.get("PATH").map(OsString::from);
        own.or_else(|| self.variable("PATH").map(OsStr::to_owned))
            .unwrap_or_default()
    }

    /// The program called `name` in the folders of `path`.
    pub(in crate::driver) fn find_program(&self, name: &str, path: &OsStr) -> Option<PathBuf> {
        environment::find_program(&*self.world.disk, name, path)
    }

    /// Whether `path` leads to a regular file.
    pub(in crate::driver) fn is_file(&self, path: &Path) -> bool {
        let metadata = self.world.disk.metadata_followed(path);
        metadata.is_ok_and(|metadata| metadata.kind == FileKind::File)
    }

    /// The file of the program that is running.
    pub(in crate::driver) fn own_program(&self) -> Option<&Path> {
        self.world.environment.program()
    }

    /// The user whom agents run as.
    pub(in crate::driver) fn user_id(&self) -> u32 {
        self.world.identity.user_id()
    }

    /// Writes a file for this user alone, and replaces an existing one.
    pub(in crate::driver) fn write_private(&self, path: &Path, content: &str) -> io::Result<()> {
        let disk = &*self.world.disk;
        disk.make_private_dirs(parent(path))?;
        remove_if_present(disk, path)?;
        disk.create_new(path, content.as_bytes())
    }
}
