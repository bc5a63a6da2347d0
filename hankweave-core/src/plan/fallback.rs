//! Decides which agent runs a codon that has fallbacks (HANK-80 to HANK-82).
//!
//! The list of a codon has its own agent first, then its fallbacks. [`next_in_list`] takes the health of each entry and the time, and returns the entry that is
//! next. The health comes from the records of the document, so a restart decides as the run before would have done; an outage counts only in its own run.

use std::time::Duration;

use super::policy::{failure_of, failures_in_a_row, row_of_failures};
use crate::agent::FallbackCause;
use crate::codon::{ChosenAgent, CodonExecution, Failed, InsteadOf};
use crate::document::HankweaveState;
use crate::hank::{AgentChoice, CodonConfig, Fallback, FallbackAgent, Hank, OnFailure};
use crate::id::CodonId;
use crate::thread::ThreadTip;
use crate::time::{SHORTEST_WAIT, Timestamp};

/// Upper bound of the least wait of an agent that meets one usage limit after another.
const LONGEST_DOUBLED: Duration = Duration::from_secs(10 * 60);

/// Agent that a codon runs with next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAgent {
    /// The entry at this position: 0 is what the codon itself names.
    Use(usize),
    /// The entry at this position, when its usage limit has ended.
    Wait(usize, Timestamp),
    /// No entry: each has failed for this codon.
    Exhausted,
}

/// Whether the agent of an entry can work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentHealth {
    /// The agent can work, as far as is known.
    Free,
    /// The agent has a usage limit, which ends at this time.
    Limited(Timestamp),
    /// The agent has failed for this codon, and the end of the cause is unknown.
    Failed(FallbackCause),
}

/// Entry of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListEntry {
    /// An agent with its health.
    Agent(AgentHealth),
    /// A wait until the first of the usage limits of the agents in front of this entry ends.
    Wait,
}

/// Returns the next entry of a list, at `now`, for a run that waits at most `patience`.
///
/// The first agent that is free works. If a [`ListEntry::Wait`] comes earlier in the list, and a limit in front of it ends within `patience`, the run waits for
/// that limit instead. In a list without a free agent, the run waits for the limit that ends first, and the caller decides whether that is too long.
#[must_use]
pub fn next_in_list(list: &[ListEntry], now: Timestamp, patience: Duration) -> NextAgent {
    // The limit that ends first among the entries so far, with the position of its entry.
    let mut first: Option<(Timestamp, usize)> = None;
    for (position, entry) in list.iter().enumerate() {
        match entry {
            ListEntry::Agent(AgentHealth::Limited(until)) if *until > now => {
                let found = (*until, position);
                first = Some(first.map_or(found, |first| first.min(found)));
            }
            ListEntry::Agent(AgentHealth::Free | AgentHealth::Limited(_)) => return NextAgent::Use(position),
            ListEntry::Agent(AgentHealth::Failed(_)) => {}
            ListEntry::Wait => match first {
                Some((until, position)) if until.since(now) <= patience => {
                    return NextAgent::Wait(position, until);
                }
                _ => {}
            },
        }
    }
    first.map_or(NextAgent::Exhausted, |(until, position)| {
        NextAgent::Wait(position, until)
    })
}

/// The list of a codon with fallbacks.
#[derive(Debug)]
pub struct AgentList<'h> {
    hank: &'h Hank,
    /// The codon's own first; `None` for a wait.
    entries: Vec<Option<ListedAgent<'h>>>,
}

/// Agent of a list.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ListedAgent<'h> {
    /// The codon as this agent runs it. Its environment has the values as hank.json has them.
    pub codon: CodonConfig,
    /// The entry with its position in `fallback`; `None` for the codon's own agent.
    pub written: Option<(usize, &'h FallbackAgent)>,
}

/// The names under which a record has the agent of an entry.
struct AgentNames {
    agent: String,
    script: Option<String>,
    model: Option<String>,
}

impl<'h> AgentList<'h> {
    /// Returns the list of a codon of this hank; `None` when it has no fallbacks.
    #[must_use]
    pub fn of(hank: &'h Hank, codon: &'h CodonConfig) -> Option<Self> {
        let fallbacks = hank.fallbacks_of(codon);
        if fallbacks.is_empty() {
            return None;
        }
        let entry = |(index, fallback): (usize, &'h Fallback)| match fallback {
            Fallback::Wait => None,
            Fallback::Agent(agent) => Some(ListedAgent {
                codon: agent.applied_to(codon),
                written: Some((index, agent)),
            }),
        };
        // The list of a whole hank may name the agent with which a codon starts anyway.
        let is_other = |entry: &Option<ListedAgent<'_>>| {
            entry
                .as_ref()
                .is_none_or(|entry| !entry.codon.has_agent_of(codon))
        };
        let own = ListedAgent {
            codon: codon.clone(),
            written: None,
        };
        let others = fallbacks.iter().enumerate().map(entry).filter(is_other);
        Some(Self {
            hank,
            entries: std::iter::once(Some(own)).chain(others).collect(),
        })
    }

    /// Returns the agent at this position.
    #[must_use]
    pub fn entry(&self, position: usize) -> Option<&ListedAgent<'h>> {
        self.entries.get(position)?.as_ref()
    }

    /// Returns the entries, the codon's own agent first; `None` for a wait.
    pub fn entries(&self) -> impl Iterator<Item = Option<&ListedAgent<'h>>> {
        self.entries.iter().map(Option::as_ref)
    }

    /// Returns the positions of the agents.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(position, entry)| entry.as_ref().map(|_| position))
    }

    /// Returns the next agent of the codon `id`, whose newest attempt may have failed.
    #[must_use]
    pub fn next(
        &self,
        thread: &ThreadTip<'_>,
        id: &CodonId,
        now: Timestamp,
        patience: Duration,
    ) -> NextAgent {
        let newest = self.newest_failure(thread, id);
        if let Some(failed) = newest
            && let Some(position) = self.continuing_entry(thread, failed)
            && !matches!(self.health(thread, id, position, now), AgentHealth::Limited(_))
        {
            return NextAgent::Use(position);
        }
        self.after_failure(thread, id, now, patience)
    }

    /// Returns the next agent when the failed one is not to attempt the codon again.
    pub(super) fn after_failure(
        &self,
        thread: &ThreadTip<'_>,
        id: &CodonId,
        now: Timestamp,
        patience: Duration,
    ) -> NextAgent {
        let entry = |(position, entry): (usize, &Option<ListedAgent<'_>>)| match entry {
            Some(_) => ListEntry::Agent(self.health(thread, id, position, now)),
            None => ListEntry::Wait,
        };
        let list: Vec<ListEntry> = self.entries.iter().enumerate().map(entry).collect();
        next_in_list(&list, now, patience.saturating_sub(waited_for_limits(thread, id)))
    }

    /// Returns the choice of the entry at this position, to be recorded with its attempt.
    #[must_use]
    pub fn chosen(
        &self,
        thread: &ThreadTip<'_>,
        id: &CodonId,
        position: usize,
        now: Timestamp,
    ) -> Option<ChosenAgent> {
        let codon = &self.entry(position)?.codon;
        let auth = match &codon.agent {
            Some(AgentChoice::Acp(agent)) => agent.auth.clone(),
            _ => None,
        };
        let instead = || {
            let before = (0..position).filter(|before| self.entries[*before].is_some());
            let mut unable =
                before.filter_map(|before| Some((before, self.cause_of_failure(thread, id, before, now)?)));
            let (before, (cause, until)) = unable.next()?;
            let AgentNames { agent, script, model } = self.names(before)?;
            Some(InsteadOf {
                agent,
                script,
                model,
                cause,
                until,
            })
        };
        // An agent that continues in its session still replaces the agent that could not work when the session started.
        let as_before = || {
            let mut earlier = thread.attempts(id).filter_map(CodonExecution::chosen_agent);
            let of_entry = earlier.find(|chosen| usize::try_from(chosen.entry) == Ok(position));
            of_entry?.instead
        };
        let AgentNames { agent, script, model } = self.names(position)?;
        Some(ChosenAgent {
            entry: u32::try_from(position).ok()?,
            agent,
            script,
            model,
            auth,
            instead: (position > 0).then(|| instead().or_else(as_before)).flatten(),
        })
    }

    fn names(&self, position: usize) -> Option<AgentNames> {
        let codon = &self.entry(position)?.codon;
        Some(AgentNames {
            agent: codon.agent_name().to_owned(),
            script: codon
                .agent
                .as_ref()
                .and_then(AgentChoice::script)
                .map(str::to_owned),
            model: codon.model.clone(),
        })
    }

    /// Returns why the agent at this position cannot work, and when that ends, where known; `None` if it can work.
    fn cause_of_failure(
        &self,
        thread: &ThreadTip<'_>,
        id: &CodonId,
        position: usize,
        now: Timestamp,
    ) -> Option<(FallbackCause, Option<Timestamp>)> {
        match self.health(thread, id, position, now) {
            AgentHealth::Free => None,
            AgentHealth::Limited(until) => Some((FallbackCause::UsageLimit, Some(until))),
            AgentHealth::Failed(cause) => Some((cause, None)),
        }
    }

    fn newest_failure<'t>(&self, thread: &'t ThreadTip<'_>, id: &'t CodonId) -> Option<&'t Failed> {
        row_of_failures(thread, id).next()
    }

    /// Returns the position of the entry that made the newest attempt, if this entry also makes the next one. After a usage limit it does not. Otherwise it
    /// does after an interruption, a crash or a failure that is no reason to change the agent, and whenever the failure policy retries.
    fn continuing_entry(&self, thread: &ThreadTip<'_>, failed: &Failed) -> Option<usize> {
        let record = thread.newest()?.codon;
        let continues = match failed.failure_reason.retry_at {
            Some(_) => false,
            None => {
                failed.failure_reason.interrupted
                    || record.crashed()
                    || failed.failure_reason.fallback_cause().is_none()
                    || is_retried(self.hank, thread, failed)
            }
        };
        let position = usize::try_from(record.entry_of_agent()).ok()?;
        continues
            .then_some(position)
            .filter(|position| self.entry(*position).is_some())
    }

    /// Returns whether the agent at this position can work for the codon `id`: from usage limits in all runs, and from its failures in the newest run.
    fn health(&self, thread: &ThreadTip<'_>, id: &CodonId, position: usize, now: Timestamp) -> AgentHealth {
        let row = || row_of_failures(thread, id).filter(|failed| entry_of(failed) == position);
        let state: &HankweaveState = thread.state();
        let limits = state.runs.iter().flat_map(|run| &run.codons);
        let limits = limits.filter_map(|record| self.limit(record, position));
        // A provider may report one limit after another that ends soon. So from the second limit in a row on there is a least wait, which doubles with each.
        let times = row()
            .filter(|failed| failed.failure_reason.retry_at.is_some())
            .count();
        let least_wait = row()
            .find(|failed| failed.failure_reason.retry_at.is_some())
            .filter(|_| times > 1)
            .map(|newest| newest.end_time.after(doubled(times)));
        if let Some(until) = limits.chain(least_wait).max().filter(|until| *until > now) {
            return AgentHealth::Limited(until);
        }
        let is_unknown_model = |cause: &FallbackCause| *cause == FallbackCause::UnknownModel;
        // An outage of an earlier run may have ended: a user who starts another run wants to know.
        let in_run = || {
            state
                .runs
                .front()
                .into_iter()
                .flat_map(|run| run.codons.iter().rev())
        };
        // The failures of this agent with any codon of the run: a model that is unknown for one is unknown for all.
        let mut causes_of_agent = in_run()
            .filter(|record| self.is_of(record, position))
            .filter_map(|record| record.failure_reason()?.fallback_cause());
        let failed = in_run()
            .map_while(|record| failure_of(record, id))
            .filter(|failed| entry_of(failed) == position && failed.failure_reason.retry_at.is_none())
            .find_map(|failed| failed.failure_reason.fallback_cause());
        match failed.or_else(|| causes_of_agent.find(is_unknown_model)) {
            Some(cause) => AgentHealth::Failed(cause),
            None => AgentHealth::Free,
        }
    }

    /// Returns the end of the usage limit that this attempt met, if the agent at this position made it.
    fn limit(&self, record: &CodonExecution, position: usize) -> Option<Timestamp> {
        let until = record.failure_reason()?.retry_at?;
        self.is_of(record, position).then_some(until)
    }

    /// Returns whether the attempt was made with the agent, model and account of this position. The record has no values of variables, so these come from the
    /// hank.
    fn is_of(&self, record: &CodonExecution, position: usize) -> bool {
        let Some((other, own)) = agent_of(self.hank, record).zip(self.entry(position)) else {
            return false;
        };
        other.codon.has_agent_of(&own.codon)
    }
}

/// Returns the agent of an attempt, as the hank has it; `None` if the hank has changed since and has another agent in this position.
#[must_use]
pub fn agent_of<'h>(hank: &'h Hank, record: &CodonExecution) -> Option<ListedAgent<'h>> {
    let codon = hank.codon(record.codon_id().configured())?;
    let agent = match usize::try_from(record.entry_of_agent()).ok()? {
        0 => ListedAgent {
            codon: codon.clone(),
            written: None,
        },
        position => AgentList::of(hank, codon)?.entry(position)?.clone(),
    };
    let is_as_noted = record
        .chosen_agent()
        .is_none_or(|noted| noted.agent == agent.codon.agent_name() && noted.model == agent.codon.model);
    is_as_noted.then_some(agent)
}

/// Returns whether the failure policy has the failed agent attempt the codon again.
pub(super) fn is_retried(hank: &Hank, thread: &ThreadTip<'_>, failed: &Failed) -> bool {
    let config = hank.codon(failed.codon_id.configured());
    let retries = config.and_then(|config| config.retry_config).unwrap_or_default();
    config.is_some_and(|config| config.failure_policy() == OnFailure::Retry)
        && failed.failure_reason.retriable
        && failures_in_a_row(thread, &failed.codon_id) <= retries.retries()
}

/// The position that the failed attempt had in the list.
fn entry_of(failed: &Failed) -> usize {
    usize::try_from(failed.entry_of_agent()).unwrap_or(usize::MAX)
}

/// Returns the least wait after `times` limits in a row: 2 seconds after two, then twice as long each time.
fn doubled(times: usize) -> Duration {
    let exponent = u32::try_from(times).unwrap_or(u32::MAX).saturating_sub(1);
    Duration::from_secs(1 << exponent.min(30)).min(LONGEST_DOUBLED)
}

/// Returns the time that the codon has waited for limits before, without a success since: from each failure by a limit to the next attempt, at most until the
/// limit ended.
#[must_use]
pub fn waited_for_limits(thread: &ThreadTip<'_>, id: &CodonId) -> Duration {
    let newer = row_of_failures(thread, id);
    let older = newer.clone().skip(1);
    let gaps = newer.zip(older).filter_map(|(newer, older)| {
        let limit = older.failure_reason.retry_at?;
        let gap = newer.start_time.since(older.end_time);
        Some(gap.min(limit.since(older.end_time)))
    });
    // A run that continued at once with another agent has not waited.
    let gaps = gaps.filter(|gap| *gap >= SHORTEST_WAIT);
    gaps.fold(Duration::ZERO, Duration::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::AgentHealth::{Failed, Free, Limited};
    use super::ListEntry::{Agent, Wait};
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_millis(minutes * 60_000)
    }

    /// The list at minute 60 for a run that waits at most 30 minutes.
    fn next(list: &[ListEntry]) -> NextAgent {
        next_in_list(list, at(60), Duration::from_secs(30 * 60))
    }

    // covers: HANK-80
    #[test]
    fn the_first_that_is_free_works_and_a_wait_comes_first_where_it_is_short() {
        let limited = |minute| Agent(Limited(at(minute)));
        let out = Agent(Failed(FallbackCause::Outage));
        let free = Agent(Free);
        let table: &[(&[ListEntry], NextAgent)] = &[
            (&[free, free], NextAgent::Use(0)),
            (&[limited(80), free], NextAgent::Use(1)),
            // It has ended.
            (&[limited(60), free], NextAgent::Use(0)),
            (&[out, limited(80), free], NextAgent::Use(2)),
            (&[limited(80), Wait, free], NextAgent::Wait(0, at(80))),
            // That would be longer than the run may wait.
            (&[limited(91), Wait, free], NextAgent::Use(2)),
            (&[limited(90), Wait, free], NextAgent::Wait(0, at(90))),
            // Of the limits before the wait, the one that ends first.
            (
                &[limited(85), limited(75), Wait, free],
                NextAgent::Wait(1, at(75)),
            ),
            (&[limited(85), Wait, limited(75)], NextAgent::Wait(0, at(85))),
            // An outage has no known end.
            (&[out, Wait, free], NextAgent::Use(2)),
            (&[out, Wait], NextAgent::Exhausted),
            (&[out, out], NextAgent::Exhausted),
            // At the end it waits in any case, or pauses.
            (&[limited(500), limited(400)], NextAgent::Wait(1, at(400))),
            (&[limited(500), Wait, limited(400)], NextAgent::Wait(2, at(400))),
            (
                &[Agent(Failed(FallbackCause::UnknownModel)), limited(400)],
                NextAgent::Wait(1, at(400)),
            ),
        ];
        for (list, expected) in table {
            assert_eq!(next(list), *expected, "{list:?}");
        }
    }
}
