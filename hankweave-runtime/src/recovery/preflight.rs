//! What can be found out before anything is written: is the hank sound, are its agents there?

use hankweave_core::hank::{AgentChoice, CodonConfig, Hank, unsupported};

use crate::driver::{DriverSet, StartError};
use crate::embed::RunOptions;
use crate::hank_files::{LoadedHank, missing_requirements};
use crate::world::World;

/// Why a hank cannot be run here; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// The hank has errors, or names what this version cannot do.
    #[error("{0}")]
    Hank(String),
    /// A codon names an agent that nobody registered.
    #[error("codon `{codon}` wants the agent `{agent}`, which is not known (known: {known})")]
    UnknownAgent {
        /// The codon.
        codon: String,
        /// The agent that it names.
        agent: String,
        /// The agents that there are.
        known: String,
    },
    /// An agent cannot be started.
    #[error("the agent of codon `{codon}` cannot be started")]
    Agent {
        /// The codon.
        codon: String,
        /// Why.
        #[source]
        source: StartError,
    },
    /// A required variable or program is missing.
    #[error("the hank requires what is not here: {0}")]
    Requirements(String),
}

/// Checks everything that needs no file of ours, and hands the hank out with the options applied.
pub(super) fn check(
    loaded: &LoadedHank,
    options: &RunOptions,
    drivers: &DriverSet,
    world: &World,
) -> Result<Hank, PreflightError> {
    let file = loaded.file.display().to_string();
    let Some(hank) = loaded.hank.as_ref().filter(|_| !loaded.problems.has_errors()) else {
        return Err(PreflightError::Hank(
            loaded.problems.display_in(&file).to_string(),
        ));
    };
    let later = unsupported(hank);
    if !later.is_empty() {
        let lines: Vec<String> = later
            .iter()
            .map(|problem| problem.display_in(&file).to_string())
            .collect();
        return Err(PreflightError::Hank(lines.join("\n")));
    }
    let missing = missing_requirements(hank, &world.environment, &*world.disk);
    if !missing.is_empty() {
        let missing: Vec<String> = missing.into_iter().map(|missing| missing.what).collect();
        return Err(PreflightError::Requirements(missing.join(", ")));
    }
    let mut hank = hank.clone();
    let everywhere = hank
        .overrides
        .as_ref()
        .and_then(|overrides| overrides.model.clone());
    for codon in hank.codons_mut() {
        apply_options(codon, options, everywhere.as_ref());
    }
    for codon in hank.codons() {
        check_agent(codon, drivers)?;
    }
    Ok(hank)
}

/// `--agent` and `--model`, or the model `everywhere` of the hank's overrides, replace those of every codon; a script stays with its codon when the
/// agent is the scripted one anyway.
fn apply_options(codon: &mut CodonConfig, options: &RunOptions, everywhere: Option<&String>) {
    if let Some(agent) = &options.agent
        && codon.agent_name() != agent
    {
        codon.agent = Some(AgentChoice::Named(agent.clone()));
    }
    if let Some(model) = options.model.as_ref().or(everywhere) {
        codon.model = Some(model.clone());
    }
}

fn check_agent(codon: &CodonConfig, drivers: &DriverSet) -> Result<(), PreflightError> {
    let agent = codon.agent_name();
    let Some(driver) = drivers.get(agent) else {
        return Err(PreflightError::UnknownAgent {
            codon: codon.id.to_string(),
            agent: agent.to_owned(),
            known: drivers.names().collect::<Vec<_>>().join(", "),
        });
    };
    let command: &[String] = match &codon.agent {
        Some(AgentChoice::Command(custom)) => &custom.command,
        Some(AgentChoice::Named(_) | AgentChoice::Script { .. }) | None => &[],
    };
    driver.check(command).map_err(|source| PreflightError::Agent {
        codon: codon.id.to_string(),
        source,
    })
}
