//! Finds fallbacks that change nothing, because the codon or an earlier entry has the same agent, model and environment (HANK-83).

use crate::hank::document::{CodonConfig, Fallback, Hank};
use crate::hank::problem::Problem;

/// Reports entries in the codons' own lists that repeat the codon or an earlier entry. In the list of the whole hank this is allowed: each codon skips
/// the entry that is its own agent.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let lists = hank.located_codons();
    let own = lists.filter_map(|(path, codon)| Some((path, codon, codon.fallback.as_deref()?)));
    own.flat_map(|(path, codon, list)| repeated(hank, &path, codon, list))
        .collect()
}

fn repeated(hank: &Hank, path: &str, codon: &CodonConfig, list: &[Fallback]) -> Vec<Problem> {
    let mut before = vec![codon.clone()];
    let mut problems = Vec::new();
    for (position, entry) in list.iter().enumerate() {
        let Fallback::Agent(agent) = entry else { continue };
        let entry = agent.applied_to(codon);
        match before.iter().position(|other| other.has_agent_of(&entry)) {
            None => before.push(entry),
            Some(same) => {
                let whose = match same {
                    0 => "what the codon has anyway",
                    _ => "an entry before it",
                };
                let message = format!("is {}, {whose}", entry.agent_words());
                let problem = Problem::error(&hank.places, format!("{path}.fallback[{position}]"), message);
                problems.push(problem.with_hint("name another model, agent or `env`"));
            }
        }
    }
    problems
}
