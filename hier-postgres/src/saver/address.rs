//! Parses database URLs, including the parameters for encryption.

use std::fmt;

use hier_checkpoint::checkpoint::SaverError;
use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, SslNegotiation};

pub(crate) struct DatabaseUrl {
    pub(crate) config: Config,
    /// The name of the database in errors. Does not contain the password.
    pub(crate) place: String,
    /// The root certificates that the program trusts. `None` if connections are not encrypted.
    pub(crate) roots: Option<Roots>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Roots {
    /// The root certificates of this machine.
    System,
    File(String),
}

impl fmt::Display for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("the root certificates of this machine"),
            Self::File(path) => write!(f, "the root certificates in `{path}`"),
        }
    }
}

impl DatabaseUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, SaverError> {
        let prefers = url.contains("sslmode=prefer");
        let (url, file) = split_root_file(url);
        // The parser's own message could quote the password.
        let mut config: Config = url.parse().map_err(|_| {
            unusable(
                "the database",
                "its URL is invalid: write `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, percent-encode special characters \
                of the password, and remove unsupported parameters such as `sslcert` and `sslkey`",
            )
        })?;
        let place = place(&config);
        let wanted = !matches!(config.get_ssl_mode(), SslMode::Disable | SslMode::Prefer);
        let direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
        if prefers {
            let hint = "write `sslmode=require` to encrypt, or `sslmode=disable` to connect without encryption";
            return Err(unusable(
                &place,
                format!("its URL has `sslmode=prefer`, which does not guarantee encryption: {hint}"),
            ));
        }
        let roots = match (wanted, file) {
            (false, Some(_)) => {
                return Err(unusable(
                    &place,
                    "its URL has `sslrootcert` but does not require encryption: add `sslmode=require` to the URL",
                ));
            }
            (false, None) if direct => {
                return Err(unusable(
                    &place,
                    "its URL has `sslnegotiation=direct` but does not require encryption: add `sslmode=require` to the URL",
                ));
            }
            (true, Some(file)) if file != "system" => Some(Roots::File(file)),
            (true, _) => Some(Roots::System),
            (false, None) => None,
        };
        // As in libpq, connections through a Unix socket are not encrypted. If the URL has an address, the driver uses
        // no socket.
        let is_local = |host: &Host| !matches!(host, Host::Tcp(_));
        let local = config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(is_local);
        if roots.is_some() && !local && (config.get_hosts().is_empty() || config.get_hosts().iter().any(is_local)) {
            return Err(unusable(
                &place,
                "its URL requires encryption but has no host name: write the host name of the server's certificate as the host",
            ));
        }
        let roots = roots.filter(|_| !local);
        config.ssl_mode(if roots.is_some() { SslMode::Require } else { SslMode::Disable });
        Ok(Self { config, place, roots })
    }
}

/// Removes parameters that the driver does not know. Returns the value of `sslrootcert`. Replaces libpq's names for
/// modes that check certificates, because this driver always checks them.
fn split_root_file(url: &str) -> (String, Option<String>) {
    let Some((before, query)) = url.rsplit_once('?') else { return (url.to_owned(), None) };
    let (mut kept, mut file) = (Vec::new(), None);
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", "verify-ca" | "verify-full")) => kept.push("sslmode=require"),
            Some(("sslrootcert", path)) => file = Some(percent_decode_str(path).decode_utf8_lossy().into_owned()),
            _ => kept.push(pair),
        }
    }
    (format!("{before}?{}", kept.join("&")), file)
}

/// Returns `Postgres DATABASE at HOST`: the parts of the URL that errors may contain.
fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| {
        let port = config.get_ports().get(number).or(config.get_ports().first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        }
    });
    let hosts: Vec<_> = hosts.collect();
    format!("Postgres `{}` at {}", config.get_dbname().unwrap_or("(default)"), hosts.join(", "))
}

pub(crate) fn unusable(place: &str, reason: impl Into<String>) -> SaverError {
    SaverError::Unusable { place: place.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots_of(url: &str) -> Result<Option<Roots>, String> {
        DatabaseUrl::parse(url).map(|address| address.roots).map_err(|error| error.to_string())
    }

    #[test]
    fn url_determines_encryption() {
        for plain in
            ["postgres://me@host/db", "postgres://me@host/db?connect_timeout=3", "postgres://me@host?sslmode=disable"]
        {
            assert_eq!(roots_of(plain), Ok(None), "{plain}");
        }
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://me:a%3Fb@host/db?connect_timeout=3&sslmode={mode}");
            assert_eq!(roots_of(&url), Ok(Some(Roots::System)), "{mode}");
            assert_eq!(roots_of(&format!("{url}&sslrootcert=system")), Ok(Some(Roots::System)), "{mode}");
            let file = Roots::File("/my certs/ca.pem".to_owned());
            assert_eq!(roots_of(&format!("{url}&sslrootcert=/my%20certs/ca.pem")), Ok(Some(file)), "{mode}");
        }
        assert_eq!(roots_of("host=/run/postgresql dbname=db sslmode=require"), Ok(None));
        assert_eq!(roots_of("postgres://me@host/db?hostaddr=10.0.0.5&sslmode=require"), Ok(Some(Roots::System)));
        // A question mark may be part of a password.
        assert_eq!(roots_of("postgres://me:a?sslmode=require@host/db"), Ok(None));
    }

    #[test]
    fn invalid_url_is_refused_without_its_password() {
        for wrong in [
            "host/db?sslmode=maybe",
            "host/db?sslmode=prefer",
            "host/db?sslrootcert=ca.pem",
            "host/db?sslnegotiation=direct",
            "host/db?sslmode=require&sslcert=me.pem",
            // The driver uses the address instead of the socket, so the name of the server is unknown.
            "/db?hostaddr=10.0.0.5&sslmode=require",
            "%2Frun%2Fpostgresql/db?hostaddr=10.0.0.5&sslmode=require",
        ] {
            let url = &format!("postgres://me:secret@{wrong}");
            let error = roots_of(url).expect_err(url);
            assert!(error.contains("URL") && !error.contains("secret"), "{error}");
        }
    }
}
