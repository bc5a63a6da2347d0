//! Positions of codons and loops in a hank by their ids: a hank of ten thousand codons is not searched for each of them.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{CodonConfig, Hank, HankItem, LoopConfig};
use crate::id::LoopId;

/// Positions of a hank's codons and loops, noted with the first question.
///
/// The hank can be changed afterwards, so a noted position is a place to look first, and no more.
#[derive(Debug, Clone, Default)]
pub(crate) struct HankPositions(OnceLock<NotedPositions>);

#[derive(Debug, Clone, Default)]
struct NotedPositions {
    /// Item and position in that item.
    codons: HashMap<Box<str>, (usize, usize)>,
    loops: HashMap<LoopId, usize>,
}

impl NotedPositions {
    fn of(items: &[HankItem]) -> Self {
        let mut noted = Self::default();
        for (index, item) in items.iter().enumerate() {
            if let HankItem::Loop(found) = item {
                noted.loops.entry(found.id.clone()).or_insert(index);
            }
            for (inner, codon) in item.codons().iter().enumerate() {
                noted
                    .codons
                    .entry(codon.id.as_str().into())
                    .or_insert((index, inner));
            }
        }
        noted
    }
}

impl Hank {
    /// Returns the codon whose configured id is `configured`, at any position.
    #[must_use]
    pub fn codon(&self, configured: &str) -> Option<&CodonConfig> {
        let is_meant = |codon: &&CodonConfig| codon.id.as_str() == configured;
        let noted = self.noted().codons.get(configured);
        let noted = noted.and_then(|(item, inner)| self.items.get(*item)?.codons().get(*inner));
        noted.filter(is_meant).or_else(|| self.codons().find(is_meant))
    }

    /// The loop with the id `id`.
    #[must_use]
    pub fn find_loop(&self, id: &LoopId) -> Option<&LoopConfig> {
        let is_meant = |found: &&LoopConfig| found.id == *id;
        let noted = self.noted().loops.get(id);
        let noted = noted.and_then(|item| self.items.get(*item)?.as_loop());
        let mut loops = self.items.iter().filter_map(HankItem::as_loop);
        noted.filter(is_meant).or_else(|| loops.find(is_meant))
    }

    fn noted(&self) -> &NotedPositions {
        self.positions.0.get_or_init(|| NotedPositions::of(&self.items))
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
