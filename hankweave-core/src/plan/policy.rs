//! Decides what happens after a failed codon: continue, another attempt, a wait, another agent, or stop (HANK-41 to HANK-47). `decide` calls it.
//!
//! The attempts are counted from the records of the thread, so a restart continues the count.

use std::time::Duration;

use super::fallback::{AgentList, NextAgent, is_retried, waited_for_limits};
use crate::agent::FailureReason;
use crate::codon::{CodonExecution, Failed};
use crate::document::PlanEntry;
use crate::hank::{CodonConfig, Hank, OnFailure, RetryConfig};
use crate::id::CodonId;
use crate::thread::ThreadTip;
use crate::time::Timestamp;

/// Longest wait that a provider may request; a longer one is ignored (HANK-43).
const LONGEST_HINT: Duration = Duration::from_secs(60 * 60);

/// Another attempt at a codon that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// The codon.
    pub entry: Box<PlanEntry>,
    /// Number of the retry, from 1. 0 for an attempt that is no retry: the first one again because it was interrupted, one after a usage limit, or one with
    /// another agent.
    pub number: u32,
    /// Greatest number of retries.
    pub most: u32,
    /// Time from the failure to the attempt, unless `limit` is set.
    pub after: Duration,
    /// When the codon failed.
    pub failed_at: Timestamp,
    /// The usage limit whose end this attempt waits for; such an attempt does not count as a retry.
    pub limit: Option<UsageLimit>,
    /// Whether another entry of the codon's `fallback` may take over the codon (HANK-80).
    pub falls_back: bool,
}

/// A usage limit of a provider that is used up and ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageLimit {
    /// When it ends, by the clock of the provider.
    pub ends_at: Timestamp,
    /// Time that this codon has waited for limits before, without a success since.
    pub waited: Duration,
}

impl Retry {
    /// Returns the length of the wait, counted from the failure.
    #[must_use]
    pub fn wait(&self) -> Duration {
        match self.limit {
            Some(limit) => limit.ends_at.since(self.failed_at),
            None => self.after,
        }
    }

    /// Returns the rest of the wait at `now`. If the clock was set back, it is at most `after`; a wait for a limit ends when the clock shows its end.
    #[must_use]
    pub fn remaining(&self, now: Timestamp) -> Duration {
        if let Some(limit) = self.limit {
            return limit.ends_at.since(now);
        }
        self.after.saturating_sub(now.since(self.failed_at))
    }
}

/// Action after the failure at the end of a thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FailureAction {
    /// The next codon, as after a success.
    Continue,
    /// The codon again; the fields are those of [`Retry`].
    TryAgain { number: u32, most: u32, after: Duration },
    /// The codon again, when a limit of its provider has ended.
    WaitForLimit(UsageLimit),
    /// The codon again, with another agent or model.
    FallBack,
    /// Nothing, until the user acts.
    Stop,
}

/// Returns the action after `failed`, the newest codon of the thread: the rule for usage limits comes first, then the codon's fallbacks, then `onFailure`.
pub(super) fn consequence(hank: &Hank, thread: &ThreadTip<'_>, failed: &Failed) -> FailureAction {
    // A usage limit comes before the policy of the codon: it says nothing about the codon, and every other codon would meet it too.
    if let Some(action) = limited(hank, thread, failed) {
        return action;
    }
    let config = hank.codon(failed.codon_id.configured());
    // With its budget used up, nothing is left for another agent either.
    let has_budget = thread
        .newest()
        .is_none_or(|newest| newest.codon.budget_exceeded().is_none());
    if has_budget
        && let Some(config) = config
        && let Some(action) = fall_back(hank, thread, config, failed)
    {
        return action;
    }
    let policy = config.map_or(OnFailure::Abort, CodonConfig::failure_policy);
    let retries = config.and_then(|config| config.retry_config).unwrap_or_default();
    let failures = failures_in_a_row(thread, &failed.codon_id);
    match policy {
        // An interrupted codon has not failed, so its policy for failures does not apply.
        _ if failed.failure_reason.interrupted => FailureAction::TryAgain {
            number: failures,
            most: match policy {
                OnFailure::Retry => retries.retries(),
                OnFailure::Abort | OnFailure::Ignore => 0,
            },
            after: Duration::ZERO,
        },
        // A codon that a crash of its run cut off has not failed by itself, so there is no failure to ignore.
        OnFailure::Ignore if !thread.newest().is_some_and(|newest| newest.was_cut_off()) => {
            FailureAction::Continue
        }
        OnFailure::Retry if failed.failure_reason.retriable && failures <= retries.retries() => {
            FailureAction::TryAgain {
                number: failures,
                most: retries.retries(),
                after: delay(retries, failures, &failed.failure_reason),
            }
        }
        OnFailure::Ignore | OnFailure::Retry | OnFailure::Abort => FailureAction::Stop,
    }
}

/// The action after a failure that met a usage limit: another agent of the codon's list, or a wait.
pub(super) fn limited(hank: &Hank, thread: &ThreadTip<'_>, failed: &Failed) -> Option<FailureAction> {
    let limit = usage_limit(thread, failed)?;
    let list = hank
        .codon(failed.codon_id.configured())
        .and_then(|config| AgentList::of(hank, config));
    Some(match list {
        Some(list) => after_list(&list, thread, failed).unwrap_or(FailureAction::WaitForLimit(limit)),
        None => FailureAction::WaitForLimit(limit),
    })
}

/// Returns the action after an outage, an unknown model or a limit without an end, if the codon's list has an entry left and its policy does not
/// have the failed agent attempt the codon again.
fn fall_back(
    hank: &Hank,
    thread: &ThreadTip<'_>,
    config: &CodonConfig,
    failed: &Failed,
) -> Option<FailureAction> {
    failed.failure_reason.fallback_cause()?;
    if is_retried(hank, thread, failed) {
        return None;
    }
    after_list(&AgentList::of(hank, config)?, thread, failed)
}

/// Returns the action that follows from the list of agents at the time of the failure, however long a wait would be; `None` if every agent has failed. The run
/// looks at the list again before it starts the attempt.
fn after_list(list: &AgentList<'_>, thread: &ThreadTip<'_>, failed: &Failed) -> Option<FailureAction> {
    match list.after_failure(thread, &failed.codon_id, failed.end_time, Duration::MAX) {
        NextAgent::Use(_) => Some(FailureAction::FallBack),
        NextAgent::Wait(_, ends_at) => Some(FailureAction::WaitForLimit(UsageLimit {
            ends_at,
            waited: waited_for_limits(thread, &failed.codon_id),
        })),
        NextAgent::Exhausted => None,
    }
}

/// Returns how many times the codon has failed in a row (HANK-45). An interruption is no failure, and does not end the row.
pub(super) fn failures_in_a_row(thread: &ThreadTip<'_>, id: &CodonId) -> u32 {
    let failures = row_of_failures(thread, id).filter(|failed| !failed.failure_reason.interrupted);
    u32::try_from(failures.count()).unwrap_or(u32::MAX)
}

/// Returns the failed records of the codon at the end of the thread, newest first, up to the first other record.
pub(super) fn row_of_failures<'t>(
    thread: &'t ThreadTip<'_>,
    id: &'t CodonId,
) -> impl Iterator<Item = &'t Failed> + Clone {
    thread
        .codons()
        .map_while(move |entry| failure_of(entry.codon, id))
}

/// Returns the failure of the codon `id`, if this record is one.
pub(super) fn failure_of<'r>(record: &'r CodonExecution, id: &CodonId) -> Option<&'r Failed> {
    match record {
        CodonExecution::Failed(failed) if failed.codon_id == *id => Some(failed),
        _ => None,
    }
}

/// The limit that the newest failure met (HANK-46).
///
/// A provider may report one limit after another that ends soon. So from the second limit in a row on, there is a least wait: 2 seconds, then twice as long
/// each time.
pub(super) fn usage_limit(thread: &ThreadTip<'_>, newest: &Failed) -> Option<UsageLimit> {
    let ends_at = newest.failure_reason.retry_at?;
    let waits = row_of_failures(thread, &newest.codon_id)
        .skip(1)
        .filter_map(|failed| Some(failed.failure_reason.retry_at?.since(failed.end_time)));
    let times = u32::try_from(waits.clone().count()).unwrap_or(u32::MAX);
    let least_wait = match times {
        0 => Duration::ZERO,
        times => Duration::from_secs(1 << times.min(30)).min(LONGEST_DOUBLED),
    };
    Some(UsageLimit {
        ends_at: ends_at.max(newest.end_time.after(least_wait)),
        waited: waits.fold(Duration::ZERO, Duration::saturating_add),
    })
}

/// Upper bound of the least wait for a limit.
const LONGEST_DOUBLED: Duration = Duration::from_secs(10 * 60);

/// Returns the delay before a retry: the time that the provider named, else one that doubles with every failure; never longer than configured (HANK-42,
/// HANK-43).
fn delay(config: RetryConfig, failures: u32, reason: &FailureReason) -> Duration {
    let hint = reason.retry_after_ms.map(Duration::from_millis);
    let hint = hint.filter(|hint| *hint <= LONGEST_HINT);
    let doubled = || {
        let factor = 1_u32 << failures.saturating_sub(1).min(30);
        config.delay().saturating_mul(factor)
    };
    hint.unwrap_or_else(doubled).min(config.max_delay())
}
