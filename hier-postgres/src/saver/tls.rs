//! Encrypted connections. The certificate of the server and its name are always checked.

use std::sync::Arc;

use hier_checkpoint::checkpoint::SaverError;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls_improved::MakeRustlsConnect;

use super::address::{Roots, unusable};

/// Makes a connector for servers whose certificates lead to these roots.
pub(crate) fn connector(roots: &Roots, place: &str) -> Result<MakeRustlsConnect, SaverError> {
    let certificates = match roots {
        Roots::System => system_roots(),
        Roots::File(path) => roots_in_file(path),
    };
    let roots = certificates.map_err(|reason| unusable(place, reason))?;
    // The provider is explicit, because another crate of the program may add a second one.
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(place, error.to_string()))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // Servers from version 17 on require this for direct negotiation.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "this machine has no root certificates: install `ca-certificates`, or set `sslrootcert=FILE` in the URL \
                    to the file with the root certificate of the server"
                .to_owned(),
        );
    }
    Ok(roots)
}

fn roots_in_file(path: &str) -> Result<RootCertStore, String> {
    let unreadable = |error: &dyn std::fmt::Display| {
        format!(
            "the file `{path}` (`sslrootcert` in its URL) is invalid: {error}; it must contain certificates in PEM format"
        )
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if roots.is_empty() { Err(unreadable(&"it contains no certificate")) } else { Ok(roots) }
}
