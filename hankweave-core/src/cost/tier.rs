//! Service tiers: speed classes of requests, for which a provider charges a multiple of its standard price.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Service tier of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceTier {
    /// The standard price.
    #[default]
    Standard,
    /// Faster and dearer; codex calls it `fast` as well.
    Priority,
    /// Slower and cheaper.
    Flex,
    /// A tier that this version does not know.
    Other,
}

impl ServiceTier {
    /// Returns the tier with this name in settings and requests.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "" | "auto" | "default" | "standard" => Self::Standard,
            "fast" | "priority" => Self::Priority,
            "flex" => Self::Flex,
            _ => Self::Other,
        }
    }
}

/// Multiple of the standard price, exact to a thousandth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierMultiple(u32);

impl TierMultiple {
    /// The standard price itself.
    pub const ONE: Self = Self(1_000);

    /// Largest multiple that is accepted.
    pub const MOST: f64 = 1_000.0;

    /// The multiple nearest to `value`; `None` for a number that is not from 0 to [`Self::MOST`].
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        if !(0.0..=Self::MOST).contains(&value) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked above"
        )]
        Some(Self((value * 1_000.0).round() as u32))
    }

    /// The multiple in thousandths.
    #[must_use]
    pub fn thousandths(self) -> u32 {
        self.0
    }
}

impl Serialize for TierMultiple {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1_000) {
            return serializer.serialize_u32(self.0 / 1_000);
        }
        serializer.serialize_f64(f64::from(self.0) / 1_000.0)
    }
}

impl<'de> Deserialize<'de> for TierMultiple {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Self::new(value).ok_or_else(|| serde::de::Error::custom("must be a number from 0 to 1000"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_come_back_as_written_and_others_are_refused() {
        for text in ["2", "2.5", "0.5", "1.75"] {
            let multiple: TierMultiple = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&multiple).unwrap(), text);
        }
        for value in [-1.0, f64::NAN, 1_000.1] {
            assert_eq!(TierMultiple::new(value), None, "{value}");
        }
    }

    #[test]
    fn a_tier_that_is_not_known_is_no_standard_one() {
        assert_eq!(ServiceTier::named("fast"), ServiceTier::Priority);
        assert_eq!(ServiceTier::named("ultrafast"), ServiceTier::Other);
        assert_eq!(ServiceTier::named("default"), ServiceTier::Standard);
    }
}
