//! Agent drivers: each starts one kind of agent and turns its output into [`AgentEvent`]s.
//!
//! A driver does not see the state. It only sends [`RunningAgent::events`], which end exactly once, with
//! [`AgentEvent::Finished`].
//!
//! [`AgentEvent`]: hankweave_core::agent::AgentEvent
//! [`AgentEvent::Finished`]: hankweave_core::agent::AgentEvent::Finished

mod acp;
mod agent;
mod claude;
mod codex;
mod command;
mod events;
mod gemini;
mod opencode;
mod pi;
mod process;
mod program;
mod recording;
mod scripted;
mod set;
mod version;

pub use acp::AcpDriver;
pub use agent::{AgentControl, AgentDriver, RunningAgent, StartError};
pub use claude::ClaudeDriver;
pub use codex::CodexDriver;
pub use command::CommandDriver;
pub use events::{EventReceiver, EventSender, NotSent, event_channel};
pub use gemini::GeminiDriver;
pub use opencode::OpencodeDriver;
pub use pi::PiDriver;
pub(crate) use process::CutOff;
pub use process::{ProcessHost, ProcessLimits};
pub use program::AgentProgram;
pub(crate) use recording::Recording;
pub use scripted::{ScriptedDriver, play};
pub use set::DriverSet;
pub use version::version_of;

use hankweave_core::agent::{
    AcpDecoder, AgentDecoder, ClaudeDecoder, CodexDecoder, GeminiDecoder, OpencodeDecoder, PiDecoder,
};
use hankweave_core::cost::pricing::Prices;

/// What the agent of this name had used that nobody heard to its end. Blocks.
///
/// # Errors
///
/// What the system says when its log cannot be read.
pub(crate) fn reckon(
    host: ProcessHost,
    name: &str,
    agent: &CutOff<'_>,
) -> std::io::Result<hankweave_core::cost::UsageTotals> {
    match name {
        acp::NAME => AcpDriver::new(host).reckon(agent),
        codex::NAME => CodexDriver::new(host).reckon(agent),
        gemini::NAME => GeminiDriver::new(host).reckon(agent),
        opencode::NAME => OpencodeDriver::new(host).reckon(agent),
        pi::NAME => PiDriver::new(host).reckon(agent),
        // The programs of others print what claude prints.
        _ => ClaudeDriver::new(host).reckon(agent),
    }
}

/// The decoder of a process of the agent of this name. That of codex does without its rollout file.
pub(crate) fn decoder(name: &str, resumed: bool) -> Box<dyn AgentDecoder> {
    match name {
        acp::NAME => Box::new(AcpDecoder::of_log(Prices::listed(), None)),
        codex::NAME => Box::new(CodexDecoder::new(resumed).unrecorded()),
        gemini::NAME => Box::new(GeminiDecoder::new()),
        opencode::NAME => Box::new(OpencodeDecoder::new(hankweave_core::agent::opencode::OWN_MODEL)),
        pi::NAME => Box::new(PiDecoder::new()),
        // The programs of others print what claude prints.
        _ => Box::new(ClaudeDecoder::new(resumed)),
    }
}
