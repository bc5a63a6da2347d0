//! Clock times in the words of a provider, with the day and the zone next to them.
//!
//! The text is split into words, which are read in order: a day, a time, a day after the time, and a zone. Each is optional, except that there must be
//! a day or a time.

use std::iter::Peekable;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;

use super::zones::{is_zone, named_zone, zone_of_machine};
use super::{MIN_SECONDS, ZoneData, leading_number, moment};
use crate::time::Timestamp;

/// Number of words that are read; a day, a time and a zone have fewer.
const MOST_WORDS: usize = 24;

/// Number of characters that are read.
const LONGEST: usize = 160;

/// Returns the moment at the end of a clock time at the start of `text`, such as `Nov 26, 2:44pm (Europe/Berlin)`, `at 4pm`, `tomorrow at 9:30 UTC+2`,
/// `2026-08-27 12:05:49` or `1795449600`. `data` finds time zones.
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
    // A day without a time means midnight.
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

/// Skips words between a day and a time.
fn skip<'w>(words: &mut Peekable<impl Iterator<Item = &'w str> + Clone>) {
    while words
        .next_if(|word| matches!(*word, "at" | "on" | "the" | "@"))
        .is_some()
    {}
}

/// Returns the words at the beginning of a text. Parentheses are words of their own.
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

/// Removes punctuation at the end of a word; `p.m.` becomes `pm`.
fn tidy(word: &str) -> String {
    let word = word.trim_end_matches(['.', ':', '!', '?']);
    match word.to_ascii_lowercase() {
        lower if lower.ends_with("a.m") || lower.ends_with("p.m") => lower.replace('.', ""),
        _ => word.to_owned(),
    }
}

/// Reads a word that needs no zone: ISO 8601 with an offset, or a number of seconds since 1970.
fn absolute(word: &str) -> Option<Timestamp> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        return moment(leading_number(word).filter(|number| *number > MIN_SECONDS)?);
    }
    let moment: jiff::Timestamp = word.to_ascii_uppercase().parse().ok()?;
    Some(Timestamp::from_millis(moment.as_millisecond()))
}

/// The day of a time.
#[derive(Debug, Clone, Copy)]
enum Day {
    /// A date. Without a year it is in this year, unless that is more than half a year away: in December, January is in the next year, and in January,
    /// December is in the last one.
    On {
        year: Option<i16>,
        month: i8,
        day: i8,
    },
    Weekday(Weekday),
    Tomorrow,
    Today,
    /// No day is named: today, or tomorrow if the time passed an hour ago or more.
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
            // A longer word also has the time, so it is left for the clock.
            if word.len() == "2026-08-27".len() {
                words.next();
            }
            return Some(Self::On {
                year: Some(date.year()),
                month: date.month(),
                day: date.day(),
            });
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
        let year = year.and_then(|year| year.parse().ok());
        Some(Self::On { year, month, day })
    }

    /// Returns the moment of `time` on this day.
    fn resolve(self, time: Time, zone: &TimeZone, now: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let today = zone.to_datetime(now).date();
        let at = |date: Date| timestamp_in(zone, date.to_datetime(time));
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
            Self::On { year, month, day } => {
                let in_year = |year: i16| at(Date::new(year, month, day).ok()?);
                let named = in_year(year.unwrap_or(today.year()))?;
                match now.duration_since(named).as_secs() {
                    ago if year.is_none() && ago > HALF_A_YEAR => in_year(today.year() + 1),
                    ago if year.is_none() && ago < -HALF_A_YEAR => in_year(today.year() - 1),
                    _ => Some(named),
                }
            }
        }
    }
}

/// In seconds.
const HALF_A_YEAR: i64 = 180 * 24 * 60 * 60;

fn timestamp_in(zone: &TimeZone, datetime: DateTime) -> Option<jiff::Timestamp> {
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
    let index = MONTHS
        .iter()
        .position(|month| word.len() >= 3 && month.starts_with(word))?;
    i8::try_from(index + 1).ok()
}

/// Reads `26` or `26th`.
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
    /// Length of the named time in milliseconds: a second for a time such as `14:30:05`, else a minute.
    precision: i64,
}

impl Clock {
    const MIDNIGHT: Self = Self {
        time: Time::midnight(),
        precision: MINUTE,
    };

    /// Reads a time of day; `words` stays where it is if there is none.
    fn read<'w>(words: &mut Peekable<impl Iterator<Item = &'w str> + Clone>) -> Option<Self> {
        let mut ahead = words.clone();
        let clock = Self::consume(&mut ahead)?;
        *words = ahead;
        Some(clock)
    }

    /// Reads a time of day; consumes words even if they name no time.
    fn consume<'w>(words: &mut Peekable<impl Iterator<Item = &'w str> + Clone>) -> Option<Self> {
        let word = words.next()?.to_ascii_lowercase();
        let named = match &*word {
            "noon" => Time::new(12, 0, 0, 0).ok().map(|noon| (noon, MINUTE)),
            "midnight" => Some((Time::midnight(), MINUTE)),
            // A date and a time in one word, such as `2026-08-27T12:05`.
            _ => word.split_once('t').and_then(|(_, clock)| {
                let moment: DateTime = word.to_ascii_uppercase().parse().ok()?;
                let has_seconds = clock.split(['+', '-']).next()?.matches(':').count() > 1;
                Some((moment.time(), if has_seconds { SECOND } else { MINUTE }))
            }),
        };
        if let Some((time, precision)) = named {
            return Some(Self { time, precision });
        }
        let (clock, half) = match ["am", "pm"].iter().find(|half| word.ends_with(**half)) {
            Some(half) => (word.strip_suffix(half)?.to_owned(), Some(*half)),
            None => (word.clone(), None),
        };
        let next_word =
            words.next_if(|word| matches!(&*word.to_ascii_lowercase(), "am" | "pm") && half.is_none());
        let half = half.map(str::to_owned).or(next_word.map(str::to_ascii_lowercase));
        Self::of(&clock, half.map(|half| half == "pm"))
    }

    /// Reads `4`, `3:01`, `14:30` or `14:30:05`. `afternoon` says whether `pm` or `am` follows; with `None` it is a time on the twenty-four hour clock.
    fn of(clock: &str, afternoon: Option<bool>) -> Option<Self> {
        let mut parts = clock.split(':').map(|part| part.parse::<i8>().ok());
        let hour = parts.next()??;
        let (minute, second) = (parts.next(), parts.next());
        // A number without `am` or `pm` is no time, nor are more than three numbers.
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
        // A number in the parentheses means that they name no zone.
        let has_number = inside
            .iter()
            .any(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        return match has_number {
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
