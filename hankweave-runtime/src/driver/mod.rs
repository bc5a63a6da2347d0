//! Agent drivers: each starts one kind of agent and turns its output into [`AgentEvent`]s.
//!
//! `codon` starts an agent with [`AgentDriver::start`]. A driver does not see the state of the run. It only sends
//! [`RunningAgent::events`], which end exactly once, with [`AgentEvent::Finished`].
//!
//! [`AgentEvent`]: hankweave_core::agent::AgentEvent
//! [`AgentEvent::Finished`]: hankweave_core::agent::AgentEvent::Finished

mod acp;
mod agent;
mod claude;
mod codex;
mod command;
mod ended_agents;
mod events;
mod folder;
mod gemini;
mod opencode;
mod pi;
mod process;
mod program;
mod program_driver;
mod recording;
mod scripted;
mod set;
mod version;

pub use agent::{AgentControl, AgentDriver, AgentProgram, RunningAgent, StartError};
pub(crate) use codex::{overridden_sandbox, overridden_sandboxes};
pub(crate) use ended_agents::{decoder, final_usage};
pub use events::{EventReceiver, EventSender, NotSent, event_channel};
pub use folder::AgentFolder;
pub(crate) use process::{CutOffAgent, LogContext};
pub use process::{ProcessHost, ProcessLimits};
pub(crate) use recording::Recording;
pub use scripted::{ScriptedDriver, play};
pub use set::DriverSet;
pub use version::version_of;
