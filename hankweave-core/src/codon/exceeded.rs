//! Which limit was reached (WIRE-17).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cost::{Usd, overrun};
use crate::time::short_duration;

/// A limit of a codon and what the codon had used then; both are about this one execution.
///
/// In JSON `{currency, limit, used}`: US dollars, seconds or tokens; with `total`, the total budget, where the limit is what was left of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "currency", rename_all = "camelCase")]
pub enum BudgetExceeded {
    /// Money.
    Cost {
        /// In US dollars.
        limit: Usd,
        /// In US dollars.
        used: Usd,
        /// Total budget in US dollars, where the limit is what was left of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<Usd>,
    },
    /// Time.
    Duration {
        /// In seconds.
        #[serde(with = "seconds")]
        #[cfg_attr(feature = "schema", schemars(with = "f64"))]
        limit: Duration,
        /// In seconds.
        #[serde(with = "seconds")]
        #[cfg_attr(feature = "schema", schemars(with = "f64"))]
        used: Duration,
        /// Total budget in seconds, where the limit is what was left of it.
        #[serde(with = "optional_seconds", default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
        total: Option<Duration>,
    },
    /// Tokens that models wrote.
    OutputTokens {
        /// All of them together.
        limit: u64,
        /// All of them together.
        used: u64,
    },
    /// Tokens of one turn: what the model read and what it wrote.
    ContextTokens {
        /// Of the largest turn.
        limit: u64,
        /// Of the largest turn.
        used: u64,
    },
}

impl BudgetExceeded {
    /// Whether the limit is what was left of the total budget.
    #[must_use]
    pub const fn is_total(&self) -> bool {
        matches!(
            self,
            Self::Cost { total: Some(_), .. } | Self::Duration { total: Some(_), .. }
        )
    }

    /// Returns what was used of the limit: `used at least $0.0480 of $0.0373` where more may have been spent.
    #[must_use]
    pub fn words(&self, is_lower_bound: bool) -> String {
        match *self {
            Self::Cost { limit, used, total } => {
                let used = used.display(is_lower_bound);
                format!("used {used} of {}", limit_words(limit, total))
            }
            _ => self.to_string(),
        }
    }

    /// Returns the [`words`](Self::words) with the overrun of money: `used $0.0480 of $0.0373, over its budget by $0.0107`.
    #[must_use]
    pub fn words_with_overrun(&self, is_lower_bound: bool) -> String {
        let words = self.words(is_lower_bound);
        let Self::Cost { limit, used, total } = *self else {
            return words;
        };
        let whose = if total.is_some() {
            "the total"
        } else {
            "its budget"
        };
        let over = overrun(used, is_lower_bound, limit);
        let over = over.map_or_else(String::new, |over| format!(", over {whose} by {over}"));
        format!("{words}{over}")
    }
}

/// Returns a limit, and the total where it is what was left of that: `the $0.0373 left of the total of $0.1000`.
fn limit_words<T: fmt::Display + PartialEq>(limit: T, total: Option<T>) -> String {
    match total {
        None => limit.to_string(),
        Some(total) if total == limit => format!("the total of {total}"),
        Some(total) => format!("the {limit} left of the total of {total}"),
    }
}

/// `used $0.0123 of $0.0100`, `used $0.0480 of the $0.0373 left of the total of $0.1000`
impl fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost { limit, used, total } => write!(f, "used {used} of {}", limit_words(*limit, *total)),
            Self::Duration { limit, used, total } => {
                let limit = limit_words(short_duration(*limit), total.map(short_duration));
                write!(f, "used {} of {limit}", short_duration(*used))
            }
            Self::OutputTokens { limit, used } => write!(f, "used {used} of {limit} output tokens"),
            Self::ContextTokens { limit, used } => {
                write!(f, "used {used} of {limit} context tokens in one turn")
            }
        }
    }
}

/// A duration as a number of seconds.
mod seconds {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        duration.as_secs_f64().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
    }
}

/// A duration that may be absent, as a number of seconds.
mod optional_seconds {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Seconds(#[serde(with = "super::seconds")] Duration);

    #[expect(clippy::ref_option, reason = "serde passes the field as it is")]
    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(Seconds).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<Seconds>::deserialize(deserializer)?;
        Ok(seconds.map(|Seconds(duration)| duration))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // covers: WIRE-17
    #[test]
    fn json_has_currency_limit_and_used() {
        let cases = [
            (
                BudgetExceeded::Cost {
                    limit: Usd::from_micros(10_000),
                    used: Usd::from_micros(12_500),
                    total: None,
                },
                json!({"currency": "cost", "limit": 0.01, "used": 0.0125}),
                "used $0.0125 of $0.0100",
            ),
            (
                BudgetExceeded::Cost {
                    limit: Usd::from_micros(37_300),
                    used: Usd::from_micros(48_000),
                    total: Some(Usd::from_micros(100_000)),
                },
                json!({"currency": "cost", "limit": 0.0373, "used": 0.048, "total": 0.1}),
                "used $0.0480 of the $0.0373 left of the total of $0.1000",
            ),
            (
                BudgetExceeded::Cost {
                    limit: Usd::from_micros(40_000),
                    used: Usd::from_micros(48_000),
                    total: Some(Usd::from_micros(40_000)),
                },
                json!({"currency": "cost", "limit": 0.04, "used": 0.048, "total": 0.04}),
                "used $0.0480 of the total of $0.0400",
            ),
            (
                BudgetExceeded::Duration {
                    limit: Duration::from_millis(1_500),
                    used: Duration::from_secs(2),
                    total: None,
                },
                json!({"currency": "duration", "limit": 1.5, "used": 2.0}),
                "used 2s of 1.5s",
            ),
            (
                BudgetExceeded::Duration {
                    limit: Duration::from_millis(1_500),
                    used: Duration::from_secs(2),
                    total: Some(Duration::from_secs(60)),
                },
                json!({"currency": "duration", "limit": 1.5, "used": 2.0, "total": 60.0}),
                "used 2s of the 1.5s left of the total of 1m0s",
            ),
            (
                BudgetExceeded::OutputTokens { limit: 10, used: 11 },
                json!({"currency": "outputTokens", "limit": 10, "used": 11}),
                "used 11 of 10 output tokens",
            ),
            (
                BudgetExceeded::ContextTokens { limit: 10, used: 11 },
                json!({"currency": "contextTokens", "limit": 10, "used": 11}),
                "used 11 of 10 context tokens in one turn",
            ),
        ];
        for (exceeded, json, words) in cases {
            assert_eq!(serde_json::to_value(exceeded).unwrap(), json);
            assert_eq!(serde_json::from_value::<BudgetExceeded>(json).unwrap(), exceeded);
            assert_eq!(exceeded.to_string(), words);
        }
    }

    // covers: HANK-37
    #[test]
    fn words_say_the_amount_above_the_limit_and_whose_limit_it_is() {
        let exceeded = |total| BudgetExceeded::Cost {
            limit: Usd::from_micros(37_300),
            used: Usd::from_micros(48_000),
            total,
        };
        assert_eq!(
            exceeded(None).words_with_overrun(true),
            "used at least $0.0480 of $0.0373, over its budget by at least $0.0107"
        );
        assert_eq!(
            exceeded(Some(Usd::from_micros(100_000))).words_with_overrun(false),
            "used $0.0480 of the $0.0373 left of the total of $0.1000, over the total by $0.0107"
        );
    }
}
