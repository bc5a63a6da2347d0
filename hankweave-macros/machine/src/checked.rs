//! Checked arithmetic for generated code: operators of `next` and recorded additions to live fields. `apply` refuses a step whose result does not fit.
//!
//! In `next`, `a + b` becomes `Pair(a, b).plus(&sums)`. A pair of numbers or durations has an inherent `plus`, which is found first and notes in [`Sums`] if
//! the result does not fit. For other types the method of the trait [`Unchecked`] is found, which is the plain operator. [`Change`] and [`Assigned`] do the
//! same for additions to live fields.

use core::cell::Cell;
use core::num::{NonZero, Saturating, Wrapping};
use core::ops::{Add, AddAssign, Div, Mul, Neg, Rem, Shl, Shr, Sub};
use core::time::Duration;

/// A value that can be added to, and that notices when the sum does not fit.
///
/// Numbers and [`Duration`] have it. An event that adds to a `#[live(add, record)]` field of this kind is refused where the sum does not fit; any
/// other type is added to with its `+=`. For a type of your own that may be full, three lines are enough:
///
/// ```
/// use hankweave_machine::CheckedAdd;
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Cents(u32);
///
/// impl CheckedAdd for Cents {
///     type Sum = Self;
///
///     fn checked_add(self, other: Self) -> Option<Self> {
///         self.0.checked_add(other.0).map(Self)
///     }
/// }
/// ```
pub trait CheckedAdd<Other = Self>: Clone {
    /// The type of the sum.
    type Sum;

    /// Adds; `None` if the sum does not fit.
    fn checked_add(self, other: Other) -> Option<Self::Sum>;
}

macro_rules! operators {
    ($($name:ident, $checked:ident, $method:ident, $sign:literal;)*) => {
        $(
            #[doc = concat!("Values whose `", $sign, "` is checked.")]
            pub trait $name<Other>: Copy {
                #[doc = concat!("`", $sign, "`; `None` if the result does not fit.")]
                fn $checked(self, other: Other) -> Option<Self>;
            }

            impl<A: $name<B>, B> Pair<A, B> {
                #[doc = concat!("`", $sign, "`.")]
                #[inline]
                pub fn $method(self, sums: &Sums) -> A {
                    sums.note(self.0.$checked(self.1), self.0)
                }
            }
        )*
    };
}

operators! {
    CheckedSub, checked_sub, minus, "-";
    CheckedMul, checked_mul, times, "*";
    CheckedDiv, checked_div, divided, "/";
    CheckedRem, checked_rem, rest, "%";
}

/// Numbers whose bits can be shifted.
pub trait Shifted: Copy {
    /// `<<`; `None` if the number has at most `bits` bits.
    fn checked_shl(self, bits: u32) -> Option<Self>;
    /// `>>`; `None` if the number has at most `bits` bits.
    fn checked_shr(self, bits: u32) -> Option<Self>;
}

/// Numbers that others can be shifted by, and references to them.
pub trait Bits {
    /// Returns the number of bits; `None` if no number has so many.
    fn bits(self) -> Option<u32>;
}

/// Numbers that have a sign.
pub trait Signed: Copy {
    /// Changes the sign; `None` if the result does not fit.
    fn checked_neg(self) -> Option<Self>;
}

macro_rules! signed {
    ($($number:ty),*) => {
        $(
            impl Signed for $number {
                fn checked_neg(self) -> Option<Self> {
                    <$number>::checked_neg(self)
                }
            }

            impl Pair<&$number, ()> {
                /// `-`, in front of a reference to a number.
                #[inline]
                pub fn negated(self, sums: &Sums) -> $number {
                    Pair(*self.0, ()).negated(sums)
                }
            }
        )*
    };
}

signed!(i8, i16, i32, i64, i128, isize);
signed!(
    NonZero<i8>,
    NonZero<i16>,
    NonZero<i32>,
    NonZero<i64>,
    NonZero<i128>,
    NonZero<isize>
);

macro_rules! whole {
    ($number:ident: $($operator:ident $checked:ident),*) => {
        $(
            impl $operator<$number> for $number {
                fn $checked(self, other: Self) -> Option<Self> {
                    $number::$checked(self, other)
                }
            }

            impl $operator<&$number> for $number {
                fn $checked(self, other: &Self) -> Option<Self> {
                    $number::$checked(self, *other)
                }
            }
        )*
    };
    ($($number:ident),*) => {
        $(
            impl CheckedAdd<&$number> for $number {
                type Sum = Self;

                fn checked_add(self, other: &Self) -> Option<Self> {
                    $number::checked_add(self, *other)
                }
            }

            impl Shifted for $number {
                fn checked_shl(self, bits: u32) -> Option<Self> {
                    $number::checked_shl(self, bits)
                }

                fn checked_shr(self, bits: u32) -> Option<Self> {
                    $number::checked_shr(self, bits)
                }
            }

            impl Bits for $number {
                fn bits(self) -> Option<u32> {
                    self.try_into().ok()
                }
            }

            impl Bits for &$number {
                fn bits(self) -> Option<u32> {
                    (*self).bits()
                }
            }

            impl<B: Bits> Pair<&$number, B> {
                /// `<<`.
                #[inline]
                pub fn shifted_left(self, sums: &Sums) -> $number {
                    Pair(*self.0, self.1).shifted_left(sums)
                }

                /// `>>`.
                #[inline]
                pub fn shifted_right(self, sums: &Sums) -> $number {
                    Pair(*self.0, self.1).shifted_right(sums)
                }
            }

            impl CheckedAdd for $number {
                type Sum = Self;

                fn checked_add(self, other: Self) -> Option<Self> {
                    $number::checked_add(self, other)
                }
            }

            whole!(
                $number: CheckedSub checked_sub, CheckedMul checked_mul, CheckedDiv checked_div, CheckedRem checked_rem
            );
        )*
    };
}

whole!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

/// Divisions of numbers that wrap around or stay at their end. Only a division by zero has no result; the other operators have one for all values.
macro_rules! divisions {
    ($wrapper:ident: $($number:ident),*) => {
        $(
            impl CheckedDiv<Self> for $wrapper<$number> {
                fn checked_div(self, other: Self) -> Option<Self> {
                    (other.0 != 0).then(|| self / other)
                }
            }

            impl CheckedDiv<&Self> for $wrapper<$number> {
                fn checked_div(self, other: &Self) -> Option<Self> {
                    CheckedDiv::checked_div(self, *other)
                }
            }

            impl CheckedRem<Self> for $wrapper<$number> {
                fn checked_rem(self, other: Self) -> Option<Self> {
                    // The `%` of `Saturating` panics where that of the lowest number and -1 overflows.
                    (other.0 != 0).then(|| Self(self.0.wrapping_rem(other.0)))
                }
            }

            impl CheckedRem<&Self> for $wrapper<$number> {
                fn checked_rem(self, other: &Self) -> Option<Self> {
                    CheckedRem::checked_rem(self, *other)
                }
            }

            references!($wrapper<$number>: divided "/", rest "%");
        )*
    };
}

macro_rules! floats {
    ($($number:ident: $($operator:ident $checked:ident $sign:tt),*;)*) => {
        $(
            impl CheckedAdd for $number {
                type Sum = Self;

                fn checked_add(self, other: Self) -> Option<Self> {
                    finite(self + other, Self::is_finite)
                }
            }

            impl CheckedAdd<&$number> for $number {
                type Sum = Self;

                fn checked_add(self, other: &Self) -> Option<Self> {
                    finite(self + other, Self::is_finite)
                }
            }

            $(
                impl $operator<$number> for $number {
                    fn $checked(self, other: Self) -> Option<Self> {
                        finite(self $sign other, Self::is_finite)
                    }
                }

                impl $operator<&$number> for $number {
                    fn $checked(self, other: &Self) -> Option<Self> {
                        finite(self $sign other, Self::is_finite)
                    }
                }
            )*
        )*
    };
}

floats! {
    f32: CheckedSub checked_sub -, CheckedMul checked_mul *, CheckedDiv checked_div /, CheckedRem checked_rem %;
    f64: CheckedSub checked_sub -, CheckedMul checked_mul *, CheckedDiv checked_div /, CheckedRem checked_rem %;
}

/// Operators of references to numbers. Each pair of types is written out: with a type parameter, rustc would see two implementations that overlap, because
/// another crate could implement the traits above for references to its own types.
macro_rules! references {
    ($($number:ident),*) => {
        $(
            references!($number: plus "+", minus "-", times "*", divided "/", rest "%");
        )*
    };
    ($number:ty: $($method:ident $sign:literal),*) => {
        impl Pair<&$number, $number> {
            $(
                #[doc = concat!("`", $sign, "`.")]
                #[inline]
                pub fn $method(self, sums: &Sums) -> $number {
                    Pair(*self.0, self.1).$method(sums)
                }
            )*
        }

        impl Pair<&$number, &$number> {
            $(
                #[doc = concat!("`", $sign, "`.")]
                #[inline]
                pub fn $method(self, sums: &Sums) -> $number {
                    Pair(*self.0, *self.1).$method(sums)
                }
            )*
        }
    };
}

references!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64
);

divisions!(Wrapping: u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);
divisions!(Saturating: u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl Pair<u32, Duration> {
    /// `*`.
    #[inline]
    pub fn times(self, sums: &Sums) -> Duration {
        Pair(self.1, self.0).times(sums)
    }
}

/// Returns the result unless it is infinite or NaN, which many formats cannot store.
fn finite<F: Copy>(result: F, is_finite: fn(F) -> bool) -> Option<F> {
    is_finite(result).then_some(result)
}

/// Points in time of the standard library.
#[cfg(feature = "std")]
#[allow(
    clippy::disallowed_types,
    reason = "a machine may hold moments; nothing here reads a clock"
)]
mod moments {
    use core::time::Duration;

    use super::{CheckedAdd, CheckedSub};

    macro_rules! moments {
        ($($moment:ty),*) => {
            $(
                impl CheckedAdd<Duration> for $moment {
                    type Sum = Self;

                    fn checked_add(self, other: Duration) -> Option<Self> {
                        <$moment>::checked_add(&self, other)
                    }
                }

                impl CheckedSub<Duration> for $moment {
                    fn checked_sub(self, other: Duration) -> Option<Self> {
                        <$moment>::checked_sub(&self, other)
                    }
                }
            )*
        };
    }

    moments!(std::time::SystemTime, std::time::Instant);
}

impl CheckedAdd for Duration {
    type Sum = Self;

    fn checked_add(self, other: Self) -> Option<Self> {
        Self::checked_add(self, other)
    }
}

impl CheckedSub<Duration> for Duration {
    fn checked_sub(self, other: Self) -> Option<Self> {
        Self::checked_sub(self, other)
    }
}

impl CheckedMul<u32> for Duration {
    fn checked_mul(self, other: u32) -> Option<Self> {
        Self::checked_mul(self, other)
    }
}

impl CheckedDiv<u32> for Duration {
    fn checked_div(self, other: u32) -> Option<Self> {
        Self::checked_div(self, other)
    }
}

/// Note of whether the result of an operator did not fit.
#[derive(Debug, Default)]
pub struct Sums(Cell<bool>);

impl Sums {
    /// Starts with no note.
    pub const fn new() -> Self {
        Self(Cell::new(false))
    }

    /// Returns the value, or `None` if the result of an operator did not fit.
    pub fn unless_overflown<T>(self, value: T) -> Option<T> {
        (!self.0.get()).then_some(value)
    }

    /// Notes that a sum does not fit, unless it fits.
    pub fn note_unless(&self, fits: bool) {
        if !fits {
            self.0.set(true);
        }
    }

    /// Returns the result. Where there is none, notes that and returns `otherwise`, so that the rest of the expression can be computed.
    fn note<T>(&self, result: Option<T>, otherwise: T) -> T {
        result.unwrap_or_else(|| {
            self.0.set(true);
            otherwise
        })
    }
}

/// Both sides of an operator.
#[derive(Debug)]
pub struct Pair<A, B>(pub A, pub B);

impl<A: CheckedAdd<B, Sum = A>, B> Pair<A, B> {
    /// `+`.
    #[inline]
    pub fn plus(self, sums: &Sums) -> A {
        let otherwise = self.0.clone();
        sums.note(self.0.checked_add(self.1), otherwise)
    }
}

impl<A: Shifted, B: Bits> Pair<A, B> {
    /// `<<`.
    #[inline]
    pub fn shifted_left(self, sums: &Sums) -> A {
        let shifted = self.1.bits().and_then(|bits| self.0.checked_shl(bits));
        sums.note(shifted, self.0)
    }

    /// `>>`.
    #[inline]
    pub fn shifted_right(self, sums: &Sums) -> A {
        let shifted = self.1.bits().and_then(|bits| self.0.checked_shr(bits));
        sums.note(shifted, self.0)
    }
}

impl<A: Signed> Pair<A, ()> {
    /// `-`, in front of a number.
    #[inline]
    pub fn negated(self, sums: &Sums) -> A {
        sums.note(self.0.checked_neg(), self.0)
    }
}

/// The plain operators, for all types whose operators are not checked. The methods of [`Pair`] itself are found first where their bounds hold.
pub trait Unchecked: Sized {
    /// The left side.
    type Left;
    /// The right side.
    type Right;

    /// Both sides.
    fn sides(self) -> (Self::Left, Self::Right);

    /// `+`.
    #[inline]
    fn plus(self, _: &Sums) -> <Self::Left as Add<Self::Right>>::Output
    where
        Self::Left: Add<Self::Right>,
    {
        let (left, right) = self.sides();
        left + right
    }

    /// `-`.
    #[inline]
    fn minus(self, _: &Sums) -> <Self::Left as Sub<Self::Right>>::Output
    where
        Self::Left: Sub<Self::Right>,
    {
        let (left, right) = self.sides();
        left - right
    }

    /// `*`.
    #[inline]
    fn times(self, _: &Sums) -> <Self::Left as Mul<Self::Right>>::Output
    where
        Self::Left: Mul<Self::Right>,
    {
        let (left, right) = self.sides();
        left * right
    }

    /// `/`.
    #[inline]
    fn divided(self, _: &Sums) -> <Self::Left as Div<Self::Right>>::Output
    where
        Self::Left: Div<Self::Right>,
    {
        let (left, right) = self.sides();
        left / right
    }

    /// `%`.
    #[inline]
    fn rest(self, _: &Sums) -> <Self::Left as Rem<Self::Right>>::Output
    where
        Self::Left: Rem<Self::Right>,
    {
        let (left, right) = self.sides();
        left % right
    }

    /// `<<`.
    #[inline]
    fn shifted_left(self, _: &Sums) -> <Self::Left as Shl<Self::Right>>::Output
    where
        Self::Left: Shl<Self::Right>,
    {
        let (left, right) = self.sides();
        left << right
    }

    /// `>>`.
    #[inline]
    fn shifted_right(self, _: &Sums) -> <Self::Left as Shr<Self::Right>>::Output
    where
        Self::Left: Shr<Self::Right>,
    {
        let (left, right) = self.sides();
        left >> right
    }

    /// `-`, in front of a value.
    #[inline]
    fn negated(self, _: &Sums) -> <Self::Left as Neg>::Output
    where
        Self::Left: Neg,
    {
        let (value, _) = self.sides();
        -value
    }
}

impl<A, B> Unchecked for Pair<A, B> {
    type Left = A;
    type Right = B;

    fn sides(self) -> (A, B) {
        (self.0, self.1)
    }
}

/// A field, and the value that is added to it.
#[derive(Debug)]
pub struct Change<'a, A, B>(pub &'a mut A, pub B);

impl<A: CheckedAdd<B, Sum = A>, B> Change<'_, A, B> {
    /// Adds and returns `true`; returns `false` and leaves the field unchanged if the sum does not fit.
    #[inline]
    #[must_use]
    pub fn added(self) -> bool {
        match self.0.clone().checked_add(self.1) {
            Some(sum) => {
                *self.0 = sum;
                true
            }
            None => false,
        }
    }
}

/// Plain `+=`, for all types whose addition is not checked.
pub trait Assigned {
    /// Adds and returns `true`.
    fn added(self) -> bool;
}

impl<A: AddAssign<B>, B> Assigned for Change<'_, A, B> {
    #[inline]
    fn added(self) -> bool {
        *self.0 += self.1;
        true
    }
}
