//! What a scripted agent remembers of a session between its processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, io};

use hankweave_core::cost::{ModelUsage, UsageTotals};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A conversation: how many prompts it had, and what it cost. A file in the temporary folder, so that it lives as long
/// as that; an unknown session begins with nothing.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    #[serde(skip)]
    pub(super) id: String,
    pub(super) prompts: u64,
    pub(super) models: BTreeMap<String, ModelUsage>,
}

impl Session {
    /// The session `resumed`, else a new one called `wanted` or something random. Counts one more prompt.
    pub(super) fn open(resumed: Option<String>, wanted: Option<String>) -> Self {
        let mut session = match resumed {
            Some(id) => Self::read(id),
            None => Self {
                id: wanted.unwrap_or_else(|| Uuid::new_v4().to_string()),
                ..Self::default()
            },
        };
        session.prompts += 1;
        session
    }

    pub(super) fn totals(&self) -> UsageTotals {
        let mut totals = UsageTotals::default();
        for (model, usage) in &self.models {
            totals.add(model, *usage);
        }
        totals
    }

    pub(super) fn add(&mut self, usage: &UsageTotals) {
        let mut totals = self.totals();
        totals.merge(usage);
        self.models = totals.models;
    }

    pub(super) fn save(&self) -> io::Result<()> {
        let path = file(&self.id);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, serde_json::to_vec(self)?)
    }

    fn read(id: String) -> Self {
        let bytes = fs::read(file(&id)).unwrap_or_default();
        Self {
            id,
            ..serde_json::from_slice(&bytes).unwrap_or_default()
        }
    }
}

/// The id may be any text, so only its harmless characters make the file name.
fn file(id: &str) -> PathBuf {
    let name: String = id
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    std::env::temp_dir()
        .join("scripted-sessions")
        .join(format!("{name}.json"))
}
