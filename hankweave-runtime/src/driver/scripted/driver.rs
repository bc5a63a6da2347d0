//! Driver of the scripted agent: starts the child process, and decodes its output like that of claude.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_agents::{ClaudeDecoder, Launch};
use hankweave_core::agent::{AskedResult, Capabilities, CostReporting};
use serde_json::Value;

use crate::driver::process::{ProcessHost, ProgramInvocation};
use crate::driver::program::check_model;
use crate::driver::program_driver::USUAL;
use crate::driver::{AgentDriver, RunningAgent, StartError};

pub(in crate::driver) const NAME: &str = "scripted";

/// Runs scripts: starts a program with the hidden subcommand `scripted-agent`, which calls
/// [`play`](super::play).
#[derive(Debug, Clone)]
pub struct ScriptedDriver {
    host: ProcessHost,
    /// Program to start; `None` for the program that is running now.
    program: Option<PathBuf>,
}

impl ScriptedDriver {
    /// A driver whose agents run on `host`, as children of the program that is running now.
    #[must_use]
    pub fn new(host: ProcessHost) -> Self {
        Self { host, program: None }
    }

    /// Uses another program that calls [`play`](super::play): for tests and for embedding.
    #[must_use]
    pub fn with_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    fn start_now(&self, launch: Launch) -> Result<RunningAgent, StartError> {
        check_model(&launch.model)?;
        let program = match launch.program.as_ref().or(self.program.as_ref()) {
            Some(program) => program.clone(),
            None => self.own_program()?,
        };
        let decoder = ClaudeDecoder::of(&launch);
        let invocation = ProgramInvocation::plain(program, arguments(&launch), decoder);
        self.host.run(launch, invocation)
    }

    fn own_program(&self) -> Result<PathBuf, StartError> {
        let program = self.host.own_program().map(Path::to_owned);
        program.ok_or_else(|| StartError::Spawn {
            program: "scripted-agent".into(),
            source: io::Error::new(
                io::ErrorKind::NotFound,
                "the running program does not know its own file",
            ),
        })
    }
}

impl AgentDriver for ScriptedDriver {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fork: true,
            cost: CostReporting::Exact,
            ..USUAL
        }
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        ready(self.start_now(launch)).boxed()
    }
}

fn arguments(launch: &Launch) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["scripted-agent".into(), "--model".into(), (&launch.model).into()];
    if let Some(session) = &launch.resume {
        let how = if launch.fork { "--fork" } else { "--resume" };
        args.extend([how.into(), session.as_str().into()]);
    }
    if let Some(script) = &launch.script {
        args.extend(["--script".into(), script.into()]);
    }
    if let Some(example) = launch.result.as_ref().and_then(AskedResult::example) {
        args.extend(["--answer".into(), Value::from(example).to_string().into()]);
    }
    args
}
