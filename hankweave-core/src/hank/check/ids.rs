//! Checks that ids are unique, and warns of names that are not (HANK-3).

use std::collections::HashMap;

use crate::hank::document::Hank;
use crate::hank::problem::{Problem, quoted};

/// Reports ids that a hank has twice, and warns of names that it has twice.
///
/// Ids are compared without case because they become file names (X1).
pub(in crate::hank) fn ids(hank: &Hank) -> Vec<Problem> {
    let labels = labels(hank);
    let ids = labels.iter();
    let ids = ids.map(|label| (format!("{}.id", label.path), label.id.to_ascii_lowercase()));
    let errors = repeated(ids).into_iter().map(|(path, id, first)| {
        let message = format!("id {} is already used by {first}", quoted(&id));
        Problem::error(&hank.places, path, message)
            .with_hint("ids are unique in the whole hank, whatever their case")
    });
    // A name that is missing was reported when it was read.
    let named = labels.iter().filter(|label| !label.name.is_empty());
    let names = named.map(|label| (format!("{}.name", label.path), label.name.to_owned()));
    let warnings = repeated(names).into_iter().map(|(path, name, first)| {
        let message = format!("name {} is already used by {first}", quoted(&name));
        Problem::warning(&hank.places, path, message)
    });
    errors.chain(warnings).collect()
}

/// Id and name of a codon or loop, and its JSON path.
struct Label<'h> {
    path: String,
    id: &'h str,
    name: &'h str,
}

/// Returns the labels of all codons and loops in the order of the text.
fn labels(hank: &Hank) -> Vec<Label<'_>> {
    let items = hank.items.iter().enumerate();
    let loops = items.filter_map(|(index, item)| {
        let found = item.as_loop()?;
        Some(Label {
            path: format!("hank[{index}]"),
            id: found.id.as_str(),
            name: &found.name,
        })
    });
    let codons = hank.located_codons().map(|(path, codon)| Label {
        path,
        id: codon.id.as_str(),
        name: &codon.name,
    });
    let mut labels: Vec<_> = codons.chain(loops).collect();
    labels.sort_by_key(|label| hank.places.position(&label.path));
    labels
}

/// Takes paths with values, and returns each value that equals an earlier one: its path, the value, and the path of the first.
fn repeated(values: impl Iterator<Item = (String, String)>) -> Vec<(String, String, String)> {
    let mut first = HashMap::new();
    let mut repeated = Vec::new();
    for (path, value) in values {
        match first.get(&value) {
            Some(first) => repeated.push((path, value, String::clone(first))),
            None => {
                first.insert(value, path);
            }
        }
    }
    repeated
}
