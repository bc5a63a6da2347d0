//! Reading and writing of stored values: the tag, the field with the state, decides which other fields there may be.
//!
//! The tag usually comes first; then the fields are read straight into the state. If the tag comes later, the fields in front of it are "early": they are
//! kept as the format delivered them until the state is known. The value is written as a map in every format, so that compact formats keep the names, too.
//! Events are read and written in this way as well. Generated code implements [`Stored`] and [`StoredEvent`]; nothing else needs this module.

mod as_map;
mod early;
mod event;
mod recorded;

use core::fmt;
use core::marker::PhantomData;

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::{self, Vec};

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
};
use serde::ser::Serializer;
use serde_json::Value;

use self::as_map::AsMap;

use crate::{Extra, Name, Violation};

use self::early::Early;

pub use self::event::{StoredEvent, read_event, read_metadata, read_nothing, write_event, write_metadata};
pub use self::recorded::{EarlyField, EarlyValue, UnreadableField, early_value};

/// A stored enum, as its machine describes it.
pub trait Stored: Sized {
    /// Type of the tag.
    type Status: Name;

    /// Stored name of the field that holds the state.
    const TAG: &'static str;

    /// Returns the meaning of a stored name for a value of this status.
    fn belongs(status: Self::Status, name: &str) -> NameScope;

    /// Reads the value under a stored name before the status is known. If the name has one type in all states, that type reads the value.
    ///
    /// # Errors
    ///
    /// Fails when the value is not of that type.
    fn early<'de, D: Deserializer<'de>>(name: &str, value: D) -> Result<EarlyValue, D::Error> {
        let _ = name;
        early_value(value)
    }

    /// Reads the fields of a value of this status.
    ///
    /// # Errors
    ///
    /// Fails when a field is missing, malformed, or not allowed in this state.
    fn read<'de, A: MapAccess<'de>>(
        status: Self::Status,
        fields: StoredFields<'de, A, Self>,
    ) -> Result<Self, A::Error>;

    /// Every rule of its state that the value breaks.
    fn validate(&self) -> Vec<Violation>;
}

/// A stored value or event that every format can keep, also one that does not describe itself, such as postcard: the machine names the
/// types of all its fields.
///
/// `#[machine]` implements it for the stored enum, unless the machine keeps unknown fields with `#[extra]`, and for the events. A function
/// that writes such a format asks for it, so that a machine that the format cannot keep does not compile:
///
/// ```
/// use hankweave_machine::stored::KnownFields;
///
/// fn to_postcard<T: serde::Serialize + KnownFields>(value: &T) -> postcard::Result<Vec<u8>> {
///     postcard::to_allocvec(value)
/// }
/// ```
///
/// The trait does not cover the output of your own types inside of a field.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may hold fields whose types nobody knows, and only a format that describes itself keeps them",
    label = "not for formats like postcard",
    note = "a machine without `#[extra]` is kept by every format; with it, write JSON, TOML, CBOR or MessagePack"
)]
pub trait KnownFields {}

impl<T: KnownFields + ?Sized> KnownFields for &T {}

impl<T: KnownFields> KnownFields for [T] {}

impl<T: KnownFields> KnownFields for Vec<T> {}

/// Role of a stored name in a value of one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// A field of the state.
    Here,
    /// A field of other states only: an error.
    Elsewhere,
    /// A field of other states that old documents may have in this state, `#[tolerates(..)]`: dropped.
    Tolerated,
    /// A name that the machine does not know and keeps.
    Extra,
    /// A name that the machine does not know and does not keep.
    Unknown,
}

/// Reads a stored value from anything that looks like a map.
///
/// # Errors
///
/// Fails when the tag is missing or unknown, or when [`Stored::read`] fails.
pub fn read<'de, T: Stored, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let human_readable = deserializer.is_human_readable();
    deserializer.deserialize_map(StoredVisitor {
        human_readable,
        stored: PhantomData,
    })
}

/// Writes a value of this status: the tag, and after it the fields of its state.
pub fn tagged<T: Stored, S: Serializer>(
    status: T::Status,
    serializer: S,
) -> impl Serializer<Ok = S::Ok, Error = S::Error> {
    AsMap {
        inner: serializer,
        tag: Some((T::TAG, status.as_str())),
    }
}

/// Finds names that the machine knows among the extra fields: a value written with these could not be read again.
pub fn known_names<T: Stored>(status: T::Status, extra: &Extra) -> impl Iterator<Item = Violation> {
    extra.iter().filter_map(move |(name, value)| {
        let expected = match T::belongs(status, name) {
            _ if name == T::TAG => "the name of the state",
            NameScope::Here => "a field of the state, not an unknown one",
            NameScope::Elsewhere | NameScope::Tolerated => "absent",
            NameScope::Extra | NameScope::Unknown => return None,
        };
        Some(Violation {
            field: Cow::Owned(name.to_string()),
            expected: expected.to_string(),
            found: value.to_string(),
        })
    })
}

struct StoredVisitor<T> {
    /// Whether the format is one for people; types may read other forms then.
    human_readable: bool,
    stored: PhantomData<T>,
}

impl<'de, T: Stored> Visitor<'de> for StoredVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with `{}`", T::TAG)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut early = Vec::new();
        while let Some(MapKey(key)) = map.next_key()? {
            if key == T::TAG {
                let status = map.next_value_seed(NameSeed::<T::Status>(PhantomData))?;
                let fields = StoredFields::new(status, early, self.human_readable, map);
                return valid(T::read(status, fields)?);
            }
            let EarlyValue(value) = map.next_value_seed(EarlySeed::<T>(&key, PhantomData))?;
            early.push((key, value));
        }
        Err(A::Error::missing_field(T::TAG))
    }
}

/// Reader of the value under this name, which comes before the tag.
struct EarlySeed<'a, T>(&'a str, PhantomData<T>);

impl<'de, T: Stored> DeserializeSeed<'de> for EarlySeed<'_, T> {
    type Value = EarlyValue;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<EarlyValue, D::Error> {
        T::early(self.0, value)
    }
}

/// Returns the value if it keeps the rules of its state.
fn valid<T: Stored, E: Error>(value: T) -> Result<T, E> {
    match value.validate().into_iter().next() {
        None => Ok(value),
        Some(violation) => Err(E::custom(violation)),
    }
}

/// The fields of one stored value, for the reader of its state. Names that do not belong to the state are refused, dropped or kept as extra fields here, so the
/// reader sees only its own.
#[derive(Debug)]
pub struct StoredFields<'de, A, T: Stored> {
    status: T::Status,
    /// The fields in front of the tag that were not read yet.
    early: vec::IntoIter<(Cow<'de, str>, Early)>,
    /// The value of the field whose name was read last, if the field is in front of the tag.
    early_value: Option<Early>,
    human_readable: bool,
    /// The fields after the tag.
    late: A,
    extra: Extra,
}

impl<'de, A: MapAccess<'de>, T: Stored> StoredFields<'de, A, T> {
    fn new(status: T::Status, early: Vec<(Cow<'de, str>, Early)>, human_readable: bool, late: A) -> Self {
        Self {
            status,
            early: early.into_iter(),
            early_value: None,
            human_readable,
            late,
            extra: Extra::default(),
        }
    }

    /// Returns the fields that the machine does not declare, once all others have been read.
    pub fn into_extra(self) -> Extra {
        self.extra
    }

    fn next_name(&mut self) -> Result<Option<Cow<'de, str>>, A::Error> {
        if let Some((name, value)) = self.early.next() {
            self.early_value = Some(value);
            return Ok(Some(name));
        }
        Ok(self.late.next_key()?.map(|MapKey(name)| name))
    }

    fn take_value(&mut self) -> Result<Value, A::Error> {
        match self.early_value.take() {
            Some(value) => Value::deserialize(value.reader(self.human_readable)),
            None => self.late.next_value(),
        }
    }

    fn skip_value(&mut self) -> Result<(), A::Error> {
        match self.early_value.take() {
            Some(_) => Ok(()),
            None => self.late.next_value::<IgnoredAny>().map(drop),
        }
    }

    fn keep(&mut self, name: Cow<'de, str>) -> Result<(), A::Error> {
        let value = self.take_value()?;
        match self.extra.insert(name.clone().into_owned(), value) {
            None => Ok(()),
            Some(_) => Err(duplicate(&name)),
        }
    }
}

impl<'de, A: MapAccess<'de>, T: Stored> MapAccess<'de> for StoredFields<'de, A, T> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.next_name()? {
            if name == T::TAG {
                return Err(duplicate(&name));
            }
            match T::belongs(self.status, &name) {
                NameScope::Here => return seed.deserialize(name.into_deserializer()).map(Some),
                NameScope::Elsewhere => return Err(misplaced(&name, self.status)),
                NameScope::Extra => self.keep(name)?,
                NameScope::Tolerated | NameScope::Unknown => self.skip_value()?,
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.early_value.take() {
            Some(value) => seed.deserialize(value.reader(self.human_readable)),
            None => self.late.next_value_seed(seed),
        }
    }
}

fn duplicate<E: Error>(name: &str) -> E {
    E::custom(format_args!("duplicate field `{name}`"))
}

fn misplaced<E: Error>(name: &str, status: impl Name) -> E {
    E::custom(format_args!(
        "field `{name}` does not belong to status `{status}`"
    ))
}

/// A key of a map, borrowed where the input allows it.
struct MapKey<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for MapKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = MapKey<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<MapKey<'de>, E> {
        Ok(MapKey(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<MapKey<'de>, E> {
        Ok(MapKey(Cow::Owned(name.to_string())))
    }

    fn visit_string<E>(self, name: String) -> Result<MapKey<'de>, E> {
        Ok(MapKey(Cow::Owned(name)))
    }
}

/// Reads a status or a phase by its stored name.
///
/// # Errors
///
/// Fails when the text is none of the names; the message lists them.
pub fn read_name<'de, N: Name, D: Deserializer<'de>>(deserializer: D) -> Result<N, D::Error> {
    NameSeed(PhantomData).deserialize(deserializer)
}

struct NameSeed<N>(PhantomData<N>);

impl<'de, N: Name> DeserializeSeed<'de> for NameSeed<N> {
    type Value = N;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<N, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<N: Name> Visitor<'_> for NameSeed<N> {
    type Value = N;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a status")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<N, E> {
        N::parse(name).ok_or_else(|| E::unknown_variant(name, N::NAMES))
    }
}
