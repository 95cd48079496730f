//! TLS by rustls. `sslmode` means the same as in PostgreSQL's other clients.
//!
//! The driver decides whether a connection is encrypted. This file decides which certificates are
//! accepted.

use outlast_core::Error;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Whether the server's certificate is checked, and against which roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// `sslmode=prefer` or `require` without a root certificate: encrypted, not checked.
    Anyone,
    /// `sslmode=verify-full` without a root certificate: the roots of the system.
    SystemRoots,
    /// The root certificate in this file.
    Roots(PathBuf),
}

/// Returns the connector for this trust.
///
/// A root certificate that cannot be read is an error. No connection may be made without the check
/// that the URL asks for.
pub(crate) fn connector(trust: &Trust) -> Result<MakeRustlsConnect, Error> {
    // Named, not the process's default: another crate of the program may have set that, or two
    // crates may have left it undecided, which panics.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS cannot be set up".into(), error.into()))?;
    let config = match trust {
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
            .with_no_client_auth(),
        Trust::SystemRoots => builder
            .with_root_certificates(system_roots())
            .with_no_client_auth(),
        Trust::Roots(path) => builder
            .with_root_certificates(roots_of(path)?)
            .with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Returns the certificates of the system. Without any, every connection is refused.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn roots_of(path: &Path) -> Result<RootCertStore, Error> {
    let unreadable = |error: String| {
        unusable(
            format!(
                "the root certificate {} cannot be read: {error}",
                path.display()
            ),
            error.into(),
        )
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| unreadable(e.to_string()))? {
        let certificate = certificate.map_err(|e| unreadable(e.to_string()))?;
        roots
            .add(certificate)
            .map_err(|e| unreadable(e.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("it holds no certificate".into()));
    }
    Ok(roots)
}

fn unusable(reason: String, source: outlast_core::Source) -> Error {
    Error::Unusable {
        operation: "connect",
        reason,
        source: Some(source),
    }
}

/// Accepts any certificate, as `sslmode=require` does in PostgreSQL's clients.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    // The signatures are checked even so: the peer must have the key of its own certificate.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
