//! Gemini as an agent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::gemini::OWN_MODEL;
use hankweave_core::agent::{Capabilities, CostReport, GeminiDecoder, Launch};
use hankweave_core::cost::UsageTotals;

use super::process::{CutOff, Invocation, ProcessHost};
use super::program::{AgentProgram, Program, check_argument, check_model, prompt_behind_system};
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
        check_model(&launch.model)?;
        if let Some(session) = &launch.resume {
            check_argument("session id", session.as_str())?;
        }
        let program = PROGRAM.find(&self.host, Some(&launch))?;
        launch.prompt = prompt_behind_system(&launch);
        let invocation = Invocation {
            program,
            args: arguments(&launch),
            env: own_environment(),
            decoder: Box::new(GeminiDecoder::of(&launch)),
            is_attended: false,
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
        let mut decoder = GeminiDecoder::new().priced_by(agent.prices.clone());
        self.host.reckon(agent, &mut decoder, None)
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
    let fixed = ["--output-format", "stream-json", "--approval-mode", "yolo"];
    let mut args: Vec<OsString> = fixed.map(OsString::from).into();
    if launch.model != OWN_MODEL {
        args.extend(["--model", launch.model.as_str()].map(OsString::from));
    }
    if let Some(session) = &launch.resume {
        args.extend(["--resume", session.as_str()].map(OsString::from));
    }
    args
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
