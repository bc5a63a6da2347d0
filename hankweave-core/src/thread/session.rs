//! Which conversation a codon continues (STATE-55).

use std::collections::{BTreeMap, HashMap};

use super::next::taken_up;
use super::{ExecutionThread, ThreadTip};
use crate::codon::CodonExecution;
use crate::document::{HankweaveState, PlanEntry, SharedList};
use crate::id::{CodonId, SessionId};

impl ThreadTip<'_> {
    /// The session that the codon `id` of the plan resumes; `None` when it begins a new one or when there is
    /// nothing to resume.
    #[must_use]
    pub fn continuation_session(&self, id: &CodonId) -> Option<&SessionId> {
        let mut attempts = self.attempts(self.continued(id)?);
        attempts.find_map(resumable_session)
    }

    /// The codon before `id` in the plan, if `id` continues the conversation of that one.
    #[must_use]
    pub fn continued(&self, id: &CodonId) -> Option<&CodonId> {
        let plan = &self.state.execution_plan;
        let position = self.state.planned_at(id)?;
        let continues = plan[position].codon.continues_previous();
        Some(&plan.get(position.checked_sub(1).filter(|_| continues)?)?.codon_id)
    }

    /// The records of a codon, newest first.
    pub fn attempts<'t>(&'t self, id: &'t CodonId) -> impl Iterator<Item = &'t CodonExecution> {
        let codons = self.codons().map(|entry| entry.codon.as_ref());
        codons.filter(move |codon| codon.codon_id() == id)
    }
}

impl ExecutionThread {
    /// Returns the session to resume for every codon of `plan`, in one pass over the thread.
    #[must_use]
    pub fn continuation_sessions<'a>(
        &'a self,
        plan: &'a SharedList<PlanEntry>,
    ) -> BTreeMap<&'a CodonId, Option<&'a SessionId>> {
        let mut newest = HashMap::new();
        for codon in self.codons.iter().map(|entry| entry.codon.as_ref()) {
            if let Some(session) = resumable_session(codon) {
                newest.entry(codon.codon_id()).or_insert(session);
            }
        }
        let previous = std::iter::once(None).chain(plan.iter().map(|entry| Some(&entry.codon_id)));
        let session = |(entry, previous): (&'a PlanEntry, Option<&CodonId>)| {
            let previous = previous.filter(|_| entry.codon.continues_previous());
            (&entry.codon_id, previous.and_then(|id| newest.get(id).copied()))
        };
        plan.iter().zip(previous).map(session).collect()
    }
}

/// The session in which the codon `id` continues where it was interrupted: the newest run was opened for
/// that, and nothing has run in it yet.
#[must_use]
pub fn resumed_session<'a>(state: &'a HankweaveState, id: &CodonId) -> Option<&'a SessionId> {
    let run = state.runs.front().filter(|run| taken_up(run) == Some(id))?;
    run.starting_conditions.resumed_session()
}

/// A session can be resumed when its codon completed, or was skipped after a message of the agent.
fn resumable_session(codon: &CodonExecution) -> Option<&SessionId> {
    match codon {
        CodonExecution::Completed(codon) => Some(&codon.agent_session_id),
        CodonExecution::Skipped(codon) if codon.assistant_message_count.is_some_and(|count| count > 0) => {
            codon.agent_session_id.as_ref()
        }
        _ => None,
    }
}
