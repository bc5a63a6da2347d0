//! Checks which conversation a codon may continue (HANK-10, HANK-11); `forks` uses the same rules for a codon that continues a copy.

use crate::hank::document::{
    CodonConfig, ContinuationMode, Hank, HankItem, LoopConfig, OnFailure, TerminateOn,
};
use crate::hank::problem::{Problem, Severity, quoted};

/// The codon whose conversation another codon continues.
#[derive(Clone, Copy)]
pub(super) struct PrecedingCodon<'h> {
    pub(super) codon: &'h CodonConfig,
    /// The loop of `codon`, if it ends before the other codon starts; `None` for a codon outside of loops, and if both codons are in one loop.
    pub(super) ended_loop: Option<&'h LoopConfig>,
}

/// Checks every codon that continues a conversation against the codon before it, in the first iteration of a
/// loop and in the later ones.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut before: Option<PrecedingCodon<'_>> = None;
    for (index, item) in hank.items.iter().enumerate() {
        let path = format!("hank[{index}]");
        match item {
            HankItem::Codon(codon) => problems.extend(continuation(hank, &path, codon, before)),
            HankItem::Loop(found) => problems.extend(inside_loop(hank, &path, found, before)),
        }
        let ended_loop = item.as_loop();
        before = item
            .codons()
            .last()
            .map(|codon| PrecedingCodon { codon, ended_loop });
    }
    problems
}

fn inside_loop(
    hank: &Hank,
    path: &str,
    found: &LoopConfig,
    before: Option<PrecedingCodon<'_>>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut before = before;
    for (index, codon) in found.codons.iter().enumerate() {
        let path = format!("{path}.codons[{index}]");
        problems.extend(continuation(hank, &path, codon, before));
        before = Some(PrecedingCodon {
            codon,
            ended_loop: None,
        });
    }
    // From the second iteration on, the first codon continues the last one.
    if let ([first, ..], Some(last), true) = (found.codons.as_slice(), before, repeats(found)) {
        let again = continuation(hank, &format!("{path}.codons[0]"), first, Some(last));
        // The same place gets one problem, but a warning about the first iteration must not hide an error in the later ones.
        let is_reported = |problem: &Problem| {
            problems.iter().any(|known| {
                known.path == problem.path
                    && (known.level == Severity::Error || problem.level == Severity::Warning)
            })
        };
        let new: Vec<Problem> = again
            .into_iter()
            .filter(|problem| !is_reported(problem))
            .collect();
        problems.extend(new);
    }
    problems
}

fn repeats(found: &LoopConfig) -> bool {
    found.most_iterations().is_none_or(|most| most > 1)
}

fn continuation(
    hank: &Hank,
    path: &str,
    codon: &CodonConfig,
    before: Option<PrecedingCodon<'_>>,
) -> Option<Problem> {
    if codon.continuation_mode != ContinuationMode::ContinuePrevious {
        return None;
    }
    let path = format!("{path}.continuationMode");
    let Some(before) = before else {
        let message = "there is no codon before this one to continue; it will fail when it starts";
        return Some(Problem::warning(&hank.places, path, message));
    };
    if let Some(reason) = obstacle(hank, codon, before) {
        let hint = r#"write "fresh", or make the two codons fit"#;
        return Some(Problem::error(&hank.places, path, format!("cannot continue {reason}")).with_hint(hint));
    }
    doubt(hank, codon, before).map(|doubt| Problem::warning(&hank.places, path, doubt))
}

/// Returns why the conversation of the codon before cannot be continued, as a phrase that follows "cannot continue".
pub(super) fn obstacle(hank: &Hank, codon: &CodonConfig, before: PrecedingCodon<'_>) -> Option<String> {
    let name = quoted(before.codon.id.as_str());
    let ends_full = |ended: &LoopConfig| ended.terminate_on == TerminateOn::ContextExceeded;
    if before.ended_loop.is_some_and(ends_full) {
        return Some(format!("{name}: its loop ends with a full context"));
    }
    if before.codon.exhaust_with_prompt.is_some() {
        return Some(format!("{name}: its exhaustWithPrompt fills the context"));
    }
    let [codon, codon_before] = [codon, before.codon].map(|codon| overridden(hank, codon));
    if let (Some(model), Some(model_before)) = (&codon.model, &codon_before.model)
        && model != model_before
    {
        let (model, before) = (quoted(model), quoted(model_before));
        return Some(format!("{name}: its model is {before}, this codon's is {model}"));
    }
    let (agent, agent_before) = (codon.agent_name(), codon_before.agent_name());
    if agent != agent_before {
        let (agent, before) = (quoted(agent), quoted(agent_before));
        return Some(format!("{name}: its agent is {before}, this codon's is {agent}"));
    }
    None
}

/// Returns the codon with the agent and the model that `overrides` gives to every codon.
fn overridden(hank: &Hank, codon: &CodonConfig) -> CodonConfig {
    let mut codon = codon.clone();
    if let Some(overrides) = &hank.overrides {
        codon.override_with(overrides.agent.as_ref(), overrides.model.as_ref());
    }
    codon
}

/// Returns the reason why continuing is risky.
pub(super) fn doubt(hank: &Hank, codon: &CodonConfig, before: PrecedingCodon<'_>) -> Option<String> {
    let name = quoted(before.codon.id.as_str());
    if before.codon.id != codon.id && before.codon.failure_policy() == OnFailure::Ignore {
        return Some(format!(
            "{name} before it may fail and be ignored; then there is nothing to continue"
        ));
    }
    // Checkpoints use the patterns of the codon and of all codons before it.
    let mut earlier = hank.codons().take_while(|one| one.id != before.codon.id);
    if before.codon.checkpointed_files.is_empty() && earlier.all(|one| one.checkpointed_files.is_empty()) {
        return Some(format!(
            "{name} before it has no checkpointedFiles, so its files may be missing after a rollback"
        ));
    }
    None
}
