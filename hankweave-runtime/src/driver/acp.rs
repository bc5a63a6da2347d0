//! A program that speaks the Agent Client Protocol as an agent: `"agent": {"acp": ["opencode", "acp"]}`.

use std::ffi::OsString;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::{AcpDecoder, Capabilities, CostReport, Launch};

use super::process::{Invocation, ProcessHost};
use super::program::{check_own_program, own_program};
use super::{AgentDriver, RunningAgent, StartError};

pub(super) const NAME: &str = "acp";

/// Runs any program that speaks the Agent Client Protocol, version 1, over its standard input and output.
#[derive(Debug, Clone)]
pub struct AcpDriver {
    host: ProcessHost,
}

impl AcpDriver {
    /// A driver whose agents run on `host`.
    #[must_use]
    pub fn new(host: ProcessHost) -> Self {
        Self { host }
    }

    fn start_now(&self, launch: Launch) -> Result<RunningAgent, StartError> {
        let Some((program, args)) = launch.command.split_first() else {
            return Err(StartError::NoCommand {
                agent: NAME.to_owned(),
            });
        };
        let program = own_program(&self.host, program, &launch);
        let args = args.iter().map(OsString::from).collect();
        let invocation = Invocation {
            is_attended: true,
            ..Invocation::plain(program, args, AcpDecoder::of(&launch))
        };
        self.host.run(launch, invocation)
    }
}

impl AgentDriver for AcpDriver {
    fn name(&self) -> &str {
        NAME
    }

    /// What a program offers is known when it has been greeted; it is asked for it then.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            cost: CostReport::Unknown,
            per_message_usage: false,
            interrupt: false,
            system_prompt: true,
            model_choice: true,
            permissions: true,
            success: false,
        }
    }

    fn check(&self, command: &[String]) -> Result<(), StartError> {
        check_own_program(&self.host, NAME, command)
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        ready(self.start_now(launch)).boxed()
    }
}
