//! A growing list whose clones share their elements in pieces. It holds codons and plans, so that a snapshot of a document is cheap.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Index, IndexMut, Range};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::shape::{Checker, Shape, Value};

/// Number of elements in a piece, which clones of a list share as a whole.
///
/// A change after a clone copies one piece, and a pointer for each other piece: about 150 pointers for ten thousand elements.
const PIECE: usize = 64;

/// A list that is cheap to clone and cheap to change after that.
///
/// A vector would be copied whole with the first change after each clone, so the work of a run would grow with the square of its codons.
#[derive(Clone)]
pub struct SharedList<T> {
    /// Every piece but the last has [`PIECE`] elements; none is empty.
    pieces: Vec<Arc<Vec<T>>>,
}

impl<T> SharedList<T> {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { pieces: Vec::new() }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.pieces.split_last() {
            Some((last, full)) => full.len() * PIECE + last.len(),
            None => 0,
        }
    }

    /// Whether the list has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The element at this position.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&T> {
        self.pieces.get(position / PIECE)?.get(position % PIECE)
    }

    /// The first element.
    #[must_use]
    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    /// The last element.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.pieces.last()?.last()
    }

    /// All elements in order.
    #[must_use]
    pub fn iter(&self) -> SharedIter<'_, T> {
        self.range(0..self.len())
    }

    /// Returns the elements at these positions; positions after the end are ignored.
    #[must_use]
    pub fn range(&self, positions: Range<usize>) -> SharedIter<'_, T> {
        let back = positions.end.min(self.len());
        SharedIter {
            list: self,
            front: positions.start.min(back),
            back,
        }
    }
}

impl<T: Clone> SharedList<T> {
    /// Adds an element at the end.
    pub fn push(&mut self, element: T) {
        match self.pieces.last_mut().filter(|last| last.len() < PIECE) {
            Some(last) => Arc::make_mut(last).push(element),
            None => self.pieces.push(Arc::new(vec![element])),
        }
    }

    /// Keeps the first `length` elements.
    pub fn truncate(&mut self, length: usize) {
        self.pieces.truncate(length.div_ceil(PIECE));
        let rest = length % PIECE;
        if let Some(last) = self
            .pieces
            .last_mut()
            .filter(|last| rest > 0 && last.len() > rest)
        {
            Arc::make_mut(last).truncate(rest);
        }
    }

    /// Replaces the elements at `positions` by `elements`. The elements after them and at most one piece in front are copied, however long the list is.
    pub fn splice(&mut self, positions: Range<usize>, elements: Vec<T>) {
        let after: Vec<T> = self.range(positions.end..self.len()).cloned().collect();
        self.truncate(positions.start);
        self.extend(elements);
        self.extend(after);
    }
}

impl<T: Clone> Extend<T> for SharedList<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

/// The elements of a [`SharedList`].
pub struct SharedIter<'a, T> {
    list: &'a SharedList<T>,
    /// Position of the next element.
    front: usize,
    /// Position after the last element.
    back: usize,
}

impl<T: fmt::Debug> fmt::Debug for SharedIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<T> Clone for SharedIter<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, T> Iterator for SharedIter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.nth(0)
    }

    fn nth(&mut self, skipped: usize) -> Option<&'a T> {
        let position = self.front.saturating_add(skipped).min(self.back);
        self.front = (position + 1).min(self.back);
        self.list.get(position).filter(|_| position < self.back)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.back - self.front;
        (left, Some(left))
    }
}

impl<'a, T> DoubleEndedIterator for SharedIter<'a, T> {
    fn next_back(&mut self) -> Option<&'a T> {
        self.nth_back(0)
    }

    fn nth_back(&mut self, skipped: usize) -> Option<&'a T> {
        let end = self.back.saturating_sub(skipped).max(self.front);
        self.back = end.saturating_sub(1).max(self.front);
        self.list.get(self.back).filter(|_| end > self.front)
    }
}

impl<T> ExactSizeIterator for SharedIter<'_, T> {}
impl<T> FusedIterator for SharedIter<'_, T> {}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = SharedIter<'a, T>;

    fn into_iter(self) -> SharedIter<'a, T> {
        self.iter()
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements = elements.into_iter();
        let piece = || {
            let piece: Vec<T> = elements.by_ref().take(PIECE).collect();
            (!piece.is_empty()).then(|| Arc::new(piece))
        };
        Self {
            pieces: std::iter::from_fn(piece).collect(),
        }
    }
}

impl<T> From<Vec<T>> for SharedList<T> {
    fn from(elements: Vec<T>) -> Self {
        elements.into_iter().collect()
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, position: usize) -> &T {
        &self.pieces[position / PIECE][position % PIECE]
    }
}

impl<T: Clone> IndexMut<usize> for SharedList<T> {
    fn index_mut(&mut self, position: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.pieces[position / PIECE])[position % PIECE]
    }
}

impl<T: PartialEq> PartialEq for SharedList<T> {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<Vec<T>>, &Arc<Vec<T>>)| Arc::ptr_eq(one, other) || one == other;
        self.pieces.len() == other.pieces.len() && self.pieces.iter().zip(&other.pieces).all(same)
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T: Serialize> Serialize for SharedList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SharedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

impl<T: Shape> Shape for SharedList<T> {
    fn check(checker: &mut Checker, value: &mut Value) {
        checker.list(value, T::check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(length: usize) -> SharedList<usize> {
        (0..length).collect()
    }

    #[test]
    fn it_holds_what_a_vector_holds() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE] {
            let (list, vector) = (list(length), (0..length).collect::<Vec<_>>());
            assert_eq!((list.len(), list.is_empty()), (length, length == 0));
            assert!(list.iter().eq(&vector) && list.iter().rev().eq(vector.iter().rev()));
            assert_eq!((list.first(), list.last()), (vector.first(), vector.last()));
            assert_eq!((list.get(length), list.iter().nth(length)), (None, None));
            let middle = length / 2;
            assert!(list.iter().skip(middle).eq(&vector[middle..]));
            assert!(list.iter().take(middle).rev().eq(vector[..middle].iter().rev()));
            assert_eq!(list.iter().nth_back(length), None);
            assert_eq!(
                list.iter().rposition(|n| *n == middle),
                vector.iter().rposition(|n| *n == middle)
            );
            let mut pushed = SharedList::new();
            vector.iter().for_each(|n| pushed.push(*n));
            assert_eq!(pushed, list);
            let text = serde_json::to_string(&list).unwrap();
            assert_eq!(text, serde_json::to_string(&vector).unwrap());
            assert_eq!(serde_json::from_str::<SharedList<usize>>(&text).unwrap(), list);
        }
    }

    #[test]
    fn a_splice_changes_what_that_of_a_vector_changes() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            for (from, to) in [(0, 0), (0, length), (length, length), (length / 2, length)] {
                for added in [0, 1, PIECE, PIECE + 1] {
                    let (mut list, mut vector) = (list(length), (0..length).collect::<Vec<_>>());
                    list.splice(from..to, vec![7; added]);
                    vector.splice(from..to, vec![7; added]);
                    assert_eq!(list, SharedList::from(vector), "{length} {from} {to} {added}");
                }
            }
        }
    }

    #[test]
    fn a_splice_at_the_end_shares_all_pieces_in_front_with_a_clone() {
        let before = list(10 * PIECE);
        let mut after = before.clone();
        after.splice(10 * PIECE..10 * PIECE, vec![1]);
        after.splice(10 * PIECE..10 * PIECE, vec![2]);
        let shared = before.pieces.iter().zip(&after.pieces);
        assert_eq!(shared.filter(|(one, other)| Arc::ptr_eq(one, other)).count(), 10);
        assert!(after.range(10 * PIECE..20 * PIECE).eq(&[2, 1]));
    }

    #[test]
    fn a_change_leaves_a_clone_as_it_was_and_shares_the_rest_with_it() {
        let before = list(10 * PIECE);
        let mut after = before.clone();
        after[PIECE] = 0;
        after.push(1);
        assert_eq!((before[PIECE], before.len()), (PIECE, 10 * PIECE));
        assert_eq!((after[PIECE], after.len()), (0, 10 * PIECE + 1));
        let shared = before.pieces.iter().zip(&after.pieces);
        assert_eq!(shared.filter(|(one, other)| Arc::ptr_eq(one, other)).count(), 9);
    }
}
