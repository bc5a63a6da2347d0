//! Times for people: `local_*` in the zone of this machine, `offset_*` with its offset, `with_*` for the times inside of a message.

use hankweave_core::time::{Timestamp, short_duration};
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use jiff::tz::TimeZone;

/// Returns a time as people read it where they are: `14:02`, `Nov 25 14:02`, with the year if it is not this one.
pub(crate) fn local_time(time: Timestamp) -> String {
    let zone = TimeZone::system();
    in_zone(time, SystemClock.now(), &zone).unwrap_or_else(|| time.to_string())
}

/// Returns a time with its day and second, in equal width on every line: `Nov 25 14:02:07`.
pub(crate) fn local_second(time: Timestamp) -> String {
    let found = jiff::Timestamp::from_millisecond(time.as_millis()).ok();
    let zoned = found.map(|found| found.to_zoned(TimeZone::system()));
    zoned.map_or_else(
        || time.to_string(),
        |zoned| zoned.strftime("%b %d %H:%M:%S").to_string(),
    )
}

/// Returns a period as people read it: `14:02 to 14:31` with the word `to`, `14:02 for 12s` within a minute, and `14:02` while it lasts.
pub(crate) fn local_period(start: Timestamp, to: &str, end: Option<Timestamp>) -> String {
    let from = local_time(start);
    match end.map(|end| (local_time(end), end)) {
        None => from,
        Some((until, end)) if until == from => format!("{from} for {}", short_duration(end.since(start))),
        Some((until, _)) => format!("{from} {to} {until}"),
    }
}

/// Returns a time as people read it here, with its offset, for text that may be read elsewhere: `14:02 +01:00`.
pub(crate) fn offset_time(time: Timestamp) -> String {
    with_offset(local_time(time), time)
}

/// Returns a time as [`offset_time`] does, with the second: `14:02:07 +01:00`.
pub(crate) fn offset_second(time: Timestamp) -> String {
    let second = time.as_millis().rem_euclid(60_000) / 1_000;
    with_offset(format!("{}:{second:02}", local_time(time)), time)
}

/// Returns a day and time with its offset, for text that may be read elsewhere and later: `2026-11-25 14:02 +01:00`.
pub(crate) fn offset_date(time: Timestamp) -> String {
    strftime(time, &TimeZone::system(), "%Y-%m-%d %H:%M %:z").unwrap_or_else(|| time.to_string())
}

/// Returns a period as people read it here, with the offset of its end: `14:02 to 14:31 +01:00`.
pub(crate) fn offset_period(start: Timestamp, end: Option<Timestamp>) -> String {
    let period = local_period(start, "to", end);
    match period.split_once(" for ") {
        Some((from, length)) => format!("{} for {length}", with_offset(from.to_owned(), start)),
        None => with_offset(period, end.unwrap_or(start)),
    }
}

/// Adds the offset of `time` to a text.
fn with_offset(shown: String, time: Timestamp) -> String {
    match strftime(time, &TimeZone::system(), "%:z") {
        Some(offset) => format!("{shown} {offset}"),
        None => shown,
    }
}

/// Returns a message with its times in UTC as people read them here, each with its offset.
pub(crate) fn with_offset_times(text: &str) -> String {
    with_times(text, &offset_time)
}

/// Lengths of a time in UTC, with milliseconds and without, in bytes.
const UTC_TIMES: [usize; 2] = [24, 20];

/// Returns a message of the runtime with its times in UTC as people read them where they are.
pub(crate) fn with_local_times(text: &str) -> String {
    with_times(text, &local_time)
}

/// Returns a message with its times as people read them here, each with its zone, because it may be read elsewhere: `14:02 CEST`.
pub(crate) fn with_zoned_times(text: &str) -> String {
    let zone = TimeZone::system();
    with_times(text, &|time| match name_of_zone(time, &zone) {
        Some(name) => format!("{} {name}", local_time(time)),
        None => time.to_string(),
    })
}

fn name_of_zone(time: Timestamp, zone: &TimeZone) -> Option<String> {
    strftime(time, zone, "%Z")
}

fn strftime(time: Timestamp, zone: &TimeZone, form: &str) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(time.as_millis()).ok()?;
    Some(time.to_zoned(zone.clone()).strftime(form).to_string())
}

/// Replaces each time in UTC in a text by `shown`.
fn with_times(text: &str, shown: &dyn Fn(Timestamp) -> String) -> String {
    let (mut local, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let starts = UTC_TIMES.iter().filter_map(|length| rest.get(..*length));
        let candidates = starts.filter(|time| time.ends_with('Z') && time.as_bytes()[10] == b'T');
        let mut times = candidates.filter_map(|time| Some((time.len(), Timestamp::parse(time).ok()?)));
        let length = match times.next() {
            Some((length, time)) => {
                local.push_str(&shown(time));
                length
            }
            None => {
                local.push(first);
                first.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    local
}

/// Returns a time in a zone, without the day or the year if they are those of `now`.
fn in_zone(time: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<String> {
    let zoned = |time: Timestamp| {
        let time = jiff::Timestamp::from_millisecond(time.as_millis()).ok()?;
        Some(time.to_zoned(zone.clone()))
    };
    let (time, now) = (zoned(time)?, zoned(now)?);
    let form = match (time.date() == now.date(), time.year() == now.year()) {
        (true, _) => "%H:%M",
        (false, true) => "%b %d %H:%M",
        (false, false) => "%b %d %Y %H:%M",
    };
    Some(time.strftime(form).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_a_message_are_local_and_nothing_else_changes() {
        let at = Timestamp::parse("2026-11-26T12:00:00.000Z").unwrap();
        let text = "übung waits for its limit until 2026-11-26T12:00:00.000Z, 2h to go; 2026-11-26 and 2026-99-26T12:00:00Z stay";
        let expected = text.replace("2026-11-26T12:00:00.000Z", &local_time(at));
        assert_eq!(with_local_times(text), expected);
        assert_eq!(with_local_times("2026-11-26T12:00:00Z"), local_time(at));
        assert_eq!(with_local_times(""), "");
    }

    #[test]
    fn a_time_that_is_read_elsewhere_has_its_zone() {
        let at = Timestamp::parse("2026-11-26T12:00:00.000Z").unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(name_of_zone(at, &zone).as_deref(), Some("+02"));
        let text = with_zoned_times("waits until 2026-11-26T12:00:00.000Z, 2h to go");
        let local = local_time(at);
        assert!(
            text.starts_with(&format!("waits until {local} ")) && text.ends_with(", 2h to go"),
            "{text}"
        );
        assert_ne!(text, format!("waits until {local}, 2h to go"));
    }

    #[test]
    fn a_period_within_a_minute_has_its_length() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let (start, end) = (at("2026-11-25T12:02:00Z"), at("2026-11-25T12:02:12Z"));
        let from = local_time(start);
        assert_eq!(local_period(start, "until", None), from);
        assert_eq!(local_period(start, "until", Some(end)), format!("{from} for 12s"));
        let later = at("2026-11-25T12:05:12Z");
        let until = local_time(later);
        assert_eq!(
            local_period(start, "until", Some(later)),
            format!("{from} until {until}")
        );
    }

    #[test]
    fn a_time_is_as_long_as_a_person_needs_it() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let now = at("2026-11-26T12:00:00Z");
        let shown = [
            "2026-11-25T22:30:00Z",
            "2026-11-25T12:02:00Z",
            "2025-11-25T12:02:00Z",
        ];
        let shown = shown.map(|time| in_zone(at(time), now, &zone).unwrap());
        assert_eq!(shown, ["00:30", "Nov 25 14:02", "Nov 25 2025 14:02"]);
    }
}
