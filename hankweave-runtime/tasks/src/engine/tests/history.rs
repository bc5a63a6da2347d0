//! History of concurrent calls by several clients, and the check that some order of the calls explains all answers.
//!
//! The search is that of Wing and Gong with the memory of Lowe. It tries each call that could come first, and remembers states that led nowhere.

use std::collections::HashSet;

pub(super) type Client = usize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    /// Takes the lock exclusively.
    Acquire,
    Release,
    /// Takes the lock from another client.
    Evict(Client),
    /// Raises the version of the lock.
    Commit {
        token: u64,
        expected: u64,
    },
    /// Raises the version of the task.
    Change {
        token: u64,
        expected: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Granted {
        token: u64,
        version: u64,
        row: u64,
    },
    Locked,
    /// Whether the lock was held.
    Released(bool),
    NotHeld,
    Evicted(u64),
    Written(u64),
    Stale,
    Conflict(u64),
}

/// Call with its answer, and the times of both.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) client: Client,
    pub(super) call: Call,
    pub(super) reply: Reply,
    pub(super) asked: u64,
    pub(super) answered: u64,
}

/// Specification of one lock and one task, written independently of the code under test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    holder: Option<(Client, u64, u32)>,
    last_token: u64,
    version: u64,
    row: u64,
}

impl Spec {
    pub(super) fn new(version: u64, row: u64) -> Self {
        Self {
            version,
            row,
            ..Self::default()
        }
    }

    /// Returns the specification after this call, if the answer is possible.
    fn behind(&self, event: &Event) -> Option<Self> {
        let mut next = self.clone();
        let client = event.client;
        let is_holder = |token: u64| self.holder.is_some_and(|(_, held, _)| held == token);
        let fits = match (&event.call, &event.reply) {
            (Call::Acquire, Reply::Granted { token, version, row }) => match self.holder {
                Some((holder, held, count)) => {
                    next.holder = Some((holder, held, count + 1));
                    holder == client && held == *token && self.version == *version && self.row == *row
                }
                None => {
                    (next.holder, next.last_token) = (Some((client, *token, 1)), *token);
                    *token > self.last_token && self.version == *version && self.row == *row
                }
            },
            (Call::Acquire, Reply::Locked) => self.holder.is_some_and(|(holder, ..)| holder != client),
            (Call::Release, Reply::Released(true)) => match self.holder {
                Some((holder, token, count)) => {
                    next.holder = (count > 1).then_some((holder, token, count - 1));
                    holder == client
                }
                None => false,
            },
            (Call::Release, Reply::Released(false)) => self.holder.is_none(),
            (Call::Release, Reply::NotHeld) => self.holder.is_some_and(|(holder, ..)| holder != client),
            (Call::Evict(of), Reply::Evicted(number)) => {
                let has = self.holder.is_some_and(|(holder, ..)| holder == *of);
                next.holder = if has { None } else { self.holder };
                u64::from(has) == *number
            }
            (Call::Commit { token, expected }, reply) => {
                let now = self.version;
                next.version = if matches!(reply, Reply::Written(_)) {
                    now + 1
                } else {
                    now
                };
                Self::written(is_holder(*token), now, *expected, reply, now + 1)
            }
            (Call::Change { token, expected }, reply) => {
                let now = self.row;
                next.row = if matches!(reply, Reply::Written(_)) {
                    now + 3
                } else {
                    now
                };
                Self::written(is_holder(*token), now, *expected, reply, now + 3)
            }
            _ => false,
        };
        fits.then_some(next)
    }

    fn written(may_write: bool, now: u64, expected: u64, reply: &Reply, then: u64) -> bool {
        match reply {
            Reply::Stale => !may_write,
            Reply::Conflict(version) => may_write && expected != now && *version == now,
            Reply::Written(version) => may_write && expected == now && *version == then,
            _ => false,
        }
    }
}

/// Whether some order explains all answers; at most 128 events.
pub(super) fn is_linearizable(events: &[Event], start: Spec) -> bool {
    assert!(events.len() <= 128, "a set of them has 128 places");
    let all = if events.len() == 128 {
        u128::MAX
    } else {
        (1 << events.len()) - 1
    };
    let mut seen = HashSet::new();
    let mut open = vec![(0_u128, start)];
    while let Some((done, state)) = open.pop() {
        if done == all {
            return true;
        }
        let left = || (0..events.len()).filter(move |place| done & (1 << place) == 0);
        let first_answer = left().map(|place| events[place].answered).min();
        for place in left().filter(|place| Some(events[*place].asked) < first_answer) {
            let Some(next) = state.behind(&events[place]) else {
                continue;
            };
            let next = (done | 1 << place, next);
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(client: Client, call: Call, reply: Reply, asked: u64, answered: u64) -> Event {
        Event {
            client,
            call,
            reply,
            asked,
            answered,
        }
    }

    fn granted(token: u64) -> Reply {
        Reply::Granted {
            token,
            version: 0,
            row: 1,
        }
    }

    #[test]
    fn two_grants_at_once_have_no_order_and_one_behind_the_other_has_one() {
        let both = [
            event(0, Call::Acquire, granted(1), 0, 2),
            event(1, Call::Acquire, granted(2), 1, 3),
        ];
        assert!(!is_linearizable(&both, Spec::new(0, 1)));
        let mut released = both.to_vec();
        released.push(event(0, Call::Release, Reply::Released(true), 4, 5));
        assert!(
            !is_linearizable(&released, Spec::new(0, 1)),
            "the release began when the second grant was out"
        );
        released[2].asked = 2;
        assert!(is_linearizable(&released, Spec::new(0, 1)));
    }

    #[test]
    fn a_write_of_somebody_who_lost_the_lock_has_no_order() {
        let change = Call::Change {
            token: 1,
            expected: 1,
        };
        let mut events = vec![
            event(0, Call::Acquire, granted(1), 0, 1),
            event(1, Call::Evict(0), Reply::Evicted(1), 2, 3),
            event(0, change.clone(), Reply::Written(4), 4, 5),
        ];
        assert!(!is_linearizable(&events, Spec::new(0, 1)));
        events[2] = event(0, change, Reply::Stale, 4, 5);
        assert!(is_linearizable(&events, Spec::new(0, 1)));
    }
}
