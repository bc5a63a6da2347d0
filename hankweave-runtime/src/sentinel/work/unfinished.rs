//! Report of the work that a sentinel has left unfinished, with the reasons (SENT-13, SENT-20).

use std::collections::BTreeMap;

/// Kind of work that a sentinel has left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnfinishedKind {
    /// A question that was not asked: of a model, or of a command that costs something.
    Question,
    /// A question that was asked and has no answer.
    Answer,
    /// A run of a command that costs nothing, whether it was not begun or cut short.
    Action,
}

/// Work that a sentinel has left unfinished since the last report.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    by_reason: BTreeMap<&'static str, UnfinishedCounts>,
}

#[derive(Debug, Default)]
struct UnfinishedCounts {
    questions: usize,
    answers: usize,
    actions: usize,
}

impl Unfinished {
    pub(super) fn add(&mut self, kind: UnfinishedKind, count: usize, reason: &'static str) {
        let counts = self.by_reason.entry(reason).or_default();
        match kind {
            UnfinishedKind::Question => counts.questions += count,
            UnfinishedKind::Answer => counts.answers += count,
            UnfinishedKind::Action => counts.actions += count,
        }
    }

    /// Returns a sentence for each reason, such as `7 questions were not asked, because the budget is used up`, and starts anew.
    pub(super) fn take(&mut self) -> Vec<String> {
        let by_reason = std::mem::take(&mut self.by_reason);
        let sentences = by_reason
            .into_iter()
            .filter_map(|(reason, counts)| Some(format!("{}, because {reason}", counts.in_words()?)));
        sentences.collect()
    }
}

impl UnfinishedCounts {
    /// Returns the counts in words; `None` when all are zero.
    fn in_words(&self) -> Option<String> {
        let actions = match self.actions {
            0 => None,
            1 => Some("it did not act once more".to_owned()),
            more => Some(format!("it did not act {more} more times")),
        };
        let questions = match self.questions {
            0 => None,
            1 => Some("1 question was not asked".to_owned()),
            more => Some(format!("{more} questions were not asked")),
        };
        let answers = match (self.answers, self.questions) {
            (0, _) => None,
            (1, 0) => Some("1 question got no answer".to_owned()),
            (more, 0) => Some(format!("{more} questions got no answer")),
            (more, _) => Some(format!("{more} got no answer")),
        };
        let parts: Vec<String> = [actions, questions, answers].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::UnfinishedKind::{Action, Answer, Question};
    use super::*;

    // covers: SENT-13, SENT-20
    #[test]
    fn what_is_left_undone_is_said_in_words_with_each_reason() {
        let said = |works: &[(UnfinishedKind, usize)]| {
            let mut unfinished = Unfinished::default();
            for (kind, count) in works {
                unfinished.add(*kind, *count, "it rains");
            }
            unfinished.take()
        };
        assert_eq!(said(&[(Question, 0), (Answer, 0), (Action, 0)]), [""; 0]);
        for (works, words) in [
            (&[(Question, 1)][..], "1 question was not asked"),
            (&[(Question, 3), (Question, 4)], "7 questions were not asked"),
            (&[(Answer, 1)], "1 question got no answer"),
            (
                &[(Question, 2), (Answer, 1)],
                "2 questions were not asked and 1 got no answer",
            ),
            (&[(Action, 1)], "it did not act once more"),
            (&[(Action, 2)], "it did not act 2 more times"),
            (
                &[(Action, 1), (Question, 1)],
                "it did not act once more and 1 question was not asked",
            ),
        ] {
            assert_eq!(said(works), [format!("{words}, because it rains")]);
        }
        let mut unfinished = Unfinished::default();
        unfinished.add(Question, 1, "the sun shines");
        unfinished.add(Question, 2, "it rains");
        let both = [
            "2 questions were not asked, because it rains",
            "1 question was not asked, because the sun shines",
        ];
        assert_eq!(unfinished.take(), both);
        assert_eq!(unfinished.take(), [""; 0], "it is said once");
    }
}
