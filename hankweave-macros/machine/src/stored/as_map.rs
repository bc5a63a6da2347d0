//! A serializer that writes a struct as a map, so that the names of fields are stored in every format. Compact formats write structs without names: a field
//! that is left out would shift all fields after it.

use core::fmt::Display;

use serde::ser::{Error, Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};

/// Writes the fields of a struct, after the tag if there is one.
pub(super) struct AsMap<'a, S> {
    pub(super) inner: S,
    /// The name of the tag, and its value.
    pub(super) tag: Option<(&'static str, &'a str)>,
}

impl<S: Serializer> AsMap<'_, S> {
    fn start_map(self, length: Option<usize>) -> Result<S::SerializeMap, S::Error> {
        let tags = usize::from(self.tag.is_some());
        let mut map = self.inner.serialize_map(length.map(|length| length + tags))?;
        if let Some((tag, name)) = self.tag {
            map.serialize_entry(tag, name)?;
        }
        Ok(map)
    }

    fn refuse<T>(self) -> Result<T, S::Error> {
        Err(S::Error::custom("only a struct or a map is the data of a state"))
    }
}

/// Writer of a struct's fields as entries of the map.
pub(super) struct Entries<M>(M);

impl<M: SerializeMap> SerializeStruct for Entries<M> {
    type Ok = M::Ok;
    type Error = M::Error;

    fn serialize_field<T: ?Sized + Serialize>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), M::Error> {
        self.0.serialize_entry(name, value)
    }

    fn end(self) -> Result<M::Ok, M::Error> {
        self.0.end()
    }
}

macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(
            fn $method(self $(, _: $argument)*) -> Result<$result, S::Error> {
                self.refuse()
            }
        )*
    };
}

impl<S: Serializer> Serializer for AsMap<'_, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Impossible<S::Ok, S::Error>;
    type SerializeTuple = Impossible<S::Ok, S::Error>;
    type SerializeTupleStruct = Impossible<S::Ok, S::Error>;
    type SerializeTupleVariant = Impossible<S::Ok, S::Error>;
    type SerializeMap = S::SerializeMap;
    type SerializeStruct = Entries<S::SerializeMap>;
    type SerializeStructVariant = Impossible<S::Ok, S::Error>;

    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Self::SerializeStruct, S::Error> {
        self.start_map(Some(length)).map(Entries)
    }

    // The derived code of a struct with a flattened field, `#[extra]`, writes a map.
    fn serialize_map(self, length: Option<usize>) -> Result<S::SerializeMap, S::Error> {
        self.start_map(length)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }

    fn collect_str<T: ?Sized + Display>(self, _: &T) -> Result<S::Ok, S::Error> {
        self.refuse()
    }

    fn serialize_some<T: ?Sized + Serialize>(self, _: &T) -> Result<S::Ok, S::Error> {
        self.refuse()
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: &T,
    ) -> Result<S::Ok, S::Error> {
        self.refuse()
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<S::Ok, S::Error> {
        self.refuse()
    }

    refuse! {
        serialize_bool(bool) -> S::Ok;
        serialize_i8(i8) -> S::Ok;
        serialize_i16(i16) -> S::Ok;
        serialize_i32(i32) -> S::Ok;
        serialize_i64(i64) -> S::Ok;
        serialize_u8(u8) -> S::Ok;
        serialize_u16(u16) -> S::Ok;
        serialize_u32(u32) -> S::Ok;
        serialize_u64(u64) -> S::Ok;
        serialize_f32(f32) -> S::Ok;
        serialize_f64(f64) -> S::Ok;
        serialize_char(char) -> S::Ok;
        serialize_str(&str) -> S::Ok;
        serialize_bytes(&[u8]) -> S::Ok;
        serialize_none() -> S::Ok;
        serialize_unit() -> S::Ok;
        serialize_unit_struct(&'static str) -> S::Ok;
        serialize_unit_variant(&'static str, u32, &'static str) -> S::Ok;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}
