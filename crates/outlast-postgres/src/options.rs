//! Connection options, URL parsing, and the checks before the store is used.
//!
//! A URL holds a password. No error, log or `Debug` may show it, or a part that may be secret.

use crate::connection::connect::Connector;
use crate::connection::passfile;
use crate::connection::tls::{self, Trust};
use crate::connection::{Connections, Pool};
use crate::doctor::write_check::FullDisk;
use crate::error::Failure;
use crate::hints::listen::Channel;
use crate::migrate;
use crate::roles::{self, Roles};
use crate::session::Session;
use crate::session::conductor::Conductor;
use crate::session::statement::{Texts, Timekeeper};
use crate::session::tx_settings::TimeLimits;
use crate::store::Postgres;
use crate::transaction::Schema;
use deadpool::Runtime;
use deadpool::managed::{QueueMode, Timeouts};
use outlast_core::{Clock, Error, Invalid};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Options for connecting. Made by [`Postgres::options`].
#[derive(Clone)]
pub struct Options {
    config: Config,
    trust: Trust,
    schema: String,
    max_connections: usize,
    connection_wait: Duration,
    limits: TimeLimits,
    migrations: Migrations,
    named: bool,
    enqueue_only: bool,
    read_only: bool,
    listening: Listening,
    clock: Option<Arc<dyn Clock>>,
    conductor: Option<Arc<dyn Conductor>>,
}

/// How the store listens for hints of other nodes.
#[derive(Clone)]
enum Listening {
    /// On the address of the store.
    Same,
    /// On a separate address.
    At(Box<Config>, Trust),
    /// Not at all. The store sends no hints either.
    Never,
}

/// What connecting does about the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migrations {
    /// Migrates the schema to this version.
    #[default]
    Run,
    /// Refuses to start if the schema is older. An operator runs the migrations.
    Check,
}

impl Options {
    pub(crate) fn parse(url: &str) -> Result<Options, Error> {
        let (config, trust) = parse_url(url)?;
        Ok(Options {
            config,
            trust,
            schema: "outlast".into(),
            max_connections: 10,
            connection_wait: Duration::from_secs(30),
            limits: TimeLimits::default(),
            migrations: Migrations::default(),
            named: true,
            enqueue_only: false,
            read_only: false,
            listening: Listening::Same,
            clock: None,
            conductor: None,
        })
    }

    /// Sets the schema that holds the tables. Default: `outlast`.
    pub fn schema(mut self, schema: impl Into<String>) -> Options {
        self.schema = schema.into();
        self
    }

    /// Sets the maximum number of connections. Default: 10.
    pub fn max_connections(mut self, max: usize) -> Options {
        self.max_connections = max;
        self
    }

    /// Sets how long a verb waits for a free connection. Default: 30 s.
    ///
    /// After that the verb returns a transient error.
    pub fn connection_wait(mut self, wait: Duration) -> Options {
        self.connection_wait = wait;
        self
    }

    /// Sets how long a statement waits for a lock. Default: 10 s.
    ///
    /// After that the verb rolls back and returns a transient error.
    pub fn lock_timeout(mut self, timeout: Duration) -> Options {
        self.limits.lock = timeout;
        self
    }

    /// Sets how long a statement runs, including waits. Default: 60 s.
    ///
    /// After that the verb rolls back and returns a transient error. Queries of
    /// [`Inspect`](outlast_core::Inspect) never run longer than 10 s.
    pub fn statement_timeout(mut self, timeout: Duration) -> Options {
        self.limits.statement = timeout;
        self
    }

    /// Sets what connecting does about the schema. Default: [`Migrations::Run`].
    pub fn migrations(mut self, migrations: Migrations) -> Options {
        self.migrations = migrations;
        self
    }

    /// Never prepares statements by name.
    ///
    /// Behind a pooler in transaction mode, the store detects this by itself. The option saves the
    /// failed attempt.
    pub fn without_named_statements(mut self) -> Options {
        self.named = false;
        self
    }

    /// Starts and signals instances through the schema's functions.
    ///
    /// For a role without rights to any table ([`Roles::enqueuer`]). A function also says what
    /// became of updates. All other verbs need those rights. Each row costs a function call, so a
    /// role with rights to the tables is faster without this option.
    pub fn enqueue_only(mut self) -> Options {
        self.enqueue_only = true;
        self
    }

    /// Listens for hints of other nodes on this address.
    ///
    /// For a store whose URL leads through a pooler in transaction mode: give a direct URL to the
    /// same database.
    pub fn listen_url(mut self, url: &str) -> Result<Options, Error> {
        let (config, trust) = parse_url(url)?;
        self.listening = Listening::At(Box::new(config), trust);
        Ok(self)
    }

    /// Neither sends hints to other nodes nor listens to them. Default: off.
    ///
    /// This saves a connection. Workers then find work by polling only.
    pub fn without_notifications(mut self) -> Options {
        self.listening = Listening::Never;
        self
    }

    /// Returns whether a password is known.
    ///
    /// It comes from the URL or from [`find_password`](Options::find_password).
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Looks for a missing password where PostgreSQL's own programs do.
    ///
    /// The places are `PGPASSWORD`, the file that `PGPASSFILE` names, and `~/.pgpass`. A file that
    /// other users may read is not used.
    pub fn find_password(mut self) -> Options {
        if !self.has_password()
            && let Some(password) = passfile::find(&self.config)
        {
            self.config.password(password);
        }
        self
    }

    /// Also connects to a server that takes no writes, such as a standby. Default: off.
    ///
    /// Queries work, and verbs that write fail. No migration runs.
    pub fn read_only(mut self) -> Options {
        self.read_only = true;
        self
    }

    /// Uses this clock instead of the server's. For tests.
    ///
    /// The schema's functions still use the server's clock. [`transaction`](crate::transaction)
    /// and [`enqueue_only`](Options::enqueue_only) call them.
    pub fn clock(mut self, clock: impl Clock) -> Options {
        self.clock = Some(Arc::new(clock));
        self
    }

    #[doc(hidden)]
    pub fn conductor(mut self, conductor: Arc<dyn Conductor>) -> Options {
        self.conductor = Some(conductor);
        self
    }

    /// Connects, checks that the database is usable, and migrates or checks its schema.
    pub async fn connect(self) -> Result<Postgres, Error> {
        self.check().map_err(|invalid| invalid.during("connect"))?;
        let pool = self.pool()?;
        // Before the migrations: on an old server or a standby, their error would hide the cause.
        let server = check_server(&pool).await?;
        if !self.read_only {
            server.refuse_read_only()?;
        }
        match self.migrations {
            Migrations::Run if !self.read_only => {
                migrate::run(&pool, &self.schema, self.limits.lock).await?
            }
            Migrations::Run | Migrations::Check => {
                migrate::check(&pool, &self.schema, self.limits.lock).await?
            }
        }
        let channel = Channel::new(&self.schema, self.listening()?);
        let timekeeper = match self.clock {
            Some(_) => Timekeeper::Test,
            None => Timekeeper::Server,
        };
        Ok(Postgres::new(
            Session {
                pool,
                channel,
                full_disk: FullDisk::default(),
                transactions: Schema::of(&self.schema),
                texts: Texts::for_schema(&self.schema, timekeeper),
                limits: self.limits,
                clock: self.clock,
                named: AtomicBool::new(self.named),
                enqueue_only: self.enqueue_only,
                conductor: self.conductor,
            },
            self.schema,
        ))
    }

    /// Returns the version of the schema in the database; 0 if there is none. Changes nothing.
    pub async fn schema_version(&self) -> Result<usize, Error> {
        self.check().map_err(|invalid| invalid.during("connect"))?;
        migrate::find_version(&self.pool()?, &self.schema, self.limits.lock).await
    }

    /// Grants these roles their rights in the schema, which must be migrated.
    ///
    /// The schema's owner calls this after every migration.
    pub async fn grant(&self, roles: &Roles) -> Result<(), Error> {
        self.check().map_err(|invalid| invalid.during("grant"))?;
        roles::give(&self.pool()?, &self.schema, roles, self.limits.lock).await
    }

    fn check(&self) -> Result<(), Invalid> {
        check_schema_name(&self.schema)?;
        if self.max_connections == 0 {
            return Err(Invalid::new(
                "max_connections",
                "is 0; a store needs at least one",
            ));
        }
        self.limits.check()
    }

    fn listening(&self) -> Result<Option<Connector>, Error> {
        let (config, trust) = match &self.listening {
            Listening::Same => (&self.config, &self.trust),
            Listening::At(config, trust) => (&**config, trust),
            Listening::Never => return Ok(None),
        };
        Ok(Some(Connector::new(config, tls::connector(trust)?)))
    }

    fn pool(&self) -> Result<Pool, Error> {
        // Nothing connects yet: the pool makes its first connection for the first check.
        let connector = Connector::new(&self.config, tls::connector(&self.trust)?);
        Pool::builder(Connections(connector))
            .max_size(self.max_connections)
            // The connection that was used last comes first: its server process is warm.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(self.connection_wait),
                // The connector bounds each host of the URL.
                create: None,
                recycle: Some(Duration::from_secs(5)),
            })
            .build()
            .map_err(|error| Error::Unusable {
                operation: "connect",
                reason: format!("the pool of connections cannot be made: {error}"),
                source: Some(error.into()),
            })
    }
}

impl std::fmt::Debug for Options {
    /// Omits the URL's password. The driver's `Debug` hides it as well.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("config", &self.config)
            .field("schema", &self.schema)
            .field("max_connections", &self.max_connections)
            .field("migrations", &self.migrations)
            .finish_non_exhaustive()
    }
}

/// Parses a URL and fills in the defaults.
fn parse_url(url: &str) -> Result<(Config, Trust), Error> {
    let (url, trust) = take_trust(url);
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        unreadable(&cause.map_or_else(String::new, |cause| unquoted(&cause)))
    })?;
    // An unescaped '@' puts the rest of the password into the host.
    // Connecting would send that part of the password to a name server.
    let is_mistaken = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
    if config.get_hosts().iter().any(is_mistaken) {
        return Err(unreadable(
            "there is an '@' too many; one in a password is written %40",
        ));
    }
    // The driver has no default: a host that drops packets would block for minutes.
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    if config.get_application_name().is_none() {
        config.application_name("outlast");
    }
    Ok((config, trust))
}

/// Returns an error without the URL, which may hold a password.
fn unreadable(why: &str) -> Error {
    let why = match why {
        "" => String::new(),
        why => format!(" ({why})"),
    };
    Invalid::new(
        "the PostgreSQL URL",
        format!(
            "cannot be read{why}; it looks like postgres://user:password@host:5432/database, or host=... user=... password=..."
        ),
    )
    .during("connect")
}

/// Returns the driver's message about a URL, unless it quotes a part of the URL.
///
/// A quoted option name may be half of a password that was not escaped.
fn unquoted(cause: &str) -> String {
    // Options that libpq or JDBC know. Their names are no secrets.
    const OPTIONS_OF_OTHERS: [&str; 12] = [
        "channel_encoding",
        "client_encoding",
        "currentSchema",
        "gssencmode",
        "passfile",
        "replication",
        "schema",
        "service",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslpassword",
    ];
    let names = |name: &&str| cause == format!("unknown option `{name}`");
    let says_where =
        cause.starts_with("invalid value for option") || OPTIONS_OF_OTHERS.iter().any(names);
    match says_where {
        true => cause.to_owned(),
        false if cause.starts_with("unknown option") => "unknown option".into(),
        false => String::new(),
    }
}

/// Takes the parameters out of a URL that libpq knows and the driver does not.
///
/// These are `sslrootcert`, and the modes of `sslmode` that check the certificate.
fn take_trust(url: &str) -> (String, Trust) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), Trust::Anyone);
    };
    let (mut kept, mut root, mut verify) = (Vec::new(), None, false);
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslrootcert", path)) => root = Some(PathBuf::from(percent_decoded(path))),
            // Both check the name too, which is stricter than libpq's `verify-ca`.
            Some(("sslmode", "verify-full" | "verify-ca")) => {
                verify = true;
                kept.push("sslmode=require");
            }
            _ => kept.push(pair),
        }
    }
    let trust = match root {
        Some(path) => Trust::Roots(path),
        None if verify => Trust::SystemRoots,
        None => Trust::Anyone,
    };
    if kept.is_empty() {
        return (base.to_owned(), trust);
    }
    (format!("{base}?{}", kept.join("&")), trust)
}

/// Decodes `%20` and the like. A `%` without two hex digits stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, escaped) {
            (b'%', Some(value)) => {
                decoded.push(value);
                rest = &after[2..];
            }
            _ => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Accepts plain lower-case names: they occur in statements, error messages and command lines.
///
/// The name is put into the text of every statement, so this check is what keeps SQL out of it.
pub(crate) fn check_schema_name(schema: &str) -> Result<(), Invalid> {
    let first_is_fine = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let rest_is_fine = schema
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first_is_fine && rest_is_fine && schema.len() <= 63 && !schema.starts_with("pg_") {
        return Ok(());
    }
    Err(Invalid::new(
        "schema",
        format!(
            "{schema:?} is not a plain name: lower-case letters, digits and '_', at most 63, not starting with a digit or pg_"
        ),
    ))
}

/// Whether a server takes writes.
struct Writable {
    is_standby: bool,
    is_read_only: bool,
}

impl Writable {
    fn refuse_read_only(&self) -> Result<(), Error> {
        if self.is_standby {
            return Err(unusable(
                "the server is a standby and read-only; name the primary, or all servers with target_session_attrs=read-write".into(),
            ));
        }
        if self.is_read_only {
            return Err(unusable(
                "the database is read-only (default_transaction_read_only is on); turn it off for this role or database".into(),
            ));
        }
        Ok(())
    }
}

/// Checks that the server is new enough and that its encoding can hold every text.
///
/// By the simple protocol: a connection is not prepared yet, and this must work behind any pooler.
async fn check_server(pool: &Pool) -> Result<Writable, Error> {
    let client = pool
        .get()
        .await
        .map_err(|e| Failure::Pool(e).during("connect"))?;
    let messages = client
        .simple_query(
            "select current_setting('server_version_num') as version, \
                    current_setting('server_version') as version_text, \
                    current_setting('server_encoding') as encoding, \
                    current_setting('transaction_read_only') as read_only, \
                    pg_is_in_recovery() as standby",
        )
        .await
        .map_err(|error| Failure::from(error).during("connect"))?;
    let get = |column: &str| migrate::first_value(&messages, column).unwrap_or_default();
    if get("version").parse::<u32>().unwrap_or(0) < 140_000 {
        return Err(unusable(format!(
            "the server is PostgreSQL {}; version 14 or later is needed",
            get("version_text")
        )));
    }
    if get("encoding") != "UTF8" {
        return Err(unusable(format!(
            "the database keeps text as {}, which cannot hold every character; create it with encoding 'UTF8'",
            get("encoding")
        )));
    }
    Ok(Writable {
        is_standby: get("standby") == "t",
        is_read_only: get("read_only") == "on",
    })
}

fn unusable(reason: String) -> Error {
    Error::Unusable {
        operation: "connect",
        reason,
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_name_is_plain_or_refused() {
        for name in ["outlast", "_o", "tenant_42"] {
            assert!(check_schema_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "Outlast",
            "4ever",
            "a-b",
            "a\"b",
            "a.b",
            "pg_x",
            "ü",
            &"x".repeat(64),
        ] {
            assert!(check_schema_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn sslmode_means_the_same_as_in_other_clients() {
        let trust = |url: &str| take_trust(url);
        assert_eq!(trust("postgres://h/d").1, Trust::Anyone);
        assert_eq!(
            trust("postgres://h/d?sslmode=verify-full&connect_timeout=3"),
            (
                "postgres://h/d?sslmode=require&connect_timeout=3".into(),
                Trust::SystemRoots
            )
        );
        assert_eq!(
            trust("postgres://h/d?sslrootcert=/a%20b.pem&sslmode=require"),
            (
                "postgres://h/d?sslmode=require".into(),
                Trust::Roots("/a b.pem".into())
            )
        );
        assert_eq!(
            trust("postgres://h/d?sslrootcert=/a%zz").1,
            Trust::Roots("/a%zz".into())
        );
    }

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_showing_its_password() {
        for url in [
            "postgres://me:hunter2@host:port/db",
            "postgres://me:hunter2@host/db?what=1",
            "postgres://me:hun@ter2@host/db",
            "postgres://me@host/db?password=hunter2&ter2=1",
            "postgres://me@host/db?password=hunter2&port=ter2",
            "postgres://me@host/db?hunter2",
            "host=h password=hun ter2=1",
            "host=h password='hunter2",
            "host=h password=hunter2 sslmode=ter2",
            "hunter2",
            "mysql://me:hunter2@host/db",
        ] {
            let error = Options::parse(url).expect_err(url);
            for text in [error.to_string(), format!("{error:?}"), chain(&error)] {
                assert!(!text.contains("ter2"), "{url}: {text}");
                assert!(text.contains("the PostgreSQL URL"), "{url}: {text}");
            }
        }
        let known = Options::parse("postgres://h/d?sslcert=x").unwrap_err();
        assert!(known.to_string().contains("`sslcert`"), "{known}");
    }

    #[test]
    fn options_show_no_password_however_it_was_given() {
        for url in [
            "postgres://me:hunter2@host/db",
            "postgres://me:%68unter2@host/db",
            "postgres://me:hunter2#/@host:/db",
            "postgres://me:%68unter2%ff@host/db",
            "postgres://me@host/db?password=hunter2",
            "postgres://me@host/db?password=%68unter2&sslmode=verify-full&sslrootcert=/x",
            "host=host user=me password=hunter2 dbname=db",
            "host=host user=me password='hunter2 \\'' dbname=db",
        ] {
            let options = Options::parse(url).unwrap();
            let password = options.config.get_password().unwrap();
            assert!(password.starts_with(b"hunter2"), "{url}");
            let listening = options.clone().listen_url(url).unwrap();
            for text in [format!("{options:?}"), format!("{listening:#?}")] {
                assert!(!text.contains("hunter2"), "{url}: {text}");
                assert!(!text.contains("%68"), "{url}: {text}");
            }
        }
    }

    fn chain(error: &dyn std::error::Error) -> String {
        let source = error.source().map(chain).unwrap_or_default();
        format!("{error} {source}")
    }
}
