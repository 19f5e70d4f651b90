//! TLS with rustls: whom to trust, and who we are.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, ServerName,
    pem::{self, PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    engine::error::{Error, Result},
    tools::url::{Host, Url},
};

/// How to speak TLS to the servers of one URL.
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Takes the parameters `ca`, `cert` and `key` out of a URL. They need a scheme that asks for TLS, of
    /// which `secure` is an example.
    pub(crate) fn read(url: &mut Url, is_wanted: bool, secure: &str) -> Result<Option<Arc<Self>>> {
        let mut file = |name| url.take(name).map(PathBuf::from);
        let (authorities, certificate, key) = (file("ca"), file("cert"), file("key"));
        if !is_wanted {
            return match authorities.or(certificate).or(key) {
                None => Ok(None),
                Some(_) => Err(Error::bad_options(format!(
                    "the parameters ca, cert and key need TLS; write {secure}: instead of {}:",
                    secure.trim_end_matches('s')
                ))),
            };
        }
        let identity = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => {
                return Err(Error::bad_options("the parameters cert and key go together"));
            }
        };
        Self::new(authorities.as_deref(), identity).map(|tls| Some(Arc::new(tls)))
    }

    /// Trusts the authorities in this file, or else the system's; shows a certificate if it has one.
    pub(crate) fn new(
        authorities: Option<&Path>,
        identity: Option<(PathBuf, PathBuf)>,
    ) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| unusable(path, error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(Error::bad_options(
                "no certificate authority is known here; name a file with the parameter \"ca\"",
            ));
        }
        // Named, and not left to what other crates of the program may have chosen.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::bad_options("TLS cannot be used").because(error))?
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(&certificate)?;
                let private =
                    PrivateKeyDer::from_pem_file(&key).map_err(|error| unusable(&key, error))?;
                config
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| unusable(&certificate, error))?
            }
        };
        Ok(Self(Arc::new(config)))
    }

    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &Host,
    ) -> Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.name.clone()).map_err(|error| {
            Error::bad_options(format!("{host} is no name a certificate can have")).because(error)
        })?;
        let connected = TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await;
        connected.map_err(|error| match error.get_ref().and_then(|e| e.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(_)) => Error::refused(format!(
                "the certificate of {host} is not trusted; name its authority with the parameter \"ca\""
            ))
            .because(error),
            _ => Error::unreachable(format!("{host} did not agree on TLS"), error),
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read =
        |path| -> Result<Vec<_>, pem::Error> { CertificateDer::pem_file_iter(path)?.collect() };
    let certificates = read(path).map_err(|error| unusable(path, error))?;
    if certificates.is_empty() {
        return Err(Error::bad_options(format!("{} has no certificate in it", path.display())));
    }
    Ok(certificates)
}

fn unusable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::bad_options(format!("{} cannot be used for TLS", path.display())).because(error)
}
