use hankweave_core::machine;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Key;

#[derive(Debug, Clone, PartialEq)]
pub struct Paint;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(remove => Removed)]
    Closed {
        #[live]
        key: Key,
    },
    #[terminal]
    Removed { paint: Paint },
}

fn main() {}
