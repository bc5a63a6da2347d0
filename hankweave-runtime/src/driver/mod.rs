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
mod past;
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
pub(crate) use past::{Past, decoder, reckon};
pub use pi::PiDriver;
pub(crate) use process::CutOff;
pub use process::{ProcessHost, ProcessLimits};
pub use program::AgentProgram;
pub(crate) use recording::Recording;
pub use scripted::{ScriptedDriver, play};
pub use set::DriverSet;
pub use version::version_of;
