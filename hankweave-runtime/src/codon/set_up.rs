//! Runs the rig of a codon (the set-up of its workspace), and reports rigs and check commands to clients.

use std::collections::BTreeMap;

use hankweave_core::agent::FailureReason;
use hankweave_core::document::PlanEntry;
use hankweave_core::hank::{CodonConfig, RigAction};
use hankweave_core::view::excerpt;
use hankweave_core::wire::{Event, ProgressKind};

use super::context::CodonRun;
use super::result;
use crate::rig::{Rig, RigError, RigEvent, RigFailure};
use crate::world::process::{ITERATION_VARIABLE, child_environment};

/// Returns the variables that the codon's commands get besides the inherited ones: those of the hank, and the iteration. Its agent gets these as well.
pub(crate) fn variables(config: &CodonConfig, entry: &PlanEntry) -> BTreeMap<String, String> {
    let context = entry.loop_context.as_ref();
    let iteration = context.map(|context| (ITERATION_VARIABLE.to_owned(), context.iteration.to_string()));
    iteration.into_iter().chain(config.env.clone()).collect()
}

/// Returns the runner of the codon's commands. Their variables include the path of the file with the results of codons.
pub(super) async fn rig(codon: &CodonRun<'_>) -> Rig {
    let run = codon.run;
    let mut own = variables(codon.config, codon.entry);
    own.extend(result::variable_of(codon).await);
    Rig {
        world: run.world.clone(),
        hank: run.loaded.root.clone(),
        workspace: run.dir.root().to_owned(),
        env: child_environment(&run.world.environment, &own),
        marker: codon.marker(),
        deadline: Rig::DEFAULT_DEADLINE,
        grace: run.options.grace,
        ignore_failures: run.options.ignore_rig_failures,
        cancel: codon.orders.token().child_token(),
        force: codon.orders.force_token().clone(),
    }
}

/// Runs every item of the rig, until one fails or the codon's time is used up.
pub(super) async fn run_items(codon: &CodonRun<'_>) -> Result<(), FailureReason> {
    let (run, rig) = (codon.run, rig(codon).await);
    let report = |event| run.publish(translate(codon, event));
    let work = rig.run(&codon.config.rig_setup, report);
    tokio::pin!(work);
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        _ = codon.time_is_over() => {
            rig.cancel.cancel();
            work.await
        }
    };
    let Err(error) = result else { return Ok(()) };
    if let RigError::Step { index, failure } = &error {
        run.publish(failed(codon, *index, failure, false)).await;
    }
    Err(reason(codon, &error))
}

/// Longest part of a command in the reason of a failure, in bytes.
const MOST_OF_COMMAND: usize = 100;

/// Returns the reason with the failed command, because an item of a long rig is hard to find by its number.
fn reason(codon: &CodonRun<'_>, error: &RigError) -> FailureReason {
    let reason = error.reason();
    let RigError::Step {
        index,
        failure: RigFailure::CommandFailed { .. },
    } = error
    else {
        return reason;
    };
    let Some(item) = codon.config.rig_setup.get(*index) else {
        return reason;
    };
    let command = excerpt(&words(&item.action), MOST_OF_COMMAND);
    FailureReason {
        message: reason.message.map(|message| format!("{message} (`{command}`)")),
        ..reason
    }
}

pub(super) fn translate(codon: &CodonRun<'_>, event: RigEvent) -> Event {
    match event {
        RigEvent::Began { index } => start_of_item(codon, index),
        RigEvent::Output { index, stream, line } => Event::RigOutput {
            codon_id: codon.entry.codon_id.clone(),
            stream,
            line,
            command_index: index,
        },
        RigEvent::FailureIgnored { index, failure } => failed(codon, index, &failure, true),
        RigEvent::LeftOut(path) => Event::Info {
            message: format!("`{path}` was not copied: files of git stay where they are"),
        },
    }
}

fn start_of_item(codon: &CodonRun<'_>, index: usize) -> Event {
    let items = &codon.config.rig_setup;
    let item = items.get(index);
    // The index after the last item is that of the check, which is not counted.
    let check = || codon.config.check.as_ref().map(|check| check.run.clone());
    let counted = |number: usize| item.and(u64::try_from(number).ok());
    Event::Progress {
        codon_id: Some(codon.entry.codon_id.clone()),
        kind: ProgressKind::Rig,
        subject: item.map(|item| words(&item.action)).or_else(check),
        done: counted(index),
        total: counted(items.len()),
        ends_at: None,
    }
}

fn words(action: &RigAction) -> String {
    match action {
        RigAction::Copy { copy, .. } => format!("copy {} to {}", copy.from, copy.to),
        RigAction::Command { command } => command.run.clone(),
    }
}

fn failed(codon: &CodonRun<'_>, index: usize, failure: &RigFailure, ignored: bool) -> Event {
    Event::RigSetupFailed {
        codon_id: codon.entry.codon_id.clone(),
        failure_type: failure.kind().to_owned(),
        exit_code: failure.exit_code().map(i64::from),
        command_index: Some(index),
        ignored,
    }
}
