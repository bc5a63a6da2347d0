//! Agent drivers: each starts one kind of agent and turns its output into [`AgentEvent`]s.
//!
//! A driver does not see the state. It only sends [`RunningAgent::events`], which end exactly once, with
//! [`AgentEvent::Finished`].
//!
//! [`AgentEvent`]: hankweave_core::agent::AgentEvent
//! [`AgentEvent::Finished`]: hankweave_core::agent::AgentEvent::Finished

mod agent;
mod claude;
mod command;
mod events;
mod process;
mod program;
mod scripted;
mod set;

pub use agent::{AgentControl, AgentDriver, RunningAgent, StartError};
pub use claude::ClaudeDriver;
pub use command::CommandDriver;
pub use events::{EventReceiver, EventSender, NotSent, event_channel};
pub(crate) use process::CutOff;
pub use process::{ProcessHost, ProcessLimits};
pub use scripted::{ScriptedDriver, play};
pub use set::DriverSet;
