//! Encryption of the connection to the database, and the trusted certificates, as given in the URL (TASK-73).

use std::fs;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Check of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CertificateCheck {
    /// No check: any server is accepted.
    Anybody,
    /// The certificate must be signed by a trusted authority.
    Authority,
    /// The certificate must also be for this host.
    Host,
}

/// Parses a URL with `sslmode` (`disable`, `allow`, `prefer`, `require`, `verify-ca` or `verify-full`) and `sslrootcert` (a file with certificates in
/// PEM, or the default `system`). Returns the configuration of the connection and of its encryption.
pub(super) fn read(url: &str) -> Result<(Config, MakeRustlsConnect), String> {
    let (mut other_parameters, mut mode, mut root) = (String::new(), "prefer".to_owned(), None);
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("sslmode", value)) => mode = value.to_owned(),
            Some(("sslrootcert", value)) => root = Some(decoded(value)?),
            _ => {
                other_parameters.push(if other_parameters.is_empty() { '?' } else { '&' });
                other_parameters.push_str(part);
            }
        }
    }
    // tokio_postgres knows only the modes `disable`, `prefer` and `require`.
    let (library_mode, check) = match (mode.as_str(), &root) {
        ("disable", _) => ("disable", CertificateCheck::Anybody),
        ("allow" | "prefer", _) => ("prefer", CertificateCheck::Anybody),
        // As in other clients, `require` checks an authority that the URL names.
        ("require", None) => ("require", CertificateCheck::Anybody),
        ("require" | "verify-ca", _) => ("require", CertificateCheck::Authority),
        ("verify-full", _) => ("require", CertificateCheck::Host),
        (other, _) => {
            return Err(format!(
                "sslmode is disable, allow, prefer, require, verify-ca or verify-full, not `{other}`"
            ));
        }
    };
    other_parameters.push(if other_parameters.is_empty() { '?' } else { '&' });
    let config = Config::from_str(&format!("{base}{other_parameters}sslmode={library_mode}"))
        .map_err(|error| error.to_string())?;
    Ok((config, MakeRustlsConnect::new(client(check, root.as_deref())?)))
}

/// Decodes `%` escapes.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` in the URL is not encoded as URLs are");
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after_first @ ..] = rest {
        rest = after_first;
        let byte = match (first, after_first) {
            (b'%', [high, low, after_escape @ ..]) => {
                rest = after_escape;
                // Not `from_str_radix`: it would accept a sign.
                let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or_else(wrong);
                (digit(high)? << 4 | digit(low)?) as u8
            }
            (b'%', _) => return Err(wrong()),
            (byte, _) => *byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

fn client(check: CertificateCheck, root: Option<&str>) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    if check == CertificateCheck::Host {
        return Ok(builder.with_root_certificates(roots(root)?).with_no_client_auth());
    }
    let authority = match check {
        CertificateCheck::Authority => {
            let roots = Arc::new(roots(root)?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            Some(verifier.map_err(|error| error.to_string())?)
        }
        CertificateCheck::Anybody | CertificateCheck::Host => None,
    };
    let verifier = Arc::new(RelaxedVerifier { provider, authority });
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// Returns the trusted authorities: those of the system, or those in the file `root`.
#[expect(
    clippy::disallowed_methods,
    reason = "the file is the user's, read once before there is a registry"
)]
fn roots(root: Option<&str>) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    match root {
        None | Some("system") => {
            // Unreadable certificates of the system are not trusted.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(path) => {
            let pem = fs::read(path).map_err(|error| format!("sslrootcert `{path}`: {error}"))?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| format!("sslrootcert `{path}`: {error}"))?;
                store
                    .add(certificate)
                    .map_err(|error| format!("sslrootcert `{path}`: {error}"))?;
            }
        }
    }
    match store.is_empty() {
        true => Err("no certificate is trusted: name a file with sslrootcert".to_owned()),
        false => Ok(store),
    }
}

/// Verifier that is less strict than rustls' own, for `require` and `verify-ca`.
#[derive(Debug)]
struct RelaxedVerifier {
    provider: Arc<CryptoProvider>,
    /// Check of the certificate's authority; `None` accepts any certificate.
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for RelaxedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else {
            return Ok(ServerCertVerified::assertion());
        };
        match authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The authority is checked, the host is not.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
