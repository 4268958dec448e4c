//! Options of webhooks: the allowed URLs, and headers.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::address::is_public;

/// Options of webhooks. A webhook is a request that the server sends to a URL when a run ends.
///
/// By default, only URLs on the public internet are allowed, so that users who start runs cannot make the server call
/// internal addresses.
///
/// ```
/// # use hier_server::{Server, Webhooks};
/// let webhooks = Webhooks::new().https_only().only_hosts(["hooks.example.org"]);
/// let server = Server::new().webhooks(webhooks);
/// # let _ = server;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Webhooks {
    pub(super) private: bool,
    pub(super) relative: bool,
    https: bool,
    hosts: Vec<String>,
    pub(super) headers: Vec<(String, String)>,
}

impl Webhooks {
    /// Creates options that allow only URLs on the public internet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also allows URLs that are not on the public internet, such as those of this machine and of private networks.
    pub fn allow_private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Also allows paths such as `/hooks/end`, which name routes of the server itself. Only processes with a server that
    /// has this option send webhooks to paths, even if they run [without a worker](crate::Server::without_worker). If no
    /// such process sends a webhook for 32 hours, it is abandoned.
    pub fn allow_relative(mut self) -> Self {
        self.relative = true;
        self
    }

    pub(crate) const fn has_paths(&self) -> bool {
        self.relative
    }

    /// Allows only `https:` URLs.
    pub fn https_only(mut self) -> Self {
        self.https = true;
        self
    }

    /// Allows only these hosts. `.example.org` stands for all subdomains of `example.org`, but not for `example.org`.
    /// By default, all public hosts are allowed.
    pub fn only_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts = hosts.into_iter().map(|host| host.into().to_ascii_lowercase()).collect();
        self
    }

    /// Adds a header to each webhook, such as a secret by which receivers recognize the server. Every URL that a user
    /// chooses for a run receives the header, so also call [`only_hosts`](Self::only_hosts).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Returns the headers. The error names the invalid header.
    pub(super) fn header_map(&self) -> Result<HeaderMap, String> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = || {
                format!(
                    "invalid webhook header `{name}`: the name or value contains characters that HTTP headers do not allow"
                )
            };
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        Ok(map)
    }

    /// Refuses an address that is not allowed. The sender later resolves the host name, and checks its IP addresses.
    pub(crate) fn check(&self, address: &str) -> Result<(), String> {
        let wrong = |why: &str| Err(format!("`webhook`: {why}"));
        if address.len() > 2_000 {
            return wrong("it is longer than 2,000 characters");
        }
        if address.starts_with('/') && !address.starts_with("//") {
            let path = address.parse::<Uri>().is_ok();
            return match (self.relative, path) {
                (true, true) => Ok(()),
                (true, false) => wrong("the path is invalid"),
                (false, _) => wrong(
                    "Loopback webhooks (relative URLs and localhost) are disabled by default: the server allows them with \
                     `.webhooks(Webhooks::new().allow_relative())`",
                ),
            };
        }
        // The HTTP client parses addresses by other rules, for example for ports, so both parsers must accept the
        // address.
        let (Ok(uri), Ok(_)) = (address.parse::<Uri>(), reqwest::Url::parse(address)) else {
            return wrong("the address is invalid");
        };
        match uri.scheme_str() {
            Some("http") if self.https => return wrong("the address must begin with https://"),
            Some("https" | "http") => {}
            _ => return wrong("the address must begin with https:// or http://"),
        }
        let Some(authority) = uri.authority() else { return wrong("the address has no host") };
        if authority.as_str().contains('@') {
            return wrong("the address contains a user or a password, which would be stored and logged: use a header");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let listed = |known: &String| *known == name || (known.starts_with('.') && name.ends_with(known.as_str()));
        if !self.hosts.is_empty() && !self.hosts.iter().any(listed) {
            return wrong("Webhook host blocked: the server does not allow it");
        }
        if self.private {
            return Ok(());
        }
        if name == "localhost" || name.ends_with(".localhost") {
            return wrong("Webhook host blocked: loopback IP range");
        }
        match host.parse::<IpAddr>() {
            Ok(ip) if ip.is_loopback() => wrong("Webhook host blocked: loopback IP range"),
            Ok(ip) if !is_public(ip) => wrong("Webhook host blocked: blocked IP range"),
            // Some resolvers read a number as an address: 2130706433 is 127.0.0.1.
            Err(_) if name.rsplit('.').next().is_some_and(is_number) => {
                wrong("Webhook host blocked: the host is a number")
            }
            _ => Ok(()),
        }
    }
}

/// Returns true if a label is a number. Some resolvers read a host that ends with such a label as an IP address.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || (!label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_addresses_are_refused_unless_allowed() {
        for inside in [
            "http://127.0.0.1/x",
            "http://localhost:80/x",
            "https://a.localhost/",
            "http://localhost./",
            "http://10.0.0.1/",
            "http://169.254.169.254/latest",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[fd00::1]/",
            "http://0.0.0.0/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://127.1/",
        ] {
            assert!(Webhooks::new().check(inside).is_err(), "{inside}");
            assert_eq!(Webhooks::new().allow_private().check(inside), Ok(()), "{inside}");
        }
        for wrong in [
            "ftp://example.org/",
            "//example.org/x",
            "https://user:secret@example.org/",
            "https://example.org:99999/",
            "nowhere",
            "",
        ] {
            assert!(Webhooks::new().allow_private().allow_relative().check(wrong).is_err(), "{wrong}");
        }
        for outside in ["https://example.org/hook", "http://93.184.216.34/x", "https://[2606:2800:220:1::1]/"] {
            assert_eq!(Webhooks::new().check(outside), Ok(()), "{outside}");
        }
    }

    #[test]
    fn paths_hosts_and_schemes_follow_the_options() {
        assert!(Webhooks::new().check("/hook").unwrap_err().contains("Loopback webhooks"));
        assert_eq!(Webhooks::new().allow_relative().check("/hook"), Ok(()));
        assert!(Webhooks::new().https_only().check("http://example.org/").is_err());
        let some = Webhooks::new().only_hosts(["hooks.example.org", ".example.net"]);
        for (address, fine) in [
            ("https://hooks.example.org/x", true),
            ("https://a.example.net/x", true),
            ("https://example.org/x", false),
            ("https://badexample.net/x", false),
        ] {
            assert_eq!(some.check(address).is_ok(), fine, "{address}");
        }
        assert!(Webhooks::new().header("x y", "1").header_map().unwrap_err().contains("`x y`"));
    }
}
