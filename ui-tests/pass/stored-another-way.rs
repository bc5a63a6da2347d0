//! A field that names its own functions for writing and reading needs no trait of serde for that.

use hankweave_core::machine;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, PartialEq)]
pub struct Paint(u32);

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct OnlyRead(u32);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnlyWritten(u32);

mod paint {
    use super::*;

    pub fn serialize<S: Serializer>(paint: &Paint, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(paint.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Paint, D::Error> {
        u32::deserialize(deserializer).map(Paint)
    }
}

fn write<S: Serializer>(read: &OnlyRead, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(read.0)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OnlyWritten, D::Error> {
    u32::deserialize(deserializer).map(OnlyWritten)
}

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(finish => Painted)]
    Plain,
    #[terminal]
    Painted {
        #[serde(with = "paint")]
        paint: Paint,
        #[serde(serialize_with = "write")]
        read: OnlyRead,
        #[serde(deserialize_with = "read")]
        written: OnlyWritten,
    },
}

fn main() {
    let painted = Door::new().finish(door::Finish {
        paint: Paint(1),
        read: OnlyRead(2),
        written: OnlyWritten(3),
    });
    let record = painted.into_record();
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(text, r#"{"status":"Painted","paint":1,"read":2,"written":3}"#);
    assert_eq!(serde_json::from_str::<DoorRecord>(&text).unwrap(), record);
}
