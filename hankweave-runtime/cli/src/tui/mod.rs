//! A live run on the whole screen (`attach --tui`): plan, transcript, files, costs, sentinels, and keys that command it (CLI-35).

mod differences;
mod draw;
mod keys;
mod model;
mod ring;
mod view;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_client::{Client, CommandSender, Disconnected, ServerMessage};
use hankweave_core::document::{PlanEntry, SharedList};
use hankweave_core::wire::{Command, DirectPayload, Event};
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::clock::{Clock, SystemClock};
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinSet};

use self::keys::{Key, KeyDecoder};
use self::model::RunModel;
use self::view::{View, ViewAction};
use crate::keyboard::Keyboard;
use crate::report::Loops;
use crate::screen::Full;

/// How often the screen is drawn again while anything changes; a clock on it continues as well.
const TICK: Duration = Duration::from_millis(100);

/// As much of what keys wanted may be under way.
const MOST_TASKS: usize = 64;

/// Why the screen was left.
#[derive(Debug)]
pub(crate) enum ExitReason {
    /// The person left, or the program was interrupted.
    ByKey,
    /// The program is to end.
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
    /// The plan, if it is known.
    pub(crate) plan: SharedList<PlanEntry>,
    /// How often its loops go round at most.
    pub(crate) loops: Loops,
    /// How what became of a command is said.
    pub(crate) words: Option<fn(&DirectPayload) -> String>,
}

/// Shows the run until it ends or somebody leaves. `client` begins with the first event.
///
/// # Errors
///
/// When the terminal cannot be drawn on, or cannot be watched.
pub(crate) async fn watch(client: &mut Client, mut known: TuiContext) -> io::Result<ExitReason> {
    let Some(keyboard) = Keyboard::of_stdin() else {
        return Err(io::Error::other("the standard input is no terminal"));
    };
    let mut full = Full::take()?;
    let mut watched = App {
        model: RunModel::new(std::mem::take(&mut known.loops)),
        view: View::default(),
        commands: client.commands(),
        tasks: JoinSet::new(),
        known,
    };
    watched.model.plan(&watched.known.plan);
    let mut ended = None;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut stopped, mut terminated) = (
        signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
        signal(SignalKind::terminate())?,
    );
    let (mut hung_up, mut interrupted) = (signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?);
    let mut keys = KeyDecoder::default();
    let mut pressed = std::pin::pin!(keyboard.key());
    loop {
        // Every arm is cancel safe: whoever looks for a key is only borrowed.
        tokio::select! {
            biased;
            _ = terminated.recv() => return Ok(ExitReason::Terminated),
            _ = hung_up.recv() => return Ok(ExitReason::HungUp),
            _ = interrupted.recv() => return Ok(ExitReason::ByKey),
            _ = stopped.recv() => {
                full.lend()?;
                kill_process(getpid(), Signal::STOP)?;
                keyboard.again();
                full.take_again()?;
            }
            _ = tick.tick() => if full.draw(|frame| watched.draw(frame)).is_err() {
                return Ok(ExitReason::HungUp);
            },
            key = &mut pressed => {
                let Ok(key) = key else {
                    return Ok(ExitReason::HungUp);
                };
                if keys.press(key).is_some_and(|key| watched.press(key)) {
                    return Ok(ended.map_or(ExitReason::ByKey, ExitReason::Ended));
                }
                // What is pressed after the key that leaves is for whoever comes next.
                pressed.set(keyboard.key());
            }
            Some(done) = watched.tasks.join_next(), if !watched.tasks.is_empty() => watched.done(done),
            message = client.next(), if ended.is_none() => match message {
                Ok(message) => watched.handle_message(message),
                // Whoever reads continues reading.
                Err(why) => {
                    watched.view.message = format!("{why}; q leaves");
                    ended = Some(why);
                }
            },
        }
    }
}

/// Outcome of a key's command.
#[derive(Debug)]
enum ActionResult {
    Nothing,
    Said(String),
    Compared(String, Vec<String>),
}

struct App {
    model: RunModel,
    view: View,
    commands: CommandSender,
    /// Commands of keys that are not done yet.
    tasks: JoinSet<ActionResult>,
    known: TuiContext,
}

impl App {
    fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        draw::draw(frame, &mut self.view, &self.model, SystemClock.now());
    }

    /// Takes a message in.
    fn handle_message(&mut self, message: ServerMessage) {
        match message {
            ServerMessage::Event(entry) => {
                self.model.take(&entry);
                if let Event::CheckpointList { checkpoints, .. } = entry.event {
                    self.view.offer(checkpoints);
                }
            }
            ServerMessage::Direct(direct) => {
                if let DirectPayload::CheckpointList { checkpoints, .. } = direct.answer {
                    self.view.offer(checkpoints);
                }
            }
            ServerMessage::Unknown { .. } => {}
        }
    }

    /// Takes a key; whether somebody leaves with it.
    fn press(&mut self, key: Key) -> bool {
        match self.view.press(key, &self.model) {
            ViewAction::Nothing => {}
            ViewAction::Leave => return true,
            ViewAction::Send(command) => self.send(command),
            ViewAction::List => self.send(Command::CheckpointList { run_id: None }),
            ViewAction::Compare(path) => self.compare(path),
        }
        false
    }

    /// Sends a command, and says what became of it when that is known. It ends with the connection.
    fn send(&mut self, command: Command) {
        let is_list = matches!(command, Command::CheckpointList { .. });
        let (commands, words) = (self.commands.clone(), self.known.words);
        self.begin(async move {
            match (commands.send(command).await, words) {
                (Ok(answer), Some(words)) if !is_list => ActionResult::Said(words(&answer)),
                (Ok(_), _) => ActionResult::Nothing,
                (Err(error), _) => ActionResult::Said(format!("refused: {error}")),
            }
        });
    }

    fn compare(&mut self, path: String) {
        let (Some(execution), Some(base)) = (self.known.execution.clone(), self.model.base.clone()) else {
            "the differences are told where the files are".clone_into(&mut self.view.message);
            return;
        };
        self.begin(async move {
            let name = path.clone();
            let compare = move || differences::of(&execution, &base, Path::new(&path));
            ActionResult::Compared(name, Blocking::Threads.run(compare).await)
        });
    }

    fn begin(&mut self, work: impl Future<Output = ActionResult> + Send + 'static) {
        match self.tasks.len() < MOST_TASKS {
            true => drop(self.tasks.spawn(work)),
            false => "too much is waited for".clone_into(&mut self.view.message),
        }
    }

    fn done(&mut self, done: Result<ActionResult, JoinError>) {
        match done {
            Ok(ActionResult::Said(said)) => self.view.message = said,
            Ok(ActionResult::Compared(name, lines)) => self.view.show(name, lines),
            Ok(ActionResult::Nothing) => {}
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {}
        }
    }
}
