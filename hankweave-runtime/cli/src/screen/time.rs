//! Times for people.

use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use jiff::tz::TimeZone;

/// A time as people read it where they are: `14:02`, `Nov 25 14:02`, with the year if it is not this one.
pub(crate) fn local_time(time: Timestamp) -> String {
    let zone = TimeZone::system();
    in_zone(time, SystemClock.now(), &zone).unwrap_or_else(|| time.to_string())
}

/// Length of a time in UTC with milliseconds, and without.
const UTC_TIMES: [usize; 2] = [24, 20];

/// Returns a message of the runtime with its times in UTC as people read them where they are.
pub(crate) fn with_local_times(text: &str) -> String {
    let (mut local, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let found = UTC_TIMES.iter().filter_map(|length| rest.get(..*length));
        let found = found.filter(|time| time.ends_with('Z') && time.as_bytes()[10] == b'T');
        let found = found.filter_map(|time| Some((time.len(), Timestamp::parse(time).ok()?)));
        let length = match { found }.next() {
            Some((length, time)) => {
                local.push_str(&local_time(time));
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
