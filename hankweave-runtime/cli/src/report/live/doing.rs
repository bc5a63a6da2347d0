//! Lengthy activities, with their progress or duration (CLI-36).

use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_core::wire::ProgressKind;
use hankweave_runtime::checkpoint::Counts;

use crate::report::words::duration;

/// Last report of a lengthy activity.
#[derive(Debug, Clone)]
pub(super) struct LongOperation {
    pub(super) kind: ProgressKind,
    pub(super) subject: Option<String>,
    pub(super) done: Option<u64>,
    pub(super) total: Option<u64>,
    /// When it began.
    pub(super) since: Timestamp,
    /// When a wait ends.
    pub(super) until: Option<Timestamp>,
}

impl LongOperation {
    /// The wait for the end of a usage limit.
    pub(super) fn limit(since: Timestamp, until: Timestamp) -> Self {
        Self {
            kind: ProgressKind::Wait,
            subject: Some("usage limit".to_owned()),
            done: None,
            total: None,
            since,
            until: Some(until),
        }
    }

    /// Files that are taken back.
    pub(super) fn restore(since: Timestamp, counts: Counts) -> Self {
        let number = |count: usize| u64::try_from(count).ok();
        Self {
            kind: ProgressKind::Restore,
            subject: None,
            done: number(counts.done),
            total: number(counts.total),
            since,
            until: None,
        }
    }

    /// One line about it at `now`; a bar takes `width` characters.
    pub(super) fn words(&self, now: Timestamp, width: usize) -> String {
        let left = self.until.map(|until| duration(until.since(now)));
        let left = left.as_deref().unwrap_or("a while");
        let subject = self.subject.as_deref();
        match self.kind {
            ProgressKind::Checkpoint => format!("checkpoint {}", self.bar(width)),
            ProgressKind::Restore => format!("restoring {}", self.bar(width)),
            ProgressKind::Rig => {
                let number = self.done.map_or(1, |done| done + 1);
                let most = self.total.map_or(String::new(), |total| format!(" of {total}"));
                let time = duration(now.since(self.since));
                format!("rig {number}{most}, {time}: {}", subject.unwrap_or_default())
            }
            ProgressKind::Retry => {
                let why = subject.map_or(String::new(), |why| format!(" after {why}"));
                format!("the agent asks again in {left}{why}{}", self.tries())
            }
            ProgressKind::Wait if subject.is_some() => format!("the usage limit ends in {left}"),
            ProgressKind::Wait => format!("tried again in {left}{}", self.tries()),
        }
    }

    /// ` (retry 2 of 10)`
    fn tries(&self) -> String {
        match (self.done, self.total) {
            (Some(number), Some(most)) => format!(" (retry {number} of {most})"),
            (Some(number), None) => format!(" (retry {number})"),
            (None, _) => String::new(),
        }
    }

    /// `━━━━━━╸───── 1200 of 5000 files`
    fn bar(&self, width: usize) -> String {
        let (done, total) = (self.done.unwrap_or_default(), self.total.unwrap_or_default());
        bar(done, total, width) + &format!(" {done} of {total} files")
    }

    /// Whether it is a wait that `now` is the end of.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until.since(now) == Duration::ZERO)
    }
}

fn bar(done: u64, total: u64, width: usize) -> String {
    let halves = u64::try_from(width * 2).unwrap_or(u64::MAX);
    let filled = done.min(total).saturating_mul(halves).checked_div(total);
    let filled = filled
        .and_then(|filled| usize::try_from(filled).ok())
        .unwrap_or(0);
    let (whole, half) = (filled / 2, filled % 2);
    "━".repeat(whole) + &"╸".repeat(half) + &"─".repeat(width - whole - half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn doing(
        kind: ProgressKind,
        subject: Option<&str>,
        counts: (u64, u64),
        until: Option<i64>,
    ) -> LongOperation {
        LongOperation {
            kind,
            subject: subject.map(str::to_owned),
            done: Some(counts.0),
            total: Some(counts.1),
            since: at(0),
            until: until.map(at),
        }
    }

    #[test]
    fn a_bar_is_as_full_as_the_work_is_done() {
        let full = |done| bar(done, 8, 4);
        assert_eq!(
            [0, 1, 4, 8, 9].map(full),
            ["────", "╸───", "━━──", "━━━━", "━━━━"]
        );
        assert_eq!(bar(0, 0, 3), "───");
    }

    #[test]
    fn every_wait_says_how_long_it_lasts_or_how_far_it_is() {
        let now = at(12_000);
        let words = |doing: LongOperation| doing.words(now, 4);
        assert_eq!(
            words(doing(ProgressKind::Checkpoint, None, (2, 4), None)),
            "checkpoint ━━── 2 of 4 files"
        );
        assert_eq!(
            words(doing(ProgressKind::Restore, None, (4, 4), None)),
            "restoring ━━━━ 4 of 4 files"
        );
        assert_eq!(
            words(doing(ProgressKind::Rig, Some("npm ci"), (1, 3), None)),
            "rig 2 of 3, 12 s: npm ci"
        );
        assert_eq!(
            words(doing(
                ProgressKind::Retry,
                Some("overloaded"),
                (2, 10),
                Some(15_000)
            )),
            "the agent asks again in 3.0 s after overloaded (retry 2 of 10)"
        );
        assert_eq!(
            words(doing(ProgressKind::Wait, None, (1, 3), Some(12_400))),
            "tried again in 0.4 s (retry 1 of 3)"
        );
        assert_eq!(
            words(LongOperation::limit(at(0), at(72_000))),
            "the usage limit ends in 1 min 0 s"
        );
        assert!(
            LongOperation::limit(at(0), at(5)).is_over(now)
                && !LongOperation::limit(at(0), at(13_000)).is_over(now)
        );
    }
}
