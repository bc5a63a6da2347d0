//! Chooses the agent that runs a codon out of the codon's list of fallbacks, and finds the session or the work of another agent that it continues
//! (HANK-80, HANK-81).

use std::borrow::Cow;

use hankweave_core::codon::{ChosenAgent, CodonExecution, CodonStatus};
use hankweave_core::cost::TokenUsage;
use hankweave_core::document::HankweaveState;
use hankweave_core::hank::CodonConfig;
use hankweave_core::id::{CodonId, SessionId};
use hankweave_core::plan::{AgentList, NextAgent, Retry, UsageLimit, agent_of, waited_for_limits};
use hankweave_core::thread::ThreadTip;
use hankweave_core::time::Timestamp;

use crate::codon::{EarlierWork, RunContext, prompt_of};
use crate::fallback::{resolved, shares_sessions};

/// Agent that runs a codon.
pub(super) struct AgentOfCodon<'c> {
    /// The codon as this agent runs it.
    pub(super) config: Cow<'c, CodonConfig>,
    /// The agent as the record names it; `None` if the codon has no fallbacks.
    pub(super) chosen: Option<ChosenAgent>,
    /// Whether a fallback takes over that was not the agent of the attempt before.
    pub(super) falls_back: bool,
}

/// Returns the agent of a codon that starts now.
pub(super) fn choose_agent<'c>(
    context: &'c RunContext,
    thread: &ThreadTip<'_>,
    id: &CodonId,
    config: &'c CodonConfig,
) -> AgentOfCodon<'c> {
    let own = AgentOfCodon {
        config: Cow::Borrowed(config),
        chosen: None,
        falls_back: false,
    };
    let Some(list) = AgentList::of(&context.hank, config) else {
        return own;
    };
    let now = context.world.clock.now();
    let position = match list.next(thread, id, now, context.options.max_wait) {
        // No wait here: the run has waited for the agent's usage limit already, or a command has cut that wait short.
        NextAgent::Use(position) | NextAgent::Wait(position, _) => position,
        // A user or the codon's policy starts the codon although no agent is left: with its own agent, as without a list.
        NextAgent::Exhausted => 0,
    };
    let Some(agent) = list.entry(position).cloned() else {
        return own;
    };
    let chosen = list.chosen(thread, id, position, now);
    let previous_entry = failed_attempts_in_a_row(thread, id)
        .next()
        .map(CodonExecution::entry_of_agent);
    let entry = chosen.as_ref().map(|chosen| chosen.entry);
    AgentOfCodon {
        config: Cow::Owned(resolved(agent, &context.world.environment)),
        falls_back: position > 0 && previous_entry != entry,
        chosen,
    }
}

/// Returns the wait before a codon is retried; `None` if an agent of its list can start at once.
pub(super) fn wait_left<'r>(
    context: &RunContext,
    thread: &ThreadTip<'_>,
    retry: &'r Retry,
) -> Option<Cow<'r, Retry>> {
    let id = &retry.entry.codon_id;
    let config = context.hank.codon(id.configured());
    let list = config.and_then(|config| AgentList::of(&context.hank, config));
    let may_change_agent = retry.falls_back || retry.limit.is_some();
    let (Some(list), true) = (list, may_change_agent) else {
        return Some(Cow::Borrowed(retry));
    };
    match list.next(thread, id, context.world.clock.now(), context.options.max_wait) {
        NextAgent::Use(_) => None,
        NextAgent::Wait(_, ends_at) => {
            let waited = waited_for_limits(thread, id);
            Some(Cow::Owned(Retry {
                limit: Some(UsageLimit { ends_at, waited }),
                ..retry.clone()
            }))
        }
        NextAgent::Exhausted => Some(Cow::Borrowed(retry)),
    }
}

/// Returns the session of the newest attempt if that attempt failed and a fallback takes over. [`can_resume`] decides whether the
/// fallback can continue the session.
pub(super) fn failed_session<'t>(
    thread: &'t ThreadTip<'_>,
    agent: &AgentOfCodon<'_>,
    id: &CodonId,
) -> Option<&'t SessionId> {
    if agent.chosen.is_none() || !agent.falls_back {
        return None;
    }
    let newest = thread.newest()?.codon;
    let has_failed = newest.codon_id() == id && newest.status() == CodonStatus::Failed;
    if has_failed {
        newest.agent_session_id()
    } else {
        None
    }
}

/// Whether the agent can continue a session: one that it started itself, or one of the same program with another model or account,
/// in which tokens were used (HANK-81). A session without a record is tried, since nothing says that another agent started it.
pub(super) fn can_resume(
    context: &RunContext,
    state: &HankweaveState,
    agent: &AgentOfCodon<'_>,
    id: &CodonId,
    session: &SessionId,
) -> bool {
    let records = state.runs.iter().flat_map(|run| run.codons.iter().rev());
    let mut of_session = records.filter(|record| record.agent_session_id() == Some(session));
    let Some(record) = of_session.next() else {
        return true;
    };
    let is_its_own = record.codon_id() == id && record.entry_of_agent() == entry_of(agent);
    // If neither codon has fallbacks, the check of the hank has made sure that they have the same agent.
    let has_no_fallbacks = agent.chosen.is_none() && record.chosen_agent().is_none();
    if is_its_own || has_no_fallbacks {
        return true;
    }
    if record.agent_tokens() == TokenUsage::ZERO {
        return false;
    }
    agent_of(&context.hank, record).is_some_and(|previous| {
        let previous = resolved(previous, &context.world.environment);
        shares_sessions(&previous, &agent.config)
    })
}

/// Returns the work of another agent that a codon takes over without the session, for a summary in the prompt: earlier attempts of the codon, or else the
/// conversation in `left`, the session that the codon would continue if its agent could.
pub(super) fn earlier_work(
    context: &RunContext,
    thread: &ThreadTip<'_>,
    id: &CodonId,
    agent: &AgentOfCodon<'_>,
    left: Option<&SessionId>,
) -> Option<EarlierWork> {
    let attempts: Vec<&CodonExecution> = failed_attempts_in_a_row(thread, id).collect();
    let entry = entry_of(agent);
    match attempts
        .iter()
        .position(|attempt| attempt.entry_of_agent() != entry)
    {
        Some(newest_of_other) => work_of_attempts(context, &attempts, newest_of_other),
        None => work_of_conversation(context, thread, id, left?),
    }
}

/// Returns the work from the oldest attempt to `attempts[newest_of_other]`, the newest one of another agent; `attempts` has the newest first.
fn work_of_attempts(
    context: &RunContext,
    attempts: &[&CodonExecution],
    newest_of_other: usize,
) -> Option<EarlierWork> {
    let oldest = attempts.last()?;
    // Later attempts are of the agent that takes over, so it needs no summary of them.
    let next_own = newest_of_other.checked_sub(1).map(|next| attempts[next]);
    let until = next_own.map(|own| *own.start_time());
    work_of(
        context,
        attempts[newest_of_other],
        (*oldest.start_time(), until),
        None,
    )
}

/// Returns the work of the newest attempt in this session, which the codon `id` continues.
fn work_of_conversation(
    context: &RunContext,
    thread: &ThreadTip<'_>,
    id: &CodonId,
    session: &SessionId,
) -> Option<EarlierWork> {
    let newest = thread
        .continued_attempts(id)
        .find(|attempt| attempt.agent_session_id() == Some(session))?;
    let config = context.hank.codon(newest.codon_id().configured())?;
    let task = prompt_of(context, config)?;
    work_of(context, newest, (*newest.start_time(), None), Some(task))
}

/// Returns the work between two times, whose last attempt is `newest`. `task` is `None` if the codon that continues has the same task.
fn work_of(
    context: &RunContext,
    newest: &CodonExecution,
    (since, until): (Timestamp, Option<Timestamp>),
    task: Option<String>,
) -> Option<EarlierWork> {
    let agent = match newest.chosen_agent() {
        Some(chosen) => (chosen.agent, chosen.model),
        None => {
            let config = context.hank.codon(newest.codon_id().configured())?;
            (config.agent_name().to_owned(), config.model.clone())
        }
    };
    Some(EarlierWork {
        codon: newest.codon_id().clone(),
        since,
        until,
        agent,
        task,
        failure: newest.failure_reason().and_then(|reason| reason.message.clone()),
    })
}

/// Returns the position of an agent in the list of its codon; 0 is the codon's own.
fn entry_of(agent: &AgentOfCodon<'_>) -> u32 {
    agent.chosen.as_ref().map_or(0, |chosen| chosen.entry)
}

/// Returns the newest attempts of the thread as long as they are failed attempts of this codon, newest first.
fn failed_attempts_in_a_row<'t>(
    thread: &'t ThreadTip<'_>,
    id: &'t CodonId,
) -> impl Iterator<Item = &'t CodonExecution> {
    let codons = thread.codons().map(|entry| entry.codon.as_ref());
    codons.take_while(move |codon| codon.codon_id() == id && codon.status() == CodonStatus::Failed)
}
