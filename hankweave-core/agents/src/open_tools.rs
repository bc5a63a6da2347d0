//! Names of tool calls, remembered until their results.

use std::collections::HashMap;

/// Tool calls whose name is remembered; a sane agent has a handful.
const MAX_OPEN_TOOLS: usize = 1_024;

/// Longest id or name that is remembered, in bytes.
pub(super) const MAX_REMEMBERED_BYTES: usize = 256;

/// The names of tools that have not answered yet, by the ids of their calls.
#[derive(Debug, Default)]
pub(super) struct OpenTools(HashMap<String, String>);

impl OpenTools {
    pub(super) fn insert(&mut self, id: &str, name: &str) {
        let short = id.len().max(name.len()) <= MAX_REMEMBERED_BYTES;
        if short && self.0.len() < MAX_OPEN_TOOLS {
            self.0.insert(id.to_owned(), name.to_owned());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<String> {
        self.0.remove(id)
    }
}
