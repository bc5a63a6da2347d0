//! Worker of a running task, in words: late to renew its lease, or gone (TASK-24, TASK-52).

use std::time::Duration;

use hankweave_core::document::{HankweaveState, RunStatus};
use hankweave_core::time::{Timestamp, short_duration};
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::coordinator::HeldLock;
use hankweave_tasks::lifecycle::ORPHAN_AFTER;

use crate::exit::CliError;
use crate::registry::Registry;

/// Locks of a registry at one moment.
#[derive(Debug, Clone)]
pub(crate) struct TaskHolders {
    now: Timestamp,
    held: Vec<HeldLock>,
}

/// Worker of a running task that does not renew its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AbsentWorker {
    /// Its lease has not ended yet.
    Late {
        name: String,
        /// Time since the last renewal; `None` where the run has crashed and the renewal is not overdue.
        silent: Option<Duration>,
        /// Time to the end of the lease.
        left: Duration,
        requeued_in: Duration,
    },
    /// No worker holds the task.
    Gone { requeued_in: Duration },
    /// It is suspended with the run, as by Ctrl+Z.
    Suspended {
        name: Option<String>,
        /// Process to continue.
        pid: u32,
        /// Time to the end of the lease; `None` where it has ended.
        left: Option<Duration>,
        requeued_in: Duration,
    },
}

impl TaskHolders {
    /// Reads them, if one of the tasks is running.
    pub(crate) async fn of(registry: &Registry, rows: &[TaskRow]) -> Result<Option<Self>, CliError> {
        let runs = |row: &TaskRow| row.record.status() == TaskStatus::Running;
        if !rows.iter().any(runs) {
            return Ok(None);
        }
        let failed = |error| registry.failure(&error);
        let now = registry.coordinator.now().await.map_err(failed)?;
        let held = registry.coordinator.held().await.map_err(failed)?;
        Ok(Some(Self { now, held }))
    }

    /// Returns the name of the worker that holds the task.
    pub(crate) fn worker(&self, row: &TaskRow) -> Option<String> {
        let owner = &self.lock(row)?.held.holder.owner;
        Some(owner.strip_prefix("lifecycle:").unwrap_or(owner).to_owned())
    }

    fn lock(&self, row: &TaskRow) -> Option<&HeldLock> {
        let name = TaskRow::lock_name(row.id());
        let mut locks = self.held.iter();
        locks.find(|lock| lock.resource == name && lock.lives(self.now))
    }

    /// Returns who holds a running task, until when, and what lets go of it, for a command that needs the lock; `None` where the lease does not end.
    pub(crate) fn until_free(&self, row: &TaskRow, typed: impl Fn(&str) -> String) -> Option<String> {
        let (name, end) = (self.worker(row)?, self.lock(row)?.held.expires_at?);
        let left = short_duration(whole(end.since(self.now)));
        Some(format!(
            "its lease ends in {left} unless {name} renews it: then `{}` requeues the task; `{}` asks {name} to stop it",
            typed("detach"),
            typed("cancel")
        ))
    }

    /// Returns the worker of a running task that is suspended; `pid` is its process.
    pub(crate) fn suspended(&self, row: &TaskRow, pid: u32) -> AbsentWorker {
        let end = self.lock(row).and_then(|lock| lock.held.expires_at);
        let orphaned = row.updated_at.after(ORPHAN_AFTER);
        AbsentWorker::Suspended {
            name: self.worker(row),
            pid,
            left: end.map(|end| end.since(self.now)),
            requeued_in: end.map_or(orphaned, |end| orphaned.max(end)).since(self.now),
        }
    }

    /// Returns the worker of a running task if it does not renew its lease; `None` for every other task. `has_crashed` says that its run has.
    pub(crate) fn absent(&self, row: &TaskRow, has_crashed: bool) -> Option<AbsentWorker> {
        if row.record.status() != TaskStatus::Running {
            return None;
        }
        let orphaned = row.updated_at.after(ORPHAN_AFTER);
        let Some(lock) = self.lock(row) else {
            let requeued_in = orphaned.since(self.now);
            return Some(AbsentWorker::Gone { requeued_in });
        };
        let end = lock.held.expires_at?;
        let left = end.since(self.now);
        let overdue = row.lease().filter(|lease| left < *lease / 3);
        let silent = overdue.map(|lease| lease.saturating_sub(left));
        (silent.is_some() || has_crashed).then(|| AbsentWorker::Late {
            name: self.worker(row).unwrap_or_default(),
            silent,
            left,
            requeued_in: orphaned.max(end).since(self.now),
        })
    }
}

/// Whether the run of the task's newest attempt has crashed in this workspace.
pub(crate) fn has_crashed(state: &HankweaveState, is_live: bool, row: &TaskRow) -> bool {
    let newest = state.runs.front();
    let is_of_attempt =
        newest.is_some_and(|run| run.status == RunStatus::Running && run.start_time >= row.updated_at);
    is_of_attempt && !is_live
}

impl AbsentWorker {
    /// Returns what is known of it, in a line.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::Late {
                name, silent, left, ..
            } => {
                let left = short_duration(whole(*left));
                match silent {
                    Some(silent) => format!(
                        "its worker {name} has not renewed its lease for {}; the lease ends in {left}",
                        short_duration(whole(*silent))
                    ),
                    None => format!("its run has crashed; the lease of its worker {name} ends in {left}"),
                }
            }
            Self::Gone { requeued_in } => format!("no worker holds it; {}", one_requeues(*requeued_in)),
            Self::Suspended { name, pid, left, .. } => {
                let name = name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
                let continued = format!("`fg` in its terminal or `kill -CONT {pid}`");
                match left {
                    Some(left) => format!(
                        "suspended with its worker{name}: {continued} continues both; its lease ends in {}",
                        short_duration(whole(*left))
                    ),
                    None => format!(
                        "suspended with its worker{name}, and its lease has ended: after {continued} the worker stops the run"
                    ),
                }
            }
        }
    }

    /// Returns what is known of it, with the command that requeues the task and when it does.
    pub(crate) fn with_advice(&self, detach: &str) -> String {
        match self {
            Self::Late { requeued_in, .. } => format!(
                "{}: then `{detach}` requeues the task, or {}",
                self.in_short(),
                one_requeues(*requeued_in)
            ),
            Self::Gone { requeued_in } => {
                format!(
                    "none holds it; {}, `{detach}` does so now",
                    one_requeues(*requeued_in)
                )
            }
            Self::Suspended {
                left, requeued_in, ..
            } => {
                let then = if left.is_some() { "then" } else { "now" };
                let requeues = one_requeues(*requeued_in);
                format!(
                    "{}: {then} `{detach}` requeues the task, or {requeues}",
                    self.in_short()
                )
            }
        }
    }

    /// Whether `task detach` is accepted.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Suspended { left: None, .. })
    }
}

/// That a worker requeues the task: after its usual `--orphan-after`, if it was given no other.
fn one_requeues(requeued_in: Duration) -> String {
    match requeued_in.is_zero() {
        true => "the next worker requeues it".to_owned(),
        false => format!(
            "a worker requeues it in {} (--orphan-after)",
            short_duration(whole(requeued_in))
        ),
    }
}

fn whole(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hankweave_core::id::{AgentId, TaskId};
    use hankweave_task_model::lock::LockMode;
    use hankweave_task_model::registry::{NewTask, Patch, RegistryChange};
    use hankweave_task_model::task::{Start, TaskTransition};
    use hankweave_task_model::{Holder, LockGrant};

    use super::*;

    /// A task that `w1` has started at 0 with a lease of 30 s.
    fn started() -> TaskRow {
        let (row, _) = TaskRow::new(
            NewTask::new(TaskId::new("slow").unwrap()),
            0,
            Timestamp::UNIX_EPOCH,
        );
        let agent_id = AgentId::new("w1").unwrap();
        let start = RegistryChange {
            id: row.id().clone(),
            expected_version: row.version,
            token: 1,
            steps: vec![TaskTransition::Start(Start { agent_id })],
            cost: None,
            approval: None,
            lease: Some(Duration::from_secs(30)),
            files: Patch::Keep,
        };
        row.change(&start, Timestamp::UNIX_EPOCH).unwrap().row
    }

    fn holders(now: u64, end: u64) -> TaskHolders {
        let at = |seconds: u64| Timestamp::UNIX_EPOCH.after(Duration::from_secs(seconds));
        let held = LockGrant {
            holder: Holder::new("lifecycle:w1", Arc::from("scope")),
            mode: LockMode::Exclusive,
            token: 1,
            count: 1,
            acquired_at: at(0),
            expires_at: Some(at(end)),
        };
        let resource = "task:slow".to_owned();
        TaskHolders {
            now: at(now),
            held: vec![HeldLock { resource, held }],
        }
    }

    // covers: TASK-52, TASK-24
    #[test]
    fn a_worker_that_is_late_says_when_another_one_takes_over() {
        let row = started();
        let words = |now, end, crashed| {
            let absent = holders(now, end).absent(&row, crashed)?;
            Some(absent.with_advice("hankweave task detach slow"))
        };
        assert_eq!(words(40, 60, false), None, "it has renewed its lease 10 s ago");
        let late = "its worker w1 has not renewed its lease for 25s; the lease ends in 5s: then `hankweave task detach slow` requeues the task, \
            or a worker requeues it in 4m5s (--orphan-after)";
        assert_eq!(words(55, 60, false).unwrap(), late);
        let crashed = "its run has crashed; the lease of its worker w1 ends in 20s: then `hankweave task detach slow` requeues the task, \
            or a worker requeues it in 4m20s (--orphan-after)";
        assert_eq!(words(40, 60, true).unwrap(), crashed);
        let gone = "none holds it; a worker requeues it in 3m59s (--orphan-after), `hankweave task detach slow` does so now";
        assert_eq!(words(61, 60, true).unwrap(), gone);
        let orphan = "none holds it; the next worker requeues it, `hankweave task detach slow` does so now";
        assert_eq!(words(400, 60, false).unwrap(), orphan);
        let suspended = |now, end| {
            holders(now, end)
                .suspended(&row, 7)
                .with_advice("hankweave task detach slow")
        };
        let held = "suspended with its worker w1: `fg` in its terminal or `kill -CONT 7` continues both; its lease ends in 20s: \
            then `hankweave task detach slow` requeues the task, or a worker requeues it in 4m20s (--orphan-after)";
        assert_eq!(suspended(40, 60), held);
        let free = "suspended with its worker, and its lease has ended: after `fg` in its terminal or `kill -CONT 7` the worker stops the run: \
            now `hankweave task detach slow` requeues the task, or the next worker requeues it";
        assert_eq!(suspended(400, 60), free);
    }
}
