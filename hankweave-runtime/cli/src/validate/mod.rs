//! `hankweave validate`: shows a hank as a tree, with every problem that a run of it would meet; starts nothing. `run --dry-run` and `task create` check
//! a hank in the same way.

mod asks;
mod budgets;
mod describe;
mod dry_run;
mod limits;
mod misplaced;
mod tree;
mod view;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anstyle::AnsiColor;
use hankweave_core::agent::Capabilities;
use hankweave_core::budget::Ceiling;
use hankweave_core::cost::pricing::Prices;
use hankweave_core::document::HankweaveState;
use hankweave_core::hank::{
    CodonConfig, CopyTarget, Hank, MAX_WAIT_SECONDS, Problem, Setting, Severity, copy_targets, fallback_list,
};
use hankweave_core::id::CodonId;
use hankweave_core::plan::AgentList;
use hankweave_runtime::RunOptions;
use hankweave_runtime::data::Data;
use hankweave_runtime::driver::{DriverSet, ProcessHost};
use hankweave_runtime::hank_files::{LoadedHank, missing_programs, missing_requirements};
use hankweave_runtime::preflight::{planned, planned_with_problems};
use hankweave_runtime::rig::{RigCopies, RigCopy};
use hankweave_runtime::world::disk::{Disk, FileKind, RealDisk};
use hankweave_runtime::world::environment::Environment;
use serde_json::{Value, json};

pub(crate) use self::asks::{of_loop as asked_of_loop, until};
pub(crate) use self::budgets::{of_codon as limits_of_codon, of_container as limits_of_container};
pub(crate) use self::describe::describe;
pub(crate) use self::dry_run::dry_run;
pub(crate) use self::limits::TaskLimits;
use self::misplaced::misplaced_arguments;
use self::view::CodonView;
use crate::args::{Global, HankArgs, SettingArgs, ValidateArgs};
use crate::config;
use crate::failures::load_hank;
use crate::prices;
use crate::settings::Configuration;
use crate::status::has_begun;
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::report::{counted, write_problems};
use crate::terminal::screen::{SafeText, columns_of_output, print_stderr};

/// Reads, checks and shows a hank; starts nothing and writes nothing (X8, CLI-7).
pub(super) fn validate(global: &Global, args: &ValidateArgs) -> Result<ExitCode, CliError> {
    let input = load_input(&args.hank, &args.settings, &|_| None)?;
    if global.json() {
        output::print_json(&input.as_json())?;
    } else if !global.quiet || !input.is_valid() {
        output::print_lines(input.as_text())?;
    }
    Ok(ExitCode::from(u8::from(!input.is_valid())))
}

/// Loads a hank, with everything that a run with these settings would refuse or warn about.
pub(crate) fn load_planned(hank: &Path, settings: &SettingArgs) -> Result<LoadedHank, CliError> {
    let mut loaded = load_hank(hank)?;
    plan(&mut loaded, settings)?;
    Ok(loaded)
}

/// Returns the total budget of a run of this hank with these settings.
pub(crate) fn ceiling(hank: &Path, settings: &SettingArgs) -> Result<Ceiling, CliError> {
    let (loaded, configuration) = configured(hank, settings)?;
    let ceiling = configuration.ceiling();
    Ok(match &loaded.hank {
        Some(hank) => ceiling.or_from_hank(hank),
        None => ceiling,
    })
}

/// Returns how long a run of this hank with these settings waits for usage limits.
pub(crate) fn max_wait(hank: &Path, settings: &SettingArgs) -> Result<Duration, CliError> {
    let (_, configuration) = configured(hank, settings)?;
    let seconds = configuration.number(Setting::MaxWaitSeconds);
    Ok(Duration::from_secs(seconds.unwrap_or(MAX_WAIT_SECONDS)))
}

/// Returns a hank with the settings of its runs.
fn configured(hank: &Path, settings: &SettingArgs) -> Result<(LoadedHank, Configuration), CliError> {
    let loaded = load_hank(hank)?;
    let configuration = config::resolve_trusted(loaded.hank.as_ref(), &config::flags(settings)?)?;
    Ok((loaded, configuration))
}

/// A hank as a run with these settings would find it.
struct ValidationInput {
    /// The hank, with the problems that were found.
    loaded: LoadedHank,
    drivers: DriverSet,
    /// Total budget of the run.
    ceiling: Ceiling,
    /// Total budget that the hank itself names.
    own: Ceiling,
    /// Codons whose fallbacks are left out because the scripted agent replaces all agents, each with those fallbacks.
    left_out: Vec<(CodonId, String)>,
    /// Codons whose agent options are left out because of the scripted agent, each with those options.
    options_left_out: Vec<(CodonId, String)>,
    prices: Arc<Prices>,
    /// Directory in which a run would work.
    work: PathBuf,
    /// Record that the run would continue, if there is one.
    state: Option<HankweaveState>,
}

impl ValidationInput {
    fn is_valid(&self) -> bool {
        !self.loaded.problems.has_errors()
    }

    fn as_json(&self) -> Value {
        let mut document = as_json(&self.loaded, &self.drivers, &self.prices);
        if !self.left_out.is_empty() {
            let left_out = self.left_out.iter();
            let left_out = left_out.map(|(codon, list)| json!({"codonId": codon, "fallback": list}));
            document["fallbacksLeftOut"] = left_out.collect();
        }
        if !self.options_left_out.is_empty() {
            let left_out = self.options_left_out.iter();
            let left_out = left_out.map(|(codon, options)| json!({"codonId": codon, "options": options}));
            document["optionsLeftOut"] = left_out.collect();
        }
        document
    }

    fn as_text(&self) -> SafeText {
        let mut text = as_text(&self.loaded, &self.prices);
        // A hank with errors does not run, so the line that agents run without options would be wrong.
        let options = self.options_left_out.iter().filter(|_| self.is_valid());
        for line in stand_ins(&self.left_out, options) {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

/// Reads everything that a run would meet. `continued` returns the record that a run in a directory would continue.
fn load_input(
    args: &HankArgs,
    settings: &SettingArgs,
    continued: &dyn Fn(&Path) -> Option<HankweaveState>,
) -> Result<ValidationInput, CliError> {
    let mut loaded = load_hank(&args.hank)?;
    // `plan` replaces the hank by the one with all settings, which is compared with this copy below.
    let written = loaded.readable().cloned();
    let own = written.as_ref().map(|hank| Ceiling::default().or_from_hank(hank));
    let (drivers, ceiling, prices) = plan(&mut loaded, settings)?;
    let planned = written.as_ref().zip(loaded.readable());
    let left_out = planned.map_or_else(Vec::new, |(written, planned)| {
        fallbacks_left_out(written, planned)
    });
    let options_left_out =
        planned.map_or_else(Vec::new, |(written, planned)| options_left_out(written, planned));
    let work = args.execution.clone().unwrap_or_else(|| loaded.root.clone());
    let state = continued(&work);
    if let Some(hank) = loaded.readable() {
        // What exists for a codon that has started may be the copy of its own rig.
        let is_ahead = |codon: &CodonId| !state.as_ref().is_some_and(|state| has_begun(state, codon));
        let replaced = replaced(hank, &loaded.root, &work).into_iter();
        let replaced = replaced.filter(|(codon, _)| is_ahead(codon));
        let mut problems: Vec<Problem> = replaced.map(|(_, problem)| problem).collect();
        let data = args.data.as_deref();
        problems.extend(data.and_then(|data| unusable_data(hank, data, &work)));
        problems.extend(missing_here(hank, &loaded.root));
        problems.extend(misplaced_arguments(&loaded, hank, &work));
        loaded.problems.extend(problems);
    }
    Ok(ValidationInput {
        loaded,
        drivers,
        ceiling,
        own: own.unwrap_or_default(),
        left_out,
        options_left_out,
        prices,
        work,
        state,
    })
}

/// Returns a line for each codon whose fallbacks or agent options are left out because the scripted agent plays the codon.
fn stand_ins<'a>(
    fallbacks: &'a [(CodonId, String)],
    options: impl Iterator<Item = &'a (CodonId, String)>,
) -> impl Iterator<Item = String> {
    let fallbacks = fallbacks
        .iter()
        .map(|(codon, list)| format!("{codon}: the scripted agent stands in for {list} (fallback) as well"));
    fallbacks.chain(
        options.map(|(codon, options)| format!("{codon}: the scripted agent stands in without {options}")),
    )
}

/// Returns the lines of `stand_ins` for a run of a hank with these options.
pub(crate) fn stand_ins_of_run(written: &Hank, options: &RunOptions) -> Vec<String> {
    let planned = planned(written, options);
    let (fallbacks, options) = (
        fallbacks_left_out(written, &planned),
        options_left_out(written, &planned),
    );
    stand_ins(&fallbacks, options.iter()).collect()
}

/// Returns the codons that have fallbacks in the file and none in the plan, with those fallbacks.
fn fallbacks_left_out(written: &Hank, planned: &Hank) -> Vec<(CodonId, String)> {
    let codons = written.codons().zip(planned.codons());
    let left_out = codons.filter_map(|(codon, planned_codon)| {
        let is_left_out = planned.fallbacks_of(planned_codon).is_empty();
        let list = fallback_list(written.fallbacks_of(codon)).filter(|_| is_left_out)?;
        Some((codon.id.clone(), list))
    });
    left_out.collect()
}

/// Returns the codons whose agent options do not count because the scripted agent plays them, with those options.
fn options_left_out(written: &Hank, planned: &Hank) -> Vec<(CodonId, String)> {
    let codons = written.codons().zip(planned.codons());
    let left_out = codons.filter_map(|(codon, planned_codon)| {
        let options = written.agent_options(codon).in_short();
        let options = options.filter(|_| planned_codon.agent_name() == "scripted")?;
        Some((codon.id.clone(), options))
    });
    left_out.collect()
}

/// Writes the settings into the hank as a run does, and adds the problems that the run would refuse or warn about. Returns the agent drivers, the total
/// budget and the prices of the run.
fn plan(
    loaded: &mut LoadedHank,
    settings: &SettingArgs,
) -> Result<(DriverSet, Ceiling, Arc<Prices>), CliError> {
    let configuration = config::resolve_trusted(loaded.readable(), &config::flags(settings)?)?;
    let mut options = RunOptions::default();
    options.ceiling = configuration.ceiling();
    options.prices = prices::effective_prices(&configuration)?;
    for warning in &configuration.warnings {
        print_stderr(format!("{warning}\n"));
    }
    let world = config::world(&configuration);
    let drivers = DriverSet::built_in(&ProcessHost::new(&world));
    if let Some(hank) = loaded.readable_mut() {
        configuration.write_into(hank);
    }
    let Some(hank) = loaded.readable() else {
        return Ok((drivers, options.ceiling, options.prices));
    };
    let (hank, problems) = planned_with_problems(hank, loaded, &options, &drivers, &world);
    loaded.problems.extend(problems);
    let ceiling = options.ceiling.or_from_hank(&hank);
    if let Some(readable) = loaded.readable_mut() {
        *readable = hank;
    }
    Ok((drivers, ceiling, options.prices))
}

/// Returns a warning for each file or folder in `work` that a rig would replace, with the codon of that rig (HANK-13). Unchanged copies from the hank in
/// `root` are left out.
pub(crate) fn replaced(hank: &Hank, root: &Path, work: &Path) -> Vec<(CodonId, Problem)> {
    let copies = RigCopies {
        hank: root.to_owned(),
        workspace: work.to_owned(),
        of: BTreeMap::new(),
    };
    let is_changed = |target: &CopyTarget<'_>| {
        let (from, to) = (target.from.to_owned(), PathBuf::from(target.to));
        let replace = target.replaces;
        !copies.can_take_out(&RealDisk, &RigCopy { from, to, replace })
    };
    let existing = copy_targets(hank).filter(is_changed).filter_map(|target| {
        let found = RealDisk.metadata(&work.join(target.to)).ok()?;
        let does = match (target.replaces, found.kind) {
            (true, FileKind::Directory) => "removes it with everything in it and copies again",
            (false, FileKind::Directory) => {
                "copies into it: files of the same names are replaced, and others stay"
            }
            _ => "replaces it",
        };
        let (to, work) = (target.to, work.display());
        let message = format!("`{to}` exists in `{work}`; a run that works there {does}");
        let problem = Problem::warning(&hank.places, target.place, message);
        Some((target.codon.clone(), problem))
    });
    existing.collect()
}

/// Returns an error if agents in `work` could not get the data of `--data`.
fn unusable_data(hank: &Hank, data: &Path, work: &Path) -> Option<Problem> {
    let error = Data::find(&RealDisk, data, work).err()?;
    let message = format!("--data: {}", hankweave_runtime::error::chain(&error));
    Some(Problem::error(&hank.places, "", message))
}

/// Returns a warning for each requirement and program that this machine does not have; the hank itself may be without mistakes (HANK-4).
fn missing_here(hank: &Hank, root: &Path) -> Vec<Problem> {
    let environment = Environment::of_process();
    let required = missing_requirements(hank, &environment, &RealDisk).into_iter();
    let programs = missing_programs(hank, root, &environment, &RealDisk).into_iter();
    let required = required.map(|missing| (missing, "and a run would not start"));
    let programs = programs.map(|missing| (missing, "and this command would fail"));
    let all = required.chain(programs).map(|(missing, consequence)| {
        let message = format!("{} is missing here, {consequence}", missing.what);
        Problem::warning(&hank.places, missing.place, message)
    });
    all.collect()
}

/// Returns the abilities of the hank's agents, by name.
fn agents(hank: &Hank, drivers: &DriverSet) -> BTreeMap<String, Capabilities> {
    let names = hank.codons().flat_map(|codon| names_of_agents(hank, codon));
    names
        .filter_map(|name| {
            let can = drivers.get(&name)?.capabilities();
            Some((name, can))
        })
        .collect()
}

/// Returns the names of a codon's own agent and of its fallbacks.
fn names_of_agents(hank: &Hank, codon: &CodonConfig) -> Vec<String> {
    let own = codon.agent_name().to_owned();
    let list = AgentList::of(hank, codon);
    let others = list.iter().flat_map(|list| {
        let agents = list.positions().filter_map(|position| list.entry(position));
        agents.map(|agent| agent.codon.agent_name().to_owned())
    });
    std::iter::once(own).chain(others).collect()
}

fn as_json(loaded: &LoadedHank, drivers: &DriverSet, prices: &Prices) -> Value {
    let list = |level: Severity| -> Vec<Value> {
        loaded
            .problems
            .iter()
            .filter(|problem| problem.level == level)
            .map(problem_json)
            .collect()
    };
    json!({
        "file": loaded.file,
        "valid": !loaded.problems.has_errors(),
        "errors": list(Severity::Error),
        "warnings": list(Severity::Warning),
        "agents": loaded.hank.as_ref().map(|hank| agents(hank, drivers)),
        "budget": loaded.hank.as_ref().and_then(budgets::of_hank),
        "loops": loaded.hank.iter().flat_map(budgets::loops).collect::<Vec<_>>(),
        "codons": loaded.hank.iter().flat_map(|hank| CodonView::all(loaded, hank, prices)).collect::<Vec<_>>(),
    })
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "path": problem.path,
        "line": problem.position.map(|position| position.line),
        "column": problem.position.map(|position| position.column),
        "message": problem.message,
        "hint": problem.hint,
    })
}

fn as_text(loaded: &LoadedHank, prices: &Prices) -> SafeText {
    let file = loaded.file.display().to_string();
    let mut text = SafeText::default();
    if let Some(hank) = &loaded.hank {
        // Writing to a text cannot fail.
        let _ = tree::write(&mut text, hank, &CodonView::all(loaded, hank, prices));
    }
    if !loaded.problems.is_empty() {
        let _ = write_problems(&mut text, &loaded.problems.display_in(&file), columns_of_output());
        let _ = writeln!(text);
    }
    let colour = match loaded.problems.has_errors() {
        true => AnsiColor::Red,
        false => AnsiColor::Green,
    };
    let _ = write!(text, "{file}: ");
    let _ = text.styled(colour.on_default(), verdict(loaded));
    let _ = writeln!(text);
    text
}

fn verdict(loaded: &LoadedHank) -> String {
    match loaded.problems.errors() {
        0 => format!("valid ({})", counted(loaded.problems.warnings(), "warning")),
        _ => loaded.problems.summary(),
    }
}
