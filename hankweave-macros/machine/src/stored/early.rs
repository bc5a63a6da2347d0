//! Early values: those of fields in front of the tag, kept as the format delivered them until the state is known, and then read by the types of the state.

use core::fmt;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::{self, Vec};

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// Any value of any format, in the forms in which serde delivers values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Early {
    Unit,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    WideUnsigned(u128),
    WideSigned(i128),
    Float(f64),
    Char(char),
    Text(String),
    Bytes(Vec<u8>),
    /// `None` of an `Option`.
    Absent,
    /// `Some` of an `Option`.
    Present(Box<Self>),
    Newtype(Box<Self>),
    Sequence(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

impl<'de> Deserialize<'de> for Early {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EarlyVisitor)
    }
}

/// Visitor that takes any value.
struct EarlyVisitor;

macro_rules! visit {
    ($($method:ident($type:ty) => $variant:ident;)*) => {
        $(
            fn $method<E>(self, value: $type) -> Result<Early, E> {
                Ok(Early::$variant(value.into()))
            }
        )*
    };
}

impl<'de> Visitor<'de> for EarlyVisitor {
    type Value = Early;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    visit! {
        visit_bool(bool) => Bool;
        visit_i64(i64) => Signed;
        visit_u64(u64) => Unsigned;
        visit_i128(i128) => WideSigned;
        visit_u128(u128) => WideUnsigned;
        visit_f64(f64) => Float;
        visit_char(char) => Char;
        visit_str(&str) => Text;
        visit_string(String) => Text;
        visit_bytes(&[u8]) => Bytes;
        visit_byte_buf(Vec<u8>) => Bytes;
    }

    fn visit_none<E>(self) -> Result<Early, E> {
        Ok(Early::Absent)
    }

    fn visit_unit<E>(self) -> Result<Early, E> {
        Ok(Early::Unit)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Early, D::Error> {
        Early::deserialize(deserializer).map(|value| Early::Present(Box::new(value)))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Early, D::Error> {
        Early::deserialize(deserializer).map(|value| Early::Newtype(Box::new(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Early, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Early::Sequence(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Early, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Early::Map(entries))
    }
}

/// Deserializer of an early value.
pub(super) struct Reader<E> {
    value: Early,
    /// Whether the format is one for people; types may read other forms then.
    human_readable: bool,
    /// Whether the value is the key of a map: formats for people write numbers there as texts.
    is_key: bool,
    error: core::marker::PhantomData<E>,
}

impl Early {
    pub(super) fn reader<E>(self, human_readable: bool) -> Reader<E> {
        Reader {
            value: self,
            human_readable,
            is_key: false,
            error: core::marker::PhantomData,
        }
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Unit => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Unsigned(value) => Unexpected::Unsigned(*value),
            Self::Signed(value) => Unexpected::Signed(*value),
            Self::WideUnsigned(_) | Self::WideSigned(_) => Unexpected::Other("a wide number"),
            Self::Float(value) => Unexpected::Float(*value),
            Self::Char(value) => Unexpected::Char(*value),
            Self::Text(value) => Unexpected::Str(value),
            Self::Bytes(value) => Unexpected::Bytes(value),
            Self::Absent | Self::Present(_) => Unexpected::Option,
            Self::Newtype(_) => Unexpected::NewtypeStruct,
            Self::Sequence(_) => Unexpected::Seq,
            Self::Map(_) => Unexpected::Map,
        }
    }
}

/// Methods for types that are no text: as a key in a format for people, such a value was written as a text and is parsed.
macro_rules! keys {
    ($($method:ident $visit:ident $type:ty;)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
                match &self.value {
                    Early::Text(text) if self.is_key && self.human_readable => match text.parse::<$type>() {
                        Ok(value) => visitor.$visit(value),
                        Err(_) => Err(E::invalid_type(Unexpected::Str(text), &visitor)),
                    },
                    _ => self.deserialize_any(visitor),
                }
            }
        )*
    };
}

impl<'de, E: Error> Deserializer<'de> for Reader<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        let inside = |value: Early| value.reader::<E>(self.human_readable);
        match self.value {
            Early::Unit => visitor.visit_unit(),
            Early::Bool(value) => visitor.visit_bool(value),
            Early::Unsigned(value) => visitor.visit_u64(value),
            Early::Signed(value) => visitor.visit_i64(value),
            Early::WideUnsigned(value) => visitor.visit_u128(value),
            Early::WideSigned(value) => visitor.visit_i128(value),
            Early::Float(value) => visitor.visit_f64(value),
            Early::Char(value) => visitor.visit_char(value),
            Early::Text(value) => visitor.visit_string(value),
            Early::Bytes(value) => visitor.visit_byte_buf(value),
            Early::Absent => visitor.visit_none(),
            Early::Present(value) => visitor.visit_some(inside(*value)),
            Early::Newtype(value) => visitor.visit_newtype_struct(inside(*value)),
            Early::Sequence(values) => {
                let mut access = SeqDeserializer::new(values.into_iter().map(inside));
                let value = visitor.visit_seq(&mut access)?;
                access.end()?;
                Ok(value)
            }
            Early::Map(entries) => {
                let human_readable = self.human_readable;
                let entries = entries.into_iter().map(|(key, value)| {
                    let key = Self {
                        is_key: true,
                        ..key.reader(human_readable)
                    };
                    (key, value.reader::<E>(human_readable))
                });
                let mut access = MapDeserializer::new(entries);
                let value = visitor.visit_map(&mut access)?;
                access.end()?;
                Ok(value)
            }
        }
    }

    keys! {
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_bool visit_bool bool;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.value {
            // A format may have one `null` for `None` and for a unit.
            Early::Absent | Early::Unit => visitor.visit_none(),
            Early::Present(value) => visitor.visit_some(value.reader::<E>(self.human_readable)),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, E> {
        match self.value {
            Early::Newtype(value) => visitor.visit_newtype_struct(value.reader::<E>(self.human_readable)),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.value {
            Early::Absent => visitor.visit_unit(),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, E> {
        match &self.value {
            // Some formats write what has no fields as an empty sequence or map.
            Early::Sequence(values) if values.is_empty() => visitor.visit_unit(),
            Early::Map(entries) if entries.is_empty() => visitor.visit_unit(),
            _ => self.deserialize_unit(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        let (name, content) = match self.value {
            Early::Map(entries) => {
                let mut entries: vec::IntoIter<_> = entries.into_iter();
                match (entries.next(), entries.next()) {
                    (Some((name, content)), None) => (name, Some(content)),
                    _ => return Err(E::custom("a variant is a map with one entry")),
                }
            }
            name => (name, None),
        };
        let human_readable = self.human_readable;
        visitor.visit_enum(Variant {
            name: name.reader::<E>(human_readable),
            content: content.map(|content| content.reader::<E>(human_readable)),
        })
    }

    fn is_human_readable(&self) -> bool {
        self.human_readable
    }

    forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de, E: Error> IntoDeserializer<'de, E> for Reader<E> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// One variant of an enum.
struct Variant<E> {
    name: Reader<E>,
    /// `None` for a variant written as its name alone.
    content: Option<Reader<E>>,
}

impl<'de, E: Error> EnumAccess<'de> for Variant<E> {
    type Error = E;
    type Variant = Content<E>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<E>), E> {
        Ok((seed.deserialize(self.name)?, Content(self.content)))
    }
}

/// The content of a variant, if there is any.
struct Content<E>(Option<Reader<E>>);

impl<E: Error> Content<E> {
    fn reader(self) -> Result<Reader<E>, E> {
        self.0.ok_or_else(|| E::custom("a variant lacks what it holds"))
    }
}

impl<'de, E: Error> VariantAccess<'de> for Content<E> {
    type Error = E;

    fn unit_variant(self) -> Result<(), E> {
        match self.0 {
            None => Ok(()),
            Some(reader) => match reader.value {
                Early::Unit | Early::Absent => Ok(()),
                other => Err(E::invalid_type(other.unexpected(), &"nothing")),
            },
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, E> {
        seed.deserialize(self.reader()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, E> {
        self.reader()?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, E> {
        self.reader()?.deserialize_any(visitor)
    }
}
