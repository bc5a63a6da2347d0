//! Messages about a run that was pushed, pulled or cloned.

use std::fmt::Write as _;
use std::path::Path;

use hankweave_core::id::CheckpointSha;
use hankweave_core::plan::Decision;
use hankweave_remote::{FetchedRun, PushOutcome, Pushed, shown};

use crate::hints::HintCommands;
use crate::owning_task::OwningTask;
use crate::state::read_execution;
use crate::status::decision;
use crate::terminal::report::counted;
use crate::terminal::screen::one_line;
use crate::terminal::shell::path_word;

/// Number of shown characters of a record's name.
const SHORT: usize = 12;

/// Returns the beginning of a record's name, which is a SHA.
pub(super) fn short(record: &str) -> &str {
    record.get(..SHORT).unwrap_or(record)
}

fn checkpoint(sha: Option<&CheckpointSha>) -> String {
    sha.map_or_else(
        || "no checkpoint yet".to_owned(),
        |sha| format!("checkpoint {}", sha.short()),
    )
}

pub(super) fn pushed(pushed: &Pushed, is_live: bool) -> String {
    let url = shown(&pushed.url);
    let mut text = match pushed.outcome {
        PushOutcome::Pushed => format!("pushed {} to {}\n", pushed.execution, one_line(&url)),
        PushOutcome::UpToDate => format!("{} has everything of {}\n", one_line(&url), pushed.execution),
    };
    let at = checkpoint(pushed.checkpoint.as_ref());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  record {}, {at}", short(&pushed.record));
    if let Some(kept) = &pushed.kept {
        let _ = writeln!(text, "  what was there stays under {kept}");
    }
    if !pushed.left_behind.is_empty() {
        let sessions = counted(pushed.left_behind.len(), "session");
        let _ = writeln!(
            text,
            "  not pushed: {sessions} of agents, because nobody knows where these keep them; elsewhere their codons continue in new ones"
        );
    }
    if is_live {
        let _ = writeln!(text, "  the run continues; what it does from now on is not in it");
    }
    let _ = writeln!(
        text,
        "next: `hankweave clone {}` on the other machine",
        path_word(Path::new(&url))
    );
    text
}

pub(super) fn arrived(execution: &Path, arrived: &FetchedRun) -> String {
    let url = shown(&arrived.url);
    if !arrived.changed {
        return format!("{} is up to date with {}\n", arrived.execution, one_line(&url));
    }
    let mut text = format!(
        "{} is in {}\n",
        arrived.execution,
        one_line(execution.display().to_string())
    );
    let at = checkpoint(arrived.checkpoint.as_ref());
    let _ = writeln!(
        text,
        "  record {}, with the files of {at}",
        short(&arrived.record)
    );
    if let Some(kept) = &arrived.kept {
        let _ = writeln!(text, "  what was here stays on the remote under {kept}");
    }
    let hints = HintCommands::about(execution);
    let task = OwningTask::of(execution).map(OwningTask::looked_up);
    if arrived.kept.is_some() && task.is_some() {
        let _ = writeln!(
            text,
            "  what that alone knew of the cost of the task is not counted here any more"
        );
    }
    let _ = match arrived.hank.is_some() || hints.knows_the_hank() {
        _ if let Some(task) = &task => writeln!(text, "next: {}", task.onward()),
        _ if is_done(execution) => writeln!(
            text,
            "nothing is left to do; `{}` shows it",
            hints.command("report")
        ),
        true => writeln!(text, "next: `{}` continues there", hints.run()),
        false => writeln!(
            text,
            "next: the hank did not come along; `{}` continues with it",
            hints.run()
        ),
    };
    text
}

/// Whether every codon of the plan has ended.
fn is_done(execution: &Path) -> bool {
    let state = read_execution(execution).ok();
    state.is_some_and(|state| decision(execution, &state) == Some(Decision::Done))
}

/// Returns the notice that the record was pushed while a codon was at work, so that its run may continue elsewhere.
fn left_at_work(execution: &Path, arrived: &FetchedRun) -> Option<String> {
    let state = read_execution(execution).ok()?;
    let open = state.runs.front()?.open_codon()?.codon_id();
    let whose = match arrived.execution.is_of_task() {
        true => "its task",
        false => "its run",
    };
    Some(format!(
        "its record was pushed while {open} was at work: where {whose} goes on elsewhere, a run here pays again for what that does"
    ))
}

pub(super) fn notices(execution: &Path, arrived: &FetchedRun) -> Vec<String> {
    let is_copy = arrived.execution.is_of_task() && OwningTask::of(execution).is_none();
    let copy = "it is a copy of the run of a task: what is done here does not come back into the task, and its answers and budget are not asked for";
    let copy = is_copy.then(|| copy.to_owned());
    let mut notices: Vec<String> = copy.into_iter().chain(left_at_work(execution, arrived)).collect();
    if !arrived.left_behind.is_empty() {
        let sessions = counted(arrived.left_behind.len(), "session");
        notices.push(format!(
            "{sessions} of agents did not come along; codons that would continue in them begin new ones"
        ));
    }
    for file in &arrived.different {
        notices.push(format!(
            "`{}` of the hank differs here and was left as it is",
            one_line(file.display().to_string())
        ));
    }
    notices
}
