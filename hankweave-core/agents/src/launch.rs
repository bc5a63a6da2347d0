//! Input of a driver to start an agent: the codon fills a [`Launch`], the driver turns it into arguments, and the decoder takes its settings from it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::agent::{AgentOptions, AskedResult, Permissions};
use hankweave_core::cost::Usd;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::id::SessionId;

/// One agent to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The model, as the agent names it. A driver refuses a name that could be taken for an option.
    pub model: String,
    /// The prompt, of any length. It reaches the agent through its standard input, never through an argument.
    pub prompt: String,
    /// Text that the agent adds to its own system prompt.
    pub appended_system_prompt: Option<String>,
    /// The session to continue; `None` starts a new one.
    pub resume: Option<SessionId>,
    /// Whether the agent continues a copy of the session in `resume`, under a new id. Set only for an agent whose capabilities include it.
    pub fork: bool,
    /// The codon's own environment; it overrides the one that the runtime passes on.
    pub env: BTreeMap<String, String>,
    /// Iteration of the loop that contains the codon, counted from 0; `None` outside of loops. Agents see it as `HANKWEAVE_ITERATION`.
    pub iteration: Option<u32>,
    /// Spending limit for an agent that counts its own money. The agent stops there by itself, as a second safeguard next to the codon's budget.
    pub max_dollars: Option<Usd>,
    /// Cost of the earlier processes of the session in `resume`, and of the sessions that it is a copy of; `None` for a new session.
    pub carried: Option<Usd>,
    /// Prices of models, for agents that report tokens but no money.
    pub prices: Arc<Prices>,
    /// The folder in which the agent works. It exists.
    pub work_dir: PathBuf,
    /// Path of the raw output. When the file exists, because this is a retry, the driver takes the next free name (`…-2.log`) and reports it.
    pub log_path: PathBuf,
    /// Whether to append to the file at `log_path` instead, because this is another process of the same attempt.
    pub log_goes_on: bool,
    /// Whether the agent may shorten its conversation when its context is full. Otherwise that is an error.
    pub auto_compact: bool,
    /// `TMPDIR` of the agent, created when missing; agents leave megabytes there.
    pub temp_dir: PathBuf,
    /// Script of a scripted agent; other agents ignore it.
    pub script: Option<PathBuf>,
    /// The agent's program, when it is not the one found by its name.
    pub program: Option<PathBuf>,
    /// Program and arguments of a custom agent; empty for the others.
    pub command: Vec<String>,
    /// Answers to an agent that asks before it acts; other agents ignore them.
    pub permissions: Permissions,
    /// The hank's options: effort, MCP servers and so on. Options that the driver's capabilities lack were refused before the start.
    pub options: AgentOptions,
    /// Wanted form of the answer, if any. The prompt asks for it where the agent does not take a schema.
    pub result: Option<AskedResult>,
    /// Sign-in method of an agent that accepts one, by the agent's own name for it.
    pub auth: Option<String>,
    /// Text that no other launch has, such as run, codon and attempt. Each process of the agent carries it in `HANKWEAVE_CODON`, so that escaped
    /// processes can be found.
    pub marker: String,
    /// How long the agent may take to end when it is asked to, before it is killed.
    pub grace: Duration,
}

impl Launch {
    /// The usual grace: claude needs up to 1.6 s to end a running command (AGENT-15).
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);
}
