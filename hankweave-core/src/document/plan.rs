//! The execution plan of state.json, and its extension when a loop continues or ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::codon::LoopContext;
use crate::hank::{OnFailure, agent_for_model, agent_words};
use crate::id::CodonId;
use crate::shape::{Checker, Shape};

use super::SharedList;

/// One step of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlanEntry {
    /// The configuration of the codon, never of a loop.
    pub codon: PlannedCodon,
    /// The id it runs under: inside a loop with the iteration after it, such as `review#0`.
    pub codon_id: CodonId,
    /// Its place in a loop, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_context: Option<LoopContext>,
    /// Fields that this version does not know; kept and written back.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Map<String, Value>,
}

/// The configuration of a codon as the plan keeps it: the JSON object as it is, so that a plan written by
/// another version survives being read and written.
///
/// The values of its variables are left out: they are not needed here, and every reader would see them. The iterations of a loop share one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct PlannedCodon(#[serde(deserialize_with = "without_values")] Arc<Map<String, Value>>);

/// Written instead of the value of a variable.
const NOT_RECORDED: &str = "[not recorded]";

fn without_values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Map<String, Value>>, D::Error> {
    let mut codon = Map::deserialize(deserializer)?;
    conceal(&mut codon);
    Ok(Arc::new(codon))
}

/// Removes the values, not the names, of the variables of a codon, of its fallbacks, and of their MCP servers (X10).
fn conceal(codon: &mut Map<String, Value>) {
    conceal_agent(codon);
    let fallbacks = codon.get_mut("fallback").and_then(Value::as_array_mut);
    let fallbacks = fallbacks.into_iter().flatten();
    fallbacks.filter_map(Value::as_object_mut).for_each(conceal_agent);
}

fn conceal_agent(agent: &mut Map<String, Value>) {
    conceal_variables(agent.get_mut("env"));
    let servers = agent.get_mut("mcpServers").and_then(Value::as_object_mut);
    for (_, server) in servers.into_iter().flatten() {
        conceal_variables(server.get_mut("env"));
    }
}

fn conceal_variables(variables: Option<&mut Value>) {
    let variables = variables.and_then(Value::as_object_mut);
    for (_, value) in variables.into_iter().flatten() {
        *value = Value::from(NOT_RECORDED);
    }
}

impl PlannedCodon {
    /// The id of hank.json.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.string("id")
    }

    /// The name for people.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.string("name")
    }

    /// Whether the agent resumes the conversation of the codon before.
    #[must_use]
    pub fn continues_previous(&self) -> bool {
        self.string("continuationMode") == Some("continue-previous")
    }

    /// The id in hank.json of the codon whose conversation is copied for this one.
    #[must_use]
    pub fn forked(&self) -> Option<&str> {
        self.0.get("continuationMode")?.get("fork")?.as_str()
    }

    /// Returns whether the agent continues the conversation of an earlier codon, in its session or in a copy.
    #[must_use]
    pub fn continues(&self) -> bool {
        self.continues_previous() || self.forked().is_some()
    }

    /// Returns the failure policy.
    #[must_use]
    pub fn on_failure(&self) -> OnFailure {
        match self.string("onFailure") {
            Some("retry") => OnFailure::Retry,
            Some("ignore") => OnFailure::Ignore,
            _ => OnFailure::Abort,
        }
    }

    /// The globs of `checkpointedFiles`.
    pub fn checkpointed_files(&self) -> impl Iterator<Item = &str> {
        let globs = self.0.get("checkpointedFiles").and_then(Value::as_array);
        globs.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns agent, script and model for people.
    #[must_use]
    pub fn agent_words(&self) -> String {
        let model = self.string("model");
        let script = || self.0.get("agent")?.get("script")?.as_str();
        let agent = match self.0.get("agent") {
            Some(Value::String(name)) => name,
            Some(program) if program.get("script").is_some() => "scripted",
            Some(program) if program.get("acp").is_some() => "acp",
            Some(_) => "command",
            None => model.map_or("scripted", agent_for_model),
        };
        agent_words(agent, script(), model)
    }

    /// The whole configuration.
    #[must_use]
    pub fn as_json(&self) -> &Map<String, Value> {
        &self.0
    }

    fn string(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }
}

impl Shape for PlannedCodon {
    fn check(checker: &mut Checker, value: &mut Value) {
        Map::check(checker, value);
    }
}

impl From<Map<String, Value>> for PlannedCodon {
    fn from(mut object: Map<String, Value>) -> Self {
        conceal(&mut object);
        Self(Arc::new(object))
    }
}

/// How a loop continues in the plan, or how it ends: what follows one of its codons.
///
/// A whole plan for each iteration would make a record of a long loop that grows with the square of its iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlanExtension {
    /// The codon after which the plan changes.
    pub after: CodonId,
    /// How many entries after it are dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u32,
    /// The entries that follow it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<AddedEntry>,
}

/// An entry that is added to a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AddedEntry {
    /// The id it runs under.
    pub codon_id: CodonId,
    /// Its place in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_context: Option<LoopContext>,
    /// The entry of the plan with an equal configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<CodonId>,
    /// The configuration, where the plan does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codon: Option<PlannedCodon>,
}

/// Why a plan cannot be extended in this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MisfitExtension {
    /// The extension names a codon that the plan does not have.
    #[error("codon `{0}` is not in the plan")]
    Unknown(CodonId),
    /// The extension drops more entries than follow.
    #[error("less than {0} entries follow in the plan")]
    TooFew(u32),
    /// The extension adds a codon that the plan has.
    #[error("codon `{0}` is in the plan twice")]
    Twice(CodonId),
    /// An added entry has neither a configuration nor an entry to take one from.
    #[error("codon `{0}` has no configuration")]
    NoConfiguration(CodonId),
}

impl AddedEntry {
    /// Makes the addition of `entry` to `plan`. If the newest entry of the codon in the plan has an equal configuration, the addition refers to that entry.
    #[must_use]
    pub fn of(entry: PlanEntry, plan: &SharedList<PlanEntry>) -> Self {
        let configured = entry.codon_id.configured();
        let mut newest_first = plan.iter().rev();
        let like = newest_first.find(|known| known.codon_id.configured() == configured);
        let like = like.filter(|known| known.codon == entry.codon);
        Self {
            like: like.map(|known| known.codon_id.clone()),
            codon: like.is_none().then_some(entry.codon),
            codon_id: entry.codon_id,
            loop_context: entry.loop_context,
        }
    }

    /// Returns the entry of the plan whose configuration this one has.
    fn refers_to(&self) -> Option<&CodonId> {
        self.like.as_ref().filter(|_| self.codon.is_none())
    }

    /// Returns the entry to add, with its configuration; `known` has those of the plan.
    fn in_plan(&self, known: &BTreeMap<&CodonId, PlannedCodon>) -> Result<PlanEntry, MisfitExtension> {
        let codon = match (&self.codon, &self.like) {
            (Some(codon), _) => codon.clone(),
            (None, Some(like)) => {
                let codon = known.get(like).cloned();
                codon.ok_or_else(|| MisfitExtension::Unknown(like.clone()))?
            }
            (None, None) => return Err(MisfitExtension::NoConfiguration(self.codon_id.clone())),
        };
        Ok(PlanEntry {
            codon,
            codon_id: self.codon_id.clone(),
            loop_context: self.loop_context.clone(),
            extra: Map::new(),
        })
    }
}

impl PlanExtension {
    /// Changes `plan`; after an error the plan is as before. Returns the position of the first changed entry.
    ///
    /// # Errors
    ///
    /// [`MisfitExtension`] when the extension was not made for this plan.
    pub fn extend(&self, plan: &mut SharedList<PlanEntry>) -> Result<usize, MisfitExtension> {
        let start = position(plan, &self.after)? + 1;
        let dropped = usize::try_from(self.dropped).unwrap_or(usize::MAX);
        let end = start.checked_add(dropped).filter(|end| *end <= plan.len());
        let end = end.ok_or(MisfitExtension::TooFew(self.dropped))?;
        let known = self.configurations(plan);
        let entries = self.entries.iter().map(|entry| entry.in_plan(&known));
        let entries: Vec<PlanEntry> = entries.collect::<Result<_, _>>()?;
        let kept = plan.range(0..start).chain(plan.range(end..plan.len()));
        if let Some(twice) = self.find_twice(kept) {
            return Err(MisfitExtension::Twice(twice.clone()));
        }
        plan.splice(start..end, entries);
        Ok(start)
    }

    /// Returns the configurations of `plan` that entries refer to. The search starts at the end, near which a loop grows.
    fn configurations(&self, plan: &SharedList<PlanEntry>) -> BTreeMap<&CodonId, PlannedCodon> {
        let mut wanted: BTreeSet<&CodonId> = self.entries.iter().filter_map(AddedEntry::refers_to).collect();
        let mut found = BTreeMap::new();
        let mut newest_first = plan.iter().rev();
        while !wanted.is_empty()
            && let Some(entry) = newest_first.next()
        {
            if let Some(id) = wanted.take(&entry.codon_id) {
                found.insert(id, entry.codon.clone());
            }
        }
        found
    }

    /// Returns an id that two added entries have, or an added and a kept one.
    fn find_twice<'p>(&self, mut kept: impl Iterator<Item = &'p PlanEntry>) -> Option<&CodonId> {
        let mut added: Vec<&CodonId> = self.entries.iter().map(|entry| &entry.codon_id).collect();
        added.sort_unstable();
        let adjacent = added.windows(2).find(|pair| pair[0] == pair[1]);
        adjacent.map(|pair| pair[0]).or_else(|| {
            let position = kept.find_map(|entry| added.binary_search(&&entry.codon_id).ok());
            position.map(|position| added[position])
        })
    }
}

/// Returns the position of the codon. The search starts at the end, near which a loop grows.
fn position(plan: &SharedList<PlanEntry>, id: &CodonId) -> Result<usize, MisfitExtension> {
    let found = plan.iter().rposition(|entry| entry.codon_id == *id);
    found.ok_or_else(|| MisfitExtension::Unknown(id.clone()))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Reads a plan and shares equal configurations: for a loop of ten thousand iterations the file has as many copies of one.
pub(crate) fn read_plan<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SharedList<PlanEntry>, D::Error> {
    deserializer.deserialize_seq(PlanVisitor)
}

/// [`read_plan`] for a plan that may be absent.
pub(crate) fn read_optional_plan<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SharedList<PlanEntry>>, D::Error> {
    #[derive(Deserialize)]
    struct Plan(#[serde(deserialize_with = "read_plan")] SharedList<PlanEntry>);
    let plan = Option::<Plan>::deserialize(deserializer)?;
    Ok(plan.map(|Plan(plan)| plan))
}

struct PlanVisitor;

impl<'de> Visitor<'de> for PlanVisitor {
    type Value = SharedList<PlanEntry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of plan entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut known: HashMap<String, PlannedCodon> = HashMap::new();
        let mut plan = SharedList::new();
        while let Some(mut entry) = entries.next_element::<PlanEntry>()? {
            let configured = entry.codon_id.configured();
            match known.get(configured) {
                Some(same) if *same == entry.codon => entry.codon = same.clone(),
                Some(_) | None => drop(known.insert(configured.to_owned(), entry.codon.clone())),
            }
            plan.push(entry);
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &str = r#"{"codon":{"id":"review","name":"Review Iteration","x":1},"codonId":"review#1","loopContext":{"loopId":"review-loop","iteration":1,"codonIndexInLoop":0},"later":true}"#;

    #[test]
    fn an_entry_is_read_and_written_word_for_word() {
        let entry: PlanEntry = serde_json::from_str(STORED).unwrap();
        assert_eq!(serde_json::to_string(&entry).unwrap(), STORED);
        assert_eq!(
            (entry.codon.id(), entry.codon.name()),
            (Some("review"), Some("Review Iteration"))
        );
        assert!(!entry.codon.continues_previous());
    }

    // covers: X10
    #[test]
    fn of_variables_the_plan_keeps_the_names_alone() {
        let stored = r#"{"codon":{"id":"a","env":{"API_KEY":"sesame"},
            "mcpServers":{"docs":{"command":"x","env":{"OTHER":"sesame"}}},
            "fallback":[{"env":{"API_KEY":"sesame"},"mcpServers":{"docs":{"command":"x","env":{"OTHER":"sesame"}}}}]},"codonId":"a"}"#;
        let read: PlanEntry = serde_json::from_str(stored).unwrap();
        let made = PlannedCodon::from(
            serde_json::from_str::<Map<String, Value>>(stored).unwrap()["codon"]
                .as_object()
                .unwrap()
                .clone(),
        );
        assert_eq!(read.codon, made);
        let written = serde_json::to_string(&read).unwrap();
        assert!(!written.contains("sesame"), "{written}");
        assert!(
            written.contains("API_KEY") && written.contains("OTHER"),
            "{written}"
        );
        assert_eq!(serde_json::from_str::<PlanEntry>(&written).unwrap(), read);
    }

    fn plan(ids: &[&str]) -> SharedList<PlanEntry> {
        let entry = |id: &&str| {
            let configured = id.split('#').next().unwrap();
            let text = format!(r#"{{"codon":{{"id":"{configured}"}},"codonId":"{id}"}}"#);
            serde_json::from_str(&text).unwrap()
        };
        ids.iter().map(entry).collect()
    }

    fn ids(plan: &SharedList<PlanEntry>) -> Vec<&str> {
        plan.iter().map(|entry| entry.codon_id.as_str()).collect()
    }

    fn extension(text: &str) -> PlanExtension {
        serde_json::from_str(text).unwrap()
    }

    // covers: STATE-31
    #[test]
    fn an_extension_adds_drops_and_refers_or_changes_nothing() {
        let begun = plan(&["a#0", "b#0", "z"]);
        let mut grown = begun.clone();
        let next = extension(
            r#"{"after":"b#0","entries":[{"codonId":"a#1","like":"a#0"},{"codonId":"b#1","codon":{"id":"b"}}]}"#,
        );
        assert_eq!(next.extend(&mut grown), Ok(2));
        assert_eq!(grown, plan(&["a#0", "b#0", "a#1", "b#1", "z"]));
        assert!(Arc::ptr_eq(&grown[0].codon.0, &grown[2].codon.0));
        extension(r#"{"after":"a#1","dropped":1}"#)
            .extend(&mut grown)
            .unwrap();
        assert_eq!(ids(&grown), ["a#0", "b#0", "a#1", "z"]);
        for misfit in [
            r#"{"after":"gone"}"#,
            r#"{"after":"z","dropped":1}"#,
            r#"{"after":"z","entries":[{"codonId":"a#0","like":"a#0"}]}"#,
            r#"{"after":"z","entries":[{"codonId":"x","like":"z"},{"codonId":"x","like":"z"}]}"#,
            r#"{"after":"z","entries":[{"codonId":"x","like":"gone"}]}"#,
            r#"{"after":"z","entries":[{"codonId":"x"}]}"#,
        ] {
            let mut same = begun.clone();
            assert!(extension(misfit).extend(&mut same).is_err(), "{misfit}");
            assert_eq!(same, begun, "{misfit}");
        }
    }

    /// A search through the plan for each entry would take minutes.
    // covers: STATE-31
    #[test]
    fn an_extension_as_long_as_its_plan_is_added_in_one_pass() {
        const LENGTH: usize = 60_000;
        let list = |from: usize| (from..from + LENGTH).map(|number| format!("a#{number}"));
        let stays: Vec<String> = list(0).collect();
        let mut grown = plan(&stays.iter().map(String::as_str).collect::<Vec<_>>());
        let like = |id: String, like: String| AddedEntry {
            codon_id: id.parse().unwrap(),
            loop_context: None,
            like: Some(like.parse().unwrap()),
            codon: None,
        };
        let extension = PlanExtension {
            after: grown.last().unwrap().codon_id.clone(),
            dropped: 0,
            entries: list(LENGTH).zip(stays).map(|(id, of)| like(id, of)).collect(),
        };
        assert_eq!(extension.extend(&mut grown), Ok(LENGTH));
        assert_eq!(grown.len(), 2 * LENGTH);
        assert!(Arc::ptr_eq(&grown[7].codon.0, &grown[LENGTH + 7].codon.0));
    }

    #[test]
    fn a_plan_that_is_read_has_equal_configurations_once() {
        let entry =
            |id: &str, name: &str| format!(r#"{{"codon":{{"id":"a","name":"{name}"}},"codonId":"{id}"}}"#);
        let text = format!(
            "[{},{},{}]",
            entry("a#0", "x"),
            entry("a#1", "x"),
            entry("a#2", "y")
        );
        let read = read_plan(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(Arc::ptr_eq(&read[0].codon.0, &read[1].codon.0));
    }

    #[test]
    fn a_null_loop_context_is_none() {
        let entry: PlanEntry =
            serde_json::from_str(r#"{"codon":{},"codonId":"a","loopContext":null}"#).unwrap();
        assert_eq!(entry.loop_context, None);
    }
}
