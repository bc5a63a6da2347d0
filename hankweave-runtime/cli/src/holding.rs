//! Messages about a running task whose worker is late, gone or suspended: what is known, which worker requeues the task and when, and what to type
//! (TASK-24, TASK-52).
//!
//! A worker holds its task by a lock with a lease, a time by which the lock must be renewed. A running task without such a lock is an orphan; other
//! workers requeue it after a while. `task detach` does so at once.

use std::time::Duration;

use hankweave_core::document::{HankweaveState, RunStatus};
use hankweave_core::time::{Timestamp, short_duration};
use hankweave_task_model::Holder;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::{TaskRecord, TaskStatus};
use hankweave_tasks::coordinator::{HeldLock, OrphanAction, WorkerPresence};
use hankweave_tasks::lifecycle::ORPHAN_AFTER;

use crate::directory::SuspendedWorker;
use crate::registry::Registry;
use crate::terminal::exit::CliError;
use crate::terminal::screen::one_line;
use crate::terminal::shell::word;

/// Locks and workers of a registry at one moment.
#[derive(Debug, Clone)]
pub(crate) struct TaskHolders {
    /// That moment, by the registry's clock.
    now: Timestamp,
    /// Locks, expired ones as well.
    held: Vec<HeldLock>,
    workers: Vec<WorkerPresence>,
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
        requeue: Requeue,
    },
    /// No worker holds the task.
    Gone { requeue: Requeue },
    /// A user or an agent works on it without a worker, after `task resume -a`.
    ByHand { name: String, requeue: Requeue },
    /// The worker, its run, or both are suspended, as by Ctrl+Z.
    Suspended {
        name: Option<String>,
        /// Process to continue, and whether the run is suspended.
        process: SuspendedWorker,
        /// Time to the end of the lease; `None` where it has ended.
        left: Option<Duration>,
        requeue: Requeue,
    },
}

/// Fate of an orphan without a command: which worker acts on it, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requeue {
    /// Worker that acts first; `None` if no present worker acts.
    by: Option<WorkerPresence>,
    /// Time until that worker acts; without one, until a worker with the default `--orphan-after` would act.
    after: Duration,
    /// Effect on the task, `requeues` or `cancels`.
    effect: &'static str,
}

impl Requeue {
    #[cfg(test)]
    pub(crate) const fn by_none(after: Duration) -> Self {
        Self {
            by: None,
            after,
            effect: REQUEUES,
        }
    }

    /// Returns the worker that acts, and when; `start` is the command that starts one, if no worker will act. Follows a clause about `task detach`, to whose
    /// effect `does so` refers.
    fn words(&self, start: &str) -> String {
        match &self.by {
            None => format!(
                "no worker is there to do so: `{start}` starts one, which does so {}",
                when(self.after)
            ),
            Some(worker) => self.action_of(worker, "does so"),
        }
    }

    /// Returns `; w1 does so in 4m`, which follows a clause about `task detach`; `None` without a worker.
    fn by_another(&self) -> Option<String> {
        let worker = self.by.as_ref()?;
        Some(format!("; {}", self.action_of(worker, "does so")))
    }

    /// Returns which worker acts and when, without a command.
    fn in_short(&self) -> String {
        match &self.by {
            None => "none is there to act".to_owned(),
            Some(worker) => self.action_of(worker, &format!("{} it", self.effect)),
        }
    }

    /// Returns `w1 does so in 4m`, or `w1 fails it in 4m` about a worker that fails orphans instead of requeueing them.
    fn action_of(&self, worker: &WorkerPresence, verb: &str) -> String {
        let fails = worker.terms.orphans == OrphanAction::Fail && self.effect == REQUEUES;
        let action = if fails { "fails it" } else { verb };
        let room = if worker.is_busy() {
            ", once it has room"
        } else {
            ""
        };
        format!("{} {action} {}{room}", one_line(&worker.name), when(self.after))
    }
}

/// Usual effect of `task detach`, and of a worker on an orphan.
const REQUEUES: &str = "requeues";

/// Returns the effect of `task detach`: a task that is to be cancelled is not requeued.
const fn effect_of_detach(row: &TaskRow) -> &'static str {
    match row.cancel_requested_at {
        Some(_) => "cancels",
        None => REQUEUES,
    }
}

fn when(after: Duration) -> String {
    match after.is_zero() {
        true => "now".to_owned(),
        false => format!("in {}", short_duration(whole_seconds(after))),
    }
}

impl TaskHolders {
    /// Reads locks and workers; `None` if none of the tasks is running.
    pub(crate) async fn of(registry: &Registry, rows: &[TaskRow]) -> Result<Option<Self>, CliError> {
        let runs = |row: &TaskRow| row.record.status() == TaskStatus::Running;
        if !rows.iter().any(runs) {
            return Ok(None);
        }
        let failed = |error| registry.failure(&error);
        let now = registry.coordinator.now().await.map_err(failed)?;
        let held = registry.coordinator.held().await.map_err(failed)?;
        let workers = registry.coordinator.workers().await.map_err(failed)?;
        Ok(Some(Self { now, held, workers }))
    }

    /// Returns the name of the worker that holds the task.
    pub(crate) fn worker(&self, row: &TaskRow) -> Option<String> {
        // The lock of the worker or attached agent `w1` has the owner `lifecycle:w1`. An owner of another form has taken the lock by hand (`lock acquire`).
        let owner = &self.lock(row)?.held.holder.owner;
        Some(owner.strip_prefix("lifecycle:").unwrap_or(owner).to_owned())
    }

    fn lock(&self, row: &TaskRow) -> Option<&HeldLock> {
        let name = TaskRow::lock_name(row.id());
        let mut locks = self.held.iter();
        locks.find(|lock| lock.resource == name && lock.lives(self.now))
    }

    /// Returns when the worker of a running task renewed its lease last; `None` where the registry has forgotten it.
    pub(crate) fn renewed_at(&self, row: &TaskRow) -> Option<Timestamp> {
        let name = TaskRow::lock_name(row.id());
        let mut locks = self.held.iter();
        let end = locks.find(|lock| lock.resource == name)?.held.expires_at?;
        let lease = i64::try_from(row.lease()?.as_millis()).ok()?;
        Some(Timestamp::from_millis(end.as_millis().saturating_sub(lease)))
    }

    /// Returns the holder of a running task, the end of its lease and the command that releases it, for a command that needs the lock. `None` if the
    /// lease does not end.
    pub(crate) fn until_free(&self, row: &TaskRow, command: impl Fn(&str) -> String) -> Option<String> {
        let task = |what: &str| command(&format!("task {what} {}", row.id()));
        let (name, end) = (self.worker(row)?, self.lock(row)?.held.expires_at?);
        let left = short_duration(whole_seconds(end.since(self.now)));
        let Holder { owner, scope } = &self.lock(row)?.held.holder;
        if !owner.starts_with("lifecycle:") {
            let release = format!(
                "lock release {} --owner {}",
                TaskRow::lock_name(row.id()),
                word(owner)
            );
            let scope = match &**scope {
                // The default of `--scope`.
                "hand" => String::new(),
                scope => format!(" --scope {}", word(scope)),
            };
            return Some(format!(
                "{} holds its lock by hand for {left}: `{}` releases it",
                one_line(&**owner),
                command(&format!("{release}{scope}"))
            ));
        }
        Some(format!(
            "its lease ends in {left} unless {name} renews it: then `{}` requeues the task; `{}` asks {name} to stop it",
            task("detach"),
            task("cancel")
        ))
    }

    /// Returns which worker requeues the task, and when. `end` is that of its lease, if it has one.
    fn requeue(&self, row: &TaskRow, end: Option<Timestamp>) -> Requeue {
        let after = |orphan_after| {
            // A task that is to be cancelled waits only for the end of the lease (TASK-24).
            let orphaned = match row.cancel_requested_at {
                Some(_) => self.now,
                None => row.updated_at.after(orphan_after),
            };
            end.map_or(orphaned, |end| orphaned.max(end)).since(self.now)
        };
        let own = match &row.record {
            TaskRecord::Running(running) if !running.by_hand => Some(running.agent_id.as_str()),
            _ => None,
        };
        // The entry of the task's own worker, which may have been killed, does not count. A worker that started later under that name does.
        let is_other = |worker: &&WorkerPresence| own != Some(&*worker.name) || worker.since > row.updated_at;
        let others = self.workers.iter().filter(is_other);
        let acting = others.filter(|worker| worker.terms.orphans != OrphanAction::Leave);
        let timed = acting.map(|worker| (after(Duration::from_millis(worker.terms.orphan_after_ms)), worker));
        let first = timed.min_by_key(|(after, worker)| (*after, worker.is_busy()));
        Requeue {
            after: first.map_or_else(|| after(ORPHAN_AFTER), |(after, _)| after),
            by: first.map(|(_, worker)| worker.clone()),
            effect: effect_of_detach(row),
        }
    }

    /// Returns the suspended worker of a running task; `process` says what is suspended.
    pub(crate) fn suspended(&self, row: &TaskRow, process: SuspendedWorker) -> AbsentWorker {
        let end = self.lock(row).and_then(|lock| lock.held.expires_at);
        AbsentWorker::Suspended {
            name: self.worker(row),
            process,
            left: end.map(|end| end.since(self.now)),
            requeue: self.requeue(row, end),
        }
    }

    /// Returns the worker of a running task if it does not renew its lease; `None` for every other task. `has_crashed`: the run of the task has crashed,
    /// so its worker counts as late before the renewal is overdue.
    pub(crate) fn absent(&self, row: &TaskRow, has_crashed: bool) -> Option<AbsentWorker> {
        let TaskRecord::Running(running) = &row.record else {
            return None;
        };
        let Some(lock) = self.lock(row) else {
            let requeue = self.requeue(row, None);
            return Some(match running.by_hand {
                true => AbsentWorker::ByHand {
                    name: one_line(running.agent_id.as_str()),
                    requeue,
                },
                false => AbsentWorker::Gone { requeue },
            });
        };
        let end = lock.held.expires_at?;
        let left = end.since(self.now);
        // A worker renews long before the last third of its lease.
        let overdue = row.lease().filter(|lease| left < *lease / 3);
        let silent = overdue.map(|lease| lease.saturating_sub(left));
        (silent.is_some() || has_crashed).then(|| AbsentWorker::Late {
            name: self.worker(row).unwrap_or_default(),
            silent,
            left,
            requeue: self.requeue(row, Some(end)),
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

/// Returns what continues a suspended process.
pub(crate) fn continues(pid: u32) -> String {
    format!("`fg` in its terminal or `kill -CONT {pid}`")
}

impl AbsentWorker {
    /// Returns what is known of the worker, in a line.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::Late {
                name, silent, left, ..
            } => {
                let left = short_duration(whole_seconds(*left));
                match silent {
                    Some(silent) => format!(
                        "its worker {name} has not renewed its lease for {}; the lease ends in {left}",
                        short_duration(whole_seconds(*silent))
                    ),
                    None => format!("its run has crashed; the lease of its worker {name} ends in {left}"),
                }
            }
            Self::Gone { requeue } => format!("no worker holds it; {}", requeue.in_short()),
            Self::ByHand { name, .. } => {
                format!("no worker holds it: {name} works on it by hand (task resume -a)")
            }
            Self::Suspended {
                name, process, left, ..
            } => {
                let name = name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
                let continued = continues(process.pid);
                let lease =
                    left.map(|left| format!("its lease ends in {}", short_duration(whole_seconds(left))));
                match (process.with_run, lease) {
                    (true, Some(lease)) => {
                        format!("suspended with its worker{name}: {continued} continues both; {lease}")
                    }
                    (true, None) => format!(
                        "suspended with its worker{name}, and its lease has ended: after {continued} the worker stops the run"
                    ),
                    (false, Some(lease)) => format!(
                        "its worker{name} is suspended, and its run works on: {continued} continues the worker; {lease}"
                    ),
                    (false, None) => format!(
                        "its worker{name} is suspended, its lease has ended, and its run works on: after {continued} the worker stops it"
                    ),
                }
            }
        }
    }

    /// Returns what is known of the worker, the command that requeues the task, and which worker does so otherwise. `command` completes arguments to a
    /// command for this registry.
    pub(crate) fn with_advice(&self, row: &TaskRow, command: impl Fn(&str) -> String) -> String {
        let task = |what: &str| command(&format!("task {what} {}", row.id()));
        let (detach, worker) = (task("detach"), command("worker"));
        let does = effect_of_detach(row);
        match self {
            Self::Late { requeue, .. } => format!(
                "{}: then `{detach}` {does} the task; {}",
                self.in_short(),
                requeue.words(&worker)
            ),
            Self::Gone { requeue } => format!(
                "none holds it; `{detach}` {does} it now; {}",
                requeue.words(&worker)
            ),
            Self::ByHand { name, requeue } => format!(
                "none: {name} works on it by hand (task resume -a); `{}` completes it, `{detach}` {does} it now; without a change {}",
                task("complete"),
                requeue.words(&worker)
            ),
            Self::Suspended { left, requeue, .. } => {
                let then = if left.is_some() { "then" } else { "now" };
                format!(
                    "{}: {then} `{detach}` {does} the task; {}",
                    self.in_short(),
                    requeue.words(&worker)
                )
            }
        }
    }

    /// Returns a shorter form of [`Self::with_advice`] for a list.
    pub(crate) fn with_way_out(&self, row: &TaskRow, command: impl Fn(&str) -> String) -> String {
        let (does, known) = (effect_of_detach(row), self.in_short());
        let detach = command(&format!("task detach {}", row.id()));
        match self {
            Self::ByHand { name, .. } => format!("{name} works on it by hand; `{detach}` {does} it"),
            Self::Gone { .. } => format!("{known}; `{detach}` {does} it now"),
            _ => {
                let other = self.requeue().by_another().unwrap_or_default();
                match self.can_be_detached() {
                    true => format!("{known}; `{detach}` {does} it now{other}"),
                    false => format!("{known}; then `{detach}` {does} it{other}"),
                }
            }
        }
    }

    const fn requeue(&self) -> &Requeue {
        match self {
            Self::Late { requeue, .. }
            | Self::Gone { requeue }
            | Self::ByHand { requeue, .. }
            | Self::Suspended { requeue, .. } => requeue,
        }
    }

    /// Returns the words for the worker in a list.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Late { silent: None, .. } => "run crashed",
            Self::Late { .. } => "worker is late",
            Self::Gone { .. } => "no worker",
            Self::ByHand { .. } => "by hand",
            Self::Suspended { process, .. } if !process.with_run => "worker suspended",
            Self::Suspended { .. } => "suspended",
        }
    }

    /// Whether the worker is late or gone, so that it may never come back. A suspended worker can be continued, and work by hand needs none.
    pub(crate) const fn is_lost(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Gone { .. })
    }

    /// Whether work on the task continues: by hand, or in the run of a worker that is suspended without its run.
    pub(crate) const fn works_on(&self) -> bool {
        match self {
            Self::ByHand { .. } => true,
            Self::Suspended { process, .. } => !process.with_run,
            Self::Late { .. } | Self::Gone { .. } => false,
        }
    }

    /// Whether `task detach` is accepted.
    pub(crate) fn can_be_detached(&self) -> bool {
        matches!(
            self,
            Self::Gone { .. } | Self::ByHand { .. } | Self::Suspended { left: None, .. }
        )
    }
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hankweave_core::id::{AgentId, TaskId};
    use hankweave_task_model::LockGrant;
    use hankweave_task_model::lock::LockMode;
    use hankweave_task_model::registry::{NewTask, Patch, RegistryChange};
    use hankweave_task_model::task::{Start, TaskTransition};
    use hankweave_tasks::coordinator::WorkerTerms;

    use super::*;

    /// A task that `w1` has started at 0 with a lease of 30 s.
    fn started(by_hand: bool) -> TaskRow {
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
            steps: vec![TaskTransition::Start(Start { agent_id, by_hand })],
            cost: None,
            approval: None,
            by: None,
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
            workers: Vec::new(),
        }
    }

    // covers: TASK-52, TASK-24
    #[test]
    fn a_worker_that_is_late_says_when_another_one_takes_over() {
        let row = started(false);
        let command = |what: &str| format!("hankweave {what}");
        let words = |now, end, crashed| {
            let absent = holders(now, end).absent(&row, crashed)?;
            Some(absent.with_advice(&row, command))
        };
        assert_eq!(words(40, 60, false), None, "it has renewed its lease 10 s ago");
        let one = "no worker is there to do so: `hankweave worker` starts one, which does so";
        let late = format!(
            "its worker w1 has not renewed its lease for 25s; the lease ends in 5s: then `hankweave task detach slow` requeues the task; \
            {one} in 4m5s"
        );
        assert_eq!(words(55, 60, false).unwrap(), late);
        let crashed = format!(
            "its run has crashed; the lease of its worker w1 ends in 20s: then `hankweave task detach slow` requeues the task; \
            {one} in 4m20s"
        );
        assert_eq!(words(40, 60, true).unwrap(), crashed);
        let gone = format!("none holds it; `hankweave task detach slow` requeues it now; {one} in 3m59s");
        assert_eq!(words(61, 60, true).unwrap(), gone);
        let orphan = format!("none holds it; `hankweave task detach slow` requeues it now; {one} now");
        assert_eq!(words(400, 60, false).unwrap(), orphan);
        let process = |with_run| SuspendedWorker {
            pid: 7,
            run: 8,
            with_run,
        };
        let suspended = |now, end| {
            let absent = holders(now, end).suspended(&row, process(true));
            absent.with_advice(&row, command)
        };
        let held = format!(
            "suspended with its worker w1: `fg` in its terminal or `kill -CONT 7` continues both; its lease ends in 20s: \
            then `hankweave task detach slow` requeues the task; {one} in 4m20s"
        );
        assert_eq!(suspended(40, 60), held);
        let free = format!(
            "suspended with its worker, and its lease has ended: after `fg` in its terminal or `kill -CONT 7` the worker stops the run: \
            now `hankweave task detach slow` requeues the task; {one} now"
        );
        assert_eq!(suspended(400, 60), free);
        let alone = holders(40, 60).suspended(&row, process(false));
        assert_eq!(
            (alone.word(), &*alone.in_short()),
            (
                "worker suspended",
                "its worker w1 is suspended, and its run works on: `fg` in its terminal or `kill -CONT 7` continues the worker; \
                its lease ends in 20s"
            )
        );
    }

    // covers: TASK-105
    #[test]
    fn a_lock_by_hand_on_a_task_is_released_by_its_own_command() {
        let row = started(true);
        let command = |what: &str| format!("hankweave {what}");
        let mut holders = holders(40, 60);
        let of_worker = holders.until_free(&row, command).unwrap();
        assert!(
            of_worker.contains("`hankweave task cancel slow` asks w1"),
            "{of_worker}"
        );
        holders.held[0].held.holder = Holder::new("kim", "hand");
        assert_eq!(
            holders.until_free(&row, command).unwrap(),
            "kim holds its lock by hand for 20s: `hankweave lock release task:slow --owner kim` releases it"
        );
    }

    fn present(name: &str, since: u64, terms: WorkerTerms) -> WorkerPresence {
        let since = Timestamp::UNIX_EPOCH.after(Duration::from_secs(since));
        WorkerPresence {
            name: name.to_owned(),
            since,
            seen_at: since,
            is_late: false,
            tasks: 0,
            location: None,
            terms,
        }
    }

    /// The worker that acts first is named with its own `--orphan-after`, whether it holds a task or not.
    // covers: TASK-24, TASK-128
    #[test]
    fn the_worker_that_requeues_a_task_is_named_with_the_time_by_its_own_options() {
        let mut holders = holders(61, 60);
        let terms = |orphan_after, orphans| WorkerTerms {
            slots: 1,
            lease_ms: 30_000,
            orphan_after_ms: orphan_after,
            orphans,
        };
        let own = terms(1_000, OrphanAction::Requeue);
        let row = started(false);
        let says = |holders: &TaskHolders| holders.absent(&row, false).unwrap().in_short();
        let advice = |holders: &TaskHolders| {
            let absent = holders.absent(&row, false).unwrap();
            absent.with_advice(&row, str::to_owned)
        };
        // What is left of the worker that was killed, and one that leaves orphans alone.
        holders.workers = vec![
            present("w1", 0, own),
            present("w2", 0, terms(1_000, OrphanAction::Leave)),
        ];
        assert_eq!(says(&holders), "no worker holds it; none is there to act");
        holders
            .workers
            .push(present("w3", 0, terms(300_000, OrphanAction::Requeue)));
        holders
            .workers
            .push(present("w4", 0, terms(90_000, OrphanAction::Requeue)));
        assert_eq!(says(&holders), "no worker holds it; w4 requeues it in 29s");
        holders.workers[3].tasks = 1;
        let held = TaskHolders {
            now: Timestamp::UNIX_EPOCH.after(Duration::from_secs(40)),
            ..holders
        };
        assert_eq!(
            held.absent(&row, true).unwrap().with_way_out(&row, str::to_owned),
            "its run has crashed; the lease of its worker w1 ends in 20s; then `task detach slow` requeues it; \
            w4 does so in 50s, once it has room"
        );
        let mut holders = TaskHolders {
            now: Timestamp::UNIX_EPOCH.after(Duration::from_secs(61)),
            ..held
        };
        assert_eq!(
            advice(&holders),
            "none holds it; `task detach slow` requeues it now; w4 does so in 29s, once it has room"
        );
        holders
            .workers
            .push(present("w5", 0, terms(70_000, OrphanAction::Fail)));
        assert_eq!(says(&holders), "no worker holds it; w5 fails it in 9s");
        // A later worker may have the name of the one that was killed.
        holders.workers.push(present("w1", 30, own));
        assert_eq!(says(&holders), "no worker holds it; w1 requeues it now");
        let by_hand = holders.absent(&started(true), false).unwrap();
        assert_eq!(
            by_hand.in_short(),
            "no worker holds it: w1 works on it by hand (task resume -a)"
        );
    }
}
