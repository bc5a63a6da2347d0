//! A format that does not describe itself cannot keep fields of unknown types.

use hankweave_core::machine;
use hankweave_core::machine::Extra;
use hankweave_core::machine::stored::KnownFields;
use serde::Serialize;

#[machine(Lamp)]
pub enum LampRecord {
    #[shared]
    Base {
        #[extra]
        extra: Extra,
    },
    #[initial]
    #[terminal]
    Dark,
}

fn to_postcard<T: Serialize + KnownFields>(_value: &T) {}

fn main() {
    to_postcard(&Lamp::new().into_record());
}
