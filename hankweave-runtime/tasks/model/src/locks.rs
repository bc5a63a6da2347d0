//! Table of all locks of a registry, for the coordinator in memory (TASK-6, TASK-13, TASK-14, TASK-16).

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::time::Timestamp;

use crate::error::TaskError;
use crate::lock::LockMode;
use crate::resource::{Holder, LockDemand, LockGrant, Resource};

/// All locks of a registry. Every method is one atomic step.
#[derive(Debug, Clone, Default)]
pub struct LockTable {
    /// Resources with a holder, including those whose locks have expired and are not removed yet.
    resources: HashMap<Arc<str>, Resource>,
    /// Names of each holder's resources, in byte order, which is the lock order.
    by_holder: HashMap<Holder, BTreeSet<Arc<str>>>,
    /// Greatest token granted so far.
    last_token: u64,
    /// Highest version of all forgotten resources. A resource that is not in the table starts at it, so that no version repeats (TASK-14).
    forgotten: u64,
}

impl LockTable {
    /// Creates a table without locks, whose tokens will be greater than `token`.
    #[must_use]
    pub fn with_tokens_after(token: u64) -> Self {
        Self {
            last_token: token,
            ..Self::default()
        }
    }

    /// Grants the lock, or returns the conflicting holder as an error (TASK-1, TASK-3). With a `lease` the lock expires by itself.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::ResourceLocked`].
    pub fn acquire(
        &mut self,
        resource: &str,
        holder: &Holder,
        mode: LockMode,
        lease: Option<Duration>,
        now: Timestamp,
    ) -> Result<LockGrant, TaskError> {
        let token = self.next_token();
        let demand = LockDemand { holder, mode, lease };
        let answer = self.change(resource, |entry| entry.acquire(resource, demand, token, now));
        // A refusal, or a second lock under the holder's earlier token, does not use up the new token.
        if !answer.as_ref().is_ok_and(|held| held.token == token) {
            self.last_token -= 1;
        }
        answer
    }

    /// Returns a token greater than all earlier ones.
    pub fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// Returns the current resource. One without a holder has the highest version of all forgotten resources (TASK-14).
    #[must_use]
    pub fn resource(&self, name: &str) -> Resource {
        let known = self.resources.get(name).cloned();
        known.unwrap_or_else(|| Resource {
            version: self.forgotten,
            ..Resource::default()
        })
    }

    /// Replaces the resource by `after`, or drops a resource that has no holder any more. A dropped resource still refuses late writers: a write needs
    /// a live token, and no token is granted twice.
    pub fn put(&mut self, name: &str, after: Resource) {
        let known = self.resources.remove_entry(name);
        let (name, before) = known.unwrap_or_else(|| (Arc::from(name), Resource::default()));
        let has_holder = |resource: &Resource, grant: &LockGrant| {
            resource.held.iter().any(|held| held.holder == grant.holder)
        };
        for removed in before.held.iter().filter(|grant| !has_holder(&after, grant)) {
            self.unindex(&removed.holder, &name);
        }
        for added in after.held.iter().filter(|grant| !has_holder(&before, grant)) {
            let of_holder = self.by_holder.entry(added.holder.clone()).or_default();
            of_holder.insert(name.clone());
        }
        match after.held.is_empty() {
            true => self.forgotten = after.version.max(self.forgotten),
            false => drop(self.resources.insert(name, after)),
        }
    }

    fn unindex(&mut self, holder: &Holder, name: &str) {
        if let Some(of_holder) = self.by_holder.get_mut(holder) {
            of_holder.remove(name);
            if of_holder.is_empty() {
                self.by_holder.remove(holder);
            }
        }
    }

    /// Applies `step` to the resource, and stores the outcome.
    fn change<T>(&mut self, name: &str, step: impl FnOnce(&mut Resource) -> T) -> T {
        let mut resource = self.resource(name);
        let answer = step(&mut resource);
        self.put(name, resource);
        answer
    }

    /// Returns the holder's first resource after `resource` in lock order; `None` also when the holder has `resource` already (TASK-16).
    #[must_use]
    pub fn held_behind(&self, resource: &str, holder: &Holder, now: Timestamp) -> Option<&str> {
        let of_holder = self.by_holder.get(holder)?;
        let has = |name: &str| {
            let mut held = self.resources.get(name).into_iter().flat_map(|entry| &entry.held);
            held.any(|held| held.holder == *holder && held.lives(now))
        };
        if has(resource) {
            return None;
        }
        let later = (Bound::Excluded(resource), Bound::Unbounded);
        let mut later = of_holder.range::<str, _>(later).map(|name| &**name);
        later.find(|name| has(name))
    }

    /// Checks that the holder may ask for this resource now. A holder never waits for a resource that comes before one it holds, so holders cannot
    /// wait for one another in a circle. It may take a resource again that it already holds (TASK-16).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockOrder`] with the holder's first resource after this one.
    pub fn check_order(&self, resource: &str, holder: &Holder, now: Timestamp) -> Result<(), TaskError> {
        match self.held_behind(resource, holder, now) {
            Some(held) => Err(TaskError::LockOrder {
                resource: resource.to_owned(),
                held: held.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Takes all of these locks in byte order, each once, or none (TASK-6).
    ///
    /// # Errors
    ///
    /// Returns the first refusal, which names its resource.
    pub fn acquire_all(
        &mut self,
        resources: &[&str],
        holder: &Holder,
        mode: LockMode,
        lease: Option<Duration>,
        now: Timestamp,
    ) -> Result<Vec<(String, LockGrant)>, TaskError> {
        let mut taken = Vec::new();
        let ordered: BTreeSet<&str> = resources.iter().copied().collect();
        for resource in ordered {
            match self.acquire(resource, holder, mode, lease, now) {
                Ok(held) => taken.push((resource.to_owned(), held)),
                Err(refused) => {
                    for (resource, _) in taken.iter().rev() {
                        // Cannot fail: the lock was granted a moment ago.
                        let _ = self.release(resource, holder, now);
                    }
                    return Err(refused);
                }
            }
        }
        Ok(taken)
    }

    /// Releases one acquisition and returns whether it was held. The last release frees the resource (TASK-3).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockNotHeld`] when only other holders hold it.
    pub fn release(&mut self, resource: &str, holder: &Holder, now: Timestamp) -> Result<bool, TaskError> {
        let released = self.change(resource, |entry| entry.release(resource, holder, now));
        released.map(|held| held.is_some())
    }

    /// Extends a lock (TASK-4).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockTimeout`] if the lock has expired. The holder must stop writing then.
    pub fn renew(
        &mut self,
        resource: &str,
        token: u64,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Timestamp, TaskError> {
        self.change(resource, |entry| entry.renew(resource, token, lease, now))
    }

    /// Returns the version to commit against (TASK-5).
    #[must_use]
    pub fn version(&self, resource: &str) -> u64 {
        let entry = self.resources.get(resource);
        entry.map_or(self.forgotten, |entry| entry.version)
    }

    /// Permits one write, by a live holder, if the version is unchanged since the holder read it (TASK-5). Returns the new version.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StaleToken`] or [`TaskError::VersionConflict`].
    pub fn commit(
        &mut self,
        resource: &str,
        token: u64,
        expected_version: u64,
        now: Timestamp,
    ) -> Result<u64, TaskError> {
        self.change(resource, |entry| {
            entry.commit(resource, token, expected_version, now)
        })
    }

    /// Lists all grants by resource name, in byte order, including expired ones that are not removed yet.
    #[must_use]
    pub fn held(&self) -> Vec<(&str, &LockGrant)> {
        let each = self.resources.iter();
        let mut held: Vec<(&str, &LockGrant)> = each
            .flat_map(|(name, entry)| entry.held.iter().map(move |held| (&**name, held)))
            .collect();
        held.sort_by_key(|(name, held)| (*name, held.token));
        held
    }

    /// Removes expired locks and returns their number (TASK-4).
    pub fn clean_up(&mut self, now: Timestamp) -> usize {
        self.remove(|held| !held.lives(now))
    }

    /// Removes every lock of an owner, in all scopes, and returns the number of removed locks (TASK-13).
    pub fn emergency_clean_up(&mut self, owner: &str) -> usize {
        self.remove(|held| *held.holder.owner == *owner)
    }

    fn remove(&mut self, is_removed: impl Fn(&LockGrant) -> bool) -> usize {
        let is_touched = |entry: &Resource| entry.held.iter().any(&is_removed);
        let touched = self.resources.iter().filter(|(_, entry)| is_touched(entry));
        let touched: Vec<Arc<str>> = touched.map(|(name, _)| name.clone()).collect();
        let mut removed = 0;
        for name in touched {
            self.change(&name, |entry| {
                let before = entry.held.len();
                entry.held.retain(|held| !is_removed(held));
                removed += before - entry.held.len();
            });
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use LockMode::{Collaborative, Exclusive};

    use super::*;

    const LEASE: Option<Duration> = Some(Duration::from_secs(30));

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn holder(owner: &str, scope: &str) -> Holder {
        Holder::new(owner, scope)
    }

    fn code<T: std::fmt::Debug>(result: Result<T, TaskError>) -> &'static str {
        result.unwrap_err().code()
    }

    // covers: TASK-1, TASK-4, TASK-12
    #[test]
    fn one_writer_at_a_time_until_it_gives_back_or_its_time_is_over() {
        let mut table = LockTable::default();
        let (coder, tester) = (holder("lifecycle:coder", "1"), holder("lifecycle:tester", "2"));
        let first = table.acquire("task:fix-3", &coder, Exclusive, LEASE, at(0));
        assert_eq!(first.map(|held| (held.token, held.count)), Ok((1, 1)));
        let refused = table.acquire("task:fix-3", &tester, Exclusive, LEASE, at(10));
        assert_eq!(refused.unwrap_err().to_string(), "`task:fix-3` is held by coder");
        assert_eq!(
            code(table.release("task:fix-3", &tester, at(15))),
            "LOCK_NOT_HELD"
        );
        assert_eq!(table.release("task:fix-3", &coder, at(20)), Ok(true));
        assert_eq!(table.release("task:fix-3", &coder, at(20)), Ok(false));
        let second = table.acquire("task:fix-3", &tester, Exclusive, LEASE, at(30));
        assert_eq!(second.map(|held| held.token), Ok(2));
        assert_eq!((table.clean_up(at(30_030)), table.clean_up(at(30_031))), (0, 1));
    }

    // covers: TASK-16
    #[test]
    fn who_holds_one_asks_only_for_what_stands_behind_it() {
        let mut table = LockTable::default();
        let (own, other) = (holder("a", "1"), holder("a", "2"));
        table.acquire("task:m", &own, Exclusive, LEASE, at(0)).unwrap();
        let refused = table.check_order("task:c", &own, at(1)).unwrap_err();
        assert_eq!(
            (refused.code(), refused.to_string().as_str()),
            (
                "LOCK_ORDER",
                "`task:c` sorts before `task:m`, which is already held; acquire both at once"
            )
        );
        assert_eq!(table.check_order("task:x", &own, at(1)), Ok(()));
        assert_eq!(
            table.check_order("task:m", &own, at(1)),
            Ok(()),
            "it may be taken again"
        );
        assert_eq!(
            table.check_order("task:c", &other, at(1)),
            Ok(()),
            "another scope holds nothing"
        );
        assert_eq!(
            table.check_order("task:c", &own, at(30_001)),
            Ok(()),
            "what is over is not held"
        );
        table.acquire("task:x", &own, Exclusive, None, at(1)).unwrap();
        assert_eq!(table.check_order("task:m", &own, at(2)), Ok(()), "it holds both");
    }

    // covers: TASK-1, TASK-13
    #[test]
    fn collaborators_share_and_neither_mode_is_granted_over_the_other() {
        let mut table = LockTable::default();
        for scope in ["1", "2"] {
            table
                .acquire("r", &holder("a", scope), Collaborative, None, at(0))
                .unwrap();
        }
        let exclusive = table.acquire("r", &holder("b", "3"), Exclusive, None, at(0));
        assert_eq!(code(exclusive), "RESOURCE_LOCKED");
        assert_eq!(table.emergency_clean_up("nobody"), 0);
        assert_eq!(table.emergency_clean_up("a"), 2);
        table
            .acquire("r", &holder("b", "3"), Exclusive, None, at(0))
            .unwrap();
        let shared = table.acquire("r", &holder("a", "1"), Collaborative, None, at(0));
        assert_eq!(code(shared), "RESOURCE_LOCKED");
    }

    // covers: TASK-2, TASK-3
    #[test]
    fn the_same_holder_may_take_it_again_and_the_last_release_frees_it() {
        let mut table = LockTable::default();
        let (own, twin) = (holder("a", "1"), holder("a", "2"));
        table.acquire("r", &own, Exclusive, LEASE, at(0)).unwrap();
        let again = table.acquire("r", &own, Exclusive, LEASE, at(5)).unwrap();
        assert_eq!(
            (again.token, again.count, again.expires_at),
            (1, 2, Some(at(30_005)))
        );
        let other_mode = table.acquire("r", &own, Collaborative, LEASE, at(6));
        assert_eq!(code(other_mode), "RESOURCE_LOCKED");
        assert_eq!(table.release("r", &own, at(7)), Ok(true));
        assert_eq!(
            code(table.acquire("r", &twin, Exclusive, LEASE, at(8))),
            "RESOURCE_LOCKED"
        );
        assert_eq!(table.release("r", &own, at(9)), Ok(true));
        assert_eq!(
            table.acquire("r", &twin, Exclusive, LEASE, at(10)).unwrap().token,
            2
        );
    }

    // covers: TASK-4
    #[test]
    fn a_renewal_moves_the_end_and_comes_too_late_after_it() {
        let (mut table, own, lease) = (LockTable::default(), holder("a", "1"), Duration::from_millis(10));
        table.acquire("r", &own, Exclusive, Some(lease), at(0)).unwrap();
        assert_eq!(table.renew("r", 1, lease, at(10)), Ok(at(20)));
        assert_eq!(code(table.renew("r", 1, lease, at(21))), "LOCK_TIMEOUT");
    }

    // covers: TASK-5
    #[test]
    fn a_holder_that_slept_beyond_its_lease_writes_nothing() {
        let mut table = LockTable::default();
        let (slow, quick) = (holder("a", "1"), holder("b", "2"));
        let old = table.acquire("r", &slow, Exclusive, LEASE, at(0)).unwrap().token;
        assert_eq!(table.commit("r", old, 0, at(1)), Ok(1));
        let new = table
            .acquire("r", &quick, Exclusive, LEASE, at(30_001))
            .unwrap()
            .token;
        assert_eq!(code(table.commit("r", old, 1, at(30_002))), "STALE_TOKEN");
        assert_eq!(code(table.commit("r", new, 0, at(30_002))), "VERSION_CONFLICT");
        assert_eq!(table.commit("r", new, 1, at(30_003)), Ok(2));
        // Nor once the resource has no holder.
        table.release("r", &quick, at(30_004)).unwrap();
        assert_eq!(code(table.commit("r", old, 2, at(30_005))), "STALE_TOKEN");
    }

    // covers: TASK-5
    #[test]
    fn of_two_collaborators_the_later_commit_stands_whoever_was_granted_first() {
        let (mut table, early, late) = (LockTable::default(), holder("a", "1"), holder("b", "2"));
        let first = table.acquire("r", &early, Collaborative, LEASE, at(0)).unwrap();
        let second = table.acquire("r", &late, Collaborative, LEASE, at(1)).unwrap();
        assert_eq!(table.commit("r", second.token, 0, at(2)), Ok(1));
        assert_eq!(code(table.commit("r", first.token, 0, at(3))), "VERSION_CONFLICT");
        assert_eq!(table.commit("r", first.token, 1, at(4)), Ok(2));
        assert_eq!(table.commit("r", second.token, 2, at(5)), Ok(3));
    }

    // covers: TASK-14
    #[test]
    fn what_nobody_holds_is_forgotten_and_no_version_comes_twice() {
        let (mut table, own) = (LockTable::default(), holder("a", "1"));
        let old = table.acquire("r", &own, Exclusive, LEASE, at(0)).unwrap().token;
        assert_eq!(table.commit("r", old, 0, at(1)), Ok(1));
        table.release("r", &own, at(2)).unwrap();
        table.acquire("s", &own, Exclusive, LEASE, at(2)).unwrap();
        assert_eq!((table.resources.len(), table.clean_up(at(60_000))), (1, 1));
        assert_eq!((table.resources.len(), table.version("r")), (0, 1));
        let new = table
            .acquire("r", &own, Exclusive, LEASE, at(60_000))
            .unwrap()
            .token;
        assert_eq!(code(table.commit("r", old, 1, at(60_001))), "STALE_TOKEN");
        assert_eq!(code(table.commit("r", new, 0, at(60_001))), "VERSION_CONFLICT");
        assert_eq!(table.commit("r", new, 1, at(60_001)), Ok(2));
    }

    // covers: TASK-3
    #[test]
    fn a_lock_that_was_taken_too_often_is_refused_and_stays_as_it_is() {
        let (mut table, own) = (LockTable::default(), holder("a", "1"));
        table.acquire("r", &own, Exclusive, LEASE, at(0)).unwrap();
        let entry = table.resources.get_mut("r").unwrap();
        entry.held[0].count = u32::MAX;
        let refused = table.acquire("r", &own, Exclusive, LEASE, at(1));
        assert_eq!(code(refused), "INVALID_ARGUMENT");
        assert_eq!(table.resources["r"].held[0].expires_at, Some(at(30_000)));
    }

    // covers: TASK-6
    #[test]
    fn several_are_taken_in_order_or_none() {
        let mut table = LockTable::default();
        let (deployer, linter) = (holder("deployer", "1"), holder("linter", "2"));
        let names = ["repo:web", "repo:api", "repo:web"];
        let taken = table
            .acquire_all(&names, &deployer, Exclusive, LEASE, at(0))
            .unwrap();
        let taken: Vec<_> = taken.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(taken, ["repo:api", "repo:web"]);
        table.release("repo:api", &deployer, at(9)).unwrap();
        let refused = table.acquire_all(&names, &linter, Exclusive, LEASE, at(10));
        assert_eq!(refused.unwrap_err().to_string(), "`repo:web` is held by deployer");
        // Locks that were taken before the refusal are free again.
        let free = table.acquire("repo:api", &deployer, Exclusive, LEASE, at(11));
        assert_eq!(free.map(|held| held.count), Ok(1));
    }
}
