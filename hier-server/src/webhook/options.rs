//! Which addresses may be told, and with what.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::address::is_public;

/// Which addresses may be told of the end of a run, and what they are sent beside it. Unless told otherwise only those on the open
/// internet: who may start runs could otherwise have the server call what only the server reaches.
///
/// ```
/// # use hier_server::{Server, Webhooks};
/// let webhooks = Webhooks::new().https_only().only_hosts(["hooks.example.org"]);
/// let server = Server::new().webhooks(webhooks);
/// # let _ = server;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Webhooks {
    pub(super) private: bool,
    pub(super) relative: bool,
    https: bool,
    hosts: Vec<String>,
    pub(super) headers: Vec<(String, String)>,
}

impl Webhooks {
    /// Addresses on the open internet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also this machine, private networks, link-local addresses and whatever else is not the open internet.
    #[must_use]
    pub fn allow_private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Also paths (`/hooks/end`): routes of this server, which it calls as anybody would, at the address that it listens on.
    #[must_use]
    pub fn allow_relative(mut self) -> Self {
        self.relative = true;
        self
    }

    /// Only `https://`.
    #[must_use]
    pub fn https_only(mut self) -> Self {
        self.https = true;
        self
    }

    /// Only these hosts. One that begins with a dot stands for all below it: `.example.org`.
    #[must_use]
    pub fn only_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts = hosts.into_iter().map(|host| host.into().to_ascii_lowercase()).collect();
        self
    }

    /// A header of each request, such as a secret by which receivers know the server. It goes to every address that a run names:
    /// use it with [`only_hosts`](Self::only_hosts).
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The headers; an error names the one that is none.
    pub(super) fn header_map(&self) -> Result<HeaderMap, String> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong =
                || format!("`{name}` is no header of webhooks: its name or its value has characters that none has");
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        Ok(map)
    }

    /// Refuses an address that may not be told. Names are resolved, and what they stand for checked, when they are told.
    pub(crate) fn check(&self, address: &str) -> Result<(), String> {
        let wrong = |why: &str| Err(format!("`webhook`: {why}"));
        if address.len() > 2_000 {
            return wrong("it is longer than 2,000 characters");
        }
        if address.starts_with('/') && !address.starts_with("//") {
            let path = address.parse::<Uri>().is_ok();
            return match (self.relative, path) {
                (true, true) => Ok(()),
                (true, false) => wrong("it is no path"),
                (false, _) => wrong(
                    "Loopback webhooks (relative URLs and localhost) are disabled by default: the server allows them with \
                     `.webhooks(Webhooks::new().allow_relative())`",
                ),
            };
        }
        // Who tells it reads the address by other rules, of ports for one.
        let (Ok(uri), Ok(_)) = (address.parse::<Uri>(), reqwest::Url::parse(address)) else {
            return wrong("it is no address");
        };
        match uri.scheme_str() {
            Some("http") if self.https => return wrong("it has to begin with https://"),
            Some("https" | "http") => {}
            _ => return wrong("it has to begin with https:// or http://"),
        }
        let Some(authority) = uri.authority() else { return wrong("it names no host") };
        if authority.as_str().contains('@') {
            return wrong("it has a user or a password in it, which would be stored and logged");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let listed = |known: &String| *known == name || (known.starts_with('.') && name.ends_with(known.as_str()));
        if !self.hosts.is_empty() && !self.hosts.iter().any(listed) {
            return wrong("Webhook host blocked: it is none of those that the server allows");
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
            // A number is read as an address by some that resolve names: 2130706433 is 127.0.0.1.
            Err(_) if name.rsplit('.').next().is_some_and(is_number) => wrong("Webhook host blocked: it is a number"),
            _ => Ok(()),
        }
    }
}

/// Whether the last label of a name makes it an address in a form of old.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || (!label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_inside_are_refused_unless_allowed() {
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
    fn paths_hosts_and_schemes_are_as_the_server_says() {
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
