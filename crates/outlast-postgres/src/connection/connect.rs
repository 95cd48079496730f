//! Connecting to a server: tries the hosts of a URL in turn, each for a bounded time.
//!
//! The pool and the listener call this. The driver also tries all hosts, but it bounds only the
//! first step of each. A host that accepts a connection and then hangs would block the failover.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a host may take to finish the login.
///
/// The URL's `connect_timeout` bounds the step before it. A login takes a few round trips, so a
/// host that needs longer hangs, and another one may answer.
pub(crate) const LOGIN_MAX: Duration = Duration::from_secs(5);

/// The driver's keepalive time when a URL sets none. It is far longer than a verb may take.
const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(2 * 60 * 60);

/// Opens connections to a database.
pub(crate) struct Connector {
    config: Config,
    /// One configuration per host, in the order of the URL.
    hosts: Vec<Config>,
    /// Whether each connection tries the hosts in another order (`load_balance_hosts=random`).
    balanced: bool,
    tls: MakeRustlsConnect,
}

type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// The future that drives a connection.
pub(crate) type Driver = Connection<Socket, TlsStream>;

impl Connector {
    pub(crate) fn new(config: &Config, tls: MakeRustlsConnect) -> Connector {
        Connector {
            hosts: one_by_one(&with_keepalives(config)),
            balanced: config.get_load_balance_hosts() == LoadBalanceHosts::Random,
            config: config.clone(),
            tls,
        }
    }

    /// Returns the configuration of the URL.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Connects to the first host that accepts and has the attributes that the URL asks for.
    ///
    /// Returns the error of the last host if none does. Nothing is remembered between two calls: a
    /// host that failed is tried first again, since it may be the primary by now.
    pub(crate) async fn connect(&self) -> Result<(Client, Driver), ConnectError> {
        let mut hosts: Vec<&Config> = self.hosts.iter().collect();
        if self.balanced {
            hosts.sort_by_cached_key(|_| RandomState::new().hash_one(0));
        }
        let mut reason = ConnectError::TimedOut;
        for host in hosts {
            // For each host, not for all of them: the last one gets the same time as the first.
            let patience = host.get_connect_timeout().copied().unwrap_or_default();
            let connecting = host.connect(self.tls.clone());
            reason = match timeout(patience + LOGIN_MAX, connecting).await {
                Ok(Ok(reached)) => return Ok(reached),
                Ok(Err(error)) => ConnectError::Failed(error),
                Err(_) => ConnectError::TimedOut,
            };
        }
        Err(reason)
    }
}

/// The reason why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// The driver or the server returned an error.
    Failed(Error),
    /// No answer came in time.
    TimedOut,
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> ConnectError {
        ConnectError::Failed(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Failed(error) => error.fmt(f),
            ConnectError::TimedOut => f.write_str("the server did not answer in time"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Failed(error) => error.source(),
            ConnectError::TimedOut => None,
        }
    }
}

/// Sets keepalives that detect a dead peer within half a minute, unless the URL sets others.
///
/// The listener needs them most: it only reads, so nothing else shows it that its peer is gone.
/// For a verb, `tcp_user_timeout` bounds how long sent bytes stay without an acknowledgement.
fn with_keepalives(config: &Config) -> Config {
    let mut config = config.clone();
    if config.get_keepalives_idle() == KEEPALIVE_DEFAULT {
        config.keepalives_idle(Duration::from_secs(15));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(Duration::from_secs(5));
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(30));
    }
    config
}

/// Splits a configuration into one per host.
///
/// A configuration that the driver will refuse stays whole, so that the driver can say why.
fn one_by_one(config: &Config) -> Vec<Config> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let ports = config.get_ports();
    let count = hosts.len().max(addresses.len());
    let fits = |given: usize| given == 0 || given == count;
    if count <= 1
        || !fits(hosts.len())
        || !fits(addresses.len())
        || !(ports.len() == 1 || fits(ports.len()))
    {
        return vec![config.clone()];
    }
    let of = |place: usize| {
        let mut only = without_hosts(config);
        match hosts.get(place) {
            None => {}
            Some(Host::Tcp(name)) => {
                only.host(name);
            }
            #[cfg(unix)]
            Some(Host::Unix(path)) => {
                only.host_path(path);
            }
        }
        if let Some(address) = addresses.get(place) {
            only.hostaddr(*address);
        }
        if let Some(port) = ports.get(place).or(ports.first()) {
            only.port(*port);
        }
        only
    };
    (0..count).map(of).collect()
}

/// Copies everything but the hosts. The driver has no way to remove a host.
fn without_hosts(config: &Config) -> Config {
    let mut bare = Config::new();
    if let Some(user) = config.get_user() {
        bare.user(user);
    }
    if let Some(password) = config.get_password() {
        bare.password(password);
    }
    if let Some(database) = config.get_dbname() {
        bare.dbname(database);
    }
    if let Some(options) = config.get_options() {
        bare.options(options);
    }
    if let Some(name) = config.get_application_name() {
        bare.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        bare.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        bare.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        bare.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        bare.keepalives_retries(retries);
    }
    bare.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(url: &str) -> Vec<Config> {
        one_by_one(&url.parse().unwrap())
    }

    #[test]
    fn each_host_gets_every_option_of_the_url() {
        let rest = "/d?options=-c%20jit%3Doff&application_name=a&sslmode=require&sslnegotiation=direct\
                    &connect_timeout=3&tcp_user_timeout=4&keepalives=1&keepalives_idle=5&keepalives_interval=6\
                    &keepalives_retries=7&target_session_attrs=read-write&channel_binding=require\
                    &load_balance_hosts=random";
        let both = split(&format!("postgres://u:p@one:1,two:2{rest}"));
        let alone = ["one:1", "two:2"].map(|host| {
            let url = format!("postgres://u:p@{host}{rest}");
            url.parse::<Config>().unwrap()
        });
        assert_eq!(both, alone);
        let same_port = split("host=one,two port=7 user=u hostaddr=127.0.0.1,127.0.0.2");
        let ports: Vec<_> = same_port.iter().map(Config::get_ports).collect();
        assert_eq!(ports, [[7], [7]]);
        assert_eq!(
            same_port[1].get_hostaddrs(),
            ["127.0.0.2".parse::<std::net::IpAddr>().unwrap()]
        );
    }

    #[test]
    fn a_url_that_the_driver_refuses_is_passed_on_unchanged() {
        for whole in [
            "host=one,two,three port=1,2",
            "host=one,two hostaddr=127.0.0.1",
        ] {
            assert_eq!(split(whole), [whole.parse::<Config>().unwrap()]);
        }
    }
}
