//! The limit of a budget that a codon reached, stored with its record, and its words for people (WIRE-17).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cost::{Usd, overrun};
use crate::time::short_duration;

/// A limit of a codon and what the codon had used then; both are about this one execution.
///
/// In JSON `{currency, limit, used}`: US dollars, seconds or tokens; with `total`, the total budget, or `loopTotal`, the budget of its loop, where the limit is
/// what was left of that.
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
        /// Budget of its loop in US dollars, where the limit is what was left of it.
        #[serde(default, rename = "loopTotal", skip_serializing_if = "Option::is_none")]
        loop_total: Option<Usd>,
        /// Whether the limit is the share of a larger amount that is allotted to the codon.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        share: bool,
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
        /// Budget of its loop in seconds, where the limit is what was left of it.
        #[serde(
            with = "optional_seconds",
            default,
            rename = "loopTotal",
            skip_serializing_if = "Option::is_none"
        )]
        #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
        loop_total: Option<Duration>,
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
    /// Returns a reached limit of money that is the codon's own, not what was left of a larger budget.
    #[must_use]
    pub const fn of_money(limit: Usd, used: Usd) -> Self {
        Self::Cost {
            limit,
            used,
            total: None,
            loop_total: None,
            share: false,
        }
    }

    /// Returns a reached limit of time that is the codon's own, not what was left of a larger budget.
    #[must_use]
    pub const fn of_time(limit: Duration, used: Duration) -> Self {
        Self::Duration {
            limit,
            used,
            total: None,
            loop_total: None,
        }
    }

    /// Whether the limit is what was left of the total budget.
    #[must_use]
    pub const fn is_total(&self) -> bool {
        matches!(
            self,
            Self::Cost { total: Some(_), .. } | Self::Duration { total: Some(_), .. }
        )
    }

    /// Whether the limit is what was left of the total budget or of the loop's budget, so that nothing is left for the codons after this one.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        let of_loop = matches!(
            self,
            Self::Cost {
                loop_total: Some(_),
                ..
            } | Self::Duration {
                loop_total: Some(_),
                ..
            }
        );
        of_loop || self.is_total()
    }

    /// Returns for people the key of hank.json that sets the limit, such as `` `maxDollars` of its loop ``; for a share the words `total or share`. `None` for
    /// the total budget, because an option of the command line may have set that instead.
    #[must_use]
    pub fn key_in_hank(&self) -> Option<&'static str> {
        match self {
            _ if self.is_total() => None,
            Self::Cost {
                loop_total: Some(_), ..
            } => Some("`maxDollars` of its loop"),
            Self::Duration {
                loop_total: Some(_), ..
            } => Some("`maxTimeSeconds` of its loop"),
            Self::Cost { share: true, .. } => Some("total or share"),
            Self::Cost { .. } => Some("`maxDollars`"),
            Self::Duration { .. } => Some("`maxTimeSeconds`"),
            Self::OutputTokens { .. } => Some("`maxOutputTokens`"),
            Self::ContextTokens { .. } => Some("`maxContextTokens`"),
        }
    }

    /// Returns the use and the limit for people: `used at least $0.0480 of $0.0373` where more may have been spent.
    #[must_use]
    pub fn words(&self, is_lower_bound: bool) -> String {
        match self {
            // Without any use, `to_string` may say that nothing was left at the start.
            Self::Cost { used, .. } if *used > Usd::ZERO => {
                format!("used {} of {}", used.display(is_lower_bound), self.limit_words())
            }
            _ => self.to_string(),
        }
    }

    /// Returns the [`words`](Self::words) with the overrun of money: `used $0.0480 of $0.0373, over its budget by $0.0107`.
    #[must_use]
    pub fn words_with_overrun(&self, is_lower_bound: bool) -> String {
        let words = self.words(is_lower_bound);
        let Self::Cost {
            limit,
            used,
            total,
            loop_total,
            ..
        } = *self
        else {
            return words;
        };
        let whose = match (total, loop_total) {
            (Some(_), _) => "the total",
            (None, Some(_)) => "that of its loop",
            (None, None) => "its budget",
        };
        let over = overrun(used, is_lower_bound, limit);
        let over = over.map_or_else(String::new, |over| format!(", over {whose} by {over}"));
        format!("{words}{over}")
    }

    /// Returns the limit for people. A limit that was what was left of a larger budget is shown with that budget: `the $0.0373 left of the total of $0.1000`.
    #[must_use]
    pub fn limit_words(&self) -> String {
        match *self {
            Self::Cost {
                limit, share: true, ..
            } => format!("its share of {limit}"),
            Self::Cost {
                limit,
                total,
                loop_total,
                ..
            } => part_words(limit, total, loop_total),
            Self::Duration {
                limit,
                total,
                loop_total,
                ..
            } => {
                let [total, loop_total] = [total, loop_total].map(|larger| larger.map(short_duration));
                part_words(short_duration(limit), total, loop_total)
            }
            Self::OutputTokens { limit, .. } => format!("{limit} output tokens"),
            Self::ContextTokens { limit, .. } => format!("{limit} context tokens in one turn"),
        }
    }
}

/// Returns a limit for people, with the total budget or the loop's budget of which it was left.
fn part_words<T: fmt::Display + PartialEq>(limit: T, total: Option<T>, loop_total: Option<T>) -> String {
    let (whole, whose) = match (total, loop_total) {
        (Some(total), _) => (total, "the total of"),
        (None, Some(total)) => (total, "its loop's"),
        (None, None) => return limit.to_string(),
    };
    match whole == limit {
        true => format!("{whose} {whole}"),
        false => format!("the {limit} left of {whose} {whole}"),
    }
}

/// `used $0.0123 of $0.0100`, `used $0.0480 of the $0.0373 left of the total of $0.1000`
impl fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit_words();
        match self {
            // The loop's budget was used up before the codon started.
            Self::Cost {
                limit: Usd::ZERO,
                loop_total: Some(total),
                ..
            } => write!(f, "nothing is left of its loop's {total}"),
            Self::Cost { used, .. } => write!(f, "used {used} of {limit}"),
            Self::Duration { used, .. } => write!(f, "used {} of {limit}", short_duration(*used)),
            Self::OutputTokens { used, .. } | Self::ContextTokens { used, .. } => {
                write!(f, "used {used} of {limit}")
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
                BudgetExceeded::of_money(Usd::from_micros(10_000), Usd::from_micros(12_500)),
                json!({"currency": "cost", "limit": 0.01, "used": 0.0125}),
                "used $0.0125 of $0.0100",
            ),
            (
                BudgetExceeded::Cost {
                    limit: Usd::from_micros(37_300),
                    used: Usd::from_micros(48_000),
                    total: Some(Usd::from_micros(100_000)),
                    loop_total: None,
                    share: false,
                },
                json!({"currency": "cost", "limit": 0.0373, "used": 0.048, "total": 0.1}),
                "used $0.0480 of the $0.0373 left of the total of $0.1000",
            ),
            (
                BudgetExceeded::Cost {
                    limit: Usd::from_micros(40_000),
                    used: Usd::from_micros(48_000),
                    total: Some(Usd::from_micros(40_000)),
                    loop_total: None,
                    share: false,
                },
                json!({"currency": "cost", "limit": 0.04, "used": 0.048, "total": 0.04}),
                "used $0.0480 of the total of $0.0400",
            ),
            (
                BudgetExceeded::of_time(Duration::from_millis(1_500), Duration::from_secs(2)),
                json!({"currency": "duration", "limit": 1.5, "used": 2.0}),
                "used 2s of 1.5s",
            ),
            (
                BudgetExceeded::Duration {
                    limit: Duration::from_millis(1_500),
                    used: Duration::from_secs(2),
                    total: Some(Duration::from_secs(60)),
                    loop_total: None,
                },
                json!({"currency": "duration", "limit": 1.5, "used": 2.0, "total": 60.0}),
                "used 2s of the 1.5s left of the total of 1m0s",
            ),
            (
                BudgetExceeded::Cost {
                    limit: Usd::from_micros(10_000),
                    used: Usd::from_micros(12_000),
                    total: None,
                    loop_total: Some(Usd::from_micros(30_000)),
                    share: false,
                },
                json!({"currency": "cost", "limit": 0.01, "used": 0.012, "loopTotal": 0.03}),
                "used $0.0120 of the $0.0100 left of its loop's $0.0300",
            ),
            (
                BudgetExceeded::Cost {
                    limit: Usd::ZERO,
                    used: Usd::ZERO,
                    total: None,
                    loop_total: Some(Usd::from_micros(30_000)),
                    share: false,
                },
                json!({"currency": "cost", "limit": 0, "used": 0, "loopTotal": 0.03}),
                "nothing is left of its loop's $0.0300",
            ),
            (
                BudgetExceeded::Duration {
                    limit: Duration::from_secs(60),
                    used: Duration::from_secs(61),
                    total: None,
                    loop_total: Some(Duration::from_secs(60)),
                },
                json!({"currency": "duration", "limit": 60.0, "used": 61.0, "loopTotal": 60.0}),
                "used 1m1s of its loop's 1m0s",
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
            loop_total: None,
            share: false,
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
