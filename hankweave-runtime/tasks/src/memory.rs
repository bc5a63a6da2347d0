//! Coordinator in memory: its tasks and locks end with the process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::Clock;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;
use hankweave_task_model::{Holder, LockTable, LogEntry, Resource, TaskError};

use crate::coordinator::{HeldLock, Hints, ListQuery, TaskFilter};
use crate::engine::{
    Backend, Fencing, LeaseClock, LocalTx, LocksToRemove, ReadSet, ResourceView, Transaction, Tx, TxError,
    TxResult, error_of, read_view_locally,
};
use crate::stored::deleted_from;

/// Coordinator inside one process, for embedders, tests and workers whose tasks another engine stores.
pub struct Memory {
    state: Mutex<MemoryState>,
    clock: LeaseClock,
    hints: Hints,
    fencing: Fencing,
}

impl Memory {
    /// Creates an empty coordinator that takes its time from this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            state: Mutex::default(),
            clock: LeaseClock::new(clock),
            hints: Hints::default(),
            fencing: Fencing::Checked,
        }
    }

    /// Creates a coordinator with a single task that is stored elsewhere, and its log lines. The task has no holder, and new tokens exceed its token.
    #[must_use]
    pub fn holding(clock: Arc<dyn Clock>, row: &TaskRow, lines: Vec<LogEntry>) -> Self {
        let mut state = MemoryState {
            locks: LockTable::with_tokens_after(row.fencing_token),
            lines: BTreeMap::from([(row.id().clone(), lines)]),
            ..MemoryState::default()
        };
        let empty = Self::new(clock);
        state.put(row, empty.clock.lease_now());
        Self {
            state: Mutex::new(state),
            ..empty
        }
    }

    /// Creates a coordinator that does not check tokens.
    #[cfg(test)]
    pub(crate) fn unfenced(clock: Arc<dyn Clock>) -> Self {
        let fencing = Fencing::Skipped;
        Self {
            fencing,
            ..Self::new(clock)
        }
    }

    /// Performs an operation while holding the mutex, and notifies listeners afterwards.
    fn run_now<O: Transaction>(&self, operation: &O) -> Result<O::Output, TaskError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tx = MemoryTx {
            now: self.clock.now(),
            lease_now: self.clock.lease_now(),
            fencing: self.fencing,
            state: &mut state,
        };
        let result = operation.perform(&mut tx).now_or_never();
        // Operations in memory never have to wait.
        let result = result.unwrap_or_else(|| Err(TxError::Away("the memory is busy".to_owned())));
        drop(state);
        let output = result.map_err(|trouble| error_of(operation, trouble))?;
        if O::WRITES && operation.notifies() {
            self.hints.notify();
        }
        Ok(output)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Backend for Memory {
    async fn run<O: Transaction>(&self, operation: O) -> Result<O::Output, TaskError> {
        self.run_now(&operation)
    }

    fn hints(&self) -> &Hints {
        &self.hints
    }

    async fn close(&self) {}
}

#[derive(Default)]
struct MemoryState {
    tasks: BTreeMap<TaskId, TaskRow>,
    /// Lease time of each task's last change.
    changed: BTreeMap<TaskId, Timestamp>,
    /// Pending tasks in the order of claims: priority, time of creation and id.
    pending: BTreeSet<(Reverse<i32>, Timestamp, TaskId)>,
    lines: BTreeMap<TaskId, Vec<LogEntry>>,
    /// Time of the deletion, and whether the task had completed.
    deleted: BTreeMap<TaskId, (Timestamp, bool)>,
    locks: LockTable,
}

impl MemoryState {
    fn is_held(&self, id: &TaskId, now: Timestamp) -> bool {
        let locks = self.locks.resource(&TaskRow::lock_name(id));
        locks.held.iter().any(|held| held.lives(now))
    }

    /// Whether a task, deleted or not, has completed; `None` if there never was one of this id.
    fn has_completed(&self, id: &TaskId) -> Option<bool> {
        let of_row = |row: &TaskRow| row.record.status() == TaskStatus::Completed;
        let deleted = || self.deleted.get(id).map(|(_, has_completed)| *has_completed);
        self.tasks.get(id).map(of_row).or_else(deleted)
    }

    fn put(&mut self, row: &TaskRow, lease_now: Timestamp) {
        // A request to cancel keeps the version, and so the time from which an orphan counts as unchanged.
        let known = self.tasks.get(row.id());
        if known.is_none_or(|known| known.version != row.version) {
            self.changed.insert(row.id().clone(), lease_now);
        }
        let key = (Reverse(row.priority), *row.record.created_at(), row.id().clone());
        match row.record.status() {
            TaskStatus::Pending => self.pending.insert(key),
            _ => self.pending.remove(&key),
        };
        self.tasks.insert(row.id().clone(), row.clone());
    }
}

/// Transaction, which holds the mutex for its whole duration.
struct MemoryTx<'a> {
    state: &'a mut MemoryState,
    now: Timestamp,
    lease_now: Timestamp,
    fencing: Fencing,
}

impl Tx for MemoryTx<'_> {
    const ENDLESS: bool = true;

    fn fencing(&self) -> Fencing {
        self.fencing
    }

    async fn now(&mut self) -> TxResult<Timestamp> {
        Ok(self.now)
    }

    async fn lease_now(&mut self) -> TxResult<Timestamp> {
        Ok(self.lease_now)
    }

    async fn task(&mut self, id: &TaskId) -> TxResult<Option<TaskRow>> {
        Ok(self.state.tasks.get(id).cloned())
    }

    async fn deleted_at(&mut self, id: &TaskId) -> TxResult<Option<Timestamp>> {
        Ok(self.state.deleted.get(id).map(|(at, _)| *at))
    }

    async fn has_completed(&mut self, id: &TaskId) -> TxResult<Option<bool>> {
        Ok(self.state.has_completed(id))
    }

    async fn tasks(&mut self, query: &ListQuery) -> TxResult<Vec<TaskRow>> {
        let mut rows: Vec<&TaskRow> = self
            .state
            .tasks
            .values()
            .filter(|row| query.filter.matches(row))
            .collect();
        // The map is ordered by id, and the stable sort keeps that order among tasks of one moment.
        rows.sort_by_key(|row| Reverse(*row.record.created_at()));
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let rows = rows.into_iter().skip(size(query.offset));
        Ok(rows.take(query.limit.map_or(usize::MAX, size)).cloned().collect())
    }

    async fn count(&mut self, filter: &TaskFilter) -> TxResult<u64> {
        Ok(self
            .state
            .tasks
            .values()
            .filter(|row| filter.matches(row))
            .count() as u64)
    }

    async fn put_task(&mut self, row: &TaskRow, lines: &[LogEntry]) -> TxResult<()> {
        self.state.put(row, self.lease_now);
        let known = self.state.lines.entry(row.id().clone()).or_default();
        known.extend_from_slice(lines);
        Ok(())
    }

    async fn remove_task(&mut self, row: &TaskRow) -> TxResult<()> {
        self.state.tasks.remove(row.id());
        self.state.changed.remove(row.id());
        self.state.lines.remove(row.id());
        let has_completed = deleted_from(row) == TaskStatus::Completed.as_str();
        self.state
            .deleted
            .insert(row.id().clone(), (self.now, has_completed));
        Ok(())
    }

    async fn claimable(&mut self, owner: Option<&str>, limit: u32) -> TxResult<Vec<TaskId>> {
        let state = &self.state;
        let is_wanted = |id: &TaskId| {
            let of_owner = |row: &TaskRow| owner.is_none_or(|owner| row.record.owner() == owner);
            let may_start = |row: &TaskRow| row.after.iter().all(|id| state.has_completed(id) == Some(true));
            let row = state.tasks.get(id);
            row.is_some_and(|row| of_owner(row) && may_start(row)) && !state.is_held(id, self.lease_now)
        };
        let ids = state.pending.iter().map(|(_, _, id)| id);
        Ok(ids
            .filter(|id| is_wanted(id))
            .take(limit as usize)
            .cloned()
            .collect())
    }

    async fn orphans(&mut self, before: Timestamp) -> TxResult<Vec<TaskRow>> {
        let is_orphan = |row: &&TaskRow| {
            let is_old = row.cancel_requested_at.is_some() || self.state.changed[row.id()] < before;
            let is_running = row.record.status() == TaskStatus::Running;
            is_running && is_old && !self.state.is_held(row.id(), self.lease_now)
        };
        let mut rows: Vec<TaskRow> = self.state.tasks.values().filter(is_orphan).cloned().collect();
        rows.sort_by_key(|row| self.state.changed[row.id()]);
        Ok(rows)
    }

    async fn log_lines(&mut self, id: &TaskId, after_seq: u64) -> TxResult<Vec<LogEntry>> {
        let lines = self.state.lines.get(id).map_or(&[][..], |lines| lines);
        let later = lines
            .iter()
            .filter(|line| line.seq.is_some_and(|seq| seq > after_seq));
        Ok(later.cloned().collect())
    }

    async fn unwritten(&mut self, limit: u32) -> TxResult<Vec<TaskRow>> {
        let rows = self
            .state
            .tasks
            .values()
            .filter(|row| row.written_seq < row.log_seq);
        Ok(rows.take(limit as usize).cloned().collect())
    }

    async fn mark_written(&mut self, id: &TaskId, seq: u64) -> TxResult<()> {
        if let Some(row) = self.state.tasks.get_mut(id) {
            row.written_seq = row.written_seq.max(seq);
        }
        Ok(())
    }

    async fn read_view(&mut self, name: &str, read_set: ReadSet<'_>) -> TxResult<ResourceView> {
        read_view_locally(self, name, read_set).await
    }

    async fn put_resource(&mut self, name: &str, _: &Resource, after: Resource) -> TxResult<()> {
        self.state.locks.put(name, after);
        Ok(())
    }

    async fn held(&mut self) -> TxResult<Vec<HeldLock>> {
        let held = self.state.locks.held().into_iter();
        Ok(held
            .map(|(resource, held)| HeldLock {
                resource: resource.to_owned(),
                held: held.clone(),
            })
            .collect())
    }

    async fn names_with(&mut self, locks: LocksToRemove<'_>) -> TxResult<Vec<String>> {
        let held = self.state.locks.held().into_iter();
        let mut names: Vec<String> = held
            .filter(|(_, held)| locks.matches(held))
            .map(|(name, _)| name.to_owned())
            .collect();
        names.dedup();
        Ok(names)
    }
}

impl LocalTx for MemoryTx<'_> {
    fn read_resource(&mut self, name: &str) -> TxResult<Resource> {
        Ok(self.state.locks.resource(name))
    }

    fn next_token(&mut self) -> TxResult<u64> {
        Ok(self.state.locks.next_token())
    }

    fn held_behind(&mut self, name: &str, holder: &Holder) -> TxResult<Option<String>> {
        let held = self.state.locks.held_behind(name, holder, self.lease_now);
        Ok(held.map(str::to_owned))
    }
}
