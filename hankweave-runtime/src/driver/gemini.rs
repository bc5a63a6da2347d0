//! Gemini as an agent.

use std::collections::BTreeMap;
use std::ffi::OsString;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::gemini::OWN_MODEL;
use hankweave_core::agent::{Capabilities, CostReport, GeminiDecoder, Launch};

use super::process::{Invocation, ProcessHost};
use super::program::{AgentProgram, Program, chosen_model, command_line, prompt_behind_system, session};
use super::{AgentDriver, RunningAgent, StartError};

pub(super) const NAME: &str = "gemini";

const PROGRAM: Program = Program {
    name: NAME,
    hint: "npm install -g @google/gemini-cli",
    variable: "HANKWEAVE_GEMINI_PATH",
    tested_with: &["0.61.0"],
    keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
};

/// Runs gemini.
#[derive(Debug, Clone)]
pub struct GeminiDriver {
    host: ProcessHost,
}

impl GeminiDriver {
    /// A driver whose agents run on `host`.
    #[must_use]
    pub fn new(host: ProcessHost) -> Self {
        Self { host }
    }

    fn start_now(&self, mut launch: Launch) -> Result<RunningAgent, StartError> {
        let program = PROGRAM.for_launch(&self.host, &launch)?;
        launch.prompt = prompt_behind_system(&launch);
        let invocation = Invocation {
            env: own_environment(),
            ..Invocation::plain(program, arguments(&launch), GeminiDecoder::of(&launch))
        };
        self.host.run(launch, invocation)
    }
}

impl AgentDriver for GeminiDriver {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            cost: CostReport::TokensOnly,
            per_message_usage: false,
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

/// The program starts itself again as its own child, unless it is told not to, and wants a folder to be trusted (AGENT-29).
fn own_environment() -> BTreeMap<String, String> {
    ["GEMINI_CLI_NO_RELAUNCH", "GEMINI_CLI_TRUST_WORKSPACE"]
        .map(|name| (name.to_owned(), "true".to_owned()))
        .into()
}

/// The command line. The prompt comes through standard input.
fn arguments(launch: &Launch) -> Vec<OsString> {
    command_line(
        &["--output-format", "stream-json", "--approval-mode", "yolo"],
        [
            ("--model", chosen_model(launch, OWN_MODEL, "")),
            ("--resume", session(launch)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::program::tests::launch;

    // covers: AGENT-29
    #[test]
    fn no_prompt_of_gemini_stands_on_the_command_line() {
        let line = |launch: &Launch| {
            let args = arguments(launch).join(std::ffi::OsStr::new(" "));
            args.into_string().unwrap()
        };
        let fixed = "--output-format stream-json --approval-mode yolo";
        let mut launch = launch("gemini-2.5-pro");
        assert_eq!(line(&launch), format!("{fixed} --model gemini-2.5-pro"));
        launch.resume = Some(SessionId::new("s-1").unwrap());
        launch.model = OWN_MODEL.to_owned();
        assert_eq!(line(&launch), format!("{fixed} --resume s-1"));
    }
}
