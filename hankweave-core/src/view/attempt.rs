//! Attempts as a view shows them: an [`AttemptView`] for each start of a codon (WIRE-39), and [`EarlierAttempts`] for the sum of old ones that are not listed
//! one by one. `transition` makes attempts from the events of a live run, `recorded` from a state document.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::{REASON, excerpt};
use crate::agent::{FailureKind, FailureReason, InterruptedBy};
use crate::codon::{CodonExecution, CodonStatus, InsteadOf};
use crate::cost::{TokenUsage, Usd};
use crate::id::{CheckpointSha, CodonId, RunId};
use crate::time::Timestamp;

/// Position of an attempt in its item, in JSON `ITERATION.ATTEMPT`, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptKey {
    /// Iteration of the loop; 1 outside of loops.
    pub iteration: u32,
    /// Number of the start in this iteration.
    pub attempt: u32,
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.iteration, self.attempt)
    }
}

/// Text that is no [`AttemptKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no attempt: write ITERATION.ATTEMPT, such as 2.1")]
pub struct InvalidAttemptKey(String);

impl FromStr for AttemptKey {
    type Err = InvalidAttemptKey;

    fn from_str(text: &str) -> Result<Self, InvalidAttemptKey> {
        let parts = text.split_once('.');
        let parsed = parts.and_then(|(iteration, attempt)| {
            Some(Self {
                iteration: iteration.parse().ok()?,
                attempt: attempt.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| InvalidAttemptKey(text.to_owned()))
    }
}

impl Serialize for AttemptKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AttemptKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// State of an attempt, in the one word that every reader shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AttemptState {
    /// It has not ended.
    #[default]
    Running,
    /// It succeeded, or reached its budget.
    Completed,
    /// The work itself went wrong.
    Failed,
    /// A user skipped it, or no budget was left.
    Skipped,
    /// It was stopped with its run.
    Stopped,
    /// A limit or an approval interrupted it.
    Paused,
    /// Its agent met a limit, and another agent continued at once in its place.
    Replaced,
    /// Its session was lost; the codon starts again.
    Restarted,
    /// The process that ran it ended without recording why.
    Crashed,
}

impl AttemptState {
    /// Returns the state of an attempt whose codon has this status; `None` while it is open.
    #[must_use]
    pub const fn of(status: CodonStatus, interrupted_by: Option<InterruptedBy>) -> Option<Self> {
        Some(match (status, interrupted_by) {
            (CodonStatus::Completed, _) => Self::Completed,
            (CodonStatus::Skipped, _) => Self::Skipped,
            (CodonStatus::Failed, None) => Self::Failed,
            (CodonStatus::Failed, Some(InterruptedBy::Stop)) => Self::Stopped,
            (CodonStatus::Failed, Some(InterruptedBy::LostSession)) => Self::Restarted,
            (
                CodonStatus::Failed,
                Some(
                    InterruptedBy::Ceiling
                    | InterruptedBy::UsageLimit
                    | InterruptedBy::Approval
                    | InterruptedBy::Sentinel
                    | InterruptedBy::Stuck
                    | InterruptedBy::Disk,
                ),
            ) => Self::Paused,
            (
                CodonStatus::Preparing
                | CodonStatus::Starting
                | CodonStatus::Initializing
                | CodonStatus::Running
                | CodonStatus::CompletingSentinels,
                _,
            ) => return None,
        })
    }

    /// Returns the state of a recorded attempt; `None` while it is open.
    #[must_use]
    pub fn of_record(codon: &CodonExecution) -> Option<Self> {
        let state = Self::of(codon.status(), codon.interruption());
        match codon.replaced_by() {
            Some(_) if state == Some(Self::Paused) => Some(Self::Replaced),
            _ => state,
        }
    }

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::Replaced => "replaced",
            Self::Restarted => "restarted",
            Self::Crashed => "crashed",
        }
    }
}

/// One start of a codon.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct AttemptView {
    /// Codon as it is executed, such as `build#1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<CodonId>,
    /// Number of the event that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Number among the attempts of the state document that the view was made of, the oldest first, for one without `seq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
    /// Number (`seq` or `record`) of the attempt before it in its history; absent for the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Number of its history: each run that starts over starts another one.
    #[serde(skip_serializing_if = "is_zero")]
    pub history: u64,
    /// State.
    pub state: AttemptState,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Milliseconds from its start to its end, by a clock that is never set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Milliseconds for which the run was suspended since its start; no part of `durationMs`.
    #[serde(skip_serializing_if = "is_zero")]
    pub suspended_ms: u64,
    /// Milliseconds that its rig took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rig_ms: Option<u64>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<AttemptWhy>,
    /// Limit of its budget that it reached, such as `used $0.0125 of $0.0100`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Cost of its agent, in US dollars.
    pub cost: Usd,
    /// Cost of its sentinels, in US dollars.
    #[serde(skip_serializing_if = "is_free")]
    pub sentinels: Usd,
    /// Its sentinels have cost more than is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sentinels_at_least: bool,
    /// Its agent or its sentinels have cost more than is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Tokens.
    pub tokens: TokenUsage,
    /// Name of its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Model that answered last, or that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Agent that it replaces, where its own one is a fallback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<InsteadOf>,
    /// Position of its agent in the list of the codon: 0 is the codon's own.
    #[serde(skip_serializing_if = "is_own")]
    pub entry: u32,
    /// Agent that continued at once in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// Run that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Checkpoint after its rig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rig_checkpoint: Option<CheckpointSha>,
    /// Checkpoint after its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointSha>,
    /// Number of checkpointed files that differed from its start when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<u64>,
    /// Its result as JSON, cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// A rollback undoes it, or it counts no longer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undone: bool,
}

/// Why an attempt did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AttemptWhy {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Message for people, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Another attempt may help.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retriable: bool,
    /// When the usage limit ends that it met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl From<&FailureReason> for AttemptWhy {
    fn from(reason: &FailureReason) -> Self {
        Self {
            kind: reason.kind,
            message: reason.words().map(|text| excerpt(text, REASON)),
            retriable: reason.retriable,
            until: reason.retry_at,
        }
    }
}

/// Attempts that are summed because newer ones took their place.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct EarlierAttempts {
    /// Number of attempts.
    pub count: u64,
    /// Cost of their agents and sentinels, in US dollars.
    pub cost: Usd,
    /// One of them has cost more than is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Tokens.
    pub tokens: TokenUsage,
    /// Milliseconds at work.
    pub duration_ms: u64,
    /// A crash interrupted one of them, so that its time is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lost_time: bool,
    /// Newest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub last: Option<AttemptKey>,
}

impl AttemptView {
    /// Number by which `after` of another attempt and the lists of undone attempts refer to this one; later attempts have higher numbers.
    pub(super) fn number(&self) -> u64 {
        self.seq.or(self.record).unwrap_or_default()
    }

    /// Cost with sentinels, in US dollars.
    #[must_use]
    pub fn spent(&self) -> Usd {
        self.cost + self.sentinels
    }

    /// Returns when an attempt was last at work before a crash interrupted it, as far as is known; `None` where its start or its time at work is unknown.
    #[must_use]
    pub fn last_at_work(&self) -> Option<Timestamp> {
        let worked = Duration::from_millis(self.duration_ms?);
        let suspended = Duration::from_millis(self.suspended_ms);
        Some(self.began?.after(worked + suspended))
    }

    /// Time at work until `now`; for an attempt that a crash interrupted, the known part of its time (HANK-35).
    #[must_use]
    pub fn worked(&self, now: Timestamp) -> Duration {
        if self.state == AttemptState::Crashed {
            return Duration::from_millis(self.duration_ms.unwrap_or_default());
        }
        let by_times = || {
            let began = self.began.unwrap_or(now);
            let suspended = Duration::from_millis(self.suspended_ms);
            self.ended.unwrap_or(now).since(began).saturating_sub(suspended)
        };
        self.duration_ms.map_or_else(by_times, Duration::from_millis)
    }
}

impl EarlierAttempts {
    pub(super) fn add(&mut self, key: AttemptKey, attempt: &AttemptView) {
        self.count = self.count.saturating_add(1);
        self.cost += attempt.spent();
        self.at_least |= attempt.at_least;
        self.tokens += attempt.tokens;
        // Without a recorded duration or end, its time counts as zero.
        let ended = attempt.ended.unwrap_or(Timestamp::UNIX_EPOCH);
        let worked = u64::try_from(attempt.worked(ended).as_millis()).unwrap_or(u64::MAX);
        self.duration_ms = self.duration_ms.saturating_add(worked);
        self.lost_time |= attempt.state == AttemptState::Crashed;
        self.last = self.last.max(Some(key));
    }

    /// Adds the attempts of another sum.
    pub(super) fn add_sum(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.cost += other.cost;
        self.at_least |= other.at_least;
        self.tokens += other.tokens;
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
        self.lost_time |= other.lost_time;
        self.last = self.last.max(other.last);
    }
}

/// Attempts of an item by their position.
pub(super) type Attempts = BTreeMap<AttemptKey, AttemptView>;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_own(entry: &u32) -> bool {
    *entry == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(millis: &u64) -> bool {
    *millis == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_free(cost: &Usd) -> bool {
    *cost == Usd::ZERO
}
