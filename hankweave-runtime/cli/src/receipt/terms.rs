//! Terms of a report, which are what the hank demands of a codon besides its prompt: set-up, approval, required changes, session, limits. And when loops
//! end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::hank::{CodonConfig, ContinuationMode, Hank, HankItem, OnFailure, Requires, RigAction};
use hankweave_core::id::{CodonId, LoopId};
use hankweave_core::view::prompt_excerpt;
use serde::Serialize;

use super::checks::at_try;
use super::from_journal::JournalFacts;
use super::markup::{code, plain, with_ids};
use crate::validate::{asked_of_loop, limits_of_codon, limits_of_container, until};

/// A loop of the hank.
#[derive(Debug, Serialize)]
pub(super) struct LoopReport {
    id: LoopId,
    name: String,
    /// When the loop ends, in words.
    until: String,
    /// Limits of all its iterations together, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<String>,
    /// Other settings, in words: when the loop pauses without a change, and what it archives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asks: Vec<String>,
}

/// Terms of a codon that has started.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodonTerms {
    /// Steps of its rig.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    set_up: Vec<SetUpStep>,
    /// Answer to the question for approval, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Effects without which the codon fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    requires: Option<RequiresReport>,
    /// Codon whose session is copied for the start of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    forks: Option<CodonId>,
    /// Limits of its own, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<String>,
    /// Effort of its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<String>,
    /// Options in the hank that did nothing, because the scripted agent worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    /// The run continues if the codon fails.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ignores_failure: bool,
}

/// Step of a rig.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum SetUpStep {
    Copies {
        from: String,
        to: String,
    },
    /// Beginning of a command.
    Runs(String),
}

/// Effects that a codon must have.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequiresReport {
    /// The effects in words.
    words: String,
    /// Whether the codon had them; `None` if that was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
    /// Number of the prompt in the newest attempt, from 1, after which the effects were last checked.
    #[serde(rename = "try")]
    number: u32,
    /// Number of times in all attempts that its agent was reminded of missing requirements.
    reminders: u32,
}

/// Returns the loops of a hank.
pub(super) fn loops(hank: &Hank) -> Vec<LoopReport> {
    let loops = hank.items.iter().filter_map(|item| match item {
        HankItem::Loop(found) => Some(found),
        HankItem::Codon(_) => None,
    });
    loops
        .map(|found| LoopReport {
            id: found.id.clone(),
            name: found.name.clone(),
            until: until(found),
            limits: found.budget.as_ref().and_then(limits_of_container),
            asks: asked_of_loop(found),
        })
        .collect()
}

/// Writes the terms of loops, then of codons, each with the number of its newest attempt.
pub(super) fn write_terms<'r>(
    text: &mut String,
    loops: &[LoopReport],
    codons: impl Iterator<Item = (&'r CodonId, &'r CodonTerms, usize)>,
) -> fmt::Result {
    let mut known = BTreeSet::new();
    let loops = loops.iter().map(LoopReport::words);
    let codons = codons.filter_map(|(id, terms, attempt)| {
        let words = terms.words(known.insert(id.configured()), attempt);
        (!words.is_empty()).then(|| format!("{}: {}", code(id.as_str()), words.join("; ")))
    });
    let mut lines = loops.chain(codons).peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    writeln!(text, "What the hank says besides:\n")?;
    lines.try_for_each(|line| writeln!(text, "- {line}"))?;
    writeln!(text)
}

impl LoopReport {
    fn words(&self) -> String {
        let (name, id) = (plain(&self.name), code(self.id.as_str()));
        let others = self.limits.iter().chain(&self.asks);
        let others: String = others.map(|words| format!("; {}", plain(words))).collect();
        format!("{name} ({id}): {}{others}", with_ids(&self.until))
    }
}

impl CodonTerms {
    /// Returns the terms of a codon. `config` is the hank with the codon's entry, if they are known.
    pub(super) fn of(
        config: Option<(&Hank, &CodonConfig)>,
        record: &CodonExecution,
        facts: &JournalFacts,
    ) -> Self {
        let codon = config.map(|(_, codon)| codon);
        Self {
            set_up: codon.map_or_else(Vec::new, |codon| {
                let steps = codon.rig_setup.iter();
                steps.map(|step| SetUpStep::of(&step.action)).collect()
            }),
            answer: facts.answers.get(record.codon_id()).cloned(),
            requires: config.and_then(|(hank, codon)| RequiresReport::of(hank, codon, record, facts)),
            forks: codon.and_then(|codon| match &codon.continuation_mode {
                ContinuationMode::Fork(forked) => Some(forked.clone()),
                ContinuationMode::Fresh | ContinuationMode::ContinuePrevious => None,
            }),
            limits: codon.and_then(|codon| limits_of_codon(codon.budget.as_ref()?)),
            effort: config.and_then(|(hank, codon)| Some(hank.agent_options(codon).effort?.to_string())),
            left_out: config.and_then(|config| left_out(config, record.codon_id(), facts)),
            ignores_failure: codon.is_some_and(|codon| codon.failure_policy() == OnFailure::Ignore),
        }
    }

    /// Whether the codon has a rig.
    pub(super) fn has_set_up(&self) -> bool {
        !self.set_up.is_empty()
    }

    /// Returns each term as Markdown. Terms that all iterations share are left out unless this is the `first` iteration; `attempt` is the number of the newest
    /// attempt.
    fn words(&self, first: bool, attempt: usize) -> Vec<String> {
        let steps: Vec<String> = self.set_up.iter().map(SetUpStep::as_markdown).collect();
        let set_up = (first && !steps.is_empty()).then(|| format!("its set-up {}", steps.join(", ")));
        let answer = self.answer.as_deref();
        let answer = answer.map(|answer| format!("asks first: {}", with_ids(answer)));
        let requires = self
            .requires
            .as_ref()
            .map(|required| required.as_markdown(attempt));
        let forks = self.forks.as_ref();
        let forks = forks.map(|of| format!("begins with what was said in {}", code(of.as_str())));
        let limits = self.limits.as_deref().filter(|_| first).map(plain);
        let effort = self.effort.as_ref().filter(|_| first);
        let effort = effort.map(|effort| format!("works with effort {}", plain(effort)));
        let left_out = self.left_out.as_ref().filter(|_| first);
        let left_out = left_out.map(|options| {
            format!(
                "was to have {}, which the scripted agent does not have",
                plain(options)
            )
        });
        let ignores = (first && self.ignores_failure)
            .then(|| "its failure does not stop the run (`onFailure`: ignore)".to_owned());
        let terms = [set_up, answer, requires, forks, limits, effort, left_out, ignores];
        terms.into_iter().flatten().collect()
    }
}

/// Returns the options of the codon's agent in words, if the scripted agent worked in its place, which has no options.
fn left_out((hank, codon): (&Hank, &CodonConfig), id: &CodonId, facts: &JournalFacts) -> Option<String> {
    let attempt = facts.view.newest_attempt(id).map(|(_, attempt)| attempt);
    let agent = attempt.and_then(|attempt| attempt.agent.as_deref());
    hank.agent_options(codon)
        .in_short()
        .filter(|_| agent == Some("scripted"))
}

impl RequiresReport {
    /// Returns the effects that a codon must have, and whether it has had them.
    fn of(hank: &Hank, config: &CodonConfig, record: &CodonExecution, facts: &JournalFacts) -> Option<Self> {
        let required = hank.required_of(config)?;
        let why = record.failure_reason().and_then(|reason| reason.words());
        let times =
            |counts: &BTreeMap<CodonId, u32>| counts.get(record.codon_id()).copied().unwrap_or_default();
        Some(Self {
            words: required.words(),
            met: match record.status() {
                _ if !required.needs_files() => None,
                CodonStatus::Completed => Some(true),
                CodonStatus::Failed if why.is_some_and(|why| why.contains(Requires::UNMET)) => Some(false),
                _ => None,
            },
            number: times(&facts.missed_at_reminder).saturating_add(1),
            reminders: times(&facts.reminders),
        })
    }

    /// Returns `requires changes of out.md (met at try 2)`.
    fn as_markdown(&self, attempt: usize) -> String {
        let met = match (self.met, self.reminders) {
            (Some(true), _) => format!(" (met {})", at_try(attempt, self.number)),
            (Some(false), times) => format!(" (not met{})", reminders(times)),
            (None, 0) => String::new(),
            (None, times) => format!(" (not met yet{})", reminders(times)),
        };
        format!("requires {}{met}", plain(&self.words))
    }
}

/// Returns `, after 1 reminder`.
fn reminders(times: u32) -> String {
    match times {
        0 => String::new(),
        1 => ", after 1 reminder".to_owned(),
        times => format!(", after {times} reminders"),
    }
}

impl SetUpStep {
    fn of(action: &RigAction) -> Self {
        match action {
            RigAction::Copy { copy, .. } => Self::Copies {
                from: copy.from.to_string(),
                to: copy.to.to_string(),
            },
            RigAction::Command { command } => Self::Runs(prompt_excerpt(&command.run)),
        }
    }

    fn as_markdown(&self) -> String {
        match self {
            Self::Copies { from, to } => format!("copies {} to {}", code(from), code(to)),
            Self::Runs(command) => format!("runs {}", code(command)),
        }
    }
}
