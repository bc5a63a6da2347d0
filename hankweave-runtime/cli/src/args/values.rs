//! Parsers of values on the command line. Their errors say which values are right.

use std::time::Duration;

use hankweave_core::cost::Usd;
use hankweave_core::hank::{AgentChoice, Setting, SettingValue};
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};

/// Parses an agent as a hank writes it; a plain name needs no quotes.
pub(super) fn agent(text: &str) -> Result<AgentChoice, String> {
    match Setting::Agent.from_variable(text)? {
        SettingValue::Agent(agent) => Ok(agent),
        other => Err(format!("`{other}` is no agent")),
    }
}

pub(super) fn dollars(text: &str) -> Result<Usd, String> {
    let dollars = text.parse().ok().and_then(|value| Usd::from_dollars(value).ok());
    let dollars = dollars.filter(|dollars| *dollars > Usd::ZERO);
    dollars.ok_or_else(|| "a number of US dollars above 0, such as 2.50".to_owned())
}

/// Parses a number of seconds above 0, perhaps with a fraction, or a [`duration`].
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let seconds = number.or_else(|| duration(text).ok().map(|duration| duration.as_secs_f64()));
    let seconds = seconds.filter(|seconds: &f64| {
        Duration::try_from_secs_f64(*seconds).is_ok_and(|duration| !duration.is_zero())
    });
    seconds.ok_or_else(|| "a number of seconds above 0, or a time such as 90m, 8h or 1h30m".to_owned())
}

/// Parses an address without a password, a query or a fragment; returns it without slashes at its end.
pub(super) fn page_url(text: &str) -> Result<String, String> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let fits = |character: char| character.is_ascii_graphic() && !"?#@\"\\".contains(character);
    match !host.is_empty() && text.chars().all(fits) {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("an address such as https://box.example:8443, without a query".to_owned()),
    }
}

pub(super) fn gigabytes(text: &str) -> Result<f64, String> {
    let gigabytes = text
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0);
    gigabytes.ok_or_else(|| "a number of GiB above 0".to_owned())
}

/// Parses `90` (seconds), `90s`, `30m`, `6h`, `1d`, `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a number of seconds, or a time such as 90m, 6h or 1h30m".to_owned();
    // `None` after an overflow.
    let (mut seconds, mut rest) = (Some(0_u64), text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, from_unit) = rest.split_at(digits);
        let seconds_per_unit = match from_unit.chars().next() {
            None | Some('s') => 1,
            Some('m') => 60,
            Some('h') => 60 * 60,
            Some('d') => 24 * 60 * 60,
            Some(_) => return Err(wrong()),
        };
        let part = number
            .parse::<u64>()
            .map_err(|_| wrong())?
            .checked_mul(seconds_per_unit);
        seconds = seconds.zip(part).and_then(|(sum, part)| sum.checked_add(part));
        rest = from_unit.get(1..).unwrap_or_default();
    }
    let seconds = seconds.filter(|_| !text.is_empty()).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

/// Parses a time, or an age such as `8h`.
pub(super) fn time(text: &str) -> Result<Timestamp, String> {
    time_before(text, SystemClock.now())
}

fn time_before(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let ago = |age: Duration| {
        let millis = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        now.moved_by(-millis)
    };
    let time = Timestamp::parse(text)
        .ok()
        .or_else(|| duration(text).ok().map(ago));
    time.ok_or_else(|| "a time such as 2026-01-31T12:00:00Z, or an age such as 90m, 8h or 2d".to_owned())
}

/// Parses the first digits of a SHA.
pub(super) fn sha_prefix(text: &str) -> Result<String, String> {
    let is_hex = !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hex {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("a SHA, or its beginning, is made of 0-9 and a-f".to_owned()),
    }
}

/// Parses a [`duration`] of at least one second.
pub(super) fn lease(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("at least 1s".to_owned()),
        lease => Ok(lease),
    }
}

/// Parses a size in bytes, or with a unit; returns bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    hankweave_remote::parse_size(text)
        .ok_or_else(|| "a size is a whole number above 0, in bytes or with a unit such as 8GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_time_is_seconds_or_has_units() {
        for (text, wanted) in [("600", 600.0), ("0.5", 0.5), ("8h", 28_800.0), ("1h30m", 5_400.0)] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for text in ["0", "-1", "0m", "8x", "inf", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_one_of_the_calendar_or_an_age() {
        let now = Timestamp::parse("2026-01-31T12:00:00.000Z").unwrap();
        for (text, wanted) in [
            ("2026-01-30T08:00:00Z", "2026-01-30T08:00:00.000Z"),
            ("8h", "2026-01-31T04:00:00.000Z"),
            ("1d12h", "2026-01-30T00:00:00.000Z"),
            ("90", "2026-01-31T11:58:30.000Z"),
            ("0", "2026-01-31T12:00:00.000Z"),
        ] {
            let time = time_before(text, now).map(|time| time.to_string());
            assert_eq!(time.as_deref(), Ok(wanted), "{text}");
        }
        assert!(
            time_before(&u64::MAX.to_string(), now).is_ok(),
            "limited to the first year"
        );
        for text in ["", "yesterday", "-8h", "2026-01-31"] {
            assert!(time_before(text, now).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_seconds_or_has_units() {
        let read = |text| duration(text).map(|duration| duration.as_secs());
        for (text, seconds) in [
            ("0", 0),
            ("90", 90),
            ("90s", 90),
            ("30m", 1_800),
            ("1h30m", 5_400),
            ("2d", 172_800),
        ] {
            assert_eq!(read(text), Ok(seconds), "{text}");
        }
        // As hints write it.
        for seconds in [12, 200, 3_600, 58_020, 90_000] {
            let wanted = Duration::from_secs(seconds);
            assert_eq!(
                duration(&hankweave_core::time::duration_argument(wanted)),
                Ok(wanted)
            );
        }
        for text in ["", "h", "-1", "1.5h", "6x", "1h h", "99999999999999999999"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
