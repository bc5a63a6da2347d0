//! A program given in hank.json as an agent: `"agent": {"command": ["my-agent", "--json"], "stream":
//! "claude"}`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use futures_util::future::{BoxFuture, FutureExt, ready};
use hankweave_core::agent::{Capabilities, ClaudeDecoder, CostReport, Launch};

use super::process::{Invocation, ProcessHost};
use super::program::{check_own_program, own_program};
use super::{AgentDriver, RunningAgent, StartError};

const NAME: &str = "command";

/// Runs any program that reads the prompt from its standard input and prints the claude stream.
///
/// The program finds the model in `HANKWEAVE_MODEL`, the session to go on with in `HANKWEAVE_RESUME_SESSION`
/// and text for the system prompt in `HANKWEAVE_APPENDED_SYSTEM_PROMPT`; the last two are absent when there
/// is nothing.
#[derive(Debug, Clone)]
pub struct CommandDriver {
    host: ProcessHost,
}

impl CommandDriver {
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
            env: environment(&launch),
            ..Invocation::plain(program, args, ClaudeDecoder::of(&launch))
        };
        self.host.run(launch, invocation)
    }
}

impl AgentDriver for CommandDriver {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            cost: CostReport::Cumulative,
            per_message_usage: true,
            interrupt: false,
            system_prompt: true,
            model_choice: true,
            permissions: false,
            success: true,
        }
    }

    fn check(&self, command: &[String]) -> Result<(), StartError> {
        check_own_program(&self.host, NAME, command)
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        ready(self.start_now(launch)).boxed()
    }
}

fn environment(launch: &Launch) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("HANKWEAVE_MODEL".to_owned(), launch.model.clone())]);
    if let Some(session) = &launch.resume {
        env.insert("HANKWEAVE_RESUME_SESSION".to_owned(), session.to_string());
    }
    if let Some(text) = &launch.appended_system_prompt {
        env.insert("HANKWEAVE_APPENDED_SYSTEM_PROMPT".to_owned(), text.clone());
    }
    env
}
