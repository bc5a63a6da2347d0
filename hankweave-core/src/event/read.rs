//! Reading an event that came from outside.

use serde_json::Value;

use super::StateEvent;

/// A value that is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidEvent {
    /// The field of the event that is missing or wrong, as far as it can be told.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl StateEvent {
    /// Reads `{type, data}`; other names beside those are ignored.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidEvent`] for an unknown type and for data that do not fit it.
    pub fn from_json(event: Value) -> Result<Self, InvalidEvent> {
        serde_path_to_error::deserialize(event).map_err(|error| {
            let path = error.path().to_string();
            let message = error.into_inner().to_string();
            // What is missing has no path of its own; the message names it.
            let missing = message
                .strip_prefix("missing field `")
                .and_then(|rest| rest.split('`').next());
            let wrong = path.rsplit('.').next().filter(|name| !name.is_empty());
            let field = missing.or(wrong).map(str::to_owned);
            InvalidEvent { field, message }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused(event: Value, field: &str) {
        let error = StateEvent::from_json(event).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }

    #[test]
    fn the_field_that_is_wrong_is_named() {
        refused(json!({"data": {}}), "type");
        refused(json!({"type": "RunExploded", "data": {}}), "type");
        refused(json!({"type": "RunFailed", "data": {}}), "runId");
        refused(json!({"type": "RunFailed", "data": {"runId": 1}}), "runId");
        let tokens =
            json!({"inputTokens": 1, "outputTokens": 1, "cacheCreationTokens": 1, "cacheReadTokens": 1});
        let event = |cost: Value, tokens: Value| json!({"type": "CostsUpdated", "data": {"runId": "r", "codonId": "c", "cost": cost, "tokens": tokens}});
        refused(event(json!(-1), tokens.clone()), "cost");
        refused(event(json!(1), json!({})), "inputTokens");
        assert!(StateEvent::from_json(event(json!(1), tokens)).is_ok());
    }
}
