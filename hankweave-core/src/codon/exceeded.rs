//! Which limit was reached (WIRE-17).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::budget::overrun_words;
use crate::cost::Usd;
use crate::time::short_duration;

/// A limit of a codon and what the codon had used then; both are about this one execution.
///
/// In JSON `{currency, limit, used}`: US dollars, seconds or tokens.
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
    /// Returns what was used of the limit: `used at least $0.0123 of $0.0100` where more may have been spent.
    #[must_use]
    pub fn words(self, is_lower_bound: bool) -> String {
        match self {
            Self::Cost { limit, used } => format!("used {} of {limit}", used.display(is_lower_bound)),
            _ => self.to_string(),
        }
    }

    /// Returns the [`words`](Self::words) with the overrun of money: `used $0.0300 of $0.0110, over its budget by $0.0190`.
    #[must_use]
    pub fn words_with_overrun(self, is_lower_bound: bool) -> String {
        let over = match self {
            Self::Cost { limit, used } => overrun_words(used, is_lower_bound, Some(limit)),
            _ => None,
        };
        let over = over.map_or_else(String::new, |over| format!(", {over}"));
        format!("{}{over}", self.words(is_lower_bound))
    }
}

/// `used $0.0123 of $0.0100`
impl fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost { limit, used } => write!(f, "used {used} of {limit}"),
            Self::Duration { limit, used } => {
                write!(f, "used {} of {}", short_duration(*used), short_duration(*limit))
            }
            Self::OutputTokens { limit, used } => write!(f, "used {used} of {limit} output tokens"),
            Self::ContextTokens { limit, used } => {
                write!(f, "used {used} of {limit} context tokens in one turn")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: HANK-37
    #[test]
    fn money_that_is_a_lower_bound_is_said_to_be_one() {
        let exceeded = BudgetExceeded::Cost {
            limit: Usd::from_micros(10_000),
            used: Usd::from_micros(29_000),
        };
        assert_eq!(exceeded.words(false), exceeded.to_string());
        assert_eq!(exceeded.words(true), "used at least $0.0290 of $0.0100");
        let over = "used at least $0.0290 of $0.0100, over its budget by at least $0.0190";
        assert_eq!(exceeded.words_with_overrun(true), over);
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
                },
                json!({"currency": "cost", "limit": 0.01, "used": 0.0125}),
                "used $0.0125 of $0.0100",
            ),
            (
                BudgetExceeded::Duration {
                    limit: Duration::from_millis(1_500),
                    used: Duration::from_secs(2),
                },
                json!({"currency": "duration", "limit": 1.5, "used": 2.0}),
                "used 2s of 1.5s",
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
}
