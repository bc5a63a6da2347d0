//! Patterns that keep the hank's own files (hank.json, prompts, rig files) out of checkpoints, when they are in the workspace.
//!
//! These files belong to the author: a prompt that was corrected after a failure must not be rolled back with the
//! agent's work.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hankweave_core::hank::paths::reference;
use hankweave_core::hank::{Hank, references};

use crate::hank_files::LoadedHank;

/// Returns a pattern for each of the hank's files, to add after the patterns of a checkpoint; none when the hank is outside of the workspace.
pub(super) fn own_files(loaded: &LoadedHank, hank: &Hank, workspace: &Path) -> Vec<String> {
    let Ok(folder) = loaded.root.strip_prefix(workspace) else {
        return Vec::new();
    };
    let file = loaded.file.file_name().map(PathBuf::from);
    let named = references(hank);
    // References are normalized first: patterns refuse a spelling such as `a/../b`.
    let named = named.iter().filter_map(|named| reference(named.path).ok());
    let files = file.into_iter().chain(named.map(PathBuf::from_iter));
    let patterns = files.filter_map(|file| folder.join(file).to_str().map(exclusion));
    // Thousands of codons may name one file, and matching takes time for each pattern.
    let different: BTreeSet<String> = patterns.collect();
    different.into_iter().collect()
}

/// A pattern that leaves out the file or folder at `path`.
pub(super) fn exclusion(path: &str) -> String {
    let plain: Vec<&str> = path
        .split('/')
        .filter(|name| !matches!(*name, "" | "."))
        .collect();
    format!("!{}", globset::escape(&plain.join("/")))
}
