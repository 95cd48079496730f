//! `sslmode` means the same as in other PostgreSQL clients.

use crate::support::{raw_to, value_of};
use outlast_core::{ErrorKind, Store};
use outlast_postgres::{Postgres, testing};
use outlast_testbed::cluster::{Cluster, Stop};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a certificate authority and its certificate for `localhost`.
///
/// Without openssl it prints that the test is skipped, and returns `false`.
fn make_certificates(folder: &Path) -> bool {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: no openssl on PATH");
        return false;
    }
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost").unwrap();
    let authority = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority";
    for command in [
        format!("{authority} -keyout root.key -out root.pem"),
        format!("{authority} -keyout other.key -out other.pem"),
        "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr".into(),
        "x509 -req -in server.csr -CA root.pem -CAkey root.key -set_serial 1 -days 2 -extfile names -out server.pem".into(),
    ] {
        let mut openssl = Command::new("openssl");
        let made = openssl.args(command.split(' ')).current_dir(folder).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    true
}

struct Server {
    cluster: Cluster,
    certificates: tempfile::TempDir,
}

impl Server {
    fn url(&self, host: &str, query: &str) -> String {
        format!(
            "postgres://outlast@{host}:{}/postgres?{query}",
            self.cluster.port()
        )
    }

    fn certificate(&self, name: &str) -> PathBuf {
        self.certificates.path().join(name)
    }

    /// Connects, and says whether the connection is encrypted.
    async fn is_encrypted(&self, host: &str, query: &str) -> bool {
        let query = format!("{query}&application_name=tls");
        let store = Postgres::connect(&self.url(host, &query)).await.unwrap();
        store.now().await.unwrap();
        assert!(testing::is_direct(&store).await, "{query}");
        let _listener = store
            .listen()
            .await
            .unwrap()
            .expect("the server supports notifications");
        let raw = raw_to(&self.url("127.0.0.1", "sslmode=disable")).await;
        let encrypted = value_of(
            &raw,
            "select bool_and(s.ssl) from pg_stat_ssl s join pg_stat_activity a using (pid)
              where a.application_name = 'tls'",
        );
        let encrypted = encrypted.await;
        store.close().await;
        outlast_testbed::program::eventually("the connections are gone", || async {
            let left = "select count(*) from pg_stat_activity where application_name = 'tls'";
            value_of::<i64>(&raw, left).await == 0
        })
        .await;
        encrypted
    }

    async fn assert_refused(&self, host: &str, query: &str, message: &str) {
        let error = Postgres::connect(&self.url(host, query)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{query}: {error:?}");
        assert!(error.to_string().contains(message), "{query}: {error}");
    }
}

#[tokio::test]
async fn each_sslmode_encrypts_and_verifies_as_documented() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    let certificates = tempfile::tempdir().unwrap();
    if !make_certificates(certificates.path()) {
        return;
    }
    cluster.start();
    let mut server = Server {
        cluster,
        certificates,
    };
    server
        .assert_refused(
            "localhost",
            "sslmode=require",
            "server does not support TLS; check",
        )
        .await;
    assert!(!server.is_encrypted("localhost", "sslmode=prefer").await);

    server.cluster.stop(Stop::Fast);
    for name in ["server.pem", "server.key"] {
        let content = std::fs::read(server.certificate(name)).unwrap();
        server.cluster.write(&format!("data/{name}"), content);
    }
    let on = "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'";
    server.cluster.configure(on);
    server.cluster.start();

    assert!(!server.is_encrypted("localhost", "sslmode=disable").await);
    assert!(server.is_encrypted("localhost", "sslmode=prefer").await);
    assert!(server.is_encrypted("localhost", "sslmode=require").await);
    // This mode does not verify the name of the server.
    assert!(server.is_encrypted("127.0.0.1", "sslmode=require").await);

    let root = |name: &str| {
        let path = server.certificate(name);
        format!("sslmode=verify-full&sslrootcert={}", path.display())
    };
    assert!(server.is_encrypted("localhost", &root("root.pem")).await);
    let advice = "give the server's root certificate with sslrootcert";
    server
        .assert_refused("localhost", &root("other.pem"), advice)
        .await;
    server
        .assert_refused("localhost", "sslmode=verify-full", advice)
        .await;
    server
        .assert_refused("127.0.0.1", &root("root.pem"), advice)
        .await;
    server
        .assert_refused("localhost", &root("missing.pem"), "cannot be read")
        .await;
    server
        .assert_refused("localhost", &root("names"), "it holds no certificate")
        .await;
}
