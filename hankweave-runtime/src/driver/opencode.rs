//! Opencode as an agent.

use std::ffi::OsString;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::opencode::OWN_MODEL;
use hankweave_core::agent::{Capabilities, CostReport, Launch, OpencodeDecoder};

use super::process::{Invocation, ProcessHost};
use super::program::{AgentProgram, Program, chosen_model, command_line, prompt_behind_system, session};
use super::{AgentDriver, RunningAgent, StartError};

pub(super) const NAME: &str = "opencode";

const PROGRAM: Program = Program {
    name: NAME,
    hint: "npm install -g opencode-ai",
    variable: "HANKWEAVE_OPENCODE_PATH",
    tested_with: &["1.18.33"],
    keys: &[
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
    ],
};

/// Runs opencode.
#[derive(Debug, Clone)]
pub struct OpencodeDriver {
    host: ProcessHost,
}

impl OpencodeDriver {
    /// A driver whose agents run on `host`.
    #[must_use]
    pub fn new(host: ProcessHost) -> Self {
        Self { host }
    }

    fn start_now(&self, mut launch: Launch) -> Result<RunningAgent, StartError> {
        let program = PROGRAM.for_launch(&self.host, &launch)?;
        launch.prompt = prompt_behind_system(&launch);
        let invocation = Invocation::plain(program, arguments(&launch), OpencodeDecoder::of(&launch));
        self.host.run(launch, invocation)
    }
}

impl AgentDriver for OpencodeDriver {
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

/// The command line. The prompt comes through standard input. With a title nobody asks a model for one, whose cost no line would tell (AGENT-28).
fn arguments(launch: &Launch) -> Vec<OsString> {
    command_line(
        &[
            "run",
            "--format",
            "json",
            "--auto",
            "--thinking",
            "--title",
            "hankweave",
        ],
        [
            ("--model", chosen_model(launch, OWN_MODEL, "")),
            ("--session", session(launch)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;

    // covers: AGENT-28
    #[test]
    fn no_prompt_of_opencode_stands_on_the_command_line() {
        let line = |launch: &Launch| {
            let args = arguments(launch).join(std::ffi::OsStr::new(" "));
            args.into_string().unwrap()
        };
        let fixed = "run --format json --auto --thinking --title hankweave";
        let mut launch = launch("anthropic/claude-sonnet-4-5");
        assert_eq!(
            line(&launch),
            format!("{fixed} --model anthropic/claude-sonnet-4-5")
        );
        launch.resume = Some(SessionId::new("ses_1").unwrap());
        launch.model = OWN_MODEL.to_owned();
        assert_eq!(line(&launch), format!("{fixed} --session ses_1"));
    }
}
