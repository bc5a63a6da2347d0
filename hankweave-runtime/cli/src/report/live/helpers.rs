//! Sub-agents, as a tree below the agent that started them.

use std::collections::VecDeque;

use hankweave_core::wire::{AgentAction, Event};

use crate::report::words::{excerpt, subject};

/// Of how many tool uses it is remembered what they are about; one that starts a sub-agent is among the newest.
const REMEMBERED: usize = 64;

/// How many sub-agents are followed at the same time.
const MOST: usize = 32;

/// The sub-agents that work.
#[derive(Debug, Default)]
pub(super) struct SubAgents {
    working: Vec<SubAgent>,
    /// Tool uses without an answer, with their title and who uses them.
    uses: VecDeque<SubAgentStart>,
}

#[derive(Debug)]
struct SubAgentStart {
    id: String,
    title: String,
    by: Option<String>,
}

#[derive(Debug)]
struct SubAgent {
    /// The tool use that started it.
    id: String,
    title: String,
    /// The sub-agent that started it, if it was not the agent itself.
    by: Option<String>,
    /// Last words or action.
    last: String,
}

impl SubAgents {
    /// Takes an event in, with the line that stands for it; whether a sub-agent did it.
    pub(super) fn take(&mut self, event: &Event, line: Option<&str>) -> bool {
        match event {
            Event::AssistantAction {
                action,
                tool_name,
                tool_input,
                tool_use_id,
                parent_tool_use_id: by,
                ..
            } => {
                if let (AgentAction::ToolUse, Some(id)) = (action, tool_use_id) {
                    let about = subject(tool_input.as_ref());
                    let described = tool_input.as_ref().and_then(|input| input.get("description"));
                    let title = described.and_then(|text| text.as_str()).unwrap_or(about);
                    let title = match title {
                        "" => tool_name.as_deref().unwrap_or("sub-agent"),
                        title => title,
                    };
                    self.remember(id, &excerpt(title), by.as_deref());
                }
                self.speaks(by.as_deref(), line)
            }
            Event::ToolResult {
                tool_use_id,
                parent_tool_use_id: by,
                ..
            } => {
                let by = by.clone();
                self.uses.retain(|used| used.id != *tool_use_id);
                self.working.retain(|helper| helper.id != *tool_use_id);
                self.speaks(by.as_deref(), line)
            }
            _ => false,
        }
    }

    fn remember(&mut self, id: &str, title: &str, by: Option<&str>) {
        self.uses.push_back(SubAgentStart {
            id: id.to_owned(),
            title: title.to_owned(),
            by: by.map(str::to_owned),
        });
        if self.uses.len() > REMEMBERED {
            self.uses.pop_front();
        }
    }

    /// Notes what the sub-agent that `parent` started did last; a new one begins with that.
    fn speaks(&mut self, parent: Option<&str>, line: Option<&str>) -> bool {
        let Some(parent) = parent else { return false };
        let known = self.working.iter().position(|helper| helper.id == parent);
        let place = known.or_else(|| self.begin(parent));
        if let (Some(place), Some(line)) = (place, line) {
            line.clone_into(&mut self.working[place].last);
        }
        true
    }

    fn begin(&mut self, id: &str) -> Option<usize> {
        if self.working.len() == MOST {
            return None;
        }
        let started = self.uses.iter().find(|used| used.id == id);
        self.working.push(SubAgent {
            id: id.to_owned(),
            title: started.map_or_else(|| "sub-agent".to_owned(), |used| used.title.clone()),
            by: started.and_then(|used| used.by.clone()),
            last: String::new(),
        });
        Some(self.working.len() - 1)
    }

    /// One line for each, those that another started below it.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.write(None, 0, &mut lines);
        // Those whose starter is not there any more.
        let known = |by: &String| self.working.iter().any(|helper| helper.id == *by);
        for lost in self
            .working
            .iter()
            .filter(|helper| helper.by.as_ref().is_some_and(|by| !known(by)))
        {
            lines.push(lost.line(0));
            self.write(Some(&lost.id), 1, &mut lines);
        }
        lines
    }

    fn write(&self, by: Option<&str>, depth: usize, lines: &mut Vec<String>) {
        for helper in self.working.iter().filter(|helper| helper.by.as_deref() == by) {
            if lines.len() == MOST {
                return;
            }
            lines.push(helper.line(depth));
            self.write(Some(&helper.id), depth + 1, lines);
        }
    }
}

impl SubAgent {
    fn line(&self, depth: usize) -> String {
        let gap = "  ".repeat(depth.min(4));
        format!("{gap}└ {}: {}", self.title, self.last)
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::CodonId;
    use serde_json::json;

    use super::*;

    fn uses(id: &str, description: &str, by: Option<&str>) -> Event {
        Event::AssistantAction {
            codon_id: CodonId::new("a").unwrap(),
            action: AgentAction::ToolUse,
            content: "Task".to_owned(),
            tool_name: Some("Task".to_owned()),
            tool_input: Some(json!({"description": description, "prompt": "…"})),
            tool_use_id: Some(id.to_owned()),
            parent_tool_use_id: by.map(str::to_owned),
        }
    }

    fn answered(id: &str) -> Event {
        Event::ToolResult {
            codon_id: CodonId::new("a").unwrap(),
            tool_use_id: id.to_owned(),
            tool_name: "Task".to_owned(),
            result: String::new(),
            truncated: false,
            original_length: 0,
            execution_time_ms: 1,
            is_error: false,
            parent_tool_use_id: None,
        }
    }

    #[test]
    fn a_sub_agent_stands_below_who_started_it_until_it_has_answered() {
        let mut helpers = SubAgents::default();
        assert!(!helpers.take(&uses("t1", "look at tests", None), Some("Task")));
        assert!(helpers.lines().is_empty(), "it has done nothing yet");
        assert!(helpers.take(&uses("t2", "count", Some("t1")), Some("Task count")));
        assert!(helpers.take(&uses("t3", "list", Some("t2")), Some("Bash ls")));
        assert_eq!(
            helpers.lines(),
            ["└ look at tests: Task count", "  └ count: Bash ls"]
        );
        helpers.take(&answered("t2"), None);
        assert_eq!(helpers.lines(), ["└ look at tests: Task count"]);
        helpers.take(&answered("t1"), None);
        assert!(helpers.lines().is_empty());
    }

    #[test]
    fn a_circle_of_starters_and_thousands_of_them_are_told_all_the_same() {
        let mut helpers = SubAgents::default();
        helpers.take(&uses("a", "a", Some("b")), None);
        helpers.take(&uses("b", "b", Some("a")), None);
        helpers.lines();
        for number in 0..1_000 {
            helpers.take(&uses("x", "x", Some(&format!("t{number}"))), Some("works"));
        }
        assert_eq!((helpers.lines().len(), helpers.uses.len()), (MOST, REMEMBERED));
    }
}
