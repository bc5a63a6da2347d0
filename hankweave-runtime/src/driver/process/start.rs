//! Starts an agent process: opens its log, spawns the program, and starts the task that owns the process (`supervise`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use hankweave_agents::{AgentDecoder, Launch};

use super::host::ProcessHost;
use super::lines::LineFramer;
use super::log::Log;
use super::output::{OutputLogger, RecordSource};
use super::passed::PieceFilter;
use super::supervise::{Supervisor, supervise};
use super::two_way::Attendant;
use crate::driver::{RunningAgent, StartError, event_channel};
use crate::world::World;
use crate::world::process::{self, CommandSpec, Stdin};

/// Lists of events that may wait for a slow receiver. If there are more, the agent is not read, so it waits at its full pipe.
const WAITING: usize = 2;

/// A program and how it is started.
#[derive(Debug)]
pub(in crate::driver) struct ProgramInvocation {
    pub(in crate::driver) program: PathBuf,
    pub(in crate::driver) args: Vec<OsString>,
    /// Additional environment variables; those of the codon override them.
    pub(in crate::driver) env: BTreeMap<String, String>,
    /// Decodes what the program prints.
    pub(in crate::driver) decoder: Box<dyn AgentDecoder>,
    /// The agent talks both ways: its decoder decides which messages it gets, the prompt among them.
    pub(in crate::driver) is_attended: bool,
    /// The program reports its usage when it is interrupted, so a stop begins with an interrupt.
    pub(in crate::driver) interrupt_first: bool,
    /// Records that the program writes itself; its decoder may need them.
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
        let World { disk, blocking, .. } = self.world();
        disk.make_private_dirs(&launch.temp_dir)
            .map_err(prepare(&launch.temp_dir))?;
        let opened = match launch.log_goes_on {
            true => Log::reopen(&**disk, &launch.log_path, self.limits().log_bytes),
            false => Log::create(&**disk, &launch.log_path, self.limits().log_bytes),
        };
        let log = opened.map_err(prepare(&launch.log_path))?;
        let log_path = log.path().to_owned();
        let interrupt_first = invocation.interrupt_first;
        let records = invocation.records.clone().map(|records| (records, *blocking));
        let program = invocation.program.clone();
        let grace = launch.grace;
        let is_attended = invocation.is_attended;
        let (spec, decoder) = self.command(launch, invocation);
        let mut process = self
            .world()
            .spawner
            .spawn(spec)
            .map_err(|source| StartError::Spawn { program, source })?;
        let (sender, events) = event_channel(WAITING);
        let attendant = process.stdin.take().map(Attendant::new);
        let line_bytes = match is_attended {
            true => self.limits().message_bytes,
            false => self.limits().line_bytes,
        };
        let logger = OutputLogger {
            log,
            // Only claude is interrupted first, and it prints pieces.
            piece_filter: interrupt_first.then(PieceFilter::default),
            framer: LineFramer::new(line_bytes),
            decoder,
            records,
            action_sender: None,
            events: sender.clone(),
        };
        let pid = process.pid;
        let control = supervise(Supervisor {
            process,
            attendant,
            logger,
            events: sender,
            drain: self.limits().drain,
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
