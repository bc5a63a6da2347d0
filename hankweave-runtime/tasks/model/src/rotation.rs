//! Which checkpoints of a task are kept (TASK-46).

use std::collections::BTreeSet;

use crate::checkpoint::CheckpointId;

const DAY: u64 = 24 * 60 * 60 * 1000;

/// The first Monday after 1970-01-01, in days: weeks begin with it.
const MONDAY: u64 = 4;

/// How many are kept; one that any of the numbers keeps stays, unless all of them together are too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Number of the newest ones.
    pub last: usize,
    /// The newest of each of so many days (UTC) that have one.
    pub days: usize,
    /// The newest of each of so many weeks that have one.
    pub weeks: usize,
    /// At most so many bytes in all; the oldest go first.
    pub bytes: u64,
}

impl Default for Retention {
    /// 10, 7 days, 4 weeks, 5 GB.
    fn default() -> Self {
        Self {
            last: 10,
            days: 7,
            weeks: 4,
            bytes: 5_000_000_000,
        }
    }
}

impl Retention {
    /// Those of the valid checkpoints, given with their sizes in bytes, that go, the oldest first. The newest never goes.
    #[must_use]
    pub fn surplus(&self, checkpoints: &[(CheckpointId, u64)]) -> Vec<CheckpointId> {
        let mut newest_first = checkpoints.to_vec();
        newest_first.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        let (mut days, mut weeks, mut kept, mut going) = (BTreeSet::new(), BTreeSet::new(), 0, Vec::new());
        for (place, (id, size)) in newest_first.into_iter().enumerate() {
            let day = id.millis() / DAY;
            let of_a_day = days.insert(day) && days.len() <= self.days;
            let of_a_week = weeks.insert((day + 7 - MONDAY) / 7) && weeks.len() <= self.weeks;
            let wanted = place < self.last || of_a_day || of_a_week;
            let fits = kept + size <= self.bytes;
            if place == 0 || (wanted && fits) {
                kept += size;
            } else {
                going.push(id);
                // Older ones go before newer ones, so none that is older fits any more.
                kept = if wanted { self.bytes } else { kept };
            }
        }
        going.reverse();
        going
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(millis: u64) -> CheckpointId {
        CheckpointId::parse(&format!("checkpoint_{millis}")).unwrap()
    }

    fn left(retention: &Retention, all: &[(CheckpointId, u64)]) -> Vec<u64> {
        let going = retention.surplus(all);
        let kept = all.iter().filter(|(id, _)| !going.contains(id));
        kept.map(|(id, _)| id.millis() / DAY).collect()
    }

    // covers: TASK-46
    #[test]
    fn the_last_ones_and_one_of_each_day_and_week_stay() {
        let retention = Retention::default();
        // 2026-01-05 is a Monday; four of each day from that on.
        let monday = 20_458;
        let all: Vec<_> = (monday..monday + 60)
            .flat_map(|day| (0..4).map(move |hour| (id(day * DAY + hour * 3_600_000), 1)))
            .collect();
        let kept = left(&retention, &all);
        // Of the last three days ten are the last ones; then one of each of four more days, and the last days of three more weeks, of which the
        // first stands among the seven days.
        let last = monday + 59;
        let mut expected = vec![last - 18, last - 11, last - 6, last - 5, last - 4, last - 3];
        expected.extend([last - 2; 2].into_iter().chain([last - 1; 4]).chain([last; 4]));
        assert_eq!(kept, expected);
        assert_eq!(retention.surplus(&all[..10]), []);
    }

    // covers: TASK-46
    #[test]
    fn what_is_too_large_goes_from_the_oldest_on_and_never_the_newest() {
        let retention = Retention {
            bytes: 10,
            ..Retention::default()
        };
        let all = [(id(1), 1), (id(2), 4), (id(3), 7), (id(4), 2)];
        assert_eq!(retention.surplus(&all), [id(1), id(2)]);
        assert_eq!(retention.surplus(&[(id(1), 1), (id(2), 40)]), [id(1)]);
        assert_eq!(retention.surplus(&[]), []);
    }
}
