//! Server of the record of a directory, for looking at runs that have ended (WIRE-46). The record is the journal of all runs in the directory.
//!
//! The server takes no lock and starts nothing. While it serves, it follows the journal, so it shows a run that starts meanwhile as well.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::event::StateEvent;
use hankweave_core::id::RunId;
use hankweave_core::time::Timestamp;
use hankweave_core::view::RunView;
use hankweave_core::wire::{Event, JournalEntry};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::door::Rooms;
use super::hub::Hub;
use super::limits::ServerLimits;
use super::reading::{self, RecordReader};
use super::replies::Replies;
use super::token::AccessTokens;
use super::{Bound, RunTexts, ServeError, ServedSource, ServerOptions, Shared, SharedParts};
use crate::error::chain;
use crate::instance_lock::{last_heartbeat, live_record};
use crate::journal::{Batch, JournalTail, RecordedJournal};
use crate::paths::ExecutionDir;
use crate::presence::ClientCount;
use crate::shutdown::Shutdown;
use crate::state_manager::Events;
use crate::world::World;
use crate::world::disk::IoError;

/// Time between two readings of the journal: as often as a run syncs it (D5).
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Readings of the journal between two checks of the process of a run that has not ended.
const LOOKS_PER_CHECK: u32 = 5;

/// Bytes of events that are passed on at once.
const BATCH_BYTES: usize = 1 << 20;

/// Why the record of a directory is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenRecordError {
    /// No run is recorded.
    #[error("there is no recorded run")]
    Empty,
    /// The journal has nothing about this run.
    #[error("the journal has no run `{run}`")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] IoError),
    /// The port or the token cannot be had.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// A record with its port; no client is answered yet.
#[derive(Debug)]
pub struct RecordServer {
    bound: Bound,
    world: World,
    dir: ExecutionDir,
    record: FoldedRecord,
}

/// The journal as far as it was read, folded into a view.
#[derive(Debug)]
pub(super) struct FoldedRecord {
    view: RunView,
    /// Reads the events after `position`.
    tail: JournalTail,
    /// The last event that was read.
    position: u64,
    /// Whether later events belong to another run, which is not shown.
    is_closed: bool,
}

impl RecordServer {
    /// Reads the record of `dir` and takes its port. With `run`, only events up to the end of this run are shown.
    ///
    /// # Errors
    ///
    /// [`OpenRecordError`]; no port is taken then.
    pub async fn open(
        world: &World,
        dir: ExecutionDir,
        run: Option<RunId>,
        options: ServerOptions,
    ) -> Result<Self, OpenRecordError> {
        let (outside, place) = (world.clone(), dir.clone());
        let reading = move || {
            let record = FoldedRecord::read(&outside, &place, run.as_ref())?;
            let tokens = match AccessTokens::load(&outside, &place.state_dir()) {
                // No token can be stored: it is the directory of another user, or a read-only disk.
                Err(ServeError::Token(_)) => AccessTokens::temporary(&outside),
                loaded => loaded?,
            };
            Ok::<_, OpenRecordError>((record, tokens))
        };
        let (record, tokens) = world.blocking.run(reading).await?;
        let bound = Bound::bind_with(tokens, world, &dir, options).await?;
        Ok(Self {
            bound,
            world: world.clone(),
            dir,
            record,
        })
    }

    /// Returns the port of the directory, if another program has it.
    #[must_use]
    pub fn taken_port(&self) -> Option<u16> {
        self.bound.taken_port()
    }

    /// Returns the address of the page with the token for reading. For the user only.
    #[must_use]
    pub fn read_only_address(&self) -> String {
        self.bound.read_only_address()
    }

    /// Answers clients until `stop` is done. No token allows commands here.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let closing = CancellationToken::new();
        let (shared, work) = self.record.share(
            &self.world,
            &self.dir,
            self.bound.options.texts.clone(),
            (self.bound.address().port(), self.bound.options.limits.clone()),
            closing.clone(),
        );
        self.bound.serve(Rooms::One(shared), closing, work, stop).await;
    }
}

impl FoldedRecord {
    /// Returns what clients share, and the work that answers their requests and follows the journal until `closing`.
    pub(super) fn share(
        self,
        world: &World,
        dir: &ExecutionDir,
        texts: Option<Arc<dyn RunTexts>>,
        (port, limits): (u16, ServerLimits),
        closing: CancellationToken,
    ) -> (Arc<Shared>, impl Future<Output = ()> + Send + use<>) {
        let (sender, requests) = mpsc::channel(reading::QUEUE);
        let Self {
            view,
            tail,
            position,
            is_closed,
        } = self;
        let until = if is_closed { position } else { u64::MAX };
        let history = RecordedJournal::new(Arc::clone(&world.disk), dir.events(), until);
        let parts = SharedParts {
            hub: Hub::new(position, view),
            source: ServedSource::Record,
            history: Arc::new(history),
            // `reading` gets all commands, and refuses those that need a live run.
            command_sender: sender.clone(),
            commander: None,
            reading_sender: sender,
            presence: ClientCount::new(),
            shutdown: Shutdown::new(),
            closing,
            world: world.clone(),
            dir: dir.clone(),
        };
        let reader = RecordReader::new(world, dir, Replies::new(world), texts);
        let shared = parts.share(port, limits);
        let (follower, dir) = (Arc::clone(&shared), dir.clone());
        let following = async move {
            match is_closed {
                true => std::future::pending().await,
                false => follow(&follower, &dir, tail).await,
            }
        };
        let work = async move {
            futures_util::future::join(reading::run(reader, requests), following).await;
        };
        (shared, work)
    }

    /// Reads the journal; with `run`, up to the end of this run. A run whose process no longer exists is shown as crashed.
    pub(super) fn read(
        world: &World,
        dir: &ExecutionDir,
        run: Option<&RunId>,
    ) -> Result<Self, OpenRecordError> {
        let mut tail = JournalTail::new(Arc::clone(&world.disk), dir.events(), 0);
        let (mut view, mut position, mut is_closed) = (RunView::default(), 0, false);
        let mut is_found = run.is_none();
        tail.read(|line| {
            // Events that only newer versions know are skipped.
            if let Ok(entry) = JournalEntry::from_json(line.bytes) {
                let started = started_run(&entry);
                if is_found && run.is_some() && started.is_some_and(|started| Some(started) != run) {
                    is_closed = true;
                    return ControlFlow::Break(());
                }
                is_found |= started.is_some() && started == run;
                view.take(&entry);
            }
            position = line.seq;
            ControlFlow::Continue(())
        })?;
        match run {
            Some(run) if !is_found => return Err(OpenRecordError::UnknownRun { run: run.clone() }),
            _ if view.run.is_none() => return Err(OpenRecordError::Empty),
            _ => {}
        }
        if is_closed {
            // A later run has started, so no process works on this one.
            view.mark_crashed(None);
        } else if !is_held(world, dir) {
            view.note_alive(last_heartbeat_of_run(world, dir));
            view.mark_crashed(None);
        }
        Ok(Self {
            view,
            tail,
            position,
            is_closed,
        })
    }
}

fn started_run(entry: &JournalEntry) -> Option<&RunId> {
    match &entry.event {
        Event::StateTransition { transition, .. } => match &**transition {
            StateEvent::RunStarted { run_id, .. } => Some(run_id),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the last heartbeat of a run whose process has ended, where it is recorded.
fn last_heartbeat_of_run(world: &World, dir: &ExecutionDir) -> Option<Timestamp> {
    last_heartbeat(&*world.disk, &dir.state_dir(), world.clock.now())
}

/// Whether a process works in the directory.
fn is_held(world: &World, dir: &ExecutionDir) -> bool {
    live_record(&*world.disk, &*world.identity, &dir.state_dir()).is_some()
}

/// Passes on new events of the journal until the server stops.
async fn follow(shared: &Shared, dir: &ExecutionDir, mut tail: JournalTail) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut until_check = LOOKS_PER_CHECK;
    loop {
        tokio::select! {
            () = shared.closing.cancelled() => return,
            _ = looks.tick() => {}
        }
        until_check -= 1;
        let is_due = until_check == 0;
        if is_due {
            until_check = LOOKS_PER_CHECK;
        }
        let is_check = is_due && shared.hub.is_open();
        let (world, dir) = (shared.world.clone(), dir.clone());
        // The process is checked before the journal is read, since it writes its last events before it ends.
        let looking = move || {
            let has_crashed = is_check && !is_held(&world, &dir);
            let crashed = has_crashed.then(|| last_heartbeat_of_run(&world, &dir));
            let batch = next_batch(&mut tail);
            (tail, batch, crashed)
        };
        let (batch, crashed);
        (tail, batch, crashed) = shared.world.blocking.run(looking).await;
        match batch {
            Ok(batch) if batch.last_seq() > 0 => {
                shared
                    .hub
                    .send_recorded(&Events::after(Arc::new(batch), 0), &shared.replies);
                // The journal may have more events than fit into a batch.
                looks.reset_immediately();
            }
            Ok(_) => {
                if let Some(heartbeat) = crashed {
                    shared.hub.mark_crashed(heartbeat, &shared.replies);
                }
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "the journal cannot be read, so clients are disconnected");
                return shared.closing.cancel();
            }
        }
    }
}

/// Reads the next events. Events that only newer versions know are skipped.
fn next_batch(tail: &mut JournalTail) -> Result<Batch, IoError> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    tail.read(|line| {
        bytes += line.bytes.len();
        entries.extend(JournalEntry::from_json(line.bytes).ok());
        match bytes < BATCH_BYTES {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok(Batch::new(&entries))
}
