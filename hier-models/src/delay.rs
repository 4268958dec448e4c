//! Parses the delay before the next attempt that the headers of a response ask for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::HeaderMap;

/// Suffixes of the `x-ratelimit-reset-*` headers. The empty suffix is the overall limit.
const LIMITS: [&str; 4] = ["-requests", "-tokens", "-input-tokens", ""];
/// Numbers from this one on are Unix times in seconds, and from `EPOCH_MILLIS` on in milliseconds.
const EPOCH_SECONDS: f64 = 1e9;
const EPOCH_MILLIS: f64 = 1e12;

/// Returns the requested delay: `retry-after-ms`, `retry-after` (seconds or a date), or the reset of an exhausted
/// limit.
pub(crate) fn requested_delay(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let millis = || seconds(text("retry-after-ms")?.parse::<f64>().ok()? / 1_000.0);
    let after = || {
        let value = text("retry-after")?;
        let date = || httpdate::parse_http_date(value).ok().map(|then| until(then, now));
        value.parse().ok().and_then(seconds).or_else(date)
    };
    let reset = |limit: &str| {
        let remaining = text(&format!("x-ratelimit-remaining{limit}")).and_then(|left| left.parse::<f64>().ok());
        let reset = text(&format!("x-ratelimit-reset{limit}"))?;
        if remaining.is_some_and(|left| left > 0.0) { None } else { parse_reset(reset, now) }
    };
    millis().or_else(after).or_else(|| LIMITS.iter().filter_map(|limit| reset(limit)).max())
}

/// Parses a delay (`7.66`, `6m0s`, `120ms`) or a Unix time.
fn parse_reset(text: &str, now: SystemTime) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(at) if at >= EPOCH_SECONDS => {
            let at = if at >= EPOCH_MILLIS { at / 1_000.0 } else { at };
            Some(until(UNIX_EPOCH.checked_add(seconds(at)?)?, now))
        }
        Ok(delay) => seconds(delay),
        Err(_) => parse_units(text),
    }
}

/// Parses a delay with units: `1d2h6m0.5s`, `120ms`.
fn parse_units(text: &str) -> Option<Duration> {
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, behind) = rest.split_at(end);
        let end = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let factor = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * factor;
        rest = behind;
    }
    seconds(sum).filter(|_| !text.is_empty())
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

fn until(then: SystemTime, now: SystemTime) -> Duration {
    then.duration_since(now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    /// Headers, and the expected delay in seconds.
    type DelayCase<'a> = (&'a [(&'a str, &'a str)], Option<f64>);

    #[test]
    fn delay_headers_are_parsed() {
        let now = UNIX_EPOCH + Duration::from_hours(500_000);
        let cases: &[DelayCase<'_>] = &[
            (&[("retry-after", "7")], Some(7.0)),
            (&[("retry-after", " 0.5 ")], Some(0.5)),
            (&[("retry-after", "Fri, 15 Jan 2027 08:00:05 GMT")], Some(5.0)),
            (&[("retry-after", "Fri, 15 Jan 2027 07:00:00 GMT")], Some(0.0)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-1")], None),
            (&[("retry-after-ms", "250"), ("retry-after", "7")], Some(0.25)),
            (&[("x-ratelimit-reset-requests", "6m0.5s")], Some(360.5)),
            (&[("x-ratelimit-reset-tokens", "120ms"), ("x-ratelimit-reset-requests", "1s")], Some(1.0)),
            (
                &[
                    ("x-ratelimit-remaining-requests", "9"),
                    ("x-ratelimit-reset-requests", "1h"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "2s"),
                ],
                Some(2.0),
            ),
            (&[("x-ratelimit-reset", "1800000003")], Some(3.0)),
            (&[("x-ratelimit-reset", "1800000004000")], Some(4.0)),
            (&[("x-ratelimit-reset", "9")], Some(9.0)),
            (&[("x-ratelimit-reset", "1x")], None),
            (&[("x-ratelimit-reset", "1e300")], None),
            (&[], None),
        ];
        for (headers, expected) in cases {
            let pair = |(name, value): &(&str, &str)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
            };
            let map: HeaderMap = headers.iter().map(pair).collect();
            assert_eq!(requested_delay(&map, now).map(|delay| delay.as_secs_f64()), *expected, "{headers:?}");
        }
    }
}
