//! Times as clients read them.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};

/// `2026-11-21T20:19:02.440304+00:00`.
pub(crate) fn iso(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).format("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_have_microseconds_and_an_offset() {
        let time = UNIX_EPOCH + Duration::from_micros(1_795_292_342_440_304);
        assert_eq!(iso(time), "2026-11-21T20:19:02.440304+00:00");
    }
}
