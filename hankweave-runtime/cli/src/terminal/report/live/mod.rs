//! The run on a terminal. Codons that have ended are lines that stay; below them a footer with the running codon, the next ones and the cost is drawn
//! again and again. `progress` takes the events, `ended` writes the lines that stay, `draw` the footer.

mod activities;
pub(super) mod columns;
mod draw;
mod ended;
mod helpers;
mod progress;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hankweave_core::budget::Ceiling;
use hankweave_core::document::HankweaveState;
use hankweave_core::hank::Hank;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{CurrentActivity, RunView};
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::checkpoint::Counts;
use hankweave_runtime::world::clock::{Clock, SystemClock};

use self::draw::{BAR, draw};
use self::progress::LiveProgress;
use crate::terminal::prompt_line::PromptLine;
use crate::terminal::screen::{Footer, SafeText, print_stderr};
use crate::terminal::suspended_run::SuspendedRun;

/// Facts that the events of a run may not report.
#[derive(Debug, Default)]
pub(crate) struct LiveContext {
    /// The `run.described` event for a run that does not report it.
    description: Option<Event>,
    /// Factor of the original speed, if a record is played again.
    replayed: Option<f64>,
    /// Name of this client at the server, if it is one.
    client: Option<String>,
}

impl LiveContext {
    pub(crate) fn of(ceiling: Ceiling, hank: Option<&Hank>) -> Self {
        Self {
            description: hank.map(|hank| Event::run_described(hank, ceiling)),
            ..Self::default()
        }
    }

    /// Adds the name of this client of the run.
    pub(crate) fn of_client(self, client: &str) -> Self {
        Self {
            client: Some(client.to_owned()),
            ..self
        }
    }

    /// Returns a context with only the speed at which a record is played again; 0 without any wait.
    pub(crate) fn of_replay(speed: f64) -> Self {
        Self {
            replayed: Some(speed),
            ..Self::default()
        }
    }
}

/// The live view of a run. When it is dropped, the footer is taken off the terminal.
#[derive(Debug)]
pub(crate) struct LiveView {
    progress: Arc<Mutex<LiveProgress>>,
    /// Question below the view, which follows that view.
    prompt: Option<Arc<PromptLine>>,
    _foot: Footer,
}

impl LiveView {
    pub(super) fn show(known: LiveContext) -> Self {
        let progress = Arc::new(Mutex::new(LiveProgress::new(known)));
        let shown = Arc::clone(&progress);
        let foot = Footer::show(move |room| {
            let progress = lock(&shown);
            draw(&progress, room, progress.time(now()))
        });
        Self {
            progress,
            prompt: None,
            _foot: foot,
        }
    }

    pub(super) fn start(&self, state: &HankweaveState) {
        lock(&self.progress).start(state);
        self.follow();
    }

    /// Prints a line for each attempt that has ended in `view`, and continues from this view.
    pub(super) fn begin_with(&self, view: RunView) {
        let mut said = SafeText::default();
        // Writing to a text cannot fail.
        let _ = ended::write_all(&view, &mut said);
        lock(&self.progress).view = view;
        // The progress must be unlocked before something is printed: printing draws the footer again, which locks it.
        if said != SafeText::default() {
            print_stderr(said);
        }
        self.follow();
    }

    /// Shows the questions of the run below the view from now on.
    pub(super) fn put_questions(&mut self, prompt: Arc<PromptLine>) {
        self.prompt = Some(prompt);
        self.follow();
    }

    /// Lets the question follow the view.
    fn follow(&self) {
        let Some(prompt) = &self.prompt else { return };
        // The progress must be unlocked before the question is drawn.
        let has_changed = prompt.follow(&lock(&self.progress).view);
        if has_changed {
            prompt.show();
        }
    }

    pub(super) fn event(&self, entry: &JournalEntry) {
        // Unlocked at the end of this line, as in `begin_with`.
        let said = lock(&self.progress).event(entry, now());
        if said != SafeText::default() {
            print_stderr(said);
        }
        self.follow();
    }

    /// Stops the clock of a run that is suspended, until it continues.
    pub(super) fn suspended(&self, suspended: Option<SuspendedRun>) {
        lock(&self.progress).suspended = suspended;
    }

    /// Counts down the time left of a usage limit, until the next codon starts.
    pub(super) fn count_down(&self, left: Duration) {
        let now = now();
        lock(&self.progress).view.activity = Some(CurrentActivity::limit(now, now.after(left)));
    }

    /// Returns a callback that starts the countdown to the forced end of a stop; it gets the time left.
    pub(super) fn stopper(&self) -> impl Fn(Duration) + Send + Sync + 'static {
        let progress = Arc::clone(&self.progress);
        move |left| lock(&progress).stops_at = Some(now().after(left))
    }
}

/// Returns one line about a lengthy activity at `now`.
pub(crate) fn activity_words(activity: &CurrentActivity, now: Timestamp) -> String {
    activities::words(activity, now, BAR)
}

/// Shows a bar for files that are restored, until the returned value is dropped.
pub(crate) fn restoring(counts: impl Fn() -> Option<Counts> + Clone + Send + Sync + 'static) -> Footer {
    let since = now();
    Footer::show(move |room| {
        let mut text = SafeText::default();
        if let Some(counts) = counts() {
            let activity = activities::restore(since, counts);
            // Writing to a text cannot fail.
            let _ = text.write_str(&activities::words(&activity, now(), (room.columns / 4).min(BAR)));
        }
        text
    })
}

fn lock(progress: &Mutex<LiveProgress>) -> std::sync::MutexGuard<'_, LiveProgress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Timestamp {
    SystemClock.now()
}
