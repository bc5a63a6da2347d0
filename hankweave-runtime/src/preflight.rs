//! Checks before a run writes anything: whether the hank is sound and its agents are installed. `check` is called when a run opens its
//! directory; the public functions are for commands that report problems, such as `validate` and `doctor`.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use hankweave_core::agent::AgentOptions;
use hankweave_core::hank::{
    AgentChoice, CodonConfig, ContinuationMode, FallbackAgent, Hank, Problem, Problems, Severity,
    beyond_agents, uncounted_money, unknown_names,
};
use hankweave_core::plan::{AgentList, ListedAgent};
use hankweave_core::sentinel::model::unready_sentinels;

use crate::driver::{DriverSet, ProcessHost, StartError, overridden_sandboxes};
use crate::fallback::value_of;
use crate::hank_files::{LoadedHank, missing_requirements};
use crate::options::RunOptions;
use crate::sentinel::sentinel_problems;
use crate::world::World;
use crate::world::process::child_environment;

/// Why a hank cannot be run here; nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// The hank has errors, or names what is not here.
    #[error("the hank cannot be used\n{0}")]
    Hank(String),
    /// An agent cannot be started.
    #[error("the agent of {codon} cannot be started")]
    Agent {
        /// The codon, such as "codon `plan`"; for a fallback, its place in the file and the codon.
        codon: String,
        /// Why.
        #[source]
        source: StartError,
    },
    /// A required variable or program is missing.
    #[error("the hank requires what is not here: {0}")]
    Requirements(String),
}

/// Checks everything that needs no file of ours, and returns the hank with the options applied.
pub(crate) fn check(
    loaded: &LoadedHank,
    options: &RunOptions,
    drivers: &DriverSet,
    world: &World,
) -> Result<Hank, PreflightError> {
    let file = loaded.file.display().to_string();
    let Some(hank) = loaded.hank.as_ref().filter(|_| !loaded.problems.has_errors()) else {
        let problems = all_mistakes(loaded, options, drivers, world).display_in(&file);
        return Err(PreflightError::Hank(problems.trim_end().to_owned()));
    };
    let missing = missing_requirements(hank, &world.environment, &*world.disk);
    if !missing.is_empty() {
        let missing: Vec<String> = missing.into_iter().map(|missing| missing.what).collect();
        return Err(PreflightError::Requirements(missing.join(", ")));
    }
    let unplanned = hank;
    let hank = planned(unplanned, options);
    let problems = match options.rehearsal {
        true => refused_when_real(unplanned, loaded, options, drivers, world),
        false => {
            let mut problems = refused(&hank, options, drivers);
            problems.extend(unready(&hank, loaded, options, world));
            problems
        }
    };
    let errors = problems.iter().filter(|problem| problem.level == Severity::Error);
    let lines: Vec<String> = errors.map(|problem| problem.display_in(&file)).collect();
    if !lines.is_empty() {
        return Err(PreflightError::Hank(lines.join("\n")));
    }
    for (place, codon) in all_agents(&hank) {
        check_agent(&codon, drivers).map_err(|source| PreflightError::Agent {
            codon: match place.contains("fallback") {
                true => format!("`{place}`, for codon `{}`,", codon.id),
                false => format!("codon `{}`", codon.id),
            },
            source,
        })?;
    }
    Ok(hank)
}

/// Returns the problems of a hank that cannot be used: those of its text and files, and all others for which a run would be refused (HANK-1).
#[must_use]
pub fn all_mistakes(
    loaded: &LoadedHank,
    options: &RunOptions,
    drivers: &DriverSet,
    world: &World,
) -> Problems {
    let options = RunOptions {
        rehearsal: false,
        ..options.clone()
    };
    let mut problems = loaded.problems.clone();
    if let Some(hank) = loaded.readable() {
        let (_, others) = planned_with_problems(hank, loaded, &options, drivers, world);
        let errors = others
            .into_iter()
            .filter(|problem| problem.level == Severity::Error);
        problems.extend(errors);
    }
    problems
}

/// Returns the hank as a run would use it, and the problems for which that run would be refused or would warn. Problems that
/// may only follow from those in `loaded` are left out.
#[must_use]
pub fn planned_with_problems(
    hank: &Hank,
    loaded: &LoadedHank,
    options: &RunOptions,
    drivers: &DriverSet,
    world: &World,
) -> (Hank, Vec<Problem>) {
    let mut hank = hank.clone();
    let unknown = leave_agents_unknown(&mut hank, &loaded.problems);
    let hank = planned(&hank, options);
    let mut problems = refused(&hank, options, drivers);
    problems.extend(missing_agents(&hank, drivers));
    problems.extend(unready(&hank, loaded, options, world));
    // An unreadable agent or model of all codons may be the cause of every other problem.
    let paths_for_all = ["overrides.agent", "overrides.model"];
    if paths_for_all
        .iter()
        .any(|path| loaded.problems.has_error_at(path))
    {
        return (hank, Vec::new());
    }
    problems.retain(|problem| {
        let is_consequence = unknown.contains(&problem.path) || loaded.problems.has_error_at(&problem.path);
        !is_consequence
    });
    (hank, problems)
}

/// Stands for the name of an agent that could not be read.
const UNREADABLE: &str = "no-readable-agent";

/// Gives each codon whose own agent could not be read the agent [`UNREADABLE`], and returns the paths of these agents.
fn leave_agents_unknown(hank: &mut Hank, known: &Problems) -> BTreeSet<String> {
    let paths: Vec<String> = hank.located_codons().map(|(path, _)| path).collect();
    let mut unknown = BTreeSet::new();
    for (path, codon) in paths.into_iter().zip(hank.codons_mut()) {
        let agent = format!("{path}.agent");
        // Without `agent`, the name of the model determines the agent.
        let is_unreadable = known.has_error_at(&agent) || codon.model.is_none();
        if codon.agent.is_none() && is_unreadable {
            codon.agent = Some(AgentChoice::Named(UNREADABLE.to_owned()));
            unknown.insert(agent);
        }
    }
    unknown
}

/// Returns the problems of a rehearsed hank for which a real run would be refused. Programs and keys are not checked: a rehearsal does without them.
fn refused_when_real(
    hank: &Hank,
    loaded: &LoadedHank,
    options: &RunOptions,
    drivers: &DriverSet,
    world: &World,
) -> Vec<Problem> {
    let options = RunOptions {
        rehearsal: false,
        ..options.clone()
    };
    let hank = planned(hank, &options);
    let mut problems = refused(&hank, &options, drivers);
    problems.extend(long_system_prompts(&hank, loaded, world));
    problems
}

/// Returns the hank as a run with these options would use it.
#[must_use]
pub fn planned(hank: &Hank, options: &RunOptions) -> Hank {
    let mut hank = hank.clone();
    if options.rehearsal {
        hank.rehearse();
    }
    let overrides = hank.overrides.clone().unwrap_or_default();
    let scripted = options
        .rehearsal
        .then(|| AgentChoice::Named("scripted".to_owned()));
    let agent = scripted
        .as_ref()
        .or(options.agent.as_ref())
        .or(overrides.agent.as_ref());
    let model = options.model.as_ref().or(overrides.model.as_ref());
    for codon in hank.codons_mut() {
        codon.override_with(agent, model);
    }
    // The scripted agent replaces every agent, also those of the fallbacks.
    if agent.is_some_and(|agent| agent.name() == "scripted") {
        hank.leave_out_fallbacks();
        hank.leave_out_agent_options();
    }
    hank
}

/// Returns the problems of a planned hank, each with its place. Those for which a run is refused are errors, the others warnings.
#[must_use]
pub fn refused(hank: &Hank, options: &RunOptions, drivers: &DriverSet) -> Vec<Problem> {
    let names: Vec<&str> = drivers.names().collect();
    let overrides = hank.overrides.as_ref();
    let agent_for_all = options.agent.as_ref().or_else(|| overrides?.agent.as_ref());
    if let Some(agent) = agent_for_all
        .map(AgentChoice::name)
        .filter(|agent| !names.contains(agent))
    {
        let message = format!("the agent of every codon: no agent is called `{agent}`");
        let hint = format!("there are {}", names.join(", "));
        return vec![Problem::error(&hank.places, "", message).with_hint(hint)];
    }
    let ceiling = options.ceiling.or_from_hank(hank);
    let mut problems = unknown_names(hank, &names, &options.prices);
    let can = |agent: &str| Some(drivers.get(agent)?.capabilities());
    problems.extend(beyond_agents(hank, can));
    problems.extend(older_agents(hank, drivers));
    problems.extend(uncounted_money(hank, &options.prices, ceiling.max_dollars, can));
    problems.extend(problems_of_fallbacks(hank, &problems, |hank| {
        let mut problems = unknown_names(hank, &names, &options.prices);
        problems.extend(beyond_agents(hank, can));
        problems.extend(uncounted_money(hank, &options.prices, ceiling.max_dollars, can));
        problems
    }));
    problems
}

/// Returns the problems of fallbacks that are not among the `known_problems` of the hank.
///
/// For each position in the lists of agents (0 is a codon's own agent), every codon gets its agent at that position in place of its own, and
/// `find_problems` checks the changed hank. The problems get the places of the fallbacks.
fn problems_of_fallbacks(
    hank: &Hank,
    known_problems: &[Problem],
    find_problems: impl Fn(&Hank) -> Vec<Problem>,
) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for position in 1.. {
        let (mut changed_hank, mut places) = (hank.clone(), Vec::new());
        let mut is_in_a_list = false;
        for ((path, codon), replaced) in hank.located_codons().zip(changed_hank.codons_mut()) {
            let Some(list) = AgentList::of(hank, codon) else {
                continue;
            };
            is_in_a_list |= list.positions().any(|other| other >= position);
            if let Some(agent) = list.entry(position).cloned() {
                places.push((path, fallback_place(hank, codon, &agent)));
                *replaced = agent.codon;
                // Another agent begins a new session with a summary, so nothing is forked.
                if replaced.agent_name() != codon.agent_name()
                    && matches!(replaced.continuation_mode, ContinuationMode::Fork(_))
                {
                    replaced.continuation_mode = ContinuationMode::Fresh;
                }
            }
        }
        if !is_in_a_list {
            break;
        }
        for problem in find_problems(&changed_hank) {
            let is_known = known_problems
                .iter()
                .any(|known| known.path == problem.path && known.message == problem.message);
            let is_inside = |path: &str| {
                problem
                    .path
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.starts_with('.'))
            };
            let place = places
                .iter()
                .find(|(path, _)| is_inside(path))
                .map(|(_, place)| place);
            // A problem outside of all codons keeps its place, such as a limit of several codons against which an agent's money cannot be counted.
            let place = place.unwrap_or(&problem.path).clone();
            let hint = match place == problem.path {
                true => problem.hint,
                false => problem.hint.map(|hint| hint_at(&problem.path, &hint)),
            };
            let moved = Problem {
                level: problem.level,
                hint,
                ..Problem::error(&hank.places, place, problem.message)
            };
            if !is_known && !problems.contains(&moved) {
                problems.push(moved);
            }
        }
    }
    problems
}

/// Returns the hint for a fallback's problem at `path`. If it is about neither the agent nor the model, `path` is a key of the codon: the hint names it, and
/// adds that it counts for every agent of the list.
fn hint_at(path: &str, hint: &str) -> String {
    let key = path.rsplit('.').next().unwrap_or_default();
    match key {
        "agent" | "model" => hint.to_owned(),
        _ => format!("{hint}; `{path}` counts for every agent of the list"),
    }
}

/// Returns the path of a fallback: in the codon's own list, or in that of the hank.
fn fallback_place(hank: &Hank, codon: &CodonConfig, agent: &ListedAgent<'_>) -> String {
    let path = hank.located_codons().find(|(_, other)| other.id == codon.id);
    let list = match (&codon.fallback, path) {
        (Some(_), Some((path, _))) => format!("{path}.fallback"),
        _ => "overrides.fallback".to_owned(),
    };
    match agent.written {
        Some((index, _)) => format!("{list}[{index}]"),
        None => list,
    }
}

/// All agents of a planned hank: of each codon its own and its fallbacks, with their places.
fn all_agents(hank: &Hank) -> impl Iterator<Item = (String, CodonConfig)> {
    hank.located_codons().flat_map(move |(path, codon)| {
        let own = match codon.agent {
            Some(_) => format!("{path}.agent"),
            None => format!("{path}.model"),
        };
        let list = AgentList::of(hank, codon);
        let others: Vec<(String, CodonConfig)> = list.map_or_else(Vec::new, |list| {
            let others = list
                .positions()
                .skip(1)
                .filter_map(|position| list.entry(position));
            let others = others.map(|agent| (fallback_place(hank, codon, agent), agent.codon.clone()));
            others.collect()
        });
        std::iter::once((own, codon.clone())).chain(others)
    })
}

/// Variables that fallbacks name and that are not set here.
fn missing_variables(hank: &Hank, world: &World) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for codon in hank.codons() {
        let Some(list) = AgentList::of(hank, codon) else {
            continue;
        };
        for agent in list.positions().filter_map(|position| list.entry(position)) {
            let Some((_, entry)) = agent.written else {
                continue;
            };
            for (name, value) in &entry.env {
                let variable = FallbackAgent::variable(value);
                let Some(variable) = variable.filter(|name| value_of(name, &world.environment).is_none())
                else {
                    continue;
                };
                let place = format!("{}.env.{name}", fallback_place(hank, codon, agent));
                let problem = Problem::error(&hank.places, place, format!("`{variable}` is not set here"));
                let problem = problem.with_hint(format!("export {variable}=…"));
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
    }
    problems
}

/// Returns problems of codons that need an ability of their agent (options, a schema, a fork) when the installed program is older than every
/// version with which that ability was measured (AGENT-60). A program whose version is unknown counts as new.
fn older_agents(hank: &Hank, drivers: &DriverSet) -> Vec<Problem> {
    let older = hank.located_codons().filter_map(|(path, codon)| {
        let agent = codon.agent_name();
        let driver = drivers.get(agent)?;
        let can = driver.capabilities();
        let takes_schema = codon.result.as_ref().is_some_and(|asked| can.result.takes(asked));
        let forks = matches!(codon.continuation_mode, ContinuationMode::Fork(_));
        if hank.agent_options(codon) == AgentOptions::default() && !takes_schema && !forks {
            return None;
        }
        let program = driver.program()?;
        let (version, oldest) = (program.version?, *program.tested_with.first()?);
        if numbers(&version) >= numbers(oldest) {
            return None;
        }
        let place = match codon.agent {
            Some(_) => format!("{path}.agent"),
            None => format!("{path}.model"),
        };
        let message = format!(
            "agent `{agent}` is {version} here, and what this codon asks of it was measured with {oldest} and newer"
        );
        let hint = "install a newer one, or leave out effort, permissions, isolate, mcpServers, args, result and fork";
        Some(Problem::error(&hank.places, place, message).with_hint(hint))
    });
    older.collect()
}

/// Returns the leading numbers of a version, for comparison: `[1, 2, 3]` of `1.2.3-beta`.
fn numbers(version: &str) -> Vec<u64> {
    let words = version.split(['.', '-', '+']);
    words.map_while(|word| word.parse().ok()).collect()
}

/// Returns one warning for each reason why an agent of a planned hank cannot be started here, at the place of the first agent with this reason.
#[must_use]
pub fn missing_agents(hank: &Hank, drivers: &DriverSet) -> Vec<Problem> {
    let mut reported_causes = BTreeSet::new();
    let missing = all_agents(hank).filter_map(|(place, codon)| {
        let why = crate::error::chain(&check_agent(&codon, drivers).err()?);
        let message = format!("{why}; a run would not start");
        reported_causes
            .insert(why)
            .then(|| Problem::warning(&hank.places, place, message))
    });
    missing.collect()
}

/// Longest system prompt for an agent that is a program of the hank's author, in bytes. The prompt is passed in a variable, and Linux takes 128 KiB for one,
/// its name included.
const MAX_SYSTEM_PROMPT: usize = (128 << 10) - 64;

/// Returns problems that only show on this machine: sentinels that cannot be loaded, missing variables, overridden
/// sandboxes and system prompts that are too long. A sentinel that cannot be loaded is a warning, or an error if the hank
/// needs it.
#[must_use]
pub fn unready(hank: &Hank, loaded: &LoadedHank, options: &RunOptions, world: &World) -> Vec<Problem> {
    let limited = options.ceiling.or_from_hank(hank).max_dollars.is_some();
    let mut problems = unready_sentinels(
        hank,
        &loaded.sentinels,
        &options.prices,
        limited,
        // The value of a variable in the environment of a codon; `None` without one, or if it is empty.
        |codon, name| {
            let variables = child_environment(&world.environment, &codon.env);
            let value = variables.get(OsStr::new(name))?.to_str()?;
            (!value.is_empty()).then(|| value.to_owned())
        },
    );
    problems.extend(missing_variables(hank, world));
    problems.extend(sentinel_problems(hank, loaded, world));
    problems.extend(overridden_sandboxes(hank, &ProcessHost::new(world)));
    problems.extend(long_system_prompts(hank, loaded, world));
    problems
}

/// Returns the system prompts that are longer than [`MAX_SYSTEM_PROMPT`], of codons whose agent is a program of the author's.
fn long_system_prompts(hank: &Hank, loaded: &LoadedHank, world: &World) -> Vec<Problem> {
    let runs_command = |codon: &CodonConfig| matches!(codon.agent, Some(AgentChoice::Command(_)));
    let command_codons = hank.located_codons().filter(|(_, codon)| runs_command(codon));
    let long = command_codons.filter_map(|(path, codon)| {
        // A file that cannot be read is reported elsewhere.
        let length = loaded.system_prompt(&*world.disk, codon).ok()??.len();
        (length > MAX_SYSTEM_PROMPT).then(|| {
            let message = format!(
                "its system prompt has {length} bytes; a program of one's own gets at most {MAX_SYSTEM_PROMPT}, in one variable"
            );
            Problem::error(&hank.places, path, message)
                .with_hint("shorten it, or move the rest to `promptFile`, which has no such limit")
        })
    });
    long.collect()
}

/// Checks the agent of a codon. An unknown agent is reported elsewhere.
fn check_agent(codon: &CodonConfig, drivers: &DriverSet) -> Result<(), StartError> {
    let Some(driver) = drivers.get(codon.agent_name()) else {
        return Ok(());
    };
    let command = codon.agent.as_ref().map_or(&[][..], AgentChoice::command);
    driver.check(command)
}
