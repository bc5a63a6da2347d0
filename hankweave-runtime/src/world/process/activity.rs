//! Activity of the processes that an agent has left running, its family. A codon waits for those that work, and not for idle
//! servers (HANK-75).
//!
//! Two samples of the family are compared: a process that has computed or written between them is busy. A process that starts
//! and ends between two samples shows only in the figures of its parent, once that has waited for its end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sweep::{ProcessSet, living_family};
use crate::world::system;

/// An idle process computes at most the elapsed time divided by this. That allows for polling in a loop.
const IDLE_DIVISOR: u32 = 100;

/// Use of the machine by the processes that an agent has started, at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FamilyUse {
    /// Use of each child of the agent, and of each descendant whose parent has ended, by process id. Each includes the use of
    /// its own descendants.
    pub children: BTreeMap<i32, ChildUse>,
}

/// Use of the machine by one child and its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChildUse {
    /// Processor time; on Linux with that of descendants that have ended.
    pub processor: Duration,
    /// Bytes written; on Linux with those of descendants that have ended.
    pub written: u64,
    /// Whether one of the processes takes connections over the network; always false on other systems than Linux.
    pub listens: bool,
}

impl FamilyUse {
    /// Whether one of the children has computed or written since `before`, which was `elapsed` ago.
    #[must_use]
    pub fn is_busy(&self, before: &Self, elapsed: Duration) -> bool {
        self.children
            .iter()
            .any(|(pid, now)| now.is_busy(before.children.get(pid), elapsed))
    }

    /// Returns the number of children that take connections and have neither computed nor written since `before`, which was `elapsed` ago.
    #[must_use]
    pub fn idle_servers(&self, before: &Self, elapsed: Duration) -> usize {
        let idle = self
            .children
            .iter()
            .filter(|(pid, now)| now.listens && !now.is_busy(before.children.get(pid), elapsed));
        idle.count()
    }
}

impl ChildUse {
    /// Whether the child has computed or written since `before`, or is new.
    fn is_busy(&self, before: Option<&Self>, elapsed: Duration) -> bool {
        before.is_none_or(|before| {
            // Fewer bytes are a change too: a descendant that had written has ended.
            self.written != before.written
                || self.processor.saturating_sub(before.processor) > elapsed / IDLE_DIVISOR
        })
    }
}

/// Samples the family of the agent `leader`, which has a session of its own: the processes of that session, those that carry
/// `marker` in their environment, and their descendants. The agent itself is left out: its own work was not left running.
pub(super) fn family_use(leader: i32, marker: &str) -> FamilyUse {
    let family = ProcessSet {
        marker,
        session: Some(leader),
    };
    let parents: BTreeMap<i32, i32> = living_family(&family).into_iter().collect();
    let mut found = FamilyUse::default();
    for &pid in parents.keys().filter(|pid| **pid != leader) {
        let used = system::usage(pid);
        let child = found.children.entry(child_of(leader, pid, &parents)).or_default();
        child.processor += used.processor;
        child.written += used.written;
        child.listens |= used.listens;
    }
    found
}

/// Returns the child of `leader` from which `pid` descends. If an ancestor between them has ended, returns the topmost
/// living ancestor below it, or `pid` itself.
fn child_of(leader: i32, mut pid: i32, parents: &BTreeMap<i32, i32>) -> i32 {
    // The bound ends a circle of parents, which is possible if process ids were used again while the table was read.
    for _ in 0..parents.len() {
        match parents.get(&pid) {
            Some(parent) if *parent != leader && parents.contains_key(parent) => pid = *parent,
            _ => break,
        }
    }
    pid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(processor: u64, written: u64, listens: bool) -> FamilyUse {
        let child = ChildUse {
            processor: Duration::from_millis(processor),
            written,
            listens,
        };
        FamilyUse {
            children: [(7, child)].into(),
        }
    }

    // covers: HANK-75
    #[test]
    fn who_computes_or_writes_is_busy_and_an_idle_server_is_none() {
        let second = Duration::from_secs(1);
        let before = one(100, 5, true);
        assert!(one(100, 6, true).is_busy(&before, second), "it writes");
        assert!(one(200, 5, true).is_busy(&before, second), "it computes");
        assert!(!one(110, 5, true).is_busy(&before, second), "a tick is nothing");
        assert!(before.is_busy(&FamilyUse::default(), second), "it is new");
        assert!(!FamilyUse::default().is_busy(&before, second), "it has ended");
        assert_eq!(one(100, 5, true).idle_servers(&before, second), 1);
        assert_eq!(one(100, 9, true).idle_servers(&before, second), 0);
        assert_eq!(one(100, 5, false).idle_servers(&before, second), 0);
    }

    // covers: HANK-75
    #[test]
    fn this_process_has_computed() {
        let before = system::usage(i32::try_from(std::process::id()).unwrap());
        let mut now = before;
        while now.processor == before.processor {
            now = system::usage(i32::try_from(std::process::id()).unwrap());
        }
        assert!(now.processor > before.processor);
    }

    // covers: HANK-75
    #[test]
    fn a_process_belongs_to_the_child_of_the_agent_above_it() {
        let parents = BTreeMap::from([
            (10, 1),
            (11, 10),
            (12, 11),
            (20, 1),
            (30, 999),
            (40, 41),
            (41, 40),
        ]);
        let child = |pid| child_of(1, pid, &parents);
        assert_eq!([10, 11, 12, 20, 30].map(child), [10, 10, 10, 20, 30]);
        assert!([40, 41].contains(&child(40)), "a circle ends");
    }
}
