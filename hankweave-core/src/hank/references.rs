//! Lists the files that a hank names, and the targets of its rig copies.

use super::agent::AgentChoice;
use super::document::{CodonConfig, Fallback, Hank, PromptSource, RigAction, SentinelSource};
use crate::id::CodonId;

/// One path in a hank that names a file or folder in the hank's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'h> {
    /// Purpose of the file.
    pub kind: ReferenceKind,
    /// The path as it is written; its spelling has been checked.
    pub path: &'h str,
    /// JSON path of the value with the path, such as `hank[0].promptFile[1]`, or `hank[0].promptFile` for a single file.
    pub place: String,
}

/// Purpose of a referenced file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceKind {
    /// `promptFile`.
    Prompt,
    /// `appendSystemPromptFile` or `globalSystemPromptFile`.
    SystemPrompt,
    /// `copy.from` of a rig item; the only kind that may be a folder.
    CopySource,
    /// The script of the scripted agent.
    AgentScript,
    /// The configuration of a sentinel.
    Sentinel,
    /// The schema of a result.
    ResultSchema,
}

/// Lists the files and folders that the hank names: those of the whole hank first, then those of each codon.
///
/// Files that sentinels name in their own configurations are not listed.
#[must_use]
pub fn references(hank: &Hank) -> Vec<Reference<'_>> {
    let global = hank.global_system_prompt.as_ref();
    let place = "globalSystemPromptFile".to_owned();
    let mut references = files(ReferenceKind::SystemPrompt, global, place);
    let everywhere = hank.overrides.as_ref().and_then(|all| all.fallback.as_deref());
    references.extend(scripts_of_fallbacks(everywhere, "overrides"));
    for (path, codon) in hank.located_codons() {
        references.extend(of_codon(codon, &path));
    }
    references
}

/// Target of a rig copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyTarget<'h> {
    /// Codon of the rig.
    pub codon: &'h CodonId,
    /// JSON path of the key `to`.
    pub place: String,
    /// Source, relative to the folder of hank.json.
    pub from: &'h str,
    /// Target, relative to the agent's workspace.
    pub to: &'h str,
    /// Whether an existing target is removed first.
    pub replaces: bool,
}

/// Returns the targets of rig copies, in the order of the text.
pub fn copy_targets(hank: &Hank) -> impl Iterator<Item = CopyTarget<'_>> {
    hank.located_codons().flat_map(|(at, codon)| {
        let items = codon.rig_setup.iter().enumerate();
        items.filter_map(move |(index, item)| match &item.action {
            RigAction::Copy { copy, replace } => Some(CopyTarget {
                codon: &codon.id,
                place: format!("{at}.rigSetup[{index}].copy.to"),
                from: copy.from.as_str(),
                to: copy.to.as_str(),
                replaces: *replace,
            }),
            RigAction::Command { .. } => None,
        })
    })
}

fn of_codon<'h>(codon: &'h CodonConfig, at: &str) -> Vec<Reference<'h>> {
    let (prompt, system_prompt) = (Some(&codon.prompt), codon.append_system_prompt.as_ref());
    let mut references = files(ReferenceKind::Prompt, prompt, format!("{at}.promptFile"));
    let place = format!("{at}.appendSystemPromptFile");
    references.extend(files(ReferenceKind::SystemPrompt, system_prompt, place));
    references.extend(script(codon.agent.as_ref(), at));
    references.extend(scripts_of_fallbacks(codon.fallback.as_deref(), at));
    let mut add = |kind, path, place| references.push(Reference { kind, path, place });
    for (index, item) in codon.rig_setup.iter().enumerate() {
        if let RigAction::Copy { copy, .. } = &item.action {
            let place = format!("{at}.rigSetup[{index}].copy.from");
            add(ReferenceKind::CopySource, &copy.from, place);
        }
    }
    if let Some(file) = codon.result.as_ref().and_then(|asked| asked.file.as_deref()) {
        add(ReferenceKind::ResultSchema, file, format!("{at}.result.schema"));
    }
    for (place, sentinel) in codon.located_sentinels(at) {
        if let SentinelSource::File(path) = &sentinel.sentinel_config {
            add(ReferenceKind::Sentinel, path, place);
        }
    }
    references
}

/// Returns the scripts in a list of fallbacks.
fn scripts_of_fallbacks<'h>(list: Option<&'h [Fallback]>, at: &str) -> impl Iterator<Item = Reference<'h>> {
    let entries = list.unwrap_or_default().iter().enumerate();
    entries.filter_map(move |(index, entry)| match entry {
        Fallback::Agent(entry) => script(entry.agent.as_ref(), &format!("{at}.fallback[{index}]")),
        Fallback::Wait => None,
    })
}

fn script<'h>(agent: Option<&'h AgentChoice>, at: &str) -> Option<Reference<'h>> {
    Some(Reference {
        kind: ReferenceKind::AgentScript,
        path: agent?.script()?,
        place: format!("{at}.agent.script"),
    })
}

fn files<'h>(kind: ReferenceKind, source: Option<&'h PromptSource>, at: String) -> Vec<Reference<'h>> {
    let Some(PromptSource::Files(files)) = source else {
        return Vec::new();
    };
    let place = |index: usize| match files.len() {
        1 => at.clone(),
        _ => format!("{at}[{index}]"),
    };
    let reference = |(index, path)| {
        let place = place(index);
        Reference { kind, path, place }
    };
    let files = files.iter().map(String::as_str).enumerate();
    files.map(reference).collect()
}
