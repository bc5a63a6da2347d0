//! Index of codons and loops by id, so that a hank of ten thousand codons is not searched for each of them.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{CodonConfig, Hank, HankItem, LoopConfig};
use crate::id::LoopId;

/// Positions of a hank's codons and loops, built at the first lookup.
///
/// The hank can be changed afterwards, so a lookup checks the item at the position, and searches the hank if it is another one.
#[derive(Debug, Clone, Default)]
pub(crate) struct HankPositions(OnceLock<IndexedPositions>);

#[derive(Debug, Clone, Default)]
struct IndexedPositions {
    /// Index of the item in the hank, and index of the codon in that item.
    codons: HashMap<Box<str>, (usize, usize)>,
    /// Index of the item in the hank.
    loops: HashMap<LoopId, usize>,
}

impl IndexedPositions {
    fn of(items: &[HankItem]) -> Self {
        let mut indexed = Self::default();
        for (index, item) in items.iter().enumerate() {
            if let HankItem::Loop(found) = item {
                indexed.loops.entry(found.id.clone()).or_insert(index);
            }
            for (inner, codon) in item.codons().iter().enumerate() {
                indexed
                    .codons
                    .entry(codon.id.as_str().into())
                    .or_insert((index, inner));
            }
        }
        indexed
    }
}

impl Hank {
    /// Returns the codon whose configured id is `configured`, at any position.
    #[must_use]
    pub fn codon(&self, configured: &str) -> Option<&CodonConfig> {
        let is_meant = |codon: &&CodonConfig| codon.id.as_str() == configured;
        let indexed = self.indexed().codons.get(configured);
        let indexed = indexed.and_then(|(item, inner)| self.items.get(*item)?.codons().get(*inner));
        indexed.filter(is_meant).or_else(|| self.codons().find(is_meant))
    }

    /// Returns the loop with this id.
    #[must_use]
    pub fn find_loop(&self, id: &LoopId) -> Option<&LoopConfig> {
        let is_meant = |found: &&LoopConfig| found.id == *id;
        let indexed = self.indexed().loops.get(id);
        let indexed = indexed.and_then(|item| self.items.get(*item)?.as_loop());
        let mut loops = self.items.iter().filter_map(HankItem::as_loop);
        indexed.filter(is_meant).or_else(|| loops.find(is_meant))
    }

    fn indexed(&self) -> &IndexedPositions {
        self.positions.0.get_or_init(|| IndexedPositions::of(&self.items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hank() -> Hank {
        let codon = |id: &str| {
            format!(
                r#"{{"id":"{id}","name":"{id}","model":"haiku","continuationMode":"fresh","promptText":"x"}}"#
            )
        };
        let text = format!(
            r#"{{"hank":[{},{{"type":"loop","id":"l","name":"l","terminateOn":{{"type":"iterationLimit","limit":2}},"codons":[{},{}]}}]}}"#,
            codon("a"),
            codon("b"),
            codon("c")
        );
        crate::hank::parse(&text).hank.unwrap()
    }

    #[test]
    fn codons_and_loops_are_found_also_after_a_change() {
        let mut hank = hank();
        let id = |hank: &Hank, codon: &str| hank.codon(codon).map(|found| found.id.as_str().to_owned());
        for codon in ["a", "b", "c"] {
            assert_eq!(id(&hank, codon).as_deref(), Some(codon));
        }
        assert_eq!(id(&hank, "d"), None);
        let loop_id = LoopId::new("l").unwrap();
        assert_eq!(hank.find_loop(&loop_id).unwrap().codons.len(), 2);
        // By now all of them are elsewhere, and one has another name.
        hank.items.reverse();
        for codon in hank.codons_mut().filter(|codon| codon.id.as_str() == "a") {
            codon.id = crate::id::CodonId::new("d").unwrap();
        }
        assert_eq!((id(&hank, "a"), id(&hank, "d").as_deref()), (None, Some("d")));
        assert_eq!(id(&hank, "c").as_deref(), Some("c"));
        assert_eq!(hank.find_loop(&loop_id).unwrap().codons.len(), 2);
    }
}
