//! Source of new identifiers.

use std::sync::atomic::{AtomicU64, Ordering};

use hankweave_core::id::{EventId, RunId};
pub(crate) use hankweave_core::text::hex;
use hankweave_core::time::Timestamp;
use uuid::Uuid;

/// Makes identifiers that were never used before; a test gives them out in a fixed order.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// A new run id in the documented form `<Unix milliseconds>-<base 36>-<base 36>` (STATE-3).
    ///
    /// The random part holds 62 bits, so that ids stay unique when the clock goes back (D9).
    fn run_id(&self, now: Timestamp) -> RunId;

    /// A new event id.
    fn event_id(&self) -> EventId;

    /// Random text for names of temporary files and for lock ids.
    fn nonce(&self) -> String;

    /// Returns 256 bits that cannot be guessed (WIRE-26).
    fn secret(&self) -> [u8; 32];
}

/// Identifiers from the random generator of the operating system.
///
/// Event ids are made by the million, so only their common beginning is random; a counter follows.
#[derive(Debug)]
pub struct RandomIds {
    /// Prefix of the ids of all events.
    events: String,
    next_event: AtomicU64,
}

impl RandomIds {
    /// A source that shares no id with any other.
    #[must_use]
    pub fn new() -> Self {
        Self {
            events: format!("{}-", Uuid::new_v4().simple()),
            next_event: AtomicU64::new(1),
        }
    }
}

impl Default for RandomIds {
    fn default() -> Self {
        Self::new()
    }
}

impl IdSource for RandomIds {
    fn run_id(&self, now: Timestamp) -> RunId {
        let random = Uuid::new_v4().as_u128();
        let (first, second) = (base36((random >> 64) as u64), base36(random as u64));
        RunId::new(format!("{}-{first}-{second}", now.as_millis()))
            .expect("digits and dashes are a folder name")
    }

    fn event_id(&self) -> EventId {
        let number = self.next_event.fetch_add(1, Ordering::Relaxed);
        EventId::new(format!("{}{number}", self.events)).expect("an id is not empty")
    }

    fn nonce(&self) -> String {
        Uuid::new_v4().simple().to_string()
    }

    fn secret(&self) -> [u8; 32] {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the system has random numbers, which every id needs as well");
        secret
    }
}

/// Six base-36 digits: 31 bits of `random`.
fn base36(random: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut rest = random;
    (0..6)
        .map(|_| {
            let digit = DIGITS[(rest % 36) as usize];
            rest /= 36;
            char::from(digit)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: D9
    #[test]
    fn no_event_id_comes_twice() {
        let (one, other) = (RandomIds::new(), RandomIds::new());
        let ids = [one.event_id(), one.event_id(), other.event_id(), other.event_id()];
        assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 4);
    }

    // covers: STATE-3
    #[test]
    fn a_run_id_has_the_documented_form() {
        let id = RandomIds::new().run_id(Timestamp::from_millis(1_736_000_000_000));
        let parts: Vec<&str> = id.as_str().split('-').collect();
        assert_eq!(
            (parts[0], parts[1].len(), parts[2].len(), parts.len()),
            ("1736000000000", 6, 6, 3)
        );
    }
}
