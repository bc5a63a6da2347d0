//! Details of a codon before it runs, as `validate` shows them in its tree and its JSON.

use std::fmt;

use hankweave_core::cost::pricing::Prices;
use hankweave_core::hank::{
    AgentChoice, CodonBudget, CodonConfig, ContinuationMode, Hank, LoopConfig, OnFailure, RigAction,
    RigCommand, TerminateOn, redirecting_variables,
};
use hankweave_core::id::{CodonId, LoopId};
use hankweave_core::plan::AgentList;
use hankweave_core::sentinel::{SentinelConfig, SentinelSettings};
use hankweave_runtime::hank_files::LoadedHank;
use hankweave_runtime::world::disk::RealDisk;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::asks;

/// One step of a codon: of its rig, its agent, its check or its results.
#[derive(Debug)]
pub(super) enum CodonStep {
    /// A copy of its rig.
    Copies(String),
    /// A program or shell command that a run starts.
    Starts(String),
}

impl fmt::Display for CodonStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copies(copy) => write!(f, "copies {copy}"),
            Self::Starts(command) => write!(f, "starts {command}"),
        }
    }
}

/// Writes `copies` and `spawns`, each in the order of its steps.
fn by_kind<S: Serializer>(steps: &[CodonStep], serializer: S) -> Result<S::Ok, S::Error> {
    let (mut copies, mut spawns) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            CodonStep::Copies(copy) => copies.push(copy),
            CodonStep::Starts(command) => spawns.push(command),
        }
    }
    json!({"copies": copies, "spawns": spawns}).serialize(serializer)
}

/// One codon, as `validate` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodonView<'a> {
    pub(super) codon_id: &'a CodonId,
    pub(super) name: &'a str,
    /// The loop it belongs to.
    pub(super) loop_id: Option<&'a LoopId>,
    pub(super) agent: &'a str,
    pub(super) model: Option<&'a str>,
    /// The prompt with all its files; absent when it cannot be read.
    pub(super) prompt_bytes: Option<usize>,
    /// Codons whose conversation it continues; empty if it starts one of its own.
    pub(super) continues: Vec<&'a CodonId>,
    /// Codon of whose conversation it gets a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) forks: Option<&'a CodonId>,
    pub(super) checkpointed_files: &'a [String],
    pub(super) on_failure: OnFailure,
    /// Question before it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approval: Option<String>,
    /// Limits of each of its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<&'a CodonBudget>,
    /// Its other terms, a sentence each ([`asks`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) asks: Vec<String>,
    /// Variables it sets that redirect programs or traffic (S8).
    pub(super) redirects: Vec<&'a str>,
    /// Its sentinels, with what triggers them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sentinels: Vec<String>,
    /// All that a run would copy and start for it, in order.
    #[serde(flatten, serialize_with = "by_kind")]
    pub(super) steps: Vec<CodonStep>,
}

impl<'a> CodonView<'a> {
    /// Returns all codons in the order in which they are written.
    pub(super) fn all(loaded: &'a LoadedHank, hank: &'a Hank, prices: &Prices) -> Vec<Self> {
        let mut views = Vec::new();
        let mut before = None;
        for item in &hank.items {
            let loop_id = item.as_loop().map(|found| &found.id);
            for (index, codon) in item.codons().iter().enumerate() {
                // The first codon of a loop continues the codon in front of the loop, and in later iterations the last codon of the loop.
                let last = item.codons().last().filter(|_| index == 0 && loop_id.is_some());
                let continues = [before, last.map(|codon| &codon.id)];
                let continues = continues.into_iter().flatten().collect();
                views.push(Self::of(loaded, hank, codon, prices, loop_id, continues));
                before = Some(&codon.id);
            }
            // The check of a loop runs after its last codon.
            if let (Some(check), Some(last)) = (item.as_loop().and_then(loop_check), views.last_mut()) {
                last.steps.push(CodonStep::Starts(check));
            }
        }
        views
    }

    fn of(
        loaded: &LoadedHank,
        hank: &Hank,
        codon: &'a CodonConfig,
        prices: &Prices,
        loop_id: Option<&'a LoopId>,
        before: Vec<&'a CodonId>,
    ) -> Self {
        Self {
            codon_id: &codon.id,
            name: &codon.name,
            loop_id,
            agent: codon.agent_name(),
            model: codon.model.as_deref(),
            prompt_bytes: loaded
                .prompt_text(&RealDisk, codon)
                .ok()
                .map(|prompt| prompt.text.len()),
            continues: match codon.continuation_mode {
                ContinuationMode::Fresh => Vec::new(),
                ContinuationMode::ContinuePrevious => before,
                ContinuationMode::Fork(_) => Vec::new(),
            },
            forks: match &codon.continuation_mode {
                ContinuationMode::Fork(forked) => Some(forked),
                ContinuationMode::Fresh | ContinuationMode::ContinuePrevious => None,
            },
            checkpointed_files: &codon.checkpointed_files,
            on_failure: codon.failure_policy(),
            approval: codon.approval.as_ref().map(|asked| asked.words(&codon.id)),
            budget: codon.budget.as_ref(),
            asks: asks::of_codon(hank, codon, prices),
            redirects: redirecting_variables(codon),
            sentinels: sentinels(loaded, codon),
            steps: steps(hank, codon),
        }
    }
}

/// Returns a line for each sentinel: its id, what it may do, what triggers it, and its model or command.
fn sentinels(loaded: &LoadedHank, codon: &CodonConfig) -> Vec<String> {
    let configs = codon.sentinels.iter();
    let configs = configs.filter_map(|entry| {
        let config = SentinelConfig::of(entry, &loaded.sentinels).ok()?;
        let settings = SentinelSettings::from_checked(entry.settings.clone()).ok()?;
        Some((config, settings))
    });
    let shown = configs.map(|(config, settings)| {
        let asks = match &config.command {
            Some(command) => command.join(" "),
            None => config.model_name().to_owned(),
        };
        let may: Vec<&str> = settings.may_ask.iter().map(|ask| ask.as_str()).collect();
        let may = match may.as_slice() {
            [] => String::new(),
            may => format!(", which may {} (mayAsk)", may.join(" or ")),
        };
        format!("{}{may}, on {}: {asks}", config.id, config.in_words())
    });
    shown.collect()
}

/// Returns the command at the end of each iteration.
fn loop_check(found: &LoopConfig) -> Option<String> {
    match &found.terminate_on {
        TerminateOn::UntilCheckPasses { run, .. } => Some(format!("sh -c {run:?}")),
        TerminateOn::IterationLimit { .. } | TerminateOn::ContextExceeded => None,
    }
}

/// Returns the program of the codon's agent with its arguments.
fn program(codon: &CodonConfig) -> String {
    match &codon.agent {
        Some(choice @ (AgentChoice::Command(_) | AgentChoice::Acp(_))) => choice.command().join(" "),
        Some(AgentChoice::Script { script }) => format!("hankweave, playing {script}"),
        Some(AgentChoice::Named(_)) | None => match codon.agent_name() {
            "scripted" => "hankweave, playing its own script".to_owned(),
            name => name.to_owned(),
        },
    }
}

/// Returns the programs of the codon's fallback agents.
fn fallback_programs(hank: &Hank, codon: &CodonConfig) -> Vec<CodonStep> {
    let list = AgentList::of(hank, codon);
    let fallbacks = list.iter().flat_map(AgentList::entries).flatten();
    let fallbacks = fallbacks.filter(|agent| agent.written.is_some());
    let programs = fallbacks.map(|agent| format!("{} (fallback)", program(&agent.codon)));
    programs.map(CodonStep::Starts).collect()
}

/// Returns the steps of a codon in the order of a run.
fn steps(hank: &Hank, codon: &CodonConfig) -> Vec<CodonStep> {
    let shell = |command: &RigCommand| CodonStep::Starts(format!("sh -c {:?}", command.run));
    let rig = codon.rig_setup.iter().map(|item| match &item.action {
        RigAction::Copy { copy, .. } => CodonStep::Copies(format!("{} to {}", copy.from, copy.to)),
        RigAction::Command { command } => shell(command),
    });
    let output = codon
        .output_files
        .iter()
        .flat_map(|item| &item.before_copy)
        .map(shell);
    let check = codon.check.iter();
    let check = check.map(|check| CodonStep::Starts(format!("sh -c {:?}", check.run)));
    rig.chain([CodonStep::Starts(program(codon))])
        .chain(fallback_programs(hank, codon))
        .chain(check)
        .chain(output)
        .collect()
}
