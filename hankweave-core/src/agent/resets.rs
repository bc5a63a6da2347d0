//! When the usage limit of a provider ends, as its words say it (AGENT-12).

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use super::classify::wait;
use crate::time::Timestamp;

/// The data of a time zone by its name, such as `Europe/Berlin`, in the form of TZif; without a name that of the machine.
pub type ZoneData<'a> = &'a dyn Fn(Option<&str>) -> Option<Vec<u8>>;

/// The moment at which the usage limit ends of which `text` speaks, as it was read at `now`; `None` when it says none.
///
/// Read are what codex prints, `try again at 3:05 PM`, `at Nov 26th, 2026 3:05 PM` or `in 2 hours 5 minutes`, what claude prints, `resets 4pm (UTC)`, `resets 3:01pm (Europe/Berlin)`, `resets Nov 26, 2:44pm (UTC)`, and the older
/// `limit reached|1795449600`. Clock times are of whole minutes, so the limit has ended when the minute has. One without a date is the next
/// such time, or one that is over for less than an hour: a limit that ends while its words are read does not last another day.
#[must_use]
pub fn limit_ends_at(text: &str, now: Timestamp, zone: ZoneData<'_>) -> Option<Timestamp> {
    let lower_case = text.to_ascii_lowercase();
    if !lower_case.contains("limit") {
        return None;
    }
    if let Some((_, epoch)) = lower_case.split_once("limit reached|") {
        return moment(leading_number(epoch)?);
    }
    let behind = |word: &'static str| {
        let found = lower_case.match_indices(word);
        found.map(move |(at, word)| &text[at + word.len()..])
    };
    let clock = behind("resets ").chain(behind("try again at "));
    let mut clock = clock.filter_map(|rest| clock_time(rest, now, zone));
    clock.next().or_else(|| {
        let is_of_a_plan = lower_case.contains("usage limit");
        let rest = behind("try again in ").next().filter(|_| is_of_a_plan)?;
        Some(now.after(wait(&rest.to_ascii_lowercase(), 1_000)?))
    })
}

/// A number of seconds, or of milliseconds, since 1970.
pub(super) fn moment(number: i64) -> Option<Timestamp> {
    /// More seconds than this are milliseconds.
    const SECONDS: i64 = 100_000_000_000;
    match number {
        ..=0 => None,
        1..SECONDS => Some(Timestamp::from_millis(number * 1_000)),
        millis => Some(Timestamp::from_millis(millis)),
    }
}

fn leading_number(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

/// `Nov 26, 2:44pm (Europe/Berlin)`, `at 4pm`
fn clock_time(text: &str, now: Timestamp, zone: ZoneData<'_>) -> Option<Timestamp> {
    let (text, zone_name) = match text.split_once('(') {
        // Another `resets` may follow; a zone stands right behind its time.
        Some((before, behind)) if before.len() <= LONGEST_TIME => (before, Some(behind.split_once(')')?.0)),
        _ => (text, None),
    };
    let zone = time_zone(zone_name, zone)?;
    let now = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
    let here = zone.to_datetime(now);
    let words = text.to_ascii_lowercase();
    let mut words = words
        .split([' ', ',', '\u{b7}'])
        .filter(|word| !matches!(*word, "" | "at" | "on"))
        .peekable();
    let month = words.next_if(|word| month(word).is_some()).and_then(month);
    let day = match month {
        Some(_) => Some(i8::try_from(leading_number(words.next()?)?).ok()?),
        None => None,
    };
    let year = words
        .next_if(|word| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|word| word.parse().ok());
    let clock = words.next()?;
    let half = words.next_if(|word| matches!(word.trim_end_matches('.'), "am" | "pm"));
    let time = time_of_day(&format!("{clock}{}", half.unwrap_or_default()))?;
    let resolve = |date: Date| resolve(&zone, date.to_datetime(time));
    let (Some(month), Some(day)) = (month, day) else {
        let today = resolve(here.date())?;
        let is_over = now.duration_since(today).as_secs() >= 60 * 60;
        return end_of_minute(match is_over {
            true => resolve(here.date().tomorrow().ok()?)?,
            false => today,
        });
    };
    let this_year = resolve(Date::new(year.unwrap_or(here.year()), month, day).ok()?)?;
    // In December one may read of January.
    let is_long_over = year.is_none() && now.duration_since(this_year).as_secs() > 180 * 24 * 60 * 60;
    end_of_minute(match is_long_over {
        true => resolve(Date::new(here.year() + 1, month, day).ok()?)?,
        false => this_year,
    })
}

/// The longest text of a day and a time, with some room.
const LONGEST_TIME: usize = 40;

fn resolve(zone: &TimeZone, datetime: DateTime) -> Option<jiff::Timestamp> {
    zone.to_ambiguous_timestamp(datetime).compatible().ok()
}

fn end_of_minute(moment: jiff::Timestamp) -> Option<Timestamp> {
    Some(Timestamp::from_millis(
        moment.as_millisecond().checked_add(60_000)?,
    ))
}

fn time_zone(name: Option<&str>, data: ZoneData<'_>) -> Option<TimeZone> {
    let is_utc = |name: &str| {
        ["UTC", "GMT", "Z"]
            .iter()
            .any(|utc| name.eq_ignore_ascii_case(utc))
    };
    match name {
        Some(name) if is_utc(name) => Some(TimeZone::UTC),
        name => TimeZone::tzif(name.unwrap_or("local"), &data(name)?).ok(),
    }
}

fn month(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let start = word.get(..3)?;
    let at = MONTHS.iter().position(|month| *month == start)?;
    word.bytes()
        .all(|byte| byte.is_ascii_alphabetic())
        .then_some(())?;
    i8::try_from(at + 1).ok()
}

/// `4pm`, `3:01pm`, `14:30`
fn time_of_day(word: &str) -> Option<Time> {
    let word = word.trim_end_matches(['.', ';']);
    let (clock, afternoon) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(clock), _) => (clock, Some(false)),
        (_, Some(clock)) => (clock, Some(true)),
        (None, None) => (word, None),
    };
    let (hour, minute) = match clock.split_once(':') {
        Some((hour, minute)) => (hour.parse::<i8>().ok()?, minute.parse::<i8>().ok()?),
        // A bare number is no time.
        None => (clock.parse::<i8>().ok().filter(|_| afternoon.is_some())?, 0),
    };
    let hour = match (afternoon, hour) {
        (None, hour) => hour,
        (Some(_), 0 | 13..) => return None,
        (Some(false), hour) => hour % 12,
        (Some(true), hour) => hour % 12 + 12,
    };
    Time::new(hour, minute, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest file of a zone that knows one offset, here UTC+1 throughout ("TZif", RFC 9636): the old part is empty, the footer says it.
    fn zone(name: Option<&str>) -> Option<Vec<u8>> {
        let footer = match name {
            Some("Europe/Berlin") => "\nCET-1\n",
            Some("America/New_York") => "\nEST5EDT,M3.2.0,M11.1.0\n",
            None => "\nXXX-2\n",
            Some(_) => return None,
        };
        let head = |counts: [u32; 6]| {
            let mut head = b"TZif2".to_vec();
            head.extend([0; 15]);
            counts.iter().for_each(|count| head.extend(count.to_be_bytes()));
            head
        };
        let types = [0, 0, 0, 0, 0, 0];
        let mut data = Vec::new();
        for _ in 0..2 {
            data.extend(head([0, 0, 0, 0, 1, 4]));
            data.extend(types);
            data.extend(b"LMT\0");
        }
        data.extend(footer.as_bytes());
        Some(data)
    }

    #[track_caller]
    fn check(text: &str, now: &str, expected: Option<&str>) {
        let found = limit_ends_at(text, Timestamp::parse(now).unwrap(), &zone);
        let expected = expected.map(|time| Timestamp::parse(time).unwrap());
        assert_eq!(found, expected, "{text}");
    }

    /// The texts are those of claude 2.1.329 and 2.1.330.
    // covers: AGENT-12, F10
    #[test]
    fn what_claude_prints_names_the_end_of_the_limit() {
        let now = "2026-11-23T13:31:03Z";
        check(
            "You've hit your limit · resets 4pm (UTC)",
            now,
            Some("2026-11-23T16:01:00Z"),
        );
        check(
            "You've hit your limit · resets 11am (America/New_York)",
            now,
            Some("2026-11-23T16:01:00Z"),
        );
        check(
            "You've hit your limit · resets 3:01pm (Europe/Berlin) (status 429)",
            now,
            Some("2026-11-23T14:02:00Z"),
        );
        check(
            "You've hit your limit · resets Nov 26, 2:44pm (Europe/Berlin)",
            now,
            Some("2026-11-26T13:45:00Z"),
        );
        check(
            "5-hour limit reached ∙ resets 5pm",
            now,
            Some("2026-11-23T15:01:00Z"),
        );
        check(
            "Claude AI usage limit reached|1795449600",
            now,
            Some("2026-11-23T16:00:00Z"),
        );
    }

    // covers: AGENT-12
    #[test]
    fn what_codex_prints_names_the_end_of_the_limit() {
        let now = "2026-11-23T13:31:03Z";
        let limit = "You've hit your usage limit. Visit https://chatgpt.com/codex/settings/usage to purchase more credits or try again";
        // The zone of the machine is UTC+2 here.
        for (told, ends) in [
            ("at 4:05 PM.", "2026-11-23T14:06:00Z"),
            ("at Nov 26th, 2026 3:05 PM.", "2026-11-26T13:06:00Z"),
            ("in 2 hours 5 minutes.", "2026-11-23T15:36:03Z"),
            ("in 23h 1m", "2026-11-24T12:32:03Z"),
        ] {
            check(&format!("{limit} {told}"), now, Some(ends));
        }
        // That of one request is no limit of a plan.
        check("Rate limit reached. Please try again in 20s.", now, None);
    }

    #[test]
    fn a_time_without_a_date_is_the_next_one_or_has_just_been() {
        let limit = "limit · resets 12:30am (UTC)";
        check(limit, "2026-11-23T23:00:00Z", Some("2026-11-24T00:31:00Z"));
        check(limit, "2026-11-24T00:30:50Z", Some("2026-11-24T00:31:00Z"));
        check(limit, "2026-11-24T01:20:00Z", Some("2026-11-24T00:31:00Z"));
        check(limit, "2026-11-24T01:31:00Z", Some("2026-11-25T00:31:00Z"));
    }

    #[test]
    fn in_december_one_reads_of_january() {
        let limit = "limit · resets Jan 2, 9am (UTC)";
        check(limit, "2026-12-30T00:00:00Z", Some("2027-01-02T09:01:00Z"));
        check(
            "limit · resets Jan 2, 2028, 9am (UTC)",
            "2026-12-30T00:00:00Z",
            Some("2028-01-02T09:01:00Z"),
        );
    }

    // covers: AGENT-12
    #[test]
    fn what_says_no_end_has_none() {
        let now = "2026-11-23T13:31:03Z";
        for text in [
            "",
            "You've hit your limit",
            "the password resets 4pm (UTC)",
            "limit resets soon",
            "limit resets 99pm (UTC)",
            "limit resets 4 (UTC)",
            "limit resets 4pm (Middle/Earth)",
            "limit resets 4pm (UTC",
            "limit resets Feb 31, 4pm (UTC)",
            "limit reached|",
            "limit reached|99999999999999999999",
        ] {
            check(text, now, None);
        }
    }
}
