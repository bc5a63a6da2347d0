//! Sub-agents, as a tree below the agent that started them.

use std::collections::BTreeMap;

use hankweave_core::view::SubAgentView;

/// Returns one line for each sub-agent. Sub-agents of a sub-agent follow below it.
pub(super) fn lines(agents: &BTreeMap<String, SubAgentView>) -> Vec<String> {
    let mut agents: Vec<(&str, &SubAgentView)> =
        agents.iter().map(|(id, agent)| (id.as_str(), agent)).collect();
    agents.sort_by_key(|(_, agent)| agent.seq);
    let tree = AgentTree(agents);
    let mut lines = Vec::new();
    tree.write(None, 0, &mut lines);
    // Sub-agents whose starter has ended are on the first level, with those below them.
    for (id, agent) in tree
        .0
        .iter()
        .filter(|(_, agent)| agent.by.as_ref().is_some_and(|by| !tree.knows(by)))
    {
        lines.push(line(agent, 0));
        tree.write(Some(id), 1, &mut lines);
    }
    lines
}

/// Sub-agents in the order in which they started.
struct AgentTree<'v>(Vec<(&'v str, &'v SubAgentView)>);

impl AgentTree<'_> {
    fn knows(&self, id: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == id)
    }

    /// Writes the sub-agents that `by` has started, each with those below it; `None` is the agent of the codon.
    fn write(&self, by: Option<&str>, depth: usize, lines: &mut Vec<String>) {
        for (id, agent) in self.0.iter().filter(|(_, agent)| agent.by.as_deref() == by) {
            // A circle of starters, which only a damaged journal has, ends here.
            if lines.len() >= self.0.len() {
                return;
            }
            lines.push(line(agent, depth));
            self.write(Some(id), depth + 1, lines);
        }
    }
}

fn line(agent: &SubAgentView, depth: usize) -> String {
    let gap = "  ".repeat(depth.min(4));
    format!("{gap}└ {}: {}", agent.title, agent.last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(title: &str, by: Option<&str>, seq: u64) -> SubAgentView {
        SubAgentView {
            title: title.to_owned(),
            by: by.map(str::to_owned),
            last: "works".to_owned(),
            seq,
        }
    }

    #[test]
    fn a_sub_agent_stands_below_the_one_that_started_it() {
        let agents = [
            ("t1", agent("look at tests", None, 5)),
            ("t0", agent("list", None, 9)),
            ("t2", agent("count", Some("t1"), 7)),
            ("t3", agent("lost", Some("gone"), 8)),
        ];
        let agents = agents.map(|(id, agent)| (id.to_owned(), agent)).into();
        assert_eq!(
            lines(&agents),
            [
                "└ look at tests: works",
                "  └ count: works",
                "└ list: works",
                "└ lost: works"
            ]
        );
    }

    #[test]
    fn a_circle_of_starters_ends() {
        let agents = [("a", agent("a", Some("b"), 1)), ("b", agent("b", Some("a"), 2))];
        let agents = agents.map(|(id, agent)| (id.to_owned(), agent)).into();
        assert!(lines(&agents).len() <= 2);
    }
}
