//! Words for people: the lines by which a view shows events, titles of tool uses, and other phrases (WIRE-39).

use serde_json::Value;

use super::text::{LINE, TITLE, excerpt};
use crate::codon::ChosenAgent;
use crate::wire::{AgentAction, Event, FileAction};

/// Keys of a tool's input that show people its subject, the clearest first.
const SUBJECTS: [&str; 8] = [
    "file_path",
    "path",
    "command",
    "pattern",
    "url",
    "query",
    "description",
    "prompt",
];

/// Start of the line of a check that did not pass.
pub(super) const CHECK_FAILED: &str = "check failed";

/// Returns `stopped` followed by the cause, such as `stopped: interrupted by SIGINT`. If the cause itself starts with `stopped`, the word is not repeated:
/// `stopped on request`.
#[must_use]
pub fn stopped_words(stopped: &str, cause: &str) -> String {
    match cause.strip_prefix("stopped ") {
        Some(how) => format!("{stopped} {how}"),
        None => format!("{stopped}: {cause}"),
    }
}

/// Returns the title of a tool use: its description, else its clearest argument, else the tool.
#[must_use]
pub fn title_of_tool_use<'e>(tool: Option<&'e str>, input: Option<&'e Value>) -> &'e str {
    let described = input.and_then(|input| input.get("description")?.as_str());
    match described.unwrap_or_else(|| subject(input)) {
        "" => tool.unwrap_or("sub-agent"),
        title => title,
    }
}

/// Returns the argument of a tool use that is clearest to a person; empty when there is none.
#[must_use]
pub fn subject(input: Option<&Value>) -> &str {
    let found = SUBJECTS.iter().find_map(|key| input?.get(key)?.as_str());
    found.unwrap_or_default()
}

/// Returns a change of the agent for people, with the time in UTC.
#[must_use]
pub fn fallback_words(chosen: &ChosenAgent, same_session: bool) -> String {
    let session = match same_session {
        true => ", in the same session",
        false => "",
    };
    let instead = chosen
        .instead
        .as_ref()
        .map(|instead| format!(" {}", instead.words()));
    format!(
        "falls back to {}{}{session}",
        chosen.words(),
        instead.unwrap_or_default()
    )
}

/// Returns the line that shows an event while a codon runs; `None` for events that a view shows in another form.
#[must_use]
pub fn line_of(event: &Event) -> Option<String> {
    let cut = |text: &str| excerpt(text, TITLE);
    Some(match event {
        Event::AssistantAction {
            action,
            content,
            tool_name,
            tool_input,
            ..
        } => match action {
            AgentAction::Thinking => format!("thinks: {}", cut(content)),
            AgentAction::Message => cut(content),
            AgentAction::ToolUse => {
                let tool = tool_name.as_deref().unwrap_or(content);
                format!("› {} {}", cut(tool), cut(subject(tool_input.as_ref())))
            }
        },
        Event::ToolResult {
            tool_name,
            result,
            is_error: true,
            ..
        } => format!("{} failed: {}", cut(tool_name), cut(result)),
        Event::RigOutput { line, .. } => format!("| {}", excerpt(line, LINE)),
        Event::RigSetupFailed { ignored, .. } => {
            let consequence = if *ignored { "ignored" } else { "the codon fails" };
            format!("rig set-up failed ({consequence})")
        }
        Event::FileUpdated { path, action, .. } => {
            let mark = match action {
                FileAction::Created => '+',
                FileAction::Modified => '~',
                FileAction::Deleted => '-',
            };
            format!("{mark} {}", cut(path))
        }
        Event::CheckCompleted {
            passed,
            run,
            why,
            says,
            ..
        } => match (passed, says, why) {
            (true, ..) => "check passed".to_owned(),
            (false, Some(says), Some(why)) => format!("{CHECK_FAILED}: {} ({})", cut(says), cut(why)),
            (false, says, why) => {
                let why = says.as_ref().or(why.as_ref()).unwrap_or(run);
                format!("{CHECK_FAILED}: {}", cut(why))
            }
        },
        Event::RehearsalStep { kind, text, .. } => kind.words(&cut(text)),
        Event::DiskUsage {
            used_bytes,
            limit_bytes,
        } => disk_words(*used_bytes, *limit_bytes),
        Event::OutputTruncated { length, .. } => {
            format!("a line of {length} bytes is too long to be read; the log has it")
        }
        Event::CodonStarted {
            session_id,
            previous_session_id,
            ..
        } => match previous_session_id {
            Some(previous) if previous == session_id => "the agent continues its session".to_owned(),
            Some(_) => "the agent continues a copy of the session".to_owned(),
            None => "the agent works".to_owned(),
        },
        Event::CodonFallback {
            chosen, same_session, ..
        } => fallback_words(chosen, *same_session),
        Event::CodonExtended { extension_number, .. } => {
            format!("the agent continues (extension {extension_number})")
        }
        Event::RollbackProgress {
            current_step,
            total_steps,
            message,
        } => format!("{current_step} of {total_steps}: {}", cut(message)),
        Event::Info { message } => cut(message),
        Event::Error { message, .. } => format!("error: {}", cut(message)),
        _ => return None,
    })
}

/// Describes how much of its limit the record in `.hankweave` takes.
#[must_use]
pub fn disk_words(used: u64, limit: u64) -> String {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    format!("the record in .hankweave takes {percent} % of the room that it may (maxDiskGb)")
}
