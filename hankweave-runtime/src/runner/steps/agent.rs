//! Choice of the agent that runs a codon, and what it continues (HANK-80, HANK-81).

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
    /// Note for the record; `None` where the codon has no fallbacks.
    pub(super) chosen: Option<ChosenAgent>,
    /// Whether it stands in for the agent of the attempt before, or for the codon's own.
    pub(super) falls_back: bool,
}

/// Chooses the agent of a codon that begins now.
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
        NextAgent::Use(position) | NextAgent::Wait(position, _) => position,
        NextAgent::Exhausted => 0,
    };
    let Some(agent) = list.entry(position).cloned() else {
        return own;
    };
    let chosen = list.chosen(thread, id, position, now);
    let before = attempts_in_a_row(thread, id)
        .next()
        .map(CodonExecution::entry_of_agent);
    let entry = chosen.as_ref().map(|chosen| chosen.entry);
    AgentOfCodon {
        config: Cow::Owned(resolved(agent, &context.world.environment)),
        falls_back: position > 0 && before != entry,
        chosen,
    }
}

/// Returns the wait that is left before a codon runs again; `None` when another agent of its list can begin at once.
pub(super) fn wait_left<'r>(
    context: &RunContext,
    thread: &ThreadTip<'_>,
    retry: &'r Retry,
) -> Option<Cow<'r, Retry>> {
    let id = &retry.entry.codon_id;
    let config = context.hank.codon(id.configured());
    let list = config.and_then(|config| AgentList::of(&context.hank, config));
    let Some(list) = list.filter(|_| retry.falls_back || retry.limit.is_some()) else {
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

/// Returns the session of the newest attempt, which failed and which another model of the same agent takes over.
pub(super) fn failed_session<'t>(
    thread: &'t ThreadTip<'_>,
    agent: &AgentOfCodon<'_>,
    id: &CodonId,
) -> Option<&'t SessionId> {
    agent.chosen.as_ref().filter(|_| agent.falls_back)?;
    let newest = thread.newest()?.codon;
    let is_its = newest.codon_id() == id && newest.status() == CodonStatus::Failed;
    newest.agent_session_id().filter(|_| is_its)
}

/// Whether the agent can continue a session: that of an attempt of its own, or of another model or account of the same agent in which something was
/// done. Sessions that no record has are those of the codon's own agent.
pub(super) fn can_resume(
    context: &RunContext,
    state: &HankweaveState,
    agent: &AgentOfCodon<'_>,
    id: &CodonId,
    session: &SessionId,
) -> bool {
    let records = state.runs.iter().flat_map(|run| run.codons.iter().rev());
    let mut records = records.filter(|record| record.agent_session_id() == Some(session));
    let Some(record) = records.next() else {
        return true;
    };
    let entry = agent.chosen.as_ref().map_or(0, |chosen| chosen.entry);
    let is_its_own = record.codon_id() == id && record.entry_of_agent() == entry;
    if is_its_own || (agent.chosen.is_none() && record.chosen_agent().is_none()) {
        return true;
    }
    let did_something = record.agent_tokens() != TokenUsage::ZERO;
    let before = agent_of(&context.hank, record);
    let before = before.map(|before| resolved(before, &context.world.environment));
    did_something && before.is_some_and(|before| shares_sessions(&before, &agent.config))
}

/// Returns the work of another agent that a codon takes over without its session: earlier attempts of the codon, or the conversation that it continues.
pub(super) fn earlier_work(
    context: &RunContext,
    thread: &ThreadTip<'_>,
    id: &CodonId,
    agent: &AgentOfCodon<'_>,
    left: Option<&SessionId>,
) -> Option<EarlierWork> {
    let entry = agent.chosen.as_ref().map_or(0, |chosen| chosen.entry);
    let row: Vec<&CodonExecution> = attempts_in_a_row(thread, id).collect();
    let of_other = row.iter().position(|attempt| attempt.entry_of_agent() != entry);
    if let Some((at, oldest)) = of_other.zip(row.last()) {
        // What this agent has done itself since is none of it.
        let own = at.checked_sub(1).and_then(|next| row.get(next));
        let until = own.map(|own| *own.start_time());
        return work_of(context, row[at], (*oldest.start_time(), until), None);
    }
    let of_session = thread
        .continued_attempts(id)
        .find(|attempt| attempt.agent_session_id() == left);
    let newest = of_session.filter(|_| left.is_some())?;
    let config = context.hank.codon(newest.codon_id().configured())?;
    let since = *newest.start_time();
    work_of(context, newest, (since, None), Some(prompt_of(context, config)?))
}

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

/// The failed attempts of the codon since it last did something else, newest first.
fn attempts_in_a_row<'t>(
    thread: &'t ThreadTip<'_>,
    id: &'t CodonId,
) -> impl Iterator<Item = &'t CodonExecution> + Clone {
    let codons = thread.codons().map(|entry| entry.codon.as_ref());
    codons.take_while(move |codon| codon.codon_id() == id && codon.status() == CodonStatus::Failed)
}
