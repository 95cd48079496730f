//! What a router is told when it is made.

use crate::auth::{Token, Tokens};
use crate::limits::Limits;
use crate::signature::WebhookRoute;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Settings of a router. The default is closed: without tokens only connections from this machine are answered.
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
    /// The defaults.
    pub fn new() -> Settings {
        Settings::default()
    }

    /// Lets in whoever has this token's secret. With one or more tokens nobody else is let in.
    pub fn token(mut self, token: Token) -> Settings {
        self.tokens.add(token);
        self
    }

    /// The application that this router is mounted in decides who comes this far; whoever does may do everything.
    /// Tokens are not asked for.
    pub fn authentication_is_the_hosts(mut self) -> Settings {
        self.authentication_is_the_hosts = true;
        self
    }

    /// Answers requests whose `Host` is this name, beside the names of this machine; `outlast.example.com`, with a
    /// port or, for any port, without. Once one is named, no others are answered.
    pub fn allow_host(mut self, host: impl Into<String>) -> Settings {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Lets pages of this origin change things, beside the dashboard's own: `https://outlast.example.com`. Needed
    /// where a proxy changes the `Host` header.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Settings {
        let origin = origin.into().to_ascii_lowercase();
        self.origins.push(origin.trim_end_matches('/').to_owned());
        self
    }

    /// Where the router is for a browser: needed only where a proxy takes a prefix away before this process sees it.
    /// A prefix within the application is found by itself.
    pub fn base_path(mut self, path: impl Into<String>) -> Settings {
        self.base_path = Some(path.into().trim_end_matches('/').to_owned());
        self
    }

    /// Takes signed messages at `/v1/webhooks/{name}` and turns them into signals.
    pub fn webhook(mut self, name: impl Into<String>, route: WebhookRoute) -> Settings {
        self.webhooks.insert(name.into(), route);
        self
    }

    /// What `/metrics` answers, in the text format of Prometheus: with the crate `metrics-exporter-prometheus`,
    /// `move || handle.render()`. Figures are of the whole process.
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Settings {
        self.metrics = Some(Arc::new(render));
        self
    }

    /// With these bounds.
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
