//! The seam between the runtime and agents: the trait of drivers, which start agents, and the handle of a running agent.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_agents::Launch;
use hankweave_core::agent::Capabilities;

use super::events::EventReceiver;

/// Runs one kind of agent.
pub trait AgentDriver: Send + Sync + 'static {
    /// Name used in hank.json (`"agent": "my-agent"`).
    fn name(&self) -> &str;

    /// Returns the abilities of its agents. A run refuses a hank that wants more of them.
    fn capabilities(&self) -> Capabilities;

    /// Finds out whether an agent could be started, without starting anything; asked before a run writes its
    /// first byte.
    ///
    /// `command` is the program and the arguments of a custom agent; empty for the others.
    ///
    /// # Errors
    ///
    /// Returns what [`start`](Self::start) would return.
    fn check(&self, command: &[String]) -> Result<(), StartError> {
        let _ = command;
        Ok(())
    }

    /// The program that it starts; `None` for a driver without one of its own.
    fn program(&self) -> Option<AgentProgram> {
        None
    }

    /// Starts one agent. Returns as soon as it is started; everything else comes as its events.
    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>>;
}

/// The program of an agent as it is on this machine.
#[derive(Debug)]
pub struct AgentProgram {
    /// Path of the program, or why it cannot be started.
    pub path: Result<PathBuf, StartError>,
    /// Its version, according to its package; `None` if no package is found.
    pub version: Option<String>,
    /// The versions with which our tests run it, oldest first.
    pub tested_with: &'static [&'static str],
    /// Variables with keys that it takes; it may be signed in without any.
    pub keys: &'static [&'static str],
}

/// An agent that was started. Dropping it kills the agent and everything it started.
pub struct RunningAgent {
    /// The process id; `None` for an agent that is not a process.
    pub pid: Option<u32>,
    /// Path of the raw output; another path than [`Launch::log_path`] on a retry.
    pub log_path: PathBuf,
    /// The events of the agent. Bounded: an agent waits for a slow receiver. The last one is
    /// [`AgentEvent::Finished`].
    ///
    /// [`AgentEvent::Finished`]: hankweave_core::agent::AgentEvent::Finished
    pub events: EventReceiver,
    /// Stops the agent.
    pub control: Box<dyn AgentControl>,
}

impl fmt::Debug for RunningAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningAgent")
            .field("pid", &self.pid)
            .field("log_path", &self.log_path)
            .finish_non_exhaustive()
    }
}

/// The handle that stops an agent.
pub trait AgentControl: Send + Sync {
    /// Asks the agent to end, waits up to `grace`, kills it, and returns when neither it nor a descendant is
    /// left. The remaining events, [`AgentEvent::Finished`](hankweave_core::agent::AgentEvent::Finished)
    /// among them, are still in [`RunningAgent::events`]; they need not be read for the stop to work.
    /// Does nothing if the agent has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the stop.
    fn stop<'a>(&'a self, grace: Duration) -> BoxFuture<'a, ()>;
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program is not installed where it was looked for.
    #[error(
        "agent program `{program}` was not found in {searched}; install it ({hint}) or set {variable} to its path"
    )]
    ProgramNotFound {
        /// The program's name.
        program: String,
        /// Searched path.
        searched: String,
        /// How it is installed.
        hint: &'static str,
        /// The environment variable that overrides the search.
        variable: &'static str,
    },
    /// The program of a custom agent is not on `PATH`.
    #[error("the program `{program}` was not found on PATH")]
    CommandNotFound {
        /// The program's name.
        program: String,
    },
    /// A custom agent has no command.
    #[error("agent `{agent}` has no command to run")]
    NoCommand {
        /// The driver's name.
        agent: String,
    },
    /// A value for the command line could be mistaken for an option.
    #[error(
        "{what} `{value}` cannot be passed to an agent: letters, digits and `._:/-` only, a letter or digit first"
    )]
    UnsafeArgument {
        /// Kind of value.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// A file or folder the agent needs could not be made.
    #[error("failed to create `{path}` for the agent")]
    Prepare {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The operating system did not start the program.
    #[error("failed to start agent program `{program}`")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}
