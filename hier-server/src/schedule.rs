//! Computes when a cron is due, from a cron expression in a time zone.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Utc};
use chrono_tz::Tz;
use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};

/// Number of days in which every schedule is due that is ever due. The rarest date is a 29th of February on a certain day
/// of the week, which occurs at least once in 40 years.
const SEARCHED_DAYS: usize = 41 * 366;

#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    cron: Cron,
    zone: Tz,
}

impl Schedule {
    /// Parses a schedule of five fields (minute, hour, day of the month, month, day of the week) or a name such as
    /// `@hourly` or `@daily`. `zone` is a name of the IANA database and defaults to UTC.
    pub(crate) fn parse(schedule: &str, zone: Option<&str>) -> Result<Self, String> {
        let zone = match zone {
            None => Tz::UTC,
            Some(name) => Tz::from_str(name).map_err(|_| {
                format!("`timezone`: `{name}` is not in the IANA database: use a name like `Europe/Berlin`")
            })?,
        };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(schedule).ok().filter(|_| !has_empty_entry(schedule)).ok_or_else(|| {
            format!(
                "Invalid cron schedule: '{schedule}'. Reason: Invalid cron schedule. Ensure the schedule uses the standard cron \
                 format (minute hour day_of_month month day_of_week). Example: '*/5 * * * *' for every 5 minutes."
            )
        })?;
        Ok(Self { cron, zone })
    }

    /// Returns the next due time after this time, or `None` for a schedule such as the 30th of February. If the clocks
    /// skip the due time, the end of the gap replaces it. If the due time occurs twice, a schedule with a fixed hour
    /// counts it once.
    pub(crate) fn next(&self, after: SystemTime) -> Option<SystemTime> {
        let after = DateTime::<Utc>::from(after).with_timezone(&self.zone);
        let next = self.has_date(after.date_naive()).then(|| self.cron.find_next_occurrence(&after, false))?.ok()?;
        Some(next.with_timezone(&Utc).into())
    }

    /// Returns true if a date of the schedule is this date or follows it. Without this check, a search for the 30th of
    /// February tries the dates of 3,000 years.
    fn has_date(&self, from: NaiveDate) -> bool {
        from.iter_days().take(SEARCHED_DAYS).any(|date| {
            let (pattern, weekday) = (&self.cron.pattern, date.weekday().num_days_from_sunday());
            pattern.month_match(date.month()).unwrap_or(false)
                && pattern
                    .day_match(date.year(), date.month(), date.day(), Weekday::from_days_from_sunday(weekday))
                    .unwrap_or(false)
        })
    }
}

/// Returns true if a list of a schedule has an empty entry, as in `1,,2` or `,`. The parser accepts such lists. A search
/// for a time of the list `,` takes many seconds, because the list contains no time.
fn has_empty_entry(schedule: &str) -> bool {
    schedule.split_whitespace().flat_map(|field| field.split(',')).any(str::is_empty)
}

/// Parses a time from a client. A time without an offset is in UTC. Returns `None` for a time before 1970, because it
/// cannot be stored.
pub(crate) fn time(text: &str) -> Option<SystemTime> {
    let with_offset = DateTime::parse_from_rfc3339(text).ok().map(|time| time.with_timezone(&Utc));
    let naive = || NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok().map(|time| time.and_utc());
    with_offset.or_else(naive).map(SystemTime::from).filter(|time| *time >= UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::iso;

    fn after(schedule: &str, zone: Option<&str>, from: &str) -> Option<String> {
        let schedule = Schedule::parse(schedule, zone).expect("a schedule");
        schedule.next(time(from).expect("a time")).map(|next| iso(next)[..16].to_owned())
    }

    #[test]
    fn next_time_is_in_the_zone_of_the_schedule() {
        let berlin = Some("Europe/Berlin");
        for (schedule, zone, from, next) in [
            ("0 0 1 1 *", None, "2026-11-21T20:20:02Z", "2027-01-01T00:00"),
            ("*/5 * * * *", None, "2026-11-21T20:20:00Z", "2026-11-21T20:25"),
            ("30 9 * * 1-5", berlin, "2026-11-20T12:00:00Z", "2026-11-23T08:30"),
            ("30 9 * * *", berlin, "2026-07-01T12:00:00Z", "2026-07-02T07:30"),
            // The clocks go forward at 2:00 and skip 2:30. They go back at 3:00, so 2:30 occurs twice.
            ("30 2 * * *", berlin, "2026-03-28T12:00:00Z", "2026-03-29T01:00"),
            ("30 2 * * *", berlin, "2026-10-24T12:00:00Z", "2026-10-25T00:30"),
            ("30 2 * * *", berlin, "2026-10-25T00:30:00Z", "2026-10-26T01:30"),
        ] {
            assert_eq!(after(schedule, zone, from).as_deref(), Some(next), "{schedule} in {zone:?} after {from}");
        }
        // The 29th of February is a Monday in 2072, and then in 2112, because 2100 is not a leap year.
        assert_eq!(after("0 0 29 2 +1", None, "2072-03-01T00:00:00Z").as_deref(), Some("2112-02-29T00:00"));
    }

    /// Each request that creates or changes a cron searches for its next time. A search without a date is long.
    #[test]
    fn schedule_without_a_date_is_not_searched() {
        let from = NaiveDate::from_ymd_opt(2026, 1, 1).expect("a date");
        for (schedule, has_date) in
            [("0 0 30 2 *", false), ("0 0 31 2,4,6,9,11 *", false), ("0 0 16W * +0", false), ("0 0 29 2 +1", true)]
        {
            let parsed = Schedule::parse(schedule, Some("Europe/Berlin")).expect("a schedule");
            assert_eq!(parsed.has_date(from), has_date, "{schedule}");
        }
        assert_eq!(after("0 0 30 2 *", None, "2026-01-01T00:00:00Z"), None);
    }

    #[test]
    fn invalid_schedules_are_refused() {
        for schedule in
            ["zzz", "", "* * * *", "* * * * * *", "61 * * * *", "* * * * * * 2030", ", * * * *", "0 0 * * 1,"]
        {
            assert!(Schedule::parse(schedule, None).is_err(), "{schedule}");
        }
        let wrong = Schedule::parse("* * * * *", Some("Mars/Olympus")).unwrap_err();
        assert!(wrong.starts_with("`timezone`: `Mars/Olympus`"), "{wrong}");
        assert_eq!(time("2026-11-21T20:20:02"), time("2026-11-21T21:20:02+01:00"));
        for no_time in ["tomorrow", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z"] {
            assert_eq!(time(no_time), None, "{no_time}");
        }
    }
}
