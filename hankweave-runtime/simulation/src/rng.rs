//! Random numbers that depend on a seed alone.

use std::ops::Range;

/// A generator in the manner of SplitMix64: small, fast, and with equal results on every machine.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// A generator of its own for one purpose, so that what is drawn for another purpose changes nothing here.
    #[must_use]
    pub fn fork(&self, purpose: &str) -> Self {
        let purpose = purpose
            .bytes()
            .fold(0, |hash: u64, byte| mix(hash ^ u64::from(byte)));
        Self::new(self.state ^ purpose)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `range`, which must not be empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.roll() % (range.end - range.start)
    }

    /// A number from 0 to `end`, `end` among them.
    pub fn up_to(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % (end as u64 + 1)).expect("not more than a usize")
    }

    /// True once in `times` on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.roll().is_multiple_of(times)
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.up_to(choices.len() - 1)]
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_and_purposes_do_not_disturb_each_other() {
        let draw = |mut rng: Rng| [rng.roll(), rng.roll(), rng.roll()];
        let (mut one, other) = (Rng::new(7), Rng::new(7));
        let forked = draw(one.fork("agents"));
        assert_eq!(forked, draw(other.fork("agents")));
        assert_ne!(forked, draw(other.fork("disk")));
        assert_eq!(one.roll(), other.clone().roll());
        assert_ne!(draw(Rng::new(7)), draw(Rng::new(8)));
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut rng = Rng::new(1);
        for _ in 0..1_000 {
            assert!((3..9).contains(&rng.within(3..9)));
            assert!(rng.up_to(2) <= 2);
        }
    }
}
