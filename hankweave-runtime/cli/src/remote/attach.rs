//! `hankweave attach`: follows a live run in lines, or with `--tui` on the whole screen. With `--control` keys command the run, or typed lines
//! where there is no keyboard. Events that are still missing when the run has ended come from its journal.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hankweave_client::{
    Client, CommandSender, ConnectError, Disconnected, Options, RunAddress, ServerEndpoint, ServerMessage,
};
use hankweave_core::budget::Ceiling;
use hankweave_core::cost::Usd;
use hankweave_core::view::RunView;
use hankweave_core::wire::{Command, DirectPayload, Event, JournalEntry, ListedCheckpoint, Mode};
use hankweave_runtime::StopCause;
use hankweave_runtime::hank_files;
use hankweave_runtime::journal::TailLine;
use hankweave_runtime::world::blocking::Blocking;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::watch;

use super::menu::{self, KeyAction, MenuState};
use super::words::{self, AttachInput};
use super::{asking_pid, command_failure, connect, connect_failure, ended_failure, runtime};
use crate::args::{AttachArgs, Global};
use crate::checkpoints;
use crate::directory::{answer_there, watch_suspension};
use crate::hints::HintCommands;
use crate::recorded::{self, Follow, JournalRange, LineSink};
use crate::signals;
use crate::terminal::approval_prompt::KEYS;
use crate::terminal::approval_prompt::PromptKey;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::keyboard::Keyboard;
use crate::terminal::prompt_line::{PromptForm, PromptLine};
use crate::terminal::report::{LiveContext, Reporter, RunProcess, run_standing};
use crate::terminal::screen::{is_drawable, print_stderr};
use crate::terminal::suspend::{self, SuspendSignals};
use crate::terminal::suspended_run::SuspendedRun;
use crate::tui::{self, ExitReason};

/// Longest wait for the list of checkpoints, after the run has acknowledged the command that asks for it.
const LIST_WAIT: Duration = Duration::from_secs(5);

/// Follows the run until it ends or the user detaches.
pub(crate) fn attach(global: &Global, args: &AttachArgs) -> Result<ExitCode, CliError> {
    crate::logging::install(global);
    let target = match &args.url {
        Some(url) => {
            let endpoint =
                ServerEndpoint::parse(url).map_err(|error| connect_failure(&error.into(), None))?;
            RunAddress::Endpoint(endpoint)
        }
        None => RunAddress::Execution(args.execution.execution.clone()),
    };
    if args.tui {
        let execution = args.url.is_none().then_some(args.execution.execution.as_path());
        return attach_whole_screen(target, execution);
    }
    let mut options = match args.control {
        true => Options::commanding(),
        false => Options::watching(),
    };
    options.after = args.after;
    let hints = match &args.url {
        Some(_) => None,
        None => Some(HintCommands::about(&args.execution.execution)),
    };
    runtime()?.block_on(follow(global, target, options, args.control, hints.as_ref()))
}

/// Runs `attach --tui`; after the end of the run it prints how the run ended.
fn attach_whole_screen(target: RunAddress, execution: Option<&Path>) -> Result<ExitCode, CliError> {
    let ended = match runtime()?.block_on(on_whole_screen(target, execution, None))? {
        ExitReason::ByKey => return Ok(ExitCode::SUCCESS),
        ExitReason::Terminated => return Ok(ExitCode::from(StopCause::Terminate.exit_code())),
        ExitReason::HungUp => return Ok(ExitCode::from(StopCause::HangUp.exit_code())),
        ExitReason::Ended(ended) => ended,
    };
    let hints = execution.map(HintCommands::about);
    if let (Disconnected::Incomplete { .. }, Some(hints)) = (&ended, &hints) {
        print_stderr(format!("{}\n", end_without_events(hints)));
        return Ok(ExitCode::SUCCESS);
    }
    print_stderr(format!("{ended}\n"));
    ended_failure(&ended, hints.as_ref()).map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Returns how a run ended whose last events did not arrive, by its recorded state, with the command that shows how to continue.
fn end_without_events(hints: &HintCommands) -> String {
    let state = crate::state::read_execution(hints.execution()).ok();
    let newest = state.as_ref().and_then(|state| state.runs.front());
    let how = newest.map(|run| format!(": {}", run_standing(run, RunProcess::None)));
    let (how, status) = (how.unwrap_or_default(), hints.command("status"));
    format!("the run has ended{how}; `{status}` tells how to continue")
}

/// Follows the run on the whole screen, from its first event on, with commands if this user may command. After the end of the run the screen
/// stays until a key is pressed, at most for `patience`; without that, for as long as it takes.
pub(crate) async fn on_whole_screen(
    target: RunAddress,
    execution: Option<&Path>,
    patience: Option<Duration>,
) -> Result<ExitReason, CliError> {
    if !is_drawable() {
        return Err(CliError::new(CliErrorKind::Usage, "--tui needs a terminal")
            .hint("without it everything is told in lines"));
    }
    let hints = execution.map(HintCommands::about);
    let client = match connect(target.clone(), Options::commanding().after(0)).await {
        // A client that may not command watches.
        Err(ConnectError::Unauthorized { .. }) => Client::connect(target, Options::watching().after(0)).await,
        connected => connected,
    };
    let mut client = client.map_err(|error| connect_failure(&error, hints.as_ref()))?;
    let context = tui::TuiContext {
        execution: execution.map(Path::to_owned),
        view: view_of(&client.commands()).await,
        status: hints.as_ref().map(|hints| hints.command("status")),
        words: Some(words::of_answer),
        patience,
    };
    let exit = tui::watch(&mut client, context).await;
    client.close().await;
    exit.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))
}

/// Asks the run for its current view; an empty view if the server is too old to send one.
async fn view_of(commands: &CommandSender) -> RunView {
    match commands.send(Command::ViewGet).await {
        Ok(DirectPayload::View { view }) => serde_json::from_value(view).unwrap_or_default(),
        _ => RunView::default(),
    }
}

/// Follows the run in lines or in the live region of the terminal, and obeys keys or typed lines if `control` is set and the token allows it.
async fn follow(
    global: &Global,
    target: RunAddress,
    options: Options,
    control: bool,
    hints: Option<&HintCommands>,
) -> Result<ExitCode, CliError> {
    // Without `--after` past events are not replayed: a view of the run stands for them.
    let from_now_on = options.after.is_none();
    if let Some(pid) = hints
        .and_then(|hints| asking_pid(hints.execution()))
        .filter(|_| !global.quiet)
    {
        print_stderr(format!("process {pid} waits: {}\n", answer_there(pid)));
    }
    let client = connect(target, options).await;
    let mut client = client.map_err(|error| connect_failure(&error, hints))?;
    let may_command = client.session().mode == Mode::ReadAndWrite;
    let is_denied = control && !may_command;
    let control = control && may_command;
    // A live region needs the keyboard even if no key commands the run: keys that the terminal echoes would shift the region.
    let is_live = !global.json() && !global.quiet && is_drawable();
    let keyboard = (control || is_live).then(Keyboard::of_stdin).flatten();
    // Words on how to answer a question of the run; `None` if the keys of this terminal answer.
    let how_to_answer = (!control || keyboard.is_none()).then(|| match (control, hints) {
        (true, _) => "approve, or deny REASON, answers".to_owned(),
        (false, Some(hints)) => format!(
            "`{}` answers, `{}` denies",
            hints.command("approve"),
            hints.command("approve --deny")
        ),
        (false, None) => "a client that may command the run answers".to_owned(),
    });
    let mut report = choose_report(global, how_to_answer.as_deref(), || {
        live_context(hints).of_client(&client.session().client_id)
    });
    report.notice(&match (control, &keyboard) {
        (true, Some(_)) => format!("attached: {}", menu::HELP),
        (true, None) => "attached; `help` lists the commands, `detach` leaves the run to itself".to_owned(),
        (false, _) if is_denied => {
            "attached: this token may only read, and no key commands the run; Ctrl-C leaves it to itself"
                .to_owned()
        }
        (false, _) => "attached, for reading; Ctrl-C leaves the run to itself".to_owned(),
    });
    // Asked for only now: every event that the view does not hold yet arrives on this connection.
    let commands = client.commands();
    let view = view_of(&commands).await;
    let shown = match hints {
        _ if from_now_on && view.seq > 0 => report.begin_with(view.clone()),
        // A server that sends no view: the recorded state takes its place.
        Some(about) if from_now_on => {
            report.start(&crate::state::read_execution(about.execution())?);
            Ok(())
        }
        Some(about) if crate::state::is_shortened(about.execution())? => {
            report.notice(recorded::SHORTENED);
            Ok(())
        }
        _ => Ok(()),
    };
    if shown.is_err() {
        // Nothing reads the output any more, as after `| head`.
        return Ok(ExitCode::SUCCESS);
    }
    let form = match &report {
        Reporter::Live(_) => PromptForm::Foot,
        Reporter::Plain(_) => PromptForm::Lines,
        Reporter::Json(_) | Reporter::Quiet => PromptForm::Silent,
    };
    let mut followed = Followed {
        report,
        view: view.clone(),
        hints,
    };
    let prompt = Arc::new(PromptLine::new(form, view, how_to_answer));
    followed.report.put_questions(&prompt);
    let (checkpoint_sender, checkpoints) = watch::channel(Vec::new());
    let mut code = ExitCode::SUCCESS;
    let (suspensions, suspension) = watch::channel(None);
    let execution = hints.map(HintCommands::execution);
    let shown = tokio::select! {
        biased;
        cause = signals::hung_up() => {
            code = ExitCode::from(cause.exit_code());
            Ok(())
        }
        never = watch_suspension(execution, |found| { suspensions.send_replace(found); }) => match never {},
        shown = followed.show(&mut client, &prompt, &checkpoint_sender, suspension) => shown,
        never = suspend::answer(SuspendSignals::new(), keyboard.as_ref()) => match never {},
        () = obey_keys(keyboard.as_ref().filter(|_| control), &prompt, &commands, checkpoints, hints) => Ok(()),
        () = ignore_keys(keyboard.as_ref().filter(|_| !control)) => Ok(()),
        () = obey_lines(&commands, hints), if control && keyboard.is_none() => Ok(()),
        // Without this handler Ctrl+C would end the program before the terminal is restored.
        _ = tokio::signal::ctrl_c(), if keyboard.is_some() => Ok(()),
    };
    drop(keyboard);
    drop(prompt);
    drop(followed);
    client.close().await;
    shown.map(|()| code)
}

fn choose_report(
    global: &Global,
    how_to_answer: Option<&str>,
    live_context: impl FnOnce() -> LiveContext,
) -> Reporter {
    if global.json() {
        Reporter::json()
    } else if global.quiet {
        Reporter::Quiet
    } else if is_drawable() {
        Reporter::live(live_context())
    } else {
        Reporter::plain(Some(how_to_answer.unwrap_or(KEYS).to_owned()))
    }
}

/// Returns facts about the run that the run does not report: from its hank and from the command line, as they were remembered in its directory.
fn live_context(hints: Option<&HintCommands>) -> LiveContext {
    let Some(hints) = hints else {
        return LiveContext::default();
    };
    let hank = hints.hank().and_then(|path| hank_files::load(&path).ok()?.hank);
    let dollars = hints.option("max-cost").and_then(|dollars| dollars.parse().ok());
    let typed = Ceiling {
        max_dollars: dollars.and_then(|dollars| Usd::from_dollars(dollars).ok()),
        max_time: None,
    };
    let ceiling = hank.as_ref().map_or(typed, |hank| typed.or_from_hank(hank));
    LiveContext::of(ceiling, hank.as_ref())
}

/// Run that is followed, and its report.
struct Followed<'t> {
    report: Reporter,
    /// View of the run, for the last sentence of the report.
    view: RunView,
    /// `None` if the run was named by its address.
    hints: Option<&'t HintCommands>,
}

impl Followed<'_> {
    /// Shows everything until the run ends or the output is closed, and passes lists of checkpoints on.
    async fn show(
        &mut self,
        client: &mut Client,
        prompt: &PromptLine,
        checkpoint_sender: &watch::Sender<Vec<ListedCheckpoint>>,
        mut suspension: watch::Receiver<Option<SuspendedRun>>,
    ) -> Result<(), CliError> {
        loop {
            // Both arms are cancel safe.
            let next = tokio::select! {
                biased;
                Ok(()) = suspension.changed() => {
                    self.report.suspended(*suspension.borrow_and_update());
                    continue;
                }
                next = client.next() => next,
            };
            let shown = match next {
                Ok(ServerMessage::Event(entry)) => {
                    if let Event::CheckpointList { checkpoints, .. } = &entry.event {
                        checkpoint_sender.send_replace(checkpoints.clone());
                    }
                    // Other prompts get their events through the report.
                    if prompt.is_silent() {
                        prompt.take(&entry);
                    }
                    self.event(&entry)
                }
                Ok(ServerMessage::Direct(direct)) => {
                    if let DirectPayload::CheckpointList { checkpoints, .. } = direct.answer {
                        checkpoint_sender.send_replace(checkpoints);
                    }
                    Ok(())
                }
                Ok(ServerMessage::Unknown { seq, value, .. }) if seq.is_some() => self.report.unknown(&value),
                Ok(_) => Ok(()),
                Err(ended) => return self.end(&ended),
            };
            if shown.and_then(|()| self.report.flush()).is_err() {
                return Ok(());
            }
        }
    }

    fn event(&mut self, entry: &JournalEntry) -> io::Result<()> {
        self.view.take(entry);
        self.report.event(entry)
    }

    /// Shows the events that did not arrive, from the journal, and says how the run ended.
    fn end(&mut self, ended: &Disconnected) -> Result<(), CliError> {
        match (ended, self.hints) {
            (Disconnected::Incomplete { after }, Some(hints)) => {
                let part = JournalRange {
                    after: *after,
                    follow: Follow::No,
                    quiet: true,
                };
                recorded::read(hints.execution(), part, self)?;
            }
            (ended, hints) => ended_failure(ended, hints).map_or(Ok(()), Err)?,
        }
        match (self.view.state.has_ended(), ended, self.hints) {
            (true, _, hints) => {
                let status = hints.map(|hints| hints.command("status"));
                self.report.ended(&self.view, status.as_deref());
            }
            (false, Disconnected::Incomplete { .. }, Some(hints)) => {
                self.report.notice(&end_without_events(hints))
            }
            _ => {}
        }
        Ok(())
    }
}

/// Lines that [`Followed::end`] reads from the journal are shown like events that arrive.
impl LineSink for Followed<'_> {
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()> {
        match JournalEntry::from_json(line.bytes) {
            Ok(entry) => self.event(&entry),
            Err(_) => match serde_json::from_slice(line.bytes) {
                Ok(value) => self.report.unknown(&value),
                // A line that is no JSON cannot be shown.
                Err(_) => Ok(()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.report.flush()
    }
}

/// Acts on keys until the user detaches.
async fn obey_keys(
    keyboard: Option<&Keyboard>,
    prompt: &PromptLine,
    commands: &CommandSender,
    mut checkpoints: watch::Receiver<Vec<ListedCheckpoint>>,
    hints: Option<&HintCommands>,
) {
    let Some(keyboard) = keyboard else {
        return std::future::pending().await;
    };
    let mut menu = MenuState::default();
    loop {
        let pressed = match keyboard.key().await {
            Ok(key) => match (prompt.press(key), key) {
                (PromptKey::Answer(answer), _) => KeyAction::Send(answer.into()),
                (PromptKey::Taken, _) | (_, None) => KeyAction::Nothing,
                (PromptKey::Ignored, Some(key)) => menu.press(key),
            },
            Err(error) => {
                tracing::warn!(%error, "the keyboard cannot be read any more");
                return std::future::pending().await;
            }
        };
        match pressed {
            KeyAction::Nothing => {}
            KeyAction::Say(text) => print_stderr(format!("{text}\n")),
            KeyAction::Send(command) => send(commands, command, hints).await,
            KeyAction::Detach => return,
            KeyAction::ListCheckpoints => match list_checkpoints(commands, &mut checkpoints).await {
                Some(found) => print_stderr(format!("{}\n", menu.offer(found))),
                None => print_stderr("the checkpoints were not told\n"),
            },
        }
    }
}

/// Discards the keys of a user who only watches: a shell would get them afterwards.
async fn ignore_keys(keyboard: Option<&Keyboard>) {
    let Some(keyboard) = keyboard else {
        return std::future::pending().await;
    };
    while keyboard.key().await.is_ok() {}
    std::future::pending().await
}

/// Asks the run for its checkpoints, newest first; `None` if the list does not arrive.
async fn list_checkpoints(
    commands: &CommandSender,
    checkpoints: &mut watch::Receiver<Vec<ListedCheckpoint>>,
) -> Option<Vec<ListedCheckpoint>> {
    checkpoints.mark_unchanged();
    commands
        .send(Command::CheckpointList { run_id: None })
        .await
        .ok()?;
    tokio::time::timeout(LIST_WAIT, checkpoints.changed())
        .await
        .ok()?
        .ok()?;
    Some(checkpoints.borrow_and_update().clone())
}

/// Obeys typed commands until the user detaches. The end of the input changes nothing.
async fn obey_lines(commands: &CommandSender, hints: Option<&HintCommands>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let read = match words::read(&line) {
            AttachInput::BackTo(prefix) => match full_name(hints, prefix).await {
                Ok(sha) => words::back_to(sha),
                Err(failure) => {
                    print_stderr(failure.text());
                    continue;
                }
            },
            read => read,
        };
        match read {
            AttachInput::Nothing => {}
            AttachInput::Unknown | AttachInput::BackTo(_) => {
                print_stderr(format!("commands: {}\n", words::HELP))
            }
            AttachInput::Detach => return,
            AttachInput::Command(command) => send(commands, command, hints).await,
            AttachInput::Careful(command) => {
                if is_meant(&mut lines).await {
                    send(commands, command, hints).await;
                }
            }
        }
    }
    std::future::pending().await
}

/// Returns the full SHA of a checkpoint, from the directory of the run; fails if that is unknown.
async fn full_name(hints: Option<&HintCommands>, prefix: String) -> Result<String, CliError> {
    let Some(hints) = hints else {
        let message = format!("`{prefix}` is too short to name a checkpoint to a run elsewhere");
        return Err(CliError::new(CliErrorKind::Input, message).hint("12 digits are enough"));
    };
    let execution = hints.execution().to_owned();
    let find = move || checkpoints::full_name(&execution, &prefix).map(|sha| sha.to_string());
    Blocking::Threads.run(find).await
}

/// Asks once more before files change.
async fn is_meant(lines: &mut Lines<BufReader<Stdin>>) -> bool {
    print_stderr("take the files of the project back? type yes to continue\n");
    let answer = lines.next_line().await.ok().flatten();
    let meant = answer.is_some_and(|answer| answer.trim() == "yes");
    if !meant {
        print_stderr("nothing was changed\n");
    }
    meant
}

async fn send(commands: &CommandSender, command: Command, hints: Option<&HintCommands>) {
    match commands.send(command).await {
        Ok(answer) => print_stderr(format!("{}\n", words::of_answer(&answer))),
        Err(error) => print_stderr(command_failure(&error, hints).text()),
    }
}
