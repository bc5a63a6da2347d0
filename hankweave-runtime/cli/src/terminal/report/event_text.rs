//! Events in words.

use std::time::Duration;

use hankweave_core::codon::{CheckpointType, CodonStatus, UnloadReason};
use hankweave_core::event::StateEvent;
use hankweave_core::hank::RehearsedKind;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{changed, fallback_words, line_of, subject};
use hankweave_core::wire::{AgentAction, Event, IdleReason};

use super::words::{answer, at_its_budget, budget, counted, duration, excerpt, in_all, standing};
use crate::terminal::approval_prompt::{answer_words, because};
use crate::terminal::left_out::named;
use crate::terminal::screen::{local_time, one_line, with_local_times};

/// Returns the message of an event for people; `None` for events that only programs need.
pub(crate) fn event_text(event: &Event) -> Option<String> {
    Some(match event {
        Event::StateTransition { transition, .. } => return change(transition),
        Event::CodonStarted {
            codon_id,
            session_id,
            previous_session_id,
            ..
        } => match previous_session_id {
            Some(previous) if previous == session_id => {
                format!("{codon_id}: the agent continues with its session")
            }
            Some(_) => format!("{codon_id}: the agent continues with a copy of the session"),
            None => format!("{codon_id}: the agent works"),
        },
        Event::AssistantAction {
            codon_id,
            action: AgentAction::Message,
            content,
            ..
        } => format!("{codon_id}: {}", excerpt(content)),
        Event::AssistantAction {
            codon_id,
            action: AgentAction::ToolUse,
            content,
            tool_name,
            tool_input,
            ..
        } => {
            let tool = excerpt(tool_name.as_deref().unwrap_or(content));
            let about = excerpt(subject(tool_input.as_ref()));
            format!("{codon_id}: {tool} {about}")
        }
        Event::ToolResult {
            codon_id,
            tool_name,
            result,
            is_error: true,
            ..
        } => {
            let (tool, why) = (excerpt(tool_name), excerpt(result));
            format!("{codon_id}: {tool} failed: {why}")
        }
        Event::CodonCompleted { .. } => return end(event),
        Event::RigOutput { codon_id, line, .. } => format!("{codon_id}: | {}", excerpt(line)),
        Event::RigSetupFailed {
            codon_id, ignored, ..
        } => {
            let consequence = if *ignored { "ignored" } else { "the codon fails" };
            format!("{codon_id}: rig set-up failed ({consequence})")
        }
        Event::LoopIterationCompleted {
            loop_id,
            iteration,
            is_final,
            ..
        } => {
            // Codon ids count iterations from 0, so "iteration 1" would be read as the second. The number of ended iterations is clear.
            let ended = match iteration {
                0 => "1 iteration has ended".to_owned(),
                before => format!("{} iterations have ended", before + 1),
            };
            let last = if *is_final { ", and no other follows" } else { "" };
            format!("{loop_id}: {ended}{last}")
        }
        Event::BudgetSummary { ceiling, totals, .. } => budget(ceiling, totals),
        Event::RollbackStarted {
            to_codon,
            to_checkpoint,
            ..
        } => {
            let codon = to_codon.as_ref().map(|id| format!(" of {id}"));
            let codon = codon.unwrap_or_default();
            format!("rolling back to checkpoint {}{codon}", to_checkpoint.short())
        }
        Event::CodonFallback {
            codon_id,
            chosen,
            same_session,
        } => format!(
            "{codon_id}: {}",
            with_local_times(&fallback_words(chosen, *same_session))
        ),
        Event::CodonExtended {
            codon_id,
            extension_number,
            ..
        } => format!("{codon_id}: the agent continues (extension {extension_number})"),
        Event::ArchiveCompleted {
            codon_id,
            archived_paths,
        } => format!("{codon_id}: {} archived", counted(archived_paths.len(), "file")),
        Event::CheckpointIncomplete {
            codon_id,
            left_out,
            count,
            ..
        } => {
            let of = codon_id.as_ref().map_or(String::new(), |id| format!("{id}: "));
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            format!("{of}not in its checkpoint: {}", named(left_out, count)?)
        }
        Event::ArchivePartial {
            codon_id,
            archived_paths,
            failed_paths,
        } => {
            let (moved, left) = (counted(archived_paths.len(), "file"), failed_paths.len());
            format!("{codon_id}: {moved} archived, {left} could not be moved")
        }
        Event::RollbackRigCleanup {
            codon_id,
            successful_cleanups: Some(gone),
            failed_cleanups: Some(left),
            ..
        } => {
            let copies = |count: usize| match count {
                1 => "1 copy".to_owned(),
                _ => format!("{count} copies"),
            };
            let (gone, left) = (copies(gone.len()), copies(left.len()));
            format!("{codon_id}: of what its rig copied, {gone} removed, {left} kept")
        }
        Event::RollbackArchiveRestore {
            codon_id,
            restored_paths,
            failed_paths,
            ..
        } => {
            let (back, left) = (restored_paths.len(), failed_paths.len());
            format!(
                "{codon_id}: {} came back from the archive, {left} could not",
                counted(back, "file")
            )
        }
        Event::SentinelOutput {
            sentinel_id, content, ..
        } => format!("sentinel {sentinel_id}: {}", excerpt(&answer(content))),
        Event::SentinelError {
            sentinel_id, message, ..
        } => format!("sentinel {sentinel_id} failed: {}", excerpt(message)),
        Event::SentinelUnloaded {
            sentinel_id,
            reason: UnloadReason::FatalError | UnloadReason::ConsecutiveFailures,
            ..
        } => format!("sentinel {sentinel_id} watches no longer"),
        Event::CheckCompleted { codon_id, .. } => {
            format!("{codon_id}: {}", excerpt(&line_of(event).unwrap_or_default()))
        }
        Event::RehearsalStep {
            codon_id,
            kind: kind @ RehearsedKind::Ask,
            text,
        } => {
            // The user of a real run reads the whole question, so nothing is cut.
            format!("{codon_id}: {}", one_line(kind.words(text)))
        }
        Event::RehearsalStep { codon_id, .. } => {
            let words = with_local_times(&line_of(event).unwrap_or_default());
            format!("{codon_id}: {}", excerpt(&words))
        }
        Event::DiskUsage { .. } => line_of(event).unwrap_or_default(),
        Event::RunContinued {
            suspended_at,
            suspended_ms,
            ..
        } => suspension(*suspended_at, *suspended_ms),
        // Names of files are not cut: a user who was away has only this log.
        Event::Info { message } => one_line(with_local_times(&message.replace('\n', " "))),
        Event::Error { message, .. } => format!("error: {}", excerpt(message)),
        Event::OutputTruncated { codon_id, length, .. } => {
            format!("{codon_id}: a line of {length} bytes is too long to be read; the log has it")
        }
        Event::ServerIdle {
            reason: IdleReason::ApprovalRequired,
            message,
            // A user answers it, so nothing of it is cut.
        } => one_line(with_local_times(message)),
        // The remaining events are shown elsewhere on the screen, or only programs read them.
        _ => return None,
    })
}

/// `suspended at 14:02, continued after 3m20s`
pub(super) fn suspension(at: Timestamp, millis: u64) -> String {
    let length = duration(Duration::from_millis(millis));
    format!("suspended at {}, continued after {length}", local_time(at))
}

/// Describes the end of a codon.
fn end(event: &Event) -> Option<String> {
    let Event::CodonCompleted {
        codon_id,
        success,
        cost,
        sentinel_cost,
        cost_is_lower_bound,
        duration: millis,
        failure_reason,
        budget_exceeded,
        files_changed,
        result,
        ..
    } = event
    else {
        return None;
    };
    let time = duration(Duration::from_millis(*millis));
    let outcome = match (*success, failure_reason) {
        (true, _) => "completed",
        (false, Some(reason)) => standing(CodonStatus::Failed, reason.interruption()),
        (false, None) => "skipped",
    };
    let why = failure_reason
        .as_ref()
        .and_then(|reason| reason.message.as_deref());
    let why = why.map_or(String::new(), |why| format!(": {}", excerpt(why)));
    let budget = budget_exceeded.filter(|_| failure_reason.is_none());
    let budget = budget.map_or(String::new(), |exceeded| {
        let status = if *success {
            CodonStatus::Completed
        } else {
            CodonStatus::Skipped
        };
        format!(
            ", {}",
            at_its_budget(status, exceeded, *cost_is_lower_bound == Some(true))
        )
    });
    let spent = *cost + sentinel_cost.unwrap_or_default();
    let cost = spent.display(*cost_is_lower_bound == Some(true));
    let files = files_changed.map_or(String::new(), |_| {
        format!(", {}", in_all(changed(*files_changed), *files_changed))
    });
    let result = result.as_ref().map_or(String::new(), |result| {
        format!(", result {}", excerpt(&result.to_string()))
    });
    Some(format!(
        "{codon_id}: {outcome} after {time}, {cost}{files}{result}{budget}{why}"
    ))
}

/// Describes a change of the state document; `None` for most changes, which other events report.
fn change(event: &StateEvent) -> Option<String> {
    match event {
        StateEvent::CodonStarted { codon_id, .. } => Some(format!("{codon_id}: preparing")),
        StateEvent::CheckpointCreated {
            codon_id,
            checkpoint_type: CheckpointType::RigSetup,
            sha,
            ..
        } => Some(format!("{codon_id}: rig is set up, checkpoint {}", sha.short())),
        StateEvent::ApprovalSet {
            approval: Some(answer),
        } => {
            let words = answer_words(answer.granted, answer.by.as_deref(), None);
            let because = because(answer.reason.as_deref().map(excerpt).as_deref());
            Some(format!("{}: {words}{because}", answer.codon_id))
        }
        _ => None,
    }
}
