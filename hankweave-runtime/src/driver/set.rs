//! The drivers a runtime knows, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::program_driver::{Agent, ProgramDriver};
use super::{AgentDriver, ProcessHost, ScriptedDriver, acp, claude, codex, command, gemini, opencode, pi};

/// Agents that are programs, except the scripted one, which has a driver of its own.
static AGENTS: [&Agent; 7] = [
    &acp::AGENT,
    &claude::AGENT,
    &codex::AGENT,
    &command::AGENT,
    &gemini::AGENT,
    &opencode::AGENT,
    &pi::AGENT,
];

/// Drivers by name. A later driver replaces an earlier one with an equal name.
#[derive(Clone, Default)]
pub struct DriverSet {
    drivers: BTreeMap<String, Arc<dyn AgentDriver>>,
}

impl DriverSet {
    /// Returns the built-in drivers: `acp` and `command` (programs given in hank.json), `claude`, `codex`, `gemini`,
    /// `opencode`, `pi` and `scripted`.
    #[must_use]
    pub fn built_in(host: &ProcessHost) -> Self {
        let mut set = Self::default();
        set.insert(Arc::new(ScriptedDriver::new(host.clone())));
        for agent in AGENTS {
            let host = host.clone();
            set.insert(Arc::new(ProgramDriver { host, agent }));
        }
        set
    }

    /// Adds a driver under its own name.
    pub fn insert(&mut self, driver: Arc<dyn AgentDriver>) {
        self.drivers.insert(driver.name().to_owned(), driver);
    }

    /// The driver of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn AgentDriver>> {
        self.drivers.get(name).cloned()
    }

    /// All names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.drivers.keys().map(String::as_str)
    }
}

impl fmt::Debug for DriverSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.drivers.keys()).finish()
    }
}
