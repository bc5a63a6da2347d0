//! JSON of any shape as one flat list of values, which borrows from its text.
//!
//! An agent prints many short lines of which a few members are wanted. A tree of maps and lists would be a dozen allocations for each of
//! them, and freeing those takes as long as reading the line.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Most lines have fewer values.
const USUAL_VALUES: usize = 32;

/// A text that was read.
#[derive(Debug)]
pub(super) struct Document<'a>(Vec<Node<'a>>);

/// One value of a document, with everything within it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json<'d>(&'d [Node<'d>]);

#[derive(Debug)]
struct Node<'a> {
    /// Its name in the object that it stands in.
    name: Cow<'a, str>,
    content: Content<'a>,
    /// How many nodes it takes, itself and everything within it.
    span: usize,
}

#[derive(Debug)]
enum Content<'a> {
    Null,
    Flag(bool),
    Count(u64),
    Negative(i64),
    Fraction(f64),
    Text(Cow<'a, str>),
    List,
    Object,
}

impl<'a> Document<'a> {
    /// Reads a whole text.
    ///
    /// # Errors
    ///
    /// As [`serde_json::from_str`], also for what is nested more than 127 deep.
    pub(super) fn parse(text: &'a str) -> serde_json::Result<Self> {
        let mut nodes = Vec::with_capacity(USUAL_VALUES);
        let mut parser = serde_json::Deserializer::from_str(text);
        Reader::unnamed(&mut nodes).deserialize(&mut parser)?;
        parser.end()?;
        Ok(Self(nodes))
    }

    pub(super) fn root(&self) -> Json<'_> {
        Json(&self.0)
    }
}

impl<'d> Json<'d> {
    /// The member called `name`; of several, the last one counts, as in JavaScript. `None` also for what is no object.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let found = self.members().filter(|(its, _)| *its == name).last();
        found.map(|(_, value)| value)
    }

    /// The members of an object with their names; nothing for what is none.
    pub(super) fn members(self) -> impl Iterator<Item = (&'d str, Self)> {
        self.within(matches!(self.0[0].content, Content::Object))
            .map(|value| (&*value.0[0].name, value))
    }

    /// The entries of a list; nothing for what is none.
    pub(super) fn entries(self) -> impl Iterator<Item = Self> {
        self.within(matches!(self.0[0].content, Content::List))
    }

    pub(super) fn is_object(self) -> bool {
        matches!(self.0[0].content, Content::Object)
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self.0[0].content, Content::List)
    }

    pub(super) fn as_str(self) -> Option<&'d str> {
        match &self.0[0].content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_bool(self) -> Option<bool> {
        match self.0[0].content {
            Content::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    pub(super) fn as_u64(self) -> Option<u64> {
        match self.0[0].content {
            Content::Count(count) => Some(count),
            _ => None,
        }
    }

    /// The number, which may lose digits; `None` for what is no number.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a number of JSON is a fraction to everybody else"
    )]
    pub(super) fn as_f64(self) -> Option<f64> {
        match self.0[0].content {
            Content::Count(count) => Some(count as f64),
            Content::Negative(number) => Some(number as f64),
            Content::Fraction(number) => Some(number),
            _ => None,
        }
    }

    /// A copy that outlives the text.
    pub(super) fn to_value(self) -> serde_json::Value {
        match &self.0[0].content {
            Content::Null => serde_json::Value::Null,
            Content::Flag(flag) => (*flag).into(),
            Content::Count(count) => (*count).into(),
            Content::Negative(number) => (*number).into(),
            Content::Fraction(number) => (*number).into(),
            Content::Text(text) => text.as_ref().into(),
            Content::List => self.entries().map(Self::to_value).collect(),
            Content::Object => self
                .members()
                .map(|(name, value)| (name.to_owned(), value.to_value()))
                .collect(),
        }
    }

    fn within(self, has_parts: bool) -> impl Iterator<Item = Self> {
        let mut rest = if has_parts {
            &self.0[1..self.0[0].span]
        } else {
            &[]
        };
        std::iter::from_fn(move || {
            let first = rest.first()?;
            let (value, behind) = rest.split_at(first.span);
            rest = behind;
            Some(Self(value))
        })
    }
}

/// Adds one value to the nodes.
struct Reader<'n, 'a> {
    nodes: &'n mut Vec<Node<'a>>,
    name: Cow<'a, str>,
}

impl<'n, 'a> Reader<'n, 'a> {
    fn unnamed(nodes: &'n mut Vec<Node<'a>>) -> Self {
        let name = Cow::Borrowed("");
        Self { nodes, name }
    }

    fn leaf<E>(self, content: Content<'a>) -> Result<(), E> {
        self.begin(content);
        Ok(())
    }

    /// Adds the value without what is within it, and says where it stands.
    fn begin(self, content: Content<'a>) -> (&'n mut Vec<Node<'a>>, usize) {
        let place = self.nodes.len();
        self.nodes.push(Node {
            name: self.name,
            content,
            span: 1,
        });
        (self.nodes, place)
    }
}

impl<'a> DeserializeSeed<'a> for Reader<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Reader<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.leaf(Content::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<(), E> {
        self.leaf(Content::Flag(flag))
    }

    fn visit_u64<E>(self, count: u64) -> Result<(), E> {
        self.leaf(Content::Count(count))
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.leaf(Content::Negative(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.leaf(Content::Fraction(number))
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<(), E> {
        self.leaf(Content::Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.leaf(Content::Text(text.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        let (nodes, place) = self.begin(Content::List);
        while list.next_element_seed(Reader::unnamed(nodes))?.is_some() {}
        nodes[place].span = nodes.len() - place;
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        let (nodes, place) = self.begin(Content::Object);
        while let Some(name) = object.next_key_seed(Name)? {
            object.next_value_seed(Reader { nodes, name })?;
        }
        nodes[place].span = nodes.len() - place;
        Ok(())
    }
}

/// Reads the name of a member; copied only when it has escapes.
struct Name;

impl<'a> DeserializeSeed<'a> for Name {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Cow<'a, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Name {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(name.into())
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'a, str>, E> {
        Ok(name.to_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map_into(),
            any::<i64>().prop_map_into(),
            any::<u64>().prop_map_into(),
            (-1e300..1e300).prop_map(serde_json::Value::from),
            ".*".prop_map_into(),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map_into(),
                prop::collection::btree_map(".*", inner, 0..8)
                    .prop_map(|members| members.into_iter().collect::<serde_json::Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_found_again(value in any_value()) {
            let text = value.to_string();
            let document = Document::parse(&text).unwrap();
            prop_assert_eq!(document.root().to_value(), value);
        }
    }

    #[test]
    fn members_are_found_by_name_and_the_last_one_counts() {
        let document = Document::parse(r#"{"a":[1,{"b":2}],"\u0062":{"a":3},"c":-1.5,"a":"x\ny"}"#).unwrap();
        let root = document.root();
        assert_eq!(root.field("a").unwrap().as_str(), Some("x\ny"));
        assert_eq!(root.field("b").unwrap().field("a").unwrap().as_u64(), Some(3));
        assert_eq!(root.field("c").unwrap().as_f64(), Some(-1.5));
        assert!(root.field("d").is_none() && root.field("c").unwrap().field("a").is_none());
        let (_, list) = root.members().next().unwrap();
        assert_eq!((list.entries().count(), list.members().count()), (2, 0));
        assert!(list.is_list() && !list.is_object());
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\":1e999}",
            "1 2",
            "{1:2}",
            &"[".repeat(100_000),
        ] {
            assert!(Document::parse(text).is_err());
        }
    }
}
