//! Pi as an agent.

use std::ffi::OsString;
use std::path::Path;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::pi::OWN_MODEL;
use hankweave_core::agent::{Capabilities, CostReport, Launch, PiDecoder};

use super::process::{Invocation, ProcessHost};
use super::program::{AgentProgram, Program, chosen_model, command_line, session, system_prompt_file};
use super::{AgentDriver, RunningAgent, StartError};

pub(super) const NAME: &str = "pi";

const PROGRAM: Program = Program {
    name: NAME,
    hint: "npm install -g @earendil-works/pi-coding-agent",
    variable: "HANKWEAVE_PI_PATH",
    tested_with: &["0.73.1", "0.87.0"],
    keys: &[
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
    ],
};

/// Runs pi.
#[derive(Debug, Clone)]
pub struct PiDriver {
    host: ProcessHost,
}

impl PiDriver {
    /// A driver whose agents run on `host`.
    #[must_use]
    pub fn new(host: ProcessHost) -> Self {
        Self { host }
    }

    fn start_now(&self, launch: Launch) -> Result<RunningAgent, StartError> {
        let program = PROGRAM.for_launch(&self.host, &launch)?;
        let system_prompt = system_prompt_file(&self.host, &launch)?;
        let args = arguments(&launch, system_prompt.as_deref());
        let invocation = Invocation::plain(program, args, PiDecoder::of(&launch));
        self.host.run(launch, invocation)
    }
}

impl AgentDriver for PiDriver {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            cost: CostReport::Exact,
            per_message_usage: true,
            interrupt: false,
            system_prompt: true,
            model_choice: true,
            permissions: false,
            success: true,
        }
    }

    fn check(&self, _: &[String]) -> Result<(), StartError> {
        PROGRAM.find(&self.host, None).map(drop)
    }

    fn program(&self) -> Option<AgentProgram> {
        Some(PROGRAM.described(&self.host))
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        ready(self.start_now(launch)).boxed()
    }
}

/// The command line. The prompt comes through standard input.
fn arguments(launch: &Launch, system_prompt: Option<&Path>) -> Vec<OsString> {
    command_line(
        &["-p", "--mode", "json"],
        [
            ("--model", chosen_model(launch, OWN_MODEL, "pi/")),
            ("--session", session(launch)),
            ("--append-system-prompt", system_prompt.map(Path::as_os_str)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;

    // covers: AGENT-20
    #[test]
    fn no_prompt_of_pi_stands_on_the_command_line() {
        let line = |launch: &Launch, system: Option<&Path>| {
            let args = arguments(launch, system).join(std::ffi::OsStr::new(" "));
            args.into_string().unwrap()
        };
        let mut launch = launch("pi/google/gemini-3");
        assert_eq!(line(&launch, None), "-p --mode json --model google/gemini-3");
        launch.resume = Some(SessionId::new("s-1").unwrap());
        launch.model = OWN_MODEL.to_owned();
        assert_eq!(
            line(&launch, Some(Path::new("/p"))),
            "-p --mode json --session s-1 --append-system-prompt /p"
        );
    }
}
