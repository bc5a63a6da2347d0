//! Reads texts onto a [`Tape`].

use std::ops::Range;

use super::text::length_of_escape;
use super::value::Json;
use crate::json::end_of_plain;

/// What is nested deeper is refused, as serde_json does.
const DEEPEST: usize = 127;

/// A number without exponent that is no longer than this is finite.
const SURELY_FINITE: usize = 308;

/// The values of texts, each before what is within it.
#[derive(Debug, Default)]
pub(in crate::agent) struct Tape(Vec<Node>);

/// One value.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: Place,
    /// Where it is written; names and texts without their quotes. Nothing for a list or object.
    pub(super) written: Place,
    /// How many nodes it takes, itself and everything within it. While it is open, where the group stands that it is in.
    pub(super) span: u32,
    pub(super) kind: Kind,
    /// Whether its name has escapes.
    pub(super) name_escaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    False,
    True,
    Number,
    Text,
    /// A text with escapes.
    Escaped,
    List,
    Object,
}

/// A range of the bytes of the text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    start: u32,
    end: u32,
}

impl Place {
    fn new(start: usize, end: usize) -> Self {
        Self {
            start: short(start),
            end: short(end),
        }
    }

    pub(super) fn of(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }

    pub(super) fn holds(self, text: &str, wanted: &str) -> bool {
        let (start, end) = (self.start as usize, self.end as usize);
        end - start == wanted.len() && text.as_bytes().get(start..end) == Some(wanted.as_bytes())
    }
}

impl Tape {
    /// Reads what stands in `text` from `begin` on, and returns where on the tape its values are; `None` for everything that
    /// `serde_json::from_str` refuses, and for texts of 4 GiB and more.
    pub(in crate::agent) fn read(&mut self, text: &str, begin: usize) -> Option<Range<usize>> {
        let nodes = self.0.len();
        u32::try_from(text.len().max(nodes)).ok()?;
        let mut reader = Reader {
            text,
            nodes: &mut self.0,
            at: begin,
            depth: 0,
            open: 0,
            closing: b']',
        };
        if reader.document().is_none() {
            self.0.truncate(nodes);
            return None;
        }
        Some(nodes..self.0.len())
    }

    /// How many values are on it.
    pub(in crate::agent) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets everything, and keeps the memory of up to `values` values.
    pub(in crate::agent) fn clear(&mut self, values: usize) {
        self.0.clear();
        self.0.shrink_to(values);
    }

    /// What was read of `text`, at a place that [`read`](Self::read) has returned.
    pub(in crate::agent) fn value<'d>(&'d self, text: &'d str, place: Range<usize>) -> Json<'d> {
        Json::new(text, &self.0[place])
    }
}

/// A text that was read, and whether it has escapes.
#[derive(Clone, Copy, Default)]
struct Quoted {
    written: Place,
    escaped: bool,
}

struct Reader<'a> {
    text: &'a str,
    nodes: &'a mut Vec<Node>,
    at: usize,
    /// How many lists and objects are open.
    depth: usize,
    /// Where the innermost of them stands.
    open: u32,
    /// What closes it.
    closing: u8,
}

impl Reader<'_> {
    /// A loop and no recursion, of which the compiler makes one function.
    fn document(&mut self) -> Option<()> {
        loop {
            let name = match self.closing {
                b'}' => self.name()?,
                _ => Quoted::default(),
            };
            let is_group = self.value(name)?;
            if is_group && !self.closes_at_once() {
                continue;
            }
            if !self.goes_on()? {
                return self.token().is_none().then_some(());
            }
        }
    }

    fn name(&mut self) -> Option<Quoted> {
        self.expect(b'"')?;
        let name = self.quoted()?;
        self.expect(b':')?;
        Some(name)
    }

    /// Adds the next value, of a list or object only its beginning; says whether it is one.
    fn value(&mut self, name: Quoted) -> Option<bool> {
        let first = self.token()?;
        let start = self.at;
        let kind = match first {
            b'"' => {
                let text = self.quoted()?;
                let kind = if text.escaped { Kind::Escaped } else { Kind::Text };
                self.add(kind, name, text.written);
                return Some(false);
            }
            b'{' => return self.begin(Kind::Object, name, b'}'),
            b'[' => return self.begin(Kind::List, name, b']'),
            b'-' | b'0'..=b'9' => self.number(first)?,
            b't' => self.word(Kind::True, b"rue")?,
            b'f' => self.word(Kind::False, b"alse")?,
            b'n' => self.word(Kind::Null, b"ull")?,
            _ => return None,
        };
        self.add(kind, name, Place::new(start - 1, self.at));
        Some(false)
    }

    fn add(&mut self, kind: Kind, name: Quoted, written: Place) {
        self.nodes.push(Node {
            name: name.written,
            written,
            span: 1,
            kind,
            name_escaped: name.escaped,
        });
    }

    fn begin(&mut self, kind: Kind, name: Quoted, closing: u8) -> Option<bool> {
        if self.depth == DEEPEST {
            return None;
        }
        let place = short(self.nodes.len());
        self.add(kind, name, Place::default());
        self.nodes[place as usize].span = self.open;
        self.depth += 1;
        self.open = place;
        self.closing = closing;
        Some(true)
    }

    fn close(&mut self) {
        let nodes = short(self.nodes.len());
        let group = &mut self.nodes[self.open as usize];
        let outer = std::mem::replace(&mut group.span, nodes - self.open);
        self.depth -= 1;
        self.open = outer;
        let in_object = self.depth > 0 && self.nodes[outer as usize].kind == Kind::Object;
        self.closing = if in_object { b'}' } else { b']' };
    }

    fn closes_at_once(&mut self) -> bool {
        let before = self.at;
        let closes = self.token() == Some(self.closing);
        if closes {
            self.close();
        } else {
            self.at = before;
        }
        closes
    }

    /// Goes to the next value; `false` if there is none because the outermost one has ended.
    fn goes_on(&mut self) -> Option<bool> {
        while self.depth > 0 {
            match self.token()? {
                b',' => return Some(true),
                token if token == self.closing => self.close(),
                _ => return None,
            }
        }
        Some(false)
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.token()? == wanted).then_some(())
    }

    /// The text whose first quote was taken.
    #[inline(always)]
    fn quoted(&mut self) -> Option<Quoted> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut escaped = false;
        loop {
            let end = end_of_plain(bytes, self.at);
            self.at = end + 1;
            match bytes.get(end)? {
                b'"' => {
                    let written = Place::new(start, end);
                    return Some(Quoted { written, escaped });
                }
                b'\\' => {
                    escaped = true;
                    self.escapes()?;
                }
                _ => return None,
            }
        }
    }

    /// Takes an escape of which the backslash was taken, and those that follow at once.
    fn escapes(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        loop {
            self.at += length_of_escape(&bytes[self.at..])?;
            if bytes.get(self.at) != Some(&b'\\') {
                return Some(());
            }
            self.at += 1;
        }
    }

    /// The number of which the first byte was taken.
    fn number(&mut self, first: u8) -> Option<Kind> {
        let start = self.at - 1;
        let first = if first == b'-' { self.next()? } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.take(|byte| byte == b'.') {
            self.at_least_one_digit()?;
        }
        let has_exponent = self.take(|byte| matches!(byte, b'e' | b'E'));
        if has_exponent {
            self.take(|byte| matches!(byte, b'+' | b'-'));
            self.at_least_one_digit()?;
        }
        if has_exponent || self.at - start > SURELY_FINITE {
            serde_json::from_str::<serde_json::Number>(&self.text[start..self.at]).ok()?;
        }
        Some(Kind::Number)
    }

    fn at_least_one_digit(&mut self) -> Option<()> {
        let before = self.at;
        self.digits();
        (self.at > before).then_some(())
    }

    fn digits(&mut self) {
        while self.take(|byte| byte.is_ascii_digit()) {}
    }

    /// A word of which the first letter was taken.
    fn word(&mut self, kind: Kind, rest: &[u8]) -> Option<Kind> {
        let found = self.text.as_bytes()[self.at..].starts_with(rest);
        self.at += rest.len();
        found.then_some(kind)
    }

    /// Takes the next byte that is no white space.
    fn token(&mut self) -> Option<u8> {
        loop {
            match self.next()? {
                b' ' | b'\t' | b'\n' | b'\r' => {}
                token => return Some(token),
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.text.as_bytes().get(self.at)?;
        self.at += 1;
        Some(*byte)
    }

    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let found = self.text.as_bytes().get(self.at);
        let taken = found.is_some_and(|byte| wanted(*byte));
        self.at += usize::from(taken);
        taken
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a text has less than 4 GiB, and not more values than bytes"
)]
fn short(place: usize) -> u32 {
    place as u32
}
