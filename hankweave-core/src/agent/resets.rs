//! End of a provider's usage limit, read from its words (AGENT-12).

mod clock;
mod zones;

use super::classify::wait;
use crate::time::Timestamp;

use self::clock::clock_time;

/// Returns the data of a time zone in the format TZif, by its name, such as `Europe/Berlin`. Without a name it returns the zone of the machine, which
/// may be a POSIX string instead.
pub type ZoneData<'a> = &'a dyn Fn(Option<&str>) -> Option<Vec<u8>>;

/// Returns the moment at which the usage limit in `text` ends, as read at `now`; `None` if the text names none.
///
/// It reads durations (`try again in 2 hours 5 minutes`, `reset after 18h20m`), clock times on the twelve and the twenty-four hour clock with or
/// without a day (`resets 4pm (UTC)`, `reset at 7pm (Asia/Tokyo)`, `at Nov 26th, 2026 3:05 PM`, `tomorrow at 9:30`, `Thu 10:00 AM`), ISO 8601, and
/// seconds since 1970 (`limit reached|1795449600`). Zones are names, abbreviations or offsets; the default is the zone of the machine.
///
/// A clock time means a whole minute, so the limit ends at the end of that minute. A clock time without a date is the next one, or one that passed less
/// than an hour ago: a limit that ended just before its words are read must not last another day.
#[must_use]
pub fn limit_ends_at(text: &str, now: Timestamp, zone: ZoneData<'_>) -> Option<Timestamp> {
    let lower_case = text.to_ascii_lowercase();
    let is_about_a_limit = SUBJECT_WORDS.iter().any(|word| lower_case.contains(word));
    if !is_about_a_limit {
        return None;
    }
    if let Some(end) = FIELDS.iter().find_map(|field| field.read(&lower_case, now)) {
        return Some(end);
    }
    let is_about_plan = PLAN_WORDS.iter().any(|word| lower_case.contains(word));
    for phrase in &LIMIT_WORDS {
        for (at, words) in lower_case.match_indices(phrase.words) {
            // Positions are equal in both texts, since only ASCII letters were changed.
            let rest = &text[at + words.len()..];
            let rest = rest.strip_prefix(['s', 'S']).unwrap_or(rest);
            // `try again in 20s` alone is about single requests, not about a plan's limit.
            if (phrase.is_about_limit || is_about_plan)
                && let Some(end) = duration(rest, now)
            {
                return Some(end);
            }
            if let Some(end) = clock_time(rest, now, zone) {
                return Some(end);
            }
        }
    }
    None
}

/// A text without any of these words is about no limit.
const SUBJECT_WORDS: [&str; 4] = ["limit", "quota", "exhausted", "credits"];

/// A text without any of these words may be about the rate of single requests; a retry waits for that, not this module.
const PLAN_WORDS: [&str; 3] = ["usage limit", "quota", "session limit"];

/// Words in front of the time at which a limit ends.
struct LimitWords {
    words: &'static str,
    /// Whether the words mean the end of a plan's limit in every text.
    is_about_limit: bool,
}

/// The order matters: the clearest wording comes first.
const LIMIT_WORDS: [LimitWords; 5] = [
    LimitWords {
        words: "reset",
        is_about_limit: true,
    },
    LimitWords {
        words: "try again",
        is_about_limit: false,
    },
    LimitWords {
        words: "available again",
        is_about_limit: true,
    },
    LimitWords {
        words: "retry",
        is_about_limit: false,
    },
    LimitWords {
        words: "until",
        is_about_limit: false,
    },
];

/// Name of a number that is meant for programs.
struct NumberField {
    /// Text in front of the number, in lower case.
    name: &'static str,
    /// Whether the number counts seconds from now on; otherwise from 1970 on.
    is_from_now: bool,
}

const FIELDS: [NumberField; 5] = [
    NumberField {
        name: "limit reached|",
        is_from_now: false,
    },
    NumberField {
        name: "resets_in_seconds",
        is_from_now: true,
    },
    NumberField {
        name: "resets_at",
        is_from_now: false,
    },
    NumberField {
        name: "resetsat",
        is_from_now: false,
    },
    NumberField {
        name: "x-ratelimit-reset",
        is_from_now: false,
    },
];

impl NumberField {
    fn read(&self, lower_case: &str, now: Timestamp) -> Option<Timestamp> {
        let (_, rest) = lower_case.split_once(self.name)?;
        let number = leading_number(rest.trim_start_matches(['"', '\'', '\\', ':', '=', ' ']))?;
        match self.is_from_now {
            true => Some(now.after(std::time::Duration::from_secs(u64::try_from(number).ok()?))),
            // A small number is no time since 1970: it may be a date, or seconds from now on.
            false => moment(Some(number).filter(|number| *number > MIN_SECONDS)?),
        }
    }
}

/// Numbers up to this may be dates or durations; a larger one is a time since 1970, in seconds. This one is September 2001.
const MIN_SECONDS: i64 = 1_000_000_000;

/// Reads a duration such as `in 2 days 3 hours` or ` after 18h20m10s`, and returns the moment at its end.
fn duration(rest: &str, now: Timestamp) -> Option<Timestamp> {
    let lower_case = rest.trim_start_matches([' ', ':']).to_ascii_lowercase();
    let span = ["in ", "after "]
        .iter()
        .find_map(|word| lower_case.strip_prefix(word))?;
    let about = ["about ", "approximately ", "around ", "~"];
    let span = about
        .iter()
        .find_map(|word| span.strip_prefix(word))
        .unwrap_or(span);
    Some(now.after(wait(span, 1_000)?))
}

/// Returns the moment that is `number` seconds, or milliseconds if that is a very large number, after the start of 1970.
pub fn moment(number: i64) -> Option<Timestamp> {
    /// Numbers from here on are milliseconds.
    const MIN_MILLIS: i64 = 100_000_000_000;
    match number {
        ..=0 => None,
        1..MIN_MILLIS => Some(Timestamp::from_millis(number * 1_000)),
        millis => Some(Timestamp::from_millis(millis)),
    }
}

fn leading_number(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest file of a zone that knows one offset, here UTC+1 throughout ("TZif", RFC 9636): the old part is empty, the footer says it.
    fn zone(name: Option<&str>) -> Option<Vec<u8>> {
        let footer = match name {
            Some("Europe/Berlin") => "\nCET-1\n",
            Some("America/New_York") => "\nEST5EDT,M3.2.0,M11.1.0\n",
            Some("America/Los_Angeles") => "\nPST8PDT,M3.2.0,M11.1.0\n",
            Some("Asia/Tokyo") => "\nJST-9\n",
            Some("Etc/GMT+5") => "\n<-05>5\n",
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

    /// Texts of agents and providers, as their users report them, on Monday, November 23, 2026; the machine is at UTC+2.
    const WORDINGS: &[(&str, &str)] = &[
        (
            "Claude usage limit reached. Your limit will reset at 7pm (Asia/Tokyo).",
            "2026-11-24T10:01:00Z",
        ),
        (
            "Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).",
            "2026-11-23T18:01:00Z",
        ),
        (
            "You've hit your session limit \u{b7} resets 8:30pm (Asia/Tokyo)",
            "2026-11-24T11:31:00Z",
        ),
        (
            "Weekly limit reached \u{b7} resets 10am (America/Los_Angeles) \u{b7} /upgrade to Max or turn on /extra-usage",
            "2026-11-23T18:01:00Z",
        ),
        (
            "5-hour limit reached \u{2219} resets 7pm (Europe/Berlin)",
            "2026-11-23T18:01:00Z",
        ),
        (
            "Opus weekly limit reached \u{2219} resets Dec 6, 1pm",
            "2026-12-06T11:01:00Z",
        ),
        (
            "You've reached your limit. Resets Thu 10:00 AM",
            "2026-11-26T08:01:00Z",
        ),
        (
            "Usage limit reached, resets 5pm (status 429)",
            "2026-11-23T15:01:00Z",
        ),
        (
            "API Error: usage limit reached, resets at 4 p.m. (America/New York)",
            "2026-11-23T21:01:00Z",
        ),
        ("limit resets 15:45 (Europe/Berlin)", "2026-11-23T14:46:00Z"),
        (
            "You've hit your usage limit. Upgrade to Pro or try again at Nov 30th, 2026 10:05 AM.",
            "2026-11-30T08:06:00Z",
        ),
        (
            "You've hit your usage limit. Try again at Dec 20, 2026, 7:38\u{202f}AM.",
            "2026-12-20T05:39:00Z",
        ),
        (
            "You've hit your usage limit. Upgrade, or try again at 10 de dec. de 2026, 11:52.",
            "2026-12-10T09:53:00Z",
        ),
        (
            "You've hit your usage limit. Try again in 5 days 22 hours 11\nminutes.",
            "2026-11-29T11:42:03Z",
        ),
        (
            "You've hit your usage limit or try again in 2 days, 3 hours and 5 minutes.",
            "2026-11-25T16:36:03Z",
        ),
        (
            r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_at":1795449600}}"#,
            "2026-11-23T16:00:00Z",
        ),
        (
            r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":3600}}"#,
            "2026-11-23T14:31:03Z",
        ),
        (
            "Usage limit reached for gemini-3-flash. Access resets at 10:57\u{202f}PM GMT-3.",
            "2026-11-24T01:58:00Z",
        ),
        (
            "You have exhausted your capacity on this model. Your quota will reset after 18h20m10s.",
            "2026-11-24T07:51:13Z",
        ),
        (
            "You exceeded your current quota. Please retry in 33.4s.",
            "2026-11-23T13:31:36.400Z",
        ),
        (
            "quota: Usage limit reached for 5 hour. Your limit will reset at 2026-11-23 18:55:29",
            "2026-11-23T16:55:30Z",
        ),
        (
            "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-11-27T12:05:49",
            "2026-11-27T10:05:50Z",
        ),
        (
            "limit reached, it resets at 2026-11-27T12:05",
            "2026-11-27T10:06:00Z",
        ),
        (
            "limit reached, \"resetAt\": \"x\", it resets at 2026-11-24T09:30:00+02:00",
            "2026-11-24T07:30:00Z",
        ),
        (
            "You've reached your Kiro usage limit. Credits reset on 2026-12-01.",
            "2026-11-30T22:01:00Z",
        ),
        (
            "Daily analysis limit reached. Your limit will reset at Nov 24, 11:59 PM PT.",
            "2026-11-25T08:00:00Z",
        ),
        (
            "Daily limit reached! Your limit will reset at 12:00 AM IST",
            "2026-11-23T18:31:00Z",
        ),
        (
            "limit reached, try again tomorrow at 9:30 UTC+9",
            "2026-11-24T00:31:00Z",
        ),
        (
            "limit reached, available again at 9am tomorrow",
            "2026-11-24T07:01:00Z",
        ),
        (
            "limit reached, resets Tuesday at noon PST",
            "2026-11-24T20:01:00Z",
        ),
        (
            "limit reached, resets Wednesday, November 25, 6:00 PM (UTC +1)",
            "2026-11-25T17:01:00Z",
        ),
        ("limit reached, resets at midnight EST", "2026-11-24T05:01:00Z"),
        (
            "Rate limit exceeded: free-models-per-day, {\"X-RateLimit-Reset\":\"1795478400000\"}",
            "2026-11-24T00:00:00Z",
        ),
        ("limit reached, resets at 1795449600", "2026-11-23T16:00:00Z"),
        ("limit reached, resets in about 2h", "2026-11-23T15:31:03Z"),
        (
            "limit reached, resets 6:00 PM Pacific time",
            "2026-11-24T02:01:00Z",
        ),
        ("limit reached, resets at 18:00 -0330", "2026-11-23T21:31:00Z"),
    ];

    // covers: AGENT-12, F10
    #[test]
    fn all_wordings_of_agents_and_providers_are_read() {
        let now = Timestamp::parse("2026-11-23T13:31:03Z").unwrap();
        let found = WORDINGS.iter().map(|(text, _)| limit_ends_at(text, now, &zone));
        let wrong: Vec<_> = WORDINGS
            .iter()
            .zip(found)
            .filter(|((_, ends), found)| *found != Some(Timestamp::parse(ends).unwrap()))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// A container may know neither zones nor its own.
    // covers: AGENT-12
    #[test]
    fn a_machine_without_zones_is_at_utc_and_may_say_its_zone_in_words() {
        let now = Timestamp::parse("2026-11-23T13:31:03Z").unwrap();
        let text = "usage limit reached, resets 7pm";
        let ends = |zone: ZoneData<'_>| limit_ends_at(text, now, zone).map(|ends| ends.to_string());
        assert_eq!(ends(&|_| None).unwrap(), "2026-11-23T19:01:00.000Z");
        assert_eq!(
            ends(&|_| Some(b"JST-9".to_vec())).unwrap(),
            "2026-11-24T10:01:00.000Z"
        );
        assert_eq!(
            ends(&|_| Some(b"\xff nonsense".to_vec())).unwrap(),
            "2026-11-23T19:01:00.000Z"
        );
    }

    #[test]
    fn a_time_without_a_date_is_the_next_one_or_has_just_been() {
        let limit = "limit · resets 12:30am (UTC)";
        check(limit, "2026-11-23T23:00:00Z", Some("2026-11-24T00:31:00Z"));
        check(limit, "2026-11-24T00:30:50Z", Some("2026-11-24T00:31:00Z"));
        check(limit, "2026-11-24T01:20:00Z", Some("2026-11-24T00:31:00Z"));
        check(limit, "2026-11-24T01:31:00Z", Some("2026-11-25T00:31:00Z"));
    }

    // covers: AGENT-12
    #[test]
    fn in_december_one_reads_of_january_and_in_january_of_december() {
        let just_over = "limit · resets Dec 31, 11:59pm (UTC)";
        check(just_over, "2027-01-01T00:10:00Z", Some("2027-01-01T00:00:00Z"));
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
