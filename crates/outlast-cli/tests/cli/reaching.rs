//! How the program finds its database and password, and read-only databases.

use crate::support::{Ran, Site, bare};
use outlast_testbed::shared::{connect, unique_schema, url};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

const WARNING: &str = "read a password on the command line";

/// Returns the URL with this password. A server that asks for no password accepts any.
fn with_password(url: &str, password: &str) -> String {
    let (user, rest) = url
        .strip_prefix("postgres://")
        .unwrap()
        .split_once('@')
        .unwrap();
    let user = user.split(':').next().unwrap();
    format!("postgres://{user}:{password}@{rest}")
}

#[tokio::test]
async fn only_a_password_on_the_command_line_causes_a_warning() {
    let site = Site::postgres().await;
    let url = with_password(site.database(), "hunter2");
    let shown = Ran::of({
        let mut command = site.command(["count", "-d", &url]);
        command.env_remove("OUTLAST_DATABASE");
        command
    });
    let shown = shown.succeeds();
    assert!(shown.err().contains(WARNING), "{}", shown.err());
    assert!(!shown.err().contains("hunter2"), "{}", shown.err());
    let mut named = site.command(["count"]);
    named.env("OUTLAST_DATABASE", &url);
    let named = Ran::of(named).succeeds();
    assert!(!named.err().contains(WARNING), "{}", named.err());
    let file = site.folder.path().join("database");
    fs::write(&file, format!("{url}\n")).unwrap();
    let at = format!("@{}", file.display());
    let mut in_file = site.command(["count", "-d", &at]);
    in_file.env_remove("OUTLAST_DATABASE");
    let in_file = Ran::of(in_file).succeeds();
    assert!(!in_file.err().contains(WARNING), "{}", in_file.err());
    site.clear().await;
}

#[test]
fn a_file_that_names_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "\n").unwrap();
    for (file, expected) in [
        (empty, "it must name the database"),
        (
            folder.path().join("missing"),
            "cannot read the database from file",
        ),
    ] {
        let mut command = bare();
        command.args(["count", "-d", &format!("@{}", file.display())]);
        let ran = Ran::of(command).ends_with(2);
        assert!(ran.err().contains(expected), "{}", ran.err());
    }
}

/// The server of the tests asks for no password. A fake server asks for it and records the answer.
#[test]
fn the_password_is_read_from_the_environment_or_a_pgpass_file() {
    let folder = tempfile::tempdir().unwrap();
    let passfile = folder.path().join("pgpass");
    fs::write(&passfile, "*:*:shop:ada:hunter2\n").unwrap();
    let ask = |mode: u32, variables: &[(&str, &str)]| {
        fs::set_permissions(&passfile, Permissions::from_mode(mode)).unwrap();
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let password = std::thread::spawn(move || received_password(&server));
        let mut command = bare();
        command.args(["count", "-d"]);
        command.arg(format!(
            "postgres://ada@127.0.0.1:{port}/shop?sslmode=disable&connect_timeout=2"
        ));
        command.env_remove("PGPASSWORD").env_remove("PGPASSFILE");
        command
            .env("HOME", folder.path())
            .envs(variables.iter().copied());
        let ran = Ran::of(command);
        (password.join().unwrap(), ran)
    };
    let file = passfile.display().to_string();
    let (password, _) = ask(0o600, &[("PGPASSFILE", &file)]);
    assert_eq!(password.as_deref(), Some("hunter2"));
    let (password, _) = ask(0o600, &[("PGPASSFILE", &file), ("PGPASSWORD", "swordfish")]);
    assert_eq!(password.as_deref(), Some("swordfish"));
    let (password, ran) = ask(0o644, &[("PGPASSFILE", &file)]);
    assert_eq!(password, None, "others may read the file");
    assert!(ran.err().contains("chmod 0600"), "{}", ran.err());
    fs::rename(&passfile, folder.path().join(".pgpass")).unwrap();
    fs::copy(folder.path().join(".pgpass"), &passfile).unwrap();
    fs::set_permissions(folder.path().join(".pgpass"), Permissions::from_mode(0o600)).unwrap();
    let (password, _) = ask(0o600, &[]);
    assert_eq!(password.as_deref(), Some("hunter2"), "~/.pgpass");
}

/// Asks a client for its password in clear text, and returns the received password.
fn received_password(server: &std::net::TcpListener) -> Option<String> {
    use std::io::{Read, Write};
    let (mut peer, _) = server.accept().ok()?;
    let mut length = [0; 4];
    peer.read_exact(&mut length).ok()?;
    let mut startup = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()? - 4];
    peer.read_exact(&mut startup).ok()?;
    // The message AuthenticationCleartextPassword.
    peer.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 3]).ok()?;
    let mut head = [0; 5];
    peer.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let mut password = vec![0; usize::try_from(length).ok()? - 4];
    peer.read_exact(&mut password).ok()?;
    password.pop();
    String::from_utf8(password).ok()
}

#[tokio::test]
async fn a_read_only_database_can_be_read_and_examined() {
    let database = unique_schema();
    let admin = connect(&url()).await;
    admin
        .batch_execute(&format!("create database {database}"))
        .await
        .unwrap();
    let (base, _) = url()
        .rsplit_once('/')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let place = format!("{base}/{database}");
    let run = |arguments: &[&str]| {
        let mut command = bare();
        command.args(arguments).env("OUTLAST_DATABASE", &place);
        Ran::of(command)
    };
    run(&["migrate"]).succeeds();
    let id = run(&["insert", "clerk", "start"]).succeeds().line();
    let sql = format!("alter database {database} set default_transaction_read_only = on");
    admin.batch_execute(&sql).await.unwrap();
    assert_eq!(run(&["count"]).succeeds().line(), "1");
    for reading in [
        &["get", &*id][..],
        &["list"],
        &["tree", &id],
        &["queues"],
        &["workers"],
    ] {
        run(reading).succeeds();
    }
    let doctor = run(&["doctor"]).ends_with(1);
    assert!(
        doctor.out().contains("default_transaction_read_only"),
        "{}",
        doctor.out()
    );
    for writing in [
        &["insert", "clerk", "start"][..],
        &["cancel", &id],
        &["queues", "pause", "a"],
    ] {
        let refused = run(writing).ends_with(5);
        assert!(refused.err().contains("read-only"), "{}", refused.err());
    }
    admin
        .batch_execute(&format!("drop database {database} with (force)"))
        .await
        .unwrap();
}
