//! Implements [`Coordinator`] for every backend: each method runs one operation of this module.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::{ChangedTask, NewTask, RegistryChange, TaskRow};
use hankweave_task_model::{LockGrant, LogEntry, Resource};

use super::Backend;
use super::claims::FindOrphans;
use super::locks::{CleanUp, EmergencyCleanUp, GetResource, ListHeld, ListWorkers};
use super::registry::{
    CreateAll, DeletedAt, GetLogLines, GetTask, GetTime, MarkWritten, RequestCancel, Unwritten,
};
use crate::coordinator::{
    Acquire, Acquired, Changes, Claim, Claimed, CommitRequest, Coordinator, CoordinatorFuture, Create,
    HeldLock, ListQuery, Release, Renew, TaskFilter, UpdateTask, WorkerPresence,
};

impl<B: Backend> Coordinator for B {
    fn now(&self) -> CoordinatorFuture<'_, Timestamp> {
        Box::pin(self.run(GetTime))
    }

    fn create(&self, create: Create) -> CoordinatorFuture<'_, Claimed> {
        Box::pin(self.run(create))
    }

    fn create_all(&self, tasks: Vec<NewTask>) -> CoordinatorFuture<'_, Vec<TaskRow>> {
        Box::pin(self.run(CreateAll(tasks)))
    }

    fn task(&self, id: TaskId) -> CoordinatorFuture<'_, Option<TaskRow>> {
        Box::pin(self.run(GetTask(id)))
    }

    fn deleted_at(&self, id: TaskId) -> CoordinatorFuture<'_, Option<Timestamp>> {
        Box::pin(self.run(DeletedAt(id)))
    }

    fn tasks(&self, query: ListQuery) -> CoordinatorFuture<'_, Vec<TaskRow>> {
        Box::pin(self.run(query))
    }

    fn count(&self, filter: TaskFilter) -> CoordinatorFuture<'_, u64> {
        Box::pin(self.run(filter))
    }

    fn update(&self, update: UpdateTask) -> CoordinatorFuture<'_, TaskRow> {
        Box::pin(self.run(update))
    }

    fn change(&self, change: RegistryChange) -> CoordinatorFuture<'_, ChangedTask> {
        Box::pin(self.run(change))
    }

    fn request_cancel(&self, id: TaskId, by: Option<String>) -> CoordinatorFuture<'_, TaskRow> {
        Box::pin(self.run(RequestCancel { id, by }))
    }

    fn log_lines(&self, id: TaskId, after_seq: u64) -> CoordinatorFuture<'_, Vec<LogEntry>> {
        Box::pin(self.run(GetLogLines { id, after_seq }))
    }

    fn unwritten(&self, limit: u32) -> CoordinatorFuture<'_, Vec<TaskRow>> {
        Box::pin(self.run(Unwritten(limit)))
    }

    fn mark_written(&self, id: TaskId, seq: u64) -> CoordinatorFuture<'_, ()> {
        Box::pin(self.run(MarkWritten { id, seq }))
    }

    fn claim(&self, claim: Claim) -> CoordinatorFuture<'_, Option<Claimed>> {
        Box::pin(self.run(claim))
    }

    fn orphans(&self, unchanged_for: Duration) -> CoordinatorFuture<'_, Vec<TaskRow>> {
        Box::pin(self.run(FindOrphans(unchanged_for)))
    }

    fn acquire(&self, acquire: Acquire) -> CoordinatorFuture<'_, Acquired> {
        Box::pin(self.run(acquire))
    }

    fn release(&self, release: Release) -> CoordinatorFuture<'_, Option<LockGrant>> {
        Box::pin(self.run(release))
    }

    fn renew(&self, renew: Renew) -> CoordinatorFuture<'_, Timestamp> {
        Box::pin(self.run(renew))
    }

    fn commit(&self, commit: CommitRequest) -> CoordinatorFuture<'_, u64> {
        Box::pin(self.run(commit))
    }

    fn resource(&self, name: String) -> CoordinatorFuture<'_, Resource> {
        Box::pin(self.run(GetResource(name)))
    }

    fn held(&self) -> CoordinatorFuture<'_, Vec<HeldLock>> {
        Box::pin(self.run(ListHeld))
    }

    fn workers(&self) -> CoordinatorFuture<'_, Vec<WorkerPresence>> {
        Box::pin(self.run(ListWorkers))
    }

    fn clean_up(&self) -> CoordinatorFuture<'_, u64> {
        Box::pin(self.run(CleanUp))
    }

    fn emergency_clean_up(&self, owner: String) -> CoordinatorFuture<'_, u64> {
        Box::pin(self.run(EmergencyCleanUp(owner)))
    }

    fn changes(&self) -> Changes {
        self.hints().listen()
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Backend::close(self))
    }
}
