//! Clock times with the day and the zone next to them.

use std::iter::Peekable;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;

use super::zones::{is_zone, named_zone, zone_of_machine};
use super::{EPOCH, ZoneData, leading_number, moment};
use crate::time::Timestamp;

/// Most words that a day, a time and a zone have, with some room.
const MOST_WORDS: usize = 24;

/// Most characters of them.
const LONGEST: usize = 160;

/// `Nov 26, 2:44pm (Europe/Berlin)`, `at 4pm`, `tomorrow at 9:30 UTC+2`, `2026-08-27 12:05:49`, `1795449600`
pub(super) fn clock_time(text: &str, now: Timestamp, data: ZoneData<'_>) -> Option<Timestamp> {
    let words = words(text);
    let mut words = words.iter().map(String::as_str).peekable();
    while words
        .next_if(|word| FILLERS.contains(&&*word.to_ascii_lowercase()))
        .is_some()
    {}
    if let Some(moment) = absolute(words.peek()?) {
        return Some(moment);
    }
    let day = Day::read(&mut words);
    skip(&mut words);
    let clock = Clock::read(&mut words);
    // A bare number is no time, and a month alone no day.
    let (day, clock) = match (day, clock) {
        (None, None) => return None,
        (day, clock) => (day, clock.unwrap_or(Clock::MIDNIGHT)),
    };
    // Some write the day after the time.
    let day = day.or_else(|| {
        skip(&mut words);
        Day::read(&mut words)
    });
    let zone = zone(&mut words, data)?;
    let now = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
    let moment = day.unwrap_or(Day::Next).resolve(clock.time, &zone, now)?;
    let end = moment.as_millisecond().checked_add(clock.precision)?;
    Some(Timestamp::from_millis(end))
}

/// Words without meaning for the time after them.
const FILLERS: [&str; 12] = [
    "at", "on", "the", "in", "after", "around", "about", "again", "by", "is", "be", "until",
];

fn skip<'w>(words: &mut Peekable<impl Iterator<Item = &'w str> + Clone>) {
    while words
        .next_if(|word| matches!(*word, "at" | "on" | "the" | "@"))
        .is_some()
    {}
}

/// The words at the beginning of a text. Parentheses are words of their own.
fn words(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    for character in text.chars().take(LONGEST) {
        match character {
            '(' | ')' => spaced.extend([' ', character, ' ']),
            '"' | '\'' | '`' | ',' | ';' | '|' | '\u{b7}' | '\u{2022}' | '\u{2219}' => spaced.push(' '),
            other => spaced.push(other),
        }
    }
    let words = spaced.split_whitespace().take(MOST_WORDS).map(tidy);
    words.filter(|word| !word.is_empty()).collect()
}

/// A word without the end of its sentence; `p.m.` is `pm`.
fn tidy(word: &str) -> String {
    let word = word.trim_end_matches(['.', ':', '!', '?']);
    match word.to_ascii_lowercase() {
        lower if lower.ends_with("a.m") || lower.ends_with("p.m") => lower.replace('.', ""),
        _ => word.to_owned(),
    }
}

/// ISO 8601 with its offset, or a number of seconds since 1970.
fn absolute(word: &str) -> Option<Timestamp> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        return moment(leading_number(word).filter(|number| *number > EPOCH)?);
    }
    let moment: jiff::Timestamp = word.to_ascii_uppercase().parse().ok()?;
    Some(Timestamp::from_millis(moment.as_millisecond()))
}

/// The day of a time.
#[derive(Debug, Clone, Copy)]
enum Day {
    /// Without a year it is this one, or in December one may read of January.
    On(Option<i16>, i8, i8),
    Weekday(Weekday),
    Tomorrow,
    Today,
    /// No day is named.
    Next,
}

impl Day {
    fn read<'w>(words: &mut Peekable<impl Iterator<Item = &'w str> + Clone>) -> Option<Self> {
        let word = words.peek()?.to_ascii_lowercase();
        let plain = match &*word {
            "today" | "tonight" => Some(Self::Today),
            "tomorrow" => Some(Self::Tomorrow),
            _ => None,
        };
        if let Some(day) = plain {
            words.next();
            return Some(day);
        }
        if let Some(weekday) = weekday(&word) {
            words.next();
            skip(words);
            // A date is more exact than the name of its day.
            return Self::read(words).or(Some(Self::Weekday(weekday)));
        }
        if let Ok(date) = word.parse::<Date>() {
            // A date and a time in one word are left for the clock.
            let is_whole = word.len() == "2026-08-27".len();
            is_whole.then(|| words.next());
            return Some(Self::On(Some(date.year()), date.month(), date.day()));
        }
        let (month, day) = match month(&word) {
            Some(month) => {
                words.next();
                (month, day_of_month(words.next()?)?)
            }
            None => {
                let day = day_of_month(&word)?;
                // A number may just as well be an hour, so it is taken only with its month.
                let mut ahead = words.clone();
                ahead.next();
                while ahead.next_if(|word| matches!(*word, "de" | "of")).is_some() {}
                let month = month(&ahead.next()?.to_ascii_lowercase())?;
                *words = ahead;
                (month, day)
            }
        };
        while words.next_if(|word| *word == "de").is_some() {}
        let year = words.next_if(|word| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit()));
        Some(Self::On(year.and_then(|year| year.parse().ok()), month, day))
    }

    fn resolve(self, time: Time, zone: &TimeZone, now: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let today = zone.to_datetime(now).date();
        let at = |date: Date| resolve(zone, date.to_datetime(time));
        let is_over = |moment: jiff::Timestamp| now.duration_since(moment).as_secs() >= 60 * 60;
        match self {
            Self::Today => at(today),
            Self::Tomorrow => at(today.tomorrow().ok()?),
            Self::Next => match at(today)? {
                over if is_over(over) => at(today.tomorrow().ok()?),
                next => Some(next),
            },
            Self::Weekday(weekday) => {
                let days = i64::from(today.weekday().until(weekday));
                let date = |days: i64| today.checked_add(jiff::Span::new().days(days)).ok();
                match at(date(days)?)? {
                    over if is_over(over) => at(date(days + 7)?),
                    next => Some(next),
                }
            }
            Self::On(year, month, day) => {
                let this_year = at(Date::new(year.unwrap_or(today.year()), month, day).ok()?)?;
                let is_long_over =
                    year.is_none() && now.duration_since(this_year).as_secs() > 180 * 24 * 60 * 60;
                match is_long_over {
                    true => at(Date::new(today.year() + 1, month, day).ok()?),
                    false => Some(this_year),
                }
            }
        }
    }
}

fn resolve(zone: &TimeZone, datetime: DateTime) -> Option<jiff::Timestamp> {
    zone.to_ambiguous_timestamp(datetime).compatible().ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    const DAYS: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let found = DAYS
        .iter()
        .find(|(day, _)| word.len() >= 3 && day.starts_with(word));
    found.map(|(_, day)| *day)
}

fn month(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let is_it = |month: &&str| word == "sept" || word.len() >= 3 && month.starts_with(word);
    let at = match word {
        "sept" => 8,
        _ => MONTHS.iter().position(is_it)?,
    };
    i8::try_from(at + 1).ok()
}

/// `26`, `26th`
fn day_of_month(word: &str) -> Option<i8> {
    let word = word.to_ascii_lowercase();
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|end| word.strip_suffix(end));
    let day: i8 = digits.unwrap_or(&word).parse().ok()?;
    (1..=31).contains(&day).then_some(day)
}

/// A time of day.
#[derive(Debug, Clone, Copy)]
struct Clock {
    time: Time,
    /// How long the named time lasts, in milliseconds: a minute, or a second.
    precision: i64,
}

impl Clock {
    const MIDNIGHT: Self = Self {
        time: Time::midnight(),
        precision: MINUTE,
    };

    fn read<'w>(words: &mut Peekable<impl Iterator<Item = &'w str> + Clone>) -> Option<Self> {
        let mut ahead = words.clone();
        let clock = Self::take(&mut ahead)?;
        *words = ahead;
        Some(clock)
    }

    /// Takes words even if they are no time.
    fn take<'w>(words: &mut Peekable<impl Iterator<Item = &'w str> + Clone>) -> Option<Self> {
        let word = words.next()?.to_ascii_lowercase();
        let named = match &*word {
            "noon" => Time::new(12, 0, 0, 0).ok(),
            "midnight" => Some(Time::midnight()),
            // A day and a time in one word.
            _ => word
                .to_ascii_uppercase()
                .parse()
                .ok()
                .filter(|_| word.contains('t'))
                .map(DateTime::time),
        };
        if let Some(time) = named {
            return Some(Self {
                time,
                precision: MINUTE,
            });
        }
        let (clock, half) = match ["am", "pm"].iter().find(|half| word.ends_with(**half)) {
            Some(half) => (word.strip_suffix(half)?.to_owned(), Some(*half)),
            None => (word.clone(), None),
        };
        let behind =
            words.next_if(|word| matches!(&*word.to_ascii_lowercase(), "am" | "pm") && half.is_none());
        let half = half.map(str::to_owned).or(behind.map(str::to_ascii_lowercase));
        Self::of(&clock, half.map(|half| half == "pm"))
    }

    /// `4` in the afternoon, `3:01`, `14:30`, `14:30:05`
    fn of(clock: &str, afternoon: Option<bool>) -> Option<Self> {
        let mut parts = clock.split(':').map(|part| part.parse::<i8>().ok());
        let hour = parts.next()??;
        let (minute, second) = (parts.next(), parts.next());
        // A bare number is no time.
        if minute.is_none() && afternoon.is_none() || parts.next().is_some() {
            return None;
        }
        let hour = match (afternoon, hour) {
            (None, hour) => hour,
            (Some(_), 0 | 13..) => return None,
            (Some(false), hour) => hour % 12,
            (Some(true), hour) => hour % 12 + 12,
        };
        let (minute, precision) = (
            minute.unwrap_or(Some(0))?,
            if second.is_some() { SECOND } else { MINUTE },
        );
        let time = Time::new(hour, minute, second.unwrap_or(Some(0))?, 0).ok()?;
        Some(Self { time, precision })
    }
}

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60_000;

/// Returns the zone after a time, or that of the machine; `None` for an unknown zone in parentheses.
fn zone<'w>(
    words: &mut Peekable<impl Iterator<Item = &'w str> + Clone>,
    data: ZoneData<'_>,
) -> Option<TimeZone> {
    let Some(word) = words.next() else {
        return Some(zone_of_machine(data));
    };
    if word == "(" {
        let mut is_closed = false;
        let is_inside = |word: &&str| {
            is_closed = *word == ")";
            !is_closed
        };
        let inside: Vec<&str> = words.by_ref().take_while(is_inside).collect();
        let name = inside.join(" ");
        let is_something_else = inside
            .iter()
            .any(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        return match is_something_else {
            true => Some(zone_of_machine(data)),
            false => named_zone(&name, data).filter(|_| is_closed),
        };
    }
    if !is_zone(word) {
        return Some(zone_of_machine(data));
    }
    // `UTC +9` is one zone.
    let signed = words.next_if(|next| matches!(word, "UTC" | "GMT") && next.starts_with(['+', '-']));
    named_zone(&format!("{word}{}", signed.unwrap_or_default()), data)
}
