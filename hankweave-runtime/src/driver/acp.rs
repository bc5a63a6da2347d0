//! A program that speaks the Agent Client Protocol as an agent: `"agent": {"acp": ["opencode", "acp"]}`.

use std::path::PathBuf;

use hankweave_agents::{AcpDecoder, Launch};
use hankweave_core::agent::{Capabilities, OptionSupport};

use super::StartError;
use super::process::{ProcessHost, ProgramInvocation};
use super::program::own_arguments;
use super::program_driver::{Agent, USUAL};

pub(super) const NAME: &str = "acp";

/// Any program that speaks the protocol, version 1, over its standard input and output. Its abilities are known only once it has answered the
/// greeting; they are checked then.
pub(super) static AGENT: Agent = Agent {
    name: NAME,
    program: None,
    capabilities: Capabilities {
        per_message_usage: false,
        // Known only after the greeting.
        fork: true,
        permissions: true,
        success: false,
        options: OptionSupport {
            mcp_servers: true,
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
    Ok(ProgramInvocation {
        is_attended: true,
        ..ProgramInvocation::plain(program, own_arguments(launch), AcpDecoder::of(launch))
    })
}
