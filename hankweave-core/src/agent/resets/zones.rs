//! Time zones as people write them.

use jiff::tz::{Offset, TimeZone};

use super::ZoneData;

/// Abbreviations with their offset from UTC in minutes. An abbreviation of several zones means the one that agents print.
const OFFSETS: [(&str, i32); 40] = [
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("TRT", 180),
    ("GST", 240),
    ("PKT", 300),
    ("IST", 330),
    ("ICT", 420),
    ("WIB", 420),
    ("SGT", 480),
    ("HKT", 480),
    ("PHT", 480),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("BRT", -180),
    ("ART", -180),
    ("EST", -300),
    ("EDT", -240),
    ("CST", -360),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
    ("HST", -600),
];

/// Abbreviations of zones whose offset changes with daylight saving time, with the full names.
const NAMES: [(&str, &str); 6] = [
    ("PT", "America/Los_Angeles"),
    ("MT", "America/Denver"),
    ("CT", "America/Chicago"),
    ("ET", "America/New_York"),
    ("AKT", "America/Anchorage"),
    ("UK", "Europe/London"),
];

/// Returns the zone of a text such as `UTC+9`, `PST`, `Europe/Berlin`, `America/New York` or `Pacific Time`.
pub(super) fn named_zone(text: &str, data: ZoneData<'_>) -> Option<TimeZone> {
    let name = text.trim();
    let short = name.to_ascii_uppercase();
    if let Some(minutes) = abbreviated(&short).or_else(|| offset(&short)) {
        return Some(TimeZone::fixed(Offset::from_seconds(minutes * 60).ok()?));
    }
    let long = long_name(&short).unwrap_or(&short);
    let known = NAMES.iter().find(|(abbreviation, _)| *abbreviation == long);
    let name = known.map_or_else(|| name.replace(' ', "_"), |(_, name)| (*name).to_owned());
    TimeZone::tzif(&name, &data(Some(&name))?).ok()
}

/// Returns the zone of this machine; UTC where it is not configured.
pub(super) fn zone_of_machine(data: ZoneData<'_>) -> TimeZone {
    let Some(bytes) = data(None) else {
        return TimeZone::UTC;
    };
    let posix = || TimeZone::posix(str::from_utf8(&bytes).ok()?.trim()).ok();
    let zone = TimeZone::tzif("local", &bytes).ok();
    zone.or_else(posix).unwrap_or(TimeZone::UTC)
}

/// Returns whether a word after a time, without parentheses, looks like a zone. An abbreviation has to be in upper case: `et` and `ist` are also words of
/// some languages.
pub(super) fn is_zone(word: &str) -> bool {
    let has_letters = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
    let is_long = || long_name(&word.to_ascii_uppercase()).is_some() && has_letters(word);
    let is_name = word.contains('/') && word.split('/').all(has_letters);
    let is_upper = !word.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_short = || abbreviated(word).is_some() || NAMES.iter().any(|(short, _)| *short == word);
    is_name || is_long() || is_upper && (is_short() || offset(word).is_some())
}

fn abbreviated(short: &str) -> Option<i32> {
    let found = OFFSETS.iter().find(|(abbreviation, _)| *abbreviation == short);
    found.map(|(_, minutes)| *minutes)
}

fn long_name(name: &str) -> Option<&'static str> {
    const LONG: [(&str, &str); 4] = [
        ("PACIFIC", "PT"),
        ("MOUNTAIN", "MT"),
        ("CENTRAL", "CT"),
        ("EASTERN", "ET"),
    ];
    let begin = name.strip_suffix(" TIME").unwrap_or(name);
    LONG.iter()
        .find(|(long, _)| *long == begin)
        .map(|(_, short)| *short)
}

/// Reads an offset such as `UTC+9`, `GMT-3`, `+09:00` or `-0330`, in minutes.
fn offset(short: &str) -> Option<i32> {
    let of_utc = ["UTC", "GMT"].iter().find_map(|name| short.strip_prefix(name));
    let signed = of_utc.unwrap_or(short).trim_start();
    let (sign, digits) = match (signed.strip_prefix('+'), signed.strip_prefix(['-', '\u{2212}'])) {
        (Some(digits), _) => (1, digits),
        (None, Some(digits)) => (-1, digits),
        (None, None) => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 14 && minutes < 60).then(|| sign * (i32::from(hours) * 60 + i32::from(minutes)))
}
