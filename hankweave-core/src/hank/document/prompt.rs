//! Source of the text for an agent.

use serde::Serializer;
use serde::ser::SerializeMap;

/// Text for an agent: from files of the hank or written into hank.json.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptSource {
    /// Paths relative to the folder of hank.json, at least one; their texts are joined with a blank line.
    Files(Vec<String>),
    /// The text itself.
    Text(String),
}

pub(super) fn global_system_prompt<S: Serializer>(
    source: &Option<PromptSource>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let keys = ["globalSystemPromptFile", "globalSystemPromptText"];
    prompt_entry(source.as_ref(), keys, to)
}

pub(super) fn append_system_prompt<S: Serializer>(
    source: &Option<PromptSource>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let keys = ["appendSystemPromptFile", "appendSystemPromptText"];
    prompt_entry(source.as_ref(), keys, to)
}

pub(super) fn prompt<S: Serializer>(source: &PromptSource, serializer: S) -> Result<S::Ok, S::Error> {
    prompt_entry(Some(source), ["promptFile", "promptText"], serializer)
}

fn prompt_entry<S: Serializer>(
    source: Option<&PromptSource>,
    [file_key, text_key]: [&str; 2],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    match source {
        Some(PromptSource::Files(files)) => match files.as_slice() {
            [single] => map.serialize_entry(file_key, single)?,
            several => map.serialize_entry(file_key, several)?,
        },
        Some(PromptSource::Text(text)) => map.serialize_entry(text_key, text)?,
        None => {}
    }
    map.end()
}
