//! Recorded sentinels of a codon.

use std::fmt;
use std::marker::PhantomData;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::cost::Usd;
use crate::id::SentinelId;
use crate::machine::Extra;
use crate::shape::{Checker, Shape, remove_null, required};
use crate::time::Timestamp;

/// The phase in which sentinels still work; their list is stored as `loaded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {}

/// The phase in which nothing about the sentinels can change any more; their list is stored as `executed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executed {}

/// The name of the list in each phase.
pub trait SentinelPhase {
    /// The JSON key of the list.
    const KEY: &'static str;
}

impl SentinelPhase for Loaded {
    const KEY: &'static str = "loaded";
}

impl SentinelPhase for Executed {
    const KEY: &'static str = "executed";
}

/// The sentinels of one codon, or nothing for a codon without any.
///
/// The only way from `loaded` to `executed` is the conversion below, which the codon machine applies whenever a codon ends (STATE-12).
pub struct Sentinels<P> {
    record: Option<Box<SentinelsRecord>>,
    phase: PhantomData<P>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct SentinelsRecord {
    sentinels: Vec<SentinelState>,
    total_cost: Usd,
    /// Names that other versions wrote; kept as they are.
    extra: Extra,
}

impl<P> Sentinels<P> {
    /// No sentinels at all: the field is absent.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            record: None,
            phase: PhantomData,
        }
    }

    /// The sentinels and what they cost together.
    #[must_use]
    pub fn new(sentinels: Vec<SentinelState>, total_cost: Usd) -> Self {
        Self {
            record: Some(Box::new(SentinelsRecord {
                sentinels,
                total_cost,
                extra: Extra::default(),
            })),
            phase: PhantomData,
        }
    }

    /// Replaces the sentinels and what they cost together; names of other versions stay.
    pub fn replace(&mut self, sentinels: Vec<SentinelState>, total_cost: Usd) {
        let record = self.record.get_or_insert_default();
        (record.sentinels, record.total_cost) = (sentinels, total_cost);
    }

    /// Whether the field is absent.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.record.is_none()
    }

    /// The sentinels in the order in which they were loaded, and what they cost together.
    #[must_use]
    pub fn recorded(&self) -> (&[SentinelState], Usd) {
        let record = self.record.as_deref();
        record.map_or((&[], Usd::ZERO), |record| (&record.sentinels, record.total_cost))
    }
}

impl From<Sentinels<Loaded>> for Sentinels<Executed> {
    fn from(loaded: Sentinels<Loaded>) -> Self {
        Self {
            record: loaded.record,
            phase: PhantomData,
        }
    }
}

impl<P> Default for Sentinels<P> {
    fn default() -> Self {
        Self::none()
    }
}

impl<P> Clone for Sentinels<P> {
    fn clone(&self) -> Self {
        Self {
            record: self.record.clone(),
            phase: PhantomData,
        }
    }
}

impl<P> PartialEq for Sentinels<P> {
    fn eq(&self, other: &Self) -> bool {
        self.record == other.record
    }
}

impl<P> fmt::Debug for Sentinels<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.record, f)
    }
}

impl<P: SentinelPhase> Serialize for Sentinels<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(record) = &self.record else {
            return serializer.serialize_none();
        };
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry(P::KEY, &record.sentinels)?;
        object.serialize_entry("totalCost", &record.total_cost)?;
        for (name, value) in record.extra.iter() {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

/// `loaded` until the codon ends and `executed` afterwards, never both (STATE-12).
impl<P: SentinelPhase> Shape for Sentinels<P> {
    fn check(checker: &mut Checker, value: &mut Value) {
        let sentinels = required(P::KEY, Vec::<SentinelState>::check);
        checker.object(value, &[sentinels, required("totalCost", Usd::check)]);
        let Value::Object(object) = value else {
            return;
        };
        let other = match P::KEY {
            Loaded::KEY => Executed::KEY,
            _ => Loaded::KEY,
        };
        remove_null(object, other);
        if object.contains_key(other) {
            let message = format!("stands beside or instead of `{}`", P::KEY);
            checker.within(other, |checker| checker.report(message));
        }
    }
}

impl<'de, P: SentinelPhase> Deserialize<'de> for Sentinels<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let Some(stored) = Option::<StoredSentinels>::deserialize(deserializer)? else {
            return Ok(Self::none());
        };
        let list = match (P::KEY, stored.loaded, stored.executed) {
            ("loaded", Some(list), None) | ("executed", None, Some(list)) => list,
            ("loaded", None, _) => return Err(D::Error::missing_field("loaded")),
            (_, _, None) => return Err(D::Error::missing_field("executed")),
            _ => return Err(D::Error::custom("`loaded` and `executed` exclude each other")),
        };
        let record = SentinelsRecord {
            sentinels: list,
            total_cost: stored.total_cost,
            extra: stored.extra,
        };
        Ok(Self {
            record: Some(Box::new(record)),
            phase: PhantomData,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredSentinels {
    loaded: Option<Vec<SentinelState>>,
    executed: Option<Vec<SentinelState>>,
    total_cost: Usd,
    #[serde(flatten)]
    extra: Extra,
}

/// The record of one sentinel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SentinelState {
    /// Which sentinel.
    pub id: SentinelId,
    /// The model that it asks.
    pub model: String,
    /// When it was loaded.
    pub loaded_at: Timestamp,
    /// Calls of the model, failed ones included.
    pub llm_call_count: u64,
    /// Calls of the model that failed.
    #[serde(rename = "failedLLMCalls")]
    pub failed_llm_calls: u64,
    /// When the model was called last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_llm_call_at: Option<Timestamp>,
    /// How often the trigger fired; 0 in files that do not have the field.
    #[serde(default)]
    pub total_triggers: u64,
    /// Cost of the calls, in US dollars.
    pub total_cost: Usd,
    /// Requests that may have cost more than `totalCost` has of them: those without an answer yet, those that were cut off, and those without a price.
    #[serde(default, skip_serializing_if = "is_none")]
    pub uncounted_requests: u64,
    /// Whether it still watches.
    pub status: SentinelStatus,
    /// When it stopped watching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unloaded_at: Option<Timestamp>,
    /// Why it stopped watching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unload_reason: Option<UnloadReason>,
    /// Its last answer, cut; absent when its answers are not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    /// Its last failure, cut; absent when its failures are not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl SentinelState {
    /// Whether it has cost more than is known.
    #[must_use]
    pub const fn cost_is_lower_bound(&self) -> bool {
        self.uncounted_requests > 0
    }

    /// Whether a question or command of it has failed.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failed_llm_calls > 0
    }

    /// Returns what people should know of it: its last answer, its failures, and that it stopped watching early.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let id = &self.id;
        let answer = self.last_answer.as_ref();
        let answer = answer.map(|answer| format!("sentinel {id}: {answer}"));
        let times = match self.failed_llm_calls {
            0 | 1 => String::new(),
            times => format!(" {times} times"),
        };
        let failure = self.last_failure.as_ref();
        let failure = failure.map(|failure| format!("sentinel {id} failed{times}: {failure}"));
        let early = match self.unload_reason {
            Some(UnloadReason::FatalError | UnloadReason::ConsecutiveFailures) => {
                Some(format!("sentinel {id} watched no longer after that"))
            }
            Some(UnloadReason::BudgetReached) => Some(format!(
                "sentinel {id} watched no longer: its maxDollars are spent"
            )),
            Some(UnloadReason::CodonComplete | UnloadReason::Shutdown) | None => None,
        };
        answer.into_iter().chain(failure).chain(early)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Whether a sentinel still watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SentinelStatus {
    /// It watches.
    Active,
    /// It was taken out of service.
    Unloaded,
}

/// Why a sentinel was taken out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnloadReason {
    /// Its codon ended.
    CodonComplete,
    /// It could not continue.
    FatalError,
    /// Its `maxDollars` are spent.
    BudgetReached,
    /// Too many calls of the model failed in a row.
    ConsecutiveFailures,
    /// The runtime shut down.
    Shutdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: STATE-12
    #[test]
    fn the_list_changes_its_name_when_the_codon_ends() {
        let loaded: Sentinels<Loaded> = serde_json::from_str(r#"{"loaded":[],"totalCost":0.5}"#).unwrap();
        let executed = Sentinels::<Executed>::from(loaded);
        assert_eq!(
            serde_json::to_string(&executed).unwrap(),
            r#"{"executed":[],"totalCost":0.5}"#
        );
    }

    // covers: STATE-12
    #[test]
    fn the_wrong_list_or_both_lists_are_refused() {
        for text in [
            r#"{"executed":[],"totalCost":0}"#,
            r#"{"loaded":[],"executed":[],"totalCost":0}"#,
        ] {
            assert!(serde_json::from_str::<Sentinels<Loaded>>(text).is_err(), "{text}");
        }
    }
}
