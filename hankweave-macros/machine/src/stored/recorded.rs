//! Records an early value, one in front of the tag, while the type of its field reads it, so that it can be read again once the state is known.
//!
//! Some formats deliver a value only to a type that requests it: JSON delivers a number of 128 bits only on request. So the type of the field reads, every part
//! of serde in between is wrapped in a recorder, and the type's own result is dropped.

use core::fmt;
use core::marker::PhantomData;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::early::Early;

/// A value that came before the state was known.
#[derive(Debug)]
pub struct EarlyValue(pub(super) Early);

/// Reads a value of any format.
///
/// # Errors
///
/// Fails when the format does.
pub fn early_value<'de, D: Deserializer<'de>>(value: D) -> Result<EarlyValue, D::Error> {
    Early::deserialize(value).map(EarlyValue)
}

/// The type of a field that came before the state was known.
#[derive(Debug)]
pub struct EarlyField<T> {
    /// Whether the field is a `T` in some states and an `Option<T>` in others.
    optional: bool,
    of: PhantomData<T>,
}

impl<T> EarlyField<T> {
    /// A field of this type in every state that has it.
    pub const fn always() -> Self {
        Self {
            optional: false,
            of: PhantomData,
        }
    }

    /// A field of this type in some states, and of an `Option` of it in others.
    pub const fn sometimes() -> Self {
        Self {
            optional: true,
            of: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> EarlyField<T> {
    /// Reads a value as the type of the field does.
    ///
    /// # Errors
    ///
    /// Fails when the value is not of that type.
    pub fn read<'de, D: Deserializer<'de>>(self, value: D) -> Result<EarlyValue, D::Error> {
        let early = match self.optional {
            true => value.deserialize_option(IfAny::<T>(PhantomData)),
            false => record::<T, D>(value),
        };
        early.map(EarlyValue)
    }
}

/// A `read` for types that cannot be read, so that the compiler does not report them here again. The method of [`EarlyField`] itself is found first where its
/// bound holds.
pub trait UnreadableField: Sized {
    /// Reads a value of any format.
    ///
    /// # Errors
    ///
    /// Fails when the format does.
    fn read<'de, D: Deserializer<'de>>(self, value: D) -> Result<EarlyValue, D::Error> {
        early_value(value)
    }
}

impl<T> UnreadableField for EarlyField<T> {}

/// Lets the type `T` read a value, and returns the record of that.
fn record<'de, T: Deserialize<'de>, D: Deserializer<'de>>(inner: D) -> Result<Early, D::Error> {
    let mut record = Early::Unit;
    let recorder = ValueRecorder {
        inner,
        record: &mut record,
    };
    T::deserialize(recorder)?;
    Ok(record)
}

/// Visitor that records the value of an `Option`, if there is one.
struct IfAny<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for IfAny<T> {
    type Value = Early;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_none<E>(self) -> Result<Early, E> {
        Ok(Early::Absent)
    }

    fn visit_unit<E>(self) -> Result<Early, E> {
        Ok(Early::Unit)
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Early, D::Error> {
        record::<T, D>(value)
    }
}

/// A part of serde (a deserializer, a visitor, a seed) that does its work and writes the value that passes through into `record`.
struct ValueRecorder<'a, I> {
    inner: I,
    record: &'a mut Early,
}

/// Methods of a deserializer: wrap the visitor.
macro_rules! requests {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
                let recorder = ValueRecorder { inner: visitor, record: self.record };
                self.inner.$method($($name,)* recorder)
            }
        )*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ValueRecorder<'_, D> {
    type Error = D::Error;

    requests! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Methods of a visitor: note the value, then pass it on.
macro_rules! notes {
    ($($method:ident($type:ty) => $variant:ident;)*) => {
        $(
            fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
                *self.record = Early::$variant(value.into());
                self.inner.$method(value)
            }
        )*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ValueRecorder<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    notes! {
        visit_bool(bool) => Bool;
        visit_i64(i64) => Signed;
        visit_u64(u64) => Unsigned;
        visit_i128(i128) => WideSigned;
        visit_u128(u128) => WideUnsigned;
        visit_f64(f64) => Float;
        visit_char(char) => Char;
        visit_str(&str) => Text;
        visit_borrowed_str(&'de str) => Text;
        visit_bytes(&[u8]) => Bytes;
        visit_borrowed_bytes(&'de [u8]) => Bytes;
    }

    fn visit_string<E: Error>(self, value: String) -> Result<V::Value, E> {
        *self.record = Early::Text(value.clone());
        self.inner.visit_string(value)
    }

    fn visit_byte_buf<E: Error>(self, value: Vec<u8>) -> Result<V::Value, E> {
        *self.record = Early::Bytes(value.clone());
        self.inner.visit_byte_buf(value)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        *self.record = Early::Absent;
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        *self.record = Early::Unit;
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let mut record = Early::Unit;
        let value = self.inner.visit_some(ValueRecorder {
            inner,
            record: &mut record,
        })?;
        *self.record = Early::Present(Box::new(record));
        Ok(value)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let mut record = Early::Unit;
        let value = self.inner.visit_newtype_struct(ValueRecorder {
            inner,
            record: &mut record,
        })?;
        *self.record = Early::Newtype(Box::new(record));
        Ok(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let mut values = Vec::new();
        let value = self.inner.visit_seq(RecordedElements {
            access,
            values: &mut values,
        })?;
        *self.record = Early::Sequence(values);
        Ok(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let mut entries = Vec::new();
        let value = self.inner.visit_map(RecordedEntries {
            access,
            key: Early::Unit,
            entries: &mut entries,
        })?;
        *self.record = Early::Map(entries);
        Ok(value)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(ValueRecorder {
            inner: access,
            record: self.record,
        })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for ValueRecorder<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let record = self.record;
        self.inner.deserialize(ValueRecorder { inner, record })
    }
}

struct RecordedElements<'a, A> {
    access: A,
    values: &'a mut Vec<Early>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for RecordedElements<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, inner: T) -> Result<Option<T::Value>, A::Error> {
        let mut record = Early::Unit;
        let element = self.access.next_element_seed(ValueRecorder {
            inner,
            record: &mut record,
        })?;
        if element.is_some() {
            self.values.push(record);
        }
        Ok(element)
    }

    fn size_hint(&self) -> Option<usize> {
        self.access.size_hint()
    }
}

struct RecordedEntries<'a, A> {
    access: A,
    /// The key whose value comes next.
    key: Early,
    entries: &'a mut Vec<(Early, Early)>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for RecordedEntries<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, inner: K) -> Result<Option<K::Value>, A::Error> {
        let record = &mut self.key;
        self.access.next_key_seed(ValueRecorder { inner, record })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, inner: T) -> Result<T::Value, A::Error> {
        let mut record = Early::Unit;
        let value = self.access.next_value_seed(ValueRecorder {
            inner,
            record: &mut record,
        })?;
        let key = core::mem::replace(&mut self.key, Early::Unit);
        self.entries.push((key, record));
        Ok(value)
    }

    fn size_hint(&self) -> Option<usize> {
        self.access.size_hint()
    }
}

impl<'de, 'a, A: EnumAccess<'de>> EnumAccess<'de> for ValueRecorder<'a, A> {
    type Error = A::Error;
    type Variant = RecordedVariant<'a, A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, inner: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let mut name = Early::Unit;
        let (value, access) = self.inner.variant_seed(ValueRecorder {
            inner,
            record: &mut name,
        })?;
        let record = self.record;
        Ok((value, RecordedVariant { access, name, record }))
    }
}

/// The content of a variant, which is noted together with the variant's name.
struct RecordedVariant<'a, A> {
    access: A,
    name: Early,
    record: &'a mut Early,
}

impl<A> RecordedVariant<'_, A> {
    /// Reads the content of a variant that has one, and notes a map of the name and the content.
    fn holding<T, E>(self, read: impl FnOnce(A, &mut Early) -> Result<T, E>) -> Result<T, E> {
        let mut content = Early::Unit;
        let value = read(self.access, &mut content)?;
        *self.record = Early::Map(vec![(self.name, content)]);
        Ok(value)
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for RecordedVariant<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        *self.record = self.name;
        self.access.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, inner: T) -> Result<T::Value, A::Error> {
        self.holding(|access, record| access.newtype_variant_seed(ValueRecorder { inner, record }))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, inner: V) -> Result<V::Value, A::Error> {
        self.holding(|access, record| access.tuple_variant(length, ValueRecorder { inner, record }))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        inner: V,
    ) -> Result<V::Value, A::Error> {
        self.holding(|access, record| access.struct_variant(fields, ValueRecorder { inner, record }))
    }
}
