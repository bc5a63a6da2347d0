//! Inputs of a run's costs: prices of models, and each codon's settings of its agent. A run keeps them in its folder (`counting.json`), so that its
//! costs can be computed again later, by another version of hankweave with another list of prices (RUN-22).

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
    /// By the id of the codon in the hank.
    codons: BTreeMap<String, CodonPricing>,
}

/// Settings of a codon's agent on which the form of its cost reports depends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CodonPricing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The way to sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auth: Option<String>,
}

/// Content of `counting.json`. `as_of` and `models` have the form of a file of prices that users write.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    as_of: String,
    models: BTreeMap<String, ModelRate>,
    /// By model: the source of a price that the user gave. Such a price counts before what an agent reports. Older versions did not note the source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    given: BTreeMap<String, String>,
    codons: BTreeMap<String, CodonPricing>,
}

impl Counting {
    /// Returns the inputs of a run of this hank.
    pub(crate) fn of(hank: &Hank, prices: &Arc<Prices>) -> Self {
        let pricing = |codon: &CodonConfig| {
            let auth = match &codon.agent {
                Some(AgentChoice::Acp(agent)) => agent.auth.clone(),
                _ => None,
            };
            let model = codon.model.clone();
            (codon.id.to_string(), CodonPricing { model, auth })
        };
        Self {
            prices: Arc::clone(prices),
            codons: hank.codons().map(pricing).collect(),
        }
    }

    /// Returns the inputs of a run whose folder has no such file: `prices` alone.
    pub(crate) fn with(prices: Arc<Prices>) -> Self {
        Self {
            prices,
            codons: BTreeMap::new(),
        }
    }

    /// The model that an attempt of a codon asks for, where that is known. `chosen` is the agent of a codon with fallbacks.
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

    /// Writes the inputs into the folder of a new run. Blocks. The file is not synced: the run itself continues without it after a loss of power.
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

    /// Reads the inputs from the folder of a run; `None` if the file is missing or cannot be understood.
    pub(crate) fn load(disk: &dyn Disk, dir: &ExecutionDir, run: &RunId) -> Option<Self> {
        let bytes = read_if_present(disk, &dir.counting(run), MAX_BYTES).ok()??;
        let file: File = serde_json::from_slice(&bytes).ok()?;
        let mut prices = Prices::of(&file.as_of, file.models.clone());
        for (model, source) in &file.given {
            if let Some(rate) = file.models.get(model) {
                prices = prices.with([(model.clone(), *rate)], source);
            }
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
