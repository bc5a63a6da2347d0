//! Agents' decisions as a page for people, which can be read back without loss (TASK-11).

use hankweave_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::error::TaskError;

const AGENT: &str = "**Agent**:";
const DECISION: &str = "**Decision**:";
const METADATA: &str = "**Metadata**:";

/// Decision of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDecision {
    /// Time of the decision.
    pub timestamp: Timestamp,
    /// Agent that made it, in one line.
    pub agent: String,
    /// Decision, in one line.
    pub decision: String,
    /// Reasoning, in any number of lines.
    pub reasoning: String,
    /// Further data.
    pub metadata: Option<Map<String, Value>>,
}

impl AgentDecision {
    /// Returns the section of this decision, to be appended to the page.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::InvalidArgument`] when the agent or the decision has several lines.
    pub fn section(&self) -> Result<String, TaskError> {
        if [&self.agent, &self.decision]
            .iter()
            .any(|text| text.contains('\n'))
        {
            return Err(TaskError::InvalidArgument("agent and decision are one line each"));
        }
        let reasoning: Vec<_> = self.reasoning.split('\n').map(escaped).collect();
        let metadata = self.metadata.clone().map(Value::Object);
        let metadata = metadata.map_or(String::new(), |data| format!("{METADATA} {data}\n\n"));
        Ok(format!(
            "## {}\n\n{AGENT} {}\n{DECISION} {}\n\n{}\n\n{metadata}",
            self.timestamp,
            self.agent,
            self.decision,
            reasoning.join("\n"),
        ))
    }

    fn read(timestamp: Timestamp, body: &str) -> Option<Self> {
        // Some writers add no empty line after the heading.
        let body = body.strip_prefix('\n').unwrap_or(body);
        let (agent, rest) = body.strip_prefix(AGENT)?.split_once('\n')?;
        let (decision, rest) = rest.strip_prefix(DECISION)?.split_once('\n')?;
        let rest = rest.strip_prefix('\n').unwrap_or(rest);
        let (reasoning, metadata) = match line_start(rest, METADATA) {
            None => (rest, None),
            Some(at) => {
                // Text after the line is a note of a user. Some writers put the data between backticks.
                let line = rest[at + METADATA.len()..].lines().next().unwrap_or_default();
                let data = line.trim().trim_matches('`');
                (&rest[..at], Some(serde_json::from_str(data).ok()?))
            }
        };
        // The writer ends the reasoning with a line end and an empty line.
        let reasoning = reasoning.strip_suffix('\n').unwrap_or(reasoning);
        let reasoning = reasoning.strip_suffix('\n').unwrap_or(reasoning);
        let reasoning: Vec<_> = reasoning.split('\n').map(unescaped).collect();
        let value = |text: &str| text.strip_prefix(' ').unwrap_or(text).to_owned();
        Some(Self {
            timestamp,
            agent: value(agent),
            decision: value(decision),
            reasoning: reasoning.join("\n"),
            metadata,
        })
    }
}

/// Contents of a page of decisions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decisions {
    /// Decisions, in the order of the page.
    pub entries: Vec<AgentDecision>,
    /// Number of sections that cannot be read.
    pub broken: usize,
}

impl Decisions {
    /// Parses a page. A broken section does not affect the others.
    #[must_use]
    pub fn read(text: &str) -> Self {
        // A heading without a time is a user's note, because the writer escapes such lines in a reasoning. The note ends at the next decision.
        let mut sections: Vec<(Option<Timestamp>, String)> = Vec::new();
        for line in text.split_inclusive('\n') {
            match (line.strip_prefix("## "), sections.last_mut()) {
                (Some(heading), _) => {
                    sections.push((Timestamp::parse(heading.trim_end()).ok(), String::new()));
                }
                (None, Some((_, body))) => body.push_str(line),
                (None, None) => {}
            }
        }
        let mut page = Self::default();
        let decisions = sections
            .into_iter()
            .filter_map(|(time, body)| Some((time?, body)));
        for (time, body) in decisions {
            match AgentDecision::read(time, &body) {
                Some(decision) => page.entries.push(decision),
                None => page.broken += 1,
            }
        }
        page
    }
}

/// Whether a line looks like one of our markers, with or without backslashes in front.
fn is_marked(line: &str) -> bool {
    let line = line.trim_start_matches('\\');
    ["## ", AGENT, DECISION, METADATA]
        .iter()
        .any(|mark| line.starts_with(mark))
}

fn escaped(line: &str) -> String {
    format!("{}{line}", if is_marked(line) { "\\" } else { "" })
}

fn unescaped(line: &str) -> &str {
    let rest = line.strip_prefix('\\').filter(|_| is_marked(line));
    rest.unwrap_or(line)
}

/// Returns the offset of the line that begins with `mark`.
fn line_start(text: &str, mark: &str) -> Option<usize> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        let start = at;
        at += line.len();
        line.starts_with(mark).then_some(start)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decision(reasoning: &str, metadata: Option<Value>) -> AgentDecision {
        AgentDecision {
            timestamp: Timestamp::from_millis(1_770_110_100_250),
            agent: "agent-1".into(),
            decision: " Use caching ".into(),
            reasoning: reasoning.into(),
            metadata: metadata.and_then(|data| data.as_object().cloned()),
        }
    }

    // covers: TASK-11
    #[test]
    fn whatever_was_written_comes_back() {
        let lines = [
            "",
            "a",
            "\\",
            "## 2026-01-31T12:00:00.000Z",
            "## no time",
            "\\## b",
            "\\\\**Agent**: x",
            "**Decision**: y",
            "**Metadata**: {",
            "**Metadata**:",
            "\r",
        ];
        let mut written = Vec::new();
        for first in lines {
            for second in lines {
                for third in ["", "\n", "\n\nend"] {
                    let reasoning = format!("{first}\n{second}{third}");
                    written.push(decision(&reasoning, None));
                    written.push(decision(&reasoning, Some(json!({"a": "`b`\n", "n": 1}))));
                }
            }
        }
        written.push(decision("", None));
        let page: Result<String, _> = written.iter().map(AgentDecision::section).collect();
        let read = Decisions::read(&page.unwrap());
        assert_eq!((read.broken, read.entries.len()), (0, written.len()));
        assert_eq!(read.entries, written);
    }

    // covers: TASK-11
    #[test]
    fn notes_of_a_user_hide_no_decision() {
        let first = decision("why", Some(json!({"a": 1})));
        let second = decision("## because\nwhy not", None);
        let [first_text, second_text] = [&first, &second].map(|decision| decision.section().unwrap());
        let page = format!(
            "{first_text}## Review of Monday\n\nAll fine.\n\n{second_text}## Later\n\n{first_text}A note.\n"
        );
        let read = Decisions::read(&page);
        assert_eq!(
            (read.broken, &read.entries),
            (0, &vec![first.clone(), second, first])
        );
    }

    // covers: TASK-11
    #[test]
    fn other_layouts_are_read_and_a_broken_section_costs_no_other() {
        let page = "# Decisions\n\n## 2026-01-31T12:00:00Z\n**Agent**: a\n**Decision**: d\n\nwhy\n\n**Metadata**: `{\"a\":1}`\n\n\
            ## 2026-01-31T12:00:01Z\n\nnothing of ours\n";
        let read = Decisions::read(page);
        assert_eq!((read.entries.len(), read.broken), (1, 1));
        assert_eq!(read.entries[0].reasoning, "why");
        assert_eq!(read.entries[0].metadata.as_ref().unwrap()["a"], 1);
        let mut two_lines = decision("", None);
        two_lines.agent = "a\nb".into();
        assert_eq!(two_lines.section().unwrap_err().code(), "INVALID_ARGUMENT");
    }
}
