//! Running the rig of a codon and reporting it to clients.

use hankweave_core::agent::FailureReason;
use hankweave_core::wire::Event;

use super::context::CodonRun;
use crate::rig::{Rig, RigError, RigEvent, RigFailure};
use crate::world::process::environment;

/// What runs commands for the codon, in its workspace and with its variables.
pub(super) fn rig(codon: &CodonRun<'_>) -> Rig {
    let run = codon.run;
    Rig {
        world: run.world.clone(),
        hank: run.loaded.root.clone(),
        workspace: run.dir.root().to_owned(),
        env: environment(&run.world.environment, &codon.config.env),
        marker: codon.marker(),
        deadline: Rig::DEFAULT_DEADLINE,
        grace: run.options.grace,
        ignore_failures: run.options.ignore_rig_failures,
        cancel: codon.orders.token().child_token(),
        force: codon.orders.force_token().clone(),
    }
}

/// Runs every item of the rig.
pub(super) async fn run_items(codon: &CodonRun<'_>) -> Result<(), FailureReason> {
    let (run, rig) = (codon.run, rig(codon));
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
    Err(error.reason())
}

pub(super) fn translate(codon: &CodonRun<'_>, event: RigEvent) -> Event {
    match event {
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

fn failed(codon: &CodonRun<'_>, index: usize, failure: &RigFailure, ignored: bool) -> Event {
    Event::RigSetupFailed {
        codon_id: codon.entry.codon_id.clone(),
        failure_type: failure.kind().to_owned(),
        exit_code: failure.exit_code().map(i64::from),
        command_index: Some(index),
        ignored,
    }
}
