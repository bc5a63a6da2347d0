//! Pi as an agent.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::pi::OWN_MODEL;
use hankweave_core::agent::{Capabilities, CostReport, Launch, PiDecoder};
use hankweave_core::cost::UsageTotals;

use super::process::{CutOff, Invocation, ProcessHost};
use super::program::{AgentProgram, Program, check_argument, check_model, system_prompt_file};
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
        check_model(&launch.model)?;
        if let Some(session) = &launch.resume {
            check_argument("session id", session.as_str())?;
        }
        let program = PROGRAM.find(&self.host, Some(&launch))?;
        let system_prompt = system_prompt_file(&self.host, &launch)?;
        let invocation = Invocation {
            program,
            args: arguments(&launch, system_prompt.as_deref()),
            env: BTreeMap::new(),
            decoder: Box::new(PiDecoder::of(&launch)),
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
        let mut decoder = PiDecoder::new().priced_by(agent.prices.clone());
        self.host.reckon(agent, &mut decoder, None)
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
    let mut args: Vec<OsString> = ["-p", "--mode", "json"].map(OsString::from).into();
    if launch.model != OWN_MODEL {
        let model = launch.model.strip_prefix("pi/").unwrap_or(&launch.model);
        args.extend(["--model", model].map(OsString::from));
    }
    if let Some(session) = &launch.resume {
        args.extend(["--session", session.as_str()].map(OsString::from));
    }
    if let Some(path) = system_prompt {
        args.extend([OsStr::new("--append-system-prompt"), path.as_os_str()].map(OsString::from));
    }
    args
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
            let args = arguments(launch, system).join(OsStr::new(" "));
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
