//! Sentences about the workers that are present in a registry, and about who takes a task (TASK-128).

use hankweave_task_model::registry::{FilesLocation, TaskRow};
use hankweave_tasks::coordinator::WorkerPresence;

use crate::registry::Registry;
use crate::terminal::exit::CliError;
use crate::terminal::screen::{local_time, one_line};

/// Sentence about a registry without workers.
pub(crate) const NONE: &str = "no worker is there";

/// Returns the present workers.
pub(crate) async fn present(registry: &Registry) -> Result<Vec<WorkerPresence>, CliError> {
    let workers = registry.coordinator.workers().await;
    workers.map_err(|error| registry.failure(&error))
}

/// Returns the workers in a line: `w1 (1 of 2 tasks), w2 (idle, there since 14:02)`; `start` is the command that starts one.
pub(crate) fn words(workers: &[WorkerPresence], start: &str) -> String {
    match workers {
        [] => format!("none is there; `{start}` starts one"),
        workers => workers.iter().map(worker).collect::<Vec<_>>().join(", "),
    }
}

/// Returns which workers will take new tasks, or the command that starts a worker: `w1 takes it`. `them` is `it` or `them`, whichever names the tasks. Only
/// the workers of the folder `begun_in` take a task that was begun there.
pub(crate) async fn takers(
    registry: &Registry,
    them: &str,
    begun_in: Option<&FilesLocation>,
) -> Result<String, CliError> {
    let workers = present(registry).await?;
    let of_folder = |worker: &WorkerPresence| match (&worker.location, begun_in) {
        (Some(own), Some(begun_in)) => own == begun_in,
        // The task has no folder yet, or the worker is of an older version that does not name its folder.
        _ => true,
    };
    let takers = workers
        .iter()
        .filter(|worker| !worker.is_late && of_folder(worker));
    let (busy, free): (Vec<_>, Vec<_>) = takers.partition(|worker| worker.is_busy());
    let name = |worker: &&WorkerPresence| one_line(&worker.name);
    let free: Vec<_> = free.iter().map(name).collect();
    let busy: Vec<_> = busy.iter().map(name).collect();
    Ok(match (&free[..], &busy[..]) {
        ([], []) => format!("`{}` runs {them} here", registry.command("worker --once")),
        ([], [one]) => format!("{one} takes {them} once it has room"),
        ([], several) => format!("{} take {them} once they have room", several.join(", ")),
        ([one], _) => format!("{one} takes {them}"),
        (several, _) => format!("{} take {them}", several.join(", ")),
    })
}

/// Returns the sentence of [`Registry::begun_elsewhere`] about a task that was begun in another folder, if no worker of that folder is present.
pub(crate) async fn left_elsewhere(registry: &Registry, row: &TaskRow) -> Result<Option<String>, CliError> {
    let (Some(elsewhere), Some(begun_in)) = (registry.begun_elsewhere(row), FilesLocation::of(&row.record))
    else {
        return Ok(None);
    };
    let continues = |worker: &WorkerPresence| !worker.is_late && worker.location.as_ref() == Some(&begun_in);
    let is_left = !present(registry).await?.iter().any(continues);
    Ok(is_left.then_some(elsewhere))
}

fn worker(worker: &WorkerPresence) -> String {
    let name = one_line(&worker.name);
    match (worker.tasks, worker.terms.slots) {
        _ if worker.is_late => format!("{name} (not heard of since {})", local_time(worker.seen_at)),
        (0, _) => format!("{name} (idle, there since {})", local_time(worker.since)),
        (tasks, 1) => format!("{name} ({tasks} of 1 task)"),
        (tasks, slots) => format!("{name} ({tasks} of {slots} tasks)"),
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::time::Timestamp;
    use hankweave_tasks::coordinator::{OrphanAction, WorkerTerms};

    use super::*;

    // covers: TASK-128
    #[test]
    fn workers_are_named_with_what_they_do() {
        assert_eq!(
            words(&[], "hankweave worker"),
            "none is there; `hankweave worker` starts one"
        );
        let of = |name: &str, tasks, slots| WorkerPresence {
            name: name.to_owned(),
            since: Timestamp::UNIX_EPOCH,
            seen_at: Timestamp::UNIX_EPOCH,
            is_late: slots > 8,
            tasks,
            location: None,
            terms: WorkerTerms {
                slots,
                lease_ms: 30_000,
                orphan_after_ms: 300_000,
                orphans: OrphanAction::Requeue,
            },
        };
        let since = local_time(Timestamp::UNIX_EPOCH);
        assert_eq!(
            words(
                &[of("w1", 1, 2), of("w2", 0, 1), of("w3", 1, 1), of("w4", 1, 9)],
                "hankweave worker"
            ),
            format!(
                "w1 (1 of 2 tasks), w2 (idle, there since {since}), w3 (1 of 1 task), w4 (not heard of since {since})"
            )
        );
    }
}
