//! Made-up values of fields, for the generated tests.

use core::time::Duration;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// A type that can make up values of itself, so that the tests of [`machine(Name, tests)`](macro@crate::machine) have something
/// to fill fields with.
///
/// Numbers, texts, options, lists and the like have it. For a type of your own three lines are enough; for a field of a foreign type
/// write `#[sample(expression)]` on the field instead.
///
/// ```
/// use hankweave_machine::Sample;
///
/// struct PaymentId(String);
///
/// impl Sample for PaymentId {
///     fn sample(n: u32) -> Self {
///         Self(format!("pay-{n}"))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the generated tests cannot make up values of `{Self}`",
    note = "implement `hankweave_machine::Sample` for it, or write `#[sample(expression)]` on the field"
)]
pub trait Sample {
    /// Makes a valid value. Another `n` should give another value where the type has more than one; options and lists are empty for
    /// some `n`.
    fn sample(n: u32) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Sample for $number {
            fn sample(n: u32) -> Self {
                (n % 100) as Self
            }
        })*
    };
}

numbers!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64
);

impl Sample for () {
    fn sample(_: u32) -> Self {}
}

impl Sample for bool {
    fn sample(n: u32) -> Self {
        n.is_multiple_of(2)
    }
}

impl Sample for char {
    fn sample(n: u32) -> Self {
        char::from(b'a' + u8::sample(n) % 26)
    }
}

impl Sample for String {
    fn sample(n: u32) -> Self {
        format!("text {n}")
    }
}

impl Sample for Duration {
    fn sample(n: u32) -> Self {
        Self::from_secs(u64::from(n))
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(n: u32) -> Self {
        (!n.is_multiple_of(3)).then(|| T::sample(n))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(n: u32) -> Self {
        Option::sample(n).map_or_else(Self::new, |item| vec![item])
    }
}

impl<K: Sample + Ord, V: Sample> Sample for BTreeMap<K, V> {
    fn sample(n: u32) -> Self {
        Vec::sample(n).into_iter().collect()
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(n: u32) -> Self {
        Self::new(T::sample(n))
    }
}

impl<T: Sample> Sample for Arc<T> {
    fn sample(n: u32) -> Self {
        Self::new(T::sample(n))
    }
}

impl<T: Sample, const N: usize> Sample for [T; N] {
    fn sample(n: u32) -> Self {
        core::array::from_fn(|_| T::sample(n))
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(n: u32) -> Self {
        (A::sample(n), B::sample(n.wrapping_add(1)))
    }
}

#[cfg(feature = "std")]
impl Sample for std::path::PathBuf {
    fn sample(n: u32) -> Self {
        Self::from("folder").join(format!("{n}"))
    }
}

#[cfg(feature = "serde")]
mod stored {
    use alloc::string::String;
    use alloc::vec::Vec;

    use serde_json::{Map, Value};

    use super::Sample;

    impl Sample for Value {
        fn sample(n: u32) -> Self {
            Self::from(n)
        }
    }

    impl Sample for Map<String, Value> {
        fn sample(n: u32) -> Self {
            Vec::sample(n).into_iter().collect()
        }
    }
}
