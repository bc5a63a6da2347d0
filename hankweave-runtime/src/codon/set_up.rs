//! Running the rig of a codon and telling clients about it.

use hankweave_core::agent::FailureReason;
use hankweave_core::hank;
use hankweave_core::wire::Event;
use tokio::sync::mpsc;

use super::context::CodonRun;
use crate::rig::{Rig, RigAction, RigError, RigEvent, RigFailure, RigStep, WorkingDirectory};
use crate::world::process::environment;

/// Lines of rig commands that may wait for the journal; a command that prints faster waits.
const LINES: usize = 256;

/// Runs every item of the rig.
pub(super) async fn run_items(codon: &CodonRun<'_>) -> Result<(), FailureReason> {
    let run = codon.run;
    let rig = Rig {
        spawner: run.world.spawner.clone(),
        disk: run.world.disk.clone(),
        blocking: run.world.blocking,
        hank: run.loaded.root.clone(),
        workspace: run.dir.root().to_owned(),
        env: environment(&run.world.environment, &codon.config.env),
        marker: codon.marker(),
        deadline: Rig::DEFAULT_DEADLINE,
        grace: run.options.grace,
        force: codon.orders.force_token().clone(),
    };
    let steps: Vec<RigStep> = codon
        .config
        .rig_setup
        .iter()
        .map(|item| step(codon, item))
        .collect();
    let (sender, mut events) = mpsc::channel(LINES);
    let halt = codon.orders.token().child_token();
    let work = async {
        let result = rig.run(&steps, &sender, &halt).await;
        drop(sender);
        result
    };
    let tell = async {
        while let Some(event) = events.recv().await {
            if let Some(event) = translate(codon, event) {
                run.tell(event).await;
            }
        }
    };
    let done = async { tokio::join!(work, tell).0 };
    tokio::pin!(done);
    let result = tokio::select! {
        biased;
        result = &mut done => result,
        _ = codon.time_is_over() => {
            halt.cancel();
            done.await
        }
    };
    let Err(error) = result else { return Ok(()) };
    if let RigError::Step { index, failure } = &error {
        run.tell(failed(codon, *index, failure, false)).await;
    }
    Err(error.reason())
}

fn step(codon: &CodonRun<'_>, item: &hank::RigItem) -> RigStep {
    let action = match &item.action {
        hank::RigAction::Copy { copy, replace } => RigAction::Copy {
            from: copy.from.clone(),
            to: copy.to.clone().into(),
            replace: *replace,
        },
        hank::RigAction::Command { command } => RigAction::Command {
            run: command.run.clone(),
            working_directory: match command.working_directory {
                hank::WorkingDirectory::Project => WorkingDirectory::Project,
                hank::WorkingDirectory::LastCopied => WorkingDirectory::LastCopied,
            },
        },
    };
    RigStep {
        action,
        allow_failure: item.allow_failure || codon.run.options.ignore_rig_failures,
    }
}

fn translate(codon: &CodonRun<'_>, event: RigEvent) -> Option<Event> {
    match event {
        RigEvent::Output { index, stream, line } => Some(Event::RigOutput {
            codon_id: codon.entry.codon_id.clone(),
            stream,
            line,
            command_index: index,
        }),
        RigEvent::FailureIgnored { index, failure } => Some(failed(codon, index, &failure, true)),
        RigEvent::LeftOut { path, .. } => Some(Event::Info {
            message: format!("`{path}` was not copied: files of git stay where they are"),
        }),
        RigEvent::Started { .. } | RigEvent::Completed { .. } => None,
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
