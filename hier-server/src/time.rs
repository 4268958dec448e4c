//! Times in the form in which clients send and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};

use crate::error::{ApiError, ApiResult};

/// Maximum time to live, in minutes: a hundred years.
const LONGEST: f64 = 52_560_000.0;

/// Formats a time like `2026-11-21T20:19:02.440304+00:00`. A time that is too late for this form becomes the latest
/// possible one.
pub(crate) fn iso(time: SystemTime) -> String {
    let written = i64::try_from(micros(time)).ok().and_then(DateTime::<Utc>::from_timestamp_micros);
    written.unwrap_or(DateTime::<Utc>::MAX_UTC).format("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Parses a time to live, in minutes.
pub(crate) fn time_to_live(minutes: f64) -> ApiResult<Duration> {
    if (0.0..=LONGEST).contains(&minutes) {
        return Ok(Duration::from_secs_f64(minutes * 60.0));
    }
    Err(ApiError::invalid(format!("`ttl`: {minutes} is not between 0 and {LONGEST} minutes (a hundred years)")))
}

fn micros(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds_and_an_offset() {
        let time = UNIX_EPOCH + Duration::from_micros(1_795_292_342_440_304);
        assert_eq!(iso(time), "2026-11-21T20:19:02.440304+00:00");
    }

    #[test]
    fn every_time_can_be_written() {
        assert_eq!(iso(UNIX_EPOCH), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(iso(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000000+00:00");
        for seconds in [9e12, 9e15, 9e18] {
            let late = UNIX_EPOCH.checked_add(Duration::from_secs_f64(seconds)).expect("a time");
            assert_eq!(iso(late), "+262142-12-31T23:59:59.999999+00:00");
        }
    }
}
