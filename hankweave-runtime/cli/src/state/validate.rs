//! `hankweave state validate`: reports the problems of the recorded state, and the document with which a start would work. `--repair` does to the
//! files what that start would do.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use hankweave_core::cost::Usd;
use hankweave_core::document::{HankweaveState, StateProblem, StateWarning, WarningContext, warnings};
use hankweave_core::id::RunId;
use hankweave_core::state::{RecoveredState, StateSource};
use hankweave_runtime::instance_lock::{Exclusion, InstanceLock, LockError, LockWorld};
use hankweave_runtime::journal::{FileJournal, JournalLimits};
use hankweave_runtime::state_manager::{self, StateManagerParts, Strictness};
use hankweave_runtime::store::StateFiles;
use hankweave_runtime::world::World;
use serde::Serialize;

use super::look;
use crate::args::{Global, StateValidateArgs};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;

pub(super) fn validate(global: &Global, args: &StateValidateArgs) -> Result<ExitCode, CliError> {
    // Read before the repair, which removes the problems to report.
    let found = look::recovered_document(&args.document)?;
    let known = look::known_checkpoints(&args.document, &found.state, args.known_checkpoints.as_deref())?;
    let context = WarningContext {
        checkpoints: known.as_deref(),
        run_folders: &look::run_folders(&args.document),
    };
    let quarantined = match args.repair {
        true => Some(repair(args)?),
        false => None,
    };
    let report = ValidationReport::of(&found, context, quarantined);
    if global.json() {
        output::print_json(&report)?;
    } else {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = report.write(&mut text);
        output::print(&text)?;
    }
    Ok(ExitCode::from(if report.valid {
        0
    } else {
        CliErrorKind::Failed.code()
    }))
}

/// Output of `--format json` (CLI-9).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationReport<'a> {
    #[serde(serialize_with = "as_text")]
    source: StateSource,
    valid: bool,
    errors: Vec<StateProblem>,
    warnings: Vec<StateWarning>,
    reset_warning: bool,
    run_ids: Vec<&'a RunId>,
    current_run_id: Option<&'a RunId>,
    costs: Costs,
    /// New paths of damaged files; only with --repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantined: Option<Vec<PathBuf>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Costs {
    /// Cost of agents in all runs, without skipped codons.
    total: Usd,
    /// Cost of agents in the current run, without skipped codons.
    current_run: Usd,
    /// Cost of agents and sentinels in all runs, with skipped codons.
    total_spend: Usd,
    /// Whether `total_spend` is a lower bound.
    is_lower_bound: bool,
}

fn as_text<S: serde::Serializer>(source: &StateSource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(source)
}

impl<'a> ValidationReport<'a> {
    fn of(found: &'a RecoveredState, context: WarningContext<'_>, quarantined: Option<Vec<PathBuf>>) -> Self {
        let state = &found.state;
        Self {
            source: found.source,
            valid: found.primary_problems.is_empty(),
            errors: found.primary_problems.clone(),
            warnings: warnings(state, context),
            reset_warning: found.history_was_reset,
            run_ids: state.runs.iter().map(|run| &run.run_id).collect(),
            current_run_id: state.current_run_id.as_ref(),
            costs: Costs::of(state),
            quarantined,
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        for StateProblem { kind, path, message } in &self.errors {
            writeln!(text, "error   {kind:<18} {path}: {message}")?;
        }
        for StateWarning { kind, path, message } in &self.warnings {
            writeln!(text, "warning {kind:<18} {path}: {message}")?;
        }
        let loaded = match self.source {
            StateSource::Primary => "state.json",
            StateSource::Backup => "the backup, state.json.bak",
            StateSource::Log => "a rebuild from the recorded events",
            StateSource::Fresh => "an empty document",
        };
        writeln!(
            text,
            "a start would work with {loaded}: {} runs, {} spent",
            self.run_ids.len(),
            self.costs.total_spend.display(self.costs.is_lower_bound)
        )?;
        if self.reset_warning {
            writeln!(text, "HISTORY WAS RESET: none of what was recorded can be read")?;
        }
        for path in self.quarantined.iter().flatten() {
            writeln!(text, "kept the damaged file as {}", path.display())?;
        }
        let verdict = if self.valid { "valid" } else { "not valid" };
        writeln!(
            text,
            "{verdict}: {} errors, {} warnings",
            self.errors.len(),
            self.warnings.len()
        )
    }
}

impl Costs {
    fn of(state: &HankweaveState) -> Self {
        Self {
            total: state.total_cost(),
            current_run: state
                .current_run()
                .map_or(Usd::ZERO, hankweave_core::document::RunRecord::codon_cost),
            total_spend: state.total_spend(),
            is_lower_bound: state.cost_is_lower_bound(),
        }
    }
}

/// Does to the files what a start would do, and returns where damaged ones are kept.
fn repair(args: &StateValidateArgs) -> Result<Vec<PathBuf>, CliError> {
    let io = |error: &(dyn std::error::Error + 'static)| CliError::from_error(CliErrorKind::Io, error);
    let state_dir = look::state_dir(&args.document);
    let world = World::real();
    let lock_world = LockWorld {
        disk: Arc::clone(&world.disk),
        clock: Arc::clone(&world.clock),
        ids: Arc::clone(&world.ids),
        identity: Arc::clone(&world.identity),
    };
    let lock =
        InstanceLock::acquire(lock_world, &state_dir, Exclusion::Required).map_err(|error| match error {
            LockError::Held { .. } => CliError::from_error(CliErrorKind::Held, &error),
            other => io(&other),
        })?;
    let journal = FileJournal::open(
        Arc::clone(&world.disk),
        &state_dir.join("events"),
        JournalLimits::default(),
    )
    .map_err(|error| io(&error))?;
    let parts = StateManagerParts {
        files: StateFiles::new(Arc::clone(&world.disk), lock.guard(), state_dir),
        journal: Arc::new(journal),
        clock: world.clock,
        ids: world.ids,
        blocking: world.blocking,
    };
    let loaded = state_manager::load(&parts, Strictness::StartOver).map_err(|error| io(&error))?;
    Ok(loaded.quarantined)
}
