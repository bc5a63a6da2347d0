//! Events in words.

use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::codon::{BudgetExceeded, CheckpointType, CodonStatus, UnloadReason};
use hankweave_core::event::StateEvent;
use hankweave_core::wire::{AgentAction, BudgetCeiling, BudgetTotals, Event, IdleReason};
use serde_json::Value;

/// Longest text of an agent that a line shows, in characters.
const EXCERPT: usize = 100;

/// `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// `950`, `12.3k`, `4.5M`
pub(crate) fn tokens(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
    let value = count as f64;
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

/// `1 warning`, `2 warnings`
pub(crate) fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// How a codon stands, in a word. One that was interrupted has not failed.
pub(crate) fn standing(status: CodonStatus, interrupted_by: Option<InterruptedBy>) -> &'static str {
    match interrupted_by {
        Some(by) if by.is_pause() => "paused",
        Some(InterruptedBy::Stop) => "stopped",
        Some(_) => "interrupted",
        None => status.as_str(),
    }
}

/// That a codon ended at a limit of its own, which is no failure.
pub(crate) fn at_its_budget(status: CodonStatus, exceeded: BudgetExceeded) -> String {
    match status {
        CodonStatus::Skipped => format!("nothing was left of its budget: {exceeded}"),
        _ => format!("stopped at its budget: {exceeded}"),
    }
}

/// A codon in one line: what it is, how it stands, what it used. How long it took may be unknown.
pub(crate) fn codon_line(standing: &str, elapsed: Option<Duration>, token_count: u64, cost: &str) -> String {
    format!(
        "{standing:<12} {:>12} {:>8} tokens {cost:>10}",
        elapsed.map_or_else(|| "-".to_owned(), duration),
        tokens(token_count)
    )
}

/// What an event says to a person; `None` for events that only programs need.
pub(crate) fn say(event: &Event) -> Option<String> {
    match event {
        Event::StateTransition { transition, .. } => match &**transition {
            StateEvent::CodonStarted { codon_id, .. } => Some(format!("{codon_id}: preparing")),
            StateEvent::CheckpointCreated {
                codon_id,
                checkpoint_type: CheckpointType::RigSetup,
                sha,
                ..
            } => Some(format!("{codon_id}: rig is set up, checkpoint {}", sha.short())),
            _ => None,
        },
        Event::CodonStarted {
            codon_id,
            previous_session_id,
            ..
        } => Some(match previous_session_id {
            Some(_) => format!("{codon_id}: the agent goes on with its session"),
            None => format!("{codon_id}: the agent works"),
        }),
        Event::AssistantAction {
            codon_id,
            action,
            content,
            tool_name,
            tool_input,
            ..
        } => match action {
            AgentAction::Thinking => None,
            AgentAction::Message => Some(format!("{codon_id}: {}", excerpt(content))),
            AgentAction::ToolUse => {
                let tool = excerpt(tool_name.as_deref().unwrap_or(content));
                Some(format!(
                    "{codon_id}: {tool} {}",
                    excerpt(subject(tool_input.as_ref()))
                ))
            }
        },
        Event::ToolResult {
            codon_id,
            tool_name,
            result,
            is_error: true,
            ..
        } => {
            let (tool, why) = (excerpt(tool_name), excerpt(result));
            Some(format!("{codon_id}: {tool} failed: {why}"))
        }
        Event::CodonCompleted {
            codon_id,
            success,
            cost,
            sentinel_cost,
            cost_is_lower_bound,
            duration: millis,
            failure_reason,
            budget_exceeded,
            ..
        } => {
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
                format!(", {}", at_its_budget(status, exceeded))
            });
            let spent = *cost + sentinel_cost.unwrap_or_default();
            let cost = spent.told(*cost_is_lower_bound == Some(true));
            Some(format!("{codon_id}: {outcome} after {time}, {cost}{why}{budget}"))
        }
        Event::RigOutput { codon_id, line, .. } => Some(format!("{codon_id}: | {}", excerpt(line))),
        Event::RigSetupFailed {
            codon_id, ignored, ..
        } => {
            let consequence = if *ignored { "ignored" } else { "the codon fails" };
            Some(format!("{codon_id}: rig set-up failed ({consequence})"))
        }
        Event::LoopIterationCompleted {
            loop_id,
            iteration,
            is_final,
            ..
        } => {
            let last = if *is_final { ", the last one" } else { "" };
            Some(format!("{loop_id}: iteration {} has ended{last}", iteration + 1))
        }
        Event::BudgetSummary { ceiling, totals, .. } => Some(budget(ceiling, totals)),
        Event::RollbackStarted {
            to_codon,
            to_checkpoint,
            ..
        } => {
            let codon = to_codon.as_ref().map(|id| format!(" of {id}"));
            let codon = codon.unwrap_or_default();
            Some(format!(
                "going back to checkpoint {}{codon}",
                to_checkpoint.short()
            ))
        }
        Event::CodonExtended {
            codon_id,
            extension_number,
            ..
        } => Some(format!(
            "{codon_id}: the agent goes on (extension {extension_number})"
        )),
        Event::ArchiveCompleted {
            codon_id,
            archived_paths,
        } => Some(format!("{codon_id}: {} files archived", archived_paths.len())),
        Event::ArchivePartial {
            codon_id,
            archived_paths,
            failed_paths,
        } => {
            let (moved, left) = (archived_paths.len(), failed_paths.len());
            Some(format!(
                "{codon_id}: {moved} files archived, {left} could not be moved"
            ))
        }
        Event::RollbackRigCleanup {
            codon_id,
            successful_cleanups: Some(gone),
            failed_cleanups: Some(left),
            ..
        } => {
            let (gone, left) = (gone.len(), left.len());
            Some(format!(
                "{codon_id}: {gone} copies of its rig were taken out, {left} stay"
            ))
        }
        Event::RollbackArchiveRestore {
            codon_id,
            restored_paths,
            failed_paths,
            ..
        } => {
            let (back, left) = (restored_paths.len(), failed_paths.len());
            Some(format!(
                "{codon_id}: {back} files came back from the archive, {left} could not"
            ))
        }
        Event::SentinelOutput {
            sentinel_id, content, ..
        } => Some(format!("sentinel {sentinel_id}: {}", excerpt(&answer(content)))),
        Event::SentinelError {
            sentinel_id, message, ..
        } => Some(format!("sentinel {sentinel_id} failed: {}", excerpt(message))),
        Event::SentinelUnloaded {
            sentinel_id,
            reason: UnloadReason::FatalError | UnloadReason::ConsecutiveFailures,
            ..
        } => Some(format!("sentinel {sentinel_id} watches no longer")),
        Event::Info { message } => Some(excerpt(message)),
        Event::Error { message, .. } => Some(format!("error: {}", excerpt(message))),
        Event::OutputTruncated { codon_id, length, .. } => Some(format!(
            "{codon_id}: a line of {length} bytes is too long to be read; the log has it"
        )),
        Event::ServerIdle {
            reason: IdleReason::ApprovalRequired,
            message,
        } => Some(excerpt(message)),
        Event::ServerIdle { .. }
        | Event::CheckpointList { .. }
        | Event::StateSnapshot { .. }
        | Event::FileUpdated { .. }
        | Event::Progress { .. }
        | Event::FiletreeUpdated { .. }
        | Event::RollbackProgress { .. }
        | Event::RollbackCodonCheckpoint { .. }
        | Event::RollbackRigCleanup { .. }
        | Event::RollbackCompleted { .. }
        | Event::OutputUnparsed { .. }
        | Event::SentinelLoaded { .. }
        | Event::SentinelTriggered { .. }
        | Event::SentinelUnloaded { .. }
        | Event::TokenUsage { .. }
        | Event::ToolResult { .. }
        | Event::RigSetupCompleted { .. } => None,
    }
}

/// `budget: $0.0210 of $1.0000, 12 s of 1 min 0 s`
pub(crate) fn budget(ceiling: &BudgetCeiling, totals: &BudgetTotals) -> String {
    let seconds = |seconds: f64| duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    let dollars = ceiling
        .max_dollars
        .map(|most| format!(" of {most}"))
        .unwrap_or_default();
    let time = ceiling
        .max_time_seconds
        .map(|most| format!(" of {}", seconds(most)));
    let spent = totals
        .actual_dollars
        .told(totals.actual_is_lower_bound == Some(true));
    let lived = seconds(totals.actual_time_seconds);
    format!("budget: {spent}{dollars}, {lived}{}", time.unwrap_or_default())
}

/// The argument that tells a person most about a tool use.
pub(crate) fn subject(input: Option<&Value>) -> &str {
    let keys = [
        "file_path",
        "path",
        "command",
        "pattern",
        "url",
        "query",
        "description",
        "prompt",
    ];
    let found = keys.iter().find_map(|key| input?.get(key)?.as_str());
    found.unwrap_or_default()
}

/// One line, cut.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.trim().replace(['\n', '\r', '\t'], " ");
    let mut cut: String = line.chars().take(EXCERPT).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    cut
}

/// What a sentinel has answered: a text, or a value as JSON.
pub(super) fn answer(content: &Value) -> String {
    content
        .as_str()
        .map_or_else(|| content.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_exact_as_a_person_wants_them() {
        let said: Vec<String> = [400, 12_000, 200_000, 7_500_000]
            .map(|millis| duration(Duration::from_millis(millis)))
            .to_vec();
        assert_eq!(said, ["0.4 s", "12 s", "3 min 20 s", "2 h 5 min"]);
    }

    #[test]
    fn an_excerpt_is_one_line() {
        assert_eq!(excerpt("two\nlines"), "two lines");
    }
}
