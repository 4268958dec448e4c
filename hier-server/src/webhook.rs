//! Addresses that are told of the end of a run: checked when they are given.

use std::net::IpAddr;

use axum::http::Uri;

/// Refuses what is no address on the open internet. Names are resolved, and what they stand for checked, when they are told.
pub(crate) fn check(address: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("`webhook`: {why}"));
    let Ok(uri) = address.parse::<Uri>() else { return wrong("it is no address") };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return wrong("it has to begin with https:// or http://");
    }
    let Some(authority) = uri.authority() else { return wrong("it names no host") };
    if authority.as_str().contains('@') {
        return wrong("it has a user or a password in it, which would be stored and logged");
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    if name == "localhost" || name.ends_with(".localhost") {
        return wrong("Webhook host blocked: it is this machine");
    }
    match host.parse::<IpAddr>() {
        Ok(ip) if !is_public(ip) => wrong("Webhook host blocked: blocked IP range"),
        _ => Ok(()),
    }
}

/// Whether an address is one of the open internet.
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            let shared = a == 100 && (64..128).contains(&b);
            let reserved = a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0) || (a == 198 && (b == 18 || b == 19));
            !(ip.is_loopback()
                || ip.is_private()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_documentation()
                || ip.is_broadcast()
                || shared
                || reserved)
        }
        IpAddr::V6(ip) => {
            if let Some(inner) = ip.to_ipv4_mapped() {
                return is_public(IpAddr::V4(inner));
            }
            let first = ip.segments()[0];
            // Global unicast, but for those that carry an IPv4 address or are for documentation.
            (first & 0xe000) == 0x2000
                && first != 0x2002
                && !(first == 0x2001 && matches!(ip.segments()[1], 0 | 0x0db8))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_inside_are_refused() {
        for inside in [
            "http://127.0.0.1/x",
            "http://localhost:80/x",
            "https://a.localhost/",
            "http://10.0.0.1/",
            "http://169.254.169.254/latest",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[fd00::1]/",
            "http://0.0.0.0/",
            "ftp://example.org/",
            "/relative",
            "https://user:secret@example.org/",
        ] {
            assert!(check(inside).is_err(), "{inside}");
        }
        for outside in ["https://example.org/hook", "http://93.184.216.34/x", "https://[2606:2800:220:1::1]/"] {
            assert_eq!(check(outside), Ok(()), "{outside}");
        }
    }
}
