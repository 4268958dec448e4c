//! Times as clients read them.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use serde::Serializer;

/// `2026-11-21T20:19:02.440304+00:00`.
pub(crate) fn iso(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).format("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Serializes a time with [`iso`].
pub(crate) fn as_iso<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&iso(*time))
}

/// The same for one that may be missing.
pub(crate) fn maybe_iso<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_iso(time, serializer),
        None => serializer.serialize_none(),
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A time that a client wrote.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    DateTime::parse_from_rfc3339(text).ok().map(SystemTime::from)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_have_microseconds_and_an_offset() {
        let time = UNIX_EPOCH + Duration::from_micros(1_795_292_342_440_304);
        assert_eq!(iso(time), "2026-11-21T20:19:02.440304+00:00");
        assert_eq!(parse(&iso(time)), Some(time));
    }
}
