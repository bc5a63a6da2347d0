//! Agents from a codon's list of fallbacks: their environment may name variables of hankweave's own environment, whose values are filled in
//! here before the agent starts (HANK-84).

use std::ffi::OsStr;

use hankweave_core::hank::{AgentChoice, CodonConfig, FallbackAgent};
use hankweave_core::plan::ListedAgent;

use crate::world::environment::Environment;
use crate::world::process::child_name;

/// Returns the codon as this agent runs it, with the values of the variables that the agent's entry names. A variable that is not set is
/// left out: preflight refuses a run without it.
pub(crate) fn resolved(agent: ListedAgent<'_>, environment: &Environment) -> CodonConfig {
    let mut codon = agent.codon;
    // The codon's own agent has no entry, and names no variables.
    let entry = agent.written.map(|(_, entry)| entry);
    for (name, value) in entry.into_iter().flat_map(|entry| &entry.env) {
        let Some(variable) = FallbackAgent::variable(value) else {
            continue;
        };
        match value_of(variable, environment) {
            Some(value) => drop(codon.env.insert(name.clone(), value)),
            None => drop(codon.env.remove(name)),
        }
    }
    codon
}

/// Returns the value of the variable `X`, or that of `HANKWEAVE_X` where X is not set or empty. The prefixed name is not looked up if it is one of hankweave's
/// own variables, such as `HANKWEAVE_TOKEN`: a hank could otherwise send that secret to an agent.
pub(crate) fn value_of(variable: &str, environment: &Environment) -> Option<String> {
    let prefixed = format!("HANKWEAVE_{variable}");
    let mut names = vec![variable];
    if child_name(OsStr::new(&prefixed)).is_some() {
        names.push(&prefixed);
    }
    let values = names
        .into_iter()
        .filter_map(|name| environment.get(name)?.to_str());
    values.filter(|value| !value.is_empty()).map(str::to_owned).next()
}

/// Whether an agent can continue in `other` a session that it had in `one`: it is one program, and the environments differ only in keys, tokens and
/// addresses, not in the folders in which sessions are kept.
pub(crate) fn shares_sessions(one: &CodonConfig, other: &CodonConfig) -> bool {
    let is_of_the_account = |name: &str| ["_KEY", "_TOKEN", "_URL"].iter().any(|end| name.ends_with(end));
    let others = |codon: &CodonConfig| -> Vec<(String, String)> {
        let variables = codon.env.iter().filter(|(name, _)| !is_of_the_account(name));
        variables
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let same_agent = match (&one.agent, &other.agent) {
        // Two scripts are one agent: sessions belong to the program that plays them.
        (Some(AgentChoice::Script { .. }), Some(AgentChoice::Script { .. })) => true,
        (Some(one), Some(other)) => one == other,
        _ => one.agent_name() == other.agent_name(),
    };
    same_agent && others(one) == others(other)
}

#[cfg(test)]
mod tests {
    use hankweave_core::hank;
    use hankweave_core::plan::AgentList;

    use super::*;

    // covers: HANK-84
    #[test]
    fn the_scripted_agent_continues_its_session_with_another_script() {
        let codon = |id: &str, agent: &str| {
            format!(
                r#"{{"id": "{id}", "name": "A", "model": "opus", "continuationMode": "fresh", "promptText": "x", "agent": {agent}}}"#
            )
        };
        let codons = [
            codon("a", r#"{"script": "a.json"}"#),
            codon("b", r#"{"script": "b.json"}"#),
            codon("c", r#"{"command": ["sh", "c.sh"], "stream": "claude"}"#),
            codon("d", r#"{"command": ["sh", "d.sh"], "stream": "claude"}"#),
        ];
        let hank = hank::parse(&format!(r#"{{"hank": [{}]}}"#, codons.join(",")))
            .hank
            .unwrap();
        let all: Vec<&CodonConfig> = hank.codons().collect();
        assert!(shares_sessions(all[0], all[1]));
        assert!(!shares_sessions(all[1], all[2]) && !shares_sessions(all[2], all[3]));
    }

    // covers: CLI-21, HANK-84
    #[test]
    fn a_list_of_agents_gets_variables_for_children_and_none_of_hankweaves_own() {
        let environment = Environment::from_iter([
            ("PROXY", ""),
            ("HANKWEAVE_PROXY", "theirs"),
            ("HANKWEAVE_TOKEN", "secret"),
            ("TASKS", "theirs"),
            ("HANKWEAVE_TASKS", "/tasks"),
        ]);
        let value = |name| value_of(name, &environment);
        assert_eq!(value("PROXY").as_deref(), Some("theirs"));
        assert_eq!(value("TOKEN"), None);
        assert_eq!(value("TASKS").as_deref(), Some("theirs"));
    }

    // covers: HANK-84
    #[test]
    fn variables_have_their_values_and_keys_alone_keep_the_session() {
        let text = r#"{"hank": [{"id": "a", "name": "A", "model": "opus", "continuationMode": "fresh", "promptText": "x",
            "env": {"LITERAL": "$HOME"},
            "fallback": [{"env": {"ANTHROPIC_API_KEY": "$WORK_KEY", "GONE": "$NOT_SET", "PLAIN_KEY": "5$"}}, {"env": {"CLAUDE_CONFIG_DIR": "/other"}}, "sonnet", "gpt-5.6"]}]}"#;
        let hank = hank::parse(text).hank.unwrap();
        let list = AgentList::of(&hank, hank.codons().next().unwrap()).unwrap();
        let environment: Environment = [("WORK_KEY", "sesame"), ("HOME", "/home/me")]
            .into_iter()
            .collect();
        let entry = |position| resolved(list.entry(position).unwrap().clone(), &environment);
        let of_work = entry(1);
        let variable = |name: &str| of_work.env.get(name).map(String::as_str);
        assert_eq!(variable("ANTHROPIC_API_KEY"), Some("sesame"));
        assert_eq!(variable("PLAIN_KEY"), Some("5$"));
        assert_eq!(variable("GONE"), None);
        assert_eq!(
            variable("LITERAL"),
            Some("$HOME"),
            "a codon's own values stay as they are"
        );
        assert!(shares_sessions(&entry(0), &of_work));
        assert!(
            !shares_sessions(&entry(0), &entry(2)),
            "sessions are in another folder"
        );
        assert!(
            shares_sessions(&entry(0), &entry(3)),
            "another model goes on in the session"
        );
        assert!(
            !shares_sessions(&entry(0), &entry(4)),
            "another agent does not know it"
        );
    }
}
