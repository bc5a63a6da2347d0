//! Child process of the scripted driver: [`play`] reads arguments, script and prompt, and a `Player` then plays the script turn by turn.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use hankweave_core::cost::{ModelUsage, TokenUsage, UsageTotals, Usd, pricing};
use hankweave_core::hank::REHEARSAL_VARIABLE;
use hankweave_core::shape::plain_with_place;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::script::{Script, ScriptVariables, ScriptedTool, ScriptedTurn};
use super::session::{EarlierSession, ScriptedSession};
use super::stream::{ScriptedStream, raw};
use super::tools::{BackgroundCommand, ScriptedToolResult, leave_behind};
use crate::world::process::ITERATION_VARIABLE;

/// Bytes of a huge line that are printed at once.
static FILLER: [u8; 64 << 10] = [b'x'; 64 << 10];

/// Plays a script as an agent would: reads the prompt from standard input, prints the claude stream, exits.
///
/// `arguments` are those after `scripted-agent`: `--model MODEL`, `--resume SESSION` or `--fork SESSION`, `--script PATH` and
/// `--answer JSON`, all optional. Without a script it answers with the length of the prompt, and with that JSON. The exit code is the script's,
/// else 0 after a success and 1 after an error; 2 for wrong arguments or a wrong script, with a message on
/// standard error.
pub fn play(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match try_play(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("scripted agent: {error}");
            ExitCode::from(2)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum PlayError {
    #[error("unexpected argument {0:?}")]
    Argument(OsString),
    #[error("failed to read the script `{path}`: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the script `{path}` is not valid, {}", plain_with_place(source))]
    Script {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("failed to play: {0}")]
    Io(#[from] io::Error),
}

fn try_play(arguments: impl IntoIterator<Item = OsString>) -> Result<u8, PlayError> {
    let arguments = ScriptedArguments::parse(arguments)?;
    let script = arguments.read_script()?;
    let mut prompt = String::new();
    io::stdin().read_to_string(&mut prompt)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _entered = runtime.enter();
    // SIGTERM does not end a process that listens for it.
    let _term_listener = script
        .ignore_term
        .then(|| signal(SignalKind::terminate()))
        .transpose()?;
    let script = match script {
        script if script == Script::default() => default_script(&prompt, arguments.answer.as_deref()),
        script if std::env::var_os(REHEARSAL_VARIABLE).is_some() => script.rehearsed(),
        script => script,
    };
    Player::new(arguments, script, prompt)?.play()
}

/// Returns the script that is played when the codon has none, or an empty one.
fn default_script(prompt: &str, answer: Option<&str>) -> Script {
    let length = match prompt.chars().count() {
        1 => "1 character".to_owned(),
        count => format!("{count} characters"),
    };
    let mut text = format!("Without a model: the prompt has {length}; nothing was done.");
    if let Some(answer) = answer {
        text = format!("{text}\n\n```json\n{answer}\n```");
    }
    Script {
        turns: vec![ScriptedTurn {
            text: Some(text),
            ..ScriptedTurn::default()
        }],
        ..Script::default()
    }
}

#[derive(Default)]
struct ScriptedArguments {
    model: Option<String>,
    earlier: Option<EarlierSession>,
    script: Option<PathBuf>,
    /// JSON that the default script answers.
    answer: Option<String>,
}

impl ScriptedArguments {
    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, PlayError> {
        let mut parsed = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let Some(value) = arguments.next() else {
                return Err(PlayError::Argument(name));
            };
            match name.to_str() {
                Some("--model") => parsed.model = Some(value.to_string_lossy().into_owned()),
                Some("--resume") => {
                    parsed.earlier = Some(EarlierSession::Resumed(value.to_string_lossy().into_owned()));
                }
                Some("--fork") => {
                    parsed.earlier = Some(EarlierSession::Forked(value.to_string_lossy().into_owned()));
                }
                Some("--script") => parsed.script = Some(value.into()),
                Some("--answer") => parsed.answer = Some(value.to_string_lossy().into_owned()),
                _ => return Err(PlayError::Argument(name)),
            }
        }
        Ok(parsed)
    }

    fn read_script(&self) -> Result<Script, PlayError> {
        let Some(path) = &self.script else {
            return Ok(Script::default());
        };
        let path = path.clone();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(PlayError::Read { path, source }),
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        serde_json::from_str(text).map_err(|source| PlayError::Script { path, source })
    }
}

struct Player {
    script: Script,
    variables: ScriptVariables,
    session: ScriptedSession,
    stream: ScriptedStream,
    /// Usage since the last answer.
    usage: UsageTotals,
    /// Whether a turn so far states its usage.
    states_usage: bool,
    /// Text of the last message, which is the answer.
    last_text: String,
    /// Commands in the background that have not ended.
    background: Vec<BackgroundCommand>,
    /// Number of answers so far.
    answers: u64,
}

impl Player {
    fn new(arguments: ScriptedArguments, script: Script, prompt: String) -> io::Result<Self> {
        let session = ScriptedSession::open(
            arguments.earlier,
            script.session_id.clone(),
            &std::env::temp_dir(),
        );
        let iteration = std::env::var(ITERATION_VARIABLE);
        Ok(Self {
            variables: ScriptVariables {
                prompt,
                work_dir: std::env::current_dir()?.to_string_lossy().into_owned(),
                iteration: iteration.unwrap_or_else(|_| "0".to_owned()),
                session_turn: session.prompts,
            },
            stream: ScriptedStream {
                session_id: session.id.clone(),
                model: match arguments.model {
                    Some(model) => pricing::model_of_alias(&model).map_or(model, str::to_owned),
                    None => "scripted".to_owned(),
                },
            },
            session,
            script,
            usage: UsageTotals::default(),
            states_usage: false,
            last_text: String::new(),
            background: Vec::new(),
            answers: 0,
        })
    }

    /// Plays all turns and answers. Returns the exit code.
    fn play(mut self) -> Result<u8, PlayError> {
        if !self.script.no_init {
            self.stream.init(&self.variables.work_dir)?;
        }
        for (index, turn) in std::mem::take(&mut self.script.turns).into_iter().enumerate() {
            self.turn(&turn, index + 1)?;
        }
        if !self.background.is_empty() {
            self.wait_for_background()?;
        }
        self.answer()?;
        // `result` in a script is always an error.
        let default_code = u8::from(self.script.result.is_some());
        Ok(self.script.exit_code.unwrap_or(default_code))
    }

    fn turn(&mut self, turn: &ScriptedTurn, number: usize) -> io::Result<()> {
        if turn.after_background {
            self.wait_for_background()?;
        }
        thread::sleep(Duration::from_millis(turn.delay_ms));
        if turn.has_message() {
            self.message(turn, number)?;
        }
        self.faults(turn, number)
    }

    /// Prints the message of a turn, and carries out its tools.
    fn message(&mut self, turn: &ScriptedTurn, number: usize) -> io::Result<()> {
        let id = format!("msg_{}_{number}", self.session.prompts);
        let usage = turn.usage.unwrap_or_default();
        self.states_usage |= turn.usage.is_some();
        let tokens = TokenUsage::from(usage);
        let price = pricing::price(&self.stream.model, &tokens);
        self.usage.lower_bound |= price.is_none() && tokens != TokenUsage::ZERO;
        let cost = price.unwrap_or(Usd::ZERO);
        self.usage.add(&self.stream.model, ModelUsage { tokens, cost });
        if let Some(thinking) = &turn.thinking {
            let thinking = self.variables.fill(thinking, number);
            self.stream
                .block(&id, usage, json!({"type": "thinking", "thinking": thinking}))?;
        }
        if let Some(text) = &turn.text {
            self.last_text = self.variables.fill(text, number);
            let block = json!({"type": "text", "text": self.last_text});
            self.stream.block(&id, usage, block)?;
        }
        for (index, tool) in turn.tools.iter().enumerate() {
            let tool = tool.filled(|text| self.variables.fill(text, number));
            let (name, input) = tool.call();
            let call_id = format!("toolu_{}_{number}_{index}", self.session.prompts);
            let block = json!({"type": "tool_use", "id": call_id, "name": name, "input": input});
            self.stream.block(&id, usage, block)?;
            let result = match tool {
                ScriptedTool::Background { command } => self.start_in_background(&call_id, command),
                tool => tool.run(),
            };
            self.stream.tool_result(&call_id, &result.text, result.is_error)?;
        }
        Ok(())
    }

    /// Starts a command in the background, as claude does. Returns at once.
    fn start_in_background(&mut self, call_id: &str, command: String) -> ScriptedToolResult {
        let id = format!("task_{call_id}");
        let started = BackgroundCommand::start(id.clone(), command).and_then(|command| {
            self.background.push(command);
            self.print_background()
        });
        ScriptedToolResult {
            is_error: started.is_err(),
            text: match started {
                Ok(()) => format!("Command running in background with ID: {id}."),
                Err(error) => error.to_string(),
            },
        }
    }

    fn print_background(&self) -> io::Result<()> {
        let commands = self.background.iter();
        self.stream
            .background(commands.map(|command| (command.id.as_str(), command.command.as_str())))
    }

    /// Answers, waits for the commands in the background, and opens the stream anew, as claude does when its model continues.
    fn wait_for_background(&mut self) -> io::Result<()> {
        self.answer()?;
        while !self.background.is_empty() {
            let ended = self.background.remove(0);
            let (id, command) = (ended.id.clone(), ended.command.clone());
            let succeeded = ended.wait()?;
            self.stream.notification(&id, &command, succeeded)?;
            self.print_background()?;
        }
        match self.script.no_init {
            true => Ok(()),
            false => self.stream.init(&self.variables.work_dir),
        }
    }

    /// Saves the session and prints the answer, with the usage since the last answer.
    fn answer(&mut self) -> io::Result<()> {
        self.session.add(&self.usage);
        self.session.save(&std::env::temp_dir())?;
        if !self.script.no_result {
            self.result()?;
        }
        self.usage = UsageTotals::default();
        self.answers += 1;
        Ok(())
    }

    /// Commits the faults of a turn, the mild ones first, as the last ones end or block the process.
    fn faults(&self, turn: &ScriptedTurn, number: usize) -> io::Result<()> {
        if let Some(line) = &turn.raw {
            raw(format!("{}\n", self.variables.fill(line, number)).as_bytes())?;
        }
        if let Some(bytes) = turn.huge_line {
            huge_line(bytes)?;
        }
        if turn.invalid_utf8 {
            raw(b"not \xff UTF-8\n")?;
        }
        if let Some(text) = &turn.stderr {
            eprintln!("{}", self.variables.fill(text, number));
        }
        if let Some(command) = &turn.spawn_detached {
            leave_behind(&self.variables.fill(command, number), Stdio::null())?;
        }
        if turn.hold_stdout {
            leave_behind("exec sleep 3600", Stdio::inherit())?;
        }
        if let Some(signal) = turn
            .signal
            .and_then(|number| Signal::from_named_raw(number.into()))
        {
            kill_process(getpid(), signal)?;
        }
        if turn.hang {
            loop {
                thread::park();
            }
        }
        Ok(())
    }

    /// Prints the closing line of the stream.
    fn result(&self) -> io::Result<()> {
        let failure = self.script.result.as_ref();
        let text = match failure {
            None => self.last_text.clone(),
            Some(failure) if failure.context_exceeded && failure.message.is_empty() => {
                "Prompt is too long".to_owned()
            }
            Some(failure) => failure.message.clone(),
        };
        self.stream.result(
            &text,
            failure,
            (&self.usage, self.states_usage),
            &self.session.totals(),
            self.answers,
        )
    }
}

fn huge_line(bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(FILLER.len()).min(FILLER.len());
        raw(&FILLER[..part])?;
        left -= part as u64;
    }
    raw(b"\n")
}
