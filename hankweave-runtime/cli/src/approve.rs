//! `hankweave approve`, and the question on the terminal of a run (CLI-30).

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::document::HankweaveState;
use hankweave_core::id::CodonId;
use hankweave_core::plan::{BlockedBy, Decision};
use hankweave_core::thread;
use hankweave_core::view::RunView;
use hankweave_runtime::error::chain;
use hankweave_runtime::state_manager::TransitionError;
use hankweave_runtime::world::World;
use hankweave_runtime::{Commander, OpenDirectory, RunOptions};
use serde_json::json;

use crate::args::{ApproveArgs, Global};
use crate::directory::takes_clients;
use crate::failures::open_failure;
use crate::hints::HintCommands;
use crate::logging;
use crate::owning_task::{OwningTask, existing_state_dir};
use crate::receipt;
use crate::remote;
use crate::state::read_execution;
use crate::status::{decision, ways_on};
use crate::terminal::approval_prompt::{PromptKey, answer_words};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::keyboard::{self, Keyboard};
use crate::terminal::output;
use crate::terminal::prompt_line::{PromptForm, PromptLine};
use crate::terminal::screen::print_stderr;

/// Grants or denies the approval that a codon waits for: through the live run if there is one, else in the record, for the next run.
pub(crate) fn approve(global: &Global, args: &ApproveArgs) -> Result<ExitCode, CliError> {
    logging::install(global);
    let execution = args.execution();
    existing_state_dir(execution)?;
    if takes_clients(execution) {
        return remote::approve(global, args);
    }
    let task = OwningTask::of(execution).map(OwningTask::looked_up);
    if let Some(task) = task.filter(OwningTask::is_answered_there) {
        return Err(task.refuse_answer(args.deny, args.reason.as_deref()));
    }
    let codon = remote::runtime()?.block_on(answer(args))?;
    // The answer changes what the report says is next.
    receipt::write(execution, None);
    if global.json() {
        let answer = json!({"codonId": codon, "granted": !args.deny, "reason": args.reason});
        return output::print_json(&answer);
    }
    let hints = HintCommands::about(execution);
    if !global.quiet {
        let state = read_execution(execution)?;
        output::print_lines(match args.deny {
            false => format!(
                "{codon} may begin; `{}` continues with it\n",
                onward(execution, &state)
            ),
            true => {
                let after_all = hints.command(&format!("approve {codon}"));
                format!("{codon} may not begin; `{after_all}` allows it after all\n")
            }
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the command that continues with an approved codon, with a larger budget where none is left.
fn onward(execution: &Path, state: &HankweaveState) -> String {
    let onward = ways_on(execution, state).into_iter().next();
    onward.map_or_else(|| HintCommands::about(execution).run(), |(command, _)| command)
}

/// Records the answer for the next run; returns the codon that it is about.
async fn answer(args: &ApproveArgs) -> Result<CodonId, CliError> {
    let execution = args.execution();
    let hints = HintCommands::about(execution);
    let mut options = RunOptions::default();
    // Fails if the history cannot be read: starting over would leave no codon to answer.
    options.strict_state = true;
    let opened = OpenDirectory::open(World::real(), execution, &options)
        .await
        .map_err(|error| open_failure(&error, &hints))?;
    let answered = match codon_to_answer(args, &opened, &hints) {
        Ok(codon) => {
            // `(None, None)`: by the user of this process, now.
            let recorded = opened
                .answer(&codon, !args.deny, args.reason.clone(), (None, None))
                .await;
            recorded.map(|()| codon).map_err(|error| failure(&error))
        }
        Err(failure) => Err(failure),
    };
    let saved = opened.close().await;
    let codon = answered?;
    saved.map_err(|error| CliError::from_error(CliErrorKind::Io, &*error))?;
    Ok(codon)
}

fn failure(error: &TransitionError) -> CliError {
    match error {
        TransitionError::Rejected(_) => CliError::from_error(CliErrorKind::Failed, error),
        _ => CliError::from_error(CliErrorKind::Io, error),
    }
}

/// Returns the codon that waits for an approval. Refuses if that is not the codon named in the arguments, or if the approval is granted already.
fn codon_to_answer(
    args: &ApproveArgs,
    opened: &OpenDirectory,
    hints: &HintCommands,
) -> Result<CodonId, CliError> {
    // The codon that waits for an approval, or the codon that may start.
    let (waits, starts) = match decision(args.execution(), &opened.state()) {
        Some(Decision::Ask(entry)) => (Some(entry.codon_id), None),
        Some(Decision::Blocked(BlockedBy::Denied(id))) => (Some(id), None),
        Some(Decision::Start(entry)) => (None, Some(entry.codon_id)),
        _ => (None, None),
    };
    let refused = |message: String| {
        let status = hints.command("status");
        Err(CliError::new(CliErrorKind::Failed, message).hint(format!("`{status}` says what is next")))
    };
    let state = opened.state();
    let already_granted = state.approval.as_ref().filter(|answer| {
        let is_meant = args.codon().is_none_or(|named| *named == answer.codon_id);
        answer.granted && is_meant && starts.as_ref() == Some(&answer.codon_id)
    });
    if let Some(answer) = already_granted {
        let (id, words) = (&answer.codon_id, answer_words(true, answer.by.as_deref(), None));
        let hint = match args.deny {
            true => format!(
                "`{}` to the checkpoint before it takes the approval back, and the next run asks again; `{}` lists the checkpoints",
                hints.command("rollback --to SHA"),
                hints.command("history")
            ),
            false => format!("`{}` continues with it", onward(args.execution(), &state)),
        };
        return Err(CliError::new(CliErrorKind::Failed, format!("{id} is {words} already")).hint(hint));
    }
    match (waits, args.codon()) {
        (Some(waits), None) => Ok(waits),
        (Some(waits), Some(named)) if waits == *named => Ok(waits),
        (Some(waits), Some(named)) => refused(format!("{named} does not wait for an approval, {waits} does")),
        (None, Some(named)) => refused(format!("{named} does not wait for an approval")),
        (None, None) => refused("no codon waits for an approval".to_owned()),
    }
}

/// Pause between two checks for keys while another program has the terminal.
const TERMINAL_AWAY: Duration = Duration::from_millis(200);

/// Turns keys typed in the terminal of a run into answers to its questions for an approval.
#[derive(Debug)]
pub(crate) struct Answers {
    commander: Commander,
    prompt: Arc<PromptLine>,
}

impl Answers {
    pub(crate) fn new(commander: Commander, form: PromptForm, state: &HankweaveState) -> Self {
        let view = RunView::of_state(state, &thread::build(state, None, None), 0);
        Self {
            commander,
            prompt: Arc::new(PromptLine::new(form, view, None)),
        }
    }

    /// Returns the line of the question, which the screen of the run draws and keeps up to date.
    pub(crate) fn prompt(&self) -> &Arc<PromptLine> {
        &self.prompt
    }

    /// Waits until a question is open, then a moment for a key; `None` if none came. For a run in which no other async task reads keys.
    pub(crate) async fn key(&self) -> Option<u8> {
        self.prompt.opened().await;
        key().await
    }

    /// Handles a key, or with `None` that no key came for a moment; returns whether the question has used it.
    pub(crate) async fn press(&self, key: Option<u8>) -> bool {
        match self.prompt.press(key) {
            PromptKey::Ignored => return false,
            PromptKey::Taken => {}
            PromptKey::Answer(answer) => {
                if let Err(refusal) = self.commander.send(answer.into()).await {
                    print_stderr(format!("refused: {}\n", chain(&refusal)));
                }
            }
        }
        true
    }
}

/// Looks for a key once. The terminal is ours only for that time, so that it is left unchanged however the program ends.
async fn key() -> Option<u8> {
    let keyboard = keyboard::is_ours().then(Keyboard::of_stdin).flatten();
    let Some(keyboard) = keyboard else {
        tokio::time::sleep(TERMINAL_AWAY).await;
        return None;
    };
    keyboard.key().await.ok().flatten()
}
