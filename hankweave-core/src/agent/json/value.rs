//! What was read, to be looked at.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::read::{Kind, Node};
use super::text::unescape;

/// One value of a text, with everything within it.
#[derive(Debug, Clone, Copy)]
pub(in crate::agent) struct Json<'d> {
    text: &'d str,
    /// Its own node, and those of what is within it.
    nodes: &'d [Node],
}

impl<'d> Json<'d> {
    pub(super) fn new(text: &'d str, nodes: &'d [Node]) -> Self {
        Self { text, nodes }
    }

    /// The member called `name`; of several, the last one counts, as in JavaScript. `None` also for what is no object.
    pub(in crate::agent) fn field(self, name: &str) -> Option<Self> {
        let parts = self.within(Kind::Object);
        parts.filter(|part| part.is_called(name)).last()
    }

    /// [`field`](Self::field) for several names in one pass.
    pub(in crate::agent) fn fields<const N: usize>(self, names: [&str; N]) -> [Option<Self>; N] {
        let mut found = [None; N];
        for part in self.within(Kind::Object) {
            if let Some(wanted) = names.iter().position(|name| part.is_called(name)) {
                found[wanted] = Some(part);
            }
        }
        found
    }

    /// The members of an object with their names; nothing for what is none.
    pub(in crate::agent) fn members(self) -> impl Iterator<Item = (Cow<'d, str>, Self)> {
        self.within(Kind::Object).map(|part| (part.name(), part))
    }

    /// The entries of a list; nothing for what is none.
    pub(in crate::agent) fn entries(self) -> impl Iterator<Item = Self> {
        self.within(Kind::List)
    }

    pub(in crate::agent) fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    pub(in crate::agent) fn is_list(self) -> bool {
        self.kind() == Kind::List
    }

    pub(in crate::agent) fn as_str(self) -> Option<Cow<'d, str>> {
        match self.kind() {
            Kind::Text => Some(self.written().into()),
            Kind::Escaped => Some(unescape(self.written()).into()),
            _ => None,
        }
    }

    pub(in crate::agent) fn as_bool(self) -> Option<bool> {
        match self.kind() {
            Kind::False => Some(false),
            Kind::True => Some(true),
            _ => None,
        }
    }

    pub(in crate::agent) fn as_u64(self) -> Option<u64> {
        match self.kind() {
            Kind::Number => self.written().parse().ok(),
            _ => None,
        }
    }

    /// The number, which may lose digits; `None` for what is no number.
    pub(in crate::agent) fn as_f64(self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// A copy that outlives the text.
    pub(in crate::agent) fn to_value(self) -> Value {
        match self.kind() {
            Kind::Null => Value::Null,
            Kind::False => false.into(),
            Kind::True => true.into(),
            Kind::Number => self.as_number().map_or(Value::Null, Value::Number),
            Kind::Text => self.written().into(),
            Kind::Escaped => unescape(self.written()).into(),
            Kind::List => self.entries().map(Self::to_value).collect(),
            Kind::Object => self
                .members()
                .map(|(name, value)| (name.into_owned(), value.to_value()))
                .collect(),
        }
    }

    /// serde_json says what a number means, so that it means the same everywhere.
    fn as_number(self) -> Option<Number> {
        match self.kind() {
            Kind::Number => serde_json::from_str(self.written()).ok(),
            _ => None,
        }
    }

    fn kind(self) -> Kind {
        self.nodes[0].kind
    }

    fn written(self) -> &'d str {
        self.nodes[0].written.of(self.text)
    }

    fn name(self) -> Cow<'d, str> {
        let name = self.nodes[0].name.of(self.text);
        match self.nodes[0].name_escaped {
            false => name.into(),
            true => unescape(name).into(),
        }
    }

    fn is_called(self, name: &str) -> bool {
        match self.nodes[0].name_escaped {
            false => self.nodes[0].name.holds(self.text, name),
            true => self.name() == name,
        }
    }

    /// The values directly within this one if it is of that kind.
    fn within(self, kind: Kind) -> impl Iterator<Item = Self> {
        let mut rest = match self.kind() == kind {
            true => &self.nodes[1..],
            false => &[],
        };
        std::iter::from_fn(move || {
            let span = rest.first()?.span as usize;
            let (nodes, behind) = rest.split_at(span);
            rest = behind;
            Some(Self { nodes, ..self })
        })
    }
}
