//! Transfer of a task's run through a git remote (TASK-60, TASK-61, TASK-62). A job fetches the run before it starts ([`PushTarget::fetch`]), pushes it in the
//! background while it works ([`BackgroundPush`]), and pushes the rest at its end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_core::document::HankweaveState;
use hankweave_remote::{
    CloneRequest, FetchedRun, PullRequest, PushRequest, Pushed, RemoteError, RemoteExecution, clone, list,
    pull, push,
};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::free_name;
use hankweave_task_model::LogLevel;
use hankweave_task_model::registry::TaskRow;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::reach::Pauses;

/// Number of attempts at the last push of a run.
const LAST_TRIES: u32 = 3;

/// Number of attempts to fetch a run.
const FETCH_TRIES: u32 = 5;

/// Pause between two attempts at the last push, or at fetching.
const BETWEEN_TRIES: Duration = Duration::from_secs(2);

/// Time limit of pushing the work of a lost task.
const KEEPING: Duration = Duration::from_secs(60);

/// Number of unread notes that are kept. Further notes are only in the worker's own log.
const MAX_PENDING_NOTES: usize = 16;

/// Remote to which the run of a task is pushed, and from which it is fetched, with the token of this worker's attempt.
#[derive(Debug, Clone)]
pub(super) struct PushTarget {
    world: World,
    url: String,
    execution: RemoteExecution,
    token: u64,
}

/// Note about the remote, for the log of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyncNote {
    pub(super) level: LogLevel,
    pub(super) message: String,
}

/// Events while a run is pushed.
#[derive(Debug)]
pub(super) enum SyncEvent {
    Note(SyncNote),
    /// The remote has this history.
    Pushed(Box<HankweaveState>),
    /// The task has a later owner.
    Superseded,
}

/// Result of pushing a run.
#[derive(Debug)]
pub(super) struct Finished {
    /// Notes to write.
    pub(super) notes: Vec<SyncNote>,
    /// Last history that the remote has received.
    pub(super) pushed: Option<HankweaveState>,
    /// Whether a later owner of the task has pushed.
    pub(super) has_later_owner: bool,
}

impl PushTarget {
    pub(super) fn new(world: &World, url: &str, row: &TaskRow, token: u64) -> Self {
        Self {
            world: world.clone(),
            url: url.to_owned(),
            execution: RemoteExecution::of_task(row.id(), *row.record.created_at()),
            token,
        }
    }

    /// Updates the run in `workspace` from the remote, and returns a note if that changed the run. Work that only this machine has is pushed first, under
    /// `kept/`.
    pub(super) async fn fetch(&self, workspace: &Path) -> Result<Option<SyncNote>, RemoteError> {
        let mut tries = 1;
        loop {
            match self.try_to_fetch(workspace).await {
                Err(error) if tries < FETCH_TRIES && is_temporary(&error) => {
                    tracing::warn!(error = chain(&error), "the run cannot be fetched yet");
                }
                result => return result,
            }
            tries += 1;
            sleep(BETWEEN_TRIES).await;
        }
    }

    async fn try_to_fetch(&self, workspace: &Path) -> Result<Option<SyncNote>, RemoteError> {
        let remote_runs = list(&self.world, &self.url).await?;
        if !remote_runs
            .iter()
            .any(|listed| listed.execution == self.execution)
        {
            return Ok(None);
        }
        let dir = ExecutionDir::new(workspace.to_owned());
        let request = PullRequest {
            url: Some(self.url.clone()),
            execution: Some(self.execution.clone()),
            token: self.token,
            replace: true,
        };
        let fetched = match pull(&self.world, &dir, &request).await {
            Err(RemoteError::NothingRecorded) => self.clone_into(workspace).await?,
            fetched => fetched?,
        };
        Ok(fetched.changed.then(|| SyncNote {
            level: LogLevel::Info,
            message: fetched_note(&fetched),
        }))
    }

    /// Clones into the workspace. Existing entries that are not part of a recorded run are moved aside.
    async fn clone_into(&self, workspace: &Path) -> Result<FetchedRun, RemoteError> {
        let request = CloneRequest {
            url: self.url.clone(),
            wanted: Some(self.execution.to_string()),
            into: workspace.to_owned(),
        };
        match clone(&self.world, &request).await {
            Err(RemoteError::Occupied { path }) => {
                let (disk, now) = (self.world.disk.clone(), self.world.clock.now());
                let aside = path.clone();
                let moved = self.world.blocking.run(move || {
                    let free = free_name(&*disk, &aside, "aside", now)?;
                    disk.rename(&aside, &free)
                });
                let action = "move what is in the workspace";
                moved
                    .await
                    .map_err(|source| RemoteError::Process { action, source })?;
                clone(&self.world, &request).await
            }
            cloned => cloned,
        }
    }

    /// Whether the remote may have the run: it has the run, or does not answer now.
    pub(super) async fn may_have_run(&self) -> bool {
        match list(&self.world, &self.url).await {
            Ok(remote_runs) => remote_runs
                .iter()
                .any(|listed| listed.execution == self.execution),
            Err(error) => is_temporary(&error),
        }
    }

    async fn push(&self, dir: &ExecutionDir) -> Result<Pushed, RemoteError> {
        let request = PushRequest {
            url: Some(self.url.clone()),
            execution: Some(self.execution.clone()),
            token: self.token,
            replace: false,
        };
        push(&self.world, dir, &request).await
    }

    /// Pushes the work of a worker that has lost its task. If the later owner has pushed already, this work goes under `kept/`.
    pub(super) async fn keep_work(&self, workspace: &Path) {
        let dir = ExecutionDir::new(workspace.to_owned());
        match timeout(KEEPING, self.push(&dir)).await {
            Ok(Ok(_)) => {}
            Ok(Err(RemoteError::Superseded { kept: Some(kept), .. })) => {
                tracing::warn!(
                    kept,
                    "the task has a later owner; the work of this machine is kept on the remote"
                );
            }
            Ok(Err(error)) => {
                tracing::warn!(error = chain(&error), "the work of this machine was not pushed");
            }
            Err(_) => {
                tracing::warn!("the work of this machine was not pushed: the remote takes too long")
            }
        }
    }
}

/// Whether a later attempt may succeed: the remote does not answer, or an earlier run here is still stopping.
pub(super) fn is_temporary(error: &RemoteError) -> bool {
    error.may_pass() || matches!(error, RemoteError::Live { .. })
}

fn fetched_note(fetched: &FetchedRun) -> String {
    let record = fetched.record.get(..12).unwrap_or(&fetched.record);
    let mut text = format!("Run fetched from its remote, record {record}");
    if let Some(checkpoint) = &fetched.checkpoint {
        text.push_str(&format!(", checkpoint {}", checkpoint.short()));
    }
    match fetched.left_behind.len() {
        0 => {}
        1 => text.push_str(
            "; 1 session of an agent did not come along: a codon that would continue in it begins a new one",
        ),
        count => text.push_str(&format!(
            "; {count} sessions of agents did not come along: codons that would continue in them begin new ones"
        )),
    }
    if let Some(kept) = &fetched.kept {
        text.push_str(&format!("; what was here is kept as {kept}"));
    }
    text
}

/// Background task that pushes a run whenever a codon has started or completed.
#[derive(Debug)]
pub(super) struct BackgroundPush {
    target: PushTarget,
    workspace: PathBuf,
    /// Tells the background task that a push is due.
    due_sender: watch::Sender<PushDue>,
    notes: mpsc::Receiver<SyncNote>,
    /// Last history that the remote has received.
    pushed: watch::Receiver<Option<HankweaveState>>,
    /// Cancelled once a later owner of the task has pushed.
    superseded: CancellationToken,
    task: AbortOnDropHandle<()>,
}

/// Reason for the next push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PushDue {
    /// Number of codons that have started or completed.
    Codons(u64),
    /// The run has ended.
    Last,
}

impl BackgroundPush {
    /// Starts with a push of the present record, so that the remote knows the token.
    pub(super) fn start(target: PushTarget, workspace: &Path) -> Self {
        let (due_sender, due) = watch::channel(PushDue::Codons(0));
        let (note_sender, notes) = mpsc::channel(MAX_PENDING_NOTES);
        let (pushed_sender, pushed) = watch::channel(None);
        let superseded = CancellationToken::new();
        let work = PushLoop {
            target: target.clone(),
            dir: ExecutionDir::new(workspace.to_owned()),
            due,
            note_sender,
            pushed_sender,
            superseded: superseded.clone(),
        };
        Self {
            target,
            workspace: workspace.to_owned(),
            due_sender,
            notes,
            pushed,
            superseded,
            task: AbortOnDropHandle::new(tokio::spawn(work.work())),
        }
    }

    /// Requests a push after a codon has started or completed. A later owner of the task then knows of its cost, and continues after it.
    pub(super) fn request_push(&self) {
        self.due_sender.send_modify(|due| {
            if let PushDue::Codons(number) = due {
                *number += 1;
            }
        });
    }

    /// Waits for the next event.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(super) async fn next(&mut self) -> SyncEvent {
        tokio::select! {
            biased;
            () = self.superseded.cancelled() => SyncEvent::Superseded,
            Some(note) = self.notes.recv() => SyncEvent::Note(note),
            Some(history) = next_pushed(&mut self.pushed) => SyncEvent::Pushed(Box::new(history)),
        }
    }

    /// Stops pushing for a lost task, and keeps its work on the remote, next to the record of the later owner.
    pub(super) async fn give_up(self) {
        self.task.abort();
        // The task holds the lock of pushes until it has ended.
        let _ = self.task.await;
        self.target.keep_work(&self.workspace).await;
    }

    /// Ends the pushing with a last push, within a few attempts.
    ///
    /// # Cancel safety
    ///
    /// Pushing continues; call nothing but [`give_up`](Self::give_up) then.
    pub(super) async fn finish(&mut self) -> Finished {
        // A failure means that the task has ended.
        let _ = self.due_sender.send(PushDue::Last);
        let mut notes = Vec::new();
        while let Some(note) = self.notes.recv().await {
            notes.push(note);
        }
        if let Err(error) = (&mut self.task).await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
        Finished {
            notes,
            pushed: self.pushed.borrow().clone(),
            has_later_owner: self.superseded.is_cancelled(),
        }
    }
}

/// Returns the history that was pushed last, once it has changed; `None` when no more will be pushed.
async fn next_pushed(pushed: &mut watch::Receiver<Option<HankweaveState>>) -> Option<HankweaveState> {
    pushed.changed().await.ok()?;
    pushed.borrow_and_update().clone()
}

/// The background task of a [`BackgroundPush`].
struct PushLoop {
    target: PushTarget,
    dir: ExecutionDir,
    due: watch::Receiver<PushDue>,
    note_sender: mpsc::Sender<SyncNote>,
    pushed_sender: watch::Sender<Option<HankweaveState>>,
    superseded: CancellationToken,
}

impl PushLoop {
    async fn work(mut self) {
        let mut pauses = None;
        while *self.due.borrow_and_update() != PushDue::Last {
            let retry_after = match self.push().await {
                Ok(()) | Err(RemoteError::NothingRecorded) => {
                    if pauses.take().is_some() {
                        self.note(LogLevel::Info, "Run pushed again".to_owned());
                    }
                    None
                }
                Err(error) if self.is_superseded(&error) => return,
                Err(error) => {
                    // Log it once, not at each attempt.
                    if pauses.is_none() {
                        self.note(LogLevel::Warning, format!("Run not pushed: {}", chain(&error)));
                    }
                    let pause = pauses.get_or_insert_with(Pauses::default).next();
                    // An error that does not pass by itself is retried only with the next push that is due.
                    is_temporary(&error).then_some(pause)
                }
            };
            let changed = match retry_after {
                // The next push may be hours away. Until then, the work would be lost with this machine.
                Some(pause) => timeout(pause, self.due.changed()).await.unwrap_or(Ok(())),
                None => self.due.changed().await,
            };
            if changed.is_err() {
                return;
            }
        }
        self.push_last().await;
    }

    async fn push(&self) -> Result<(), RemoteError> {
        let pushed = self.target.push(&self.dir).await?;
        self.pushed_sender.send_replace(Some(pushed.history));
        Ok(())
    }

    async fn push_last(&self) {
        let mut tries = 1;
        loop {
            match self.push().await {
                Ok(()) => return self.note(LogLevel::Info, "Run pushed to its remote".to_owned()),
                Err(RemoteError::NothingRecorded) => return,
                Err(error) if self.is_superseded(&error) => return,
                Err(error) if tries == LAST_TRIES || !is_temporary(&error) => {
                    let message = format!("Run not pushed, it is on this machine alone: {}", chain(&error));
                    return self.note(LogLevel::Error, message);
                }
                Err(_) => {}
            }
            tries += 1;
            sleep(BETWEEN_TRIES).await;
        }
    }

    /// Whether the error means that the task belongs to another worker now. If so, notes it and cancels `superseded`.
    fn is_superseded(&self, error: &RemoteError) -> bool {
        if !matches!(error, RemoteError::Superseded { .. }) {
            return false;
        }
        self.note(LogLevel::Error, chain(error));
        self.superseded.cancel();
        true
    }

    fn note(&self, level: LogLevel, message: String) {
        tracing::info!(execution = %self.target.execution, message, "remote");
        // If the queue is full, the note is only in the log of the worker.
        let _ = self.note_sender.try_send(SyncNote { level, message });
    }
}
