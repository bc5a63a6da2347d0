//! Deletion of old safety checkpoints, which restores make of the files that they are about to change.

use git2::{ErrorCode, Repository};
use hankweave_core::id::CheckpointSha;

use super::repository::name_of;

/// Number of the newest safety checkpoints that are kept in any case. Each restore makes one. Older ones are rarely needed: a user
/// who misses a file after a restore notices soon.
pub(super) const KEPT: usize = 20;

/// Reference prefix of safety checkpoints: `recovery/<milliseconds>-<short sha of the target>`.
pub(super) const PREFIX: &str = "recovery/";

/// Deletes the branches of all safety checkpoints but the newest [`KEPT`] and those that `keep` names; returns the names of
/// the deleted branches. Their objects stay in the repository until a cleanup.
pub(super) fn safety_branches(
    repository: &Repository,
    keep: &[CheckpointSha],
) -> Result<Vec<String>, git2::Error> {
    let mut branches = Vec::new();
    for reference in repository.references_glob(&format!("refs/heads/{PREFIX}*"))? {
        let reference = reference?;
        // Not UTF-8, so not a name that we give.
        let Ok(name) = reference.shorthand().map(str::to_owned) else {
            continue;
        };
        // A reference to another reference is not ours, and stays.
        let stays = reference.target().is_none_or(|tip| keep.contains(&name_of(tip)));
        branches.push((age_order(&name), name, stays));
    }
    branches.sort_unstable_by(|left, right| right.cmp(left));
    let old = branches.into_iter().skip(KEPT).filter(|(.., stays)| !stays);
    let mut pruned = Vec::new();
    for (_, name, _) in old {
        match repository.find_reference(&format!("refs/heads/{name}")) {
            Ok(mut reference) => reference.delete()?,
            Err(error) if error.code() == ErrorCode::NotFound => {}
            Err(error) => return Err(error),
        }
        pruned.push(name);
    }
    Ok(pruned)
}

/// Returns the milliseconds in the name of a branch. A name without them counts as oldest.
fn age_order(name: &str) -> i64 {
    let number = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(i64::MIN)
}
