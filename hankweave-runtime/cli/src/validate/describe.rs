//! Description of one codon, for the user who decides on it before it starts (WIRE-52).

use std::path::Path;

use hankweave_core::document::PlannedCodon;
use hankweave_core::hank::{CodonConfig, PromptSource};
use hankweave_core::id::CodonId;
use hankweave_core::thread::prompt_values;
use hankweave_core::wire::{CodonDescription, cut_prompt};
use hankweave_runtime::world::disk::{Disk, RealDisk};
use hankweave_runtime::{ExecutionDir, inspect};

use super::tree;
use super::view::CodonView;
use crate::config::resolve;
use crate::failures::hank_failure;
use crate::prices;
use crate::settings::Flags;
use crate::state::read_execution;
use crate::terminal::exit::{CliError, CliErrorKind};

/// Keys of a codon that neither settings nor rehearsals change in the plan: a difference in them means that hank.json was edited.
const WRITTEN: [&str; 5] = ["promptText", "promptFile", "check", "budget", "rigSetup"];

/// Describes a codon of the hank that ran last in this directory; `None` if that hank has no such codon.
pub(crate) fn describe(execution: &Path, codon: &CodonId) -> Result<Option<CodonDescription>, CliError> {
    let dir = ExecutionDir::new(execution.to_owned());
    let loaded = inspect::last_hank(&RealDisk, &dir).map_err(|error| hank_failure(&error))?;
    let Some(loaded) = loaded else {
        return Ok(None);
    };
    let mistaken = || CliError::new(CliErrorKind::Input, "hank.json has mistakes now");
    let mut hank = loaded.hank.clone().ok_or_else(mistaken)?;
    let state = read_execution(execution)?;
    if state.runs.front().is_some_and(|run| run.is_rehearsal()) {
        hank.rehearse();
    }
    let prices = prices::effective_prices(&resolve(None, &Flags::new())?)?;
    let views = CodonView::all(&loaded, &hank, &prices);
    let mut codons = hank.codons().zip(views);
    let found = codons.find(|(config, _)| config.id.as_str() == codon.configured());
    Ok(found.map(|(config, view)| {
        let root = RealDisk
            .real_path(execution)
            .unwrap_or_else(|_| execution.to_owned());
        let prompt = loaded.prompt_text(&RealDisk, config).ok();
        let prompt = prompt.map(|prompt| prompt_values(&root, &hank, &state).render(&prompt.text));
        let mut plan = state.execution_plan.iter();
        let planned = plan.find(|entry| entry.codon_id.configured() == config.id.as_str());
        let planned = planned.map(|entry| &entry.codon);
        description(config, planned, prompt.as_deref(), tree::terms(&view))
    }))
}

fn description(
    config: &CodonConfig,
    planned: Option<&PlannedCodon>,
    prompt: Option<&str>,
    terms: Vec<String>,
) -> CodonDescription {
    let (prompt, original_length) = prompt.map(cut_prompt).unzip();
    CodonDescription {
        codon_id: config.id.clone(),
        agent: planned.map_or_else(|| config.agent_words(), PlannedCodon::agent_words),
        prompt,
        original_length: original_length.flatten(),
        prompt_files: match &config.prompt {
            PromptSource::Files(files) => files.clone(),
            PromptSource::Text(_) => Vec::new(),
        },
        terms,
        changed: planned.is_some_and(|planned| is_changed(planned, config)),
    }
}

/// Whether hank.json was edited since the plan: one of [`WRITTEN`] differs.
fn is_changed(planned: &PlannedCodon, config: &CodonConfig) -> bool {
    let written = PlannedCodon::from(config);
    let is_other = |key: &&str| planned.as_json().get(*key) != written.as_json().get(*key);
    WRITTEN.iter().any(is_other)
}
