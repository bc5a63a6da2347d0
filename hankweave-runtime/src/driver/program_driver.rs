//! The driver of all agents that are programs ([`ProgramDriver`]), and the properties in which they differ ([`Agent`]).

use std::path::PathBuf;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_agents::Launch;
use hankweave_core::agent::{Capabilities, ResultSupport};

use super::process::{ProcessHost, ProgramInvocation};
use super::program::{Program, check_own_program, own_program};
use super::{AgentDriver, AgentProgram, RunningAgent, StartError};

/// Properties that set an agent apart from the others.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: &'static str,
    /// `None` when a hank names the program.
    pub(super) program: Option<Program>,
    pub(super) capabilities: Capabilities,
    /// Returns how its program is started for a launch; may change the prompt and the variables of the launch.
    pub(super) invocation: fn(&ProcessHost, PathBuf, &mut Launch) -> Result<ProgramInvocation, StartError>,
}

/// Abilities of most agents.
pub(super) const USUAL: Capabilities = Capabilities {
    resume: true,
    per_message_usage: true,
    system_prompt: true,
    model_choice: true,
    result: ResultSupport::Prompt,
    ..Capabilities::NONE
};

/// Runs the program of an agent.
#[derive(Debug)]
pub(super) struct ProgramDriver {
    pub(super) host: ProcessHost,
    pub(super) agent: &'static Agent,
}

impl ProgramDriver {
    fn start_now(&self, mut launch: Launch) -> Result<RunningAgent, StartError> {
        let program = match &self.agent.program {
            Some(program) => program.for_launch(&self.host, &launch)?,
            None => own_program(&self.host, self.agent.name, &launch)?,
        };
        let invocation = (self.agent.invocation)(&self.host, program, &mut launch)?;
        self.host.run(launch, invocation)
    }
}

impl AgentDriver for ProgramDriver {
    fn name(&self) -> &str {
        self.agent.name
    }

    fn capabilities(&self) -> Capabilities {
        self.agent.capabilities
    }

    fn check(&self, command: &[String]) -> Result<(), StartError> {
        match &self.agent.program {
            Some(program) => program.find(&self.host, None).map(drop),
            None => check_own_program(&self.host, self.agent.name, command),
        }
    }

    fn program(&self) -> Option<AgentProgram> {
        let program = self.agent.program.as_ref()?;
        Some(program.describe(&self.host))
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        ready(self.start_now(launch)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::claude;
    use crate::driver::program::tests::launch;
    use crate::world::World;
    use crate::world::environment::Environment;

    async fn refusal(environment: Environment, launch: Launch) -> StartError {
        let host = ProcessHost::new(&World::with_environment(environment));
        let agent = &claude::AGENT;
        ProgramDriver { host, agent }.start(launch).await.unwrap_err()
    }

    // covers: S7
    #[tokio::test]
    async fn a_model_that_looks_like_an_option_is_refused() {
        let error = refusal(Environment::default(), launch("--help")).await;
        assert!(matches!(
            error,
            StartError::UnsafeArgument {
                what: "model name",
                ..
            }
        ));
    }

    #[tokio::test]
    async fn a_missing_program_is_explained() {
        let environment = Environment::from_iter([("PATH", "/nowhere/bin")]);
        let error = refusal(environment, launch("claude-sonnet-4-5")).await;
        assert_eq!(
            error.to_string(),
            "agent program `claude` was not found in PATH (/nowhere/bin); install it \
             (npm install -g @anthropic-ai/claude-code) or set HANKWEAVE_CLAUDE_PATH to its path"
        );
    }
}
