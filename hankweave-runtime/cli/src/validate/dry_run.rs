//! `hankweave run --dry-run`: shows a hank as `validate` does, and the codon with which a run would start or continue, and its limits.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::Style;
use hankweave_core::budget::Ceiling;
use hankweave_core::cost::Usd;
use hankweave_core::document::HankweaveState;
use hankweave_core::plan::initial_plan;
use hankweave_core::thread::{self, Recovery};
use hankweave_core::view::{MoneyView, RunView};
use hankweave_runtime::hank_files::missing_requirements;
use hankweave_runtime::preflight::missing_agents;
use hankweave_runtime::world::disk::RealDisk;
use hankweave_runtime::world::environment::Environment;
use serde_json::json;

use super::{ValidationInput, load_input};
use crate::args::{Global, RunArgs};
use crate::directory::{holder, question_there};
use crate::plan_changes::{PlanChanges, is_rehearsal};
use crate::state::read_execution;
use crate::status::{self, outlook};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::report::duration;

/// Shows what a run would do, from where, and within which limits. The exit code is that of the run if that would be refused (CLI-29).
pub(crate) fn dry_run(global: &Global, args: &RunArgs) -> Result<ExitCode, CliError> {
    let continues = |state: &HankweaveState| !args.new && !is_rehearsal(state);
    let input = load_input(&args.hank, &args.settings, &|work| {
        read_execution(work).ok().filter(continues)
    })?;
    let (execution, state) = (&input.work, &input.state);
    let recovery = args.recover.map(Recovery::from);
    let changes = match (state, &input.loaded.hank) {
        (Some(state), Some(hank)) if args.replan => PlanChanges::anew(state, hank, recovery),
        (Some(state), Some(hank)) => PlanChanges::of(state, hank, recovery),
        _ => PlanChanges::default(),
    };
    let outlook = state
        .as_ref()
        .and_then(|state| Some((state, outlook(execution, state, input.loaded.hank.as_ref())?)));
    let next = match outlook {
        None => first_codon(&input),
        Some(_) if !changes.misfits.is_empty() => "refused: hank.json does not fit the plan".to_owned(),
        Some(_) if args.replan || changes.is_fresh => match &changes.next {
            Some(next) => format!("next: {next}"),
            None => "nothing is left to do".to_owned(),
        },
        Some((state, outlook)) => continuation(execution, state, outlook, args),
    };
    let money = state.as_ref().map_or_else(MoneyView::default, |state| {
        let money = RunView::of_state(state, &thread::build(state, None, None), 0).money;
        let newest = state.runs.front();
        MoneyView {
            at_least: money.at_least || newest.is_some_and(|run| run.spends_at_least()),
            ..money
        }
    });
    if global.json() {
        let mut document = input.as_json();
        document["next"] = json!(next);
        document["planChanges"] = json!(changes);
        document["limits"] = json!({
            "maxDollars": input.ceiling.max_dollars,
            "maxTimeSeconds": input.ceiling.max_time.map(|time| time.as_secs_f64()),
            "spentDollars": money.counted(),
            "spentIsLowerBound": money.at_least,
        });
        output::print_json(&document)?;
    } else {
        let mut text = input.as_text();
        let is_left = state.as_ref().is_none_or(|state| {
            let thread = thread::build(state, None, None);
            thread.next_codon_id.is_some() || thread.failed || thread.has_running_codon
        });
        let limits = limits(input.ceiling, input.own, money, is_left);
        // Writing to a text cannot fail.
        let _ = changes.write(&mut text);
        let _ = text.styled(Style::new().bold(), next);
        let _ = writeln!(
            text,
            "\nlimits: {limits}\nnothing was started, and nothing written"
        );
        output::print_lines(text)?;
    }
    Ok(match changes.misfits.is_empty() {
        true => exit_code(&input),
        false => ExitCode::from(CliErrorKind::Input.code()),
    })
}

/// Describes the next codon (`outlook`), and how a run continues after a failure or crash. While a process holds the directory, says that a run is
/// refused.
fn continuation(execution: &Path, state: &HankweaveState, outlook: String, args: &RunArgs) -> String {
    if let Some(holder) = holder(execution) {
        let question = question_there(execution).map_or_else(String::new, |question| format!(": {question}"));
        return format!(
            "{outlook}; a run is refused while process {} works there{question}",
            holder.pid
        );
    }
    let thread = thread::build(state, None, None);
    let is_smooth = thread.next_codon_id.is_some() || !(thread.failed || thread.has_running_codon);
    match is_smooth {
        true => outlook,
        false if args.recover.is_some() => outlook,
        false => {
            // The effect that `status` names for the command without `--recover`.
            let ways = status::ways_on(execution, state);
            let plain = ways
                .into_iter()
                .find(|(command, _)| !command.contains("--recover"));
            plain.map_or(outlook.clone(), |(_, does)| format!("{outlook}; a run {does}"))
        }
    }
}

/// Describes the first codon of a run that continues no record.
fn first_codon(input: &ValidationInput) -> String {
    let plan = input.loaded.hank.as_ref().map(initial_plan);
    let first = plan.as_ref().and_then(|plan| plan.first());
    first.map_or_else(String::new, |entry| format!("next: {}", entry.codon_id))
}

/// Returns `$5.0000, of which $1.2400 is used (in place of $2.0000 in the hank), and 15m`. `own` has the limits of the hank; with `is_left` a codon is
/// left to run.
fn limits(ceiling: Ceiling, own: Ceiling, money: MoneyView, is_left: bool) -> String {
    let dollars = ceiling
        .max_dollars
        .map(|most| match money.counted() == Usd::ZERO && !money.at_least {
            true => most.to_string(),
            false => format!(
                "{most}, of which {} is used{}",
                money.counted().display(money.at_least),
                if is_left && money.counted() >= most {
                    ", so that a run would pause at once"
                } else {
                    ""
                }
            ),
        });
    let dollars =
        dollars.map(|words| in_place_of(words, ceiling.max_dollars, own.max_dollars, ToString::to_string));
    let time = ceiling.max_time.map(duration);
    let own_time = |time: &Duration| duration(*time);
    let time = time.map(|words| in_place_of(words, ceiling.max_time, own.max_time, own_time));
    let parts: Vec<String> = dollars.into_iter().chain(time).collect();
    match parts.is_empty() {
        true => "none for all of it; --max-cost and --max-time set them".to_owned(),
        false => parts.join(", and "),
    }
}

/// Adds the limit of the hank itself to the words for the limit in force, if they differ.
fn in_place_of<T: PartialEq>(
    words: String,
    limit: Option<T>,
    own: Option<T>,
    shown: impl Fn(&T) -> String,
) -> String {
    match own.filter(|own| limit.as_ref() != Some(own)) {
        Some(own) => format!("{words} (in place of {} in the hank)", shown(&own)),
        None => words,
    }
}

/// Returns the exit code of a run that would be refused, or success.
fn exit_code(input: &ValidationInput) -> ExitCode {
    let Some(hank) = input.loaded.hank.as_ref().filter(|_| input.is_valid()) else {
        return ExitCode::from(CliErrorKind::Input.code());
    };
    let requirements = missing_requirements(hank, &Environment::of_process(), &RealDisk);
    match requirements.is_empty() && missing_agents(hank, &input.drivers).is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(CliErrorKind::Failed.code()),
    }
}
