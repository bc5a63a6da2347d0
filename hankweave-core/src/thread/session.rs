//! Finds the session, the agent's own name for a conversation, that a codon continues (STATE-55).

use std::collections::{BTreeMap, HashMap};

use super::next::codon_to_resume;
use super::{ExecutionThread, ThreadTip};
use crate::codon::CodonExecution;
use crate::document::{HankweaveState, PlanEntry, SharedList};
use crate::id::{CodonId, SessionId};

/// The codons whose conversation a given codon continues.
#[derive(Debug, Clone, Copy)]
enum ConversationSource<'a> {
    /// The codon before the given one in the plan.
    Previous(&'a CodonId),
    /// Every iteration of the codon with this id in hank.json that the plan has in front of this position, that of the given codon.
    Forked(&'a str, usize),
}

impl ThreadTip<'_> {
    /// Returns the session that the codon `id` of the plan continues; `None` when it starts a new one or when there is no session to continue.
    #[must_use]
    pub fn continuation_session(&self, id: &CodonId) -> Option<&SessionId> {
        self.continued_attempts(id).find_map(resumable_session)
    }

    /// Returns the records of the codon whose conversation `id` continues, newest first: of the codon before it in the plan, or of all iterations of
    /// the codon that it forks.
    pub fn continued_attempts<'t>(&'t self, id: &CodonId) -> impl Iterator<Item = &'t CodonExecution> {
        // The history of a long night is not walked for a codon that continues no conversation.
        let source = self.source_of(id).into_iter();
        source.flat_map(move |source| {
            let codons = self.codons().map(|entry| entry.codon.as_ref());
            codons.filter(move |codon| self.is_of(source, codon.codon_id()))
        })
    }

    /// Returns the codons whose conversation `id` continues; `None` if it starts a new one.
    fn source_of(&self, id: &CodonId) -> Option<ConversationSource<'_>> {
        let plan = &self.state.execution_plan;
        let position = self.state.planned_at(id)?;
        let codon = &plan[position].codon;
        if let Some(forked) = codon.forked() {
            return Some(ConversationSource::Forked(forked, position));
        }
        let before = position.checked_sub(1).filter(|_| codon.continues_previous());
        Some(ConversationSource::Previous(&plan.get(before?)?.codon_id))
    }

    /// Whether `id` is one of the codons of `source`.
    fn is_of(&self, source: ConversationSource<'_>, id: &CodonId) -> bool {
        match source {
            ConversationSource::Previous(previous) => id == previous,
            ConversationSource::Forked(forked, position) => {
                let is_before = || self.state.planned_at(id).is_some_and(|at| at < position);
                id.configured() == forked && is_before()
            }
        }
    }

    /// The records of a codon, newest first.
    pub fn attempts<'t>(&'t self, id: &'t CodonId) -> impl Iterator<Item = &'t CodonExecution> {
        let codons = self.codons().map(|entry| entry.codon.as_ref());
        codons.filter(move |codon| codon.codon_id() == id)
    }
}

impl ExecutionThread {
    /// Returns the session to continue for every codon of `plan`, in one pass over the thread.
    #[must_use]
    pub fn continuation_sessions<'a>(
        &'a self,
        plan: &'a SharedList<PlanEntry>,
    ) -> BTreeMap<&'a CodonId, Option<&'a SessionId>> {
        // The newest session of each codon, with the age of its record in the thread.
        let mut newest = HashMap::new();
        for (age, codon) in self.codons.iter().map(|entry| entry.codon.as_ref()).enumerate() {
            if let Some(session) = resumable_session(codon) {
                newest.entry(codon.codon_id()).or_insert((age, session));
            }
        }
        let mut previous = None;
        // The newest session of each configured id in the plan up to the entry.
        let mut forkable: HashMap<&str, (usize, &SessionId)> = HashMap::new();
        let mut sessions = BTreeMap::new();
        for entry in plan.iter() {
            let codon = &entry.codon;
            let continued = previous.filter(|_| codon.continues_previous());
            let session = match codon.forked() {
                Some(forked) => forkable.get(forked).copied(),
                None => continued,
            };
            sessions.insert(&entry.codon_id, session.map(|(_, session)| session));
            previous = newest.get(&entry.codon_id).copied();
            if let Some(own) = previous {
                let known = forkable.entry(entry.codon_id.configured()).or_insert(own);
                *known = own.min(*known);
            }
        }
        sessions
    }
}

/// Returns the session in which the codon `id` continues where it was interrupted, if the newest run was opened for that and has started no codon yet.
#[must_use]
pub fn resumed_session<'a>(state: &'a HankweaveState, id: &CodonId) -> Option<&'a SessionId> {
    let run = state
        .runs
        .front()
        .filter(|run| codon_to_resume(run) == Some(id))?;
    run.starting_conditions.resumed_session()
}

/// Returns the session of a codon that completed, or that was skipped after a message of the agent; another session cannot be continued.
fn resumable_session(codon: &CodonExecution) -> Option<&SessionId> {
    match codon {
        CodonExecution::Completed(codon) => Some(&codon.agent_session_id),
        CodonExecution::Skipped(codon) if codon.assistant_message_count.is_some_and(|count| count > 0) => {
            codon.agent_session_id.as_ref()
        }
        _ => None,
    }
}
