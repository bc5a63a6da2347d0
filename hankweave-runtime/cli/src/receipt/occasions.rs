//! Section "What happened" of a report: occasions from the journal, waits, and the answers and steps of users that only a task has, in the order of their
//! times.

use std::time::Duration;

use hankweave_core::id::CodonId;
use hankweave_core::time::{SHORTEST_WAIT, short_duration};
use hankweave_core::view::WaitKind;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};

use super::from_journal::{JournalFacts, Occasion, after_words, millis};
use crate::owning_task::{GateAnswer, OwningTask};
use crate::status::StatusView;

/// Returns all occasions in their order.
pub(super) fn all_occasions(facts: JournalFacts, status: &StatusView<'_>) -> Vec<Occasion> {
    let now = SystemClock.now();
    let waits = facts.waits().filter(|wait| wait.kind != WaitKind::Approval);
    let waits = waits.filter_map(|wait| {
        let codon = wait.codon.as_ref().map(CodonId::as_str);
        let who = codon.or(wait.item.as_deref()).unwrap_or("the run");
        let lasts = status.live && wait.to.is_none_or(|to| to > now);
        let length = wait.to.map(|to| to.since(wait.from)).filter(|_| !lasts);
        // A wait that a fallback or the end of the run has ended at once is no wait.
        let is_for_clock = matches!(wait.kind, WaitKind::Limit | WaitKind::Retry);
        if is_for_clock && length.is_some_and(|length| length < SHORTEST_WAIT) {
            return None;
        }
        let what = match wait.kind {
            WaitKind::Limit => "for the end of a usage limit",
            WaitKind::Background => "for background work",
            // A suspended run has words of its own below; approvals are left out above.
            WaitKind::Suspended | WaitKind::Retry | WaitKind::Approval => "before another attempt",
        };
        let words = match (wait.kind, length, wait.to) {
            (WaitKind::Suspended, Some(length), _) => format!("was suspended for {}", short_duration(length)),
            (WaitKind::Suspended, None, _) => "is suspended".to_owned(),
            (_, Some(length), _) => format!("waited {} {what}", short_duration(length)),
            (_, None, Some(to)) => format!("waits {what} until {to}"),
            (_, None, None) => format!("waits {what}"),
        };
        let why = wait.why.as_deref();
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        Some(Occasion {
            at: wait.from,
            what: format!("{who} {words}{why}"),
            command: None,
            is_answer: false,
            waited_ms: length.map(millis),
        })
    });
    let mut occasions: Vec<Occasion> = waits.collect();
    occasions.extend(facts.occasions);
    occasions.extend(answers_of_task(status));
    let steps = status
        .task
        .as_ref()
        .map_or_else(Vec::new, OwningTask::steps_of_users);
    occasions.extend(steps.into_iter().map(|(at, what)| Occasion {
        at,
        what,
        command: None,
        is_answer: false,
        waited_ms: None,
    }));
    occasions.sort_by_key(|occasion| occasion.at);
    occasions
}

/// Returns the answers of users that only the registry and the log of a task have: its denials, and an approval that no run has seen.
fn answers_of_task(status: &StatusView<'_>) -> Vec<Occasion> {
    let denials = status.task.as_ref().map_or_else(Vec::new, OwningTask::denials);
    let approval = status.answer().filter(|answer| answer.approval.granted);
    let answers = denials.into_iter().chain(approval.map(|answer| (answer, None)));
    let occasion = |(GateAnswer { approval, at }, waited): (GateAnswer, Option<Duration>)| {
        Some(Occasion {
            at: at?,
            what: format!(
                "{}: {}{}",
                approval.codon_id,
                approval.sentence(),
                after_words(waited)
            ),
            command: None,
            is_answer: true,
            waited_ms: waited.map(millis),
        })
    };
    answers.filter_map(occasion).collect()
}
