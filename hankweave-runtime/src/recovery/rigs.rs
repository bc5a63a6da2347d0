//! What the rigs of a hank copy, for whoever takes it out again.

use std::path::Path;

use hankweave_core::hank::{CodonConfig, Hank, RigAction};

use crate::hank_files::LoadedHank;
use crate::rig::{RigCopies, RigCopy};

pub(super) fn rig_copies(loaded: &LoadedHank, hank: &Hank, workspace: &Path) -> RigCopies {
    let copies = |codon: &CodonConfig| {
        let actions = codon.rig_setup.iter().map(|item| &item.action);
        let copies = actions.filter_map(|action| match action {
            RigAction::Copy { copy } => Some(RigCopy {
                from: copy.from.clone(),
                to: copy.to.clone().into(),
            }),
            RigAction::Command { .. } => None,
        });
        (codon.id.to_string(), copies.collect::<Vec<_>>())
    };
    RigCopies {
        hank: loaded.root.clone(),
        workspace: workspace.to_owned(),
        of: hank.codons().map(copies).collect(),
    }
}
