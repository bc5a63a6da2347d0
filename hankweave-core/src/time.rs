//! Points in time as data; nothing here reads a clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time in UTC, in whole milliseconds, written as `2025-01-04T12:00:00.000Z` (STATE-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The first and last millisecond that RFC 3339 can write and that the time library can hold.
const FIRST: i64 = -62_167_219_200_000;
const LAST: i64 = 253_402_207_199_999;

/// A string that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an RFC 3339 time such as 2025-01-04T12:00:00.000Z")]
#[non_exhaustive]
pub struct InvalidTimestamp {
    /// The rejected string.
    pub text: String,
}

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const UNIX_EPOCH: Self = Self(0);

    /// The time `milliseconds` after the Unix epoch, limited to the years that RFC 3339 can write.
    #[must_use]
    pub fn from_millis(milliseconds: i64) -> Self {
        Self(milliseconds.clamp(FIRST, LAST))
    }

    /// Milliseconds since the Unix epoch; negative before it.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Parses an RFC 3339 string.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidTimestamp`] with the string.
    pub fn parse(text: &str) -> Result<Self, InvalidTimestamp> {
        match text.parse::<jiff::Timestamp>() {
            Ok(time) if is_rfc_3339(text.as_bytes()) => Ok(Self::from_millis(time.as_millisecond())),
            _ => Err(InvalidTimestamp {
                text: text.to_owned(),
            }),
        }
    }

    /// The time `duration` later, limited to the years that RFC 3339 can write.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// Returns the time `milliseconds` later, or earlier if negative, limited to the years that RFC 3339 can write.
    #[must_use]
    pub fn moved_by(self, milliseconds: i64) -> Self {
        Self::from_millis(self.0.saturating_add(milliseconds))
    }

    /// The time that passed since `earlier`; zero when `earlier` is later, as after a step of the clock.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

/// Shortest time that counts as a wait: a run that continues at once with another agent, or ends at once, has not waited.
pub const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Returns a duration as every screen shows it: `0.4s`, `12s`, `3m20s`, `2h5m`, `3d4h`.
#[must_use]
pub fn short_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        // A whole number of seconds is a configured limit and needs no decimal; a measured time is never whole.
        0..10 if duration.subsec_nanos() > 0 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Returns a duration as options of commands take it, in the form of [`short_duration`]; see [`round_up`].
#[must_use]
pub fn duration_argument(duration: Duration) -> String {
    short_duration(round_up(duration))
}

/// Rounds a duration up to what [`short_duration`] shows: whole seconds, minutes from an hour on, hours from a day on.
#[must_use]
pub fn round_up(duration: Duration) -> Duration {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    let unit = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    Duration::from_secs(seconds.div_ceil(unit).saturating_mul(unit))
}

/// Whether the string has the form of RFC 3339, 5.6; the time library also reads shorter forms, and
/// offsets of more than a day.
fn is_rfc_3339(text: &[u8]) -> bool {
    const LOCAL: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let Some((local, rest)) = text.split_at_checked(LOCAL.len()) else {
        return false;
    };
    let fraction = match rest.first() {
        Some(b'.') => 1 + rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    let offset = &rest[fraction..];
    let is_offset = match offset {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', hours @ .., b':', _, _] => fits(offset, b"-dd:dd") && hours <= b"23".as_slice(),
        _ => false,
    };
    fraction != 1 && is_offset && fits(local, LOCAL)
}

/// Whether the string has the form: in it `d` stands for a digit, `T` for a separator of date and time, `-` for a sign or a separator of
/// dates, and any other byte for itself.
fn fits(text: &[u8], form: &[u8]) -> bool {
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        b'-' => matches!(byte, b'-' | b'+'),
        other => byte == other,
    };
    text.len() == form.len() && text.iter().zip(form).all(fits)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time =
            jiff::Timestamp::from_millisecond(self.0).expect("the constructors keep inside jiff's range");
        f.pad(&format!("{time:.3}"))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

crate::shape::leaves!(Timestamp);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_for_an_option_is_never_too_short() {
        let shown = |millis: u64| duration_argument(Duration::from_millis(millis));
        for (millis, expected) in [
            (12_000, "12s"),
            (3_599_001, "1h0m"),
            (58_019_000, "16h7m"),
            (86_400_000, "1d0h"),
            (86_400_001, "1d1h"),
            (200_000, "3m20s"),
        ] {
            assert_eq!(shown(millis), expected);
        }
    }

    #[test]
    fn a_duration_has_two_units_at_most() {
        let shown = [400, 5_000, 9_990, 12_300, 200_000, 7_500_000, 273_600_000];
        let shown = shown.map(|millis| short_duration(Duration::from_millis(millis)));
        assert_eq!(shown, ["0.4s", "5s", "9.9s", "12s", "3m20s", "2h5m", "3d4h"]);
    }

    // covers: STATE-1
    #[test]
    fn whole_seconds_are_written_with_three_digits() {
        assert_eq!(
            Timestamp::parse("2025-01-04T12:00:00Z").unwrap().to_string(),
            "2025-01-04T12:00:00.000Z"
        );
    }

    #[test]
    fn every_time_is_written_in_24_characters_that_are_read_again() {
        for millis in (FIRST..=LAST)
            .step_by(86_399_999_999)
            .chain([FIRST, -1, 0, 999, LAST])
        {
            let text = Timestamp(millis).to_string();
            assert_eq!(
                (text.len(), Timestamp::parse(&text)),
                (24, Ok(Timestamp(millis))),
                "{text}"
            );
        }
    }

    // covers: STATE-1
    #[test]
    fn any_rfc_3339_form_is_read() {
        let expected = Timestamp::parse("2025-01-04T12:00:00.123Z").unwrap();
        for text in [
            "2025-01-04T13:00:00.123+01:00",
            "2025-01-04t12:00:00.123456z",
            "2025-01-04 12:00:00.123Z",
            "2025-01-03T12:01:00.1230-23:59",
            "2025-01-04T12:00:00.123-00:00",
        ] {
            assert_eq!(Timestamp::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "yesterday",
            "2025-01-04",
            "2025-13-04T12:00:00Z",
            "2025-01-04T12:00:00",
            "2025-01-04T12:00Z",
            "2025-01-04T12:00:00.Z",
            "2025-01-04T12:00:00,5Z",
            "2025-01-04T12:00:00+01",
            "2025-01-04T12:00:00+0100",
            "2025-01-04T12:00:00+24:00",
            "2025-01-04T12:00:00Z[UTC]",
            "20250104T120000Z",
            "-00001-01-04T12:00:00Z",
            "2025+01-04T12:00:00Z",
        ] {
            assert!(Timestamp::parse(text).is_err(), "{text}");
        }
    }

    // covers: D9
    #[test]
    fn a_clock_that_goes_back_gives_no_negative_duration() {
        let (early, late) = (Timestamp::from_millis(1_000), Timestamp::from_millis(3_500));
        assert_eq!(late.since(early), Duration::from_millis(2_500));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn extreme_values_still_print() {
        for value in [i64::MIN, i64::MAX, 0] {
            assert!(!Timestamp::from_millis(value).to_string().is_empty());
        }
    }
}
