//! Every backend is a coordinator.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::{Change, Changed, NewTask, TaskRow};
use hankweave_task_model::{Held, LogEntry, Resource};

use super::Backend;
use super::claims::Orphans;
use super::locks::{CleanUp, EmergencyCleanUp, GetResource, ListHeld};
use super::registry::{CreateAll, DeletedAt, GetTask, LogLines, MarkWritten, Now, RequestCancel, Unwritten};
use crate::coordinator::{
    Acquire, Acquired, Answer, Changes, Claim, Claimed, Commit, Coordinator, Create, HeldLock, ListQuery,
    Release, Renew, TaskFilter, Update,
};

impl<B: Backend> Coordinator for B {
    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(self.run(Now))
    }

    fn create(&self, create: Create) -> Answer<'_, Claimed> {
        Box::pin(self.run(create))
    }

    fn create_all(&self, tasks: Vec<NewTask>) -> Answer<'_, Vec<TaskRow>> {
        Box::pin(self.run(CreateAll(tasks)))
    }

    fn task(&self, id: TaskId) -> Answer<'_, Option<TaskRow>> {
        Box::pin(self.run(GetTask(id)))
    }

    fn deleted_at(&self, id: TaskId) -> Answer<'_, Option<Timestamp>> {
        Box::pin(self.run(DeletedAt(id)))
    }

    fn tasks(&self, query: ListQuery) -> Answer<'_, Vec<TaskRow>> {
        Box::pin(self.run(query))
    }

    fn count(&self, filter: TaskFilter) -> Answer<'_, u64> {
        Box::pin(self.run(filter))
    }

    fn update(&self, update: Update) -> Answer<'_, TaskRow> {
        Box::pin(self.run(update))
    }

    fn change(&self, change: Change) -> Answer<'_, Changed> {
        Box::pin(self.run(change))
    }

    fn request_cancel(&self, id: TaskId) -> Answer<'_, TaskRow> {
        Box::pin(self.run(RequestCancel(id)))
    }

    fn log_lines(&self, id: TaskId, behind: u64) -> Answer<'_, Vec<LogEntry>> {
        Box::pin(self.run(LogLines { id, behind }))
    }

    fn unwritten(&self, limit: u32) -> Answer<'_, Vec<TaskRow>> {
        Box::pin(self.run(Unwritten(limit)))
    }

    fn mark_written(&self, id: TaskId, seq: u64) -> Answer<'_, ()> {
        Box::pin(self.run(MarkWritten { id, seq }))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Option<Claimed>> {
        Box::pin(self.run(claim))
    }

    fn orphans(&self, unchanged_for: Duration) -> Answer<'_, Vec<TaskRow>> {
        Box::pin(self.run(Orphans(unchanged_for)))
    }

    fn acquire(&self, acquire: Acquire) -> Answer<'_, Acquired> {
        Box::pin(self.run(acquire))
    }

    fn release(&self, release: Release) -> Answer<'_, Option<Held>> {
        Box::pin(self.run(release))
    }

    fn renew(&self, renew: Renew) -> Answer<'_, Timestamp> {
        Box::pin(self.run(renew))
    }

    fn commit(&self, commit: Commit) -> Answer<'_, u64> {
        Box::pin(self.run(commit))
    }

    fn resource(&self, name: String) -> Answer<'_, Resource> {
        Box::pin(self.run(GetResource(name)))
    }

    fn held(&self) -> Answer<'_, Vec<HeldLock>> {
        Box::pin(self.run(ListHeld))
    }

    fn clean_up(&self) -> Answer<'_, u64> {
        Box::pin(self.run(CleanUp))
    }

    fn emergency_clean_up(&self, owner: String) -> Answer<'_, u64> {
        Box::pin(self.run(EmergencyCleanUp(owner)))
    }

    fn changes(&self) -> Changes {
        self.hints().listen()
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Backend::close(self))
    }
}
