//! What the events of a run say about a task (TASK-54).

use serde_json::{Map, Value, json};

/// Something that is worth a line in the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Milestone {
    /// A codon's agent works.
    Started(String),
    /// A codon has ended.
    Ended {
        /// The codon.
        codon: String,
        /// Whether it did what it should.
        success: bool,
        /// What the event says about it.
        data: Value,
    },
}

/// How far a run has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Progress {
    running: Option<String>,
    codons: Vec<Value>,
    cost: f64,
}

impl Progress {
    /// Takes one line that the run has printed; what is no event of a codon says nothing.
    pub(super) fn take(&mut self, line: &[u8]) -> Option<Milestone> {
        let event: Value = serde_json::from_slice(line).ok()?;
        let data = &event["data"];
        let codon = || data["codonId"].as_str().map(str::to_owned);
        match event["type"].as_str()? {
            "codon.started" => {
                self.running = codon();
                Some(Milestone::Started(codon()?))
            }
            "codon.completed" => Some(self.ended(codon()?, data)),
            _ => None,
        }
    }

    fn ended(&mut self, codon: String, data: &Value) -> Milestone {
        let cost = data["cost"].as_f64().unwrap_or(0.0) + data["sentinelCost"].as_f64().unwrap_or(0.0);
        let success = data["success"].as_bool().unwrap_or(false);
        self.cost += cost;
        self.running = None;
        let data = json!({
            "id": codon, "success": success, "cost": cost, "duration": data["duration"],
        });
        self.codons.push(data.clone());
        Milestone::Ended { codon, success, data }
    }

    /// How many codons ended so far.
    pub(super) fn ended_codons(&self) -> usize {
        self.codons.len()
    }

    /// In US dollars.
    pub(super) fn cost(&self) -> f64 {
        self.cost
    }

    /// Writes it into the data of a state: what this try has done.
    pub(super) fn put_into(&self, attempt: u32, data: &mut Map<String, Value>) {
        data.insert("attempt".into(), json!(attempt));
        data.insert("running".into(), json!(self.running));
        data.insert("codons".into(), Value::Array(self.codons.clone()));
        data.insert("cost".into(), json!(self.cost));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-54
    #[test]
    fn events_of_codons_are_counted_and_others_say_nothing() {
        let mut progress = Progress::default();
        let mut take = |event: Value| progress.take(event.to_string().as_bytes());
        assert_eq!(take(json!({"type": "info", "data": {}})), None);
        let started = take(json!({"type": "codon.started", "data": {"codonId": "draft"}}));
        assert_eq!(started, Some(Milestone::Started("draft".into())));
        let ended = json!({"type": "codon.completed", "data": {"codonId": "draft", "success": true, "cost": 0.25, "sentinelCost": 0.5, "duration": 7}});
        let Some(Milestone::Ended { codon, success, .. }) = take(ended) else {
            panic!("it has ended")
        };
        assert_eq!((codon.as_str(), success), ("draft", true));
        assert_eq!(progress.take(b"no json"), None);
        let mut data = Map::new();
        progress.put_into(2, &mut data);
        let codon = json!({"id": "draft", "success": true, "cost": 0.75, "duration": 7});
        assert_eq!(
            Value::Object(data),
            json!({"attempt": 2, "running": null, "codons": [codon], "cost": 0.75})
        );
    }
}
