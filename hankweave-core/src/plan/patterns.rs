//! Collects the patterns of `checkpointedFiles` that count for a checkpoint: those of its codon and of all codons before it in the plan (HANK-19).

use std::collections::HashSet;

use crate::document::{HankweaveState, PlanEntry, SharedList};
use crate::id::CodonId;

/// The patterns of `checkpointedFiles` from the first entry of a plan to one of its entries, each once.
///
/// A run asks for one entry after the other, so the patterns are kept, and each entry of the plan is read once.
#[derive(Debug, Default)]
pub struct DeclaredPatterns {
    patterns: Vec<String>,
    known: HashSet<String>,
    /// Number of entries at the front of the plan that were read.
    counted: usize,
    /// Last of these entries.
    last: Option<CodonId>,
}

impl DeclaredPatterns {
    /// Returns the patterns of all codons of the plan. The result is empty, which means every file, if the first codon has no patterns: its checkpoint takes
    /// every file, and each later checkpoint keeps them.
    #[must_use]
    pub fn of(plan: &SharedList<PlanEntry>) -> Vec<String> {
        let mut declared = Self::default();
        let first = plan.get(0).map(|entry| entry.codon.checkpointed_files());
        if first.is_none_or(|mut patterns| patterns.next().is_none()) {
            return Vec::new();
        }
        declared.count(plan, plan.len());
        declared.patterns
    }

    /// Returns the patterns that count for a checkpoint of the codon `id`. `state` is a later version of the document of the last call.
    pub fn until(&mut self, state: &HankweaveState, id: &CodonId) -> &[String] {
        let plan = &state.execution_plan;
        let end = state.planned_at(id).map_or(plan.len(), |position| position + 1);
        let last = self.counted.checked_sub(1).and_then(|last| plan.get(last));
        // A plan changes only after the codons that have ended. So the entries read so far count, unless the plan was replaced or the codon is an earlier one.
        if end < self.counted || last.map(|entry| &entry.codon_id) != self.last.as_ref() {
            *self = Self::default();
        }
        self.count(plan, end);
        &self.patterns
    }

    fn count(&mut self, plan: &SharedList<PlanEntry>, end: usize) {
        for entry in plan.range(self.counted..end) {
            for pattern in entry.codon.checkpointed_files() {
                if !self.known.contains(pattern) {
                    self.known.insert(pattern.to_owned());
                    self.patterns.push(pattern.to_owned());
                }
            }
        }
        self.counted = end;
        self.last = end.checked_sub(1).map(|last| plan[last].codon_id.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(entries: &[(&str, &[&str])]) -> HankweaveState {
        let entry = |(id, files): &(&str, &[&str])| {
            serde_json::from_value(
                serde_json::json!({"codonId": id, "codon": {"id": id, "checkpointedFiles": files}}),
            )
            .unwrap()
        };
        HankweaveState {
            execution_plan: entries.iter().map(entry).collect(),
            ..HankweaveState::default()
        }
    }

    // covers: HANK-19
    #[test]
    fn patterns_of_a_run_that_continues_are_those_of_the_plan_up_to_each_codon() {
        let id = |text: &str| CodonId::new(text).unwrap();
        let first = state(&[("a", &["x", "y"]), ("b", &["y", "z"]), ("c", &["w"])]);
        let mut declared = DeclaredPatterns::default();
        assert_eq!(declared.until(&first, &id("a")), ["x", "y"]);
        assert_eq!(declared.until(&first, &id("b")), ["x", "y", "z"]);
        assert_eq!(declared.until(&first, &id("b")), ["x", "y", "z"]);
        // A rollback, or another codon that is chosen.
        assert_eq!(declared.until(&first, &id("a")), ["x", "y"]);
        assert_eq!(declared.until(&first, &id("c")), ["x", "y", "z", "w"]);
        let other = state(&[("a", &["x"]), ("d", &["v"]), ("e", &[])]);
        assert_eq!(declared.until(&other, &id("e")), ["x", "v"]);
        assert_eq!(declared.until(&other, &id("unknown")), ["x", "v"]);
        assert_eq!(DeclaredPatterns::of(&first.execution_plan), ["x", "y", "z", "w"]);
        let every_file = state(&[("a", &[]), ("b", &["y"])]);
        assert!(DeclaredPatterns::of(&every_file.execution_plan).is_empty());
    }
}
