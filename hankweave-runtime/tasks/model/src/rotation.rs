//! Retention of task checkpoints: which ones are removed as new ones are made (TASK-46).

use std::collections::BTreeSet;

use crate::checkpoint::CheckpointId;

/// Milliseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1000;

/// First Monday after 1970-01-01, in days; weeks start on it.
const MONDAY: u64 = 4;

/// Numbers of checkpoints to keep. A checkpoint stays if any of the numbers keeps it, unless the kept ones exceed the size limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Number of newest checkpoints.
    pub last: usize,
    /// Number of days (UTC) of which the newest checkpoint is kept. Days without a checkpoint do not count.
    pub days: usize,
    /// Number of weeks of which the newest checkpoint is kept. Weeks without a checkpoint do not count.
    pub weeks: usize,
    /// Size limit of all kept checkpoints, in bytes; the oldest are removed first.
    pub bytes: u64,
}

impl Default for Retention {
    /// Returns 10 checkpoints, 7 days, 4 weeks and 5 GB.
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
    /// Returns the checkpoints to remove, oldest first, given all valid ones with their sizes in bytes. The newest is never removed.
    #[must_use]
    pub fn surplus(&self, checkpoints: &[(CheckpointId, u64)]) -> Vec<CheckpointId> {
        let mut newest_first = checkpoints.to_vec();
        newest_first.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        let (mut days, mut weeks) = (BTreeSet::new(), BTreeSet::new());
        let (mut kept_bytes, mut removed) = (0, Vec::new());
        for (index, (id, size)) in newest_first.into_iter().enumerate() {
            let day = id.millis() / DAY;
            let of_a_day = days.insert(day) && days.len() <= self.days;
            let of_a_week = weeks.insert((day + 7 - MONDAY) / 7) && weeks.len() <= self.weeks;
            let wanted = index < self.last || of_a_day || of_a_week;
            let fits = kept_bytes + size <= self.bytes;
            if index == 0 || (wanted && fits) {
                kept_bytes += size;
            } else {
                removed.push(id);
                if wanted {
                    // Older checkpoints are removed before newer ones, so no older one may fit any more.
                    kept_bytes = self.bytes;
                }
            }
        }
        removed.reverse();
        removed
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
        // 2026-01-05 is a Monday; four checkpoints on each day from then on.
        let monday = 20_458;
        let all: Vec<_> = (monday..monday + 60)
            .flat_map(|day| (0..4).map(move |hour| (id(day * DAY + hour * 3_600_000), 1)))
            .collect();
        let kept = left(&retention, &all);
        // Ten checkpoints of the last three days are the newest ones. Then follow one of each of four more days, and the last days of three more
        // weeks; the first week is covered by the seven days.
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
