//! Renames between two checkpoints, for a comparison: files that vanished and reappeared under another path, unchanged or
//! nearly so.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use git2::Oid;

use super::git_format::ObjectReader;
use super::object::ObjectError;
use super::tree::{FileEntry, FileMode, Listing};
use super::{HistoryError, TreePath};

/// Maximum number of unpaired files on either side for which similar contents are looked for. Beyond it, only identical
/// contents make a pair.
const MAX_COMPARED: usize = 100;

/// Longest file whose contents are compared, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Smallest part of the content that two similar files share, in percent.
const MIN_SIMILAR: u64 = 50;

/// A file that only one of the checkpoints has.
type Lone<'l> = (&'l TreePath, &'l FileEntry);

/// Bytes of each distinct line, by the hash of the line.
type Lines = HashMap<u64, u64>;

/// Returns the renames as pairs of the old and the new path: first files with equal contents, then similar ones.
pub(super) fn find(
    reader: &ObjectReader<'_>,
    before: &Listing,
    after: &Listing,
) -> Result<Vec<(TreePath, TreePath)>, HistoryError> {
    let mut deleted = only_in(before, after);
    let mut added = only_in(after, before);
    let mut pairs = of_same_content(&deleted, &added);
    let paired: HashSet<&TreePath> = pairs.iter().flat_map(|(old, new)| [*old, *new]).collect();
    deleted.retain(|(path, _)| !paired.contains(path));
    added.retain(|(path, _)| !paired.contains(path));
    if (1..=MAX_COMPARED).contains(&deleted.len()) && (1..=MAX_COMPARED).contains(&added.len()) {
        let read = |files: &[Lone<'_>]| -> Result<Vec<Lines>, HistoryError> {
            files.iter().map(|(_, entry)| lines(reader, entry)).collect()
        };
        let (old_lines, new_lines) = (read(&deleted)?, read(&added)?);
        pairs.extend(of_similar_content((&deleted, &old_lines), (&added, &new_lines)));
    }
    let owned = |(old, new): (&TreePath, &TreePath)| (old.clone(), new.clone());
    Ok(pairs.into_iter().map(owned).collect())
}

/// Returns the files, but no links, whose paths only `files` has.
fn only_in<'l>(files: &'l Listing, others: &Listing) -> Vec<Lone<'l>> {
    let is_lone = |path: &TreePath, entry: &FileEntry| {
        entry.mode != FileMode::Link && !others.contains(path.as_bytes())
    };
    let files = files.as_slice().iter();
    let found = files.filter(|(path, entry)| is_lone(path, entry));
    found.map(|(path, entry)| (path, entry)).collect()
}

/// Pairs files with equal content. Files with equal names are paired first.
fn of_same_content<'l>(deleted: &[Lone<'l>], added: &[Lone<'l>]) -> Vec<(&'l TreePath, &'l TreePath)> {
    let mut by_blob: HashMap<Oid, Vec<&'l TreePath>> = HashMap::new();
    for (path, entry) in deleted {
        by_blob.entry(entry.blob).or_default().push(path);
    }
    let mut pairs = Vec::new();
    for (new, entry) in added {
        let Some(olds) = by_blob.get_mut(&entry.blob).filter(|olds| !olds.is_empty()) else {
            continue;
        };
        let same_name = olds.iter().position(|old| old.split().1 == new.split().1);
        pairs.push((olds.remove(same_name.unwrap_or(0)), *new));
    }
    pairs
}

/// Pairs files that have at least [`MIN_SIMILAR`] percent in common, the most similar first.
fn of_similar_content<'l>(
    (deleted, old_lines): (&[Lone<'l>], &[Lines]),
    (added, new_lines): (&[Lone<'l>], &[Lines]),
) -> Vec<(&'l TreePath, &'l TreePath)> {
    let mut scored = Vec::new();
    for (old, (old_path, _)) in deleted.iter().enumerate() {
        for (new, (new_path, _)) in added.iter().enumerate() {
            let similar = similarity(&old_lines[old], &new_lines[new]);
            if similar >= MIN_SIMILAR {
                let same_name = old_path.split().1 == new_path.split().1;
                scored.push(((similar, same_name), old, new));
            }
        }
    }
    scored.sort_by(|left, right| {
        right
            .0
            .cmp(&left.0)
            .then((left.1, left.2).cmp(&(right.1, right.2)))
    });
    let (mut olds, mut news) = (HashSet::new(), HashSet::new());
    let mut pairs = Vec::new();
    for (_, old, new) in scored {
        if !olds.contains(&old) && !news.contains(&new) {
            olds.insert(old);
            news.insert(new);
            pairs.push((deleted[old].0, added[new].0));
        }
    }
    pairs
}

/// Returns the part of the larger file that both files have, in percent.
fn similarity(old: &Lines, new: &Lines) -> u64 {
    let larger = old.values().sum::<u64>().max(new.values().sum());
    let both = old
        .iter()
        .filter_map(|(line, bytes)| Some((*bytes).min(*new.get(line)?)));
    both.sum::<u64>() * 100 / larger.max(1)
}

/// Reads the lines of a file; none if it is too long or no text.
fn lines(reader: &ObjectReader<'_>, entry: &FileEntry) -> Result<Lines, HistoryError> {
    let failed = |error| HistoryError::Read(ObjectError::at("read the files of a checkpoint")(error));
    let mut lines = Lines::new();
    if reader.length(entry.blob).map_err(failed)?.unwrap_or(0) > MAX_BYTES {
        return Ok(lines);
    }
    let mut bytes = Vec::new();
    let read = reader.copy_content(entry.blob, &mut bytes);
    read.map_err(|error| failed(error.into_git()))?;
    if memchr::memchr(0, &bytes).is_some() {
        return Ok(lines);
    }
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        *lines.entry(hasher.finish()).or_default() += line.len() as u64;
    }
    Ok(lines)
}
