//! Messages that carry a view to one client (WIRE-37).

use serde_json::{Map, Value};

use super::patch::difference;
use super::run_view::RunView;
use crate::wire::DirectPayload;

/// Length of the longest patch that is sent, in bytes; in place of a longer one the complete view is sent.
const MAX_PATCH_BYTES: usize = 64 * 1024;

impl RunView {
    /// Returns the message with the complete view.
    #[must_use]
    pub fn message(&self) -> DirectPayload {
        DirectPayload::View { view: self.to_json() }
    }
}

/// Returns the message for a client that has the view `before`, both as JSON; `None` when nothing has changed.
#[must_use]
pub fn change_message(before: &Value, after: &Value) -> Option<DirectPayload> {
    let patch = difference(before, after);
    if patch.as_object().is_some_and(Map::is_empty) {
        return None;
    }
    let seq = |view: &Value| view["seq"].as_u64().unwrap_or_default();
    let (from, seq) = (seq(before), seq(after));
    Some(match patch.to_string().len() > MAX_PATCH_BYTES {
        true => DirectPayload::View { view: after.clone() },
        false => DirectPayload::ViewPatch { from, seq, patch },
    })
}
