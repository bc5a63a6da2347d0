//! Reading and writing of events: in every format a map of the method's name and its data, the metadata.

use core::fmt;
use core::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, UnitDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::MapKey;
use super::as_map::AsMap;
use super::early::Early;

const METHOD: &str = "method";
const METADATA: &str = "metadata";

/// An event enum, as its machine describes it.
pub trait StoredEvent: Sized {
    /// The name of every method and of every change of a live field.
    const METHODS: &'static [&'static str];

    /// Reads the data of a method or of a change.
    ///
    /// # Errors
    ///
    /// Fails when the data are not those of the method.
    fn read<'de, D: Deserializer<'de>>(method: &'static str, metadata: D) -> Result<Self, D::Error>;
}

/// Reads an event from anything that looks like a map.
///
/// # Errors
///
/// Fails when the method is missing or unknown, or when [`StoredEvent::read`] fails.
pub fn read_event<'de, T: StoredEvent, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let human_readable = deserializer.is_human_readable();
    deserializer.deserialize_map(EventVisitor {
        human_readable,
        event: PhantomData,
    })
}

/// Reads the struct of a step, which was written as a map.
///
/// # Errors
///
/// Fails when a field is missing or malformed.
pub fn read_metadata<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(MetadataVisitor(PhantomData))
}

/// Reads the data of a step without fields: nothing, or a map, which is dropped. A later version of the machine, in which the step has fields, writes a map.
///
/// # Errors
///
/// Fails when the data are anything else.
pub fn read_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    deserializer.deserialize_any(NothingVisitor)
}

struct NothingVisitor;

impl<'de> Visitor<'de> for NothingVisitor {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unit")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        IgnoredAny::deserialize(MapAccessDeserializer::new(map)).map(drop)
    }
}

/// Writes an event: its method, and its data, if it has any.
///
/// # Errors
///
/// Fails when the format does.
pub fn write_event<T: Serialize, S: Serializer>(
    method: &str,
    metadata: Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1 + usize::from(metadata.is_some())))?;
    map.serialize_entry(METHOD, method)?;
    if let Some(metadata) = metadata {
        map.serialize_entry(METADATA, &metadata)?;
    }
    map.end()
}

/// Writes the struct of a step as a map.
pub fn write_metadata<T: Serialize>(metadata: &T) -> impl Serialize {
    EventFields(metadata)
}

struct EventFields<'a, T>(&'a T);

impl<T: Serialize> Serialize for EventFields<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = AsMap {
            inner: serializer,
            tag: None,
        };
        self.0.serialize(named)
    }
}

struct MetadataVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MetadataVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(TextKeyMap(map)))
    }
}

/// A map whose keys are read as texts, also if a type asks for an identifier, which compact formats do not have.
struct TextKeyMap<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for TextKeyMap<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let key = self
            .0
            .next_key()?
            .map(|MapKey(name)| seed.deserialize(name.into_deserializer()));
        key.transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

struct EventVisitor<T> {
    human_readable: bool,
    event: PhantomData<T>,
}

impl<'de, T: StoredEvent> Visitor<'de> for EventVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with `{METHOD}`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        // `early` has the metadata if they come before the method, `event` the whole event if they come after.
        let (mut method, mut early, mut event) = (None, None, None);
        while let Some(MapKey(key)) = map.next_key()? {
            match (&*key, method) {
                (METHOD, None) => method = Some(map.next_value_seed(MethodSeed::<T>(PhantomData))?),
                (METHOD, Some(_)) => return Err(A::Error::duplicate_field(METHOD)),
                (METADATA, _) if early.is_some() || event.is_some() => {
                    return Err(A::Error::duplicate_field(METADATA));
                }
                (METADATA, Some(method)) => {
                    event = Some(map.next_value_seed(EventSeed::<T>(method, PhantomData))?)
                }
                (METADATA, None) => early = Some(map.next_value::<Early>()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        match (method, event, early) {
            (None, ..) => Err(A::Error::missing_field(METHOD)),
            (_, Some(event), _) => Ok(event),
            (Some(method), None, Some(early)) => T::read(method, early.reader(self.human_readable)),
            // No metadata: some formats leave out a unit, and a step whose fields are all optional may have had none when the event was written.
            (Some(method), None, None) => {
                let nothing: UnitDeserializer<A::Error> = ().into_deserializer();
                let no_fields = MapDeserializer::new(core::iter::empty::<(&str, &str)>());
                let read = T::read(method, nothing).or_else(|_: A::Error| T::read(method, no_fields));
                read.map_err(|_: A::Error| A::Error::missing_field(METADATA))
            }
        }
    }
}

/// Reader of the data of the method with this name.
struct EventSeed<T>(&'static str, PhantomData<T>);

impl<'de, T: StoredEvent> DeserializeSeed<'de> for EventSeed<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(self.0, deserializer)
    }
}

struct MethodSeed<T>(PhantomData<T>);

impl<'de, T: StoredEvent> DeserializeSeed<'de> for MethodSeed<T> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T: StoredEvent> Visitor<'_> for MethodSeed<T> {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a method")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static str, E> {
        let known = T::METHODS.iter().find(|known| **known == name);
        known.copied().ok_or_else(|| E::unknown_variant(name, T::METHODS))
    }
}
