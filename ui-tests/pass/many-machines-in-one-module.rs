//! Machines with equal states and steps in one module, with all that is allowed around and inside a declaration.
#![deny(missing_docs, unused, unreachable_pub, clippy::all)]

use hankweave_core::machine;

mod shop {
    use super::machine;

    /// Names that generated code must not trip over.
    #[expect(dead_code, reason = "they only have to be there")]
    mod names {
        pub(super) type Result<T> = core::result::Result<T, ()>;
        pub(super) struct Option;
        pub(super) trait Clone {}
    }
    #[expect(unused_imports, reason = "they only have to be there")]
    use names::{Clone, Option, Result};

    /// An order.
    #[machine(Order)]
    #[derive(Eq, Hash)]
    #[cfg(not(windows))]
    #[serde(tag = "state", rename_all = "SCREAMING_SNAKE_CASE")]
    pub(crate) enum StoredOrder {
        #[initial]
        #[to(pay => Closed, r#try => Open)]
        #[again]
        Open {
            #[carry]
            price: super::Price,
            r#type: u8,
        },
        /// Paid, with attributes that are for others.
        #[terminal]
        #[expect(clippy::module_name_repetitions, reason = "attributes go where they were written")]
        #[keeps(price)]
        Closed {
            #[doc(alias = "receipt")]
            #[serde(with = "super::as_text")]
            number: u32,
            #[fixed(self::kinds::SOLD)]
            kind: u8,
        },
    }

    mod kinds {
        pub(super) const SOLD: u8 = 7;
    }

    /// A till, private to this module.
    #[machine(Till)]
    enum StoredTill {
        #[initial]
        #[to(pay => Closed)]
        Open,
        #[terminal]
        Closed,
    }

    pub(crate) fn till() -> bool {
        Till::new().pay().into_stored_till().is_terminal()
    }
}

/// A price in cents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Price(u32);

/// Numbers as text.
pub mod as_text {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a number.
    pub fn serialize<S: Serializer>(number: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    /// Reads a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

fn main() {
    use shop::order::{Pay, Try};
    let order = shop::Order::new(3).r#try(Try { r#type: 4 }).pay(Pay { number: 5 });
    let stored = order.into_stored_order();
    let json = serde_json::to_string(&stored).unwrap();
    assert_eq!(json, r#"{"state":"CLOSED","price":0,"number":"5","kind":7}"#);
    assert_eq!(serde_json::from_str::<shop::StoredOrder>(&json).unwrap(), stored);
    assert!(shop::till());
}
