//! Inputs of a run's costs: prices of models, and each codon's settings of its agent. They are kept in its folder, so that its costs can be computed again later,
//! by another version with another list of prices (RUN-22).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use hankweave_core::codon::ChosenAgent;
use hankweave_core::cost::pricing::{ModelRate, Prices};
use hankweave_core::hank::{AgentChoice, CodonConfig, Hank};
use hankweave_core::id::{CodonId, RunId};
use serde::{Deserialize, Serialize};

use crate::paths::ExecutionDir;
use crate::world::disk::{Disk, read_if_present};

/// A larger file is not one of ours.
const MAX_BYTES: u64 = 4 << 20;

/// Inputs of one run's costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counting {
    pub(crate) prices: Arc<Prices>,
    codons: BTreeMap<String, CodonPricing>,
}

/// Settings of an agent that shape its reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CodonPricing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The way to sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auth: Option<String>,
}

/// The file. Its prices are in the form of a file of prices.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    as_of: String,
    models: BTreeMap<String, ModelRate>,
    /// The source of each price that the user gave, which counts before what an agent reports; older versions did not note it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    given: BTreeMap<String, String>,
    codons: BTreeMap<String, CodonPricing>,
}

impl Counting {
    /// Returns the inputs of a run of this hank.
    pub(crate) fn of(hank: &Hank, prices: &Arc<Prices>) -> Self {
        let asked = |codon: &CodonConfig| {
            let auth = match &codon.agent {
                Some(AgentChoice::Acp(agent)) => agent.auth.clone(),
                _ => None,
            };
            let model = codon.model.clone();
            (codon.id.to_string(), CodonPricing { model, auth })
        };
        Self {
            prices: Arc::clone(prices),
            codons: hank.codons().map(asked).collect(),
        }
    }

    /// Returns the inputs of a run without notes.
    pub(crate) fn with(prices: Arc<Prices>) -> Self {
        Self {
            prices,
            codons: BTreeMap::new(),
        }
    }

    /// The model that an attempt of a codon asks for, where that is known.
    pub(crate) fn model_of<'a>(
        &'a self,
        codon: &CodonId,
        chosen: Option<&'a ChosenAgent>,
    ) -> Option<&'a str> {
        match chosen {
            Some(chosen) => chosen.model.as_deref(),
            None => self.model(codon),
        }
    }

    /// How the agent of an attempt was to sign in.
    pub(crate) fn auth_of<'a>(&'a self, codon: &CodonId, chosen: Option<&'a ChosenAgent>) -> Option<&'a str> {
        match chosen {
            Some(chosen) => chosen.auth.as_deref(),
            None => self.auth(codon),
        }
    }

    /// The model that a codon asks for, where that is known.
    fn model(&self, codon: &CodonId) -> Option<&str> {
        self.codons.get(codon.configured())?.model.as_deref()
    }

    /// How the agent of a codon was to sign in.
    fn auth(&self, codon: &CodonId) -> Option<&str> {
        self.codons.get(codon.configured())?.auth.as_deref()
    }

    /// Notes it in the folder of a new run. Blocks. It is not synced: what a loss of power takes was not needed for the run itself.
    pub(crate) fn note(&self, disk: &dyn Disk, dir: &ExecutionDir, run: &RunId) -> io::Result<()> {
        let file = File {
            as_of: self.prices.as_of().to_owned(),
            models: (self.prices.iter())
                .map(|(model, price)| (model.to_owned(), price.rate))
                .collect(),
            given: (self.prices.iter())
                .filter_map(|(model, price)| Some((model.to_owned(), price.given_by.as_deref()?.to_owned())))
                .collect(),
            codons: self.codons.clone(),
        };
        let text = serde_json::to_vec(&file)?;
        disk.make_private_dirs(&dir.run_folder(run))?;
        disk.create_append(&dir.counting(run))?.append(&text)
    }

    /// Reads the notes in the folder of a run; `None` if there are none that can be understood.
    pub(crate) fn load(disk: &dyn Disk, dir: &ExecutionDir, run: &RunId) -> Option<Self> {
        let bytes = read_if_present(disk, &dir.counting(run), MAX_BYTES).ok()??;
        let file: File = serde_json::from_slice(&bytes).ok()?;
        let given = |(model, source): (&String, &String)| {
            let rate = file.models.get(model)?;
            Some((model.clone(), *rate, source.clone()))
        };
        let given: Vec<_> = file.given.iter().filter_map(given).collect();
        let mut prices = Prices::of(&file.as_of, file.models);
        for (model, rate, source) in given {
            prices = prices.with([(model, rate)], &source);
        }
        Some(Self {
            prices: Arc::new(prices),
            codons: file.codons,
        })
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::hank;

    use super::*;
    use crate::world::disk::RealDisk;

    // covers: RUN-22
    #[test]
    fn what_is_noted_is_what_was_counted_with() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ExecutionDir::new(folder.path().to_owned());
        let run: RunId = "1-a".parse().unwrap();
        let text = r#"{"hank": [{"id": "a", "name": "A", "agent": "codex", "model": "house", "continuationMode": "fresh", "promptText": "x"}]}"#;
        let hank = hank::parse(text).hank.unwrap();
        let rate = Prices::listed().find("claude-opus-5").unwrap().1.rate;
        let prices = Prices::default().with([("house".to_owned(), rate)], "mine.json");
        let counting = Counting::of(&hank, &Arc::new(prices));
        assert_eq!(Counting::load(&RealDisk, &dir, &run), None);
        counting.note(&RealDisk, &dir, &run).unwrap();
        let noted = Counting::load(&RealDisk, &dir, &run).unwrap();
        assert_eq!(noted.model(&"a#3".parse().unwrap()), Some("house"));
        assert_eq!(noted.prices, counting.prices, "with who has given them");
        std::fs::write(dir.counting(&run), "{").unwrap();
        assert_eq!(Counting::load(&RealDisk, &dir, &run), None, "it was cut off");
    }
}
