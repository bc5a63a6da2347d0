//! A live run on the whole screen (`attach --tui`, or `t` at a run): plan, transcript, files, costs, sentinels, and keys that command the run (CLI-35).
//! [`watch()`] passes events to the model, keys to the view, and lets `draw` show both.

mod attention;
mod differences;
mod draw;
mod model;
mod ring;
mod view;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_client::{Client, CommandSender, Disconnected, ServerMessage};
use hankweave_core::view::RunView;
use hankweave_core::wire::{Command, DirectPayload, Event, Mode};
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::{Clock, SystemClock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use self::attention::Viewer;
use self::model::RunModel;
use self::view::{Overlay, View, ViewAction};
use crate::directory::watch_suspension;
use crate::terminal::approval_prompt::PromptKey;
use crate::terminal::keyboard::{self, Keyboard};
use crate::terminal::keys::{Key, KeyDecoder};
use crate::terminal::screen::FullScreen;
use crate::terminal::suspend::SuspendSignals;
use crate::terminal::suspended_run::SuspendedRun;

/// Interval at which the screen is drawn again while anything changes; a clock on it continues as well.
const TICK: Duration = Duration::from_millis(100);

/// Note to a user whose token may not command.
const READING: &str = "this token may only read: no key commands the run";

/// Most commands and comparisons that are under way at once.
const MOST_TASKS: usize = 64;

/// Why the screen was left.
#[derive(Debug)]
pub(crate) enum ExitReason {
    /// A key or Ctrl+C left the screen.
    ByKey,
    /// SIGTERM.
    Terminated,
    /// The terminal was closed.
    HungUp,
    /// The run has ended, or the connection with it.
    Ended(Disconnected),
}

/// Facts about the run besides its events.
#[derive(Debug, Default)]
pub(crate) struct TuiContext {
    /// Execution directory, if it is on this machine.
    pub(crate) execution: Option<PathBuf>,
    /// View of the run, as the server has it.
    pub(crate) view: RunView,
    /// Command that shows how an interrupted run continues.
    pub(crate) status: Option<String>,
    /// Function that describes the outcome of a command; with `None` only refusals are shown.
    pub(crate) words: Option<fn(&DirectPayload) -> String>,
    /// Time that the screen of an ended run waits for a key; `None` for no limit.
    pub(crate) patience: Option<Duration>,
}

/// Shows the run until the user leaves, or some time after its end. `client` must get all events from the first on.
///
/// # Errors
///
/// When the terminal cannot be drawn on, or its keys or signals cannot be watched.
pub(crate) async fn watch(client: &mut Client, mut context: TuiContext) -> io::Result<ExitReason> {
    let Some(keyboard) = Keyboard::of_stdin() else {
        return Err(io::Error::other("the standard input is no terminal"));
    };
    let mut screen = FullScreen::take()?;
    let mut app = App {
        model: RunModel::new(std::mem::take(&mut context.view)),
        view: View::default(),
        viewer: Viewer {
            client: client.session().client_id.clone(),
            may_command: client.session().mode == Mode::ReadAndWrite,
            status: context.status.take(),
            ..Viewer::default()
        },
        commands: client.commands(),
        tasks: JoinSet::new(),
        context,
    };
    app.follow();
    if !app.viewer.may_command {
        READING.clone_into(&mut app.view.message);
    }
    let mut ended = None;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut suspending, mut terminated) = (SuspendSignals::new()?, signal(SignalKind::terminate())?);
    let (mut hung_up, mut interrupted) = (signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?);
    let (suspensions, mut suspension) = watch::channel(None);
    let execution = app.context.execution.clone();
    let mut watcher = std::pin::pin!(watch_suspension(execution.as_deref(), |found| {
        suspensions.send_replace(found);
    }));
    let mut keys = KeyDecoder::default();
    let mut leaves_at: Option<Instant> = None;
    let mut pressed = std::pin::pin!(keyboard.key());
    loop {
        // Every arm is cancel safe; the pending wait for a key is only borrowed.
        tokio::select! {
            biased;
            _ = terminated.recv() => return Ok(ExitReason::Terminated),
            _ = hung_up.recv() => return Ok(ExitReason::HungUp),
            _ = interrupted.recv() => return Ok(ExitReason::ByKey),
            () = until(leaves_at) => return Ok(ended.map_or(ExitReason::ByKey, ExitReason::Ended)),
            is_asked = suspending.asks() => {
                if is_asked {
                    screen.lend()?;
                    keyboard.lend();
                    suspending.suspend().await;
                }
                keyboard.again();
                // A terminal that closes sends SIGCONT with its hang-up, in any order.
                if screen.take_again().is_err() {
                    return Ok(ExitReason::HungUp);
                }
            }
            never = &mut watcher => match never {},
            Ok(()) = suspension.changed() => app.viewer.suspended = *suspension.borrow_and_update(),
            _ = tick.tick() => if screen.draw(|frame| app.draw(frame)).is_err() {
                return Ok(ExitReason::HungUp);
            },
            key = &mut pressed => {
                let Ok(key) = key else {
                    return Ok(ExitReason::HungUp);
                };
                if key.is_some() && ended.is_some() {
                    leaves_at = app.leaves_at();
                }
                let decoded = keys.press(key);
                if key.is_none() && decoded.is_none() {
                    app.pause();
                }
                if decoded.is_some_and(|key| app.press(key)) {
                    return Ok(ended.map_or(ExitReason::ByKey, ExitReason::Ended));
                }
                // The next wait starts only here: keys after the one that leaves the screen belong to the next reader.
                pressed.set(keyboard.key());
            }
            Some(result) = app.tasks.join_next(), if !app.tasks.is_empty() => app.show_result(result),
            message = client.next(), if ended.is_none() => match message {
                Ok(message) => app.handle_message(message),
                // The screen stays, so that the user can read on.
                Err(why) => {
                    let words = match (&why, &app.context.execution) {
                        // No failure: the journal has the events that did not arrive.
                        (Disconnected::Incomplete { .. }, Some(_)) => "the process of the run no longer exists".to_owned(),
                        _ => why.to_string(),
                    };
                    app.view.message = format!("{words}; q leaves");
                    app.viewer.prompt.withdraw();
                    app.viewer.gone = Some(words);
                    leaves_at = app.leaves_at();
                    ended = Some(why);
                }
            },
        }
    }
}

/// Outcome of a command or a comparison that a key has started.
#[derive(Debug)]
enum ActionResult {
    Nothing,
    Said(String),
    /// Name of a file, and the lines of its differences.
    Compared(String, Vec<String>),
}

struct App {
    model: RunModel,
    view: View,
    viewer: Viewer,
    commands: CommandSender,
    /// Commands and comparisons that are not done yet.
    tasks: JoinSet<ActionResult>,
    /// The context of the caller; its view and status command were moved into the fields above.
    context: TuiContext,
}

/// Waits for a moment, if there is one.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

impl App {
    /// Returns the time at which the screen closes by itself if no key is pressed from now on.
    fn leaves_at(&self) -> Option<Instant> {
        self.context
            .patience
            .and_then(|patience| Instant::now().checked_add(patience))
    }

    fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        draw::draw(
            frame,
            &mut self.view,
            &self.model,
            &self.viewer,
            SuspendedRun::time(self.viewer.suspended, SystemClock.now()),
        );
    }

    /// Takes the question from the view. Keys typed before a question cannot answer it, so they are dropped.
    fn follow(&mut self) {
        if self.viewer.prompt.follow(&self.model.view) && self.viewer.prompt.question().is_some() {
            keyboard::forget_typed();
        }
    }

    /// Takes a message in.
    fn handle_message(&mut self, message: ServerMessage) {
        match message {
            ServerMessage::Event(entry) => {
                self.model.take(&entry);
                self.follow();
                if let Event::CheckpointList { checkpoints, .. } = entry.event {
                    self.view.offer(checkpoints);
                }
            }
            ServerMessage::Direct(direct) => {
                if let DirectPayload::CheckpointList { checkpoints, .. } = direct.answer {
                    self.view.offer(checkpoints);
                }
            }
            _ => {}
        }
    }

    /// Called when no key came for a moment.
    fn pause(&mut self) {
        if let PromptKey::Answer(answer) = self.viewer.prompt.pause() {
            self.send(answer.into());
        }
    }

    /// Takes a key; returns whether it leaves the screen.
    fn press(&mut self, key: Key) -> bool {
        if self.viewer.may_command && matches!(self.view.front, Overlay::Nothing) {
            match self.viewer.prompt.press(key) {
                PromptKey::Ignored => {}
                PromptKey::Taken => return false,
                PromptKey::Answer(answer) => {
                    self.send(answer.into());
                    return false;
                }
            }
        }
        match self.view.press(key, &self.model) {
            ViewAction::Nothing => {}
            ViewAction::Leave => return true,
            ViewAction::Send(_) | ViewAction::List if !self.viewer.may_command => {
                READING.clone_into(&mut self.view.message);
            }
            ViewAction::Send(command) => self.send(command),
            ViewAction::List => self.send(Command::CheckpointList { run_id: None }),
            ViewAction::Compare(path) => self.compare(path),
        }
        false
    }

    /// Sends a command, and shows its outcome if that arrives before the connection ends.
    fn send(&mut self, command: Command) {
        let is_list = matches!(command, Command::CheckpointList { .. });
        let (commands, words) = (self.commands.clone(), self.context.words);
        self.start(async move {
            match (commands.send(command).await, words) {
                (Ok(answer), Some(words)) if !is_list => ActionResult::Said(words(&answer)),
                (Ok(_), _) => ActionResult::Nothing,
                (Err(error), _) => ActionResult::Said(format!("refused: {error}")),
            }
        });
    }

    /// Compares a file with the checkpoint at the start of the newest attempt.
    fn compare(&mut self, path: String) {
        let (Some(execution), Some(base)) = (self.context.execution.clone(), self.model.base().cloned())
        else {
            "the differences are told where the files are".clone_into(&mut self.view.message);
            return;
        };
        self.start(async move {
            let name = path.clone();
            let compare = move || differences::of(&execution, &base, Path::new(&path));
            ActionResult::Compared(name, Blocking::Threads.run(compare).await)
        });
    }

    fn start(&mut self, work: impl Future<Output = ActionResult> + Send + 'static) {
        match self.tasks.len() < MOST_TASKS {
            true => drop(self.tasks.spawn(work)),
            false => "too much is waited for".clone_into(&mut self.view.message),
        }
    }

    fn show_result(&mut self, result: Result<ActionResult, JoinError>) {
        match result {
            Ok(ActionResult::Said(said)) => self.view.message = said,
            Ok(ActionResult::Compared(name, lines)) => self.view.show(name, lines),
            Ok(ActionResult::Nothing) => {}
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {}
        }
    }
}
