//! A program that speaks the Agent Client Protocol as an agent: `"agent": {"acp": ["opencode", "acp"]}`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::{AcpDecoder, Capabilities, CostReport, Launch};
use hankweave_core::cost::UsageTotals;

use super::process::{CutOff, Invocation, ProcessHost};
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
        let invocation = Invocation {
            program: own_program(&self.host, program, &launch),
            args: args.iter().map(OsString::from).collect(),
            env: BTreeMap::new(),
            decoder: Box::new(AcpDecoder::of(&launch)),
            is_attended: true,
            interrupt_first: false,
            records: None,
        };
        self.host.run(launch, invocation)
    }

    /// What an agent had used that nobody heard to its end. Blocks.
    ///
    /// # Errors
    ///
    /// What the system says when its log cannot be read.
    pub(super) fn reckon(&self, agent: &CutOff<'_>) -> io::Result<UsageTotals> {
        let mut decoder =
            AcpDecoder::of_log(agent.prices.clone(), agent.resumed.then(|| agent.session.clone()));
        self.host.reckon(agent, &mut decoder, None)
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
