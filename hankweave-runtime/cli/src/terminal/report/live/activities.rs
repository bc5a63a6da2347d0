//! Lengthy activities in one line, such as a checkpoint or a wait, with their progress or duration (CLI-36).

use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_core::view::CurrentActivity;
use hankweave_core::wire::ProgressKind;
use hankweave_runtime::checkpoint::Counts;

use crate::terminal::report::words::duration;

/// Returns the activity of a restore of files.
pub(super) fn restore(since: Timestamp, counts: Counts) -> CurrentActivity {
    let number = |count: usize| u64::try_from(count).ok();
    CurrentActivity {
        kind: ProgressKind::Restore,
        subject: None,
        done: number(counts.done),
        total: number(counts.total),
        since,
        to: None,
    }
}

/// Returns one line about an activity at `now`; a bar takes `width` characters.
pub(super) fn words(activity: &CurrentActivity, now: Timestamp, width: usize) -> String {
    let left = activity.to.map(|to| duration(to.since(now)));
    let left = left.as_deref().unwrap_or("a while");
    let subject = activity.subject.as_deref();
    match activity.kind {
        ProgressKind::Checkpoint => format!("checkpoint {}", files(activity, width)),
        ProgressKind::Restore => format!("restoring {}", files(activity, width)),
        ProgressKind::Rig => {
            let what = match (activity.done, activity.total) {
                (Some(done), Some(total)) => format!("rig {} of {total}", done + 1),
                _ => "check".to_owned(),
            };
            let time = duration(now.since(activity.since));
            format!("{what}, {time}: {}", subject.unwrap_or_default())
        }
        ProgressKind::Retry => {
            let why = subject.map_or(String::new(), |why| format!(" after {why}"));
            format!("the agent asks again in {left}{why}{}", retries(activity))
        }
        ProgressKind::Background => {
            let what = subject.map_or("what it left running".to_owned(), str::to_owned);
            format!("waits for background work, at most {left}: {what}")
        }
        ProgressKind::Wait if subject.is_some() => format!("the usage limit ends in {left}"),
        ProgressKind::Wait => format!("tried again in {left}{}", retries(activity)),
        _ => subject.unwrap_or("at work").to_owned(),
    }
}

/// Returns ` (retry 2 of 10)`.
fn retries(activity: &CurrentActivity) -> String {
    match (activity.done, activity.total) {
        (Some(number), Some(most)) => format!(" (retry {number} of {most})"),
        (Some(number), None) => format!(" (retry {number})"),
        (None, _) => String::new(),
    }
}

/// Returns `━━━━━━╸───── 1200 of 5000 files`.
fn files(activity: &CurrentActivity, width: usize) -> String {
    let (done, total) = (
        activity.done.unwrap_or_default(),
        activity.total.unwrap_or_default(),
    );
    bar(done, total, width) + &format!(" {done} of {total} files")
}

/// Whether a wait has ended at `now`.
pub(super) fn is_over(activity: &CurrentActivity, now: Timestamp) -> bool {
    activity.to.is_some_and(|to| to.since(now) == Duration::ZERO)
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
    ) -> CurrentActivity {
        CurrentActivity {
            kind,
            subject: subject.map(str::to_owned),
            done: Some(counts.0),
            total: Some(counts.1),
            since: at(0),
            to: until.map(at),
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
        let words = |activity: CurrentActivity| words(&activity, now, 4);
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
            "rig 2 of 3, 12s: npm ci"
        );
        assert_eq!(
            words(doing(
                ProgressKind::Retry,
                Some("overloaded"),
                (2, 10),
                Some(15_000)
            )),
            "the agent asks again in 3s after overloaded (retry 2 of 10)"
        );
        assert_eq!(
            words(doing(ProgressKind::Wait, None, (1, 3), Some(12_400))),
            "tried again in 0.4s (retry 1 of 3)"
        );
        let background = |subject| CurrentActivity {
            done: None,
            ..doing(ProgressKind::Background, subject, (0, 0), Some(72_000))
        };
        assert_eq!(
            words(background(Some("cargo test, npm test"))),
            "waits for background work, at most 1m0s: cargo test, npm test"
        );
        assert_eq!(
            words(background(None)),
            "waits for background work, at most 1m0s: what it left running"
        );
        assert_eq!(
            words(CurrentActivity::limit(at(0), at(72_000))),
            "the usage limit ends in 1m0s"
        );
        let limit = |end| CurrentActivity::limit(at(0), at(end));
        assert!(is_over(&limit(5), now) && !is_over(&limit(13_000), now));
    }
}
