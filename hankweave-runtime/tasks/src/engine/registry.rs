//! Operations on tasks: create, read, change (TASK-20 to TASK-23).

use std::collections::BTreeSet;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::{ChangedTask, NewTask, RegistryChange, TaskRow};
use hankweave_task_model::task::TaskStatus;
use hankweave_task_model::{LogEntry, Resource, TaskError};

use super::locks::{grant, wall_offset};
use super::{Fencing, ReadSet, ResourceView, Transaction, Tx, TxResult};
use crate::coordinator::{Claimed, Create, ListQuery, TaskFilter, UpdateTask};

pub(super) fn not_found(id: &TaskId) -> TaskError {
    TaskError::TaskNotFound(id.as_str().to_owned())
}

fn update_failed(id: &TaskId, reason: String) -> TaskError {
    let id = id.as_str().to_owned();
    TaskError::TaskUpdateFailed { id, reason }
}

/// Returns the resource of a new task's lock, with a new token if `token` is set; the inner error is the reason why the id cannot be used (TASK-120).
async fn free_id<T: Tx>(tx: &mut T, id: &TaskId, token: bool) -> TxResult<Result<ResourceView, String>> {
    let read_set = ReadSet {
        task: Some(id),
        deleted: true,
        token,
        ..ReadSet::default()
    };
    let view = tx.read_view(&TaskRow::lock_name(id), read_set).await?;
    Ok(match (&view.task, view.deleted_at) {
        (Some(_), _) => Err("there is a task of this id".to_owned()),
        (None, Some(at)) => Err(format!(
            "a task of this id was deleted at {at}, and no id is used twice"
        )),
        (None, None) => Ok(view),
    })
}

/// Reads a task and the resource `name` of its lock, or fails if the task does not exist.
async fn existing_task<T: Tx>(tx: &mut T, id: &TaskId, name: &str) -> TxResult<(Resource, TaskRow)> {
    let read_set = ReadSet {
        task: Some(id),
        ..ReadSet::default()
    };
    let view = tx.read_view(name, read_set).await?;
    Ok((view.resource, view.task.ok_or_else(|| not_found(id))?))
}

/// Checks the earlier tasks, after which a new task comes. The inner error is the reason for a refusal: an earlier task never existed, or was deleted
/// before it had completed. Tasks in `created` are created by this transaction and need no check.
async fn check_earlier<T: Tx>(
    tx: &mut T,
    task: &NewTask,
    created: &BTreeSet<&TaskId>,
) -> TxResult<Result<(), String>> {
    for id in task.after.iter().filter(|id| !created.contains(id)) {
        match tx.has_completed(id).await? {
            None => return Ok(Err(format!("there is no task `{id}` that it could come after"))),
            Some(false) if tx.deleted_at(id).await?.is_some() => {
                let reason =
                    format!("`{id}`, which it would come after, was deleted before it had completed");
                return Ok(Err(reason));
            }
            Some(_) => {}
        }
    }
    Ok(Ok(()))
}

async fn insert<T: Tx>(tx: &mut T, task: NewTask, token: u64, now: Timestamp) -> TxResult<TaskRow> {
    let (row, line) = TaskRow::new(task, token, now);
    tx.put_task(&row, &[line]).await?;
    Ok(row)
}

impl Transaction for Create {
    type Output = Claimed;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Claimed> {
        let id = &self.task.id;
        let name = TaskRow::lock_name(id);
        let view = free_id(tx, id, self.hold.is_some()).await?;
        let view = view.map_err(|reason| self.failed(reason))?;
        let earlier = check_earlier(tx, &self.task, &BTreeSet::new()).await?;
        earlier.map_err(|reason| self.failed(reason))?;
        let (before, mut after) = (view.resource.clone(), view.resource);
        let mut held = None;
        if let Some(hold) = &self.hold {
            held = Some(grant(tx, &name, &mut after, hold.demand(), view.token).await?);
        }
        // `held.token` may be older than `view.token`: a creator that already has the lock keeps its token.
        let token = held.as_ref().map_or(0, |held| held.token);
        let now = tx.now().await?;
        let row = insert(tx, self.task.clone(), token, now).await?;
        tx.put_resource(&name, &before, after).await?;
        let offset = wall_offset(tx).await?;
        Ok(Claimed {
            row,
            held: held.map(|held| held.moved_by(offset)),
            expired: 0,
        })
    }

    fn notifies(&self) -> bool {
        true
    }

    fn failed(&self, reason: String) -> TaskError {
        let id = self.task.id.as_str().to_owned();
        TaskError::TaskCreateFailed { id, reason }
    }
}

/// Maximum number of ids that an error names.
const NAMED: usize = 5;

/// Returns which of `all` ids cannot be used, with the reason if it is a single one; `None` if all can be used.
fn taken_words(taken: &[(&str, String)], all: usize) -> Option<String> {
    match taken {
        [] => return None,
        [(id, reason)] => return Some(format!("`{id}`: {reason}")),
        _ => {}
    }
    let named: Vec<String> = taken
        .iter()
        .take(NAMED)
        .map(|(id, _)| format!("`{id}`"))
        .collect();
    let more = match taken.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let which = match taken.len() == all {
        true => format!("all {all} ids are in use"),
        false => format!("{} of {all} ids are in use", taken.len()),
    };
    Some(format!("{which} or were: {}{more}", named.join(", ")))
}

pub(super) struct CreateAll(pub(super) Vec<NewTask>);

impl Transaction for CreateAll {
    type Output = Vec<TaskRow>;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Vec<TaskRow>> {
        let mut ids = BTreeSet::new();
        for task in &self.0 {
            let id = &task.id;
            // Only tasks before it in the list count, so that no task comes after itself.
            let earlier = check_earlier(tx, task, &ids).await?;
            earlier.map_err(|reason| self.failed(format!("`{id}`: {reason}")))?;
            if !ids.insert(id) {
                return Err(self.failed(format!("`{id}` comes twice")).into());
            }
        }
        // `ids` is sorted: two clients that create the same tasks would otherwise wait for each other.
        let mut taken = Vec::new();
        for id in &ids {
            if let Err(reason) = free_id(tx, id, false).await? {
                taken.push((id.as_str(), reason));
            }
        }
        if let Some(reason) = taken_words(&taken, self.0.len()) {
            return Err(self.failed(reason).into());
        }
        // Tasks are claimed by creation time, so each counts as created a millisecond after the one before it in the list.
        let now = tx.now().await?;
        let mut rows = Vec::new();
        for (index, task) in (0..).zip(&self.0) {
            let at = now.after(Duration::from_millis(index));
            rows.push(insert(tx, task.clone(), 0, at).await?);
        }
        Ok(rows)
    }

    fn notifies(&self) -> bool {
        true
    }

    fn failed(&self, reason: String) -> TaskError {
        TaskError::TaskBulkInsertFailed(reason)
    }
}

pub(super) struct GetTime;

impl Transaction for GetTime {
    type Output = Timestamp;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Timestamp> {
        tx.now().await
    }
}

pub(super) struct GetTask(pub(super) TaskId);

impl Transaction for GetTask {
    type Output = Option<TaskRow>;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Option<TaskRow>> {
        tx.task(&self.0).await
    }
}

pub(super) struct DeletedAt(pub(super) TaskId);

impl Transaction for DeletedAt {
    type Output = Option<Timestamp>;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Option<Timestamp>> {
        tx.deleted_at(&self.0).await
    }
}

impl Transaction for ListQuery {
    type Output = Vec<TaskRow>;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Vec<TaskRow>> {
        tx.tasks(self).await
    }
}

impl Transaction for TaskFilter {
    type Output = u64;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<u64> {
        tx.count(self).await
    }
}

impl Transaction for UpdateTask {
    type Output = TaskRow;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<TaskRow> {
        let name = TaskRow::lock_name(&self.id);
        let (locks, row) = existing_task(tx, &self.id, &name).await?;
        let now = tx.now().await?;
        if let (Some(token), Fencing::Checked) = (self.token, tx.fencing()) {
            locks.check_writer(&name, token, tx.lease_now().await?)?;
        }
        let patched = row.patched(self.patch.clone(), now)?;
        tx.put_task(&patched.row, &patched.lines).await?;
        Ok(patched.row)
    }

    fn failed(&self, reason: String) -> TaskError {
        update_failed(&self.id, reason)
    }
}

impl Transaction for RegistryChange {
    type Output = ChangedTask;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<ChangedTask> {
        let name = TaskRow::lock_name(&self.id);
        let (locks, row) = existing_task(tx, &self.id, &name).await?;
        let now = tx.now().await?;
        let changed = match tx.fencing() {
            Fencing::Checked => {
                locks.check_writer(&name, self.token, tx.lease_now().await?)?;
                row.change(self, now)?
            }
            #[cfg(test)]
            Fencing::Skipped => {
                // `row.change` refuses a token that is older than the row's.
                let token = self.token.max(row.fencing_token);
                row.change(
                    &Self {
                        token,
                        ..self.clone()
                    },
                    now,
                )?
            }
        };
        if changed.row.record.status() == TaskStatus::Deleted {
            tx.remove_task(&changed.row).await?;
        } else {
            tx.put_task(&changed.row, &changed.lines).await?;
        }
        Ok(changed)
    }

    fn notifies(&self) -> bool {
        true
    }

    fn failed(&self, reason: String) -> TaskError {
        let target = self.steps.last().map(|step| step.target());
        match target {
            Some(TaskStatus::Deleted) => TaskError::TaskDeleteFailed {
                id: self.id.as_str().to_owned(),
                reason,
            },
            _ => update_failed(&self.id, reason),
        }
    }
}

pub(super) struct RequestCancel {
    pub(super) id: TaskId,
    pub(super) by: Option<String>,
}

impl Transaction for RequestCancel {
    type Output = TaskRow;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<TaskRow> {
        let row = tx.task(&self.id).await?.ok_or_else(|| not_found(&self.id))?;
        if row.cancel_requested_at.is_some() {
            return Ok(row);
        }
        let row = row.with_cancel_request(self.by.clone(), tx.now().await?)?;
        tx.put_task(&row, &[]).await?;
        Ok(row)
    }

    fn notifies(&self) -> bool {
        true
    }

    fn failed(&self, reason: String) -> TaskError {
        update_failed(&self.id, reason)
    }
}

pub(super) struct GetLogLines {
    pub(super) id: TaskId,
    pub(super) after_seq: u64,
}

impl Transaction for GetLogLines {
    type Output = Vec<LogEntry>;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Vec<LogEntry>> {
        tx.log_lines(&self.id, self.after_seq).await
    }
}

pub(super) struct Unwritten(pub(super) u32);

impl Transaction for Unwritten {
    type Output = Vec<TaskRow>;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Vec<TaskRow>> {
        tx.unwritten(self.0).await
    }
}

pub(super) struct MarkWritten {
    pub(super) id: TaskId,
    pub(super) seq: u64,
}

impl Transaction for MarkWritten {
    type Output = ();

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<()> {
        tx.mark_written(&self.id, self.seq).await
    }

    fn failed(&self, reason: String) -> TaskError {
        update_failed(&self.id, reason)
    }
}

#[cfg(test)]
mod words {
    use super::taken_words;

    // covers: TASK-124
    #[test]
    fn ids_that_are_taken_are_named_together() {
        let taken = |number: usize| {
            (0..number)
                .map(|_| ("a", "there is a task of this id".to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(taken_words(&taken(0), 3), None);
        assert_eq!(
            taken_words(&taken(1), 3).unwrap(),
            "`a`: there is a task of this id"
        );
        assert_eq!(
            taken_words(&taken(2), 3).unwrap(),
            "2 of 3 ids are in use or were: `a`, `a`"
        );
        assert_eq!(
            taken_words(&taken(7), 7).unwrap(),
            "all 7 ids are in use or were: `a`, `a`, `a`, `a`, `a` and 2 more"
        );
    }
}
