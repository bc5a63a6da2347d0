//! Exact amounts of money, counted in billionths of a dollar.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_USD: f64 = 1e9;

const NANOS: u64 = 1_000_000_000;

/// The largest number of billionths up to which `f64` holds every whole number.
const EXACT_NANOS: u64 = 1 << 53;

/// An amount in US dollars, at least 0, exact to a billionth of a dollar.
///
/// List prices are dollars per million tokens with up to three decimals ($0.075 per million is 75 billionths
/// for one token), so token prices and their sums are whole numbers here, and every micro-dollar figure is
/// exact. In JSON an amount is a plain number of dollars; it passes through `f64` only there (STATE-2). Sums
/// stop at the largest amount, about 18 thousand million dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Usd(u64);

/// A number that is no amount of money.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{value} is not an amount in US dollars (a number from 0 to 18000000000)")]
#[non_exhaustive]
pub struct InvalidUsd {
    /// The number as it was given.
    pub value: f64,
}

impl Usd {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// An amount in billionths of a dollar.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// An amount in millionths of a dollar.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// The amount in billionths of a dollar.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Rounds a number of dollars to the nearest billionth.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidUsd`] for a negative, infinite or too large number and for NaN (D10).
    pub fn from_dollars(value: f64) -> Result<Self, InvalidUsd> {
        if !(0.0..=1.8e19).contains(&(value * NANOS_PER_USD).round()) {
            return Err(InvalidUsd { value });
        }
        // Whole dollars and the fraction are converted apart: a float has too few digits for the billionths of a large amount.
        let dollars = value.trunc();
        let nanos = ((value - dollars) * NANOS_PER_USD).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked above"
        )]
        Ok(Self(dollars as u64 * NANOS + nanos as u64))
    }

    /// Returns the amount for people: `$0.0231`, or `at least $0.0231` for a lower bound, or `unknown` for a lower bound that would be shown as zero.
    #[must_use]
    pub fn display(self, is_lower_bound: bool) -> String {
        match (is_lower_bound, self.shown_units()) {
            (true, 0) => "unknown".to_owned(),
            (true, _) => format!("at least {self}"),
            (false, _) => self.to_string(),
        }
    }

    /// The amount in units of $0.0001, rounded, as people see it.
    fn shown_units(self) -> u64 {
        self.0.saturating_add(50_000) / 100_000
    }

    /// The amount in dollars, as the nearest `f64`.
    #[must_use]
    pub fn as_dollars(self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "this is the border where money becomes a float"
        )]
        let float = |number: u64| number as f64;
        if self.0 <= EXACT_NANOS {
            return float(self.0) / NANOS_PER_USD;
        }
        float(self.0 / NANOS) + float(self.0 % NANOS) / NANOS_PER_USD
    }

    /// Returns `self` minus `other`, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns this amount times `count`.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// `$0.0231`: four decimals, because most codons cost less than a cent.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = self.shown_units();
        f.pad(&format!("${}.{:04}", rounded / 10_000, rounded % 10_000))
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(NANOS) {
            return serializer.serialize_u64(self.0 / NANOS);
        }
        serializer.serialize_f64(self.as_dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_dollars(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

crate::shape::leaves!(Usd);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_billion_cheap_tokens_cost_exactly_their_list_price() {
        // $0.30 per million cache reads.
        assert_eq!(
            Usd::from_nanos(300).times(1_000_000_000),
            Usd::from_dollars(300.0).unwrap()
        );
    }

    #[test]
    fn sums_that_floats_get_wrong_are_exact() {
        let tenth: Usd = serde_json::from_str("0.1").unwrap();
        let sum: Usd = std::iter::repeat_n(tenth, 3).sum();
        assert_eq!(serde_json::to_string(&sum).unwrap(), "0.3");
    }

    #[test]
    fn json_numbers_come_back_as_written() {
        for text in ["0", "0.00693", "1.671311", "12", "123456.789012"] {
            let amount: Usd = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&amount).unwrap(), text);
        }
    }

    #[test]
    fn large_amounts_are_the_same_after_writing_and_reading() {
        for value in [
            9_007_199.254_740_993,
            11_844_674_407.370_955,
            17_999_999_999.999_998,
        ] {
            let amount = Usd::from_dollars(value).unwrap();
            assert_eq!(amount.as_dollars(), value);
            assert_eq!(Usd::from_dollars(amount.as_dollars()), Ok(amount));
        }
    }

    // covers: D10
    #[test]
    fn numbers_that_are_no_money_are_refused() {
        for value in [-0.01, f64::NAN, f64::INFINITY, 1e30] {
            assert!(Usd::from_dollars(value).is_err(), "{value}");
        }
        assert!(serde_json::from_str::<Usd>("-1").is_err());
    }

    #[test]
    fn money_of_which_nothing_is_known_is_unknown() {
        let cheap = Usd::from_nanos(40_000);
        assert_eq!(
            (cheap.display(true), cheap.display(false)),
            ("unknown".into(), "$0.0000".into())
        );
        assert_eq!(Usd::ZERO.display(true), "unknown");
        assert_eq!(Usd::from_micros(6_930).display(true), "at least $0.0069");
    }

    #[test]
    fn people_see_four_decimals() {
        assert_eq!(Usd::from_micros(6_930).to_string(), "$0.0069");
        assert_eq!(Usd::from_dollars(12.34567).unwrap().to_string(), "$12.3457");
        assert_eq!(format!("{:>9}", Usd::from_micros(6_930)), "  $0.0069");
    }
}
