use hankweave_core::machine;
use serde::{Deserialize, Serialize};

/// A type of our own, so that what rustc says depends on no other crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times(u8);

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(lock => Locked)]
    Closed { opened: u64 },
    #[terminal]
    Locked {
        #[carry(opened)]
        times: Times,
    },
}

fn main() {}
