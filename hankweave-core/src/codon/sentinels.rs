//! Record of the sentinels of a codon.
//!
//! [`Sentinels`] is one list of [`SentinelState`]s with its total cost. The type says whether the codon is open ([`Loaded`]) or has ended
//! ([`Executed`]), and with it the JSON key of the list (STATE-12).

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

/// Phase of a codon that is open; the list of its sentinels is stored as `loaded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {}

/// Phase of a codon that has ended; the list of its sentinels is stored as `executed`. The figures of sentinels that act on the end of the codon
/// still change (STATE-29).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executed {}

/// The name of the list in each phase.
pub trait SentinelPhase {
    /// The JSON key of the list.
    const KEY: &'static str;
    /// The JSON key of the list in the other phase.
    const OTHER_KEY: &'static str;
}

impl SentinelPhase for Loaded {
    const KEY: &'static str = "loaded";
    const OTHER_KEY: &'static str = Executed::KEY;
}

impl SentinelPhase for Executed {
    const KEY: &'static str = "executed";
    const OTHER_KEY: &'static str = Loaded::KEY;
}

/// The sentinels of one codon, or nothing for a codon without any.
///
/// The only way from [`Loaded`] to [`Executed`] is [`From`], which the codon machine applies whenever a codon ends (STATE-12).
pub struct Sentinels<P> {
    /// `None` for a codon without sentinels: the codon's record leaves the field out, see [`Sentinels::is_none`].
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
    /// No sentinels: nothing is stored, not even an empty list.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            record: None,
            phase: PhantomData,
        }
    }

    /// The sentinels and their total cost; stored also when the list is empty.
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

    /// Replaces the sentinels and their total cost; names of other versions stay.
    pub fn replace(&mut self, sentinels: Vec<SentinelState>, total_cost: Usd) {
        let record = self.record.get_or_insert_default();
        (record.sentinels, record.total_cost) = (sentinels, total_cost);
    }

    /// Whether nothing is stored, for `skip_serializing_if` of the owner.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.record.is_none()
    }

    /// Returns the sentinels in the order in which they were loaded, and their total cost.
    #[must_use]
    pub fn list_and_cost(&self) -> (&[SentinelState], Usd) {
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

/// Check of a file from outside, with messages for people. [`Deserialize`] refuses wrong values as well, if they did not pass here.
impl<P: SentinelPhase> Shape for Sentinels<P> {
    fn check(checker: &mut Checker, value: &mut Value) {
        let sentinels = required(P::KEY, Vec::<SentinelState>::check);
        checker.object(value, &[sentinels, required("totalCost", Usd::check)]);
        let Value::Object(object) = value else {
            return;
        };
        // `null` means absent.
        remove_null(object, P::OTHER_KEY);
        if object.contains_key(P::OTHER_KEY) {
            let message = format!("stands beside or instead of `{}`", P::KEY);
            checker.within(P::OTHER_KEY, |checker| checker.report(message));
        }
    }
}

impl<'de, P: SentinelPhase> Deserialize<'de> for Sentinels<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let Some(stored) = Option::<StoredSentinels>::deserialize(deserializer)? else {
            return Ok(Self::none());
        };
        let (list, other_list) = if P::KEY == Loaded::KEY {
            (stored.loaded, stored.executed)
        } else {
            (stored.executed, stored.loaded)
        };
        let list = match (list, other_list) {
            (Some(list), None) => list,
            (None, _) => return Err(D::Error::missing_field(P::KEY)),
            (Some(_), Some(_)) => return Err(D::Error::custom("`loaded` and `executed` exclude each other")),
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

/// The JSON of either phase, before the key of the list is checked.
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
    /// Id of the sentinel.
    pub id: SentinelId,
    /// Name of the model that it asks; `command` when it runs a command instead.
    pub model: String,
    /// When it was loaded.
    pub loaded_at: Timestamp,
    /// Number of questions to the model, or runs of the command; failed ones included.
    pub llm_call_count: u64,
    /// Number of failures: questions and runs without a usable answer, and answers that could not be written to their file.
    #[serde(rename = "failedLLMCalls")]
    pub failed_llm_calls: u64,
    /// When the model was last asked, or the command last started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_llm_call_at: Option<Timestamp>,
    /// How often the trigger fired; 0 in files that do not have the field.
    #[serde(default)]
    pub total_triggers: u64,
    /// Cost of the answers, in US dollars.
    pub total_cost: Usd,
    /// Number of requests whose cost is not, or not wholly, in `totalCost`: without an answer yet, cut off, or without a price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted_requests: u64,
    /// Whether it still watches.
    pub status: SentinelStatus,
    /// When it was unloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unloaded_at: Option<Timestamp>,
    /// Why it was unloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unload_reason: Option<UnloadReason>,
    /// Start of its last answer; absent when `reportToWebsocket` keeps answers from clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    /// Start of its last failure; absent when `reportToWebsocket` keeps errors from clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl SentinelState {
    /// Whether it may have cost more than `total_cost`.
    #[must_use]
    pub const fn cost_is_lower_bound(&self) -> bool {
        self.uncounted_requests > 0
    }

    /// Whether a question or a run of its command has failed, or an answer could not be written.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failed_llm_calls > 0
    }

    /// Returns what people should know of the sentinel: its last answer, its failures, and that it was unloaded early.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let id = &self.id;
        let last_answer = self.last_answer.as_ref();
        let answer_remark = last_answer.map(|answer| format!("sentinel {id}: {answer}"));
        let times = match self.failed_llm_calls {
            0 | 1 => String::new(),
            times => format!(" {times} times"),
        };
        let last_failure = self.last_failure.as_ref();
        let failure_remark = last_failure.map(|failure| format!("sentinel {id} failed{times}: {failure}"));
        let early_end = match self.unload_reason {
            Some(UnloadReason::FatalError) => Some("it could not continue"),
            Some(UnloadReason::ConsecutiveFailures) => Some("too many failures in a row"),
            Some(UnloadReason::BudgetReached) => Some("its maxDollars are spent"),
            Some(UnloadReason::CodonComplete | UnloadReason::Shutdown) | None => None,
        };
        let end_remark = early_end.map(|why| format!("sentinel {id} watched no longer: {why}"));
        answer_remark.into_iter().chain(failure_remark).chain(end_remark)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Whether a sentinel still watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SentinelStatus {
    /// The sentinel watches, or acts on what it has seen.
    Active,
    /// The sentinel does nothing any more.
    Unloaded,
}

/// Why a sentinel was unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnloadReason {
    /// The codon of the sentinel ended.
    CodonComplete,
    /// A failure that would come again.
    FatalError,
    /// The `maxDollars` of the sentinel are spent.
    BudgetReached,
    /// Too many failures in a row.
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

    // covers: SENT-25
    #[test]
    fn a_remark_on_an_early_end_gives_its_reason_also_when_the_failures_are_not_reported() {
        let mut state: SentinelState = serde_json::from_str(
            r#"{"id":"x","model":"command","loadedAt":"2026-01-01T00:00:00.000Z","llmCallCount":4,"failedLLMCalls":3,
                "totalCost":0,"status":"unloaded","unloadReason":"consecutive-failures","lastAnswer":"fine"}"#,
        )
        .unwrap();
        let remarks: Vec<String> = state.remarks().collect();
        let end = "sentinel x watched no longer: too many failures in a row";
        assert_eq!(remarks, ["sentinel x: fine", end]);
        state.last_failure = Some("no".to_owned());
        state.unload_reason = Some(UnloadReason::FatalError);
        let remarks: Vec<String> = state.remarks().collect();
        let end = "sentinel x watched no longer: it could not continue";
        assert_eq!(
            remarks,
            ["sentinel x: fine", "sentinel x failed 3 times: no", end]
        );
    }
}
