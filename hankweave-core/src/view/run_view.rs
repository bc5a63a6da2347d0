//! View of a run, and its parts (WIRE-38, WIRE-39).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attempt::{AttemptKey, AttemptState, AttemptView, is_free};
use super::files::FileChanges;
use super::history::HistoryView;
use super::item::ItemView;
use super::now::{CurrentActivity, CurrentAttempt, WORKING};
use super::sentinel::SentinelView;
use super::undone::{RolledBack, UndoView, UndoneAttempts};
use super::wait::{AnsweredApproval, WaitView};
use crate::agent::InterruptedBy;
use crate::cost::Usd;
use crate::id::{CodonId, RunId};
use crate::time::Timestamp;
use crate::wire::HankTitle;

/// Longest view as JSON, in bytes, after any number of events.
pub const MAX_VIEW_BYTES: usize = 256 * 1024;

/// View of a run, bounded and complete: what people see of it, and what the next event needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RunView {
    /// Version of this form: 1.
    pub view: u8,
    /// Number of the newest event that it takes into account; 0 before the first one.
    pub seq: u64,
    /// Time of that event. Clients count durations from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Run that started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<ViewedRun>,
    /// Name of the hank, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hank: Option<HankTitle>,
    /// Purpose of the run in a sentence, cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// It is a rehearsal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// State of the run.
    pub state: RunState,
    /// When that state started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Cause of the interruption, once the run is stopped or paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted_by: Option<InterruptedBy>,
    /// Cause of the end for people, cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// State in a sentence.
    pub headline: String,
    /// Next entry of the plan in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Money.
    pub money: MoneyView,
    /// Time limit of the run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit_ms: Option<u64>,
    /// Open attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<CurrentAttempt>,
    /// Lengthy activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<CurrentActivity>,
    /// Question that a user must answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskedApproval>,
    /// Newest answer, until another codon starts or asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<AnsweredApproval>,
    /// Newest answer to an approval whose codon has not started since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// Failure of the newest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemView>,
    /// Entries of the plan in order; codons of a loop are in its own `order`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Entries of a long plan that are left out: those near the current one are shown.
    #[serde(skip_serializing_if = "OmittedItems::is_none")]
    pub omitted: OmittedItems,
    /// Entries of the plan by the id of hank.json.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub items: BTreeMap<String, ItemView>,
    /// Attempts that count no longer.
    #[serde(skip_serializing_if = "UndoneAttempts::is_none")]
    pub undone: UndoneAttempts,
    /// History to which the attempts belong, and those before it.
    #[serde(skip_serializing_if = "HistoryView::is_none")]
    pub history: HistoryView,
    /// Position to which the run was rolled back since it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RolledBack>,
    /// Rollback that can be undone: no codon has started since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoView>,
    /// Number of codons of the plan, and of those that are completed, over all runs. Each counts once, one in a loop when the loop has ended.
    #[serde(skip_serializing_if = "CodonCount::is_none")]
    pub codons: CodonCount,
    /// Newest waits, by the number of the event that started each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<u64, WaitView>,
    /// Newest commands that the run took up, by the number of the event.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<u64, CommandView>,
    /// Changed files.
    pub files: FileChanges,
    /// Sentinels by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sentinels: BTreeMap<String, SentinelView>,
}

impl Default for RunView {
    fn default() -> Self {
        let mut view = Self {
            view: 1,
            seq: 0,
            at: None,
            run: None,
            hank: None,
            goal: None,
            rehearsal: false,
            state: RunState::default(),
            since: None,
            interrupted_by: None,
            cause: None,
            headline: String::new(),
            next: None,
            money: MoneyView::default(),
            time_limit_ms: None,
            now: None,
            activity: None,
            ask: None,
            answered: None,
            approved: None,
            problem: None,
            order: Vec::new(),
            omitted: OmittedItems::default(),
            items: BTreeMap::new(),
            undone: UndoneAttempts::default(),
            history: HistoryView::default(),
            rollback: None,
            undo: None,
            codons: CodonCount::default(),
            waits: BTreeMap::new(),
            commands: BTreeMap::new(),
            files: FileChanges::default(),
            sentinels: BTreeMap::new(),
        };
        view.reword();
        view
    }
}

/// Run that started last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ViewedRun {
    /// Its id.
    pub id: RunId,
    /// Number of runs in the directory, this one included.
    pub number: usize,
    /// When it started.
    pub began: Timestamp,
}

/// State of a run, in the one word that every reader shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// No run has started.
    #[default]
    Planned,
    /// It works, or waits for a clock.
    Running,
    /// It waits for the answer of a user.
    Asking,
    /// It waits for a command of a client.
    Idle,
    /// Every codon is done.
    Completed,
    /// The work itself went wrong.
    Failed,
    /// A command, a client or a signal stopped it.
    Stopped,
    /// A limit or an approval paused it.
    Paused,
    /// Its process ended without recording why.
    Crashed,
}

impl RunState {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Asking => "asking",
            Self::Idle => "idle",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::Crashed => "crashed",
        }
    }

    /// Returns its sign in a report; the titles of the page use these signs, too.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Planned | Self::Idle => "…",
            Self::Running => "▶",
            Self::Asking => "?",
            Self::Completed => "✓",
            Self::Failed | Self::Crashed => "✗",
            Self::Stopped => "■",
            Self::Paused => "‖",
        }
    }

    /// Whether the run has ended.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Planned | Self::Running | Self::Asking | Self::Idle => false,
            Self::Completed | Self::Failed | Self::Stopped | Self::Paused | Self::Crashed => true,
        }
    }

    /// Returns the state of a run that failed.
    #[must_use]
    pub const fn of_failure(interrupted_by: Option<InterruptedBy>) -> Self {
        match interrupted_by {
            None => Self::Failed,
            Some(by) if by.is_pause() => Self::Paused,
            Some(_) => Self::Stopped,
        }
    }
}

/// Money of all runs in the directory, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct MoneyView {
    /// Spent, with sentinels.
    pub spent: Usd,
    /// Part of `spent` that does not count against the limit: that of earlier histories.
    pub before: Usd,
    /// Part of `spent` from before the newest run.
    #[serde(skip_serializing_if = "is_free")]
    pub before_run: Usd,
    /// Something that counts against the limit has cost more than is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Something of earlier histories has cost more than is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub before_at_least: bool,
    /// Total budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Usd>,
}

impl MoneyView {
    /// Spent against the limit.
    #[must_use]
    pub const fn counted(&self) -> Usd {
        self.spent.saturating_sub(self.before)
    }

    /// Whether more was spent in all runs than is known.
    #[must_use]
    pub const fn spent_at_least(&self) -> bool {
        self.at_least || self.before_at_least
    }
}

/// Question that a user must answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AskedApproval {
    /// Codon that waits, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codon: Option<CodonId>,
    /// Question, cut.
    pub question: String,
    /// When it was asked.
    pub since: Timestamp,
}

/// Command of a client that the run took up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommandView {
    /// Type of the command.
    pub command: String,
    /// Name of the client, cut.
    pub client: String,
    /// Codon that the command names or meets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codon: Option<CodonId>,
    /// Reason that the client gave, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was taken up.
    pub at: Timestamp,
}

/// Failure of the newest attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProblemView {
    /// Entry of the plan.
    pub item: String,
    /// Its attempt, `ITERATION.ATTEMPT`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub attempt: AttemptKey,
    /// Last lines before it, by the number of the event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tail: BTreeMap<u64, String>,
}

/// Number of codons of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CodonCount {
    /// Completed ones.
    pub completed: usize,
    /// All.
    pub planned: usize,
}

impl CodonCount {
    const fn is_none(&self) -> bool {
        self.planned == 0
    }
}

/// Number of entries of a long plan that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct OmittedItems {
    /// Before those that are shown.
    pub before: usize,
    /// After them.
    pub after: usize,
}

impl OmittedItems {
    const fn is_none(&self) -> bool {
        self.before == 0 && self.after == 0
    }
}

impl RunView {
    /// Returns the view as JSON, free of `null`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match serde_json::to_value(self) {
            Ok(value) => value,
            // All keys are texts and numbers.
            Err(error) => unreachable!("a view is not written: {error}"),
        }
    }

    /// Returns the attempt of an item.
    #[must_use]
    pub fn attempt(&self, item: &str, key: AttemptKey) -> Option<&AttemptView> {
        self.items.get(item)?.attempts.get(&key)
    }

    /// Returns the open attempt.
    #[must_use]
    pub fn current(&self) -> Option<(&CurrentAttempt, &AttemptView)> {
        let now = self.now.as_ref()?;
        Some((now, self.attempt(&now.item, now.key())?))
    }

    /// Whether the agent of the open attempt works: it may be in the middle of an answer, so that it costs at least what is known.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.now.as_ref().is_some_and(|open| open.phase == WORKING)
    }

    /// Returns the time at work, until `now`, of all attempts since the start of the current history, also of those that no longer count. The total budget
    /// limits this time (HANK-35).
    #[must_use]
    pub fn worked(&self, now: Timestamp) -> Duration {
        let of_item = |item: &ItemView| {
            let earlier = item.earlier.map_or(0, |earlier| earlier.duration_ms);
            let shown = item.attempts.values().map(|attempt| attempt.worked(now));
            Duration::from_millis(earlier) + shown.sum::<Duration>()
        };
        let undone = self.undone.sum().map_or(0, |undone| undone.duration_ms);
        self.items.values().map(of_item).sum::<Duration>() + Duration::from_millis(undone)
    }

    /// Whether an attempt was interrupted by a crash, so that [`worked`](Self::worked) misses its time.
    #[must_use]
    pub fn has_lost_time(&self) -> bool {
        let mut items = self.items.values();
        let is_lost = |attempt: &AttemptView| attempt.state == AttemptState::Crashed;
        self.undone.sum().is_some_and(|undone| undone.lost_time)
            || items.any(|item| {
                item.earlier.is_some_and(|earlier| earlier.lost_time) || item.attempts.values().any(is_lost)
            })
    }

    /// Returns the newest attempt of a codon as it is executed, such as `build#1`.
    #[must_use]
    pub fn newest_attempt(&self, codon: &CodonId) -> Option<(AttemptKey, &AttemptView)> {
        let item = self.items.get(codon.configured())?;
        let key = item.newest_in(codon.iteration())?;
        Some((key, item.attempts.get(&key)?))
    }

    /// Returns the newest attempt of a codon, to change it.
    pub(super) fn attempt_of(&mut self, codon: &CodonId) -> Option<&mut AttemptView> {
        let item = self.items.get_mut(codon.configured())?;
        let key = item.newest_in(codon.iteration())?;
        item.attempts.get_mut(&key)
    }

    /// Returns the loop that holds a codon.
    pub(super) fn loop_of(&mut self, item: &str) -> Option<&mut ItemView> {
        let within = self.items.get(item)?.within.clone()?;
        self.items.get_mut(&within)
    }

    /// Sets the state and, where that changes it, the time since when it lasts.
    pub(super) fn enter(&mut self, state: RunState, at: Timestamp) {
        if self.state != state {
            (self.state, self.since) = (state, Some(at));
        }
    }
}
