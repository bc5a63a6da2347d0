//! Regular languages of bytes: expressions, and the automata that they become.
//!
//! The automaton is built from derivatives (Brzozowski, "Derivatives of regular expressions", 1964): each
//! derivative of the language is a state. Other than the engines for regular expressions, this supports
//! complements.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bytes([u64; 4]);

impl Bytes {
    pub(super) const ALL: Self = Self([u64::MAX; 4]);

    pub(super) fn range(first: u8, last: u8) -> Self {
        let mut bits = [0; 4];
        for byte in first..=last {
            bits[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
        Self(bits)
    }

    pub(super) fn without(mut self, byte: u8) -> Self {
        self.0[usize::from(byte / 64)] &= !(1 << (byte % 64));
        self
    }

    fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }
}

/// A set of byte strings. Its constructors bring equal sets into one form as far as that is cheap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Language(Rc<LanguageNode>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LanguageNode {
    /// The empty string alone.
    Empty,
    /// One byte of these.
    One(Bytes),
    Then(Language, Language),
    /// Nothing when the set is empty.
    Either(BTreeSet<Language>),
    Both(Language, Language),
    Not(Language),
    /// Any number of times, zero included.
    Repeated(Language),
}

impl Language {
    fn new(form: LanguageNode) -> Self {
        Self(Rc::new(form))
    }

    pub(super) fn empty() -> Self {
        Self::new(LanguageNode::Empty)
    }

    pub(super) fn one(bytes: Bytes) -> Self {
        Self::new(LanguageNode::One(bytes))
    }

    pub(super) fn text(text: &str) -> Self {
        let bytes = text.bytes().rev();
        bytes.fold(Self::empty(), |rest, byte| {
            Self::one(Bytes::range(byte, byte)).then(rest)
        })
    }

    fn nothing() -> Self {
        Self::new(LanguageNode::Either(BTreeSet::new()))
    }

    fn is_nothing(&self) -> bool {
        matches!(&*self.0, LanguageNode::Either(choices) if choices.is_empty())
    }

    pub(super) fn then(self, next: Self) -> Self {
        if self.is_nothing() || next.is_nothing() {
            return Self::nothing();
        }
        match (&*self.0, &*next.0) {
            (LanguageNode::Empty, _) => next,
            (_, LanguageNode::Empty) => self,
            (LanguageNode::Then(first, second), _) => {
                let rest = second.clone().then(next);
                Self::new(LanguageNode::Then(first.clone(), rest))
            }
            _ => Self::new(LanguageNode::Then(self, next)),
        }
    }

    pub(super) fn either(choices: impl IntoIterator<Item = Self>) -> Self {
        let mut set = BTreeSet::new();
        for choice in choices {
            match &*choice.0 {
                LanguageNode::Either(inner) => set.extend(inner.iter().cloned()),
                _ => drop(set.insert(choice)),
            }
        }
        match set.len() {
            1 => set.pop_first().unwrap_or_else(Self::nothing),
            _ => Self::new(LanguageNode::Either(set)),
        }
    }

    pub(super) fn both(self, other: Self) -> Self {
        if self.is_nothing() || other.is_nothing() {
            return Self::nothing();
        }
        match self.cmp(&other) {
            std::cmp::Ordering::Equal => self,
            std::cmp::Ordering::Less => Self::new(LanguageNode::Both(self, other)),
            std::cmp::Ordering::Greater => Self::new(LanguageNode::Both(other, self)),
        }
    }

    pub(super) fn not(self) -> Self {
        Self::new(LanguageNode::Not(self))
    }

    pub(super) fn repeated(self) -> Self {
        match &*self.0 {
            LanguageNode::Empty | LanguageNode::Repeated(_) => self,
            _ => Self::new(LanguageNode::Repeated(self)),
        }
    }

    /// Whether the empty string is in it.
    fn has_empty(&self) -> bool {
        match &*self.0 {
            LanguageNode::Empty | LanguageNode::Repeated(_) => true,
            LanguageNode::One(_) => false,
            LanguageNode::Then(first, second) => first.has_empty() && second.has_empty(),
            LanguageNode::Either(choices) => choices.iter().any(Self::has_empty),
            LanguageNode::Both(one, other) => one.has_empty() && other.has_empty(),
            LanguageNode::Not(inner) => !inner.has_empty(),
        }
    }

    /// The derivative: all strings that are in this language with `byte` before them.
    fn derivative(&self, byte: u8) -> Self {
        match &*self.0 {
            LanguageNode::Empty => Self::nothing(),
            LanguageNode::One(bytes) => match bytes.contains(byte) {
                true => Self::empty(),
                false => Self::nothing(),
            },
            LanguageNode::Then(first, second) => {
                let inside = first.derivative(byte).then(second.clone());
                match first.has_empty() {
                    true => Self::either([inside, second.derivative(byte)]),
                    false => inside,
                }
            }
            LanguageNode::Either(choices) => {
                Self::either(choices.iter().map(|choice| choice.derivative(byte)))
            }
            LanguageNode::Both(one, other) => one.derivative(byte).both(other.derivative(byte)),
            LanguageNode::Not(inner) => inner.derivative(byte).not(),
            LanguageNode::Repeated(inner) => inner.derivative(byte).then(self.clone()),
        }
    }

    /// The number of its nodes.
    fn size(&self) -> usize {
        match &*self.0 {
            LanguageNode::Empty | LanguageNode::One(_) => 1,
            LanguageNode::Then(one, other) | LanguageNode::Both(one, other) => 1 + one.size() + other.size(),
            LanguageNode::Either(choices) => 1 + choices.iter().map(Self::size).sum::<usize>(),
            LanguageNode::Not(inner) | LanguageNode::Repeated(inner) => 1 + inner.size(),
        }
    }

    /// The sets of bytes in its nodes.
    fn sets(&self, found: &mut BTreeSet<Bytes>) {
        match &*self.0 {
            LanguageNode::Empty => {}
            LanguageNode::One(bytes) => drop(found.insert(*bytes)),
            LanguageNode::Then(one, other) | LanguageNode::Both(one, other) => {
                one.sets(found);
                other.sets(found);
            }
            LanguageNode::Either(choices) => choices.iter().for_each(|choice| choice.sets(found)),
            LanguageNode::Not(inner) | LanguageNode::Repeated(inner) => inner.sets(found),
        }
    }
}

/// A language as a table: a string is looked up in one step for each of its bytes.
#[derive(Debug, Clone)]
pub(super) struct Automaton {
    /// Bytes that are in the same sets have the same class.
    classes: Box<[u8; 256]>,
    /// For each state and class of bytes the next state; the first state is where every string begins.
    next: Vec<u16>,
    /// Whether a string may end in a state.
    ends: Vec<bool>,
}

impl Automaton {
    /// A pattern that people write has a dozen states.
    const MAX_STATES: usize = 1_000;
    /// Limits the time that a hostile pattern can cost, not what people write.
    const MAX_SIZE: usize = 30_000;

    /// Finds all states; `None` when there are too many.
    pub(super) fn of(language: &Language) -> Option<Self> {
        let (classes, examples) = classes(language);
        let mut states = BTreeMap::from([(language.clone(), 0_u16)]);
        let mut order = vec![language.clone()];
        let (mut next, mut size) = (Vec::new(), 0);
        while let Some(state) = order.get(next.len() / examples.len()).cloned() {
            size += state.size() * examples.len();
            if order.len() > Self::MAX_STATES || size > Self::MAX_SIZE {
                return None;
            }
            for byte in &examples {
                let derivative = state.derivative(*byte);
                let new = u16::try_from(order.len()).ok()?;
                let number = *states.entry(derivative.clone()).or_insert(new);
                if number == new {
                    order.push(derivative);
                }
                next.push(number);
            }
        }
        Some(Self {
            classes,
            next,
            ends: order.iter().map(Language::has_empty).collect(),
        })
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let width = self.next.len() / self.ends.len();
        let last = text.iter().fold(0, |state, byte| {
            let class = usize::from(self.classes[usize::from(*byte)]);
            usize::from(self.next[state * width + class])
        });
        self.ends[last]
    }
}

/// The class of each byte, and one byte of each class.
fn classes(language: &Language) -> (Box<[u8; 256]>, Vec<u8>) {
    let mut sets = BTreeSet::new();
    language.sets(&mut sets);
    let mut classes = Box::new([0; 256]);
    let mut known: BTreeMap<Vec<bool>, u8> = BTreeMap::new();
    let mut examples = Vec::new();
    for byte in 0..=u8::MAX {
        let member: Vec<bool> = sets.iter().map(|set| set.contains(byte)).collect();
        // At most 256 classes, numbered from 0.
        let new = u8::try_from(known.len()).unwrap_or(u8::MAX);
        let class = *known.entry(member).or_insert_with(|| {
            examples.push(byte);
            new
        });
        classes[usize::from(byte)] = class;
    }
    (classes, examples)
}
