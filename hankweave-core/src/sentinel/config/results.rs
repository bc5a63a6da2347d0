//! Handling of a sentinel's answers and errors, from its own configuration and from its codon's entry.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sentinel::Ask;

/// Files for answers. A path with `/` in it is in the workspace, a bare name in `.hankweave/outputs/<id>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct OutputConfig {
    /// `text` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "text")))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OutputFormat>,
    /// All answers, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The last answer alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value_file: Option<String>,
}

/// How answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OutputFormat {
    /// As they are, with a string between them.
    Text,
    /// One JSON object a line.
    Jsonl,
}

/// Action on errors of a sentinel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ErrorHandling {
    /// Failures in a row after which it is taken out of service, at least 1; 3 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 3)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consecutive_failures: Option<u64>,
    /// Whether an error that will come again takes it out of service; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unload_on_fatal_error: Option<bool>,
    /// Effect on the codon when errors take the sentinel out of service; `ignore` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "ignore")))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
}

/// Effect of a failed sentinel on its codon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum OnError {
    /// It continues.
    Ignore,
    /// It fails.
    FailCodon,
}

/// Reports to clients; everything but triggers, when absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ReportToWebsocket {
    /// When it is loaded and unloaded; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<bool>,
    /// Its errors; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<bool>,
    /// Its answers; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<bool>,
    /// Each time that it is triggered; false when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggers: Option<bool>,
}

impl ReportToWebsocket {
    /// Returns these settings; each absent one is taken from `below`.
    #[must_use]
    pub fn merged_over(self, below: Self) -> Self {
        Self {
            lifecycle: self.lifecycle.or(below.lifecycle),
            errors: self.errors.or(below.errors),
            outputs: self.outputs.or(below.outputs),
            triggers: self.triggers.or(below.triggers),
        }
    }
}

/// Settings of a sentinel in the entry of its codon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SentinelSettings {
    /// Whether the codon fails when the sentinel cannot be loaded; false when absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub fail_codon_if_not_loaded: bool,
    /// Files for answers; they win over the sentinel's own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_paths: OutputPaths,
    /// Reports to clients; they win over the sentinel's own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub report_to_websocket: ReportToWebsocket,
    /// Requests to the runner that are allowed; none when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = [])))]
    pub may_ask: Vec<Ask>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl SentinelSettings {
    /// Reads the settings of an entry that the reader of hanks has checked.
    ///
    /// # Errors
    ///
    /// The mistake in settings that were not checked.
    pub fn from_checked(settings: Option<Map<String, Value>>) -> serde_json::Result<Self> {
        Self::deserialize(Value::Object(settings.unwrap_or_default()))
    }
}

/// Files for answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct OutputPaths {
    /// All answers, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_file: Option<String>,
    /// The last answer alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value_file: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_entry_win() {
        let own = ReportToWebsocket {
            errors: Some(false),
            triggers: Some(true),
            ..ReportToWebsocket::default()
        };
        let entry = ReportToWebsocket {
            errors: Some(true),
            ..ReportToWebsocket::default()
        };
        let both = entry.merged_over(own);
        assert_eq!(
            (both.errors, both.triggers, both.outputs),
            (Some(true), Some(true), None)
        );
    }
}
