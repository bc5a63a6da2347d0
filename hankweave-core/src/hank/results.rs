//! Results of codons: the JSON answers that later prompts and commands use (HANK-90).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::id::CodonId;

/// The newest result of each codon, by its id in hank.json.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results(pub(super) BTreeMap<String, Value>);

impl Results {
    /// Adds the result of a codon, unless a newer one of that codon is present. For callers that go through a history from its newest codon back.
    pub fn add_older(&mut self, codon: &CodonId, result: impl FnOnce() -> Option<Value>) {
        let id = codon.configured();
        if self.0.contains_key(id) {
            return;
        }
        if let Some(result) = result() {
            self.0.insert(id.to_owned(), result);
        }
    }

    /// Sets the newest result of a codon.
    pub fn set(&mut self, codon: &CodonId, result: Value) {
        self.0.insert(codon.configured().to_owned(), result);
    }

    /// Returns all results in one object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone().into_iter().collect())
    }
}
