//! Options of a run: what `Builder::options` takes besides the hank.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hankweave_agents::Launch;
use hankweave_core::budget::Ceiling;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::hank::{AgentChoice, MAX_WAIT_SECONDS};
pub use hankweave_core::thread::Recovery;

use crate::instance_lock::Exclusion;
use crate::invocation::Invocation;

/// How a run behaves, apart from its hank.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// Replaces the agent of every codon.
    pub agent: Option<AgentChoice>,
    /// Replaces the model of every codon.
    pub model: Option<String>,
    /// Start from the first codon and keep the history.
    pub fresh: bool,
    /// Rehearse the hank: every codon runs with the scripted agent, rigs run, checks count as passed and approvals as given, and a loop makes one pass. No run
    /// continues the record of a rehearsal, so the rehearsal needs a directory of its own; a directory with the record of a run is refused.
    pub rehearsal: bool,
    /// Make the plan after the newest codon again from the present hank, instead of continuing with the recorded plan (STATE-45).
    pub replan: bool,
    /// Stop instead of starting over when the recorded history cannot be read (P6).
    pub strict_state: bool,
    /// Continue when an item of a rig fails.
    pub ignore_rig_failures: bool,
    /// Behaviour where the file system cannot lock.
    pub exclusion: Exclusion,
    /// How long an agent may take to end when it is asked to, before it is killed.
    pub grace: Duration,
    /// Position to continue from when the newest codon failed, was interrupted, or crashed. With
    /// `None` the run continues in the session after a pause, with the files as they are after a failed rig, and otherwise at the last success.
    pub recovery: Option<Recovery>,
    /// Whether codons start by themselves and the run ends with the last one. Otherwise each codon waits for
    /// [`RunCommand::Next`](crate::RunCommand::Next).
    pub autostart: bool,
    /// Whether a client or user can send commands: then a failure that another attempt could repair does not end the run.
    pub attended: bool,
    /// Whether a client or user can answer questions for approval as long as the run lasts.
    pub answers: bool,
    /// Total budget. Its money and its time each replace those of the hank.
    pub ceiling: Ceiling,
    /// Prices of models, for agents that report tokens but no money.
    pub prices: Arc<Prices>,
    /// Longest time that the run waits for the end of a provider's usage limit; waits of one codon without a
    /// success in between are added up.
    pub max_wait: Duration,
    /// Limit of the bytes that the record (`.hankweave`) takes. From four fifths of the limit on, unneeded data is removed between codons and a warning is
    /// published; at the limit the run pauses (RUN-40).
    pub max_disk: Option<u64>,
    /// Data that agents may read as `read_only_data_source`: a file or a folder.
    pub data: Option<PathBuf>,
    /// Whether clients get the content of files that change, if it is text of at most 64 KiB. The
    /// journal keeps it.
    pub file_contents: bool,
    /// Directory of results; without it `outputFiles` stay in the workspace.
    pub output: Option<OutputDirectory>,
    /// The command line that started the run, if there was one: it is recorded for hints of later commands about the
    /// execution directory.
    pub invocation: Option<Invocation>,
}

/// Directory that the files of `outputFiles` are copied to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputDirectory {
    /// Made when it does not exist.
    pub path: PathBuf,
    /// Whether to replace a file with an equal name. Otherwise the new file gets another name.
    pub overwrite: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            agent: None,
            model: None,
            fresh: false,
            rehearsal: false,
            replan: false,
            strict_state: false,
            ignore_rig_failures: false,
            exclusion: Exclusion::Required,
            grace: Launch::DEFAULT_GRACE,
            recovery: None,
            autostart: true,
            attended: false,
            answers: false,
            ceiling: Ceiling::default(),
            prices: Prices::listed(),
            max_wait: Duration::from_secs(MAX_WAIT_SECONDS),
            max_disk: None,
            data: None,
            file_contents: false,
            output: None,
            invocation: None,
        }
    }
}
