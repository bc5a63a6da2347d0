//! Any program as an agent, named in hank.json: `"agent": {"command": ["my-agent", "--json"], "stream": "claude"}`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use hankweave_agents::{ClaudeDecoder, Launch};
use hankweave_core::agent::{Capabilities, CostReporting, OptionSupport};

use super::StartError;
use super::process::{ProcessHost, ProgramInvocation};
use super::program::own_arguments;
use super::program_driver::{Agent, USUAL};

const NAME: &str = "command";

/// Any program that reads the prompt from its standard input and prints the claude stream.
///
/// The program finds the model in `HANKWEAVE_MODEL`, the session to continue with in `HANKWEAVE_RESUME_SESSION`, whether to
/// continue with a copy of it in `HANKWEAVE_FORK_SESSION` (`1`), and text for the system prompt in
/// `HANKWEAVE_APPENDED_SYSTEM_PROMPT`; the last three are absent when there is nothing.
pub(super) static AGENT: Agent = Agent {
    name: NAME,
    program: None,
    capabilities: Capabilities {
        fork: true,
        cost: CostReporting::Cumulative,
        options: OptionSupport {
            args: true,
            ..OptionSupport::NONE
        },
        ..USUAL
    },
    invocation,
};

fn invocation(
    _: &ProcessHost,
    program: PathBuf,
    launch: &mut Launch,
) -> Result<ProgramInvocation, StartError> {
    let mut args = own_arguments(launch);
    args.extend(launch.options.arguments().iter().map(OsString::from));
    Ok(ProgramInvocation {
        env: environment(launch),
        ..ProgramInvocation::plain(program, args, ClaudeDecoder::of(launch).of_another_program())
    })
}

fn environment(launch: &Launch) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("HANKWEAVE_MODEL".to_owned(), launch.model.clone())]);
    if let Some(session) = &launch.resume {
        env.insert("HANKWEAVE_RESUME_SESSION".to_owned(), session.to_string());
        if launch.fork {
            env.insert("HANKWEAVE_FORK_SESSION".to_owned(), "1".to_owned());
        }
    }
    if let Some(text) = &launch.appended_system_prompt {
        env.insert("HANKWEAVE_APPENDED_SYSTEM_PROMPT".to_owned(), text.clone());
    }
    env
}
