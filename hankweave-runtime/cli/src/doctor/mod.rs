//! `hankweave doctor`: checks whether agents, keys, machine, directory and hank are ready for a run.

mod agents;
mod machine;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use hankweave_core::hank::{self, Hank, Problem};
use hankweave_runtime::RunOptions;
use hankweave_runtime::driver::{DriverSet, ProcessHost};
use hankweave_runtime::hank_files::{
    self, LoadHankError, LoadedHank, missing_programs, missing_requirements,
};
use hankweave_runtime::preflight::{missing_agents, planned, unready};
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::environment::Environment;
use serde::Serialize;
use serde_json::json;

use crate::args::{DoctorArgs, Global};
use crate::config;
use crate::failures::{hank_failure, with_conversions};
use crate::settings::{Configuration, Flags};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::report::counted;
use crate::terminal::screen::SafeText;

/// Checks everything that a run needs; starts no agent and writes nothing (CLI-26).
pub(crate) fn doctor(global: &Global, args: &DoctorArgs) -> Result<ExitCode, CliError> {
    let loaded = read(args)?;
    let hank = loaded.as_ref().and_then(|loaded| loaded.hank.as_ref());
    let configuration = config::resolve_trusted(hank, &Flags::new())?;
    let world = config::world(&configuration);
    let drivers = DriverSet::built_in(&ProcessHost::new(&world));
    let execution = match (&args.execution, &loaded) {
        (Some(execution), _) => execution.clone(),
        (None, Some(loaded)) => loaded.root.clone(),
        (None, None) => ".".into(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let mut findings = runtime.block_on(agents::check_agents(&world, &drivers));
    findings.extend(machine::directory(&execution));
    findings.extend(machine::record(&execution, configuration.max_disk()));
    findings.extend(machine::limits());
    findings.extend(machine::system());
    findings.push(prices(&configuration)?);
    if let (Some(loaded), Some(hank)) = (&loaded, hank) {
        let mut options = RunOptions::default();
        options.ceiling = configuration.ceiling();
        options.prices = crate::prices::effective_prices(&configuration)?;
        let mut hank = hank.clone();
        configuration.write_into(&mut hank);
        let hank = planned(&hank, &options);
        findings.extend(check_needs(&hank, &loaded.root, &drivers));
        findings.extend(
            unready(&hank, loaded, &options, &world)
                .into_iter()
                .map(sentinel_finding),
        );
    }
    let ready = !findings.iter().any(|finding| finding.level == CheckStatus::Error);
    match global.json() {
        true => output::print_json(&json!({"ready": ready, "findings": findings})).map(drop)?,
        false => output::print_lines(as_text(&findings))?,
    }
    Ok(ExitCode::from(u8::from(!ready)))
}

/// Reads the hank that the arguments name, or else the hank of this folder; `None` if this folder has none. Fails for a hank with errors.
fn read(args: &DoctorArgs) -> Result<Option<LoadedHank>, CliError> {
    let path = args.hank.as_deref().unwrap_or(Path::new("."));
    let loaded = match hank_files::load(path) {
        Err(LoadHankError::NoHankInFolder { .. }) if args.hank.is_none() => return Ok(None),
        loaded => with_conversions(loaded.map_err(|error| hank_failure(&error))?),
    };
    if loaded.hank.is_some() && !loaded.problems.has_errors() {
        return Ok(Some(loaded));
    }
    let problems = loaded.problems.display_in(&loaded.file.display().to_string());
    Err(CliError::new(CliErrorKind::Input, problems.trim_end().to_owned()))
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    /// Group of checks, such as `agents`; its findings are printed together.
    area: &'static str,
    name: String,
    level: CheckStatus,
    /// Result in words.
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckStatus {
    Ok,
    /// Worth knowing, but no problem.
    Note,
    /// A problem that may affect a run.
    Warning,
    /// A run would not start, or not here.
    Error,
}

impl CheckStatus {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    fn style(self) -> Style {
        let colour = match self {
            Self::Ok => AnsiColor::Green,
            Self::Note => AnsiColor::Cyan,
            Self::Warning => AnsiColor::Yellow,
            Self::Error => AnsiColor::Red,
        };
        Style::new().fg_color(Some(colour.into()))
    }
}

impl Finding {
    fn new(
        area: &'static str,
        name: impl Into<String>,
        level: CheckStatus,
        found: impl Into<String>,
    ) -> Self {
        Self {
            area,
            name: name.into(),
            level,
            found: found.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Age of the price list, in days, after which models may well cost something else.
const OLD_PRICES: u64 = 90;

/// Checks the age of the price list.
fn prices(configuration: &Configuration) -> Result<Finding, CliError> {
    let prices = crate::prices::effective_prices(configuration)?;
    let finding = |level, found: String| Finding::new("prices", "list", level, found);
    let Some(days) = machine::days_since(prices.as_of()) else {
        return Ok(finding(CheckStatus::Ok, prices.as_of().to_owned()));
    };
    let found = format!("of {}, {} old", prices.as_of(), counted(days as usize, "day"));
    Ok(match days > OLD_PRICES {
        false => finding(CheckStatus::Ok, found),
        true => finding(CheckStatus::Warning, found)
            .hint("compare `hankweave prices` with the providers' lists; --prices FILE lays others over it"),
    })
}

/// Returns the unmet requirements of this hank, or that there are none.
fn check_needs(hank: &Hank, root: &Path, drivers: &DriverSet) -> Vec<Finding> {
    let need = |level, found: String| Finding::new("hank", "needs", level, found);
    let environment = Environment::of_process();
    let agents = missing_agents(hank, drivers)
        .into_iter()
        .map(|problem| problem.message);
    let requirements = missing_requirements(hank, &environment, &RealDisk);
    let requirements = requirements
        .into_iter()
        .map(|missing| format!("{} is missing", missing.what));
    let errors = agents
        .chain(requirements)
        .map(|found| need(CheckStatus::Error, found));
    let programs = missing_programs(hank, root, &environment, &RealDisk).into_iter();
    let warnings = programs.map(|missing| {
        let found = format!("{} is missing (`{}`)", missing.what, missing.place);
        need(CheckStatus::Warning, found)
    });
    let found: Vec<Finding> = errors.chain(warnings).collect();
    match found.is_empty() {
        true => vec![need(CheckStatus::Ok, "everything is here".to_owned())],
        false => found,
    }
}

fn sentinel_finding(problem: Problem) -> Finding {
    let level = match problem.level {
        hank::Severity::Error => CheckStatus::Error,
        hank::Severity::Warning => CheckStatus::Warning,
    };
    let finding = Finding::new("hank", "sentinels", level, problem.message);
    match problem.hint {
        Some(hint) => finding.hint(hint),
        None => finding,
    }
}

fn as_text(findings: &[Finding]) -> SafeText {
    let mut text = SafeText::default();
    let width = findings
        .iter()
        .map(|finding| finding.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut area = "";
    // Writing to a text cannot fail.
    for finding in findings {
        if finding.area != area {
            area = finding.area;
            let _ = text.styled(Style::new().bold(), area);
            let _ = writeln!(text);
        }
        let _ = write!(text, "  ");
        let _ = text.styled(finding.level.style(), format_args!("{:<7}", finding.level.word()));
        let _ = writeln!(text, "  {:<width$}  {}", finding.name, finding.found);
        if let Some(hint) = &finding.hint {
            let _ = writeln!(text, "{:width$}             hint: {hint}", "");
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (errors, warnings) = (count(CheckStatus::Error), count(CheckStatus::Warning));
    let _ = writeln!(
        text,
        "{}, {}",
        counted(errors, "error"),
        counted(warnings, "warning")
    );
    text
}
