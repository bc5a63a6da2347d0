//! Effects of a codon: finds required changes of files that are missing (HANK-66), and agents that did nothing at all (AGENT-49). Called by `check`.

use hankweave_core::agent::ExitOutcome;
use hankweave_core::cost::TokenUsage;
use hankweave_core::hank::{Patterns, Requires};
use hankweave_core::thread::ThreadTip;
use hankweave_core::view::excerpt;

use super::context::CodonRun;
use super::run::AgentRun;
use super::start_of_work::{Attempts, belongs};

/// Longest part of an answer that a reason has, in bytes.
const MOST_OF_ANSWER: usize = 200;

/// Required effects that a codon does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MissingEffects {
    /// No file has changed.
    AnyChange,
    /// None of these patterns matches a changed file.
    ChangesOf(Vec<String>),
}

impl MissingEffects {
    /// Returns the reason, in words.
    pub(super) fn why(&self) -> String {
        match self {
            Self::AnyChange => format!("it changed nothing, {}", Requires::UNMET),
            Self::ChangesOf(patterns) => {
                format!(
                    "it changed no checkpointed file that matches {}, {}",
                    quoted(patterns),
                    Requires::UNMET
                )
            }
        }
    }

    /// Returns the message for the agent.
    pub(super) fn prompt(&self) -> String {
        let missing = match self {
            Self::AnyChange => "no file has changed since you began".to_owned(),
            Self::ChangesOf(patterns) => {
                format!(
                    "no file that matches {} has changed since you began",
                    quoted(patterns)
                )
            }
        };
        format!(
            "Your work was checked, and {missing}. The task is not done without that. Do it now; if it cannot be done, say what is in the way."
        )
    }
}

/// Returns the required effects that the codon lacks; `None` if it lacks none, or the changes of files are not known.
pub(super) async fn missing(codon: &CodonRun<'_>) -> Option<MissingEffects> {
    let required = codon.run.hank.required_of(codon.config)?;
    if !required.needs_files() {
        return None;
    }
    codon.run.watch.survey(codon).await;
    let changed = codon.run.watch.changed(codon).await?;
    let paths = || changed.iter().map(|path| path.as_bytes());
    match required {
        Requires::Nothing => None,
        Requires::Changes => changed.is_empty().then_some(MissingEffects::AnyChange),
        Requires::Patterns(patterns) => {
            let missed = unmatched(patterns, paths);
            (!missed.is_empty()).then_some(MissingEffects::ChangesOf(missed))
        }
    }
}

/// Returns patterns in a sentence: `` `src/**` or `docs/**` ``.
fn quoted(patterns: &[String]) -> String {
    let quoted: Vec<String> = patterns.iter().map(|pattern| format!("`{pattern}`")).collect();
    quoted.join(" or ")
}

/// Returns the patterns that match none of the paths. Each is combined with the patterns that begin with `!`, which exclude files.
fn unmatched<'f, I: Iterator<Item = &'f [u8]>>(patterns: &[String], paths: impl Fn() -> I) -> Vec<String> {
    let (excluding, including): (Vec<&String>, Vec<&String>) =
        patterns.iter().partition(|pattern| pattern.starts_with('!'));
    let is_unmatched = |pattern: &&&String| {
        let list: Vec<&String> = std::iter::once(**pattern)
            .chain(excluding.iter().copied())
            .collect();
        // The spelling of patterns was checked when the hank was read.
        let Ok(list) = Patterns::parse(&list) else {
            return false;
        };
        !paths().any(|path| list.matches(path))
    };
    let unmatched = including.iter().filter(is_unmatched);
    unmatched.map(|pattern| (*pattern).clone()).collect()
}

/// Whether the agent can continue in its session.
pub(super) fn can_continue(codon: &CodonRun<'_>) -> bool {
    let driver = codon.run.drivers.get(codon.config.agent_name());
    driver.is_some_and(|driver| driver.capabilities().resume)
}

/// Returns why a success does not count: the agent used no token and no tool, and changed no file. A usage of 0 is believed only if the
/// agent states it, or if the agent is a known program whose model wrote nothing. Returns `None` if the success counts, or if a check decides.
pub(super) async fn nothing_done(
    codon: &CodonRun<'_>,
    work: &AgentRun,
    exit: &ExitOutcome,
) -> Option<String> {
    let may_do_nothing = codon.run.hank.required_of(codon.config) == Some(&Requires::Nothing);
    if may_do_nothing || codon.config.check.is_some() {
        return None;
    }
    let usage_is_known = exit.states_no_usage || (!work.spoke && is_known_program(codon));
    let is_idle = exit.verdict.is_success() && usage_is_known && exit.usage.is_nothing() && !work.used_tool;
    if !is_idle || used_tokens_before(codon) {
        return None;
    }
    codon.run.watch.survey(codon).await;
    let files = match codon.run.watch.files_changed(codon).await {
        Some(0) => "used no token and no tool, and changed no file",
        None => "used no token and no tool",
        Some(_) => return None,
    };
    let answer = work.answer.as_ref().map_or(String::new(), |answer| {
        let line = answer.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("; it answered: {}", excerpt(&line, MOST_OF_ANSWER))
    });
    Some(format!(
        "the agent did nothing: it {files}{answer}. A prompt that is a command of the agent's own, such as a line that begins with `/`, ends so. `\"requires\": \"nothing\"` lets the codon pass"
    ))
}

/// Whether the agent is a known program, which reports all messages of its model. A program of the user's may report as
/// little as it likes.
fn is_known_program(codon: &CodonRun<'_>) -> bool {
    let driver = codon.run.drivers.get(codon.config.agent_name());
    driver.is_some_and(|driver| driver.program().is_some())
}

/// Whether an earlier attempt of the codon used tokens.
fn used_tokens_before(codon: &CodonRun<'_>) -> bool {
    let state = codon.run.manager.snapshot();
    let thread = ThreadTip::of(&state);
    let attempts = thread.codons().map(|entry| entry.codon);
    let mut attempts = attempts.take_while(|attempt| belongs(codon, attempt, Attempts::All));
    attempts.any(|attempt| attempt.agent_tokens() != TokenUsage::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(patterns: &[&str], paths: &[&str]) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        unmatched(&patterns, || paths.iter().map(|path| path.as_bytes()))
    }

    // covers: HANK-66
    #[test]
    fn each_pattern_needs_a_file_of_its_own_that_is_not_taken_out() {
        let none: [&str; 0] = [];
        assert_eq!(missed(&["src/**"], &["src/a.rs"]), none);
        assert_eq!(missed(&["src/**", "docs/**"], &["src/a.rs"]), ["docs/**"]);
        assert_eq!(missed(&["src/**", "docs/**"], &[]), ["src/**", "docs/**"]);
        assert_eq!(missed(&["src/**", "!**/*.lock"], &["src/a.lock"]), ["src/**"]);
    }
}
