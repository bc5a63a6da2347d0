//! Every event of the journal in words, for users who read the journal: also the events that no screen shows.

use std::time::Duration;

use hankweave_core::cost::TokenUsage;
use hankweave_core::event::StateEvent;
use hankweave_core::view::{excerpt, line_of};
use hankweave_core::wire::{AgentAction, Event, ProgressKind};

use super::event_text::event_text;
use super::words::{counted, duration, standing, tokens};
use crate::terminal::approval_prompt::{answer_words, because, client_name};

/// Longest text of an agent or user within a sentence, in bytes.
const LONGEST_TEXT: usize = 160;

/// Returns an event of the journal in words; `None` for a kind without words.
pub(crate) fn record_text(event: &Event) -> Option<String> {
    match event {
        Event::StateTransition { transition, .. } => Some(change(transition)),
        other => event_text(other).or_else(|| unshown(other)),
    }
}

/// Describes an event that no screen reports by itself.
fn unshown(event: &Event) -> Option<String> {
    let number = |count: &u64| usize::try_from(*count).unwrap_or(usize::MAX);
    Some(match event {
        Event::AssistantAction {
            codon_id,
            action: AgentAction::Thinking,
            ..
        } => format!("{codon_id}: {}", line_of(event)?),
        Event::ToolResult {
            codon_id,
            tool_name,
            original_length,
            ..
        } => {
            let bytes = counted(*original_length, "byte");
            format!(
                "{codon_id}: {} answered with {bytes}",
                excerpt(tool_name, LONGEST_TEXT)
            )
        }
        Event::TokenUsage {
            codon_id,
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_creation_tokens,
            total_cost,
            cost_is_lower_bound,
            ..
        } => {
            let used = TokenUsage {
                input_tokens: *input_tokens,
                output_tokens: *output_tokens,
                cache_creation_tokens: *cache_creation_tokens,
                cache_read_tokens: *cache_read_tokens,
            };
            let cost = total_cost.display(*cost_is_lower_bound == Some(true));
            format!("{codon_id}: has used {} tokens, {cost}", tokens(used.total()))
        }
        Event::OutputUnparsed { codon_id, start } => {
            format!(
                "{codon_id}: a line that is no event: {}",
                excerpt(start, LONGEST_TEXT)
            )
        }
        Event::CodonPrompted { codon_id, prompt, .. } => {
            format!("{codon_id}: gets its prompt: {}", excerpt(prompt, LONGEST_TEXT))
        }
        Event::RigSetupCompleted {
            codon_id,
            duration_ms,
            ..
        } => {
            let time = duration(Duration::from_millis(*duration_ms));
            format!("{codon_id}: the rig is set up after {time}")
        }
        Event::StateSnapshot { .. } => "the state was sent to a client".to_owned(),
        Event::FileUpdated { .. } => format!("file {}", line_of(event)?),
        Event::FiletreeUpdated { tree } => {
            // `counted` only adds an s.
            format!(
                "the list of files was read: {} at the top",
                counted(tree.len(), "entry").replace("entrys", "entries")
            )
        }
        Event::CheckpointList { checkpoints, .. } => {
            format!("{} listed", counted(checkpoints.len(), "checkpoint"))
        }
        Event::RollbackProgress {
            current_step,
            total_steps,
            message,
        } => format!(
            "rolling back, {current_step} of {total_steps}: {}",
            excerpt(message, LONGEST_TEXT)
        ),
        Event::RollbackCodonCheckpoint {
            codon_id,
            checkpoint,
            message,
            ..
        } => format!(
            "{codon_id}: {}, checkpoint {}",
            excerpt(message, LONGEST_TEXT),
            checkpoint.short()
        ),
        Event::RollbackCompleted { checkpoint, .. } => {
            format!("rolled back to checkpoint {}", checkpoint.short())
        }
        Event::SentinelLoaded {
            sentinel_id,
            codon_id,
            ..
        } => format!("{codon_id}: sentinel {sentinel_id} watches"),
        Event::SentinelTriggered {
            sentinel_id,
            codon_id,
            event_count,
            ..
        } => format!(
            "{codon_id}: sentinel {sentinel_id} gets {}",
            counted(*event_count, "event")
        ),
        Event::SentinelUnloaded {
            sentinel_id,
            codon_id,
            final_cost,
            cost_is_lower_bound,
            llm_call_count,
            ..
        } => {
            let (answers, cost) = (
                counted(number(llm_call_count), "request"),
                final_cost.display(*cost_is_lower_bound == Some(true)),
            );
            format!("{codon_id}: sentinel {sentinel_id} has ended after {answers}, {cost}")
        }
        Event::RunDescribed {
            hank, max_dollars, ..
        } => {
            let name = hank.as_ref().map_or("a hank without a name", |hank| &hank.name);
            let limit = max_dollars.map_or(String::new(), |most| format!(", at most {most}"));
            format!("the run is one of {}{limit}", excerpt(name, LONGEST_TEXT))
        }
        Event::ApprovalRequested { codon_id, question } => {
            format!("{codon_id}: asks: {}", excerpt(question, LONGEST_TEXT))
        }
        Event::CommandAccepted {
            command,
            client_id,
            codon_id,
            reason,
            by,
        } => {
            let of = codon_id.as_ref().map_or(String::new(), |id| format!("{id}: "));
            let client = client_name(by.as_ref().unwrap_or(client_id));
            format!("{of}{command} by {client}{}", because(reason.as_deref()))
        }
        Event::RunEnded { outcome, cause, .. } => {
            let outcome = serde_json::to_value(outcome).ok()?;
            let outcome = outcome.as_str().unwrap_or("ended").to_owned();
            format!("the run has ended: {outcome}{}", because(cause.as_deref()))
        }
        Event::ServerIdle { message, .. } => excerpt(message, LONGEST_TEXT),
        Event::Progress {
            codon_id,
            kind,
            subject,
            done,
            total,
            ..
        } => {
            let of = codon_id.as_ref().map_or(String::new(), |id| format!("{id}: "));
            let what = match kind {
                ProgressKind::Checkpoint => "makes a checkpoint",
                ProgressKind::Restore => "restores files",
                ProgressKind::Rig if done.is_none() => "runs its check",
                ProgressKind::Rig => "sets up its rig",
                ProgressKind::Retry => "its agent asks again",
                ProgressKind::Wait => "waits before another attempt",
                ProgressKind::Background => "waits for background work",
                _ => "works",
            };
            let place = match (done, total) {
                (Some(done), Some(total)) => format!(", {done} of {total}"),
                _ => String::new(),
            };
            let subject = subject.as_deref().map(|subject| excerpt(subject, LONGEST_TEXT));
            format!("{of}{what}{place}{}", because(subject.as_deref()))
        }
        _ => return None,
    })
}

/// Describes a change of the recorded state.
fn change(event: &StateEvent) -> String {
    let codon = event
        .codon_id()
        .map_or_else(String::new, |codon| format!("{codon}: "));
    let what = match event {
        StateEvent::RunStarted {
            run_id,
            starting_conditions,
            ..
        } => match starting_conditions.source() {
            None => format!("run {run_id} starts at the first codon"),
            Some(source) => {
                let place = source.after_codon.as_ref();
                let place = place.map_or("the beginning", |codon| codon.as_str());
                format!("run {run_id} starts after {place} of run {}", source.run_id)
            }
        },
        StateEvent::RunCompleted { run_id, cause: None } => format!("run {run_id} is completed"),
        StateEvent::RunCompleted {
            run_id,
            cause: Some(cause),
        } => format!("run {run_id} ends here: {cause}"),
        StateEvent::RunFailed { run_id, cause, .. } => {
            let because = because(cause.as_deref());
            format!("run {run_id} has ended without being completed{because}")
        }
        StateEvent::RunCrashed { run_id, .. } => format!("run {run_id} has crashed"),
        StateEvent::CodonStarted { .. } => "starts".to_owned(),
        StateEvent::CodonTransitioned { to, .. } if to.is_terminal() => {
            format!("is {}", standing(*to, None))
        }
        StateEvent::CodonTransitioned { from, to, .. } => format!("from {from} to {to}"),
        StateEvent::CheckpointCreated {
            checkpoint_type, sha, ..
        } => format!("checkpoint {} ({checkpoint_type})", sha.short()),
        StateEvent::CostsIncremented { cost_delta, .. } => format!("used {cost_delta} more"),
        StateEvent::CostsUpdated { cost, .. } => format!("has used {cost}"),
        StateEvent::CodonFinalCostSet { final_cost, .. } => format!("has cost {final_cost}"),
        StateEvent::AssistantMessageCountUpdated { new_count, .. } => {
            format!("message {new_count} of its agent")
        }
        StateEvent::SentinelStatesUpdated { total_cost, .. } => {
            format!("its sentinels have cost {total_cost}")
        }
        StateEvent::InitialCheckpointSet { sha } => {
            format!("checkpoint {} before the first codon", sha.short())
        }
        StateEvent::ExtensionCountUpdated { extension_count, .. } => {
            format!("extension {extension_count} of its agent's work")
        }
        StateEvent::RollbackPending { rollback: None, .. } => "the rollback is done with".to_owned(),
        StateEvent::RollbackPending {
            rollback: Some(back), ..
        } => {
            let sha = back.source.checkpoint_sha.short();
            let codon = back.source.after_codon.as_ref();
            let codon = codon.map_or("the beginning", |codon| codon.as_str());
            match back.restored {
                true => format!("the files are those of checkpoint {sha} of {codon}"),
                false => format!("the files go back to checkpoint {sha} of {codon}"),
            }
        }
        StateEvent::ApprovalSet { approval: None } => "the answer to an approval counts no longer".to_owned(),
        StateEvent::ApprovalSet {
            approval: Some(answer),
        } => {
            let words = answer_words(answer.granted, answer.by.as_deref(), None);
            format!("{words}{}", because(answer.reason.as_deref()))
        }
        StateEvent::OperationRecorded { operation } => {
            format!(
                "operation {} is recorded: {}",
                operation.id,
                excerpt(&operation.command, LONGEST_TEXT)
            )
        }
        StateEvent::PlanReplaced { execution_plan } => {
            format!("the plan is made: {}", counted(execution_plan.len(), "codon"))
        }
        StateEvent::PlanExtended { extension } => {
            let added = counted(extension.entries.len(), "codon");
            format!("a loop continues: {added} more in the plan")
        }
        other => other.name().to_owned(),
    };
    format!("{codon}{what}")
}
