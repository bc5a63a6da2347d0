//! The files of the hank itself, when they are in the workspace.
//!
//! They belong to the author: a prompt that was corrected after a failure must not be rolled back with the
//! agent's work. So checkpoints leave these files out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hankweave_core::hank::paths::reference;
use hankweave_core::hank::{Hank, references};

use crate::hank_files::LoadedHank;

/// One pattern for each of them, to add after the patterns of a checkpoint; empty when the hank is elsewhere.
pub(super) fn own_files(loaded: &LoadedHank, hank: &Hank, workspace: &Path) -> Vec<String> {
    let Ok(folder) = loaded.root.strip_prefix(workspace) else {
        return Vec::new();
    };
    let file = loaded.file.file_name().map(PathBuf::from);
    let named = references(hank);
    // As it may be spelled, a reference is no pattern: `a/../b` is one that patterns refuse.
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
