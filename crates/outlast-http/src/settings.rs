//! The settings of a router.

use crate::access::signature::WebhookRoute;
use crate::access::tokens::{Token, Tokens};
use crate::limits::Limits;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Settings of a router. By default it is closed: without tokens, only connections from this
/// machine are served.
#[derive(Clone, Default)]
pub struct Settings {
    pub(crate) tokens: Tokens,
    pub(crate) authentication_is_the_hosts: bool,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) base_path: Option<String>,
    pub(crate) webhooks: BTreeMap<String, WebhookRoute>,
    pub(crate) metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    pub(crate) limits: Limits,
}

impl Settings {
    /// Returns the defaults.
    pub fn new() -> Settings {
        Settings::default()
    }

    /// Accepts callers with this token's secret. With one or more tokens, every caller needs one.
    pub fn token(mut self, token: Token) -> Settings {
        self.tokens.add(token);
        self
    }

    /// Leaves authentication to the application that mounts this router: every request may do
    /// everything. The router checks no tokens.
    pub fn authentication_is_the_hosts(mut self) -> Settings {
        self.authentication_is_the_hosts = true;
        self
    }

    /// Serves requests whose `Host` is this name, such as `outlast.example.com`; without a port it
    /// matches any port. The names of this machine stay allowed, and every other host is refused.
    pub fn allow_host(mut self, host: impl Into<String>) -> Settings {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Lets pages of this origin change data, such as `https://outlast.example.com`. Needed where
    /// a proxy changes the `Host` header.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Settings {
        let origin = origin.into().to_ascii_lowercase();
        self.origins.push(origin.trim_end_matches('/').to_owned());
        self
    }

    /// Sets the router's path as a browser sees it. Needed only where a proxy removes a prefix. A
    /// prefix within the application is detected.
    pub fn base_path(mut self, path: impl Into<String>) -> Settings {
        self.base_path = Some(path.into().trim_end_matches('/').to_owned());
        self
    }

    /// Accepts signed messages at `/v1/webhooks/{name}` and turns them into signals.
    pub fn webhook(mut self, name: impl Into<String>, route: WebhookRoute) -> Settings {
        self.webhooks.insert(name.into(), route);
        self
    }

    /// Sets the source of `/metrics`, in the Prometheus text format. With the crate
    /// `metrics-exporter-prometheus`, pass `move || handle.render()`. The metrics are of the whole
    /// process.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Settings {
        self.metrics = Some(Arc::new(render));
        self
    }

    /// Sets the bounds.
    pub fn limits(mut self, limits: Limits) -> Settings {
        self.limits = limits;
        self
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("tokens", &self.tokens)
            .field(
                "authentication_is_the_hosts",
                &self.authentication_is_the_hosts,
            )
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("base_path", &self.base_path)
            .field("webhooks", &self.webhooks)
            .field("metrics", &self.metrics.is_some())
            .field("limits", &self.limits)
            .finish()
    }
}
