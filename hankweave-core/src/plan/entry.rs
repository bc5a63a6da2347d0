//! Converts the configuration of a codon in a hank to the form in which the plan keeps it.

use serde_json::Value;

use crate::document::PlannedCodon;
use crate::hank::CodonConfig;

impl From<&CodonConfig> for PlannedCodon {
    fn from(codon: &CodonConfig) -> Self {
        match serde_json::to_value(codon) {
            Ok(Value::Object(object)) => Self::from(object),
            // A codon is a struct with string keys and finite numbers.
            other => unreachable!("a codon serialises to a JSON object, not {other:?}"),
        }
    }
}
