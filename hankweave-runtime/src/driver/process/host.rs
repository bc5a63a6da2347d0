//! Host of agent processes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::agent::{AgentDecoder, Launch};

use super::attend::{AcpHost, AgentEnvironment};
use super::lines::LineFramer;
use super::log::Log;
use super::output::{OutputLogger, RecordSource};
use super::passed::PieceFilter;
use super::supervise::{Supervisor, supervise};
use crate::driver::{RunningAgent, StartError, event_channel};
use crate::world::World;
use crate::world::disk::{FileKind, parent, remove_if_present};
use crate::world::environment;
use crate::world::process::{self, CommandSpec, Stdin};

/// Lists of events that may wait for a slow receiver; then the agent waits at its pipe.
const WAITING: usize = 2;

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

/// A program and how it is started.
#[derive(Debug)]
pub(in crate::driver) struct ProgramInvocation {
    pub(in crate::driver) program: PathBuf,
    pub(in crate::driver) args: Vec<OsString>,
    /// Overridden by the codon's own environment.
    pub(in crate::driver) env: BTreeMap<String, String>,
    /// Decodes what the program prints.
    pub(in crate::driver) decoder: Box<dyn AgentDecoder>,
    /// The agent talks both ways: its decoder gives orders, the prompt among them.
    pub(in crate::driver) is_attended: bool,
    /// The program reports its usage when it is interrupted, so a stop begins with an interrupt.
    pub(in crate::driver) interrupt_first: bool,
    /// Records that the program writes itself, which its decoder may want.
    pub(in crate::driver) records: Option<Arc<dyn RecordSource>>,
}

impl ProgramInvocation {
    /// A program that reads its prompt, prints lines, and ends.
    pub(in crate::driver) fn plain(
        program: PathBuf,
        args: Vec<OsString>,
        decoder: impl AgentDecoder + 'static,
    ) -> Self {
        Self {
            program,
            args,
            env: BTreeMap::new(),
            decoder: Box::new(decoder),
            is_attended: false,
            interrupt_first: false,
            records: None,
        }
    }
}

impl ProcessHost {
    /// A host in `world`. Agents inherit its environment, but for what [`process::environment`] leaves out;
    /// it is also where `HANKWEAVE_CLAUDE_PATH` is looked up.
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

    /// A variable of this process, before anything is left out.
    pub(in crate::driver) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.world.environment.get(name)
    }

    /// All variables of an agent that has these of its own.
    fn environment(&self, own: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
        process::environment(&self.world.environment, own)
    }

    /// The folder in which such an agent keeps what is its own: the one that a variable names, else the usual one in the user's home.
    pub(in crate::driver) fn agent_folder(
        &self,
        work_dir: &Path,
        own: &BTreeMap<String, String>,
        (variable, usual): (&str, &str),
    ) -> Option<PathBuf> {
        let environment = self.environment(own);
        let value = |name: &str| environment.get(OsStr::new(name));
        match value(variable).filter(|folder| !folder.is_empty()) {
            Some(folder) => Some(work_dir.join(folder)),
            None => Some(PathBuf::from(value("HOME")?).join(usual)),
        }
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

    /// Writes a new file for this user alone, or replaces the one that is there.
    pub(in crate::driver) fn write_private(&self, path: &Path, content: &str) -> io::Result<()> {
        let disk = &*self.world.disk;
        disk.make_private_dirs(parent(path))?;
        remove_if_present(disk, path)?;
        disk.create_new(path, content.as_bytes())
    }

    /// Starts a program that reads the prompt from its standard input and prints what the decoder of its
    /// invocation understands.
    pub(in crate::driver) fn run(
        &self,
        launch: Launch,
        invocation: ProgramInvocation,
    ) -> Result<RunningAgent, StartError> {
        let prepare = |path: &PathBuf| {
            let path = path.clone();
            move |source| StartError::Prepare { path, source }
        };
        let World { disk, blocking, .. } = &self.world;
        disk.make_private_dirs(&launch.temp_dir)
            .map_err(prepare(&launch.temp_dir))?;
        let opened = match launch.log_goes_on {
            true => Log::go_on(&**disk, &launch.log_path, self.limits.log_bytes),
            false => Log::create(&**disk, &launch.log_path, self.limits.log_bytes),
        };
        let log = opened.map_err(prepare(&launch.log_path))?;
        let log_path = log.path().to_owned();
        let interrupt_first = invocation.interrupt_first;
        let records = invocation.records.clone().map(|records| (records, *blocking));
        let program = invocation.program.clone();
        let grace = launch.grace;
        let is_attended = invocation.is_attended;
        let (spec, decoder) = self.command(launch, invocation);
        let place = AgentEnvironment {
            work_dir: spec.work_dir.clone(),
            env: spec.env.clone(),
            marker: spec.marker.clone(),
        };
        let mut process = self
            .world
            .spawner
            .spawn(spec)
            .map_err(|source| StartError::Spawn { program, source })?;
        let (sender, events) = event_channel(WAITING);
        let input = process.stdin.take();
        let attendant = input.map(|input| AcpHost::new(self, input, place));
        let line_bytes = match is_attended {
            true => self.limits.message_bytes,
            false => self.limits.line_bytes,
        };
        let logger = OutputLogger {
            log,
            passed: interrupt_first.then(PieceFilter::default),
            framer: LineFramer::new(line_bytes),
            decoder,
            records,
            orders: None,
            events: sender.clone(),
        };
        let pid = process.pid;
        let control = supervise(Supervisor {
            process,
            attendant,
            logger,
            events: sender,
            drain: self.limits.drain,
            blocking: *blocking,
            grace,
            interrupt_first,
        });
        Ok(RunningAgent {
            pid: Some(pid),
            log_path,
            events,
            control: Box::new(control),
        })
    }

    fn command(&self, launch: Launch, invocation: ProgramInvocation) -> (CommandSpec, Box<dyn AgentDecoder>) {
        let mut own = invocation.env;
        own.insert(
            "TMPDIR".to_owned(),
            launch.temp_dir.to_string_lossy().into_owned(),
        );
        if let Some(iteration) = launch.iteration {
            own.insert(process::ITERATION_VARIABLE.to_owned(), iteration.to_string());
        }
        own.extend(launch.env);
        let spec = CommandSpec {
            program: invocation.program,
            args: invocation.args,
            env: self.environment(&own),
            work_dir: launch.work_dir,
            stdin: match invocation.is_attended {
                true => Stdin::Open,
                false => Stdin::Bytes(launch.prompt.into_bytes()),
            },
            marker: launch.marker,
        };
        (spec, invocation.decoder)
    }
}
