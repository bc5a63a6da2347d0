//! Walks through a machine, for tests.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Edge, Machine};

/// One path through a machine, from the initial state: the edges in the order in which they are taken.
pub type Walk = Vec<&'static Edge>;

/// Every walk up to some number of edges; made by [`Machine::walks`].
#[derive(Debug, Clone)]
pub struct Walks {
    machine: &'static Machine,
    /// Greatest number of edges.
    longest: usize,
    /// Walks that were not returned yet.
    open: VecDeque<Walk>,
}

impl Machine {
    /// Every walk of at most `longest` edges, the shorter ones first. The first one has no edge at all.
    ///
    /// The number of walks may grow exponentially with `longest` when the machine has loops.
    pub fn walks(&'static self, longest: usize) -> Walks {
        Walks {
            machine: self,
            longest,
            open: VecDeque::from([vec![]]),
        }
    }

    /// The shortest walk into the state of this Rust name; `None` when there is no way.
    pub fn way_to(&'static self, state: &str) -> Option<Walk> {
        let mut seen = vec![self.initial().name];
        let mut open = VecDeque::from([Walk::new()]);
        while let Some(walk) = open.pop_front() {
            let end = self.end_of(&walk);
            if end == state {
                return Some(walk);
            }
            for edge in self.edges_from(end) {
                if !seen.contains(&edge.to) {
                    seen.push(edge.to);
                    open.push_back(longer(&walk, edge));
                }
            }
        }
        None
    }

    /// Returns walks over every edge, and over every two edges in a row: for each edge the shortest walk that ends with it, continued by each edge that may
    /// follow. There are at most as many walks as pairs of edges, whatever loops the machine has.
    pub fn walks_over_every_edge(&'static self) -> impl Iterator<Item = Walk> {
        self.edges.iter().flat_map(|edge| {
            let way = self.way_to(edge.from).unwrap_or_default();
            let walk = longer(&way, edge);
            let continued: Vec<_> = self.edges_from(edge.to).map(|next| longer(&walk, next)).collect();
            if continued.is_empty() {
                vec![walk]
            } else {
                continued
            }
        })
    }

    /// The name of the state in which a walk ends.
    pub fn end_of(&self, walk: &Walk) -> &'static str {
        walk.last().map_or(self.initial().name, |edge| edge.to)
    }
}

fn longer(walk: &Walk, edge: &'static Edge) -> Walk {
    let mut walk = walk.clone();
    walk.push(edge);
    walk
}

impl Iterator for Walks {
    type Item = Walk;

    fn next(&mut self) -> Option<Walk> {
        let walk = self.open.pop_front()?;
        if walk.len() < self.longest {
            let edges = self.machine.edges_from(self.machine.end_of(&walk));
            self.open.extend(edges.map(|edge| longer(&walk, edge)));
        }
        Some(walk)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use alloc::vec::Vec;

    use crate::samples::{JOB, SIGN};

    #[test]
    fn a_machine_without_loops_has_a_few_walks_and_one_with_loops_more_the_longer_they_may_be() {
        assert_eq!(SIGN.walks(9).count(), 3);
        assert_eq!(JOB.walks(0).count(), 1);
        assert!(JOB.walks(9).count() > JOB.walks(8).count());
    }

    #[test]
    fn the_shortest_way_leads_to_every_state_and_over_every_edge() {
        assert_eq!(JOB.way_to("Queued"), Some(Vec::new()));
        assert_eq!(JOB.way_to("Finished").map(|walk| walk.len()), Some(2));
        assert_eq!(JOB.way_to("Nowhere"), None);
        let walked: HashSet<_> = JOB.walks_over_every_edge().flatten().collect();
        assert_eq!(walked.len(), JOB.edges.len());
    }

    #[test]
    fn walks_are_connected_all_different_and_ordered_by_length() {
        let walks: Vec<_> = JOB.walks(8).collect();
        let different: HashSet<Vec<_>> = walks
            .iter()
            .map(|walk| walk.iter().map(|edge| (edge.from, edge.method)).collect())
            .collect();
        assert_eq!(different.len(), walks.len());
        assert!(walks.is_sorted_by_key(Vec::len));
        for walk in walks {
            assert!(walk.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
    }
}
