//! Times as people in a time zone read them.

use jiff::tz::TimeZone;

use crate::time::Timestamp;

/// Time zone of a machine.
#[derive(Debug, Clone)]
pub struct LocalZone(TimeZone);

impl LocalZone {
    /// Returns the zone of a file of the system's time zones, or of the text of `TZ`; UTC where it is neither.
    #[must_use]
    pub fn of_data(data: Option<&[u8]>) -> Self {
        Self(data.and_then(read).unwrap_or(TimeZone::UTC))
    }

    /// Returns a time as `14:02`; on another day than `now` as `Nov 25 14:02`, in another year with that.
    #[must_use]
    pub fn display(&self, time: Timestamp, now: Timestamp) -> String {
        let local = |time: Timestamp| {
            let time = jiff::Timestamp::from_millisecond(time.as_millis()).ok()?;
            Some(self.0.to_datetime(time))
        };
        let (Some(time), Some(now)) = (local(time), local(now)) else {
            return time.to_string();
        };
        let form = match (time.year() == now.year(), time.date() == now.date()) {
            (true, true) => "%H:%M",
            (true, false) => "%b %d %H:%M",
            (false, _) => "%b %d %Y %H:%M",
        };
        time.strftime(form).to_string()
    }
}

pub(crate) fn read(data: &[u8]) -> Option<TimeZone> {
    let posix = || TimeZone::posix(str::from_utf8(data).ok()?.trim()).ok();
    TimeZone::tzif("local", data).ok().or_else(posix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_names_its_day_where_that_is_another() {
        let time = |text: &str| Timestamp::parse(text).unwrap();
        let now = time("2026-11-26T16:00:00.000Z");
        let japan = LocalZone::of_data(Some(b"JST-9"));
        let shown = |zone: &LocalZone, text: &str| zone.display(time(text), now);
        assert_eq!(shown(&japan, "2026-11-26T15:02:00.000Z"), "00:02");
        assert_eq!(shown(&japan, "2026-11-26T14:02:00.000Z"), "Nov 26 23:02");
        assert_eq!(shown(&japan, "2025-11-26T14:02:00.000Z"), "Nov 26 2025 23:02");
        assert_eq!(
            shown(&LocalZone::of_data(Some(b"no zone")), "2026-11-26T14:02:00.000Z"),
            "14:02"
        );
    }
}
