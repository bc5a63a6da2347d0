//! Messages that carry a view to one client (WIRE-37).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::patch::difference;
use super::run_view::RunView;

/// A patch that is longer is sent as a view, in bytes.
const MAX_PATCH_BYTES: usize = 64 * 1024;

/// Message to a client that follows the view: `{type, data}`, neither numbered nor recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data")]
pub enum ViewMessage {
    /// Complete view.
    #[serde(rename = "view")]
    View {
        /// View as JSON.
        #[cfg_attr(feature = "schema", schemars(with = "RunView"))]
        view: Value,
    },
    /// Change of a view.
    #[serde(rename = "view.patch")]
    Patch {
        /// `seq` of the view that it changes. A client with another view sends `view.get`.
        from: u64,
        /// `seq` of the view afterwards.
        seq: u64,
        /// Merge patch (RFC 7396).
        patch: Value,
    },
}

impl ViewMessage {
    /// Returns the message with the complete view.
    #[must_use]
    pub fn of(view: &RunView) -> Self {
        Self::View { view: view.to_json() }
    }

    /// Returns the message for a client that has the view `before`; `None` when nothing has changed.
    #[must_use]
    pub fn between(before: &Value, after: &Value) -> Option<Self> {
        let patch = difference(before, after);
        if patch.as_object().is_some_and(serde_json::Map::is_empty) {
            return None;
        }
        let seq = |view: &Value| view["seq"].as_u64().unwrap_or_default();
        let length = patch.to_string().len();
        Some(match length > MAX_PATCH_BYTES {
            true => Self::View { view: after.clone() },
            false => Self::Patch {
                from: seq(before),
                seq: seq(after),
                patch,
            },
        })
    }
}
