//! Model of a run: its plan, transcript, files, costs and sentinels, from its events. Always bounded.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use hankweave_core::codon::CodonStatus;
use hankweave_core::cost::Usd;
use hankweave_core::document::{PlanEntry, PlanExtension, SharedList};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, CodonId, SentinelId};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, FileAction, JournalEntry};

use super::ring::Ring;
use crate::report::{Loops, MarkedText, title};
use crate::screen::SafeText;

/// Files that have changed since the codon began; more are only counted.
const FILES: usize = 2_000;

/// Sentinels that are shown; there are few.
const SENTINELS: usize = 200;

/// Everything that is shown of a run.
#[derive(Debug, Default)]
pub(super) struct RunModel {
    /// How often each loop goes round at most, as far as that is known.
    loops: Loops,
    pub(super) rows: Vec<CodonRow>,
    /// The plan of the rows, to whose configurations those of later iterations refer.
    entries: SharedList<PlanEntry>,
    places: HashMap<CodonId, usize>,
    /// The row that runs, or has run last.
    pub(super) current: Option<usize>,
    pub(super) transcript: Ring,
    /// Who spoke last in the transcript.
    speaker: Option<CodonId>,
    /// Files that have changed since the codon started.
    pub(super) files: BTreeMap<String, FileAction>,
    /// Changed files that are not among them.
    pub(super) more_files: usize,
    /// The checkpoint that the files had when the codon began.
    pub(super) base: Option<CheckpointSha>,
    newest: Option<CheckpointSha>,
    pub(super) sentinels: BTreeMap<SentinelId, Watcher>,
    /// Cost of all runs.
    pub(super) spent: Usd,
    pub(super) began: Option<Timestamp>,
    /// How many tokens the conversation has, of how many that fit in.
    pub(super) context: Option<(u64, u64)>,
    leaving: Vec<CodonId>,
}

/// One codon of the plan.
#[derive(Debug, Clone)]
pub(super) struct CodonRow {
    pub(super) id: CodonId,
    pub(super) title: String,
    /// `None` before it has begun.
    pub(super) status: Option<CodonStatus>,
    pub(super) cost: Usd,
    pub(super) is_lower_bound: bool,
    pub(super) tokens: u64,
    pub(super) began: Option<Timestamp>,
    pub(super) took: Option<Duration>,
}

/// Facts about a sentinel.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) said: String,
    pub(super) answers: u64,
    pub(super) cost: Usd,
    /// It has cost more than is known.
    pub(super) is_lower_bound: bool,
}

impl RunModel {
    pub(super) fn new(loops: Loops) -> Self {
        Self {
            loops,
            ..Self::default()
        }
    }

    /// Lays out a plan. What is known of its codons stays.
    pub(super) fn plan(&mut self, plan: &SharedList<PlanEntry>) {
        let mut known: HashMap<CodonId, CodonRow> =
            self.rows.drain(..).map(|row| (row.id.clone(), row)).collect();
        let current = self.current.take();
        let current = current.and_then(|at| self.places.iter().find(|(_, place)| **place == at));
        let current = current.map(|(id, _)| id.clone());
        self.entries = plan.clone();
        self.rows = plan
            .iter()
            .map(|entry| {
                let row = || CodonRow::new(entry.codon_id.clone(), title(entry, &self.loops));
                known.remove(&entry.codon_id).unwrap_or_else(row)
            })
            .collect();
        let places = self.rows.iter().enumerate();
        self.places = places.map(|(place, row)| (row.id.clone(), place)).collect();
        self.current = current.and_then(|id| self.places.get(&id).copied());
    }

    /// Lays out what a loop adds to the plan, or takes from it.
    fn extend_plan(&mut self, extension: &PlanExtension) {
        // Somebody who came later may not know the plan.
        let Ok(begin) = extension.extend(&mut self.entries) else {
            return;
        };
        let added = self.entries.range(begin..begin + extension.entries.len());
        let added = added.map(|entry| CodonRow::new(entry.codon_id.clone(), title(entry, &self.loops)));
        let added: Vec<CodonRow> = added.collect();
        for dropped in self.rows.splice(begin..begin + extension.dropped as usize, added) {
            self.places.remove(&dropped.id);
        }
        let moved = self.rows.iter().enumerate().skip(begin);
        self.places
            .extend(moved.map(|(place, row)| (row.id.clone(), place)));
    }

    /// Takes an event in.
    pub(super) fn take(&mut self, entry: &JournalEntry) {
        self.add_transcript(&entry.event, entry.timestamp);
        match &entry.event {
            Event::StateTransition {
                transition,
                resulting_state,
                ..
            } => {
                self.spent = resulting_state.total_spend.unwrap_or(resulting_state.total_cost);
                self.transition(transition, entry.timestamp);
            }
            Event::TokenUsage {
                codon_id,
                total_cost,
                cost_is_lower_bound,
                context_tokens,
                context_window,
                ..
            } => {
                self.context = context_tokens.zip(*context_window).or(self.context);
                if let Some(row) = self.row(codon_id) {
                    (row.cost, row.is_lower_bound) = (*total_cost, *cost_is_lower_bound == Some(true));
                }
            }
            Event::CodonCompleted {
                codon_id,
                cost,
                sentinel_cost,
                cost_is_lower_bound,
                duration,
                ..
            } => {
                if let Some(row) = self.row(codon_id) {
                    row.cost = *cost + sentinel_cost.unwrap_or_default();
                    row.is_lower_bound = *cost_is_lower_bound == Some(true);
                    row.took = Some(Duration::from_millis(*duration));
                }
            }
            Event::FileUpdated { path, action, .. } => self.file(path, *action),
            Event::SentinelLoaded { sentinel_id, .. } => {
                self.watcher(sentinel_id, |watcher| "watches".clone_into(&mut watcher.said));
            }
            Event::SentinelOutput {
                sentinel_id,
                content,
                cost,
                cost_is_lower_bound,
                ..
            } => self.watcher(sentinel_id, |watcher| {
                watcher.said = content
                    .as_str()
                    .map_or_else(|| content.to_string(), str::to_owned);
                watcher.answers += 1;
                watcher.cost += *cost;
                watcher.is_lower_bound |= *cost_is_lower_bound == Some(true);
            }),
            Event::SentinelUnloaded {
                sentinel_id,
                cost_is_lower_bound: Some(true),
                ..
            } => self.watcher(sentinel_id, |watcher| watcher.is_lower_bound = true),
            Event::SentinelError {
                sentinel_id, message, ..
            } => self.watcher(sentinel_id, |watcher| watcher.said = format!("failed: {message}")),
            Event::RollbackStarted {
                codons_to_process, ..
            } => self.leaving.clone_from(codons_to_process),
            Event::RollbackCompleted { .. } => {
                for left in std::mem::take(&mut self.leaving) {
                    if let Some(row) = self.row(&left) {
                        (row.status, row.took) = (None, None);
                    }
                }
            }
            _ => {}
        }
    }

    fn transition(&mut self, event: &StateEvent, at: Timestamp) {
        match event {
            StateEvent::RunStarted { .. } => self.began = Some(at),
            StateEvent::PlanReplaced { execution_plan } => self.plan(execution_plan),
            StateEvent::PlanExtended { extension } => self.extend_plan(extension),
            StateEvent::InitialCheckpointSet { sha } => self.newest = Some(sha.clone()),
            StateEvent::CodonStarted { codon_id, .. } => {
                self.files.clear();
                self.more_files = 0;
                (self.base, self.context) = (self.newest.clone(), None);
                self.current = self.places.get(codon_id).copied();
                if let Some(row) = self.row(codon_id) {
                    let (status, began) = (Some(CodonStatus::Preparing), Some(at));
                    let (id, title) = (row.id.clone(), std::mem::take(&mut row.title));
                    *row = CodonRow {
                        status,
                        began,
                        ..CodonRow::new(id, title)
                    };
                }
            }
            StateEvent::CodonTransitioned { codon_id, to, .. } => {
                if let Some(row) = self.row(codon_id) {
                    row.status = Some(*to);
                    if to.is_terminal() && row.took.is_none() {
                        row.took = row.began.map(|began| at.since(began));
                    }
                }
            }
            StateEvent::CheckpointCreated { sha, .. } => self.newest = Some(sha.clone()),
            StateEvent::CostsIncremented {
                codon_id,
                tokens_delta,
                ..
            } => {
                if let Some(row) = self.row(codon_id) {
                    row.tokens += tokens_delta.total();
                }
            }
            StateEvent::CodonFinalCostSet {
                codon_id,
                final_tokens,
                ..
            } => {
                if let Some(row) = self.row(codon_id) {
                    row.tokens = final_tokens.total();
                }
            }
            _ => {}
        }
    }

    fn row(&mut self, id: &CodonId) -> Option<&mut CodonRow> {
        let place = *self.places.get(id)?;
        self.rows.get_mut(place)
    }

    fn file(&mut self, path: &str, action: FileAction) {
        // A file that was new stays new, however often it changes.
        let before = self.files.get(path).copied();
        match (before, action) {
            (Some(FileAction::Created), FileAction::Modified) => {}
            (Some(FileAction::Created), FileAction::Deleted) => {
                self.files.remove(path);
            }
            (None, _) if self.files.len() >= FILES => self.more_files += 1,
            (_, action) => {
                self.files.insert(path.to_owned(), action);
            }
        }
    }

    fn watcher(&mut self, id: &SentinelId, change: impl FnOnce(&mut Watcher)) {
        if self.sentinels.len() < SENTINELS || self.sentinels.contains_key(id) {
            change(self.sentinels.entry(id.clone()).or_default());
        }
    }

    /// Adds to the transcript what an event says.
    fn add_transcript(&mut self, event: &Event, at: Timestamp) {
        if let Event::StateTransition { transition, .. } = event
            && let StateEvent::CodonStarted { codon_id, .. } = &**transition
        {
            self.head(codon_id.clone(), at);
            return;
        }
        let Some(codon) = codon_of(event) else {
            if let Event::Info { message } | Event::Error { message, .. } = event {
                self.add("— ", message, Style::new().dimmed());
            }
            return;
        };
        let Some(said) = MarkedText::of(event, &codon, true) else {
            return;
        };
        if self.speaker.as_ref() != Some(&codon) {
            self.head(codon, at);
        }
        self.add(said.mark, &said.words, said.style);
    }

    fn head(&mut self, codon: CodonId, at: Timestamp) {
        let title = format!("{codon}  {at}");
        self.add("", &title, AnsiColor::Cyan.on_default().bold());
        self.speaker = Some(codon);
    }

    fn add(&mut self, mark: &str, words: &str, style: Style) {
        for line in words.trim_end().lines() {
            let line = format!("{mark}{}", line.replace('\t', "    "));
            let harmless = SafeText::from(line);
            self.transcript.push(harmless.as_str().to_owned(), style);
        }
    }

    /// How many codons have ended in the order of the plan.
    pub(super) fn done(&self) -> usize {
        let ended = |row: &&CodonRow| {
            row.status
                .is_some_and(|status| status.is_terminal() && status != CodonStatus::Failed)
        };
        self.rows.iter().filter(ended).count()
    }

    /// The codon that runs.
    pub(super) fn running(&self) -> Option<&CodonRow> {
        let row = self.rows.get(self.current?)?;
        row.status
            .is_some_and(|status| !status.is_terminal())
            .then_some(row)
    }
}

impl CodonRow {
    pub(super) fn new(id: CodonId, title: String) -> Self {
        Self {
            id,
            title,
            status: None,
            cost: Usd::ZERO,
            is_lower_bound: false,
            tokens: 0,
            began: None,
            took: None,
        }
    }
}

/// The codon that an event is about, if it is one that says something.
fn codon_of(event: &Event) -> Option<CodonId> {
    match event {
        Event::CodonStarted { codon_id, .. }
        | Event::CodonCompleted { codon_id, .. }
        | Event::CodonExtended { codon_id, .. }
        | Event::AssistantAction { codon_id, .. }
        | Event::ToolResult { codon_id, .. }
        | Event::OutputTruncated { codon_id, .. }
        | Event::RigOutput { codon_id, .. }
        | Event::RigSetupFailed { codon_id, .. }
        | Event::SentinelOutput { codon_id, .. }
        | Event::SentinelError { codon_id, .. } => Some(codon_id.clone()),
        _ => None,
    }
}
