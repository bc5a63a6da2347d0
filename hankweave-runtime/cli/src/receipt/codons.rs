//! Codons of a report: what each did, which agent worked on it, and what is still to do.

use std::collections::BTreeMap;
use std::path::Path;

use hankweave_core::agent::{Access, AccessMode, AgentOptions};
use hankweave_core::codon::CodonExecution;
use hankweave_core::cost::TokenUsage;
use hankweave_core::hank::prompt::PromptValues;
use hankweave_core::hank::{CodonConfig, Hank, PromptSource, Requires};
use hankweave_core::id::CodonId;
use hankweave_core::thread::{CodonWork, ThreadCodon};
use hankweave_core::view::{RunView, prompt_excerpt};
use hankweave_runtime::checkpoint::GitHistory;
use hankweave_runtime::{CodonSummary, ExecutionDir};
use serde::Serialize;
use serde_json::Value;

use super::attempts::{AttemptReport, Outcome, is_cut_off};
use super::checks::CheckReport;
use super::files::{FileReport, LISTED};
use super::from_journal::JournalFacts;
use super::terms::CodonTerms;
use crate::checkpoints::{LineCounts, MOST_PAIRS, UnsavedChanges, changed_lines_of};
use crate::status::StatusView;
use crate::terminal::report::at_its_budget;

/// A codon of the report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodonReport {
    pub(super) id: CodonId,
    pub(super) name: String,
    /// Position in its loop, as it follows the name.
    #[serde(skip)]
    pub(super) position: String,
    /// Beginning of the prompt that the agent got; if that is not recorded, of the prompt in the hank, or the names of the prompt's files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    #[serde(flatten)]
    pub(super) terms: CodonTerms,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<AgentReport>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    /// Beginning of the agent's last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) did: Option<String>,
    /// Number of attempts that count.
    pub(super) attempts: usize,
    /// Number of the newest attempt among those that count, from 1.
    pub(super) attempt: usize,
    pub(super) tokens: TokenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files_changed: Option<u64>,
    /// Lines that it added and removed; `None` without a checkpoint or git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<LineCounts>,
    /// First files, ordered by path, that the codon changed in all its attempts. Empty if they cannot be told apart from changes of the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<FileReport>,
    /// Command that shows all its changed files.
    #[serde(skip)]
    pub(super) shown_by: String,
    /// Changed files that have no checkpoint; `None` if the codon has ended in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unsaved: Option<UnsavedReport>,
    /// Result of the check after an iteration of its loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) loop_check: Option<String>,
    pub(super) checks: Vec<CheckReport>,
    /// Command of its check, which has not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check_not_run: Option<String>,
    /// The codon's result, if the hank asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<String>,
}

/// Agent of the newest attempt of a codon.
#[derive(Debug, Serialize)]
pub(super) struct AgentReport {
    pub(super) name: String,
    /// Model that answered, or that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// Permissions in words, where it has not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permissions: Option<String>,
}

/// Changed files in the workspace of a codon that crashed or is at work.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UnsavedReport {
    /// The codon is still at work and may change more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_at_work: bool,
    /// Number of files that its attempts have changed.
    pub(super) count: usize,
    /// Number of those that no checkpoint has as they are: an attempt that ended has left a checkpoint of the others.
    pub(super) without_checkpoint: usize,
    /// First of the changed files, ordered by path.
    pub(super) changes: Vec<FileReport>,
    /// Command that shows the changes.
    pub(super) command: String,
}

/// A codon that asks before it starts.
#[derive(Debug, Serialize)]
pub(super) struct AskingReport {
    /// Codon with its task.
    #[serde(flatten)]
    pub(super) planned: PlannedReport,
    pub(super) denied: bool,
    pub(super) agent: Option<AgentReport>,
}

/// A codon that has not started.
#[derive(Debug, Serialize)]
pub(super) struct PlannedReport {
    pub(super) id: CodonId,
    pub(super) name: String,
    /// Position in its loop, as it follows the name.
    #[serde(skip)]
    pub(super) position: String,
    /// Beginning of its prompt, or the files that hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    /// Effects that it must have, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requires: Option<String>,
    /// It asks for an approval before it starts.
    pub(super) asks: bool,
    /// It was approved, and may start.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) approved: bool,
}

/// Returns the codons of the plan that have not started and do not wait for an approval, in the plan's order.
pub(super) fn not_started<'s>(status: &StatusView<'s>) -> Vec<&'s CodonId> {
    let started = status.thread.newest_records();
    let planned = status.state.execution_plan.iter().map(|entry| &entry.codon_id);
    let asking = status.asked().map(|(id, _)| id);
    let rest = planned.filter(|id| !started.contains_key(*id) && Some(*id) != asking);
    rest.collect()
}

/// Returns the codon that waits for an approval or was denied.
pub(super) fn asking(
    status: &StatusView<'_>,
    hank: Option<&Hank>,
    facts: &JournalFacts,
    values: Option<&PromptValues>,
) -> Option<AskingReport> {
    let (id, denied) = status.asked()?;
    let config = hank.zip(hank.and_then(|hank| hank.codon(id.configured())));
    Some(AskingReport {
        planned: PlannedReport::of(id, config?, values, &facts.view),
        denied,
        agent: agent(id, config, &facts.view),
    })
}

impl PlannedReport {
    fn of(
        id: &CodonId,
        (hank, codon): (&Hank, &CodonConfig),
        values: Option<&PromptValues>,
        view: &RunView,
    ) -> Self {
        let required = hank.required_of(codon);
        Self {
            id: id.clone(),
            name: codon.name.clone(),
            position: view.position_in_loop(id.configured(), id.iteration()),
            asked: written(codon, values),
            requires: required
                .filter(|required| required.needs_files())
                .map(Requires::words),
            asks: codon.approval.is_some(),
            approved: false,
        }
    }

    /// Returns a codon that the hank no longer has.
    fn unknown(id: &CodonId) -> Self {
        Self {
            id: id.clone(),
            name: id.configured().to_owned(),
            position: String::new(),
            asked: None,
            requires: None,
            asks: false,
            approved: false,
        }
    }
}

/// Describes the first of these codons by what the hank says; `values` fill in their prompts.
pub(super) fn planned(
    status: &StatusView<'_>,
    ids: Vec<&CodonId>,
    hank: Option<&Hank>,
    values: Option<&PromptValues>,
    view: &RunView,
) -> Vec<PlannedReport> {
    let approval = status.state.approval.as_ref().filter(|answer| answer.granted);
    // An approval is in the record, or, for a task, in its registry.
    let in_registry = status.answer().filter(|answer| answer.approval.granted);
    let in_registry = in_registry.map(|answer| answer.approval.codon_id);
    let approved = approval
        .map(|answer| answer.codon_id.as_str().to_owned())
        .or(in_registry);
    let describe = |id: &CodonId| {
        let report = match hank.and_then(|hank| Some((hank, hank.codon(id.configured())?))) {
            Some(config) => PlannedReport::of(id, config, values, view),
            None => PlannedReport::unknown(id),
        };
        PlannedReport {
            approved: approved.as_deref() == Some(id.as_str()),
            ..report
        }
    };
    ids.into_iter().take(LISTED).map(describe).collect()
}

/// Returns the codons that have started, in the order of the plan. `attempts` are those of the report.
pub(super) fn codons(
    execution: &Path,
    status: &StatusView<'_>,
    hank: Option<&Hank>,
    facts: &JournalFacts,
    attempts: &[AttemptReport],
) -> Vec<CodonReport> {
    let newest = status.thread.newest_records();
    let planned = status.state.execution_plan.iter();
    let started = planned.filter_map(|entry| newest.get(&entry.codon_id).copied());
    let work = own_work(status);
    let lines = lines_of_codons(execution, &work);
    let mut changes = changes_of_codons(execution, &work);
    let (mut unsaved, mut all_totals) = (UnsavedChanges::of(execution, status.state), status.attempts());
    started
        .map(|record| {
            let id = record.codon_id();
            let totals = all_totals.remove(id).unwrap_or_else(|| status.totals_of(record));
            let summary = totals.over(CodonSummary::of(record));
            let config = hank.and_then(|hank| hank.codon(id.configured()));
            let of_budget = budget_words(&summary);
            let mixed = mixed_changes(status, record);
            CodonReport {
                name: config.map_or_else(|| id.configured().to_owned(), |config| config.name.clone()),
                position: facts.view.position_in_loop(id.configured(), id.iteration()),
                asked: record
                    .asked()
                    .map(str::to_owned)
                    .or_else(|| written(config?, None)),
                terms: CodonTerms::of(hank.zip(config), record, facts),
                agent: agent(id, hank.zip(config), &facts.view),
                outcome: Outcome::of(status, record, &totals),
                did: last_message(status, facts, id),
                attempts: totals.count,
                attempt: attempts
                    .iter()
                    .rfind(|attempt| attempt.codon == *id && !attempt.undone)
                    .and_then(|attempt| attempt.number)
                    // The report lists only the newest attempts of all codons.
                    .unwrap_or(totals.count),
                lines: lines.get(id).copied(),
                changes: changes.remove(id).unwrap_or_default(),
                shown_by: status.hints.command(&format!("diff {id}")),
                tokens: summary.tokens,
                files_changed: summary.files_changed,
                unsaved: unsaved
                    .take_if(|unsaved| unsaved.codon == *id && is_cut_off(record))
                    .map(|unsaved| UnsavedReport {
                        is_at_work: !record.is_terminal() && status.live,
                        count: unsaved.changes.len(),
                        without_checkpoint: unsaved.without_checkpoint,
                        changes: unsaved
                            .changes
                            .into_iter()
                            .take(LISTED)
                            .map(FileReport::of)
                            .collect(),
                        command: status.hints.command(&format!("diff {id}")),
                    }),
                loop_check: crate::terminal::report::loop_check(record),
                checks: facts.checks.of(id).to_vec(),
                check_not_run: config.and_then(|config| facts.check_not_run(config, record)),
                result: summary.result,
                remarks: of_budget
                    .into_iter()
                    .chain(mixed)
                    .chain(summary.remarks)
                    .collect(),
                id: id.clone(),
            }
        })
        .collect()
}

/// Returns the last message of a codon's agent, from the newest attempt that counts and has a message.
fn last_message(status: &StatusView<'_>, facts: &JournalFacts, id: &CodonId) -> Option<String> {
    let mut attempts = status.thread.codons.iter().map(|entry| entry.codon.as_ref());
    attempts
        .find_map(|attempt| facts.message(attempt).filter(|_| attempt.codon_id() == id))
        .map(str::to_owned)
}

/// Returns agent, model and permissions of the newest attempt of a codon.
fn agent(id: &CodonId, config: Option<(&Hank, &CodonConfig)>, view: &RunView) -> Option<AgentReport> {
    let attempt = view.newest_attempt(id).map(|(_, attempt)| attempt);
    let name = attempt.and_then(|attempt| attempt.agent.clone());
    let name = name.or_else(|| Some(config?.1.agent_name().to_owned()))?;
    let model = attempt.and_then(|attempt| attempt.model.clone());
    Some(AgentReport {
        permissions: permissions(&name, config),
        model: model.or_else(|| config?.1.model.clone()),
        name,
    })
}

/// Returns the permissions of this agent in a codon, in words; `None` if it may do everything. Permissions do not limit the scripted agent.
pub(super) fn permissions(name: &str, config: Option<(&Hank, &CodonConfig)>) -> Option<String> {
    let options = config.filter(|_| name != "scripted");
    let options = options.map(|(hank, codon)| hank.agent_options(codon))?;
    let limits = options
        .permissions
        .filter(|access| *access != Access::of(AccessMode::All));
    let limits = AgentOptions {
        permissions: limits,
        ..AgentOptions::default()
    };
    limits.in_short()
}

/// Returns the sentence about a codon that ended at a limit of its own; `None` if a failure says so already.
fn budget_words(codon: &CodonSummary) -> Option<String> {
    let exceeded = codon.budget_exceeded.filter(|_| codon.failure.is_none())?;
    Some(at_its_budget(codon.status, exceeded, codon.cost_is_lower_bound))
}

/// Returns a remark if changes of the user may be among those of a codon, because an earlier attempt of the codon crashed.
fn mixed_changes(status: &StatusView<'_>, newest: &CodonExecution) -> Option<String> {
    let id = newest.codon_id();
    let attempts = status.thread.codons.iter();
    let mut earlier = attempts.filter(|entry| entry.codon.codon_id() == id).skip(1);
    let has_changed = newest.end_checkpoint().is_some() && newest.files_changed().unwrap_or_default() > 0;
    (has_changed && earlier.any(ThreadCodon::was_cut_off)).then(|| {
        "an attempt crashed: what changed until the next one is counted as the codon's own, your changes included"
            .to_owned()
    })
}

/// Checkpoints of each codon's work in all its attempts, and the number of files that the codon is known to have changed.
type OwnWork<'s> = BTreeMap<&'s CodonId, (CodonWork, Option<u64>)>;

/// Returns the work of each codon up to its newest attempt with a checkpoint of its end; codons without such an attempt are left out.
fn own_work<'s>(status: &'s StatusView<'_>) -> OwnWork<'s> {
    let mut works = BTreeMap::new();
    for (at, entry) in status.thread.codons.iter().enumerate().take(MOST_PAIRS) {
        let codon = &*entry.codon;
        if codon.end_checkpoint().is_some()
            && !works.contains_key(codon.codon_id())
            && let Some(work) = status.thread.work(status.state, at)
        {
            works.insert(codon.codon_id(), (work, codon.files_changed()));
        }
    }
    works
}

/// Returns the files that each codon changed, at most [`LISTED`] of all codons together. A codon is left out if its checkpoints differ in more or fewer
/// files than it is known to have changed: then some are files of the user.
fn changes_of_codons(execution: &Path, works: &OwnWork<'_>) -> BTreeMap<CodonId, Vec<FileReport>> {
    let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
    let Some(history) = GitHistory::open(&repository).ok().flatten() else {
        return BTreeMap::new();
    };
    let (mut of_codons, mut room) = (BTreeMap::new(), LISTED);
    for (id, (work, files)) in works {
        let Some((from, to)) = work.ends() else { continue };
        if room == 0 || *files == Some(0) {
            continue;
        }
        let Ok(changes) = history.diff(from, to) else {
            continue;
        };
        if files.is_some_and(|files| u64::try_from(changes.len()) != Ok(files)) {
            continue;
        }
        let listed: Vec<_> = changes.into_iter().take(room).map(FileReport::of).collect();
        room -= listed.len();
        of_codons.insert((*id).clone(), listed);
    }
    of_codons
}

/// Returns the lines that each codon added and removed in all its attempts. A codon is left out for the reason given at [`changes_of_codons`].
fn lines_of_codons(execution: &Path, works: &OwnWork<'_>) -> BTreeMap<CodonId, LineCounts> {
    let pairs: Vec<_> = works.values().filter_map(|(work, _)| work.ends()).collect();
    let lines = changed_lines_of(execution, &pairs).unwrap_or_default();
    let of_codon = |(id, (work, files)): (&&CodonId, &(CodonWork, Option<u64>))| {
        let (counts, changed) = lines.get(work.ends()?.1)?;
        let is_own = files.is_none_or(|files| files == *changed);
        is_own.then(|| ((*id).clone(), *counts))
    };
    works.iter().filter_map(of_codon).collect()
}

/// Returns the beginning of a prompt in the hank, filled in with `values` if given, or the names of the files that hold the prompt.
fn written(config: &CodonConfig, values: Option<&PromptValues>) -> Option<String> {
    let asked = match &config.prompt {
        PromptSource::Text(text) => {
            prompt_excerpt(&values.map_or_else(|| text.clone(), |values| values.render(text)))
        }
        PromptSource::Files(files) => prompt_excerpt(&files.join(", ")),
    };
    (!asked.is_empty()).then_some(asked)
}
