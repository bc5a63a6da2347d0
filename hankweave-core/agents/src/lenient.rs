//! JSON values from programs that are newer than this code. A value of an unexpected type counts as absent, and does not hide the values next to it.
//!
//! A line of an agent is read into a struct whose fields have these types, such as [`Text`] and [`Count`]; the struct has
//! `#[serde(default, bound(deserialize = "'de: 'l"))]` where some fields borrow from the line. Members of the JSON without a field are skipped.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Conversion from each type of JSON. A method that is not overridden skips the value, which then counts as absent.
trait Accept<'de>: Sized + Default {
    fn text(_: Cow<'de, str>) -> Self {
        Self::default()
    }

    /// Converts a number; the second argument is its exact value if it is written as a whole number of at least 0.
    fn number(_: f64, _: Option<u64>) -> Self {
        Self::default()
    }

    fn truth(_: bool) -> Self {
        Self::default()
    }

    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// Visitor that hands each type of JSON to the method of [`Accept`] for it.
struct Any<T>(PhantomData<T>);

impl<'de, T: Accept<'de>> Visitor<'de> for Any<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E>(self, value: bool) -> Result<T, E> {
        Ok(T::truth(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<T, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "the second argument has the exact number"
        )]
        Ok(T::number(value as f64, Some(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<T, E> {
        #[expect(clippy::cast_precision_loss, reason = "a negative number is no count")]
        Ok(T::number(value as f64, None))
    }

    fn visit_f64<E>(self, value: f64) -> Result<T, E> {
        Ok(T::number(value, None))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<T, E> {
        Ok(T::text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<T, E> {
        Ok(T::text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::object(object)
    }
}

/// Implements [`Deserialize`] for types that accept any JSON.
macro_rules! accepts {
    ($([$($parameter:tt)?] $type:ty),*) => {$(
        impl<'de $(, $parameter)?> Deserialize<'de> for $type
        where
            Self: Accept<'de>,
        {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Any(PhantomData))
            }
        }
    )*};
}

accepts!(['l] Text<'l>, [] Count, [] Dollars, [] Flag, [T] Object<T>, [T] List<T>, [T] Members<T>);

/// A text.
#[derive(Debug, Default)]
pub(crate) struct Text<'l>(pub(super) Option<Cow<'l, str>>);

impl Text<'_> {
    pub(crate) fn as_deref(&self) -> Option<&str> {
        self.0.as_deref()
    }

    pub(crate) fn into_owned(self) -> Option<String> {
        self.0.map(Cow::into_owned)
    }
}

impl<'de: 'l, 'l> Accept<'de> for Text<'l> {
    fn text(text: Cow<'de, str>) -> Self {
        Self(Some(text))
    }
}

/// A number of things; some programs print it as `3.0` or `568.2`.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Count(pub(super) Option<u64>);

impl Count {
    /// Returns the number, or 0 if it is absent, negative or infinite (D10).
    pub(crate) fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl Accept<'_> for Count {
    fn number(number: f64, whole: Option<u64>) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked before"
        )]
        let rounded = (0.0..1e18).contains(&number).then_some(number as u64);
        Self(whole.or(rounded))
    }
}

/// An amount of money, in dollars.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Dollars(pub(super) Option<f64>);

impl Accept<'_> for Dollars {
    fn number(number: f64, _: Option<u64>) -> Self {
        Self(Some(number))
    }
}

/// A flag; absent means false.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Flag(pub(super) bool);

impl Accept<'_> for Flag {
    fn truth(value: bool) -> Self {
        Self(value)
    }
}

/// An object with known fields, those of `T`.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(super) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Accept<'de> for Object<T> {
    fn object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|object| Self(Some(object)))
    }
}

/// A list of values.
#[derive(Debug)]
pub(crate) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Accept<'de> for List<T> {
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Self(entries))
    }
}

impl<T> List<Object<T>> {
    /// Its entries that are objects.
    pub(crate) fn objects(self) -> impl Iterator<Item = T> {
        self.0.into_iter().filter_map(|entry| entry.0)
    }
}

/// An object with any names, such as names of models, each with a `T`.
#[derive(Debug)]
pub(crate) struct Members<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Accept<'de> for Members<T> {
    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = object.next_entry()? {
            members.push(member);
        }
        Ok(Self(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct All<'l> {
        #[serde(borrow)]
        text: Text<'l>,
        count: Count,
        dollars: Dollars,
        flag: Flag,
        object: Object<Inner>,
        list: List<Object<Inner>>,
        members: Members<Count>,
    }

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct Inner {
        count: Count,
    }

    fn read(value: &str) -> All<'static> {
        let names = ["text", "count", "dollars", "flag", "object", "list", "members"];
        let fields: Vec<String> = names.iter().map(|name| format!("\"{name}\":{value}")).collect();
        let line = format!("{{{},\"more\":[{{}}]}}", fields.join(","));
        serde_json::from_str(line.leak()).unwrap()
    }

    /// Which of the fields take the value.
    fn taken(value: &str) -> [bool; 7] {
        let all = read(value);
        [
            all.text.0.is_some(),
            all.count.0.is_some(),
            all.dollars.0.is_some(),
            all.flag.0,
            all.object.0.is_some(),
            !all.list.0.is_empty(),
            !all.members.0.is_empty(),
        ]
    }

    #[test]
    fn a_value_of_another_type_is_absent_and_hides_nothing() {
        let (o, x) = (false, true);
        for (value, wanted) in [
            ("null", [o; 7]),
            (r#""a""#, [x, o, o, o, o, o, o]),
            (r#""a\n""#, [x, o, o, o, o, o, o]),
            ("3", [o, x, x, o, o, o, o]),
            ("-3", [o, o, x, o, o, o, o]),
            ("true", [o, o, o, x, o, o, o]),
            (r#"{"count":3}"#, [o, o, o, o, x, o, x]),
            (r#"[{"count":3},4]"#, [o, o, o, o, o, x, o]),
            ("[[[]]]", [o, o, o, o, o, x, o]),
        ] {
            assert_eq!(taken(value), wanted, "{value}");
        }
    }

    #[test]
    fn numbers_of_things_may_be_written_as_floats() {
        let count = |text| serde_json::from_str::<Count>(text).unwrap().0;
        assert_eq!(
            [count("3.0"), count("568.2"), count("0")],
            [Some(3), Some(568), Some(0)]
        );
        assert_eq!(
            [count("-0.5"), count("1e30"), count("18446744073709551615")],
            [None, None, Some(u64::MAX)]
        );
    }

    #[test]
    fn only_objects_are_kept_of_a_list_of_objects() {
        let list: List<Object<Inner>> = serde_json::from_str(r#"[{"count":3},4,[],{"count":"x"}]"#).unwrap();
        let counts: Vec<_> = list.objects().map(|inner| inner.count.0).collect();
        assert_eq!(counts, [Some(3), None]);
    }
}
